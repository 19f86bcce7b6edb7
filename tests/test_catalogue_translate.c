/* Catalogue rows of sequence to sequence: encoders and decoders with and without attention, teacher forcing, memory networks.  ctest: slow */
#include "reader.h"

TEST_CONTEXT(.threads = 1, .seed = 111);

/* ---- an encoder and a decoder ---------------------------------------------------------------------------------------------------------------------------------- */

/* Symbols 0 … symbols-1, then BEGIN and END. The decoder starts from the encoder's last state; with attention it looks back at all of them. */
typedef struct translator {
    cj_module *all, *source, *encoder, *target, *decoder, *attention, *head;
    int64_t symbols, hidden;
    bool lstm;
} translator;

typedef struct translator_opts {
    cell_fn cell;
    int64_t symbols, hidden;
    int layers;
    bool attention;
    cj_score score;
} translator_opts;

static translator translator_new(const translator_opts *o)
{
    cell_fn cell = o->cell ? o->cell : (cj_gru_layer);
    translator t = { .all = holder(c), .symbols = o->symbols, .hidden = o->hidden, .lstm = cell == (cj_lstm_layer) };
    const cj_recurrent_layer_opts how = { .layers = o->layers, .batch_first = true };
    t.source = cj_module_add(t.all, "source", cj_embedding_layer(c, o->symbols + 2, 16));
    t.encoder = cj_module_add(t.all, "encoder", cell(c, 16, o->hidden, &how));
    t.target = cj_module_add(t.all, "target", cj_embedding_layer(c, o->symbols + 2, 16));
    t.decoder = cj_module_add(t.all, "decoder", cell(c, 16, o->hidden, &how));
    if (o->attention) t.attention = cj_module_add(t.all, "attention", cj_score_attention(c, o->score, o->hidden, o->hidden, 16));
    t.head = cj_module_add(t.all, "head", cj_linear(c, o->hidden * (o->attention ? 2 : 1), o->symbols + 2));
    return t;
}

typedef struct memory {
    cj_tensor *states; /* [N, S, hidden] */
    cj_recurrent_state last;
} memory;
static memory encode(translator *t, cj_tensor *x)
{
    memory m = { 0 };
    m.states = cj_recurrent_forward(t->encoder, cj_forward(t->source, x), NULL, &m.last);
    return m;
}

/* Logits [N, T, symbols + 2] after the symbols y i64 [N, T]; the state moves on; weights of attention in *alpha. */
static cj_tensor *decode(translator *t, const memory *m, cj_recurrent_state *state, cj_tensor *y, cj_tensor **alpha)
{
    cj_tensor *h = cj_recurrent_forward(t->decoder, cj_forward(t->target, y), NULL, state);
    if (t->attention) {
        cj_attended a = cj_score_attention_forward(t->attention, h, m->states, m->states, NULL);
        if (alpha) *alpha = a.weights;
        h = cj_cat((cj_tensor *[]){ h, a.value }, 2, -1);
    }
    return cj_forward(t->head, h);
}

static cj_tensor *begins(translator *t, cj_tensor *y) /* BEGIN, then all but the last */
{
    cj_tensor *first = cj_full(c, (double)t->symbols, CJ_SHAPE(cj_size(y, 0), 1), CJ_I64);
    return cj_cat((cj_tensor *[]){ first, cj_slice(y, 1, 0, cj_size(y, 1) - 1, 1) }, 2, 1);
}

/* Logits with the true symbols fed, or with its own likeliest ones. */
static cj_tensor *forced(translator *t, cj_tensor *x, cj_tensor *y, cj_tensor **alpha)
{
    memory m = encode(t, x);
    return decode(t, &m, &m.last, begins(t, y), alpha);
}
static cj_tensor *free_running(translator *t, cj_tensor *x, int64_t steps)
{
    memory m = encode(t, x);
    cj_tensor *word = cj_full(c, (double)t->symbols, CJ_SHAPE(cj_size(x, 0), 1), CJ_I64), *out[64];
    for (int64_t k = 0; k < steps; k++) {
        out[k] = decode(t, &m, &m.last, word, NULL);
        word = cj_argmax(out[k], .axes = CJ_AXIS(-1));
    }
    return cj_cat(out, (int)steps, 1);
}

