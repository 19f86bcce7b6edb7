/* Shared by the tests of errors: tensors in a word, small functions, and what every message must be. */
#ifndef CJ_TESTS_ERRORS_H
#define CJ_TESTS_ERRORS_H

#include "support.h"

#define F(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
#define I(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_I64)
#define D(...) cj_zeros(c, CJ_SHAPE(__VA_ARGS__), CJ_F64)
#define INDEX(v) cj_full(c, v, CJ_SHAPE(1), CJ_I64)

UNUSED static cj_tensor *identity(cj_ctx *c, void *user, cj_tensor *const *in, int n) { return (void)c, (void)user, (void)n, in[0]; }

UNUSED static cj_tensor *squares(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    return (void)c, (void)user, (void)n, cj_sum(cj_square(in[0]));
}

UNUSED static bool infer_same(cj_ctx *c, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype)
{
    (void)c, (void)payload;
    *shape = cj_shape_of(in[0]);
    *dtype = cj_dtype_of(in[0]);
    return true;
}

UNUSED static bool run_zero(cj_ctx *c, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    (void)c, (void)payload, (void)in;
    memset(out, 0, (size_t)cj_numel(shapes[0]) * cj_dtype_size(cj_dtype_of(shapes[0])));
    return true;
}

/* One sentence: no line break, no full stop inside except in names and numbers, and it ends with the caller's place. */
UNUSED static void assert_sentence(const cj_ctx *c, const char *name)
{
    const char *m = cj_message(c);
    if (strchr(m, '\n') || strlen(m) > 300 || strstr(m, ". ")) fail_msg("%s: \"%s\" is not one sentence", name, m);
    if (!strstr(m, "(test_errors") && !strstr(m, "(errors.h:")) fail_msg("%s: \"%s\" does not say where", name, m);
    if (m[strlen(m) - 1] != ')') fail_msg("%s: \"%s\" does not end with the place", name, m);
}

UNUSED static void assert_works(cj_ctx *c)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(cj_full(c, 3, CJ_SHAPE(2, 2), CJ_F32)), *g;
    assert_true(cj_grad(cj_sum(cj_matmul(x, x)), &x, 1, &g));
    assert_true(cj_item(cj_sum(g)) == 48);
    cj_scope_close(s);
    assert_ok(c);
}

/* Two rigs with the same seed: r is disturbed, the other one not; after a clear r goes on as if nothing had happened. */
UNUSED static void assert_unchanged(rig *r, const snapshot *before, long at)
{
    snapshot now = snapshot_of(r);
    if (!snapshot_same(before, &now)) fail_msg("a step that failed at %ld changed something", at);
    snapshot_free(&now);
}

#endif
