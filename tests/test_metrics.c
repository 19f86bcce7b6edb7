/* Metrics: the catalogue's numbers, closed forms, scikit-learn's numbers (tools/fixtures_metrics.py), and sacreBLEU's scores and tokens. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 31);

static cj_tensor *i64(const int64_t *v, cj_shape s) { return cj_from_i64(c, v, s); }
#define I64(shape, ...) i64((int64_t[]){ __VA_ARGS__ }, shape)

/* ---- classes ------------------------------------------------------------------------------------------------------------------------------------ */

/* metric.accuracy */
static void metric_accuracy(void **state)
{
    (void)state;
    cj_tensor *scores = F64(c, CJ_SHAPE(5, 3), .1, .7, .2, .5, .5, 0, .2, .3, .5, .9, .05, .05, .3, .3, .4);
    cj_tensor *target = I64(CJ_SHAPE(5), 1, 0, 1, 2, 2);
    assert_near(cj_accuracy(scores, target), 3 / 5., 0); /* of the tie the first class counts */
    assert_near(cj_top_k_accuracy(scores, target, 2), 4 / 5., 0);
    assert_near(cj_top_k_accuracy(scores, target, 3), 1, 0);
    cj_tensor *confusion = cj_confusion_matrix(cj_argmax(scores, .axes = CJ_AXIS(-1)), target, 3);
    const double want[9] = { 1, 0, 0, 0, 1, 1, 1, 0, 1 };
    double trace = 0;
    for (int i = 0; i < 9; i++) assert_near(value_at(confusion, i), want[i], 0);
    for (int i = 0; i < 3; i++) trace += value_at(confusion, 4 * i);
    assert_near(trace / 5, cj_accuracy(scores, target), 0); /* accuracy = trace/n */
    cj_tensor *rows = cj_sum(confusion, .axes = CJ_AXIS(1));
    const double counts[3] = { 1, 2, 2 };
    for (int i = 0; i < 3; i++) assert_near(value_at(rows, i), counts[i], 0);
    /* generalisation gap: test error less training error, of the same function on two sets */
    double train = 1 - cj_accuracy(cj_slice(scores, 0, 0, 2, 1), cj_slice(target, 0, 0, 2, 1)),
           test = 1 - cj_accuracy(cj_slice(scores, 0, 2, 5, 1), cj_slice(target, 0, 2, 5, 1));
    assert_near(train, 0, 0);
    assert_near(test - train, 2 / 3., 1e-15);
    assert_refused(CJ_EINDEX, "top_k_accuracy: target 3 of example 1; classes are 0 to 2",
                   cj_accuracy(cj_slice(scores, 0, 0, 2, 1), I64(CJ_SHAPE(2), 0, 3)));
    assert_refused(CJ_ESHAPE, "top_k_accuracy: ", cj_accuracy(scores, I64(CJ_SHAPE(2), 0, 1)));
    assert_refused(CJ_EVALUE, "top_k_accuracy: k = 0; at least 1 expected", cj_top_k_accuracy(scores, target, 0));
    assert_poisoned(CJ_EVALUE, "confusion_matrix: 0 classes", cj_confusion_matrix(target, target, 0));
    assert_poisoned(CJ_EINDEX, "confusion_matrix: prediction 2 and target 2 of example 3", cj_confusion_matrix(target, target, 2));
    assert_poisoned(CJ_ESHAPE, "confusion_matrix: ", cj_confusion_matrix(target, I64(CJ_SHAPE(2), 0, 1), 3));
}

/* P(score of a one > score of a zero) + P(equal)/2, pair by pair */
static double pairs_won(const double *score, const double *target, int n)
{
    double won = 0, pairs = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (target[i] == 1 && target[j] == 0) {
                pairs++;
                won += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
            }
    return won / pairs;
}

