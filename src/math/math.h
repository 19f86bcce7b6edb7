/* Shared inside src/math. */
#ifndef CJ_MATH_MATH_H
#define CJ_MATH_MATH_H

#include "cajal/math.h"

/* The moments C_i and C_ij of special_moments.h, i + j of 1 to 8: C_1 is d/da of cj_gammainc, C_10 and C_01 are d/da and d/db of cj_betainc. */
cj_tensor *cj__gammainc_moment(int i, cj_tensor *a, cj_tensor *x);
cj_tensor *cj__stdtr_moment(int i, cj_tensor *df, cj_tensor *z); /* S_i */
cj_tensor *cj__betainc_moment(int i, int j, cj_tensor *a, cj_tensor *b, cj_tensor *x);

#endif
