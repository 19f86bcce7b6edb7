/* What linear, ridge, lasso, glm, logistic and softmax share: one linear map with a bias, and how a solution gets into its parameters.
 *
 *     v = W x + b,   W [outputs, inputs]: linear.weight, b [outputs]: linear.bias
 *
 * Solutions are computed in f64 from all training rows at once; biases are never penalised.
 */
#ifndef CJ_ZOO_LINEAR_MODEL_H
#define CJ_ZOO_LINEAR_MODEL_H

#include <cajal/cajal.h>

/* One solution, nothing to choose: all training rows are learned from. */
static const cj_setting linear_model_recipe[] = { { .key = "validation", .value = 0 }, { 0 } };

typedef struct linear_model {
    cj_module *linear;
    double strength; /* of the penalty */
    int family;      /* glm's */
} linear_model;

static inline cj_tensor *linear_model_weight(cj_module *m) { return cj_params_at(cj_module_params(m), 0); }
static inline cj_tensor *linear_model_bias(cj_module *m) { return cj_params_at(cj_module_params(m), 1); }

static inline cj_tensor *linear_model_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    return cj_forward(((linear_model *)self)->linear, x);
}

static inline cj_module *linear_model_new(cj_ctx *c, const cj_module_type *type, int64_t inputs, int64_t outputs, double strength)
{
    cj_module *m = cj_module_new(c, type, sizeof(linear_model));
    linear_model *l = cj_module_self(m);
    if (!l) return NULL;
    l->strength = strength;
    l->linear = cj_module_add(m, "linear", cj_linear(c, inputs, outputs));
    return m;
}

/* W [outputs, inputs] and b [outputs] of any float type become the parameters. */
static inline bool linear_model_set(cj_module *m, cj_tensor *weight, cj_tensor *bias)
{
    cj_assign_(linear_model_weight(m), cj_cast(weight, CJ_F32));
    cj_assign_(linear_model_bias(m), cj_cast(bias, CJ_F32));
    return cj_ok(cj_module_ctx(m));
}

/* Least squares with centred rows: W from x - mean x and y - mean y, then b = mean y - W·mean x. */
typedef struct centred {
    cj_tensor *x, *y;           /* f64 [n, inputs], [n, outputs] */
    cj_tensor *x_mean, *y_mean; /* [1, inputs], [1, outputs] */
} centred;

static inline centred centre(cj_tensor *x, cj_tensor *y)
{
    cj_tensor *a = cj_cast(x, CJ_F64), *b = cj_cast(y, CJ_F64);
    cj_tensor *a_mean = cj_mean(a, .axes = CJ_AXIS(0), .keepdim = true), *b_mean = cj_mean(b, .axes = CJ_AXIS(0), .keepdim = true);
    return (centred){ cj_sub(a, a_mean), cj_sub(b, b_mean), a_mean, b_mean };
}

static inline bool linear_model_set_centred(cj_module *m, const centred *k, cj_tensor *weight)
{
    return linear_model_set(m, weight, cj_reshape(cj_sub(k->y_mean, cj_matmul(k->x_mean, cj_t(weight))), CJ_SHAPE(-1)));
}

/* Minimises fn(W, b; user) from zero, W and b in f64, by one of cajal/optim.h's full-batch methods. */
typedef bool (*solver)(cj_ctx *, cj_fn, void *, cj_tensor *const *, int, cj_solution *, const cj_solve_opts *);
static inline bool linear_model_solve(cj_module *m, solver method, cj_fn fn, void *user, int64_t iterations)
{
    cj_ctx *c = cj_module_ctx(m);
    cj_tensor *w = linear_model_weight(m), *b = linear_model_bias(m);
    cj_tensor *x[2] = { cj_keep(cj_zeros(c, cj_shape_of(w), CJ_F64)), cj_keep(cj_zeros(c, cj_shape_of(b), CJ_F64)) };
    bool was = cj_grad_mode(c, true);
    bool ok = method(c, fn, user, x, 2, NULL, &(cj_solve_opts){ .iterations = iterations, .tolerance = 1e-6 });
    cj_grad_mode(c, was);
    ok = ok && linear_model_set(m, x[0], x[1]);
    cj_release(x[0]);
    cj_release(x[1]);
    return ok;
}

/* The rows that a solver's function sees, and the penalty's strength. */
typedef struct problem {
    cj_tensor *x, *y; /* x in f64 */
    double strength;
    int family;
} problem;

static inline cj_tensor *half_squares(cj_tensor *w, double strength) { return cj_mul_scalar(cj_sum(cj_square(w)), strength / 2); }

#endif
