/* Training on the GPU against the CPU: an MLP and a GPT, eagerly and as a plan; the optimisers. */
#include "cuda_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct net {
    cj_ctx *c;
    cj_module *m, *wte, *wpe, *ln_f, *head, *ln1[2], *ln2[2], *qkv[2], *proj[2], *up[2], *down[2];
    cj_optim *opt;
    bool gpt;
    int64_t heads;
    double dropout;
} net;

static const cj_module_type group = { "Group", NULL, NULL };

static net mlp_new(cj_ctx *c, int64_t in, int64_t hidden, int64_t out)
{
    net n = { .c = c };
    n.m = cj_sequential(c, cj_linear(c, in, hidden), cj_relu_layer(c), cj_linear(c, hidden, hidden), cj_relu_layer(c),
                        cj_linear(c, hidden, out));
    n.opt = cj_adam(cj_module_params(n.m), .lr = 1e-3);
    return n;
}

static net gpt_new(cj_ctx *c, int64_t vocabulary, int64_t dim, int64_t heads, int64_t context, double dropout)
{
    net n = { .c = c, .gpt = true, .heads = heads, .dropout = dropout, .m = cj_module_new(c, &group, 0) };
    n.wte = cj_module_add(n.m, "wte", cj_embedding_layer(c, vocabulary, dim, .init_std = 0.02));
    n.wpe = cj_module_add(n.m, "wpe", cj_embedding_layer(c, context, dim, .init_std = 0.02));
    for (int l = 0; l < 2; l++) {
        char name[16];
        snprintf(name, sizeof name, "%d", l);
        cj_module *b = cj_module_add(n.m, name, cj_module_new(c, &group, 0));
        n.ln1[l] = cj_module_add(b, "ln1", cj_layer_norm_layer(c, dim));
        n.qkv[l] = cj_module_add(b, "qkv", cj_linear(c, dim, 3 * dim));
        n.proj[l] = cj_module_add(b, "proj", cj_linear(c, dim, dim));
        n.ln2[l] = cj_module_add(b, "ln2", cj_layer_norm_layer(c, dim));
        n.up[l] = cj_module_add(b, "up", cj_linear(c, dim, 4 * dim));
        n.down[l] = cj_module_add(b, "down", cj_linear(c, 4 * dim, dim));
    }
    n.ln_f = cj_module_add(n.m, "ln_f", cj_layer_norm_layer(c, dim));
    n.head = cj_module_add(n.m, "head", cj_linear(c, dim, vocabulary, .no_bias = true));
    n.opt = cj_adamw(cj_module_params(n.m), .lr = 1e-3, .weight_decay = 0.1, .clip_norm = 1);
    return n;
}

static cj_tensor *part(cj_tensor *qkv, int which, int64_t heads)
{
    int64_t B = cj_size(qkv, 0), T = cj_size(qkv, 1), D = cj_size(qkv, 2) / 3;
    return cj_transpose(cj_reshape(cj_slice(qkv, 2, which * D, (which + 1) * D, 1), CJ_SHAPE(B, T, heads, D / heads)), 1, 2);
}

static cj_tensor *gpt_logits(net *n, cj_tensor *x)
{
    int64_t T = cj_size(x, 1);
    cj_tensor *h = cj_add(cj_forward(n->wte, x), cj_forward(n->wpe, cj_arange(n->c, 0, (double)T, 1, CJ_I64)));
    for (int l = 0; l < 2; l++) {
        cj_tensor *qkv = cj_forward(n->qkv[l], cj_forward(n->ln1[l], h));
        cj_tensor *y = cj_attention(part(qkv, 0, n->heads), part(qkv, 1, n->heads), part(qkv, 2, n->heads), .causal = true);
        y = cj_forward(n->proj[l], cj_reshape(cj_transpose(y, 1, 2), cj_shape_of(h)));
        if (n->dropout > 0) y = cj_dropout(y, .p = n->dropout);
        h = cj_add(h, y);
        h = cj_add(h, cj_forward(n->down[l], cj_gelu(cj_forward(n->up[l], cj_forward(n->ln2[l], h)))));
    }
    return cj_forward(n->head, cj_forward(n->ln_f, h));
}

/* A step as plans want it: in[0] x, in[1] targets, out[0] loss. */
static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    net *n = user;
    (void)c;
    out[0] = cj_cross_entropy(n->gpt ? gpt_logits(n, in[0]) : cj_forward(n->m, in[0]), in[1]);
    cj_minimise(n->opt, out[0]);
}

static cj_tensor *batch_of(cj_ctx *c, const net *n, cj_shape shape, int64_t limit, int number)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
    reseed(77u + (uint64_t)number);
    float *f = malloc((size_t)count * sizeof *f);
    int64_t *v = malloc((size_t)count * sizeof *v);
    for (int64_t i = 0; i < count; i++) {
        double u = uniform();
        f[i] = (float)(2 * u - 1);
        v[i] = (int64_t)(u * (double)limit);
    }
    (void)n;
    cj_tensor *t = limit ? cj_from_i64(c, v, shape) : cj_from_f32(c, f, shape);
    free(f);
    free(v);
    return t;
}

