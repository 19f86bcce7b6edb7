/* The catalogue's rows on decoding, seq.* by name: search and draws against the enumeration of all sequences. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 3);

enum { SYMBOLS = 3, LONGEST = 4, END = 0, START = 1 };

/* A model without any structure: the logits are pseudo-random numbers of the whole prefix. */
static void any_logits(uint64_t seed, const int64_t *prefix, int64_t n, double *out)
{
    uint64_t hash = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < n; i++) hash = (hash ^ (uint64_t)(prefix[i] + 7)) * 0x100000001b3u, hash ^= hash >> 29;
    for (int v = 0; v < SYMBOLS; v++) {
        hash = hash * 6364136223846793005u + 1442695040888963407u;
        out[v] = (double)(hash >> 40) * 0x1p-24 * 4 - 2;
    }
}
static cj_tensor *any_model(cj_ctx *ctx, void *user, cj_tensor *prefix)
{
    int64_t n = cj_size(prefix, 0), t = cj_size(prefix, 1), symbols[400];
    double logits[81 * SYMBOLS];
    assert_true(n <= 81 && cj_numel(prefix) <= 400);
    assert_true(cj_to_i64(prefix, symbols, n * t));
    for (int64_t i = 0; i < n; i++) any_logits(*(uint64_t *)user, symbols + i * t, t, logits + i * SYMBOLS);
    return (cj_from_f64)(ctx, logits, CJ_SHAPE(n, SYMBOLS));
}

typedef struct best {
    double score, total; /* of the likeliest sequence; the sum of all probabilities */
    int64_t symbols[LONGEST], length, count;
} best;
/* All sequences that end with END or after LONGEST symbols. */
static void enumerate(uint64_t seed, int64_t *prefix, int64_t n, double score, best *b)
{
    if (n > 1 && (prefix[n - 1] == END || n == LONGEST + 1)) {
        b->total += exp(score);
        b->count++;
        if (score <= b->score) return;
        b->score = score;
        b->length = n - 1;
        memcpy(b->symbols, prefix + 1, (size_t)(n - 1) * sizeof *prefix);
        return;
    }
    double a[SYMBOLS], sum = 0;
    any_logits(seed, prefix, n, a);
    for (int v = 0; v < SYMBOLS; v++) sum += exp(a[v]);
    for (int v = 0; v < SYMBOLS; v++) {
        prefix[n] = v;
        enumerate(seed, prefix, n + 1, score + a[v] - log(sum), b);
    }
}

static cj_tensor *start(void) { return cj_from_i64(c, (int64_t[]){ START }, CJ_SHAPE(1)); }
static cj_hypotheses search(uint64_t *seed, int64_t beams)
{
    return cj_beam_search(c, any_model, seed, start(), (cj_beam_opts){ .beams = beams, .longest = LONGEST, .end = END });
}

/* seq.exhaustive: the true mode; probabilities sum to 1; greedy <= beam <= exhaustive */
static void seq_exhaustive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        best b = { .score = -INFINITY };
        int64_t prefix[LONGEST + 1] = { START };
        enumerate(seed, prefix, 1, 0, &b);
        assert_near(b.total, 1, 1e-13);
        cj_hypotheses all = search(&seed, 81);
        assert_int_equal(cj_size(all.scores, 0), b.count);
        assert_near(cj_item(cj_sum(cj_exp(all.scores))), 1, 1e-13);
        assert_near(value_at(all.scores, 0), b.score, 1e-13);
        assert_int_equal(value_at(all.lengths, 0), b.length);
        for (int64_t t = 0; t < LONGEST; t++) assert_int_equal(value_at(all.symbols, t), t < b.length ? b.symbols[t] : -1);
        double greedy = value_at(search(&seed, 1).scores, 0), beam = value_at(search(&seed, 9).scores, 0);
        assert_true(greedy <= beam && beam <= b.score + 1e-13);
    }
}

