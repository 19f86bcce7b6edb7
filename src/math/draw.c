/* Draws whose parameters are tensors: gamma, Poisson, binomial, von Mises, categorical, multinomial, and standard noise of three location-scale families.
 *
 * One scalar source in f64 for every level: it uses IEEE operations, fma and the logarithm of philox.h only, so that all give the same bits.  Element i owns the blocks
 * i·2^24, i·2^24 + 1, … of its call, and every attempt of a rejection takes the next of them: the result depends on nothing but (seed, stream, call, i, parameters).
 */
#include <math.h>

#include "core/philox.h"
#include "math/dist.h"
#include "ops/ops.h"

typedef struct source {
    uint32_t key[2];
    uint64_t call, block;
} source;

static void words(source *s, uint64_t w[2])
{
    uint32_t out[4];
    cj_philox_block(s->key, s->call, s->block++, out);
    w[0] = cj_philox_word64(out[0], out[1]), w[1] = cj_philox_word64(out[2], out[3]);
}
static double uniform(source *s)
{
    uint64_t w[2];
    words(s, w);
    return cj_philox_open_f64(w[0]);
}
static double exponential(source *s) { return -cj_philox_log_f64(uniform(s)); }

/* atan t, t >= 0: inverted above 1, halved twice by atan t = 2 atan(t / (1 + sqrt(1 + t²))), then the series up to t^25. */
static double atan_of(double t)
{
    const bool inverted = t > 1;
    if (inverted) t = 1 / t;
    for (int i = 0; i < 2; i++) t = t / (1 + sqrt(fma(t, t, 1)));
    const double z = t * t;
    double sum = 0;
    for (int k = 12; k >= 0; k--) sum = fma(sum, -z, 1.0 / (2 * k + 1));
    sum *= 4 * t;
    return inverted ? 1.57079632679489661923 - sum : sum;
}

/* Marsaglia and Tsang (2000): d (1 + c N)³ with d = a - 1/3, accepted by its logarithm; below 1 Gamma(a + 1) U^(1/a). */
static double gamma_draw(source *s, double a)
{
    if (!(a > 0) || isinf(a)) return NAN;
    const double boost = a < 1 ? cj__even_exp(cj_philox_log_f64(uniform(s)) / a) : 1, d = (a < 1 ? a + 1 : a) - 1.0 / 3,
                 c = 1 / sqrt(9 * d);
    for (int attempt = 0; attempt < 1000; attempt++) { /* each is accepted with probability above 0.95 */
        uint64_t w[2];
        double normal[2];
        words(s, w);
        cj_philox_normal_f64(w[0], w[1], 0, 1, normal);
        const double x = normal[0], t = fma(c, x, 1), v = t * t * t, u = uniform(s);
        if (!(v > 0)) continue;
        if (cj_philox_log_f64(u) < 0.5 * x * x + d - d * v + d * cj_philox_log_f64(v)) return boost * d * v;
    }
    return boost * d;
}

/* Ahrens and Dieter (1974): the middle one of n uniforms is a beta variable; it tells whether half of them lie below p. Exact, log n steps. */
static double binomial_draw(source *s, double n, double p)
{
    if (!(n >= 0 && p >= 0 && p <= 1) || isinf(n)) return NAN;
    double count = 0;
    while (n > 16) {
        if (p <= 0) return count;
        if (p >= 1) return count + n;
        const double a = 1 + floor(n / 2), b = n + 1 - a, ga = gamma_draw(s, a), x = ga / (ga + gamma_draw(s, b));
        if (x >= p) n = a - 1, p = p / x;
        else count += a, n = b - 1, p = (p - x) / (1 - x);
    }
    for (int left = (int)n; left > 0; left--) { /* in [0, 1): never below 0, always below 1 */
        uint64_t w[2];
        words(s, w);
        count += cj_philox_unit_f64(w[0]) < p;
    }
    return count;
}

/* Ahrens and Dieter (1974): the time of the m-th arrival is Gamma(m); what is left of lambda is again Poisson, or the earlier arrivals are binomial. */
static double poisson_draw(source *s, double rate)
{
    if (!(rate >= 0) || isinf(rate)) return NAN;
    double count = 0;
    while (rate > 12) {
        const double m = floor(0.875 * rate), x = gamma_draw(s, m);
        if (x > rate) return count + binomial_draw(s, m - 1, rate / x);
        count += m, rate -= x;
    }
    double time = exponential(s);
    while (time <= rate) count++, time += exponential(s);
    return count;
}

