/* The instructions of the elementwise engine on one value: the formulas of kernels/cpu/ew_f32.c, ew_f64.c and ew_i64.c.
 *
 * `code` is a constant wherever speed matters and the switch folds away.  A division by zero among integers sets *fault and gives 0. */
#ifndef CJ_KERNELS_CUDA_EW_VALUE_CUH
#define CJ_KERNELS_CUDA_EW_VALUE_CUH

#include "kernels/cuda/value.cuh"

template <class T> __device__ __forceinline__ T maximum(T a, T b) { return a != a || a > b ? a : b; }
template <class T> __device__ __forceinline__ T minimum(T a, T b) { return a != a || a < b ? a : b; }
template <class T> __device__ __forceinline__ T sigmoid(T x)
{
    const T z = exp(-fabs(x));
    return (x < 0 ? z : T(1)) / (1 + z);
}
template <class T> __device__ __forceinline__ T remainder_of(T a, T b) /* the sign of the divisor */
{
    const T m = fmod(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
template <class T> __device__ __forceinline__ T floor_quotient(T a, T b)
{
    if (b == 0) return a / b;
    const T m = fmod(a, b);
    T q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;
    if (q == 0) return copysign(T(0), a / b);
    const T f = floor(q);
    return q - f > T(0.5) ? f + 1 : f;
}
template <class T> __device__ __forceinline__ T power_scalar(T a, T s) /* the exponents that PyTorch treats apart */
{
    if (s == 2) return a * a;
    if (s == 3) return a * a * a;
    if (s == 1) return a;
    if (s == T(0.5)) return sqrt(a);
    if (s == 0) return 1;
    if (s == -1) return 1 / a;
    if (s == T(-0.5)) return 1 / sqrt(a);
    if (s == -2) return 1 / (a * a);
    return pow(a, s);
}
/* x Phi(x) and its slope: NaN where inf * 0 occurs, as in PyTorch. */
template <class T> __device__ __forceinline__ T gelu(T x) { return x * T(0.5) * erfc(-x * T(0.70710678118654752440)); }
template <class T> __device__ __forceinline__ T gelu_slope(T x)
{
    return T(0.5) * erfc(-x * T(0.70710678118654752440)) + x * exp(T(-0.5) * x * x) * T(0.39894228040143267794);
}
/* x sigmoid(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3) */
template <class T> __device__ __forceinline__ T gelu_tanh(T x)
{
    return x * sigmoid(T(1.5957691216057307) * x * (1 + T(0.044715) * x * x));
}
template <class T> __device__ __forceinline__ T gelu_tanh_slope(T x)
{
    const T k = T(1.5957691216057307),
            c = x > 40    ? T(40)
                : x < -40 ? T(-40)
                          : x,
            u = k * c * (1 + T(0.044715) * c * c), s = sigmoid(u), r = sigmoid(-u);
    return s + c * s * r * k * (1 + 3 * T(0.044715) * c * c) + (x - x);
}
template <class T> __device__ __forceinline__ T silu(T x) { return x * sigmoid(x); }
template <class T> __device__ __forceinline__ T silu_slope(T x)
{
    const T s = sigmoid(x);
    return s + x * s * sigmoid(-x);
}

/* float and double */
template <class T> __device__ __forceinline__ T ew_value(int code, T a, T b, T c, T s, bool *fault)
{
    switch (code) {
    case CJ_EW_COPY: return a;
    case CJ_EW_NEG: return -a;
    case CJ_EW_ABS: return fabs(a);
    case CJ_EW_SIGN: return T((a > 0) - (a < 0));
    case CJ_EW_EXP: return exp(a);
    case CJ_EW_EXPM1: return expm1(a);
    case CJ_EW_LOG: return log(a);
    case CJ_EW_LOG1P: return log1p(a);
    case CJ_EW_SQRT: return sqrt(a);
    case CJ_EW_RSQRT: return 1 / sqrt(a);
    case CJ_EW_RECIP: return 1 / a;
    case CJ_EW_SQUARE: return a * a;
    case CJ_EW_SIN: return sin(a);
    case CJ_EW_COS: return cos(a);
    case CJ_EW_TANH: return tanh(a);
    case CJ_EW_SIGMOID: return sigmoid(a);
    case CJ_EW_ERF: return erf(a);
    case CJ_EW_FLOOR: return floor(a);
    case CJ_EW_CEIL: return ceil(a);
    case CJ_EW_ROUND: return rint(a);
    case CJ_EW_TRUNC: return trunc(a);
    case CJ_EW_RELU: return a < 0 ? T(0) : a;
    case CJ_EW_NOT: return a == 0;
    case CJ_EW_ISNAN: return a != a;
    case CJ_EW_ISFINITE: return fabs(a) < T(INFINITY);
    case CJ_EW_ADD: return a + b;
    case CJ_EW_SUB: return a - b;
    case CJ_EW_MUL: return a * b;
    case CJ_EW_DIV: return a / b;
    case CJ_EW_POW: return pow(a, b);
    case CJ_EW_MAX: return maximum(a, b);
    case CJ_EW_MIN: return minimum(a, b);
    case CJ_EW_FMOD: return fmod(a, b);
    case CJ_EW_REMAINDER: return remainder_of(a, b);
    case CJ_EW_FLOORDIV: return floor_quotient(a, b);
    case CJ_EW_ATAN2: return atan2(a, b);
    case CJ_EW_EQ: return a == b;
    case CJ_EW_NE: return a != b;
    case CJ_EW_LT: return a < b;
    case CJ_EW_LE: return a <= b;
    case CJ_EW_GT: return a > b;
    case CJ_EW_GE: return a >= b;
    case CJ_EW_AND: return a != 0 && b != 0;
    case CJ_EW_OR: return a != 0 || b != 0;
    case CJ_EW_XOR: return (a != 0) != (b != 0);
    case CJ_EW_WHERE: return a != 0 ? b : c;
    case CJ_EW_FMA: return fma(a, b, c);
    case CJ_EW_CONST: return s;
    case CJ_EW_ADDS: return a + s;
    case CJ_EW_MULS: return a * s;
    case CJ_EW_POWS: return power_scalar(a, s);
    case CJ_EW_MAXS: return maximum(a, s);
    case CJ_EW_MINS: return minimum(a, s);
    case CJ_EW_EQS: return a == s;
    case CJ_EW_NES: return a != s;
    case CJ_EW_LTS: return a < s;
    case CJ_EW_LES: return a <= s;
    case CJ_EW_GTS: return a > s;
    case CJ_EW_GES: return a >= s;
    case CJ_EW_GELU: return gelu(a);
    case CJ_EW_GELU_BWD: return b * gelu_slope(a);
    case CJ_EW_GELU_TANH: return gelu_tanh(a);
    case CJ_EW_GELU_TANH_BWD: return b * gelu_tanh_slope(a);
    case CJ_EW_SILU: return silu(a);
    case CJ_EW_SILU_BWD: return b * silu_slope(a);
    case CJ_EW_SOFTPLUS: return maximum(a, T(0)) + log1p(exp(-fabs(a)));
    case CJ_EW_LOGSIGMOID: return minimum(a, T(0)) - log1p(exp(-fabs(a)));
    case CJ_EW_TANH_BWD: return b * (1 - a * a);
    case CJ_EW_SIGMOID_BWD: return b * (a * (1 - a));
    case CJ_EW_RELU_BWD: return a > 0 ? b : T(0);
    default: return maximum(a, T(0)) - a * b + log1p(exp(-fabs(a))); /* BCE_LOGITS */
    }
}

__device__ __forceinline__ int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
__device__ __forceinline__ int64_t wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
__device__ __forceinline__ int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
__device__ __forceinline__ int64_t quotient(int64_t a, int64_t b, bool *fault)
{
    if (b == 0) {
        *fault = true;
        return 0;
    }
    return b == -1 ? wrap_sub(0, a) : a / b;
}
__device__ __forceinline__ int64_t modulus(int64_t a, int64_t b, bool *fault) { return b == 0 || b == -1 ? quotient(0, b, fault) : a % b; }
__device__ __forceinline__ int64_t integer_power(int64_t a, int64_t b)
{
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    int64_t r = 1;
    for (; b; b >>= 1, a = wrap_mul(a, a))
        if (b & 1) r = wrap_mul(r, a);
    return r;
}

template <> __device__ __forceinline__ int64_t ew_value<int64_t>(int code, int64_t a, int64_t b, int64_t c, int64_t s, bool *fault)
{
    switch (code) {
    case CJ_EW_COPY:
    case CJ_EW_FLOOR:
    case CJ_EW_CEIL:
    case CJ_EW_ROUND:
    case CJ_EW_TRUNC: return a;
    case CJ_EW_NEG: return wrap_sub(0, a);
    case CJ_EW_ABS: return a < 0 ? wrap_sub(0, a) : a;
    case CJ_EW_SIGN: return (a > 0) - (a < 0);
    case CJ_EW_RECIP: return quotient(1, a, fault);
    case CJ_EW_SQUARE: return wrap_mul(a, a);
    case CJ_EW_RELU: return a > 0 ? a : 0;
    case CJ_EW_NOT: return a == 0;
    case CJ_EW_ISNAN: return 0;
    case CJ_EW_ISFINITE: return 1;
    case CJ_EW_ADD: return wrap_add(a, b);
    case CJ_EW_SUB: return wrap_sub(a, b);
    case CJ_EW_MUL: return wrap_mul(a, b);
    case CJ_EW_DIV: return quotient(a, b, fault);
    case CJ_EW_POW: return integer_power(a, b);
    case CJ_EW_MAX: return a > b ? a : b;
    case CJ_EW_MIN: return a < b ? a : b;
    case CJ_EW_FMOD: return modulus(a, b, fault);
    case CJ_EW_REMAINDER: {
        const int64_t m = modulus(a, b, fault);
        return m != 0 && (m < 0) != (b < 0) ? m + b : m;
    }
    case CJ_EW_FLOORDIV: {
        const int64_t q = quotient(a, b, fault);
        return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
    }
    case CJ_EW_EQ: return a == b;
    case CJ_EW_NE: return a != b;
    case CJ_EW_LT: return a < b;
    case CJ_EW_LE: return a <= b;
    case CJ_EW_GT: return a > b;
    case CJ_EW_GE: return a >= b;
    case CJ_EW_AND: return a != 0 && b != 0;
    case CJ_EW_OR: return a != 0 || b != 0;
    case CJ_EW_XOR: return (a != 0) != (b != 0);
    case CJ_EW_WHERE: return a != 0 ? b : c;
    case CJ_EW_FMA: return wrap_add(wrap_mul(a, b), c);
    case CJ_EW_CONST: return s;
    case CJ_EW_ADDS: return wrap_add(a, s);
    case CJ_EW_MULS: return wrap_mul(a, s);
    case CJ_EW_POWS: return integer_power(a, s);
    case CJ_EW_MAXS: return a > s ? a : s;
    case CJ_EW_MINS: return a < s ? a : s;
    case CJ_EW_EQS: return a == s;
    case CJ_EW_NES: return a != s;
    case CJ_EW_LTS: return a < s;
    case CJ_EW_LES: return a <= s;
    case CJ_EW_GTS: return a > s;
    case CJ_EW_GES: return a >= s;
    case CJ_EW_RELU_BWD: return a > 0 ? b : 0;
    default:
        return f64_to_i64(ew_value<double>(code, (double)a, (double)b, (double)c, (double)s, fault)); /* no integer meaning: through f64 */
    }
}

#endif
