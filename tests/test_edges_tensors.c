/* The edges of tensors, views and contexts: arguments refused for one reason alone, poison that passes through, tensors without elements or
 * data, single elements of every type, words of errors; scopes, owners, the profiler, printing and packed weights at their limits. */
#include <unistd.h>

#include "core/host.h"
#include "ops/ops.h"
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 23);

#define CASE(name) static void name(UNUSED void **state)
#define F(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
enum { EXPS = 2500, KINDS = 256 }; /* for the profiler: calls, rows */

CASE(refused_arguments)
{
    cj_tensor *x = F(2, 3), *many[CJ_MAX_INPUTS + 1], *long_one = cj_expand(F(1), CJ_SHAPE((int64_t)1 << 56));
    assert_poisoned(CJ_ESHAPE, "expand: [2, 3] does not expand to [3]", cj_expand(x, CJ_SHAPE(3)));
    assert_poisoned(CJ_ESHAPE, "expand: [3] does not expand to [-1, 3]", cj_expand(F(3), CJ_SHAPE(-1, 3)));
    assert_poisoned(CJ_ESHAPE, "expand: [2, 1] does not expand to [2, -2]", cj_expand(F(2, 1), CJ_SHAPE(2, -2)));
    assert_poisoned(CJ_EINDEX, "select: axis 2 is out of range for 2 dimensions", cj_select(x, 2, 0));
    assert_poisoned(CJ_EINDEX, "diagonal: axis -3 is out of range", cj_diagonal(x, 0, -3, 1));
    assert_poisoned(CJ_EVALUE, "unfold: windows of 0 every 1 do not fit axis 1 of [2, 3]", cj_unfold(x, 1, 0, 1));
    assert_poisoned(CJ_EVALUE, "unfold: windows of 2 every 0 do not fit axis 1 of [2, 3]", cj_unfold(x, 1, 2, 0));
    for (int i = 0; i <= CJ_MAX_INPUTS; i++) many[i] = x;
    assert_poisoned(CJ_EVALUE, "cat: 1025 tensors, at most 1024 are possible", cj_cat(many, CJ_MAX_INPUTS + 1, 0));
    assert_poisoned(CJ_EVALUE, "stack: 1025 tensors, at most 1024 are possible", cj_stack(many, CJ_MAX_INPUTS + 1, 0));
    for (int i = 0; i < 128; i++) many[i] = long_one;
    assert_poisoned(CJ_ESHAPE, "cat: the size of axis 0 overflows", cj_cat(many, 128, 0));
    assert_poisoned(CJ_ESHAPE, "cat: [3, 9, 4] does not fit [2, 3, 4] along axis 0", cj_cat(CJ_TENSORS(F(2, 3, 4), F(3, 9, 4)), 2, 0));
    assert_poisoned(CJ_ESHAPE, "cat: [6] does not fit [2, 3] along axis 0", cj_cat(CJ_TENSORS(x, F(6)), 2, 0));
    assert_poisoned(CJ_ESHAPE, "stack: argument 2 is [2, 3, 1], [2, 3] expected", cj_stack(CJ_TENSORS(x, F(2, 3, 1)), 2, 0));
    assert_poisoned(CJ_EINDEX, "stack: axis -4 is out of range for 3 dimensions", cj_stack(CJ_TENSORS(x, x), 2, -4));
    assert_poisoned(CJ_EVALUE, "arange: start inf, stop 1, step 1", cj_arange(c, INFINITY, 1, 1, CJ_F32));
    assert_poisoned(CJ_EVALUE, "arange: start 0, stop 1, step nan", cj_arange(c, 0, 1, NAN, CJ_F32));
    assert_poisoned(CJ_EVALUE, "arange: from 0 to 1e+30 in steps of 1 is not a range", cj_arange(c, 0, 1e30, 1, CJ_F32));
    assert_poisoned(CJ_EVALUE, "bernoulli: probability 1.5 is outside [0, 1]", cj_bernoulli(c, 1.5, CJ_SHAPE(2)));
    assert_poisoned(CJ_EVALUE, "dropout: probability -0.5 is outside [0, 1]", cj_dropout(x, .p = -0.5));
    assert_poisoned(CJ_ESHAPE, "all_gather: [1, 1, 1, 1, 1, 1, 1, 2] would get a dimension more than the 8 there are",
                    cj_all_gather(F(1, 1, 1, 1, 1, 1, 1, 2), NULL));
    assert_poisoned(CJ_EINDEX, "broadcast: root -1, there are 1 processes", cj_broadcast(x, NULL, -1));
    assert_poisoned(CJ_EINDEX, "broadcast: root 1, there are 1 processes", cj_broadcast(x, NULL, 1));
    assert_refused(CJ_EINDEX, "cj_at: index -4 is out of range for axis 1 of [2, 3]", assert_true(isnan(cj_at(x, (int64_t[]){ 0, -4 }))));
    assert_refused(CJ_EDTYPE, "test: unknown dtype 0", assert_false(cj__dtype_ok(c, "test", CJ_DEFAULT_DTYPE)));
    assert_refused(CJ_ESHAPE, "tensor: negative size in [-1]", cj__tensor_persistent(c, CJ_F32, 1, (int64_t[]){ -1 }, false));
}

