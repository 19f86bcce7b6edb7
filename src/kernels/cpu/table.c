/* The kernels of one instruction-set level, collected (cpu.h). */
#include "kernels/cpu/cpu.h"

cj_ew_small_fn CJ_K(cj__ew_small);
cj_ew_rows_fn CJ_K(cj__ew_rows);
cj_ew_run_fn CJ_K(cj__ew_run);
cj_ew_span_fn CJ_K(cj__ew_span);
cj_gemm_fn CJ_K(cj__gemm_f32), CJ_K(cj__gemm_f64), CJ_K(cj__gemm_bf16), CJ_K(cj__gemm_f16);
cj_gemm_workspace_fn CJ_K(cj__gemm_workspace_f32), CJ_K(cj__gemm_workspace_f64), CJ_K(cj__gemm_workspace_bf16),
    CJ_K(cj__gemm_workspace_f16);
cj_gemm_one_go_fn CJ_K(cj__gemm_one_go);
cj_conv_fn CJ_K(cj__conv);
cj_conv_workspace_fn CJ_K(cj__conv_workspace);
cj_conv_packed_fn CJ_K(cj__conv_packed);
cj_conv_pack_fn CJ_K(cj__conv_pack);
cj_conv_both_fn CJ_K(cj__conv_both);
cj_conv_both_workspace_fn CJ_K(cj__conv_both_workspace);
cj_fft_fn CJ_K(cj__fft);
cj_fft_workspace_fn CJ_K(cj__fft_workspace);
cj_fft_split_fn CJ_K(cj__fft_split);
cj_fft_join_fn CJ_K(cj__fft_join);
cj_recurrent_fn CJ_K(cj__recurrent);
cj_recurrent_saved_fn CJ_K(cj__recurrent_saved);
cj_recurrent_workspace_fn CJ_K(cj__recurrent_workspace);
cj_window_workspace_fn CJ_K(cj__window_workspace);
cj_window_max_fn CJ_K(cj__window_max);
cj_window_put_fn CJ_K(cj__window_put);
cj_window_sum_fn CJ_K(cj__window_sum);
cj_window_spread_fn CJ_K(cj__window_spread);
cj_resample_fn CJ_K(cj__resample);
cj_resample_workspace_fn CJ_K(cj__resample_workspace);
cj_grid_fn CJ_K(cj__grid_sample);
cj_grid_bwd_fn CJ_K(cj__grid_sample_bwd);
cj_roi_fn CJ_K(cj__roi);
cj_csr_matmul_fn CJ_K(cj__csr_matmul);
cj_csr_dot_fn CJ_K(cj__csr_dot);
cj_reduce_fn CJ_K(cj__reduce);
cj_copy_fn CJ_K(cj__copy);
cj_fill_fn CJ_K(cj__fill);
cj_index_select_fn CJ_K(cj__index_select);
cj_index_add_fn CJ_K(cj__index_add);
cj_gather_fn CJ_K(cj__gather);
cj_scatter_add_fn CJ_K(cj__scatter_add);
cj_index_check_fn CJ_K(cj__index_check);
cj_scatter_reduce_fn CJ_K(cj__scatter_reduce);
cj_order_fn CJ_K(cj__order);
cj_order_scratch_fn CJ_K(cj__order_scratch);
cj_searchsorted_fn CJ_K(cj__searchsorted);
cj_runs_fn CJ_K(cj__runs);
cj_scan_fn CJ_K(cj__scan);
cj_scan_bwd_fn CJ_K(cj__scan_bwd);
cj_bag_fn CJ_K(cj__bag);
cj_bag_bwd_fn CJ_K(cj__bag_bwd);
cj_bag_weights_bwd_fn CJ_K(cj__bag_weights_bwd);
cj_count_fn CJ_K(cj__count);
cj_histogram_fn CJ_K(cj__histogram);
cj_suppress_fn CJ_K(cj__suppress);
cj_softmax_fn CJ_K(cj__softmax);
cj_softmax_bwd_fn CJ_K(cj__softmax_bwd);
cj_layer_norm_fn CJ_K(cj__layer_norm);
cj_layer_norm_bwd_fn CJ_K(cj__layer_norm_bwd);
cj_layer_norm_bwd_scratch_fn CJ_K(cj__layer_norm_bwd_scratch);
cj_rms_norm_fn CJ_K(cj__rms_norm);
cj_rms_norm_bwd_fn CJ_K(cj__rms_norm_bwd);
cj_normalise_fn CJ_K(cj__normalise), CJ_K(cj__normalise_bwd);
cj_normalise_scratch_fn CJ_K(cj__normalise_scratch);
cj_cross_entropy_fn CJ_K(cj__cross_entropy);
cj_cross_entropy_bwd_fn CJ_K(cj__cross_entropy_bwd);
cj_attention_fn CJ_K(cj__attention);
cj_attention_workspace_fn CJ_K(cj__attention_workspace);
cj_random_fn CJ_K(cj__random);
cj_update_fn CJ_K(cj__sgd), CJ_K(cj__adam), CJ_K(cj__amsgrad), CJ_K(cj__adagrad), CJ_K(cj__rmsprop), CJ_K(cj__adamax), CJ_K(cj__nadam),
    CJ_K(cj__sign), CJ_K(cj__lion);
cj_sumsq_fn CJ_K(cj__sumsq);
cj_small_fn CJ_K(cj__small);
cj_finite_fn CJ_K(cj__finite);
cj_lu_workspace_fn CJ_K(cj__lu_workspace);
cj_lu_factor_fn CJ_K(cj__lu_factor);
cj_lu_solve_fn CJ_K(cj__lu_solve);
cj_turn_fn CJ_K(cj__turn);

