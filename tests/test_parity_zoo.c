/* Parity with PyTorch: the zoo's models of sequences and graphs with the state of a state_dict give its results, gradients and ten training steps.  Reference:
 * tests/fixtures/zoo_seq.txt, made by tools/fixtures_zoo_seq.py.  The state of a model is exactly the state_dict: a name too many or too few is an error. */
#include <cajal/optim.h>
#include <cajal/train.h>

#include "parity.h"

extern const cj_model cj_model_lstm, cj_model_gru, cj_model_rnn, cj_model_gpt, cj_model_seq2seq, cj_model_gcn;

static const struct model_case {
    const cj_model *model;
    int64_t inputs, outputs;
    const char *settings[8];
} cases[] = {
    { &cj_model_lstm, 7, 7, { "dim=3", "hidden=4", "dropout=0" } },
    { &cj_model_gru, 7, 7, { "dim=3", "hidden=4", "dropout=0" } },
    { &cj_model_rnn, 7, 7, { "dim=3", "hidden=4", "dropout=0" } },
    { &cj_model_gpt, 7, 7, { "dim=8", "heads=2", "layers=2", "context=6", "dropout=0" } },
    { &cj_model_seq2seq, 8, 7, { "dim=4", "hidden=3", "dropout=0" } },
    { &cj_model_gcn, 5, 3, { "hidden=4", "dropout=0" } },
};

/* The path of six nodes that the fixture has. */
static cj_module *build(cj_ctx *c, const struct model_case *k)
{
    enum { N = 6 };
    double q[N * N] = { 0 }, nodes[N * 5], degree[N] = { 2, 3, 3, 3, 3, 2 };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if (abs(i - j) <= 1) q[i * N + j] = 1 / sqrt(degree[i] * degree[j]);
    for (int i = 0; i < N * 5; i++) nodes[i] = i * 7 % 11 + 1;
    cj_csr graph = cj_csr_from_dense(cj_cast(cj_from_f64(c, q, CJ_SHAPE(N, N)), CJ_F32));
    cj_settings *s = cj_settings_new(c, k->model);
    for (int i = 0; k->settings[i]; i++) assert_true(cj_settings_parse(s, k->settings[i]));
    cj_options options = cj_settings_options(s);
    cj_model_data d = {
        .inputs = k->inputs, .outputs = k->outputs, .graph = &graph, .nodes = cj_cast(cj_from_f64(c, nodes, CJ_SHAPE(N, 5)), CJ_F32)
    };
    return k->model->build(c, &d, &options);
}

static cj_tensor *loss_of(const cj_model *model, cj_module *m, cj_tensor *x, cj_tensor *y)
{
    return model->loss ? model->loss(m, x, y) : cj_task_loss(model->task, cj_forward(m, x), y);
}

/* Ten steps of SGD with momentum; their losses. */
static cj_tensor *train(cj_ctx *c, const cj_model *model, cj_module *m, cj_tensor *x, cj_tensor *y)
{
    cj_optim *o = cj_sgd(cj_module_params(m), &(cj_sgd_opts){ .lr = 0.1, .momentum = 0.9 });
    float losses[10];
    for (int i = 0; i < 10; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *loss = loss_of(model, m, x, y);
        losses[i] = (float)cj_item(loss);
        cj_minimise(o, loss);
        cj_scope_close(s);
    }
    return cj_from_f32(c, losses, CJ_SHAPE(10));
}

static void zoo(void **state)
{
    (void)state, (void)run_cases, (void)sequence;
    wrong = 0;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    FILE *f = fixture("zoo_seq.txt");
    static char line[MAX_LINE];
    static values v;
    const struct model_case *k = NULL;
    cj_module *m = NULL;
    cj_tensor *x = NULL, *y = NULL, *grad[64] = { 0 };
    int number = 0, models = 0, states = 0, slopes = 0;
    char name[64] = "", what[128];
    while (fgets(line, sizeof line, f)) {
        number++;
        char word[16];
        int skip = 0;
        if (sscanf(line, "%15s %n", word, &skip) != 1) continue;
        if (strcmp(word, "model") == 0) {
            k = &cases[models++];
            assert_int_equal(strncmp(line + skip, k->model->name, strlen(k->model->name)), 0);
            m = build(c, k);
            if (!m) fail_msg("%s: %s", k->model->name, cj_message(c));
            states = slopes = 0;
            continue;
        }
        if (strcmp(word, "name") == 0) {
            assert_int_equal(sscanf(line + skip, "%63s", name), 1);
            continue;
        }
        if (strcmp(word, "end") == 0) continue;
        read_values(line + skip, &v);
        cj_params *p = cj_module_params(m);
        cj_tensor *param = cj_params_find(p, name);
        snprintf(what, sizeof what, "%s, %s of %s", k->model->name, word, name);
        if (strcmp(word, "state") == 0) {
            if (!param) fail_msg("%s has no %s", k->model->name, name);
            bool was = cj_no_grad(c);
            assert_int_equal(cj_numel(param), v.n);
            cj_assign_(param, tensor_of(c, &v));
            cj_grad_mode(c, was);
            states++;
        } else if (strcmp(word, "x") == 0) {
            x = tensor_of(c, &v);
            assert_int_equal(states, cj_params_count(p));
        } else if (strcmp(word, "y") == 0) {
            y = tensor_of(c, &v);
        } else if (strcmp(word, "out") == 0) {
            expect(cj_forward(m, x), &v, 1e-5, number, what);
        } else if (strcmp(word, "loss") == 0) {
            cj_tensor *leaf[64], *loss = loss_of(k->model, m, x, y);
            expect(loss, &v, 1e-5, number, what);
            for (int i = 0; i < cj_params_count(p); i++) leaf[i] = cj_params_at(p, i);
            cj_grad(loss, leaf, cj_params_count(p), grad, NULL);
        } else if (strcmp(word, "slope") == 0) {
            for (int i = 0; i < cj_params_count(p); i++)
                if (cj_params_at(p, i) == param) expect(grad[i], &v, 1e-5, number, what), slopes++;
        } else if (strcmp(word, "losses") == 0) {
            assert_int_equal(slopes, cj_params_count(p));
            expect(train(c, k->model, m, x, y), &v, 2e-5, number, what);
        } else {
            assert_string_equal(word, "after");
            expect(param, &v, 5e-5, number, what);
        }
        if (!cj_ok(c)) fail_msg("%s: %s", what, cj_message(c));
    }
    fclose(f);
    cj_ctx_free(c);
    assert_int_equal(models, 6);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(zoo) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
