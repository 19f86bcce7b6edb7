/* Many trainings instead of one: settings with several values, seeds, folds.
 *
 *     lr=1e-3,1e-2         these values
 *     lr=log:1e-4:1e-1:5   five values with equal ratios         hidden=lin:32:256:8   eight with equal differences
 *
 * The points are the product of all such settings, or --random N of them, drawn from the ranges themselves.  Every point is trained once for each seed and fold and judged
 * by the validation rows alone: the test rows are for the run that is then made with the best point.  Where there is nothing to choose, only seeds to average over, each run looks
 * at its test rows once, as a single run would.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"

enum { AXES = 6, VALUES = 64, RUNS = 4096 };

typedef struct axis {
    char key[32];
    bool range; /* numbers as `over` has them; else only the values */
    cj_axis over;
    int n;
    char value[VALUES][24];
} axis;

typedef struct point {
    char setting[AXES][64];
    double sum, squares; /* of the results */
    double test_sum, test_squares;
    int n, tested;
} point;

typedef struct search {
    const app_run *run;
    axis ax[AXES];
    int axes;
    point *points;
    int n;
    long long seeds, folds, random;
    cj_task task;
} search;

/* ---- axes ----------------------------------------------------------------------------------------------------------------------------------- */

static bool has_values(const char *setting)
{
    const char *v = strchr(setting, '=');
    return v && (strncmp(v, "=log:", 5) == 0 || strncmp(v, "=lin:", 5) == 0 || strchr(v, ','));
}

bool app_is_search(const app_run *run, const app_search_opts *o)
{
    if (o->seeds || o->folds || o->random) return true;
    for (int i = 0; i < run->job.settings; i++)
        if (has_values(run->job.setting[i])) return true;
    return false;
}

static int read_range(axis *a, const char *text)
{
    cj_axis *o = &a->over;
    double number[3] = { 0 };
    char *at = (char *)text + 3; /* ":LOW:HIGH:N" */
    bool ok = true;
    for (int i = 0; i < 3 && ok; i++) {
        const char *from = at + 1;
        ok = *at == ':';
        if (ok) number[i] = strtod(from, &at);
        ok = ok && at != from && isfinite(number[i]);
    }
    ok = ok && !*at && number[2] == floor(number[2]) && number[2] >= 2 && number[2] <= VALUES && number[1] > number[0];
    *o = (cj_axis){ .low = number[0], .high = number[1], .n = ok ? (int)number[2] : 0, .log = o->log };
    if (!ok || (o->log && !(o->low > 0)))
        return app_error("%s=%s: %s:LOW:HIGH:N was expected, with LOW < HIGH%s and 2 to %d values", a->key, text, o->log ? "log" : "lin",
                         o->log ? ", both above 0," : "", VALUES);
    a->range = true;
    for (a->n = 0; a->n < o->n; a->n++) snprintf(a->value[a->n], sizeof a->value[0], "%.6g", cj_axis_value(o, a->n));
    return APP_OK;
}

static int read_axis(search *s, const char *setting)
{
    if (s->axes == AXES) return app_error("a search over more than %d settings", AXES);
    axis *a = &s->ax[s->axes++];
    const char *text = strchr(setting, '=') + 1;
    snprintf(a->key, sizeof a->key, "%.*s", (int)(text - setting) - 1, setting);
    a->over.log = strncmp(text, "log:", 4) == 0;
    if (a->over.log || strncmp(text, "lin:", 4) == 0) return read_range(a, text);
    for (const char *p = text; *p; p += *p == ',') {
        size_t n = strcspn(p, ",");
        if (n == 0 || n >= sizeof a->value[0] || a->n == VALUES)
            return app_error("%s: up to %d values with commas between them were expected", setting, VALUES);
        snprintf(a->value[a->n++], sizeof a->value[0], "%.*s", (int)n, p);
        p += n;
    }
    return APP_OK;
}

/* ---- points --------------------------------------------------------------------------------------------------------------------------------------- */

/* splitmix64: which points a random search takes is the same every time. */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void random_value(const axis *a, uint64_t *state, char out[24])
{
    double u = uniform(state);
    if (!a->range) snprintf(out, 24, "%s", a->value[(int)(u * a->n)]);
    else snprintf(out, 24, "%.6g", cj_axis_at(&a->over, u));
}

