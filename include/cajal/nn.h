/* cajal/nn.h: modules and parameters.
 *
 * A module is a tree: names, parameters, children, mode.  Parameter names equal PyTorch's state_dict names ("0.weight").  Modules live as long as the context.
 */
#ifndef CAJAL_NN_H
#define CAJAL_NN_H

#include <cajal/core.h>
#include <cajal/grad.h>
#include <cajal/math.h>
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
/* Frozen parameters of a tree get no gradients and are not in cj_module_params; cj_module_state still has them. With false they come back. Make optimisers and capture
 * steps afterwards: an optimiser made before refuses its next step. */
CJ_API void cj_module_freeze(cj_module *m, bool frozen);
/* fn sees input and output after every pass of this very module (cj_keep what must stay); NULL ends it. Not after an error. */
typedef void (*cj_module_hook_fn)(void *user, cj_module *m, cj_tensor *x, cj_tensor *y);
CJ_API void cj_module_hook(cj_module *m, cj_module_hook_fn fn, void *user);

/* Runs a unary module in an inner scope: its temporaries go when it returns. */
CJ_API cj_tensor *cj_forward(cj_module *m, cj_tensor *x);

/* ---- what a network has, costs and sees ----------------------------------------------------------------------------------------------------- */

typedef struct cj_module_row {
    char path[CJ_MAX_PATH_NAME];
    const char *type;
    cj_shape output;
    int64_t params;       /* elements of its own parameters; a shared one counts where it is met first */
    int64_t bytes;        /* of its own parameters and buffers */
    int64_t activations;  /* elements of its output, per example */
    double flops;         /* of a forward pass, per example, without its children */
    int64_t field[3];     /* receptive field along each spatial axis; -1: the whole input; 0: not known, or no such axis */
} cj_module_row;
typedef struct cj_describe_opts {
    cj_dtype dtype;       /* of the input; i64 for tokens */
} cj_describe_opts;
/* Runs the module once, in evaluation, on zeros [examples, ..] and describes its layers in the order in which they run. Returns their number, of which at most n are
 * written; -1 after an error, and then nothing has changed. */
CJ_API int cj_module_describe(cj_module *m, cj_shape input, cj_module_row *rows, int n, const cj_describe_opts *opts);
typedef struct cj_module_summary {
    int64_t params, bytes, activations;
    double flops;
    int64_t depth, width, capacity;  /* hidden layers of units (linear, convolution), the widest, all hidden units */
    bool deep;                       /* more than one hidden layer */
    bool fully_connected, acyclic;   /* only linear layers have parameters; none is recurrent */
} cj_module_summary;
CJ_API cj_module_summary cj_module_summarise(const cj_module_row *rows, int n);
/* size[l] = positions of the input that a value of layer l sees: r_l = r_(l-1) + (kernel - 1)·dilation·(product of the strides below). NULL: ones. False for sizes below 1. */
CJ_API bool cj_receptive_field(const int64_t *kernel, const int64_t *stride, const int64_t *dilation, int n, int64_t *size);

/* max |fn(s(x)) - s'(fn(x))| for a symmetry s of the input and s' of the output: equivariance; s' NULL: invariance. NaN after an error. */
CJ_API double cj_symmetry_error(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, cj_fn of_input, cj_fn of_output, void *symmetry);
/* The largest derivative, in a random direction of the output, of a step of fn(x) with respect to later steps along the axis: 0 for a causal function. */
CJ_API double cj_causality_error(cj_ctx *c, cj_fn fn, void *user, cj_tensor *x, int axis);

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
/* Linear with edges left out: mask [out, in], 0 where there is none. Masked weights are 0, get no gradient and stay 0; "mask" is a buffer. */
CJ_API cj_module *cj_masked_linear(cj_ctx *c, cj_tensor *mask, const cj_linear_opts *opts);
/* An order of the units 0 … units-1 in which every edge from -> to goes forward, and each unit's level (0: nothing feeds it). False: there is a circle, or a unit that is none. */
CJ_API bool cj_topological_order(const int64_t (*edge)[2], int64_t edges, int64_t units, int64_t *order, int64_t *level);
/* A feed-forward network on any such graph: units 0 … inputs-1 are the inputs, the units of the highest level the outputs, in ascending order and without activation ("tanh" by
 * default, by name). x [n, inputs] -> [n, outputs]; weight [units, units] (to, from), zero and without gradient where there is no edge, bias [units], buffers mask and order. */