/* Rows of which all symbols are right, read greedily. */
static double exact(translator *t, cj_tensor *x, cj_tensor *y)
{
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    cj_tensor *said = cj_argmax(free_running(t, x, cj_size(y, 1)), .axes = CJ_AXIS(-1));
    double share = cj_item(cj_mean(cj_cast(cj_all(cj_eq(said, y), .axes = CJ_AXIS(1)), CJ_F32)));
    cj_grad_mode(c, was);
    cj_scope_close(s);
    return share;
}

/* Texts to copy or to turn around, with END after them: x [n, length + 1], y [n, length + 1]. */
static cj_sequences pairs(cj_sequence_task task, int64_t n, int64_t length, int64_t symbols, int64_t first)
{
    cj_sequences q = cj_sequence_rows(c, task, n, length, .symbols = symbols, .first = first, .seed = 7 + (uint64_t)length);
    cj_tensor *end = cj_full(c, (double)symbols + 1, CJ_SHAPE(n, 1), CJ_I64);
    return (cj_sequences){ cj_cat((cj_tensor *[]){ q.x, end }, 2, 1), cj_cat((cj_tensor *[]){ q.y, end }, 2, 1) };
}

/* y_t = y_(t-1) + x_t modulo the symbols, END at the end: easy for who knows what was said before. */
static cj_tensor *running_sums(cj_tensor *x, int64_t symbols)
{
    int64_t length = cj_size(x, 1) - 1;
    cj_tensor *sum = cj_remainder(cj_cumsum(cj_slice(x, 1, 0, length, 1), 1), cj_full(c, (double)symbols, CJ_SCALAR, CJ_I64));
    return cj_cat((cj_tensor *[]){ sum, cj_slice(x, 1, length, length + 1, 1) }, 2, 1);
}

typedef struct lesson {
    translator t;
    cj_sequence_task task;
    int64_t shortest, longest;
    bool sums;  /* running sums instead of the task */
    double own; /* share of steps in which it is fed what it said itself */
} lesson;

static cj_tensor *lesson_loss(void *user, int step)
{
    lesson *l = user;
    int64_t length = l->shortest + step % (l->longest - l->shortest + 1);
    cj_sequences q = pairs(l->task, 32, length, l->t.symbols, 32 * (int64_t)step);
    if (l->sums) q.y = running_sums(q.x, l->t.symbols);
    bool own = (double)((step * 7919) % 1000) < 1000 * l->own;
    return cj_cross_entropy(own ? free_running(&l->t, q.x, length + 1) : forced(&l->t, q.x, q.y, NULL), q.y);
}