/* Best and Fisher (1979): a wrapped Cauchy angle, accepted by the ratio of densities. In [-pi, pi]. */
static double von_mises_draw(source *s, double k)
{
    if (!(k >= 0) || isinf(k)) return NAN;
    if (k < 1e-8) return 3.14159265358979323846 * (2 * uniform(s) - 1);
    const double tau = 1 + sqrt(1 + 4 * k * k), rho = (tau - sqrt(2 * tau)) / (2 * k);
    const double r = k < 1e-5 ? 1 / k + k : k > 1e7 ? 1 + 0.5 / k : (1 + rho * rho) / (2 * rho);
    for (int attempt = 0; attempt < 10000; attempt++) { /* each is accepted with probability above 0.65 */
        uint64_t w[2];
        double z, sine;
        words(s, w);
        cj_philox_sincos_f64(w[0], &z, &sine);
        /* 1 - f and 1 + f without cancellation, f = (1 + r z) / (r + z) */
        const double below = (r - 1) * (1 - z) / (r + z), above = (r + 1) * (1 + z) / (r + z), c = k * ((r - 1) + below),
                     u = cj_philox_open_f64(w[1]);
        if (!(c * (2 - c) > u || cj_philox_log_f64(c / u) + 1 - c >= 0)) continue;
        const double angle = 2 * (above > 0 ? atan_of(sqrt(below / above)) : 1.57079632679489661923);
        return sine < 0 ? -angle : angle;
    }
    return 0;
}

/* Gumbel (1954): the largest of logit + noise has the probabilities of the softmax. */
static double gumbel(source *s) { return -cj_philox_log_f64(exponential(s)); }
static double categorical_draw(source *s, const cj_tensor *logits, int64_t at, int64_t n)
{
    double best = -INFINITY;
    int64_t chosen = -1;
    for (int64_t k = 0; k < n; k++) {
        const double v = cj__load(logits, at + k) + gumbel(s);
        if (v > best) best = v, chosen = k;
    }
    return (double)(chosen < 0 ? 0 : chosen);
}

