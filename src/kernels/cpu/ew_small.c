/* The elementwise engine (ew.h) for a few contiguous f32 elements, what most eager calls and the steps of small networks are: no plan, no blocks, no threads. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ew_job.h"

#define SMALL 256 /* elements up to which a program runs here */

static const uint8_t arity_of[CJ_EW_CODES] = {
#define X(name, n) [CJ_EW_##name] = n,
    CJ_EW_OPS(X)
#undef X
};

/* Vector by vector: for less than a group. */
static void run_few(const cj_ew_instr *in, float *d, const float *a, const float *b, const float *c, int n)
{
    const int arity = arity_of[in->code];
    int code = in->code;
    float s = (float)in->s;
    if (code == CJ_EW_POWS) {
        code = in->s == 0.0 ? CJ_EW_CONST : CJ_K(cj__ew_power)(in->s);
        if (code == CJ_EW_CONST) s = 1;
    }
    cj_ew_one_fn *const f = CJ_K(cj__ew_one)[code];
    const vf z = vf_zero(), immediate = vf_set1(s);
    for (int i = 0; i < n; i += CJ_VL) {
        const int m = n - i < CJ_VL ? n - i : CJ_VL;
        const vf x = arity > 0 ? vf_load_n(a + i, m) : z, y = arity > 1 ? vf_load_n(b + i, m) : z, w = arity > 2 ? vf_load_n(c + i, m) : z;
        vf_store_n(d + i, f(x, y, w, immediate), m);
    }
}

/* One instruction on n <= CJ_EW_BLOCK elements. */
static void run_instr(const cj_ew_instr *in, float *d, const float *a, const float *b, const float *c, int n)
{
    if (n < CJ_EW_GROUP) {
        run_few(in, d, a, b, c, n);
        return;
    }
    cj_ew_op op[CJ_EW_OPS_PER_INSTR + 1];
    cj_ew_emitter e = { .op = op, .a = -1, .b = -1 };
    cj_ew_frame f;
    const int arity = arity_of[in->code];
    f.at[0] = (char *)a;
    f.at[1] = (char *)b;
    f.at[2] = (char *)c;
    f.at[3] = (char *)d;
    CJ_K(cj__ew_emit)(&e, in, 0, arity > 1 && b == a ? 0 : 1, 2, 3);
    CJ_K(cj__ew_put)(&e, CJ_EW_STORE, 3, 0);
    CJ_K(cj__ew_put)(&e, CJ_EW_END, 0, 0);
    CJ_K(cj__ew_run_ops)(op, e.n, &f, 0, n);
}

void CJ_K(cj__ew_small)(cj_ew_code code, float *d, const float *a, const float *b, const float *c, double s, int n)
{
    run_instr(&(cj_ew_instr){ .code = (uint8_t)code, .s = s }, d, a, b, c, n);
}

/* A program of one instruction; false if it is none, or its arguments are not all contiguous, f32 and short. */
bool CJ_K(cj__ew_run_one)(const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape)
{
    if (p->n_instr != 1 || p->n_out != 1 || p->compute != CJ_F32 || p->out[0] != p->instr[0].dst) return false;
    const int out = p->n_in;
    int64_t n = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 1) continue;
        for (int k = 0; k <= out; k++)
            if (args[k].stride[d] != n) return false;
        n *= shape[d];
        if (n > CJ_EW_BLOCK) return false;
    }
    for (int k = 0; k <= out; k++)
        if (args[k].dtype != CJ_F32) return false;
    if (n == 0) return true;
    const cj_ew_instr *in = &p->instr[0]; /* operands beyond the arity name any register; nothing reads them */
    run_instr(in, args[out].data, args[in->a < out ? in->a : out].data, args[in->b < out ? in->b : out].data,
              args[in->c < out ? in->c : out].data, (int)n);
    return true;
}

/* The number of elements if every argument is contiguous f32 (or, an input, one value for all) and there are few; else -1.  Bit k of *scalars: input k. */
static int64_t count_small(const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape, uint32_t *scalars)
{
    if (p->compute != CJ_F32) return -1;
    int64_t n = 1;
    uint32_t scalar = 0, contiguous = 0; /* in some dimension of more than one element */
    const int n_args = p->n_in + p->n_out;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 1) continue;
        for (int k = 0; k < n_args; k++) {
            if (args[k].stride[d] == n) contiguous |= 1u << k;
            else if (args[k].stride[d] == 0) scalar |= 1u << k;
            else return -1;
        }
        n *= shape[d];
        if (n > SMALL) return -1;
    }
    if (scalar & contiguous || scalar >> p->n_in) return -1;
    for (int k = 0; k < n_args; k++)
        if (args[k].dtype != CJ_F32) return -1;
    *scalars = scalar;
    return n;
}

/* A program in the author's registers: each is a buffer, and every result is stored.  n_ops 0: not made yet. */
typedef struct small_program {
    const cj_ew_prog *p;
    cj_ew_op op[CJ_EW_MAX_OPS];
    int n_ops;
    _Alignas(64) float bank[CJ_EW_MAX_REGS][SMALL];
} small_program;

