/* The edges of differentiation and plans: arguments of which one is wrong, errors that are set already, values without a history, operators
 * that lack a part, steps that change between two runs, and plans of unusual types and programs, which give the bits of eager mode. */
#include "support.h"

#include "grad/grad.h"

TEST_CONTEXT(.threads = 1, .seed = 21);

/* clang-format off */
#define CASE(name) static void name(UNUSED void **state)
#define FN(name, ...) static cj_tensor *name(UNUSED cj_ctx *q, UNUSED void *user, UNUSED cj_tensor *const *in, UNUSED int n) \
    { return __VA_ARGS__; } _Static_assert(1, "takes the semicolon")
#define STEP(name, ...) static void name(UNUSED cj_ctx *q, UNUSED void *user, UNUSED cj_tensor *const *in, cj_tensor **out) \
    { __VA_ARGS__; } _Static_assert(1, "takes the semicolon")
#define NO(code, text, ...) assert_refused(code, text, assert_false(__VA_ARGS__))
#define NONE(code, text, ...) assert_refused(code, text, assert_null(__VA_ARGS__))
/* The first error stays, and is all there is to say. */
#define QUIET(...) do { cj_fail(c, CJ_EVALUE, "the first error"); assert_true(__VA_ARGS__); \
    assert_refused(CJ_EVALUE, "the first error", 0); } while (0)
#define AS(type, x) cj_cast(x, CJ_##type)
#define COUNT(a) (int)(sizeof(a) / sizeof *(a))
#define F(value, ...) cj_full(c, value, CJ_SHAPE(__VA_ARGS__), CJ_F32)
/* clang-format on */

static void assert_all(cj_tensor *t, double value)
{
    for (int64_t i = 0; i < cj_numel(t); i++) assert_near(value_at(t, i), value, 0);
}

/* ---- transforms ---- */
FN(squares, cj_square(in[0]));
FN(x_y_squared, cj_sum(cj_mul(in[0], cj_square(in[1]))));
FN(times_user, cj_sum(cj_mul(in[0], user)));
FN(gives_nothing, NULL);
FN(says_no, cj_fail(q, CJ_EVALUE, "the function says no"));
FN(fails_later, --*(int *)user >= 0 ? cj_square(in[0]) : cj_fail(q, CJ_EVALUE, "the function says no"));

enum { VJP, JVP, HVP, PER_EXAMPLE, JACOBIAN, COLUMNS, HESSIAN, TRANSFORMS };
static const char *const transform_name[] = { "vjp", "jvp", "hvp", "per_example_grad", "jacobian", "jacobian", "hessian" };
/* Returns the value or the derivative; out is what a list of results receives. */
static cj_tensor *transform(cj_ctx *q, int which, cj_fn fn, cj_tensor *const *x, int n, cj_tensor **out)
{
    switch (which) {
    case VJP: return cj_vjp(q, fn, NULL, x, n, NULL, out);
    case JVP: return cj_jvp(q, fn, NULL, x, x, n).derivative;
    case HVP: return cj_hvp(q, fn, NULL, x, x, n, out);
    case PER_EXAMPLE: return cj_per_example_grad(q, fn, NULL, x, n, x, n, out) ? out[0] : q ? q->poison : NULL;
    case HESSIAN: return cj_hessian(q, fn, NULL, x[0]);
    default: return cj_jacobian(q, fn, NULL, x[0], .forward = which == COLUMNS);
    }
}

CASE(arguments_of_transforms)
{
    cj_tensor *x = cj_require_grad(F(2, 3)), *many[65], *out[65], *null = NULL, *flat = F(1, 1, 3), *empty = F(0, 0);
    char says[80];
    for (int i = 0; i < 65; i++) many[i] = x;
    for (int k = 0; k < TRANSFORMS; k++) {
        for (int bad = 0; bad < 3 && k <= PER_EXAMPLE; bad++) { /* too few, too many, no list */
            snprintf(says, sizeof says, "%s: %d inputs, 1 to 64 are possible", transform_name[k], bad == 1 ? 65 : 0);
            const int n = bad == 1 ? 65 : bad == 2;
            assert_poisoned(CJ_EVALUE, says, transform(c, k, squares, bad == 2 ? NULL : many, n, out));
        }
        snprintf(says, sizeof says, "%s: argument 1 is NULL", transform_name[k]);
        assert_poisoned(CJ_EVALUE, says, transform(c, k, squares, &null, 1, out));
        const bool list = k != JVP && k < JACOBIAN;
        assert_null(transform(NULL, k, squares, &x, 1, out));
        if (list) assert_null(out[0]);
        assert_poisoned(CJ_EVALUE, "the function says no", transform(c, k, says_no, &x, 1, out));
        if (list) assert_true(cj_is_poison(out[0]));
        QUIET(cj_is_poison(transform(c, k, squares, &x, 1, out)));
        assert_true(cj_grad_enabled(c) && c->fwd_limit == 0);
    }
    assert_poisoned(CJ_EVALUE, "jvp: the function returned NULL", transform(c, JVP, gives_nothing, &x, 1, out));
    assert_poisoned(CJ_EVALUE, "jacobian: the function returned NULL", transform(c, JACOBIAN, gives_nothing, &x, 1, out));
    assert_poisoned(CJ_EVALUE, "jvp: the tangents are NULL", cj_jvp(c, squares, NULL, &x, NULL, 1).value);
    assert_poisoned(CJ_EVALUE, "hvp: the tangents are NULL", cj_hvp(c, squares, NULL, &x, NULL, 1, out));
    assert_poisoned(CJ_ESHAPE, "jvp: tangent [1, 3] does not fit [3]", cj_jvp(c, squares, NULL, &x, &flat, 1).value);
    assert_poisoned(CJ_ESTALE, "jvp: argument 2 is the result of an earlier error", cj_jvp(c, squares, NULL, &x, &c->poison, 1).value);
    assert_poisoned(CJ_ESHAPE, "jacobian: the input is empty", transform(c, COLUMNS, squares, &empty, 1, out));
    cj_tensor *w = cj_require_grad(F(3, 2)), *g, *pair = F(2, 2, 2), *item = cj_scalar(c, 1);
    cj_tensor *const bad[][2] = { { item, item }, { pair, item }, { F(1, 0), F(1, 0) }, { F(1, 1025), F(1, 1025) }, { pair, F(1, 3) } };
    for (int i = 0; i < COUNT(bad); i++)
        NO(CJ_ESHAPE, "all need the same first size from 1 to 1024", cj_per_example_grad(c, times_user, w, &w, 1, bad[i], 2, &g));
    NO(CJ_EVALUE, "per_example_grad: 0 inputs", cj_per_example_grad(c, times_user, w, &w, 1, &pair, 0, &g));
    assert_true(cj_is_poison(g) && cj_per_example_grad(c, times_user, w, &w, 1, &pair, 1, &g));
    assert_all(g, 2), assert_int_equal(cj_numel(g), 4);
}

