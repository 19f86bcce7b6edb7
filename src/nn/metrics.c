/* Metrics of classes and of values (cajal/metrics.h): tensors are read to the host once, then counted in f64. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cajal/metrics.h>

#include "nn/nn.h"

/* ---- tensors on the host ----------------------------------------------------------------------------------------------------------------------- */

/* Scores and classes of n examples, or two columns of n values. */
typedef struct columns {
    cj_ctx *ctx;
    int64_t n, classes; /* a holds n·classes */
    double *a, *b;
} columns;

static void drop(columns *k)
{
    if (k->a) cj__free(k->ctx, k->a, (size_t)(k->n * k->classes + 1) * sizeof *k->a);
    if (k->b) cj__free(k->ctx, k->b, (size_t)(k->n + 1) * sizeof *k->b);
}

static bool same_shape(cj_tensor *a, cj_tensor *b, int axes)
{
    if (cj_ndim(a) < axes || cj_ndim(b) != axes) return false;
    for (int d = 0; d < axes; d++)
        if (cj_size(a, d) != cj_size(b, d)) return false;
    return true;
}

/* Reads a [.., C] (scores) or [..] and b [..]; `scores` says which. */
static bool read_columns(const char *op, cj_tensor *a, cj_tensor *b, bool scores, columns *out)
{
    *out = (columns){ .ctx = cj_tensor_ctx(a) };
    cj_ctx *c = out->ctx;
    if (!c || c->error || !cj__usable(c, op, 0, a) || !cj__usable(c, op, 1, b)) return false;
    if (!same_shape(a, b, cj_ndim(a) - scores) || cj_numel(a) == 0)
        return cj__error(c, CJ_ESHAPE, "%s: %s and %s; %s expected", op, cj__tensor_text(a), cj__tensor_text(b),
                         scores ? "scores [.., classes] and targets [..] of at least one example" : "two tensors of one shape, not empty");
    out->n = cj_numel(b);
    out->classes = scores ? cj_size(a, -1) : 1;
    out->a = cj__alloc(c, (size_t)(cj_numel(a) + 1) * sizeof *out->a);
    out->b = cj__alloc(c, (size_t)(out->n + 1) * sizeof *out->b);
    bool ok = out->a && out->b && cj_to_f64(a, out->a, cj_numel(a)) && cj_to_f64(b, out->b, out->n);
    for (int64_t i = 0; i < out->n && ok && scores; i++)
        if (!(out->b[i] >= 0 && out->b[i] < (double)out->classes && out->b[i] == floor(out->b[i])))
            ok = cj__error(c, CJ_EINDEX, "%s: target %g of example %lld; classes are 0 to %lld", op, out->b[i], (long long)i,
                           (long long)out->classes - 1);
    if (!ok) {
        drop(out);
        *out = (columns){ .ctx = c };
    }
    return ok;
}

/* ---- classes -------------------------------------------------------------------------------------------------------------------------------------- */

double cj_top_k_accuracy(cj_tensor *scores, cj_tensor *target, int64_t k)
{
    columns t;
    if (!read_columns("top_k_accuracy", scores, target, true, &t)) return NAN;
    int64_t right = 0;
    if (k < 1) {
        cj__error(t.ctx, CJ_EVALUE, "top_k_accuracy: k = %lld; at least 1 expected", (long long)k);
        drop(&t);
        return NAN;
    }
    for (int64_t i = 0; i < t.n; i++) {
        const double *s = t.a + i * t.classes;
        int64_t y = (int64_t)t.b[i], above = 0;
        for (int64_t j = 0; j < t.classes; j++) above += s[j] > s[y] || (j < y && s[j] == s[y]) || (isnan(s[y]) && j != y);
        right += above < k;
    }
    double share = (double)right / (double)t.n;
    drop(&t);
    return share;
}

double cj_accuracy(cj_tensor *scores, cj_tensor *target) { return cj_top_k_accuracy(scores, target, 1); }

