/* The body of attention.c and attention_f64.c: attention block by block, for one type of numbers.
 *
 * The queries of a block are the lanes of the vectors: scores, weights and their gradients are kept transposed, [key][query], so that maxima and sums over the keys
 * need no step across lanes, and keys and values are read as they are, one number at a time, broadcast.  With S in units of log 2 (the scale takes log2(e) along):
 *
 *   forward   Sᵀ = k·qᵀ          m' = max(m, max S)   P = 2^(S - m')   l = l·2^(m - m') + sum P   Oᵀ = Oᵀ·2^(m - m') + vᵀ·Pᵀ     o = O/l, lse = log sum
 *   backward  Sᵀ = k·qᵀ   P = 2^(S - lse)   dPᵀ = v·doᵀ   dS = P∘(dP - D), D = rowsum(do∘o)   dV += Pᵀ·do   dK += dSᵀ·q   dQᵀ += kᵀ·dSᵀ
 *             (dP and D take the scale along, and so do the gradients that dS makes)
 *
 * A base within reach of the maximum does as well as the maximum itself, so m begins at 0 and stays where it is until the weights of a block would grow beyond LARGEST.
 * Thus scores begin at -m and, where nothing masks or drops, become weights before they leave the registers, without a look at their maximum; backward -lse and -D are there first, too.
 *
 * Dropout multiplies P by 0 or 1/(1-p) after l is summed, and dP in the backward pass, where it is drawn again from the same counter.  All six products have one form,
 * broadcast numbers times vectors (`product`).  Blocks are cut at multiples of BLOCK whoever works on them, and sums over blocks run upwards: the number of threads does not show.
 *
 * The including file defines: real, REAL (its dtype), vr, LANES, TILE_ROWS(V), TILE_WIDTH, vr_set1, vr_load, vr_store, vr_fma, vr_max (NaN in the first operand is
 * skipped), vr_at_most (a <= b ? x : y), vr_exp2 (0 where the result would be below the normal numbers), vr_log, vr_zip_low, vr_zip_high.
 */
#include <string.h>

#include "core/philox.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/random.h"

enum { BLOCK = 64, PIECE = 16 }; /* queries and keys of a block; keys of a piece: what the causal border is cut into */

#define LARGEST ((real)0x1p12)   /* the sum of the weights of one block, and ... */
#define SMALLEST ((real)0x1p-10) /* ... of all so far: within them the base of the weights stays */
#define LN2 ((real)0.69314718055994530942)
#define LOG2E ((real)1.44269504088896340736)

CJ_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
CJ_INLINE int64_t vectors(int64_t n) { return (n + LANES - 1) / LANES; }
CJ_INLINE int64_t padded(int64_t n) { return vectors(n) * LANES; }

#include "kernels/cpu/attention_tile.h"

/* ---- rows and their transposes --------------------------------------------------------------------------------------------------------------- */

/* to[j][i] = from[i][j]·scale for a multiple of LANES rows and columns: each round interleaves the first half of the rows with the second. */
static void transpose(const real *from, int64_t from_row, int64_t rows, int64_t columns, real scale, real *to, int64_t to_row)
{
    const vr s = vr_set1(scale);
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < columns; j += LANES) {
            vr x[LANES], y[LANES];
            UNROLL for (int r = 0; r < LANES; r++) x[r] = vr_load(from + (i + r) * from_row + j) * s;
            UNROLL for (int round = LANES; round > 1; round /= 2)
            {
                UNROLL for (int r = 0; r < LANES / 2; r++)
                {
                    y[2 * r] = vr_zip_low(x[r], x[r + LANES / 2]);
                    y[2 * r + 1] = vr_zip_high(x[r], x[r + LANES / 2]);
                }
                UNROLL for (int r = 0; r < LANES; r++) x[r] = y[r];
            }
            UNROLL for (int r = 0; r < LANES; r++) vr_store(to + (j + r) * to_row + i, x[r]);
        }
}

/* The sums over the lanes of LANES vectors: zipping two of them and adding the halves, lane e has the sum of x[e] after the last round. */
CJ_INLINE vr lane_sums(vr *x)
{
    UNROLL for (int half = LANES / 2; half > 0; half /= 2) UNROLL for (int i = 0; i < half; i++) x[i] =
        vr_zip_low(x[i], x[i + half]) + vr_zip_high(x[i], x[i + half]);
    return x[0];
}

/* to[i] = the product of row i of a with row i of b, for a multiple of LANES rows and columns */
static void row_products(const real *a, int64_t a_row, const real *b, int64_t b_row, int64_t rows, int64_t columns, real *to)
{
    for (int64_t i = 0; i < rows; i += LANES) {
        vr x[LANES];
        UNROLL for (int e = 0; e < LANES; e++)
        {
            x[e] = vr_set1(0);
            for (int64_t c = 0; c < columns; c += LANES)
                x[e] = vr_fma(vr_load(a + (i + e) * a_row + c), vr_load(b + (i + e) * b_row + c), x[e]);
        }
        vr_store(to + i, lane_sums(x));
    }
}

CJ_INLINE void load_run(cj_dtype t, const void *from, real *to, int64_t n)
{
    if (t != REAL) CJ_K(cj__convert)(t, from, REAL, to, n);
    else if (n % LANES == 0) /* without a call per row */
        for (int64_t e = 0; e < n; e += LANES) vr_store(to + e, vr_load((const real *)from + e));
    else memcpy(to, from, (size_t)n * sizeof(real));
}

