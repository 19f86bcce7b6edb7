/* Catalogue rows of regularisation that need data: resampling, ensembles, distillation, pruning, transfer, several tasks, shifted inputs. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 61);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }
static double accuracy(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    bool was = cj_module_training(m);
    cj_module_train(m, false);
    double share = cj_item(cj_mean(cj_cast(cj_eq(cj_argmax(cj_forward(m, x), .axes = CJ_AXIS(1)), y), CJ_F32)));
    cj_module_train(m, was);
    return share;
}
/* Full batches with Adam; a pruning, where there is one, is applied after every step. */
static void train(cj_module *m, cj_tensor *x, cj_tensor *y, int steps, double lr, cj_pruning *pruning)
{
    cj_optim *opt = cj_adam(cj_module_params(m), .lr = lr);
    for (int i = 0; i < steps; i++) {
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(opt, cj_cross_entropy(cj_forward(m, x), y)));
        cj_scope_close(s);
        if (pruning) assert_true(cj_pruning_apply(pruning));
    }
    cj_optim_free(opt);
}
static cj_module *classifier(int64_t hidden)
{
    return cj_sequential(c, cj_linear(c, 64, hidden), cj_relu_layer(c), cj_linear(c, hidden, 10));
}
static cj_tensor *rows(cj_tensor *x, int64_t from, int64_t to) { return cj_slice(x, 0, from, to, 1); }

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void reg_bootstrap(void **state) /* reg.bootstrap */
{
    (void)state;
    enum { N = 60, DRAWS = 300, SETS = 200 };
    int covered = 0;
    double distinct = 0;
    for (int set = 0; set < SETS; set++) { /* heights of mean 170 and deviation 8 */
        cj_scope s = cj_scope_open(c);
        double *x = values_of(cj_add_scalar(cj_mul_scalar(normal(CJ_SHAPE(N)), 8), 170)), mean[DRAWS], all = 0, spread = 0, centre = 0,
               width = 0;
        for (int i = 0; i < N; i++) all += x[i] / N;
        for (int i = 0; i < N; i++) spread += pow(x[i] - all, 2) / N;
        for (int k = 0; k < DRAWS; k++) {
            int64_t index[N];
            bool seen[N] = { false };
            cj_to_i64(cj_bootstrap(c, N), index, N);
            mean[k] = 0;
            for (int i = 0; i < N; i++) {
                mean[k] += x[index[i]] / N;
                distinct += seen[index[i]] ? 0 : 1. / N / DRAWS / SETS;
                seen[index[i]] = true;
            }
            centre += mean[k] / DRAWS;
        }
        for (int k = 0; k < DRAWS; k++) width += pow(mean[k] - centre, 2) / (DRAWS - 1);
        assert_near(sqrt(width) / sqrt(spread / N), 1, 0.2); /* s/sqrt N; 300 draws know it to 4 percent */
        qsort(mean, DRAWS, sizeof *mean, ascending);
        covered += mean[(int)(0.025 * DRAWS)] <= 170 && 170 <= mean[(int)(0.975 * DRAWS)];
        free(x);
        cj_scope_close(s);
    }
    assert_near(distinct, 1 - pow(1 - 1. / N, N), 0.001);
    assert_near(distinct, 0.632, 0.005);
    assert_near((double)covered / SETS, 0.95, 0.045);
    assert_refused(CJ_EVALUE, "bootstrap: 0 examples", cj_bootstrap(c, 0));
}

/* One nearest neighbour in one dimension: a learner that is all variance. */
static double nearest(const double *x, const double *y, const int64_t *index, int n, double at)
{
    int64_t best = index ? index[0] : 0;
    for (int i = 1; i < n; i++) {
        int64_t k = index ? index[i] : i;
        if (fabs(x[k] - at) < fabs(x[best] - at)) best = k;
    }
    return y[best];
}
/* The line of least squares. */
static double line_at(const double *x, const double *y, const int64_t *index, int n, double at)
{
    double mx = 0, my = 0, xx = 0, xy = 0;
    for (int i = 0; i < n; i++) mx += x[index ? index[i] : i] / n, my += y[index ? index[i] : i] / n;
    for (int i = 0; i < n; i++) {
        int64_t k = index ? index[i] : i;
        xx += (x[k] - mx) * (x[k] - mx), xy += (x[k] - mx) * (y[k] - my);
    }
    return my + xy / xx * (at - mx);
}

