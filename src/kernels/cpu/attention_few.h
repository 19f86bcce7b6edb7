/* Attention of a few queries, as decoding has them: one after another, over the keys in runs.  What takes the time is reading the keys and values.
 *
 * Included by attention.c, which has the vectors. */
#ifndef CJ_KERNELS_CPU_ATTENTION_FEW_H
#define CJ_KERNELS_CPU_ATTENTION_FEW_H

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

/* ---- heads side by side --------------------------------------------------------------------------------------------------------------------------------- */

/* Where the heads of a key lie side by side, as a product makes them, all keys of a text are one stretch of memory, and it is read once: a head is V vectors, CJ_VL / V heads
 * are taken together, and the products of V keys with them make one vector, key k of head h in lane k * CJ_VL / V + h. */
enum { LEAST_SETS = 4 }; /* of heads: with fewer there is nothing to share out */

static bool beside(const cj_attention_job *j)
{
    if (j->tq != 1 || j->group != 1 || j->d != j->dv || j->mask.data || j->drop > 0 || (j->d != 2 * CJ_VL && j->d != 4 * CJ_VL))
        return false;
    const int last = j->leads - 1;
    if (last < 0 || j->lead[last] % (CJ_VL * CJ_VL / j->d) || j->heads < LEAST_SETS * CJ_VL * CJ_VL / j->d) return false;
    return j->k.lead[last] == j->d && j->v.lead[last] == j->d && j->k.row > j->d && (!j->length.data || j->length.lead[last] == 0);
}

/* The products of V keys, rows of k `bytes` apart, with all heads. */
CJ_INLINE vf beside_dots(cj_dtype t, int V, const float *q, const char *k, int64_t bytes)
{
    const int heads = CJ_VL / V;
    vf x[CJ_VL];
#pragma GCC unroll 16
    for (int e = 0; e < CJ_VL; e++)
        x[e] =
            few_dot(t, q + (e % heads) * V * CJ_VL, k + (e / heads) * bytes + (e % heads) * V * CJ_VL * (t == CJ_F32 ? 4 : 2), V * CJ_VL);
    return lane_sums(x);
}

/* In all lanes of a head the largest or the sum of them. */
CJ_INLINE vf beside_all(int V, vf x, bool sum)
{
    const int heads = CJ_VL / V;
    vf y = x;
    for (int k = 1; k < V; k++) {
        vi from;
        for (int e = 0; e < CJ_VL; e++) from[e] = (e + k * heads) % CJ_VL;
        const vf other = __builtin_shuffle(x, from);
        if (sum) y += other;
        else y = vf_max(y, other);
    }
    return y;
}

/* Heads h … h + CJ_VL / V - 1. */
CJ_INLINE void beside_heads(cj_dtype t, int V, const cj_attention_job *j, int64_t h)
{
    const int heads = CJ_VL / V, d = V * CJ_VL;
    const int64_t elem = t == CJ_F32 ? 4 : 2, k_row = j->k.row * elem, v_row = j->v.row * elem;
    _Alignas(64) float q[CJ_VL * CJ_VL], s[RUN * CJ_VL / 2], o[CJ_VL * CJ_VL], sums[CJ_VL], tops[CJ_VL], last[CJ_VL];
    const char *k = head_of(j, &j->k, elem, h, true), *v = head_of(j, &j->v, elem, h, true);
    int64_t length = j->tk;
    if (j->length.data) length = *(const int64_t *)head_of(j, &j->length, sizeof(int64_t), h, false);
    for (int i = 0; i < heads; i++) load_rows(t, head_of(j, &j->q, elem, h + i, false), j->q.row, 1, d, q + i * d, 1);
    for (int64_t e = 0; e < CJ_VL * CJ_VL; e += CJ_VL) vf_store(q + e, vf_load(q + e) * vf_set1((float)j->scale * LOG2E));
    vf a[CJ_VL], top = vf_set1(-INFINITY), sum = vf_zero();
    for (int u = 0; u < CJ_VL; u++) a[u] = vf_zero();
    for (int64_t at = 0; at < length; at += RUN) {
        const int64_t n = least(RUN, length - at), whole = n - n % V;
        vf most = top;
        for (int64_t e = 0; e < whole; e += V) {
            const vf x = beside_dots(t, V, q, k + (at + e) * k_row, k_row);
            vf_store(s + e * heads, x);
            most = vf_max(x, most);
        }
        if (whole < n) { /* the last keys, one by one */
            for (int e = 0; e < CJ_VL; e++) last[e] = -INFINITY;
            for (int64_t e = whole; e < n; e++)
                for (int i = 0; i < heads; i++)
                    last[(e - whole) * heads + i] = vf_hsum(few_dot(t, q + i * d, k + (at + e) * k_row + i * d * elem, d));
            vf_store(s + whole * heads, vf_load(last));
            most = vf_max(vf_load(last), most);
        }
        const vf now = beside_all(V, most, false), base = vf_sel(vf_le(now, vf_set1(-INFINITY)), vf_zero(), now),
                 shrink = vr_exp2(top - base);
        sum *= shrink;
        for (int64_t e = 0; e < n; e += V) {
            const vf p = vr_exp2(vf_load(s + e * heads) - base);
            vf_store(s + e * heads, p);
            sum += p;
        }
        if (at > 0) {
            vf_store(tops, shrink);
            for (int u = 0; u < CJ_VL; u++) a[u] *= vf_set1(tops[u / V]);
        }
        for (int64_t e = 0; e < n; e++) {
            const char *row = v + (at + e) * v_row;
#pragma GCC unroll 16
            for (int u = 0; u < CJ_VL; u++) a[u] = vf_fma(vf_set1(s[e * heads + u / V]), load_vf(t, row, u * CJ_VL), a[u]);
        }
        top = now;
    }
    vf_store(sums, beside_all(V, sum, true));
    vf_store(tops, top);
    for (int i = 0; i < heads; i++) {
        const bool seen = tops[i] != -INFINITY;
        for (int u = 0; u < V; u++) vf_store(o + u * CJ_VL, a[i * V + u] * vf_set1(seen ? 1 / sums[i] : 0));
        if (j->wide) store_rows(CJ_F32, o, 1, d, wide_at(j, h + i, 0), j->o.row);
        store_rows(t, o, 1, d, result_at(j, &j->o, elem, h + i, false, 0), j->o.row);
        ((float *)j->lse)[h + i] = seen ? tops[i] * LN2 + vf_log(vf_set1(sums[i]))[0] : INFINITY;
    }
}

static void beside_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_attention_job *j = arg;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const int64_t h = r * CJ_VL * CJ_VL / j->d;
        CJ_BY_TYPE(j->t, if (j->d == 2 * CJ_VL) beside_heads(T, 2, j, h); else beside_heads(T, 4, j, h))
    }
}

static void few_attention(cj_pool *pool, const cj_attention_job *j)
{
    const int64_t together = beside(j) ? CJ_VL * CJ_VL / j->d : 1, work = j->tk * (j->d + j->dv) * together;
    cj__parallel_for(pool, j->heads * j->tq / together, work < FEW_WORK ? FEW_WORK / (work ? work : 1) : 1,
                     together > 1 ? beside_tasks : few_tasks, (void *)(uintptr_t)j);
}

#endif
