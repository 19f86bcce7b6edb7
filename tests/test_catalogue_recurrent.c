/* Rows of the catalogue about recurrent networks: numbers from closed forms or by hand. */
#include <time.h>

#include "support.h"

static cj_tensor *uniform(cj_ctx *c, cj_shape s) { return cj_cast(cj_uniform(c, -0.6, 0.6, s), CJ_F64); }
static cj_tensor *number(cj_ctx *c, double v) { return cj_require_grad(F64(c, CJ_SHAPE(1, 1), v)); }

/* ---- rnn --------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *rnn_of(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_rnn(in[0], in[1], in[2], in[3], NULL).y;
}

/* rnn.vanilla */
static void rnn_vanilla(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1 });
    /* by hand: h1 = tanh(0.6·1 + 0.1), h2 = tanh(0.6·2 + 0.3·h1 + 0.1), out = 1.5·h - 0.2 */
    cj_tensor *u = number(c, 0.6), *w = number(c, 0.3), *b = F64(c, CJ_SHAPE(1), 0.1);
    cj_tensor *h = cj_rnn(F64(c, CJ_SHAPE(2, 1, 1), 1, 2), u, w, b, NULL).y, *y = cj_add_scalar(cj_mul_scalar(h, 1.5), -0.2);
    assert_near(value_at(h, 0), 0.6043677771, 1e-10);
    assert_near(value_at(h, 1), 0.9017131961, 1e-10);
    assert_near(value_at(y, 0), 0.7065516657, 1e-10);
    assert_near(value_at(y, 1), 1.1525697942, 1e-10);
    /* the same parameters for any length; what comes later changes nothing */
    cj_tensor *wi = uniform(c, CJ_SHAPE(4, 3)), *wh = uniform(c, CJ_SHAPE(4, 4)), *bias = uniform(c, CJ_SHAPE(4)),
              *x = uniform(c, CJ_SHAPE(9, 2, 3));
    cj_tensor *all = cj_rnn(x, wi, wh, bias, NULL).y;
    for (int64_t T = 1; T <= 9; T++)
        assert_true(same_bits(cj_slice(all, 0, 0, T, 1), cj_rnn(cj_slice(x, 0, 0, T, 1), wi, wh, bias, NULL).y));
    cj_tensor *in[] = { cj_slice(x, 0, 0, 4, 1), wi, wh, bias };
    cj_gradcheck_result r = cj_gradcheck(c, rnn_of, NULL, in, 4, .tolerance = 1e-6, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    cj_ctx_free(c);
}

/* rnn.module */
static void rnn_module(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 2 });
    const cj_shape shape[8] = { CJ_SHAPE(20, 10), CJ_SHAPE(20, 20), CJ_SHAPE(20), CJ_SHAPE(20),
                                CJ_SHAPE(20, 20), CJ_SHAPE(20, 20), CJ_SHAPE(20), CJ_SHAPE(20) };
    cj_tensor *w[8];
    int64_t scalars = 0;
    for (int i = 0; i < 8; i++) w[i] = uniform(c, shape[i]), scalars += cj_numel(w[i]);
    assert_int_equal(scalars, 1480);
    cj_tensor *x = uniform(c, CJ_SHAPE(5, 10)), *h0 = uniform(c, CJ_SHAPE(2, 20));
    cj_recurrent_result r = cj_recurrent(CJ_RNN, x, w, 8, .layers = 2, .h0 = h0);
    assert_ok(c);
    assert_int_equal(cj_ndim(r.y), 2);
    assert_int_equal(cj_size(r.y, 0), 5);
    assert_int_equal(cj_size(r.y, 1), 20);
    assert_int_equal(cj_ndim(r.h_n), 2);
    assert_int_equal(cj_size(r.h_n, 0), 2);
    assert_true(same_bits(cj_select(r.h_n, 0, 1), cj_select(r.y, 0, 4)));
    /* two biases do the work of one */
    cj_tensor *v = uniform(c, CJ_SHAPE(20));
    w[2] = cj_add(w[2], v), w[3] = cj_sub(w[3], v);
    assert_true(distance(r.y, cj_recurrent(CJ_RNN, x, w, 8, .layers = 2, .h0 = h0).y) < 1e-14);
    cj_ctx_free(c);
}

static cj_tensor *stack_of(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c;
    cj_recurrent_result r = cj_recurrent(*(cj_recurrent_cell *)user, in[0], in + 1, n - 1, .layers = (n - 1) / 4);
    return cj_add(r.y, cj_sum(r.h_n));
}

static void check_stack(cj_ctx *c, cj_recurrent_cell cell, int64_t gates)
{
    enum { I = 3, H = 2, L = 3 };
    cj_tensor *in[1 + 4 * L] = { uniform(c, CJ_SHAPE(4, 2, I)) }, *x = in[0];
    int64_t scalars = 0, formula = 0;
    for (int i = 0; i < 4 * L; i++) {
        in[1 + i] = uniform(c, i % 4 == 0 ? CJ_SHAPE(gates * H, i ? H : I) : i % 4 == 1 ? CJ_SHAPE(gates * H, H) : CJ_SHAPE(gates * H));
        if (i % 4 < 3) scalars += cj_numel(in[1 + i]); /* with one bias, as the notes count */
    }
    for (int l = 0; l < L; l++) formula += gates * (H * (l ? H : I) + H * H + H);
    assert_int_equal(scalars, formula);
    for (int l = 1; l <= L; l++) { /* layer by layer over the whole sequence; one layer is the layer itself */
        cj_tensor *const *w = in + 4 * l - 3;
        x = (cell == CJ_LSTM ? cj_lstm(x, w[0], w[1], w[2], w[3]) : cj_rnn(x, w[0], w[1], w[2], w[3])).y;
        assert_true(same_bits(x, cj_recurrent(cell, in[0], in + 1, 4 * l, .layers = l).y));
    }
    cj_gradcheck_result r = cj_gradcheck(c, stack_of, &cell, in, 1 + 4 * L);
    if (!r.ok) fail_msg("%s", r.what);
}
/* rnn.stacked */
static void rnn_stacked(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 3 });
    check_stack(c, CJ_RNN, 1);
    cj_ctx_free(c);
}
/* rnn.lstm-stacked */
static void rnn_lstm_stacked(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 4 });
    check_stack(c, CJ_LSTM, 4);
    cj_ctx_free(c);
}

