/* Recurrent networks against plain loops: every cell, direction, length and option in all float types; fused gradients against those of the definition; threads, plans,
 * stacks, truncation; what bad arguments are told. */
#include "support.h"

typedef cj_recurrent_result layer_fn(cj_tensor *x, cj_tensor *w_ih, cj_tensor *w_hh, cj_tensor *b_ih, cj_tensor *b_hh,
                                     const cj_recurrent_opts *opts);
static layer_fn *const layers[] = { (cj_rnn), (cj_lstm), (cj_gru), (cj_light_gru) };
static const int64_t gates_of[] = { 1, 4, 3, 2 };

typedef struct problem {
    int cell;
    int64_t T, N, I, H;
    bool bias, states, lengths, reverse, relu;
    int64_t truncate;
} problem;

enum { X, W_IH, W_HH, B_IH, B_HH, H0, C0, PARTS };

/* Inputs of a problem; parts that it does not have are NULL. */
static void make(cj_ctx *c, const problem *p, cj_dtype t, cj_tensor **in)
{
    const int64_t rows = gates_of[p->cell] * p->H;
    const cj_shape shape[PARTS] = { CJ_SHAPE(p->T, p->N, p->I), CJ_SHAPE(rows, p->I), CJ_SHAPE(rows, p->H), CJ_SHAPE(rows), CJ_SHAPE(rows),
                                    CJ_SHAPE(p->N, p->H),       CJ_SHAPE(p->N, p->H) };
    const bool there[PARTS] = { true, true, true, p->bias, p->bias, p->states, p->states && p->cell == CJ_LSTM };
    for (int i = 0; i < PARTS; i++) {
        const double size = i == X ? 1 : fmin(0.5, 1.5 / sqrt((double)p->H)); /* a state that neither dies nor amplifies rounding */
        in[i] = there[i] ? cj_require_grad(cj_cast(cj_uniform(c, -size, size, shape[i]), t)) : NULL;
    }
}

static int64_t length_of(const problem *p, int64_t n) { return p->lengths ? 1 + n * 7 % p->T : p->T; }

