/* How products describe themselves to the GEMM, for plans that fuse an elementwise tail into them. */
#ifndef CJ_OPS_PRODUCT_H
#define CJ_OPS_PRODUCT_H

#include "core/core.h"

void cj__gemm_describe(cj_gemm *g, const cj_tensor *a, const cj_tensor *b, const cj_tensor *c);
void cj__linear_describe(cj_gemm *g, const cj_call *call);
bool cj__gemm_run(cj_ctx *c, cj_dtype t, const cj_gemm *g);
bool cj__op_is_matmul(const cj_op *op);
bool cj__op_is_linear(const cj_op *op);

#endif
