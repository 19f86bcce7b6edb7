/* Every sampler at 10^6 draws: Kolmogorov-Smirnov or chi-square at 0.1 %, and the same bits on 1 and 2 threads and at every level.
 *
 * Distribution functions are those of the library, which are checked against their integrals and SciPy elsewhere; where a kind has none (von Mises) it is the integral of
 * its density.  They are evaluated at every 20th of the sorted draws: the largest difference moves by 2e-5 at most, of 2e-3 allowed.
 */
#include "support.h"

#include <cajal/math.h>

enum { DRAWS = 1000000, EVERY = 20 };
static int64_t draws = DRAWS;     /* fewer where bits are compared */
static const double limit = 1.95; /* sqrt(n)·D exceeds it with probability 0.001 */

static cj_tensor *number(cj_ctx *c, double v) { return cj_from_f64(c, &v, CJ_SCALAR); }
#define N(v) number(c, v)

typedef struct sampler {
    const char *name;
    cj_tensor *(*draw)(cj_ctx *c, cj_dtype t); /* `draws` outcomes, or rows of them */
    cj_dist (*law)(cj_ctx *c);                 /* of the outcomes, or of column `column` of the rows */
    int column;                                /* -1: numbers */
    bool discrete;
} sampler;

static bool sampled[CJ_DISTS]; /* kinds that some row below draws */
static cj_tensor *of(cj_ctx *c, cj_dist d, cj_dtype t)
{
    (void)c;
    sampled[d.kind] = true;
    for (int k = 0; k < 3; k++)
        if (d.p[k]) d.p[k] = cj_cast(d.p[k], t);
    if (d.shift) d.shift = cj_cast(d.shift, t), d.factor = cj_cast(d.factor, t);
    if (d.weights) d.weights = cj_cast(d.weights, t);
    return cj_dist_sample(d, CJ_SHAPE(draws));
}
#define DIST(name, expression)                                                                                                             \
    static cj_dist law_##name(cj_ctx *c) { return expression; }                                                                            \
    static cj_tensor *draw_##name(cj_ctx *c, cj_dtype t) { return of(c, law_##name(c), t); }
#define OWN(name, law, drawn)                                                                                                              \
    static cj_dist law_##name(cj_ctx *c) { return law; }                                                                                   \
    static cj_tensor *draw_##name(cj_ctx *c, cj_dtype t) { return drawn; }

DIST(normal, cj_dist_normal(N(0.5), N(2)))
DIST(laplace, cj_dist_laplace(N(-1), N(0.7)))
DIST(gumbel, cj_dist_gumbel(N(1), N(1.5)))
DIST(logistic, cj_dist_logistic(N(0.3), N(0.8)))
DIST(student, cj_dist_student_t(N(0.2), N(1.3), N(5)))
DIST(uniform, cj_dist_uniform(N(-2), N(3)))
DIST(exponential, cj_dist_exponential(N(1.7)))
DIST(gamma_small, cj_dist_gamma(N(0.6), N(2)))
DIST(gamma_large, cj_dist_gamma(N(7.5), N(0.5)))
DIST(beta, cj_dist_beta(N(0.7), N(2.5)))
DIST(von_mises, cj_dist_von_mises(N(0.4), N(2)))
DIST(log_normal, cj_dist_log_normal(N(0.1), N(0.5)))
DIST(affine, cj_dist_affine(cj_dist_gumbel(N(0), N(1)), N(1), N(-2)))
DIST(mixture, cj_dist_mixture(F64(c, CJ_SHAPE(2), 0, 1), cj_dist_normal(F64(c, CJ_SHAPE(2), -2, 1), F64(c, CJ_SHAPE(2), 0.5, 1))))
DIST(bernoulli, cj_dist_bernoulli(N(0.3)))
DIST(binomial_few, cj_dist_binomial(N(12), N(0.3)))
DIST(binomial_many, cj_dist_binomial(N(1000), N(0.02)))
DIST(poisson_few, cj_dist_poisson(N(3.5)))
DIST(poisson_many, cj_dist_poisson(N(150)))
/* outcomes that are rows: one column of them, whose law is known */
OWN(dirichlet, cj_dist_beta(N(0.8), N(3.5)), of(c, cj_dist_dirichlet(F64(c, CJ_SHAPE(3), 0.8, 1.5, 2)), t))
OWN(multinomial, cj_dist_binomial(N(40), N(0.2)), of(c, cj_dist_multinomial(40, F64(c, CJ_SHAPE(3), log(0.5), log(0.2), log(0.3))), t))
OWN(diagonal, cj_dist_normal(N(-1), N(0.5)), of(c, cj_dist_diagonal_normal(F64(c, CJ_SHAPE(2), 3, -1), F64(c, CJ_SHAPE(2), 2, 0.5)), t))
OWN(multivariate, cj_dist_normal(N(-1), N(1.3)),
    of(c, cj_dist_multivariate_normal(F64(c, CJ_SHAPE(2), 3, -1), F64(c, CJ_SHAPE(2, 2), 2, 0, 0.5, 1.2), CJ_SCALE_TRIL),
       t)) /* 0.5² + 1.2² = 1.3² */