/* Operators whose callers bring the input into order refuse it where they are called without them. */
CASE(refused_layouts)
{
    const void *self[2] = { cj_comm_self(), NULL }; /* comm and root */
    cj_tensor *x = cj_t(F(2, 3));
    const cj_reduce_attrs both = { .count = 2, .code = CJ_RED_SUM, .scale = 1 };
    const cj_shape six = CJ_SHAPE(6); /* the attributes of reshape */
    assert_poisoned(CJ_ESTATE, "reshape: input layout", cj__apply(cj__op_by_name("reshape"), &six, &x, 1));
    assert_poisoned(CJ_ESTATE, "sum: input layout", cj__apply(cj__op_by_name("sum"), &both, &x, 1));
    assert_poisoned(CJ_ESTATE, "all_gather: the value is not contiguous", cj__apply(cj__op_by_name("all_gather"), self, &x, 1));
}

/* the name in messages, the call on x */
/* clang-format off */
#define CALLS(X) \
    X(contiguous, cj__image(x)) X(channels_last, cj_channels_last(x)) X(cast, cj_cast(x, CJ_F64)) \
    X(flatten, cj_flatten(x, 0)) X(reshape, cj_reshape(x, CJ_SHAPE(6))) X(permute, cj_permute(x, CJ_AXES(1, 0))) \
    X(transpose, cj_t(x)) X(squeeze, cj_squeeze(x, 0)) X(expand, cj_expand(x, CJ_SHAPE(4, 2, 3))) \
    X(unsqueeze, cj_unsqueeze(x, 0)) X(slice, cj_slice(x, 0, 0, 1, 1)) X(select, cj_select(x, 0, 0)) \
    X(diagonal, cj_diagonal(x, 0, 0, 1)) X(unfold, cj_unfold(x, 0, 1, 1)) X(cat, cj_cat(&x, 1, 0)) \
    X(stack, cj_stack(&x, 1, 0)) X(to, cj_to(x, NULL)) X(tril, cj_tril(x, 0)) X(triu, cj_triu(x, 0)) X(sum, cj_sum(x)) \
    X(argmax, cj_argmax(x)) X(argmin, cj_argmin(x, .axes = CJ_AXIS(0))) X(nonzero, cj_nonzero(x)) X(all_gather, cj_all_gather(x, NULL)) \
    X(softmax_pool, cj_softmax_pool(x, 1, .kernels = CJ_SHAPE(2))) X(full, cj_ones_like(x)) X(dropout, cj_dropout(x)) \
    X(all_sum, cj_all_sum(x, NULL)) X(cj_keep, cj_keep(x))
/* clang-format on */
#define CALL_FUNCTION(name, ...)                                                                                                           \
    static cj_tensor *call_##name(cj_tensor *x) { return __VA_ARGS__; }
CALLS(CALL_FUNCTION)
#define CALL_ROW(name, ...) { #name, call_##name },
static const struct {
    const char *name;
    cj_tensor *(*call)(cj_tensor *x);
} calls[] = { CALLS(CALL_ROW) };

