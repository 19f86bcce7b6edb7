/* The context: creation, the first error, cancellation, position, scopes, random state. */
#include <stdarg.h>
#include <stdio.h>
#ifdef __SANITIZE_ADDRESS__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"

/* ---- position and errors ----------------------------------------------------------------------------------------------------------- */

/* Where this thread's program is.  The one thing that is not in the context: the macros that set it do not know the context. */
static _Thread_local struct {
    const char *file;
    int line;
} here;

void cj_here(const char *file, int line)
{
    here.file = file;
    here.line = line;
}

void cj__position(const char **file, int *line)
{
    *file = here.file;
    *line = here.line;
}

static const char *const code_names[CJ_CODES] = { "CJ_OK",     "CJ_ESHAPE",   "CJ_EDTYPE",     "CJ_EDEVICE", "CJ_EINDEX",
                                                  "CJ_EVALUE", "CJ_EMEMORY",  "CJ_ECANCELLED", "CJ_ESTALE",  "CJ_ECONTEXT",
                                                  "CJ_EGRAPH", "CJ_ECAPTURE", "CJ_EFILE",      "CJ_ECOMM",   "CJ_ESTATE" };

const char *cj_code_name(cj_code code) { return (unsigned)code < CJ_CODES ? code_names[code] : "unknown"; }
bool cj_ok(const cj_ctx *c) { return c && c->error == CJ_OK && !atomic_load_explicit(&c->cancelled, memory_order_relaxed); }
cj_code cj_error(const cj_ctx *c)
{
    if (!c) return CJ_EMEMORY;
    if (c->error == CJ_OK && atomic_load_explicit(&c->cancelled, memory_order_relaxed)) return CJ_ECANCELLED;
    return c->error;
}
const char *cj_message(const cj_ctx *c)
{
    if (!c) return "no context";
    if (c->error == CJ_OK) return cj_ok(c) ? "" : "cancelled";
    return c->message;
}

static void drop_deferred(cj_ctx *c, cj_scope_frame *f)
{
    while (f->deferred) {
        cj_deferred *d = f->deferred;
        f->deferred = d->next;
        cj__tensor_release(d->src, true);
        cj__tensor_release(d->dst, true);
        cj__free(c, d, sizeof *d);
    }
}

void cj_clear(cj_ctx *c)
{
    if (!c) return;
    for (int d = 0; d < c->depth && c->error; d++)
        drop_deferred(c, &c->scope[d]); /* the step that failed writes nothing, also when it goes on */
    c->error = CJ_OK;
    c->message[0] = 0;
    atomic_store(&c->cancelled, 0);
}

/* "gather: index 5 …" becomes "nll_loss: index 5 …" where the user called nll_loss: what is wrong is one of its arguments. */
static int rename_operator(cj_ctx *c)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    char text[CJ_MAX_MESSAGE];
    const size_t name = strspn(c->message, letters);
    const bool named = name && strncmp(c->message + name, ": ", 2) == 0;
    memcpy(text, c->message, sizeof text);
    const int n = snprintf(c->message, sizeof c->message, "%s: %s", c->called.op, text + (named ? name + 2 : 0));
    return n < (int)sizeof c->message ? n : (int)sizeof c->message - 1;
}
static bool is_argument(cj_code code)
{
    return code == CJ_ESHAPE || code == CJ_EDTYPE || code == CJ_EINDEX || code == CJ_EVALUE || code == CJ_ESTALE;
}

static void record_error(cj_ctx *c, cj_code code, const char *format, va_list args)
{
    if (c->error != CJ_OK) return; /* the first error stays */
    c->error = code;
    int n = vsnprintf(c->message, sizeof c->message, format, args);
    if (n < 0 || n >= (int)sizeof c->message) n = (int)sizeof c->message - 1;
    if (c->called.op && is_argument(code)) n = rename_operator(c);
    if (c->path[0]) n += snprintf(c->message + n, sizeof c->message - (size_t)n, ", in %s", c->path);
    if (n >= (int)sizeof c->message) n = (int)sizeof c->message - 1;
    if (here.file) {
        const char *slash = strrchr(here.file, '/');
        snprintf(c->message + n, sizeof c->message - (size_t)n, " (%s:%d)", slash ? slash + 1 : here.file, here.line);
    }
}

