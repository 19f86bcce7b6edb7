/* Packing: copies a strided block of A or B into rows of floats, and converts 16-bit storage on the way.
 *
 *     dst[i*ld + j] = src[i*row + j*col]        i < rows, j < columns
 *
 * Unit col is a row copy, unit row a transposition of VL x VL blocks in registers, anything else (expanded or reversed views) element by element.
 */
#ifndef CJ_KERNELS_CPU_GEMM_PACK_H
#define CJ_KERNELS_CPU_GEMM_PACK_H

#include "kernels/cpu/gemm_half.h"
#include "kernels/cpu/gemm_simd.h"

/* What the bytes of A, B and C mean; sums are always f32. */
typedef enum gemm_kind { GEMM_F32, GEMM_BF16, GEMM_F16 } gemm_kind;

GEMM_INLINE size_t kind_size(gemm_kind kind) { return kind == GEMM_F32 ? 4 : 2; }
GEMM_INLINE const void *kind_at(const void *base, int64_t i, gemm_kind kind) { return (const char *)base + i * (int64_t)kind_size(kind); }

GEMM_INLINE float load1(const void *src, int64_t i, gemm_kind kind)
{
    if (kind == GEMM_F32) return ((const float *)src)[i];
    return kind == GEMM_BF16 ? bf16_to_f32(((const uint16_t *)src)[i]) : f16_to_f32(((const uint16_t *)src)[i]);
}

GEMM_INLINE vf load_vf(const void *src, int64_t i, gemm_kind kind)
{
    if (kind == GEMM_F32) return vload((const float *)src + i);
    return kind == GEMM_BF16 ? vload_bf16((const uint16_t *)src + i) : vload_f16((const uint16_t *)src + i);
}

/* Perfect shuffles: log2(VL) rounds of zipping row i with row i + VL/2 transpose the block. */
GEMM_INLINE void transpose_block(vf x[VL])
{
#pragma GCC unroll 4
    for (int round = 1; round < VL; round *= 2) {
        vf y[VL];
#pragma GCC unroll 8
        for (int i = 0; i < VL / 2; i++) {
            y[2 * i] = vzip_low(x[i], x[i + VL / 2]);
            y[2 * i + 1] = vzip_high(x[i], x[i + VL / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) x[i] = y[i];
    }
}

#if defined CJ_ISA_AVX512
/* dst[q*ld + l] = src[q + l*col] for 4 x 16 elements.  Lane L of x[r] comes from column 4L + r, put together by the loads; what remains is a transposition
 * of 4 x 4 inside the lanes: half of the permutations that transpose_block has. */
GEMM_INLINE void turn_four(float *dst, int64_t ld, const float *src, int64_t col)
{
    vf x[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) x[r] = vload_fours(src + r * col, 4 * col);
    const vf low01 = vpairs_low(x[0], x[1]), low23 = vpairs_low(x[2], x[3]), high01 = vpairs_high(x[0], x[1]),
             high23 = vpairs_high(x[2], x[3]);
    vstore(dst, vzip_pairs_low(low01, low23));
    vstore(dst + ld, vzip_pairs_high(low01, low23));
    vstore(dst + 2 * ld, vzip_pairs_low(high01, high23));
    vstore(dst + 3 * ld, vzip_pairs_high(high01, high23));
}
#endif

/* The first `rows` rows (whole vectors of them, or on AVX-512 any four and more: the last four overlap) of whole vectors of columns; how many are done. */
GEMM_INLINE int64_t turn_rows_of_blocks(float *dst, int64_t ld, const void *src, int64_t col, int64_t rows, int64_t columns, gemm_kind kind)
{
#if defined CJ_ISA_AVX512
    if (kind == GEMM_F32) {
        if (rows < 4) return 0;
        for (int64_t j = 0; j < columns; j += VL)
            for (int64_t q = 0; q < rows; q += 4) {
                const int64_t i = q + 4 <= rows ? q : rows - 4;
                turn_four(dst + i * ld + j, ld, (const float *)src + i + j * col, col);
            }
        return rows;
    }
#endif
    const int64_t whole = rows - rows % VL;
    for (int64_t j = 0; j < columns; j += VL) {
        for (int64_t i = 0; i < whole; i += VL) {
            vf x[VL];
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++) x[q] = load_vf(src, i + (j + q) * col, kind);
            transpose_block(x);
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++) vstore(dst + (i + q) * ld + j, x[q]);
        }
    }
    return whole;
}

