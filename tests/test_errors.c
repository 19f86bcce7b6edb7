/* What bad input gets: a one-sentence error in the context, nothing leaked, nothing half-written, and a context that works again after cj_clear. */
#include <pthread.h>
#include <unistd.h>

#include "errors.h"

#if defined __SANITIZE_ADDRESS__
/* Requests that nobody can fulfil are refused, as malloc does it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
#endif

#define BIG ((int64_t)1 << 40)

/* ---- the table ---------------------------------------------------------------------------------------------------------------------------- */

/* name, code, what the message says, the call */
#define ROWS(X)                                                                                                                            \
    /* shapes */                                                                                                                           \
    X(matmul_inner, CJ_ESHAPE, "matmul: inner sizes differ: [64, 784] x [512, 10]", cj_matmul(F(64, 784), F(512, 10)))                     \
    X(matmul_batch, CJ_ESHAPE, "[2, 3, 4] x [5, 4, 3]", cj_matmul(F(2, 3, 4), F(5, 4, 3)))                                                 \
    X(matmul_scalar, CJ_ESHAPE, "0-d operand", cj_matmul(cj_scalar(c, 1), F(2, 2)))                                                        \
    X(dot_shape, CJ_ESHAPE, "dot: [2, 3] x [3]", cj_dot(F(2, 3), F(3)))                                                                    \
    X(outer_shape, CJ_ESHAPE, "outer: [2, 3] x [3]", cj_outer(F(2, 3), F(3)))                                                              \
    X(linear_shape, CJ_ESHAPE, "linear: input [5, 4] does not fit weight [2, 3]", cj_linear_op(F(5, 4), F(2, 3), NULL))                    \
    X(linear_bias, CJ_ESHAPE, "bias [3] does not fit weight [2, 4]", cj_linear_op(F(5, 4), F(2, 4), F(3)))                                 \
    X(broadcast, CJ_ESHAPE, "add: shapes do not broadcast: [2, 3] with [4, 3]", cj_add(F(2, 3), F(4, 3)))                                  \
    X(where_shape, CJ_ESHAPE, "where: shapes do not broadcast: [2], [3], [1]", cj_where(cj_gt_scalar(F(2), 0), F(3), F(1)))                \
    X(reshape_count, CJ_ESHAPE, "[2, 3] does not have the elements of [4, 2]", cj_reshape(F(2, 3), CJ_SHAPE(4, 2)))                        \
    X(reshape_two_open, CJ_ESHAPE, "reshape: bad size in [-1, -1]", cj_reshape(F(2, 3), CJ_SHAPE(-1, -1)))                                 \
    X(reshape_open, CJ_ESHAPE, "reshape", cj_reshape(F(2, 3), CJ_SHAPE(-1, 4)))                                                            \
    X(expand_shape, CJ_ESHAPE, "expand: [2, 3] does not expand to [4, 3]", cj_expand(F(2, 3), CJ_SHAPE(4, 3)))                             \
    X(squeeze_size, CJ_ESHAPE, "squeeze: axis 1 of [2, 3] has not size 1", cj_squeeze(F(2, 3), 1))                                         \
    X(permute_count, CJ_ESHAPE, "permute: 1 axes given for [2, 3]", cj_permute(F(2, 3), CJ_AXIS(0)))                                       \
    X(cat_shape, CJ_ESHAPE, "cat: [2, 4] does not fit [2, 3] along axis 0", cj_cat(CJ_TENSORS(F(2, 3), F(2, 4)), 2, 0))                    \
    X(stack_shape, CJ_ESHAPE, "stack: argument 2 is [4]", cj_stack(CJ_TENSORS(F(3), F(4)), 2, 0))                                          \
    X(gather_shape, CJ_ESHAPE, "gather: index [3, 1] does not fit [2, 3] off axis 1", cj_gather(F(2, 3), 1, I(3, 1)))                      \
    X(scatter_shape, CJ_ESHAPE, "scatter_add: source [2, 2]", cj_scatter_add(F(2, 3), 1, I(2, 1), F(2, 2)))                                \
    X(index_select_shape, CJ_ESHAPE, "index_select: the index has shape [1, 1]", cj_index_select(F(2, 3), 0, I(1, 1)))                     \
    X(index_add_shape, CJ_ESHAPE, "index_add: source [2, 2] and index [1] do not fit [2, 3]", cj_index_add(F(2, 3), 0, I(1), F(2, 2)))     \
    X(embedding_shape, CJ_ESHAPE, "embedding: the weight has shape [3], [V, D] expected", cj_embedding(F(3), I(1)))                        \
    X(ce_shape, CJ_ESHAPE, "cross_entropy: logits [4, 3] do not fit targets [5]", cj_cross_entropy(F(4, 3), I(5)))                         \
    X(ce_dims, CJ_ESHAPE, "cross_entropy: logits [4, 3] do not fit targets [4, 3]", cj_cross_entropy(F(4, 3), I(4, 3)))                    \
    X(mse_shape, CJ_ESHAPE, "mse_loss: input [4, 1] and target [4] have different shapes", cj_mse_loss(F(4, 1), F(4)))                     \
    X(l1_shape, CJ_ESHAPE, "l1_loss: input [4] and target [2]", cj_l1_loss(F(4), F(2)))                                                    \
    X(bce_shape, CJ_ESHAPE, "bce_loss: input [4] and target [2]", cj_bce_loss(F(4), F(2)))                                                 \
    X(bcel_shape, CJ_ESHAPE, "bce_with_logits: input [4] and target [2]", cj_bce_with_logits(F(4), F(2)))                                  \
    X(norm_weight, CJ_ESHAPE, "layer_norm: weight [3] f32 does not fit input [2, 4] f32", cj_layer_norm(F(2, 4), F(3), NULL, 0))           \
    X(norm_bias, CJ_ESHAPE, "layer_norm: bias [3] f32 does not fit input [2, 4] f32", cj_layer_norm(F(2, 4), F(4), F(3), 0))               \
    X(norm_scalar, CJ_ESHAPE, "layer_norm: a 0-d input", cj_layer_norm(cj_scalar(c, 1), NULL, NULL, 0))                                    \
    X(attention_shape, CJ_ESHAPE, "attention: q [4], k [4]", cj_attention(F(4), F(4), F(4)))                                               \
    X(tril_shape, CJ_ESHAPE, "tril: needs a matrix, got [3]", cj_tril(F(3), 0))                                                            \
    X(triu_shape, CJ_ESHAPE, "triu: needs a matrix, got [3]", cj_triu(F(3), 0))                                                            \
    X(assign_shape, CJ_ESHAPE, "assign_: [3] does not fit into [2]", cj_assign_(F(2), F(3)))                                               \
    X(assign_dims, CJ_ESHAPE, "assign_: [2, 2] does not fit into [2]", cj_assign_(F(2), F(2, 2)))                                          \
    X(add_shape, CJ_ESHAPE, "add_: [3] does not fit into [2]", cj_add_(F(2), F(3), 1))                                                     \
    X(write_slice_shape, CJ_ESHAPE, "write_slice_: [3, 2] f32 does not fit into [2, 2] f32",                                               \
      cj_write_slice_(F(2, 2), 0, cj_reshape(INDEX(0), CJ_SCALAR), F(3, 2)))                                                               \
    X(negative_size, CJ_ESHAPE, "negative size in [2, -3]", F(2, -3))                                                                      \
    X(eye_size, CJ_ESHAPE, "eye: size -1", cj_eye(c, -1, CJ_F32))                                                                          \
    X(too_many_dims, CJ_ESHAPE, "9 dimensions, at most 8 are possible", cj_full(c, 0, (cj_shape){ .ndim = 9 }, CJ_F32))                    \
    X(too_many_dims_data, CJ_ESHAPE, "9 dimensions", cj_from_f32(c, (float[]){ 0 }, (cj_shape){ .ndim = 9 }))                              \
    X(too_many_dims_draw, CJ_ESHAPE, "9 dimensions", cj_randn(c, (cj_shape){ .ndim = 9 }))                                                 \
    X(too_many_dims_reshape, CJ_ESHAPE, "9 dimensions", cj_reshape(F(1), (cj_shape){ .ndim = 9 }))                                         \
    X(unsqueeze_dims, CJ_ESHAPE, "8 dimensions already", cj_unsqueeze(F(1, 1, 1, 1, 1, 1, 1, 1), 0))                                       \
    X(unfold_dims, CJ_ESHAPE, "more than 8 dimensions", cj_unfold(F(1, 1, 1, 1, 1, 1, 1, 2), 7, 1, 1))                                     \
    X(one_hot_dims, CJ_ESHAPE, "too many dimensions", cj_one_hot(I(1, 1, 1, 1, 1, 1, 1, 1), 2))                                            \
    X(item_size, CJ_ESHAPE, "cj_item: the tensor [2, 2] has 4 elements, not 1", (cj_item(F(2, 2)), c->poison))                             \
    X(to_f32_size, CJ_ESHAPE, "room for 3 elements given, the tensor [2, 2] has 4", (cj_to_f32(F(2, 2), (float[4]){ 0 }, 3), c->poison))   \
    /* empty tensors and zero-size dimensions where there is nothing to choose from */                                                     \
    X(max_empty, CJ_ESHAPE, "max: nothing to choose from along the reduced axes of [2, 0]", cj_max(F(2, 0)))                               \
    X(min_empty, CJ_ESHAPE, "min: nothing to choose from", cj_min(F(2, 0), .axes = CJ_AXIS(1)))                                            \
    X(argmax_empty, CJ_ESHAPE, "argmax: nothing to choose from", cj_argmax(F(0)))                                                          \
    X(argmin_empty, CJ_ESHAPE, "argmin: nothing to choose from", cj_argmin(F(3, 0), .axes = CJ_AXIS(-1)))                                  \
    X(ce_no_classes, CJ_ESHAPE, "cross_entropy: logits [4, 0] have no classes", cj_cross_entropy(F(4, 0), I(4)))                           \
    X(item_empty, CJ_ESHAPE, "cj_item: the tensor [0] has 0 elements", (cj_item(F(0)), c->poison))                                         \
    X(reshape_empty_open, CJ_ESHAPE, "reshape", cj_reshape(F(0, 3), CJ_SHAPE(-1, 0)))                                                      \
    X(index_into_empty, CJ_EINDEX, "outside [0, 0)", cj_index_select(F(0, 3), 0, I(1)))                                                    \
    /* sizes whose product overflows, or that nobody has the memory for */                                                                 \
    X(overflow, CJ_ESHAPE, "full: the number of elements of [1099511627776, 1099511627776] overflows", F(BIG, BIG))                        \
    X(overflow_expand, CJ_ESHAPE, "expand: the number of elements", cj_expand(F(1, 1), CJ_SHAPE(BIG, BIG)))                                \
    X(overflow_reshape, CJ_ESHAPE, "overflows", cj_reshape(F(1), CJ_SHAPE(BIG, BIG)))                                                      \
    X(overflow_outer, CJ_ESHAPE, "overflows", cj_mul(cj_expand(F(1, 1), CJ_SHAPE(BIG, 1)), cj_expand(F(1, 1), CJ_SHAPE(1, BIG))))          \
    X(overflow_matmul, CJ_ESHAPE, "overflows", cj_matmul(cj_expand(F(1, 1), CJ_SHAPE(BIG, 1)), cj_expand(F(1, 1), CJ_SHAPE(1, BIG))))      \
    X(overflow_one_hot, CJ_EMEMORY, "out of memory", cj_one_hot(cj_expand(I(1), CJ_SHAPE(BIG)), BIG))                                      \
    X(overflow_draw, CJ_ESHAPE, "uniform: the number of elements", cj_rand(c, CJ_SHAPE(BIG, BIG)))                                         \
    X(overflow_eye, CJ_EMEMORY, "out of memory", cj_eye(c, BIG, CJ_F32))                                                                   \
    X(overflow_cat, CJ_ESHAPE, "overflows",                                                                                                \
      cj_cat(CJ_TENSORS(cj_expand(F(1), CJ_SHAPE(BIG << 16)), cj_expand(F(1), CJ_SHAPE(BIG << 16)), cj_expand(F(1), CJ_SHAPE(BIG << 16))), \
             3, 0))                                                                                                                        \
    X(memory_46_bits, CJ_EMEMORY, "out of memory", F(((int64_t)1 << 44) - 1024))                                                           \
    X(memory_45_bits, CJ_EMEMORY, "out of memory", F(((int64_t)1 << 43) - 1024))                                                           \
    X(memory_57_bits, CJ_EMEMORY, "out of memory", F(((int64_t)1 << 55)))                                                                  \
    X(memory_clone, CJ_EMEMORY, "out of memory", cj_clone(cj_expand(F(1), CJ_SHAPE(BIG << 10))))                                           \
    /* dtypes */                                                                                                                           \
    X(matmul_dtype, CJ_EDTYPE, "matmul: dtypes f32 x f64; both must be the same float type", cj_matmul(F(2, 2), D(2, 2)))                  \
    X(matmul_int, CJ_EDTYPE, "matmul: dtypes i64 x i64", cj_matmul(I(2, 2), I(2, 2)))                                                      \
    X(linear_dtype, CJ_EDTYPE, "linear: dtypes f64 x f32", cj_linear_op(D(2, 2), F(2, 2), NULL))                                           \
    X(mean_int, CJ_EDTYPE, "mean: the input is i64; cast it to a float type", cj_mean(I(3)))                                               \
    X(softmax_int, CJ_EDTYPE, "softmax: the input is i64, a float type expected", cj_softmax(I(3), 0))                                     \
    X(log_softmax_int, CJ_EDTYPE, "log_softmax: the input is i64", cj_log_softmax(I(3), 0))                                                \
    X(norm_int, CJ_EDTYPE, "layer_norm: the input is i64", cj_layer_norm(I(3), NULL, NULL, 0))                                             \
    X(index_float, CJ_EDTYPE, "index_select: the index is f32, i64 expected", cj_index_select(F(2, 3), 0, F(1)))                           \
    X(gather_float, CJ_EDTYPE, "gather: the index is f32, i64 expected", cj_gather(F(2, 3), 1, F(2, 1)))                                   \
    X(index_add_dtype, CJ_EDTYPE, "index_add: source is f64, the tensor f32", cj_index_add(F(2, 3), 0, I(1), D(1, 3)))                     \
    X(ce_dtype, CJ_EDTYPE, "cross_entropy: logits i64 and targets i64", cj_cross_entropy(I(2, 3), I(2)))                                   \
    X(ce_target_dtype, CJ_EDTYPE, "targets f32", cj_cross_entropy(F(2, 3), F(2)))                                                          \
    X(require_int, CJ_EDTYPE, "require_grad: the value is i64; only floats have gradients", cj_require_grad(I(2)))                         \
    X(param_int, CJ_EDTYPE, "cj_param: the value is i64; only floats are trained", cj_param(I(2)))                                         \
    X(cast_dtype, CJ_EDTYPE, "cast: unknown dtype 99", cj_cast(F(2), (cj_dtype)99))                                                        \
    X(full_dtype, CJ_EDTYPE, "unknown dtype 99", cj_zeros(c, CJ_SHAPE(2), (cj_dtype)99))                                                   \
    X(arange_dtype, CJ_EDTYPE, "unknown dtype 99", cj_arange(c, 0, 3, 1, (cj_dtype)99))                                                    \
    X(data_dtype, CJ_EDTYPE, "unknown dtype 99", cj_from_data(c, (float[2]){ 0 }, (cj_dtype)99, CJ_SHAPE(2)))                              \
    X(bernoulli_dtype, CJ_EDTYPE, "unknown dtype 99", cj_bernoulli(c, 0.5, CJ_SHAPE(2), .dtype = (cj_dtype)99))                            \
    X(randn_int, CJ_EDTYPE, "normal: draws floats, not i64", cj_randn(c, CJ_SHAPE(2), .dtype = CJ_I64))                                    \
    X(gradcheck_f32, CJ_EDTYPE, "gradcheck: input 1 is f32, f64 expected", gradcheck_f32(c))                                               \
    X(write_slice_dtype, CJ_ESHAPE, "f64 does not fit into [2, 2] f32",                                                                    \
      cj_write_slice_(F(2, 2), 0, cj_reshape(INDEX(0), CJ_SCALAR), D(1, 2)))                                                               \
    /* devices */                                                                                                                          \
    X(to_cuda, CJ_EDEVICE, "to: this context has no device", cj_to(F(2), "cuda"))                                                          \
    /* indices and axes */                                                                                                                 \
    X(sum_axis, CJ_EINDEX, "sum: axis 2 is out of range for 2 dimensions", cj_sum(F(2, 3), .axes = CJ_AXIS(2)))                            \
    X(softmax_axis, CJ_EINDEX, "softmax: axis -3 is out of range for 2 dimensions", cj_softmax(F(2, 3), -3))                               \
    X(transpose_axis, CJ_EINDEX, "transpose: axis 5", cj_transpose(F(2, 3), 0, 5))                                                         \
    X(t_vector, CJ_EINDEX, "transpose: axis -2 is out of range for 1 dimensions", cj_t(F(3)))                                              \
    X(permute_axis, CJ_EINDEX, "permute: axis 4", cj_permute(F(2, 3), CJ_AXES(0, 4)))                                                      \
    X(squeeze_axis, CJ_EINDEX, "squeeze: axis 2", cj_squeeze(F(2, 1), 2))                                                                  \
    X(unsqueeze_axis, CJ_EINDEX, "unsqueeze: axis 4", cj_unsqueeze(F(2, 1), 4))                                                            \
    X(flatten_axis, CJ_EINDEX, "flatten: axis 2", cj_flatten(F(2, 3), 2))                                                                  \
    X(slice_axis, CJ_EINDEX, "slice: axis 2", cj_slice(F(2, 3), 2, 0, 1, 1))                                                               \
    X(select_index, CJ_EINDEX, "select: index 3 is out of range for axis 1 of [2, 3]", cj_select(F(2, 3), 1, 3))                           \
    X(select_negative, CJ_EINDEX, "select: index -4 is out of range", cj_select(F(2, 3), 1, -4))                                           \
    X(diagonal_axis, CJ_EINDEX, "diagonal: axis 2", cj_diagonal(F(2, 3), 0, 0, 2))                                                         \
    X(unfold_axis, CJ_EINDEX, "unfold: axis 2", cj_unfold(F(2, 3), 2, 1, 1))                                                               \
    X(cat_axis, CJ_EINDEX, "cat: axis 2", cj_cat(CJ_TENSORS(F(2, 3)), 1, 2))                                                               \
    X(stack_axis, CJ_EINDEX, "axis 4", cj_stack(CJ_TENSORS(F(2, 3)), 1, 4))                                                                \
    X(index_select_range, CJ_EINDEX, "index_select: index 2 at position 0 is outside [0, 2)", cj_index_select(F(2, 3), 0, INDEX(2)))       \
    X(index_select_below, CJ_EINDEX, "index -1 at position 0", cj_index_select(F(2, 3), 0, INDEX(-1)))                                     \
    X(index_select_axis, CJ_EINDEX, "index_select: axis 2", cj_index_select(F(2, 3), 2, INDEX(0)))                                         \
    X(index_add_range, CJ_EINDEX, "index_add: index 7", cj_index_add(F(2, 3), 0, INDEX(7), F(1, 3)))                                       \
    X(gather_range, CJ_EINDEX, "gather: index 3", cj_gather(F(1, 3), 1, cj_full(c, 3, CJ_SHAPE(1, 1), CJ_I64)))                            \
    X(scatter_range, CJ_EINDEX, "scatter_add: index 3", cj_scatter_add(F(1, 3), 1, cj_full(c, 3, CJ_SHAPE(1, 1), CJ_I64), F(1, 1)))        \
    X(embedding_range, CJ_EINDEX, "index 5 at position 0 is outside [0, 4)", cj_embedding(F(4, 2), INDEX(5)))                              \
    X(one_hot_range, CJ_EINDEX, "index 5", cj_one_hot(INDEX(5), 3))                                                                        \
    X(ce_range, CJ_EINDEX, "cross_entropy: target 3 at position 0 is outside [0, 3)", cj_cross_entropy(F(1, 3), INDEX(3)))                 \
    X(write_slice_range, CJ_EINDEX, "write_slice_: position 2 with 1 rows is outside axis 0 of [2, 3]",                                    \
      cj_write_slice_(F(2, 3), 0, INDEX(2), F(1, 3)))                                                                                      \
    X(write_slice_below, CJ_EINDEX, "write_slice_: position -1", cj_write_slice_(F(2, 3), 0, INDEX(-1), F(1, 3)))                          \
    X(write_slice_far, CJ_EINDEX, "write_slice_: position 9223372036854775807",                                                            \
      cj_write_slice_(F(2, 3), 0, cj_from_i64(c, (int64_t[]){ INT64_MAX }, CJ_SHAPE(1)), F(1, 3)))                                         \
    X(write_slice_axis, CJ_EINDEX, "write_slice_: axis 2", cj_write_slice_(F(2, 3), 2, INDEX(0), F(1, 3)))                                 \
    X(at_range, CJ_EINDEX, "cj_at: index 3 is out of range for axis 1 of [2, 3]", (cj_at(F(2, 3), (int64_t[]){ 0, 3 }), c->poison))        \
    /* values */                                                                                                                           \
    X(clamp_order, CJ_EVALUE, "clamp: low 2 is above high 1", cj_clamp(F(2), 2, 1))                                                        \
    X(clamp_nan, CJ_EVALUE, "clamp", cj_clamp(F(2), NAN, 1))                                                                               \
    X(axis_twice, CJ_EVALUE, "sum: axis 1 is given twice", cj_sum(F(2, 3), .axes = CJ_AXES(1, -1)))                                        \
    X(permute_twice, CJ_EVALUE, "permute: axis 0 is given twice", cj_permute(F(2, 3), CJ_AXES(0, 0)))                                      \
    X(diagonal_twice, CJ_EVALUE, "diagonal: both axes are 0", cj_diagonal(F(2, 3), 0, 0, 0))                                               \
    X(slice_step, CJ_EVALUE, "slice: the step is 0", cj_slice(F(2, 3), 0, 0, 1, 0))                                                        \
    X(unfold_size, CJ_EVALUE, "unfold: windows of 4 every 1 do not fit axis 1 of [2, 3]", cj_unfold(F(2, 3), 1, 4, 1))                     \
    X(arange_step, CJ_EVALUE, "arange: start 0, stop 1, step 0", cj_arange(c, 0, 1, 0, CJ_F32))                                            \
    X(arange_order, CJ_EVALUE, "arange: from 3 to 1 in steps of 1", cj_arange(c, 3, 1, 1, CJ_F32))                                         \
    X(arange_nan, CJ_EVALUE, "arange", cj_arange(c, 0, NAN, 1, CJ_F32))                                                                    \
    X(argmax_axes, CJ_EVALUE, "argmax: takes one axis, 2 given", cj_argmax(F(2, 3), .axes = CJ_AXES(0, 1)))                                \
    X(one_hot_classes, CJ_EVALUE, "one_hot: 0 classes", cj_one_hot(I(2), 0))                                                               \
    X(dropout_p, CJ_EVALUE, "dropout: probability 1.5 is outside [0, 1]", cj_dropout(F(2), .p = 1.5))                                      \
    X(dropout_nan, CJ_EVALUE, "dropout: probability", cj_dropout(F(2), .p = NAN))                                                          \
    X(bernoulli_p, CJ_EVALUE, "bernoulli: probability -1 is outside [0, 1]", cj_bernoulli(c, -1, CJ_SHAPE(2)))                             \
    X(normal_std, CJ_EVALUE, "normal: standard deviation -1 is negative", cj_normal(c, 0, -1, CJ_SHAPE(2)))                                \
    X(uniform_order, CJ_EVALUE, "uniform: low 2 is above high 1", cj_uniform(c, 2, 1, CJ_SHAPE(2)))                                        \
    X(randint_order, CJ_EVALUE, "randint: there is no integer from 3 below 3", cj_randint(c, 3, 3, CJ_SHAPE(2)))                           \
    X(exponential_rate, CJ_EVALUE, "exponential: rate 0 is not positive", cj_exponential(c, 0, CJ_SHAPE(2)))                               \
    X(stream, CJ_EVALUE, "stream 77", cj_rand(c, CJ_SHAPE(2), .stream = (cj_stream)77))                                                    \
    X(norm_eps, CJ_EVALUE, "layer_norm: eps -1 is negative", cj_layer_norm(F(2), NULL, NULL, -1))                                          \
    X(norm_bias_alone, CJ_EVALUE, "layer_norm: a bias without a weight", cj_layer_norm(F(2), NULL, F(2), 0))                               \
    X(ce_smoothing, CJ_EVALUE, "cross_entropy: label smoothing 2 is outside [0, 1]",                                                       \
      cj_cross_entropy(F(1, 3), I(1), .label_smoothing = 2))                                                                               \
    X(remainder_zero, CJ_EVALUE, "division by zero", cj_remainder(cj_ones(c, CJ_SHAPE(2), CJ_I64), I(2)))                                  \
    X(fmod_zero, CJ_EVALUE, "division by zero", cj_fmod(cj_ones(c, CJ_SHAPE(2), CJ_I64), I(2)))                                            \
    X(floor_divide_zero, CJ_EVALUE, "division by zero", cj_floor_divide(cj_ones(c, CJ_SHAPE(2), CJ_I64), I(2)))                            \
    X(expanded_target, CJ_EVALUE, "assign_: the target [3] is an expanded view", cj_assign_(cj_expand(F(1), CJ_SHAPE(3)), F(3)))           \
    X(position_shape, CJ_EVALUE, "write_slice_: the position has shape [2]", cj_write_slice_(F(2, 3), 0, I(2), F(1, 3)))                   \
    X(position_dtype, CJ_EVALUE, "dtype f32, one i64 expected", cj_write_slice_(F(2, 3), 0, F(1), F(1, 3)))                                \
    X(data_null, CJ_EVALUE, "cj_from_data: the values are NULL", cj_from_f32(c, NULL, CJ_SHAPE(2)))                                        \
    X(second_null, CJ_EVALUE, "add: argument 2 is NULL", cj_add(F(2), NULL))                                                               \
    X(first_null, CJ_EVALUE, "add: argument 1 is NULL", cj_add(NULL, F(2)))                                                                \
    X(cat_null, CJ_EVALUE, "cat: argument 2 is NULL", cj_cat(CJ_TENSORS(F(2), NULL), 2, 0))                                                \
    X(stack_null, CJ_EVALUE, "argument 1 is NULL", cj_stack(CJ_TENSORS(NULL, F(2)), 2, 0))                                                 \
    X(where_null, CJ_EVALUE, "where: argument 1 is NULL", cj_where(NULL, F(2), F(2)))                                                      \
    X(assign_null, CJ_EVALUE, "assign_: argument 1 is NULL", cj_assign_(NULL, F(2)))                                                       \
    X(assign_from_null, CJ_EVALUE, "assign_: argument 2 is NULL", cj_assign_(F(2), NULL))                                                  \
    X(add_null, CJ_EVALUE, "add_: argument 1 is NULL", cj_add_(NULL, F(2), 1))                                                             \
    X(write_slice_null, CJ_EVALUE, "write_slice_: argument 1 is NULL", cj_write_slice_(NULL, 0, INDEX(0), F(2)))                           \
    X(matmul_null, CJ_EVALUE, "matmul: argument 2 is NULL", cj_matmul(F(2, 2), NULL))                                                      \
    X(linear_null, CJ_EVALUE, "linear: argument 2 is NULL", cj_linear_op(F(2, 2), NULL, NULL))                                             \
    X(ce_null, CJ_EVALUE, "cross_entropy: argument 2 is NULL", cj_cross_entropy(F(2, 2), NULL))                                            \
    X(mse_null, CJ_EVALUE, "mse_loss: argument 2 is NULL", cj_mse_loss(F(2, 2), NULL))                                                     \
    X(embedding_null, CJ_EVALUE, "embedding: argument 2 is NULL", cj_embedding(F(2, 2), NULL))                                             \
    X(gather_null, CJ_EVALUE, "gather: argument 2 is NULL", cj_gather(F(2, 2), 0, NULL))                                                   \
    X(attention_null, CJ_EVALUE, "attention: argument 3 is NULL", cj_attention(F(2, 2), F(2, 2), NULL))                                    \
    X(scope_return_null, CJ_EVALUE, "cj_scope_return: argument 1 is NULL", cj_scope_return(cj_scope_open(c), NULL))                        \
    X(forward_null, CJ_EVALUE, "forward: the module is NULL", cj_forward(NULL, F(2)))                                                      \
    X(at_null, CJ_EVALUE, "cj_at: the index is NULL", (cj_at(F(2), NULL), c->poison))                                                      \
    X(to_f64_null, CJ_EVALUE, "cj_to_f64: the caller's memory is NULL", (cj_to_f64(F(2), NULL, 2), c->poison))                             \
    X(custom_null, CJ_EVALUE, "custom: the definition needs a name", cj_custom(c, NULL, NULL))                                             \
    X(custom_bare, CJ_EVALUE, "custom: the definition needs a name, a shape rule and a kernel",                                            \
      cj_custom(c, &(cj_custom_op){ .name = "bare", .nin = 1 }, CJ_TENSORS(F(2))))                                                         \
    X(outside, CJ_EFILE, "no room on the moon", cj_fail(c, CJ_EFILE, "no room on the %s", "moon"))                                         \
    X(outside_ok, CJ_EVALUE, "said OK", cj_fail(c, CJ_OK, "said OK"))                                                                      \
    X(jacobian_rows, CJ_EVALUE, "jacobian: 2000 rows, at most 1024 are possible", cj_jacobian(c, identity, NULL, F(2000)))                 \
    X(jacobian_columns, CJ_EVALUE, "jacobian: 2000 columns", cj_jacobian(c, identity, NULL, F(2000), .forward = true))                     \
    X(hessian_size, CJ_EVALUE, "hessian: 2000 variables", cj_hessian(c, identity, NULL, F(2000)))                                          \
    X(jvp_tangent, CJ_ESHAPE, "jvp: tangent [3] does not fit [2]", cj_jvp(c, identity, NULL, CJ_TENSORS(F(2)), CJ_TENSORS(F(3)), 1).value) \
    X(hvp_tangent, CJ_ESHAPE, "hvp: tangent [3] does not fit [2]",                                                                         \
      cj_hvp(c, squares, NULL, CJ_TENSORS(F(2)), CJ_TENSORS(F(3)), 1, (cj_tensor *[1]){ 0 }))                                              \
    X(jvp_null, CJ_EVALUE, "jvp: the function returned NULL", cj_jvp(c, nothing, NULL, CJ_TENSORS(F(2)), CJ_TENSORS(F(2)), 1).value)       \
    X(checkpoint_null, CJ_EVALUE, "checkpoint: the function returned NULL", cj_checkpoint(c, nothing, NULL, CJ_TENSORS(F(2)), 1))          \
    X(jacobian_null, CJ_EVALUE, "jacobian: the function returned NULL", cj_jacobian(c, nothing, NULL, F(2)))                               \
    /* differentiation */                                                                                                                  \
    X(grad_constant, CJ_EGRAPH, "grad: the value depends on nothing that requires gradients", grad_of(cj_sum(F(2)), F(2)))                 \
    X(grad_kept, CJ_EGRAPH, "the value was kept and its graph cut", grad_of(keep_in_scope(cj_sum(cj_require_grad(F(2)))), F(2)))           \
    X(grad_twice, CJ_EGRAPH, "the graph is gone; a pass consumes it unless .retain is set", grad_twice(c))                                 \
    X(grad_part_gone, CJ_EGRAPH, "backward of square: the graph of an input was consumed by an earlier pass; set .retain there",           \
      grad_part_gone(c))                                                                                                                   \
    X(grad_unrelated, CJ_EGRAPH, "grad: the value does not depend on x[0]; set .allow_unused for zeros",                                   \
      grad_of(cj_sum(cj_require_grad(F(2))), cj_require_grad(F(2))))                                                                       \
    X(grad_no_leaf, CJ_EGRAPH, "grad: x[0] does not require gradients", grad_of(cj_sum(cj_require_grad(F(2))), F(2)))                      \
    X(grad_seed_needed, CJ_ESHAPE, "grad: [2] has more than one element; give a seed", grad_of(cj_neg(cj_require_grad(F(2))), F(2)))       \
    X(grad_seed_shape, CJ_ESHAPE, "grad: seed [3] does not fit [2]", seed_shape(c))                                                        \
    X(changed_value, CJ_EGRAPH, "backward of mul: its input 2 was changed by assign_ after it had been used", changed_value(c))            \
    X(changed_by_add, CJ_EGRAPH, "backward of mul: its input 2 was changed by add_", changed_by_add(c))                                    \
    X(changed_output, CJ_EGRAPH, "was changed by add_", changed_output(c))                                                                 \
    X(write_history, CJ_EGRAPH, "assign_: the target was computed and its history would be lost",                                          \
      cj_assign_(cj_neg(cj_require_grad(F(2))), F(2)))                                                                                     \
    X(write_leaf, CJ_EGRAPH, "assign_: the target is a leaf that requires gradients; write to it under cj_no_grad",                        \
      cj_assign_(cj_require_grad(F(2)), F(2)))                                                                                             \
    X(custom_no_vjp, CJ_EGRAPH, "backward: opaque has no derivative", grad_of_opaque(c))                                                   \
    X(levels, CJ_EGRAPH, "jvp: more than 8 nested forward derivatives", deep_jvp(c, NULL, CJ_TENSORS(F(1)), 1))                            \
    /* order of calls */                                                                                                                   \
    X(scope_order, CJ_ESTATE, "is not the innermost one", scope_order(c))                                                                  \
    X(scope_base, CJ_ESTATE, "is not the innermost one", (cj_scope_close((cj_scope){ c, 1 }), c->poison))                                  \
    X(scope_depth, CJ_ESTATE, "scope: more than 63 scopes are open", scope_depth(c))                                                       \
    X(scope_left_open, CJ_ESTATE, "a scope that was opened inside", scope_left_open(c))                                                    \
    /* tensors at the wrong place, steps that change, memory that ends; each has tests of its own below */                                 \
    X(after_scope, CJ_ESTALE, "neg: argument 1 is used after its scope was closed", after_scope(c))                                        \
    X(other_context, CJ_ECONTEXT, "add: argument 2 belongs to another context", other_context(c))                                          \
    X(replay_constant, CJ_ECAPTURE, "had the number 2 in the first run and 3 in the second", replay_constant(c))                           \
    X(cap_in_backward, CJ_EMEMORY, "memory cap reached", cap_in_backward(c))                                                               \
    /* files that are cut or lie; test_npy.c and test_safetensors.c try every byte */                                                      \
    X(npy_missing, CJ_EFILE, "No such file", cj_npy_load(c, "/nowhere/a.npy"))                                                             \
    X(npy_empty, CJ_EFILE, "npy", npy(c, "", 0))                                                                                           \
    X(npy_magic, CJ_EFILE, "npy", npy(c, "PK\3\4 is a zip file", 18))                                                                      \
    X(npy_cut, CJ_EFILE, "npy", npy_header(c, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 40))                          \
    X(npy_overflow, CJ_EFILE, "2^63 or more bytes of f32 [4294967296, 4294967296] were expected, 8 were found",                            \
      npy_header(c, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 8))                                   \
    X(npy_negative, CJ_EFILE, "npy", npy_header(c, "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 8))                       \
    X(npy_dtype, CJ_EFILE, "npy", npy_header(c, "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8))                           \
    X(safetensors_empty, CJ_EFILE, "safetensors", safetensors(c, 0, "", 0))                                                                \
    X(safetensors_length, CJ_EFILE, "safetensors", safetensors(c, 1000000, "{}", 0))                                                       \
    X(safetensors_json, CJ_EFILE, "safetensors", safetensors(c, 11, "{\"a\":{\"dt\"", 0))                                                  \
    X(safetensors_cut, CJ_EFILE, "safetensors",                                                                                            \
      safetensors(c, 0, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 12))                                          \
    X(safetensors_lies, CJ_EFILE, "safetensors",                                                                                           \
      safetensors(c, 0, "{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,16]}}", 16))                                          \
    X(safetensors_overflow, CJ_EFILE,                                                                                                      \
      "data_offsets that f32 [4294967296, 4294967296] fits were expected of tensor 'a', 0 to 16 were found",                               \
      safetensors(c, 0, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}", 16))

static cj_tensor *nothing(cj_ctx *c, void *user, cj_tensor *const *in, int n) { return (void)c, (void)user, (void)in, (void)n, NULL; }

static cj_tensor *gradcheck_f32(cj_ctx *c)
{
    assert_false(cj_gradcheck(c, squares, NULL, CJ_TENSORS(F(2)), 1).ok);
    return c->poison;
}
static cj_tensor *grad_of(cj_tensor *y, cj_tensor *x)
{
    cj_tensor *g;
    assert_false(cj_grad(y, &x, 1, &g));
    return g;
}
static cj_tensor *kept;
static cj_tensor *keep_in_scope(cj_tensor *t) { return kept = cj_keep(t); }
static cj_tensor *grad_twice(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2)), *y = cj_sum(x), *g;
    assert_true(cj_grad(y, &x, 1, &g));
    return grad_of(y, x);
}
static cj_tensor *grad_part_gone(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2)), *h = cj_exp(x), *y = cj_sum(h), *z = cj_sum(cj_square(h)), *g;
    assert_true(cj_grad(y, &x, 1, &g));
    return grad_of(z, x);
}
static cj_tensor *seed_shape(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2)), *g;
    assert_false(cj_grad(cj_neg(x), &x, 1, &g, .seed = F(3)));
    return g;
}
static cj_tensor *changed_value(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2)), *w = F(2), *y = cj_sum(cj_mul(x, w));
    cj_assign_(w, cj_scalar(c, 3));
    return grad_of(y, x);
}
static cj_tensor *changed_by_add(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2)), *w = F(2, 2), *y = cj_sum(cj_mul(x, cj_select(w, 0, 1)));
    cj_add_(cj_select(w, 0, 0), F(2), 1); /* another view of the same storage */
    return grad_of(y, x);
}
static cj_tensor *changed_output(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2)), *h = cj_exp(x), *y = cj_sum(h);
    cj_add_(cj_detach(h), F(2), 1);
    return grad_of(y, x);
}
static cj_tensor *grad_of_opaque(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2));
    return grad_of(cj_sum(cj_custom(c, &(cj_custom_op){ .name = "opaque", .nin = 1, .infer = infer_same, .run = run_zero }, &x)), x);
}
static cj_tensor *deep_jvp(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)user;
    return cj_ok(c) ? cj_jvp(c, deep_jvp, NULL, in, CJ_TENSORS(cj_ones_like(in[0])), n).value : c->poison;
}
static cj_tensor *scope_order(cj_ctx *c)
{
    cj_scope a = cj_scope_open(c), b = cj_scope_open(c);
    cj_scope_close(a);
    cj_scope_close(b);
    cj_scope_close(a);
    return c->poison;
}
static cj_tensor *scope_depth(cj_ctx *c)
{
    cj_scope s[CJ_MAX_SCOPES];
    int n = 0;
    while (cj_ok(c)) s[n++] = cj_scope_open(c);
    while (n--) cj_scope_close(s[n]);
    return c->poison;
}
static cj_tensor *forgets_scope(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)user, (void)n;
    cj_scope_open(c);
    return cj_neg(in[0]);
}
static cj_tensor *scope_left_open(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(2));
    return cj_checkpoint(c, forgets_scope, NULL, &x, 1);
}

