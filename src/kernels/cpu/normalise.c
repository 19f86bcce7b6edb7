/* Batch normalisation of [N, C, ..] and group normalisation, with an optional ReLU, fused forward and backward.
 *
 *   y = act((x - mean)·rstd·w + b),  rstd = 1/sqrt(var + eps),  mean and biased var of a set of planes: all planes of a channel (batch), or those of a group of channels
 *   of one example (group).  With g = dy·act', xhat = (x - mean)·rstd and averages over the set:
 *   dx = rstd·(w·g - mean(w·g) - xhat·mean(w·g·xhat)),  dw = sum g·xhat,  db = sum g;  where the statistics are given, dx = rstd·w·g.
 *
 * A set usually fits the second-level cache: it is read from memory once, and the passes over it find it there.  Where planes are small, neighbouring channels go
 * together, so that memory is read in longer runs.  Statistics come from parts of about PART elements, twice over each: the mean of the part, then the moments around it;
 * the parts are merged in f64.  The mask of the ReLU is recomputed from x, which backward reads anyway, by the expression of the forward pass.
 */
#include "kernels/cpu/normalise.h"

#include "kernels/cpu/row_pass.h"

#define PART 4096          /* elements of a part: summed in f32, 16 KiB of f32 */
#define CACHE (1000 << 10) /* bytes of inputs that a block of sets may have */
#define TOGETHER 16        /* sets of a block at most */
#define SMALL 16384        /* elements that are not worth a second thread */
#define LINE 64            /* bytes of a cache line */
#define LONG_RUN 4096      /* bytes of a plane that memory delivers well by itself */

/* Runs the statement with T and RELU constants. */
#define BY_TYPE_1(type, ...)                                                                                                               \
    {                                                                                                                                      \
        const cj_dtype T = type;                                                                                                           \
        __VA_ARGS__;                                                                                                                       \
        break;                                                                                                                             \
    }
#define BY_TYPE(t, ...)                                                                                                                    \
    switch (t) {                                                                                                                           \
    case CJ_F64: BY_TYPE_1(CJ_F64, __VA_ARGS__)                                                                                            \
    case CJ_BF16: BY_TYPE_1(CJ_BF16, __VA_ARGS__)                                                                                          \
    case CJ_F16: BY_TYPE_1(CJ_F16, __VA_ARGS__)                                                                                            \
    default: BY_TYPE_1(CJ_F32, __VA_ARGS__)                                                                                                \
    }

/* Planes of a set, and where they lie: set s, plane k begins at element s·jump + k·step. */
typedef struct sets {
    int64_t count, planes, jump, step, inner, elem;
} sets;

static sets sets_of(const cj_normalise_job *j)
{
    sets z = { .inner = j->inner, .elem = j->t == CJ_F64 ? 8 : j->t == CJ_F32 ? 4 : 2 };
    if (j->groups) z.count = j->outer * j->groups, z.planes = j->channels / j->groups, z.step = j->inner, z.jump = z.planes * j->inner;
    else z.count = j->channels, z.planes = j->outer, z.step = j->channels * j->inner, z.jump = j->inner;
    return z;
}
static int64_t channel_of(const cj_normalise_job *j, const sets *z, int64_t s, int64_t k)
{
    return j->groups ? s % j->groups * z->planes + k : s;
}

static cj_affine affine_of(const cj_normalise_job *j, int64_t s, int64_t channel)
{
    cj_affine a = { .rstd = 1 / sqrt(j->var[s] + j->eps) };
    a.high = j->t == CJ_F64 ? j->mean[s] : (double)(float)j->mean[s];
    a.low = j->mean[s] - a.high;
    a.scale = a.rstd * (j->weight ? j->weight[channel] : 1);
    a.shift = (j->bias ? j->bias[channel] : 0) - a.low * a.scale;
    return a;
}

/* ---- passes over (part of) a plane ----------------------------------------------------------------------------------------------------------- */

/* Two sums of a set: f32 vectors for one part, then f64. */
typedef struct sums {
    vf a, b;
    double A, B;
} sums;

CJ_INLINE void sums_begin(sums *s) { *s = (sums){ .a = vf_zero(), .b = vf_zero() }; }
CJ_INLINE void sums_collect(sums *s)
{
    s->A += (double)vf_hsum(s->a);
    s->B += (double)vf_hsum(s->b);
    s->a = s->b = vf_zero();
}