/* seq.greedy: the argmax at every step is the beam of 1 */
static cj_tensor *trap(cj_ctx *ctx, void *user, cj_tensor *prefix)
{
    (void)user;
    static const double p[4][2] = { { .6, .4 }, { .5, .5 }, { .9, .1 } }; /* at the start, after 0, after 1 */
    int64_t n = cj_size(prefix, 0), t = cj_size(prefix, 1), symbols[16];
    double out[16];
    assert_true(cj_to_i64(prefix, symbols, n * t));
    for (int64_t i = 0; i < n; i++)
        for (int v = 0; v < 2; v++) out[2 * i + v] = log(p[t == 1 ? 0 : 1 + symbols[i * t + t - 1]][v]);
    return (cj_from_f64)(ctx, out, CJ_SHAPE(n, 2));
}
static void seq_greedy(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t prefix[LONGEST + 1] = { START }, n = 1;
        double score = 0;
        while (n <= LONGEST && (n == 1 || prefix[n - 1] != END)) {
            double a[SYMBOLS], sum = 0;
            int top = 0;
            any_logits(seed, prefix, n, a);
            for (int v = 0; v < SYMBOLS; v++) sum += exp(a[v]), top = a[v] > a[top] ? v : top;
            score += a[top] - log(sum);
            prefix[n++] = top;
        }
        cj_hypotheses one = search(&seed, 1);
        assert_int_equal(cj_size(one.scores, 0), 1);
        assert_near(value_at(one.scores, 0), score, 1e-13);
        assert_int_equal(value_at(one.lengths, 0), n - 1);
        for (int64_t t = 0; t < n - 1; t++) assert_int_equal(value_at(one.symbols, t), prefix[t + 1]);
    }
    /* 0 is likelier first (0.6·0.5 = 0.3), but 1, 0 is the likeliest pair (0.4·0.9 = 0.36) */
    cj_hypotheses greedy = cj_beam_search(c, trap, NULL, start(), (cj_beam_opts){ .beams = 1, .longest = 2, .end = -1 });
    cj_hypotheses two = cj_beam_search(c, trap, NULL, start(), (cj_beam_opts){ .beams = 2, .longest = 2, .end = -1 });
    assert_near(value_at(greedy.scores, 0), log(0.3), 1e-14);
    assert_near(value_at(two.scores, 0), log(0.36), 1e-14);
    assert_true(value_at(two.symbols, 0) == 1 && value_at(two.symbols, 1) == 0);
}

/* ---- the example of the beam ------------------------------------------------------------------------------------------------------------------------ */

enum { HE, I, HIT, WAS, ME, A, OTHERS, WORDS = OTHERS + 6, BEGIN = WORDS - 1 };

/* The logarithms of the example; what is left of each distribution goes to the other words in equal shares. */
static cj_tensor *sentence(cj_ctx *ctx, void *user, cj_tensor *prefix)
{
    (void)user;
    int64_t n = cj_size(prefix, 0), t = cj_size(prefix, 1), word[64];
    double out[16 * WORDS];
    assert_true(cj_to_i64(prefix, word, n * t));
    for (int64_t i = 0; i < n; i++) {
        const int64_t *w = word + i * t;
        double *o = out + i * WORDS, rest = 1;
        for (int v = 0; v < WORDS; v++) o[v] = -INFINITY;
        if (t == 1) o[HE] = -.7, o[I] = -.9;
        else if (t == 2 && w[1] == HE) o[HIT] = -1.0;
        else if (t == 2 && w[1] == I) o[WAS] = -.7;
        else if (t == 3 && w[2] == HIT) o[ME] = -.8, o[A] = -1.1;
        else if (t == 3 && w[2] == WAS) o[HIT] = -1.3;
        for (int v = 0; v < OTHERS; v++) rest -= exp(o[v]);
        for (int v = OTHERS; v < WORDS; v++) o[v] = log(rest / (WORDS - OTHERS));
    }
    return (cj_from_f64)(ctx, out, CJ_SHAPE(n, WORDS));
}