static cj_tensor *after_scope(cj_ctx *c)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = F(2);
    cj_scope_close(s);
    return cj_neg(x);
}
static cj_tensor *other_context(cj_ctx *c)
{
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *y = cj_add(F(2), cj_zeros(d, CJ_SHAPE(2), CJ_F32));
    cj_ctx_free(d);
    return y;
}
static void scaled_by_user(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    out[0] = cj_mul_scalar(in[0], *(double *)user);
}
static cj_tensor *replay_constant(cj_ctx *c)
{
    double number = 2;
    cj_tensor *x = F(2), *out = NULL;
    cj_plan *p = cj_capture(c, scaled_by_user, &number, &x, 1, NULL);
    number = 3;
    assert_false(cj_replay(p, &x, &out));
    cj_plan_free(p);
    return out;
}
static cj_tensor *cap_in_backward(cj_ctx *c)
{
    cj_tensor *x = cj_require_grad(F(64, 64)), *y = cj_sum(cj_mul(cj_exp(x), cj_sin(x))), *g;
    cj_memory_trim(c);
    size_t cap = c->memory_cap;
    c->memory_cap = c->memory.held + 2 * 64 * 64 * 4; /* the forward pass is done; two gradients fit, more are needed */
    assert_false(cj_grad(y, &x, 1, &g));
    c->memory_cap = cap;
    return g;
}

