/* Parameter updates, the walk: a list of slices as one long vector cut into chunks of fixed size, so that many small parameters and one large one run equally well on
 * several threads; half-precision gradients come block by block in f32.
 */
#ifndef CJ_KERNELS_CPU_UPDATE_H
#define CJ_KERNELS_CPU_UPDATE_H

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"

#define CHUNK 16384
#define HALF_BLOCK 512 /* elements of a half-precision gradient that are in f32 at a time */

typedef struct update_job {
    cj_dtype t;
    const cj_update_slice *slice;
    int n_slices;
    const cj_update_opts *o;
    int64_t chunk;
    double *partial;
} update_job;

static inline int64_t total_of(const cj_update_slice *s, int n)
{
    int64_t total = 0;
    for (int k = 0; k < n; k++) total += s[k].n;
    return total;
}

/* The pieces of slices that make up [begin, end) of the concatenation. */
typedef struct walk {
    const cj_update_slice *s;
    int64_t skip, left;
} walk;

static inline walk walk_from(const update_job *j, int64_t begin, int64_t end)
{
    const cj_update_slice *s = j->slice;
    int64_t at = begin;
    while (at >= s->n) at -= s++->n;
    return (walk){ s, at, end - begin };
}
/* The next piece: elements [*from, *to) of *s. */
static inline bool walk_next(walk *w, const cj_update_slice **s, int64_t *from, int64_t *to)
{
    if (w->left <= 0) return false;
    while (w->skip >= w->s->n) w->skip -= w->s++->n;
    *s = w->s;
    *from = w->skip;
    *to = w->s->n - w->skip < w->left ? w->s->n : w->skip + w->left;
    w->left -= *to - *from;
    w->skip = *to;
    return true;
}

/* A half-precision gradient, block by block in f32.  A call of half_next ends the block before it: its parameters are rounded. */
typedef struct half_piece {
    int64_t from, at, n;
    float g[HALF_BLOCK];
} half_piece;

static inline bool half_next(cj_dtype t, const cj_update_slice *s, int64_t to, half_piece *h)
{
    if (h->n) CJ_K(cj__convert)(CJ_F32, (const float *)s->p + h->at, t, (uint16_t *)s->half + h->at, h->n);
    h->at = h->from;
    h->n = to - h->at < HALF_BLOCK ? to - h->at : HALF_BLOCK;
    h->from += h->n;
    if (h->n > 0) CJ_K(cj__convert)(t, (const uint16_t *)s->g + h->at, CJ_F32, h->g, h->n);
    return h->n > 0;
}

static inline void update_run(cj_pool *pool, cj_dtype t, const cj_update_slice *slices, int n_slices, const cj_update_opts *o,
                              cj_range_fn fn)
{
    const int64_t total = total_of(slices, n_slices);
    update_job j = { .t = t, .slice = slices, .n_slices = n_slices, .o = o };
    if (total <= 0) return;
    if (total <= CHUNK) fn(&j, 0, total, 0);
    else cj__parallel_for(pool, total, CHUNK, fn, &j);
}

#endif
