/* Attention: softmax(scale·q·kᵀ + mask)·v (Vaswani et al. 2017), defined in public operators, with kernels that never hold the matrix of scores.
 *
 * The fused forward saves the logarithm of each row's sum of exponentials, from which the fused backward computes the weights again, block by block; dropout is drawn
 * again from its counter.  Derivatives of higher order, forward mode, the gradient of a mask and devices without the kernel go through the definition.
 */
#include <math.h>

#include "ops/ops.h"

#include "cajal/grad.h"

enum { HAS_MASK = 1, HAS_LENGTH = 2 };
typedef struct attention_attrs {
    cj_random_attrs base; /* first: plans rewrite base.call */
    double scale, drop;
    int32_t causal, has;
    int64_t heads; /* of attention_packed */
} attention_attrs;

/* Inputs q, k, v (packed: qkv) [, mask] [, key_length]: leading axes broadcast and expanded by cj_attention; `from` is where the optional ones begin. */
static cj_tensor *mask_of(const attention_attrs *a, cj_tensor *const *in, int from) { return a->has & HAS_MASK ? in[from] : NULL; }
static cj_tensor *length_of(const attention_attrs *a, cj_tensor *const *in, int from)
{
    return a->has & HAS_LENGTH ? in[from + (a->has & HAS_MASK ? 1 : 0)] : NULL;
}

/* ---- the definition -------------------------------------------------------------------------------------------------------------------------- */

/* [.., heads, T, d] -> [.., heads·group, T, d]: every head `group` times. */
static cj_tensor *each_for_group(cj_tensor *x, int64_t group)
{
    if (group == 1 || x->ctx->error) return x;
    cj_tensor *wide = cj_unsqueeze(x, -3);
    if (cj_is_poison(wide)) return wide;
    cj_shape s = cj__shape(wide), merged = cj__shape(x);
    s.dim[s.ndim - 3] = group;
    merged.dim[merged.ndim - 3] *= group;
    return cj_reshape(cj_expand(wide, s), merged);
}

/* Which keys the queries see by position: query i stands at key i + (keys - queries), or at the end of the first `length` keys. NULL: all. */
static cj_tensor *seen_by_position(const cj_tensor *s, const attention_attrs *a, cj_tensor *length)
{
    cj_ctx *c = s->ctx;
    const int64_t tq = s->shape[s->ndim - 2], tk = s->shape[s->ndim - 1];
    if (!a->causal && !length) return NULL;
    cj_tensor *j = cj_arange(c, 0, (double)tk, 1, CJ_I64);
    if (length) length = cj_unsqueeze(cj_unsqueeze(length, -1), -1);
    if (!a->causal) return cj_gt(length, j);
    cj_tensor *i = cj_reshape(cj_arange(c, 0, (double)tq, 1, CJ_I64), CJ_SHAPE(tq, 1));
    cj_tensor *at = length ? cj_add_scalar(cj_add(i, length), (double)-tq) : cj_add_scalar(i, (double)(tk - tq));
    return cj_ge(at, j);
}

static bool is_half(const cj_tensor *x) { return x->dtype == CJ_BF16 || x->dtype == CJ_F16; }
static cj_tensor *widened(cj_tensor *x) { return is_half(x) ? cj_cast(x, CJ_F32) : x; }

