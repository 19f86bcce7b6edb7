/* Penalties on parameters and on the derivative of a network, to be added to a loss; the max-norm constraint; priors; distillation;
 * ensembles and bootstrap samples. */
#include <math.h>
#include <stdio.h>

#include "cajal/math.h"
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

cj_tensor *cj_prior_penalty(const cj_params *p, cj_dist prior)
{
    if (!p) return NULL;
    cj_ctx *c = p->ctx;
    if (c->error) return c->poison;
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *sum = cj_scalar(c, 0);
    for (int i = 0; i < p->n && !c->error; i++) {
        cj_tensor *w = p->item[i].tensor, *density = cj_dist_log_prob(prior, w);
        if (!c->error && density->numel != w->numel)
            cj_fail(c, CJ_ESHAPE, "prior_penalty: the prior gives %s for %s %s; that of one number is expected", cj__tensor_text(density),
                    p->item[i].name, cj__tensor_text(w));
        sum = cj_sub(sum, cj_sum(density, NULL));
    }
    cj__frame_close(c, frame, &sum, 1);
    return sum;
}

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

/* ---- penalties on weights alone: parameters with two axes or more ---------------------------------------------------------------------------------- */

static cj_tensor *square_norm(cj_tensor *w) { return cj_sum(cj_square(w), NULL); }
static cj_tensor *largest_singular_value_squared(cj_tensor *w)
{
    return cj_square(cj_matrix_norm(cj_reshape(w, CJ_SHAPE(w->shape[0], w->numel / w->shape[0])), CJ_NORM_2));
}

/* mu/2 · sum over weights of f */
static cj_tensor *weights_penalty(const cj_params *p, double mu, cj_tensor *(*f)(cj_tensor *w), const char *op)
{
    if (!p) return NULL;
    cj_ctx *c = p->ctx;
    if (c->error) return c->poison;
    if (!(mu >= 0 && isfinite(mu))) return cj_fail(c, CJ_EVALUE, "%s: weight %g; it must not be negative", op, mu);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *sum = cj_scalar(c, 0);
    for (int i = 0; i < p->n; i++)
        if (p->item[i].tensor->ndim >= 2 && p->item[i].tensor->numel) sum = cj_add(sum, f(p->item[i].tensor));
    sum = cj_mul_scalar(sum, mu / 2);
    cj__frame_close(c, frame, &sum, 1);
    return sum;
}
cj_tensor *cj_tikhonov_penalty(const cj_params *p, double mu) { return weights_penalty(p, mu, square_norm, "tikhonov_penalty"); }
cj_tensor *cj_spectral_penalty(const cj_params *p, double mu)
{
    return weights_penalty(p, mu, largest_singular_value_squared, "spectral_penalty");
}

/* ---- the derivative of the network -------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_jacobian_penalty(cj_module *m, cj_tensor *x)
{
    static const char op[] = "jacobian_penalty";
    if (!m) return x ? cj_fail(x->ctx, CJ_EVALUE, "%s: the module is NULL", op) : NULL;
    cj_ctx *c = cj_module_ctx(m);
    if (c->error || !cj__usable(c, op, 0, x)) return c->poison;
    if (!cj_dtype_is_float((cj_dtype)x->dtype) || x->ndim < 1 || !x->numel)
        return cj_fail(c, CJ_ESHAPE, "%s: input %s %s; floats [examples, ..] expected", op, cj_dtype_name((cj_dtype)x->dtype),
                       cj__tensor_text(x));
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor *at = cj_require_grad(x), *y = cj_forward(m, at), *sum = cj_scalar(c, 0);
    int64_t n = x->shape[0];
    if (!c->error && (y->ndim < 1 || y->shape[0] != n))
        cj_fail(c, CJ_ESHAPE, "%s: %s gives %s; a result per example expected", op, cj__tensor_text(x), cj__tensor_text(y));
    cj_tensor *columns =
        cj_reshape(y, CJ_SHAPE(n, -1)); /* examples do not mix: the gradient of a column's sum has a row of every example's Jacobian */
    for (int64_t k = 0; !c->error && k < columns->shape[1]; k++) {
        cj_tensor *g;
        if (!cj_grad(cj_sum(cj_select(columns, 1, k), NULL), &at, 1, &g, &(cj_grad_opts){ .create_graph = true, .allow_unused = true }))
            break;
        sum = cj_add(sum, square_norm(g));
    }
    sum = cj_mul_scalar(sum, 1 / (double)n);
    cj__frame_close(c, frame, &sum, 1);
    return sum;
}

