/* Random draws: Philox words turned into numbers as core/philox.h defines it, in vectorised loops over groups of blocks.
 *
 * The words of 64 blocks are computed at a time, then turned into numbers; a partial group at the end of a draw computes what it needs.  The compiler
 * vectorises the loops over the scalar definitions, which keeps the bits the same on every level.
 */
#include "kernels/cpu/random.h"

#include "core/philox.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define GROUP 64    /* blocks of 4 words computed at a time */
#define CHUNK 16384 /* elements of a parallel chunk; a multiple of 4 * GROUP */

typedef struct random_job {
    cj_draw kind;
    cj_dtype t;
    uint32_t key[2];
    uint64_t call;
    double a, b;
    float top32; /* uniform: the largest value of the dtype below b */
    double top64;
    char *y;
    int elem;
} random_job;

/* ---- words ------------------------------------------------------------------------------------------------------------------------------- */

/* Philox with one block per 64-bit lane: the product of the low halves is one instruction, and its low half is already where the next round reads it;
 * what is above is never looked at. */
typedef uint64_t vq __attribute__((vector_size(4 * CJ_VL)));
#define VQ (CJ_VL / 2) /* lanes */

CJ_INLINE vq mul_low(vq a, vq b)
{
#if defined CJ_ISA_AVX512
    return (vq)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined CJ_ISA_AVX2
    return (vq)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

CJ_INLINE vq splat(uint64_t x) { return x - (vq){ 0 }; }

/* The words of VQ blocks, in the order of the elements. */
CJ_INLINE void philox_lanes(vq block, vq call_low, vq call_high, const vq *k0, const vq *k1, uint32_t *out)
{
    const vq m0 = splat(0xD2511F53u), m1 = splat(0xCD9E8D57u), low = splat(0xffffffffu);
    vq c0 = call_low, c1 = call_high, c2 = block, c3 = block >> 32;
    for (int round = 0; round < 10; round++) {
        const vq p0 = mul_low(c0, m0), p1 = mul_low(c2, m1);
        c0 = (p1 >> 32) ^ c1 ^ k0[round];
        c2 = (p0 >> 32) ^ c3 ^ k1[round];
        c1 = p1;
        c3 = p0;
    }
    const vq a = (c0 & low) | c1 << 32, b = (c2 & low) | c3 << 32;
#if CJ_VL == 16
    const vq y[2] = { __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11), __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15) };
#elif CJ_VL == 8
    const vq y[2] = { __builtin_shufflevector(a, b, 0, 4, 1, 5), __builtin_shufflevector(a, b, 2, 6, 3, 7) };
#else
    const vq y[2] = { __builtin_shufflevector(a, b, 0, 2), __builtin_shufflevector(a, b, 1, 3) };
#endif
    memcpy(out, y, sizeof y); /* two words to a lane, the low one first: little-endian, as all supported machines are */
}

void CJ_K(cj__philox_words)(const uint32_t key[2], uint64_t call, uint64_t block, int n, uint32_t *w)
{
    vq k0[10], k1[10], index;
    for (uint32_t round = 0; round < 10; round++) {
        k0[round] = splat(key[0] + round * 0x9E3779B9u);
        k1[round] = splat(key[1] + round * 0xBB67AE85u);
    }
    for (int k = 0; k < VQ; k++) index[k] = block + (uint64_t)k;
    const vq low = splat((uint32_t)call), high = splat(call >> 32);
    for (int i = 0; i < n; i += VQ, index += VQ) philox_lanes(index, low, high, k0, k1, w + 4 * i);
}
static void draw_words(const random_job *j, uint64_t block, int n, uint32_t *w) { CJ_K(cj__philox_words)(j->key, j->call, block, n, w); }

/* ---- 32-bit draws: four elements per block ---------------------------------------------------------------------------------------------- */

