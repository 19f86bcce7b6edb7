/* Interpolation to another size over 1, 2 or 3 axes, and the rearrangement of channels into pixels.
 *
 * Interpolation is a linear map, separable by axis: interpolate and interpolate_transpose carry each other's derivatives and are closed under
 * differentiation.  Result i of an axis looks at the source position
 *   i·(in - 1)/(out - 1)        corners aligned: the first and last pixels' centres stay
 *   (i + 1/2)·in/out - 1/2      else: the outer edges stay
 *   i·in/out, rounded down      nearest (PyTorch's; nearest_exact takes (i + 1/2)·in/out)
 * linear weighs its two neighbours by their distance, cubic its four by Keys' kernel (1981) with a = -3/4.
 */
#include <math.h>

#include "kernels/cpu/resample.h"
#include "ops/ops.h"

typedef cj_resample_attrs resample_attrs;

/* ---- the map along an axis ------------------------------------------------------------------------------------------------------------------------ */

enum { MOST_TAPS = 4 };
typedef struct taps {
    int n;
    int32_t from[MOST_TAPS];
    double weight[MOST_TAPS];
} taps;

static int32_t inside(int64_t at, int64_t n) { return (int32_t)(at < 0 ? 0 : at >= n ? n - 1 : at); }

/* Keys' kernel at distance t. */
static double cubic(double t)
{
    const double a = -0.75;
    t = fabs(t);
    return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? ((t - 5) * t + 8) * t * a - 4 * a : 0;
}

/* What result i of axis d sees. */
static taps taps_of(const resample_attrs *a, int d, int64_t i)
{
    const int64_t n = a->in[d];
    if (a->mode == CJ_INTERP_NEAREST || a->mode == CJ_INTERP_NEAREST_EXACT) {
        const double at = ((double)i + (a->mode == CJ_INTERP_NEAREST_EXACT ? 0.5 : 0)) * a->advance[d] / a->by[d];
        return (taps){ 1, { inside((int64_t)floor(at), n) }, { 1 } };
    }
    double at = a->align ? (double)i * a->advance[d] / a->by[d] : ((double)i + 0.5) * a->advance[d] / a->by[d] - 0.5;
    if (a->mode == CJ_INTERP_LINEAR && at < 0) at = 0;
    const int64_t low = (int64_t)floor(at);
    const double part = at - (double)low;
    if (a->mode == CJ_INTERP_LINEAR) {
        if (part == 0 || low >= n - 1) return (taps){ 1, { inside(low, n) }, { 1 } };
        return (taps){ 2, { (int32_t)low, (int32_t)low + 1 }, { 1 - part, part } };
    }
    taps t = { .n = 0 };
    for (int k = -1; k <= 2; k++) {
        const double w = cubic(part - k);
        if (w == 0) continue;
        t.from[t.n] = inside(low + k, n);
        t.weight[t.n++] = w;
    }
    return t;
}

/* How many taps the results of axis d have at most; count: room for a number per element of the axis. */
static int64_t most_taps(const resample_attrs *a, int d, bool transposed, int32_t *count)
{
    int64_t most = 1;
    memset(count, 0, (size_t)(transposed ? a->in[d] : a->out[d]) * sizeof *count);
    for (int64_t i = 0; i < a->out[d]; i++) {
        const taps t = taps_of(a, d, i);
        for (int k = 0; k < t.n; k++) {
            const int64_t n = ++count[transposed ? t.from[k] : i];
            most = n > most ? n : most;
        }
    }
    return most;
}

