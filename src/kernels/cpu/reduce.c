/* Reductions of [outer, len, inner] over len: sum, product, extrema and where they are, any, all.
 *
 * Float sums are blocked: vector accumulators over 2048 elements, block sums added pairwise in f64 (Higham, "The accuracy of floating point summation",
 * 1993), one rounding at the end.  Rows (len contiguous, or no closer than inner) reduce one by one; columns (inner contiguous) reduce tiles of columns
 * together, eight rows at a time.  A long axis is cut into at most PARTS parts by its length alone; parts are combined in order.
 */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define BLOCK 2048  /* elements summed in f32 before going to f64 */
#define CHUNK 32768 /* elements of a parallel chunk, about */
#define PARTS 64    /* parts of a long row */
#define PART_MIN 65536
#define TILE 512 /* columns reduced together */
#define COLUMN_PARTS 12
#define FLUSH 256 /* rows of a column sum in f32 before going to f64 */

typedef struct reduce_job {
    cj_reduce_code code;
    cj_dtype t;
    cj_dtype work; /* F32 for f32, bf16, f16; F64; I64 for integers; BOOL for any and all */
    int elem;
    const char *x;
    void *y;
    int64_t outer, len, inner, so, sl, si;
    double scale;
    int64_t tiles, part; /* columns: tiles of inner; elements (rows) of a part */
} reduce_job;

/* A partial result: f for floats, i for integers and truth, at the position for arg. */
typedef struct value {
    double f;
    int64_t i, at;
} value;

static bool is_arg(cj_reduce_code c) { return c == CJ_RED_ARGMAX || c == CJ_RED_ARGMIN; }
static bool is_max(cj_reduce_code c) { return c == CJ_RED_MAX || c == CJ_RED_ARGMAX; }
static bool is_float_work(cj_dtype w) { return w == CJ_F32 || w == CJ_F64; }

/* Does b beat a?  NaN beats all but NaN, so that the first one stays. */
CJ_INLINE bool beats_f(bool max, double b, double a) { return (max ? b > a : b < a) || (b != b && a == a); }
CJ_INLINE bool beats_i(bool max, int64_t b, int64_t a) { return max ? b > a : b < a; }

static value combine(const reduce_job *j, value a, value b)
{
    switch (j->code) {
    case CJ_RED_SUM:
        a.f += b.f;
        a.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i);
        return a;
    case CJ_RED_PROD:
        a.f *= b.f;
        a.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i);
        return a;
    case CJ_RED_ANY: a.i |= b.i; return a;
    case CJ_RED_ALL: a.i &= b.i; return a;
    default: return (is_float_work(j->work) ? beats_f(is_max(j->code), b.f, a.f) : beats_i(is_max(j->code), b.i, a.i)) ? b : a;
    }
}

/* Element k of y; v.at counts along len. */
CJ_INLINE void store(const reduce_job *j, int64_t k, value v)
{
    if (is_arg(j->code)) ((int64_t *)j->y)[k] = v.at;
    else if (j->work == CJ_BOOL) ((uint8_t *)j->y)[k] = (uint8_t)v.i;
    else if (is_float_work(j->work)) {
        if (j->code == CJ_RED_SUM) v.f *= j->scale;
        if (j->t == CJ_F32) ((float *)j->y)[k] = (float)v.f;
        else CJ_K(cj__convert)(CJ_F64, &v.f, j->t, (char *)j->y + k * j->elem, 1);
    } else if (j->code == CJ_RED_SUM || j->t == CJ_I64) ((int64_t *)j->y)[k] = v.i;
    else if (j->t == CJ_I32) ((int32_t *)j->y)[k] = (int32_t)(uint32_t)(uint64_t)v.i; /* products wrap */
    else ((uint8_t *)j->y)[k] = j->t == CJ_BOOL ? v.i != 0 : (uint8_t)v.i;
}

/* ---- blocks of contiguous values --------------------------------------------------------------------------------------------------------- */

