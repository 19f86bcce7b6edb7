/* The update of a parameter inside the product that makes its gradient: W += alpha AᵀB instead of G = AᵀB and then W -= lr G.
 *
 * Gradients of weights are mostly products that only the optimiser's update reads.  Where the update says that it can be done by the product (cj_op.absorb), the
 * product moves to just before the update, no gradient is stored, and nobody passes over the weights a second time.  The update then sees a gradient without data
 * and leaves that parameter alone.  Operands wait for the product, so it moves only where no more memory is alive at once.
 */
#include "grad/plan.h"
#include "ops/product.h"

/* Describes the product of kernel k, whose result is one row-major f32 matrix; false where it is not such a product. */
static bool describe(const cj_kernel *k, cj_gemm *g)
{
    if (k->kind != CJ_KERNEL_CALL || k->step->nout != 1 || k->step->arg[k->step->nin].dtype != CJ_F32) return false;
    if (!cj__op_is_matmul(k->step->op) || k->step->arg[2].ndim != 2) return false;
    const cj_arg *a = &k->step->arg[0], *b = &k->step->arg[1], *y = &k->step->arg[2];
    if (a->ndim != 2 || b->ndim != 2) return false;
    *g = (cj_gemm){ .m = y->shape[0],
                    .n = y->shape[1],
                    .k = a->shape[1],
                    .batch = 1,
                    .a_row = a->stride[0],
                    .a_col = a->stride[1],
                    .b_row = b->stride[0],
                    .b_col = b->stride[1],
                    .c_row = y->stride[0] };
    return true;
}

/* The kernel that makes the gradient, if the update (kernel u) is all that reads it and the gradient is all of its slot; -1: none. */
static int maker(const cj_trace *t, const cj_compiled *p, int u, const cj_arg *gradient)
{
    const cj_slot *s = &t->slot[gradient->slot];
    if (s->kind != CJ_SLOT_TEMP || s->device || s->inside || s->last != u || s->first >= u) return -1;
    if (s->bytes != (size_t)gradient->numel * sizeof(float)) return -1; /* an update reads only what lies in one piece */
    for (int i = s->first + 1; i < u; i++)
        if (cj__kernel_reads(&p->kernel[i], gradient->slot)) return -1;
    int reads = 0;
    for (int a = 0; a < p->kernel[u].step->nin; a++) reads += p->kernel[u].step->arg[a].slot == gradient->slot;
    const cj_traced *made = p->kernel[s->first].step;
    return reads == 1 && p->kernel[s->first].kind == CJ_KERNEL_CALL && made->arg[made->nin].slot == gradient->slot ? s->first : -1;
}

/* Do operators that write leave the operands of kernel i alone, from its place up to and with kernel u? */
static bool operands_stay(const cj_compiled *p, int i, int u)
{
    const cj_traced *s = p->kernel[i].step;
    for (int k = i + 1; k <= u; k++) {
        const cj_traced *w = p->kernel[k].step;
        if (p->kernel[k].kind == CJ_KERNEL_FUSED) continue;
        for (int a = 0, n = cj__writes(w->op, w->attrs); a < n; a++)
            for (int b = 0; b < s->nin; b++)
                if (w->arg[a].slot == s->arg[b].slot) return false;
    }
    return true;
}

static void move(cj_compiled *p, int from, int to)
{
    const cj_kernel k = p->kernel[from];
    if (from < to) memmove(&p->kernel[from], &p->kernel[from + 1], (size_t)(to - from) * sizeof k);
    else memmove(&p->kernel[to + 1], &p->kernel[to], (size_t)(from - to) * sizeof k);
    p->kernel[to] = k;
}

/* The product that makes input `input` of the update (kernel u) goes before it and does that part of it, if it can. */
static void absorb(cj_ctx *c, cj_trace *t, cj_compiled *p, int u, int input)
{
    const cj_traced *update = p->kernel[u].step;
    const cj_arg *gradient = &update->arg[input];
    const int from = maker(t, p, u, gradient);
    cj_gemm g;
    if (from < 0 || !describe(&p->kernel[from], &g) || g.c_row != g.n || !operands_stay(p, from, u)) return;
    if (!update->op->absorbs(c, update->attrs, input, &g)) return;
    int at;
    const size_t before = cj__plan_most_live(t, p, &at);
    move(p, from, u - 1);
    t->slot[gradient->slot].absorbed = true;
    cj__plan_lives(t, p);
    if (cj__plan_most_live(t, p, &at) > before) {
        move(p, u - 1, from);
        t->slot[gradient->slot].absorbed = false;
        cj__plan_lives(t, p);
        return;
    }
    cj_kernel *k = &p->kernel[u - 1];
    k->absorbed = input + 1;
    const size_t scratch = c->k->gemm_workspace[CJ_F32](&g, c->threads);
    if (scratch > p->scratch) p->scratch = scratch;
    if (p->first_write > u - 1) p->first_write = u - 1;
    else if (p->first_write > from) p->first_write--;
}

void cj__plan_absorb(cj_ctx *c, cj_trace *t, cj_compiled *p)
{
    for (int u = 0; u < p->n; u++)
        if (p->kernel[u].kind == CJ_KERNEL_CALL && p->kernel[u].step->op->absorb)
            for (int input = cj__writes(p->kernel[u].step->op, p->kernel[u].step->attrs); input < p->kernel[u].step->nin; input++)
                absorb(c, t, p, u, input);
    /* The headers of an update are those of its call, which stands behind all products that do a part of it. */
    for (int i = 0; i < p->n; i++)
        for (int u = i + 1; p->kernel[i].absorbed && !p->kernel[i].update && u < p->n; u++)
            if (p->kernel[u].kind == CJ_KERNEL_CALL && p->kernel[u].step->op->absorb) p->kernel[i].update = &p->kernel[u];
}