static void learn(lesson *l, int steps, double lr)
{
    train_steps(c, cj_adam(cj_module_params(l->t.all), .lr = lr, .clip_norm = 1), steps, lesson_loss, l);
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------------------------------------------- */

/* Sum of p(y|x) over all strings of at most `longest` symbols that end with END, and of what is still open. */
static double mass(translator *t, const memory *m, cj_recurrent_state state, int64_t word, int longest)
{
    cj_tensor *logits = decode(t, m, &state, cj_full(c, (double)word, CJ_SHAPE(1, 1), CJ_I64), NULL);
    double *p = values_of(cj_softmax(cj_cast(logits, CJ_F64), -1)), sum = p[t->symbols + 1];
    for (int64_t k = 0; k <= t->symbols; k++) sum += longest > 1 ? p[k] * mass(t, m, state, k, longest - 1) : p[k];
    free(p);
    return sum;
}

/* seq.seq2seq */
static void seq_seq2seq(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    lesson l = {
        .t = translator_new(&(translator_opts){ .symbols = 2, .hidden = 64 }), .task = CJ_SEQUENCE_REVERSE, .shortest = 1, .longest = 10
    };
    cj_sequences q = pairs(CJ_SEQUENCE_REVERSE, 4, 3, 2, 0);
    memory m = encode(&l.t, cj_slice(q.x, 0, 0, 1, 1));
    assert_near(mass(&l.t, &m, m.last, l.t.symbols, 5), 1, 1e-6);
    cj_tensor *w = cj_params_find(cj_module_params(l.t.all), "encoder.weight_hh_l0"), *g;
    assert_true(cj_grad(cj_cross_entropy(forced(&l.t, q.x, q.y, NULL), q.y), &w, 1, &g));
    assert_true(cj_item(cj_max(cj_abs(g))) > 1e-6); /* it reaches the encoder, through the state alone */
    learn(&l, 4000, 0.005);
    learn(&l, 1500, 0.001);
    learn(&l, 500, 0.0002);
    double share = 0;
    for (int64_t length = 1; length <= 10; length++) {
        q = pairs(CJ_SEQUENCE_REVERSE, 200, length, 2, 1 << 20);
        share += exact(&l.t, q.x, q.y) / 10;
    }
    print_message("1 to 10 symbols turned around: %.3f exactly right\n", share);
    assert_true(share >= 0.99);
    cj_scope_close(s);
}

/* seq.lstm2 */
static void seq_lstm2(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    lesson two = { .t = translator_new(&(translator_opts){ .cell = (cj_lstm_layer), .symbols = 3, .hidden = 32, .layers = 2 }),
                   .task = CJ_SEQUENCE_REVERSE,
                   .shortest = 6,
                   .longest = 6 };
    lesson one = two;
    one.t = translator_new(&(translator_opts){ .cell = (cj_rnn_layer), .symbols = 3, .hidden = 32 });
    cj_sequences q = pairs(CJ_SEQUENCE_REVERSE, 300, 6, 3, 1 << 20);
    memory m = encode(&two.t, q.x);
    cj_recurrent_result by_hand; /* c and h of both layers, as the decoder gets them */
    cj_tensor *weights[8];
    for (int i = 0; i < 8; i++) weights[i] = cj_params_at(cj_module_params(two.t.encoder), i);
    by_hand = cj_recurrent(CJ_LSTM, cj_forward(two.t.source, q.x), weights, 8, .layers = 2, .batch_first = true);
    assert_true(cj_size(m.last.h, 0) == 2 && same_bits(m.last.h, by_hand.h_n) && same_bits(m.last.c, by_hand.c_n));
    learn(&two, 800, 0.01);
    learn(&one, 800, 0.01);
    double a = exact(&two.t, q.x, q.y), b = exact(&one.t, q.x, q.y);
    print_message("6 symbols turned around: two layers of lstm %.3f exactly right, one of rnn %.3f\n", a, b);
    assert_true(a > b + 0.1);
    cj_scope_close(s);
}

/* Outputs that go together: all 0 or all 1, whatever x is. */
enum { TOGETHER = 5 };
static cj_tensor *together(int64_t n) { return cj_cast(cj_expand(cj_bernoulli(c, 0.5, CJ_SHAPE(n, 1)), CJ_SHAPE(n, TOGETHER)), CJ_I64); }
typedef struct pair_of_models {
    translator t;
    bool feedback;
} pair_of_models;
static cj_tensor *together_nll(pair_of_models *p, int64_t n)
{
    cj_tensor *x = cj_contiguous(together(n)), *y = cj_contiguous(together(n)); /* x says nothing of y */
    memory m = encode(&p->t, x);
    cj_tensor *fed = p->feedback ? begins(&p->t, y) : cj_full(c, (double)p->t.symbols, CJ_SHAPE(n, TOGETHER), CJ_I64);
    return cj_mul_scalar(cj_cross_entropy(decode(&p->t, &m, &m.last, fed, NULL), y), TOGETHER);
}
static cj_tensor *together_loss(void *user, int step) { return (void)step, together_nll(user, 32); }

/* seq.factorisation */
static void seq_factorisation(void **state)
{
    (void)state;
    double nll[2];
    for (int feedback = 0; feedback < 2; feedback++) {
        cj_scope s = cj_scope_open(c);
        pair_of_models p = { translator_new(&(translator_opts){ .symbols = 2, .hidden = 16 }), feedback };
        train_steps(c, cj_adam(cj_module_params(p.t.all), .lr = 0.01), 250, together_loss, &p);
        nll[feedback] = cj_item(together_nll(&p, 1000));
        cj_scope_close(s);
    }
    print_message("five symbols that go together: -log p %.3f without what was said (5 ln 2 = %.3f), %.3f with it (ln 2 = %.3f)\n", nll[0],
                  TOGETHER * log(2), nll[1], log(2));
    assert_near(nll[0], TOGETHER * log(2), 0.1);
    assert_near(nll[1], log(2), 0.1);
}

/* seq.teacher-forcing, seq.exposure-bias */
static void seq_teacher_forcing(void **state)
{
    (void)state;
    enum { LENGTH = 8, STAGES = 8 };
    double accuracy[3][STAGES], area[3] = { 0 };
    static const double own[3] = { 0, 1, 0.5 };
    cj_sequences q;
    lesson l = { 0 };
    for (int k = 2; k >= 0; k--) { /* half and half, free running alone, the true symbols alone */
        cj_scope s = cj_scope_open(c);
        cj_seed(c, 112);
        l = (lesson){ .t = translator_new(&(translator_opts){ .symbols = 3, .hidden = 48 }),
                      .task = CJ_SEQUENCE_REVERSE,
                      .shortest = LENGTH,
                      .longest = LENGTH,
                      .own = own[k],
                      .sums = true };
        q = pairs(CJ_SEQUENCE_REVERSE, 300, LENGTH, 3, 1 << 20);
        q.y = running_sums(q.x, 3);
        cj_optim *o = cj_adam(cj_module_params(l.t.all), .lr = 0.01, .clip_norm = 1);
        for (int stage = 0; stage < STAGES; stage++) {
            train_steps(c, o, 60, lesson_loss, &l);
            cj_scope inner = cj_scope_open(c);
            accuracy[k][stage] = cj_accuracy(free_running(&l.t, q.x, LENGTH + 1), q.y);
            area[k] += accuracy[k][stage] / STAGES;
            cj_scope_close(inner);
        }
        if (k == 0) {
            /* exposure bias: after a wrong symbol of its own the next is more often wrong, too */
            cj_tensor *by_own = cj_cast(cj_ne(cj_argmax(free_running(&l.t, q.x, LENGTH + 1), .axes = CJ_AXIS(-1)), q.y), CJ_F64);
            cj_tensor *by_truth = cj_cast(cj_ne(cj_argmax(forced(&l.t, q.x, q.y, NULL), .axes = CJ_AXIS(-1)), q.y), CJ_F64);
            double *e = values_of(cj_mean(by_own, .axes = CJ_AXIS(0))), *f = values_of(cj_mean(by_truth, .axes = CJ_AXIS(0))), gap = 0,
                   early = 0, late = 0;
            for (int t = 0; t <= LENGTH; t++) {
                assert_true(e[t] >= f[t] - 0.1); /* of 300 sequences: two and a half standard errors */
                gap += (e[t] - f[t]) / (LENGTH + 1);
                if (t < 3) early += (e[t] - f[t]) / 3;
                if (t >= LENGTH - 3 && t < LENGTH) late += (e[t] - f[t]) / 3;
            }
            print_message("errors by step, free running: %.3f %.3f %.3f … %.3f %.3f; with the true symbols %.3f %.3f %.3f … %.3f %.3f\n",
                          e[0], e[1], e[2], e[LENGTH - 2], e[LENGTH - 1], f[0], f[1], f[2], f[LENGTH - 2], f[LENGTH - 1]);
            assert_near(e[0], f[0], 0); /* the first step has nothing before it */
            assert_true(gap > 0 && late > early);
            free(e), free(f);
        }
        cj_scope_close(s);
    }
    print_message("symbols right, mean over training: fed with the truth %.3f, with its own words %.3f, half and half %.3f\n", area[0],
                  area[1], area[2]);
    assert_true(area[0] > area[1]);
    /* a model that knows everything says the same either way: one symbol's successor, by tables */
    cj_scope s = cj_scope_open(c);
    lesson sure = {
        .t = translator_new(&(translator_opts){ .symbols = 2, .hidden = 32 }), .task = CJ_SEQUENCE_COPY, .shortest = 2, .longest = 2
    };
    learn(&sure, 300, 0.01);
    q = pairs(CJ_SEQUENCE_COPY, 100, 2, 2, 1 << 20);
    assert_near(exact(&sure.t, q.x, q.y), 1, 0);
    assert_near(distance(forced(&sure.t, q.x, q.y, NULL), free_running(&sure.t, q.x, 3)), 0, 1e-5);
    cj_scope_close(s);
}

/* seq.attention, seq.bottleneck */
static void seq_attention(void **state)
{
    (void)state;
    enum { LENGTH = 8 };
    cj_scope s = cj_scope_open(c);
    for (int score = 0; score < 4; score++) {
        translator t = translator_new(&(translator_opts){ .symbols = 4, .hidden = 24, .attention = true, .score = (cj_score)score });
        cj_sequences q = pairs(CJ_SEQUENCE_REVERSE, 6, LENGTH, 4, 0);
        cj_tensor *alpha;
        forced(&t, q.x, q.y, &alpha);
        assert_true(cj_item(cj_min(alpha)) >= 0);
        assert_near(distance(cj_sum(alpha, .axes = CJ_AXIS(-1)), cj_ones(c, CJ_SHAPE(6, LENGTH + 1), CJ_F32)), 0, 1e-6);
        if (score == CJ_SCORE_ADDITIVE) { /* the same score for all: the mean of the states */
            cj_init_constant_(cj_params_find(cj_module_params(t.attention), "vector"), 0);
            memory m = encode(&t, q.x);
            cj_tensor *a = cj_score_attention_forward(t.attention, m.states, m.states, m.states, NULL).value;
            assert_near(distance(cj_slice(a, 1, 0, 1, 1), cj_mean(m.states, .axes = CJ_AXIS(1), .keepdim = true)), 0, 1e-6);
        }
    }
    lesson l = { .t = translator_new(&(translator_opts){ .symbols = 4, .hidden = 32, .attention = true, .score = CJ_SCORE_GENERAL }),
                 .task = CJ_SEQUENCE_REVERSE,
                 .shortest = LENGTH,
                 .longest = LENGTH };
    learn(&l, 900, 0.01);
    learn(&l, 300, 0.002);
    cj_sequences q = pairs(CJ_SEQUENCE_REVERSE, 100, LENGTH, 4, 1 << 20);
    cj_tensor *alpha;
    forced(&l.t, q.x, q.y, &alpha);
    double *looks = values_of(cj_mean(cj_slice(alpha, 1, 0, LENGTH, 1), .axes = CJ_AXIS(0))), share = exact(&l.t, q.x, q.y);
    int near = 0;
    for (int t = 0; t < LENGTH; t++) { /* a state holds its symbol and the ones before: the place, or the one after it */
        int most = 0;
        for (int i = 1; i <= LENGTH; i++)
            if (looks[t * (LENGTH + 1) + i] > looks[t * (LENGTH + 1) + most]) most = i;
        near += most == LENGTH - 1 - t || most == LENGTH - t;
    }
    print_message("%d symbols turned around with attention: %.3f exactly right, %d of %d steps look at the anti-diagonal\n", LENGTH, share,
                  near, LENGTH);
    assert_true(share > 0.95 && near >= LENGTH - 1);
    free(looks);
    cj_scope_close(s);
}

/* |d loss/d x_1| of the embedded first symbol, before any training. */
static double early_gradient(bool attention, int64_t length)
{
    cj_scope s = cj_scope_open(c);
    cj_seed(c, 113);
    translator t = translator_new(&(translator_opts){ .symbols = 4, .hidden = 32, .attention = attention, .score = CJ_SCORE_GENERAL });
    cj_sequences q = pairs(CJ_SEQUENCE_COPY, 8, length, 4, 0);
    cj_tensor *e = cj_require_grad(cj_forward(t.source, q.x)), *g;
    memory m = { 0 };
    m.states = cj_recurrent_forward(t.encoder, e, NULL, &m.last);
    cj_tensor *logits = decode(&t, &m, &m.last, begins(&t, q.y), NULL);
    assert_true(cj_grad(cj_cross_entropy(logits, q.y), &e, 1, &g));
    double norm = cj_item(cj_norm(cj_select(g, 1, 0), 2));
    cj_scope_close(s);
    return norm;
}

/* seq.bottleneck */
static void seq_bottleneck(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 5, 20 };
    double right[2][2];
    for (int attention = 0; attention < 2; attention++)
        for (int k = 0; k < 2; k++) {
            cj_scope s = cj_scope_open(c);
            cj_seed(c, 114);
            lesson l = { .t = translator_new(&(translator_opts){
                             .symbols = 4, .hidden = attention ? 32 : 34, .attention = attention, .score = CJ_SCORE_GENERAL }),
                         .task = CJ_SEQUENCE_COPY,
                         .shortest = lengths[k],
                         .longest = lengths[k] };
            learn(&l, 1500, 0.01);
            cj_sequences q = pairs(CJ_SEQUENCE_COPY, 200, lengths[k], 4, 1 << 20);
            right[attention][k] = cj_accuracy(free_running(&l.t, q.x, lengths[k] + 1), q.y);
            print_message("copy of %d symbols %s attention (%d parameters): %.3f right\n", (int)lengths[k], attention ? "with" : "without",
                          (int)cj_params_numel(cj_module_params(l.t.all)), right[attention][k]);
            cj_scope_close(s);
        }
    assert_true(right[0][0] > 0.95 && right[0][1] < 0.7);
    assert_true(right[1][0] > 0.95 && right[1][1] > 0.95);
    double plain = early_gradient(false, 40), attended = early_gradient(true, 40);
    print_message("|d loss/d x_1| of 40 symbols: %.3g, with attention %.3g\n", plain, attended);
    assert_true(attended > 10 * plain);
}