/* out[0]: the result; out[1] and out[2], if they are wanted: what the fused backward saves (see infer_attention). */
static bool definition(cj_ctx *c, const attention_attrs *a, cj_tensor *const *in, cj_tensor **out, bool saving)
{
    const cj_reduce_opts last = { .axes = CJ_AXIS(-1), .keepdim = true };
    cj_tensor *q = widened(in[0]), *k = widened(in[1]), *v = widened(in[2]), *mask = mask_of(a, in, 3), *length = length_of(a, in, 3);
    if (c->error) return false;
    const int64_t group = q->ndim > 2 && k->shape[k->ndim - 3] ? q->shape[q->ndim - 3] / k->shape[k->ndim - 3] : 1;
    k = each_for_group(k, group);
    v = each_for_group(v, group);
    cj_tensor *s = cj_mul_scalar(cj_matmul(q, cj_t(k)), a->scale);
    if (c->error) return false;
    cj_tensor *never = cj__const(s, -INFINITY), *seen = seen_by_position(s, a, length);
    if (mask) s = mask->dtype == CJ_BOOL ? cj_where(mask, s, never) : cj_add(s, cj_cast(mask, (cj_dtype)s->dtype));
    if (seen) s = cj_where(seen, s, never);
    if (c->error) return false;
    /* Rows that see nothing give zeros; the softmax that is not chosen there sees harmless numbers. */
    const int64_t tq = s->shape[s->ndim - 2], tk = s->shape[s->ndim - 1];
    cj_tensor *alive = NULL, *zero = cj__const(s, 0);
    if (tk && (mask || (a->causal && (length || tq > tk)))) {
        alive = cj_ne(cj_max(cj_detach(s), &last), never);
        s = cj_where(alive, s, zero);
    }
    cj_tensor *p = tk ? cj_softmax(s, -1) : s;
    if (alive) p = cj_where(alive, p, zero);
    if (saving) {
        out[1] =
            tk ? cj_logsumexp(cj_detach(s), &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }) : cj_sum(s, &(cj_reduce_opts){ .axes = CJ_AXIS(-1) });
        if (alive) out[1] = cj_where(cj_squeeze(alive, -1), out[1], cj__const(s, INFINITY));
    }
    if (a->drop > 0 && !c->error) {
        cj_tensor *keep = cj__bernoulli_at(c, &a->base, 1 - a->drop, cj__shape(p), (cj_dtype)p->dtype);
        p = cj_mul(p, cj_mul_scalar(keep, a->drop < 1 ? 1 / (1 - a->drop) : 0));
    }
    cj_tensor *y = cj_matmul(p, v);
    out[0] = cj_cast(y, (cj_dtype)in[0]->dtype);
    if (saving) out[2] = is_half(in[0]) ? cj_detach(y) : cj_zeros(c, CJ_SHAPE(0), CJ_F32);
    return c->error == CJ_OK;
}

static bool lengths_fit(cj_ctx *c, const cj_tensor *length, int64_t tk);
static int64_t keys_in(cj_tensor *const *in) { return in[1]->shape[in[1]->ndim - 2]; }

static bool define_attention(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)nin;
    return lengths_fit(c, length_of(attrs, in, 3), keys_in(in)) && definition(c, attrs, in, out, true);
}
static bool define_composed(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)nin;
    return lengths_fit(c, length_of(attrs, in, 3), keys_in(in)) && definition(c, attrs, in, out, false);
}

/* Part 0, 1 or 2 (q, k, v) of qkv [.., T, 3·D], by heads: [.., heads, T, D/heads]. */
static cj_tensor *part_of(cj_tensor *qkv, int part, int64_t heads)
{
    if (qkv->ctx->error) return qkv->ctx->poison;
    const int last = qkv->ndim - 1;
    const int64_t D = qkv->shape[last] / 3;
    cj_shape s = cj__shape(qkv);
    s.dim[last] = heads, s.dim[last + 1] = D / heads, s.ndim++;
    return cj_transpose(cj_reshape(cj_slice(qkv, -1, part * D, (part + 1) * D, 1), s), -3, -2);
}
/* [.., heads, T, d] -> [.., T, heads·d] */
static cj_tensor *side_by_side(cj_tensor *y, const cj_tensor *qkv)
{
    if (qkv->ctx->error) return qkv->ctx->poison;
    cj_shape s = cj__shape(qkv);
    s.dim[s.ndim - 1] /= 3;
    return cj_reshape(cj_transpose(y, -3, -2), s);
}

