/* The elementwise engine (ew.h): cuts the iteration space into blocks and runs the program on each.
 *
 * Dimensions are collapsed first.  Then every argument is one of few kinds (ew_job.h), by which it is read in place or copied into a block.  A block is a
 * piece of the linear order, except where an input is transposed against the output: there it is a square tile of the two dimensions, so that both are
 * read in whole cache lines.  ew_plan.c says what runs on a block, ew_small.c does without all this for a few elements.
 *
 * Buffers of one block each are on the stack of the running thread.
 */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ew_job.h"

#define GRAIN (32 * CJ_EW_BLOCK) /* elements of one chunk of the parallel loop */
#define PERIOD_MAX CJ_EW_BLOCK   /* longest row that is repeated in a buffer */
/* One buffer: f32 blocks; f64 and i64 ones have half as many elements.  The odd bytes, more than a group has, keep groups of different buffers apart that
 * would else share the low 12 bits of their addresses, which the processor takes for a dependence. */
#define SLOT_BYTES ((CJ_EW_BLOCK + PERIOD_MAX) * 4 + 576)
#define GROUP_BYTES (CJ_EW_WIDE_GROUP * 4)
#define TILE_MIN 8 /* smaller transposed dimensions are walked */

typedef cj_ew_job job;

/* ---- runs: n elements between memory and a block ----------------------------------------------------------------------------------------- */

static void fill_block(int elem, void *block, const void *value, int64_t n)
{
    if (elem == 4) {
        float v, *d = block;
        memcpy(&v, value, 4);
        for (int64_t i = 0; i < n; i++) d[i] = v;
    } else {
        uint64_t v, *d = block;
        memcpy(&v, value, 8);
        for (int64_t i = 0; i < n; i++) d[i] = v;
    }
}

static void load_run(cj_dtype compute, int elem, void *block, cj_dtype t, const char *x, int64_t stride, int64_t n)
{
    if (stride == 0) {
        uint64_t one = 0;
        CJ_K(cj__convert)(t, x, compute, &one, 1);
        fill_block(elem, block, &one, n);
    } else if (t != compute) {
        CJ_K(cj__convert_strided)(t, x, stride, compute, block, n);
    } else if (elem == 4) {
        const float *s = (const float *)x;
        float *d = block;
        if (stride == 1)
            for (int64_t i = 0; i < n; i++) d[i] = s[i];
        else
            for (int64_t i = 0; i < n; i++) d[i] = s[i * stride];
    } else {
        const uint64_t *s = (const uint64_t *)x;
        uint64_t *d = block;
        for (int64_t i = 0; i < n; i++) d[i] = s[i * stride];
    }
}

/* i64 to i32 and u8 wraps here, unlike a cast between tensors. */
static void convert_out(cj_dtype compute, const char *block, cj_dtype t, void *y, int64_t n)
{
    const int64_t *x = (const int64_t *)block;
    if (compute == CJ_I64 && t == CJ_I32)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)y)[i] = (uint32_t)x[i];
    else if (compute == CJ_I64 && t == CJ_U8)
        for (int64_t i = 0; i < n; i++) ((uint8_t *)y)[i] = (uint8_t)x[i];
    else CJ_K(cj__convert)(compute, block, t, y, n);
}

static void store_run(cj_dtype compute, int elem, const char *block, cj_dtype t, char *y, int64_t stride, int64_t n)
{
    if (stride == 1) {
        convert_out(compute, block, t, y, n);
        return;
    }
    uint64_t piece[128];
    const int size = cj__elem_size(t);
    for (int64_t i = 0; i < n; i += 128) {
        int64_t m = n - i < 128 ? n - i : 128;
        const void *from = block + i * elem;
        if (t != compute) {
            convert_out(compute, from, t, piece, m);
            from = piece;
        }
        CJ_K(cj__move_strided)(size, from, 1, y + i * stride * size, stride, m);
    }
}

