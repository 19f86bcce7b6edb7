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
    return vf_and_mask(vm_not(vf_lt(x, lowest)), cj_scale2(cj_poly(vf_fma, y - parts.n, exp2_c, 6), parts));
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

/* ---- a few queries: one after another, over the keys in runs --------------------------------------------------------------------------------------- */

enum { FEW = 4, RUN = 256, WIDEST = 512, HEAD_START = 1024 }; /* queries; keys of a run; numbers of a row; bytes to fetch ahead */
enum { FEW_WORK = 32768 };                                    /* multiply-adds below which another thread does not pay */

static bool few(const cj_attention_job *j) { return j->tq <= FEW && j->d <= WIDEST && j->dv <= WIDEST; }

/* Rows that the next pass begins with, fetched by this one: the processor sees the others coming.  Fetching all of them takes more time, because only so many can be on their way
 * from the first-level cache. */
typedef struct few_soon {
    const char *at;        /* NULL: nothing */
    int64_t row, bytes, n; /* bytes to the next row; of a row; rows */
} few_soon;

CJ_INLINE void few_fetch(const few_soon *soon, int64_t e)
{
    if (e >= soon->n) return;
    for (int64_t p = 0; p < soon->bytes; p += 64) __builtin_prefetch(soon->at + e * soon->row + p, 0, 2);
}

/* Vectors whose lanes sum up to q·k. */
CJ_INLINE vf few_dot(cj_dtype t, const float *q, const char *k, int64_t d)
{
    vf a = vf_zero(), b = a;
    int64_t p = 0;
    for (; p + 2 * CJ_VL <= d; p += 2 * CJ_VL) {
        a = vf_fma(vf_load(q + p), load_vf(t, k, p), a);
        b = vf_fma(vf_load(q + p + CJ_VL), load_vf(t, k, p + CJ_VL), b);
    }
    for (; p < d; p += CJ_VL) a = vf_fma(vf_load(q + p), load_vf_n(t, k, p, (int)least(CJ_VL, d - p)), a);
    return a + b;
}

/* The products of q with a vector of keys; lanes are added in vf_hsum's order. */
CJ_INLINE vf few_dots(cj_dtype t, const float *q, const char *k, int64_t bytes, int64_t d)
{
    vf x[CJ_VL];
#pragma GCC unroll 16
    for (int e = 0; e < CJ_VL; e++) x[e] = few_dot(t, q, k + e * bytes, d);
    return lane_sums(x);
}

/* s[e] = q·k[e], rows of k `row` apart */
CJ_INLINE void few_scores(cj_dtype t, const float *q, const char *k, int64_t row, int64_t d, int64_t n, float *s, const few_soon *soon)
{
    const int64_t bytes = row * (t == CJ_F32 ? 4 : 2);
    for (int64_t e = 0; e < n; e += CJ_VL, k += CJ_VL * bytes) {
        const int64_t keys = least(CJ_VL, n - e);
        for (int64_t i = 0; i < keys; i++) few_fetch(soon, e + i);
        if (keys < CJ_VL)
            for (int64_t i = 0; i < keys; i++) s[e + i] = vf_hsum(few_dot(t, q, k + i * bytes, d));
        else if (d == 2 * CJ_VL) vf_store(s + e, few_dots(t, q, k, bytes, 2 * CJ_VL)); /* heads of 32 */
        else vf_store(s + e, few_dots(t, q, k, bytes, d));
    }
}

/* o += p[e]·v[e] over n rows, up to four vectors of o in registers at a time */
CJ_INLINE void few_sums(cj_dtype t, const float *p, const char *v, int64_t row, int64_t dv, int64_t n, float *o, const few_soon *soon)
{
    for (int64_t at = 0; at < dv; at += 4 * CJ_VL) {
        const int64_t width = least(4 * CJ_VL, dv - at), whole = width / CJ_VL, rest = width % CJ_VL;
        vf a[4] = { vf_load(o + at), vf_load(o + at + CJ_VL), vf_load(o + at + 2 * CJ_VL), vf_load(o + at + 3 * CJ_VL) };
        const int64_t elem = t == CJ_F32 ? 4 : 2;
        const char *x = v + at * elem;
        if (whole == 2 && rest == 0) { /* heads of 32 */
            for (int64_t e = 0; e < n; e++, x += row * elem) {
                few_fetch(soon, e);
                for (int u = 0; u < 2; u++) a[u] = vf_fma(vf_set1(p[e]), load_vf(t, x, u * CJ_VL), a[u]);
            }
        } else if (whole == 4) {
            for (int64_t e = 0; e < n; e++, x += row * elem)
                for (int u = 0; u < 4; u++) a[u] = vf_fma(vf_set1(p[e]), load_vf(t, x, u * CJ_VL), a[u]);
        } else {
            for (int64_t e = 0; e < n; e++, x += row * elem)
                for (int u = 0; u < 4; u++) {
                    const int lanes = (int)(width - u * CJ_VL);
                    if (lanes > 0) a[u] = vf_fma(vf_set1(p[e]), load_vf_n(t, x, u * CJ_VL, lanes < CJ_VL ? lanes : CJ_VL), a[u]);
                }
        }
        for (int u = 0; u < 4; u++) vf_store(o + at + u * CJ_VL, a[u]);
    }
}