static void reg_bagging(void **state) /* reg.bagging */
{
    (void)state;
    enum { N = 30, M = 10, TRIALS = 600 };
    double own[M][TRIALS], shared[M][TRIALS], single_line = 0, bagged_line = 0, at = 0.3, truth = sin(3 * 0.3);
    double bagged_nearest = 0, single_nearest = 0;
    for (int t = 0; t < TRIALS; t++) {
        cj_scope s = cj_scope_open(c);
        double mean_line = 0, mean_near = 0, members = 0;
        double *x0 = NULL, *y0 = NULL;
        for (int m = 0; m < M; m++) {
            double *x = values_of(cj_uniform(c, -1, 1, CJ_SHAPE(N), .dtype = CJ_F64)), *e = values_of(normal(CJ_SHAPE(N)));
            for (int i = 0; i < N; i++) e[i] = sin(3 * x[i]) + 0.5 * e[i];
            own[m][t] = nearest(x, e, NULL, N, at); /* data of its own */
            if (!m) {
                x0 = x, y0 = e;
                single_line += pow(line_at(x0, y0, NULL, N, at) - truth, 2) / TRIALS;
                single_nearest += pow(nearest(x0, y0, NULL, N, at) - truth, 2) / TRIALS;
            }
            int64_t index[N];
            cj_to_i64(cj_bootstrap(c, N), index, N);
            shared[m][t] = nearest(x0, y0, index, N, at); /* a bootstrap of the first data */
            mean_near += shared[m][t] / M;
            members += pow(shared[m][t] - truth, 2) / M;
            mean_line += line_at(x0, y0, index, N, at) / M;
            if (m) free(x), free(e);
        }
        assert_true(pow(mean_near - truth, 2) <= members + 1e-12); /* squared loss: never worse than its members on average */
        bagged_line += pow(mean_line - truth, 2) / TRIALS;
        bagged_nearest += pow(mean_near - truth, 2) / TRIALS;
        free(x0), free(y0);
        cj_scope_close(s);
    }
    for (int k = 0; k < 2; k++) {
        double(*f)[TRIALS] = k ? shared : own, mean[M] = { 0 }, centre = 0, v = 0, cov = 0, total = 0;
        for (int m = 0; m < M; m++)
            for (int t = 0; t < TRIALS; t++) mean[m] += f[m][t] / TRIALS, centre += f[m][t] / TRIALS / M;
        for (int t = 0; t < TRIALS; t++) {
            double sum = 0;
            for (int m = 0; m < M; m++) {
                sum += f[m][t] / M;
                v += pow(f[m][t] - mean[m], 2) / TRIALS / M;
                for (int o = 0; o < m; o++) cov += (f[m][t] - mean[m]) * (f[o][t] - mean[o]) / TRIALS / (M * (M - 1) / 2.);
            }
            total += pow(sum - centre, 2) / TRIALS;
        }
        double rho = cov / v;
        if (k == 0) assert_near(total / (v / M), 1, 0.25); /* independent data */
        else assert_true(rho > 0.2 && rho < 1);
        assert_near(total / (rho * v + (1 - rho) * v / M), 1, 1e-9);
    }
    assert_true(bagged_nearest < 0.8 * single_nearest);
    assert_near(bagged_line / single_line, 1, 0.1); /* nothing to gain for a stable learner */
}

