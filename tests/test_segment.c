/* Segments, bags, counts and masks against plain loops, ties and empty segments by the rules, and what is refused. */
#include "support.h"

static cj_tensor *ints(cj_ctx *c, const int64_t *v, int64_t n) { return cj_from_i64(c, v, CJ_SHAPE(n)); }
#define INTS(c, ...) ints(c, (int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

static void test_segments(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(4, 2), 1, 2, 3, 4, 5, 6, 3, 8)), *ids = INTS(c, 2, 0, 2, 0), *g;
    assert_near(distance(cj_segment_sum(x, ids, 3), F64(c, CJ_SHAPE(3, 2), 6, 12, 0, 0, 6, 8)), 0, 0);
    cj_tensor *mean = cj_segment_mean(x, ids, 3), *max = cj_segment_max(x, ids, 3);
    assert_near(distance(cj_slice(mean, 0, 0, CJ_END, 2), F64(c, CJ_SHAPE(2, 2), 3, 6, 3, 4)), 0, 0);
    assert_true(isnan(value_at(mean, 2)) && isnan(value_at(mean, 3)));
    assert_near(distance(cj_slice(max, 0, 0, CJ_END, 2), F64(c, CJ_SHAPE(2, 2), 3, 8, 5, 6)), 0, 0);
    assert_true(value_at(max, 2) == -INFINITY);
    assert_true(cj_grad(max, &x, 1, &g, .seed = F64(c, CJ_SHAPE(3, 2), 1, 2, 3, 4, 5, 6)));
    assert_near(distance(g, F64(c, CJ_SHAPE(4, 2), 0, 0, 0.5, 0, 5, 6, 0.5, 2)), 0, 0); /* the two 3s share */
    cj_tensor *whole = cj_segment_max(INTS(c, 4, -9, 7), INTS(c, 1, 1, 0), 3);
    assert_int_equal(cj_dtype_of(whole), CJ_I64);
    assert_true(value_at(whole, 0) == 7 && value_at(whole, 1) == 4 && value_at(whole, 2) == (double)INT64_MIN);
    assert_int_equal(cj_numel(cj_segment_sum(cj_zeros(c, CJ_SHAPE(0, 3), CJ_F32), cj_zeros(c, CJ_SHAPE(0), CJ_I64), 2)), 6);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* Every way to combine, every type, against a loop over the index. */
static void test_scatter_reduce(void **state)
{
    (void)state;
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16, CJ_I64, CJ_I32, CJ_U8, CJ_BOOL };
    enum { ROWS = 3, LEN = 5, N = 9, INNER = 4 };
    for (int threads = 1; threads <= 2; threads++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 11 });
        for (int how = 0; how < 5; how++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                for (int exclude = 0; exclude < 2; exclude++) {
                    if (types[t] == CJ_BOOL && how == CJ_COMBINE_MEAN) continue;
                    cj_scope s = cj_scope_open(c);
                    int64_t low = types[t] == CJ_U8 || types[t] == CJ_BOOL ? 0 : -2;
                    cj_tensor *x = cj_cast(cj_randint(c, low, 2, CJ_SHAPE(ROWS, LEN, INNER)), types[t]);
                    cj_tensor *source = cj_cast(cj_randint(c, low, 2, CJ_SHAPE(ROWS, N, INNER)), types[t]);
                    cj_tensor *index = cj_randint(c, 0, LEN - 1, CJ_SHAPE(ROWS, N, INNER)); /* the last one stays */
                    cj_tensor *y = cj_scatter_reduce(x, 1, index, source, (cj_combine)how, .exclude_self = exclude != 0);
                    assert_ok(c);
                    assert_int_equal(cj_dtype_of(y), types[t]);
                    double *v = values_of(x), *u = values_of(source), *at = values_of(index), *got = values_of(y);
                    for (int64_t o = 0; o < ROWS; o++)
                        for (int64_t r = 0; r < LEN; r++)
                            for (int64_t k = 0; k < INNER; k++) {
                                double want = v[(o * LEN + r) * INNER + k];
                                int64_t count = !exclude, came = 0;
                                for (int64_t i = 0; i < N; i++) {
                                    int64_t e = (o * N + i) * INNER + k;
                                    if ((int64_t)at[e] != r) continue;
                                    came++;
                                    if (!count++) want = u[e];
                                    else if (how == CJ_COMBINE_PROD) want *= u[e];
                                    else if (how == CJ_COMBINE_MAX) want = fmax(want, u[e]);
                                    else if (how == CJ_COMBINE_MIN) want = fmin(want, u[e]);
                                    else want += u[e];
                                }
                                if (how == CJ_COMBINE_MEAN && came) want /= (double)count;
                                if (how == CJ_COMBINE_MEAN && !cj_dtype_is_float(types[t])) want = floor(want);
                                if (types[t] == CJ_U8) want = (double)(uint8_t)(int64_t)want;
                                if (types[t] == CJ_BOOL) want = want != 0;
                                double rounding = types[t] == CJ_BF16  ? 0x1p-8
                                                  : types[t] == CJ_F16 ? 0x1p-11
                                                  : types[t] == CJ_F32 ? 0x1p-24
                                                                       : 1e-16;
                                assert_near(got[(o * LEN + r) * INNER + k], want, fabs(want) * rounding);
                            }
                    free(v), free(u), free(at), free(got);
                    cj_scope_close(s);
                }
        cj_ctx_free(c);
    }
}