/* A Hessian inside a Hessian, without end. */
static cj_tensor *deeper(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    cj_tensor *t = cj_ones_like(in[0]), *out;
    cj_hvp(q, deeper, user, in, &t, n, &out);
    return out;
}
CASE(tangents_and_levels)
{
    cj_tensor *in[2] = { F(3, 2), F(5, 2) }, *t = F(7, 2), *out[2]; /* x y²: with one tangent the rest of the Hessian does not count */
    assert_near(cj_item(cj_hvp(c, x_y_squared, NULL, in, CJ_TENSORS(NULL, t), 2, out)), 2 * 3 * 25, 0);
    assert_all(out[0], 2 * 5 * 7), assert_all(out[1], 2 * 3 * 7);
    assert_near(cj_item(cj_hvp(c, x_y_squared, NULL, in, CJ_TENSORS(t, NULL), 2, out)), 2 * 3 * 25, 0);
    assert_all(out[0], 0), assert_all(out[1], 2 * 5 * 7);
    assert_poisoned(CJ_EGRAPH, "more than 8 nested forward derivatives", cj_hvp(c, deeper, NULL, in, &t, 1, out));
    assert_true(cj_grad_enabled(c) && c->fwd_limit == 0);
    /* J = diag(2x), with and without a tape around it; where x has a history J can be differentiated, too */
    cj_tensor *x = F(3, 2), *leaf = cj_require_grad(x), *plain = (cj_jacobian)(c, squares, NULL, x, NULL), *g = NULL;
    bool was = cj_no_grad(c);
    cj_tensor *untaped = (cj_jacobian)(c, squares, NULL, leaf, &(cj_jacobian_opts){ 0 });
    cj_grad_mode(c, was);
    cj_tensor *taped = cj_jacobian(c, squares, NULL, leaf);
    assert_true(same_bits(plain, untaped) && same_bits(plain, taped) && same_bits(plain, cj_mul_scalar(cj_eye(c, 2, CJ_F32), 6)));
    assert_true(!cj__requires(plain) && !cj__requires(untaped) && cj_grad(cj_sum(taped), &leaf, 1, &g));
    assert_all(g, 2);
}

/* ---- operators that lack a part ---- */
/* One without a derivative, in the way of the library's own. */
static bool infer_square(cj_call *k) { return cj__out(k, 0, (cj_dtype)k->in[0]->dtype, k->in[0]->ndim, k->in[0]->shape); }
static bool run_square(cj_call *k)
{
    const float *x = (const float *)(const void *)k->in[0]->data;
    for (int64_t i = 0; i < k->in[0]->numel; i++) ((float *)(void *)k->out[0]->data)[i] = x[i] * x[i];
    return true;
}
static cj_op bare = { .name = "my_square", .nin = 1, .nout = 1, .save_in = 1, .infer = infer_square, .run = run_square };
FN(my_square, cj__apply(user, NULL, in, n));
FN(sum_of_my_square, cj_sum(cj__apply(user, NULL, in, n)));

/* y = a b, with derivatives and shapes that leave something out. */
static struct {
    enum { BOTH, OF_A, CONSTANTS, FAILING, UNKNOWN /* through an operator without a derivative */ } derivative;
    enum { RIGHT, UNTOLD /* false, without an error */, TOLD, BESIDE /* true, with one */, NEGATIVE } shape;
    cj_dtype dtype;
} custom;
static bool custom_infer(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype)
{
    (void)payload;
    *shape = custom.shape == NEGATIVE ? CJ_SHAPE(-1) : cj_shape_of(in[0]);
    *dtype = custom.dtype;
    if (custom.shape == TOLD || custom.shape == BESIDE) cj_fail(q, CJ_EVALUE, "the shape says no");
    return custom.shape != UNTOLD && custom.shape != TOLD;
}
static bool custom_run(cj_ctx *q, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    (void)q, (void)payload;
    const float *a = in[0], *b = in[1];
    for (int64_t i = 0; i < cj_numel(shapes[0]); i++)
        if (custom.dtype == CJ_F64) ((double *)out)[i] = (double)a[i] * (double)b[i];
        else ((float *)out)[i] = a[i] * b[i];
    return true;
}
static bool custom_rerun(cj_ctx *q, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    return custom_run(q, payload, in, shapes, out);
}
static void custom_vjp(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_tensor *out, cj_tensor *g, cj_tensor **gin)
{
    (void)payload, (void)out;
    if (custom.derivative == FAILING) cj_fail(q, CJ_EVALUE, "the derivative says no");
    if (custom.derivative == UNKNOWN) g = cj__apply(&bare, NULL, &g, 1);
    gin[0] = custom.derivative == CONSTANTS ? cj_zeros_like(in[0]) : cj_mul(g, in[1]);
    if (custom.derivative != OF_A) gin[1] = custom.derivative == CONSTANTS ? cj_zeros_like(in[1]) : cj_mul(g, in[0]);
}
static cj_custom_op product = { .name = "product", .nin = 2, .infer = custom_infer, .run = custom_run, .vjp = custom_vjp };
FN(custom_product, cj_custom(q, &product, in));

