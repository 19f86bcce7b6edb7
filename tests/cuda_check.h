/* What the checks of the GPU against the CPU share: the two contexts, inputs with the same numbers in both, the comparison, the report. */
#pragma once
#include <cajal/cajal.h>

extern cj_ctx *host, *device;
extern bool verbose;
extern const char *dtype_name; /* of the run at hand, for the report */

typedef struct input {
    cj_shape shape;
    char kind; /* n: -2.5 … 2.5, p: 0.1 … 2, u: -0.9 … 0.9, i: index below limit, z: -5 … 5 without 0, b: 0 or 1 */
    int limit;
    cj_dtype dtype; /* CJ_DEFAULT_DTYPE: the float type of the run, i64 for indices */
} input;

/* One training run: of an MLP or a GPT. */
typedef struct task {
    const char *name;
    bool gpt;
    cj_shape x, y;
    int64_t x_limit, y_limit, hidden, heads;
    double dropout, tol;
    int steps;
} task;

void report(bool ok, const char *name, const char *what, double worst);
const char *named(const char *name, const char *part); /* "name dtype part", until the next call */
double seconds(void);
void reseed(uint64_t seed);                                    /* of the inputs' numbers */
double uniform(void);                                          /* (0, 1) */
void make(const input *in, cj_dtype dtype, cj_tensor *out[2]); /* on the host, on the device */
double compare(cj_tensor *a, cj_tensor *b, double tol, double k);

void check_operators(void); /* cuda_operators.c */
void check_chains(void);
void bench(void);
void check_training(const task *k); /* cuda_training.c, with all that follows */
void check_optimisers(void);
void check_half_optimisers(void);
