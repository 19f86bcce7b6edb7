/* Boltzmann machines (cajal/generative.h): energies, fields, exact partition functions of small machines, Gibbs sampling. */
#include <cajal/generative.h>

#include "nn/nn.h"

enum { MAX_UNITS = 20 };

static const cj_reduce_opts last = { .axes = { 1, { -1 } } };

static cj_tensor *poison(const cj_tensor *t) { return t ? t->ctx->poison : NULL; }

/* x [.., n] with parameters of n units, W [rows, n] beside them where it is given. */
static bool fits(const char *op, cj_tensor *x, cj_tensor *W, cj_tensor *b, int64_t rows)
{
    cj_ctx *c = cj_tensor_ctx(W);
    if (!c || c->error || !cj__usable(c, op, 0, x) || !cj__usable(c, op, 1, W) || !cj__usable(c, op, 2, b)) return false;
    if (cj_ndim(W) != 2 || cj_ndim(b) != 1 || cj_ndim(x) < 1 || cj_size(x, -1) != cj_size(W, 1) || cj_size(W, 0) != rows ||
        cj_size(b, 0) != rows)
        return cj__error(c, CJ_ESHAPE, "%s: x %s, weights %s, bias %s; [.., n], [m, n], [m] expected", op, cj__tensor_text(x),
                         cj__tensor_text(W), cj__tensor_text(b));
    return true;
}

static cj_tensor *draw(cj_tensor *p)
{
    cj_random_opts o = { .stream = CJ_STREAM_SAMPLING, .dtype = cj_dtype_of(p) };
    return cj_cast(cj_lt(cj_rand(cj_tensor_ctx(p), cj_shape_of(p), &o), p), cj_dtype_of(p));
}

cj_tensor *cj_binary_states(cj_ctx *c, int64_t n, cj_dtype dtype)
{
    if (!c) return NULL;
    if (n < 1 || n > MAX_UNITS) return cj_fail(c, CJ_EVALUE, "binary_states: %lld units; 1 to %d expected", (long long)n, MAX_UNITS);
    cj_tensor *row = cj_unsqueeze(cj_arange(c, 0, (double)((int64_t)1 << n), 1, CJ_I64), 1), *bit[MAX_UNITS];
    for (int64_t k = 0; k < n; k++) {
        cj_tensor *size = cj_full(c, (double)((int64_t)1 << k), CJ_SCALAR, CJ_I64), *two = cj_full(c, 2, CJ_SCALAR, CJ_I64);
        bit[k] = cj_remainder(cj_floor_divide(row, size), two);
    }
    return cj_cast(cj_cat(bit, (int)n, 1), dtype);
}

/* ---- all units connected ---------------------------------------------------------------------------------------------------------------- */

static bool square(const char *op, cj_tensor *x, cj_tensor *U, cj_tensor *b)
{
    return fits(op, x, U, b, cj_is_poison(U) || cj_ndim(U) != 2 ? 0 : cj_size(U, 1));
}

cj_tensor *cj_boltzmann_energy(cj_tensor *x, cj_tensor *U, cj_tensor *b)
{
    if (!square("boltzmann_energy", x, U, b)) return poison(U);
    cj_tensor *pairs = cj_sum(cj_mul(cj_matmul(x, U), x), &last);
    return cj_neg(cj_add(pairs, cj_matmul(x, b)));
}

cj_tensor *cj_boltzmann_field(cj_tensor *x, cj_tensor *U, cj_tensor *b)
{
    if (!square("boltzmann_field", x, U, b)) return poison(U);
    cj_tensor *own = cj_diagonal(U, 0, 0, 1), *both = cj_add(cj_matmul(x, U), cj_matmul(x, cj_t(U)));
    /* both has 2 U_kk x_k, the field U_kk: x_k does not matter */
    return cj_add(cj_sub(both, cj_mul_scalar(cj_mul(own, x), 2)), cj_add(b, own));
}

cj_tensor *cj_boltzmann_log_partition(cj_tensor *U, cj_tensor *b)
{
    cj_tensor *x = cj_binary_states(cj_tensor_ctx(U), cj_numel(b), cj_dtype_of(b));
    return cj_logsumexp(cj_neg(cj_boltzmann_energy(x, U, b)), NULL);
}

cj_tensor *cj_boltzmann_gibbs(cj_tensor *x, cj_tensor *U, cj_tensor *b, int64_t sweeps)
{
    static const char op[] = "boltzmann_gibbs";
    if (!square(op, x, U, b)) return poison(U);
    cj_ctx *c = cj_tensor_ctx(U);
    if (cj_ndim(x) != 2 || sweeps < 0)
        return cj_fail(c, CJ_EVALUE, "%s: %lld sweeps of x %s; [m, n] and at least 0 expected", op, (long long)sweeps, cj__tensor_text(x));
    bool was = cj_no_grad(c);
    int64_t n = cj_size(x, 1);
    cj_tensor *one = cj_eye(c, n, cj_dtype_of(x));
    for (int64_t i = 0; i < sweeps; i++)
        for (int64_t k = 0; k < n && !c->error; k++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *p = cj_sigmoid(cj_slice(cj_boltzmann_field(x, U, b), 1, k, k + 1, 1));
            cj_tensor *change = cj_mul(cj_sub(draw(p), cj_slice(x, 1, k, k + 1, 1)), cj_slice(one, 0, k, k + 1, 1));
            x = cj_scope_return(s, cj_add(x, change));
        }
    cj_grad_mode(c, was);
    return x;
}