static void test_scatter_gradients(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(3), 2, 0, 5)), *u = cj_require_grad(F64(c, CJ_SHAPE(4), 2, 3, 0, 2)), *g[2];
    cj_tensor *index = INTS(c, 0, 1, 1, 0), *wrt[2] = { x, u }, *seed = F64(c, CJ_SHAPE(3), 6, 10, 1);
    assert_true(cj_grad(cj_scatter_reduce(x, 0, index, u, CJ_COMBINE_MAX), wrt, 2, g, .seed = seed));
    assert_near(distance(g[0], F64(c, CJ_SHAPE(3), 2, 0, 1)), 0, 0); /* three times 2: a third each */
    assert_near(distance(g[1], F64(c, CJ_SHAPE(4), 2, 10, 0, 2)), 0, 0);
    assert_true(cj_grad(cj_scatter_reduce(x, 0, index, u, CJ_COMBINE_MIN, .exclude_self = true), wrt, 2, g, .seed = seed));
    assert_near(distance(g[0], F64(c, CJ_SHAPE(3), 0, 0, 1)), 0, 0);
    assert_near(distance(g[1], F64(c, CJ_SHAPE(4), 3, 0, 10, 3)), 0, 0);
    /* 2·2·2 and 0·3·0: with two zeros nobody has a derivative; without x only the zero has one */
    assert_true(cj_grad(cj_scatter_reduce(x, 0, index, u, CJ_COMBINE_PROD), wrt, 2, g, .seed = seed));
    assert_near(distance(g[0], F64(c, CJ_SHAPE(3), 24, 0, 1)), 0, 0);
    assert_near(distance(g[1], F64(c, CJ_SHAPE(4), 24, 0, 0, 24)), 0, 0);
    assert_true(cj_grad(cj_scatter_reduce(x, 0, index, u, CJ_COMBINE_PROD, .exclude_self = true), wrt, 2, g, .seed = seed));
    assert_near(distance(g[1], F64(c, CJ_SHAPE(4), 12, 0, 30, 12)), 0, 0);
    assert_true(cj_grad(cj_scatter_reduce(x, 0, index, u, CJ_COMBINE_MEAN), wrt, 2, g, .seed = seed));
    assert_near(distance(g[1], F64(c, CJ_SHAPE(4), 2, 10. / 3, 10. / 3, 2)), 0, 1e-15);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* Sum, mean and maximum of bags of all lengths, and their gradients, against loops. */
