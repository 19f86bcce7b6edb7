/* The GPU against the CPU: every operator on the same inputs in two contexts, forward and gradients; draws to the bit; errors; training runs; plans.
 *
 * Two numbers agree when |a-b| <= tol·(|b| + mean|b|·√K), K the reduction length.  Prints one line per check that fails (all with -v) and a summary; exits with 77 where there
 * is no GPU.  -q: small training runs only, -t NAME: one training run, -b: speeds.  CJ_TEST_DEVICE=cpu compares the CPU with itself, which tests the test.
 */
#include "cuda_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

cj_ctx *host, *device;
bool verbose;
const char *dtype_name;
static int passed, failed;

void report(bool ok, const char *name, const char *what, double worst)
{
    if (ok) passed++;
    else failed++;
    if (!ok || verbose) printf("%s %s: %s (worst %.3g)\n", ok ? "ok  " : "FAIL", name, what, worst);
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- inputs: the same numbers in both contexts ------------------------------------------------------------------------------------------------ */

static uint64_t state = 1;
void reseed(uint64_t seed) { state = seed; }
double uniform(void) /* (0, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state >> 11) + 0.5) * 0x1p-53;
}

void make(const input *in, cj_dtype dtype, cj_tensor *out[2])
{
    int64_t n = 1;
    for (int d = 0; d < in->shape.ndim; d++) n *= in->shape.dim[d];
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        double u = uniform();
        v[i] = in->kind == 'n'   ? 5 * u - 2.5
               : in->kind == 'p' ? 0.1 + 1.9 * u
               : in->kind == 'u' ? 1.8 * u - 0.9
               : in->kind == 'i' ? floor(u * in->limit)
               : in->kind == 'b' ? u > 0.5
               : u < 0.5         ? 1 + floor(10 * u)
                                 : -1 - floor(10 * u - 5);
    }
    cj_dtype t = in->dtype != CJ_DEFAULT_DTYPE        ? in->dtype
                 : in->kind == 'i' || in->kind == 'z' ? CJ_I64
                 : in->kind == 'b'                    ? CJ_BOOL
                                                      : dtype;
    for (int k = 0; k < 2; k++) out[k] = cj_cast(cj_from_f64(k ? device : host, v, in->shape), t);
    free(v);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------------------------------ */

static double *values(cj_tensor *t)
{
    int64_t n = cj_numel(t);
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    if (!cj_to_f64(t, v, n)) v[0] = NAN;
    return v;
}

/* The largest excess over the tolerance, relative to it: at most 1 is good. */
double compare(cj_tensor *a, cj_tensor *b, double tol, double k)
{
    if (cj_is_poison(a) || cj_is_poison(b)) return INFINITY;
    if (cj_numel(a) != cj_numel(b) || cj_dtype_of(a) != cj_dtype_of(b)) return INFINITY;
    int64_t n = cj_numel(a);
    double *x = values(a), *y = values(b), mean = 0, worst = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(y[i])) mean += fabs(y[i]), finite++;
    mean = finite ? mean / (double)finite : 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
        double e = fabs(x[i] - y[i]) / (tol * (fabs(y[i]) + mean * sqrt(k)) + 1e-300);
        if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
    }
    free(x);
    free(y);
    return worst;
}

static char label[256];
const char *named(const char *name, const char *part)
{
    snprintf(label, sizeof label, "%s %s %s", name, dtype_name, part);
    return label;
}

/* The end of a check: scopes of the host and of the device, and what went wrong in them. */
static void close_both(cj_scope a, cj_scope b)
{
    cj_scope_close(b);
    cj_scope_close(a);
    cj_clear(host);
    cj_clear(device);
}

/* ---- draws: to the bit -------------------------------------------------------------------------------------------------------------------------------- */

static void check_draws(void)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F64, CJ_BF16, CJ_F16 };
    dtype_name = "";
    cj_scope a = cj_scope_open(host), b = cj_scope_open(device);
    for (int kind = 0; kind < 6; kind++)
        for (int t = 0; t < 4; t++)
            for (int n = 1; n < 200000; n = n * 37 + 2) {
                cj_tensor *y[2];
                for (int k = 0; k < 2; k++) {
                    cj_ctx *c = k ? device : host;
                    cj_random_opts o = { .dtype = types[t], .stream = kind % 2 ? CJ_STREAM_USER : CJ_STREAM_DATA };
                    y[k] = kind == 0   ? (cj_uniform)(c, -1.5, 2, CJ_SHAPE(n), &o)
                           : kind == 1 ? (cj_normal)(c, 0.5, 2, CJ_SHAPE(n), &o)
                           : kind == 2 ? (cj_bernoulli)(c, 0.3, CJ_SHAPE(n), &o)
                           : kind == 3 ? (cj_exponential)(c, 1.5, CJ_SHAPE(n), &o)
                           : kind == 4
                               ? (cj_randint)(c, -7, 1000, CJ_SHAPE(n), &(cj_random_opts){ .stream = o.stream })
                               : (cj_randint)(c, -5000000000, 6000000000, CJ_SHAPE(n), &(cj_random_opts){ .dtype = t ? CJ_I64 : CJ_I32 });
                }
                static const char *const names[] = { "uniform", "normal", "bernoulli", "exponential", "randint", "randint wide" };
                double worst = compare(y[1], y[0], 0, 1);
                dtype_name = cj_dtype_name(types[t]);
                report(worst == 0 && cj_ok(device) && cj_ok(host), named(names[kind], "bits"), cj_message(device), worst);
            }
    close_both(a, b);
    dtype_name = "";
}

