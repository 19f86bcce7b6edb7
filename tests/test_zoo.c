/* The models of the zoo: their published settings, the names and spread of their parameters, and their forward passes against plain loops in double. */
#include "zoo.h"

extern const cj_model cj_model_mlp, cj_model_gpt;

/* ---- settings -------------------------------------------------------------------------------------------------------------------------------- */

typedef struct expected {
    const char *key;
    double value, least, most;
    bool real;
} expected;

static void same_settings(const cj_setting *s, const expected *e)
{
    for (; e->key; s++, e++) {
        assert_non_null(s->key);
        assert_string_equal(s->key, e->key);
        assert_true(s->value == e->value && s->least == e->least && s->most == e->most && s->real == e->real);
    }
    assert_null(s->key);
}

/* What somebody who types no setting gets; a change here is a change of the manual and of every recorded run. */
static void settings(void **state)
{
    (void)state;
    same_settings(cj_model_mlp.settings, (const expected[]){ { "hidden", 512, 1, 0, false },
                                                             { "layers", 2, 0, 64, false },
                                                             { "dropout", 0.4, 0, 0.95, true },
                                                             { "activation", 0, 0, 0, false },
                                                             { 0 } });
    same_settings(cj_model_mlp.recipe, (const expected[]){ { .key = "epochs", .value = 10 },
                                                           { .key = "least_steps", .value = 800 },
                                                           { .key = "batch", .value = 128 },
                                                           { .key = "lr", .value = 2e-3 },
                                                           { .key = "schedule", .value = CJ_COSINE },
                                                           { 0 } });
    same_settings(cj_model_gpt.settings, (const expected[]){ { "layers", 4, 1, 96, false },
                                                             { "dim", 192, 1, 0, false },
                                                             { "heads", 6, 1, 0, false },
                                                             { "context", 128, 1, 0, false },
                                                             { "tied", 0, 0, 0, false },
                                                             { "dropout", 0.1, 0, 0.95, true },
                                                             { 0 } });
    same_settings(cj_model_gpt.recipe, (const expected[]){ { .key = "steps", .value = 4000 },
                                                           { .key = "batch", .value = 16 },
                                                           { .key = "lr", .value = 2e-3 },
                                                           { .key = "optimiser", .value = CJ_ADAMW },
                                                           { .key = "weight_decay", .value = 0.1 },
                                                           { .key = "schedule", .value = CJ_COSINE },
                                                           { .key = "warmup", .value = 100 },
                                                           { .key = "clip", .value = 1 },
                                                           { .key = "eval_every", .value = 250 },
                                                           { 0 } });
    assert_int_equal(cj_model_mlp.task, CJ_TASK_CLASSIFY);
    assert_int_equal(cj_model_gpt.task, CJ_TASK_NEXT_TOKEN);
}

/* The model with these assignments, NULL at the end. */
static cj_module *build(cj_ctx *c, const cj_model *m, int64_t in, int64_t out, const char *const *assignments)
{
    return zoo_build(c, m, (cj_model_data){ .inputs = in, .outputs = out }, assignments);
}

/* ---- plain loops ------------------------------------------------------------------------------------------------------------------------------- */

static double *weights(cj_module *m, const char *name) { return values_of(cj_params_find(cj_module_params(m), name)); }

/* y[rows, out] = x[rows, in] · weightᵀ + bias */
static double *linear(cj_module *m, const char *name, const double *x, int rows, int in, int out, bool bias)
{
    char text[128];
    snprintf(text, sizeof text, "%s.weight", name);
    double *w = weights(m, text), *b = NULL, *y = calloc((size_t)(rows * out), sizeof *y);
    if (bias) {
        snprintf(text, sizeof text, "%s.bias", name);
        b = weights(m, text);
    }
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < out; o++) {
            double s = b ? b[o] : 0;
            for (int i = 0; i < in; i++) s += x[r * in + i] * w[o * in + i];
            y[r * out + o] = s;
        }
    free(w);
    free(b);
    return y;
}

static double *layer_norm(cj_module *m, const char *name, const double *x, int rows, int n)
{
    char text[128];
    snprintf(text, sizeof text, "%s.weight", name);
    double *w = weights(m, text);
    snprintf(text, sizeof text, "%s.bias", name);
    double *b = weights(m, text), *y = calloc((size_t)(rows * n), sizeof *y);
    for (int r = 0; r < rows; r++) {
        double mean = 0, var = 0;
        for (int i = 0; i < n; i++) mean += x[r * n + i] / n;
        for (int i = 0; i < n; i++) var += (x[r * n + i] - mean) * (x[r * n + i] - mean) / n;
        for (int i = 0; i < n; i++) y[r * n + i] = (x[r * n + i] - mean) / sqrt(var + 1e-5) * w[i] + b[i];
    }
    free(w);
    free(b);
    return y;
}

static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }

