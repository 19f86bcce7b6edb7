/* Element types: names, sizes, 16-bit conversions, promotion. */
#include <math.h>

#include "core/core.h"

static const struct {
    const char *name;
    uint8_t size, category; /* bool 0 < integer 1 < float 2 */
    uint8_t rank;           /* width within the category */
} info[CJ_DTYPES] = {
    [CJ_DEFAULT_DTYPE] = { "default", 0, 0, 0 },
    [CJ_F32] = { "f32", 4, 2, 2 },
    [CJ_F64] = { "f64", 8, 2, 3 },
    [CJ_BF16] = { "bf16", 2, 2, 1 },
    [CJ_F16] = { "f16", 2, 2, 1 },
    [CJ_I64] = { "i64", 8, 1, 3 },
    [CJ_I32] = { "i32", 4, 1, 2 },
    [CJ_U8] = { "u8", 1, 1, 1 },
    [CJ_BOOL] = { "bool", 1, 0, 0 },
};

const char *cj_dtype_name(cj_dtype t) { return (unsigned)t < CJ_DTYPES ? info[t].name : "unknown"; }
size_t cj_dtype_size(cj_dtype t) { return (unsigned)t < CJ_DTYPES ? info[t].size : 0; }
bool cj__dtype_ok(cj_ctx *c, const char *op, cj_dtype t)
{
    return (t > CJ_DEFAULT_DTYPE && t < CJ_DTYPES) || cj__error(c, CJ_EDTYPE, "%s: unknown dtype %d", op, (int)t);
}
bool cj_dtype_is_float(cj_dtype t) { return (unsigned)t < CJ_DTYPES && info[t].category == 2; }

static cj_dtype promote2(cj_dtype a, cj_dtype b)
{
    if (a == CJ_DEFAULT_DTYPE) return b;
    if (b == CJ_DEFAULT_DTYPE || a == b) return a;
    if (info[a].category != info[b].category) return info[a].category > info[b].category ? a : b;
    if (info[a].rank == info[b].rank) return CJ_F32; /* bf16 with f16 */
    return info[a].rank > info[b].rank ? a : b;
}

/* Tensors with dimensions decide; 0-d ones count only where their category is higher. */
cj_dtype cj__promote_n(cj_tensor *const *t, int n)
{
    cj_dtype dims = CJ_DEFAULT_DTYPE, scalars = CJ_DEFAULT_DTYPE;
    for (int i = 0; i < n; i++)
        if (t[i]->ndim) dims = promote2(dims, (cj_dtype)t[i]->dtype);
        else scalars = promote2(scalars, (cj_dtype)t[i]->dtype);
    if (dims == CJ_DEFAULT_DTYPE) return scalars;
    if (scalars == CJ_DEFAULT_DTYPE || info[scalars].category <= info[dims].category) return dims;
    return scalars;
}

cj_dtype cj_promote(const cj_tensor *a, const cj_tensor *b)
{
    if (!a || !b) return CJ_DEFAULT_DTYPE;
    return cj__promote_n((cj_tensor *const[]){ (cj_tensor *)a, (cj_tensor *)b }, 2);
}

typedef union bits32 {
    float f;
    uint32_t u;
} bits32;

float cj__bf16_to_f32(uint16_t h) { return ((bits32){ .u = (uint32_t)h << 16 }).f; }

uint16_t cj__f32_to_bf16(float f)
{
    bits32 b = { f };
    if (f != f) return (uint16_t)((b.u >> 16) | 0x40); /* stay NaN */
    return (uint16_t)((b.u + 0x7fff + (b.u >> 16 & 1)) >> 16);
}

float cj__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31) return ((bits32){ .u = sign | 0x7f800000 | mantissa << 13 }).f;
    if (exponent == 0) {
        float v = (float)mantissa * 0x1p-24f;
        return sign ? -v : v;
    }
    return ((bits32){ .u = sign | (exponent + 112) << 23 | mantissa << 13 }).f;
}

uint16_t cj__f32_to_f16(float f)
{
    bits32 b = { f };
    uint32_t sign = b.u >> 16 & 0x8000;
    b.u &= 0x7fffffff;
    if (b.u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (b.u >> 13 & 0x3ff));
    if (b.u >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
    if (b.u < 0x38800000) {                                  /* subnormal: round to a multiple of 2^-24 */
        bits32 r = { b.f + 0.5f };                           /* ulp of [0.5, 1) is 2^-24 */
        return (uint16_t)(sign | (r.u - 0x3f000000));
    }
    b.u += 0xfff + (b.u >> 13 & 1);
    return (uint16_t)(sign | (b.u - 0x38000000) >> 13);
}

double cj__load(const cj_tensor *t, int64_t offset)
{
    const void *p = t->data;
    switch ((cj_dtype)t->dtype) {
    case CJ_F32: return ((const float *)p)[offset];
    case CJ_F64: return ((const double *)p)[offset];
    case CJ_BF16: return cj__bf16_to_f32(((const uint16_t *)p)[offset]);
    case CJ_F16: return cj__f16_to_f32(((const uint16_t *)p)[offset]);
    case CJ_I64: return (double)((const int64_t *)p)[offset];
    case CJ_I32: return ((const int32_t *)p)[offset];
    default: return ((const uint8_t *)p)[offset];
    }
}

int64_t cj__load_i64(const cj_tensor *t, int64_t offset)
{
    if (t->dtype == CJ_I64) return ((const int64_t *)t->data)[offset];
    double v = cj__load(t, offset);
    if (v != v) return 0;
    if (v >= 0x1p63) return INT64_MAX;
    if (v < -0x1p63) return INT64_MIN;
    return (int64_t)v;
}

/* Stores with the conversion rules of casts: truncate, saturate, NaN to 0. */
void cj__store(cj_dtype dtype, void *p, double v)
{
    switch (dtype) {
    case CJ_F32: *(float *)p = (float)v; return;
    case CJ_F64: *(double *)p = v; return;
    case CJ_BF16: *(uint16_t *)p = cj__f32_to_bf16((float)v); return;
    case CJ_F16: *(uint16_t *)p = cj__f32_to_f16((float)v); return;
    case CJ_BOOL: *(uint8_t *)p = v != 0; return;
    case CJ_U8: *(uint8_t *)p = v != v || v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v; return;
    case CJ_I32: *(int32_t *)p = v != v ? 0 : v >= 0x1p31 ? INT32_MAX : v < -0x1p31 ? INT32_MIN : (int32_t)v; return;
    default: *(int64_t *)p = v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v; return;
    }
}