CJ_API cj_module *cj_dag_layer(cj_ctx *c, int64_t inputs, int64_t units, const int64_t (*edge)[2], int64_t edges, const char *activation);
typedef struct cj_dropout_layer_opts {
    bool standard;     /* Srivastava et al. 2014: survivors as they are in training, all times 1 - p in evaluation; else inverted dropout */
    bool always;       /* in evaluation too */
} cj_dropout_layer_opts;
CJ_API cj_module *cj_dropout_layer(cj_ctx *c, double p, const cj_dropout_layer_opts *opts);
typedef struct cj_mean_variance {
    cj_tensor *mean, *variance;
} cj_mean_variance;
/* Mean and unbiased variance of `samples` passes with dropout on and everything else in evaluation (Gal & Ghahramani 2016); without gradients. The tree has afterwards the
 * mode that m had. */
CJ_API cj_mean_variance cj_mc_dropout(cj_module *m, cj_tensor *x, int64_t samples);
CJ_API cj_module *cj_noise_layer(cj_ctx *c, double std);  /* x + normal noise in training, x in evaluation */
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
/* Weights of their own at every position of an input of this size (1 or 2 axes): weight [out, in, positions .., kernel ..], bias [out]; stride, padding, mode. */
CJ_API cj_module *cj_locally_connected_layer(cj_ctx *c, int64_t in, int64_t out, cj_shape size, cj_shape kernel, const cj_conv_layer_opts *opts);
/* cj_max_pool without its index, cj_avg_pool, pooling to a size, and [N, C, ..] -> [N, C] over all positions. */
CJ_API cj_module *cj_max_pool_layer(cj_ctx *c, const cj_pool_opts *opts);
CJ_API cj_module *cj_min_pool_layer(cj_ctx *c, const cj_pool_opts *opts);
CJ_API cj_pooled cj_max_pool_forward(cj_module *m, cj_tensor *x);  /* of a max_pool layer, with the index that unpooling needs */
/* Values back where the index says; size (0 axes: the smallest that pools to x) of the planes. It has a function of its own. */
CJ_API cj_module *cj_max_unpool_layer(cj_ctx *c, const cj_pool_opts *opts);
CJ_API cj_tensor *cj_max_unpool_forward(cj_module *m, cj_tensor *x, cj_tensor *index, cj_shape size);
/* sum x·e^(beta·x) / sum e^(beta·x) of every window: the mean for beta 0, towards the maximum (minimum) as beta grows (falls). Learned: a parameter "beta", 0-d. */
CJ_API cj_module *cj_softmax_pool_layer(cj_ctx *c, double beta, bool learned, const cj_pool_opts *opts);
CJ_API cj_module *cj_avg_pool_layer(cj_ctx *c, const cj_pool_opts *opts);
CJ_API cj_module *cj_adaptive_avg_pool_layer(cj_ctx *c, cj_shape size);
CJ_API cj_module *cj_adaptive_max_pool_layer(cj_ctx *c, cj_shape size);
CJ_API cj_module *cj_global_avg_pool_layer(cj_ctx *c);
CJ_API cj_module *cj_global_max_pool_layer(cj_ctx *c);
CJ_API cj_module *cj_upsample_layer(cj_ctx *c, const cj_interpolate_opts *opts);

/* ---- the choice of a convolution algorithm ------------------------------------------------------------------------------------------------------------------------ */

/* implicit: cj_conv; columns: unfolded windows and one product; FFT: the product of spectra. The last two take images with two axes, one group and zeros beyond the border, the FFT
 * stride and dilation 1 and as many values as fit. Results agree up to rounding; all have derivatives. */
typedef enum cj_conv_algorithm { CJ_CONV_IMPLICIT, CJ_CONV_COLUMNS, CJ_CONV_FFT, CJ_CONV_ALGORITHMS } cj_conv_algorithm;
CJ_API cj_tensor *cj_conv_by(cj_conv_algorithm a, cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts);
/* Times all algorithms on the first pass of each shape and keeps the fastest. Choices depend on the clock, so results are repeatable up to rounding only; disabled it is cj_conv, to the
 * bit. A step that is recorded uses what passes before it have found. */
