/* Kernels by operator name, the part for images and graphs (table.c): convolution, pooling, batch and group normalisation, sparse matrices. */
#include "kernels/cuda/table.h"

#include "kernels/cuda/cuda.h"
#include "ops/attrs.h"

/* ---- images ------------------------------------------------------------------------------------------------------------------------------------------------------------------------ */

/* A batch and a channel axis, then nd spatial ones. */
static gpu_image image_of(const cj_tensor *x, int64_t nd)
{
    gpu_image m = { .data = x->data, .n = x->shape[0], .c = x->shape[1], .stride_n = x->stride[0], .stride_c = x->stride[1] };
    for (int d = 0; d < 3; d++) {
        const int axis = x->ndim - 3 + d;
        m.size[d] = d < 3 - nd ? 1 : x->shape[axis];
        m.stride[d] = d < 3 - nd ? 0 : x->stride[axis];
    }
    return m;
}
/* Any number of leading axes, where they lie row by row; else an image. */
static gpu_image planes_of(const cj_tensor *x, int64_t nd)
{
    int64_t size = 1, planes = 1;
    bool rows = true;
    for (int d = x->ndim - 1; d >= 0; size *= x->shape[d--]) rows = rows && (x->shape[d] == 1 || x->stride[d] == size);
    if (!rows) return image_of(x, nd);
    gpu_image m = { .data = x->data, .n = 1 };
    for (int d = 0; d < x->ndim - nd; d++) planes *= x->shape[d];
    int64_t behind = 1;
    for (int d = 2; d >= 0; d--) {
        m.size[d] = d < 3 - nd ? 1 : x->shape[x->ndim - 3 + d];
        m.stride[d] = behind;
        behind *= m.size[d];
    }
    m.c = planes, m.stride_c = behind;
    return m;
}

static gpu_window window_of(const int64_t *kernel, const int64_t *stride, const int64_t *pad, const int64_t *dilation)
{
    gpu_window w;
    memcpy(w.kernel, kernel, sizeof w.kernel);
    memcpy(w.stride, stride, sizeof w.stride);
    memcpy(w.pad, pad, sizeof w.pad);
    memcpy(w.dilation, dilation, sizeof w.dilation);
    return w;
}
/* Of a convolution with these weights. */
static gpu_window filter_of(const cj_conv_attrs *a, const cj_tensor *w)
{
    int64_t kernel[3];
    for (int d = 0; d < 3; d++) kernel[d] = d < 3 - a->nd ? 1 : w->shape[w->ndim - 3 + d];
    return window_of(kernel, a->stride, a->low, a->dilation);
}

const char *gpu_run_conv(void *state, const cj_call *call)
{
    const cj_conv_attrs *a = call->attrs;
    const gpu_image x = image_of(call->in[0], a->nd), y = image_of(call->out[0], a->nd);
    const gpu_window w = filter_of(a, call->in[1]);
    return gpu_conv(state, call->out[0]->dtype, &x, &w, a->groups, call->in[1]->data,
                    call->nin > 2 ? (const float *)(const void *)call->in[2]->data : NULL, &y);
}
static const char *conv_data(void *state, const cj_conv_attrs *a, const cj_tensor *g, const cj_tensor *weight, const cj_tensor *dx)
{
    const gpu_image y = image_of(g, a->nd), x = image_of(dx, a->nd);
    const gpu_window w = filter_of(a, weight);
    return gpu_conv_data(state, dx->dtype, &y, &w, a->groups, weight->data, &x);
}
static const char *conv_weight(void *state, const cj_conv_attrs *a, const cj_tensor *of_x, const cj_tensor *g, const cj_tensor *dw)
{
    const gpu_image x = image_of(of_x, a->nd), y = image_of(g, a->nd);
    const gpu_window w = filter_of(a, dw);
    return gpu_conv_weight(state, dw->dtype, &x, &w, a->groups, &y, dw->data);
}
const char *gpu_run_conv_data(void *state, const cj_call *call)
{
    return conv_data(state, call->attrs, call->in[0], call->in[1], call->out[0]);
}
const char *gpu_run_conv_weight(void *state, const cj_call *call)
{
    return conv_weight(state, call->attrs, call->in[0], call->in[1], call->out[0]);
}
/* (g, w, x) to (dx, dw) */
const char *gpu_run_conv_gradients(void *state, const cj_call *call)
{
    const char *e = conv_data(state, call->attrs, call->in[0], call->in[1], call->out[0]);
    return e ? e : conv_weight(state, call->attrs, call->in[2], call->in[0], call->out[1]);
}

static gpu_window pool_of(const cj_window_attrs *a) { return window_of(a->kernel, a->stride, a->low, a->dilation); }
static int64_t *positions(const cj_tensor *t) { return t->dtype == CJ_I64 ? (int64_t *)(void *)t->data : NULL; }
static uint8_t *taps(const cj_tensor *t) { return t->dtype == CJ_U8 ? (uint8_t *)(void *)t->data : NULL; }

