/* Attention in f32 (bf16 and f16 are widened on the way in): blocks of queries (attention_block.h), and a way for a few queries, as decoding has them. */
#include "kernels/cpu/attention.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/load.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_math.h"

cj_attention_fn CJ_K(cj__attention_f64);
cj_attention_workspace_fn CJ_K(cj__attention_workspace_f64);

#define real float
#define REAL CJ_F32
#define LANES CJ_VL
typedef vf vr;

#if defined CJ_ISA_AVX512
/* 2^(j/32) */
static const float exp2_table[] = { 0x1.000000p+0f, 0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f,
                                    0x1.2387a6p+0f, 0x1.29e9e0p+0f, 0x1.306fe0p+0f, 0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f,
                                    0x1.4bfdaep+0f, 0x1.5342b6p+0f, 0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f,
                                    0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f, 0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f,
                                    0x1.ae89fap+0f, 0x1.b7f770p+0f, 0x1.c199bep+0f, 0x1.cb720ep+0f, 0x1.d5818ep+0f, 0x1.dfc974p+0f,
                                    0x1.ea4afap+0f, 0x1.f50766p+0f };

/* 2^x.  Weights below the smallest normal number are 0: denormals would cost a trap each, and masked scores, -inf, would all take it.  NaN stays.
 * x = k + j/32 + r, 0 <= r < 1/32: the table holds 2^(j/32) in two registers, and 2^r = 1 + r·(c1 + c2·r) within 7e-8.  All roundings are downwards, so that k is what the
 * last instruction makes of x itself. */
CJ_INLINE vf vr_exp2(vf x)
{
    const vf m = _mm512_add_round_ps(x, vf_set1(CJ_ROUND_MAGIC / 32), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    const vf r = _mm512_reduce_ps(x, 5 << 4 | _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    const vf t = _mm512_permutex2var_ps(vf_load(exp2_table), (__m512i)m, vf_load(exp2_table + 16));
    const vf y = vf_fma(r * t, vf_fma(r, vf_set1(0.2426527f), vf_set1(0.69312376f)), t);
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, vf_set1(-126.0f), _CMP_NLT_UQ), y, x);
}
#else
/* 2^r = 1 + r·P(r), |r| <= 1/2, within 1e-7 (minimax, rounded one by one). */
static const float exp2_c[] = { 1.0f, 0.693147004f, 0.240222469f, 0.0555071086f, 0.00967129227f, 0.00132695353f };

CJ_INLINE vf vr_exp2(vf x)
{
    const vf lowest = vf_set1(-126.0f), magic = vf_set1(CJ_ROUND_MAGIC), y = vf_max(lowest, x), m = y + magic;
    const cj_exp_parts parts = { .n = m - magic, .ni = (vi)((vu)m - (vu)magic) };
    return vf_and_mask(vm_not(vf_lt(x, lowest)), cj_scale2(CJ_POLY(vf_fma, y - parts.n, exp2_c), parts));
}
#endif
CJ_INLINE vf vr_set1(float x) { return vf_set1(x); }
CJ_INLINE vf vr_load(const float *p) { return vf_load(p); }
CJ_INLINE void vr_store(float *p, vf x) { vf_store(p, x); }
CJ_INLINE vf vr_fma(vf a, vf b, vf c) { return vf_fma(a, b, c); }
CJ_INLINE vf vr_max(vf a, vf b) { return vf_max(a, b); }
CJ_INLINE vf vr_at_most(vf a, vf b, vf x, vf y) { return vf_sel(vf_le(a, b), x, y); }
CJ_INLINE vf vr_log(vf x) { return vf_log(x); }
/* a0 b0 a1 b1 … from the lower and the upper halves. */
#if CJ_VL == 16
CJ_INLINE vf vr_zip_low(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23); }
CJ_INLINE vf vr_zip_high(vf a, vf b) { return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31); }
#elif CJ_VL == 8
CJ_INLINE vf vr_zip_low(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
CJ_INLINE vf vr_zip_high(vf a, vf b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#else
CJ_INLINE vf vr_zip_low(vf a, vf b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
CJ_INLINE vf vr_zip_high(vf a, vf b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
#endif
#if defined CJ_ISA_AVX512 || defined CJ_ISA_NEON /* 32 vector registers */
#define TILE_WIDTH 4
#define TILE_ROWS(V) ((V) == 4 ? 6 : (V) == 2 ? 12 : 8)
#else
#define TILE_WIDTH 2
#define TILE_ROWS(V) ((V) == 2 ? 6 : 8)
#endif

#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/attention_few.h"

/* ---- entry --------------------------------------------------------------------------------------------------------------------------------------------- */

size_t CJ_K(cj__attention_workspace)(const cj_attention_job *j, bool backward, int threads)
{
    if (j->t == CJ_F64) return CJ_K(cj__attention_workspace_f64)(j, backward, threads);
    return !backward && few(j) ? 0 : workspace(j, backward, threads);
}

void CJ_K(cj__attention)(cj_pool *pool, const cj_attention_job *j, bool backward, void *scratch)
{
    if (j->t == CJ_F64) {
        CJ_K(cj__attention_f64)(pool, j, backward, scratch);
    } else if (!backward && few(j)) {
        few_attention(pool, j);
    } else {
        run(pool, j, backward, scratch);
    }
}
