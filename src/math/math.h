/* Shared inside src/math. */
#ifndef CJ_MATH_MATH_H
#define CJ_MATH_MATH_H

#include "cajal/math.h"

/* d/da of cj_gammainc: not differentiable further. */
cj_tensor *cj__gammainc_da(cj_tensor *a, cj_tensor *x);

#endif
