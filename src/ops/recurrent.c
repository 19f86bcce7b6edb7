/* Recurrent networks over whole sequences: rnn, lstm, gru, light gru.
 *
 * The input terms of all steps are one product (cj_linear_op); a row of this file is the recurrence on them.  Its definition is a loop of public operators; the fused kernels
 * (kernels/cpu/recurrent.h) save gates and cell states privately, and the gradient of w_hh is one product over all steps:
 *   dw_hh = sum over t of da[t]ᵀ·h[t-1]      (of a gru, da of n is replaced by the gradient of w_hh·h + b_hh, which r multiplies)
 */
#include "kernels/cpu/recurrent.h"

#include "cajal/grad.h"
#include "ops/ops.h"

enum { HAS_BIAS = CJ_RECURRENT_BIAS, HAS_H0 = CJ_RECURRENT_H0, HAS_C0 = CJ_RECURRENT_C0, HAS_LENGTHS = CJ_RECURRENT_LENGTHS };
typedef cj_recurrent_attrs recurrent_attrs;

/* The inputs of a row by name. */
typedef struct operands {
    cj_tensor *a, *w, *b, *h0, *c0, *lengths;
    int64_t T, N, H, G;
} operands;

static operands operands_of(const recurrent_attrs *at, cj_tensor *const *in)
{
    operands o = { .a = in[0], .w = in[1], .G = cj__cell_gates((cj_cell)at->cell) };
    int i = 2;
    if (at->has & HAS_BIAS) o.b = in[i++];
    if (at->has & HAS_H0) o.h0 = in[i++];
    if (at->has & HAS_C0) o.c0 = in[i++];
    if (at->has & HAS_LENGTHS) o.lengths = in[i];
    o.T = o.a->shape[0], o.N = o.a->shape[1], o.H = o.w->shape[1];
    return o;
}

static const char *const names[CJ_CELLS] = { "rnn", "lstm", "gru", "light_gru" };

static bool check_lengths(cj_ctx *c, const char *op, const cj_tensor *lengths, int64_t steps)
{
    for (int64_t n = 0; n < lengths->numel; n++) {
        int64_t length = ((const int64_t *)lengths->data)[n];
        if (length < 1 || length > steps)
            return cj__error(c, CJ_EINDEX, "%s: the length of sequence %lld is %lld; 1 to %lld steps expected", op, (long long)n,
                             (long long)length, (long long)steps);
    }
    return true;
}

/* ---- the definition ---------------------------------------------------------------------------------------------------------------------------------- */

/* Stacked along a new first axis, however many there are. */
static cj_tensor *stack_all(cj_tensor **x, int64_t n)
{
    if (n <= CJ_MAX_INPUTS) return cj_stack(x, (int)n, 0);
    int64_t parts = 0;
    for (int64_t i = 0; i < n; i += CJ_MAX_INPUTS) x[parts++] = cj_stack(x + i, (int)(n - i < CJ_MAX_INPUTS ? n - i : CJ_MAX_INPUTS), 0);
    return cj_cat(x, (int)parts, 0);
}

