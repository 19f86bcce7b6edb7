/* The catalogue's families `lin` (classification, generalised linear models) and `perc`: one test case per row, named after its id (docs/coverage.tsv).  f64. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 43);

static cj_tensor *matrix(const double *v, int64_t n, int64_t d) { return (cj_from_f64)(c, v, CJ_SHAPE(n, d)); }
static cj_tensor *vector(const double *v, int64_t n) { return (cj_from_f64)(c, v, CJ_SHAPE(n)); }
static cj_tensor *normal(int64_t n, int64_t d) { return cj_randn(c, CJ_SHAPE(n, d), .dtype = CJ_F64); }
static cj_tensor *times(cj_tensor *x, const double *w) { return cj_squeeze(cj_matmul(x, matrix(w, cj_size(x, 1), 1)), 1); }
static double accuracy(cj_tensor *a, cj_tensor *b) { return cj_item(cj_mean(cj_cast(cj_eq(a, b), CJ_F64))); }
static cj_tensor *sign_of(cj_tensor *z) { return cj_add_scalar(cj_mul_scalar(cj_cast(cj_gt_scalar(z, 0), CJ_F64), 2), -1); }

/* ---- generalised linear models --------------------------------------------------------------------------------------------------------------------------- */

typedef struct problem {
    cj_glm_family family;
    cj_tensor *x, *y;
    double ridge;
} problem;
/* Mean loss of weights and bias, for descent. */
static cj_tensor *glm_objective(cj_ctx *k, void *user, cj_tensor *const *w, int n)
{
    problem *p = user;
    (void)k, (void)n;
    cj_tensor *z = cj_add(cj_squeeze(cj_matmul(p->x, cj_unsqueeze(w[0], 1)), 1), w[1]);
    return cj_mean(cj_glm_loss(p->family, z, p->y));
}

/* lin.logistic: logistic regression */
static void lin_logistic(void **state)
{
    (void)state;
    enum { N = 80 };
    static const double truth[2] = { 1.5, -1 };
    cj_tensor *x = normal(N, 2), *p = cj_sigmoid(cj_add_scalar(times(x, truth), 0.3));
    cj_tensor *y = cj_cast(cj_lt(cj_rand(c, CJ_SHAPE(N), .dtype = CJ_F64), p), CJ_F64), *sign = cj_add_scalar(cj_mul_scalar(y, 2), -1);
    cj_tensor *z = cj_mul_scalar(cj_randn(c, CJ_SHAPE(N), .dtype = CJ_F64), 4);
    /* y in {0, 1}: -y log s - (1 - y) log(1 - s); y = ±1: log(1 + e^(-y z)) */
    cj_tensor *zero_one = cj_glm_loss(CJ_GLM_BERNOULLI, z, y), *plus_minus = cj_softplus(cj_neg(cj_mul(sign, z)));
    assert_near(distance(zero_one, plus_minus), 0, 1e-14);
    double *zv = values_of(z), *yv = values_of(y), *l = values_of(zero_one);
    for (int i = 0; i < N; i++) {
        double s = 1 / (1 + exp(-zv[i]));
        assert_near(l[i], -yv[i] * log(s) - (1 - yv[i]) * log1p(-s), 1e-11);
        assert_near(log(s / (1 - s)), zv[i], 1e-9 * (1 + exp(fabs(zv[i])) * 1e-6)); /* the logit is the log of the odds */
    }
    free(zv);
    free(yv);
    free(l);
    cj_fit f = cj_logistic_regression(x, y);
    assert_true(f.converged && f.iterations < 12);
    problem data = { CJ_GLM_BERNOULLI, x, y, 0 };
    cj_tensor *w[2] = { cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F64)), cj_keep(cj_zeros(c, CJ_SCALAR, CJ_F64)) };
    cj_solution found;
    assert_true(
        cj_descent(c, glm_objective, &data, w, 2, &found, .search = CJ_SEARCH_FIXED, .step = 2, .iterations = 5000, .tolerance = 1e-11));
    assert_true(found.converged);
    assert_near(distance(w[0], f.weight), 0, 1e-8); /* descent finds the same optimum */
    assert_near(cj_item(w[1]), cj_item(f.bias), 1e-8);
    for (int trial = 0; trial < 20; trial++) {
        cj_tensor *a[2] = { cj_randn(c, CJ_SHAPE(2), .dtype = CJ_F64), cj_full(c, trial - 10, CJ_SCALAR, CJ_F64) };
        cj_tensor *b[2] = { cj_randn(c, CJ_SHAPE(2), .dtype = CJ_F64), cj_full(c, 3, CJ_SCALAR, CJ_F64) }, *m[2];
        for (int k = 0; k < 2; k++) m[k] = cj_mul_scalar(cj_add(a[k], b[k]), 0.5);
        double fa = cj_item(glm_objective(c, &data, a, 2)), fb = cj_item(glm_objective(c, &data, b, 2)),
               fm = cj_item(glm_objective(c, &data, m, 2));
        assert_true(fm <= (fa + fb) / 2 + 1e-12);
    }
    static const double line[4] = { -2, -1, 1, 2 }, label[4] = { 0, 0, 1, 1 }; /* separable: |w| grows with the steps, without end */
    double before = 0;
    for (int steps = 2; steps <= 14; steps += 4) {
        cj_fit s = cj_logistic_regression(matrix(line, 4, 1), vector(label, 4), .iterations = steps);
        assert_false(s.converged);
        assert_true(value_at(s.weight, 0) > before + 1);
        before = value_at(s.weight, 0);
    }
    cj_fit tamed = cj_logistic_regression(matrix(line, 4, 1), vector(label, 4), .ridge = 0.1);
    assert_true(tamed.converged && value_at(tamed.weight, 0) < 10);
    assert_poisoned(CJ_EVALUE, "glm: target 0 is 2; the bernoulli family has [0, 1]",
                    cj_logistic_regression(matrix(line, 1, 1), vector((double[]){ 2 }, 1)).weight);
}

