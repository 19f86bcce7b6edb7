/* Attention with key lengths: against plain loops, and decoding symbol by symbol with caches, one plan for all positions, against the whole sequence at once. */
#include "support.h"

/* softmax(q·kᵀ/sqrt d)·v where query i of row b sees the keys j with j < length, and with causal j <= length - queries + i. */
static void reference(const double *q, const double *k, const double *v, int rows, int tq, int tk, int d, const int64_t *length,
                      bool causal, double *y)
{
    for (int b = 0; b < rows; b++)
        for (int i = 0; i < tq; i++) {
            double weight[64], top = -INFINITY, sum = 0;
            int seen = causal ? (int)length[b] - tq + i + 1 : (int)length[b];
            if (seen > tk) seen = tk;
            for (int j = 0; j < seen; j++) {
                weight[j] = 0;
                for (int e = 0; e < d; e++) weight[j] += q[(b * tq + i) * d + e] * k[(b * tk + j) * d + e] / sqrt(d);
                top = fmax(top, weight[j]);
            }
            for (int j = 0; j < seen; j++) sum += weight[j] = exp(weight[j] - top);
            for (int e = 0; e < d; e++) {
                double s = 0;
                for (int j = 0; j < seen; j++) s += weight[j] / sum * v[(b * tk + j) * d + e];
                y[(b * tq + i) * d + e] = s;
            }
        }
}

static void against_loops(void **unused)
{
    (void)unused;
    enum { ROWS = 3, TQ = 2, TK = 7, D = 5 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 4 });
    const int64_t each[ROWS] = { 3, 7, 2 }, same[ROWS] = { 4, 4, 4 };
    for (int causal = 0; causal < 2; causal++)
        for (int one = 0; one < 2; one++) { /* a length per row, or one for all */
            cj_tensor *q = cj_randn(c, CJ_SHAPE(ROWS, TQ, D), .dtype = CJ_F64), *k = cj_randn(c, CJ_SHAPE(ROWS, TK, D), .dtype = CJ_F64),
                      *v = cj_randn(c, CJ_SHAPE(ROWS, TK, D), .dtype = CJ_F64),
                      *length = one ? cj_full(c, 4, CJ_SCALAR, CJ_I64) : cj_from_i64(c, each, CJ_SHAPE(ROWS));
            cj_tensor *y = cj_attention(q, k, v, .causal = causal, .key_length = length);
            double want[ROWS * TQ * D], *qv = values_of(q), *kv = values_of(k), *vv = values_of(v), *got = values_of(y);
            reference(qv, kv, vv, ROWS, TQ, TK, D, one ? same : each, causal, want);
            for (int i = 0; i < ROWS * TQ * D; i++) assert_near(got[i], want[i], 1e-12);
            free(qv), free(kv), free(vv), free(got);
        }
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 3, 4));
    cj_attention(x, x, x, .key_length = cj_scalar(c, 2));
    assert_error(c, CJ_ESHAPE, "key_length is f32 []; i64, 0-d or of q's 1 leading axes expected");
    cj_clear(c);
    cj_attention(x, x, x, .key_length = cj_zeros(c, CJ_SHAPE(2, 1), CJ_I64));
    assert_error(c, CJ_ESHAPE, "key_length is i64 [2, 1]");
    cj_clear(c);
    cj_ctx_free(c);
}

enum { HEADS = 2, D = 8, T = 12, DIM = HEADS * D };

typedef struct layer {
    cj_tensor *wq, *wk, *wv, *keys, *values; /* caches [HEADS, T, D] */
} layer;
static cj_tensor *heads(cj_tensor *x) { return cj_transpose(cj_reshape(x, CJ_SHAPE(-1, HEADS, D)), 0, 1); }

/* One symbol: in[0] its vector [1, DIM], in[1] its position, i64. */
static void decode(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    layer *l = user;
    (void)c;
    cj_write_slice_(l->keys, 1, in[1], heads(cj_matmul(in[0], l->wk)));
    cj_write_slice_(l->values, 1, in[1], heads(cj_matmul(in[0], l->wv)));
    out[0] = cj_attention(heads(cj_matmul(in[0], l->wq)), l->keys, l->values, .causal = true, .key_length = cj_add_scalar(in[1], 1));
}

static void one_plan_for_all_positions(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 8 });
    layer l = { cj_keep(cj_randn(c, CJ_SHAPE(DIM, DIM))), cj_keep(cj_randn(c, CJ_SHAPE(DIM, DIM))),
                cj_keep(cj_randn(c, CJ_SHAPE(DIM, DIM))), cj_keep(cj_full(c, NAN, CJ_SHAPE(HEADS, T, D), CJ_F32)),
                cj_keep(cj_zeros(c, CJ_SHAPE(HEADS, T, D), CJ_F32)) };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(T, DIM)), *out[1];
    cj_tensor *whole = cj_attention(heads(cj_matmul(x, l.wq)), heads(cj_matmul(x, l.wk)), heads(cj_matmul(x, l.wv)), .causal = true);
    cj_plan *p = NULL;
    for (int t = 0; t < T; t++) { /* what lies beyond the length, NaN here, is never looked at */
        cj_tensor *in[2] = { cj_slice(x, 0, t, t + 1, 1), cj_full(c, t, CJ_SCALAR, CJ_I64) };
        if (!p) p = cj_capture(c, decode, &l, in, 2, out);
        else assert_true(cj_replay(p, in, out));
        assert_ok(c);
        assert_near(distance(out[0], cj_slice(whole, 1, t, t + 1, 1)), 0, 1e-5);
    }
    cj_plan_stats s = cj_plan_statistics(p);
    assert_true(s.compiled);
    assert_int_equal(s.plans, 1);
    assert_int_equal(s.allocations, 0);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(against_loops), cmocka_unit_test(one_plan_for_all_positions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