static bool define(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)nin;
    const recurrent_attrs *at = attrs;
    const operands o = operands_of(at, in);
    const int64_t T = o.T, N = o.N, H = o.H;
    const cj_dtype t = (cj_dtype)o.a->dtype;
    if (o.lengths && !o.lengths->st->device && !o.lengths->st->dry && !check_lengths(c, names[at->cell], o.lengths, T)) return false;
    cj_tensor *zero = cj_zeros(c, CJ_SHAPE(N, H), t), *one = cj_ones(c, CJ_SHAPE(N, H), t);
    cj_tensor *h = o.h0 ? o.h0 : zero, *cell = o.c0 ? o.c0 : zero;
    cj_tensor **y = cj__alloc(c, (size_t)T * sizeof(cj_tensor *));
    if (!y) return false;
    for (int64_t step = 0; step < T; step++) {
        const int64_t time = at->reverse ? T - 1 - step : step;
        const bool border = at->truncate && step && step % at->truncate == 0;
        cj_tensor *before = border ? cj_detach(h) : h, *cell_before = border ? cj_detach(cell) : cell;
        cj_tensor *a = cj_select(o.a, 0, time), *u = cj_matmul(before, cj_t(o.w)), *next, *next_cell = NULL;
#define GATE(x, k) cj_slice(x, 1, (k)*H, ((k) + 1) * H, 1)
        switch ((cj_cell)at->cell) {
        case CJ_CELL_LSTM: {
            cj_tensor *s = cj_add(a, u);
            next_cell = cj_add(cj_mul(cj_sigmoid(GATE(s, 1)), cell_before), cj_mul(cj_sigmoid(GATE(s, 0)), cj_tanh(GATE(s, 2))));
            next = cj_mul(cj_sigmoid(GATE(s, 3)), cj_tanh(next_cell));
            break;
        }
        case CJ_CELL_GRU: {
            cj_tensor *r = cj_sigmoid(cj_add(GATE(a, 0), GATE(u, 0))), *z = cj_sigmoid(cj_add(GATE(a, 1), GATE(u, 1)));
            cj_tensor *un = o.b ? cj_add(GATE(u, 2), o.b) : GATE(u, 2), *n = cj_tanh(cj_add(GATE(a, 2), cj_mul(r, un)));
            next = cj_add(cj_mul(cj_sub(one, z), n), cj_mul(z, before));
            break;
        }
        case CJ_CELL_LIGHT_GRU: {
            cj_tensor *s = cj_add(a, u), *z = cj_sigmoid(GATE(s, 0)), *n = at->relu ? cj_relu(GATE(s, 1)) : cj_tanh(GATE(s, 1));
            next = cj_add(cj_mul(cj_sub(one, z), n), cj_mul(z, before));
            break;
        }
        default: next = at->relu ? cj_relu(cj_add(a, u)) : cj_tanh(cj_add(a, u));
        }
#undef GATE
        cj_tensor *shown = next;
        if (o.lengths) { /* a sequence that is over keeps its state, which no border cuts */
            cj_tensor *active = cj_unsqueeze(cj_gt_scalar(o.lengths, (double)time), 1);
            shown = cj_where(active, next, zero);
            next = cj_where(active, next, h);
            if (next_cell) next_cell = cj_where(active, next_cell, cell);
        }
        y[time] = shown;
        h = next;
        if (next_cell) cell = next_cell;
    }
    out[0] = stack_all(y, T);
    out[1] = h;
    out[2] = out[3] = zero; /* what the fused kernel saves has no meaning here */
    if (at->cell == CJ_CELL_LSTM) out[2] = cell;
    cj__free(c, y, (size_t)T * sizeof(cj_tensor *));
    return c->error == CJ_OK;
}

/* ---- forward ------------------------------------------------------------------------------------------------------------------------------------------------ */

static void *data_of(const cj_tensor *t) { return t && t->numel ? t->data : NULL; }

static cj_recurrence recurrence_of(const recurrent_attrs *at, const operands *o)
{
    return (cj_recurrence){ .cell = (cj_cell)at->cell,
                            .relu = at->relu,
                            .reverse = at->reverse,
                            .steps = o->T,
                            .batch = o->N,
                            .hidden = o->H,
                            .truncate = at->truncate,
                            .lengths = data_of(o->lengths),
                            .a = data_of(o->a),
                            .w = data_of(o->w),
                            .b = data_of(o->b),
                            .h0 = data_of(o->h0),
                            .c0 = data_of(o->c0) };
}

static bool infer(cj_call *call)
{
    const recurrent_attrs *at = call->attrs;
    const operands o = operands_of(at, call->in);
    const cj_dtype t = (cj_dtype)o.a->dtype;
    if (t != CJ_F32 && t != CJ_F64)
        return cj__error(call->ctx, CJ_EDTYPE, "%s: the input terms are %s, f32 or f64 expected", call->op->name, cj_dtype_name(t));
    for (int i = 0; i < call->nin; i++)
        if (!cj__contiguous(call->in[i])) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    const bool lstm = at->cell == CJ_CELL_LSTM;
    const cj_recurrence r = recurrence_of(at, &o);
    const int64_t none = 0, y[3] = { o.T, o.N, o.H }, s[2] = { o.N, o.H };
    const int64_t saved = at->save && !o.a->st->device ? call->ctx->k->recurrent_saved(&r, t) : 0;
    return cj__out(call, 0, t, 3, y) && cj__out(call, 1, t, 2, s) && cj__out(call, 2, t, lstm ? 2 : 1, lstm ? s : &none) &&
           cj__out(call, 3, t, 1, &saved);
}