static void reg_ensemble_and_distillation(void **state) /* reg.ensemble, reg.distillation */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.5);
    enum { M = 5, FEW = 100 };
    cj_tensor *x = rows(d->train_x, 0, 300), *y = rows(d->train_y, 0, 300), *sum = NULL,
              *targets = cj_cast(cj_one_hot(d->test_y, 10), CJ_F32);
    double mean = 0, error = 0, ambiguity = 0;
    cj_tensor *out[M];
    for (int m = 0; m < M; m++) {
        cj_module *net = classifier(24);
        train(net, x, y, 120, 0.02, NULL);
        out[m] = cj_softmax(cj_forward(net, d->test_x), -1);
        sum = sum ? cj_add(sum, out[m]) : out[m];
        mean += accuracy(net, d->test_x, d->test_y) / M;
    }
    cj_tensor *average = cj_mul_scalar(sum, 1. / M);
    for (int m = 0; m < M; m++) {
        error += cj_item(cj_mean(cj_square(cj_sub(out[m], targets)))) / M;
        ambiguity += cj_item(cj_mean(cj_square(cj_sub(out[m], average)))) / M;
    }
    assert_near(cj_item(cj_mean(cj_square(cj_sub(average, targets)))), error - ambiguity, 1e-7);
    assert_true(ambiguity > 1e-4);
    double together = cj_item(cj_mean(cj_cast(cj_eq(cj_argmax(average, .axes = CJ_AXIS(1)), d->test_y), CJ_F32)));
    assert_true(together >= mean);
    /* distillation: hot temperature, the gradient by the student's logits goes to (z_s - z_t)/(n·K), for logits without mean */
    enum { K = 5 };
    cj_tensor *student = cj_require_grad(normal(CJ_SHAPE(1, K))), *teacher = normal(CJ_SHAPE(1, K)), *g;
    assert_true(cj_grad(cj_distillation_loss(student, teacher, NULL, .temperature = 1e4, .lambda = 1), &student, 1, &g));
    cj_tensor *a = cj_sub(student, cj_mean(student)), *b = cj_sub(teacher, cj_mean(teacher));
    assert_near(distance(g, cj_mul_scalar(cj_sub(a, b), 1. / K)), 0, 1e-4);
    cj_tensor *label = cj_zeros(c, CJ_SHAPE(1), CJ_I64); /* the formula */
    double kl = 0, t = 3;
    cj_tensor *p = cj_softmax(cj_mul_scalar(teacher, 1 / t), -1), *q = cj_softmax(cj_mul_scalar(cj_detach(student), 1 / t), -1);
    for (int i = 0; i < K; i++) kl += value_at(p, i) * log(value_at(p, i) / value_at(q, i));
    assert_near(cj_item(cj_distillation_loss(student, teacher, label, .temperature = t, .lambda = 0.7)),
                0.7 * t * t * kl + 0.3 * cj_item(cj_cross_entropy(student, label)), 1e-12);
    /* a small student with 100 labels, or with what a teacher of 800 says about the same 100 images; three starts */
    cj_module *large = classifier(128);
    train(large, rows(d->train_x, 0, 800), rows(d->train_y, 0, 800), 150, 0.01, NULL);
    cj_tensor *few = rows(d->train_x, 0, FEW), *hard = rows(d->train_y, 0, FEW), *soft = cj_keep(cj_forward(large, few));
    double by_labels = 0, by_teacher = 0, best = accuracy(large, d->test_x, d->test_y);
    for (int k = 0; k < 3; k++)
        for (int taught = 0; taught < 2; taught++) {
            cj_module *small = classifier(12);
            cj_optim *opt = cj_adam(cj_module_params(small), .lr = 0.02);
            for (int i = 0; i < 200; i++) {
                cj_scope inner = cj_scope_open(c);
                cj_tensor *logits = cj_forward(small, few);
                assert_true(cj_minimise(opt, taught ? cj_distillation_loss(logits, soft, hard) : cj_cross_entropy(logits, hard)));
                cj_scope_close(inner);
            }
            *(taught ? &by_teacher : &by_labels) += accuracy(small, d->test_x, d->test_y) / 3;
        }
    assert_true(by_teacher > by_labels);
    assert_true(best > by_teacher);
    cj_release(soft);
    assert_ok(c);
    assert_poisoned(CJ_EVALUE, "distillation_loss: lambda 0.9 needs targets", cj_distillation_loss(student, teacher, NULL));
    assert_poisoned(CJ_ESHAPE, "distillation_loss: student [1, 5], teacher [5]",
                    cj_distillation_loss(student, cj_flatten(teacher, 0), label));
    assert_poisoned(CJ_EVALUE, "distillation_loss: temperature -1", cj_distillation_loss(student, teacher, label, .temperature = -1));
    cj_scope_close(s);
}