static net net_of(cj_ctx *c, const task *k)
{
    cj_seed(c, 5);
    return k->gpt ? gpt_new(c, k->x_limit, k->hidden, k->heads, k->x.dim[1], k->dropout) : mlp_new(c, k->x.dim[1], k->hidden, k->y_limit);
}

/* Losses of an eager run. */
static bool train(cj_ctx *c, const task *k, double *loss, double *ms)
{
    net n = net_of(c, k);
    double start = 0;
    for (int i = 0; i < k->steps && cj_ok(c); i++) {
        if (i == 5) start = seconds();
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[2] = { batch_of(c, &n, k->x, k->x_limit, i % 4), batch_of(c, &n, k->y, k->y_limit, 100 + i % 4) },
                  *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
        step(c, &n, in, out);
        loss[i] = cj_item(out[0]);
        cj_scope_close(s);
    }
    *ms = 1e3 * (seconds() - start) / (k->steps - 5);
    return cj_ok(c);
}

/* The same on the device with the inputs there already, and the loss read once at the end: what a step costs. */
static double time_eager(cj_ctx *c, const task *k, int steps)
{
    net n = net_of(c, k);
    cj_tensor *in[2] = { cj_keep(batch_of(c, &n, k->x, k->x_limit, 0)), cj_keep(batch_of(c, &n, k->y, k->y_limit, 100)) },
              *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    double start = 0;
    for (int i = 0; i < steps + 5 && cj_ok(c); i++) {
        cj_scope s = cj_scope_open(c);
        step(c, &n, in, out);
        if (i == 4 || i == steps + 4) cj_item(out[0]);
        if (i == 4) start = seconds();
        cj_scope_close(s);
    }
    return 1e6 * (seconds() - start) / steps;
}

void check_training(const task *k)
{
    double *loss[3], ms[3], worst = 0, start;
    for (int i = 0; i < 3; i++) loss[i] = calloc((size_t)k->steps, sizeof(double));
    bool ok = train(host, k, loss[0], &ms[0]) && train(device, k, loss[1], &ms[1]);
    for (int i = 0; i < k->steps && ok; i++) worst = fmax(worst, fabs(loss[1][i] - loss[0][i]) / fabs(loss[0][i]));
    char what[256];
    snprintf(what, sizeof what, "loss %.5f -> %.5f on the CPU, %.5f -> %.5f on the GPU", loss[0][0], loss[0][k->steps - 1], loss[1][0],
             loss[1][k->steps - 1]);
    report(ok && worst < k->tol, k->name, ok ? what : cj_ok(host) ? cj_message(device) : cj_message(host), worst);
    printf("     %s: %s; worst difference %.2g; %.3f ms a step on the CPU, %.3f on the GPU (inputs copied, loss read at every step)\n",
           k->name, what, worst, ms[0], ms[1]);
    cj_clear(host);
    cj_clear(device);
    printf("     %s: eager step on the GPU %.1f us\n", k->name, time_eager(device, k, 100));
    cj_clear(device);

    /* As a plan: eager, traced, compiled, then one graph per step. */
    net n = net_of(device, k);
    cj_scope all = cj_scope_open(device);
    cj_tensor *in[4][2], *out[CJ_MAX_PLAN_OUTPUTS] = { 0 };
    for (int i = 0; i < 4; i++)
        in[i][0] = batch_of(device, &n, k->x, k->x_limit, i), in[i][1] = batch_of(device, &n, k->y, k->y_limit, 100 + i);
    cj_plan *p = (cj_capture)(device, step, &n, in[0], 2, out);
    loss[2][0] = p ? cj_item(out[0]) : NAN;
    for (int i = 1; i < k->steps && cj_ok(device); i++) {
        cj_scope s = cj_scope_open(device);
        if ((cj_replay)(p, in[i % 4], out)) loss[2][i] = cj_item(out[0]);
        cj_scope_close(s);
    }
    ok = p && cj_ok(device);
    worst = 0;
    for (int i = 0; i < k->steps && ok; i++) worst = fmax(worst, fabs(loss[2][i] - loss[0][i]) / fabs(loss[0][i]));
    report(ok && worst < k->tol, k->name, ok ? "the plan's losses against the CPU's" : cj_message(device), worst);
    if (ok) {
        cj_plan_stats st = cj_plan_statistics(p);
        uint64_t copies = cj_memory_stats(device).host_copies;
        start = seconds();
        for (int i = 0; i < 300 && cj_ok(device); i++) {
            cj_scope s = cj_scope_open(device);
            (cj_replay)(p, in[i % 4], out);
            if (i == 299) copies = cj_memory_stats(device).host_copies - copies, cj_item(out[0]);
            cj_scope_close(s);
        }
        printf("     %s: plan on the GPU %.1f us a step, %d kernels (%d elementwise), %llu host copies in 300 replays\n", k->name,
               1e6 * (seconds() - start) / 300, st.kernels, st.elementwise, (unsigned long long)copies);
        report(copies == 0 && cj_ok(device), k->name, cj_ok(device) ? "host copies in replays" : cj_message(device), (double)copies);
    }
    cj_scope_close(all);
    cj_clear(device);
    for (int i = 0; i < 3; i++) free(loss[i]);
}

