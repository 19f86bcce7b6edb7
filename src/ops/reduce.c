/* Reductions over one run of adjacent axes: [outer, len, inner] -> [outer, inner].  Several separate runs are reduced one after the other.
 *
 * Float sums are blocked (kernels/cpu/reduce.c), so the error grows with the logarithm of the length.
 */
#include <math.h>

#include "cajal/grad.h"
#include "ops/attrs.h"
#include "ops/ops.h"

/* The axes [first, last) as one dimension; false where the strides do not allow it. */
static bool merge(const cj_tensor *x, int first, int last, int64_t *size, int64_t *stride)
{
    *size = 1;
    *stride = 1;
    if (x->numel == 0) { /* without elements any strides do */
        for (int d = first; d < last; d++) *size *= x->shape[d];
        return true;
    }
    bool any = false;
    for (int d = last - 1; d >= first; d--) {
        if (x->shape[d] == 1) continue;
        if (!any) *stride = x->stride[d];
        else if (x->stride[d] != *size * *stride) return false;
        any = true;
        *size *= x->shape[d];
    }
    return true;
}

static bool as_three(const cj_tensor *x, const cj_reduce_attrs *a, int64_t size[3], int64_t stride[3])
{
    int mid = a->first, end = a->first + a->count;
    return merge(x, 0, mid, &size[0], &stride[0]) && merge(x, mid, end, &size[1], &stride[1]) &&
           merge(x, end, x->ndim, &size[2], &stride[2]);
}

static cj_dtype reduced_dtype(int code, cj_dtype t)
{
    if (code == CJ_RED_ARGMAX || code == CJ_RED_ARGMIN) return CJ_I64;
    if (code == CJ_RED_ANY || code == CJ_RED_ALL) return CJ_BOOL;
    if ((code == CJ_RED_SUM || code == CJ_RED_PROD) && !cj_dtype_is_float(t)) return CJ_I64;
    return t;
}

static bool infer_reduce(cj_call *call)
{
    const cj_reduce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS], len = 1;
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool inside = d >= a->first && d < a->first + a->count;
        if (inside) len *= x->shape[d];
        if (!inside) shape[n++] = x->shape[d];
        else if (a->keepdim) shape[n++] = 1;
    }
    if (len == 0 && a->code != CJ_RED_SUM && a->code != CJ_RED_PROD && a->code != CJ_RED_ANY && a->code != CJ_RED_ALL)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: nothing to choose from along the reduced axes of %s", call->op->name,
                         cj__tensor_text(x));
    int64_t s3[3], t3[3];
    if (!as_three(x, a, s3, t3)) return cj__error(call->ctx, CJ_ESTATE, "%s: input layout", call->op->name);
    return cj__out(call, 0, reduced_dtype(a->code, (cj_dtype)x->dtype), n, shape);
}

static bool run_reduce(cj_call *call)
{
    const cj_reduce_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t size[3], stride[3];
    if (!call->out[0]->numel || !as_three(x, a, size, stride)) return true;
    call->ctx->k->reduce(call->ctx->pool, (cj_reduce_code)a->code, (cj_dtype)x->dtype, x->data, size[0], size[1], size[2], stride[0],
                         stride[1], stride[2], call->out[0]->data, a->scale);
    return true;
}

/* The result with the reduced axes as size 1 again, stretched to the input. */
static cj_tensor *stretch(cj_tensor *r, const cj_tensor *x, const cj_reduce_attrs *a)
{
    cj_shape s = cj__shape(x);
    for (int d = a->first; d < a->first + a->count; d++) s.dim[d] = 1;
    return cj_expand(cj_reshape(r, s), cj__shape(x));
}

static void d_sum(cj_vjp_args *v) { v->gin[0] = stretch(v->g[0], v->in[0], v->attrs); }
static void d_mean(cj_vjp_args *v)
{
    const cj_reduce_attrs *a = v->attrs;
    v->gin[0] = stretch(cj_mul_scalar(v->g[0], a->scale), v->in[0], a);
}
/* Ties share the gradient evenly. */
static void d_extreme(cj_vjp_args *v)
{
    const cj_reduce_attrs *a = v->attrs;
    cj_tensor *mask = cj_cast(cj_eq(v->in[0], stretch(v->out[0], v->in[0], a)), (cj_dtype)v->in[0]->dtype);
    cj_reduce_opts o = { .keepdim = true };
    for (int d = 0; d < a->count; d++) o.axes.axis[o.axes.n++] = a->first + d;
    v->gin[0] = cj_mul(stretch(v->g[0], v->in[0], a), cj_div(mask, cj_sum(mask, &o)));
}
/* The product of the others: P/x without zeros; with one zero only that element has a derivative. */
static void d_prod(cj_vjp_args *v)
{
    const cj_reduce_attrs *a = v->attrs;
    cj_tensor *x = v->in[0], *one = cj__const(v->g[0], 1), *zero = cj__const(v->g[0], 0);
    cj_reduce_opts o = { .keepdim = true };
    for (int d = 0; d < a->count; d++) o.axes.axis[o.axes.n++] = a->first + d;
    cj_tensor *is_zero = cj_eq_scalar(x, 0);
    cj_tensor *rest = cj_where(is_zero, one, x);
    cj_tensor *p = cj_prod(rest, &o), *zeros = cj_sum(is_zero, &o);
    cj_tensor *others =
        cj_where(cj_eq_scalar(zeros, 0), cj_div(p, rest), cj_where(cj_logical_and(cj_eq_scalar(zeros, 1), is_zero), p, zero));
    v->gin[0] = cj_mul(stretch(v->g[0], x, a), others);
}