static bool run_kernel(cj_ctx *c, const cj_recurrence *r, cj_dtype t, bool backward)
{
    if (!r->batch) return true;
    void *scratch = cj__scratch(c, c->k->recurrent_workspace(r, t, backward, c->threads));
    if (!scratch) return false;
    c->k->recurrent(c->pool, r, t, backward, scratch);
    return true;
}

static bool run(cj_call *call)
{
    const recurrent_attrs *at = call->attrs;
    const operands o = operands_of(at, call->in);
    if (o.lengths && !check_lengths(call->ctx, call->op->name, o.lengths, o.T)) return false;
    cj_recurrence r = recurrence_of(at, &o);
    r.y = data_of(call->out[0]), r.h_n = data_of(call->out[1]), r.c_n = data_of(call->out[2]);
    r.saved = data_of(call->out[3]);
    return run_kernel(call->ctx, &r, (cj_dtype)o.a->dtype, false);
}

static double flops(const cj_call *call)
{
    const operands o = operands_of(call->attrs, call->in);
    return 2.0 * (double)(o.T * o.N) * (double)(o.G * o.H) * (double)o.H;
}

/* ---- backward: inputs are those of the row with y for a, then what was saved and the gradients that are there; outputs da, dn, dh0, dc0 ------------------------------- */

static bool infer_backward(cj_call *call)
{
    const recurrent_attrs *at = call->attrs;
    const operands o = operands_of(at, call->in);
    const cj_dtype t = (cj_dtype)o.a->dtype;
    const int64_t none = 0, da[3] = { o.T, o.N, o.G * o.H }, dn[3] = { o.T, o.N, o.H }, s[2] = { o.N, o.H };
    const bool gru = at->cell == CJ_CELL_GRU;
    return cj__out(call, 0, t, 3, da) && cj__out(call, 1, t, gru ? 3 : 1, gru ? dn : &none) &&
           cj__out(call, 2, t, o.h0 ? 2 : 1, o.h0 ? s : &none) && cj__out(call, 3, t, o.c0 ? 2 : 1, o.c0 ? s : &none);
}

static bool run_backward(cj_call *call)
{
    const recurrent_attrs *at = call->attrs;
    const operands o = operands_of(at, call->in);
    cj_recurrence r = recurrence_of(at, &o);
    r.a = NULL, r.y = data_of(o.a);
    int i = 2;
    for (int64_t bits = at->has; bits; bits &= bits - 1) i++;
    r.saved = data_of(call->in[i++]);
    if (at->given & 1) r.dy = data_of(call->in[i++]);
    if (at->given & 2) r.dh_n = data_of(call->in[i++]);
    if (at->given & 4) r.dc_n = data_of(call->in[i]);
    r.da = data_of(call->out[0]), r.dn = data_of(call->out[1]), r.dh0 = data_of(call->out[2]), r.dc0 = data_of(call->out[3]);
    return run_kernel(call->ctx, &r, (cj_dtype)o.a->dtype, true);
}

static void derivative(cj_vjp_args *v);

#define ROW(cell_name)                                                                                                                     \
    {                                                                                                                                      \
        .name = cell_name, .family = "recurrent", .kind = CJ_COMPOSITE, .nin = -1, .nout = 4, .attr_size = sizeof(recurrent_attrs),        \
        .save_in = 63, .save_out = 1 | 8, .infer = infer, .run = run, .vjp = derivative, .define = define, .flops = flops                  \
    }
#define BACKWARD_ROW(row_name)                                                                                                             \
    {                                                                                                                                      \
        .name = row_name, .family = "recurrent", .kind = CJ_INTERNAL, .flags = CJ_OP_NOGRAD, .nin = -1, .nout = 4,                         \
        .attr_size = sizeof(recurrent_attrs), .infer = infer_backward, .run = run_backward, .flops = flops                                 \
    }
