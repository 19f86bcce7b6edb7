/* gpt: a small generative transformer that predicts the next symbol of a text.
 *
 *     x_0 = E[token] + P[position]
 *     a   = x_l + Wo · attention(Wq LN(x_l), Wk LN(x_l), Wv LN(x_l))          softmax(q kᵀ/sqrt(d) + causal mask) v, per head
 *     x_{l+1} = a + W2 gelu(W1 LN(a))
 *     logits  = H · LN(x_L)
 *
 * trained with the cross-entropy of the next symbol at every position.  Vaswani et al., "Attention is all you need", 2017; the order of the norms and the initial
 * values as in GPT-2 (Radford et al. 2019): normal of deviation 0.02, the two projections into the residual stream divided by sqrt(2 · layers).  Positions are learned;
 * tied=yes makes the head H the embedding E itself, as in GPT-2.  Text is continued symbol by symbol, with the keys and values of what was read in caches.  Parameter names are GPT-2's: wte.weight,
 * h.0.attn.c_attn.weight, …, lm_head.weight.
 */
#include <cajal/cajal.h>
#include <math.h>
#include <stdio.h>

static const cj_setting settings[] = {
    { .key = "layers", .value = 4, .least = 1, .most = 96, .help = "blocks" },
    { .key = "dim", .value = 192, .least = 1, .help = "width of the residual stream" },
    { .key = "heads", .value = 6, .least = 1, .help = "attention heads; must divide dim" },
    { .key = "context", .value = 128, .least = 1, .help = "symbols that a prediction can look back on" },
    { .key = "tied", .value = 0, .choices = "no yes", .help = "the head is the embedding of the symbols" },
    { .key = "dropout", .value = 0.1, .most = 0.95, .real = true, .help = "probability of zero in the residual stream" },
    { 0 },
};

static const cj_setting recipe[] = {
    { .key = "steps", .value = 4000 },       { .key = "batch", .value = 16 },
    { .key = "lr", .value = 2e-3 },          { .key = "optimiser", .value = CJ_ADAMW },
    { .key = "weight_decay", .value = 0.1 }, { .key = "schedule", .value = CJ_COSINE },
    { .key = "warmup", .value = 100 },       { .key = "clip", .value = 1 },
    { .key = "eval_every", .value = 250 },   { 0 },
};

/* ---- one block ---------------------------------------------------------------------------------------------------------------------- */

typedef struct block {
    cj_module *ln_1, *c_attn, *c_proj, *ln_2, *fc, *proj;
    int64_t heads;
    double dropout;
} block;

static cj_tensor *drop(cj_module *m, cj_tensor *x, double p) { return p > 0 ? cj_dropout(x, .p = p, .eval = !cj_module_training(m)) : x; }

/* [B, T, D] -> [B, heads, T, D/heads]: a view, nothing moves. */
static cj_tensor *split_heads(cj_tensor *x, int64_t heads)
{
    return cj_transpose(cj_reshape(x, CJ_SHAPE(cj_size(x, 0), cj_size(x, 1), heads, cj_size(x, 2) / heads)), 1, 2);
}

/* What comes after attention's result y [B, T, D], of the residual stream x [B, T, D]. */
static cj_tensor *after_attention(cj_module *m, block *b, cj_tensor *x, cj_tensor *y)
{
    cj_tensor *a = cj_add(x, drop(m, cj_forward(b->c_proj, y), b->dropout));
    cj_tensor *h = cj_gelu(cj_forward(b->fc, cj_forward(b->ln_2, a)));
    return cj_add(a, drop(m, cj_forward(b->proj, h), b->dropout));
}

static cj_tensor *block_forward(cj_module *m, void *self, cj_tensor *x)
{
    block *b = self;
    cj_tensor *qkv = cj_forward(b->c_attn, cj_forward(b->ln_1, x));
    return after_attention(m, b, x, cj_attention_packed(qkv, b->heads, .causal = true));
}

/* The same for one new position: x [B, 1, D] joins what the cache [2, B, context, D] of keys and values holds. */
static cj_tensor *block_next(cj_module *m, cj_tensor *x, cj_tensor *cache, cj_tensor *position, cj_tensor *length)
{
    block *b = cj_module_self(m);
    int64_t D = cj_size(x, 2);
    cj_tensor *qkv = cj_forward(b->c_attn, cj_forward(b->ln_1, x)), *part[2];
    for (int i = 0; i < 2; i++) {
        cj_tensor *all = cj_select(cache, 0, i);
        cj_write_slice_(all, 1, position, cj_slice(qkv, 2, (i + 1) * D, (i + 2) * D, 1));
        part[i] = split_heads(all, b->heads);
    }
    cj_tensor *q = split_heads(cj_slice(qkv, 2, 0, D, 1), b->heads);
    cj_tensor *y = cj_attention(q, part[0], part[1], .key_length = length); /* [B, heads, 1, D/heads] */
    return after_attention(m, b, x, cj_reshape(y, cj_shape_of(x)));
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
    cj_tensor *tied;      /* the embedding [symbols, dim] where it is the head, too; else NULL, and there is an lm_head */
    double dropout;
    cj_tensor *position; /* where the next symbol of texts that are continued goes: persistent i64 0-d */
    cj_tensor *cache;    /* their keys and values: persistent [layers, 2, B, heads, context, dim/heads]; in one piece it gets large pages */
} gpt;

