/* Copies over any strides with conversion, and fills.
 *
 * Dimensions are put in the order of the destination's strides and merged where both sides allow it.  What is left is one of three: contiguous runs
 * (memcpy or a vectorised conversion), a transpose (some dimension has unit stride in x, another in y: tiles of cache lines, 16-byte blocks turned in
 * registers), or strided runs.
 */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define CHUNK 32768 /* elements of one parallel chunk, about */
#define MIN_PARALLEL 32768
#define STREAM_BYTES (8 << 20) /* copies larger than this go past the cache */

typedef struct dim {
    int64_t n, sx, sy;
} dim;

typedef struct copy_job {
    cj_dtype xt, yt;
    int xe, ye; /* bytes of an element */
    const char *x;
    char *y;
    int nd;                            /* dimensions but the run (and, in a transpose, the columns) */
    dim d[CJ_MAX_DIMS];                /* outermost first */
    dim run, col;                      /* run: innermost in y; col: unit stride in x (transposes) */
    int64_t piece, pieces, col_pieces; /* elements of a piece of a run; pieces per run */
    bool stream;
} copy_job;

/* Offsets of item i of the outer dimensions. */
static void offsets(const copy_job *j, int64_t i, int64_t *ox, int64_t *oy)
{
    *ox = *oy = 0;
    for (int k = j->nd - 1; k >= 0; k--) {
        const int64_t q = i / j->d[k].n, r = i - q * j->d[k].n;
        *ox += r * j->d[k].sx;
        *oy += r * j->d[k].sy;
        i = q;
    }
}

/* ---- runs ---------------------------------------------------------------------------------------------------------------------------- */

/* memcpy with stores past the cache: saves reading the destination. */
static void copy_stream(char *y, const char *x, int64_t bytes)
{
    const int64_t w = (int64_t)sizeof(vf);
    int64_t head = (int64_t)((uintptr_t)(-(intptr_t)y) & (uintptr_t)(w - 1)), i;
    if (head > bytes) head = bytes;
    memcpy(y, x, (size_t)head);
    for (i = head; i + w <= bytes; i += w) {
        vf v;
        memcpy(&v, x + i, sizeof v);
        vf_stream((float *)(void *)(y + i), v);
    }
    memcpy(y + i, x + i, (size_t)(bytes - i));
    vf_stream_end();
}

CJ_INLINE void small_copy(char *y, const char *x, int64_t bytes)
{
    if (bytes == 8) memcpy(y, x, 8);
    else if (bytes == 4) memcpy(y, x, 4);
    else memcpy(y, x, (size_t)bytes);
}

static void copy_run(const copy_job *j, const char *x, char *y, int64_t n)
{
    const int64_t sx = j->run.sx, sy = j->run.sy;
    if (j->xt == j->yt) {
        if (sx == 1 && sy == 1) {
            if (j->stream) copy_stream(y, x, n * j->xe);
            else small_copy(y, x, n * j->xe);
        } else CJ_K(cj__move_strided)(j->xe, x, sx, y, sy, n);
        return;
    }
    if (sy == 1) {
        CJ_K(cj__convert_strided)(j->xt, x, sx, j->yt, y, n);
        return;
    }
    uint64_t block[256];
    for (int64_t i = 0; i < n; i += 256) {
        const int64_t m = n - i < 256 ? n - i : 256;
        CJ_K(cj__convert_strided)(j->xt, x + i * sx * j->xe, sx, j->yt, block, m);
        CJ_K(cj__move_strided)(j->ye, block, 1, y + i * sy * j->ye, sy, m);
    }
}

static void copy_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const copy_job *j = arg;
    (void)worker;
    int64_t i = begin;
    while (i < end) {
        int64_t ox, oy;
        const int64_t row = i / j->pieces, p = i - row * j->pieces;
        offsets(j, row, &ox, &oy);
        const char *x = j->x + ox * j->xe;
        char *y = j->y + oy * j->ye;
        if (j->pieces > 1) {
            const int64_t at = p * j->piece, n = j->run.n - at < j->piece ? j->run.n - at : j->piece;
            copy_run(j, x + at * j->run.sx * j->xe, y + at * j->run.sy * j->ye, n);
            i++;
            continue;
        }
        /* Whole runs: walk the innermost of the outer dimensions without dividing again. */
        int64_t m = 1;
        const dim *d = j->nd > 0 ? &j->d[j->nd - 1] : NULL;
        if (d) m = d->n - row % d->n;
        if (m > end - i) m = end - i;
        const int64_t stepx = d ? d->sx * j->xe : 0, stepy = d ? d->sy * j->ye : 0;
        for (int64_t k = 0; k < m; k++) copy_run(j, x + k * stepx, y + k * stepy, j->run.n);
        i += m;
    }
}

