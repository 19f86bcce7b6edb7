/* What kernels_ew_main.c sees of one instruction-set level. */
#include <stdint.h>

#include "kernels/cpu/isa.h"

enum { TEST_EXACT = 5 };
typedef struct test_isa {
    int lanes;
    void (*exact[TEST_EXACT])(const float *x, float *y); /* log, exp, sin 2pi, cos 2pi, fma */
    void (*bf16_store)(const float *x, uint16_t *y);
    void (*f16_store)(const float *x, uint16_t *y);
    void (*bf16_load)(const uint16_t *x, float *y);
    void (*f16_load)(const uint16_t *x, float *y);
    int (*check_small)(void);
} test_isa;
extern const test_isa test_isa_of_avx512, test_isa_of_avx2, test_isa_of_neon, test_isa_of_portable;
