/* Attention against plain loops, forward and backward, over random shapes, masks, lengths, groups, dropout and dtypes; threads, layouts, plans, memory, bad input. */
#include "support.h"

/* ---- plain loops ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct problem {
    int64_t batch, heads, group, tq, tk, d, dv; /* heads: of q */
    bool causal;
    double scale;
    const double *q, *k, *v, *g, *bias, *keep; /* bias, keep: [batch, heads, tq, tk], or NULL */
    const int64_t *length;                     /* [batch, heads], or NULL */
    double *o, *dq, *dk, *dvalue;
} problem;

static void plain_loops(const problem *p)
{
    double *w = calloc((size_t)p->tk + 1, sizeof *w), *s = calloc((size_t)p->tk + 1, sizeof *s);
    for (int64_t h = 0; h < p->batch * p->heads; h++) {
        const int64_t shared = h / p->group, n = p->length ? p->length[h] : p->tk;
        const double *k = p->k + shared * p->tk * p->d, *v = p->v + shared * p->tk * p->dv;
        double *dk = p->dk + shared * p->tk * p->d, *dvalue = p->dvalue + shared * p->tk * p->dv;
        for (int64_t i = 0; i < p->tq; i++) {
            const int64_t row = h * p->tq + i, seen = p->causal ? n - p->tq + i + 1 : n;
            const double *q = p->q + row * p->d, *g = p->g + row * p->dv;
            double top = -INFINITY, sum = 0, D = 0;
            for (int64_t j = 0; j < seen; j++) {
                w[j] = p->bias ? p->bias[row * p->tk + j] : 0;
                for (int64_t e = 0; e < p->d; e++) w[j] += p->scale * q[e] * k[j * p->d + e];
                top = fmax(top, w[j]);
            }
            if (top == -INFINITY) continue; /* sees nothing: zeros */
            for (int64_t j = 0; j < seen; j++) sum += w[j] = exp(w[j] - top);
            for (int64_t j = 0; j < seen; j++) {
                const double factor = p->keep ? p->keep[row * p->tk + j] : 1, kept = w[j] / sum * factor;
                s[j] = 0;
                for (int64_t e = 0; e < p->dv; e++) {
                    p->o[row * p->dv + e] += kept * v[j * p->dv + e];
                    dvalue[j * p->dv + e] += kept * g[e];
                    s[j] += factor * g[e] * v[j * p->dv + e];
                }
                D += w[j] / sum * s[j];
            }
            for (int64_t j = 0; j < seen; j++)
                for (int64_t e = 0; e < p->d; e++) {
                    const double slope = p->scale * w[j] / sum * (s[j] - D);
                    p->dq[row * p->d + e] += slope * k[j * p->d + e];
                    dk[j * p->d + e] += slope * q[e];
                }
        }
    }
    free(w), free(s);
}

static void compare(cj_tensor *t, const double *want, double tolerance, const char *what, const char *which)
{
    double *got = values_of(t), largest = 0;
    for (int64_t i = 0; i < cj_numel(t); i++) largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < cj_numel(t); i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (largest + 1)))
            fail_msg("%s of %s: element %ld is %.9g, expected %.9g", what, which, (long)i, got[i], want[i]);
    free(got);
}