static void reg_pruning_and_lottery_ticket(void **state) /* reg.pruning, reg.lottery_ticket */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int n = 1; n < 12; n++) /* exactly ceil(k%), the largest */
        for (int k = 0; k <= 10; k++) {
            cj_tensor *w = normal(CJ_SHAPE(n)), *mask = cj_magnitude_mask(w, k / 10.);
            int64_t kept = (n * k + 9) / 10;
            assert_int_equal((int64_t)cj_item(cj_sum(mask)), kept);
            if (kept && kept < n) {
                double least = cj_item(cj_min(cj_masked_select(cj_abs(w), cj_gt_scalar(mask, 0)))),
                       most = cj_item(cj_max(cj_masked_select(cj_abs(w), cj_eq_scalar(mask, 0))));
                assert_true(least > most);
            }
        }
    assert_int_equal((int64_t)cj_item(cj_sum(cj_magnitude_mask(cj_ones(c, CJ_SHAPE(4, 5), CJ_F32), 0.31))), 7); /* all alike */
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.3);
    cj_module *net = classifier(64);
    train(net, d->train_x, d->train_y, 100, 0.01, NULL);
    double full = accuracy(net, d->test_x, d->test_y);
    cj_pruning *pr = cj_pruning_new(cj_module_params(net));
    assert_true(cj_pruning_prune(pr, 0.5));
    assert_null(cj_pruning_mask(pr, 1)); /* biases stay */
    cj_tensor *w = cj_params_at(cj_module_params(net), 0), *mask = cj_pruning_mask(pr, 0);
    assert_int_equal((int64_t)cj_item(cj_sum(mask)), 64 * 64 / 2);
    assert_true(accuracy(net, d->test_x, d->test_y) > full - 0.05);
    train(net, d->train_x, d->train_y, 20, 0.01, pr);
    assert_near(cj_item(cj_max(cj_abs(cj_masked_select(w, cj_eq_scalar(mask, 0))))), 0, 0); /* pruned weights are 0 after training, too */
    assert_true(accuracy(net, d->test_x, d->test_y) > full - 0.02);
    assert_true(cj_pruning_prune(pr, 0.01));
    assert_true(accuracy(net, d->test_x, d->test_y) < full - 0.2);
    /* lottery: train, prune to 20%, rewind, train; the same mask with another start. Steps to a loss, over three seeds */
    double ticket = 0, other = 0, original = 0, masks = 0;
    enum { SEEDS = 4, STEPS = 200 };
    cj_tensor *first_mask = NULL;
    for (int seed = 0; seed < SEEDS; seed++) {
        cj_module *m = classifier(64);
        cj_params *p = cj_module_params(m);
        cj_pruning *lottery = cj_pruning_new(p);
        cj_tensor *start = cj_keep(cj_clone(cj_detach(cj_params_at(p, 0))));
        train(m, d->train_x, d->train_y, STEPS, 0.01, NULL);
        original += accuracy(m, d->test_x, d->test_y) / SEEDS;
        assert_true(cj_pruning_prune(lottery, 0.2) && cj_pruning_rewind(lottery));
        assert_near(distance(cj_params_at(p, 0), cj_mul(start, cj_pruning_mask(lottery, 0))), 0, 0); /* m·theta_0, to the bit */
        if (first_mask) masks += distance(first_mask, cj_pruning_mask(lottery, 0)) / (SEEDS - 1);
        else first_mask = cj_pruning_mask(lottery, 0);
        train(m, d->train_x, d->train_y, STEPS, 0.01, lottery);
        ticket += accuracy(m, d->test_x, d->test_y) / SEEDS;
        for (int i = 0; i < 4; i += 2) cj_init_uniform_(cj_params_at(p, i), -0.125, 0.125); /* as linear layers of 64 begin */
        for (int i = 1; i < 4; i += 2) cj_init_constant_(cj_params_at(p, i), 0);
        assert_true(cj_pruning_apply(lottery));
        train(m, d->train_x, d->train_y, STEPS, 0.01, lottery);
        other += accuracy(m, d->test_x, d->test_y) / SEEDS;
        cj_release(start);
    }
    assert_true(ticket >= original - 0.02);
    assert_true(ticket > other);
    assert_near(masks, 1, 0); /* another start, another mask */
    assert_ok(c);
    assert_poisoned(CJ_EVALUE, "magnitude_mask: share 2 to keep", cj_magnitude_mask(w, 2));
    assert_refused(CJ_EVALUE, "pruning_prune: share -1 to keep", cj_pruning_prune(pr, -1));
    cj_scope_close(s);
}

