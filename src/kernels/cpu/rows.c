/* Softmax, cross-entropy, layer and RMS normalisation over rows, fused: each row is read from memory once and stays in the cache for the passes over it.
 *
 *   softmax        y = exp(x - max) / sum exp(x - max);  log-softmax  y = x - max - log(sum)
 *   cross-entropy  lse - (1-s) x[target] - s mean(x), lse = max + log sum exp(x - max); its gradient needs the saved lse only, in one pass
 *   layer norm     (x - mean) / sqrt(var + eps) * w + b, the variance in a second pass over the cached row; RMS norm is the same with mean 0 and without b
 *
 * f32, bf16 and f16 compute in f32 vectors, sums in f64 per block of SUM_BLOCK; f64 is plain C in rows_f64.c.  A row of -inf only gives NaN, as in PyTorch.
 */
#include "kernels/cpu/rows.h"

#include "kernels/cpu/load.h"
#include "kernels/cpu/row_pass.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_math.h"

#define CHUNK 16384    /* elements of a parallel chunk, about */
#define SUM_BLOCK 4096 /* elements summed in f32 before going to f64 */
#define STEP (4 * CJ_VL)

static int64_t grain(int64_t n) { return n < CHUNK ? CHUNK / (n > 0 ? n : 1) : 1; }

static void run_rows(cj_pool *pool, cj_range_fn fn, rows_job *j)
{
    if (j->rows <= 0) return;
    if (j->rows * j->n <= CHUNK) fn(j, 0, j->rows, 0);
    else cj__parallel_for(pool, j->rows, grain(j->n), fn, j);
}

/* ---- passes over a row ------------------------------------------------------------------------------------------------------------------- */

/* The largest value; NaN is skipped (it shows up in the sum). */
CJ_INLINE float row_max(cj_dtype t, const void *x, int64_t n)
{
    vf a = vf_set1(-INFINITY), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        a = vf_max(load_vf(t, x, i), a);
        b = vf_max(load_vf(t, x, i + CJ_VL), b);
        c = vf_max(load_vf(t, x, i + 2 * CJ_VL), c);
        d = vf_max(load_vf(t, x, i + 3 * CJ_VL), d);
    }
    for (; i + CJ_VL <= n; i += CJ_VL) a = vf_max(load_vf(t, x, i), a);
    if (i < n) {
        const int m = (int)(n - i);
        b = vf_max(vf_sel(vm_first(m), load_vf_n(t, x, i, m), b), b);
    }
    return vf_hmax(vf_max(vf_max(a, b), vf_max(c, d)));
}

/* exp for probabilities: what would be below the smallest normal number is 0.  Results below it cost a trap of a hundred cycles each, and masked entries, e^-inf, would
 * all take it. */
CJ_INLINE vf exp_or_0(vf x)
{
    const vf least = vf_set1(-87.3365402f); /* log of the smallest normal number, rounded up; NaN passes */
    const vf e = vf_exp(vf_max(least, x));
    return vf_sel(vf_lt(x, least), vf_zero(), e);
}

/* sum exp(x - shift), the exponentials also to e where that is not NULL. */
CJ_INLINE double row_exp_sum(cj_dtype t, const void *x, int64_t n, float shift, float *e)
{
    const vf s = vf_set1(shift);
    double total = 0.0;
    for (int64_t i = 0; i < n;) {
        const int64_t stop = n - i > SUM_BLOCK ? i + SUM_BLOCK : n;
        vf a = vf_zero(), b = a;
        for (; i + 2 * CJ_VL <= stop; i += 2 * CJ_VL) {
            const vf p = exp_or_0(load_vf(t, x, i) - s), q = exp_or_0(load_vf(t, x, i + CJ_VL) - s);
            if (e) vf_store(e + i, p), vf_store(e + i + CJ_VL, q);
            a += p;
            b += q;
        }
        for (; i < stop; i += CJ_VL) {
            const int m = stop - i < CJ_VL ? (int)(stop - i) : CJ_VL;
            const vf p = vf_and_mask(vm_first(m), exp_or_0(load_vf_n(t, x, i, m) - s));
            if (e) vf_store_n(e + i, p, m);
            a += p;
        }
        if (i > stop) i = stop;
        total += (double)vf_hsum(a + b);
    }
    return total;
}

