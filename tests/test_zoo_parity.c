/* Parity of the zoo with PyTorch: the first gradients, the losses of ten training steps, and every parameter and buffer after them.  Reference:
 * tests/fixtures/zoo.txt, made by tools/fixtures_zoo.py; weights and data come from the same formulas here and there, noise from the library's streams. */
#include "support.h"

extern const cj_model cj_model_lenet5, cj_model_resnet, cj_model_vae, cj_model_dcgan, cj_model_rbm, cj_model_ddpm;

enum { STEPS = 10, SEED = 9, MAX_SOME = 8 };

typedef struct job {
    cj_ctx *c;
    const cj_model *model;
    cj_module *m;
    cj_optim *optim[CJ_MAX_PARTS];
    cj_model_data data;
    int64_t batch;
    int line;
    char name[32];
} job;

static const cj_model *find_model(const char *name)
{
    const cj_model *all[] = { &cj_model_lenet5, &cj_model_resnet, &cj_model_vae, &cj_model_dcgan, &cj_model_rbm, &cj_model_ddpm };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    fail_msg("no model %s", name);
    return NULL;
}

/* ---- weights and data, as in tools/fixtures_zoo.py ------------------------------------------------------------------------------------------ */

static void fill(job *j)
{
    cj_params *p = cj_module_params(j->m);
    for (int k = 0; k < cj_params_count(p); k++) {
        cj_tensor *t = cj_params_at(p, k);
        const char *name = cj_params_name(p, k);
        int64_t n = cj_numel(t);
        float *v = malloc((size_t)n * sizeof *v);
        size_t length = strlen(name);
        bool weight = length > 6 && strcmp(name + length - 6, "weight") == 0;
        double one = weight && (strstr(name, "bn") || strstr(name, ".downsample.1.")) ? 1 : 0;
        for (int64_t i = 0; i < n; i++) {
            double x = (double)((i * 7919 + k * 104729 + 13) % 1009 - 504) / 504;
            v[i] = (float)(cj_ndim(t) > 1 ? x / sqrt((double)n / (double)cj_size(t, 0)) : 0.1 * x + one);
        }
        cj_scope s = cj_scope_open(j->c);
        bool was = cj_no_grad(j->c);
        cj_assign_(t, cj_from_f32(j->c, v, cj_shape_of(t)));
        cj_grad_mode(j->c, was);
        cj_scope_close(s);
        free(v);
    }
}

static void batch(const job *j, int step, cj_tensor *xy[2])
{
    int64_t n = j->batch * j->data.inputs;
    float *x = malloc((size_t)n * sizeof *x);
    int64_t *y = malloc((size_t)j->batch * sizeof *y);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((double)((i * 31 + i / j->data.inputs * 17 + step * 7) % 97) / 96);
    for (int64_t i = 0; i < j->batch; i++) y[i] = (i * 3 + step) % j->data.outputs;
    xy[0] = cj_from_f32(j->c, x, CJ_SHAPE(j->batch, j->data.inputs));
    xy[1] = cj_from_i64(j->c, y, CJ_SHAPE(j->batch));
    free(x);
    free(y);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------------------------ */

/* "shape norm v0 v1 …" of a tensor: every (numel / 6)th element. */
static void compare(const job *j, const char *what, const char *name, cj_tensor *t, const char *text, double tolerance)
{
    char shape[64], ours[64] = "";
    int skip;
    assert_int_equal(sscanf(text, "%63s%n", shape, &skip), 1);
    for (int a = 0; a < cj_ndim(t); a++)
        snprintf(ours + strlen(ours), sizeof ours - strlen(ours), "%s%lld", a ? "," : "", (long long)cj_size(t, a));
    assert_string_equal(ours[0] ? ours : "-", shape);
    double *v = values_of(t), norm = 0;
    int64_t n = cj_numel(t), every = n / 6 > 1 ? n / 6 : 1;
    for (int64_t i = 0; i < n; i++) norm += v[i] * v[i];
    double expected[MAX_SOME], found[MAX_SOME] = { sqrt(norm) };
    int m = 0, at = 0;
    for (text += skip; m < MAX_SOME && sscanf(text, "%lf%n", &expected[m], &at) == 1; text += at, m++)
        if (m > 0) found[m] = v[(m - 1) * every];
    assert_true(m >= 2);
    for (int i = 0; i < m; i++)
        if (!(fabs(found[i] - expected[i]) <= tolerance * (1 + fabs(expected[0]))))
            fail_msg("line %d, %s, %s of %s: value %d is %.9g, PyTorch's %.9g", j->line, j->name, what, name, i, found[i], expected[i]);
    free(v);
}

typedef struct search {
    const char *name;
    cj_tensor *found;
    int count;
} search;
static void look(void *user, const char *name, cj_tensor *t)
{
    search *s = user;
    s->count++;
    if (strcmp(s->name, name) == 0) s->found = t;
}

/* ---- a model ---------------------------------------------------------------------------------------------------------------------------------- */

static void open_job(job *j, const char *text)
{
    long long d[6];
    double lr, momentum;
    int skip;
    assert_int_equal(sscanf(text, "%31s %lld %lld %lld %lld %lld %lld %lf %lf%n", j->name, &d[0], &d[1], &d[2], &d[3], &d[4], &d[5], &lr,
                            &momentum, &skip),
                     9);
    j->model = find_model(j->name);
    j->data = (cj_model_data){ .inputs = d[0], .outputs = d[1], .channels = d[2], .height = d[3], .width = d[4] };
    j->batch = d[5];
    j->c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 3 });
    cj_settings *s = cj_settings_new(j->c, j->model);
    char setting[64];
    for (text += skip; sscanf(text, "%63s%n", setting, &skip) == 1; text += skip) assert_true(cj_settings_parse(s, setting));
    cj_options options = cj_settings_options(s);
    j->m = j->model->build(j->c, &j->data, &options);
    assert_ok(j->c);
    fill(j);
    const char *const *part = j->model->parts;
    for (int i = 0; part ? part[i] != NULL : i < 1; i++) {
        cj_params *p = cj_module_params(part ? cj_module_find(j->m, part[i]) : j->m);
        j->optim[i] = momentum < 0 ? cj_adam(p, .lr = lr, .beta1 = -momentum) : cj_sgd(p, .lr = lr, .momentum = momentum);
    }
    assert_ok(j->c);
}

