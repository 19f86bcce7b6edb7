/* Data sets: the list, the split, the scaling, and the tensors.
 *
 * The split is a Fisher-Yates shuffle whose numbers are Philox words of a reserved call of the data stream: a pure function of the seed and the number of
 * rows.  The first part of the shuffled rows is held out.
 */
#include <math.h>
#include <stdlib.h>

#include "core/philox.h"
#include "data/dataset.h"

/* ---- the list --------------------------------------------------------------------------------------------------------------------------------- */

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

static const char *const boston_features[] = { "CRIM", "ZN",  "INDUS", "CHAS",    "NOX", "RM",   "AGE",
                                               "DIS",  "RAD", "TAX",   "PTRATIO", "B",   "LSTAT" };
static const char *const cifar_classes[] = { "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck" };
static const char *const sentiments[] = { "negative", "positive" };
static const char *const clubs[] = { "Mr. Hi", "Officer" };
static const char *const fruit[] = { "no orange", "orange" };
static const char *const sexes[] = { "woman", "man" };
static const char *const height_features[] = { "height (cm)" };
static const char *const car_features[] = { "mpg", "owners" };
static const char *const cells[] = { "RBC", "WBC", "Platelets" };

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
    { "rings", "generated", "circles of radius 1, 2, … around the same centre, 2 classes or more" },
    { "margin", "generated", "two Gaussian clouds with a gap of width 1 between them, 2 classes" },
    { "sines", "generated", "w sin(A x) + b with noise, 2 features: a value" },
    { "polynomial", "generated", "1 - 2 x + 3 x^3 with noise: a value" },
    { "wave", "generated", "2 sin x + x with noise: a value" },
    { "wedge", "generated", "x with noise that grows with x: a value" },
    { "outliers", "generated", "2 x + 1 with noise, every tenth row 10 too high: a value" },
    { "gumbel", "generated", "numbers of Gumbel's law, whatever x is: a value" },
    { "random", "generated", "10 normal numbers and a class that has nothing to do with them" },
    { "oranges", "generated", "100 x 100 colour images of rough green with or without an orange disc, 2 classes" },
    { "heights", "generated", "heights of women and men in cm, 2 classes" },
    { "cars", "generated", "miles per gallon and owners of a car, its price in thousands: a value" },
    { "sources", "text", "this project's own headers and sources, in ASCII" },
    { "shakespeare", "text", "tiny Shakespeare, 1.1 MB, from $CAJAL_DATA or ~/.cache/cajal" },
    { "tinyshakespeare", "text", "the same, the last tenth held out: 5 % validation, 5 % test (Karpathy 2015)" },
    { "wikitext-2", "text", "articles of Wikipedia, validation and test parts, 2.4 MB (Merity et al. 2016)" },
    { "names", "text", "32033 first names, one per line (makemore)" },
    { "mnist", "image", "70000 handwritten digits of 28 x 28 grey levels, 10 classes (LeCun et al. 1998)" },
    { "cifar10", "image", "20000 colour images of 32 x 32, 10 classes, the batches at hand (Krizhevsky 2009)" },
    { "olivetti", "image", "400 faces of 64 x 64 grey levels, 40 people (AT&T)" },
    { "boston", "table", "506 districts of Boston, 13 measurements, price of houses: a value (Harrison, Rubinfeld 1978)" },
    { "california", "table", "20640 districts of California, 13 measurements, price of houses: a value (Pace, Barry 1997)" },
    { "gunpoint", "series", "200 movements of 150 steps, 2 classes (UCR)" },
    { "italypower", "series", "1096 days of power demand of 24 hours, 2 classes (UCR)" },
    { "arrowhead", "series", "211 outlines of arrow heads of 251 steps, 3 classes (UCR)" },
    { "basicmotions", "series", "80 movements of 6 channels and 100 steps, 4 classes (UEA)" },
    { "japanesevowels", "series", "640 vowels of 12 channels and up to 29 steps, 9 speakers (UEA)" },
    { "airline", "series", "144 months of airline passengers: 12 values and the next (Box, Jenkins)" },
    { "sunspots", "series", "2820 months of sunspots: 12 values and the next" },
    { "temperatures", "series", "3650 daily minimum temperatures in Melbourne: 12 values and the next" },
    { "shampoo", "series", "36 months of shampoo sales: 12 values and the next" },
    { "sst2", "lines", "9613 sentences of film reviews, negative or positive (Socher et al. 2013)" },
    { "multi30k-de-en", "translation", "31014 descriptions of pictures, German to English (Elliott et al. 2016)" },
    { "multi30k-fr-en", "translation", "31014 descriptions of pictures, French to English" },
    { "cora", "graph", "2708 papers, 1433 words, 5278 citations, 7 topics, Planetoid's split (Sen et al. 2008)" },
    { "karate", "graph", "34 members of a karate club, 78 friendships, 2 factions (Zachary 1977)" },
    { "bccd", "boxes", "364 microscope images of blood, 4888 boxes of 3 kinds of cells" },
};
enum { COUNT = sizeof list / sizeof list[0] };

