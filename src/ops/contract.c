/* Contractions: sums of products over shared axes, named by letters (einsum) or by number (tensordot), and the Kronecker product.
 *
 * Two operands are brought to [batch, free, summed] and [batch, summed, free] by views and become one matrix product; what only one of them has and
 * the result does not is summed before.  More operands are contracted from left to right.
 */
#include <ctype.h>
#include <stdio.h>

#include "ops/compose.h"

/* ---- the equation ---------------------------------------------------------------------------------------------------------------------------------------- */

/* A label is a letter's place in A … Z a … z, or DOTS + k for the k-th axis from the right that "..." stands for. */
enum { LETTERS = 52, DOTS = LETTERS, LABELS = LETTERS + CJ_MAX_DIMS, ELLIPSIS = LABELS, OPERANDS = 8, LONGEST = 256 };

typedef struct labels {
    int n;
    int at[2 * CJ_MAX_DIMS]; /* room for a result of many axes, which is refused later */
} labels;

typedef struct equation {
    labels in[OPERANDS], out;
    int n;
} equation;

static int label_of(char letter) { return isupper((unsigned char)letter) ? letter - 'A' : letter - 'a' + 26; }
static char letter_of(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }
static bool has(const labels *l, int label)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i] == label) return true;
    return false;
}
static bool put(labels *l, int label)
{
    if (l->n == 2 * CJ_MAX_DIMS) return false;
    l->at[l->n++] = label;
    return true;
}

/* One operand's letters from *at on, up to a comma, an arrow or the end. */
static bool parse_term(cj_ctx *c, const char *text, const char **at, labels *l)
{
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        const char *p = *at;
        if (*p == ' ') continue;
        int label = ELLIPSIS;
        if (strncmp(p, "...", 3) == 0) *at += 2;
        else if (isalpha((unsigned char)*p) && (unsigned char)*p < 128) label = label_of(*p);
        else
            return cj__error(c, CJ_EVALUE, "einsum: '%c' at position %d of \"%s\"; a letter, '...', ',' or '->' expected", *p,
                             (int)(p - text), text);
        if (label == ELLIPSIS && has(l, ELLIPSIS))
            return cj__error(c, CJ_EVALUE, "einsum: a second '...' at position %d of \"%s\"", (int)(p - text), text);
        if (!put(l, label)) return cj__error(c, CJ_EVALUE, "einsum: too many letters at position %d of \"%s\"", (int)(p - text), text);
    }
    return true;
}

/* "..." becomes the axes that it stands for: those of an operand of ndim axes, or `dots` of them. */
static void expand_dots(labels *l, int dots)
{
    labels full = { 0 };
    for (int i = 0; i < l->n; i++)
        if (l->at[i] != ELLIPSIS) put(&full, l->at[i]);
        else
            for (int k = dots - 1; k >= 0; k--) put(&full, DOTS + k);
    *l = full;
}

/* Without an arrow: the axes of "...", then the letters that occur once, in order. */
static void implicit_result(equation *e, int dots)
{
    for (int k = dots - 1; k >= 0; k--) put(&e->out, DOTS + k);
    for (int label = 0; label < LETTERS; label++) {
        int times = 0;
        for (int i = 0; i < e->n; i++)
            for (int d = 0; d < e->in[i].n; d++) times += e->in[i].at[d] == label;
        if (times == 1) put(&e->out, label);
    }
}