/* The first pass asks memory for what it needs next: the same vectors of the next plane, `ahead` bytes on.  Planes are too short and too far apart for the machine to guess. */
CJ_INLINE void fetch(cj_dtype t, const void *x, int64_t ahead, int64_t i, int vectors)
{
    for (int v = 0; v < vectors; v++) __builtin_prefetch((const char *)x + ahead + (i + v * CJ_VL) * (t == CJ_F32 ? 4 : 2), 0, 2);
}

/* A + B is the sum of x. */
CJ_INLINE void add_values(cj_dtype t, const void *x, int64_t n, int64_t ahead, sums *s)
{
    int64_t i = 0;
    if (t == CJ_F64) {
        for (; i < n; i++) s->A += ((const double *)x)[i];
        return;
    }
    vf a = s->a, b = s->b, c = vf_zero(), d = c;
    for (; i + 4 * CJ_VL <= n; i += 4 * CJ_VL) {
        fetch(t, x, ahead, i, 4);
        a += load_vf(t, x, i);
        b += load_vf(t, x, i + CJ_VL);
        c += load_vf(t, x, i + 2 * CJ_VL);
        d += load_vf(t, x, i + 3 * CJ_VL);
    }
    for (; i + CJ_VL <= n; i += CJ_VL) a += load_vf(t, x, i);
    if (i < n) b += load_vf_n(t, x, i, (int)(n - i));
    s->a = a + c;
    s->b = b + d;
}

/* A: sum of (x - pilot), B: of its square. */
CJ_INLINE void add_moments(cj_dtype t, const void *x, int64_t n, double pilot, sums *s)
{
    int64_t i = 0;
    if (t == CJ_F64) {
        for (; i < n; i++) {
            const double d = ((const double *)x)[i] - pilot;
            s->A += d;
            s->B += d * d;
        }
        return;
    }
    const vf p = vf_set1((float)pilot);
    vf a = s->a, b = s->b, c = vf_zero(), d = c;
    for (; i + 2 * CJ_VL <= n; i += 2 * CJ_VL) {
        const vf u = load_vf(t, x, i) - p, v = load_vf(t, x, i + CJ_VL) - p;
        a += u;
        b = vf_fma(u, u, b);
        c += v;
        d = vf_fma(v, v, d);
    }
    for (; i < n; i += CJ_VL) {
        const int m = n - i < CJ_VL ? (int)(n - i) : CJ_VL;
        const vf u = vf_and_mask(vm_first(m), load_vf_n(t, x, i, m) - p);
        a += u;
        b = vf_fma(u, u, b);
    }
    s->a = a + c;
    s->b = b + d;
}

/* The gradient below the ReLU; deviation = x - high. */
CJ_INLINE vf below_relu(bool relu, vf deviation, vf scale, vf shift, vf dy)
{
    return relu ? vf_and_mask(vf_gt(vf_fma(deviation, scale, shift), vf_zero()), dy) : dy;
}
CJ_INLINE double below_relu_f64(bool relu, double deviation, const cj_affine *f, double dy)
{
    return relu && !(deviation * f->scale + f->shift > 0) ? 0 : dy;
}

/* A: sum of g, B: of g·(x - high). */
CJ_INLINE void add_gradients(cj_dtype t, bool relu, const void *x, const void *dy, int64_t n, int64_t ahead, const cj_affine *f, sums *s)
{
    int64_t i = 0;
    if (t == CJ_F64) {
        for (; i < n; i++) {
            const double d = ((const double *)x)[i] - f->high, g = below_relu_f64(relu, d, f, ((const double *)dy)[i]);
            s->A += g;
            s->B += g * d;
        }
        return;
    }
    const vf high = vf_set1((float)f->high), scale = vf_set1((float)f->scale), shift = vf_set1((float)f->shift);
    vf a = s->a, b = s->b, c = vf_zero(), e = c;
    for (; i + 2 * CJ_VL <= n; i += 2 * CJ_VL) {
        fetch(t, x, ahead, i, 2);
        fetch(t, dy, ahead, i, 2);
        const vf d = load_vf(t, x, i) - high, d2 = load_vf(t, x, i + CJ_VL) - high;
        const vf g = below_relu(relu, d, scale, shift, load_vf(t, dy, i)),
                 g2 = below_relu(relu, d2, scale, shift, load_vf(t, dy, i + CJ_VL));
        a += g;
        b = vf_fma(g, d, b);
        c += g2;
        e = vf_fma(g2, d2, e);
    }
    for (; i < n; i += CJ_VL) {
        const int m = n - i < CJ_VL ? (int)(n - i) : CJ_VL;
        const vf d = vf_and_mask(vm_first(m), load_vf_n(t, x, i, m) - high);
        const vf g = below_relu(relu, d, scale, shift, load_vf_n(t, dy, i, m));
        a += g;
        b = vf_fma(g, d, b);
    }
    s->a = a + c;
    s->b = b + e;
}

