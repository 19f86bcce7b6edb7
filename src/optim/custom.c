/* Optimisers whose rule is written in operators: cj_custom_optim.
 *
 * The rule is asked for the new values of every parameter and of its states first; then all of them are written, or, after an error, none.  In a captured step the
 * rule's operators are fused like any others and its states are persistent tensors of the plan.
 */
#include <stdio.h>

#include "optim/optim.h"

typedef struct cj__custom_rule {
    cj_rule rule;
    cj_tensor **own; /* per parameter: its f32 master or NULL, then the states */
    size_t own_bytes;
    char name[48], state_name[CJ_MAX_RULE_STATES][32];
} cj__custom_rule;

void cj__custom_free(cj_optim *o)
{
    cj__custom_rule *k = o->custom;
    if (!k) return;
    for (size_t i = 0; k->own && i < k->own_bytes / sizeof *k->own; i++) cj_release(k->own[i]);
    if (k->own) cj__free(o->ctx, k->own, k->own_bytes);
    if (k->rule.payload) cj__free(o->ctx, (void *)k->rule.payload, k->rule.payload_size);
    cj__free(o->ctx, k, sizeof *k);
    o->custom = NULL;
}

static cj_dtype wide_of(const cj_tensor *p) { return p->dtype == CJ_F64 ? CJ_F64 : CJ_F32; }

/* A master for every half-precision parameter, and the states. */
static bool make_states(cj_optim *o)
{
    cj_ctx *c = o->ctx;
    cj__custom_rule *k = o->custom;
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    for (int i = 0; i < o->count && !c->error; i++) {
        cj_tensor *p = o->params->item[i].tensor, **own = k->own + (size_t)i * (size_t)(1 + k->rule.states);
        cj_tensor *wide = cj_cast(cj_detach(p), wide_of(p));
        if (p->dtype != (int)wide_of(p)) own[0] = cj_keep(cj_clone(wide));
        for (int n = 0; n < k->rule.states; n++) own[1 + n] = cj_keep(cj_add_scalar(cj_zeros_like(wide), k->rule.initial[n]));
    }
    cj_grad_mode(c, was);
    cj_scope_close(s);
    return c->error == CJ_OK;
}

static bool rule_ok(cj_ctx *c, const cj_rule *r)
{
    if (!r || !r->name || !r->update) return cj__error(c, CJ_EVALUE, "custom_optim: the rule needs a name and an update");
    if (r->states < 0 || r->states > CJ_MAX_RULE_STATES)
        return cj__error(c, CJ_EVALUE, "%s: %d states; 0 to %d are possible", r->name, r->states, CJ_MAX_RULE_STATES);
    for (int n = 0; n < r->states; n++)
        if (!r->state_name[n] || !*r->state_name[n]) return cj__error(c, CJ_EVALUE, "%s: state %d has no name", r->name, n);
    return true;
}

cj_optim *cj_custom_optim(cj_params *p, const cj_rule *rule, const cj_custom_optim_opts *opts)
{
    cj_custom_optim_opts u = opts ? *opts : (cj_custom_optim_opts){ 0 };
    if (!p || !cj__cancel_check(p->ctx) || !rule_ok(p->ctx, rule)) return NULL;
    cj_ctx *c = p->ctx;
    cj_optim *o = cj__optim_new(p, &(cj__optim_request){ .name = rule->name,
                                                         .attrs = { .clip_norm = u.clip_norm },
                                                         .lr = cj__value_or(u.lr, 0.01),
                                                         .clip_value = u.clip_value,
                                                         .maximise = u.maximise,
                                                         .comm = u.comm,
                                                         .custom = true });
    if (!o) return NULL;
    cj__custom_rule *k = o->custom = cj__zalloc(c, sizeof *k);
    if (k) {
        k->rule = *rule;
        snprintf(k->name, sizeof k->name, "%s", rule->name);
        k->rule.name = k->name;
        for (int n = 0; n < rule->states; n++) snprintf(k->state_name[n], sizeof k->state_name[n], "%s", rule->state_name[n]);
        k->own_bytes = (size_t)o->count * (size_t)(1 + rule->states) * sizeof *k->own;
        k->own = cj__zalloc(c, k->own_bytes);
        k->rule.payload = rule->payload_size ? cj__alloc(c, rule->payload_size) : NULL;
        if (k->rule.payload) memcpy((void *)k->rule.payload, rule->payload, rule->payload_size);
    }
    if (!k || c->error || !make_states(o)) {
        cj_optim_free(o);
        return NULL;
    }
    return o;
}

