/* Samples of losses. */
#include "ops/samples_list.h"

/* ---- calls --------------------------------------------------------------------------------------------------------------------------------------- */

CALL(loss)
{
    UNUSED;
    return s->fn.loss(in[0], in[1],
                      &(cj_loss_opts){ .reduction = (cj_reduction)s->at[0], .label_smoothing = s->number, .ignore_index = s->at[1] });
}

CALL(many)
{
    UNUSED;
    return s->fn.many(in, (cj_reduction)s->at[0]);
}

/* Compositions: one line per form of a loss. */
#define FORM(name, expression)                                                                                                             \
    static cj_tensor *name(cj_tensor *const *in, cj_reduction r) { return (void)r, expression; }
#define PLAIN(name) FORM(name, cj_##name(in[0], in[1], &(cj_loss_opts){ .reduction = r }))
#define SCALED(name) FORM(name, cj_##name(in[0], in[1], in[2], &(cj_likelihood_opts){ .reduction = r }))
/* clang-format off */
PLAIN(mse_loss)
PLAIN(squared_loss)
PLAIN(l1_loss)
FORM(huber_loss, cj_huber_loss(in[0], in[1], &(cj_huber_opts){ r, 1.5 }))
FORM(smooth_l1_loss, cj_smooth_l1_loss(in[0], in[1], &(cj_smooth_l1_opts){ r, 0.5 }))
FORM(pinball_loss, cj_pinball_loss(in[0], in[1], 0.75, &(cj_loss_opts){ .reduction = r }))
PLAIN(zero_one_loss)
PLAIN(perceptron_loss)
PLAIN(exponential_loss)
PLAIN(soft_margin_loss)
FORM(hinge_loss, cj_hinge_loss(in[0], in[1], &(cj_margin_opts){ .reduction = r }))
FORM(hinge_embedding_loss, cj_hinge_embedding_loss(in[0], in[1], &(cj_margin_opts){ .reduction = r }))
PLAIN(bce_loss)
FORM(bce_loss_weighted, cj_bce_loss(in[0], in[1], &(cj_loss_opts){ .reduction = r, .weight = in[2] }))
FORM(bce_weighted, cj_bce_with_logits(in[0], in[1], &(cj_loss_opts){ .reduction = r, .weight = in[2] }))
FORM(bce_positive, cj_bce_with_logits(in[0], in[1], &(cj_loss_opts){ .reduction = r, .pos_weight = in[2] }))
FORM(bce_both, cj_bce_with_logits(in[0], in[1], &(cj_loss_opts){ .reduction = r, .weight = in[2], .pos_weight = in[3] }))
FORM(kl_div, cj_kl_div(in[0], in[1], &(cj_kl_opts){ .reduction = r }))
FORM(kl_div_log, cj_kl_div(in[0], in[1], &(cj_kl_opts){ .reduction = r, .log_target = true }))
FORM(kl_div_batch, cj_kl_div(in[0], in[1], &(cj_kl_opts){ .batch_mean = true }))
PLAIN(nll_loss)
FORM(nll_weighted, cj_nll_loss(in[0], in[1], &(cj_loss_opts){ .reduction = r, .weight = in[2] }))
FORM(ce_weighted, cj_cross_entropy(in[0], in[1], &(cj_loss_opts){ .reduction = r, .weight = in[2] }))
FORM(ce_smoothed, cj_cross_entropy(in[0], in[1], &(cj_loss_opts){ .reduction = r, .weight = in[2], .label_smoothing = 0.25 }))
PLAIN(soft_cross_entropy)
FORM(soft_smoothed, cj_soft_cross_entropy(in[0], in[1], &(cj_loss_opts){ .reduction = r, .label_smoothing = 0.25 }))
FORM(multi_margin_loss, cj_multi_margin_loss(in[0], in[1], &(cj_margin_opts){ .reduction = r }))
FORM(multi_margin_squared, cj_multi_margin_loss(in[0], in[1], &(cj_margin_opts){ .reduction = r, .p = 2, .margin = 0.5, .weight = in[2] }))
PLAIN(multilabel_margin_loss)
PLAIN(multilabel_soft_margin_loss)
FORM(multilabel_weighted, cj_multilabel_soft_margin_loss(in[0], in[1], &(cj_loss_opts){ .reduction = r, .weight = in[2] }))
FORM(cosine_embedding_loss, cj_cosine_embedding_loss(in[0], in[1], in[2], &(cj_margin_opts){ .reduction = r, .margin = 0.015625 }))
FORM(margin_ranking_loss, cj_margin_ranking_loss(in[0], in[1], in[2], &(cj_margin_opts){ .reduction = r, .margin = 0.25 }))
FORM(triplet_margin_loss, cj_triplet_margin_loss(in[0], in[1], in[2], &(cj_triplet_opts){ .reduction = r }))
FORM(triplet_swapped, cj_triplet_margin_loss(in[0], in[1], in[2], &(cj_triplet_opts){ .reduction = r, .swap = true, .p = 1, .margin = 2 }))
FORM(triplet_cubic, cj_triplet_margin_loss(in[0], in[1], in[2], &(cj_triplet_opts){ .reduction = r, .p = 3, .margin = 2 }))
SCALED(gaussian_nll_loss)
SCALED(gaussian_scale_nll_loss)
SCALED(laplace_nll_loss)
SCALED(gumbel_nll_loss)
SCALED(multivariate_gaussian_nll_loss)
FORM(mixture_nll_loss, cj_mixture_nll_loss(in[0], in[1], in[2], in[3], &(cj_likelihood_opts){ .reduction = r }))
FORM(gaussian_full, cj_gaussian_nll_loss(in[0], in[1], in[2], &(cj_likelihood_opts){ .reduction = r, .full = true }))
FORM(poisson_nll_loss, cj_poisson_nll_loss(in[0], in[1], &(cj_poisson_opts){ .reduction = r }))
FORM(poisson_rate, cj_poisson_nll_loss(in[0], in[1], &(cj_poisson_opts){ .reduction = r, .rate = true, .full = true }))
#define FAMILY(name, which) FORM(name, cj_exponential_family_nll(in[0], in[1], which, &(cj_loss_opts){ .reduction = r }))
FAMILY(family_gaussian, CJ_FAMILY_GAUSSIAN)
FAMILY(family_bernoulli, CJ_FAMILY_BERNOULLI)
FAMILY(family_categorical, CJ_FAMILY_CATEGORICAL)
FAMILY(family_poisson, CJ_FAMILY_POISSON)
FORM(family_exponential, cj_exponential_family_nll(cj_neg(in[0]), in[1], CJ_FAMILY_EXPONENTIAL, &(cj_loss_opts){ .reduction = r }))
FORM(mean_gaussian, cj_exponential_family_mean(in[0], CJ_FAMILY_GAUSSIAN))
FORM(mean_bernoulli, cj_exponential_family_mean(in[0], CJ_FAMILY_BERNOULLI))
FORM(mean_categorical, cj_exponential_family_mean(in[0], CJ_FAMILY_CATEGORICAL))
FORM(mean_poisson, cj_exponential_family_mean(in[0], CJ_FAMILY_POISSON))
FORM(mean_exponential, cj_exponential_family_mean(in[0], CJ_FAMILY_EXPONENTIAL))