/* lin.softmax: softmax (multinomial) regression */
static void lin_softmax(void **state)
{
    (void)state;
    enum { N = 90, D = 2, K = 3 };
    cj_tensor *x = normal(N, D), *scores = cj_matmul(x, normal(D, K)),
              *g = cj_neg(cj_log(cj_neg(cj_log(cj_rand(c, CJ_SHAPE(N, K), .dtype = CJ_F64)))));
    cj_tensor *y = cj_argmax(cj_add(scores, g), .axes = CJ_AXIS(1)); /* Gumbel noise: classes with softmax probabilities */
    cj_fit f = cj_softmax_regression(x, y, K);
    assert_true(f.converged && f.iterations < 12);
    cj_tensor *z = cj_fit_predict(&f, x), *p = cj_softmax(z, 1), *hot = cj_cast(cj_one_hot(y, K), CJ_F64);
    assert_near(cj_item(cj_max(cj_abs(cj_matmul(cj_t(x), cj_sub(p, hot))))), 0, 1e-7); /* the gradient (s - y) x vanishes */
    assert_near(cj_item(cj_max(cj_abs(cj_sum(cj_sub(p, hot), .axes = CJ_AXIS(0))))), 0, 1e-7);
    assert_near(cj_item(cj_max(cj_abs(cj_sum(f.weight, .axes = CJ_AXIS(1))))), 0, 1e-10); /* the representative that sums to 0 */
    cj_tensor *shifted =
        cj_softmax(cj_add(z, cj_unsqueeze(times(x, (double[]){ 3, -7 }), 1)), 1); /* a vector added to all weights changes nothing */
    assert_near(distance(p, shifted), 0, 1e-12);
    for (int i = 0; i < K; i++) /* the Jacobian s_i (delta_ij - s_j) has rows that sum to 0 */
        for (int row = 0; row < 5; row++) {
            double sum = 0, s[K];
            for (int j = 0; j < K; j++) s[j] = value_at(p, row * K + j);
            for (int j = 0; j < K; j++) sum += s[i] * ((i == j) - s[j]);
            assert_near(sum, 0, 1e-14);
        }
    cj_tensor *two = cj_cast(cj_gt_scalar(y, 0), CJ_I64); /* two classes: the sigmoid of the difference */
    cj_fit pair = cj_softmax_regression(x, two, 2), logistic = cj_logistic_regression(x, cj_cast(two, CJ_F64));
    for (int k = 0; k < D; k++)
        assert_near(value_at(pair.weight, 2 * k + 1) - value_at(pair.weight, 2 * k), value_at(logistic.weight, k), 1e-7);
    assert_near(value_at(pair.bias, 1) - value_at(pair.bias, 0), cj_item(logistic.bias), 1e-7);
    assert_poisoned(CJ_EVALUE, "softmax_regression: target 0 is 5; a class from 0 to 2 expected",
                    cj_softmax_regression(matrix((double[]){ 1, 2 }, 1, 2), vector((double[]){ 5 }, 1), 3).weight);
    assert_poisoned(CJ_EVALUE, "softmax_regression: 1 classes; 2 to 1000 are possible", cj_softmax_regression(x, y, 1).weight);
}

