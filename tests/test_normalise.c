/* Normalisation: batch and group kernels against plain loops in f64 for every float type, layout and option; large means, one thread against two, plans, running statistics;
 * weight and spectral normalisation, z-scores, whitening; every sentence about bad input. */
#include "support.h"

static unsigned long long state_of = 20260101;
static double uniform(void) /* [0, 1) */
{
    state_of = state_of * 6364136223846793005u + 1442695040888963407u;
    return (double)(state_of >> 40) / 16777216;
}
static int64_t below(int64_t n) { return (int64_t)(uniform() * (double)n); }

static double *draws(int64_t n, double centre, double spread)
{
    double *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = centre + spread * (uniform() + uniform() + uniform() - 1.5);
    return v;
}

/* A tensor of v rounded to t, and v replaced by what it holds. */
static cj_tensor *rounded(cj_ctx *c, double *v, cj_shape s, cj_dtype t)
{
    cj_tensor *x = cj_cast(cj_from_f64(c, v, s), t);
    assert_true(cj_to_f64(x, v, cj_numel(x)));
    return x;
}

/* ---- the loops --------------------------------------------------------------------------------------------------------------------------------- */

typedef struct problem {
    int64_t n, c, m, groups; /* x [n, c, m]; groups 0: batch */
    bool relu, given;
    double eps;
    const double *x, *dy, *w, *b, *mean, *var; /* w, b may be NULL; mean, var only where given */
    double *y, *dx, *dw, *db, *scale;          /* scale: sizes of dx's terms */
} problem;

static void loops(const problem *p)
{
    int64_t per = p->groups ? p->c / p->groups : 1, sets = p->groups ? p->n * p->groups : p->c;
    memset(p->dw, 0, (size_t)p->c * sizeof *p->dw);
    memset(p->db, 0, (size_t)p->c * sizeof *p->db);
    for (int64_t s = 0; s < sets; s++) {
        double sum = 0, count = 0, square = 0, g1 = 0, g2 = 0;
#define EACH(...)                                                                                                                          \
    for (int64_t n = p->groups ? s / p->groups : 0; n < (p->groups ? s / p->groups + 1 : p->n); n++)                                       \
        for (int64_t c = p->groups ? s % p->groups * per : s, end = c + per; c < end; c++)                                                 \
            for (int64_t k = 0; k < p->m; k++) {                                                                                           \
                const int64_t i = (n * p->c + c) * p->m + k;                                                                               \
                __VA_ARGS__                                                                                                                \
            }
        EACH(sum += p->x[i]; count++;)
        const double mean = p->given ? p->mean[s] : sum / count;
        EACH(square += (p->x[i] - mean) * (p->x[i] - mean);)
        const double rstd = 1 / sqrt((p->given ? p->var[s] : square / count) + p->eps);
        EACH({
            const double xhat = (p->x[i] - mean) * rstd, w = p->w ? p->w[c] : 1, y = xhat * w + (p->b ? p->b[c] : 0);
            p->y[i] = p->relu && y < 0 ? 0 : y;
            const double g = p->relu && !(y > 0) ? 0 : p->dy[i];
            p->dw[c] += g * xhat;
            p->db[c] += g;
            g1 += g * w / count;
            g2 += g * w * xhat / count;
        })
        EACH({
            const double xhat = (p->x[i] - mean) * rstd, w = p->w ? p->w[c] : 1, y = xhat * w + (p->b ? p->b[c] : 0);
            const double g = p->relu && !(y > 0) ? 0 : p->dy[i];
            p->dx[i] = rstd * (w * g - (p->given ? 0 : g1 + xhat * g2));
            p->scale[i] = rstd * (fabs(w * p->dy[i]) + 1);
        })
#undef EACH
    }
}

static void near(const char *what, const problem *p, cj_dtype t, cj_tensor *got, const double *want, const double *scale, double factor)
{
    const double unit = t == CJ_F64 ? 1e-13 : t == CJ_F32 ? 1e-6 : t == CJ_BF16 ? 8e-3 : 1e-3;
    double *v = values_of(got);
    for (int64_t i = 0; i < cj_numel(got); i++)
        if (!(fabs(v[i] - want[i]) <= unit * (factor * (scale ? scale[i] : 1) + 2 * fabs(want[i]))))
            fail_msg("%s %s: element %ld is %.9g, expected %.9g; x [%ld, %ld, %ld] groups %ld relu %d given %d", what, cj_dtype_name(t),
                     (long)i, v[i], want[i], (long)p->n, (long)p->c, (long)p->m, (long)p->groups, p->relu, p->given);
    free(v);
}