static cj_recurrent_result run(cj_ctx *c, const problem *p, cj_tensor *const *in)
{
    cj_recurrent_opts o = { .h0 = in[H0], .c0 = in[C0], .reverse = p->reverse, .truncate = p->truncate };
    if (p->relu) o.activation = CJ_ACTIVATION_RELU;
    int64_t lengths[64];
    for (int64_t n = 0; n < p->N; n++) lengths[n] = length_of(p, n);
    if (p->lengths) o.lengths = cj_from_i64(c, lengths, CJ_SHAPE(p->N));
    return layers[p->cell](in[X], in[W_IH], in[W_HH], in[B_IH], in[B_HH], &o);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double part(const double *v, int64_t i) { return v ? v[i] : 0; }

/* One step of one sequence by the formulas of ops.h: h and c are replaced. */
static void step(const problem *p, double *const *v, const double *x, double *h, double *c)
{
    const int64_t H = p->H, G = gates_of[p->cell];
    double *a = calloc((size_t)(2 * G * H), sizeof *a), *u = a + G * H;
    for (int64_t k = 0; k < G * H; k++) {
        a[k] = part(v[B_IH], k), u[k] = part(v[B_HH], k);
        for (int64_t i = 0; i < p->I; i++) a[k] += v[W_IH][k * p->I + i] * x[i];
        for (int64_t i = 0; i < H; i++) u[k] += v[W_HH][k * H + i] * h[i];
    }
    for (int64_t i = 0; i < H; i++) {
#define SUM(g) (a[(g)*H + i] + u[(g)*H + i])
        if (p->cell == CJ_RNN) h[i] = p->relu ? fmax(0, SUM(0)) : tanh(SUM(0));
        if (p->cell == CJ_LSTM) {
            c[i] = sigmoid(SUM(1)) * c[i] + sigmoid(SUM(0)) * tanh(SUM(2));
            h[i] = sigmoid(SUM(3)) * tanh(c[i]);
        }
        if (p->cell == CJ_GRU) {
            const double r = sigmoid(SUM(0)), z = sigmoid(SUM(1)), n = tanh(a[2 * H + i] + r * u[2 * H + i]);
            h[i] = (1 - z) * n + z * h[i];
        }
        if (p->cell == CJ_LIGHT_GRU) {
            const double z = sigmoid(SUM(0));
            h[i] = (1 - z) * fmax(0, SUM(1)) + z * h[i];
        }
#undef SUM
    }
    free(a);
}

static void near_all(cj_tensor *t, const double *want, double tolerance, const char *what, const problem *p)
{
    double *v = values_of(t);
    for (int64_t i = 0; i < cj_numel(t); i++)
        if (!(fabs(v[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg(
                "%s of cell %d, %s: element %ld is %.9g, expected %.9g; T %ld N %ld I %ld H %ld, bias %d states %d lengths %d reverse %d",
                what, p->cell, cj_dtype_name(cj_dtype_of(t)), (long)i, v[i], want[i], (long)p->T, (long)p->N, (long)p->I, (long)p->H,
                p->bias, p->states, p->lengths, p->reverse);
    free(v);
}

static const double tolerance_of[CJ_DTYPES] = { [CJ_F32] = 5e-6, [CJ_F64] = 1e-13, [CJ_BF16] = 0x1p-7, [CJ_F16] = 0x1p-9 };

static void check_values(cj_ctx *c, const problem *p, cj_dtype t)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *in[PARTS];
    double *v[PARTS] = { 0 };
    make(c, p, t, in);
    cj_recurrent_result r = run(c, p, in);
    assert_ok(c);
    for (int i = 0; i < PARTS; i++) v[i] = in[i] ? values_of(in[i]) : NULL;
    const int64_t T = p->T, N = p->N, H = p->H;
    double *y = calloc((size_t)(T * N * H), sizeof *y), *h = calloc((size_t)(2 * N * H), sizeof *h), *cell = h + N * H;
    if (v[H0]) memcpy(h, v[H0], (size_t)(N * H) * sizeof *h);
    if (v[C0]) memcpy(cell, v[C0], (size_t)(N * H) * sizeof *h);
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0, length = length_of(p, n); k < length; k++) {
            const int64_t t_at = p->reverse ? length - 1 - k : k;
            step(p, v, v[X] + (t_at * N + n) * p->I, h + n * H, cell + n * H);
            memcpy(y + (t_at * N + n) * H, h + n * H, (size_t)H * sizeof *y);
        }
    near_all(r.y, y, tolerance_of[t], "y", p);
    near_all(r.h_n, h, tolerance_of[t], "h_n", p);
    if (p->cell == CJ_LSTM) near_all(r.c_n, cell, tolerance_of[t] * 2, "c_n", p);
    else assert_null(r.c_n);
    for (int i = 0; i < PARTS; i++) free(v[i]);
    free(y);
    free(h);
    cj_scope_close(s);
}

static void values_of_all_cells(void **unused)
{
    (void)unused;
    const uint64_t seed = 41;
    print_message("seed %d\n", (int)seed);
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = seed });
    static const int64_t sizes[][4] = { { 1, 1, 1, 1 },   { 4, 3, 2, 5 },   { 3, 5, 7, 16 },  { 5, 2, 3, 17 },
                                        { 3, 50, 4, 33 }, { 2, 9, 70, 70 }, { 4, 1, 3, 130 }, { 3, 21, 4, 120 } };
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    for (int cell = 0; cell < 4; cell++)
        for (size_t z = 0; z < sizeof sizes / sizeof sizes[0]; z++)
            for (int what = 0; what < 32; what++) {
                problem p = { .cell = cell, .T = sizes[z][0], .N = sizes[z][1], .I = sizes[z][2], .H = sizes[z][3] };
                p.bias = what & 1, p.states = what & 2, p.lengths = what & 4, p.reverse = what & 8, p.relu = what & 16;
                if (p.relu && cell != CJ_RNN) continue;
                check_values(c, &p, types[(z + (size_t)what) % 4]);
            }
    cj_ctx_free(c);
}

/* y, h_n and c_n in one number of each element, and the gradients of all that is there. */
static int gradients(cj_ctx *c, const problem *p, cj_tensor *const *in, bool definition, cj_tensor **out)
{
    cj_recurrent_result r = run(c, p, in);
    cj_tensor *state = r.c_n ? cj_add(r.h_n, cj_mul_scalar(r.c_n, 2)) : r.h_n, *y = cj_add(cj_mul(r.y, r.y), state), *have[PARTS];
    int n = 0;
    for (int i = 0; i < PARTS; i++)
        if (in[i]) have[n++] = in[i];
    if (!cj_grad(cj_sum(y), have, n, out, .create_graph = definition)) fail_msg("%s", cj_message(c));
    return n;
}

static void equal_gradients(cj_ctx *c, const problem *p, int what)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *in[PARTS], *fused[PARTS], *defined[PARTS];
    make(c, p, CJ_F64, in);
    const int n = gradients(c, p, in, false, fused);
    gradients(c, p, in, true, defined);
    for (int i = 0; i < n; i++) {
        const double d = distance(fused[i], defined[i]);
        if (!(d <= 1e-11)) fail_msg("cell %d options %d gradient %d: fused and definition differ by %g", p->cell, what, i, d);
    }
    cj_scope_close(s);
}