/* One random case in dtype t: cj_attention and its gradients against the loops. */
static void random_case(cj_ctx *c, cj_dtype t, uint64_t seed)
{
    cj_scope scope = cj_scope_open(c);
    cj_rng_set(c, (cj_rng_state){ .seed = seed });
    double draw[16], *u = values_of(cj_rand(c, CJ_SHAPE(16)));
    memcpy(draw, u, sizeof draw);
    free(u);
#define PICK(i, low, high) ((low) + (int64_t)(draw[i] * (double)((high) - (low) + 1)))
    problem p = { .batch = PICK(0, 1, 2), .group = PICK(1, 1, 3), .d = PICK(2, 1, 70), .dv = PICK(3, 1, 70) };
    p.heads = p.group * PICK(4, 1, 2);
    p.tq = draw[5] < 0.3 ? PICK(6, 1, 5) : PICK(6, 1, 140);
    p.tk = PICK(7, 1, 150);
    p.causal = draw[8] < 0.5;
    p.scale = draw[9] < 0.5 ? 1 / sqrt((double)p.d) : 0.2;
    const int mask = (int)PICK(10, 0, 4);
    const bool lengths = draw[11] < 0.4;
    const double drop = draw[12] < 0.3 ? 0.3 : 0;
    char which[256];
    snprintf(which, sizeof which,
             "%s seed %llu: batch %ld heads %ld group %ld tq %ld tk %ld d %ld dv %ld causal %d mask %d lengths %d drop %g",
             cj_dtype_name(t), (unsigned long long)seed, (long)p.batch, (long)p.heads, (long)p.group, (long)p.tq, (long)p.tk, (long)p.d,
             (long)p.dv, p.causal, mask, lengths, drop);
    const int64_t kv = p.heads / p.group;
    cj_tensor *x[3] = { cj_randn(c, CJ_SHAPE(p.batch, p.heads, p.tq, p.d)), cj_randn(c, CJ_SHAPE(p.batch, kv, p.tk, p.d)),
                        cj_randn(c, CJ_SHAPE(p.batch, kv, p.tk, p.dv)) };
    for (int i = 0; i < 3; i++) x[i] = cj_require_grad(cj_cast(x[i], t));
    cj_tensor *g = cj_cast(cj_randn(c, CJ_SHAPE(p.batch, p.heads, p.tq, p.dv)), t), *m = NULL, *length = NULL, *d[3];
    const cj_shape all = CJ_SHAPE(p.batch, p.heads, p.tq, p.tk);
    if (mask == 1) m = cj_gt(cj_rand(c, all), cj_scalar(c, 0.3));
    if (mask == 2) m = cj_gt(cj_rand(c, CJ_SHAPE(p.batch, 1, 1, p.tk)), cj_scalar(c, 0.3));
    if (mask == 3) m = cj_randn(c, CJ_SHAPE(p.tq, p.tk));
    if (mask == 4) m = cj_cast(cj_randn(c, CJ_SHAPE(p.heads, p.tq, 1)), t);
    if (lengths) length = cj_randint(c, 1, p.tk + 1, CJ_SHAPE(p.batch, p.heads));
    double *bias = NULL, *keep = NULL;
    int64_t *n = NULL;
    if (m) {
        cj_tensor *b = mask <= 2 ? cj_where(m, cj_scalar(c, 0), cj_scalar(c, -INFINITY)) : m;
        bias = values_of(cj_contiguous(cj_expand(b, all)));
    }
    if (length) {
        double *l = values_of(length);
        n = calloc((size_t)(p.batch * p.heads), sizeof *n);
        for (int64_t i = 0; i < p.batch * p.heads; i++) n[i] = (int64_t)l[i];
        free(l);
    }
    cj_rng_set(c, (cj_rng_state){ .seed = seed });
    if (drop > 0)
        keep = values_of(cj_mul_scalar(cj_bernoulli(c, 1 - drop, all, .stream = CJ_STREAM_DROPOUT, .dtype = CJ_F64), 1 / (1 - drop)));
    cj_rng_set(c, (cj_rng_state){ .seed = seed }); /* attention makes the same draw */
    cj_tensor *y = cj_attention(x[0], x[1], x[2], .causal = p.causal, .scale = p.scale, .mask = m, .key_length = length, .dropout = drop);
    cj_grad(y, x, 3, d, .seed = g);
    assert_ok(c);
    double *v[4] = { values_of(x[0]), values_of(x[1]), values_of(x[2]), values_of(g) };
    p.q = v[0], p.k = v[1], p.v = v[2], p.g = v[3], p.bias = bias, p.keep = keep, p.length = n;
    p.o = calloc((size_t)cj_numel(y), sizeof(double));
    p.dq = calloc((size_t)cj_numel(x[0]), sizeof(double));
    p.dk = calloc((size_t)cj_numel(x[1]), sizeof(double));
    p.dvalue = calloc((size_t)cj_numel(x[2]), sizeof(double));
    plain_loops(&p);
    const double tolerance = t == CJ_F64 ? 1e-12 : t == CJ_F32 ? 3e-6 : t == CJ_F16 ? 1e-3 : 8e-3;
    compare(y, p.o, tolerance, "result", which);
    compare(d[0], p.dq, tolerance, "dq", which);
    compare(d[1], p.dk, tolerance, "dk", which);
    compare(d[2], p.dvalue, tolerance, "dv", which);
    for (int i = 0; i < 4; i++) free(v[i]);
    free(bias), free(keep), free(n), free(p.o), free(p.dq), free(p.dk), free(p.dvalue);
    cj_scope_close(scope);
}

static void against_loops(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2 });
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    for (uint64_t seed = 1; seed <= 60; seed++) random_case(c, types[seed % 7 < 4 ? 0 : seed % 7 - 3], seed);
    cj_ctx_free(c);
}

/* ---- scores of any size ------------------------------------------------------------------------------------------------------------------------------- */