static void test_bags(void **state)
{
    (void)state;
    static const cj_combine modes[] = { CJ_COMBINE_SUM, CJ_COMBINE_MEAN, CJ_COMBINE_MAX };
    static const int64_t lengths[] = { 3, 0, 1, 17, 0, 6 };
    enum { V = 11, BAGS = 6, N = 27 };
    for (int64_t d = 1; d <= 300; d = d * 4 + 3)
        for (int m = 0; m < 4; m++) { /* the last: weighted sums */
            cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 13 });
            cj_scope s = cj_scope_open(c);
            cj_combine mode = modes[m % 3];
            cj_tensor *w = cj_require_grad(cj_randn(c, CJ_SHAPE(V, d))), *index = cj_randint(c, 0, V, CJ_SHAPE(N));
            cj_tensor *factors = m == 3 ? cj_require_grad(cj_randn(c, CJ_SHAPE(N))) : NULL;
            int64_t offset[BAGS];
            for (int64_t b = 0, at = 0; b < BAGS; at += lengths[b++]) offset[b] = at;
            cj_tensor *y = cj_embedding_bag(w, index, ints(c, offset, BAGS), mode, .per_sample_weights = factors);
            cj_tensor *seed = cj_randn(c, CJ_SHAPE(BAGS, d)), *wrt[2] = { w, factors }, *g[2];
            assert_true(cj_grad(y, wrt, factors ? 2 : 1, g, .seed = seed));
            double *table = values_of(w), *at = values_of(index), *f = factors ? values_of(factors) : NULL, *got = values_of(y),
                   *dy = values_of(seed), *dw = values_of(g[0]), *want = calloc((size_t)(V * d + N), sizeof *want), *df = want + V * d;
            for (int64_t b = 0; b < BAGS; b++)
                for (int64_t k = 0; k < d; k++) {
                    double sum = 0, share = mode == CJ_COMBINE_MEAN && lengths[b] ? 1 / (double)lengths[b] : 1;
                    int64_t best = -1;
                    for (int64_t i = offset[b]; i < offset[b] + lengths[b]; i++) {
                        int64_t e = (int64_t)at[i] * d + k;
                        sum += table[e] * share * (f ? f[i] : 1);
                        if (best < 0 || table[e] > table[best]) best = e;
                        if (mode != CJ_COMBINE_MAX) want[e] += dy[b * d + k] * share * (f ? f[i] : 1);
                        df[i] += dy[b * d + k] * table[e];
                    }
                    if (mode == CJ_COMBINE_MAX) {
                        sum = best < 0 ? 0 : table[best];
                        if (best >= 0) want[best] += dy[b * d + k];
                    }
                    assert_near(got[b * d + k], sum, 1e-5);
                }
            for (int64_t i = 0; i < V * d; i++) assert_near(dw[i], want[i], 1e-4);
            for (int64_t i = 0; f && i < N; i++) assert_near(value_at(g[1], i), df[i], 1e-3);
            free(table), free(at), free(f), free(got), free(dy), free(dw), free(want);
            cj_scope_close(s);
            cj_ctx_free(c);
        }
}

