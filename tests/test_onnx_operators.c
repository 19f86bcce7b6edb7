/* .onnx: operators one by one and in small groups.  Here the graphs are looked at; tests/onnx.sh compares what they compute with another runtime. */
#include "onnx.h"

TEST_CONTEXT(.threads = 1, .seed = 29);

#if defined CJ_HAVE_PROTOBUF_C

enum { B = 4, PARAMS = 5 };

/* y = f(x, p): x has B examples of this shape, p are parameters p0, p1, … */
typedef struct subject {
    const char *name; /* "whole_…": examples depend on each other */
    cj_tensor *(*f)(cj_tensor *x, cj_tensor **p);
    cj_shape x, p[PARAMS];
    const char *nodes; /* the graph, or NULL */
    bool fixed;        /* it is good for one batch only */
} subject;

typedef struct holder {
    const subject *s;
    cj_tensor *p[PARAMS];
} holder;
static cj_tensor *held(cj_module *m, void *self, cj_tensor *x) { return (void)m, ((holder *)self)->s->f(x, ((holder *)self)->p); }
static const cj_module_type holder_type = { "Holder", held, NULL };

#define F(name) static cj_tensor *name(cj_tensor *x UNUSED, cj_tensor **p UNUSED)
#define CAT(axis, ...) cj_cat(CJ_TENSORS(__VA_ARGS__), (int)(sizeof((cj_tensor *[]){ __VA_ARGS__ }) / sizeof(cj_tensor *)), axis)
#define AS_F32(x) cj_cast(x, CJ_F32)

/* ---- elementwise --------------------------------------------------------------------------------------------------------------------------------------- */

F(arithmetic)
{
    cj_tensor *y = cj_add_scalar(cj_abs(x), 0.5);
    return CAT(1, cj_add(x, p[0]), cj_sub(x, y), cj_mul(x, y), cj_div(x, y), cj_pow(y, x), cj_maximum(x, p[0]), cj_minimum(x, p[0]),
               cj_pow_scalar(y, 1.5), cj_mul_scalar(x, -3), cj_clamp(x, -0.5, 0.25), cj_neg(x), cj_square(x), cj_reciprocal(y));
}
F(functions)
{
    cj_tensor *y = cj_add_scalar(cj_abs(x), 0.5);
    return CAT(1, cj_exp(x), cj_expm1(x), cj_log(y), cj_log1p(y), cj_sqrt(y), cj_rsqrt(y), cj_sin(x), cj_cos(x), cj_tanh(x), cj_sigmoid(x),
               cj_erf(x), cj_sign(x), cj_floor(cj_mul_scalar(x, 4)), cj_ceil(cj_mul_scalar(x, 4)), cj_round(cj_mul_scalar(x, 4)));
}
F(activations)
{
    return CAT(1, cj_relu(x), cj_gelu(x), cj_gelu(x, .tanh = true), cj_silu(x), cj_softplus(x), cj_log_sigmoid(x),
               cj_leaky_relu(x, .slope = 0.2), cj_elu(x), cj_celu(x, .alpha = 2), cj_selu(x), cj_mish(x), cj_softsign(x), cj_hardswish(x),
               cj_hardsigmoid(x), cj_relu6(cj_mul_scalar(x, 8)), cj_tanhshrink(x), cj_glu(x, 1), cj_prelu(x, p[0]));
}
F(comparisons)
{
    cj_tensor *a = cj_gt(x, p[0]), *b = cj_le_scalar(x, 0.1), *whole = cj_cast(cj_mul_scalar(x, 3), CJ_I64);
    return CAT(1, AS_F32(a), AS_F32(b), AS_F32(cj_logical_and(a, b)), AS_F32(cj_logical_or(a, b)), AS_F32(cj_logical_xor(a, b)),
               AS_F32(cj_logical_not(a)), AS_F32(cj_ge(x, p[0])), AS_F32(cj_lt(x, p[0])), AS_F32(cj_le(x, p[0])),
               AS_F32(cj_eq_scalar(whole, 1)), AS_F32(cj_ne_scalar(whole, 1)), AS_F32(cj_lt_scalar(whole, 0.5)),
               AS_F32(cj_isnan(cj_log(x))), AS_F32(cj_isfinite(cj_log(x))), cj_where(a, x, p[0]), cj_where(whole, x, cj_neg(x)),
               AS_F32(cj_eq(whole, cj_add_scalar(whole, 0))), AS_F32(cj_ne(a, b)), cj_mul(x, whole), AS_F32(cj_add(a, whole)));
}

