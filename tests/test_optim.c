/* Optimisers against their formulas, written out in plain C, over several steps; in f64 to the last bits, in f32 to its rounding. */
#include "support.h"

enum { A = 5, B = 3, N = A + B, STEPS = 6 };

typedef struct rule {
    const char *name;
    bool adam, nesterov, decoupled;
    double lr, momentum, dampening, decay, beta1, beta2, eps, clip;
} rule;

static const rule rules[] = {
    { .name = "sgd", .lr = 0.1 },
    { .name = "sgd, decay", .lr = 0.1, .decay = 0.3 },
    { .name = "momentum", .lr = 0.1, .momentum = 0.9 },
    { .name = "momentum, dampening", .lr = 0.1, .momentum = 0.8, .dampening = 0.4 },
    { .name = "nesterov", .lr = 0.1, .momentum = 0.9, .nesterov = true, .decay = 0.1 },
    { .name = "clipped", .lr = 0.1, .momentum = 0.5, .clip = 0.75 },
    { .name = "clip that never bites", .lr = 0.1, .clip = 1e6 },
    { .name = "adam", .adam = true, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
    { .name = "adam, own betas, decay", .adam = true, .lr = 0.02, .beta1 = 0.7, .beta2 = 0.9, .eps = 1e-3, .decay = 0.2 },
    { .name = "adamw", .adam = true, .decoupled = true, .lr = 0.02, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01 },
    { .name = "adam, clipped", .adam = true, .lr = 0.02, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 0.5 },
};

/* PyTorch's formulas. */
typedef struct state {
    double p[N], m[N], v[N];
    int t;
} state;
static void reference(const rule *r, state *s, const double *gradient)
{
    double g[N], norm = 0, scale = 1;
    s->t++;
    for (int i = 0; i < N; i++) norm += gradient[i] * gradient[i];
    norm = sqrt(norm);
    if (r->clip > 0 && norm > r->clip) scale = r->clip / (norm + 1e-6);
    for (int i = 0; i < N; i++) {
        g[i] = scale * gradient[i];
        if (r->decoupled) s->p[i] *= 1 - r->lr * r->decay;
        else g[i] += r->decay * s->p[i];
        if (r->adam) {
            s->m[i] = r->beta1 * s->m[i] + (1 - r->beta1) * g[i];
            s->v[i] = r->beta2 * s->v[i] + (1 - r->beta2) * g[i] * g[i];
            double mh = s->m[i] / (1 - pow(r->beta1, s->t)), vh = s->v[i] / (1 - pow(r->beta2, s->t));
            s->p[i] -= r->lr * mh / (sqrt(vh) + r->eps);
        } else if (r->momentum != 0) {
            s->m[i] = s->t == 1 ? g[i] : r->momentum * s->m[i] + (1 - r->dampening) * g[i];
            s->p[i] -= r->lr * (r->nesterov ? g[i] + r->momentum * s->m[i] : s->m[i]);
        } else {
            s->p[i] -= r->lr * g[i];
        }
    }
}

static const cj_module_type pair_type = { "Pair", NULL, NULL };

static void formulas(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++)
        for (int wide = 0; wide < 2; wide++) {
            const rule *r = &rules[k];
            cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 3 });
            cj_dtype t = wide ? CJ_F64 : CJ_F32;
            cj_module *m = cj_module_new(c, &pair_type, 0);
            cj_tensor *a = cj_module_param(m, "a", cj_randn(c, CJ_SHAPE(A), .dtype = t)),
                      *b = cj_module_param(m, "b", cj_randn(c, CJ_SHAPE(B), .dtype = t));
            state s = { .t = 0 };
            double *v = values_of(a), *w = values_of(b);
            memcpy(s.p, v, A * sizeof *v);
            memcpy(s.p + A, w, B * sizeof *w);
            free(v);
            free(w);
            cj_params *p = cj_module_params(m);
            cj_optim *o = !r->adam ? cj_sgd(p, .lr = r->lr, .momentum = r->momentum, .dampening = r->dampening, .weight_decay = r->decay,
                                            .nesterov = r->nesterov, .clip_norm = r->clip)
                          : r->decoupled ? cj_adamw(p, .lr = r->lr, .beta1 = r->beta1, .beta2 = r->beta2, .eps = r->eps,
                                                    .weight_decay = r->decay, .clip_norm = r->clip)
                                         : cj_adam(p, .lr = r->lr, .beta1 = r->beta1, .beta2 = r->beta2, .eps = r->eps,
                                                   .weight_decay = r->decay, .clip_norm = r->clip);
            for (int step = 0; step < STEPS; step++) {
                cj_scope scope = cj_scope_open(c);
                cj_tensor *ga = cj_randn(c, CJ_SHAPE(A), .dtype = t), *gb = cj_randn(c, CJ_SHAPE(B), .dtype = t);
                double g[N], *x = values_of(ga), *y = values_of(gb);
                memcpy(g, x, A * sizeof *x);
                memcpy(g + A, y, B * sizeof *y);
                free(x);
                free(y);
                assert_true(cj_minimise(o, cj_add(cj_dot(a, ga), cj_dot(b, gb)))); /* whose gradient is (ga, gb) */
                cj_scope_close(scope);
                reference(r, &s, g);
                double *now = values_of(a), *more = values_of(b), tolerance = wide ? 2e-15 : 2e-6;
                for (int i = 0; i < N; i++) {
                    double found = i < A ? now[i] : more[i - A];
                    if (!(fabs(found - s.p[i]) <= tolerance * fmax(1, fabs(s.p[i]))))
                        fail_msg("%s, %s, step %d: %.17g, expected %.17g", r->name, wide ? "f64" : "f32", step, found, s.p[i]);
                }
                free(now);
                free(more);
            }
            assert_int_equal(cj_optim_steps(o), STEPS);
            assert_ok(c);
            cj_ctx_free(c);
        }
}

