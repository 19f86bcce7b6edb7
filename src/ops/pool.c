/* Pooling over 1, 2 or 3 axes: maxima with their places, sums over windows, and what is made of them.
 *
 * max_pool gives values and flat positions within the plane; its derivative, window_put, sums at these positions.  Where nobody asked for positions, max_pool_values keeps a
 * byte for each window instead, the number of the maximum within it (its tap), and window_put_taps is the derivative.  window_sum and window_spread, both times a constant, are each
 * other's transpose and so closed under differentiation; the average is such a sum.
 */
#include <math.h>

#include "kernels/cpu/window.h"
#include "ops/ops.h"

typedef cj_window_attrs window_attrs;

static cj_window_shape describe(const window_attrs *a, const cj_tensor *x)
{
    cj_window_shape v = { .n = 1, .channels = 1, .last = !cj__contiguous(x), .scale = a->scale };
    for (int d = 0; d < x->ndim - (int)a->nd; d++) v.channels *= x->shape[d];
    if (v.last) v.n = x->shape[0], v.channels = x->shape[1];
    memcpy(v.in, a->in, sizeof v.in);
    memcpy(v.out, a->out, sizeof v.out);
    memcpy(v.kernel, a->kernel, sizeof v.kernel);
    memcpy(v.stride, a->stride, sizeof v.stride);
    memcpy(v.pad, a->low, sizeof v.pad);
    memcpy(v.dilation, a->dilation, sizeof v.dilation);
    return v;
}

/* Row-major, or in f32 channels-last. */
static bool fits(const cj_tensor *x, const window_attrs *a)
{
    return cj__contiguous(x) || (x->dtype == CJ_F32 && x->ndim == a->nd + 2 && cj__is_image(x));
}

/* Result j: x's leading axes, then these sizes. */
static bool sized(cj_call *call, int j, cj_dtype t, const int64_t *size)
{
    const window_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS];
    if (!fits(x, a)) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    memcpy(shape, x->shape, sizeof shape);
    for (int d = 0; d < a->nd; d++) shape[x->ndim - a->nd + d] = size[3 - a->nd + d];
    if (!cj__out(call, j, t, x->ndim, shape)) return false;
    if (!cj__contiguous(x)) cj__to_channels_last(call->out[j]);
    return true;
}

static void *scratch_for(cj_ctx *c, const cj_window_shape *v, cj_dtype t)
{
    const size_t bytes = c->k->window_workspace(v, t, c->threads);
    return cj__scratch(c, bytes ? bytes : 1);
}

