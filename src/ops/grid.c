/* Sampling of images at given positions (Jaderberg et al. 2015) and the positions of an affine map.
 *
 * grid_sample has fused kernels forward and backward; its definition is made of public operators: positions give neighbours and weights by
 * arithmetic, pixels are rows of [N·H·W, C] that index_select picks, so that derivatives of every order reach the image and the grid.  A position p
 * in [-1, 1] is pixel ((p + 1)·n - 1)/2, or (p + 1)·(n - 1)/2 with aligned corners.
 */
#include <math.h>

#include "cajal/grad.h"
#include "kernels/cpu/grid.h"
#include "ops/compose.h"

typedef struct grid_attrs {
    int64_t mode, padding, align;
} grid_attrs;

/* ---- one axis --------------------------------------------------------------------------------------------------------------------------------------- */

/* Mirrored at both ends, then cut at the border: PyTorch's reflection, around the outer pixels' centres or their edges. */
static cj_tensor *reflected(cj_tensor *at, int64_t n, bool align)
{
    const double low = align ? 0 : -0.5, span = align ? (double)(n - 1) : (double)n;
    if (span <= 0) return cj_mul_scalar(at, 0);
    cj_tensor *d = cj_abs(cj_add_scalar(at, -low)), *turns = cj_floor(cj_mul_scalar(d, 1 / span));
    cj_tensor *extra = cj_sub(d, cj_mul_scalar(turns, span)); /* the turn is constant in between */
    cj_tensor *odd = cj_sub(turns, cj_mul_scalar(cj_floor(cj_mul_scalar(turns, 0.5)), 2));
    cj_tensor *back = cj_add_scalar(cj_neg(extra), span);
    return cj_add_scalar(cj_where(cj_gt_scalar(odd, 0.5), back, extra), low);
}
/* Positions beyond the border brought in; with zeros they stay outside. */
static cj_tensor *brought_in(cj_tensor *at, int64_t n, const grid_attrs *a)
{
    if (a->padding == CJ_PAD_ZERO) return at;
    if (a->padding == CJ_PAD_REFLECT) at = reflected(at, n, a->align);
    return cj_clamp(at, 0, (double)(n - 1));
}

/* The neighbours of a position along an axis: whole pixel positions and their weights (NULL: 1). */
enum { MOST_TAPS = 4, MOST_AXES = 3 };
typedef struct taps {
    int n;
    cj_tensor *at[MOST_TAPS], *weight[MOST_TAPS];
} taps;

/* Keys' kernel (1981) with a = -3/4 at the distance t: near for t <= 1, far for 1 <= t <= 2. */
static cj_tensor *cubic_near(cj_tensor *t) { return cj_add_scalar(cj_mul(cj_add_scalar(cj_mul_scalar(t, 1.25), -2.25), cj_square(t)), 1); }
static cj_tensor *cubic_far(cj_tensor *t)
{
    cj_tensor *inner = cj_add_scalar(cj_mul(cj_add_scalar(t, -5), t), 8);
    return cj_add_scalar(cj_mul_scalar(cj_mul(inner, t), -0.75), 3);
}

static taps taps_of(cj_tensor *p, int64_t n, const grid_attrs *a)
{
    cj_tensor *at = a->align ? cj_mul_scalar(cj_add_scalar(p, 1), (double)(n - 1) / 2)
                             : cj_mul_scalar(cj_add_scalar(cj_mul_scalar(cj_add_scalar(p, 1), (double)n), -1), 0.5);
    taps t = { 0 };
    if (a->mode != CJ_INTERP_CUBIC) at = brought_in(at, n, a);
    if (a->mode == CJ_INTERP_NEAREST) {
        t = (taps){ 1, { cj_detach(cj_round(at)) }, { NULL } };
        return t;
    }
    cj_tensor *low = cj_detach(cj_floor(at)), *part = cj_sub(at, low), *rest = cj_add_scalar(cj_neg(part), 1);
    if (a->mode == CJ_INTERP_LINEAR) {
        t = (taps){ 2, { low, cj_add_scalar(low, 1) }, { rest, part } };
        return t;
    }
    t.n = 4;
    for (int k = 0; k < 4; k++) t.at[k] = brought_in(cj_add_scalar(low, k - 1), n, a);
    t.weight[0] = cubic_far(cj_add_scalar(part, 1));
    t.weight[1] = cubic_near(part);
    t.weight[2] = cubic_near(rest);
    t.weight[3] = cubic_far(cj_add_scalar(rest, 1));
    return t;
}