static bool parse(cj_ctx *c, const char *text, cj_tensor *const *x, int n, equation *e)
{
    *e = (equation){ .n = n };
    const char *at = text;
    int dots = 0;
    for (int i = 0; i < n; i++) {
        labels *l = &e->in[i];
        if (!parse_term(c, text, &at, l)) return false;
        const bool more = *at == ',';
        if (more != (i < n - 1))
            return cj__error(c, CJ_EVALUE, "einsum: \"%s\" has %s operands than the %d given", text, more ? "more" : "fewer", n);
        if (more) at++;
        const bool dotted = has(l, ELLIPSIS);
        const int covered = x[i]->ndim - (l->n - dotted);
        if (covered < 0 || (!dotted && covered > 0))
            return cj__error(c, CJ_ESHAPE, "einsum: operand %d of \"%s\" has %d letters, %s has %d axes", i + 1, text, l->n - dotted,
                             cj__tensor_text(x[i]), x[i]->ndim);
        if (dotted) expand_dots(l, covered);
        if (dotted && covered > dots) dots = covered;
    }
    if (!*at) {
        implicit_result(e, dots);
        return true;
    }
    if (at[1] != '>') return cj__error(c, CJ_EVALUE, "einsum: '-' at position %d of \"%s\"; '->' expected", (int)(at - text), text);
    at += 2;
    if (!parse_term(c, text, &at, &e->out)) return false;
    if (*at) return cj__error(c, CJ_EVALUE, "einsum: '%c' at position %d of \"%s\" after the result", *at, (int)(at - text), text);
    for (int d = 0; d < e->out.n; d++) {
        const int label = e->out.at[d];
        bool known = label == ELLIPSIS;
        for (int i = 0; i < n && !known; i++) known = has(&e->in[i], label);
        if (!known) return cj__error(c, CJ_EVALUE, "einsum: '%c' of the result of \"%s\" is in no operand", letter_of(label), text);
        for (int k = 0; k < d; k++)
            if (e->out.at[k] == label)
                return cj__error(c, CJ_EVALUE, "einsum: '%c' stands twice in the result of \"%s\"", letter_of(label), text);
    }
    expand_dots(&e->out, dots);
    return true;
}

/* The size of every label; 1 broadcasts. */
static bool sizes_of(cj_ctx *c, const char *text, const equation *e, cj_tensor *const *x, int64_t size[LABELS])
{
    for (int k = 0; k < LABELS; k++) size[k] = 1;
    for (int i = 0; i < e->n; i++)
        for (int d = 0; d < e->in[i].n; d++) {
            const int label = e->in[i].at[d];
            const int64_t n = x[i]->shape[d];
            if (n == 1 || n == size[label]) continue;
            if (size[label] != 1) {
                const char name[2] = { label < LETTERS ? letter_of(label) : 0, 0 };
                return cj__error(c, CJ_ESHAPE, "einsum: '%s' of \"%s\" has size %lld in operand %d and %lld before", *name ? name : "...",
                                 text, (long long)n, i + 1, (long long)size[label]);
            }
            size[label] = n;
        }
    if (e->out.n > CJ_MAX_DIMS)
        return cj__error(c, CJ_ESHAPE, "einsum: the result of \"%s\" has %d axes; at most %d", text, e->out.n, CJ_MAX_DIMS);
    return true;
}

/* ---- contracting ----------------------------------------------------------------------------------------------------------------------------------------- */

/* A tensor whose axes are named. */
typedef struct named {
    cj_tensor *t;
    labels l;
} named;

static void drop(labels *l, int axis)
{
    l->n--;
    for (int d = axis; d < l->n; d++) l->at[d] = l->at[d + 1];
}

/* Letters once each: a repeated one is a diagonal; an axis of 1 that another operand stretches goes. */
static named plain(cj_tensor *x, labels l, const int64_t size[LABELS])
{
    for (int d = 0; d < l.n; d++)
        if (x->shape[d] == 1 && size[l.at[d]] != 1) {
            x = cj_squeeze(x, d);
            drop(&l, d--);
        }
    for (int d = 0; d < l.n; d++)
        for (int k = d + 1; k < l.n; k++)
            if (l.at[d] == l.at[k]) {
                const int label = l.at[d];
                x = cj_diagonal(x, 0, d, k); /* goes to the end */
                drop(&l, k);
                drop(&l, d);
                put(&l, label);
                d--;
                break;
            }
    return (named){ x, l };
}

