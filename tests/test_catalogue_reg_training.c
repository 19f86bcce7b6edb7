/* Catalogue rows on regularisation that need training runs: dropout and width, dropout and weight decay, unlabelled rows, pretext tasks, meta-learning. */
/* ctest: slow */
#include "experiment.h"

TEST_CONTEXT(.threads = 1, .seed = 83);

/* ROWS digits of which every fifth has a wrong label: easy to overfit */
enum { ROWS = 150 };
typedef struct digits {
    cj_dataset *d;
    cj_tensor *x, *y; /* kept */
} digits;
static digits noisy_digits(bool wrong)
{
    digits r = { .d = cj_dataset_open(c, "digits", .held_out = 0.5) };
    int64_t label[ROWS];
    r.x = cj_keep(cj_clone(cj_slice(r.d->train_x, 0, 0, ROWS, 1)));
    assert_true(cj_to_i64(cj_slice(r.d->train_y, 0, 0, ROWS, 1), label, ROWS));
    for (int i = 0; i < ROWS && wrong; i += 5) label[i] = (label[i] + 1 + i % 9) % 10;
    r.y = cj_keep(cj_from_i64(c, label, CJ_SHAPE(ROWS)));
    return r;
}
static void digits_free(digits *r) { cj_release(r->x), cj_release(r->y), cj_dataset_free(r->d); }

static cj_module *one_hidden(int64_t width, double drop)
{
    return cj_sequential(c, cj_linear(c, 64, width), cj_relu_layer(c), cj_dropout_layer(c, drop), cj_linear(c, width, 10));
}

static void reg_dropout_capacity(void **state) /* reg.dropout_capacity */
{
    (void)state;
    /* pi·M units are active on average */
    enum { M = 200, DRAWS = 400 };
    const double keep = 0.5;
    cj_scope s = cj_scope_open(c);
    cj_tensor *kept = cj_forward(cj_dropout_layer(c, 1 - keep), cj_ones(c, CJ_SHAPE(DRAWS, M), CJ_F32));
    assert_near(cj_item(cj_mean(cj_sum(cj_cast(cj_gt_scalar(kept, 0), CJ_F32), .axes = CJ_AXIS(1)))), keep * M,
                4 * sqrt(M * keep * (1 - keep) / DRAWS));
    cj_scope_close(s);
    enum { WIDTHS = 6, SEEDS = 3 };
    const int64_t width[WIDTHS] = { 4, 8, 16, 32, 64, 128 };
    digits data = noisy_digits(true);
    int best[2] = { 0 };
    for (int drop = 0; drop < 2; drop++) {
        double least = INFINITY;
        for (int i = 0; i < WIDTHS; i++) {
            double loss = 0;
            for (int seed = 0; seed < SEEDS; seed++) {
                cj_module *net = one_hidden(width[i], drop ? 1 - keep : 0);
                fit(net, cj_adam(cj_module_params(net), .lr = 0.01), data.x, data.y, 0, 200);
                loss += loss_of(net, data.d->test_x, data.d->test_y) / SEEDS;
            }
            print_message("%s, %3ld units: test loss %.3f\n", drop ? "dropout" : "without", (long)width[i], loss);
            if (loss < least) least = loss, best[drop] = i;
        }
    }
    assert_true(width[best[1]] >= width[best[0]] / keep);
    digits_free(&data);
}

/* steps until the loss of a training step is below the level; the net goes on to `steps` */
static int steps_to(cj_module *net, cj_optim *opt, const digits *data, double level, int steps)
{
    int first = steps;
    for (int i = 0; i < steps; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *loss = fit_loss(net, data->x, data->y);
        if (first == steps && cj_item(loss) < level) first = i;
        cj_minimise(opt, loss);
        cj_scope_close(s);
    }
    cj_optim_free(opt);
    return first;
}