static void assert_close(cj_tensor *got, const double *want, double tolerance)
{
    double *g = values_of(got);
    for (int64_t i = 0; i < cj_numel(got); i++) assert_near(g[i], want[i], tolerance);
    free(g);
}

/* Moves every parameter away from zeros and ones, so that each counts. */
static void shake(cj_ctx *c, cj_module *m, double by)
{
    cj_params *p = cj_module_params(m);
    bool was = cj_no_grad(c);
    for (int i = 0; i < cj_params_count(p); i++) cj_add_(cj_params_at(p, i), cj_normal(c, 0, by, cj_shape_of(cj_params_at(p, i))), 1);
    cj_grad_mode(c, was);
    assert_ok(c);
}

/* ---- mlp --------------------------------------------------------------------------------------------------------------------------------------- */

static void mlp(void **state)
{
    (void)state;
    static const char *const names[] = { "relu", "tanh", "gelu", "sigmoid" };
    enum { B = 5, IN = 3, HIDDEN = 7, OUT = 4 };
    for (int layers = 0; layers <= 2; layers++)
        for (int a = 0; a < 4; a++)
            for (int drop = 0; drop < 2; drop++) {
                cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 3 });
                char layers_text[24], act_text[32];
                snprintf(layers_text, sizeof layers_text, "layers=%d", layers);
                snprintf(act_text, sizeof act_text, "activation=%s", names[a]);
                cj_module *m =
                    build(c, &cj_model_mlp, IN, OUT, WITH("hidden=7", layers_text, act_text, drop ? "dropout=0.5" : "dropout=0"));
                assert_int_equal(cj_params_count(cj_module_params(m)), 2 * (layers + 1));
                shake(c, m, 0.3);
                cj_module_train(m, false);
                cj_tensor *x = cj_randn(c, CJ_SHAPE(B, IN));
                double *h = values_of(x);
                char name[16];
                for (int l = 0; l <= layers; l++) {
                    int in = l ? HIDDEN : IN, out = l == layers ? OUT : HIDDEN;
                    snprintf(name, sizeof name, "%d", l * (2 + drop)); /* linear, activation and, where there is one, dropout */
                    double *y = linear(m, name, h, B, in, out, true);
                    for (int i = 0; i < B * out && l < layers; i++)
                        y[i] = a == 0 ? fmax(y[i], 0) : a == 1 ? tanh(y[i]) : a == 2 ? gelu(y[i]) : 1 / (1 + exp(-y[i]));
                    free(h);
                    h = y;
                }
                assert_close(cj_forward(m, x), h, 1e-5);
                free(h);
                cj_module_train(m, true);
                bool random = !same_bits(cj_forward(m, x), cj_forward(m, x));
                assert_int_equal(random, drop && layers > 0);
                cj_ctx_free(c);
            }
}

/* ---- gpt --------------------------------------------------------------------------------------------------------------------------------------- */

enum { BATCH = 2, DIM = 12, HEADS = 3, CONTEXT = 6, VOCABULARY = 9, LAYERS = 3 };

static void block(cj_module *m, int l, double *x, int t)
{
    char name[64];
#define NAME(part) (snprintf(name, sizeof name, "h.%d.%s", l, part), name)
    const int rows = BATCH * t, each = DIM / HEADS;
    double *n = layer_norm(m, NAME("ln_1"), x, rows, DIM), *qkv = linear(m, NAME("attn.c_attn"), n, rows, DIM, 3 * DIM, true);
    double *y = calloc((size_t)(rows * DIM), sizeof *y);
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < t; i++) {
                double weight[CONTEXT], sum = 0;
                const double *q = qkv + (b * t + i) * 3 * DIM + h * each;
                for (int j = 0; j <= i; j++) {
                    const double *k = qkv + (b * t + j) * 3 * DIM + DIM + h * each;
                    weight[j] = 0;
                    for (int e = 0; e < each; e++) weight[j] += q[e] * k[e] / sqrt(each);
                    sum += weight[j] = exp(weight[j]);
                }
                for (int j = 0; j <= i; j++)
                    for (int e = 0; e < each; e++)
                        y[(b * t + i) * DIM + h * each + e] += weight[j] / sum * qkv[(b * t + j) * 3 * DIM + 2 * DIM + h * each + e];
            }
    double *p = linear(m, NAME("attn.c_proj"), y, rows, DIM, DIM, true);
    for (int i = 0; i < rows * DIM; i++) x[i] += p[i];
    double *n2 = layer_norm(m, NAME("ln_2"), x, rows, DIM), *f = linear(m, NAME("mlp.c_fc"), n2, rows, DIM, 4 * DIM, true);
    for (int i = 0; i < rows * 4 * DIM; i++) f[i] = gelu(f[i]);
    double *o = linear(m, NAME("mlp.c_proj"), f, rows, 4 * DIM, DIM, true);
    for (int i = 0; i < rows * DIM; i++) x[i] += o[i];
    free(n), free(qkv), free(y), free(p), free(n2), free(f), free(o);
}

