/* The module tree: names, parameters, buffers, children, mode. */
#include "nn/nn.h"

#include <stdio.h>

#define MAX_NAME 64

typedef struct entry {
    char name[MAX_NAME];
    cj_module *child; /* or */
    cj_tensor *tensor;
    bool buffer;
} entry;

/* What changes when a list of parameters is out of date. */
typedef struct cj_module_census {
    int members, frozen;
} cj_module_census;

struct cj_module {
    cj_object object;
    cj_ctx *ctx;
    const cj_module_type *type;
    void *self;
    size_t self_size;
    entry *item;
    int n, cap;
    bool training;
    cj_module *parent; /* the first one that it was added to, and its name there: what errors call it while it runs */
    char name[MAX_NAME];
    int running;
    cj_params *params;     /* the newest list first; older ones stay for who still holds them */
    cj_module_census seen; /* of the tree when the newest was collected */
    cj_module_hook_fn hook;
    void *hook_user;
    cj_reparametrisation *reparametrisation; /* of "weight", or NULL */
};

static void module_free(cj_object *o)
{
    cj_module *m = (cj_module *)o;
    cj_ctx *c = m->ctx;
    if (m->type->free) m->type->free(m, m->self);
    for (cj_params *p = m->params, *next; p; p = next) {
        next = p->older;
        cj__params_clear(p);
        cj__free(c, p, sizeof *p);
    }
    if (m->reparametrisation) cj__free(c, m->reparametrisation, sizeof *m->reparametrisation);
    cj__free(c, m->item, (size_t)m->cap * sizeof *m->item);
    cj__free(c, m->self, m->self_size);
    cj__free(c, m, sizeof *m);
}

cj_module *cj_module_new(cj_ctx *c, const cj_module_type *type, size_t self_size)
{
    if (!c || !cj__cancel_check(c)) return NULL;
    if (!type) {
        cj__error(c, CJ_EVALUE, "module: the type is NULL");
        return NULL;
    }
    cj_module *m = cj__zalloc(c, sizeof *m);
    if (!m) return NULL;
    m->ctx = c;
    m->type = type;
    m->training = true;
    m->self_size = self_size;
    m->self = self_size ? cj__zalloc(c, self_size) : NULL;
    if (self_size && !m->self) {
        cj__free(c, m, sizeof *m);
        return NULL;
    }
    cj__object_add(c, &m->object, module_free);
    return m;
}

void *cj_module_self(const cj_module *m) { return m ? m->self : NULL; }
cj_ctx *cj_module_ctx(const cj_module *m) { return m ? m->ctx : NULL; }
const char *cj_module_type_name(const cj_module *m) { return m ? m->type->name : ""; }

bool cj__module_is(const cj_module *m, const cj_module_type *type, const char *function, cj_tensor *x)
{
    if (!m) {
        if (x) cj__error(x->ctx, CJ_EVALUE, "%s: the module is NULL", function);
        return false;
    }
    if (m->ctx->error) return false;
    if (m->type != type) cj__error(m->ctx, CJ_EVALUE, "%s: the module is a %s; a %s expected", function, m->type->name, type->name);
    return m->type == type;
}

static entry *add_entry(cj_module *m, const char *name)
{
    cj_ctx *c = m->ctx;
    if (!name || !*name || strlen(name) >= MAX_NAME || strchr(name, '.')) {
        cj__error(c, CJ_EVALUE, "module %s: '%s' is no name for a member", m->type->name, name ? name : "");
        return NULL;
    }
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->item[i].name, name) == 0) {
            cj__error(c, CJ_EVALUE, "module %s: '%s' is there already", m->type->name, name);
            return NULL;
        }
    if (m->n == m->cap) {
        int cap = m->cap ? 2 * m->cap : 4;
        entry *item = cj__alloc(c, (size_t)cap * sizeof *item);
        if (!item) return NULL;
        if (m->n) memcpy(item, m->item, (size_t)m->n * sizeof *item);
        cj__free(c, m->item, (size_t)m->cap * sizeof *item);
        m->item = item;
        m->cap = cap;
    }
    entry *e = &m->item[m->n++];
    *e = (entry){ 0 };
    snprintf(e->name, sizeof e->name, "%s", name);
    return e;
}

cj_module *cj_module_add(cj_module *m, const char *name, cj_module *child)
{
    if (!m || m->ctx->error) return child;
    if (!child) {
        cj__error(m->ctx, CJ_EVALUE, "module %s: child '%s' is NULL", m->type->name, name ? name : "");
        return NULL;
    }
    if (child->ctx != m->ctx) {
        cj__error(m->ctx, CJ_ECONTEXT, "module %s: child '%s' belongs to another context", m->type->name, name ? name : "");
        return NULL;
    }
    entry *e = add_entry(m, name);
    if (e) e->child = child;
    if (e && !child->parent && child != m) {
        child->parent = m;
        snprintf(child->name, sizeof child->name, "%s", name);
    }
    return child;
}

