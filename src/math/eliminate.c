/* General systems, inverses and determinants of one large matrix on the recursive elimination of kernels/cpu/lu.h: the functions of dense.h that LAPACK's table has instead of
 * getrf, getrs and getri.  OpenBLAS runs on one thread here, and its factorisation spends half of its time outside of products. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "math/dense.h"

static size_t lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
static size_t columns_bytes(cj_dtype t, int64_t n, int64_t k) { return lines((size_t)(cj__lu_ld(n) * k) * cj_dtype_size(t)); }

/* Factors, right-hand sides, pivots, and what the elimination needs. */
static size_t bytes_for(const cj_dense_place *on, cj_dtype t, int64_t n, int64_t k)
{
    return columns_bytes(t, n, n + k) + lines((size_t)n * sizeof(int32_t)) + on->k->lu_workspace(t, n, k, on->threads);
}
size_t cj__eliminate_workspace(const cj_dense_place *on, cj_dense_code code, cj_dtype t, int64_t n, int64_t k)
{
    return bytes_for(on, t, n, code == CJ_DENSE_SOLVE ? k : code == CJ_DENSE_INVERSE ? n : 0);
}

/* The factors of a, or of its transpose; the right-hand sides come behind them. */
static cj_lu factored(const cj_dense_place *on, cj_dtype t, int64_t n, int64_t k, bool transpose, const void *a, void *work, void **b,
                      int64_t *zero)
{
    char *at = work;
    cj_lu f = { .dtype = t, .n = n, .k = k, .ld = cj__lu_ld(n), .a = at };
    const size_t size = cj_dtype_size(t);
    *b = at + (size_t)(f.ld * n) * size;
    at += columns_bytes(t, n, n + k);
    f.pivot = (int32_t *)(void *)at;
    f.work = at + lines((size_t)n * sizeof(int32_t));
    if (transpose)
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)f.a + (size_t)(i * f.ld) * size, (const char *)a + (size_t)(i * n) * size, (size_t)n * size);
    else on->k->turn(t, n, n, a, n, f.a, f.ld);
    *zero = on->k->lu_factor(on->pool, &f);
    return f;
}

int64_t cj__eliminate_lu(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, int64_t *pivot, void *work)
{
    void *none;
    int64_t zero;
    const cj_lu f = factored(on, t, n, 0, false, a, work, &none, &zero);
    on->k->turn(t, n, n, f.a, f.ld, a, n);
    for (int64_t i = 0; i < n; i++) pivot[i] = f.pivot[i];
    return zero;
}

int64_t cj__eliminate_solve(const cj_dense_place *on, cj_dtype t, int64_t n, int64_t k, bool transpose, const void *a, void *b, void *work)
{
    void *x;
    int64_t zero;
    const cj_lu f = factored(on, t, n, k, transpose, a, work, &x, &zero);
    if (zero) return zero;
    on->k->turn(t, n, k, b, k, x, f.ld);
    on->k->lu_solve(on->pool, &f, x);
    on->k->turn(t, k, n, x, f.ld, b, k);
    return 0;
}

int64_t cj__eliminate_inverse(const cj_dense_place *on, cj_dtype t, int64_t n, void *a, void *work)
{
    void *x;
    int64_t zero;
    const cj_lu f = factored(on, t, n, n, false, a, work, &x, &zero);
    if (zero) return zero;
    memset(x, 0, (size_t)(f.ld * n) * cj_dtype_size(t));
    for (int64_t i = 0; i < n; i++) {
        if (t == CJ_F64) ((double *)x)[i * (f.ld + 1)] = 1;
        else ((float *)x)[i * (f.ld + 1)] = 1;
    }
    on->k->lu_solve(on->pool, &f, x);
    on->k->turn(t, n, n, x, f.ld, a, n);
    return 0;
}