/* Elements [begin, begin + n) of the linear order, argument k, to or from a block. */
static void walk(const job *j, int k, bool store, int64_t begin, int64_t n, char *block)
{
    const cj_dtype compute = j->p->compute, t = j->args[k].dtype;
    const int elem = j->elem, last = j->nd - 1;
    const int64_t *stride = j->stride[k], size = cj__elem_size(t), inner = j->shape[last];
    int64_t index[CJ_MAX_DIMS], rest = begin;
    char *x = j->args[k].data;
    for (int d = last; d >= 0; d--) {
        index[d] = rest % j->shape[d];
        rest /= j->shape[d];
        x += index[d] * stride[d] * size;
    }
    const int64_t row_stride = last > 0 ? stride[last - 1] * size : 0, step = stride[last];
    const bool copy_rows = !store && t == compute && elem == 4 && step == 1 && inner <= 64;
    const bool fill_rows = !store && t == compute && elem == 4 && step == 0 && inner <= 64;
    for (;;) {
        int64_t run = inner - index[last];
        if (run > n) run = n;
        if (store) store_run(compute, elem, block, t, x, step, run);
        else load_run(compute, elem, block, t, x, step, run);
        block += run * elem;
        n -= run;
        if (n == 0) return;
        x -= index[last] * step * size;
        index[last] = 0;
        int d = last - 1;
        x += row_stride;
        index[d]++;
        /* Short rows, the usual case of a small class dimension: whole rows in a tight loop. */
        if (copy_rows || fill_rows) {
            float *out = (float *)block;
            int64_t rows = j->shape[d] - index[d];
            if (rows > n / inner) rows = n / inner;
            for (int64_t r = 0; r < rows; r++, out += inner, x += row_stride) {
                const float *row = (const float *)x;
                if (fill_rows)
                    for (int64_t i = 0; i < inner; i++) out[i] = row[0];
                else
                    for (int64_t i = 0; i < inner; i++) out[i] = row[i];
            }
            block = (char *)out;
            index[d] += rows;
            n -= rows * inner;
            if (n == 0) return;
        }
        for (; index[d] == j->shape[d]; d--) { /* carry; begin + n is within the space, so d stays >= 0 */
            x += (stride[d - 1] - index[d] * stride[d]) * size;
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

/* ---- preparation ------------------------------------------------------------------------------------------------------------------------- */

/* Takes the dimensions in the order of the result's strides, largest first (a channels-last result is then written as it lies), drops those of size 1 and joins
 * neighbours that every argument steps through evenly. */
static void collapse(job *j, int ndim, const int64_t *shape)
{
    const int64_t *step = j->args[j->p->n_in].stride;
    int order[CJ_MAX_DIMS], nd = 0;
    for (int d = 0; d < ndim; d++) {
        int at = d;
        for (; at > 0 && step[order[at - 1]] < step[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = 0; i < ndim; i++) {
        const int d = order[i];
        if (shape[d] == 1) continue;
        bool join = nd > 0;
        for (int k = 0; join && k < j->n_args; k++) join = j->stride[k][nd - 1] == j->args[k].stride[d] * shape[d];
        if (join) nd--;
        j->shape[nd] = join ? j->shape[nd] * shape[d] : shape[d];
        for (int k = 0; k < j->n_args; k++) j->stride[k][nd] = j->args[k].stride[d];
        nd++;
    }
    if (nd == 0) {
        j->shape[nd] = 1;
        for (int k = 0; k < j->n_args; k++) j->stride[k][nd] = 1;
        nd++;
    }
    j->nd = nd;
}

static cj_ew_kind classify(job *j, int k)
{
    const bool input = k < j->p->n_in;
    const int64_t *stride = j->stride[k];
    int d = j->nd - 1;
    int64_t run = 1;
    while (d >= 0 && stride[d] == run) run *= j->shape[d--];
    j->period[k] = run;
    if (d < 0) return j->args[k].dtype == j->p->compute ? CJ_EW_DIRECT : CJ_EW_WALKED;
    if (!input) return CJ_EW_WALKED;
    for (; d >= 0; d--)
        if (stride[d] != 0) return CJ_EW_WALKED;
    return run == 1 ? CJ_EW_SCALAR : CJ_EW_PERIODIC;
}

/* The dimension in which a walked input is contiguous while it strides through the last one. */
static int find_tile(const job *j)
{
    const int last = j->nd - 1;
    for (int k = 0; k < j->p->n_in; k++) {
        if (j->kind[k] != CJ_EW_WALKED || j->stride[k][last] == 1 || j->stride[k][last] == 0) continue;
        for (int d = 0; d < last; d++)
            if (j->stride[k][d] == 1 && j->shape[d] >= TILE_MIN && j->shape[last] >= TILE_MIN) return d;
    }
    return -1;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------------------- */

typedef struct bank {
    _Alignas(64) char slot[CJ_EW_MAX_REGS][SLOT_BYTES];
    cj_ew_frame frame;
} bank;

/* A periodic input short enough for one block and one row more to fit a slot. */
static bool repeats(const job *j, int k) { return j->kind[k] == CJ_EW_PERIODIC && j->period[k] * j->elem <= PERIOD_MAX * 4; }

/* Fills what stays the same for all blocks. */
static void open_bank(const job *j, bank *b, int64_t numel)
{
    const cj_ew_prog *p = j->p;
    const int64_t most = j->by_groups ? CJ_EW_WIDE_GROUP : j->block, block = numel < most ? numel : most;
    for (int r = 0; r < CJ_EW_MAX_REGS; r++) b->frame.at[r] = j->by_groups ? (char *)b->slot + r * GROUP_BYTES : b->slot[r];
    for (int k = 0; k < p->n_in; k++) {
        const cj_ew_arg *x = &j->args[k];
        if (j->kind[k] == CJ_EW_SCALAR) {
            load_run(p->compute, j->elem, b->frame.at[k], x->dtype, x->data, 0, block);
        } else if (j->tile_dim < 0 && repeats(j, k)) {
            const int64_t period = j->period[k], row = period * j->elem, all = (block + period) * j->elem;
            load_run(p->compute, j->elem, b->slot[k], x->dtype, x->data, 1, period);
            for (int64_t i = row; i < all; i *= 2) memcpy(b->slot[k] + i, b->slot[k], (size_t)(2 * i <= all ? i : all - i));
        }
    }
}

static void run_block(const job *j, bank *b, int n)
{
    char *const *at = b->frame.at;
    if (j->p->compute == CJ_F32) {
        const int done = j->n_wide ? CJ_K(cj__ew_run_wide)(j->wide, &b->frame, n) : 0;
        if (done < n) CJ_K(cj__ew_run_ops)(j->ops, j->n_ops, &b->frame, done, n);
        return;
    }
    for (int i = 0; i < j->n_steps; i++) {
        const cj_ew_step *s = &j->steps[i];
        s->fn(&(cj_ew_call){ .d = at[s->d], .a = at[s->a], .b = at[s->b], .c = at[s->c], .s = s->s, .n = n, .fault = j->fault });
    }
}

/* A periodic input whose row is too long to be repeated: in place where the block lies within a row. */
static void load_long_row(const job *j, bank *b, int k, int64_t begin, int64_t n)
{
    const cj_ew_arg *x = &j->args[k];
    const int64_t period = j->period[k], size = cj__elem_size(x->dtype);
    int64_t phase = begin % period;
    if (phase + n <= period && x->dtype == j->p->compute) {
        b->frame.at[k] = (char *)x->data + phase * size;
        return;
    }
    char *block = b->frame.at[k] = b->slot[k];
    while (n > 0) {
        int64_t run = period - phase < n ? period - phase : n;
        load_run(j->p->compute, j->elem, block, x->dtype, (const char *)x->data + phase * size, 1, run);
        block += run * j->elem;
        n -= run;
        phase = 0;
    }
}

/* All elements in one go, group by group: what a program keeps is no more than a group long, and leaves the L1 cache to the arguments. */
static void run_by_groups(const job *j, bank *b, int64_t begin, int64_t end)
{
    uint8_t moving[CJ_EW_MAX_ARGS];
    int n = 0;
    for (int k = 0; k < j->n_args; k++) {
        if (j->kind[k] != CJ_EW_DIRECT) continue;
        moving[n++] = CJ_EW_PLACE_ARG(k);
        b->frame.at[CJ_EW_PLACE_ARG(k)] = (char *)j->args[k].data + begin * j->elem;
    }
    const int64_t done = CJ_K(cj__ew_run_groups)(j->wide, &b->frame, moving, n, end - begin);
    if (begin + done < end) CJ_K(cj__ew_run_ops)(j->ops, j->n_ops, &b->frame, 0, (int)(end - begin - done));
}

static void run_linear(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const cj_ew_prog *p = j->p;
    bank b;
    (void)worker;
    open_bank(j, &b, end - begin);
    if (j->by_groups) {
        run_by_groups(j, &b, begin, end);
        begin = end;
    }
    for (int64_t at = begin; at < end; at += j->block) {
        const int64_t n = end - at < j->block ? end - at : j->block;
        for (int k = 0; k < j->n_args; k++) {
            if (j->kind[k] == CJ_EW_DIRECT) b.frame.at[CJ_EW_PLACE_ARG(k)] = (char *)j->args[k].data + at * j->elem;
            else if (k >= p->n_in) continue;
            else if (j->kind[k] == CJ_EW_WALKED) walk(j, k, false, at, n, b.slot[k]);
            else if (j->kind[k] == CJ_EW_PERIODIC) {
                if (repeats(j, k)) b.frame.at[k] = b.slot[k] + at % j->period[k] * j->elem;
                else load_long_row(j, &b, k, at, n);
            }
        }
        run_block(j, &b, (int)n);
        for (int i = 0; i < j->n_stores; i++) walk(j, p->n_in + j->store[i], true, at, n, b.frame.at[j->store_from[i]]);
    }
    if (j->streams) vf_stream_end();
}

/* A tile of h rows (dimension tile_dim) and w columns (the last dimension) at x, to or from a block [h, w]. */
static void tile_argument(const job *j, int k, bool store, char *x, int64_t h, int64_t w, char *block)
{
    const cj_dtype compute = j->p->compute, t = j->args[k].dtype;
    const int64_t size = cj__elem_size(t), row = j->stride[k][j->tile_dim], col = j->stride[k][j->nd - 1];
    if (!store && t == compute && j->elem == 4 && row == 1) {
        float *d = (float *)block;
        for (int64_t c = 0; c < w; c++) {
            const float *s = (const float *)x + c * col;
            for (int64_t r = 0; r < h; r++) d[r * w + c] = s[r];
        }
        return;
    }
    for (int64_t r = 0; r < h; r++, x += row * size, block += w * j->elem) {
        if (store) store_run(compute, j->elem, block, t, x, col, w);
        else load_run(compute, j->elem, block, t, x, col, w);
    }
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const cj_ew_prog *p = j->p;
    const int last = j->nd - 1;
    bank b;
    (void)worker;
    open_bank(j, &b, j->block);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t at[CJ_MAX_DIMS], rest = tile; /* tiles run along the columns first, then down, then over the other dimensions */
        at[last] = rest % j->tiles_col * j->tile_w;
        rest /= j->tiles_col;
        at[j->tile_dim] = rest % j->tiles_row * j->tile_h;
        rest /= j->tiles_row;
        for (int d = last - 1; d >= 0; d--) {
            if (d == j->tile_dim) continue;
            at[d] = rest % j->shape[d];
            rest /= j->shape[d];
        }
        const int64_t h = j->shape[j->tile_dim] - at[j->tile_dim] < j->tile_h ? j->shape[j->tile_dim] - at[j->tile_dim] : j->tile_h;
        const int64_t w = j->shape[last] - at[last] < j->tile_w ? j->shape[last] - at[last] : j->tile_w;
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0, n = pass == 0 ? p->n_in : j->n_stores; i < n; i++) {
                const int k = pass == 0 ? i : p->n_in + j->store[i];
                if (pass == 0 && j->kind[k] == CJ_EW_SCALAR) continue;
                char *x = j->args[k].data;
                for (int d = 0; d <= last; d++) x += at[d] * j->stride[k][d] * cj__elem_size(j->args[k].dtype);
                tile_argument(j, k, pass == 1, x, h, w, pass == 0 ? b.slot[k] : b.frame.at[j->store_from[i]]);
            }
            if (pass == 0) run_block(j, &b, (int)(h * w));
        }
    }
}

/* j->stride, j->shape and j->nd are set. */
static void run_job(cj_pool *pool, job *j)
{
    j->elem = j->p->compute == CJ_F32 ? 4 : 8;
    j->block = j->elem == 4 ? CJ_EW_BLOCK : CJ_EW_BLOCK / 2;
    j->numel = 1;
    for (int d = 0; d < j->nd; d++) j->numel *= j->shape[d];
    for (int k = 0; k < j->n_args; k++) j->kind[k] = (uint8_t)classify(j, k);
    j->tile_dim = j->nd > 1 ? find_tile(j) : -1;
    CJ_K(cj__ew_plan)(j);
    if (j->tile_dim < 0) {
        cj__parallel_for(pool, j->numel, GRAIN, run_linear, j);
        return;
    }
    j->tile_h = j->elem == 4 ? 32 : 16;
    j->tile_w = j->block / j->tile_h;
    j->tiles_row = (j->shape[j->tile_dim] + j->tile_h - 1) / j->tile_h;
    j->tiles_col = (j->shape[j->nd - 1] + j->tile_w - 1) / j->tile_w;
    int64_t tiles = j->tiles_row * j->tiles_col;
    for (int d = 0; d < j->nd - 1; d++)
        if (d != j->tile_dim) tiles *= j->shape[d];
    cj__parallel_for(pool, tiles, GRAIN / CJ_EW_BLOCK, run_tiles, j);
}

/* ---- entry points ------------------------------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void run_any(cj_pool *pool, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape,
                                              int *fault)
{
    if (CJ_K(cj__ew_run_small)(p, args, ndim, shape)) return;
    for (int d = 0; d < ndim; d++)
        if (shape[d] == 0) return;
    job j;
    j.p = p;
    j.args = args;
    j.fault = fault;
    j.n_args = p->n_in + p->n_out;
    collapse(&j, ndim, shape);
    run_job(pool, &j);
}

void CJ_K(cj__ew_run)(cj_pool *pool, const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape, int *fault)
{
    if (!CJ_K(cj__ew_run_one)(p, args, ndim, shape)) run_any(pool, p, args, ndim, shape, fault);
}

void CJ_K(cj__ew_span)(const cj_ew_prog *p, const cj_ew_arg *args, int64_t at, int64_t n)
{
    if (n <= 0) return;
    cj_ew_arg moved[CJ_EW_MAX_ARGS];
    int ignored = 0;
    job j;
    j.p = p;
    j.args = moved;
    j.fault = &ignored;
    j.n_args = p->n_in + p->n_out;
    j.nd = 1;
    j.shape[0] = n;
    for (int k = 0; k < j.n_args; k++) {
        moved[k].dtype = args[k].dtype;
        moved[k].data = (char *)args[k].data + at * args[k].stride[0] * cj__elem_size(args[k].dtype);
        j.stride[k][0] = args[k].stride[0];
    }
    run_job(NULL, &j);
}