/* n rows of `width` numbers to rows of a multiple of LANES; what is added, `rows` included, is zeros. */
static void load_rows(cj_dtype t, const void *from, int64_t from_row, int64_t n, int64_t width, real *to, int64_t rows)
{
    const int64_t wide = padded(width), elem = cj__elem_size(t);
    for (int64_t i = 0; i < n; i++) {
        real *y = to + i * wide;
        load_run(t, (const char *)from + i * from_row * elem, y, width);
        for (int64_t e = width; e < wide; e++) y[e] = 0;
    }
    memset(to + n * wide, 0, (size_t)((rows - n) * wide) * sizeof *to);
}

/* The first `width` numbers of n rows to rows of type t, `to_row` numbers apart. */
static void store_rows(cj_dtype t, const real *from, int64_t n, int64_t width, void *to, int64_t to_row)
{
    const int64_t wide = padded(width), elem = cj__elem_size(t);
    for (int64_t i = 0; i < n; i++) {
        const real *x = from + i * wide;
        char *y = (char *)to + i * to_row * elem;
        if (t == REAL && width == wide)
            for (int64_t e = 0; e < wide; e += LANES) vr_store((real *)(void *)y + e, vr_load(x + e));
        else CJ_K(cj__convert)(REAL, x, t, y, width);
    }
}

/* Rows that will be written some time later, pieces of longer ones that no processor foresees: they come from memory meanwhile. */
static void expect_rows(void *rows, int64_t row, int64_t n, int64_t width, int64_t elem)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < width * elem; e += 64) __builtin_prefetch((char *)rows + i * row * elem + e, 1, 2);
}

/* ---- one head ------------------------------------------------------------------------------------------------------------------------------------ */

/* A worker's memory; what a pass does not use is NULL. */
typedef struct room {
    real *q_t, *q_rows, *g_t, *g_rows; /* the block's queries, scaled, and gradients of its results: [d][BLOCK] and [BLOCK][d] */
    real *out_t, *out_rows;            /* O or dQ */
    real *s, *dp;                      /* [key][query]: S, then P; dP, then dS */
    real *bias, *keep;                 /* [key][query]: mask and dropout, where there are some */
    real *rows;                        /* [query][key]: to be transposed into these */
    real *k, *v;                       /* all keys and values of a head, unless they are used where they lie */
    real *dk, *dv;                     /* [key][d]: gradients of a range of keys, unless they are summed up where they belong */
} room;

static bool lies_well(const cj_attention_job *j, const cj_heads *x, int64_t width) { return j->t == REAL && x->row == width; }

/* Cuts the room out of memory (or counts, for memory NULL); `keys`: of a range of gradients.  Returns the bytes. */
static size_t room_cut(const cj_attention_job *j, bool backward, int64_t keys, real *memory, room *r)
{
    const int64_t d = padded(j->d), dv = padded(j->dv), wide = d > dv ? d : dv;
    size_t at = 0;
#define CUT(field, condition, count)                                                                                                       \
    do {                                                                                                                                   \
        r->field = (condition) && memory ? memory + at : NULL;                                                                             \
        if (condition) at += (size_t)(count);                                                                                              \
    } while (0)
    CUT(q_t, true, d * BLOCK);
    CUT(q_rows, true, d * BLOCK);
    CUT(g_t, backward, dv * BLOCK);
    CUT(g_rows, backward, dv * BLOCK);
    CUT(out_t, true, wide * BLOCK);
    CUT(out_rows, true, wide * BLOCK);
    CUT(s, true, BLOCK * BLOCK);
    CUT(dp, backward, BLOCK * BLOCK);
    CUT(bias, j->mask.data != NULL, BLOCK * BLOCK);
    CUT(keep, j->drop > 0, BLOCK * BLOCK);
    CUT(rows, j->mask.data || j->drop > 0, BLOCK * BLOCK);
    CUT(k, !lies_well(j, &j->k, j->d), (j->tk * j->d + 15) / 16 * 16);
    CUT(v, !lies_well(j, &j->v, j->dv), (j->tk * j->dv + 15) / 16 * 16);
    CUT(dk, backward && !(lies_well(j, &j->dk, j->d) && j->d == d), keys * d);
    CUT(dv, backward && !(lies_well(j, &j->dvalue, j->dv) && j->dv == dv), keys * dv);
#undef CUT
    return (at * sizeof(real) + 63) / 64 * 64;
}

/* Where head h of x begins; shared: x has one head for a group of q's. */
static const void *head_of(const cj_attention_job *j, const cj_heads *x, int64_t elem, int64_t h, bool shared)
{
    int64_t at = 0;
    for (int a = j->leads - 1; a >= 0; a--) {
        const int64_t i = h % j->lead[a];
        at += (shared && a == j->leads - 1 ? i / j->group : i) * x->lead[a];
        h /= j->lead[a];
    }
    return (const char *)x->data + at * elem;
}