F(rests) { return CAT(1, cj_trunc(cj_mul_scalar(x, 4)), cj_fmod(x, p[0]), cj_remainder(x, p[0])); }

/* ---- shapes ---------------------------------------------------------------------------------------------------------------------------------------------- */

F(views) /* [B, 4, 6] */
{
    const int64_t n = cj_size(x, 0);
    cj_tensor *t = cj_transpose(x, 1, 2), *back = cj_slice(x, 2, 5, -7, -2), *some = cj_slice(x, 1, 1, 4, 2), *one = cj_select(x, 1, 2);
    cj_tensor *wide = cj_expand(cj_unsqueeze(one, 1), CJ_SHAPE(n, 3, 6)), *rows = cj_expand(p[0], CJ_SHAPE(n, 6));
    return CAT(1, cj_flatten(t, 1), cj_flatten(back, 1), cj_flatten(some, 1), one, cj_flatten(wide, 1), rows,
               cj_flatten(cj_stack(CJ_TENSORS(x, x), 2, 1), 1), cj_flatten(cj_slice(x, 1, 2, 0, -1), 1));
}
F(regrouped) { return cj_permute(cj_reshape(x, CJ_SHAPE(-1, 2, 2, 6)), CJ_AXES(0, 2, 1, 3)); }
F(merged) { return cj_reshape(cj_mul_scalar(cj_reshape(x, CJ_SHAPE(-1, 6)), 2), CJ_SHAPE(-1, 24)); } /* [4·B, 6] in between */
F(outer)
{
    cj_tensor *rows = cj_reshape(x, CJ_SHAPE(-1, 24));
    return cj_matmul(rows, cj_t(rows));
}
F(padded)
{
    cj_tensor *zeros = cj_pad(x, CJ_SHAPE(1, 2), CJ_SHAPE(0, 3));
    return cj_add(zeros, cj_pad(x, CJ_SHAPE(1, 2), CJ_SHAPE(0, 3), .mode = CJ_PAD_REFLECT));
}
F(picked)
{
    cj_tensor *index = cj_from_i64(cj_tensor_ctx(x), (int64_t[]){ 3, 0, 0 }, CJ_SHAPE(3));
    cj_tensor *best = cj_argmax(x, .axes = CJ_AXIS(2), .keepdim = true);
    return CAT(1, cj_flatten(cj_index_select(x, 1, index), 1), cj_flatten(cj_gather(x, 2, best), 1),
               cj_flatten(AS_F32(cj_argmin(x, .axes = CJ_AXIS(1))), 1));
}
F(ordered)
{
    cj_ordered down = cj_sort(x, 2, .descending = true), best = cj_topk(x, 2, 1), up = cj_sort(cj_round(x), 2);
    return CAT(1, cj_flatten(down.values, 1), cj_flatten(AS_F32(down.indices), 1), cj_flatten(best.values, 1),
               cj_flatten(AS_F32(up.indices), 1),
               cj_flatten(cj_scatter_add(x, 2, cj_argmin(x, .axes = CJ_AXIS(2), .keepdim = true), cj_slice(x, 2, 0, 1, 1)), 1));
}
F(running) { return CAT(1, cj_cumsum(x, 1), cj_cumsum(x, 2), cj_cumprod(x, 2), AS_F32(cj_cumsum(cj_gt_scalar(x, 0), 2))); }
F(windows) { return CAT(1, cj_flatten(cj_unfold(x, 2, 3, 2), 1), cj_flatten(cj_unfold(x, 1, 2, 1), 1)); }
F(nearest) { return cj_interpolate(x, .size = CJ_SHAPE(5, 9)); }
F(nearest_exact) { return cj_interpolate(x, .size = CJ_SHAPE(5, 9), .mode = CJ_INTERP_NEAREST_EXACT); }
F(bilinear) { return cj_interpolate(x, .scale = 2, .mode = CJ_INTERP_LINEAR); }
F(aligned) { return cj_interpolate(x, .size = CJ_SHAPE(5, 9), .mode = CJ_INTERP_LINEAR, .align_corners = true); }
F(cubic) { return cj_interpolate(x, .size = CJ_SHAPE(5, 9), .mode = CJ_INTERP_CUBIC); }
F(shuffled) { return cj_pixel_shuffle(x, 2); }

