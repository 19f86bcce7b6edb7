/* Convolution over 1, 2 or 3 axes, its two derivatives as operators of their own, and what is made of them: transposed and locally connected convolution, padding.
 *
 * conv is bilinear, and so are its derivatives; the three are closed under differentiation:
 *   y = conv(x, w)              dx = conv_data(dy, w)          dw = conv_weight(x, dy)
 *   u = conv_data(g, w)         dg = conv(du, w)               dw = conv_weight(du, g)
 *   v = conv_weight(x, g)       dx = conv_data(g, dv)          dg = conv(x, dv)
 * A fourth one, conv_gradients, is conv_data and conv_weight of the same g at once: where every channel is on its own it reads g once.
 */
#include "kernels/cpu/conv.h"

#include "ops/ops.h"

/* Spatial sizes are kept as depth, height, width; axes that are not there have size, stride and dilation 1. */
typedef cj_conv_attrs conv_attrs;

/* Spatial sizes of t, right-aligned. */
static void spatial(const cj_tensor *t, int64_t nd, int64_t *size)
{
    for (int d = 0; d < 3; d++) size[d] = d < 3 - nd ? 1 : t->shape[t->ndim - 3 + d];
}

static int64_t out_size(const conv_attrs *a, int d, int64_t in, int64_t kernel)
{
    int64_t room = in + a->low[d] + a->high[d] - a->dilation[d] * (kernel - 1) - 1;
    return room < 0 ? 0 : room / a->stride[d] + 1;
}

static const char *sizes_text(int64_t nd, const int64_t *size) { return cj__shape_text((int)nd, &size[3 - nd]); }

/* The geometry of a call: from x and w sizes, wherever they come from. */
static bool geometry(cj_call *call, cj_conv_shape *v, int64_t n, int64_t c, int64_t o, const int64_t *in, const int64_t *kernel)
{
    const conv_attrs *a = call->attrs;
    *v = (cj_conv_shape){ .n = n, .groups = a->groups, .c = c, .o = o };
    for (int d = 0; d < 3; d++) {
        v->in[d] = in[d];
        v->kernel[d] = kernel[d];
        v->out[d] = out_size(a, d, in[d], kernel[d]);
        v->stride[d] = a->stride[d];
        v->pad[d] = a->low[d];
        v->dilation[d] = a->dilation[d];
        if (v->out[d] < 1) {
            int64_t padded[3];
            for (int k = 0; k < 3; k++) padded[k] = in[k] + a->low[k] + a->high[k];
            return cj__error(call->ctx, CJ_ESHAPE, "%s: the kernel %s with its dilation is larger than the padded input %s", call->op->name,
                             sizes_text(a->nd, kernel), sizes_text(a->nd, padded));
        }
    }
    return true;
}

static bool operands(cj_call *call, cj_conv_pass pass)
{
    const cj_tensor *a = call->in[0], *b = call->in[1];
    const conv_attrs *at = call->attrs;
    if (!cj_dtype_is_float((cj_dtype)a->dtype) || a->dtype != b->dtype)
        return cj__error(call->ctx, CJ_EDTYPE, "%s: dtypes %s and %s; both must be the same float type", call->op->name,
                         cj_dtype_name((cj_dtype)a->dtype), cj_dtype_name((cj_dtype)b->dtype));
    if (a->ndim != at->nd + 2 || b->ndim != at->nd + 2)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: %s and %s; both need a batch or output axis, a channel axis and %d spatial ones",
                         call->op->name, cj__tensor_text(a), cj__tensor_text(b), (int)at->nd);
    if (call->nin > 2 && (call->in[2]->dtype != CJ_F32 || a->dtype != CJ_F32 || at->groups != 1 || !cj__contiguous(call->in[2])))
        return cj__error(call->ctx, CJ_ESTATE, "%s: the bias of f32 images and one group only", call->op->name);
    if (!cj__is_image(a) || !(pass == CJ_CONV_WEIGHT ? cj__is_image(b) : cj__contiguous(b)))
        return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    return true;
}

/* Channels of one group, or an error. */
static bool per_group(cj_call *call, const char *what, int64_t channels, int64_t *each)
{
    const conv_attrs *a = call->attrs;
    *each = channels / a->groups;
    if (channels < 1 || channels % a->groups)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: %lld groups do not divide the %lld channels of %s", call->op->name,
                         (long long)a->groups, (long long)channels, what);
    return true;
}

