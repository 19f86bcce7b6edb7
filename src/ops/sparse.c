/* Sparse matrices in compressed rows: a struct of tensors, the product with a dense matrix, and the product of two dense matrices at the entries.
 *
 * Both products are bilinear and carry each other's derivatives:
 *   y = A(v)·x            dv = sampled(dy, x)        dx = A(v)ᵀ·dy
 *   u = sampled(x, y)     dx = A(du)·y               dy = A(du)ᵀ·x
 * The transposed product walks a transposed structure that stands beside the matrix, so that no sum depends on who comes first.
 */
#include "cajal/grad.h"
#include "ops/ops.h"

typedef cj_csr_attrs csr_attrs;

/* Inputs of both rows: the structure, then values and x, or x and y. */
enum { OFFSETS, COLUMNS, T_OFFSETS, T_ROWS, T_ENTRY, FIRST, SECOND, INPUTS };
static const char *const part_names[] = { "offsets", "columns", "t_offsets", "t_rows", "t_entry" };

/* ---- checks: a structure comes from users, and a wrong one would read anywhere ------------------------------------------------------------------------ */

static bool check_parts(cj_call *call)
{
    const csr_attrs *a = call->attrs;
    const int64_t entries = call->in[COLUMNS]->numel, want[] = { a->rows + 1, entries, a->cols + 1, entries, entries };
    for (int i = 0; i <= T_ENTRY; i++) {
        const cj_tensor *t = call->in[i];
        if (t->dtype != CJ_I64 || t->ndim != 1 || t->numel != want[i])
            return cj__error(call->ctx, CJ_ESHAPE, "%s: %s is %s %s; i64 [%lld] expected", call->op->name, part_names[i],
                             cj_dtype_name((cj_dtype)t->dtype), cj__tensor_text(t), (long long)want[i]);
    }
    for (int i = 0; i < INPUTS; i++)
        if (!cj__contiguous(call->in[i])) return cj__error(call->ctx, CJ_ESTATE, "%s: operand layout", call->op->name);
    const cj_tensor *x = call->in[FIRST], *y = call->in[SECOND];
    if (!cj_dtype_is_float((cj_dtype)x->dtype) || x->dtype != y->dtype)
        return cj__error(call->ctx, CJ_EDTYPE, "%s: dtypes %s and %s; both must be the same float type", call->op->name,
                         cj_dtype_name((cj_dtype)x->dtype), cj_dtype_name((cj_dtype)y->dtype));
    return true;
}

static bool check_offsets(cj_ctx *c, const char *op, const char *what, const int64_t *offsets, int64_t n, int64_t entries)
{
    bool rises = offsets[0] == 0 && offsets[n] == entries;
    for (int64_t i = 0; i < n; i++) rises &= offsets[i] <= offsets[i + 1];
    if (rises) return true;
    for (int64_t i = 0; i < n; i++)
        if (offsets[i] > offsets[i + 1])
            return cj__error(c, CJ_EVALUE, "%s: %s falls from %lld to %lld at row %lld", op, what, (long long)offsets[i],
                             (long long)offsets[i + 1], (long long)i);
    return cj__error(c, CJ_EVALUE, "%s: %s runs from %lld to %lld; 0 to the %lld entries expected", op, what, (long long)offsets[0],
                     (long long)offsets[n], (long long)entries);
}
static bool check_range(cj_ctx *c, const char *op, const char *what, const int64_t *v, int64_t n, int64_t limit)
{
    const int64_t bad = n ? c->k->index_check(c->pool, v, n, limit) : -1;
    if (bad < 0) return true;
    return cj__error(c, CJ_EINDEX, "%s: %s of entry %lld is %lld, outside [0, %lld)", op, what, (long long)bad, (long long)v[bad],
                     (long long)limit);
}
static const int64_t *numbers(const cj_tensor *t) { return (const int64_t *)(const void *)t->data; }