/* Files of these bytes, loaded and deleted. */
static cj_tensor *load_bytes(cj_ctx *c, const char *ending, const void *bytes, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/cajal-errors-%d.%s", (int)getpid(), ending);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    cj_tensor *y = c->poison;
    if (strcmp(ending, "npy") == 0) y = cj_npy_load(c, path);
    else assert_null(cj_safetensors_load(c, path));
    remove(path);
    return y;
}
static cj_tensor *npy(cj_ctx *c, const char *bytes, size_t n) { return load_bytes(c, "npy", bytes, n); }
static cj_tensor *npy_header(cj_ctx *c, const char *header, size_t data)
{
    char bytes[512] = "\x93NUMPY\1";
    size_t n = strlen(header) + 1, whole = (10 + n + 63) / 64 * 64;
    bytes[8] = (char)(whole - 10);
    memset(bytes + 10, ' ', whole - 10);
    memcpy(bytes + 10, header, n - 1);
    bytes[whole - 1] = '\n';
    return load_bytes(c, "npy", bytes, whole + data);
}
/* length 0: that of the header */
static cj_tensor *safetensors(cj_ctx *c, uint64_t length, const char *header, size_t data)
{
    char bytes[512] = { 0 };
    if (!length) length = strlen(header);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, strlen(header));
    return load_bytes(c, "safetensors", bytes, 8 + strlen(header) + data);
}