static void reg_dropout_vs_decay(void **state) /* reg.dropout_vs_decay */
{
    (void)state;
    enum { SEEDS = 4, STRENGTHS = 3, STEPS = 250 };
    const double strength[2][STRENGTHS] = { { 1e-3, 1e-2, 5e-2 }, { 0.2, 0.5, 0.7 } };
    digits data = noisy_digits(false);
    cj_scope s = cj_scope_open(c);
    cj_tensor *val_x = cj_slice(data.d->train_x, 0, ROWS, 3 * ROWS, 1), *val_y = cj_slice(data.d->train_y, 0, ROWS, 3 * ROWS, 1);
    double error[3] = { 0 }, steps[3] = { 0 }; /* weight decay, dropout, neither */
    for (int seed = 0; seed < SEEDS; seed++)
        for (int kind = 0; kind < 3; kind++) {
            double right = -1, test = 0, first = 0;
            for (int i = 0; i < (kind < 2 ? STRENGTHS : 1); i++) { /* tuned on other rows */
                cj_module *net = one_hidden(64, kind == 1 ? strength[1][i] : 0);
                cj_optim *adam = cj_adamw(cj_module_params(net), .lr = 0.005, .weight_decay = kind == 0 ? strength[0][i] / 0.005 : CJ_ZERO);
                int reached = steps_to(net, adam, &data, 0.1, STEPS);
                double found = accuracy_of(net, val_x, val_y);
                if (found > right) right = found, test = 1 - accuracy_of(net, data.d->test_x, data.d->test_y), first = reached;
            }
            error[kind] += test / SEEDS, steps[kind] += first / SEEDS;
        }
    print_message("test error %.3f with weight decay, %.3f with dropout, %.3f without; %g, %g and %g steps to a training loss of 0.1\n",
                  error[0], error[1], error[2], steps[0], steps[1], steps[2]);
    assert_true(steps[1] > 1.3 * steps[2] && steps[1] > steps[0] * 0.9);
    assert_true(error[1] < error[2] + 0.01 && error[1] < error[0] + 0.02);
    cj_scope_close(s);
    digits_free(&data);
}

/* ---- unlabelled rows -------------------------------------------------------------------------------------------------------------------------------------------------- */

/* Two Gaussian classes. Parameters: logits [2], means [2, 2], logarithms of deviations [2, 2]; log p(x, class) is [n, 2]. */
typedef struct semi {
    cj_tensor *x, *y, *unlabelled; /* y: one-hot */
    double weight;
} semi;
static cj_tensor *log_joint(cj_tensor *x, cj_tensor *const *w)
{
    cj_dist d = cj_dist_diagonal_normal(w[1], cj_exp(w[2]));
    return cj_add(cj_dist_log_prob(d, cj_unsqueeze(x, 1)), cj_log_softmax(w[0], -1));
}
static cj_tensor *semi_loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const semi *p = user;
    cj_tensor *joint = log_joint(p->x, in), *given = cj_sub(joint, cj_logsumexp(joint, .axes = CJ_AXIS(1), .keepdim = true));
    cj_tensor *loss = cj_neg(cj_mean(cj_sum(cj_mul(given, p->y), .axes = CJ_AXIS(1)))); /* the classifier's */
    /* a weak prior on the deviations keeps a component from falling onto one point */
    loss = cj_add(loss, cj_mul_scalar(cj_sum(cj_square(in[2])), 1e-3));
    if (!(p->weight > 0)) return loss;
    return cj_sub(loss, cj_mul_scalar(cj_mean(cj_logsumexp(log_joint(p->unlabelled, in), .axes = CJ_AXIS(1))), p->weight));
}