/* The structure that the kernel walks, checked. */
static bool walk(cj_call *call, bool transposed, int64_t k, cj_csr_shape *s)
{
    const csr_attrs *a = call->attrs;
    const int64_t entries = call->in[COLUMNS]->numel, rows = transposed ? a->cols : a->rows, cols = transposed ? a->rows : a->cols;
    const int first = transposed ? T_OFFSETS : OFFSETS;
    *s = (cj_csr_shape){ .rows = rows,
                         .entries = entries,
                         .k = k,
                         .offsets = numbers(call->in[first]),
                         .columns = numbers(call->in[first + 1]),
                         .entry = transposed ? numbers(call->in[T_ENTRY]) : NULL };
    const char *op = call->op->name;
    return check_offsets(call->ctx, op, part_names[first], s->offsets, rows, entries) &&
           check_range(call->ctx, op, part_names[first + 1], s->columns, entries, cols) &&
           (!transposed || check_range(call->ctx, op, "t_entry", s->entry, entries, entries));
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------------------------ */

static bool infer_matmul(cj_call *call)
{
    const csr_attrs *a = call->attrs;
    const cj_tensor *v = call->in[FIRST], *x = call->in[SECOND];
    if (!check_parts(call)) return false;
    const int64_t inner = a->transposed ? a->rows : a->cols, outer = a->transposed ? a->cols : a->rows;
    if (v->ndim != 1 || v->numel != call->in[COLUMNS]->numel)
        return cj__error(call->ctx, CJ_ESHAPE, "csr_matmul: values %s for %lld entries", cj__tensor_text(v),
                         (long long)call->in[COLUMNS]->numel);
    if (x->ndim != 2 || x->shape[0] != inner)
        return cj__error(call->ctx, CJ_ESHAPE, "csr_matmul: inner sizes differ: [%lld, %lld]%s x %s", (long long)a->rows,
                         (long long)a->cols, a->transposed ? "ᵀ" : "", cj__tensor_text(x));
    return cj__out(call, 0, (cj_dtype)x->dtype, 2, (int64_t[]){ outer, x->shape[1] });
}
static bool run_matmul(cj_call *call)
{
    const csr_attrs *a = call->attrs;
    const cj_tensor *v = call->in[FIRST], *x = call->in[SECOND];
    cj_csr_shape s;
    if (!walk(call, a->transposed, x->shape[1], &s)) return false;
    if (call->out[0]->numel) call->ctx->k->csr_matmul(call->ctx->pool, &s, (cj_dtype)x->dtype, v->data, x->data, call->out[0]->data);
    return true;
}
static double flops_matmul(const cj_call *call) { return 2.0 * (double)call->in[COLUMNS]->numel * (double)call->in[SECOND]->shape[1]; }

static bool infer_sampled(cj_call *call)
{
    const csr_attrs *a = call->attrs;
    const cj_tensor *x = call->in[FIRST], *y = call->in[SECOND];
    if (!check_parts(call)) return false;
    if (x->ndim != 2 || y->ndim != 2 || x->shape[0] != a->rows || y->shape[0] != a->cols || x->shape[1] != y->shape[1])
        return cj__error(call->ctx, CJ_ESHAPE, "csr_sampled: %s x %sᵀ at the entries of [%lld, %lld]", cj__tensor_text(x),
                         cj__tensor_text(y), (long long)a->rows, (long long)a->cols);
    return cj__out(call, 0, (cj_dtype)x->dtype, 1, &call->in[COLUMNS]->numel);
}
static bool run_sampled(cj_call *call)
{
    const cj_tensor *x = call->in[FIRST], *y = call->in[SECOND];
    cj_csr_shape s;
    if (!walk(call, false, x->shape[1], &s)) return false;
    if (s.entries) call->ctx->k->csr_dot(call->ctx->pool, &s, (cj_dtype)x->dtype, x->data, y->data, call->out[0]->data);
    return true;
}

enum { MATMUL, SAMPLED };
static cj_tensor *apply(int row, const csr_attrs *a, bool transposed, cj_tensor *const *structure, cj_tensor *first, cj_tensor *second);

static void d_matmul(cj_vjp_args *v)
{
    const csr_attrs *a = v->attrs;
    cj_tensor *g = v->g[0], *x = v->in[SECOND];
    if (v->need[FIRST]) v->gin[FIRST] = a->transposed ? apply(SAMPLED, a, false, v->in, x, g) : apply(SAMPLED, a, false, v->in, g, x);
    if (v->need[SECOND]) v->gin[SECOND] = apply(MATMUL, a, !a->transposed, v->in, v->in[FIRST], g);
}
static void d_sampled(cj_vjp_args *v)
{
    if (v->need[FIRST]) v->gin[FIRST] = apply(MATMUL, v->attrs, false, v->in, v->g[0], v->in[SECOND]);
    if (v->need[SECOND]) v->gin[SECOND] = apply(MATMUL, v->attrs, true, v->in, v->g[0], v->in[FIRST]);
}
/* Bilinear: f(t1, in2) + f(in1, t2). */
static void bilinear(cj_jvp_args *j, int row)
{
    const csr_attrs *a = j->attrs;
    cj_tensor *left = j->tan[FIRST] ? apply(row, a, a->transposed, j->in, j->tan[FIRST], j->in[SECOND]) : NULL;
    cj_tensor *right = j->tan[SECOND] ? apply(row, a, a->transposed, j->in, j->in[FIRST], j->tan[SECOND]) : NULL;
    j->tout[0] = left && right ? cj_add(left, right) : left ? left : right;
}
static void j_matmul(cj_jvp_args *j) { bilinear(j, MATMUL); }
static void j_sampled(cj_jvp_args *j) { bilinear(j, SAMPLED); }

#define ROW(op_name, part)                                                                                                                 \
    {                                                                                                                                      \
        .name = op_name, .family = "sparse", .kind = CJ_PRIMITIVE, .nin = INPUTS, .nout = 1, .attr_size = sizeof(csr_attrs),               \
        .save_in = (1u << INPUTS) - 1, .infer = infer_##part, .run = run_##part, .vjp = d_##part, .jvp_rule = CJ_JVP_OWN, .jvp = j_##part, \
        .flops = flops_matmul                                                                                                              \
    }
const cj_op cj__ops_sparse[] = { [MATMUL] = ROW("csr_matmul", matmul), [SAMPLED] = ROW("csr_sampled", sampled) };
CJ_OP_TABLE(sparse);

static cj_tensor *apply(int row, const csr_attrs *a, bool transposed, cj_tensor *const *structure, cj_tensor *first, cj_tensor *second)
{
    csr_attrs attrs = *a;
    attrs.transposed = transposed;
    cj_tensor *in[INPUTS];
    for (int i = 0; i <= T_ENTRY; i++) in[i] = cj_contiguous(structure[i]);
    in[FIRST] = cj_contiguous(first);
    in[SECOND] = cj_contiguous(second);
    return cj__apply(&cj__ops_sparse[row], &attrs, in, INPUTS);
}

/* ---- products ---------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *product(int row, cj_csr m, bool transposed, cj_tensor *first, cj_tensor *second)
{
    const csr_attrs a = { m.rows, m.cols, transposed };
    cj_tensor *const structure[] = { m.offsets, m.columns, m.t_offsets, m.t_rows, m.t_entry };
    cj_tensor *some = first ? first : second;
    cj_ctx *c = some ? some->ctx : NULL;
    if (!c) return NULL;
    if (c->error) return c->poison;
    for (int i = 0; i <= T_ENTRY; i++)
        if (!cj__usable(c, cj__ops_sparse[row].name, i, structure[i])) return c->poison;
    if (!cj__usable(c, cj__ops_sparse[row].name, FIRST, first) || !cj__usable(c, cj__ops_sparse[row].name, SECOND, second))
        return c->poison;
    if (m.rows < 0 || m.cols < 0 || m.rows == INT64_MAX || m.cols == INT64_MAX)
        return cj_fail(c, CJ_EVALUE, "%s: a matrix of [%lld, %lld]", cj__ops_sparse[row].name, (long long)m.rows, (long long)m.cols);
    const bool vector = row == MATMUL && second->ndim == 1;
    if (vector) second = cj_unsqueeze(second, 1);
    cj_tensor *y = apply(row, &a, transposed, structure, first, second);
    return vector ? cj_squeeze(y, 1) : y;
}
cj_tensor *cj_csr_matmul(cj_csr a, cj_tensor *x) { return product(MATMUL, a, false, a.values, x); }
cj_tensor *cj_csr_matmul_t(cj_csr a, cj_tensor *x) { return product(MATMUL, a, true, a.values, x); }
cj_tensor *cj_csr_sampled(cj_csr a, cj_tensor *x, cj_tensor *y) { return product(SAMPLED, a, false, x, y); }

/* ---- making them ------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_csr poisoned(cj_ctx *c)
{
    cj_tensor *p = c ? c->poison : NULL;
    return (cj_csr){ 0, 0, p, p, p, p, p, p };
}
static bool sizes_ok(cj_ctx *c, const char *op, int64_t rows, int64_t cols)
{
    if (rows >= 0 && cols >= 0 && rows < INT32_MAX && cols < INT32_MAX) return true;
    return cj__error(c, CJ_EVALUE, "%s: a matrix of [%lld, %lld]", op, (long long)rows, (long long)cols);
}
/* Its numbers can be read now. */
static bool readable(cj_ctx *c, const char *op, const char *what)
{
    return !c->trace || cj__error(c, CJ_ECAPTURE, "%s: reads %s inside a captured step; make the matrix before", op, what);
}
static bool index_vector(cj_ctx *c, const char *op, const char *what, const cj_tensor *t, int64_t n)
{
    if (t->dtype != CJ_I64 || t->ndim != 1 || (n >= 0 && t->numel != n))
        return cj__error(c, CJ_ESHAPE, "%s: %s is %s %s; i64 %s expected", op, what, cj_dtype_name((cj_dtype)t->dtype), cj__tensor_text(t),
                         n < 0 ? "[entries]" : cj__shape_text(1, &n));
    return readable(c, op, what);
}

/* A matrix of checked offsets and columns, whose numbers stand in `from` and `col`, with its transposed structure: entries in the order of columns, rows rising within each. */
static cj_csr with_transpose(cj_tensor *offsets, const int64_t *from, cj_tensor *columns, const int64_t *col, cj_tensor *values,
                             int64_t rows, int64_t cols)
{
    cj_ctx *c = offsets->ctx;
    const int64_t entries = columns->numel;
    const size_t bytes = (size_t)(cols + 2 + 2 * entries) * sizeof(int64_t);
    int64_t *next = cj__zalloc(c, bytes), *t_rows = next ? next + cols + 2 : NULL, *t_entry = t_rows ? t_rows + entries : NULL;
    if (!next) return poisoned(c);
    for (int64_t p = 0; p < entries; p++) next[col[p] + 2]++; /* two ahead: filling moves each start to its end, which is the next start */
    for (int64_t k = 2; k < cols + 2; k++) next[k] += next[k - 1];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = from[i]; p < from[i + 1]; p++) {
            const int64_t at = next[col[p] + 1]++;
            t_rows[at] = i;
            t_entry[at] = p;
        }
    cj_csr a = { .rows = rows,
                 .cols = cols,
                 .offsets = offsets,
                 .columns = columns,
                 .values = values,
                 .t_offsets = cj_from_i64(c, next, CJ_SHAPE(cols + 1)),
                 .t_rows = cj_from_i64(c, t_rows, CJ_SHAPE(entries)),
                 .t_entry = cj_from_i64(c, t_entry, CJ_SHAPE(entries)) };
    cj__free(c, next, bytes);
    return c->error ? poisoned(c) : a;
}