typedef struct cj_conv_tuner cj_conv_tuner;
typedef struct cj_conv_timing {
    cj_conv_algorithm algorithm;        /* the fastest */
    double seconds[CJ_CONV_ALGORITHMS]; /* of a forward pass; INFINITY: it does not take this one */
} cj_conv_timing;
CJ_API cj_conv_tuner *cj_conv_tuner_new(cj_ctx *c);
CJ_API void cj_conv_tuner_free(cj_conv_tuner *t);                     /* before the context */
CJ_API void cj_conv_tuner_enable(cj_conv_tuner *t, bool on);          /* on by default */
CJ_API cj_tensor *cj_conv_tuned(cj_conv_tuner *t, cj_tensor *x, cj_tensor *weight, cj_tensor *bias, const cj_conv_opts *opts);
CJ_API int cj_conv_tuner_count(const cj_conv_tuner *t);               /* shapes met so far */
CJ_API cj_conv_timing cj_conv_tuner_at(const cj_conv_tuner *t, int i); /* in the order in which they were met */

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

/* x and body(x) one after the other along the axis, 1 (channels) where none is given: densely connected layers (Huang et al. 2017); child "body". */
CJ_API cj_module *cj_dense_connection_layer(cj_ctx *c, cj_module *body, cj_axes axis);

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
typedef struct cj_whiten_layer_opts {
    double eps;       /* on the diagonal of the covariance; 1e-5, CJ_ZERO: none */
    double momentum;  /* 0.1 */
} cj_whiten_layer_opts;
/* x [n, dim] centred and multiplied by covariance^(-1/2) (ZCA): of the batch in training; in evaluation by the buffers running_mean and running_matrix, its moving averages. */
CJ_API cj_module *cj_whiten_layer(cj_ctx *c, int64_t dim, const cj_whiten_layer_opts *opts);
/* From now on the layer's weight is weight_g · weight_v / |weight_v|, the norm over all axes but one (0 where none is given); at first the weight that it had. For layers
 * with a parameter "weight" of two axes or more: linear, embedding, convolutions, bilinear. Returns the layer; NULL after an error, and then it is as it was. */
CJ_API cj_module *cj_weight_norm_layer(cj_module *layer, cj_axes axis);
typedef struct cj_spectral_norm_layer_opts {
    int64_t iterations;  /* of the power method in a training pass; 1 */
    double eps;          /* 1e-12 */
} cj_spectral_norm_layer_opts;
/* The weight is weight_orig / sigma, its largest singular value as a matrix [out, the others]; buffers weight_u and weight_v hold the vectors of the power method,
 * which every pass in training brings forward, also when there are several in one step (PyTorch's meaning); a pass in evaluation leaves them. */
CJ_API cj_module *cj_spectral_norm_layer(cj_module *layer, const cj_spectral_norm_layer_opts *opts);

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
/* Where the heads look, for pictures: [N, heads, Tq, Tk], rows sum to 1 (to 0 where a query may attend to nothing); without dropout. opts.cache must not be given. */
CJ_API cj_tensor *cj_multihead_weights(cj_module *m, cj_tensor *query, cj_tensor *key, const cj_multihead_call_opts *opts);

/* Attention whose weights are the softmax over the keys of a score (Bahdanau et al. 2015, Luong et al. 2015, without scaling):
 *   additive vectorᵀ·tanh(query·q + key·k)     dot qᵀ·k     general kᵀ·weight·q     reduced rank (query·q)ᵀ·(key·k) */
