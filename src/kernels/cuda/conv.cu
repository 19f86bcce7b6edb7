/* Convolution and its two derivatives.
 *
 * One group: the windows of some images are unfolded into a matrix, a row for each point and a column for each weight of a filter, and cuBLASLt does the rest:
 *
 *   y = unfold(x)·wᵀ          unfold(dx) = dy·w, folded again          dw = dyᵀ·unfold(x)
 *
 * The columns of channels-last images run along the taps first, so that a thread's neighbours read its neighbours; the weights are turned to match.  Several groups, depthwise
 * convolution above all, go element by element.  Folding looks for the windows that hold an element: the order of every sum is fixed.
 */
#include "kernels/cuda/image.cuh"

struct conv_args {
    gpu_image x, y;
    gpu_window w;
    int64_t groups, c, o; /* channels of a group */
    int64_t first, total; /* the first image, and the elements to work on */
    void *columns;        /* [images · points, channels · taps] */
    const void *weight;   /* [o, c, taps] */
    const float *bias;
    void *result; /* dw */
    bool last;    /* columns (tap, channel) instead of (channel, tap) */
};

/* ---- unfolding --------------------------------------------------------------------------------------------------------------------------------- */

template <class E, class I> static __global__ void unfold(const __grid_constant__ conv_args a)
{
    const I taps = (I)(a.w.kernel[0] * a.w.kernel[1] * a.w.kernel[2]), columns = taps * (I)a.x.c;
    EACH(i)
    {
        const I row = (I)i / columns, column = (I)i - row * columns;
        const I c = a.last ? column % (I)a.x.c : column / taps;
        I k = a.last ? column / (I)a.x.c : column % taps, p = row, j[3], q[3];
#pragma unroll
        for (int d = 2; d >= 0; d--) {
            j[d] = k % (I)a.w.kernel[d], k /= (I)a.w.kernel[d];
            q[d] = p % (I)a.y.size[d], p /= (I)a.y.size[d];
        }
        const int64_t z = tap_at(a.w, 0, q[0], j[0]), y = tap_at(a.w, 1, q[1], j[1]), x = tap_at(a.w, 2, q[2], j[2]);
        ((E *)a.columns)[i] = is_inside(a.x, z, y, x) ? ((const E *)a.x.data)[offset_of(a.x, a.first + p, c, z, y, x)] : E(0);
    }
}

/* dx of some images, from the gradients of their columns. */
template <class S, class C, class I> static __global__ void fold(const __grid_constant__ conv_args a)
{
    const int64_t taps = a.w.kernel[0] * a.w.kernel[1] * a.w.kernel[2], columns = taps * a.x.c;
    EACH(i)
    {
        const image_place at = place_of<I>(a.x, i);
        C sum = 0;
        TAPS(k)
        {
            int64_t p[3];
            if (!window_holding(a.w, a.y, at, k0, k1, k2, p)) continue;
            const int64_t row = ((at.n * a.y.size[0] + p[0]) * a.y.size[1] + p[1]) * a.y.size[2] + p[2], k = tap_number(a.w, k0, k1, k2);
            sum += value_of(((const S *)a.columns)[row * columns + (a.last ? k * a.x.c + at.c : at.c * taps + k)]);
        }
        put((S *)a.x.data + offset_of(a.x, a.first + at.n, at.c, at.p[0], at.p[1], at.p[2]), sum);
    }
}

/* ---- groups: element by element --------------------------------------------------------------------------------------------------------------------- */

template <class S, class C, class I> static __global__ void each_result(const __grid_constant__ conv_args a)
{
    const int64_t taps = a.w.kernel[0] * a.w.kernel[1] * a.w.kernel[2];
    EACH(i)
    {
        const image_place at = place_of<I>(a.y, i);
        C sum = 0;
        for (int64_t c = 0; c < a.c; c++) TAPS(k)
            {
                const int64_t z = tap_at(a.w, 0, at.p[0], k0), y = tap_at(a.w, 1, at.p[1], k1), x = tap_at(a.w, 2, at.p[2], k2);
                if (!is_inside(a.x, z, y, x)) continue;
                sum = fma(value_of(((const S *)a.x.data)[offset_of(a.x, at.n, at.c / a.o * a.c + c, z, y, x)]),
                          value_of(((const S *)a.weight)[(at.c * a.c + c) * taps + tap_number(a.w, k0, k1, k2)]), sum);
            }
        if (a.bias) sum += a.bias[at.c];
        put((S *)a.y.data + offset_of(a.y, at.n, at.c, at.p[0], at.p[1], at.p[2]), sum);
    }
}

