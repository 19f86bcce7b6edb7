/* What rows.c and rows_f64.c share: the arguments of a row kernel, and the f64 bodies. */
#ifndef CJ_KERNELS_CPU_ROWS_H
#define CJ_KERNELS_CPU_ROWS_H

#include "kernels/cpu/cpu.h"

typedef struct rows_job {
    cj_dtype t;
    int elem;
    bool log;
    bool rms; /* layer norm without the mean */
    const void *x, *dy, *w, *b, *g, *saved_mean, *saved_rstd, *saved_lse;
    void *y, *mean, *rstd, *lse, *dw, *db, *scratch; /* y: the result, also dx and loss */
    const int64_t *target;
    int64_t rows, n, s_row, s_g, ignore;
    int64_t block, blocks; /* rows of a block of layer_norm_bwd, and their number */
    double eps, smooth;
} rows_job;

static inline int elem_of(cj_dtype t) { return t == CJ_F64 ? 8 : t == CJ_F32 ? 4 : 2; }

/* Each works on rows [begin, end). */
void CJ_K(cj__softmax_f64)(void *job, int64_t begin, int64_t end, int worker);
void CJ_K(cj__softmax_bwd_f64)(void *job, int64_t begin, int64_t end, int worker);
void CJ_K(cj__cross_entropy_f64)(void *job, int64_t begin, int64_t end, int worker);
void CJ_K(cj__cross_entropy_bwd_f64)(void *job, int64_t begin, int64_t end, int worker);
void CJ_K(cj__layer_norm_f64)(void *job, int64_t begin, int64_t end, int worker);
void CJ_K(cj__layer_norm_bwd_block_f64)(void *job, int64_t begin, int64_t end, int worker);
void CJ_K(cj__layer_norm_bwd_columns_f64)(void *job, int64_t begin, int64_t end, int worker);

#endif
