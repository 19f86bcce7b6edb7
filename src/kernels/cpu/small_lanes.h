/* The algorithms of small.c for one type; included twice, with
 *   R         float or double          INT       the integer of its size
 *   NAME(x)   x with the type's name   and the operations of vectors that small.c explains, of which the general ones are here */

typedef R NAME(vec) __attribute__((vector_size(SMALL_BYTES), aligned(SMALL_BYTES)));
typedef INT NAME(mask) __attribute__((vector_size(SMALL_BYTES), aligned(SMALL_BYTES)));
#define V NAME(vec)
#define M NAME(mask)
enum { NAME(lanes) = SMALL_BYTES / sizeof(R) };
#define LANES NAME(lanes)

CJ_INLINE V NAME(all)(R x)
{
    V v;
    for (int l = 0; l < LANES; l++) v[l] = x;
    return v;
}
CJ_INLINE V NAME(absolute)(V a) { return (V)((M)a & ~(M)NAME(all)(-(R)0)); }
#if !defined MASK
#define MASK M
#define GREATER(a, b) ((M)((a) > (b)))
#define EQUAL(a, b) ((M)((a) == (b)))
#define CHOOSE(m, a, b) ((V)(((m) & (M)(a)) | (~(m) & (M)(b))))
#endif
#if !defined ANY
#define ANY(m) NAME(any)(m)
CJ_INLINE bool NAME(any)(M m)
{
    uint64_t word[SMALL_BYTES / 8], all = 0;
    memcpy(word, &m, sizeof word);
    for (int i = 0; i < SMALL_BYTES / 8; i++) all |= word[i];
    return all != 0;
}
#endif
#if !defined FNMADD
#define FNMADD(c, a, b) ((c) - (a) * (b))
#endif
#if !defined STREAM
#define STREAM(p, x) (*(V *)(void *)(p) = (x))
#endif

CJ_TRANSPOSE(NAME(transpose), V, M, LANES)

/* Walks through the elements of a matrix in the order of memory and says where each lies in a[rows][width], from column `at` on, or transposed. */
typedef struct NAME(walk) {
    int64_t columns, step, turn, j, place; /* from element to element; from the last of a row to the first of the next */
} NAME(walk);
CJ_INLINE NAME(walk) NAME(walk_of)(int64_t columns, bool transpose, int64_t width, int64_t at)
{
    const int64_t step = transpose ? width : 1, row = transpose ? 1 : width;
    return (NAME(walk)){ columns, step, row - (columns - 1) * step, 0, at };
}
CJ_INLINE int64_t NAME(next)(NAME(walk) * w)
{
    const int64_t here = w->place;
    const bool last = ++w->j == w->columns;
    w->place += last ? w->turn : w->step;
    w->j = last ? 0 : w->j;
    return here;
}

/* Matrices [lane][rows, columns] to a[rows][width] of vectors, from column `at` on, or transposed; lanes past count repeat the last. */
static void NAME(interleave)(const R *x, int64_t count, int64_t rows, int64_t columns, bool transpose, V *a, int64_t width, int64_t at,
                             bool ahead)
{
    const int64_t size = rows * columns, whole = size / LANES * LANES;
    const R *from[LANES];
    NAME(walk) w = NAME(walk_of)(columns, transpose, width, at);
    for (int l = 0; l < LANES; l++) from[l] = x + (l < count ? l : count - 1) * size;
    for (int64_t e = 0; e < whole; e += LANES) {
        V block[LANES];
        for (int l = 0; l < LANES; l++) memcpy(&block[l], from[l] + e, sizeof block[l]);
        if (ahead)
            for (int l = 0; l < LANES; l++) __builtin_prefetch((const char *)(from[l] + e) + SMALL_AHEAD, 0, 2);
        NAME(transpose)(block);
        for (int l = 0; l < LANES; l++) a[NAME(next)(&w)] = block[l];
    }
    for (int64_t e = whole; e < size; e++) {
        R *to = (R *)&a[NAME(next)(&w)];
        for (int l = 0; l < LANES; l++) to[l] = from[l][e];
    }
}

/* The way back: the matrices of the first `count` lanes. stream: they are many more than the caches hold, and go past them where vectors are aligned. */
static void NAME(spread)(const V *a, int64_t width, int64_t at, int64_t count, int64_t rows, int64_t columns, R *y, bool stream)
{
    const int64_t size = rows * columns, whole = size / LANES * LANES;
    stream = stream && size % LANES == 0 && (uintptr_t)y % SMALL_BYTES == 0;
    NAME(walk) w = NAME(walk_of)(columns, false, width, at);
    for (int64_t e = 0; e < whole; e += LANES) {
        V block[LANES];
        for (int l = 0; l < LANES; l++) block[l] = a[NAME(next)(&w)];
        NAME(transpose)(block);
        if (stream)
            for (int64_t l = 0; l < count; l++) STREAM(y + l * size + e, block[l]);
        else
            for (int64_t l = 0; l < count; l++) memcpy(y + l * size + e, &block[l], sizeof block[l]);
    }
    for (int64_t e = whole; e < size; e++) {
        const R *from = (const R *)&a[NAME(next)(&w)];
        for (int64_t l = 0; l < count; l++) y[l * size + e] = from[l];
    }
}