CASE(poison_passes)
{
    cj_tensor *x = F(2, 3), *empty = cj__header(c); /* a header without storage */
    char words[160];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_null(calls[i].call(NULL));
        assert_ok(c);
        cj_fail(c, CJ_EFILE, "the first error");
        assert_ptr_equal(calls[i].call(x), c->poison);
        assert_poisoned(CJ_EFILE, "the first error", calls[i].call(c->poison));
        snprintf(words, sizeof words, "%s: argument 1 is the result of an earlier error that was cleared", calls[i].name);
        assert_poisoned(CJ_ESTALE, words, calls[i].call(c->poison));
        snprintf(words, sizeof words, "%s: argument 1 has no data any more", calls[i].name);
        assert_poisoned(CJ_ESTALE, words, calls[i].call(empty));
    }
    assert_true(!cj_on_device(empty) && !cj_data(empty) && !cj__const(NULL, 1));
    assert_true(cj__zeros_for(x, empty) == c->poison && cj__zeros_for(x, c->poison) == c->poison);
    assert_near(cj_item(cj_sum(cj__zeros_for(x, x))), 0, 0);
}

/* A tensor that is closed says where, with or without folders in the name. */
CASE(closed_tensors)
{
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .debug = true });
    for (int i = 0; i < 2; i++) {
        cj_scope s = cj_scope_open(d);
        cj_tensor *x = cj_ones(d, CJ_SHAPE(2), CJ_F32);
        cj_here(i ? "a/folder/plain.c" : "plain.c", 3);
        (cj_scope_close)(s);
        assert_true(cj_is_poison((cj_exp)(x)));
        assert_string_equal(cj_message(d), "exp: argument 1 is used after its scope was closed at plain.c:3 (plain.c:3)");
        cj_clear(d);
        assert_int_equal(cj_ndim(x) + cj_numel(x) + cj_size(x, 0) + cj_stride(x, 0), 0);
    }
    cj_ctx_free(d);
}

