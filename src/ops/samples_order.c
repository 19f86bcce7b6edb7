/* Samples of ordering, scans, segments, bags, masks and boxes. */
#include "ops/samples_list.h"

/* ---- ordering and scans: at[0] is the axis ------------------------------------------------------------------------------------------------------------- */

CALL(sort)
{
    (void)c;
    return cj_sort(in[0], (int)s->at[0], &(cj_sort_opts){ .descending = s->at[1] != 0 }).values;
}
CALL(argsort)
{
    (void)c;
    return cj_argsort(in[0], (int)s->at[0], &(cj_sort_opts){ .descending = s->at[1] != 0 });
}
/* at[2] of them */
CALL(topk)
{
    (void)c;
    return cj_topk(in[0], s->at[2], (int)s->at[0], &(cj_topk_opts){ .smallest = s->at[1] != 0 }).values;
}
CALL(topk_places)
{
    (void)c;
    return cj_topk(in[0], s->at[2], (int)s->at[0], &(cj_topk_opts){ .smallest = s->at[1] != 0 }).indices;
}
CALL(kth)
{
    (void)c;
    return cj_kthvalue(in[0], s->at[2], (int)s->at[0]).values;
}
CALL(median)
{
    (void)c;
    return cj_median(in[0], (int)s->at[0]).values;
}
CALL(unique)
{
    cj_uniques u = cj_unique(in[0]);
    (void)c, (void)s;
    return cj_gather(u.counts, 0, cj_flatten(u.inverse, 0)); /* how often each element occurs */
}
CALL(search)
{
    (void)c;
    return cj_searchsorted(cj_sort(in[0], -1, NULL).values, in[1], &(cj_searchsorted_opts){ .right = s->at[0] != 0 });
}
CALL(cumsum)
{
    (void)c;
    return cj_cumsum(in[0], (int)s->at[0]);
}
CALL(cumprod)
{
    (void)c;
    return cj_cumprod(in[0], (int)s->at[0]);
}
CALL(logcumsumexp)
{
    (void)c;
    return cj_logcumsumexp(in[0], (int)s->at[0]);
}
CALL(cummax)
{
    (void)c;
    return cj_cummax(in[0], (int)s->at[0]).values;
}
CALL(cummin)
{
    (void)c;
    return cj_cummin(in[0], (int)s->at[0]).values;
}

static void lines(cj_sample_list *l, const char *name)
{
    static const struct {
        const char *label;
        cj_shape shape;
        int64_t axis;
    } cases[] = {
        { "rows", { 2, { 4, 7 } }, -1 },
        { "columns", { 2, { 6, 3 } }, 0 },
        { "middle", { 3, { 2, 5, 3 } }, 1 },
        { "0-d", { 0 }, -1 },
        { "empty", { 2, { 3, 0 } }, -1 },
        { "no rows", { 2, { 0, 3 } }, 0 },
        { "one", { 2, { 3, 1 } }, -1 },
        { "129", { 1, { 129 } }, 0 },
        { "large", { 2, { 31, 1531 } }, -1 },
        { "long", { 1, { 150001 } }, 0 },
        { "wide columns", { 2, { 301, 67 } }, 0 },
    };
    static const struct {
        const char *row;
        cj_sample_fn *fn;
        cj_domain domain;
        bool exact;
    } rows[] = {
        { "sort", sort, CJ_DOMAIN_DISTINCT, true },        { "cumsum", cumsum, CJ_DOMAIN_REAL, true },
        { "cumprod", cumprod, CJ_DOMAIN_NEAR_ONE, false }, { "logcumsumexp", logcumsumexp, CJ_DOMAIN_REAL, false },
        { "cummax", cummax, CJ_DOMAIN_DISTINCT, true },    { "cummin", cummin, CJ_DOMAIN_DISTINCT, true },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases && IS(rows[r].row); i++) {
            const cj_shape shape = cases[i].shape;
            const double n = shape.ndim ? (double)shape.dim[cases[i].axis < 0 ? shape.ndim - 1 : cases[i].axis] : 1;
            const bool product = rows[r].fn == cumprod;
            if (product && n > 1000) continue; /* beyond what f16 holds */
            unsigned flags = (rows[r].exact ? CJ_SAMPLE_EXACT : 0) | (numel(shape) > 1000 ? CJ_SAMPLE_LARGE : 0);
            if (product || rows[r].fn == logcumsumexp) flags |= CJ_SAMPLE_FLOAT;
            if (rows[r].fn == sort && n > 160) flags |= CJ_SAMPLE_ROUGH;
            cj_sample *s = input(add(l, cases[i].label, rows[r].fn, flags), shape, rows[r].domain);
            s->at[0] = cases[i].axis;
            s->at[1] = i % 2;
            if (rows[r].fn != sort) s->terms = n > 1 ? n : 1;
        }
}

