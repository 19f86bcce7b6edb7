/* Elementary functions on vectors of f32.
 *
 * Each reduces its argument to a small interval and evaluates a minimax polynomial there (coefficients fitted with Lawson's iteration in high
 * precision and rounded one by one, lowest degree first).  One lane's result depends on that lane's argument only, never on its position.  Special values
 * are as in C: NaN stays NaN, the limits at ±inf, signed zeros, gradual underflow, overflow to inf.
 *
 * The *_exact functions consist of IEEE operations and vf_fma_exact only, and give the same bits on every level; samplers use them.  The
 * others may use two roundings for a multiply-add on the portable level, so levels differ in the last bit.
 */
#ifndef CJ_KERNELS_CPU_SIMD_MATH_H
#define CJ_KERNELS_CPU_SIMD_MATH_H

#if defined CJ_ISA_AVX512
#include "kernels/cpu/gelu_table.h"
#endif
#include "kernels/cpu/simd.h"

typedef vf (*cj_fma_fn)(vf, vf, vf); /* vf_fma or vf_fma_exact; always inlined away */

/* c[0] + c[1] x + … + c[n-1] x^(n-1), Horner. */
CJ_INLINE vf cj_poly(cj_fma_fn fma, vf x, const float *c, int n)
{
    vf y = vf_set1(c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = fma(y, x, vf_set1(c[i]));
    return y;
}
#define CJ_POLY(fma, x, c) cj_poly(fma, x, c, (int)(sizeof(c) / sizeof *(c))) /* all of an array */

/* Applies a scalar function to the lanes of m; rare arguments only. */
CJ_INLINE vf cj_patch(vm m, vf y, vf x, float (*f)(float))
{
    uint32_t bits = vm_bits(m);
    for (int i = 0; i < CJ_VL; i++)
        if (bits >> i & 1) y[i] = f(x[i]);
    return y;
}

/* ---- exp: x = n ln2 + r, |r| <= ln2/2; e^x = 2^n (1 + r + r^2 q(r)) --------------------------------------------------------------------- */

#define CJ_LN2_HI 0.693359375f      /* 9 bits: n * CJ_LN2_HI is exact */
#define CJ_LN2_LO (-2.12194440e-4f) /* ln2 - CJ_LN2_HI */
#define CJ_LOG2E 1.44269504f
#define CJ_ROUND_MAGIC 0x1.8p23f /* x + this has round(x) in its low bits */

typedef struct cj_exp_parts {
    vf n, r;
    vi ni;
} cj_exp_parts;

/* |x| < 2^21 */
CJ_INLINE cj_exp_parts cj_exp_reduce(cj_fma_fn fma, vf x)
{
    cj_exp_parts p;
    vf magic = vf_set1(CJ_ROUND_MAGIC), m = fma(x, vf_set1(CJ_LOG2E), magic);
    p.n = m - magic;
    p.ni = (vi)((vu)m - (vu)magic);
    p.r = fma(p.n, vf_set1(-CJ_LN2_LO), fma(p.n, vf_set1(-CJ_LN2_HI), x));
    return p;
}

/* y * 2^n for any n the reduction can give; one rounding, into denormals too. */
CJ_INLINE vf cj_scale2(vf y, cj_exp_parts p)
{
#if defined CJ_ISA_AVX512
    return _mm512_scalef_ps(y, p.n);
#else
    vi half = p.ni >> 1;
    return y * vf_pow2i(half) * vf_pow2i(p.ni - half);
#endif
}

static const float cj_exp_c[] = { 1.0f, 1.0f, 0.5f, 0.166665196f, 0.0416663848f, 0.00836886093f, 0.00139422191f };

/* -104 <= x <= 89, or NaN */
CJ_INLINE vf cj_exp_clamped(cj_fma_fn fma, vf x)
{
    cj_exp_parts p = cj_exp_reduce(fma, x);
    return cj_scale2(CJ_POLY(fma, p.r, cj_exp_c), p);
}
CJ_INLINE vf cj_exp_core(cj_fma_fn fma, vf x)
{
    return cj_exp_clamped(fma, vf_min(vf_set1(89.0f), vf_max(vf_set1(-104.0f), x))); /* NaN passes: it is the second operand */
}
CJ_INLINE vf vf_exp(vf x) { return cj_exp_core(vf_fma, x); }
CJ_INLINE vf vf_exp_exact(vf x) { return cj_exp_core(vf_fma_exact, x); }
/* exp(-|x|) */
CJ_INLINE vf vf_exp_negabs(vf x) { return cj_exp_clamped(vf_fma, vf_max(vf_set1(-104.0f), (vf)((vi)x | vi_set1(INT32_MIN)))); }

static const float cj_expm1_c[] = { 0.5f, 0.166666672f, 0.0416664891f, 0.00833320804f, 0.00139327231f, 0.000199442715f };

/* 2^n (e^r - 1) + (2^n - 1); half the scale first, so that n = 128 does not overflow early. */
CJ_INLINE vf vf_expm1(vf x)
{
    cj_exp_parts p = cj_exp_reduce(vf_fma, vf_min(vf_set1(89.0f), vf_max(vf_set1(-20.0f), x)));
    vf em1 = vf_fma(p.r * p.r, CJ_POLY(vf_fma, p.r, cj_expm1_c), p.r);
    vf s = vf_pow2i(p.ni - 1), h = vf_fma(s, em1, s - vf_set1(0.5f));
    return vf_sel(vf_eq(x, vf_zero()), x, h + h);
}

/* ---- log: x = 2^e m, m in [2/3, 4/3), f = m - 1; log(1 + f) = f - f^2/2 + f^3 P(f) ------------------------------------------------------- */

static const float cj_log_c[] = { 0.333332121f, -0.249997988f, 0.200106457f, -0.16680491f,
                                  0.140016437f, -0.121835187f, 0.140066624f, -0.128976718f };

/* e ln2 + log(1 + f) */
CJ_INLINE vf cj_log_sum(cj_fma_fn fma, vf e, vf f)
{
    vf f2 = f * f;
    vf p = fma(f2 * f, CJ_POLY(fma, f, cj_log_c), e * vf_set1(CJ_LN2_LO));
    p = fma(f2, vf_set1(-0.5f), p);
    return fma(e, vf_set1(CJ_LN2_HI), f + p);
}

/* Splits a positive normal number. */
CJ_INLINE vf cj_log_split(vf x, vi *e)
{
    vi i = (vi)((vu)x - (vu)vi_set1(0x3f2aaaab)); /* bits of 2/3 */
    *e = i >> 23;
    return (vf)(vi)((vu)x - ((vu)*e << 23));
}

/* log(0) = -inf, log(<0) = NaN, log(inf) = inf, log(NaN) = NaN over the value y computed for ordinary x. */
CJ_INLINE vf cj_log_special(vf x, vf y)
{
    vf inf = vf_set1(INFINITY);
    y = vf_sel(vf_lt(x, inf), y, x); /* inf and NaN */
    y = vf_sel(vf_lt(x, vf_zero()), vf_set1(NAN), y);
    return vf_sel(vf_eq(x, vf_zero()), vf_set1(-INFINITY), y);
}

CJ_INLINE vf cj_log_core(cj_fma_fn fma, vf x)
{
    vi e;
    vm tiny = vf_lt(x, vf_set1(0x1p-126f));
    vf m = cj_log_split(vf_sel(tiny, x * vf_set1(0x1p23f), x), &e);
    vf ef = vf_from_vi(e) - vf_and_mask(tiny, vf_set1(23.0f));
    return cj_log_special(x, cj_log_sum(fma, ef, m - vf_set1(1.0f)));
}
CJ_INLINE vf vf_log(vf x) { return cj_log_core(vf_fma, x); }
CJ_INLINE vf vf_log_exact(vf x) { return cj_log_core(vf_fma_exact, x); }

/* u = 1 + x loses c = x - (u - 1); c / 2^e goes back into f, so that f = x exactly when e = 0. */
CJ_INLINE vf vf_log1p(vf x)
{
    vi e;
    vf one = vf_set1(1.0f), u = one + x;
    vf c = vf_sel(vf_lt(u, vf_set1(0x1p24f)), x - (u - one), vf_zero());
    vf m = cj_log_split(u, &e);
    vf f = vf_fma(c, vf_pow2i(vi_min(vi_max(-e, vi_set1(-30)), vi_set1(30))), m - one);
    vf y = cj_log_special(u, cj_log_sum(vf_fma, vf_from_vi(e), f));
    return vf_sel(vf_lt(vf_abs(x), vf_set1(0x1p-100f)), x, y); /* denormals and -0 */
}

/* log1p(z) for 0 <= z <= 1: no special values but NaN. */
CJ_INLINE vf cj_log1p_unit(vf z)
{
    vf one = vf_set1(1.0f), u = one + z, c = z - (u - one);
    vm big = vf_le(vf_set1(4.0f / 3), u); /* e = 1 */
    vf half = vf_sel(big, vf_set1(0.5f), one);
    vf f = vf_fma(c, half, vf_fma(u, half, vf_set1(-1.0f)));
    return cj_log_sum(vf_fma, vf_and_mask(big, one), f);
}

/* ---- from exp and log ---------------------------------------------------------------------------------------------------------------- */

/* 1 / (1 + exp(-x)); 0 below -88.7, where exp(-x) overflows, as in PyTorch. */
#if defined CJ_ISA_AVX512

/* clang-format off */
/* The bits of 2^(i/32), less those that i adds to the exponent when the index it was looked up with is shifted there. */
static const int32_t cj_exp2_table[32] = {
    0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
    0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
    0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
    0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3,
};
/* clang-format on */

/* Functions on several vectors at once go step by step over all of them: one vector's steps wait for each other, four vectors' do not. */
#define CJ_EACH(q, n) _Pragma("GCC unroll 4") for (int q = 0; q < (n); q++)

/* x = r - n ln2 with n in steps of 1/32, rounded down so that 2^n is infinite exactly where exp(-x) is; its fraction is looked up within registers, and
 * its integer added to the exponent.  -ln2/32 < r <= 0, and three terms of exp(-r) - 1 = r P(r) suffice.  The clamps keep the exponent within
 * its field: -88.73 gives n = 128. */
CJ_INLINE void cj_sigmoid_each(vf *x, int count)
{
    const vf one = vf_set1(1.0f), magic = vf_set1(0x1.8p18f);
    vf m[4], n[4], p[4];
    CJ_EACH(q, count) x[q] = vf_min(vf_set1(87.0f), vf_max(vf_set1(-88.73f), x[q]));
    CJ_EACH(q, count) m[q] = _mm512_fmadd_round_ps(x[q], vf_set1(-CJ_LOG2E), magic, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    CJ_EACH(q, count) n[q] = m[q] - magic;
    CJ_EACH(q, count)
    p[q] = _mm512_permutex2var_ps(vf_load((const float *)cj_exp2_table), (__m512i)m[q], vf_load((const float *)cj_exp2_table + 16));
    CJ_EACH(q, count) x[q] = vf_fma(n[q], vf_set1(0.693147182f), x[q]); /* ln2 in two parts */
    CJ_EACH(q, count) m[q] = (vf)((vu)p[q] + ((vu)m[q] << 18));         /* 2^n */
    CJ_EACH(q, count) x[q] = vf_fma(n[q], vf_set1(-1.90465421e-9f), x[q]);
    CJ_EACH(q, count) p[q] = vf_fma(x[q], vf_set1(-0.168663099f), vf_set1(0.499971092f));
    CJ_EACH(q, count) p[q] = vf_fma(x[q], p[q], vf_set1(-1.00000012f));
    CJ_EACH(q, count) p[q] = x[q] * p[q];                    /* exp(-r) - 1 */
    CJ_EACH(q, count) m[q] = vf_fma(m[q], p[q], m[q] + one); /* the sum is exact where it matters, for small results */
    CJ_EACH(q, count) x[q] = one / m[q]; /* the divider works beside the multipliers: cheaper than an estimate and a step of Newton's */
}
CJ_INLINE vf vf_sigmoid(vf x) { return cj_sigmoid_each(&x, 1), x; }

#else

CJ_INLINE vf vf_sigmoid(vf x)
{
    vf one = vf_set1(1.0f), c = vf_min(vf_set1(104.0f), vf_max(vf_set1(-89.0f), x));
    return one / (one + cj_exp_clamped(vf_fma, -c));
}

#endif

/* tanh |x| = -t / (2 + t), t = expm1(-2|x|) */
CJ_INLINE vf cj_expm1_neg2abs(vf x)
{
    vf a = vf_max(vf_set1(-20.0f), (vf)((vi)x | vi_set1(INT32_MIN)) * vf_set1(2.0f));
    cj_exp_parts p = cj_exp_reduce(vf_fma, a);
    vf em1 = vf_fma(p.r * p.r, CJ_POLY(vf_fma, p.r, cj_expm1_c), p.r);
    vf s = vf_pow2i(p.ni);
    return vf_fma(s, em1, s - vf_set1(1.0f));
}
CJ_INLINE vf cj_tanh_signed(vf x, vf y)
{
    return vf_sel(vf_lt(vf_abs(x), vf_set1(0x1p-60f)), x, vf_copysign(y, x)); /* 2x and r lose the last bit of denormals */
}
CJ_INLINE vf vf_tanh(vf x)
{
    vf t = cj_expm1_neg2abs(x);
    return cj_tanh_signed(x, t / (vf_set1(2.0f) + t));
}

/* max(x, 0) + log1p(exp(-|x|)) */
CJ_INLINE vf vf_softplus(vf x) { return vf_max(vf_zero(), x) + cj_log1p_unit(vf_exp_negabs(x)); }
CJ_INLINE vf vf_logsigmoid(vf x) { return vf_min(vf_zero(), x) - cj_log1p_unit(vf_exp_negabs(x)); }

/* ---- erf: x + x P(x^2) below 0.92, 1 - exp(t R(t)) above, t = |x| -------------------------------------------------------------------------- */

static const float cj_erf_small_c[] = { 0.128379166f,   -0.376126289f,    0.112836257f,   -0.0268557314f,
                                        0.00519240508f, -0.000804976968f, 7.99664995e-05f };
static const float cj_erf_large_c[] = { -1.1286428f,     -0.635174513f,   -0.1061984f,     0.0237288345f,
                                        -0.00362671399f, 0.000318924722f, -1.08432478e-05f };

CJ_INLINE vf vf_erf(vf x)
{
    vf a = vf_abs(x), t = vf_min(vf_set1(3.95f), a), u = x * x;
    vf small = vf_fma(x, CJ_POLY(vf_fma, u, cj_erf_small_c), x);
    vf large = vf_set1(1.0f) - cj_exp_clamped(vf_fma, t * CJ_POLY(vf_fma, t, cj_erf_large_c));
    return vf_sel(vf_lt(a, vf_set1(0.92f)), small, vf_copysign(large, x));
}

/* ---- sin, cos: x = n pi/2 + r ---------------------------------------------------------------------------------------------------------- */

static const float cj_sin_c[] = { -0.166666552f, 0.00833218824f, -0.000195179979f };
static const float cj_cos_c[] = { 0.0416666456f, -0.00138873013f, 2.44306702e-05f };

CJ_INLINE vf cj_sin_poly(vf r, vf u) { return vf_fma(r * u, CJ_POLY(vf_fma, u, cj_sin_c), r); }
CJ_INLINE vf cj_cos_poly(vf u) { return vf_fma(u * u, CJ_POLY(vf_fma, u, cj_cos_c), vf_fma(u, vf_set1(-0.5f), vf_set1(1.0f))); }

/* sin(x + quarter pi/2).  pi/2 in three parts; the products must not be rounded, hence the exact fma. */
CJ_INLINE vf cj_sin_shifted(vf x, int quarter, float (*libm)(float))
{
    vm far = vm_not(vf_le(vf_abs(x), vf_set1(1e5f)));
    vf z = vf_and_mask(vm_not(far), x), magic = vf_set1(CJ_ROUND_MAGIC);
    vf m = vf_fma(z, vf_set1(0.636619772f), magic), n = m - magic;
    vi q = (vi)((vu)m - (vu)magic) + quarter;
    vf r = vf_fma_exact(n, vf_set1(-1.57079637f), z);
    r = vf_fma_exact(n, vf_set1(4.37113883e-8f), r);
    r = vf_fma_exact(n, vf_set1(1.71512489e-15f), r);
    vf u = r * r;
    vf y = vf_sel(vi_eq(q & 1, vi_set1(0)), cj_sin_poly(r, u), cj_cos_poly(u));
    y = (vf)((vi)y ^ (vi)((vu)(q & 2) << 30));
    if (quarter == 0) y = vf_sel(vf_eq(x, vf_zero()), x, y);
    if (vm_any(far)) y = cj_patch(far, y, x, libm);
    return y;
}
CJ_INLINE vf vf_sin(vf x) { return cj_sin_shifted(x, 0, sinf); }
CJ_INLINE vf vf_cos(vf x) { return cj_sin_shifted(x, 1, cosf); }

static const float cj_sin2pi_c[] = { -41.3418617f, 81.6246719f, -76.726059f };
static const float cj_cos2pi_c[] = { 1.0f, -19.7392082f, 64.9391403f, -85.4230652f, 58.5549469f };

/* sin and cos of 2 pi u, 0 <= u < 1 in turns: u = k/4 + f exactly, |f| <= 1/8. */
CJ_INLINE void vf_sincos_2pi_exact(vf u, vf *sin_out, vf *cos_out)
{
    vf magic = vf_set1(CJ_ROUND_MAGIC), m = vf_fma_exact(u, vf_set1(4.0f), magic), k = m - magic;
    vi q = (vi)((vu)m - (vu)magic);
    vf f = vf_fma_exact(k, vf_set1(-0.25f), u), v = f * f;
    vf tail = vf_fma_exact(v, CJ_POLY(vf_fma_exact, v, cj_sin2pi_c), vf_set1(-1.74845553e-7f)); /* 2 pi = 6.28318548 - 1.748e-7 */
    vf s = vf_fma_exact(f, vf_set1(6.28318548f), f * tail);
    vf c = CJ_POLY(vf_fma_exact, v, cj_cos2pi_c);
    vm even = vi_eq(q & 1, vi_set1(0));
    *sin_out = (vf)((vi)vf_sel(even, s, c) ^ (vi)((vu)(q & 2) << 30));
    *cos_out = (vf)((vi)vf_sel(even, c, s) ^ (vi)((vu)((q + 1) & 2) << 30));
}

/* ---- atan2: atan of min/max in [0, 1], then the octant -------------------------------------------------------------------------------- */

static const float cj_atan_c[] = { -0.333332986f, 0.19998531f,    -0.142640516f, 0.109511748f,  -0.0840047523f,
                                   0.0579065457f, -0.0311270021f, 0.0108873611f, -0.0017875476f };

CJ_INLINE vf vf_atan2(vf y, vf x)
{
    vf ax = vf_abs(x), ay = vf_abs(y), inf = vf_set1(INFINITY), one = vf_set1(1.0f);
    vf lo = vf_min(ax, ay), hi = vf_max(ax, ay);
    vm tiny = vf_lt(hi, vf_set1(0x1p-100f)); /* denormal quotients need no care, denormal operands do */
    vf scale = vf_sel(tiny, vf_set1(0x1p60f), one);
    vf q = (lo * scale) / (hi * scale);
    q = vf_sel(vf_eq(hi, vf_zero()), vf_zero(), q);
    q = vf_sel(vm_and(vf_eq(lo, inf), vf_eq(hi, inf)), one, q);
    vf u = q * q, t = vf_fma(q * u, CJ_POLY(vf_fma, u, cj_atan_c), q);
    t = vf_sel(vf_lt(ax, ay), (vf_set1(1.57079637f) - t) + vf_set1(-4.37113883e-8f), t);
    t = vf_sel(vi_lt((vi)x, vi_set1(0)), (vf_set1(3.14159274f) - t) + vf_set1(-8.74227766e-8f), t);
    t = vf_sel(vm_or(vf_isnan(x), vf_isnan(y)), vf_set1(NAN), t);
    return vf_copysign(t, y);
}

/* ---- pow: exp(y log|x|) with the logarithm as a sum of two floats ------------------------------------------------------------------------ */

static const float cj_atanh_c[] = { 0.400008619f, 0.285070419f, 0.24100101f };
#define CJ_ATANH_LOW (-5.55744961e-8f) /* the fit's constant term less the float that stands for 2/3 */

/* log(1 + f) = 2 s + s^3 (2/3 + s^2 P(s^2)), s = f / (2 + f).  s, s^3 and the sums carry their rounding errors along: about 33 bits.
 * Returns the high part of e ln2 + log(1 + f). */
CJ_INLINE vf cj_log_twofloat(vf a, vf *low)
{
    vi e;
    vm tiny = vf_lt(a, vf_set1(0x1p-126f));
    vf f = cj_log_split(vf_sel(tiny, a * vf_set1(0x1p23f), a), &e) - vf_set1(1.0f);
    vf ef = vf_from_vi(e) - vf_and_mask(tiny, vf_set1(23.0f));
    vf two = vf_set1(2.0f), d = two + f, d_lo = f - (d - two);
    vf s = f / d, s_lo = vf_fma_exact(vf_neg(s), d_lo, vf_fma_exact(vf_neg(s), d, f)) / d;
    vf u = s * s, u_lo = vf_fma_exact(s, s, vf_neg(u));
    vf t = s * u, t_lo = vf_fma_exact(s, u, vf_neg(t)) + s * u_lo;
    vf third = vf_set1(0.666666687f), v = t * third;
    vf v_lo = vf_fma_exact(t, third, vf_neg(v)) + vf_fma(t, vf_fma(u, CJ_POLY(vf_fma, u, cj_atanh_c), vf_set1(CJ_ATANH_LOW)), t_lo * third);
    vf big = ef * vf_set1(CJ_LN2_HI), s2 = s + s, hi = big + s2, hi_lo = s2 - (hi - big);
    vf sum = hi + v, sum_lo = v - (sum - hi);
    vf lo = (sum_lo + hi_lo) + (v_lo + (vf_fma(s_lo + s_lo, u, s_lo + s_lo) + ef * vf_set1(CJ_LN2_LO)));
    vf r = sum + lo;
    *low = lo - (r - sum);
    return r;
}

CJ_INLINE vf vf_pow(vf x, vf y)
{
    vf zero = vf_zero(), one = vf_set1(1.0f), inf = vf_set1(INFINITY), a = vf_abs(x), l_lo;
    vf l = cj_log_twofloat(a, &l_lo);
    vm edge = vm_or(vf_eq(a, zero), vm_not(vf_lt(a, inf)));
    l = vf_sel(vf_eq(a, zero), vf_neg(inf), vf_sel(vf_lt(a, inf), l, a));
    l_lo = vf_sel(edge, zero, l_lo);
    vf p = y * l, p_lo = vf_fma_exact(y, l, vf_neg(p)) + y * l_lo;
    p_lo = vf_sel(vf_lt(vf_abs(p), vf_set1(200.0f)), p_lo, zero);
    cj_exp_parts parts = cj_exp_reduce(vf_fma, vf_min(vf_set1(89.0f), vf_max(vf_set1(-104.0f), p)));
    parts.r = parts.r + p_lo;
    vf r = cj_scale2(CJ_POLY(vf_fma, parts.r, cj_exp_c), parts);

    vf half = y * vf_set1(0.5f);
    vm whole = vf_eq(vf_trunc(y), y), odd = vm_and(whole, vf_ne(vf_trunc(half), half));
    vm negative = vi_lt((vi)x, vi_set1(0));
    r = vf_sel(vm_and(negative, odd), vf_neg(r), r);
    r = vf_sel(vm_and(vm_and(vf_lt(x, zero), vm_not(whole)), vf_lt(a, inf)), vf_set1(NAN), r);
    r = vf_sel(vm_and(vf_eq(a, one), vf_eq(vf_abs(y), inf)), one, r);
    r = vf_sel(vm_or(vf_isnan(x), vf_isnan(y)), vf_set1(NAN), r);
    return vf_sel(vm_or(vf_eq(y, zero), vf_eq(x, one)), one, r);
}

/* ---- GELU: x Phi(x), Phi the normal distribution function ------------------------------------------------------------------------------- */

#if defined CJ_ISA_AVX512

/* A table of 32 intervals, looked up within registers (gelu_table.h): y = table(|x|); |x| beyond the table counts as its end, NaN too. */
CJ_INLINE void cj_table32(const float (*table)[32], const vf *x, float scale, vf *y, int count)
{
    vf magic = vf_set1(CJ_ROUND_MAGIC), s = vf_set1(scale), m[4], d[4];
    CJ_EACH(q, count) d[q] = _mm512_range_ps(x[q], vf_set1(31 / scale), 2 << 2 | 2); /* min(|x|, end), sign cleared */
    CJ_EACH(q, count) m[q] = vf_fma(d[q], s, magic);
    CJ_EACH(q, count) y[q] = m[q] - magic;
    CJ_EACH(q, count) d[q] = _mm512_fmsub_ps(d[q], s, y[q]);
    CJ_EACH(q, count) y[q] = _mm512_permutex2var_ps(vf_load(table[4]), (__m512i)m[q], vf_load(table[4] + 16));
#pragma GCC unroll 4
    for (int k = 3; k >= 0; k--)
        CJ_EACH(q, count) y[q] = vf_fma(y[q], d[q], _mm512_permutex2var_ps(vf_load(table[k]), (__m512i)m[q], vf_load(table[k] + 16)));
}

/* Replaces y by classes of x, four bits each, from the lowest: quiet NaN, signalling NaN, zero, one, -inf, inf, negative, positive.
 * 0: y, 1: x, 2: NaN, 3: -NaN, 8: 0. */
CJ_INLINE vf cj_by_class(vf y, vf x, int classes) { return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(classes), 0); }

/* max(x, 0) - a Phi(-a), a = |x|: no cancellation; -inf gives NaN, as x Phi(x) does. */
CJ_INLINE void cj_gelu_each(vf *x, int count)
{
    vf w[4];
    cj_table32(cj_gelu_table, x, CJ_GELU_TABLE_S, w, count);
    CJ_EACH(q, count) x[q] = (x[q] - vf_min(vf_zero(), x[q])) - w[q];
}
CJ_INLINE vf vf_gelu(vf x) { return cj_gelu_each(&x, 1), x; }

/* Phi(x) + x phi(x) = [x > 0] - sign(x) (Phi(-a) - a phi(a)); NaN at the infinities, as that gives. */
CJ_INLINE void cj_gelu_slope_each(vf *x, int count)
{
    vf v[4];
    cj_table32(cj_slope_table, x, CJ_SLOPE_TABLE_S, v, count);
    CJ_EACH(q, count) v[q] = _mm512_mask_sub_ps(v[q], vf_le(vf_zero(), x[q]), vf_set1(1.0f), v[q]);
    CJ_EACH(q, count) x[q] = cj_by_class(v[q], x[q], 0x00330022);
}
CJ_INLINE vf vf_gelu_slope(vf x) { return cj_gelu_slope_each(&x, 1), x; }

#else

/* Phi(-a) = exp(-a^2/2) t G(t), t = 1 / (1 + 0.35 a), for a >= 0: accurate relative to Phi, far into the tail. */
static const float cj_phi_c[] = { 0.139621258f, 0.13986434f,   0.119815521f, 0.105574474f, -0.0232624654f,
                                  0.159390047f, -0.255898595f, 0.144058853f, -0.02916345f };

CJ_INLINE vf cj_phi_tail(vf a, vf *gauss)
{ /* 0 <= a <= 14.4; *gauss = exp(-a^2/2) */
    vf t = vf_set1(1.0f) / vf_fma(a, vf_set1(0.35f), vf_set1(1.0f));
    *gauss = cj_exp_clamped(vf_fma, a * a * vf_set1(-0.5f));
    return *gauss * (t * CJ_POLY(vf_fma, t, cj_phi_c));
}

/* max(x, 0) - a Phi(-a), a = |x|: no cancellation; -inf gives NaN, as x Phi(x) does. */
CJ_INLINE vf vf_gelu(vf x)
{
    vf gauss, a = vf_min(vf_set1(14.4f), vf_abs(x)), zero = vf_zero();
    return vf_fnma(a, cj_phi_tail(a, &gauss), vf_max(zero, x)) + vf_min(zero, x) * zero;
}

/* Phi(x) + x phi(x) = [x > 0] - sign(x) (Phi(-a) - a phi(a)); NaN at the infinities, as that gives. */
CJ_INLINE vf vf_gelu_slope(vf x)
{
    vf gauss, a = vf_min(vf_set1(14.4f), vf_abs(x)), tail = cj_phi_tail(a, &gauss);
    vf v = vf_fnma(a * gauss, vf_set1(0.398942280f), tail);
    return vf_sel(vf_lt(x, vf_zero()), v, vf_set1(1.0f) - v) + (x - x);
}

#endif

/* The tanh form: x sigmoid(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3). */
#define CJ_GELU_K 1.59576912f    /* 2 sqrt(2/pi) */
#define CJ_GELU_KC 0.0713548163f /* that times 0.044715 */

CJ_INLINE vf vf_gelu_tanh(vf x)
{
    vf u = x * vf_fma(x * x, vf_set1(CJ_GELU_KC), vf_set1(CJ_GELU_K));
    return x * vf_sigmoid(u);
}

/* s + x s (1-s) u'(x); NaN at the infinities, as that gives */
CJ_INLINE vf vf_gelu_tanh_slope(vf x)
{
    vf c = vf_min(vf_set1(20.0f), vf_max(vf_set1(-20.0f), x)), c2 = c * c;
    vf u = c * vf_fma(c2, vf_set1(CJ_GELU_KC), vf_set1(CJ_GELU_K));
    vf du = c * vf_fma(c2, vf_set1(3 * CJ_GELU_KC), vf_set1(CJ_GELU_K));
    vf one = vf_set1(1.0f), z = vf_exp_negabs(u), w = one / (one + z); /* s(1-s) = z w^2 */
    vf s = vf_sel(vf_lt(u, vf_zero()), z, one) * w;
    return vf_fma(du, z * w * w, s) + (x - x);
}

/* SiLU: x sigmoid(x); slope s (1 + x (1-s)), NaN at the infinities, as that gives */
CJ_INLINE vf vf_silu(vf x) { return x * vf_sigmoid(x); }
CJ_INLINE vf vf_silu_slope(vf x)
{
    vf c = vf_min(vf_set1(110.0f), vf_max(vf_set1(-110.0f), x));
    vf one = vf_set1(1.0f), z = vf_exp_negabs(c), w = one / (one + z);
    vf s = vf_sel(vf_lt(c, vf_zero()), z, one) * w;
    return vf_fma(c, z * w * w, s) + (x - x);
}

#endif
