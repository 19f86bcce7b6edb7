/* Averages of parameters over the steps: the mean of all (Polyak and Ruppert; stochastic weight averaging) or an exponential moving average.
 *
 *   average += w (parameter - average),   w = 1 / (number of updates)   or   1 - decay, 1 at the first
 *
 * Everything is written in operators over the flat parameters, the count lives in a tensor: an update inside a captured step is replayed with it.
 */
#include "optim/optim.h"

struct cj_average {
    cj_object object;
    cj_ctx *ctx;
    cj_params *params;
    cj_tensor *mean[CJ_DTYPES];  /* f32 for half-precision parameters */
    cj_tensor *saved[CJ_DTYPES]; /* the parameters while the averages are in */
    cj_tensor *count;
    double decay;
    bool in;
};

static void average_free(cj_object *o)
{
    cj_average *a = (cj_average *)o;
    for (int t = 0; t < CJ_DTYPES; t++) {
        cj_release(a->mean[t]);
        cj_release(a->saved[t]);
    }
    cj_release(a->count);
    cj__free(a->ctx, a, sizeof *a);
}

void cj_average_free(cj_average *a)
{
    if (!a) return;
    cj__object_remove(a->ctx, &a->object);
    average_free(&a->object);
}

static cj_tensor *zeros(cj_ctx *c, cj_dtype t, int ndim, int64_t n)
{
    cj_tensor *x = cj__tensor_persistent(c, t, ndim, &n, c->backend != NULL);
    if (x) cj_assign_(x, cj_full(c, 0, CJ_SCALAR, t));
    return x;
}

cj_average *cj_average_new(cj_params *p, const cj_average_opts *opts)
{
    if (!p || !cj__cancel_check(p->ctx)) return NULL;
    cj_ctx *c = p->ctx;
    double decay = opts ? opts->decay : 0;
    if (!(decay >= 0 && decay < 1)) {
        cj_fail(c, CJ_EVALUE, "average: decay %g; it must be in [0, 1)", decay);
        return NULL;
    }
    if (p->n == 0) {
        cj_fail(c, CJ_EVALUE, "average: there are no parameters");
        return NULL;
    }
    if (!cj_params_flatten(p)) return NULL;
    cj_average *a = cj__zalloc(c, sizeof *a);
    if (!a) return NULL;
    a->ctx = c;
    a->params = p;
    a->decay = decay;
    cj__object_add(c, &a->object, average_free);
    cj_scope s = cj_scope_open(c);
    a->count = zeros(c, CJ_F64, 0, 0);
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        if (!p->flat[t]) continue;
        a->mean[t] = zeros(c, t == CJ_F64 ? CJ_F64 : CJ_F32, 1, p->flat[t]->numel);
        a->saved[t] = zeros(c, (cj_dtype)t, 1, p->flat[t]->numel);
    }
    cj_scope_close(s);
    if (c->error) {
        cj_average_free(a);
        return NULL;
    }
    return a;
}

static bool ready(cj_average *a, const char *what, bool in)
{
    if (!a || a->ctx->error) return false;
    bool fits = true;
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        const cj_tensor *flat = a->params->flat[t], *mean = a->mean[t];
        fits = fits && (flat != NULL) == (mean != NULL) && (!flat || flat->numel == mean->numel);
    }
    if (!fits) return cj__error(a->ctx, CJ_ESTATE, "%s: the module's parameters have changed since the average was made", what);
    if (a->in == in) return true;
    return cj__error(a->ctx, CJ_ESTATE, in ? "%s: the averages are not in the parameters" : "%s: the averages are in the parameters", what);
}

/* dst[i] = src[i] for all, or none: values first, then the writes. */
static bool write_all(cj_ctx *c, cj_tensor **dst, cj_tensor **src, int n)
{
    bool ok = cj__cancel_check(c);
    for (int i = 0; i < n && ok; i++) ok = !cj_is_poison(src[i]);
    c->committing = ok;
    for (int i = 0; i < n && ok; i++) ok = !cj_is_poison(cj_assign_(dst[i], src[i]));
    c->committing = false;
    return ok;
}

