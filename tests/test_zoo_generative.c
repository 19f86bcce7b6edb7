/* The generative models of the zoo against closed forms: a Boltzmann machine small enough to enumerate, divergences of Gaussians, a diffusion whose network is silent, a
 * discriminator that cannot tell anything apart. */
#include "zoo.h"

extern const cj_model cj_model_vae, cj_model_dcgan, cj_model_rbm, cj_model_ddpm;

TEST_CONTEXT(.threads = 2, .seed = 6);

static cj_module *build(const cj_model *m, cj_model_data d, const char *const *assignments) { return zoo_build(c, m, d, assignments); }

static cj_tensor *param(cj_module *m, const char *name)
{
    cj_tensor *t = cj_params_find(cj_module_params(m), name);
    if (!t) fail_msg("there is no %s", name);
    return t;
}

/* Standard normal numbers for the tests themselves. */
static double gauss(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) * 0x1p-53;
    }
    return sum;
}

/* ---- rbm ---------------------------------------------------------------------------------------------------------------------------------------- */

enum { VISIBLE = 6, HIDDEN = 5 };

typedef struct machine {
    double *W, *b, *c;
} machine;

static machine machine_of(cj_module *m)
{
    return (machine){ values_of(param(m, "W")), values_of(param(m, "b")), values_of(param(m, "c")) };
}
static void machine_free(machine r) { free(r.W), free(r.b), free(r.c); }

static double energy(const machine *r, int x, int h)
{
    double e = 0;
    for (int j = 0; j < HIDDEN; j++) e -= h >> j & 1 ? r->b[j] : 0;
    for (int k = 0; k < VISIBLE; k++) {
        if (!(x >> k & 1)) continue;
        e -= r->c[k];
        for (int j = 0; j < HIDDEN; j++) e -= h >> j & 1 ? r->W[j * VISIBLE + k] : 0;
    }
    return e;
}

/* p(x) of all visible states, by enumeration of everything. */
static void enumerate(const machine *r, double p[1 << VISIBLE])
{
    double Z = 0;
    for (int x = 0; x < 1 << VISIBLE; x++) {
        p[x] = 0;
        for (int h = 0; h < 1 << HIDDEN; h++) p[x] += exp(-energy(r, x, h));
        Z += p[x];
    }
    for (int x = 0; x < 1 << VISIBLE; x++) p[x] /= Z;
}

static cj_tensor *states(const int *x, int n)
{
    float v[VISIBLE << VISIBLE];
    for (int i = 0; i < n * VISIBLE; i++) v[i] = (float)(x[i / VISIBLE] >> i % VISIBLE & 1);
    return cj_from_f32(c, v, CJ_SHAPE(n, VISIBLE));
}

static void loud(cj_module *m)
{
    cj_init_normal_(param(m, "W"), 0, 0.8);
    cj_init_normal_(param(m, "b"), 0, 0.5);
    cj_init_normal_(param(m, "c"), 0, 0.5);
}

/* F(x) = -log sum_h exp(-E(x, h)); p(x) = exp(-F(x))/Z; no overflow where the fields are ±500. */
static void rbm_free_energy(void **state)
{
    (void)state;
    cj_module *m = build(&cj_model_rbm, (cj_model_data){ .inputs = VISIBLE }, WITH("hidden=5"));
    cj_scope s = cj_scope_open(c);
    loud(m);
    int all[1 << VISIBLE];
    for (int x = 0; x < 1 << VISIBLE; x++) all[x] = x;
    machine r = machine_of(m);
    double *F = values_of(cj_forward(m, states(all, 1 << VISIBLE))), p[1 << VISIBLE], Z = 0;
    enumerate(&r, p);
    for (int x = 0; x < 1 << VISIBLE; x++) {
        double sum = 0;
        for (int h = 0; h < 1 << HIDDEN; h++) sum += exp(-energy(&r, x, h));
        assert_near(F[x], -log(sum), 2e-5);
        Z += exp(-F[x]);
    }
    for (int x = 0; x < 1 << VISIBLE; x++) assert_near(exp(-F[x]) / Z, p[x], 1e-5);
    free(F);
    machine_free(r);
    cj_init_constant_(param(m, "W"), 0);
    cj_init_constant_(param(m, "c"), 0);
    cj_init_constant_(param(m, "b"), 500);
    assert_near(value_at(cj_forward(m, states(all, 1)), 0), -500.0 * HIDDEN, 1e-3);
    cj_init_constant_(param(m, "b"), -500);
    assert_near(value_at(cj_forward(m, states(all, 1)), 0), 0, 1e-6);
    cj_scope_close(s);
}

