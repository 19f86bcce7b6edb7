/* Instruction-set levels.  Every file of this folder that includes simd.h is compiled once per level with -DCJ_ISA_<LEVEL>, and its public names
 * carry the level as a suffix through CJ_K; table.c collects them into one cj_cpu_kernels per level.  The level is chosen once per context. */
#ifndef CJ_KERNELS_CPU_ISA_H
#define CJ_KERNELS_CPU_ISA_H

typedef enum cj_isa { CJ_ISA_LEVEL_PORTABLE, CJ_ISA_LEVEL_NEON, CJ_ISA_LEVEL_AVX2, CJ_ISA_LEVEL_AVX512, CJ_ISA_LEVELS } cj_isa;

#if defined CJ_ISA_AVX512
#define CJ_K(name) name##_avx512
#elif defined CJ_ISA_AVX2
#define CJ_K(name) name##_avx2
#elif defined CJ_ISA_NEON
#define CJ_K(name) name##_neon
#else
#define CJ_K(name) name##_portable
#endif

/* Keeps a vector that is used more than once in its register: the compiler likes to load it again for every use. */
#if defined CJ_ISA_AVX512 || defined CJ_ISA_AVX2
#define VKEEP(x) __asm__("" : "+v"(x))
#else
#define VKEEP(x) ((void)0)
#endif

#endif
