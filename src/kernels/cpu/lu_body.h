/* The algorithms of lu.c for one type; included twice, with
 *   R     float or double        INT        the integer of its size       MAGNITUDE  its bits but the sign's
 *   NAME(x)  x with the type's name         SMALLEST   the smallest number whose reciprocal is finite
 * Matrices are column-major: element (i, j) of a is a[j * ld + i]. */

typedef R NAME(vec) __attribute__((vector_size(LU_BYTES)));
/* In memory only: registers are saved to aligned places. */
typedef R NAME(anywhere) __attribute__((vector_size(LU_BYTES), aligned(sizeof(R)), may_alias));
#define V NAME(vec)
enum { NAME(lanes) = LU_BYTES / sizeof(R), NAME(vectors) = PANEL / NAME(lanes) };
#define LANES NAME(lanes)
#define VECTORS NAME(vectors)
typedef INT NAME(whole) __attribute__((vector_size(LU_BYTES)));
CJ_TRANSPOSE(NAME(transpose_block), V, NAME(whole), LANES)

/* c [m, n] -= l [m, k] · u [k, n], as the transpose, row-major: cᵀ += (-uᵀ)·lᵀ. */
static void NAME(subtract)(const lu_run *run, int64_t m, int64_t n, int64_t k, const R *l, int64_t l_ld, const R *u, int64_t u_ld, R *c,
                           int64_t c_ld)
{
    if (!m || !n || !k) return;
    R *minus = run->minus;
    for (int64_t j = 0; j < n; j++)
        for (int64_t p = 0; p < k; p++) minus[j * k + p] = -u[j * u_ld + p];
    cj_gemm g = product_of(m, n, k, l_ld, c_ld);
    g.a = minus, g.b = l, g.c = c;
    GEMM(run->pool, &g, run->rest);
}

/* ---- work that is shared out by columns -------------------------------------------------------------------------------------------------- */

typedef struct NAME(columns) {
    R *b;
    int64_t ld, n;
    const int32_t *pivot;
    const R *l;
    int64_t l_ld;
} NAME(columns);

/* each: steps of one column */
static void NAME(share)(const lu_run *run, int64_t columns, int64_t each, cj_range_fn fn, NAME(columns) * q)
{
    cj__parallel_for(columns * each >= SHARED ? run->pool : NULL, columns, SHARED_COLUMNS, fn, q);
}

static void NAME(exchange_columns)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(columns) *q = arg;
    (void)worker;
    for (int64_t j = begin; j < end; j++) {
        R *x = q->b + j * q->ld;
        for (int64_t i = 0; i < q->n; i++) {
            const R t = x[i];
            x[i] = x[q->pivot[i]];
            x[q->pivot[i]] = t;
        }
    }
}
/* Rows i and pivot[i] of b [.., columns] are exchanged, i = 0 … n - 1. */
static void NAME(exchange)(const lu_run *run, int64_t columns, R *b, int64_t ld, int64_t n, const int32_t *pivot)
{
    NAME(share)(run, columns, n, NAME(exchange_columns), &(NAME(columns)){ .b = b, .ld = ld, .n = n, .pivot = pivot });
}