/* The bytes of the message before its position. */
static size_t sentence_length(const cj_ctx *c)
{
    const char *position = here.file ? strrchr(c->message, '(') : NULL;
    return position && position > c->message ? (size_t)(position - 1 - c->message) : strlen(c->message);
}

cj_code cj__error_take(cj_ctx *c, char message[CJ_MAX_MESSAGE])
{
    cj_code code = c->error;
    snprintf(message, CJ_MAX_MESSAGE, "%.*s", (int)sentence_length(c), c->message);
    cj_clear(c);
    return code;
}

void cj__error_at(cj_ctx *c, const char *path, const char *file, int line)
{
    size_t n = sentence_length(c);
    if (path) n += (size_t)snprintf(c->message + n, sizeof c->message - n, ", in %s", path);
    if (n >= sizeof c->message) n = sizeof c->message - 1;
    if (!file) return;
    const char *slash = strrchr(file, '/');
    snprintf(c->message + n, sizeof c->message - n, " (%s:%d)", slash ? slash + 1 : file, line);
}

bool(cj__error)(cj_ctx *c, cj_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record_error(c, code, format, args);
    va_end(args);
    return false;
}

cj_tensor *cj_fail(cj_ctx *c, cj_code code, const char *format, ...)
{
    if (!c) return NULL;
    va_list args;
    va_start(args, format);
    record_error(c, code == CJ_OK ? CJ_EVALUE : code, format, args);
    va_end(args);
    return c->poison;
}

void cj_cancel(cj_ctx *c)
{
    if (c) atomic_store(&c->cancelled, 1);
}

bool cj__cancel_check(cj_ctx *c)
{
    if (!c->committing && !c->whole && atomic_load_explicit(&c->cancelled, memory_order_relaxed)) {
        atomic_store(&c->cancelled, 0);
        return cj__error(c, CJ_ECANCELLED, "cancelled");
    }
    return c->error == CJ_OK;
}

const char *cj__shape_text(int ndim, const int64_t *shape)
{
    static _Thread_local char buffer[6][256];
    static _Thread_local int turn;
    char *out = buffer[turn = (turn + 1) % 6];
    int n = snprintf(out, 256, "[");
    for (int i = 0; i < ndim && i < CJ_MAX_DIMS; i++) n += snprintf(out + n, 256 - (size_t)n, i ? ", %lld" : "%lld", (long long)shape[i]);
    snprintf(out + n, 256 - (size_t)n, "]");
    return out;
}

const char *cj__tensor_text(const cj_tensor *t) { return cj__shape_text(t->ndim, t->shape); }

void cj__log(cj_ctx *c, cj_log_level level, const char *format, ...)
{
    if (!c->log) return;
    char line[CJ_MAX_MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    c->log(c->log_user, level, line);
}

#define MAX_PATH_DEPTH ((int)(sizeof((cj_ctx *)0)->path_marks / sizeof(int)))

void cj_enter(cj_ctx *c, const char *name)
{
    if (!c || c->path_depth++ >= MAX_PATH_DEPTH) return; /* deeper names are counted, not shown */
    size_t n = strlen(c->path);
    c->path_marks[c->path_depth - 1] = (int)n;
    snprintf(c->path + n, sizeof c->path - n, n ? ".%s" : "%s", name ? name : "?");
}

void cj_leave(cj_ctx *c)
{
    if (c && c->path_depth > 0 && --c->path_depth < MAX_PATH_DEPTH) c->path[c->path_marks[c->path_depth]] = 0;
}

/* ---- creation ------------------------------------------------------------------------------------------------------------------------ */

#define HUGE_PAGE ((size_t)2 << 20)

#if defined MADV_HUGEPAGE && defined MAP_ANONYMOUS && !defined __SANITIZE_ADDRESS__ /* which sees the bounds of malloc's blocks only */
/* A large block is a mapping of its own, so that it goes back to the system when it is freed, and asks for huge pages: fewer faults at the first touch, fewer
 * misses in the table of pages ever after. */
static bool is_large(size_t size) { return size >= 2 * HUGE_PAGE; }
static size_t mapped(size_t size) { return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); }
static void *large_alloc(size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    const size_t whole = mapped(size);
    char *all = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    const size_t before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE; /* what lies around the aligned block goes back */
    if (before) munmap(all, before);
    munmap(all + before + whole, HUGE_PAGE - before);
    (void)madvise(all + before, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE); /* a wish: without it everything works */
    return all + before;
}
static void large_free(void *p, size_t size) { munmap(p, mapped(size)); }
#else
static bool is_large(size_t size) { return (void)size, false; }
static void *large_alloc(size_t size) { return (void)size, NULL; }
static void large_free(void *p, size_t size) { (void)size, free(p); }
#endif