template <class S, class C, class I> static __global__ void each_source(const __grid_constant__ conv_args a)
{
    const int64_t taps = a.w.kernel[0] * a.w.kernel[1] * a.w.kernel[2];
    EACH(i)
    {
        const image_place at = place_of<I>(a.x, i);
        const int64_t group = at.c / a.c, c = at.c - group * a.c;
        C sum = 0;
        TAPS(k)
        {
            int64_t p[3];
            if (!window_holding(a.w, a.y, at, k0, k1, k2, p)) continue;
            for (int64_t o = group * a.o; o < (group + 1) * a.o; o++)
                sum = fma(value_of(((const S *)a.y.data)[offset_of(a.y, at.n, o, p[0], p[1], p[2])]),
                          value_of(((const S *)a.weight)[(o * a.c + c) * taps + tap_number(a.w, k0, k1, k2)]), sum);
        }
        put((S *)a.x.data + offset_of(a.x, at.n, at.c, at.p[0], at.p[1], at.p[2]), sum);
    }
}

/* A block for every weight. */
template <class S, class C> static __global__ void __launch_bounds__(256) each_weight(const __grid_constant__ conv_args a)
{
    __shared__ C part[256];
    const int64_t points = a.y.size[0] * a.y.size[1] * a.y.size[2];
    int64_t k = blockIdx.x;
    const int64_t k2 = k % a.w.kernel[2], k1 = k / a.w.kernel[2] % a.w.kernel[1], k0 = k / a.w.kernel[2] / a.w.kernel[1] % a.w.kernel[0];
    k /= a.w.kernel[0] * a.w.kernel[1] * a.w.kernel[2];
    const int64_t c = k % a.c, o = k / a.c;
    C sum = 0;
    for (int64_t i = threadIdx.x; i < a.y.n * points; i += 256) {
        const int64_t n = i / points, p = i % points, p2 = p % a.y.size[2], p1 = p / a.y.size[2] % a.y.size[1],
                      p0 = p / a.y.size[2] / a.y.size[1];
        const int64_t z = tap_at(a.w, 0, p0, k0), y = tap_at(a.w, 1, p1, k1), x = tap_at(a.w, 2, p2, k2);
        if (!is_inside(a.x, z, y, x)) continue;
        sum = fma(value_of(((const S *)a.x.data)[offset_of(a.x, n, o / a.o * a.c + c, z, y, x)]),
                  value_of(((const S *)a.y.data)[offset_of(a.y, n, o, p0, p1, p2)]), sum);
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) put((S *)a.result + blockIdx.x, part[0]);
}

/* ---- launching ------------------------------------------------------------------------------------------------------------------------------------------ */

static void launch_unfold(gpu_state *st, int elem, const conv_args &a)
{
    const unsigned blocks = gpu_blocks(st, a.total, 256);
    const bool wide = a.total > INT32_MAX;
    if (elem == 8 && wide) unfold<uint64_t, uint64_t><<<blocks, 256, 0, st->stream>>>(a);
    else if (elem == 8) unfold<uint64_t, uint32_t><<<blocks, 256, 0, st->stream>>>(a);
    else if (elem == 4 && wide) unfold<uint32_t, uint64_t><<<blocks, 256, 0, st->stream>>>(a);
    else if (elem == 4) unfold<uint32_t, uint32_t><<<blocks, 256, 0, st->stream>>>(a);
    else if (wide) unfold<uint16_t, uint64_t><<<blocks, 256, 0, st->stream>>>(a);
    else unfold<uint16_t, uint32_t><<<blocks, 256, 0, st->stream>>>(a);
}

