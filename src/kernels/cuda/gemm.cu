/* Products through cuBLASLt; a plain tiled kernel where its layouts do not reach (strides of 0, no unit stride, k = 0).
 *
 * cuBLASLt counts in columns first: row-major C = A·B is its Cᵀ = Bᵀ·Aᵀ, and a transposed view is a flag.  f32 is computed in f32 (no TF32), bf16 and f16
 * accumulate in f32.  The algorithm of a shape is asked for once and kept with its descriptors; it depends on shape, strides, dtype and alignment alone.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/state.cuh"

/* ---- the plain kernel: any strides -------------------------------------------------------------------------------------------------------------- */

#define T 16

template <class S, class C> static __global__ void gemm_plain(const __grid_constant__ cj_gemm g)
{
    __shared__ C a[T][T + 1], b[T][T + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int64_t tiles_n = (g.n + T - 1) / T, i = (int64_t)blockIdx.x / tiles_n * T + ty, j = (int64_t)blockIdx.x % tiles_n * T + tx;
    for (int64_t q = blockIdx.y; q < g.batch; q += gridDim.y) {
        const S *pa = (const S *)g.a + q * g.a_batch, *pb = (const S *)g.b + q * g.b_batch;
        C sum = 0;
        for (int64_t p = 0; p < g.k; p += T) {
            a[ty][tx] = i < g.m && p + tx < g.k ? value_of(pa[i * g.a_row + (p + tx) * g.a_col]) : C(0);
            b[ty][tx] = p + ty < g.k && j < g.n ? value_of(pb[(p + ty) * g.b_row + j * g.b_col]) : C(0);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < T; k++) sum = fma(a[ty][k], b[k][tx], sum);
            __syncthreads();
        }
        if (i < g.m && j < g.n) {
            S *c = (S *)g.c + q * g.c_batch + i * g.c_row + j;
            if (g.accumulate) sum += value_of(*c);
            if (g.bias) sum += value_of(((const S *)g.bias)[j]);
            put(c, sum);
        }
    }
}

static const char *run_plain(gpu_state *st, int t, const cj_gemm *g)
{
    const int64_t tiles = (g->m + T - 1) / T * ((g->n + T - 1) / T);
    if (tiles > INT32_MAX) return "the product is too large";
    const dim3 grid((unsigned)tiles, (unsigned)(g->batch < 65535 ? g->batch : 65535)), block(T, T);
    GPU_BY_FLOAT(t, (gemm_plain<S, C><<<grid, block, 0, st->stream>>>(*g)));
    return gpu_check(st);
}

/* ---- cuBLASLt ------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct operand {
    bool transposed;
    int64_t rows, cols, ld; /* as stored, columns first */
} operand;

/* A row-major [rows, cols] view as cuBLASLt sees its transpose; false where no stride is 1. */
static bool describe(int64_t rows, int64_t cols, int64_t row, int64_t col, operand *o)
{
    if (cols == 1) col = 1;
    if (rows == 1) row = cols;
    if (col == 1 && row >= cols) {
        *o = { false, cols, rows, row };
        return true;
    }
    if (cols == 1) return false;
    if (rows == 1) row = 1; /* a strided vector */
    if (row == 1 && col >= rows) {
        *o = { true, rows, cols, col };
        return true;
    }
    return false;
}

typedef struct gemm_key {
    int64_t m, n, k, batch, lda, ldb, ldc, a_batch, b_batch, c_batch;
    int32_t dtype, flags, align_a, align_b, align_c, align_bias; /* flags: 1, 2 transposed; 4 bias; 8 accumulate */
} gemm_key;

typedef struct gemm_entry {
    gemm_key key;
    bool used, possible;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
} gemm_entry;

#define ENTRIES 4096 /* a power of two; emptied when three quarters full */
struct gpu_gemm_cache {
    int n;
    gemm_entry entry[ENTRIES];
};

static void entry_free(gemm_entry *e)
{
    if (e->a) cublasLtMatrixLayoutDestroy(e->a);
    if (e->b) cublasLtMatrixLayoutDestroy(e->b);
    if (e->c) cublasLtMatrixLayoutDestroy(e->c);
    if (e->desc) cublasLtMatmulDescDestroy(e->desc);
    memset(e, 0, sizeof *e);
}

static void cache_empty(gpu_gemm_cache *c)
{
    for (int i = 0; i < ENTRIES; i++)
        if (c->entry[i].used) entry_free(&c->entry[i]);
    c->n = 0;
}

void gpu_gemm_close(gpu_state *st)
{
    if (!st->gemm) return;
    cache_empty(st->gemm);
    free(st->gemm);
    st->gemm = NULL;
}

static int alignment(const void *p)
{
    uintptr_t low = (uintptr_t)p & -(uintptr_t)p;
    return low == 0 || low > 256 ? 256 : (int)low;
}

static bool layout(cublasLtMatrixLayout_t *out, cudaDataType_t type, const operand *o, int64_t batch, int64_t stride)
{
    if (cublasLtMatrixLayoutCreate(out, type, (uint64_t)o->rows, (uint64_t)o->cols, o->ld) != CUBLAS_STATUS_SUCCESS) return false;
    if (batch == 1) return true;
    int32_t count = (int32_t)batch;
    return cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride) ==
               CUBLAS_STATUS_SUCCESS;
}

