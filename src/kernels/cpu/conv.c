/* Convolution as products: blocks of output pixels are unfolded into a matrix of windows, one column per pixel, and multiplied.
 *
 *   forward   y[:, P]  = W · X(P)            W [o, K], X(P) [K, P]: row (c, k) holds x[c, p·stride - pad + k·dilation] for the pixels p of the block
 *   data      X(P) = Wᵀ · dy[:, P], then every row is added to where it came from
 *   weight    dW      += dy[:, P] · X(P)ᵀ    over all blocks of all images
 *
 * K = c · kernel.  The matrix of a block stays in the second-level cache.  Tasks write disjoint results (blocks of y, images of dx, channels of dW) and each runs its
 * products on one thread, so the number of threads does not show.  bf16 and f16 are converted on the way into the matrix and out of the result.
 */
#include "kernels/cpu/conv.h"

#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

cj_gemm_fn CJ_K(cj__gemm_f32), CJ_K(cj__gemm_f64);
cj_gemm_workspace_fn CJ_K(cj__gemm_workspace_f32), CJ_K(cj__gemm_workspace_f64);

#define MATRIX_BYTES (384 << 10) /* of the windows of one block */
#define WEIGHT_COLUMNS 128       /* of dW that one task computes */

static int64_t volume(const int64_t *d) { return d[0] * d[1] * d[2]; }
static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static cj_dtype work_type(cj_dtype t) { return t == CJ_F64 ? CJ_F64 : CJ_F32; }

/* A task's own memory, and what is shared. */
typedef struct conv_plan {
    cj_dtype t, w; /* stored, computed */
    int64_t size;  /* bytes of an element of w */
    int64_t rows;  /* of the matrix: c·kernel, or the columns of dW of one task */
    int64_t pixels, block, blocks;
    int64_t channels; /* of x in one task: all, or of weight some */
    bool direct;      /* 1x1, stride 1, no padding: x is the matrix */
    size_t matrix, image, result, part,
        gemm;             /* bytes of a thread: windows; of halves dx, a block of y or dy, and dW in f32; the GEMM's own */
    size_t total, shared; /* of a thread; weights in f32 */
} conv_plan;

/* The product of a block of n pixels (weight: of `channels` channels), all but the places of its operands. */
static cj_gemm product(const cj_conv_shape *v, const conv_plan *p, cj_conv_pass pass, int64_t n, int64_t channels)
{
    const bool half = p->t != p->w;
    const int64_t inside = volume(v->in), window = volume(v->kernel), columns = v->c * window, part = channels * window;
    switch (pass) {
    case CJ_CONV_FORWARD: /* [o, K] · [K, n] */
        return (cj_gemm){ .m = v->o,
                          .n = n,
                          .k = columns,
                          .batch = 1,
                          .a_row = columns,
                          .a_col = 1,
                          .b_row = p->direct ? inside : n,
                          .b_col = 1,
                          .c_row = half ? n : p->pixels };
    case CJ_CONV_DATA: /* [K, o] · [o, n] */
        return (cj_gemm){
            .m = columns, .n = n, .k = v->o, .batch = 1, .a_row = 1, .a_col = columns, .b_row = half ? n : p->pixels, .b_col = 1, .c_row = n
        };
    default: /* [o, n] · [n, part of K] */
        return (cj_gemm){ .m = v->o,
                          .n = part,
                          .k = n,
                          .batch = 1,
                          .a_row = half ? n : p->pixels,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = p->direct ? inside : n,
                          .c_row = half ? part : columns };
    }
}