/* ---- transposes ---------------------------------------------------------------------------------------------------------------------- */

/* A block of L x L elements in vectors of L: log2(L) rounds that interleave row i with row i + L/2.  4- and 8-byte elements take the widest vectors, so
 * that with AVX-512 a load and a store is a whole cache line; what is left at the edges goes by 16-byte vectors, then one by one. */
typedef uint8_t v1 __attribute__((vector_size(16)));
typedef uint16_t v2 __attribute__((vector_size(16)));
typedef uint32_t v4 __attribute__((vector_size(16)));
typedef uint64_t v8 __attribute__((vector_size(16)));
typedef uint32_t w4 __attribute__((vector_size(4 * CJ_VL)));
typedef uint64_t w8 __attribute__((vector_size(4 * CJ_VL)));

#define LO1 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HI1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LO2 0, 8, 1, 9, 2, 10, 3, 11
#define HI2 4, 12, 5, 13, 6, 14, 7, 15
#define LO4 0, 4, 1, 5
#define HI4 2, 6, 3, 7
#define LO8 0, 2
#define HI8 1, 3

#define BLOCK(name, type, L, LO, HI)                                                                                                       \
    CJ_INLINE void name(const char *x, int64_t sx, char *y, int64_t sy)                                                                    \
    {                                                                                                                                      \
        type a[L], b[L];                                                                                                                   \
        for (int i = 0; i < L; i++) memcpy(&a[i], x + i * sx, sizeof(type));                                                               \
        for (int round = 1; round < L; round *= 2) {                                                                                       \
            for (int i = 0; i < L / 2; i++) {                                                                                              \
                b[2 * i] = __builtin_shufflevector(a[i], a[i + L / 2], LO);                                                                \
                b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + L / 2], HI);                                                            \
            }                                                                                                                              \
            for (int i = 0; i < L; i++) a[i] = b[i];                                                                                       \
        }                                                                                                                                  \
        for (int i = 0; i < L; i++) memcpy(y + i * sy, &a[i], sizeof(type));                                                               \
    }
BLOCK(turn1, v1, 16, LO1, HI1)
BLOCK(turn2, v2, 8, LO2, HI2)
BLOCK(turn4, v4, 4, LO4, HI4)
BLOCK(turn8, v8, 2, LO8, HI8)
#if CJ_VL == 16
BLOCK(wide4, w4, 16, LO1, HI1)
BLOCK(wide8, w8, 8, LO2, HI2)
#elif CJ_VL == 8
BLOCK(wide4, w4, 8, LO2, HI2)
BLOCK(wide8, w8, 4, LO4, HI4)
#endif
#undef BLOCK

/* y[r, c] = x[c, r] for r < rows, c < cols; sx bytes between the rows of x (index c), sy between those of y (index r). */
#define TILE(name, block, size, L)                                                                                                         \
    static void name(const char *x, int64_t sx, char *y, int64_t sy, int64_t rows, int64_t cols)                                           \
    {                                                                                                                                      \
        int64_t r = 0;                                                                                                                     \
        for (; r + L <= rows; r += L) {                                                                                                    \
            int64_t c = 0;                                                                                                                 \
            for (; c + L <= cols; c += L) block(x + c * sx + r * size, sx, y + r * sy + c * size, sy);                                     \
            for (; c < cols; c++)                                                                                                          \
                for (int k = 0; k < L; k++) memcpy(y + (r + k) * sy + c * size, x + c * sx + (r + k) * size, size);                        \
        }                                                                                                                                  \
        for (; r < rows; r++)                                                                                                              \
            for (int64_t c = 0; c < cols; c++) memcpy(y + r * sy + c * size, x + c * sx + r * size, size);                                 \
    }
TILE(tile1, turn1, 1, 16)
TILE(tile2, turn2, 2, 8)
TILE(tile4, turn4, 4, 4)
TILE(tile8, turn8, 8, 2)
#undef TILE