const char *gpu_run_pool_max(void *state, const cj_call *call)
{
    const cj_window_attrs *a = call->attrs;
    const gpu_image x = planes_of(call->in[0], a->nd), y = planes_of(call->out[0], a->nd);
    const gpu_window w = pool_of(a);
    return gpu_window_max(state, call->in[0]->dtype, &x, &w, &y, positions(call->out[1]), taps(call->out[1]));
}
const char *gpu_run_pool_put(void *state, const cj_call *call)
{
    const cj_window_attrs *a = call->attrs;
    const gpu_image y = planes_of(call->in[0], a->nd), x = planes_of(call->out[0], a->nd);
    const gpu_window w = pool_of(a);
    return gpu_window_put(state, call->in[0]->dtype, &y, &w, positions(call->in[1]), taps(call->in[1]), &x);
}
const char *gpu_run_pool_sum(void *state, const cj_call *call)
{
    const cj_window_attrs *a = call->attrs;
    const gpu_image x = planes_of(call->in[0], a->nd), y = planes_of(call->out[0], a->nd);
    const gpu_window w = pool_of(a);
    return gpu_window_sum(state, call->in[0]->dtype, &x, &w, a->scale, &y);
}
const char *gpu_run_pool_spread(void *state, const cj_call *call)
{
    const cj_window_attrs *a = call->attrs;
    const gpu_image y = planes_of(call->in[0], a->nd), x = planes_of(call->out[0], a->nd);
    const gpu_window w = pool_of(a);
    return gpu_window_spread(state, call->in[0]->dtype, &y, &w, a->scale, &x);
}

/* ---- batch and group normalisation ---------------------------------------------------------------------------------------------------------------------------------------------------- */

static gpu_norm norm_of(const cj_tensor *x, const cj_normalise_attrs *a)
{
    gpu_norm n = { .t = x->dtype, .x = x->data, .groups = a->groups, .eps = a->eps, .relu = a->relu, .given = a->given };
    n.channels = x->shape[a->last ? x->ndim - 1 : 1];
    n.outer = a->last ? x->numel / (n.channels ? n.channels : 1) : x->shape[0];
    n.inner = a->last || !x->numel ? 1 : x->numel / (n.outer * n.channels);
    return n;
}
static void set_affine(gpu_norm *n, const cj_normalise_attrs *a, cj_tensor *const *in, int at)
{
    if (a->weight) n->weight = in[at]->data, n->weight_type = in[at]->dtype, at++;
    if (a->bias) n->bias = in[at]->data, n->bias_type = in[at]->dtype;
}
const char *gpu_run_normalise(void *state, const cj_call *call)
{
    const cj_normalise_attrs *a = call->attrs;
    const cj_tensor *x = call->in[0];
    cj_tensor *const *statistics = a->given ? call->in + 1 : call->out + 1;
    gpu_norm n = norm_of(x, a);
    if (a->groups && a->last) return "groups of channels that lie last have no kernel here";
    n.y = call->out[0]->data;
    n.mean = (double *)(void *)statistics[0]->data, n.var = (double *)(void *)statistics[1]->data;
    set_affine(&n, a, call->in, a->given ? 3 : 1);
    for (int i = 1; i < 3 && !x->numel; i++) {
        const char *e = gpu_fill(state, CJ_F64, call->out[i]->data, call->out[i]->numel, 0);
        if (e) return e;
    }
    return gpu_normalise(state, &n);
}
const char *gpu_run_normalise_bwd(void *state, const cj_call *call)
{
    const cj_normalise_attrs *a = call->attrs;
    gpu_norm n = norm_of(call->in[0], a);
    if (a->groups && a->last) return "groups of channels that lie last have no kernel here";
    n.dy = call->in[1]->data;
    n.y = call->out[0]->data;
    n.mean = (double *)(void *)call->in[2]->data, n.var = (double *)(void *)call->in[3]->data;
    set_affine(&n, a, call->in, 4);
    return gpu_normalise_bwd(state, &n, a->weight ? call->out[1]->data : NULL, a->bias ? call->out[2]->data : NULL);
}

/* ---- sparse matrices ------------------------------------------------------------------------------------------------------------------------------------------------------------ */

/* Inputs: offsets, columns, their transposes and the number of each entry there, then the two factors. */
static gpu_csr csr_of(const cj_call *call, bool transposed, int64_t k)
{
    const cj_csr_attrs *a = call->attrs;
    const int64_t *part[5];
    for (int i = 0; i < 5; i++) part[i] = (const int64_t *)(const void *)call->in[i]->data;
    return (gpu_csr){ .rows = transposed ? a->cols : a->rows,
                      .cols = transposed ? a->rows : a->cols,
                      .entries = call->in[1]->numel,
                      .k = k,
                      .offsets = part[transposed ? 2 : 0],
                      .columns = part[transposed ? 3 : 1],
                      .entry = transposed ? part[4] : NULL };
}
const char *gpu_run_csr_matmul(void *state, const cj_call *call)
{
    const cj_csr_attrs *a = call->attrs;
    const gpu_csr m = csr_of(call, a->transposed, call->in[6]->shape[1]);
    return gpu_csr_matmul(state, call->out[0]->dtype, &m, call->in[5]->data, call->in[6]->data, call->out[0]->data);
}
const char *gpu_run_csr_sampled(void *state, const cj_call *call)
{
    const gpu_csr m = csr_of(call, false, call->in[5]->shape[1]);
    return gpu_csr_sampled(state, call->out[0]->dtype, &m, call->in[5]->data, call->in[6]->data, call->out[0]->data);
}