/* lin.glm: every family's derivative is mean - y; Newton is iteratively reweighted least squares; simulated weights are found again */
static cj_tensor *loss_of_z(cj_ctx *k, void *user, cj_tensor *const *z, int n)
{
    problem *p = user;
    (void)k, (void)n;
    return cj_sum(cj_glm_loss(p->family, z[0], p->y));
}
static void lin_glm(void **state)
{
    (void)state;
    enum { N = 4000 };
    static const double truth[2] = { 0.5, -0.4 };
    cj_tensor *x = cj_clamp(normal(N, 2), -2, 2), *z = cj_add_scalar(times(x, truth), -2.2), *u = cj_rand(c, CJ_SHAPE(N), .dtype = CJ_F64);
    for (int family = CJ_GLM_GAUSSIAN; family <= CJ_GLM_EXPONENTIAL; family++) {
        cj_tensor *mean = cj_glm_mean((cj_glm_family)family, z), *y = mean, *g;
        if (family == CJ_GLM_GAUSSIAN) y = cj_add(mean, cj_randn(c, CJ_SHAPE(N), .dtype = CJ_F64));
        if (family == CJ_GLM_BERNOULLI) y = cj_cast(cj_lt(u, mean), CJ_F64);
        if (family == CJ_GLM_POISSON) y = cj_dist_sample(cj_dist_poisson(mean), CJ_SCALAR);
        if (family == CJ_GLM_EXPONENTIAL) y = cj_neg(cj_mul(mean, cj_log(cj_add_scalar(cj_neg(u), 1))));
        problem p = { (cj_glm_family)family, x, y, 0 };
        cj_vjp(c, loss_of_z, &p, &z, 1, NULL, &g);
        assert_near(distance(g, cj_sub(mean, y)), 0, 1e-12);
        cj_fit f = cj_glm((cj_glm_family)family, x, y);
        assert_true(f.converged);
        for (int k = 0; k < 2; k++) assert_near(value_at(f.weight, k), truth[k], 0.2);
        assert_near(cj_item(f.bias), -2.2, 0.2);
        /* the fixed point of reweighted least squares: regress z + (y - mean)/v with weights v */
        cj_tensor *at = cj_fit_predict(&f, x), *m = cj_glm_mean((cj_glm_family)family, at), *v = cj_ones_like(at);
        if (family == CJ_GLM_BERNOULLI) v = cj_mul(m, cj_add_scalar(cj_neg(m), 1));
        if (family == CJ_GLM_POISSON) v = m;
        if (family == CJ_GLM_EXPONENTIAL) v = cj_square(m);
        cj_tensor *root = cj_unsqueeze(cj_sqrt(v), 1), *both[2] = { x, cj_ones(c, CJ_SHAPE(N, 1), CJ_F64) };
        cj_tensor *response = cj_add(at, cj_div(cj_sub(y, m), v));
        cj_tensor *w = cj_lstsq(cj_mul(cj_cat(both, 2, 1), root), cj_mul(cj_unsqueeze(response, 1), root));
        for (int k = 0; k < 2; k++) assert_near(value_at(w, k), value_at(f.weight, k), 1e-6);
        assert_near(value_at(w, 2), cj_item(f.bias), 1e-6);
    }
    cj_fit gaussian = cj_glm(CJ_GLM_GAUSSIAN, x, z), squares = cj_least_squares(x, z); /* one step */
    assert_int_equal(gaussian.iterations, 1);
    assert_near(distance(gaussian.weight, squares.weight), 0, 1e-10);
    assert_poisoned(CJ_EVALUE, "glm: family 7 is none", cj_glm((cj_glm_family)7, x, z).weight);
    assert_poisoned(CJ_EVALUE, "glm: target 0 is", cj_glm(CJ_GLM_POISSON, x, cj_full(c, -1, CJ_SHAPE(N), CJ_F64)).weight);
    assert_poisoned(CJ_EVALUE, "glm: ridge -1", cj_glm(CJ_GLM_POISSON, x, cj_full(c, 1, CJ_SHAPE(N), CJ_F64), .ridge = -1).weight);
}

