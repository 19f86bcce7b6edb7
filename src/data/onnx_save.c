/* Writing a module's forward pass as an ONNX model (onnx.h).
 *
 * The pass is recorded twice, for 3 and for 5 examples: sizes that grow with them are the batch, and the file is good for any number of examples.  Where something else
 * depends on their number (a statistic over the batch, say), the file is written for as many as the example has.
 */
#include "data/onnx.h"

#if defined CJ_HAVE_PROTOBUF_C
#include "cajal/grad.h"
#include "cajal/nn.h"

static const char op[] = "cj_onnx_save";

/* Parameters and buffers of a module: what the file calls by their names. */
typedef struct state {
    cj_onnx *o;
    cj_named *item;
    cj_tensor **tensor;
    int n, room;
} state;

static void count_state(void *user, const char *name, cj_tensor *t) { (void)name, (void)t, ++*(int *)user; }

static void take_state(void *user, const char *name, cj_tensor *t)
{
    state *s = user;
    if (s->n == s->room) return;
    const char *copy = cj__onnx_text(s->o, "%s", name);
    if (!copy) return;
    s->tensor[s->n] = t;
    s->item[s->n++] = (cj_named){ copy, t };
}

static bool collect_state(cj_onnx *o, cj_module *m, state *s)
{
    *s = (state){ .o = o };
    cj_module_state(m, count_state, &s->room);
    s->item = cj__onnx_alloc(o, (size_t)s->room * sizeof *s->item);
    s->tensor = cj__onnx_alloc(o, (size_t)s->room * sizeof *s->tensor);
    if (!s->item || !s->tensor) return false;
    cj_module_state(m, take_state, s);
    o->state = s->item;
    return !o->ctx->error && cj__named_check(o->ctx, op, s->item, s->n);
}

/* ---- the graph ---------------------------------------------------------------------------------------------------------------------------------------- */

/* Did both recordings make the same calls on the same values? */
static bool alike(cj_onnx *o)
{
    const cj_recording *a = o->a, *b = o->b;
    bool same = a->calls == b->calls && a->values == b->values && a->output == b->output;
    for (int i = 0; i < a->values && same; i++)
        same = a->value[i].kind == b->value[i].kind && a->value[i].index == b->value[i].index &&
               a->value[i].tensor->ndim == b->value[i].tensor->ndim && a->value[i].tensor->dtype == b->value[i].tensor->dtype;
    for (int i = 0; i < a->calls && same; i++) {
        const cj_recorded *x = &a->call[i], *y = &b->call[i];
        same = x->op == y->op && x->nin == y->nin && memcmp(x->in, y->in, (size_t)x->nin * sizeof(int)) == 0 &&
               memcmp(x->out, y->out, (size_t)x->nout * sizeof(int)) == 0;
    }
    return same || cj__onnx_bound(o, "the network makes other calls where there are more examples");
}

/* Which calls the result needs. */
static bool find_live(cj_onnx *o)
{
    const cj_recording *a = o->a;
    bool *needed = cj__onnx_alloc(o, (size_t)a->values);
    o->live = cj__onnx_alloc(o, (size_t)a->calls);
    o->done = cj__onnx_alloc(o, (size_t)a->calls);
    o->name = cj__onnx_alloc(o, (size_t)a->values * sizeof *o->name);
    if (!needed || !o->live || !o->done || !o->name) return false;
    needed[a->output] = true;
    for (int i = a->calls - 1; i >= 0; i--) {
        const cj_recorded *k = &a->call[i];
        for (int j = 0; j < k->nout; j++) o->live[i] |= needed[k->out[j]] && a->value[k->out[j]].index == i;
        for (int j = 0; o->live[i] && j < k->nin; j++) needed[k->in[j]] = true;
    }
    return true;
}