/* ---- optimisers: parameters after some steps ----------------------------------------------------------------------------------------------------------------------- */

void check_optimisers(void)
{
    for (int kind = 0; kind < 7; kind++) {
        cj_tensor *flat[2];
        cj_scope s[2];
        for (int k = 0; k < 2; k++) {
            cj_ctx *c = k ? device : host;
            cj_seed(c, 3);
            s[k] = cj_scope_open(c);
            cj_module *m = cj_sequential(c, cj_linear(c, 20, 33), cj_tanh_layer(c), cj_linear(c, 33, 4));
            cj_params *p = cj_module_params(m);
            cj_optim *o = kind == 0   ? cj_sgd(p, .lr = 0.1)
                          : kind == 1 ? cj_sgd(p, .lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01)
                          : kind == 2 ? cj_sgd(p, .lr = 0.1, .momentum = 0.9, .nesterov = true)
                          : kind == 3 ? cj_sgd(p, .lr = 0.1, .clip_norm = 0.05)
                          : kind == 4 ? cj_adam(p, .lr = 0.01, .weight_decay = 0.01)
                          : kind == 5 ? cj_adamw(p, .lr = 0.01, .clip_norm = 0.1)
                                      : cj_adam(p, .lr = 0.01, .beta1 = 0.3);
            for (int i = 0; i < 6 && cj_ok(c); i++) {
                cj_scope inner = cj_scope_open(c);
                cj_tensor *x = batch_of(c, NULL, CJ_SHAPE(16, 20), 0, i), *y = batch_of(c, NULL, CJ_SHAPE(16), 4, i);
                cj_minimise(o, cj_cross_entropy(cj_forward(m, x), y));
                cj_scope_close(inner);
            }
            flat[k] = cj_params_flat(p, CJ_F32);
            if (cj_optim_steps(o) != 6) report(false, "optimiser", "steps are not counted", (double)cj_optim_steps(o));
        }
        static const char *const names[] = {
            "sgd", "sgd momentum", "sgd nesterov", "sgd clipped", "adam", "adamw clipped", "adam beta1 0.3"
        };
        double worst = flat[0] && flat[1] ? compare(flat[1], flat[0], 2e-5, 1) : INFINITY;
        report(worst <= 1 && cj_ok(device), names[kind], cj_message(device), worst);
        for (int k = 1; k >= 0; k--) cj_scope_close(s[k]);
        cj_clear(host);
        cj_clear(device);
    }
}

/* bf16 and f16 parameters with f32 masters, from the same half-precision gradients. */
void check_half_optimisers(void)
{
    static const cj_dtype types[] = { CJ_BF16, CJ_F16 };
    static const cj_module_type group = { "Group", NULL, NULL };
    for (int kind = 0; kind < 8; kind++) {
        cj_dtype t = types[kind % 2];
        cj_tensor *p[2];
        cj_scope s[2];
        for (int k = 0; k < 2; k++) {
            cj_ctx *c = k ? device : host;
            cj_seed(c, 5);
            s[k] = cj_scope_open(c);
            cj_module *m = cj_module_new(c, &group, 0);
            p[k] = cj_module_param(m, "p", cj_cast(cj_randn(c, CJ_SHAPE(5003)), t));
            cj_params *all = cj_module_params(m);
            cj_optim *o = kind / 2 == 0   ? cj_sgd(all, .lr = 0.01)
                          : kind / 2 == 1 ? cj_sgd(all, .lr = 0.01, .momentum = 0.9, .clip_norm = 2)
                          : kind / 2 == 2 ? cj_adam(all, .lr = 1e-3)
                                          : cj_adamw(all, .lr = 1e-3, .clip_norm = 2);
            for (int i = 0; i < 5 && cj_ok(c); i++) {
                cj_scope inner = cj_scope_open(c);
                cj_minimise(o, cj_sum(cj_mul(p[k], cj_cast(cj_randn(c, CJ_SHAPE(5003)), t))));
                cj_scope_close(inner);
            }
        }
        double worst = compare(p[1], p[0], t == CJ_BF16 ? 0x1p-8 : 0x1p-11, 1); /* a rounding of the master may fall either way */
        dtype_name = cj_dtype_name(t);
        report(worst <= 1 && cj_ok(device), "half-precision update", cj_message(device), worst);
        for (int k = 1; k >= 0; k--) cj_scope_close(s[k]);
        cj_clear(host);
        cj_clear(device);
    }
    dtype_name = "";
}
