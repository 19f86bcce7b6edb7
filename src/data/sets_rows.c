/* Data sets of rows that are read from files: images, tables, time series. */
#include <math.h>
#include <stdio.h>

#include "data/dataset.h"

#define UNUSED (void)o, (void)seed

/* All elements of t to out, which has room for n. */
static bool copy_out(cj_tensor *t, float *out, int64_t n) { return t && cj_numel(t) == n && cj_to_f32(t, out, n); }

/* ---- MNIST: four IDX files -------------------------------------------------------------------------------------------------------------------- */

bool cj__set_mnist(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    static const char *const files[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                         "t10k-labels-idx1-ubyte" };
    char path[4][CJ_PATH];
    cj_tensor *t[4];
    for (int i = 0; i < 4; i++)
        if (!cj__data_path(e, c, files[i], path[i]) || !(t[i] = cj_idx_load(c, path[i]))) return false;
    int64_t n = cj_size(t[0], 0), test = cj_size(t[2], 0), features = e->height * e->width;
    for (int i = 0; i < 4; i++) {
        int64_t rows = i < 2 ? n : test;
        bool ok = i % 2 ? cj_ndim(t[i]) == 1 && cj_size(t[i], 0) == rows
                        : cj_ndim(t[i]) == 3 && cj_size(t[i], 1) == e->height && cj_size(t[i], 2) == e->width;
        if (!ok)
            return cj__place_error(c, "cj_dataset_open", path[i], 0, "%lld rows of MNIST were expected, %s was found", (long long)rows,
                                   cj__tensor_text(t[i]));
    }
    if (n < 1 || test < 1 || !cj__rows_alloc(out, c, n + test, features))
        return n >= 1 && test >= 1
                   ? false
                   : cj__place_error(c, "cj_dataset_open", path[n < 1 ? 0 : 2], 0, "rows of MNIST were expected, none were found");
    out->classes = 10;
    out->official = true;
    out->test = test;
    if (!copy_out(t[0], out->x, n * features) || !copy_out(t[2], out->x + n * features, test * features)) return false;
    if (!copy_out(t[1], out->y, n) || !copy_out(t[3], out->y + n, test)) return false;
    for (int64_t i = 0; i < out->n; i++)
        if (!(out->y[i] >= 0 && out->y[i] < 10 && out->y[i] == floorf(out->y[i]))) {
            int64_t row = i < n ? i : i - n;
            return cj__place_error(c, "cj_dataset_open", path[i < n ? 1 : 3], 8 + row,
                                   "a class of 0 … 9 was expected, %g was found in row %lld", out->y[i], (long long)row);
        }
    return true;
}

/* ---- CIFAR-10: the batches that are there ----------------------------------------------------------------------------------------------------- */

bool cj__set_cifar10(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    cj_tensor *x[6], *y[6];
    int64_t n = 0;
    int batches = 0;
    char path[CJ_PATH], name[32];
    for (int i = 1; i <= 6; i++) {
        bool last = i == 6; /* the test batch */
        snprintf(name, sizeof name, last ? "test_batch.bin" : "data_batch_%d.bin", i);
        if (i > 1 && !last && !cj__data_there(e, name, path)) continue;
        if (!cj__data_path(e, c, name, path) || !cj_cifar_load(c, path, 1, &x[batches], &y[batches])) return false;
        n += cj_size(x[batches++], 0);
    }
    if (!cj__rows_alloc(out, c, n, 3072)) return false;
    out->classes = 10;
    out->official = true;
    out->test = cj_size(x[batches - 1], 0);
    int64_t at = 0;
    for (int i = 0; i < batches; i++) {
        int64_t rows = cj_size(x[i], 0);
        if (!copy_out(x[i], out->x + at * 3072, rows * 3072) || !copy_out(y[i], out->y + at, rows)) return false;
        at += rows;
    }
    return true;
}

/* ---- Olivetti faces: a matrix of 4096 x 400, a face per column, its pixels column by column --------------------------------------------------- */