/* Defaults are PyTorch's; CJ_ZERO is zero itself. */
static double one_step(cj_optim *(*make)(cj_params *p), double start, double gradient)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *m = cj_module_new(c, &pair_type, 0);
    cj_tensor *w = cj_module_param(m, "w", cj_full(c, start, CJ_SHAPE(1), CJ_F64));
    cj_optim *o = make(cj_module_params(m));
    assert_true(cj_minimise(o, cj_mul_scalar(cj_sum(w), gradient)));
    double v = value_at(w, 0);
    cj_ctx_free(c);
    return v;
}
static cj_optim *plain_sgd(cj_params *p) { return cj_sgd(p); }
static cj_optim *plain_adam(cj_params *p) { return cj_adam(p); }
static cj_optim *plain_adamw(cj_params *p) { return cj_adamw(p); }
static cj_optim *adamw_without_decay(cj_params *p) { return cj_adamw(p, .weight_decay = CJ_ZERO); }
static cj_optim *rate_zero(cj_params *p) { return cj_sgd(p, .lr = CJ_ZERO); }
static cj_optim *beta_zero(cj_params *p) { return cj_adam(p, .beta1 = CJ_ZERO, .beta2 = CJ_ZERO, .eps = CJ_ZERO); }
static void defaults(void **unused)
{
    (void)unused;
    assert_near(one_step(plain_sgd, 2, 3), 2 - 0.01 * 3, 1e-15);
    assert_near(one_step(plain_adam, 2, 3), 2 - 1e-3 * 3 / (3 + 1e-8), 1e-15);
    assert_near(one_step(plain_adamw, 2, 3), 2 * (1 - 1e-3 * 0.01) - 1e-3 * 3 / (3 + 1e-8), 1e-15);
    assert_near(one_step(adamw_without_decay, 2, 3), 2 - 1e-3 * 3 / (3 + 1e-8), 1e-15);
    assert_near(one_step(rate_zero, 2, 3), 2, 0);
    assert_near(one_step(beta_zero, 2, -3), 2 + 1e-3, 1e-15);
}