/* lin.feature_circle: two rings, radii 1 and 2 with noise 0.15 */
static void lin_feature_circle(void **state)
{
    (void)state;
    enum { N = 400 };
    cj_tensor *angle = cj_uniform(c, 0, 2 * M_PI, CJ_SHAPE(N), .dtype = CJ_F64),
              *outer = cj_cast(cj_gt_scalar(cj_rand(c, CJ_SHAPE(N)), 0.5), CJ_F64);
    cj_tensor *radius = cj_add(cj_add_scalar(outer, 1), cj_mul_scalar(cj_randn(c, CJ_SHAPE(N), .dtype = CJ_F64), 0.12));
    cj_tensor *x = cj_stack((cj_tensor *[]){ cj_mul(radius, cj_cos(angle)), cj_mul(radius, cj_sin(angle)) }, 2, 1);
    cj_tensor *phi = cj_sum(cj_square(x), .axes = CJ_AXIS(1), .keepdim = true);
    cj_fit round = cj_logistic_regression(phi, outer, .ridge = 1e-3), straight = cj_logistic_regression(x, outer);
    assert_true(accuracy(cj_cast(cj_gt_scalar(cj_fit_predict(&round, phi), 0), CJ_F64), outer) >= 0.99);
    double boundary = sqrt(-cj_item(round.bias) / value_at(round.weight, 0));
    assert_near(boundary, 1.5, 0.12); /* a circle between the rings */
    assert_near(accuracy(cj_cast(cj_gt_scalar(cj_fit_predict(&straight, x), 0), CJ_F64), outer), 0.5, 0.1);
}

/* lin.one_vs_rest: ten classes, Gaussian clouds on a circle */
static void lin_one_vs_rest(void **state)
{
    (void)state;
    enum { N = 500, K = 10 };
    cj_tensor *x[2], *y[2];
    for (int k = 0; k < 2; k++) {
        y[k] = cj_randint(c, 0, K, CJ_SHAPE(N));
        cj_tensor *angle = cj_mul_scalar(cj_cast(y[k], CJ_F64), 2 * M_PI / K);
        cj_tensor *centre = cj_mul_scalar(cj_stack((cj_tensor *[]){ cj_cos(angle), cj_sin(angle) }, 2, 1), 4);
        x[k] = cj_add(centre, cj_mul_scalar(normal(N, 2), 0.4));
    }
    int64_t fits = 0;
    cj_fit softmax = cj_softmax_regression(x[0], y[0], K, .ridge = 0.1);
    double whole = accuracy(cj_argmax(cj_fit_predict(&softmax, x[1]), .axes = CJ_AXIS(1)), y[1]);
    assert_true(whole > 0.9);
    double rest = accuracy(cj_one_vs_rest(x[0], y[0], K, x[1], &fits, .ridge = 0.1), y[1]);
    assert_int_equal(fits, 10);
    double pairs = accuracy(cj_one_vs_one(x[0], y[0], K, x[1], &fits, .ridge = 0.1), y[1]);
    assert_int_equal(fits, 45);
    assert_near(rest, whole, 0.02);
    assert_near(pairs, whole, 0.02);
}

/* ---- perceptrons ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* n points in the unit ball of R^d with margin rho for a random direction `truth` [d], |truth| = 1 */
static void separable_points(int n, int d, double rho, double *x, double *y, double *truth)
{
    double norm = 0, *t = values_of(normal(1, d));
    for (int k = 0; k < d; k++) norm += t[k] * t[k];
    for (int k = 0; k < d; k++) truth[k] = t[k] / sqrt(norm);
    free(t);
    for (int i = 0; i < n;) {
        double *row = values_of(normal(1, d)), size = 0, z = 0, *u = values_of(cj_rand(c, CJ_SHAPE(1), .dtype = CJ_F64));
        for (int k = 0; k < d; k++) size += row[k] * row[k];
        for (int k = 0; k < d; k++) row[k] *= (0.3 + 0.7 * u[0]) / sqrt(size), z += row[k] * truth[k];
        double shift = z >= 0 ? rho : -rho, after = 0; /* moved away from the plane by rho, and back into the ball */
        for (int k = 0; k < d; k++) row[k] += shift * truth[k], after += row[k] * row[k];
        if (after <= 1) {
            memcpy(x + i * d, row, (size_t)d * sizeof *row);
            y[i++] = z >= 0 ? 1 : -1;
        }
        free(row);
        free(u);
    }
}
static double dot(const double *a, const double *b, int d)
{
    double sum = 0;
    for (int k = 0; k < d; k++) sum += a[k] * b[k];
    return sum;
}

typedef struct invariants {
    const double *x, *y, *truth;
    int d;
    double rho, sizes; /* sum of |x|² over the updates so far */
    int violations;
    int64_t updates;
} invariants;
static void watch(void *seen, int64_t update, const double *w, int64_t i)
{
    invariants *v = seen;
    const double *row = v->x + i * v->d;
    double z = v->y[i] * dot(row, w, v->d), next[128];
    for (int k = 0; k < v->d; k++) next[k] = w[k] + v->y[i] * row[k];
    v->sizes += dot(row, row, v->d);
    int64_t t = update + 1;
    double norm2 = dot(next, next, v->d), along = dot(next, v->truth, v->d);
    v->violations += z > 1e-12;                                                              /* updates only where (y x)·w <= 0 */
    v->violations += norm2 > v->sizes + 1e-9 || norm2 > (double)t + 1e-9;                    /* |w|² <= sum |x|² <= t */
    v->violations += along < (double)t * v->rho - 1e-9;                                      /* <w*, w> >= t rho */
    v->violations += along / sqrt(norm2) < sqrt((double)t) * v->rho - 1e-9;                  /* cos >= sqrt(t) rho, R = 1 */
    v->violations += fabs(v->y[i] * dot(row, next, v->d) - z - dot(row, row, v->d)) > 1e-12; /* y<w, x> grows by |x|² */
    v->updates = t;
}

