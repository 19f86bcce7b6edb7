/* Data sets: the list, the split, the scaling, and the tensors.
 *
 * The split is a Fisher-Yates shuffle whose numbers are Philox words of a reserved call of the data stream: a pure function of the seed and the number of
 * rows.  The first part of the shuffled rows is held out.
 */
#include <math.h>
#include <stdlib.h>

#include "core/philox.h"
#include "data/dataset.h"

/* ---- the list ----------------------------------------------------------------------------------------------------------------------------------- */

static const char *const numbers[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };
static const char *const plane[] = { "x", "y" };
static const char *const iris_classes[] = { "setosa", "versicolor", "virginica" };
static const char *const iris_features[] = { "sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)" };
static const char *const wine_classes[] = { "class_0", "class_1", "class_2" };
static const char *const wine_features[] = { "alcohol",         "malic_acid",      "ash",        "alcalinity_of_ash",
                                             "magnesium",       "total_phenols",   "flavanoids", "nonflavanoid_phenols",
                                             "proanthocyanins", "color_intensity", "hue",        "od280/od315_of_diluted_wines",
                                             "proline" };
static const char *const cancer_classes[] = { "malignant", "benign" };
static const char *const cancer_features[] = {
    "mean radius",       "mean texture",    "mean perimeter",       "mean area",      "mean smoothness",
    "mean compactness",  "mean concavity",  "mean concave points",  "mean symmetry",  "mean fractal dimension",
    "radius error",      "texture error",   "perimeter error",      "area error",     "smoothness error",
    "compactness error", "concavity error", "concave points error", "symmetry error", "fractal dimension error",
    "worst radius",      "worst texture",   "worst perimeter",      "worst area",     "worst smoothness",
    "worst compactness", "worst concavity", "worst concave points", "worst symmetry", "worst fractal dimension",
};
static const char *const diabetes_features[] = { "age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6" };

static const cj_dataset_info list[] = {
    { "digits", "image", "1797 handwritten digits of 8 x 8 grey levels, 10 classes (UCI)" },
    { "iris", "table", "150 flowers, 4 lengths, 3 species (Fisher 1936)" },
    { "wine", "table", "178 wines, 13 chemical measurements, 3 growers (UCI)" },
    { "breast_cancer", "table", "569 tumours, 30 measurements, malignant or benign (UCI)" },
    { "diabetes", "table", "442 patients, 10 measurements, progress of the disease after a year: a value (Efron et al. 2004)" },
    { "moons", "generated", "two half circles that reach into each other, 2 classes" },
    { "spirals", "generated", "arms of one and a half turns, 2 classes or more" },
    { "blobs", "generated", "Gaussian clouds on a circle, 3 classes or more" },
    { "xor", "generated", "clouds at the corners of a square, class x XOR y" },
    { "sources", "text", "this project's own headers and sources, in ASCII" },
    { "shakespeare", "text", "tiny Shakespeare, 1.1 MB, from $CAJAL_DATA or ~/.cache/cajal" },
};
enum { COUNT = sizeof list / sizeof list[0] };

static const cj_dataset_entry entries[COUNT] = {
    { .rows = cj__table_digits, .scale = 1.0 / 16, .height = 8, .width = 8, .class_names = numbers },
    { .rows = cj__table_iris, .class_names = iris_classes, .feature_names = iris_features },
    { .rows = cj__table_wine, .class_names = wine_classes, .feature_names = wine_features },
    { .rows = cj__table_breast_cancer, .class_names = cancer_classes, .feature_names = cancer_features },
    { .rows = cj__table_diabetes, .feature_names = diabetes_features },
    { .rows = cj__points_moons, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__points_spirals, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__points_blobs, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__points_xor, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .text = cj__text_sources },
    { .text = cj__text_shakespeare },
};

const cj_dataset_info *cj_dataset_list(int *n)
{
    if (n) *n = COUNT;
    return list;
}

static int find(cj_ctx *c, const char *name)
{
    for (int i = 0; i < COUNT && name; i++)
        if (strcmp(list[i].name, name) == 0) return i;
    char known[256];
    size_t n = 0;
    for (int i = 0; i < COUNT; i++) n += (size_t)snprintf(known + n, sizeof known - n, i ? ", %s" : "%s", list[i].name);
    cj__error(c, CJ_EVALUE, "cj_dataset_open: there is no data set '%s'; there are %s", name ? name : "NULL", known);
    return -1;
}

/* ---- memory --------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct dataset {
    cj_dataset public; /* first: the caller's pointer */
    cj_object object;
    cj_ctx *ctx;
} dataset;

