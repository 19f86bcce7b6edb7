/* What others need to know about the operators of norm.c. */
#ifndef CJ_OPS_NORM_H
#define CJ_OPS_NORM_H

#include "core/core.h"

bool cj__op_is_layer_norm(const cj_op *op);

#endif