/* perc.rule: perceptron unit and learning rule */
static void perc_rule(void **state)
{
    (void)state;
    static const double x[8] = { 1, 1, 1, -1, -1, 1, -1, -1 }, and_y[4] = { 1, -1, -1, -1 }, xor_y[4] = { -1, 1, 1, -1 };
    cj_tensor *both[2] = { matrix(x, 4, 2), cj_ones(c, CJ_SHAPE(4, 1), CJ_F64) }, *points = cj_cat(both, 2, 1);
    for (int random = 0; random < 2; random++) {
        cj_separator s = cj_perceptron(points, vector(and_y, 4), .random = random);
        assert_true(s.separated && s.margin > 0 && s.updates > 0);
        assert_near(accuracy(sign_of(cj_squeeze(cj_matmul(points, cj_unsqueeze(s.weight, 1)), 1)), vector(and_y, 4)), 1, 0);
        cj_separator never = cj_perceptron(points, vector(xor_y, 4), .updates = 5000, .random = random); /* cycles without end */
        assert_false(never.separated);
        assert_int_equal(never.updates, 5000);
    }
    /* by hand, in order, from 0: ties are mistakes, so the first example is one */
    cj_separator s = cj_perceptron(points, vector(and_y, 4), .passes = 1);
    assert_near(value_at(s.alpha, 0), 1, 0);
    static const double one[2] = { 2, -1 }, label[1] = { -1 };
    s = cj_perceptron(matrix(one, 1, 2), vector(label, 1));
    assert_near(value_at(s.weight, 0), -2, 0);
    assert_near(value_at(s.weight, 1), 1, 0);
    assert_poisoned(CJ_EVALUE, "perceptron: target 0 is 0; -1 or 1 expected",
                    cj_perceptron(matrix(one, 1, 2), vector((double[]){ 0 }, 1)).weight);
    assert_poisoned(CJ_EVALUE, "perceptron: -1 updates", cj_perceptron(matrix(one, 1, 2), vector(label, 1), .updates = -1).weight);
}

/* perc.lemmas: perceptron update invariants */
static void perc_lemmas(void **state)
{
    (void)state;
    enum { N = 60 };
    for (int trial = 0; trial < 20; trial++) {
        int d = 2 + trial;
        double x[N * 32], y[N], truth[32];
        separable_points(N, d, 0.05, x, y, truth);
        invariants v = { .x = x, .y = y, .truth = truth, .d = d, .rho = INFINITY };
        for (int i = 0; i < N; i++) v.rho = fmin(v.rho, y[i] * dot(x + i * d, truth, d));
        cj_separator s = cj_perceptron(matrix(x, N, d), vector(y, N), .random = trial % 2, .visit = watch, .seen = &v);
        assert_true(s.separated && v.updates == s.updates && s.updates > 0);
        assert_int_equal(v.violations, 0);
    }
}

/* perc.novikov: perceptron convergence bound (Novikov) */
static void perc_novikov(void **state)
{
    (void)state;
    enum { N = 50 };
    double worst = 0;
    for (int trial = 0; trial < 200; trial++) {
        static const int dims[5] = { 2, 5, 10, 30, 100 };
        int d = dims[trial % 5];
        static double x[N * 100], y[N], truth[100];
        cj_scope scope = cj_scope_open(c);
        separable_points(N, d, 0.03 + 0.001 * trial, x, y, truth);
        double rho = INFINITY, r2 = 0;
        for (int i = 0; i < N; i++) rho = fmin(rho, y[i] * dot(x + i * d, truth, d)), r2 = fmax(r2, dot(x + i * d, x + i * d, d));
        cj_separator s = cj_perceptron(matrix(x, N, d), vector(y, N), .random = trial % 2);
        assert_true(s.separated);
        assert_true((double)s.updates <= r2 / (rho * rho));
        worst = fmax(worst, (double)s.updates * rho * rho / r2);
        cj_scope_close(scope);
    }
    assert_true(worst > 0.02 && worst < 0.5); /* the bound is not idle, and not tight */
}