static conv_plan plan_of(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t)
{
    conv_plan p = { .t = t, .w = work_type(t) };
    const bool half = p.t != p.w;
    const int64_t window = volume(v->kernel);
    p.size = p.w == CJ_F64 ? 8 : 4;
    p.pixels = volume(v->out);
    p.channels = v->c;
    if (pass == CJ_CONV_WEIGHT && WEIGHT_COLUMNS / window < v->c) p.channels = WEIGHT_COLUMNS / window > 1 ? WEIGHT_COLUMNS / window : 1;
    p.rows = p.channels * window;
    p.direct = window == 1 && !half && pass != CJ_CONV_DATA;
    for (int d = 0; d < 3; d++) p.direct &= v->stride[d] == 1 && v->pad[d] == 0 && v->in[d] == v->out[d];
    p.block = round_up(MATRIX_BYTES / p.size / (p.rows ? p.rows : 1), 32);
    if (p.block > p.pixels) p.block = p.pixels;
    if (p.block < 1) p.block = 1;
    p.blocks = (p.pixels + p.block - 1) / p.block;
    p.matrix = p.direct ? 0 : (size_t)round_up(p.rows * p.block * p.size, 64);
    p.image = pass == CJ_CONV_DATA && half ? (size_t)round_up(v->c * volume(v->in) * p.size, 64) : 0;
    p.result = half ? (size_t)round_up(v->o * p.block * p.size, 64) : 0;
    p.part = half && pass == CJ_CONV_WEIGHT ? (size_t)round_up(v->o * p.rows * p.size, 64) : 0;
    for (int last = 0; last < 4; last++) { /* whole and last blocks and runs of channels may be multiplied in different ways */
        const int64_t n = last & 1 ? p.pixels - (p.blocks - 1) * p.block : p.block;
        const int64_t rest = v->c % p.channels, channels = last & 2 && rest ? rest : p.channels;
        const cj_gemm g = product(v, &p, pass, n, channels);
        const size_t bytes = p.w == CJ_F64 ? CJ_K(cj__gemm_workspace_f64)(&g, 1) : CJ_K(cj__gemm_workspace_f32)(&g, 1);
        if (bytes > p.gemm) p.gemm = bytes;
    }
    p.gemm = (size_t)round_up((int64_t)p.gemm, 64);
    p.total = p.matrix + p.image + p.result + p.part + p.gemm;
    p.shared = half && pass != CJ_CONV_WEIGHT ? (size_t)round_up(v->groups * v->o * v->c * window * p.size, 64) : 0;
    return p;
}

size_t CJ_K(cj__conv_workspace)(const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, int threads)
{
    const conv_plan p = plan_of(v, pass, t);
    return p.shared + (size_t)threads * p.total;
}

typedef struct conv_job {
    const cj_conv_shape *v;
    conv_plan p;
    const char *a, *b;
    char *y;
    const char *weights; /* of type p.w */
    char *work;
} conv_job;

typedef struct task_memory {
    char *matrix, *image, *result, *part;
    void *gemm;
} task_memory;

static task_memory memory_of(const conv_job *j, int worker)
{
    char *at = j->work + (size_t)worker * j->p.total;
    task_memory m = { .matrix = at };
    m.image = m.matrix + j->p.matrix;
    m.result = m.image + j->p.image;
    m.part = m.result + j->p.result;
    m.gemm = m.part + j->p.part;
    return m;
}

static void multiply(const conv_job *j, const cj_gemm *g, void *workspace)
{
    if (j->p.w == CJ_F64) CJ_K(cj__gemm_f64)(NULL, g, workspace);
    else CJ_K(cj__gemm_f32)(NULL, g, workspace);
}

/* n elements from x (every stride-th) to the matrix. */
CJ_INLINE void load_run(const conv_plan *p, const char *x, int64_t stride, char *to, int64_t n)
{
    const int64_t elem = cj__elem_size(p->t);
    if (p->t != p->w) CJ_K(cj__convert_strided)(p->t, x, stride, p->w, to, n);
    else if (stride == 1) memcpy(to, x, (size_t)(n * elem));
    else CJ_K(cj__move_strided)((int)elem, x, stride, to, 1, n);
}

CJ_INLINE void add_run(const conv_plan *p, const char *from, char *x, int64_t stride, int64_t n)
{
    if (p->w == CJ_F64) {
        double *to = (double *)x;
        for (int64_t i = 0; i < n; i++) to[i * stride] += ((const double *)from)[i];
    } else if (stride == 1) {
        float *to = (float *)x;
        for (int64_t i = 0; i < n; i++) to[i] += ((const float *)from)[i];
    } else {
        float *to = (float *)x;
        for (int64_t i = 0; i < n; i++) to[i * stride] += ((const float *)from)[i];
    }
}