typedef struct seen {
    char names[256];
    int n;
} seen;
static void note(void *user, const char *name, cj_tensor *t)
{
    seen *s = user;
    assert_false(cj_is_poison(t));
    strcat(strcat(s->names, name), " ");
    s->n++;
}

static void state_rate_and_mixed_dtypes(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *m = cj_module_new(c, &pair_type, 0);
    cj_tensor *a = cj_module_param(m, "a", cj_ones(c, CJ_SHAPE(3), CJ_F32)), *b = cj_module_param(m, "b", cj_ones(c, CJ_SHAPE(2), CJ_F64)),
              *unused_one = cj_module_param(m, "u", cj_ones(c, CJ_SHAPE(2), CJ_F32));
    cj_optim *o = cj_adam(cj_module_params(m), .lr = 0.5);
    seen s = { "", 0 };
    assert_int_equal(cj_optim_state(o, note, &s), 7);
    assert_string_equal(s.names, "step exp_avg exp_avg_sq step.f64 exp_avg.f64 exp_avg_sq.f64 lr ");
    assert_near(cj_optim_lr(o), 0.5, 0);
    assert_ptr_equal(cj_optim_params(o), cj_module_params(m));
    assert_int_equal(cj_optim_steps(o), 0);
    cj_tensor *loss = cj_add(cj_cast(cj_sum(cj_square(a)), CJ_F64), cj_sum(cj_square(b)));
    assert_true(cj_minimise(o, loss));
    assert_near(value_at(a, 0), 0.5, 1e-6); /* a first Adam step moves by the rate */
    assert_near(value_at(b, 1), 0.5, 1e-8);
    assert_near(value_at(unused_one, 0), 1, 0);
    cj_optim_set_lr(o, 0.25);
    assert_near(cj_optim_lr(o), 0.25, 0);
    assert_true(cj_minimise(o, cj_sum(cj_square(b))));
    assert_true(value_at(b, 0) < 0.3);
    assert_int_equal(cj_optim_steps(o), 2);
    cj_optim *momentum = cj_sgd(cj_module_params(m), .momentum = 0.9);
    s = (seen){ "", 0 };
    cj_optim_state(momentum, note, &s);
    assert_string_equal(s.names, "step momentum_buffer step.f64 momentum_buffer.f64 lr ");
    cj_optim_free(momentum);
    /* many parameters: more than fit the short lists */
    cj_module *big = cj_module_new(c, &pair_type, 0);
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        cj_module_param(big, name, cj_full(c, i, CJ_SHAPE(1 + i % 5), CJ_F64));
    }
    cj_params *p = cj_module_params(big);
    cj_optim *sgd = cj_sgd(p, .lr = 0.5);
    cj_scope scope = cj_scope_open(c);
    cj_tensor *sum = NULL;
    for (int i = 0; i < 200; i++) {
        cj_tensor *term = cj_mul_scalar(cj_sum(cj_params_at(p, i)), i % 7);
        sum = sum ? cj_add(sum, term) : term;
    }
    assert_true(cj_minimise(sgd, sum));
    cj_scope_close(scope);
    for (int i = 0; i < 200; i++) assert_near(value_at(cj_params_at(p, i), 0), i - 0.5 * (i % 7), 1e-12);
    assert_ok(c);
    cj_ctx_free(c);
}