static cj_tensor *add_tensor(cj_module *m, const char *name, cj_tensor *value, bool buffer)
{
    if (!m) return NULL;
    cj_ctx *c = m->ctx;
    if (c->error || !cj__usable(c, m->type->name, 0, value)) return c->poison;
    cj_tensor *t = value;
    bool own = !(t->flags & CJ_T_PERSISTENT) || (!buffer && !(t->flags & CJ_T_LEAF));
    if (own) t = buffer ? cj_keep(cj_clone(cj_detach(value))) : cj_param(value);
    if (cj_is_poison(t)) return t;
    entry *e = add_entry(m, name);
    if (!e) {
        if (own) cj_release(t);
        return c->poison;
    }
    e->tensor = t;
    e->buffer = buffer;
    return t;
}
cj_tensor *cj_module_param(cj_module *m, const char *name, cj_tensor *value) { return add_tensor(m, name, value, false); }
cj_tensor *cj_module_buffer(cj_module *m, const char *name, cj_tensor *value) { return add_tensor(m, name, value, true); }

static const entry *nth_child(const cj_module *m, int i)
{
    for (int k = 0; m && k < m->n; k++)
        if (m->item[k].child && i-- == 0) return &m->item[k];
    return NULL;
}
int cj_module_children(const cj_module *m)
{
    int n = 0;
    for (int k = 0; m && k < m->n; k++) n += m->item[k].child != NULL;
    return n;
}
cj_module *cj_module_child(const cj_module *m, int i)
{
    const entry *e = nth_child(m, i);
    return e ? e->child : NULL;
}
const char *cj_module_child_name(const cj_module *m, int i)
{
    const entry *e = nth_child(m, i);
    return e ? e->name : "";
}

cj_module *cj_module_find(const cj_module *m, const char *name)
{
    for (int k = 0; m && name && k < m->n; k++)
        if (m->item[k].child && strcmp(m->item[k].name, name) == 0) return m->item[k].child;
    return NULL;
}

void cj_module_train(cj_module *m, bool training)
{
    if (!m) return;
    m->training = training;
    m->ctx->mode = training ? 0 : 1;
    for (int i = 0; i < m->n; i++) cj_module_train(m->item[i].child, training);
}
bool cj_module_training(const cj_module *m) { return m && m->training; }

/* Calls visit for every tensor of the tree with its full name. */
static int walk(cj_module *m, char *path, size_t at, void (*visit)(void *, const char *, cj_tensor *, bool), void *user)
{
    int n = 0;
    for (int i = 0; i < m->n; i++) {
        const entry *e = &m->item[i];
        size_t used = at + (size_t)snprintf(path + at, CJ_MAX_PATH_NAME - at, at ? ".%s" : "%s", e->name);
        if (used >= CJ_MAX_PATH_NAME) {
            cj__error(m->ctx, CJ_EVALUE, "module: the name %s… is too long", path);
            return n;
        }
        if (e->tensor) {
            visit(user, path, e->tensor, e->buffer);
            n++;
        } else {
            n += walk(e->child, path, used, visit, user);
        }
        path[at] = 0;
    }
    return n;
}

static void count(const cj_module *m, cj_module_census *n)
{
    n->members += m->n;
    for (int i = 0; i < m->n; i++) {
        const entry *e = &m->item[i];
        if (e->child) count(e->child, n);
        else n->frozen += !e->buffer && !(e->tensor->flags & CJ_T_REQUIRES);
    }
}

static void collect(void *user, const char *name, cj_tensor *t, bool buffer)
{
    if (!buffer && t->flags & CJ_T_REQUIRES) cj__params_add(user, name, t);
}

cj_params *cj_module_params(cj_module *m)
{
    if (!m || m->ctx->error) return NULL;
    cj_module_census now = { 0 };
    count(m, &now);
    if (m->params && m->seen.members == now.members && m->seen.frozen == now.frozen) return m->params;
    cj_params *p = cj__zalloc(m->ctx, sizeof *p);
    if (!p) return NULL;
    p->ctx = m->ctx;
    char path[CJ_MAX_PATH_NAME] = "";
    walk(m, path, 0, collect, p);
    if (m->ctx->error) {
        cj__params_clear(p);
        cj__free(m->ctx, p, sizeof *p);
        return NULL;
    }
    if (m->params) memset(m->params->flat, 0, sizeof m->params->flat); /* an optimiser of the older list sees that it is out of date */
    p->older = m->params;
    m->params = p;
    m->seen = now;
    return p;
}

void cj_module_freeze(cj_module *m, bool frozen)
{
    if (!m || m->ctx->error) return;
    for (int i = 0; i < m->n; i++) {
        entry *e = &m->item[i];
        if (e->child) cj_module_freeze(e->child, frozen);
        else if (!e->buffer && frozen) e->tensor->flags &= (uint8_t)~CJ_T_REQUIRES;
        else if (!e->buffer) e->tensor->flags |= CJ_T_REQUIRES;
    }
}

void cj_module_hook(cj_module *m, cj_module_hook_fn fn, void *user)
{
    if (!m) return;
    m->hook = fn;
    m->hook_user = user;
}

