/* Pictures of a trained network, in its run folder:
 *
 *     confusion.png   what it takes for what, of the test examples          filters.png     weights of the first layer that sees pixels
 *     examples.png    test images and what it says, mistakes first          attention.png   what a head of a transformer looks at
 *     samples.png     of a generative model
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/answers.h"
#include "app/show.h"

#ifdef CJ_HAVE_CAIRO

typedef struct album {
    const app_job *job;
    const char *folder;
    char *list; /* ", NAME" for each picture that was written */
    size_t room;
} album;

/* Writes and frees the plot. */
static bool save(const album *a, cj_plot *p, const char *name)
{
    char path[4096];
    bool ok = p && snprintf(path, sizeof path, "%s/%s", a->folder, name) < (int)sizeof path && cj_plot_save(p, path);
    cj_plot_free(p);
    size_t n = strlen(a->list);
    if (ok) snprintf(a->list + n, a->room - n, ", %s", name);
    return ok;
}

/* ---- classes ------------------------------------------------------------------------------------------------------------------------------ */

static bool draw_confusion(const album *a, const app_answers *s)
{
    enum { MOST = 100 };
    if (s->classes > MOST) return true;
    const char *names[MOST];
    char number[MOST][24], title[128];
    for (int64_t k = 0; k < s->classes; k++) {
        snprintf(number[k], sizeof number[k], "%s", app_class_name(a->job, k));
        names[k] = number[k];
    }
    snprintf(title, sizeof title, "Test examples: %s of %s right", app_count((double)(s->n - s->wrong)), app_count((double)s->n));
    cj_plot *p = cj_plot_new(a->job->ctx, title);
    bool ok = cj_plot_size(p, 900, 800) && cj_plot_labels(p, "the network says", "it is") &&
              cj_plot_heat(p, s->counts, s->classes, s->classes, names, names);
    if (!ok) cj_plot_free(p);
    return ok && save(a, p, "confusion.png");
}

/* The mistakes of which it was surest, at most half of the sheet; then right answers in the order of the examples. */
static int64_t choose_examples(const app_answers *s, int64_t *which, int64_t most)
{
    int64_t n = 0;
    for (int64_t limit = most / 2; n < limit; n++) {
        int64_t best = -1;
        for (int64_t i = 0; i < s->n; i++) {
            bool before = s->said[i] == s->truth[i];
            for (int64_t k = 0; k < n && !before; k++) before = which[k] == i;
            if (!before && (best < 0 || s->sure[i] > s->sure[best])) best = i;
        }
        if (best < 0) break;
        which[n] = best;
    }
    for (int64_t i = 0; i < s->n && n < most; i++)
        if (s->said[i] == s->truth[i]) which[n++] = i;
    return n;
}

static bool draw_examples(const album *a, const app_answers *s)
{
    enum { MOST = 48 };
    const cj_dataset *d = a->job->data;
    int64_t which[MOST], f = d->features, channels = f / (d->height * d->width), n = choose_examples(s, which, MOST);
    char text[MOST][96], title[128];
    const char *caption[MOST];
    bool marked[MOST];
    if (n * f < 1) return true;
    double *pixel = malloc((size_t)(n * f) * sizeof *pixel);
    cj_scope scope = cj_scope_open(a->job->ctx);
    bool ok = pixel && cj_to_f64(cj_index_select(d->test_x, 0, cj_from_i64(a->job->ctx, which, CJ_SHAPE(n))), pixel, n * f);
    cj_scope_close(scope);
    for (int64_t i = 0; i < n; i++) {
        int64_t said = s->said[which[i]], truth = s->truth[which[i]];
        marked[i] = said != truth;
        if (marked[i]) snprintf(text[i], sizeof text[i], "%s, is %s", app_class_name(a->job, said), app_class_name(a->job, truth));
        else snprintf(text[i], sizeof text[i], "%s", app_class_name(a->job, said));
        caption[i] = text[i];
    }
    snprintf(title, sizeof title, "Test images and what the network says: %s of %s wrong", app_count((double)s->wrong),
             app_count((double)s->n));
    cj_plot *p = ok ? cj_plot_new(a->job->ctx, title) : NULL;
    ok = p && app_fit_sheet(p, n, d->height, d->width, true) && cj_plot_images(p, pixel, n, channels, d->height, d->width) &&
         cj_plot_captions(p, caption, marked);
    free(pixel);
    if (!ok) cj_plot_free(p);
    return ok && save(a, p, "examples.png");
}

