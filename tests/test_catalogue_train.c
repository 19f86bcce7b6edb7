/* Rows of the catalogue's family train: the loop, splits, folds, searches, and what curves say. */
#include <math.h>
#include <stdlib.h>

#include "cajal/cajal.h"
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 17);

/* ---- the loop ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct line {
    cj_module *net;
    cj_tensor *x, *y;
    cj_examples rows;
} line;

static line open_line(int64_t n)
{
    line l = { .net = cj_linear(c, 2, 1, .no_bias = true) };
    cj_init_constant_(cj_params_at(cj_module_params(l.net), 0), 0);
    cj_seed(c, 4);
    l.x = cj_keep(cj_randn(c, CJ_SHAPE(n, 2)));
    cj_tensor *w = cj_from_f32(c, (float[]){ 2, -1 }, CJ_SHAPE(2, 1));
    l.y = cj_keep(cj_add(cj_matmul(l.x, w), cj_mul_scalar(cj_randn(c, CJ_SHAPE(n, 1)), 0.1)));
    cj_examples_of_rows(l.x, l.y, &l.rows);
    return l;
}
static void close_line(line *l)
{
    cj_release(l->x);
    cj_release(l->y);
}

/* [train.loop] With the whole data in a batch the loop is gradient descent: w <- w - lr·(2/n)·xᵀ(xw - y), here by hand in f64. On a convex loss it goes down every time, and the same
 * seed gives the same weights to the bit. */
static void train_loop(void **state)
{
    (void)state;
    enum { ROWS = 40, STEPS = 25 };
    float first[2], again[2];
    for (int round = 0; round < 2; round++) {
        line l = open_line(ROWS);
        double loss_before = INFINITY;
        double w[2] = { 0, 0 }, x[2 * ROWS], y[ROWS];
        cj_to_f64(l.x, x, (int64_t)2 * ROWS);
        cj_to_f64(l.y, y, ROWS);
        for (int part = 1; part <= STEPS; part++) { /* one step more each time, from the start */
            cj_init_constant_(cj_params_at(cj_module_params(l.net), 0), 0);
            cj_train_result r = cj_train(l.net, &l.rows, .task = CJ_TASK_REGRESS, .optimiser = CJ_SGD, .lr = 0.1, .batch = ROWS,
                                         .steps = part, .val = &l.rows);
            assert_true(r.finished);
            assert_true(r.val.loss < loss_before);
            loss_before = r.val.loss;
            double g[2] = { 0, 0 };
            for (int i = 0; i < ROWS; i++)
                for (int k = 0; k < 2; k++) g[k] += 2.0 / ROWS * x[2 * i + k] * (w[0] * x[2 * i] + w[1] * x[2 * i + 1] - y[i]);
            for (int k = 0; k < 2; k++) w[k] -= 0.1 * g[k];
        }
        float *out = round ? again : first;
        cj_to_f32(cj_params_at(cj_module_params(l.net), 0), out, 2);
        for (int k = 0; k < 2; k++) assert_near(out[k], w[k], 2e-6);
        close_line(&l);
    }
    assert_memory_equal(first, again, sizeof first);
}

/* ---- splits ------------------------------------------------------------------------------------------------------------------------------------ */