/* ---- symbols that are none ------------------------------------------------------------------------------------------------------------------------------------- */

/* seq.special-tokens */
static void seq_special_tokens(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    static const char *const specials[] = { "<pad>", "<bos>", "<eos>", "<unk>", "<mask>", "<cls>", "<sep>", NULL };
    static const char text[] = "the cat sat on the mat . the dog sat .";
    cj_tokeniser *t = cj_tokeniser_words(c, text, -1, .specials = specials);
    for (int i = 0; i < 7; i++) assert_int_equal(cj_token_number(t, specials[i], (int64_t)strlen(specials[i])), i); /* the first numbers */
    int64_t number[32], again[32], n = cj_encode(t, text, -1, number, 32);
    assert_int_equal(n, 11);
    char back[64];
    cj_decode(t, number, n, back, sizeof back);
    assert_string_equal(back, text);
    assert_int_equal(cj_encode(t, back, -1, again, 32), n);
    assert_memory_equal(number, again, (size_t)n * sizeof *number);
    int64_t strange[4];
    for (int k = 0; k < 2; k++) { /* what is not known is <unk>, always */
        assert_int_equal(cj_encode(t, "the zebra sat zebra", -1, strange, 4), 4);
        assert_true(strange[1] == 3 && strange[3] == 3 && strange[0] == number[0]);
    }
    cj_tokeniser_free(t);
    /* sentences with BEGIN, END and PAD: padding has neither loss nor gradient */
    const char *const lines[] = { "a dog runs", "a cat sits on a mat" };
    cj_words *w = cj_words_new(c, lines, 2, .least = 1);
    cj_tensor *rows = cj_words_encode(w, lines, 2, true, 0), *first = cj_select(rows, 0, 0);
    static const int64_t ends[] = { CJ_WORD_BEGIN, 0, 0, 0, CJ_WORD_END, CJ_WORD_PAD, CJ_WORD_PAD, CJ_WORD_PAD };
    for (int i = 0; i < 8; i++)
        if (i == 0 || i > 3) assert_near(value_at(first, i), (double)ends[i], 0);
    int64_t said[8];
    cj_to_i64(first, said, 8);
    cj_words_text(w, said + 1, 7, back, sizeof back);
    assert_string_equal(back, "A dog runs");
    cj_tensor *logits = cj_require_grad(cj_randn(c, CJ_SHAPE(2, 8, cj_words_count(w)))), *padding = cj_eq_scalar(rows, CJ_WORD_PAD), *g;
    cj_tensor *each = cj_cross_entropy(logits, without(rows, padding), .reduction = CJ_NONE);
    assert_near(cj_item(cj_max(cj_abs(cj_where(padding, each, cj_zeros_like(each))))), 0, 0);
    assert_true(cj_grad(cj_cross_entropy(logits, without(rows, padding)), &logits, 1, &g));
    cj_tensor *there = cj_max(cj_abs(g), .axes = CJ_AXIS(-1));
    assert_near(cj_item(cj_max(cj_where(padding, there, cj_zeros_like(there)))), 0, 0);
    assert_true(cj_item(cj_min(cj_where(padding, cj_ones_like(there), there))) > 0);
    cj_words_free(w);
    cj_scope_close(s);
}

