/* cajal/nn.h: modules and parameters.
 *
 * A module is a tree: names, parameters, children, mode.  Parameter names equal PyTorch's state_dict names ("0.weight").  Modules live as long as the context.
 */
#ifndef CAJAL_NN_H
#define CAJAL_NN_H

#include <cajal/core.h>
#include <cajal/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters -------------------------------------------------------------------------------------------------------------------------- */

/* A persistent leaf with t's value (copied): gradients are asked for it, optimisers update it. */
CJ_API cj_tensor *cj_param(cj_tensor *t);

/* The parameters of a tree, each once (a shared one too), in order of first use, with their names. */
typedef struct cj_params cj_params;
CJ_API int cj_params_count(const cj_params *p);
CJ_API cj_tensor *cj_params_at(const cj_params *p, int i);
CJ_API const char *cj_params_name(const cj_params *p, int i);
CJ_API cj_tensor *cj_params_find(const cj_params *p, const char *name);  /* NULL where there is none */
CJ_API int64_t cj_params_numel(const cj_params *p);                      /* elements of all */
/* Lays all parameters of a dtype out as slices of one aligned buffer; the tensors stay valid. cj_params_flat then is that buffer as a 1-D tensor. */
CJ_API bool cj_params_flatten(cj_params *p);
CJ_API cj_tensor *cj_params_flat(const cj_params *p, cj_dtype dtype);    /* NULL before flatten or without such parameters */
CJ_API void cj_zero_grad(cj_params *p);

/* ---- modules ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_module cj_module;

/* How a kind of module works: forward of unary modules; `self` is the memory asked for in cj_module_new. */
typedef struct cj_module_type {
    const char *name;
    cj_tensor *(*forward)(cj_module *m, void *self, cj_tensor *x);
    void (*free)(cj_module *m, void *self);  /* for what self owns besides children and parameters; may be NULL */
} cj_module_type;

CJ_API cj_module *cj_module_new(cj_ctx *c, const cj_module_type *type, size_t self_size);  /* self is zeroed */
CJ_API void *cj_module_self(const cj_module *m);
CJ_API cj_ctx *cj_module_ctx(const cj_module *m);
CJ_API const char *cj_module_type_name(const cj_module *m);
CJ_API cj_module *cj_module_add(cj_module *m, const char *name, cj_module *child);         /* returns the child */
CJ_API cj_tensor *cj_module_param(cj_module *m, const char *name, cj_tensor *value);       /* registers a parameter made from value (or a shared one as it is) */
CJ_API cj_tensor *cj_module_buffer(cj_module *m, const char *name, cj_tensor *value);      /* a persistent tensor that is saved but not trained */
CJ_API int cj_module_children(const cj_module *m);
CJ_API cj_module *cj_module_child(const cj_module *m, int i);
CJ_API const char *cj_module_child_name(const cj_module *m, int i);
CJ_API cj_module *cj_module_find(const cj_module *m, const char *name);                    /* the child of that name, NULL where there is none */
CJ_API cj_params *cj_module_params(cj_module *m);                                          /* lives with the module */
/* Parameters and buffers by name, as saved in checkpoints; returns their number, calls visit for each. */
CJ_API int cj_module_state(cj_module *m, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
CJ_API void cj_module_train(cj_module *m, bool training);                                  /* the whole tree; training is the default */
CJ_API bool cj_module_training(const cj_module *m);

/* Runs a unary module in an inner scope: its temporaries go when it returns. */
CJ_API cj_tensor *cj_forward(cj_module *m, cj_tensor *x);

/* ---- layers ---------------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_linear_opts {
    bool no_bias;
    double init_std;   /* 0: PyTorch's default, uniform ±1/sqrt(in) */
    bool zero_bias;
} cj_linear_opts;
CJ_API cj_module *cj_linear(cj_ctx *c, int64_t in, int64_t out, const cj_linear_opts *opts);    /* weight [out, in], bias [out] */
typedef struct cj_embedding_opts {
    double init_std;   /* 0: 1 as in PyTorch */
} cj_embedding_opts;
CJ_API cj_module *cj_embedding_layer(cj_ctx *c, int64_t count, int64_t dim, const cj_embedding_opts *opts);  /* weight [count, dim] */
typedef struct cj_layer_norm_opts {
    double eps;        /* 1e-5 */
    bool no_affine, no_bias;
} cj_layer_norm_opts;
CJ_API cj_module *cj_layer_norm_layer(cj_ctx *c, int64_t dim, const cj_layer_norm_opts *opts);
CJ_API cj_module *cj_dropout_layer(cj_ctx *c, double p);
CJ_API cj_module *cj_relu_layer(cj_ctx *c);
CJ_API cj_module *cj_tanh_layer(cj_ctx *c);
CJ_API cj_module *cj_sigmoid_layer(cj_ctx *c);
CJ_API cj_module *cj_gelu_layer(cj_ctx *c);
CJ_API cj_module *cj_flatten_layer(cj_ctx *c);
/* Modules one after the other, named "0", "1", …; the array ends with NULL. */
CJ_API cj_module *cj_sequential(cj_ctx *c, cj_module *const *modules);