F(reductions)
{
    return CAT(1, cj_sum(x, .axes = CJ_AXIS(1)), cj_mean(x, .axes = CJ_AXIS(1)), cj_max(x, .axes = CJ_AXIS(1)),
               cj_min(x, .axes = CJ_AXIS(1)), cj_prod(x, .axes = CJ_AXIS(1)), cj_logsumexp(x, .axes = CJ_AXIS(1)),
               cj_squeeze(cj_mean(x, .axes = CJ_AXES(1, 2), .keepdim = true), 2), AS_F32(cj_any(cj_gt_scalar(x, 1), .axes = CJ_AXIS(1))),
               AS_F32(cj_all(cj_gt_scalar(x, -1), .axes = CJ_AXIS(1))), AS_F32(cj_sum(cj_gt_scalar(x, 0), .axes = CJ_AXIS(1))));
}
F(centred) { return cj_sub(x, cj_mean(x, .axes = CJ_AXIS(0), .keepdim = true)); }
F(over_two) { return cj_mean(x, .axes = CJ_AXES(0, 2)); } /* two runs of axes: the first divides by the batch, too */

/* ---- products, convolution, pooling ------------------------------------------------------------------------------------------------------------------------ */

F(linear_of_rows) { return cj_linear_op(x, p[0], p[1]); }
F(no_bias) { return cj_linear_op(x, p[0], NULL); }
F(products) { return cj_add(cj_matmul(x, cj_transpose(x, 1, 2)), cj_matmul(cj_matmul(x, p[0]), cj_matmul(cj_t(p[0]), cj_t(p[1])))); }
F(contracted) { return cj_einsum("bij,jk->bki", CJ_TENSORS(x, p[0]), 2); }
F(conv1d) { return cj_conv(x, p[0], p[1], .dilation = 2, .padding = 3, .groups = 2); }
F(conv2d) { return cj_conv(x, p[0], p[1], .strides = CJ_SHAPE(2, 1), .paddings = CJ_SHAPE(1, 0)); }
F(conv3d) { return cj_conv(cj_unsqueeze(x, 2), p[0], NULL, .padding = 1); }
F(conv_same) { return cj_relu(cj_add(cj_conv(x, p[0], NULL, .border = CJ_SAME), cj_conv(x, p[0], p[1], .border = CJ_SAME))); }
F(deconv) { return cj_conv_transpose(x, p[0], p[1], .stride = 2, .padding = 1, .output_padding = 1); }
F(deconv_groups) { return cj_conv_transpose(x, p[0], NULL, .strides = CJ_SHAPE(3, 2), .dilation = 2, .groups = 2); }
F(max_pooled) { return cj_max_pool(x, .kernel = 3, .stride = 2, .padding = 1).value; }
F(max_ceil) { return cj_max_pool(x, .kernel = 2, .stride = 3, .ceil_mode = true, .values_only = true).value; }
F(max_holes) { return cj_max_pool(x, .kernel = 2, .stride = 1, .dilation = 2).value; }
F(avg_pooled) { return cj_avg_pool(x, .kernel = 3, .stride = 2, .padding = 1); }
F(avg_inside) { return cj_avg_pool(x, .kernel = 3, .stride = 2, .padding = 1, .exclude_padding = true); }
F(avg_ceil) { return cj_avg_pool(x, .kernel = 2, .stride = 2, .ceil_mode = true); }
F(adaptive) { return cj_adaptive_avg_pool(x, CJ_SHAPE(2, 3)); }

/* ---- normalisation, attention, recurrence ---------------------------------------------------------------------------------------------------------------------- */