/* Row (·, k) of the matrix for pixels [first, last): from plane x (add false), or added to it (elements of `elem` bytes). */
CJ_INLINE void window_row(const conv_job *j, int64_t k, int64_t first, int64_t last, char *x, int64_t elem, char *row, bool add)
{
    const cj_conv_shape *v = j->v;
    const conv_plan *p = &j->p;
    const int64_t kx = k % v->kernel[2], ky = k / v->kernel[2] % v->kernel[1], kz = k / v->kernel[2] / v->kernel[1];
    const int64_t width = v->out[2], sx = v->stride[2], shift = kx * v->dilation[2] - v->pad[2]; /* ix = ox·sx + shift */
    /* pixels ox whose ix lies in [0, in) */
    int64_t low = shift >= 0 ? 0 : (-shift + sx - 1) / sx, high = shift >= v->in[2] ? 0 : (v->in[2] - 1 - shift) / sx + 1;
    if (low > width) low = width;
    if (high > width) high = width;
    if (high < low) high = low;
    for (int64_t at = first; at < last;) {
        const int64_t line = at / width, begin = at - line * width, end = begin + (last - at) < width ? begin + (last - at) : width;
        const int64_t iy = line % v->out[1] * v->stride[1] + ky * v->dilation[1] - v->pad[1];
        const int64_t iz = line / v->out[1] * v->stride[0] + kz * v->dilation[0] - v->pad[0];
        char *to = row + (at - first) * p->size;
        const bool inside = iy >= 0 && iy < v->in[1] && iz >= 0 && iz < v->in[0];
        int64_t l = inside ? low : end, h = inside ? high : end;
        l = l < begin ? begin : l > end ? end : l;
        h = h < l ? l : h > end ? end : h;
        if (!add && l > begin) memset(to, 0, (size_t)((l - begin) * p->size));
        if (h > l) {
            char *from = x + ((iz * v->in[1] + iy) * v->in[2] + l * sx + shift) * elem;
            if (add) add_run(p, to + (l - begin) * p->size, from, sx, h - l);
            else load_run(p, from, sx, to + (l - begin) * p->size, h - l);
        }
        if (!add && h < end) memset(to + (h - begin) * p->size, 0, (size_t)((end - h) * p->size));
        at += end - begin;
    }
}

/* The windows of channels [0, channels) of x for pixels [first, last), last - first columns. */
static void unfold(const conv_job *j, const char *x, int64_t channels, int64_t first, int64_t last, char *matrix)
{
    const int64_t window = volume(j->v->kernel), elem = cj__elem_size(j->p.t), plane = volume(j->v->in) * elem, n = last - first;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t k = 0; k < window; k++)
            window_row(j, k, first, last, (char *)(uintptr_t)x + c * plane, elem, matrix + (c * window + k) * n * j->p.size, false);
}

/* The o rows of a block of dy: where they are, or converted to f32. */
static const char *block_of(const conv_job *j, const char *dy, int64_t n, char *converted)
{
    const conv_plan *p = &j->p;
    if (p->t == p->w) return dy;
    for (int64_t o = 0; o < j->v->o; o++)
        CJ_K(cj__convert)(p->t, dy + o * p->pixels * cj__elem_size(p->t), p->w, converted + o * n * p->size, n);
    return converted;
}

/* ---- forward: one task per block of one image and group ---------------------------------------------------------------------------------- */

static void forward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const conv_job *j = arg;
    const cj_conv_shape *v = j->v;
    const conv_plan *p = &j->p;
    const int64_t elem = cj__elem_size(p->t), inside = volume(v->in);
    const task_memory mem = memory_of(j, worker);
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / p->blocks, first = task % p->blocks * p->block, g = image % v->groups; /* image: of n·groups */
        const int64_t last = first + p->block < p->pixels ? first + p->block : p->pixels, n = last - first;
        const char *x = j->a + image * v->c * inside * elem;
        char *y = j->y + (image * v->o * p->pixels + first) * elem;
        cj_gemm m = product(v, p, CJ_CONV_FORWARD, n, v->c);
        if (!p->direct) unfold(j, x, v->c, first, last, mem.matrix);
        m.a = j->weights + g * v->o * p->rows * p->size;
        m.b = p->direct ? x + first * elem : mem.matrix;
        m.c = p->t == p->w ? y : mem.result;
        multiply(j, &m, mem.gemm);
        for (int64_t o = 0; o < v->o && p->t != p->w; o++)
            CJ_K(cj__convert)(p->w, mem.result + o * n * p->size, p->t, y + o * p->pixels * elem, n);
    }
}

/* ---- data: one task per image and group ------------------------------------------------------------------------------------------------------ */