static void *system_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    (void)user;
    if (!new_size) {
#ifdef __SANITIZE_ADDRESS__ /* callbacks of users may rely on the size: a wrong one is a bug of ours */
        if (malloc_usable_size(p) != old_size) __builtin_trap();
#endif
        if (is_large(old_size)) large_free(p, old_size);
        else free(p);
        return NULL;
    }
    if (is_large(new_size)) return large_alloc(new_size);
    void *block = NULL;
    return posix_memalign(&block, 64, new_size) == 0 ? block : NULL;
}

static int choose_threads(int asked)
{
    if (asked <= 0) {
        const char *env = getenv("CAJAL_THREADS");
        if (env && *env) asked = (int)strtol(env, NULL, 10);
    }
    if (asked <= 0) asked = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return asked < 1 ? 1 : asked > CJ_MAX_THREADS ? CJ_MAX_THREADS : asked;
}

static const cj_cpu_kernels *choose_kernels(cj_ctx *c, const char *isa)
{
    if (!isa || !*isa) isa = getenv("CJ_ISA");
    const cj_cpu_kernels *best = NULL;
    for (int i = CJ_ISA_LEVELS - 1; i >= 0 && !best; i--) best = cj__cpu_kernels((cj_isa)i);
    if (isa && *isa) {
        int level = cj__isa_by_name(isa);
        const cj_cpu_kernels *k = level < 0 ? NULL : cj__cpu_kernels((cj_isa)level);
        if (k) return k;
        cj__error(c, CJ_EDEVICE, "isa '%s' is %s; the best one here is '%s'", isa,
                  level < 0 ? "unknown (portable, neon, avx2, avx512)" : "not available on this processor", best->name);
    }
    return best;
}

cj_ctx *cj_ctx_new(const cj_ctx_opts *opts)
{
    static const cj_ctx_opts defaults;
    if (!opts) opts = &defaults;
    cj_alloc_fn alloc = opts->alloc ? opts->alloc : system_alloc;
    cj_ctx *c = alloc(opts->alloc_user, NULL, 0, sizeof *c);
    if (!c) return NULL;
    memset(c, 0, sizeof *c);
    c->alloc = alloc;
    c->alloc_user = opts->alloc_user;
    c->memory.held = sizeof *c;
    c->memory.system_allocs = 1;
    c->memory_cap = opts->memory_cap;
    c->log = opts->log;
    c->log_user = opts->log_user;
    c->debug = opts->debug;
    c->grad_enabled = true;
    c->depth = 1; /* the base scope */
    snprintf(c->device, sizeof c->device, "cpu");
    cj_seed(c, opts->seed);
    c->poison = cj__zalloc(c, sizeof *c->poison);
    if (!c->poison) {
        cj_ctx_free(c);
        return NULL;
    }
    c->poison->ctx = c;
    c->poison->flags = CJ_T_POISON;
    c->poison->refs = 1;
    c->k = choose_kernels(c, opts->isa);
    c->threads = choose_threads(opts->threads);
    c->pool_bytes = cj__pool_bytes(c->threads);
    void *pool = c->threads > 1 ? cj__raw_alloc(c, c->pool_bytes) : NULL;
    c->pool = cj__pool_start(pool, c->threads);
    if (!c->pool) cj__raw_free(c, pool, c->pool_bytes); /* one thread gives the same results */
    c->threads = cj__pool_threads(c->pool);
    cj__recorders_install(c);
    if (opts->device && *opts->device && strcmp(opts->device, "cpu") != 0) cj__backend_open(c, opts->device);
    return c;
}

void cj__object_add(cj_ctx *c, cj_object *o, void (*free)(cj_object *))
{
    o->free = free;
    o->prev = NULL;
    o->next = c->extra;
    if (o->next) o->next->prev = o;
    c->extra = o;
}

void cj__object_remove(cj_ctx *c, cj_object *o)
{
    if (o->next) o->next->prev = o->prev;
    if (o->prev) o->prev->next = o->next;
    else c->extra = o->next;
}