/* ---- memory networks ------------------------------------------------------------------------------------------------------------------------------------------------ */

enum { PLACES = 8, FACTS = 6, STORIES = 32, WIDTH = 24 };

/* "a is in b" for a chain of things and places; asked for a, the answer is where b is. facts i64 [STORIES, FACTS, 2], query [STORIES], answer [STORIES]. */
typedef struct stories {
    cj_tensor *thing, *place, *query, *answer;
} stories;
static stories tell(void)
{
    static int64_t order[STORIES * PLACES], thing[STORIES * FACTS], place[STORIES * FACTS], query[STORIES], answer[STORIES], ask[STORIES],
        mix[STORIES * FACTS];
    cj_to_i64(cj_argsort(cj_rand(c, CJ_SHAPE(STORIES, PLACES)), 1), order, STORIES * PLACES);
    cj_to_i64(cj_argsort(cj_rand(c, CJ_SHAPE(STORIES, FACTS)), 1), mix, STORIES * FACTS);
    cj_to_i64(cj_randint(c, 0, FACTS - 1, CJ_SHAPE(STORIES)), ask, STORIES);
    for (int i = 0; i < STORIES; i++) {
        for (int k = 0; k < FACTS; k++) { /* each is in the next of a random order; the facts in any order */
            int64_t at = mix[i * FACTS + k];
            thing[i * FACTS + k] = order[i * PLACES + at], place[i * FACTS + k] = order[i * PLACES + at + 1];
        }
        query[i] = order[i * PLACES + ask[i]], answer[i] = order[i * PLACES + ask[i] + 2];
    }
    return (stories){ cj_from_i64(c, thing, CJ_SHAPE(STORIES, FACTS)), cj_from_i64(c, place, CJ_SHAPE(STORIES, FACTS)),
                      cj_from_i64(c, query, CJ_SHAPE(STORIES)), cj_from_i64(c, answer, CJ_SHAPE(STORIES)) };
}

