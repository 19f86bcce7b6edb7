/* Complex numbers as pairs, convolution by Fourier transforms, windows and short-time spectra: composites of public operators. */
#include <math.h>

#include "cajal/grad.h"
#include "cajal/math.h"
#include "kernels/cpu/fft.h"
#include "ops/compose.h"

/* ---- complex numbers ------------------------------------------------------------------------------------------------------------------------ */

static cj_tensor *re(cj_tensor *z) { return cj_select(z, -1, 0); }
static cj_tensor *im(cj_tensor *z) { return cj_select(z, -1, 1); }
static cj_tensor *pair(cj_tensor *a, cj_tensor *b) { return cj_stack((cj_tensor *[]){ a, b }, 2, -1); }

CJ_COMPOSE(complex_mul)
{
    cj_tensor *a = in[0], *b = in[1];
    return pair(cj_sub(cj_mul(re(a), re(b)), cj_mul(im(a), im(b))), cj_add(cj_mul(re(a), im(b)), cj_mul(im(a), re(b))));
}
/* With m the larger part: m·sqrt(1 + (smaller/m)²); 0, and gradient 0, where m is 0. */
CJ_COMPOSE(complex_abs)
{
    cj_tensor *a = cj_abs(re(in[0])), *b = cj_abs(im(in[0])), *one = cj__const_like(a, 1), *zero = cj__const_like(a, 0);
    cj_tensor *m = cj_detach(cj_maximum(a, b)), *none = cj_eq_scalar(m, 0),
              *by = cj_where(cj_logical_or(none, cj_logical_not(cj_isfinite(m))), one, m);
    a = cj_div(a, by), b = cj_div(b, by);
    cj_tensor *sum = cj_add(cj_mul(a, a), cj_mul(b, b));
    return cj_where(none, zero, cj_mul(by, cj_sqrt(cj_where(none, one, sum))));
}
CJ_COMPOSE(complex_angle) { return cj_atan2(im(in[0]), re(in[0])); }

enum { MUL, ABS, ANGLE };
const cj_op cj__ops_signal[] = {
    [MUL] = CJ_COMPOSITE_ROW(complex_mul, "fourier", 2, 0),
    [ABS] = CJ_COMPOSITE_ROW(complex_abs, "fourier", 1, 0),
    [ANGLE] = CJ_COMPOSITE_ROW(complex_angle, "fourier", 1, 0),
};
CJ_OP_TABLE(signal);

static bool is_pairs(const char *op, int i, cj_tensor *z)
{
    if (!cj__usable(z->ctx, op, i, z)) return false;
    if (z->ndim && z->shape[z->ndim - 1] == 2) return true;
    return cj__error(z->ctx, CJ_ESHAPE, "%s: complex numbers are pairs: a last axis of size 2 is expected, found %s", op,
                     cj__tensor_text(z));
}

cj_tensor *(cj_complex)(cj_tensor *a, cj_tensor *b)
{
    if (!a) return NULL;
    if (!b) b = cj_zeros_like(a);
    if (!cj_is_poison(a) && !cj_is_poison(b) && (a->ndim != b->ndim || memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) != 0))
        return cj_fail(a->ctx, CJ_ESHAPE, "complex: real parts %s and imaginary parts %s have different shapes", cj__tensor_text(a),
                       cj__tensor_text(b));
    const cj_called was = cj__called(a->ctx, "complex", NULL);
    return cj__called_done(a->ctx, was, pair(a, b));
}
cj_tensor *(cj_real)(cj_tensor *z) { return !z ? NULL : is_pairs("real", 0, z) ? re(z) : z->ctx->poison; }
cj_tensor *(cj_imag)(cj_tensor *z) { return !z ? NULL : is_pairs("imag", 0, z) ? im(z) : z->ctx->poison; }
cj_tensor *(cj_conj)(cj_tensor *z) { return !z ? NULL : is_pairs("conj", 0, z) ? pair(re(z), cj_neg(im(z))) : z->ctx->poison; }
cj_tensor *(cj_complex_mul)(cj_tensor *a, cj_tensor *b)
{
    if (!a || !b) return CJ_MISSING("complex_mul", a, b);
    if (!is_pairs("complex_mul", 0, a) || !is_pairs("complex_mul", 1, b)) return a->ctx->poison;
    return cj__apply(&cj__ops_signal[MUL], NULL, (cj_tensor *[]){ a, b }, 2);
}
cj_tensor *(cj_complex_abs)(cj_tensor *z)
{
    return !z ? NULL : is_pairs("complex_abs", 0, z) ? cj__apply(&cj__ops_signal[ABS], NULL, &z, 1) : z->ctx->poison;
}
cj_tensor *(cj_complex_angle)(cj_tensor *z)
{
    return !z ? NULL : is_pairs("complex_angle", 0, z) ? cj__apply(&cj__ops_signal[ANGLE], NULL, &z, 1) : z->ctx->poison;
}

/* ---- convolution ---------------------------------------------------------------------------------------------------------------------------- */

