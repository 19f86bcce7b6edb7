/* Shared by the rows of linear algebra: checks of matrices, the loop over a batch, small pieces of rules. */
#ifndef CJ_MATH_LINALG_H
#define CJ_MATH_LINALG_H

#include "cajal/math.h"
#include "math/dense.h"
#include "ops/compose.h"

enum { CJ_LINALG_MOST = 16384 }; /* rows or columns: LAPACK counts elements of workspaces in 32 bits */

/* ---- checks: false after an error -------------------------------------------------------------------------------------------------------------- */

/* f32 or f64, at least two axes; square. */
bool cj__real_matrix(cj_ctx *c, const char *op, const cj_tensor *a, bool square);
/* The same for the inputs of a call, with equal dtypes and batches and contiguous. */
bool cj__real_matrices(cj_call *call, bool square);
/* Leading axes of a and b broadcast; both become contiguous. A vector b becomes a column: *vector. */
bool cj__together(const char *op, cj_tensor **a, cj_tensor **b, bool *vector);

static inline int64_t cj__rows(const cj_tensor *a) { return a->shape[a->ndim - 2]; }
static inline int64_t cj__columns(const cj_tensor *a) { return a->shape[a->ndim - 1]; }
static inline int64_t cj__batch(const cj_tensor *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->ndim - 2; d++) n *= a->shape[d];
    return n;
}
/* Output j: a's batch axes followed by these sizes (n of them). */
bool cj__out_batch(cj_call *call, int j, int n, const int64_t *last);

/* ---- the loop over a batch --------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_fault_kind {
    CJ_FAULT_NONE,
    CJ_FAULT_FIRST,
    CJ_FAULT_SECOND /* argument with an element that is not finite */,
    CJ_FAULT_PIVOT
} cj_fault_kind;
typedef struct cj_fault {   /* the first of a chunk of matrices */
    int64_t kind, item, at; /* element of the argument, or pivot counted from 1 */
} cj_fault;

enum { CJ_GROUP = 256 }; /* matrices that a group function sees at most */
typedef struct cj_batch_job cj_batch_job;
struct cj_batch_job {
    const cj_call *call;
    const cj_dense *dense;
    cj_dense_place on; /* all threads for a single matrix; batches are shared out whole */
    cj_dtype t;
    int64_t m, n, k;
    int64_t items;
    size_t work; /* bytes for one matrix, or for one group */
    double cost; /* multiply-adds of one matrix, roughly */
    int checked; /* arguments that are looked through for NaN and infinity first: 1 or 2 */
    /* Matrix i: writes its part of the outputs; 0 or the pivot. */
    int64_t (*each)(const cj_batch_job *j, int64_t i, void *work);
    /* Instead: `count` small matrices from i on, interleaved; pivots into pivot[]. */
    void (*group)(const cj_batch_job *j, int64_t i, int64_t count, int32_t *pivot, void *work);
    /* set by the loop */
    int64_t grain;
    cj_fault *fault;
    char *scratch;
};
/* Sets dense and on for a job of j->items matrices. */
void cj__batch_place(cj_batch_job *j);
/* Runs it and reports the fault of the lowest matrix. `wrong` goes on with a sentence that begins "the matrix" and ends with the number of the
 * pivot: "is singular: zero pivot". */
bool cj__batch_run(cj_batch_job *j, const char *wrong);
/* Place of matrix i in input or output x, whose last `axes` axes belong to one matrix. */
void *cj__item(const cj_tensor *x, int axes, int64_t i);
int64_t cj__item_bytes(const cj_tensor *x, int axes);

/* ---- pieces of rules --------------------------------------------------------------------------------------------------------------------------- */

static inline cj_tensor *cj__column_scale(cj_tensor *a, cj_tensor *d) { return cj_mul(a, cj_unsqueeze(d, -2)); } /* a·diag(d) */
static inline cj_tensor *cj__row_scale(cj_tensor *d, cj_tensor *a) { return cj_mul(cj_unsqueeze(d, -1), a); }    /* diag(d)·a */
static inline cj_tensor *cj__plus(cj_tensor *a, cj_tensor *b) { return a && b ? cj_add(a, b) : a ? a : b; }
static inline cj_tensor *cj__symmetric_part(cj_tensor *a) { return cj_mul_scalar(cj_add(a, cj_t(a)), 0.5); }
/* 1/d, and 0 where |d| <= tiny. */
cj_tensor *cj__reciprocal_or_zero(cj_tensor *d, cj_tensor *tiny);
/* n·eps·max |w| over the last axis, kept as two axes of size 1. */
cj_tensor *cj__rounding_of(cj_tensor *w);
/* sqrt(s) with derivative 0 at 0. */
cj_tensor *cj__safe_root(cj_tensor *s);

/* The tolerance below which singular values count as 0; false after an error. */
bool cj__rank_tolerance(const char *op, const cj_tensor *a, const cj_rank_opts *opts, double *rtol);
/* The cofactor matrix, det(a)·a⁻ᵀ: the gradient of det. */
cj_tensor *cj__cofactor(cj_tensor *a);

/* The tables, for the registry. */
extern const cj_op cj__ops_factor[], cj__ops_spectral[], cj__ops_matfun[], cj__ops_matrix[];
extern const int cj__ops_factor_n, cj__ops_spectral_n, cj__ops_matfun_n, cj__ops_matrix_n;

#endif