static void ordering(cj_sample_list *l, const char *name)
{
    const unsigned exact = CJ_SAMPLE_EXACT;
    cj_sample *s;
    if (IS("sort"))
        input(add(l, "places of ties and NaN", argsort, exact | CJ_SAMPLE_ROUGH), CJ_SHAPE(3, 61), CJ_DOMAIN_SPECIAL)->at[0] = 1;
    const struct {
        const char *label;
        cj_sample_fn *fn;
        cj_shape shape;
        cj_domain domain;
        int64_t at[3];
    } best[] = {
        { "rows", topk, CJ_SHAPE(4, 7), CJ_DOMAIN_DISTINCT, { -1, 0, 3 } },
        { "columns, smallest", topk, CJ_SHAPE(6, 3), CJ_DOMAIN_DISTINCT, { 0, 1, 2 } },
        { "none", topk, CJ_SHAPE(4, 5), CJ_DOMAIN_DISTINCT, { 1, 0, 0 } },
        { "all", topk, CJ_SHAPE(2, 5, 3), CJ_DOMAIN_DISTINCT, { 1, 0, 5 } },
        { "kthvalue", kth, CJ_SHAPE(4, 7), CJ_DOMAIN_DISTINCT, { -1, 0, 5 } },
        { "median", median, CJ_SHAPE(3, 8), CJ_DOMAIN_DISTINCT, { -1, 0, 0 } },
        { "places of ties and NaN", topk_places, CJ_SHAPE(3, 200), CJ_DOMAIN_SPECIAL, { -1, 0, 5 } },
        { "large", topk, CJ_SHAPE(37, 1531), CJ_DOMAIN_DISTINCT, { -1, 0, 5 } },
        { "large, smallest", topk, CJ_SHAPE(5, 20011), CJ_DOMAIN_DISTINCT, { -1, 1, 50 } },
    };
    for (size_t i = 0; i < sizeof best / sizeof *best && IS("topk"); i++) {
        unsigned flags = exact | (numel(best[i].shape) > 1000 ? CJ_SAMPLE_LARGE : 0);
        if (best[i].domain == CJ_DOMAIN_SPECIAL) flags |= CJ_SAMPLE_ROUGH;
        if (best[i].fn == median) flags |= CJ_SAMPLE_FLOAT;
        s = input(add(l, best[i].label, best[i].fn, flags), best[i].shape, best[i].domain);
        memcpy(s->at, best[i].at, sizeof best[i].at);
    }
    if (IS("unique"))
        for (int i = 0; i < 3; i++)
            input(add(l, "counts", unique, exact | CJ_SAMPLE_DYNAMIC | (i == 2 ? CJ_SAMPLE_LARGE : 0)),
                  i == 0   ? CJ_SHAPE(4, 5)
                  : i == 1 ? CJ_SHAPE(0, 3)
                           : CJ_SHAPE(7, 301),
                  CJ_DOMAIN_COUNT);
    if (IS("searchsorted")) {
        input(input(add(l, "one row", search, exact), CJ_SHAPE(9), CJ_DOMAIN_COUNT), CJ_SHAPE(4, 5), CJ_DOMAIN_COUNT);
        input(input(add(l, "right", search, exact), CJ_SHAPE(9), CJ_DOMAIN_COUNT), CJ_SHAPE(4, 5), CJ_DOMAIN_COUNT)->at[0] = 1;
        input(input(add(l, "a row each", search, exact), CJ_SHAPE(3, 8), CJ_DOMAIN_REAL), CJ_SHAPE(3, 5), CJ_DOMAIN_REAL);
        input(input(add(l, "nothing", search, exact), CJ_SHAPE(0), CJ_DOMAIN_REAL), CJ_SHAPE(3), CJ_DOMAIN_REAL);
        input(input(add(l, "large", search, exact | CJ_SAMPLE_LARGE), CJ_SHAPE(1031), CJ_DOMAIN_REAL), CJ_SHAPE(7, 1531), CJ_DOMAIN_REAL);
    }
}

/* ---- segments and bags ------------------------------------------------------------------------------------------------------------------------------------- */