/* Where row i of head h of a result begins. */
static char *result_at(const cj_attention_job *j, const cj_heads *x, int64_t elem, int64_t h, bool shared, int64_t i)
{
    const char *head = head_of(j, x, elem, h, shared);
    return (char *)x->data + (head - (const char *)x->data) + i * x->row * elem;
}
static float *wide_at(const cj_attention_job *j, int64_t h, int64_t i)
{
    cj_heads x = j->o;
    x.data = j->wide;
    return (float *)(void *)result_at(j, &x, sizeof(float), h, false, i);
}

/* Keys, values and what can be seen of them by head h. */
typedef struct head {
    int64_t h, keys, offset; /* keys: that anybody may see; query i stands at key i + offset */
    const real *k, *v;       /* rows of d and dv */
    const char *q, *mask;
} head;

/* The keys and values of a head stay in the room for the next heads of its group and the next blocks. */
static void head_open(const cj_attention_job *j, room *r, int64_t h, head *x)
{
    const int64_t elem = cj__elem_size(j->t), mask_elem = j->mask.data ? cj__elem_size(j->mask_type) : 0;
    const bool loaded = x->h >= 0 && x->h / j->group == h / j->group;
    int64_t length = j->tk;
    if (j->length.data) length = *(const int64_t *)head_of(j, &j->length, sizeof(int64_t), h, false);
    *x = (head){ .h = h, .keys = length, .offset = length - j->tq, .k = x->k, .v = x->v };
    x->q = head_of(j, &j->q, elem, h, false);
    if (j->mask.data) x->mask = head_of(j, &j->mask, mask_elem, h, false);
    if (loaded) return;
    const char *k = head_of(j, &j->k, elem, h, true), *v = head_of(j, &j->v, elem, h, true);
    x->k = r->k ? r->k : (const real *)k;
    x->v = r->v ? r->v : (const real *)v;
    for (int64_t i = 0; i < j->tk; i++) {
        if (r->k) load_run(j->t, k + i * j->k.row * elem, r->k + i * j->d, j->d);
        if (r->v) load_run(j->t, v + i * j->v.row * elem, r->v + i * j->dv, j->dv);
    }
}

/* A block of queries of a head. */
typedef struct queries {
    int64_t first, n, n_vectors; /* the last vector may stand for fewer queries */
    int64_t keys;                /* that some of them see */
} queries;

static queries queries_of(const cj_attention_job *j, const head *x, int64_t first)
{
    queries b = { .first = first, .n = least(BLOCK, j->tq - first), .keys = x->keys };
    b.n_vectors = vectors(b.n);
    if (j->causal) b.keys = least(b.keys, first + b.n + x->offset);
    if (b.keys < 0) b.keys = 0;
    return b;
}

/* The block's rows of matrix x, transposed and times `scale`, to `turned`.  Returns them as they are: where they lie, or in `rows`; strided ones only if they will be `read` again. */
static const real *load_block(const cj_attention_job *j, const cj_heads *x, const char *head, const queries *b, int64_t width, real scale,
                              real *turned, real *rows, bool read)
{
    const int64_t lanes = b->n_vectors * LANES;
    const char *from = head + b->first * x->row * cj__elem_size(j->t);
    if (j->t == REAL && width % LANES == 0 && b->n == lanes && (x->row == width || !read)) {
        transpose((const real *)(const void *)from, x->row, lanes, width, scale, turned, BLOCK);
        return (const real *)(const void *)from;
    }
    load_rows(j->t, from, x->row, b->n, width, rows, lanes);
    transpose(rows, padded(width), lanes, padded(width), scale, turned, BLOCK);
    return rows;
}

/* What was summed up for the block's queries, transposed, to their rows of result x. */
static void store_block(const cj_attention_job *j, room *r, const cj_heads *x, int64_t h, const queries *b, int64_t width)
{
    const int64_t lanes = b->n_vectors * LANES;
    char *to = result_at(j, x, cj__elem_size(j->t), h, false, b->first);
    if (j->t == REAL && width % LANES == 0 && b->n == lanes) {
        transpose(r->out_t, BLOCK, width, lanes, 1, (real *)(void *)to, x->row);
        return;
    }
    transpose(r->out_t, BLOCK, padded(width), lanes, 1, r->out_rows, padded(width));
    if (j->wide && x == &j->o) store_rows(CJ_F32, r->out_rows, b->n, width, wide_at(j, h, b->first), x->row);
    store_rows(j->t, r->out_rows, b->n, width, to, x->row);
}

/* Keys [first, first + n) beside a block of queries: the piece [begin, end) is of no interest to the vectors before from. */
typedef struct piece {
    int64_t begin, end, from;
} piece;
typedef struct keys {
    int64_t first, n;
    bool border; /* some of the queries do not see all of them */
    int pieces;
    piece piece[BLOCK / PIECE];
} keys;

static keys keys_of(const cj_attention_job *j, const head *x, const queries *b, int64_t first)
{
    keys k = { .first = first, .n = least(BLOCK, b->keys - first), .pieces = 1 };
    k.piece[0] = (piece){ 0, k.n, 0 };
    const int64_t own = b->first + x->offset - first; /* the first query's own key, within the block */
    k.border = j->causal && own < k.n - 1;
    if (!k.border) return k;
    k.pieces = 0;
    for (int64_t begin = 0; begin < k.n; begin += PIECE) {
        const int64_t from = begin > own ? (begin - own) / LANES : 0;
        if (from < b->n_vectors) k.piece[k.pieces++] = (piece){ begin, least(begin + PIECE, k.n), from };
    }
    return k;
}
/* How many of the keys a vector of queries has to do with. */
static int64_t reach(const keys *k, int64_t vector)
{
    int64_t end = 0;
    for (int i = 0; i < k->pieces && k->piece[i].from <= vector; i++) end = k->piece[i].end;
    return end;
}