CASE(operators_without_a_part)
{
    cj_tensor *ab[2] = { cj_require_grad(F(3, 2)), cj_require_grad(F(5, 2)) }, *t = F(2, 2), *g[2];
    const cj_custom_op part[] = { { .infer = custom_infer, .run = custom_run },
                                  { "a", .run = custom_run },
                                  { "b", .infer = custom_infer } };
    for (int i = 0; i < 4; i++)
        assert_poisoned(CJ_EVALUE, "custom: the definition needs a name", cj_custom(c, i ? &part[i - 1] : NULL, ab));
    assert_null(cj_custom(NULL, &product, ab));
    const char *none = "backward: my_square has no derivative", *no_jvp = "jvp: my_square has no derivative";
    NO(CJ_EGRAPH, none, cj_grad(sum_of_my_square(c, &bare, ab, 1), ab, 1, g));
    assert_poisoned(CJ_EGRAPH, no_jvp, cj_jvp(c, my_square, &bare, ab, &t, 1).derivative);
    assert_poisoned(CJ_EGRAPH, none, cj_jacobian(c, my_square, &bare, ab[0]));
    assert_poisoned(CJ_EGRAPH, no_jvp, cj_hessian(c, sum_of_my_square, &bare, ab[0]));
    QUIET(cj_is_poison(cj_custom(c, &product, ab)));
    static const char *const says[] = { "its shape rule failed", "the shape says no", "the shape says no", "negative size in [-1]" };
    for (custom.shape = UNTOLD; custom.shape <= NEGATIVE; custom.shape++)
        assert_poisoned(custom.shape == NEGATIVE ? CJ_ESHAPE : CJ_EVALUE, says[custom.shape - 1], cj_custom(c, &product, ab));
    custom.shape = RIGHT;
    static const double along[3][3] = { { 10, 6, 16 }, { 10, 0, 10 }, { 0, 0, 0 } }; /* tangents of a, of b, of both */
    for (custom.derivative = BOTH; custom.derivative <= CONSTANTS; custom.derivative++) {
        for (int i = 0; i < 3; i++) {
            cj_pair p = cj_jvp(c, custom_product, NULL, ab, CJ_TENSORS(i == 1 ? NULL : t, i == 0 ? NULL : t), 2);
            assert_all(p.value, 15), assert_all(p.derivative, along[custom.derivative][i]);
        }
        assert_true(cj_grad(cj_sum(cj_custom(c, &product, ab)), ab, 2, g, .allow_unused = true));
        assert_all(g[0], custom.derivative == CONSTANTS ? 0 : 5), assert_all(g[1], custom.derivative == BOTH ? 3 : 0);
    }
    custom.derivative = FAILING;
    assert_poisoned(CJ_EVALUE, "the derivative says no", cj_jvp(c, custom_product, NULL, ab, ab, 2).derivative);
    NO(CJ_EVALUE, "the derivative says no", cj_grad(cj_sum(cj_custom(c, &product, ab)), ab, 2, g));
    custom.derivative = UNKNOWN;
    assert_poisoned(CJ_EGRAPH, none, cj_jvp(c, custom_product, NULL, ab, ab, 2).derivative);
    custom.derivative = OF_A;
    assert_true(cj_backward(cj_sum(cj_custom(c, &product, ab))));
    assert_all(cj_leaf_grad(ab[0]), 5), assert_null(cj_leaf_grad(ab[1])); /* a leaf without a gradient keeps none */
    custom.derivative = BOTH;
}

/* ---- reverse mode ---- */
CASE(arguments_of_grad)
{
    cj_tensor *x = cj_require_grad(F(3, 2)), *y = cj_sum(cj_square(x)), *z = cj_square(x), *g, *stale = c->poison;
    const char *missing = "grad: the list of x or the room for results is NULL";
    NO(CJ_EVALUE, missing, cj_grad(y, &x, -1, &g));
    NO(CJ_EVALUE, missing, cj_grad(y, NULL, 1, &g));
    NO(CJ_EVALUE, missing, cj_grad(y, &x, 1, NULL));
    assert_true(!cj_grad(NULL, &x, 1, &g) && !g && !cj_backward(NULL) && !cj__alias(NULL) && cj_is_poison(cj__alias(stale)));
    NO(CJ_ESTALE, "grad: argument 1 is the result of an earlier error", cj_grad(stale, &x, 1, &g));
    NO(CJ_ESTALE, "grad: argument 1 is the result", cj_grad(stale, &x, 1, &g, .allow_unused = true));
    NO(CJ_ESTALE, "grad: argument 2 is the result", cj_grad(z, &x, 1, &g, .seed = stale));
    NO(CJ_ESHAPE, "grad: seed [1, 2] does not fit [2]", cj_grad(z, &x, 1, &g, .seed = F(1, 1, 2)));
    NO(CJ_ESTALE, "backward: argument 1 is the result", cj_backward(stale));
    NO(CJ_EGRAPH, "backward: the value depends on nothing", cj_backward(cj_sum(F(1, 2))));
    assert_poisoned(CJ_ESTALE, "detach: argument 1 is the result", cj_detach(stale));
    QUIET(!cj_grad(y, &x, 1, &g) && !cj_backward(y) && cj_is_poison(g) && cj_is_poison(cj_detach(x)));
    assert_true(cj_grad(y, NULL, 0, NULL) && cj_grad(y, &x, 1, &g)); /* where nothing is wanted nothing is consumed */
    assert_all(g, 6);
}