/* One random problem: batch or group, every option. */
static void once(cj_ctx *c, bool group, cj_dtype t, int64_t limit)
{
    problem p = {
        .n = 1 + below(5), .c = 1 + below(9), .m = 1 + below(40), .eps = 1e-3, .relu = !group && below(2), .given = !group && below(4) == 0
    };
    if (below(3) == 0) p.n = 1 + below(300), p.m = 1; /* columns: several blocks and tiles */
    if (below(3) == 0) p.c = 1 + below(150);
    if (below(8) == 0) p.m = limit;
    if (group) {
        p.groups = 1 + below(4);
        p.c = (p.c / p.groups + 1) * p.groups;
        if (p.c / p.groups * p.m < 2) p.m = 2;
    } else if (p.n * p.m < 4) {
        p.n += 3;
    }
    const int64_t size = p.n * p.c * p.m;
    const bool image = p.m % 2 == 0 && below(2), last = !group && below(3) == 0, features = p.m == 1 && !last && below(2);
    cj_shape s = features ? CJ_SHAPE(p.n, p.c) : image ? CJ_SHAPE(p.n, p.c, p.m / 2, 2) : CJ_SHAPE(p.n, p.c, p.m);
    double *x = draws(size, 1, 2), *dy = draws(size, 0, 1), *w = draws(p.c, 1, 1), *b = draws(p.c, 0, 1), *mean = draws(p.c, 1, 1),
           *var = draws(p.c, 3, 1);
    const bool weight = below(4), bias = below(4), wide = (t == CJ_BF16 || t == CJ_F16) && below(2);
    p.y = calloc((size_t)size, sizeof(double)), p.dx = calloc((size_t)size, sizeof(double)), p.scale = calloc((size_t)size, sizeof(double));
    p.dw = calloc((size_t)p.c, sizeof(double)), p.db = calloc((size_t)p.c, sizeof(double));
    cj_scope scope = cj_scope_open(c);
    cj_tensor *tx = cj_require_grad(rounded(c, x, s, t)), *tdy = rounded(c, dy, s, t), *tw = NULL, *tb = NULL, *in = tx;
    if (weight) tw = cj_require_grad(rounded(c, w, CJ_SHAPE(p.c), wide ? CJ_F32 : t));
    if (bias) tb = cj_require_grad(rounded(c, b, CJ_SHAPE(p.c), wide ? CJ_F32 : t));
    p.x = x, p.dy = dy, p.w = weight ? w : NULL, p.b = bias ? b : NULL, p.mean = mean, p.var = var;
    cj_batch_norm_opts o = { .eps = p.eps, .relu = p.relu, .eval = p.given };
    if (p.given) o.running_mean = rounded(c, mean, CJ_SHAPE(p.c), CJ_F64), o.running_var = rounded(c, var, CJ_SHAPE(p.c), CJ_F64);
    loops(&p);
    if (last) { /* the same numbers, channels last in memory */
        in = cj_transpose(cj_contiguous(cj_transpose(cj_flatten(tx, 1), 0, 1)), 0, 1);
        in = cj_reshape(in, s);
        if (s.ndim > 2) {
            cj_axes to = { .n = s.ndim }, back = { .n = s.ndim };
            for (int d = 0; d < s.ndim; d++)
                to.axis[d] = d == 0 ? 0 : d == s.ndim - 1 ? 1 : d + 1, back.axis[d] = d == 0 ? 0 : d == 1 ? s.ndim - 1 : d - 1;
            in = cj_permute(cj_contiguous(cj_permute(tx, to)), back);
        }
    }
    cj_tensor *y = group ? cj_group_norm(in, p.groups, tw, tb, p.eps) : (cj_batch_norm)(in, tw, tb, &o);
    cj_tensor *wanted[3] = { tx }, *got[3];
    int n = 1;
    if (tw) wanted[n++] = tw;
    if (tb) wanted[n++] = tb;
    assert_true(cj_grad(y, wanted, n, got, .seed = tdy));
    assert_ok(c);
    const double root = sqrt((double)(p.n * p.m)) + 3;
    near("y", &p, t, y, p.y, NULL, 6);
    near("dx", &p, t, got[0], p.dx, p.scale, 6);
    if (tw) near("dw", &p, wide ? CJ_F32 : t, got[1], p.dw, NULL, 12 * root);
    if (tb) near("db", &p, wide ? CJ_F32 : t, got[n - 1], p.db, NULL, 12 * root);
    cj_scope_close(scope);
    free(x), free(dy), free(w), free(b), free(mean), free(var), free(p.y), free(p.dx), free(p.scale), free(p.dw), free(p.db);
}

