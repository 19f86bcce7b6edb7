/* The catalogue's rows on attention that the operator and public operators show: attn.* by name, numbers from the rows or from closed forms. */
#include "support.h"

static const cj_random_opts wide = { .dtype = CJ_F64 };
static cj_tensor *normal(cj_ctx *c, cj_shape s) { return (cj_randn)(c, s, &wide); }
static cj_tensor *identity(cj_ctx *c, int64_t n) { return cj_eye(c, n, CJ_F64); }
/* The weights themselves: values that are the unit vectors. */
static cj_tensor *weights(cj_tensor *q, cj_tensor *k, double scale, cj_tensor *mask, bool causal)
{
    cj_tensor *one = cj_cast(cj_eye(cj_tensor_ctx(q), cj_size(k, -2), CJ_F64), cj_dtype_of(q));
    return cj_attention(q, k, one, .scale = scale, .mask = mask, .causal = causal);
}
static void assert_values(cj_tensor *t, const double *want, int n, double tolerance)
{
    double *v = values_of(t);
    for (int i = 0; i < n; i++) assert_near(v[i], want[i], tolerance);
    free(v);
}
static void assert_gradients(cj_ctx *c, cj_fn fn, cj_tensor *const *x, int n)
{
    cj_gradcheck_result r = cj_gradcheck(c, fn, NULL, x, n, .second_order = true);
    if (!r.ok) fail_msg("input %d: %s", r.input, r.what);
}
static cj_tensor *column_of_ones(cj_tensor *w) { return cj_sum(w, .axes = CJ_AXIS(-1)); }
static cj_tensor *permuted(cj_tensor *x, const int64_t *order, int n)
{
    return cj_index_select(x, 0, cj_from_i64(cj_tensor_ctx(x), order, CJ_SHAPE(n)));
}
static const int64_t order[6] = { 3, 0, 5, 1, 4, 2 };

/* attn.dot: q = (1,0), k = (1,0), (0,1), (1,1); attn.scaled: the same with sqrt(2) */
static cj_tensor *example_q(cj_ctx *c) { return F64(c, CJ_SHAPE(1, 2), 1, 0); }
static cj_tensor *example_k(cj_ctx *c) { return F64(c, CJ_SHAPE(3, 2), 1, 0, 0, 1, 1, 1); }

static void attn_dot(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    assert_values(weights(example_q(c), example_k(c), 1, NULL, false), (double[]){ .422319, .155362, .422319 }, 3, 5e-7);
    assert_ok(c);
    cj_ctx_free(c);
}

static void attn_scaled(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 12 });
    assert_values(weights(example_q(c), example_k(c), 0, NULL, false), (double[]){ .401112, .197776, .401112 }, 3, 5e-7);
    const int64_t size[] = { 4, 64, 256, 16384 };
    double slope[2][4];           /* mean of w(1 - w), through which the gradient of the scores comes: unscaled, scaled */
    for (int i = 0; i < 4; i++) { /* var(q·k) = d, 1 after scaling; its estimate from 4000 products has a deviation of 2 to 4 % */
        const int64_t d = size[i];
        if (i < 3) {
            cj_tensor *products = cj_sum(cj_mul(normal(c, CJ_SHAPE(4000, d)), normal(c, CJ_SHAPE(4000, d))), .axes = CJ_AXIS(-1));
            assert_near(value_at(cj_mean(cj_square(products)), 0) / (double)d, 1, 0.12);
            assert_near(value_at(cj_mean(cj_square(cj_mul_scalar(products, 1 / sqrt((double)d)))), 0), 1, 0.12);
        }
        cj_tensor *q = normal(c, CJ_SHAPE(200, d)), *k = normal(c, CJ_SHAPE(16, d));
        for (int scaled = 0; scaled < 2; scaled++) {
            cj_tensor *w = weights(q, k, scaled ? 0 : 1, NULL, false);
            slope[scaled][i] = value_at(cj_mean(cj_sub(w, cj_square(w))), 0);
        }
        if (i) assert_true(slope[0][i] < slope[0][i - 1]);
        assert_near(slope[1][i], 0.052, 0.012); /* scaled it stays */
    }
    assert_true(slope[0][3] < 0.1 * slope[1][3]);
    /* row form softmax(QKᵀ/√d)·V against column form V·softmax(KᵀQ/√d) on transposes */
    cj_tensor *q = normal(c, CJ_SHAPE(5, 3)), *k = normal(c, CJ_SHAPE(7, 3)), *v = normal(c, CJ_SHAPE(7, 4));
    cj_tensor *columns = cj_matmul(cj_t(v), cj_softmax(cj_mul_scalar(cj_matmul(k, cj_t(q)), 1 / sqrt(3)), 0));
    assert_near(distance(cj_attention(q, k, v), cj_t(columns)), 0, 1e-14);
    assert_ok(c);
    cj_ctx_free(c);
}

