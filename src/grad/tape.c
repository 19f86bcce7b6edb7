/* Reverse mode: the tape and the pass over it.
 *
 * A node holds the headers of its inputs and outputs; it holds their data only where the operator's vjp reads it.  The pass walks the tape backwards once,
 * running each vjp in a frame of its own; rules are operators, so with create_graph the pass itself is recorded and can be differentiated.  Composites use their
 * fused backward when no graph of the gradient is wanted, else their definition is replayed on the saved inputs.
 */
#include <stdio.h>

#include "grad/grad.h"

/* ---- recording ---------------------------------------------------------------------------------------------------------------------------- */

static bool tape_room(cj_ctx *c)
{
    if (c->tape_n < c->tape_cap) return true;
    int64_t cap = c->tape_cap ? 2 * c->tape_cap : 256;
    cj_node **tape = cj__alloc(c, (size_t)cap * sizeof *tape);
    if (!tape) return false;
    if (c->tape_n) memcpy(tape, c->tape, (size_t)c->tape_n * sizeof *tape);
    cj__free(c, c->tape, (size_t)c->tape_cap * sizeof *tape);
    c->tape = tape;
    c->tape_cap = cap;
    return true;
}

bool cj__tape_add(cj_ctx *c, cj_call *call)
{
    const cj_op *op = call->op;
    if (!tape_room(c)) return false;
    int nin = call->nin, nout = call->nout;
    size_t pointers = (size_t)(nin + 2 * nout) * sizeof(cj_tensor *);
    size_t versions = ((size_t)(nin + nout) * sizeof(uint32_t) + 7) & ~(size_t)7;
    size_t path = __builtin_expect(c->active & 1u << CJ_REC_WATCH, 0) && c->path[0] ? strlen(c->path) + 1 : 0;
    size_t size = sizeof(cj_node) + pointers + versions + op->attr_size + path;
    cj_node *n = cj__alloc(c, size);
    if (!n) return false;
    n->op = op;
    n->seq = c->tape_n;
    n->mark = n->useful = 0;
    n->nin = nin;
    n->nout = nout;
    n->depth = c->depth;
    n->size = size;
    cj__position(&n->file, &n->line);
    n->in = (cj_tensor **)(n + 1);
    n->out = n->in + nin;
    n->g = n->out + nout;
    n->version = (uint32_t *)((char *)(n + 1) + pointers);
    n->attrs = (char *)n->version + versions;
    if (op->attr_size) memcpy(n->attrs, call->attrs, op->attr_size);
    n->path = path ? memcpy((char *)n->attrs + op->attr_size, c->path, path) : NULL;
    if (op->attrs_retain) op->attrs_retain(n->attrs);
    for (int i = 0; i < nin; i++) {
        cj_tensor *t = n->in[i] = call->in[i];
        cj__tensor_retain(t, i >= 32 || op->save_in >> i & 1);
        n->version[i] = t->st->version;
    }
    for (int j = 0; j < nout; j++) {
        cj_tensor *t = n->out[j] = call->out[j];
        cj__tensor_retain(t, op->save_out >> j & 1);
        n->version[nin + j] = t->st->version;
        n->g[j] = NULL;
        if (cj_dtype_is_float((cj_dtype)t->dtype)) {
            t->flags |= CJ_T_REQUIRES;
            t->node = n;
            t->out_index = (uint8_t)j;
        }
    }
    c->tape[c->tape_n++] = n;
    return true;
}

bool cj__tape_record(cj_ctx *c, cj_call *call) { return cj__tape_add(c, call); }

void cj__node_free(cj_ctx *c, cj_node *n)
{
    const cj_op *op = n->op;
    if (op->attrs_release) op->attrs_release(c, n->attrs);
    for (int j = 0; j < n->nout; j++) {
        if (n->out[j]->node == n) n->out[j]->node = NULL;
        if (n->g[j]) cj__tensor_release(n->g[j], true);
        cj__tensor_release(n->out[j], op->save_out >> j & 1);
    }
    for (int i = 0; i < n->nin; i++) cj__tensor_release(n->in[i], i >= 32 || op->save_in >> i & 1);
    cj__free(c, n, n->size);
}

