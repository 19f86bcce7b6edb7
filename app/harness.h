/* The operator harness behind `cajal selftest` and `cajal ops`: runs the samples of a registry row (ops/samples.h) through every check that this build and this
 * machine allow.  No test framework: it runs wherever the program does. */
#ifndef CJ_APP_HARNESS_H
#define CJ_APP_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cajal/core.h"
#include "kernels/cpu/isa.h"

typedef enum harness_check {
    HARNESS_REACHED,    /* every sample calls the row that it stands for */
    HARNESS_VJP,        /* reverse mode against central differences, f64, two random cotangents */
    HARNESS_JVP,        /* forward mode against reverse mode */
    HARNESS_SECOND,     /* the same for the gradient */
    HARNESS_DTYPE,      /* forward and gradient of every dtype against f64 on the portable kernels */
    HARNESS_DEFINITION, /* fused forward against the definition in public operators */
    HARNESS_FUSED,      /* fused backward against the composed one */
    HARNESS_WRITTEN,    /* an input changed before the gradient: an error, or nothing changes */
    HARNESS_LAYOUT,     /* strided, reversed and expanded inputs against contiguous ones */
    HARNESS_THREADS,    /* 1 thread against several: equal bits */
    HARNESS_PLAN,       /* eager against captured and replayed: equal bits */
    HARNESS_ISA,        /* every instruction-set level; draws: equal bits */
    HARNESS_DEVICE,     /* the device against f64; draws: equal bits */
    HARNESS_CHECKS
} harness_check;
extern const char *const harness_check_names[HARNESS_CHECKS];

typedef struct harness_opts {
    const char *device; /* "cuda": check it too */
    const char *isa;    /* NULL: the best of the machine */
    uint64_t seed;
    bool quick; /* fewer samples per check */
} harness_opts;

/* What a row passed. */
typedef struct harness_row {
    const char *name;
    int samples;
    int ran[HARNESS_CHECKS], failed[HARNESS_CHECKS];
    char why[HARNESS_CHECKS][240];  /* the first failure of each check */
    unsigned dtypes, dtypes_failed; /* bit per cj_dtype */
    unsigned levels, levels_failed; /* bit per cj_isa */
    bool device, no_device_kernel;
    bool passed;
} harness_row;

typedef struct harness harness;
harness *harness_new(const harness_opts *opts, char *message, size_t n); /* NULL after an error, which is in message */
void harness_free(harness *h);
/* Runs row i of the registry. */
void harness_run(harness *h, int i, harness_row *row);
const char *harness_isa(const harness *h);
/* "portable avx2 avx512": the levels of this machine. */
const char *harness_levels(const harness *h);

#endif