/* The result under the name that was asked for. */
static bool name_result(cj_onnx *o, const char *output)
{
    int made = 0;
    o->call = NULL;
    const char *was = cj__onnx_name(o, o->a->output);
    if (!was) return false;
    for (int i = 0; i < o->nodes; i++) {
        Cj__Onnx__Node *n = o->node[i];
        for (size_t j = 0; j < n->n_output; j++)
            if (n->output[j] == was) n->output[j] = (char *)output, made++;
        for (size_t j = 0; j < n->n_input; j++)
            if (n->input[j] == was && made) n->input[j] = (char *)output;
    }
    if (made) return true;
    Cj__Onnx__Node *n = cj__onnx_node(o, "Identity", 1, &was);
    if (n) n->output[0] = (char *)output;
    return n != NULL;
}

static bool is_read(const cj_onnx *o, const char *name, int from)
{
    for (int i = from; i < o->nodes; i++)
        for (size_t j = 0; j < o->node[i]->n_input; j++)
            if (o->node[i]->input[j] == name) return true;
    return false;
}

/* Nodes and constants whose results nobody reads go: what an operator took in of the one before. */
static void sweep(cj_onnx *o, const char *output)
{
    int last = o->nodes;
    Cj__Onnx__Node **node = o->node;
    for (int i = o->nodes - 1; i >= 0; i--) { /* those that stay gather at the end */
        bool read = false;
        for (size_t j = 0; j < node[i]->n_output && !read; j++) {
            read = node[i]->output[j] == output;
            for (int k = last; k < o->nodes && !read; k++)
                for (size_t l = 0; l < node[k]->n_input && !read; l++) read = node[k]->input[l] == node[i]->output[j];
        }
        if (read) node[--last] = node[i];
    }
    o->nodes -= last;
    memmove(node, node + last, (size_t)o->nodes * sizeof *node);
    int kept = 0;
    for (int i = 0; i < o->tensors; i++)
        if (is_read(o, o->tensor[i]->name, 0)) o->tensor[kept++] = o->tensor[i];
    o->tensors = kept;
}

static bool build(cj_onnx *o, const char *output)
{
    if ((o->b && !alike(o)) || !find_live(o)) return false;
    for (int i = 0; i < o->a->calls; i++)
        if (o->live[i] && !o->done[i] && !cj__onnx_convert_call(o, &o->a->call[i], o->b ? &o->b->call[i] : NULL)) return false;
    if (!name_result(o, output)) return false;
    sweep(o, output);
    return true;
}

/* ---- the file ------------------------------------------------------------------------------------------------------------------------------------------ */

static Cj__Onnx__ValueInfo *value_info(cj_onnx *o, int value, const char *name)
{
    const cj_tensor *t = cj__onnx_tensor(o, value);
    Cj__Onnx__ValueInfo *v = cj__onnx_alloc(o, sizeof *v);
    Cj__Onnx__Type *type = cj__onnx_alloc(o, sizeof *type);
    Cj__Onnx__Type__OfTensor *of = cj__onnx_alloc(o, sizeof *of);
    Cj__Onnx__Shape *shape = cj__onnx_alloc(o, sizeof *shape);
    if (!v || !type || !of || !shape) return NULL;
    cj__onnx__value_info__init(v);
    cj__onnx__type__init(type);
    cj__onnx__type__of_tensor__init(of);
    cj__onnx__shape__init(shape);
    v->name = (char *)name;
    v->type = type;
    type->tensor_type = of;
    of->has_elem_type = true;
    of->elem_type = cj__onnx_dtype((cj_dtype)t->dtype);
    of->shape = shape;
    shape->dim = cj__onnx_alloc(o, t->ndim * sizeof *shape->dim);
    if (!shape->dim) return NULL;
    for (int d = 0; d < t->ndim; d++) {
        Cj__Onnx__Shape__Dimension *dim = cj__onnx_alloc(o, sizeof *dim);
        cj_onnx_size size;
        if (!dim || !cj__onnx_size_of(o, value, d, &size)) return NULL;
        cj__onnx__shape__dimension__init(dim);
        if (size.k) dim->dim_param = (char *)(size.k == 1 ? "batch" : cj__onnx_text(o, "batch_%lld", (long long)size.k));
        else dim->has_dim_value = true, dim->dim_value = size.n;
        shape->dim[shape->n_dim++] = dim;
    }
    return v;
}

