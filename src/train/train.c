/* The training loop.
 *
 *     for every step: a batch in the epoch's order, the loss, its gradients, the update;   now and then: evaluate, log a line, write a checkpoint
 *
 * Which examples a step sees, which evaluation and which line of the log follow it are functions of the step alone; clocks decide only when a checkpoint is
 * written and when progress is reported.  So a run that is killed and resumed computes what it would have computed.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "train/train.h"

typedef struct loop {
    cj_ctx *ctx;
    cj_module *module;
    const cj_examples *train;
    cj_train_opts o;
    int64_t per_epoch, total;
    cj_optim *optim[CJ_MAX_PARTS]; /* one, or one for each of the model's parts */
    int optims;
    cj_average *average; /* of the parameters, where ema asks for it */
    cj_plan *plan;
    int uncompiled; /* steps of the plan so far, up to the first compiled one */
    int traced;     /* steps taken before the plan was compiled */
    cj_snapshot k;
    cj_tensor **state, **best; /* parameters and buffers, and their copies at the best evaluation */
    int states;
    int64_t *order;   /* of the epoch that `index` holds */
    cj_tensor *index; /* i64 [n], persistent */
    int64_t index_epoch;
    int log; /* metrics.jsonl, or -1 */
    cj_events *events;
    double started, reported, saved_at;
    double aside; /* seconds of evaluations and checkpoints since the start */
    int64_t first_step;
    bool cancelled;
} loop;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cj_usual_lr(cj_optimiser kind)
{
    switch (kind) {
    case CJ_SGD: return 0.1;
    case CJ_MOMENTUM:
    case CJ_NESTEROV:
    case CJ_RMSPROP:
    case CJ_ADAGRAD: return 0.01;
    case CJ_NADAM:
    case CJ_ADAMAX: return 2e-3;
    case CJ_LION: return 1e-4;
    case CJ_ADADELTA: return 1;
    default: return 1e-3;
    }
}

double cj_schedule_lr(cj_schedule kind, double lr, int64_t step, int64_t steps, int64_t warmup)
{
    if (step < warmup) return lr * (double)(step + 1) / (double)warmup;
    if (kind == CJ_CONSTANT || steps <= warmup) return lr;
    int64_t t = step - warmup, n = steps - warmup;
    double share = (double)t / (double)n;
    cj_rate r;
    switch (kind) {
    case CJ_LINEAR: return lr * (1 - share);
    case CJ_STEPS: r = cj_rate_step(lr, (n + 2) / 3, 0.1); break;
    case CJ_EXPONENTIAL: return lr * pow(0.01, share);
    case CJ_ONE_CYCLE: r = cj_rate_one_cycle(lr, n, NULL); break;
    case CJ_RESTARTS: r = cj_rate_cosine_restarts(lr, 0, (n + 6) / 7, 2); break; /* 1 + 2 + 4 parts */
    default: return lr * 0.5 * (1 + cos(3.14159265358979323846 * share));
    }
    return n < 4 ? lr : cj_rate_at(&r, t); /* so few steps have no cycle */
}

/* ---- one step ------------------------------------------------------------------------------------------------------------------------------------ */

static cj_tensor *loss_of(loop *l, cj_tensor *x, cj_tensor *y)
{
    if (l->o.loss) return l->o.loss(l->module, x, y);
    cj_tensor *prediction = cj_forward(l->module, x);
    if (l->o.label_smoothing > 0) return cj_cross_entropy(prediction, y, &(cj_loss_opts){ .label_smoothing = l->o.label_smoothing });
    return cj_task_loss(l->o.task, prediction, y);
}

/* The batch part by part, each with its share of the examples: the mean of all, and its gradients, without holding more than a part's activations. */
static cj_tensor *accumulated(loop *l, cj_tensor *x, cj_tensor *y)
{
    int64_t n = cj_size(x, 0), parts = l->o.accumulate < n ? l->o.accumulate : n;
    cj_tensor *sum = NULL;
    for (int64_t k = 0; k < parts && cj_ok(l->ctx); k++) {
        int64_t from = k * n / parts, to = (k + 1) * n / parts;
        double share = (double)(to - from) / (double)n;
        cj_tensor *part = loss_of(l, cj_slice(x, 0, from, to, 1), cj_slice(y, 0, from, to, 1));
        cj_tensor *term = cj_mul_scalar(cj_detach(part), share);
        sum = sum ? cj_add(sum, term) : term;
        cj_accumulate(l->optim[0], part, share);
    }
    cj_step(l->optim[0]);
    return sum;
}

