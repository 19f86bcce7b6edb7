/* Samples of attention. */
#include "ops/samples_list.h"

/* at: causal, what `extra` is, by definition (packed: heads). */
enum { NOTHING, MASK, LENGTH };
static cj_attention_opts options(cj_ctx *c, const cj_sample *s, cj_tensor *extra)
{
    cj_attention_opts o = { .causal = s->at[0] != 0, .dropout = s->number };
    if (s->at[1] == MASK) o.mask = extra;
    if (s->at[1] == LENGTH) o.key_length = cj_add_scalar(extra, 1);
    if (s->number > 0) cj_rng_set(c, (cj_rng_state){ .seed = 3 }); /* the same draw for all contexts */
    return o;
}
CALL(attend)
{
    const cj_attention_opts o = options(c, s, in[3]);
    return (s->at[2] ? cj__attention_composed : cj_attention)(in[0], in[1], in[2], &o);
}
CALL(attend_packed)
{
    const cj_attention_opts o = options(c, s, in[1]);
    return cj_attention_packed(in[0], s->at[2], &o);
}

void cj__samples_attention(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const struct {
        const char *label;
        cj_shape q, k, v, extra;
        int64_t causal, what;
        double drop;
        cj_domain domain; /* of the fourth input */
    } cases[] = {
        { "plain", CJ_SHAPE(2, 3, 4), CJ_SHAPE(2, 5, 4), CJ_SHAPE(2, 5, 4), { 0 }, 0, NOTHING, 0, real },
        { "causal", CJ_SHAPE(2, 3, 4), CJ_SHAPE(2, 3, 4), CJ_SHAPE(2, 3, 4), { 0 }, 1, NOTHING, 0, real },
        { "boolean mask", CJ_SHAPE(2, 2, 3, 5), CJ_SHAPE(2, 2, 4, 5), CJ_SHAPE(2, 2, 4, 3), CJ_SHAPE(2, 1, 3, 4), 0, MASK, 0,
          CJ_DOMAIN_MASK },
        { "one query", CJ_SHAPE(3, 1, 4), CJ_SHAPE(3, 6, 4), CJ_SHAPE(3, 6, 5), { 0 }, 0, NOTHING, 0, real },
        { "dropout", CJ_SHAPE(2, 5, 3), CJ_SHAPE(2, 7, 3), CJ_SHAPE(2, 7, 2), { 0 }, 0, NOTHING, 0.25, real },
        { "lengths", CJ_SHAPE(3, 2, 4), CJ_SHAPE(3, 6, 4), CJ_SHAPE(3, 6, 4), CJ_SHAPE(3), 0, LENGTH, 0, CJ_DOMAIN_INDEX },
        { "lengths, causal", CJ_SHAPE(3, 6, 4), CJ_SHAPE(3, 6, 4), CJ_SHAPE(3, 6, 4), CJ_SHAPE(3), 1, LENGTH, 0, CJ_DOMAIN_INDEX },
        { "grouped heads", CJ_SHAPE(2, 4, 5, 3), CJ_SHAPE(2, 2, 5, 3), CJ_SHAPE(2, 2, 5, 3), { 0 }, 1, NOTHING, 0, real },
        { "broadcast leading axes", CJ_SHAPE(2, 3, 5, 4), CJ_SHAPE(7, 4), CJ_SHAPE(3, 7, 4), { 0 }, 0, NOTHING, 0, real },
        { "matrices, more queries than keys", CJ_SHAPE(7, 3), CJ_SHAPE(4, 3), CJ_SHAPE(4, 3), { 0 }, 1, NOTHING, 0, real },
        { "empty batch", CJ_SHAPE(0, 3, 4), CJ_SHAPE(0, 5, 4), CJ_SHAPE(0, 5, 4), { 0 }, 0, NOTHING, 0, real },
        { "large", CJ_SHAPE(3, 131, 37), CJ_SHAPE(3, 150, 37), CJ_SHAPE(3, 150, 33), { 0 }, 0, NOTHING, 0, real },
        { "large, causal", CJ_SHAPE(2, 2, 150, 32), CJ_SHAPE(2, 1, 150, 32), CJ_SHAPE(2, 1, 150, 32), { 0 }, 1, NOTHING, 0, real },
        { "large, masked", CJ_SHAPE(1, 2, 70, 16), CJ_SHAPE(1, 2, 300, 16), CJ_SHAPE(1, 2, 300, 16), CJ_SHAPE(70, 300), 1, MASK, 0,
          CJ_DOMAIN_MASK },
        { "large, one head", CJ_SHAPE(200, 20), CJ_SHAPE(600, 20), CJ_SHAPE(600, 20), { 0 }, 1, NOTHING, 0, real },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && IS("attention"); i++) {
        const unsigned large = strncmp(cases[i].label, "large", 5) == 0 ? CJ_SAMPLE_LARGE : 0;
        const unsigned drawn = cases[i].drop > 0 ? CJ_SAMPLE_DYNAMIC : 0; /* a plan would go on with the stream: tests/test_attention.c */
        cj_sample *s = add(l, cases[i].label, attend, CJ_SAMPLE_FLOAT | large | drawn);
        input(input(input(s, cases[i].q, real), cases[i].k, real), cases[i].v, real);
        const int64_t keys = cases[i].k.dim[cases[i].k.ndim - 2];
        if (cases[i].what == MASK) input(s, cases[i].extra, cases[i].domain);
        if (cases[i].what == LENGTH) indices(s, cases[i].extra, cases[i].domain, keys);
        s->at[0] = cases[i].causal;
        s->at[1] = cases[i].what;
        s->number = cases[i].drop;
        s->terms = 4 * (double)keys;
    }
    const struct {
        const char *label;
        cj_shape qkv, extra;
        int64_t heads, causal, what;
        double drop;
        cj_domain domain;
    } packed[] = {
        { "plain", CJ_SHAPE(2, 3, 12), { 0 }, 2, 0, NOTHING, 0, real },
        { "causal", CJ_SHAPE(2, 4, 18), { 0 }, 2, 1, NOTHING, 0, real },
        { "one text, one head", CJ_SHAPE(4, 9), { 0 }, 1, 1, NOTHING, 0, real },
        { "boolean mask", CJ_SHAPE(2, 3, 12), CJ_SHAPE(2, 1, 3, 3), 2, 0, MASK, 0, CJ_DOMAIN_MASK },
        { "lengths", CJ_SHAPE(3, 6, 12), CJ_SHAPE(3, 2), 2, 1, LENGTH, 0, CJ_DOMAIN_INDEX },
        { "dropout", CJ_SHAPE(2, 5, 18), { 0 }, 3, 0, NOTHING, 0.25, real },
        { "empty batch", CJ_SHAPE(0, 3, 12), { 0 }, 2, 0, NOTHING, 0, real },
        { "large, causal", CJ_SHAPE(2, 150, 96), { 0 }, 1, 1, NOTHING, 0, real },
        { "large, heads of 20", CJ_SHAPE(2, 131, 180), { 0 }, 3, 0, NOTHING, 0, real },
    };
    for (size_t i = 0; i < sizeof packed / sizeof *packed && IS("attention_packed"); i++) {
        const unsigned large = strncmp(packed[i].label, "large", 5) == 0 ? CJ_SAMPLE_LARGE : 0;
        const unsigned drawn = packed[i].drop > 0 ? CJ_SAMPLE_DYNAMIC : 0;
        cj_sample *s = add(l, packed[i].label, attend_packed, CJ_SAMPLE_FLOAT | large | drawn);
        input(s, packed[i].qkv, real);
        const int64_t keys = packed[i].qkv.dim[packed[i].qkv.ndim - 2];
        if (packed[i].what == MASK) input(s, packed[i].extra, packed[i].domain);
        if (packed[i].what == LENGTH) indices(s, packed[i].extra, packed[i].domain, keys);
        s->at[0] = packed[i].causal;
        s->at[1] = packed[i].what;
        s->at[2] = packed[i].heads;
        s->number = packed[i].drop;
        s->terms = 4 * (double)keys;
    }
    if (IS("attention_composed")) { /* a mask that is learnt */
        cj_sample *s = add(l, "mask of floats", attend, CJ_SAMPLE_FLOAT);
        input(input(input(input(s, CJ_SHAPE(2, 3, 4), real), CJ_SHAPE(2, 5, 4), real), CJ_SHAPE(2, 5, 4), real), CJ_SHAPE(3, 5), real);
        s->at[1] = MASK;
        s->at[2] = 1;
        s->terms = 20;
    }
}