static void gpt(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    cj_module *m = build(c, &cj_model_gpt, VOCABULARY, VOCABULARY, WITH("dim=12", "heads=3", "context=6", "layers=3", "dropout=0"));
    shake(c, m, 0.3);
    for (int t = 1; t <= CONTEXT; t++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *x = cj_randint(c, 0, VOCABULARY, CJ_SHAPE(BATCH, t));
        double *symbol = values_of(x), *wte = weights(m, "wte.weight"), *wpe = weights(m, "wpe.weight");
        double *h = calloc((size_t)(BATCH * t * DIM), sizeof *h);
        for (int i = 0; i < BATCH * t; i++)
            for (int e = 0; e < DIM; e++) h[i * DIM + e] = wte[(int)symbol[i] * DIM + e] + wpe[i % t * DIM + e];
        for (int l = 0; l < LAYERS; l++) block(m, l, h, t);
        double *n = layer_norm(m, "ln_f", h, BATCH * t, DIM), *logits = linear(m, "lm_head", n, BATCH * t, DIM, VOCABULARY, false);
        assert_close(cj_forward(m, x), logits, 2e-5);
        free(symbol), free(wte), free(wpe), free(h), free(n), free(logits);
        cj_scope_close(s);
    }
    assert_true(cj_is_poison(cj_forward(m, cj_zeros(c, CJ_SHAPE(1, CONTEXT + 1), CJ_I64))));
    assert_error(c, CJ_ESHAPE, "gpt: 7 symbols, the context has 6");
    cj_clear(c);
    assert_null(build(c, &cj_model_gpt, VOCABULARY, VOCABULARY, WITH("dim=10", "heads=3")));
    assert_error(c, CJ_EVALUE, "gpt: heads=3 does not divide dim=10");
    cj_clear(c);
    /* an error inside names the block */
    cj_module *child = cj_module_child(cj_module_child(m, 2), 1);
    cj_forward(child, cj_zeros(c, CJ_SHAPE(1, 2, 5), CJ_F32));
    assert_int_equal(cj_error(c), CJ_ESHAPE);
    cj_ctx_free(c);
}

static double spread(cj_module *m, const char *name)
{
    int64_t n = cj_numel(cj_params_find(cj_module_params(m), name));
    double *w = weights(m, name), squares = 0;
    for (int64_t i = 0; i < n; i++) squares += w[i] * w[i] / (double)n;
    free(w);
    return sqrt(squares);
}

/* Radford et al. 2019: 0.02 everywhere, and 0.02 / sqrt(2·layers) for what adds to the residual stream. */
static void gpt_initialisation(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    cj_module *m = build(c, &cj_model_gpt, 200, 150, WITH("dim=64", "heads=4", "context=100", "layers=3"));
    const struct {
        const char *name;
        double std;
        int64_t rows, columns;
    } each[] = {
        { "wte.weight", 0.02, 200, 64 },
        { "wpe.weight", 0.02, 100, 64 },
        { "h.0.attn.c_attn.weight", 0.02, 192, 64 },
        { "h.1.attn.c_proj.weight", 0.02 / sqrt(6), 64, 64 },
        { "h.2.mlp.c_fc.weight", 0.02, 256, 64 },
        { "h.2.mlp.c_proj.weight", 0.02 / sqrt(6), 64, 256 },
        { "lm_head.weight", 0.02, 150, 64 },
    };
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        cj_tensor *w = cj_params_find(cj_module_params(m), each[i].name);
        assert_true(cj_size(w, 0) == each[i].rows && cj_size(w, 1) == each[i].columns);
        assert_near(spread(m, each[i].name), each[i].std, 0.06 * each[i].std);
    }
    assert_int_equal(cj_params_count(cj_module_params(m)), 2 + 3 * 12 + 2 + 1);
    assert_null(cj_params_find(cj_module_params(m), "lm_head.bias"));
    cj_ctx_free(c);
}

/* Dropout: off in evaluation, and in training on the embedding and on both branches of every block. */
static void gpt_dropout(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    cj_module *m = build(c, &cj_model_gpt, 20, 20, WITH("dim=32", "heads=4", "context=8", "layers=1", "dropout=0.5"));
    cj_tensor *x = cj_zeros(c, CJ_SHAPE(4, 8), CJ_I64);
    cj_module_train(m, false);
    assert_true(same_bits(cj_forward(m, x), cj_forward(m, x)));
    cj_module_train(m, true);
    assert_false(same_bits(cj_forward(m, x), cj_forward(m, x)));
    uint64_t calls = cj_rng_get(c).call[CJ_STREAM_DROPOUT];
    cj_forward(m, x);
    assert_int_equal(cj_rng_get(c).call[CJ_STREAM_DROPOUT] - calls, 3);
    assert_ok(c);
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings),           cmocka_unit_test(mlp),         cmocka_unit_test(gpt),
        cmocka_unit_test(gpt_initialisation), cmocka_unit_test(gpt_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