/* What is to be written where. */
typedef struct writes {
    cj_tensor **to, **value;
    int n;
} writes;

/* A value that lives in a persistent tensor itself (the old parameter kept as a state) is copied before anything is written. */
static bool plan_write(cj_optim *o, writes *w, cj_tensor *to, cj_tensor *value, const char *what, const char *param)
{
    if (!value || cj_is_poison(value)) {
        if (!o->ctx->error) cj__error(o->ctx, CJ_EVALUE, "%s: there is no new %s of %s", o->custom->name, what, param);
        return false;
    }
    if (value == to) return true;
    bool same = value->dtype == to->dtype && value->ndim == to->ndim;
    for (int d = 0; d < to->ndim && same; d++) same = value->shape[d] == to->shape[d];
    if (!same)
        return cj__error(o->ctx, CJ_ESHAPE, "%s: the new %s of %s is %s %s, %s %s expected", o->custom->name, what, param,
                         cj_dtype_name((cj_dtype)value->dtype), cj__tensor_text(value), cj_dtype_name((cj_dtype)to->dtype),
                         cj__tensor_text(to));
    w->to[w->n] = to;
    w->value[w->n++] = value->flags & CJ_T_PERSISTENT ? cj_clone(value) : value;
    return true;
}

bool cj__custom_update(cj_optim *o, cj_tensor **g)
{
    cj_ctx *c = o->ctx;
    const cj__custom_rule *k = o->custom;
    int states = k->rule.states;
    size_t room = (size_t)o->count * (size_t)(2 + states) + CJ_DTYPES, bytes = 2 * room * sizeof(cj_tensor *);
    writes w = { .to = cj__alloc(c, bytes) };
    if (!w.to) return false;
    w.value = w.to + room;
    cj_tensor *t = NULL;
    for (int d = CJ_F32; d <= CJ_F16; d++)
        if (o->step[d]) w.to[w.n] = o->step[d], w.value[w.n++] = t = cj_add_scalar(o->step[d], 1);
    bool ok = c->error == CJ_OK;
    for (int i = 0; i < o->count && ok; i++) {
        const char *name = o->params->item[i].name;
        cj_tensor *p = o->params->item[i].tensor, *const *own = k->own + (size_t)i * (size_t)(1 + states);
        cj_tensor *value = own[0] ? own[0] : p, *state[CJ_MAX_RULE_STATES] = { NULL };
        for (int n = 0; n < states; n++) state[n] = own[1 + n];
        cj_tensor *updated = k->rule.update(c, k->rule.payload, cj_detach(value), cj_cast(g[i], wide_of(p)), state, o->lr, t);
        ok = plan_write(o, &w, value, updated, "value", name);
        for (int n = 0; n < states && ok; n++) ok = plan_write(o, &w, own[1 + n], state[n], k->state_name[n], name);
        if (ok && own[0]) ok = plan_write(o, &w, p, cj_cast(updated, (cj_dtype)p->dtype), "value", name);
    }
    ok = ok && c->error == CJ_OK;
    for (int i = 0; i < w.n && ok; i++) ok = !cj_is_poison(cj_assign_(w.to[i], w.value[i]));
    cj__free(c, w.to, bytes);
    return ok;
}

int cj__custom_state(cj_optim *o, void (*visit)(void *user, const char *name, cj_tensor *t), void *user)
{
    const cj__custom_rule *k = o ? o->custom : NULL;
    int found = 0;
    for (int i = 0; k && i < o->count; i++)
        for (int n = 0; n <= k->rule.states; n++) {
            char name[CJ_MAX_PATH_NAME];
            cj_tensor *t = k->own[(size_t)i * (size_t)(1 + k->rule.states) + (size_t)n];
            if (!t) continue;
            snprintf(name, sizeof name, "%s.%s", n ? k->state_name[n - 1] : "master", o->params->item[i].name);
            visit(user, name, t);
            found++;
        }
    return found;
}