/* ---- another parameter in the place of "weight" ------------------------------------------------------------------------------------------------- */

cj_tensor *cj__module_own(const cj_module *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (m->item[i].tensor && strcmp(m->item[i].name, name) == 0) return m->item[i].tensor;
    return NULL;
}

void cj__module_visit_own(cj_module *m, void (*visit)(void *user, const char *name, cj_tensor *t), void *user)
{
    for (int i = 0; i < m->n; i++)
        if (m->item[i].tensor) visit(user, m->item[i].name, m->item[i].tensor);
}

bool cj__module_reparametrise(cj_module *m, const cj_reparametrisation *r, const char *name)
{
    cj_ctx *c = m->ctx;
    cj_tensor *weight = cj__module_own(m, "weight");
    cj_reparametrisation *own = cj__zalloc(c, sizeof *own);
    if (!own) return false;
    *own = *r;
    for (int i = 0; i < m->n; i++)
        if (m->item[i].tensor == weight) snprintf(m->item[i].name, MAX_NAME, "%s", name);
    own->original = weight;
    m->reparametrisation = own;
    *(cj_tensor **)m->self = NULL; /* only while the layer runs there is a weight */
    m->seen.members = -1;          /* the name has changed */
    return true;
}

/* The layer keeps its weight in the first place of self: so do all layers of this library that have one. */
bool cj__module_can_reparametrise(cj_module *m, const char *function)
{
    if (!m || m->ctx->error) return false;
    cj_tensor *weight = cj__module_own(m, "weight");
    if (m->reparametrisation)
        return cj__error(m->ctx, CJ_EVALUE, "%s: the weight of this %s is reparametrised already", function, m->type->name);
    if (!weight || !m->self || m->self_size < sizeof weight || *(cj_tensor **)m->self != weight || weight->ndim < 2)
        return cj__error(m->ctx, CJ_EVALUE, "%s: a %s has no weight [out, ..] of its own", function, m->type->name);
    return true;
}

typedef struct visitor {
    void (*visit)(void *, const char *, cj_tensor *);
    void *user;
} visitor;
static void forward_visit(void *user, const char *name, cj_tensor *t, bool buffer)
{
    (void)buffer;
    visitor *v = user;
    v->visit(v->user, name, t);
}
int cj_module_state(cj_module *m, void (*visit)(void *user, const char *name, cj_tensor *t), void *user)
{
    if (!m) return 0;
    char path[CJ_MAX_PATH_NAME] = "";
    return walk(m, path, 0, forward_visit, &(visitor){ visit, user });
}

/* Enters the module's name, with those of containers that do not run themselves (h.0); unless the caller has entered one by hand.  Returns how many were entered. */
static int enter(cj_module *m)
{
    cj_ctx *c = m->ctx;
    if (!m->parent || c->path_depth != c->module_depth) return 0;
    int n = m->parent->running ? 0 : enter(m->parent);
    cj_enter(c, m->name);
    c->module_depth = c->path_depth;
    return n + 1;
}

cj_tensor *cj_forward(cj_module *m, cj_tensor *x)
{
    if (!m) return x ? cj_fail(x->ctx, CJ_EVALUE, "forward: the module is NULL") : NULL;
    cj_ctx *c = m->ctx;
    if (c->error) return c->poison;
    if (!m->type->forward)
        return cj_fail(c, CJ_EVALUE, "forward: %s takes more than one input; it has a function of its own", m->type->name);
    if (!cj__usable(c, m->type->name, 0, x)) return c->poison;
    int frame = cj__frame_open(c);
    if (!frame) return c->poison;
    cj_tensor **weight = m->reparametrisation ? m->self : NULL;
    if (weight) *weight = m->reparametrisation->value(m, m->reparametrisation);
    cj__module_begins(m, x);
    int before = c->module_depth, entered = enter(m);
    c->module_depth = c->path_depth;
    m->running++;
    cj_tensor *y = m->type->forward(m, m->self, x);
    m->running--;
    for (int i = 0; i < entered; i++) cj_leave(c);
    c->module_depth = before;
    if (weight) *weight = NULL;
    if (!y) y = c->poison;
    cj__frame_close(c, frame, &y, 1);
    cj__module_ends(m, x, y);
    return y;
}

cj_tensor *cj__forward_as(cj_module *m, const char *name, cj_tensor *x)
{
    if (!m) return x ? x->ctx->poison : NULL;
    cj_enter(m->ctx, name);
    cj_tensor *y = cj_forward(m, x);
    cj_leave(m->ctx);
    return y;
}

void cj__module_begins(cj_module *m, cj_tensor *x)
{
    cj_observer *o = m->ctx->observer;
    if (o && !m->ctx->error) o->begins(o, m, x);
}

void cj__module_ends(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    cj_observer *o = m->ctx->observer;
    if (m->ctx->error) return;
    if (o) o->ends(o, m, y);
    if (m->hook) m->hook(m->hook_user, m, x, y);
}