static void drop(dataset *d)
{
    cj_tensor *t[] = { d->public.x, d->public.y, d->public.train_x, d->public.train_y, d->public.test_x, d->public.test_y };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) cj_release(t[i]);
    cj__free(d->ctx, d, sizeof *d);
}

static void object_free(cj_object *o) { drop((dataset *)((char *)o - offsetof(dataset, object))); }

void cj_dataset_free(cj_dataset *p)
{
    if (!p) return;
    dataset *d = (dataset *)p;
    cj__object_remove(d->ctx, &d->object);
    drop(d);
}

bool cj__rows_alloc(cj_rows *r, cj_ctx *c, int64_t n, int64_t features)
{
    *r = (cj_rows){ .ctx = c, .n = n, .features = features };
    r->x = cj__alloc(c, (size_t)(n * features) * sizeof *r->x);
    r->y = r->x ? cj__alloc(c, (size_t)n * sizeof *r->y) : NULL;
    if (r->y) return true;
    cj__rows_free(r);
    return false;
}

void cj__rows_free(cj_rows *r)
{
    cj__free(r->ctx, r->x, (size_t)(r->n * r->features) * sizeof *r->x);
    cj__free(r->ctx, r->y, (size_t)r->n * sizeof *r->y);
    r->x = r->y = NULL;
}

/* A persistent tensor of these values; NULL after an error. */
static cj_tensor *persistent(cj_ctx *c, const void *values, cj_dtype dtype, cj_shape shape)
{
    cj_tensor *t = cj_from_data(c, values, dtype, shape);
    if (cj_is_poison(t)) return NULL;
    cj__make_persistent(t);
    return t;
}

/* ---- split and scale --------------------------------------------------------------------------------------------------------------------------------- */

static void shuffle(int64_t *order, int64_t n, uint64_t seed)
{
    uint32_t key[2], w[4] = { 0 };
    cj_philox_key(seed, CJ_STREAM_DATA, key);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        cj_philox_block(key, CJ_CALL_SPLIT, (uint64_t)i, w);
        int64_t j = (int64_t)cj_philox_below(cj_philox_word64(w[0], w[1]), (uint64_t)i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

/* How many of n are held out; -1 after an error. */
static int64_t held_out(cj_ctx *c, const cj_dataset_opts *o, int64_t n)
{
    double share = o->held_out == CJ_ZERO ? 0 : o->held_out == 0 ? 0.2 : o->held_out;
    if (!(share >= 0 && share < 1)) {
        cj__error(c, CJ_EVALUE, "cj_dataset_open: a share of %g held out; it lies in 0 … 1", share);
        return -1;
    }
    int64_t m = llround(share * (double)n);
    if (share > 0 && m == 0) m = 1;
    return m < n ? m : n - 1;
}

/* Mean and deviation of a column over the training rows. */
static void moments(const float *x, int64_t stride, const int64_t *rows, int64_t n, double *mean, double *deviation)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) sum += x[rows[i] * stride];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = x[rows[i] * stride] - *mean;
        square += d * d;
    }
    *deviation = sqrt(square / (double)n);
    if (!(*deviation > 0)) *deviation = 1;
}

static void standardise(float *x, int64_t stride, int64_t n, double mean, double deviation)
{
    for (int64_t i = 0; i < n; i++) x[i * stride] = (float)((x[i * stride] - mean) / deviation);
}

static void scale(cj_rows *r, const cj_dataset_entry *e, const int64_t *train, int64_t n, cj_dataset *d)
{
    if (e->scale != 0) {
        for (int64_t i = 0; i < r->n * r->features; i++) r->x[i] *= (float)e->scale;
    } else {
        for (int64_t j = 0; j < r->features; j++) {
            double mean, deviation;
            moments(r->x + j, r->features, train, n, &mean, &deviation);
            standardise(r->x + j, r->features, r->n, mean, deviation);
        }
    }
    if (r->classes) return;
    moments(r->y, 1, train, n, &d->y_mean, &d->y_std);
    standardise(r->y, 1, r->n, d->y_mean, d->y_std);
}

/* Rows in an order (NULL: their own) as tensors. */
static bool wrap(const cj_rows *r, const int64_t *order, int64_t n, cj_tensor **x, cj_tensor **y)
{
    cj_ctx *c = r->ctx;
    size_t row = (size_t)r->features * sizeof(float), bytes = (size_t)n * (row > sizeof(int64_t) ? row : sizeof(int64_t));
    char *room = cj__alloc(c, bytes ? bytes : 1);
    if (!room) return false;
    for (int64_t i = 0; i < n; i++) memcpy(room + (size_t)i * row, r->x + (order ? order[i] : i) * r->features, row);
    *x = persistent(c, room, CJ_F32, CJ_SHAPE(n, r->features));
    if (*x && r->classes) {
        for (int64_t i = 0; i < n; i++) ((int64_t *)room)[i] = (int64_t)r->y[order ? order[i] : i];
        *y = persistent(c, room, CJ_I64, CJ_SHAPE(n));
    } else if (*x) {
        for (int64_t i = 0; i < n; i++) ((float *)room)[i] = r->y[order ? order[i] : i];
        *y = persistent(c, room, CJ_F32, CJ_SHAPE(n, 1));
    }
    cj__free(c, room, bytes ? bytes : 1);
    return *x && *y;
}