CJ_INLINE double row_sum(cj_dtype t, const void *x, int64_t n)
{
    double total = 0.0;
    for (int64_t i = 0; i < n;) {
        const int64_t stop = n - i > SUM_BLOCK ? i + SUM_BLOCK : n;
        vf a = vf_zero(), b = a, c = a, d = a;
        for (; i + STEP <= stop; i += STEP) {
            a += load_vf(t, x, i);
            b += load_vf(t, x, i + CJ_VL);
            c += load_vf(t, x, i + 2 * CJ_VL);
            d += load_vf(t, x, i + 3 * CJ_VL);
        }
        for (; i + CJ_VL <= stop; i += CJ_VL) a += load_vf(t, x, i);
        if (i < stop) b += load_vf_n(t, x, i, (int)(stop - i)), i = stop;
        total += (double)vf_hsum((a + b) + (c + d));
    }
    return total;
}

/* ---- softmax ----------------------------------------------------------------------------------------------------------------------------- */

#define ROW_BUFFER 4096 /* a bf16, f16 or streamed row up to this keeps its exponentials in f32 on the stack */

CJ_INLINE void softmax_row(cj_dtype t, const void *x, int64_t n, void *y, bool log, bool stream, const void *next)
{
    const float top = row_max(t, x, n);
    if (log) {
        const double sum = row_exp_sum(t, x, n, top, NULL);
        /* x - (max + log sum) in two steps: the maximum may be large, the difference small */
        const vf shift = vf_set1(top), l = vf_log(vf_set1((float)sum));
#define VALUE(v) ((v)-shift - l)
        FOR_ROW(t, y, n, stream, x, next, VALUE);
#undef VALUE
        return;
    }
    int64_t at = 0;
    if (t == CJ_F32 && !(stream && n <= ROW_BUFFER)) {
        float *p = y;
        const vf r = vf_set1((float)(1.0 / row_exp_sum(t, x, n, top, p)));
        for (; at + STEP <= n; at += STEP)
            for (int k = 0; k < STEP; k += CJ_VL) {
                __builtin_prefetch((const float *)next + at + k, 0, 2);
                vf_store(p + at + k, vf_load(p + at + k) * r);
            }
        for (; at + CJ_VL <= n; at += CJ_VL) vf_store(p + at, vf_load(p + at) * r);
        if (at < n) vf_store_n(p + at, vf_load_n(p + at, (int)(n - at)) * r, (int)(n - at));
        return;
    }
    _Alignas(64) float e[ROW_BUFFER];
    const bool keep = n <= ROW_BUFFER;
    const vf r = vf_set1((float)(1.0 / row_exp_sum(t, x, n, top, keep ? e : NULL))), s = vf_set1(top);
    if (t == CJ_F32) {
#define VALUE(v) ((v)*r)
        FOR_ROW(CJ_F32, y, n, true, e, next, VALUE);
#undef VALUE
        return;
    }
    for (; at + CJ_VL <= n; at += CJ_VL) store_vf(t, y, at, (keep ? vf_load(e + at) : exp_or_0(load_vf(t, x, at) - s)) * r);
    if (at < n) {
        const int k = (int)(n - at);
        store_vf_n(t, y, at, (keep ? vf_load_n(e + at, k) : exp_or_0(load_vf_n(t, x, at, k) - s)) * r, k);
    }
}

/* A row that fits one vector stays in a register. */
CJ_INLINE void softmax_short(cj_dtype t, const void *x, int n, void *y, bool log)
{
    const vm valid = vm_first(n);
    const vf v = load_vf_n(t, x, 0, n);
    vf d = vf_sel(valid, v, vf_set1(-INFINITY));
    d = d - vf_set1(vf_hmax(vf_max(d, vf_set1(-INFINITY)))); /* NaN counts as -inf here and comes back through d */
    const vf e = vf_and_mask(valid, exp_or_0(d));
    const vf sum = vf_set1(vf_hsum(e));
    store_vf_n(t, y, 0, log ? d - vf_log(sum) : e / sum, n);
}

