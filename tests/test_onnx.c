/* .onnx: every model of the zoo as a graph (names, shapes, bits, nodes), there and back, lying and damaged files, no space, no memory.  tests/onnx.sh runs the same files elsewhere. */
#include "onnx.h"
#include "zoo.h"

#if defined CJ_HAVE_PROTOBUF_C

extern const cj_model cj_model_mlp, cj_model_softmax, cj_model_logistic, cj_model_ridge, cj_model_linear, cj_model_lasso, cj_model_glm,
    cj_model_lenet5, cj_model_resnet, cj_model_gpt, cj_model_vae, cj_model_ddpm, cj_model_lstm, cj_model_gru, cj_model_rnn, cj_model_dcgan,
    cj_model_rbm, cj_model_gcn, cj_model_seq2seq;

TEST_CONTEXT(.threads = 1, .seed = 17);

enum { B = 4, PIXELS = 64, SYMBOLS = 11, TIMES = 9 };

/* ---- the zoo ---------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct subject {
    const cj_model *model;
    const char *settings[5];
    cj_model_data data;
    bool symbols;      /* the input is i64 [B, T] */
    const char *nodes; /* what the graph must be; NULL: not looked at */
} subject;

#define IMAGES                                                                                                                             \
    {                                                                                                                                      \
        .inputs = PIXELS, .outputs = 10, .channels = 1, .height = 8, .width = 8                                                            \
    }
#define TEXT                                                                                                                               \
    {                                                                                                                                      \
        .inputs = SYMBOLS, .outputs = SYMBOLS                                                                                              \
    }
static const subject zoo[] = {
    { &cj_model_mlp, { "hidden=16" }, { .inputs = 20, .outputs = 3 }, false, "Gemm Relu Gemm Relu Gemm" },
    { &cj_model_softmax, { NULL }, { .inputs = 20, .outputs = 3 }, false, "Gemm" },
    { &cj_model_logistic, { NULL }, { .inputs = 20, .outputs = 2 }, false, "Gemm Shape Concat Expand Concat" },
    { &cj_model_linear, { NULL }, { .inputs = 20, .outputs = 1 }, false, "Gemm" },
    { &cj_model_ridge, { NULL }, { .inputs = 20, .outputs = 1 }, false, "Gemm" },
    { &cj_model_lasso, { NULL }, { .inputs = 20, .outputs = 1 }, false, "Gemm" },
    { &cj_model_glm, { "family=poisson" }, { .inputs = 20, .outputs = 1 }, false, NULL },
    { &cj_model_lenet5, { NULL }, IMAGES, false, "Reshape Conv MaxPool Relu Conv MaxPool Relu Reshape Gemm Relu Gemm Relu Gemm" },
    { &cj_model_resnet, { "depth=8", "width=4" }, IMAGES, false, NULL },
    { &cj_model_vae, { "hidden=16", "latent=3" }, IMAGES, false, "Gemm Relu Gemm Gemm Relu Gemm Sigmoid" },
    { &cj_model_dcgan,
      { "width=4", "latent=6" },
      IMAGES,
      false,
      "Mul Add Reshape Conv LeakyRelu Conv BatchNormalization LeakyRelu Reshape Gemm" },
    { &cj_model_rbm, { "hidden=16" }, IMAGES, false, NULL },
    { &cj_model_ddpm, { "hidden=16", "diffusion=20" }, { .inputs = 2, .outputs = 2 }, false, NULL },
    { &cj_model_gpt, { "dim=16", "heads=4", "layers=2", "context=9" }, TEXT, true, NULL },
    { &cj_model_lstm, { "dim=6", "hidden=10", "layers=2" }, TEXT, true, NULL },
    { &cj_model_gru, { "dim=6", "hidden=10", "layers=2" }, TEXT, true, NULL },
    { &cj_model_rnn, { "dim=6", "hidden=10", "layers=2" }, TEXT, true, NULL },
};
enum { SUBJECTS = sizeof zoo / sizeof *zoo };