/* Fills e for its key; possible stays false where cuBLASLt has no algorithm.  first and second are cuBLASLt's operands: our b and a. */
static void entry_make(gpu_state *st, gemm_entry *e, const operand *first, const operand *second, const cj_gemm *g)
{
    const gemm_key *k = &e->key;
    const cudaDataType_t type = k->dtype == CJ_F64    ? CUDA_R_64F
                                : k->dtype == CJ_BF16 ? CUDA_R_16BF
                                : k->dtype == CJ_F16  ? CUDA_R_16F
                                                      : CUDA_R_32F;
    const bool wide = k->dtype == CJ_F64;
    if (cublasLtMatmulDescCreate(&e->desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F) !=
        CUBLAS_STATUS_SUCCESS)
        return;
    const cublasOperation_t ta = first->transposed ? CUBLAS_OP_T : CUBLAS_OP_N, tb = second->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    if (g->bias) {
        const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
        cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    }
    const operand c = { false, g->n, g->m, k->ldc };
    if (!layout(&e->a, type, first, k->batch, k->b_batch) || !layout(&e->b, type, second, k->batch, k->a_batch) ||
        !layout(&e->c, type, &c, k->batch, k->c_batch))
        return;
    cublasLtMatmulPreference_t preference;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return;
    const size_t workspace = GPU_WORKSPACE;
    const uint32_t align[3] = { (uint32_t)k->align_b, (uint32_t)k->align_a, (uint32_t)k->align_c };
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align[0], sizeof align[0]);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align[1], sizeof align[1]);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align[2], sizeof align[2]);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align[2], sizeof align[2]);
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    if (cublasLtMatmulAlgoGetHeuristic(st->lt, e->desc, e->a, e->b, e->c, e->c, preference, 1, &result, &found) == CUBLAS_STATUS_SUCCESS &&
        found > 0 && result.state == CUBLAS_STATUS_SUCCESS) {
        e->algo = result.algo;
        e->possible = true;
    }
    cublasLtMatmulPreferenceDestroy(preference);
}

static gemm_entry *entry_of(gpu_state *st, const gemm_key *key, const operand *first, const operand *second, const cj_gemm *g)
{
    if (!st->gemm && !(st->gemm = (gpu_gemm_cache *)calloc(1, sizeof *st->gemm))) return NULL;
    if (st->gemm->n >= ENTRIES / 4 * 3) cache_empty(st->gemm);
    uint64_t h = 0xcbf29ce484222325u;
    const uint32_t *word = (const uint32_t *)key;
    for (size_t i = 0; i < sizeof *key / 4; i++) h = (h ^ word[i]) * 0x100000001b3u;
    gemm_entry *e = &st->gemm->entry[(h >> 20) & (ENTRIES - 1)];
    while (e->used && memcmp(&e->key, key, sizeof *key) != 0)
        if (++e == st->gemm->entry + ENTRIES) e = st->gemm->entry;
    if (!e->used) {
        e->key = *key;
        e->used = true;
        st->gemm->n++;
        entry_make(st, e, first, second, g);
    }
    return e;
}

const char *gpu_gemm(gpu_state *st, int t, const cj_gemm *g)
{
    gpu_use(st);
    operand first, second;
    if (g->m == 0 || g->n == 0 || g->batch == 0) return NULL;
    const bool vector_c = g->c_row < g->n;
    if (g->k == 0 || vector_c || g->batch > INT32_MAX || !describe(g->k, g->n, g->b_row, g->b_col, &first) ||
        !describe(g->m, g->k, g->a_row, g->a_col, &second))
        return run_plain(st, t, g);
    gemm_key key;
    memset(&key, 0, sizeof key);
    key.m = g->m, key.n = g->n, key.k = g->k, key.batch = g->batch;
    key.lda = second.ld, key.ldb = first.ld, key.ldc = g->m == 1 ? g->n : g->c_row;
    if (g->batch > 1) key.a_batch = g->a_batch, key.b_batch = g->b_batch, key.c_batch = g->c_batch;
    key.dtype = t;
    key.flags = first.transposed | second.transposed << 1 | (g->bias != NULL) << 2 | (g->accumulate != 0) << 3;
    key.align_a = alignment(g->a), key.align_b = alignment(g->b), key.align_c = alignment(g->c),
    key.align_bias = g->bias ? alignment(g->bias) : 0;
    gemm_entry *e = entry_of(st, &key, &first, &second, g);
    if (!e) return "out of memory";
    if (!e->possible) return run_plain(st, t, g);
    if (g->bias) cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    const double one64 = 1, beta64 = g->accumulate ? 1 : 0;
    const float one32 = 1, beta32 = (float)beta64;
    const void *alpha = t == CJ_F64 ? (const void *)&one64 : &one32, *beta = t == CJ_F64 ? (const void *)&beta64 : &beta32;
    const cublasStatus_t s = cublasLtMatmul(st->lt, e->desc, alpha, g->b, e->a, g->a, e->b, beta, g->c, e->c, g->c, e->c, &e->algo,
                                            st->workspace, GPU_WORKSPACE, st->stream);
    return s == CUBLAS_STATUS_SUCCESS ? NULL : cublasLtGetStatusString(s);
}