static bool describe(cj_call *call, cj_conv_pass pass, cj_conv_shape *v)
{
    const conv_attrs *a = call->attrs;
    const cj_tensor *first = call->in[0], *second = call->in[1];
    int64_t in[3], kernel[3], out[3], c, o;
    if (pass == CJ_CONV_FORWARD) { /* x, w */
        spatial(first, a->nd, in);
        spatial(second, a->nd, kernel);
        if (!per_group(call, "the input", first->shape[1], &c) || !per_group(call, "the result", second->shape[0], &o)) return false;
        if (second->shape[1] != c)
            return cj__error(call->ctx, CJ_ESHAPE, "%s: the weight %s sees %lld channels, the input %s has %lld%s", call->op->name,
                             cj__tensor_text(second), (long long)second->shape[1], cj__tensor_text(first), (long long)c,
                             a->groups > 1 ? " in a group" : "");
        return geometry(call, v, first->shape[0], c, o, in, kernel);
    }
    if (pass == CJ_CONV_DATA) { /* dy, w */
        spatial(first, a->nd, out);
        spatial(second, a->nd, kernel);
        c = second->shape[1];
        if (!per_group(call, "the gradient", first->shape[1], &o) || c < 1)
            return call->ctx->error == CJ_OK
                       ? cj__error(call->ctx, CJ_ESHAPE, "%s: the weight %s has no channels", call->op->name, cj__tensor_text(second))
                       : false;
        if (second->shape[0] != first->shape[1])
            return cj__error(call->ctx, CJ_ESHAPE, "%s: the weight %s makes %lld channels, the gradient %s has %lld", call->op->name,
                             cj__tensor_text(second), (long long)second->shape[0], cj__tensor_text(first), (long long)first->shape[1]);
        if (!geometry(call, v, first->shape[0], c, o, a->size, kernel)) return false;
    } else { /* x, dy */
        spatial(first, a->nd, in);
        spatial(second, a->nd, out);
        if (!per_group(call, "the input", first->shape[1], &c) || !per_group(call, "the gradient", second->shape[1], &o)) return false;
        if (first->shape[0] != second->shape[0])
            return cj__error(call->ctx, CJ_ESHAPE, "%s: %s and %s have different batch sizes", call->op->name, cj__tensor_text(first),
                             cj__tensor_text(second));
        if (!geometry(call, v, first->shape[0], c, o, in, a->size)) return false;
    }
    if (memcmp(out, v->out, sizeof out) != 0)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: a gradient of size %s, %s expected", call->op->name, sizes_text(a->nd, out),
                         sizes_text(a->nd, v->out));
    return true;
}

static bool infer(cj_call *call, cj_conv_pass pass)
{
    const conv_attrs *a = call->attrs;
    cj_conv_shape v;
    if (!operands(call, pass) || !describe(call, pass, &v)) return false;
    const int64_t *size = pass == CJ_CONV_FORWARD ? v.out : a->size;
    int64_t shape[5] = { pass == CJ_CONV_WEIGHT ? v.o * v.groups : v.n, pass == CJ_CONV_FORWARD ? v.o * v.groups
                                                                        : pass == CJ_CONV_DATA  ? v.c * v.groups
                                                                                                : v.c };
    for (int d = 0; d < a->nd; d++) shape[2 + d] = size[3 - a->nd + d];
    if (!cj__out(call, 0, (cj_dtype)call->in[0]->dtype, (int)a->nd + 2, shape)) return false;
    /* as the input lies; an image of one channel lies both ways, and channels-last is what everything after it is fastest with */
    if (pass != CJ_CONV_WEIGHT && cj__channels_last(call->in[0])) cj__to_channels_last(call->out[0]);
    return true;
}
static bool infer_conv(cj_call *call) { return infer(call, CJ_CONV_FORWARD); }
static bool infer_data(cj_call *call) { return infer(call, CJ_CONV_DATA); }
static bool infer_weight(cj_call *call) { return infer(call, CJ_CONV_WEIGHT); }

/* The weights as the kernel reads them, where they are kept from call to call; else NULL, and the kernel packs them. */
static const float *packed_weights(cj_ctx *c, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const cj_tensor *w, void *scratch)
{
    cj_conv_layout layout;
    const size_t bytes = c->k->conv_packed(v, pass, t, &layout);
    bool made = false;
    float *kept = bytes ? cj__packed(c, w, &layout, sizeof layout, bytes, &made) : NULL;
    if (kept && !made) c->k->conv_pack(c->pool, v, pass, t, w->data, kept, scratch);
    c->memory.packs += bytes && !made;
    return kept;
}

