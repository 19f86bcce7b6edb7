/* Two samples: do they have one law?  The maximum mean discrepancy (Gretton et al. 2012) and p-values by permutation (Fisher 1935). */
#include <math.h>

#include "cajal/grad.h"
#include "cajal/math.h"
#include "core/core.h"

static bool rows_alike(const char *op, cj_tensor *x, cj_tensor *y, int ndim)
{
    cj_ctx *c = x ? x->ctx : y ? y->ctx : NULL;
    if (!c || c->error || !cj__usable(c, op, 0, x) || !cj__usable(c, op, 1, y)) return false;
    bool fit = x->ndim == y->ndim && x->ndim >= 1 && (!ndim || x->ndim == ndim) && x->dtype == y->dtype;
    for (int d = 1; fit && d < x->ndim; d++) fit = x->shape[d] == y->shape[d];
    if (!fit)
        return cj__error(c, CJ_ESHAPE, "%s: samples %s and %s; rows of one shape and dtype expected", op, cj__tensor_text(x),
                         cj__tensor_text(y));
    return true;
}

static cj_tensor *squared_distances(cj_tensor *a, cj_tensor *b)
{
    const cj_reduce_opts last = { .axes = CJ_AXIS(-1) };
    return cj_sum(cj_square(cj_sub(cj_unsqueeze(a, 1), cj_unsqueeze(b, 0))), &last);
}

static cj_tensor *kernel(cj_tensor *a, cj_tensor *b, double s, bool linear)
{
    return linear ? cj_matmul(a, cj_t(b)) : cj_exp(cj_mul_scalar(squared_distances(a, b), -0.5 / (s * s)));
}

/* Over pairs of different rows; biased: over all pairs. */
static cj_tensor *mean_of_pairs(cj_tensor *k, bool biased)
{
    if (biased) return cj_mean(k, NULL);
    double n = (double)k->shape[0];
    return cj_mul_scalar(cj_sub(cj_sum(k, NULL), cj_sum(cj_diagonal(k, 0, 0, 1), NULL)), 1 / (n * (n - 1)));
}

static double median_distance(cj_tensor *x, cj_tensor *y)
{
    cj_tensor *rows[] = { cj_detach(x), cj_detach(y) }, *all = cj_cat(rows, 2, 0);
    int64_t n = cj_size(all, 0);
    cj_tensor *pair = cj_cast(cj_triu(cj_ones(cj_tensor_ctx(x), CJ_SHAPE(n, n), CJ_F32), 1), CJ_BOOL);
    return sqrt(cj_item(cj_median(cj_masked_select(squared_distances(all, all), pair), 0).values));
}

cj_tensor *cj_mmd(cj_tensor *x, cj_tensor *y, const cj_mmd_opts *opts)
{
    static const char op[] = "mmd";
    const cj_mmd_opts o = opts ? *opts : (cj_mmd_opts){ 0 };
    if (!rows_alike(op, x, y, 2)) return x ? x->ctx->poison : y ? y->ctx->poison : NULL;
    cj_ctx *c = x->ctx;
    const int64_t least = o.biased ? 1 : 2;
    if (x->shape[0] < least || y->shape[0] < least)
        return cj_fail(c, CJ_EVALUE, "%s: samples of %lld and %lld rows; at least %lld expected", op, (long long)x->shape[0],
                       (long long)y->shape[0], (long long)least);
    if (!(o.bandwidth >= 0 && isfinite(o.bandwidth))) return cj_fail(c, CJ_EVALUE, "%s: bandwidth %g", op, o.bandwidth);
    double s = o.bandwidth > 0 || o.linear ? o.bandwidth : median_distance(x, y);
    if (!o.linear && s == 0) s = 1; /* all rows are the same: any bandwidth gives 0 */
    cj_tensor *same = cj_add(mean_of_pairs(kernel(x, x, s, o.linear), o.biased), mean_of_pairs(kernel(y, y, s, o.linear), o.biased));
    return cj_sub(same, cj_mul_scalar(cj_mean(kernel(x, y, s, o.linear), NULL), 2));
}

double cj_permutation_test(cj_tensor *x, cj_tensor *y, cj_statistic_fn fn, void *user, int64_t times)
{
    static const char op[] = "permutation_test";
    if (!rows_alike(op, x, y, 0)) return NAN;
    cj_ctx *c = x->ctx;
    if (!fn || times < 1) {
        cj_fail(c, CJ_EVALUE, "%s: %lld deals of %s", op, (long long)times, fn ? "a statistic" : "no statistic");
        return NAN;
    }
    int64_t n = cj_size(x, 0), all = n + cj_size(y, 0), reached = 0;
    bool was = cj_no_grad(c);
    cj_scope outer = cj_scope_open(c);
    cj_tensor *both[] = { x, y }, *rows = cj_cat(both, 2, 0);
    double given = fn(user, x, y);
    for (int64_t i = 0; i < times && !c->error; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *deal = cj_argsort(cj_rand(c, CJ_SHAPE(all), &(cj_random_opts){ .stream = CJ_STREAM_SAMPLING }), 0, NULL);
        cj_tensor *mixed = cj_index_select(rows, 0, deal);
        reached += fn(user, cj_slice(mixed, 0, 0, n, 1), cj_slice(mixed, 0, n, all, 1)) >= given;
        cj_scope_close(s);
    }
    cj_scope_close(outer);
    cj_grad_mode(c, was);
    return c->error ? NAN : (double)(1 + reached) / (double)(1 + times);
}