/* ---- distillation (Hinton, Vinyals & Dean 2015) -------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_distillation_loss(cj_tensor *student, cj_tensor *teacher, cj_tensor *target, const cj_distillation_opts *opts)
{
    static const char op[] = "distillation_loss";
    cj_distillation_opts o = opts ? *opts : (cj_distillation_opts){ 0 };
    if (!student) return NULL;
    cj_ctx *c = student->ctx;
    double t = o.temperature == 0 ? 4 : o.temperature, lambda = o.lambda == 0 ? 0.9 : o.lambda == CJ_ZERO ? 0 : o.lambda;
    if (c->error || !cj__usable(c, op, 0, student) || !cj__usable(c, op, 1, teacher)) return c->poison;
    bool alike = student->ndim >= 2 && student->ndim == teacher->ndim;
    for (int d = 0; d < student->ndim && alike; d++) alike = student->shape[d] == teacher->shape[d];
    if (!alike)
        return cj_fail(c, CJ_ESHAPE, "%s: student %s, teacher %s; logits [.., C] alike expected", op, cj__tensor_text(student),
                       cj__tensor_text(teacher));
    if (!(t > 0 && isfinite(t)) || !(lambda >= 0 && lambda <= 1))
        return cj_fail(c, CJ_EVALUE, "%s: temperature %g, lambda %g; above 0 and in [0, 1] expected", op, t, lambda);
    if (!target && lambda < 1) return cj_fail(c, CJ_EVALUE, "%s: lambda %g needs targets", op, lambda);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    int64_t classes = student->shape[student->ndim - 1];
    cj_shape flat = CJ_SHAPE(-1, classes);
    cj_tensor *p = cj_log_softmax(cj_mul_scalar(cj_reshape(cj_detach(teacher), flat), 1 / t), -1);
    cj_tensor *q = cj_log_softmax(cj_mul_scalar(cj_reshape(student, flat), 1 / t), -1);
    cj_tensor *loss = cj_mul_scalar(cj_kl_div(q, p, &(cj_kl_opts){ .log_target = true, .batch_mean = true }), lambda * t * t);
    if (lambda < 1) loss = cj_add(loss, cj_mul_scalar(cj_cross_entropy(student, target, NULL), 1 - lambda));
    cj__frame_close(c, frame, &loss, 1);
    return loss;
}

cj_tensor *cj_dropout_factorisation_loss(cj_tensor *value, cj_tensor *seen, cj_tensor *u, cj_tensor *v, double keep)
{
    if (!value || value->ctx->error) return value ? value->ctx->poison : NULL;
    if (!(keep > 0 && keep <= 1))
        return cj_fail(value->ctx, CJ_EVALUE, "dropout_factorisation_loss: keep %g; a probability above 0 expected", keep);
    cj_tensor *error = cj_square(cj_sub(value, cj_matmul(u, cj_t(v)))), *spread = cj_matmul(cj_square(u), cj_t(cj_square(v)));
    return cj_sum(cj_mul(seen, cj_add(error, cj_mul_scalar(spread, (1 - keep) / keep))), NULL);
}

/* ---- several networks -------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *ensemble_forward(cj_module *m, void *self, cj_tensor *x)
{
    const bool probabilities = *(const bool *)self;
    cj_ctx *c = cj_module_ctx(m);
    int n = cj_module_children(m);
    cj_tensor *sum = NULL;
    for (int i = 0; i < n && !c->error; i++) {
        cj_tensor *y = cj__forward_as(cj_module_child(m, i), cj_module_child_name(m, i), x);
        if (probabilities) y = cj_log_softmax(y, -1);
        /* log(e^a + e^b): no probability is too small for the sum */
        sum = !sum ? y : probabilities ? cj_logaddexp(sum, y) : cj_add(sum, y);
    }
    if (c->error) return c->poison;
    return probabilities ? cj_add_scalar(sum, -log((double)n)) : cj_mul_scalar(sum, 1.0 / n);
}
static const cj_module_type ensemble_type = { "Ensemble", ensemble_forward, NULL };

cj_module *cj_ensemble_layer(cj_ctx *c, cj_module *const *members, int n, const cj_ensemble_opts *opts)
{
    if (!c || c->error) return NULL;
    if (!members || n < 1) return cj_fail(c, CJ_EVALUE, "ensemble layer: %d members; one at least expected", n), NULL;
    cj_module *m = cj_module_new(c, &ensemble_type, sizeof(bool));
    if (!m) return NULL;
    *(bool *)cj_module_self(m) = opts && opts->probabilities;
    for (int i = 0; i < n && !c->error; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        cj_module_add(m, name, members[i]);
    }
    return c->error ? NULL : m;
}

cj_tensor *cj_bootstrap(cj_ctx *c, int64_t n)
{
    if (!c || c->error) return c ? c->poison : NULL;
    if (n < 1) return cj_fail(c, CJ_EVALUE, "bootstrap: %lld examples", (long long)n);
    return cj_randint(c, 0, n, CJ_SHAPE(n), &(cj_random_opts){ .stream = CJ_STREAM_DATA });
}