static cj_module *network(const subject *s) { return zoo_build(c, s->model, s->data, s->settings); }
static cj_tensor *examples(const subject *s)
{
    return s->symbols ? cj_randint(c, 0, SYMBOLS, CJ_SHAPE(B, TIMES)) : cj_rand(c, CJ_SHAPE(B, s->data.inputs));
}

/* The initialiser of a tensor has its name, type, shape and bits. */
static void is_initialiser(void *user, const char *name, cj_tensor *t)
{
    const Cj__Onnx__Graph *g = user;
    static const int type[CJ_DTYPES] = { [CJ_F32] = 1, [CJ_I64] = 7, [CJ_F64] = 11 };
    for (size_t i = 0; i < g->n_initializer; i++) {
        const Cj__Onnx__Tensor *p = g->initializer[i];
        if (strcmp(p->name, name) != 0) continue;
        assert_int_equal(p->data_type, type[cj_dtype_of(t)]);
        assert_int_equal(p->n_dims, cj_ndim(t));
        for (int d = 0; d < cj_ndim(t); d++) assert_int_equal(p->dims[d], cj_size(t, d));
        assert_int_equal(p->raw_data.len, (size_t)cj_numel(t) * cj_dtype_size(cj_dtype_of(t)));
        assert_memory_equal(p->raw_data.data, t->data, p->raw_data.len);
        return;
    }
    fail_msg("no initialiser is called %s", name);
}

/* Every parameter is read by a node, but for those that the answer does not depend on: a file that leaves out a bias looks sound otherwise. */
static void all_read(const char *model, const Cj__Onnx__Graph *g)
{
    static const char *const unread[][2] = {
        { "vae", "fc22." }, { "dcgan", "generator." }, { "ddpm", "betas" }, { "ddpm", "alphas_cumprod" }
    };
    for (size_t i = 0; i < g->n_initializer; i++) {
        const char *name = g->initializer[i]->name;
        int readers = strstr(name, "num_batches_tracked") != NULL;
        for (size_t k = 0; k < g->n_node; k++)
            for (size_t j = 0; j < g->node[k]->n_input; j++) readers += strcmp(g->node[k]->input[j], name) == 0;
        for (size_t k = 0; k < sizeof unread / sizeof unread[0]; k++)
            readers += strcmp(model, unread[k][0]) == 0 && strncmp(name, unread[k][1], strlen(unread[k][1])) == 0;
        if (!readers) fail_msg("%s: nobody reads %s", model, name);
    }
}

static void check_value(const Cj__Onnx__ValueInfo *v, const char *name, int type, const cj_tensor *t)
{
    const Cj__Onnx__Shape *s = v->type->tensor_type->shape;
    assert_string_equal(v->name, name);
    assert_int_equal(v->type->tensor_type->elem_type, type);
    assert_int_equal(s->n_dim, cj_ndim(t));
    assert_string_equal(s->dim[0]->dim_param, "batch");
    for (int d = 1; d < cj_ndim(t); d++) assert_int_equal(s->dim[d]->dim_value, cj_size(t, d));
}