void cj_ctx_free(cj_ctx *c)
{
    if (!c) return;
    while (c->extra) {
        cj_object *o = c->extra;
        cj__object_remove(c, o);
        o->free(o);
    }
    while (c->depth > 1) cj_scope_close((cj_scope){ c, c->depth });
    cj__tape_drop(c, 0);
    for (cj_tensor *t = c->scope[0].head, *next; t; t = next) {
        next = t->next;
        cj__tensor_release(t, true);
    }
    c->scope[0].head = NULL;
    while (c->persistent) cj_release(c->persistent);
    cj__profiler_free(c);
    cj__free(c, c->tape, (size_t)c->tape_cap * sizeof *c->tape);
    cj__free(c, c->scratch, c->scratch_bytes);
    cj__free(c, c->poison, sizeof *c->poison);
    for (void *s = c->slabs, *next; s; s = next) {
        next = *(void **)s;
        cj__free(c, s, 64 + 32 * sizeof(cj_tensor));
    }
    cj_memory_trim(c);
    if (c->backend) cj__backend_close(c);
    cj__pool_stop(c->pool);
    cj__raw_free(c, c->pool, c->pool_bytes);
    c->alloc(c->alloc_user, c, sizeof *c, 0);
}

const char *cj_ctx_device(const cj_ctx *c) { return c ? c->device : ""; }
const char *cj_ctx_isa(const cj_ctx *c) { return c && c->k ? c->k->name : ""; }
int cj_ctx_threads(const cj_ctx *c) { return c ? c->threads : 0; }
const char *cj_version(void) { return CJ_VERSION; }

/* ---- random state --------------------------------------------------------------------------------------------------------------------- */

void cj_seed(cj_ctx *c, uint64_t seed)
{
    if (c) c->rng = (cj_rng_state){ .seed = seed };
}
cj_rng_state cj_rng_get(const cj_ctx *c) { return c ? c->rng : (cj_rng_state){ 0 }; }
void cj_rng_set(cj_ctx *c, cj_rng_state s)
{
    if (c) c->rng = s;
}

/* ---- scopes ---------------------------------------------------------------------------------------------------------------------------- */

static int scope_push(cj_ctx *c, bool frame)
{
    if (c->depth >= CJ_MAX_SCOPES) {
        cj__error(c, CJ_ESTATE, "scope: more than %d scopes are open", CJ_MAX_SCOPES - 1);
        return 0;
    }
    c->scope[c->depth] = (cj_scope_frame){ .tape_mark = c->tape_n, .frame = frame, .serial = ++c->scope_serial };
    return ++c->depth;
}

cj_scope cj_scope_open(cj_ctx *c)
{
    if (!c) return (cj_scope){ 0 };
    return (cj_scope){ c, scope_push(c, false) };
}

static void close_headers(cj_ctx *c, cj_scope_frame *f)
{
    for (cj_tensor *t = f->head, *next; t; t = next) {
        next = t->next;
        if (c->debug) {
            t->closed_file = here.file;
            t->closed_line = here.line;
        }
        cj__tensor_release(t, true);
    }
    f->head = NULL;
}

void cj_scope_close(cj_scope s)
{
    cj_ctx *c = s.ctx;
    if (!c || s.depth == 0) return;
    if (s.depth != c->depth || s.depth <= 1) {
        cj__error(c, CJ_ESTATE, "cj_scope_close: scope %d is not the innermost one (%d)", s.depth - 1, c->depth - 1);
        return;
    }
    cj__commit(c, c->depth);
    cj_scope_frame *f = &c->scope[c->depth - 1];
    cj__tape_drop(c, f->tape_mark);
    close_headers(c, f);
    c->depth--;
}

int cj__frame_open(cj_ctx *c) { return scope_push(c, true); }

bool cj__defer(cj_ctx *c, const cj_op *op, cj_tensor *dst, cj_tensor *src)
{
    int at = c->depth - 1;
    while (at > 0 && c->scope[at].frame && !c->scope[at].step) at--;
    cj_deferred *d = cj__alloc(c, sizeof *d);
    cj_tensor *value =
        d ? cj__tensor_view(src, 0, src->ndim, src->shape, src->stride) : NULL; /* a header of our own: src's may close first */
    if (!value) {
        cj__free(c, d, d ? sizeof *d : 0);
        return false;
    }
    cj__take(c, value);
    cj__tensor_retain(dst, true);
    *d = (cj_deferred){ .next = c->scope[at].deferred, .op = op, .dst = dst, .src = value };
    c->scope[at].deferred = d;
    return at > 0 || cj__commit(c, 1); /* the base scope never closes */
}