static bool run(cj_call *call, cj_conv_pass pass)
{
    cj_ctx *c = call->ctx;
    cj_conv_shape v;
    if (!describe(call, pass, &v)) return false;
    cj_tensor *y = call->out[0];
    if (!y->numel) return true;
    const cj_dtype t = (cj_dtype)y->dtype;
    const cj_tensor *of_x = pass == CJ_CONV_DATA ? y : call->in[0], *of_y = pass == CJ_CONV_FORWARD ? y : call->in[pass == CJ_CONV_WEIGHT];
    v.x_last = !cj__contiguous(of_x), v.y_last = !cj__contiguous(of_y);
    v.bias = call->nin > 2 ? (const float *)(const void *)call->in[2]->data : NULL;
    size_t bytes = c->k->conv_workspace(&v, pass, t, c->threads);
    void *scratch = cj__scratch(c, bytes ? bytes : 1);
    if (!scratch) return false;
    if (pass != CJ_CONV_WEIGHT) v.packed = packed_weights(c, &v, pass, t, call->in[1], scratch);
    c->k->conv(c->pool, &v, pass, t, call->in[0]->data, call->in[1]->data, y->data, scratch);
    return true;
}
static bool run_conv(cj_call *call) { return run(call, CJ_CONV_FORWARD); }
static bool run_data(cj_call *call) { return run(call, CJ_CONV_DATA); }
static bool run_weight(cj_call *call) { return run(call, CJ_CONV_WEIGHT); }

/* conv_gradients (g, w, x) as the two calls that it is made of.  The attributes have the size of x. */
typedef struct both {
    cj_call data, weight;
    conv_attrs of_weight;
    cj_tensor *in[2][2], *out[2][1];
} both;
static void split(const cj_call *call, both *b)
{
    cj_tensor *g = call->in[0], *w = call->in[1], *x = call->in[2];
    b->of_weight = *(const conv_attrs *)call->attrs;
    if (w->ndim == b->of_weight.nd + 2) spatial(w, b->of_weight.nd, b->of_weight.size);
    b->in[0][0] = g, b->in[0][1] = w, b->in[1][0] = x, b->in[1][1] = g;
    for (int i = 0; i < 2; i++) b->out[i][0] = call->out[i];
    b->data = (cj_call){ call->ctx, call->op, call->attrs, b->in[0], b->out[0], 2, 1 };
    b->weight = (cj_call){ call->ctx, call->op, &b->of_weight, b->in[1], b->out[1], 2, 1 };
}

static bool infer_both(cj_call *call)
{
    both b;
    split(call, &b);
    if (!infer(&b.data, CJ_CONV_DATA) || !infer(&b.weight, CJ_CONV_WEIGHT)) return false;
    for (int i = 0; i < 2; i++) call->out[i] = b.out[i][0];
    return true;
}

static bool run_both(cj_call *call)
{
    cj_ctx *c = call->ctx;
    cj_conv_shape v, w;
    both b;
    split(call, &b);
    if (!describe(&b.data, CJ_CONV_DATA, &v) || !describe(&b.weight, CJ_CONV_WEIGHT, &w)) return false;
    const cj_tensor *dx = call->out[0], *dw = call->out[1], *x = call->in[2];
    if (!dx->numel || !dw->numel) return run(&b.data, CJ_CONV_DATA) && run(&b.weight, CJ_CONV_WEIGHT);
    const cj_dtype t = (cj_dtype)dx->dtype;
    v.y_last = w.y_last = !cj__contiguous(call->in[0]), v.x_last = !cj__contiguous(dx), w.x_last = !cj__contiguous(x);
    size_t bytes = c->k->conv_both_workspace(&v, &w, t, c->threads);
    void *scratch = cj__scratch(c, bytes ? bytes : 1);
    if (!scratch) return false;
    c->k->conv_both(c->pool, &v, &w, t, call->in[0]->data, call->in[1]->data, x->data, dx->data, dw->data, scratch);
    return true;
}