CALL(segment_sum)
{
    (void)c;
    return cj_segment_sum(in[0], in[1], s->at[0]);
}
CALL(segment_mean)
{
    (void)c;
    return cj_segment_mean(in[0], in[1], s->at[0]);
}
CALL(segment_max)
{
    (void)c;
    return cj_segment_max(in[0], in[1], s->at[0]);
}
CALL(scatter_reduce)
{
    (void)c;
    return cj_scatter_reduce(in[0], (int)s->at[0], in[1], in[2], (cj_combine)s->at[1], &(cj_scatter_opts){ .exclude_self = s->at[2] != 0 });
}
/* in: weight, indices [, factors]; bags of at[1], the last one shorter, and one empty. */
CALL(bags)
{
    cj_tensor *at = cj_mul_scalar(cj_arange(c, 0, (double)s->at[2], 1, CJ_I64), (double)s->at[1]);
    cj_tensor *offsets = s->at[2] ? cj_cat((cj_tensor *[]){ at, cj_slice(at, 0, -1, CJ_END, 1) }, 2, 0) : at;
    return cj_embedding_bag(in[0], in[1], offsets, (cj_combine)s->at[0], &(cj_embedding_bag_opts){ s->n > 2 ? in[2] : NULL });
}
CALL(bags_of_rows)
{
    (void)c;
    return cj_embedding_bag(in[0], in[1], NULL, (cj_combine)s->at[0], NULL);
}
CALL(bincount)
{
    (void)c;
    return cj_bincount(in[0], &(cj_bincount_opts){ .minlength = s->at[0] });
}
CALL(histogram)
{
    (void)c;
    return cj_histogram(in[0], s->at[0], -2, 2).counts;
}