void cj__tape_drop(cj_ctx *c, int64_t mark)
{
    while (c->tape_n > mark) {
        cj_node *n = c->tape[--c->tape_n];
        if (n) cj__node_free(c, n);
    }
}

/* ---- the pass -------------------------------------------------------------------------------------------------------------------------------- */

/* Adds g to a sum that this pass owns. */
static bool accumulate(cj_ctx *c, cj_tensor **sum, cj_tensor *g)
{
    if (!*sum) {
        cj__take(c, g);
        *sum = g;
        return true;
    }
    cj_tensor *total = cj_add(*sum, g);
    if (cj_is_poison(total)) return false;
    cj__take(c, total);
    cj__tensor_release(*sum, true);
    *sum = total;
    return true;
}

/* The same for a seed, which is the caller's and stays with its scope. */
static bool add_seed(cj_ctx *c, cj_tensor **sum, cj_tensor *seed)
{
    if (*sum) return accumulate(c, sum, seed); /* NOLINT: a tensor has a place in the sums only where there are sums */
    cj__tensor_retain(seed, true);
    *sum = seed;
    return true;
}

static bool check_versions(cj_ctx *c, const cj_node *n)
{
    for (int i = 0; i < n->nin + n->nout; i++) {
        bool in = i < n->nin;
        int k = in ? i : i - n->nin;
        if (!(in ? k >= 32 || n->op->save_in >> k & 1 : n->op->save_out >> k & 1)) continue;
        const cj_tensor *t = in ? n->in[k] : n->out[k];
        if (t->st && t->st->version != n->version[i])
            return cj__error(c, CJ_EGRAPH, "backward of %s: its %s %d was changed by %s after it had been used", n->op->name,
                             in ? "input" : "output", k + 1, t->st->writer ? t->st->writer->name : "a write");
    }
    return true;
}

/* The derivative of a composite through its definition: replayed on aliases of the inputs, differentiated from there. */
static bool replay_vjp(cj_ctx *c, cj_node *n, const bool *need, cj_tensor **gin, bool create_graph)
{
    cj_tensor **x = cj__alloc(c, (size_t)(3 * n->nin + 1) * sizeof *x);
    if (!x) return false;
    cj_tensor **wanted = x + n->nin, **got = wanted + n->nin, *out[CJ_MAX_OUTPUTS] = { 0 }, *y[CJ_MAX_OUTPUTS], *seed[CJ_MAX_OUTPUTS];
    int m = 0, ny = 0;
    bool was = c->grad_enabled;
    c->grad_enabled = true;
    for (int i = 0; i < n->nin; i++) {
        x[i] = need[i] ? cj__alias(n->in[i]) : n->in[i];
        if (need[i]) wanted[m++] = x[i];
    }
    int64_t from = c->tape_n;
    bool ok = c->error == CJ_OK && n->op->define(c, n->attrs, x, n->nin, out) && c->error == CJ_OK;
    c->grad_enabled = was;
    for (int j = 0; j < n->nout && ok; j++)
        if (n->g[j] && out[j]) {
            y[ny] = out[j];
            seed[ny++] = n->g[j];
        }
    ok = ok && cj__reverse(c, y, seed, ny, from, wanted, m, got, create_graph, create_graph);
    if (ok)
        for (int i = 0, k = 0; i < n->nin; i++)
            if (need[i]) gin[i] = got[k++];
    cj__free(c, x, (size_t)(3 * n->nin + 1) * sizeof *x);
    return ok;
}

static bool any_gradient(const cj_node *n)
{
    for (int j = 0; j < n->nout; j++)
        if (n->g[j]) return true;
    return false;
}

