/* A product of vectors with a matrix whose sums run in one order: the correlated samples of a Gaussian must have the same bits at every level, which products of
 * matrices, blocked to fit the machine, do not promise.
 *
 *     y[n, i] = sum over j = 0, 1, … of z[n, j] a[n mod B, j, i]        each product and each sum rounded
 *
 * One source for every level, compiled without contraction; over i it is a loop that any compiler vectorises without changing a bit.
 */
#include "math/dist.h"
#include "ops/ops.h"

static bool infer(cj_call *call)
{
    const cj_tensor *z = call->in[0], *a = call->in[1];
    cj_shape shape = { .ndim = z->ndim };
    const int64_t matrix = a->ndim > 1 ? a->shape[a->ndim - 2] * a->shape[a->ndim - 1] : 0;
    if (z->ndim < 1 || a->ndim < 2 || z->dtype != a->dtype || !cj__contiguous(z) || !cj__contiguous(a) ||
        z->shape[z->ndim - 1] != a->shape[a->ndim - 2] || (matrix && z->numel % (a->numel / matrix)))
        return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    for (int d = 0; d < z->ndim; d++) shape.dim[d] = d + 1 < z->ndim ? z->shape[d] : a->shape[a->ndim - 1];
    return cj__out(call, 0, (cj_dtype)z->dtype, shape.ndim, shape.dim);
}

#define ROWS(name, real)                                                                                                                   \
    static void name(const cj_call *call, int64_t begin, int64_t end)                                                                      \
    {                                                                                                                                      \
        const cj_tensor *z = call->in[0], *a = call->in[1];                                                                                \
        const int64_t k = a->shape[a->ndim - 2], m = a->shape[a->ndim - 1], batch = k ? a->numel / (k * m) : 1;                            \
        for (int64_t n = begin; n < end; n++) {                                                                                            \
            const real *zn = (const real *)(const void *)z->data + n * k;                                                                  \
            const real *an = (const real *)(const void *)a->data + n % batch * k * m;                                                      \
            real *restrict y = (real *)(void *)call->out[0]->data + n * m;                                                                 \
            for (int64_t i = 0; i < m; i++) y[i] = 0;                                                                                      \
            for (int64_t j = 0; j < k; j++)                                                                                                \
                for (int64_t i = 0; i < m; i++) y[i] += zn[j] * an[j * m + i];                                                             \
        }                                                                                                                                  \
    }
ROWS(rows_f32, float)
ROWS(rows_f64, double)

static void range(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_call *call = arg;
    (void)worker;
    (call->out[0]->dtype == CJ_F64 ? rows_f64 : rows_f32)(call, begin, end);
}
static bool run(cj_call *call)
{
    const cj_tensor *y = call->out[0];
    if (y->numel) cj__parallel_for(call->ctx->pool, y->numel / y->shape[y->ndim - 1], 64, range, call);
    return true;
}

/* g_z = g·aᵀ; g_a = sum over the rows n of one matrix of z gᵀ. */
static void d_ordered(cj_vjp_args *v)
{
    cj_tensor *z = v->in[0], *a = v->in[1], *g = v->g[0];
    if (v->need[0]) v->gin[0] = a->ndim == 2 ? cj_matmul(g, cj_t(a)) : cj_squeeze(cj_matmul(cj_unsqueeze(g, -2), cj_t(a)), -2);
    if (!v->need[1]) return;
    const int64_t k = a->shape[a->ndim - 2], m = a->shape[a->ndim - 1], batch = k && m ? a->numel / (k * m) : 1;
    cj_tensor *left = cj_permute(cj_reshape(z, CJ_SHAPE(-1, batch, k)), CJ_AXES(1, 2, 0));
    cj_tensor *right = cj_permute(cj_reshape(g, CJ_SHAPE(-1, batch, m)), CJ_AXES(1, 0, 2));
    v->gin[1] = cj_reshape(cj_matmul(left, right), cj__shape(a));
}

const cj_op cj__ops_ordered[] = { { .name = "ordered_product",
                                    .family = "draw",
                                    .kind = CJ_PRIMITIVE,
                                    .nin = 2,
                                    .nout = 1,
                                    .save_in = 3,
                                    .infer = infer,
                                    .run = run,
                                    .vjp = d_ordered,
                                    .jvp_rule = CJ_JVP_DERIVED } };
CJ_OP_TABLE(ordered);

cj_tensor *cj__ordered_product(cj_tensor *z, cj_tensor *a)
{
    const cj_dtype t = cj__promote_n((cj_tensor *[]){ z, a }, 2), inner = t == CJ_F64 ? CJ_F64 : CJ_F32;
    cj_tensor *in[2] = { cj_contiguous(cj_cast(z, inner)), cj_contiguous(cj_cast(a, inner)) };
    return cj_ok(z->ctx) ? cj_cast(cj__apply(&cj__ops_ordered[0], NULL, in, 2), t) : z->ctx->poison;
}