enum { BACKWARD = CJ_CELLS };
const cj_op cj__ops_recurrent[] = {
    [CJ_CELL_RNN] = ROW("rnn"),
    [CJ_CELL_LSTM] = ROW("lstm"),
    [CJ_CELL_GRU] = ROW("gru"),
    [CJ_CELL_LIGHT_GRU] = ROW("light_gru"),
    [BACKWARD + CJ_CELL_RNN] = BACKWARD_ROW("rnn_backward"),
    [BACKWARD + CJ_CELL_LSTM] = BACKWARD_ROW("lstm_backward"),
    [BACKWARD + CJ_CELL_GRU] = BACKWARD_ROW("gru_backward"),
    [BACKWARD + CJ_CELL_LIGHT_GRU] = BACKWARD_ROW("light_gru_backward"),
};
CJ_OP_TABLE(recurrent);

/* gᵀ·h over all steps but the first of the sequence, whose h is h0: g [T, N, k], y [T, N, H]. */
static cj_tensor *over_steps(cj_tensor *g, cj_tensor *y, bool reverse)
{
    const int64_t T = y->shape[0], rows = (T - 1) * y->shape[1];
    cj_tensor *later = cj_slice(g, 0, reverse ? 0 : 1, reverse ? T - 1 : T, 1),
              *h = cj_slice(y, 0, reverse ? 1 : 0, reverse ? T : T - 1, 1);
    return cj_matmul(cj_t(cj_reshape(later, CJ_SHAPE(rows, g->shape[2]))), cj_reshape(h, CJ_SHAPE(rows, y->shape[2])));
}

/* Row n of the result: g [T, N, k] at the step with which sequence n begins. */
static cj_tensor *first_steps(cj_tensor *g, cj_tensor *lengths, bool reverse)
{
    const int64_t T = g->shape[0], N = g->shape[1];
    if (!reverse || !lengths) return cj_select(g, 0, reverse ? T - 1 : 0);
    cj_tensor *at = cj_add(cj_mul_scalar(cj_add_scalar(lengths, -1), (double)N), cj_arange(g->ctx, 0, (double)N, 1, CJ_I64));
    return cj_index_select(cj_reshape(g, CJ_SHAPE(T * N, g->shape[2])), 0, at);
}

static cj_tensor *weight_gradient(cj_tensor *g, cj_tensor *y, const operands *o, bool reverse)
{
    cj_tensor *dw = over_steps(g, y, reverse);
    if (!o->h0) return dw;
    return cj_add(dw, cj_matmul(cj_t(first_steps(g, o->lengths, reverse)), o->h0));
}

static void derivative(cj_vjp_args *v)
{
    recurrent_attrs at = *(const recurrent_attrs *)v->attrs;
    const operands o = operands_of(&at, v->in);
    cj_tensor *in[16], *out[4], *y = v->out[0];
    int n = v->nin;
    memcpy(in, v->in, (size_t)n * sizeof *in);
    in[0] = y;
    in[n++] = v->out[3];
    at.given = 0;
    for (int j = 0; j < 3; j++)
        if ((j < 2 || at.cell == CJ_CELL_LSTM) && v->g[j]) at.given |= 1 << j, in[n++] = cj_contiguous(v->g[j]);
    if (!at.given) return;
    cj__apply_n(v->ctx, &cj__ops_recurrent[BACKWARD + at.cell], &at, in, n, out);
    int i = 2;
    v->gin[0] = out[0];
    if (v->need[1] && at.cell != CJ_CELL_GRU) v->gin[1] = weight_gradient(out[0], y, &o, at.reverse);
    if (v->need[1] && at.cell == CJ_CELL_GRU) {
        cj_tensor *rz = weight_gradient(cj_slice(out[0], 2, 0, 2 * o.H, 1), y, &o, at.reverse);
        v->gin[1] = cj_cat((cj_tensor *[]){ rz, weight_gradient(out[1], y, &o, at.reverse) }, 2, 0);
    }
    if (at.has & HAS_BIAS) v->gin[i] = v->need[i] ? cj_sum(out[1], &(cj_reduce_opts){ .axes = CJ_AXES(0, 1) }) : NULL, i++;
    if (at.has & HAS_H0) v->gin[i++] = out[2];
    if (at.has & HAS_C0) v->gin[i] = out[3];
}

/* ---- what users call ------------------------------------------------------------------------------------------------------------------------------------------- */

