/* regulariser-gallery: every regulariser of the library on one problem that is easy to overfit: 100 digits, a fifth of them with a wrong label, and 4,810 parameters.
 *
 * Each is held to what it is for: a penalty makes its own quantity smaller, max norm keeps rows inside a ball, pruning leaves the share that was asked for, label
 * smoothing keeps the classifier from being sure; squared penalties and bagging lower the test error, nothing raises it beyond chance.  How much each helps on the test
 * rows is in the picture.
 */
#include "lab/lab.h"

#include <math.h>

enum { ROWS = 100, STEPS = 250 };
enum {
    NOTHING,
    L1,
    L2,
    ELASTIC,
    TIKHONOV,
    SPECTRAL,
    JACOBIAN,
    PRIOR,
    MAX_NORM,
    DROPOUT,
    STANDARD,
    NOISE,
    SPECTRAL_NORM,
    SMOOTHING,
    DISTILLED,
    EARLY,
    PRUNED,
    TICKET,
    AVERAGED,
    BAGGED,
    KINDS
};
static const char *const name[KINDS] = { "none",      "L1",       "L2",      "elastic",  "Tikhonov", "spectral", "Jacobian",
                                         "MAP",       "max norm", "dropout", "std. dr.", "noise",    "sp. norm", "smooth",
                                         "distilled", "early",    "pruned",  "ticket",   "average",  "bagging" };

typedef struct problem {
    cj_ctx *c;
    cj_tensor *x, *y, *test_x, *test_y, *val_x, *val_y;
    cj_module *teacher;
    double strength; /* 1; 0 in the control */
} problem;

typedef struct result {
    cj_module *net;
    double train, test;      /* errors */
    double l1, l2, spectral; /* of the weights */
    double jacobian, sure;   /* mean |dy/dx|² and largest probability on test rows */
    double longest, zeros;   /* row of the first weight; share of weights that are zero */
} result;

static double error_of(cj_tensor *scores, cj_tensor *y)
{
    return 1 - cj_item(cj_mean(cj_cast(cj_eq(cj_argmax(scores, .axes = CJ_AXIS(1)), y), CJ_F32)));
}

static cj_tensor *penalty(const problem *p, int kind, cj_module *net)
{
    const cj_params *w = cj_module_params(net);
    double s = p->strength;
    switch (kind) {
    case L1: return cj_mul_scalar(cj_l1_penalty(w), 5e-3 * s);
    case L2: return cj_mul_scalar(cj_l2_penalty(w), 1e-2 * s);
    case ELASTIC: return cj_elastic_net_penalty(w, 2e-3 * s, 5e-3 * s);
    case TIKHONOV: return cj_tikhonov_penalty(w, 2e-2 * s);
    case SPECTRAL: return cj_spectral_penalty(w, 0.1 * s);
    case JACOBIAN: return cj_mul_scalar(cj_jacobian_penalty(net, cj_slice(p->x, 0, 0, 20, 1)), 1e-2 * s);
    case PRIOR: /* every weight normal with deviation 0.7, of a mean over ROWS examples */
        if (s == 0) return NULL;
        return cj_mul_scalar(cj_prior_penalty(w, cj_dist_normal(cj_scalar(p->c, 0), cj_scalar(p->c, 0.7))), 1.0 / ROWS);
    default: return NULL;
    }
}

static cj_tensor *loss_of(const problem *p, int kind, cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_tensor *scores = cj_forward(net, x), *extra = penalty(p, kind, net);
    if (kind == DISTILLED && p->strength > 0) return cj_distillation_loss(scores, cj_detach(cj_forward(p->teacher, x)), y);
    cj_tensor *loss = cj_cross_entropy(scores, y, .label_smoothing = kind == SMOOTHING ? 0.2 * p->strength : 0);
    return extra ? cj_add(loss, extra) : loss;
}

static cj_module *network(const problem *p, int kind)
{
    cj_ctx *c = p->c;
    cj_module *first = cj_linear(c, 64, 64), *second = cj_linear(c, 64, 10), *middle = cj_relu_layer(c);
    if (kind == DROPOUT) return cj_sequential(c, first, middle, cj_dropout_layer(c, p->strength > 0 ? 0.5 : 0), second);
    if (kind == STANDARD) return cj_sequential(c, first, middle, cj_dropout_layer(c, p->strength > 0 ? 0.5 : 0, .standard = true), second);
    if (kind == SPECTRAL_NORM && p->strength > 0)
        return cj_sequential(c, cj_spectral_norm_layer(first), middle, cj_spectral_norm_layer(second));
    if (kind == NOISE) return cj_sequential(c, cj_noise_layer(c, 0.3 * p->strength), first, middle, second);
    return cj_sequential(c, first, middle, second);
}