/* Sums over the labels that keep[] does not have. */
static named reduced(named a, const bool keep[LABELS])
{
    cj_axes axes = { 0 };
    labels rest = { 0 };
    for (int d = 0; d < a.l.n; d++)
        if (keep[a.l.at[d]]) put(&rest, a.l.at[d]);
        else axes.axis[axes.n++] = d;
    return axes.n ? (named){ cj_sum(a.t, &(cj_reduce_opts){ .axes = axes }), rest } : a;
}

/* a's axes in the order of the given labels; those that it has not have size 1. */
static cj_tensor *ordered(named a, const labels *order)
{
    cj_axes axes = { 0 };
    cj_shape shape = { .ndim = order->n };
    for (int k = 0; k < order->n; k++) {
        shape.dim[k] = 1;
        for (int d = 0; d < a.l.n; d++)
            if (a.l.at[d] == order->at[k]) {
                axes.axis[axes.n++] = d;
                shape.dim[k] = a.t->shape[d];
            }
    }
    return cj_reshape(axes.n ? cj_permute(a.t, axes) : a.t, shape);
}

static int64_t volume(const labels *l, const int64_t size[LABELS])
{
    int64_t n = 1;
    for (int d = 0; d < l->n; d++) n *= size[l->at[d]];
    return n;
}
static labels joined(const labels *a, const labels *b, const labels *c)
{
    labels l = *a;
    for (int d = 0; d < b->n; d++) put(&l, b->at[d]);
    for (int d = 0; c && d < c->n; d++) put(&l, c->at[d]);
    return l;
}

/* The product of a and b with the labels that keep[] does not have summed. */
static named pair(named a, named b, const bool keep[LABELS], const int64_t size[LABELS])
{
    bool mine[LABELS] = { 0 }, wanted[LABELS];
    for (int d = 0; d < a.l.n; d++) mine[a.l.at[d]] = true;
    for (int k = 0; k < LABELS; k++) wanted[k] = keep[k] || has(&b.l, k);
    a = reduced(a, wanted);
    for (int k = 0; k < LABELS; k++) wanted[k] = keep[k] || mine[k];
    b = reduced(b, wanted);
    labels batch = { 0 }, summed = { 0 }, left = { 0 }, right = { 0 };
    for (int d = 0; d < a.l.n; d++) put(!has(&b.l, a.l.at[d]) ? &left : keep[a.l.at[d]] ? &batch : &summed, a.l.at[d]);
    for (int d = 0; d < b.l.n; d++)
        if (!has(&a.l, b.l.at[d])) put(&right, b.l.at[d]);
    const labels out = joined(&batch, &left, &right);
    if (out.n > CJ_MAX_DIMS)
        return (named){ cj_fail(a.t->ctx, CJ_ESHAPE, "einsum: a product of two operands has %d axes; at most %d", out.n, CJ_MAX_DIMS),
                        out };
    if (!summed.n) return (named){ cj_mul(ordered(a, &out), ordered(b, &out)), out };
    const labels a_order = joined(&batch, &left, &summed), b_order = joined(&batch, &summed, &right);
    const int64_t n = volume(&batch, size), rows = volume(&left, size), inner = volume(&summed, size), cols = volume(&right, size);
    cj_tensor *x = ordered(a, &a_order), *y = ordered(b, &b_order);
    x = cj_reshape(x, batch.n ? CJ_SHAPE(n, rows, inner) : CJ_SHAPE(rows, inner));
    y = cj_reshape(y, batch.n ? CJ_SHAPE(n, inner, cols) : CJ_SHAPE(inner, cols));
    cj_shape shape = { .ndim = out.n };
    for (int d = 0; d < out.n; d++) shape.dim[d] = size[out.at[d]];
    return (named){ cj_reshape(cj_matmul(x, y), shape), out };
}