CJ_INLINE float sum_block_f32(const float *p, int64_t n)
{
    vf a = vf_zero(), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * CJ_VL <= n; i += 4 * CJ_VL) {
        a += vf_load(p + i);
        b += vf_load(p + i + CJ_VL);
        c += vf_load(p + i + 2 * CJ_VL);
        d += vf_load(p + i + 3 * CJ_VL);
    }
    for (; i + CJ_VL <= n; i += CJ_VL) a += vf_load(p + i);
    if (i < n) b += vf_load_n(p + i, (int)(n - i));
    return vf_hsum((a + b) + (c + d));
}

#define LANES 16

CJ_INLINE double tree16(const double *a)
{
    double s[8];
    for (int k = 0; k < 8; k++) s[k] = a[k] + a[k + 8];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

static double sum_block_f64(const double *p, int64_t n)
{
    double a[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) a[k] += p[i + k];
    for (int k = 0; i < n; i++, k++) a[k] += p[i];
    return tree16(a);
}

static double prod_block_f32(const float *p, int64_t n)
{
    double a[LANES], r = 1.0;
    for (int k = 0; k < LANES; k++) a[k] = 1.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) a[k] *= (double)p[i + k];
    for (int k = 0; i < n; i++, k++) a[k] *= (double)p[i];
    for (int k = 0; k < LANES; k++) r *= a[k];
    return r;
}

static double prod_block_f64(const double *p, int64_t n)
{
    double r = 1.0;
    for (int64_t i = 0; i < n; i++) r *= p[i];
    return r;
}

static float best_block_f32(bool max, const float *p, int64_t n)
{
    vf a = vf_set1(p[0]), b = a;
    int64_t i = 0;
    if (max) {
        for (; i + 2 * CJ_VL <= n; i += 2 * CJ_VL) {
            a = vf_max_nan(vf_load(p + i), a);
            b = vf_max_nan(vf_load(p + i + CJ_VL), b);
        }
        float m = vf_hmax(vf_max_nan(a, b));
        for (; i < n; i++) m = p[i] > m || p[i] != p[i] ? p[i] : m;
        return m;
    }
    for (; i + 2 * CJ_VL <= n; i += 2 * CJ_VL) {
        a = vf_min_nan(vf_load(p + i), a);
        b = vf_min_nan(vf_load(p + i + CJ_VL), b);
    }
    float m = vf_hmin(vf_min_nan(a, b));
    for (; i < n; i++) m = p[i] < m || p[i] != p[i] ? p[i] : m;
    return m;
}

static double best_block_f64(bool max, const double *p, int64_t n)
{
    double m = p[0];
    for (int64_t i = 1; i < n; i++)
        if (beats_f(max, p[i], m)) m = p[i];
    return m;
}

static int64_t best_block_i64(bool max, const int64_t *p, int64_t n)
{
    int64_t m = p[0];
    if (max)
        for (int64_t i = 1; i < n; i++) m = p[i] > m ? p[i] : m;
    else
        for (int64_t i = 1; i < n; i++) m = p[i] < m ? p[i] : m;
    return m;
}

/* One block of the working type. */
static value reduce_block(const reduce_job *j, const void *p, int64_t n)
{
    value v = { 0.0, 0, 0 };
    const bool max = is_max(j->code);
    switch (j->code) {
    case CJ_RED_SUM:
        if (j->work == CJ_F32) v.f = sum_block_f32(p, n);
        else if (j->work == CJ_F64) v.f = sum_block_f64(p, n);
        else {
            uint64_t s = 0;
            for (int64_t i = 0; i < n; i++) s += ((const uint64_t *)p)[i];
            v.i = (int64_t)s;
        }
        return v;
    case CJ_RED_PROD:
        if (j->work == CJ_F32) v.f = prod_block_f32(p, n);
        else if (j->work == CJ_F64) v.f = prod_block_f64(p, n);
        else {
            uint64_t s = 1;
            for (int64_t i = 0; i < n; i++) s *= ((const uint64_t *)p)[i];
            v.i = (int64_t)s;
        }
        return v;
    case CJ_RED_ANY:
    case CJ_RED_ALL: {
        const uint8_t *b = p;
        uint8_t any = 0, none = 0;
        for (int64_t i = 0; i < n; i++) {
            any |= b[i];
            none |= (uint8_t)(b[i] ^ 1);
        }
        v.i = j->code == CJ_RED_ANY ? any : !none;
        return v;
    }
    default:
        if (j->work == CJ_F32) v.f = best_block_f32(max, p, n);
        else if (j->work == CJ_F64) v.f = best_block_f64(max, p, n);
        else v.i = best_block_i64(max, p, n);
        return v;
    }
}