static void gradients_equal_the_definition(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 42 });
    for (int cell = 0; cell < 4; cell++)
        for (int what = 0; what < 64; what++) {
            problem p = { .cell = cell, .T = 7, .N = 5, .I = 3, .H = 19, .bias = what & 1, .states = what & 2 };
            p.lengths = what & 4, p.reverse = what & 8, p.relu = what & 16 && cell == CJ_RNN, p.truncate = what & 32 ? 3 : 0;
            equal_gradients(c, &p, what);
        }
    equal_gradients(c, &(problem){ .cell = CJ_RNN, .T = CJ_MAX_INPUTS + 5, .N = 1, .I = 1, .H = 2 },
                    -1); /* more steps than one call can stack */
    cj_ctx_free(c);
}

static void threads_do_not_matter(void **unused)
{
    (void)unused;
    static const int64_t sizes[][4] = {
        { 5, 37, 6, 70 }, { 3, 2, 5, 300 }, { 2, 40, 8, 400 }, { 4, 35, 6, 120 }
    }; /* threads over sequences, and over units where there are few */
    for (int cell = 0; cell < 4; cell++)
        for (size_t z = 0; z < sizeof sizes / sizeof sizes[0]; z++) {
            cj_ctx *c[3];
            cj_tensor *g[3][PARTS], *y[3];
            int n = 0;
            for (int k = 0; k < 3; k++) {
                c[k] = cj_ctx_new(&(cj_ctx_opts){ .threads = k + 1, .seed = 43 });
                problem p = {
                    .cell = cell, .T = sizes[z][0], .N = sizes[z][1], .I = sizes[z][2], .H = sizes[z][3], .bias = true, .states = true
                };
                cj_tensor *in[PARTS];
                make(c[k], &p, CJ_F32, in);
                y[k] = run(c[k], &p, in).y;
                n = gradients(c[k], &p, in, false, g[k]);
            }
            for (int k = 1; k < 3; k++) {
                assert_true(same_bits(y[0], y[k]));
                for (int i = 0; i < n; i++) assert_true(same_bits(g[0][i], g[k][i]));
            }
            for (int k = 0; k < 3; k++) cj_ctx_free(c[k]);
        }
}