/* ---- grid_sample ------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *times(cj_tensor *a, cj_tensor *b) { return !a ? b : !b ? a : cj_mul(a, b); }

/* The definition. Inputs x [N, C, ..] and grid [N, .., axes], the last axis as (x, y) or (x, y, z): the reverse of x's axes. */
CJ_COMPOSE(grid_sample)
{
    const grid_attrs *a = attrs;
    cj_tensor *x = in[0], *grid = in[1];
    const int axes = x->ndim - 2;
    const int64_t N = x->shape[0], C = x->shape[1], *size = x->shape + 2;
    int64_t pixels = 1, positions = N ? grid->numel / N / axes : 0;
    taps axis[MOST_AXES];
    for (int d = 0; d < axes; d++) {
        pixels *= size[d];
        cj_tensor *p = cj_reshape(cj_select(grid, -1, axes - 1 - d), CJ_SHAPE(N, positions));
        axis[d] = taps_of(p, size[d], a);
    }
    cj_axes last = { .n = x->ndim }; /* [N, .., C] */
    for (int d = 0; d < x->ndim; d++) last.axis[d] = d == 0 ? 0 : d == x->ndim - 1 ? 1 : d + 1;
    cj_tensor *rows = cj_reshape(cj_permute(x, last), CJ_SHAPE(N * pixels, C));
    cj_tensor *image =
        cj_reshape(cj_mul(cj_arange(x->ctx, 0, (double)N, 1, CJ_I64), cj_cast(cj__const(x, (double)pixels), CJ_I64)), CJ_SHAPE(N, 1));
    cj_tensor *sum = NULL;
    int neighbours = 1;
    for (int d = 0; d < axes; d++) neighbours *= axis[d].n;
    for (int q = 0; q < neighbours; q++) {
        cj_tensor *place = image, *weight = NULL;
        int64_t step = pixels;
        for (int d = 0, k = q; d < axes; k /= axis[d++].n) {
            cj_tensor *at = axis[d].at[k % axis[d].n], *inside = cj_clamp(at, 0, (double)(size[d] - 1));
            step /= size[d];
            weight = times(weight, axis[d].weight[k % axis[d].n]);
            weight = times(weight, cj_cast(cj_eq(at, inside), (cj_dtype)x->dtype)); /* nothing from outside */
            place = cj_add(place, cj_mul(cj_cast(inside, CJ_I64), cj_cast(cj__const(x, (double)step), CJ_I64)));
        }
        cj_tensor *picked = cj_mul(cj_index_select(rows, 0, cj_flatten(place, 0)), cj_reshape(weight, CJ_SHAPE(N * positions, 1)));
        sum = sum ? cj_add(sum, picked) : picked;
    }
    cj_shape wide = cj__shape(grid); /* [N, .., C] */
    wide.dim[wide.ndim - 1] = C;
    cj_axes second = { .n = x->ndim };
    for (int d = 0; d < x->ndim; d++) second.axis[d] = d == 0 ? 0 : d == 1 ? x->ndim - 1 : d - 1;
    return cj_permute(cj_reshape(sum, wide), second);
}

/* ---- affine_grid ------------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct affine_attrs {
    int64_t axes, size[MOST_AXES], align; /* size: depth, height, width, right-aligned */
} affine_attrs;

/* n positions from -1 to 1: the centres of n pixels. */
static cj_tensor *centres(cj_tensor *like, int64_t n, bool align)
{
    cj_tensor *i = cj_cast(cj_arange(like->ctx, 0, (double)n, 1, CJ_I64), (cj_dtype)like->dtype);
    if (align) return n > 1 ? cj_add_scalar(cj_mul_scalar(i, 2 / (double)(n - 1)), -1) : cj_mul_scalar(i, 0);
    return cj_add_scalar(cj_mul_scalar(i, 2 / (double)n), 1 / (double)n - 1);
}