/* Whole wide blocks, then the two strips at the edges. */
#if CJ_VL > 4
#define WIDE(name, block, rest, size, L)                                                                                                   \
    static void name(const char *x, int64_t sx, char *y, int64_t sy, int64_t rows, int64_t cols)                                           \
    {                                                                                                                                      \
        const int64_t r1 = rows - rows % L, c1 = cols - cols % L;                                                                          \
        for (int64_t r = 0; r < r1; r += L)                                                                                                \
            for (int64_t c = 0; c < c1; c += L) block(x + c * sx + r * size, sx, y + r * sy + c * size, sy);                               \
        if (c1 < cols) rest(x + c1 * sx, sx, y + c1 * size, sy, r1, cols - c1);                                                            \
        if (r1 < rows) rest(x + r1 * size, sx, y + r1 * sy, sy, rows - r1, cols);                                                          \
    }
WIDE(tile4_wide, wide4, tile4, 4, CJ_VL)
WIDE(tile8_wide, wide8, tile8, 8, (CJ_VL / 2))
#undef WIDE
#else
#define tile4_wide tile4
#define tile8_wide tile8
#endif

static void tile(int size, const char *x, int64_t sx, char *y, int64_t sy, int64_t rows, int64_t cols)
{
    switch (size) {
    case 1: tile1(x, sx, y, sy, rows, cols); break;
    case 2: tile2(x, sx, y, sy, rows, cols); break;
    case 4: tile4_wide(x, sx, y, sy, rows, cols); break;
    default: tile8_wide(x, sx, y, sy, rows, cols); break;
    }
}

#define TILE_SIDE 64 /* elements; 32 for 8-byte elements */

static void transpose_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const copy_job *j = arg;
    (void)worker;
    _Alignas(64) char block[TILE_SIDE * TILE_SIDE * 4];
    const int64_t side = j->piece;
    for (int64_t i = begin; i < end; i++) {
        int64_t ox, oy, k = i;
        const int64_t tc = k % j->pieces;
        k /= j->pieces;
        const int64_t tr = k % j->col_pieces;
        offsets(j, k / j->col_pieces, &ox, &oy);
        const int64_t c0 = tc * side, r0 = tr * side;
        const int64_t cols = j->run.n - c0 < side ? j->run.n - c0 : side, rows = j->col.n - r0 < side ? j->col.n - r0 : side;
        const char *x = j->x + (ox + c0 * j->run.sx + r0) * j->xe;
        char *y = j->y + (oy + r0 * j->col.sy + c0) * j->ye;
        if (j->xt == j->yt) {
            tile(j->xe, x, j->run.sx * j->xe, y, j->col.sy * j->ye, rows, cols);
            continue;
        }
        tile(j->xe, x, j->run.sx * j->xe, block, side * j->xe, rows, cols);
        for (int64_t r = 0; r < rows; r++) CJ_K(cj__convert)(j->xt, block + r * side * j->xe, j->yt, y + r * j->col.sy * j->ye, cols);
    }
}

/* ---- entry --------------------------------------------------------------------------------------------------------------------------- */

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* Orders, turns (positive strides in y) and merges the dimensions; returns their number, or -1 when there is nothing to copy. */
static int simplify(int ndim, const int64_t *shape, const int64_t *xs, const int64_t *ys, dim *d, int64_t *ox, int64_t *oy)
{
    int n = 0;
    *ox = *oy = 0;
    for (int k = 0; k < ndim; k++) {
        if (shape[k] == 0) return -1;
        if (shape[k] == 1) continue;
        dim e = { shape[k], xs[k], ys[k] };
        if (e.sy < 0) {
            *ox += (e.n - 1) * e.sx;
            *oy += (e.n - 1) * e.sy;
            e.sx = -e.sx;
            e.sy = -e.sy;
        }
        int at = n++;
        while (at > 0 && (d[at - 1].sy < e.sy || (d[at - 1].sy == e.sy && magnitude(d[at - 1].sx) < magnitude(e.sx)))) {
            d[at] = d[at - 1];
            at--;
        }
        d[at] = e;
    }
    int m = 0;
    for (int k = 0; k < n; k++) {
        if (m > 0 && d[m - 1].sx == d[k].n * d[k].sx && d[m - 1].sy == d[k].n * d[k].sy)
            d[m - 1] = (dim){ d[m - 1].n * d[k].n, d[k].sx, d[k].sy };
        else d[m++] = d[k];
    }
    return m;
}