/* TOGETHER right-hand sides, in registers, pass through a block of PANEL columns of a triangle; l has zeros outside of it and on its diagonal, which is `diagonal`, or ones. */
CJ_INLINE void NAME(through)(const R l[PANEL][PANEL], const R *diagonal, R *b, int64_t ld, int columns)
{
    V x[TOGETHER][VECTORS];
    for (int c = 0; c < columns; c++)
        for (int v = 0; v < VECTORS; v++) x[c][v] = *(const NAME(anywhere) *)(b + c * ld + v * LANES);
#pragma GCC unroll 16
    for (int step = 0; step < PANEL; step++) {
        const int i = diagonal ? PANEL - 1 - step : step;
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            const R value = diagonal ? x[c][i / LANES][i % LANES] / diagonal[i] : x[c][i / LANES][i % LANES];
            V f;
            for (int k = 0; k < LANES; k++) f[k] = value;
            if (diagonal) x[c][i / LANES][i % LANES] = value;
            for (int v = diagonal ? 0 : i / LANES; v < (diagonal ? i / LANES + 1 : VECTORS); v++)
                x[c][v] -= f * *(const NAME(anywhere) *)(l[i] + v * LANES);
        }
    }
    for (int c = 0; c < columns; c++)
        for (int v = 0; v < VECTORS; v++) *(NAME(anywhere) *)(b + c * ld + v * LANES) = x[c][v];
}
static void NAME(lower_columns)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(columns) *q = arg;
    (void)worker;
    int64_t j = begin;
    if (q->n == PANEL) {
        R l[PANEL][PANEL];
        for (int p = 0; p < PANEL; p++)
            for (int i = 0; i < PANEL; i++) l[p][i] = i > p ? q->l[p * q->l_ld + i] : 0;
        for (; j + TOGETHER <= end; j += TOGETHER) NAME(through)((const R(*)[PANEL])l, NULL, q->b + j * q->ld, q->ld, TOGETHER);
        for (; j < end; j++) NAME(through)((const R(*)[PANEL])l, NULL, q->b + j * q->ld, q->ld, 1);
    }
    for (; j < end; j++) {
        R *x = q->b + j * q->ld;
        for (int64_t p = 0; p < q->n; p++)
            for (int64_t i = p + 1; i < q->n; i++) x[i] -= x[p] * q->l[p * q->l_ld + i];
    }
}
/* b [n, columns] becomes L⁻¹·b; L has ones on its diagonal. */
static void NAME(lower)(const lu_run *run, int64_t n, int64_t columns, const R *l, int64_t l_ld, R *b, int64_t ld)
{
    if (n <= PANEL) {
        NAME(share)(run, columns, n * VECTORS, NAME(lower_columns), &(NAME(columns)){ .b = b, .ld = ld, .n = n, .l = l, .l_ld = l_ld });
        return;
    }
    const int64_t h = half(n);
    NAME(lower)(run, h, columns, l, l_ld, b, ld);
    NAME(subtract)(run, n - h, columns, h, l + h, l_ld, b, ld, b + h, ld);
    NAME(lower)(run, n - h, columns, l + h * l_ld + h, l_ld, b + h, ld);
}

static void NAME(upper_columns)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(columns) *q = arg;
    (void)worker;
    int64_t j = begin;
    if (q->n == PANEL) {
        R u[PANEL][PANEL], diagonal[PANEL];
        for (int p = 0; p < PANEL; p++) {
            for (int i = 0; i < PANEL; i++) u[p][i] = i < p ? q->l[p * q->l_ld + i] : 0;
            diagonal[p] = q->l[p * q->l_ld + p];
        }
        for (; j + TOGETHER <= end; j += TOGETHER) NAME(through)((const R(*)[PANEL])u, diagonal, q->b + j * q->ld, q->ld, TOGETHER);
        for (; j < end; j++) NAME(through)((const R(*)[PANEL])u, diagonal, q->b + j * q->ld, q->ld, 1);
    }
    for (; j < end; j++) {
        R *x = q->b + j * q->ld;
        for (int64_t p = q->n - 1; p >= 0; p--) {
            const R f = x[p] /= q->l[p * q->l_ld + p];
            for (int64_t i = 0; i < p; i++) x[i] -= f * q->l[p * q->l_ld + i];
        }
    }
}
/* b becomes U⁻¹·b. */
static void NAME(upper)(const lu_run *run, int64_t n, int64_t columns, const R *u, int64_t u_ld, R *b, int64_t ld)
{
    if (n <= PANEL) {
        NAME(share)(run, columns, 2 * n * VECTORS, NAME(upper_columns), &(NAME(columns)){ .b = b, .ld = ld, .n = n, .l = u, .l_ld = u_ld });
        return;
    }
    const int64_t h = half(n);
    NAME(upper)(run, n - h, columns, u + h * u_ld + h, u_ld, b + h, ld);
    NAME(subtract)(run, h, columns, n - h, u + h * u_ld, u_ld, b + h, ld, b, ld);
    NAME(upper)(run, h, columns, u, u_ld, b, ld);
}

