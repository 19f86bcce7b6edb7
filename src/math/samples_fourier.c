/* Samples of Fourier transforms and complex numbers. */
#include "cajal/math.h"
#include "ops/samples_list.h"

/* at: axis, inverse */
CALL(transform)
{
    const cj_fft_opts o = { .axes = CJ_AXIS((int)s->at[0]) };
    (void)c;
    return s->at[1] ? (cj_ifft)(in[0], &o) : (cj_fft)(in[0], &o);
}
CALL(real_transform)
{
    (void)c, (void)s;
    return (cj_rfft)(in[0], NULL);
}
/* at: length */
CALL(real_back)
{
    const cj_fft_opts o = { .size = CJ_SHAPE(s->at[0]) };
    (void)c;
    return (cj_irfft)(in[0], &o);
}

void cj__samples_fourier(cj_sample_list *l, const char *name)
{
    const cj_domain real = CJ_DOMAIN_REAL;
    const unsigned exact = CJ_SAMPLE_EXACT | CJ_SAMPLE_FLOAT;
    if (IS("fft")) {
        static const struct {
            const char *label;
            cj_shape x;
            int64_t axis, inverse;
        } cases[] = {
            { "8", CJ_SHAPE(8, 2), 0, 0 },
            { "rows of 30, back", CJ_SHAPE(3, 30, 2), 1, 1 },
            { "first axis", CJ_SHAPE(6, 5, 2), 0, 0 },
            { "prime 7, middle axis", CJ_SHAPE(2, 7, 3, 2), 1, 0 },
            { "prime 37: a chirp", CJ_SHAPE(2, 37, 2), 1, 0 },
            { "chirp along the first axis", CJ_SHAPE(41, 2, 2), 0, 1 },
            { "one", CJ_SHAPE(4, 1, 2), 1, 0 },
            { "nothing", CJ_SHAPE(0, 4, 2), 1, 0 },
            { "four steps", CJ_SHAPE(1, 480, 2), 1, 0 },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            cj_sample *s = input(add(l, cases[i].label, transform, exact | size_flags(cases[i].x)), cases[i].x, real);
            s->at[0] = cases[i].axis, s->at[1] = cases[i].inverse;
            s->terms = (double)cases[i].x.dim[cases[i].axis];
        }
    }
    if (IS("rfft")) {
        input(add(l, "even", real_transform, exact), CJ_SHAPE(3, 12), real)->terms = 12;
        input(add(l, "odd", real_transform, exact), CJ_SHAPE(2, 9), real)->terms = 9;
        input(add(l, "one", real_transform, exact), CJ_SHAPE(2, 1), real)->terms = 1;
        input(add(l, "two", real_transform, exact), CJ_SHAPE(2), real)->terms = 2;
    }
    if (IS("irfft")) {
        static const struct {
            const char *label;
            cj_shape z;
            int64_t n;
        } cases[] = {
            { "even", CJ_SHAPE(3, 7, 2), 12 },
            { "odd", CJ_SHAPE(2, 5, 2), 9 },
            { "one", CJ_SHAPE(2, 1, 2), 1 },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            cj_sample *s = input(add(l, cases[i].label, real_back, exact | size_flags(cases[i].z)), cases[i].z, real);
            s->at[0] = cases[i].n;
            s->terms = (double)cases[i].n;
        }
    }
    if (IS("complex_mul")) {
        cj_sample *s = input(input(add(l, "pairs", binary, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 4, 2), real), CJ_SHAPE(4, 2), real);
        s->fn.binary = (cj_complex_mul);
        s->terms = 2;
    }
    if (IS("complex_abs")) {
        cj_sample *s = input(add(l, "pairs", unary, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 4, 2), real);
        s->fn.unary = (cj_complex_abs);
        s->terms = 2;
    }
    if (IS("complex_angle")) {
        cj_sample *s = input(add(l, "pairs", unary, CJ_SAMPLE_FLOAT), CJ_SHAPE(3, 4, 2), real);
        s->fn.unary = (cj_complex_angle);
    }
}
