/* cajal predict: a trained run on new examples, from files as people have them.
 *
 *     .npy          rows as the network sees them (digits: 0 to 1), or images
 *     .csv          rows with the values of the source (digits: 0 to 16, tables not standardised); the scaling is that of the training rows
 *     .png .jpg     an image, brought to the size and the colours of the data
 *     other files   for translations: a text, a sentence a line
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"

static bool ends_with(const char *file, const char *ending)
{
    size_t n = strlen(file), m = strlen(ending);
    if (n < m) return false;
    for (size_t i = 0; i < m; i++)
        if (tolower((unsigned char)file[n - m + i]) != ending[i]) return false;
    return true;
}

/* ---- files to rows [n, features] ------------------------------------------------------------------------------------------------------------- */

/* The status after an error that says which rows were expected; APP_OK for rows [n, features], made of images where need be. */
static int as_rows(const app_job *j, const char *file, cj_tensor **x)
{
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    int64_t f = j->data->features, numel = cj_numel(*x);
    int d = cj_ndim(*x);
    bool rows = d == 2 && cj_size(*x, 1) == f, one = d >= 1 && numel == f,
         images = d >= 3 && cj_size(*x, 0) > 0 && numel / cj_size(*x, 0) == f;
    if (!rows && !one && !images) {
        char shape[128];
        cj_format_shape(*x, shape, sizeof shape);
        return app_error("%s: rows of %lld numbers were expected, %s was found", file, (long long)f, shape);
    }
    *x = cj_cast(cj_reshape(*x, CJ_SHAPE(-1, f)), CJ_F32);
    return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
}

/* x = a·source + b for every column, from the training rows as they are and as they are in the source: mean and deviation [1, features] of both. A missing value becomes the mean. */
static cj_tensor *scale_rows(const app_job *j, cj_tensor *x)
{
    cj_ctx *c = j->ctx;
    double share = cj_settings_get(j->settings, "validation");
    const cj_dataset_opts as_source = { .validation = share > 0 ? share : CJ_ZERO, .raw = true };
    cj_dataset *raw = (cj_dataset_open)(c, j->data->name, &as_source);
    if (!raw) return NULL;
    cj_tensor *part[2] = { cj_cast(j->data->train_x, CJ_F64), cj_cast(raw->train_x, CJ_F64) }, *mean[2], *deviation[2];
    for (int k = 0; k < 2; k++) {
        mean[k] = cj_mean(part[k], .axes = CJ_AXIS(0), .keepdim = true);
        deviation[k] = cj_sqrt(cj_mean(cj_square(cj_sub(part[k], mean[k])), .axes = CJ_AXIS(0), .keepdim = true));
    }
    /* a column that never changes in training means nothing: the network always saw its mean */
    cj_tensor *varies = cj_gt_scalar(deviation[1], 1e-12), *zero = cj_zeros_like(deviation[1]);
    cj_tensor *a = cj_where(varies, cj_div(deviation[0], cj_where(varies, deviation[1], cj_ones_like(zero))), zero);
    cj_tensor *centred = cj_sub(x, mean[1]);
    cj_tensor *result = cj_add(cj_mul(cj_where(cj_isnan(centred), cj_zeros_like(centred), centred), a), mean[0]);
    cj_dataset_free(raw);
    return result;
}

static int rows_of_csv(const app_job *j, const char *file, cj_tensor **x)
{
    cj_table *t = cj_csv_load(j->ctx, file);
    if (!t) return app_fail(j->ctx);
    int64_t f = j->data->features;
    for (int64_t k = 0; k < t->columns && k < f; k++)
        if (t->column[k].categories > 0)
            return app_error("%s: column %s: numbers were expected, '%s' was found", file, t->column[k].name, t->column[k].category[0]);
    *x = t->x;
    if (t->columns == f + 1) *x = cj_slice(*x, 1, 0, f, 1); /* the last column is what the network is to say */
    if (cj_size(*x, 1) == f) *x = scale_rows(j, *x);
    return as_rows(j, file, x);
}

/* Large images are averaged, not sampled, so that thin lines survive. */
static cj_tensor *resize(cj_tensor *x, int64_t height, int64_t width)
{
    if (cj_size(x, 2) == height && cj_size(x, 3) == width) return x;
    if (cj_size(x, 2) >= height && cj_size(x, 3) >= width) return cj_adaptive_avg_pool(x, CJ_SHAPE(height, width));
    return cj_interpolate(x, .size = CJ_SHAPE(height, width), .mode = CJ_INTERP_LINEAR);
}

static int row_of_image(const app_job *j, const char *file, bool invert, cj_tensor **x)
{
    const cj_dataset *d = j->data;
    if (d->height < 2) return app_error("%s: %s learned from %s, which has no images", file, j->model->name, d->name);
    int64_t channels = d->features / (d->height * d->width);
    cj_tensor *image = cj_image_load(j->ctx, file);
    if (!cj_ok(j->ctx)) return app_fail(j->ctx);
    cj_tensor *v = cj_unsqueeze(cj_mul_scalar(cj_cast(image, CJ_F32), 1.0 / 255), 0);
    if (channels == 1 && cj_size(v, 1) == 3) { /* grey as cj_image_folder_load has it */
        cj_tensor *weight = cj_from_f32(j->ctx, (float[]){ 0.299F, 0.587F, 0.114F }, CJ_SHAPE(1, 3, 1, 1));
        v = cj_sum(cj_mul(v, weight), .axes = CJ_AXIS(1), .keepdim = true);
    }
    if (channels == 3 && cj_size(v, 1) == 1) v = cj_cat((cj_tensor *[]){ v, v, v }, 3, 1);
    if (invert) v = cj_add_scalar(cj_neg(v), 1);
    *x = cj_contiguous(resize(v, d->height, d->width));
    return as_rows(j, file, x);
}