/* Where in a block the best value stands first. */
static int64_t find(const reduce_job *j, const void *p, int64_t n, value v)
{
    int64_t i = 0;
    if (j->work == CJ_F32) {
        const float *q = p, f = (float)v.f;
        if (f == f)
            while (i + CJ_VL <= n && !vm_any(vf_eq(vf_load(q + i), vf_set1(f)))) i += CJ_VL;
        while (i < n && !(q[i] == f || (f != f && q[i] != q[i]))) i++;
    } else if (j->work == CJ_F64) {
        const double *q = p;
        while (i < n && !(q[i] == v.f || (v.f != v.f && q[i] != q[i]))) i++;
    } else {
        const int64_t *q = p;
        while (i < n && q[i] != v.i) i++;
    }
    return i;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------------- */

/* Sums of blocks, added like the carries of a binary counter: the tree of pairwise summation without recursion. */
typedef struct pairwise {
    double level[48];
    uint64_t count;
} pairwise;

CJ_INLINE void pairwise_add(pairwise *s, double v)
{
    int k = 0;
    for (uint64_t c = s->count++; c & 1; c >>= 1) v += s->level[k++];
    s->level[k] = v;
}
CJ_INLINE double pairwise_sum(const pairwise *s)
{
    double v = 0.0;
    int k = 0;
    for (uint64_t c = s->count; c; c >>= 1, k++)
        if (c & 1) v += s->level[k];
    return v;
}

static value empty_value(cj_reduce_code code)
{
    return (value){ code == CJ_RED_PROD ? 1.0 : 0.0, code == CJ_RED_PROD || code == CJ_RED_ALL, 0 };
}

/* n values from x on, the first of which is number `first` along len. */
static value reduce_run(const reduce_job *j, const char *x, int64_t n, int64_t first)
{
    _Alignas(64) char buffer[BLOCK * 8];
    pairwise sums;
    sums.count = 0;
    value total = empty_value(j->code);
    const bool direct = j->sl == 1 && j->work == j->t;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        const void *p = x + i * j->sl * j->elem;
        if (!direct || j->work == CJ_BOOL) {
            CJ_K(cj__convert_strided)(j->t, p, j->sl, j->work, buffer, m);
            p = buffer;
        }
        value v = reduce_block(j, p, m);
        if (j->code == CJ_RED_SUM && is_float_work(j->work)) {
            if (n <= BLOCK) return v;
            pairwise_add(&sums, v.f);
            continue;
        }
        if (is_arg(j->code)) {
            if (i > 0 && !(is_float_work(j->work) ? beats_f(is_max(j->code), v.f, total.f) : beats_i(is_max(j->code), v.i, total.i)))
                continue;
            v.at = first + i + find(j, p, m, v);
            total = v;
            continue;
        }
        if (j->work == CJ_BOOL && v.i == (j->code == CJ_RED_ANY)) return v; /* decided */
        total = i == 0 ? v : combine(j, total, v);
    }
    if (j->code == CJ_RED_SUM && is_float_work(j->work)) total.f = pairwise_sum(&sums);
    return total;
}

static void reduce_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const reduce_job *j = arg;
    (void)worker;
    int64_t o = begin / j->inner, c = begin - o * j->inner;
    for (int64_t r = begin; r < end; r++) {
        const char *x = j->x + (o * j->so + c * j->si) * j->elem;
        if (j->code == CJ_RED_SUM && j->t == CJ_F32 && j->sl == 1 && j->len <= BLOCK)
            ((float *)j->y)[r] = (float)((double)sum_block_f32((const float *)(const void *)x, j->len) * j->scale);
        else store(j, r, reduce_run(j, x, j->len, 0));
        if (++c == j->inner) c = 0, o++;
    }
}

