/* Regions of interest: RoI align and its transpose, linear in the image and closed under differentiation, and RoI pooling, whose derivative
 * scatters to the places of its maxima.  The boxes are data: they get no gradient, as in torchvision. */
#include "kernels/cpu/roi.h"

#include <math.h>

#include "cajal/grad.h"
#include "ops/ops.h"

typedef struct roi_attrs {
    int64_t bins[2], sampling, aligned;
    int64_t x[4]; /* the image's shape */
    double scale;
} roi_attrs;

static cj_roi_shape describe(const roi_attrs *a, const cj_tensor *boxes)
{
    return (cj_roi_shape){ .n = a->x[0],
                           .c = a->x[1],
                           .h = a->x[2],
                           .w = a->x[3],
                           .boxes = boxes->shape[0],
                           .bins = { a->bins[0], a->bins[1] },
                           .scale = a->scale,
                           .sampling = a->sampling,
                           .aligned = a->aligned != 0 };
}

/* Boxes within reason: an image that exists, finite corners, and not so large that the samples of a bin never end. */
static bool check_boxes(cj_call *call)
{
    const roi_attrs *a = call->attrs;
    const double *b = (const double *)(const void *)call->in[1]->data;
    for (int64_t k = 0; k < call->in[1]->shape[0]; k++, b += 5) {
        if (!(b[0] >= 0 && b[0] < (double)a->x[0]) || b[0] != floor(b[0]))
            return cj__error(call->ctx, CJ_EINDEX, "%s: box %lld is of image %g, the input has %lld", call->op->name, (long long)k, b[0],
                             (long long)a->x[0]);
        for (int i = 1; i < 5; i++)
            if (!(fabs(b[i] * a->scale) < 1e6))
                return cj__error(call->ctx, CJ_EVALUE, "%s: box %lld has a corner at %g; less than 1e6 pixels from 0 expected",
                                 call->op->name, (long long)k, b[i] * a->scale);
    }
    return true;
}

static bool operands(cj_call *call)
{
    if (!cj__contiguous(call->in[0]) || !cj__contiguous(call->in[1]) || call->in[1]->dtype != CJ_F64)
        return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    return true;
}
static bool infer_results(cj_call *call)
{
    const roi_attrs *a = call->attrs;
    const int64_t shape[4] = { call->in[1]->shape[0], a->x[1], a->bins[0], a->bins[1] };
    if (!operands(call) || !cj__out(call, 0, (cj_dtype)call->in[0]->dtype, 4, shape)) return false;
    return call->op->nout == 1 || cj__out(call, 1, CJ_I64, 4, shape);
}
static bool infer_spread(cj_call *call)
{
    return operands(call) && cj__out(call, 0, (cj_dtype)call->in[0]->dtype, 4, ((const roi_attrs *)call->attrs)->x);
}

static bool run(cj_call *call, cj_roi_code code)
{
    const cj_tensor *in = call->in[0], *boxes = call->in[1];
    const cj_roi_shape v = describe(call->attrs, boxes);
    if (!check_boxes(call)) return false;
    if (call->out[0]->numel)
        call->ctx->k->roi(call->ctx->pool, code, &v, (cj_dtype)in->dtype, in->data, (const double *)(const void *)boxes->data,
                          call->out[0]->data, code == CJ_ROI_POOL ? (int64_t *)(void *)call->out[1]->data : NULL);
    return true;
}
static bool run_align(cj_call *call) { return run(call, CJ_ROI_ALIGN); }
static bool run_spread(cj_call *call) { return run(call, CJ_ROI_SPREAD); }
static bool run_pool(cj_call *call) { return run(call, CJ_ROI_POOL); }

enum { ALIGN, SPREAD, POOL };
static cj_tensor *apply(int row, cj_tensor *x, cj_tensor *boxes, const roi_attrs *a);

static void d_align(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = apply(SPREAD, v->g[0], v->in[1], v->attrs);
}
static void d_spread(cj_vjp_args *v)
{
    if (v->need[0]) v->gin[0] = apply(ALIGN, v->g[0], v->in[1], v->attrs);
}
static void j_align(cj_jvp_args *j)
{
    if (j->tan[0]) j->tout[0] = apply(ALIGN, j->tan[0], j->in[1], j->attrs);
}
static void j_spread(cj_jvp_args *j)
{
    if (j->tan[0]) j->tout[0] = apply(SPREAD, j->tan[0], j->in[1], j->attrs);
}

/* Maxima: the image as a vector with one more place, where the empty bins look. */
static int64_t size_of(const roi_attrs *a) { return a->x[0] * a->x[1] * a->x[2] * a->x[3]; }
static void d_pool(cj_vjp_args *v)
{
    const roi_attrs *a = v->attrs;
    if (!v->g[0] || !v->need[0]) return;
    cj_tensor *zeros = cj_expand(cj_cast(cj__const(v->g[0], 0), (cj_dtype)v->g[0]->dtype), CJ_SHAPE(size_of(a) + 1));
    cj_tensor *flat = cj_index_add(zeros, 0, cj_flatten(v->out[1], 0), cj_flatten(v->g[0], 0));
    v->gin[0] = cj_reshape(cj_slice(flat, 0, 0, size_of(a), 1), CJ_SHAPE(a->x[0], a->x[1], a->x[2], a->x[3]));
}
static void j_pool(cj_jvp_args *j)
{
    if (!j->tan[0]) return;
    cj_tensor *nothing = cj_reshape(cj_cast(cj__const(j->tan[0], 0), (cj_dtype)j->tan[0]->dtype), CJ_SHAPE(1));
    cj_tensor *flat = cj_cat((cj_tensor *[]){ cj_flatten(j->tan[0], 0), nothing }, 2, 0);
    j->tout[0] = cj_reshape(cj_index_select(flat, 0, cj_flatten(j->out[1], 0)), cj__shape(j->out[0]));
}