static void segments(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL, index = CJ_DOMAIN_INDEX, distinct = CJ_DOMAIN_DISTINCT;
    const struct {
        const char *row;
        cj_sample_fn *fn;
        cj_domain domain;
        unsigned flags;
    } rows[] = { { "segment_sum", segment_sum, real, 0 },
                 { "segment_mean", segment_mean, real, CJ_SAMPLE_FLOAT },
                 { "segment_max", segment_max, distinct, CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT } };
    const struct {
        const char *label;
        cj_shape x;
        int64_t segments;
    } cases[] = {
        { "rows", CJ_SHAPE(7, 3), 4 },  { "numbers", CJ_SHAPE(9), 3 },        { "planes", CJ_SHAPE(5, 2, 3), 2 },
        { "empty", CJ_SHAPE(0, 3), 2 }, { "large", CJ_SHAPE(2053, 65), 517 },
    };
    cj_sample *s;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases && IS(rows[r].row); i++) {
            const unsigned flags = rows[r].flags | (i == 4 ? CJ_SAMPLE_LARGE : 0) | (i == 3 ? CJ_SAMPLE_ROUGH : 0); /* 0/0 */
            s = indices(input(add(l, cases[i].label, rows[r].fn, flags), cases[i].x, rows[r].domain), CJ_SHAPE(cases[i].x.dim[0]), index,
                        cases[i].segments);
            s->at[0] = cases[i].segments;
            s->terms = i == 4 ? 64 : 4; /* every addition rounds to the dtype */
        }
    static const char *const hows[] = { "sum", "product", "mean", "max", "min" };
    for (int how = 0; how < 5 && IS("scatter_reduce"); how++)
        for (int k = 0; k < 3; k++) {
            unsigned flags = k == 2 ? CJ_SAMPLE_LARGE : 0;
            if (how == CJ_COMBINE_MEAN || how == CJ_COMBINE_PROD) flags |= CJ_SAMPLE_FLOAT;
            if (how == CJ_COMBINE_MAX || how == CJ_COMBINE_MIN) flags |= k == 2 ? CJ_SAMPLE_ROUGH : 0;
            const cj_domain d = how == CJ_COMBINE_PROD ? CJ_DOMAIN_NEAR_ONE : how >= CJ_COMBINE_MAX ? distinct : real;
            const cj_shape x = k == 0 ? CJ_SHAPE(3, 4) : k == 1 ? CJ_SHAPE(4, 3) : CJ_SHAPE(65, 129);
            const cj_shape at = k == 0 ? CJ_SHAPE(3, 6) : k == 1 ? CJ_SHAPE(7, 3) : CJ_SHAPE(65, 301);
            s = add(l, hows[how], scatter_reduce, flags);
            input(indices(input(s, x, d == distinct ? CJ_DOMAIN_BETWEEN : d), at, index, k == 2 ? 129 : 4), at, d);
            s->at[0] = k != 1;
            s->at[1] = how;
            s->at[2] = k == 1; /* without x */
            s->terms = k == 2 ? 64 : 8;
        }
    const cj_combine modes[] = { CJ_COMBINE_SUM, CJ_COMBINE_MEAN, CJ_COMBINE_MAX };
    for (int m = 0; m < 3 && IS("embedding_bag"); m++) {
        const cj_domain d = m == 2 ? distinct : real;
        const unsigned flags = CJ_SAMPLE_FLOAT;
        s = indices(input(add(l, hows[modes[m]], bags, flags), CJ_SHAPE(6, 5), d), CJ_SHAPE(11), index, 6);
        s->at[0] = modes[m], s->at[1] = 3, s->at[2] = 4, s->terms = 4;
        s = indices(input(add(l, "a row per bag", bags_of_rows, flags), CJ_SHAPE(6, 3), d), CJ_SHAPE(4, 3), index, 6);
        s->at[0] = modes[m], s->terms = 4;
        s = indices(input(add(l, "large", bags, flags | CJ_SAMPLE_LARGE), CJ_SHAPE(517, 301), d), CJ_SHAPE(2053), index, 517);
        s->at[0] = modes[m], s->at[1] = 21, s->at[2] = 97, s->terms = 64;
    }
    if (IS("embedding_bag")) {
        s = indices(input(add(l, "weighted", bags, CJ_SAMPLE_FLOAT), CJ_SHAPE(6, 5), real), CJ_SHAPE(11), index, 6);
        input(s, CJ_SHAPE(11), real)->at[1] = 3, s->at[2] = 4, s->terms = 5;
        s = indices(input(add(l, "nothing", bags, CJ_SAMPLE_FLOAT), CJ_SHAPE(6, 5), real), CJ_SHAPE(0), index, 6);
        s->at[1] = 0, s->at[2] = 3;
    }
    const unsigned dynamic = CJ_SAMPLE_DYNAMIC | CJ_SAMPLE_EXACT;
    if (IS("bincount")) {
        indices(add(l, "plain", bincount, dynamic), CJ_SHAPE(30), index, 7);
        indices(add(l, "longer", bincount, dynamic), CJ_SHAPE(30), index, 7)->at[0] = 12;
        indices(add(l, "nothing", bincount, dynamic), CJ_SHAPE(0), index, 7);
        indices(add(l, "large", bincount, dynamic | CJ_SAMPLE_LARGE), CJ_SHAPE(150001), index, 517);
    }
    if (IS("histogram")) {
        input(add(l, "plain", histogram, CJ_SAMPLE_EXACT), CJ_SHAPE(4, 15), real)->at[0] = 8;
        input(add(l, "one bin", histogram, CJ_SAMPLE_EXACT), CJ_SHAPE(9), real)->at[0] = 1;
        input(add(l, "nothing", histogram, CJ_SAMPLE_EXACT), CJ_SHAPE(0), real)->at[0] = 3;
        input(add(l, "large", histogram, CJ_SAMPLE_EXACT | CJ_SAMPLE_LARGE), CJ_SHAPE(97, 1531), real)->at[0] = 64;
    }
}

/* ---- masks and boxes --------------------------------------------------------------------------------------------------------------------------------------- */

CALL(masked_softmax)
{
    (void)c;
    return cj_masked_softmax(in[0], in[1], (int)s->at[0]);
}
CALL(masked_mean)
{
    (void)c;
    return cj_masked_mean(in[0], in[1], &(cj_reduce_opts){ .axes = s->axes, .keepdim = s->keepdim });
}
/* Corners from two drawn points. */
static cj_tensor *corners(cj_tensor *points)
{
    cj_tensor *a = cj_slice(points, -1, 0, 2, 1), *b = cj_slice(points, -1, 2, 4, 1);
    return cj_cat((cj_tensor *[]){ cj_minimum(a, b), cj_add_scalar(cj_maximum(a, b), 0.25) }, 2, -1);
}
CALL(box_iou)
{
    (void)c, (void)s;
    return cj_box_iou(corners(in[0]), corners(in[1]));
}
CALL(box_clip)
{
    (void)c, (void)s;
    return cj_box_clip(in[0], 1.515625, 1.015625);
}
CALL(nms)
{
    (void)c;
    cj_tensor *classes =
        s->at[0] ? cj_remainder(cj_arange(c, 0, (double)cj_size(in[0], 0), 1, CJ_I64), cj_full(c, 2, CJ_SCALAR, CJ_I64)) : NULL;
    return cj_nms(corners(in[0]), in[1], 0.25, &(cj_nms_opts){ .classes = classes, .limit = s->at[1] });
}