/* Scores that grow along the keys, fall, or are far from zero from the first on: the base of the weights moves while the keys pass. */
static void large_scores(cj_ctx *c, cj_dtype t, uint64_t seed, double size, double tolerance)
{
    cj_scope scope = cj_scope_open(c);
    cj_rng_set(c, (cj_rng_state){ .seed = seed });
    enum { KINDS = 5 };
    problem p = { .batch = 1, .heads = 1, .group = 1, .tq = 90, .tk = 300, .d = 3, .dv = 5, .scale = 1 };
    double *q = values_of(cj_randn(c, CJ_SHAPE(p.tq, p.d))), *k = values_of(cj_randn(c, CJ_SHAPE(p.tk, p.d)));
    for (int64_t i = 0; i < p.tq; i++) { /* q_0 multiplies the place of the key, q_1 a constant */
        static const double kinds[KINDS][2] = { { 0, 0 }, { 1, 0 }, { -1, 0 }, { 0, 1 }, { 0, -1 } };
        q[i * p.d] = size * kinds[i % KINDS][0], q[i * p.d + 1] = size * kinds[i % KINDS][1];
    }
    for (int64_t j = 0; j < p.tk; j++) k[j * p.d] = (double)j / (double)p.tk, k[j * p.d + 1] = 1;
    cj_tensor *x[3] = { cj_cast(cj_reshape(cj_from_f64(c, q, CJ_SHAPE(p.tq, p.d)), CJ_SHAPE(1, p.tq, p.d)), t),
                        cj_cast(cj_reshape(cj_from_f64(c, k, CJ_SHAPE(p.tk, p.d)), CJ_SHAPE(1, p.tk, p.d)), t),
                        cj_cast(cj_randn(c, CJ_SHAPE(1, p.tk, p.dv)), t) };
    for (int i = 0; i < 3; i++) x[i] = cj_require_grad(x[i]);
    cj_tensor *g = cj_cast(cj_randn(c, CJ_SHAPE(1, p.tq, p.dv)), t), *d[3], *y = cj_attention(x[0], x[1], x[2], .scale = 1);
    cj_grad(y, x, 3, d, .seed = g);
    assert_ok(c);
    double *v[4] = { values_of(x[0]), values_of(x[1]), values_of(x[2]), values_of(g) };
    p.q = v[0], p.k = v[1], p.v = v[2], p.g = v[3];
    p.o = calloc((size_t)cj_numel(y), sizeof(double));
    p.dq = calloc((size_t)cj_numel(x[0]), sizeof(double));
    p.dk = calloc((size_t)cj_numel(x[1]), sizeof(double));
    p.dvalue = calloc((size_t)cj_numel(x[2]), sizeof(double));
    plain_loops(&p);
    char which[64];
    snprintf(which, sizeof which, "%s seed %llu, scores to %g", cj_dtype_name(t), (unsigned long long)seed, size);
    compare(y, p.o, tolerance, "result", which);
    compare(d[0], p.dq, tolerance, "dq", which);
    compare(d[1], p.dk, tolerance, "dk", which);
    compare(d[2], p.dvalue, tolerance, "dv", which);
    for (int i = 0; i < 4; i++) free(v[i]);
    free(q), free(k), free(p.o), free(p.dq), free(p.dk), free(p.dvalue);
    cj_scope_close(scope);
}
static void scores_of_any_size(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    static const double sizes[] = { 1, 5, 7, 8, 9, 20, 100, 1000, 1e4 };
    for (int i = 0; i < 9; i++) { /* a score is off by some eps·size, and so is its weight */
        large_scores(c, CJ_F32, 11 + (uint64_t)i, sizes[i], 3e-6 + 4e-7 * sizes[i]);
        large_scores(c, CJ_F64, 31 + (uint64_t)i, sizes[i], 1e-12 + 1e-15 * sizes[i]);
    }
    cj_ctx_free(c);
}

/* A query's results do not depend on its neighbours, however large their scores are, or no numbers at all. */
static void neighbours_do_not_show(void **state)
{
    (void)state;
    enum { Q = 100, K = 200, W = 8 };
    static const double strange[] = { 300, -1e4, 1e30, NAN, INFINITY };
    static const int64_t rows[] = { 3, 17, 40, 41, 77 };
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *q = cj_randn(c, CJ_SHAPE(1, Q, W)), *k = cj_randn(c, CJ_SHAPE(1, K, W)), *v = cj_randn(c, CJ_SHAPE(1, K, W));
    double *plain = values_of(q), *odd = values_of(q), *got[2][2];
    for (int i = 0; i < 5; i++)
        for (int e = 0; e < W; e++) odd[rows[i] * W + e] *= strange[i];
    for (int causal = 0; causal < 2; causal++) {
        for (int i = 0; i < 2; i++) {
            cj_tensor *x = cj_require_grad(cj_cast(cj_from_f64(c, i ? odd : plain, CJ_SHAPE(1, Q, W)), CJ_F32)), *dq;
            cj_tensor *y = cj_attention(x, k, v, .causal = causal);
            assert_true(cj_grad(y, &x, 1, &dq, .seed = cj_ones_like(y)));
            got[i][0] = values_of(y), got[i][1] = values_of(dq);
        }
        for (int64_t r = 0; r < Q; r++) {
            bool changed = false;
            for (int i = 0; i < 5; i++) changed |= rows[i] == r;
            for (int part = 0; part < 2 && !changed; part++)
                if (memcmp(got[0][part] + r * W, got[1][part] + r * W, W * sizeof(double)) != 0)
                    fail_msg("%s of query %ld depends on other queries, causal %d", part ? "dq" : "result", (long)r, causal);
        }
        for (int i = 0; i < 2; i++) free(got[i][0]), free(got[i][1]);
    }
    free(plain), free(odd);
    cj_ctx_free(c);
}

