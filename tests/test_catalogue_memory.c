/* Catalogue rows of memory: how far back recurrent networks and attention reach, what attention on top does to gradients, what more layers are worth, forecasts, clips.  ctest: slow */
#include "reader.h"

TEST_CONTEXT(.threads = 1, .seed = 81);

static double norm_of(cj_tensor *t) { return sqrt(cj_item(cj_sum(cj_square(t)))); }

/* ---- recall of the first of many symbols ------------------------------------------------------------------------------------------------------------------ */

enum { SYMBOLS = 4, WIDTH = 16 };
typedef enum { RNN, GRU, LSTM, ATTENTION, RNN_ATTENTION, KINDS } kind;
static const char *const kind_names[KINDS] = { "rnn", "gru", "lstm", "attention", "rnn + attention" };

/* The first symbol from the last state; or from what one learned query finds among the symbols with their positions, or among the states. */
typedef struct recaller {
    kind what;
    int64_t length;
    cj_module *all, *embedding, *cell, *key, *head;
    cj_tensor *query;
} recaller;

static recaller recaller_new(kind what, int64_t length)
{
    static const cell_fn cells[] = { (cj_rnn_layer), (cj_gru_layer), (cj_lstm_layer), NULL, (cj_rnn_layer) };
    recaller r = { .what = what, .length = length, .all = holder(c) };
    r.embedding = cj_module_add(r.all, "embedding", cj_embedding_layer(c, SYMBOLS, WIDTH));
    if (cells[what]) r.cell = cj_module_add(r.all, "cell", cells[what](c, WIDTH, WIDTH, &(cj_recurrent_layer_opts){ .batch_first = true }));
    if (what == GRU || what == LSTM) { /* gates that keep what they have: 1 - 1/150 of it at every step (Tallec & Ollivier 2018) */
        cj_tensor *b = cj_params_find(cj_module_params(r.cell), "bias_hh_l0");
        bool was = cj_no_grad(c);
        cj_assign_(cj_slice(b, 0, WIDTH, 2 * WIDTH, 1), cj_full(c, log(150), CJ_SCALAR, CJ_F32));
        if (what == LSTM) cj_assign_(cj_slice(b, 0, 0, WIDTH, 1), cj_full(c, -log(150), CJ_SCALAR, CJ_F32));
        cj_grad_mode(c, was);
    }
    if (what >= ATTENTION) {
        r.key = cj_module_add(r.all, "key", cj_linear(c, WIDTH, WIDTH));
        r.query = cj_module_param(r.all, "query", cj_randn(c, CJ_SHAPE(1, 1, WIDTH)));
    }
    r.head = cj_module_add(r.all, "head", cj_linear(c, WIDTH, SYMBOLS));
    return r;
}

/* From the states [N, T, width]. */
static cj_tensor *answer(recaller *r, cj_tensor *h)
{
    int64_t N = cj_size(h, 0), T = cj_size(h, 1);
    if (!r->query) return cj_forward(r->head, cj_select(h, 1, T - 1));
    return cj_forward(r->head, cj_squeeze(cj_attention(cj_expand(r->query, CJ_SHAPE(N, 1, WIDTH)), cj_forward(r->key, h), h), 1));
}

static cj_tensor *recall(recaller *r, cj_tensor *x)
{
    cj_tensor *e = cj_forward(r->embedding, x);
    return answer(r, r->what == ATTENTION ? cj_add(e, cj_sinusoidal_positions(c, cj_size(x, 1), WIDTH)) : cj_forward(r->cell, e));
}

static cj_tensor *recall_loss(void *user, int step)
{
    recaller *r = user;
    cj_sequences q = cj_sequence_rows(c, CJ_SEQUENCE_RECALL, 16, r->length, .symbols = SYMBOLS, .first = 16 * (int64_t)step);
    return cj_cross_entropy(recall(r, q.x), q.y);
}