static void softmax_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    (void)worker;
    const int64_t n = j->n, step = j->s_row * j->elem, out = n * j->elem;
    const char *x = (const char *)j->x + begin * step;
    char *y = (char *)j->y + begin * out;
    const bool stream = streams(j->t, j->rows, n);
    if (n <= CJ_VL) {
        for (int64_t r = begin; r < end; r++, x += step, y += out) CJ_BY_TYPE(j->t, softmax_short(T, x, (int)n, y, j->log))
    } else {
        for (int64_t r = begin; r < end; r++, x += step, y += out) CJ_BY_TYPE(j->t, softmax_row(T, x, n, y, j->log, stream, x + step))
    }
    if (stream) vf_stream_end();
}

void CJ_K(cj__softmax)(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row, void *y, bool log)
{
    rows_job j = { .t = t, .elem = elem_of(t), .x = x, .rows = rows, .n = n, .s_row = s_row, .y = y, .log = log };
    if (n > 0) run_rows(pool, t == CJ_F64 ? CJ_K(cj__softmax_f64) : softmax_rows, &j);
}

CJ_INLINE double row_dot(cj_dtype t, const void *x, const void *y, int64_t n)
{
    double total = 0.0;
    for (int64_t i = 0; i < n;) {
        const int64_t stop = n - i > SUM_BLOCK ? i + SUM_BLOCK : n;
        vf a = vf_zero(), b = a;
        for (; i + 2 * CJ_VL <= stop; i += 2 * CJ_VL) {
            a = vf_fma(load_vf(t, x, i), load_vf(t, y, i), a);
            b = vf_fma(load_vf(t, x, i + CJ_VL), load_vf(t, y, i + CJ_VL), b);
        }
        for (; i < stop; i += CJ_VL) {
            const int m = stop - i < CJ_VL ? (int)(stop - i) : CJ_VL;
            a = vf_fma(load_vf_n(t, x, i, m), load_vf_n(t, y, i, m), a);
        }
        if (i > stop) i = stop;
        total += (double)vf_hsum(a + b);
    }
    return total;
}

CJ_INLINE vf softmax_slope(vf y, vf dy, vf s, bool log)
{
    if (log) return vf_fnma(exp_or_0(y), s, dy);
    return y * (dy - s);
}

CJ_INLINE void softmax_bwd_row(cj_dtype t, const void *y, const void *dy, int64_t n, void *dx, bool log, bool stream)
{
    const vf s = vf_set1((float)(log ? row_sum(t, dy, n) : row_dot(t, y, dy, n)));
#define VALUE(v)                                                                                                                           \
    softmax_slope(v, (__builtin_prefetch(next_dy + i * 4, 0, 2), m == CJ_VL ? load_vf(t, dy, i) : load_vf_n(t, dy, i, m)), s, log)
    const char *next_y = (const char *)y + n * 4, *next_dy = (const char *)dy + n * 4;
    FOR_ROW(t, dx, n, stream, y, next_y, VALUE);
#undef VALUE
}

static void softmax_bwd_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    (void)worker;
    const int64_t step = j->n * j->elem;
    const char *y = (const char *)j->x + begin * step, *dy = (const char *)j->dy + begin * step;
    char *dx = (char *)j->y + begin * step;
    const bool stream = streams(j->t, j->rows, j->n);
    for (int64_t r = begin; r < end; r++, y += step, dy += step, dx += step)
        CJ_BY_TYPE(j->t, softmax_bwd_row(T, y, dy, j->n, dx, j->log, stream))
    if (stream) vf_stream_end();
}