bool cj__set_olivetti(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    char path[CJ_PATH];
    if (!cj__data_path(e, c, e->file, path)) return false;
    cj_archive *a = cj_mat_load(c, path);
    if (!a) return false;
    cj_tensor *faces = cj_archive_find(a, "faces");
    enum { SIDE = 64, PIXELS = SIDE * SIDE, EACH = 10 };
    int64_t n = faces ? cj_size(faces, 1) : 0;
    bool ok = faces && cj_ndim(faces) == 2 && cj_size(faces, 0) == PIXELS && n >= EACH && n % EACH == 0 && n <= 100000;
    if (!ok) cj__place_error(c, "cj_dataset_open", path, 0, "a matrix faces of 4096 x (10 per person) was expected, none was found");
    size_t bytes = (size_t)(ok ? n : 0) * PIXELS * sizeof(float);
    const char **people = ok ? cj__record_alloc(out->set, (size_t)(n / EACH) * sizeof *people) : NULL;
    float *v = people ? cj__alloc(c, bytes) : NULL;
    ok = v && copy_out(faces, v, n * PIXELS) && cj__rows_alloc(out, c, n, PIXELS);
    for (int64_t i = 0; ok && i < n; i++) {
        int64_t person = i / EACH;
        out->y[i] = (float)person;
        for (int r = 0; r < SIDE; r++)
            for (int k = 0; k < SIDE; k++) out->x[i * PIXELS + r * SIDE + k] = v[(k * SIDE + r) * n + i];
    }
    for (int64_t i = 0; ok && i < n / EACH; i++) {
        char number[24];
        int length = snprintf(number, sizeof number, "person %lld", (long long)i);
        ok = (people[i] = cj__record_text(out->set, number, (size_t)length)) != NULL;
    }
    if (v) cj__free(c, v, bytes);
    cj_archive_free(a);
    out->classes = n / EACH;
    out->set->class_names = people;
    return ok;
}

/* ---- houses ----------------------------------------------------------------------------------------------------------------------------------- */

/* The table's columns as features, texts as one column per category, and the column `target` as the value. */
static bool table_rows(cj_ctx *c, const cj_table *t, int64_t target, cj_rows *out)
{
    int64_t features = 0;
    for (int64_t j = 0; j < t->columns; j++) features += j == target ? 0 : t->column[j].categories ? t->column[j].categories : 1;
    size_t bytes = (size_t)(t->rows * t->columns) * sizeof(double);
    double *v = cj__alloc(c, bytes);
    const char **names = v ? cj__record_alloc(out->set, (size_t)features * sizeof *names) : NULL;
    bool ok = names && cj_to_f64(t->x, v, t->rows * t->columns) && cj__rows_alloc(out, c, t->rows, features);
    for (int64_t j = 0, to = 0; ok && j < t->columns; j++) {
        const cj_column *k = &t->column[j];
        for (int64_t i = 0; j == target && i < t->rows; i++) out->y[i] = (float)v[i * t->columns + j];
        if (j == target) continue;
        for (int64_t m = 0; ok && m < (k->categories ? k->categories : 1); m++, to++) {
            const char *name = k->categories ? k->category[m] : k->name;
            ok = (names[to] = cj__record_text(out->set, name, strlen(name))) != NULL;
            for (int64_t i = 0; i < t->rows; i++) {
                double value = v[i * t->columns + j];
                out->x[i * features + to] = (float)(k->categories ? value == (double)m : value);
            }
        }
    }
    if (v) cj__free(c, v, bytes);
    out->set->feature_names = names;
    return ok;
}

bool cj__set_boston(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    char path[CJ_PATH];
    cj_table *t = cj__data_path(e, c, e->file, path) ? cj_csv_load(c, path, &(cj_csv_opts){ .delimiter = ' ', .header = -1 }) : NULL;
    bool ok = t && (t->columns == 14 ||
                    cj__place_error(c, "cj_dataset_open", path, 0, "14 columns were expected, %lld were found", (long long)t->columns));
    ok = ok && table_rows(c, t, 13, out);
    out->set->feature_names = e->feature_names;
    cj_table_free(t);
    return ok;
}

bool cj__set_california(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    char path[CJ_PATH];
    cj_bytes archive = { 0 }, csv;
    cj_table *t = NULL;
    if (!cj__data_path(e, c, e->file, path)) return false;
    if (cj__bytes_load(&archive, c, "cj_dataset_open", path) && cj__tar_find(&archive, "housing.csv", &csv)) t = cj__csv_read(&csv, NULL);
    if (archive.data) cj__bytes_free(&archive);
    int64_t target = -1;
    for (int64_t j = 0; t && j < t->columns; j++)
        if (strcmp(t->column[j].name, "median_house_value") == 0) target = j;
    bool ok =
        t && (target >= 0 || cj__place_error(c, "cj_dataset_open", path, 0, "a column median_house_value was expected, none was found"));
    ok = ok && table_rows(c, t, target, out);
    cj_table_free(t);
    return ok;
}