static double recall_right(kind what, int64_t lag, int steps, uint64_t seed)
{
    cj_scope s = cj_scope_open(c);
    cj_seed(c, seed);
    recaller r = recaller_new(what, lag + 1);
    train_steps(c, cj_adam(cj_module_params(r.all), .lr = 0.01, .clip_norm = 1), steps, recall_loss, &r);
    cj_sequences q = cj_sequence_rows(c, CJ_SEQUENCE_RECALL, 400, r.length, .symbols = SYMBOLS, .first = 1 << 20);
    double right = cj_accuracy(recall(&r, q.x), q.y);
    cj_scope_close(s);
    return right;
}

/* rnn.memory-span: a lag is within reach when one of three runs learns it. */
static void rnn_memory_span(void **state)
{
    (void)state;
    static const int64_t lags[] = { 10, 60, 240 };
    int64_t longest[KINDS] = { 0 };
    for (int k = RNN; k <= ATTENTION; k++)
        for (int i = 0; i < 3; i++) {
            double right = 0;
            for (uint64_t seed = 82; seed < 85 && right <= 0.9; seed++) right = fmax(right, recall_right((kind)k, lags[i], 1000, seed));
            print_message("%s, first of %d symbols: %.3f right\n", kind_names[k], (int)lags[i] + 1, right);
            if (right <= 0.9) break;
            longest[k] = lags[i];
        }
    assert_int_equal(longest[RNN], 10);
    assert_int_equal(longest[GRU], 60);
    assert_int_equal(longest[LSTM], 60);
    assert_int_equal(longest[ATTENTION], 240);
}

/* |d loss/d h_2| over 100 steps. */
static double early_gradient(bool attention)
{
    enum { N = 8, T = 100 };
    cj_scope s = cj_scope_open(c);
    cj_seed(c, 83);
    recaller r = recaller_new(attention ? RNN_ATTENTION : RNN, T);
    cj_sequences q = cj_sequence_rows(c, CJ_SEQUENCE_RECALL, N, T, .symbols = SYMBOLS);
    cj_tensor *e = cj_forward(r.embedding, q.x), *g;
    cj_recurrent_state h = { 0 };
    cj_tensor *begin = cj_recurrent_forward(r.cell, cj_slice(e, 1, 0, 2, 1), NULL, &h);
    cj_tensor *h2 = h.h = cj_require_grad(cj_detach(h.h)); /* [1, N, width]: the state after two steps, and where the others start */
    cj_tensor *rest = cj_recurrent_forward(r.cell, cj_slice(e, 1, 2, T, 1), NULL, &h);
    cj_tensor *states = cj_cat((cj_tensor *[]){ cj_slice(begin, 1, 0, 1, 1), cj_transpose(h2, 0, 1), rest }, 3, 1);
    assert_true(cj_grad(cj_cross_entropy(answer(&r, states), q.y), &h2, 1, &g));
    double norm = norm_of(g);
    cj_scope_close(s);
    return norm;
}

/* rnn.attention-top */
static void rnn_attention_top(void **state)
{
    (void)state;
    double plain = early_gradient(false), attended = early_gradient(true);
    print_message("|d loss/d h_2| after 100 steps: %.3g; with attention over the states %.3g\n", plain, attended);
    assert_true(attended > 1e-5 && attended > 1e3 * plain);
    double with = recall_right(RNN_ATTENTION, 60, 1000, 82), without_it = recall_right(RNN, 60, 1000, 82);
    print_message("first of 61 symbols: %.3f right; with attention over the states %.3f\n", without_it, with);
    assert_true(with > 0.9 && without_it < 0.5);
}

/* ---- more layers ------------------------------------------------------------------------------------------------------------------------------------------ */

enum { SEEDS = 3, DELAY = 8, COPIED = 24, UNITS = 6 };

/* Bits come out DELAY steps later; cross-entropy of the steps that have an answer. */
static cj_tensor *delayed_loss(void *user, int step)
{
    cj_tensor *x = cj_sequence_rows(c, CJ_SEQUENCE_PARITY, 32, COPIED, .first = 32 * (int64_t)step).x;
    cj_tensor *logits = cj_slice(reader_steps(user, x), 1, DELAY, COPIED, 1);
    return cj_cross_entropy(logits, cj_contiguous(cj_slice(x, 1, 0, COPIED - DELAY, 1)));
}