static cj_tensor *pool_of(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)user, (void)n;
    return cj_attention(x[0], x[1], x[1], .scale = 1);
}

/* attn.pool: one query reads a set */
static void attn_pool(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1 });
    cj_tensor *in[2] = { normal(c, CJ_SHAPE(1, 3)), normal(c, CJ_SHAPE(6, 3)) }, *w = weights(in[0], in[1], 1, NULL, false);
    double *p = values_of(w), sum = 0, *x = values_of(in[1]), *y = values_of(pool_of(c, NULL, in, 2));
    for (int i = 0; i < 6; i++) assert_true(p[i] >= 0), sum += p[i];
    assert_near(sum, 1, 1e-15);
    for (int e = 0; e < 3; e++) { /* in the convex hull: the sum with these weights, and within the bounds of each coordinate */
        double want = 0, low = INFINITY, high = -INFINITY;
        for (int i = 0; i < 6; i++) want += p[i] * x[3 * i + e], low = fmin(low, x[3 * i + e]), high = fmax(high, x[3 * i + e]);
        assert_near(y[e], want, 1e-14);
        assert_true(low <= y[e] && y[e] <= high);
    }
    free(p), free(x), free(y);
    cj_tensor *one[2] = { in[0], cj_slice(in[1], 0, 2, 3, 1) };
    assert_near(distance(pool_of(c, NULL, one, 2), one[1]), 0, 0);
    cj_tensor *other[2] = { in[0], permuted(in[1], order, 6) };
    assert_near(distance(pool_of(c, NULL, other, 2), pool_of(c, NULL, in, 2)), 0, 1e-14);
    assert_gradients(c, pool_of, in, 2);
    cj_ctx_free(c);
}

static cj_tensor *attend(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)user, (void)n;
    return cj_attention(x[0], x[1], x[2]);
}

/* attn.key-value */
static void attn_key_value(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 2 });
    cj_tensor *in[3] = { normal(c, CJ_SHAPE(2, 3)), normal(c, CJ_SHAPE(5, 3)), normal(c, CJ_SHAPE(5, 2)) };
    assert_near(distance(cj_attention(in[0], in[1], in[1], .scale = 1), pool_of(c, NULL, in, 2)), 0, 0);
    cj_tensor *best = cj_index_select(in[2], 0, cj_argmax(cj_matmul(in[0], cj_t(in[1])), .axes = CJ_AXIS(1)));
    assert_near(distance(cj_attention(in[0], in[1], in[2], .scale = 1e4), best), 0, 1e-12);
    assert_gradients(c, attend, in, 3);
    cj_ctx_free(c);
}

/* sᵀ·W·h: the queries s [.., n], keys h [.., m], W [n, m] */
static cj_tensor *general(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)user, (void)n;
    return cj_attention(cj_matmul(x[0], x[1]), x[2], x[3], .scale = 1);
}