static bool values_ok(cj_ctx *c, const char *op, const cj_tensor *values, int64_t entries)
{
    if (!cj_dtype_is_float((cj_dtype)values->dtype) || values->ndim != 1 || values->numel != entries)
        return cj__error(c, CJ_ESHAPE, "%s: values are %s %s; floats [%lld] expected", op, cj_dtype_name((cj_dtype)values->dtype),
                         cj__tensor_text(values), (long long)entries);
    return true;
}

cj_csr cj_csr_from_parts(cj_tensor *offsets, cj_tensor *columns, cj_tensor *values, int64_t rows, int64_t cols)
{
    static const char op[] = "csr_from_parts";
    cj_ctx *c = offsets ? offsets->ctx : columns ? columns->ctx : values ? values->ctx : NULL;
    if (!c || c->error || !cj__usable(c, op, 0, offsets) || !cj__usable(c, op, 1, columns) || !cj__usable(c, op, 2, values) ||
        !sizes_ok(c, op, rows, cols) || !index_vector(c, op, "offsets", offsets, rows + 1) ||
        !index_vector(c, op, "columns", columns, -1) || !values_ok(c, op, values, columns->numel))
        return poisoned(c);
    offsets = cj_contiguous(offsets);
    columns = cj_contiguous(columns);
    const cj_tensor *near_offsets = cj_to(offsets, "cpu"), *near_columns = cj_to(columns, "cpu");
    if (c->error) return poisoned(c);
    const int64_t *from = numbers(near_offsets), *col = numbers(near_columns);
    if (!check_offsets(c, op, "offsets", from, rows, columns->numel) || !check_range(c, op, "the column", col, columns->numel, cols))
        return poisoned(c);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = from[i] + 1; p < from[i + 1]; p++)
            if (col[p] <= col[p - 1]) {
                cj__error(c, CJ_EVALUE, "%s: columns %lld and %lld of row %lld %s", op, (long long)col[p - 1], (long long)col[p],
                          (long long)i, col[p] == col[p - 1] ? "are the same" : "are not in order");
                return poisoned(c);
            }
    return with_transpose(offsets, from, columns, col, values, rows, cols);
}

