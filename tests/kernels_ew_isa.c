/* One level's vector functions as plain functions, for kernels_ew_main.c.  Compiled once per level. */
#include "kernels_ew_isa.h"
#include "kernels/cpu/simd_math.h"

static void log_exact(const float *x, float *y) { vf_store(y, vf_log_exact(vf_load(x))); }
static void exp_exact(const float *x, float *y) { vf_store(y, vf_exp_exact(vf_load(x))); }
static void sin_2pi_exact(const float *x, float *y)
{
    vf s, c;
    vf_sincos_2pi_exact(vf_load(x), &s, &c);
    vf_store(y, s);
}
static void cos_2pi_exact(const float *x, float *y)
{
    vf s, c;
    vf_sincos_2pi_exact(vf_load(x), &s, &c);
    vf_store(y, c);
}
static void fma_exact(const float *x, float *y) { vf_store(y, vf_fma_exact(vf_load(x), vf_load(x), vf_set1(0.1f))); }

static void bf16_store(const float *x, uint16_t *y) { vf_store_bf16(y, vf_load(x)); }
static void f16_store(const float *x, uint16_t *y) { vf_store_f16(y, vf_load(x)); }
static void bf16_load(const uint16_t *x, float *y) { vf_store(y, vf_load_bf16(x)); }
static void f16_load(const uint16_t *x, float *y) { vf_store(y, vf_load_f16(x)); }

/* Tail loads and stores of every length, the sums and maxima, integer conversions; returns 0 or the number of the first check that failed. */
static int check_small(void)
{
    float x[CJ_VL], y[CJ_VL + 2], sum = 0;
    uint16_t h[CJ_VL], g[CJ_VL + 2];
    for (int i = 0; i < CJ_VL; i++) {
        x[i] = (float)(i * 3 - 7);
        sum += x[i];
        h[i] = cj_bf16_from_f32(x[i]);
    }
    for (int n = 0; n <= CJ_VL; n++) {
        for (int i = 0; i < CJ_VL + 2; i++) y[i] = -1, g[i] = 7;
        vf v = vf_load_n(x, n), w = vf_load_bf16_n(h, n);
        for (int i = 0; i < CJ_VL; i++)
            if (v[i] != (i < n ? x[i] : 0) || w[i] != v[i]) return 1;
        vf_store_n(y, vf_load(x), n);
        vf_store_bf16_n(g, vf_load(x), n);
        for (int i = 0; i < CJ_VL + 2; i++)
            if (y[i] != (i < n ? x[i] : -1) || g[i] != (i < n ? h[i] : 7)) return 2;
        if (vm_bits(vm_first(n)) != (1u << n) - 1) return 3;
        vf_store_f16_n(g, vf_load(x), n);
        v = vf_load_f16_n(g, n);
        for (int i = 0; i < CJ_VL; i++)
            if (v[i] != (i < n ? x[i] : 0)) return 4;
    }
    if (vf_hsum(vf_load(x)) != sum || vf_hmax(vf_load(x)) != x[CJ_VL - 1] || vf_hmin(vf_load(x)) != x[0]) return 5;
    for (int i = 0; i < CJ_VL; i++) {
        memcpy(y, x, sizeof x);
        y[i] = NAN;
        if (!(vf_hmax(vf_load(y)) != vf_hmax(vf_load(y))) || !(vf_hmin(vf_load(y)) != vf_hmin(vf_load(y)))) return 6;
    }
    static const float halves[] = { -2.5f, -1.5f, -0.5f, -0.4f, 0.4f, 0.5f, 1.5f, 2.5f, -0.0f };
    for (int i = 0; i < 9; i++) {
        vf v = vf_set1(halves[i]);
        if (vi_from_vf_round(v)[0] != (int)rintf(halves[i]) || vi_from_vf_trunc(v)[0] != (int)halves[i]) return 7;
        if (vf_round(v)[0] != rintf(halves[i]) || signbit(vf_round(v)[0]) != signbit(halves[i])) return 8;
    }
    if (vf_from_vi(vi_set1(-16777215))[0] != -16777215.0f) return 9;
    vf nan = vf_set1(NAN), one = vf_set1(1);
    if (vf_min(nan, one)[0] != 1 || vf_max(nan, one)[0] != 1 || vf_min(one, nan)[0] == 1 || vf_max_nan(nan, one)[0] == 1 ||
        vf_min_nan(one, nan)[0] == 1)
        return 10;
    if (vf_sel(vf_lt(one, nan), one, nan)[0] == 1 || !vm_all(vf_ne(nan, nan)) || vm_any(vf_eq(nan, nan))) return 11;
    if (vi_min(vi_set1(-3), vi_set1(2))[0] != -3 || vi_max(vi_set1(-3), vi_set1(2))[0] != 2) return 12;
    return 0;
}

const test_isa CJ_K(test_isa_of) = {
    CJ_VL, { log_exact, exp_exact, sin_2pi_exact, cos_2pi_exact, fma_exact }, bf16_store, f16_store, bf16_load, f16_load, check_small,
};