/* perc.onepass: a stream of fresh examples, each seen once */
static void perc_onepass(void **state)
{
    (void)state;
    enum { N = 100000 };
    for (int d = 2; d <= 20; d += 18) {
        double rho = 0.1, *truth = calloc((size_t)d, sizeof *truth);
        truth[0] = 1;
        cj_tensor *x = normal(N, d), *size = cj_sqrt(cj_sum(cj_square(x), .axes = CJ_AXIS(1), .keepdim = true));
        x = cj_mul_scalar(cj_div(x, size),
                          0.9); /* on a sphere of radius 0.9, then moved away from the plane by 0.1 along the first axis: |x| <= 1 */
        double *v = values_of(x), *y = calloc(N, sizeof *y);
        for (int i = 0; i < N; i++) y[i] = v[(int64_t)i * d] >= 0 ? 1 : -1, v[(int64_t)i * d] += y[i] * rho;
        cj_separator whole = cj_perceptron(matrix(v, N, d), vector(y, N), .passes = 1),
                     half = cj_perceptron(matrix(v, N / 2, d), vector(y, N / 2), .passes = 1);
        assert_true((double)whole.updates <= 1 / (rho * rho)); /* in any dimension */
        assert_true(whole.updates - half.updates <= 2);        /* nothing left to learn in the second half */
        free(v);
        free(y);
        free(truth);
    }
}

/* perc.dual: dual perceptron */
static void perc_dual(void **state)
{
    (void)state;
    enum { N = 40, D = 3 };
    double x[N * D], y[N], truth[D], alpha[N] = { 0 };
    separable_points(N, D, 0.05, x, y, truth);
    cj_separator s = cj_perceptron(matrix(x, N, D), vector(y, N));
    int clean = 0; /* the same, written with products of examples only */
    for (int t = 0; clean < N; t++) {
        int i = t % N;
        double z = 0;
        for (int j = 0; j < N; j++) z += alpha[j] * y[j] * dot(x + j * D, x + i * D, D);
        if (y[i] * z <= 0) alpha[i]++, clean = 0;
        else clean++;
    }
    double w[D] = { 0 };
    for (int i = 0; i < N; i++) {
        assert_near(value_at(s.alpha, i), alpha[i], 0);
        for (int k = 0; k < D; k++) w[k] += alpha[i] * y[i] * x[i * D + k];
    }
    for (int k = 0; k < D; k++) assert_near(value_at(s.weight, k), w[k], 1e-12);
}

/* perc.margin: margin and hard-margin separator */
static void perc_margin(void **state)
{
    (void)state;
    static const double two[4] = { 1, 1, -1, -1 }, label[2] = { 1, -1 };
    cj_separator s = cj_hard_margin(matrix(two, 2, 2), vector(label, 2));
    assert_true(s.separated);
    for (int k = 0; k < 2; k++) {
        assert_near(value_at(s.weight, k), 0.5, 1e-12);
        assert_near(value_at(s.alpha, k), 0.25, 1e-12);
    }
    assert_near(s.margin, sqrt(2), 1e-12);
    assert_near(s.bias, 0, 1e-12);
    enum { N = 30, D = 3 };
    double x[N * D], y[N], truth[D];
    separable_points(N, D, 0.05, x, y, truth);
    s = cj_hard_margin(matrix(x, N, D), vector(y, N));
    assert_true(s.separated);
    cj_tensor *ones[2] = { matrix(x, N, D), cj_ones(c, CJ_SHAPE(N, 1), CJ_F64) };
    cj_separator p = cj_perceptron(cj_cat(ones, 2, 1), vector(y, N));
    double *w = values_of(p.weight), least = INFINITY, *best = values_of(s.weight), *alpha = values_of(s.alpha), balance = 0,
           sum[D] = { 0 };
    for (int i = 0; i < N; i++) least = fmin(least, y[i] * (dot(x + i * D, w, D) + w[D]) / sqrt(dot(w, w, D)));
    assert_true(p.separated && s.margin >= least - 1e-9);
    assert_near(s.margin, 1 / sqrt(dot(best, best, D)), 1e-8);
    for (int i = 0; i < N; i++) { /* the conditions of optimality */
        double side = y[i] * (dot(x + i * D, best, D) + s.bias);
        assert_true(alpha[i] >= 0 && side >= 1 - 1e-8);
        assert_near(alpha[i] * (side - 1), 0, 1e-6);
        balance += alpha[i] * y[i];
        for (int k = 0; k < D; k++) sum[k] += alpha[i] * y[i] * x[i * D + k];
    }
    assert_near(balance, 0, 1e-8);
    for (int k = 0; k < D; k++) assert_near(sum[k], best[k], 1e-8);
    free(w), free(best), free(alpha);
    static const double corners[8] = { 1, 1, 1, -1, -1, 1, -1, -1 }, xor_y[4] = { -1, 1, 1, -1 };
    assert_false(cj_hard_margin(matrix(corners, 4, 2), vector(xor_y, 4), .iterations = 1000).separated);
    assert_poisoned(CJ_EVALUE, "hard_margin: all targets are alike",
                    cj_hard_margin(matrix(two, 2, 2), vector((double[]){ 1, 1 }, 2)).weight);
}

