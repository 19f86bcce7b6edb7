/* NULL, tensors of closed scopes, of other contexts and on the wrong device, and tensors without elements, as arguments of everything. */
#include <pthread.h>
#include <unistd.h>

#include "errors.h"

/* ---- NULL --------------------------------------------------------------------------------------------------------------------------- */

static void null_everywhere(void **state)
{
    (void)state;
    cj_tensor *out[2] = { 0 };
    assert_false(cj_ok(NULL));
    assert_int_equal(cj_error(NULL), CJ_EMEMORY);
    assert_string_equal(cj_message(NULL), "no context");
    cj_clear(NULL);
    cj_cancel(NULL);
    cj_ctx_free(NULL);
    cj_seed(NULL, 1);
    cj_rng_set(NULL, cj_rng_get(NULL));
    cj_memory_reset_peak(NULL);
    cj_memory_trim(NULL);
    cj_enter(NULL, "a");
    assert_null(cj_poisson_nll_loss(NULL, NULL));
    assert_null(cj_nms(NULL, NULL, 0.5));
    cj_leave(NULL);
    cj_scope_close(cj_scope_open(NULL));
    cj_release(NULL);
    cj_leaf_zero_grad(NULL);
    cj_zero_grad(NULL);
    cj_optim_set_lr(NULL, 1);
    cj_optim_free(NULL);
    cj_plan_free(NULL);
    cj_module_train(NULL, true);
    assert_string_equal(cj_ctx_device(NULL), "");
    assert_string_equal(cj_ctx_isa(NULL), "");
    assert_int_equal(cj_ctx_threads(NULL), 0);
    assert_int_equal(cj_memory_stats(NULL).live, 0);
    assert_null(cj_scope_return((cj_scope){ 0 }, NULL));
    assert_null(cj_keep(NULL));
    assert_null(cj_tensor_ctx(NULL));
    assert_true(cj_is_poison(NULL));
    assert_int_equal(cj_ndim(NULL) + cj_size(NULL, 0) + cj_stride(NULL, 0) + cj_numel(NULL) + cj_shape_of(NULL).ndim, 0);
    assert_int_equal(cj_dtype_of(NULL), CJ_DEFAULT_DTYPE);
    assert_int_equal(cj_promote(NULL, NULL), CJ_DEFAULT_DTYPE);
    assert_false(cj_is_contiguous(NULL) || cj_on_device(NULL) || cj_requires_grad(NULL));
    assert_null(cj_data(NULL));
    assert_true(isnan(cj_item(NULL)) && isnan(cj_at(NULL, NULL)));
    assert_false(cj_to_f32(NULL, NULL, 0) || cj_to_f64(NULL, NULL, 0) || cj_to_i64(NULL, NULL, 0));
    assert_null(cj_from_f32(NULL, NULL, CJ_SCALAR));
    assert_null(cj_fail(NULL, CJ_EVALUE, "x"));
    assert_null(cj_full(NULL, 0, CJ_SCALAR, CJ_F32));
    assert_null(cj_scalar(NULL, 0));
    assert_null(cj_arange(NULL, 0, 1, 1, CJ_F32));
    assert_null(cj_eye(NULL, 1, CJ_F32));
    assert_null(cj_zeros_like(NULL));
    assert_null(cj_rand(NULL, CJ_SCALAR));
    assert_null(cj_uniform(NULL, 0, 1, CJ_SCALAR));
    assert_null(cj_normal(NULL, 0, 1, CJ_SCALAR));
    assert_null(cj_randint(NULL, 0, 1, CJ_SCALAR));
    assert_null(cj_bernoulli(NULL, 0, CJ_SCALAR));
    assert_null(cj_exponential(NULL, 1, CJ_SCALAR));
    assert_null(cj_add(NULL, NULL));
    assert_null(cj_where(NULL, NULL, NULL));
    assert_null(cj_clamp(NULL, 0, 1));
    assert_null(cj_masked_fill(NULL, NULL, 0));
    assert_null(cj_cast(NULL, CJ_F32));
    assert_null(cj_gelu(NULL));
    assert_null(cj_sum(NULL));
    assert_null(cj_mean(NULL));
    assert_null(cj_prod(NULL));
    assert_null(cj_argmax(NULL));
    assert_null(cj_var(NULL));
    assert_null(cj_logsumexp(NULL));
    assert_null(cj_reshape(NULL, CJ_SCALAR));
    assert_null(cj_flatten(NULL, 0));
    assert_null(cj_t(NULL));
    assert_null(cj_permute(NULL, CJ_AXIS(0)));
    assert_null(cj_expand(NULL, CJ_SCALAR));
    assert_null(cj_squeeze(NULL, 0));
    assert_null(cj_unsqueeze(NULL, 0));
    assert_null(cj_slice(NULL, 0, 0, 0, 1));
    assert_null(cj_select(NULL, 0, 0));
    assert_null(cj_diagonal(NULL, 0, 0, 1));
    assert_null(cj_unfold(NULL, 0, 1, 1));
    assert_null(cj_contiguous(NULL));
    assert_null(cj_clone(NULL));
    assert_null(cj_cat(NULL, 0, 0));
    assert_null(cj_cat(NULL, 2, 0));
    assert_null(cj_cat((cj_tensor *[]){ NULL, NULL }, 2, 0));
    assert_null(cj_stack(NULL, 2, 0));
    assert_null(cj_stack((cj_tensor *[]){ NULL, NULL }, 2, 0));
    assert_null(cj_to(NULL, "cpu"));
    assert_null(cj_tril(NULL, 0));
    assert_null(cj_index_select(NULL, 0, NULL));
    assert_null(cj_index_add(NULL, 0, NULL, NULL));
    assert_null(cj_gather(NULL, 0, NULL));
    assert_null(cj_scatter_add(NULL, 0, NULL, NULL));
    assert_null(cj_embedding(NULL, NULL));
    assert_null(cj_one_hot(NULL, 2));
    assert_null(cj_nonzero(NULL));
    assert_null(cj_matmul(NULL, NULL));
    assert_null(cj_dot(NULL, NULL));
    assert_null(cj_outer(NULL, NULL));
    assert_null(cj_linear_op(NULL, NULL, NULL));
    assert_null(cj_softmax(NULL, 0));
    assert_null(cj_layer_norm(NULL, NULL, NULL, 0));
    assert_null(cj_dropout(NULL));
    assert_null(cj_cross_entropy(NULL, NULL));
    assert_null(cj_nll_loss(NULL, NULL));
    assert_null(cj_mse_loss(NULL, NULL));
    assert_null(cj_l1_loss(NULL, NULL));
    assert_null(cj_bce_loss(NULL, NULL));
    assert_null(cj_bce_with_logits(NULL, NULL));
    assert_null(cj_attention(NULL, NULL, NULL));
    assert_null(cj_attention_packed(NULL, 1));
    assert_null(cj_assign_(NULL, NULL));
    assert_null(cj_add_(NULL, NULL, 1));
    assert_null(cj_write_slice_(NULL, 0, NULL, NULL));
    assert_null(cj_require_grad(NULL));
    assert_null(cj_detach(NULL));
    assert_false(cj_no_grad(NULL) || cj_grad_mode(NULL, true) || cj_grad_enabled(NULL));
    assert_false(cj_grad(NULL, NULL, 0, NULL) || cj_grad(NULL, out, 1, out) || cj_backward(NULL));
    assert_null(cj_leaf_grad(NULL));
    assert_null(cj_vjp(NULL, NULL, NULL, NULL, 0, NULL, NULL));
    assert_null(cj_jvp(NULL, NULL, NULL, NULL, NULL, 0).value);
    assert_null(cj_hvp(NULL, NULL, NULL, NULL, NULL, 0, NULL));
    assert_null(cj_jacobian(NULL, NULL, NULL, NULL));
    assert_null(cj_hessian(NULL, NULL, NULL, NULL));
    assert_false(cj_per_example_grad(NULL, NULL, NULL, NULL, 0, NULL, 0, NULL));
    assert_null(cj_checkpoint(NULL, NULL, NULL, NULL, 0));
    assert_false(cj_gradcheck(NULL, NULL, NULL, NULL, 1).ok);
    assert_null(cj_custom(NULL, NULL, NULL));
    assert_null(cj_capture(NULL, NULL, NULL, NULL, 0, NULL));
    assert_false(cj_replay(NULL, NULL, NULL));
    assert_false(cj_plan_statistics(NULL).compiled);
    assert_false(cj_plan_print(NULL, stdout));
    assert_null(cj_param(NULL));
    assert_int_equal(cj_params_count(NULL) + cj_params_numel(NULL), 0);
    assert_null(cj_params_at(NULL, 0));
    assert_string_equal(cj_params_name(NULL, 0), "");
    assert_null(cj_params_find(NULL, NULL));
    assert_false(cj_params_flatten(NULL));
    assert_null(cj_params_flat(NULL, CJ_F32));
    assert_null(cj_module_new(NULL, NULL, 0));
    assert_null(cj_module_self(NULL));
    assert_null(cj_module_ctx(NULL));
    assert_string_equal(cj_module_type_name(NULL), "");
    assert_null(cj_module_add(NULL, NULL, NULL));
    assert_null(cj_module_param(NULL, NULL, NULL));
    assert_null(cj_module_buffer(NULL, NULL, NULL));
    assert_int_equal(cj_module_children(NULL), 0);
    assert_null(cj_module_child(NULL, 0));
    assert_string_equal(cj_module_child_name(NULL, 0), "");
    assert_null(cj_module_params(NULL));
    assert_int_equal(cj_module_state(NULL, NULL, NULL), 0);
    assert_false(cj_module_training(NULL));
    assert_null(cj_forward(NULL, NULL));
    assert_null(cj_linear(NULL, 1, 1));
    assert_null(cj_embedding_layer(NULL, 1, 1));
    assert_null(cj_layer_norm_layer(NULL, 1));
    assert_null(cj_dropout_layer(NULL, 0));
    assert_null(cj_relu_layer(NULL));
    assert_null((cj_sequential)(NULL, NULL));
    assert_null(cj_sgd(NULL));
    assert_null(cj_adam(NULL));
    assert_null(cj_adamw(NULL));
    assert_false(cj_minimise(NULL, NULL) || cj_accumulate(NULL, NULL, 1) || cj_step(NULL));
    assert_true(isnan(cj_optim_lr(NULL)));
    assert_int_equal(cj_optim_steps(NULL), 0);
    assert_null(cj_optim_params(NULL));
    assert_int_equal(cj_optim_state(NULL, NULL, NULL), 0);
    assert_false(cj_profile_start(NULL) || cj_profile_trace(NULL, NULL));
    assert_int_equal(cj_profile_stop(NULL, NULL, 0), 0);
}