F(norms) /* [B, 4, 6] */
{
    return CAT(1, cj_layer_norm(x, NULL, NULL, 0), cj_layer_norm(x, p[0], NULL, 1e-3), cj_layer_norm(x, p[0], p[1], 0),
               cj_group_norm(x, 2, p[2], p[3], 0), cj_instance_norm(x, NULL, NULL, 0), cj_rms_norm(x, p[0], 0), cj_softmax(x, 1),
               cj_log_softmax(x, -1));
}
F(given_statistics)
{
    return cj_batch_norm(x, NULL, NULL, .running_mean = p[0], .running_var = cj_add_scalar(cj_square(p[1]), 0.5), .eval = true,
                         .relu = true);
}
F(of_the_batch) { return cj_batch_norm(x, p[0], p[1]); }
F(attends)
{
    cj_tensor *q = cj_reshape(x, CJ_SHAPE(-1, 2, 4, 3)), *k = cj_slice(q, 1, 0, 1, 1), *mask = cj_le_scalar(cj_sub(p[0], cj_t(p[0])), 0.3);
    return CAT(2, cj_attention(q, k, k, .causal = true), cj_attention(q, q, q, .mask = mask),
               cj_attention(q, q, q, .mask = p[0], .scale = 0.7));
}
F(remembers) /* [B, 4, 6] */
{
    cj_recurrent_result r = cj_lstm(x, p[0], p[1], p[2], p[3], .batch_first = true);
    cj_recurrent_result s = cj_lstm(x, p[0], p[1], p[2], NULL, .batch_first = true, .reverse = true, .h0 = r.h_n, .c0 = r.c_n);
    return CAT(1, r.y, s.y, cj_unsqueeze(s.c_n, 1));
}
F(gated)
{
    cj_recurrent_result r = cj_gru(x, p[0], p[1], p[2], p[3], .batch_first = true);
    return CAT(1, r.y, cj_gru(x, p[0], p[1], NULL, NULL, .batch_first = true, .h0 = r.h_n, .reverse = true).y);
}
F(plain)
{
    cj_recurrent_result r = cj_rnn(x, p[0], p[1], p[2], NULL, .batch_first = true, .activation = CJ_ACTIVATION_RELU);
    return CAT(1, r.y, cj_rnn(x, p[0], p[1], NULL, p[3], .batch_first = true, .h0 = r.h_n).y);
}
F(light) { return cj_light_gru(x, p[0], p[1], p[2], NULL, .batch_first = true).y; }
F(terms) { return cj_lstm(cj_tanh(x), NULL, p[0], NULL, NULL, .batch_first = true).y; } /* input terms as they are */
F(lengths)
{
    cj_tensor *n = cj_expand(cj_full(cj_tensor_ctx(x), 3, CJ_SHAPE(1), CJ_I64), CJ_SHAPE(cj_size(x, 0)));
    return cj_gru(x, p[0], p[1], p[2], p[3], .batch_first = true, .lengths = n).y;
}

