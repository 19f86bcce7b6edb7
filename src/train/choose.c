/* Reading curves, splitting rows, searching: the small rules around a training.
 *
 * A loss over the steps says something about the rate; training and validation error over the size of the data say whether the model is too small or the data too few.
 */
#include <math.h>

#include "core/philox.h"
#include "train/train.h"

/* ---- curves -------------------------------------------------------------------------------------------------------------------------------- */

static double mean_of(const double *v, int64_t from, int64_t to)
{
    double sum = 0;
    for (int64_t i = from; i < to; i++) sum += v[i];
    return to > from ? sum / (double)(to - from) : NAN;
}

cj_curve cj_loss_curve(const double *loss, int64_t n)
{
    if (n < 8) return CJ_CURVE_GOOD;
    double first = loss[0], end = mean_of(loss, n - n / 8, n), quarter = mean_of(loss, n / 4 - n / 8, n / 4);
    for (int64_t i = 0; i < n; i++)
        if (!(loss[i] <= 3 * first)) return CJ_CURVE_EXPLODES;
    double gained = first - end, early = first - quarter, late = mean_of(loss, n / 2, n / 2 + n / 8) - end;
    if (gained < 0.05 * first) return CJ_CURVE_SLOW;                         /* nothing happens */
    if (early < 0.1 * gained) return CJ_CURVE_FLAT_FIRST;                    /* nothing happens at first */
    if (late > 0.2 * gained) return CJ_CURVE_SLOW;                           /* far from its end */
    if (end > 0.25 * first && late < 0.02 * gained) return CJ_CURVE_PLATEAU; /* quickly down to something that is too high */
    return CJ_CURVE_GOOD;
}

cj_lack cj_learning_curve(const double *train, const double *val, int64_t n, double wanted)
{
    if (n < 1) return CJ_LACK_NOTHING;
    double t = train[n - 1], v = val[n - 1];
    if (v <= wanted) return CJ_LACK_NOTHING;
    return t > wanted ? CJ_LACK_MODEL : CJ_LACK_DATA;
}

/* ---- splits ---------------------------------------------------------------------------------------------------------------------------------- */

/* Rows of each class are held out in turn while its quota lasts: floor(share·n_c) for all, and one more for the largest remainders until the total is right. */
static bool quotas(cj_ctx *c, int64_t n, double share, const int64_t *label, int64_t held, int64_t *quota, int64_t classes)
{
    int64_t *count = cj__zalloc(c, (size_t)classes * sizeof *count);
    if (!count) return false;
    for (int64_t i = 0; i < n; i++) count[label[i]]++;
    for (int64_t k = 0; k < classes; k++) held -= quota[k] = (int64_t)(share * (double)count[k]);
    for (; held > 0; held--) {
        int64_t most = 0;
        for (int64_t k = 1; k < classes; k++)
            if (share * (double)count[k] - (double)quota[k] > share * (double)count[most] - (double)quota[most]) most = k;
        quota[most]++;
    }
    cj__free(c, count, (size_t)classes * sizeof *count);
    return true;
}

int64_t cj_split(cj_ctx *c, uint64_t seed, int64_t n, double share, const int64_t *label, int64_t classes, int64_t *order)
{
    if (!c || !cj__cancel_check(c)) return -1;
    if (n < 1 || !(share >= 0 && share <= 1)) return cj__error(c, CJ_EVALUE, "split: a share of %g of %lld rows", share, (long long)n), -1;
    cj_data_order(seed, 0, n, order);
    int64_t held = llround(share * (double)n);
    if (!label) return held;
    for (int64_t i = 0; i < n; i++)
        if (label[i] < 0 || label[i] >= classes)
            return cj__error(c, CJ_EINDEX, "split: row %lld has class %lld of %lld", (long long)i, (long long)label[i], (long long)classes),
                   -1;
    int64_t *quota = cj__zalloc(c, (size_t)classes * sizeof *quota), *kept = cj__alloc(c, (size_t)n * sizeof *kept);
    bool ok = quota && kept && quotas(c, n, share, label, held, quota, classes);
    int64_t at = 0, end = n - held;
    for (int64_t i = 0; i < n && ok; i++) {
        int64_t row = order[i];
        if (quota[label[row]] > 0) quota[label[row]]--, kept[end++] = row;
        else kept[at++] = row;
    }
    if (ok) memcpy(order, kept, (size_t)n * sizeof *kept);
    if (quota) cj__free(c, quota, (size_t)classes * sizeof *quota);
    if (kept) cj__free(c, kept, (size_t)n * sizeof *kept);
    return ok ? held : -1;
}

void cj_fold(int64_t n, int fold, int folds, int64_t *from, int64_t *to)
{
    *from = n * fold / folds;
    *to = n * (fold + 1) / folds;
}

/* ---- searches ------------------------------------------------------------------------------------------------------------------------------------ */

double cj_axis_value(const cj_axis *a, int i)
{
    double t = a->n > 1 ? (double)i / (a->n - 1) : 0;
    return cj_axis_at(a, t);
}

double cj_axis_at(const cj_axis *a, double t) { return a->log ? a->low * pow(a->high / a->low, t) : a->low + (a->high - a->low) * t; }

/* Number k of a search: point k of the grid, the first axis running fastest, or a point drawn at random. */
static void point(const cj_axis *axis, int axes, int64_t k, bool random, uint64_t seed, double *value)
{
    uint32_t key[2], word[4];
    cj_philox_key(seed, CJ_STREAM_DATA, key);
    for (int d = 0; d < axes; d++) {
        cj_philox_block(key, (uint64_t)k, (uint64_t)d, word);
        if (random) value[d] = cj_axis_at(&axis[d], (double)(cj_philox_word64(word[0], word[1]) >> 11) * 0x1p-53);
        else value[d] = cj_axis_value(&axis[d], (int)(k % axis[d].n)), k /= axis[d].n;
    }
}

int64_t cj_grid_search(const cj_axis *axis, int axes, int64_t trials, uint64_t seed, cj_score_fn score, void *user, double *best,
                       double *best_score)
{
    double value[CJ_MAX_AXES];
    int64_t n = trials, tried = 0;
    if (axes < 1 || axes > CJ_MAX_AXES) return -1;
    if (trials <= 0)
        for (n = 1, tried = 0; tried < axes; tried++) n *= axis[tried].n;
    *best_score = INFINITY;
    for (tried = 0; tried < n; tried++) {
        point(axis, axes, tried, trials > 0, seed, value);
        double s = score(user, value);
        if (!(s < *best_score)) continue; /* a NaN is never the best */
        *best_score = s;
        memcpy(best, value, (size_t)axes * sizeof *best);
    }
    return tried;
}