/* One layer in one direction; b_ih, b_hh, h0 and c0 may be NULL. */
typedef struct layer {
    cj_tensor *w_ih, *w_hh, *b_ih, *b_hh, *h0, *c0;
} layer;

/* What all layers of a call share. */
typedef struct network {
    cj_ctx *c;
    cj_cell cell;
    const char *name;
    cj_dtype dtype; /* of the arguments; the layers compute in f32 or f64 */
    bool relu, unbatched;
    int64_t T, N, G;
    cj_tensor *lengths;
    int64_t truncate;
} network;

/* Is the argument usable, of the network's type and of this shape? */
static bool fits(const network *w, const char *what, const cj_tensor *t, cj_shape shape)
{
    if (!cj__usable(w->c, w->name, 1, t)) return false;
    if (t->ndim != shape.ndim || memcmp(t->shape, shape.dim, (size_t)shape.ndim * sizeof(int64_t)) != 0)
        return cj__error(w->c, CJ_ESHAPE, "%s: %s is %s, %s expected", w->name, what, cj__tensor_text(t),
                         cj__shape_text(shape.ndim, shape.dim));
    if (t->dtype != w->dtype)
        return cj__error(w->c, CJ_EDTYPE, "%s: %s is %s, the input %s; one type expected", w->name, what, cj_dtype_name((cj_dtype)t->dtype),
                         cj_dtype_name(w->dtype));
    return true;
}

static bool layer_fits(const network *w, const layer *l, int64_t inputs)
{
    if (!cj__usable(w->c, w->name, 2, l->w_hh)) return false;
    const int64_t H = l->w_hh->ndim == 2 ? l->w_hh->shape[1] : 0, G = w->G;
    if (H < 1 || l->w_hh->shape[0] != G * H)
        return cj__error(w->c, CJ_ESHAPE, "%s: w_hh is %s; [%lld, H] with %lld gates of H units expected", w->name,
                         cj__tensor_text(l->w_hh), (long long)(H > 0 ? G * H : G), (long long)G);
    if (!l->w_ih && inputs != G * H)
        return cj__error(w->c, CJ_ESHAPE, "%s: without w_ih the input has %lld values a step, %lld gates of %lld units expected", w->name,
                         (long long)inputs, (long long)G, (long long)H);
    return fits(w, "w_hh", l->w_hh, CJ_SHAPE(G * H, H)) && (!l->w_ih || fits(w, "w_ih", l->w_ih, CJ_SHAPE(G * H, inputs))) &&
           (!l->b_ih || fits(w, "b_ih", l->b_ih, CJ_SHAPE(G * H))) && (!l->b_hh || fits(w, "b_hh", l->b_hh, CJ_SHAPE(G * H))) &&
           (!l->h0 || fits(w, "h0", l->h0, CJ_SHAPE(w->N, H))) && (!l->c0 || fits(w, "c0", l->c0, CJ_SHAPE(w->N, H)));
}

static bool is_half(cj_dtype t) { return t == CJ_BF16 || t == CJ_F16; }
static cj_tensor *widened(const network *w, cj_tensor *t) { return t && is_half(w->dtype) ? cj_cast(t, CJ_F32) : t; }
static cj_tensor *rounded(const network *w, cj_tensor *t) { return t && is_half(w->dtype) ? cj_cast(t, w->dtype) : t; }

static cj_tensor *sum_of(cj_tensor *a, cj_tensor *b) { return a && b ? cj_add(a, b) : a ? a : b; }