/* ---- weights --------------------------------------------------------------------------------------------------------------------------------- */

/* The first parameter that meets pixels: a convolution's [maps, channels, height, width], or a linear layer's [neurons, pixels]. NULL: none does. */
static cj_tensor *first_weights(const app_job *j, int64_t *height, int64_t *width)
{
    const cj_dataset *d = j->data;
    cj_params *all = cj_module_params(j->net);
    int64_t channels = d->features / (d->height * d->width);
    for (int i = 0; i < cj_params_count(all); i++) {
        cj_tensor *w = cj_params_at(all, i);
        bool conv = cj_ndim(w) == 4 && cj_size(w, 1) == channels && cj_size(w, 2) > 1,
             dense = cj_ndim(w) == 2 && cj_size(w, 1) == d->features;
        *height = conv ? cj_size(w, 2) : d->height, *width = conv ? cj_size(w, 3) : d->width;
        if (conv || dense) return w;
    }
    return NULL;
}

/* Each filter by itself: zero is grey, its largest weight black or white. */
static bool draw_filters(const album *a)
{
    enum { MOST = 100 };
    int64_t height, width, channels = a->job->data->features / (a->job->data->height * a->job->data->width);
    cj_tensor *w = first_weights(a->job, &height, &width);
    if (!w) return true;
    int64_t n = cj_size(w, 0) < MOST ? cj_size(w, 0) : MOST, one = channels * height * width;
    double *v = malloc((size_t)(n * one) * sizeof *v);
    cj_scope s = cj_scope_open(a->job->ctx);
    bool ok = v && cj_to_f64(cj_slice(cj_detach(w), 0, 0, n, 1), v, n * one);
    cj_scope_close(s);
    for (int64_t i = 0; i < n && ok; i++) {
        double most = 0;
        for (int64_t k = 0; k < one; k++) most = fmax(most, fabs(v[i * one + k]));
        for (int64_t k = 0; k < one; k++) v[i * one + k] = most > 0 ? 0.5 + 0.5 * v[i * one + k] / most : 0.5;
    }
    char title[128];
    snprintf(title, sizeof title, "What the first layer looks for: %lld of its %lld filters", (long long)n, (long long)cj_size(w, 0));
    cj_plot *p = ok ? cj_plot_new(a->job->ctx, title) : NULL;
    ok = p && app_fit_sheet(p, n, height, width, false) && cj_plot_images(p, v, n, channels, height, width);
    free(v);
    if (!ok) cj_plot_free(p);
    return ok && save(a, p, "filters.png");
}

/* ---- attention -------------------------------------------------------------------------------------------------------------------------------- */

static void keep_output(void *user, cj_module *m, cj_tensor *x, cj_tensor *y)
{
    (void)m, (void)x;
    cj_tensor **kept = user;
    if (!*kept) *kept = cj_keep(y);
}

/* The module that makes queries, keys and values of a transformer's first block, by GPT-2's names; NULL where there is none. */
static cj_module *first_attention(cj_module *net)
{
    static const char *const path[] = { "h", "0", "attn", "c_attn" };
    for (int i = 0; i < 4 && net; i++) net = cj_module_find(net, path[i]);
    return net;
}

