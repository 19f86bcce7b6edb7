/* What an experienced eye looks at before a long training: the initial loss, whether a handful of examples can be learned by heart, the learning rate, the size of updates, units
 * that never move, gradients that vanish or explode on their way.
 *
 * Each finding is a number, the range that is healthy, and what to do outside of it.  Every check begins with a fresh network.
 */
#include <math.h>
#include <stdio.h>

#include "train/train.h"

typedef struct patient {
    cj_ctx *ctx;
    cj_module *(*make)(void *user);
    void *user;
    const cj_examples *e;
    cj_diagnose_opts o;
    cj_module *net;
    cj_optim *optim;
} patient;

static bool open_net(patient *b, double lr)
{
    b->net = b->make(b->user);
    if (!b->net && b->ctx->error == CJ_OK) cj__error(b->ctx, CJ_EVALUE, "diagnose: the function that makes the network gave none");
    b->optim = b->net ? cj_adam(cj_module_params(b->net), &(cj_adam_opts){ .lr = lr }) : NULL;
    return b->ctx->error == CJ_OK;
}

static void close_net(patient *b)
{
    cj_optim_free(b->optim);
    b->optim = NULL;
}

/* The loss of the examples number at, at+1, … of the data, wrapping around. */
static cj_tensor *loss_of(patient *b, int64_t at, int64_t n)
{
    cj_ctx *c = b->ctx;
    cj_tensor *x, *y, *index = cj_arange(c, (double)at, (double)(at + n), 1, CJ_I64);
    index = cj_remainder(index, cj_full(c, (double)b->e->n, CJ_SCALAR, CJ_I64));
    if (!b->e->batch(c, b->e, 0, index, &x, &y)) return c->poison;
    const cj_model *m = b->o.model;
    return m && m->loss ? m->loss(b->net, x, y) : cj_task_loss(b->o.task, cj_forward(b->net, x), y);
}

static double loss_value(patient *b, int64_t n)
{
    cj_scope s = cj_scope_open(b->ctx);
    bool was = cj_no_grad(b->ctx);
    double v = cj_item(loss_of(b, 0, n));
    cj_grad_mode(b->ctx, was);
    cj_scope_close(s);
    return v;
}

static double norm_of(cj_tensor *t) { return cj_item(cj_norm(t, 2, NULL)); }

/* Steps over batches of n examples, each batch `stride` examples after the one before. */
static bool steps(patient *b, int64_t count, int64_t n, int64_t stride)
{
    for (int64_t i = 0; i < count && cj_ok(b->ctx); i++) {
        cj_scope s = cj_scope_open(b->ctx);
        cj_minimise(b->optim, loss_of(b, i * stride, n));
        cj_scope_close(s);
    }
    return b->ctx->error == CJ_OK;
}

/* ---- the checks ------------------------------------------------------------------------------------------------------------------------------- */

static cj_finding finding(const char *what, double found, double low, double high, const char *too_low, const char *too_high)
{
    cj_finding f = { .what = what, .found = found, .low = low, .high = high, .healthy = found >= low && found <= high };
    f.advice = f.healthy ? "" : found < low ? too_low : too_high; /* NaN: too high */
    return f;
}

static cj_finding initial_loss(patient *b, int64_t n)
{
    double classes = log((double)b->o.classes), found = open_net(b, b->o.lr) ? loss_value(b, n) : NAN;
    close_net(b);
    return finding("initial loss / log(classes)", found / classes, 0.75, 1.5,
                   "the network knows something before it learned: does the target leak into the input?",
                   "the first outputs are too large: scale the inputs, or make the initial weights of the last layer smaller");
}

/* Without dropout: the module is in evaluation mode. */
static cj_finding learns_by_heart(patient *b)
{
    int64_t few = b->e->n < 16 ? b->e->n : 16;
    double first = NAN, last = NAN;
    if (open_net(b, b->o.lr)) {
        cj_module_train(b->net, false);
        first = loss_value(b, few);
        if (steps(b, b->o.steps * 4, few, 0)) last = loss_value(b, few);
    }
    close_net(b);
    return finding("loss of 16 examples learned by heart / before", last / first, 0, 0.1, "",
                   "even 16 examples cannot be learned: is a gradient missing, are inputs and targets matched, is the network too small, "
                   "the rate too low?");
}