/* x [T, N, I] of the type that is computed in. */
static cj_recurrent_result run_layer(const network *w, cj_tensor *x, layer l, bool reverse)
{
    cj_ctx *c = w->c;
    const int64_t H = l.w_hh->shape[1];
    cj_tensor *in[6], *out[4], *bias = widened(w, l.b_ih), *b_hh = widened(w, l.b_hh), *b_n = NULL;
    if (w->cell == CJ_CELL_GRU && b_hh) { /* of n it stays with w_hh·h, which r multiplies */
        b_n = cj_slice(b_hh, 0, 2 * H, 3 * H, 1);
        cj_tensor *rz = sum_of(bias ? cj_slice(bias, 0, 0, 2 * H, 1) : NULL, cj_slice(b_hh, 0, 0, 2 * H, 1));
        bias = cj_cat((cj_tensor *[]){ rz, bias ? cj_slice(bias, 0, 2 * H, 3 * H, 1) : cj_zeros_like(b_n) }, 2, 0);
    } else {
        bias = sum_of(bias, b_hh);
    }
    cj_tensor *a = l.w_ih ? cj_linear_op(x, widened(w, l.w_ih), bias) : bias ? cj_add(x, bias) : x;
    recurrent_attrs at = { .cell = w->cell, .relu = w->relu, .reverse = reverse, .truncate = w->truncate };
    int n = 0;
    in[n++] = cj_contiguous(a);
    in[n++] = cj_contiguous(widened(w, l.w_hh));
    if (b_n) at.has |= HAS_BIAS, in[n++] = cj_contiguous(b_n);
    if (l.h0) at.has |= HAS_H0, in[n++] = cj_contiguous(widened(w, l.h0));
    if (l.c0) at.has |= HAS_C0, in[n++] = cj_contiguous(widened(w, l.c0));
    if (w->lengths) at.has |= HAS_LENGTHS, in[n++] = w->lengths;
    for (int i = 0; i < n && c->grad_enabled; i++) at.save |= cj__requires(in[i]);
    cj__apply_n(c, &cj__ops_recurrent[w->cell], &at, in, n, out);
    return (cj_recurrent_result){ out[0], out[1], w->cell == CJ_CELL_LSTM ? out[2] : NULL };
}

static bool options_ok(cj_ctx *c, const char *op, const cj_recurrent_opts *o, bool stack)
{
    if (o->truncate < 0)
        return cj__error(c, CJ_EVALUE, "%s: truncate %lld; 0 (never) or a number of steps expected", op, (long long)o->truncate);
    if (o->activation < CJ_ACTIVATION_USUAL || o->activation > CJ_ACTIVATION_RELU)
        return cj__error(c, CJ_EVALUE, "%s: activation %d is neither tanh nor relu", op, (int)o->activation);
    if (stack && o->reverse) return cj__error(c, CJ_EVALUE, "%s: reverse is of single layers; stacks have bidirectional", op);
    if (!stack && (o->layers || o->bidirectional || o->dropout != 0 || o->eval))
        return cj__error(c, CJ_EVALUE, "%s: layers, bidirectional, dropout and eval are options of stacks; call cj_recurrent", op);
    if (o->layers < 0) return cj__error(c, CJ_EVALUE, "%s: %d layers", op, o->layers);
    if (!(o->dropout >= 0 && o->dropout <= 1)) return cj__error(c, CJ_EVALUE, "%s: dropout %g is not a probability", op, o->dropout);
    return true;
}

/* Checks x, options and lengths, and brings x into the form [T, N, I] of the type that is computed in. */
static bool prepare(network *w, cj_tensor **x, const cj_recurrent_opts *o, bool stack)
{
    cj_ctx *c = w->c;
    cj_tensor *t = *x;
    if (c->error || !cj__usable(c, w->name, 0, t) || !options_ok(c, w->name, o, stack)) return false;
    w->dtype = (cj_dtype)t->dtype;
    if (!cj_dtype_is_float(w->dtype))
        return cj__error(c, CJ_EDTYPE, "%s: the input is %s, a float type expected", w->name, cj_dtype_name(w->dtype));
    if ((o->activation && w->cell != CJ_CELL_RNN && w->cell != CJ_CELL_LIGHT_GRU))
        return cj__error(c, CJ_EVALUE, "%s: the activation can be chosen in rnn and light_gru only", w->name);
    if (o->c0 && w->cell != CJ_CELL_LSTM) return cj__error(c, CJ_EVALUE, "%s: c0 is given, but only an lstm has cells", w->name);
    if (t->ndim != 2 && t->ndim != 3)
        return cj__error(c, CJ_ESHAPE, "%s: the input is %s; [%s, I] or [T, I] expected", w->name, cj__tensor_text(t),
                         o->batch_first ? "N, T" : "T, N");
    w->unbatched = t->ndim == 2;
    t = w->unbatched ? cj_unsqueeze(t, 1) : o->batch_first ? cj_transpose(t, 0, 1) : t;
    w->T = t->shape[0], w->N = t->shape[1];
    w->G = cj__cell_gates(w->cell);
    w->relu = w->cell == CJ_CELL_LIGHT_GRU ? o->activation != CJ_ACTIVATION_TANH : o->activation == CJ_ACTIVATION_RELU;
    w->truncate = o->truncate;
    if (w->T < 1) return cj__error(c, CJ_ESHAPE, "%s: the input %s has no steps", w->name, cj__tensor_text(*x));
    if (o->lengths) {
        const cj_tensor *l = o->lengths;
        if (!cj__usable(c, w->name, 1, l)) return false;
        if (l->dtype != CJ_I64 || l->ndim != 1 || l->shape[0] != w->N)
            return cj__error(c, CJ_ESHAPE, "%s: lengths is %s %s, i64 [%lld] expected", w->name, cj_dtype_name((cj_dtype)l->dtype),
                             cj__tensor_text(l), (long long)w->N);
        w->lengths = cj_contiguous(o->lengths);
    }
    *x = widened(w, t);
    return c->error == CJ_OK;
}