/* attn.general and attn.lowrank */
static void attn_general(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3 });
    cj_tensor *s = normal(c, CJ_SHAPE(2, 3)), *h = normal(c, CJ_SHAPE(4, 3)), *v = normal(c, CJ_SHAPE(4, 2));
    assert_near(distance(general(c, NULL, CJ_TENSORS(s, identity(c, 3), h, v), 4), cj_attention(s, h, v, .scale = 1)), 0, 1e-15);
    cj_tensor *W = normal(c, CJ_SHAPE(3, 5)), *wider = normal(c, CJ_SHAPE(4, 5)), *other = normal(c, CJ_SHAPE(2, 3));
    /* bilinear: differences of log-weights are differences of scores; those of s + t are the sum of both */
    cj_tensor *log_w[3];
    cj_tensor *query[3] = { s, other, cj_add(s, other) };
    for (int i = 0; i < 3; i++) {
        cj_tensor *l = cj_log(weights(cj_matmul(query[i], W), wider, 1, NULL, false));
        log_w[i] = cj_sub(l, cj_slice(l, 1, 0, 1, 1));
    }
    assert_near(distance(cj_add(log_w[0], log_w[1]), log_w[2]), 0, 1e-12);
    cj_tensor *x[4] = { s, W, wider, v };
    assert_gradients(c, general, x, 4);
    cj_ctx_free(c);
}

static void attn_lowrank(void **state)
{
    (void)state;
    enum { S = 9, M = 11, K = 2 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 4 });
    cj_tensor *s = normal(c, CJ_SHAPE(3, S)), *h = normal(c, CJ_SHAPE(4, M)), *v = normal(c, CJ_SHAPE(4, 2)),
              *U = normal(c, CJ_SHAPE(K, S)), *V = normal(c, CJ_SHAPE(K, M));
    cj_tensor *reduced = cj_attention(cj_matmul(s, cj_t(U)), cj_matmul(h, cj_t(V)), v, .scale = 1);
    assert_near(distance(reduced, general(c, NULL, CJ_TENSORS(s, cj_matmul(cj_t(U), V), h, v), 4)), 0, 1e-13);
    assert_int_equal(cj_numel(U) + cj_numel(V), K * (S + M));
    assert_true(K * (S + M) < S * M);
    cj_ctx_free(c);
}

/* vᵀ·tanh(W·h + V·s) for s [n, ..], h [m, ..] -> scores [n, m] */
static cj_tensor *additive_scores(cj_tensor *s, cj_tensor *h, cj_tensor *W, cj_tensor *V, cj_tensor *v)
{
    cj_tensor *left = cj_unsqueeze(cj_matmul(s, cj_t(V)), 1), *right = cj_unsqueeze(cj_matmul(h, cj_t(W)), 0);
    return cj_matmul(cj_tanh(cj_add(left, right)), v);
}
static cj_tensor *additive(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    (void)c, (void)user, (void)n;
    return cj_matmul(cj_softmax(additive_scores(x[0], x[1], x[2], x[3], x[4]), -1), x[1]);
}

/* attn.additive */
static void attn_additive(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 5 });
    cj_tensor *x[5] = { normal(c, CJ_SHAPE(2, 3)), normal(c, CJ_SHAPE(4, 2)), normal(c, CJ_SHAPE(3, 2)), normal(c, CJ_SHAPE(3, 3)),
                        normal(c, CJ_SHAPE(3)) };
    assert_gradients(c, additive, x, 5);
    double bound = value_at(cj_sum(cj_abs(x[4])), 0), most = value_at(cj_max(cj_abs(additive_scores(x[0], x[1], x[2], x[3], x[4]))), 0);
    assert_true(most <= bound);
    /* Queries live in the first two of four axes, keys in the others: all dot products are 0 and the weights stay uniform. The additive score finds the key of the
     * query's number: unit u of tanh(40·(h_u + s_u - 3/2)) is 1 where both have it, else -1. The bias is an axis of h that is always 1. */
    cj_tensor *s = F64(c, CJ_SHAPE(2, 5), 1, 0, 0, 0, 0, 0, 1, 0, 0, 0), *h = F64(c, CJ_SHAPE(2, 5), 0, 0, 1, 0, 1, 0, 0, 0, 1, 1);
    assert_values(weights(s, h, 1, NULL, false), (double[]){ .5, .5, .5, .5 }, 4, 0);
    cj_tensor *W = F64(c, CJ_SHAPE(2, 5), 0, 0, 40, 0, -60, 0, 0, 0, 40, -60), *V = F64(c, CJ_SHAPE(2, 5), 40, 0, 0, 0, 0, 0, 40, 0, 0, 0);
    cj_tensor *found = cj_softmax(additive_scores(s, h, W, V, F64(c, CJ_SHAPE(2), 5, 5)), -1);
    const double right = 1 / (1 + exp(-10)); /* scores 0 against -10 */
    assert_values(found, (double[]){ right, 1 - right, 1 - right, right }, 4, 1e-12);
    cj_ctx_free(c);
}