static void against_loops(void **state)
{
    (void)state;
    const char *seed = getenv("CAJAL_SEED");
    if (seed) state_of = strtoull(seed, NULL, 10);
    print_message("seed %llu\n", state_of);
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2 });
    const cj_dtype types[] = { CJ_F64, CJ_F32, CJ_BF16, CJ_F16 };
    for (int i = 0; i < 400; i++) once(c, i % 3 == 0, types[i % 4], i < 200 ? 300 : 5000);
    cj_ctx_free(c);
}

/* ---- numbers that are hard, bits that must not change ---------------------------------------------------------------------------------------------- */

/* Mean 1e4, deviation 1/16, where one ulp of f32 is 1/1024: the statistics of the values as stored, to six digits. */
static void large_mean(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2 });
    const cj_shape shapes[] = { CJ_SHAPE(40, 3, 7, 7), CJ_SHAPE(900, 3), CJ_SHAPE(4, 3, 9001) };
    for (int k = 0; k < 3; k++) {
        cj_scope s = cj_scope_open(c);
        problem p = { .n = shapes[k].dim[0], .c = 3, .m = 1, .eps = 1e-9 };
        for (int d = 2; d < shapes[k].ndim; d++) p.m *= shapes[k].dim[d];
        int64_t n = p.n * 3 * p.m;
        double *x = draws(n, 1e4, 0.125), *dy = draws(n, 0, 1);
        cj_tensor *tx = rounded(c, x, shapes[k], CJ_F32);
        p.x = x, p.dy = dy;
        p.y = calloc((size_t)n, sizeof(double)), p.dx = calloc((size_t)n, sizeof(double)), p.scale = calloc((size_t)n, sizeof(double));
        p.dw = calloc(3, sizeof(double)), p.db = calloc(3, sizeof(double));
        loops(&p);
        near("large mean", &p, CJ_F32, cj_batch_norm(tx, NULL, NULL, .eps = 1e-9), p.y, NULL, 3);
        if (shapes[k].ndim == 4) {
            cj_tensor *last = cj_permute(cj_contiguous(cj_permute(tx, CJ_AXES(0, 2, 3, 1))), CJ_AXES(0, 3, 1, 2));
            near("channels last", &p, CJ_F32, cj_batch_norm(last, NULL, NULL, .eps = 1e-9), p.y, NULL, 3);
        }
        cj_standardised z = cj_standardise(tx, .axes = shapes[k].ndim == 4   ? CJ_AXES(0, 2, 3)
                                                       : shapes[k].ndim == 3 ? CJ_AXES(0, 2)
                                                                             : CJ_AXIS(0));
        near("standardise", &p, CJ_F32, z.value, p.y, NULL, 20);
        p.groups = 3;
        loops(&p);
        if (p.m > 1) near("instance", &p, CJ_F32, cj_instance_norm(tx, NULL, NULL, 1e-9), p.y, NULL, 3);
        free(x), free(dy), free(p.y), free(p.dx), free(p.scale), free(p.dw), free(p.db);
        cj_scope_close(s);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static void same_on_two_threads(void **state)
{
    (void)state;
    cj_ctx *one = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 }), *two = cj_ctx_new(&(cj_ctx_opts){ .threads = 2 });
    const cj_shape shapes[] = { CJ_SHAPE(9, 24, 14, 14), CJ_SHAPE(3000, 70), CJ_SHAPE(2, 6, 80, 80), CJ_SHAPE(300, 520),
                                CJ_SHAPE(40, 64, 7, 7) };
    for (int k = 0; k < 5; k++)
        for (int t = 0; t < 2; t++) {
            cj_tensor *all[2][8] = { 0 };
            for (int w = 0; w < 2; w++) {
                cj_ctx *c = w ? two : one;
                cj_seed(c, 7);
                cj_tensor *x = cj_require_grad(cj_cast(cj_randn(c, shapes[k]), t ? CJ_BF16 : CJ_F32)),
                          *g = cj_cast(cj_randn(c, shapes[k]), t ? CJ_BF16 : CJ_F32);
                cj_tensor *p = cj_require_grad(cj_ones(c, CJ_SHAPE(shapes[k].dim[1]), CJ_F32)), *q = cj_require_grad(cj_zeros_like(p));
                all[w][0] = cj_batch_norm(x, p, q, .relu = true);
                cj_grad(all[w][0], CJ_TENSORS(x, p, q), 3, all[w] + 1, .seed = g);
                all[w][4] = cj_group_norm(x, 2, p, q, 0);
                cj_grad(all[w][4], CJ_TENSORS(x, p, q), 3, all[w] + 5, .seed = g);
                assert_ok(c);
            }
            for (int i = 0; i < 8; i++) assert_true(same_bits(all[0][i], all[1][i]));
        }
    cj_ctx_free(one);
    cj_ctx_free(two);
}