static int make_points(search *s)
{
    double grid = 1;
    for (int i = 0; i < s->axes; i++) grid *= s->ax[i].n;
    double runs = (s->random ? (double)s->random : grid) * (double)(s->seeds ? s->seeds : 1) * (double)(s->folds ? s->folds : 1);
    if (runs > RUNS) return app_error("%.0f trainings are more than %d; --random N takes N of the points", runs, RUNS);
    s->n = s->random ? (int)s->random : (int)grid;
    s->points = calloc((size_t)s->n, sizeof *s->points);
    if (!s->points) return app_fail(NULL);
    uint64_t state = 1;
    for (int i = 0; i < s->n; i++)
        for (int k = 0, rest = i; k < s->axes; k++) {
            char value[24];
            if (s->random) random_value(&s->ax[k], &state, value);
            else snprintf(value, sizeof value, "%s", s->ax[k].value[rest % s->ax[k].n]), rest /= s->ax[k].n;
            snprintf(s->points[i].setting[k], sizeof s->points[i].setting[k], "%s=%s", s->ax[k].key, value);
        }
    return APP_OK;
}

/* ---- runs --------------------------------------------------------------------------------------------------------------------------------------------- */

static bool higher_is_better(const search *s) { return s->task == CJ_TASK_CLASSIFY || s->task == CJ_TASK_NODES; }

/* One training. The result is what the loop chooses by: accuracy of classes, else the loss. */
static int one(search *s, point *p, int seed, int fold)
{
    app_run run = *s->run;
    const char *setting[64];
    char seed_text[32];
    int n = 0;
    for (int i = 0; i < run.job.settings && n < 56; i++)
        if (!has_values(run.job.setting[i])) setting[n++] = run.job.setting[i];
    for (int k = 0; k < s->axes; k++) setting[n++] = p->setting[k];
    snprintf(seed_text, sizeof seed_text, "seed=%d", seed + 1);
    if (s->seeds) setting[n++] = seed_text;
    run.job.setting = setting;
    run.job.settings = n;
    run.job.fold = fold;
    run.job.folds = (int)s->folds;
    run.folder = NULL;
    run.quiet = run.silent = true;
    run.no_test = s->axes > 0 || s->folds > 0;
    app_outcome o;
    int status = app_run_once(&run, &o);
    if (status) return status;
    if (o.train.val.n == 0 && run.no_test) return app_error("there is nothing to choose by: validation=0");
    s->task = o.task;
    if (o.train.val.n > 0) {
        p->sum += o.train.best;
        p->squares += o.train.best * o.train.best;
        p->n++;
    }
    double test = higher_is_better(s) ? o.test.accuracy : o.test.loss;
    if (o.test.n > 0 && isfinite(test)) {
        p->test_sum += test;
        p->test_squares += test * test;
        p->tested++;
    }
    return APP_OK;
}

static double mean(const point *p) { return p->sum / p->n; }

/* Standard deviation of n results from their sum and the sum of their squares. */
static double deviation(double sum, double squares, int n)
{
    double variance = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0;
    return variance > 0 ? sqrt(variance) : 0;
}
static double spread(const point *p) { return deviation(p->sum, p->squares, p->n); }
static double test_spread(const point *p) { return deviation(p->test_sum, p->test_squares, p->tested); }

static void print_point(const search *s, const point *p)
{
    const char *metric = higher_is_better(s) ? "validation accuracy" : "validation loss";
    if (s->run->json) {
        app_json_open();
        for (int k = 0; k < s->axes; k++) {
            char key[64];
            const char *value = strchr(p->setting[k], '=');
            snprintf(key, sizeof key, "%.*s", (int)(value - p->setting[k]), p->setting[k]);
            app_json_text(key, value + 1);
        }
        if (p->n > 0) app_json_number(higher_is_better(s) ? "val_accuracy" : "val_loss", mean(p));
        if (p->n > 0) app_json_number("spread", spread(p));
        if (p->tested > 0) app_json_number(higher_is_better(s) ? "test_accuracy" : "test_loss", p->test_sum / p->tested);
        if (p->tested > 0) app_json_number("test_spread", test_spread(p));
        app_json_number("runs", p->n > p->tested ? p->n : p->tested);
        app_json_close();
        return;
    }
    for (int k = 0; k < s->axes; k++) printf("%s  ", p->setting[k]);
    double scale = higher_is_better(s) ? 100 : 1;
    const char *unit = higher_is_better(s) ? " %" : "";
    int digits = higher_is_better(s) ? 2 : 4;
    if (p->n > 0) printf("%s %.*f%s", metric, digits, scale * mean(p), unit);
    if (p->n > 1) printf(" ± %.*f%s over %d runs", digits, scale * spread(p), unit, p->n);
    if (p->n > 0) printf("\n");
    if (p->tested > 0)
        printf("%s %.*f%s ± %.*f%s over %d runs\n", higher_is_better(s) ? "test accuracy" : "test loss", digits,
               scale * p->test_sum / p->tested, unit, digits, scale * test_spread(p), unit, p->tested);
    fflush(stdout);
}

