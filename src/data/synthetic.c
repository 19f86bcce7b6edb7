/* Generated sets with laws that are known, for experiments whose answers are known.  z is a standard normal number, s the set's noise.
 *
 *   rings       classes k = 0, 1, …: radius 1 + k + s z, any angle
 *   margin      two Gaussian clouds held apart: y w·x >= 1/2 with w = (1, 1)/√2; s scales the clouds
 *   sines       wᵀ sin(A x) + b + s z, x in [-π, π]²; A, w and b below
 *   polynomial  1 - 2 x + 3 x³ + s z, x in [-1, 1]
 *   wave        2 sin x + x + s z, x in [-6, 6]
 *   wedge       x + s (0.1 + x) z, x in [0, 1]: the noise grows with x
 *   outliers    2 x + 1 + s z, x in [0, 1]; in every tenth row 10 more
 *   gumbel      s (-log(-log u)), whatever x in [0, 1] is
 *   random      10 normal numbers, and a class that has nothing to do with them
 *   oranges     100 x 100 colour images of rough green, in those of class 1 an orange disc
 *   heights     heights of women N(165, 7²) and men N(178, 7²) in cm
 *   cars        price = 20 + 0.3 (mpg - 25) - 2.5 owners + s z thousands, mpg ~ N(25, 5²), owners 1 to 4
 *
 * Classes alternate from row to row.  A row depends on the seed and its number alone.
 */
#include <math.h>

#include "data/augment.h"
#include "data/dataset.h"

typedef struct law {
    const char *name;
    int64_t features, classes, most; /* classes 0: values */
    int64_t n;                       /* rows when the caller gives none */
    double noise;
    void (*row)(cj_draws *d, int64_t classes, double noise, float *x, float *y); /* *y has the class already */
} law;

static const double pi = 3.14159265358979323846;

static double normal(cj_draws *d) { return cj__draw_normal(d); }

static void rings(cj_draws *d, int64_t classes, double s, float *x,
                  float *y) /* NOLINT(readability-non-const-parameter): the type of law.row */
{
    (void)classes;
    double angle = 2 * pi * cj__draw_unit(d), r = 1 + *y + s * normal(d);
    x[0] = (float)(r * cos(angle));
    x[1] = (float)(r * sin(angle));
}

/* Along w: what the cloud has, and half a unit away from the border on the class's side; across: as it is. */
static void margin(cj_draws *d, int64_t classes, double s, float *x,
                   float *y) /* NOLINT(readability-non-const-parameter): the type of law.row */
{
    (void)classes;
    double along = 0.5 + fabs(s * normal(d)), across = s * normal(d), w = sqrt(0.5);
    if (*y == 0) along = -along;
    x[0] = (float)(w * (along + across));
    x[1] = (float)(w * (along - across));
}

static void sines(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    static const double A[3][2] = { { 1, 2 }, { 2, -1 }, { 0.5, 0.5 } }, w[3] = { 1, -0.5, 2 }, b = 0.3;
    (void)classes;
    for (int j = 0; j < 2; j++) x[j] = (float)cj__draw_within(d, pi);
    double sum = b + s * normal(d);
    for (int i = 0; i < 3; i++) sum += w[i] * sin(A[i][0] * x[0] + A[i][1] * x[1]);
    *y = (float)sum;
}

static void polynomial(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    (void)classes;
    *x = (float)cj__draw_within(d, 1);
    *y = (float)(1 - 2 * *x + 3 * *x * *x * *x + s * normal(d));
}

static void wave(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    (void)classes;
    *x = (float)cj__draw_within(d, 6);
    *y = (float)(2 * sin((double)*x) + *x + s * normal(d));
}

static void wedge(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    (void)classes;
    *x = (float)cj__draw_unit(d);
    *y = (float)(*x + s * (0.1 + *x) * normal(d));
}

static void outliers(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    (void)classes;
    int64_t tenth = (int64_t)*y % 10 == 9; /* of values, *y comes as the number of the row modulo 10 */
    *x = (float)cj__draw_unit(d);
    *y = (float)(2 * *x + 1 + s * normal(d) + 10 * (double)tenth);
}

