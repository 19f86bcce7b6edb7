/* diffusion-chain: noise becomes points on a ring of eight clouds.
 *
 *     z_t = sqrt(kept_t) x + sqrt(1 - kept_t) eps;     a network says which eps is in z_t;     z_(t-1) = mean(z_t, that) + sigma_t xi
 *
 * One network for all times, which sees t as sines and cosines beside z.  Predicting no noise at all has the loss 1 at every t; a network that knows the data is below it
 * everywhere, and far below where little data is left in z, for there z itself is the noise (Ho, Jain & Abbeel 2020).
 */
#include "lab/lab.h"

#include <math.h>

enum { T = 60, WAVES = 16, CLOUDS = 8, POINTS = 400, SHOWN = 6, BATCH = 128, BANDS = 6 };

typedef struct model {
    cj_module *net;
    cj_diffusion d;
    cj_tensor *times; /* [T, 2·WAVES] */
    int64_t features;
} model;

/* The noise in z at times t, i64 [n] of 1 … T. */
static cj_tensor *noise_in(cj_ctx *c, void *user, cj_tensor *z, cj_tensor *t)
{
    (void)c;
    model *m = user;
    return cj_forward(m->net, cj_cat(CJ_TENSORS(z, cj_embedding(m->times, cj_add_scalar(t, -1))), 2, 1));
}

static model model_new(cj_ctx *c, int64_t features, int64_t hidden)
{
    model m = { .features = features };
    m.net = cj_sequential(c, cj_linear(c, features + 2 * WAVES, hidden), cj_activation_layer(c, "silu"), cj_linear(c, hidden, hidden),
                          cj_activation_layer(c, "silu"), cj_linear(c, hidden, features));
    m.d = cj_diffusion_linear(c, T, 1e-3, 0.2);
    m.times = cj_sinusoidal_positions(c, T, 2 * WAVES);
    return m;
}

static void train(cj_ctx *c, model *m, cj_tensor *x, int steps)
{
    cj_optim *o = cj_adam(cj_module_params(m->net), .lr = 2e-3);
    for (int i = 0; i < steps && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        if (i == 3 * steps / 4) cj_optim_set_lr(o, 4e-4);
        cj_tensor *row = cj_index_select(x, 0, cj_randint(c, 0, cj_size(x, 0), CJ_SHAPE(BATCH))),
                  *t = cj_randint(c, 1, T + 1, CJ_SHAPE(BATCH)), *eps = cj_randn(c, cj_shape_of(row));
        cj_tensor *z = cj_diffusion_noised(m->d, row, t, eps);
        cj_minimise(o, cj_mul_scalar(cj_mean(cj_diffusion_noise_loss(m->d, t, eps, noise_in(c, m, z, t), true)), 1 / (double)m->features));
        cj_scope_close(s);
    }
}

/* Loss per number in each of BANDS stretches of time; the largest. */
static double worst_band(cj_ctx *c, cj_lab_record *r, model *m, cj_tensor *x)
{
    double worst = 0;
    for (int k = 0; k < BANDS; k++) {
        cj_scope s = cj_scope_open(c);
        int64_t n = 2000;
        cj_tensor *row = cj_index_select(x, 0, cj_randint(c, 0, cj_size(x, 0), CJ_SHAPE(n))),
                  *t = cj_randint(c, 1 + k * T / BANDS, 1 + (k + 1) * T / BANDS, CJ_SHAPE(n)), *eps = cj_randn(c, cj_shape_of(row));
        double loss =
            cj_item(cj_mean(cj_diffusion_noise_loss(m->d, t, eps, noise_in(c, m, cj_diffusion_noised(m->d, row, t, eps), t), true))) /
            (double)m->features;
        cj_lab_say(r, "steps %2d to %2d: loss %.3f", 1 + k * T / BANDS, (k + 1) * T / BANDS, loss);
        worst = fmax(worst, loss);
        cj_scope_close(s);
    }
    return worst;
}

static cj_tensor *ring(cj_ctx *c, int64_t n)
{
    cj_tensor *angle = cj_mul_scalar(cj_cast(cj_randint(c, 0, CLOUDS, CJ_SHAPE(n, 1)), CJ_F32), 2 * 3.14159265358979 / CLOUDS);
    return cj_add(cj_mul_scalar(cj_cat(CJ_TENSORS(cj_cos(angle), cj_sin(angle)), 2, 1), 1.5),
                  cj_mul_scalar(cj_randn(c, CJ_SHAPE(n, 2)), 0.1));
}