/* ---- plans --------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct planned {
    cj_recurrent_cell cell;
    cj_tensor *w[16];
    bool dropout;
} planned;

static void planned_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    planned *p = user;
    cj_tensor *all[17] = { cj_require_grad(in[0]) };
    memcpy(all + 1, p->w, sizeof p->w);
    cj_recurrent_result r =
        cj_recurrent(p->cell, all[0], p->w, 16, .layers = 2, .bidirectional = true, .lengths = in[1], .dropout = p->dropout ? 0.3 : 0);
    out[0] = cj_sum(cj_add(cj_mul(r.y, r.y), cj_sum(r.h_n)));
    cj_grad(out[0], all, 14, out + 1);
}

static void plans_equal_eager_calls(void **unused)
{
    (void)unused;
    for (int k = 0; k < 8; k++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 44 });
        planned p = { .cell = (cj_recurrent_cell)(k % 4), .dropout = k > 3 };
        const int64_t H = 21, rows = gates_of[k % 4] * H;
        for (int i = 0; i < 16; i++)
            p.w[i] = cj_param(cj_uniform(c, -0.3, 0.3,
                                         i % 4 == 0   ? CJ_SHAPE(rows, i < 8 ? 5 : 2 * H)
                                         : i % 4 == 1 ? CJ_SHAPE(rows, H)
                                                      : CJ_SHAPE(rows)));
        cj_tensor *in[2][2];
        for (int j = 0; j < 2; j++) {
            in[j][0] = cj_keep(cj_randn(c, CJ_SHAPE(6, 9, 5)));
            in[j][1] = cj_keep(cj_add_scalar(cj_randint(c, 0, 6, CJ_SHAPE(9)), 1));
        }
        cj_plan *plan = NULL;
        for (int turn = 0; turn < 4; turn++) { /* capture, trace again, compiled twice */
            cj_scope s = cj_scope_open(c);
            cj_tensor **x = in[turn % 2], *out[16] = { 0 }, *want[16] = { 0 };
            const cj_rng_state at = cj_rng_get(c);
            planned_step(c, &p, x, want);
            cj_rng_set(c, at);
            if (!plan) plan = cj_capture(c, planned_step, &p, x, 2, out);
            else cj_replay(plan, x, out);
            assert_ok(c);
            for (int i = 0; i < 15; i++)
                if (!same_bits(out[i], want[i])) fail_msg("cell %d, turn %d, result %d differs", k % 4, turn, i);
            cj_scope_close(s);
        }
        assert_true(cj_plan_statistics(plan).compiled);
        assert_int_equal(cj_plan_statistics(plan).allocations, 0);
        /* a bad length is found in a replay, too */
        cj_tensor *bad[2] = { in[0][0], cj_keep(cj_full(c, 7, CJ_SHAPE(9), CJ_I64)) };
        assert_false(cj_replay(plan, bad, NULL));
        assert_error(c, CJ_EINDEX, "the length of sequence 0 is 7; 1 to 6 steps expected");
        cj_ctx_free(c);
    }
}

/* ---- meanings ---------------------------------------------------------------------------------------------------------------------------------------- */

/* A batch with lengths is its sequences one by one, in both directions. */
static void lengths_are_sequences_alone(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 45 });
    for (int k = 0; k < 8; k++) {
        problem p = { .cell = k / 2, .T = 6, .N = 4, .I = 3, .H = 5, .bias = true, .states = true, .lengths = true, .reverse = k % 2 };
        cj_tensor *in[PARTS];
        make(c, &p, CJ_F32, in);
        cj_recurrent_result all = run(c, &p, in);
        for (int64_t n = 0; n < 4; n++) {
            const int64_t length = length_of(&p, n);
            cj_recurrent_opts o = { .h0 = cj_select(in[H0], 0, n), .c0 = in[C0] ? cj_select(in[C0], 0, n) : NULL, .reverse = p.reverse };
            cj_recurrent_result one =
                layers[p.cell](cj_slice(cj_select(in[X], 1, n), 0, 0, length, 1), in[W_IH], in[W_HH], in[B_IH], in[B_HH], &o);
            assert_int_equal(cj_ndim(one.y), 2);
            assert_int_equal(cj_ndim(one.h_n), 1);
            cj_tensor *mine = cj_select(all.y, 1, n);
            assert_true(distance(cj_slice(mine, 0, 0, length, 1), one.y) < 1e-6);
            assert_true(distance(cj_select(all.h_n, 0, n), one.h_n) < 1e-6);
            if (length < p.T) assert_true(cj_item(cj_max(cj_abs(cj_slice(mine, 0, length, p.T, 1)))) == 0);
        }
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static void batch_first_and_ready_input_terms(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 46 });
    for (int cell = 0; cell < 4; cell++) {
        problem p = { .cell = cell, .T = 4, .N = 3, .I = 2, .H = 6, .bias = true };
        cj_tensor *in[PARTS];
        make(c, &p, CJ_F64, in);
        cj_recurrent_result a = run(c, &p, in);
        cj_recurrent_result b =
            layers[cell](cj_transpose(in[X], 0, 1), in[W_IH], in[W_HH], in[B_IH], in[B_HH], &(cj_recurrent_opts){ .batch_first = true });
        assert_int_equal(cj_size(b.y, 0), 3);
        assert_true(same_bits(a.y, cj_transpose(b.y, 0, 1)) && same_bits(a.h_n, b.h_n));
        cj_recurrent_result d = layers[cell](cj_linear_op(in[X], in[W_IH], NULL), NULL, in[W_HH], in[B_IH], in[B_HH], NULL);
        assert_true(distance(a.y, d.y) < 1e-14);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

static void dropout_lies_between_layers(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 47 });
    cj_tensor *w[8], *x = cj_randn(c, CJ_SHAPE(3, 2, 4));
    for (int i = 0; i < 8; i++) w[i] = cj_randn(c, i % 4 < 2 ? CJ_SHAPE(4, 4) : CJ_SHAPE(4));
    cj_tensor *plain = cj_recurrent(CJ_RNN, x, w, 8, .layers = 2).y;
    assert_true(same_bits(plain, cj_recurrent(CJ_RNN, x, w, 8, .layers = 2, .dropout = 0.5, .eval = true).y));
    assert_false(same_bits(plain, cj_recurrent(CJ_RNN, x, w, 8, .layers = 2, .dropout = 0.5).y));
    /* all of the first layer dropped: the second one sees zeros */
    cj_tensor *none = cj_recurrent(CJ_RNN, x, w, 8, .layers = 2, .dropout = 1).y;
    assert_true(same_bits(none, cj_rnn(cj_zeros(c, CJ_SHAPE(3, 2, 4), CJ_F32), w[4], w[5], w[6], w[7]).y));
    assert_true(same_bits(cj_recurrent(CJ_RNN, x, w, 4, .dropout = 0.9).y, cj_rnn(x, w[0], w[1], w[2], w[3]).y)); /* never after the last */
    assert_ok(c);
    cj_ctx_free(c);
}