typedef struct reasoner {
    cj_module *all, *key, *content, *head;
    int hops;
    double sharpness; /* of the scores */
} reasoner;

/* p = softmax(q·m), o = sum p c, the next question: the content found is the next question. Hard: the best match alone. */
static cj_tensor *reason(reasoner *r, const stories *t, bool hard)
{
    cj_tensor *m = cj_forward(r->key, t->thing), *content = cj_forward(r->content, t->place),
              *q = cj_unsqueeze(cj_forward(r->key, t->query), 1);
    for (int hop = 0; hop < r->hops; hop++) {
        cj_tensor *score = cj_mul_scalar(cj_matmul(q, cj_t(m)), r->sharpness);
        cj_tensor *p = hard ? cj_cast(cj_one_hot(cj_argmax(score, .axes = CJ_AXIS(-1)), FACTS), CJ_F32) : cj_softmax(score, -1);
        q = cj_matmul(p, content);
    }
    return cj_forward(r->head, cj_squeeze(q, 1));
}

static cj_tensor *reasoner_loss(void *user, int step)
{
    (void)step;
    stories t = tell();
    return cj_cross_entropy(reason(user, &t, false), t.answer);
}

static cj_tensor *soft_hop(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)user, (void)n;
    cj_tensor *q = in[0];
    for (int hop = 0; hop < 2; hop++) q = cj_add(q, cj_matmul(cj_softmax(cj_matmul(q, cj_t(in[1])), -1), in[2]));
    return q;
}