static double flops(const cj_call *call, cj_conv_pass pass)
{
    cj_conv_shape v;
    cj_call copy = *call;
    if (!describe(&copy, pass, &v)) return 0;
    const double results = (double)(v.n * v.groups * v.o) * (double)(v.out[0] * v.out[1] * v.out[2]);
    return results * (2.0 * (double)v.c * (double)(v.kernel[0] * v.kernel[1] * v.kernel[2]) + (pass == CJ_CONV_FORWARD && call->nin > 2));
}
static double flops_conv(const cj_call *call) { return flops(call, CJ_CONV_FORWARD); }
static double flops_data(const cj_call *call) { return flops(call, CJ_CONV_DATA); }
static double flops_weight(const cj_call *call) { return flops(call, CJ_CONV_WEIGHT); }
static double flops_both(const cj_call *call)
{
    both b;
    split(call, &b);
    return flops(&b.data, CJ_CONV_DATA) + flops(&b.weight, CJ_CONV_WEIGHT);
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------------------------ */

enum { CONV, DATA, WEIGHT, BOTH };
static cj_tensor *apply(int row, cj_tensor *a, cj_tensor *b, conv_attrs attrs, const cj_tensor *sized);

/* [O] as [O, 1, ..], and its transpose: the sum over everything but channels. */
static cj_tensor *over_points(cj_tensor *bias, int64_t nd)
{
    return cj_reshape(bias, (cj_shape){ .ndim = (int)nd + 1, .dim = { bias->shape[0], 1, 1, 1 } });
}
static cj_tensor *sum_points(cj_tensor *g)
{
    cj_reduce_opts o = { 0 };
    for (int d = 0; d < g->ndim; d++)
        if (d != 1) o.axes.axis[o.axes.n++] = d;
    return (cj_sum)(g, &o);
}

#define RULES(name, row0, a0, b0, sized0, row1, a1, b1, sized1)                                                                            \
    static void d_##name(cj_vjp_args *v)                                                                                                   \
    {                                                                                                                                      \
        const conv_attrs at = *(const conv_attrs *)v->attrs;                                                                               \
        cj_tensor *const *in = v->in, *g = v->g[0];                                                                                        \
        if (v->need[0]) v->gin[0] = apply(row0, a0, b0, at, sized0);                                                                       \
        if (v->need[1]) v->gin[1] = apply(row1, a1, b1, at, sized1);                                                                       \
        if (v->nin > 2 && v->need[2]) v->gin[2] = sum_points(g);                                                                           \
    }
/* clang-format off */
RULES(data,   CONV, g, in[1], NULL,    WEIGHT, g, in[0], in[1])
RULES(weight, DATA, in[1], g, in[0],   CONV, in[0], g, NULL)
/* clang-format on */

/* Both derivatives of a convolution at once; out: of x, of w. */
static void gradients(cj_tensor *g, cj_tensor *w, cj_tensor *x, conv_attrs attrs, cj_tensor **out)
{
    spatial(x, attrs.nd, attrs.size);
    cj__apply_n(g->ctx, &cj__ops_conv[BOTH], &attrs, (cj_tensor *[]){ cj__image(g), cj_contiguous(w), cj__image(x) }, 3, out);
}

static void d_conv(cj_vjp_args *v)
{
    const conv_attrs at = *(const conv_attrs *)v->attrs;
    cj_tensor *const *in = v->in, *g = v->g[0];
    const bool depthwise = at.groups > 1 && in[0]->shape[1] == at.groups && g->shape[1] == at.groups;
    if (depthwise && v->need[0] && v->need[1]) {
        gradients(g, in[1], in[0], at, v->gin);
    } else {
        if (v->need[0]) v->gin[0] = apply(DATA, g, in[1], at, in[0]);
        if (v->need[1]) v->gin[1] = apply(WEIGHT, in[0], g, at, in[1]);
    }
    if (v->nin > 2 && v->need[2]) v->gin[2] = sum_points(g);
}

static cj_tensor *sum_of(cj_tensor *a, cj_tensor *b) { return a && b ? cj_add(a, b) : a ? a : b; }

/* u = conv_data(g, w), v = conv_weight(x, g) */
static void d_both(cj_vjp_args *v)
{
    const conv_attrs at = *(const conv_attrs *)v->attrs;
    cj_tensor *g = v->in[0], *w = v->in[1], *x = v->in[2], *du = v->g[0], *dv = v->g[1];
    if (v->need[0]) v->gin[0] = sum_of(du ? apply(CONV, du, w, at, NULL) : NULL, dv ? apply(CONV, x, dv, at, NULL) : NULL);
    if (v->need[1] && du) v->gin[1] = apply(WEIGHT, du, g, at, w);
    if (v->need[2] && dv) v->gin[2] = apply(DATA, g, dv, at, x);
}
static void j_both(cj_jvp_args *j)
{
    const conv_attrs at = *(const conv_attrs *)j->attrs;
    cj_tensor *const *in = j->in, *const *t = j->tan;
    j->tout[0] = sum_of(t[0] ? apply(DATA, t[0], in[1], at, in[2]) : NULL, t[1] ? apply(DATA, in[0], t[1], at, in[2]) : NULL);
    j->tout[1] = sum_of(t[0] ? apply(WEIGHT, in[2], t[0], at, in[1]) : NULL, t[2] ? apply(WEIGHT, t[2], in[0], at, in[1]) : NULL);
}

/* Bilinear: f(t0, in1) + f(in0, t1). */
static void bilinear(cj_jvp_args *j, int row)
{
    const conv_attrs at = *(const conv_attrs *)j->attrs;
    cj_tensor *left = j->tan[0] ? apply(row, j->tan[0], j->in[1], at, NULL) : NULL;
    cj_tensor *right = j->tan[1] ? apply(row, j->in[0], j->tan[1], at, NULL) : NULL;
    cj_tensor *sum = sum_of(left, right);
    if (j->nin > 2 && j->tan[2]) {
        cj_tensor *bias = over_points(j->tan[2], at.nd);
        sum = sum ? cj_add(sum, bias) : cj_expand(bias, cj__shape(j->out[0]));
    }
    j->tout[0] = sum;
}
static void j_conv(cj_jvp_args *j) { bilinear(j, CONV); }
static void j_data(cj_jvp_args *j) { bilinear(j, DATA); }
static void j_weight(cj_jvp_args *j) { bilinear(j, WEIGHT); }

#define ROW(op_name, part, inputs, outputs)                                                                                                \
    {                                                                                                                                      \
        .name = op_name, .family = "convolution", .kind = CJ_PRIMITIVE, .nin = inputs, .nout = outputs, .attr_size = sizeof(conv_attrs),   \
        .save_in = (1 << (inputs < 0 ? 2 : inputs)) - 1, .infer = infer_##part, .run = run_##part, .vjp = d_##part,                        \
        .jvp_rule = CJ_JVP_OWN, .jvp = j_##part, .flops = flops_##part                                                                     \
    }
const cj_op cj__ops_conv[] = {
    [CONV] = ROW("conv", conv, -1, 1),
    [DATA] = ROW("conv_data", data, 2, 1),
    [WEIGHT] = ROW("conv_weight", weight, 2, 1),
    [BOTH] = ROW("conv_gradients", both, 3, 2),
};
CJ_OP_TABLE(conv);

/* The row on row-major or channels-last images and row-major weights; `sized` gives the spatial sizes that the result has. */
static cj_tensor *apply(int row, cj_tensor *a, cj_tensor *b, conv_attrs attrs, const cj_tensor *sized)
{
    if (sized) spatial(sized, attrs.nd, attrs.size);
    return cj__apply(&cj__ops_conv[row], &attrs, (cj_tensor *[]){ cj__image(a), row == WEIGHT ? cj__image(b) : cj_contiguous(b) }, 2);
}

/* ---- what users call ------------------------------------------------------------------------------------------------------------------------------ */

bool cj__per_axis(cj_ctx *c, const char *op, const char *what, int64_t nd, int64_t all, cj_shape each, int64_t least, int64_t *out)
{
    if (each.ndim && each.ndim != nd) return cj__error(c, CJ_EVALUE, "%s: %d values of %s for %d axes", op, each.ndim, what, (int)nd);
    for (int64_t d = 0; d < nd; d++) {
        int64_t value = each.ndim ? each.dim[d] : all;
        if (value < least)
            return cj__error(c, CJ_EVALUE, "%s: %s %lld; at least %lld expected", op, what, (long long)value, (long long)least);
        if (value > INT32_MAX) return cj__error(c, CJ_EVALUE, "%s: %s %lld; at most %d is possible", op, what, (long long)value, INT32_MAX);
        out[3 - nd + d] = value;
    }
    return true;
}

static bool axes_of(cj_ctx *c, const char *op, const cj_tensor *x, const cj_tensor *w, int64_t *nd)
{
    *nd = w->ndim - 2;
    if (*nd < 1 || *nd > 3 || x->ndim != w->ndim)
        return cj__error(c, CJ_ESHAPE, "%s: input %s and weight %s; [N, C, ..] and [O, C, ..] with 1 to 3 spatial axes expected", op,
                         cj__tensor_text(x), cj__tensor_text(w));
    return true;
}

/* Attributes from options; *mode_padding: the padding is not of zeros and has to be made first. */
static bool attrs_of(cj_ctx *c, const cj_tensor *x, const cj_tensor *w, const cj_conv_opts *o, conv_attrs *a)
{
    *a = (conv_attrs){ .groups = o->groups ? o->groups : 1, .stride = { 1, 1, 1 }, .dilation = { 1, 1, 1 } };
    if (!axes_of(c, "conv", x, w, &a->nd)) return false;
    if (a->groups < 1) return cj__error(c, CJ_EVALUE, "conv: %lld groups", (long long)a->groups);
    if (!cj__per_axis(c, "conv", "stride", a->nd, o->stride ? o->stride : 1, o->strides, 1, a->stride) ||
        !cj__per_axis(c, "conv", "padding", a->nd, o->padding, o->paddings, 0, a->low) ||
        !cj__per_axis(c, "conv", "dilation", a->nd, o->dilation ? o->dilation : 1, o->dilations, 1, a->dilation))
        return false;
    memcpy(a->high, a->low, sizeof a->high);
    if ((unsigned)o->border > CJ_FULL) return cj__error(c, CJ_EVALUE, "conv: %d is no cj_border", (int)o->border);
    if (o->border == CJ_VALID) return true;
    if (o->padding || o->paddings.ndim) return cj__error(c, CJ_EVALUE, "conv: a padding is given and a border too");
    int64_t kernel[3];
    spatial(w, a->nd, kernel);
    for (int d = 0; d < 3; d++) {
        int64_t reach = a->dilation[d] * (kernel[d] - 1);
        if (o->border == CJ_SAME && a->stride[d] != 1) return cj__error(c, CJ_EVALUE, "conv: the border 'same' needs stride 1");
        a->low[d] = o->border == CJ_SAME ? reach / 2 : reach;
        a->high[d] = reach - (o->border == CJ_SAME ? reach / 2 : 0);
    }
    return true;
}

static cj_tensor *with_bias(cj_tensor *y, cj_tensor *bias, const char *op)
{
    if (!bias) return y;
    cj_ctx *c = y->ctx;
    if (c->error || !cj__usable(c, op, 2, bias)) return c->poison;
    if (bias->ndim != 1 || bias->shape[0] != y->shape[1])
        return cj_fail(c, CJ_ESHAPE, "%s: the bias has shape %s, [%lld] expected", op, cj__tensor_text(bias), (long long)y->shape[1]);
    return cj_add(y, over_points(bias, y->ndim - 2));
}

/* The kernels of f32 begin their sums with the bias. */
static bool takes_bias(const cj_tensor *x, const cj_tensor *w, const cj_tensor *bias, const conv_attrs *a)
{
    return bias && cj__usable(x->ctx, "conv", 2, bias) && a->groups == 1 && x->dtype == CJ_F32 && w->dtype == CJ_F32 &&
           bias->dtype == CJ_F32 && bias->ndim == 1 && bias->shape[0] == w->shape[0];
}

static bool usable_pair(const char *op, cj_tensor *x, cj_tensor *w)
{
    cj_ctx *c = x->ctx;
    return c->error == CJ_OK && cj__usable(c, op, 0, x) && cj__usable(c, op, 1, w);
}

cj_tensor *cj_conv(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts)
{
    if (!x) return CJ_MISSING("conv", x, weight);
    cj_ctx *c = x->ctx;
    conv_attrs a;
    cj_conv_opts o = opts ? *opts : (cj_conv_opts){ 0 };
    if (!usable_pair("conv", x, weight) || !attrs_of(c, x, weight, &o, &a)) return c->poison;
    if (o.mode != CJ_PAD_ZERO) {
        cj_shape low = { .ndim = (int)a.nd }, high = low;
        for (int d = 0; d < a.nd; d++) low.dim[d] = a.low[3 - a.nd + d], high.dim[d] = a.high[3 - a.nd + d];
        x = cj_pad(x, low, high, &(cj_pad_opts){ .mode = o.mode });
        memset(a.low, 0, sizeof a.low);
        memset(a.high, 0, sizeof a.high);
    }
    if (takes_bias(x, weight, bias, &a))
        return cj__apply(&cj__ops_conv[CONV], &a, (cj_tensor *[]){ cj__image(x), cj_contiguous(weight), cj_contiguous(bias) }, 3);
    return with_bias(apply(CONV, x, weight, a, NULL), bias, "conv");
}

cj_tensor *cj__conv_weight(cj_tensor *x, cj_tensor *g, cj_shape kernel, const cj_conv_opts *opts)
{
    cj_tensor like = { .ndim = (uint8_t)(kernel.ndim + 2) }; /* a weight of that size, for its shape */
    memcpy(like.shape + 2, kernel.dim, (size_t)kernel.ndim * sizeof(int64_t));
    conv_attrs a;
    if (!attrs_of(x->ctx, x, &like, opts, &a)) return x->ctx->poison;
    return apply(WEIGHT, x, g, a, &like);
}

void cj__conv_gradients(cj_tensor *g, cj_tensor *w, cj_tensor *x, const cj_conv_opts *opts, cj_tensor **out)
{
    conv_attrs a;
    out[0] = out[1] = x->ctx->poison;
    if (attrs_of(x->ctx, x, w, opts, &a)) gradients(g, w, x, a, out);
}

cj_tensor *cj_conv_transpose(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_transpose_opts *opts)
{
    static const char op[] = "conv_transpose";
    if (!x) return CJ_MISSING(op, x, weight);
    cj_ctx *c = x->ctx;
    cj_conv_transpose_opts o = opts ? *opts : (cj_conv_transpose_opts){ 0 };
    conv_attrs a = { .groups = o.groups ? o.groups : 1, .stride = { 1, 1, 1 }, .dilation = { 1, 1, 1 }, .size = { 1, 1, 1 } };
    int64_t extra[3] = { 0 }, in[3], kernel[3];
    if (!usable_pair(op, x, weight) || !axes_of(c, op, x, weight, &a.nd)) return c->poison;
    if (a.groups < 1) return cj_fail(c, CJ_EVALUE, "%s: %lld groups", op, (long long)a.groups);
    if (!cj__per_axis(c, op, "stride", a.nd, o.stride ? o.stride : 1, o.strides, 1, a.stride) ||
        !cj__per_axis(c, op, "padding", a.nd, o.padding, o.paddings, 0, a.low) ||
        !cj__per_axis(c, op, "dilation", a.nd, o.dilation ? o.dilation : 1, o.dilations, 1, a.dilation) ||
        !cj__per_axis(c, op, "output_padding", a.nd, o.output_padding, o.output_paddings, 0, extra))
        return c->poison;
    if (x->shape[1] % a.groups)
        return cj_fail(c, CJ_ESHAPE, "%s: %lld groups do not divide the %lld channels of the input", op, (long long)a.groups,
                       (long long)x->shape[1]);
    if (weight->shape[0] != x->shape[1])
        return cj_fail(c, CJ_ESHAPE, "%s: the weight %s is for %lld channels, the input %s has %lld", op, cj__tensor_text(weight),
                       (long long)weight->shape[0], cj__tensor_text(x), (long long)x->shape[1]);
    cj_shape rest = { .ndim = (int)a.nd };
    memcpy(a.high, a.low, sizeof a.high);
    spatial(x, a.nd, in);
    spatial(weight, a.nd, kernel);
    for (int d = 3 - (int)a.nd; d < 3; d++) {
        if (extra[d] >= a.stride[d] && extra[d] >= a.dilation[d])
            return cj_fail(c, CJ_EVALUE, "%s: output_padding %lld is not smaller than stride or dilation", op, (long long)extra[d]);
        if (extra[d] >= a.stride[d]) rest.dim[d - (3 - a.nd)] = extra[d] - a.stride[d] + 1; /* no window of that many more: zeros */
        a.size[d] = (in[d] - 1) * a.stride[d] - 2 * a.low[d] + a.dilation[d] * (kernel[d] - 1) + extra[d] - rest.dim[d - (3 - a.nd)] + 1;
        if (a.size[d] < 1)
            return cj_fail(c, CJ_ESHAPE, "%s: padding %lld leaves nothing of %s", op, (long long)a.low[d], cj__tensor_text(x));
    }
    return with_bias(cj_pad(apply(DATA, x, weight, a, NULL), (cj_shape){ .ndim = (int)a.nd }, rest, NULL), bias, op);
}

/* Position of every element of the padded axis in x. */
static cj_tensor *border_index(cj_ctx *c, cj_pad_mode mode, int64_t n, int64_t low, int64_t high)
{
    int64_t length = low + n + high;
    int64_t *at = cj__alloc(c, (size_t)length * sizeof *at);
    if (!at) return c->poison;
    for (int64_t i = 0; i < length; i++) {
        int64_t k = i - low;
        if (mode == CJ_PAD_CYCLIC) k = (k % n + n) % n;
        else if (mode == CJ_PAD_REPLICATE) k = k < 0 ? 0 : k >= n ? n - 1 : k;
        else k = k < 0 ? -k : k >= n ? 2 * n - 2 - k : k;
        at[i] = k;
    }
    cj_tensor *index = cj_from_i64(c, at, CJ_SHAPE(length));
    cj__free(c, at, (size_t)length * sizeof *at);
    return index;
}

cj_tensor *cj_pad(cj_tensor *x, cj_shape before, cj_shape after, const cj_pad_opts *opts)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    cj_pad_opts o = opts ? *opts : (cj_pad_opts){ 0 };
    if (c->error || !cj__usable(c, "pad", 0, x)) return c->poison;
    if ((unsigned)o.mode > CJ_PAD_REPLICATE) return cj_fail(c, CJ_EVALUE, "pad: %d is no cj_pad_mode", (int)o.mode);
    if (before.ndim != after.ndim || before.ndim < 1 || before.ndim > x->ndim)
        return cj_fail(c, CJ_ESHAPE, "pad: widths for %d and %d axes of %s; both sides need the same number of last axes", before.ndim,
                       after.ndim, cj__tensor_text(x));
    int first = x->ndim - before.ndim;
    bool any = false;
    for (int d = 0; d < before.ndim; d++) {
        int64_t n = x->shape[first + d], low = before.dim[d], high = after.dim[d];
        if (low < 0 || high < 0)
            return cj_fail(c, CJ_EVALUE, "pad: widths %lld and %lld; slices cut, pads do not", (long long)low, (long long)high);
        if (low > INT32_MAX || high > INT32_MAX)
            return cj_fail(c, CJ_EVALUE, "pad: widths %lld and %lld; at most %d is possible", (long long)low, (long long)high, INT32_MAX);
        int64_t most = o.mode == CJ_PAD_REFLECT ? n - 1 : o.mode == CJ_PAD_CYCLIC ? n : INT64_MAX;
        if (o.mode != CJ_PAD_ZERO && (low || high) && (low > most || high > most || n == 0))
            return cj_fail(c, CJ_EVALUE, "pad: widths %lld and %lld are too large for an axis of %lld in this mode", (long long)low,
                           (long long)high, (long long)n);
        any |= low || high;
    }
    if (!any) return x;
    if (o.mode != CJ_PAD_ZERO) {
        for (int d = 0; d < before.ndim; d++)
            if (before.dim[d] || after.dim[d])
                x = cj_index_select(x, first + d, border_index(c, o.mode, x->shape[first + d], before.dim[d], after.dim[d]));
        return x;
    }
    /* Zeros around x: the transpose of taking the middle out. */
    cj_strided_attrs s = { .base_ndim = x->ndim, .ndim = x->ndim };
    int64_t step = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int64_t low = d < first ? 0 : before.dim[d - first], high = d < first ? 0 : after.dim[d - first];
        s.shape[d] = x->shape[d];
        s.base[d] = low + x->shape[d] + high;
        s.stride[d] = step;
        s.offset += low * step;
        step *= s.base[d];
    }
    if (o.value == 0) return cj__as_strided_scatter(x, &s);
    cj_tensor *middle = cj__as_strided_scatter(cj_ones_like(x), &s);
    return cj_where(cj_gt_scalar(middle, 0), cj__as_strided_scatter(x, &s), cj__const_as(x, o.value));
}