/* A NULL among good arguments is an error of the context, not a crash. */
static void null_among_good(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *x = cj_require_grad(F(2)), *null = NULL, *out[1];
    cj_module *net = cj_sequential(c, cj_linear(c, 2, 2));
    cj_optim *opt = cj_sgd(cj_module_params(net));
    assert_ok(c);
#define BAD(...)                                                                                                                           \
    do {                                                                                                                                   \
        (void)(__VA_ARGS__);                                                                                                               \
        if (cj_ok(c)) fail_msg("%s: no error", #__VA_ARGS__);                                                                              \
        assert_sentence(c, #__VA_ARGS__);                                                                                                  \
        cj_clear(c);                                                                                                                       \
    } while (0)
    BAD(cj_grad(cj_sum(x), &null, 1, out));
    BAD(cj_grad(cj_sum(x), NULL, 1, out));
    BAD(cj_grad(cj_sum(x), &x, 1, NULL));
    BAD(cj_vjp(c, identity, NULL, &null, 1, NULL, out));
    BAD(cj_vjp(c, identity, NULL, NULL, 1, NULL, out));
    BAD(cj_jvp(c, identity, NULL, &null, &x, 1));
    BAD(cj_hvp(c, squares, NULL, &null, &x, 1, out));
    BAD(cj_jacobian(c, identity, NULL, NULL));
    BAD(cj_hessian(c, identity, NULL, NULL));
    BAD(cj_per_example_grad(c, squares, NULL, &x, 1, &null, 1, out));
    BAD(cj_checkpoint(c, identity, NULL, &null, 1));
    BAD(cj_checkpoint(c, identity, NULL, NULL, 1));
    BAD(cj_gradcheck(c, identity, NULL, &null, 1));
    BAD(cj_custom(c, &(cj_custom_op){ .name = "zero", .nin = 1, .infer = infer_same, .run = run_zero }, &null));
    BAD(cj_custom(c, &(cj_custom_op){ .name = "zero", .nin = 1, .infer = infer_same, .run = run_zero }, NULL));
    BAD(cj_capture(c, rig_captured, NULL, &null, 1, NULL));
    BAD(cj_capture(c, rig_captured, NULL, NULL, 1, NULL));
    BAD(cj_capture(c, NULL, NULL, NULL, 0, NULL));
    BAD(cj_forward(net, NULL));
    BAD(cj_minimise(opt, NULL));
    BAD(cj_accumulate(opt, NULL, 1));
    BAD(cj_module_add(net, "a", NULL));
    BAD(cj_module_add(net, NULL, net));
    BAD(cj_module_param(net, NULL, x));
    BAD(cj_module_param(net, "w", NULL));
    BAD(cj_module_new(c, NULL, 0));
    BAD(cj_cat(NULL, 1, 0), cj_cat(CJ_TENSORS(NULL, x), 2, 0));
    cj_enter(c, NULL);
    BAD(cj_add(x, NULL));
    cj_leave(c);
    assert_null(cj_params_find(cj_module_params(net), NULL));
    assert_works(c);
    cj_ctx_free(c);
}

/* ---- tensors at the wrong place ------------------------------------------------------------------------------------------------------------------ */

static void used_after_scope(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .debug = true });
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F(2), *view = cj_slice(x, 0, 0, 1, 1);
    cj_scope_close(s);
    int closed = __LINE__ - 1;
    char where[64];
    snprintf(where, sizeof where, "used after its scope was closed at test_errors_arguments.c:%d", closed);
    struct {
        cj_tensor *t;
        const char *op;
    } cases[] = { { x, "neg: argument 1" }, { view, "neg: argument 1" } };
    for (size_t i = 0; i < 2; i++) {
        assert_true(cj_is_poison(cj_neg(cases[i].t)));
        assert_error(c, CJ_ESTALE, where);
        assert_says(c, cases[i].op);
        cj_clear(c);
        assert_int_equal(cj_numel(cases[i].t), 0);
        assert_null(cj_data(cases[i].t));
        assert_true(isnan(cj_item(cases[i].t)));
        assert_error(c, CJ_ESTALE, where);
        cj_clear(c);
    }
    cj_tensor *k = cj_keep(F(2));
    cj_release(k);
    assert_true(cj_is_poison(cj_neg(k)));
    assert_error(c, CJ_ESTALE, "used after its scope was closed at test_errors_arguments.c:");
    cj_clear(c);
    /* the result of a scope lives on, a module's inner values do not */
    s = cj_scope_open(c);
    cj_tensor *y = cj_scope_return(s, cj_add_scalar(F(2), 1));
    assert_true(cj_item(cj_sum(y)) == 2);
    cj_scope t = cj_scope_open(c);
    cj_tensor *inner = F(2);
    cj_scope_close(t);
    assert_true(cj_is_poison(cj_scope_return(cj_scope_open(c), inner)));
    assert_error(c, CJ_ESTALE, "cj_scope_return: argument 1 is used after its scope was closed");
    cj_clear(c);
    assert_int_equal(c->depth, 1);
    assert_works(c);
    cj_ctx_free(c);

    /* without .debug headers are used again, so the place is not to be trusted and not named */
    c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    s = cj_scope_open(c);
    x = F(2);
    cj_scope_close(s);
    assert_true(cj_is_poison(cj_neg(x)));
    assert_error(c, CJ_ESTALE, "neg: argument 1 is used after its scope was closed (test_errors_arguments.c:");
    cj_clear(c);
    assert_works(c);
    cj_ctx_free(c);
}