/* ---- what bad arguments are told ------------------------------------------------------------------------------------------------------------------------- */

#define SAYS(call, code, text)                                                                                                             \
    do {                                                                                                                                   \
        cj_recurrent_result r_ = call;                                                                                                     \
        assert_true(cj_is_poison(r_.y) && cj_is_poison(r_.h_n));                                                                           \
        assert_error(c, code, text);                                                                                                       \
        cj_clear(c);                                                                                                                       \
    } while (0)

static void bad_arguments(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(NULL);
#define Z(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
    cj_tensor *x = Z(4, 2, 3), *wi = Z(20, 3), *wh = Z(20, 5), *b = Z(20);
    assert_ok(c);
    SAYS(cj_lstm(x, wi, Z(15, 5), b, b), CJ_ESHAPE, "lstm: w_hh is [15, 5]; [20, H] with 4 gates of H units expected");
    SAYS(cj_gru(x, wi, wh, b, b), CJ_ESHAPE, "gru: w_hh is [20, 5]; [15, H] with 3 gates of H units expected");
    SAYS(cj_rnn(x, wi, Z(0, 0), NULL, NULL), CJ_ESHAPE, "rnn: w_hh is [0, 0]; [1, H] with 1 gates of H units expected");
    SAYS(cj_lstm(x, Z(20, 4), wh, b, b), CJ_ESHAPE, "lstm: w_ih is [20, 4], [20, 3] expected");
    SAYS(cj_lstm(x, wi, wh, Z(19), b), CJ_ESHAPE, "lstm: b_ih is [19], [20] expected");
    SAYS(cj_lstm(x, wi, wh, b, Z(5)), CJ_ESHAPE, "lstm: b_hh is [5], [20] expected");
    SAYS(cj_lstm(x, NULL, wh, b, b), CJ_ESHAPE, "lstm: without w_ih the input has 3 values a step, 4 gates of 5 units expected");
    SAYS(cj_lstm(x, wi, wh, b, b, .h0 = Z(2, 4)), CJ_ESHAPE, "lstm: h0 is [2, 4], [2, 5] expected");
    SAYS(cj_lstm(x, wi, wh, b, b, .c0 = Z(3, 5)), CJ_ESHAPE, "lstm: c0 is [3, 5], [2, 5] expected");
    SAYS(cj_rnn(x, Z(5, 3), Z(5, 5), NULL, NULL, .c0 = Z(2, 5)), CJ_EVALUE, "rnn: c0 is given, but only an lstm has cells");
    SAYS(cj_lstm(Z(4), wi, wh, b, b), CJ_ESHAPE, "lstm: the input is [4]; [T, N, I] or [T, I] expected");
    SAYS(cj_lstm(Z(0, 2, 3), wi, wh, b, b), CJ_ESHAPE, "lstm: the input [0, 2, 3] has no steps");
    SAYS(cj_lstm(cj_zeros(c, CJ_SHAPE(4, 2, 3), CJ_I64), wi, wh, b, b), CJ_EDTYPE, "lstm: the input is i64, a float type expected");
    SAYS(cj_lstm(x, cj_cast(wi, CJ_F64), wh, b, b), CJ_EDTYPE, "lstm: w_ih is f64, the input f32; one type expected");
    SAYS(cj_lstm(x, wi, wh, b, b, .truncate = -1), CJ_EVALUE, "lstm: truncate -1; 0 (never) or a number of steps expected");
    SAYS(cj_lstm(x, wi, wh, b, b, .activation = CJ_ACTIVATION_RELU), CJ_EVALUE,
         "lstm: the activation can be chosen in rnn and light_gru only");
    SAYS(cj_rnn(x, wi, wh, b, b, .activation = (cj_recurrent_activation)9), CJ_EVALUE, "rnn: activation 9 is neither tanh nor relu");
    SAYS(cj_lstm(x, wi, wh, b, b, .layers = 2), CJ_EVALUE,
         "lstm: layers, bidirectional, dropout and eval are options of stacks; call cj_recurrent");
#define LENGTHS(...) cj_from_i64(c, ((int64_t[]){ __VA_ARGS__ }), CJ_SHAPE(2))
    SAYS(cj_lstm(x, wi, wh, b, b, .lengths = LENGTHS(4, 5)), CJ_EINDEX, "lstm: the length of sequence 1 is 5; 1 to 4 steps expected");
    SAYS(cj_lstm(x, wi, wh, b, b, .lengths = LENGTHS(0, 4)), CJ_EINDEX, "lstm: the length of sequence 0 is 0; 1 to 4 steps expected");
    SAYS(cj_lstm(x, wi, wh, b, b, .lengths = Z(2)), CJ_ESHAPE, "lstm: lengths is f32 [2], i64 [2] expected");
    SAYS(cj_lstm(x, wi, wh, b, b, .lengths = cj_from_i64(c, (int64_t[]){ 1 }, CJ_SHAPE(1))), CJ_ESHAPE,
         "lstm: lengths is i64 [1], i64 [2] expected");
    cj_tensor *w[8] = { wi, wh, b, b, wi, wh, b, b };
    SAYS(cj_recurrent(CJ_LSTM, x, w, 7, .layers = 2), CJ_EVALUE,
         "lstm: 7 weights for 2 layers and directions; w_ih, w_hh, b_ih, b_hh of each (8), or without biases 4 expected");
    SAYS(cj_recurrent(CJ_LSTM, x, NULL, 8, .layers = 2), CJ_EVALUE, "lstm: 0 weights for 2 layers");
    SAYS(cj_recurrent(CJ_LSTM, x, w, 8, .layers = 2), CJ_ESHAPE, "lstm: w_ih is [20, 3], [20, 5] expected"); /* of the second layer */
    SAYS(cj_recurrent(CJ_LSTM, x, w, 4, .h0 = Z(2, 5)), CJ_ESHAPE, "lstm: h0 is [2, 5]; [1, N, H] expected");
    SAYS(cj_recurrent(CJ_LSTM, x, w, 4, .h0 = Z(2, 2, 5)), CJ_ESHAPE, "lstm: h0 is [2, 2, 5]; [1, N, H] expected");
    SAYS(cj_recurrent(CJ_LSTM, x, w, 4, .reverse = true), CJ_EVALUE, "lstm: reverse is of single layers; stacks have bidirectional");
    SAYS(cj_recurrent(CJ_LSTM, x, w, 4, .layers = -1), CJ_EVALUE, "lstm: -1 layers");
    SAYS(cj_recurrent(CJ_LSTM, x, w, 4, .dropout = 1.5), CJ_EVALUE, "lstm: dropout 1.5 is not a probability");
    SAYS(cj_recurrent((cj_recurrent_cell)7, x, w, 4), CJ_EVALUE, "recurrent: 7 is none of the cells");
    w[1] = NULL;
    cj_recurrent_result r = cj_recurrent(CJ_LSTM, x, w, 4);
    assert_true(cj_is_poison(r.y) && cj_is_poison(r.c_n) && !cj_ok(c));
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_all_cells),         cmocka_unit_test(gradients_equal_the_definition),
        cmocka_unit_test(threads_do_not_matter),       cmocka_unit_test(plans_equal_eager_calls),
        cmocka_unit_test(lengths_are_sequences_alone), cmocka_unit_test(batch_first_and_ready_input_terms),
        cmocka_unit_test(dropout_lies_between_layers), cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