/* The next length that transforms well: a multiple of 2^a 3^b 5^c. */
static int64_t good_length(int64_t n)
{
    for (;; n++) {
        int64_t m = n;
        while (m % 2 == 0) m /= 2;
        while (m % 3 == 0) m /= 3;
        while (m % 5 == 0) m /= 5;
        if (m == 1) return n;
    }
}

cj_tensor *(cj_fft_convolve)(cj_tensor *a, cj_tensor *b, const cj_convolve_opts *opts)
{
    static const cj_convolve_opts none;
    if (!opts) opts = &none;
    if (!a || !b) return CJ_MISSING("fft_convolve", a, b);
    cj_ctx *c = a->ctx;
    if (!cj__usable(c, "fft_convolve", 0, a) || !cj__usable(c, "fft_convolve", 1, b)) return c->poison;
    if (a->ndim != b->ndim || a->ndim < 1) {
        cj__error(c, CJ_ESHAPE, "fft_convolve: as many axes are expected, found %s and %s", cj__tensor_text(a), cj__tensor_text(b));
        return c->poison;
    }
    cj_axes axes = opts->axes.n ? opts->axes : (cj_axes){ 1, { -1 } };
    cj_shape size = { .ndim = axes.n };
    int64_t begin[CJ_MAX_DIMS] = { 0 }, count[CJ_MAX_DIMS] = { 0 };
    for (int i = 0; i < axes.n; i++) {
        axes.axis[i] = cj__axis(c, "fft_convolve", axes.axis[i], a->ndim);
        if (axes.axis[i] < 0) return c->poison;
        const int64_t n = a->shape[axes.axis[i]], m = b->shape[axes.axis[i]];
        const bool cyclic = opts->mode == CJ_CONVOLVE_CYCLIC, valid = opts->mode == CJ_CONVOLVE_VALID;
        if (n < 1 || m < 1 || (cyclic && n != m) || (valid && m > n)) {
            cj__error(c, CJ_ESHAPE, "fft_convolve: axis %d has %lld and %lld values%s", axes.axis[i], (long long)n, (long long)m,
                      cyclic  ? "; cyclic convolution wants as many"
                      : valid ? "; the second must not be longer for valid results"
                              : "");
            return c->poison;
        }
        size.dim[i] = cyclic ? n : good_length(n + m - 1);
        begin[i] = opts->mode == CJ_CONVOLVE_SAME ? (m - 1) / 2 : valid ? m - 1 : 0;
        count[i] = cyclic || opts->mode == CJ_CONVOLVE_SAME ? n : valid ? n - m + 1 : n + m - 1;
    }
    const cj_fft_opts f = { .axes = axes, .size = size };
    cj_tensor *y = (cj_irfft)(cj_complex_mul((cj_rfft)(a, &f), (cj_rfft)(b, &f)), &f);
    for (int i = 0; i < axes.n && cj_ok(c); i++) y = cj_slice(y, axes.axis[i], begin[i], begin[i] + count[i], 1);
    return y;
}

/* ---- windows ---------------------------------------------------------------------------------------------------------------------------------- */

cj_tensor *(cj_window)(cj_ctx *c, cj_window_kind kind, int64_t n, const cj_window_opts *opts)
{
    if (!c) return NULL;
    const bool symmetric = opts && opts->symmetric;
    const cj_dtype t = opts ? cj__dtype_or_default(opts->dtype) : CJ_F32;
    if (n < 1 || (unsigned)kind > CJ_WINDOW_RECT) {
        cj__error(c, CJ_EVALUE, "window: a known kind and a length of at least 1 are expected, found kind %d and length %lld", (int)kind,
                  (long long)n);
        return c->poison;
    }
    if (n == 1 || kind == CJ_WINDOW_RECT) return cj_ones(c, CJ_SHAPE(n), t);
    /* u runs from 0 to 1 */
    cj_tensor *u = cj_mul_scalar(cj_arange(c, 0, (double)n, 1, CJ_F64), 1 / (double)(symmetric ? n - 1 : n));
    cj_tensor *turn = cj_cos(cj_mul_scalar(u, 2 * M_PI)), *w = NULL;
    switch (kind) {
    case CJ_WINDOW_HANN: w = cj_add_scalar(cj_mul_scalar(turn, -0.5), 0.5); break;
    case CJ_WINDOW_HAMMING: w = cj_add_scalar(cj_mul_scalar(turn, -0.46), 0.54); break;
    case CJ_WINDOW_BLACKMAN:
        w = cj_add(cj_add_scalar(cj_mul_scalar(turn, -0.5), 0.42), cj_mul_scalar(cj_cos(cj_mul_scalar(u, 4 * M_PI)), 0.08));
        break;
    default: w = cj_add_scalar(cj_neg(cj_abs(cj_add_scalar(cj_mul_scalar(u, 2), -1))), 1); break; /* Bartlett's triangle */
    }
    return cj_cast(w, t);
}

/* ---- short-time spectra ------------------------------------------------------------------------------------------------------------------------ */