#define ROW(op_name, part, shape_rule, results, saved)                                                                                     \
    {                                                                                                                                      \
        .name = op_name, .family = "resampling", .kind = CJ_PRIMITIVE, .nin = 2, .nout = results, .attr_size = sizeof(roi_attrs),          \
        .save_in = 2, .save_out = saved, .infer = shape_rule, .run = run_##part, .vjp = d_##part, .jvp_rule = CJ_JVP_OWN, .jvp = j_##part  \
    }
const cj_op cj__ops_roi[] = {
    [ALIGN] = ROW("roi_align", align, infer_results, 1, 0),
    [SPREAD] = ROW("roi_align_transpose", spread, infer_spread, 1, 0),
    [POOL] = ROW("roi_pool", pool, infer_results, 2, 2),
};
CJ_OP_TABLE(roi);

/* 16-bit values are widened here and rounded once. */
static cj_tensor *apply(int row, cj_tensor *x, cj_tensor *boxes, const roi_attrs *a)
{
    const cj_dtype t = (cj_dtype)x->dtype;
    const bool half = t == CJ_BF16 || t == CJ_F16;
    cj_tensor *in[2] = { cj_contiguous(half ? cj_cast(x, CJ_F32) : x), cj_contiguous(boxes) }, *out[2];
    cj__apply_n(x->ctx, &cj__ops_roi[row], a, in, 2, out);
    return half ? cj_cast(out[0], t) : out[0];
}

static cj_tensor *region(int row, cj_tensor *x, cj_tensor *boxes, const cj_roi_opts *opts)
{
    if (!x) return CJ_MISSING(cj__ops_roi[row].name, x, boxes);
    cj_ctx *c = x->ctx;
    const char *op = cj__ops_roi[row].name;
    cj_roi_opts o = opts ? *opts : (cj_roi_opts){ 0 };
    if (c->error || !cj__usable(c, op, 0, x) || !cj__usable(c, op, 1, boxes)) return c->poison;
    if (!cj_dtype_is_float((cj_dtype)x->dtype) || !cj_dtype_is_float((cj_dtype)boxes->dtype))
        return cj_fail(c, CJ_EDTYPE, "%s: input %s and boxes %s; float types expected", op, cj_dtype_name((cj_dtype)x->dtype),
                       cj_dtype_name((cj_dtype)boxes->dtype));
    if (x->ndim != 4 || boxes->ndim != 2 || boxes->shape[1] != 5)
        return cj_fail(c, CJ_ESHAPE, "%s: input %s and boxes %s; [N, C, H, W] and [K, 5] expected", op, cj__tensor_text(x),
                       cj__tensor_text(boxes));
    if (o.size.ndim != 2 || o.size.dim[0] < 1 || o.size.dim[1] < 1)
        return cj_fail(c, CJ_EVALUE, "%s: size %s; a height and a width expected", op, cj__shape_text(o.size.ndim, o.size.dim));
    if (x->shape[2] < 1 || x->shape[3] < 1) return cj_fail(c, CJ_ESHAPE, "%s: the input %s has no pixels", op, cj__tensor_text(x));
    if (o.sampling_ratio < 0 || o.sampling_ratio > 4096)
        return cj_fail(c, CJ_EVALUE, "%s: sampling_ratio %lld; 0 … 4096 expected", op, (long long)o.sampling_ratio);
    roi_attrs a = { .bins = { o.size.dim[0], o.size.dim[1] },
                    .sampling = o.sampling_ratio,
                    .aligned = o.aligned,
                    .x = { x->shape[0], x->shape[1], x->shape[2], x->shape[3] },
                    .scale = o.spatial_scale != 0 ? o.spatial_scale : 1 };
    if (!(a.scale > 0 && a.scale < 1e6)) return cj_fail(c, CJ_EVALUE, "%s: spatial_scale %g", op, a.scale);
    return apply(row, x, cj_cast(cj_detach(boxes), CJ_F64), &a);
}
cj_tensor *cj_roi_align(cj_tensor *x, cj_tensor *boxes, const cj_roi_opts *opts) { return region(ALIGN, x, boxes, opts); }
cj_tensor *cj_roi_pool(cj_tensor *x, cj_tensor *boxes, const cj_roi_opts *opts) { return region(POOL, x, boxes, opts); }

cj_tensor *cj__roi_align_transpose(cj_tensor *g, cj_tensor *boxes, cj_shape x, const cj_roi_opts *o)
{
    roi_attrs a = { .bins = { o->size.dim[0], o->size.dim[1] },
                    .sampling = o->sampling_ratio,
                    .aligned = o->aligned,
                    .x = { x.dim[0], x.dim[1], x.dim[2], x.dim[3] },
                    .scale = o->spatial_scale };
    return apply(SPREAD, g, cj_cast(boxes, CJ_F64), &a);
}
