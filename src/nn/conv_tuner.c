/* Convolution by one of several algorithms, and a tuner that times them on the first pass of each shape and remembers the fastest.
 *
 *   implicit  cj_conv: a product that reads the image through a table, nothing unfolded
 *   columns   the pixels under every position as a row of a matrix, then one ordinary product
 *   FFT       the product of spectra: the kernel's size does not matter, so it wins with large kernels on few channels
 *
 * The two others are made of public operators, so all of them have derivatives.  Algorithms differ in the last digits: a run whose choices depend on the clock is not repeatable
 * to the bit, which is why a tuner can be switched off.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "cajal/math.h"
#include "nn/nn.h"

static const char *const algorithm_name[CJ_CONV_ALGORITHMS] = { "implicit", "columns", "FFT" };

typedef struct geometry { /* of two axes */
    int64_t stride[2], padding[2], dilation[2];
} geometry;

static int64_t along(int64_t one, cj_shape each, int axis, int64_t otherwise) { return each.ndim ? each.dim[axis] : one ? one : otherwise; }

/* Can the algorithm do it?  All but the first: images with two axes, one group, zeros as the border. */
static bool can(cj_conv_algorithm a, const cj_tensor *x, const cj_tensor *w, const cj_conv_opts *o, geometry *g)
{
    if (a == CJ_CONV_IMPLICIT) return true;
    bool two = (o->strides.ndim == 0 || o->strides.ndim == 2) && (o->paddings.ndim == 0 || o->paddings.ndim == 2) &&
               (o->dilations.ndim == 0 || o->dilations.ndim == 2);
    if (x->ndim != 4 || w->ndim != 4 || !two || o->groups > 1 || o->border != CJ_VALID || o->mode != CJ_PAD_ZERO ||
        w->shape[1] != x->shape[1] || !x->numel || !w->numel)
        return false;
    for (int d = 0; d < 2; d++) {
        g->stride[d] = along(o->stride, o->strides, d, 1), g->dilation[d] = along(o->dilation, o->dilations, d, 1);
        g->padding[d] = along(o->padding, o->paddings, d, 0);
        if (g->stride[d] < 1 || g->dilation[d] < 1 || g->padding[d] < 0) return false;
        if (x->shape[2 + d] + 2 * g->padding[d] < g->dilation[d] * (w->shape[2 + d] - 1) + 1) return false;
        if (a == CJ_CONV_FFT && (g->stride[d] > 1 || g->dilation[d] > 1)) return false;
    }
    /* spectra of all pairs of channels lie in memory at once */
    double pairs = (double)x->numel * (double)w->shape[0];
    return a != CJ_CONV_FFT || ((x->dtype == CJ_F32 || x->dtype == CJ_F64) && pairs <= (double)(1 << 24));
}

static cj_tensor *padded(cj_tensor *x, const geometry *g)
{
    cj_shape margin = CJ_SHAPE(g->padding[0], g->padding[1]);
    return g->padding[0] || g->padding[1] ? cj_pad(x, margin, margin, NULL) : x;
}

static cj_tensor *by_columns(cj_tensor *x, cj_tensor *w, const geometry *g)
{
    int64_t n = x->shape[0], out = w->shape[0], taps = w->shape[1] * w->shape[2] * w->shape[3], size[2];
    cj_tensor *u = padded(x, g);
    for (int d = 0; d < 2; d++) { /* [n, c, h', w', kh, kw] */
        u = cj_unfold(u, 2 + d, g->dilation[d] * (w->shape[2 + d] - 1) + 1, g->stride[d]);
        if (g->dilation[d] > 1) u = cj_slice(u, -1, 0, CJ_END, g->dilation[d]);
        size[d] = cj_size(u, 2 + d);
    }
    cj_axes order = { 6, { 0, 2, 3, 1, 4, 5 } };
    u = cj_reshape(cj_permute(u, order), CJ_SHAPE(n * size[0] * size[1], taps));
    cj_tensor *y = cj_matmul(u, cj_t(cj_reshape(w, CJ_SHAPE(out, taps))));
    return cj_permute(cj_reshape(y, CJ_SHAPE(n, size[0], size[1], out)), (cj_axes){ 4, { 0, 3, 1, 2 } });
}