static bool infer_max(cj_call *call)
{
    const window_attrs *a = call->attrs;
    return sized(call, 0, (cj_dtype)call->in[0]->dtype, a->out) && sized(call, 1, CJ_I64, a->out);
}
static bool infer_values(cj_call *call)
{
    const window_attrs *a = call->attrs;
    return sized(call, 0, (cj_dtype)call->in[0]->dtype, a->out) && sized(call, 1, CJ_U8, a->out);
}
/* Places as the kernels take them: positions, or taps. */
static int64_t *positions(const cj_tensor *place) { return place->dtype == CJ_I64 ? (int64_t *)(void *)place->data : NULL; }
static uint8_t *taps(const cj_tensor *place) { return place->dtype == CJ_U8 ? (uint8_t *)(void *)place->data : NULL; }
static bool run_max(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    cj_tensor *y = call->out[0];
    cj_window_shape v = describe(call->attrs, x);
    void *scratch = scratch_for(call->ctx, &v, (cj_dtype)x->dtype);
    if (!scratch) return false;
    if (y->numel)
        call->ctx->k->window_max(call->ctx->pool, &v, (cj_dtype)x->dtype, x->data, y->data, positions(call->out[1]), taps(call->out[1]),
                                 scratch);
    return true;
}
enum { MAX, PUT, VALUES, PUT_TAPS, SUM, SPREAD };
extern const cj_op cj__ops_pool[];
static bool infer_put(cj_call *call)
{
    const cj_tensor *g = call->in[0], *index = call->in[1];
    const window_attrs *a = call->attrs;
    const cj_dtype places = call->op == &cj__ops_pool[PUT] ? CJ_I64 : CJ_U8;
    if (index->dtype != places || index->ndim != g->ndim || memcmp(index->shape, g->shape, g->ndim * sizeof g->shape[0]) != 0)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: values %s and places %s differ", call->op->name, cj__tensor_text(g),
                         cj__tensor_text(index));
    if (cj__contiguous(g) != cj__contiguous(index) || (!cj__contiguous(index) && !cj__channels_last(index)))
        return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    return sized(call, 0, (cj_dtype)g->dtype, a->in);
}
static bool run_put(cj_call *call)
{
    const cj_tensor *g = call->in[0];
    cj_tensor *x = call->out[0];
    cj_window_shape v = describe(call->attrs, g);
    void *scratch = scratch_for(call->ctx, &v, (cj_dtype)g->dtype);
    if (!scratch) return false;
    if (x->numel)
        call->ctx->k->window_put(call->ctx->pool, &v, (cj_dtype)g->dtype, g->data, positions(call->in[1]), taps(call->in[1]), x->data,
                                 scratch);
    return true;
}
static bool infer_sum(cj_call *call) { return sized(call, 0, (cj_dtype)call->in[0]->dtype, ((const window_attrs *)call->attrs)->out); }
static bool run_sum(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    cj_window_shape v = describe(call->attrs, x);
    void *scratch = scratch_for(call->ctx, &v, (cj_dtype)x->dtype);
    if (!scratch) return false;
    if (call->out[0]->numel) call->ctx->k->window_sum(call->ctx->pool, &v, (cj_dtype)x->dtype, x->data, call->out[0]->data, scratch);
    return true;
}
static bool infer_spread(cj_call *call) { return sized(call, 0, (cj_dtype)call->in[0]->dtype, ((const window_attrs *)call->attrs)->in); }
static bool run_spread(cj_call *call)
{
    const cj_tensor *g = call->in[0];
    cj_window_shape v = describe(call->attrs, g);
    void *scratch = scratch_for(call->ctx, &v, (cj_dtype)g->dtype);
    if (!scratch) return false;
    if (call->out[0]->numel) call->ctx->k->window_spread(call->ctx->pool, &v, (cj_dtype)g->dtype, g->data, call->out[0]->data, scratch);
    return true;
}

static cj_tensor *apply(int row, cj_tensor *x, const void *attrs);
static cj_tensor *put(cj_tensor *g, cj_tensor *place, const window_attrs *a);

/* [planes, positions] of a tensor whose last nd axes are spatial. */
static cj_tensor *planes_of(cj_tensor *t, int64_t nd)
{
    int64_t planes = 1, positions = 1;
    for (int d = 0; d < t->ndim; d++) *(d < t->ndim - (int)nd ? &planes : &positions) *= t->shape[d];
    return cj_reshape(t, CJ_SHAPE(planes, positions));
}

/* Values g put at these places of planes of the given sizes, zero elsewhere. */
static cj_tensor *put_at(cj_tensor *g, cj_tensor *index, int64_t nd, const int64_t *size)
{
    cj_shape full = cj__shape(g);
    for (int d = 0; d < nd; d++) full.dim[g->ndim - nd + d] = size[3 - nd + d];
    cj_tensor *flat = planes_of(g, nd);
    cj_tensor *zeros = cj_expand(cj_cast(cj__const(g, 0), (cj_dtype)g->dtype), CJ_SHAPE(cj_size(flat, 0), size[0] * size[1] * size[2]));
    return cj_reshape(cj_scatter_add(zeros, 1, planes_of(index, nd), flat), full);
}

