/* Catalogue rows of loss landscapes: linear networks of two layers, whose critical points are known in closed form (Baldi & Hornik 1989). */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 61);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static cj_tensor *inverse(cj_tensor *a) { return cj_solve(a, cj_eye(c, cj_size(a, 0), CJ_F64)); }
static cj_tensor *product(cj_tensor *a, cj_tensor *b, cj_tensor *d) { return cj_matmul(cj_matmul(a, b), d); }

/* Examples are rows: x [n, d], y [n, d]; sums of outer products, not divided by n. */
typedef struct problem {
    cj_tensor *x, *y, *sxx, *syx, *map, *s; /* map = Syx Sxx⁻¹, S = Syx Sxx⁻¹ Sxy */
    double lambda;                          /* weight decay */
} problem;
enum { N = 30, D = 4 };
static problem problem_new(void)
{
    problem p = { .x = normal(CJ_SHAPE(N, D)) };
    p.y = cj_add(cj_matmul(p.x, normal(CJ_SHAPE(D, D))), cj_mul_scalar(normal(CJ_SHAPE(N, D)), 0.5));
    p.sxx = cj_matmul(cj_t(p.x), p.x), p.syx = cj_matmul(cj_t(p.y), p.x);
    p.map = cj_matmul(p.syx, inverse(p.sxx)), p.s = cj_matmul(p.map, cj_t(p.syx));
    return p;
}
/* l(A, B) = 1/(2n) sum |y - A B x|² + lambda (|A|² + |B|²) */
static cj_tensor *loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const problem *p = user;
    cj_tensor *l = cj_mul_scalar(cj_sum(cj_square(cj_sub(p->y, cj_matmul(p->x, cj_t(cj_matmul(in[0], in[1])))))), 0.5 / N);
    return p->lambda > 0 ? cj_add(l, cj_mul_scalar(cj_add(cj_sum(cj_square(in[0])), cj_sum(cj_square(in[1]))), p->lambda)) : l;
}
static double loss_at(problem *p, cj_tensor *a, cj_tensor *b) { return cj_item(loss(c, p, (cj_tensor *[]){ a, b }, 2)); }
/* largest |gradient| with respect to A (0) or B (1) */
static double slope(problem *p, cj_tensor *a, cj_tensor *b, int which)
{
    cj_tensor *in[] = { cj_require_grad(a), cj_require_grad(b) }, *g[2];
    assert_true(cj_grad(loss(c, p, in, 2), in, 2, g));
    return cj_item(cj_max(cj_abs(g[which])));
}
static cj_tensor *best_b(const problem *p, cj_tensor *a) { return cj_matmul(cj_matmul(inverse(cj_matmul(cj_t(a), a)), cj_t(a)), p->map); }
static cj_tensor *best_a(const problem *p, cj_tensor *b)
{
    return cj_matmul(cj_matmul(p->syx, cj_t(b)), inverse(product(b, p->sxx, cj_t(b))));
}
static double least_loss(const problem *p, int64_t rank)
{
    double sum = cj_item(cj_sum(cj_square(p->y))), *lambda = values_of(cj_eigvalsh(p->s));
    for (int64_t i = 0; i < rank; i++) sum -= lambda[D - 1 - i];
    free(lambda);
    return sum / (2 * N);
}
/* vec(B) column by column, as [.., 1] */
static cj_tensor *vec(cj_tensor *m) { return cj_reshape(cj_contiguous(cj_t(m)), CJ_SHAPE(cj_numel(m), 1)); }
static cj_tensor *kron(cj_tensor *a, cj_tensor *b)
{
    cj_tensor *grid = cj_mul(cj_unsqueeze(cj_unsqueeze(a, 1), 3), cj_unsqueeze(cj_unsqueeze(b, 0), 2));
    return cj_reshape(grid, CJ_SHAPE(cj_size(a, 0) * cj_size(b, 0), cj_size(a, 1) * cj_size(b, 1)));
}

/* the loss of one block, the other fixed, and of both as one vector of 2·D·2 numbers */
typedef struct block {
    problem *p;
    cj_tensor *a, *b;
} block;
static cj_tensor *in_a(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    block *k = user;
    return loss(ctx, k->p, (cj_tensor *[]){ in[0], k->b }, n);
}
static cj_tensor *in_b(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    block *k = user;
    return loss(ctx, k->p, (cj_tensor *[]){ k->a, in[0] }, n);
}
static cj_tensor *in_both(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    block *k = user;
    cj_tensor *a = cj_reshape(cj_slice(in[0], 0, 0, 2 * D, 1), CJ_SHAPE(D, 2)),
              *b = cj_reshape(cj_slice(in[0], 0, 2 * D, 4 * D, 1), CJ_SHAPE(2, D));
    return loss(ctx, k->p, (cj_tensor *[]){ a, b }, n);
}
static bool convex(cj_fn fn, block *k, cj_shape shape)
{
    return cj_check_convex(c, fn, k, cj_full(c, -2, shape, CJ_F64), cj_full(c, 2, shape, CJ_F64)).convex;
}

