/* What remembers weights: magnitude pruning with rewinding (the lottery ticket), and early stopping. */
#include <math.h>

#include "cajal/math.h"
#include "nn/nn.h"

/* A persistent copy of every parameter, or of every weight. */
static cj_tensor *copy_of(cj_tensor *t) { return cj_keep(cj_clone(cj_detach(t))); }
static void write(cj_tensor *dst, cj_tensor *src) { cj_assign_(dst, src); }

/* ---- pruning ------------------------------------------------------------------------------------------------------------------------------------------- */

struct cj_pruning {
    cj_object object;
    cj_ctx *c;
    cj_params *p;
    int n;
    cj_tensor **start, **mask; /* of parameters with two axes or more; NULL of others: they have no mask */
};

static void pruning_free(cj_object *o)
{
    cj_pruning *r = (cj_pruning *)o;
    cj_ctx *c = r->c;
    cj__free(c, r->start, (size_t)r->n * sizeof *r->start);
    cj__free(c, r->mask, (size_t)r->n * sizeof *r->mask);
    cj__free(c, r, sizeof *r);
}

cj_pruning *cj_pruning_new(cj_params *p)
{
    if (!p || p->ctx->error) return NULL;
    cj_ctx *c = p->ctx;
    cj_pruning *r = cj__zalloc(c, sizeof *r);
    if (!r) return NULL;
    *r = (cj_pruning){ .c = c, .p = p, .n = p->n };
    r->start = cj__zalloc(c, (size_t)p->n * sizeof *r->start);
    r->mask = cj__zalloc(c, (size_t)p->n * sizeof *r->mask);
    if (!r->start || !r->mask) {
        pruning_free(&r->object);
        return NULL;
    }
    bool grad = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < p->n && !c->error; i++) {
        cj_tensor *w = p->item[i].tensor;
        r->start[i] = copy_of(w);
        if (w->ndim >= 2) r->mask[i] = cj_keep(cj_clone(cj_ones_like(cj_detach(w))));
    }
    cj_scope_close(s);
    cj_grad_mode(c, grad);
    cj__object_add(c, &r->object, pruning_free);
    return c->error ? NULL : r;
}

cj_tensor *cj_magnitude_mask(cj_tensor *w, double keep)
{
    if (!w) return NULL;
    cj_ctx *c = w->ctx;
    if (c->error || !cj__usable(c, "magnitude_mask", 0, w)) return c->poison;
    if (!(keep >= 0 && keep <= 1)) return cj_fail(c, CJ_EVALUE, "magnitude_mask: share %g to keep; [0, 1] expected", keep);
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    bool grad = cj_no_grad(c);
    int64_t kept = (int64_t)ceil(keep * (double)w->numel - 1e-9); /* 0.3 · 10 is a little more than 3 in doubles */
    cj_tensor *flat = cj_abs(cj_reshape(cj_detach(w), CJ_SHAPE(w->numel)));
    /* the rank of each |w|, largest first, of equals the first: exactly `kept` of them */
    cj_tensor *rank = cj_argsort(cj_argsort(flat, 0, &(cj_sort_opts){ .descending = true }), 0, NULL);
    cj_tensor *mask = cj_reshape(cj_cast(cj_lt_scalar(rank, (double)kept), (cj_dtype)w->dtype), cj_shape_of(w));
    cj_grad_mode(c, grad);
    cj__frame_close(c, frame, &mask, 1);
    return mask;
}

bool cj_pruning_prune(cj_pruning *r, double keep)
{
    if (!r || r->c->error) return false;
    cj_ctx *c = r->c;
    if (!(keep >= 0 && keep <= 1)) return cj__error(c, CJ_EVALUE, "pruning_prune: share %g to keep; [0, 1] expected", keep);
    bool grad = cj_no_grad(c);
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < r->n; i++)
        if (r->mask[i]) write(r->mask[i], cj_magnitude_mask(cj_mul(r->p->item[i].tensor, r->mask[i]), keep));
    cj_scope_close(s);
    cj_grad_mode(c, grad);
    return cj_pruning_apply(r);
}

static bool masked(cj_pruning *r, bool from_start)
{
    if (!r || r->c->error) return false;
    bool grad = cj_no_grad(r->c);
    cj_scope s = cj_scope_open(r->c);
    for (int i = 0; i < r->n; i++) {
        cj_tensor *w = r->p->item[i].tensor, *value = from_start ? r->start[i] : w;
        if (r->mask[i]) value = cj_mul(value, r->mask[i]);
        if (value != w) write(w, value);
    }
    cj_scope_close(s);
    cj_grad_mode(r->c, grad);
    return !r->c->error;
}
bool cj_pruning_apply(cj_pruning *r) { return masked(r, false); }
bool cj_pruning_rewind(cj_pruning *r) { return masked(r, true); }

cj_tensor *cj_pruning_mask(const cj_pruning *r, int i) { return r && i >= 0 && i < r->n ? r->mask[i] : NULL; }

/* ---- early stopping --------------------------------------------------------------------------------------------------------------------------------------- */

struct cj_early_stop {
    cj_object object;
    cj_ctx *c;
    cj_params *p;
    int n;
    cj_tensor **best;
    double least;
    int64_t patience, waited, calls, best_call;
};

static void early_free(cj_object *o)
{
    cj_early_stop *e = (cj_early_stop *)o;
    cj_ctx *c = e->c;
    cj__free(c, e->best, (size_t)e->n * sizeof *e->best);
    cj__free(c, e, sizeof *e);
}

cj_early_stop *cj_early_stop_new(cj_params *p, int64_t patience)
{
    if (!p || p->ctx->error) return NULL;
    cj_ctx *c = p->ctx;
    if (patience < 1) {
        cj_fail(c, CJ_EVALUE, "early_stop: patience %lld; 1 at least expected", (long long)patience);
        return NULL;
    }
    cj_early_stop *e = cj__zalloc(c, sizeof *e);
    if (!e) return NULL;
    *e = (cj_early_stop){ .c = c, .p = p, .n = p->n, .least = INFINITY, .patience = patience, .best_call = -1 };
    e->best = cj__zalloc(c, (size_t)p->n * sizeof *e->best);
    if (!e->best) {
        cj__free(c, e, sizeof *e);
        return NULL;
    }
    cj_scope s = cj_scope_open(c);
    for (int i = 0; i < p->n && !c->error; i++) e->best[i] = copy_of(p->item[i].tensor);
    cj_scope_close(s);
    cj__object_add(c, &e->object, early_free);
    return c->error ? NULL : e;
}

bool cj_early_stop_update(cj_early_stop *e, double loss)
{
    if (!e || e->c->error) return true;
    int64_t call = e->calls++;
    if (!(loss < e->least)) return ++e->waited >= e->patience; /* NaN is no improvement */
    e->least = loss;
    e->best_call = call;
    e->waited = 0;
    bool grad = cj_no_grad(e->c);
    for (int i = 0; i < e->n; i++) write(e->best[i], e->p->item[i].tensor);
    cj_grad_mode(e->c, grad);
    return e->c->error != CJ_OK;
}

bool cj_early_stop_restore(cj_early_stop *e)
{
    if (!e || e->c->error) return false;
    bool grad = cj_no_grad(e->c);
    for (int i = 0; i < e->n; i++) write(e->p->item[i].tensor, e->best[i]);
    cj_grad_mode(e->c, grad);
    return !e->c->error;
}

int64_t cj_early_stop_best(const cj_early_stop *e) { return e ? e->best_call : -1; }