static const subject operators[] = {
    { "arithmetic", arithmetic, { 1, { 6 } }, { { 1, { 6 } } }, NULL, false },
    { "functions", functions, { 1, { 6 } }, { { 0 } }, NULL, false },
    { "activations", activations, { 1, { 6 } }, { { 1, { 1 } } }, NULL, false },
    { "comparisons", comparisons, { 1, { 6 } }, { { 1, { 6 } } }, NULL, false },
    { "rests", rests, { 1, { 6 } }, { { 1, { 6 } } }, NULL, false },
    { "ordered", ordered, { 2, { 4, 6 } }, { { 0 } }, NULL, false },
    { "running", running, { 2, { 4, 6 } }, { { 0 } }, NULL, false },
    { "windows", windows, { 2, { 4, 6 } }, { { 0 } }, NULL, false },
    { "nearest", nearest, { 3, { 2, 7, 6 } }, { { 0 } }, NULL, false },
    { "nearest_exact", nearest_exact, { 3, { 2, 7, 6 } }, { { 0 } }, NULL, false },
    { "bilinear", bilinear, { 3, { 2, 7, 6 } }, { { 0 } }, NULL, false },
    { "aligned", aligned, { 3, { 2, 7, 6 } }, { { 0 } }, NULL, false },
    { "cubic", cubic, { 3, { 2, 7, 6 } }, { { 0 } }, NULL, false },
    { "shuffled", shuffled, { 3, { 8, 3, 2 } }, { { 0 } }, NULL, false },
    { "views", views, { 2, { 4, 6 } }, { { 2, { 1, 6 } } }, NULL, false },
    { "regrouped", regrouped, { 2, { 4, 6 } }, { { 0 } }, "Reshape Transpose", false },
    { "merged", merged, { 2, { 4, 6 } }, { { 0 } }, "Reshape Mul Reshape", false },
    { "whole_outer", outer, { 2, { 4, 6 } }, { { 0 } }, "Reshape Transpose MatMul", false },
    { "padded", padded, { 2, { 4, 6 } }, { { 0 } }, "Pad Gather Gather Add", false },
    { "picked", picked, { 2, { 4, 6 } }, { { 0 } }, NULL, false },
    { "reductions", reductions, { 2, { 4, 6 } }, { { 0 } }, NULL, false },
    { "whole_centred", centred, { 2, { 4, 6 } }, { { 0 } }, "ReduceMean Sub", false },
    { "whole_two_runs", over_two, { 2, { 4, 6 } }, { { 0 } }, NULL, true },
    { "linear_of_rows", linear_of_rows, { 2, { 4, 6 } }, { { 2, { 5, 6 } }, { 1, { 5 } } }, "Transpose MatMul Add", false },
    { "no_bias", no_bias, { 1, { 6 } }, { { 2, { 5, 6 } } }, "Gemm", false },
    { "products", products, { 2, { 4, 6 } }, { { 2, { 6, 5 } }, { 2, { 4, 6 } } }, NULL, false },
    { "contracted", contracted, { 2, { 4, 6 } }, { { 2, { 6, 5 } } }, NULL, false },
    { "conv1d", conv1d, { 2, { 4, 9 } }, { { 3, { 6, 2, 3 } }, { 1, { 6 } } }, "Conv", false },
    { "conv2d", conv2d, { 3, { 2, 7, 6 } }, { { 4, { 3, 2, 3, 2 } }, { 1, { 3 } } }, "Conv", false },
    { "conv3d", conv3d, { 3, { 2, 7, 6 } }, { { 5, { 3, 2, 3, 3, 3 } } }, NULL, false },
    { "conv_same", conv_same, { 3, { 2, 7, 6 } }, { { 4, { 3, 2, 4, 3 } }, { 1, { 3 } } }, "Conv Conv Add Relu", false },
    { "deconv", deconv, { 3, { 2, 5, 4 } }, { { 4, { 2, 3, 3, 3 } }, { 1, { 3 } } }, "ConvTranspose", false },
    { "deconv_groups", deconv_groups, { 3, { 4, 5, 4 } }, { { 4, { 4, 3, 2, 3 } } }, "ConvTranspose", false },
    { "max_pooled", max_pooled, { 3, { 2, 7, 6 } }, { { 0 } }, "MaxPool", false },
    { "max_ceil", max_ceil, { 3, { 2, 8, 6 } }, { { 0 } }, "MaxPool", false },
    { "max_holes", max_holes, { 2, { 2, 7 } }, { { 0 } }, "MaxPool", false },
    { "avg_pooled", avg_pooled, { 3, { 2, 7, 6 } }, { { 0 } }, "AveragePool", false },
    { "avg_inside", avg_inside, { 3, { 2, 7, 6 } }, { { 0 } }, NULL, false },
    { "avg_ceil", avg_ceil, { 3, { 2, 7, 6 } }, { { 0 } }, "AveragePool", false },
    { "adaptive", adaptive, { 3, { 2, 7, 7 } }, { { 0 } }, NULL, false },
    { "norms", norms, { 2, { 4, 6 } }, { { 1, { 6 } }, { 1, { 6 } }, { 1, { 4 } }, { 1, { 4 } } }, NULL, false },
    { "given_statistics", given_statistics, { 2, { 4, 6 } }, { { 1, { 4 } }, { 1, { 4 } } }, NULL, false },
    { "whole_of_the_batch", of_the_batch, { 2, { 4, 6 } }, { { 1, { 4 } }, { 1, { 4 } } }, NULL, true },
    { "attends", attends, { 2, { 4, 6 } }, { { 2, { 4, 4 } } }, NULL, false },
    { "remembers", remembers, { 2, { 4, 6 } }, { { 2, { 20, 6 } }, { 2, { 20, 5 } }, { 1, { 20 } }, { 1, { 20 } } }, NULL, false },
    { "gated", gated, { 2, { 4, 6 } }, { { 2, { 15, 6 } }, { 2, { 15, 5 } }, { 1, { 15 } }, { 1, { 15 } } }, NULL, false },
    { "plain", plain, { 2, { 4, 6 } }, { { 2, { 5, 6 } }, { 2, { 5, 5 } }, { 1, { 5 } }, { 1, { 5 } } }, NULL, false },
    { "light", light, { 2, { 4, 6 } }, { { 2, { 10, 6 } }, { 2, { 10, 5 } }, { 1, { 10 } } }, NULL, false },
    { "terms", terms, { 2, { 4, 12 } }, { { 2, { 12, 3 } } }, NULL, false },
    { "lengths", lengths, { 2, { 4, 6 } }, { { 2, { 15, 6 } }, { 2, { 15, 5 } }, { 1, { 15 } }, { 1, { 15 } } }, NULL, false },
};

