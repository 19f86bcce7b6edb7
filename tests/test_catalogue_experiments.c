/* Catalogue rows of small families: sparse recovery, a predictor that memorises, loss curves, searches, dropout of factors, tests of properties. */
#include "support.h"

#include <sys/stat.h>

TEST_CONTEXT(.threads = 1, .seed = 59);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }

/* k of d numbers are not 0 */
static cj_tensor *sparse(int64_t d, int64_t k)
{
    int64_t order[128];
    double w[128] = { 0 }, *v = values_of(normal(CJ_SHAPE(k)));
    cj_data_order((uint64_t)cj_item(cj_randint(c, 0, 1000000, CJ_SCALAR)), 0, d, order);
    for (int i = 0; i < k; i++) w[order[i]] = v[i] + copysign(0.5, v[i]);
    free(v);
    return f64(c, w, CJ_SHAPE(d));
}
static int64_t nonzeros(cj_tensor *w) { return (int64_t)cj_item(cj_sum(cj_gt_scalar(cj_abs(w), 1e-4))); }

static void lin_compressed_sensing(void **state) /* lin.compressed_sensing */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { D = 80, K = 3, TRIALS = 10 };
    int64_t m = (int64_t)ceil(4 * K * log((double)D / K)); /* 40 measurements of 80 numbers */
    int found = 0, few = 0;
    for (int t = 0; t < TRIALS; t++) {
        cj_tensor *w = sparse(D, K), *a = normal(CJ_SHAPE(m, D)), *b = cj_matmul(a, w);
        found += distance(cj_basis_pursuit(a, b), w) < 1e-4;
        cj_tensor *shortest = cj_lstsq(a, b);
        assert_true(nonzeros(shortest) > D / 2); /* the solution of least squares is not sparse */
        cj_tensor *less = cj_slice(a, 0, 0, K - 1, 1);
        few += distance(cj_basis_pursuit(less, cj_matmul(less, w)), w) < 1e-4;
    }
    assert_true(found >= TRIALS - 1);
    assert_int_equal(few, 0); /* fewer measurements than numbers that are not 0 */
    /* phase retrieval: only |a_i·w| is known. First the main direction of sum |a_i·w|² a_i a_iᵀ, then signs and least squares in turn */
    for (int t = 0; t < TRIALS; t++) {
        enum { N = 8, M = 120 };
        cj_tensor *w = normal(CJ_SHAPE(N)), *a = normal(CJ_SHAPE(M, N)), *b = cj_abs(cj_matmul(a, w));
        cj_tensor *weighted = cj_matmul(cj_t(a), cj_mul(a, cj_unsqueeze(cj_square(b), 1))),
                  *x = cj_select(cj_eigh(weighted).vectors, 1, N - 1);
        for (int i = 0; i < 50; i++) x = cj_lstsq(a, cj_mul(b, cj_sign(cj_matmul(a, x))));
        assert_near(fmin(distance(x, w), distance(x, cj_neg(w))), 0, 1e-8); /* up to the sign of all */
    }
    cj_scope_close(s);
}

/* The label of the training image with the same colour at (row, column), else -1. */
static cj_tensor *one_pixel(cj_tensor *train, cj_tensor *label, cj_tensor *x, int64_t row, int64_t column)
{
    cj_tensor *known = cj_select(cj_select(train, 2, row), 2, column), *seen = cj_select(cj_select(x, 2, row), 2, column); /* [n, 3] */
    cj_tensor *same = cj_cast(cj_all(cj_eq(cj_unsqueeze(seen, 1), cj_unsqueeze(known, 0)), .axes = CJ_AXIS(2)), CJ_F32);   /* [m, n] */
    cj_tensor *any = cj_gt_scalar(cj_sum(same, .axes = CJ_AXIS(1)), 0), *vote = cj_matmul(same, label);
    return cj_where(any, vote, cj_full(c, -1, CJ_SCALAR, CJ_F32));
}