/* Two words per pair of elements. */
static void normal_f32(const random_job *j, int pairs, const uint32_t *restrict w, float *restrict y)
{
    _Alignas(64) float r[2 * GROUP];
    const float mean = (float)j->a, deviation = (float)j->b;
    for (int i = 0; i < pairs; i++) r[i] = cj_philox_radius2_f32(w[2 * i]);
    int i = 0;
    for (; i + CJ_VL <= pairs; i += CJ_VL) vf_store(r + i, vf_sqrt(vf_load(r + i)));
    if (i < pairs) vf_store_n(r + i, vf_sqrt(vf_load_n(r + i, pairs - i)), pairs - i);
    for (i = 0; i < pairs; i++) {
        float cosine, sine;
        cj_philox_sincos_f32(w[2 * i + 1], &cosine, &sine);
        y[2 * i] = fmaf(r[i] * cosine, deviation, mean);
        y[2 * i + 1] = fmaf(r[i] * sine, deviation, mean);
    }
}

/* n blocks to 4n numbers. */
static void group_f32(const random_job *j, uint64_t block, int n, float *restrict y)
{
    _Alignas(64) uint32_t w[4 * GROUP];
    draw_words(j, block, n, w);
    if (j->kind == CJ_DRAW_NORMAL) normal_f32(j, 2 * n, w, y);
    else if (j->kind == CJ_DRAW_EXPONENTIAL) {
        const float rate = (float)j->a;
        for (int i = 0; i < 4 * n; i++) y[i] = cj_philox_exponential_f32(w[i], rate);
    } else {
        const float lo = (float)j->a, span = (float)(j->b - j->a), top = j->top32;
        for (int i = 0; i < 4 * n; i++) y[i] = cj_philox_uniform_f32(w[i], lo, span, top);
    }
}

static void group_bernoulli(const random_job *j, uint64_t block, int n, uint8_t *restrict y)
{
    _Alignas(64) uint32_t w[4 * GROUP];
    draw_words(j, block, n, w);
    const uint64_t threshold = cj_philox_threshold(j->a);
    const uint32_t last = (uint32_t)(threshold - 1);
    if (threshold == 0) memset(y, 0, 4 * (size_t)n);
    else
        for (int i = 0; i < 4 * n; i++) y[i] = w[i] <= last;
}

/* ---- 64-bit draws: two elements per block ------------------------------------------------------------------------------------------------ */

static void normal_f64(const random_job *j, int pairs, const uint64_t *restrict w, double *restrict y)
{
    double r[GROUP];
    for (int i = 0; i < pairs; i++) r[i] = -2.0 * cj_philox_log_f64(cj_philox_open_f64(w[2 * i]));
    for (int i = 0; i < pairs; i++) r[i] = sqrt(r[i]);
    for (int i = 0; i < pairs; i++) {
        double cosine, sine;
        cj_philox_sincos_f64(w[2 * i + 1], &cosine, &sine);
        y[2 * i] = fma(r[i] * cosine, j->b, j->a);
        y[2 * i + 1] = fma(r[i] * sine, j->b, j->a);
    }
}

static void group_f64(const random_job *j, uint64_t block, int n, double *restrict y)
{
    _Alignas(64) uint64_t w[2 * GROUP];
    draw_words(j, block, n, (uint32_t *)w);
    if (j->kind == CJ_DRAW_NORMAL) normal_f64(j, n, w, y);
    else if (j->kind == CJ_DRAW_EXPONENTIAL) {
        const double rate = j->a;
        for (int i = 0; i < 2 * n; i++) y[i] = cj_philox_exponential_f64(w[i], rate);
    } else {
        const double lo = j->a, span = j->b - j->a, top = j->top64;
        for (int i = 0; i < 2 * n; i++) y[i] = cj_philox_uniform_f64(w[i], lo, span, top);
    }
}