/* The map of axis d in memory at `at`, of map_bytes. */
static size_t map_bytes(int64_t out, int64_t most) { return (size_t)(most * out * 12 + out * 4 + 63) / 64 * 64; }
static cj_axis_map build_map(const resample_attrs *a, int d, bool transposed, int64_t most, char *at)
{
    const int64_t in = transposed ? a->out[d] : a->in[d], out = transposed ? a->in[d] : a->out[d];
    double *weight = (double *)(void *)at;
    int32_t *from = (int32_t *)(void *)(weight + most * out), *count = from + most * out;
    memset(count, 0, (size_t)out * sizeof *count);
    for (int64_t i = 0; i < a->out[d]; i++) {
        const taps t = taps_of(a, d, i);
        for (int k = 0; k < t.n; k++) {
            const int64_t to = transposed ? t.from[k] : i, place = count[to]++ * out + to;
            from[place] = transposed ? (int32_t)i : t.from[k];
            weight[place] = t.weight[k];
        }
    }
    for (int64_t i = 0; i < out; i++) /* no weight, on a place nearby */
        for (int64_t k = count[i]; k < most; k++) {
            from[k * out + i] = k ? from[i] : inside(i * in / out, in);
            weight[k * out + i] = 0;
        }
    return (cj_axis_map){ .in = in, .out = out, .taps = most, .from = from, .count = count, .weight = weight };
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------------------ */

static bool infer(cj_call *call, const int64_t *size)
{
    const resample_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS];
    if (!cj__contiguous(x)) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    memcpy(shape, x->shape, sizeof shape);
    for (int d = 0; d < a->nd; d++) shape[x->ndim - a->nd + d] = size[3 - a->nd + d];
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, shape);
}
static bool infer_forward(cj_call *call) { return infer(call, ((const resample_attrs *)call->attrs)->out); }
static bool infer_transpose(cj_call *call) { return infer(call, ((const resample_attrs *)call->attrs)->in); }

static void build_maps(const resample_attrs *a, bool transposed, const int64_t most[3], char *at, cj_resample_shape *v)
{
    for (int d = 0; d < 3; d++) {
        v->axis[d] = build_map(a, d, transposed, most[d], at);
        at += map_bytes(v->axis[d].out, most[d]);
    }
}

static bool run(cj_call *call, bool transposed)
{
    cj_ctx *c = call->ctx;
    const resample_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *y = call->out[0];
    if (!y->numel) return true;
    cj_resample_shape v = { .planes = y->numel };
    int64_t most[3], longest = 0;
    size_t bytes = 0;
    for (int d = 0; d < 3; d++) longest = a->in[d] + a->out[d] > longest ? a->in[d] + a->out[d] : longest;
    int32_t *count = cj__scratch(c, (size_t)longest * sizeof *count);
    if (!count) return false;
    for (int d = 0; d < 3; d++) {
        most[d] = most_taps(a, d, transposed, count);
        v.axis[d] = (cj_axis_map){ .in = transposed ? a->out[d] : a->in[d], .out = transposed ? a->in[d] : a->out[d], .taps = most[d] };
        v.planes /= v.axis[d].out;
        bytes += map_bytes(v.axis[d].out, most[d]);
    }
    char *scratch = cj__scratch(c, bytes);
    if (!scratch) return false;
    build_maps(a, transposed, most, scratch, &v);
    size_t all = bytes + c->k->resample_workspace(&v, (cj_dtype)y->dtype, c->threads); /* depends on the maps */
    if (all > c->scratch_bytes) {
        if (!(scratch = cj__scratch(c, all))) return false;
        build_maps(a, transposed, most, scratch, &v);
    }
    c->k->resample(c->pool, &v, (cj_dtype)y->dtype, x->data, y->data, scratch + bytes);
    return true;
}
static bool run_forward(cj_call *call) { return run(call, false); }
static bool run_transpose(cj_call *call) { return run(call, true); }

enum { FORWARD, TRANSPOSE, SHUFFLE, UNSHUFFLE };
static cj_tensor *apply(int row, cj_tensor *x, const resample_attrs *a);
static void d_forward(cj_vjp_args *v) { v->gin[0] = apply(TRANSPOSE, v->g[0], v->attrs); }
static void d_transpose(cj_vjp_args *v) { v->gin[0] = apply(FORWARD, v->g[0], v->attrs); }