/* to[key][query] = start[query] + rows of keys · lanes of queries */
static void scores(const keys *k, const queries *b, const real *rows, int64_t width, const real *lanes, const real *start, real *to)
{
    static const real zeros[BLOCK];
    for (int i = 0; i < k->pieces; i++) {
        const piece *p = &k->piece[i];
        const tile t = { .a = rows + (k->first + p->begin) * width,
                         .b = lanes + p->from * LANES,
                         .c = to + p->begin * BLOCK + p->from * LANES,
                         .a_row = width,
                         .a_col = 1,
                         .b_row = BLOCK,
                         .c_row = BLOCK,
                         .k = width,
                         .start = (start ? start : zeros) + p->from * LANES };
        product_of(t, p->end - p->begin, b->n_vectors - p->from, PLAIN);
    }
}
/* The same where everybody sees every key and nothing else is to be done: 2^scores, whose sums over the keys are added to `total`; or the scores times `other`. */
static void scores_and(ending end, const keys *k, const queries *b, const real *rows, int64_t width, const real *lanes, const real *start,
                       const real *other, real *total, real *to)
{
    const tile t = { .a = rows + k->first * width,
                     .b = lanes,
                     .c = to,
                     .a_row = width,
                     .a_col = 1,
                     .b_row = BLOCK,
                     .c_row = BLOCK,
                     .k = width,
                     .start = start,
                     .other = other,
                     .total = total };
    product_of(t, k->n, b->n_vectors, end);
}
/* to[·][query] += rowsᵀ of keys · weights[key][query] */
static void spread(const keys *k, const queries *b, const real *rows, int64_t width, const real *weights, real *to)
{
    for (int i = 0; i < k->pieces; i++) {
        const piece *p = &k->piece[i];
        const tile t = { .a = rows + (k->first + p->begin) * width,
                         .b = weights + p->begin * BLOCK + p->from * LANES,
                         .c = to + p->from * LANES,
                         .a_row = 1,
                         .a_col = width,
                         .b_row = BLOCK,
                         .c_row = BLOCK,
                         .k = p->end - p->begin };
        product_of(t, width, b->n_vectors - p->from, SPREAD);
    }
}
/* to[key][·] += weights[key][query] · rows of queries */
static void gather(const keys *k, const queries *b, const real *weights, const real *rows, int64_t width, real *to)
{
    for (int i = 0; i < k->pieces; i++) {
        const piece *p = &k->piece[i];
        const tile t = { .a = weights + p->begin * BLOCK + p->from * LANES,
                         .b = rows + p->from * LANES * padded(width),
                         .c = to + p->begin * padded(width),
                         .a_row = BLOCK,
                         .a_col = 1,
                         .b_row = padded(width),
                         .c_row = padded(width),
                         .k = (b->n_vectors - p->from) * LANES };
        product_of(t, p->end - p->begin, vectors(width), GATHER);
    }
}

/* bias[key][query]: what a float mask adds, in units of log 2; 0 or -inf for a boolean one. */
static void load_mask(const cj_attention_job *j, const head *x, const queries *b, const keys *k, room *r)
{
    const int64_t elem = cj__elem_size(j->mask_type), n = j->mask.row ? b->n : 1;
    for (int64_t i = 0; i < n; i++) {
        real *row = r->rows + i * BLOCK;
        const char *from = x->mask + ((b->first + i) * j->mask.row + k->first * j->mask.column) * elem;
        CJ_K(cj__convert_strided)(j->mask_type, from, j->mask.column, REAL, row, k->n);
        if (j->mask_type == CJ_BOOL)
            for (int64_t e = 0; e < k->n; e++) row[e] = row[e] != 0 ? 0 : -(real)INFINITY;
        else
            for (int64_t e = 0; e < k->n; e++) row[e] *= LOG2E;
    }
    if (j->mask.row == 0) { /* the same for all queries */
        for (int64_t e = 0; e < k->n; e++)
            for (int64_t i = 0; i < b->n_vectors; i++) vr_store(r->bias + e * BLOCK + i * LANES, vr_set1(r->rows[e]));
        return;
    }
    memset(r->rows + n * BLOCK, 0, (size_t)((b->n_vectors * LANES - n) * BLOCK) * sizeof(real));
    transpose(r->rows, BLOCK, b->n_vectors * LANES, padded(k->n), 1, r->bias, BLOCK);
}

