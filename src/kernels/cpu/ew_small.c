/* One f32 instruction on at most a block of contiguous elements, without the engine around it: what eager mode does for small tensors. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ew_block.h"

void CJ_K(cj__ew_small)(cj_ew_code code, float *d, const float *a, const float *b, const float *c, double s, int n)
{
    const cj_ew_call k = { .d = d, .a = a, .b = b, .c = c, .s = s, .n = n, .ahead = { (const char *)a, (const char *)a } };
    CJ_K(cj__ew_f32)[code](&k);
}