bool cj_average_update(cj_average *a)
{
    if (!ready(a, "average_update", false)) return false;
    cj_ctx *c = a->ctx;
    cj_tensor *dst[CJ_DTYPES + 1], *src[CJ_DTYPES + 1];
    int n = 0, frame = cj__frame_open(c);
    bool was = cj_no_grad(c);
    cj_tensor *next = cj_add_scalar(a->count, 1), *weight = cj_reciprocal(next);
    if (a->decay > 0)
        weight = cj_where(cj_eq_scalar(a->count, 0), cj_full(c, 1, CJ_SCALAR, CJ_F64), cj_full(c, 1 - a->decay, CJ_SCALAR, CJ_F64));
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        cj_tensor *mean = a->mean[t];
        if (!mean) continue;
        dst[n] = mean;
        src[n++] =
            cj_add(mean, cj_mul(cj_sub(cj_cast(a->params->flat[t], (cj_dtype)mean->dtype), mean), cj_cast(weight, (cj_dtype)mean->dtype)));
    }
    dst[n] = a->count;
    src[n++] = next;
    bool ok = frame && write_all(c, dst, src, n);
    cj_grad_mode(c, was);
    cj__frame_close(c, frame, NULL, 0);
    return ok;
}

/* The parameters go to saved and the averages in, or back. */
static bool exchange(cj_average *a, bool in)
{
    cj_ctx *c = a->ctx;
    cj_tensor *dst[2 * CJ_DTYPES], *src[2 * CJ_DTYPES];
    int n = 0, frame = cj__frame_open(c);
    bool was = cj_no_grad(c);
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        cj_tensor *flat = a->params->flat[t];
        if (!flat) continue;
        if (in) dst[n] = a->saved[t], src[n++] = flat;
        dst[n] = flat;
        src[n++] = in ? cj_cast(a->mean[t], (cj_dtype)t) : a->saved[t];
    }
    bool ok = frame && write_all(c, dst, src, n);
    if (ok) a->in = in;
    cj_grad_mode(c, was);
    cj__frame_close(c, frame, NULL, 0);
    return ok;
}

bool cj_average_swap_in(cj_average *a)
{
    if (!ready(a, "average_swap_in", false)) return false;
    if (cj_average_count(a) == 0) return cj__error(a->ctx, CJ_ESTATE, "average_swap_in: nothing has been averaged yet");
    return exchange(a, true);
}
bool cj_average_swap_out(cj_average *a) { return ready(a, "average_swap_out", true) && exchange(a, false); }

int64_t cj_average_count(cj_average *a) { return a && !a->ctx->error ? (int64_t)cj_item(a->count) : 0; }

int cj_average_state(cj_average *a, void (*visit)(void *user, const char *name, cj_tensor *t), void *user)
{
    int n = 0;
    if (!a) return 0;
    for (int t = CJ_F32; t <= CJ_F16; t++) {
        if (!a->mean[t]) continue;
        char name[64];
        snprintf(name, sizeof name, "average%s%s", t == CJ_F32 ? "" : ".", t == CJ_F32 ? "" : cj_dtype_name((cj_dtype)t));
        visit(user, name, a->mean[t]);
        n++;
    }
    visit(user, "averaged", a->count);
    return n + 1;
}

int cj__average_saved(cj_average *a, void (*visit)(void *user, const char *name, cj_tensor *t), void *user)
{
    int n = 0;
    for (int t = CJ_F32; a && t <= CJ_F16; t++) {
        if (!a->saved[t]) continue;
        char name[64];
        snprintf(name, sizeof name, "saved.%s", cj_dtype_name((cj_dtype)t));
        visit(user, name, a->saved[t]);
        n++;
    }
    return n;
}

/* Parameters, averages and saved parameters have just been read: the averages are in, unless there was none yet. */
bool cj__average_resume(cj_average *a)
{
    a->in = cj_average_count(a) > 0;
    return !a->in || cj_average_swap_out(a);
}
