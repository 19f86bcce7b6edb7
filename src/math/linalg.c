/* What the rows of linear algebra share: checks of matrices, the loop over a batch with its faults, small pieces of rules. */
#include "math/linalg.h"

#include <float.h>
#include <math.h>

/* ---- checks ------------------------------------------------------------------------------------------------------------------------------------ */

bool cj__real_matrix(cj_ctx *c, const char *op, const cj_tensor *a, bool square)
{
    if (a->dtype != CJ_F32 && a->dtype != CJ_F64)
        return cj__error(c, CJ_EDTYPE, "%s: the matrix is %s; f32 or f64 expected", op, cj_dtype_name((cj_dtype)a->dtype));
    if (a->ndim < 2) return cj__error(c, CJ_ESHAPE, "%s: %s is not a matrix or a batch of matrices", op, cj__tensor_text(a));
    if (square && cj__rows(a) != cj__columns(a)) return cj__error(c, CJ_ESHAPE, "%s: the matrix %s is not square", op, cj__tensor_text(a));
    if (cj__rows(a) > CJ_LINALG_MOST || cj__columns(a) > CJ_LINALG_MOST)
        return cj__error(c, CJ_EVALUE, "%s: the matrix %s has more than %d rows or columns", op, cj__tensor_text(a), CJ_LINALG_MOST);
    return true;
}

bool cj__real_matrices(cj_call *call, bool square)
{
    const cj_tensor *a = call->in[0];
    const char *op = call->op->name;
    if (!cj__real_matrix(call->ctx, op, a, square)) return false;
    for (int i = 1; i < call->nin; i++) {
        const cj_tensor *b = call->in[i];
        if (b->dtype != a->dtype)
            return cj__error(call->ctx, CJ_EDTYPE, "%s: dtypes %s and %s; both must be the same", op, cj_dtype_name((cj_dtype)a->dtype),
                             cj_dtype_name((cj_dtype)b->dtype));
        bool fits = b->ndim == a->ndim && cj__rows(a) == cj__rows(b);
        for (int d = 0; d < a->ndim - 2 && fits; d++) fits = a->shape[d] == b->shape[d];
        if (!fits) return cj__error(call->ctx, CJ_ESHAPE, "%s: %s does not fit the matrix %s", op, cj__tensor_text(b), cj__tensor_text(a));
        if (!cj__contiguous(b)) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", op);
    }
    if (!cj__contiguous(a)) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", op);
    return true;
}

bool cj__together(const char *op, cj_tensor **pa, cj_tensor **pb, bool *vector)
{
    cj_tensor *a = *pa, *b = *pb;
    cj_ctx *c = a->ctx;
    *vector = b->ndim == 1 || (b->ndim == a->ndim - 1 && memcmp(b->shape, a->shape, b->ndim * sizeof b->shape[0]) == 0);
    if (*vector) b = cj_unsqueeze(b, -1);
    if (c->error) return false;
    if (b->ndim < 2 || cj__rows(a) != cj__rows(b))
        return cj__error(c, CJ_ESHAPE, "%s: the right-hand side %s does not fit the matrix %s", op, cj__tensor_text(*pb),
                         cj__tensor_text(a));
    cj_shape sa = { 0 }, sb;
    if (!cj__broadcast(a->ndim - 2, a->shape, b->ndim - 2, b->shape, &sa.ndim, sa.dim))
        return cj__error(c, CJ_ESHAPE, "%s: the batches of %s and %s do not broadcast", op, cj__tensor_text(a), cj__tensor_text(*pb));
    sb = sa;
    for (int d = 0; d < 2; d++) {
        sa.dim[sa.ndim++] = a->shape[a->ndim - 2 + d];
        sb.dim[sb.ndim++] = b->shape[b->ndim - 2 + d];
    }
    *pa = cj_contiguous(cj_expand(a, sa));
    *pb = cj_contiguous(cj_expand(b, sb));
    return c->error == CJ_OK;
}

bool cj__out_batch(cj_call *call, int j, int n, const int64_t *last)
{
    const cj_tensor *a = call->in[0];
    int64_t shape[CJ_MAX_DIMS];
    if (a->ndim - 2 + n > CJ_MAX_DIMS)
        return cj__error(call->ctx, CJ_ESHAPE, "%s: the result of %s has more than %d axes", call->op->name, cj__tensor_text(a),
                         CJ_MAX_DIMS);
    memcpy(shape, a->shape, sizeof shape);
    for (int d = 0; d < n; d++) shape[a->ndim - 2 + d] = last[d];
    return cj__out(call, j, (cj_dtype)a->dtype, a->ndim - 2 + n, shape);
}

/* ---- the loop over a batch --------------------------------------------------------------------------------------------------------------------- */

int64_t cj__item_bytes(const cj_tensor *x, int axes)
{
    int64_t n = (int64_t)cj_dtype_size((cj_dtype)x->dtype);
    for (int d = 0; d < axes; d++) n *= x->shape[x->ndim - 1 - d];
    return n;
}
void *cj__item(const cj_tensor *x, int axes, int64_t i) { return x->data + i * cj__item_bytes(x, axes); }

/* The first element of n that is NaN or infinite, or -1. */
static int64_t not_finite(const cj_cpu_kernels *k, const cj_tensor *x, int64_t begin, int64_t n)
{
    const cj_dtype t = (cj_dtype)x->dtype;
    if (k->finite(t, x->data + begin * (int64_t)cj_dtype_size(t), n)) return -1;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(cj__load(x, begin + i))) return i;
    return -1;
}