static void reg_semi_supervised(void **state) /* reg.semi_supervised */
{
    (void)state;
    enum { LABELS = 4, UNLABELLED = 300, SEEDS = 8 };
    double right[2] = { 0 };
    for (int seed = 0; seed < SEEDS; seed++) {
        cj_scope s = cj_scope_open(c);
        /* class 0 around (-2, 0), class 1 around (2, 0), long across: a few labels do not show which way they differ */
        cj_tensor *x[2], *y[2];
        for (int k = 0; k < 2; k++) {
            int64_t n = k ? UNLABELLED : LABELS;
            cj_tensor *label = cj_remainder(cj_arange(c, 0, (double)n, 1, CJ_F64), F64(c, CJ_SCALAR, 2));
            cj_tensor *middle = cj_mul(cj_unsqueeze(cj_add_scalar(cj_mul_scalar(label, 4), -2), 1), F64(c, CJ_SHAPE(2), 1, 0));
            x[k] = cj_add(middle, cj_mul(cj_randn(c, CJ_SHAPE(n, 2), .dtype = CJ_F64), F64(c, CJ_SHAPE(2), 0.6, 4)));
            y[k] = cj_stack(CJ_TENSORS(cj_add_scalar(cj_neg(label), 1), label), 2, 1);
        }
        for (int kind = 0; kind < 2; kind++) {
            semi p = { x[0], y[0], x[1], kind ? 1 : 0 };
            cj_tensor *mean =
                cj_div(cj_matmul(cj_t(y[0]), x[0]), cj_full(c, LABELS / 2., CJ_SCALAR, CJ_F64)); /* of the labelled rows of each class */
            cj_tensor *w[] = { cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F64)), cj_keep(cj_clone(mean)),
                               cj_keep(cj_zeros(c, CJ_SHAPE(2, 2), CJ_F64)) };
            assert_true(cj_lbfgs(c, semi_loss, &p, w, 3, NULL, .iterations = 100, .tolerance = 1e-5));
            right[kind] += share_right(log_joint(x[1], w), cj_argmax(y[1], .axes = CJ_AXIS(1))) / SEEDS;
            for (int i = 0; i < 3; i++) cj_release(w[i]);
        }
        cj_scope_close(s);
    }
    print_message("4 labels: accuracy %.3f; with 300 rows without labels %.3f\n", right[0], right[1]);
    assert_true(right[1] > right[0] + 0.05 && right[1] > 0.95);
}

/* ---- a pretext task -------------------------------------------------------------------------------------------------------------------------------------------------------- */

/* 3 x 3 patches of 4 x 4 pixels, two apart; which of the 8 neighbours of the middle one is this? */
enum { PATCH = 16, FEATURES = 4 };
typedef struct pretext {
    cj_module *encoder, *head;
} pretext;
static cj_tensor *pretext_forward(cj_module *m, void *self, cj_tensor *x) /* x [n, 2·PATCH] */
{
    (void)m;
    pretext *p = self;
    cj_tensor *a = cj_forward(p->encoder, cj_slice(x, 1, 0, PATCH, 1)), *b = cj_forward(p->encoder, cj_slice(x, 1, PATCH, 2 * PATCH, 1));
    return cj_forward(p->head, cj_cat(CJ_TENSORS(a, b), 2, 1));
}
static const cj_module_type pretext_type = { "Pretext", pretext_forward, NULL };

