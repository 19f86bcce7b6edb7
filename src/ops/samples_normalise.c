/* Samples of normalisation: batch, group, instance, RMS, local response, weights, data. */
#include "ops/samples_list.h"

/* Inputs x [, weight [, bias]]; at: eval, relu, groups. */
#define WEIGHT (s->n > 1 ? in[1] : NULL)
#define BIAS (s->n > 2 ? in[2] : NULL)
CALL(batch)
{
    cj_batch_norm_opts o = { .eval = s->at[0], .relu = s->at[1] };
    if (o.eval) { /* statistics 1/4, 1/2, 3/4 … and 3/2, 2 …: constants */
        cj_tensor *k = cj_cast(cj_arange(c, 1, (double)s->in[0].shape.dim[1] + 1, 1, CJ_I64), CJ_F32);
        o.running_mean = cj_mul_scalar(k, 0.25);
        o.running_var = cj_add_scalar(cj_mul_scalar(k, 0.5), 1);
    }
    return cj_batch_norm(in[0], WEIGHT, BIAS, &o);
}
CALL(group)
{
    (void)c;
    return cj_group_norm(in[0], s->at[2], WEIGHT, BIAS, 0);
}
CALL(instance)
{
    (void)c;
    return cj_instance_norm(in[0], WEIGHT, BIAS, 1e-3);
}
CALL(rms)
{
    (void)c;
    return cj_rms_norm(in[0], WEIGHT, 1e-3);
}
CALL(local_response)
{
    (void)c;
    return cj_local_response_norm(in[0], s->at[0], &(cj_lrn_opts){ .alpha = 0.5, .beta = 0.75, .k = 2 });
}
CALL(weight)
{
    (void)c;
    return cj_weight_norm(in[0], in[1], (int)s->at[0]);
}
/* u and v are constants of the derivative: here 1/rows and 1/columns; their products with these inputs stay away from 0. */
CALL(spectral)
{
    int64_t rows = s->in[0].shape.dim[0], columns = numel(s->in[0].shape) / rows;
    cj_tensor *u = cj_full(c, 1 / (double)rows, CJ_SHAPE(rows), CJ_F32), *v = cj_full(c, 1 / (double)columns, CJ_SHAPE(columns), CJ_F32);
    return cj_spectral_norm(in[0], u, &(cj_spectral_opts){ .v = v, .eval = true }).value;
}
CALL(standard)
{
    (void)c;
    return cj_standardise(in[0], &(cj_standardise_opts){ .axes = s->axes, .unbiased = s->at[0] }).value;
}
CALL(white)
{
    (void)c, (void)s;
    return cj_whiten(in[0], &(cj_whiten_opts){ .eps = 0.25 }).value;
}