static const cj_dataset_entry entries[COUNT] = {
    { .rows = cj__table_digits, .scale = 1.0 / 16, .channels = 1, .height = 8, .width = 8, .class_names = numbers },
    { .rows = cj__table_iris, .class_names = iris_classes, .feature_names = iris_features },
    { .rows = cj__table_wine, .class_names = wine_classes, .feature_names = wine_features },
    { .rows = cj__table_breast_cancer, .class_names = cancer_classes, .feature_names = cancer_features },
    { .rows = cj__table_diabetes, .feature_names = diabetes_features },
    { .rows = cj__points_moons, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__points_spirals, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__points_blobs, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__points_xor, .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__synthetic, .law = "rings", .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__synthetic, .law = "margin", .scale = 1, .class_names = numbers, .feature_names = plane },
    { .rows = cj__synthetic, .law = "sines", .scale = 1, .feature_names = plane },
    { .rows = cj__synthetic, .law = "polynomial", .scale = 1, .feature_names = plane },
    { .rows = cj__synthetic, .law = "wave", .scale = 1, .feature_names = plane },
    { .rows = cj__synthetic, .law = "wedge", .scale = 1, .feature_names = plane },
    { .rows = cj__synthetic, .law = "outliers", .scale = 1, .feature_names = plane },
    { .rows = cj__synthetic, .law = "gumbel", .scale = 1, .feature_names = plane },
    { .rows = cj__synthetic, .law = "random", .scale = 1, .class_names = numbers },
    { .rows = cj__synthetic, .law = "oranges", .scale = 1, .channels = 3, .height = 100, .width = 100, .class_names = fruit },
    { .rows = cj__synthetic, .law = "heights", .class_names = sexes, .feature_names = height_features },
    { .rows = cj__synthetic, .law = "cars", .feature_names = car_features },
    { .text = cj__text_sources },
    { .text = cj__text_file, .folder = "tinyshakespeare", .file = "input.txt" },
    { .text = cj__text_file, .folder = "tinyshakespeare", .file = "input.txt", .held_out = 0.05, .validation = 1.0 / 19 },
    { .text = cj__text_wikitext, .folder = "wikitext-2", .validation = 0.1 },
    { .fill = cj__set_names, .folder = "names", .file = "names.txt", .held_out = 0.1, .validation = 0.1 },
    { .rows = cj__set_mnist,
      .folder = "mnist",
      .scale = 1.0 / 255,
      .validation = 1.0 / 12,
      .channels = 1,
      .height = 28,
      .width = 28,
      .class_names = numbers },
    { .rows = cj__set_cifar10,
      .folder = "cifar10",
      .scale = 1.0 / 255,
      .validation = 0.1,
      .channels = 3,
      .height = 32,
      .width = 32,
      .class_names = cifar_classes },
    { .rows = cj__set_olivetti,
      .folder = "olivetti",
      .file = "olivettifaces.mat",
      .scale = 1.0 / 255,
      .validation = 0.1,
      .channels = 1,
      .height = 64,
      .width = 64 },
    { .rows = cj__set_boston, .folder = "housing", .file = "boston.housing.data", .validation = 0.1, .feature_names = boston_features },
    { .rows = cj__set_california, .folder = "housing", .file = "california_housing.tgz", .validation = 0.1 },
    { .rows = cj__set_ucr, .folder = "timeseries", .file = "ucr/GunPoint", .scale = 1, .validation = 0.1 },
    { .rows = cj__set_ucr, .folder = "timeseries", .file = "ucr/ItalyPowerDemand", .scale = 1, .validation = 0.1 },
    { .rows = cj__set_ucr, .folder = "timeseries", .file = "ucr/ArrowHead", .scale = 1, .validation = 0.1 },
    { .rows = cj__set_ucr, .folder = "timeseries", .file = "ucr/BasicMotions", .scale = 1, .validation = 0.1 },
    { .rows = cj__set_ucr, .folder = "timeseries", .file = "ucr/JapaneseVowels", .scale = 1, .validation = 0.1 },
    { .rows = cj__set_series,
      .folder = "timeseries",
      .file = "airline-passengers.csv",
      .validation = 0.1,
      .channels = 1,
      .height = 1,
      .width = 12 },
    { .rows = cj__set_series,
      .folder = "timeseries",
      .file = "monthly-sunspots.csv",
      .validation = 0.1,
      .channels = 1,
      .height = 1,
      .width = 12 },
    { .rows = cj__set_series,
      .folder = "timeseries",
      .file = "daily-min-temperatures.csv",
      .validation = 0.1,
      .channels = 1,
      .height = 1,
      .width = 12 },
    { .rows = cj__set_series, .folder = "timeseries", .file = "shampoo.csv", .validation = 0.1, .channels = 1, .height = 1, .width = 12 },
    { .fill = cj__set_sst2, .folder = "sst2", .class_names = sentiments },
    { .fill = cj__set_multi30k, .folder = "multi30k", .file = "de" },
    { .fill = cj__set_multi30k, .folder = "multi30k", .file = "fr" },
    { .fill = cj__set_cora, .folder = "cora", .file = "planetoid/ind.cora.x", .class_names = numbers },
    { .fill = cj__set_karate, .folder = "karate", .file = "karate.gml", .class_names = clubs },
    { .fill = cj__set_bccd, .folder = "bccd", .file = "BCCD.tar.gz", .class_names = cells },
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
    char known[CJ_MAX_MESSAGE];
    size_t n = 0;
    for (int i = 0; i < COUNT && n < sizeof known; i++) n += (size_t)snprintf(known + n, sizeof known - n, i ? ", %s" : "%s", list[i].name);
    cj__error(c, CJ_EVALUE, "cj_dataset_open: there is no data set '%s'; there are %s", name ? name : "NULL", known);
    return -1;
}