typedef enum cj_score { CJ_SCORE_ADDITIVE, CJ_SCORE_DOT, CJ_SCORE_GENERAL, CJ_SCORE_REDUCED_RANK } cj_score;
/* Parameters as the score has them: query [rank, query_dim], key [rank, key_dim], vector [rank], weight [key_dim, query_dim]. */
CJ_API cj_module *cj_score_attention(cj_ctx *c, cj_score score, int64_t query_dim, int64_t key_dim, int64_t rank);
typedef struct cj_attended {
    cj_tensor *value;    /* [.., Tq, d] */
    cj_tensor *weights;  /* [.., Tq, Tk]: rows sum to 1 */
} cj_attended;
/* query [.., Tq, query_dim], key [.., Tk, key_dim], value [.., Tk, d]; mask bool, true may attend, or NULL. */
CJ_API cj_attended cj_score_attention_forward(cj_module *m, cj_tensor *query, cj_tensor *key, cj_tensor *value, cj_tensor *mask);
/* Self-attention between the positions of a feature map x [N, channels, ..] -> [N, out, ..]: with h_i the channels at position i, k_i = key·h_i, q_i = query·h_i, v_i = value·h_i
 * (each max(.., 0) with relu) the result at j is sum_i softmax_i(k_iᵀ·q_j)·v_i. key, query [dim, channels], value [out, channels]. The weights: [N, positions j, positions i]. */
CJ_API cj_module *cj_map_attention_layer(cj_ctx *c, int64_t channels, int64_t dim, int64_t out, bool relu);
CJ_API cj_tensor *cj_map_attention_weights(cj_module *m, cj_tensor *x);
/* A learned number for every difference of positions up to ±span (farther ones count as the last), per head: weight [heads, 2·span + 1]. cj_relative_bias gives
 * weight[h, k - q] as [heads, queries, keys], a mask to add in cj_attention. */
CJ_API cj_module *cj_relative_positions_layer(cj_ctx *c, int64_t heads, int64_t span);
CJ_API cj_tensor *cj_relative_bias(cj_module *m, int64_t queries, int64_t keys);

/* A·x·weightᵀ + bias over the nodes x [n, in] of a graph with matrix A [n, n] (Kipf & Welling 2017): weight [out, in] (Xavier), bias [out] (0). */
CJ_API cj_module *cj_graph_conv_layer(cj_ctx *c, int64_t in, int64_t out, const cj_linear_opts *opts);
CJ_API cj_tensor *cj_graph_conv_forward(cj_module *m, cj_csr a, cj_tensor *x);
CJ_API cj_csr cj_graph_normalise(cj_csr a);  /* D^(-1/2)·(A + 1)·D^(-1/2), D the row sums of A + 1; not capturable */

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
CJ_API cj_tensor *cj_init_dirac_(cj_tensor *t, int64_t groups);           /* [out, in, kernel ..]: a convolution that copies its channels; groups 0: 1 */
CJ_API cj_tensor *cj_init_sparse_(cj_tensor *t, double sparsity, double std); /* [n, m]: ceil(sparsity·n) zeros per column, the others normal (deviation 0: 0.01) */
/* The gain of an activation by name as in PyTorch: linear and sigmoid 1, tanh 5/3, relu sqrt 2, leaky_relu sqrt(2/(1 + slope²))
 * with 0.01 for slope 0, selu 3/4; NaN else. */
CJ_API double cj_init_gain(const char *activation, double slope);

/* ---- regularisation ---------------------------------------------------------------------------------------------------------------------------------- */

/* 0-d terms for a loss, over all parameters: sum |w|, sum w², l1·sum |w| + l2·sum w². */
CJ_API cj_tensor *cj_l1_penalty(const cj_params *p);
CJ_API cj_tensor *cj_l2_penalty(const cj_params *p);
CJ_API cj_tensor *cj_elastic_net_penalty(const cj_params *p, double l1, double l2);
/* -sum log p(w) over all parameters, p the prior of a number (cj_dist_normal, cj_dist_laplace …): the sum of n examples' negative log-likelihoods plus it has its minimum at the
 * maximum of the posterior; with a mean over n examples add 1/n of it. Of N(0, s²): L2 with weight 1/(2s²), of Laplace(0, b): L1 with 1/b, up to constants. */
CJ_API cj_tensor *cj_prior_penalty(const cj_params *p, cj_dist prior);
/* Rows w[i] of a norm above `most` are scaled down to it, in place; for after a step. Returns w. */
CJ_API cj_tensor *cj_max_norm_(cj_tensor *w, double most);