/* ---- writes, errors ------------------------------------------------------------------------------------------------------------------------------------------ */

static void check_writes(void)
{
    cj_tensor *y[2], *z[2];
    cj_scope a = cj_scope_open(host), b = cj_scope_open(device);
    input big = { CJ_SHAPE(9, 20), .kind = 'n' }, small = { CJ_SHAPE(9, 5), .kind = 'n' }, row = { CJ_SHAPE(20), .kind = 'n' };
    cj_tensor *x[2], *s[2], *r[2];
    make(&big, CJ_F32, x), make(&small, CJ_F32, s), make(&row, CJ_F32, r);
    for (int k = 0; k < 2; k++) {
        cj_ctx *c = k ? device : host;
        y[k] = cj_clone(x[k]);
        cj_add_(y[k], r[k], -0.5);
        cj_write_slice_(y[k], 1, cj_full(c, 7, CJ_SCALAR, CJ_I64), s[k]);
        cj_assign_(cj_slice(y[k], 0, 2, 4, 1), cj_full(c, 3, CJ_SCALAR, CJ_F64));
        z[k] = cj_add_(cj_t(cj_clone(x[k])), cj_t(x[k]), 2);
    }
    double worst = compare(y[1], y[0], 1e-6, 1);
    report(worst <= 1, "assign_, add_, write_slice_", cj_message(device), worst);
    worst = compare(z[1], z[0], 1e-6, 1);
    report(worst <= 1, "add_ to a transposed view", cj_message(device), worst);
    close_both(a, b);
}

/* In a context with a device, tensors of the host are worked on there; a graph is sorted there and used on the device. */
static void check_both_sides(void)
{
    cj_tensor *x[2], *y[2], *z[2];
    cj_scope a = cj_scope_open(host), b = cj_scope_open(device);
    input sparse = { CJ_SHAPE(12, 9), .kind = 'b' }, dense = { CJ_SHAPE(9, 5), .kind = 'n' };
    make(&sparse, CJ_F32, x), make(&dense, CJ_F32, y);
    for (int k = 0; k < 2; k++) {
        cj_tensor *there = cj_to(y[k], "cpu");
        z[k] = cj_add(cj_mul_scalar(cj_add(there, cj_ones_like(there)), 3), cj_relu(there));
        y[k] = cj_csr_matmul(cj_csr_from_dense(cj_cast(x[k], CJ_F32)), y[k]);
    }
    double worst = compare(z[1], z[0], 0, 1);
    report(worst == 0, "tensors of the host beside a device", cj_message(device), worst);
    worst = compare(y[1], y[0], 1e-6, 9);
    report(worst <= 1, "csr_from_dense, csr_matmul", cj_message(device), worst);
    close_both(a, b);
}

