/* Convolution kernels of every level on random shapes, against the level's own f64 loops, which have nothing in common with them: all passes, f32, bf16 and f16, either layout of
 * both images, 1 to 3 axes, groups, depthwise, strides, dilations and paddings beyond the kernel, lines of many lengths.  Weights that were packed before give the bits of those
 * that are packed for the call, and both derivatives at once those of one after the other.
 *
 *   kernels_conv_main [seed] [rounds]
 */
#include "kernels_check.h"

static const int64_t channel_counts[] = { 1, 2, 3, 5, 6, 8, 16, 17, 31, 32, 33, 48, 64, 70 };
static int64_t some_channels(void) { return channel_counts[rnd() % (sizeof channel_counts / sizeof *channel_counts)]; }
static int64_t volume(const int64_t *d) { return d[0] * d[1] * d[2]; }

static cj_conv_shape some_shape(void)
{
    cj_conv_shape v = { .n = between(1, 4), .groups = rnd() % 5 ? 1 : between(1, 3), .c = some_channels(), .o = some_channels() };
    v.x_last = rnd() % 4, v.y_last = rnd() % 4;
    if (rnd() % 4 == 0) v.groups = 2 + some_channels() * between(1, 2), v.c = v.o = 1;
    const bool solid = rnd() % 8 == 0; /* three axes */
    const int64_t widest = rnd() % 6 ? 40 : 600;
    for (int d = 0; d < 3; d++) {
        const bool there = d > 0 || solid;
        v.kernel[d] = there ? between(1, d == 2 ? 5 : 4) : 1;
        v.stride[d] = there && rnd() % 3 == 0 ? between(1, 3) : 1;
        v.dilation[d] = there && rnd() % 4 == 0 ? between(1, 2) : 1;
        v.pad[d] = there ? between(0, v.kernel[d]) : 0;
        const int64_t reach = v.dilation[d] * (v.kernel[d] - 1) + 1;
        v.in[d] = d == 2 ? between(1, widest) : there ? between(1, d ? 9 : 4) : 1;
        if (v.in[d] + 2 * v.pad[d] < reach) v.in[d] = reach;
        v.out[d] = (v.in[d] + 2 * v.pad[d] - reach) / v.stride[d] + 1;
    }
    return v;
}

/* Enough images for both derivatives of a depthwise convolution in one sweep, of several bands each. */
static cj_conv_shape large_shape(void)
{
    return (cj_conv_shape){ .n = 9,
                            .groups = 64,
                            .c = 1,
                            .o = 1,
                            .in = { 1, 56, 56 },
                            .out = { 1, 56, 56 },
                            .kernel = { 1, 3, 3 },
                            .stride = { 1, 1, 1 },
                            .pad = { 0, 1, 1 },
                            .dilation = { 1, 1, 1 },
                            .x_last = true,
                            .y_last = true };
}

/* For fewer multiplications: 3x3 or 5x5, channels last, tiles that reach over every edge; some with several panels of lanes, some with several parts of the sum over tiles. */
static cj_conv_shape winograd_shape(void)
{
    const bool wide = rnd() % 2;
    const int64_t taps = rnd() % 2 ? 3 : 5;
    cj_conv_shape v = { .n = wide ? between(2, 4) : between(5, 8), .groups = 1, .x_last = true, .y_last = true };
    v.c = 16 * between(2, wide ? 9 : 3), v.o = 16 * between(2, wide ? 9 : 3);
    for (int d = 0; d < 3; d++) {
        v.kernel[d] = d ? taps : 1, v.stride[d] = v.dilation[d] = 1;
        v.pad[d] = d ? between(0, taps) : 0;
        v.in[d] = d ? between(9, 15) : 1;
        v.out[d] = v.in[d] + 2 * v.pad[d] - v.kernel[d] + 1;
        if (d && rnd() % 4 == 0) v.out[d]--; /* less padding behind than before */
    }
    return v;
}