/* ---- threads and layouts -------------------------------------------------------------------------------------------------------------------------- */

/* Result and gradients of one attention on inputs that depend on the seed only. */
static void run_once(int threads, int64_t heads, int64_t shared, int64_t t, double drop, double **out, int64_t *n)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 5 });
    cj_tensor *q = cj_require_grad(cj_randn(c, CJ_SHAPE(heads, t, 24))), *k = cj_require_grad(cj_randn(c, CJ_SHAPE(shared, t + 3, 24))),
              *v = cj_require_grad(cj_randn(c, CJ_SHAPE(shared, t + 3, 24))), *d[3];
    cj_tensor *y = cj_attention(q, k, v, .causal = true, .dropout = drop);
    cj_grad(y, CJ_TENSORS(q, k, v), 3, d, .seed = cj_ones_like(y));
    assert_ok(c);
    cj_tensor *all = cj_cat(CJ_TENSORS(cj_flatten(y, 0), cj_flatten(d[0], 0), cj_flatten(d[1], 0), cj_flatten(d[2], 0)), 4, 0);
    *n = cj_numel(all);
    *out = values_of(all);
    cj_ctx_free(c);
}

static void threads_do_not_show(void **state)
{
    (void)state;
    const int64_t cases[][3] = { { 1, 1, 700 }, { 4, 2, 300 }, { 8, 8, 90 }, { 6, 1, 513 } }; /* few heads are cut into ranges of keys */
    for (int i = 0; i < 4; i++)
        for (int drop = 0; drop < 2; drop++) {
            double *one, *many;
            int64_t n;
            run_once(1, cases[i][0], cases[i][1], cases[i][2], 0.25 * drop, &one, &n);
            for (int threads = 2; threads <= 5; threads += 3) {
                run_once(threads, cases[i][0], cases[i][1], cases[i][2], 0.25 * drop, &many, &n);
                if (memcmp(one, many, (size_t)n * sizeof *one) != 0) fail_msg("case %d: %d threads differ from one", i, threads);
                free(many);
            }
            free(one);
        }
}

enum { B = 2, T = 70, H = 3, D = 20 };
static cj_tensor *heads_first(cj_tensor *x) { return cj_transpose(cj_reshape(x, CJ_SHAPE(B, T, H, D)), 1, 2); }

static void transposed(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_attention(heads_first(in[0]), heads_first(in[1]), heads_first(in[2]), .causal = true);
}

static void views_are_not_copied(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 3 });
    cj_tensor *in[3], *dense[3], *out[1];
    for (int i = 0; i < 3; i++) {
        in[i] = cj_randn(c, CJ_SHAPE(B, T, H * D));
        dense[i] = cj_contiguous(heads_first(in[i]));
    }
    cj_tensor *want = cj_attention(dense[0], dense[1], dense[2], .causal = true);
    cj_plan *p = cj_capture(c, transposed, NULL, in, 3, out);
    for (int i = 0; i < 3; i++) assert_true(cj_replay(p, in, out));
    assert_true(same_bits(out[0], want));
    assert_int_equal(cj_plan_statistics(p).kernels, 1);
    assert_int_equal(cj_plan_statistics(p).allocations, 0);
    /* other strides of the last axis are copied, to the same result */
    cj_tensor *q = cj_transpose(cj_contiguous(cj_transpose(dense[0], 2, 3)), 2, 3);
    assert_true(same_bits(cj_attention(q, dense[1], dense[2], .causal = true), want));
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------------------------------------- */

static void train(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    cj_tensor *q = cj_require_grad(in[0]), *k = cj_require_grad(in[1]), *v = cj_require_grad(in[2]);
    out[0] = cj_attention(q, k, v);
    cj_grad(out[0], CJ_TENSORS(q, k, v), 3, out + 1, .seed = in[3]);
}

