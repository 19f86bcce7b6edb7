/* Which level of kernels this processor runs.  Compiled once; CJ_HAVE_<LEVEL> says which levels are linked in, the portable one always is. */
#include <string.h>

#include "kernels/cpu/cpu.h"

extern const cj_cpu_kernels cj__cpu_portable;
#if defined CJ_HAVE_NEON
extern const cj_cpu_kernels cj__cpu_neon; /* every 64-bit ARM has it */
#endif
#if defined CJ_HAVE_AVX2
extern const cj_cpu_kernels cj__cpu_avx2;

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"); /* f16c came before avx2 */
}
#endif
#if defined CJ_HAVE_AVX512
extern const cj_cpu_kernels cj__cpu_avx512;

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("bmi2");
}
#endif

const cj_cpu_kernels *cj__cpu_kernels(cj_isa level)
{
    switch (level) {
    case CJ_ISA_LEVEL_PORTABLE: return &cj__cpu_portable;
#if defined CJ_HAVE_NEON
    case CJ_ISA_LEVEL_NEON: return &cj__cpu_neon;
#endif
#if defined CJ_HAVE_AVX2
    case CJ_ISA_LEVEL_AVX2: return has_avx2() ? &cj__cpu_avx2 : NULL;
#endif
#if defined CJ_HAVE_AVX512
    case CJ_ISA_LEVEL_AVX512: return has_avx512() ? &cj__cpu_avx512 : NULL;
#endif
    default: return NULL;
    }
}

int cj__isa_by_name(const char *name)
{
    static const char *const names[CJ_ISA_LEVELS] = { "portable", "neon", "avx2", "avx512" };
    for (int i = 0; name && i < CJ_ISA_LEVELS; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return -1;
}
