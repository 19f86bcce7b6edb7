/* Data sets that are no rows: graphs, lines of text, translations, images with boxes. */
#include <stdio.h>

#include "data/dataset.h"
#include "data/graph.h"

#define UNUSED (void)o, (void)seed

/* ---- graphs ----------------------------------------------------------------------------------------------------------------------------------- */

static void show_graph(cj_dataset *d, const cj_graph *g)
{
    d->graph = g;
    d->n = g->nodes;
    d->features = g->features;
    d->classes = g->classes;
    d->x = g->x;
    d->y = g->y;
}

/* Rows divided by their sum, as in Kipf and Welling (2017). */
bool cj__set_cora(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d)
{
    (void)seed;
    char path[CJ_PATH];
    if (!cj__data_path(e, c, e->file, path)) return false;
    *strrchr(path, '/') = 0;
    cj_graph *g = cj_planetoid_load(c, path, "cora");
    if (!g) return false;
    if (g->classes > 10) {
        cj__place_error(c, "cj_dataset_open", path, 0, "7 classes were expected, %lld were found", (long long)g->classes);
        cj_graph_free(g);
        return false;
    }
    if (!cj__record_own(d, g)) return false;
    show_graph(d, g);
    if (o->raw) return true;
    size_t bytes = (size_t)(g->nodes * g->features) * sizeof(float);
    float *x = cj__alloc(c, bytes);
    bool ok = x && cj_to_f32(g->x, x, g->nodes * g->features);
    for (int64_t i = 0; ok && i < g->nodes; i++) {
        double sum = 0;
        for (int64_t j = 0; j < g->features; j++) sum += x[i * g->features + j];
        for (int64_t j = 0; j < g->features && sum > 0; j++) x[i * g->features + j] = (float)(x[i * g->features + j] / sum);
    }
    ok = ok && cj__record_tensor(d, d->x = cj_from_f32(c, x, CJ_SHAPE(g->nodes, g->features)));
    if (x) cj__free(c, x, bytes);
    return ok;
}

