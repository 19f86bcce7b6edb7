/* Shared by the tests: allocators that count and fail, a small network with its training step, comparisons to the bit, plans. */
#ifndef CJ_TESTS_SUPPORT_H
#define CJ_TESTS_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cajal/cajal.h>

#include "core/core.h"

#define UNUSED __attribute__((unused))
#define assert_ok(c) assert_string_equal(cj_message(c), "")
#define assert_says(c, text)                                                                                                               \
    do {                                                                                                                                   \
        if (!strstr(cj_message(c), text)) fail_msg("\"%s\" does not say \"%s\"", cj_message(c), text);                                     \
    } while (0)
#define assert_error(c, code, text)                                                                                                        \
    do {                                                                                                                                   \
        assert_string_equal(cj_code_name(cj_error(c)), cj_code_name(code));                                                                \
        assert_says(c, text);                                                                                                              \
    } while (0)
/* The call sets this error in c, with these words; the context is cleared. assert_poisoned: and it returns poison. */
#define assert_refused(code, text, ...)                                                                                                    \
    do {                                                                                                                                   \
        (void)(__VA_ARGS__);                                                                                                               \
        assert_error(c, code, text);                                                                                                       \
        cj_clear(c);                                                                                                                       \
    } while (0)
#define assert_poisoned(code, text, ...) assert_refused(code, text, assert_true(cj_is_poison(__VA_ARGS__)))
#define assert_near(a, b, tolerance)                                                                                                       \
    do {                                                                                                                                   \
        double near_a = (a), near_b = (b);                                                                                                 \
        if (!(fabs(near_a - near_b) <= (tolerance))) fail_msg("%s = %.17g, expected %.17g", #a, near_a, near_b);                           \
    } while (0)

/* One context for all cases of a file, free of errors at the end: TEST_CONTEXT(.threads = 1, .seed = 23); gives c, setup and teardown. */
#define TEST_CONTEXT(...)                                                                                                                  \
    static cj_ctx *c;                                                                                                                      \
    static int setup(void **state) { return (void)state, (c = cj_ctx_new(&(cj_ctx_opts){ __VA_ARGS__ })) ? 0 : 1; }                        \
    static int teardown(void **state)                                                                                                      \
    {                                                                                                                                      \
        (void)state;                                                                                                                       \
        assert_ok(c);                                                                                                                      \
        cj_ctx_free(c);                                                                                                                    \
        return 0;                                                                                                                          \
    }                                                                                                                                      \
    _Static_assert(1, "takes the semicolon")

/* A cj_fn of one input x: FUNCTION_OF_X(twice, cj_mul_scalar(x, 2)); */
#define FUNCTION_OF_X(name, expression)                                                                                                    \
    static cj_tensor *name(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)                                                           \
    {                                                                                                                                      \
        (void)ctx, (void)user, (void)n;                                                                                                    \
        cj_tensor *x = in[0];                                                                                                              \
        return expression;                                                                                                                 \
    }                                                                                                                                      \
    _Static_assert(1, "takes the semicolon")

/* ---- allocators ---------------------------------------------------------------------------------------------------------------------------- */

/* Counts, and lets the fail_at-th allocation from the start fail (0: none). */
typedef struct counter {
    atomic_long allocs, frees, bytes;
    long fail_at;
    void (*before)(struct counter *k); /* called before every allocation; may be NULL */
    void *user;
} counter;

UNUSED static void *counting_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    counter *k = user;
    if (new_size) {
        if (k->before) k->before(k);
        if (atomic_fetch_add(&k->allocs, 1) + 1 == k->fail_at) {
            atomic_fetch_add(&k->frees, 1); /* so that allocs and frees still balance */
            return NULL;
        }
        void *fresh = aligned_alloc(64, (new_size + 63) & ~(size_t)63);
        if (!fresh) {
            atomic_fetch_add(&k->frees, 1);
            return NULL;
        }
        atomic_fetch_add(&k->bytes, (long)new_size);
        memset(fresh, 0xa5, new_size); /* nobody may count on zeros */
        return fresh;
    }
    atomic_fetch_add(&k->frees, 1);
    atomic_fetch_sub(&k->bytes, (long)old_size);
    free(p);
    return NULL;
}

UNUSED static void assert_balanced(const counter *k)
{
    assert_int_equal(k->allocs, k->frees);
    assert_int_equal(k->bytes, 0);
}

/* ---- values ----------------------------------------------------------------------------------------------------------------------------------- */

/* All elements as doubles, in memory that the caller frees. */
UNUSED static double *values_of(cj_tensor *t)
{
    int64_t n = cj_numel(t);
    double *v = calloc((size_t)(n ? n : 1), sizeof *v);
    if (!cj_to_f64(t, v, n)) fail_msg("values: %s", cj_message(cj_tensor_ctx(t)));
    return v;
}