static void gumbel(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    (void)classes;
    *x = (float)cj__draw_unit(d);
    uint32_t low = cj__draw_word(d), high = cj__draw_word(d);
    double u = cj_philox_unit_f64(cj_philox_word64(low, high));
    *y = (float)(-s * log(-log(u > 0 ? u : 0x1p-54)));
}

static void random_labels(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    for (int j = 0; j < 10; j++) x[j] = (float)(s * normal(d));
    *y = (float)cj__draw_below(d, classes);
}

enum { SIDE = 100 };

static void oranges(cj_draws *d, int64_t classes, double s, float *x,
                    float *y) /* NOLINT(readability-non-const-parameter): the type of law.row */
{
    (void)classes;
    double r = 10 + 15 * cj__draw_unit(d), row = r + (SIDE - 2 * r) * cj__draw_unit(d), column = r + (SIDE - 2 * r) * cj__draw_unit(d);
    static const float green[3] = { 0.3f, 0.5f, 0.2f }, orange[3] = { 1, 0.55f, 0 };
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double a = i - row, b = j - column, rough = s * normal(d);
            const float *colour = *y > 0 && a * a + b * b <= r * r ? orange : green;
            for (int k = 0; k < 3; k++) {
                double v = colour[k] + rough;
                x[(k * SIDE + i) * SIDE + j] = (float)(v < 0 ? 0 : v > 1 ? 1 : v);
            }
        }
}

static void heights(cj_draws *d, int64_t classes, double s, float *x,
                    float *y) /* NOLINT(readability-non-const-parameter): the type of law.row */
{
    (void)classes;
    *x = (float)((*y > 0 ? 178 : 165) + s * normal(d));
}

static void cars(cj_draws *d, int64_t classes, double s, float *x, float *y)
{
    (void)classes;
    x[0] = (float)(25 + 5 * normal(d));
    x[1] = (float)(1 + cj__draw_below(d, 4));
    *y = (float)(20 + 0.3 * (x[0] - 25) - 2.5 * x[1] + s * normal(d));
}

static const law laws[] = {
    { "rings", 2, 2, 10, 1000, 0.1, rings },
    { "margin", 2, 2, 2, 1000, 1, margin },
    { "sines", 2, 0, 0, 1000, 0.1, sines },
    { "polynomial", 1, 0, 0, 1000, 0.1, polynomial },
    { "wave", 1, 0, 0, 1000, 0.1, wave },
    { "wedge", 1, 0, 0, 1000, 0.5, wedge },
    { "outliers", 1, 0, 0, 1000, 0.1, outliers },
    { "gumbel", 1, 0, 0, 1000, 1, gumbel },
    { "random", 10, 2, 10, 1000, 1, random_labels },
    { "oranges", 3 * SIDE *SIDE, 2, 2, 200, 0.1, oranges },
    { "heights", 1, 2, 2, 1000, 7, heights },
    { "cars", 2, 0, 0, 1000, 1, cars },
};

bool cj__synthetic(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *r)
{
    const law *l = laws;
    while (strcmp(l->name, e->law) != 0) l++;
    int64_t n = o->n ? o->n : l->n, k = l->classes && o->classes ? o->classes : l->classes;
    double noise = o->noise == CJ_ZERO ? 0 : o->noise == 0 ? l->noise : o->noise;
    if (n < 1 || n > INT32_MAX / l->features) return cj__error(c, CJ_EVALUE, "cj_dataset_open: %s of %lld rows", l->name, (long long)n);
    if (l->classes && (k < 2 || k > l->most))
        return cj__error(c, CJ_EVALUE, "cj_dataset_open: %s of %lld classes; 2 to %lld are possible", l->name, (long long)k,
                         (long long)l->most);
    if (!(noise >= 0 && noise < 1e6)) return cj__error(c, CJ_EVALUE, "cj_dataset_open: %s with noise %g", l->name, noise);
    if (!cj__rows_alloc(r, c, n, l->features)) return false;
    r->classes = k;
    for (int64_t i = 0; i < n; i++) {
        cj_draws d = cj__draws(seed, (int64_t)CJ_CALL_POINTS, i, 0);
        r->y[i] = (float)(i % (k ? k : 10));
        l->row(&d, k, noise, r->x + i * l->features, r->y + i);
    }
    return true;
}