static void every_model(void **state)
{
    (void)state;
    for (int i = 0; i < SUBJECTS; i++) {
        cj_scope s = cj_scope_open(c);
        cj_module *m = network(&zoo[i]);
        randomise(m);
        cj_onnx_summary what;
        cj_tensor *x = examples(&zoo[i]);
        cj_rng_state before = cj_rng_get(c);
        const char *path = export_network(m, x, zoo[i].model->name, &what);
        cj_rng_state after = cj_rng_get(c);
        assert_memory_equal(&before, &after, sizeof before); /* nothing was drawn */
        if (!what.any_batch) fail_msg("%s has a fixed batch: %s", zoo[i].model->name, what.why);
        Cj__Onnx__Model *model = read_model(path);
        assert_int_equal(model->ir_version, 8);
        assert_int_equal(model->n_opset_import, 1);
        assert_int_equal(model->opset_import[0]->version, 17);
        assert_string_equal(model->producer_name, "cajal");
        assert_string_equal(model->graph->name, zoo[i].model->name);
        assert_int_equal(model->graph->n_node, what.nodes);
        assert_int_equal(cj_module_state(m, is_initialiser, model->graph), what.tensors);
        check_order(model);
        all_read(zoo[i].model->name, model->graph);
        bool was = cj_no_grad(c);
        cj_module_train(m, false);
        cj_tensor *y = cj_forward(m, x);
        cj_grad_mode(c, was);
        check_value(model->graph->input[0], "input", zoo[i].symbols ? 7 : 1, x);
        check_value(model->graph->output[0], "output", 1, y);
        if (zoo[i].nodes) assert_string_equal(node_types(model), zoo[i].nodes);
        cj__onnx__model__free_unpacked(model, NULL);
        cj_scope_close(s);
        assert_ok(c);
    }
}

/* A generator is a part with an input of its own. */
static void a_part(void **state)
{
    (void)state;
    cj_module *m = zoo_build(c, &cj_model_dcgan, (cj_model_data)IMAGES, WITH("width=4", "latent=6"));
    randomise(m);
    cj_onnx_summary what;
    Cj__Onnx__Model *model = read_model(export_network(cj_module_find(m, "generator"), cj_randn(c, CJ_SHAPE(B, 6)), "generator", &what));
    assert_true(what.any_batch);
    assert_string_equal(node_types(model), "Gemm Reshape BatchNormalization Relu ConvTranspose BatchNormalization Relu ConvTranspose Tanh");
    cj__onnx__model__free_unpacked(model, NULL);
}

/* Nodes of a graph: the sparse matrices are dense there. */
static void a_graph(void **state)
{
    (void)state;
    enum { NODES = 12, WORDS = 40 };
    float q[NODES * NODES] = { 0 }, x[NODES * WORDS] = { 0 };
    for (int i = 0; i < NODES; i++)
        for (int d = -1; d <= 1; d++) q[i * NODES + (i + d + NODES) % NODES] = 1.0F / 3;
    for (int i = 0; i < NODES; i++) x[i * WORDS + 3 * i] = x[i * WORDS + i] = 1;
    cj_csr graph = cj_csr_from_dense(cj_from_f32(c, q, CJ_SHAPE(NODES, NODES)));
    cj_module *m =
        zoo_build(c, &cj_model_gcn,
                  (cj_model_data){ .inputs = WORDS, .outputs = 3, .graph = &graph, .nodes = cj_from_f32(c, x, CJ_SHAPE(NODES, WORDS)) },
                  WITH("hidden=5"));
    randomise(m);
    cj_onnx_summary what;
    Cj__Onnx__Model *model = read_model(export_network(m, cj_from_i64(c, (int64_t[]){ 3, 0, 11, 3 }, CJ_SHAPE(4)), "gcn", &what));
    assert_true(what.any_batch);
    assert_string_equal(node_types(model), "Transpose MatMul MatMul Add Relu Gemm MatMul Add Gather");
    cj__onnx__model__free_unpacked(model, NULL);
}

/* ---- there and back ------------------------------------------------------------------------------------------------------------------------------------- */

static void assign_one(void *user, const char *name, cj_tensor *t)
{
    cj_tensor *v = cj_archive_find(user, name);
    assert_non_null(v);
    cj_assign_(t, v);
}

