/* Initial values of parameters.  Each function writes its tensor through cj_assign_, drawing from the stream CJ_STREAM_INIT. */
#include <math.h>

#include "cajal/math.h"
#include "nn/nn.h"

static const cj_random_opts init_stream = { .stream = CJ_STREAM_INIT };

/* t = value without history, temporaries gone afterwards */
#define WRITE(t, expression)                                                                                                               \
    do {                                                                                                                                   \
        cj_ctx *c = (t)->ctx;                                                                                                              \
        bool grad = cj_no_grad(c);                                                                                                         \
        cj_scope s = cj_scope_open(c);                                                                                                     \
        cj_assign_((t), (expression));                                                                                                     \
        cj_scope_close(s);                                                                                                                 \
        cj_grad_mode(c, grad);                                                                                                             \
        return c->error ? c->poison : (t);                                                                                                 \
    } while (0)

static bool fit(cj_tensor *t, const char *op, int least_axes)
{
    if (!t || t->ctx->error || !cj__usable(t->ctx, op, 0, t)) return false;
    if (!cj_dtype_is_float((cj_dtype)t->dtype) || t->ndim < least_axes)
        cj_fail(t->ctx, CJ_ESHAPE, "%s: %s %s; floats with at least %d axes expected", op, cj_dtype_name((cj_dtype)t->dtype),
                cj__tensor_text(t), least_axes);
    return !t->ctx->error;
}
#define POISON(t) ((t) ? (t)->ctx->poison : NULL)

cj_tensor *cj_init_constant_(cj_tensor *t, double value)
{
    if (!fit(t, "init_constant_", 0)) return POISON(t);
    WRITE(t, cj_full(t->ctx, value, CJ_SCALAR, (cj_dtype)t->dtype));
}

cj_tensor *cj_init_uniform_(cj_tensor *t, double low, double high)
{
    if (!fit(t, "init_uniform_", 0)) return POISON(t);
    if (!(low <= high)) return cj_fail(t->ctx, CJ_EVALUE, "init_uniform_: the range [%g, %g)", low, high);
    WRITE(t, cj_uniform(t->ctx, low, high, cj_shape_of(t), &init_stream));
}

cj_tensor *cj_init_normal_(cj_tensor *t, double mean, double std)
{
    if (!fit(t, "init_normal_", 0)) return POISON(t);
    if (!(std >= 0)) return cj_fail(t->ctx, CJ_EVALUE, "init_normal_: deviation %g", std);
    WRITE(t, cj_normal(t->ctx, mean, std, cj_shape_of(t), &init_stream));
}

/* mean + std·sqrt 2·erfinv(u), u uniform between erf of the two ends */
cj_tensor *cj_init_truncated_normal_(cj_tensor *t, double mean, double std, double low, double high)
{
    if (!fit(t, "init_truncated_normal_", 0)) return POISON(t);
    if (!(std > 0) || !(low < high)) return cj_fail(t->ctx, CJ_EVALUE, "init_truncated_normal_: deviation %g in [%g, %g]", std, low, high);
    double from = erf((low - mean) / std / sqrt(2)), to = erf((high - mean) / std / sqrt(2));
    if (!(from < to)) return cj_fail(t->ctx, CJ_EVALUE, "init_truncated_normal_: [%g, %g] is too far from mean %g", low, high, mean);
    cj_random_opts wide = { .stream = CJ_STREAM_INIT, .dtype = CJ_F64 };
    WRITE(t, cj_clamp(cj_add_scalar(cj_mul_scalar(cj_erfinv(cj_uniform(c, from, to, cj_shape_of(t), &wide)), std * sqrt(2)), mean), low,
                      high));
}