/* [N, positions, axes] = [positions, axes + 1]·thetaᵀ, a row (x, y, 1) per position. */
CJ_COMPOSE(affine_grid)
{
    const affine_attrs *a = attrs;
    const int axes = (int)a->axes;
    cj_shape full = { .ndim = axes };
    int64_t positions = 1;
    for (int d = 0; d < axes; d++) positions *= full.dim[d] = a->size[MOST_AXES - axes + d];
    cj_tensor *part[MOST_AXES + 1] = { NULL };
    for (int d = 0; d < axes; d++) {
        cj_shape along = { .ndim = axes, .dim = { 1, 1, 1 } };
        along.dim[d] = full.dim[d];
        part[axes - 1 - d] = cj_reshape(cj_expand(cj_reshape(centres(in[0], full.dim[d], a->align), along), full), CJ_SHAPE(positions));
    }
    part[axes] = cj_ones_like(part[0]);
    cj_tensor *base = cj_stack(part, axes + 1, 1);
    cj_shape out = { .ndim = axes + 2, .dim = { in[0]->shape[0] } };
    memcpy(out.dim + 1, full.dim, sizeof(int64_t) * (size_t)axes);
    out.dim[axes + 1] = axes;
    return cj_reshape(cj_matmul(base, cj_t(in[0])), out);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_grid_shape describe(const grid_attrs *a, const cj_tensor *x, const cj_tensor *grid)
{
    cj_grid_shape v = { .n = x->shape[0],
                        .c = x->shape[1],
                        .axes = x->ndim - 2,
                        .taps = a->mode == CJ_INTERP_NEAREST  ? 1
                                : a->mode == CJ_INTERP_LINEAR ? 2
                                                              : 4,
                        .border = a->padding == CJ_PAD_ZERO        ? CJ_GRID_ZEROS
                                  : a->padding == CJ_PAD_REPLICATE ? CJ_GRID_BORDER
                                                                   : CJ_GRID_REFLECT,
                        .align = a->align != 0 };
    v.positions = v.n ? grid->numel / v.n / v.axes : 0;
    memcpy(v.size, x->shape + 2, (size_t)v.axes * sizeof(int64_t));
    return v;
}
static bool infer_sample(cj_call *call)
{
    const cj_tensor *x = call->in[0], *grid = call->in[1];
    if (!cj__contiguous(x) || !cj__contiguous(grid)) return cj__error(call->ctx, CJ_ESTATE, "grid_sample: operand layout");
    int64_t shape[CJ_MAX_DIMS] = { x->shape[0], x->shape[1] };
    memcpy(shape + 2, grid->shape + 1, (size_t)(x->ndim - 2) * sizeof(int64_t));
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, shape);
}
static bool run_sample(cj_call *call)
{
    const cj_tensor *x = call->in[0], *grid = call->in[1];
    const cj_grid_shape v = describe(call->attrs, x, grid);
    if (call->out[0]->numel) call->ctx->k->grid_sample(call->ctx->pool, &v, (cj_dtype)x->dtype, x->data, grid->data, call->out[0]->data);
    return true;
}

/* Inputs x, grid, dy; outputs dx and dgrid, empty where they are not needed. */
typedef struct grid_bwd_attrs {
    grid_attrs grid;
    int64_t need[2];
} grid_bwd_attrs;
static bool infer_sample_bwd(cj_call *call)
{
    const grid_bwd_attrs *a = call->attrs;
    for (int i = 0; i < 2; i++) {
        const cj_tensor *like = call->in[i];
        if (!cj__out(call, i, (cj_dtype)like->dtype, a->need[i] ? like->ndim : 1, a->need[i] ? like->shape : &(int64_t){ 0 })) return false;
    }
    return true;
}
static bool run_sample_bwd(cj_call *call)
{
    const grid_bwd_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0], *grid = call->in[1];
    const cj_grid_shape v = describe(&a->grid, x, grid);
    void *to[2];
    for (int i = 0; i < 2; i++) to[i] = a->need[i] && call->out[i]->numel ? call->out[i]->data : NULL;
    call->ctx->k->grid_sample_bwd(call->ctx->pool, &v, (cj_dtype)x->dtype, x->data, grid->data, call->in[2]->data, to[0], to[1]);
    return true;
}
static void d_sample(cj_vjp_args *v);

enum { SAMPLE, AFFINE, SAMPLE_BWD };
const cj_op cj__ops_grid[] = {
    [SAMPLE] = { .name = "grid_sample",
                 .family = "resampling",
                 .kind = CJ_COMPOSITE,
                 .nin = 2,
                 .nout = 1,
                 .attr_size = sizeof(grid_attrs),
                 .save_in = 3,
                 .infer = infer_sample,
                 .run = run_sample,
                 .vjp = d_sample,
                 .define = define_grid_sample },
    [AFFINE] = CJ_COMPOSITE_ROW(affine_grid, "resampling", 1, sizeof(affine_attrs)),
    [SAMPLE_BWD] = { .name = "grid_sample_backward",
                     .family = "resampling",
                     .kind = CJ_INTERNAL,
                     .flags = CJ_OP_NOGRAD,
                     .nin = 3,
                     .nout = 2,
                     .attr_size = sizeof(grid_bwd_attrs),
                     .infer = infer_sample_bwd,
                     .run = run_sample_bwd },
};
CJ_OP_TABLE(grid);

static void d_sample(cj_vjp_args *v)
{
    const grid_bwd_attrs a = { *(const grid_attrs *)v->attrs, { v->need[0], v->need[1] } };
    cj_tensor *in[3] = { v->in[0], v->in[1], cj_contiguous(v->g[0]) }, *out[2];
    cj__apply_n(v->ctx, &cj__ops_grid[SAMPLE_BWD], &a, in, 3, out);
    for (int i = 0; i < 2; i++)
        if (v->need[i]) v->gin[i] = out[i];
}