/* Shapes of an input: as the first ones, a weight or target per class (last axis), one per row, one for all, a square per row. */
typedef enum extent { SAME, CLASS, ROW, ONE, SQUARE } extent;
enum { REAL = CJ_DOMAIN_REAL, BETWEEN = CJ_DOMAIN_BETWEEN, UNIT = CJ_DOMAIN_UNIT, POSITIVE = CJ_DOMAIN_POSITIVE, LABEL = CJ_DOMAIN_NEAR_ONE,
       INDEX = CJ_DOMAIN_INDEX, TARGET = CJ_DOMAIN_TARGET, NONZERO = CJ_DOMAIN_NONZERO, DISTINCT = CJ_DOMAIN_DISTINCT };
typedef struct form {
    const char *row, *label; /* label NULL: the loss as it is, in all shapes */
    cj_tensor *(*fn)(cj_tensor *const *in, cj_reduction r);
    int n;
    int domain[4];
    extent extent[4];
} form;
static const form forms[] = {
    { "mse_loss", NULL, mse_loss, 2, { REAL, REAL }, { 0 } },
    { "squared_loss", NULL, squared_loss, 2, { REAL, REAL }, { 0 } },
    { "l1_loss", NULL, l1_loss, 2, { REAL, BETWEEN }, { 0 } },
    { "huber_loss", NULL, huber_loss, 2, { REAL, BETWEEN }, { 0 } },
    { "smooth_l1_loss", NULL, smooth_l1_loss, 2, { REAL, BETWEEN }, { 0 } },
    { "pinball_loss", NULL, pinball_loss, 2, { REAL, BETWEEN }, { 0 } },
    { "zero_one_loss", NULL, zero_one_loss, 2, { REAL, LABEL }, { 0 } },
    { "perceptron_loss", NULL, perceptron_loss, 2, { REAL, LABEL }, { 0 } },
    { "exponential_loss", NULL, exponential_loss, 2, { REAL, LABEL }, { 0 } },
    { "soft_margin_loss", NULL, soft_margin_loss, 2, { REAL, LABEL }, { 0 } },
    { "hinge_loss", NULL, hinge_loss, 2, { BETWEEN, LABEL }, { 0 } },
    { "hinge_embedding_loss", NULL, hinge_embedding_loss, 2, { BETWEEN, LABEL }, { 0 } },
    { "bce_loss", NULL, bce_loss, 2, { UNIT, UNIT }, { 0 } },
    { "bce_loss", "weight per class", bce_loss_weighted, 3, { UNIT, UNIT, POSITIVE }, { SAME, SAME, CLASS } },
    { "bce_with_logits_weighted", NULL, bce_weighted, 3, { REAL, UNIT, POSITIVE }, { SAME, SAME, SAME } },
    { "bce_with_logits_weighted", "positive", bce_positive, 3, { REAL, UNIT, POSITIVE }, { SAME, SAME, CLASS } },
    { "bce_with_logits_weighted", "both", bce_both, 4, { REAL, UNIT, POSITIVE, POSITIVE }, { SAME, SAME, CLASS, ONE } },
    { "kl_div", NULL, kl_div, 2, { REAL, UNIT }, { 0 } },
    { "kl_div", "log target", kl_div_log, 2, { REAL, REAL }, { 0 } },
    { "kl_div", "batch mean", kl_div_batch, 2, { REAL, UNIT }, { 0 } },
    { "nll_loss", NULL, nll_loss, 2, { REAL, INDEX }, { SAME, ROW } },
    { "nll_loss", "weights, ignored rows", nll_weighted, 3, { REAL, TARGET, POSITIVE }, { SAME, ROW, CLASS } },
    { "cross_entropy_weighted", NULL, ce_weighted, 3, { DISTINCT, INDEX, POSITIVE }, { SAME, ROW, CLASS } },
    { "cross_entropy_weighted", "smoothed, ignored rows", ce_smoothed, 3, { REAL, TARGET, POSITIVE }, { SAME, ROW, CLASS } },
    { "soft_cross_entropy", NULL, soft_cross_entropy, 2, { REAL, UNIT }, { 0 } },
    { "soft_cross_entropy", "smoothed", soft_smoothed, 2, { REAL, UNIT }, { 0 } },
    { "multi_margin_loss", NULL, multi_margin_loss, 2, { BETWEEN, INDEX }, { SAME, ROW } },
    { "multi_margin_loss", "squared, weighted", multi_margin_squared, 3, { BETWEEN, INDEX, POSITIVE }, { SAME, ROW, CLASS } },
    { "multilabel_margin_loss", NULL, multilabel_margin_loss, 2, { BETWEEN, TARGET }, { 0 } },
    { "multilabel_soft_margin_loss", NULL, multilabel_soft_margin_loss, 2, { REAL, UNIT }, { 0 } },
    { "multilabel_soft_margin_loss", "weight per class", multilabel_weighted, 3, { REAL, UNIT, POSITIVE }, { SAME, SAME, CLASS } },
    { "cosine_embedding_loss", NULL, cosine_embedding_loss, 3, { REAL, BETWEEN, LABEL }, { SAME, SAME, ROW } },
    { "margin_ranking_loss", NULL, margin_ranking_loss, 3, { REAL, BETWEEN, LABEL }, { 0 } },
    { "triplet_margin_loss", NULL, triplet_margin_loss, 3, { REAL, BETWEEN, BETWEEN }, { 0 } },
    { "triplet_margin_loss", "swap, p = 1", triplet_swapped, 3, { REAL, BETWEEN, NONZERO }, { 0 } },
    { "triplet_margin_loss", "p = 3", triplet_cubic, 3, { REAL, BETWEEN, BETWEEN }, { 0 } },
    { "gaussian_nll_loss", NULL, gaussian_nll_loss, 3, { REAL, REAL, POSITIVE }, { 0 } },
    { "gaussian_nll_loss", "one variance, full", gaussian_full, 3, { REAL, REAL, POSITIVE }, { SAME, SAME, ONE } },
    { "gaussian_scale_nll_loss", NULL, gaussian_scale_nll_loss, 3, { REAL, REAL, NONZERO }, { 0 } },
    { "laplace_nll_loss", NULL, laplace_nll_loss, 3, { REAL, BETWEEN, POSITIVE }, { 0 } },
    { "gumbel_nll_loss", NULL, gumbel_nll_loss, 3, { UNIT, REAL, POSITIVE }, { ONE, SAME, ONE } },
    { "multivariate_gaussian_nll_loss", NULL, multivariate_gaussian_nll_loss, 3, { REAL, REAL, NONZERO }, { SAME, SAME, SQUARE } },
    { "mixture_nll_loss", NULL, mixture_nll_loss, 4, { REAL, REAL, NONZERO, REAL }, { SAME, SAME, SAME, ROW } },
    { "poisson_nll_loss", NULL, poisson_nll_loss, 2, { REAL, POSITIVE }, { 0 } },
    { "poisson_nll_loss", "rates, full", poisson_rate, 2, { POSITIVE, BETWEEN }, { 0 } },
    { "exponential_family_nll", NULL, family_gaussian, 2, { REAL, REAL }, { 0 } },
    { "exponential_family_nll", "Bernoulli", family_bernoulli, 2, { REAL, UNIT }, { 0 } },
    { "exponential_family_nll", "categorical", family_categorical, 2, { REAL, UNIT }, { 0 } },
    { "exponential_family_nll", "Poisson", family_poisson, 2, { REAL, POSITIVE }, { 0 } },
    { "exponential_family_nll", "exponential", family_exponential, 2, { POSITIVE, POSITIVE }, { 0 } },
    { "exponential_family_mean", "Gaussian", mean_gaussian, 1, { REAL }, { 0 } },
    { "exponential_family_mean", "Bernoulli", mean_bernoulli, 1, { REAL }, { 0 } },
    { "exponential_family_mean", "categorical", mean_categorical, 1, { DISTINCT }, { 0 } },
    { "exponential_family_mean", "Poisson", mean_poisson, 1, { REAL }, { 0 } },
    { "exponential_family_mean", "exponential", mean_exponential, 1, { NONZERO }, { 0 } },
};
/* clang-format on */