/* Here, too, `ahead` is what memory is asked for meanwhile: the next set, where it is small enough to wait in the cache. */
CJ_INLINE void write_plane(cj_dtype t, bool relu, const void *x, int64_t n, int64_t ahead, const cj_affine *f, void *y, bool stream)
{
    if (t == CJ_F64) {
        for (int64_t i = 0; i < n; i++) {
            const double v = (((const double *)x)[i] - f->high) * f->scale + f->shift;
            ((double *)y)[i] = relu && v < 0 ? 0 : v;
        }
        return;
    }
    const vf high = vf_set1((float)f->high), scale = vf_set1((float)f->scale), shift = vf_set1((float)f->shift);
#define PLAIN(v) vf_fma((v)-high, scale, shift)
#define RECTIFIED(v) vf_max(vf_zero(), PLAIN(v))
    if (relu) FOR_ROW(t, y, n, stream, x, (const char *)x + ahead, RECTIFIED);
    else FOR_ROW(t, y, n, stream, x, (const char *)x + ahead, PLAIN);
#undef RECTIFIED
#undef PLAIN
}

CJ_INLINE void write_slope(cj_dtype t, bool relu, const void *x, const void *dy, int64_t n, int64_t ahead, const cj_affine *f,
                           const cj_slope *p, void *dx, bool stream)
{
    if (t == CJ_F64) {
        for (int64_t i = 0; i < n; i++) {
            const double d = ((const double *)x)[i] - f->high, g = below_relu_f64(relu, d, f, ((const double *)dy)[i]);
            ((double *)dx)[i] = p->g * g + (p->d * d + p->one);
        }
        return;
    }
    const vf high = vf_set1((float)f->high), scale = vf_set1((float)f->scale), shift = vf_set1((float)f->shift);
    const vf by_g = vf_set1((float)p->g), by_d = vf_set1((float)p->d), one = vf_set1((float)p->one);
#define DY (fetch(t, dy, ahead, i, 1), m == CJ_VL ? load_vf(t, dy, i) : load_vf_n(t, dy, i, m))
#define VALUE(v) vf_fma(below_relu(relu, (v)-high, scale, shift, DY), by_g, vf_fma((v)-high, by_d, one))
    FOR_ROW(t, dx, n, stream, x, (const char *)x + ahead, VALUE);
#undef VALUE
#undef DY
}

/* What a plane's elements are computed with: y = (x - high)·scale + shift, dx = g·dy_masked + d·(x - high) + one. */
typedef struct plane_of {
    vf high, scale, shift, g, d, one;
} plane_of;

CJ_INLINE plane_of plane_values(const cj_affine *f, const cj_slope *p)
{
    plane_of w = { .high = vf_set1((float)f->high), .scale = vf_set1((float)f->scale), .shift = vf_set1((float)f->shift) };
    if (p) w.g = vf_set1((float)p->g), w.d = vf_set1((float)p->d), w.one = vf_set1((float)p->one);
    return w;
}

/* Lanes [0, m) of y, or of dx where there is a dy, from element i on. */
CJ_INLINE vf plane_value(bool relu, const float *x, const float *dy, int64_t i, int m, const plane_of *w)
{
    const vf d = (m == CJ_VL ? vf_load(x + i) : load_vf_n(CJ_F32, x, i, m)) - w->high;
    if (dy) {
        const vf g = m == CJ_VL ? vf_load(dy + i) : load_vf_n(CJ_F32, dy, i, m);
        return vf_fma(below_relu(relu, d, w->scale, w->shift, g), w->g, vf_fma(d, w->d, w->one));
    }
    const vf v = vf_fma(d, w->scale, w->shift);
    return relu ? vf_max(vf_zero(), v) : v;
}