void CJ_K(cj__softmax_bwd)(cj_pool *pool, cj_dtype t, const void *y, const void *dy, int64_t rows, int64_t n, void *dx, bool log)
{
    rows_job j = { .t = t, .elem = elem_of(t), .x = y, .dy = dy, .rows = rows, .n = n, .y = dx, .log = log };
    if (n > 0) run_rows(pool, t == CJ_F64 ? CJ_K(cj__softmax_bwd_f64) : softmax_bwd_rows, &j);
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE void cross_entropy_row(cj_dtype t, const rows_job *j, const void *x, int64_t r)
{
    const int64_t n = j->n, target = j->target[r];
    float lse;
    if (n <= CJ_VL) {
        const vm valid = vm_first((int)n);
        const vf v = load_vf_n(t, x, 0, (int)n), d = vf_sel(valid, v, vf_set1(-INFINITY));
        const float m = vf_hmax(vf_max(d, vf_set1(-INFINITY)));
        const vf e = vf_and_mask(valid, exp_or_0(d - vf_set1(m)));
        lse = m + vf_log(vf_set1(vf_hsum(e)))[0];
    } else {
        const float m = row_max(t, x, n);
        lse = m + vf_log(vf_set1((float)row_exp_sum(t, x, n, m, NULL)))[0];
    }
    ((float *)j->lse)[r] = lse;
    if (target == j->ignore) {
        store_one(t, j->y, r, 0.0f);
        return;
    }
    double loss = (double)lse - (double)load_one(t, x, target); /* exact; smoothing adds s * (x[target] - mean) */
    if (j->smooth != 0.0)
        loss = (double)lse - (1.0 - j->smooth) * (double)load_one(t, x, target) - j->smooth * (row_sum(t, x, n) / (double)n);
    store_one(t, j->y, r, (float)loss);
}

static void cross_entropy_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    (void)worker;
    const char *x = (const char *)j->x + begin * j->s_row * j->elem;
    for (int64_t r = begin; r < end; r++, x += j->s_row * j->elem) CJ_BY_TYPE(j->t, cross_entropy_row(T, j, x, r))
}

void CJ_K(cj__cross_entropy)(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row, const int64_t *target,
                             int64_t ignore, double smooth, void *loss, void *lse)
{
    rows_job j = { .t = t,
                   .elem = elem_of(t),
                   .x = x,
                   .rows = rows,
                   .n = n,
                   .s_row = s_row,
                   .target = target,
                   .ignore = ignore,
                   .smooth = smooth,
                   .y = loss,
                   .lse = lse };
    run_rows(pool, t == CJ_F64 ? CJ_K(cj__cross_entropy_f64) : cross_entropy_rows, &j);
}

CJ_INLINE void cross_entropy_bwd_row(cj_dtype t, const rows_job *j, const void *x, int64_t r, void *dx, bool stream)
{
    const int64_t n = j->n, target = j->target[r];
    if (target == j->ignore) {
        memset(dx, 0, (size_t)(n * j->elem));
        return;
    }
    const float g = load_one(t, j->g, r * j->s_g), l = ((const float *)j->saved_lse)[r];
    const vf lse = vf_set1(l), scale = vf_set1(g), even = vf_set1((float)((double)g * j->smooth / (double)n));
#define VALUE(v) (scale * exp_or_0((v)-lse) - even)
    FOR_ROW(t, dx, n, stream, x, (const char *)x + 1024, VALUE);
#undef VALUE
    if (stream) vf_stream_end();
    /* The target's own, again from x: one rounding in bf16 and f16 */
    const float p = exp_or_0(vf_set1(load_one(t, x, target)) - lse)[0];
    store_one(t, dx, target, (float)((double)g * ((double)p - (1.0 - j->smooth) - j->smooth / (double)n)));
}

static void cross_entropy_bwd_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    (void)worker;
    const char *x = (const char *)j->x + begin * j->s_row * j->elem;
    char *dx = (char *)j->y + begin * j->n * j->elem;
    const bool stream = streams(j->t, j->rows, j->n);
    for (int64_t r = begin; r < end; r++, x += j->s_row * j->elem, dx += j->n * j->elem)
        CJ_BY_TYPE(j->t, cross_entropy_bwd_row(T, j, x, r, dx, stream))
}

void CJ_K(cj__cross_entropy_bwd)(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row, const int64_t *target,
                                 int64_t ignore, double smooth, const void *lse, const void *g, int64_t s_g, void *dx)
{
    rows_job j = { .t = t,
                   .elem = elem_of(t),
                   .x = x,
                   .rows = rows,
                   .n = n,
                   .s_row = s_row,
                   .target = target,
                   .ignore = ignore,
                   .smooth = smooth,
                   .saved_lse = lse,
                   .g = g,
                   .s_g = s_g,
                   .y = dx };
    if (n > 0) run_rows(pool, t == CJ_F64 ? CJ_K(cj__cross_entropy_bwd_f64) : cross_entropy_bwd_rows, &j);
}