/* What an earlier pass consumed is missed where it lies on the way, and only there. */
CASE(consumed_histories)
{
    cj_tensor *w = cj_require_grad(F(3, 2)), *v = cj_require_grad(F(5, 2)), *h = cj_square(w), *g[2];
    assert_true(cj_grad(cj_sum(h), &w, 1, g));
    NO(CJ_EGRAPH, "backward of mul: the graph of its input 1 was consumed by an earlier pass; set .retain there",
       cj_grad(cj_sum(cj_mul(h, v)), &v, 1, g));
    assert_true(cj_grad(cj_sum(cj_mul(h, v)), &h, 1, g)); /* it begins here */
    assert_all(g[0], 5);
    for (int beside = 0; beside < 2; beside++) {
        cj_tensor *y = cj_add(cj_sum(cj_exp(h)), cj_sum(cj_square(v)));
        if (beside) assert_true(cj_grad(y, CJ_TENSORS(v, v), 2, g));
        else NO(CJ_EGRAPH, "the graph of an input was consumed", cj_grad(y, CJ_TENSORS(v, w), 2, g));
        assert_int_equal(cj_is_poison(g[0]), !beside);
        assert_ptr_equal(g[0], g[1]);
    }
    assert_all(g[0], 10);
}
/* A pass with several ends, of which one is a wanted tensor, and one that begins behind its end; more leaves than the first list holds. */
CASE(ends_of_a_pass)
{
    enum { LEAVES = 40 };
    cj_tensor *x = cj_require_grad(F(3, 2)), *y = cj_square(x), *a = F(1, 2), *b = F(10, 2), *g, *leaf[LEAVES], *part[LEAVES];
    assert_true(cj__reverse(c, CJ_TENSORS(y, y), CJ_TENSORS(a, b), 2, 0, &x, 1, &g, false, true));
    assert_all(g, 66);
    assert_true(cj__reverse(c, CJ_TENSORS(x, y, x), CJ_TENSORS(a, a, b), 3, 0, &x, 1, &g, false, true));
    assert_all(g, 17);
    assert_true(cj__reverse(c, &y, &a, 1, c->tape_n, &x, 1, &g, false, true));
    assert_null(g), assert_all(a, 1);
    for (int i = 0; i < LEAVES; i++) leaf[i] = cj_require_grad(F(i, 2));
    for (int turn = 1; turn <= 2; turn++) {
        for (int i = 0; i < LEAVES; i++) part[i] = i % 2 ? cj_mul(leaf[i], leaf[i]) : leaf[i];
        cj_tensor *other = cj_sum(cj_square(leaf[0])), *sum = cj_add(cj_sum(cj_cat(part, LEAVES, 0)), cj_sum(leaf[1]));
        assert_true(cj_grad(other, leaf, 1, &g)); /* leaves a gap on the tape */
        assert_true(cj_backward(sum));
        for (int i = 0; i < LEAVES; i++) assert_all(cj_leaf_grad(leaf[i]), turn * (i % 2 ? 2 * i + (i == 1) : 1));
    }
}

/* ---- checkpoints and the gradient checker ---- */
FN(checkpointed, cj_checkpoint(q, squares, NULL, in, n));
CASE(checkpoints)
{
    cj_tensor *x = cj_require_grad(F(3, 2)), *t = F(7, 2), *g, *y;
    assert_null(cj_checkpoint(NULL, squares, NULL, &x, 1));
    assert_poisoned(CJ_EVALUE, "checkpoint: -1 inputs, at most 1024 are possible", cj_checkpoint(c, squares, NULL, &x, -1));
    assert_poisoned(CJ_EVALUE, "checkpoint: 1025 inputs", cj_checkpoint(c, squares, NULL, &x, 1025));
    assert_poisoned(CJ_EVALUE, "checkpoint: 0 inputs", cj_checkpoint(c, squares, NULL, NULL, 1));
    assert_poisoned(CJ_EVALUE, "checkpoint: the function is NULL", cj_checkpoint(c, NULL, NULL, &x, 1));
    assert_poisoned(CJ_ESTALE, "checkpoint: argument 1 is the result", cj_checkpoint(c, squares, NULL, &c->poison, 1));
    assert_poisoned(CJ_EVALUE, "checkpoint: the function returned NULL", cj_checkpoint(c, gives_nothing, NULL, &x, 1));
    assert_poisoned(CJ_EVALUE, "the function says no", cj_checkpoint(c, says_no, NULL, &x, 1));
    QUIET(cj_is_poison(cj_checkpoint(c, squares, NULL, &x, 1)));
    assert_false(cj__requires(cj_checkpoint(c, squares, NULL, &t, 1))); /* of a constant: one, too */
    int calls = 1;                                                      /* the second time, in the pass back, it fails */
    y = cj_checkpoint(c, fails_later, &calls, &x, 1);
    NO(CJ_EVALUE, "the function says no", cj_grad(cj_sum(y), &x, 1, &g));
    y = cj_checkpoint(c, my_square, &bare, &x, 1);
    NO(CJ_EGRAPH, "backward: my_square has no derivative", cj_grad(cj_sum(y), &x, 1, &g));
    assert_true(cj_is_poison(g));
    cj_pair p = cj_jvp(c, checkpointed, NULL, &x, &t, 1);
    assert_all(p.value, 9), assert_all(p.derivative, 42);
}

