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

struct cj_module {
    cj_object object;
    cj_ctx *ctx;
    const cj_module_type *type;
    void *self;
    size_t self_size;
    entry *item;
    int n, cap;
    bool training;
    cj_params params;
    int params_seen; /* tree size at which params was collected */
};

static void module_free(cj_object *o)
{
    cj_module *m = (cj_module *)o;
    cj_ctx *c = m->ctx;
    if (m->type->free) m->type->free(m, m->self);
    cj__params_clear(&m->params);
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
    m->params.ctx = c;
    m->params_seen = -1;
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

static int tree_size(const cj_module *m)
{
    int n = m->n;
    for (int i = 0; i < m->n; i++)
        if (m->item[i].child) n += tree_size(m->item[i].child);
    return n;
}

static void collect(void *user, const char *name, cj_tensor *t, bool buffer)
{
    if (!buffer) cj__params_add(user, name, t);
}

cj_params *cj_module_params(cj_module *m)
{
    if (!m || m->ctx->error) return NULL;
    int size = tree_size(m);
    if (m->params_seen != size) {
        cj__params_clear(&m->params);
        char path[CJ_MAX_PATH_NAME] = "";
        walk(m, path, 0, collect, &m->params);
        if (m->ctx->error) return NULL;
        m->params_seen = size;
    }
    return &m->params;
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
    cj_tensor *y = m->type->forward(m, m->self, x);
    if (!y) y = c->poison;
    cj__frame_close(c, frame, &y, 1);
    return y;
}