/* ---- layers with windows: names and initial values are PyTorch's (uniform ±1/sqrt(fan in)) --------------------------------------------------- */

typedef struct cj_conv_layer_opts {
    cj_conv_opts conv;  /* stride, padding, dilation, groups …: cj_conv_layer(c, 3, 8, CJ_SHAPE(3, 3), .conv = { .stride = 2 }) */
    bool no_bias;
} cj_conv_layer_opts;
/* weight [out, in/groups, kernel ..], bias [out]; the kernel has 1, 2 or 3 axes. */
CJ_API cj_module *cj_conv_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape kernel, const cj_conv_layer_opts *opts);
/* A kernel per channel ("depthwise.weight" [in, 1, kernel ..]), then a mixture of channels ("pointwise.weight" [out, in, 1 ..]). conv.groups must not be given. */
CJ_API cj_module *cj_separable_conv_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape kernel, const cj_conv_layer_opts *opts);
typedef struct cj_conv_transpose_layer_opts {
    cj_conv_transpose_opts conv;
    bool no_bias;
} cj_conv_transpose_layer_opts;
/* weight [in, out/groups, kernel ..], bias [out]; PyTorch counts out/groups·kernel as its fan in. */
CJ_API cj_module *cj_conv_transpose_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape kernel, const cj_conv_transpose_layer_opts *opts);
/* cj_max_pool without its index, cj_avg_pool, pooling to a size, and [N, C, ..] -> [N, C] over all positions. */
CJ_API cj_module *cj_max_pool_layer(cj_ctx *c, const cj_pool_opts *opts);
CJ_API cj_module *cj_avg_pool_layer(cj_ctx *c, const cj_pool_opts *opts);
CJ_API cj_module *cj_adaptive_avg_pool_layer(cj_ctx *c, cj_shape size);
CJ_API cj_module *cj_adaptive_max_pool_layer(cj_ctx *c, cj_shape size);
CJ_API cj_module *cj_global_avg_pool_layer(cj_ctx *c);
CJ_API cj_module *cj_global_max_pool_layer(cj_ctx *c);
CJ_API cj_module *cj_upsample_layer(cj_ctx *c, const cj_interpolate_opts *opts);

/* ---- activations by name, residual connections, bilinear forms -------------------------------------------------------------------------------- */