static void train(const problem *p, int kind, cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_ctx *c = p->c;
    cj_params *w = cj_module_params(net);
    cj_optim *opt = cj_adam(w, .lr = 0.01);
    cj_early_stop *early = kind == EARLY ? cj_early_stop_new(w, 20) : NULL;
    cj_pruning *pruning = kind == PRUNED || kind == TICKET ? cj_pruning_new(w) : NULL;
    cj_average *average = kind == AVERAGED ? cj_average_new(w) : NULL;
    for (int t = 0; t < STEPS && cj_ok(c); t++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(opt, loss_of(p, kind, net, x, y));
        if (kind == MAX_NORM && p->strength > 0) cj_max_norm_(cj_params_at(w, 0), 0.6);
        if (average && t >= STEPS / 2) cj_average_update(average);
        if (pruning && t == STEPS / 2 && p->strength > 0) { /* the ticket begins again at its first weights, the pruned net goes on */
            cj_pruning_prune(pruning, 0.2);
            if (kind == TICKET) cj_pruning_rewind(pruning);
        }
        if (pruning && t > STEPS / 2) cj_pruning_apply(pruning);
        bool stop = early && cj_early_stop_update(early, cj_item(cj_cross_entropy(cj_forward(net, p->val_x), p->val_y)));
        cj_scope_close(s);
        if (stop && p->strength > 0) break;
    }
    if (early && p->strength > 0) cj_early_stop_restore(early);
    if (average) cj_average_swap_in(average);
    cj_optim_free(opt);
}

static void measure(const problem *p, result *r)
{
    cj_ctx *c = p->c;
    cj_scope s = cj_scope_open(c);
    cj_params *w = cj_module_params(r->net);
    cj_tensor *first = cj_detach(cj_params_at(w, 0));
    cj_module_train(r->net, false);
    r->train = error_of(cj_forward(r->net, p->x), p->y);
    r->test = error_of(cj_forward(r->net, p->test_x), p->test_y);
    r->l1 = cj_item(cj_l1_penalty(w));
    r->l2 = cj_item(cj_l2_penalty(w));
    r->spectral = cj_item(cj_spectral_penalty(w, 1));
    r->jacobian = cj_item(cj_jacobian_penalty(r->net, cj_slice(p->test_x, 0, 0, 100, 1)));
    r->sure = cj_item(cj_mean(cj_max(cj_softmax(cj_forward(r->net, p->test_x), 1), .axes = CJ_AXIS(1))));
    r->longest = sqrt(cj_item(cj_max(cj_sum(cj_square(first), .axes = CJ_AXIS(1)))));
    r->zeros = cj_item(cj_mean(cj_cast(cj_eq_scalar(first, 0), CJ_F32)));
    cj_scope_close(s);
}

/* Eleven networks, each on its own draw of the rows with replacement; the mean of their probabilities decides. */
static void bagging(const problem *p, result *r)
{
    cj_ctx *c = p->c;
    cj_module *member[11];
    int n = p->strength > 0 ? 11 : 1;
    for (int k = 0; k < n && cj_ok(c); k++) {
        cj_tensor *index = cj_bootstrap(c, ROWS), *x = cj_keep(cj_index_select(p->x, 0, index)),
                  *y = cj_keep(cj_index_select(p->y, 0, index));
        member[k] = network(p, NOTHING);
        train(p, NOTHING, member[k], x, y);
    }
    if (!cj_ok(c)) return;
    r->net = cj_ensemble_layer(c, member, n, .probabilities = true);
    r->train = error_of(cj_forward(r->net, p->x), p->y);
    r->test = error_of(cj_forward(r->net, p->test_x), p->test_y);
}

