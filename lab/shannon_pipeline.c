/* shannon-pipeline: compress, protect, send, correct, decompress.
 *
 *     source      letters with known probabilities p_k, entropy H = -sum p_k log2 p_k
 *     compressor  Huffman's code (1952): the two rarest groups become one, again and again; its average length lies in [H, H + 1)
 *     channel     flips every bit with probability q
 *     code        Hamming(7, 4) (1950): 4 bits and 3 parities; the failed parities, read as a binary number, name the flipped bit
 *
 * Without noise nothing is lost; one flip in a block is always corrected; with noise the bit error rate after decoding lies below q.  The same for sending every bit
 * three times, at a rate of 1/3 instead of 4/7.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 8, MESSAGE = 20000, MOST_BITS = MESSAGE * LETTERS };
static const double probability[LETTERS] = { 0.38, 0.21, 0.14, 0.1, 0.07, 0.05, 0.03, 0.02 };

/* ---- Huffman ------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct tree {
    int child[2 * LETTERS][2]; /* of inner nodes, which follow the letters */
    int nodes;                 /* the last one is the root */
    char word[LETTERS][LETTERS + 1];
} tree;

static void name_words(tree *t, int node, char *prefix, int depth)
{
    const bool letter = node < LETTERS;
    if (letter) {
        prefix[depth] = 0;
        memcpy(t->word[node], prefix, (size_t)depth + 1);
    }
    for (int b = 0; b < 2 && !letter; b++) {
        prefix[depth] = (char)('0' + b);
        name_words(t, t->child[node][b], prefix, depth + 1);
    }
}
static tree huffman(const double *p)
{
    tree t = { .nodes = LETTERS };
    double weight[2 * LETTERS];
    bool open[2 * LETTERS] = { 0 };
    for (int i = 0; i < LETTERS; i++) weight[i] = p[i], open[i] = true;
    while (t.nodes < 2 * LETTERS - 1) {
        for (int b = 0; b < 2; b++) {
            int rarest = -1;
            for (int i = 0; i < t.nodes; i++)
                if (open[i] && (rarest < 0 || weight[i] < weight[rarest])) rarest = i;
            if (rarest < 0) return t; /* there are always two */
            t.child[t.nodes][b] = rarest;
            open[rarest] = false;
        }
        weight[t.nodes] = weight[t.child[t.nodes][0]] + weight[t.child[t.nodes][1]];
        open[t.nodes++] = true;
    }
    char prefix[LETTERS + 1];
    name_words(&t, t.nodes - 1, prefix, 0);
    return t;
}
static int compress(const tree *t, const int64_t *letter, int n, uint8_t *bits)
{
    int at = 0;
    for (int i = 0; i < n; i++)
        for (const char *w = t->word[letter[i]]; *w; w++) bits[at++] = *w == '1';
    return at;
}
static int decompress(const tree *t, const uint8_t *bits, int n, int64_t *letter)
{
    int found = 0, node = t->nodes - 1;
    for (int i = 0; i < n; i++) {
        node = t->child[node][bits[i]];
        if (node < LETTERS) letter[found++] = node, node = t->nodes - 1;
    }
    return found;
}

/* ---- Hamming(7, 4) -------------------------------------------------------------------------------------------------------------------------------- */

/* Places 1 … 7: parities at 1, 2, 4, each over the places whose number has that bit. */
static void protect(const uint8_t data[4], uint8_t block[7])
{
    static const int place[4] = { 3, 5, 6, 7 };
    memset(block, 0, 7);
    for (int i = 0; i < 4; i++) block[place[i] - 1] = data[i];
    for (int parity = 1; parity <= 4; parity *= 2)
        for (int k = 1; k <= 7; k++)
            if (k != parity && k & parity) block[parity - 1] ^= block[k - 1];
}
static void correct(uint8_t block[7], uint8_t data[4], bool wrong)
{
    int name = 0;
    for (int k = 1; k <= 7; k++)
        if (block[k - 1]) name ^= k; /* the exclusive or of the places of ones is 0 for a code word */
    if (name && !wrong) block[name - 1] ^= 1;
    data[0] = block[2], data[1] = block[4], data[2] = block[5], data[3] = block[6];
}

/* ---- the channel ------------------------------------------------------------------------------------------------------------------------------------ */