typedef struct long_row {
    const reduce_job *j;
    const char *x;
    value part[PARTS];
} long_row;

static void reduce_part(void *arg, int64_t begin, int64_t end, int worker)
{
    long_row *l = arg;
    (void)worker;
    l->part[begin / l->j->part] = reduce_run(l->j, l->x + begin * l->j->sl * l->j->elem, end - begin, begin);
}

static void reduce_long_rows(cj_pool *pool, reduce_job *j)
{
    int64_t part = (j->len + PARTS - 1) / PARTS;
    part = part < PART_MIN ? PART_MIN : (part + BLOCK - 1) / BLOCK * BLOCK;
    j->part = part;
    const int64_t parts = (j->len + part - 1) / part;
    for (int64_t r = 0; r < j->outer * j->inner; r++) {
        long_row l = { .j = j, .x = j->x + (r / j->inner * j->so + r % j->inner * j->si) * j->elem };
        cj__parallel_for(pool, j->len, part, reduce_part, &l);
        value total = l.part[0];
        if (j->code == CJ_RED_SUM && is_float_work(j->work)) {
            pairwise sums;
            sums.count = 0;
            for (int64_t k = 0; k < parts; k++) pairwise_add(&sums, l.part[k].f);
            total.f = pairwise_sum(&sums);
        } else
            for (int64_t k = 1; k < parts; k++) total = combine(j, total, l.part[k]);
        store(j, r, total);
    }
}

/* ---- columns ------------------------------------------------------------------------------------------------------------------------- */

/* Partial results of a tile of columns. */
typedef struct columns {
    double f[TILE];
    int64_t i[TILE], at[TILE];
} columns;

/* acc[c] += the sum of eight rows, pairwise. */
CJ_INLINE void add8_f32(float *restrict acc, const float *x, int64_t s, int64_t n)
{
    const float *r0 = x, *r1 = x + s, *r2 = x + 2 * s, *r3 = x + 3 * s, *r4 = x + 4 * s, *r5 = x + 5 * s, *r6 = x + 6 * s, *r7 = x + 7 * s;
    int64_t c = 0;
    for (; c + CJ_VL <= n; c += CJ_VL) {
        const vf a = (vf_load(r0 + c) + vf_load(r1 + c)) + (vf_load(r2 + c) + vf_load(r3 + c));
        const vf b = (vf_load(r4 + c) + vf_load(r5 + c)) + (vf_load(r6 + c) + vf_load(r7 + c));
        vf_store(acc + c, vf_load(acc + c) + (a + b));
    }
    for (; c < n; c++) acc[c] += ((r0[c] + r1[c]) + (r2[c] + r3[c])) + ((r4[c] + r5[c]) + (r6[c] + r7[c]));
}

static void sum_columns_f32(const reduce_job *j, const char *x, int64_t rows, int64_t n, double *restrict f);

/* A few contiguous columns: k rows count as one of k*n columns, which fill the vectors; then the k sums of each column are added. */
static bool sum_narrow_f32(const reduce_job *j, const char *x, int64_t rows, int64_t n, double *restrict f)
{
    if (j->t != CJ_F32 || j->si != 1 || j->sl != n || n > TILE / 8 || rows < 64) return false;
    double wide[TILE];
    const int64_t k = TILE / n, groups = rows / k;
    reduce_job w = *j;
    w.sl = k * n;
    sum_columns_f32(&w, x, groups, k * n, wide);
    for (int64_t c = 0; c < n; c++) f[c] = 0.0;
    for (int64_t g = 0; g < k; g++)
        for (int64_t c = 0; c < n; c++) f[c] += wide[g * n + c];
    const float *rest = (const float *)(const void *)x + groups * k * n;
    for (int64_t r = 0; r < rows - groups * k; r++)
        for (int64_t c = 0; c < n; c++) f[c] += (double)rest[r * n + c];
    return true;
}

