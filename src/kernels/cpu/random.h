/* The words behind random draws (random.c), for kernels that draw on the way. */
#ifndef CJ_KERNELS_CPU_RANDOM_H
#define CJ_KERNELS_CPU_RANDOM_H

#include <stdint.h>

#include "kernels/cpu/isa.h"

/* The 4n words of n Philox blocks from `block` on, of draw number `call`; up to 7 blocks more are written. */
void CJ_K(cj__philox_words)(const uint32_t key[2], uint64_t call, uint64_t block, int n, uint32_t *w);

#endif