/* Neighbouring planes of f32 past the cache, in one run: the vectors in which two of them meet are written whole.  A line that is written in parts has to be read first, and on some
 * machines waits for the streamed ones around it.  f and p: of each plane, p for dx.  n >= CJ_VL. */
CJ_INLINE void stream_planes(bool relu, const float *x, const float *dy, int planes, int64_t n, const cj_affine *f, const cj_slope *p,
                             float *y)
{
    plane_of w = plane_values(f, p);
    int64_t i = row_head(y, true);
    if (i > 0) store_vf_n(CJ_F32, y, 0, plane_value(relu, x, dy, 0, (int)i, &w), (int)i);
    for (int s = 0; s < planes; s++) {
        const int64_t end = (s + 1) * n;
        for (; i + CJ_VL <= end; i += CJ_VL) vf_stream(y + i, plane_value(relu, x, dy, i, CJ_VL, &w));
        const int m = (int)(end - i);
        if (s + 1 == planes) {
            if (m > 0) store_vf_n(CJ_F32, y, i, plane_value(relu, x, dy, i, m, &w), m);
            return;
        }
        const plane_of next = plane_values(f + s + 1, p ? p + s + 1 : NULL);
        if (m > 0) {
            const vf before = plane_value(relu, x, dy, i, CJ_VL, &w), after = plane_value(relu, x, dy, i, CJ_VL, &next);
            vf_stream(y + i, vf_sel(vm_first(m), before, after));
            i += CJ_VL;
        }
        w = next;
    }
}

/* ---- a block of sets: [begin, begin + n) of them, n <= TOGETHER ------------------------------------------------------------------------------- */

static const char *plane_at(const void *base, const sets *z, int64_t s, int64_t k)
{
    return (const char *)base + (s * z->jump + k * z->step) * z->elem;
}

/* Mean and variance of each set. */
CJ_INLINE void block_statistics(cj_dtype t, const cj_normalise_job *j, const sets *z, int64_t begin, int n)
{
    const int64_t many = z->inner < PART ? PART / z->inner : 1, length = z->inner < PART ? z->inner : PART;
    cj_moments total[TOGETHER] = { 0 };
    sums sum[TOGETHER];
    double pilot[TOGETHER];
    for (int64_t k0 = 0; k0 < z->planes; k0 += many)
        for (int64_t i0 = 0; i0 < z->inner; i0 += length) {
            const int64_t k1 = z->planes - k0 < many ? z->planes : k0 + many, len = z->inner - i0 < length ? z->inner - i0 : length;
            const double elements = (double)((k1 - k0) * len);
            for (int s = 0; s < n; s++) sums_begin(&sum[s]);
            for (int64_t k = k0; k < k1; k++)
                for (int s = 0; s < n; s++) add_values(t, plane_at(j->x, z, begin + s, k) + i0 * z->elem, len, z->step * z->elem, &sum[s]);
            for (int s = 0; s < n; s++) {
                sums_collect(&sum[s]);
                pilot[s] = (sum[s].A + sum[s].B) / elements;
                if (t != CJ_F64) pilot[s] = (double)(float)pilot[s];
                sums_begin(&sum[s]);
            }
            for (int64_t k = k0; k < k1; k++)
                for (int s = 0; s < n; s++) add_moments(t, plane_at(j->x, z, begin + s, k) + i0 * z->elem, len, pilot[s], &sum[s]);
            for (int s = 0; s < n; s++) {
                sums_collect(&sum[s]);
                cj__moments_add(&total[s], elements, pilot[s], sum[s].A, sum[s].B);
            }
        }
    for (int s = 0; s < n; s++) {
        j->mean[begin + s] = total[s].mean;
        j->var[begin + s] = total[s].m2 / total[s].n;
    }
}