/* A module that only holds parameters. */
static cj_module *holder(cj_ctx *c)
{
    static const cj_module_type type = { .name = "weights" };
    return cj_module_new(c, &type, 0);
}
static cj_tensor *param(cj_module *m, const char *name, cj_shape s, double size)
{
    return cj_module_param(m, name, cj_uniform(cj_module_ctx(m), -size, size, s));
}

/* Share of bits x[t+1] that a network with `directions` tells right after training. */
static double tagging(int directions)
{
    enum { T = 7, N = 64, H = 8 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 5 });
    cj_module *m = holder(c);
    cj_tensor *w[8], *v = param(m, "v", CJ_SHAPE(1, H * directions), 0.5);
    char name[8] = "w0";
    for (int i = 0; i < 4 * directions; i++)
        name[1] = (char)('0' + i), w[i] = param(m, name, i % 4 == 0 ? CJ_SHAPE(H, 1) : i % 4 == 1 ? CJ_SHAPE(H, H) : CJ_SHAPE(H), 0.35);
    cj_optim *o = cj_adam(cj_module_params(m), .lr = 0.02);
    double right = 0;
    for (int step = 0; step < 300; step++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *bits = cj_bernoulli(c, 0.5, CJ_SHAPE(T + 1, N, 1));
        cj_tensor *x = cj_add_scalar(cj_mul_scalar(bits, 2), -1), *target = cj_slice(bits, 0, 1, T, 1); /* the last step has no next */
        cj_tensor *y = cj_recurrent(CJ_RNN, cj_slice(x, 0, 0, T, 1), w, 4 * directions, .bidirectional = directions == 2).y;
        cj_tensor *score = cj_slice(cj_linear_op(y, v, NULL), 0, 0, T - 1, 1);
        if (step == 299) right = cj_item(cj_mean(cj_cast(cj_eq(cj_gt_scalar(score, 0), cj_gt_scalar(target, 0.5)), CJ_F32)));
        cj_minimise(o, cj_bce_with_logits(score, target));
        cj_scope_close(s);
    }
    assert_ok(c);
    cj_ctx_free(c);
    return right;
}

/* rnn.bidirectional */
static void rnn_bidirectional(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 6 });
    static const int64_t gates[] = { 1, 4, 3, 2 };
    for (int cell = 0; cell < 4; cell++) {
        const int64_t rows = gates[cell] * 5;
        cj_tensor *w[8], *swapped[8], *x = cj_require_grad(uniform(c, CJ_SHAPE(6, 2, 3)));
        for (int i = 0; i < 8; i++) w[i] = uniform(c, i % 4 == 0 ? CJ_SHAPE(rows, 3) : i % 4 == 1 ? CJ_SHAPE(rows, 5) : CJ_SHAPE(rows));
        for (int i = 0; i < 8; i++) swapped[i] = w[(i + 4) % 8];
        cj_tensor *y = cj_recurrent((cj_recurrent_cell)cell, x, w, 8, .bidirectional = true).y;
        cj_tensor *z = cj_recurrent((cj_recurrent_cell)cell, cj_slice(x, 0, -1, CJ_END, -1), swapped, 8, .bidirectional = true).y;
        z = cj_slice(z, 0, -1, CJ_END, -1);
        assert_true(same_bits(cj_slice(y, 2, 0, 5, 1), cj_slice(z, 2, 5, 10, 1)) &&
                    same_bits(cj_slice(y, 2, 5, 10, 1), cj_slice(z, 2, 0, 5, 1)));
        for (int way = 0; way < 2; way++) { /* a loss at step 2: forward it sees steps 0 … 2, backward 2 … 5 */
            cj_tensor *g, *loss = cj_sum(cj_slice(cj_select(y, 0, 2), 1, way * 5, way * 5 + 5, 1));
            assert_true(cj_grad(loss, &x, 1, &g, .retain = true));
            for (int64_t t = 0; t < 6; t++) assert_true((cj_item(cj_max(cj_abs(cj_select(g, 0, t)))) > 0) == (way ? t >= 2 : t <= 2));
        }
    }
    assert_ok(c);
    cj_ctx_free(c);
    const double both = tagging(2), forward = tagging(1);
    print_message("needs the future: both directions %.3f, forward only %.3f\n", both, forward);
    assert_true(both > 0.99 && forward < 0.65);
}

/* ---- back-propagation through time ---------------------------------------------------------------------------------------------------------------------- */