cj_tensor *cj_confusion_matrix(cj_tensor *predicted, cj_tensor *target, int64_t classes)
{
    columns t;
    if (!read_columns("confusion_matrix", predicted, target, false, &t)) return t.ctx ? t.ctx->poison : NULL;
    cj_ctx *c = t.ctx;
    cj_tensor *result = c->poison;
    size_t bytes = classes > 0 && classes < 1 << 15 ? (size_t)(classes * classes) * sizeof(int64_t) : 0;
    if (!bytes) cj__error(c, CJ_EVALUE, "confusion_matrix: %lld classes; 1 to 32767 expected", (long long)classes);
    int64_t *count = bytes ? cj__zalloc(c, bytes) : NULL;
    for (int64_t i = 0; i < t.n && count && !c->error; i++) {
        double p = t.a[i], y = t.b[i], most = (double)classes;
        if (!(p >= 0 && p < most && y >= 0 && y < most))
            cj__error(c, CJ_EINDEX, "confusion_matrix: prediction %g and target %g of example %lld; classes are 0 to %lld", p, y,
                      (long long)i, (long long)classes - 1);
        else count[(int64_t)y * classes + (int64_t)p]++;
    }
    if (count && !c->error) result = cj_from_i64(c, count, CJ_SHAPE(classes, classes));
    if (count) cj__free(c, count, bytes);
    drop(&t);
    return result;
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static cj_class_scores scores_of(double tp, double fp, double fn)
{
    double p = ratio(tp, tp + fp), r = ratio(tp, tp + fn);
    return (cj_class_scores){ .precision = p, .recall = r, .f1 = ratio(2 * p * r, p + r), .support = (int64_t)(tp + fn) };
}

static const cj_class_scores no_scores = { .precision = NAN, .recall = NAN, .f1 = NAN };

/* A confusion matrix on the host; NULL after an error. */
static double *read_confusion(cj_tensor *confusion, int64_t *classes)
{
    cj_ctx *c = cj_tensor_ctx(confusion);
    if (!c || c->error || !cj__usable(c, "precision_recall", 0, confusion)) return NULL;
    if (cj_ndim(confusion) != 2 || cj_size(confusion, 0) != cj_size(confusion, 1) || cj_numel(confusion) == 0) {
        cj__error(c, CJ_ESHAPE, "precision_recall: %s; a confusion matrix [classes, classes] expected", cj__tensor_text(confusion));
        return NULL;
    }
    int64_t n = cj_numel(confusion);
    *classes = cj_size(confusion, 0);
    double *m = cj__alloc(c, (size_t)n * sizeof *m);
    if (m && !cj_to_f64(confusion, m, n)) {
        cj__free(c, m, (size_t)n * sizeof *m);
        return NULL;
    }
    return m;
}

static cj_class_scores class_scores(const double *m, int64_t n, int64_t k)
{
    double row = 0, column = 0;
    for (int64_t j = 0; j < n; j++) row += m[k * n + j], column += m[j * n + k];
    return scores_of(m[k * n + k], column - m[k * n + k], row - m[k * n + k]);
}

cj_class_scores cj_precision_recall(cj_tensor *confusion, int64_t which)
{
    int64_t n;
    double *m = read_confusion(confusion, &n);
    if (!m) return no_scores;
    cj_ctx *c = cj_tensor_ctx(confusion);
    cj_class_scores s = no_scores;
    if (which < 0 || which >= n) cj__error(c, CJ_EINDEX, "precision_recall: class %lld of %lld", (long long)which, (long long)n);
    else s = class_scores(m, n, which);
    cj__free(c, m, (size_t)(n * n) * sizeof *m);
    return s;
}

cj_class_scores cj_precision_recall_mean(cj_tensor *confusion, cj_class_mean how)
{
    int64_t n;
    double *m = read_confusion(confusion, &n);
    if (!m) return no_scores;
    cj_class_scores sum = { 0 };
    double right = 0, weights = 0;
    for (int64_t k = 0; k < n; k++) {
        cj_class_scores s = class_scores(m, n, k);
        double w = how == CJ_WEIGHTED ? (double)s.support : 1;
        sum.precision += w * s.precision, sum.recall += w * s.recall, sum.f1 += w * s.f1, sum.support += s.support;
        weights += w;
        right += m[k * n + k];
    }
    cj__free(cj_tensor_ctx(confusion), m, (size_t)(n * n) * sizeof *m);
    if (how == CJ_MICRO) return scores_of(right, (double)sum.support - right, (double)sum.support - right);
    sum.precision = ratio(sum.precision, weights), sum.recall = ratio(sum.recall, weights), sum.f1 = ratio(sum.f1, weights);
    return sum;
}

/* ---- thresholds --------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct scored {
    double score, target;
} scored;

static int higher_first(const void *a, const void *b)
{
    double x = ((const scored *)a)->score, y = ((const scored *)b)->score;
    return (x < y) - (x > y);
}

/* A curve of all thresholds: points after each run of equal scores. */
static cj_score_curve curve(const char *op, cj_tensor *score, cj_tensor *target, bool roc)
{
    cj_score_curve out = { .area = NAN };
    columns t;
    if (!read_columns(op, score, target, false, &t)) return out;
    cj_ctx *c = t.ctx;
    double ones = 0;
    for (int64_t i = 0; i < t.n; i++) {
        if (isnan(t.a[i])) cj__error(c, CJ_EVALUE, "%s: score %lld is NaN", op, (long long)i);
        if (t.b[i] != 0 && t.b[i] != 1) cj__error(c, CJ_EVALUE, "%s: target %g of example %lld; 0 or 1 expected", op, t.b[i], (long long)i);
        ones += t.b[i];
    }
    double zeros = (double)t.n - ones;
    if (ones == 0 || (roc && zeros == 0)) cj__error(c, CJ_EVALUE, "%s: all targets are %d", op, ones > 0);
    size_t bytes = (size_t)(t.n + 1) * sizeof(double), pairs = (size_t)t.n * sizeof(scored);
    scored *s = cj__alloc(c, pairs);
    double *point = cj__alloc(c, 3 * bytes), *x = point, *y = x ? x + t.n + 1 : NULL, *at = y ? y + t.n + 1 : NULL;
    if (s && point && !c->error) {
        for (int64_t i = 0; i < t.n; i++) s[i] = (scored){ t.a[i], t.b[i] };
        qsort(s, (size_t)t.n, sizeof *s, higher_first);
        double tp = 0, fp = 0, area = 0;
        int64_t points = 0;
        x[0] = 0, y[0] = roc ? 0 : 1, at[0] = INFINITY;
        for (int64_t i = 0; i < t.n; i++) {
            tp += s[i].target, fp += 1 - s[i].target;
            if (i + 1 < t.n && s[i + 1].score == s[i].score) continue;
            points++;
            x[points] = roc ? fp / zeros : tp / ones;
            y[points] = roc ? tp / ones : tp / (tp + fp);
            at[points] = s[i].score;
            area += (x[points] - x[points - 1]) * (roc ? (y[points] + y[points - 1]) / 2 : y[points]);
        }
        cj_shape shape = CJ_SHAPE(points + 1);
        out = (cj_score_curve){ cj_from_f64(c, x, shape), cj_from_f64(c, y, shape), cj_from_f64(c, at, shape), area };
    }
    if (s) cj__free(c, s, pairs);
    if (point) cj__free(c, point, 3 * bytes);
    drop(&t);
    if (c->error) out = (cj_score_curve){ .area = NAN };
    return out;
}

cj_score_curve cj_roc_curve(cj_tensor *score, cj_tensor *target) { return curve("roc_curve", score, target, true); }
cj_score_curve cj_precision_recall_curve(cj_tensor *score, cj_tensor *target)
{
    return curve("precision_recall_curve", score, target, false);
}

double cj_roc_auc(cj_tensor *score, cj_tensor *target)
{
    cj_ctx *c = cj_tensor_ctx(score);
    if (!c) return NAN;
    cj_scope s = cj_scope_open(c);
    double area = curve("roc_auc", score, target, true).area;
    cj_scope_close(s);
    return area;
}

/* ---- probabilities ------------------------------------------------------------------------------------------------------------------------------------ */

double cj_calibration_error(cj_tensor *probabilities, cj_tensor *target, int64_t bins)
{
    columns t;
    if (!read_columns("calibration_error", probabilities, target, true, &t)) return NAN;
    cj_ctx *c = t.ctx;
    if (bins == 0) bins = 15;
    size_t bytes = bins > 0 && bins <= 1 << 20 ? (size_t)bins * sizeof(double) : 0;
    if (!bytes) cj__error(c, CJ_EVALUE, "calibration_error: %lld bins; 1 to 1048576 expected", (long long)bins);
    double *gap = bytes ? cj__zalloc(c, bytes) : NULL, error = NAN; /* right answers less confidences of each bin */
    for (int64_t i = 0; i < t.n && gap && !c->error; i++) {
        const double *p = t.a + i * t.classes;
        int64_t best = 0;
        for (int64_t j = 1; j < t.classes; j++)
            if (p[j] > p[best]) best = j;
        if (!(p[best] >= 0 && p[best] <= 1 + 1e-6)) {
            cj__error(c, CJ_EVALUE, "calibration_error: probability %g of example %lld", p[best], (long long)i);
            break;
        }
        int64_t bin = (int64_t)ceil(p[best] * (double)bins) - 1;
        if (bin < 0) bin = 0;
        if (bin >= bins) bin = bins - 1;
        gap[bin] += ((double)best == t.b[i] ? 1 : 0) - p[best];
    }
    if (gap && !c->error) {
        error = 0;
        for (int64_t b = 0; b < bins; b++) error += fabs(gap[b]) / (double)t.n;
    }
    if (gap) cj__free(c, gap, bytes);
    drop(&t);
    return error;
}

double cj_perplexity(cj_tensor *logits, cj_tensor *target)
{
    columns t;
    if (!read_columns("perplexity", logits, target, true, &t)) return NAN;
    double nll = 0;
    for (int64_t i = 0; i < t.n; i++) {
        const double *x = t.a + i * t.classes;
        double top = x[0];
        for (int64_t j = 1; j < t.classes; j++) top = fmax(top, x[j]);
        double sum = exp(x[0] - top);
        for (int64_t j = 1; j < t.classes; j++) sum += exp(x[j] - top);
        nll += log(sum) + top - x[(int64_t)t.b[i]];
    }
    double perplexity = exp(nll / (double)t.n);
    drop(&t);
    return perplexity;
}

/* ---- values ---------------------------------------------------------------------------------------------------------------------------------------------- */

cj_value_scores cj_regression_scores(cj_tensor *prediction, cj_tensor *target)
{
    columns t;
    if (!read_columns("regression_scores", prediction, target, false, &t)) return (cj_value_scores){ NAN, NAN, NAN, NAN, NAN };
    double n = (double)t.n, mean = 0, around = 0, squares = 0, distances = 0;
    for (int64_t i = 0; i < t.n; i++) mean += t.b[i] / n;
    for (int64_t i = 0; i < t.n; i++) {
        double e = t.b[i] - t.a[i];
        squares += e * e;
        distances += fabs(e);
        around += (t.b[i] - mean) * (t.b[i] - mean);
    }
    drop(&t);
    double mse = squares / n;
    return (cj_value_scores){ .mse = mse,
                              .rmse = sqrt(mse),
                              .mae = distances / n,
                              .r2 = around > 0 ? 1 - squares / around : NAN,
                              .nll = 0.5 * (log(2 * 3.14159265358979323846 * mse) + 1) };
}

double cj_r2(cj_tensor *prediction, cj_tensor *target) { return cj_regression_scores(prediction, target).r2; }