/* Class by class: of the trials that are left, binomially many fall into this class rather than a later one. */
static void multinomial_draw(source *s, const cj_tensor *logits, int64_t at, int64_t n, double trials, cj_dtype t, char *out)
{
    double top = -INFINITY, rest = 0;
    for (int64_t k = 0; k < n; k++) top = fmax(top, cj__load(logits, at + k));
    for (int64_t k = 0; k < n; k++) rest += cj__even_exp(cj__load(logits, at + k) - top);
    int64_t last = n - 1; /* whose probability is not 0 */
    while (last > 0 && !(cj__load(logits, at + last) > -INFINITY)) last--;
    for (int64_t k = 0; k < n; k++) {
        const double p = cj__even_exp(cj__load(logits, at + k) - top);
        const double count = k == last ? trials : trials > 0 && p > 0 ? binomial_draw(s, trials, fmin(1, p / rest)) : 0;
        cj__store(t, out + (size_t)k * cj_dtype_size(t), count);
        trials -= count, rest -= p;
        if (!(rest > 0)) rest = p;
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct draw_attrs {
    cj_random_attrs base;
    int64_t count;                         /* multinomial: trials */
    int64_t dtype, ndim, dim[CJ_MAX_DIMS]; /* of noise, which has no inputs */
} draw_attrs;

static bool infer(cj_call *call)
{
    const draw_attrs *a = call->attrs;
    if (!call->nin) {
        if (cj__numel(call->ctx, call->op->name, (int)a->ndim, a->dim) < 0) return false;
        return cj__out(call, 0, (cj_dtype)a->dtype, (int)a->ndim, a->dim);
    }
    const cj_tensor *x = call->in[0];
    for (int i = 0; i < call->nin; i++)
        if (!cj__contiguous(call->in[i]) || call->in[i]->dtype != x->dtype || call->in[i]->numel != x->numel)
            return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    if (call->op == &cj__ops_draw[CJ_DRAW_CATEGORICAL]) return cj__out(call, 0, CJ_I64, x->ndim - 1, x->shape);
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}

static double smallest(cj_dtype t) { return t == CJ_F64 ? 0x1p-1022 : t == CJ_F16 ? 0x1p-14 : 0x1p-126; }

static void range(void *arg, int64_t begin, int64_t end, int worker)
{
    const cj_call *call = arg;
    const draw_attrs *a = call->attrs;
    cj_tensor *y = call->out[0];
    const cj_tensor *x = call->nin ? call->in[0] : y;
    const int kind = (int)(call->op - cj__ops_draw);
    const cj_dtype t = (cj_dtype)y->dtype;
    const int64_t row = kind == CJ_DRAW_CATEGORICAL || kind == CJ_DRAW_MULTINOMIAL ? x->shape[x->ndim - 1] : 1;
    source s = { .call = a->base.call };
    cj_philox_key(a->base.seed, a->base.stream, s.key);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        s.block = (uint64_t)i << 24;
        const double p = row == 1 && call->nin ? cj__load(x, i) : 0;
        double v = 0;
        switch (kind) {
        case CJ_DRAW_GAMMA: v = gamma_draw(&s, p), v = v < smallest(t) ? smallest(t) : v; break;
        case CJ_DRAW_POISSON: v = poisson_draw(&s, p); break;
        case CJ_DRAW_BINOMIAL: v = binomial_draw(&s, floor(p), cj__load(call->in[1], i)); break;
        case CJ_DRAW_VON_MISES: v = von_mises_draw(&s, p); break;
        case CJ_DRAW_CATEGORICAL: v = categorical_draw(&s, x, i * row, row); break;
        case CJ_DRAW_MULTINOMIAL:
            multinomial_draw(&s, x, i * row, row, (double)a->count, t, y->data + (size_t)(i * row) * cj_dtype_size(t));
            continue;
        case CJ_DRAW_GUMBEL: v = gumbel(&s); break;
        case CJ_DRAW_LOGISTIC:
            v = exponential(&s), v = cj_philox_log_f64(exponential(&s) / v);
            break;                                                 /* of two exponentials the log of the ratio */
        default: v = exponential(&s), v -= exponential(&s); break; /* Laplace: their difference */
        }
        cj__store(t, y->data + (size_t)i * cj_dtype_size(t), v);
    }
}
static bool run(cj_call *call)
{
    const cj_tensor *y = call->out[0];
    const bool rows = call->op == &cj__ops_draw[CJ_DRAW_MULTINOMIAL];
    if (y->numel) cj__parallel_for(call->ctx->pool, rows ? y->numel / y->shape[y->ndim - 1] : y->numel, 128, range, call);
    return true;
}

/* Implicit differentiation (Figurnov, Mohamed, Mnih 2018): P(a, x(a)) does not move, so dx/da = -(dP/da) / (dP/dx). In f64: logarithms of large a cancel. */
static void d_gamma_draw(cj_vjp_args *v)
{
    cj_tensor *a = cj_cast(v->in[0], CJ_F64), *x = cj_cast(v->out[0], CJ_F64);
    cj_tensor *density = cj_exp(cj_sub(cj_sub(cj_mul(cj_add_scalar(a, -1), cj_log(x)), x), cj_lgamma(a)));
    v->gin[0] = cj_mul(v->g[0], cj_cast(cj_neg(cj_div(cj__gammainc_moment(1, a, x), density)), (cj_dtype)v->in[0]->dtype));
}

#define ROW(code, op_name, inputs, grad_flag, ...)                                                                                         \
    [code] = { .name = op_name,                                                                                                            \
               .family = "draw",                                                                                                           \
               .kind = CJ_PRIMITIVE,                                                                                                       \
               .flags = CJ_OP_RANDOM | (grad_flag),                                                                                        \
               .nin = inputs,                                                                                                              \
               .nout = 1,                                                                                                                  \
               .attr_size = sizeof(draw_attrs),                                                                                            \
               .infer = infer,                                                                                                             \
               .run = run,                                                                                                                 \
               __VA_ARGS__ }
const cj_op cj__ops_draw[] = {
    ROW(CJ_DRAW_GAMMA, "draw_gamma", 1, 0, .save_in = 1, .save_out = 1, .vjp = d_gamma_draw, .jvp_rule = CJ_JVP_ELEMENTWISE),
    ROW(CJ_DRAW_POISSON, "draw_poisson", 1, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
    ROW(CJ_DRAW_BINOMIAL, "draw_binomial", 2, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
    ROW(CJ_DRAW_VON_MISES, "draw_von_mises", 1, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
    ROW(CJ_DRAW_CATEGORICAL, "draw_categorical", 1, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
    ROW(CJ_DRAW_MULTINOMIAL, "draw_multinomial", 1, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
    ROW(CJ_DRAW_GUMBEL, "draw_gumbel", 0, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
    ROW(CJ_DRAW_LOGISTIC, "draw_logistic", 0, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
    ROW(CJ_DRAW_LAPLACE, "draw_laplace", 0, CJ_OP_NOGRAD, .jvp_rule = CJ_JVP_NONE),
};
CJ_OP_TABLE(draw);

static cj_tensor *draw(cj_ctx *c, cj_draw_kind kind, draw_attrs *at, cj_tensor *const *in, cj_stream stream)
{
    cj_tensor *out;
    if ((unsigned)stream >= CJ_STREAMS)
        return cj_fail(c, CJ_EVALUE, "%s: stream %d is none of the %d streams", cj__ops_draw[kind].name, (int)stream, CJ_STREAMS);
    at->base = (cj_random_attrs){ c->rng.seed, (uint64_t)stream, c->rng.call[stream] };
    if (!cj__apply_n(c, &cj__ops_draw[kind], at, in, cj__ops_draw[kind].nin, &out)) return c->poison;
    c->rng.call[stream]++;
    return out;
}

cj_tensor *cj__draw(cj_draw_kind kind, cj_tensor *a, cj_tensor *b, int64_t count, cj_shape shape, cj_stream stream)
{
    cj_ctx *c = a->ctx;
    draw_attrs at = { .count = count };
    cj_tensor *in[2] = { cj_contiguous(cj_expand(a, shape)), b ? cj_contiguous(cj_expand(cj_cast(b, (cj_dtype)a->dtype), shape)) : NULL };
    if (!cj_ok(c)) return c->poison;
    return draw(c, kind, &at, in, stream);
}

cj_tensor *cj__draw_noise(cj_ctx *c, cj_draw_kind kind, cj_shape shape, cj_dtype dtype, cj_stream stream)
{
    draw_attrs at = { .dtype = dtype, .ndim = shape.ndim };
    memcpy(at.dim, shape.dim, (size_t)shape.ndim * sizeof shape.dim[0]);
    return draw(c, kind, &at, NULL, stream);
}