static void d_max(cj_vjp_args *v)
{
    const window_attrs *a = v->attrs;
    if (v->g[0]) v->gin[0] = put(v->g[0], v->out[1], a);
}
/* The positions of taps: sum over axes of (window·stride - pad + tap·dilation)·(elements behind the axis); of windows without any element 0. */
static cj_tensor *positions_of_taps(cj_tensor *tap, const window_attrs *a)
{
    cj_ctx *c = tap->ctx;
    cj_tensor *k = cj_cast(tap, CJ_I64), *place = NULL;
    for (int d = 2, behind = 1; d >= 3 - a->nd; behind *= (int)a->in[d--]) {
        cj_shape axis = { .ndim = tap->ndim };
        for (int i = 0; i < tap->ndim; i++) axis.dim[i] = i == tap->ndim - 3 + d ? a->out[d] : 1;
        cj_tensor *size = cj_full(c, (double)a->kernel[d], CJ_SHAPE(1), CJ_I64);
        cj_tensor *window = cj_reshape(cj_arange(c, 0, (double)a->out[d], 1, CJ_I64), axis);
        cj_tensor *first = cj_add_scalar(cj_mul_scalar(window, (double)a->stride[d]), -(double)a->low[d]);
        cj_tensor *at = cj_mul_scalar(cj_add(first, cj_mul_scalar(cj_remainder(k, size), (double)a->dilation[d])), behind);
        place = place ? cj_add(place, at) : at;
        k = cj_floor_divide(k, size);
    }
    return cj_where(cj_eq_scalar(tap, CJ_WINDOW_TAPS), cj_zeros(c, CJ_SHAPE(1), CJ_I64), place);
}
/* The elements of planes at these places. */
static cj_tensor *take(cj_tensor *x, cj_tensor *place, const window_attrs *a)
{
    const bool by_tap = place->dtype == CJ_U8;
    cj_tensor *index = by_tap ? positions_of_taps(place, a) : place;
    cj_tensor *y = cj_reshape(cj_gather(planes_of(x, a->nd), 1, planes_of(index, a->nd)), cj__shape(place));
    return by_tap ? cj_masked_fill(y, cj_eq_scalar(place, CJ_WINDOW_TAPS), 0) : y;
}
static void d_put(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = take(v->g[0], v->in[1], v->attrs);
}
static void j_put(cj_jvp_args *j)
{
    if (j->tan[0]) j->tout[0] = put(j->tan[0], j->in[1], j->attrs);
}
static void j_max(cj_jvp_args *j)
{
    j->tout[0] = take(j->tan[0], j->out[1], j->attrs);
    j->tout[1] = NULL;
}
static void d_sum(cj_vjp_args *v) { v->gin[0] = apply(SPREAD, v->g[0], v->attrs); }
static void d_spread(cj_vjp_args *v) { v->gin[0] = apply(SUM, v->g[0], v->attrs); }

#define LINEAR(op_name, part)                                                                                                              \
    {                                                                                                                                      \
        .name = op_name, .family = "pooling", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 1, .attr_size = sizeof(window_attrs),                \
        .infer = infer_##part, .run = run_##part, .vjp = d_##part, .jvp_rule = CJ_JVP_LINEAR                                               \
    }
#define MAXIMA(op_name, part)                                                                                                              \
    {                                                                                                                                      \
        .name = op_name, .family = "pooling", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 2, .attr_size = sizeof(window_attrs), .save_out = 2, \
        .infer = infer_##part, .run = run_max, .vjp = d_max, .jvp_rule = CJ_JVP_OWN, .jvp = j_max                                          \
    }
#define PUTTING(op_name)                                                                                                                   \
    {                                                                                                                                      \
        .name = op_name, .family = "pooling", .kind = CJ_PRIMITIVE, .nin = 2, .nout = 1, .attr_size = sizeof(window_attrs), .save_in = 2,  \
        .infer = infer_put, .run = run_put, .vjp = d_put, .jvp_rule = CJ_JVP_OWN, .jvp = j_put                                             \
    }