/* Sorted by counting, first by column, then by row: stable, so that columns rise within rows. */
static bool sort_entries(cj_ctx *c, const int64_t *row, const int64_t *col, int64_t n, int64_t rows, int64_t cols, int64_t *order)
{
    const int64_t longest = rows > cols ? rows : cols;
    const size_t bytes = (size_t)(longest + 1 + n) * sizeof(int64_t);
    int64_t *start = cj__alloc(c, bytes), *by_column = start ? start + longest + 1 : NULL;
    if (!start) return false;
    for (int pass = 0; pass < 2; pass++) {
        const int64_t *key = pass ? row : col, count = pass ? rows : cols;
        int64_t *to = pass ? order : by_column;
        memset(start, 0, (size_t)(count + 1) * sizeof *start);
        for (int64_t e = 0; e < n; e++) start[key[e] + 1]++;
        for (int64_t k = 0; k < count; k++) start[k + 1] += start[k];
        for (int64_t e = 0; e < n; e++) {
            const int64_t which = pass ? by_column[e] : e;
            to[start[key[which]]++] = which;
        }
    }
    cj__free(c, start, bytes);
    return true;
}

cj_csr cj_csr_from_coo(cj_tensor *row, cj_tensor *col, cj_tensor *values, int64_t rows, int64_t cols)
{
    static const char op[] = "csr_from_coo";
    cj_ctx *c = row ? row->ctx : col ? col->ctx : values ? values->ctx : NULL;
    if (!c || c->error || !cj__usable(c, op, 0, row) || !cj__usable(c, op, 1, col) || !cj__usable(c, op, 2, values) ||
        !sizes_ok(c, op, rows, cols) || !index_vector(c, op, "row", row, -1) || !index_vector(c, op, "col", col, row->numel) ||
        !values_ok(c, op, values, row->numel))
        return poisoned(c);
    row = cj_to(cj_contiguous(row), "cpu");
    col = cj_to(cj_contiguous(col), "cpu");
    if (c->error) return poisoned(c);
    const int64_t n = row->numel, *r = numbers(row), *k = numbers(col);
    if (!check_range(c, op, "the row", r, n, rows) || !check_range(c, op, "the column", k, n, cols)) return poisoned(c);
    const size_t bytes = (size_t)(3 * n + rows + 1) * sizeof(int64_t);
    int64_t *offsets = cj__zalloc(c, bytes);
    if (!offsets) return poisoned(c);
    int64_t *columns = offsets + rows + 1, *place = columns + n, *order = place + n, entries = 0;
    cj_csr a = poisoned(c);
    if (sort_entries(c, r, k, n, rows, cols, order)) {
        for (int64_t e = 0; e < n; e++) { /* entries at one place share it */
            const int64_t at = order[e];
            const bool again = e && r[at] == r[order[e - 1]] && k[at] == k[order[e - 1]];
            if (!again) {
                columns[entries++] = k[at];
                offsets[r[at] + 1]++;
            }
            place[at] = entries - 1;
        }
        for (int64_t i = 0; i < rows; i++) offsets[i + 1] += offsets[i];
        cj_tensor *zeros = cj_expand(cj_cast(cj__const(values, 0), (cj_dtype)values->dtype), CJ_SHAPE(entries));
        cj_tensor *sums = cj_index_add(zeros, 0, cj_from_i64(c, place, CJ_SHAPE(n)), values);
        cj_tensor *from = cj_from_i64(c, offsets, CJ_SHAPE(rows + 1)), *to = cj_from_i64(c, columns, CJ_SHAPE(entries));
        if (!c->error) a = with_transpose(from, offsets, to, columns, sums, rows, cols);
    }
    cj__free(c, offsets, bytes);
    return a;
}