FN(kink_with, cj_add(cj_abs(in[0]), cj_mul_scalar(cj_sub(in[0], cj_detach(in[0])), *(double *)user))); /* |x|, of any slope at 0 */
CASE(checks_that_fail)
{
    cj_tensor *x = F64(c, CJ_SHAPE(2), 0.5, -2), *many[65] = { x }, *zero = F64(c, CJ_SHAPE(1), 0);
    for (int n = 0; n < 66; n += 65) assert_string_equal(cj_gradcheck(c, squares, NULL, many, n).what, "not run");
    assert_string_equal(cj_gradcheck(NULL, squares, NULL, &x, 1).what, "not run");
    QUIET(!cj_gradcheck(c, squares, NULL, &x, 1).ok);
    assert_true((cj_gradcheck)(c, squares, NULL, &x, 1, NULL).ok);
    assert_string_equal(cj_gradcheck(c, gives_nothing, NULL, &x, 1).what, "the function failed");
    int calls = 100;
    assert_true(cj_gradcheck(c, fails_later, &calls, &x, 1, .second_order = true).ok);
    const int needed = 100 - calls;
    for (int i = 0; i < needed; i++) { /* whenever it fails the answer is no */
        calls = i;
        cj_gradcheck_result r = cj_gradcheck(c, fails_later, &calls, &x, 1, .second_order = true);
        assert_true(!r.ok && strstr(r.what, "the function says no"));
        assert_refused(CJ_EVALUE, "the function says no", 0);
    }
    static double slope[] = { 0, 0.75, 1.5, -1.5 }; /* at a corner any slope between the two is fine, and no other */
    for (int i = 0; i < COUNT(slope); i++) assert_int_equal(cj_gradcheck(c, kink_with, &slope[i], &zero, 1).kinks > 0, i < 2);
}

STEP(square_step, out[0] = cj_square(in[0]));
CASE(no_scope_is_left)
{
    const char *says = "scope: more than 63 scopes are open";
    cj_tensor *x = cj_require_grad(F(3, 2)), *y = cj_sum(cj_square(x)), *g, *d = F64(c, CJ_SHAPE(1), 1);
    cj_scope open[CJ_MAX_SCOPES];
    int n = 0;
    while (c->depth < CJ_MAX_SCOPES) open[n++] = cj_scope_open(c);
    NO(CJ_ESTATE, says, cj_grad(y, &x, 1, &g, .retain = true));
    NO(CJ_ESTATE, says, cj_backward(y, .retain = true));
    assert_poisoned(CJ_ESTATE, says, cj_checkpoint(c, squares, NULL, &x, 1));
    assert_poisoned(CJ_ESTATE, says, cj_jvp(c, squares, NULL, &x, &x, 1).value);
    NONE(CJ_ESTATE, says, cj_capture(c, square_step, NULL, &x, 1, NULL));
    NO(CJ_ESTATE, says, cj_gradcheck(c, squares, NULL, &d, 1).ok);
    while (n) cj_scope_close(open[--n]);
    assert_true(!cj_leaf_grad(x) && cj_grad(y, &x, 1, &g));
    assert_all(g, 6);
}

/* ---- plans ---- */
static int second;        /* the step does something else */
static cj_tensor *store;  /* persistent, [4, 4] */
static const char *noted; /* what is said about it */
static void varying(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    cj_tensor *x = in[0], *y = in[1], *v = store;
    double payload[2] = { 1, 1 };
    cj_custom_op op = product;
    op.payload = payload, op.payload_size = sizeof(double);
    custom.dtype = CJ_F32, noted = "call 1, custom (";
    switch (*(int *)user) {
    case 0: noted = "add (test_edges_grad.c:", out[0] = second ? cj_add(y, x) : cj_add(x, y); return;
    case 1: noted = "argument 1 in the second run: [2, 4] and [2, 4]", out[0] = cj_sum(cj_slice(v, 0, second, second + 2, 1)); return;
    case 2: noted = "[2, 4] and [3, 4]", out[0] = cj_sum(cj_slice(v, 0, 0, second + 2, 1)); return;
    case 3: noted = "[4, 4] and [16]", out[0] = cj_neg(second ? cj_reshape(v, CJ_SHAPE(16)) : v); return;
    case 4: noted = "argument 1 in the second run: [4, 4] and [4, 4]", out[0] = cj_neg(second ? cj_t(v) : v); return;
    case 5: noted = "call 1 was cat", out[0] = cj_sum(cj_cat(CJ_TENSORS(x, y, x), second ? 3 : 2, 0)); return;
    case 6: noted = "made 1 calls in the first run and 2 in the second", out[0] = cj_neg(x), second ? cj_exp(x) : x; return;
    case 7: noted = "result 1 is another value in the second run", out[0] = cj_neg(x), out[1] = cj_neg(y), out[0] = out[second]; return;
    case 8: noted = "was neg (?:0)", (cj_here)(NULL, 0), out[0] = second ? (cj_exp)(x) : (cj_neg)(x); return;
    case 9: noted = "was neg (plain.c:7)", (cj_here)("plain.c", 7), out[0] = second ? (cj_exp)(x) : (cj_neg)(x); return;
    case 10: noted = "saw another result 1 in the second run", custom.dtype = second ? CJ_F64 : CJ_F32; break;
    case 11: op.run = second ? custom_rerun : custom_run; break;
    case 12: op.vjp = second ? NULL : custom_vjp; break;
    case 13: op.payload_size = second ? sizeof payload : sizeof(double); break;
    default: payload[0] = second; break;
    }
    out[0] = cj_custom(q, &op, in);
}
CASE(changes_between_two_runs)
{
    store = cj_keep(cj_randn(c, CJ_SHAPE(4, 4)));
    cj_tensor *in[2] = { F(3, 2), F(5, 2) };
    for (int i = 0; i < 15; i++) {
        cj_tensor *out[2] = { 0 };
        second = 0;
        cj_plan *p = cj_capture(c, varying, &i, in, 2, out);
        assert_non_null(p);
        const double first = value_at(out[0], 0);
        second = 1;
        NO(CJ_ECAPTURE, noted, cj_replay(p, in, out));
        assert_true(cj_is_poison(out[0]) && !cj_plan_statistics(p).compiled);
        second = 0;
        assert_true(cj_replay(p, in, out) && cj_replay(p, in, out)); /* as at first: fine again */
        assert_near(value_at(out[0], 0), first, 0);
    }
}