static void perc_one_pixel(void **state) /* perc.one_pixel */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 50, SIDE = 100, FRESH = 200 };
    cj_tensor *x = cj_rand(c, CJ_SHAPE(N, 3, SIDE, SIDE)),
              *y = cj_sub(cj_mul_scalar(cj_bernoulli(c, 0.5, CJ_SHAPE(N)), 2), cj_ones(c, CJ_SHAPE(N), CJ_F32));
    assert_near(distance(one_pixel(x, y, x, 25, 45), y), 0, 0); /* all values differ: no error */
    cj_tensor *fresh = cj_rand(c, CJ_SHAPE(FRESH, 3, SIDE, SIDE)),
              *truth = cj_sub(cj_mul_scalar(cj_bernoulli(c, 0.5, CJ_SHAPE(FRESH)), 2), cj_ones(c, CJ_SHAPE(FRESH), CJ_F32));
    double right = cj_item(cj_mean(cj_cast(cj_eq(one_pixel(x, y, fresh, 25, 45), truth), CJ_F32)));
    assert_near(right, 0.5, 4 * 0.5 / sqrt(FRESH)); /* chance */
    int64_t perfect = 0; /* there is one such classifier for each pixel, at most 10^4; of one in 25 pixels all are without error */
    for (int64_t i = 0; i < SIDE * SIDE; i += 25) perfect += distance(one_pixel(x, y, x, i / SIDE, i % SIDE), y) == 0;
    assert_int_equal(perfect, SIDE * SIDE / 25);
    assert_int_equal(SIDE * SIDE, 10000);
    /* two images with the same colour and different labels: no longer without error */
    cj_tensor *both[] = { cj_slice(x, 0, 0, 1, 1), cj_slice(x, 0, 0, 1, 1) }, *twins = cj_cat(both, 2, 0),
              *labels = cj_from_f32(c, (float[]){ 1, -1 }, CJ_SHAPE(2));
    assert_true(distance(one_pixel(twins, labels, twins, 25, 45), labels) > 0);
    cj_scope_close(s);
}

/* |w| + w²/20: a rate of 0.7 jumps over the minimum for ever, one above 20 leaves it; a saturated unit for bad initial weights */
static void planted_run(double start, double lr, bool saturated, double *loss, int n)
{
    static const cj_module_type holder = { "Holder", NULL, NULL };
    cj_scope outer = cj_scope_open(c);
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *w = cj_module_param(m, "w", cj_full(c, start, CJ_SCALAR, CJ_F64));
    cj_optim *sgd = cj_sgd(cj_module_params(m), .lr = lr);
    for (int i = 0; i < n; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *l =
            saturated ? cj_square(cj_add_scalar(cj_neg(cj_sigmoid(w)), 1)) : cj_add(cj_abs(w), cj_mul_scalar(cj_square(w), 0.05));
        loss[i] = cj_item(l);
        cj_minimise(sgd, l);
        cj_scope_close(s);
    }
    cj_scope_close(outer);
}

