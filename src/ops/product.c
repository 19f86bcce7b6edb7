/* Products: matmul and linear, both on the packed GEMM (kernels/cpu/gemm.h).  Transposed views cost nothing: the kernel takes any strides. */
#include "ops/product.h"

#include "ops/ops.h"

/* Describes c = a·b for one 2-D or batched pair; the batch dimensions of a, b and c must each be one stride. */
void cj__gemm_describe(cj_gemm *g, const cj_tensor *a, const cj_tensor *b, const cj_tensor *c)
{
    int na = a->ndim, nb = b->ndim, nc = c->ndim;
    *g = (cj_gemm){ .m = c->shape[nc - 2],
                    .n = c->shape[nc - 1],
                    .k = a->shape[na - 1],
                    .batch = 1,
                    .a = a->data,
                    .b = b->data,
                    .c = c->data,
                    .a_row = a->stride[na - 2],
                    .a_col = a->stride[na - 1],
                    .b_row = b->stride[nb - 2],
                    .b_col = b->stride[nb - 1],
                    .c_row = c->stride[nc - 2] };
}

bool cj__gemm_run(cj_ctx *c, cj_dtype t, const cj_gemm *g)
{
    if (g->m == 0 || g->n == 0 || g->batch == 0) return true;
    size_t bytes = c->k->gemm_workspace[t](g, c->threads);
    void *scratch = bytes ? cj__scratch(c, bytes) : NULL;
    if (bytes && !scratch) return false;
    c->k->gemm[t](c->pool, g, scratch);
    return true;
}

static bool float_pair(cj_call *call)
{
    const cj_tensor *a = call->in[0], *b = call->in[1];
    if (!cj_dtype_is_float((cj_dtype)a->dtype) || a->dtype != b->dtype)
        return cj__error(call->ctx, CJ_EDTYPE, "%s: dtypes %s x %s; both must be the same float type", call->op->name,
                         cj_dtype_name((cj_dtype)a->dtype), cj_dtype_name((cj_dtype)b->dtype));
    return true;
}

static bool infer_matmul(cj_call *call)
{
    const cj_tensor *a = call->in[0], *b = call->in[1];
    if (!float_pair(call)) return false;
    if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
        return cj__error(call->ctx, CJ_ESHAPE, "matmul: inner sizes differ: %s x %s", cj__tensor_text(a), cj__tensor_text(b));
    int n;
    int64_t shape[CJ_MAX_DIMS];
    if (!cj__broadcast(a->ndim - 2, a->shape, b->ndim - 2, b->shape, &n, shape))
        return cj__error(call->ctx, CJ_ESHAPE, "matmul: batch sizes do not broadcast: %s x %s", cj__tensor_text(a), cj__tensor_text(b));
    shape[n] = a->shape[a->ndim - 2];
    shape[n + 1] = b->shape[b->ndim - 1];
    return cj__out(call, 0, (cj_dtype)a->dtype, n + 2, shape);
}

/* Stride of t along batch dimension d of the result. */
static int64_t batch_stride(const cj_tensor *t, int d, int batch_dims)
{
    int own = d - (batch_dims - (t->ndim - 2));
    return own < 0 || t->shape[own] == 1 ? 0 : t->stride[own];
}

static bool run_matmul(cj_call *call)
{
    const cj_tensor *a = call->in[0], *b = call->in[1], *y = call->out[0];
    cj_gemm g;
    cj__gemm_describe(&g, a, b, y);
    int dims = y->ndim - 2;
    if (dims == 0) return cj__gemm_run(call->ctx, (cj_dtype)y->dtype, &g);
    /* Merge batch dimensions from the back while a and b both step evenly; y is fresh and does. */
    int64_t sa[CJ_MAX_DIMS], sb[CJ_MAX_DIMS], sy[CJ_MAX_DIMS], size[CJ_MAX_DIMS];
    int n = 0; /* innermost first */
    for (int d = dims - 1; d >= 0; d--) {
        if (y->shape[d] == 1) continue;
        int64_t ta = batch_stride(a, d, dims), tb = batch_stride(b, d, dims), ty = y->stride[d];
        if (n && ta == sa[n - 1] * size[n - 1] && tb == sb[n - 1] * size[n - 1]) {
            size[n - 1] *= y->shape[d];
            continue;
        }
        sa[n] = ta, sb[n] = tb, sy[n] = ty, size[n++] = y->shape[d];
    }
    if (n == 1 && sb[0] == 0 && sa[0] == g.m * g.a_row) { /* one tall product */
        g.m *= size[0];
        return cj__gemm_run(call->ctx, (cj_dtype)y->dtype, &g);
    }
    if (n) {
        g.batch = size[0];
        g.a_batch = sa[0];
        g.b_batch = sb[0];
        g.c_batch = sy[0];
    }
    int64_t outer = 1;
    for (int i = 1; i < n; i++) outer *= size[i];
    size_t elem = cj_dtype_size((cj_dtype)y->dtype);
    for (int64_t o = 0; o < outer; o++) {
        int64_t left = o, oa = 0, ob = 0, oy = 0;
        for (int i = 1; i < n; i++) {
            int64_t k = left % size[i];
            left /= size[i];
            oa += k * sa[i], ob += k * sb[i], oy += k * sy[i];
        }
        g.a = a->data + oa * (int64_t)elem;
        g.b = b->data + ob * (int64_t)elem;
        g.c = y->data + oy * (int64_t)elem;
        if (!cj__gemm_run(call->ctx, (cj_dtype)y->dtype, &g)) return false;
    }
    return true;
}