/* [train.split] Disjoint, exhaustive, of the exact size, the same for the same seed; stratified shares are within one row of exact. */
static void train_split(void **state)
{
    (void)state;
    enum { ROWS = 103, CLASSES = 4 };
    int64_t order[ROWS], same[ROWS], other[ROWS], label[ROWS], count[CLASSES] = { 0 };
    for (int i = 0; i < ROWS; i++) count[label[i] = i % 10 == 0 ? 3 : i % 7 == 0 ? 2 : i % 3 == 0 ? 1 : 0]++;
    for (int stratified = 0; stratified < 2; stratified++) {
        int64_t held = cj_split(c, 9, ROWS, 0.3, stratified ? label : NULL, CLASSES, order);
        assert_int_equal(held, 31); /* 30.9 */
        char seen[ROWS] = { 0 };
        for (int i = 0; i < ROWS; i++) {
            assert_in_range(order[i], 0, ROWS - 1);
            assert_int_equal(seen[order[i]]++, 0);
        }
        cj_split(c, 9, ROWS, 0.3, stratified ? label : NULL, CLASSES, same);
        cj_split(c, 10, ROWS, 0.3, stratified ? label : NULL, CLASSES, other);
        assert_memory_equal(order, same, sizeof order);
        assert_true(memcmp(order, other, sizeof order) != 0);
        int64_t part[CLASSES] = { 0 };
        for (int64_t i = ROWS - held; i < ROWS; i++) part[label[order[i]]]++;
        for (int k = 0; k < CLASSES && stratified; k++) assert_true(fabs((double)part[k] - 0.3 * (double)count[k]) < 1);
    }
    assert_int_equal(cj_split(c, 1, ROWS, 1.5, NULL, 0, order), -1);
    assert_non_null(strstr(cj_message(c), "a share of 1.5"));
    cj_clear(c);
    label[5] = 9;
    assert_int_equal(cj_split(c, 1, ROWS, 0.5, label, CLASSES, order), -1);
    assert_non_null(strstr(cj_message(c), "row 5 has class 9 of 4"));
    cj_clear(c);
}

/* Ridge regression without the rows from … to-1; the squared errors on those, summed. */
static double left_out_error(cj_tensor *x, cj_tensor *y, int64_t from, int64_t to, double lambda)
{
    cj_scope s = cj_scope_open(c);
    int64_t n = cj_size(x, 0);
    cj_tensor *in[2] = { cj_slice(x, 0, 0, from, 1), cj_slice(x, 0, to, n, 1) },
              *out[2] = { cj_slice(y, 0, 0, from, 1), cj_slice(y, 0, to, n, 1) };
    cj_tensor *X = cj_cat(in, 2, 0), *Y = cj_cat(out, 2, 0), *Xt = cj_transpose(X, 0, 1);
    cj_tensor *A = cj_add(cj_matmul(Xt, X), cj_mul_scalar(cj_eye(c, cj_size(x, 1), CJ_F64), lambda));
    cj_tensor *w = cj_solve(A, cj_matmul(Xt, Y));
    cj_tensor *e = cj_sub(cj_matmul(cj_slice(x, 0, from, to, 1), w), cj_slice(y, 0, from, to, 1));
    double sum = cj_item(cj_sum(cj_square(e)));
    cj_scope_close(s);
    return sum;
}

/* [train.kfold] Every row is validated once; n folds of least squares leave one out, whose mean squared error is mean (r_i/(1 - h_ii))² with the residuals and leverages of the whole fit;
 * and a noisy problem with few rows prefers a ridge that is neither 0 nor huge. */