/* keep[key][query]: 0 or 1/(1-p). */
static void draw_dropout(const cj_attention_job *j, const head *x, const queries *b, const keys *k, room *r)
{
    const uint64_t threshold = cj_philox_threshold(1 - j->drop);
    const real factor = j->drop < 1 ? (real)(1 / (1 - j->drop)) : 0;
    uint32_t key[2], words[2 * BLOCK]; /* BLOCK + 3, and what a whole group of vectors makes of it */
    cj_philox_key(j->seed, j->stream, key);
    for (int64_t i = 0; i < b->n; i++) {
        const uint64_t first = (uint64_t)((x->h * j->tq + b->first + i) * j->tk + k->first);
        const int skip = (int)(first % 4);
        CJ_K(cj__philox_words)(key, j->call, first / 4, (int)(skip + k->n + 3) / 4, words);
        real *row = r->rows + i * BLOCK;
        for (int64_t e = 0; e < k->n; e++) row[e] = cj_philox_bernoulli(words[skip + e], threshold) ? factor : 0;
    }
    memset(r->rows + b->n * BLOCK, 0, (size_t)((b->n_vectors * LANES - b->n) * BLOCK) * sizeof(real));
    transpose(r->rows, BLOCK, b->n_vectors * LANES, padded(k->n), 1, r->keep, BLOCK);
}

static void load_extras(const cj_attention_job *j, const head *x, const queries *b, const keys *k, room *r)
{
    if (r->bias) load_mask(j, x, b, k, r);
    if (r->keep) draw_dropout(j, x, b, k, r);
}

/* Positions of a vector's queries among the keys of the block. */
CJ_INLINE vr positions(const head *x, const queries *b, const keys *k, int64_t vector)
{
    const int64_t at = b->first + vector * LANES + x->offset - k->first;
    if (!k->border) return vr_set1(0); /* nobody asks */
    real lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = (real)(at < -BLOCK ? -BLOCK : at) + (real)l;
    return vr_load(lane);
}

/* ---- forward -------------------------------------------------------------------------------------------------------------------------------------- */

/* The maxima of S over the keys of a block; masked scores are written back. */
CJ_INLINE vr block_max(real *s, const real *bias, bool border, vr position, int64_t n, vr top)
{
    const vr never = vr_set1(-(real)INFINITY);
    if (!bias && !border) {
        vr t[4] = { top, never, never, never };
        int64_t e = 0;
        for (; e + 4 <= n; e += 4)
            for (int u = 0; u < 4; u++) t[u] = vr_max(vr_load(s + (e + u) * BLOCK), t[u]);
        for (; e < n; e++) t[0] = vr_max(vr_load(s + e * BLOCK), t[0]);
        return vr_max(vr_max(t[1], t[0]), vr_max(t[3], t[2]));
    }
    for (int64_t e = 0; e < n; e++) {
        vr x = vr_load(s + e * BLOCK);
        if (bias) x = x + vr_load(bias + e * BLOCK);
        if (border) x = vr_at_most(vr_set1((real)e), position, x, never);
        vr_store(s + e * BLOCK, x);
        top = vr_max(x, top);
    }
    return top;
}

/* P = 2^(S - top) in place of S; returns the sum over the keys. */
CJ_INLINE vr block_exp(real *s, const real *keep, int64_t n, vr top)
{
    vr a = vr_set1(0), b = a;
    int64_t e = 0;
    for (; e + 2 <= n; e += 2) {
        vr p = vr_exp2(vr_load(s + e * BLOCK) - top), q = vr_exp2(vr_load(s + (e + 1) * BLOCK) - top);
        a = a + p;
        b = b + q;
        if (keep) p = p * vr_load(keep + e * BLOCK), q = q * vr_load(keep + (e + 1) * BLOCK);
        vr_store(s + e * BLOCK, p);
        vr_store(s + (e + 1) * BLOCK, q);
    }
    if (e < n) {
        vr p = vr_exp2(vr_load(s + e * BLOCK) - top);
        a = a + p;
        if (keep) p = p * vr_load(keep + e * BLOCK);
        vr_store(s + e * BLOCK, p);
    }
    return a + b;
}

/* What a block of queries knows of the keys so far: m and l, m = -inf where nothing was seen. */
typedef struct state {
    _Alignas(64) real top[BLOCK], sum[BLOCK];
} state;

static void shrink_lanes(const cj_attention_job *j, room *r, int64_t lane, vr factor)
{
    for (int64_t e = 0; e < j->dv; e++) vr_store(r->out_t + e * BLOCK + lane, vr_load(r->out_t + e * BLOCK + lane) * factor);
}

/* The weights of a block that has a mask, dropout or the causal border in it, or where the keys are few: the maximum first, so that a single key has the weight 1. */
static void weights_from_top(const cj_attention_job *j, room *r, const head *x, const queries *b, const keys *k, state *now)
{
    const vr never = vr_set1(-(real)INFINITY), zero = vr_set1(0);
    scores(k, b, x->k, j->d, r->q_t, NULL, r->s);
    load_extras(j, x, b, k, r);
    for (int64_t v = 0; v < b->n_vectors; v++) {
        const int64_t n = reach(k, v), lane = v * LANES;
        if (n == 0) continue;
        const vr was = vr_load(now->top + lane);
        const vr top = block_max(r->s + lane, r->bias ? r->bias + lane : NULL, k->border, positions(x, b, k, v), n, was);
        const vr base = vr_at_most(top, never, zero, top); /* nothing seen yet: any finite number will do */
        const vr shrink = vr_exp2(was - base);
        const vr part = block_exp(r->s + lane, r->keep ? r->keep + lane : NULL, n, base);
        vr_store(now->top + lane, top);
        vr_store(now->sum + lane, vr_fma(vr_load(now->sum + lane), shrink, part));
        if (k->first > 0) shrink_lanes(j, r, lane, shrink);
    }
}