static void group_integer(const random_job *j, uint64_t block, int n, int64_t *restrict y)
{
    _Alignas(64) uint64_t w[2 * GROUP];
    draw_words(j, block, n, (uint32_t *)w);
    const uint64_t lo = (uint64_t)(int64_t)j->a, range = (uint64_t)(int64_t)j->b - lo;
    if (range >> 32)
        for (int i = 0; i < 2 * n; i++) y[i] = (int64_t)(lo + cj_philox_below(w[i], range));
    else
        for (int i = 0; i < 2 * n; i++) y[i] = (int64_t)(lo + cj_philox_below32(w[i], (uint32_t)range));
}

/* ---- entry --------------------------------------------------------------------------------------------------------------------------- */

typedef union group {
    float f32[4 * GROUP];
    double f64[2 * GROUP];
    int64_t i64[2 * GROUP];
    uint8_t u8[4 * GROUP];
} group;

/* One group straight into y where dtype and room allow it, else through a buffer. */
static void draw_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const random_job *j = arg;
    _Alignas(64) group g;
    (void)worker;
    const bool wide = j->kind == CJ_DRAW_INTEGER || (j->t == CJ_F64 && j->kind != CJ_DRAW_BERNOULLI);
    const cj_dtype made = j->kind == CJ_DRAW_INTEGER ? CJ_I64 : j->kind == CJ_DRAW_BERNOULLI ? CJ_BOOL : j->t == CJ_F64 ? CJ_F64 : CJ_F32;
    const bool direct = made == j->t || (made == CJ_BOOL && j->t == CJ_U8);
    const int64_t per_block = wide ? 2 : 4;
    for (int64_t i = begin; i < end; i += per_block * GROUP) {
        const int64_t left = end - i < per_block * GROUP ? end - i : per_block * GROUP;
        const int n = (int)((left + per_block - 1) / per_block);
        const uint64_t block = (uint64_t)(i / per_block);
        char *y = j->y + i * j->elem;
        const bool in_place = direct && left == per_block * n;
        void *to = in_place ? (void *)y : (void *)&g;
        switch (j->kind) {
        case CJ_DRAW_INTEGER: group_integer(j, block, n, to); break;
        case CJ_DRAW_BERNOULLI: group_bernoulli(j, block, n, to); break;
        default:
            if (wide) group_f64(j, block, n, to);
            else group_f32(j, block, n, to);
        }
        if (!in_place) CJ_K(cj__convert)(made, &g, j->t, y, left);
    }
}

/* The largest number of dtype t below b. */
static float top_f32(cj_dtype t, double b)
{
    if (t == CJ_F32 || t == CJ_F64) {
        const float f = (float)b;
        return (double)f < b ? f : nextafterf(f, -INFINITY);
    }
    uint16_t h;
    float f;
    CJ_K(cj__convert)(CJ_F64, &b, t, &h, 1);
    CJ_K(cj__convert)(t, &h, CJ_F32, &f, 1);
    if ((double)f < b) return f;
    h = f > 0.0f ? (uint16_t)(h - 1) : f < 0.0f ? (uint16_t)(h + 1) : 0x8001; /* the next number down */
    CJ_K(cj__convert)(t, &h, CJ_F32, &f, 1);
    return f;
}

void CJ_K(cj__random)(cj_pool *pool, cj_draw kind, cj_dtype t, uint64_t seed, uint64_t stream, uint64_t call, double a, double b, int64_t n,
                      void *y)
{
    if (n <= 0) return;
    random_job j = { .kind = kind, .t = t, .call = call, .a = a, .b = b, .y = y, .elem = cj__elem_size(t) };
    cj_philox_key(seed, stream, j.key);
    if (kind == CJ_DRAW_UNIFORM) {
        j.top32 = a < b ? top_f32(t, b) : (float)a; /* an empty interval gives its one point */
        j.top64 = a < b ? nextafter(b, -INFINITY) : a;
    }
    if (n <= CHUNK) draw_range(&j, 0, n, 0);
    else cj__parallel_for(pool, n, CHUNK, draw_range, &j);
}