/* ---- layer norm -------------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE double row_square_sum(cj_dtype t, const void *x, int64_t n, float mean)
{
    const vf mu = vf_set1(mean);
    double total = 0.0;
    for (int64_t i = 0; i < n;) {
        const int64_t stop = n - i > SUM_BLOCK ? i + SUM_BLOCK : n;
        vf a = vf_zero(), b = a;
        for (; i + 2 * CJ_VL <= stop; i += 2 * CJ_VL) {
            const vf p = load_vf(t, x, i) - mu, q = load_vf(t, x, i + CJ_VL) - mu;
            a = vf_fma(p, p, a);
            b = vf_fma(q, q, b);
        }
        for (; i < stop; i += CJ_VL) {
            const int m = stop - i < CJ_VL ? (int)(stop - i) : CJ_VL;
            const vf p = vf_and_mask(vm_first(m), load_vf_n(t, x, i, m) - mu);
            a = vf_fma(p, p, a);
        }
        if (i > stop) i = stop;
        total += (double)vf_hsum(a + b);
    }
    return total;
}

CJ_INLINE vf scale_shift(cj_dtype t, vf x, const void *w, const void *b, int64_t i, int m)
{
    const bool whole = m == CJ_VL;
    if (w && b) return vf_fma(x, whole ? load_vf(t, w, i) : load_vf_n(t, w, i, m), whole ? load_vf(t, b, i) : load_vf_n(t, b, i, m));
    if (w) return x * (whole ? load_vf(t, w, i) : load_vf_n(t, w, i, m));
    if (b) return x + (whole ? load_vf(t, b, i) : load_vf_n(t, b, i, m));
    return x;
}

CJ_INLINE void layer_norm_row(cj_dtype t, const rows_job *j, const void *x, int64_t r, void *y, bool stream)
{
    const int64_t n = j->n;
    const float mean = j->rms ? 0 : (float)(row_sum(t, x, n) / (double)n);
    const double var = row_square_sum(t, x, n, mean) / (double)n;
    const float rstd = (float)(1.0 / sqrt(var + j->eps));
    if (!j->rms) ((float *)j->mean)[r] = mean;
    ((float *)j->rstd)[r] = rstd;
    const vf mu = vf_set1(mean), s = vf_set1(rstd);
    const void *w = j->w, *b = j->b;
#define VALUE(v) scale_shift(t, ((v)-mu) * s, w, b, i, m)
    FOR_ROW(t, y, n, stream, x, (const char *)x + j->s_row * j->elem, VALUE);
#undef VALUE
}

static void layer_norm_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    (void)worker;
    const char *x = (const char *)j->x + begin * j->s_row * j->elem;
    char *y = (char *)j->y + begin * j->n * j->elem;
    const bool stream = streams(j->t, j->rows, j->n);
    for (int64_t r = begin; r < end; r++, x += j->s_row * j->elem, y += j->n * j->elem)
        CJ_BY_TYPE(j->t, layer_norm_row(T, j, x, r, y, stream))
    if (stream) vf_stream_end();
}

static void layer_norm(cj_pool *pool, rows_job *j)
{
    j->elem = elem_of(j->t);
    if (j->n > 0) run_rows(pool, j->t == CJ_F64 ? CJ_K(cj__layer_norm_f64) : layer_norm_rows, j);
}

void CJ_K(cj__layer_norm)(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, int64_t s_row, const void *w, const void *b,
                          double eps, void *y, void *mean, void *rstd)
{
    rows_job j = { .t = t, .x = x, .rows = rows, .n = n, .s_row = s_row, .w = w, .b = b, .eps = eps, .y = y, .mean = mean, .rstd = rstd };
    layer_norm(pool, &j);
}

void CJ_K(cj__rms_norm)(cj_pool *pool, cj_dtype t, const void *x, int64_t rows, int64_t n, const void *w, double eps, void *y, void *rstd)
{
    rows_job j = { .t = t, .rms = true, .x = x, .rows = rows, .n = n, .s_row = n, .w = w, .eps = eps, .y = y, .rstd = rstd };
    layer_norm(pool, &j);
}

/* With xhat = (x - mean) rstd and g = dy w:  dx = rstd (g - mean(g) - xhat mean(g xhat)),  dw = sum over rows of dy xhat,  db = sum over rows of dy.
 * Rows go in blocks; a block adds up its part of dw and db in f32 in its own piece of scratch, and the pieces are added in f64. */