static void data_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const conv_job *j = arg;
    const cj_conv_shape *v = j->v;
    const conv_plan *p = &j->p;
    const int64_t elem = cj__elem_size(p->t), inside = volume(v->in), window = volume(v->kernel);
    const task_memory mem = memory_of(j, worker);
    for (int64_t image = begin; image < end; image++) {
        char *dx = p->t == p->w ? j->y + image * v->c * inside * elem : mem.image;
        memset(dx, 0, (size_t)(v->c * inside * p->size));
        for (int64_t first = 0; first < p->pixels; first += p->block) {
            const int64_t last = first + p->block < p->pixels ? first + p->block : p->pixels, n = last - first;
            const char *dy = j->a + (image * v->o * p->pixels + first) * elem;
            cj_gemm m = product(v, p, CJ_CONV_DATA, n, v->c);
            m.a = j->weights + image % v->groups * v->o * p->rows * p->size;
            m.b = block_of(j, dy, n, mem.result);
            m.c = mem.matrix;
            multiply(j, &m, mem.gemm);
            for (int64_t c = 0; c < v->c; c++)
                for (int64_t k = 0; k < window; k++)
                    window_row(j, k, first, last, dx + c * inside * p->size, p->size, mem.matrix + (c * window + k) * n * p->size, true);
        }
        if (p->t != p->w) CJ_K(cj__convert)(p->w, dx, p->t, j->y + image * v->c * inside * elem, v->c * inside);
    }
}

/* ---- weight: one task per group and run of channels -------------------------------------------------------------------------------------------- */

static void weight_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const conv_job *j = arg;
    const cj_conv_shape *v = j->v;
    const conv_plan *p = &j->p;
    const int64_t elem = cj__elem_size(p->t), inside = volume(v->in), window = volume(v->kernel), columns = v->c * window;
    const int64_t runs = (v->c + p->channels - 1) / p->channels;
    const task_memory mem = memory_of(j, worker);
    for (int64_t task = begin; task < end; task++) {
        const int64_t g = task / runs, c0 = task % runs * p->channels, channels = c0 + p->channels < v->c ? p->channels : v->c - c0;
        char *dw = j->y + (g * v->o * columns + c0 * window) * elem;
        int started = 0;
        for (int64_t i = 0; i < v->n; i++)
            for (int64_t first = 0; first < p->pixels; first += p->block, started = 1) {
                const int64_t image = i * v->groups + g, last = first + p->block < p->pixels ? first + p->block : p->pixels,
                              n = last - first;
                const char *x = j->a + (image * v->c + c0) * inside * elem, *dy = j->b + (image * v->o * p->pixels + first) * elem;
                cj_gemm m = product(v, p, CJ_CONV_WEIGHT, n, channels);
                if (!p->direct) unfold(j, x, channels, first, last, mem.matrix);
                m.a = block_of(j, dy, n, mem.result);
                m.b = p->direct ? x + first * elem : mem.matrix;
                m.c = p->t == p->w ? dw : mem.part;
                m.accumulate = started;
                multiply(j, &m, mem.gemm);
            }
        for (int64_t o = 0; o < v->o; o++) {
            const int64_t n = channels * window;
            if (!started) memset(dw + o * columns * elem, 0, (size_t)(n * elem));
            else if (p->t != p->w) CJ_K(cj__convert)(p->w, mem.part + o * n * p->size, p->t, dw + o * columns * elem, n);
        }
    }
}

void CJ_K(cj__conv)(cj_pool *pool, const cj_conv_shape *v, cj_conv_pass pass, cj_dtype t, const void *a, const void *b, void *result,
                    void *workspace)
{
    conv_job j = { .v = v, .p = plan_of(v, pass, t), .a = a, .b = b, .y = result, .weights = b, .work = (char *)workspace };
    j.work += j.p.shared;
    if (j.p.shared) {
        CJ_K(cj__convert)(t, b, j.p.w, workspace, v->groups * v->o * v->c * volume(v->kernel));
        j.weights = workspace;
    }
    if (pass == CJ_CONV_FORWARD) cj__parallel_for(pool, v->n * v->groups * j.p.blocks, 1, forward_tasks, &j);
    else if (pass == CJ_CONV_DATA) cj__parallel_for(pool, v->n * v->groups, 1, data_tasks, &j);
    else cj__parallel_for(pool, v->groups * ((v->c + j.p.channels - 1) / j.p.channels), 1, weight_tasks, &j);
}