/* rnn.depth-returns */
static void rnn_depth_returns(void **state)
{
    (void)state;
    enum { MOST = 4 };
    double loss[MOST + 1];
    for (int layers = 1; layers <= MOST; layers++) {
        loss[layers] = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            cj_scope s = cj_scope_open(c);
            cj_seed(c, seed);
            reader r = reader_new(
                c, &(reader_opts){
                       .cell = (cj_rnn_layer), .symbols = 2, .dim = 4, .hidden = UNITS, .outputs = 2, .layers = layers, .lr = 0.005 });
            train_steps(c, r.optim, 1000, delayed_loss, &r);
            loss[layers] += cj_item(delayed_loss(&r, 1 << 20)) / SEEDS;
            cj_scope_close(s);
        }
        print_message("a bit %d steps ago, %d layers of %d units: loss %.4f\n", DELAY, layers, UNITS, loss[layers]);
    }
    double gain = loss[1] - loss[2];
    assert_true(gain > 0);
    for (int layers = 3; layers <= MOST; layers++) assert_true(loss[layers - 1] - loss[layers] < gain);
}

/* ---- forecasts -------------------------------------------------------------------------------------------------------------------------------------------- */

enum { SERIES = 2600, KNOWN = 2000, WINDOW = 40, AHEAD = 8 };

/* Hénon's map, of which x is seen: x' = 1 - 1.4 x² + 0.3 x of the step before. What comes next needs two values, and small errors grow. */
static void henon(float *v)
{
    double before = 0.1, now = 0.2;
    for (int t = -100; t < SERIES; t++) {
        double next = 1 - 1.4 * now * now + 0.3 * before;
        before = now, now = next;
        if (t >= 0) v[t] = (float)now;
    }
}

typedef struct forecaster {
    cj_module *all, *cell, *head;
    cj_tensor *series; /* [SERIES] */
    bool last_only;
} forecaster;

static forecaster forecaster_new(void)
{
    static float v[SERIES];
    henon(v);
    forecaster f = { .all = holder(c), .series = cj_from_f32(c, v, CJ_SHAPE(SERIES)) };
    f.cell = cj_module_add(f.all, "cell", cj_gru_layer(c, 1, 16, .batch_first = true));
    f.head = cj_module_add(f.all, "head", cj_linear(c, 16, 1));
    return f;
}

/* The next value after every step of x [N, T]: [N, T]; the state moves on. */
static cj_tensor *forecast(forecaster *f, cj_tensor *x, cj_recurrent_state *state)
{
    return cj_squeeze(cj_forward(f->head, cj_recurrent_forward(f->cell, cj_unsqueeze(x, 2), NULL, state)), 2);
}

/* Windows [n, WINDOW + 1] of the series from `first` on, `step` apart. */
static cj_tensor *windows(forecaster *f, int64_t first, int64_t n, int64_t step)
{
    return cj_unfold(cj_slice(f->series, 0, first, first + (n - 1) * step + WINDOW + 1, 1), 0, WINDOW + 1, step);
}

static cj_tensor *forecast_loss(void *user, int step)
{
    forecaster *f = user;
    cj_tensor *w = windows(f, (step * 37) % 800, 32, 36), *y = forecast(f, cj_slice(w, 1, 0, WINDOW, 1), NULL),
              *t = cj_slice(w, 1, 1, WINDOW + 1, 1);
    if (f->last_only) y = cj_slice(y, 1, WINDOW - 1, WINDOW, 1), t = cj_slice(t, 1, WINDOW - 1, WINDOW, 1);
    return cj_mse_loss(y, t);
}

static double rmse(cj_tensor *a, cj_tensor *b) { return sqrt(cj_item(cj_mean(cj_square(cj_sub(a, b))))); }