static void there_and_back(void **state)
{
    (void)state;
    for (int i = 0; i < SUBJECTS; i++) {
        cj_scope s = cj_scope_open(c);
        cj_module *m = network(&zoo[i]), *other = network(&zoo[i]);
        randomise(m);
        randomise(other);
        cj_tensor *x = examples(&zoo[i]);
        assert_true(cj_onnx_save(m, x, in_folder("first.onnx")));
        cj_archive *a = cj_onnx_load(c, in_folder("first.onnx"));
        assert_non_null(a);
        bool was = cj_no_grad(c);
        cj_module_state(other, assign_one, a);
        cj_grad_mode(c, was);
        cj_archive_free(a);
        assert_true(cj_onnx_save(other, examples(&zoo[i]), in_folder("second.onnx"))); /* what the example holds is not written */
        size_t n, k;
        unsigned char *first = read_all(in_folder("first.onnx"), &n), *second = read_all(in_folder("second.onnx"), &k);
        assert_int_equal(n, k);
        assert_memory_equal(first, second, n);
        free(first), free(second);
        cj_scope_close(s);
    }
    assert_ok(c);
}

/* ---- what is refused --------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct holder {
    cj_tensor *(*f)(cj_module *m, cj_tensor *x);
} holder;
static cj_tensor *held(cj_module *m, void *self, cj_tensor *x) { return ((holder *)self)->f(m, x); }
static const cj_module_type holder_type = { "Holder", held, NULL };
static cj_module *holding(cj_tensor *(*f)(cj_module *m, cj_tensor *x))
{
    cj_module *m = cj_module_new(c, &holder_type, sizeof(holder));
    ((holder *)cj_module_self(m))->f = f;
    return m;
}

static cj_tensor *draws(cj_module *m, cj_tensor *x) { return cj_add(x, cj_randn(cj_module_ctx(m), cj_shape_of(x))); }
static cj_tensor *no_counterpart(cj_module *m, cj_tensor *x) { return (void)m, cj_lgamma(x); }
static cj_tensor *shares(cj_module *m, cj_tensor *x) { return (void)m, cj_mul_scalar(x, 1 / (double)cj_size(x, 0)); }
static cj_tensor *twice(cj_module *m, cj_tensor *x) { return (void)m, cj_reshape(cj_cat(CJ_TENSORS(x, x), 2, 0), CJ_SHAPE(-1)); }
static cj_tensor *plus_one(cj_module *m, cj_tensor *x) { return (void)m, cj_cat(CJ_TENSORS(x, cj_slice(x, 0, 0, 1, 1)), 2, 0); }
static cj_tensor *itself(cj_module *m, cj_tensor *x) { return (void)m, x; }
static cj_tensor *nothing(cj_module *m, cj_tensor *x) { return (void)x, cj_ones(cj_module_ctx(m), CJ_SHAPE(3), CJ_F32); }

static cj_tensor *nested(cj_module *m, cj_tensor *x)
{
    cj_onnx_save(m, x, in_folder("nested.onnx"));
    return x;
}

static void refused(void **state)
{
    (void)state;
    cj_tensor *x = cj_rand(c, CJ_SHAPE(B, 6));
    const char *path = in_folder("refused.onnx");
    assert_refused(CJ_EVALUE, "normal has no ONNX form: it draws", cj_onnx_save(holding(draws), x, path));
    assert_refused(CJ_EVALUE, "lgamma has no ONNX form: there is no such operator", cj_onnx_save(holding(no_counterpart), x, path));
    cj_module *m = zoo_build(c, &cj_model_seq2seq, (cj_model_data)TEXT, WITH("dim=4", "hidden=4"));
    assert_refused(CJ_EVALUE, "takes more than one input", cj_onnx_save(m, x, path));
    m = zoo_build(c, &cj_model_mlp, (cj_model_data){ .inputs = 6, .outputs = 2 }, WITH("hidden=4"));
    assert_refused(CJ_ESHAPE, "an example of the input, [examples, ..], was expected, [] was found",
                   cj_onnx_save(m, cj_ones(c, CJ_SCALAR, CJ_F32), path));
    assert_refused(CJ_ESHAPE, "was expected, [0, 6] was found", cj_onnx_save(m, cj_ones(c, CJ_SHAPE(0, 6), CJ_F32), path));
    assert_refused(CJ_EVALUE, "input and output are both called 'x'", cj_onnx_save(m, x, path, .input = "x", .output = "x"));
    assert_refused(CJ_EVALUE, "'0.weight' is the name of a parameter", cj_onnx_save(m, x, path, .input = "0.weight"));
    assert_refused(CJ_EFILE, "No such file or directory", cj_onnx_save(m, x, in_folder("none/x.onnx")));
    assert_refused(CJ_ESTATE, "called while a step is recorded or captured", cj_onnx_save(holding(nested), x, path));
    assert_false(exists(path));
    assert_true(cj_module_training(m));
    assert_false(cj_onnx_save(NULL, x, path));
}

/* Each module is in its mode again afterwards. */
static void modes_stay(void **state)
{
    (void)state;
    cj_module *m = zoo_build(c, &cj_model_resnet, (cj_model_data)IMAGES, WITH("depth=8", "width=4"));
    cj_module *frozen = cj_module_find(m, "bn1");
    cj_module_train(frozen, false);
    assert_true(cj_onnx_save(m, cj_zeros(c, CJ_SHAPE(1, PIXELS), CJ_F32), in_folder("modes.onnx")));
    assert_true(cj_module_training(m) && !cj_module_training(frozen) && cj_module_training(cj_module_find(m, "fc")));
}