static void reg_transfer(void **state) /* reg.transfer */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.3);
    /* task A: which digit, 900 of them; task B: odd or even, with few labels */
    cj_tensor *set[] = { rows(d->train_x, 0, 900),
                         rows(d->train_y, 0, 900),
                         rows(d->train_x, 900, CJ_END),
                         cj_remainder(rows(d->train_y, 900, CJ_END), cj_full(c, 2, CJ_SCALAR, CJ_I64)),
                         d->test_x,
                         cj_remainder(d->test_y, cj_full(c, 2, CJ_SCALAR, CJ_I64)) };
    const int sizes[] = { 20, 340 };
    double gap[2] = { 0 };
    enum { SEEDS = 4 };
    for (int seed = 0; seed < SEEDS; seed++) {
        cj_module *low = cj_sequential(c, cj_linear(c, 64, 64), cj_relu_layer(c)), *net = cj_sequential(c, low, cj_linear(c, 64, 10));
        train(net, set[0], set[1], 100, 0.01, NULL);
        cj_module_freeze(low, true);
        snapshot before = { 0 }, after = { 0 };
        cj_module_state(low, snapshot_add, &before);
        for (int k = 0; k < 2; k++) {
            cj_tensor *x = rows(set[2], 0, sizes[k]), *y = rows(set[3], 0, sizes[k]);
            cj_module *probe = cj_sequential(c, low, cj_linear(c, 64, 10)),
                      *scratch = cj_sequential(c, cj_linear(c, 64, 64), cj_relu_layer(c), cj_linear(c, 64, 10));
            assert_int_equal(cj_params_count(cj_module_params(probe)), 2);
            train(probe, x, y, 150, 0.01, NULL);
            train(scratch, x, y, 150, 0.01, NULL);
            gap[k] += (accuracy(probe, set[4], set[5]) - accuracy(scratch, set[4], set[5])) / SEEDS;
        }
        cj_module_state(low, snapshot_add, &after);
        assert_true(snapshot_same(&before, &after)); /* frozen to the bit */
        snapshot_free(&before), snapshot_free(&after);
    }
    assert_true(gap[0] > 0);
    assert_true(gap[1] < gap[0]);
    cj_scope_close(s);
}

static void reg_bayes_average(void **state) /* reg.bayes_average */
{
    (void)state;
    enum { N = 3, TRIALS = 400, GRID = 400 };
    const double noise = 0.5;
    double better = 0;
    for (int t = 0; t < TRIALS; t++) { /* y = w·x + noise, w from its prior N(0, 1); a new point is scored */
        cj_scope s = cj_scope_open(c);
        double *z = values_of(normal(CJ_SHAPE(2 * N + 4))), w = z[0], precision = 1, mean = 0;
        for (int i = 0; i < N; i++) {
            double x = z[1 + i], y = w * x + noise * z[1 + N + i];
            precision += x * x / (noise * noise);
            mean += x * y / (noise * noise);
        }
        mean /= precision;
        double at = 2 * z[2 * N + 1], y = w * at + noise * z[2 * N + 2], grid = 0, mass = 0;
        for (int i = 0; i <= GRID; i++) { /* predictions weighted by the posterior on a grid */
            double v = mean + (i - GRID / 2) * 16. / GRID / sqrt(precision), p = exp(-precision * (v - mean) * (v - mean) / 2);
            mass += p;
            grid += p * exp(-pow((y - v * at) / noise, 2) / 2) / (noise * sqrt(2 * M_PI));
        }
        grid /= mass;
        cj_tensor *point = cj_full(c, y, CJ_SCALAR, CJ_F64), *middle = cj_full(c, mean * at, CJ_SCALAR, CJ_F64);
        double exact = cj_item(
            cj_dist_log_prob(cj_dist_normal(middle, cj_full(c, sqrt(noise * noise + at * at / precision), CJ_SCALAR, CJ_F64)), point));
        double map = cj_item(cj_dist_log_prob(cj_dist_normal(middle, cj_full(c, noise, CJ_SCALAR, CJ_F64)), point));
        assert_near(log(grid), exact, 1e-6); /* the conjugate predictive distribution */
        better += (log(grid) - map) / TRIALS;
        free(z);
        cj_scope_close(s);
    }
    assert_true(better > 0.02);
}

typedef struct discrimination {
    cj_tensor *x, *label;
} discrimination;
static cj_tensor *logistic(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const discrimination *d = user;
    return cj_bce_with_logits(cj_matmul(d->x, in[0]), d->label);
}