/* Gradients of the loss of the first batch where the model has one that it minimises itself. */
static void slope(job *j, const char *name, const char *text)
{
    cj_scope s = cj_scope_open(j->c);
    cj_tensor *xy[2], *g, *p = cj_params_find(cj_module_params(j->m), name);
    if (!p) fail_msg("line %d: %s has no %s", j->line, j->name, name);
    cj_seed(j->c, SEED);
    batch(j, 0, xy);
    cj_tensor *loss = j->model->loss ? j->model->loss(j->m, xy[0], xy[1]) : cj_cross_entropy(cj_forward(j->m, xy[0]), xy[1]);
    cj_grad(loss, &p, 1, &g);
    assert_ok(j->c);
    compare(j, "gradient", name, g, text, 2e-5);
    cj_scope_close(s);
    fill(j); /* statistics of batch norms are counted in `reset` */
}

/* Running statistics as at the beginning: the gradients above have moved them. */
static void reset(void *user, const char *name, cj_tensor *t)
{
    (void)user;
    double value = strstr(name, "running_var") ? 1 : 0;
    if (strstr(name, "running_") || strstr(name, "num_batches")) cj_assign_(t, cj_full(cj_tensor_ctx(t), value, CJ_SCALAR, cj_dtype_of(t)));
}

static void step_fn(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    job *j = user;
    if (j->model->step) {
        out[0] = j->model->step(j->m, j->optim, in[0], in[1]);
        return;
    }
    out[0] = j->model->loss ? j->model->loss(j->m, in[0], in[1]) : cj_cross_entropy(cj_forward(j->m, in[0]), in[1]);
    cj_minimise(j->optim[0], out[0]);
}

/* The first steps run one operator after the other, the others as a captured plan. */
static void train(job *j, const char *text)
{
    cj_scope start = cj_scope_open(j->c);
    cj_module_state(j->m, reset, NULL);
    cj_scope_close(start);
    cj_seed(j->c, SEED);
    cj_plan *plan = NULL;
    for (int k = 0, skip; k < STEPS; k++, text += skip) {
        cj_scope s = cj_scope_open(j->c);
        cj_tensor *xy[2], *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
        batch(j, k, xy);
        if (k < 3) step_fn(j->c, j, xy, out);
        else if (!plan) plan = cj_capture(j->c, step_fn, j, xy, 2, out);
        else cj_replay(plan, xy, out);
        assert_ok(j->c);
        double expected, loss = cj_item(out[0]);
        assert_int_equal(sscanf(text, "%lf%n", &expected, &skip), 1);
        if (fabs(loss - expected) > 1e-4 * (1 + fabs(expected)))
            fail_msg("line %d, %s, step %d: loss %.9g, PyTorch's %.9g", j->line, j->name, k, loss, expected);
        cj_scope_close(s);
    }
    cj_plan_free(plan);
}

static void ten_steps(void **state)
{
    (void)state;
    const char *root = getenv("CAJAL_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/fixtures/zoo.txt", root ? root : ".");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    static char line[1 << 14];
    job j = { 0 };
    int models = 0, slopes = 0, tensors = 0, skip;
    char word[16], name[96];
    while (fgets(line, sizeof line, f)) {
        j.line++;
        assert_int_equal(sscanf(line, "%15s%n", word, &skip), 1);
        if (strcmp(word, "model") == 0) {
            open_job(&j, line + skip);
            models++, tensors = 0;
        } else if (strcmp(word, "loss") == 0) {
            train(&j, line + skip);
        } else if (strcmp(word, "end") == 0) {
            search s = { .name = "" };
            cj_module_state(j.m, look, &s);
            assert_int_equal(s.count, tensors); /* a name too many or too few */
            cj_ctx_free(j.c);
        } else {
            int more;
            assert_int_equal(sscanf(line + skip, "%95s%n", name, &more), 1);
            if (strcmp(word, "slope") == 0 && j.model != &cj_model_rbm) { /* what an rbm reports is not what it minimises */
                slope(&j, name, line + skip + more);
                slopes++;
            } else if (strcmp(word, "after") == 0) {
                search s = { .name = name };
                cj_module_state(j.m, look, &s);
                if (!s.found) fail_msg("line %d: %s has no %s", j.line, j.name, name);
                compare(&j, "value after ten steps", name, s.found, line + skip + more, 2e-4);
                tensors++;
            }
        }
    }
    fclose(f);
    assert_int_equal(models, 10);
    assert_true(slopes > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ten_steps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