/* The parameters of all activations; 0 means the operator's default, CJ_ZERO means 0. */
typedef struct cj_activation_opts {
    double slope;            /* leaky_relu: 0.01; prelu: every slope's first value, 0.25 */
    double alpha;            /* elu, celu: 1 */
    double lambda;           /* softshrink, hardshrink: 0.5 */
    double low, high;        /* hardtanh: -1, 1 */
    double beta;             /* softplus_beta: 1 */
    double threshold, value; /* threshold: x above the threshold, else value; softplus_beta: x itself above the threshold */
    double temperature;      /* softmax_temperature: 1 */
    cj_axes axis;            /* softmax and its kin, gated units, maxout: the last */
    int64_t pieces;          /* maxout: 2 */
    int64_t channels;        /* prelu: slopes, one for each channel; 1 */
} cj_activation_opts;
/* A layer that applies the operator cj_NAME: "relu", "leaky_relu", "gelu", "gelu_tanh", "swiglu" …; prelu has a parameter "weight". */
CJ_API cj_module *cj_activation_layer(cj_ctx *c, const char *name, const cj_activation_opts *opts);
CJ_API int cj_activation_count(void);
CJ_API const char *cj_activation_name(int i);  /* NULL beyond the last */

/* body(x) + shortcut(x), or body(x) + x where shortcut is NULL; children "body" and "shortcut". */
CJ_API cj_module *cj_residual_layer(cj_ctx *c, cj_module *body, cj_module *shortcut);

typedef struct cj_bilinear_opts {
    bool no_bias;
} cj_bilinear_opts;
/* y_o = aᵀ·weight_o·b + bias_o: weight [out, in_a, in_b]; uniform ±1/sqrt(in_a). */
CJ_API cj_module *cj_bilinear_layer(cj_ctx *c, int64_t in_a, int64_t in_b, int64_t out, const cj_bilinear_opts *opts);
CJ_API cj_tensor *cj_bilinear_forward(cj_module *m, cj_tensor *a, cj_tensor *b);  /* [.., in_a], [.., in_b] -> [.., out] */

/* ---- normalisation layers -------------------------------------------------------------------------------------------------------------------------- */

typedef struct cj_batch_norm_layer_opts {
    double eps;         /* 1e-5 */
    double momentum;    /* 0.1 */
    bool cumulative;    /* running statistics are averages over all batches */
    bool no_affine;     /* without weight and bias */
    bool no_running;    /* without running statistics: the batch's own in evaluation too */
    bool relu;          /* max(.., 0) of the result, in the same pass */
} cj_batch_norm_layer_opts;
/* Parameters weight, bias [channels]; buffers running_mean, running_var, num_batches_tracked. Statistics of the batch in training, the running ones in evaluation. */
CJ_API cj_module *cj_batch_norm_layer(cj_ctx *c, int64_t channels, const cj_batch_norm_layer_opts *opts);
/* Estimates the running statistics of all batch norm layers of a tree anew, as averages over these batches: nothing else changes, dropout is off. Afterwards the whole
 * tree is in the mode that m had. False after an error. */
CJ_API bool cj_batch_norm_recalibrate(cj_module *m, cj_tensor *const *batches, int n);
typedef struct cj_norm_layer_opts {
    double eps;       /* the operator's default */
    bool no_affine;
} cj_norm_layer_opts;
CJ_API cj_module *cj_group_norm_layer(cj_ctx *c, int64_t groups, int64_t channels, const cj_norm_layer_opts *opts);
/* PyTorch's InstanceNorm has no parameters unless asked for: affine. */
typedef struct cj_instance_norm_layer_opts {
    double eps;       /* 1e-5 */
    bool affine;
} cj_instance_norm_layer_opts;
CJ_API cj_module *cj_instance_norm_layer(cj_ctx *c, int64_t channels, const cj_instance_norm_layer_opts *opts);
CJ_API cj_module *cj_rms_norm_layer(cj_ctx *c, int64_t dim, const cj_norm_layer_opts *opts);

/* ---- recurrent layers: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, …_l0_reverse; uniform ±1/sqrt(hidden) -------------------------------------- */

