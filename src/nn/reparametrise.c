/* Layers whose weight is a function of other parameters: weight norm and spectral norm.
 *
 * The layer stays the layer it was: before each pass its weight is computed from the members that replace it, so gradients reach those.  Names are PyTorch's
 * (torch.nn.utils.weight_norm, spectral_norm).
 */
#include <math.h>

#include "nn/nn.h"

/* ---- weight norm: w = g · v / |v| ------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *weight_norm_value(cj_module *m, const cj_reparametrisation *r)
{
    (void)m;
    return cj_weight_norm(r->original, r->scale, r->axis);
}

cj_module *cj_weight_norm_layer(cj_module *layer, cj_axes axis)
{
    static const char op[] = "weight_norm layer";
    if (!cj__module_can_reparametrise(layer, op)) return NULL;
    cj_ctx *c = cj_module_ctx(layer);
    cj_tensor *v = cj__module_own(layer, "weight");
    int along = axis.n ? axis.axis[0] : 0;
    along = along < 0 ? along + v->ndim : along;
    if (axis.n > 1 || along < 0 || along >= v->ndim) {
        cj_fail(c, CJ_EINDEX, "%s: axis %d of a weight %s", op, axis.axis[0], cj__tensor_text(v));
        return NULL;
    }
    cj_reparametrisation r = { .value = weight_norm_value, .axis = along };
    bool grad = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    cj_norm_opts others = { .keepdim = true };
    for (int d = 0; d < v->ndim; d++)
        if (d != along) others.axes.axis[others.axes.n++] = d;
    r.scale = cj_module_param(layer, "weight_g", cj_norm(v, 2, &others)); /* so that the first weight is v itself */
    cj_scope_close(s);
    cj_grad_mode(c, grad);
    return !c->error && cj__module_reparametrise(layer, &r, "weight_v") ? layer : NULL;
}

/* ---- spectral norm: w / sigma(w) ---------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *spectral_norm_value(cj_module *m, const cj_reparametrisation *r)
{
    cj_spectral_opts o = { .v = r->right, .iterations = r->iterations, .eps = r->eps, .eval = !cj_module_training(m) };
    return cj_spectral_norm(r->original, r->left, &o).value;
}

/* a normal vector of length 1 */
static cj_tensor *direction(cj_ctx *c, int64_t n, cj_dtype dtype)
{
    cj_random_opts draw = { .stream = CJ_STREAM_INIT, .dtype = dtype };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(n), &draw);
    return cj_div(x, cj_norm(x, 2, NULL));
}

cj_module *cj_spectral_norm_layer(cj_module *layer, const cj_spectral_norm_layer_opts *opts)
{
    static const char op[] = "spectral_norm layer";
    cj_spectral_norm_layer_opts o = opts ? *opts : (cj_spectral_norm_layer_opts){ 0 };
    if (!cj__module_can_reparametrise(layer, op)) return NULL;
    cj_ctx *c = cj_module_ctx(layer);
    if (o.iterations < 0 || !(o.eps >= 0)) {
        cj_fail(c, CJ_EVALUE, "%s: %lld iterations, eps %g; neither is negative", op, (long long)o.iterations, o.eps);
        return NULL;
    }
    cj_tensor *w = cj__module_own(layer, "weight");
    cj_dtype wide = w->dtype == CJ_F64 ? CJ_F64 : CJ_F32;
    cj_reparametrisation r = { .value = spectral_norm_value, .iterations = o.iterations, .eps = o.eps };
    bool grad = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    r.left = cj_module_buffer(layer, "weight_u", direction(c, w->shape[0], wide));
    r.right = cj_module_buffer(layer, "weight_v", direction(c, w->numel / (w->shape[0] ? w->shape[0] : 1), wide));
    if (!c->error)
        cj_spectral_norm(w, r.left,
                         &(cj_spectral_opts){ .v = r.right, .iterations = 15, .eps = o.eps }); /* a usable sigma from the start */
    cj_scope_close(s);
    cj_grad_mode(c, grad);
    return !c->error && cj__module_reparametrise(layer, &r, "weight_orig") ? layer : NULL;
}