/* metric.precision_recall */
static void metric_precision_recall(void **state)
{
    (void)state;
    /* TP 8, FP 2, FN 4, TN 6; class 1 is the positive one */
    cj_tensor *m = I64(CJ_SHAPE(2, 2), 6, 2, 4, 8);
    cj_class_scores s = cj_precision_recall(m, 1);
    assert_near(s.precision, .8, 1e-15);
    assert_near(s.recall, .6667, 5e-5);
    assert_near(s.f1, .7273, 5e-5);
    assert_int_equal(s.support, 12);
    cj_class_scores z = cj_precision_recall(m, 0), macro = cj_precision_recall_mean(m, CJ_MACRO),
                    weighted = cj_precision_recall_mean(m, CJ_WEIGHTED), micro = cj_precision_recall_mean(m, CJ_MICRO);
    assert_near(macro.f1, (s.f1 + z.f1) / 2, 1e-15);
    assert_near(weighted.recall, 14 / 20., 1e-15);
    assert_near(weighted.precision, (8 * z.precision + 12 * s.precision) / 20, 1e-15);
    assert_near(micro.precision, 14 / 20., 1e-15);
    assert_near(micro.f1, 14 / 20., 1e-15);
    assert_int_equal(micro.support, 20);
    cj_class_scores never = cj_precision_recall(I64(CJ_SHAPE(2, 2), 5, 0, 0, 0), 1); /* empty denominators are 0 */
    assert_true(never.precision == 0 && never.recall == 0 && never.f1 == 0 && never.support == 0);
    assert_refused(CJ_EINDEX, "precision_recall: class 2 of 2", cj_precision_recall(m, 2).f1);
    assert_refused(CJ_ESHAPE, "precision_recall: [2]; a confusion matrix", cj_precision_recall(I64(CJ_SHAPE(2), 1, 2), 0).f1);

    for (int n = 4; n <= 64; n *= 2) { /* scores with ties: the trapezoids are the pairs won */
        cj_tensor *score = cj_floor(cj_uniform(c, 0, n / 2., CJ_SHAPE(n), .dtype = CJ_F64)),
                  *target = cj_cat((cj_tensor *[]){ cj_randint(c, 0, 2, CJ_SHAPE(n - 2)), I64(CJ_SHAPE(2), 0, 1) }, 2, 0);
        double *a = values_of(score), *b = values_of(target);
        assert_near(cj_roc_auc(score, target), pairs_won(a, b, n), 1e-12);
        free(a), free(b);
    }
    cj_tensor *target = I64(CJ_SHAPE(4), 0, 0, 1, 1);
    assert_near(cj_roc_auc(F64(c, CJ_SHAPE(4), .1, .2, .3, .4), target), 1, 0);
    assert_near(cj_roc_auc(F64(c, CJ_SHAPE(4), .5, .5, .5, .5), target), .5, 0);
    /* scikit-learn's example: roc_auc_score 0.75, average_precision_score 0.8333 */
    cj_tensor *score = F64(c, CJ_SHAPE(4), .1, .4, .35, .8);
    cj_score_curve roc = cj_roc_curve(score, target), pr = cj_precision_recall_curve(score, target);
    assert_near(roc.area, .75, 1e-15);
    assert_near(pr.area, .8333333333, 1e-9);
    const double x[5] = { 0, 0, .5, .5, 1 }, y[5] = { 0, .5, .5, 1, 1 }, precision[5] = { 1, 1, .5, 2 / 3., .5 };
    assert_int_equal(cj_numel(roc.x), 5);
    for (int i = 0; i < 5; i++) {
        assert_near(value_at(roc.x, i), x[i], 0);
        assert_near(value_at(roc.y, i), y[i], 0);
        assert_near(value_at(pr.y, i), precision[i], 1e-15);
        assert_near(value_at(pr.x, i), y[i], 0);
    }
    assert_near(value_at(roc.threshold, 1), .8, 0);
    assert_refused(CJ_EVALUE, "roc_auc: all targets are 1", cj_roc_auc(score, I64(CJ_SHAPE(4), 1, 1, 1, 1)));
    assert_refused(CJ_EVALUE, "precision_recall_curve: all targets are 0",
                   cj_precision_recall_curve(score, I64(CJ_SHAPE(4), 0, 0, 0, 0)).area);
    assert_refused(CJ_EVALUE, "roc_curve: target 2 of example 0", cj_roc_curve(score, I64(CJ_SHAPE(4), 2, 1, 0, 0)).area);
    assert_refused(CJ_EVALUE, "roc_curve: score 1 is NaN", cj_roc_curve(F64(c, CJ_SHAPE(2), 0, NAN), I64(CJ_SHAPE(2), 0, 1)).area);
}