/* Results of 16 MB and more are written past the caches, planes that are neighbours as one run: the bits are those of a part of the channels by itself. */
static void large_results(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 3 });
    const cj_shape shapes[] = { CJ_SHAPE(66, 350, 14, 14), CJ_SHAPE(68, 347, 13, 15), CJ_SHAPE(700, 103, 8, 8), CJ_SHAPE(3, 40, 190, 190) };
    for (int k = 0; k < 4; k++) {
        const bool relu = k % 2 == 0;
        cj_scope scope = cj_scope_open(c);
        cj_tensor *x = cj_randn(c, shapes[k]), *g = cj_randn(c, shapes[k]), *w = cj_randn(c, CJ_SHAPE(shapes[k].dim[1])),
                  *b = cj_randn(c, CJ_SHAPE(shapes[k].dim[1])), *all[2], *some[2];
        x = cj_require_grad(x);
        all[0] = cj_batch_norm(x, w, b, .relu = relu);
        assert_true(cj_grad(all[0], &x, 1, all + 1, .seed = g));
        for (int64_t from = 0; from < shapes[k].dim[1]; from += 97) {
            const int64_t to = from + 19 < shapes[k].dim[1] ? from + 19 : shapes[k].dim[1];
#define PART(t, axis) cj_contiguous(cj_slice(t, axis, from, to, 1))
            cj_tensor *part = cj_require_grad(PART(cj_detach(x), 1));
            some[0] = cj_batch_norm(part, PART(w, 0), PART(b, 0), .relu = relu);
            assert_true(cj_grad(some[0], &part, 1, some + 1, .seed = PART(g, 1)));
            assert_true(same_bits(some[0], PART(all[0], 1)) && same_bits(some[1], PART(all[1], 1)));
#undef PART
        }
        assert_ok(c);
        cj_scope_close(scope);
    }
    cj_ctx_free(c);
}

typedef struct buffers {
    cj_tensor *w, *b, *mean, *var, *batches;
} buffers;

static buffers buffers_new(cj_ctx *c, int64_t n)
{
    return (buffers){ cj_param(cj_ones(c, CJ_SHAPE(n), CJ_F32)), cj_param(cj_zeros(c, CJ_SHAPE(n), CJ_F32)),
                      cj_keep(cj_zeros(c, CJ_SHAPE(n), CJ_F32)), cj_keep(cj_ones(c, CJ_SHAPE(n), CJ_F32)),
                      cj_keep(cj_zeros(c, CJ_SCALAR, CJ_I64)) };
}

static void planned_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    const buffers *b = user;
    cj_tensor *x = cj_require_grad(in[0]);
    out[0] = cj_batch_norm(x, b->w, b->b, .running_mean = b->mean, .running_var = b->var, .batches = b->batches, .relu = true);
    cj_grad(out[0], CJ_TENSORS(x, b->w, b->b), 3, out + 1, .seed = in[1]);
}