/* Most bytes that a training step of T queries and keys holds, its plan's included. */
static double peak_of(int64_t t)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 1 });
    cj_tensor *in[4], *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    for (int i = 0; i < 4; i++) in[i] = cj_keep(cj_randn(c, CJ_SHAPE(2, t, 16)));
    cj_plan *p = NULL;
    for (int i = 0; i < 3; i++) {
        cj_scope s = cj_scope_open(c);
        if (i == 0) p = cj_capture(c, train, NULL, in, 4, out);
        else assert_true(cj_replay(p, in, out));
        cj_scope_close(s);
    }
    assert_ok(c);
    double peak = (double)cj_memory_stats(c).peak;
    cj_ctx_free(c);
    return peak;
}

static void memory_is_linear(void **state)
{
    (void)state;
    double a = peak_of(2048), b = peak_of(4096), scores = 2.0 * 4096 * 4096 * sizeof(float);
    if (!(b <= 2.1 * a)) fail_msg("T 2048: %.0f bytes, T 4096: %.0f", a, b);
    if (!(b < 0.2 * scores)) fail_msg("T 4096: %.0f bytes, the scores alone would be %.0f", b, scores);
}

/* ---- dropout ----------------------------------------------------------------------------------------------------------------------------------------------- */

static void dropping(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    cj_tensor *v = cj_require_grad(in[2]);
    out[0] = cj_attention(in[0], in[1], v, .dropout = *(double *)user);
    cj_grad(out[0], &v, 1, out + 1, .seed = cj_ones_like(out[0]));
}

static void dropout_follows_its_stream(void **state)
{
    (void)state;
    double p = 0.25;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 9 });
    cj_tensor *in[3] = { cj_zeros(c, CJ_SHAPE(40, 8), CJ_F32), cj_randn(c, CJ_SHAPE(500, 8)), cj_eye(c, 500, CJ_F32) };
    cj_tensor *eager[4][2], *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    cj_rng_state start = cj_rng_get(c);
    for (int i = 0; i < 4; i++) dropping(c, &p, in, eager[i]);
    assert_int_equal(cj_rng_get(c).call[CJ_STREAM_DROPOUT] - start.call[CJ_STREAM_DROPOUT], 4);
    assert_false(same_bits(eager[0][0], eager[1][0]));
    /* weights are 0 or 1/500/(1-p), in the right proportion; the backward pass drops the same ones */
    double *w = values_of(eager[0][0]), *dv = values_of(eager[0][1]), kept = 0, sums[500] = { 0 };
    for (int i = 0; i < 40 * 500; i++) {
        if (w[i] != 0) assert_near(w[i], 1 / 375.0, 1e-8);
        kept += w[i] != 0;
        sums[i % 500] += w[i];
    }
    assert_near(kept / 20000, 0.75, 0.015);
    for (int j = 0; j < 500; j++) assert_near(dv[j * 500], sums[j], 1e-6);
    free(w), free(dv);
    cj_rng_set(c, start);
    cj_plan *plan = cj_capture(c, dropping, &p, in, 3, out);
    for (int i = 0; i < 4; i++) {
        if (i) assert_true(cj_replay(plan, in, out));
        assert_true(same_bits(out[0], eager[i][0]));
        assert_true(same_bits(out[1], eager[i][1]));
    }
    assert_true(cj_plan_statistics(plan).compiled);
    p = 1;
    dropping(c, &p, in, out);
    assert_near(value_at(cj_sum(cj_abs(out[0])), 0), 0, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- nothing to see; masks that are learnt --------------------------------------------------------------------------------------------------------------- */

static void rows_that_see_nothing_are_zero(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 2 });
    for (int t = 1; t < 20; t += 15) /* a few queries, a block of them */
        for (int kind = 0; kind < 4; kind++) {
            cj_tensor *x[3], *d[3], *h[3];
            const int64_t tk = kind == 3 ? 0 : 6;
            for (int i = 0; i < 3; i++) x[i] = cj_require_grad(cj_randn(c, CJ_SHAPE(1, i ? tk : t, 5)));
            cj_tensor *mask = kind == 0   ? cj_zeros(c, CJ_SHAPE(t, 6), CJ_BOOL)
                              : kind == 1 ? cj_full(c, -INFINITY, CJ_SHAPE(6), CJ_F32)
                                          : NULL;
            cj_tensor *y = cj_attention(x[0], x[1], x[2], .mask = mask, .causal = kind == 2,
                                        .key_length = kind == 2 ? cj_full(c, 1, CJ_SCALAR, CJ_I64) : NULL);
            cj_grad(y, x, 3, d, .seed = cj_ones_like(y), .create_graph = true);
            assert_ok(c);
            double *o = values_of(y), *g = values_of(d[0]);
            const int dead = kind == 2 ? t - 1 : t; /* with one key, only the last query sees it */
            for (int i = 0; i < dead * 5; i++) assert_true(o[i] == 0 && g[i] == 0);
            free(o), free(g);
            cj_tensor *again = cj_attention(x[0], x[1], x[2], .mask = mask, .causal = kind == 2,
                                            .key_length = kind == 2 ? cj_full(c, 1, CJ_SCALAR, CJ_I64) : NULL);
            cj_grad(again, x, 3, h, .seed = cj_ones_like(y));
            assert_ok(c);
            for (int i = 0; i < 3; i++) assert_near(distance(d[i], h[i]), 0, 1e-6);
        }
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *with_mask(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)user, (void)n;
    return cj_attention(x[0], x[1], x[2], .mask = x[3]);
}

