/* Products with sparse matrices in compressed rows (sparse.h): a row of results stays in registers while its entries are walked. */
#include "kernels/cpu/sparse.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define CHUNK 32768 /* multiplications of one task, about */

typedef struct csr_job {
    const cj_csr_shape *s;
    cj_dtype t;
    const void *a, *b; /* values and x; or x and y */
    void *y;
} csr_job;

/* ---- loads and stores by dtype: t is a constant where these are inlined -------------------------------------------------------------------------------- */

CJ_INLINE float load_one(cj_dtype t, const void *p, int64_t i)
{
    return t == CJ_F32    ? ((const float *)p)[i]
           : t == CJ_BF16 ? cj_f32_from_bf16(((const uint16_t *)p)[i])
                          : cj_f32_from_f16(((const uint16_t *)p)[i]);
}
CJ_INLINE vf load(cj_dtype t, const void *p, int64_t i)
{
    return t == CJ_F32    ? vf_load((const float *)p + i)
           : t == CJ_BF16 ? vf_load_bf16((const uint16_t *)p + i)
                          : vf_load_f16((const uint16_t *)p + i);
}
CJ_INLINE vf load_n(cj_dtype t, const void *p, int64_t i, int n)
{
    return t == CJ_F32    ? vf_load_n((const float *)p + i, n)
           : t == CJ_BF16 ? vf_load_bf16_n((const uint16_t *)p + i, n)
                          : vf_load_f16_n((const uint16_t *)p + i, n);
}
CJ_INLINE void store_n(cj_dtype t, void *p, int64_t i, vf x, int n)
{
    if (t == CJ_F32) vf_store_n((float *)p + i, x, n);
    else if (t == CJ_BF16) vf_store_bf16_n((uint16_t *)p + i, x, n);
    else vf_store_f16_n((uint16_t *)p + i, x, n);
}

/* ---- matrix times dense ------------------------------------------------------------------------------------------------------------------------------------- */

/* Columns [at, at + width·CJ_VL) of a row of results; the last vector has `lanes`. */
CJ_INLINE void row_part(const csr_job *j, cj_dtype t, int64_t i, int64_t at, int width, int lanes)
{
    const cj_csr_shape *s = j->s;
    vf sum[4];
    for (int v = 0; v < width; v++) sum[v] = vf_zero();
    for (int64_t p = s->offsets[i]; p < s->offsets[i + 1]; p++) {
        const vf value = vf_set1(load_one(t, j->a, s->entry ? s->entry[p] : p));
        const int64_t from = s->columns[p] * s->k + at;
        for (int v = 0; v < width - 1; v++) sum[v] = vf_fma(value, load(t, j->b, from + v * CJ_VL), sum[v]);
        const int64_t last = from + (width - 1) * CJ_VL;
        sum[width - 1] = vf_fma(value, lanes == CJ_VL ? load(t, j->b, last) : load_n(t, j->b, last, lanes), sum[width - 1]);
    }
    for (int v = 0; v < width; v++) store_n(t, j->y, i * s->k + at + v * CJ_VL, sum[v], v == width - 1 ? lanes : CJ_VL);
}

CJ_INLINE void rows_of(const csr_job *j, cj_dtype t, int64_t begin, int64_t end)
{
    const int64_t k = j->s->k;
    if (k == CJ_VL) { /* the width of small graph networks */
        for (int64_t i = begin; i < end; i++) row_part(j, t, i, 0, 1, CJ_VL);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t at = 0;
        for (; at + 4 * CJ_VL <= k; at += 4 * CJ_VL) row_part(j, t, i, at, 4, CJ_VL);
        for (; at < k; at += CJ_VL) row_part(j, t, i, at, 1, k - at < CJ_VL ? (int)(k - at) : CJ_VL);
    }
}
static void rows_f32(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, rows_of(arg, CJ_F32, begin, end); }
static void rows_bf16(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, rows_of(arg, CJ_BF16, begin, end); }
static void rows_f16(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, rows_of(arg, CJ_F16, begin, end); }
static void rows_f64(void *arg, int64_t begin, int64_t end, int worker)
{
    const csr_job *j = arg;
    const cj_csr_shape *s = j->s;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        double *y = (double *)j->y + i * s->k;
        for (int64_t c = 0; c < s->k; c++) y[c] = 0;
        for (int64_t p = s->offsets[i]; p < s->offsets[i + 1]; p++) {
            const double value = ((const double *)j->a)[s->entry ? s->entry[p] : p], *x = (const double *)j->b + s->columns[p] * s->k;
            for (int64_t c = 0; c < s->k; c++) y[c] += value * x[c];
        }
    }
}

