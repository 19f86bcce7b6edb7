/* Constructions of approximation theory: bumps and towers of sigmoids, interpolants as ReLU layers, Bernstein polynomials. */
#include <math.h>

#include "cajal/study.h"
#include "core/core.h"

cj_tensor *cj_bump(cj_tensor *x, double a, double b, double k)
{
    if (!x || x->ctx->error) return x ? x->ctx->poison : NULL;
    if (!(a < b) || !(k > 0))
        return cj_fail(x->ctx, CJ_EVALUE, "bump: from %g to %g with steepness %g; a < b and a positive steepness expected", a, b, k);
    return cj_sub(cj_sigmoid(cj_mul_scalar(cj_add_scalar(x, -a), k)), cj_sigmoid(cj_mul_scalar(cj_add_scalar(x, -b), k)));
}

cj_tensor *cj_tower(cj_tensor *x, const double *low, const double *high, double k1, double k2)
{
    if (!x || x->ctx->error || !cj__usable(x->ctx, "tower", 0, x)) return x ? x->ctx->poison : NULL;
    if (x->ndim != 2 || !x->shape[1]) return cj_fail(x->ctx, CJ_ESHAPE, "tower: x is %s; [n, d] expected", cj__tensor_text(x));
    cj_tensor *sum = NULL;
    for (int64_t j = 0; j < x->shape[1]; j++) {
        cj_tensor *bump = cj_bump(cj_select(x, 1, j), low[j], high[j], k1);
        sum = sum ? cj_add(sum, bump) : bump;
    }
    return cj_sigmoid(cj_mul_scalar(cj_add_scalar(sum, 0.5 - (double)x->shape[1]), k2));
}

bool cj_relu_interpolant(const double *x, const double *y, int64_t n, cj_relu_form *out, double *jump)
{
    if (n < 2) return false;
    for (int64_t i = 0; i + 1 < n; i++)
        if (!(x[i] < x[i + 1])) return false;
    double slope = (y[1] - y[0]) / (x[1] - x[0]), last = slope;
    *out = (cj_relu_form){ .offset = y[0] - slope * x[0], .slope = slope, .abs_offset = y[0] - slope * x[0], .abs_slope = slope };
    jump[0] = jump[n - 1] = 0;
    for (int64_t i = 1; i + 1 < n; i++) {
        double next = (y[i + 1] - y[i]) / (x[i + 1] - x[i]);
        jump[i] = next - last, last = next;
        out->abs_slope += jump[i] / 2; /* relu(z) = (z + |z|)/2 */
        out->abs_offset -= jump[i] / 2 * x[i];
    }
    return true;
}

double cj_bernstein(const double *y, int64_t n, double t, double *work)
{
    if (n < 0) return NAN;
    memcpy(work, y, (size_t)(n + 1) * sizeof *work);
    for (int64_t level = n; level > 0; level--)
        for (int64_t i = 0; i < level; i++) work[i] = (1 - t) * work[i] + t * work[i + 1];
    return work[0];
}