/* What a convolution of one group works with: the scratch is cut into the turned weights, the columns of some images, and their rows of y where those do not lie as a matrix. */
struct conv_plan {
    conv_args a;
    int t, elem;
    int64_t points, columns, images; /* images at a time */
    bool rows_lie;                   /* y is a matrix, a row of channels for each point */
    char *turned, *unfolded, *rows;
};

static const char *plan_of(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, const gpu_image *y, conv_plan *p)
{
    *p = {};
    p->t = t, p->elem = gpu_elem(t);
    p->a.x = *x, p->a.y = *y, p->a.w = *w, p->a.groups = 1, p->a.c = x->c, p->a.o = y->c;
    p->a.last = x->stride_c == 1;
    p->points = image_points(y);
    p->columns = x->c * window_taps(w);
    p->rows_lie = (y->c == 1 || y->stride_c == 1) && y->stride[2] == y->c && (y->size[1] == 1 || y->stride[1] == y->c * y->size[2]) &&
                  (y->size[0] == 1 || y->stride[0] == y->c * y->size[2] * y->size[1]) && (y->n == 1 || y->stride_n == y->c * p->points);
    const int64_t weights = ((int64_t)y->c * p->columns * p->elem + 255) / 256 * 256;
    const int64_t image = p->points * (p->columns + (p->rows_lie ? 0 : y->c)) * p->elem, room = (int64_t)GPU_SCRATCH - weights - 1024;
    p->images = room / (image > 0 ? image : 1);
    if (p->images < 1) return "the convolution of one image needs more scratch memory than there is";
    if (p->images > y->n) p->images = y->n;
    p->turned = st->scratch;
    p->unfolded = st->scratch + weights;
    p->rows = p->unfolded + (p->images * p->points * p->columns * p->elem + 255) / 256 * 256;
    p->a.columns = p->unfolded;
    return NULL;
}

/* Weights [o, c, taps] and [o, taps, c]. */
static const char *turn_weights(gpu_state *st, const conv_plan *p, const void *from, bool back, void *to)
{
    const int64_t taps = window_taps(&p->a.w), shape[] = { p->a.o, p->a.c, taps };
    const int64_t plain[] = { p->a.c * taps, taps, 1 }, turned[] = { p->a.c * taps, 1, p->a.c };
    const gpu_position none = {};
    return gpu_copy(st, 3, shape, p->t, from, back ? turned : plain, p->t, to, back ? plain : turned, none);
}

/* Rows of y, some images of them, as a matrix or back. */
static const char *move_rows(gpu_state *st, const conv_plan *p, int64_t first, int64_t images, bool back)
{
    const gpu_image *y = &p->a.y;
    const int64_t shape[] = { images, y->size[0], y->size[1], y->size[2], y->c };
    const int64_t lies[] = { y->stride_n, y->stride[0], y->stride[1], y->stride[2], y->stride_c };
    const int64_t matrix[] = { p->points * y->c, y->size[1] * y->size[2] * y->c, y->size[2] * y->c, y->c, 1 };
    char *at = (char *)y->data + first * y->stride_n * p->elem;
    const gpu_position none = {};
    return back ? gpu_copy(st, 5, shape, p->t, p->rows, matrix, p->t, at, lies, none)
                : gpu_copy(st, 5, shape, p->t, at, lies, p->t, p->rows, matrix, none);
}

enum conv_pass { FORWARD, DATA, WEIGHT };

