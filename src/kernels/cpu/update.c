/* Parameter updates: one pass over a list of parameters, PyTorch's formulas in PyTorch's order (torch.optim.SGD, Adam, AdamW).
 *
 * Everything is elementwise: the borders of chunks (update.h) do not show in the result.  The other rules: update_adaptive.c.
 */
#include <math.h>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/update.h"

#define PARTIALS 256 /* of the sum of squares */

/* ---- SGD --------------------------------------------------------------------------------------------------------------------------------- */

typedef struct sgd_f32 {
    vf lr, momentum, undamped, decay, scale;
    bool has_momentum, has_decay, has_scale, nesterov, first;
} sgd_f32;

CJ_INLINE vf sgd_step(const sgd_f32 *c, vf p, vf g)
{
    if (c->has_scale) g = g * c->scale;
    if (c->has_decay) g = vf_fma(c->decay, p, g);
    return vf_fnma(c->lr, g, p);
}

/* The momentum form: *m is read and written. */
CJ_INLINE vf sgd_momentum_step(const sgd_f32 *c, vf p, vf g, vf *m)
{
    if (c->has_scale) g = g * c->scale;
    if (c->has_decay) g = vf_fma(c->decay, p, g);
    if (c->first) *m = g;
    else *m = vf_fma(c->undamped, g, *m * c->momentum);
    const vf d = c->nesterov ? vf_fma(c->momentum, *m, g) : *m;
    return vf_fnma(c->lr, d, p);
}

static void sgd_f32_piece(const sgd_f32 *c, float *p, const float *g, float *m, int64_t n)
{
    int64_t i = 0;
    vf v = vf_zero();
    if (!m || !c->has_momentum) {
        for (; i + CJ_VL <= n; i += CJ_VL) vf_store(p + i, sgd_step(c, vf_load(p + i), vf_load(g + i)));
        if (i < n) vf_store_n(p + i, sgd_step(c, vf_load_n(p + i, (int)(n - i)), vf_load_n(g + i, (int)(n - i))), (int)(n - i));
        return;
    }
    for (; i + CJ_VL <= n; i += CJ_VL) {
        v = vf_load(m + i);
        vf_store(p + i, sgd_momentum_step(c, vf_load(p + i), vf_load(g + i), &v));
        vf_store(m + i, v);
    }
    if (i < n) {
        const int k = (int)(n - i);
        v = vf_load_n(m + i, k);
        vf_store_n(p + i, sgd_momentum_step(c, vf_load_n(p + i, k), vf_load_n(g + i, k), &v), k);
        vf_store_n(m + i, v, k);
    }
}

static void sgd_f64_piece(const cj_update_opts *o, double *p, const double *g, double *m, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double d = g[i] * o->grad_scale;
        d += o->weight_decay * p[i];
        if (m && o->momentum != 0.0) {
            m[i] = o->first ? d : o->momentum * m[i] + (1.0 - o->dampening) * d;
            d = o->nesterov ? d + o->momentum * m[i] : m[i];
        }
        p[i] -= o->lr * d;
    }
}

static void sgd_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const update_job *j = arg;
    const cj_update_opts *o = j->o;
    (void)worker;
    const sgd_f32 c = { vf_set1((float)o->lr),
                        vf_set1((float)o->momentum),
                        vf_set1((float)(1.0 - o->dampening)),
                        vf_set1((float)o->weight_decay),
                        vf_set1((float)o->grad_scale),
                        o->momentum != 0.0,
                        o->weight_decay != 0.0,
                        o->grad_scale != 1.0,
                        o->nesterov,
                        o->first };
    walk w = walk_from(j, begin, end);
    const cj_update_slice *s;
    int64_t from, to;
    while (walk_next(&w, &s, &from, &to)) {
        if (j->t == CJ_F64)
            sgd_f64_piece(o, (double *)s->p + from, (const double *)s->g + from, s->m ? (double *)s->m + from : NULL, to - from);
        else if (j->t == CJ_F32)
            sgd_f32_piece(&c, (float *)s->p + from, (const float *)s->g + from, s->m ? (float *)s->m + from : NULL, to - from);
        else
            for (half_piece h = { .from = from }; half_next(j->t, s, to, &h);)
                sgd_f32_piece(&c, (float *)s->p + h.at, h.g, s->m ? (float *)s->m + h.at : NULL, h.n);
    }
}