/* ---- what the network says ---------------------------------------------------------------------------------------------------------------------- */

static int predict_rows(app_job *j, const char *file, bool invert, bool json)
{
    cj_ctx *c = j->ctx;
    cj_tensor *x = NULL;
    int status;
    if (ends_with(file, ".csv")) status = rows_of_csv(j, file, &x);
    else if (ends_with(file, ".png") || ends_with(file, ".jpg") || ends_with(file, ".jpeg")) status = row_of_image(j, file, invert, &x);
    else x = cj_npy_load(c, file), status = as_rows(j, file, &x);
    if (status) return status;
    cj_tensor *y = cj_forward(j->net, x);
    cj_tensor *p = j->task == CJ_TASK_CLASSIFY ? cj_softmax(y, -1) : y;
    for (int64_t i = 0; i < cj_size(x, 0) && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *row = cj_select(p, 0, i);
        int64_t best = j->task == CJ_TASK_CLASSIFY ? (int64_t)cj_item(cj_argmax(row)) : 0;
        double value = cj_item(cj_select(row, 0, best));
        if (j->task != CJ_TASK_CLASSIFY) value = value * j->data->y_std + j->data->y_mean;
        const char *name = j->task == CJ_TASK_CLASSIFY ? j->data->class_names[best] : NULL;
        if (json) {
            app_json_open();
            app_json_number("row", (double)i);
            if (name) app_json_text("class", name);
            app_json_number(name ? "probability" : "value", value);
            app_json_close();
        } else if (name) {
            printf("%lld\t%s\t%.4f\n", (long long)i, name, value);
        } else {
            printf("%lld\t%g\n", (long long)i, value);
        }
        cj_scope_close(s);
    }
    return cj_ok(c) ? APP_OK : app_fail(c);
}

bool app_translate(app_job *j, cj_tensor *x, char *text)
{
    enum { LONGEST = 60 }; /* words */
    cj_ctx *c = j->ctx;
    bool grad = cj_no_grad(c);
    cj_module_train(j->net, false);
    cj_tensor *words = j->model->decode(j->net, x, LONGEST);
    cj_grad_mode(c, grad);
    int64_t n = cj_ok(c) ? cj_size(words, 0) : 0, T = n ? cj_size(words, 1) : 0;
    int64_t *number = calloc((size_t)(n * T) + 1, sizeof *number);
    bool ok = n > 0 && number && cj_to_i64(words, number, n * T);
    for (int64_t i = 0; i < n && ok; i++) cj_words_text(j->target, number + i * T, T, text + i * APP_SENTENCE, APP_SENTENCE);
    free(number);
    return ok;
}

static int predict_lines(app_job *j, const char *file, bool json)
{
    cj_lines *l = cj_lines_load(j->ctx, file);
    if (!l) return app_fail(j->ctx);
    char text[APP_SENTENCE];
    for (int64_t i = 0; i < l->n && cj_ok(j->ctx); i++) {
        cj_scope s = cj_scope_open(j->ctx);
        text[0] = 0;
        if (l->length[i] > 0) app_translate(j, cj_words_encode(j->source, l->line + i, 1, false, APP_WORDS), text);
        cj_scope_close(s);
        if (!cj_ok(j->ctx)) break;
        if (json) {
            app_json_open();
            app_json_number("line", (double)i);
            app_json_text("source", l->line[i]);
            app_json_text("translation", text);
            app_json_close();
        } else {
            printf("%s\n", text);
        }
    }
    return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
}

static int predict(app_job *j, const char *file, bool invert, bool json)
{
    if (j->data->is_text) return app_error("%s continues texts: use cajal sample", j->model->name);
    if (j->task == CJ_TASK_GENERATE) return app_error("%s makes new examples: use cajal sample", j->model->name);
    if (j->task == CJ_TASK_NODES) return app_error("%s knows the nodes of its graph only: use cajal eval", j->model->name);
    cj_module_train(j->net, false);
    cj_no_grad(j->ctx);
    return j->task == CJ_TASK_TRANSLATE ? predict_lines(j, file, json) : predict_rows(j, file, invert, json);
}

int app_predict(int argc, char **argv)
{
    bool json = false, invert = false;
    const app_option options[] = {
        { "--invert", NULL, "of an image: dark ink on light paper, where the data has light on dark", NULL, &invert },
        { "--json", NULL, "one object per row: row, class, probability", NULL, &json },
        { 0 },
    };
    const app_usage usage = {
        .verb = "predict",
        .line = "RUN FILE [--invert] [--json]",
        .least = 2,
        .most = 2,
        .examples = "  cajal predict runs/demo digits.npy\n  cajal predict runs/demo scan.png --invert\n"
                    "  cajal predict runs/wine new.csv\n  cajal predict runs/seq2seq-multi30k-de-en sentences.txt\n",
        .text = "Applies a run to new examples and prints row, class, probability (or value; or the translation of each line).\n"
                "FILE.npy: rows or images as the network sees them (digits: 0 to 1). FILE.csv: values as in the source of the\n"
                "data, scaled here as the training data was. FILE.png, FILE.jpg: an image, brought to size. For translations\n"
                "any other file: a sentence a line."
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    app_job j;
    int64_t step;
    int status = app_job_load(&j, args.word[0], NULL, NULL, true, &step);
    if (status == APP_OK) status = predict(&j, args.word[1], invert, json);
    app_job_close(&j);
    return status;
}