/* [.., C·r², H, W] -> [.., C, r, r, H, W] -> [.., C, H, r, W, r] -> [.., C, H·r, W·r], and back. */
static bool define_shuffle(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)nin;
    const int64_t r = *(const int64_t *)attrs, *n = in[0]->shape + in[0]->ndim - 3;
    const int64_t outer = n[0] && n[1] && n[2] ? in[0]->numel / (n[0] * n[1] * n[2]) : 0;
    cj_shape full = cj__shape(in[0]);
    full.dim[full.ndim - 3] = n[0] / (r * r), full.dim[full.ndim - 2] = n[1] * r, full.dim[full.ndim - 1] = n[2] * r;
    cj_tensor *parts = cj_reshape(in[0], CJ_SHAPE(outer, n[0] / (r * r), r, r, n[1], n[2]));
    out[0] = cj_reshape(cj_permute(parts, CJ_AXES(0, 1, 4, 2, 5, 3)), full);
    return true;
}
static bool define_unshuffle(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)nin;
    const int64_t r = *(const int64_t *)attrs, *n = in[0]->shape + in[0]->ndim - 3;
    const int64_t outer = n[0] && n[1] && n[2] ? in[0]->numel / (n[0] * n[1] * n[2]) : 0;
    cj_shape full = cj__shape(in[0]);
    full.dim[full.ndim - 3] = n[0] * r * r, full.dim[full.ndim - 2] = n[1] / r, full.dim[full.ndim - 1] = n[2] / r;
    cj_tensor *parts = cj_reshape(in[0], CJ_SHAPE(outer, n[0], n[1] / r, r, n[2] / r, r));
    out[0] = cj_reshape(cj_permute(parts, CJ_AXES(0, 1, 3, 5, 2, 4)), full);
    return true;
}

#define LINEAR(op_name, part)                                                                                                              \
    {                                                                                                                                      \
        .name = op_name, .family = "resampling", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 1, .attr_size = sizeof(resample_attrs),           \
        .infer = infer_##part, .run = run_##part, .vjp = d_##part, .jvp_rule = CJ_JVP_LINEAR                                               \
    }
#define VIEWS(op_name, part)                                                                                                               \
    {                                                                                                                                      \
        .name = op_name, .family = "resampling", .kind = CJ_COMPOSITE, .nin = 1, .nout = 1, .attr_size = sizeof(int64_t),                  \
        .define = define_##part                                                                                                            \
    }
const cj_op cj__ops_resample[] = {
    [FORWARD] = LINEAR("interpolate", forward),
    [TRANSPOSE] = LINEAR("interpolate_transpose", transpose),
    [SHUFFLE] = VIEWS("pixel_shuffle", shuffle),
    [UNSHUFFLE] = VIEWS("pixel_unshuffle", unshuffle),
};
CJ_OP_TABLE(resample);

static cj_tensor *apply(int row, cj_tensor *x, const resample_attrs *a)
{
    cj_tensor *dense = cj_contiguous(x);
    return cj__apply(&cj__ops_resample[row], a, &dense, 1);
}

/* ---- what users call ---------------------------------------------------------------------------------------------------------------------------------- */

static bool attrs_of(cj_ctx *c, const cj_tensor *x, const cj_interpolate_opts *o, resample_attrs *a)
{
    static const char op[] = "interpolate";
    *a = (resample_attrs){ .nd = x->ndim - 2, .mode = o->mode ? o->mode : CJ_INTERP_NEAREST, .align = o->align_corners };
    if (a->nd < 1 || a->nd > 3)
        return cj__error(c, CJ_ESHAPE, "%s: the input %s; [N, C, ..] with 1 to 3 spatial axes expected", op, cj__tensor_text(x));
    if (!cj_dtype_is_float((cj_dtype)x->dtype))
        return cj__error(c, CJ_EDTYPE, "%s: the input is %s; a float type expected", op, cj_dtype_name((cj_dtype)x->dtype));
    if (a->mode < CJ_INTERP_NEAREST || a->mode > CJ_INTERP_NEAREST_EXACT)
        return cj__error(c, CJ_EVALUE,
                         "%s: mode %d is none of CJ_INTERP_NEAREST, CJ_INTERP_LINEAR, CJ_INTERP_CUBIC, CJ_INTERP_NEAREST_EXACT", op,
                         (int)o->mode);
    if (a->align && (a->mode == CJ_INTERP_NEAREST || a->mode == CJ_INTERP_NEAREST_EXACT))
        return cj__error(c, CJ_EVALUE, "%s: align_corners has no meaning for nearest neighbours", op);
    const bool scaled = o->scale != 0 || o->scales[0] != 0;
    if (scaled == (o->size.ndim > 0))
        return cj__error(c, CJ_EVALUE, "%s: %s; one of them expected", op,
                         scaled ? "a size and a scale are given" : "neither size nor scale is given");
    if (!scaled && o->size.ndim != a->nd)
        return cj__error(c, CJ_EVALUE, "%s: %d sizes for the %d spatial axes of %s", op, o->size.ndim, (int)a->nd, cj__tensor_text(x));
    for (int d = 0; d < 3; d++) a->in[d] = a->out[d] = 1, a->advance[d] = a->by[d] = 1;
    for (int d = 3 - (int)a->nd; d < 3; d++) {
        const int64_t n = a->in[d] = x->shape[x->ndim - 3 + d];
        const int k = d - 3 + (int)a->nd;
        const double scale = o->scales[0] != 0 ? o->scales[k] : o->scale;
        if (scaled && !(scale > 0 && (double)n * scale < INT32_MAX))
            return cj__error(c, CJ_EVALUE, "%s: scale %g of an axis of %lld", op, scale, (long long)n);
        a->out[d] = scaled ? (int64_t)floor((double)n * scale) : o->size.dim[k];
        if (n < 1 || a->out[d] < 1 || n > INT32_MAX || a->out[d] > INT32_MAX)
            return cj__error(c, CJ_EVALUE, "%s: size %lld from an axis of %lld", op, (long long)a->out[d], (long long)n);
        if (a->align) {
            a->advance[d] = a->out[d] > 1 ? (double)(n - 1) : 0;
            a->by[d] = a->out[d] > 1 ? (double)(a->out[d] - 1) : 1;
        } else {
            a->advance[d] = scaled ? 1 : (double)n;
            a->by[d] = scaled ? scale : (double)a->out[d];
        }
    }
    return true;
}

