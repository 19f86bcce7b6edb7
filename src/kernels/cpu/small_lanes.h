/* The algorithms of small.c for one type; included twice, with
 *   R         float or double          INT       the integer of its size
 *   NAME(x)   x with the type's name   FNMADD(c, a, b)  c - a·b, SQRT(x), of vectors */

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
CJ_INLINE V NAME(choose)(M m, V a, V b) { return (V)((m & (M)a) | (~m & (M)b)); }
CJ_INLINE V NAME(absolute)(V a) { return (V)((M)a & ~(M)NAME(all)(-(R)0)); }
CJ_INLINE bool NAME(any)(M m)
{
    uint64_t word[SMALL_BYTES / 8], all = 0;
    memcpy(word, &m, sizeof word);
    for (int i = 0; i < SMALL_BYTES / 8; i++) all |= word[i];
    return all != 0;
}

/* x, LANES rows of LANES elements, transposed.  Read as bits, (row, lane) is rotated by one place in every stage: rows i and i + LANES/2 become their elements
 * in turn. */
CJ_INLINE void NAME(transpose)(V *x)
{
    M low, high;
    for (int l = 0; l < LANES; l++) {
        low[l] = l / 2 + (l % 2) * LANES;
        high[l] = low[l] + LANES / 2;
    }
    for (int stage = 1; stage < LANES; stage *= 2) {
        V y[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = __builtin_shuffle(x[i], x[i + LANES / 2], low);
            y[2 * i + 1] = __builtin_shuffle(x[i], x[i + LANES / 2], high);
        }
        memcpy(x, y, sizeof y);
    }
}

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
static void NAME(interleave)(const R *x, int64_t count, int64_t rows, int64_t columns, bool transpose, V *a, int64_t width, int64_t at)
{
    const int64_t size = rows * columns;
    const R *from[LANES];
    NAME(walk) w = NAME(walk_of)(columns, transpose, width, at);
    int64_t e = 0;
    for (int l = 0; l < LANES; l++) from[l] = x + (l < count ? l : count - 1) * size;
    for (; e + LANES <= size; e += LANES) {
        V block[LANES];
        for (int l = 0; l < LANES; l++) memcpy(&block[l], from[l] + e, sizeof block[l]);
        NAME(transpose)(block);
        for (int l = 0; l < LANES; l++) a[NAME(next)(&w)] = block[l];
    }
    for (; e < size; e++) {
        R *to = (R *)&a[NAME(next)(&w)];
        for (int l = 0; l < LANES; l++) to[l] = from[l][e];
    }
}

/* The way back: the matrices of the first `count` lanes. */
static void NAME(spread)(const V *a, int64_t width, int64_t at, int64_t count, int64_t rows, int64_t columns, R *y)
{
    const int64_t size = rows * columns;
    NAME(walk) w = NAME(walk_of)(columns, false, width, at);
    int64_t e = 0;
    for (; e + LANES <= size; e += LANES) {
        V block[LANES];
        for (int l = 0; l < LANES; l++) block[l] = a[NAME(next)(&w)];
        NAME(transpose)(block);
        for (int64_t l = 0; l < count; l++) memcpy(y + l * size + e, &block[l], sizeof block[l]);
    }
    for (; e < size; e++) {
        const R *from = (const R *)&a[NAME(next)(&w)];
        for (int64_t l = 0; l < count; l++) y[l * size + e] = from[l];
    }
}