/* ---- the restricted machine --------------------------------------------------------------------------------------------------------------- */

static bool usable(const char *op, cj_rbm r, cj_tensor *x, cj_tensor *h)
{
    cj_ctx *c = cj_tensor_ctx(r.W);
    if (!c || c->error || !cj__usable(c, op, 1, r.W) || !cj__usable(c, op, 2, r.b) || !cj__usable(c, op, 3, r.c)) return false;
    bool good = cj_ndim(r.W) == 2 && cj_ndim(r.b) == 1 && cj_ndim(r.c) == 1 && cj_size(r.b, 0) == cj_size(r.W, 0) &&
                cj_size(r.c, 0) == cj_size(r.W, 1);
    if (good && x) good = cj__usable(c, op, 0, x) && cj_ndim(x) >= 1 && cj_size(x, -1) == cj_size(r.W, 1);
    if (good && h) good = cj__usable(c, op, 0, h) && cj_ndim(h) >= 1 && cj_size(h, -1) == cj_size(r.W, 0);
    if (!good && !c->error)
        cj__error(c, CJ_ESHAPE, "%s: W %s, b %s, c %s, rows %s; [hidden, visible], [hidden], [visible] expected", op, cj__tensor_text(r.W),
                  cj__tensor_text(r.b), cj__tensor_text(r.c), x || h ? cj__tensor_text(x ? x : h) : "none");
    return good;
}

cj_tensor *cj_rbm_energy(cj_rbm r, cj_tensor *x, cj_tensor *h)
{
    if (!usable("rbm_energy", r, x, h)) return poison(r.W);
    cj_tensor *pairs = cj_sum(cj_mul(cj_linear_op(x, r.W, NULL), h), &last);
    return cj_neg(cj_add(pairs, cj_add(cj_matmul(x, r.c), cj_matmul(h, r.b))));
}

cj_tensor *cj_rbm_hidden(cj_rbm r, cj_tensor *x)
{
    if (!usable("rbm_hidden", r, x, NULL)) return poison(r.W);
    return cj_sigmoid(cj_linear_op(x, r.W, r.b));
}

cj_tensor *cj_rbm_visible(cj_rbm r, cj_tensor *h)
{
    if (!usable("rbm_visible", r, NULL, h)) return poison(r.W);
    return cj_sigmoid(cj_add(cj_matmul(h, r.W), r.c));
}

cj_tensor *cj_rbm_free_energy(cj_rbm r, cj_tensor *x)
{
    if (!usable("rbm_free_energy", r, x, NULL)) return poison(r.W);
    return cj_neg(cj_add(cj_matmul(x, r.c), cj_sum(cj_softplus(cj_linear_op(x, r.W, r.b)), &last)));
}

cj_tensor *cj_rbm_log_partition(cj_rbm r)
{
    if (!usable("rbm_log_partition", r, NULL, NULL)) return poison(r.W);
    cj_tensor *h = cj_binary_states(cj_tensor_ctx(r.W), cj_size(r.W, 0), cj_dtype_of(r.W));
    cj_tensor *sums = cj_sum(cj_softplus(cj_add(cj_matmul(h, r.W), r.c)), &last); /* of e^(-E) over x, in logarithms */
    return cj_logsumexp(cj_add(sums, cj_matmul(h, r.b)), NULL);
}

cj_tensor *cj_rbm_gibbs(cj_rbm r, cj_tensor *x, int64_t k)
{
    if (!usable("rbm_gibbs", r, x, NULL)) return poison(r.W);
    cj_ctx *c = cj_tensor_ctx(r.W);
    if (k < 0) return cj_fail(c, CJ_EVALUE, "rbm_gibbs: %lld steps; at least 0 expected", (long long)k);
    bool was = cj_no_grad(c);
    for (int64_t i = 0; i < k && !c->error; i++) {
        cj_scope s = cj_scope_open(c);
        x = cj_scope_return(s, draw(cj_rbm_visible(r, draw(cj_rbm_hidden(r, x)))));
    }
    cj_grad_mode(c, was);
    return x;
}

cj_tensor *cj_rbm_contrastive_loss(cj_rbm r, cj_tensor *x, cj_tensor *negative)
{
    return cj_sub(cj_mean(cj_rbm_free_energy(r, x), NULL), cj_mean(cj_rbm_free_energy(r, cj_detach(negative)), NULL));
}