/* seq.beam: he -.7, I -.9; he hit -1.7, I was -1.6; he hit me -2.5, he hit a -2.8; as many beams as sequences are the exhaustive search */
static void seq_beam(void **state)
{
    (void)state;
    static const struct {
        double score[2];
        int64_t words[2][3];
    } want[3] = { { { -.7, -.9 }, { { HE }, { I } } },
                  { { -1.6, -1.7 }, { { I, WAS }, { HE, HIT } } },
                  { { -2.5, -2.8 }, { { HE, HIT, ME }, { HE, HIT, A } } } };
    cj_tensor *begin = cj_from_i64(c, (int64_t[]){ BEGIN }, CJ_SHAPE(1));
    for (int64_t t = 1; t <= 3; t++) {
        cj_hypotheses h = cj_beam_search(c, sentence, NULL, begin, (cj_beam_opts){ .beams = 2, .longest = t, .end = -1 });
        assert_int_equal(cj_size(h.scores, 0), 2);
        for (int i = 0; i < 2; i++) {
            assert_near(value_at(h.scores, i), want[t - 1].score[i], 1e-12);
            for (int64_t k = 0; k < t; k++) assert_int_equal(value_at(h.symbols, i * t + k), want[t - 1].words[i][k]);
        }
    }
    for (uint64_t seed = 40; seed < 50; seed++) { /* |V|^T beams against the enumeration */
        best b = { .score = -INFINITY };
        int64_t prefix[LONGEST + 1] = { START };
        enumerate(seed, prefix, 1, 0, &b);
        assert_near(value_at(search(&seed, 81).scores, 0), b.score, 1e-13);
        cj_hypotheses few =
            cj_beam_search(c, any_model, &seed, start(), (cj_beam_opts){ .beams = 81, .longest = LONGEST, .end = END, .completed = 1 });
        assert_int_equal(cj_size(few.scores, 0), 1); /* stops after the first that is complete */
    }
    assert_refused(CJ_EVALUE, "beam_search: 0 beams", cj_beam_search(c, sentence, NULL, begin, (cj_beam_opts){ .longest = 2 }));
    assert_refused(CJ_EVALUE, "beam_search: 0 symbols after [1]", cj_beam_search(c, sentence, NULL, begin, (cj_beam_opts){ .beams = 2 }));
}

/* The end with probability p at every step, else the symbol 1. */
static cj_tensor *geometric(cj_ctx *ctx, void *user, cj_tensor *prefix)
{
    double p = *(double *)user, out[64];
    int64_t n = cj_size(prefix, 0);
    for (int64_t i = 0; i < n; i++) out[2 * i] = log(p), out[2 * i + 1] = log(1 - p);
    return (cj_from_f64)(ctx, out, CJ_SHAPE(n, 2));
}

/* seq.length-norm: sums prefer the short, means do not; equal probabilities per symbol tie */
static void seq_length_norm(void **state)
{
    (void)state;
    double p = 0.3;
    cj_beam_opts o = { .beams = 8, .longest = 4, .end = END };
    cj_hypotheses sum = cj_beam_search(c, geometric, &p, start(), o);
    o.per_symbol = true;
    cj_hypotheses mean = cj_beam_search(c, geometric, &p, start(), o);
    assert_true(value_at(sum.lengths, 0) == 1 && value_at(mean.lengths, 0) == 4);
    assert_near(value_at(sum.scores, 0), log(0.3), 1e-14);
    assert_near(value_at(mean.scores, 0), log(0.7), 1e-14);
    assert_near(value_at(mean.scores, 1), (3 * log(0.7) + log(0.3)) / 4, 1e-14);
    p = 0.5;
    cj_hypotheses even = cj_beam_search(c, geometric, &p, start(), o);
    assert_int_equal(cj_size(even.scores, 0), 5);
    for (int i = 0; i < 5; i++) assert_near(value_at(even.scores, i), log(0.5), 1e-15);
}

