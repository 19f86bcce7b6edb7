/* Catalogue rows of sequences: toy tasks, a text in pieces, ways to read and to answer, losses over time. */
#include "reader.h"

TEST_CONTEXT(.threads = 1, .seed = 71);

/* ---- tasks with known answers ---------------------------------------------------------------------------------------------------------------------- */

/* Whether brackets match, by a stack; the grammar read another way than the generator writes it. */
static bool matches(const int64_t *x, int n)
{
    int64_t stack[64];
    int depth = 0;
    for (int t = 0; t < n; t++) {
        if (x[t] % 2 == 0) stack[depth++] = x[t];
        else if (depth == 0 || stack[--depth] != x[t] - 1) return false;
    }
    return depth == 0;
}

/* rnn.toy-tasks */
static void rnn_toy_tasks(void **state)
{
    (void)state;
    enum { N = 300, L = 12, MANY = 40000 };
    cj_scope s = cj_scope_open(c);
    static int64_t x[N * L], y[N * L];
    for (int task = 0; task < 6; task++) {
        if (task == CJ_SEQUENCE_ADDING) continue;
        cj_sequences q = cj_sequence_rows(c, (cj_sequence_task)task, N, L, .symbols = 5);
        assert_ok(c);
        cj_to_i64(q.x, x, N * L);
        cj_to_i64(q.y, y, cj_numel(q.y));
        int seen = 0;
        for (int i = 0; i < N; i++) {
            const int64_t *row = x + (ptrdiff_t)i * L;
            int64_t parity = 0;
            for (int t = 0; t < L; t++) {
                parity = (parity + row[t]) % 2;
                assert_true(row[t] >= 0 && row[t] < (task == CJ_SEQUENCE_PARITY ? 2 : task == CJ_SEQUENCE_BRACKETS ? 4 : 5));
                if (task == CJ_SEQUENCE_COPY) assert_int_equal(y[i * L + t], row[t]);
                if (task == CJ_SEQUENCE_REVERSE) assert_int_equal(y[i * L + t], row[L - 1 - t]);
            }
            if (task == CJ_SEQUENCE_RECALL) assert_int_equal(y[i], row[0]);
            if (task == CJ_SEQUENCE_PARITY) assert_int_equal(y[i], parity), seen += (int)y[i];
            if (task == CJ_SEQUENCE_BRACKETS) assert_int_equal(y[i], matches(row, L)), seen += (int)y[i];
        }
        if (task == CJ_SEQUENCE_BRACKETS) assert_int_equal(seen, N / 2);
        if (task == CJ_SEQUENCE_PARITY) assert_near(seen, N / 2.0, 40);
        /* the same seed gives the same rows, whatever is drawn besides; another one others */
        cj_randn(c, CJ_SHAPE(3));
        assert_true(same_bits(q.x, cj_sequence_rows(c, (cj_sequence_task)task, N, L, .symbols = 5).x));
        assert_true(
            same_bits(cj_slice(q.x, 0, 100, N, 1), cj_sequence_rows(c, (cj_sequence_task)task, N - 100, L, .symbols = 5, .first = 100).x));
        assert_false(same_bits(q.x, cj_sequence_rows(c, (cj_sequence_task)task, N, L, .symbols = 5, .seed = 72).x));
    }
    cj_sequences add = cj_sequence_rows(c, CJ_SEQUENCE_ADDING, MANY, L);
    cj_tensor *value = cj_select(add.x, 2, 0), *mark = cj_select(add.x, 2, 1);
    assert_near(distance(cj_sum(cj_mul(value, mark), .axes = CJ_AXIS(1)), add.y), 0, 1e-6);
    for (int half = 0; half < 2; half++) /* one mark in each half */
        assert_near(distance(cj_sum(cj_slice(mark, 1, half * L / 2, (half + 1) * L / 2, 1), .axes = CJ_AXIS(1)),
                             cj_ones(c, CJ_SHAPE(MANY), CJ_F32)),
                    0, 0);
    double mse = cj_item(cj_mean(cj_square(cj_add_scalar(add.y, -1))));
    print_message("adding problem, 1 for every answer: %.4f (1/6 = 0.1667)\n", mse);
    assert_near(mse, 1.0 / 6, 4 * 0.2 / sqrt(MANY)); /* the deviation of (y - 1)² is below 0.2 */
    assert_refused(CJ_EVALUE, "brackets of the odd length 5", cj_sequence_rows(c, CJ_SEQUENCE_BRACKETS, 1, 5));
    assert_refused(CJ_EVALUE, "0 rows of copy of length 3", cj_sequence_rows(c, CJ_SEQUENCE_COPY, 0, 3));
    assert_refused(CJ_EVALUE, "adding of length 1", cj_sequence_rows(c, CJ_SEQUENCE_ADDING, 1, 1));
    assert_refused(CJ_EVALUE, "reverse of 1 symbols", cj_sequence_rows(c, CJ_SEQUENCE_REVERSE, 1, 3, .symbols = 1));
    assert_refused(CJ_EVALUE, "there is no task 6", cj_sequence_rows(c, (cj_sequence_task)6, 1, 3));
    cj_scope_close(s);
}