/* 1 in the lanes where weights on the old base are too large, or altogether too small, or NaN; 0 in the others. */
CJ_INLINE vr out_of_reach(vr part, vr sum)
{
    const vr zero = vr_set1(0), one = vr_set1(1);
    return vr_at_most(part, vr_set1(LARGEST), vr_at_most(vr_set1(SMALLEST), sum + part, zero, one), one);
}

/* The base of the lanes that need it moves to the maximum of their scores. */
static void move_base(const cj_attention_job *j, room *r, const head *x, const queries *b, const keys *k, state *now, real *start,
                      const real *part)
{
    const vr never = vr_set1(-(real)INFINITY), zero = vr_set1(0);
    scores(k, b, x->k, j->d, r->q_t, start, r->s);
    for (int64_t lane = 0; lane < b->n_vectors * LANES; lane += LANES) {
        const vr sum = vr_load(now->sum + lane), top = block_max(r->s + lane, NULL, false, zero, k->n, never);
        const vr step = vr_at_most(out_of_reach(vr_load(part + lane), sum), zero, zero, vr_at_most(top, never, zero, top));
        const vr shrink = vr_at_most(sum, zero, zero, vr_exp2(zero - step)); /* 0·inf where there is nothing to shrink */
        vr_store(start + lane, vr_load(start + lane) - step);
        vr_store(now->sum + lane, sum * shrink);
        shrink_lanes(j, r, lane, shrink);
    }
}

/* The weights of a later block of which every query sees every key. */
static void weights_plain(const cj_attention_job *j, room *r, const head *x, const queries *b, const keys *k, state *now)
{
    const vr never = vr_set1(-(real)INFINITY), zero = vr_set1(0);
    const int64_t lanes = b->n_vectors * LANES;
    _Alignas(64) real start[BLOCK], part[BLOCK] = { 0 }, bad[BLOCK];
    for (int64_t i = 0; i < lanes; i += LANES) {
        const vr top = vr_load(now->top + i);
        vr_store(start + i, vr_at_most(top, never, zero, zero - top));
    }
    scores_and(EXPS, k, b, x->k, j->d, r->q_t, start, NULL, part, r->s);
    for (int64_t i = 0; i < lanes; i += LANES) vr_store(bad + i, out_of_reach(vr_load(part + i), vr_load(now->sum + i)));
    int some = 0;
    for (int64_t i = 0; i < lanes; i++) some |= bad[i] != 0;
    if (some) {
        move_base(j, r, x, b, k, now, start, part);
        memset(part, 0, sizeof part);
        scores_and(EXPS, k, b, x->k, j->d, r->q_t, start, NULL, part, r->s);
    }
    for (int64_t i = 0; i < lanes; i += LANES) {
        const vr sum = vr_load(now->sum + i) + vr_load(part + i);
        vr_store(now->sum + i, sum);
        vr_store(now->top + i, vr_at_most(sum, zero, never, zero - vr_load(start + i)));
    }
}

static void forward_block(const cj_attention_job *j, room *r, const head *x, int64_t first)
{
    const queries b = queries_of(j, x, first);
    const int64_t wide = padded(j->dv), elem = cj__elem_size(j->t);
    const vr never = vr_set1(-(real)INFINITY), zero = vr_set1(0), one = vr_set1(1);
    _Alignas(64) real lse[BLOCK];
    state now;
    load_block(j, &j->q, x->q, &b, j->d, (real)j->scale * LOG2E, r->q_t, r->q_rows, false);
    expect_rows(result_at(j, &j->o, elem, x->h, false, first), j->o.row, b.n, j->dv, elem);
    memset(r->out_t, 0, (size_t)(wide * BLOCK) * sizeof(real));
    for (int64_t i = 0; i < BLOCK; i += LANES) vr_store(now.top + i, never), vr_store(now.sum + i, zero);
    for (int64_t at = 0; at < b.keys; at += BLOCK) {
        const keys k = keys_of(j, x, &b, at);
        if (b.keys < BLOCK || r->bias || r->keep || k.border) weights_from_top(j, r, x, &b, &k, &now);
        else weights_plain(j, r, x, &b, &k, &now);
        spread(&k, &b, x->v, j->dv, r->s, r->out_t);
    }
    for (int64_t v = 0; v < b.n_vectors; v++) {
        const int64_t lane = v * LANES;
        const vr total = vr_load(now.sum + lane), most = vr_load(now.top + lane);
        const vr inverse = vr_at_most(most, never, zero, one / total);
        shrink_lanes(j, r, lane, inverse);
        vr_store(lse + lane, vr_at_most(most, never, vr_set1((real)INFINITY), vr_fma(most, vr_set1(LN2), vr_log(total))));
    }
    store_block(j, r, &j->o, x->h, &b, j->dv);
    memcpy((real *)j->lse + x->h * j->tq + first, lse, (size_t)b.n * sizeof(real));
}

/* ---- backward ---------------------------------------------------------------------------------------------------------------------------------------- */

enum { FOR_QUERIES = 1, FOR_KEYS = 2 }; /* which gradients a task makes */