/* Runs one node: gradients of its outputs -> gradients of its inputs, handed on. */
static bool run_node(cj_ctx *c, cj_node *n, uint64_t id, cj_tensor **acc, bool create_graph)
{
    enum { FEW = 16 };
    const int nin = n->nin;
    bool few_need[FEW], *need = few_need;
    cj_tensor *few_gin[FEW], **gin = few_gin;
    size_t bytes = (size_t)nin * (sizeof *gin + sizeof *need);
    if (nin > FEW) {
        gin = cj__alloc(c, bytes);
        if (!gin) return false;
        need = (bool *)(gin + nin);
    }
    for (int i = 0; i < nin; i++) {
        cj_tensor *t = n->in[i];
        gin[i] = NULL;
        need[i] = (t->mark == id && t->slot >= 0) || (t->node && t->node->useful == id);
    }
    bool ok = check_versions(c, n);
    for (int i = 0; i < nin && ok; i++) /* a value whose own history was consumed by an earlier pass: never a silent zero */
        if (!need[i] && cj__requires(n->in[i]) && !n->in[i]->node && !(n->in[i]->flags & CJ_T_LEAF))
            ok = cj__error(c, CJ_EGRAPH, "backward of %s: the graph of its input %d was consumed by an earlier pass; set .retain there",
                           n->op->name, i + 1);
    if (ok && !n->op->vjp && !n->op->define) ok = cj__error(c, CJ_EGRAPH, "backward: %s has no derivative", n->op->name);
    int frame = ok ? cj__frame_open(c) : 0;
    if (frame) {
        bool named = n->path && !c->path[0];
        if (named) snprintf(c->path, sizeof c->path, "the gradient of %s", n->path);
        bool was = c->grad_enabled;
        c->grad_enabled = create_graph;
        bool recorded = create_graph || c->fwd_limit > 0; /* the derivative is itself differentiated: a fused backward would hide it */
        if (n->op->define && (!n->op->vjp || (n->op->kind == CJ_COMPOSITE && recorded))) {
            ok = replay_vjp(c, n, need, gin, create_graph);
        } else {
            cj_vjp_args v = { c, n->attrs, n->in, n->out, n->g, gin, need, n->nin, n->nout };
            n->op->vjp(&v);
        }
        ok = ok && c->error == CJ_OK;
        for (int i = 0; i < nin && ok; i++) {
            cj_tensor *t = n->in[i];
            if (!need[i] || !gin[i]) continue;
            if (t->mark == id && t->slot >= 0) ok = accumulate(c, &acc[t->slot], gin[i]);
            if (ok && t->node && t->node->useful == id) ok = accumulate(c, &t->node->g[t->out_index], gin[i]);
        }
        c->grad_enabled = was;
        if (named) c->path[0] = 0;
        cj__frame_close(c, frame, NULL, 0);
    } else {
        ok = false;
    }
    if (gin != few_gin) cj__free(c, gin, bytes);
    return ok;
}

/* Marks the nodes that y reaches and, of them, those below which a wanted tensor lies. Returns the lowest node of interest; `gone` is a node
 * whose input has lost its history to an earlier pass. */
static int64_t mark_path(cj_ctx *c, cj_tensor *const *y, int ny, int64_t from, uint64_t id, int64_t *top, const cj_node **gone)
{
    *top = -1;
    *gone = NULL;
    for (int k = 0; k < ny; k++)
        if (y[k]->node && y[k]->node->seq >= from) {
            y[k]->node->mark = id;
            if (y[k]->node->seq > *top) *top = y[k]->node->seq;
        }
    int64_t low = *top + 1;
    for (int64_t s = *top; s >= from; s--) {
        cj_node *n = c->tape[s];
        if (!n || n->mark != id) continue;
        low = s;
        for (int i = 0; i < n->nin; i++) {
            const cj_tensor *t = n->in[i];
            if (t->node && t->node->seq >= from) t->node->mark = id;
            if (!t->node && cj__requires(t) && !(t->flags & CJ_T_LEAF) && t->mark != id) *gone = n;
        }
    }
    for (int64_t s = low; s <= *top; s++) {
        cj_node *n = c->tape[s];
        if (!n || n->mark != id) continue;
        for (int i = 0; i < n->nin && n->useful != id; i++) {
            cj_tensor *t = n->in[i];
            if ((t->mark == id && t->slot >= 0) || (t->node && t->node->seq >= from && t->node->useful == id)) n->useful = id;
        }
    }
    return low;
}