static void reg_covariate_shift(void **state) /* reg.covariate_shift */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 4000 };
    /* inputs N(0, 1) to learn from, N(1.5, 1) to be used on: the odds of a discriminator are e^(1.5·x - 1.125) */
    cj_tensor *source = normal(CJ_SHAPE(N)), *target = cj_add_scalar(normal(CJ_SHAPE(N)), 1.5),
              *all = cj_cat(CJ_TENSORS(source, target), 2, 0);
    discrimination d = { cj_stack(CJ_TENSORS(cj_ones_like(all), all), 2, 1),
                         cj_cat(CJ_TENSORS(cj_zeros_like(source), cj_ones_like(target)), 2, 0) };
    cj_tensor *w = cj_keep(cj_zeros(c, CJ_SHAPE(2), CJ_F64));
    assert_true(cj_newton(c, logistic, &d, &w, 1, NULL));
    assert_near(value_at(w, 0), -1.125, 0.15);
    assert_near(value_at(w, 1), 1.5, 0.1);
    cj_tensor *ratio = cj_exp(cj_matmul(rows(d.x, 0, N), w)), *exact = cj_exp(cj_add_scalar(cj_mul_scalar(source, 1.5), -1.125));
    assert_near(cj_item(cj_mean(cj_abs(cj_sub(ratio, exact)))) / cj_item(cj_mean(exact)), 0, 0.15);
    /* a straight line for a parabola: weighted by the ratios it fits where it will be used */
    cj_tensor *y = cj_add(cj_square(source), cj_mul_scalar(normal(CJ_SHAPE(N)), 0.1)), *truth = cj_square(target), *fit[2];
    cj_tensor *X = rows(d.x, 0, N), *T = rows(d.x, N, 2 * N), *plain = NULL;
    double error[2];
    for (int k = 0; k < 2; k++) { /* the second also drawn towards the first, weakly */
        cj_tensor *p = k ? ratio : cj_ones_like(ratio), *weighted = cj_mul(X, cj_unsqueeze(p, 1));
        cj_tensor *gram = cj_matmul(cj_t(weighted), X), *right = cj_matmul(cj_t(weighted), y);
        if (k) gram = cj_add(gram, cj_mul_scalar(cj_eye(c, 2, CJ_F64), 1)), right = cj_add(right, plain);
        fit[k] = cj_solve(gram, right);
        if (!k) plain = fit[0];
        error[k] = cj_item(cj_mean(cj_square(cj_sub(cj_matmul(T, fit[k]), truth))));
    }
    assert_true(error[1] < 0.6 * error[0]);
    cj_release(w);
    cj_scope_close(s);
}