/* ---- time series ------------------------------------------------------------------------------------------------------------------------------ */

/* NAME_TRAIN.ts and NAME_TEST.ts, with the longest length of both. */
bool cj__set_ucr(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    char path[CJ_PATH], name[64];
    cj_timeseries *s[2] = { NULL, NULL };
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        snprintf(name, sizeof name, "%s_%s.ts", e->file, i ? "TEST" : "TRAIN");
        ok = cj__data_path(e, c, name, path) && (s[i] = cj_ts_load(c, path)) != NULL;
    }
    if (ok && (s[0]->channels != s[1]->channels || s[0]->classes != s[1]->classes || !s[0]->y))
        ok = cj__place_error(
            c, "cj_dataset_open", path, 0,
            "labelled series of %lld channels and %lld classes were expected, as in the training file, %lld and %lld were found",
            (long long)s[0]->channels, (long long)s[0]->classes, (long long)s[1]->channels, (long long)s[1]->classes);
    if (ok) {
        int64_t length = s[0]->length > s[1]->length ? s[0]->length : s[1]->length, channels = s[0]->channels, at = 0;
        const char **names = cj__record_alloc(out->set, (size_t)s[0]->classes * sizeof *names);
        ok = names && cj__rows_alloc(out, c, s[0]->n + s[1]->n, channels * length);
        for (int64_t k = 0; ok && k < s[0]->classes; k++)
            ok = (names[k] = cj__record_text(out->set, s[0]->class_names[k], strlen(s[0]->class_names[k]))) != NULL;
        for (int i = 0; i < 2 && ok; i++) {
            int64_t n = s[i]->n, own = s[i]->length;
            size_t bytes = (size_t)(n * channels * own) * sizeof(float);
            float *v = cj__alloc(c, bytes);
            ok = v && copy_out(s[i]->x, v, n * channels * own) && copy_out(s[i]->y, out->y + at, n);
            for (int64_t k = 0; ok && k < n * channels; k++)
                for (int64_t j = 0; j < length; j++) out->x[(at * channels + k) * length + j] = j < own ? v[k * own + j] : 0;
            if (v) cj__free(c, v, bytes);
            at += n;
        }
        out->classes = s[0]->classes;
        out->official = true;
        out->test = s[1]->n;
        out->set->class_names = names;
        out->set->channels = channels;
        out->set->height = 1;
        out->set->width = length;
    }
    cj_timeseries_free(s[0]);
    cj_timeseries_free(s[1]);
    return ok;
}

/* The last column of a table as windows: x_i = v[i … i + 11], y_i = v[i + 12]; the last fifth is the test part. */
bool cj__set_series(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out)
{
    UNUSED;
    char path[CJ_PATH];
    cj_table *t = cj__data_path(e, c, e->file, path) ? cj_csv_load(c, path, NULL) : NULL;
    if (!t) return false;
    int64_t window = e->width, n = t->rows - window, last = t->columns - 1, val = 0;
    bool ok = n >= 3 && !t->column[last].categories && !t->column[last].missing;
    if (!ok)
        cj__place_error(c, "cj_dataset_open", path, 0, "a last column of %lld numbers or more was expected, %lld rows of %s were found",
                        (long long)(window + 3), (long long)t->rows, n >= 3 ? "other values" : "it");
    ok = ok && cj__shares(c, e, o, n, &out->test, &val);
    size_t bytes = (size_t)(t->rows * t->columns) * sizeof(double);
    double *v = ok ? cj__alloc(c, bytes) : NULL;
    ok = v && cj_to_f64(t->x, v, t->rows * t->columns) && cj__rows_alloc(out, c, n, window);
    for (int64_t i = 0; ok && i < n; i++) {
        for (int64_t k = 0; k < window; k++) out->x[i * window + k] = (float)v[(i + k) * t->columns + last];
        out->y[i] = (float)v[(i + window) * t->columns + last];
    }
    if (v) cj__free(c, v, bytes);
    cj_table_free(t);
    out->official = out->ordered = true;
    out->val = val;
    return ok;
}