/* Lines that are longer than a band: several pieces of each. */
static cj_conv_shape long_shape(void)
{
    cj_conv_shape v = { .n = 1, .groups = 1, .c = between(1, 20), .o = between(17, 40), .x_last = rnd() % 4, .y_last = rnd() % 4 };
    for (int d = 0; d < 3; d++) {
        v.kernel[d] = d == 2 ? 3 : d == 1 ? 2 : 1, v.stride[d] = v.dilation[d] = 1, v.pad[d] = d == 2;
        v.in[d] = d == 2 ? between(490, 1500) : d == 1 ? 3 : 1;
        v.out[d] = v.in[d] + 2 * v.pad[d] - v.kernel[d] + 1;
    }
    return v;
}

static void check_pass(cj_conv_shape v, cj_conv_pass pass, cj_dtype t, const buffer *a, const buffer *b, const buffer *wide_a,
                       const buffer *wide_b, const buffer *size_a, const buffer *size_b, int64_t n)
{
    buffer want = make(n, CJ_F64), size = make(n, CJ_F64), got = make(n, t), again = make(n, t), bias = make(v.groups * v.o, CJ_F32);
    K->conv(NULL, &v, pass, CJ_F64, wide_a->p, wide_b->p, want.p, NULL);
    K->conv(NULL, &v, pass, CJ_F64, size_a->p, size_b->p, size.p, NULL);
    fill_random(&bias, CJ_F32, v.groups * v.o, 1, false);
    const bool biased = pass == CJ_CONV_FORWARD && v.groups == 1 && t == CJ_F32 && rnd() % 2;
    if (biased) v.bias = bias.p;
    const size_t one_bytes = K->conv_workspace(&v, pass, t, 1), two_bytes = K->conv_workspace(&v, pass, t, 2);
    buffer one = make((int64_t)one_bytes + 64, CJ_U8), both = make((int64_t)two_bytes + 64, CJ_U8);
    void *one_p = (void *)(((uintptr_t)one.p + 63) & ~(uintptr_t)63), *both_p = (void *)(((uintptr_t)both.p + 63) & ~(uintptr_t)63);
    K->conv(NULL, &v, pass, t, a->p, b->p, got.p, one_p);
    K->conv(two, &v, pass, t, a->p, b->p, again.p, both_p);
    equal_bits(&got, &again);
    cj_conv_layout layout;
    const size_t packed_bytes = K->conv_packed(&v, pass, t, &layout);
    buffer packed = make((int64_t)packed_bytes + 64, CJ_U8);
    if (packed_bytes) {
        float *at = (float *)(((uintptr_t)packed.p + 63) & ~(uintptr_t)63);
        K->conv_pack(two, &v, pass, t, b->p, at, both_p);
        v.packed = at;
        K->conv(two, &v, pass, t, a->p, NULL, again.p, both_p);
        CHECK(memcmp(got.p, again.p, got.bytes) == 0, "packed weights give other bits");
    }
    for (int64_t i = 0, o; i < n; i++) {
        o = v.y_last ? i % v.o : i / volume(v.out) % v.o;
        const double w = get(CJ_F64, want.p, i) + (biased ? get(CJ_F32, bias.p, o) : 0), x = get(t, got.p, i);
        const double tolerance = 2e-6 * (get(CJ_F64, size.p, i) + 1) + fabs(w) * (t == CJ_F32 ? 0 : eps_of[t]);
        if (!(fabs(x - w) <= tolerance)) {
            CHECK(false,
                  "%s, pass %d, element %ld: %.9g, not %.9g; n %ld groups %ld c %ld o %ld in %ld %ld %ld kernel %ld %ld %ld stride %ld %ld "
                  "%ld "
                  "pad %ld %ld %ld dilation %ld %ld %ld last %d %d bias %d",
                  name_of[t], (int)pass, (long)i, x, w, (long)v.n, (long)v.groups, (long)v.c, (long)v.o, (long)v.in[0], (long)v.in[1],
                  (long)v.in[2], (long)v.kernel[0], (long)v.kernel[1], (long)v.kernel[2], (long)v.stride[0], (long)v.stride[1],
                  (long)v.stride[2], (long)v.pad[0], (long)v.pad[1], (long)v.pad[2], (long)v.dilation[0], (long)v.dilation[1],
                  (long)v.dilation[2], v.x_last, v.y_last, biased);
            break;
        }
    }
    done(&want), done(&size), done(&got), done(&again), done(&bias), done(&one), done(&both), done(&packed);
}