static bool fill_rows(cj_dataset *d, const cj_dataset_entry *e, const cj_dataset_opts *o, uint64_t seed, cj_rows *r)
{
    cj_ctx *c = r->ctx;
    int64_t out = held_out(c, o, r->n);
    if (out < 0) return false;
    d->n = r->n;
    d->features = r->features;
    d->classes = r->classes;
    size_t bytes = (size_t)r->n * sizeof(int64_t);
    int64_t *order = cj__alloc(c, bytes);
    if (!order) return false;
    shuffle(order, r->n, seed);
    if (!o->raw) scale(r, e, order + out, r->n - out, d);
    bool ok = wrap(r, NULL, r->n, &d->x, &d->y) && wrap(r, order + out, r->n - out, &d->train_x, &d->train_y) &&
              wrap(r, order, out, &d->test_x, &d->test_y);
    cj__free(c, order, bytes);
    return ok;
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *part(cj_tensor *x, int64_t start, int64_t n)
{
    int64_t stride = 1;
    cj_tensor *t = cj__tensor_view(x, start, 1, &n, &stride);
    if (t) cj__make_persistent(t);
    return t;
}

static bool fill_text(cj_dataset *d, const cj_dataset_opts *o, const cj_text *t)
{
    cj_ctx *c = t->ctx;
    if (t->n == 0) return cj__error(c, CJ_EFILE, "cj_dataset_open: %s is empty", d->name);
    int64_t n = (int64_t)t->n, out = held_out(c, o, n);
    if (out < 0) return false;
    bool seen[256] = { false };
    for (int64_t i = 0; i < n; i++) seen[t->bytes[i]] = true;
    for (int b = 0; b < 256; b++) {
        d->number[b] = -1;
        if (!seen[b]) continue;
        d->number[b] = (int16_t)d->classes;
        d->symbol[d->classes++] = (unsigned char)b;
    }
    d->is_text = true;
    d->n = n;
    d->features = 1;
    size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *numbered = cj__alloc(c, bytes);
    if (!numbered) return false;
    for (int64_t i = 0; i < n; i++) numbered[i] = d->number[t->bytes[i]];
    d->x = persistent(c, numbered, CJ_I64, CJ_SHAPE(n));
    cj__free(c, numbered, bytes);
    if (d->x) d->train_x = part(d->x, 0, n - out);
    if (d->train_x) d->test_x = part(d->x, n - out, out);
    return d->test_x != NULL;
}

/* ---- opening --------------------------------------------------------------------------------------------------------------------------------------------- */

static bool fill(cj_ctx *c, cj_dataset *d, int i, const cj_dataset_opts *o)
{
    const cj_dataset_entry *e = &entries[i];
    uint64_t seed = o->seed ? o->seed : c->rng.seed;
    d->name = list[i].name;
    d->summary = list[i].summary;
    d->class_names = e->class_names;
    d->feature_names = e->feature_names;
    d->height = e->height;
    d->width = e->width;
    d->y_std = 1;
    if (e->text) {
        cj_text t = { 0 };
        bool ok = e->text(e, c, &t) && fill_text(d, o, &t);
        cj__text_free(&t);
        return ok;
    }
    cj_rows r = { 0 };
    if (!e->rows(e, c, o, seed, &r)) return false;
    bool ok = fill_rows(d, e, o, seed, &r);
    cj__rows_free(&r);
    return ok;
}

cj_dataset *cj_dataset_open(cj_ctx *c, const char *name, const cj_dataset_opts *opts)
{
    static const cj_dataset_opts defaults;
    if (!c || !cj__cancel_check(c)) return NULL;
    int i = find(c, name);
    if (i < 0) return NULL;
    dataset *d = cj__zalloc(c, sizeof *d);
    if (!d) return NULL;
    d->ctx = c;
    int depth = cj__frame_open(c); /* what an error leaves behind goes at once */
    bool ok = depth && fill(c, &d->public, i, opts ? opts : &defaults);
    if (depth) cj__frame_close(c, depth, NULL, 0);
    if (!ok) {
        drop(d);
        return NULL;
    }
    cj__object_add(c, &d->object, object_free);
    return &d->public;
}