/* s = 2^(s - top) in place, over a run padded with -inf; returns the sum. */
CJ_INLINE float few_exp(float *s, int64_t n, float top)
{
    vf sum = vf_zero();
    for (int64_t e = 0; e < n; e += CJ_VL) {
        const vf p = vr_exp2(vf_load(s + e) - vf_set1(top));
        vf_store(s + e, p);
        sum += p;
    }
    return vf_hsum(sum);
}

/* The mask of n keys added to s. */
static void few_mask(const cj_attention_job *j, const char *mask, int64_t n, float *s)
{
    float row[RUN];
    CJ_K(cj__convert_strided)(j->mask_type, mask, j->mask.column, CJ_F32, row, n);
    for (int64_t e = 0; e < n; e++) s[e] = j->mask_type != CJ_BOOL ? s[e] + row[e] * LOG2E : row[e] != 0 ? s[e] : -INFINITY;
}

static void few_dropout(const cj_attention_job *j, int64_t h, int64_t i, int64_t at, int64_t n, float *p)
{
    const uint64_t threshold = cj_philox_threshold(1 - j->drop), first = (uint64_t)((h * j->tq + i) * j->tk + at);
    const float factor = j->drop < 1 ? (float)(1 / (1 - j->drop)) : 0;
    uint32_t key[2], words[RUN + 64];
    cj_philox_key(j->seed, j->stream, key);
    const int skip = (int)(first % 4);
    CJ_K(cj__philox_words)(key, j->call, first / 4, (int)(skip + n + 3) / 4, words);
    for (int64_t e = 0; e < n; e++) p[e] *= cj_philox_bernoulli(words[skip + e], threshold) ? factor : 0;
}

/* Row i of head h; `another` row of the head after it will follow. */
CJ_INLINE void few_row(cj_dtype t, const cj_attention_job *j, int64_t h, int64_t i, bool another)
{
    _Alignas(64) float q[WIDEST + CJ_VL], s[RUN + CJ_VL], o[WIDEST + 4 * CJ_VL];
    const int64_t elem = t == CJ_F32 ? 4 : 2;
    const char *k = head_of(j, &j->k, elem, h, true), *v = head_of(j, &j->v, elem, h, true);
    int64_t length = j->tk;
    if (j->length.data) length = *(const int64_t *)head_of(j, &j->length, sizeof(int64_t), h, false);
    if (j->causal) length -= j->tq - 1 - i;
    load_rows(t, (const char *)head_of(j, &j->q, elem, h, false) + i * j->q.row * elem, j->q.row, 1, j->d, q, 1);
    for (int64_t e = 0; e < j->d; e += CJ_VL) vf_store(q + e, vf_load(q + e) * vf_set1((float)j->scale * LOG2E));
    memset(o, 0, sizeof o);
    float top = -INFINITY, sum = 0;
    few_soon values = { .row = j->v.row * elem, .bytes = j->dv * elem }, keys = { .row = j->k.row * elem, .bytes = j->d * elem };
    if (another) keys.at = head_of(j, &j->k, elem, h + 1, true), keys.n = HEAD_START / (keys.bytes + 1);
    for (int64_t at = 0; at < length; at += RUN) {
        const int64_t n = least(RUN, length - at);
        values.at = v + at * values.row, values.n = HEAD_START / (values.bytes + 1);
        few_scores(t, q, k + at * j->k.row * elem, j->k.row, j->d, n, s, &values);
        if (j->mask.data) {
            const int64_t size = cj__elem_size(j->mask_type);
            few_mask(j, (const char *)head_of(j, &j->mask, size, h, false) + (i * j->mask.row + at * j->mask.column) * size, n, s);
        }
        for (int64_t e = n; e < padded(n); e++) s[e] = -INFINITY;
        vf most = vf_set1(top);
        for (int64_t e = 0; e < n; e += CJ_VL) most = vf_max(vf_load(s + e), most);
        const float now = vf_hmax(most), base = now == -INFINITY ? 0 : now;
        const float shrink = vr_exp2(vf_set1(top - base))[0];
        sum = sum * shrink + few_exp(s, n, base);
        if (j->drop > 0) few_dropout(j, h, i, at, n, s);
        for (int64_t e = 0; e < j->dv && at > 0; e += CJ_VL) vf_store(o + e, vf_load(o + e) * vf_set1(shrink));
        few_sums(t, s, v + at * j->v.row * elem, j->v.row, j->dv, n, o, &keys);
        top = now;
    }
    const bool seen = top != -INFINITY;
    const int64_t to = h * j->tq + i;
    for (int64_t e = 0; e < j->dv; e += CJ_VL) vf_store(o + e, vf_load(o + e) * vf_set1(seen ? 1 / sum : 0));
    if (j->wide) store_rows(CJ_F32, o, 1, j->dv, wide_at(j, h, i), j->o.row);
    store_rows(t, o, 1, j->dv, result_at(j, &j->o, elem, h, false, i), j->o.row);
    ((float *)j->lse)[to] = seen ? top * LN2 + vf_log(vf_set1(sum))[0] : INFINITY;
}

static void few_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_attention_job *j = arg;
    (void)worker;
    for (int64_t r = begin; r < end; r++) CJ_BY_TYPE(j->t, few_row(T, j, r / j->tq, r % j->tq, j->tq == 1 && r + 1 < end))
}

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
        const int64_t work = j->tk * (j->d + j->dv);
        cj__parallel_for(pool, j->heads * j->tq, work < FEW_WORK ? FEW_WORK / (work ? work : 1) : 1, few_tasks, (void *)(uintptr_t)j);
    } else {
        run(pool, j, backward, scratch);
    }
}