/* softmax(q kᵀ/sqrt(d)) of the first head, with what comes later left out: q and k from queries, keys and values side by side, [1, T, 3·dim]. */
static cj_tensor *attention_of(cj_tensor *qkv, int64_t heads)
{
    int64_t T = cj_size(qkv, 1), dim = cj_size(qkv, 2) / 3, head = dim / heads;
    cj_tensor *all = cj_reshape(qkv, CJ_SHAPE(T, 3 * dim)), *q = cj_slice(all, 1, 0, head, 1), *k = cj_slice(all, 1, dim, dim + head, 1);
    cj_tensor *score = cj_mul_scalar(cj_matmul(q, cj_transpose(k, 0, 1)), 1 / sqrt((double)head));
    cj_tensor *later = cj_triu(cj_full(cj_tensor_ctx(qkv), -1e30, CJ_SHAPE(T, T), CJ_F32), 1);
    return cj_softmax(cj_add(score, later), -1);
}

static bool draw_attention(const album *a)
{
    enum { LETTERS = 40 };
    const app_job *j = a->job;
    cj_ctx *c = j->ctx;
    cj_module *m = first_attention(j->net);
    double given = cj_settings_get(j->settings, "heads"); /* NaN where there is no such setting */
    if (!m || !(given >= 1) || j->test.length < 2) return true;
    int64_t heads = (int64_t)given, symbol[LETTERS];
    cj_scope s = cj_scope_open(c);
    bool grad = cj_no_grad(c);
    int64_t first = 0, T = j->test.length < LETTERS ? j->test.length : LETTERS;
    cj_tensor *x, *y, *qkv = NULL;
    double value[LETTERS * LETTERS];
    bool ok = j->test.batch(c, &j->test, 0, cj_from_i64(c, &first, CJ_SHAPE(1)), &x, &y);
    x = ok ? cj_contiguous(cj_slice(x, 1, 0, T, 1)) : NULL;
    cj_module_train(j->net, false);
    cj_module_hook(m, keep_output, &qkv);
    ok = ok && !cj_is_poison(cj_forward(j->net, x));
    cj_module_hook(m, NULL, NULL);
    ok = ok && qkv && cj_to_f64(attention_of(qkv, heads), value, T * T) && cj_to_i64(x, symbol, T);
    cj_release(qkv);
    cj_grad_mode(c, grad);
    cj_scope_close(s);
    char text[LETTERS][8];
    const char *name[LETTERS];
    for (int64_t i = 0; i < T && ok; i++) {
        unsigned char b = j->data->symbol[symbol[i] & 255];
        snprintf(text[i], sizeof text[i], b > ' ' && b < 127 ? "%c" : b == '\n' ? "\\n" : b == ' ' ? "_" : "?", b);
        name[i] = text[i];
    }
    cj_plot *p = ok ? cj_plot_new(c, "First block, first head: where it looks from each symbol of a test text") : NULL;
    ok = p && cj_plot_size(p, 1000, 900) && cj_plot_labels(p, "looks at", "from") && cj_plot_heat(p, value, T, T, name, name);
    if (!ok) cj_plot_free(p);
    return ok && save(a, p, "attention.png");
}

/* ---- all of them -------------------------------------------------------------------------------------------------------------------------------- */

bool app_draw_pictures(app_job *j, const char *folder, char *list, size_t room)
{
    album a = { j, folder, list, room };
    const cj_dataset *d = j->data;
    int64_t channels = d->height > 1 ? d->features / (d->height * d->width) : 0;
    bool images = channels == 1 || channels == 3, ok = true;
    app_answers answers;
    if (app_answer(j, 0, &answers)) {
        ok = draw_confusion(&a, &answers) && (!images || draw_examples(&a, &answers));
        app_answers_free(&answers);
    }
    ok = ok && cj_ok(j->ctx) && (!images || draw_filters(&a)) && (!d->is_text || draw_attention(&a));
    if (ok && j->model->sample && app_draw_samples(j, folder)) snprintf(list + strlen(list), room - strlen(list), ", samples.png");
    return ok && cj_ok(j->ctx);
}

#else

bool app_draw_pictures(app_job *j, const char *folder, char *list, size_t room)
{
    (void)j, (void)folder, (void)list, (void)room;
    return true;
}

#endif