/* sum k(x, x_i)·y_i / sum k(x, x_i) */
static cj_tensor *nadaraya_watson(cj_tensor *kernel, cj_tensor *y)
{
    return cj_div(cj_matmul(kernel, y), cj_sum(kernel, .axes = CJ_AXIS(-1), .keepdim = true));
}

/* attn.kernel */
static void attn_kernel(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 6 });
    cj_tensor *q = normal(c, CJ_SHAPE(3, 2)), *k = normal(c, CJ_SHAPE(6, 2)), *y = normal(c, CJ_SHAPE(6, 1));
    assert_near(distance(nadaraya_watson(cj_exp(cj_matmul(q, cj_t(k))), y), cj_attention(q, k, y, .scale = 1)), 0, 1e-13);
    /* Gaussian: -|q - k|²/2σ² = q·k/σ² - |k|²/2σ² + const; keys of equal length */
    const double sigma = 0.7;
    cj_tensor *unit = cj_div(k, cj_sqrt(cj_sum(cj_square(k), .axes = CJ_AXIS(-1), .keepdim = true)));
    cj_tensor *apart = cj_sum(cj_square(cj_sub(cj_unsqueeze(q, 1), cj_unsqueeze(unit, 0))), .axes = CJ_AXIS(-1));
    cj_tensor *gauss = cj_exp(cj_mul_scalar(apart, -1 / (2 * sigma * sigma)));
    assert_near(distance(nadaraya_watson(gauss, y), cj_attention(q, unit, y, .scale = 1 / (sigma * sigma))), 0, 1e-13);
    /* box: queries of zero see all that the mask leaves alike: the mean of the neighbours */
    cj_tensor *x = F64(c, CJ_SHAPE(6, 1), 0, 1, 2, 3, 4, 5), *v = F64(c, CJ_SHAPE(6, 1), 1, 2, 4, 8, 16, 32),
              *at = F64(c, CJ_SHAPE(2, 1), 1.2, 4.5);
    cj_tensor *near = cj_le(cj_abs(cj_sub(at, cj_t(x))), cj_scalar(c, 1));
    assert_values(cj_attention(cj_zeros(c, CJ_SHAPE(2, 2), CJ_F64), cj_zeros(c, CJ_SHAPE(6, 2), CJ_F64), v, .mask = near),
                  (double[]){ 3, 24 }, 2, 1e-14);
    assert_ok(c);
    cj_ctx_free(c);
}

