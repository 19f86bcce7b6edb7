/* The packed matrix product: C = act(A·B + bias) or C += A·B, batched, any strides on A and B.
 *
 * A[i,p] = a[i*a_row + p*a_col], so a transposed view costs nothing; C is row-major with unit column stride.  The order in which the products of
 * one element of C are summed depends on the shape only: same bits for any number of threads.
 */
#ifndef CJ_KERNELS_CPU_GEMM_H
#define CJ_KERNELS_CPU_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "core/parallel.h"

enum { CJ_GEMM_ADD = 1, CJ_GEMM_ADD_SCALED = 2 }; /* of accumulate */
typedef enum cj_gemm_act { CJ_GEMM_LINEAR, CJ_GEMM_RELU } cj_gemm_act;

/* Called for every finished block of C while it is still in cache: rows [i0, i1), columns [j0, j1) of batch item b.
 * May be called from any worker; every element of C is in exactly one block. */
typedef void (*cj_gemm_tail)(void *arg, int64_t b, int64_t i0, int64_t i1, int64_t j0, int64_t j1);

typedef struct cj_gemm {
    int64_t m, n, k, batch; /* batch >= 1 */
    const void *a, *b;
    void *c;
    int64_t a_row, a_col, a_batch; /* strides in elements; a_batch or b_batch may be 0 (broadcast) */
    int64_t b_row, b_col, b_batch;
    int64_t c_row, c_batch;
    int accumulate;   /* CJ_GEMM_ADD: C += A·B; CJ_GEMM_ADD_SCALED: C += alpha A·B; bias, act and tail are applied to the sum */
    float alpha;      /* CJ_GEMM_ADD_SCALED, for products that gemm_one_go allows */
    const void *bias; /* n values added to every row, or NULL; dtype of C */
    cj_gemm_act act;
    cj_gemm_tail tail; /* after bias and act; or NULL */
    void *tail_arg;
} cj_gemm;

/* Bytes of 64-byte aligned scratch that a product of this shape on this many threads needs; 0 for the shapes that need none.
 * elem is the element size of A, B and C: 4 (f32), 8 (f64). */
typedef size_t cj_gemm_workspace_fn(const cj_gemm *g, int threads);
typedef void cj_gemm_fn(cj_pool *pool, const cj_gemm *g, void *workspace);
/* Is every element of this f32 product summed in registers to the end and meets C once?  Then C += alpha A·B has the bits of a product followed by an addition. */
typedef int cj_gemm_one_go_fn(const cj_gemm *g);

#endif
