/* A network layer by layer: what each layer has, gives, costs and sees, found by running it once on zeros while watching.
 *
 * The receptive field of a chain of windows grows by r += (k - 1)·d·j, j *= s, from r = j = 1 (r: positions seen, j: distance of neighbours, in input positions).
 * Branches of a residual or dense connection begin where the connection begins and the largest field counts.
 */
#include <math.h>
#include <stdio.h>

#include "nn/nn.h"

typedef struct field {
    bool known, whole;
    int axes;
    int64_t size[3], jump[3];
} field;

enum { MAX_DEPTH = 64 };

typedef struct frame {
    cj_module *m;
    field in, last;
    bool parallel; /* children begin at `in`, the largest counts */
    bool listed;
    double flops; /* total when it began; then what its children took */
    double children;
    int row;
} frame;

typedef struct describer {
    cj_observer seam;
    cj_ctx *c;
    cj_module_row *rows;
    int n, room, depth;
    frame stack[MAX_DEPTH];
    double flops;
    int64_t examples;
    cj_tensor **seen; /* parameters counted so far */
    int seen_n, seen_cap;
    bool (*was)(cj_ctx *, cj_call *);
} describer;

/* flops of every operator that runs, in the place of the profiler */
static bool count_flops(cj_ctx *c, cj_call *call)
{
    describer *d = c->observer;
    if (!call || !d || call->op->flags & CJ_OP_VIEW || (call->op->define && !call->op->run)) return true;
    if (call->op->flops) d->flops += call->op->flops(call);
    return true;
}

static bool parallel(const cj_module *m)
{
    const char *type = cj_module_type_name(m);
    return strcmp(type, "Residual") == 0 || strcmp(type, "DenseConnection") == 0;
}

static field larger(field a, field b)
{
    if (!a.known || !b.known) return (field){ 0 };
    field f = b;
    f.whole = a.whole || b.whole;
    for (int d = 0; d < f.axes; d++) f.size[d] = a.size[d] > b.size[d] ? a.size[d] : b.size[d];
    return f;
}

/* What a layer's result sees, for a layer whose input sees `in`. */
static field through(const cj_module *m, const cj_tensor *x, field in)
{
    static const char *const everything[] = { "LSTM", "GRU", "RNN", "LightGRU", "MultiheadAttention", "Flatten" };
    cj_window_geometry w;
    field f = in;
    if (!in.known) return f;
    for (size_t i = 0; i < sizeof everything / sizeof *everything; i++)
        f.whole = f.whole || strcmp(cj_module_type_name(m), everything[i]) == 0;
    if (strncmp(cj_module_type_name(m), "ConvTranspose", 13) == 0 || strcmp(cj_module_type_name(m), "Upsample") == 0) f.known = false;
    if (f.whole || !cj__conv_window(m, x, &w) || w.axes != f.axes) return f;
    f.whole = w.whole;
    for (int d = 0; d < f.axes && !w.whole; d++) {
        f.size[d] += (w.kernel[d] - 1) * w.dilation[d] * f.jump[d];
        f.jump[d] *= w.stride[d];
    }
    return f;
}

/* Names from the root to m, with points between them; false where m is not in the tree. */
static bool path_of(const cj_module *root, const cj_module *m, char *out, size_t room)
{
    if (root == m) return true;
    for (int i = 0; i < cj_module_children(root); i++) {
        int n = snprintf(out, room, "%s", cj_module_child_name(root, i));
        if (n < 0 || (size_t)n + 1 >= room) continue;
        char *rest = out + n;
        if (cj_module_child(root, i) == m) return true;
        rest[0] = '.';
        if (path_of(cj_module_child(root, i), m, rest + 1, room - (size_t)n - 1)) return true;
    }
    return false;
}

static void begins(cj_observer *o, cj_module *m, cj_tensor *x)
{
    describer *d = (describer *)o;
    if (d->depth++ >= MAX_DEPTH) return;
    frame *f = &d->stack[d->depth - 1], *outer = d->depth > 1 ? f - 1 : NULL;
    *f = (frame){ .m = m, .parallel = parallel(m), .flops = d->flops };
    if (outer) f->in = outer->parallel ? outer->in : outer->last;
    else {
        f->in = (field){ .known = x->ndim >= 3 && x->ndim <= 5, .axes = x->ndim - 2 };
        for (int i = 0; i < f->in.axes && f->in.known; i++) f->in.size[i] = f->in.jump[i] = 1;
    }
    f->last = cj_module_children(m) ? f->in : through(m, x, f->in);
    f->listed = !cj_module_children(m) || cj__module_own(m, "weight") || cj__module_own(m, "in_proj_weight");
    if (!f->listed) return;
    f->row = d->n++;
    if (f->row >= d->room) return;
    cj_module_row *r = &d->rows[f->row];
    *r = (cj_module_row){ .type = cj_module_type_name(m) };
    if (!path_of(d->stack[0].m, m, r->path, sizeof r->path)) snprintf(r->path, sizeof r->path, "%s", d->c->path);
}

typedef struct counting {
    describer *d;
    cj_module_row *r;
} counting;

