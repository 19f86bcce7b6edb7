/* Whole trainings (cj_train) of zoo networks with the loader, beside the same training on one resident batch.
 *
 * Both run the same loop, plan and optimiser; the resident one is handed the same two tensors at every step, so what is missing is only what it costs to gather,
 * augment and hand over the examples.  A time is that on the wall from a step's batch to that of the 32nd step after it (of slow networks the 8th), in which the loader
 * has to keep up: more than it has prepared ahead.  Of a training the shortest such time counts, the one that nobody interrupted.  A round is a training on the resident
 * batch, two with the loader and another one on the resident batch; the ratio is the median over the rounds.  The examples are more than the caches hold. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/app.h"
#include "bench/bench.h"

enum { UNCOUNTED = 12, MOST_STEPS = 4096 };

typedef struct load {
    const char *name;
    const char *model;
    const char *const *settings;        /* key=value, ends with NULL */
    int64_t n, channels, side, context; /* images of channels x side x side, or windows of a text */
    bool augmented;
} load;

/* Examples that note when they are asked for; without inner ones the resident batch. */
typedef struct watched {
    cj_examples inner;
    cj_tensor *x, *y;
    double at[MOST_STEPS];
    int calls;
} watched;

static bool watch_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    watched *w = e->user;
    if (w->calls < MOST_STEPS) w->at[w->calls++] = bench_now();
    if (w->inner.batch) return w->inner.batch(c, &w->inner, epoch, index, x, y);
    *x = w->x, *y = w->y;
    return cj_ok(c);
}

typedef struct trial {
    const load *of;
    cj_ctx *c;
    cj_settings *settings;
    const cj_model *model;
    cj_model_data data;
    cj_examples examples;
    watched resident, loaded;
} trial;

static bool make_examples(trial *t)
{
    const load *o = t->of;
    cj_ctx *c = t->c;
    cj_scope s = cj_scope_open(c);
    if (o->context) {
        t->data = (cj_model_data){ .inputs = 96, .outputs = 96 };
        cj_examples_of_text(cj_keep(cj_randint(c, 0, 96, CJ_SHAPE(o->n * o->context + 1))), o->context, &t->examples);
    } else {
        int64_t features = o->channels * o->side * o->side;
        t->data = (cj_model_data){ .inputs = features, .outputs = 10, .channels = o->channels, .height = o->side, .width = o->side };
        cj_tensor *x = cj_keep(cj_rand(c, CJ_SHAPE(o->n, features))), *y = cj_keep(cj_randint(c, 0, 10, CJ_SHAPE(o->n)));
        cj_augment_opts how = cj_augmentation_opts(CJ_AUGMENT_AUTO, o->channels, o->side, o->side);
        (cj_examples_of_images)(x, y, o->channels, o->side, o->side, &t->examples, o->augmented ? &how : NULL);
    }
    cj_scope_close(s);
    return cj_ok(c);
}

static bool make(trial *t, const load *o, int threads)
{
    *t = (trial){ .of = o, .c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads }), .model = app_model(o->model) };
    if (!t->c || !t->model) return false;
    t->settings = cj_settings_new(t->c, t->model);
    for (const char *const *k = o->settings; k && *k; k++) cj_settings_parse(t->settings, *k);
    if (!cj_ok(t->c) || !make_examples(t)) return false;
    int64_t batch = (int64_t)cj_settings_get(t->settings, "batch");
    cj_scope s = cj_scope_open(t->c);
    bool ok = t->examples.batch(t->c, &t->examples, 0, cj_arange(t->c, 0, (double)batch, 1, CJ_I64), &t->resident.x, &t->resident.y);
    if (ok) t->resident.x = cj_keep(t->resident.x), t->resident.y = cj_keep(t->resident.y);
    cj_scope_close(s);
    return ok && cj_examples_of_loader(cj_loader_of(t->c, &t->examples, .batch = batch), &t->loaded.inner);
}

static double shortest(const double *at, int n, int stretch)
{
    double best = INFINITY;
    for (int i = UNCOUNTED; i + stretch < n; i++) best = fmin(best, at[i + stretch] - at[i]);
    return best / stretch;
}

/* Seconds of a step, from the best stretch in a training of so many steps; NAN after an error. */
static double seconds_of(trial *t, watched *w, int steps, int stretch)
{
    cj_options options = cj_settings_options(t->settings);
    cj_scope s = cj_scope_open(t->c);
    cj_module *net = t->model->build(t->c, &t->data, &options);
    cj_examples e = { .n = t->examples.n, .batch = watch_batch, .user = w };
    cj_train_opts o = cj_settings_train_opts(t->settings);
    o.task = t->model->task, o.model = t->model, o.steps = steps;
    w->calls = 0;
    bool ok = net && (cj_train)(net, &e, &o).finished;
    cj_scope_close(s);
    return ok ? shortest(w->at, steps, stretch) : NAN;
}

static bool compare(bench_run *r, trial *t)
{
    double resident[2 * 99], loaded[2 * 99], ratio[99], once = seconds_of(t, &t->resident, UNCOUNTED + 4, 2);
    if (isnan(once)) return false;
    int stretch = once < 0.01 ? 32 : 8, least = UNCOUNTED + 2 * stretch, n = r->rounds;
    int steps = least + (int)fmin(r->seconds / once, MOST_STEPS - least);
    for (int i = 0; i < n; i++) {
        resident[i] = seconds_of(t, &t->resident, steps, stretch);
        loaded[i] = seconds_of(t, &t->loaded, steps, stretch);
        loaded[n + i] = seconds_of(t, &t->loaded, steps, stretch); /* in the middle, so that a processor that slows down slows both */
        resident[n + i] = seconds_of(t, &t->resident, steps, stretch);
        ratio[i] = (resident[i] + resident[n + i]) / (loaded[i] + loaded[n + i]);
        if (isnan(ratio[i])) return false;
    }
    double share = bench_median(ratio, n);
    bench_print(r, (bench_row){ .name = t->of->name,
                                .value = 1e3 * bench_median(loaded, 2 * n),
                                .unit = "ms",
                                .limit_share = NAN,
                                .peer = "resident batch",
                                .peer_value = 1e3 * bench_median(resident, 2 * n),
                                .ratio = share,
                                .target = "ratio >= 0.95",
                                .met = share >= 0.95 ? 1 : -1 });
    return true;
}

#define WITH(...)                                                                                                                          \
    (const char *const[]) { __VA_ARGS__, NULL }

bool bench_loader(bench_run *r)
{
    const load loads[] = {
        { "loader mlp of 64 28x28", "mlp", WITH("hidden=64"), 20000, 1, 28, 0, false },
        { "loader mlp 28x28", "mlp", NULL, 20000, 1, 28, 0, false },
        { "loader mlp 28x28 augmented", "mlp", NULL, 20000, 1, 28, 0, true },
        { "loader lenet5 28x28 augmented", "lenet5", NULL, 20000, 1, 28, 0, true },
        { "loader resnet 3x32x32 augmented", "resnet", WITH("batch=32"), 5000, 3, 32, 0, true },
        { "loader gpt text", "gpt", NULL, 8000, 0, 0, 128, false },
        { "loader lstm text", "lstm", NULL, 8000, 0, 0, 128, false },
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof loads / sizeof *loads && ok; i++) {
        trial t;
        if (r->only && !strstr(loads[i].name, r->only)) continue;
        ok = make(&t, &loads[i], r->threads) && compare(r, &t);
        if (!ok) app_fail(t.c);
        cj_ctx_free(t.c);
    }
    return ok;
}
