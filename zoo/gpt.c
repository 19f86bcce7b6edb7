/* gpt: a small generative transformer that predicts the next symbol of a text.
 *
 *     x_0 = E[token] + P[position]
 *     a   = x_l + Wo · attention(Wq LN(x_l), Wk LN(x_l), Wv LN(x_l))          softmax(q kᵀ/sqrt(d) + causal mask) v, per head
 *     x_{l+1} = a + W2 gelu(W1 LN(a))
 *     logits  = H · LN(x_L)
 *
 * trained with the cross-entropy of the next symbol at every position.  Vaswani et al., "Attention is all you need", 2017; the order of the norms and the initial
 * values as in GPT-2 (Radford et al. 2019): normal of deviation 0.02, the two projections into the residual stream divided by sqrt(2 · layers).  Positions are learned,
 * the head H is not tied to E.  Parameter names are GPT-2's: wte.weight, h.0.attn.c_attn.weight, …, lm_head.weight.
 */
#include <cajal/cajal.h>
#include <math.h>
#include <stdio.h>

static const cj_setting settings[] = {
    { .key = "layers", .value = 2, .least = 1, .most = 96, .help = "blocks" },
    { .key = "dim", .value = 128, .least = 1, .help = "width of the residual stream" },
    { .key = "heads", .value = 4, .least = 1, .help = "attention heads; must divide dim" },
    { .key = "context", .value = 64, .least = 1, .help = "symbols that a prediction can look back on" },
    { .key = "dropout", .value = 0, .most = 0.95, .real = true, .help = "probability of zero in the residual stream" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "steps", .value = 600 },        { .key = "batch", .value = 16 },
    { .key = "lr", .value = 2e-3 },          { .key = "optimiser", .value = CJ_ADAMW },
    { .key = "weight_decay", .value = 0.1 }, { .key = "schedule", .value = CJ_COSINE },
    { .key = "warmup", .value = 50 },        { .key = "clip", .value = 1 },
    { .key = "eval_every", .value = 100 },   { 0 },
};

/* ---- one block ---------------------------------------------------------------------------------------------------------------------- */

typedef struct block {
    cj_module *ln_1, *c_attn, *c_proj, *ln_2, *fc, *proj;
    int64_t heads;
    double dropout;
} block;

static cj_tensor *drop(cj_module *m, cj_tensor *x, double p) { return p > 0 ? cj_dropout(x, .p = p, .eval = !cj_module_training(m)) : x; }

/* [B, T, 3·D] -> the part q, k or v as [B, heads, T, D/heads]: a view, nothing moves. */
static cj_tensor *head_view(cj_tensor *qkv, int part, int64_t heads)
{
    int64_t B = cj_size(qkv, 0), T = cj_size(qkv, 1), D = cj_size(qkv, 2) / 3;
    cj_tensor *x = cj_slice(qkv, 2, part * D, (part + 1) * D, 1);
    return cj_transpose(cj_reshape(x, CJ_SHAPE(B, T, heads, D / heads)), 1, 2);
}

static cj_tensor *block_forward(cj_module *m, void *self, cj_tensor *x)
{
    block *b = self;
    cj_tensor *qkv = cj_forward(b->c_attn, cj_forward(b->ln_1, x));
    cj_tensor *y = cj_attention(head_view(qkv, 0, b->heads), head_view(qkv, 1, b->heads), head_view(qkv, 2, b->heads), .causal = true);
    y = cj_reshape(cj_transpose(y, 1, 2), cj_shape_of(x)); /* heads side by side again */
    cj_tensor *a = cj_add(x, drop(m, cj_forward(b->c_proj, y), b->dropout));

    cj_tensor *h = cj_gelu(cj_forward(b->fc, cj_forward(b->ln_2, a)));
    return cj_add(a, drop(m, cj_forward(b->proj, h), b->dropout));
}
static const cj_module_type block_type = { "Block", block_forward, NULL };
static const cj_module_type group_type = { "Group", NULL, NULL }; /* only names: "attn", "mlp", "h" */