OWN(low_rank, cj_dist_normal(N(-1), N(1.3)),
    of(c, cj_dist_low_rank_normal(F64(c, CJ_SHAPE(2), 3, -1), F64(c, CJ_SHAPE(2, 1), 2, 0.5), F64(c, CJ_SHAPE(2), 1, 1.44)), t))
OWN(categorical, cj_dist_binomial(N(1), N(0.2)),
    ((void)t, cj_dist_sample(cj_dist_categorical(F64(c, CJ_SHAPE(2), log(0.8), log(0.2))), CJ_SHAPE(draws))))
DIST(exp_logistic, cj_dist_exp(cj_dist_logistic(N(0.3), N(0.4))))
OWN(vector_mixture, cj_dist_mixture(F64(c, CJ_SHAPE(2), 0, 1), cj_dist_normal(F64(c, CJ_SHAPE(2), -2, 1), F64(c, CJ_SHAPE(2), 0.5, 1))),
    of(c,
       cj_dist_mixture(F64(c, CJ_SHAPE(2), 0, 1),
                       cj_dist_diagonal_normal(F64(c, CJ_SHAPE(2, 2), 7, -2, 8, 1), F64(c, CJ_SHAPE(2, 2), 1, 0.5, 1, 1))),
       t))
/* Outcomes k of several classes: F(k - 1) + u p_k is uniform. */
static cj_tensor *smeared(cj_ctx *c, cj_tensor *k, int64_t n, const double *p)
{
    double below[8] = { 0 };
    for (int64_t i = 1; i < n; i++) below[i] = below[i - 1] + p[i - 1];
    cj_tensor *u = cj_rand(c, CJ_SHAPE(draws), .dtype = CJ_F64);
    return cj_add(cj_index_select(f64(c, below, CJ_SHAPE(n)), 0, k), cj_mul(u, cj_index_select(f64(c, p, CJ_SHAPE(n)), 0, k)));
}
static const double classes[5] = { 0.05, 0.4, 0.3, 0.2, 0.05 };
OWN(classes, cj_dist_uniform(N(0), N(1)),
    ((void)t, smeared(c, of(c, cj_dist_categorical(cj_log(f64(c, classes, CJ_SHAPE(5)))), CJ_F64), 5, classes)))
OWN(choices, cj_dist_uniform(N(0), N(1)),
    ((void)t, smeared(c, cj_choice(f64(c, classes, CJ_SHAPE(5)), draws, .replacement = true), 5, classes)))
OWN(integers, cj_dist_uniform(N(0), N(1)),
    ((void)t,
     cj_mul_scalar(cj_add(cj_cast(cj_randint(c, 0, 1000, CJ_SHAPE(draws)), CJ_F64), cj_rand(c, CJ_SHAPE(draws), .dtype = CJ_F64)), 1e-3)))
/* Of weights 1, 3, 6 without replacement the second is 0 with probability 0.3·0.1/0.7 + 0.6·0.1/0.4. */
OWN(second_choice, cj_dist_binomial(N(1), N(0.03 / 0.7 + 0.06 / 0.4)),
    ((void)t, cj_cast(cj_eq_scalar(cj_select(cj_choice(cj_expand(F64(c, CJ_SHAPE(3), 1, 3, 6), CJ_SHAPE(draws, 3)), 2), 1, 1), 0), CJ_F64)))