/* ---- elimination ------------------------------------------------------------------------------------------------------------------------- */

/* The first place of the largest magnitude: as integers, magnitudes have the order of the numbers. */
CJ_INLINE int64_t NAME(largest)(const R *x, int64_t n)
{
    INT most = -1;
    const INT *u = (const INT *)(const void *)x;
    for (int64_t i = 0; i < n; i++) {
        INT bits;
        memcpy(&bits, u + i, sizeof bits);
        bits &= MAGNITUDE;
        most = bits > most ? bits : most;
    }
    for (int64_t i = 0; i < n; i++) {
        INT bits;
        memcpy(&bits, u + i, sizeof bits);
        if ((bits & MAGNITUDE) == most) return i;
    }
    return 0;
}

/* Column by column: m rows, n <= PANEL columns. */
static int64_t NAME(panel)(int64_t m, int64_t n, R *a, int64_t ld, int32_t *pivot)
{
    int64_t zero = 0;
    for (int64_t j = 0; j < n; j++) {
        R *x = a + j * ld;
        const int64_t p = j + NAME(largest)(x + j, m - j);
        pivot[j] = (int32_t)p;
        if (x[p] == 0) {
            zero = zero ? zero : j + 1;
            continue;
        }
        if (p != j)
            for (int64_t c = 0; c < n; c++) {
                const R t = a[c * ld + j];
                a[c * ld + j] = a[c * ld + p];
                a[c * ld + p] = t;
            }
        const R top = x[j];
        if (top >= SMALLEST || top <= -SMALLEST) {
            const R over = 1 / top;
            for (int64_t i = j + 1; i < m; i++) x[i] *= over;
        } else {
            for (int64_t i = j + 1; i < m; i++) x[i] /= top;
        }
        for (int64_t c = j + 1; c < n; c++) {
            R *y = a + c * ld;
            const R f = y[j];
            for (int64_t i = j + 1; i < m; i++) y[i] -= f * x[i];
        }
    }
    return zero;
}

/* a [m, n], m >= n. */
static int64_t NAME(factor)(const lu_run *run, int64_t m, int64_t n, R *a, int64_t ld, int32_t *pivot)
{
    if (n <= PANEL) return NAME(panel)(m, n, a, ld, pivot);
    const int64_t h = half(n);
    R *right = a + h * ld;
    const int64_t zero = NAME(factor)(run, m, h, a, ld, pivot);
    NAME(exchange)(run, n - h, right, ld, h, pivot);
    NAME(lower)(run, h, n - h, a, ld, right, ld);
    NAME(subtract)(run, m - h, n - h, h, a + h, ld, right, ld, right + h, ld);
    const int64_t after = NAME(factor)(run, m - h, n - h, right + h, ld, pivot + h);
    NAME(exchange)(run, h, a + h, ld, n - h, pivot + h);
    for (int64_t i = h; i < n; i++) pivot[i] += (int32_t)h;
    return zero ? zero : after ? after + h : 0;
}

static void NAME(turn)(int64_t m, int64_t n, const R *x, int64_t x_row, R *y, int64_t y_row)
{
    const int64_t rows = m / LANES * LANES, columns = n / LANES * LANES;
    for (int64_t r = 0; r < rows; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            V block[LANES];
            for (int l = 0; l < LANES; l++) block[l] = *(const NAME(anywhere) *)(x + (r + l) * x_row + c);
            NAME(transpose_block)(block);
            for (int l = 0; l < LANES; l++) *(NAME(anywhere) *)(y + (c + l) * y_row + r) = block[l];
        }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = i < rows ? columns : 0; j < n; j++) y[j * y_row + i] = x[i * x_row + j];
}

#undef V
#undef LANES
#undef VECTORS
#undef R
#undef INT
#undef MAGNITUDE
#undef SMALLEST
#undef NAME
#undef GEMM