static void per_channel(cj_sample_list *l, const char *name)
{
    const struct {
        const char *label;
        cj_shape x;
        int params;
        int64_t at[3]; /* eval, relu, groups */
    } cases[] = {
        { "features", CJ_SHAPE(5, 4), 2, { 0, 0, 1 } },
        { "images", CJ_SHAPE(2, 4, 3, 3), 2, { 0, 0, 2 } },
        { "with relu", CJ_SHAPE(3, 2, 5), 2, { 0, 1, 1 } },
        { "no parameters", CJ_SHAPE(3, 4, 7), 0, { 0, 0, 4 } },
        { "weight only", CJ_SHAPE(4, 6, 2), 1, { 0, 0, 3 } },
        { "eval", CJ_SHAPE(3, 4, 5), 2, { 1, 0, 4 } },
        { "eval, relu, features", CJ_SHAPE(6, 5), 2, { 1, 1, 5 } },
        { "empty batch", CJ_SHAPE(0, 3, 4), 2, { 1, 0, 3 } },
        { "large", CJ_SHAPE(5, 11, 37, 41), 2, { 0, 0, 11 } },
        { "large planes, relu", CJ_SHAPE(2, 3, 5003), 2, { 0, 1, 1 } },
        { "many features, relu", CJ_SHAPE(301, 77), 2, { 0, 1, 7 } },
        { "small planes", CJ_SHAPE(33, 40, 7), 2, { 0, 0, 8 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cj_sample_fn *call = IS("batch_norm") ? batch : IS("group_norm") ? group : instance;
        if (IS("instance_norm") && cases[i].x.ndim < 3) continue;
        if (IS("group_norm") && cases[i].x.ndim < 3 && cases[i].at[2] == cases[i].x.dim[1]) continue; /* sets of one element */
        cj_sample *s = input(add(l, cases[i].label, call, CJ_SAMPLE_FLOAT | size_flags(cases[i].x)), cases[i].x, CJ_DOMAIN_REAL);
        cj_shape channels = CJ_SHAPE(cases[i].x.dim[1]);
        for (int k = 0; k < cases[i].params; k++) input(s, channels, CJ_DOMAIN_REAL);
        memcpy(s->at, cases[i].at, sizeof cases[i].at);
        const int64_t terms = numel(cases[i].x) / cases[i].x.dim[1];
        s->terms = (double)terms;
    }
}

void cj__samples_normalise(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const unsigned smooth = CJ_SAMPLE_FLOAT;
    cj_sample *s;
    if (IS("batch_norm") || IS("group_norm") || IS("instance_norm")) per_channel(l, name);
    const cj_shape rows[] = { CJ_SHAPE(3, 5), CJ_SHAPE(2, 3, 17), CJ_SHAPE(7), CJ_SHAPE(0, 4), CJ_SHAPE(67, 1031), CJ_SHAPE(3001, 33) };
    for (size_t i = 0; i < sizeof rows / sizeof *rows && IS("rms_norm"); i++) {
        int64_t n = rows[i].dim[rows[i].ndim - 1];
        s = input(add(l, i == 2 ? "no weight" : "weight", rms, smooth | size_flags(rows[i])), rows[i], real);
        if (i != 2) input(s, CJ_SHAPE(n), real);
        s->terms = (double)n;
    }
    if (IS("local_response_norm")) {
        input(add(l, "odd", local_response, smooth), CJ_SHAPE(2, 5, 3), real)->at[0] = 3;
        input(add(l, "even", local_response, smooth), CJ_SHAPE(1, 6, 2, 2), real)->at[0] = 4;
        input(add(l, "large", local_response, smooth | CJ_SAMPLE_LARGE), CJ_SHAPE(2, 31, 29, 5), real)->at[0] = 5;
    }
    if (IS("weight_norm")) {
        s = input(input(add(l, "rows", weight, smooth), CJ_SHAPE(3, 4), real), CJ_SHAPE(3), real);
        s->terms = 4;
        s = input(input(add(l, "middle axis", weight, smooth), CJ_SHAPE(2, 3, 4), real), CJ_SHAPE(1, 3, 1), real);
        s->at[0] = 1, s->terms = 8;
        s = input(input(add(l, "whole", weight, smooth), CJ_SHAPE(3, 4), real), CJ_SCALAR, real);
        s->terms = 12;
    }
    if (IS("spectral_norm")) {
        input(add(l, "matrix", spectral, smooth), CJ_SHAPE(3, 4), CJ_DOMAIN_POSITIVE)->terms = 12;
        input(add(l, "kernels", spectral, smooth), CJ_SHAPE(2, 3, 2, 2), CJ_DOMAIN_POSITIVE)->terms = 24;
    }
    if (IS("standardise")) {
        s = input(add(l, "examples", standard, smooth), CJ_SHAPE(6, 3), real);
        s->axes = CJ_AXIS(0), s->terms = 6;
        s = input(add(l, "images, unbiased", standard, smooth), CJ_SHAPE(3, 2, 4), real);
        s->axes = CJ_AXES(0, 2), s->at[0] = 1, s->terms = 12;
        s = input(add(l, "large", standard, smooth | CJ_SAMPLE_LARGE), CJ_SHAPE(301, 47), real);
        s->axes = CJ_AXIS(0), s->terms = 301;
    }
    if (IS("whiten")) {
        input(add(l, "three features", white, smooth), CJ_SHAPE(8, 3), real)->terms = 200;
        input(add(l, "large", white, smooth | CJ_SAMPLE_LARGE), CJ_SHAPE(301, 17), real)->terms = 1000;
    }
}