/* rnn.unroll */
static void rnn_unroll(void **state)
{
    (void)state;
    enum { T = 5, H = 3 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_tensor *w = cj_require_grad(uniform(c, CJ_SHAPE(H, H))), *u = cj_require_grad(uniform(c, CJ_SHAPE(H, 2))),
              *x = uniform(c, CJ_SHAPE(T, 4, 2));
    cj_tensor *copy[2 * T], *each[2 * T], *g[2], *h = cj_zeros(c, CJ_SHAPE(4, H), CJ_F64), *y = cj_rnn(x, u, w, NULL, NULL).h_n;
    for (int t = 0; t < T; t++) { /* a net of T hidden layers with weights of their own, which happen to be equal */
        copy[t] = cj_require_grad(w), copy[T + t] = cj_require_grad(u);
        h = cj_tanh(cj_add(cj_linear_op(h, copy[t], NULL), cj_linear_op(cj_select(x, 0, t), copy[T + t], NULL)));
    }
    assert_true(distance(y, h) < 1e-15);
    assert_true(cj_grad(cj_sum(cj_square(y)), CJ_TENSORS(w, u), 2, g) && cj_grad(cj_sum(cj_square(h)), copy, 2 * T, each));
    for (int k = 0; k < 2; k++) {
        cj_tensor *sum = each[k * T];
        for (int t = 1; t < T; t++) sum = cj_add(sum, each[k * T + t]);
        assert_true(distance(g[k], sum) < 1e-14);
    }
    cj_ctx_free(c);
}

/* Seconds and bytes of forward and backward over T steps; the least of some. */
static void cost(int64_t T, double *seconds, double *bytes)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *w = cj_param(cj_zeros(c, CJ_SHAPE(64, 64), CJ_F32)), *x = cj_keep(cj_zeros(c, CJ_SHAPE(T, 4, 64), CJ_F32)), *g;
    *seconds = 1e9;
    const double before = (double)cj_memory_stats(c).live;
    cj_memory_reset_peak(c);
    for (int i = 0; i < 25; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        cj_scope s = cj_scope_open(c);
        assert_true(cj_grad(cj_sum(cj_rnn(x, w, w, NULL, NULL).y), &w, 1, &g));
        cj_scope_close(s);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        *seconds = fmin(*seconds, (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    }
    *bytes = (double)cj_memory_stats(c).peak - before;
    cj_ctx_free(c);
}

/* rnn.bptt */
static void rnn_bptt(void **state)
{
    (void)state;
    enum { T = 6, H = 3, D = 2 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 8 });
    cj_tensor *w = cj_require_grad(uniform(c, CJ_SHAPE(H, H))), *u = cj_require_grad(uniform(c, CJ_SHAPE(H, D))),
              *x = uniform(c, CJ_SHAPE(T, 1, D)), *g[2];
    cj_tensor *y = cj_rnn(x, u, w, NULL, NULL).y; /* R = sum of h²/2: dR_t/dh_t = h_t */
    assert_true(cj_grad(cj_mul_scalar(cj_sum(cj_square(y)), 0.5), CJ_TENSORS(w, u), 2, g, .retain = true));
    double *h = values_of(y), *W = values_of(w), *X = values_of(x), *gw = values_of(g[0]), *gu = values_of(g[1]);
    double dw[H * H] = { 0 }, du[H * D] = { 0 }, pw[H * H] = { 0 }, back[H] = { 0 };
    for (int t = T - 1; t >= 0; t--) { /* the recursion: dR/dh^t = h^t + Wᵀ·S·dR/dh^{t+1} */
        double d[H], next[H] = { 0 };
        for (int i = 0; i < H; i++) d[i] = (back[i] + h[t * H + i]) * (1 - h[t * H + i] * h[t * H + i]);
        for (int i = 0; i < H; i++) {
            for (int j = 0; j < H; j++) dw[i * H + j] += t ? d[i] * h[(t - 1) * H + j] : 0, next[j] += W[i * H + j] * d[i];
            for (int k = 0; k < D; k++) du[i * D + k] += d[i] * X[t * D + k];
        }
        memcpy(back, next, sizeof back);
    }
    for (int t = 0; t < T;
         t++) /* the products: sum over t, k <= t of h_t · (dh_t/dh_{t-1} ⋯ dh_{k+1}/dh_k) · immediate derivative of h_k */
        for (int k = 1; k <= t; k++) {
            double row[H], s[H];
            memcpy(row, h + t * H, sizeof row);
            for (int q = t; q > k; q--) {
                memset(s, 0, sizeof s);
                for (int i = 0; i < H; i++)
                    for (int j = 0; j < H; j++) s[j] += row[i] * (1 - h[q * H + i] * h[q * H + i]) * W[i * H + j];
                memcpy(row, s, sizeof row);
            }
            for (int i = 0; i < H; i++)
                for (int j = 0; j < H; j++) pw[i * H + j] += row[i] * (1 - h[k * H + i] * h[k * H + i]) * h[(k - 1) * H + j];
        }
    for (int i = 0; i < H * H; i++) {
        assert_near(gw[i], dw[i], 1e-12);
        assert_near(gw[i], pw[i], 1e-12);
        double value[2]; /* differences */
        for (int side = 0; side < 2; side++) {
            double moved[H * H];
            memcpy(moved, W, sizeof moved);
            moved[i] += side ? 1e-5 : -1e-5;
            value[side] = cj_item(cj_mul_scalar(cj_sum(cj_square(cj_rnn(x, u, f64(c, moved, CJ_SHAPE(H, H)), NULL, NULL).y)), 0.5));
        }
        assert_near(gw[i], (value[1] - value[0]) / 2e-5, 1e-8);
    }
    for (int i = 0; i < H * D; i++) assert_near(gu[i], du[i], 1e-12);
    free(h), free(W), free(X), free(gw), free(gu);
    cj_ctx_free(c);
    double seconds[3], bytes[3];
    for (int i = 0; i < 3; i++) cost(128 << i, &seconds[i], &bytes[i]);
    print_message("128, 256, 512 steps: %.0f, %.0f, %.0f us; %.0f, %.0f, %.0f KiB\n", 1e6 * seconds[0], 1e6 * seconds[1], 1e6 * seconds[2],
                  bytes[0] / 1024, bytes[1] / 1024, bytes[2] / 1024);
    assert_near((bytes[2] - bytes[1]) / (bytes[1] - bytes[0]), 2, 0.1);
    assert_true(seconds[2] > 2.5 * seconds[0] && seconds[2] < 7 * seconds[0]);
}

/* rnn.bptt-oracle */
static void rnn_bptt_oracle(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(NULL);
    cj_tensor *u = number(c, 0.7), *v = number(c, 1.2), *w = number(c, -0.4), *g[3];
    cj_tensor *h = cj_rnn(F64(c, CJ_SHAPE(2, 1, 1), 1, -0.5), u, w, NULL, NULL).y, *y = F64(c, CJ_SHAPE(2, 1, 1), 0.3, 0.8);
    cj_tensor *loss = cj_sum(cj_square(cj_sub(y, cj_linear_op(h, v, NULL))));
    assert_true(cj_grad(loss, CJ_TENSORS(u, v, w), 3, g));
    assert_near(cj_item(loss), 2.2468949, 1e-7);
    assert_near(cj_item(g[0]), 2.5148074, 1e-7);
    assert_near(cj_item(g[1]), 2.0409372, 1e-7);
    assert_near(cj_item(g[2]), -1.4967026, 1e-7);
    cj_ctx_free(c);
}

/* Bytes of a pass over 128 steps in windows of k, the state carried on as a constant. */
static double window_bytes(int64_t k)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *w = cj_param(cj_zeros(c, CJ_SHAPE(32, 32), CJ_F32)), *x = cj_keep(cj_zeros(c, CJ_SHAPE(128, 8, 32), CJ_F32));
    cj_tensor *h = cj_keep(cj_zeros(c, CJ_SHAPE(8, 32), CJ_F32)), *g;
    const double before = (double)cj_memory_stats(c).live;
    cj_memory_reset_peak(c);
    for (int64_t t = 0; t < 128; t += k) {
        cj_scope s = cj_scope_open(c);
        cj_recurrent_result r = cj_rnn(cj_slice(x, 0, t, t + k, 1), w, w, NULL, NULL, .h0 = h);
        assert_true(cj_grad(cj_sum(r.y), &w, 1, &g));
        cj_assign_(h, cj_detach(r.h_n));
        cj_scope_close(s);
    }
    const double bytes = (double)cj_memory_stats(c).peak - before;
    cj_ctx_free(c);
    return bytes;
}