static void masks_are_differentiable(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 6 });
    cj_random_opts wide = { .dtype = CJ_F64 };
    cj_tensor *x[4] = { (cj_randn)(c, CJ_SHAPE(2, 4, 3, 2), &wide), (cj_randn)(c, CJ_SHAPE(2, 2, 5, 2), &wide),
                        (cj_randn)(c, CJ_SHAPE(2, 2, 5, 2), &wide), (cj_randn)(c, CJ_SHAPE(4, 1, 5), &wide) };
    cj_gradcheck_result r = cj_gradcheck(c, with_mask, NULL, x, 4, .second_order = true);
    if (!r.ok) fail_msg("input %d: %s", r.input, r.what);
    cj_ctx_free(c);
}

/* ---- q, k and v side by side --------------------------------------------------------------------------------------------------------------------------- */

/* The same numbers, to the bit, as attention of the three parts, and one gradient that holds theirs. */
static void packed_is_attention_of_its_parts(void **state)
{
    (void)state;
    enum { B = 2, T = 70, H = 3, D = 20 };
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16 };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 9 });
        cj_tensor *x = cj_require_grad(cj_cast(cj_randn(c, CJ_SHAPE(B, T, 3 * H * D)), types[k])), *part[3], *got, *expected;
        cj_tensor *seed = cj_cast(cj_randn(c, CJ_SHAPE(B, T, H * D)), types[k]);
        for (int i = 0; i < 3; i++) {
            cj_tensor *own = cj_reshape(cj_slice(x, 2, i * H * D, (i + 1) * H * D, 1), CJ_SHAPE(B, T, H, D));
            part[i] = cj_transpose(own, 1, 2);
        }
        cj_tensor *apart = cj_reshape(cj_transpose(cj_attention(part[0], part[1], part[2], .causal = true), 1, 2), CJ_SHAPE(B, T, H * D));
        cj_tensor *packed = cj_attention_packed(x, H, .causal = true);
        assert_true(cj_item(cj_max(cj_abs(cj_sub(packed, apart)))) == 0);
        assert_true(cj_grad(packed, &x, 1, &got, .seed = seed) && cj_grad(apart, &x, 1, &expected, .seed = seed));
        assert_true(cj_item(cj_max(cj_abs(cj_sub(got, expected)))) == 0);
        assert_true(cj_item(cj_max(cj_abs(got))) > 0);
        cj_ctx_free(c);
    }
}

/* ---- bad input ----------------------------------------------------------------------------------------------------------------------------------------------- */

/* One query over keys and values whose heads lie side by side, as in a cache: at every level of instructions, against f64 over copies; gradients too, which read the forward's statistics. */
static void side_by_side(cj_ctx *c, cj_dtype t, int64_t heads, int64_t d, int64_t tk, int lengths)
{
    cj_scope scope = cj_scope_open(c);
    const int64_t B = 3;
    const cj_shape lying = CJ_SHAPE(B, tk, heads, d);
    cj_tensor *in[3] = { cj_mul_scalar(cj_randn(c, CJ_SHAPE(B, heads, 1, d)), 3), cj_randn(c, lying), cj_randn(c, lying) }, *wide[3],
              *dx[3], *dw[3];
    for (int i = 0; i < 3; i++) {
        in[i] = cj_cast(i ? cj_transpose(in[i], 1, 2) : in[i], t);
        if (i) in[i] = cj_transpose(cj_contiguous(cj_transpose(in[i], 1, 2)), 1, 2);
        wide[i] = cj_require_grad(cj_contiguous(cj_cast(in[i], CJ_F64)));
        in[i] = cj_require_grad(in[i]);
    }
    cj_tensor *n = lengths == 0   ? NULL
                   : lengths == 1 ? cj_full(c, (double)((tk + 1) / 2), CJ_SCALAR, CJ_I64)
                                  : cj_randint(c, 1, tk + 1, lengths == 2 ? CJ_SHAPE(B, 1) : CJ_SHAPE(B, heads));
    cj_tensor *y = cj_attention(in[0], in[1], in[2], .key_length = n), *want = cj_attention(wide[0], wide[1], wide[2], .key_length = n);
    cj_tensor *g = cj_randn(c, cj_shape_of(y));
    cj_grad(y, in, 3, dx, .seed = cj_cast(g, t));
    cj_grad(want, wide, 3, dw, .seed = cj_cast(cj_cast(g, t), CJ_F64));
    assert_ok(c);
    char which[128];
    snprintf(which, sizeof which, "%s %s, %ld heads of %ld, %ld keys, lengths %d", cj_ctx_isa(c), cj_dtype_name(t), (long)heads, (long)d,
             (long)tk, lengths);
    const double tolerance = t == CJ_F32 ? 5e-6 : t == CJ_F16 ? 2e-3 : 1.6e-2;
    cj_tensor *got[4] = { y, dx[0], dx[1], dx[2] }, *expected[4] = { want, dw[0], dw[1], dw[2] };
    for (int i = 0; i < 4; i++) {
        double *e = values_of(expected[i]);
        compare(got[i], e, i ? 4 * tolerance : tolerance, i ? "gradient" : "result", which); /* gradients cancel */
        free(e);
    }
    cj_scope_close(scope);
}