static void calibration(void **state)
{
    (void)state;
    /* two bins of confidence: .6 three times, one right of three; .9 twice, both right */
    cj_tensor *p = F64(c, CJ_SHAPE(5, 2), .6, .4, .6, .4, .4, .6, .9, .1, .1, .9);
    cj_tensor *y = I64(CJ_SHAPE(5), 0, 1, 0, 0, 1);
    assert_near(cj_calibration_error(p, y, 10), (fabs(1 - 3 * .6) + fabs(2 - 2 * .9)) / 5, 1e-12);
    assert_near(cj_calibration_error(p, y, 1), fabs(3 - 3 * .6 - 2 * .9) / 5, 1e-12);
    assert_refused(CJ_EVALUE, "calibration_error: -1 bins", cj_calibration_error(p, y, -1));
    assert_refused(CJ_EVALUE, "calibration_error: probability 3",
                   cj_calibration_error(F64(c, CJ_SHAPE(1, 2), 3, 1), I64(CJ_SHAPE(1), 0), 5));
}

/* rnn.perplexity */
static void rnn_perplexity(void **state)
{
    (void)state;
    for (int classes = 2; classes <= 50; classes += 16)
        assert_near(cj_perplexity(cj_zeros(c, CJ_SHAPE(4, 3, classes), CJ_F32), cj_zeros(c, CJ_SHAPE(4, 3), CJ_I64)), classes, 1e-10);
    /* a mean cross-entropy of 3.55: nats give e^3.55, bits 2^3.55 */
    cj_tensor *target = I64(CJ_SHAPE(1), 0), *nats = F64(c, CJ_SHAPE(1, 2), 0, log(exp(3.55) - 1)),
              *bits = F64(c, CJ_SHAPE(1, 2), 0, log(exp2(3.55) - 1));
    assert_near(cj_perplexity(nats, target), 34.8133, 5e-5);
    assert_near(cj_perplexity(bits, target), 11.7127, 5e-5);
    /* (1/likelihood)^(1/n) */
    cj_tensor *logits = cj_randn(c, CJ_SHAPE(6, 5), .dtype = CJ_F64), *y = cj_randint(c, 0, 5, CJ_SHAPE(6));
    double log_likelihood = -cj_item(cj_cross_entropy(logits, y, .reduction = CJ_SUM));
    assert_near(cj_perplexity(logits, y), pow(1 / exp(log_likelihood), 1 / 6.), 1e-10);
}