static double reduce_flops(const cj_call *call) { return (double)call->in[0]->numel; }

#define ROW(op_name, fl, si, so, rule, jr)                                                                                                 \
    {                                                                                                                                      \
        .name = op_name, .family = "reduction", .kind = CJ_PRIMITIVE, .flags = fl, .nin = 1, .nout = 1,                                    \
        .attr_size = sizeof(cj_reduce_attrs), .save_in = si, .save_out = so, .infer = infer_reduce, .run = run_reduce, .vjp = rule,        \
        .jvp_rule = jr, .flops = reduce_flops                                                                                              \
    }

enum { SUM, MEAN, PROD, MAX, MIN, ARGMAX, ARGMIN, ANY, ALL };
const cj_op cj__ops_reduce[] = {
    [SUM] = ROW("sum", 0, 0, 0, d_sum, CJ_JVP_LINEAR),
    [MEAN] = ROW("mean", 0, 0, 0, d_mean, CJ_JVP_LINEAR),
    [PROD] = ROW("prod", 0, 1, 0, d_prod, CJ_JVP_DERIVED),
    [MAX] = ROW("max", 0, 1, 1, d_extreme, CJ_JVP_DERIVED),
    [MIN] = ROW("min", 0, 1, 1, d_extreme, CJ_JVP_DERIVED),
    [ARGMAX] = ROW("argmax", CJ_OP_NOGRAD, 0, 0, NULL, CJ_JVP_NONE),
    [ARGMIN] = ROW("argmin", CJ_OP_NOGRAD, 0, 0, NULL, CJ_JVP_NONE),
    [ANY] = ROW("any", CJ_OP_NOGRAD, 0, 0, NULL, CJ_JVP_NONE),
    [ALL] = ROW("all", CJ_OP_NOGRAD, 0, 0, NULL, CJ_JVP_NONE),
};
CJ_OP_TABLE(reduce);

/* Which axes to reduce, as flags; false after an error. */
static bool mark_axes(cj_tensor *x, const char *op, const cj_axes *axes, bool on[CJ_MAX_DIMS])
{
    for (int d = 0; d < CJ_MAX_DIMS; d++) on[d] = !axes || axes->n == 0;
    if (!axes) return true;
    if (axes->n < 0 || axes->n > CJ_MAX_DIMS) return cj__error(x->ctx, CJ_EVALUE, "%s: %d axes", op, axes->n);
    for (int i = 0; i < axes->n; i++) {
        int d = cj__axis(x->ctx, op, axes->axis[i], x->ndim);
        if (d < 0) return false;
        if (on[d]) return cj__error(x->ctx, CJ_EVALUE, "%s: axis %d is given twice", op, d);
        on[d] = true;
    }
    return true;
}

static cj_tensor *reduce(int row, int code, cj_tensor *x, const cj_reduce_opts *o);

/* A channels-last image reduced over all of its spatial axes, and perhaps over its examples: [N, .., C] is row-major and has these axes side by side. */
static bool spatial_only(const cj_tensor *x, const bool on[CJ_MAX_DIMS])
{
    if (x->ndim < 3 || x->ndim > 5 || on[1] || cj__contiguous(x) || !cj__channels_last(x)) return false;
    for (int d = 2; d < x->ndim; d++)
        if (!on[d]) return false;
    return true;
}
static cj_tensor *reduce_spatial(int row, int code, cj_tensor *x, bool examples, bool keepdim)
{
    cj_axes last = { .n = x->ndim };
    cj_reduce_opts o = { 0 };
    cj_shape shape = { .ndim = x->ndim, .dim = { examples ? 1 : x->shape[0], x->shape[1], 1, 1, 1 } };
    for (int d = 1; d < x->ndim; d++) last.axis[d] = d + 1 < x->ndim ? d + 1 : 1;
    for (int d = examples ? 0 : 1; d < x->ndim - 1; d++) o.axes.axis[o.axes.n++] = d;
    cj_tensor *y = reduce(row, code, cj_permute(x, last), &o);
    return keepdim ? cj_reshape(y, shape) : y;
}