static void draw(cj_ctx *c, cj_lab_record *r, const result *of)
{
    double train_error[KINDS], test_error[KINDS];
    for (int k = 0; k < KINDS; k++) train_error[k] = 100 * of[k].train, test_error[k] = 100 * of[k].test;
    cj_plot *p = cj_plot_new(c, "100 digits with 20 wrong labels, 4,810 parameters: errors with each regulariser");
    cj_plot_size(p, 1500, 640);
    cj_plot_labels(p, "", "error in %");
    cj_plot_bars(p, "training rows", name, train_error, KINDS);
    cj_plot_bars(p, "test rows", name, test_error, KINDS);
    cj_lab_picture(r, c, p, "regulariser-gallery");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.5);
    problem p = { .c = c, .strength = control ? 0 : 1, .test_x = d->test_x, .test_y = d->test_y };
    p.x = cj_keep(cj_clone(cj_slice(d->train_x, 0, 0, ROWS, 1)));
    int64_t label[ROWS] = { 0 };
    cj_to_i64(cj_slice(d->train_y, 0, 0, ROWS, 1), label, ROWS);
    for (int i = 0; i < ROWS; i += 5) label[i] = (label[i] + 1 + i % 9) % 10; /* wrong on purpose */
    p.y = cj_keep(cj_from_i64(c, label, CJ_SHAPE(ROWS)));
    p.val_x = cj_keep(cj_clone(cj_slice(d->train_x, 0, ROWS, 3 * ROWS, 1)));
    p.val_y = cj_keep(cj_clone(cj_slice(d->train_y, 0, ROWS, 3 * ROWS, 1)));
    p.teacher = network(&p, NOTHING); /* has seen the other rows of the training part */
    train(&p, NOTHING, p.teacher, d->train_x, d->train_y);
    static result of[KINDS];
    for (int k = 0; k < BAGGED && cj_ok(c); k++) {
        of[k].net = network(&p, k);
        train(&p, k, of[k].net, p.x, p.y);
        measure(&p, &of[k]);
    }
    bagging(&p, &of[BAGGED]);
    if (!cj_ok(c)) return;
    const result *plain = &of[NOTHING];
    for (int k = 0; k < KINDS; k++)
        cj_lab_say(r, "%-10s error on training rows %5.1f %%, on test rows %5.1f %%", name[k], 100 * of[k].train, 100 * of[k].test);
    cj_lab_expect(r, "without: training error", 0, plain->train, 1e-12);
    cj_lab_expect_at_least(r, "L1: sum |w| without it over with it", 1.5, plain->l1 / of[L1].l1);
    cj_lab_expect_at_least(r, "L2: sum w² without it over with it", 1.5, plain->l2 / of[L2].l2);
    cj_lab_expect_at_least(r, "elastic net: sum |w| without it over with it", 1.3, plain->l1 / of[ELASTIC].l1);
    cj_lab_expect_at_least(r, "Tikhonov: sum w² without it over with it", 1.5, plain->l2 / of[TIKHONOV].l2);
    cj_lab_expect_at_least(r, "spectral: squared singular values without it over with it", 1.5, plain->spectral / of[SPECTRAL].spectral);
    cj_lab_expect_at_least(r, "Jacobian: mean |dy/dx|² on test rows without it over with it", 1.5, plain->jacobian / of[JACOBIAN].jacobian);
    cj_lab_expect_at_least(r, "normal prior: sum w² without it over with it", 1.5, plain->l2 / of[PRIOR].l2);
    cj_lab_expect_at_least(r, "max norm 0.6: how far the longest row stays below it", -1e-6, 0.6 - of[MAX_NORM].longest);
    cj_lab_expect_at_least(r, "spectral norm of both layers: mean |dy/dx|² on test rows without it over with it", 1.5,
                           plain->jacobian / of[SPECTRAL_NORM].jacobian);
    cj_lab_expect_at_least(r, "label smoothing: how much less sure of itself", 0.05, plain->sure - of[SMOOTHING].sure);
    cj_lab_expect(r, "pruned: share of the first weight that is zero", 0.8, of[PRUNED].zeros, 1.0 / 4096);
    cj_lab_expect(r, "lottery ticket: share of the first weight that is zero", 0.8, of[TICKET].zeros, 1.0 / 4096);
    /* 898 test rows: the difference of two error rates near 30 % has a deviation of at most 2.2 % */
    for (int k = L1; k < KINDS; k++)
        cj_lab_expect_at_least(r, name[k], (k >= L2 && k <= PRIOR) || k == BAGGED ? 0.03 : -0.065, plain->test - of[k].test);
    cj_lab_expect_at_least(r, "a teacher that has seen more rows and right labels: test error less", 0.15,
                           plain->test - of[DISTILLED].test);
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, of);
}

const cj_lab cj_lab_regulariser_gallery = {
    .name = "regulariser-gallery",
    .claim = "every regulariser makes the quantity it is for smaller, and none costs more test error than three deviations of the count of "
             "errors",
    .source = "Tikhonov 1943; Tibshirani 1996; Srivastava et al. 2014; Yoshida & Miyato 2017; Frankle & Carbin 2019; Breiman 1996; Hinton "
              "et al. 2015",
    .control = "all strengths are zero",
    .run = run,
};