cj_tensor *cj_init_identity_(cj_tensor *t)
{
    if (!fit(t, "init_identity_", 2)) return POISON(t);
    if (t->ndim != 2) return cj_fail(t->ctx, CJ_ESHAPE, "init_identity_: %s; a matrix expected", cj__tensor_text(t));
    int64_t rows = t->shape[0], cols = t->shape[1];
    WRITE(t, cj_slice(cj_slice(cj_eye(c, rows > cols ? rows : cols, (cj_dtype)t->dtype), 0, 0, rows, 1), 1, 0, cols, 1));
}

/* Output channel o of each group copies input channel o: 1 in the middle of the kernel. */
cj_tensor *cj_init_dirac_(cj_tensor *t, int64_t groups)
{
    if (!fit(t, "init_dirac_", 3)) return POISON(t);
    int64_t parts = groups == 0 ? 1 : groups;
    if (t->ndim > 5 || parts < 1 || t->shape[0] % parts)
        return cj_fail(t->ctx, CJ_ESHAPE, "init_dirac_: %s with %lld groups; [out, in, kernel ..] whose outputs they divide expected",
                       cj__tensor_text(t), (long long)parts);
    int64_t out = t->shape[0] / parts, in = t->shape[1], each = out < in ? out : in;
    cj_shape middle = { .ndim = t->ndim - 2 }, before = middle, after = middle;
    for (int d = 0; d < middle.ndim; d++) {
        middle.dim[d] = 1;
        before.dim[d] = t->shape[2 + d] / 2;
        after.dim[d] = t->shape[2 + d] - 1 - before.dim[d];
    }
    cj_shape point = { .ndim = t->ndim, .dim = { t->shape[0], in, 1, 1, 1 } };
    WRITE(t, cj_pad(cj_reshape(cj_expand(cj_unsqueeze(cj_pad(cj_eye(c, each, (cj_dtype)t->dtype), CJ_SHAPE(0, 0),
                                                             CJ_SHAPE(out - each, in - each), NULL),
                                                      0),
                                         CJ_SHAPE(parts, out, in)),
                               point),
                    before, after, NULL));
}

/* Of every column, as many elements as ceil(sparsity·rows) are 0, chosen at random; the others are normal. */
cj_tensor *cj_init_sparse_(cj_tensor *t, double sparsity, double std)
{
    if (!fit(t, "init_sparse_", 2)) return POISON(t);
    if (t->ndim != 2) return cj_fail(t->ctx, CJ_ESHAPE, "init_sparse_: %s; a matrix expected", cj__tensor_text(t));
    if (!(sparsity >= 0 && sparsity <= 1) || !(std >= 0))
        return cj_fail(t->ctx, CJ_EVALUE, "init_sparse_: sparsity %g, deviation %g; [0, 1] and not negative expected", sparsity, std);
    double zeros = ceil(sparsity * (double)t->shape[0]), deviation = std == 0 ? 0.01 : std;
    /* the rank of a uniform number among those of its column says whether an element is one of the zeros */
    WRITE(t, cj_mul(cj_normal(c, 0, deviation, cj_shape_of(t), &init_stream),
                    cj_cast(cj_ge_scalar(
                                cj_cast(cj_argsort(cj_argsort(cj_rand(c, cj_shape_of(t), &init_stream), 0, NULL), 0, NULL), CJ_F32), zeros),
                            CJ_F32)));
}

/* ---- by fan: of a weight [out, in, kernel ..] -------------------------------------------------------------------------------------------------------------- */

static double fan_of(const cj_tensor *t, cj_fan fan)
{
    double kernel = 1;
    for (int d = 2; d < t->ndim; d++) kernel *= (double)t->shape[d];
    double in = (double)t->shape[1] * kernel, out = (double)t->shape[0] * kernel;
    return fan == CJ_FAN_IN ? in : fan == CJ_FAN_OUT ? out : (in + out) / 2;
}