/* ---- a text in pieces --------------------------------------------------------------------------------------------------------------------------------- */

/* rnn.corpus-batching */
static void rnn_corpus_batching(void **state)
{
    (void)state;
    enum { N = 211, T = 25, H = 6 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *text = cj_randint(c, 0, 9, CJ_SHAPE(N)), *x, *y;
    for (int64_t batch = 1; batch <= 4; batch += 3) { /* moving windows: every symbol once, in order, and its successor beside it */
        int64_t windows = cj_text_windows(text, batch, T), row = (N - 1) / batch;
        assert_int_equal(windows, (row + T - 1) / T);
        cj_tensor *xs[16], *ys[16];
        for (int64_t k = 0; k < windows; k++) assert_true(cj_text_window(text, batch, T, k, &xs[k], &ys[k]));
        cj_tensor *all = cj_cat(xs, (int)windows, 1), *next = cj_cat(ys, (int)windows, 1);
        assert_true(same_bits(cj_flatten(all, 0), cj_slice(text, 0, 0, batch * row, 1)));
        assert_true(same_bits(cj_flatten(next, 0), cj_slice(text, 0, 1, batch * row + 1, 1)));
        assert_true(N - 1 - batch * row < batch);
    }
    /* the state of one window is where the next begins: the same numbers as one long pass */
    cj_module *embedding = cj_embedding_layer(c, 9, 4), *lstm = cj_lstm_layer(c, 4, H, .layers = 2, .batch_first = true);
    cj_text_window(text, 1, N, 0, &x, &y);
    cj_tensor *whole = cj_forward(lstm, cj_forward(embedding, x)), *part[16];
    cj_recurrent_state carried = { 0 };
    int64_t windows = cj_text_windows(text, 1, T);
    for (int64_t k = 0; k < windows; k++) {
        cj_text_window(text, 1, T, k, &x, &y);
        part[k] = cj_recurrent_forward(lstm, cj_forward(embedding, x), NULL, &carried);
        carried.h = cj_detach(carried.h), carried.c = cj_detach(carried.c);
    }
    assert_near(distance(whole, cj_cat(part, (int)windows, 1)), 0, 1e-6);
    /* at the border of two windows the gradient ends; without the cut it goes on */
    for (int cut = 0; cut < 2; cut++) {
        cj_tensor *in[2], *g;
        cj_recurrent_state h = { 0 };
        for (int k = 0; k < 2; k++) in[k] = cj_require_grad(cj_randn(c, CJ_SHAPE(1, T, 4)));
        cj_recurrent_forward(lstm, in[0], NULL, &h);
        if (cut) h.h = cj_detach(h.h), h.c = cj_detach(h.c);
        assert_true(cj_grad(cj_sum(cj_recurrent_forward(lstm, in[1], NULL, &h)), &in[0], 1, &g, .allow_unused = true));
        assert_true((cj_item(cj_max(cj_abs(g))) == 0) == (cut == 1));
    }
    /* stretches from anywhere */
    assert_true(cj_text_chunks(text, 64, T, &x, &y));
    assert_true(same_bits(cj_slice(x, 1, 1, T, 1), cj_slice(y, 1, 0, T - 1, 1)));
    static int64_t v[N], piece[64 * T];
    cj_to_i64(text, v, N);
    cj_to_i64(x, piece, (int64_t)64 * T);
    int different = 0, last = -1;
    for (int i = 0; i < 64; i++) {
        int at = 0;
        while (at + T < N && memcmp(v + at, piece + (ptrdiff_t)i * T, T * sizeof *v) != 0) at++;
        assert_true(at + T < N); /* it is there, and so is its successor */
        different += at != last, last = at;
    }
    assert_true(different > 32);
    /* sentences, ended by symbol 0: their lengths fill the text, and rows of them are the text again */
    cj_tensor *start, *length;
    assert_true(cj_text_sentences(text, 0, &start, &length));
    assert_int_equal(cj_item(cj_sum(length)), N);
    cj_tensor *rows = cj_text_rows(text, start, length, -1);
    assert_true(same_bits(cj_masked_select(rows, cj_ge_scalar(rows, 0)), text));
    cj_tensor *some = cj_from_i64(c, (int64_t[]){ 3, 0, 3 }, CJ_SHAPE(3)), *picked = cj_index_select(length, 0, some);
    cj_tensor *few = cj_text_rows(text, cj_index_select(start, 0, some), picked, -1);
    assert_int_equal(cj_size(few, 1), cj_item(cj_max(picked)));
    assert_true(same_bits(cj_select(few, 0, 0), cj_select(few, 0, 2)));
    assert_ok(c);
    cj_tensor *zero = cj_zeros(c, CJ_SHAPE(1), CJ_I64), *far = cj_full(c, N + 1, CJ_SHAPE(1), CJ_I64), *real = cj_randn(c, CJ_SHAPE(5));
    assert_refused(CJ_ESHAPE, "a text is i64 [N], this is f32 [5]", cj_text_windows(real, 1, 2));
    assert_refused(CJ_EVALUE, "300 rows of windows of 5 symbols from a text of 211", cj_text_windows(text, 300, 5));
    assert_refused(CJ_EINDEX, "window 9 of 9", cj_text_window(text, 1, T, 9, &x, &y));
    assert_refused(CJ_EVALUE, "stretches of 211 symbols from a text of 211", cj_text_chunks(text, 2, N, &x, &y));
    assert_poisoned(CJ_EINDEX, "a sentence lies outside the 211 symbols", cj_text_rows(text, zero, far, 0));
    cj_scope_close(s);
}

/* ---- ways to read and to answer -------------------------------------------------------------------------------------------------------------------------- */

typedef enum { ONE_TO_ONE, ONE_TO_MANY, MANY_TO_ONE, ALIGNED, UNALIGNED, MODES } mode;
static const char *const mode_names[MODES] = { "one to one", "one to many", "many to one", "many to many", "many to many, after the end" };
enum { SYMBOLS = 4, STEPS = 4 };

/* A cell with the ways in which it is fed and asked. */
typedef struct talker {
    mode how;
    cj_module *all, *embedding, *cell, *decoder, *head;
} talker;

static talker talker_new(mode how, cell_fn cell)
{
    talker t = { .how = how, .all = holder(c) };
    const cj_recurrent_layer_opts first = { .batch_first = true };
    t.embedding = cj_module_add(t.all, "embedding", cj_embedding_layer(c, SYMBOLS, 8));
    t.cell = cj_module_add(t.all, "cell", cell(c, 8, 32, &first));
    if (how == UNALIGNED) t.decoder = cj_module_add(t.all, "decoder", cell(c, 8, 32, &first));
    t.head = cj_module_add(t.all, "head", cj_linear(c, 32, SYMBOLS));
    return t;
}

/* Logits [N, steps, symbols], or [N, symbols] of one answer. */
static cj_tensor *talk(talker *t, cj_tensor *x, cj_tensor *lengths)
{
    cj_tensor *e = cj_forward(t->embedding, x);
    int64_t N = cj_size(x, 0);
    cj_recurrent_state h = { 0 };
    if (t->how == ONE_TO_MANY) /* the symbol once, then silence */
        e = cj_cat((cj_tensor *[]){ e, cj_zeros(c, CJ_SHAPE(N, STEPS - 1, 8), CJ_F32) }, 2, 1);
    cj_tensor *y = cj_recurrent_forward(t->cell, e, lengths, &h);
    if (t->how == MANY_TO_ONE || t->how == ONE_TO_ONE) y = cj_select(h.h, 0, 0);
    if (t->how == UNALIGNED) y = cj_recurrent_forward(t->decoder, cj_zeros(c, CJ_SHAPE(N, STEPS, 8), CJ_F32), NULL, &h);
    return cj_forward(t->head, y);
}

/* x and what is to be said: 3 - x; x, x+1, x+2 … modulo the symbols; the first symbol; x_t + x_(t-1); the text backwards. */
static cj_sequences examples(mode how, int64_t first)
{
    const int64_t N = 64;
    cj_sequences q = cj_sequence_rows(c, how == UNALIGNED ? CJ_SEQUENCE_REVERSE : CJ_SEQUENCE_RECALL, N, how <= ONE_TO_MANY ? 1 : STEPS,
                                      .symbols = SYMBOLS, .first = first);
    cj_tensor *four = cj_full(c, SYMBOLS, CJ_SCALAR, CJ_I64);
    if (how == ONE_TO_ONE) q.y = cj_sub(cj_full(c, SYMBOLS - 1, CJ_SCALAR, CJ_I64), q.y);
    if (how == ONE_TO_MANY) q.y = cj_remainder(cj_add(q.x, cj_arange(c, 0, STEPS, 1, CJ_I64)), four);
    if (how == ALIGNED) {
        cj_tensor *before = cj_cat((cj_tensor *[]){ cj_zeros(c, CJ_SHAPE(N, 1), CJ_I64), cj_slice(q.x, 1, 0, STEPS - 1, 1) }, 2, 1);
        q.y = cj_remainder(cj_add(q.x, before), four);
    }
    return q;
}

static cj_tensor *talker_loss(void *user, int step)
{
    talker *t = user;
    cj_sequences q = examples(t->how, 64 * (int64_t)step);
    return cj_cross_entropy(talk(t, q.x, NULL), q.y);
}

/* rnn.modes */
static void rnn_modes(void **state)
{
    (void)state;
    static const cell_fn cells[] = { (cj_rnn_layer), (cj_lstm_layer), (cj_gru_layer), (cj_light_gru_layer) };
    for (int how = 0; how < MODES; how++)
        for (int cell = 0; cell < 4; cell++) {
            cj_scope s = cj_scope_open(c);
            talker t = talker_new((mode)how, cells[cell]);
            train_steps(c, cj_adam(cj_module_params(t.all), .lr = 0.01, .clip_norm = 1), how == UNALIGNED ? 500 : 200, talker_loss, &t);
            cj_sequences q = examples((mode)how, 1 << 20);
            double right = cj_accuracy(talk(&t, q.x, NULL), q.y);
            print_message("%s, %s: %.4f\n", mode_names[how], cj_module_type_name(t.cell), right);
            assert_true(right >= 0.99);
            cj_scope_close(s);
        }
}

/* Also rnn.modes: padded sequences side by side against each by itself. */
static void padding_changes_nothing(void **state)
{
    (void)state;
    enum { N = 4, T = 6 };
    static const int64_t lengths[N] = { 6, 2, 5, 1 };
    static const cell_fn cells[] = { (cj_rnn_layer), (cj_lstm_layer), (cj_gru_layer), (cj_light_gru_layer) };
    for (int both = 0; both < 2; both++)
        for (int cell = 0; cell < 4; cell++) {
            cj_scope s = cj_scope_open(c);
            reader r = reader_new(
                c, &(reader_opts){ .cell = cells[cell], .symbols = 9, .dim = 3, .hidden = 5, .outputs = 9, .layers = 2, .both = both });
            cj_tensor *x = cj_randint(c, 0, 9, CJ_SHAPE(N, T)), *y = cj_randint(c, 0, 9, CJ_SHAPE(N, T));
            cj_tensor *len = cj_from_i64(c, lengths, CJ_SHAPE(N));
            cj_tensor *beyond = cj_ge(cj_arange(c, 0, T, 1, CJ_I64), cj_unsqueeze(len, 1));
            cj_tensor *h = cj_recurrent_forward(r.cell, cj_forward(r.embedding, x), len, NULL);
            double padded = cj_item(cj_cross_entropy(cj_forward(r.head, h), without(y, beyond))), sum = 0, steps = 0;
            for (int i = 0; i < N; i++) {
                cj_tensor *own = cj_slice(cj_slice(x, 0, i, i + 1, 1), 1, 0, lengths[i], 1),
                          *answer = cj_slice(cj_slice(y, 0, i, i + 1, 1), 1, 0, lengths[i], 1);
                sum += cj_item(cj_cross_entropy(reader_steps(&r, own), answer)) * (double)lengths[i], steps += (double)lengths[i];
            }
            assert_near(padded, sum / steps, 2e-6);
            assert_ok(c);
            cj_scope_close(s);
        }
}

/* ---- losses over time ---------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct parity_task {
    reader r;
    bool every_step;
    int64_t length;
} parity_task;

static cj_tensor *parity_loss(void *user, int step)
{
    parity_task *p = user;
    cj_sequences q = cj_sequence_rows(c, CJ_SEQUENCE_PARITY, 64, p->length, .first = 64 * (int64_t)step);
    if (!p->every_step) return cj_cross_entropy(reader_last(&p->r, q.x), q.y);
    cj_tensor *so_far = cj_remainder(cj_cumsum(q.x, 1), cj_full(c, 2, CJ_SCALAR, CJ_I64)); /* the last of these is q.y */
    return cj_cross_entropy(reader_steps(&p->r, q.x), so_far);
}