static bool define_packed(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    const attention_attrs *a = attrs;
    cj_tensor *qkv = in[0], *parts[5] = { part_of(qkv, 0, a->heads), part_of(qkv, 1, a->heads), part_of(qkv, 2, a->heads) };
    for (int i = 1; i < nin; i++) parts[i + 2] = in[i];
    if (c->error || !lengths_fit(c, length_of(a, in, 1), keys_in(parts)) || !definition(c, a, parts, out, true)) return false;
    out[0] = side_by_side(out[0], qkv);
    if (is_half(qkv)) out[2] = side_by_side(out[2], qkv);
    return c->error == CJ_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------------------------------------- */

/* Values on a device are not looked at: they would have to be waited for. */
static bool lengths_fit(cj_ctx *c, const cj_tensor *length, int64_t tk)
{
    if (!length || length->st->device || length->st->dry) return true;
    for (int64_t i = 0; i < length->numel; i++) {
        int64_t at = 0, rest = i;
        for (int a = length->ndim - 1; a >= 0; rest /= length->shape[a--]) at += rest % length->shape[a] * length->stride[a];
        const int64_t n = ((const int64_t *)(const void *)length->data)[at];
        if (n < 1 || n > tk)
            return cj__error(c, CJ_EINDEX, "attention: key_length %lld lies outside of 1 … %lld", (long long)n, (long long)tk);
    }
    return true;
}

static cj_heads heads_of(const cj_tensor *t, int axes)
{
    cj_heads h = { .data = t->data };
    const int lead = t->ndim - axes;
    for (int i = 0; i < lead; i++) h.lead[i] = t->stride[i];
    if (axes) h.row = t->stride[lead], h.column = t->stride[lead + 1];
    return h;
}

/* What forward and backward have in common; `from` is where mask and length begin among the inputs. */
static cj_attention_job job_with(const cj_call *call, const cj_tensor *q, const cj_tensor *k, const cj_tensor *v, int from)
{
    const attention_attrs *a = call->attrs;
    const cj_tensor *mask = mask_of(a, call->in, from), *length = length_of(a, call->in, from);
    cj_attention_job j = { .t = (cj_dtype)q->dtype,
                           .leads = q->ndim - 2,
                           .heads = 1,
                           .group = 1,
                           .tq = q->shape[q->ndim - 2],
                           .tk = k->shape[k->ndim - 2],
                           .d = q->shape[q->ndim - 1],
                           .dv = v->shape[v->ndim - 1],
                           .q = heads_of(q, 2),
                           .k = heads_of(k, 2),
                           .v = heads_of(v, 2),
                           .causal = a->causal,
                           .scale = a->scale,
                           .drop = a->drop,
                           .seed = a->base.seed,
                           .stream = a->base.stream,
                           .call = a->base.call };
    for (int i = 0; i < j.leads; i++) j.heads *= j.lead[i] = q->shape[i];
    if (j.leads && k->shape[j.leads - 1]) j.group = q->shape[j.leads - 1] / k->shape[j.leads - 1];
    if (mask) j.mask = heads_of(mask, 2), j.mask_type = (cj_dtype)mask->dtype;
    if (length) j.length = heads_of(length, 0);
    return j;
}

static cj_attention_job job_of(const cj_call *call, int from) { return job_with(call, call->in[0], call->in[1], call->in[2], from); }

/* A header over x [.., T, width·heads·d] that shows part `part` of it by heads: [.., heads, T, d]. */
static cj_tensor by_heads(const cj_tensor *x, int part, int64_t heads, int64_t d)
{
    const int t = x->ndim - 2;
    cj_tensor y = { .data = x->data + part * heads * d * (int64_t)cj_dtype_size((cj_dtype)x->dtype), .dtype = x->dtype };
    y.ndim = (uint8_t)(x->ndim + 1);
    memcpy(y.shape, x->shape, (size_t)t * sizeof y.shape[0]);
    memcpy(y.stride, x->stride, (size_t)t * sizeof y.stride[0]);
    y.shape[t] = heads, y.shape[t + 1] = x->shape[t], y.shape[t + 2] = d;
    y.stride[t] = d, y.stride[t + 1] = x->stride[t], y.stride[t + 2] = 1;
    return y;
}
static int64_t packed_d(const cj_call *call)
{
    return call->in[0]->shape[call->in[0]->ndim - 1] / (3 * ((const attention_attrs *)call->attrs)->heads);
}
static cj_attention_job packed_job(const cj_call *call, int from)
{
    const int64_t heads = ((const attention_attrs *)call->attrs)->heads, d = packed_d(call);
    const cj_tensor q = by_heads(call->in[0], 0, heads, d), k = by_heads(call->in[0], 1, heads, d), v = by_heads(call->in[0], 2, heads, d);
    return job_with(call, &q, &k, &v, from);
}
/* Part `part` of a tensor like the results, for the job. */
static cj_heads packed_heads(const cj_call *call, const cj_tensor *x, int part)
{
    const cj_tensor y = by_heads(x, part, ((const attention_attrs *)call->attrs)->heads, packed_d(call));
    return heads_of(&y, 2);
}

static bool run_job(cj_ctx *c, const cj_attention_job *j, bool backward)
{
    void *scratch = cj__scratch(c, c->k->attention_workspace(j, backward, c->threads) + 1);
    if (!scratch) return false;
    c->k->attention(c->pool, j, backward, scratch);
    return true;
}

/* Outputs: o; log sum exp of each row; of bf16 and f16 o before it was rounded, because the backward pass takes differences with it. */
static bool infer_attention(cj_call *call)
{
    const cj_tensor *q = call->in[0], *v = call->in[2];
    int64_t shape[CJ_MAX_DIMS];
    memcpy(shape, q->shape, sizeof shape);
    shape[q->ndim - 1] = v->shape[v->ndim - 1];
    return cj__out(call, 0, (cj_dtype)q->dtype, q->ndim, shape) &&
           cj__out(call, 1, q->dtype == CJ_F64 ? CJ_F64 : CJ_F32, q->ndim - 1, q->shape) &&
           cj__out(call, 2, CJ_F32, is_half(q) ? q->ndim : 1, is_half(q) ? shape : &(int64_t){ 0 });
}
static bool run_attention(cj_call *call)
{
    cj_attention_job j = job_of(call, 3);
    if (!lengths_fit(call->ctx, length_of(call->attrs, call->in, 3), j.tk)) return false;
    j.o = heads_of(call->out[0], 2);
    j.lse = call->out[1]->data;
    j.wide = is_half(call->in[0]) ? (float *)(void *)call->out[2]->data : NULL;
    return j.heads == 0 || j.tq == 0 || run_job(call->ctx, &j, false);
}

/* The same for qkv [.., T, 3·D]: o is [.., T, D]. */
static bool infer_packed(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    const int t = x->ndim - 2;
    const int64_t heads = ((const attention_attrs *)call->attrs)->heads;
    int64_t shape[CJ_MAX_DIMS], rows[CJ_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    memcpy(rows, x->shape, sizeof rows);
    shape[t + 1] /= 3;
    rows[t] = heads, rows[t + 1] = x->shape[t];
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, shape) && cj__out(call, 1, x->dtype == CJ_F64 ? CJ_F64 : CJ_F32, x->ndim, rows) &&
           cj__out(call, 2, CJ_F32, is_half(x) ? x->ndim : 1, is_half(x) ? shape : &(int64_t){ 0 });
}
static bool run_packed(cj_call *call)
{
    cj_attention_job j = packed_job(call, 1);
    if (!lengths_fit(call->ctx, length_of(call->attrs, call->in, 1), j.tk)) return false;
    j.o = packed_heads(call, call->out[0], 0);
    j.lse = call->out[1]->data;
    j.wide = is_half(call->in[0]) ? (float *)(void *)call->out[2]->data : NULL;
    return j.heads == 0 || j.tq == 0 || run_job(call->ctx, &j, false);
}

/* Inputs q, k, v, o (as it was before it was rounded), lse, do [, mask] [, key_length]. */
static bool infer_attention_bwd(cj_call *call)
{
    for (int i = 0; i < 3; i++)
        if (!cj__out(call, i, (cj_dtype)call->in[i]->dtype, call->in[i]->ndim, call->in[i]->shape)) return false;
    return true;
}
static bool run_attention_bwd(cj_call *call)
{
    cj_attention_job j = job_of(call, 6);
    j.o = heads_of(call->in[3], 2);
    j.lse = call->in[4]->data;
    j.g = heads_of(call->in[5], 2);
    j.dq = heads_of(call->out[0], 2);
    j.dk = heads_of(call->out[1], 2);
    j.dvalue = heads_of(call->out[2], 2);
    return j.heads == 0 || run_job(call->ctx, &j, true);
}

/* Inputs qkv, o, lse, do [, mask] [, key_length]. */
static bool infer_packed_bwd(cj_call *call)
{
    return cj__out(call, 0, (cj_dtype)call->in[0]->dtype, call->in[0]->ndim, call->in[0]->shape);
}
static bool run_packed_bwd(cj_call *call)
{
    cj_attention_job j = packed_job(call, 4);
    j.o = packed_heads(call, call->in[1], 0);
    j.lse = call->in[2]->data;
    j.g = packed_heads(call, call->in[3], 0);
    j.dq = packed_heads(call, call->out[0], 0);
    j.dk = packed_heads(call, call->out[0], 1);
    j.dvalue = packed_heads(call, call->out[0], 2);
    return j.heads == 0 || run_job(call->ctx, &j, true);
}

/* Two products of all pairs that the causal mask leaves; backward five. */
static double pairs(const cj_attention_job *j)
{
    const double tk = (double)j->tk, tq = (double)j->tq;
    return (double)j->heads * tq * (j->causal && tq <= tk ? tk - (tq - 1) / 2 : tk);
}
static double flops_attention(const cj_call *call)
{
    const cj_attention_job j = job_of(call, 3);
    return 2 * pairs(&j) * (double)(j.d + j.dv);
}
static double flops_attention_bwd(const cj_call *call)
{
    const cj_attention_job j = job_of(call, 6);
    return 2 * pairs(&j) * (double)(3 * j.d + 2 * j.dv);
}
static double flops_packed(const cj_call *call)
{
    const cj_attention_job j = packed_job(call, 1);
    return 4 * pairs(&j) * (double)j.d;
}
static double flops_packed_bwd(const cj_call *call)
{
    const cj_attention_job j = packed_job(call, 4);
    return 10 * pairs(&j) * (double)j.d;
}

static void d_attention(cj_vjp_args *v);
static void d_packed(cj_vjp_args *v);
enum { ATTENTION, COMPOSED, ATTENTION_BWD, PACKED, PACKED_BWD };
const cj_op cj__ops_attention[] = {
    [ATTENTION] = { .name = "attention",
                    .family = "attention",
                    .kind = CJ_COMPOSITE,
                    .flags = CJ_OP_RANDOM,
                    .nin = -1,
                    .nout = 3,
                    .attr_size = sizeof(attention_attrs),
                    .save_in = 31,
                    .save_out = 7,
                    .infer = infer_attention,
                    .run = run_attention,
                    .vjp = d_attention,
                    .define = define_attention,
                    .flops = flops_attention },
    /* The definition as it is: for masks that are learnt, and for devices. */
    [COMPOSED] = { .name = "attention_composed",
                   .family = "attention",
                   .kind = CJ_COMPOSITE,
                   .nin = -1,
                   .nout = 1,
                   .attr_size = sizeof(attention_attrs),
                   .define = define_composed },
    [ATTENTION_BWD] = { .name = "attention_backward",
                        .family = "attention",
                        .kind = CJ_INTERNAL,
                        .flags = CJ_OP_NOGRAD | CJ_OP_RANDOM,
                        .nin = -1,
                        .nout = 3,
                        .attr_size = sizeof(attention_attrs),
                        .infer = infer_attention_bwd,
                        .run = run_attention_bwd,
                        .flops = flops_attention_bwd },
    [PACKED] = { .name = "attention_packed",
                 .family = "attention",
                 .kind = CJ_COMPOSITE,
                 .flags = CJ_OP_RANDOM,
                 .nin = -1,
                 .nout = 3,
                 .attr_size = sizeof(attention_attrs),
                 .save_in = 7,
                 .save_out = 7,
                 .infer = infer_packed,
                 .run = run_packed,
                 .vjp = d_packed,
                 .define = define_packed,
                 .flops = flops_packed },
    [PACKED_BWD] = { .name = "attention_packed_backward",
                     .family = "attention",
                     .kind = CJ_INTERNAL,
                     .flags = CJ_OP_NOGRAD | CJ_OP_RANDOM,
                     .nin = -1,
                     .nout = 1,
                     .attr_size = sizeof(attention_attrs),
                     .infer = infer_packed_bwd,
                     .run = run_packed_bwd,
                     .flops = flops_packed_bwd },
};
CJ_OP_TABLE(attention);

/* Kernels read rows of neighbouring numbers; strides above do not matter. */
static cj_tensor *with_plain_rows(cj_tensor *x) { return x->shape[x->ndim - 1] > 1 && x->stride[x->ndim - 1] != 1 ? cj_contiguous(x) : x; }

static void d_attention(cj_vjp_args *v)
{
    if (!v->g[0]) return;
    cj_tensor *o = v->out[is_half(v->in[0]) ? 2 : 0];
    cj_tensor *in[8] = { v->in[0], v->in[1], v->in[2], o, v->out[1], with_plain_rows(v->g[0]) }, *out[3];
    for (int i = 3; i < v->nin; i++) in[i + 3] = v->in[i];
    cj__apply_n(v->ctx, &cj__ops_attention[ATTENTION_BWD], v->attrs, in, v->nin + 3, out);
    for (int i = 0; i < 3; i++) v->gin[i] = out[i];
}

static void d_packed(cj_vjp_args *v)
{
    if (!v->g[0]) return;
    cj_tensor *in[6] = { v->in[0], v->out[is_half(v->in[0]) ? 2 : 0], v->out[1], with_plain_rows(v->g[0]) };
    for (int i = 1; i < v->nin; i++) in[i + 3] = v->in[i];
    cj__apply_n(v->ctx, &cj__ops_attention[PACKED_BWD], v->attrs, in, v->nin + 3, v->gin);
}

/* ---- public ---------------------------------------------------------------------------------------------------------------------------------------- */

/* x with the leading axes `lead` before its last `own` ones; NULL after an error. */
static cj_tensor *with_leads(cj_tensor *x, int own, int leads, const int64_t *lead)
{
    cj_shape s = { .ndim = leads + own };
    for (int i = 0; i < leads; i++) s.dim[i] = lead[i];
    for (int i = 0; i < own; i++) s.dim[leads + i] = x->shape[x->ndim - own + i];
    const bool same = x->ndim == s.ndim && memcmp(x->shape, s.dim, (size_t)s.ndim * sizeof s.dim[0]) == 0;
    cj_tensor *y = same ? x : cj_expand(x, s);
    return cj_is_poison(y) ? NULL : y;
}

/* Size of x along leading axis a of `leads`, counted from the left of the broadcast shape; 1 where x has none. */
static int64_t lead_size(const cj_tensor *x, int leads, int a)
{
    const int at = a - (leads - (x->ndim - 2));
    return at < 0 ? 1 : x->shape[at];
}

/* The leading axes of q and of k and v: they broadcast, but for heads, of which q may have a multiple. */
static bool leading_axes(cj_tensor *const *in, int leads, int64_t *of_q, int64_t *of_k)
{
    cj_ctx *c = in[0]->ctx;
    for (int a = 0; a < leads; a++) {
        const int64_t q = lead_size(in[0], leads, a), k = lead_size(in[1], leads, a), v = lead_size(in[2], leads, a);
        int64_t kv = k == 1 ? v : k, both = q == 1 ? kv : q;
        bool ok = (k == kv || k == 1) && (v == kv || v == 1);
        if (ok && a == leads - 1 && q > kv && kv > 0) {
            if (q % kv)
                return cj__error(c, CJ_ESHAPE, "attention: the %lld heads of q %s are no multiple of the %lld heads of k %s", (long long)q,
                                 cj__tensor_text(in[0]), (long long)kv, cj__tensor_text(in[1]));
        } else {
            if (kv == 1) kv = both;
            ok = ok && kv == both;
        }
        if (!ok)
            return cj__error(c, CJ_ESHAPE, "attention: the leading axes of q %s, k %s and v %s do not fit each other",
                             cj__tensor_text(in[0]), cj__tensor_text(in[1]), cj__tensor_text(in[2]));
        of_q[a] = both;
        of_k[a] = kv;
    }
    return true;
}

/* q, k and v alone. */
static bool operands_fit(cj_tensor *const *in)
{
    const cj_tensor *q = in[0], *k = in[1], *v = in[2];
    cj_ctx *c = q->ctx;
    if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
        return cj__error(c, CJ_ESHAPE, "attention: q %s, k %s, v %s; [.., T, d] expected", cj__tensor_text(q), cj__tensor_text(k),
                         cj__tensor_text(v));
    if (!cj_dtype_is_float((cj_dtype)q->dtype) || k->dtype != q->dtype || v->dtype != q->dtype)
        return cj__error(c, CJ_EDTYPE, "attention: q is %s, k %s, v %s; the same float type expected", cj_dtype_name((cj_dtype)q->dtype),
                         cj_dtype_name((cj_dtype)k->dtype), cj_dtype_name((cj_dtype)v->dtype));
    if (q->shape[q->ndim - 1] != k->shape[k->ndim - 1])
        return cj__error(c, CJ_ESHAPE, "attention: the rows of q %s and k %s have different sizes", cj__tensor_text(q), cj__tensor_text(k));
    if (k->shape[k->ndim - 2] != v->shape[v->ndim - 2])
        return cj__error(c, CJ_ESHAPE, "attention: k %s and v %s have different numbers of rows", cj__tensor_text(k), cj__tensor_text(v));
    return true;
}

/* The mask over all scores; NULL after an error. */
static cj_tensor *fitting_mask(cj_tensor *mask, int leads, const int64_t *lead, int64_t tq, int64_t tk)
{
    cj_ctx *c = mask->ctx;
    if (mask->dtype != CJ_BOOL && !cj_dtype_is_float((cj_dtype)mask->dtype)) {
        cj__error(c, CJ_EDTYPE, "attention: the mask is %s; bool or a float type expected", cj_dtype_name((cj_dtype)mask->dtype));
        return NULL;
    }
    cj_shape s = { .ndim = leads + 2 };
    memcpy(s.dim, lead, (size_t)leads * sizeof *lead);
    s.dim[leads] = tq, s.dim[leads + 1] = tk;
    bool ok = mask->ndim <= s.ndim;
    for (int i = 1; i <= mask->ndim && ok; i++) {
        const int64_t size = mask->shape[mask->ndim - i];
        ok = size == 1 || size == s.dim[s.ndim - i];
    }
    if (!ok) {
        cj__error(c, CJ_ESHAPE, "attention: the mask %s does not broadcast to the scores %s", cj__tensor_text(mask),
                  cj__shape_text(s.ndim, s.dim));
        return NULL;
    }
    cj_tensor *y = cj_expand(mask, s);
    return cj_is_poison(y) ? NULL : y;
}

/* A length per head; NULL after an error. */
static cj_tensor *fitting_length(cj_tensor *length, int own, int leads, const int64_t *lead)
{
    cj_ctx *c = length->ctx;
    bool ok = length->dtype == CJ_I64 && (length->ndim == 0 || length->ndim == own);
    for (int i = 1; i <= length->ndim && ok; i++) {
        const int64_t size = length->shape[length->ndim - i];
        ok = size == 1 || size == lead[leads - i];
    }
    if (!ok) {
        cj__error(c, CJ_ESHAPE, "attention: key_length is %s %s; i64, 0-d or of q's %d leading axes expected",
                  cj_dtype_name((cj_dtype)length->dtype), cj__tensor_text(length), own);
        return NULL;
    }
    return with_leads(length, 0, leads, lead);
}

/* The options but for mask and length: poison or wrong values are an error. */
static bool options_fit(cj_ctx *c, const cj_attention_opts *o)
{
    if ((o->mask && !cj__usable(c, "attention", 3, o->mask)) || (o->key_length && !cj__usable(c, "attention", 4, o->key_length)))
        return false;
    if (!(o->dropout >= 0 && o->dropout <= 1)) return cj__error(c, CJ_EVALUE, "attention: dropout %g is outside [0, 1]", o->dropout);
    return true;
}
static attention_attrs attrs_of(const cj_ctx *c, const cj_attention_opts *o, int64_t d)
{
    return (attention_attrs){ .base = { c->rng.seed, CJ_STREAM_DROPOUT, c->rng.call[CJ_STREAM_DROPOUT] },
                              .scale = o->scale != 0 ? o->scale
                                       : d           ? 1 / sqrt((double)d)
                                                     : 1,
                              .drop = o->dropout,
                              .causal = o->causal,
                              .has = (o->mask ? HAS_MASK : 0) | (o->key_length ? HAS_LENGTH : 0) };
}
static bool is_learnt(const cj_ctx *c, const cj_tensor *mask) { return mask && cj__requires(mask) && c->grad_enabled; }

static cj_tensor *attend(cj_tensor *q, cj_tensor *k, cj_tensor *v, const cj_attention_opts *opts, bool by_definition)
{
    cj_attention_opts o = opts ? *opts : (cj_attention_opts){ 0 };
    if (!q || !k || !v) return CJ_MISSING("attention", q, k, v);
    cj_ctx *c = q->ctx;
    cj_tensor *in[5] = { q, k, v };
    int n = 3;
    if (c->error) return c->poison;
    for (int i = 0; i < 3; i++)
        if (!cj__usable(c, "attention", i, in[i])) return c->poison;
    if (!options_fit(c, &o)) return c->poison;
    int64_t of_q[CJ_MAX_DIMS], of_k[CJ_MAX_DIMS];
    const int most = q->ndim > k->ndim ? q->ndim : k->ndim, leads = (most > v->ndim ? most : v->ndim) - 2;
    if (!operands_fit(in) || !leading_axes(in, leads, of_q, of_k)) return c->poison;
    const int64_t d = q->shape[q->ndim - 1], tq = q->shape[q->ndim - 2], tk = k->shape[k->ndim - 2];
    for (int i = 0; i < 3; i++) {
        in[i] = with_leads(in[i], 2, leads, i ? of_k : of_q);
        if (!in[i]) return c->poison;
    }
    const attention_attrs a = attrs_of(c, &o, d);
    if (o.mask && !(in[n++] = fitting_mask(o.mask, leads, of_q, tq, tk))) return c->poison;
    if (o.key_length && !(in[n++] = fitting_length(o.key_length, q->ndim - 2, leads, of_q))) return c->poison;

    const bool composed = by_definition || is_learnt(c, o.mask) || (q->st->device && !c->backend->find("attention"));
    for (int i = 0; i < 3 && !composed; i++) in[i] = with_plain_rows(in[i]);
    cj_tensor *out[3];
    const cj_called was = cj__called(c, "attention", NULL);
    if (cj__apply_n(c, &cj__ops_attention[composed ? COMPOSED : ATTENTION], &a, in, n, out) && a.drop > 0) c->rng.call[CJ_STREAM_DROPOUT]++;
    c->called = was;
    return out[0];
}
cj_tensor *cj_attention(cj_tensor *q, cj_tensor *k, cj_tensor *v, const cj_attention_opts *opts) { return attend(q, k, v, opts, false); }
cj_tensor *cj__attention_composed(cj_tensor *q, cj_tensor *k, cj_tensor *v, const cj_attention_opts *opts)
{
    return attend(q, k, v, opts, true);
}

cj_tensor *cj_attention_packed(cj_tensor *qkv, int64_t heads, const cj_attention_opts *opts)
{
    const cj_attention_opts o = opts ? *opts : (cj_attention_opts){ 0 };
    if (!qkv) return NULL;
    cj_ctx *c = qkv->ctx;
    if (c->error || !cj__usable(c, "attention_packed", 0, qkv) || !options_fit(c, &o)) return c->poison;
    const int last = qkv->ndim - 1;
    if (last < 1 || last + 2 > CJ_MAX_DIMS || heads < 1 || heads > INT64_MAX / 3 || qkv->shape[last] % (3 * heads) != 0)
        return cj_fail(c, CJ_ESHAPE, "attention_packed: %s with %lld heads; [.., T, 3·heads·d] expected", cj__tensor_text(qkv),
                       (long long)heads);
    if (!cj_dtype_is_float((cj_dtype)qkv->dtype))
        return cj_fail(c, CJ_EDTYPE, "attention_packed: the input is %s; a float type expected", cj_dtype_name((cj_dtype)qkv->dtype));
    if (is_learnt(c, o.mask) || (qkv->st->device && !c->backend->find("attention_packed")))
        return side_by_side(cj_attention(part_of(qkv, 0, heads), part_of(qkv, 1, heads), part_of(qkv, 2, heads), &o), qkv);
    int64_t lead[CJ_MAX_DIMS];
    memcpy(lead, qkv->shape, sizeof lead);
    lead[last - 1] = heads;
    attention_attrs a = attrs_of(c, &o, qkv->shape[last] / (3 * heads));
    a.heads = heads;
    cj_tensor *in[3] = { with_plain_rows(qkv) }, *out[3];
    int n = 1;
    if (o.mask && !(in[n++] = fitting_mask(o.mask, last, lead, qkv->shape[last - 1], qkv->shape[last - 1]))) return c->poison;
    if (o.key_length && !(in[n++] = fitting_length(o.key_length, last, last, lead))) return c->poison;
    if (cj__apply_n(c, &cj__ops_attention[PACKED], &a, in, n, out) && a.drop > 0) c->rng.call[CJ_STREAM_DROPOUT]++;
    return out[0];
}