/* S and dP become P and dS. */
CJ_INLINE void block_slopes(real *s, real *dp, const real *bias, const real *keep, bool border, vr position, int64_t n, vr lse, vr delta)
{
    const vr never = vr_set1(-(real)INFINITY);
    for (int64_t e = 0; e < n; e++) {
        vr x = vr_load(s + e * BLOCK), g = vr_load(dp + e * BLOCK);
        if (bias) x = x + vr_load(bias + e * BLOCK);
        if (border) x = vr_at_most(vr_set1((real)e), position, x, never);
        vr p = vr_exp2(x - lse), kept = p;
        if (keep) {
            const vr factor = vr_load(keep + e * BLOCK);
            g = g * factor;
            kept = p * factor;
        }
        vr_store(s + e * BLOCK, kept);
        vr_store(dp + e * BLOCK, p * (g - delta));
    }
}

/* lse, in units of log 2, and D·scale of a block's queries; queries that are not there see nothing. */
static void load_statistics(const cj_attention_job *j, const head *x, const queries *b, room *r, const real *g_rows, real *lse, real *delta)
{
    const int64_t wide = padded(j->dv), at = x->h * j->tq + b->first, lanes = b->n_vectors * LANES;
    const real *o = (const real *)(const void *)result_at(j, &j->o, sizeof(real), x->h, false, b->first);
    const bool direct = j->dv == wide && b->n == lanes;
    for (int64_t i = 0; i < lanes; i++) lse[i] = i < b->n ? ((const real *)j->lse)[at + i] * LOG2E : (real)INFINITY;
    if (!direct) load_rows(REAL, o, j->o.row, b->n, j->dv, r->out_rows, lanes);
    row_products(g_rows, wide, direct ? o : r->out_rows, direct ? j->o.row : wide, lanes, wide, delta);
    for (int64_t i = 0; i < lanes; i++) delta[i] *= (real)j->scale;
}

/* P and dS of a block that has a mask, dropout or the causal border in it. */
static void slopes_masked(const cj_attention_job *j, room *r, const head *x, const queries *b, const keys *k, const real *lse,
                          const real *delta)
{
    scores(k, b, x->k, j->d, r->q_t, NULL, r->s);
    scores(k, b, x->v, j->dv, r->g_t, NULL, r->dp);
    load_extras(j, x, b, k, r);
    for (int64_t v = 0; v < b->n_vectors; v++) {
        const int64_t lane = v * LANES;
        block_slopes(r->s + lane, r->dp + lane, r->bias ? r->bias + lane : NULL, r->keep ? r->keep + lane : NULL, k->border,
                     positions(x, b, k, v), reach(k, v), vr_load(lse + lane), vr_load(delta + lane));
    }
}

/* A block of queries against the keys [key0, key1), whose gradients begin at gk and gv. */
static void backward_block(const cj_attention_job *j, room *r, const head *x, int64_t first, int64_t key0, int64_t key1, real *gk, real *gv,
                           int wanted)
{
    const queries b = queries_of(j, x, first);
    const int64_t d = padded(j->d), dv = padded(j->dv), elem = cj__elem_size(j->t), end = least(b.keys, key1);
    _Alignas(64) real lse[BLOCK], delta[BLOCK], less_lse[BLOCK], less_delta[BLOCK];
    const real *q_rows = NULL, *g_rows = NULL;
    if (end > key0) {
        q_rows = load_block(j, &j->q, x->q, &b, j->d, (real)j->scale * LOG2E, r->q_t, r->q_rows, true);
        g_rows = load_block(j, &j->g, head_of(j, &j->g, elem, x->h, false), &b, j->dv, (real)j->scale, r->g_t, r->g_rows, true);
        load_statistics(j, x, &b, r, g_rows, lse, delta);
        for (int64_t i = 0; i < b.n_vectors * LANES; i++) less_lse[i] = -lse[i], less_delta[i] = -delta[i];
    }
    if (r->dk && wanted & FOR_KEYS && first >= key0 && first < key1) {
        expect_rows(result_at(j, &j->dk, elem, x->h, true, first), j->dk.row, least(BLOCK, key1 - first), j->d, elem);
        expect_rows(result_at(j, &j->dvalue, elem, x->h, true, first), j->dvalue.row, least(BLOCK, key1 - first), j->dv, elem);
    }
    if (wanted & FOR_QUERIES) {
        expect_rows(result_at(j, &j->dq, elem, x->h, false, first), j->dq.row, b.n, j->d, elem);
        memset(r->out_t, 0, (size_t)(d * BLOCK) * sizeof(real));
    }
    for (int64_t at = key0; at < end; at += BLOCK) {
        const keys k = keys_of(j, x, &b, at);
        if (r->bias || r->keep || k.border) {
            slopes_masked(j, r, x, &b, &k, lse, delta);
        } else {
            scores_and(EXPS, &k, &b, x->k, j->d, r->q_t, less_lse, NULL, NULL, r->s);
            scores_and(TIMES, &k, &b, x->v, j->dv, r->g_t, less_delta, r->s, NULL, r->dp);
        }
        if (wanted & FOR_QUERIES) spread(&k, &b, x->k, j->d, r->dp, r->out_t);
        if (wanted & FOR_KEYS) {
            gather(&k, &b, r->s, g_rows, j->dv, gv + (at - key0) * dv);
            gather(&k, &b, r->dp, q_rows, j->d, gk + (at - key0) * d);
        }
    }
    if (wanted & FOR_QUERIES) store_block(j, r, &j->dq, x->h, &b, j->d);
}