static void two_contexts(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 }), *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *x = F(2), *y = cj_zeros(d, CJ_SHAPE(2), CJ_F32), *g;
    cj_module *net = cj_linear(c, 2, 2), *foreign = cj_linear(d, 2, 2);
    cj_optim *opt = cj_sgd(cj_module_params(net));
#define FOREIGN(says, ...)                                                                                                                 \
    do {                                                                                                                                   \
        (void)(__VA_ARGS__);                                                                                                               \
        assert_error(c, CJ_ECONTEXT, says);                                                                                                \
        assert_sentence(c, says);                                                                                                          \
        cj_clear(c);                                                                                                                       \
        cj_clear(d);                                                                                                                       \
    } while (0)
    FOREIGN("add: argument 2 belongs to another context", cj_add(x, y));
    FOREIGN("matmul: argument 2 belongs to another context", cj_matmul(x, y));
    FOREIGN("cat: argument 2 belongs to another context", cj_cat(CJ_TENSORS(x, y), 2, 0));
    FOREIGN("assign_: argument 2 belongs to another context", cj_assign_(x, y));
    FOREIGN("mse_loss: argument 2 belongs to another context", cj_mse_loss(x, y));
    FOREIGN("nms: argument 2 belongs to another context", cj_nms(F(2, 4), y, 0.5));
    FOREIGN("nms: argument 3 belongs to another context", cj_nms(F(2, 4), x, 0.5, .classes = y));
    FOREIGN("batch_norm: argument 2 belongs to another context", cj_batch_norm(F(3, 2), y, NULL, NULL));
    FOREIGN("batch_norm: argument 3 belongs to another context", cj_batch_norm(F(3, 2), x, y, NULL));
    FOREIGN("group_norm: argument 3 belongs to another context", cj_group_norm(F(3, 2), 1, x, y, 0));
    FOREIGN("layer_norm: argument 3 belongs to another context", cj_layer_norm(F(3, 2), x, y, 0));
    FOREIGN("linear: argument 3 belongs to another context", cj_linear_op(F(3, 2), F(2, 2), y));
    FOREIGN("belongs to another context", cj_forward(net, y));
    FOREIGN("belongs to another context", cj_grad(cj_sum(cj_require_grad(x)), &y, 1, &g));
    FOREIGN("belongs to another context", cj_jvp(c, identity, NULL, &x, &y, 1));
    FOREIGN("belongs to another context", cj_checkpoint(c, identity, NULL, &y, 1));
    FOREIGN("belongs to another context", cj_capture(c, rig_captured, NULL, &y, 1, NULL));
    FOREIGN("belongs to another context", cj_module_add(cj_sequential(c, net), "other", foreign));
    FOREIGN("belongs to another context", cj_module_param(net, "other", cj_param(y)));
    FOREIGN("belongs to another context", cj_scope_return(cj_scope_open(c), y));
    FOREIGN("belongs to another context", cj_minimise(opt, cj_sum(cj_require_grad(y))));
    FOREIGN("belongs to another context",
            cj_custom(c, &(cj_custom_op){ .name = "zero", .nin = 1, .infer = infer_same, .run = run_zero }, &y));
    assert_works(c);
    assert_works(d);
    cj_ctx_free(d);
    cj_ctx_free(c);
}