static int64_t block_rows(int64_t rows)
{
    const int64_t b = (rows + 15) / 16;
    return b < 8 ? 8 : b > 128 ? 128 : b;
}

size_t CJ_K(cj__layer_norm_bwd_scratch)(cj_dtype t, int64_t rows, int64_t n)
{
    const int64_t blocks = rows > 0 ? (rows + block_rows(rows) - 1) / block_rows(rows) : 0;
    return (size_t)blocks * 2 * (size_t)n * (t == CJ_F64 ? sizeof(double) : sizeof(float));
}

CJ_INLINE vf layer_norm_slope(vf xhat, vf g, vf rstd, vf c1, vf c2) { return rstd * (g - vf_fma(xhat, c2, c1)); }

CJ_INLINE void layer_norm_bwd_row(cj_dtype t, const rows_job *j, const void *x, const void *dy, int64_t r, void *dx, float *dw, float *db,
                                  bool stream)
{
    const int64_t n = j->n;
    const vf mu = vf_set1(j->rms ? 0 : ((const float *)j->saved_mean)[r]), rstd = vf_set1(((const float *)j->saved_rstd)[r]);
    const void *w = j->w;
    double s1 = 0.0, s2 = 0.0;
    for (int64_t i = 0; i < n;) {
        const int64_t stop = n - i > SUM_BLOCK ? i + SUM_BLOCK : n;
        vf a = vf_zero(), b = a;
        for (; i + CJ_VL <= stop; i += CJ_VL) {
            const vf d = load_vf(t, dy, i), xhat = (load_vf(t, x, i) - mu) * rstd, g = scale_shift(t, d, w, NULL, i, CJ_VL);
            a += g;
            b = vf_fma(g, xhat, b);
            if (dw) {
                vf_store(dw + i, vf_fma(d, xhat, vf_load(dw + i)));
                vf_store(db + i, vf_load(db + i) + d);
            }
        }
        if (i < stop) {
            const int m = (int)(stop - i);
            const vf d = load_vf_n(t, dy, i, m), xhat = vf_and_mask(vm_first(m), (load_vf_n(t, x, i, m) - mu) * rstd);
            const vf g = scale_shift(t, d, w, NULL, i, m);
            a += g;
            b = vf_fma(g, xhat, b);
            if (dw) {
                vf_store_n(dw + i, vf_fma(d, xhat, vf_load_n(dw + i, m)), m);
                vf_store_n(db + i, vf_load_n(db + i, m) + d, m);
            }
            i = stop;
        }
        s1 += (double)vf_hsum(a);
        s2 += (double)vf_hsum(b);
    }
    if (!dx) return;
    const vf c1 = vf_set1(j->rms ? 0 : (float)(s1 / (double)n)), c2 = vf_set1((float)(s2 / (double)n));
#define VALUE(v)                                                                                                                           \
    layer_norm_slope(                                                                                                                      \
        ((v)-mu) * rstd,                                                                                                                   \
        scale_shift(t, (__builtin_prefetch(next_dy + i * j->elem, 0, 2), m == CJ_VL ? load_vf(t, dy, i) : load_vf_n(t, dy, i, m)), w,      \
                    NULL, i, m),                                                                                                           \
        rstd, c1, c2)
    const char *next_dy = (const char *)dy + n * j->elem;
    FOR_ROW(t, dx, n, stream, x, (const char *)x + j->s_row * j->elem, VALUE);
#undef VALUE
}

