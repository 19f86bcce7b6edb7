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

GEMM_INLINE void pack_elements(float *dst, int64_t ld, const void *src, int64_t row, int64_t col, int64_t i0, int64_t i1, int64_t j0,
                               int64_t j1, gemm_kind kind)
{
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j1; j++) dst[i * ld + j] = load1(src, i * row + j * col, kind);
}

GEMM_INLINE void pack_kind(float *dst, int64_t ld, const void *src, int64_t row, int64_t col, int64_t rows, int64_t columns, gemm_kind kind)
{
    const int64_t whole_columns = columns - columns % VL, whole_rows = rows - rows % VL;
    if (col == 1) {
        for (int64_t i = 0; i < rows; i++) {
            const void *s = kind_at(src, i * row, kind);
            float *d = dst + i * ld;
            for (int64_t j = 0; j < whole_columns; j += VL) vstore(d + j, load_vf(s, j, kind));
            for (int64_t j = whole_columns; j < columns; j++) d[j] = load1(s, j, kind);
        }
    } else if (row == 1) {
        for (int64_t j = 0; j < whole_columns; j += VL) {
            for (int64_t i = 0; i < whole_rows; i += VL) {
                vf x[VL];
#pragma GCC unroll 16
                for (int q = 0; q < VL; q++) x[q] = load_vf(src, i + (j + q) * col, kind);
                transpose_block(x);
#pragma GCC unroll 16
                for (int q = 0; q < VL; q++) vstore(dst + (i + q) * ld + j, x[q]);
            }
        }
        pack_elements(dst, ld, src, row, col, 0, whole_rows, whole_columns, columns, kind);
        pack_elements(dst, ld, src, row, col, whole_rows, rows, 0, columns, kind);
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