/* rnn.forecast */
static void rnn_forecast(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_seed(c, 85);
    double one_step[2];
    forecaster f = { 0 };
    for (int last_only = 1; last_only >= 0; last_only--) { /* final-step targets, then targets at every step, fed with what was seen */
        f = forecaster_new();
        f.last_only = last_only;
        train_steps(c, cj_adam(cj_module_params(f.all), .lr = 0.01, .clip_norm = 1), 400, forecast_loss, &f);
        cj_tensor *w = windows(&f, KNOWN, 500, 1);
        one_step[last_only] = rmse(cj_select(forecast(&f, cj_slice(w, 1, 0, WINDOW, 1), NULL), 1, WINDOW - 1), cj_select(w, 1, WINDOW));
    }
    /* the value before; and a + b times it, fitted on what is known */
    cj_tensor *x = cj_slice(f.series, 0, 0, KNOWN - 1, 1), *y = cj_slice(f.series, 0, 1, KNOWN, 1);
    double mx = cj_item(cj_mean(x)), my = cj_item(cj_mean(y));
    double slope = (cj_item(cj_mean(cj_mul(x, y))) - mx * my) / (cj_item(cj_mean(cj_square(x))) - mx * mx);
    cj_tensor *w = windows(&f, KNOWN, 500, 1), *last = cj_select(w, 1, WINDOW - 1), *truth = cj_select(w, 1, WINDOW);
    double persistence = rmse(last, truth), ar1 = rmse(cj_add_scalar(cj_mul_scalar(last, slope), my - slope * mx), truth);
    print_message("one step: rnn %.4f (from last steps alone %.4f), the value before %.4f, linear in it %.4f\n", one_step[0], one_step[1],
                  persistence, ar1);
    assert_true(one_step[0] < 0.5 * ar1 && one_step[0] < 0.5 * persistence && one_step[1] < ar1);
    /* free running: from here on it reads its own forecasts */
    double error[AHEAD];
    cj_recurrent_state h = { 0 };
    cj_tensor *next = cj_slice(forecast(&f, cj_slice(w, 1, 0, WINDOW, 1), &h), 1, WINDOW - 1, WINDOW, 1);
    for (int k = 0; k < AHEAD; k++) {
        cj_tensor *true_value = cj_slice(f.series, 0, KNOWN + WINDOW + k, KNOWN + WINDOW + k + 500, 1);
        error[k] = rmse(cj_squeeze(next, 1), true_value);
        next = forecast(&f, next, &h);
    }
    print_message("%d to %d steps ahead: %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f\n", 1, AHEAD, error[0], error[1], error[2], error[3],
                  error[4], error[5], error[6], error[7]);
    for (int k = 1; k < 6; k++) assert_true(error[k] > error[k - 1]);
    /* online: every window is forecast first and learnt from afterwards, the state goes on */
    forecaster online = forecaster_new();
    cj_optim *o = cj_adam(cj_module_params(online.all), .lr = 0.01, .clip_norm = 1);
    double early = 0, late = 0;
    cj_recurrent_state carried = { 0 };
    for (int t = 0; t + 10 < SERIES; t += 10) {
        cj_tensor *seen = cj_unsqueeze(cj_slice(online.series, 0, t, t + 11, 1), 0);
        cj_tensor *loss = cj_mse_loss(forecast(&online, cj_slice(seen, 1, 0, 10, 1), &carried), cj_slice(seen, 1, 1, 11, 1));
        if (t < 500) early += cj_item(loss) / 50;
        if (t >= SERIES - 510) late += cj_item(loss) / 50;
        cj_minimise(o, loss);
        carried.h = cj_detach(carried.h);
    }
    print_message("online: mean squared error %.4f over the first 500 steps, %.4f over the last\n", early, late);
    assert_true(late < 0.5 * early);
    assert_ok(c);
    cj_scope_close(s);
}

/* ---- clips -------------------------------------------------------------------------------------------------------------------------------------------------- */

enum { SIDE = 16, FRAMES = 5, CLIPS = 48 };