/* Hop and window of an stft; false after an error. */
static bool frames_of(const char *op, cj_tensor *x, int64_t n, const cj_stft_opts *o, int64_t *hop, cj_tensor **window)
{
    cj_ctx *c = x->ctx;
    if (!cj__usable(c, op, 0, x)) return false;
    *hop = o->hop ? o->hop : n / 4;
    if (n < 2 || *hop < 1)
        return cj__error(c, CJ_EVALUE, "%s: frames of at least 2 values, a hop of at least 1 are expected, found %lld and %lld", op,
                         (long long)n, (long long)*hop);
    *window = o->window ? o->window : (cj_window)(c, CJ_WINDOW_HANN, n, &(cj_window_opts){ .dtype = (cj_dtype)x->dtype });
    if (!cj_ok(c)) return false;
    if ((*window)->ndim != 1 || (*window)->shape[0] != n)
        return cj__error(c, CJ_ESHAPE, "%s: a window of %lld values is expected, found %s", op, (long long)n, cj__tensor_text(*window));
    return true;
}

cj_tensor *(cj_stft)(cj_tensor *x, int64_t n, const cj_stft_opts *opts)
{
    static const cj_stft_opts none;
    if (!opts) opts = &none;
    if (!x) return NULL;
    int64_t hop;
    cj_tensor *window;
    if (!frames_of("stft", x, n, opts, &hop, &window)) return x->ctx->poison;
    const int64_t length = x->ndim ? x->shape[x->ndim - 1] : 0;
    if (x->ndim < 1 || length < (opts->no_centre ? n : n / 2 + 1)) {
        cj__error(x->ctx, CJ_ESHAPE, "stft: a signal of at least %lld values is expected, found %s",
                  (long long)(opts->no_centre ? n : n / 2 + 1), cj__tensor_text(x));
        return x->ctx->poison;
    }
    if (!opts->no_centre) x = cj_pad(x, CJ_SHAPE(n / 2), CJ_SHAPE(n / 2), &(cj_pad_opts){ .mode = CJ_PAD_REFLECT });
    cj_tensor *frames = cj_mul(cj_unfold(x, -1, n, hop), window); /* [.., frames, n] */
    return cj_transpose((cj_rfft)(frames, NULL), -3, -2);
}

/* [.., frames, n] added up at every hop: the transpose of unfold. */
static cj_tensor *overlap_add(cj_tensor *frames, int64_t hop, int64_t length)
{
    cj_strided_attrs a = { .base_ndim = frames->ndim - 1, .ndim = frames->ndim };
    int64_t stride = length;
    memcpy(a.base, frames->shape, sizeof a.base);
    memcpy(a.shape, frames->shape, sizeof a.shape);
    a.base[a.base_ndim - 1] = length;
    for (int i = a.base_ndim; i < CJ_MAX_DIMS; i++) a.base[i] = 0;
    a.stride[frames->ndim - 1] = 1;
    a.stride[frames->ndim - 2] = hop;
    for (int d = frames->ndim - 3; d >= 0; d--) a.stride[d] = stride, stride *= frames->shape[d];
    return cj__as_strided_scatter(frames, &a);
}

cj_tensor *(cj_istft)(cj_tensor *z, int64_t n, const cj_stft_opts *opts)
{
    static const cj_stft_opts none;
    if (!opts) opts = &none;
    if (!z) return NULL;
    cj_ctx *c = z->ctx;
    int64_t hop;
    cj_tensor *window;
    if (!frames_of("istft", z, n, opts, &hop, &window)) return c->poison;
    if (z->ndim < 3 || z->shape[z->ndim - 1] != 2 || z->shape[z->ndim - 3] != n / 2 + 1 || z->shape[z->ndim - 2] < 1) {
        cj__error(c, CJ_ESHAPE, "istft: [.., %lld, frames, 2] is expected, found %s", (long long)(n / 2 + 1), cj__tensor_text(z));
        return c->poison;
    }
    const int64_t count = z->shape[z->ndim - 2], full = n + hop * (count - 1), cut = opts->no_centre ? 0 : n / 2;
    const int64_t length = opts->length ? opts->length : full - 2 * cut;
    if (length < 1 || length > full - cut) {
        cj__error(c, CJ_EVALUE, "istft: %lld frames determine 1 to %lld values, %lld are asked for", (long long)count,
                  (long long)(full - cut), (long long)length);
        return c->poison;
    }
    cj_tensor *frames = cj_mul((cj_irfft)(cj_transpose(z, -3, -2), &(cj_fft_opts){ .size = CJ_SHAPE(n) }), window);
    cj_tensor *weight = overlap_add(cj_contiguous(cj_expand(cj_mul(window, window), CJ_SHAPE(count, n))), hop, full);
    cj_tensor *y = cj_slice(overlap_add(cj_contiguous(frames), hop, full), -1, cut, cut + length, 1);
    weight = cj_slice(weight, -1, cut, cut + length, 1);
    cj_tensor *seen = cj_gt_scalar(weight, 1e-11); /* elsewhere no frame says anything */
    return cj_where(seen, cj_div(y, cj_where(seen, weight, cj__const_like(weight, 1))), cj__const_like(weight, 0));
}