static void land_linear_net(void **state) /* land.linear-net */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    problem p = problem_new();
    cj_tensor *a = normal(CJ_SHAPE(D, 2)), *b = normal(CJ_SHAPE(2, D));
    assert_near(slope(&p, a, best_b(&p, a), 1), 0, 1e-10);
    assert_near(slope(&p, best_a(&p, b), b, 0), 0, 1e-10);
    assert_true(slope(&p, a, b, 0) > 1e-3 && slope(&p, a, b, 1) > 1e-3);
    /* vec(A B Xᵀ) = (X kron A) vec B */
    cj_tensor *error = cj_sub(vec(cj_t(p.y)), cj_matmul(kron(p.x, a), vec(b)));
    assert_near(cj_item(cj_sum(cj_square(error))) / (2 * N), loss_at(&p, a, b), 1e-12 * (1 + loss_at(&p, a, b)));
    double before = loss_at(&p, a, b);
    for (int i = 0; i < 50; i++) {
        b = best_b(&p, a);
        double half = loss_at(&p, a, b);
        a = best_a(&p, b);
        double now = loss_at(&p, a, b);
        assert_true(half <= before + 1e-12 && now <= half + 1e-12);
        before = now;
    }
    assert_near(before, least_loss(&p, 2), 1e-6);
    block k = { &p, normal(CJ_SHAPE(D, 2)), normal(CJ_SHAPE(2, D)) };
    assert_true(convex(in_a, &k, CJ_SHAPE(D, 2)) && convex(in_b, &k, CJ_SHAPE(2, D)));
    assert_false(convex(in_both, &k, CJ_SHAPE(4 * D)));
    /* a wide hidden layer reaches the map of least squares */
    cj_tensor *wide = normal(CJ_SHAPE(D, D + 1)), *x = cj_lstsq(wide, p.map);
    assert_near(distance(cj_matmul(wide, x), p.map), 0, 1e-9);
    assert_near(loss_at(&p, wide, x), least_loss(&p, D), 1e-10);
    /* a bias is a column of ones: the fit then has residuals of mean 0 */
    cj_tensor *with[] = { p.x, cj_ones(c, CJ_SHAPE(N, 1), CJ_F64) }, *ones = cj_cat(with, 2, 1),
              *fit = cj_matmul(ones, cj_lstsq(ones, p.y));
    assert_near(cj_item(cj_max(cj_abs(cj_mean(cj_sub(fit, p.y), .axes = CJ_AXIS(0))))), 0, 1e-12);
    cj_scope_close(s);
}

/* columns i and j of the eigenvectors of S, in ascending order */
static cj_tensor *two_columns(const problem *p, int i, int j)
{
    cj_tensor *u = cj_eigh(p->s).vectors, *both[] = { cj_select(u, 1, i), cj_select(u, 1, j) };
    return cj_stack(both, 2, 1);
}
/* A = U C, B = C⁻¹ Uᵀ Syx Sxx⁻¹ */
static void critical(const problem *p, int i, int j, cj_tensor *mix, cj_tensor **a, cj_tensor **b)
{
    cj_tensor *u = two_columns(p, i, j);
    *a = cj_matmul(u, mix), *b = cj_matmul(cj_matmul(inverse(mix), cj_t(u)), p->map);
}

static void assert_projection(const problem *p, cj_tensor *a, cj_tensor *b, double tolerance)
{
    cj_tensor *pa = cj_matmul(cj_matmul(a, inverse(cj_matmul(cj_t(a), a))), cj_t(a));
    assert_near(distance(cj_matmul(pa, pa), pa), 0, 1e-10);
    assert_near(distance(cj_t(pa), pa), 0, 1e-10);
    double size = cj_item(cj_max(cj_abs(p->s)));
    assert_near(distance(cj_matmul(a, b), cj_matmul(pa, p->map)), 0, tolerance);
    assert_near(distance(cj_matmul(pa, p->s), cj_matmul(p->s, pa)) / size, 0, tolerance);
    assert_near(distance(cj_matmul(pa, p->s), product(pa, p->s, pa)) / size, 0, tolerance);
}