void CJ_K(cj__sgd)(cj_pool *pool, cj_dtype t, const cj_update_slice *slices, int n_slices, const cj_update_opts *o)
{
    update_run(pool, t, slices, n_slices, o, sgd_range);
}

/* ---- Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) ------------------------------------------------------------------------ */

/*   g += decay p (coupled)  or  p *= 1 - lr decay (decoupled)
 *   m = m + (1 - beta1)(g - m)
 *   v = beta2 v + (1 - beta2) g g
 *   p = p - (lr / bias1) m / (sqrt(v) / sqrt(bias2) + eps)                                                                                  */
typedef struct adam_f32 {
    vf weight1, beta2, weight2, root2 /* 1 / sqrt(bias2) */, eps, step, decay, scale;
    bool coupled, decoupled, has_scale, near; /* near: lerp from the other end, as PyTorch does for weights of 1/2 and more */
} adam_f32;

CJ_INLINE vf adam_step(const adam_f32 *c, vf p, vf g, vf *m, vf *v)
{
    if (c->has_scale) g = g * c->scale;
    if (c->coupled) g = vf_fma(c->decay, p, g);
    if (c->decoupled) p = p * c->decay;
    *m = c->near ? g - (g - *m) * c->weight1 : *m + c->weight1 * (g - *m);
    *v = *v * c->beta2 + c->weight2 * g * g;
    const vf denominator = vf_sqrt(*v) * c->root2 + c->eps; /* divisions are what an update takes longest for */
    return p - c->step * *m / denominator;
}

static void adam_f32_piece(const adam_f32 *c, float *p, const float *g, float *m, float *v, int64_t n)
{
    int64_t i = 0;
    for (; i + CJ_VL <= n; i += CJ_VL) {
        vf a = vf_load(m + i), b = vf_load(v + i);
        vf_store(p + i, adam_step(c, vf_load(p + i), vf_load(g + i), &a, &b));
        vf_store(m + i, a);
        vf_store(v + i, b);
    }
    if (i < n) {
        const int k = (int)(n - i);
        vf a = vf_load_n(m + i, k), b = vf_load_n(v + i, k);
        vf_store_n(p + i, adam_step(c, vf_load_n(p + i, k), vf_load_n(g + i, k), &a, &b), k);
        vf_store_n(m + i, a, k);
        vf_store_n(v + i, b, k);
    }
}

static void adam_f64_piece(const cj_update_opts *o, double *p, const double *g, double *m, double *v, int64_t n)
{
    const double weight = 1.0 - o->beta1, root2 = sqrt(o->bias2), step = o->lr / o->bias1;
    for (int64_t i = 0; i < n; i++) {
        double d = g[i] * o->grad_scale;
        if (o->decoupled) p[i] *= 1.0 - o->lr * o->weight_decay;
        else d += o->weight_decay * p[i];
        m[i] = weight < 0.5 ? m[i] + weight * (d - m[i]) : d - (d - m[i]) * (1.0 - weight);
        v[i] = v[i] * o->beta2 + (1.0 - o->beta2) * d * d;
        p[i] -= step * m[i] / (sqrt(v[i]) / root2 + o->eps);
    }
}

