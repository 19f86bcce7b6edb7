/* Checkpointing (Griewank & Walther 2000; Chen et al. 2016): keep the inputs of a function, forget its inside, run it again in backward.
 *
 * What fn reads from outside besides its listed inputs (parameters) is found by recording it once; the random streams are wound back for the second run.
 */
#include "grad/grad.h"

typedef struct checkpoint_attrs {
    cj_fn fn;
    void *user;
    cj_rng_state rng;
    int64_t listed;
} checkpoint_attrs;

static void d_checkpoint(cj_vjp_args *v)
{
    cj_ctx *c = v->ctx;
    const checkpoint_attrs *a = v->attrs;
    cj_rng_state now = c->rng;
    bool create_graph = c->grad_enabled;
    cj_tensor **x = cj__alloc(c, 2 * (size_t)v->nin * sizeof *x);
    if (!x) return;
    cj_tensor **wanted = x + v->nin, **got = x; /* the arguments have been read by then */
    c->grad_enabled = true;
    int m = 0;
    for (int i = 0; i < v->nin; i++) {
        x[i] = i < a->listed ? cj__alias(v->in[i]) : v->in[i];
        if (v->need[i]) wanted[m++] = x[i];
    }
    if (c->error) m = 0;
    int64_t from = c->tape_n;
    c->rng = a->rng;
    cj_tensor *y = a->fn(c, a->user, x, (int)a->listed);
    c->rng = now;
    c->grad_enabled = create_graph;
    if (!c->error && !cj_is_poison(y) && cj__reverse(c, &y, v->g, 1, from, wanted, m, got, create_graph, create_graph))
        for (int i = 0, k = 0; i < v->nin; i++)
            if (v->need[i]) v->gin[i] = got[k++];
    if (!create_graph) cj__tape_drop(c, from);
    cj__free(c, x, 2 * (size_t)v->nin * sizeof *x);
}

static const cj_op checkpoint_op = { .name = "checkpoint",
                                     .family = "grad",
                                     .kind = CJ_PRIMITIVE,
                                     .nin = -1,
                                     .nout = 1,
                                     .attr_size = sizeof(checkpoint_attrs),
                                     .save_in = ~0u,
                                     .vjp = d_checkpoint };

/* Is t from before the recording that begins with node `from`, and does it need gradients? */
static bool is_outside(cj_tensor *t, int64_t from) { return cj__requires(t) && !(t->node && t->node->seq >= from); }

/* Notes t unless it is known; false where there is no room. */
static bool note(cj_tensor *t, cj_tensor *const *listed, int n, cj_tensor **found, int *m, int room)
{
    for (int k = 0; k < n; k++)
        if (listed[k] == t) return true;
    for (int k = 0; k < *m; k++)
        if (found[k] == t) return true;
    if (*m == room) return false;
    found[(*m)++] = t;
    return true;
}

/* What the function reads or returns from outside, beside the listed arguments, that needs gradients; -1: more than there is room for. */
static int outside(cj_ctx *c, int64_t from, cj_tensor *result, cj_tensor *const *listed, int n, cj_tensor **found, int room)
{
    int m = 0;
    for (int64_t s = from; s < c->tape_n; s++)
        for (int i = 0; c->tape[s] && i < c->tape[s]->nin; i++)
            if (is_outside(c->tape[s]->in[i], from) && !note(c->tape[s]->in[i], listed, n, found, &m, room)) return -1;
    return is_outside(result, from) && !note(result, listed, n, found, &m, room) ? -1 : m;
}

cj_tensor *cj_checkpoint(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *in, int n)
{
    if (!c) return NULL;
    if (!cj__cancel_check(c)) return c->poison;
    if (n < 0 || n > CJ_MAX_INPUTS || (n && !in))
        return cj_fail(c, CJ_EVALUE, "checkpoint: %d inputs, at most %d are possible", in ? n : 0, CJ_MAX_INPUTS);
    if (!fn) return cj_fail(c, CJ_EVALUE, "checkpoint: the function is NULL");
    for (int i = 0; i < n; i++)
        if (!cj__usable(c, "checkpoint", i, in[i])) return c->poison;
    if (!c->grad_enabled || c->fwd_limit) return fn(c, user, in, n);
    checkpoint_attrs a = { .fn = fn, .user = user, .rng = c->rng, .listed = n };
    const size_t bytes = 2 * CJ_MAX_INPUTS * sizeof(cj_tensor *);
    cj_tensor **all = cj__alloc(c, bytes), **alias = all + CJ_MAX_INPUTS, *y = c->poison;
    int frame = all ? cj__frame_open(c) : 0;
    if (!frame) {
        cj__free(c, all, bytes);
        return c->poison;
    }
    const int64_t start = c->tape_n;
    for (int i = 0; i < n; i++) alias[i] = cj__alias(in[i]); /* as in the second run: who reads in[i] itself reads from outside */
    const int64_t from = c->tape_n;
    cj_tensor *inside = c->error ? c->poison : fn(c, user, alias, n);
    if (!c->error && cj_is_poison(inside)) cj__error(c, CJ_EVALUE, "checkpoint: the function returned NULL");
    int m = c->error ? -1 : outside(c, from, inside, alias, n, all + n, CJ_MAX_INPUTS - n);
    if (m < 0 && !c->error) cj__error(c, CJ_EVALUE, "checkpoint: the function reads more than %d tensors", CJ_MAX_INPUTS);
    if (!c->error) {
        for (int i = 0; i < n; i++) all[i] = in[i];
        bool differentiable = cj__requires(inside);
        y = cj_detach(inside);
        cj__tape_drop(c, start);
        cj_call call = { c, &checkpoint_op, &a, all, &y, n + m, 1 };
        if (differentiable && !cj_is_poison(y) && !cj__tape_add(c, &call)) y = c->poison;
    } else {
        cj__tape_drop(c, start);
    }
    cj__free(c, all, bytes);
    cj__frame_close(c, frame, &y, 1);
    return y;
}
