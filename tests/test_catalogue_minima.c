/* Catalogue rows on minima: the finder of critical points, linear networks whose landscape is known, paths between minima, minima near any start. */
#include "experiment.h"

TEST_CONTEXT(.threads = 1, .seed = 79);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }

/* ---- the finder --------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *coordinate(cj_tensor *x, int i) { return cj_select(x, 0, i); }
/* (x² - 1)² + y² */
FUNCTION_OF_X(two_wells, cj_add(cj_square(cj_add_scalar(cj_square(coordinate(x, 0)), -1)), cj_square(coordinate(x, 1))));
/* x³ - 3 x y² */
FUNCTION_OF_X(monkey, cj_sub(cj_pow_scalar(coordinate(x, 0), 3), cj_mul_scalar(cj_mul(coordinate(x, 0), cj_square(coordinate(x, 1))), 3)));
FUNCTION_OF_X(hill, cj_neg(cj_sum(cj_square(x))));

/* Does the function at points around x lie above it (1), below it (-1), or on both sides (0)? */
static int around(cj_fn fn, cj_tensor *x, double radius)
{
    int above = 0, below = 0;
    double here = cj_item(fn(c, NULL, &x, 1));
    for (int i = 0; i < 64; i++) {
        cj_tensor *d = F64(c, CJ_SHAPE(2), radius * cos(i * M_PI / 32), radius * sin(i * M_PI / 32)), *there = cj_add(x, d);
        double value = cj_item(fn(c, NULL, &there, 1));
        above += value > here, below += value < here;
    }
    return below == 0 ? 1 : above == 0 ? -1 : 0;
}

static void land_critical(void **state) /* land.critical */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    int found[3] = { 0 }; /* the minima at -1 and 1, the saddle at 0 */
    for (int i = 0; i < 21; i++) {
        cj_tensor *x = cj_keep(F64(c, CJ_SHAPE(2), -1.5 + 0.15 * i + 0.01, 0.3));
        cj_critical r = cj_critical_point(c, two_wells, NULL, x);
        if (r.converged) {
            int which = (int)lround(value_at(x, 0)) + 1;
            assert_near(value_at(x, 0), which - 1, 1e-8);
            assert_near(value_at(x, 1), 0, 1e-8);
            assert_true(r.kind == (which == 1 ? CJ_CRITICAL_SADDLE : CJ_CRITICAL_MINIMUM) && r.index == (which == 1) && r.flat == 0);
            assert_near(r.smallest, which == 1 ? -4 : 2, 1e-6); /* 12 x² - 4 and 2 */
            assert_near(r.largest, which == 1 ? 2 : 8, 1e-6);
            assert_int_equal(around(two_wells, x, 1e-3), which == 1 ? 0 : 1);
            found[which]++;
        } else assert_int_equal(r.kind, CJ_CRITICAL_NONE);
        cj_release(x);
    }
    assert_true(found[0] > 0 && found[1] > 0 && found[2] > 0);
    cj_tensor *x = cj_keep(F64(c, CJ_SHAPE(2), 0.5, 0.3));
    cj_critical r = cj_critical_point(c, monkey, NULL, x, .tolerance = 1e-12, .flat = 1e-5);
    assert_true(r.converged && r.kind == CJ_CRITICAL_DEGENERATE && r.flat == 2); /* the Hessian is 0 there */
    assert_int_equal(around(monkey, F64(c, CJ_SHAPE(2), 0, 0), 1e-2), 0);        /* up and down in turn */
    r = cj_critical_point(c, hill, NULL, x);
    assert_true(r.kind == CJ_CRITICAL_MAXIMUM && r.index == 2);
    assert_int_equal(around(hill, x, 1e-2), -1);
    assert_int_equal(cj_classify_point(c, two_wells, NULL, F64(c, CJ_SHAPE(2), 0, 0), 0).kind, CJ_CRITICAL_SADDLE);
    assert_refused(CJ_EVALUE, "critical_point: x goes with its scope", cj_critical_point(c, hill, NULL, F64(c, CJ_SHAPE(2), 0, 0)));
    assert_refused(CJ_EVALUE, "classify_point: the function is NULL", cj_classify_point(c, NULL, NULL, x, 0));
    cj_release(x);
    cj_scope_close(s);
}