cj_tensor *cj__deferred_value(const cj_ctx *c, cj_tensor *dst)
{
    for (int at = c->depth - 1; at >= 0; at--)
        for (const cj_deferred *d = c->scope[at].deferred; d; d = d->next)
            if (d->dst == dst) return d->src;
    return dst;
}

bool cj__commit(cj_ctx *c, int depth)
{
    cj_scope_frame *f = &c->scope[depth - 1];
    if (!f->deferred) return c->error == CJ_OK;
    cj_deferred *first = NULL; /* oldest first */
    for (cj_deferred *d = f->deferred, *next; d; d = next) {
        next = d->next;
        d->next = first;
        first = d;
    }
    f->deferred = first;
    bool ok = cj__cancel_check(c), was = c->grad_enabled;
    c->committing = ok;
    c->grad_enabled = false;
    for (const cj_deferred *d = first; d && ok; d = d->next) {
        cj_tensor *in[2] = { d->dst, d->src }, *none;
        ok = cj__apply_n(c, d->op, NULL, in, 2, &none);
    }
    c->grad_enabled = was;
    c->committing = false;
    drop_deferred(c, f);
    return ok;
}

void cj__frame_close(cj_ctx *c, int depth, cj_tensor **keep, int n)
{
    if (!depth) return;
    while (c->depth > depth) { /* a function of the user's came back without closing what it had opened */
        cj__error(c, CJ_ESTATE, "scope: a scope that was opened inside a function was not closed by it");
        cj_scope_close((cj_scope){ c, c->depth });
        for (int i = 0; i < n; i++) keep[i] = c->poison;
    }
    cj_scope_frame *f = &c->scope[c->depth - 1];
    cj_scope_frame *outer = &c->scope[c->depth - 2];
    cj_tensor **link = &f->head;
    while (*link) { /* kept headers move out; few are kept, so a linear look is cheapest */
        cj_tensor *t = *link;
        bool kept = false;
        for (int i = 0; i < n && !kept; i++) kept = keep[i] == t;
        if (kept) {
            *link = t->next;
            t->next = outer->head;
            t->depth = c->depth - 2;
            outer->head = t;
        } else {
            link = &t->next;
        }
    }
    drop_deferred(c, f);
    close_headers(c, f);
    c->depth--;
}

void cj__take(cj_ctx *c, cj_tensor *t)
{
    if (!(t->flags & CJ_T_PERSISTENT) && t->depth == c->depth - 1) {
        cj_tensor **link = &c->scope[c->depth - 1].head;
        while (*link && *link != t) link = &(*link)->next;
        if (*link) {
            *link = t->next;
            t->depth = -1;
            return;
        }
    }
    cj__tensor_retain(t, true);
}

void cj__give(cj_ctx *c, cj_tensor *t)
{
    if (t->depth >= 0 || t->flags & CJ_T_PERSISTENT) { /* owned by this scope or one around it */
        cj__tensor_release(t, true);
        return;
    }
    cj_scope_frame *f = &c->scope[c->depth - 1];
    t->depth = c->depth - 1;
    t->next = f->head;
    f->head = t;
}

cj_tensor *cj_scope_return(cj_scope s, cj_tensor *t)
{
    cj_ctx *c = s.ctx;
    if (!c) return NULL;
    if (c->error || !cj__usable(c, "cj_scope_return", 0, t)) {
        cj_scope_close(s);
        return c->poison;
    }
    if (s.depth != c->depth || s.depth <= 1) {
        cj_scope_close(s);
        return c->poison;
    }
    if (t->flags & CJ_T_PERSISTENT || t->depth < c->depth - 1) { /* it outlives the scope anyway */
        cj_scope_close(s);
        return t;
    }
    /* A second header on the storage, made in the scope around, without graph. */
    c->depth--;
    cj_tensor *r = cj__tensor_view(t, 0, t->ndim, t->shape, t->stride);
    c->depth++;
    if (r && cj__requires(t)) r->flags |= CJ_T_CUT;
    cj_scope_close(s);
    return r ? r : c->poison;
}
