/* The zoo's linear models: their solutions against scikit-learn's, against closed forms, and through the training loop. */
#include "zoo.h"

extern const cj_model cj_model_linear, cj_model_ridge, cj_model_lasso, cj_model_logistic, cj_model_softmax, cj_model_glm;
static const cj_model *const models[] = { &cj_model_linear,   &cj_model_ridge,   &cj_model_lasso,
                                          &cj_model_logistic, &cj_model_softmax, &cj_model_glm };

TEST_CONTEXT(.threads = 1, .seed = 51);

static cj_module *build(const cj_model *m, int64_t in, int64_t out, const char *const *assignments)
{
    return zoo_build(c, m, (cj_model_data){ .inputs = in, .outputs = out }, assignments);
}

static cj_tensor *param(cj_module *m, const char *name) { return cj_params_find(cj_module_params(m), name); }

/* ---- scikit-learn's solutions ----------------------------------------------------------------------------------------------------------------------- */

enum { N = 40, P = 4 };

/* The rows of tools/fixtures_linear.py. */
static void make_rows(double *x, double *value, int64_t *classes, int64_t *two, double *counts)
{
    for (int i = 0; i < N; i++) {
        double *r = x + i * P;
        for (int j = 0; j < P; j++) r[j] = (i * (2 * j + 3) + j * 5) % (11 + j) / 4.0 - 1.2;
        value[i] = 2 * r[0] - r[1] + 0.3 * r[2] + (i * 7 % 5 - 2) / 3.0 + 1;
        classes[i] = (i * 5 + (int)floor(4 * r[0] + 8)) % 3;
        two[i] = value[i] + (i * 3 % 7 - 3) > 1;
        counts[i] = floor(exp(0.4 * r[0] - 0.2 * r[3]) + i * 3 % 4);
    }
}

static const cj_model *model_named(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i]->name, name) == 0) return models[i];
    fail_msg("no model %s", name);
    return NULL;
}

static void as_scikit_learn(void **state)
{
    (void)state;
    double x[N * P], value[N], counts[N], want[16];
    int64_t classes[N], two[N];
    make_rows(x, value, classes, two, counts);
    cj_tensor *X = cj_cast(cj_from_f64(c, x, CJ_SHAPE(N, P)), CJ_F32);
    FILE *f = fopen("tests/fixtures/linear.txt", "r");
    assert_non_null(f);
    char name[32], setting[32];
    int rows = 0;
    while (fscanf(f, "%31s %31s", name, setting) == 2) {
        const cj_model *model = model_named(name);
        int64_t outputs = model == &cj_model_softmax ? 3 : model == &cj_model_logistic ? 2 : 1, lines = outputs == 3 ? 3 : 1;
        cj_tensor *y = model == &cj_model_softmax ? cj_from_i64(c, classes, CJ_SHAPE(N))
                       : model == &cj_model_logistic
                           ? cj_from_i64(c, two, CJ_SHAPE(N))
                           : cj_cast(cj_from_f64(c, model == &cj_model_glm ? counts : value, CJ_SHAPE(N, 1)), CJ_F32);
        cj_module *m = build(model, P, outputs,
                             model == &cj_model_glm      ? WITH(setting, "family=poisson")
                             : strcmp(setting, "-") == 0 ? (const char *const[]){ NULL }
                                                         : WITH(setting));
        cj_tensor *w = param(m, "linear.weight"), *b = param(m, "linear.bias");
        assert_true(cj_size(w, 0) == lines && cj_size(w, 1) == P && cj_numel(b) == lines);
        bool grad = cj_no_grad(c);
        assert_true(model->fit(m, X, y));
        cj_grad_mode(c, grad);
        assert_ok(c);
        for (int i = 0; i < lines * (P + 1); i++) assert_int_equal(fscanf(f, "%lf", &want[i]), 1);
        for (int i = 0; i < lines * P; i++) assert_near(value_at(w, i), want[i], 2e-5);
        /* the biases of softmax are known up to a common constant */
        double shift = lines == 3 ? value_at(b, 0) - want[lines * P] : 0;
        for (int i = 0; i < lines; i++) assert_near(value_at(b, i) - shift, want[lines * P + i], 2e-5);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 8);
}

/* ---- closed forms ---------------------------------------------------------------------------------------------------------------------------------- */

