/* The recurrence of recurrent networks over a whole sequence, and its derivative (recurrent.c, recurrent_f64.c).
 *
 * The input terms a[t] = W_ih·x[t] + biases of all steps are one product, made before.  What is left is the recurrence in the state h (σ the logistic function, f tanh or relu):
 *   rnn        h = f(a + W·h)
 *   lstm       i, f, o = σ(a + W·h),  g = tanh(a + W·h);   c = f·c + i·g;   h = o·tanh(c)          gates in the order i, f, g, o
 *   gru        r, z = σ(a + W·h);   n = tanh(a + r·(W·h + b));   h = (1 - z)·n + z·h             r, z, n
 *   light gru  z = σ(a + W·h);   n = f(a + W·h);   h = (1 - z)·n + z·h                           z, n
 */
#ifndef CJ_KERNELS_CPU_RECURRENT_H
#define CJ_KERNELS_CPU_RECURRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cajal/core.h"
#include "core/parallel.h"

typedef enum cj_cell { CJ_CELL_RNN, CJ_CELL_LSTM, CJ_CELL_GRU, CJ_CELL_LIGHT_GRU, CJ_CELLS } cj_cell;

static inline int64_t cj__cell_gates(cj_cell cell)
{
    static const int64_t gates[CJ_CELLS] = { 1, 4, 3, 2 };
    return gates[cell];
}
/* What the derivative needs of every step and unit: i, f, g, o, c; r, z, n, W·h + b; z, n.  An rnn has its y. */
static inline int64_t cj__cell_saved(cj_cell cell)
{
    static const int64_t saved[CJ_CELLS] = { 0, 5, 4, 2 };
    return saved[cell];
}

/* All arrays are contiguous, of one type; [..] are their shapes with G gates.  NULL where a line says so. */
typedef struct cj_recurrence {
    cj_cell cell;
    bool relu, reverse;           /* f; from the last step to the first */
    int64_t steps, batch, hidden; /* T, N, H */
    int64_t truncate;             /* derivatives do not pass the borders of runs of so many steps; 0: none */
    const int64_t *lengths;       /* [N], or NULL: from step lengths[n] on, sequence n keeps its state and y is 0 */
    const void *a, *w, *b;        /* [T, N, G·H], [G·H, H]; of a gru [H] or NULL */
    const void *h0, *c0;          /* [N, H], or NULL: zero */
    void *y, *h_n, *c_n;          /* [T, N, H], [N, H]; c_n of an lstm */
    void *saved;                  /* for backward, in a layout of its own; NULL when no derivative is wanted */
    const void *dy, *dh_n, *dc_n; /* gradients of the results, or NULL: zero */
    void *da, *dn, *dh0, *dc0;    /* of a, of a gru's W·h + b of n [T, N, H], and of the first state (NULL: not wanted) */
} cj_recurrence;

/* f32 or f64.  forward reads a … c0 and writes y … saved; backward reads w, h0, c0, y, saved and dy … dc_n and writes da … dc0.
 * workspace: 64-byte aligned, as many bytes as recurrent_workspace says. */
typedef int64_t cj_recurrent_saved_fn(const cj_recurrence *r, cj_dtype t); /* elements of `saved` */
typedef size_t cj_recurrent_workspace_fn(const cj_recurrence *r, cj_dtype t, bool backward, int threads);
typedef void cj_recurrent_fn(cj_pool *pool, const cj_recurrence *r, cj_dtype t, bool backward, void *workspace);

#endif