static const point *best_point(const search *s)
{
    const point *best = &s->points[0];
    for (int i = 1; i < s->n; i++)
        if (higher_is_better(s) ? mean(&s->points[i]) > mean(best) : mean(&s->points[i]) < mean(best)) best = &s->points[i];
    return best;
}

/* What the results look like along a setting of numbers. */
static void draw(const search *s)
{
    const char *const path = "search.png";
    if (s->axes == 0 || s->n < 3 || !s->ax[0].range || s->run->json) return;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    double *x = malloc((size_t)s->n * sizeof *x), *y = malloc((size_t)s->n * sizeof *y);
    for (int i = 0; i < s->n && x && y; i++) {
        x[i] = strtod(strchr(s->points[i].setting[0], '=') + 1, NULL);
        y[i] = higher_is_better(s) ? 1 - mean(&s->points[i]) : mean(&s->points[i]);
    }
    cj_plot *p = x && y ? cj_plot_new(c, "Search") : NULL;
    cj_plot_labels(p, s->ax[0].key, higher_is_better(s) ? "share of wrong answers, validation" : "loss, validation");
    cj_plot_log(p, s->ax[0].over.log, false);
    cj_plot_points(p, NULL, x, y, s->n);
    if (p && cj_plot_save(p, path)) printf("picture: %s\n", path);
    free(x);
    free(y);
    cj_ctx_free(c);
}

static int run_all(search *s)
{
    for (int i = 0; i < s->n; i++) {
        for (int seed = 0; seed < (s->seeds ? s->seeds : 1); seed++)
            for (int fold = 0; fold < (s->folds ? s->folds : 1); fold++) {
                int status = one(s, &s->points[i], seed, fold);
                if (status) return status;
            }
        print_point(s, &s->points[i]);
    }
    if (s->n == 1 || s->run->json) return APP_OK;
    const point *best = best_point(s);
    printf("\nbest: ");
    print_point(s, best);
    draw(s);
    printf("next: cajal train %s", s->run->job.model);
    if (s->run->job.data) printf(" --data %s", s->run->job.data);
    if (s->run->job.epochs) printf(" --epochs %s", s->run->job.epochs);
    if (s->run->job.steps) printf(" --steps %s", s->run->job.steps);
    for (int i = 0; i < s->run->job.settings; i++)
        if (!has_values(s->run->job.setting[i])) printf(" %s", s->run->job.setting[i]);
    for (int k = 0; k < s->axes; k++) printf(" %s", best->setting[k]);
    printf("\n");
    return APP_OK;
}

int app_search(const app_run *run, const app_search_opts *o)
{
    if (run->resume) return app_error("a search cannot be resumed");
    search s = { .run = run };
    int status = o->seeds ? app_number("--seeds", o->seeds, 1, &s.seeds) : APP_OK;
    if (!status && o->folds) status = app_number("--folds", o->folds, 2, &s.folds);
    if (!status && o->random) status = app_number("--random", o->random, 1, &s.random);
    for (int i = 0; i < run->job.settings && !status; i++)
        if (has_values(run->job.setting[i])) status = read_axis(&s, run->job.setting[i]);
    if (!status && s.random && s.axes == 0) status = app_error("--random needs a setting with several values, as lr=log:1e-4:1e-1:5");
    if (!status) status = make_points(&s);
    if (!status) status = run_all(&s);
    free(s.points);
    return status;
}