CASE(sizes_and_options)
{
    cj_tensor *x = F64(c, CJ_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    for (int axis = -3; axis <= 2; axis++) {
        const int d = axis < 0 ? axis + 2 : axis;
        assert_int_equal(cj_size(x, axis), d == 0 ? 2 : d == 1 ? 3 : 0);
        assert_int_equal(cj_stride(x, axis), d == 0 ? 3 : d == 1 ? 1 : 0);
    }
    assert_near(cj_at(cj_t(x), (int64_t[]){ -1, 0 }), 3, 0);
    assert_near(cj_at(cj_scalar(c, 7), NULL), 7, 0);
    assert_true(cj_to(x, NULL) == x && cj_to(x, "cpu") == x && cj_expand(x, CJ_SHAPE(-1, -1)) == x && !cj__channels_last(x));
    assert_near(distance(cj_expand(x, CJ_SHAPE(2, -1, 3)), cj_stack(CJ_TENSORS(x, x), 2, -3)), 0, 0);
    assert_near(cj_item((cj_argmax)(x, NULL)), 5, 0);
    assert_near(cj_item((cj_var)(x, NULL)), 3.5, 1e-12);
    cj_tensor *v = cj_var(cj_zeros(c, CJ_SHAPE(0, 3), CJ_F64), .axes = CJ_AXIS(1)), *r = cj_arange(c, 2, -4, -2, CJ_DEFAULT_DTYPE);
    assert_true(cj_ndim(v) == 1 && cj_numel(v) == 0 && cj_dtype_of(v) == CJ_F64);
    assert_true(cj_dtype_of(r) == CJ_I64 && cj_numel(r) == 3 && value_at(r, 0) == 2 && value_at(r, 2) == -2);
    cj_tensor *d = (cj_dropout)(F(4000), NULL), *kept = cj_ne_scalar(d, 0); /* without options half are kept, and doubled */
    assert_near(distance(d, cj_mul_scalar(kept, 2)), 0, 0);
    assert_near(cj_item(cj_sum(kept)), 2000, 150);
    assert_true(cj_dropout(x, .eval = true) == x && cj_dropout(x, .p = CJ_ZERO) == x);
    for (int t = -1; t <= CJ_DTYPES; t += CJ_DTYPES + 1) {
        assert_string_equal(cj_dtype_name((cj_dtype)t), "unknown");
        assert_true(cj_dtype_size((cj_dtype)t) == 0 && !cj_dtype_is_float((cj_dtype)t));
    }
}

/* A slice begins at the first element if it should begin before it, in both directions, and ends likewise. */
CASE(slices_beyond_the_ends)
{
    cj_tensor *x = F64(c, CJ_SHAPE(4), 1, 2, 3, 4);
    assert_true(same_bits(cj_slice(x, 0, -9, 3, 1), F64(c, CJ_SHAPE(3), 1, 2, 3)));
    assert_true(same_bits(cj_slice(x, 0, -9, 9, 2), F64(c, CJ_SHAPE(2), 1, 3)));
    assert_int_equal(cj_numel(cj_slice(x, 0, 0, -9, 1)), 0);
    assert_int_equal(cj_numel(cj_slice(x, 0, 9, 12, 1)), 0);
    assert_true(same_bits(cj_contiguous(cj_slice(x, 0, 9, 1, -1)), F64(c, CJ_SHAPE(2), 4, 3)));
    assert_int_equal(cj_numel(cj_slice(x, 0, -9, CJ_END, -1)), 0);
    assert_ok(c);
}

/* As many axes as there can be, all named. */
CASE(eight_named_axes)
{
    cj_tensor *x = cj_rand(c, CJ_SHAPE(2, 1, 2, 1, 2, 1, 2, 3)), *some = cj_sum(x, .axes = CJ_AXES(0, 1, 2, 3, 4, 5, 6, 7));
    assert_true(same_bits(some, cj_sum(x)));
    assert_ok(c);
}

/* Channels last: whatever the stride of an axis of one element is; and the gradient of a copy lies as what was copied. */
CASE(lies_channels_last)
{
    cj_tensor *x = cj_channels_last(cj_randn(c, CJ_SHAPE(4, 3, 5, 6))), *one = cj_slice(x, 0, 0, 1, 2), *gray = cj_slice(x, 1, 1, 2, 1);
    assert_true(cj__channels_last(x) && cj__channels_last(cj_slice(x, 0, 1, 3, 1)) && cj__channels_last(one));
    assert_false(cj__channels_last(cj_slice(x, 0, 0, 4, 2)) || cj__channels_last(gray) || cj__channels_last(cj_slice(x, 3, 0, 4, 1)));
    assert_false(cj__channels_last(cj_randn(c, CJ_SHAPE(4, 3, 5, 6))) || cj__channels_last(cj_randn(c, CJ_SHAPE(4, 3))));
    assert_true(cj__channels_last(cj_randn(c, CJ_SHAPE(4, 1, 5, 6))) &&
                cj__channels_last(cj_conv(one, cj_randn(c, CJ_SHAPE(2, 3, 3, 3)), NULL)));
    for (int last = 0; last < 2; last++) {
        cj_tensor *leaf = cj_require_grad(last ? x : cj_contiguous(x)), *g;
        assert_true(cj_grad(cj_clone(leaf), &leaf, 1, &g, .seed = cj_contiguous(x)));
        assert_true(cj__channels_last(leaf) == last && cj__channels_last(g) == last);
    }
    assert_ok(c);
}

/* One element, many elements and a cast convert alike: truncate, saturate, NaN to 0. */
CASE(single_elements)
{
    static const double v[] = { NAN, INFINITY, -INFINITY, 1e30, -1e30, 0x1p63, -0x1p63, 3e9, -3e9, 300, 255, 254.7, -1, -2.7, 0.3, 0 };
    enum { N = sizeof v / sizeof *v };
    for (int t = CJ_F32; t < CJ_DTYPES; t++)
        for (int i = 0; i < N; i++) {
            cj_tensor *cast = cj_cast(F64(c, CJ_SHAPE(3), v[i], v[i], v[i]), (cj_dtype)t);
            cj_tensor *fill = cj_full(c, v[i], CJ_SHAPE(3), (cj_dtype)t), *one = cj_full(c, v[i], CJ_SHAPE(1), (cj_dtype)t);
            if (!same_bits(cast, fill) || !same_bits(cj_slice(fill, 0, 2, 3, 1), one)) fail_msg("%g as %s", v[i], cj_dtype_name(t));
        }
    int64_t whole[N], stored;
    assert_true(cj_to_i64(cj_from_f64(c, v, CJ_SHAPE(N)), whole, N));
    for (int i = 0; i < N; i++) {
        assert_int_equal(whole[i], isnan(v[i]) ? 0 : v[i] >= 0x1p63 ? INT64_MAX : v[i] < -0x1p63 ? INT64_MIN : (int64_t)v[i]);
        cj__store(CJ_I64, &stored, v[i]);
        assert_int_equal(whole[i], stored);
    }
}

/* Windows that overlap are added, in every type: y[k] = Σ g[i, j] over i + j = k. */
CASE(overlapping_windows)
{
    const cj_strided_attrs windows = { .base_ndim = 1, .ndim = 2, .base = { 6 }, .shape = { 4, 3 }, .stride = { 1, 1 } };
    for (int t = CJ_F32; t < CJ_BOOL; t++) {
        cj_tensor *g = cj_cast(cj_reshape(cj_arange(c, 1, 13, 1, CJ_I64), CJ_SHAPE(4, 3)), (cj_dtype)t);
        cj_tensor *y = cj__as_strided_scatter(g, &windows);
        assert_true(cj_dtype_of(y) == (cj_dtype)t && cj_numel(y) == 6);
        for (int k = 0; k < 6; k++) {
            double sum = 0;
            for (int i = 0; i < 4; i++)
                if (k - i >= 0 && k - i < 3) sum += 3 * i + k - i + 1;
            assert_near(value_at(y, k), sum, 0);
        }
    }
}

/* The exchange fails without words, or with words of its own. */
static bool cut(const cj_comm *m) { return m->user && cj_fail(m->user, CJ_EFILE, "the line is cut") == NULL; }
static bool cut_reduce(const cj_comm *m, UNUSED void *v, UNUSED int64_t n, UNUSED cj_dtype t, UNUSED cj_comm_op o) { return cut(m); }
static bool cut_gather(const cj_comm *m, UNUSED const void *v, UNUSED void *all, UNUSED int64_t n, UNUSED cj_dtype t) { return cut(m); }
static bool cut_broadcast(const cj_comm *m, UNUSED void *v, UNUSED int64_t n, UNUSED cj_dtype t, UNUSED int root) { return cut(m); }

CASE(failing_exchange)
{
    cj_comm m = { .rank = 1, .size = 3, .all_reduce = cut_reduce, .all_gather = cut_gather, .broadcast = cut_broadcast };
    cj_tensor *x = F(2);
    for (int own = 0; own < 2; own++) {
        m.user = own ? c : NULL;
#define CUT(name, ...)                                                                                                                     \
    assert_poisoned(own ? CJ_EFILE : CJ_ECOMM, own ? "the line is cut" : name ": the exchange of [2] among 3 processes failed", __VA_ARGS__)
        CUT("all_sum", cj_all_sum(x, &m));
        CUT("all_max", cj_all_max(x, &m));
        CUT("all_gather", cj_all_gather(x, &m));
        CUT("broadcast", cj_broadcast(x, &m, 2));
    }
    for (int rank = 0; rank < 2; rank++) { /* gradients of a broadcast go to its root */
        cj_comm two = *cj_comm_self();
        two.rank = rank, two.size = 2;
        cj_tensor *leaf = cj_require_grad(F64(c, CJ_SHAPE(2), 3, 4)), *g;
        assert_true(cj_grad(cj_sum(cj_square(cj_broadcast(leaf, &two, 1))), &leaf, 1, &g));
        assert_true(value_at(g, 0) == 6 * rank && value_at(g, 1) == 8 * rank);
    }
}

CASE(words_of_errors)
{
    char text[CJ_MAX_MESSAGE];
    cj_here("plain.c", 7);
    (cj_fail)(c, CJ_OK, "odd");
    assert_string_equal(cj_message(c), "odd (plain.c:7)");
    cj__error_at(c, "encoder", NULL, 0);
    assert_string_equal(cj_message(c), "odd, in encoder");
    cj__error_at(c, NULL, "other.c", 9);
    assert_string_equal(cj_message(c), "odd, in encoder (other.c:9)");
    assert_int_equal(cj__error_take(c, text), CJ_EVALUE);
    assert_string_equal(text, "odd, in encoder");
    /* without a place, or with one that came later; the name of the called operator goes before what names none */
    static const char *const said[3][2] = { { "odd", "lossy: odd" }, { "(odd)", "lossy: (odd)" }, { "gather: odd", "lossy: odd" } };
    for (int i = 0; i < 12; i++) {
        const bool called = i / 3 % 2, later = i / 6;
        cj_here(NULL, 0);
        if (called) c->called = (cj_called){ .op = "lossy" };
        (cj_fail)(c, CJ_ESHAPE, "%s", said[i % 3][0]);
        c->called = (cj_called){ 0 };
        assert_string_equal(cj_message(c), said[i % 3][called]);
        if (later && !called) cj_here("plain.c", 7);
        assert_int_equal(cj__error_take(c, text), CJ_ESHAPE);
        assert_string_equal(text, said[i % 3][called]);
    }
}

CASE(context_choices)
{
    static const char *const name[2] = { "CAJAL_THREADS", "CJ_ISA" };
    for (int i = 0; i < 2; i++) unsetenv(name[i]);
    cj_ctx *plain = cj_ctx_new(&(cj_ctx_opts){ .device = "" });
    for (int i = 0; i < 2; i++) setenv(name[i], "", 1);
    for (int i = 0; i < 2; i++) { /* an empty word is none */
        cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .isa = i ? "" : NULL, .device = i ? "cpu" : NULL });
        assert_ok(d);
        assert_int_equal(cj_ctx_threads(d), cj_ctx_threads(plain));
        assert_string_equal(cj_ctx_isa(d), cj_ctx_isa(plain));
        assert_string_equal(cj_ctx_device(d), cj_ctx_device(plain));
        cj_ctx_free(d);
    }
    cj_ctx_free(plain);
    for (int i = 0; i < 2; i++) unsetenv(name[i]);
    /* what is still open goes with the context */
    counter k = { 0 };
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cj_scope_open(d).depth, i + 2);
        assert_near(cj_item(cj_sum(cj_exp(cj_require_grad(cj_zeros(d, CJ_SHAPE(5), CJ_F32))))), 5, 0);
    }
    cj_ctx_free(d);
    assert_balanced(&k);
}