GEMM_INLINE void pack_elements(float *dst, int64_t ld, const void *src, int64_t row, int64_t col, int64_t i0, int64_t i1, int64_t j0,
                               int64_t j1, gemm_kind kind)
{
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j1; j++) dst[i * ld + j] = load1(src, i * row + j * col, kind);
}

/* The same for floats and unit row, with vectors that are not full. */
static __attribute__((noinline)) void turn_edge(float *dst, int64_t ld, const float *src, int64_t col, int64_t i0, int64_t i1, int64_t j0,
                                                int64_t j1)
{
    for (int64_t j = j0; j < j1; j += VL) {
        const int columns = j1 - j < VL ? (int)(j1 - j) : VL;
        for (int64_t i = i0; i < i1; i += VL) {
            const int rows = i1 - i < VL ? (int)(i1 - i) : VL;
            vf x[VL];
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++) x[q] = q < columns ? vload_some(src + i + (j + q) * col, rows) : vzero();
            transpose_block(x);
#pragma GCC unroll 16
            for (int q = 0; q < VL; q++)
                if (q < rows) vstore_some(dst + (i + q) * ld + j, x[q], columns);
        }
    }
}

GEMM_INLINE void pack_kind(float *dst, int64_t ld, const void *src, int64_t row, int64_t col, int64_t rows, int64_t columns, gemm_kind kind)
{
    const int64_t whole_columns = columns - columns % VL;
    if (col == 1) {
        for (int64_t i = 0; i < rows; i++) {
            const void *s = kind_at(src, i * row, kind);
            float *d = dst + i * ld;
            for (int64_t j = 0; j < whole_columns; j += VL) vstore(d + j, load_vf(s, j, kind));
            for (int64_t j = whole_columns; j < columns; j++) d[j] = load1(s, j, kind);
        }
    } else if (row == 1) {
        const int64_t done = turn_rows_of_blocks(dst, ld, src, col, rows, whole_columns, kind);
        if (kind == GEMM_F32) {
            turn_edge(dst, ld, src, col, 0, rows, whole_columns, columns);
            turn_edge(dst, ld, src, col, done, rows, 0, whole_columns);
        } else {
            pack_elements(dst, ld, src, row, col, 0, rows, whole_columns, columns, kind);
            pack_elements(dst, ld, src, row, col, done, rows, 0, whole_columns, kind);
        }
    } else {
        pack_elements(dst, ld, src, row, col, 0, rows, 0, columns, kind);
    }
}

static void pack(float *dst, int64_t ld, const void *src, int64_t row, int64_t col, int64_t rows, int64_t columns, gemm_kind kind)
{
    if (kind == GEMM_F32) pack_kind(dst, ld, src, row, col, rows, columns, GEMM_F32);
    else if (kind == GEMM_BF16) pack_kind(dst, ld, src, row, col, rows, columns, GEMM_BF16);
    else pack_kind(dst, ld, src, row, col, rows, columns, GEMM_F16);
}

/* A panel of B: k rows of `width` floats, of which `columns` exist; the rest is zero, so that the lanes beyond C compute nothing odd. */
static void pack_panel(float *dst, int64_t width, const void *b, int64_t b_row, int64_t b_col, int64_t k, int64_t columns, gemm_kind kind)
{
    pack(dst, width, b, b_row, b_col, k, columns, kind);
    if (columns == width) return;
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = columns; j < width; j++) dst[p * width + j] = 0;
}

#endif