/* Devices: this machine may have none, so a make-believe one with plain memory and two kernels stands in. */
static void *fake_alloc(void *state, size_t n) { return (void)state, malloc(n); }
static void fake_free(void *state, void *p) { (void)state, free(p); }
static bool fake_copy(void *state, void *to, const void *from, size_t n) { return (void)state, memcpy(to, from, n), true; }
static const char *fake_copy_all(void *state, const cj_call *call)
{
    (void)state;
    memcpy(call->out[0]->data, call->in[0]->data, (size_t)call->in[0]->numel * 4);
    return NULL;
}
static const char *fake_fault(void *state, const cj_call *call) { return (void)state, (void)call, "it is on fire"; }
static const char *(*fake_find(const char *op))(void *, const cj_call *)
{
    return strcmp(op, "abs") == 0 ? fake_copy_all : strcmp(op, "exp") == 0 ? fake_fault : NULL;
}
static void fake_close(void *state) { (void)state; }

static void devices(void **state)
{
    (void)state;
    static const char *const bad[] = { "tpu", "cuda:99", "cpu:1" };
    for (size_t i = 0; i < 3; i++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .device = bad[i] });
        assert_non_null(c);
        assert_error(c, CJ_EDEVICE, bad[i]);
        cj_clear(c);
        assert_works(c); /* on the host */
        cj_ctx_free(c);
    }
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .isa = "mmx" });
    assert_error(c, CJ_EDEVICE, "isa 'mmx' is unknown");
    cj_clear(c);
    assert_works(c);

    cj_backend fake = { .size = sizeof fake,
                        .name = "fake",
                        .alloc = fake_alloc,
                        .free = fake_free,
                        .to_device = fake_copy,
                        .to_host = fake_copy,
                        .copy = fake_copy,
                        .find = fake_find,
                        .close = fake_close };
    cj_tensor *host = F(2);
    c->backend = &fake;
    cj_tensor *device = cj_to(host, "cuda");
    assert_true(cj_on_device(device));
    assert_null(cj_data(device));
    assert_true(cj_is_poison(cj_add(host, device)));
    assert_error(c, CJ_EDEVICE, "add: argument 1 is on the host, argument 2 on the device; move one with cj_to");
    cj_clear(c);
    assert_true(cj_is_poison(cj_neg(device)));
    assert_error(c, CJ_EDEVICE, "neg: no fake kernel for this operator");
    cj_clear(c);
    cj_tensor *same = cj_abs(device);
    assert_ok(c);
    assert_true(cj_on_device(same) && cj_item(cj_sum(cj_to(same, "cpu"))) == 0);
    assert_true(cj_is_poison(cj_exp(device)));
    assert_error(c, CJ_EDEVICE, "exp: it is on fire");
    cj_clear(c);
    assert_true(cj_is_poison(cj_custom(c, &(cj_custom_op){ .name = "zero", .nin = 1, .infer = infer_same, .run = run_zero }, &device)));
    assert_error(c, CJ_EDEVICE, "zero: argument 1 is on the device");
    cj_clear(c);
    uint64_t copies = cj_memory_stats(c).host_copies;
    assert_true(cj_item(cj_sum(cj_to(device, "cpu"))) == 0);
    assert_int_equal(cj_memory_stats(c).host_copies, copies + 1);
    assert_true(isfinite(cj_at(device, (int64_t[]){ 1 })));
    assert_int_equal(cj_memory_stats(c).host_copies, copies + 2);
    cj_release(NULL);
    cj__tape_drop(c, 0);
    for (cj_tensor *t = c->scope[0].head; t; t = t->next) assert_ptr_equal(t->ctx, c);
    /* the device tensors go before the device does */
    cj_scope_frame *base = &c->scope[0];
    while (base->head) {
        cj_tensor *t = base->head;
        base->head = t->next;
        cj__tensor_release(t, true);
    }
    c->backend = NULL;
    cj_ctx_free(c);
}