static void train_loss_curves_of_planted_runs(void **state) /* train.loss_curves */
{
    (void)state;
    enum { STEPS = 100, RUNS = 5 };
    const double start[RUNS] = { 1, 1, 1, 1, -6 }, lr[RUNS] = { 0.002, 0.7, 45, 0.03, 8 };
    const char *name[RUNS] = { "low", "high", "very high", "good", "bad initial weight" };
    const cj_curve kind[RUNS] = { CJ_CURVE_SLOW, CJ_CURVE_PLATEAU, CJ_CURVE_EXPLODES, CJ_CURVE_GOOD, CJ_CURVE_FLAT_FIRST };
    double loss[RUNS][STEPS];
    cj_plot *p = cj_plot_new(c, "Loss over steps");
    cj_plot_log(p, false, true);
    for (int i = 0; i < RUNS; i++) {
        planted_run(start[i], lr[i], i == 4, loss[i], i == 2 ? 20 : STEPS);
        assert_ok(c);
        if (cj_loss_curve(loss[i], i == 2 ? 20 : STEPS) != kind[i])
            fail_msg("the run with a %s rate is read as %d", name[i], (int)cj_loss_curve(loss[i], STEPS));
        assert_true(cj_plot_line(p, name[i], NULL, loss[i], i == 2 ? 20 : STEPS));
    }
    char folder[] = "/tmp/cajal-curves-XXXXXX", path[64], table[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/loss.svg", folder), snprintf(table, sizeof table, "%s/loss.tsv", folder);
    bool drawn = cj_plot_save(p, path);
    if (!drawn) cj_clear(c); /* without cairo there is only the table */
    cj_plot_free(p);
    struct stat st;
    assert_true(stat(table, &st) == 0 && st.st_size > 1000);
    if (drawn) assert_true(stat(path, &st) == 0 && st.st_size > 1000);
    remove(path), remove(table), remove(folder);
}

/* ---- architectures: depth 1 … 3, width 2, 4, 8, 16, tanh or relu, on the two moons ---------------------------------------------------------------------- */

enum { DEPTHS = 3, WIDTHS = 4, KINDS = 2 };
typedef struct search {
    cj_tensor *x, *y, *val_x, *val_y;
    double known[DEPTHS][WIDTHS][KINDS]; /* validation loss, NaN: not trained yet */
    int trained;
} search;
static double architecture(void *user, const double *value)
{
    search *h = user;
    int depth = (int)lround(value[0]), width = (int)lround(value[1]), kind = (int)lround(value[2]);
    double *known = &h->known[depth - 1][width - 1][kind];
    if (!isnan(*known)) return *known;
    cj_rng_state before = cj_rng_get(c);
    cj_seed(c, 7); /* the same beginning for all */
    cj_module *layer[9];
    int n = 0;
    int64_t in = 2, units = 1 << width;
    for (int i = 0; i < depth; i++, in = units)
        layer[n++] = cj_linear(c, in, units), layer[n++] = cj_activation_layer(c, kind ? "tanh" : "relu");
    layer[n++] = cj_linear(c, in, 2), layer[n] = NULL;
    cj_module *m = (cj_sequential)(c, layer);
    cj_optim *adam = cj_adam(cj_module_params(m), .lr = 0.02);
    for (int i = 0; i < 80; i++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(adam, cj_cross_entropy(cj_forward(m, h->x), h->y));
        cj_scope_close(s);
    }
    cj_scope s = cj_scope_open(c);
    *known = cj_item(cj_cross_entropy(cj_forward(m, h->val_x), h->val_y));
    cj_scope_close(s);
    cj_rng_set(c, before);
    h->trained++;
    return *known;
}
static void moons(int64_t n, cj_tensor **x, cj_tensor **y)
{
    float *v = malloc((size_t)(2 * n) * sizeof *v);
    int64_t *k = malloc((size_t)n * sizeof *k);
    double *noise = values_of(normal(CJ_SHAPE(2 * n)));
    for (int64_t i = 0; i < n; i++) {
        double a = M_PI * (double)(i / 2) / (double)(n / 2);
        k[i] = i % 2;
        v[2 * i] = (float)((i % 2 ? 1 - cos(a) : cos(a)) + 0.15 * noise[2 * i]),
              v[2 * i + 1] = (float)((i % 2 ? 0.5 - sin(a) : sin(a)) + 0.15 * noise[2 * i + 1]);
    }
    *x = cj_keep(cj_from_f32(c, v, CJ_SHAPE(n, 2))), *y = cj_keep(cj_from_i64(c, k, CJ_SHAPE(n)));
    free(v), free(k), free(noise);
}

static void train_architecture_search(void **state) /* train.architecture_search */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    search all = { 0 }, budget;
    moons(100, &all.x, &all.y), moons(200, &all.val_x, &all.val_y);
    for (int i = 0; i < DEPTHS * WIDTHS * KINDS; i++) (&all.known[0][0][0])[i] = NAN;
    budget = all;
    const cj_axis axis[] = { { 1, DEPTHS, DEPTHS, false }, { 1, WIDTHS, WIDTHS, false }, { 0, KINDS - 1, KINDS, false } };
    double best[3], least, found[3], score;
    assert_int_equal(cj_grid_search(axis, 3, 0, 0, architecture, &all, best, &least), DEPTHS * WIDTHS * KINDS);
    assert_int_equal(all.trained, DEPTHS * WIDTHS * KINDS);
    assert_int_equal(cj_grid_search(axis, 3, 60, 3, architecture, &budget, found, &score), 60);
    assert_true(score >= least && score <= 1.01 * least + 1e-12); /* within 1 % of the best of all */
    assert_true(budget.trained <= DEPTHS * WIDTHS * KINDS);
    assert_true(least < 0.5 * all.known[0][0][0]); /* the choice matters: two units in one layer are not enough */
    cj_tensor *kept[] = { all.x, all.y, all.val_x, all.val_y };
    for (int i = 0; i < 4; i++) cj_release(kept[i]);
    cj_scope_close(s);
}