/* Looks through matrices [begin, end) of the checked arguments; false with the first fault. */
static bool all_finite(const cj_batch_job *j, int64_t begin, int64_t end, cj_fault *fault)
{
    const int64_t size = (int64_t)cj_dtype_size(j->t);
    for (int arg = 0; arg < j->checked; arg++) {
        const cj_tensor *x = j->call->in[arg];
        int64_t each = cj__item_bytes(x, 2) / size, at = not_finite(j->call->ctx->k, x, begin * each, (end - begin) * each);
        if (at < 0) continue;
        *fault = (cj_fault){ CJ_FAULT_FIRST + arg, begin + at / each, at % each };
        return false;
    }
    return true;
}

static void chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_batch_job *j = arg;
    cj_fault *fault = &j->fault[begin / j->grain];
    void *work = j->scratch + (size_t)worker * j->work;
    *fault = (cj_fault){ 0 };
    if (!j->group) {
        for (int64_t i = begin; i < end && all_finite(j, i, i + 1, fault) && !fault->kind; i++) {
            int64_t pivot = j->each(j, i, work);
            if (pivot) *fault = (cj_fault){ CJ_FAULT_PIVOT, i, pivot };
        }
        return;
    }
    /* as many at a time as the first cache holds after they were looked at */
    int32_t pivot[CJ_GROUP];
    const int64_t lanes = 64 / (int64_t)cj_dtype_size(j->t), few = 16384 / (cj__item_bytes(j->call->in[0], 2) + 1) / lanes * lanes;
    const int64_t most = few < lanes ? lanes : few < CJ_GROUP ? few : CJ_GROUP;
    for (int64_t i = begin; i < end && !fault->kind; i += most) {
        int64_t count = end - i < most ? end - i : most;
        if (!all_finite(j, i, i + count, fault)) return;
        j->group(j, i, count, pivot, work);
        for (int64_t k = 0; k < count && !fault->kind; k++)
            if (pivot[k]) *fault = (cj_fault){ CJ_FAULT_PIVOT, i + k, pivot[k] };
    }
}

static bool report(const cj_batch_job *j, const cj_fault *f, const char *wrong)
{
    const char *op = j->call->op->name;
    cj_ctx *c = j->call->ctx;
    char place[64] = "";
    if (j->items > 1) snprintf(place, sizeof place, " %lld of the batch", (long long)f->item);
    if (f->kind == CJ_FAULT_PIVOT) return cj__error(c, CJ_EVALUE, "%s: the matrix%s %s %lld", op, place, wrong, (long long)f->at);
    const cj_tensor *x = j->call->in[f->kind - CJ_FAULT_FIRST];
    int64_t columns = cj__columns(x), element = f->item * (cj__item_bytes(x, 2) / (int64_t)cj_dtype_size(j->t)) + f->at;
    double v = cj__load(x, element);
    return cj__error(c, CJ_EVALUE, "%s: element [%lld, %lld] of the %s%s is %s", op, (long long)(f->at / columns),
                     (long long)(f->at % columns), f->kind == CJ_FAULT_FIRST ? "matrix" : "right-hand side", place,
                     v != v ? "NaN" : "infinite");
}

void cj__batch_place(cj_batch_job *j)
{
    const cj_ctx *c = j->call->ctx;
    const bool alone = j->items == 1 && c->pool;
    j->dense = cj__dense();
    j->on = (cj_dense_place){ c->k, alone ? c->pool : NULL, alone ? c->threads : 1 };
}

bool cj__batch_run(cj_batch_job *j, const char *wrong)
{
    cj_ctx *c = j->call->ctx;
    if (j->items == 0) return true;
    double grain = 5e4 / (j->cost > 1 ? j->cost : 1);
    j->grain = grain < 1 ? 1 : (int64_t)grain;
    if (j->group) j->grain = (j->grain + 63) / 64 * 64;
    const int64_t chunks = (j->items + j->grain - 1) / j->grain;
    const size_t faults = ((size_t)chunks * sizeof(cj_fault) + 63) / 64 * 64;
    j->work = (j->work + 63) / 64 * 64;
    j->fault = cj__scratch(c, faults + j->work * (size_t)c->threads);
    if (!j->fault) return false;
    j->scratch = (char *)j->fault + faults;
    cj__parallel_for(c->pool, j->items, j->grain, chunk, j);
    for (int64_t i = 0; i < chunks; i++)
        if (j->fault[i].kind) return report(j, &j->fault[i], wrong);
    return true;
}

/* ---- pieces of rules --------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj__reciprocal_or_zero(cj_tensor *d, cj_tensor *tiny)
{
    cj_tensor *zero = cj_le(cj_abs(d), tiny);
    return cj_masked_fill(cj_reciprocal(cj_masked_fill(d, zero, 1)), zero, 0);
}

cj_tensor *cj__rounding_of(cj_tensor *w)
{
    if (w->ctx->error) return w->ctx->poison;
    double eps = w->dtype == CJ_F64 ? DBL_EPSILON : (double)FLT_EPSILON, n = (double)w->shape[w->ndim - 1];
    cj_tensor *largest = cj_max(cj_abs(w), &(cj_reduce_opts){ .axes = CJ_AXIS(-1), .keepdim = true });
    return cj_mul_scalar(cj_unsqueeze(largest, -1), n * eps);
}

cj_tensor *cj__safe_root(cj_tensor *s)
{
    cj_tensor *zero = cj_le_scalar(s, 0);
    return cj_masked_fill(cj_sqrt(cj_masked_fill(s, zero, 1)), zero, 0);
}