/* Columns that are orthogonal, have mean 0 and length sqrt(n): lasso and ridge then work on each weight alone. */
static void orthogonal_columns(void **state)
{
    (void)state;
    const double x[8 * 3] = { 1, 1, 1, 1, -1, 1, 1, 1, -1, 1, -1, -1, -1, 1, 1, -1, -1, 1, -1, 1, -1, -1, -1, -1 };
    double true_w[3] = { 2, -0.7, 0.1 }, y[8];
    for (int i = 0; i < 8; i++) y[i] = 3 + x[3 * i] * true_w[0] + x[3 * i + 1] * true_w[1] + x[3 * i + 2] * true_w[2];
    cj_tensor *X = cj_cast(cj_from_f64(c, x, CJ_SHAPE(8, 3)), CJ_F32), *Y = cj_cast(cj_from_f64(c, y, CJ_SHAPE(8, 1)), CJ_F32);
    bool grad = cj_no_grad(c);
    cj_module *lasso = build(&cj_model_lasso, 3, 1, WITH("alpha=0.25")), *ridge = build(&cj_model_ridge, 3, 1, WITH("alpha=2")),
              *linear = build(&cj_model_linear, 3, 1, (const char *const[]){ NULL });
    assert_true(cj_model_lasso.fit(lasso, X, Y) && cj_model_ridge.fit(ridge, X, Y) && cj_model_linear.fit(linear, X, Y));
    const double shrunk[3] = { 1.75, -0.45, 0 }; /* sign(w) max(|w| - alpha, 0) */
    for (int j = 0; j < 3; j++) {
        assert_near(value_at(param(lasso, "linear.weight"), j), shrunk[j], 1e-6);
        assert_near(value_at(param(ridge, "linear.weight"), j), true_w[j] * 8 / (8 + 2), 1e-6); /* w n/(n + alpha) */
        assert_near(value_at(param(linear, "linear.weight"), j), true_w[j], 1e-6);
    }
    assert_true(value_at(param(lasso, "linear.weight"), 2) == 0); /* exactly */
    assert_near(value_at(param(lasso, "linear.bias"), 0), 3, 1e-6);
    assert_near(distance(cj_forward(linear, X), Y), 0, 1e-5);
    cj_grad_mode(c, grad);
}

/* A glm's mean and loss: gaussian is linear regression, bernoulli is logistic regression; values that a family cannot have are refused. */
static void families(void **state)
{
    (void)state;
    double x[N * P], value[N], counts[N];
    int64_t classes[N], two[N];
    make_rows(x, value, classes, two, counts);
    cj_tensor *X = cj_cast(cj_from_f64(c, x, CJ_SHAPE(N, P)), CJ_F32), *Y = cj_cast(cj_from_f64(c, value, CJ_SHAPE(N, 1)), CJ_F32),
              *labels = cj_from_i64(c, two, CJ_SHAPE(N)), *ones = cj_unsqueeze(cj_cast(labels, CJ_F32), 1);
    bool grad = cj_no_grad(c);
    cj_module *gaussian = build(&cj_model_glm, P, 1, WITH("alpha=0")),
              *linear = build(&cj_model_linear, P, 1, (const char *const[]){ NULL });
    assert_true(cj_model_glm.fit(gaussian, X, Y) && cj_model_linear.fit(linear, X, Y));
    assert_near(distance(cj_forward(gaussian, X), cj_forward(linear, X)), 0, 1e-4);
    cj_module *bernoulli = build(&cj_model_glm, P, 1, WITH("family=bernoulli", "alpha=0.05")),
              *logistic = build(&cj_model_logistic, P, 2, WITH("l2=2"));
    assert_true(cj_model_glm.fit(bernoulli, X, ones) && cj_model_logistic.fit(logistic, X, labels)); /* alpha n = l2 */
    cj_tensor *p = cj_select(cj_softmax(cj_forward(logistic, X), -1), 1, 1);
    assert_near(distance(cj_squeeze(cj_forward(bernoulli, X), 1), p), 0, 1e-5);
    assert_near(cj_item(cj_model_glm.loss(bernoulli, X, ones)), cj_item(cj_cross_entropy(cj_forward(logistic, X), labels)), 1e-5);
    assert_refused(CJ_EVALUE, "glm: the bernoulli family has y from 0 to 1, the data has", cj_model_glm.fit(bernoulli, X, Y));
    assert_refused(CJ_EVALUE, "glm: the poisson family has y from 0, the data has",
                   cj_model_glm.fit(build(&cj_model_glm, P, 1, WITH("family=poisson")), X, cj_neg(ones)));
    assert_refused(CJ_EVALUE, "logistic: two classes expected, the data has 3", build(&cj_model_logistic, P, 3, WITH("l2=1")));
    cj_grad_mode(c, grad);
}

/* Through the loop: one step, the loss of the solution, nothing random. */
static void in_the_loop(void **state)
{
    (void)state;
    double x[N * P], value[N], counts[N];
    int64_t classes[N], two[N];
    make_rows(x, value, classes, two, counts);
    cj_tensor *X = cj_keep(cj_cast(cj_from_f64(c, x, CJ_SHAPE(N, P)), CJ_F32)), *y = cj_keep(cj_from_i64(c, classes, CJ_SHAPE(N)));
    cj_examples e;
    assert_true(cj_examples_of_rows(X, y, &e));
    cj_module *m = build(&cj_model_softmax, P, 3, WITH("l2=1"));
    cj_train_result r = cj_train(m, &e, .task = CJ_TASK_CLASSIFY, .model = &cj_model_softmax, .val = &e);
    assert_ok(c);
    assert_true(r.finished && r.step == 1);
    assert_near(r.val.loss, cj_item(cj_cross_entropy(cj_forward(m, X), y)), 1e-6);
    assert_near(r.val.accuracy, cj_accuracy(cj_forward(m, X), y), 1e-12);
    assert_true(r.val.loss < log(3));
    cj_release(X);
    cj_release(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_scikit_learn),
        cmocka_unit_test(orthogonal_columns),
        cmocka_unit_test(families),
        cmocka_unit_test(in_the_loop),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