const cj_op cj__ops_pool[] = {
    [MAX] = MAXIMA("max_pool", max),         [PUT] = PUTTING("window_put"),     [VALUES] = MAXIMA("max_pool_values", values),
    [PUT_TAPS] = PUTTING("window_put_taps"), [SUM] = LINEAR("window_sum", sum), [SPREAD] = LINEAR("window_spread", spread),
};
CJ_OP_TABLE(pool);

static cj_tensor *laid_out(cj_tensor *x, const window_attrs *a)
{
    return x && !x->ctx->error && cj__usable(x->ctx, "contiguous", 0, x) && fits(x, a) ? x : cj_contiguous(x);
}

static cj_tensor *apply(int row, cj_tensor *x, const void *attrs)
{
    cj_tensor *dense = laid_out(x, attrs);
    return cj__apply(&cj__ops_pool[row], attrs, &dense, 1);
}

/* Values g at the places that max_pool or max_pool_values found. */
static cj_tensor *put(cj_tensor *g, cj_tensor *place, const window_attrs *a)
{
    if (g->ctx->error) return g->ctx->poison;
    g = laid_out(g, a);
    if (cj__contiguous(g) != cj__contiguous(place)) g = cj_contiguous(g), place = cj_contiguous(place);
    return cj__apply(&cj__ops_pool[place->dtype == CJ_U8 ? PUT_TAPS : PUT], a, (cj_tensor *[]){ g, place }, 2);
}

/* ---- options ------------------------------------------------------------------------------------------------------------------------------------- */

static bool attrs_of(cj_ctx *c, const char *op, const cj_tensor *x, const cj_pool_opts *o, window_attrs *a)
{
    *a = (window_attrs){ .nd = o->kernels.ndim ? o->kernels.ndim : x->ndim - 2, .scale = 1 };
    if (a->nd < 1 || a->nd > 3 || x->ndim < a->nd)
        return cj__error(c, CJ_ESHAPE, "%s: the input %s; leading axes and 1 to 3 spatial ones expected", op, cj__tensor_text(x));
    if (!cj_dtype_is_float((cj_dtype)x->dtype))
        return cj__error(c, CJ_EDTYPE, "%s: the input is %s; a float type expected", op, cj_dtype_name((cj_dtype)x->dtype));
    for (int d = 0; d < 3; d++) a->in[d] = a->out[d] = a->kernel[d] = a->stride[d] = a->dilation[d] = 1;
    if (!cj__per_axis(c, op, "kernel", a->nd, o->kernel, o->kernels, 1, a->kernel) ||
        !cj__per_axis(c, op, "padding", a->nd, o->padding, o->paddings, 0, a->low) ||
        !cj__per_axis(c, op, "dilation", a->nd, o->dilation ? o->dilation : 1, o->dilations, 1, a->dilation))
        return false;
    memcpy(a->stride, a->kernel, sizeof a->stride); /* windows side by side */
    if ((o->stride || o->strides.ndim) && !cj__per_axis(c, op, "stride", a->nd, o->stride, o->strides, 1, a->stride)) return false;
    for (int d = 3 - (int)a->nd; d < 3; d++) {
        a->in[d] = x->shape[x->ndim - 3 + d];
        if (2 * a->low[d] > a->kernel[d])
            return cj__error(c, CJ_EVALUE, "%s: padding %lld is more than half of the window %lld", op, (long long)a->low[d],
                             (long long)a->kernel[d]);
        int64_t room = a->in[d] + 2 * a->low[d] - a->dilation[d] * (a->kernel[d] - 1) - 1;
        if (room < 0)
            return cj__error(c, CJ_ESHAPE, "%s: a window of %lld is larger than the padded axis of %lld", op,
                             (long long)(a->dilation[d] * (a->kernel[d] - 1) + 1), (long long)(a->in[d] + 2 * a->low[d]));
        a->out[d] = (room + (o->ceil_mode ? a->stride[d] - 1 : 0)) / a->stride[d] + 1;
        if (o->ceil_mode && (a->out[d] - 1) * a->stride[d] >= a->in[d] + a->low[d]) a->out[d]--; /* the last window begins inside */
        if (a->out[d] == 1) a->stride[d] = 1;                                                    /* there is no next one */
    }
    return true;
}