/* ---- matrix factorisation with dropout of factors ---------------------------------------------------------------------------------------------------------- */

typedef struct ratings {
    cj_tensor *value, *seen, *held; /* [n, n]; 0 or 1 */
} ratings;
static double held_rmse(const ratings *r, cj_tensor *prediction)
{
    return sqrt(cj_item(cj_sum(cj_mul(r->held, cj_square(cj_sub(r->value, prediction))))) / cj_item(cj_sum(r->held)));
}
static double factorise(const ratings *r, double p)
{
    enum { RANK = 10 };
    static const cj_module_type holder = { "Holder", NULL, NULL };
    int64_t n = cj_size(r->value, 0);
    cj_module *m = cj_module_new(c, &holder, 0);
    cj_tensor *u = cj_module_param(m, "u", cj_mul_scalar(normal(CJ_SHAPE(n, RANK)), 0.3)),
              *v = cj_module_param(m, "v", cj_mul_scalar(normal(CJ_SHAPE(n, RANK)), 0.3));
    cj_optim *adam = cj_adam(cj_module_params(m), .lr = 0.02);
    for (int i = 0; i < 1000; i++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(adam, cj_dropout_factorisation_loss(r->value, r->seen, u, v, p));
        cj_scope_close(s);
    }
    return held_rmse(r, cj_matmul(u, cj_t(v)));
}

static void reg_dropout_mf(void **state) /* reg.dropout_mf */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 40, RANK = 4, DRAWS = 4000 };
    const double p = 0.6;
    cj_tensor *a = normal(CJ_SHAPE(N, 2)), *b = normal(CJ_SHAPE(N, 2)), *mask = cj_rand(c, CJ_SHAPE(N, N), .dtype = CJ_F64);
    ratings r = { cj_add(cj_matmul(a, cj_t(b)), cj_mul_scalar(normal(CJ_SHAPE(N, N)), 0.3)), cj_cast(cj_lt_scalar(mask, 0.4), CJ_F64),
                  NULL };
    r.held = cj_add_scalar(cj_neg(r.seen), 1);
    /* one entry and its row of factors: mean over masks of (r - (m∘u/p)·v)², within 5 deviations of the closed form */
    cj_tensor *u = normal(CJ_SHAPE(1, RANK)), *v = normal(CJ_SHAPE(1, RANK));
    cj_tensor *masks = cj_cast(cj_lt_scalar(cj_rand(c, CJ_SHAPE(DRAWS, RANK), .dtype = CJ_F64), p), CJ_F64),
              *dropped = cj_mul_scalar(cj_mul(masks, u), 1 / p);
    cj_tensor *error = cj_square(cj_add_scalar(cj_neg(cj_matmul(dropped, cj_squeeze(v, 0))), 0.8));
    ratings one = { cj_full(c, 0.8, CJ_SHAPE(1, 1), CJ_F64), cj_ones(c, CJ_SHAPE(1, 1), CJ_F64), NULL };
    assert_near(cj_item(cj_mean(error)), cj_item(cj_dropout_factorisation_loss(one.value, one.seen, u, v, p)),
                5 * sqrt(cj_item(cj_var(error)) / DRAWS));
    double mean = cj_item(cj_sum(cj_mul(r.seen, r.value))) / cj_item(cj_sum(r.seen)),
           line = held_rmse(&r, cj_full(c, mean, CJ_SHAPE(N, N), CJ_F64));
    double plain = factorise(&r, 1), dropout = factorise(&r, p);
    assert_true(dropout < line && dropout < plain);
    assert_poisoned(CJ_EVALUE, "dropout_factorisation_loss: keep 0", cj_dropout_factorisation_loss(r.value, r.seen, u, v, 0));
    cj_scope_close(s);
}