/* ---- memory ----------------------------------------------------------------------------------------------------------------------------------- */

void cj_dataset_free(cj_dataset *d) { cj__record_free(d); }

bool cj__rows_alloc(cj_rows *r, cj_ctx *c, int64_t n, int64_t features)
{
    r->ctx = c;
    r->n = n;
    r->features = features;
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

/* A tensor of these values that goes with the data set; NULL after an error. */
static cj_tensor *persistent(cj_dataset *d, const void *values, cj_dtype dtype, cj_shape shape)
{
    cj_tensor *t = cj_from_data(cj__record_ctx(d), values, dtype, shape);
    return cj__record_tensor(d, t) ? t : NULL;
}

/* Rows start … start + n - 1 of t, not a copy. */
static cj_tensor *part(cj_dataset *d, cj_tensor *t, int64_t start, int64_t n)
{
    int64_t shape[2] = { n, t->ndim > 1 ? t->shape[1] : 1 }, stride[2] = { shape[1], 1 };
    cj_tensor *v = cj__tensor_view(t, start * shape[1], t->ndim, shape, stride);
    return v && cj__record_tensor(d, v) ? v : NULL;
}

/* ---- split and scale -------------------------------------------------------------------------------------------------------------------------- */

void cj__shuffle(int64_t *order, int64_t n, uint64_t seed)
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

/* A share as the caller or the set's entry has it, of n; -1 after an error. */
static int64_t share_of(cj_ctx *c, double asked, double usual, int64_t n, const char *what)
{
    double share = asked == CJ_ZERO ? 0 : asked == 0 ? usual : asked;
    if (!(share >= 0 && share < 1)) {
        cj__error(c, CJ_EVALUE, "cj_dataset_open: a share of %g %s; it lies in 0 … 1", share, what);
        return -1;
    }
    int64_t m = llround(share * (double)n);
    if (share > 0 && m == 0) m = 1;
    return m < n ? m : n > 0 ? n - 1 : 0;
}

bool cj__shares(cj_ctx *c, const cj_dataset_entry *e, const cj_dataset_opts *o, int64_t n, int64_t *test, int64_t *val)
{
    *test = share_of(c, o->held_out, e->held_out > 0 ? e->held_out : 0.2, n, "held out");
    *val = *test < 0 ? -1 : share_of(c, o->validation, e->validation, n - *test, "for validation");
    return *val >= 0;
}

/* Mean and deviation of a column over the training rows. */
static void moments(const float *x, int64_t stride, const int64_t *rows, int64_t n, double *mean, double *deviation)
{
    double sum = 0, square = 0;
    int64_t there = 0; /* values that are not missing */
    for (int64_t i = 0; i < n; i++) {
        float v = x[rows[i] * stride];
        if (v == v) sum += v, there++;
    }
    *mean = there ? sum / (double)there : 0;
    for (int64_t i = 0; i < n; i++) {
        double d = x[rows[i] * stride] - *mean;
        if (d == d) square += d * d;
    }
    *deviation = there ? sqrt(square / (double)there) : 0;
    if (!(*deviation > 0)) *deviation = 1;
}

static void standardise(float *x, int64_t stride, int64_t n, double mean, double deviation)
{
    for (int64_t i = 0; i < n; i++) {
        float v = x[i * stride];
        x[i * stride] = v == v ? (float)((v - mean) / deviation) : 0; /* what is missing becomes the mean */
    }
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
    for (int64_t i = 0; order && i < n; i++) memcpy(room + (size_t)i * row, r->x + order[i] * r->features, row);
    *x = persistent(r->set, order ? (void *)room : (void *)r->x, CJ_F32, CJ_SHAPE(n, r->features));
    if (*x && r->classes) {
        for (int64_t i = 0; i < n; i++) ((int64_t *)(void *)room)[i] = (int64_t)r->y[order ? order[i] : i];
        *y = persistent(r->set, room, CJ_I64, CJ_SHAPE(n));
    } else if (*x) {
        for (int64_t i = 0; i < n; i++) ((float *)(void *)room)[i] = r->y[order ? order[i] : i];
        *y = persistent(r->set, room, CJ_F32, CJ_SHAPE(n, 1));
    }
    cj__free(c, room, bytes ? bytes : 1);
    return *x && *y;
}

/* No official split: shuffled rows; the first are held out, the next are for validation. */
static bool split(cj_dataset *d, const cj_dataset_entry *e, const cj_dataset_opts *o, uint64_t seed, cj_rows *r)
{
    cj_ctx *c = r->ctx;
    int64_t out, val;
    if (!cj__shares(c, e, o, r->n, &out, &val)) return false;
    size_t bytes = (size_t)r->n * sizeof(int64_t);
    int64_t *order = cj__alloc(c, bytes), rest = r->n - out - val;
    if (!order) return false;
    cj__shuffle(order, r->n, seed);
    if (!o->raw) scale(r, e, order + out + val, rest, d);
    bool ok = wrap(r, NULL, r->n, &d->x, &d->y) && wrap(r, order + out + val, rest, &d->train_x, &d->train_y) &&
              wrap(r, order, out, &d->test_x, &d->test_y) && wrap(r, order + out, val, &d->val_x, &d->val_y);
    cj__free(c, order, bytes);
    return ok;
}

static void swap_rows(cj_rows *r, int64_t i, int64_t j)
{
    float t = r->y[i];
    r->y[i] = r->y[j];
    r->y[j] = t;
    for (int64_t k = 0; k < r->features && i != j; k++) {
        float *a = r->x + i * r->features + k, *b = r->x + j * r->features + k;
        t = *a;
        *a = *b;
        *b = t;
    }
}

/* The test rows, and maybe the validation rows, are where the source has them; the parts are views. */
static bool keep_split(cj_dataset *d, const cj_dataset_entry *e, const cj_dataset_opts *o, uint64_t seed, cj_rows *r)
{
    cj_ctx *c = r->ctx;
    int64_t rest = r->n - r->test, val = r->val ? r->val : share_of(c, o->validation, e->validation, rest, "for validation");
    if (val < 0) return false;
    int64_t train = rest - val;
    uint32_t key[2], w[4] = { 0 };
    cj_philox_key(seed, CJ_STREAM_DATA, key);
    int64_t mixed = r->val ? train : rest; /* Fisher-Yates, as in cj__shuffle */
    for (int64_t i = mixed - 1; i > 0 && !r->ordered; i--) {
        cj_philox_block(key, CJ_CALL_SPLIT, (uint64_t)i, w);
        swap_rows(r, i, (int64_t)cj_philox_below(cj_philox_word64(w[0], w[1]), (uint64_t)i + 1));
    }
    size_t bytes = (size_t)(train ? train : 1) * sizeof(int64_t);
    int64_t *rows = cj__alloc(c, bytes);
    if (!rows) return false;
    for (int64_t i = 0; i < train; i++) rows[i] = i;
    if (!o->raw) scale(r, e, rows, train, d);
    cj__free(c, rows, bytes);
    return wrap(r, NULL, r->n, &d->x, &d->y) && (d->train_x = part(d, d->x, 0, train)) && (d->train_y = part(d, d->y, 0, train)) &&
           (d->val_x = part(d, d->x, train, val)) && (d->val_y = part(d, d->y, train, val)) && (d->test_x = part(d, d->x, rest, r->test)) &&
           (d->test_y = part(d, d->y, rest, r->test));
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------------------------ */

bool cj__fill_text(cj_dataset *d, const cj_dataset_entry *e, const cj_dataset_opts *o, const cj_text *t)
{
    cj_ctx *c = t->ctx;
    if (t->n == 0) return cj__error(c, CJ_EFILE, "cj_dataset_open: %s is empty", d->name);
    int64_t n = (int64_t)t->n, out, val;
    if (!cj__shares(c, e, o, n, &out, &val)) return false;
    if (t->test) {
        out = (int64_t)t->test;
        val = t->val ? (int64_t)t->val : share_of(c, o->validation, e->validation, n - out, "for validation");
    }
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
    d->x = persistent(d, numbered, CJ_I64, CJ_SHAPE(n));
    cj__free(c, numbered, bytes);
    return d->x && (d->train_x = part(d, d->x, 0, n - out - val)) && (d->val_x = part(d, d->x, n - out - val, val)) &&
           (d->test_x = part(d, d->x, n - out, out));
}

/* ---- opening ---------------------------------------------------------------------------------------------------------------------------------- */

static bool fill(cj_ctx *c, cj_dataset *d, int i, const cj_dataset_opts *o)
{
    const cj_dataset_entry *e = &entries[i];
    uint64_t seed = o->seed ? o->seed : c->rng.seed;
    d->name = list[i].name;
    d->summary = list[i].summary;
    d->class_names = e->class_names;
    d->feature_names = e->feature_names;
    d->channels = e->channels;
    d->height = e->height;
    d->width = e->width;
    d->y_std = 1;
    if (e->fill) return e->fill(e, c, o, seed, d);
    if (e->text) {
        cj_text t = { 0 };
        bool ok = e->text(e, c, &t) && cj__fill_text(d, e, o, &t);
        cj__text_free(&t);
        return ok;
    }
    cj_rows r = { .ctx = c, .set = d };
    bool ok = e->rows(e, c, o, seed, &r);
    d->n = r.n;
    d->features = r.features;
    d->classes = r.classes;
    ok = ok && (r.official ? keep_split(d, e, o, seed, &r) : split(d, e, o, seed, &r));
    if (r.x) cj__rows_free(&r);
    return ok;
}

cj_dataset *cj_dataset_open(cj_ctx *c, const char *name, const cj_dataset_opts *opts)
{
    static const cj_dataset_opts defaults;
    if (!c || !cj__cancel_check(c)) return NULL;
    int i = find(c, name);
    if (i < 0) return NULL;
    cj_dataset *d = cj__record_new(c, sizeof *d);
    if (!d) return NULL;
    int depth = cj__frame_open(c); /* what an error leaves behind goes at once */
    bool ok = depth && fill(c, d, i, opts ? opts : &defaults);
    if (depth) cj__frame_close(c, depth, NULL, 0);
    if (ok) return d;
    cj__record_free(d);
    return NULL;
}

const char *cj__dataset_folder(const char *name)
{
    for (int i = 0; i < COUNT && name; i++)
        if (strcmp(list[i].name, name) == 0) return entries[i].folder;
    return NULL;
}