/* Both derivatives at once have the bits of one after the other. */
static void check_both(const cj_conv_shape *v, cj_dtype t, const buffer *x, const buffer *w, const buffer *dy, int64_t nx, int64_t nw)
{
    cj_conv_shape turned = *v; /* x lies in another way than its gradient */
    if (rnd() % 2) turned.x_last = !turned.x_last;
    const size_t both_bytes = K->conv_both_workspace(v, &turned, t, 2), data_bytes = K->conv_workspace(v, CJ_CONV_DATA, t, 1),
                 weight_bytes = K->conv_workspace(&turned, CJ_CONV_WEIGHT, t, 1);
    size_t bytes = both_bytes > data_bytes ? both_bytes : data_bytes;
    if (weight_bytes > bytes) bytes = weight_bytes;
    buffer work = make((int64_t)bytes + 64, CJ_U8), dx = make(nx, t), dw = make(nw, t), dx_too = make(nx, t), dw_too = make(nw, t);
    void *at = (void *)(((uintptr_t)work.p + 63) & ~(uintptr_t)63);
    K->conv(NULL, v, CJ_CONV_DATA, t, dy->p, w->p, dx.p, at);
    K->conv(NULL, &turned, CJ_CONV_WEIGHT, t, x->p, dy->p, dw.p, at);
    for (int threads = 1; threads <= 2; threads++) {
        K->conv_both(threads > 1 ? two : NULL, v, &turned, t, dy->p, w->p, x->p, dx_too.p, dw_too.p, at);
        CHECK(memcmp(dx.p, dx_too.p, dx.bytes) == 0 && memcmp(dw.p, dw_too.p, dw.bytes) == 0, "both derivatives at once give other bits");
    }
    done(&work), done(&dx), done(&dw), done(&dx_too), done(&dw_too);
}

static void check_shape(cj_conv_shape v, cj_dtype t)
{
    const int64_t window = volume(v.kernel),
                  n[3] = { v.n * v.groups * v.c * volume(v.in), v.groups * v.o * v.c * window, v.n * v.groups * v.o * volume(v.out) };
    buffer x[3], wide[3], size[3]; /* x, w, dy; in f64; their absolute values */
    for (int i = 0; i < 3; i++) {
        x[i] = make(n[i], t), wide[i] = make(n[i], CJ_F64), size[i] = make(n[i], CJ_F64);
        fill_random(&x[i], t, n[i], 0.5, false);
        for (int64_t k = 0; k < n[i]; k++) {
            put(CJ_F64, wide[i].p, k, get(t, x[i].p, k));
            put(CJ_F64, size[i].p, k, fabs(get(t, x[i].p, k)));
        }
    }
    check_pass(v, CJ_CONV_FORWARD, t, &x[0], &x[1], &wide[0], &wide[1], &size[0], &size[1], n[2]);
    check_pass(v, CJ_CONV_DATA, t, &x[2], &x[1], &wide[2], &wide[1], &size[2], &size[1], n[0]);
    check_pass(v, CJ_CONV_WEIGHT, t, &x[0], &x[2], &wide[0], &wide[2], &size[0], &size[2], n[1]);
    check_both(&v, t, &x[0], &x[1], &x[2], n[0], n[1]);
    for (int i = 0; i < 3; i++) done(&x[i]), done(&wide[i]), done(&size[i]);
}

static void all(int rounds)
{
    static const cj_dtype types[] = { CJ_F32, CJ_F32, CJ_F32, CJ_BF16, CJ_F16 };
    check_shape(large_shape(), CJ_F32);
    for (int i = 0; i < 4 * rounds; i++) check_shape(winograd_shape(), CJ_F32), check_shape(long_shape(), CJ_F32);
    for (int i = 0; i < 80 * rounds;) {
        const cj_conv_shape v = some_shape();
        if ((double)(v.n * v.groups * v.o * v.c) * (double)(volume(v.out) * volume(v.kernel)) > 8e6) continue;
        check_shape(v, types[i++ % 5]);
    }
}

int main(int argc, char **argv) { return every_level(argc, argv, all); }