static cj_tensor *by_spectra(cj_tensor *x, cj_tensor *w, const geometry *g)
{
    cj_tensor *turned = cj_slice(cj_slice(w, 2, CJ_END, CJ_END, -1), 3, CJ_END, CJ_END, -1); /* cj_fft_convolve turns it back */
    cj_convolve_opts over = { .axes = { 2, { 3, 4 } }, .mode = CJ_CONVOLVE_VALID };
    cj_tensor *pairs = cj_fft_convolve(cj_unsqueeze(padded(x, g), 1), cj_unsqueeze(cj_contiguous(turned), 0), &over);
    return cj_sum(pairs, &(cj_reduce_opts){ .axes = { 1, { 2 } } });
}

cj_tensor *cj_conv_by(cj_conv_algorithm a, cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts)
{
    cj_conv_opts o = opts ? *opts : (cj_conv_opts){ 0 };
    if (!x || !weight) return cj_conv(x, weight, bias, &o);
    cj_ctx *c = x->ctx;
    geometry g = { 0 };
    if (c->error || !cj__usable(c, "conv_by", 1, x) || !cj__usable(c, "conv_by", 2, weight)) return c->poison;
    if ((int)a < 0 || a >= CJ_CONV_ALGORITHMS) return cj_fail(c, CJ_EVALUE, "conv_by: there is no algorithm %d", (int)a);
    if (a == CJ_CONV_IMPLICIT) return cj_conv(x, weight, bias, &o);
    if (!can(a, x, weight, &o, &g))
        return cj_fail(c, CJ_EVALUE, "conv_by: %s does not take this convolution of %s by %s", algorithm_name[a], cj__tensor_text(x),
                       cj__tensor_text(weight));
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *y = a == CJ_CONV_COLUMNS ? by_columns(x, weight, &g) : by_spectra(x, weight, &g);
    if (bias) y = cj_add(y, cj_reshape(bias, CJ_SHAPE(-1, 1, 1)));
    y = cj_contiguous(y);
    cj__frame_close(c, frame, &y, 1);
    return y;
}

/* ---- the tuner ----------------------------------------------------------------------------------------------------------------------------------------------- */

enum { KEY = 2 * CJ_MAX_DIMS + 16 };
typedef struct entry {
    int64_t key[KEY];
    cj_conv_timing timing;
} entry;
struct cj_conv_tuner {
    cj_ctx *ctx;
    entry *item;
    int n, cap;
    bool off;
};

cj_conv_tuner *cj_conv_tuner_new(cj_ctx *c)
{
    if (!c || c->error) return NULL;
    cj_conv_tuner *t = cj__zalloc(c, sizeof *t);
    if (t) t->ctx = c;
    return t;
}
void cj_conv_tuner_free(cj_conv_tuner *t)
{
    if (!t) return;
    if (t->item) cj__free(t->ctx, t->item, sizeof *t->item * (size_t)t->cap);
    cj__free(t->ctx, t, sizeof *t);
}
void cj_conv_tuner_enable(cj_conv_tuner *t, bool on)
{
    if (t) t->off = !on;
}
int cj_conv_tuner_count(const cj_conv_tuner *t) { return t ? t->n : 0; }
cj_conv_timing cj_conv_tuner_at(const cj_conv_tuner *t, int i)
{
    return t && i >= 0 && i < t->n ? t->item[i].timing : (cj_conv_timing){ .algorithm = CJ_CONV_IMPLICIT };
}