static void train_kfold(void **state)
{
    (void)state;
    enum { ROWS = 23, DIM = 4 };
    int seen[ROWS] = { 0 };
    for (int f = 0; f < 5; f++) {
        int64_t from, to;
        cj_fold(ROWS, f, 5, &from, &to);
        assert_in_range(to - from, 4, 5);
        for (int64_t i = from; i < to; i++) seen[i]++;
    }
    for (int i = 0; i < ROWS; i++) assert_int_equal(seen[i], 1);

    cj_seed(c, 31);
    cj_tensor *x = cj_cast(cj_randn(c, CJ_SHAPE(ROWS, DIM)), CJ_F64), *y = cj_cast(cj_randn(c, CJ_SHAPE(ROWS, 1)), CJ_F64);
    double loo = 0;
    for (int i = 0; i < ROWS; i++) {
        int64_t from, to;
        cj_fold(ROWS, i, ROWS, &from, &to);
        loo += left_out_error(x, y, from, to, 0) / ROWS;
    }
    cj_tensor *xt = cj_transpose(x, 0, 1), *H = cj_matmul(x, cj_solve(cj_matmul(xt, x), xt));
    cj_tensor *r = cj_sub(y, cj_matmul(H, y)), *h = cj_reshape(cj_diagonal(H, 0, 0, 1), CJ_SHAPE(ROWS, 1));
    cj_tensor *one = cj_ones_like(h);
    double closed = cj_item(cj_mean(cj_square(cj_div(r, cj_sub(one, h)))));
    assert_near(loo, closed, 1e-10 * closed);

    enum { N = 30, D = 20 };
    cj_tensor *big = cj_cast(cj_randn(c, CJ_SHAPE(N, D)), CJ_F64), *w = cj_cast(cj_randn(c, CJ_SHAPE(D, 1)), CJ_F64);
    cj_tensor *target = cj_add(cj_matmul(big, w), cj_mul_scalar(cj_cast(cj_randn(c, CJ_SHAPE(N, 1)), CJ_F64), 3));
    const double lambda[] = { 1e-6, 10, 1e6 };
    double error[3] = { 0 };
    for (int k = 0; k < 3; k++)
        for (int f = 0; f < 5; f++) {
            int64_t from, to;
            cj_fold(N, f, 5, &from, &to);
            error[k] += left_out_error(big, target, from, to, lambda[k]);
        }
    assert_true(error[1] < error[0] && error[1] < error[2]);
}

/* ---- searches ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct visits {
    int n;
    double seen[64][2];
} visits;

/* A response with its lowest point at (1e-2, 1e-4), in logarithms. */
static double response(void *user, const double *v)
{
    visits *t = user;
    t->seen[t->n][0] = v[0];
    t->seen[t->n++][1] = v[1];
    return pow(log10(v[0]) + 2, 2) + pow(log10(v[1]) + 4, 2);
}

/* [train.grid_search] All combinations, geometric spacing, the planted optimum. */
static void train_grid_search(void **state)
{
    (void)state;
    const cj_axis axis[2] = { { .low = 1e-4, .high = 1, .n = 5, .log = true }, { .low = 1e-6, .high = 1e-1, .n = 6, .log = true } };
    visits t = { 0 };
    double best[2], score;
    assert_int_equal(cj_grid_search(axis, 2, 0, 0, response, &t, best, &score), 30);
    assert_int_equal(t.n, 30);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 6; j++) {
            int hits = 0;
            for (int k = 0; k < 30; k++)
                hits += fabs(t.seen[k][0] / pow(10, i - 4) - 1) < 1e-9 && fabs(t.seen[k][1] / pow(10, j - 6) - 1) < 1e-9;
            assert_int_equal(hits, 1);
        }
    assert_near(best[0], 1e-2, 1e-10);
    assert_near(best[1], 1e-4, 1e-12);
    assert_near(score, 0, 1e-12);
    for (int i = 1; i < 5; i++) assert_near(cj_axis_value(&axis[0], i) / cj_axis_value(&axis[0], i - 1), 10, 1e-9);

    t.n = 0; /* random points lie between the ends, are the same for the same seed, and come near the optimum */
    assert_int_equal(cj_grid_search(axis, 2, 60, 7, response, &t, best, &score), 60);
    double first = t.seen[0][0];
    for (int k = 0; k < 60; k++) assert_true(t.seen[k][0] >= 1e-4 && t.seen[k][0] <= 1 && t.seen[k][1] >= 1e-6 && t.seen[k][1] <= 1e-1);
    assert_true(score < 1);
    t.n = 0;
    cj_grid_search(axis, 2, 60, 7, response, &t, best, &score);
    assert_true(t.seen[0][0] == first);
    assert_int_equal(cj_grid_search(axis, 0, 0, 0, response, &t, best, &score), -1);
}

