/* Attention over blocks of queries and keys (Dao et al. 2022): softmax(scale·q·kᵀ + mask)·v without the matrix of scores.
 *
 * q [heads, tq, d], k [kv heads, tk, d], v [kv heads, tk, dv], rows with unit stride, any strides above; `group` neighbouring heads of q share a head of k and v.
 * Query i stands at key position i + offset; with `causal` it sees the keys up to there.  A query that sees nothing gives zeros.
 */
#ifndef CJ_KERNELS_CPU_ATTENTION_H
#define CJ_KERNELS_CPU_ATTENTION_H

#include "cajal/core.h"
#include "core/parallel.h"

enum { CJ_ATTENTION_LEAD = CJ_MAX_DIMS - 2 };

/* A matrix per head: element (i, j) of head h at data[sum over leading axes + i·row + j·column]. */
typedef struct cj_heads {
    void *data;
    int64_t lead[CJ_ATTENTION_LEAD]; /* strides of the leading axes, as many as q has */
    int64_t row, column;
} cj_heads;

typedef struct cj_attention_job {
    cj_dtype t;                      /* of q, k, v, results and gradients */
    int leads;                       /* leading axes; the last of them counts heads */
    int64_t lead[CJ_ATTENTION_LEAD]; /* their sizes in q */
    int64_t heads, group;            /* all heads of q, and how many of them share one of k and v */
    int64_t tq, tk, d, dv;
    cj_heads q, k, v, mask, length; /* mask.data, length.data may be NULL; length: one i64 per head, 1 … tk */
    cj_dtype mask_type;             /* bool: true may attend; floats are added to the scaled scores */
    bool causal;
    double scale;
    double drop; /* probability that a weight is dropped, and its random numbers: element (head·tq + i)·tk + j of this draw */
    uint64_t seed, stream, call;
    cj_heads o;              /* [heads, tq, dv], rows with unit stride */
    void *lse;               /* contiguous [heads, tq], f32 (f64 for f64): +inf where nothing is seen */
    float *wide;             /* of bf16 and f16, forward: o before it is rounded, with o's strides; backward gets it as o. Else NULL */
    cj_heads g;              /* backward: gradient of o */
    cj_heads dq, dk, dvalue; /* of t, rows with unit stride */
} cj_attention_job;

typedef size_t cj_attention_workspace_fn(const cj_attention_job *j, bool backward, int threads); /* bytes of scratch; linear in tk */
typedef void cj_attention_fn(cj_pool *pool, const cj_attention_job *j, bool backward, void *scratch);

#endif