/* ---- empty tensors: what works does ---------------------------------------------------------------------------------------------------------------- */

static void empty_works(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *e = F(0, 3), *g;
    assert_int_equal(cj_numel(cj_add(e, F(1, 3))), 0);
    assert_true(cj_item(cj_sum(e)) == 0);
    assert_true(cj_item(cj_prod(e)) == 1);
    assert_true(isnan(cj_item(cj_mean(e))));
    assert_true(cj_item(cj_all(e)) == 1 && cj_item(cj_any(e)) == 0);
    assert_int_equal(cj_size(cj_max(e, .axes = CJ_AXIS(1)), 0), 0);
    cj_tensor *product = cj_matmul(F(2, 0), F(0, 3));
    assert_int_equal(cj_numel(product), 6);
    assert_true(cj_item(cj_sum(product)) == 0);
    assert_int_equal(cj_numel(cj_matmul(F(0, 2), F(2, 3))), 0);
    assert_int_equal(cj_size(cj_softmax(e, -1), 1), 3);
    assert_int_equal(cj_numel(cj_softmax(F(3, 0), -1)), 0);
    assert_int_equal(cj_size(cj_layer_norm(e, NULL, NULL, 0), 0), 0);
    assert_int_equal(cj_size(cj_linear_op(e, F(4, 3), F(4)), 1), 4);
    assert_int_equal(cj_numel(cj_index_select(F(3, 2), 0, I(0))), 0);
    assert_int_equal(cj_numel(cj_gather(F(3, 2), 0, I(0, 2))), 0);
    assert_int_equal(cj_size(cj_nonzero(F(4)), 0), 0);
    assert_int_equal(cj_numel(cj_cat(CJ_TENSORS(e, F(2, 3)), 2, 0)), 6);
    assert_int_equal(cj_numel(cj_slice(F(4), 0, 3, 1, 1)), 0);
    assert_int_equal(cj_numel(cj_arange(c, 0, 0, 1, CJ_F32)), 0);
    assert_int_equal(cj_numel(cj_eye(c, 0, CJ_F32)), 0);
    assert_int_equal(cj_numel(cj_reshape(e, CJ_SHAPE(3, 0, 5))), 0);
    assert_int_equal(cj_numel(cj_randn(c, CJ_SHAPE(0, 2))), 0);
    assert_int_equal(cj_numel(cj_cast(e, CJ_I64)), 0);
    assert_int_equal(cj_numel(cj_tril(F(0, 0), 0)), 0);
    assert_true(isnan(cj_item(cj_cross_entropy(F(0, 3), I(0)))));
    assert_int_equal(cj_numel(cj_from_f32(c, NULL, CJ_SHAPE(0))), 0);
    cj_tensor *w = cj_require_grad(F(4, 3));
    assert_true(cj_grad(cj_sum(cj_linear_op(e, w, NULL)), &w, 1, &g));
    assert_int_equal(cj_numel(g), 12);
    assert_true(cj_item(cj_sum(cj_abs(g))) == 0);
    char text[64];
    cj_format(e, text, sizeof text);
    assert_string_equal(text, "tensor([], size=(0, 3))");
    assert_ok(c);
    /* the derivative of an empty view is 0 everywhere, also in memory that held something else before */
    for (int turn = 0; turn < 3; turn++) {
        cj_scope before = cj_scope_open(c);
        for (int i = 0; i < 6; i++) cj_full(c, 7, CJ_SHAPE(4, 3), CJ_F32);
        cj_scope_close(before);
        cj_tensor *leaf = cj_require_grad(F(4, 3)), *view = turn == 0   ? cj_slice(leaf, 0, 2, 2, 1)
                                                            : turn == 1 ? cj_slice(leaf, 1, 1, 1, 1)
                                                                        : cj_t(cj_slice(leaf, 1, 3, 3, 1));
        assert_true(cj_grad(cj_sum(view), &leaf, 1, &g));
        assert_int_equal(cj_numel(g), 12);
        assert_true(cj_item(cj_sum(cj_abs(g))) == 0);
    }
    /* extreme but legal slices */
    assert_int_equal(cj_numel(cj_slice(F(4), 0, INT64_MIN, CJ_END, 1)), 4);
    assert_int_equal(cj_numel(cj_slice(F(4), 0, INT64_MIN, INT64_MIN, 1)), 0);
    assert_int_equal(cj_numel(cj_slice(F(4), 0, 0, CJ_END, INT64_MAX)), 1);
    assert_int_equal(cj_numel(cj_slice(F(4), 0, CJ_END, CJ_END, INT64_MIN)), 1);
    assert_int_equal(cj_numel(cj_slice(F(4), 0, CJ_END, CJ_END, -1)), 4);
    assert_int_equal(cj_numel(cj_diagonal(F(4, 4), INT64_MAX, 0, 1)), 0);
    assert_int_equal(cj_numel(cj_diagonal(F(4, 4), INT64_MIN, 0, 1)), 0);
    assert_int_equal(cj_numel(cj_tril(F(4, 4), INT64_MAX)), 16);
    assert_ok(c);
    cj_ctx_free(c);
}

/* Every operator that takes a certain number of inputs refuses one more and one fewer, before it looks at anything else. */
static void numbers_of_inputs(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *in[16], *out[CJ_MAX_OUTPUTS];
    for (int i = 0; i < 16; i++) in[i] = F(2);
    int without = 0;
    for (int i = 0; i < cj_op_count(); i++) {
        const cj_op *op = cj__op_at(i);
        if (op->nin < 0) continue;
        assert_true(op->nin < 15);
        without += op->nin == 0;
        for (int given = op->nin ? op->nin - 1 : 1; given <= op->nin + 1; given += 2) {
            char text[128];
            snprintf(text, sizeof text, "%s: %d inputs given, %d expected", op->name, given, op->nin);
            assert_refused(CJ_EVALUE, text, assert_false(cj__apply_n(c, op, NULL, in, given, out)));
        }
    }
    assert_true(without > 0); /* an operator without inputs is one of them */
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_inputs), cmocka_unit_test(null_everywhere), cmocka_unit_test(null_among_good),
        cmocka_unit_test(used_after_scope),  cmocka_unit_test(two_contexts),    cmocka_unit_test(devices),
        cmocka_unit_test(empty_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
