/* cajal/metrics.h: how good predictions are.
 *
 * Numbers and tables on the host, in f64, of tensors wherever they are; nothing here has a gradient.  After an error numbers are NaN, tensors poison and structs empty.
 */
#ifndef CAJAL_METRICS_H
#define CAJAL_METRICS_H

#include <cajal/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- classes: scores [.., C], target i64 [..] of 0 … C-1 ---------------------------------------------------------------------------------------- */

/* Share of targets among the k highest scores; of equal scores the first class counts as higher. */
CJ_API double cj_top_k_accuracy(cj_tensor *scores, cj_tensor *target, int64_t k);
CJ_API double cj_accuracy(cj_tensor *scores, cj_tensor *target);  /* k = 1: share of right answers */
/* Counts i64 [C, C] of predicted classes (i64, as of cj_argmax): row the target, column the prediction. Row sums are class counts, the trace over n is the accuracy. */
CJ_API cj_tensor *cj_confusion_matrix(cj_tensor *predicted, cj_tensor *target, int64_t classes);
/* Of a class in a confusion matrix: TP/(TP+FP), TP/(TP+FN), their harmonic mean 2PR/(P+R); 0 where a denominator is 0. */
typedef struct cj_class_scores {
    double precision, recall, f1;
    int64_t support;  /* examples of the class, TP + FN */
} cj_class_scores;
CJ_API cj_class_scores cj_precision_recall(cj_tensor *confusion, int64_t which);
/* Means over classes: every class alike (macro), by support (weighted), or of the summed counts (micro; all three are the accuracy). */
typedef enum cj_class_mean { CJ_MACRO, CJ_WEIGHTED, CJ_MICRO } cj_class_mean;
CJ_API cj_class_scores cj_precision_recall_mean(cj_tensor *confusion, cj_class_mean how);

/* Two classes: score [n], higher for class 1; target bool or i64 [n] of 0 and 1. The points of all thresholds, from the highest score down; equal scores are one point. */
typedef struct cj_score_curve {
    cj_tensor *x, *y, *threshold;  /* f64 [points]: class 1 is score >= threshold */
    double area;
} cj_score_curve;
/* x = FP/(FP+TN), y = TP/(TP+FN), from (0, 0) at threshold inf. The area (trapezoids) is P(score of a 1 > score of a 0) + P(equal)/2; both classes must occur. */
CJ_API cj_score_curve cj_roc_curve(cj_tensor *score, cj_tensor *target);
CJ_API double cj_roc_auc(cj_tensor *score, cj_tensor *target);
/* x = recall, y = precision, from (0, 1) at threshold inf. The area is the average precision, sum (x_i - x_(i-1))·y_i; class 1 must occur. */
CJ_API cj_score_curve cj_precision_recall_curve(cj_tensor *score, cj_tensor *target);

/* Expected calibration error (Naeini et al. 2015) of probabilities [.., C]: sum over bins of n_b/n·|right share - mean confidence|, the confidence of the likeliest
 * class in equal bins (k/bins, (k+1)/bins]; 0 bins: 15. */
CJ_API double cj_calibration_error(cj_tensor *probabilities, cj_tensor *target, int64_t bins);
/* exp of the mean cross-entropy in nats: e^(-mean log softmax(logits)[target]). C for a uniform guess among C. */
CJ_API double cj_perplexity(cj_tensor *logits, cj_tensor *target);

/* ---- values: prediction and target of one shape ----------------------------------------------------------------------------------------------------- */

typedef struct cj_value_scores {
    double mse, rmse, mae;
    double r2;   /* 1 - sum (y - p)²/sum (y - mean y)²: 1 is perfect, 0 is as good as the mean; NaN where the target does not vary */
    double nll;  /* mean -log N(y; p, s²) at the likeliest s² = mse: (log(2 pi mse) + 1)/2 */
} cj_value_scores;
CJ_API cj_value_scores cj_regression_scores(cj_tensor *prediction, cj_tensor *target);
CJ_API double cj_r2(cj_tensor *prediction, cj_tensor *target);

/* ---- texts ---------------------------------------------------------------------------------------------------------------------------------------------- */

/* BLEU of a corpus (Papineni et al. 2002) as sacreBLEU 2 gives it by default: detokenised UTF-8 sentences, one reference each, tokens as in mteval-v13a, case kept,
 *     100 · brevity · exp(mean over n = 1 … 4 of log p_n),   p_n = matching n-grams / n-grams, each reference n-gram matched once; brevity = min(1, e^(1 - r/h)) for
 * h tokens of hypotheses and r of references; the k-th p_n without a match counts as 1/(2^k · n-grams). */
typedef struct cj_bleu_score {
    double bleu, brevity;
    double precision[4];            /* percent */
    int64_t matches[4], ngrams[4];
    int64_t length, reference_length;
} cj_bleu_score;
CJ_API cj_bleu_score cj_bleu(cj_ctx *c, const char *const *hypotheses, const char *const *references, int64_t n);
/* The tokens of mteval-v13a, with single spaces between, into out (at most room bytes with the zero at the end); returns the length needed,
 * 0 after an error. */
CJ_API size_t cj_tokenise_13a(cj_ctx *c, const char *text, char *out, size_t room);

#ifdef __cplusplus
}
#endif
#endif