/* The maximum of a bag is NaN wherever one of its rows has one, first or last, and the gradient goes to the first of these. */
static void test_bags_of_nan(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *w = cj_require_grad(F64(c, CJ_SHAPE(4, 2), 1, NAN, NAN, 2, 3, 4, NAN, 5)), *g;
    cj_tensor *y = cj_embedding_bag(w, INTS(c, 0, 1, 2, 3, 2, 0), INTS(c, 0, 4), CJ_COMBINE_MAX); /* rows 0 to 3, then 2 and 0 */
    assert_true(isnan(value_at(y, 0)) && isnan(value_at(y, 1)) && value_at(y, 2) == 3 && isnan(value_at(y, 3)));
    assert_true(cj_grad(y, &w, 1, &g, .seed = F64(c, CJ_SHAPE(2, 2), 1, 2, 4, 8)));
    assert_near(distance(g, F64(c, CJ_SHAPE(4, 2), 0, 10, 1, 0, 4, 0, 0, 0)), 0, 0);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void test_padding_row(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *w = cj_require_grad(F64(c, CJ_SHAPE(3, 2), 1, 2, 3, 4, 5, 6)), *index = INTS(c, 0, 2, 0, 1), *g;
    cj_tensor *y = cj_embedding(w, index, .padding = true, .padding_idx = -3);
    assert_near(distance(y, F64(c, CJ_SHAPE(4, 2), 1, 2, 5, 6, 1, 2, 3, 4)), 0, 0);
    assert_true(cj_grad(y, &w, 1, &g, .seed = cj_ones_like(y)));
    assert_near(distance(g, F64(c, CJ_SHAPE(3, 2), 0, 0, 1, 1, 1, 1)), 0, 0);
    assert_true(cj_grad(cj_embedding(w, index), &w, 1, &g, .seed = cj_ones_like(y)));
    assert_near(distance(g, F64(c, CJ_SHAPE(3, 2), 2, 2, 1, 1, 1, 1)), 0, 0);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void test_counts(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 17 });
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = INTS(c, 1, 4, 1, 0, 1);
    assert_near(distance(cj_bincount(x), INTS(c, 1, 3, 0, 0, 1)), 0, 0);
    assert_near(distance(cj_bincount(x, .minlength = 7), INTS(c, 1, 3, 0, 0, 1, 0, 0)), 0, 0);
    cj_tensor *w = cj_bincount(x, .weights = F64(c, CJ_SHAPE(5), 1, 2, 3, 4, 5));
    assert_near(distance(w, F64(c, CJ_SHAPE(5), 4, 9, 0, 0, 2)), 0, 0);
    assert_int_equal(cj_dtype_of(w), CJ_F64);
    assert_int_equal(cj_numel(cj_bincount(cj_zeros(c, CJ_SHAPE(0), CJ_I64))), 0);
    cj_histogram_result h = cj_histogram(F64(c, CJ_SHAPE(8), -1, -0.5, 0, 0.25, 0.5, 1, 1.5, -7), 4, -1, 1);
    assert_near(distance(h.counts, INTS(c, 1, 1, 2, 2)), 0, 0);
    assert_near(distance(h.edges, F64(c, CJ_SHAPE(5), -1, -0.5, 0, 0.5, 1)), 0, 0);
    /* edges that are no binary fractions: every value counts where its edges say */
    cj_tensor *v = cj_div(cj_cast(cj_randint(c, 0, 1001, CJ_SHAPE(100000)), CJ_F64), cj_cast(cj_full(c, 1000, CJ_SCALAR, CJ_F64), CJ_F64));
    h = cj_histogram(v, 10, 0, 1);
    double *e = values_of(h.edges), *n = values_of(h.counts), *values = values_of(v), total = 0;
    for (int b = 0; b < 10; b++) {
        int64_t inside = 0;
        for (int64_t i = 0; i < 100000; i++) inside += values[i] >= e[b] && (values[i] < e[b + 1] || (b == 9 && values[i] <= e[10]));
        assert_near(n[b], (double)inside, 0);
        total += n[b];
    }
    assert_near(total, 100000, 0);
    assert_near(e[10], 1, 0);
    free(e), free(n), free(values);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void test_masks(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(F64(c, CJ_SHAPE(2, 3), 1, 2, 3, 4, 5, 6)), *g;
    cj_tensor *mask = cj_gt_scalar(F64(c, CJ_SHAPE(2, 3), 1, 0, 1, 0, 0, 0), 0);
    assert_near(distance(cj_masked_select(x, mask), F64(c, CJ_SHAPE(2), 1, 3)), 0, 0);
    double low = 1 / (1 + exp(2)), high = 1 - low;
    cj_tensor *p = cj_masked_softmax(x, mask, 1);
    assert_near(distance(p, F64(c, CJ_SHAPE(2, 3), low, 0, high, 0, 0, 0)), 0, 1e-15);
    assert_true(cj_grad(p, &x, 1, &g, .seed = F64(c, CJ_SHAPE(2, 3), 1, 5, 0, 1, 2, 3)));
    assert_near(distance(g, F64(c, CJ_SHAPE(2, 3), low * high, 0, -low * high, 0, 0, 0)), 0, 1e-15);
    cj_tensor *mean = cj_masked_mean(x, mask, .axes = CJ_AXIS(1));
    assert_true(value_at(mean, 0) == 2 && isnan(value_at(mean, 1)));
    assert_near(cj_item(cj_masked_mean(x, mask)), 2, 0);
    assert_ok(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

/* data.one_hot */
static void data_one_hot(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *y = INTS(c, 2, 0, 3, 1), *e = cj_one_hot(y, 4);
    assert_near(distance(e, F64(c, CJ_SHAPE(4, 4), 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0)), 0, 0);
    assert_near(distance(cj_argmax(e, .axes = CJ_AXIS(1)), y), 0, 0);
    assert_near(distance(cj_sum(e, .axes = CJ_AXIS(1)), INTS(c, 1, 1, 1, 1)), 0, 0);
    assert_true(cj_is_poison(cj_one_hot(y, 3)));
    assert_error(c, CJ_EINDEX, "index 3 at position 2 is outside [0, 3)");
    cj_clear(c);
    cj_scope_close(s);
    cj_ctx_free(c);
}

static void bincount_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_bincount(in[0]);
}

static void test_refused(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_zeros(c, CJ_SHAPE(4, 2), CJ_F32), *w = cj_zeros(c, CJ_SHAPE(3, 2), CJ_F32), *i = INTS(c, 0, 2, 1, 2),
              *out[CJ_MAX_PLAN_OUTPUTS];
    assert_poisoned(CJ_EINDEX, "segment_sum: id 2 at position 1 is outside [0, 2)", cj_segment_sum(x, i, 2));
    assert_poisoned(CJ_EVALUE, "segment_sum: -1 segments", cj_segment_sum(x, i, -1));
    assert_poisoned(CJ_ESHAPE, "segment_max: ids [1] for [4, 2]; one per row expected", cj_segment_max(x, INTS(c, 1), 3));
    assert_poisoned(CJ_EDTYPE, "segment_mean: the input is i64; cast it to a float type", cj_segment_mean(i, i, 3));
    assert_poisoned(CJ_EDTYPE, "segment_sum: the ids are f32, i64 expected", cj_segment_sum(x, cj_zeros(c, CJ_SHAPE(4), CJ_F32), 3));
    cj_tensor *at = cj_from_i64(c, (int64_t[]){ 0, 1, 4, 0 }, CJ_SHAPE(2, 2)), *u = cj_zeros(c, CJ_SHAPE(2, 2), CJ_F32);
    for (int how = 0; how < 5; how++)
        assert_poisoned(CJ_EINDEX, "scatter_reduce: index 4 at position 2 is outside [0, 4)",
                        cj_scatter_reduce(x, 0, at, u, (cj_combine)how));
    assert_poisoned(CJ_ESHAPE, "scatter_reduce: source [4, 2] f32 and index [2, 2] do not fit",
                    cj_scatter_reduce(x, 0, at, x, CJ_COMBINE_MAX));
    cj_tensor *wide = cj_zeros(c, CJ_SHAPE(2, 3), CJ_I64);
    assert_poisoned(CJ_ESHAPE, "scatter_reduce: source [2, 3] f32 and index [2, 3] do not fit",
                    cj_scatter_reduce(x, 0, wide, cj_zeros(c, CJ_SHAPE(2, 3), CJ_F32), CJ_COMBINE_MAX));
    assert_poisoned(CJ_ESHAPE, "scatter_reduce: source [2, 2] f64 and index [2, 2] do not fit",
                    cj_scatter_reduce(x, 0, at, cj_zeros(c, CJ_SHAPE(2, 2), CJ_F64), CJ_COMBINE_MAX));
    assert_poisoned(CJ_EVALUE, "scatter_reduce: 9 is no cj_combine", cj_scatter_reduce(x, 0, at, u, (cj_combine)9));
    assert_poisoned(CJ_EINDEX, "embedding_bag: index 3 at position 1 is outside [0, 3)",
                    cj_embedding_bag(w, INTS(c, 0, 3), INTS(c, 0), CJ_COMBINE_SUM));
    assert_poisoned(CJ_EINDEX, "embedding_bag: offset 2 at position 2; offsets ascend",
                    cj_embedding_bag(w, i, INTS(c, 0, 3, 2), CJ_COMBINE_SUM));
    assert_poisoned(CJ_EINDEX, "embedding_bag: offset 1 at position 0", cj_embedding_bag(w, i, INTS(c, 1), CJ_COMBINE_MEAN));
    assert_poisoned(CJ_EINDEX, "at most the 4 indices", cj_embedding_bag(w, i, INTS(c, 0, 5), CJ_COMBINE_MAX));
    assert_poisoned(CJ_ESHAPE, "embedding_bag: indices [4] without offsets; [B, n] expected", cj_embedding_bag(w, i, NULL, CJ_COMBINE_SUM));
    assert_poisoned(CJ_ESHAPE, "4 indices and no offset", cj_embedding_bag(w, i, cj_zeros(c, CJ_SHAPE(0), CJ_I64), CJ_COMBINE_SUM));
    assert_poisoned(CJ_EVALUE, "embedding_bag: mode 4 is none of", cj_embedding_bag(w, i, INTS(c, 0), CJ_COMBINE_MIN));
    cj_tensor *three = cj_zeros(c, CJ_SHAPE(3), CJ_F32);
    assert_poisoned(CJ_ESHAPE, "per_sample_weights [3] for indices [4]",
                    cj_embedding_bag(w, i, INTS(c, 0), CJ_COMBINE_SUM, .per_sample_weights = three));
    assert_poisoned(CJ_EVALUE, "go with CJ_COMBINE_SUM only",
                    cj_embedding_bag(w, i, INTS(c, 0), CJ_COMBINE_MAX, .per_sample_weights = three));
    assert_poisoned(CJ_EINDEX, "embedding: padding_idx 3 is outside the 3 rows", cj_embedding(w, i, .padding = true, .padding_idx = 3));
    assert_poisoned(CJ_EINDEX, "bincount: value -2 at position 1 cannot be counted", cj_bincount(INTS(c, 1, -2)));
    assert_poisoned(CJ_EVALUE, "bincount: minlength -1", cj_bincount(i, .minlength = -1));
    assert_poisoned(CJ_ESHAPE, "bincount: weights [3] for [4]", cj_bincount(i, .weights = three));
    assert_poisoned(CJ_EVALUE, "histogram: 0 bins from 0 to 1", cj_histogram(x, 0, 0, 1).counts);
    assert_poisoned(CJ_EVALUE, "histogram: 3 bins from 1 to 1", cj_histogram(x, 3, 1, 1).counts);
    assert_poisoned(CJ_EVALUE, "histogram: the value at position 1 is NaN", cj_histogram(F64(c, CJ_SHAPE(3), 0, NAN, NAN), 3, 0, 1).counts);
    assert_poisoned(CJ_EDTYPE, "masked_select: the mask is f32, bool expected", cj_masked_select(x, x));
    assert_poisoned(CJ_ESHAPE, "masked_mean: input [4, 2] and mask [3] do not broadcast",
                    cj_masked_mean(x, cj_zeros(c, CJ_SHAPE(3), CJ_BOOL)));
    assert_null(cj_capture(c, bincount_step, NULL, &i, 1, out));
    assert_error(c, CJ_ECAPTURE, "the shape of bincount depends on values");
    cj_clear(c);
    assert_null(cj_segment_sum(NULL, NULL, 1));
    assert_null(cj_histogram(NULL, 1, 0, 1).counts);
    cj_scope_close(s);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments), cmocka_unit_test(test_scatter_reduce), cmocka_unit_test(test_scatter_gradients),
        cmocka_unit_test(test_bags),     cmocka_unit_test(test_bags_of_nan),    cmocka_unit_test(test_padding_row),
        cmocka_unit_test(test_counts),   cmocka_unit_test(test_masks),          cmocka_unit_test(data_one_hot),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