/* Steps until 95 % of the parities are right, at most `most`. */
static int steps_to_parity(bool every_step, int most)
{
    cj_scope s = cj_scope_open(c);
    cj_seed(c, 74);
    parity_task p = { .r = reader_new(c, &(reader_opts){ .symbols = 2, .dim = 4, .hidden = 16, .outputs = 2 }),
                      .every_step = every_step,
                      .length = 16 };
    int taken = 0;
    for (double right = 0; right < 0.95 && taken < most; taken += 20) {
        train_steps(c, p.r.optim, 20, parity_loss, &p);
        cj_scope inner = cj_scope_open(c);
        cj_sequences q = cj_sequence_rows(c, CJ_SEQUENCE_PARITY, 500, p.length, .first = 1 << 20);
        right = cj_accuracy(reader_last(&p.r, q.x), q.y);
        cj_scope_close(inner);
    }
    cj_scope_close(s);
    return taken;
}

/* rnn.loss */
static void rnn_loss(void **state)
{
    (void)state;
    enum { N = 3, T = 5, V = 6 };
    cj_scope s = cj_scope_open(c);
    cj_tensor *logits = cj_randn(c, CJ_SHAPE(N, T, V), .dtype = CJ_F64), *y = cj_randint(c, 0, V, CJ_SHAPE(N, T));
    double each[T], sum = 0, chosen = 0;
    for (int t = 0; t < T; t++) {
        each[t] = cj_item(cj_cross_entropy(cj_select(logits, 1, t), cj_contiguous(cj_select(y, 1, t))));
        sum += each[t];
        if (t == 1 || t == 4) chosen += each[t];
    }
    assert_near(cj_item(cj_cross_entropy(logits, y)), sum / T, 1e-14); /* 1/(nT) of both sums */
    double table[T] = { 0, 1, 0, 0, 1 };                               /* L = 1/|T| of the sum over a set of steps */
    cj_tensor *mask = cj_eq_scalar(cj_expand(f64(c, table, CJ_SHAPE(T)), CJ_SHAPE(N, T)), 0);
    assert_near(cj_item(cj_cross_entropy(logits, without(y, mask))), chosen / 2, 1e-14);
    cj_tensor *last = cj_lt_scalar(cj_expand(cj_arange(c, 0, T, 1, CJ_I64), CJ_SHAPE(N, T)), T - 1);
    assert_near(cj_item(cj_cross_entropy(logits, without(y, last))), each[T - 1], 1e-14); /* the last step only */
    /* next-step forecast: the target of step t is the input of step t+1 */
    cj_tensor *text = cj_arange(c, 0, 21, 1, CJ_I64), *a, *b;
    assert_true(cj_text_window(text, 2, 10, 0, &a, &b));
    assert_near(distance(b, cj_add_scalar(a, 1)), 0, 0);
    cj_scope_close(s);
    /* parity of 16 bits has one answer at the end; asking for it on the way, too, is learnt sooner */
    int on_the_way = steps_to_parity(true, 1000), at_the_end = steps_to_parity(false, 1000);
    print_message("parity of 16 bits: %d steps with losses on the way, %d%s with one at the end\n", on_the_way, at_the_end,
                  at_the_end >= 1000 ? " or more" : "");
    assert_true(on_the_way < 600 && on_the_way < at_the_end);
}