static bool ready(const char *op, cj_tensor *x, const cj_pool_opts *opts, window_attrs *a)
{
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, 0, x)) return false;
    return attrs_of(c, op, x, opts ? opts : &(cj_pool_opts){ 0 }, a);
}

cj_tensor *cj__window_put(cj_tensor *g, cj_tensor *index, cj_shape size, const cj_pool_opts *opts)
{
    cj_tensor like = *g; /* a tensor of the result's size, for its shape */
    memcpy(like.shape + g->ndim - size.ndim, size.dim, (size_t)size.ndim * sizeof(int64_t));
    window_attrs a;
    return attrs_of(g->ctx, "window_put", &like, opts, &a) ? put(g, index, &a) : g->ctx->poison;
}

/* Values, and their places: positions, or taps where these will do. */
static cj_pooled max_and_places(cj_tensor *x, const cj_pool_opts *opts, bool positions_wanted)
{
    window_attrs a;
    cj_tensor *out[2] = { x->ctx->poison, x->ctx->poison };
    if (ready("max_pool", x, opts, &a)) {
        cj_tensor *dense = laid_out(x, &a);
        const cj_window_shape v = describe(&a, dense);
        cj__apply_n(x->ctx, &cj__ops_pool[!positions_wanted && cj__window_small(&v) ? VALUES : MAX], &a, &dense, 1, out);
    }
    return (cj_pooled){ out[0], out[1] };
}

cj_tensor *cj__window_put_taps(cj_tensor *g, cj_tensor *x, const cj_pool_opts *opts)
{
    window_attrs a;
    cj_tensor *tap = max_and_places(x, opts, false).index;
    return attrs_of(g->ctx, "window_put_taps", x, opts, &a) ? put(g, tap, &a) : g->ctx->poison;
}

cj_tensor *cj__window_spread(cj_tensor *g, cj_shape size, const cj_pool_opts *opts)
{
    cj_tensor like = *g; /* a tensor of the result's size, for its shape */
    memcpy(like.shape + g->ndim - size.ndim, size.dim, (size_t)size.ndim * sizeof(int64_t));
    window_attrs a;
    return attrs_of(g->ctx, "window_spread", &like, opts, &a) ? apply(SPREAD, g, &a) : g->ctx->poison;
}

/* ---- what users call --------------------------------------------------------------------------------------------------------------------------------- */

cj_pooled cj_max_pool(cj_tensor *x, const cj_pool_opts *opts)
{
    if (!x) return (cj_pooled){ 0 };
    const bool values_only = opts && opts->values_only;
    cj_pooled p = max_and_places(x, opts, !values_only);
    if (values_only) p.index = NULL;
    return p;
}

cj_pooled cj_min_pool(cj_tensor *x, const cj_pool_opts *opts)
{
    if (!x) return (cj_pooled){ 0 };
    const cj_called was = cj__called(x->ctx, "min_pool", NULL);
    cj_pooled p = cj_max_pool(cj_neg(x), opts);
    p.value = cj_neg(p.value);
    x->ctx->called = was;
    return p;
}

cj_tensor *cj_max_unpool(cj_tensor *x, cj_tensor *index, cj_shape size)
{
    static const char op[] = "max_unpool";
    if (!x) return CJ_MISSING(op, x, index);
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, 0, x) || !cj__usable(c, op, 1, index)) return c->poison;
    if (size.ndim < 1 || size.ndim > 3 || x->ndim < size.ndim)
        return cj_fail(c, CJ_ESHAPE, "%s: %d spatial sizes for %s", op, size.ndim, cj__tensor_text(x));
    if (index->ndim != x->ndim || memcmp(index->shape, x->shape, x->ndim * sizeof x->shape[0]) != 0)
        return cj_fail(c, CJ_ESHAPE, "%s: values %s and positions %s differ", op, cj__tensor_text(x), cj__tensor_text(index));
    int64_t full[3] = { 1, 1, 1 };
    for (int d = 0; d < size.ndim; d++) full[3 - size.ndim + d] = size.dim[d];
    const cj_called was = cj__called(c, op, NULL);
    return cj__called_done(c, was, put_at(x, index, size.ndim, full));
}