/* ---- linear networks of two layers: 1/(2n) sum |y - A B x|² (Baldi & Hornik 1989) -------------------------------------------------------------------------------- */

enum { N = 60, D = 4, P = 2 };
typedef struct problem {
    cj_tensor *x, *y, *map, *s; /* examples are rows; map = Syx Sxx⁻¹, S = map Sxy */
    double lambda[D];           /* eigenvalues of S, ascending */
    double total;               /* trace of Syy */
} problem;
static problem problem_new(void)
{
    problem p = { .x = normal(CJ_SHAPE(N, D)) };
    /* singular values apart, so that modes are learned one after the other */
    cj_tensor *size = F64(c, CJ_SHAPE(D), 4, 2, 1, 0.5),
              *target = cj_matmul(cj_mul(cj_qr(normal(CJ_SHAPE(D, D))).q, size), cj_qr(normal(CJ_SHAPE(D, D))).q);
    p.y = cj_matmul(p.x, cj_t(target));
    cj_tensor *sxx = cj_matmul(cj_t(p.x), p.x), *syx = cj_matmul(cj_t(p.y), p.x);
    p.map = cj_t(cj_solve(sxx, cj_t(syx))), p.s = cj_matmul(p.map, cj_t(syx));
    assert_true(cj_to_f64(cj_eigvalsh(p.s), p.lambda, D));
    p.total = cj_item(cj_sum(cj_square(p.y)));
    return p;
}
static double least_loss(const problem *p, int rank)
{
    double sum = p->total;
    for (int i = 0; i < rank; i++) sum -= p->lambda[D - 1 - i];
    return sum / (2 * N);
}
/* layers in[0] (next to y), in[1], …: any depth */
static cj_tensor *linear_loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx;
    const problem *p = user;
    cj_tensor *map = in[0];
    for (int i = 1; i < n; i++) map = cj_matmul(map, in[i]);
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(p->y, cj_matmul(p->x, cj_t(map))))), 0.5 / N);
}
/* A [D, P] and B [P, D] as one vector */
static cj_tensor *as_vector(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    cj_tensor *both[] = { cj_reshape(cj_slice(in[0], 0, 0, D * P, 1), CJ_SHAPE(D, P)),
                          cj_reshape(cj_slice(in[0], 0, D * P, 2 * D * P, 1), CJ_SHAPE(P, D)) };
    return linear_loss(ctx, user, both, 2);
}

static double choose(int n, int k) { return k == 0 ? 1 : choose(n - 1, k - 1) * n / k; }

static void lab_linear_saddles(void **state) /* lab.linear-saddles */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    problem p = problem_new();
    cj_tensor *u = cj_eigh(p.s).vectors;
    int sets = 0;
    for (int i = 0; i < D; i++)
        for (int j = i + 1; j < D; j++, sets++) {
            cj_tensor *column[] = { cj_select(u, 1, i), cj_select(u, 1, j) }, *a = cj_stack(column, 2, 1), *b = cj_matmul(cj_t(a), p.map);
            cj_tensor *flat[] = { cj_reshape(a, CJ_SHAPE(D * P)), cj_reshape(b, CJ_SHAPE(D * P)) };
            cj_critical r = cj_classify_point(c, as_vector, &p, cj_cat(flat, 2, 0), 1e-7);
            assert_true(r.gradient < 1e-9);
            bool top = i == D - 2 && j == D - 1;
            if (top) assert_true(r.index == 0 && r.flat == P * P); /* a minimum, flat along A C, C⁻¹ B */
            else assert_true(r.kind == CJ_CRITICAL_SADDLE && r.index > 0);
        }
    assert_int_equal(sets, 6);
    const double count[] = { 10, 45, 120, 210, 252 };
    for (int k = 1; k <= 5; k++) assert_near(choose(10, k), count[k - 1], 1e-9);
    /* no bad minima with three layers either: descent from 100 starts */
    int reached = 0;
    for (int seed = 0; seed < 100; seed++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *w[] = { cj_keep(cj_mul_scalar(normal(CJ_SHAPE(D, P)), 0.5)), cj_keep(cj_mul_scalar(normal(CJ_SHAPE(P, P)), 0.5)),
                           cj_keep(cj_mul_scalar(normal(CJ_SHAPE(P, D)), 0.5)) };
        cj_solution out;
        cj_lbfgs(c, linear_loss, &p, w, 3, &out, .iterations = 400, .tolerance = 1e-6);
        reached += out.value < least_loss(&p, P) + 1e-5;
        for (int i = 0; i < 3; i++) cj_release(w[i]);
        cj_scope_close(inner);
    }
    assert_int_equal(reached, 100);
    cj_scope_close(s);
}