UNUSED static double value_at(cj_tensor *t, int64_t i)
{
    double *v = values_of(t), x = i < cj_numel(t) ? v[i] : NAN;
    free(v);
    return x;
}

/* Largest |a - b| over the elements of equal shapes, which may belong to two contexts. */
UNUSED static double distance(cj_tensor *a, cj_tensor *b)
{
    assert_int_equal(cj_ndim(a), cj_ndim(b));
    for (int d = 0; d < cj_ndim(a); d++) assert_int_equal(cj_size(a, d), cj_size(b, d));
    double *x = values_of(a), *y = values_of(b), worst = 0;
    for (int64_t i = 0; i < cj_numel(a); i++)
        if (!(fabs(x[i] - y[i]) <= worst)) worst = x[i] == y[i] ? worst : fabs(x[i] - y[i]);
    free(x);
    free(y);
    return worst;
}

/* Same shape, dtype and bits; the tensors may belong to two contexts. */
UNUSED static bool same_bits(cj_tensor *a, cj_tensor *b)
{
    if (cj_is_poison(a) || cj_is_poison(b)) return false;
    if (cj_ndim(a) != cj_ndim(b) || cj_dtype_of(a) != cj_dtype_of(b) || cj_numel(a) != cj_numel(b)) return false;
    double *x = values_of(a), *y = values_of(b);
    bool same = memcmp(x, y, (size_t)cj_numel(a) * sizeof *x) == 0;
    free(x);
    free(y);
    return same;
}

UNUSED static cj_tensor *f64(cj_ctx *c, const double *v, cj_shape s) { return (cj_from_f64)(c, v, s); }
#define F64(c, shape, ...) f64(c, (double[]){ __VA_ARGS__ }, shape)

/* ---- a network that uses a bit of everything ----------------------------------------------------------------------------------------------------- */

typedef struct rig {
    cj_ctx *c;
    cj_module *net;
    cj_optim *opt;
    cj_tensor *x, *y; /* persistent: [rows, 6], [rows] */
} rig;

UNUSED static bool rig_build(rig *r, cj_ctx *c, int64_t rows)
{
    *r = (rig){ .c = c };
    cj_scope s = cj_scope_open(c);
    r->net =
        cj_sequential(c, cj_linear(c, 6, 8), cj_layer_norm_layer(c, 8), cj_gelu_layer(c), cj_dropout_layer(c, 0.25), cj_linear(c, 8, 3));
    r->opt = cj_adam(cj_module_params(r->net), .lr = 0.01, .clip_norm = 1);
    r->x = cj_keep(cj_randn(c, CJ_SHAPE(rows, 6)));
    r->y = cj_keep(cj_randint(c, 0, 3, CJ_SHAPE(rows)));
    cj_scope_close(s);
    return cj_ok(c);
}

UNUSED static bool rig_step(rig *r)
{
    cj_scope s = cj_scope_open(r->c);
    cj_tensor *loss = cj_cross_entropy(cj_forward(r->net, r->x), r->y);
    bool ok = cj_minimise(r->opt, loss);
    cj_scope_close(s);
    return ok;
}

/* The same step for cj_capture; inputs x and y. */
UNUSED static void rig_captured(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    rig *r = user;
    cj_tensor *loss = cj_cross_entropy(cj_forward(r->net, in[0]), in[1]);
    cj_minimise(r->opt, loss);
    out[0] = loss;
}

/* Everything that a step changes, as one block of bytes. */
typedef struct snapshot {
    char *bytes;
    size_t n;
    cj_rng_state rng;
} snapshot;

UNUSED static void snapshot_add(void *user, const char *name, cj_tensor *t)
{
    (void)name;
    snapshot *s = user;
    size_t n = (size_t)cj_numel(t) * cj_dtype_size(cj_dtype_of(t));
    s->bytes = realloc(s->bytes, s->n + n + 1);
    if (n) memcpy(s->bytes + s->n, cj_data(t), n);
    s->n += n;
}

UNUSED static snapshot snapshot_of(rig *r)
{
    snapshot s = { .rng = cj_rng_get(r->c) };
    if (r->net) cj_module_state(r->net, snapshot_add, &s);
    if (r->opt) cj_optim_state(r->opt, snapshot_add, &s);
    return s;
}
UNUSED static bool snapshot_same(const snapshot *a, const snapshot *b) { return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0; }
UNUSED static void snapshot_free(snapshot *s) { free(s->bytes); }

/* Captures, replays until compiled, and replays once more; out receives the last results. */
UNUSED static cj_plan *compiled(cj_ctx *c, cj_step_fn fn, void *user, cj_tensor *const *in, int n, cj_tensor **out)
{
    cj_plan *p = cj_capture(c, fn, user, in, n, out);
    for (int i = 0; i < 2; i++)
        if (!cj_replay(p, in, out)) fail_msg("replay: %s", cj_message(c));
    assert_true(cj_plan_statistics(p).compiled);
    return p;
}

#endif