static cj_finding rate(patient *b, int64_t n)
{
    double first = NAN, last = NAN;
    if (open_net(b, b->o.lr)) {
        first = loss_value(b, n);
        if (steps(b, b->o.steps, n, n)) last = loss_value(b, n);
    }
    close_net(b);
    double ratio = last / first;
    cj_finding f =
        finding("loss after some steps / before", ratio, 0, 0.97, "", "the loss hardly moves: a larger lr, or better initial weights");
    if (!(ratio <= 1.5)) f.advice = "the loss explodes: a smaller lr, or clip=1";
    return f;
}

/* ‖w after a step - w‖ / ‖w‖ of the weight matrices: the smallest and the largest. */
static bool update_ratios(patient *b, int64_t n, double *least, double *most)
{
    *least = INFINITY, *most = 0;
    if (!open_net(b, b->o.lr) || !steps(b, b->o.steps / 2, n, n)) return close_net(b), false;
    cj_scope s = cj_scope_open(b->ctx);
    cj_params *p = cj_module_params(b->net);
    int count = cj_params_count(p);
    cj_tensor **before = cj__zalloc(b->ctx, (size_t)count * sizeof *before);
    bool ok = before != NULL, was = cj_no_grad(b->ctx);
    for (int i = 0; i < count && ok; i++) before[i] = cj_clone(cj_params_at(p, i));
    cj_grad_mode(b->ctx, was);
    if (ok) cj_minimise(b->optim, loss_of(b, 0, n));
    cj_no_grad(b->ctx);
    for (int i = 0; i < count && ok; i++) {
        if (cj_ndim(before[i]) < 2) continue;
        double change = norm_of(cj_sub(cj_params_at(p, i), before[i])), size = norm_of(before[i]);
        double ratio = size > 0 ? change / size : 0;
        if (ratio < *least) *least = ratio;
        if (!(ratio <= *most)) *most = ratio;
    }
    cj_grad_mode(b->ctx, was);
    if (before) cj__free(b->ctx, before, (size_t)count * sizeof *before);
    cj_scope_close(s);
    close_net(b);
    return b->ctx->error == CJ_OK;
}

/* Over some batches: the share of rows of weight matrices whose gradient is exactly 0 every time, and the gradient's size in the first matrix relative to the last. */
static bool gradients(patient *b, int64_t n, double *dead, double *flow)
{
    enum { BATCHES = 4 };
    *dead = *flow = NAN;
    if (!open_net(b, b->o.lr) || !steps(b, b->o.steps, n, n)) return close_net(b), false;
    cj_scope s = cj_scope_open(b->ctx);
    cj_params *p = cj_module_params(b->net);
    double rows = 0, still = 0, first = 0, last = 0;
    for (int i = 0; i < cj_params_count(p) && cj_ok(b->ctx); i++) {
        cj_tensor *w = cj_params_at(p, i), *moved = NULL;
        if (cj_ndim(w) < 2) continue;
        double sum = 0;
        for (int k = 0; k < BATCHES && cj_ok(b->ctx); k++) {
            cj_tensor *g;
            if (!cj_grad(loss_of(b, k * n, n), &w, 1, &g, &(cj_grad_opts){ .allow_unused = true })) break;
            if (!g) continue;
            bool was = cj_no_grad(b->ctx);
            cj_tensor *row = cj_sum(cj_reshape(cj_abs(g), CJ_SHAPE(cj_size(w, 0), -1)), &(cj_reduce_opts){ .axes = CJ_AXIS(1) });
            moved = moved ? cj_add(moved, row) : row;
            sum += norm_of(g) / sqrt((double)cj_numel(g));
            cj_grad_mode(b->ctx, was);
        }
        if (!moved) continue;
        rows += (double)cj_size(w, 0);
        still += cj_item(cj_sum(cj_eq(moved, cj_zeros_like(moved)), NULL));
        if (first == 0) first = sum;
        last = sum;
    }
    cj_scope_close(s);
    close_net(b);
    *dead = rows > 0 ? still / rows : 0;
    *flow = last > 0 ? first / last : NAN;
    return b->ctx->error == CJ_OK;
}