static void lab_linear_gd(void **state) /* lab.linear-gd */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    problem p = problem_new();
    int reached = 0, plateaus = 0;
    for (int seed = 0; seed < 100; seed++) {
        cj_scope inner = cj_scope_open(c);
        bool small = seed < 5; /* small first weights: the loss waits at the losses of saddles */
        double scale = small ? 1e-6 : 0.3, rate = 0.02;
        /* the gradient flow of the sufficient statistics: dA = -(A B Sxx - Syx) Bᵀ / n, dB = -Aᵀ(A B Sxx - Syx) / n, in plain C: 4 x 2 numbers */
        double *sxx = values_of(cj_matmul(cj_t(p.x), p.x)), *syx = values_of(cj_matmul(cj_t(p.y), p.x)), a[D][P], b[P][D];
        double *da = values_of(cj_mul_scalar(normal(CJ_SHAPE(D, P)), scale)), *db = values_of(cj_mul_scalar(normal(CJ_SHAPE(P, D)), scale));
        memcpy(a, da, sizeof a), memcpy(b, db, sizeof b);
        free(da), free(db);
        int near_saddle[P] = { 0 };
        double loss = INFINITY;
        for (int t = 0; t < 20000; t++) {
            double map[D][D] = { { 0 } }, e[D][D], trace = p.total;
            for (int i = 0; i < D; i++)
                for (int k = 0; k < P; k++)
                    for (int j = 0; j < D; j++) map[i][j] += a[i][k] * b[k][j];
            for (int i = 0; i < D; i++)
                for (int j = 0; j < D; j++) {
                    e[i][j] = -syx[i * D + j];
                    for (int k = 0; k < D; k++) e[i][j] += map[i][k] * sxx[k * D + j];
                    trace += map[i][j] * (e[i][j] - syx[i * D + j]); /* tr(M Sxx Mᵀ) - 2 tr(M Syxᵀ) */
                }
            loss = trace / (2 * N);
            for (int r = 0; r < P; r++)
                near_saddle[r] += fabs(loss - least_loss(&p, r)) < 0.02 * (least_loss(&p, r) - least_loss(&p, r + 1));
            if (loss < least_loss(&p, P) + 5e-7) break;
            double ga[D][P] = { { 0 } }, gb[P][D] = { { 0 } };
            for (int i = 0; i < D; i++)
                for (int k = 0; k < P; k++)
                    for (int j = 0; j < D; j++) ga[i][k] += e[i][j] * b[k][j] / N, gb[k][j] += a[i][k] * e[i][j] / N;
            for (int i = 0; i < D; i++)
                for (int k = 0; k < P; k++) a[i][k] -= rate * ga[i][k], b[k][i] -= rate * gb[k][i];
        }
        reached += fabs(loss - least_loss(&p, P)) < 1e-6;
        if (small) plateaus += near_saddle[0] > 50 && near_saddle[1] > 50;
        free(sxx), free(syx);
        cj_scope_close(inner);
    }
    assert_int_equal(reached, 100);
    assert_int_equal(plateaus, 5);
    cj_scope_close(s);
}