cj_csr cj_csr_from_dense(cj_tensor *x)
{
    static const char op[] = "csr_from_dense";
    if (!x) return poisoned(NULL);
    cj_ctx *c = x->ctx;
    if (c->error || !cj__usable(c, op, 0, x) || !readable(c, op, "the matrix")) return poisoned(c);
    if (x->ndim != 2 || !cj_dtype_is_float((cj_dtype)x->dtype)) {
        cj__error(c, CJ_ESHAPE, "%s: %s %s; a matrix of floats expected", op, cj_dtype_name((cj_dtype)x->dtype), cj__tensor_text(x));
        return poisoned(c);
    }
    cj_tensor *dense = cj_contiguous(x), *places = cj_nonzero(cj_to(cj_detach(dense), "cpu"));
    if (c->error) return poisoned(c);
    cj_tensor *row = cj_contiguous(cj_select(places, 1, 0)), *col = cj_contiguous(cj_select(places, 1, 1));
    cj_tensor *flat = cj_add(cj_mul(row, cj_cast(cj__const(row, (double)x->shape[1]), CJ_I64)), col);
    if (x->st->device) flat = cj_to(flat, c->backend->name);
    return cj_csr_from_coo(row, col, cj_index_select(cj_flatten(dense, 0), 0, flat), x->shape[0], x->shape[1]);
}