/* Gibbs samples have the marginals that enumeration gives: probabilities of n chains, whose mean strays by at most 1/2/sqrt(n) or so. */
static void rbm_gibbs(void **state)
{
    (void)state;
    cj_module *m = build(&cj_model_rbm, (cj_model_data){ .inputs = VISIBLE }, WITH("hidden=5", "gibbs=60"));
    cj_scope s = cj_scope_open(c);
    loud(m);
    machine r = machine_of(m);
    double p[1 << VISIBLE];
    enumerate(&r, p);
    enum { CHAINS = 20000 };
    double *mean = values_of(cj_mean(cj_model_rbm.sample(m, CHAINS), .axes = CJ_AXIS(0)));
    for (int k = 0; k < VISIBLE; k++) {
        double exact = 0;
        for (int x = 0; x < 1 << VISIBLE; x++) exact += x >> k & 1 ? p[x] : 0;
        assert_near(mean[k], exact, 4 * 0.5 / sqrt(CHAINS));
    }
    free(mean);
    machine_free(r);
    cj_scope_close(s);
}

static double exact_loss(cj_module *m, const int *x, int n)
{
    machine r = machine_of(m);
    double p[1 << VISIBLE], loss = 0;
    enumerate(&r, p);
    for (int i = 0; i < n; i++) loss -= log(p[x[i]]) / n;
    machine_free(r);
    return loss;
}

/* CD-1 on two patterns lowers the exact -log p(x), which enumeration gives, from near 6 log 2 to near the entropy log 2. */
static void rbm_learns(void **state)
{
    (void)state;
    cj_module *m = build(&cj_model_rbm, (cj_model_data){ .inputs = VISIBLE }, WITH("hidden=5"));
    static const int x[8] = { 7, 56, 7, 56, 7, 56, 7, 56 };
    cj_tensor *rows = cj_keep(states(x, 8)), *none = cj_keep(cj_zeros(c, CJ_SHAPE(8), CJ_I64));
    cj_examples e;
    assert_true(cj_examples_of_rows(rows, none, &e));
    double before = exact_loss(m, x, 8);
    assert_near(before, VISIBLE * log(2), 0.1);
    cj_train_result r =
        cj_train(m, &e, .task = CJ_TASK_GENERATE, .model = &cj_model_rbm, .steps = 3000, .batch = 8, .optimiser = CJ_SGD, .lr = 0.1);
    assert_true(r.finished);
    double after = exact_loss(m, x, 8);
    if (!(after < log(2) + 0.4)) fail_msg("-log p(x) is %g", after);
}

/* ---- vae ------------------------------------------------------------------------------------------------------------------------------------------ */