/* Back to the caller's form: y [T, N, ..] and states [.., N, H]. */
static cj_recurrent_result finish(const network *w, cj_recurrent_result r, const cj_recurrent_opts *o)
{
    const cj_recurrent_result poison = { w->c->poison, w->c->poison, w->cell == CJ_CELL_LSTM ? w->c->poison : NULL };
    if (w->c->error) return poison;
    r = (cj_recurrent_result){ rounded(w, r.y), rounded(w, r.h_n), rounded(w, r.c_n) };
    if (w->unbatched) {
        r.y = cj_squeeze(r.y, 1);
        r.h_n = cj_squeeze(r.h_n, -2);
        if (r.c_n) r.c_n = cj_squeeze(r.c_n, -2);
    } else if (o->batch_first) {
        r.y = cj_transpose(r.y, 0, 1);
    }
    return w->c->error ? poison : r;
}

/* A state of one sequence, as of a batch of one. */
static cj_tensor *batched(const network *w, cj_tensor *state) { return state && w->unbatched ? cj_unsqueeze(state, -2) : state; }

static cj_recurrent_result one_layer(cj_cell cell, cj_tensor *x, layer l, const cj_recurrent_opts *opts)
{
    const cj_recurrent_opts o = opts ? *opts : (cj_recurrent_opts){ 0 };
    network w = { .c = x ? x->ctx : NULL, .cell = cell, .name = names[cell] };
    if (!x)
        return (cj_recurrent_result){ CJ_MISSING(names[cell], x, l.w_ih, l.w_hh), CJ_POISON_OF(l.w_hh),
                                      cell == CJ_CELL_LSTM ? CJ_POISON_OF(l.w_hh) : NULL };
    cj_recurrent_result r = { 0 };
    if (prepare(&w, &x, &o, false)) {
        if (o.h0 && cj__usable(w.c, w.name, 5, o.h0)) l.h0 = batched(&w, o.h0);
        if (o.c0 && cj__usable(w.c, w.name, 6, o.c0)) l.c0 = batched(&w, o.c0);
        if (w.c->error == CJ_OK && layer_fits(&w, &l, x->shape[2])) r = run_layer(&w, x, l, o.reverse);
    }
    return finish(&w, r, &o);
}

#define ONE_LAYER(name, cell)                                                                                                              \
    cj_recurrent_result name(cj_tensor *x, cj_tensor *w_ih, cj_tensor *w_hh, cj_tensor *b_ih, cj_tensor *b_hh,                             \
                             const cj_recurrent_opts *opts)                                                                                \
    {                                                                                                                                      \
        return one_layer(cell, x, (layer){ .w_ih = w_ih, .w_hh = w_hh, .b_ih = b_ih, .b_hh = b_hh }, opts);                                \
    }
ONE_LAYER(cj_rnn, CJ_CELL_RNN)
ONE_LAYER(cj_lstm, CJ_CELL_LSTM)
ONE_LAYER(cj_gru, CJ_CELL_GRU)
ONE_LAYER(cj_light_gru, CJ_CELL_LIGHT_GRU)