/* whitened inputs: loss 1/2 |D C - G|², G = U S Vᵀ. In that basis, d_r row r of UᵀD, c_q column q of C V: sum over r, q of (d_r·c_q - [r = q] s_r)²/2 */
static void lab_deep_linear_modes(void **state) /* lab.deep-linear-modes */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { R = 3 };
    const double sigma[R] = { 3, 2, 1 };
    cj_tensor *u = cj_qr(normal(CJ_SHAPE(R, R))).q, *v = cj_qr(normal(CJ_SHAPE(R, R))).q,
              *g = cj_matmul(cj_mul(u, f64(c, sigma, CJ_SHAPE(R))), cj_t(v));
    /* balanced: D = U diag(sqrt s0) Q, C = Qᵀ diag(sqrt s0) Vᵀ, and then s(t) = sig e^(2 sig t) / (e^(2 sig t) - 1 + sig/s0) */
    const double s0 = 1e-3, dt = 1e-4, times[] = { 0.5, 1, 1.5, 2.5 };
    cj_tensor *q = cj_qr(normal(CJ_SHAPE(R, R))).q;
    double *dd = values_of(cj_mul_scalar(cj_matmul(u, q), sqrt(s0))), *cc = values_of(cj_mul_scalar(cj_matmul(cj_t(q), cj_t(v)), sqrt(s0))),
           *gamma = values_of(g);
    int at = 0, rise[R] = { 0 };
    for (int t = 1; t <= 40000; t++) { /* Euler's steps of dC = Dᵀ(G - D C), dD = (G - D C) Cᵀ */
        double e[R][R], nd[R][R], nc[R][R];
        for (int i = 0; i < R; i++)
            for (int j = 0; j < R; j++) {
                e[i][j] = gamma[i * R + j];
                for (int k = 0; k < R; k++) e[i][j] -= dd[i * R + k] * cc[k * R + j];
            }
        for (int i = 0; i < R; i++)
            for (int j = 0; j < R; j++) {
                nd[i][j] = dd[i * R + j], nc[i][j] = cc[i * R + j];
                for (int k = 0; k < R; k++) nd[i][j] += dt * e[i][k] * cc[j * R + k], nc[i][j] += dt * dd[k * R + i] * e[k][j];
            }
        memcpy(dd, nd, sizeof nd), memcpy(cc, nc, sizeof nc);
        bool look = at < 4 && fabs(t * dt - times[at]) < dt / 2;
        if (!look && t % 500) continue;
        cj_tensor *left = cj_matmul(cj_t(u), f64(c, dd, CJ_SHAPE(R, R))), *right = cj_matmul(f64(c, cc, CJ_SHAPE(R, R)), v),
                  *modes = cj_matmul(left, right);
        double *m = values_of(modes), split = 0, competitive = 0;
        for (int r = 0; r < R; r++)
            for (int k = 0; k < R; k++)
                if (r == k) split += pow(m[r * R + r] - sigma[r], 2) / 2;
                else competitive += pow(m[r * R + k], 2) / 2;
        double whole = cj_item(cj_sum(cj_square(cj_sub(cj_matmul(f64(c, dd, CJ_SHAPE(R, R)), f64(c, cc, CJ_SHAPE(R, R))), g)))) / 2;
        assert_near(split + competitive, whole, 1e-12 * (1 + whole));
        assert_near(competitive, 0, 1e-12); /* decoupled from the beginning, and so for ever */
        for (int r = 0; r < R; r++) {
            double grown = exp(2 * sigma[r] * t * dt), expected = sigma[r] * grown / (grown - 1 + sigma[r] / s0);
            if (look) assert_near(m[r * R + r], expected, 3e-3 * sigma[r]);
            if (!rise[r] && m[r * R + r] > sigma[r] / 2) rise[r] = t;
        }
        at += look;
        free(m);
    }
    assert_true(at == 4 && rise[0] > 0 && rise[0] < rise[1] && rise[1] < rise[2]); /* in the order of their singular values */
    free(dd), free(cc), free(gamma);
    /* from a random start the competitive terms are there, and go */
    cj_tensor *w[] = { cj_keep(cj_mul_scalar(normal(CJ_SHAPE(R, R)), 0.3)), cj_keep(cj_mul_scalar(normal(CJ_SHAPE(R, R)), 0.3)) };
    double competing[2];
    for (int k = 0; k < 2; k++) {
        cj_tensor *modes = cj_matmul(cj_matmul(cj_t(u), cj_matmul(w[0], w[1])), v), *eye = cj_eye(c, R, CJ_F64);
        competing[k] = cj_item(cj_sum(cj_square(cj_mul(modes, cj_add_scalar(cj_neg(eye), 1))))) / 2;
        for (int t = 0; t < 2000 && !k; t++) {
            cj_scope inner = cj_scope_open(c);
            cj_tensor *e = cj_sub(g, cj_matmul(w[0], w[1])), *more[] = { cj_matmul(e, cj_t(w[1])), cj_matmul(cj_t(w[0]), e) };
            for (int i = 0; i < 2; i++) cj_add_(w[i], more[i], 0.02);
            cj_scope_close(inner);
        }
    }
    assert_true(competing[0] > 1e-3 && competing[1] < 1e-9);
    cj_release(w[0]), cj_release(w[1]);
    cj_scope_close(s);
}