/* Shares of right answers on n rows of k classifiers that toss coins, [repeats, k]. */
static double *coins(int64_t repeats, int64_t k, int64_t rows)
{
    double *share = malloc((size_t)(repeats * k) * sizeof *share);
    for (int64_t i = 0; i < repeats; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *right = cj_cast(cj_lt_scalar(cj_rand(c, CJ_SHAPE(k, rows)), 0.5), CJ_F32);
        cj_to_f64(cj_mean(right, .axes = CJ_AXIS(1)), share + i * k, k);
        cj_scope_close(s);
    }
    return share;
}
static double wrong_share(void *user, const double *which) { return 1 - ((const double *)user)[(int)round(*which)]; }

/* [train.validation_overfit] The best of K coin tossers on the validation rows looks better the more there are: on average by E(largest of K normals)·sigma, below sqrt(2 log K)·sigma with
 * sigma = 1/(2 sqrt n). On the test rows it is right half of the time. */
static void train_validation_overfit(void **state)
{
    (void)state;
    enum { ROWS = 200, REPEATS = 200 };
    static const double largest[] = { 0, 1.5388, 2.5076, 3.2414 };
    double before = 0, sigma = 0.5 / sqrt(ROWS);
    for (int power = 0, k = 1; power < 4; power++, k *= 10) {
        double *val = coins(REPEATS, k, ROWS), *test = coins(REPEATS, k, ROWS), best, score, sum[2] = { 0 };
        for (int i = 0; i < REPEATS; i++) {
            const cj_axis who = { .low = 0, .high = k - 1, .n = k };
            cj_grid_search(&who, 1, 0, 0, wrong_share, val + (size_t)i * (size_t)k, &best, &score);
            sum[0] += (1 - score) / REPEATS;
            sum[1] += test[i * k + (int)round(best)] / REPEATS;
        }
        assert_near(sum[0], 0.5 + largest[power] * sigma, 0.1 * sigma + 0.0025);
        assert_true(sum[0] <= 0.5 + sqrt(2 * log(k)) * sigma + 0.005);
        assert_true(power == 0 || sum[0] > before + 0.5 * sigma);
        assert_near(sum[1], 0.5, 4 * sigma / sqrt(REPEATS));
        before = sum[0];
        free(val);
        free(test);
    }
}

/* ---- curves ---------------------------------------------------------------------------------------------------------------------------------------- */

/* Gradient descent on (w1² + 100·w2²)/2 from (1, 1), from which the four planted rates differ only in their rate; the fifth curve is a logistic fall after a plateau. */
static void descend(double rate, double *loss, int n)
{
    double w[2] = { 1, 1 };
    for (int i = 0; i < n; i++) {
        loss[i] = (w[0] * w[0] + 100 * w[1] * w[1]) / 2;
        w[0] -= rate * w[0];
        w[1] -= rate * 100 * w[1];
    }
}