#define X(name, code, says, ...)                                                                                                           \
    static cj_tensor *bad_##name(cj_ctx *c) { return __VA_ARGS__; }
ROWS(X)
#undef X

static const struct row {
    const char *name;
    cj_code code;
    const char *says;
    cj_tensor *(*call)(cj_ctx *c);
} rows[] = {
#define X(name, code, says, ...) { #name, code, says, bad_##name },
    ROWS(X)
#undef X
};

static int wrong;
static void run_row(cj_ctx *c, const struct row *r)
{
    cj_memory before = cj_memory_stats(c);
    cj_scope s = cj_scope_open(c);
    cj_tensor *y = r->call(c);
    if (cj_error(c) != r->code || !strstr(cj_message(c), r->says)) { /* all rows are shown before the test fails */
        wrong++;
        print_error("%s: %s \"%s\", expected %s \"%s\"\n", r->name, cj_code_name(cj_error(c)), cj_message(c), cj_code_name(r->code),
                    r->says);
        cj_clear(c);
        cj_scope_close(s);
        return;
    }
    assert_sentence(c, r->name);
    if (!cj_is_poison(y)) fail_msg("%s: the result is no poison", r->name);
    /* the first error stays, and nothing is computed or written while it does */
    char first[CJ_MAX_MESSAGE];
    snprintf(first, sizeof first, "%s", cj_message(c));
    assert_true(cj_is_poison(cj_add(y, y)));
    assert_true(cj_is_poison(cj_zeros(c, CJ_SHAPE(2), CJ_F32)));
    cj_fail(c, CJ_EFILE, "a second error");
    assert_string_equal(cj_message(c), first);
    /* poison shows nothing */
    assert_true(isnan(cj_item(y)));
    assert_int_equal(cj_numel(y), 0);
    assert_int_equal(cj_size(y, 0), 0);
    assert_null(cj_data(y));
    cj_clear(c);
    assert_ok(c);
    assert_true(cj_is_poison(cj_neg(y ? y : c->poison)));
    assert_error(c, CJ_ESTALE, "neg: argument 1 is the result of an earlier error that was cleared");
    cj_clear(c);
    cj_scope_close(s);
    if (kept) cj_release(kept);
    kept = NULL;
    cj_memory after = cj_memory_stats(c);
    if (after.tensors != before.tensors) fail_msg("%s: %d headers leaked", r->name, (int)(after.tensors - before.tensors));
    assert_int_equal(c->depth, 1);
    assert_int_equal(c->tape_n, 0);
    assert_int_equal(c->fwd_limit, 0);
    assert_true(c->grad_enabled);
    assert_works(c);
}

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { /* each alone, with an allocator that sees every leak */
        counter k = { 0 };
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
        run_row(c, &rows[i]);
        cj_ctx_free(c);
        if (k.allocs != k.frees || k.bytes) fail_msg("%s: %ld of %ld blocks leaked", rows[i].name, k.allocs - k.frees, (long)k.allocs);
    }
    assert_int_equal(wrong, 0);
}