/* ---- draws ------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *die(cj_ctx *ctx, void *user, cj_tensor *prefix)
{
    (void)ctx;
    cj_tensor *logits = user;
    return cj_expand(cj_unsqueeze(logits, 0), CJ_SHAPE(cj_size(prefix, 0), cj_numel(logits)));
}

/* Pearson's chi-square of the symbols drawn with these options against probabilities p[4]; what has none must not occur. */
static double chi_square(cj_tensor *logits, cj_draw_opts o, const double *p, int n)
{
    o.longest = 2;
    o.end = -1;
    cj_tensor *x = cj_draw_sequences(c, die, logits, cj_zeros(c, CJ_SHAPE(n, 1), CJ_I64), o);
    int64_t *v = calloc((size_t)n * 3, sizeof *v), count[4] = { 0 };
    assert_true(cj_to_i64(x, v, (int64_t)n * 3));
    for (int i = 0; i < n; i++) count[v[3 * i + 1]]++, count[v[3 * i + 2]]++;
    free(v);
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        if (p[k] == 0) assert_int_equal(count[k], 0);
        else sum += pow((double)count[k] - 2 * n * p[k], 2) / (2 * n * p[k]);
    }
    return sum;
}

/* seq.sampling: frequencies are the probabilities, with temperature and truncation; T -> 0 is greedy; seeds repeat. 21.1 is the chi-square of 3 degrees at 1e-4. */
static void seq_sampling(void **state)
{
    (void)state;
    enum { N = 10000 };
    const double p[4] = { .1, .4, .2, .3 };
    cj_tensor *logits = cj_log(f64(c, p, CJ_SHAPE(4)));
    assert_true(chi_square(logits, (cj_draw_opts){ 0 }, p, N) < 21.1);
    double sharp[4], sum = 0;
    for (int k = 0; k < 4; k++) sum += sharp[k] = p[k] * p[k];
    for (int k = 0; k < 4; k++) sharp[k] /= sum; /* temperature 1/2 squares probabilities */
    assert_true(chi_square(logits, (cj_draw_opts){ .temperature = 0.5 }, sharp, N) < 21.1);
    assert_true(chi_square(logits, (cj_draw_opts){ 0 }, sharp, N) > 100); /* the test can tell */
    assert_true(chi_square(logits, (cj_draw_opts){ .top_k = 2 }, (double[]){ 0, 4 / 7., 0, 3 / 7. }, N) < 21.1);
    assert_true(chi_square(logits, (cj_draw_opts){ .top_p = 0.65 }, (double[]){ 0, 4 / 7., 0, 3 / 7. }, N) < 21.1);
    assert_true(chi_square(logits, (cj_draw_opts){ .top_p = 0.75 }, (double[]){ 0, 4 / 9., 2 / 9., 3 / 9. }, N) < 21.1);
    uint64_t seed = 5;
    cj_draw_opts o = { .longest = LONGEST, .end = END, .temperature = CJ_ZERO };
    cj_tensor *first = cj_full(c, START, CJ_SHAPE(20, 1), CJ_I64), *cold = cj_draw_sequences(c, any_model, &seed, first, o);
    cj_hypotheses greedy = search(&seed, 1);
    for (int64_t t = 0; t < (int64_t)value_at(greedy.lengths, 0); t++) assert_int_equal(value_at(cold, t + 1), value_at(greedy.symbols, t));
    o.temperature = 1e-4;
    assert_true(same_bits(cold, cj_draw_sequences(c, any_model, &seed, first, o)));
    o.temperature = 1;
    cj_seed(c, 9);
    cj_tensor *one = cj_draw_sequences(c, any_model, &seed, first, o), *other = cj_draw_sequences(c, any_model, &seed, first, o);
    cj_seed(c, 9);
    assert_true(same_bits(one, cj_draw_sequences(c, any_model, &seed, first, o)));
    assert_false(same_bits(one, other));
    int64_t v[20 * (LONGEST + 1)];
    assert_true(cj_to_i64(one, v, 20 * (LONGEST + 1)));
    for (int i = 0; i < 20; i++)
        for (int t = 2; t <= LONGEST; t++)
            if (v[i * (LONGEST + 1) + t - 1] == END) assert_int_equal(v[i * (LONGEST + 1) + t], END); /* the end stays */
    assert_poisoned(CJ_EVALUE, "draw_sequences: temperature 1, top_k 0, top_p 2;",
                    cj_draw_sequences(c, die, logits, first, (cj_draw_opts){ .longest = 1, .top_p = 2 }));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(seq_exhaustive), TEST(seq_greedy), TEST(seq_beam), TEST(seq_length_norm), TEST(seq_sampling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
