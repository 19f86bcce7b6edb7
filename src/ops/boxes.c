/* Boxes of detectors: conversions, overlap (intersection over union), and non-maximum suppression: sort by score, keep the best, drop what overlaps a kept one. */
#include <math.h>

#include "ops/compose.h"

static cj_tensor *part(cj_tensor *boxes, int64_t from, int64_t to) { return cj_slice(boxes, -1, from, to, 1); }
static cj_tensor *beside(cj_tensor *a, cj_tensor *b) { return cj_cat((cj_tensor *[]){ a, b }, 2, -1); }

/* (c - s/2, c + s/2) and ((a + b)/2, b - a) */
CJ_COMPOSE(box_corners)
{
    cj_tensor *centre = part(in[0], 0, 2), *half = cj_mul_scalar(part(in[0], 2, 4), 0.5);
    return beside(cj_sub(centre, half), cj_add(centre, half));
}
CJ_COMPOSE(box_centres)
{
    cj_tensor *low = part(in[0], 0, 2), *high = part(in[0], 2, 4);
    return beside(cj_mul_scalar(cj_add(low, high), 0.5), cj_sub(high, low));
}
CJ_COMPOSE(box_clip)
{
    const double *size = attrs;
    cj_tensor *parts[4];
    for (int i = 0; i < 4; i++) parts[i] = cj_clamp(part(in[0], i, i + 1), 0, size[i % 2]);
    return cj_cat(parts, 4, -1);
}

static cj_tensor *area(cj_tensor *boxes)
{
    cj_tensor *side = cj_sub(part(boxes, 2, 4), part(boxes, 0, 2));
    return cj_mul(cj_select(side, -1, 0), cj_select(side, -1, 1));
}
CJ_COMPOSE(box_iou)
{
    cj_tensor *a = cj_unsqueeze(in[0], 1), *b = cj_unsqueeze(in[1], 0); /* [n, 1, 4], [1, m, 4] */
    cj_tensor *side = cj_relu(cj_sub(cj_minimum(part(a, 2, 4), part(b, 2, 4)), cj_maximum(part(a, 0, 2), part(b, 0, 2))));
    cj_tensor *inner = cj_mul(cj_select(side, -1, 0), cj_select(side, -1, 1));
    return cj_div(inner, cj_sub(cj_add(area(a), area(b)), inner));
}

/* ---- suppression: of boxes in the order of their scores, [classes]; bool [n] -------------------------------------------------------------------------- */

static bool infer_suppress(cj_call *call) { return cj__out(call, 0, CJ_BOOL, 1, call->in[0]->shape); }
static bool run_suppress(cj_call *call)
{
    cj_ctx *c = call->ctx;
    const cj_tensor *boxes = call->in[0];
    const int64_t n = boxes->shape[0];
    void *scratch = cj__scratch(c, (size_t)n * 5 * cj_dtype_size((cj_dtype)boxes->dtype) + 1);
    if (!scratch) return false;
    c->k->suppress((cj_dtype)boxes->dtype, boxes->data, call->nin > 1 ? (const int64_t *)(const void *)call->in[1]->data : NULL, n,
                   *(const double *)call->attrs, (uint8_t *)call->out[0]->data, scratch);
    return true;
}

typedef struct nms_attrs {
    double threshold;
    int64_t limit;
} nms_attrs;
static bool define_nms(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out);

enum { CORNERS, CENTRES, CLIP, IOU, SUPPRESS, NMS };
const cj_op cj__ops_boxes[] = {
    [CORNERS] = CJ_COMPOSITE_ROW(box_corners, "boxes", 1, 0),
    [CENTRES] = CJ_COMPOSITE_ROW(box_centres, "boxes", 1, 0),
    [CLIP] = CJ_COMPOSITE_ROW(box_clip, "boxes", 1, 2 * sizeof(double)),
    [IOU] = CJ_COMPOSITE_ROW(box_iou, "boxes", 2, 0),
    [SUPPRESS] = { .name = "suppress",
                   .family = "boxes",
                   .kind = CJ_PRIMITIVE,
                   .flags = CJ_OP_NOGRAD,
                   .nin = -1,
                   .nout = 1,
                   .attr_size = sizeof(double),
                   .infer = infer_suppress,
                   .run = run_suppress,
                   .jvp_rule = CJ_JVP_NONE },
    [NMS] = { .name = "nms",
              .family = "boxes",
              .kind = CJ_COMPOSITE,
              .flags = CJ_OP_NOGRAD | CJ_OP_DYNAMIC,
              .nin = -1,
              .nout = 1,
              .attr_size = sizeof(nms_attrs),
              .define = define_nms },
};
CJ_OP_TABLE(boxes);