static bool prints(const cj_plan *p, const char *what)
{
    char text[4096] = "";
    FILE *f = fmemopen(text, sizeof text - 1, "w");
    const bool ok = cj_plan_print(p, f);
    fclose(f);
    return ok && strstr(text, what);
}

/* Where somebody watches, the operators run one by one: a profile, values, modules. */
CASE(watched_captures)
{
    cj_tensor *x = F(3, 2), *out[1];
    for (int i = 0; i < 3; i++) {
        cj_profile_row row;
        if (i == 0) assert_true(cj_profile_start(c));
        if (i == 1) assert_false(cj_watch_nonfinite(c, true));
        if (i == 2) c->observer = &x;
        cj_plan *p = cj_capture(c, square_step, NULL, &x, 1, i == 1 ? NULL : out);
        cj_plan_stats s = cj_plan_statistics(p);
        assert_true(!s.compiled && s.kernels == 0 && s.operators == 1 && s.plans == 0 && !cj_plan_print(p, stdout));
        if (i != 1) assert_all(out[0], 9);
        assert_true(cj_replay(p, &x, out));
        assert_true((s = cj_plan_statistics(p)).compiled && s.kernels == 1 && s.plans == 1);
        if (i == 0) assert_true(cj_profile_stop(c, &row, 1) == 1 && row.calls == 2);
        if (i == 1) assert_true(cj_watch_nonfinite(c, false));
        c->observer = NULL;
        assert_true(cj_replay(p, &x, out));
        assert_all(out[0], 9);
    }
}

STEP(tanh_of_product, out[0] = cj_tanh(cj_matmul(in[0], user)));
STEP(hands_out_poison, out[0] = q->poison);
STEP(nameless, (cj_here)(NULL, 0), out[0] = (cj_neg)(in[0]));
CASE(arguments_of_plans)
{
    cj_tensor *w = cj_keep(cj_randn(c, CJ_SHAPE(3, 2))), *x = cj_randn(c, CJ_SHAPE(4, 3)), *odd = F(1, 4, 4), *out[1], *eager[1];
    assert_null(cj_capture(NULL, tanh_of_product, w, &x, 1, out));
    NONE(CJ_EVALUE, "capture: -1 inputs", cj_capture(c, tanh_of_product, w, &x, -1, out));
    NONE(CJ_EVALUE, "capture: the step is NULL", cj_capture(c, NULL, w, &x, 1, out));
    NONE(CJ_EVALUE, "capture: the inputs are NULL", cj_capture(c, tanh_of_product, w, NULL, 1, out));
    NONE(CJ_ESTALE, "argument 1 is the result", cj_capture(c, hands_out_poison, NULL, &x, 1, out));
    assert_false(cj_replay(NULL, &x, out) || cj_plan_print(NULL, stdout) || cj_plan_statistics(NULL).compiled);
    cj_plan_free(NULL);
    assert_true(prints(compiled(c, nameless, NULL, &x, 1, out), "NEG\n"));
    cj_plan *p = compiled(c, tanh_of_product, w, &x, 1, out);
    tanh_of_product(c, w, &x, eager);
    assert_true(same_bits(out[0], eager[0]) && prints(p, "then TANH  (test_edges_grad.c:"));
    QUIET(!cj_capture(c, tanh_of_product, w, &x, 1, NULL) && !cj_replay(p, &x, out) && cj_is_poison(out[0]));
    NO(CJ_EVALUE, "replay: the inputs are NULL", cj_replay(p, NULL, out));
    NO(CJ_ESHAPE, "matmul: inner sizes differ", cj_replay(p, &odd, out));
    cj_plan_stats s = cj_plan_statistics(p); /* of the shape that failed */
    assert_true(!s.compiled && s.operators == 0 && s.plans == 1 && !cj_plan_print(p, stdout));
    for (int turn = 0; turn < 6; turn++) { /* with and without a tape in turn: two plans */
        bool was = cj_grad_mode(c, turn % 2);
        assert_true(cj_replay(p, &x, out));
        cj_grad_mode(c, was);
        assert_true(same_bits(out[0], eager[0]));
    }
    assert_int_equal(cj_plan_statistics(p).plans, 2);
}

static void chains_that_meet(cj_tensor *const *in, cj_tensor **out, int length)
{
    cj_tensor *v[2] = { in[0], in[1] };
    for (int i = 0; i < 2 * length; i++) v[i % 2] = i % 4 < 2 ? cj_add_scalar(v[i % 2], 0.25 * i) : cj_neg(v[i % 2]);
    out[0] = cj_mul(v[0], v[1]);
}
STEP(many_values, chains_that_meet(in, out, 50)); /* too many for one program */
STEP(many_instructions, chains_that_meet(in, out, 32));
STEP(product_in_f64, out[0] = cj_tanh(cj_add(cj_matmul(in[0], in[1]), AS(F64, in[0]))));
STEP(logic_on_numbers, out[0] = cj_logical_and(cj_gt(AS(F64, in[0]), AS(F64, in[1])), in[1]));
STEP(written_copy, out[0] = cj_clone(in[0]), cj_assign_(out[0], in[1]));
STEP(plus_one, out[0] = cj_cumsum(cj_add(cj_cumsum(in[0], 0), cj_ones_like(in[0])), 0));
STEP(times_one, out[1] = cj_mul_scalar(cj_cumsum(in[1], 0), 1), cj_add_(out[1], in[0], 2), out[0] = cj_cumsum(out[1], 1), out[1] = out[0]);
STEP(types, out[0] = cj_add(AS(BF16, in[0]), AS(BF16, in[1])), out[1] = cj_exp(cj_sub(AS(F64, in[0]), AS(F64, in[1]))));
STEP(integers, out[0] = cj_add(cj_mul(AS(I64, in[0]), AS(I64, in[1])), cj_full(q, 3, CJ_SCALAR, CJ_I64)),
     out[1] = cj_add(AS(U8, in[0]), AS(U8, in[1])));