#if defined CJ_ISA_AVX512
#define LEVEL_NAME "avx512"
#elif defined CJ_ISA_AVX2
#define LEVEL_NAME "avx2"
#elif defined CJ_ISA_NEON
#define LEVEL_NAME "neon"
#else
#define LEVEL_NAME "portable"
#endif

extern const cj_cpu_kernels CJ_K(cj__cpu);
const cj_cpu_kernels CJ_K(cj__cpu) = {
    .name = LEVEL_NAME,
    .ew_small = CJ_K(cj__ew_small),
    .ew_rows = CJ_K(cj__ew_rows),
    .ew_run = CJ_K(cj__ew_run),
    .ew_span = CJ_K(cj__ew_span),
    .gemm = { [CJ_F32] = CJ_K(cj__gemm_f32),
              [CJ_F64] = CJ_K(cj__gemm_f64),
              [CJ_BF16] = CJ_K(cj__gemm_bf16),
              [CJ_F16] = CJ_K(cj__gemm_f16) },
    .gemm_workspace = { [CJ_F32] = CJ_K(cj__gemm_workspace_f32),
                        [CJ_F64] = CJ_K(cj__gemm_workspace_f64),
                        [CJ_BF16] = CJ_K(cj__gemm_workspace_bf16),
                        [CJ_F16] = CJ_K(cj__gemm_workspace_f16) },
    .gemm_one_go = CJ_K(cj__gemm_one_go),
    .conv = CJ_K(cj__conv),
    .conv_workspace = CJ_K(cj__conv_workspace),
    .conv_packed = CJ_K(cj__conv_packed),
    .conv_pack = CJ_K(cj__conv_pack),
    .conv_both = CJ_K(cj__conv_both),
    .conv_both_workspace = CJ_K(cj__conv_both_workspace),
    .fft = CJ_K(cj__fft),
    .fft_workspace = CJ_K(cj__fft_workspace),
    .fft_split = CJ_K(cj__fft_split),
    .fft_join = CJ_K(cj__fft_join),
    .recurrent = CJ_K(cj__recurrent),
    .recurrent_saved = CJ_K(cj__recurrent_saved),
    .recurrent_workspace = CJ_K(cj__recurrent_workspace),
    .window_workspace = CJ_K(cj__window_workspace),
    .window_max = CJ_K(cj__window_max),
    .window_put = CJ_K(cj__window_put),
    .window_sum = CJ_K(cj__window_sum),
    .window_spread = CJ_K(cj__window_spread),
    .resample = CJ_K(cj__resample),
    .resample_workspace = CJ_K(cj__resample_workspace),
    .grid_sample = CJ_K(cj__grid_sample),
    .grid_sample_bwd = CJ_K(cj__grid_sample_bwd),
    .roi = CJ_K(cj__roi),
    .csr_matmul = CJ_K(cj__csr_matmul),
    .csr_dot = CJ_K(cj__csr_dot),
    .reduce = CJ_K(cj__reduce),
    .copy = CJ_K(cj__copy),
    .fill = CJ_K(cj__fill),
    .index_select = CJ_K(cj__index_select),
    .index_add = CJ_K(cj__index_add),
    .gather = CJ_K(cj__gather),
    .scatter_add = CJ_K(cj__scatter_add),
    .index_check = CJ_K(cj__index_check),
    .scatter_reduce = CJ_K(cj__scatter_reduce),
    .order = CJ_K(cj__order),
    .order_scratch = CJ_K(cj__order_scratch),
    .searchsorted = CJ_K(cj__searchsorted),
    .runs = CJ_K(cj__runs),
    .scan = CJ_K(cj__scan),
    .scan_bwd = CJ_K(cj__scan_bwd),
    .bag = CJ_K(cj__bag),
    .bag_bwd = CJ_K(cj__bag_bwd),
    .bag_weights_bwd = CJ_K(cj__bag_weights_bwd),
    .count = CJ_K(cj__count),
    .histogram = CJ_K(cj__histogram),
    .suppress = CJ_K(cj__suppress),
    .softmax = CJ_K(cj__softmax),
    .softmax_bwd = CJ_K(cj__softmax_bwd),
    .layer_norm = CJ_K(cj__layer_norm),
    .layer_norm_bwd = CJ_K(cj__layer_norm_bwd),
    .layer_norm_bwd_scratch = CJ_K(cj__layer_norm_bwd_scratch),
    .rms_norm = CJ_K(cj__rms_norm),
    .rms_norm_bwd = CJ_K(cj__rms_norm_bwd),
    .normalise = CJ_K(cj__normalise),
    .normalise_bwd = CJ_K(cj__normalise_bwd),
    .normalise_scratch = CJ_K(cj__normalise_scratch),
    .cross_entropy = CJ_K(cj__cross_entropy),
    .cross_entropy_bwd = CJ_K(cj__cross_entropy_bwd),
    .attention = CJ_K(cj__attention),
    .attention_workspace = CJ_K(cj__attention_workspace),
    .random = CJ_K(cj__random),
    .sgd = CJ_K(cj__sgd),
    .adam = CJ_K(cj__adam),
    .amsgrad = CJ_K(cj__amsgrad),
    .adagrad = CJ_K(cj__adagrad),
    .rmsprop = CJ_K(cj__rmsprop),
    .adamax = CJ_K(cj__adamax),
    .nadam = CJ_K(cj__nadam),
    .sign = CJ_K(cj__sign),
    .lion = CJ_K(cj__lion),
    .sumsq = CJ_K(cj__sumsq),
    .small = CJ_K(cj__small),
    .finite = CJ_K(cj__finite),
    .lu_workspace = CJ_K(cj__lu_workspace),
    .lu_factor = CJ_K(cj__lu_factor),
    .lu_solve = CJ_K(cj__lu_solve),
    .turn = CJ_K(cj__turn),
};