static cj_tensor *patch(cj_tensor *image, int which) /* image [n, 8, 8] -> [n, PATCH] */
{
    cj_tensor *rows = cj_slice(image, 1, which / 3 * 2, which / 3 * 2 + 4, 1);
    return cj_reshape(cj_contiguous(cj_slice(rows, 2, which % 3 * 2, which % 3 * 2 + 4, 1)), CJ_SHAPE(cj_size(image, 0), PATCH));
}
static cj_tensor *features(cj_module *encoder, cj_tensor *image)
{
    cj_tensor *part[9];
    for (int i = 0; i < 9; i++) part[i] = cj_forward(encoder, patch(image, i));
    return cj_cat(part, 9, 1);
}
/* accuracy of a linear classifier on frozen features, from `few` labels */
static double probe(cj_module *encoder, const cj_dataset *d, int64_t few)
{
    cj_scope s = cj_scope_open(c);
    bool grad = cj_no_grad(c);
    cj_tensor *train = cj_detach(features(encoder, cj_reshape(d->train_x, CJ_SHAPE(-1, 8, 8)))),
              *test = cj_detach(features(encoder, cj_reshape(d->test_x, CJ_SHAPE(-1, 8, 8))));
    cj_grad_mode(c, grad);
    cj_tensor *scale = cj_sqrt(cj_add_scalar(cj_mean(cj_square(train), .axes = CJ_AXIS(0)), 1e-6));
    cj_module *net = cj_linear(c, 9 * FEATURES, 10);
    cj_tensor *x = cj_slice(cj_div(train, scale), 0, 0, few, 1);
    fit(net, cj_adam(cj_module_params(net), .lr = 0.01, .weight_decay = 1e-2), x, cj_slice(d->train_y, 0, 0, few, 1), 0, 300);
    double right = accuracy_of(net, cj_div(test, scale), d->test_y);
    cj_scope_close(s);
    return right;
}

static void reg_self_supervised(void **state) /* reg.self_supervised */
{
    (void)state;
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.3);
    cj_scope s = cj_scope_open(c);
    double found[2] = { 0 }, pretext_right = 0;
    enum { SEEDS = 3 };
    cj_tensor *x[2], *y[2];
    for (int test = 0; test < 2; test++) { /* the middle patch and each of its neighbours */
        cj_tensor *image = cj_reshape(test ? d->test_x : d->train_x, CJ_SHAPE(-1, 8, 8)), *pair[8], *label[8];
        for (int i = 0; i < 8; i++) {
            pair[i] = cj_cat(CJ_TENSORS(patch(image, 4), patch(image, i < 4 ? i : i + 1)), 2, 1);
            label[i] = cj_full(c, i, CJ_SHAPE(cj_size(image, 0)), CJ_I64);
        }
        x[test] = cj_cat(pair, 8, 0), y[test] = cj_cat(label, 8, 0);
    }
    for (int seed = 0; seed < SEEDS; seed++) {
        cj_module *m = cj_module_new(c, &pretext_type, sizeof(pretext));
        pretext *p = cj_module_self(m);
        p->encoder = cj_module_add(m, "encoder",
                                   cj_sequential(c, cj_linear(c, PATCH, 32), cj_relu_layer(c), cj_linear(c, 32, 32), cj_relu_layer(c),
                                                 cj_linear(c, 32, 32), cj_relu_layer(c), cj_linear(c, 32, FEATURES)));
        p->head = cj_module_add(m, "head",
                                cj_sequential(c, cj_relu_layer(c), cj_linear(c, 2 * FEATURES, 64), cj_relu_layer(c), cj_linear(c, 64, 8)));
        found[0] += probe(p->encoder, d, 50) / SEEDS; /* as it was drawn */
        fit(m, cj_adam(cj_module_params(m), .lr = 3e-3), x[0], y[0], 128, 800);
        pretext_right += accuracy_of(m, x[1], y[1]) / SEEDS;
        found[1] += probe(p->encoder, d, 50) / SEEDS;
    }
    print_message("pretext accuracy %.3f (chance 0.125); 50 labels on frozen features: drawn %.3f, from the pretext %.3f\n", pretext_right,
                  found[0], found[1]);
    assert_true(pretext_right > 0.3);
    assert_true(found[1] > found[0] + 0.05);
    cj_scope_close(s);
    cj_dataset_free(d);
}

/* ---- Reptile (Nichol, Achiam & Schulman 2018) on sine waves ------------------------------------------------------------------------------------------------------------------ */