typedef struct cj_recurrent_layer_opts {
    int layers;                         /* 1 */
    bool bidirectional, batch_first, no_bias;
    double dropout;                     /* between layers, in training */
    cj_recurrent_activation activation; /* rnn, light_gru */
} cj_recurrent_layer_opts;
CJ_API cj_module *cj_rnn_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts);
CJ_API cj_module *cj_lstm_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts);
CJ_API cj_module *cj_gru_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts);
CJ_API cj_module *cj_light_gru_layer(cj_ctx *c, int64_t in, int64_t hidden, const cj_recurrent_layer_opts *opts);
/* Before the call the first state (NULL: zeros), after it the last: [layers·directions, N, hidden] each; c is an lstm's. */
typedef struct cj_recurrent_state {
    cj_tensor *h, *c;
} cj_recurrent_state;
/* y of all steps; cj_forward is this without lengths and state. lengths: i64 [N] or NULL; state may be NULL. After an error the state is as before. */
CJ_API cj_tensor *cj_recurrent_forward(cj_module *m, cj_tensor *x, cj_tensor *lengths, cj_recurrent_state *state);

/* ---- attention, positions, transformers: examples first, [N, T, dim] ------------------------------------------------------------------------------------ */

typedef struct cj_multihead_opts {
    double dropout;  /* of attention weights, in training */
    bool no_bias;
} cj_multihead_opts;
/* in_proj_weight [3·dim, dim] (Xavier), in_proj_bias [3·dim] (0), out_proj.weight [dim, dim], out_proj.bias [dim] (0): torch.nn.MultiheadAttention
 * with batch_first. */
CJ_API cj_module *cj_multihead_attention(cj_ctx *c, int64_t dim, int heads, const cj_multihead_opts *opts);
/* Keys and values of the positions seen so far: [N, heads, capacity, dim/heads]; length, i64 0-d, counts them. All persistent. */
typedef struct cj_kv_cache {
    cj_tensor *k, *v, *length;
} cj_kv_cache;
CJ_API cj_kv_cache cj_kv_cache_new(cj_module *m, int64_t batch, int64_t capacity);
CJ_API void cj_kv_cache_free(cj_kv_cache *cache);
typedef struct cj_multihead_call_opts {
    bool causal;
    cj_tensor *mask;         /* as cj_attention's, broadcasts to [N, heads, Tq, Tk]: bool, true may attend (PyTorch's bool masks mean the opposite), or floats to add */
    cj_kv_cache *cache;      /* key and value are appended to it and the queries attend to all it holds, without gradients; more than its capacity is an error */
} cj_multihead_call_opts;
CJ_API cj_tensor *cj_multihead_forward(cj_module *m, cj_tensor *query, cj_tensor *key, cj_tensor *value, const cj_multihead_call_opts *opts);

/* p[t, 2i] = sin(t·w_i), p[t, 2i+1] = cos(t·w_i), w_i = 10000^(-2i/dim): [length, dim], dim even. */
CJ_API cj_tensor *cj_sinusoidal_positions(cj_ctx *c, int64_t length, int64_t dim);
/* x [.., T, dim] + the first T positions: sinusoidal, or learned ones (weight [capacity, dim], normal with deviation 0.02). T beyond the capacity is an error. */
CJ_API cj_module *cj_sinusoidal_layer(cj_ctx *c, int64_t dim);
CJ_API cj_module *cj_learned_positions_layer(cj_ctx *c, int64_t capacity, int64_t dim);
/* Rotary positions (Su et al. 2021) of queries or keys x [.., T, d], d even: with t = start + row and w_i = base^(-2i/d) the pair
 * (x_i, x_(i+d/2)) is turned by the angle t·w_i; base 0: 10000. A product of a turned query and a turned key depends on the difference of their positions only. */
CJ_API cj_tensor *cj_rotary(cj_tensor *x, int64_t start, double base);

