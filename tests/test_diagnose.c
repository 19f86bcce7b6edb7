/* The checks before a long training: silent on a healthy network, and each speaks up at its planted fault. */
#include <math.h>

#include "cajal/cajal.h"
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 11);

enum { N = 256, IN = 6, CLASSES = 4 };
static cj_examples rows;
static cj_tensor *truth; /* the combinations that say the class */

/* Classes by the largest of four fixed combinations: easy for a small network. */
static int open_rows(void **state)
{
    if (setup(state)) return 1;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(N, IN)), *w = cj_randn(c, CJ_SHAPE(IN, CLASSES));
    cj_tensor *y = cj_argmax(cj_matmul(x, w), .axes = CJ_AXIS(1));
    cj_examples_of_rows(cj_keep(x), cj_keep(y), &rows);
    truth = cj_keep(w);
    cj_scope_close(s);
    return cj_ok(c) ? 0 : 1;
}

typedef struct fault {
    double last_scale; /* of the last layer's weights; 0: as they are */
    bool cut;          /* no gradient reaches the weights */
    bool dead;         /* biases of the hidden layer far below zero */
    int sigmoids;      /* hidden layers of sigmoids with small weights */
    int wild;          /* hidden layers of tanh with weights so large that small changes grow from layer to layer */
    bool leak;         /* the target is among the inputs, and the weights know where */
} fault;

static cj_tensor *cut_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    return cj_mul_scalar(cj_detach(cj_forward(cj_module_child(m, 0), x)), 1);
}
static const cj_module_type cut_type = { "Cut", cut_forward, NULL };

/* The network's outputs plus ten at the right class: what an input that holds the target does to a lucky network. */
static cj_tensor *leak_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)self;
    bool was = cj_no_grad(c);
    cj_tensor *y = cj_argmax(cj_matmul(x, truth), .axes = CJ_AXIS(1)), *known = cj_mul_scalar(cj_cast(cj_one_hot(y, CLASSES), CJ_F32), 10);
    cj_grad_mode(c, was);
    return cj_add(cj_forward(cj_module_child(m, 0), x), known);
}
static const cj_module_type leak_type = { "Leak", leak_forward, NULL };

static cj_module *make(void *user)
{
    const fault *f = user;
    cj_seed(c, 5);
    if (f->wild) {
        cj_module *part[80];
        int n = 0;
        for (int i = 0; i < f->wild; i++) part[n++] = cj_linear(c, i ? 16 : IN, 16), part[n++] = cj_tanh_layer(c);
        part[n++] = cj_linear(c, 16, CLASSES);
        part[n] = NULL;
        cj_module *net = (cj_sequential)(c, part);
        cj_params *p = cj_module_params(net);
        bool was = cj_no_grad(c);
        for (int i = 0; i < cj_params_count(p); i++) cj_assign_(cj_params_at(p, i), cj_mul_scalar(cj_params_at(p, i), 10));
        cj_grad_mode(c, was);
        return net;
    }
    if (f->sigmoids) {
        cj_module *part[32];
        int n = 0;
        for (int i = 0; i < f->sigmoids; i++) part[n++] = cj_linear(c, i ? 16 : IN, 16), part[n++] = cj_sigmoid_layer(c);
        part[n++] = cj_linear(c, 16, CLASSES);
        part[n] = NULL;
        return (cj_sequential)(c, part);
    }
    cj_module *net = cj_sequential(c, cj_linear(c, IN, 32), cj_relu_layer(c), cj_linear(c, 32, CLASSES));
    cj_params *p = cj_module_params(net);
    bool was = cj_no_grad(c);
    if (f->last_scale) cj_assign_(cj_params_find(p, "2.weight"), cj_mul_scalar(cj_params_find(p, "2.weight"), f->last_scale));
    if (f->dead) cj_assign_(cj_params_find(p, "0.bias"), cj_full(c, -50, CJ_SHAPE(32), CJ_F32));
    cj_grad_mode(c, was);
    if (!f->cut && !f->leak) return net;
    cj_module *m = cj_module_new(c, f->leak ? &leak_type : &cut_type, 0);
    cj_module_add(m, "net", net);
    if (f->leak) return m;
    cj_module_param(m, "unused", cj_zeros(c, CJ_SHAPE(1), CJ_F32));
    return m;
}