/* attn.masks */
static void attn_masks(void **state)
{
    (void)state;
    enum { N = 70 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7, .threads = 2 });
    cj_tensor *q = cj_randn(c, CJ_SHAPE(N, 8)), *k = cj_require_grad(cj_randn(c, CJ_SHAPE(N, 8)));
    cj_tensor *j = cj_arange(c, 0, N, 1, CJ_I64), *i = cj_reshape(j, CJ_SHAPE(N, 1));
    cj_tensor *masks[4] = { cj_le(j, i), cj_expand(cj_lt(j, cj_full(c, 60, CJ_SCALAR, CJ_I64)), CJ_SHAPE(N, N)), cj_ne(j, i),
                            cj_logical_or(cj_gt(cj_rand(c, CJ_SHAPE(N, N)), cj_scalar(c, 0.5)),
                                          cj_eq(j, i)) }; /* causal, padding, not oneself, any */
    for (int m = 0; m < 4; m++)
        for (int floats = 0; floats < 2; floats++) {
            cj_tensor *mask = floats ? cj_where(masks[m], cj_scalar(c, 0), cj_scalar(c, -INFINITY)) : masks[m];
            cj_tensor *w = weights(q, k, 0, mask, false), *gk;
            double *p = values_of(w), *seen = values_of(masks[m]), *sum = values_of(column_of_ones(w));
            for (int e = 0; e < N * N; e++) assert_true(isfinite(p[e]) && (seen[e] != 0 || p[e] == 0));
            for (int e = 0; e < N; e++) assert_near(sum[e], 1, 1e-6);
            free(p), free(seen), free(sum);
            if (m != 1) continue; /* keys that nobody sees get a gradient of exactly 0 */
            cj_tensor *y = cj_attention(q, k, cj_randn(c, CJ_SHAPE(N, 3)), .mask = mask);
            assert_true(cj_grad(y, &k, 1, &gk, .seed = cj_ones_like(y)));
            double *g = values_of(gk);
            for (int e = 0; e < N * 8; e++) assert_true(isfinite(g[e]) && (e < 60 * 8 || g[e] == 0));
            free(g);
        }
    assert_ok(c);
    cj_ctx_free(c);
}

/* attn.causal */
static void attn_causal(void **state)
{
    (void)state;
    enum { N = 100, D = 16 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 8, .threads = 2 });
    cj_tensor *q = cj_randn(c, CJ_SHAPE(N, D)), *k = cj_randn(c, CJ_SHAPE(N, D)), *v = cj_randn(c, CJ_SHAPE(N, D));
    cj_tensor *y = cj_attention(q, k, v, .causal = true);
    double *w = values_of(weights(q, k, 0, NULL, true));
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++) assert_true(w[i * N + j] == 0);
    free(w);
    for (int n = 1; n < N; n += 33) { /* another future: the same bits up to n */
        cj_tensor *future = cj_randn(c, CJ_SHAPE(N - n, D));
        cj_tensor *other = cj_attention(q, cj_cat(CJ_TENSORS(cj_slice(k, 0, 0, n, 1), future), 2, 0),
                                        cj_cat(CJ_TENSORS(cj_slice(v, 0, 0, n, 1), future), 2, 0), .causal = true);
        assert_true(same_bits(cj_slice(other, 0, 0, n, 1), cj_slice(y, 0, 0, n, 1)));
    }
    for (int n = 0; n < N; n++) { /* symbol by symbol from a cache */
        cj_tensor *step =
            cj_attention(cj_slice(q, 0, n, n + 1, 1), k, v, .causal = true, .key_length = cj_full(c, n + 1, CJ_SCALAR, CJ_I64));
        assert_near(distance(step, cj_slice(y, 0, n, n + 1, 1)), 0, 2e-6);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* Ω_q, β_q, Ω_k, β_k, Ω_v, β_v: x [N, D] -> [N, D] */
static cj_tensor *self_attention(cj_ctx *c, void *user, cj_tensor *const *p, int n)
{
    (void)c, (void)user, (void)n;
    return cj_attention(cj_linear_op(p[0], p[1], p[2]), cj_linear_op(p[0], p[3], p[4]), cj_linear_op(p[0], p[5], p[6]));
}
static void layer(cj_ctx *c, cj_tensor **p, int first, int matrices, int64_t d)
{
    for (int i = 0; i < matrices; i++) {
        p[first + 2 * i] = normal(c, CJ_SHAPE(d, d));
        p[first + 2 * i + 1] = normal(c, CJ_SHAPE(d));
    }
}
static int64_t numbers(cj_tensor *const *p, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += cj_numel(p[i]);
    return sum;
}

/* attn.self */
static void attn_self(void **state)
{
    (void)state;
    enum { D = 3 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 9 });
    cj_tensor *p[7] = { normal(c, CJ_SHAPE(5, D)) };
    layer(c, p, 1, 3, D);
    assert_int_equal(numbers(p + 1, 6), 3 * (D * D + D));
    cj_tensor *w = weights(cj_linear_op(p[0], p[1], p[2]), cj_linear_op(p[0], p[3], p[4]), 0, NULL, false);
    assert_near(distance(column_of_ones(w), cj_ones(c, CJ_SHAPE(5), CJ_F64)), 0, 1e-14);
    assert_near(distance(cj_matmul(w, cj_linear_op(p[0], p[5], p[6])), self_attention(c, NULL, p, 7)), 0, 1e-13);
    assert_gradients(c, self_attention, p, 7);
    p[0] = normal(c, CJ_SHAPE(1, D)); /* the same parameters for another N; alone, a token returns its value */
    assert_near(distance(self_attention(c, NULL, p, 7), cj_linear_op(p[0], p[5], p[6])), 0, 0);
    cj_ctx_free(c);
}