/* Its instructions on n elements, the inputs of which f says where they are; the results to `out`. */
static void run_registers(small_program *s, cj_ew_frame *f, int n, float *const *out)
{
    const cj_ew_prog *p = s->p;
    for (int r = p->n_in; r < p->n_regs; r++) f->at[r] = (char *)s->bank[r];
    if (n < CJ_EW_GROUP) {
        for (int i = 0; i < p->n_instr; i++) {
            const cj_ew_instr *in = &p->instr[i];
            const int arity = arity_of[in->code];
            run_few(in, (float *)f->at[in->dst], arity > 0 ? (const float *)f->at[in->a] : NULL,
                    arity > 1 ? (const float *)f->at[in->b] : NULL, arity > 2 ? (const float *)f->at[in->c] : NULL, n);
        }
    } else {
        cj_ew_emitter e = { .op = s->op, .a = -1, .b = -1 };
        for (int i = 0; i < p->n_instr && s->n_ops == 0; i++) {
            const cj_ew_instr *in = &p->instr[i];
            CJ_K(cj__ew_emit)(&e, in, in->a, in->b, in->c, in->dst);
            CJ_K(cj__ew_put)(&e, CJ_EW_STORE, in->dst, 0);
        }
        if (s->n_ops == 0) {
            CJ_K(cj__ew_put)(&e, CJ_EW_END, 0, 0);
            s->n_ops = e.n;
        }
        CJ_K(cj__ew_run_ops)(s->op, s->n_ops, f, 0, n);
    }
    /* An output that is an input as it came must be saved before another output may overwrite that input. */
    for (int o = 0; o < p->n_out; o++) {
        const int r = p->out[o];
        if (r < p->n_in && f->at[r] != (char *)s->bank[r]) f->at[r] = memcpy(s->bank[r], f->at[r], (size_t)n * 4);
    }
    for (int o = 0; o < p->n_out; o++) memcpy(out[o], f->at[p->out[o]], (size_t)n * 4);
}

static void run_program(const cj_ew_prog *p, const cj_ew_arg *args, int n, uint32_t scalars)
{
    small_program s;
    s.p = p, s.n_ops = 0;
    cj_ew_frame f;
    float *out[CJ_EW_MAX_ARGS];
    for (int k = 0; k < p->n_in; k++) {
        f.at[k] = args[k].data;
        if (!(scalars >> k & 1)) continue;
        const float value = *(const float *)args[k].data;
        for (int i = 0; i < n; i++) s.bank[k][i] = value;
        f.at[k] = (char *)s.bank[k];
    }
    for (int o = 0; o < p->n_out; o++) out[o] = args[p->n_in + o].data;
    run_registers(&s, &f, n, out);
}

/* One instruction, which stores to its output without a buffer. */
static void run_rows_one(const cj_ew_prog *p, float *const *at, const int64_t *row, int64_t rows, int64_t n)
{
    const cj_ew_instr *in = &p->instr[0]; /* operands beyond the arity name any register; nothing reads them */
    const int out = p->n_in, arity = arity_of[in->code];
    const int a = in->a < out ? in->a : out, b = in->b < out ? in->b : out, c = in->c < out ? in->c : out;
    cj_ew_op op[CJ_EW_OPS_PER_INSTR + 1];
    cj_ew_emitter e = { .op = op, .a = -1, .b = -1 };
    CJ_K(cj__ew_emit)(&e, in, a, arity > 1 ? b : CJ_EW_MAX_REGS, c, out);
    CJ_K(cj__ew_put)(&e, CJ_EW_STORE, out, 0);
    CJ_K(cj__ew_put)(&e, CJ_EW_END, 0, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j += CJ_EW_BLOCK) {
            const int count = (int)(n - j < CJ_EW_BLOCK ? n - j : CJ_EW_BLOCK);
            cj_ew_frame f;
            for (int k = 0; k <= out; k++) f.at[k] = (char *)(at[k] + i * row[k] + j);
            if (count >= CJ_EW_GROUP) CJ_K(cj__ew_run_ops)(op, e.n, &f, 0, count);
            else run_few(in, (float *)f.at[out], (const float *)f.at[a], (const float *)f.at[b], (const float *)f.at[c], count);
        }
}

void CJ_K(cj__ew_rows)(const cj_ew_prog *p, float *const *at, const int64_t *row, int64_t rows, int64_t n)
{
    if (p->n_instr == 1 && p->n_out == 1 && p->out[0] == p->instr[0].dst) {
        run_rows_one(p, at, row, rows, n);
        return;
    }
    small_program s;
    s.p = p, s.n_ops = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j += SMALL) {
            cj_ew_frame f;
            float *out[CJ_EW_MAX_ARGS];
            for (int k = 0; k < p->n_in; k++) f.at[k] = (char *)(at[k] + i * row[k] + j);
            for (int o = 0; o < p->n_out; o++) out[o] = at[p->n_in + o] + i * row[p->n_in + o] + j;
            run_registers(&s, &f, (int)(n - j < SMALL ? n - j : SMALL), out);
        }
}

/* False if there are too many elements or an argument is something else. */
bool CJ_K(cj__ew_run_small)(const cj_ew_prog *p, const cj_ew_arg *args, int ndim, const int64_t *shape)
{
    uint32_t scalars;
    const int64_t n = count_small(p, args, ndim, shape, &scalars);
    if (n > 0) run_program(p, args, (int)n, scalars);
    return n >= 0;
}