/* Labelings of s points in R^n that a linear function through 0 makes. */
static int dichotomies(const double *x, int s, int n, bool bias)
{
    int count = 0;
    for (int bits = 0; bits < 1 << s; bits++) {
        double y[8];
        cj_scope scope = cj_scope_open(c);
        for (int i = 0; i < s; i++) y[i] = bits >> i & 1 ? 1 : -1;
        count += cj_separable(matrix(x, s, n), vector(y, s), bias);
        cj_scope_close(scope);
    }
    return count;
}
/* perc.cover: cover's function-counting theorem */
static void perc_cover(void **state)
{
    (void)state;
    static const int three[10] = { 2, 4, 8, 14, 22, 32, 44, 58, 74, 92 }, four[10] = { 2, 4, 8, 16, 30, 52, 84, 128, 186, 260 };
    for (int s = 1; s <= 10; s++) {
        assert_near(cj_cover_count(s, 3), three[s - 1], 0);
        assert_near(cj_cover_count(s, 4), four[s - 1], 0);
        assert_near(cj_cover_count(s, 2), 2 * s, 0);
        for (int n = 1; n <= 8; n++) {
            assert_near(cj_cover_count(s + 1, n), cj_cover_count(s, n) + cj_cover_count(s, n - 1), 0);
            assert_true((cj_cover_count(s, n) == pow(2, s)) == (s <= n));
            assert_near(cj_cover_count(2 * n, n), pow(2, 2 * n - 1), 0);
        }
    }
    double *x = values_of(normal(6, 3));
    for (int s = 3; s <= 6; s++) assert_int_equal(dichotomies(x, s, 3, false), three[s - 1]);
    free(x);
    assert_true(isnan(cj_cover_count(0, 3)));
}

/* perc.shatter: shattering by linear functions */
static void perc_shatter(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        double *x = values_of(normal(n + 1, n));
        assert_int_equal(dichotomies(x, n, n, false), 1 << n); /* n points: all labelings */
        assert_true(dichotomies(x, n + 1, n, false) < 1 << (n + 1));
        free(x);
        x = values_of(normal(n + 2, n));
        assert_int_equal(dichotomies(x, n + 1, n, true), 1 << (n + 1)); /* with a bias one more */
        if (n < 5) assert_true(dichotomies(x, n + 2, n, true) < 1 << (n + 2));
        free(x);
    }
    static const double corners[8] = { 1, 1, 1, -1, -1, 1, -1, -1 }, xor_y[4] = { -1, 1, 1, -1 };
    assert_false(cj_separable(matrix(corners, 4, 2), vector(xor_y, 4), true));
    static const double hull[8] = { 0, 0, 4, 0, 0, 4, 1, 1 }, inside[4] = { 1, 1, 1, -1 }; /* a point in the hull of the others */
    assert_false(cj_separable(matrix(hull, 4, 2), vector(inside, 4), true));
}

/* perc.one_pixel: 50 images of 100 x 100 RGB; the classifier remembers one pixel of each */
static void perc_one_pixel(void **state)
{
    (void)state;
    enum { N = 50, SIDE = 100 };
    cj_tensor *train = cj_randint(c, 0, 256, CJ_SHAPE(N, SIDE, SIDE, 3)), *fresh = cj_randint(c, 0, 256, CJ_SHAPE(400, 3));
    double *pixel = values_of(cj_contiguous(cj_select(cj_select(train, 1, 25), 1, 45))), *other = values_of(fresh), y[N];
    int errors = 0, right = 0, distinct = 0;
    for (int i = 0; i < N; i++) y[i] = i % 2 ? 1 : -1;
    for (int pass = 0; pass < 2; pass++) {
        int n = pass ? 400 : N;
        const double *v = pass ? other : pixel;
        for (int i = 0; i < n; i++) {
            double says = -1;
            int first = -1;
            for (int k = 0; k < N && first < 0; k++)
                if (memcmp(v + 3 * i, pixel + 3 * k, 3 * sizeof *v) == 0) first = k, says = y[k];
            if (pass) right += says == (i % 2 ? 1 : -1);
            else errors += says != y[i], distinct += first == i;
        }
    }
    assert_int_equal(distinct, N); /* 50 of 2^24 colours */
    assert_int_equal(errors, 0);
    assert_near(right / 400.0, 0.5, 0.05);
    assert_int_equal(SIDE * SIDE, 10000); /* one such classifier for each pixel */
    free(pixel);
    free(other);
}

