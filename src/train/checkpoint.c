/* Checkpoints: everything a run needs to go on as if nothing had happened.
 *
 * model-N holds parameters and buffers under PyTorch's names, for anybody; state-N what only the loop needs: the optimiser's tensors, the random state, counters; best-N
 * the parameters and buffers of the best evaluation.  N counts checkpoints, so that a new one never touches the files of the one before.
 */
#include <math.h>
#include <stdio.h>

#include "optim/optim.h"
#include "train/manifest.h"

/* ---- lists of named tensors -------------------------------------------------------------------------------------------------------------------- */

typedef struct list {
    cj_ctx *ctx;
    const char *prefix;
    cj_named *item;
    int n, room;
} list;

static void list_free(list *l)
{
    for (int i = 0; i < l->n; i++) cj__strfree(l->ctx, (char *)l->item[i].name);
    cj__free(l->ctx, l->item, (size_t)l->room * sizeof *l->item);
    l->item = NULL;
    l->n = l->room = 0;
}

static void list_add(void *user, const char *name, cj_tensor *t)
{
    list *l = user;
    if (l->ctx->error) return;
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 32;
        cj_named *item = cj__alloc(l->ctx, (size_t)room * sizeof *item);
        if (!item) return;
        if (l->n) memcpy(item, l->item, (size_t)l->n * sizeof *item);
        cj__free(l->ctx, l->item, (size_t)l->room * sizeof *item);
        l->item = item;
        l->room = room;
    }
    char full[CJ_MAX_PATH_NAME];
    snprintf(full, sizeof full, "%s%s", l->prefix ? l->prefix : "", name);
    char *own = cj__strdup(l->ctx, full);
    if (own) l->item[l->n++] = (cj_named){ own, t };
}

/* A tensor of a module that is shared between places is saved once, under its first name. */
static void list_add_once(void *user, const char *name, cj_tensor *t)
{
    list *l = user;
    for (int i = 0; i < l->n; i++)
        if (l->item[i].tensor == t) return;
    list_add(user, name, t);
}

int cj__state_of(cj_module *m, cj_tensor **out, int room)
{
    list l = { .ctx = cj_module_ctx(m) };
    cj_module_state(m, list_add_once, &l);
    int n = l.n;
    for (int i = 0; i < n && i < room; i++) out[i] = l.item[i].tensor;
    list_free(&l);
    return n;
}

static void list_add_optim(void *user, const char *name, cj_tensor *t)
{
    if (strcmp(name, "lr") != 0) list_add(user, name, t); /* the schedule knows it */
}

/* "optim.exp_avg.0.weight", of further optimisers "optim1.…". */
static void list_add_optims(list *l, const cj_snapshot *k)
{
    char prefix[24] = "optim.";
    l->prefix = prefix;
    for (int i = 0; i < k->optims; i++) {
        if (i > 0) snprintf(prefix, sizeof prefix, "optim%d.", i);
        cj_optim_state(k->optim[i], list_add_optim, l);
    }
    l->prefix = NULL;
    if (!k->average) return;
    l->prefix = "ema.";
    cj_average_state(k->average, list_add, l);
    cj__average_saved(k->average, list_add, l);
    l->prefix = NULL;
}

/* ---- the loop's own numbers -------------------------------------------------------------------------------------------------------------------- */

enum { COUNTERS = 5, VALUES = 5, RNG = 1 + CJ_STREAMS };

static void numbers_of(const cj_snapshot *k, int64_t counter[COUNTERS], double value[VALUES], int64_t rng[RNG])
{
    const cj_train_state *s = &k->state;
    const int64_t c[COUNTERS] = { s->step, s->logged, s->best_step, s->val.n, k->have_best };
    const double v[VALUES] = { s->best, s->train_loss, s->val.loss, s->val.accuracy, s->best_loss };
    memcpy(counter, c, sizeof c);
    memcpy(value, v, sizeof v);
    rng[0] = (int64_t)s->rng.seed;
    for (int i = 0; i < CJ_STREAMS; i++) rng[1 + i] = (int64_t)s->rng.call[i];
}

static bool read_numbers(cj_archive *a, cj_train_state *s, bool *have_best)
{
    int64_t counter[COUNTERS], rng[RNG];
    double value[VALUES];
    if (!cj_to_i64(cj_archive_find(a, "counters"), counter, COUNTERS) || !cj_to_f64(cj_archive_find(a, "values"), value, VALUES) ||
        !cj_to_i64(cj_archive_find(a, "rng"), rng, RNG))
        return false;
    *s = (cj_train_state){ .step = counter[0],
                           .logged = counter[1],
                           .best_step = counter[2],
                           .best = value[0],
                           .best_loss = value[4],
                           .train_loss = value[1],
                           .val = { .loss = value[2], .accuracy = value[3], .n = counter[3] } };
    *have_best = counter[4] != 0;
    s->rng.seed = (uint64_t)rng[0];
    for (int i = 0; i < CJ_STREAMS; i++) s->rng.call[i] = (uint64_t)rng[1 + i];
    return true;
}

