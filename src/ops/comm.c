/* Collectives: sums, maxima, gathering and broadcasting over the processes of a cj_comm, and the one-process comm.
 *
 * They are operators like any other: recorded, captured, replayed in the order in which they were called.  Derivatives are those of the sum of all ranks' losses,
 * so the gradient of a sum over ranks is a sum over ranks again.
 */
#include "ops/ops.h"

typedef struct comm_attrs {
    const cj_comm *comm;
    int64_t root;
} comm_attrs;

/* ---- one process ------------------------------------------------------------------------------------------------------------------------------- */

static bool self_reduce(const cj_comm *comm, void *data, int64_t n, cj_dtype t, cj_comm_op op)
{
    (void)comm, (void)data, (void)n, (void)t, (void)op;
    return true;
}
static bool self_gather(const cj_comm *comm, const void *mine, void *all, int64_t n, cj_dtype t)
{
    (void)comm;
    memcpy(all, mine, (size_t)n * cj_dtype_size(t));
    return true;
}
static bool self_broadcast(const cj_comm *comm, void *data, int64_t n, cj_dtype t, int root)
{
    (void)comm, (void)data, (void)n, (void)t, (void)root;
    return true;
}
static const cj_comm self = { .rank = 0, .size = 1, .all_reduce = self_reduce, .all_gather = self_gather, .broadcast = self_broadcast };
const cj_comm *cj_comm_self(void) { return &self; }

/* ---- operators ----------------------------------------------------------------------------------------------------------------------------------- */

static bool failed(const cj_call *call)
{
    const comm_attrs *a = call->attrs;
    return call->ctx->error == CJ_OK && cj__error(call->ctx, CJ_ECOMM, "%s: the exchange of %s among %d processes failed", call->op->name,
                                                  cj__tensor_text(call->in[0]), a->comm->size);
}

/* The result begins as a copy of the input. */
static void copy_in(const cj_call *call)
{
    const cj_tensor *x = call->in[0], *y = call->out[0];
    if (y->numel)
        call->ctx->k->copy(call->ctx->pool, x->ndim, x->shape, (cj_dtype)x->dtype, x->data, x->stride, (cj_dtype)y->dtype, y->data,
                           y->stride);
}

static bool infer_same(cj_call *call)
{
    const cj_tensor *x = call->in[0];
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim, x->shape);
}

static bool reduce(cj_call *call, cj_comm_op op)
{
    const comm_attrs *a = call->attrs;
    const cj_tensor *y = call->out[0];
    copy_in(call);
    return a->comm->all_reduce(a->comm, y->data, y->numel, (cj_dtype)y->dtype, op) || failed(call);
}
static bool run_sum(cj_call *call) { return reduce(call, CJ_COMM_SUM); }
static bool run_max(cj_call *call) { return reduce(call, CJ_COMM_MAX); }

static bool run_broadcast(cj_call *call)
{
    const comm_attrs *a = call->attrs;
    const cj_tensor *y = call->out[0];
    copy_in(call);
    return a->comm->broadcast(a->comm, y->data, y->numel, (cj_dtype)y->dtype, (int)a->root) || failed(call);
}

static bool infer_gather(cj_call *call)
{
    const comm_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    int64_t shape[CJ_MAX_DIMS] = { a->comm->size };
    if (x->ndim == CJ_MAX_DIMS)
        return cj__error(call->ctx, CJ_ESHAPE, "all_gather: %s would get a dimension more than the %d there are", cj__tensor_text(x),
                         CJ_MAX_DIMS);
    if (!cj__contiguous(x)) return cj__error(call->ctx, CJ_ESTATE, "all_gather: the value is not contiguous");
    memcpy(shape + 1, x->shape, x->ndim * sizeof *shape);
    return cj__out(call, 0, (cj_dtype)x->dtype, x->ndim + 1, shape);
}
static bool run_gather(cj_call *call)
{
    const comm_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    return a->comm->all_gather(a->comm, x->data, call->out[0]->data, x->numel, (cj_dtype)x->dtype) || failed(call);
}

static void d_sum(cj_vjp_args *v) { v->gin[0] = cj_all_sum(v->g[0], ((const comm_attrs *)v->attrs)->comm); }
/* To the ranks that hold the maximum; ties share. */
static void d_max(cj_vjp_args *v)
{
    const cj_comm *comm = ((const comm_attrs *)v->attrs)->comm;
    cj_tensor *mine = cj_cast(cj_eq(v->in[0], v->out[0]), (cj_dtype)v->in[0]->dtype);
    v->gin[0] = cj_mul(cj_all_sum(v->g[0], comm), cj_div(mine, cj_all_sum(mine, comm)));
}
static void d_gather(cj_vjp_args *v)
{
    const cj_comm *comm = ((const comm_attrs *)v->attrs)->comm;
    v->gin[0] = cj_select(cj_all_sum(v->g[0], comm), 0, comm->rank);
}
static void d_broadcast(cj_vjp_args *v)
{
    const comm_attrs *a = v->attrs;
    v->gin[0] = cj_mul_scalar(cj_all_sum(v->g[0], a->comm), a->comm->rank == a->root);
}

#define ROW(op_name, inf, exec, derivative, rule, ...)                                                                                     \
    {                                                                                                                                      \
        .name = op_name, .family = "comm", .kind = CJ_PRIMITIVE, .nin = 1, .nout = 1, .attr_size = sizeof(comm_attrs), .infer = inf,       \
        .run = exec, .vjp = derivative, .jvp_rule = rule, __VA_ARGS__                                                                      \
    }
enum { SUM, MAX, GATHER, BROADCAST };
const cj_op cj__ops_comm[] = {
    [SUM] = ROW("all_sum", infer_same, run_sum, d_sum, CJ_JVP_LINEAR, .save_in = 0),
    [MAX] = ROW("all_max", infer_same, run_max, d_max, CJ_JVP_DERIVED, .save_in = 1, .save_out = 1),
    [GATHER] = ROW("all_gather", infer_gather, run_gather, d_gather, CJ_JVP_LINEAR, .save_in = 0),
    [BROADCAST] = ROW("broadcast", infer_same, run_broadcast, d_broadcast, CJ_JVP_LINEAR, .save_in = 0),
};
CJ_OP_TABLE(comm);

static cj_tensor *collective(int row, cj_tensor *x, const cj_comm *comm, int root)
{
    if (!x) return NULL;
    comm_attrs a = { .comm = comm ? comm : &self, .root = root };
    if (root < 0 || root >= a.comm->size)
        return cj_fail(x->ctx, CJ_EINDEX, "%s: root %d, there are %d processes", cj__ops_comm[row].name, root, a.comm->size);
    return cj__apply(&cj__ops_comm[row], &a, &x, 1);
}
cj_tensor *cj_all_sum(cj_tensor *x, const cj_comm *comm) { return collective(SUM, x, comm, 0); }
cj_tensor *cj_all_max(cj_tensor *x, const cj_comm *comm) { return collective(MAX, x, comm, 0); }
cj_tensor *cj_all_gather(cj_tensor *x, const cj_comm *comm)
{
    return cj__given("all_gather", &x, 1) ? collective(GATHER, cj_contiguous(x), comm, 0) : CJ_POISON_OF(x);
}
cj_tensor *cj_broadcast(cj_tensor *x, const cj_comm *comm, int root) { return collective(BROADCAST, x, comm, root); }