static void layer_norm_bwd_block(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    (void)worker;
    float *dw = NULL, *db = NULL;
    const bool stream = streams(j->t, j->rows, j->n);
    if (j->scratch) {
        dw = (float *)j->scratch + begin / j->block * 2 * j->n;
        db = dw + j->n;
        memset(dw, 0, (size_t)(2 * j->n) * sizeof *dw);
    }
    for (int64_t r = begin; r < end; r++) {
        const void *x = (const char *)j->x + r * j->s_row * j->elem, *dy = (const char *)j->dy + r * j->n * j->elem;
        void *dx = j->y ? (char *)j->y + r * j->n * j->elem : NULL;
        CJ_BY_TYPE(j->t, layer_norm_bwd_row(T, j, x, dy, r, dx, dw, db, stream))
    }
    if (stream) vf_stream_end();
}

#define COLUMN_TILE 256

static void layer_norm_bwd_columns(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    (void)worker;
    double dw[COLUMN_TILE], db[COLUMN_TILE];
    for (int64_t c0 = begin; c0 < end; c0 += COLUMN_TILE) {
        const int64_t m = end - c0 < COLUMN_TILE ? end - c0 : COLUMN_TILE;
        for (int64_t c = 0; c < m; c++) dw[c] = db[c] = 0.0;
        for (int64_t k = 0; k < j->blocks; k++) {
            const float *p = (const float *)j->scratch + k * 2 * j->n + c0, *q = p + j->n;
            for (int64_t c = 0; c < m; c++) dw[c] += (double)p[c];
            for (int64_t c = 0; c < m; c++) db[c] += (double)q[c];
        }
        if (j->dw)
            for (int64_t c = 0; c < m; c++) CJ_BY_TYPE(j->t, store_one(T, j->dw, c0 + c, (float)dw[c]))
        if (j->db)
            for (int64_t c = 0; c < m; c++) CJ_BY_TYPE(j->t, store_one(T, j->db, c0 + c, (float)db[c]))
    }
}

static void layer_norm_bwd(cj_pool *pool, rows_job *j)
{
    const int64_t rows = j->rows, n = j->n;
    const bool wide = j->t == CJ_F64;
    if (n <= 0) return;
    j->elem = elem_of(j->t);
    if (!j->dw && !j->db) j->scratch = NULL;
    j->block = block_rows(rows);
    j->blocks = (rows + j->block - 1) / j->block;
    cj__parallel_for(rows * n <= CHUNK ? NULL : pool, rows, j->block, wide ? CJ_K(cj__layer_norm_bwd_block_f64) : layer_norm_bwd_block, j);
    if (!j->dw && !j->db) return;
    cj__parallel_for(j->blocks * n <= CHUNK ? NULL : pool, n, COLUMN_TILE,
                     wide ? CJ_K(cj__layer_norm_bwd_columns_f64) : layer_norm_bwd_columns, j);
}

void CJ_K(cj__layer_norm_bwd)(cj_pool *pool, cj_dtype t, const void *x, const void *dy, const void *w, const void *mean, const void *rstd,
                              int64_t rows, int64_t n, int64_t s_row, void *dx, void *dw, void *db, void *scratch)
{
    rows_job j = { .t = t,
                   .x = x,
                   .dy = dy,
                   .w = w,
                   .saved_mean = mean,
                   .saved_rstd = rstd,
                   .rows = rows,
                   .n = n,
                   .s_row = s_row,
                   .y = dx,
                   .dw = dw,
                   .db = db,
                   .scratch = scratch };
    layer_norm_bwd(pool, &j);
}

void CJ_K(cj__rms_norm_bwd)(cj_pool *pool, cj_dtype t, const void *x, const void *dy, const void *w, const void *rstd, int64_t rows,
                            int64_t n, void *dx, void *dw, void *scratch)
{
    rows_job j = { .t = t,
                   .rms = true,
                   .x = x,
                   .dy = dy,
                   .w = w,
                   .saved_rstd = rstd,
                   .rows = rows,
                   .n = n,
                   .s_row = n,
                   .y = dx,
                   .dw = dw,
                   .scratch = scratch };
    layer_norm_bwd(pool, &j);
}
