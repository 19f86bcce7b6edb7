/* Pooling: maxima with their places, sums over windows, and their transposes, as kernels/cpu/window.h has them.  A thread per element of the result: the derivatives look for the windows
 * that hold an element instead of adding into it, so that the order of every sum is fixed. */
#include "kernels/cuda/image.cuh"

struct window_args {
    gpu_image x, y;
    gpu_window w;
    int64_t total;
    double scale;
    int64_t *index; /* laid out like y; one of the two, or none */
    uint8_t *tap;
};

enum { NO_TAP = 255 };

template <class S, class C, class I> static __global__ void window_max(const __grid_constant__ window_args a)
{
    EACH(i)
    {
        const image_place at = place_of<I>(a.y, i);
        C best = C(-INFINITY);
        int64_t place = 0;
        int tap = NO_TAP;
        TAPS(k)
        {
            const int64_t z = tap_at(a.w, 0, at.p[0], k0), y = tap_at(a.w, 1, at.p[1], k1), x = tap_at(a.w, 2, at.p[2], k2);
            if (!is_inside(a.x, z, y, x)) continue;
            const C v = value_of(((const S *)a.x.data)[offset_of(a.x, at.n, at.c, z, y, x)]);
            if (tap != NO_TAP && !(v > best || v != v)) continue;
            best = v;
            place = (z * a.x.size[1] + y) * a.x.size[2] + x;
            tap = (int)tap_number(a.w, k0, k1, k2);
            if (a.index) tap = 0; /* there may be more than fit a byte */
        }
        const int64_t to = offset_of(a.y, at.n, at.c, at.p[0], at.p[1], at.p[2]);
        put((S *)a.y.data + to, best);
        if (a.index) a.index[to] = place;
        else a.tap[to] = (uint8_t)tap;
    }
}

template <class S, class C, class I> static __global__ void window_sum(const __grid_constant__ window_args a)
{
    EACH(i)
    {
        const image_place at = place_of<I>(a.y, i);
        C sum = 0;
        TAPS(k)
        {
            const int64_t z = tap_at(a.w, 0, at.p[0], k0), y = tap_at(a.w, 1, at.p[1], k1), x = tap_at(a.w, 2, at.p[2], k2);
            if (!is_inside(a.x, z, y, x)) continue;
            sum += value_of(((const S *)a.x.data)[offset_of(a.x, at.n, at.c, z, y, x)]);
        }
        put((S *)a.y.data + offset_of(a.y, at.n, at.c, at.p[0], at.p[1], at.p[2]), sum * (C)a.scale);
    }
}

/* x from y: of all windows that hold the element, or of those whose maximum it is. */
template <class S, class C, class I, bool MAXIMA> static __global__ void window_spread(const __grid_constant__ window_args a)
{
    EACH(i)
    {
        const image_place at = place_of<I>(a.x, i);
        C sum = 0;
        TAPS(k)
        {
            int64_t p[3];
            if (!window_holding(a.w, a.y, at, k0, k1, k2, p)) continue;
            const int64_t from = offset_of(a.y, at.n, at.c, p[0], p[1], p[2]);
            if (MAXIMA && a.tap && a.tap[from] != tap_number(a.w, k0, k1, k2)) continue;
            if (MAXIMA && a.index && a.index[from] != (at.p[0] * a.x.size[1] + at.p[1]) * a.x.size[2] + at.p[2]) continue;
            sum += value_of(((const S *)a.y.data)[from]);
        }
        put((S *)a.x.data + offset_of(a.x, at.n, at.c, at.p[0], at.p[1], at.p[2]), MAXIMA ? sum : sum * (C)a.scale);
    }
}

const char *gpu_window_max(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, const gpu_image *y, int64_t *index, uint8_t *tap)
{
    gpu_use(st);
    const window_args a = { *x, *y, *w, image_total(y), 1, index, tap };
    if (a.total == 0) return NULL;
    LAUNCH(st, t, a, window_max<S, C, I>);
    return gpu_check(st);
}
const char *gpu_window_put(gpu_state *st, int t, const gpu_image *y, const gpu_window *w, int64_t *index, uint8_t *tap, const gpu_image *x)
{
    gpu_use(st);
    const window_args a = { *x, *y, *w, image_total(x), 1, index, tap };
    if (a.total == 0) return NULL;
    LAUNCH(st, t, a, window_spread<S, C, I, true>);
    return gpu_check(st);
}
const char *gpu_window_sum(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, double scale, const gpu_image *y)
{
    gpu_use(st);
    const window_args a = { *x, *y, *w, image_total(y), scale, NULL, NULL };
    if (a.total == 0) return NULL;
    LAUNCH(st, t, a, window_sum<S, C, I>);
    return gpu_check(st);
}
const char *gpu_window_spread(gpu_state *st, int t, const gpu_image *y, const gpu_window *w, double scale, const gpu_image *x)
{
    gpu_use(st);
    const window_args a = { *x, *y, *w, image_total(x), scale, NULL, NULL };
    if (a.total == 0) return NULL;
    LAUNCH(st, t, a, window_spread<S, C, I, false>);
    return gpu_check(st);
}
