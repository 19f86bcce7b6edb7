/* Two operators for samples, which must have the same bits at every level: products of matrices, blocked to fit the machine, and cj_exp do not promise that.
 *
 *     product   y[n, i] = sum over j = 0, 1, … of z[n, j] a[n mod B, j, i]        each product and each sum rounded
 *     exp       e^x
 *
 * One source for every level, compiled without contraction; over i the product is a loop that any compiler vectorises without changing a bit.
 */
#include <math.h>

#include "core/philox.h"
#include "math/dist.h"
#include "ops/ops.h"

/* ---- exp --------------------------------------------------------------------------------------------------------------------------------------- */

/* 2^k e^r, |r| <= log(2)/2, by 14 terms of the series (the next is below 2^-56); below e^-700 it is 0. */
double cj__even_exp(double x)
{
    if (!(x > -700)) return isnan(x) ? x : 0;
    if (x > 709.78) return INFINITY;
    const double k = floor(fma(x, 1.44269504088896340736, 0.5)),
                 r = fma(k, -1.90821492927058770002e-10, fma(k, -6.93147180369123816490e-01, x));
    double sum = 1;
    for (int i = 14; i > 0; i--) sum = fma(sum, r / i, 1);
    return cj_philox_float64((uint64_t)((int64_t)k + 1022) << 52) * sum * 2;
}

static bool infer_exp(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    if (!cj__contiguous(x)) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}
static void range_exp(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_call *call = arg;
    const cj_dtype t = (cj_dtype)call->out[0]->dtype;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        cj__store(t, call->out[0]->data + (size_t)i * cj_dtype_size(t), cj__even_exp(cj__load(call->in[0], i)));
}
static bool run_exp(cj_call *call)
{
    if (call->out[0]->numel) cj__parallel_for(call->ctx->pool, call->out[0]->numel, 1024, range_exp, call);
    return true;
}
static void d_exp(cj_vjp_args *v) { v->gin[0] = cj_mul(v->g[0], v->out[0]); }

/* ---- product ------------------------------------------------------------------------------------------------------------------------------------ */

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

const cj_op cj__ops_ordered[] = { { .name = "ordered_exp",
                                    .family = "draw",
                                    .kind = CJ_PRIMITIVE,
                                    .nin = 1,
                                    .nout = 1,
                                    .save_out = 1,
                                    .infer = infer_exp,
                                    .run = run_exp,
                                    .vjp = d_exp,
                                    .jvp_rule = CJ_JVP_ELEMENTWISE },
                                  { .name = "ordered_product",
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
    return cj_ok(z->ctx) ? cj_cast(cj__apply(&cj__ops_ordered[1], NULL, in, 2), t) : z->ctx->poison;
}

cj_tensor *cj__ordered_exp(cj_tensor *x)
{
    cj_tensor *dense = cj_contiguous(x);
    return cj_ok(x->ctx) ? cj__apply(&cj__ops_ordered[0], NULL, &dense, 1) : x->ctx->poison;
}