/* ---- properties ----------------------------------------------------------------------------------------------------------------------------------------------- */

FUNCTION_OF_X(turn, cj_matmul(x, F64(c, CJ_SHAPE(2, 2), 0.6, 0.8, -0.8, 0.6)));
FUNCTION_OF_X(shuffle, cj_index_select(x, 0, cj_from_i64(c, (int64_t[]){ 2, 0, 4, 1, 3 }, CJ_SHAPE(5))));
FUNCTION_OF_X(lengths, cj_norm(x, 2, .axes = CJ_AXIS(1)));
FUNCTION_OF_X(stretched, cj_norm(cj_mul(x, F64(c, CJ_SHAPE(2), 1, 1.3)), 2, .axes = CJ_AXIS(1)));
FUNCTION_OF_X(radial, cj_mul(x, cj_tanh(cj_norm(x, 2, .axes = CJ_AXIS(1), .keepdim = true))));
FUNCTION_OF_X(squashed, cj_tanh(x));
FUNCTION_OF_X(to_mean, cj_sub(x, cj_mean(x, .axes = CJ_AXIS(0), .keepdim = true)));
FUNCTION_OF_X(by_position, cj_mul(x, cj_unsqueeze(cj_arange(c, 0, 5, 1, CJ_F64), 1)));
FUNCTION_OF_X(running, cj_cumsum(x, 0));
FUNCTION_OF_X(centred, cj_sub(x, cj_mean(x, .axes = CJ_AXIS(0), .keepdim = true)));
FUNCTION_OF_X(folded, cj_sum(cj_abs(cj_add_scalar(x, -0.1))));
FUNCTION_OF_X(stepped, cj_sum(cj_add(x, cj_cast(cj_gt_scalar(x, 0.1), CJ_F64))));

static void tool_property_tests(void **state) /* tool.property_tests */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int trial = 0; trial < 10; trial++) {
        cj_tensor *x = normal(CJ_SHAPE(5, 2));
        assert_near(cj_symmetry_error(c, lengths, NULL, x, turn, NULL, NULL), 0, 1e-13); /* invariance */
        assert_true(cj_symmetry_error(c, stretched, NULL, x, turn, NULL, NULL) > 1e-3);
        assert_near(cj_symmetry_error(c, radial, NULL, x, turn, turn, NULL), 0, 1e-13); /* equivariance */
        assert_true(cj_symmetry_error(c, squashed, NULL, x, turn, turn, NULL) > 1e-3);
        assert_near(cj_symmetry_error(c, to_mean, NULL, x, shuffle, shuffle, NULL), 0, 1e-13); /* permutations */
        assert_true(cj_symmetry_error(c, by_position, NULL, x, shuffle, shuffle, NULL) > 1e-3);
        assert_near(cj_causality_error(c, running, NULL, x, 0), 0, 0); /* causality */
        assert_true(cj_causality_error(c, centred, NULL, x, 0) > 1e-3);
        cj_tensor *a = cj_add_scalar(cj_neg(cj_rand(c, CJ_SHAPE(2), .dtype = CJ_F64)), -0.1),
                  *b = cj_add_scalar(cj_rand(c, CJ_SHAPE(2), .dtype = CJ_F64), 0.2);
        assert_near(cj_continuity_error(c, folded, NULL, a, b, 0), 0, 1e-12); /* continuity across a joint */
        assert_near(cj_continuity_error(c, stepped, NULL, a, b, 0), 1, 1e-9);
    }
    assert_refused(CJ_EVALUE, "continuity_error: the function is NULL",
                   cj_continuity_error(c, NULL, NULL, normal(CJ_SHAPE(2)), normal(CJ_SHAPE(2)), 0));
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lin_compressed_sensing),    cmocka_unit_test(perc_one_pixel), cmocka_unit_test(train_loss_curves_of_planted_runs),
        cmocka_unit_test(train_architecture_search), cmocka_unit_test(reg_dropout_mf), cmocka_unit_test(tool_property_tests),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