/* Inputs boxes, scores [, classes]. */
static bool define_nms(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    const nms_attrs *a = attrs;
    cj_tensor *order = cj_argsort(in[1], 0, &(cj_sort_opts){ .descending = true });
    cj_tensor *boxes = in[0]->dtype == CJ_F64 ? in[0] : cj_cast(in[0], CJ_F32);
    cj_tensor *sorted[2] = { cj_index_select(boxes, 0, order), nin > 2 ? cj_index_select(in[2], 0, order) : NULL };
    out[0] = cj_masked_select(order, cj__apply(&cj__ops_boxes[SUPPRESS], &a->threshold, sorted, nin - 1));
    if (a->limit && !c->error) out[0] = cj_slice(out[0], 0, 0, a->limit, 1);
    return c->error == CJ_OK;
}

static bool boxes_ok(const char *op, int i, cj_tensor *x)
{
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, i, x)) return false;
    if (!cj_dtype_is_float((cj_dtype)x->dtype))
        return cj__error(c, CJ_EDTYPE, "%s: the boxes are %s, a float type expected", op, cj_dtype_name((cj_dtype)x->dtype));
    if (x->ndim < 1 || x->shape[x->ndim - 1] != 4) return cj__error(c, CJ_ESHAPE, "%s: boxes %s, [.., 4] expected", op, cj__tensor_text(x));
    return true;
}
static cj_tensor *convert(int row, cj_tensor *boxes, const void *attrs)
{
    if (!boxes) return NULL;
    return boxes_ok(cj__ops_boxes[row].name, 0, boxes) ? cj__apply(&cj__ops_boxes[row], attrs, &boxes, 1) : boxes->ctx->poison;
}
cj_tensor *cj_box_corners(cj_tensor *boxes) { return convert(CORNERS, boxes, NULL); }
cj_tensor *cj_box_centres(cj_tensor *boxes) { return convert(CENTRES, boxes, NULL); }
cj_tensor *cj_box_clip(cj_tensor *boxes, double width, double height)
{
    if (boxes && (!(width >= 0) || !(height >= 0))) return cj_fail(boxes->ctx, CJ_EVALUE, "box_clip: to %g x %g", width, height);
    return convert(CLIP, boxes, (double[]){ width, height });
}

cj_tensor *cj_box_iou(cj_tensor *a, cj_tensor *b)
{
    static const char op[] = "box_iou";
    if (!a || !b) return CJ_MISSING(op, a, b);
    if (!boxes_ok(op, 0, a) || !boxes_ok(op, 1, b)) return a->ctx->poison;
    if (a->ndim != 2 || b->ndim != 2)
        return cj_fail(a->ctx, CJ_ESHAPE, "%s: boxes %s and %s, [n, 4] and [m, 4] expected", op, cj__tensor_text(a), cj__tensor_text(b));
    return cj__apply(&cj__ops_boxes[IOU], NULL, (cj_tensor *[]){ a, b }, 2);
}

cj_tensor *cj_nms(cj_tensor *boxes, cj_tensor *scores, double iou_threshold, const cj_nms_opts *opts)
{
    static const char op[] = "nms";
    if (!boxes || !scores) return CJ_MISSING(op, boxes, scores);
    cj_ctx *c = boxes->ctx;
    cj_tensor *in[3] = { boxes, scores, opts ? opts->classes : NULL };
    nms_attrs a = { iou_threshold, opts ? opts->limit : 0 };
    if (!boxes_ok(op, 0, boxes) || !cj__usable(c, op, 1, scores) || (in[2] && !cj__usable(c, op, 2, in[2]))) return c->poison;
    if (!(iou_threshold >= 0) || a.limit < 0)
        return cj_fail(c, CJ_EVALUE, "%s: threshold %g, limit %lld; neither may be negative", op, iou_threshold, (long long)a.limit);
    for (int i = 1; i < 3 && in[i]; i++)
        if (boxes->ndim != 2 || in[i]->ndim != 1 || in[i]->numel != boxes->shape[0])
            return cj_fail(c, CJ_ESHAPE, "%s: boxes %s and %s %s, [n, 4] and [n] expected", op, cj__tensor_text(boxes),
                           i == 1 ? "scores" : "classes", cj__tensor_text(in[i]));
    if (in[2] && in[2]->dtype != CJ_I64)
        return cj_fail(c, CJ_EDTYPE, "%s: the classes are %s, i64 expected", op, cj_dtype_name((cj_dtype)in[2]->dtype));
    return cj__apply(&cj__ops_boxes[NMS], &a, in, in[2] ? 3 : 2);
}