/* The sums of n columns into f. */
static void sum_columns_f32(const reduce_job *j, const char *x, int64_t rows, int64_t n, double *restrict f)
{
    _Alignas(64) float acc[TILE];
    _Alignas(64) float row[8 * TILE];
    const bool direct = j->t == CJ_F32 && j->si == 1;
    if (sum_narrow_f32(j, x, rows, n, f)) return;
    for (int64_t c = 0; c < n; c++) f[c] = 0.0;
    for (int64_t r = 0; r < rows;) {
        const int64_t stop = r + FLUSH < rows ? r + FLUSH : rows;
        memset(acc, 0, (size_t)n * sizeof *acc);
        for (; r + 8 <= stop; r += 8) {
            const char *p = x + r * j->sl * j->elem;
            if (direct) add8_f32(acc, (const float *)(const void *)p, j->sl, n);
            else {
                for (int k = 0; k < 8; k++) CJ_K(cj__convert_strided)(j->t, p + k * j->sl * j->elem, j->si, CJ_F32, row + k * TILE, n);
                add8_f32(acc, row, TILE, n);
            }
        }
        for (; r < stop; r++) {
            const float *p = (const float *)(const void *)(x + r * j->sl * j->elem);
            if (!direct) CJ_K(cj__convert_strided)(j->t, p, j->si, CJ_F32, row, n), p = row;
            for (int64_t c = 0; c < n; c++) acc[c] += p[c];
        }
        for (int64_t c = 0; c < n; c++) f[c] += (double)acc[c];
    }
}

/* f64 sums in two levels. */
static void sum_columns_f64(const reduce_job *j, const char *x, int64_t rows, int64_t n, double *restrict f)
{
    double acc[TILE], row[TILE];
    for (int64_t c = 0; c < n; c++) f[c] = 0.0;
    for (int64_t r = 0; r < rows;) {
        const int64_t stop = r + FLUSH < rows ? r + FLUSH : rows;
        for (int64_t c = 0; c < n; c++) acc[c] = 0.0;
        for (; r < stop; r++) {
            CJ_K(cj__convert_strided)(j->t, x + r * j->sl * j->elem, j->si, CJ_F64, row, n);
            for (int64_t c = 0; c < n; c++) acc[c] += row[c];
        }
        for (int64_t c = 0; c < n; c++) f[c] += acc[c];
    }
}

/* Extrema of columns in f32. */
static void best_columns_f32(const reduce_job *j, const char *x, int64_t rows, int64_t n, double *restrict f)
{
    _Alignas(64) float best[TILE], buffer[TILE];
    const bool direct = j->t == CJ_F32 && j->si == 1, max = is_max(j->code);
    CJ_K(cj__convert_strided)(j->t, x, j->si, CJ_F32, best, n);
    for (int64_t r = 1; r < rows; r++) {
        const float *p = (const float *)(const void *)(x + r * j->sl * j->elem);
        if (!direct) CJ_K(cj__convert_strided)(j->t, p, j->si, CJ_F32, buffer, n), p = buffer;
        int64_t c = 0;
        if (max)
            for (; c + CJ_VL <= n; c += CJ_VL) vf_store(best + c, vf_max_nan(vf_load(p + c), vf_load(best + c)));
        else
            for (; c + CJ_VL <= n; c += CJ_VL) vf_store(best + c, vf_min_nan(vf_load(p + c), vf_load(best + c)));
        for (; c < n; c++) best[c] = (max ? p[c] > best[c] : p[c] < best[c]) || p[c] != p[c] ? p[c] : best[c];
    }
    for (int64_t c = 0; c < n; c++) f[c] = (double)best[c];
}

/* All other column reductions of floats: rows as f64, one after the other. */
static void fold_columns_float(const reduce_job *j, const char *x, int64_t rows, int64_t n, int64_t first, columns *out)
{
    double row[TILE];
    const bool max = is_max(j->code);
    double *restrict f = out->f;
    int64_t *restrict at = out->at;
    for (int64_t r = 0; r < rows; r++) {
        const char *p = x + r * j->sl * j->elem;
        if (r == 0) {
            CJ_K(cj__convert_strided)(j->t, p, j->si, CJ_F64, f, n);
            for (int64_t c = 0; c < n; c++) at[c] = first;
            continue;
        }
        CJ_K(cj__convert_strided)(j->t, p, j->si, CJ_F64, row, n);
        if (j->code == CJ_RED_PROD)
            for (int64_t c = 0; c < n; c++) f[c] *= row[c];
        else if (!is_arg(j->code))
            for (int64_t c = 0; c < n; c++) f[c] = ((max ? row[c] > f[c] : row[c] < f[c]) | (row[c] != row[c])) ? row[c] : f[c];
        else
            for (int64_t c = 0; c < n; c++) {
                const bool better = beats_f(max, row[c], f[c]);
                at[c] = better ? first + r : at[c];
                f[c] = better ? row[c] : f[c];
            }
    }
}