cj_tensor *cj_avg_pool(cj_tensor *x, const cj_pool_opts *opts)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    window_attrs a;
    if (!ready("avg_pool", x, opts, &a)) return c->poison;
    bool padded = false;
    double window = 1;
    for (int d = 0; d < 3; d++) {
        padded |= a.low[d] > 0 || (a.out[d] - 1) * a.stride[d] + a.dilation[d] * (a.kernel[d] - 1) + 1 > a.in[d] + 2 * a.low[d];
        window *= (double)a.kernel[d];
    }
    if (!padded || !(opts && opts->exclude_padding)) {
        a.scale = 1 / window;
        return apply(SUM, x, &a);
    }
    cj_shape plane = { .ndim = (int)a.nd };
    for (int d = 0; d < a.nd; d++) plane.dim[d] = a.in[3 - a.nd + d];
    cj_tensor *ones = cj_expand(cj_cast(cj__const(x, 1), (cj_dtype)x->dtype), plane);
    return cj_div(apply(SUM, x, &a), apply(SUM, ones, &a));
}

/* The windows of x as its last axis: [.., out .., window].  What lies outside is `outside`. */
static cj_tensor *windows(cj_tensor *x, const window_attrs *a, double outside)
{
    const int nd = (int)a->nd, first = x->ndim - nd;
    int64_t span[3];
    cj_shape before = { .ndim = nd }, after = { .ndim = nd };
    for (int d = 0; d < nd; d++) {
        const int k = 3 - nd + d;
        span[d] = a->dilation[k] * (a->kernel[k] - 1) + 1;
        const int64_t end = (a->out[k] - 1) * a->stride[k] + span[d] - a->low[k]; /* of the last window */
        before.dim[d] = a->low[k];
        if (end > a->in[k]) after.dim[d] = end - a->in[k];
        else x = cj_slice(x, first + d, 0, end, 1);
    }
    x = cj_pad(x, before, after, &(cj_pad_opts){ .value = outside });
    for (int d = 0; d < nd; d++) {
        x = cj_unfold(x, first + d, span[d], a->stride[3 - nd + d]);
        x = cj_slice(x, -1, 0, CJ_END, a->dilation[3 - nd + d]);
    }
    return cj_flatten(x, first + nd);
}

cj_tensor *cj__softmax_pool(cj_tensor *x, cj_tensor *score, const cj_pool_opts *opts)
{
    cj_ctx *c = x->ctx;
    window_attrs a;
    if (!ready("softmax_pool", x, opts, &a)) return c->poison;
    cj_tensor *weight = cj_softmax(windows(score, &a, -INFINITY), -1);
    return cj_sum(cj_mul(windows(x, &a, 0), weight), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
}

cj_tensor *cj_softmax_pool(cj_tensor *x, double temperature, const cj_pool_opts *opts)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (c->error) return c->poison;
    if (!(temperature > 0)) return cj_fail(c, CJ_EVALUE, "softmax_pool: temperature %g", temperature);
    const cj_called was = cj__called(c, "softmax_pool", NULL);
    return cj__called_done(c, was, cj__softmax_pool(x, cj_mul_scalar(x, 1 / temperature), opts));
}