/* The k-th of a stack's first states. */
static bool state_at(const network *w, const char *what, cj_tensor *states, int64_t k, int64_t count, cj_tensor **state)
{
    *state = NULL;
    if (!states) return true;
    if (!cj__usable(w->c, w->name, 3, states)) return false;
    if (states->ndim != (w->unbatched ? 2 : 3) || states->shape[0] != count)
        return cj__error(w->c, CJ_ESHAPE, "%s: %s is %s; [%lld, %sH] expected", w->name, what, cj__tensor_text(states), (long long)count,
                         w->unbatched ? "" : "N, ");
    *state = batched(w, cj_select(states, 0, k));
    return true;
}

static cj_recurrent_result run_stack(const network *w, cj_tensor *x, cj_tensor *const *weights, int each, const cj_recurrent_opts *o)
{
    const int layers = o->layers ? o->layers : 1, directions = o->bidirectional ? 2 : 1, count = layers * directions;
    cj_recurrent_result r = { 0 };
    cj_tensor **h_n = cj__alloc(w->c, 2 * (size_t)count * sizeof(cj_tensor *)), **c_n;
    if (!h_n) return r;
    c_n = h_n + count;
    bool ok = true;
    for (int l = 0; l < layers && ok; l++) {
        cj_tensor *y[2] = { NULL, NULL };
        if (l && o->dropout > 0 && !o->eval) x = cj_dropout(x, &(cj_dropout_opts){ .p = o->dropout });
        for (int d = 0; d < directions && ok; d++) {
            const int k = l * directions + d;
            cj_tensor *const *p = weights + (ptrdiff_t)k * each;
            layer one = { .w_ih = p[0], .w_hh = p[1], .b_ih = each == 4 ? p[2] : NULL, .b_hh = each == 4 ? p[3] : NULL };
            for (int i = 0; i < each && ok; i++) ok = cj__usable(w->c, w->name, k * each + i, p[i]);
            ok = ok && state_at(w, "h0", o->h0, k, count, &one.h0) && state_at(w, "c0", o->c0, k, count, &one.c0) && w->c->error == CJ_OK &&
                 layer_fits(w, &one, x->shape[2]);
            if (!ok) break;
            cj_recurrent_result part = run_layer(w, x, one, d == 1);
            y[d] = part.y, h_n[k] = part.h_n, c_n[k] = part.c_n;
            ok = w->c->error == CJ_OK;
        }
        if (ok) x = y[1] ? cj_cat(y, 2, 2) : y[0];
        ok = ok && w->c->error == CJ_OK;
    }
    if (ok) r = (cj_recurrent_result){ x, cj_stack(h_n, count, 0), w->cell == CJ_CELL_LSTM ? cj_stack(c_n, count, 0) : NULL };
    cj__free(w->c, h_n, 2 * (size_t)count * sizeof(cj_tensor *));
    return r;
}

cj_recurrent_result cj_recurrent(cj_recurrent_cell cell, cj_tensor *x, cj_tensor *const *weights, int n, const cj_recurrent_opts *opts)
{
    const cj_recurrent_opts o = opts ? *opts : (cj_recurrent_opts){ 0 };
    if (!x) return (cj_recurrent_result){ 0 };
    if (cell < CJ_RNN || cell > CJ_LIGHT_GRU) {
        cj_tensor *poison = cj_fail(x->ctx, CJ_EVALUE, "recurrent: %d is none of the cells", (int)cell);
        return (cj_recurrent_result){ poison, poison, NULL };
    }
    network w = { .c = x->ctx, .cell = (cj_cell)cell, .name = names[cell] };
    cj_recurrent_result r = { 0 };
    if (prepare(&w, &x, &o, true)) {
        const int count = (o.layers ? o.layers : 1) * (o.bidirectional ? 2 : 1);
        if (!weights || (n != 4 * count && n != 2 * count))
            cj__error(w.c, CJ_EVALUE, "%s: %d weights for %d layer%s; w_ih, w_hh, b_ih, b_hh of each (%d), or without biases %d expected",
                      w.name, weights ? n : 0, count, count > 1 ? "s and directions" : "", 4 * count, 2 * count);
        else r = run_stack(&w, x, weights, n / count, &o);
    }
    return finish(&w, r, &o);
}