/* All one after the other in one context: no error leaves anything behind that the next one stumbles over. */
static void table_in_one_context(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) run_row(c, &rows[i]);
    assert_int_equal(cj_memory_stats(c).tensors, 0);
    cj_ctx_free(c);
}

static void codes_have_names(void **state)
{
    (void)state;
    bool seen[CJ_CODES] = { 0 };
    for (int i = 0; i < CJ_CODES; i++) assert_true(strncmp(cj_code_name((cj_code)i), i ? "CJ_E" : "CJ_OK", i ? 4 : 5) == 0);
    assert_string_equal(cj_code_name((cj_code)99), "unknown");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) seen[rows[i].code] = true;
    seen[CJ_OK] = seen[CJ_ECANCELLED] = seen[CJ_ECOMM] = true; /* cancelled_at_any_operator below, test_comm.c */
    for (int i = 0; i < CJ_CODES; i++)
        if (!seen[i]) fail_msg("nothing raises %s here", cj_code_name((cj_code)i));
}

/* ---- the message ------------------------------------------------------------------------------------------------------------------------------------ */

static void message_has_path_and_line(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *net = cj_sequential(c, cj_linear(c, 4, 8), cj_relu_layer(c), cj_sequential(c, cj_relu_layer(c), cj_linear(c, 7, 2)));
    cj_tensor *y = cj_forward(net, F(5, 4));
    int line = __LINE__ - 1;
    char expected[160];
    snprintf(expected, sizeof expected, "linear: input [5, 8] does not fit weight [2, 7], in 2.1 (test_errors.c:%d)", line);
    assert_true(cj_is_poison(y));
    assert_int_equal(cj_error(c), CJ_ESHAPE);
    assert_string_equal(cj_message(c), expected);
    cj_clear(c);
    assert_string_equal(c->path, "");
    cj_enter(c, "encoder");
    cj_enter(c, "attn");
    cj_matmul(F(2, 3), F(2, 3));
    assert_says(c, ", in encoder.attn (");
    cj_clear(c);
    cj_leave(c);
    cj_matmul(F(2, 3), F(2, 3));
    assert_says(c, ", in encoder (");
    cj_leave(c);
    cj_leave(c); /* one too many does no harm */
    cj_clear(c);
    for (int i = 0; i < 100; i++) cj_enter(c, "deeper"); /* names are cut, never the memory */
    cj_matmul(F(2, 3), F(2, 3));
    assert_int_equal(cj_error(c), CJ_ESHAPE);
    cj_clear(c);
    for (int i = 0; i < 99; i++) cj_leave(c);
    cj_matmul(F(2, 3), F(2, 3));
    assert_says(c, ", in deeper (");
    cj_clear(c);
    cj_leave(c);
    assert_string_equal(c->path, "");
    for (int i = 0; i < 40; i++) { /* longer than there is room for */
        cj_enter(c, "a_name_of_some_length");
        assert_true(strlen(c->path) < sizeof c->path);
        assert_int_equal(c->path_depth, i + 1);
    }
    cj_matmul(F(2, 3), F(2, 3));
    assert_says(c, ", in a_name_of_some_length.a_name_of_some_length.");
    cj_clear(c);
    for (int i = 0; i < 39; i++) cj_leave(c);
    assert_string_equal(c->path, "a_name_of_some_length");
    cj_leave(c);
    assert_string_equal(c->path, "");
    char longest[2000];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    cj_fail(c, CJ_EVALUE, "%s", longest);
    assert_true(strlen(cj_message(c)) < CJ_MAX_MESSAGE);
    cj_ctx_free(c);
}