/* Columns `from` … width - 1 of row `top` and of the rows whose number `place` names are exchanged, lane by lane. */
CJ_INLINE void NAME(exchange)(V *a, int64_t n, int64_t width, int64_t top, int64_t from, V place)
{
    MASK here[CJ_SMALL_MOST];
    V *row[CJ_SMALL_MOST];
    int hits = 0;
    for (int64_t i = top + 1; i < n; i++) {
        here[hits] = EQUAL(place, NAME(all)((R)i));
        row[hits] = a + i * width;
        hits += ANY(here[hits]);
    }
    for (int64_t j = from; j < width; j++) {
        const V old = a[top * width + j];
        V fresh = old;
        for (int h = 0; h < hits; h++) {
            const V x = row[h][j];
            fresh = CHOOSE(here[h], x, fresh);
            row[h][j] = CHOOSE(here[h], old, x);
        }
        a[top * width + j] = fresh;
    }
}

/* Gaussian elimination of a [n, width] by its first n columns, the others coming along: U, and L⁻¹·P times the others. over[k] = 1/u_kk. With `keep` the multipliers L stay
 * below the diagonal and place[k] is the row that row k was exchanged with. sign: of the permutation; info: the first pivot that is 0, counted from 1. */
CJ_INLINE void NAME(eliminate)(V *a, int64_t n, int64_t width, V *over, V *place, bool keep, V *sign, V *info)
{
    const V zero = NAME(all)(0), one = NAME(all)(1);
    *info = zero;
    *sign = one;
    for (int64_t k = 0; k < n; k++) {
        V *top = a + k * width, best = NAME(absolute)(top[k]), at = NAME(all)((R)k);
        const V own = at;
        for (int64_t i = k + 1; i < n; i++) {
            const V x = NAME(absolute)(a[i * width + k]);
            const MASK larger = GREATER(x, best);
            best = CHOOSE(larger, x, best);
            at = CHOOSE(larger, NAME(all)((R)i), at);
        }
        const MASK stays = EQUAL(at, own);
        if (keep) place[k] = at;
        const V turned = CHOOSE(stays, *sign, -*sign);
        if (ANY(GREATER(at, own))) NAME(exchange)(a, n, width, k, keep ? 0 : k, at);
        *sign = turned;
        const MASK gone = EQUAL(top[k], zero);
        if (ANY(gone)) *info = CHOOSE(gone, CHOOSE(EQUAL(*info, zero), NAME(all)((R)(k + 1)), *info), *info);
        const V r = one / CHOOSE(gone, one, top[k]);
        over[k] = r;
        for (int64_t i = k + 1; i < n; i++) {
            V *to = a + i * width;
            const V f = to[k] * r;
            if (keep) to[k] = f;
            for (int64_t j = k + 1; j < width; j++) to[j] = FNMADD(to[j], f, top[j]);
        }
    }
}

/* The other columns become U⁻¹ times themselves. */
CJ_INLINE void NAME(back_substitute)(V *a, int64_t n, int64_t width, const V *over)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        V *row = a + i * width;
        for (int64_t j = n; j < width; j++) {
            V x = row[j];
            for (int64_t p = i + 1; p < n; p++) x = FNMADD(x, row[p], a[p * width + j]);
            row[j] = x * over[i];
        }
    }
}

/* x[r] - sum over k in [begin, end) of a[r][k]·y[k] for four rows at a time, which share the y[k]. */
CJ_INLINE void NAME(minus_products)(V *a, int64_t rows, int64_t width, int64_t begin, int64_t end, const V *y, V *x, int64_t stride)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        V s[4];
        for (int q = 0; q < 4; q++) s[q] = x[(r + q) * stride];
        for (int64_t k = begin; k < end; k++)
            for (int q = 0; q < 4; q++) s[q] = FNMADD(s[q], a[(r + q) * width + k], y[k]);
        for (int q = 0; q < 4; q++) x[(r + q) * stride] = s[q];
    }
    for (; r < rows; r++) {
        V s = x[r * stride];
        for (int64_t k = begin; k < end; k++) s = FNMADD(s, a[r * width + k], y[k]);
        x[r * stride] = s;
    }
}