/* Where the batch matters it is fixed, and the file says so. */
static void batches(void **state)
{
    (void)state;
    cj_tensor *x = cj_rand(c, CJ_SHAPE(B, 6));
    cj_onnx_summary what;
    Cj__Onnx__Model *model = read_model(export_network(holding(shares), x, "fixed", &what));
    assert_false(what.any_batch);
    assert_string_equal(what.why, "mul_scalar has other attributes where there are more examples");
    assert_int_equal(model->graph->input[0]->type->tensor_type->shape->dim[0]->dim_value, B);
    cj__onnx__model__free_unpacked(model, NULL);
    export_network(holding(plus_one), x, "one_more", &what); /* B + 1 is no multiple of B */
    assert_false(what.any_batch);
    assert_non_null(strstr(what.why, "is 4 for 3 examples and 6 for 5"));
    model = read_model(export_network(holding(twice), x, "twice", &what));
    assert_true(what.any_batch);
    assert_string_equal(model->graph->output[0]->type->tensor_type->shape->dim[0]->dim_param, "batch_12");
    cj__onnx__model__free_unpacked(model, NULL);
    assert_true(
        cj_onnx_save(holding(shares), x, in_folder("asked.onnx"), .fixed_batch = true, .summary = &what, .input = "in", .output = "out"));
    assert_string_equal(what.why, "");
    model = read_model(in_folder("asked.onnx"));
    assert_string_equal(model->graph->input[0]->name, "in");
    assert_string_equal(model->graph->node[0]->output[0], "out");
    cj__onnx__model__free_unpacked(model, NULL);
    model = read_model(export_network(holding(itself), x, "itself", &what)); /* no operator at all */
    assert_string_equal(node_types(model), "Identity");
    cj__onnx__model__free_unpacked(model, NULL);
    model = read_model(export_network(holding(nothing), x, "nothing", &what));
    assert_string_equal(node_types(model), "Identity");
    cj__onnx__model__free_unpacked(model, NULL);
    assert_ok(c);
}

/* ---- files ------------------------------------------------------------------------------------------------------------------------------------------------- */

static bool load(cj_ctx *ctx, const char *path)
{
    cj_archive *a = cj_onnx_load(ctx, path);
    for (int i = 0; a && i < a->count; i++) touch(a->item[i].tensor);
    return a != NULL;
}