static void count_tensor(void *user, const char *name, cj_tensor *t)
{
    counting *k = user;
    describer *d = k->d;
    (void)name;
    for (int i = 0; i < d->seen_n; i++)
        if (d->seen[i] == t) return; /* shared: where it is met first */
    if (d->seen_n == d->seen_cap) {
        int cap = d->seen_cap ? 2 * d->seen_cap : 64;
        cj_tensor **more = cj__alloc(d->c, (size_t)cap * sizeof *more);
        if (!more) return;
        if (d->seen_n) memcpy(more, d->seen, (size_t)d->seen_n * sizeof *more);
        cj__free(d->c, d->seen, (size_t)d->seen_cap * sizeof *more);
        d->seen = more;
        d->seen_cap = cap;
    }
    d->seen[d->seen_n++] = t;
    if (t->flags & CJ_T_LEAF) k->r->params += t->numel;
    k->r->bytes += t->numel * (int64_t)cj_dtype_size((cj_dtype)t->dtype);
}

static void ends(cj_observer *o, cj_module *m, cj_tensor *y)
{
    describer *d = (describer *)o;
    if (--d->depth >= MAX_DEPTH) return;
    frame *f = &d->stack[d->depth], *outer = d->depth > 0 ? f - 1 : NULL;
    double all = d->flops - f->flops;
    if (outer) {
        outer->last = outer->parallel ? larger(outer->last, f->last) : f->last;
        outer->children += all;
    }
    if (!f->listed || f->row >= d->room) return;
    cj_module_row *r = &d->rows[f->row];
    cj__module_visit_own(m, count_tensor, &(counting){ d, r });
    r->output = cj_shape_of(y);
    r->activations = y->numel / d->examples;
    r->flops = (all - f->children) / (double)d->examples;
    for (int i = 0; i < f->last.axes && f->last.known; i++) r->field[i] = f->last.whole ? -1 : f->last.size[i];
}

int cj_module_describe(cj_module *m, cj_shape input, cj_module_row *rows, int n, const cj_describe_opts *opts)
{
    if (!m) return -1;
    cj_ctx *c = cj_module_ctx(m);
    cj_describe_opts o = opts ? *opts : (cj_describe_opts){ 0 };
    if (c->error) return -1;
    if (n < 0 || (n && !rows)) return cj_fail(c, CJ_EVALUE, "module_describe: room for %d rows", n), -1;
    if (input.ndim < 1 || input.dim[0] < 1) return cj_fail(c, CJ_ESHAPE, "module_describe: an input shape [examples, ..] expected"), -1;
    if (c->trace || c->observer || c->active & 1u << CJ_REC_PROFILE)
        return cj_fail(c, CJ_ESTATE, "module_describe: called while a step is captured, profiled or described"), -1;
    describer d = {
        .seam = { begins, ends }, .c = c, .rows = rows, .room = n, .examples = input.dim[0], .was = c->recorder[CJ_REC_PROFILE].record
    };
    bool training = cj_module_training(m), grad = cj_no_grad(c);
    cj_rng_state rng = cj_rng_get(c);
    cj_module_train(m, false); /* statistics stay as they are */
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_zeros(c, input, o.dtype);
    c->observer = &d;
    c->recorder[CJ_REC_PROFILE].record = count_flops;
    c->active |= 1u << CJ_REC_PROFILE;
    cj_forward(m, x);
    c->active &= (uint8_t) ~(1u << CJ_REC_PROFILE);
    c->recorder[CJ_REC_PROFILE].record = d.was;
    c->observer = NULL;
    cj_scope_close(s);
    cj_module_train(m, training);
    cj_grad_mode(c, grad);
    cj_rng_set(c, rng);
    cj__free(c, d.seen, (size_t)d.seen_cap * sizeof *d.seen);
    return c->error ? -1 : d.n;
}

cj_module_summary cj_module_summarise(const cj_module_row *rows, int n)
{
    cj_module_summary s = { .acyclic = true, .fully_connected = true };
    int64_t last = 0;
    for (int i = 0; rows && i < n; i++) {
        const cj_module_row *r = &rows[i];
        const char *t = r->type;
        s.params += r->params;
        s.bytes += r->bytes;
        s.flops += r->flops;
        s.activations += r->activations;
        if (strcmp(t, "LSTM") == 0 || strcmp(t, "GRU") == 0 || strcmp(t, "RNN") == 0 || strcmp(t, "LightGRU") == 0) s.acyclic = false;
        if (r->params && strcmp(t, "Linear") != 0) s.fully_connected = false;
        if (strcmp(t, "Linear") != 0 && strncmp(t, "Conv", 4) != 0) continue;
        if (last) { /* all layers of units but the last are hidden */
            s.depth++;
            s.capacity += last;
            s.width = last > s.width ? last : s.width;
        }
        last = r->activations;
    }
    s.deep = s.depth > 1;
    return s;
}

bool cj_receptive_field(const int64_t *kernel, const int64_t *stride, const int64_t *dilation, int n, int64_t *size)
{
    if (n < 0 || (n && (!kernel || !size))) return false;
    int64_t r = 1, jump = 1;
    for (int l = 0; l < n; l++) {
        int64_t s = stride ? stride[l] : 1, d = dilation ? dilation[l] : 1;
        if (kernel[l] < 1 || s < 1 || d < 1) return false;
        r += (kernel[l] - 1) * d * jump;
        jump *= s;
        size[l] = r;
    }
    return true;
}