/* the generators underneath */
OWN(uniforms, cj_dist_uniform(N(-1), N(3)), cj_uniform(c, -1, 3, CJ_SHAPE(draws), .dtype = t))
OWN(normals, cj_dist_normal(N(2), N(0.5)), cj_normal(c, 2, 0.5, CJ_SHAPE(draws), .dtype = t))
OWN(rand, cj_dist_uniform(N(0), N(1)), cj_rand(c, CJ_SHAPE(draws), .dtype = t))
OWN(randn, cj_dist_normal(N(0), N(1)), cj_randn(c, CJ_SHAPE(draws), .dtype = t))
OWN(exponentials, cj_dist_exponential(N(2)), cj_exponential(c, 2, CJ_SHAPE(draws), .dtype = t))
OWN(bernoullis, cj_dist_bernoulli(N(0.9)), cj_bernoulli(c, 0.9, CJ_SHAPE(draws), .dtype = t))
OWN(randint, cj_dist_binomial(N(1), N(0.5)), ((void)t, cj_randint(c, 0, 2, CJ_SHAPE(draws))))
OWN(choice, cj_dist_binomial(N(1), N(0.75)), ((void)t, cj_choice(F64(c, CJ_SHAPE(2), 1, 3), draws, .replacement = true)))

#define NUMBERS(name)                                                                                                                      \
    {                                                                                                                                      \
#name, draw_##name, law_##name, -1, false                                                                                          \
    }
#define WHOLE(name)                                                                                                                        \
    {                                                                                                                                      \
#name, draw_##name, law_##name, -1, true                                                                                           \
    }
/* clang-format off */
static const sampler samplers[] = {
    NUMBERS(normal), NUMBERS(laplace), NUMBERS(gumbel), NUMBERS(logistic), NUMBERS(student), NUMBERS(uniform), NUMBERS(exponential),
    NUMBERS(gamma_small), NUMBERS(gamma_large), NUMBERS(beta), NUMBERS(von_mises), NUMBERS(log_normal), NUMBERS(affine), NUMBERS(mixture),
    WHOLE(bernoulli), WHOLE(binomial_few), WHOLE(binomial_many), WHOLE(poisson_few), WHOLE(poisson_many),
    { "dirichlet", draw_dirichlet, law_dirichlet, 0, false }, { "multinomial", draw_multinomial, law_multinomial, 1, true },
    { "diagonal_normal", draw_diagonal, law_diagonal, 1, false }, { "multivariate_normal", draw_multivariate, law_multivariate, 1, false },
    { "low_rank_normal", draw_low_rank, law_low_rank, 1, false }, WHOLE(categorical),
    NUMBERS(exp_logistic), { "vector_mixture", draw_vector_mixture, law_vector_mixture, 1, false }, NUMBERS(classes), NUMBERS(choices),
    NUMBERS(integers), WHOLE(second_choice),
    NUMBERS(uniforms), NUMBERS(normals), NUMBERS(rand), NUMBERS(randn), NUMBERS(exponentials), WHOLE(bernoullis), WHOLE(randint), WHOLE(choice),
};
/* clang-format on */
enum { SAMPLERS = sizeof samplers / sizeof *samplers, GENERATORS = 8 }; /* the last ones are generators, which have 16-bit types too */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* F at sorted places: the law's own, or the integral of its density by the midpoint rule. */
static double *cdf_at(cj_ctx *c, cj_dist d, const double *x, int n)
{
    if (d.kind != CJ_DIST_VON_MISES) return values_of(cj_dist_cdf(d, f64(c, x, CJ_SHAPE(n))));
    enum { CELLS = 20000 };
    static double at[CELLS];
    const double width = 2 * M_PI / CELLS;
    for (int i = 0; i < CELLS; i++) at[i] = -M_PI + width * (i + 0.5);
    double *p = values_of(cj_exp(cj_dist_log_prob(d, f64(c, at, CJ_SHAPE(CELLS))))), *f = calloc((size_t)n, sizeof *f), sum = 0;
    for (int i = 0, cell = 0; i < n; i++) {
        const double place = (x[i] + M_PI) / width;
        while (cell < CELLS && cell + 1 <= place) sum += p[cell++] * width;
        f[i] = sum + (cell < CELLS ? (place - cell) * p[cell] * width : 0);
    }
    free(p);
    return f;
}
static double kolmogorov(cj_ctx *c, cj_dist d, double *x)
{
    static double some[DRAWS / EVERY];
    double worst = 0;
    qsort(x, DRAWS, sizeof *x, ascending);
    for (int i = 0; i < DRAWS / EVERY; i++) some[i] = x[EVERY * i];
    double *f = cdf_at(c, d, some, DRAWS / EVERY);
    for (int i = 0; i < DRAWS / EVERY; i++) {
        const double k = (double)EVERY * i;
        worst = fmax(worst, fmax(f[i] - k / DRAWS, (k + 1) / DRAWS - f[i]));
    }
    free(f);
    return worst * sqrt(DRAWS);
}
/* (chi-square - cells) / sqrt(2 cells) over outcomes expected at least 20 times, the others together. */
static double chi_square(cj_ctx *c, cj_dist d, const double *x)
{
    enum { MOST = 2048 };
    static double seen[MOST];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < DRAWS; i++) {
        if (!(x[i] >= 0 && x[i] < MOST && floor(x[i]) == x[i])) return INFINITY;
        seen[(int)x[i]]++;
    }
    double *p = values_of(cj_exp(cj_dist_log_prob(d, cj_arange(c, 0, MOST, 1, CJ_F64)))), chi = 0, other = DRAWS, rest = DRAWS;
    int cells = 0;
    for (int k = 0; k < MOST; k++) {
        const double e = p[k] * DRAWS;
        if (e < 20) continue;
        chi += (seen[k] - e) * (seen[k] - e) / e, other -= seen[k], rest -= e, cells++;
    }
    if (rest > 20) chi += (other - rest) * (other - rest) / rest, cells++;
    free(p);
    return (chi - cells) / sqrt(2.0 * cells);
}