CJ_INLINE void block_forward(cj_dtype t, bool relu, const cj_normalise_job *j, const sets *z, int64_t begin, int n, bool stream)
{
    cj_affine f[TOGETHER];
    const int64_t ahead = j->groups ? z->jump * z->elem : 0;
    if (!j->given) block_statistics(t, j, z, begin, n);
    for (int64_t k = 0; k < z->planes; k++) {
        if (t == CJ_F32 && n > 1 && stream) {
            for (int s = 0; s < n && k == 0; s++) f[s] = affine_of(j, begin + s, begin + s);
            stream_planes(relu, (const float *)(const void *)plane_at(j->x, z, begin, k), NULL, n, z->inner, f, NULL,
                          (float *)(uintptr_t)plane_at(j->y, z, begin, k));
            continue;
        }
        for (int s = 0; s < n; s++) {
            if (k == 0 || j->groups) f[s] = affine_of(j, begin + s, channel_of(j, z, begin + s, k));
            write_plane(t, relu, plane_at(j->x, z, begin + s, k), z->inner, ahead, &f[s],
                        (char *)(uintptr_t)plane_at(j->y, z, begin + s, k), stream);
        }
    }
    if (stream) vf_stream_end();
}

/* The sums of a set: over its planes dw and db, and what dx subtracts, mean(w·g) and mean(w·g·xhat). */
typedef struct set_sums {
    double mean_g, mean_gx;
} set_sums;

/* The sums of g and g·(x - high) of one channel in this set, turned into its dweight and dbias. */
static void channel_sums(const cj_normalise_job *j, const sets *z, int64_t s, int64_t k, const cj_affine *f, double g, double gd,
                         set_sums *out)
{
    const int64_t channel = channel_of(j, z, s, k);
    const double gx = (gd - f->low * g) * f->rstd, w = j->weight ? j->weight[channel] : 1, m = (double)(z->planes * z->inner);
    out->mean_g += w * g / m;
    out->mean_gx += w * gx / m;
    if (j->groups) { /* one of several examples: added up at the end */
        double *to = j->scratch + 2 * (s / j->groups * j->channels + channel);
        to[0] = gx;
        to[1] = g;
    } else {
        j->dweight[channel] = gx;
        j->dbias[channel] = g;
    }
}

static cj_slope slope_of(const cj_normalise_job *j, const cj_affine *f, const set_sums *m)
{
    const double d = j->given ? 0 : -f->rstd * f->rstd * m->mean_gx;
    return (cj_slope){ .g = f->scale, .d = d, .one = j->given ? 0 : -d * f->low - f->rstd * m->mean_g };
}

CJ_INLINE void block_backward(cj_dtype t, bool relu, const cj_normalise_job *j, const sets *z, int64_t begin, int n, bool stream)
{
    cj_affine f[TOGETHER] = { 0 };
    sums sum[TOGETHER];
    set_sums total[TOGETHER] = { 0 };
    const int64_t length = z->inner < PART ? z->inner : PART, ahead = j->groups ? z->jump * z->elem : 0;
    int64_t pending = 0;
    for (int s = 0; s < n; s++) sums_begin(&sum[s]);
    for (int64_t k = 0; k < z->planes; k++) {
        for (int s = 0; s < n; s++)
            if (k == 0 || j->groups) f[s] = affine_of(j, begin + s, channel_of(j, z, begin + s, k));
        for (int64_t i0 = 0; i0 < z->inner; i0 += length) {
            const int64_t len = z->inner - i0 < length ? z->inner - i0 : length, at = i0 * z->elem;
            for (int s = 0; s < n; s++)
                add_gradients(t, relu, plane_at(j->x, z, begin + s, k) + at, plane_at(j->dy, z, begin + s, k) + at, len, z->step * z->elem,
                              &f[s], &sum[s]);
            if ((pending += len) < PART && k + 1 < z->planes && !j->groups) continue;
            pending = 0;
            for (int s = 0; s < n; s++) sums_collect(&sum[s]);
        }
        for (int s = 0; s < n && j->groups; s++) {
            channel_sums(j, z, begin + s, k, &f[s], sum[s].A, sum[s].B, &total[s]);
            sums_begin(&sum[s]);
        }
    }
    for (int s = 0; s < n && !j->groups; s++) channel_sums(j, z, begin + s, 0, &f[s], sum[s].A, sum[s].B, &total[s]);
    cj_slope slope[TOGETHER];
    for (int s = 0; s < n; s++) slope[s] = slope_of(j, &f[s], &total[s]);
    for (int64_t k = 0; k < z->planes; k++) {
        if (t == CJ_F32 && n > 1 && stream) {
            stream_planes(relu, (const float *)(const void *)plane_at(j->x, z, begin, k),
                          (const float *)(const void *)plane_at(j->dy, z, begin, k), n, z->inner, f, slope,
                          (float *)(uintptr_t)plane_at(j->y, z, begin, k));
            continue;
        }
        for (int s = 0; s < n; s++) {
            if (j->groups) f[s] = affine_of(j, begin + s, channel_of(j, z, begin + s, k));
            const cj_slope p = j->groups ? slope_of(j, &f[s], &total[s]) : slope[s];
            write_slope(t, relu, plane_at(j->x, z, begin + s, k), plane_at(j->dy, z, begin + s, k), z->inner, ahead, &f[s], &p,
                        (char *)(uintptr_t)plane_at(j->y, z, begin + s, k), stream);
        }
    }
    if (stream) vf_stream_end();
}