static void adam_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const update_job *j = arg;
    const cj_update_opts *o = j->o;
    (void)worker;
    const bool decay = o->weight_decay != 0.0, near = 1.0 - o->beta1 >= 0.5;
    const adam_f32 c = { vf_set1((float)(near ? o->beta1 : 1.0 - o->beta1)),
                         vf_set1((float)o->beta2),
                         vf_set1((float)(1.0 - o->beta2)),
                         vf_set1((float)(1.0 / sqrt(o->bias2))),
                         vf_set1((float)o->eps),
                         vf_set1((float)(o->lr / o->bias1)),
                         vf_set1((float)(o->decoupled ? 1.0 - o->lr * o->weight_decay : o->weight_decay)),
                         vf_set1((float)o->grad_scale),
                         decay && !o->decoupled,
                         decay && o->decoupled,
                         o->grad_scale != 1.0,
                         near };
    walk w = walk_from(j, begin, end);
    const cj_update_slice *s;
    int64_t from, to;
    while (walk_next(&w, &s, &from, &to)) {
        if (j->t == CJ_F64)
            adam_f64_piece(o, (double *)s->p + from, (const double *)s->g + from, (double *)s->m + from, (double *)s->v + from, to - from);
        else if (j->t == CJ_F32)
            adam_f32_piece(&c, (float *)s->p + from, (const float *)s->g + from, (float *)s->m + from, (float *)s->v + from, to - from);
        else
            for (half_piece h = { .from = from }; half_next(j->t, s, to, &h);)
                adam_f32_piece(&c, (float *)s->p + h.at, h.g, (float *)s->m + h.at, (float *)s->v + h.at, h.n);
    }
}

void CJ_K(cj__adam)(cj_pool *pool, cj_dtype t, const cj_update_slice *slices, int n_slices, const cj_update_opts *o)
{
    update_run(pool, t, slices, n_slices, o, adam_range);
}

/* ---- sum of squares ------------------------------------------------------------------------------------------------------------------------ */

#define LANES 32

static double sumsq_f32(const float *g, int64_t n)
{
    double total = 0.0;
    for (int64_t i = 0; i < n;) {
        const int64_t stop = n - i > 4096 ? i + 4096 : n;
        double lane[LANES] = { 0 };
        for (; i + LANES <= stop; i += LANES)
            for (int k = 0; k < LANES; k++) lane[k] += (double)g[i + k] * (double)g[i + k];
        for (int k = 0; i < stop; i++, k++) lane[k] += (double)g[i] * (double)g[i];
        for (int half = LANES / 2; half; half /= 2)
            for (int k = 0; k < half; k++) lane[k] += lane[k + half];
        total += lane[0];
    }
    return total;
}

static double sumsq_half(cj_dtype t, const uint16_t *g, int64_t n)
{
    double total = 0.0;
    float block[HALF_BLOCK];
    for (int64_t i = 0; i < n; i += HALF_BLOCK) {
        const int64_t k = n - i < HALF_BLOCK ? n - i : HALF_BLOCK;
        CJ_K(cj__convert)(t, g + i, CJ_F32, block, k);
        total += sumsq_f32(block, k);
    }
    return total;
}

static double sumsq_f64(const double *g, int64_t n)
{
    double lane[LANES] = { 0 };
    for (int64_t i = 0; i < n; i++) lane[i % LANES] += g[i] * g[i];
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) lane[k] += lane[k + half];
    return lane[0];
}

static void sumsq_range(void *arg, int64_t begin, int64_t end, int worker)
{
    const update_job *j = arg;
    (void)worker;
    walk w = walk_from(j, begin, end);
    const cj_update_slice *s;
    int64_t from, to;
    double sum = 0.0;
    while (walk_next(&w, &s, &from, &to)) {
        if (j->t == CJ_F64) sum += sumsq_f64((const double *)s->g + from, to - from);
        else if (j->t == CJ_F32) sum += sumsq_f32((const float *)s->g + from, to - from);
        else sum += sumsq_half(j->t, (const uint16_t *)s->g + from, to - from);
    }
    j->partial[begin / j->chunk] = sum;
}

double CJ_K(cj__sumsq)(cj_pool *pool, cj_dtype t, const cj_update_slice *slices, int n_slices)
{
    const int64_t total = total_of(slices, n_slices);
    if (total <= 0) return 0.0;
    double partial[PARTIALS], sum = 0.0;
    int64_t chunk = (total + PARTIALS - 1) / PARTIALS;
    chunk = chunk < CHUNK ? CHUNK : (chunk + 4095) / 4096 * 4096;
    update_job j = { .t = t, .slice = slices, .n_slices = n_slices, .chunk = chunk, .partial = partial };
    if (total <= chunk) sumsq_range(&j, 0, total, 0);
    else cj__parallel_for(pool, total, chunk, sumsq_range, &j);
    for (int64_t k = 0; k * chunk < total; k++) sum += partial[k];
    return sum;
}