/* metric.regression */
static void metric_regression(void **state)
{
    (void)state;
    cj_tensor *y = F64(c, CJ_SHAPE(4), 1, 2, 3, 6), *p = F64(c, CJ_SHAPE(4), 1, 3, 2, 4);
    cj_value_scores s = cj_regression_scores(p, y);
    assert_near(s.mse, 6 / 4., 1e-15);
    assert_near(s.rmse, sqrt(1.5), 1e-15);
    assert_near(s.mae, 1, 1e-15);
    assert_near(s.r2, 1 - 6 / 14., 1e-15);
    assert_near(cj_r2(y, y), 1, 0);
    assert_near(cj_r2(cj_full(c, 3, CJ_SHAPE(4), CJ_F64), y), 0, 1e-15);
    /* the mean negative log-likelihood of a Gaussian at its best variance, term by term */
    double nll = 0, e[4] = { 0, -1, 1, 2 };
    for (int i = 0; i < 4; i++) nll += (0.5 * log(2 * M_PI * s.mse) + e[i] * e[i] / (2 * s.mse)) / 4;
    assert_near(s.nll, nll, 1e-14);
    assert_near(s.nll, 0.5 * (log(2 * M_PI * 1.5) + 1), 1e-14);
    assert_true(isnan(cj_r2(p, cj_full(c, 2, CJ_SHAPE(4), CJ_F64)))); /* nothing varies */
    assert_refused(CJ_ESHAPE, "regression_scores: ", cj_r2(p, F64(c, CJ_SHAPE(2), 1, 2)));
}

/* ---- scikit-learn --------------------------------------------------------------------------------------------------------------------------------------- */

/* The numbers of a line of tests/fixtures/metrics.txt, f64 [n]. */
static cj_tensor *fixture(const char *name)
{
    FILE *f = fopen("tests/fixtures/metrics.txt", "r");
    assert_non_null(f);
    char found[64], word[64];
    int n;
    cj_tensor *t = NULL;
    while (!t && fscanf(f, "%63s %d", found, &n) == 2) {
        double *v = malloc((size_t)n * sizeof *v);
        for (int i = 0; i < n; i++) {
            assert_int_equal(fscanf(f, "%63s", word), 1);
            v[i] = strtod(word, NULL);
        }
        if (strcmp(found, name) == 0) t = cj_from_f64(c, v, CJ_SHAPE(n));
        free(v);
    }
    fclose(f);
    if (!t) fail_msg("the fixture has no %s", name);
    return t;
}

static void assert_same(const char *name, cj_tensor *t)
{
    cj_tensor *want = fixture(name);
    assert_int_equal(cj_numel(t), cj_numel(want));
    for (int64_t i = 0; i < cj_numel(want); i++)
        if (!(value_at(t, i) == value_at(want, i) || fabs(value_at(t, i) - value_at(want, i)) <= 1e-13))
            fail_msg("%s[%lld] is %.17g, not %.17g", name, (long long)i, value_at(t, i), value_at(want, i));
}

static void as_scikit_learn(void **state)
{
    (void)state;
    enum { N = 60, C = 5 };
    cj_tensor *y = cj_cast(fixture("target"), CJ_I64), *scores = cj_reshape(fixture("scores"), CJ_SHAPE(N, C));
    assert_same("accuracy", cj_full(c, cj_accuracy(scores, y), CJ_SHAPE(1), CJ_F64));
    cj_tensor *ranks = cj_reshape(fixture("ranks"), CJ_SHAPE(N, C)), *top = fixture("top");
    for (int k = 1; k < C; k++) assert_near(cj_top_k_accuracy(ranks, y, k), value_at(top, k - 1), 1e-15);
    cj_tensor *confusion = cj_confusion_matrix(cj_argmax(scores, .axes = CJ_AXIS(-1)), y, C), *classes = fixture("classes");
    assert_same("confusion", confusion);
    for (int k = 0; k < C; k++) { /* the last class never occurs */
        cj_class_scores s = cj_precision_recall(confusion, k);
        assert_near(s.precision, value_at(classes, 4 * k), 1e-15);
        assert_near(s.recall, value_at(classes, 4 * k + 1), 1e-15);
        assert_near(s.f1, value_at(classes, 4 * k + 2), 1e-15);
        assert_near((double)s.support, value_at(classes, 4 * k + 3), 0);
    }
    const char *const means[] = { [CJ_MACRO] = "macro", [CJ_WEIGHTED] = "weighted", [CJ_MICRO] = "micro" };
    for (int k = 0; k < 3; k++) {
        cj_class_scores s = cj_precision_recall_mean(confusion, (cj_class_mean)k);
        assert_same(means[k], F64(c, CJ_SHAPE(3), s.precision, s.recall, s.f1));
    }
    assert_near(log(cj_perplexity(scores, y)), cj_item(fixture("log_loss")), 1e-14);
    assert_near(cj_calibration_error(cj_softmax(scores, -1), y, 10), cj_item(fixture("calibration")), 1e-14);

    cj_tensor *score = fixture("score"), *two = cj_cast(fixture("two"), CJ_I64);
    cj_score_curve roc = cj_roc_curve(score, two), pr = cj_precision_recall_curve(score, two);
    assert_same("roc_x", roc.x);
    assert_same("roc_y", roc.y);
    assert_same("roc_at", roc.threshold);
    assert_near(cj_roc_auc(score, two), cj_item(fixture("auc")), 1e-14);
    assert_same("pr_x", pr.x);
    assert_same("pr_y", pr.y);
    assert_near(pr.area, cj_item(fixture("average_precision")), 1e-14);

    cj_value_scores v = cj_regression_scores(fixture("prediction"), fixture("value"));
    assert_same("regression", F64(c, CJ_SHAPE(4), v.mse, v.rmse, v.mae, v.r2));
}