/* vae.beta: the loss is linear in beta, and at 1 the bound: its slope is the closed-form divergence, which draws from q confirm. */
static void vae_divergence(void **state)
{
    (void)state;
    enum { IN = 6, LATENT = 3, ROWS = 4, DRAWS = 40000 };
    cj_tensor *x = cj_keep(cj_rand(c, CJ_SHAPE(ROWS, IN)));
    double loss[2];
    cj_module *m = NULL;
    for (int i = 0; i < 2; i++) {
        cj_seed(c, 5);
        m = build(&cj_model_vae, (cj_model_data){ .inputs = IN }, WITH("hidden=8", "latent=3", i ? "beta=2" : "beta=1"));
        cj_init_normal_(param(m, "fc21.weight"), 0, 1);
        cj_init_normal_(param(m, "fc22.weight"), 0, 0.5);
        cj_scope s = cj_scope_open(c);
        loss[i] = cj_item(cj_model_vae.loss(m, x, NULL));
        cj_scope_close(s);
    }
    cj_scope s = cj_scope_open(c);
    cj_tensor *h = cj_relu(cj_forward(cj_module_find(m, "fc1"), x));
    double *mu = values_of(cj_forward(cj_module_find(m, "fc21"), h)), *logvar = values_of(cj_forward(cj_module_find(m, "fc22"), h));
    double closed = 0, drawn = 0, squares = 0;
    for (int i = 0; i < ROWS * LATENT; i++) closed += 0.5 * (exp(logvar[i]) + mu[i] * mu[i] - 1 - logvar[i]) / ROWS;
    uint64_t random = 1;
    for (int n = 0; n < DRAWS; n++) {
        double one = 0; /* log q(z) - log p(z) */
        for (int i = 0; i < ROWS * LATENT; i++) {
            double e = gauss(&random), z = mu[i] + exp(logvar[i] / 2) * e;
            one += (-0.5 * e * e - 0.5 * logvar[i] + 0.5 * z * z) / ROWS;
        }
        drawn += one / DRAWS;
        squares += one * one / DRAWS;
    }
    assert_near(loss[1] - loss[0], closed, 1e-5 * (1 + loss[1]));
    assert_near(drawn, closed, 4 * sqrt((squares - drawn * drawn) / DRAWS) + 0.01 * closed);
    assert_true(closed > 0.3);
    free(mu);
    free(logvar);
    cj_scope_close(s);
}

/* ---- what all have ----------------------------------------------------------------------------------------------------------------------------------- */

/* They learn: the loss falls on a few digits, new rows are images, the same seed gives the same ones. */
static void digits(void **state)
{
    (void)state;
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_tensor *x = cj_keep(cj_slice(d->train_x, 0, 0, 64, 1)), *y = cj_keep(cj_slice(d->train_y, 0, 0, 64, 1));
    cj_examples e;
    assert_true(cj_examples_of_rows(x, y, &e));
    const cj_model_data data = { .inputs = 64, .outputs = 10, .channels = 1, .height = 8, .width = 8 };
    const struct {
        const cj_model *model;
        const char *setting;
        double lr, share; /* of the first loss that is left */
    } each[] = { { &cj_model_vae, "hidden=64", 3e-3, 0.75 }, { &cj_model_rbm, "gibbs=20", 3e-3, 0.6 } };
    for (int i = 0; i < 2; i++) {
        cj_module *m = build(each[i].model, data, WITH(each[i].setting));
        cj_metrics before, after;
        cj_evaluate_opts how = { .task = CJ_TASK_GENERATE, .model = each[i].model };
        assert_true((cj_evaluate)(m, &e, &before, &how));
        assert_true(isnan(before.accuracy));
        assert_true((cj_evaluate)(m, &e, &after, &how));
        assert_true(after.loss == before.loss); /* looking leaves no trace in the random streams */
        cj_train_result r = cj_train(m, &e, .task = CJ_TASK_GENERATE, .model = each[i].model, .steps = 300, .batch = 32, .lr = each[i].lr);
        assert_true(r.finished);
        assert_true((cj_evaluate)(m, &e, &after, &how));
        if (!(after.loss < each[i].share * before.loss)) fail_msg("%s: from %g to %g", each[i].model->name, before.loss, after.loss);
        cj_scope s = cj_scope_open(c);
        cj_no_grad(c);
        cj_seed(c, 77);
        cj_tensor *one = each[i].model->sample(m, 9);
        cj_seed(c, 77);
        assert_true(same_bits(one, each[i].model->sample(m, 9)));
        assert_true(cj_size(one, 0) == 9 && cj_size(one, 1) == 64);
        assert_true(cj_item(cj_min(one)) >= 0 && cj_item(cj_max(one)) <= 1);
        cj_grad_mode(c, true);
        cj_scope_close(s);
    }
}

/* ---- dcgan ---------------------------------------------------------------------------------------------------------------------------------------------- */

static const cj_model_data image = { .inputs = 64, .outputs = 2, .channels = 1, .height = 8, .width = 8 };