/* A plan does what eager calls do, running statistics included, to the bit. */
static void planned(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    buffers eager = buffers_new(c, 6), replayed = buffers_new(c, 6);
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(8, 6, 5, 5))), *g = cj_keep(cj_randn(c, CJ_SHAPE(8, 6, 5, 5))),
              *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    cj_plan *plan = cj_capture(c, planned_step, &replayed, CJ_TENSORS(x, g), 2, NULL);
    for (int i = 0; i < 4; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *want[4];
        planned_step(c, &eager, CJ_TENSORS(x, g), want);
        if (i) assert_true(cj_replay(plan, CJ_TENSORS(x, g), out));
        for (int k = 0; k < 4 && i; k++) assert_true(same_bits(out[k], want[k]));
        cj_scope_close(s);
        assert_true(same_bits(eager.mean, replayed.mean));
        assert_true(same_bits(eager.var, replayed.var));
        assert_near(value_at(replayed.batches, 0), i + 1, 0);
    }
    assert_true(cj_plan_statistics(plan).compiled);
    assert_int_equal(cj_plan_statistics(plan).allocations, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* A step that fails leaves the running statistics as they were, and nothing leaks. */
static void failed_step(void **state)
{
    (void)state;
    counter k = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
    buffers b = buffers_new(c, 3);
    cj_scope s = cj_scope_open(c);
    cj_batch_norm(cj_randn(c, CJ_SHAPE(5, 3)), b.w, b.b, .running_mean = b.mean, .running_var = b.var, .batches = b.batches);
    cj_reshape(b.w, CJ_SHAPE(7));
    cj_scope_close(s);
    assert_int_equal(cj_error(c), CJ_ESHAPE);
    cj_clear(c);
    for (int i = 0; i < 3; i++) {
        assert_near(value_at(b.mean, i), 0, 0);
        assert_near(value_at(b.var, i), 1, 0);
    }
    assert_near(value_at(b.batches, 0), 0, 0);
    cj_ctx_free(c);
    assert_balanced(&k);
}

/* ---- weights and data --------------------------------------------------------------------------------------------------------------------------------- */

/* diag(3, 2, 1) between rotations: sigma is 3; u and v converge to the singular vectors and are written at the end of each scope. */
static void spectral(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    const double a = 0.6, b = 0.8;
    cj_tensor *left = F64(c, CJ_SHAPE(3, 3), a, -b, 0, b, a, 0, 0, 0, 1), *right = F64(c, CJ_SHAPE(3, 3), 1, 0, 0, 0, a, b, 0, -b, a);
    cj_tensor *d = F64(c, CJ_SHAPE(3, 3), 3, 0, 0, 0, 2, 0, 0, 0, 1), *w = cj_matmul(cj_matmul(left, d), right);
    cj_tensor *u = cj_keep(cj_full(c, 0.5, CJ_SHAPE(3), CJ_F64)), *v = cj_keep(cj_zeros(c, CJ_SHAPE(3), CJ_F64));
    double sigma = 0;
    for (int i = 0; i < 12; i++) {
        cj_scope s = cj_scope_open(c);
        cj_spectral r = cj_spectral_norm(w, u, .v = v, .iterations = 3);
        assert_true(cj_item(r.sigma) >= sigma - 1e-12 && cj_item(r.sigma) <= 3 + 1e-12); /* from below */
        sigma = cj_item(r.sigma);
        cj_scope_close(s);
    }
    assert_near(sigma, 3, 1e-9);
    assert_near(fabs(value_at(u, 0)), 0.6, 1e-5);
    assert_near(fabs(value_at(v, 0)), 1, 1e-5);
    cj_tensor *before = cj_clone(u);
    assert_near(cj_item(cj_spectral_norm(w, u, .v = v, .eval = true).sigma), 3, 1e-9);
    assert_near(cj_item(cj_spectral_norm(w, u, .eval = true).sigma), 3, 1e-9);
    assert_true(same_bits(before, u));
    /* a convolution's kernel is the matrix [first axis, the others] */
    cj_tensor *k = cj_reshape(w, CJ_SHAPE(3, 1, 3, 1));
    assert_near(distance(cj_reshape(cj_spectral_norm(k, u, .eval = true).value, CJ_SHAPE(3, 3)), cj_mul_scalar(w, 1.0 / 3)), 0, 1e-9);
    assert_ok(c);
    cj_ctx_free(c);
}

static void whiten(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    const double scales[] = { 1, 0.05, 20, 3 }; /* condition number of the covariance about 1e5 */
    cj_tensor *x = cj_mul(cj_cast(cj_randn(c, CJ_SHAPE(400, 4)), CJ_F64), cj_from_f64(c, scales, CJ_SHAPE(4)));
    cj_tensor *mix = F64(c, CJ_SHAPE(4, 4), 1, 0.5, 0, 0, 0, 1, 0, 0.2, 0, 0, 1, 0, 0.1, 0, 0, 1);
    x = cj_add_scalar(cj_matmul(x, mix), 100);
    cj_whitened z = cj_whiten(x, .eps = CJ_ZERO, .iterations = 30);
    cj_tensor *cov = cj_mul_scalar(cj_matmul(cj_t(z.value), z.value), 1.0 / 400);
    assert_near(distance(cov, cj_eye(c, 4, CJ_F64)), 0, 1e-8);
    assert_near(distance(z.matrix, cj_t(z.matrix)), 0, 1e-8);
    assert_near(distance(cj_matmul(cj_sub(x, z.mean), z.matrix), z.value), 0, 1e-8); /* applies to other data */
    /* f32, a condition number of 1e2, the usual 20 steps */
    cj_tensor *y = cj_mul(cj_randn(c, CJ_SHAPE(300, 3)), cj_from_f32(c, (float[]){ 1, 3, 10 }, CJ_SHAPE(3)));
    cj_whitened f = cj_whiten(y, .eps = CJ_ZERO);
    assert_near(distance(cj_mul_scalar(cj_matmul(cj_t(f.value), f.value), 1.0 / 300), cj_eye(c, 3, CJ_F32)), 0, 2e-5);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- bad input: one sentence each -------------------------------------------------------------------------------------------------------------------------- */

#define F(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
#define KEPT(...) cj_keep(F(__VA_ARGS__))
#define REFUSE(code, text, expression)                                                                                                     \
    do {                                                                                                                                   \
        cj_scope s = cj_scope_open(c);                                                                                                     \
        (void)(expression);                                                                                                                \
        assert_error(c, code, text);                                                                                                       \
        cj_clear(c);                                                                                                                       \
        cj_scope_close(s);                                                                                                                 \
    } while (0)

static void bad_batch(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *m = KEPT(3), *v = KEPT(3), *n = cj_keep(cj_zeros(c, CJ_SCALAR, CJ_I64));
    REFUSE(CJ_ESHAPE, "batch_norm: the weight has shape [4], [3] expected", cj_batch_norm(F(2, 3), F(4), F(3)));
    REFUSE(CJ_ESHAPE, "batch_norm: the bias has shape [3, 1], [3] expected", cj_batch_norm(F(2, 3), NULL, F(3, 1)));
    REFUSE(CJ_EDTYPE, "batch_norm: the weight is f64, the input f32", cj_batch_norm(F(2, 3), cj_ones(c, CJ_SHAPE(3), CJ_F64), NULL));
    REFUSE(CJ_EDTYPE, "batch_norm: the input is i64, a float type expected", cj_batch_norm(cj_ones(c, CJ_SHAPE(2, 3), CJ_I64), NULL, NULL));
    REFUSE(CJ_ESHAPE, "batch_norm: the input has shape [3], [N, C, ..] expected", cj_batch_norm(F(3), NULL, NULL));
    REFUSE(CJ_EVALUE, "batch_norm: 1 value per channel in [1, 3]; training needs two at least", cj_batch_norm(F(1, 3), NULL, NULL));
    REFUSE(CJ_EVALUE, "batch_norm: 0 values per channel in [0, 3, 4]", cj_batch_norm(F(0, 3, 4), NULL, NULL));
    REFUSE(CJ_EVALUE, "batch_norm: eps -1 is negative", cj_batch_norm(F(2, 3), NULL, NULL, .eps = -1));
    REFUSE(CJ_EVALUE, "batch_norm: the running_mean goes with its scope; it must be a buffer or kept",
           cj_batch_norm(F(2, 3), NULL, NULL, .running_mean = F(3), .running_var = v));
    REFUSE(CJ_EVALUE, "batch_norm: the running_var goes with its scope",
           cj_batch_norm(F(2, 3), NULL, NULL, .running_mean = m, .running_var = F(3)));
    REFUSE(CJ_ESHAPE, "batch_norm: the running_mean has shape [3], [4] expected",
           cj_batch_norm(F(2, 4), NULL, NULL, .running_mean = m, .running_var = v));
    REFUSE(CJ_EDTYPE, "batch_norm: the running_var is i64, a float type expected",
           cj_batch_norm(F(2, 3), NULL, NULL, .running_mean = m, .running_var = cj_ones(c, CJ_SHAPE(3), CJ_I64), .eval = true));
    REFUSE(CJ_EVALUE, "batch_norm: running_var is missing; both or neither", cj_batch_norm(F(2, 3), NULL, NULL, .running_mean = m));
    REFUSE(CJ_EVALUE, "batch_norm: eval needs running_mean and running_var", cj_batch_norm(F(2, 3), NULL, NULL, .eval = true));
    REFUSE(CJ_EVALUE, "batch_norm: momentum 1.5 is outside 0 … 1",
           cj_batch_norm(F(2, 3), NULL, NULL, .running_mean = m, .running_var = v, .momentum = 1.5));
    REFUSE(CJ_EVALUE, "batch_norm: a cumulative average needs batches",
           cj_batch_norm(F(2, 3), NULL, NULL, .running_mean = m, .running_var = v, .cumulative = true));
    REFUSE(CJ_ESHAPE, "batch_norm: batches is f32 [3], a 0-d i64 expected", cj_batch_norm(F(2, 3), NULL, NULL, .batches = m));
    REFUSE(CJ_EVALUE, "batch_norm: batches goes with its scope",
           cj_batch_norm(F(2, 3), NULL, NULL, .batches = cj_zeros(c, CJ_SCALAR, CJ_I64)));
    for (int i = 0; i < 3; i++) { /* nothing was written */
        assert_near(value_at(m, i), 1, 0);
        assert_near(value_at(v, i), 1, 0);
    }
    assert_near(value_at(n, 0), 0, 0);
    assert_null(cj_batch_norm(NULL, NULL, NULL));
    cj_ctx_free(c);
}

static void bad_others(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *u = KEPT(3);
    REFUSE(CJ_EVALUE, "group_norm: 2 groups do not divide the 3 channels of [2, 3, 4]", cj_group_norm(F(2, 3, 4), 2, NULL, NULL, 0));
    REFUSE(CJ_EVALUE, "group_norm: 0 groups", cj_group_norm(F(2, 3, 4), 0, NULL, NULL, 0));
    REFUSE(CJ_ESHAPE, "group_norm: the weight has shape [2], [4] expected", cj_group_norm(F(2, 4, 4), 2, F(2), NULL, 0));
    REFUSE(CJ_EVALUE, "group_norm: eps -0.5 is negative", cj_group_norm(F(2, 4), 2, NULL, NULL, -0.5));
    REFUSE(CJ_ESHAPE, "instance_norm: the input has shape [2, 3], [N, C, ..] with two positions at least expected",
           cj_instance_norm(F(2, 3), NULL, NULL, 0));
    REFUSE(CJ_ESHAPE, "instance_norm: the input has shape [2, 3, 1]", cj_instance_norm(F(2, 3, 1), NULL, NULL, 0));
    REFUSE(CJ_EDTYPE, "instance_norm: the input is i64", cj_instance_norm(cj_ones(c, CJ_SHAPE(2, 3, 4), CJ_I64), NULL, NULL, 0));
    REFUSE(CJ_ESHAPE, "rms_norm: weight [4] f32 does not fit input [2, 3] f32", cj_rms_norm(F(2, 3), F(4), 0));
    REFUSE(CJ_ESHAPE, "rms_norm: a 0-d input", cj_rms_norm(cj_scalar(c, 1), NULL, 0));
    REFUSE(CJ_EDTYPE, "rms_norm: the input is i64", cj_rms_norm(cj_ones(c, CJ_SHAPE(3), CJ_I64), NULL, 0));
    REFUSE(CJ_ESHAPE, "local_response_norm: the input has shape [3]", cj_local_response_norm(F(3), 2));
    REFUSE(CJ_EVALUE, "local_response_norm: size 0; at least 1 expected", cj_local_response_norm(F(2, 3, 4), 0));
    REFUSE(CJ_ESHAPE, "weight_norm: g has shape [4], [3] expected for axis 0 of v [3, 4]", cj_weight_norm(F(3, 4), F(4), 0));
    REFUSE(CJ_EVALUE, "weight_norm: argument 2 is NULL", cj_weight_norm(F(3, 4), NULL, 0));
    REFUSE(CJ_ESHAPE, "spectral_norm: w has shape [3]; two axes at least expected", cj_spectral_norm(F(3), u));
    REFUSE(CJ_ESHAPE, "spectral_norm: u is f32 [3], floats [4] expected for w [4, 2]", cj_spectral_norm(F(4, 2), u));
    REFUSE(CJ_ESHAPE, "spectral_norm: v is f32 [3], floats [2] expected for w [3, 2]", cj_spectral_norm(F(3, 2), u, .v = u));
    REFUSE(CJ_EVALUE, "spectral_norm: u goes with its scope", cj_spectral_norm(F(3, 2), F(3)));
    REFUSE(CJ_EVALUE, "spectral_norm: -1 iterations", cj_spectral_norm(F(3, 2), u, .iterations = -1));
    REFUSE(CJ_EVALUE, "standardise: std is missing; both or neither", cj_standardise(F(3, 2), .mean = F(2)));
    REFUSE(CJ_ESHAPE, "standardise: mean [3] does not fit the input [3, 2]", cj_standardise(F(3, 2), .mean = F(3), .std = F(2)));
    REFUSE(CJ_EVALUE, "standardise: 1 value of a feature in [1, 2]", cj_standardise(F(1, 2), .unbiased = true));
    REFUSE(CJ_EDTYPE, "standardise: the input is i64", cj_standardise(cj_ones(c, CJ_SHAPE(3), CJ_I64)));
    REFUSE(CJ_ESHAPE, "whiten: the input has shape [1, 3]", cj_whiten(F(1, 3)));
    REFUSE(CJ_EVALUE, "whiten: eps -1 is negative", cj_whiten(F(4, 3), .eps = -1));
    REFUSE(CJ_EVALUE, "whiten: -2 iterations", cj_whiten(F(4, 3), .iterations = -2));
    for (int i = 0; i < 3; i++) assert_near(value_at(u, i), 1, 0);
    cj_ctx_free(c);
}

/* Channels last in memory, [n, h, w, c]: the definition, which the second derivatives go through, and the values of the same image in the usual order. */
typedef struct last_case {
    cj_tensor *mean, *var; /* NULL: of the batch */
    bool relu;
} last_case;
static cj_tensor *last_norm(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c;
    const last_case *k = user;
    const int nd = cj_ndim(in[0]);
    cj_tensor *x = cj_permute(in[0], nd == 4 ? CJ_AXES(0, 3, 1, 2) : CJ_AXES(0, 2, 1));
    return cj_batch_norm(x, n > 1 ? in[1] : NULL, n > 2 ? in[2] : NULL, .eval = k->mean != NULL, .running_mean = k->mean,
                         .running_var = k->var, .relu = k->relu);
}
static void last_to_second_order(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 3 });
    cj_tensor *mean = cj_keep(cj_randn(c, CJ_SHAPE(3), .dtype = CJ_F64)),
              *var = cj_keep(cj_add_scalar(cj_square(cj_randn(c, CJ_SHAPE(3), .dtype = CJ_F64)), 0.5));
    for (int i = 0; i < 12; i++) {
        cj_scope s = cj_scope_open(c);
        last_case k = { i & 1 ? mean : NULL, i & 1 ? var : NULL, i & 2 };
        cj_tensor *in[3] = { cj_randn(c, i < 6 ? CJ_SHAPE(2, 2, 4, 3) : CJ_SHAPE(4, 5, 3), .dtype = CJ_F64),
                             cj_randn(c, CJ_SHAPE(3), .dtype = CJ_F64), cj_randn(c, CJ_SHAPE(3), .dtype = CJ_F64) };
        const int n = 1 + i % 3;
        cj_gradcheck_result r = cj_gradcheck(c, last_norm, &k, in, n, .second_order = true);
        if (!r.ok) fail_msg("case %d: input %d, element %ld: %s", i, r.input, (long)r.element, r.what);
        cj_tensor *usual = cj_contiguous(cj_permute(in[0], i < 6 ? CJ_AXES(0, 3, 1, 2) : CJ_AXES(0, 2, 1)));
        cj_tensor *y = cj_batch_norm(usual, n > 1 ? in[1] : NULL, n > 2 ? in[2] : NULL, .eval = k.mean != NULL, .running_mean = k.mean,
                                     .running_var = k.var, .relu = k.relu);
        assert_true(cj_item(cj_max(cj_abs(cj_sub(y, last_norm(c, &k, in, n))))) < 1e-13);
        cj_scope_close(s);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_loops),
        cmocka_unit_test(large_mean),
        cmocka_unit_test(same_on_two_threads),
        cmocka_unit_test(large_results),
        cmocka_unit_test(planned),
        cmocka_unit_test(failed_step),
        cmocka_unit_test(spectral),
        cmocka_unit_test(last_to_second_order),
        cmocka_unit_test(whiten),
        cmocka_unit_test(bad_batch),
        cmocka_unit_test(bad_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