static void masks_and_boxes(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL, mask = CJ_DOMAIN_MASK;
    cj_sample *s;
    if (IS("masked_select")) {
        const unsigned flags = CJ_SAMPLE_DYNAMIC | CJ_SAMPLE_EXACT;
        input(input(add(l, "plain", binary, flags), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 5), mask)->fn.binary = cj_masked_select;
        input(input(add(l, "broadcast", binary, flags), CJ_SHAPE(4, 5), real), CJ_SHAPE(5), mask)->fn.binary = cj_masked_select;
        input(input(add(l, "empty", binary, flags), CJ_SHAPE(0, 5), real), CJ_SHAPE(5), mask)->fn.binary = cj_masked_select;
    }
    if (IS("masked_softmax")) {
        s = input(input(add(l, "rows", masked_softmax, CJ_SAMPLE_FLOAT), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 5), mask);
        s->at[0] = -1, s->terms = 5;
        s = input(input(add(l, "columns", masked_softmax, CJ_SAMPLE_FLOAT), CJ_SHAPE(2, 7, 3), real), CJ_SHAPE(7, 1), mask);
        s->at[0] = 1, s->terms = 7;
        s = input(input(add(l, "large", masked_softmax, CJ_SAMPLE_FLOAT | CJ_SAMPLE_LARGE), CJ_SHAPE(67, 517), real), CJ_SHAPE(67, 517),
                  mask);
        s->at[0] = -1, s->terms = 517;
    }
    if (IS("masked_mean")) {
        s = input(input(add(l, "all", masked_mean, CJ_SAMPLE_FLOAT), CJ_SHAPE(4, 5), real), CJ_SHAPE(4, 5), mask);
        s->terms = 20;
        s = input(input(add(l, "rows", masked_mean, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 13), real), CJ_SHAPE(13), mask);
        s->axes = CJ_AXIS(-1), s->keepdim = true, s->terms = 13;
    }
    if (IS("box_corners") || IS("box_centres")) {
        cj_tensor *(*fn)(cj_tensor *) = IS("box_corners") ? cj_box_corners : cj_box_centres;
        input(add(l, "list", unary, CJ_SAMPLE_FLOAT), CJ_SHAPE(5, 4), real)->fn.unary = fn;
        input(add(l, "planes", unary, CJ_SAMPLE_FLOAT), CJ_SHAPE(2, 3, 4), real)->fn.unary = fn;
        input(add(l, "none", unary, CJ_SAMPLE_FLOAT), CJ_SHAPE(0, 4), real)->fn.unary = fn;
    }
    if (IS("box_clip")) input(add(l, "list", box_clip, CJ_SAMPLE_FLOAT), CJ_SHAPE(7, 4), real);
    if (IS("box_iou")) {
        s = input(input(add(l, "list", box_iou, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 4), real), CJ_SHAPE(5, 4), CJ_DOMAIN_BETWEEN);
        s->terms = 4;
        input(input(add(l, "none", box_iou, CJ_SAMPLE_FLOAT), CJ_SHAPE(0, 4), real), CJ_SHAPE(5, 4), CJ_DOMAIN_BETWEEN);
    }
    if (IS("nms") || IS("suppress")) {
        const unsigned flags = CJ_SAMPLE_FLOAT | CJ_SAMPLE_DYNAMIC;
        input(input(add(l, "one class", nms, flags), CJ_SHAPE(23, 4), real), CJ_SHAPE(23), CJ_DOMAIN_DISTINCT);
        s = input(input(add(l, "two classes, some", nms, flags), CJ_SHAPE(41, 4), real), CJ_SHAPE(41), CJ_DOMAIN_DISTINCT);
        s->at[0] = 1, s->at[1] = 6;
        input(input(add(l, "none", nms, flags), CJ_SHAPE(0, 4), real), CJ_SHAPE(0), CJ_DOMAIN_DISTINCT);
    }
}

void cj__samples_order(cj_sample_list *l, const char *name)
{
    lines(l, name);
    ordering(l, name);
    segments(l, name);
    masks_and_boxes(l, name);
}