static const char *by_product(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, const void *weight, const float *bias,
                              const gpu_image *y, void *dw, conv_pass pass)
{
    conv_plan p;
    const char *e = plan_of(st, t, x, w, y, &p);
    if (e) return e;
    const bool turns = p.a.last && x->c > 1 && window_taps(w) > 1;
    if (!turns) p.a.last = false;
    if (turns && pass != WEIGHT && (e = turn_weights(st, &p, weight, false, p.turned))) return e;
    const void *filters = turns ? p.turned : weight;
    for (int64_t first = 0; first < y->n; first += p.images) {
        const int64_t images = y->n - first < p.images ? y->n - first : p.images, rows = images * p.points;
        void *matrix = p.rows_lie ? (char *)y->data + first * p.points * y->c * p.elem : p.rows;
        p.a.first = first;
        p.a.total = rows * p.columns;
        if (pass != DATA) launch_unfold(st, p.elem, p.a);
        if (pass != FORWARD && !p.rows_lie && (e = move_rows(st, &p, first, images, false))) return e;
        cj_gemm g = {};
        g.batch = 1;
        if (pass == FORWARD) {
            g.m = rows, g.n = y->c, g.k = p.columns;
            g.a = p.unfolded, g.a_row = p.columns, g.a_col = 1;
            g.b = filters, g.b_row = 1, g.b_col = p.columns;
            g.c = matrix, g.c_row = y->c;
            g.bias = bias;
        } else if (pass == DATA) {
            g.m = rows, g.n = p.columns, g.k = y->c;
            g.a = matrix, g.a_row = y->c, g.a_col = 1;
            g.b = filters, g.b_row = p.columns, g.b_col = 1;
            g.c = p.unfolded, g.c_row = p.columns;
        } else {
            g.m = y->c, g.n = p.columns, g.k = rows;
            g.a = matrix, g.a_row = 1, g.a_col = y->c;
            g.b = p.unfolded, g.b_row = p.columns, g.b_col = 1;
            g.c = turns ? p.turned : dw, g.c_row = p.columns;
            g.accumulate = first > 0;
        }
        if ((e = gpu_gemm(st, t, &g))) return e;
        if (pass == FORWARD && !p.rows_lie && (e = move_rows(st, &p, first, images, true))) return e;
        if (pass == DATA) {
            conv_args a = p.a;
            a.total = images * x->c * image_points(x);
            LAUNCH(st, t, a, fold<S, C, I>);
        }
    }
    if (pass == WEIGHT && turns) e = turn_weights(st, &p, p.turned, true, dw);
    return e ? e : gpu_check(st);
}

static conv_args grouped(const gpu_image *x, const gpu_window *w, int64_t groups, const void *weight, const gpu_image *y)
{
    conv_args a = {};
    a.x = *x, a.y = *y, a.w = *w, a.groups = groups, a.c = x->c / groups, a.o = y->c / groups, a.weight = weight;
    return a;
}

const char *gpu_conv(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, int64_t groups, const void *weight, const float *bias,
                     const gpu_image *y)
{
    gpu_use(st);
    if (image_total(y) == 0) return NULL;
    if (groups == 1) return by_product(st, t, x, w, weight, bias, y, NULL, FORWARD);
    conv_args a = grouped(x, w, groups, weight, y);
    a.bias = bias;
    a.total = image_total(y);
    LAUNCH(st, t, a, each_result<S, C, I>);
    return gpu_check(st);
}

const char *gpu_conv_data(gpu_state *st, int t, const gpu_image *y, const gpu_window *w, int64_t groups, const void *weight,
                          const gpu_image *x)
{
    gpu_use(st);
    if (image_total(x) == 0) return NULL;
    if (groups == 1) return by_product(st, t, x, w, weight, NULL, y, NULL, DATA);
    conv_args a = grouped(x, w, groups, weight, y);
    a.total = image_total(x);
    LAUNCH(st, t, a, each_source<S, C, I>);
    return gpu_check(st);
}

const char *gpu_conv_weight(gpu_state *st, int t, const gpu_image *x, const gpu_window *w, int64_t groups, const gpu_image *y, void *dw)
{
    gpu_use(st);
    conv_args a = grouped(x, w, groups, NULL, y);
    const int64_t weights = y->c * a.c * window_taps(w);
    if (weights == 0) return NULL;
    if (y->n == 0) return gpu_fill(st, t, dw, weights, 0);
    if (groups == 1) return by_product(st, t, x, w, NULL, NULL, y, dw, WEIGHT);
    if (weights > INT32_MAX) return "the weights are too many";
    a.result = dw;
    GPU_BY_FLOAT(t, (each_weight<S, C><<<(unsigned)weights, 256, 0, st->stream>>>(a)));
    return gpu_check(st);
}