bool cj__reverse(cj_ctx *c, cj_tensor *const *y, cj_tensor *const *seed, int ny, int64_t from, cj_tensor *const *x, int n, cj_tensor **out,
                 bool create_graph, bool keep)
{
    enum { FEW = 64 };
    struct place {
        uint64_t mark;
        int32_t slot;
    } few[FEW],
        *was = n <= FEW ? few
                        : cj__alloc(c, (size_t)n * sizeof *was); /* a pass inside a rule (checkpoint) must not disturb the one around it */
    for (int i = 0; i < n; i++) out[i] = NULL;
    if (!was) return false;
    uint64_t id = ++c->backward_id;
    for (int i = 0; i < n; i++) was[i] = (struct place){ x[i]->mark, x[i]->slot };
    for (int i = 0; i < n; i++)
        if (x[i]->mark != id) {
            x[i]->mark = id;
            x[i]->slot = i;
        }
    const cj_node *gone;
    int64_t top, low = mark_path(c, y, ny, from, id, &top, &gone);
    const char *gone_name = gone ? gone->op->name : NULL; /* the node itself may be consumed below */
    bool ok = true;
    for (int k = 0; k < ny && ok; k++) {
        cj_tensor *t = y[k];
        if (t->mark == id && t->slot >= 0) ok = add_seed(c, &out[t->slot], seed[k]);
        if (t->node && t->node->seq >= from && ok) ok = add_seed(c, &t->node->g[t->out_index], seed[k]);
    }
    for (int64_t s = top; s >= low && ok; s--) {
        cj_node *node = c->tape[s];
        if (!node || node->mark != id) continue;
        if (node->useful == id && any_gradient(node)) {
            ok = cj__cancel_check(c) && run_node(c, node, id, out, create_graph);
        }
        for (int j = 0; j < node->nout; j++)
            if (node->g[j]) {
                cj__tensor_release(node->g[j], true);
                node->g[j] = NULL;
            }
        if (ok && !keep && node->useful == id) { /* consumed: what it saved is free for the rest of the pass */
            cj__node_free(c, node);
            c->tape[s] = NULL;
        }
    }
    if (!ok) /* leave no half sums behind */
        for (int64_t s = top; s >= low; s--) {
            cj_node *node = c->tape[s];
            if (!node || node->mark != id) continue;
            for (int j = 0; j < node->nout; j++)
                if (node->g[j]) {
                    cj__tensor_release(node->g[j], true);
                    node->g[j] = NULL;
                }
        }
    while (c->tape_n > 0 && !c->tape[c->tape_n - 1]) c->tape_n--;
    for (int i = 0; i < n && ok && gone_name; i++) /* what was not reached may lie behind what is gone: never a silent zero */
        if (!out[i] && x[i]->slot == i)
            ok = cj__error(c, CJ_EGRAPH, "backward of %s: the graph of an input was consumed by an earlier pass; set .retain there",
                           gone_name);
    for (int i = 0; i < n; i++) {
        if (x[i]->mark == id && x[i]->slot >= 0 && x[i]->slot < i) { /* the same tensor asked for twice */
            out[i] = out[x[i]->slot];
            continue;
        }
        if (!out[i]) continue;
        if (ok) cj__give(c, out[i]);
        else cj__tensor_release(out[i], true), out[i] = NULL;
    }
    for (int i = 0; i < n; i++) {
        x[i]->mark = was[i].mark;
        x[i]->slot = was[i].slot;
    }
    if (was != few) cj__free(c, was, (size_t)n * sizeof *was);
    return ok;
}

/* ---- public ------------------------------------------------------------------------------------------------------------------------------------- */