/* Layers: what they compute, how they start. */
static void layers(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 2 });
    cj_module *l = cj_linear(c, 400, 300);
    cj_tensor *w = cj_params_find(cj_module_params(l), "weight"), *b = cj_params_find(cj_module_params(l), "bias");
    double bound = 1 / sqrt(400);
    assert_true(cj_item(cj_max(w)) <= bound && cj_item(cj_max(w)) > 0.99 * bound && cj_item(cj_min(w)) < -0.99 * bound);
    assert_true(cj_item(cj_max(cj_abs(b))) <= bound && cj_item(cj_max(cj_abs(b))) > 0.9 * bound);
    assert_near(cj_item(cj_mean(w)), 0, 0.001);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 400));
    assert_near(distance(cj_forward(l, x), cj_add(cj_matmul(x, cj_t(w)), b)), 0, 1e-5);
    l = cj_linear(c, 400, 300, .init_std = 0.02);
    assert_near(sqrt(cj_item(cj_var(cj_params_find(cj_module_params(l), "weight")))), 0.02, 0.001);
    assert_near(cj_item(cj_sum(cj_abs(cj_params_find(cj_module_params(l), "bias")))), 0, 0);
    l = cj_linear(c, 4, 3, .no_bias = true);
    assert_int_equal(cj_params_count(cj_module_params(l)), 1);
    l = cj_linear(c, 4, 3, .zero_bias = true);
    assert_near(cj_item(cj_sum(cj_abs(cj_params_find(cj_module_params(l), "bias")))), 0, 0);
    assert_true(cj_item(cj_sum(cj_abs(cj_params_find(cj_module_params(l), "weight")))) > 0);
    cj_module *e = cj_embedding_layer(c, 300, 40, .init_std = 0.5);
    cj_tensor *table = cj_params_at(cj_module_params(e), 0), *ids = cj_from_i64(c, (int64_t[]){ 7, 0, 299, 7 }, CJ_SHAPE(2, 2)),
              *rows = cj_forward(e, ids);
    assert_near(sqrt(cj_item(cj_var(table))), 0.5, 0.02);
    assert_int_equal(cj_ndim(rows), 3);
    assert_true(same_bits(cj_contiguous(cj_select(cj_select(rows, 0, 1), 0, 0)), cj_contiguous(cj_select(table, 0, 299))));
    cj_module *n = cj_layer_norm_layer(c, 400);
    cj_tensor *y = cj_forward(n, cj_add_scalar(cj_mul_scalar(x, 3), 5));
    assert_near(cj_item(cj_mean(y)), 0, 1e-5);
    assert_near(cj_item(cj_mean(cj_square(y))), 1, 1e-4);
    assert_int_equal(cj_params_count(cj_module_params(n)), 2);
    assert_int_equal(cj_params_count(cj_module_params(cj_layer_norm_layer(c, 4, .no_bias = true))), 1);
    assert_int_equal(cj_params_count(cj_module_params(cj_layer_norm_layer(c, 4, .no_affine = true))), 0);
    assert_near(distance(cj_forward(cj_relu_layer(c), x), cj_relu(x)) + distance(cj_forward(cj_tanh_layer(c), x), cj_tanh(x)) +
                    distance(cj_forward(cj_sigmoid_layer(c), x), cj_sigmoid(x)) + distance(cj_forward(cj_gelu_layer(c), x), cj_gelu(x)),
                0, 0);
    assert_int_equal(cj_size(cj_forward(cj_flatten_layer(c), cj_zeros(c, CJ_SHAPE(2, 3, 4), CJ_F32)), 1), 12);
    /* dropout: survivors are scaled, the mean stays, evaluation is the identity */
    cj_module *d = cj_dropout_layer(c, 0.25);
    cj_tensor *ones = cj_ones(c, CJ_SHAPE(20000), CJ_F32), *dropped = cj_forward(d, ones);
    assert_near(cj_item(cj_mean(dropped)), 1, 0.02);
    assert_near(cj_item(cj_max(dropped)), 1 / 0.75, 1e-6);
    assert_near(cj_item(cj_mean(cj_cast(cj_eq_scalar(dropped, 0), CJ_F32))), 0.25, 0.02);
    cj_module_train(d, false);
    assert_ptr_equal(cj_data(cj_forward(d, ones)), cj_data(ones));
    assert_near(cj_item(cj_sum(cj_forward(cj_dropout_layer(c, 0), ones))), 20000, 0);
    assert_near(cj_item(cj_sum(cj_abs(cj_forward(cj_dropout_layer(c, 1), ones)))), 0, 0);
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(formulas), cmocka_unit_test(defaults),
                                        cmocka_unit_test(state_rate_and_mixed_dtypes), cmocka_unit_test(layers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