/* rnn.tbptt */
static void rnn_tbptt(void **state)
{
    (void)state;
    enum { T = 20 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 9 });
    static const int64_t gates[] = { 1, 4, 3, 2 };
    for (int cell = 0; cell < 4; cell++) {
        const int64_t rows = gates[cell] * 3;
        cj_tensor *x = cj_require_grad(uniform(c, CJ_SHAPE(T, 2, 2))), *w[4], *full[5], *far[5], *cut[5], *all[5] = { x };
        for (int i = 0; i < 4; i++)
            all[1 + i] = w[i] = cj_require_grad(uniform(c, i == 0 ? CJ_SHAPE(rows, 2) : i == 1 ? CJ_SHAPE(rows, 3) : CJ_SHAPE(rows)));
#define LOSS(k) cj_sum(cj_square(cj_recurrent((cj_recurrent_cell)cell, x, w, 4, .truncate = k).y))
        assert_true(cj_grad(LOSS(0), all, 5, full) && cj_grad(LOSS(T), all, 5, far) && cj_grad(LOSS(6), all, 5, cut));
#undef LOSS
        for (int i = 0; i < 5; i++) assert_true(same_bits(full[i], far[i]));
        assert_true(distance(full[2], cut[2]) > 1e-6);
        /* windows by hand: the state is carried on, its history is not */
        cj_tensor *h = NULL, *cells = NULL, *loss = NULL, *want[5];
        for (int64_t t = 0; t < T; t += 6) {
            cj_recurrent_opts o = { .h0 = h, .c0 = cells };
            cj_recurrent_result r = (cj_recurrent)((cj_recurrent_cell)cell, cj_slice(x, 0, t, t + 6 < T ? t + 6 : T, 1), w, 4, &o);
            cj_tensor *part = cj_sum(cj_square(r.y));
            loss = loss ? cj_add(loss, part) : part;
            h = cj_detach(r.h_n), cells = r.c_n ? cj_detach(r.c_n) : NULL;
        }
        assert_true(cj_grad(loss, all, 5, want));
        for (int i = 0; i < 5; i++) assert_true(distance(cut[i], want[i]) < 1e-13);
    }
    assert_ok(c);
    cj_ctx_free(c);
    const double a = window_bytes(8), b = window_bytes(16), d = window_bytes(32);
    print_message("windows of 8, 16, 32 steps: %.0f, %.0f, %.0f bytes\n", a, b, d);
    assert_near((d - b) / (b - a), 2, 0.3);
}

/* ---- gradients that vanish, explode, and are clipped -------------------------------------------------------------------------------------------------------- */

static double norm_of(cj_tensor *t) { return sqrt(cj_item(cj_sum(cj_square(t)))); }