static bool differentiable(cj_ctx *c, const char *op, cj_tensor *y, cj_tensor *seed, cj_tensor **ones)
{
    if (c->error || !cj__usable(c, op, 0, y)) return false;
    if (!cj__requires(y)) {
        if (y->flags & CJ_T_CUT)
            return cj__error(c, CJ_EGRAPH, "%s: the value was kept and its graph cut; differentiate before cj_keep", op);
        return cj__error(c, CJ_EGRAPH, "%s: the value depends on nothing that requires gradients", op);
    }
    if (!y->node && !(y->flags & CJ_T_LEAF))
        return cj__error(c, CJ_EGRAPH, "%s: the graph is gone; a pass consumes it unless .retain is set", op);
    if (seed) {
        if (!cj__usable(c, op, 1, seed)) return false;
        if (seed->ndim != y->ndim || memcmp(seed->shape, y->shape, y->ndim * sizeof y->shape[0]) != 0)
            return cj__error(c, CJ_ESHAPE, "%s: seed %s does not fit %s", op, cj__tensor_text(seed), cj__tensor_text(y));
        *ones = seed;
        return true;
    }
    if (y->numel != 1) return cj__error(c, CJ_ESHAPE, "%s: %s has more than one element; give a seed", op, cj__tensor_text(y));
    *ones = cj_ones_like(y);
    return !cj_is_poison(*ones);
}

bool cj_grad(cj_tensor *y, cj_tensor *const *x, int n, cj_tensor **out, const cj_grad_opts *opts)
{
    cj_grad_opts o = opts ? *opts : (cj_grad_opts){ 0 };
    cj_ctx *c = y ? y->ctx : NULL;
    for (int i = 0; out && i < n; i++) out[i] = c ? c->poison : NULL;
    if (!c) return false;
    cj_tensor *seed;
    if (!cj__cancel_check(c)) return false;
    if (n < 0 || (n && (!x || !out))) return cj__error(c, CJ_EVALUE, "grad: the list of x or the room for results is NULL");
    if (o.allow_unused && cj__usable(c, "grad", 0, y) && !(y->flags & (CJ_T_REQUIRES | CJ_T_CUT))) {
        for (int i = 0; i < n; i++)
            if (!cj__usable(c, "grad", i + 1, x[i])) return false;
        for (int i = 0; i < n; i++) out[i] = cj_zeros_like(x[i]);
        return c->error == CJ_OK;
    }
    if (!differentiable(c, "grad", y, o.seed, &seed)) return false;
    for (int i = 0; i < n; i++) {
        if (!cj__usable(c, "grad", i + 1, x[i])) return false;
        if (!cj__requires(x[i]))
            return cj__error(c, CJ_EGRAPH, "grad: x[%d] does not require gradients%s", i,
                             x[i]->flags & CJ_T_CUT ? " (kept: its graph was cut)" : "");
    }
    cj_tensor **g = cj__alloc(c, (size_t)(n ? n : 1) * sizeof *g);
    if (!g) return false;
    bool ok = cj__reverse(c, &y, &seed, 1, 0, x, n, g, o.create_graph, o.create_graph || o.retain);
    for (int i = 0; i < n && ok; i++) {
        if (g[i]) out[i] = g[i];
        else if (o.allow_unused) out[i] = cj_zeros_like(x[i]);
        else ok = cj__error(c, CJ_EGRAPH, "grad: the value does not depend on x[%d]; set .allow_unused for zeros", i);
    }
    if (!ok)
        for (int i = 0; i < n; i++) out[i] = c->poison;
    cj__free(c, g, (size_t)(n ? n : 1) * sizeof *g);
    return ok;
}

/* The leaves that y depends on. Returns their number, or -1; the array is grown from the allocator. */
static int find_leaves(cj_ctx *c, cj_tensor *y, cj_tensor ***leaves, int *cap)
{
    int n = 0;
    uint64_t id = ++c->backward_id;
    *leaves = NULL;
    *cap = 0;
    int64_t top = y->node ? y->node->seq : -1;
    if (y->node) y->node->mark = id;
    for (int64_t s = top; s >= -1; s--) {
        cj_node *node = s >= 0 ? c->tape[s] : NULL;
        if (s >= 0 && (!node || node->mark != id)) continue;
        for (int i = 0; i < (s >= 0 ? node->nin : 1); i++) {
            cj_tensor *t = s >= 0 ? node->in[i] : y;
            if (t->node) t->node->mark = id;
            if (!(t->flags & CJ_T_LEAF) || t->mark == id) continue;
            if (n == *cap) {
                int more = *cap ? 2 * *cap : 32;
                cj_tensor **a = cj__alloc(c, 2 * (size_t)more * sizeof *a);
                if (!a) return -1;
                if (n) memcpy(a, *leaves, (size_t)n * sizeof *a);
                cj__free(c, *leaves, 2 * (size_t)*cap * sizeof *a);
                *leaves = a;
                *cap = more;
            }
            t->mark = id;
            (*leaves)[n++] = t;
        }
    }
    return n;
}

