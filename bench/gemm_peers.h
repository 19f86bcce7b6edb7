/* The products of the peers beside ours: cajal bench gemm. */
#ifndef CJ_BENCH_GEMM_PEERS_H
#define CJ_BENCH_GEMM_PEERS_H

int cj_bench_gemm(int argc, const char **argv);

#endif
