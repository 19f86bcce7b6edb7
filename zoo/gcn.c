/* gcn: a graph convolutional network, for classes of the nodes of a graph.
 *
 *     Q = D^-1/2 (A + I) D^-1/2      of the graph's adjacency A, with the degrees D of A + I
 *     Z = Q relu(Q X W1ᵀ + b1) W2ᵀ + b2,   logits of a node: its row of Z
 *
 * Kipf & Welling, "Semi-supervised classification with graph convolutional networks", 2017: the few labelled nodes give the loss, all nodes take part in every step.
 * Dropout of the inputs of both layers, and weight decay 5e-4 of the first layer alone, as in the paper.  Rows of features are divided by their sums; where most are
 * zero (words of a text) they are kept as a sparse matrix, whose dropout is that of its entries: zeros stay zero either way.  Parameter names are those of PyTorch
 * Geometric's GCNConv: conv1.lin.weight [hidden, features], conv1.bias, conv2.lin.weight, conv2.bias.
 */
#include <cajal/cajal.h>

static const cj_setting settings[] = {
    { .key = "hidden", .value = 16, .least = 1, .help = "units of the first layer" },
    { .key = "dropout", .value = 0.5, .most = 0.95, .real = true, .help = "share of inputs of each layer silent in a training step" },
    { .key = "decay",
      .value = 5e-4,
      .least = 0,
      .real = true,
      .help = "pull of the first layer's weights to zero: decay/2 times their squares" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "epochs", .value = 200 }, { .key = "batch", .value = 4096 }, /* all labelled nodes in one step */
    { .key = "lr", .value = 0.01 },    { .key = "eval_every", .value = 1 }, { 0 },
};

typedef struct gcn {
    cj_csr graph;                 /* Q */
    cj_tensor *nodes;             /* X [n, features], or */
    cj_csr words;                 /* X as a sparse matrix; nodes is NULL then */
    cj_tensor *w1, *b1, *w2, *b2; /* parameters */
    double dropout, decay;
} gcn;

static cj_tensor *drop(cj_module *m, cj_tensor *x, double p) { return p > 0 ? cj_dropout(x, .p = p, .eval = !cj_module_training(m)) : x; }

/* x: nodes, i64 [B]; result: their logits [B, classes]. */
static cj_tensor *gcn_forward(cj_module *m, void *self, cj_tensor *x)
{
    gcn *g = self;
    cj_tensor *xw = g->nodes ? cj_linear_op(drop(m, g->nodes, g->dropout), g->w1, NULL)
                             : cj_csr_matmul(cj_csr_with_values(g->words, drop(m, g->words.values, g->dropout)), cj_t(g->w1));
    cj_tensor *h = drop(m, cj_relu(cj_add(cj_csr_matmul(g->graph, xw), g->b1)), g->dropout);
    cj_tensor *z = cj_add(cj_csr_matmul(g->graph, cj_linear_op(h, g->w2, NULL)), g->b2);
    return cj_index_select(z, 0, x);
}

static cj_tensor *gcn_loss(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    const gcn *g = cj_module_self(m);
    cj_tensor *loss = cj_cross_entropy(cj_forward(m, x), y);
    if (!cj_module_training(m) || g->decay == 0) return loss;
    return cj_add(loss, cj_mul_scalar(cj_sum(cj_square(g->w1)), g->decay / 2));
}

static void gcn_free(cj_module *m, void *self)
{
    (void)m;
    gcn *g = self;
    cj_csr_release(g->graph);
    cj_release(g->nodes);
    cj_csr_release(g->words);
}
static const cj_module_type gcn_type = { "GCN", gcn_forward, gcn_free };
static const cj_module_type group_type = { "Group", NULL, NULL };

/* conv.lin.weight [out, in] (Glorot's uniform), conv.bias [out] (0) */
static void convolution(cj_module *m, const char *name, int64_t in, int64_t out, cj_tensor **weight, cj_tensor **bias)
{
    cj_ctx *c = cj_module_ctx(m);
    cj_module *conv = cj_module_add(m, name, cj_module_new(c, &group_type, 0));
    cj_module *lin = cj_module_add(conv, "lin", cj_module_new(c, &group_type, 0));
    *weight = cj_module_param(lin, "weight", cj_zeros(c, CJ_SHAPE(out, in), CJ_F32));
    *bias = cj_module_param(conv, "bias", cj_zeros(c, CJ_SHAPE(out), CJ_F32));
    cj_init_xavier_uniform_(*weight, 1);
}

/* Rows divided by their sums (rows of zeros stay), as a sparse matrix where at most an eighth is not zero. */
static void take_features(gcn *g, cj_tensor *x)
{
    cj_tensor *sum = cj_sum(x, .axes = CJ_AXIS(1), .keepdim = true);
    x = cj_div(x, cj_where(cj_eq_scalar(sum, 0), cj_ones_like(sum), sum));
    bool sparse = cj_item(cj_mean(cj_cast(cj_ne_scalar(x, 0), CJ_F32))) <= 0.125;
    if (sparse) g->words = cj_csr_keep(cj_csr_from_dense(x));
    else g->nodes = cj_keep(cj_clone(x));
}

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    if (!d->graph || !d->nodes) {
        cj_fail(c, CJ_EVALUE, "gcn: the data has no graph");
        return NULL;
    }
    cj_module *m = cj_module_new(c, &gcn_type, sizeof(gcn));
    gcn *g = cj_module_self(m);
    if (!g) return NULL;
    int64_t hidden = cj_option_int(o, "hidden");
    g->dropout = cj_option(o, "dropout");
    g->decay = cj_option(o, "decay");
    g->graph = cj_csr_keep(*d->graph);
    bool was = cj_no_grad(c);
    take_features(g, d->nodes);
    cj_grad_mode(c, was);
    convolution(m, "conv1", d->inputs, hidden, &g->w1, &g->b1);
    convolution(m, "conv2", hidden, d->outputs, &g->w2, &g->b2);
    return cj_ok(c) ? m : NULL;
}

const cj_model cj_model_gcn = {
    .name = "gcn",
    .family = "graph",
    .summary = "graph convolutional network (Kipf & Welling 2017)",
    .task = CJ_TASK_NODES,
    .data = "cora",
    .settings = settings,
    .recipe = recipe,
    .build = build,
    .loss = gcn_loss,
};