static bool save_small(cj_ctx *ctx, const char *path)
{
    cj_module *m = zoo_build(ctx, &cj_model_softmax, (cj_model_data){ .inputs = 3, .outputs = 2 }, (const char *const[]){ NULL });
    return cj_ok(ctx) && cj_onnx_save(m, cj_zeros(ctx, CJ_SHAPE(1, 3), CJ_F32), path);
}
static bool save_somewhere(cj_ctx *ctx) { return save_small(ctx, in_folder("memory.onnx")); }
static bool load_somewhere(cj_ctx *ctx) { return load(ctx, in_folder("small.onnx")); }

static void damaged(void **state)
{
    (void)state;
    assert_true(save_small(c, in_folder("small.onnx")));
    damage(load, in_folder("small.onnx"), 3000);
}

static void no_space(void **state)
{
    (void)state;
    full_disk(save_small, 100);
}

static void no_memory(void **state)
{
    (void)state;
    fail_every_allocation(load_somewhere);
    fail_every_allocation(save_somewhere);
}

/* A model with this one initialiser, as a file. */
static void write_with(Cj__Onnx__Tensor *first, Cj__Onnx__Tensor *second)
{
    Cj__Onnx__Tensor *both[] = { first, second };
    Cj__Onnx__Graph graph = CJ__ONNX__GRAPH__INIT;
    Cj__Onnx__OperatorSet set = CJ__ONNX__OPERATOR_SET__INIT;
    Cj__Onnx__Model model = CJ__ONNX__MODEL__INIT;
    graph.initializer = both;
    graph.n_initializer = second ? 2 : 1;
    model.graph = &graph;
    model.opset_import = &(Cj__Onnx__OperatorSet *){ &set };
    model.n_opset_import = 1;
    uint8_t bytes[4096];
    size_t n = cj__onnx__model__get_packed_size(&model);
    assert_true(n <= sizeof bytes);
    cj__onnx__model__pack(&model, bytes);
    write_all(in_folder("made.onnx"), bytes, n);
}

static Cj__Onnx__Tensor tensor(int type, int64_t *dims, size_t n)
{
    Cj__Onnx__Tensor t = CJ__ONNX__TENSOR__INIT;
    t.name = (char *)"w";
    t.has_data_type = true;
    t.data_type = type;
    t.dims = dims;
    t.n_dims = n;
    return t;
}

static double first_of(const char *name)
{
    cj_archive *a = cj_onnx_load(c, in_folder("made.onnx"));
    if (!a) fail_msg("%s", cj_message(c));
    double v = cj_item(cj_select(cj_archive_find(a, name), 0, 0));
    cj_archive_free(a);
    return v;
}

/* Elements in the fields of their type, as other programs write them. */
static void typed_fields(void **state)
{
    (void)state;
    int64_t dims[] = { 2 };
    Cj__Onnx__Tensor t = tensor(CJ__ONNX__TENSOR__DATA_TYPE__FLOAT, dims, 1);
    t.float_data = (float[]){ 1.5F, 2 }, t.n_float_data = 2;
    write_with(&t, NULL);
    assert_true(first_of("w") == 1.5);
    t = tensor(CJ__ONNX__TENSOR__DATA_TYPE__DOUBLE, dims, 1);
    t.double_data = (double[]){ 0.1, 2 }, t.n_double_data = 2;
    write_with(&t, NULL);
    assert_true(first_of("w") == 0.1);
    t = tensor(CJ__ONNX__TENSOR__DATA_TYPE__INT64, dims, 1);
    t.int64_data = (int64_t[]){ -((int64_t)1 << 40), 2 }, t.n_int64_data = 2;
    write_with(&t, NULL);
    assert_true(first_of("w") == -0x1p40);
    static const struct {
        int type;
        int32_t bits;
        double value;
    } small[] = { { CJ__ONNX__TENSOR__DATA_TYPE__INT32, -7, -7 },
                  { CJ__ONNX__TENSOR__DATA_TYPE__UINT8, 255, 255 },
                  { CJ__ONNX__TENSOR__DATA_TYPE__BOOL, 1, 1 },
                  { CJ__ONNX__TENSOR__DATA_TYPE__FLOAT16, 0x3e00, 1.5 },
                  { CJ__ONNX__TENSOR__DATA_TYPE__BFLOAT16, 0x3fc0, 1.5 } };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        t = tensor(small[i].type, dims, 1);
        t.int32_data = (int32_t[]){ small[i].bits, 0 }, t.n_int32_data = 2;
        write_with(&t, NULL);
        assert_true(first_of("w") == small[i].value);
    }
}