static void every_operator(void **state)
{
    (void)state;
    int failures = 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const subject *s = &operators[i];
        cj_scope scope = cj_scope_open(c);
        cj_module *m = cj_module_new(c, &holder_type, sizeof(holder));
        holder *h = cj_module_self(m);
        h->s = s;
        for (int k = 0; k < PARAMS && s->p[k].ndim; k++) {
            char name[8];
            snprintf(name, sizeof name, "p%d", k);
            h->p[k] = cj_module_param(m, name, cj_zeros(c, s->p[k], CJ_F32));
        }
        randomise(m);
        cj_shape shape = { .ndim = s->x.ndim + 1, .dim = { B } };
        memcpy(shape.dim + 1, s->x.dim, (size_t)s->x.ndim * sizeof(int64_t));
        cj_onnx_summary what;
        Cj__Onnx__Model *model = read_model(export_network(m, cj_randn(c, shape), s->name, &what));
        check_order(model);
        if (what.any_batch == s->fixed) print_error("%s: %s\n", s->name, s->fixed ? "any batch" : what.why), failures++;
        if (s->nodes && strcmp(node_types(model), s->nodes) != 0) print_error("%s: %s\n", s->name, node_types(model)), failures++;
        cj__onnx__model__free_unpacked(model, NULL);
        cj_scope_close(scope);
        assert_ok(c);
    }
    assert_int_equal(failures, 0);
}

/* ---- layers: what a network is put together from ------------------------------------------------------------------------------------------------------------------ */

#define L(name) static cj_module *name(void)
L(masked) { return cj_masked_linear(c, AS_F32(cj_gt_scalar(cj_randn(c, CJ_SHAPE(5, 6)), 0))); }
L(dag)
{
    static const int64_t edge[][2] = { { 0, 6 }, { 1, 6 }, { 2, 7 }, { 6, 8 }, { 3, 8 }, { 7, 8 } };
    return cj_dag_layer(c, 6, 9, edge, 6, "tanh");
}
L(separable) { return cj_separable_conv_layer(c, 2, 5, CJ_SHAPE(3, 3), .conv = { .padding = 1 }); }
L(local) { return cj_locally_connected_layer(c, 2, 3, CJ_SHAPE(8, 8), CJ_SHAPE(3, 3)); }
L(min_pool) { return cj_min_pool_layer(c, .kernel = 2); }
L(soft_pool) { return cj_softmax_pool_layer(c, 0.7, true, .kernel = 2); }
L(adaptive_max) { return cj_adaptive_max_pool_layer(c, CJ_SHAPE(3, 5)); }
L(global_avg) { return cj_global_avg_pool_layer(c); }
L(global_max) { return cj_global_max_pool_layer(c); }
L(upsample) { return cj_upsample_layer(c, .scale = 2, .mode = CJ_INTERP_LINEAR); }
L(dense_residual)
{
    return cj_residual_layer(c, cj_sequential(c, cj_dense_connection_layer(c, cj_linear(c, 6, 4), CJ_AXIS(1)), cj_linear(c, 10, 6)), NULL);
}
L(batch_norm_rows) { return cj_batch_norm_layer(c, 6, .relu = true); }
L(instance) { return cj_instance_norm_layer(c, 2, .affine = true); }
L(group) { return cj_group_norm_layer(c, 2, 2); }
L(whiten) { return cj_whiten_layer(c, 6); }
L(weight_norm) { return cj_weight_norm_layer(cj_linear(c, 6, 5), (cj_axes){ 0 }); }
L(spectral_norm) { return cj_spectral_norm_layer(cj_conv_layer(c, 2, 3, CJ_SHAPE(3, 3))); }
L(both_ways) { return cj_lstm_layer(c, 6, 3, .bidirectional = true, .layers = 2, .batch_first = true); }
L(gru_both_ways) { return cj_gru_layer(c, 6, 3, .bidirectional = true, .batch_first = true); }
L(map_attention) { return cj_map_attention_layer(c, 2, 3, 4, true); }
L(sinusoidal) { return cj_sinusoidal_layer(c, 6); }
L(positions) { return cj_learned_positions_layer(c, 9, 6); }
L(transformer)
{
    return cj_sequential(c, cj_transformer_encoder_layer(c, 6, 2), cj_transformer_encoder_layer(c, 6, 3, .norm_first = true));
}
L(ensemble)
{
    cj_module *member[] = { cj_linear(c, 6, 3), cj_linear(c, 6, 3) };
    return cj_ensemble_layer(c, member, 2, .probabilities = true);
}
L(dropouts) { return cj_sequential(c, cj_dropout_layer(c, 0.3), cj_dropout_layer(c, 0.3, .standard = true), cj_noise_layer(c, 1)); }