static cj_module *block_new(cj_ctx *c, int64_t dim, int64_t heads, int layers, double dropout)
{
    cj_module *m = cj_module_new(c, &block_type, sizeof(block));
    block *b = cj_module_self(m);
    if (!b) return NULL;
    double std = 0.02, residual_std = 0.02 / sqrt(2.0 * layers);
    b->heads = heads;
    b->dropout = dropout;

    b->ln_1 = cj_module_add(m, "ln_1", cj_layer_norm_layer(c, dim));
    cj_module *attn = cj_module_add(m, "attn", cj_module_new(c, &group_type, 0));
    b->c_attn = cj_module_add(attn, "c_attn", cj_linear(c, dim, 3 * dim, .init_std = std));
    b->c_proj = cj_module_add(attn, "c_proj", cj_linear(c, dim, dim, .init_std = residual_std));

    b->ln_2 = cj_module_add(m, "ln_2", cj_layer_norm_layer(c, dim));
    cj_module *mlp = cj_module_add(m, "mlp", cj_module_new(c, &group_type, 0));
    b->fc = cj_module_add(mlp, "c_fc", cj_linear(c, dim, 4 * dim, .init_std = std));
    b->proj = cj_module_add(mlp, "c_proj", cj_linear(c, 4 * dim, dim, .init_std = residual_std));
    return m;
}

/* ---- the model ---------------------------------------------------------------------------------------------------------------------- */

typedef struct gpt {
    cj_module *wte, *blocks, *ln_f, *lm_head;
    cj_tensor *positions; /* [context, dim] */
    double dropout;
} gpt;

/* x: symbols, i64 [B, T] with T <= context; result: logits [B, T, vocabulary]. */
static cj_tensor *gpt_forward(cj_module *m, void *self, cj_tensor *x)
{
    gpt *g = self;
    cj_ctx *c = cj_module_ctx(m);
    int64_t T = cj_size(x, -1), context = cj_size(g->positions, 0);
    if (T > context) return cj_fail(c, CJ_ESHAPE, "gpt: %lld symbols, the context has %lld", (long long)T, (long long)context);

    cj_tensor *h = cj_add(cj_forward(g->wte, x), cj_slice(g->positions, 0, 0, T, 1));
    h = drop(m, h, g->dropout);
    for (int i = 0; i < cj_module_children(g->blocks); i++) {
        cj_enter(c, cj_module_child_name(g->blocks, i));
        h = cj_forward(cj_module_child(g->blocks, i), h);
        cj_leave(c);
    }
    return cj_forward(g->lm_head, cj_forward(g->ln_f, h));
}
static const cj_module_type gpt_type = { "GPT", gpt_forward, NULL };

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    int64_t dim = cj_option_int(o, "dim"), heads = cj_option_int(o, "heads"), context = cj_option_int(o, "context");
    int layers = (int)cj_option(o, "layers");
    if (dim % heads != 0) {
        cj_fail(c, CJ_EVALUE, "gpt: heads=%lld does not divide dim=%lld", (long long)heads, (long long)dim);
        return NULL;
    }
    cj_module *m = cj_module_new(c, &gpt_type, sizeof(gpt));
    gpt *g = cj_module_self(m);
    if (!g) return NULL;
    g->dropout = cj_option(o, "dropout");
    g->wte = cj_module_add(m, "wte", cj_embedding_layer(c, d->inputs, dim, .init_std = 0.02));
    cj_module *wpe = cj_module_add(m, "wpe", cj_embedding_layer(c, context, dim, .init_std = 0.02));
    g->positions = cj_params_find(cj_module_params(wpe), "weight");
    g->blocks = cj_module_add(m, "h", cj_module_new(c, &group_type, 0));
    for (int l = 0; l < layers && cj_ok(c); l++) {
        char name[16];
        snprintf(name, sizeof name, "%d", l);
        cj_module_add(g->blocks, name, block_new(c, dim, heads, layers, g->dropout));
    }
    g->ln_f = cj_module_add(m, "ln_f", cj_layer_norm_layer(c, dim));
    g->lm_head = cj_module_add(m, "lm_head", cj_linear(c, dim, d->outputs, .no_bias = true, .init_std = 0.02));
    return m;
}

const cj_model cj_model_gpt = {
    .name = "gpt",
    .family = "transformer",
    .summary = "small GPT with learned positions (Radford et al. 2019)",
    .task = CJ_TASK_NEXT_TOKEN,
    .data = "sources",
    .settings = settings,
    .recipe = recipe,
    .build = build,
};