/* ---- what users call ---------------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_grid_sample(cj_tensor *x, cj_tensor *grid, const cj_grid_opts *opts)
{
    static const char op[] = "grid_sample";
    if (!x) return CJ_MISSING(op, x, grid);
    cj_ctx *c = x->ctx;
    cj_grid_opts o = opts ? *opts : (cj_grid_opts){ 0 };
    if (c->error || !cj__usable(c, op, 0, x) || !cj__usable(c, op, 1, grid)) return c->poison;
    const int axes = x->ndim - 2;
    if (axes < 2 || axes > 3 || grid->ndim != x->ndim || grid->shape[grid->ndim - 1] != axes || grid->shape[0] != x->shape[0])
        return cj_fail(c, CJ_ESHAPE,
                       "%s: input %s and grid %s; [N, C, H, W] and [N, h, w, 2], or [N, C, D, H, W] and [N, d, h, w, 3] expected", op,
                       cj__tensor_text(x), cj__tensor_text(grid));
    if (!cj_dtype_is_float((cj_dtype)grid->dtype) || grid->dtype != x->dtype)
        return cj_fail(c, CJ_EDTYPE, "%s: input %s and grid %s; the same float type expected", op, cj_dtype_name((cj_dtype)x->dtype),
                       cj_dtype_name((cj_dtype)grid->dtype));
    double pixels = 1; /* of one plane: offsets are 32-bit */
    for (int d = 2; d < x->ndim; d++) pixels *= (double)x->shape[d];
    if (!(pixels >= 1 && pixels <= INT32_MAX))
        return cj_fail(c, CJ_ESHAPE, "%s: the input %s has %s pixels", op, cj__tensor_text(x), pixels < 1 ? "no" : "more than 2^31");
    grid_attrs a = { o.mode ? o.mode : CJ_INTERP_LINEAR, o.padding, o.align_corners };
    if (a.mode < CJ_INTERP_NEAREST || a.mode > CJ_INTERP_CUBIC || (a.mode == CJ_INTERP_CUBIC && axes == 3))
        return cj_fail(c, CJ_EVALUE, "%s: mode %d; CJ_INTERP_NEAREST, CJ_INTERP_LINEAR or, in two axes, CJ_INTERP_CUBIC expected", op,
                       (int)a.mode);
    if (a.padding != CJ_PAD_ZERO && a.padding != CJ_PAD_REPLICATE && a.padding != CJ_PAD_REFLECT)
        return cj_fail(c, CJ_EVALUE, "%s: padding %d; CJ_PAD_ZERO, CJ_PAD_REPLICATE or CJ_PAD_REFLECT expected", op, (int)a.padding);
    const cj_dtype t = (cj_dtype)x->dtype;
    const bool half = t == CJ_BF16 || t == CJ_F16; /* widened here and rounded once */
    cj_tensor *in[2] = { cj_contiguous(half ? cj_cast(x, CJ_F32) : x), cj_contiguous(half ? cj_cast(grid, CJ_F32) : grid) };
    cj_tensor *y = cj__apply(&cj__ops_grid[SAMPLE], &a, in, 2);
    return half ? cj_cast(y, t) : y;
}

cj_tensor *cj_affine_grid(cj_tensor *theta, cj_shape size, bool align_corners)
{
    static const char op[] = "affine_grid";
    if (!theta) return NULL;
    cj_ctx *c = theta->ctx;
    if (c->error || !cj__usable(c, op, 0, theta)) return c->poison;
    const int axes = size.ndim - 2;
    if (axes < 2 || axes > 3 || theta->ndim != 3 || theta->shape[0] != size.dim[0] || theta->shape[1] != axes ||
        theta->shape[2] != axes + 1)
        return cj_fail(c, CJ_ESHAPE, "%s: theta %s and size %s; [N, 2, 3] and [N, C, H, W], or [N, 3, 4] and [N, C, D, H, W] expected", op,
                       cj__tensor_text(theta), cj__shape_text(size.ndim, size.dim));
    affine_attrs a = { .axes = axes, .align = align_corners };
    for (int d = 0; d < axes; d++) {
        a.size[MOST_AXES - axes + d] = size.dim[2 + d];
        if (size.dim[2 + d] < 1) return cj_fail(c, CJ_EVALUE, "%s: size %s", op, cj__shape_text(size.ndim, size.dim));
    }
    return cj__apply(&cj__ops_grid[AFFINE], &a, &theta, 1);
}