static cj_shape extended(cj_shape s, extent e)
{
    switch (e) {
    case CLASS: return CJ_SHAPE(s.dim[s.ndim - 1]);
    case ROW: s.ndim--; return s;
    case ONE: return CJ_SCALAR;
    case SQUARE: s.dim[s.ndim] = s.dim[s.ndim - 1], s.ndim++; return s;
    default: return s;
    }
}

static void composed_samples(cj_sample_list *l, const char *name)
{
    static const struct {
        const char *label;
        cj_shape shape;
        cj_reduction reduction;
    } cases[] = {
        { "mean", { 2, { 4, 5 } }, CJ_MEAN },       { "sum", { 2, { 5, 7 } }, CJ_SUM },   { "each", { 3, { 2, 3, 5 } }, CJ_NONE },
        { "no elements", { 2, { 0, 3 } }, CJ_SUM }, { "vector", { 1, { 13 } }, CJ_MEAN }, { "large", { 2, { 129, 61 } }, CJ_MEAN },
    };
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        const form *f = &forms[k];
        for (size_t i = 0; i < sizeof cases / sizeof *cases && IS(f->row); i++) {
            if (f->label && i > 0) continue;
            cj_shape x = cases[i].shape;
            if (x.ndim == 1 && (f->extent[1] == ROW || f->extent[2] == ROW || f->extent[3] == ROW)) x = CJ_SHAPE(1, 13);
            unsigned flags = CJ_SAMPLE_FLOAT | size_flags(x);
            cj_sample *s = add(l, f->label ? f->label : cases[i].label, many, flags);
            for (int in = 0; in < f->n; in++)
                s->in[s->n++] = (cj_sample_input){ extended(x, f->extent[in]), (cj_domain)f->domain[in], x.dim[x.ndim - 1] };
            s->fn.many = f->fn;
            s->at[0] = cases[i].reduction;
            s->terms = cases[i].reduction == CJ_NONE ? (double)x.dim[x.ndim - 1] : (double)numel(x);
        }
    }
}