static void reg_multitask(void **state) /* reg.multitask */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_module *trunk = cj_linear(c, 6, 4), *head[] = { cj_linear(c, 4, 2), cj_linear(c, 4, 3) };
    cj_tensor *x = cj_randn(c, CJ_SHAPE(9, 6)), *w = cj_params_at(cj_module_params(trunk), 0), *g[3], *loss[2];
    for (int k = 0; k < 3; k++) {
        cj_tensor *h = cj_tanh(cj_forward(trunk, x));
        for (int i = 0; i < 2; i++) loss[i] = cj_mean(cj_square(cj_add_scalar(cj_forward(head[i], h), -1)));
        assert_true(cj_grad(k == 2 ? cj_add(loss[0], loss[1]) : loss[k], &w, 1, &g[k]));
    }
    assert_near(distance(g[2], cj_add(g[0], g[1])), 0, 1e-6);
    /* Linear tasks of 30 inputs with 15 examples each: twelve that share two directions, learned with a shared layer or each alone; then twelve that share nothing. */
    enum { D = 30, R = 2, TASKS = 12, FEW = 15, TEST = 200, STEPS = 1000 };
    double error[2][2]; /* related?, shared? */
    for (int related = 0; related < 2; related++) {
        cj_tensor *basis = cj_mul_scalar(cj_randn(c, CJ_SHAPE(R, D)), 1 / sqrt(D)),
                  *truth = related ? cj_matmul(cj_randn(c, CJ_SHAPE(TASKS, R)), basis)
                                   : cj_mul_scalar(cj_randn(c, CJ_SHAPE(TASKS, D)), sqrt((double)R / D));
        cj_tensor *in = cj_randn(c, CJ_SHAPE(TASKS, FEW, D)), *test = cj_randn(c, CJ_SHAPE(TASKS, TEST, D)),
                  *column = cj_unsqueeze(truth, 2);
        cj_tensor *y = cj_add(cj_matmul(in, column), cj_mul_scalar(cj_randn(c, CJ_SHAPE(TASKS, FEW, 1)), 0.3)),
                  *z = cj_matmul(test, column);
        for (int shared = 0; shared < 2; shared++) {
            cj_module *m = cj_sequential(c, cj_linear(c, D, shared ? R : TASKS, .no_bias = true, .init_std = 0.3),
                                         cj_linear(c, R, TASKS, .no_bias = true, .init_std = 0.3));
            cj_params *p = cj_module_params(shared ? m : cj_module_child(m, 0));
            cj_optim *opt = cj_adam(p, .lr = 0.02, .weight_decay = 0.01);
#define WEIGHTS (shared ? cj_matmul(cj_params_at(p, 1), cj_params_at(p, 0)) : cj_params_at(p, 0)) /* [TASKS, D] */
            for (int i = 0; i < STEPS; i++) {
                cj_scope inner = cj_scope_open(c);
                assert_true(cj_minimise(opt, cj_mean(cj_square(cj_sub(cj_matmul(in, cj_unsqueeze(WEIGHTS, 2)), y)))));
                cj_scope_close(inner);
            }
            error[related][shared] = cj_item(cj_mean(cj_square(cj_sub(cj_matmul(test, cj_unsqueeze(WEIGHTS, 2)), z))));
        }
    }
    assert_true(error[1][1] < 0.8 * error[1][0]);
    assert_true(error[0][1] >= 0.95 * error[0][0]);
    cj_scope_close(s);
}

static void reg_dropout_mlp(void **state) /* reg.dropout_mlp */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 150, TEST = 600, STEPS = 40 };
    /* ten noisy patterns of 28 x 28 */
    cj_tensor *pattern = cj_mul_scalar(cj_randn(c, CJ_SHAPE(10, 784)), 0.12), *y = cj_randint(c, 0, 10, CJ_SHAPE(N)),
              *ty = cj_randint(c, 0, 10, CJ_SHAPE(TEST));
    cj_tensor *x = cj_add(cj_index_select(pattern, 0, y), cj_randn(c, CJ_SHAPE(N, 784))),
              *tx = cj_add(cj_index_select(pattern, 0, ty), cj_randn(c, CJ_SHAPE(TEST, 784)));
    double gap[2];
    for (int dropout = 0; dropout < 2; dropout++) {
        cj_module *net =
            cj_sequential(c, cj_flatten_layer(c), cj_linear(c, 784, 512), cj_relu_layer(c), cj_dropout_layer(c, dropout ? 0.5 : 0),
                          cj_linear(c, 512, 512), cj_relu_layer(c), cj_dropout_layer(c, dropout ? 0.5 : 0), cj_linear(c, 512, 10));
        assert_int_equal(cj_params_numel(cj_module_params(net)), 669706);
        cj_tensor *images = cj_reshape(x, CJ_SHAPE(N, 28, 28)), *tests = cj_reshape(tx, CJ_SHAPE(TEST, 28, 28));
        assert_true(same_bits(cj_forward(net, images), cj_forward(net, images)) == !dropout); /* training */
        train(net, images, y, STEPS, 1e-3, NULL);
        cj_module_train(net, false);
        assert_true(same_bits(cj_forward(net, images), cj_forward(net, images)));
        gap[dropout] = cj_item(cj_cross_entropy(cj_forward(net, tests), ty)) - cj_item(cj_cross_entropy(cj_forward(net, images), y));
    }
    assert_true(gap[1] < gap[0]);
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reg_bootstrap),
        cmocka_unit_test(reg_bagging),
        cmocka_unit_test(reg_ensemble_and_distillation),
        cmocka_unit_test(reg_pruning_and_lottery_ticket),
        cmocka_unit_test(reg_transfer),
        cmocka_unit_test(reg_bayes_average),
        cmocka_unit_test(reg_covariate_shift),
        cmocka_unit_test(reg_multitask),
        cmocka_unit_test(reg_dropout_mlp),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
