/* The registry: all rows of all families, by name and by number. */
#include "ops/ops.h"

static const struct {
    const cj_op *rows;
    const int *n;
} families[] = {
#define FAMILY(name) { cj__ops_##name, &cj__ops_##name##_n },
    CJ_FAMILIES(FAMILY)
};

static const cj_op *row_at(int i)
{
    for (size_t f = 0; f < sizeof families / sizeof families[0]; i -= *families[f++].n)
        if (i < *families[f].n) return &families[f].rows[i];
    return NULL;
}

int cj_op_count(void)
{
    int n = 0;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) n += *families[f].n;
    return n;
}

const cj_op *cj__op_at(int i) { return i < 0 ? NULL : row_at(i); }

const cj_op *cj__op_by_name(const char *name)
{
    for (int i = 0, n = cj_op_count(); i < n; i++)
        if (strcmp(row_at(i)->name, name) == 0) return row_at(i);
    return NULL;
}

cj_op_info cj_op_at(int i)
{
    static const char *const kinds[] = { "primitive", "composite", "internal", "write" };
    static const char *const jvps[] = { "derived", "elementwise", "linear", "own", "none" };
    const cj_op *op = cj__op_at(i);
    if (!op) return (cj_op_info){ 0 };
    return (cj_op_info){ .name = op->name,
                         .family = op->family,
                         .kind = kinds[op->kind],
                         .differentiable = op->vjp || (op->define && !op->run && !(op->flags & CJ_OP_NOGRAD)),
                         .jvp = op->kind == CJ_COMPOSITE ? "definition"
                                : op->vjp                ? jvps[op->jvp_rule]
                                                         : "none",
                         .fused_backward = op->kind == CJ_COMPOSITE && op->vjp };
}