static void step_fn(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    loop *l = user;
    const cj_model *m = l->o.model;
    if (m && m->step) {
        out[0] = m->step(l->module, l->optim, in[0], in[1]);
        return;
    }
    if (l->o.accumulate > 1) {
        out[0] = accumulated(l, in[0], in[1]);
    } else {
        out[0] = loss_of(l, in[0], in[1]);
        cj_minimise(l->optim[0], out[0]);
    }
    if (l->average) cj_average_update(l->average);
}

/* All rows at once, and the loss that the solution has. */
static void fit(loop *l, cj_tensor *const *xy, cj_tensor **loss)
{
    bool was = cj_no_grad(l->ctx);
    if (l->o.model->fit(l->module, xy[0], xy[1]))
        *loss = l->o.loss ? l->o.loss(l->module, xy[0], xy[1]) : cj_task_loss(l->o.task, cj_forward(l->module, xy[0]), xy[1]);
    cj_grad_mode(l->ctx, was);
}

/* The order of an epoch as a tensor where the data is. */
static bool open_epoch(loop *l, int64_t epoch)
{
    if (l->index_epoch == epoch) return true;
    cj_ctx *c = l->ctx;
    cj_scope s = cj_scope_open(c);
    cj_data_order(c->rng.seed, epoch, l->train->n, l->order);
    cj_tensor *t = cj_from_i64(c, l->order, CJ_SHAPE(l->train->n));
    if (l->index) cj_assign_(l->index, t);
    else l->index = cj_keep(cj_clone(t));
    cj_scope_close(s);
    if (c->error) return false;
    l->index_epoch = epoch;
    return true;
}

static bool make_batch(loop *l, cj_tensor *xy[2])
{
    int64_t epoch = l->k.state.step / l->per_epoch, at = l->k.state.step % l->per_epoch * l->o.batch;
    int64_t end = at + l->o.batch < l->train->n ? at + l->o.batch : l->train->n;
    return open_epoch(l, epoch) && l->train->batch(l->ctx, l->train, epoch, cj_slice(l->index, 0, at, end, 1), &xy[0], &xy[1]);
}

static bool compute(loop *l, cj_tensor **loss)
{
    cj_ctx *c = l->ctx;
    cj_tensor *xy[2];
    double lr = cj_schedule_lr(l->o.schedule, l->o.lr, l->k.state.step, l->total, l->o.warmup);
    for (int i = 0; i < l->optims; i++)
        if (lr != cj_optim_lr(l->optim[i])) cj_optim_set_lr(l->optim[i], lr);
    if (!make_batch(l, xy)) return false;
    const cj_model *m = l->o.model;
    c->whole = (m && m->step) || l->average || l->o.accumulate > 1; /* several updates: all or none */
    if (m && m->fit) fit(l, xy, loss);
    else if (l->o.eager) step_fn(c, l, xy, loss);
    else if (!l->plan) l->plan = cj_capture(c, step_fn, l, xy, 2, loss);
    else cj_replay(l->plan, xy, loss);
    c->whole = false;
    return c->error == CJ_OK;
}

/* Cancelled in the middle: either the update was done, and the step counts, or nothing has changed but the random state. */
static bool settle(loop *l, const cj_rng_state *before, cj_tensor *loss)
{
    l->cancelled = true;
    cj_clear(l->ctx);
    if (cj_optim_steps(l->optim[0]) == l->k.state.step) {
        cj_rng_set(l->ctx, *before);
        return false;
    }
    cj_add_(l->k.loss_sum, loss, 1);
    return cj_ok(l->ctx);
}

/* The first parameter with a value that is not finite (0·x is 0 for all others); NULL: there is none. */
static const char *broken_parameter(loop *l)
{
    cj_params *p = cj_module_params(l->module);
    for (int i = 0; i < cj_params_count(p); i++)
        if (isnan(cj_item(cj_sum(cj_mul_scalar(cj_detach(cj_params_at(p, i)), 0), NULL)))) return cj_params_name(p, i);
    return NULL;
}

