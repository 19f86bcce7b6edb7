/* Operators that plans treat apart. */
#ifndef CJ_OPS_WHICH_H
#define CJ_OPS_WHICH_H

#include "core/core.h"

bool cj__op_is_layer_norm(const cj_op *op);
bool cj__op_is_batch_norm(const cj_op *op);
bool cj__op_is_cast(const cj_op *op);
/* Does it put tensors side by side?  Then along which axis. */
bool cj__op_is_cat(const cj_op *op, const void *attrs, int *axis);

#endif