STEP(nothing_at_all, out[0] = cj_exp(cj_slice(in[0], 0, 0, 0, 1)), out[1] = cj_matmul(out[0], in[1]));
STEP(one_element, out[0] = cj_exp(cj_slice(cj_slice(in[0], 0, 0, 1, 1), 1, 0, 1, 1)));
STEP(turned_weight, out[0] = cj_linear_op(in[0], cj_t(in[1]), NULL));
STEP(row_and_column, out[0] = cj_mul(cj_slice(in[0], 0, 0, 1, 1), cj_slice(in[1], 1, 0, 1, 1)));
CASE(programs_equal_eager)
{
    static const cj_step_fn one[] = { many_values, many_instructions, product_in_f64, logic_on_numbers, written_copy,
                                      plus_one,    times_one,         types,          integers,         nothing_at_all,
                                      one_element, turned_weight,     row_and_column };
    for (int i = 0; i < COUNT(one); i++) {
        const int64_t n = one[i] == turned_weight ? 200 : 6;
        cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(n, n)), cj_randn(c, CJ_SHAPE(n, n)) }, *out[2] = { 0 }, *eager[2] = { 0 };
        cj_plan *p = compiled(c, one[i], NULL, in, 2, out);
        for (int turn = 0; turn < 2; turn++) {
            if (turn) cj_profile_start(c); /* a replay that is watched does the same */
            for (int k = 0; k < 2; k++) in[k] = cj_randn(c, CJ_SHAPE(n, n));
            assert_true(cj_replay(p, in, out));
            one[i](c, NULL, in, eager);
            for (int k = 0; k < 2 && eager[k]; k++)
                if (!same_bits(out[k], eager[k])) fail_msg("program %d, result %d", i, k);
        }
        assert_true(cj_profile_stop(c, NULL, 0) > 0);
        assert_in_range(cj_plan_statistics(p).kernels, 1, cj_plan_statistics(p).operators);
    }
}

/* ---- functions that are missing, return nothing, or reach outside -------------------------------------------------------------------------------------- */

static cj_tensor *gives_null(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)user, (void)in, (void)n, NULL; }
static cj_tensor *gives_user(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)in, (void)n, user; }
static cj_tensor *times_what_user_has(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)n, cj_mul(in[0], user); }
static cj_tensor *sum_of_squares(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    return (void)q, (void)user, (void)n, cj_sum(cj_square(in[0]));
}
static cj_tensor *squared(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)user, (void)n, cj_square(in[0]); }

static void functions_that_give_nothing(void **state)
{
    (void)state;
    cj_tensor *x = cj_require_grad(cj_ones(c, CJ_SHAPE(3), CJ_F64)), *t = cj_ones(c, CJ_SHAPE(3), CJ_F64), *out[1];
    for (int k = 0; k < 2; k++) {
        cj_fn fn = k ? gives_null : NULL;
        char says[6][64];
        static const char *const op[] = { "vjp", "jvp", "hvp", "jacobian", "hessian", "per_example_grad" };
        for (int i = 0; i < 6; i++)
            snprintf(says[i], sizeof says[i], "%s: the function %s", i == 4 && k ? "hvp" : op[i], k ? "returned NULL" : "is NULL");
        assert_poisoned(CJ_EVALUE, says[0], cj_vjp(c, fn, NULL, &x, 1, NULL, out));
        assert_poisoned(CJ_EVALUE, says[1], cj_jvp(c, fn, NULL, &x, &t, 1).value);
        assert_poisoned(CJ_EVALUE, says[2], cj_hvp(c, fn, NULL, &x, &t, 1, out));
        assert_poisoned(CJ_EVALUE, says[3], cj_jacobian(c, fn, NULL, x));
        assert_poisoned(CJ_EVALUE, says[4], cj_hessian(c, fn, NULL, x));
        assert_refused(CJ_EVALUE, says[5], assert_false(cj_per_example_grad(c, fn, NULL, &x, 1, &t, 1, out)));
    }
    assert_poisoned(CJ_EVALUE, "vjp: the room for results is NULL", cj_vjp(c, sum_of_squares, NULL, &x, 1, NULL, NULL));
    assert_poisoned(CJ_EVALUE, "hvp: the room for results is NULL", cj_hvp(c, sum_of_squares, NULL, &x, &t, 1, NULL));
    assert_refused(CJ_EVALUE, "gradcheck: the function or its inputs are NULL", assert_false(cj_gradcheck(c, NULL, NULL, &x, 1).ok));
    assert_refused(CJ_EVALUE, "gradcheck: the function or its inputs are NULL",
                   assert_false(cj_gradcheck(c, sum_of_squares, NULL, NULL, 1).ok));
    cj_tensor *null = NULL;
    assert_refused(CJ_EVALUE, "grad: argument 2 is NULL", assert_false(cj_grad(cj_sum(t), &null, 1, out, .allow_unused = true)));
    cj_tensor *empty = cj_require_grad(cj_ones(c, CJ_SHAPE(0), CJ_F64)),
              *deep = cj_require_grad(cj_ones(c, CJ_SHAPE(3, 1, 1, 1, 1), CJ_F64));
    assert_poisoned(CJ_ESHAPE, "jacobian: the input is empty", cj_jacobian(c, squared, NULL, empty));
    assert_poisoned(CJ_ESHAPE, "hessian: the input is empty", cj_hessian(c, sum_of_squares, NULL, empty));
    assert_poisoned(CJ_ESHAPE, "jacobian: [3, 1, 1, 1, 1] by [3, 1, 1, 1, 1] has more than 8 dimensions",
                    cj_jacobian(c, squared, NULL, deep));
    assert_poisoned(CJ_ESHAPE, "hessian: [3, 1, 1, 1, 1] by", cj_hessian(c, sum_of_squares, NULL, deep));
}