cj_csr cj_csr_with_values(cj_csr a, cj_tensor *values)
{
    a.values = values;
    return a;
}

cj_tensor *cj__csr_rows(cj_csr a) { return cj_index_add(cj_zeros_like(a.columns), 0, a.t_entry, a.t_rows); }

cj_tensor *cj_csr_to_dense(cj_csr a)
{
    if (!a.values) return NULL;
    cj_ctx *c = a.values->ctx;
    cj_tensor *const part[] = { a.columns, a.t_rows, a.t_entry, a.values };
    if (c->error || !sizes_ok(c, "csr_to_dense", a.rows, a.cols)) return c->poison;
    for (int i = 0; i < 4; i++)
        if (!cj__usable(c, "csr_to_dense", i, part[i])) return c->poison;
    /* row·cols + column of every entry */
    cj_tensor *row = cj__csr_rows(a);
    cj_tensor *flat = cj_add(cj_mul(row, cj_cast(cj__const(row, (double)a.cols), CJ_I64)), a.columns);
    cj_tensor *zeros = cj_expand(cj_cast(cj__const(a.values, 0), (cj_dtype)a.values->dtype), CJ_SHAPE(a.rows * a.cols));
    return cj_reshape(cj_index_add(zeros, 0, flat, a.values), CJ_SHAPE(a.rows, a.cols));
}

/* ---- lifetimes ---------------------------------------------------------------------------------------------------------------------------------------------- */

cj_csr cj_csr_keep(cj_csr a)
{
    a.offsets = cj_keep(a.offsets), a.columns = cj_keep(a.columns), a.values = cj_keep(a.values);
    a.t_offsets = cj_keep(a.t_offsets), a.t_rows = cj_keep(a.t_rows), a.t_entry = cj_keep(a.t_entry);
    return a;
}
void cj_csr_release(cj_csr a)
{
    cj_release(a.offsets), cj_release(a.columns), cj_release(a.values);
    cj_release(a.t_offsets), cj_release(a.t_rows), cj_release(a.t_entry);
}