/* ---- BLEU ------------------------------------------------------------------------------------------------------------------------------------------ */

enum { MOST = 16, LINE = 512 };

static bool read_line(FILE *f, char mark, char *out)
{
    char line[LINE];
    if (!fgets(line, LINE, f)) return false;
    line[strcspn(line, "\n")] = 0;
    assert_int_equal(line[0], mark);
    snprintf(out, LINE, "%s", line + 2);
    return true;
}

static void bleu_as_sacrebleu(void **state)
{
    (void)state;
    FILE *f = fopen("tests/fixtures/bleu.txt", "r");
    assert_non_null(f);
    char name[64];
    int n, corpora = 0;
    double want[6];
    long long length, reference_length;
    while (fscanf(f, "corpus %63s %d %lf %lf %lf %lf %lf %lf %lld %lld\n", name, &n, &want[0], &want[1], &want[2], &want[3], &want[4],
                  &want[5], &length, &reference_length) == 10) {
        static char text[2][MOST][LINE];
        const char *hypotheses[MOST], *references[MOST];
        assert_true(n <= MOST);
        for (int i = 0; i < n; i++) {
            char tokens[LINE], got[LINE];
            assert_true(read_line(f, 'h', text[0][i]) && read_line(f, 'r', text[1][i]) && read_line(f, 't', tokens));
            hypotheses[i] = text[0][i], references[i] = text[1][i];
            assert_int_equal(cj_tokenise_13a(c, text[0][i], got, sizeof got), strlen(tokens));
            assert_string_equal(got, tokens);
        }
        cj_bleu_score s = cj_bleu(c, hypotheses, references, n);
        assert_near(s.bleu, want[0], 1e-9);
        for (int k = 0; k < 4; k++) assert_near(s.precision[k], want[1 + k], 1e-9);
        assert_near(s.brevity, want[5], 1e-12);
        assert_int_equal(s.length, length);
        assert_int_equal(s.reference_length, reference_length);
        corpora++;
    }
    fclose(f);
    assert_int_equal(corpora, 7);
    char small[4];
    assert_int_equal(cj_tokenise_13a(c, "a.b", small, sizeof small), 5);
    assert_string_equal(small, "a .");
    assert_refused(CJ_EVALUE, "bleu: sentence 1 is missing",
                   cj_bleu(c, (const char *[]){ "a", NULL }, (const char *[]){ "a", "b" }, 2).bleu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metric_accuracy), cmocka_unit_test(metric_precision_recall), cmocka_unit_test(calibration),
        cmocka_unit_test(rnn_perplexity),  cmocka_unit_test(metric_regression),       cmocka_unit_test(bleu_as_sacrebleu),
        cmocka_unit_test(as_scikit_learn),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