/* [.., r, c] as [.. * r, c]. */
static cj_tensor *rows_of(cj_tensor *x)
{
    int64_t rows = 1;
    for (int d = 0; d < x->ndim - 1; d++) rows *= x->shape[d];
    return x->ndim == 2 ? x : cj_reshape(x, CJ_SHAPE(rows, x->shape[x->ndim - 1]));
}

/* dA = G·Bᵀ, dB = Aᵀ·G; a matrix shared by a batch gets one tall product. */
static void d_matmul(cj_vjp_args *v)
{
    cj_tensor *a = v->in[0], *b = v->in[1], *g = v->g[0];
    if (v->need[0]) v->gin[0] = cj__sum_to(cj_matmul(g, cj_t(b)), a);
    if (v->need[1]) {
        if (b->ndim == 2 && a->ndim > 2 && a->numel) v->gin[1] = cj_matmul(cj_t(rows_of(a)), rows_of(g));
        else v->gin[1] = cj__sum_to(cj_matmul(cj_t(a), g), b);
    }
}
static void j_matmul(cj_jvp_args *j)
{
    cj_tensor *left = j->tan[0] ? cj_matmul(j->tan[0], j->in[1]) : NULL, *right = j->tan[1] ? cj_matmul(j->in[0], j->tan[1]) : NULL;
    j->tout[0] = left && right ? cj_add(left, right) : left ? left : right;
}
static double matmul_flops(const cj_call *call)
{
    return 2.0 * (double)call->out[0]->numel * (double)call->in[0]->shape[call->in[0]->ndim - 1];
}

/* ---- linear: x·Wᵀ + b ------------------------------------------------------------------------------------------------------------------------ */

static bool infer_linear(cj_call *call)
{
    const cj_tensor *x = call->in[0], *w = call->in[1], *b = call->nin > 2 ? call->in[2] : NULL;
    if (!float_pair(call)) return false;
    if (w->ndim != 2 || x->ndim < 1 || x->shape[x->ndim - 1] != w->shape[1])
        return cj__error(call->ctx, CJ_ESHAPE, "linear: input %s does not fit weight %s", cj__tensor_text(x), cj__tensor_text(w));
    if (b && (b->ndim != 1 || b->shape[0] != w->shape[0]))
        return cj__error(call->ctx, CJ_ESHAPE, "linear: bias %s does not fit weight %s", cj__tensor_text(b), cj__tensor_text(w));
    if (b && b->dtype != x->dtype)
        return cj__error(call->ctx, CJ_EDTYPE, "linear: the bias is %s, the input %s", cj_dtype_name((cj_dtype)b->dtype),
                         cj_dtype_name((cj_dtype)x->dtype));
    int64_t shape[CJ_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = w->shape[0];
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, shape);
}

void cj__linear_describe(cj_gemm *g, const cj_call *call)
{
    const cj_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
    *g = (cj_gemm){ .m = w->shape[1] ? x->numel / w->shape[1] : y->numel / (w->shape[0] ? w->shape[0] : 1),
                    .n = w->shape[0],
                    .k = w->shape[1],
                    .batch = 1,
                    .a = x->data,
                    .b = w->data,
                    .c = y->data,
                    .a_row = w->shape[1],
                    .a_col = 1,
                    .b_row = w->stride[1],
                    .b_col = w->stride[0],
                    .c_row = w->shape[0],
                    .bias = call->nin > 2 ? call->in[2]->data : NULL };
}

static bool run_linear(cj_call *call)
{
    cj_gemm g;
    cj__linear_describe(&g, call);
    return cj__gemm_run(call->ctx, (cj_dtype)call->out[0]->dtype, &g);
}

static bool define_linear(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs;
    out[0] = cj_matmul(in[0], cj_t(in[1]));
    if (nin > 2) out[0] = cj_add(out[0], in[2]);
    return true;
}