static void every_sampler_follows_its_law(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 20260101 });
    for (int i = 0; i < SAMPLERS; i++)
        for (int wide = 0; wide < 2; wide++) {
            cj_scope s = cj_scope_open(c);
            const sampler *k = &samplers[i];
            cj_tensor *t = k->draw(c, wide ? CJ_F64 : CJ_F32);
            if (k->column >= 0) t = cj_select(t, 1, k->column);
            double *x = values_of(t);
            const double found = k->discrete ? chi_square(c, k->law(c), x) : kolmogorov(c, k->law(c), x),
                         allowed = k->discrete ? 4.5 : limit;
            print_message("%-20s %s %s %.3g, allowed %.3g\n", k->name, wide ? "f64" : "f32",
                          k->discrete ? "chi-square, deviations" : "sqrt(n) D", found, allowed);
            if (!(found < allowed) || !cj_ok(c))
                fail_msg("%s, %s: %g, allowed %g %s", k->name, wide ? "f64" : "f32", found, allowed, cj_message(c));
            free(x);
            cj_scope_close(s);
        }
    for (int k = 0; k < CJ_DISTS; k++)
        if (!sampled[k]) fail_msg("no row draws kind %d of cj_dist_kind", k);
    cj_ctx_free(c);
}

/* FNV-1a of the bytes. */
static uint64_t hash_of(cj_tensor *t)
{
    const unsigned char *p = cj_data(t);
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0, n = (size_t)cj_numel(t) * cj_dtype_size(cj_dtype_of(t)); i < n; i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}
static void bits_are_the_same_everywhere(void **state)
{
    (void)state;
    draws = 100000;
    static const char *const levels[] = { "portable", "avx2", "avx512" };
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16 };
    uint64_t want[SAMPLERS][3] = { { 0 } };
    bool first = true;
    for (int l = 0; l < 3; l++)
        for (int threads = 1; threads <= 2; threads++) {
            cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .isa = levels[l], .threads = threads, .seed = 9 });
            if (!cj_ok(c)) { /* not on this machine */
                cj_ctx_free(c);
                continue;
            }
            for (int i = 0; i < SAMPLERS; i++)
                for (int t = 0; t < 3; t++) {
                    const bool generator = i >= SAMPLERS - GENERATORS;
                    if (types[t] == CJ_BF16 && !generator) continue;
                    cj_scope s = cj_scope_open(c);
                    cj_tensor *x = cj_contiguous(samplers[i].draw(c, types[t]));
                    assert_ok(c);
                    const uint64_t h = hash_of(x);
                    if (first) want[i][t] = h;
                    else if (h != want[i][t])
                        fail_msg("%s, type %d: other bits at %s with %d threads", samplers[i].name, t, levels[l], threads);
                    cj_scope_close(s);
                }
            first = false;
            cj_ctx_free(c);
        }
    assert_false(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_sampler_follows_its_law), cmocka_unit_test(bits_are_the_same_everywhere) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