/* The same for weights alone, parameters with two axes or more: mu/2 · sum |W|² (Frobenius), mu/2 · sum of the squared largest singular values (Yoshida & Miyato 2017). */
CJ_API cj_tensor *cj_tikhonov_penalty(const cj_params *p, double mu);
CJ_API cj_tensor *cj_spectral_penalty(const cj_params *p, double mu);
/* Mean over the examples of |d y/d x|² (Frobenius), one backward pass per output; differentiable. For modules that do not mix examples. */
CJ_API cj_tensor *cj_jacobian_penalty(cj_module *m, cj_tensor *x);
typedef struct cj_distillation_opts {
    double temperature;  /* 4 */
    double lambda;       /* 0.9; CJ_ZERO: 0 */
} cj_distillation_opts;
/* lambda·T²·KL(softmax(teacher/T) | softmax(student/T)) + (1 - lambda)·cross-entropy(student, target), means over the examples; logits [.., C], target i64 [..] or NULL
 * where lambda is 1. No gradient to the teacher. */
CJ_API cj_tensor *cj_distillation_loss(cj_tensor *student, cj_tensor *teacher, cj_tensor *target, const cj_distillation_opts *opts);
/* Matrix factorisation with dropout of the factors, in expectation: sum over entries of seen·((value - u·vᵀ)² + (1 - keep)/keep · (u∘u)·(v∘v)ᵀ), the mean of seen·(value - (m∘u/keep)·vᵀ)²
 * over masks m that keep each factor with probability keep in (0, 1]; value and seen (0 or 1) [n, m], u [n, k], v [m, k]. 0-d. */
CJ_API cj_tensor *cj_dropout_factorisation_loss(cj_tensor *value, cj_tensor *seen, cj_tensor *u, cj_tensor *v, double keep);
typedef struct cj_ensemble_opts {
    bool probabilities;  /* the mean of softmax(member(x)) over the last axis, as its logarithm: log-probabilities, which cj_nll_loss and cj_argmax take */
} cj_ensemble_opts;
/* The mean of the members' results for the same x; members are named "0", "1", …. With members trained on cj_bootstrap draws of the rows: bagging (Breiman 1996). */
CJ_API cj_module *cj_ensemble_layer(cj_ctx *c, cj_module *const *members, int n, const cj_ensemble_opts *opts);
CJ_API cj_tensor *cj_bootstrap(cj_ctx *c, int64_t n);  /* i64 [n]: n draws of 0 … n-1 with replacement, from CJ_STREAM_DATA */

/* 1 at the ceil(keep·n) largest |w|, of equals the first, 0 elsewhere; w's dtype. */
CJ_API cj_tensor *cj_magnitude_mask(cj_tensor *w, double keep);
/* Pruning of all parameters with two axes or more. It remembers the values at its making: train, cj_pruning_prune, cj_pruning_rewind, train again is the lottery ticket
 * (Frankle & Carbin 2019). Freed with the context. */
typedef struct cj_pruning cj_pruning;
CJ_API cj_pruning *cj_pruning_new(cj_params *p);
CJ_API bool cj_pruning_prune(cj_pruning *r, double keep);          /* keeps this share of each weight, what is pruned stays pruned; applies the masks */
CJ_API bool cj_pruning_apply(cj_pruning *r);                       /* weight = mask · weight: after every step */
CJ_API bool cj_pruning_rewind(cj_pruning *r);                      /* the first values, masked; all parameters */
CJ_API cj_tensor *cj_pruning_mask(const cj_pruning *r, int i);     /* of parameter i; NULL where it has none */

/* Keeps the parameters of the least loss; give it each validation loss. Freed with the context. */
typedef struct cj_early_stop cj_early_stop;
CJ_API cj_early_stop *cj_early_stop_new(cj_params *p, int64_t patience);
CJ_API bool cj_early_stop_update(cj_early_stop *e, double loss);   /* true: `patience` calls without improvement, or an error */
CJ_API bool cj_early_stop_restore(cj_early_stop *e);               /* parameters of the least loss, to the bit */
CJ_API int64_t cj_early_stop_best(const cj_early_stop *e);         /* its call, from 0; -1: none */

#ifdef __cplusplus
}
#endif
#endif
