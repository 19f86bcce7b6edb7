/* Attention in f64, for checks: the blocks of attention_block.h on vectors of the compiler, exponentials one by one. */
#include "kernels/cpu/attention.h"

#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define real double
#define REAL CJ_F64
#define LANES (CJ_VL / 2)
typedef double vr __attribute__((vector_size(4 * CJ_VL)));
typedef int64_t vr_bits __attribute__((vector_size(4 * CJ_VL)));

CJ_INLINE vr vr_set1(double x) { return x - (vr){ 0 }; }
CJ_INLINE vr vr_load(const double *p)
{
    vr x;
    memcpy(&x, p, sizeof x);
    return x;
}
CJ_INLINE void vr_store(double *p, vr x) { memcpy(p, &x, sizeof x); }
CJ_INLINE vr vr_fma(vr a, vr b, vr c) { return a * b + c; }
CJ_INLINE vr vr_sel(vr_bits m, vr a, vr b) { return (vr)((m & (vr_bits)a) | (~m & (vr_bits)b)); }
CJ_INLINE vr vr_max(vr a, vr b) { return vr_sel((vr_bits)(a > b), a, b); }
CJ_INLINE vr vr_at_most(vr a, vr b, vr x, vr y) { return vr_sel((vr_bits)(a <= b), x, y); }
CJ_INLINE vr vr_exp2(vr x)
{
    for (int l = 0; l < LANES; l++) x[l] = x[l] < -1022 ? 0 : exp2(x[l]);
    return x;
}
CJ_INLINE vr vr_log(vr x)
{
    for (int l = 0; l < LANES; l++) x[l] = log(x[l]);
    return x;
}
#if CJ_VL == 16
CJ_INLINE vr vr_zip_low(vr a, vr b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
CJ_INLINE vr vr_zip_high(vr a, vr b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#elif CJ_VL == 8
CJ_INLINE vr vr_zip_low(vr a, vr b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
CJ_INLINE vr vr_zip_high(vr a, vr b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
#else
CJ_INLINE vr vr_zip_low(vr a, vr b) { return __builtin_shufflevector(a, b, 0, 2); }
CJ_INLINE vr vr_zip_high(vr a, vr b) { return __builtin_shufflevector(a, b, 1, 3); }
#endif
#define TILE_WIDTH 2
#define TILE_ROWS(V) ((V) == 2 ? 6 : 8)

#include "kernels/cpu/attention_block.h"

size_t CJ_K(cj__attention_workspace_f64)(const cj_attention_job *j, bool backward, int threads) { return workspace(j, backward, threads); }
void CJ_K(cj__attention_f64)(cj_pool *pool, const cj_attention_job *j, bool backward, void *scratch) { run(pool, j, backward, scratch); }