CASE(scopes_and_owners)
{
    cj_tensor *x = F(2), *src = cj_full(c, 5, CJ_SHAPE(2), CJ_F32), *k = cj_keep(x);
    assert_refused(CJ_ESTATE, "cj_scope_close: scope 0", cj_scope_close((cj_scope){ c, 1 }));
    assert_poisoned(CJ_ESTATE, "cj_scope_close: scope 0", cj_scope_return((cj_scope){ c, 1 }, x));
    cj__frame_close(c, 0, NULL, 0); /* of a frame that could not be opened */
    assert_poisoned(CJ_EVALUE, "cj_scope_return: argument 1 is NULL", cj_scope_return(cj_scope_open(c), NULL));
    for (int i = 0; i < 2; i++) {
        cj_scope s = cj_scope_open(c);
        cj_fail(c, CJ_EFILE, "the first error");
        assert_poisoned(CJ_EFILE, "the first error", cj_scope_return(s, i ? NULL : x));
    }
    assert_true(cj_is_poison(cj_scope_return(cj_scope_open(c), c->poison)));
    assert_int_equal(c->depth, 1);
    cj_clear(c);
    /* persistent tensors are held and let go where temporaries move */
    cj__take(c, k);
    assert_int_equal(k->refs, 2);
    cj__give(c, k);
    assert_int_equal(k->refs, 1);
    /* a write of the base scope that is cancelled changes nothing */
    cj_cancel(c);
    assert_refused(CJ_ECANCELLED, "cancelled", assert_false(cj__defer(c, cj__op_by_name("assign_"), k, src)));
    assert_near(cj_item(cj_sum(k)), 2, 0);
    assert_true(cj__defer(c, cj__op_by_name("assign_"), k, src));
    assert_near(cj_item(cj_sum(k)), 10, 0);
    for (int i = 0; i < 2; i++) cj__make_persistent(src);
    assert_true(c->persistent == src && src->next == k && src->st->persistent);
    const uint64_t tensors = cj_memory_stats(c).tensors;
    cj_release(src), cj_release(k);
    assert_int_equal(cj_memory_stats(c).tensors, tensors - 2);
}