/* ---- what comes later ----------------------------------------------------------------------------------------------------------------------------------------- */

/* "I am very ___" and how it goes on: what is missing is told by the words after it alone. */
enum { I, AM, VERY, BLANK, COMMA, NEED, A, BIG, DINNER, FOR, SCHOOL, LONG, REST, STOP, WORDS, LENGTH = 11 };
static const int64_t sentence[3][LENGTH] = {
    { I, AM, VERY, BLANK, FOR, SCHOOL, STOP, STOP, STOP, STOP, STOP },
    { I, AM, VERY, BLANK, COMMA, I, NEED, A, BIG, DINNER, STOP },
    { I, AM, VERY, BLANK, COMMA, I, NEED, A, LONG, REST, STOP },
};
static const double how_often[3] = { 0.5, 0.3, 0.2 }; /* late, hungry, tired */

static cj_sequences sentences(int64_t n)
{
    cj_tensor *u = cj_rand(c, CJ_SHAPE(n));
    cj_tensor *which = cj_add(cj_cast(cj_ge_scalar(u, 0.5), CJ_I64), cj_cast(cj_ge_scalar(u, 0.8), CJ_I64));
    return (cj_sequences){ cj_index_select(cj_from_i64(c, sentence[0], CJ_SHAPE(3, LENGTH)), 0, which), which };
}