/* What a checkpointed function reads or returns beside its arguments gets its gradient, also where it is one of them. */
static void checkpoints_reach_outside(void **state)
{
    (void)state;
    cj_tensor *w = cj_require_grad(cj_full(c, 3, CJ_SHAPE(1), CJ_F64)), *g;
    cj_tensor *h = cj_square(w);
    assert_true(cj_grad(cj_add(cj_checkpoint(c, gives_user, h, &w, 1), w), &w, 1, &g));
    assert_near(cj_item(g), 7, 0); /* 2w + 1 */
    assert_true(cj_grad(cj_mul_scalar(cj_checkpoint(c, gives_user, w, NULL, 0), 5), &w, 1, &g));
    assert_near(cj_item(g), 5, 0);
    assert_true(cj_grad(cj_checkpoint(c, times_what_user_has, w, &w, 1), &w, 1, &g));
    assert_near(cj_item(g), 6, 0); /* of w * w */
    cj_tensor *twice;
    assert_true(cj_grad(cj_mul(cj_checkpoint(c, times_what_user_has, w, &w, 1), w), &w, 1, &g, .create_graph = true));
    assert_true(cj_grad(g, &w, 1, &twice));
    assert_near(cj_item(g), 27, 0); /* 3w² */
    assert_near(cj_item(twice), 18, 0);
}

/* Powers 0 and 1, at 0 too, where x^(s-1) is not finite. */
static void flat_powers(UNUSED void **state)
{
    static const float at[] = { 0, 2, -3 };
    for (int s = 0; s < 2; s++) {
        cj_tensor *x = cj_require_grad(cj_from_f32(c, at, CJ_SHAPE(3))), *g;
        assert_true(cj_grad(cj_sum(cj_pow_scalar(x, s)), &x, 1, &g));
        for (int i = 0; i < 3; i++) assert_near(value_at(g, i), s, 0);
    }
}

/* What a derivative does not read may be overwritten before it is taken. */
static void unread_inputs(UNUSED void **state)
{
    enum { SUM, MEAN, MEAN_OF_ROWS, SHIFTED, SCALED, TURNED, CASES };
    static const double slope[CASES] = { 1, 1.0 / 6, 1.0 / 3, 1, 3, 1 };
    for (int k = 0; k < CASES; k++) {
        cj_tensor *leaf = cj_require_grad(F(2, 2, 3)), *x = cj_mul_scalar(leaf, 1), *g;
        cj_tensor *y = k == SUM            ? cj_sum(x)
                       : k == MEAN         ? cj_mean(x)
                       : k == MEAN_OF_ROWS ? cj_sum(cj_mean(x, .axes = CJ_AXES(1)))
                       : k == SHIFTED      ? cj_sum(cj_add_scalar(x, 1))
                       : k == SCALED       ? cj_sum(cj_mul_scalar(x, 3))
                                           : cj_sum(cj_t(x));
        cj_assign_(cj_detach(x), F(7, 2, 3));
        assert_true(cj_grad(y, &leaf, 1, &g));
        assert_all(cj_mul_scalar(g, 1 / slope[k]), 1);
    }
}

/* The table that `cajal ops` begins with: composites have the derivative of their definition, with kernels and without. */
static void what_is_differentiable(UNUSED void **state)
{
    static const struct {
        const char *name;
        bool differentiable;
    } known[] = { { "add", true }, { "softmax", true }, { "hardtanh", true }, { "mish", true },
                  { "glu", true }, { "argmax", false }, { "eq", false } };
    int found = 0;
    for (int i = 0; i < cj_op_count(); i++)
        for (int k = 0; k < COUNT(known); k++)
            if (strcmp(cj_op_at(i).name, known[k].name) == 0)
                found++, assert_int_equal(cj_op_at(i).differentiable, known[k].differentiable);
    assert_int_equal(found, COUNT(known));
}

/* x^y to little more than one unit in the last place, over the whole range of results. */
static void accurate_powers(UNUSED void **state)
{
    enum { N = 100000 };
    float *x = test_calloc(N, 3 * sizeof *x), *y = x + N, *p = y + N;
    double worst = 0;
    cj_to_f32(cj_uniform(c, 0.25, 4, CJ_SHAPE(N)), x, N);
    cj_to_f32(cj_uniform(c, -85, 85, CJ_SHAPE(N)), y, N);
    for (int i = 0; i < N; i++) y[i] /= fmaxf(fabsf(logf(x[i])), 1e-5F);
    cj_to_f32(cj_pow(cj_from_f32(c, x, CJ_SHAPE(N)), cj_from_f32(c, y, CJ_SHAPE(N))), p, N);
    for (int i = 0; i < N; i++) {
        const double right = pow((double)x[i], (double)y[i]);
        worst = fmax(worst, fabs(p[i] - right) / ldexp(1, ilogb(right) - 23));
    }
    test_free(x);
    assert_true(worst < 1.5);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = { T(arguments_of_transforms),
                                        T(tangents_and_levels),
                                        T(operators_without_a_part),
                                        T(arguments_of_grad),
                                        T(consumed_histories),
                                        T(ends_of_a_pass),
                                        T(checkpoints),
                                        T(checks_that_fail),
                                        T(no_scope_is_left),
                                        T(changes_between_two_runs),
                                        T(watched_captures),
                                        T(arguments_of_plans),
                                        T(programs_equal_eager),
                                        T(functions_that_give_nothing),
                                        T(checkpoints_reach_outside),
                                        T(flat_powers),
                                        T(unread_inputs),
                                        T(what_is_differentiable),
                                        T(accurate_powers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