static const char *refused_call; /* NULL: the start of every kernel */
static bool refuse(cj_ctx *ctx, cj_call *call)
{
    if (call ? !refused_call || strcmp(call->op->name, refused_call) != 0 : refused_call != NULL) return true;
    return cj__error(ctx, CJ_ESTATE, "no room in the diary");
}

static cj_tensor *too_deep(cj_ctx *ctx, void *user, cj_tensor *const *in, UNUSED int n)
{
    cj_scope s[CJ_MAX_SCOPES];
    int k = 0;
    while (ctx->depth < CJ_MAX_SCOPES) s[k++] = cj_scope_open(ctx);
    cj_tensor *y = user ? cj_kron(in[0], in[0]) : cj_exp(in[0]);
    while (k > 0) cj_scope_close(s[--k]);
    return y;
}

CASE(watched_calls)
{
    cj_tensor *x = F(2), *y;
    c->recorder[CJ_REC_PROFILE].record = refuse;
    c->active |= 1u << CJ_REC_PROFILE;
    assert_poisoned(CJ_ESTATE, "no room in the diary", cj_exp(x));
    refused_call = "kron";
    y = cj_exp(x);
    assert_poisoned(CJ_ESTATE, "no room in the diary", cj_kron(x, x));
    c->active &= (uint8_t) ~(1u << CJ_REC_PROFILE);
    assert_near(cj_item(cj_sum(y)), 2 * exp(1), 1e-5);
    /* a composite, and a derivative on the way, need a scope of their own */
    assert_poisoned(CJ_ESTATE, "scope: more than 63 scopes are open", too_deep(c, x, &x, 1));
    assert_poisoned(CJ_ESTATE, "scope: more than 63 scopes are open", cj_jvp(c, too_deep, NULL, &x, &x, 1).value);
    assert_int_equal(c->depth, 1);
}