/* [train.loss_curves] */
static void train_loss_curves(void **state)
{
    (void)state;
    enum { STEPS = 200 };
    double loss[5][STEPS];
    descend(0.015, loss[0], STEPS);  /* good: both directions shrink */
    descend(2e-6, loss[1], STEPS);   /* low */
    descend(0.0205, loss[2], STEPS); /* above 2/L: explodes */
    descend(0.02, loss[3], STEPS);   /* exactly 2/L: the steep direction bounces for ever */
    for (int i = 0; i < STEPS; i++) loss[4][i] = 2.3 / (1 + exp((i - 120) / 8.0));
    const cj_curve kind[] = { CJ_CURVE_GOOD, CJ_CURVE_SLOW, CJ_CURVE_EXPLODES, CJ_CURVE_SLOW, CJ_CURVE_FLAT_FIRST };
    for (int k = 0; k < 5; k++) assert_int_equal(cj_loss_curve(loss[k], STEPS), kind[k]);
    for (int i = 0; i < STEPS; i++) loss[3][i] = 1 + 9 * exp(-i / 4.0); /* a high rate with noise: quickly down, then stuck */
    for (int i = 0; i < STEPS; i++) loss[3][i] = fmax(loss[3][i], 4 + 0.02 * (i % 3));
    assert_int_equal(cj_loss_curve(loss[3], STEPS), CJ_CURVE_PLATEAU);
    char folder[] = "/tmp/cajal-curves-XXXXXX", path[64], command[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/curves.png", folder);
    cj_plot *p = cj_plot_new(c, "Learning rates");
    static const char *const name[] = { "good", "low", "very high", "high", "bad initialisation" };
    for (int k = 0; k < 5; k++) assert_true(cj_plot_line(p, name[k], NULL, loss[k], STEPS));
    assert_true(cj_plot_log(p, false, true));
#ifdef CJ_HAVE_CAIRO
    assert_true(cj_plot_save(p, path));
    FILE *f = fopen(path, "rb");
    unsigned char head[8] = { 0 };
    assert_true(f && fread(head, 1, 8, f) == 8 && memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0);
    fclose(f);
#endif
    cj_plot_free(p);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    loss[0][STEPS / 2] = NAN;
    assert_int_equal(cj_loss_curve(loss[0], STEPS), CJ_CURVE_EXPLODES);
}

/* Mean squared errors of a polynomial fitted to n points of sin(2πx) with noise 0.1, on these and on 200 others. */
static void polynomial(int degree, int64_t n, double *train, double *val)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *power[2][32], *y[2], *X[2];
    for (int k = 0; k < 2; k++) {
        int64_t rows = k ? 200 : n;
        cj_tensor *x = cj_cast(cj_rand(c, CJ_SHAPE(rows, 1)), CJ_F64);
        y[k] = cj_add(cj_sin(cj_mul_scalar(x, 2 * 3.14159265358979323846)),
                      cj_mul_scalar(cj_cast(cj_randn(c, CJ_SHAPE(rows, 1)), CJ_F64), 0.1));
        for (int d = 0; d <= degree; d++) power[k][d] = cj_pow_scalar(x, d);
        X[k] = cj_cat(power[k], degree + 1, 1);
    }
    cj_tensor *w = cj_lstsq(X[0], y[0]);
    *train = cj_item(cj_mean(cj_square(cj_sub(cj_matmul(X[0], w), y[0]))));
    *val = cj_item(cj_mean(cj_square(cj_sub(cj_matmul(X[1], w), y[1]))));
    cj_scope_close(s);
}

/* [train.learning_curves] A line on a sine is flagged as bias, a polynomial of degree 15 on 20 points as variance; following the advice (a larger model, more data) lowers the validation
 * error in both. */
static void train_learning_curves(void **state)
{
    (void)state;
    const double wanted = 0.02; /* twice the noise */
    double train[3], val[3], more_train, more_val;
    cj_seed(c, 12);
    const int64_t size[3] = { 20, 80, 320 };
    for (int i = 0; i < 3; i++) polynomial(1, size[i], &train[i], &val[i]);
    assert_int_equal(cj_learning_curve(train, val, 3, wanted), CJ_LACK_MODEL);
    polynomial(5, 320, &more_train, &more_val);
    assert_true(more_val < val[2]);
    assert_int_equal(cj_learning_curve(&more_train, &more_val, 1, wanted), CJ_LACK_NOTHING);

    polynomial(15, 20, &train[0], &val[0]);
    assert_int_equal(cj_learning_curve(train, val, 1, wanted), CJ_LACK_DATA);
    polynomial(15, 2000, &more_train, &more_val);
    assert_true(more_val < val[0]);
    assert_int_equal(cj_learning_curve(&more_train, &more_val, 1, wanted), CJ_LACK_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_loop),
        cmocka_unit_test(train_split),
        cmocka_unit_test(train_kfold),
        cmocka_unit_test(train_grid_search),
        cmocka_unit_test(train_validation_overfit),
        cmocka_unit_test(train_loss_curves),
        cmocka_unit_test(train_learning_curves),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