int cj_diagnose(cj_ctx *c, cj_module *(*make)(void *user), void *user, const cj_examples *e, cj_finding *out, int room,
                const cj_diagnose_opts *opts)
{
    if (!c || !cj__cancel_check(c)) return -1;
    patient b = { .ctx = c, .make = make, .user = user, .e = e, .o = opts ? *opts : (cj_diagnose_opts){ 0 } };
    if (!make || !e || e->n < 1) return cj__error(c, CJ_EVALUE, "diagnose: there is no network or no example"), -1;
    if (b.o.lr == 0) b.o.lr = 1e-3;
    if (b.o.steps == 0) b.o.steps = 30;
    if (b.o.batch == 0) b.o.batch = 32;
    int64_t n = b.o.batch < e->n ? b.o.batch : e->n;
    cj_finding f[8];
    int k = 0;
    if (b.o.classes > 1 && b.o.task != CJ_TASK_REGRESS) f[k++] = initial_loss(&b, n);
    f[k++] = learns_by_heart(&b);
    f[k++] = rate(&b, n);
    double low, high, dead, flow;
    if (update_ratios(&b, n, &low, &high)) {
        f[k++] =
            finding("smallest update / weight", low, 1e-5, 0.3, "some layer hardly learns: a larger lr", "updates are huge: a smaller lr");
        f[k++] =
            finding("largest update / weight", high, 1e-4, 0.3, "the network hardly learns: a larger lr", "updates are huge: a smaller lr");
    }
    if (gradients(&b, n, &dead, &flow)) {
        f[k++] = finding("share of units without a gradient", dead, 0, 0.4, "",
                         "many units are dead: a smaller lr, leaky_relu, or other initial weights");
        f[k++] = finding("gradient of the first layer / the last", flow, 1e-3, 1e3,
                         "gradients vanish on their way: other initial weights, normalisation, residual connections",
                         "gradients explode on their way: clip=1, or smaller initial weights");
    }
    if (c->error) return -1;
    for (int i = 0; i < k && i < room; i++) out[i] = f[i];
    return k;
}

/* ---- the learning rate ------------------------------------------------------------------------------------------------------------------------------ */

double cj_lr_find(cj_ctx *c, cj_module *(*make)(void *user), void *user, const cj_examples *e, cj_lr_trial *trial, int n,
                  const cj_diagnose_opts *opts)
{
    if (!c || !cj__cancel_check(c)) return NAN;
    patient b = { .ctx = c, .make = make, .user = user, .e = e, .o = opts ? *opts : (cj_diagnose_opts){ 0 } };
    if (!make || !e || e->n < 1 || !trial || n < 1) return cj__error(c, CJ_EVALUE, "lr_find: there is no network, example or rate"), NAN;
    if (b.o.steps == 0) b.o.steps = 30;
    if (b.o.batch == 0) b.o.batch = 32;
    int64_t size = b.o.batch < e->n ? b.o.batch : e->n;
    int best = -1;
    for (int i = 0; i < n; i++) {
        double first = NAN, last = NAN;
        bool opened = open_net(&b, trial[i].lr);
        if (opened && b.o.gradient_descent) {
            close_net(&b);
            b.optim = cj_sgd(cj_module_params(b.net), &(cj_sgd_opts){ .lr = trial[i].lr });
            opened = b.optim != NULL;
        }
        if (opened) {
            first = loss_value(&b, size);
            if (steps(&b, b.o.steps, size, size)) last = loss_value(&b, size);
        }
        close_net(&b);
        if (c->error) return NAN;
        trial[i].loss = last;
        trial[i].kind = !(last <= 3 * first) ? CJ_LR_EXPLODES : last > 0.95 * first ? CJ_LR_SLOW : CJ_LR_GOOD;
        if (trial[i].kind == CJ_LR_GOOD && (best < 0 || last < trial[best].loss)) best = i;
    }
    return best < 0 ? NAN : trial[best].lr;
}