static int look(fault f, double lr, cj_finding *out) { return cj_diagnose(c, make, &f, &rows, out, 8, .classes = CLASSES, .lr = lr); }

static const cj_finding *find(const cj_finding *f, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (strstr(f[i].what, what)) return &f[i];
    fail_msg("there is no finding '%s'", what);
    return NULL;
}

/* [train.guide] Each check passes on a healthy network and flags its planted fault. */
static void train_guide(void **state)
{
    (void)state;
    cj_finding f[8];
    int n = look((fault){ 0 }, 5e-3, f);
    assert_int_equal(n, 7);
    for (int i = 0; i < n; i++)
        if (!f[i].healthy || f[i].advice[0]) fail_msg("%s: %g (%s)", f[i].what, f[i].found, f[i].advice);
    assert_near(find(f, n, "initial loss")->found, 1, 0.2); /* log 4 */

    n = look((fault){ .last_scale = 60 }, 5e-3, f);
    assert_false(find(f, n, "initial loss")->healthy);
    assert_non_null(strstr(find(f, n, "initial loss")->advice, "last layer"));

    n = look((fault){ .dead = true }, 5e-3, f);
    assert_false(find(f, n, "without a gradient")->healthy);
    assert_near(find(f, n, "without a gradient")->found, 1,
                1e-9); /* hidden units that are always 0 leave the outputs' weights without a gradient, too */

    n = look((fault){ .sigmoids = 8 }, 1e-3, f);
    assert_false(find(f, n, "first layer / the last")->healthy);
    assert_non_null(strstr(find(f, n, "first layer / the last")->advice, "vanish"));

    n = look((fault){ .wild = 30 }, 1e-4, f);
    assert_false(find(f, n, "first layer / the last")->healthy);
    assert_non_null(strstr(find(f, n, "first layer / the last")->advice, "explode"));

    n = look((fault){ .leak = true }, 5e-3, f);
    assert_false(find(f, n, "initial loss")->healthy);
    assert_non_null(strstr(find(f, n, "initial loss")->advice, "leak"));

    n = look((fault){ 0 }, 100, f);
    assert_false(find(f, n, "loss after some steps")->healthy);
    assert_non_null(strstr(find(f, n, "loss after some steps")->advice, "explodes"));

    n = look((fault){ 0 }, 1e-8, f);
    assert_false(find(f, n, "loss after some steps")->healthy);
    assert_non_null(strstr(find(f, n, "loss after some steps")->advice, "larger lr"));
    assert_false(find(f, n, "by heart")->healthy);
}

static void a_broken_gradient_is_noticed(void **state)
{
    (void)state;
    fault f = { .cut = true };
    cj_finding out[8];
    int n = cj_diagnose(c, make, &f, &rows, out, 8, .classes = CLASSES, .lr = 5e-3);
    if (n < 0) { /* the optimiser itself says that nothing depends on the parameters */
        assert_non_null(strstr(cj_message(c), "grad"));
        cj_clear(c);
    } else {
        assert_false(find(out, n, "by heart")->healthy);
    }
}

/* ---- the rate ------------------------------------------------------------------------------------------------------------------------------- */

static cj_module *make_quadratic(void *user)
{
    (void)user;
    cj_module *m = cj_linear(c, 1, 1, .no_bias = true);
    cj_init_constant_(cj_params_at(cj_module_params(m), 0), 3);
    return m;
}