/* Clouds with at least a quarter of their share of the points within four deviations of their centres; *near: share of all points there. */
static int covered(const double *p, int n, double *near)
{
    int count[CLOUDS] = { 0 }, full = 0;
    *near = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < CLOUDS; k++) {
            double angle = 2 * 3.14159265358979 * k / CLOUDS;
            if (hypot(p[2 * i] - 1.5 * cos(angle), p[2 * i + 1] - 1.5 * sin(angle)) < 0.4) count[k]++, *near += 1.0 / n;
        }
    for (int k = 0; k < CLOUDS; k++) full += count[k] >= n / CLOUDS / 4;
    return full;
}

/* Draws step by step, as cj_diffusion_sample does, and keeps what the picture shows: chain [SHOWN][POINTS · 2]. */
static cj_tensor *draw_chain(cj_ctx *c, model *m, double (*chain)[POINTS * 2])
{
    cj_tensor *z = cj_randn(c, CJ_SHAPE(POINTS, m->features), .stream = CJ_STREAM_SAMPLING);
    for (int64_t t = T, shown = 0; t >= 1 && cj_ok(c); t--) {
        if (chain && (T - t) % (T / (SHOWN - 1)) == 0) cj_to_f64(z, chain[shown++], (int64_t)POINTS * 2);
        cj_scope s = cj_scope_open(c);
        bool was = cj_no_grad(c);
        cj_tensor *at = cj_full(c, (double)t, CJ_SHAPE(POINTS), CJ_I64), *mean = cj_diffusion_mean(m->d, z, at, noise_in(c, m, z, at));
        if (t > 1)
            mean = cj_add(mean, cj_mul(cj_cast(cj_sqrt(cj_diffusion_variance(m->d, z, at)), CJ_F32),
                                       cj_randn(c, cj_shape_of(z), .stream = CJ_STREAM_SAMPLING)));
        cj_grad_mode(c, was);
        z = cj_scope_return(s, cj_cast(mean, CJ_F32));
    }
    if (chain) cj_to_f64(z, chain[SHOWN - 1], (int64_t)POINTS * 2);
    return z;
}

static void picture_of_chain(cj_ctx *c, cj_lab_record *r, double (*chain)[POINTS * 2])
{
    cj_plot *p = cj_plot_new(c, "From noise (left) to eight clouds (right)");
    cj_plot_size(p, 1500, 340);
    for (int k = 0; k < SHOWN; k++) {
        double x[POINTS], y[POINTS];
        for (int i = 0; i < POINTS; i++) x[i] = chain[k][2 * i] + 6 * k, y[i] = chain[k][2 * i + 1];
        cj_plot_points(p, NULL, x, y, POINTS);
    }
    cj_lab_picture(r, c, p, "diffusion-chain");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    static double chain[SHOWN][POINTS * 2];
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = ring(c, 4000);
    model m = model_new(c, 2, 128);
    if (!control) train(c, &m, x, 5000);
    cj_lab_expect_at_least(r, "1 / largest loss of a stretch of time (1: no noise predicted)", 1.02, 1 / worst_band(c, r, &m, x));
    cj_tensor *drawn = draw_chain(c, &m, chain);
    double near = 0, mmd = cj_item(cj_mmd(drawn, ring(c, POINTS), .bandwidth = 0.3));
    int clouds = covered(chain[SHOWN - 1], POINTS, &near);
    cj_lab_say(r, "%.3f of the points lie in a cloud", near);
    cj_lab_expect(r, "clouds that are covered", CLOUDS, clouds, 0);
    cj_lab_expect(r, "maximum mean discrepancy from the data, squared", 0, mmd, 0.02);
    if (!control && cj_ok(c) && cj_lab_wants_pictures(r)) picture_of_chain(c, r, chain);
    cj_scope_close(s);
}

const cj_lab cj_lab_diffusion_chain = {
    .name = "diffusion-chain",
    .claim = "a network that tells noise from data turns noise, step by step, into points of all eight clouds of a ring",
    .source = "Ho, Jain & Abbeel 2020",
    .control = "a network that has learnt nothing",
    .run = run,
};