/* A bad index is clamped; the next look at a value says so, and the context works again after cj_clear. */
static void check_error(const char *name, cj_tensor *(*f)(cj_ctx *), cj_code code, const char *words)
{
    cj_scope s = cj_scope_open(device);
    cj_tensor *y = f(device);
    cj_sum(cj_cast(y, CJ_F32));
    bool synced = cj_sync(device), ok = !synced && cj_error(device) == code && strstr(cj_message(device), words);
    report(ok, name, cj_ok(device) ? "no error" : cj_message(device), 0);
    if (ok && verbose) printf("     %s\n", cj_message(device));
    cj_clear(device);
    cj_scope_close(s);
    s = cj_scope_open(device);
    report(cj_item(cj_add_scalar(cj_ones(device, CJ_SCALAR, CJ_F32), 1)) == 2, name, "the context works again", 0);
    cj_scope_close(s);
    cj_clear(device);
}
static cj_tensor *bad_index(cj_ctx *c)
{
    return cj_index_select(cj_ones(c, CJ_SHAPE(4, 3), CJ_F32), 0, cj_from_i64(c, (int64_t[]){ 1, 4 }, CJ_SHAPE(2)));
}
static cj_tensor *bad_gather(cj_ctx *c)
{
    return cj_gather(cj_ones(c, CJ_SHAPE(2, 3), CJ_F32), 1, cj_from_i64(c, (int64_t[]){ 1, -1 }, CJ_SHAPE(2, 1)));
}
static cj_tensor *bad_scatter(cj_ctx *c)
{
    return cj_scatter_add(cj_ones(c, CJ_SHAPE(2, 3), CJ_F32), 1, cj_from_i64(c, (int64_t[]){ 1, 3 }, CJ_SHAPE(2, 1)),
                          cj_ones(c, CJ_SHAPE(2, 1), CJ_F32));
}
static cj_tensor *bad_add(cj_ctx *c)
{
    return cj_index_add(cj_ones(c, CJ_SHAPE(4, 3), CJ_F32), 0, cj_from_i64(c, (int64_t[]){ 1, 99 }, CJ_SHAPE(2)),
                        cj_ones(c, CJ_SHAPE(2, 3), CJ_F32));
}
static cj_tensor *bad_target(cj_ctx *c)
{
    return cj_cross_entropy(cj_ones(c, CJ_SHAPE(2, 3), CJ_F32), cj_from_i64(c, (int64_t[]){ 1, 3 }, CJ_SHAPE(2)));
}
static cj_tensor *bad_position(cj_ctx *c)
{
    return cj_write_slice_(cj_clone(cj_ones(c, CJ_SHAPE(4, 3), CJ_F32)), 0, cj_full(c, 3, CJ_SCALAR, CJ_I64),
                           cj_ones(c, CJ_SHAPE(2, 3), CJ_F32));
}
static cj_tensor *bad_division(cj_ctx *c) { return cj_remainder(cj_ones(c, CJ_SHAPE(5), CJ_I64), cj_zeros(c, CJ_SHAPE(5), CJ_I64)); }

static void check_errors(void)
{
    check_error("index_select out of range", bad_index, CJ_EINDEX, "index 4 at position 1");
    check_error("gather out of range", bad_gather, CJ_EINDEX, "index -1 at position 1");
    check_error("scatter_add out of range", bad_scatter, CJ_EINDEX, "index 3 at position 1");
    check_error("index_add out of range", bad_add, CJ_EINDEX, "index 99 at position 1");
    check_error("cross_entropy out of range", bad_target, CJ_EINDEX, "target 3 at position 1");
    check_error("write_slice_ out of range", bad_position, CJ_EINDEX, "position 3");
    check_error("integer division by zero", bad_division, CJ_EVALUE, "division by zero");
}

static void log_line(void *user, cj_log_level level, const char *message)
{
    (void)user, (void)level;
    printf("log: %s\n", message);
}

int main(int argc, char **argv)
{
    verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    bool quick = argc > 1 && strcmp(argv[1], "-q") == 0; /* small training runs: for compute-sanitizer */
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *name = getenv("CJ_TEST_DEVICE");
    host = cj_ctx_new(&(cj_ctx_opts){ .seed = 11, .log = log_line });
    device = cj_ctx_new(&(cj_ctx_opts){ .seed = 11, .device = name ? name : "cuda", .log = log_line });
    if (!cj_ok(device)) {
        printf("skipped: %s\n", cj_message(device));
        cj_ctx_free(device);
        cj_ctx_free(host);
        return 77;
    }
    if (argc > 1 && strcmp(argv[1], "-b") == 0) {
        bench();
        cj_ctx_free(device);
        cj_ctx_free(host);
        return 0;
    }
    const char *only = argc > 2 && strcmp(argv[1], "-t") == 0 ? argv[2] : NULL; /* one training run, by the beginning of its name */
    if (!only) {
        check_draws();
        check_writes();
        check_both_sides();
        if (!name) check_errors();
        check_operators();
        check_chains();
        check_optimisers();
        check_half_optimisers();
    }
    const task tasks[] = {
        { "mlp 64-32-32-10", false, CJ_SHAPE(32, 64), CJ_SHAPE(32), 0, 10, 32, 0, 0, 1e-4, 50 },
        { "gpt small", true, CJ_SHAPE(4, 16), CJ_SHAPE(4, 16), 65, 65, 32, 4, 0, 1e-3, 20 },
        { "gpt with dropout", true, CJ_SHAPE(4, 16), CJ_SHAPE(4, 16), 65, 65, 32, 4, 0.2, 1e-3, 20 },
        { "mlp 784-512-512-10", false, CJ_SHAPE(128, 784), CJ_SHAPE(128), 0, 10, 512, 0, 0, 1e-3, 50 },
        { "gpt 2 blocks 128", true, CJ_SHAPE(16, 64), CJ_SHAPE(16, 64), 65, 65, 128, 4, 0, 2e-3, 20 },
    };
    for (size_t i = 0; i < (quick ? 3 : sizeof tasks / sizeof tasks[0]); i++)
        if (!only || strncmp(tasks[i].name, only, strlen(only)) == 0) check_training(&tasks[i]);
    cj_ctx_free(device);
    cj_ctx_free(host);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