cj_tensor *cj_locally_connected(cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts)
{
    static const char op[] = "locally_connected";
    if (!x) return CJ_MISSING(op, x, weight);
    cj_ctx *c = x->ctx;
    cj_conv_opts o = opts ? *opts : (cj_conv_opts){ 0 };
    if (!usable_pair(op, x, weight)) return c->poison;
    int nd = x->ndim - 2;
    if (nd < 1 || nd > 2 || weight->ndim != 2 + 2 * nd)
        return cj_fail(c, CJ_ESHAPE,
                       "%s: input %s, weight %s; [N, C, ..] and [O, C, positions .., kernel ..] with 1 or 2 spatial axes expected", op,
                       cj__tensor_text(x), cj__tensor_text(weight));
    int64_t stride[3] = { 1, 1, 1 }, pad[3] = { 0 };
    if ((o.groups && o.groups != 1) || (o.dilation && o.dilation != 1) || o.dilations.ndim || o.border != CJ_VALID)
        return cj_fail(c, CJ_EVALUE, "%s: takes stride and padding only", op);
    if (!cj__per_axis(c, op, "stride", nd, o.stride ? o.stride : 1, o.strides, 1, stride) ||
        !cj__per_axis(c, op, "padding", nd, o.padding, o.paddings, 0, pad))
        return c->poison;
    cj_shape width = { .ndim = nd };
    for (int d = 0; d < nd; d++) width.dim[d] = pad[3 - nd + d];
    x = cj_pad(x, width, width, &(cj_pad_opts){ .mode = o.mode });
    int64_t N = x->shape[0], C = x->shape[1], O = weight->shape[0], positions = 1, window = 1;
    for (int d = 0; d < nd; d++) {
        int64_t kernel = weight->shape[2 + nd + d];
        x = cj_unfold(x, 2 + d, kernel, stride[3 - nd + d]); /* [N, C, positions .., kernel ..] */
        if (c->error) return c->poison;
        if (x->shape[2 + d] != weight->shape[2 + d])
            return cj_fail(c, CJ_ESHAPE, "%s: %lld positions along axis %d, the weight %s has %lld", op, (long long)x->shape[2 + d], 2 + d,
                           cj__tensor_text(weight), (long long)weight->shape[2 + d]);
        positions *= x->shape[2 + d];
        window *= kernel;
    }
    if (weight->shape[1] != C)
        return cj_fail(c, CJ_ESHAPE, "%s: the weight %s sees %lld channels, the input has %lld", op, cj__tensor_text(weight),
                       (long long)weight->shape[1], (long long)C);
    /* a product per position: [P, N, C·k] · [P, C·k, O] */
    cj_shape out = { .ndim = nd + 2, .dim = { N, O } };
    for (int d = 0; d < nd; d++) out.dim[2 + d] = x->shape[2 + d];
    cj_tensor *rows =
        cj_reshape(cj_permute(cj_reshape(x, CJ_SHAPE(N, C, positions, window)), CJ_AXES(2, 0, 1, 3)), CJ_SHAPE(positions, N, C * window));
    cj_tensor *w = cj_reshape(cj_permute(cj_reshape(weight, CJ_SHAPE(O, C, positions, window)), CJ_AXES(2, 1, 3, 0)),
                              CJ_SHAPE(positions, C * window, O));
    cj_tensor *y = cj_reshape(cj_permute(cj_matmul(rows, w), CJ_AXES(1, 2, 0)), out);
    return with_bias(y, bias, op);
}