static bool plan_transpose(copy_job *j)
{
    if (j->run.sy != 1 || j->run.sx == 1 || j->run.sx == 0 || j->run.n < 4) return false;
    for (int k = 0; k < j->nd; k++)
        if (j->d[k].sx == 1 && j->d[k].n >= 4 && j->d[k].sy != 0) {
            j->col = j->d[k];
            for (int l = k; l + 1 < j->nd; l++) j->d[l] = j->d[l + 1];
            j->nd--;
            j->piece = j->xe == 8 ? TILE_SIDE / 2 : TILE_SIDE;
            j->pieces = (j->run.n + j->piece - 1) / j->piece;
            j->col_pieces = (j->col.n + j->piece - 1) / j->piece;
            return true;
        }
    return false;
}

void CJ_K(cj__copy)(cj_pool *pool, int ndim, const int64_t *shape, cj_dtype xt, const void *x, const int64_t *xs, cj_dtype yt, void *y,
                    const int64_t *ys)
{
    copy_job j;
    int64_t ox, oy;
    const int n = simplify(ndim, shape, xs, ys, j.d, &ox, &oy);
    if (n < 0) return;
    j.xt = xt, j.yt = yt;
    j.xe = cj__elem_size(xt), j.ye = cj__elem_size(yt);
    j.x = (const char *)x + ox * j.xe;
    j.y = (char *)y + oy * j.ye;
    j.stream = false;
    if (n == 0) {
        j.run = (dim){ 1, 1, 1 };
        copy_run(&j, j.x, j.y, 1);
        return;
    }
    j.nd = n - 1;
    j.run = j.d[n - 1];
    int64_t rows = 1;
    if (plan_transpose(&j)) {
        for (int k = 0; k < j.nd; k++) rows *= j.d[k].n;
        const int64_t items = rows * j.pieces * j.col_pieces, of = j.run.n * j.col.n / (j.pieces * j.col_pieces);
        cj__parallel_for(pool, items, CHUNK / of + 1, transpose_items, &j);
        return;
    }
    for (int k = 0; k < j.nd; k++) rows *= j.d[k].n;
    j.piece = CHUNK;
    j.pieces = (j.run.n + CHUNK - 1) / CHUNK;
    j.stream = rows * j.run.n * j.ye >= STREAM_BYTES && j.run.n * j.ye >= 4096;
    if (rows * j.run.n <= MIN_PARALLEL) {
        j.pieces = 1;
        copy_items(&j, 0, rows, 0);
        return;
    }
    cj__parallel_for(pool, rows * j.pieces, j.pieces > 1 ? 1 : CHUNK / j.run.n + 1, copy_items, &j);
}

/* ---- fill ---------------------------------------------------------------------------------------------------------------------------- */

typedef struct fill_job {
    char *y;
    int size;
    bool stream;
    uint64_t bits;
} fill_job;

/* Zeros past the cache: nothing of what is overwritten is read. */
static void stream_zeros(char *y, int64_t bytes)
{
    enum { VECTOR = 4 * CJ_VL };
    const int64_t head = -(intptr_t)y & (VECTOR - 1), skip = head < bytes ? head : bytes;
    memset(y, 0, (size_t)skip);
    int64_t i = skip;
    for (; i + VECTOR <= bytes; i += VECTOR) vf_stream((float *)(void *)(y + i), vf_zero());
    vf_stream_end();
    memset(y + i, 0, (size_t)(bytes - i));
}

static void fill_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const fill_job *j = arg;
    const int64_t n = end - begin;
    (void)worker;
    if (j->stream) {
        stream_zeros(j->y + begin * j->size, n * j->size);
        return;
    }
    if (j->bits == 0) {
        memset(j->y + begin * j->size, 0, (size_t)(n * j->size));
        return;
    }
    CJ_K(cj__move_strided)(j->size, &j->bits, 0, j->y + begin * j->size, 1, n);
}

void CJ_K(cj__fill)(cj_pool *pool, cj_dtype t, void *y, int64_t n, double value, int64_t ivalue)
{
    if (n <= 0) return;
    fill_job j = { .y = y, .size = cj__elem_size(t) };
    if (t == CJ_I64 || t == CJ_I32 || t == CJ_U8) CJ_K(cj__convert)(CJ_I64, &ivalue, t, &j.bits, 1);
    else if (t == CJ_BOOL) *(unsigned char *)&j.bits = value != 0.0 || ivalue != 0;
    else CJ_K(cj__convert)(CJ_F64, &value, t, &j.bits, 1);
    j.stream = j.bits == 0 && n * j.size >= STREAM_BYTES;
    if (n <= MIN_PARALLEL) fill_range(&j, 0, n, 0);
    else cj__parallel_for(pool, n, 1 << 16, fill_range, &j);
}