/* deviation gain/sqrt(fan): uniform on ±sqrt 3 deviations, or normal */
static cj_tensor *by_fan(cj_tensor *t, const char *op, cj_fan fan, double gain, bool normal)
{
    if (!fit(t, op, 2)) return POISON(t);
    if ((unsigned)fan > CJ_FAN_MEAN)
        return cj_fail(t->ctx, CJ_EVALUE, "%s: fan %d; CJ_FAN_IN, CJ_FAN_OUT or CJ_FAN_MEAN expected", op, fan);
    if (!(gain > 0)) return cj_fail(t->ctx, CJ_EVALUE, "%s: gain %g", op, gain);
    double size = fan_of(t, fan), std = size > 0 ? gain / sqrt(size) : 0;
    return normal ? cj_init_normal_(t, 0, std) : cj_init_uniform_(t, -sqrt(3) * std, sqrt(3) * std);
}
cj_tensor *cj_init_xavier_uniform_(cj_tensor *t, double gain)
{
    return by_fan(t, "init_xavier_uniform_", CJ_FAN_MEAN, gain == 0 ? 1 : gain, false);
}
cj_tensor *cj_init_xavier_normal_(cj_tensor *t, double gain)
{
    return by_fan(t, "init_xavier_normal_", CJ_FAN_MEAN, gain == 0 ? 1 : gain, true);
}
cj_tensor *cj_init_kaiming_uniform_(cj_tensor *t, cj_fan fan, double gain)
{
    return by_fan(t, "init_kaiming_uniform_", fan, gain == 0 ? sqrt(2) : gain, false);
}
cj_tensor *cj_init_kaiming_normal_(cj_tensor *t, cj_fan fan, double gain)
{
    return by_fan(t, "init_kaiming_normal_", fan, gain == 0 ? sqrt(2) : gain, true);
}

/* ---- orthogonal ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* [rows, cols], rows <= cols, with orthonormal rows: row r is made orthogonal to the rows before it, twice (once leaves errors as large as the condition number) */
static cj_tensor *orthonormal_rows(cj_ctx *c, int64_t rows, int64_t cols)
{
    cj_random_opts wide = { .stream = CJ_STREAM_INIT, .dtype = CJ_F64 };
    cj_tensor *q = cj_randn(c, CJ_SHAPE(rows, cols), &wide), *done = NULL;
    for (int64_t r = 0; r < rows && !c->error; r++) {
        cj_tensor *row = cj_slice(q, 0, r, r + 1, 1); /* [1, cols] */
        for (int pass = 0; pass < 2 && done; pass++) row = cj_sub(row, cj_matmul(cj_matmul(row, cj_t(done)), done));
        row = cj_div(row, cj_sqrt(cj_sum(cj_square(row), NULL)));
        cj_tensor *both[] = { done, row };
        done = done ? cj_cat(both, 2, 0) : row;
    }
    return done;
}

cj_tensor *cj_init_orthogonal_(cj_tensor *t, double gain)
{
    if (!fit(t, "init_orthogonal_", 2)) return POISON(t);
    if (t->numel == 0) return t;
    int64_t rows = t->shape[0], cols = t->numel / rows;
    double scale = gain == 0 ? 1 : gain;
    WRITE(t, cj_reshape(cj_mul_scalar(rows <= cols ? orthonormal_rows(c, rows, cols) : cj_t(orthonormal_rows(c, cols, rows)), scale),
                        cj_shape_of(t)));
}

double cj_init_gain(const char *activation, double slope)
{
    if (!activation) return NAN;
    if (strcmp(activation, "linear") == 0 || strcmp(activation, "sigmoid") == 0) return 1;
    if (strcmp(activation, "tanh") == 0) return 5.0 / 3;
    if (strcmp(activation, "relu") == 0) return sqrt(2);
    if (strcmp(activation, "leaky_relu") == 0) return slope == 0 ? sqrt(2 / (1 + 1e-4)) : sqrt(2 / (1 + slope * slope));
    if (strcmp(activation, "selu") == 0) return 0.75;
    return NAN;
}