static cj_tensor *blank_logits(reader *r, cj_tensor *x) { return cj_select(reader_steps(r, x), 1, 3); }

static cj_tensor *blank_loss(void *user, int step)
{
    (void)step;
    cj_sequences q = sentences(32);
    return cj_cross_entropy(blank_logits(user, q.x), q.y);
}

/* rnn.fill-blank */
static void rnn_fill_blank(void **state)
{
    (void)state;
    double right[2], loss[2], prior = 0;
    for (int both = 0; both < 2; both++) {
        cj_scope s = cj_scope_open(c);
        reader r =
            reader_new(c, &(reader_opts){ .cell = (cj_lstm_layer), .symbols = WORDS, .dim = 8, .hidden = 16, .outputs = 3, .both = both });
        train_steps(c, r.optim, 200, blank_loss, &r);
        cj_sequences q = sentences(4000);
        cj_tensor *logits = blank_logits(&r, q.x);
        right[both] = cj_accuracy(logits, q.y), loss[both] = cj_item(cj_cross_entropy(logits, q.y));
        cj_scope_close(s);
    }
    for (int k = 0; k < 3; k++) prior -= how_often[k] * log(how_often[k]);
    print_message("I am very ___: forward %.3f right, loss %.3f (the prior has %.3f); both directions %.3f right, loss %.4f\n", right[0],
                  loss[0], prior, right[1], loss[1]);
    assert_near(right[0], how_often[0], 0.05);
    assert_near(loss[0], prior, 0.05);
    assert_true(right[1] == 1 && loss[1] < 0.05);
}