/* attn.permutation */
static void attn_permutation(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 10 });
    cj_tensor *p[7] = { normal(c, CJ_SHAPE(6, 4)) }, *position = normal(c, CJ_SHAPE(6, 4)), *x = p[0];
    layer(c, p, 1, 3, 4);
    for (int placed = 0; placed < 2; placed++) {
        p[0] = placed ? cj_add(x, position) : x;
        cj_tensor *y = permuted(self_attention(c, NULL, p, 7), order, 6);
        p[0] = placed ? cj_add(permuted(x, order, 6), position) : permuted(x, order, 6);
        cj_tensor *z = self_attention(c, NULL, p, 7);
        double apart = distance(y, z), pooled = distance(cj_mean(y, .axes = CJ_AXIS(0)), cj_mean(z, .axes = CJ_AXIS(0)));
        if (placed) assert_true(apart > 1e-3 && pooled > 1e-3);
        else assert_true(apart <= 1e-6 && pooled <= 1e-6);
    }
    cj_ctx_free(c);
}

enum { HEADS = 2, SIZE = 4, EACH = SIZE / HEADS };
static cj_tensor *split(cj_tensor *x, int64_t heads) { return cj_transpose(cj_reshape(x, CJ_SHAPE(-1, heads, SIZE / heads)), 0, 1); }
static cj_tensor *multihead_of(cj_tensor *const *p, int64_t heads)
{
    cj_tensor *y = cj_attention(split(cj_linear_op(p[0], p[1], p[2]), heads), split(cj_linear_op(p[0], p[3], p[4]), heads),
                                split(cj_linear_op(p[0], p[5], p[6]), heads));
    return cj_linear_op(cj_reshape(cj_transpose(y, 0, 1), CJ_SHAPE(-1, SIZE)), p[7], p[8]);
}
static cj_tensor *multihead(cj_ctx *c, void *user, cj_tensor *const *p, int n)
{
    (void)c, (void)user, (void)n;
    return multihead_of(p, HEADS);
}

/* attn.multihead */
static void attn_multihead(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 11 });
    cj_tensor *p[9] = { normal(c, CJ_SHAPE(3, SIZE)) };
    layer(c, p, 1, 4, SIZE);
    assert_int_equal(numbers(p + 1, 8), 4 * (SIZE * SIZE + SIZE));
    assert_gradients(c, multihead, p, 9);
    p[7] = identity(c, SIZE), p[8] = cj_zeros(c, CJ_SHAPE(SIZE), CJ_F64);
    assert_near(distance(multihead_of(p, 1), self_attention(c, NULL, p, 7)), 0, 1e-14);
    for (int h = 0; h < HEADS; h++) { /* a head is a layer of its own with its rows of the matrices */
        cj_tensor *part[7] = { p[0] };
        for (int i = 1; i < 7; i++) part[i] = cj_slice(p[i], 0, h * EACH, (h + 1) * EACH, 1);
        assert_near(distance(self_attention(c, NULL, part, 7), cj_slice(multihead(c, NULL, p, 9), 1, h * EACH, (h + 1) * EACH, 1)), 0,
                    1e-14);
    }
    cj_ctx_free(c);
}