/* The loss of the next step is not finite. Without a checkpoint there is only that to say; with one, the steps since then are done again under watch. */
static bool diverged(loop *l, double loss)
{
    cj_ctx *c = l->ctx;
    int64_t step = l->k.state.step;
    double lr = cj_optim_lr(l->optim[0]);
    char where[CJ_MAX_MESSAGE] = "";
    if (l->o.folder && l->k.last.number > 0 && cj__checkpoint_load(c, l->o.folder, &l->k) >= 0) {
        cj_rng_set(c, l->k.state.rng);
        l->o.eager = true;
        cj_watch_nonfinite(c, true);
        for (bool ok = true; ok && l->k.state.step <= step; l->k.state.step++) {
            cj_scope s = cj_scope_open(c);
            cj_tensor *again[CJ_MAX_PLAN_OUTPUTS] = { NULL };
            ok = compute(l, again);
            const char *name = ok ? broken_parameter(l) : NULL;
            if (name) ok = cj__error(c, CJ_EVALUE, "the update of parameter %s in step %lld", name, (long long)l->k.state.step + 1);
            cj_scope_close(s);
        }
        cj_watch_nonfinite(c, false);
        if (cj_error(c) == CJ_ECANCELLED) return false;
        char message[CJ_MAX_MESSAGE];
        if (cj__error_take(c, message) == CJ_EVALUE) snprintf(where, sizeof where, " It began in %.*s.", CJ_MAX_MESSAGE - 16, message);
    }
    return cj__error(c, CJ_EVALUE, "the loss of step %lld is %s.%s Try a smaller lr than %g, clip=1, or look for odd values in the data%s",
                     (long long)step + 1, isnan(loss) ? "not a number" : "infinite", where, lr,
                     l->o.folder ? "; the last checkpoint is as it was" : "");
}

/* Reading the loss waits for a device: there it is looked at now and then. */
static bool loss_is_finite(loop *l, cj_tensor *loss)
{
    if (l->ctx->backend && l->k.state.step % 50 != 0) return true;
    double value = cj_item(loss);
    return isfinite(value) || (l->ctx->error == CJ_OK && diverged(l, value));
}

static bool one_step(loop *l)
{
    cj_ctx *c = l->ctx;
    cj_scope s = cj_scope_open(c);
    cj_rng_state before = cj_rng_get(c);
    cj_tensor *loss[CJ_MAX_PLAN_OUTPUTS] = { NULL };
    bool ok = compute(l, loss) && loss_is_finite(l, loss[0]) && !cj_is_poison(cj_add_(l->k.loss_sum, loss[0], 1));
    if (!ok && cj_error(c) == CJ_ECANCELLED) ok = settle(l, &before, loss[0]);
    cj_scope_close(s);
    if (ok) l->k.state.step++;
    return ok;
}

/* ---- metrics ---------------------------------------------------------------------------------------------------------------------------------------- */