/* ---- dense times dense, at the entries ------------------------------------------------------------------------------------------------------------------ */

CJ_INLINE void dots_of(const csr_job *j, cj_dtype t, int64_t begin, int64_t end)
{
    const cj_csr_shape *s = j->s;
    for (int64_t i = begin; i < end; i++)
        for (int64_t p = s->offsets[i]; p < s->offsets[i + 1]; p++) {
            const int64_t a = i * s->k, b = s->columns[p] * s->k;
            vf sum = vf_zero();
            int64_t c = 0;
            for (; c + CJ_VL <= s->k; c += CJ_VL) sum = vf_fma(load(t, j->a, a + c), load(t, j->b, b + c), sum);
            const int rest = (int)(s->k - c);
            if (rest) sum = vf_fma(load_n(t, j->a, a + c, rest), load_n(t, j->b, b + c, rest), sum);
            store_n(t, j->y, p, vf_set1(vf_hsum(sum)), 1);
        }
}
static void dots_f32(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, dots_of(arg, CJ_F32, begin, end); }
static void dots_bf16(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, dots_of(arg, CJ_BF16, begin, end); }
static void dots_f16(void *arg, int64_t begin, int64_t end, int worker) { (void)worker, dots_of(arg, CJ_F16, begin, end); }
static void dots_f64(void *arg, int64_t begin, int64_t end, int worker)
{
    const csr_job *j = arg;
    const cj_csr_shape *s = j->s;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        for (int64_t p = s->offsets[i]; p < s->offsets[i + 1]; p++) {
            const double *a = (const double *)j->a + i * s->k, *b = (const double *)j->b + s->columns[p] * s->k;
            double sum = 0;
            for (int64_t c = 0; c < s->k; c++) sum += a[c] * b[c];
            ((double *)j->y)[p] = sum;
        }
}

static void each_row(cj_pool *pool, const csr_job *j, const cj_range_fn by_type[CJ_DTYPES])
{
    const cj_csr_shape *s = j->s;
    const int64_t work = s->entries * s->k, grain = work > CHUNK ? s->rows / (work / CHUNK) : s->rows;
    cj__parallel_for(pool, s->rows, grain > 0 ? grain : 1, by_type[j->t], (void *)(uintptr_t)j);
}
void CJ_K(cj__csr_matmul)(cj_pool *pool, const cj_csr_shape *s, cj_dtype t, const void *values, const void *x, void *y)
{
    static const cj_range_fn fn[CJ_DTYPES] = { [CJ_F32] = rows_f32, [CJ_F64] = rows_f64, [CJ_BF16] = rows_bf16, [CJ_F16] = rows_f16 };
    each_row(pool, &(csr_job){ .s = s, .t = t, .a = values, .b = x, .y = y }, fn);
}
void CJ_K(cj__csr_dot)(cj_pool *pool, const cj_csr_shape *s, cj_dtype t, const void *x, const void *y, void *out)
{
    static const cj_range_fn fn[CJ_DTYPES] = { [CJ_F32] = dots_f32, [CJ_F64] = dots_f64, [CJ_BF16] = dots_bf16, [CJ_F16] = dots_f16 };
    each_row(pool, &(csr_job){ .s = s, .t = t, .a = x, .b = y, .y = out }, fn);
}