/* rnn.matrix-powers */
static void rnn_matrix_powers(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 10 });
    /* [[0, 10], [0, 0]]: |A| = 10, both eigenvalues 0, A² = 0.  An rnn with relu, W = A and no input makes A^k x of a positive x. */
    cj_tensor *A = F64(c, CJ_SHAPE(2, 2), 0, 10, 0, 0), *x = F64(c, CJ_SHAPE(1, 2), 0, 1);
    assert_near(norm_of(cj_linear_op(x, A, NULL)), 10, 0);
    assert_near(norm_of(cj_matmul(A, A)), 0, 0);
    cj_tensor *y = cj_rnn(cj_zeros(c, CJ_SHAPE(2, 1, 2), CJ_F64), NULL, A, NULL, NULL, .h0 = x, .activation = CJ_ACTIVATION_RELU).y;
    assert_near(norm_of(cj_select(y, 0, 0)), 10, 0);
    assert_near(norm_of(cj_select(y, 0, 1)), 0, 0);
    /* upper triangular with eigenvalues rho, rho/2, rho/4: log|A^k x| grows by ln rho a step, whatever stands above the diagonal */
    static const double rhos[] = { 0.5, 0.9, 1.1, 1.5 };
    for (int i = 0; i < 4; i++) {
        const double rho = rhos[i];
        cj_tensor *B = F64(c, CJ_SHAPE(3, 3), rho, 3, 2, 0, rho / 2, 4, 0, 0, rho / 4), *ones = cj_ones(c, CJ_SHAPE(1, 3), CJ_F64);
        cj_tensor *p =
            cj_rnn(cj_zeros(c, CJ_SHAPE(200, 1, 3), CJ_F64), NULL, B, NULL, NULL, .h0 = ones, .activation = CJ_ACTIVATION_RELU).y;
        const double slope = (log(norm_of(cj_select(p, 0, 199))) - log(norm_of(cj_select(p, 0, 99)))) / 100;
        assert_near(slope, log(rho), 1e-9);
        assert_true(rho < 1 ? norm_of(cj_select(p, 0, 199)) < 1e-6 : norm_of(cj_select(p, 0, 199)) > 1e6);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* Norms of the gradient of sum(h_T) with respect to the input terms of each step, W = sigma·P with a cyclic permutation P: sigma_max = sigma. */
static void lag_norms(cj_ctx *c, double sigma, int activation, int64_t T, double *norms)
{
    cj_tensor *w = cj_mul_scalar(F64(c, CJ_SHAPE(3, 3), 0, 1, 0, 0, 0, 1, 1, 0, 0), sigma), *h, *g;
    cj_tensor *x = cj_require_grad(cj_full(c, activation == 1 ? 0.1 : 0, CJ_SHAPE(T, 1, 3), CJ_F64));
    if (activation < 2) {
        h = cj_rnn(x, NULL, w, NULL, NULL, .activation = activation ? CJ_ACTIVATION_RELU : CJ_ACTIVATION_TANH).h_n;
    } else { /* the logistic function */
        h = cj_zeros(c, CJ_SHAPE(1, 3), CJ_F64);
        for (int64_t t = 0; t < T; t++) h = cj_sigmoid(cj_add(cj_select(x, 0, t), cj_linear_op(h, w, NULL)));
    }
    assert_true(cj_grad(cj_sum(h), &x, 1, &g));
    for (int64_t t = 0; t < T; t++) norms[T - 1 - t] = norm_of(cj_select(g, 0, t));
}

/* rnn.vanishing */
static void rnn_vanishing(void **state)
{
    (void)state;
    enum { T = 40 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 11 });
    static const double sigmas[] = { 0.5, 0.9, 1, 1.1 };
    for (int i = 0; i < 4; i++)
        for (int activation = 0; activation < 3; activation++) {
            const double sigma = sigmas[i], steepest = activation == 2 ? 0.25 : 1, seed = sqrt(3);
            double norms[T];
            lag_norms(c, sigma, activation, T, norms);
            for (int lag = 0; lag < T; lag++) /* |dR/dx| <= (sigma·max f')^lag · max f' · |grad R| */
                assert_true(norms[lag] <= pow(sigma * steepest, lag) * steepest * seed * (1 + 1e-12));
            const double first = log(norms[11] / norms[10]), last = log(norms[26] / norms[25]);
            if (activation < 2) assert_near(first, log(sigma), 1e-12); /* f' = 1 all along: exactly sigma^lag */
            assert_near(first, last, activation < 2 ? 1e-12 : 0.02);
            if (activation == 2) assert_true(last < log(sigma / 4) + 1e-9);
            if (activation == 1 && sigma > 1) assert_true(norms[T - 1] > 40 * norms[0]);
            print_message("sigma %.1f %s: lag 0 %.3g, 10 %.3g, 39 %.3g\n", sigma,
                          activation == 0   ? "tanh"
                          : activation == 1 ? "relu"
                                            : "sigmoid",
                          norms[0], norms[10], norms[T - 1]);
        }
    assert_ok(c);
    cj_ctx_free(c);
}