/* Memory that fails at any allocation: an error, nothing left behind. */
static void no_memory(void **state)
{
    (void)state;
    bool done = false;
    for (long at = 1; !done; at++) {
        counter k = { .fail_at = at };
        cj_ctx *f = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
        if (f && cj_ok(f)) {
            for (int task = 0; task < 6 && cj_ok(f); task++) {
                cj_sequences q = cj_sequence_rows(f, (cj_sequence_task)task, 20, 6);
                assert_true(cj_ok(f) == !(cj_is_poison(q.x) || cj_is_poison(q.y)));
            }
            cj_tensor *text = cj_zeros(f, CJ_SHAPE(30), CJ_I64), *x, *y;
            for (int64_t i = 0; cj_ok(f) && i < 2; i++) cj_text_window(text, 2, 7, i, &x, &y);
            if (cj_ok(f) && cj_text_chunks(text, 3, 5, &x, &y) && cj_text_sentences(text, 0, &x, &y)) cj_text_rows(text, x, y, -1);
            done = cj_ok(f);
            if (!done) assert_string_equal(cj_code_name(cj_error(f)), "CJ_EMEMORY");
        }
        cj_ctx_free(f);
        assert_balanced(&k);
        assert_true(at < 5000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rnn_toy_tasks), cmocka_unit_test(rnn_corpus_batching),
        cmocka_unit_test(rnn_modes),     cmocka_unit_test(padding_changes_nothing),
        cmocka_unit_test(rnn_loss),      cmocka_unit_test(rnn_fill_blank),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