/* seq.memory-network */
static void seq_memory_network(void **state)
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    double right[3] = { 0 };
    for (int hops = 1; hops <= 2; hops++) {
        reasoner r = { .all = holder(c), .hops = hops, .sharpness = 1 };
        r.key = cj_module_add(r.all, "key", cj_embedding_layer(c, PLACES, WIDTH, .init_std = 0.5));
        r.content = r.key; /* what is found is asked for next: one embedding for both */
        r.head = cj_module_add(r.all, "head", cj_linear(c, WIDTH, PLACES));
        train_steps(c, cj_adam(cj_module_params(r.all), .lr = 0.01), 1000, reasoner_loss, &r);
        for (int k = 0; k < 10; k++) {
            stories t = tell();
            right[hops] += cj_accuracy(reason(&r, &t, false), t.answer) / 10;
        }
        if (hops == 2) { /* the sharper the scores, the nearer the soft choice is to the hard one */
            stories t = tell();
            r.sharpness = 1e4;
            assert_near(distance(reason(&r, &t, false), reason(&r, &t, true)), 0, 1e-4);
        }
    }
    print_message("where is the place in which a is? %.3f right with one hop, %.3f with two\n", right[1], right[2]);
    assert_true(right[1] < 0.6 && right[2] >= 0.95);
#define N64(...) cj_randn(c, CJ_SHAPE(__VA_ARGS__), .dtype = CJ_F64)
    cj_tensor *in[] = { N64(2, 1, 3), N64(2, 4, 3), N64(2, 4, 3) };
    cj_gradcheck_result g = cj_gradcheck(c, soft_hop, NULL, in, 3);
    if (!g.ok) fail_msg("%s", g.what);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seq_seq2seq),         cmocka_unit_test(seq_lstm2),          cmocka_unit_test(seq_factorisation),
        cmocka_unit_test(seq_teacher_forcing), cmocka_unit_test(seq_attention),      cmocka_unit_test(seq_bottleneck),
        cmocka_unit_test(seq_special_tokens),  cmocka_unit_test(seq_memory_network),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