/* perc.permutation: one order of the inputs is as good as another for linear models and networks, not for convolutions */
static void perc_permutation(void **state)
{
    (void)state;
    enum { N = 128, D = 64, STEPS = 40 };
    cj_tensor *x = normal(N, D), *labels = cj_randint(c, 0, 2, CJ_SHAPE(N)), *order = cj_argsort(cj_rand(c, CJ_SHAPE(D)), 0),
              *mixed = cj_index_select(x, 1, order);
    static const cj_module_type holder = { "holder", NULL, NULL };
    for (int hidden = 0; hidden < 2; hidden++) { /* a linear classifier, a network of 8 units */
        cj_tensor *w1 = normal(hidden ? 8 : 2, D), *w2 = normal(2, 8), *p[2][2];
        cj_optim *o[2];
        for (int k = 0; k < 2; k++) {
            cj_module *m = cj_module_new(c, &holder, 0);
            p[k][0] = cj_module_param(m, "a", k ? cj_index_select(w1, 1, order) : w1), p[k][1] = cj_module_param(m, "b", w2);
            o[k] = cj_sgd(cj_module_params(m), .lr = 0.05);
        }
        for (int t = 0; t < STEPS; t++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *z[2];
            for (int k = 0; k < 2; k++) {
                z[k] = cj_matmul(k ? mixed : x, cj_t(p[k][0]));
                if (hidden) z[k] = cj_matmul(cj_tanh(z[k]), cj_t(p[k][1]));
                cj_tensor *loss = cj_cross_entropy(z[k], labels);
                if (!hidden) loss = cj_add(loss, cj_mul_scalar(cj_sum(p[k][1]), 0));
                assert_true(cj_minimise(o[k], loss));
            }
            assert_near(distance(cj_detach(z[0]), cj_detach(z[1])), 0, 1e-11);
            cj_scope_close(s);
        }
        assert_near(distance(cj_index_select(cj_detach(p[0][0]), 1, order), cj_detach(p[1][0])), 0, 1e-12);
    }
    /* a convolution that has learnt to tell horizontal from vertical bars in 8 x 8 images loses it when the pixels are put in another order */
    enum { SIDE = 8 };
    double *bars = calloc(N * D, sizeof *bars), *at = values_of(cj_cast(cj_randint(c, 0, SIDE, CJ_SHAPE(N)), CJ_F64));
    int64_t which[N];
    for (int i = 0; i < N; i++) {
        which[i] = i % 2;
        for (int k = 0; k < SIDE; k++) bars[i * D + (which[i] ? k * SIDE + (int)at[i] : (int)at[i] * SIDE + k)] = 1;
    }
    cj_tensor *images = cj_reshape(matrix(bars, N, D), CJ_SHAPE(N, 1, SIDE, SIDE)), *y = (cj_from_i64)(c, which, CJ_SHAPE(N));
    images = cj_cast(images, CJ_F32);
    cj_tensor *shuffled = cj_reshape(cj_index_select(cj_reshape(images, CJ_SHAPE(N, D)), 1, order), CJ_SHAPE(N, 1, SIDE, SIDE));
    cj_module *net =
        cj_sequential(c, cj_conv_layer(c, 1, 4, CJ_SHAPE(3, 3)), cj_relu_layer(c), cj_global_max_pool_layer(c), cj_linear(c, 4, 2));
    cj_optim *o = cj_adam(cj_module_params(net), .lr = 0.05);
    for (int t = 0; t < 150; t++) {
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(o, cj_cross_entropy(cj_forward(net, images), y)));
        cj_scope_close(s);
    }
    double learnt = accuracy(cj_argmax(cj_forward(net, images), .axes = CJ_AXIS(1)), y),
           lost = accuracy(cj_argmax(cj_forward(net, shuffled), .axes = CJ_AXIS(1)), y);
    assert_true(learnt > 0.95 && lost < 0.8);
    free(bars);
    free(at);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(lin_logistic), ROW(lin_softmax), ROW(lin_glm),      ROW(lin_feature_circle), ROW(lin_one_vs_rest),
        ROW(perc_rule),    ROW(perc_lemmas), ROW(perc_novikov), ROW(perc_onepass),       ROW(perc_dual),
        ROW(perc_margin),  ROW(perc_cover),  ROW(perc_shatter), ROW(perc_one_pixel),     ROW(perc_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