static cj_tensor *reduce(int row, int code, cj_tensor *x, const cj_reduce_opts *o)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    const cj_op *op = &cj__ops_reduce[row];
    if (c->error || !cj__usable(c, op->name, 0, x)) return c->poison;
    bool on[CJ_MAX_DIMS];
    if (!mark_axes(x, op->name, o ? &o->axes : NULL, on)) return c->poison;
    if ((row == MEAN) && !cj_dtype_is_float((cj_dtype)x->dtype))
        return cj_fail(c, CJ_EDTYPE, "mean: the input is %s; cast it to a float type", cj_dtype_name((cj_dtype)x->dtype));
    if (row != ARGMAX && row != ARGMIN && spatial_only(x, on)) return reduce_spatial(row, code, x, on[0], o && o->keepdim);
    double len = 1;
    for (int d = 0; d < x->ndim; d++)
        if (on[d]) len *= (double)x->shape[d];
    bool keepdim = o && o->keepdim;
    int last = x->ndim;
    bool first_run = true;
    do { /* runs of adjacent axes from the back, so that the axes in front keep their numbers */
        while (last > 0 && !on[last - 1]) last--;
        int first = last;
        while (first > 0 && on[first - 1]) first--;
        if (first == last && !first_run) break;
        cj_reduce_attrs a = { .first = first, .count = last - first, .code = code, .keepdim = keepdim };
        a.scale = row == MEAN && first_run ? 1 / len : 1; /* a second run of a mean is a plain sum */
        int64_t s3[3], t3[3];
        if (!as_three(x, &a, s3, t3)) x = cj_contiguous(x);
        x = cj__apply(first_run || row != MEAN ? op : &cj__ops_reduce[SUM], &a, &x, 1);
        first_run = false;
        last = first;
    } while (last > 0 && !(x->flags & CJ_T_POISON));
    return x;
}

cj_tensor *cj_sum(cj_tensor *x, const cj_reduce_opts *o) { return reduce(SUM, CJ_RED_SUM, x, o); }
cj_tensor *cj_mean(cj_tensor *x, const cj_reduce_opts *o) { return reduce(MEAN, CJ_RED_SUM, x, o); }
cj_tensor *cj_prod(cj_tensor *x, const cj_reduce_opts *o)
{
    if (!cj_is_poison(x) && !cj_dtype_is_float((cj_dtype)x->dtype)) x = cj_cast(x, CJ_I64);
    return reduce(PROD, CJ_RED_PROD, x, o);
}
cj_tensor *cj_max(cj_tensor *x, const cj_reduce_opts *o) { return reduce(MAX, CJ_RED_MAX, x, o); }
cj_tensor *cj_min(cj_tensor *x, const cj_reduce_opts *o) { return reduce(MIN, CJ_RED_MIN, x, o); }
cj_tensor *cj_any(cj_tensor *x, const cj_reduce_opts *o) { return reduce(ANY, CJ_RED_ANY, x, o); }
cj_tensor *cj_all(cj_tensor *x, const cj_reduce_opts *o) { return reduce(ALL, CJ_RED_ALL, x, o); }

static cj_tensor *arg_reduce(int row, int code, cj_tensor *x, const cj_reduce_opts *o)
{
    if (!cj__given(cj__ops_reduce[row].name, &x, 1)) return CJ_POISON_OF(x);
    if (o && o->axes.n > 1) return cj_fail(x->ctx, CJ_EVALUE, "%s: takes one axis, %d given", cj__ops_reduce[row].name, o->axes.n);
    if (!o || o->axes.n == 0) x = cj_flatten(x, 0);
    return reduce(row, code, x, o);
}
cj_tensor *cj_argmax(cj_tensor *x, const cj_reduce_opts *o) { return arg_reduce(ARGMAX, CJ_RED_ARGMAX, x, o); }
cj_tensor *cj_argmin(cj_tensor *x, const cj_reduce_opts *o) { return arg_reduce(ARGMIN, CJ_RED_ARGMIN, x, o); }

/* sum (x - mean)^2 / (n - 1) */
cj_tensor *cj_var(cj_tensor *x, const cj_var_opts *o)
{
    if (!x) return NULL;
    cj_var_opts v = o ? *o : (cj_var_opts){ 0 };
    const cj_called was = cj__called(x->ctx, "var", NULL);
    cj_tensor *d = cj_sub(x, cj_mean(x, &(cj_reduce_opts){ .axes = v.axes, .keepdim = true }));
    cj_tensor *s = cj_sum(cj_square(d), &(cj_reduce_opts){ .axes = v.axes, .keepdim = v.keepdim });
    x->ctx->called = was;
    if (cj_is_poison(s)) return s;
    double n = s->numel ? (double)x->numel / (double)s->numel : 0;
    return cj_mul_scalar(s, n > 0 ? 1 / (v.biased ? n : n - 1) : NAN); /* of nothing there is none */
}

/* max + log sum exp(x - max); an infinite maximum is not subtracted (inf - inf). */
cj_tensor *cj_logsumexp(cj_tensor *x, const cj_reduce_opts *o)
{
    if (!x) return NULL;
    cj_reduce_opts r = o ? *o : (cj_reduce_opts){ 0 }, keep = r;
    keep.keepdim = true;
    const cj_called was = cj__called(x->ctx, "logsumexp", NULL);
    cj_tensor *m = cj_detach(cj_max(x, &keep));
    m = cj_where(cj_isfinite(m), m, cj__const(x, 0));
    cj_tensor *s = cj_log(cj_sum(cj_exp(cj_sub(x, m)), &r));
    x->ctx->called = was;
    if (cj_is_poison(s)) return s;
    return cj_add(s, cj_reshape(m, cj__shape(s)));
}