/* rnn.cell-gradient */
static void rnn_cell_gradient(void **state)
{
    (void)state;
    enum { T = 100, H = 8 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 12 });
    cj_tensor *x = uniform(c, CJ_SHAPE(T, 1, 4)), *wi = cj_mul_scalar(uniform(c, CJ_SHAPE(4 * H, 4)), 0.2),
              *wh = cj_mul_scalar(uniform(c, CJ_SHAPE(4 * H, H)), 0.2);
    double bias[4 * H] = { 0 };
    for (int i = 0; i < H; i++) bias[i] = -4, bias[H + i] = 20; /* little comes in, f = 1 - 2e-9 */
    cj_tensor *c0 = cj_require_grad(cj_zeros(c, CJ_SHAPE(1, H), CJ_F64)), *h0 = cj_require_grad(cj_zeros(c, CJ_SHAPE(1, H), CJ_F64)), *gc,
              *gh;
    cj_recurrent_result r = cj_lstm(x, wi, wh, f64(c, bias, CJ_SHAPE(4 * H)), NULL, .c0 = c0);
    assert_true(cj_grad(cj_sum(r.c_n), &c0, 1, &gc));
    cj_tensor *y = cj_rnn(x, cj_slice(wi, 0, 0, H, 1), cj_slice(wh, 0, 0, H, 1), NULL, NULL, .h0 = h0).h_n;
    assert_true(cj_grad(cj_sum(y), &h0, 1, &gh));
    print_message("100 steps: cell %.4f, rnn %.3g (of %.4f)\n", norm_of(gc), norm_of(gh), sqrt(H));
    assert_true(norm_of(gc) > 0.5 * sqrt(H) && norm_of(gc) < 2 * sqrt(H));
    assert_true(norm_of(gh) < 1e-20);
    /* the direct path alone, without w_hh: the product of the forget gates */
    cj_tensor *none = cj_zeros(c, CJ_SHAPE(4 * H, H), CJ_F64), *quarter = f64(c, bias, CJ_SHAPE(4 * H));
    assert_true(cj_grad(cj_sum(cj_lstm(cj_zeros(c, CJ_SHAPE(T, 1, 4), CJ_F64), wi, none, quarter, NULL, .c0 = c0).c_n), &c0, 1, &gc));
    assert_near(value_at(gc, 0), pow(1 / (1 + exp(-20)), T), 1e-13);
    cj_ctx_free(c);
}

/* h_T = w^T of a linear rnn; (h_T - 1/2)² has a cliff above w = 1.  w after `steps` steps from 1.5, or infinity where it leaves. */
static double descend(double clip, int steps)
{
    cj_ctx *c = cj_ctx_new(NULL);
    cj_module *m = holder(c);
    cj_tensor *w = cj_module_param(m, "w", cj_full(c, 1.5, CJ_SHAPE(1, 1), CJ_F64)), *x = cj_keep(cj_zeros(c, CJ_SHAPE(20, 1, 1), CJ_F64));
    cj_tensor *h0 = cj_keep(cj_ones(c, CJ_SHAPE(1, 1), CJ_F64));
    cj_optim *o = cj_sgd(cj_module_params(m), .lr = 0.01, .clip_norm = clip);
    for (int i = 0; i < steps && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *h = cj_rnn(x, NULL, w, NULL, NULL, .h0 = h0, .activation = CJ_ACTIVATION_RELU).h_n;
        cj_minimise(o, cj_sum(cj_square(cj_add_scalar(h, -0.5))));
        cj_scope_close(s);
    }
    const double end = cj_item(w);
    cj_ctx_free(c);
    return end;
}

/* rnn.clip-norm */
static void rnn_clip_norm(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 13 });
    for (int k = 0; k < 2; k++) { /* a step of size 1 is the clipped gradient: above c, and below it */
        cj_module *m = holder(c);
        const double clip = k ? 1e3 : 0.25;
        cj_tensor *wi = cj_module_param(m, "wi", uniform(c, CJ_SHAPE(8, 2))), *wh = cj_module_param(m, "wh", uniform(c, CJ_SHAPE(8, 2)));
        cj_tensor *x = uniform(c, CJ_SHAPE(5, 3, 2)), *before[2] = { cj_clone(cj_detach(wi)), cj_clone(cj_detach(wh)) }, *g[2], *moved[2];
        cj_tensor *loss = cj_sum(cj_lstm(x, wi, wh, NULL, NULL).y);
        assert_true(cj_grad(loss, CJ_TENSORS(wi, wh), 2, g, .retain = true));
        const double norm = hypot(norm_of(g[0]), norm_of(g[1]));
        assert_true((norm > clip) == (k == 0));
        assert_true(cj_minimise(cj_sgd(cj_module_params(m), .lr = 1, .clip_norm = clip), loss));
        moved[0] = cj_sub(before[0], cj_detach(wi)), moved[1] = cj_sub(before[1], cj_detach(wh));
        assert_true(hypot(norm_of(moved[0]), norm_of(moved[1])) <= clip * (1 + 1e-9));
        for (int i = 0; i < 2; i++) assert_true(distance(moved[i], cj_mul_scalar(g[i], k ? 1 : clip / norm)) < 1e-6);
    }
    assert_ok(c);
    cj_ctx_free(c);
    const double clipped = descend(1, 400), free_fall = descend(0, 400);
    print_message("down the cliff: clipped %.4f, unclipped %.3g\n", clipped, free_fall);
    assert_near(clipped, pow(0.5, 1.0 / 20), 0.01);
    assert_true(!(fabs(free_fall) < 1e3));
}

