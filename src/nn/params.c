/* Parameters: persistent leaves, listed once each, laid out on demand as slices of one aligned buffer per dtype. */
#include "nn/nn.h"

cj_tensor *cj_param(cj_tensor *t)
{
    if (!t) return NULL;
    cj_ctx *c = t->ctx;
    if (c->error || !cj__usable(c, "cj_param", 0, t)) return c->poison;
    if (!cj_dtype_is_float((cj_dtype)t->dtype))
        return cj_fail(c, CJ_EDTYPE, "cj_param: the value is %s; only floats are trained", cj_dtype_name((cj_dtype)t->dtype));
    if (c->trace) return cj_fail(c, CJ_ECAPTURE, "cj_param: a parameter is made inside a captured step");
    cj_tensor *p = cj__tensor_persistent(c, (cj_dtype)t->dtype, t->ndim, t->shape, t->st->device);
    if (!p) return c->poison;
    if (cj_is_poison(cj_assign_(p, cj_detach(t)))) {
        cj_release(p);
        return c->poison;
    }
    p->flags |= CJ_T_REQUIRES | CJ_T_LEAF;
    p->st->parameter = 1;
    return p;
}

int cj_params_count(const cj_params *p) { return p ? p->n : 0; }
cj_tensor *cj_params_at(const cj_params *p, int i) { return p && i >= 0 && i < p->n ? p->item[i].tensor : NULL; }
const char *cj_params_name(const cj_params *p, int i) { return p && i >= 0 && i < p->n ? p->item[i].name : ""; }

cj_tensor *cj_params_find(const cj_params *p, const char *name)
{
    for (int i = 0; p && name && i < p->n; i++)
        if (strcmp(p->item[i].name, name) == 0) return p->item[i].tensor;
    return NULL;
}

int64_t cj_params_numel(const cj_params *p)
{
    int64_t n = 0;
    for (int i = 0; p && i < p->n; i++) n += p->item[i].tensor->numel;
    return n;
}

void cj_zero_grad(cj_params *p)
{
    for (int i = 0; p && i < p->n; i++) cj_leaf_zero_grad(p->item[i].tensor);
}

bool cj__params_add(cj_params *p, const char *name, cj_tensor *t)
{
    for (int i = 0; i < p->n; i++)
        if (p->item[i].tensor == t) return true; /* shared: listed, updated, saved once */
    cj_ctx *c = p->ctx;
    if (p->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 16;
        cj_param_item *item = cj__alloc(c, (size_t)cap * sizeof *item);
        if (!item) return false;
        if (p->n) memcpy(item, p->item, (size_t)p->n * sizeof *item);
        cj__free(c, p->item, (size_t)p->cap * sizeof *item);
        p->item = item;
        p->cap = cap;
    }
    char *own = cj__strdup(c, name);
    if (!own) return false;
    p->item[p->n++] = (cj_param_item){ own, t };
    return true;
}

void cj__params_clear(cj_params *p)
{
    for (int i = 0; i < p->n; i++) cj__strfree(p->ctx, p->item[i].name);
    cj__free(p->ctx, p->item, (size_t)p->cap * sizeof *p->item);
    *p = (cj_params){ .ctx = p->ctx };
}

/* Slices start on 64-byte borders. */
int64_t cj__params_offsets(const cj_params *p, cj_dtype dtype, int64_t *offset)
{
    int64_t at = 0, step = 64 / (int64_t)cj_dtype_size(dtype);
    for (int i = 0; i < p->n; i++) {
        if (p->item[i].tensor->dtype != dtype) continue;
        if (offset) offset[i] = at;
        at += (p->item[i].tensor->numel + step - 1) / step * step;
    }
    return at;
}

static bool flatten_dtype(cj_params *p, cj_dtype dtype)
{
    cj_ctx *c = p->ctx;
    int64_t total = cj__params_offsets(p, dtype, NULL);
    if (!total || p->flat[dtype]) return true;
    int64_t *offset = cj__alloc(c, (size_t)p->n * sizeof *offset);
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    cj_tensor *flat = offset ? cj__tensor_persistent(c, dtype, 1, &total, c->backend != NULL) : NULL;
    bool ok = flat && !cj_is_poison(cj_assign_(flat, cj_full(c, 0, CJ_SCALAR, dtype)));
    if (ok) cj__params_offsets(p, dtype, offset);
    for (int i = 0; i < p->n && ok; i++) { /* all values first; the tensors move only when nothing can fail any more */
        cj_tensor *t = p->item[i].tensor;
        if (t->dtype == dtype && t->numel)
            ok = !cj_is_poison(
                cj_assign_(cj_slice(flat, 0, offset[i], offset[i] + t->numel, 1), cj_reshape(cj_detach(t), CJ_SHAPE(t->numel))));
    }
    uint32_t version = 0; /* moving is no change: what a tape saved at the newest version stays valid */
    for (int i = 0; i < p->n; i++)
        if (p->item[i].tensor->dtype == dtype && p->item[i].tensor->st->version > version) version = p->item[i].tensor->st->version;
    if (ok) flat->st->version = version, flat->st->parameter = 1;
    for (int i = 0; i < p->n && ok; i++) {
        cj_tensor *t = p->item[i].tensor;
        if (t->dtype != dtype) continue;
        cj__storage_release(c, t->st);
        t->st = flat->st;
        cj__storage_retain(t->st);
        t->data = flat->data + offset[i] * (int64_t)cj_dtype_size(dtype);
    }
    cj_grad_mode(c, was);
    cj_scope_close(s);
    cj__free(c, offset, (size_t)p->n * sizeof *offset);
    if (!ok) {
        if (flat) cj_release(flat);
        return false;
    }
    p->flat[dtype] = flat;
    return true;
}

bool cj_params_flatten(cj_params *p)
{
    if (!p || !cj__cancel_check(p->ctx)) return false;
    for (int i = 0; i < p->n; i++)
        if (!cj__contiguous(p->item[i].tensor)) return cj__error(p->ctx, CJ_ESTATE, "params: %s is not contiguous", p->item[i].name);
    for (int t = CJ_F32; t <= CJ_F16; t++)
        if (!flatten_dtype(p, (cj_dtype)t)) return false;
    return true;
}

cj_tensor *cj_params_flat(const cj_params *p, cj_dtype dtype)
{
    return p && (unsigned)dtype < CJ_DTYPES ? p->flat[cj__dtype_or_default(dtype)] : NULL;
}