/* Opens metrics.jsonl, whose lock says that somebody trains here. */
static bool open_log(loop *l)
{
    char path[CJ_MAX_RUN_PATH];
    if (!cj__run_path(l->ctx, l->o.folder, "metrics.jsonl", path)) return false;
    l->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (l->log < 0) return cj__error(l->ctx, CJ_EFILE, "%s: %s", path, strerror(errno));
    if (flock(l->log, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return cj__error(l->ctx, CJ_ESTATE, "another process is training in %s", l->o.folder);
    return true;
}

/* Lines after the checkpoint will be written again. */
static bool cut_log(loop *l)
{
    struct stat st;
    if (fstat(l->log, &st) < 0 || (st.st_size > l->k.state.metrics_bytes && ftruncate(l->log, l->k.state.metrics_bytes) < 0))
        return cj__error(l->ctx, CJ_EFILE, "%s/metrics.jsonl: %s", l->o.folder, strerror(errno));
    if (st.st_size < l->k.state.metrics_bytes)
        return cj__error(l->ctx, CJ_EFILE, "%s/metrics.jsonl: %lld bytes were expected, %lld were found", l->o.folder,
                         (long long)l->k.state.metrics_bytes, (long long)st.st_size);
    return true;
}

static int put(char *out, size_t n, const char *key, double value)
{
    char number[32] = "null";
    if (isfinite(value)) cj__plain_point(number, snprintf(number, sizeof number, "%.9g", value));
    return snprintf(out, n, ",\"%s\":%s", key, number);
}

static bool log_events(loop *l)
{
    const cj_train_state *s = &l->k.state;
    if (!l->events) return true;
    bool ok = cj_events_scalar(l->events, "loss/train", s->step, s->train_loss) &&
              cj_events_scalar(l->events, "lr", s->step, cj_optim_lr(l->optim[0]));
    if (l->o.val) ok = ok && cj_events_scalar(l->events, "loss/val", s->step, s->val.loss);
    if (l->o.val && !isnan(s->val.accuracy)) ok = ok && cj_events_scalar(l->events, "accuracy/val", s->step, s->val.accuracy);
    return ok;
}

/* One complete line with one write. */
static bool log_line(loop *l)
{
    const cj_train_state *s = &l->k.state;
    if (l->log < 0) return true;
    char line[512];
    size_t n = (size_t)snprintf(line, sizeof line, "{\"step\":%lld", (long long)s->step);
    n += (size_t)put(line + n, sizeof line - n, "epoch", (double)s->step / (double)l->per_epoch);
    n += (size_t)put(line + n, sizeof line - n, "lr", cj_schedule_lr(l->o.schedule, l->o.lr, s->step - 1, l->total, l->o.warmup));
    n += (size_t)put(line + n, sizeof line - n, "loss", s->train_loss);
    if (l->o.val) n += (size_t)put(line + n, sizeof line - n, "val_loss", s->val.loss);
    if (l->o.val && !isnan(s->val.accuracy)) n += (size_t)put(line + n, sizeof line - n, "val_accuracy", s->val.accuracy);
    n += (size_t)snprintf(line + n, sizeof line - n, "}\n");
    ssize_t done = write(l->log, line, n);
    if (done == (ssize_t)n) {
        l->k.state.metrics_bytes += done;
        return true;
    }
    int why = done < 0 ? errno : ENOSPC;
    if (done > 0) (void)!ftruncate(l->log, s->metrics_bytes); /* never half a line */
    return cj__error(l->ctx, CJ_EFILE, "%s/metrics.jsonl: %s", l->o.folder, strerror(why));
}

/* ---- reporting -------------------------------------------------------------------------------------------------------------------------------------- */

static double running_loss(loop *l)
{
    int64_t n = l->k.state.step - l->k.state.logged;
    return n > 0 ? cj_item(l->k.loss_sum) / (double)n : l->k.state.train_loss;
}

static double rate(const loop *l)
{
    double seconds = now() - l->started - l->aside;
    return seconds > 0 ? (double)(l->k.state.step - l->first_step) * (double)l->o.batch / seconds : 0;
}

static void report(loop *l, const cj_metrics *val, const char *saved, const char *resumed)
{
    if (!l->o.progress) return;
    double t = now();
    if (!val && !saved && !resumed && t - l->reported < 0.1) return;
    l->reported = t;
    int64_t done = l->k.state.step - l->first_step;
    l->o.progress(l->o.user,
                  &(cj_progress){ .step = l->k.state.step,
                                  .steps = l->total,
                                  .epoch = (double)l->k.state.step / (double)l->per_epoch,
                                  .loss = running_loss(l),
                                  .lr = cj_optim_lr(l->optim[0]),
                                  .rate = rate(l),
                                  .flops = cj_plan_statistics(l->plan).flops * rate(l) / (double)l->o.batch,
                                  .seconds = t - l->started,
                                  .left = done > 0 ? (double)(l->total - l->k.state.step) * (t - l->started) / (double)done : NAN,
                                  .peak_bytes = cj_memory_stats(l->ctx).peak,
                                  .val = val,
                                  .saved = saved,
                                  .resumed = resumed });
}

/* ---- evaluating and saving -------------------------------------------------------------------------------------------------------------------------- */

static int64_t interval(const loop *l) { return l->o.eval_every > 0 ? l->o.eval_every : l->per_epoch; }

static bool evaluation_due(const loop *l)
{
    int64_t step = l->k.state.step;
    if (step == 0 || step == l->k.state.logged) return false;
    return step == l->total || step % interval(l) == 0;
}

/* A function of the state alone, so that a resumed run stops where it would have stopped. */
static bool out_of_patience(const loop *l)
{
    const cj_train_state *s = &l->k.state;
    return l->o.patience > 0 && l->k.have_best && s->logged - s->best_step >= l->o.patience * interval(l);
}

static bool keep_best(loop *l)
{
    cj_train_state *s = &l->k.state;
    bool accuracy = l->o.task == CJ_TASK_CLASSIFY || l->o.task == CJ_TASK_NODES;
    double value = accuracy ? s->val.accuracy : s->val.loss;
    bool better = accuracy && value != s->best ? value > s->best : s->val.loss < s->best_loss;
    if (l->k.have_best && !better) return true;
    for (int i = 0; i < l->states; i++) cj_assign_(l->best[i], cj_detach(l->state[i]));
    if (l->ctx->error) return false;
    l->k.have_best = true;
    s->best = value;
    s->best_loss = s->val.loss;
    s->best_step = s->step;
    return true;
}

/* The parameters of training back where the averages are, whatever happened meanwhile. */
static bool swap_out(loop *l)
{
    cj_ctx *c = l->ctx;
    bool cancelled = cj_error(c) == CJ_ECANCELLED;
    if (cancelled) cj_clear(c);
    bool ok = cj_average_swap_out(l->average);
    if (cancelled) cj_cancel(c);
    return ok && !cancelled;
}

/* Evaluates and logs: all of it or, when cancelled, nothing, so that it is done again after the resume. */
static bool evaluate(loop *l)
{
    cj_train_state *s = &l->k.state;
    double began = now();
    cj_scope scope = cj_scope_open(l->ctx);
    cj_train_state before = *s;
    bool had_best = l->k.have_best, ok = true;
    s->train_loss = running_loss(l);
    cj_evaluate_opts how = { .task = l->o.task, .model = l->o.model, .batch = 4 * l->o.batch };
    bool average = l->o.val && l->average;
    if (average) ok = cj_average_swap_in(l->average);
    if (ok && l->o.val) ok = cj_evaluate(l->module, l->o.val, &s->val, &how) && keep_best(l);
    if (average) ok = swap_out(l) && ok;
    ok = ok && cj__cancel_check(l->ctx);
    ok = ok && !cj_is_poison(cj_assign_(l->k.loss_sum, cj_zeros_like(l->k.loss_sum))) && log_events(l) && log_line(l);
    if (ok) s->logged = s->step;
    else *s = before, l->k.have_best = had_best;
    cj_scope_close(scope);
    l->aside += now() - began;
    if (ok) report(l, l->o.val ? &s->val : NULL, NULL, NULL);
    return ok;
}

static bool save(loop *l)
{
    if (!l->o.folder) return true;
    double began = now();
    if (l->log >= 0 && fsync(l->log) < 0 && errno != EINVAL)
        return cj__error(l->ctx, CJ_EFILE, "%s/metrics.jsonl: %s", l->o.folder, strerror(errno));
    l->k.state.rng = cj_rng_get(l->ctx);
    cj_scope s = cj_scope_open(l->ctx);
    bool average = l->average && cj_average_count(l->average) > 0, ok = !average || cj_average_swap_in(l->average);
    ok = ok && cj__checkpoint_save(l->ctx, l->o.folder, &l->k);
    if (average) ok = swap_out(l) && ok;
    cj_scope_close(s);
    l->saved_at = now();
    l->aside += l->saved_at - began;
    if (ok) report(l, NULL, l->k.last.model.name, NULL);
    return ok;
}

static bool save_due(const loop *l)
{
    if (!l->o.folder || l->k.state.step == 0 || l->k.state.step == l->k.last.step) return false;
    return l->o.save_every > 0 ? l->k.state.step % l->o.save_every == 0 : now() - l->saved_at > 15;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------------------------------------------- */

static bool check(cj_ctx *c, const cj_examples *train, cj_train_opts *o)
{
    if (!train || !train->batch || train->n < 1) return cj__error(c, CJ_EVALUE, "train: there are no examples");
    if (o->batch < 0 || o->epochs < 0 || o->steps < 0 || o->warmup < 0 || o->eval_every < 0 || o->save_every < 0 || o->patience < 0)
        return cj__error(c, CJ_EVALUE, "train: batch, epochs, steps, warmup and intervals must not be negative");
    if (o->batch < 1) o->batch = 32;
    if (o->epochs == 0 && o->steps == 0) o->epochs = 10;
    if (o->lr == 0) o->lr = cj_usual_lr(o->optimiser);
    if (o->lr == CJ_ZERO) o->lr = 0;
    if (!(o->lr >= 0 && isfinite(o->lr)))
        return cj__error(c, CJ_EVALUE, "train: learning rate %g; it must be finite and not negative", o->lr);
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1) || !(o->ema >= 0 && o->ema < 1) || o->accumulate < 0)
        return cj__error(c, CJ_EVALUE,
                         "train: label_smoothing %g, ema %g, accumulate %lld; 0 to 1, 0 to less than 1 and not negative were expected",
                         o->label_smoothing, o->ema, (long long)o->accumulate);
    if (o->momentum == 0) o->momentum = 0.9;
    if (o->val && o->val->n == 0) o->val = NULL;
    if (!o->loss && o->model) o->loss = o->model->loss;
    bool own = o->model && (o->model->step || o->model->fit);
    if (!o->loss && !own && (o->task == CJ_TASK_GENERATE || o->task == CJ_TASK_TRANSLATE))
        return cj__error(c, CJ_EVALUE, "train: this task has no usual loss; the model must bring its own");
    if ((own || (o->model && o->model->parts)) && (o->ema > 0 || o->accumulate > 1))
        return cj__error(c, CJ_EVALUE, "train: %s makes its own steps; ema and accumulate are for models with one optimiser",
                         o->model->name);
    if (o->label_smoothing > 0 && (o->loss || own || o->task == CJ_TASK_REGRESS))
        return cj__error(c, CJ_EVALUE, "train: label_smoothing is for the usual loss of classes, and here the loss is another");
    return true;
}

static cj_optim *make_optimiser(const cj_train_opts *o, cj_params *p)
{
    double lr = o->lr == 0 ? CJ_ZERO : o->lr, plain_decay = o->weight_decay == CJ_ZERO ? 0 : o->weight_decay;
    double momentum = o->momentum == CJ_ZERO ? 0 : o->momentum, beta1 = o->momentum, decay = o->weight_decay;
    switch (o->optimiser) {
    case CJ_SGD: return cj_sgd(p, &(cj_sgd_opts){ .lr = lr, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_MOMENTUM: return cj_sgd(p, &(cj_sgd_opts){ .lr = lr, .momentum = momentum, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_NESTEROV:
        return cj_sgd(
            p, &(cj_sgd_opts){ .lr = lr, .momentum = momentum, .nesterov = true, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_ADAMW: return cj_adamw(p, &(cj_adam_opts){ .lr = lr, .beta1 = beta1, .weight_decay = decay, .clip_norm = o->clip });
    case CJ_NADAM: return cj_nadam(p, &(cj_nadam_opts){ .lr = lr, .beta1 = beta1, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_ADAMAX: return cj_adamax(p, &(cj_adamax_opts){ .lr = lr, .beta1 = beta1, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_RMSPROP: return cj_rmsprop(p, &(cj_rmsprop_opts){ .lr = lr, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_ADAGRAD: return cj_adagrad(p, &(cj_adagrad_opts){ .lr = lr, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_LION: return cj_lion(p, &(cj_lion_opts){ .lr = lr, .beta1 = beta1, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_SIGN_SGD: return cj_sign_sgd(p, &(cj_sign_sgd_opts){ .lr = lr, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_ADADELTA: return cj_adadelta(p, &(cj_adadelta_opts){ .lr = lr, .weight_decay = plain_decay, .clip_norm = o->clip });
    case CJ_RADAM: return cj_radam(p, &(cj_radam_opts){ .lr = lr, .beta1 = beta1, .weight_decay = plain_decay, .clip_norm = o->clip });
    default:
        return cj_adam(p,
                       &(cj_adam_opts){
                           .lr = lr, .beta1 = beta1, .weight_decay = decay, .amsgrad = o->optimiser == CJ_AMSGRAD, .clip_norm = o->clip });
    }
}

/* One for all parameters, or one for each part that the model names. */
static bool make_optimisers(loop *l)
{
    const char *const *part = l->o.model ? l->o.model->parts : NULL;
    if (!part) {
        l->optim[0] = make_optimiser(&l->o, cj_module_params(l->module));
        l->optims = l->optim[0] != NULL;
        return l->optims == 1;
    }
    for (; *part; part++) {
        cj_module *child = cj_module_find(l->module, *part);
        if (!child || l->optims == CJ_MAX_PARTS)
            return cj__error(l->ctx, CJ_EVALUE, "train: %s has no part '%s', or more than %d", l->o.model->name, *part, CJ_MAX_PARTS);
        cj_optim *o = make_optimiser(&l->o, cj_module_params(child));
        if (!o) return false;
        l->optim[l->optims++] = o;
    }
    return true;
}

static bool open_folder(loop *l)
{
    cj_ctx *c = l->ctx;
    const char *folder = l->o.folder;
    if (!cj__run_make(c, folder) || !open_log(l)) return false;
    if (l->o.resume) {
        cj_scope s = cj_scope_open(c);
        int64_t step = cj__checkpoint_load(c, folder, &l->k);
        cj_scope_close(s);
        if (step == -2) return false;
        if (step >= 0) cj_rng_set(c, l->k.state.rng);
    } else if (cj_run_exists(folder)) {
        return cj__error(c, CJ_ESTATE, "%s has a run already: resume it, or choose another folder", folder);
    }
    l->first_step = l->k.state.step;
    return cut_log(l);
}

/* Every parameter has a gradient, zero, before the first step, so that all steps are the same operators. */
static bool make_gradients(loop *l)
{
    cj_params *p = cj_module_params(l->module);
    cj_scope s = cj_scope_open(l->ctx);
    for (int i = 0; i < cj_params_count(p) && cj_ok(l->ctx); i++) cj_backward(cj_mul_scalar(cj_sum(cj_params_at(p, i), NULL), 0), NULL);
    cj_zero_grad(p);
    cj_scope_close(s);
    return cj_ok(l->ctx);
}

static bool begin(loop *l)
{
    cj_ctx *c = l->ctx;
    if (l->o.batch < 1) return false; /* check has seen to it */
    if (l->o.model && l->o.model->fit) l->o.batch = l->train->n, l->o.steps = 1;
    l->per_epoch = (l->train->n + l->o.batch - 1) / l->o.batch;
    l->total = l->o.steps > 0 ? l->o.steps : l->o.epochs * l->per_epoch;
    if (l->o.steps == 0 && l->total < l->o.least_steps) l->total = l->o.least_steps;
    if (!make_optimisers(l)) return false;
    if (l->o.ema > 0 && !(l->average = cj_average_new(cj_module_params(l->module), &(cj_average_opts){ .decay = l->o.ema }))) return false;
    if (l->o.accumulate > 1 && !make_gradients(l)) return false;
    l->states = cj__state_of(l->module, NULL, 0);
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    l->k = (cj_snapshot){ .module = l->module,
                          .optim = l->optim,
                          .optims = l->optims,
                          .average = l->average,
                          .loss_sum = cj_keep(cj_zeros(c, CJ_SCALAR, CJ_F32)) };
    l->k.state =
        (cj_train_state){ .best = NAN, .best_loss = NAN, .train_loss = NAN, .val = { .loss = NAN, .accuracy = NAN }, .rng = cj_rng_get(c) };
    l->order = cj__alloc(c, (size_t)l->train->n * sizeof *l->order);
    l->state = cj__zalloc(c, (size_t)l->states * sizeof *l->state);
    l->best = cj__zalloc(c, (size_t)l->states * sizeof *l->best);
    if (l->state) cj__state_of(l->module, l->state, l->states);
    for (int i = 0; i < l->states && l->state && l->best && l->o.val; i++) l->best[i] = cj_keep(cj_clone(cj_detach(l->state[i])));
    l->k.best = l->best;
    cj_grad_mode(c, was);
    cj_scope_close(s);
    if (c->error || (l->o.folder && !open_folder(l))) return false;
    if (l->o.folder && l->o.tensorboard && !(l->events = cj_events_open(c, l->o.folder, l->first_step))) return false;
    l->started = l->saved_at = now();
    l->aside = 0;
    if (l->o.folder && l->k.last.number == 0 && !save(l))
        return false; /* where it began: what a loss that goes wrong early is traced back to */
    if (l->first_step > 0) report(l, NULL, NULL, l->k.last.model.name);
    return true;
}

static void end(loop *l)
{
    cj_ctx *c = l->ctx;
    cj_plan_free(l->plan);
    for (int i = 0; i < l->states && l->best; i++) cj_release(l->best[i]);
    cj_release(l->k.loss_sum);
    cj_release(l->index);
    if (l->best) cj__free(c, l->best, (size_t)l->states * sizeof *l->best);
    if (l->state) cj__free(c, l->state, (size_t)l->states * sizeof *l->state);
    if (l->order) cj__free(c, l->order, (size_t)l->train->n * sizeof *l->order);
    for (int i = 0; i < l->optims; i++) cj_optim_free(l->optim[i]);
    cj_average_free(l->average);
    cj_events_close(l->events);
    if (l->log >= 0) close(l->log);
}

/* The best parameters and buffers into the module, after all is saved. */
static void take_best(loop *l)
{
    bool was = cj_no_grad(l->ctx);
    for (int i = 0; i < l->states && l->k.have_best; i++) cj_assign_(l->state[i], l->best[i]);
    cj_grad_mode(l->ctx, was);
}

/* Evaluations come before the next step, so that a run stopped between the two does them first when it goes on. */
static bool run(loop *l)
{
    for (;;) {
        if (!cj_ok(l->ctx)) return false;
        if (evaluation_due(l) && !evaluate(l)) return false;
        if (l->k.state.step >= l->total || out_of_patience(l)) return true;
        if (save_due(l) && !save(l)) return false;
        if (!one_step(l)) return false;
        if (l->plan && l->uncompiled < 3)
            l->uncompiled++, cj_memory_trim(l->ctx); /* what they held is not needed beside the plan's own memory */
        report(l, NULL, NULL, NULL);
        if (l->cancelled) return false;
    }
}

cj_train_result cj_train(cj_module *m, const cj_examples *train, const cj_train_opts *opts)
{
    cj_ctx *c = cj_module_ctx(m);
    cj_train_result r = { .loss = NAN, .val = { .loss = NAN, .accuracy = NAN }, .best = NAN };
    loop l = { .ctx = c, .module = m, .train = train, .o = opts ? *opts : (cj_train_opts){ 0 }, .index_epoch = -1, .log = -1 };
    if (!c || !cj__cancel_check(c) || !check(c, train, &l.o)) return r;
    bool training = cj_module_training(m);
    cj_module_train(m, true);
    bool begun = begin(&l), done = begun && run(&l);
    bool cancelled = begun && (l.cancelled || cj_error(c) == CJ_ECANCELLED);
    if (cancelled) cj_clear(c);
    if (begun && (done || cancelled)) {
        bool saved = save(&l);
        const cj_train_state *s = &l.k.state;
        r = (cj_train_result){ .finished = done && saved,
                               .stopped_early = done && saved && s->step < l.total,
                               .step = s->step,
                               .first_step = l.first_step,
                               .loss = s->train_loss,
                               .val = s->val,
                               .best = s->best,
                               .best_step = s->best_step,
                               .seconds = now() - l.started,
                               .rate = rate(&l),
                               .peak_bytes = cj_memory_stats(c).peak };
        if (r.finished && l.average && cj_average_count(l.average) > 0) cj_average_swap_in(l.average);
        if (r.finished && l.o.take_best) take_best(&l);
        if (saved && cj_error(c) == CJ_ECANCELLED) cj_clear(c); /* asked again meanwhile */
        if (saved && !done)
            cj_fail(c, CJ_ECANCELLED, "cancelled after %lld of %lld steps%s", (long long)s->step, (long long)l.total,
                    l.o.folder ? "; the run is saved" : "");
    }
    end(&l);
    cj_module_train(m, training);
    return r;
}