/* The initialiser of a parameter; its bytes are the parameter's own. */
static Cj__Onnx__Tensor *initialiser(cj_onnx *o, const cj_named *item)
{
    const cj_tensor *t = item->tensor;
    if (!cj__contiguous(t)) return cj__error(o->ctx, CJ_EVALUE, "%s: '%s' is not stored row by row", op, item->name), NULL;
    Cj__Onnx__Tensor *p = cj__onnx_alloc(o, sizeof *p);
    if (!p) return NULL;
    cj__onnx__tensor__init(p);
    p->name = (char *)item->name;
    if (!(p->dims = cj__onnx_alloc(o, t->ndim * sizeof *p->dims))) return NULL;
    memcpy(p->dims, t->shape, t->ndim * sizeof *p->dims);
    p->n_dims = t->ndim;
    p->has_data_type = p->has_raw_data = true;
    p->data_type = cj__onnx_dtype((cj_dtype)t->dtype);
    p->raw_data = (ProtobufCBinaryData){ (size_t)t->numel * cj_dtype_size((cj_dtype)t->dtype), (uint8_t *)t->data };
    return p;
}

typedef struct sink {
    ProtobufCBuffer base;
    cj_writer *w;
    bool ok;
} sink;

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes)
{
    sink *s = (sink *)buffer;
    s->ok = s->ok && cj__writer_put(s->w, bytes, n);
}

static bool write_model(cj_onnx *o, const state *s, const char *path, const cj_onnx_opts *opts)
{
    cj_ctx *c = o->ctx;
    Cj__Onnx__Model model = CJ__ONNX__MODEL__INIT;
    Cj__Onnx__Graph graph = CJ__ONNX__GRAPH__INIT;
    Cj__Onnx__OperatorSet set = CJ__ONNX__OPERATOR_SET__INIT;
    Cj__Onnx__ValueInfo *in = value_info(o, 0, o->input), *out = value_info(o, o->a->output, opts->output);
    graph.initializer = cj__onnx_alloc(o, (size_t)(s->n + o->tensors) * sizeof *graph.initializer);
    if (!in || !out || !graph.initializer) return false;
    for (int i = 0; i < s->n; i++)
        if (!(graph.initializer[graph.n_initializer++] = initialiser(o, &s->item[i]))) return false;
    for (int i = 0; i < o->tensors; i++) graph.initializer[graph.n_initializer++] = o->tensor[i];
    graph.name = (char *)opts->name;
    graph.node = o->node;
    graph.n_node = (size_t)o->nodes;
    graph.input = &in;
    graph.output = &out;
    graph.n_input = graph.n_output = 1;
    set.domain = (char *)"";
    set.has_version = model.has_ir_version = true;
    set.version = CJ_ONNX_OPSET;
    model.ir_version = CJ_ONNX_IR;
    model.producer_name = (char *)"cajal";
    model.producer_version = (char *)cj_version();
    model.graph = &graph;
    model.opset_import = &(Cj__Onnx__OperatorSet *){ &set };
    model.n_opset_import = 1;
    const size_t bytes = cj__onnx__model__get_packed_size(&model);
    if (bytes > INT32_MAX)
        return cj__file_error(c, op, path,
                              "a model of at most 2 GiB was expected, which is the most that the format holds, one of %zu bytes was found",
                              bytes);
    cj_writer w;
    if (!cj__writer_open(&w, c, op, path)) return false;
    sink k = { { append }, &w, true };
    cj__onnx__model__pack_to_buffer(&model, &k.base);
    return cj__writer_close(&w, k.ok);
}

/* ---- what users call -------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *forward(void *user, cj_tensor *x) { return cj_forward(user, x); }

/* n rows: those of x, again and again. */
static cj_tensor *rows(cj_tensor *x, int64_t n)
{
    int64_t index[8];
    for (int64_t i = 0; i < n; i++) index[i] = i % x->shape[0];
    return cj_index_select(x, 0, cj_from_i64(x->ctx, index, CJ_SHAPE(n)));
}