/* attn.cross */
static void attn_cross(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 13 });
    cj_tensor *p[7] = { normal(c, CJ_SHAPE(6, 4)) }, *decoder = normal(c, CJ_SHAPE(3, 4));
    layer(c, p, 1, 3, 4);
    cj_tensor *k = cj_linear_op(p[0], p[3], p[4]), *v = cj_linear_op(p[0], p[5], p[6]), *q = cj_linear_op(decoder, p[1], p[2]);
    cj_tensor *y = cj_attention(q, k, v);
    assert_int_equal(cj_size(y, 0), 3);
    assert_near(distance(cj_attention(cj_linear_op(p[0], p[1], p[2]), k, v), self_attention(c, NULL, p, 7)), 0, 0);
    cj_tensor *source = cj_lt(cj_arange(c, 0, 6, 1, CJ_I64), cj_full(c, 4, CJ_SCALAR, CJ_I64)); /* the last two are padding */
    double *w = values_of(weights(q, k, 0, source, false));
    for (int i = 0; i < 18; i++) assert_true(i % 6 < 4 ? w[i] > 0 : w[i] == 0);
    free(w);
    cj_tensor *shorter = cj_attention(q, cj_slice(k, 0, 0, 4, 1), cj_slice(v, 0, 0, 4, 1));
    assert_near(distance(cj_attention(q, k, v, .mask = source), shorter), 0, 1e-15);
    cj_ctx_free(c);
}

/* attn.gradient-path: from the last output to input t, attention with scores that do not depend on the place against h_t = tanh(w·h_(t-1) + x_t) */
static void attn_gradient_path(void **state)
{
    (void)state;
    enum { N = 300 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 14 });
    cj_tensor *x = cj_require_grad(cj_mul_scalar(normal(c, CJ_SHAPE(N, 1)), 0.1)), *g;
    cj_tensor *one = cj_ones(c, CJ_SHAPE(N, 1), CJ_F64);
    cj_grad(cj_slice(cj_attention(one, one, x, .causal = true), 0, N - 1, N, 1), &x, 1, &g);
    double *a = values_of(g);
    for (int t = 0; t < N; t++) assert_near(a[t], 1.0 / N, 1e-15); /* whatever the distance */
    cj_tensor *h = cj_zeros(c, CJ_SHAPE(1, 1), CJ_F64);
    for (int t = 0; t < N; t++) h = cj_tanh(cj_add(cj_mul_scalar(h, 0.9), cj_slice(x, 0, t, t + 1, 1)));
    cj_grad(h, &x, 1, &g);
    double *r = values_of(g);
    /* each step multiplies by 0.9·(1 - h²) <= 0.9 */
    for (int t = 0; t < N; t++) assert_true(fabs(r[t]) <= pow(0.9, N - 1 - t));
    assert_true(fabs(r[0]) < 1e-13 && fabs(r[N - 1]) > 0.5);
    free(a), free(r);
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attn_dot),       cmocka_unit_test(attn_scaled),    cmocka_unit_test(attn_pool),
        cmocka_unit_test(attn_key_value), cmocka_unit_test(attn_general),   cmocka_unit_test(attn_lowrank),
        cmocka_unit_test(attn_additive),  cmocka_unit_test(attn_kernel),    cmocka_unit_test(attn_masks),
        cmocka_unit_test(attn_causal),    cmocka_unit_test(attn_self),      cmocka_unit_test(attn_permutation),
        cmocka_unit_test(attn_cross),     cmocka_unit_test(attn_multihead), cmocka_unit_test(attn_gradient_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