/* rnn.clip-value */
static void rnn_clip_value(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 14 });
    cj_tensor *w = cj_require_grad(uniform(c, CJ_SHAPE(4, 4))), *x = uniform(c, CJ_SHAPE(6, 3, 4)), *g;
    assert_true(cj_grad(cj_sum(cj_rnn(x, NULL, w, NULL, NULL).y), &w, 1, &g));
    const double limit = norm_of(g) / 6;
    cj_tensor *clipped = cj_clamp(g, -limit, limit);
    double *a = values_of(g), *b = values_of(clipped), dot = 0;
    int outside = 0;
    for (int i = 0; i < 16; i++) {
        assert_true(fabs(b[i]) <= limit);
        if (fabs(a[i]) <= limit) assert_true(a[i] == b[i]);
        else outside++, assert_true(b[i] == (a[i] > 0 ? limit : -limit));
        dot += a[i] * b[i];
    }
    const double angle = acos(dot / norm_of(g) / norm_of(clipped)) * 180 / acos(-1);
    print_message("clipped %d of 16, turned by %.1f degrees\n", outside, angle);
    assert_true(outside > 0 && outside < 16 && angle > 0.1);
    free(a), free(b);
    cj_ctx_free(c);
}

/* ---- gated cells ---------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *lstm_of(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    cj_recurrent_result r = cj_lstm(in[0], in[1], in[2], in[3], NULL);
    return cj_add(r.y, cj_square(r.c_n));
}

/* rnn.lstm */
static void rnn_lstm(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 15 });
    cj_tensor *half = cj_full(c, 0.5, CJ_SHAPE(4, 1), CJ_F64), *x = F64(c, CJ_SHAPE(2, 1, 1), 1, -1);
    static const double want_c[] = { .2876491, -.0411182 }, want_h[] = { .1742697, -.0163651 };
    for (int T = 1; T <= 2; T++) {
        cj_recurrent_result r = cj_lstm(cj_slice(x, 0, 0, T, 1), half, half, NULL, NULL);
        assert_near(cj_item(r.c_n), want_c[T - 1], 5e-8);
        assert_near(cj_item(r.h_n), want_h[T - 1], 5e-8);
    }
    /* f = 1 and i = 0 keep c to the bit; h stays inside (-1, 1) whatever comes in */
    enum { H = 5 };
    float bias[4 * H] = { 0 };
    for (int i = 0; i < H; i++) bias[i] = -1000, bias[H + i] = 1000;
    cj_tensor *c0 = cj_randn(c, CJ_SHAPE(3, H)), *w = cj_randn(c, CJ_SHAPE(4 * H, H)), *b = cj_from_f32(c, bias, CJ_SHAPE(4 * H));
    cj_tensor *big = cj_mul_scalar(cj_randn(c, CJ_SHAPE(50, 3, H)), 20);
    assert_true(same_bits(c0, cj_lstm(cj_mul_scalar(big, 0.01), w, w, b, NULL, .c0 = c0).c_n));
    assert_true(cj_item(cj_max(cj_abs(cj_lstm(big, w, w, NULL, NULL).y))) <= 1);
    cj_tensor *gates = cj_lstm(big, w, w, NULL, NULL, .lengths = NULL).h_n;
    assert_true(cj_item(cj_max(cj_abs(gates))) <= 1);
    cj_tensor *in[] = { uniform(c, CJ_SHAPE(4, 2, 3)), uniform(c, CJ_SHAPE(8, 3)), uniform(c, CJ_SHAPE(8, 2)), uniform(c, CJ_SHAPE(8)) };
    cj_gradcheck_result r = cj_gradcheck(c, lstm_of, NULL, in, 4, .second_order = true);
    if (!r.ok) fail_msg("%s", r.what);
    cj_ctx_free(c);
}

/* rnn.gru, whose notes write h' = (1 - z)·h + z·n; here, as in PyTorch, z is what is kept: their z is 1 - ours, the weights of z change sign. */
static void rnn_gru(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 16 });
    cj_tensor *w = F64(c, CJ_SHAPE(3, 1), 0.5, -0.5, 0.5), *x = F64(c, CJ_SHAPE(2, 1, 1), 1, -1), *y = cj_gru(x, w, w, NULL, NULL).y;
    assert_near(value_at(y, 0), .2876491, 5e-8);
    assert_near(value_at(y, 1), -.0014633, 5e-8);
    enum { H = 4 };
    cj_tensor *wi = cj_randn(c, CJ_SHAPE(3 * H, 2)), *wh = cj_randn(c, CJ_SHAPE(3 * H, H)), *in = cj_randn(c, CJ_SHAPE(6, 3, 2)),
              *h0 = cj_randn(c, CJ_SHAPE(3, H));
    float bias[3 * H] = { 0 };
#define GATES(r, z)                                                                                                                        \
    for (int i = 0; i < H; i++) bias[i] = (r), bias[H + i] = (z);                                                                          \
    cj_tensor *b = cj_from_f32(c, bias, CJ_SHAPE(3 * H))
    {
        GATES(0, 1000); /* nothing is new: the state is copied */
        assert_true(same_bits(h0, cj_gru(in, wi, wh, b, NULL, .h0 = h0).h_n));
    }
    cj_tensor *wi_n = cj_slice(wi, 0, 2 * H, 3 * H, 1), *wh_n = cj_slice(wh, 0, 2 * H, 3 * H, 1);
    {
        GATES(1000, -1000); /* all is new, nothing is reset: the plain rnn */
        assert_true(distance(cj_gru(in, wi, wh, b, NULL, .h0 = h0).y, cj_rnn(in, wi_n, wh_n, NULL, NULL, .h0 = h0).y) < 1e-5);
    }
    {
        GATES(-1000, -1000); /* all is new, all is reset: x alone */
        assert_true(distance(cj_gru(in, wi, wh, b, NULL, .h0 = h0).y, cj_tanh(cj_linear_op(in, wi_n, NULL))) < 1e-6);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* Normalised over sequences and time, each feature by itself. */
static cj_tensor *batch_norm(cj_tensor *a)
{
    const cj_reduce_opts over = { .axes = CJ_AXES(0, 1), .keepdim = true };
    cj_tensor *d = cj_sub(a, (cj_mean)(a, &over));
    return cj_mul(d, cj_rsqrt(cj_add_scalar((cj_mean)(cj_square(d), &over), 1e-5)));
}
static cj_tensor *light_gru_of(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)user, (void)n;
    return cj_light_gru(batch_norm(cj_linear_op(in[0], in[1], NULL)), NULL, in[2], in[3], NULL).y;
}