static void fold_columns_int(const reduce_job *j, const char *x, int64_t rows, int64_t n, int64_t first, columns *out)
{
    int64_t row[TILE];
    const bool max = is_max(j->code);
    int64_t *restrict v = out->i;
    int64_t *restrict at = out->at;
    for (int64_t r = 0; r < rows; r++) {
        const char *p = x + r * j->sl * j->elem;
        if (j->work == CJ_BOOL) {
            uint8_t truth[TILE];
            CJ_K(cj__convert_strided)(j->t, p, j->si, CJ_BOOL, truth, n);
            for (int64_t c = 0; c < n; c++) row[c] = truth[c];
        } else CJ_K(cj__convert_strided)(j->t, p, j->si, CJ_I64, row, n);
        if (r == 0) {
            for (int64_t c = 0; c < n; c++) v[c] = row[c], at[c] = first;
            continue;
        }
        switch (j->code) {
        case CJ_RED_SUM:
            for (int64_t c = 0; c < n; c++) v[c] = (int64_t)((uint64_t)v[c] + (uint64_t)row[c]);
            break;
        case CJ_RED_PROD:
            for (int64_t c = 0; c < n; c++) v[c] = (int64_t)((uint64_t)v[c] * (uint64_t)row[c]);
            break;
        case CJ_RED_ANY:
            for (int64_t c = 0; c < n; c++) v[c] |= row[c];
            break;
        case CJ_RED_ALL:
            for (int64_t c = 0; c < n; c++) v[c] &= row[c];
            break;
        default:
            for (int64_t c = 0; c < n; c++) {
                const bool better = beats_i(max, row[c], v[c]);
                at[c] = better ? first + r : at[c];
                v[c] = better ? row[c] : v[c];
            }
        }
    }
}

static void reduce_columns(const reduce_job *j, const char *x, int64_t rows, int64_t n, int64_t first, columns *out)
{
    if (j->work == CJ_F32 && j->code == CJ_RED_SUM) sum_columns_f32(j, x, rows, n, out->f);
    else if (j->work == CJ_F64 && j->code == CJ_RED_SUM) sum_columns_f64(j, x, rows, n, out->f);
    else if (j->work == CJ_F32 && (j->code == CJ_RED_MAX || j->code == CJ_RED_MIN)) best_columns_f32(j, x, rows, n, out->f);
    else if (is_float_work(j->work)) fold_columns_float(j, x, rows, n, first, out);
    else fold_columns_int(j, x, rows, n, first, out);
}

static void store_columns(const reduce_job *j, int64_t at, int64_t n, const columns *v)
{
    if (j->code == CJ_RED_SUM && j->t == CJ_F32)
        for (int64_t c = 0; c < n; c++) ((float *)j->y)[at + c] = (float)(v->f[c] * j->scale);
    else
        for (int64_t c = 0; c < n; c++) store(j, at + c, (value){ v->f[c], v->i[c], v->at[c] });
}

static void column_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const reduce_job *j = arg;
    columns v;
    (void)worker;
    for (int64_t k = begin; k < end; k++) {
        const int64_t o = k / j->tiles, c0 = (k - o * j->tiles) * TILE, n = j->inner - c0 < TILE ? j->inner - c0 : TILE;
        if (!is_arg(j->code)) memset(v.at, 0, (size_t)n * sizeof *v.at);
        if (is_float_work(j->work)) memset(v.i, 0, (size_t)n * sizeof *v.i);
        else memset(v.f, 0, (size_t)n * sizeof *v.f);
        reduce_columns(j, j->x + (o * j->so + c0 * j->si) * j->elem, j->len, n, 0, &v);
        store_columns(j, o * j->inner + c0, n, &v);
    }
}