/* A discriminator that says 1/2 everywhere has the loss log 4. */
static void dcgan_optimum(void **state)
{
    (void)state;
    cj_module *m = build(&cj_model_dcgan, image, WITH("width=4", "latent=6"));
    cj_init_constant_(param(m, "discriminator.fc.weight"), 0);
    cj_init_constant_(param(m, "discriminator.fc.bias"), 0);
    cj_scope s = cj_scope_open(c);
    assert_near(cj_item(cj_model_dcgan.loss(m, cj_rand(c, CJ_SHAPE(5, 64)), NULL)), 1.3862943611198906, 1e-6);
    cj_scope_close(s);
}

static bool same_values(const double *a, cj_tensor *t)
{
    double *b = values_of(t);
    bool same = memcmp(a, b, (size_t)cj_numel(t) * sizeof *a) == 0;
    free(b);
    return same;
}

/* Each player's update leaves the other's parameters alone, and gradients reach the generator through the discriminator. */
static void dcgan_players(void **state)
{
    (void)state;
    const char *name[2] = { "discriminator.conv1.weight", "generator.deconv1.weight" };
    for (int player = 0; player < 2; player++) {
        cj_module *m = build(&cj_model_dcgan, image, WITH("width=4", "latent=6"));
        cj_optim *optim[2];
        for (int i = 0; i < 2; i++)
            optim[i] = cj_sgd(cj_module_params(cj_module_find(m, cj_model_dcgan.parts[i])), .lr = i == player ? 0.1 : CJ_ZERO);
        double *before[2] = { values_of(param(m, name[0])), values_of(param(m, name[1])) };
        cj_scope s = cj_scope_open(c);
        cj_model_dcgan.step(m, optim, cj_rand(c, CJ_SHAPE(5, 64)), NULL);
        cj_scope_close(s);
        assert_ok(c);
        for (int i = 0; i < 2; i++) {
            assert_true(same_values(before[i], param(m, name[i])) == (i != player));
            free(before[i]);
        }
    }
}

static void dcgan_refusals(void **state)
{
    (void)state;
    cj_model_data odd = image;
    odd.height = 6;
    assert_refused(CJ_EVALUE, "dcgan: images whose sides are multiples of 4 are needed, rows of 6 x 8 were found",
                   assert_null(build(&cj_model_dcgan, odd, WITH("width=4"))));
    assert_refused(CJ_EVALUE, "dcgan: images whose sides",
                   assert_null(build(&cj_model_dcgan, (cj_model_data){ .inputs = 64 }, WITH("width=4"))));
}

/* ---- ddpm ------------------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct search {
    const char *name;
    cj_tensor *found;
} search;
static void find_buffer(void *user, const char *name, cj_tensor *t)
{
    search *s = user;
    if (strcmp(s->name, name) == 0) s->found = t;
}
static double *buffer(cj_module *m, const char *name)
{
    search s = { .name = name };
    cj_module_state(m, find_buffer, &s);
    assert_non_null(s.found);
    return values_of(s.found);
}

/* diff.schedule: linear from 1e-4 to 0.02 in 1000 steps: what is left of x at the end is 4.036e-5 of its variance. */
static void diff_schedule(void **state)
{
    (void)state;
    cj_module *m = build(&cj_model_ddpm, (cj_model_data){ .inputs = 2 }, WITH("hidden=4"));
    double *beta = buffer(m, "betas"), *a = buffer(m, "alphas_cumprod"), product = 1;
    assert_true(beta[0] == (double)1e-4F && beta[999] == (double)0.02F && a[0] == (double)(float)(1 - 1e-4));
    for (int t = 0; t < 1000; t++) {
        product *= 1 - (1e-4 + (0.02 - 1e-4) * t / 999);
        assert_near(a[t], product, 1e-7);
        if (t > 0) assert_true(a[t] < a[t - 1] && beta[t] > beta[t - 1]);
    }
    assert_near(a[999], 4.036e-5, 5e-9);
    free(beta);
    free(a);
}