/* a, as eliminate() left it with its multipliers, becomes its inverse: U⁻¹ column by column, then X·L = U⁻¹ from the last column on, then the exchanges as columns, last first. */
CJ_INLINE void NAME(invert)(V *a, int64_t n, const V *over, const V *place, V *column)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < j; i++) {
            V s = NAME(all)(0);
            for (int64_t k = i; k < j; k++) s = FNMADD(s, a[i * n + k], a[k * n + j]);
            a[i * n + j] = s * over[j];
        }
        a[j * n + j] = over[j];
    }
    for (int64_t j = n - 2; j >= 0; j--) {
        for (int64_t i = j + 1; i < n; i++) column[i] = a[i * n + j], a[i * n + j] = NAME(all)(0);
        NAME(minus_products)(a, n, n, j + 1, n, column, a + j, n);
    }
    for (int64_t k = n - 2; k >= 0; k--) {
        if (!ANY(GREATER(place[k], NAME(all)((R)k)))) continue;
        for (int64_t j = k + 1; j < n; j++) {
            const MASK here = EQUAL(place[k], NAME(all)((R)j));
            if (!ANY(here)) continue;
            for (int64_t i = 0; i < n; i++) {
                const V x = a[i * n + k], y = a[i * n + j];
                a[i * n + k] = CHOOSE(here, y, x);
                a[i * n + j] = CHOOSE(here, x, y);
            }
        }
    }
}

/* next: what comes after the matrices that the caller has looked at, or NULL; it is asked for a column's share at a time, while roots and quotients are waited for. */
CJ_INLINE void NAME(cholesky)(V *a, int64_t n, V *info, const char *next)
{
    const V zero = NAME(all)(0), one = NAME(all)(1);
    *info = zero;
    for (int64_t j = 0; j < n; j++) {
        const V d = a[j * n + j]; /* the squares of its row are gone already */
        for (int64_t i = 0; next && i < n * SMALL_BYTES; i += 64) __builtin_prefetch(next + j * n * SMALL_BYTES + i, 0, 2);
        const MASK good = GREATER(d, zero);
        const V safe = CHOOSE(good, d, one), root = SQRT(safe), r = one / root, bad = CHOOSE(good, zero, NAME(all)((R)(j + 1)));
        *info = CHOOSE(EQUAL(*info, zero), bad, *info);
        a[j * n + j] = root;
        NAME(minus_products)(a + (j + 1) * n, n - j - 1, n, 0, j, a + j * n, a + (j + 1) * n + j, n);
        for (int64_t i = j + 1; i < n; i++) {
            const V x = a[i * n + j] * r;
            a[i * n + j] = x;
            a[i * n + i] = FNMADD(a[i * n + i], x, x);
            a[j * n + i] = zero;
        }
    }
}

/* Matrices first … first + count - 1, at most one per lane. n is s->n, known to the compiler where it is worth it. */
CJ_INLINE void NAME(group_of)(const cj_small *s, int64_t first, int64_t count, int64_t n)
{
    const int64_t others = s->code == CJ_SMALL_SOLVE ? s->k : 0, width = n + others;
    V *a = s->work, *over = a + n * width, *place = over + n, sign, info;
    NAME(interleave)((const R *)s->a + first * n * n, count, n, n, s->transpose, a, width, 0, s->ahead && s->code != CJ_SMALL_CHOLESKY);
    if (s->code == CJ_SMALL_SOLVE) NAME(interleave)((const R *)s->b + first * n * others, count, n, others, false, a, width, n, false);
    const char *next = s->ahead ? (const char *)s->a + first * n * n * (int64_t)sizeof(R) + SMALL_AHEAD : NULL;
    if (s->code == CJ_SMALL_CHOLESKY) NAME(cholesky)(a, n, &info, next);
    else if (s->code == CJ_SMALL_INVERSE) NAME(eliminate)(a, n, n, over, place, true, &sign, &info);
    else NAME(eliminate)(a, n, width, over, NULL, false, &sign, &info);
    R *y = (R *)s->y + first * n * (s->code == CJ_SMALL_SOLVE ? others : s->code == CJ_SMALL_LU ? 1 : n);
    if (s->code == CJ_SMALL_CHOLESKY) {
        NAME(spread)(a, n, 0, count, n, n, y, s->stream);
    } else if (s->code == CJ_SMALL_LU) {
        for (int64_t i = 0; i < n; i++) a[i] = i ? a[i * (n + 1)] : a[0] * sign;
        NAME(spread)(a, n, 0, count, 1, n, y, false);
    } else if (s->code == CJ_SMALL_INVERSE) {
        NAME(invert)(a, n, over, place, place + n);
        NAME(spread)(a, n, 0, count, n, n, y, s->stream);
    } else {
        NAME(back_substitute)(a, n, width, over);
        NAME(spread)(a, width, n, count, n, others, y, false);
    }
    for (int64_t l = 0; l < count; l++) s->pivot[first + l] = (int32_t)info[l];
}
static void NAME(group)(const cj_small *s, int64_t first, int64_t count)
{
    if (s->n == 4) NAME(group_of)(s, first, count, 4);
    else NAME(group_of)(s, first, count, s->n);
}

static void NAME(groups)(const cj_small *s)
{
    for (int64_t i = 0; i < s->count; i += LANES) NAME(group)(s, i, s->count - i < LANES ? s->count - i : LANES);
}

#undef V
#undef M
#undef LANES
#undef R
#undef INT
#undef NAME
#undef FNMADD
#undef SQRT
#undef MASK
#undef GREATER
#undef EQUAL
#undef CHOOSE
#undef ANY
#undef STREAM