/* Gaussian elimination of a [n, width] by its first n columns, the others coming along: U, and L⁻¹·P times the others. sign: of the permutation. */
static void NAME(eliminate)(V *a, int64_t n, int64_t width, V *sign, M *info)
{
    *info = (M){ 0 };
    *sign = NAME(all)(1);
    for (int64_t k = 0; k < n; k++) {
        V *top = a + k * width;
        V best = NAME(absolute)(top[k]);
        M place = (M){ 0 } + (INT)k;
        for (int64_t i = k + 1; i < n; i++) {
            V x = NAME(absolute)(a[i * width + k]);
            M larger = (M)(x > best);
            best = NAME(choose)(larger, x, best);
            place = (larger & ((M){ 0 } + (INT)i)) | (~larger & place);
        }
        *sign = NAME(choose)((M)(place != (M){ 0 } + (INT)k), -*sign, *sign);
        /* rows are exchanged where the lane's pivot is theirs */
        M here[CJ_SMALL_MOST];
        V *row[CJ_SMALL_MOST];
        int hits = 0;
        for (int64_t i = k + 1; i < n; i++) {
            here[hits] = (M)(place == (M){ 0 } + (INT)i);
            row[hits] = a + i * width;
            hits += NAME(any)(here[hits]);
        }
        for (int64_t j = k; j < width && hits; j++) {
            const V old = top[j];
            V fresh = old;
            for (int h = 0; h < hits; h++) {
                const V x = row[h][j];
                fresh = NAME(choose)(here[h], x, fresh);
                row[h][j] = NAME(choose)(here[h], old, x);
            }
            top[j] = fresh;
        }
        M zero = (M)(top[k] == NAME(all)(0));
        *info |= zero & (M)(*info == (M){ 0 }) & ((M){ 0 } + (INT)(k + 1));
        V r = NAME(all)(1) / NAME(choose)(zero, NAME(all)(1), top[k]);
        for (int64_t i = k + 1; i < n; i++) {
            V *to = a + i * width, f = to[k] * r;
            for (int64_t j = k + 1; j < width; j++) to[j] = FNMADD(to[j], f, top[j]);
        }
    }
}

/* The other columns become U⁻¹ times themselves. */
static void NAME(back_substitute)(V *a, int64_t n, int64_t width)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        V *row = a + i * width, d = row[i];
        d = NAME(all)(1) / NAME(choose)((M)(d == NAME(all)(0)), NAME(all)(1), d);
        for (int64_t p = i + 1; p < n; p++) {
            V f = row[p];
            const V *done = a + p * width;
            for (int64_t j = n; j < width; j++) row[j] = FNMADD(row[j], f, done[j]);
        }
        for (int64_t j = n; j < width; j++) row[j] *= d;
    }
}

static void NAME(cholesky)(V *a, int64_t n, M *info)
{
    *info = (M){ 0 };
    for (int64_t j = 0; j < n; j++) {
        V d = a[j * n + j];
        for (int64_t k = 0; k < j; k++) d = FNMADD(d, a[j * n + k], a[j * n + k]);
        M bad = ~(M)(d > NAME(all)(0));
        *info |= bad & (M)(*info == (M){ 0 }) & ((M){ 0 } + (INT)(j + 1));
        V root = SQRT(NAME(choose)(bad, NAME(all)(1), d)), r = NAME(all)(1) / root;
        a[j * n + j] = root;
        for (int64_t i = j + 1; i < n; i++) {
            V x = a[i * n + j];
            for (int64_t k = 0; k < j; k++) x = FNMADD(x, a[i * n + k], a[j * n + k]);
            a[i * n + j] = x * r;
            a[j * n + i] = NAME(all)(0);
        }
    }
}

static void NAME(group)(const cj_small *s, int64_t first, int64_t count)
{
    const int64_t n = s->n, others = s->code == CJ_SMALL_SOLVE ? s->k : s->code == CJ_SMALL_INVERSE ? n : 0, width = n + others;
    V *a = s->work, sign;
    M info;
    NAME(interleave)((const R *)s->a + first * n * n, count, n, n, s->transpose, a, width, 0);
    if (s->code == CJ_SMALL_SOLVE) NAME(interleave)((const R *)s->b + first * n * others, count, n, others, false, a, width, n);
    if (s->code == CJ_SMALL_INVERSE)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) a[i * width + n + j] = NAME(all)(i == j);
    if (s->code == CJ_SMALL_CHOLESKY) NAME(cholesky)(a, n, &info);
    else NAME(eliminate)(a, n, width, &sign, &info);
    R *y = (R *)s->y + first * n * (s->code == CJ_SMALL_SOLVE ? others : s->code == CJ_SMALL_LU ? 1 : n);
    if (s->code == CJ_SMALL_CHOLESKY) {
        NAME(spread)(a, n, 0, count, n, n, y);
    } else if (s->code == CJ_SMALL_LU) {
        for (int64_t i = 0; i < n; i++) a[i] = i ? a[i * (n + 1)] : a[0] * sign;
        NAME(spread)(a, n, 0, count, 1, n, y);
    } else {
        NAME(back_substitute)(a, n, width);
        NAME(spread)(a, width, n, count, n, others, y);
    }
    for (int64_t l = 0; l < count; l++) s->pivot[first + l] = (int32_t)info[l];
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