void cj__samples_loss(cj_sample_list *l, const char *name)
{
    cj_sample *s;
    if (IS("cross_entropy")) {
        static const struct {
            const char *label;
            cj_shape x, t;
            cj_domain targets;
            cj_reduction reduction;
            double smooth;
        } cases[] = {
            { "mean", { 2, { 5, 7 } }, { 1, { 5 } }, CJ_DOMAIN_INDEX, CJ_MEAN, 0 },
            { "sum, ignored rows", { 2, { 7, 5 } }, { 1, { 7 } }, CJ_DOMAIN_TARGET, CJ_SUM, 0 },
            { "each, smoothed", { 2, { 4, 13 } }, { 1, { 4 } }, CJ_DOMAIN_INDEX, CJ_NONE, 0.1 },
            { "mean, smoothed, ignored rows", { 3, { 2, 3, 5 } }, { 2, { 2, 3 } }, CJ_DOMAIN_TARGET, CJ_MEAN, 0.2 },
            { "each of 3-d", { 3, { 2, 3, 5 } }, { 2, { 2, 3 } }, CJ_DOMAIN_INDEX, CJ_NONE, 0 },
            { "no rows", { 2, { 0, 5 } }, { 1, { 0 } }, CJ_DOMAIN_INDEX, CJ_SUM, 0 },
            { "large", { 2, { 129, 1031 } }, { 1, { 129 } }, CJ_DOMAIN_TARGET, CJ_MEAN, 0.1 },
            { "many rows", { 2, { 4099, 17 } }, { 1, { 4099 } }, CJ_DOMAIN_INDEX, CJ_MEAN, 0 },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            int64_t classes = cases[i].x.dim[cases[i].x.ndim - 1];
            s = input(add(l, cases[i].label, loss, CJ_SAMPLE_FLOAT | size_flags(cases[i].x)), cases[i].x, CJ_DOMAIN_REAL);
            indices(s, cases[i].t, cases[i].targets, classes);
            s->fn.loss = cj_cross_entropy;
            s->at[0] = cases[i].reduction;
            s->number = cases[i].smooth;
            s->terms = (double)numel(cases[i].x);
        }
    }
    if (IS("bce_with_logits")) {
        static const cj_reduction reductions[] = { CJ_MEAN, CJ_SUM, CJ_NONE };
        static const char *const labels[] = { "mean", "sum", "each" };
        for (int i = 0; i < 3; i++) {
            s = input(input(add(l, labels[i], loss, CJ_SAMPLE_FLOAT), CJ_SHAPE(5, 7), CJ_DOMAIN_REAL), CJ_SHAPE(5, 7), CJ_DOMAIN_UNIT);
            s->fn.loss = cj_bce_with_logits;
            s->at[0] = reductions[i];
            s->terms = 35;
        }
        s = input(input(add(l, "large", loss, CJ_SAMPLE_FLOAT | CJ_SAMPLE_LARGE), CJ_SHAPE(67, 1531), CJ_DOMAIN_REAL), CJ_SHAPE(67, 1531),
                  CJ_DOMAIN_UNIT);
        s->fn.loss = cj_bce_with_logits;
        s->terms = 67 * 1531;
    }
    composed_samples(l, name);
    if (IS("mul"))
        input(input(add(l, "outer product", binary, CJ_SAMPLE_EXACT), CJ_SHAPE(7), CJ_DOMAIN_REAL), CJ_SHAPE(5), CJ_DOMAIN_REAL)
            ->fn.binary = cj_outer;
}