static const struct {
    const char *name;
    cj_module *(*make)(void);
    cj_shape x;
} layers[] = {
    { "layer_masked", masked, { 1, { 6 } } },
    { "layer_dag", dag, { 1, { 6 } } },
    { "layer_separable", separable, { 3, { 2, 8, 8 } } },
    { "layer_local", local, { 3, { 2, 8, 8 } } },
    { "layer_min_pool", min_pool, { 3, { 2, 8, 8 } } },
    { "layer_soft_pool", soft_pool, { 3, { 2, 8, 8 } } },
    { "layer_adaptive_max", adaptive_max, { 3, { 2, 8, 8 } } },
    { "layer_global_avg", global_avg, { 3, { 2, 8, 8 } } },
    { "layer_global_max", global_max, { 3, { 2, 8, 8 } } },
    { "layer_upsample", upsample, { 3, { 2, 8, 8 } } },
    { "layer_dense_residual", dense_residual, { 1, { 6 } } },
    { "layer_batch_norm_rows", batch_norm_rows, { 1, { 6 } } },
    { "layer_instance", instance, { 3, { 2, 8, 8 } } },
    { "layer_group", group, { 3, { 2, 8, 8 } } },
    { "layer_whiten", whiten, { 1, { 6 } } },
    { "layer_weight_norm", weight_norm, { 1, { 6 } } },
    { "layer_spectral_norm", spectral_norm, { 3, { 2, 8, 8 } } },
    { "layer_both_ways", both_ways, { 2, { 5, 6 } } },
    { "layer_gru_both_ways", gru_both_ways, { 2, { 5, 6 } } },
    { "layer_map_attention", map_attention, { 3, { 2, 4, 4 } } },
    { "layer_sinusoidal", sinusoidal, { 2, { 5, 6 } } },
    { "layer_positions", positions, { 2, { 5, 6 } } },
    { "layer_transformer", transformer, { 2, { 5, 6 } } },
    { "layer_ensemble", ensemble, { 1, { 6 } } },
    { "layer_dropouts", dropouts, { 1, { 6 } } },
};

static void write_layer(cj_module *m, cj_shape x, const char *name)
{
    cj_shape shape = { .ndim = x.ndim + 1, .dim = { B } };
    memcpy(shape.dim + 1, x.dim, (size_t)x.ndim * sizeof(int64_t));
    cj_onnx_summary what;
    Cj__Onnx__Model *model = read_model(export_network(m, cj_randn(c, shape), name, &what));
    check_order(model);
    if (!what.any_batch) fail_msg("%s: %s", name, what.why);
    cj__onnx__model__free_unpacked(model, NULL);
    assert_ok(c);
}

static void every_layer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        cj_module *m = layers[i].make();
        randomise(m);
        write_layer(m, layers[i].x, layers[i].name);
    }
    for (int i = 0; i < cj_activation_count(); i++) {
        char name[80];
        snprintf(name, sizeof name, "activation_%s", cj_activation_name(i));
        write_layer(cj_activation_layer(c, cj_activation_name(i)), (cj_shape){ 1, { 6 } }, name);
    }
}

#else

static void every_layer(void **state) { (void)state, skip(); }
static void every_operator(void **state) { (void)state, skip(); }

#endif

static int both_setups(void **state) { return setup(state) || folder_make(state); }
static int both_teardowns(void **state) { return teardown(state) | folder_remove(state); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_operator), cmocka_unit_test(every_layer) };
    return cmocka_run_group_tests(tests, both_setups, both_teardowns);
}
