/* Inside the elementwise engine: one call of it, as ew.c prepares it and ew_plan.c completes it. */
#ifndef CJ_KERNELS_CPU_EW_JOB_H
#define CJ_KERNELS_CPU_EW_JOB_H

#include "kernels/cpu/ew_block.h"

/*   direct     contiguous and of the compute type: read and written in place
 *   scalar     one value: a block is filled with it once
 *   periodic   a row repeated (a bias over a batch): written out once, a block starts at the right phase; long rows are read in place
 *   walked     anything else: copied and converted run by run into a block, or out of one */
typedef enum cj_ew_kind { CJ_EW_DIRECT, CJ_EW_SCALAR, CJ_EW_PERIODIC, CJ_EW_WALKED } cj_ew_kind;

/* f64, i64: one instruction over a block, operands as places */
typedef struct cj_ew_step {
    cj_ew_block_fn *fn;
    double s;
    uint8_t d, a, b, c;
} cj_ew_step;

/* Prefetches, then per instruction its operations and a store to each output, then END. */
#define CJ_EW_MAX_OPS (CJ_EW_OPS_PER_INSTR * CJ_EW_MAX_INSTR + 2 * CJ_EW_MAX_ARGS + 1)

typedef struct cj_ew_job {
    const cj_ew_prog *p;
    const cj_ew_arg *args;
    int *fault;
    int n_args;
    int elem, block; /* bytes of a compute element; elements of a block */
    int nd;
    int64_t shape[CJ_MAX_DIMS], numel;
    int64_t stride[CJ_EW_MAX_ARGS][CJ_MAX_DIMS];
    int64_t period[CJ_EW_MAX_ARGS];
    uint8_t kind[CJ_EW_MAX_ARGS]; /* cj_ew_kind */
    int tile_dim;                 /* the dimension tiled against the last one; -1: linear */
    int64_t tiles_row, tiles_col, tile_h, tile_w;

    /* made by cj__ew_plan */
    int n_stores;
    uint8_t store[CJ_EW_MAX_ARGS];      /* outputs that are copied out of a buffer at the end of a block … */
    uint8_t store_from[CJ_EW_MAX_ARGS]; /* … and the place they come from */
    bool streams;
    bool by_groups; /* buffers need no more than one wide group: every argument is direct or scalar, every output written in place */
    int n_ops, n_wide, n_steps;
    union {
        struct {
            cj_ew_op ops[CJ_EW_MAX_OPS]; /* f32 */
            cj_ew_op wide[CJ_EW_WIDE ? CJ_EW_MAX_OPS : 1];
        };
        cj_ew_step steps[CJ_EW_MAX_INSTR]; /* f64, i64 */
    };
} cj_ew_job;

void CJ_K(cj__ew_plan)(cj_ew_job *j);

/* ew_small.c: false if the call is not for them */
bool CJ_K(cj__ew_run_one)(const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape);
bool CJ_K(cj__ew_run_small)(const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape);

#endif