static void d_linear(cj_vjp_args *v)
{
    cj_tensor *x = v->in[0], *w = v->in[1], *g = v->g[0];
    cj_tensor *g2 = rows_of(g);
    /* the weights first: x is free before its gradient needs room */
    if (v->need[1]) v->gin[1] = cj_matmul(cj_t(g2), rows_of(x));
    if (v->need[0]) {
        v->gin[0] = cj_matmul(g2, w);
        if (x->ndim != 2) v->gin[0] = cj_reshape(v->gin[0], cj__shape(x));
    }
    if (v->nin > 2 && v->need[2]) v->gin[2] = cj_sum(g2, &(cj_reduce_opts){ .axes = CJ_AXIS(0) });
}
static void j_linear(cj_jvp_args *j)
{
    cj_tensor *t = NULL;
    if (j->tan[0]) t = cj_linear_op(j->tan[0], j->in[1], NULL);
    if (j->tan[1]) {
        cj_tensor *u = cj_linear_op(j->in[0], j->tan[1], NULL);
        t = t ? cj_add(t, u) : u;
    }
    if (j->nin > 2 && j->tan[2]) t = t ? cj_add(t, j->tan[2]) : cj_expand(j->tan[2], cj__shape(j->out[0]));
    j->tout[0] = t;
}

enum { MATMUL, LINEAR };
const cj_op cj__ops_product[] = {
    [MATMUL] = { .name = "matmul",
                 .family = "product",
                 .kind = CJ_PRIMITIVE,
                 .nin = 2,
                 .nout = 1,
                 .save_in = 3,
                 .infer = infer_matmul,
                 .run = run_matmul,
                 .vjp = d_matmul,
                 .jvp_rule = CJ_JVP_OWN,
                 .jvp = j_matmul,
                 .flops = matmul_flops },
    [LINEAR] = { .name = "linear",
                 .family = "product",
                 .kind = CJ_PRIMITIVE,
                 .nin = -1,
                 .nout = 1,
                 .save_in = 3,
                 .infer = infer_linear,
                 .run = run_linear,
                 .vjp = d_linear,
                 .jvp_rule = CJ_JVP_OWN,
                 .jvp = j_linear,
                 .define = define_linear,
                 .flops = matmul_flops },
};
CJ_OP_TABLE(product);

bool cj__op_is_matmul(const cj_op *op) { return op == &cj__ops_product[MATMUL]; }
bool cj__op_is_linear(const cj_op *op) { return op == &cj__ops_product[LINEAR]; }

cj_tensor *cj_matmul(cj_tensor *a, cj_tensor *b)
{
    cj_tensor *some = a ? a : b;
    if (!some) return NULL;
    cj_ctx *c = some->ctx;
    if (c->error || !cj__usable(c, "matmul", 0, a) || !cj__usable(c, "matmul", 1, b)) return c->poison;
    if (a->ndim == 0 || b->ndim == 0)
        return cj_fail(c, CJ_ESHAPE, "matmul: %s x %s: a 0-d operand", cj__tensor_text(a), cj__tensor_text(b));
    bool row = a->ndim == 1, column = b->ndim == 1;
    if ((row || column) && a->shape[a->ndim - 1] != b->shape[column ? 0 : b->ndim - 2])
        return cj_fail(c, CJ_ESHAPE, "matmul: inner sizes differ: %s x %s", cj__tensor_text(a), cj__tensor_text(b));
    if (row) a = cj_unsqueeze(a, 0);
    if (column) b = cj_unsqueeze(b, 1);
    cj_tensor *y = cj__apply(&cj__ops_product[MATMUL], NULL, (cj_tensor *[]){ a, b }, 2);
    if (column) y = cj_squeeze(y, -1);
    if (row) y = cj_squeeze(y, column ? -1 : -2);
    return y;
}

cj_tensor *cj_linear_op(cj_tensor *x, cj_tensor *weight, cj_tensor *bias)
{
    if (!x) return CJ_MISSING("linear", x, weight);
    if (x->ctx->error == CJ_OK && cj__usable(x->ctx, "linear", 0, x) && !cj__contiguous(x)) x = cj_contiguous(x);
    if (bias && !(bias->flags & CJ_T_POISON) && bias->st && !cj__contiguous(bias)) bias = cj_contiguous(bias);
    return cj__apply(&cj__ops_product[LINEAR], NULL, (cj_tensor *[]){ x, weight, bias }, bias ? 3 : 2);
}

cj_tensor *cj_dot(cj_tensor *a, cj_tensor *b)
{
    if (a && b && !cj_is_poison(a) && !cj_is_poison(b) && (a->ndim != 1 || b->ndim != 1))
        return cj_fail(a->ctx, CJ_ESHAPE, "dot: %s x %s are not vectors", cj__tensor_text(a), cj__tensor_text(b));
    cj_ctx *c = a ? a->ctx : b ? b->ctx : NULL;
    if (!c) return NULL;
    const cj_called was = cj__called(c, "dot", NULL);
    return cj__called_done(c, was, cj_matmul(a, b));
}

cj_tensor *cj_outer(cj_tensor *a, cj_tensor *b)
{
    if (a && b && !cj_is_poison(a) && !cj_is_poison(b) && (a->ndim != 1 || b->ndim != 1))
        return cj_fail(a->ctx, CJ_ESHAPE, "outer: %s x %s are not vectors", cj__tensor_text(a), cj__tensor_text(b));
    return cj_mul(cj_unsqueeze(a, 1), b);
}