typedef struct long_columns {
    const reduce_job *j;
    const char *x;
    int64_t n;
    columns part[COLUMN_PARTS];
} long_columns;

static void column_part(void *arg, int64_t begin, int64_t end, int worker)
{
    long_columns *l = arg;
    const reduce_job *j = l->j;
    (void)worker;
    reduce_columns(j, l->x + begin * j->sl * j->elem, end - begin, l->n, begin, &l->part[begin / j->part]);
}

/* Few columns, many rows: the rows are cut. */
static void reduce_long_columns(cj_pool *pool, reduce_job *j)
{
    long_columns l;
    const int64_t each = (j->len + COLUMN_PARTS - 1) / COLUMN_PARTS;
    j->part = (each + 7) / 8 * 8;
    const int64_t parts = (j->len + j->part - 1) / j->part;
    for (int64_t k = 0; k < j->outer * j->tiles; k++) {
        const int64_t o = k / j->tiles, c0 = (k - o * j->tiles) * TILE;
        l.j = j;
        l.n = j->inner - c0 < TILE ? j->inner - c0 : TILE;
        l.x = j->x + (o * j->so + c0 * j->si) * j->elem;
        cj__parallel_for(pool, j->len, j->part, column_part, &l);
        for (int64_t c = 0; c < l.n; c++) {
            value total = { 0.0, 0, 0 };
            for (int64_t p = 0; p < parts; p++) {
                value v = { 0.0, 0, 0 };
                if (is_float_work(j->work)) v.f = l.part[p].f[c];
                else v.i = l.part[p].i[c];
                if (is_arg(j->code)) v.at = l.part[p].at[c];
                total = p == 0 ? v : combine(j, total, v);
            }
            store(j, o * j->inner + c0 + c, total);
        }
    }
}

/* ---- entry --------------------------------------------------------------------------------------------------------------------------- */

static int64_t distance(int64_t s) { return s < 0 ? -s : s; }

void CJ_K(cj__reduce)(cj_pool *pool, cj_reduce_code code, cj_dtype dtype, const void *x, int64_t outer, int64_t len, int64_t inner,
                      int64_t s_outer, int64_t s_len, int64_t s_inner, void *y, double scale)
{
    const int64_t results = outer * inner;
    if (results <= 0) return;
    reduce_job j = { .code = code,
                     .t = dtype,
                     .x = x,
                     .y = y,
                     .outer = outer,
                     .len = len,
                     .inner = inner,
                     .so = s_outer,
                     .sl = s_len,
                     .si = s_inner,
                     .scale = scale,
                     .elem = cj__elem_size(dtype) };
    j.work = code == CJ_RED_ANY || code == CJ_RED_ALL                 ? CJ_BOOL
             : dtype == CJ_F32 || dtype == CJ_BF16 || dtype == CJ_F16 ? CJ_F32
             : dtype == CJ_F64                                        ? CJ_F64
                                                                      : CJ_I64;
    if (len <= 0) {
        for (int64_t k = 0; k < results; k++) store(&j, k, empty_value(code));
        return;
    }
    const bool by_columns = inner > 1 && distance(s_inner) < distance(s_len);
    if (by_columns) {
        j.tiles = (inner + TILE - 1) / TILE;
        const int64_t items = outer * j.tiles;
        if (results * len <= CHUNK) column_items(&j, 0, items, 0);
        else if (items < 16 && len >= 16 * COLUMN_PARTS) reduce_long_columns(pool, &j);
        else {
            const int64_t each = len * (inner < TILE ? inner : TILE);
            cj__parallel_for(pool, items, each < CHUNK ? CHUNK / each + 1 : 1, column_items, &j);
        }
        return;
    }
    if (results * len <= CHUNK) reduce_rows(&j, 0, results, 0);
    else if (results < 16 && len > PART_MIN) reduce_long_rows(pool, &j);
    else cj__parallel_for(pool, results, len < CHUNK ? CHUNK / len + 1 : 1, reduce_rows, &j);
}