/* ---- saving --------------------------------------------------------------------------------------------------------------------------------------- */

static bool save_list(cj_ctx *c, const char *folder, const list *l, cj_run_file *f)
{
    char path[CJ_MAX_RUN_PATH];
    return c->error == CJ_OK && cj__run_path(c, folder, f->name, path) && cj_safetensors_save(c, path, l->item, l->n, NULL, 0) &&
           cj__run_measure(c, folder, f);
}

static bool save_model(cj_ctx *c, const char *folder, cj_snapshot *k, cj_run_file *f)
{
    list l = { .ctx = c };
    cj_module_state(k->module, list_add_once, &l);
    bool ok = save_list(c, folder, &l, f);
    list_free(&l);
    return ok;
}

static bool save_best(cj_ctx *c, const char *folder, cj_snapshot *k, cj_run_file *f)
{
    list l = { .ctx = c };
    cj_module_state(k->module, list_add_once, &l);
    for (int i = 0; i < l.n; i++) l.item[i].tensor = k->best[i];
    bool ok = save_list(c, folder, &l, f);
    list_free(&l);
    return ok;
}

static bool save_state(cj_ctx *c, const char *folder, cj_snapshot *k, cj_run_file *f)
{
    cj_scope s = cj_scope_open(c);
    list l = { .ctx = c };
    list_add_optims(&l, k);
    int64_t counter[COUNTERS], rng[RNG];
    double value[VALUES];
    numbers_of(k, counter, value, rng);
    if (k->loss_sum) list_add(&l, "loss_sum", k->loss_sum);
    list_add(&l, "counters", cj_from_i64(c, counter, CJ_SHAPE(COUNTERS)));
    list_add(&l, "values", cj_from_f64(c, value, CJ_SHAPE(VALUES)));
    list_add(&l, "rng", cj_from_i64(c, rng, CJ_SHAPE(RNG)));
    bool ok = save_list(c, folder, &l, f);
    list_free(&l);
    cj_scope_close(s);
    return ok;
}

bool cj__checkpoint_save(cj_ctx *c, const char *folder, cj_snapshot *k)
{
    if (!cj__cancel_check(c)) return false;
    long long number = k->next > 0 ? k->next : 1;
    cj_generation g[2] = { { .number = number, .step = k->state.step, .metrics_bytes = k->state.metrics_bytes }, k->last };
    snprintf(g[0].model.name, sizeof g[0].model.name, "model-%lld.safetensors", number);
    snprintf(g[0].state.name, sizeof g[0].state.name, "state-%lld.safetensors", number);
    if (!save_model(c, folder, k, &g[0].model) || !save_state(c, folder, k, &g[0].state)) return false;
    if (k->have_best) {
        snprintf(g[0].best.name, sizeof g[0].best.name, "best-%lld.safetensors", number);
        if (!save_best(c, folder, k, &g[0].best)) return false;
    }
    int n = k->last.number > 0 ? 2 : 1;
    if (!cj__manifest_write(c, folder, g, n)) return false;
    k->last = g[0];
    k->next = number + 1;
    cj__run_sweep(folder, g, n);
    return true;
}

/* ---- loading -------------------------------------------------------------------------------------------------------------------------------------- */

static cj_archive *load_file(cj_ctx *c, const char *folder, const cj_run_file *f)
{
    cj_run_file found = *f;
    char path[CJ_MAX_RUN_PATH];
    if (!cj__run_path(c, folder, f->name, path) || !cj__run_measure(c, folder, &found)) return NULL;
    if (found.bytes != f->bytes)
        cj__error(c, CJ_EFILE, "%s: %lld bytes were expected, %lld were found", path, (long long)f->bytes, (long long)found.bytes);
    else if (found.crc != f->crc)
        cj__error(c, CJ_EFILE, "%s: the checksum is %08lx, %08lx was expected", path, (unsigned long)found.crc, (unsigned long)f->crc);
    return c->error ? NULL : cj_safetensors_load(c, path);
}

/* Every tensor of the list has its counterpart in the archive, of the same shape and dtype. */
static bool fits(cj_ctx *c, const char *folder, const list *l, const cj_archive *a)
{
    if (c->error || !a) return false;
    for (int i = 0; i < l->n; i++) {
        cj_tensor *t = cj_archive_find(a, l->item[i].name), *want = l->item[i].tensor;
        if (!t) return cj__error(c, CJ_EFILE, "%s: the checkpoint has no %s", folder, l->item[i].name);
        bool same = cj_dtype_of(t) == cj_dtype_of(want) && cj_ndim(t) == cj_ndim(want);
        for (int d = 0; d < cj_ndim(want) && same; d++) same = cj_size(t, d) == cj_size(want, d);
        if (!same)
            return cj__error(c, CJ_EFILE, "%s: %s is %s %s in the checkpoint, %s %s in the model", folder, l->item[i].name,
                             cj_dtype_name(cj_dtype_of(t)), cj__tensor_text(t), cj_dtype_name(cj_dtype_of(want)), cj__tensor_text(want));
    }
    return true;
}