CJ_COMPOSE(einsum)
{
    cj_ctx *c = in[0]->ctx;
    equation e;
    int64_t size[LABELS];
    if (!parse(c, attrs, in, nin, &e) || !sizes_of(c, attrs, &e, in, size)) return c->poison;
    bool keep[LABELS];
    named sum = plain(in[0], e.in[0], size);
    for (int i = 1; i < nin && !c->error; i++) {
        for (int k = 0; k < LABELS; k++) {
            keep[k] = has(&e.out, k);
            for (int later = i + 1; later < nin; later++) keep[k] |= has(&e.in[later], k);
        }
        sum = pair(sum, plain(in[i], e.in[i], size), keep, size);
    }
    for (int k = 0; k < LABELS; k++) keep[k] = has(&e.out, k);
    if (c->error) return c->poison;
    sum = reduced(sum, keep);
    return c->error ? c->poison : ordered(sum, &e.out);
}

/* ---- by number ---------------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct tensordot_attrs {
    int64_t n, a[CJ_MAX_DIMS], b[CJ_MAX_DIMS];
} tensordot_attrs;

/* x's axes with the n given ones last (or first), as a matrix; the sizes of the others are added to *out. */
static cj_tensor *as_matrix(cj_tensor *x, const int64_t *axes, int n, bool last, cj_shape *out)
{
    cj_axes order = { .n = x->ndim };
    int64_t inner = 1, outer = 1;
    int free_at = last ? 0 : n;
    for (int k = 0; k < n; k++) {
        order.axis[(last ? x->ndim - n : 0) + k] = (int)axes[k];
        inner *= x->shape[axes[k]];
    }
    for (int d = 0; d < x->ndim; d++) {
        bool summed = false;
        for (int k = 0; k < n; k++) summed |= axes[k] == d;
        if (summed) continue;
        order.axis[free_at++] = d;
        outer *= out->dim[out->ndim++] = x->shape[d];
    }
    return cj_reshape(x->ndim ? cj_permute(x, order) : x, last ? CJ_SHAPE(outer, inner) : CJ_SHAPE(inner, outer));
}
CJ_COMPOSE(tensordot)
{
    const tensordot_attrs *t = attrs;
    cj_shape shape = { 0 };
    cj_tensor *a = as_matrix(in[0], t->a, (int)t->n, true, &shape), *b = as_matrix(in[1], t->b, (int)t->n, false, &shape);
    return cj_reshape(cj_matmul(a, b), shape);
}

/* [a0, 1, a1, 1, ..]·[1, b0, 1, b1, ..] -> [a0·b0, a1·b1, ..] */
static bool define_kron(cj_ctx *c, const void *attrs, cj_tensor *const *in, int nin, cj_tensor **out)
{
    (void)c, (void)attrs, (void)nin;
    const int n = in[0]->ndim > in[1]->ndim ? in[0]->ndim : in[1]->ndim;
    cj_shape a = { .ndim = 2 * n }, b = a, full = { .ndim = n };
    for (int d = 0; d < n; d++) {
        const int da = d - n + in[0]->ndim, db = d - n + in[1]->ndim;
        a.dim[2 * d] = da < 0 ? 1 : in[0]->shape[da], a.dim[2 * d + 1] = 1;
        b.dim[2 * d] = 1, b.dim[2 * d + 1] = db < 0 ? 1 : in[1]->shape[db];
        full.dim[d] = a.dim[2 * d] * b.dim[2 * d + 1];
    }
    out[0] = cj_reshape(cj_mul(cj_reshape(in[0], a), cj_reshape(in[1], b)), full);
    return true;
}

enum { EINSUM, TENSORDOT, KRON };
const cj_op cj__ops_contract[] = { [EINSUM] = CJ_COMPOSITE_ROW(einsum, "contraction", -1, LONGEST),
                                   [TENSORDOT] = CJ_COMPOSITE_ROW(tensordot, "contraction", 2, sizeof(tensordot_attrs)),
                                   [KRON] = CJ_COMPOSITE_ROW(kron, "contraction", 2, 0) };