/* [train.lr_finder] (w·1 - 0)² has curvature L = 2: gradient descent explodes above 2/L = 1, and each step multiplies w by 1 - 2·lr. */
static void train_lr_finder(void **state)
{
    (void)state;
    cj_tensor *x = cj_keep(cj_ones(c, CJ_SHAPE(8, 1), CJ_F32)), *y = cj_keep(cj_zeros(c, CJ_SHAPE(8, 1), CJ_F32));
    cj_examples e;
    cj_examples_of_rows(x, y, &e);
    cj_lr_trial t[] = { { .lr = 1e-6 }, { .lr = 1e-4 }, { .lr = 0.01 }, { .lr = 0.4 }, { .lr = 0.9 }, { .lr = 1.1 }, { .lr = 10 } };
    double best = cj_lr_find(c, make_quadratic, NULL, &e, t, 7, .task = CJ_TASK_REGRESS, .steps = 20, .gradient_descent = true);
    const cj_lr_kind kind[] = { CJ_LR_SLOW, CJ_LR_SLOW, CJ_LR_GOOD, CJ_LR_GOOD, CJ_LR_GOOD, CJ_LR_EXPLODES, CJ_LR_EXPLODES };
    for (int i = 0; i < 7; i++) {
        assert_int_equal(t[i].kind, kind[i]);
        double w = 3 * pow(1 - 2 * t[i].lr, 20);
        if (i < 6) assert_near(t[i].loss, w * w, 1e-4 * w * w + 1e-12);
    }
    assert_true(best == 0.4);

    cj_lr_trial rate[7], all[7]; /* on a network: within a factor of 10 of the rate that is best after a longer time */
    for (int i = 0; i < 7; i++) rate[i].lr = all[i].lr = pow(10, i - 6);
    fault none = { 0 };
    double found = cj_lr_find(c, make, &none, &rows, rate, 7, .steps = 20), good = cj_lr_find(c, make, &none, &rows, all, 7, .steps = 200);
    assert_true(found / good < 10.5 && good / found < 10.5);
    cj_release(x);
    cj_release(y);
}

static cj_module *make_plane(void *user)
{
    (void)user;
    cj_module *m = cj_linear(c, 4, 1, .no_bias = true);
    cj_init_constant_(cj_params_at(cj_module_params(m), 0), 10);
    return m;
}
static cj_tensor *plane(cj_module *m, cj_tensor *x, cj_tensor *y) { return (void)y, cj_mean(cj_forward(m, x)); }

/* [train.update_ratio] The gradient of a plane is the same everywhere, so Adam moves every weight by lr each step: after 15 steps of 0.01 the weights are 9.85, and the next step
 * moves them by 0.01/9.85 of that. With 0.6 they are 1 by then, and the next step is 0.6 of them. */
static void train_update_ratio(void **state)
{
    (void)state;
    cj_tensor *x = cj_keep(cj_ones(c, CJ_SHAPE(8, 4), CJ_F32));
    cj_examples e;
    cj_examples_of_rows(x, x, &e);
    const cj_model m = { .name = "plane", .task = CJ_TASK_GENERATE, .loss = plane };
    const struct {
        double lr;
        bool low, high;
    } cases[] = { { 0.01, false, false }, { 1e-5, true, false }, { 0.6, false, true } };
    for (int i = 0; i < 3; i++) {
        cj_finding f[8];
        int n = cj_diagnose(c, make_plane, NULL, &e, f, 8, .task = CJ_TASK_REGRESS, .model = &m, .lr = cases[i].lr, .steps = 30);
        const cj_finding *least = find(f, n, "smallest update"), *most = find(f, n, "largest update");
        if (i == 0) assert_near(least->found, 0.01 / 9.85, 1e-6);
        assert_near(least->found, most->found, 0);
        assert_true(least->healthy == (!cases[i].low && !cases[i].high));
        if (cases[i].low) assert_non_null(strstr(least->advice, "larger lr"));
        if (cases[i].high) assert_non_null(strstr(most->advice, "smaller lr"));
    }
    cj_release(x);
}

static cj_module *make_none(void *user)
{
    (void)user;
    return NULL;
}

static void bad_arguments(void **state)
{
    (void)state;
    cj_finding f[8];
    assert_int_equal(cj_diagnose(c, NULL, NULL, &rows, f, 8), -1);
    assert_non_null(strstr(cj_message(c), "there is no network"));
    cj_clear(c);
    assert_int_equal(cj_diagnose(c, make_none, NULL, &rows, f, 8), -1);
    assert_non_null(strstr(cj_message(c), "the function that makes the network gave none"));
    cj_clear(c);
    cj_lr_trial one = { .lr = 0.1 };
    assert_true(isnan(cj_lr_find(c, make_none, NULL, &rows, &one, 1)));
    assert_non_null(strstr(cj_message(c), "gave none"));
    cj_clear(c);
    assert_true(isnan(cj_lr_find(c, make, NULL, &rows, NULL, 0)));
    assert_non_null(strstr(cj_message(c), "lr_find"));
    cj_clear(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_guide),     cmocka_unit_test(a_broken_gradient_is_noticed),
        cmocka_unit_test(train_lr_finder), cmocka_unit_test(train_update_ratio),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, open_rows, teardown);
}
