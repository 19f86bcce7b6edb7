/* BFGS and L-BFGS: the inverse Hessian from steps s and changes y of the gradient, as a matrix or as the last pairs. */
#include <math.h>

#include "optim/objective.h"

/* A pair is used when the gradient really grew along the step: otherwise H would lose its definiteness to rounding. */
static bool curved(const double *s, const double *y, int64_t n)
{
    return cj__dot(s, y, n) > 1e-10 * sqrt(cj__dot(s, s, n) * cj__dot(y, y, n));
}

/* ---- L-BFGS (Nocedal 1980) ----------------------------------------------------------------------------------------------------------------------- */

typedef struct lbfgs {
    cj__method m;
    int history, pairs, first; /* a ring: pairs of them, the oldest at first */
    double scale;              /* of the first inverse Hessian */
    bool unscaled, fixed;
} lbfgs;

/* memory: s pairs, y pairs, then 1 / s·y and the recursion's coefficients */
static double *pair_s(lbfgs *l, int64_t size, int k) { return l->m.memory + ((l->first + k) % l->history) * size; }
static double *pair_y(lbfgs *l, int64_t size, int k) { return pair_s(l, size, k) + l->history * size; }

static bool two_loops(cj__method *m, cj__objective *ob, const double *w, const double *g, double *d)
{
    lbfgs *l = (lbfgs *)m;
    int64_t size = ob->size;
    double *coefficient = m->memory + 2 * l->history * size;
    (void)w;
    for (int64_t i = 0; i < size; i++) d[i] = -g[i];
    for (int k = l->pairs; k-- > 0;) {
        double *s = pair_s(l, size, k), *y = pair_y(l, size, k);
        coefficient[k] = cj__dot(s, d, size) / cj__dot(s, y, size);
        cj__axpy(-coefficient[k], y, d, size);
    }
    for (int64_t i = 0; i < size; i++) d[i] *= l->scale;
    for (int k = 0; k < l->pairs; k++) {
        double *s = pair_s(l, size, k), *y = pair_y(l, size, k);
        cj__axpy(coefficient[k] - cj__dot(y, d, size) / cj__dot(s, y, size), s, d, size);
    }
    if (l->fixed && m->done == 0) { /* PyTorch's */
        double sum = 0;
        for (int64_t i = 0; i < size; i++) sum += fabs(g[i]);
        m->step *= fmin(1, 1 / sum);
    }
    return true;
}

static void remember(cj__method *m, int64_t size, double *s, double *y)
{
    lbfgs *l = (lbfgs *)m;
    double sy = cj__dot(s, y, size);
    if (!curved(s, y, size)) return;
    if (l->pairs == l->history) l->first = (l->first + 1) % l->history;
    else l->pairs++;
    memcpy(pair_s(l, size, l->pairs - 1), s, (size_t)size * sizeof *s);
    memcpy(pair_y(l, size, l->pairs - 1), y, (size_t)size * sizeof *y);
    if (!l->unscaled) l->scale = sy / cj__dot(y, y, size);
}

bool cj_lbfgs(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts)
{
    cj__objective ob = { .name = "lbfgs", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    int history = opts && opts->history ? opts->history : 10;
    if (c && !c->error && (history < 1 || history > 1000))
        return cj__error(c, CJ_EVALUE, "lbfgs: history %d; 1 to 1000 are possible", history);
    lbfgs l = { .m = { .usual = CJ_SEARCH_WOLFE, .direction = two_loops, .moved = remember, .vectors = 2 * history, .more = history },
                .history = history,
                .scale = 1,
                .unscaled = opts && opts->unscaled,
                .fixed = opts && opts->search == CJ_SEARCH_FIXED };
    return cj__descend(&ob, &l.m, out, opts);
}

/* ---- BFGS ----------------------------------------------------------------------------------------------------------------------------------------- */

/* memory: Hy, then H [size, size] */
typedef struct bfgs {
    cj__method m;
    double *wanted; /* the caller's copy of H, or NULL */
} bfgs;

static bool matrix_direction(cj__method *m, cj__objective *ob, const double *w, const double *g, double *d)
{
    int64_t size = ob->size;
    double *h = m->memory + size;
    (void)w;
    for (int64_t i = 0; i < size && m->done == 0; i++) h[i * size + i] = 1;
    if (((bfgs *)m)->wanted) memcpy(((bfgs *)m)->wanted, h, (size_t)(size * size) * sizeof *h);
    for (int64_t i = 0; i < size; i++) d[i] = -cj__dot(h + i * size, g, size);
    return true;
}

/* H += ((1 + r yᵀHy) s sᵀ - s (Hy)ᵀ - (Hy) sᵀ) r, r = 1 / s·y: the product form (I - r s yᵀ) H (I - r y sᵀ) + r s sᵀ multiplied out */
static void matrix_moved(cj__method *m, int64_t size, double *s, double *y)
{
    double *hy = m->memory, *h = hy + size, sy = cj__dot(s, y, size);
    if (!curved(s, y, size)) return;
    for (int64_t i = 0; i < size; i++) hy[i] = cj__dot(h + i * size, y, size);
    double r = 1 / sy, both = r * (1 + r * cj__dot(y, hy, size));
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j < size; j++) h[i * size + j] += both * s[i] * s[j] - r * (s[i] * hy[j] + hy[i] * s[j]);
    if (((bfgs *)m)->wanted) memcpy(((bfgs *)m)->wanted, h, (size_t)(size * size) * sizeof *h);
}

bool cj_bfgs(cj_ctx *c, cj_fn fn, void *user, cj_tensor *const *x, int n, cj_solution *out, const cj_solve_opts *opts)
{
    cj__objective ob = { .name = "bfgs", .ctx = c, .fn = fn, .user = user, .x = x, .n = n };
    int64_t size = cj__total(x, n);
    bfgs self = {
        .m = { .usual = CJ_SEARCH_WOLFE, .direction = matrix_direction, .moved = matrix_moved, .vectors = 1, .more = size * size },
        .wanted = opts ? opts->inverse_hessian : NULL
    };
    return cj__descend(&ob, &self.m, out, opts);
}