CJ_OP_TABLE(contract);

/* ---- what users call ---------------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *cj_einsum(const char *equation_text, cj_tensor *const *x, int n)
{
    cj_ctx *c = NULL;
    for (int i = 0; x && i < n && !c; i++)
        if (x[i]) c = x[i]->ctx;
    if (!c) return NULL;
    if (c->error) return c->poison;
    if (n > OPERANDS) return cj_fail(c, CJ_EVALUE, "einsum: %d operands; at most %d", n, OPERANDS);
    if (!equation_text || strlen(equation_text) >= LONGEST)
        return cj_fail(c, CJ_EVALUE, "einsum: %s", equation_text ? "the equation is longer than 255 characters" : "no equation");
    for (int i = 0; i < n; i++)
        if (!cj__usable(c, "einsum", i, x[i])) return c->poison;
    char text[LONGEST] = { 0 }; /* the attributes: compared byte by byte */
    snprintf(text, sizeof text, "%s", equation_text);
    return cj__apply(&cj__ops_contract[EINSUM], text, x, n);
}

cj_tensor *cj_tensordot(cj_tensor *a, cj_tensor *b, cj_axes of_a, cj_axes of_b)
{
    static const char op[] = "tensordot";
    cj_ctx *c = a ? a->ctx : b ? b->ctx : NULL;
    if (!c) return NULL;
    if (c->error || !cj__usable(c, op, 0, a) || !cj__usable(c, op, 1, b)) return c->poison;
    if (of_a.n != of_b.n || of_a.n < 0 || of_a.n > CJ_MAX_DIMS)
        return cj_fail(c, CJ_EVALUE, "%s: %d axes of the first and %d of the second; pairs expected", op, of_a.n, of_b.n);
    if (a->ndim + b->ndim - 2 * of_a.n > CJ_MAX_DIMS)
        return cj_fail(c, CJ_ESHAPE, "%s: %s and %s leave more than %d axes", op, cj__tensor_text(a), cj__tensor_text(b), CJ_MAX_DIMS);
    tensordot_attrs t = { .n = of_a.n };
    for (int k = 0; k < of_a.n; k++) {
        const int i = cj__axis(c, op, of_a.axis[k], a->ndim), j = i < 0 ? -1 : cj__axis(c, op, of_b.axis[k], b->ndim);
        if (j < 0) return c->poison;
        if (a->shape[i] != b->shape[j])
            return cj_fail(c, CJ_ESHAPE, "%s: axis %d of %s and axis %d of %s have different sizes", op, i, cj__tensor_text(a), j,
                           cj__tensor_text(b));
        for (int q = 0; q < k; q++)
            if (t.a[q] == i || t.b[q] == j) return cj_fail(c, CJ_EVALUE, "%s: an axis is given twice", op);
        t.a[k] = i, t.b[k] = j;
    }
    return cj__apply(&cj__ops_contract[TENSORDOT], &t, (cj_tensor *[]){ a, b }, 2);
}

cj_tensor *cj_kron(cj_tensor *a, cj_tensor *b)
{
    cj_ctx *c = a ? a->ctx : b ? b->ctx : NULL;
    if (!c) return NULL;
    if (c->error || !cj__usable(c, "kron", 0, a) || !cj__usable(c, "kron", 1, b)) return c->poison;
    if (a->ndim > CJ_MAX_DIMS / 2 || b->ndim > CJ_MAX_DIMS / 2)
        return cj_fail(c, CJ_ESHAPE, "kron: %s and %s; at most %d axes each", cj__tensor_text(a), cj__tensor_text(b), CJ_MAX_DIMS / 2);
    return cj__apply(&cj__ops_contract[KRON], NULL, (cj_tensor *[]){ a, b }, 2);
}