#define assert_file(text, ...)                                                                                                             \
    do {                                                                                                                                   \
        write_with(__VA_ARGS__);                                                                                                           \
        assert_null(cj_onnx_load(c, in_folder("made.onnx")));                                                                              \
        assert_error(c, CJ_EFILE, text);                                                                                                   \
        assert_says(c, "made.onnx: at byte ");                                                                                             \
        cj_clear(c);                                                                                                                       \
    } while (0)

static void lies(void **state)
{
    (void)state;
    int64_t dims[CJ_MAX_DIMS + 1] = { 2, 3 };
    Cj__Onnx__Tensor t = tensor(1, dims, 2), u;
    t.has_raw_data = true;
    t.raw_data = (ProtobufCBinaryData){ 20, (uint8_t *)"twenty bytes of data" };
    assert_file("at byte 2: 24 bytes of f32 [2, 3] were expected in tensor 'w', 20 were found", &t, NULL);
    u = t, u.data_type = 8;
    assert_file("was expected of tensor 'w', data type 8 was found", &u, NULL);
    u = t, u.name = NULL;
    assert_file("a name of UTF-8 text was expected for tensor 0, none was found", &u, NULL);
    u = t, u.name = (char *)"\xff";
    assert_file("other bytes was found", &u, NULL);
    u = t, u.has_data_location = true, u.data_location = 1;
    assert_file("elements in this file were expected of tensor 'w', the name of another file was found", &u, NULL);
    u = t, u.n_dims = CJ_MAX_DIMS + 1;
    assert_file("at most 8 dimensions were expected of tensor 'w', 9 were found", &u, NULL);
    int64_t negative[] = { -1 }, huge[] = { (int64_t)1 << 40, (int64_t)1 << 40 };
    u = tensor(1, negative, 1);
    assert_file("sizes from 0 on were expected of tensor 'w', -1 was found", &u, NULL);
    u = tensor(1, huge, 2);
    assert_file("a shape of at most 2 GiB was expected of tensor 'w'", &u, NULL);
    u = tensor(1, huge, 1);
    assert_file("a shape of at most 2 GiB was expected of tensor 'w'", &u, NULL);
    int64_t three[] = { 3 };
    u = tensor(1, three, 1);
    assert_file("3 elements of f32 [3] were expected in tensor 'w', 0 were found", &u, NULL);
    u = tensor(9, three, 1), u.int32_data = (int32_t[]){ 0, 1, 2 }, u.n_int32_data = 3;
    assert_file("numbers from 0 to 1 were expected in tensor 'w', 2 was found", &u, NULL);
    u.data_type = 10, u.int32_data = (int32_t[]){ 0, -1, 2 };
    assert_file("numbers from 0 to 65535 were expected in tensor 'w', -1 was found", &u, NULL);
    u = tensor(9, three, 1), u.int32_data = (int32_t[]){ 0, 1, 1 }, u.n_int32_data = 3;
    assert_file("every name once was expected, 'w' was found twice", &u, &u);
    /* the second one begins behind the first: 2 bytes of the graph, 2 + 2 + 2 + 3 + 14 of it */
    u = tensor(1, three, 1), u.name = (char *)"a", u.has_raw_data = true,
    u.raw_data = (ProtobufCBinaryData){ 12, (uint8_t *)"twelve bytes" };
    assert_file("at byte 25: 24 bytes", &u, &t);
}