/* Which modules of the tree are in training mode, in the order of a walk; put: sets them again, each after the module around it. */
static void modes(cj_module *m, bool *training, int *n, bool put)
{
    if (training && put) cj_module_train(m, training[*n]);
    else if (training) training[*n] = cj_module_training(m);
    ++*n;
    for (int i = 0; i < cj_module_children(m); i++) modes(cj_module_child(m, i), training, n, put);
}

/* One try, for any batch (a and b differ) or for that of a; *bound: it has to be fixed. */
static bool save(cj_module *m, cj_tensor *a, cj_tensor *b, const char *path, const cj_onnx_opts *opts, char *bound)
{
    cj_ctx *c = a->ctx;
    cj_recording first = { 0 }, second = { 0 };
    cj_onnx o = {
        .ctx = c, .a = &first, .b = b ? &second : NULL, .batch_a = a->shape[0], .batch_b = b ? b->shape[0] : 0, .input = opts->input
    };
    state s;
    bool ok = collect_state(&o, m, &s) && cj__record(&first, c, forward, m, a, s.tensor, s.n, cj__onnx_whole) &&
              (!b || cj__record(&second, c, forward, m, b, s.tensor, s.n, cj__onnx_whole));
    for (int i = 0; ok && i < s.n; i++)
        if (strcmp(s.item[i].name, opts->input) == 0 || strcmp(s.item[i].name, opts->output) == 0)
            ok = cj__error(c, CJ_EVALUE, "%s: '%s' is the name of a parameter; call the input or output otherwise", op, s.item[i].name);
    ok = ok && build(&o, opts->output) && write_model(&o, &s, path, opts);
    if (ok && opts->summary) *opts->summary = (cj_onnx_summary){ .nodes = o.nodes, .tensors = s.n, .any_batch = b != NULL };
    snprintf(bound, sizeof o.bound, "%s", o.bound);
    cj__recording_free(&first);
    cj__recording_free(&second);
    cj__region_free(c, &o.region);
    return ok;
}

bool cj_onnx_save(cj_module *m, cj_tensor *x, const char *path, const cj_onnx_opts *opts)
{
    if (!m) return false;
    cj_ctx *c = cj_module_ctx(m);
    cj_onnx_opts with = opts ? *opts : (cj_onnx_opts){ 0 };
    if (!with.name) with.name = "cajal";
    if (!with.input) with.input = "input";
    if (!with.output) with.output = "output";
    if (!cj__cancel_check(c) || !cj__usable(c, op, 0, x)) return false;
    if (x->ndim < 1 || x->shape[0] < 1)
        return cj__error(c, CJ_ESHAPE, "%s: an example of the input, [examples, ..], was expected, %s was found", op, cj__tensor_text(x));
    if (c->backend) return cj__error(c, CJ_EDEVICE, "%s: a module on the CPU was expected, this one is on %s", op, c->device);
    if (strcmp(with.input, with.output) == 0) return cj__error(c, CJ_EVALUE, "%s: input and output are both called '%s'", op, with.input);
    int modules = 0, n = 0;
    modes(m, NULL, &modules, false);
    bool *training = cj__alloc(c, (size_t)modules);
    if (!training) return false;
    modes(m, training, &n, false);
    cj_module_train(m, false);
    cj_scope s = cj_scope_open(c);
    char bound[sizeof((cj_onnx *)0)->bound] = "";
    bool ok = !with.fixed_batch && save(m, rows(x, 3), rows(x, 5), path, &with, bound);
    if (!ok && !c->error && (with.fixed_batch || *bound)) {
        char why[sizeof bound];
        memcpy(why, bound, sizeof why);
        ok = save(m, x, NULL, path, &with, bound);
        if (ok && with.summary) snprintf(with.summary->why, sizeof with.summary->why, "%s", why);
    }
    cj_scope_close(s);
    modes(m, training, &(int){ 0 }, true);
    cj__free(c, training, (size_t)modules);
    return ok;
}

#endif