/* Which of n bits are flipped; the caller frees it. */
static uint8_t *noise(cj_ctx *c, double q, int n)
{
    cj_scope s = cj_scope_open(c);
    double *flip = calloc((size_t)n, sizeof *flip);
    uint8_t *out = calloc((size_t)n, 1);
    cj_to_f64(cj_bernoulli(c, q, CJ_SHAPE(n)), flip, n);
    for (int i = 0; i < n; i++) out[i] = flip[i] != 0;
    free(flip);
    cj_scope_close(s);
    return out;
}
/* Sends n bits (a multiple of 4) through Hamming's code and the channel; the share of wrong bits afterwards. received may be NULL. */
static double send_hamming(cj_ctx *c, const uint8_t *bits, int n, double q, bool wrong, uint8_t *received)
{
    const int blocks = n / 4;
    uint8_t *flip = noise(c, q, 7 * blocks), block[7], data[4];
    int errors = 0;
    for (int b = 0; b < blocks; b++) {
        protect(bits + 4 * b, block);
        for (int i = 0; i < 7; i++) block[i] ^= flip[7 * b + i];
        correct(block, data, wrong);
        for (int i = 0; i < 4; i++) errors += data[i] != bits[4 * b + i];
        if (received) memcpy(received + 4 * b, data, 4);
    }
    free(flip);
    return (double)errors / n;
}
/* Every bit three times, the majority counts. */
static double send_thrice(cj_ctx *c, int n, double q)
{
    uint8_t *flip = noise(c, q, 3 * n);
    int errors = 0;
    for (int i = 0; i < n; i++) errors += flip[3 * i] + flip[3 * i + 1] + flip[3 * i + 2] >= 2;
    free(flip);
    return (double)errors / n;
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    cj_scope s = cj_scope_open(c);
    int64_t *letter = calloc(MESSAGE, sizeof *letter), *back = calloc(MOST_BITS, sizeof *back);
    uint8_t *bits = calloc(MOST_BITS + 8, 1), *received = calloc(MOST_BITS + 8, 1);
    cj_dist source = cj_dist_categorical(cj_log(cj_from_f64(c, probability, CJ_SHAPE(LETTERS))));
    cj_to_i64(cj_dist_sample(source, CJ_SHAPE(MESSAGE)), letter, MESSAGE);
    const double h = cj_item(cj_dist_entropy(source)) / log(2);

    const tree t = huffman(probability);
    double mean = 0, kraft = 0;
    for (int k = 0; k < LETTERS; k++) {
        mean += probability[k] * (double)strlen(t.word[k]), kraft += pow(2, -(double)strlen(t.word[k]));
        cj_lab_say(r, "letter %d  p %.2f  %s", k, probability[k], t.word[k]);
    }
    const int n = compress(&t, letter, MESSAGE, bits), whole = (n + 3) / 4 * 4; /* filled up with zeros */
    cj_lab_say(r, "entropy %.4f bits, average length %.4f, of this message %.4f", h, mean, (double)n / MESSAGE);
    cj_lab_expect_at_least(r, "average code length is at least the entropy", h, mean);
    cj_lab_expect_at_least(r, "entropy + 1 is more than the average code length", mean, h + 1 - 1e-9);
    cj_lab_expect(r, "Kraft's sum of 2^-length", 1, kraft, 1e-12);
    cj_lab_expect(r, "bits per letter of the message", mean, (double)n / MESSAGE, 0.05);

    send_hamming(c, bits, whole, 0, control, received);
    int different = decompress(&t, received, n, back) != MESSAGE;
    for (int i = 0; i < MESSAGE; i++) different += back[i] != letter[i];
    cj_lab_expect(r, "letters lost without noise", 0, different, 0);

    int corrected = 0;
    for (int word = 0; word < 16; word++)
        for (int place = 0; place < 7; place++) {
            uint8_t data[4], block[7], got[4];
            for (int i = 0; i < 4; i++) data[i] = (uint8_t)(word >> i & 1);
            protect(data, block);
            block[place] ^= 1;
            correct(block, got, control);
            corrected += memcmp(data, got, 4) == 0;
        }
    cj_lab_expect(r, "single flips corrected, of 16 words times 7 places", 112, corrected, 0);

    enum { RATES = 6 };
    static const double q[RATES] = { 0.002, 0.005, 0.01, 0.02, 0.05, 0.1 };
    double after[RATES] = { 0 }, thrice[RATES] = { 0 };
    for (int i = 0; i < RATES && cj_ok(c); i++) {
        after[i] = send_hamming(c, bits, whole, q[i], control, NULL), thrice[i] = send_thrice(c, whole, q[i]);
        cj_lab_say(r, "channel %.3f  after Hamming(7, 4) %.5f  after repetition %.5f", q[i], after[i], thrice[i]);
    }
    cj_lab_expect_at_least(r, "at 1 % noise the uncoded error rate over that after Hamming", 5, q[2] / fmax(after[2], 1e-9));
    cj_lab_expect_at_least(r, "and at 10 %", 1.2, q[5] / fmax(after[5], 1e-9));
    const double p3 = 3 * q[4] * q[4] * (1 - q[4]) + q[4] * q[4] * q[4];
    cj_lab_expect(r, "repetition at 5 % noise: 3 q² (1 - q) + q³", p3, thrice[4], 4 * sqrt(p3 / whole));
    if (!control && cj_lab_wants_pictures(r) && cj_ok(c)) {
        cj_plot *p = cj_plot_new(c, "Bit errors after the channel");
        cj_plot_labels(p, "probability of a flip", "share of wrong bits");
        cj_plot_log(p, true, true);
        cj_plot_line(p, "uncoded", q, q, RATES);
        cj_plot_line(p, "Hamming(7, 4)", q, after, RATES);
        cj_plot_line(p, "three times", q, thrice, RATES);
        cj_lab_picture(r, c, p, "shannon-pipeline");
    }
    free(letter), free(back), free(bits), free(received);
    cj_scope_close(s);
}

const cj_lab cj_lab_shannon_pipeline = {
    .name = "shannon-pipeline",
    .claim = "Huffman's code needs less than one bit above the entropy, and Hamming's corrects every single flip: nothing is lost on a "
             "clean channel, less on a noisy one",
    .source = "Shannon 1948; Hamming 1950; Huffman 1952",
    .control = "the decoder does not correct",
    .run = run,
};