/* everything that the time depends on */
static void key_of(const cj_tensor *x, const cj_tensor *w, const cj_conv_opts *o, int64_t *key)
{
    int n = 0;
    memset(key, 0, KEY * sizeof *key);
    for (int d = 0; d < x->ndim; d++) key[n++] = x->shape[d];
    for (int d = 0; d < w->ndim; d++) key[n++] = w->shape[d];
    n = 2 * CJ_MAX_DIMS;
    key[n++] = x->dtype, key[n++] = o->groups, key[n++] = o->border, key[n++] = o->mode;
    for (int d = 0; d < 3; d++) {
        key[n++] = along(o->stride, o->strides, d, 1), key[n++] = along(o->padding, o->paddings, d, 0);
        key[n++] = along(o->dilation, o->dilations, d, 1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Least time of some passes, after one that warms the caches: at least three, and more while they are short. */
static double seconds_of(cj_conv_algorithm a, cj_tensor *x, cj_tensor *w, const cj_conv_opts *o)
{
    cj_ctx *c = x->ctx;
    double least = INFINITY, start = now();
    for (int pass = 0; pass < 30 && !c->error && (pass < 4 || now() - start < 0.01); pass++) {
        cj_scope s = cj_scope_open(c);
        double began = now();
        cj_conv_by(a, x, w, NULL, o);
        cj_sync(c);
        double took = now() - began;
        if (pass) least = fmin(least, took);
        cj_scope_close(s);
    }
    return least;
}

static const entry *measure(cj_conv_tuner *t, cj_tensor *x, cj_tensor *w, const cj_conv_opts *o, const int64_t *key)
{
    cj_ctx *c = t->ctx;
    if (t->n == t->cap) {
        int more = t->cap ? 2 * t->cap : 8;
        entry *grown = cj__zalloc(c, sizeof *grown * (size_t)more);
        if (!grown) return NULL;
        if (t->n) memcpy(grown, t->item, sizeof *grown * (size_t)t->n);
        if (t->item) cj__free(c, t->item, sizeof *t->item * (size_t)t->cap);
        t->item = grown, t->cap = more;
    }
    entry e = { .timing.algorithm = CJ_CONV_IMPLICIT };
    memcpy(e.key, key, sizeof e.key);
    geometry g;
    bool grad = cj_no_grad(c);
    for (int a = 0; a < CJ_CONV_ALGORITHMS; a++) {
        e.timing.seconds[a] = can((cj_conv_algorithm)a, x, w, o, &g) ? seconds_of((cj_conv_algorithm)a, x, w, o) : INFINITY;
        if (e.timing.seconds[a] < e.timing.seconds[e.timing.algorithm]) e.timing.algorithm = (cj_conv_algorithm)a;
    }
    cj_grad_mode(c, grad);
    if (c->error) return NULL;
    t->item[t->n] = e;
    return &t->item[t->n++];
}

cj_tensor *cj_conv_tuned(cj_conv_tuner *t, cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts)
{
    cj_conv_opts o = opts ? *opts : (cj_conv_opts){ 0 };
    if (!t || t->off || !x || !weight || x->ctx->error || !cj__usable(x->ctx, "conv_tuned", 1, x) ||
        !cj__usable(x->ctx, "conv_tuned", 2, weight))
        return cj_conv(x, weight, bias, &o);
    int64_t key[KEY];
    key_of(x, weight, &o, key);
    const entry *found = NULL;
    for (int i = 0; i < t->n && !found; i++)
        if (memcmp(t->item[i].key, key, sizeof key) == 0) found = &t->item[i];
    /* a step that is being recorded has no values to work on: it takes what an earlier pass has found */
    if (!found && !x->st->dry && !weight->st->dry) found = measure(t, x, weight, &o, key);
    return x->ctx->error ? x->ctx->poison : cj_conv_by(found ? found->timing.algorithm : CJ_CONV_IMPLICIT, x, weight, bias, &o);
}