/* Gradients of the keys [key0, key1) of a head of k and v, from all queries that share it; with FOR_QUERIES those of the queries, too. */
static void backward_keys(const cj_attention_job *j, room *r, head *x, int64_t shared, int64_t key0, int64_t key1, int wanted)
{
    const int64_t d = padded(j->d), dv = padded(j->dv), n = key1 - key0, elem = cj__elem_size(j->t);
    char *dk = result_at(j, &j->dk, elem, shared * j->group, true, key0),
         *dvalue = result_at(j, &j->dvalue, elem, shared * j->group, true, key0);
    real *gk = r->dk ? r->dk : (real *)(void *)dk, *gv = r->dv ? r->dv : (real *)(void *)dvalue;
    memset(gk, 0, (size_t)(n * d) * sizeof(real));
    memset(gv, 0, (size_t)(n * dv) * sizeof(real));
    for (int64_t h = shared * j->group; h < (shared + 1) * j->group; h++) {
        head_open(j, r, h, x);
        for (int64_t first = 0; first < j->tq; first += BLOCK) backward_block(j, r, x, first, key0, key1, gk, gv, wanted);
    }
    if (r->dk) store_rows(j->t, gk, n, j->d, dk, j->dk.row);
    if (r->dv) store_rows(j->t, gv, n, j->dv, dvalue, j->dvalue.row);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct tasks {
    const cj_attention_job *j;
    char *scratch;
    size_t bytes;           /* of a worker */
    int64_t blocks, ranges; /* of queries; of keys */
    int64_t keys;           /* of a range */
} tasks;

enum { RANGE = 4 * BLOCK }; /* keys of a task where heads alone are too few */

static room room_of(const tasks *t, bool backward, int worker)
{
    room r;
    room_cut(t->j, backward, t->keys, (real *)(void *)(t->scratch + (size_t)worker * t->bytes), &r);
    return r;
}

/* Task: a block of queries of a head. */
static void forward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const tasks *t = arg;
    room r = room_of(t, false, worker);
    head x = { .h = -1 };
    for (int64_t i = begin; i < end; i++) {
        if (x.h != i / t->blocks) head_open(t->j, &r, i / t->blocks, &x);
        forward_block(t->j, &r, &x, i % t->blocks * BLOCK);
    }
}

/* Task: a head of k and v, with everything. */
static void backward_heads(void *arg, int64_t begin, int64_t end, int worker)
{
    const tasks *t = arg;
    room r = room_of(t, true, worker);
    head x = { .h = -1 };
    for (int64_t i = begin; i < end; i++) backward_keys(t->j, &r, &x, i, 0, t->j->tk, FOR_QUERIES | FOR_KEYS);
}

/* Task: a range of keys of a head of k and v. */
static void backward_ranges(void *arg, int64_t begin, int64_t end, int worker)
{
    const tasks *t = arg;
    room r = room_of(t, true, worker);
    head x = { .h = -1 };
    for (int64_t i = begin; i < end; i++) {
        const int64_t key0 = i % t->ranges * t->keys;
        backward_keys(t->j, &r, &x, i / t->ranges, key0, least(key0 + t->keys, t->j->tk), FOR_KEYS);
    }
}

/* Task: a block of queries of a head. */
static void backward_queries(void *arg, int64_t begin, int64_t end, int worker)
{
    const tasks *t = arg;
    room r = room_of(t, true, worker);
    head x = { .h = -1 };
    for (int64_t i = begin; i < end; i++) {
        if (x.h != i / t->blocks) head_open(t->j, &r, i / t->blocks, &x);
        backward_block(t->j, &r, &x, i % t->blocks * BLOCK, 0, t->j->tk, NULL, NULL, FOR_QUERIES);
    }
}

/* Heads of k and v that are fewer than threads are cut into ranges of keys, and the gradient of the queries is a pass of its own: two more products, the same bits. */
static bool heads_suffice(const cj_attention_job *j, int threads) { return j->heads / j->group >= threads || j->tk <= RANGE; }

static size_t workspace(const cj_attention_job *j, bool backward, int threads)
{
    room r;
    return (size_t)threads * room_cut(j, backward, heads_suffice(j, threads) ? j->tk : RANGE, NULL, &r);
}

static void run(cj_pool *pool, const cj_attention_job *j, bool backward, void *scratch)
{
    const int threads = cj__pool_threads(pool);
    const bool whole = heads_suffice(j, threads);
    tasks t = { .j = j, .scratch = scratch, .keys = whole ? j->tk : RANGE };
    t.bytes = workspace(j, backward, threads) / (size_t)threads;
    t.blocks = (j->tq + BLOCK - 1) / BLOCK;
    t.ranges = (j->tk + t.keys - 1) / (t.keys ? t.keys : 1);
    const int64_t shared = j->heads / j->group;
    if (j->heads * j->tq * j->tk * j->d < 32768) pool = NULL; /* not worth waking anybody */
    if (!backward) {
        cj__parallel_for(pool, j->heads * t.blocks, j->heads >= 4 * threads ? t.blocks : 1, forward_tasks, &t);
    } else if (whole) {
        cj__parallel_for(pool, shared, 1, backward_heads, &t);
    } else {
        cj__parallel_for(pool, shared * t.ranges, 1, backward_ranges, &t);
        cj__parallel_for(pool, j->heads * t.blocks, 1, backward_queries, &t);
    }
}