/* ---- valleys -------------------------------------------------------------------------------------------------------------------------------------------------------- */

/* parameters of three, one after the other: (1-t)² a + 2t(1-t) m + t² b, Bézier's curve (Garipov et al. 2018); without m the segment */
typedef struct curve {
    cj_tensor *x, *y;
    cj_tensor *a[4], *b[4];
} curve;
static cj_tensor *net_loss(cj_tensor *x, cj_tensor *y, cj_tensor *const *w)
{
    cj_tensor *h = cj_tanh(cj_add(cj_matmul(x, w[0]), w[1]));
    return cj_cross_entropy(cj_add(cj_matmul(h, w[2]), w[3]), y);
}
static double on_curve(const curve *k, cj_tensor *const *middle, double t)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *w[4];
    for (int i = 0; i < 4; i++) {
        if (middle)
            w[i] = cj_add(cj_add(cj_mul_scalar(k->a[i], (1 - t) * (1 - t)), cj_mul_scalar(middle[i], 2 * t * (1 - t))),
                          cj_mul_scalar(k->b[i], t * t));
        else w[i] = cj_add(cj_mul_scalar(k->a[i], 1 - t), cj_mul_scalar(k->b[i], t));
    }
    double loss = cj_item(net_loss(k->x, k->y, w));
    cj_scope_close(s);
    return loss;
}
/* how far the loss rises above its ends on the way */
static double barrier(const curve *k, cj_tensor *const *middle)
{
    double ends = fmax(on_curve(k, middle, 0), on_curve(k, middle, 1)), top = 0;
    for (int i = 1; i < 40; i++) top = fmax(top, on_curve(k, middle, i / 40.));
    return top - ends;
}
static cj_tensor *curve_loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    const curve *k = user;
    cj_tensor *sum = cj_full(ctx, 0, CJ_SCALAR, CJ_F64);
    for (int p = 1; p <= 7; p++) { /* the mean over fixed places stands for that over t */
        double t = p / 8.;
        cj_tensor *w[4];
        for (int i = 0; i < 4; i++)
            w[i] = cj_add(cj_add(cj_mul_scalar(k->a[i], (1 - t) * (1 - t)), cj_mul_scalar(in[i], 2 * t * (1 - t))),
                          cj_mul_scalar(k->b[i], t * t));
        sum = cj_add(sum, net_loss(k->x, k->y, w));
    }
    return cj_mul_scalar(sum, 1. / 7);
}
static cj_tensor *plain_net(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const curve *k = user;
    return net_loss(k->x, k->y, in);
}