/* Digits that move up, down, left or right by two pixels a frame, around a torus, from anywhere: where a digit is says nothing about where it goes. */
static cj_sequences clips(cj_tensor *digits, int64_t first)
{
    static float v[CLIPS * FRAMES * SIDE * SIDE], digit[64];
    static int64_t y[CLIPS], place[CLIPS];
    memset(v, 0, sizeof v);
    cj_to_i64(cj_randint(c, 0, SIDE * SIDE, CJ_SHAPE(CLIPS)), place, CLIPS);
    cj_to_i64(cj_randint(c, 0, 4, CJ_SHAPE(CLIPS)), y, CLIPS);
    for (int i = 0; i < CLIPS; i++) {
        static const int down[4] = { -2, 2, 0, 0 }, right[4] = { 0, 0, -2, 2 };
        cj_to_f32(cj_select(digits, 0, (first + i) % cj_size(digits, 0)), digit, 64);
        for (int t = 0; t < FRAMES; t++)
            for (int k = 0; k < 64; k++) {
                int64_t row = place[i] / SIDE + k / 8 + t * down[y[i]] + 2 * SIDE,
                        column = place[i] % SIDE + k % 8 + t * right[y[i]] + 2 * SIDE;
                v[((i * FRAMES + t) * SIDE + row % SIDE) * SIDE + column % SIDE] = digit[k];
            }
    }
    return (cj_sequences){ cj_from_f32(c, v, CJ_SHAPE(CLIPS, FRAMES, SIDE, SIDE)), cj_from_i64(c, y, CJ_SHAPE(CLIPS)) };
}

typedef struct watcher {
    cj_module *all, *eye, *cell, *head;
    const cj_dataset *d;
    int frames; /* that it sees */
} watcher;

/* The same convolutions for every frame, then a recurrent layer over their results. */
static cj_tensor *watch(watcher *w, cj_tensor *x)
{
    cj_tensor *seen = cj_contiguous(cj_slice(x, 1, 0, w->frames, 1));
    cj_tensor *z = cj_forward(w->eye, cj_reshape(seen, CJ_SHAPE(-1, 1, SIDE, SIDE)));
    cj_tensor *h = cj_forward(w->cell, cj_reshape(z, CJ_SHAPE(CLIPS, w->frames, -1)));
    return cj_forward(w->head, cj_select(h, 1, w->frames - 1));
}

static cj_tensor *watcher_loss(void *user, int step)
{
    watcher *w = user;
    cj_sequences q = clips(w->d->train_x, (int64_t)CLIPS * step);
    return cj_cross_entropy(watch(w, q.x), q.y);
}

/* rnn.video */
static void rnn_video(void **state)
{
    (void)state;
    cj_dataset *d = cj_dataset_open(c, "digits");
    double right[2] = { 0 };
    for (int all = 0; all < 2; all++) {
        cj_scope s = cj_scope_open(c);
        cj_seed(c, 86);
        watcher w = { .all = holder(c), .d = d, .frames = all ? FRAMES : 1 };
        const cj_conv_opts how = { .stride = 2, .padding = 1, .mode = CJ_PAD_CYCLIC };
        w.eye = cj_module_add(w.all, "eye",
                              cj_sequential(c, cj_conv_layer(c, 1, 8, CJ_SHAPE(3, 3), .conv = how), cj_relu_layer(c),
                                            cj_conv_layer(c, 8, 8, CJ_SHAPE(3, 3), .conv = how), cj_relu_layer(c), cj_flatten_layer(c)));
        w.cell = cj_module_add(w.all, "cell", cj_gru_layer(c, 8 * 4 * 4, 48, .batch_first = true));
        w.head = cj_module_add(w.all, "head", cj_linear(c, 48, 4));
        train_steps(c, cj_adam(cj_module_params(w.all), .lr = 0.003, .clip_norm = 1), 200, watcher_loss, &w);
        for (int k = 0; k < 8; k++) {
            cj_scope inner = cj_scope_open(c);
            cj_sequences q = clips(d->test_x, (int64_t)CLIPS * k);
            right[all] += cj_accuracy(watch(&w, q.x), q.y) / 8;
            cj_scope_close(inner);
        }
        cj_scope_close(s);
    }
    cj_dataset_free(d);
    print_message("where a digit moves: %.3f right from %d frames, %.3f from one\n", right[1], FRAMES, right[0]);
    assert_true(right[1] >= 0.95);
    assert_near(right[0], 0.25, 0.08); /* 384 clips: deviation 0.022 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rnn_memory_span), cmocka_unit_test(rnn_attention_top), cmocka_unit_test(rnn_depth_returns),
        cmocka_unit_test(rnn_forecast),    cmocka_unit_test(rnn_video),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