typedef struct cj_transformer_opts {
    int64_t feed_forward;    /* 2048 */
    double dropout;          /* 0.1; CJ_ZERO: none */
    const char *activation;  /* by name: "relu" */
    bool norm_first;         /* x + f(norm(x)) instead of norm(x + f(x)) */
    double eps;              /* of the norms; 1e-5 */
} cj_transformer_opts;
/* self_attn, linear1, linear2, norm1, norm2 as torch.nn.TransformerEncoderLayer; cj_forward is the call without a mask. */
CJ_API cj_module *cj_transformer_encoder_layer(cj_ctx *c, int64_t dim, int heads, const cj_transformer_opts *opts);
CJ_API cj_tensor *cj_transformer_encoder_forward(cj_module *m, cj_tensor *x, const cj_multihead_call_opts *opts);
/* self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3 as torch.nn.TransformerDecoderLayer; opts are those of self
 * attention, memory_mask [.., Tq, Tm] or NULL. */
CJ_API cj_module *cj_transformer_decoder_layer(cj_ctx *c, int64_t dim, int heads, const cj_transformer_opts *opts);
CJ_API cj_tensor *cj_transformer_decoder_forward(cj_module *m, cj_tensor *x, cj_tensor *memory, cj_tensor *memory_mask, const cj_multihead_call_opts *opts);

/* ---- initial values: each writes t (a parameter or another persistent tensor) from the stream CJ_STREAM_INIT and returns it ------------------------------ */

/* Of a weight [out, in, kernel ..]: fan in is in·kernel, fan out is out·kernel. */
typedef enum cj_fan { CJ_FAN_IN, CJ_FAN_OUT, CJ_FAN_MEAN } cj_fan;
CJ_API cj_tensor *cj_init_constant_(cj_tensor *t, double value);
CJ_API cj_tensor *cj_init_uniform_(cj_tensor *t, double low, double high);
CJ_API cj_tensor *cj_init_normal_(cj_tensor *t, double mean, double std);
/* Normal, conditioned on lying in [low, high], by inversion. */
CJ_API cj_tensor *cj_init_truncated_normal_(cj_tensor *t, double mean, double std, double low, double high);
CJ_API cj_tensor *cj_init_identity_(cj_tensor *t);                        /* [n, m]: 1 on the diagonal */
CJ_API cj_tensor *cj_init_xavier_uniform_(cj_tensor *t, double gain);     /* ±gain·sqrt(6/(fan in + fan out)); gain 0: 1 */
CJ_API cj_tensor *cj_init_xavier_normal_(cj_tensor *t, double gain);      /* deviation gain·sqrt(2/(fan in + fan out)) */
CJ_API cj_tensor *cj_init_kaiming_uniform_(cj_tensor *t, cj_fan fan, double gain); /* ±gain·sqrt(3/fan); gain 0: sqrt 2, for relu */
CJ_API cj_tensor *cj_init_kaiming_normal_(cj_tensor *t, cj_fan fan, double gain);  /* deviation gain/sqrt(fan); CJ_FAN_MEAN: the mean of both fans */
/* Orthonormal rows or columns, whichever are fewer, times gain (0: 1): Gram-Schmidt, twice, of a normal matrix [first axis, the others]. */
CJ_API cj_tensor *cj_init_orthogonal_(cj_tensor *t, double gain);
/* The gain of an activation by name as in PyTorch: linear and sigmoid 1, tanh 5/3, relu sqrt 2, leaky_relu sqrt(2/(1 + slope²))
 * with 0.01 for slope 0, selu 3/4; NaN else. */
CJ_API double cj_init_gain(const char *activation, double slope);

/* ---- regularisation ---------------------------------------------------------------------------------------------------------------------------------- */

/* 0-d terms for a loss, over all parameters: sum |w|, sum w², l1·sum |w| + l2·sum w². */
CJ_API cj_tensor *cj_l1_penalty(const cj_params *p);
CJ_API cj_tensor *cj_l2_penalty(const cj_params *p);
CJ_API cj_tensor *cj_elastic_net_penalty(const cj_params *p, double l1, double l2);
/* Rows w[i] of a norm above `most` are scaled down to it, in place; for after a step. Returns w. */
CJ_API cj_tensor *cj_max_norm_(cj_tensor *w, double most);

#ifdef __cplusplus
}
#endif
#endif