/* The club each member joined when the old one broke apart (Zachary 1977); features are the identity matrix, the two leaders are labelled. */
bool cj__set_karate(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d)
{
    UNUSED;
    static const char officer[] = "0000000001000011001010111111111111";
    enum { N = sizeof officer - 1 };
    char path[CJ_PATH];
    cj_graph *g = cj__data_path(e, c, e->file, path) ? cj_gml_load(c, path) : NULL;
    if (!g || !cj__record_own(d, g)) return false;
    if (g->nodes != N)
        return cj__place_error(c, "cj_dataset_open", path, 0, "%d nodes were expected, %lld were found", N, (long long)g->nodes);
    float x[N * N] = { 0 };
    int64_t y[N], node[N];
    for (int i = 0; i < N; i++) {
        x[i * N + i] = 1;
        y[i] = officer[i] == '1';
        node[i] = i;
    }
    g->features = N;
    g->classes = 2;
    bool ok = cj__record_tensor(g, g->x = cj_from_f32(c, x, CJ_SHAPE(N, N))) &&
              cj__record_tensor(g, g->y = cj_from_i64(c, y, CJ_SHAPE(N))) &&
              cj__record_tensor(g, g->train = cj_from_i64(c, (int64_t[]){ 0, N - 1 }, CJ_SHAPE(2))) &&
              cj__record_tensor(g, g->test = cj_from_i64(c, node + 1, CJ_SHAPE(N - 2)));
    show_graph(d, g);
    return ok;
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------------------------ */

/* SST-2: "sentence<TAB>0 or 1"; the sentence is kept. */
bool cj__set_sst2(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d)
{
    UNUSED;
    static const char *const files[] = { "train.tsv", "dev.tsv", "test.tsv" };
    cj_tensor **y[] = { &d->train_y, &d->val_y, &d->test_y };
    d->classes = 2;
    for (int k = 0; k < 3; k++) {
        char path[CJ_PATH];
        cj_lines *l = cj__data_path(e, c, files[k], path) ? cj_lines_load(c, path) : NULL;
        if (!l || !cj__record_own(d, l)) return false;
        int64_t *label = cj__record_alloc(d, (size_t)l->n * sizeof *label);
        if (!label) return false;
        for (int64_t i = 0; i < l->n; i++) {
            char *line = (char *)l->line[i]; /* our own copy */
            int64_t n = l->length[i];
            bool ok = n >= 2 && line[n - 2] == '\t' && (line[n - 1] == '0' || line[n - 1] == '1');
            if (!ok)
                return cj__place_error(c, "cj_dataset_open", path, line - l->line[0],
                                       "line %lld: a sentence, a tab and 0 or 1 were expected, '%.40s' was found", (long long)i + 1, line);
            label[i] = line[n - 1] == '1';
            line[n - 2] = 0;
            ((int64_t *)l->length)[i] = n - 2;
        }
        d->lines[k] = l;
        d->n += l->n;
        if (!cj__record_tensor(d, *y[k] = cj_from_i64(c, label, CJ_SHAPE(l->n)))) return false;
    }
    return true;
}

bool cj__set_multi30k(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d)
{
    UNUSED;
    static const char *const parts[] = { "train", "val", "test_2016_flickr" };
    for (int k = 0; k < 3; k++) {
        char path[2][CJ_PATH], name[64];
        for (int side = 0; side < 2; side++) {
            snprintf(name, sizeof name, "%s.%s", parts[k], side ? "en" : e->file);
            if (!cj__data_path(e, c, name, path[side])) return false;
        }
        cj_lines *a, *b;
        if (!cj_parallel_load(c, path[0], path[1], &a, &b)) return false;
        if (!cj__record_own(d, a)) return cj_lines_free(b), false;
        if (!cj__record_own(d, b)) return false;
        d->lines[k] = a;
        d->target[k] = b;
        d->n += a->n;
    }
    return true;
}

/* Names: lines in a shuffled order, and the same as one text, so that a model of characters learns them; the parts of both agree. */
bool cj__set_names(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d)
{
    char path[CJ_PATH];
    cj_lines *all = cj__data_path(e, c, e->file, path) ? cj_lines_load(c, path) : NULL;
    if (!all || !cj__record_own(d, all)) return false;
    if (all->n < 3)
        return cj__place_error(c, "cj_dataset_open", path, 0, "3 names or more were expected, %lld were found", (long long)all->n);
    int64_t test, val, n = all->n, bytes = 0;
    if (!cj__shares(c, e, o, n, &test, &val)) return false;
    for (int64_t i = 0; i < n; i++) bytes += all->length[i] + 1;
    int64_t *order = cj__record_alloc(d, (size_t)n * sizeof *order);
    const char **line = order ? cj__record_alloc(d, (size_t)n * sizeof *line) : NULL;
    int64_t *length = line ? cj__record_alloc(d, (size_t)n * sizeof *length) : NULL;
    cj_lines *part = length ? cj__record_alloc(d, 3 * sizeof *part) : NULL;
    char *text = part ? cj__record_alloc(d, (size_t)bytes) : NULL;
    if (!text) return false;
    cj__shuffle(order, n, seed);
    cj_text t = { .ctx = c, .bytes = (const unsigned char *)text, .n = (size_t)bytes };
    for (int64_t i = 0; i < n; i++) {
        line[i] = all->line[order[i]];
        length[i] = all->length[order[i]];
        memcpy(text, line[i], (size_t)length[i]);
        text += length[i];
        *text++ = '\n';
        if (i >= n - test) t.test += (size_t)length[i] + 1;
        else if (i >= n - test - val) t.val += (size_t)length[i] + 1;
    }
    int64_t start[] = { 0, n - test - val, n - test, n };
    for (int k = 0; k < 3; k++) {
        part[k] = (cj_lines){ start[k + 1] - start[k], line + start[k], length + start[k] };
        d->lines[k] = &part[k];
    }
    return cj__fill_text(d, e, o, &t);
}

/* ---- BCCD ------------------------------------------------------------------------------------------------------------------------------------- */

enum { HEIGHT = 120, WIDTH = 160, PIXELS = 3 * HEIGHT * WIDTH }; /* a quarter of 640 x 480 */

typedef struct bccd {
    cj_ctx *ctx;
    cj_dataset *d;
    cj_bytes archive;
    unsigned char *pixels;
    float *x;
    cj_boxes **boxes;
    int64_t room;
} bccd;

/* Row n: the image and its boxes, brought to HEIGHT x WIDTH. */
static bool bccd_row(bccd *s, const char *name, int64_t n)
{
    char file[300];
    cj_bytes member;
    cj_pixels p = { 0 };
    snprintf(file, sizeof file, "JPEGImages/%.250s.jpg", name);
    bool ok = cj__tar_find(&s->archive, file, &member) && cj__image_read(&member, &p);
    int64_t h = p.height, w = p.width;
    if (ok) cj__pixels_fit(&p, 3, HEIGHT, WIDTH, s->pixels);
    if (p.data) cj__pixels_free(&p);
    snprintf(file, sizeof file, "Annotations/%.250s.xml", name);
    cj_boxes *b = ok && cj__tar_find(&s->archive, file, &member) ? cj__voc_read(&member) : NULL;
    if (!b || !cj__record_own(s->d, b)) return false;
    for (int64_t i = 0; i < b->n; i++) {
        cj_box *k = (cj_box *)&b->box[i];
        k->xmin *= (double)WIDTH / (double)w, k->xmax *= (double)WIDTH / (double)w;
        k->ymin *= (double)HEIGHT / (double)h, k->ymax *= (double)HEIGHT / (double)h;
    }
    b->width = WIDTH;
    b->height = HEIGHT;
    s->boxes[n] = b;
    for (int i = 0; i < PIXELS; i++) s->x[n * PIXELS + i] = (float)s->pixels[i] / 255.0f;
    return true;
}

/* The names in ImageSets/Main/PART.txt; the number of rows so far grows. */
static bool bccd_part(bccd *s, const char *part, int64_t *n)
{
    char file[64], name[256];
    cj_bytes list;
    snprintf(file, sizeof file, "ImageSets/Main/%s.txt", part);
    if (!cj__tar_find(&s->archive, file, &list)) return false;
    const char *at = (const char *)list.data, *end = at + list.n;
    while (at < end) {
        size_t length = 0;
        for (; at < end && (unsigned char)*at > ' '; at++)
            if (length < sizeof name - 1) name[length++] = *at;
        name[length] = 0;
        while (at < end && (unsigned char)*at <= ' ') at++;
        if (!length) continue;
        if (*n == s->room)
            return cj__bytes_error(&s->archive, (size_t)(at - (const char *)s->archive.data),
                                   "%lld images were expected, more were found in %s", (long long)s->room, file);
        if (!bccd_row(s, name, (*n)++)) return false;
    }
    return true;
}

bool cj__set_bccd(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d)
{
    UNUSED;
    char path[CJ_PATH];
    bccd s = { .ctx = c, .d = d, .room = 364 };
    if (!cj__data_path(e, c, e->file, path) || !cj__bytes_load(&s.archive, c, "cj_dataset_open", path)) return false;
    size_t bytes = (size_t)s.room * PIXELS * sizeof(float);
    s.boxes = cj__record_alloc(d, (size_t)s.room * sizeof *s.boxes);
    s.pixels = s.boxes ? cj__alloc(c, PIXELS) : NULL;
    s.x = s.pixels ? cj__alloc(c, bytes) : NULL;
    int64_t n = 0, train = 0, val = 0;
    bool ok = s.x && bccd_part(&s, "train", &n) && (train = n, bccd_part(&s, "val", &n)) && (val = n - train, bccd_part(&s, "test", &n));
    ok = ok && cj__record_tensor(d, d->x = cj_from_f32(c, s.x, CJ_SHAPE(n, PIXELS)));
    cj_tensor **part[] = { &d->train_x, &d->val_x, &d->test_x };
    int64_t start[] = { 0, train, train + val, n };
    for (int k = 0; k < 3 && ok; k++) {
        int64_t shape[] = { start[k + 1] - start[k], PIXELS }, stride[] = { PIXELS, 1 };
        ok = cj__record_tensor(d, *part[k] = cj__tensor_view(d->x, start[k] * PIXELS, 2, shape, stride));
    }
    d->n = n;
    d->features = PIXELS;
    d->channels = 3;
    d->height = HEIGHT;
    d->width = WIDTH;
    d->classes = 3;
    d->boxes = (const cj_boxes *const *)s.boxes;
    if (s.x) cj__free(c, s.x, bytes);
    if (s.pixels) cj__free(c, s.pixels, PIXELS);
    cj__bytes_free(&s.archive);
    return ok;
}