/* Rows of averages: row i holds 1/n at the n positions floor(i·in/out) … ceil((i+1)·in/out). */
static cj_tensor *average_matrix(const cj_tensor *x, int64_t in, int64_t out)
{
    cj_ctx *c = x->ctx;
    double *m = cj__zalloc(c, (size_t)(in * out) * sizeof *m);
    if (!m) return c->poison;
    for (int64_t i = 0; i < out; i++) {
        int64_t from = i * in / out, to = ((i + 1) * in + out - 1) / out;
        for (int64_t k = from; k < to; k++) m[i * in + k] = 1 / (double)(to - from);
    }
    cj_tensor *t = cj_cast(cj_from_f64(c, m, CJ_SHAPE(out, in)), (cj_dtype)x->dtype);
    cj__free(c, m, (size_t)(in * out) * sizeof *m);
    return t;
}

static bool adaptive_ok(const char *op, const cj_tensor *x, cj_shape size)
{
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, 0, x)) return false;
    if (size.ndim < 1 || size.ndim > 3 || x->ndim < size.ndim)
        return cj__error(c, CJ_ESHAPE, "%s: %d sizes for %s", op, size.ndim, cj__tensor_text(x));
    for (int d = 0; d < size.ndim; d++)
        if (size.dim[d] < 1 || size.dim[d] > INT32_MAX || x->shape[x->ndim - size.ndim + d] < 1)
            return cj__error(c, CJ_EVALUE, "%s: size %lld from an axis of %lld", op, (long long)size.dim[d],
                             (long long)x->shape[x->ndim - size.ndim + d]);
    return true;
}

/* Are the windows all of one size and side by side? Then these are their options. */
static bool evenly(const cj_tensor *x, cj_shape size, cj_pool_opts *o)
{
    o->kernels.ndim = o->strides.ndim = size.ndim;
    for (int d = 0; d < size.ndim; d++) {
        int64_t in = x->shape[x->ndim - size.ndim + d];
        if (in % size.dim[d]) return false;
        o->kernels.dim[d] = o->strides.dim[d] = in / size.dim[d];
    }
    return true;
}

cj_tensor *cj_adaptive_avg_pool(cj_tensor *x, cj_shape size)
{
    if (!x) return NULL;
    cj_pool_opts o = { 0 };
    if (!adaptive_ok("adaptive_avg_pool", x, size)) return x->ctx->poison;
    if (evenly(x, size, &o)) return cj_avg_pool(x, &o);
    for (int d = 0; d < size.ndim; d++) { /* one axis after the other, by a matrix of averages */
        int axis = x->ndim - size.ndim + d;
        if (x->shape[axis] == size.dim[d]) continue;
        cj_tensor *m = average_matrix(x, x->shape[axis], size.dim[d]);
        x = cj_transpose(cj_matmul(cj_transpose(x, axis, -1), cj_t(m)), axis, -1);
        if (x->ctx->error) return x->ctx->poison;
    }
    return x;
}

cj_tensor *cj_adaptive_max_pool(cj_tensor *x, cj_shape size)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    cj_pool_opts o = { .values_only = true };
    if (!adaptive_ok("adaptive_max_pool", x, size)) return c->poison;
    if (evenly(x, size, &o)) return cj_max_pool(x, &o).value;
    for (int d = 0; d < size.ndim; d++) {
        int axis = x->ndim - size.ndim + d;
        int64_t in = x->shape[axis], out = size.dim[d];
        if (out > CJ_MAX_INPUTS)
            return cj_fail(c, CJ_EVALUE, "adaptive_max_pool: %lld windows along an axis, at most %d are possible", (long long)out,
                           CJ_MAX_INPUTS);
        cj_tensor **part = cj__alloc(c, (size_t)out * sizeof *part);
        if (!part) return c->poison;
        for (int64_t i = 0; i < out; i++)
            part[i] = cj_max(cj_slice(x, axis, i * in / out, ((i + 1) * in + out - 1) / out, 1),
                             &(cj_reduce_opts){ .axes = CJ_AXIS(axis), .keepdim = true });
        cj_tensor *next = cj_cat(part, (int)out, axis);
        cj__free(c, part, (size_t)out * sizeof *part);
        if (c->error) return c->poison;
        x = next;
    }
    return x;
}