static void heads_side_by_side(void **state)
{
    (void)state;
    static const char *const levels[] = { "avx512", "avx2", "neon", "portable" };
    static const int64_t keys[] = { 1, 2, 3, 7, 64, 255, 259, 600 };
    for (int l = 0; l < 4; l++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 3, .isa = levels[l] });
        for (int k = 0; k < 8 && cj_ok(c); k++)
            for (int64_t d = 4; d <= 64; d *= 2)
                for (int kind = 0; kind < 3; kind++)
                    side_by_side(c,
                                 kind == 0   ? CJ_F32
                                 : kind == 1 ? CJ_BF16
                                             : CJ_F16,
                                 k % 3 == 2 ? 12 : 16, d, keys[k], (int)(k + d / 4 + kind) % 4);
        cj_ctx_free(c);
    }
}

/* What a profile says: two products of every pair of a query and a key that it sees, backward five. */
static void a_profile_counts_pairs(void **state)
{
    enum { HEADS = 6, TQ = 5, TK = 9, D = 4, DV = 3 };
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    for (int causal = 0; causal < 2; causal++) {
        const double pairs = HEADS * (causal ? 5 + 6 + 7 + 8 + 9 : TQ * TK);
        cj_tensor *q = cj_require_grad(cj_randn(c, CJ_SHAPE(2, 3, TQ, D))), *k = cj_randn(c, CJ_SHAPE(2, 3, TK, D)), *g;
        cj_tensor *v = cj_randn(c, CJ_SHAPE(2, 3, TK, DV));
        cj_profile_row rows[32];
        assert_true(cj_profile_start(c));
        assert_true(cj_grad(cj_sum(cj_attention(q, k, v, .causal = causal)), &q, 1, &g));
        const int n = cj_profile_stop(c, rows, 32);
        double forward = 0, backward = 0;
        for (int i = 0; i < n; i++) {
            if (strcmp(rows[i].op, "attention") == 0) forward = rows[i].flops;
            if (strcmp(rows[i].op, "attention_backward") == 0) backward = rows[i].flops;
        }
        assert_float_equal(forward, 2 * pairs * (D + DV), 0);
        assert_float_equal(backward, 2 * pairs * (3 * D + 2 * DV), 0);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static void bad_input_is_one_sentence(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *q = cj_randn(c, CJ_SHAPE(2, 4, 3, 5)), *k = cj_randn(c, CJ_SHAPE(2, 4, 6, 5)), *i = cj_zeros(c, CJ_SHAPE(3, 6), CJ_I64);
#define BAD(code, text, ...)                                                                                                               \
    do {                                                                                                                                   \
        assert_true(cj_is_poison(cj_attention(__VA_ARGS__)));                                                                              \
        assert_error(c, code, text);                                                                                                       \
        assert_null(strchr(cj_message(c), '\n'));                                                                                          \
        cj_clear(c);                                                                                                                       \
    } while (0)
#define R(...) cj_randn(c, CJ_SHAPE(__VA_ARGS__))
    BAD(CJ_ESHAPE, "attention: q [5], k [2, 4, 6, 5], v [2, 4, 6, 5]; [.., T, d] expected", R(5), k, k);
    BAD(CJ_ESHAPE, "attention: the rows of q [2, 4, 3, 5] and k [2, 4, 6, 4] have different sizes", q, R(2, 4, 6, 4), k);
    BAD(CJ_ESHAPE, "attention: k [2, 4, 6, 5] and v [2, 4, 7, 5] have different numbers of rows", q, k, R(2, 4, 7, 5));
    BAD(CJ_ESHAPE, "attention: the 4 heads of q [2, 4, 3, 5] are no multiple of the 3 heads of k [2, 3, 6, 5]", q, R(2, 3, 6, 5),
        R(2, 3, 6, 5));
    BAD(CJ_ESHAPE, "attention: the leading axes of q [2, 4, 3, 5], k [3, 4, 6, 5] and v [3, 4, 6, 5] do not fit", q, R(3, 4, 6, 5),
        R(3, 4, 6, 5));
    BAD(CJ_ESHAPE, "attention: the leading axes of q [2, 4, 3, 5], k [2, 4, 6, 5] and v [2, 2, 6, 5] do not fit", q, k, R(2, 2, 6, 5));
    BAD(CJ_EDTYPE, "attention: q is f32, k f64, v f32; the same float type expected", q, cj_cast(k, CJ_F64), k);
    BAD(CJ_EDTYPE, "attention: q is i64, k i64, v i64; the same float type expected", i, i, i);
    BAD(CJ_ESHAPE, "attention: the mask [6, 3] does not broadcast to the scores [2, 4, 3, 6]", q, k, k,
        .mask = cj_ones(c, CJ_SHAPE(6, 3), CJ_BOOL));
    BAD(CJ_ESHAPE, "attention: the mask [1, 2, 4, 3, 6] does not broadcast", q, k, k, .mask = cj_ones(c, CJ_SHAPE(1, 2, 4, 3, 6), CJ_BOOL));
    BAD(CJ_EDTYPE, "attention: the mask is i64; bool or a float type expected", q, k, k, .mask = i);
    BAD(CJ_ESHAPE, "attention: key_length is f32 []; i64, 0-d or of q's 2 leading axes expected", q, k, k, .key_length = cj_scalar(c, 2));
    BAD(CJ_ESHAPE, "attention: key_length is i64 [3, 4]; i64, 0-d or of q's 2 leading axes", q, k, k,
        .key_length = cj_ones(c, CJ_SHAPE(3, 4), CJ_I64));
    BAD(CJ_EINDEX, "attention: key_length 7 lies outside of 1 … 6", q, k, k, .key_length = cj_full(c, 7, CJ_SCALAR, CJ_I64));
    BAD(CJ_EINDEX, "attention: key_length 0 lies outside of 1 … 6", q, k, k, .key_length = cj_zeros(c, CJ_SHAPE(2, 4), CJ_I64));
    BAD(CJ_EVALUE, "attention: dropout -0.5 is outside [0, 1]", q, k, k, .dropout = -0.5);
    BAD(CJ_EVALUE, "attention: dropout nan is outside [0, 1]", q, k, k, .dropout = (double)NAN);
    BAD(CJ_EVALUE, "attention: argument 3 is NULL", q, k, NULL);
#define BAD_PACKED(code, text, ...)                                                                                                        \
    do {                                                                                                                                   \
        assert_true(cj_is_poison(cj_attention_packed(__VA_ARGS__)));                                                                       \
        assert_error(c, code, text);                                                                                                       \
        cj_clear(c);                                                                                                                       \
    } while (0)
    BAD_PACKED(CJ_ESHAPE, "attention_packed: [4, 12] with 3 heads; [.., T, 3·heads·d] expected", R(4, 12), 3);
    BAD_PACKED(CJ_ESHAPE, "attention_packed: [12] with 2 heads", R(12), 2);
    BAD_PACKED(CJ_ESHAPE, "attention_packed: [4, 12] with 0 heads", R(4, 12), 0);
    BAD_PACKED(CJ_EDTYPE, "attention_packed: the input is i64; a float type expected", i, 2);
    BAD_PACKED(CJ_ESHAPE, "attention: the mask [5, 4] does not broadcast to the scores [2, 4, 4]", R(4, 12), 2, .mask = R(5, 4));
    BAD_PACKED(CJ_EVALUE, "attention: dropout 2 is outside [0, 1]", R(4, 12), 2, .dropout = 2);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_loops),
        cmocka_unit_test(scores_of_any_size),
        cmocka_unit_test(neighbours_do_not_show),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(views_are_not_copied),
        cmocka_unit_test(memory_is_linear),
        cmocka_unit_test(dropout_follows_its_stream),
        cmocka_unit_test(rows_that_see_nothing_are_zero),
        cmocka_unit_test(masks_are_differentiable),
        cmocka_unit_test(packed_is_attention_of_its_parts),
        cmocka_unit_test(heads_side_by_side),
        cmocka_unit_test(a_profile_counts_pairs),
        cmocka_unit_test(bad_input_is_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