static void assign(const list *l, const cj_archive *a)
{
    for (int i = 0; i < l->n; i++) cj_assign_(l->item[i].tensor, cj_archive_find(a, l->item[i].name));
}

/* Without optimisers: parameters only, the best ones if asked for. */
static bool load_generation(cj_ctx *c, const char *folder, const cj_generation *g, cj_snapshot *k, bool best)
{
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c), ok = true;
    list model = { .ctx = c }, state = { .ctx = c }, top = { .ctx = c };
    cj_archive *model_file = NULL, *state_file = NULL, *best_file = NULL;
    cj_train_state numbers = { 0 };
    bool have_best = false;

    cj_module_state(k->module, list_add_once, &model);
    model_file = load_file(c, folder, &g->model);
    ok = model_file && fits(c, folder, &model, model_file);
    if (ok && k->optims) {
        list_add_optims(&state, k);
        list_add(&state, "loss_sum", k->loss_sum);
        state_file = load_file(c, folder, &g->state);
        ok = state_file && fits(c, folder, &state, state_file) && read_numbers(state_file, &numbers, &have_best);
    }
    if (ok && g->best.name[0] && (best || k->optims)) {
        cj_module_state(k->module, list_add_once, &top);
        for (int i = 0; i < top.n && k->best; i++) top.item[i].tensor = k->best[i];
        best_file = load_file(c, folder, &g->best);
        ok = best_file && fits(c, folder, &top, best_file);
    }
    if (ok) { /* all is there and fits; nothing below can fail but for a cancellation */
        assign(&model, model_file);
        assign(&state, state_file);
        assign(&top, best_file);
        ok = c->error == CJ_OK && (!k->optims || !k->average || cj__average_resume(k->average));
    }
    if (ok && k->optims) {
        numbers.metrics_bytes = g->metrics_bytes;
        k->state = numbers;
        k->have_best = have_best && best_file;
        k->last = *g;
    }
    list_free(&model), list_free(&state), list_free(&top);
    cj_archive_free(model_file), cj_archive_free(state_file), cj_archive_free(best_file);
    cj_grad_mode(c, was);
    cj_scope_close(s);
    return ok;
}

static int64_t load_newest(cj_ctx *c, const char *folder, cj_snapshot *k, bool best)
{
    cj_generation g[CJ_GENERATIONS];
    int n = cj__manifest_read(c, folder, g);
    if (n <= 0) return n == 0 ? -1 : -2;
    char first[CJ_MAX_MESSAGE] = "", other[CJ_MAX_MESSAGE] = "";
    for (int i = 0; i < n; i++)
        if (g[i].number >= k->next) k->next = g[i].number + 1;
    for (int i = 0; i < n; i++) {
        if (load_generation(c, folder, &g[i], k, best)) {
            if (i) cj__log(c, CJ_LOG_WARNING, "%s; the checkpoint before it (step %lld) is used", first, (long long)g[i].step);
            return g[i].step;
        }
        if (c->error != CJ_EFILE) return -2;
        cj__error_take(c, i ? other : first);
    }
    cj_fail(c, CJ_EFILE, "%s has no sound checkpoint: %s", folder, first);
    return -2;
}

int64_t cj__checkpoint_load(cj_ctx *c, const char *folder, cj_snapshot *k) { return load_newest(c, folder, k, false); }

int64_t cj_run_load(cj_module *m, const char *folder, bool best)
{
    cj_ctx *c = cj_module_ctx(m);
    if (!c || !cj__cancel_check(c)) return -1;
    cj_snapshot k = { .module = m };
    int64_t step = load_newest(c, folder, &k, best);
    if (step == -1) cj_fail(c, CJ_EFILE, "%s has no checkpoint", folder);
    return step < 0 ? -1 : step;
}

bool cj_run_save(cj_module *m, const char *folder)
{
    cj_ctx *c = cj_module_ctx(m);
    if (!c || !cj__cancel_check(c)) return false;
    if (cj_run_exists(folder)) return cj__error(c, CJ_ESTATE, "%s has a run already: choose another folder", folder);
    return cj__run_make(c, folder) && cj__checkpoint_save(c, folder, &(cj_snapshot){ .module = m });
}

int64_t cj_run_step(cj_ctx *c, const char *folder)
{
    cj_generation g[CJ_GENERATIONS];
    if (!c || c->error || !cj_run_exists(folder)) return -1;
    int n = cj__manifest_read(c, folder, g);
    if (n < 0 && c->error == CJ_EFILE) cj_clear(c);
    return n > 0 ? g[0].step : -1;
}