/* Modules and optimisers: bad sizes, names and settings. */
static void modules_and_optimisers(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_module *net = cj_sequential(c, cj_linear(c, 2, 2)), *flat = cj_sequential(c, cj_relu_layer(c));
    static const cj_module_type many = { "Many", NULL, NULL };
    cj_module *no_forward = cj_module_new(c, &many, 0);
    assert_ok(c);
#define WRONG(code, says, ...)                                                                                                             \
    do {                                                                                                                                   \
        (void)(__VA_ARGS__);                                                                                                               \
        assert_error(c, code, says);                                                                                                       \
        assert_sentence(c, says);                                                                                                          \
        cj_clear(c);                                                                                                                       \
    } while (0)
    WRONG(CJ_EVALUE, "linear: sizes 0 -> 2", cj_linear(c, 0, 2));
    WRONG(CJ_EVALUE, "embedding: sizes 2 x -1", cj_embedding_layer(c, 2, -1));
    WRONG(CJ_EVALUE, "dropout: probability 2 is outside [0, 1]", cj_dropout_layer(c, 2));
    WRONG(CJ_EVALUE, "'0' is there already", cj_module_add(net, "0", flat));
    WRONG(CJ_EVALUE, "'a.b' is no name for a member", cj_module_add(net, "a.b", flat));
    WRONG(CJ_EVALUE, "Many takes more than one input", cj_forward(no_forward, F(2)));
    WRONG(CJ_EVALUE, "there are no parameters", cj_sgd(cj_module_params(flat)));
    WRONG(CJ_EVALUE, "learning rate -1", cj_sgd(cj_module_params(net), .lr = -1));
    WRONG(CJ_EVALUE, "learning rate nan", cj_adam(cj_module_params(net), .lr = NAN));
    WRONG(CJ_EVALUE, "Nesterov needs momentum", cj_sgd(cj_module_params(net), .nesterov = true));
    WRONG(CJ_EVALUE, "betas 2 and 0.999", cj_adam(cj_module_params(net), .beta1 = 2));
    WRONG(CJ_ESHAPE, "more than one element", cj_minimise(cj_sgd(cj_module_params(net)), cj_forward(net, F(1, 2))));
    /* a module that grew after its optimiser was made */
    cj_optim *opt = cj_sgd(cj_module_params(net));
    cj_module_add(net, "late", cj_linear(c, 2, 2));
    WRONG(CJ_ESTATE, "parameters", cj_minimise(opt, cj_sum(cj_forward(net, F(1, 2)))), cj_params_count(cj_module_params(net)),
          cj_minimise(opt, cj_sum(cj_forward(net, F(1, 2)))));
    assert_works(c);
    cj_ctx_free(c);
}

/* After a clear the context goes on to the bit as one that was never disturbed. */
static void clear_restores(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 }), *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    rig r, undisturbed;
    assert_true(rig_build(&r, c, 5) && rig_build(&undisturbed, d, 5));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cj_rng_state rng = cj_rng_get(c);
        cj_scope s = cj_scope_open(c);
        rows[i].call(c);
        snapshot before = snapshot_of(&r);
        assert_false(rig_step(&r)); /* while an error is set nothing happens */
        assert_unchanged(&r, &before, (long)i);
        snapshot_free(&before);
        cj_clear(c);
        cj_scope_close(s);
        if (kept) cj_release(kept);
        kept = NULL;
        cj_rng_set(c, rng);
        assert_true(rig_step(&r) && rig_step(&undisturbed));
    }
    snapshot a = snapshot_of(&r), b = snapshot_of(&undisturbed);
    assert_true(snapshot_same(&a, &b));
    snapshot_free(&a);
    snapshot_free(&b);
    cj_ctx_free(c);
    cj_ctx_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(table_in_one_context),
        cmocka_unit_test(clear_restores),
        cmocka_unit_test(codes_have_names),
        cmocka_unit_test(message_has_path_and_line),
        cmocka_unit_test(modules_and_optimisers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