static cj_profile_row row_of(const cj_profile_row *rows, int n, const char *op)
{
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].op, op) == 0) return rows[i];
    return (cj_profile_row){ 0 };
}

CASE(profiler_rows)
{
    static cj_op kinds[KINDS + 40];
    static char names[KINDS + 40][16];
    cj_profile_row rows[KINDS];
    cj_tensor *x = F(2, 3);
    assert_int_equal(cj_profile_stop(c, rows, KINDS), 0); /* nothing was recorded yet */
    assert_false(cj_profile_trace(c, "/dev/null"));
    assert_ok(c);
    cj_fail(c, CJ_EVALUE, "the first error");
    assert_refused(CJ_EVALUE, "the first error", assert_false(cj_profile_start(c)));
    assert_true(cj_profile_start(c));
    cj_exp(x), cj_gelu(cj_t(x)), cj_kron(x, x), cj_cast(x, CJ_F64);
    const int n = cj_profile_stop(c, rows, KINDS);
    assert_true(n >= 4 && n == cj_profile_stop(c, NULL, KINDS) && n == cj_profile_stop(c, rows + n, 1) && rows[n].op == rows[0].op);
    for (int i = 1; i < n; i++) assert_true(rows[i - 1].seconds >= rows[i].seconds);
    const cj_profile_row exps = row_of(rows, n, "exp"), casts = row_of(rows, n, "cast");
    assert_true(exps.calls == 1 && exps.bytes == 2 * 6 * 4 && casts.calls == 1 && casts.bytes == 6 * 4 + 6 * 8);
    assert_int_equal(row_of(rows, n, "gelu").calls, 1);                                    /* one kernel */
    assert_int_equal(row_of(rows, n, "kron").calls + row_of(rows, n, "permute").calls, 0); /* its parts are there; a view runs nothing */
    /* more kinds of operators than rows */
    const cj_full_attrs nothing = { .ndim = 1, .dtype = CJ_F32 };
    assert_true(cj_profile_start(c));
    for (int i = 0; i < KINDS + 40; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i);
        kinds[i] = *cj__op_by_name("full");
        kinds[i].name = names[i];
        assert_true(cj__apply_n(c, &kinds[i], &nothing, NULL, 0, &x));
    }
    assert_int_equal(cj_profile_stop(c, rows, KINDS), KINDS);
    for (int i = 0; i < KINDS; i++) assert_int_equal(rows[i].calls, 1);
}

CASE(profiler_trace)
{
    cj_tensor *x = F(2, 3);
    cj_profile_row row;
    for (int n = 3; n <= EXPS; n += EXPS - 3) { /* on a full disk */
        assert_true(cj_profile_start(c));
        for (int i = 0; i < n; i++) cj_exp(x);
        assert_int_equal(cj_profile_stop(c, &row, 1), 1);
        assert_int_equal(row.calls, n);
        assert_refused(CJ_EFILE, "/dev/full: could not be written to the end", assert_false(cj_profile_trace(c, "/dev/full")));
    }
    assert_refused(CJ_EVALUE, "profile: the path is NULL", assert_false(cj_profile_trace(c, NULL)));
    char path[] = "/tmp/cajal-edges-XXXXXX", line[256];
    int events = 0, file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0 && cj_profile_trace(c, path));
    FILE *f = fopen(path, "r");
    assert_true(f && fgets(line, sizeof line, f));
    assert_string_equal(line, "[\n");
    while (fgets(line, sizeof line, f) && line[0] == '{')
        events += strstr(line, "{\"name\":\"exp\",\"cat\":\"elementwise\",\"ph\":\"X\"") && strstr(line, "\"bytes\":48,");
    assert_int_equal(events, EXPS);
    assert_string_equal(line, "]\n");
    assert_true(fclose(f) == 0 && unlink(path) == 0);
}