/* The sampler's mean is that of q(x_{t-1}|x_t, x_0) when the network says the noise that is in x_t: the two formulas agree for every t. */
static void ddpm_posterior_mean(void **state)
{
    (void)state;
    cj_module *m = build(&cj_model_ddpm, (cj_model_data){ .inputs = 2 }, WITH("hidden=4", "diffusion=50"));
    double *beta = buffer(m, "betas"), *a = buffer(m, "alphas_cumprod");
    uint64_t random = 3;
    for (int t = 1; t < 50; t++) {
        double x0 = gauss(&random), eps = gauss(&random), x = sqrt(a[t]) * x0 + sqrt(1 - a[t]) * eps;
        double posterior = sqrt(a[t - 1]) * beta[t] / (1 - a[t]) * x0 + sqrt(1 - beta[t]) * (1 - a[t - 1]) / (1 - a[t]) * x;
        double sampler = (x - beta[t] / sqrt(1 - a[t]) * eps) / sqrt(1 - beta[t]);
        assert_near(sampler, posterior, 2e-5 * (1 + fabs(posterior))); /* betas are rounded to f32 */
    }
    free(beta);
    free(a);
}

/* With a silent network the sampler is a chain of Gaussians: v_{t-1} = v_t/(1 - beta_t) + beta_t, without the last term at t = 1. And the loss is the mean of eps². */
static void ddpm_silent(void **state)
{
    (void)state;
    enum { N = 40000, T = 20 };
    cj_module *m = build(&cj_model_ddpm, (cj_model_data){ .inputs = 2 }, WITH("hidden=4", "diffusion=20"));
    cj_init_constant_(param(m, "net.6.weight"), 0);
    cj_init_constant_(param(m, "net.6.bias"), 0);
    double *beta = buffer(m, "betas"), v = 1;
    for (int t = T - 1; t >= 0; t--) v = v / (1 - beta[t]) + (t > 0 ? beta[t] : 0);
    cj_scope s = cj_scope_open(c);
    cj_no_grad(c);
    cj_tensor *x = cj_model_ddpm.sample(m, N);
    assert_near(cj_item(cj_mean(x)), 0, 4 * sqrt(v / (2 * N)));
    assert_near(cj_item(cj_var(x)), v, 4 * v * sqrt(2.0 / (2 * N)));
    assert_near(cj_item(cj_model_ddpm.loss(m, x, NULL)), 1, 4 * sqrt(2.0 / (2 * N)));
    cj_grad_mode(c, true);
    cj_scope_close(s);
    free(beta);
}

/* Trained on two points, it makes points near them, about as many of each. */
static void ddpm_learns(void **state)
{
    (void)state;
    enum { N = 400 };
    cj_module *m = build(&cj_model_ddpm, (cj_model_data){ .inputs = 2 }, WITH("hidden=64", "layers=2", "diffusion=100", "beta_last=0.1"));
    float v[64 * 2];
    for (int i = 0; i < 64; i++) v[2 * i] = i % 2 ? 1 : -1, v[2 * i + 1] = i % 2 ? -1 : 1;
    cj_tensor *x = cj_keep(cj_from_f32(c, v, CJ_SHAPE(64, 2))), *y = cj_keep(cj_zeros(c, CJ_SHAPE(64), CJ_I64));
    cj_examples e;
    assert_true(cj_examples_of_rows(x, y, &e));
    cj_train_result r =
        cj_train(m, &e, .task = CJ_TASK_GENERATE, .model = &cj_model_ddpm, .steps = 1500, .batch = 64, .lr = 3e-3, .schedule = CJ_COSINE);
    assert_true(r.finished && r.loss < 0.5);
    cj_scope s = cj_scope_open(c);
    cj_no_grad(c);
    double *made = values_of(cj_model_ddpm.sample(m, N)), near = 0, right = 0;
    for (int i = 0; i < N; i++) {
        double side = made[2 * i] > 0 ? 1 : -1;
        near += hypot(made[2 * i] - side, made[2 * i + 1] + side) < 0.4 ? 1.0 / N : 0;
        right += side > 0 ? 1.0 / N : 0;
    }
    if (!(near > 0.9 && right > 0.3 && right < 0.7)) fail_msg("%g of the points are near, %g of them on the right", near, right);
    free(made);
    cj_grad_mode(c, true);
    cj_scope_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rbm_free_energy), TEST(rbm_gibbs),      TEST(rbm_learns),    TEST(vae_divergence),      TEST(digits),      TEST(dcgan_optimum),
        TEST(dcgan_players),   TEST(dcgan_refusals), TEST(diff_schedule), TEST(ddpm_posterior_mean), TEST(ddpm_silent), TEST(ddpm_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