static void lab_connected_minima(void **state) /* lab.connected-minima */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    problem p = problem_new();
    cj_tensor *u = cj_eigh(p.s).vectors, *a = cj_slice(u, 1, D - P, D, 1), *b = cj_matmul(cj_t(a), p.map);
    for (int i = 0; i <= 20; i++) { /* C(t) = a turn and a stretch: A C, C⁻¹ B is the same function */
        double t = i / 5.;
        cj_tensor *mix = F64(c, CJ_SHAPE(2, 2), exp(t / 3) * cos(t), -sin(t), sin(t), exp(-t / 3) * cos(t) + 0.2 * t * t),
                  *inverse = cj_solve(mix, cj_eye(c, 2, CJ_F64));
        cj_tensor *w[] = { cj_matmul(a, mix), cj_matmul(inverse, b) };
        assert_near(cj_item(linear_loss(c, &p, w, 2)), least_loss(&p, P), 1e-12 * (1 + p.total));
        if (i) assert_true(distance(w[0], a) > 0.01);
    }
    /* two trainings of a net: other weights, as good; the straight way between them is worse than a bent one */
    enum { HIDDEN = 10 };
    cj_dataset *moons = cj_dataset_open(c, "moons");
    curve k = { .x = cj_cast(cj_slice(moons->train_x, 0, 0, 200, 1), CJ_F64), .y = cj_slice(moons->train_y, 0, 0, 200, 1) };
    double end[2];
    for (int side = 0; side < 2; side++) {
        cj_tensor **w = side ? k.b : k.a;
        w[0] = cj_keep(normal(CJ_SHAPE(2, HIDDEN))), w[1] = cj_keep(normal(CJ_SHAPE(HIDDEN)));
        w[2] = cj_keep(cj_mul_scalar(normal(CJ_SHAPE(HIDDEN, 2)), 0.5)), w[3] = cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F64));
        assert_true(cj_lbfgs(c, plain_net, &k, w, 4, NULL, .iterations = 60));
        end[side] = cj_item(net_loss(k.x, k.y, w));
    }
    cj_tensor *middle[4];
    for (int i = 0; i < 4; i++) middle[i] = cj_keep(cj_mul_scalar(cj_add(k.a[i], k.b[i]), 0.5));
    assert_true(distance(k.a[0], k.b[0]) > 1 && end[0] < 0.1 && end[1] < 0.1);
    double straight = barrier(&k, NULL);
    assert_true(cj_lbfgs(c, curve_loss, &k, middle, 4, NULL, .iterations = 100));
    double bent = barrier(&k, middle);
    print_message("between losses %.4f and %.4f: straight %.3f higher, bent %.4f\n", end[0], end[1], straight, bent);
    assert_true(straight > 0.1 && bent < 0.3 * straight);
    for (int i = 0; i < 4; i++) cj_release(k.a[i]), cj_release(k.b[i]), cj_release(middle[i]);
    cj_dataset_free(moons);
    cj_scope_close(s);
}

/* relative distance |w - w0| / |w0| that descent goes until 20 random labels are fitted, for widths 16 … 1024 */
static cj_tensor *ntk_loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const curve *k = user;
    double width = (double)cj_size(in[0], 1);
    return cj_mean(cj_square(cj_sub(cj_mul_scalar(cj_matmul(cj_relu(cj_matmul(k->x, in[0])), in[1]), 1 / sqrt(width)), k->y)));
}
static void lab_close_minimum(void **state) /* lab.close-minimum */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { WIDTHS = 4, DIM = 10, ROWS = 20, DRAWS = 3 };
    curve k = { .x = normal(CJ_SHAPE(ROWS, DIM)), .y = normal(CJ_SHAPE(ROWS, 1)) };
    double width[WIDTHS], far[WIDTHS] = { 0 };
    for (int i = 0; i < WIDTHS; i++) {
        width[i] = 32 * pow(4, i);
        for (int draw = 0; draw < DRAWS; draw++) {
            cj_tensor *w0[] = { normal(CJ_SHAPE(DIM, (int64_t)width[i])), normal(CJ_SHAPE((int64_t)width[i], 1)) };
            cj_tensor *w[] = { cj_keep(cj_clone(w0[0])), cj_keep(cj_clone(w0[1])) };
            cj_solution out;
            assert_true(cj_descent(c, ntk_loss, &k, w, 2, &out, .iterations = 3000, .tolerance = 3e-4, .step = 1));
            assert_true(out.value < 1e-3);
            double gone = 0, size = 0;
            for (int j = 0; j < 2; j++) {
                gone += cj_item(cj_sum(cj_square(cj_sub(w[j], w0[j])))), size += cj_item(cj_sum(cj_square(w0[j])));
                cj_release(w[j]);
            }
            far[i] += sqrt(gone / size) / DRAWS;
        }
        print_message("%g units: relative distance %.4f\n", width[i], far[i]);
        if (i) assert_true(far[i] < far[i - 1]);
    }
    double slope = log_slope(width, far, WIDTHS);
    print_message("slope %.2f\n", slope);
    assert_near(slope, -0.5, 0.15);
    cj_scope_close(s);
}