cj_tensor *cj_interpolate(cj_tensor *x, const cj_interpolate_opts *opts)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    resample_attrs a;
    if (c->error || !cj__usable(c, "interpolate", 0, x)) return c->poison;
    return attrs_of(c, x, opts ? opts : &(cj_interpolate_opts){ 0 }, &a) ? apply(FORWARD, x, &a) : c->poison;
}

cj_tensor *cj__interpolate_transpose(cj_tensor *g, cj_shape size, const cj_interpolate_opts *opts)
{
    cj_tensor like = *g; /* a tensor of the result's size, for its shape */
    memcpy(like.shape + g->ndim - size.ndim, size.dim, (size_t)size.ndim * sizeof(int64_t));
    resample_attrs a;
    return attrs_of(g->ctx, &like, opts, &a) ? apply(TRANSPOSE, g, &a) : g->ctx->poison;
}

static bool shuffle_ok(const char *op, const cj_tensor *x, int64_t r)
{
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, 0, x)) return false;
    if (x->ndim < 3) return cj__error(c, CJ_ESHAPE, "%s: the input %s; [.., C, H, W] expected", op, cj__tensor_text(x));
    if (r < 1 || r > 32768) return cj__error(c, CJ_EVALUE, "%s: factor %lld; 1 … 32768 expected", op, (long long)r);
    return true;
}

cj_tensor *cj_pixel_shuffle(cj_tensor *x, int64_t factor)
{
    if (!x) return NULL;
    if (!shuffle_ok("pixel_shuffle", x, factor)) return x->ctx->poison;
    if (x->shape[x->ndim - 3] % (factor * factor))
        return cj_fail(x->ctx, CJ_ESHAPE, "pixel_shuffle: %lld channels of %s are no multiple of %lld²", (long long)x->shape[x->ndim - 3],
                       cj__tensor_text(x), (long long)factor);
    return cj__apply(&cj__ops_resample[SHUFFLE], &factor, &x, 1);
}

cj_tensor *cj_pixel_unshuffle(cj_tensor *x, int64_t factor)
{
    if (!x) return NULL;
    if (!shuffle_ok("pixel_unshuffle", x, factor)) return x->ctx->poison;
    if (x->shape[x->ndim - 2] % factor || x->shape[x->ndim - 1] % factor)
        return cj_fail(x->ctx, CJ_ESHAPE, "pixel_unshuffle: height and width of %s are no multiples of %lld", cj__tensor_text(x),
                       (long long)factor);
    return cj__apply(&cj__ops_resample[UNSHUFFLE], &factor, &x, 1);
}