/* rnn.light-gru */
static void rnn_light_gru(void **state)
{
    (void)state;
    enum { H = 4, T = 10, N = 32, UNITS = 16 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 17 });
    cj_tensor *wi = cj_randn(c, CJ_SHAPE(2 * H, 2)), *wh = cj_randn(c, CJ_SHAPE(2 * H, H)), *x = cj_randn(c, CJ_SHAPE(6, 3, 2)),
              *h0 = cj_randn(c, CJ_SHAPE(3, H));
    float bias[3 * H] = { 0 };
    for (int i = 0; i < H; i++) bias[i] = 1000;
    assert_true(same_bits(h0, cj_light_gru(x, wi, wh, cj_from_f32(c, bias, CJ_SHAPE(2 * H)), NULL, .h0 = h0).h_n));
    /* with tanh: a gru whose reset gate is 1 */
    cj_tensor *none_i = cj_zeros(c, CJ_SHAPE(H, 2), CJ_F32), *none_h = cj_zeros(c, CJ_SHAPE(H, H), CJ_F32);
    cj_tensor *gru = cj_gru(x, cj_cat(CJ_TENSORS(none_i, wi), 2, 0), cj_cat(CJ_TENSORS(none_h, wh), 2, 0),
                            cj_from_f32(c, bias, CJ_SHAPE(3 * H)), NULL, .h0 = h0)
                         .y;
    assert_true(distance(cj_light_gru(x, wi, wh, NULL, NULL, .h0 = h0, .activation = CJ_ACTIVATION_TANH).y, gru) < 1e-6);
    cj_tensor *in[] = { uniform(c, CJ_SHAPE(4, 3, 2)), uniform(c, CJ_SHAPE(6, 2)), uniform(c, CJ_SHAPE(6, 3)), uniform(c, CJ_SHAPE(6)) };
    cj_gradcheck_result r = cj_gradcheck(c, light_gru_of, NULL, in, 4);
    if (!r.ok) fail_msg("%s", r.what);
    /* the adding task: the sum of two marked numbers of a sequence; predicting 1 has the error 1/6 */
    cj_module *m = holder(c);
    cj_tensor *w1 = param(m, "wi", CJ_SHAPE(2 * UNITS, 2), 0.5), *w2 = param(m, "wh", CJ_SHAPE(2 * UNITS, UNITS), 0.2),
              *b = param(m, "b", CJ_SHAPE(2 * UNITS), 0.1);
    cj_tensor *v = param(m, "v", CJ_SHAPE(1, UNITS), 0.2), *vb = param(m, "vb", CJ_SHAPE(1), 0.1);
    cj_optim *o = cj_adam(cj_module_params(m), .lr = 0.01, .clip_norm = 1);
    double error = 0, constant = 0;
    for (int step = 0; step < 800; step++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *value = cj_rand(c, CJ_SHAPE(T, N)), *place = cj_randint(c, 0, T / 2, CJ_SHAPE(2, N));
        cj_tensor *later = cj_add_scalar(cj_select(place, 0, 1), T / 2);
        cj_tensor *mark = cj_cast(cj_t(cj_add(cj_one_hot(cj_select(place, 0, 0), T), cj_one_hot(later, T))), CJ_F32);
        cj_tensor *target = cj_sum(cj_mul(value, mark), .axes = CJ_AXIS(0));
        cj_tensor *a = batch_norm(cj_linear_op(cj_stack(CJ_TENSORS(value, mark), 2, 2), w1, NULL));
        cj_tensor *y = cj_flatten(cj_linear_op(cj_light_gru(a, NULL, w2, b, NULL).h_n, v, vb), 0), *loss = cj_mse_loss(y, target);
        if (step >= 700) error += cj_item(loss) / 100, constant += cj_item(cj_mean(cj_square(cj_add_scalar(target, -1)))) / 100;
        cj_minimise(o, loss);
        cj_scope_close(s);
    }
    print_message("adding: error %.4f, of predicting 1 %.4f\n", error, constant);
    assert_ok(c);
    assert_near(constant, 1.0 / 6, 0.02);
    assert_true(error < 0.25 * constant);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rnn_vanilla),       cmocka_unit_test(rnn_module),        cmocka_unit_test(rnn_stacked),
        cmocka_unit_test(rnn_lstm_stacked),  cmocka_unit_test(rnn_bidirectional), cmocka_unit_test(rnn_unroll),
        cmocka_unit_test(rnn_bptt),          cmocka_unit_test(rnn_bptt_oracle),   cmocka_unit_test(rnn_tbptt),
        cmocka_unit_test(rnn_matrix_powers), cmocka_unit_test(rnn_vanishing),     cmocka_unit_test(rnn_cell_gradient),
        cmocka_unit_test(rnn_clip_norm),     cmocka_unit_test(rnn_clip_value),    cmocka_unit_test(rnn_lstm),
        cmocka_unit_test(rnn_gru),           cmocka_unit_test(rnn_light_gru),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