static void foreign(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } file[] = {
        { "", 0, "at byte 0: an ONNX model with a graph was expected, an empty file was found" },
        { "\x08\x08", 2, "at byte 0: an ONNX model with a graph was expected, one without was found" },
        { "\x3a\x00", 2, "at byte 2: the version of the operators was expected, the end was found" },
        { "\x3a\x05\x0a", 3, "at byte 1: 5 bytes of a field were expected, 1 were found" },
        { "\x3a\x02\x2a\x04", 4, "at byte 3: 4 bytes of a field were expected, 0 were found" },
        { "\x08\xff", 2, "at byte 1: a number of at most 10 bytes was expected, 1 was found" },
        { "\x0b\x08", 2, "at byte 0: wire type 0, 1, 2 or 5 was expected, 3 was found" },
        { "\x38\x08", 2, "at byte 0: field 'graph' in wire type 2 was expected, type 0 was found" },
        { "\x0a\x01x", 3, "at byte 0: field 'ir_version' in wire type 0 was expected, type 2 was found" },
        { "\x00\x08", 2, "at byte 0: the number of a field was expected, 0 was found" },
        { "\x81\x01\x01", 3, "at byte 2: 8 bytes of a field were expected, 1 were found" },
    };
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        write_all(in_folder("foreign.onnx"), file[i].bytes, file[i].n);
        assert_null(cj_onnx_load(c, in_folder("foreign.onnx")));
        assert_error(c, CJ_EFILE, file[i].says);
        cj_clear(c);
    }
    /* 4 MB of empty messages would be half a gigabyte of structures */
    enum { MANY = 4000000 };
    unsigned char *many = calloc(1, MANY + 16);
    memcpy(many, "\x3a\x80\x92\xf4\x01", 5); /* the graph has MANY bytes */
    for (int i = 0; i < MANY; i += 2) many[5 + i] = 0x2a;
    write_all(in_folder("many.onnx"), many, 5 + MANY);
    free(many);
    cj_memory_reset_peak(c);
    assert_null(cj_onnx_load(c, in_folder("many.onnx")));
    assert_error(c, CJ_EFILE, "the fields of a model of 4000005 bytes were expected, too many small ones were found");
    assert_true(cj_memory_stats(c).peak < (size_t)16 << 20);
    cj_clear(c);
    assert_null(cj_onnx_load(c, in_folder("none.onnx")));
    assert_error(c, CJ_EFILE, "No such file or directory");
    cj_clear(c);
    assert_null(cj_onnx_load(NULL, in_folder("none.onnx")));
}

#else

TEST_CONTEXT(.threads = 1);

/* Without protobuf-c both say what is missing. */
static void missing(void **state)
{
    (void)state;
    assert_null(cj_onnx_load(c, "x.onnx"));
    assert_error(c, CJ_EFILE, "this library was built without protobuf-c (Debian: libprotobuf-c-dev protobuf-c-compiler)");
    cj_clear(c);
    assert_refused(CJ_EFILE, "which ONNX files need", cj_onnx_save(cj_linear(c, 2, 2), cj_zeros(c, CJ_SHAPE(1, 2), CJ_F32), "x.onnx"));
}

#endif

static int both_setups(void **state) { return setup(state) || folder_make(state); }
static int both_teardowns(void **state) { return teardown(state) | folder_remove(state); }

int main(void)
{
    const struct CMUnitTest tests[] = {
#if defined CJ_HAVE_PROTOBUF_C
        cmocka_unit_test(every_model),
        cmocka_unit_test(a_part),
        cmocka_unit_test(a_graph),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(refused),
        cmocka_unit_test(modes_stay),
        cmocka_unit_test(batches),
        cmocka_unit_test(damaged),
        cmocka_unit_test(no_space),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(typed_fields),
        cmocka_unit_test(lies),
        cmocka_unit_test(foreign),
#else
        cmocka_unit_test(missing),
#endif
    };
    return cmocka_run_group_tests(tests, both_setups, both_teardowns);
}
