/* What the tests of ONNX share: a network written to a file, and read back as the messages of the format.
 *
 * With $CAJAL_ONNX_OUT the file stays there, with an input and the network's answer beside it (NAME.onnx, NAME.x.npy, NAME.y.npy), for tests/onnx.sh to compare with another
 * runtime's.
 */
#ifndef CJ_TESTS_ONNX_H
#define CJ_TESTS_ONNX_H

#include "files.h"
#include "support.h"

#include <cajal/cajal.h>

#if defined CJ_HAVE_PROTOBUF_C
#include <onnx.pb-c.h>

/* Random values in everything that a module has; variances are positive. */
static void randomise_one(void *user, const char *name, cj_tensor *t)
{
    (void)user;
    if (!cj_dtype_is_float(cj_dtype_of(t))) return;
    cj_tensor *v = cj_mul_scalar(cj_randn(cj_tensor_ctx(t), cj_shape_of(t)), 0.4);
    if (strstr(name, "running_var")) v = cj_add_scalar(cj_abs(v), 0.5);
    cj_assign_(t, cj_cast(v, cj_dtype_of(t)));
}

UNUSED static void randomise(cj_module *m)
{
    cj_ctx *c = cj_module_ctx(m);
    bool was = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    cj_module_state(m, randomise_one, NULL);
    cj_scope_close(s);
    cj_grad_mode(c, was);
}

/* Writes the network for inputs like x, several examples; what it says of x goes beside the file for others to compare.  The path, in a buffer. */
UNUSED static const char *export_network(cj_module *m, cj_tensor *x, const char *name, cj_onnx_summary *what)
{
    static char path[300];
    char beside[320];
    const char *out = getenv("CAJAL_ONNX_OUT");
    cj_ctx *c = cj_module_ctx(m);
    snprintf(path, sizeof path, "%s/%s.onnx", out ? out : folder, name);
    const bool training = cj_module_training(m);
    if (!cj_onnx_save(m, x, path, .name = name, .summary = what)) fail_msg("%s: %s", name, cj_message(c));
    assert_true(cj_module_training(m) == training);
    if (out) {
        cj_scope s = cj_scope_open(c);
        bool was = cj_no_grad(c);
        cj_module_train(m, false);
        cj_tensor *y = cj_forward(m, x);
        cj_module_train(m, training);
        snprintf(beside, sizeof beside, "%s/%s.x.npy", out, name);
        cj_npy_save(x, beside);
        snprintf(beside, sizeof beside, "%s/%s.y.npy", out, name);
        cj_npy_save(y, beside);
        cj_grad_mode(c, was);
        cj_scope_close(s);
    }
    assert_ok(c);
    return path;
}

/* The file as a message: cj__onnx__model__free_unpacked when done. */
UNUSED static Cj__Onnx__Model *read_model(const char *path)
{
    size_t n;
    unsigned char *bytes = read_all(path, &n);
    Cj__Onnx__Model *model = cj__onnx__model__unpack(NULL, n, bytes);
    free(bytes);
    assert_non_null(model);
    return model;
}

/* Types of the nodes, with blanks between. */
UNUSED static const char *node_types(const Cj__Onnx__Model *m)
{
    static char text[4096];
    text[0] = 0;
    for (size_t i = 0; i < m->graph->n_node; i++) {
        assert_true(strlen(text) + 64 < sizeof text);
        sprintf(text + strlen(text), "%s%s", i ? " " : "", m->graph->node[i]->op_type);
    }
    return text;
}

/* Every node reads what is there before it; every name is made once. */
UNUSED static void check_order(const Cj__Onnx__Model *m)
{
    const Cj__Onnx__Graph *g = m->graph;
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t j = 0; j < g->node[i]->n_input; j++) {
            const char *name = g->node[i]->input[j];
            int makers = !*name || strcmp(name, g->input[0]->name) == 0;
            for (size_t k = 0; k < g->n_initializer; k++) makers += strcmp(g->initializer[k]->name, name) == 0;
            for (size_t k = 0; k < i; k++)
                for (size_t l = 0; l < g->node[k]->n_output; l++) makers += strcmp(g->node[k]->output[l], name) == 0;
            if (makers != 1) fail_msg("%s of %s has %d makers", name, g->node[i]->name, makers);
        }
}

#endif
#endif