/* ---- the kernels ----------------------------------------------------------------------------------------------------------------------------------- */

/* As many neighbours as fit, and where there is a choice, as many as end with a cache line: `whole` planes do. */
static int together_of(const sets *z, bool group, int inputs)
{
    const int64_t plane = z->inner * z->elem, bytes = z->planes * plane * inputs, fit = bytes ? CACHE / bytes : 1;
    if (group || plane >= LONG_RUN || fit < 1) return 1;
    int whole = 1;
    while (whole * plane % LINE != 0) whole *= 2;
    const int most = fit > TOGETHER ? TOGETHER : (int)fit;
    return most > whole ? most - most % whole : most;
}

static void run_sets(const cj_normalise_job *j, int64_t begin, int64_t end, bool backward)
{
    const sets z = sets_of(j);
    const int block = together_of(&z, j->groups, backward ? 2 : 1);
    const bool stream = streams(j->t, z.count * z.planes, z.inner);
    for (int64_t s = begin; s < end; s += block) {
        const int n = end - s < block ? (int)(end - s) : block;
        if (backward && j->relu) BY_TYPE(j->t, block_backward(T, true, j, &z, s, n, stream))
        else if (backward) BY_TYPE(j->t, block_backward(T, false, j, &z, s, n, stream))
        else if (j->relu) BY_TYPE(j->t, block_forward(T, true, j, &z, s, n, stream))
        else BY_TYPE(j->t, block_forward(T, false, j, &z, s, n, stream))
    }
}
static void forward_sets(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    run_sets(arg, begin, end, false);
}
static void backward_sets(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    run_sets(arg, begin, end, true);
}

static void parallel_sets(cj_pool *pool, const cj_normalise_job *j, cj_range_fn fn, bool backward)
{
    const sets z = sets_of(j);
    const int64_t n = z.planes * z.inner, block = together_of(&z, j->groups, backward ? 2 : 1);
    int64_t grain = n < SMALL ? SMALL / n : 1;
    grain = (grain + block - 1) / block * block;
    cj__parallel_for(z.count * n <= SMALL ? NULL : pool, z.count, grain, fn, (void *)(uintptr_t)j);
}

static bool columns(const cj_normalise_job *j) { return j->inner == 1 && !j->groups; }

void CJ_K(cj__normalise)(cj_pool *pool, const cj_normalise_job *j)
{
    if (columns(j)) CJ_K(cj__normalise_columns)(pool, j);
    else parallel_sets(pool, j, forward_sets, false);
}

/* dweight and dbias of group normalisation: the examples' parts in order. */
static void add_examples(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_normalise_job *j = arg;
    (void)worker;
    for (int64_t c = begin; c < end; c++) {
        double dw = 0, db = 0;
        for (int64_t n = 0; n < j->outer; n++) {
            const double *p = j->scratch + 2 * (n * j->channels + c);
            dw += p[0];
            db += p[1];
        }
        j->dweight[c] = dw;
        j->dbias[c] = db;
    }
}

void CJ_K(cj__normalise_bwd)(cj_pool *pool, const cj_normalise_job *j)
{
    if (columns(j)) {
        CJ_K(cj__normalise_columns_bwd)(pool, j);
        return;
    }
    parallel_sets(pool, j, backward_sets, true);
    if (j->groups) cj__parallel_for(j->outer * j->channels <= SMALL ? NULL : pool, j->channels, 64, add_examples, (void *)(uintptr_t)j);
}

size_t CJ_K(cj__normalise_scratch)(const cj_normalise_job *j, bool backward)
{
    if (columns(j)) return CJ_K(cj__normalise_columns_scratch)(j, backward);
    return backward && j->groups ? (size_t)(2 * j->outer * j->channels) : 0;
}
