/* Penalties on parameters, to be added to a loss, and the max-norm constraint. */
#include <math.h>

#include "nn/nn.h"

/* l1·sum |w| + l2·sum w² over all parameters */
static cj_tensor *penalty(const cj_params *p, double l1, double l2, const char *op)
{
    if (!p) return NULL;
    cj_ctx *c = p->ctx;
    if (c->error) return c->poison;
    if (!(l1 >= 0 && l2 >= 0)) return cj_fail(c, CJ_EVALUE, "%s: weights %g and %g; neither is negative", op, l1, l2);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *sum = cj_scalar(c, 0);
    for (int i = 0; i < p->n; i++) {
        cj_tensor *w = p->item[i].tensor;
        if (l1 > 0) sum = cj_add(sum, cj_mul_scalar(cj_sum(cj_abs(w), NULL), l1));
        if (l2 > 0) sum = cj_add(sum, cj_mul_scalar(cj_sum(cj_square(w), NULL), l2));
    }
    cj__frame_close(c, frame, &sum, 1);
    return sum;
}
cj_tensor *cj_l1_penalty(const cj_params *p) { return penalty(p, 1, 0, "l1_penalty"); }
cj_tensor *cj_l2_penalty(const cj_params *p) { return penalty(p, 0, 1, "l2_penalty"); }
cj_tensor *cj_elastic_net_penalty(const cj_params *p, double l1, double l2) { return penalty(p, l1, l2, "elastic_net_penalty"); }

cj_tensor *cj_max_norm_(cj_tensor *w, double most)
{
    if (!w) return NULL;
    cj_ctx *c = w->ctx;
    if (c->error || !cj__usable(c, "max_norm_", 0, w)) return c->poison;
    if (!cj_dtype_is_float((cj_dtype)w->dtype) || w->ndim < 1)
        return cj_fail(c, CJ_ESHAPE, "max_norm_: %s %s; floats [units, ..] expected", cj_dtype_name((cj_dtype)w->dtype),
                       cj__tensor_text(w));
    if (!(most > 0)) return cj_fail(c, CJ_EVALUE, "max_norm_: norm %g; more than 0 expected", most);
    bool grad = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    cj_axes others = { 0 };
    for (int d = 1; d < w->ndim; d++) others.axis[others.n++] = d;
    cj_tensor *norm = others.n ? cj_sqrt(cj_sum(cj_square(w), &(cj_reduce_opts){ .axes = others, .keepdim = true })) : cj_abs(w);
    /* rows within the bound are divided by 1: they keep their bits */
    cj_assign_(w, cj_div(w, cj_clamp(cj_mul_scalar(norm, 1 / most), 1, INFINITY)));
    cj_scope_close(s);
    cj_grad_mode(c, grad);
    return c->error ? c->poison : w;
}