bool cj_backward(cj_tensor *y, const cj_grad_opts *opts)
{
    if (!y) return false;
    cj_grad_opts o = opts ? *opts : (cj_grad_opts){ 0 };
    cj_ctx *c = y->ctx;
    cj_tensor *seed, **leaves;
    int cap;
    if (!cj__cancel_check(c) || !differentiable(c, "backward", y, o.seed, &seed)) return false;
    int frame = cj__frame_open(c);
    if (!frame) return false;
    int n = find_leaves(c, y, &leaves, &cap);
    cj_tensor **g = leaves + cap;
    bool ok = n >= 0 && cj__reverse(c, &y, &seed, 1, 0, leaves, n, g, o.create_graph, o.create_graph || o.retain);
    bool was = c->grad_enabled;
    c->grad_enabled = false;
    /* First make room for all, then add: either every leaf gets its gradient or none. */
    for (int i = 0; i < n && ok; i++)
        if (g[i] && !leaves[i]->grad) {
            cj_tensor *t = cj__tensor_persistent(c, (cj_dtype)leaves[i]->dtype, leaves[i]->ndim, leaves[i]->shape, leaves[i]->st->device);
            ok = t && !cj_is_poison(cj_assign_(t, cj_zeros_like(t)));
            if (ok) leaves[i]->grad = t;
            else cj_release(t);
        }
    c->committing = ok;
    for (int i = 0; i < n && ok; i++)
        if (g[i]) ok = !cj_is_poison(cj_add_(leaves[i]->grad, g[i], 1));
    c->committing = false;
    c->grad_enabled = was;
    cj__free(c, leaves, 2 * (size_t)cap * sizeof *leaves);
    cj__frame_close(c, frame, NULL, 0);
    return ok && c->error == CJ_OK;
}

cj_tensor *cj_leaf_grad(cj_tensor *leaf) { return leaf ? leaf->grad : NULL; }

void cj_leaf_zero_grad(cj_tensor *leaf)
{
    if (!leaf || !leaf->grad) return;
    cj_scope s = cj_scope_open(leaf->ctx);
    cj_assign_(leaf->grad, cj_zeros_like(leaf->grad));
    cj_scope_close(s);
}

cj_tensor *cj_require_grad(cj_tensor *x)
{
    cj_tensor *leaf = cj_detach(x);
    if (cj_is_poison(leaf)) return leaf;
    if (!cj_dtype_is_float((cj_dtype)leaf->dtype))
        return cj_fail(x->ctx, CJ_EDTYPE, "require_grad: the value is %s; only floats have gradients",
                       cj_dtype_name((cj_dtype)leaf->dtype));
    leaf->flags |= CJ_T_REQUIRES | CJ_T_LEAF;
    return leaf;
}

cj_tensor *cj_detach(cj_tensor *x)
{
    if (!x) return NULL;
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, "detach", 0, x)) return c->poison;
    cj_tensor *d = cj__tensor_view(x, 0, x->ndim, x->shape, x->stride);
    return d ? d : c->poison;
}

bool cj_no_grad(cj_ctx *c) { return cj_grad_mode(c, false); }
bool cj_grad_mode(cj_ctx *c, bool enabled)
{
    if (!c) return false;
    bool was = c->grad_enabled;
    c->grad_enabled = enabled;
    return was;
}
bool cj_grad_enabled(const cj_ctx *c) { return c && c->grad_enabled; }

cj_tensor *cj__alias(cj_tensor *x) { return x && !cj_is_poison(x) ? cj_reshape(x, cj_shape_of(x)) : x; }