enum { SHOTS = 10, INNER = 10 };
static void sine_task(cj_tensor **x, cj_tensor **y, int64_t n, double amplitude, double phase)
{
    *x = cj_uniform(c, -5, 5, CJ_SHAPE(n, 1));
    *y = cj_mul_scalar(cj_sin(cj_add_scalar(*x, phase)), amplitude);
}
static double draw(double low, double high) { return cj_item(cj_uniform(c, low, high, CJ_SCALAR)); }
static cj_module *sine_net(void)
{
    return cj_sequential(c, cj_linear(c, 1, 40), cj_tanh_layer(c), cj_linear(c, 40, 40), cj_tanh_layer(c), cj_linear(c, 40, 1));
}
static void copy_params(cj_module *to, cj_module *from, double share) /* to += share·(from - to) */
{
    cj_scope s = cj_scope_open(c);
    bool grad = cj_no_grad(c);
    cj_params *a = cj_module_params(to), *b = cj_module_params(from);
    for (int i = 0; i < cj_params_count(a); i++) {
        cj_tensor *difference = cj_sub(cj_params_at(b, i), cj_params_at(a, i));
        cj_add_(cj_params_at(a, i), difference, share);
    }
    cj_grad_mode(c, grad);
    cj_scope_close(s);
}
/* mean square on fresh points of new tasks after INNER gradient steps on SHOTS points */
static double adapted(cj_module *start, cj_module *work, cj_plan *step, fit_job *job)
{
    double error = 0;
    enum { TASKS = 20 };
    (void)job;
    for (int t = 0; t < TASKS; t++) {
        cj_scope s = cj_scope_open(c);
        double amplitude = draw(0.5, 3), phase = draw(0, M_PI);
        cj_tensor *in[2], *fresh[2];
        sine_task(&in[0], &in[1], SHOTS, amplitude, phase), sine_task(&fresh[0], &fresh[1], 100, amplitude, phase);
        copy_params(work, start, 1);
        for (int i = 0; i < INNER; i++) cj_replay(step, in, NULL);
        error += loss_of(work, fresh[0], fresh[1]) / TASKS;
        cj_scope_close(s);
    }
    return error;
}

static void train_meta_learning(void **state) /* train.meta_learning */
{
    (void)state;
    enum { OUTER = 4000 };
    cj_scope s = cj_scope_open(c);
    cj_module *work = sine_net(), *meta = sine_net(), *joint = sine_net(), *random = sine_net();
    fit_job job = { work, cj_sgd(cj_module_params(work), .lr = 0.02) };
    cj_tensor *in[2];
    sine_task(&in[0], &in[1], SHOTS, 1, 0);
    cj_plan *step = cj_capture(c, fit_step, &job, in, 2, NULL);
    cj_optim *adam = cj_adam(cj_module_params(joint), .lr = 1e-3);
    fit_job all = { joint, adam };
    cj_plan *jointly = cj_capture(c, fit_step, &all, in, 2, NULL);
    for (int t = 0; t < OUTER; t++) {
        cj_scope inner = cj_scope_open(c);
        sine_task(&in[0], &in[1], SHOTS, draw(0.5, 3), draw(0, M_PI));
        copy_params(work, meta, 1);
        for (int i = 0; i < INNER; i++) cj_replay(step, in, NULL);
        copy_params(meta, work, 0.3 * (1 - (double)t / OUTER)); /* a part of the way to where the task led */
        cj_replay(jointly, in, NULL);
        cj_scope_close(inner);
    }
    double from[3] = { adapted(random, work, step, &job), adapted(joint, work, step, &job), adapted(meta, work, step, &job) };
    print_message("10 steps on 10 points: mean square %.3f from a random start, %.3f from joint training, %.3f from Reptile\n", from[0],
                  from[1], from[2]);
    assert_true(from[2] < 0.5 * from[0] && from[2] < 0.5 * from[1]);
    cj_plan_free(step), cj_plan_free(jointly);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reg_dropout_capacity), cmocka_unit_test(reg_dropout_vs_decay), cmocka_unit_test(reg_semi_supervised),
        cmocka_unit_test(reg_self_supervised),  cmocka_unit_test(train_meta_learning),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