static cj_tensor *logits_of(const gpt *g, cj_tensor *h)
{
    cj_tensor *y = cj_forward(g->ln_f, h);
    return g->tied ? cj_linear_op(y, g->tied, NULL) : cj_forward(g->lm_head, y);
}

/* x: symbols, i64 [B, T] with T <= context; result: logits [B, T, vocabulary]. */
static cj_tensor *gpt_forward(cj_module *m, void *self, cj_tensor *x)
{
    gpt *g = self;
    cj_ctx *c = cj_module_ctx(m);
    int64_t T = cj_size(x, -1), context = cj_size(g->positions, 0);
    if (T > context) return cj_fail(c, CJ_ESHAPE, "gpt: %lld symbols, the context has %lld", (long long)T, (long long)context);

    cj_tensor *h = cj_add(cj_forward(g->wte, x), cj_slice(g->positions, 0, 0, T, 1));
    h = drop(m, h, g->dropout);
    for (int i = 0; i < cj_module_children(g->blocks); i++) h = cj_forward(cj_module_child(g->blocks, i), h);
    return logits_of(g, h);
}

/* ---- symbol by symbol --------------------------------------------------------------------------------------------------------------- */

static void gpt_forget(cj_module *m, void *self)
{
    (void)m;
    gpt *g = self;
    cj_release(g->position);
    cj_release(g->cache);
    g->position = g->cache = NULL;
}

static int64_t gpt_begin(cj_module *m, int64_t batch)
{
    gpt *g = cj_module_self(m);
    cj_ctx *c = cj_module_ctx(m);
    int64_t context = cj_size(g->positions, 0), dim = cj_size(g->positions, 1), layers = cj_module_children(g->blocks);
    cj_params_flatten(cj_module_params(m)); /* side by side, in large pages: every symbol reads all of them */
    if (!g->position) g->position = cj_keep(cj_zeros(c, CJ_SCALAR, CJ_I64));
    else cj_assign_(g->position, cj_zeros(c, CJ_SCALAR, CJ_I64));
    if (!g->cache || cj_size(g->cache, 2) != batch) {
        cj_release(g->cache);
        g->cache = cj_keep(cj_zeros(c, CJ_SHAPE(layers, 2, batch, context, dim), CJ_F32));
    }
    return cj_ok(c) ? context : 0;
}

static cj_tensor *gpt_next(cj_module *m, cj_tensor *symbols)
{
    gpt *g = cj_module_self(m);
    cj_tensor *here = cj_index_select(g->positions, 0, cj_unsqueeze(g->position, 0)), *length = cj_add_scalar(g->position, 1);
    cj_tensor *h = cj_add(cj_forward(g->wte, cj_unsqueeze(symbols, 1)), here);
    for (int i = 0; i < cj_module_children(g->blocks); i++)
        h = block_next(cj_module_child(g->blocks, i), h, cj_select(g->cache, 0, i), g->position, length);
    cj_tensor *logits = logits_of(g, cj_squeeze(h, 1));
    cj_assign_(g->position, length);
    return logits;
}

static const cj_module_type gpt_type = { "GPT", gpt_forward, gpt_forget };

/* ---- building ----------------------------------------------------------------------------------------------------------------------- */

static cj_module *build(cj_ctx *c, const cj_model_data *d, const cj_options *o)
{
    int64_t dim = cj_option_int(o, "dim"), heads = cj_option_int(o, "heads"), context = cj_option_int(o, "context");
    int layers = (int)cj_option(o, "layers");
    if (dim % heads != 0) {
        cj_fail(c, CJ_EVALUE, "gpt: heads=%lld does not divide dim=%lld", (long long)heads, (long long)dim);
        return NULL;
    }
    if (cj_option_int(o, "tied") && d->inputs != d->outputs) {
        cj_fail(c, CJ_EVALUE, "gpt: tied=yes with %lld symbols to read and %lld to write", (long long)d->inputs, (long long)d->outputs);
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
    if (cj_option_int(o, "tied")) g->tied = cj_params_find(cj_module_params(g->wte), "weight");
    else g->lm_head = cj_module_add(m, "lm_head", cj_linear(c, dim, d->outputs, .no_bias = true, .init_std = 0.02));
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
    .begin = gpt_begin,
    .next = gpt_next,
};