/* ---- slices ------------------------------------------------------------------------------------------------------------------------------------------------------ */

static double squared_length(void *user) { return cj_item(cj_l2_penalty(user)); }
static double fails_at_ten(void *user)
{
    static int calls;
    if (++calls == 10) cj_fail(c, CJ_EVALUE, "no more");
    return squared_length(user);
}

static void surfaces(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { SIDE = 9 };
    cj_params *p = cj_module_params(cj_sequential(c, cj_linear(c, 3, 4), cj_linear(c, 4, 2)));
    cj_tensor *before[4];
    double value[SIDE * SIDE];
    for (int i = 0; i < 4; i++) before[i] = cj_clone(cj_detach(cj_params_at(p, i)));
    assert_true(cj_loss_surface(p, squared_length, p, SIDE, 0.5, value));
    for (int i = 0; i < 4; i++) assert_true(same_bits(before[i], cj_detach(cj_params_at(p, i))));
    assert_near(value[SIDE * SIDE / 2], squared_length(p), 0); /* the middle is where it was */
    /* |w + a d|² = |w|² + 2a w·d + a²|d|², and |d|² = |w|² for filters: the second difference is 2 h² times the square of all weights */
    double weights = cj_item(cj_sum(cj_square(before[0]))) + cj_item(cj_sum(cj_square(before[2])));
    for (int i = 1; i + 1 < SIDE; i++) {
        const double *v = &value[i * SIDE + SIDE / 2];
        assert_near(v[SIDE] + v[-SIDE] - 2 * v[0], 2 * 0.125 * 0.125 * weights, 1e-5);
    }
    cj_surface_shape bowl = cj_surface_convexity(value, SIDE);
    assert_near(bowl.convex, 1, 0);
    assert_near(bowl.violated, 0, 0);
    double waves[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) waves[i] = (i / SIDE % 2) + (i % SIDE % 2); /* a minimum at each even place */
    cj_surface_shape rugged = cj_surface_convexity(waves, SIDE);
    assert_int_equal(rugged.minima, 9);
    assert_near(rugged.convex, 9. / 49, 1e-12);
    assert_true(rugged.violated > 0.2);
    assert_refused(CJ_EVALUE, "no more", assert_false(cj_loss_surface(p, fails_at_ten, p, SIDE, 0.5, value, .plain = true)));
    for (int i = 0; i < 4; i++) assert_true(same_bits(before[i], cj_detach(cj_params_at(p, i))));
    assert_refused(CJ_EVALUE, "loss_surface: a function", assert_false(cj_loss_surface(p, NULL, p, SIDE, 0.5, value)));
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(land_critical),
        cmocka_unit_test(lab_linear_saddles),
        cmocka_unit_test(lab_linear_gd),
        cmocka_unit_test(lab_deep_linear_modes),
        cmocka_unit_test(lab_connected_minima),
        cmocka_unit_test(lab_close_minimum),
        cmocka_unit_test(surfaces),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