static bool refuse_bytes(void *user, UNUSED const void *bytes, size_t n) { return *(size_t *)user += n, false; }
static void formats(UNUSED cj_ctx *ctx, void *user, cj_tensor *const *in, cj_tensor **out) { cj_format(out[0] = in[0], user, 16); }

CASE(printing)
{
    cj_tensor *x = F(2, 3);
    char text[16] = "untouched", number[8] = "1,";
    size_t seen = 0;
    assert_false(cj_print(x, NULL) || cj_print(NULL, stdout));
    assert_ok(c);
    FILE *f = fopen("/dev/null", "r");
    assert_refused(CJ_EFILE, "cj_print: the file cannot be written", assert_true(f && !cj_print(x, f)));
    fclose(f);
    assert_refused(CJ_ECAPTURE, "cj_format: reads a value inside a captured step", assert_null(cj_capture(c, formats, text, &x, 1, NULL)));
    assert_string_equal(text, "");
    assert_true(cj__plain_point(number, 2) == 2 && strcmp(number, "1.") == 0);
    assert_false(cj__host_bytes(x, "test", refuse_bytes, &seen) || cj__host_bytes(cj_t(x), "test", refuse_bytes, &seen));
    assert_false(cj__host_bytes(NULL, "test", refuse_bytes, &seen));
    assert_ok(c);
    assert_refused(CJ_ESTALE, "test: argument 1", assert_false(cj__host_bytes(c->poison, "test", refuse_bytes, &seen)));
    assert_int_equal(seen, 2 * 6 * 4);
}

/* What is kept beside a parameter is told apart by place, length and bytes of its key: noted, then made, then found. */
CASE(packed_keys)
{
    cj_tensor *p = cj_param(F(8)), *views[2] = { p, cj_slice(p, 0, 4, 8, 1) };
    static const char *const keys[3] = { "abc", "abcd", "abx" };
    const size_t before = cj_memory_stats(c).packed;
    char *at[6] = { NULL };
    bool made;
    for (int i = 0; i < 18; i++) {
        char *q = cj__packed(c, views[i % 2], keys[i % 3], strlen(keys[i % 3]), 64, &made);
        assert_true(made == (i >= 12) && (q != NULL) == (i >= 6));
        if (i >= 12) assert_true(q == at[i % 6] && *q == i % 6);
        else if (i >= 6) *(at[i % 6] = q) = (char)(i % 6);
    }
    assert_int_equal(cj_memory_stats(c).packed - before, 6 * 64);
    assert_null(cj__packed(c, F(8), "abc", 3, 64, &made)); /* no parameter */
    cj_memory_trim(c);
    assert_int_equal(cj_memory_stats(c).packed, 0);
    cj_release(p);
}

/* Scratch has a quarter more room than was asked for, to the last byte, before it is made anew. */
CASE(scratch_room)
{
    enum { ASKED = 1 << 20, ROOM = ASKED + ASKED / 4 };
    cj_memory_trim(c);
    char *p = cj__scratch(c, ASKED);
    assert_non_null(p);
    p[ROOM - 1] = 1;
    const size_t live = cj_memory_stats(c).live;
    assert_true(cj__scratch(c, ROOM) == p);
    assert_int_equal(cj_memory_stats(c).live, live);
    assert_non_null(cj__scratch(c, ROOM + 1));
    assert_true(cj_memory_stats(c).live > live);
}

#define T(name) cmocka_unit_test(name)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(refused_arguments), T(refused_layouts),        T(poison_passes),      T(closed_tensors),    T(sizes_and_options),
        T(eight_named_axes),  T(slices_beyond_the_ends), T(lies_channels_last), T(single_elements),   T(overlapping_windows),
        T(failing_exchange),  T(words_of_errors),        T(context_choices),    T(scopes_and_owners), T(watched_calls),
        T(profiler_rows),     T(profiler_trace),         T(printing),           T(packed_keys),       T(scratch_room),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