static void land_projection(void **state) /* land.projection */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    problem p = problem_new();
    cj_tensor *a, *b;
    critical(&p, 1, 3, F64(c, CJ_SHAPE(2, 2), 1, 0.4, -0.3, 2), &a, &b);
    assert_projection(&p, a, b, 1e-10);
    cj_tensor *found[] = { cj_keep(normal(CJ_SHAPE(D, 2))), cj_keep(normal(CJ_SHAPE(2, D))) };
    cj_solution out;
    assert_true(cj_lbfgs(c, loss, &p, found, 2, &out, .iterations = 2000, .tolerance = 1e-8));
    /* the last digits by plain descent, which compares no values of the loss */
    assert_true(cj_descent(c, loss, &p, found, 2, &out, .iterations = 20000, .tolerance = 1e-12, .search = CJ_SEARCH_FIXED, .step = 0.02));
    assert_true(out.converged);
    assert_projection(&p, found[0], found[1], 1e-10);
    cj_tensor *random = normal(CJ_SHAPE(D, 2)), *pa = cj_matmul(cj_matmul(random, inverse(cj_matmul(cj_t(random), random))), cj_t(random));
    assert_true(distance(cj_matmul(pa, p.s), cj_matmul(p.s, pa)) > 1e-2); /* elsewhere not */
    cj_release(found[0]), cj_release(found[1]);
    cj_scope_close(s);
}

static void lab_linear_critical(void **state) /* lab.linear-critical */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int pca = 0; pca < 2; pca++) {
        problem p = problem_new();
        if (pca) { /* y = x: the top set is the principal components */
            p.y = p.x, p.syx = p.sxx, p.map = cj_eye(c, D, CJ_F64), p.s = p.sxx;
        }
        double *lambda = values_of(cj_eigvalsh(p.s)), trace = cj_item(cj_sum(cj_square(p.y))), least = INFINITY;
        int sets = 0;
        for (int i = 0; i < D; i++)
            for (int j = i + 1; j < D; j++, sets++) {
                double value = NAN;
                for (int draw = 0; draw < 3; draw++) {
                    cj_tensor *a, *b, *mix = cj_add(normal(CJ_SHAPE(2, 2)), cj_mul_scalar(cj_eye(c, 2, CJ_F64), 4));
                    critical(&p, i, j, mix, &a, &b);
                    assert_near(slope(&p, a, b, 0), 0, 1e-9);
                    assert_near(slope(&p, a, b, 1), 0, 1e-9);
                    value = loss_at(&p, a, b);
                    assert_near(value, (trace - lambda[i] - lambda[j]) / (2 * N), 1e-12 * (1 + trace)); /* whatever C is */
                }
                if (i < D - 2 || j < D - 1) assert_true(value > least_loss(&p, 2) + 1e-9);
                least = fmin(least, value);
            }
        assert_int_equal(sets, 6);
        assert_near(least, least_loss(&p, 2), 1e-10); /* the top two */
        free(lambda);
    }
    cj_scope_close(s);
}

static void lab_linear_decay(void **state) /* lab.linear-decay */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    problem p = problem_new(), decayed = p;
    decayed.lambda = 0.05;
    for (int trial = 0; trial < 5; trial++) {
        cj_tensor *free_[] = { cj_keep(normal(CJ_SHAPE(D, 2))), cj_keep(normal(CJ_SHAPE(2, D))) },
                  *w[] = { cj_keep(free_[0]), cj_keep(free_[1]) };
        cj_solution out;
        assert_true(cj_lbfgs(c, loss, &p, free_, 2, &out, .iterations = 5000, .tolerance = 1e-10));
        assert_true(distance(cj_matmul(cj_t(free_[0]), free_[0]), cj_matmul(free_[1], cj_t(free_[1]))) >
                    1e-2); /* not balanced: any C will do */
        assert_true(cj_lbfgs(c, loss, &decayed, w, 2, &out, .iterations = 5000, .tolerance = 1e-10));
        assert_near(distance(cj_matmul(cj_t(w[0]), w[0]), cj_matmul(w[1], cj_t(w[1]))), 0, 1e-6);
        double sizes = cj_item(cj_sum(cj_square(w[0]))) + cj_item(cj_sum(cj_square(w[1])));
        assert_near(sizes, 2 * cj_item(cj_sum(cj_svdvals(cj_matmul(w[0], w[1])))), 1e-6);
        for (int i = 0; i < 2; i++) cj_release(free_[i]), cj_release(w[i]);
    }
    /* the Hessian is that without decay plus 2 lambda: fewer directions go down */
    block plain = { &p, NULL, NULL }, shifted = { &decayed, NULL, NULL };
    cj_tensor *x = normal(CJ_SHAPE(4 * D)), *h = cj_hessian(c, in_both, &plain, x), *g = cj_hessian(c, in_both, &shifted, x);
    assert_near(distance(cj_sub(g, h), cj_mul_scalar(cj_eye(c, 4 * D, CJ_F64), 2 * decayed.lambda)), 0, 1e-10);
    decayed.lambda = 1e3;
    assert_true(cj_item(cj_min(cj_eigvalsh(cj_hessian(c, in_both, &shifted, x)))) > 0);
    assert_true(cj_item(cj_min(cj_eigvalsh(cj_hessian(c, in_both, &plain, cj_zeros(c, CJ_SHAPE(4 * D), CJ_F64))))) < 0);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(land_linear_net),
        cmocka_unit_test(land_projection),
        cmocka_unit_test(lab_linear_critical),
        cmocka_unit_test(lab_linear_decay),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
