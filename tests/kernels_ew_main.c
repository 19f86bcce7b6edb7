/* Tests of the elementwise engine and of simd_math.h, for every instruction-set level of this machine.
 *
 *   accuracy   every instruction against libm in f64, over a sweep of all exponents and special values, with a bound in ulp
 *   programs   random programs over random shapes, strides, broadcasts and dtypes against an interpreter that runs one element at a time;
 *              the whole memory of the outputs is compared, gaps and guards included
 *   threads    1, 2 and 3 threads give the same bits
 *   exact      the *_exact functions give the same bits on all levels
 *
 * Usage: kernels_ew [seed [level]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu.h"
#include "kernels_ew_isa.h"
#include "kernels_ew_reference.h"

extern cj_ew_run_fn cj__ew_run_avx512, cj__ew_run_avx2, cj__ew_run_neon, cj__ew_run_portable;
extern cj_ew_span_fn cj__ew_span_avx512, cj__ew_span_avx2, cj__ew_span_neon, cj__ew_span_portable;
extern void cj__convert_portable(cj_dtype xt, const void *x, cj_dtype yt, void *y, int64_t n);

typedef struct level {
    const char *name;
    cj_ew_run_fn *run;
    cj_ew_span_fn *span;
    const test_isa *isa;
} level;

static uint64_t rng_state;
static uint64_t rng(void)
{
    uint64_t z = rng_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static int below(int n) { return (int)(rng() % (uint64_t)n); }

static int failures;
#define FAIL(...)                                                                                                                          \
    do {                                                                                                                                   \
        if (++failures <= 20) printf("FAIL " __VA_ARGS__), printf("\n");                                                                   \
    } while (0)

static const char *const op_names[] = {
#define X(name, arity) #name,
    CJ_EW_OPS(X)
#undef X
};
static const int op_arity[] = {
#define X(name, arity) arity,
    CJ_EW_OPS(X)
#undef X
};

static void run_op(const level *l, cj_dtype t, cj_ew_code code, double s, const void *a, const void *b, const void *c, void *y, int64_t n,
                   int *fault)
{
    cj_ew_prog p = { .compute = t, .n_in = 3, .n_out = 1, .n_instr = 1, .n_regs = 4, .out = { 3 } };
    p.instr[0] = (cj_ew_instr){ .code = (uint8_t)code, .dst = 3, .a = 0, .b = 1, .c = 2, .s = s };
    cj_ew_arg args[4] = { { (void *)a, t, { 1 } }, { (void *)b, t, { 1 } }, { (void *)c, t, { 1 } }, { y, t, { 1 } } };
    l->run(NULL, &p, args, 1, &n, fault);
}

/* ---- accuracy ----------------------------------------------------------------------------------------------------------------------------- */

static double ulp_of(double x) /* of f32 */
{
    int e;
    x = fabs(x);
    if (x < 0x1p-126) return 0x1p-149;
    frexp(x, &e);
    return ldexp(1, e - 24);
}

enum { CASES = sizeof cases / sizeof *cases, SPECIALS = 64 };

static float specials[SPECIALS];
static int n_specials;
static void make_specials(void)
{
    static const float s[] = { 0.0f,        1.0f,      0.5f,      2.0f,    3.0f,       1.5f,        2.5f,   1e-45f, 1e-40f,
                               0x1p-126f,   0x1p-127f, 1e-30f,    1e-8f,   0x1p-24f,   0x1p-12f,    0.1f,   0.92f,  0.34657359f,
                               0.69314718f, 5.5f,      5.64f,     10.0f,   14.5f,      88.72283f,   88.73f, 103.0f, 104.5f,
                               1e4f,        1e5f,      100001.0f, 0x1p23f, 8388607.5f, 16777217.0f, 0x1p31f };
    for (int i = 0; i < (int)(sizeof s / sizeof *s) - 4; i++) specials[n_specials++] = s[i], specials[n_specials++] = -s[i];
    const float more[] = { INFINITY, -INFINITY, NAN, 3.4028235e38f };
    for (int i = 0; i < 4; i++) specials[n_specials++] = more[i];
}

static float any_float(double range)
{
    switch (below(8)) {
    case 0: return range ? (float)(range * ((double)below(2001) - 1000) / 1000) : specials[below(n_specials)];
    case 1:
    case 2: return (float)(range ? fmin(range, 8) : 8) * (float)((double)rng() * 0x1p-63 - 1);
    case 3: return (float)(range ? range : 100) * (float)((double)rng() * 0x1p-63 - 1);
    default: {
        uint32_t u = (uint32_t)rng();
        float f;
        memcpy(&f, &u, 4);
        return range && !(fabsf(f) <= range) ? (float)range : f;
    }
    }
}

static bool same_f32(float a, float b) { return memcmp(&a, &b, 4) == 0 || (a != a && b != b); }

static void check_accuracy(const level *l, bool verbose, int rounds)
{
    enum { N = 1000 };
    static float a[N], b[N], y[N];
    for (int k = 0; k < CASES; k++) {
        const accuracy *t = &cases[k];
        double worst = 0;
        float worst_a = 0, worst_b = 0;
        const bool binary = op_arity[t->code] == 2, gradient = t->floor > 0;
        for (int r = 0; r < rounds; r++) {
            for (int i = 0; i < N; i++) {
                if (r == 0 && !t->range && i < n_specials) a[i] = specials[i];
                else if (!binary && !t->range && r % 2) { /* sweep through all exponents */
                    uint32_t u = (uint32_t)(((uint64_t)r * N + (uint64_t)i) * 0xffffffffu / ((uint64_t)rounds * N)) + (uint32_t)below(999);
                    memcpy(&a[i], &u, 4);
                } else a[i] = any_float(t->range);
                b[i] = gradient ? (float)((double)rng() * 0x1p-63 - 1) : any_float(t->range);
                if (t->code == CJ_EW_POW && below(2))
                    b[i] = (float)(88 * ((double)rng() * 0x1p-63 - 1)) / (fabsf(logf(fabsf(a[i]))) + 1e-3f);
                if (t->code == CJ_EW_BCE_LOGITS) b[i] = fabsf(b[i]);
            }
            if (r == 1 && binary && !t->range)
                for (int i = 0; i < N; i++) a[i] = specials[below(n_specials)], b[i] = gradient ? b[i] : specials[below(n_specials)];
            run_op(l, CJ_F32, t->code, 0, a, b, b, y, N - r % 17, NULL);
            for (int i = 0; i < N - r % 17; i++) {
                double want = t->ref(a[i], b[i]);
                float f = (float)want;
                if (same_f32(f, y[i])) continue;
                if (f == 0 && y[i] == 0 &&
                    !(t->code <= CJ_EW_ABS || t->code == CJ_EW_SQRT || t->code == CJ_EW_POW || t->code == CJ_EW_SIN ||
                      t->code == CJ_EW_TANH))
                    continue;
                double err = fabs(y[i] - want);
                if (fabsf(f) == INFINITY && fabs(y[i]) >= 3.4028e38 && fabs(want) < INFINITY && (y[i] > 0) == (f > 0))
                    err = fabs(fabs(want) - 0x1p128), err = err < fabs(y[i] - want) ? err : fabs(y[i] - want);
                if (fabsf(y[i]) == INFINITY && fabs(want) > 3.40282e38 && fabsf(f) < INFINITY && (y[i] > 0) == (f > 0))
                    err = 0x1p128 - fabs(want);
                double floor = t->floor * (binary ? fabs(b[i]) : 1);
                if (t->code == CJ_EW_BCE_LOGITS) floor = fabs(a[i]);
                if (floor > 0 && !binary) floor = fmin(floor, fabs(a[i]) * 0.5);
                err = err != err || err == INFINITY ? 1e30 : err / ulp_of(fmax(fabs(want), floor));
                if (f == 0 && y[i] == 0 && signbit(f) != signbit(y[i])) err = 1e9;
                if (err > worst) worst = err, worst_a = a[i], worst_b = b[i];
            }
        }
        if (verbose && worst > 0.5) printf("  %-14s max %.3f ulp at %.9g, %.9g\n", op_names[t->code], worst, worst_a, worst_b);
        if (worst > t->ulp) {
            float out;
            run_op(l, CJ_F32, t->code, 0, &worst_a, &worst_b, &worst_b, &out, 1, NULL);
            FAIL("%s %s: %.3f ulp at a = %.9g (%a), b = %.9g: got %.9g, want %.17g", l->name, op_names[t->code], worst, worst_a, worst_a,
                 worst_b, out, t->ref(worst_a, worst_b));
        }
    }
}

/* GELU and its slope where they vanish: relative to the value, which falls to 2e-8, until the tables' last interval; then absolute. */
static void check_gelu_tail(const level *l)
{
    enum { N = 5001 };
    static float x[N], one[N], y[N];
    static const struct {
        cj_ew_code code;
        double (*ref)(double, double);
        float end;
    } tail[] = { { CJ_EW_GELU, r_gelu, -5.8f }, { CJ_EW_GELU_BWD, r_gelu_bwd, -6.09f } };
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++) x[i] = -2 - 0.001f * (float)i, one[i] = 1;
        run_op(l, CJ_F32, tail[k].code, 0, x, one, one, y, N, NULL);
        for (int i = 0; i < N; i++) {
            const double want = tail[k].ref(x[i], 1), most = x[i] > tail[k].end ? 5e-7 * exp(-1.3 * (x[i] + 2)) * fabs(want) : 1.2e-8;
            if (fabs(y[i] - want) <= most) continue;
            FAIL("%s %s: %.9g at %.9g, want %.9g", l->name, op_names[tail[k].code], y[i], x[i], want);
            break;
        }
    }
}

/* The immediates, WHERE and FMA against their register forms; POWS against its table. */
static void check_immediates(const level *l)
{
    static const struct {
        cj_ew_code with_s, plain;
    } pairs[] = { { CJ_EW_ADDS, CJ_EW_ADD }, { CJ_EW_MULS, CJ_EW_MUL }, { CJ_EW_MAXS, CJ_EW_MAX }, { CJ_EW_MINS, CJ_EW_MIN },
                  { CJ_EW_EQS, CJ_EW_EQ },   { CJ_EW_NES, CJ_EW_NE },   { CJ_EW_LTS, CJ_EW_LT },   { CJ_EW_LES, CJ_EW_LE },
                  { CJ_EW_GTS, CJ_EW_GT },   { CJ_EW_GES, CJ_EW_GE },   { CJ_EW_POWS, CJ_EW_POW } };
    enum { N = 77 };
    float a[N], b[N], y[N], z[N];
    for (int r = 0; r < 300; r++) {
        const int k = r % 11;
        double s = r % 3 ? any_float(0) : (double)below(7) * 0.5 - 1;
        for (int i = 0; i < N; i++) a[i] = r % 2 && i % 3 == 0 ? (float)s : any_float(0), b[i] = (float)s;
        run_op(l, CJ_F32, pairs[k].with_s, s, a, b, b, y, N, NULL);
        run_op(l, CJ_F32, pairs[k].plain, 0, a, b, b, z, N, NULL);
        for (int i = 0; i < N; i++) {
            float want = z[i];
            if (pairs[k].with_s == CJ_EW_POWS) {
                const float x = a[i];
                if (s == 2) want = x * x;
                if (s == 3) want = x * x * x;
                if (s == 1) want = x;
                if (s == -2) want = 1 / (x * x);
                if (s == 0.5) want = sqrtf(x);
                if (s == -1) want = 1 / x;
                if (s == -0.5) want = 1 / sqrtf(x);
                if (s == 0) want = 1;
            }
            if (!same_f32(y[i], want)) FAIL("%s %s(%a, s = %a) = %a, want %a", l->name, op_names[pairs[k].with_s], a[i], s, y[i], want);
        }
        run_op(l, CJ_F32, CJ_EW_FMA, 0, a, b, z, y, N, NULL);
        for (int i = 0; i < N; i++)
            if (!same_f32(y[i], fmaf(a[i], b[i], z[i]))) FAIL("%s FMA(%a, %a, %a) = %a", l->name, a[i], b[i], z[i], y[i]);
        run_op(l, CJ_F32, CJ_EW_WHERE, 0, a, b, z, y, N, NULL);
        for (int i = 0; i < N; i++)
            if (!same_f32(y[i], a[i] != 0 ? b[i] : z[i])) FAIL("%s WHERE", l->name);
        run_op(l, CJ_F32, CJ_EW_CONST, s, a, b, z, y, N, NULL);
        for (int i = 0; i < N; i++)
            if (!same_f32(y[i], (float)s)) FAIL("%s CONST", l->name);
        run_op(l, CJ_F32, CJ_EW_FLOORDIV, 0, a, b, z, y, N, NULL);
        for (int i = 0; i < N; i++) { /* the quotient in f64 is exact enough away from integers */
            double q = (double)a[i] / b[i];
            if (fabs(q) < 1e6 && fabs(q - rint(q)) > 1e-6 && b[i] != 0 && fabsf(b[i]) < 1e30f && y[i] != (float)floor(q))
                FAIL("%s FLOORDIV(%a, %a) = %a", l->name, a[i], b[i], y[i]);
        }
    }
    static const double five[][3] = { { 7, 2, 3 }, { -7, 2, -4 }, { 7, -2, -4 }, { -7, -2, 3 }, { 1, 0.1, 9 }, { 6, 3, 2 } };
    for (int i = 0; i < 6; i++) {
        float x = (float)five[i][0], d = (float)five[i][1], q;
        run_op(l, CJ_F32, CJ_EW_FLOORDIV, 0, &x, &d, &d, &q, 1, NULL);
        if (q != (float)five[i][2]) FAIL("%s %g // %g = %g", l->name, x, d, q);
    }
}

static void check_int(const level *l)
{
    static const int64_t v[] = { 0, 1, -1, 2, -2, 7, -7, INT64_MAX, INT64_MIN, INT64_MIN + 1, 1000003 };
    enum { V = sizeof v / sizeof *v };
    for (int i = 0; i < V; i++)
        for (int j = 0; j < V; j++) {
            const int64_t a = v[i], b = v[j];
            int64_t got[6];
            int fault[6] = { 0 };
            static const cj_ew_code codes[6] = { CJ_EW_DIV, CJ_EW_FLOORDIV, CJ_EW_REMAINDER, CJ_EW_FMOD, CJ_EW_MUL, CJ_EW_SUB };
            for (int k = 0; k < 6; k++) run_op(l, CJ_I64, codes[k], 0, &a, &b, &b, &got[k], 1, &fault[k]);
            if (b == 0) {
                for (int k = 0; k < 4; k++)
                    if (!fault[k] || got[k]) FAIL("%s %s by zero", l->name, op_names[codes[k]]);
            } else {
                const __int128 q = (__int128)a / b, m = (__int128)a % b, down = m != 0 && (m < 0) != (b < 0);
                const int64_t want[4] = { (int64_t)q, (int64_t)(q - down), (int64_t)(m + (down ? b : 0)), (int64_t)m };
                for (int k = 0; k < 4; k++)
                    if (fault[k] || got[k] != want[k])
                        FAIL("%s %s(%lld, %lld) = %lld", l->name, op_names[codes[k]], (long long)a, (long long)b, (long long)got[k]);
            }
            if (got[4] != (int64_t)((uint64_t)a * (uint64_t)b) || got[5] != (int64_t)((uint64_t)a - (uint64_t)b))
                FAIL("%s i64 wrap", l->name);
        }
}

static void check_f64(const level *l)
{
    for (int k = 0; k < CASES; k++)
        for (int r = 0; r < 200; r++) {
            double a = any_float((float)(cases[k].range ? cases[k].range : 50)), b = any_float(50), y;
            run_op(l, CJ_F64, cases[k].code, 0, &a, &b, &b, &y, 1, NULL);
            double want = cases[k].ref(a, b);
            if (cases[k].code == CJ_EW_REMAINDER) continue;
            if (!(y == want || (y != y && want != want) ||
                  fabs(y - want) <= 1e-12 * (fabs(want) + fabs(b) * (op_arity[cases[k].code] > 1) + (cases[k].floor > 0))))
                FAIL("%s f64 %s(%.17g, %.17g) = %.17g, want %.17g", l->name, op_names[cases[k].code], a, b, y, want);
        }
}

/* ---- random programs ------------------------------------------------------------------------------------------------------------------------ */

enum { MAX_ELEMENTS = 300000, GUARD = 256 };

typedef struct tensor {
    char *memory, *before; /* guards included */
    size_t bytes;
    char *data;
} tensor;

static void random_values(cj_dtype t, char *p, int64_t n, bool tame)
{
    for (int64_t i = 0; i < n; i++) {
        float f = tame || below(20) ? (float)((double)rng() * 0x1p-60 - 8) : any_float(0);
        int64_t v = (int64_t)(rng() % 23) - 11;
        switch (t) {
        case CJ_F64: ((double *)p)[i] = f; break;
        case CJ_I64: ((int64_t *)p)[i] = below(10) ? v : (int64_t)rng(); break;
        case CJ_I32: ((int32_t *)p)[i] = (int32_t)v; break;
        case CJ_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
        case CJ_BOOL: ((uint8_t *)p)[i] = v > 0; break;
        default: cj__convert_portable(CJ_F32, &f, t, p + i * cj__elem_size(t), 1);
        }
    }
}

/* One element of the program, instruction by instruction, through the engine itself on single values. */
static void interpret(const level *l, const cj_ew_prog *p, const cj_ew_arg *args, const int64_t *offset, const char *const *in_data,
                      int *fault)
{
    uint64_t reg[CJ_EW_MAX_REGS] = { 0 }, r;
    for (int k = 0; k < p->n_in; k++)
        cj__convert_portable(args[k].dtype, in_data[k] + offset[k] * cj__elem_size(args[k].dtype), p->compute, &reg[k], 1);
    for (int i = 0; i < p->n_instr; i++) {
        const cj_ew_instr *s = &p->instr[i];
        run_op(l, p->compute, (cj_ew_code)s->code, s->s, &reg[s->a], &reg[s->b], &reg[s->c], &r, 1, fault);
        reg[s->dst] = r;
    }
    for (int o = 0; o < p->n_out; o++) {
        const cj_ew_arg *y = &args[p->n_in + o];
        char *to = (char *)y->data + offset[p->n_in + o] * cj__elem_size(y->dtype);
        if (p->compute == CJ_I64 && y->dtype == CJ_I32) *(int32_t *)to = (int32_t)(uint32_t)reg[p->out[o]];
        else if (p->compute == CJ_I64 && y->dtype == CJ_U8) *(uint8_t *)to = (uint8_t)reg[p->out[o]];
        else cj__convert_portable(p->compute, &reg[p->out[o]], y->dtype, to, 1);
    }
}

static cj_dtype pick_dtype(cj_dtype compute)
{
    static const cj_dtype ints[] = { CJ_I64, CJ_I32, CJ_U8, CJ_BOOL }, floats[] = { CJ_F32, CJ_BF16, CJ_F16, CJ_F64, CJ_BOOL, CJ_I64 };
    if (below(2)) return compute;
    return compute == CJ_I64 ? ints[below(4)] : floats[below(6)];
}

/* Strides of a view of a fresh tensor with some layout; *span is the number of elements of its memory, *start the first one's index. */
static void pick_layout(int nd, const int64_t *shape, bool output, int64_t *stride, int64_t *span, int64_t *start)
{
    int order[CJ_MAX_DIMS], layout = below(output ? 4 : 8);
    int64_t n = 1;
    *start = 0;
    for (int d = 0; d < nd; d++) order[d] = nd - 1 - d; /* innermost first */
    if (layout == 1)
        for (int d = 0; d < nd; d++) {
            int e = below(nd), t = order[d];
            order[d] = order[e];
            order[e] = t;
        }
    for (int i = 0; i < nd; i++) {
        const int d = order[i];
        int64_t gap = layout == 2 && below(3) == 0 ? 1 + below(3) : 1;
        stride[d] = n * gap;
        if (!output && (layout == 4 || (layout == 5 && d < nd - 1) || (layout == 6 && d == nd - 1) || (layout == 7 && below(2)))) {
            stride[d] = 0;
            continue;
        }
        n = n * gap * shape[d] + (layout == 3 && below(2) ? 3 : 0);
    }
    if (layout == 2 && below(3) == 0)
        for (int d = 0; d < nd; d++)
            if (below(2)) *start += stride[d] * (shape[d] - 1), stride[d] = -stride[d]; /* flipped */
    *span = n;
}

static void equal_or_fail(const level *l, const char *what, const cj_ew_prog *p, cj_dtype t, const char *got, const char *want,
                          size_t bytes, int trial)
{
    if (memcmp(got, want, bytes) == 0) return;
    for (size_t i = 0, n = bytes / (size_t)cj__elem_size(t); i < n; i++) {
        const char *g = got + i * (size_t)cj__elem_size(t), *w = want + i * (size_t)cj__elem_size(t);
        if (memcmp(g, w, (size_t)cj__elem_size(t)) == 0) continue;
        double x, y;
        cj__convert_portable(t, g, CJ_F64, &x, 1);
        cj__convert_portable(t, w, CJ_F64, &y, 1);
        if ((t == CJ_F32 || t == CJ_F64 || t == CJ_BF16 || t == CJ_F16) && x != x && y != y) continue;
        FAIL("%s program %d (%s): element %zu: got %.9g, want %.9g; compute %d, %d in, %d out, %d instr", l->name, trial, what, i, x, y,
             p->compute, p->n_in, p->n_out, p->n_instr);
        for (int k = 0; k < p->n_instr && failures < 5; k++)
            printf("    r%d = %s r%d r%d r%d s=%g\n", p->instr[k].dst, op_names[p->instr[k].code], p->instr[k].a, p->instr[k].b,
                   p->instr[k].c, p->instr[k].s);
        return;
    }
}

static bool usable(cj_ew_code c, cj_dtype compute) { return compute != CJ_I64 || (op_arity[c] >= 0 && c != CJ_EW_CONST); }

static void check_program(const level *l, cj_pool *const *pools, int n_pools, int trial)
{
    static const cj_dtype computes[] = { CJ_F32, CJ_F32, CJ_F32, CJ_F64, CJ_I64 };
    cj_ew_prog p = { .compute = computes[below(5)], .n_in = 1 + below(4), .n_out = 1 + below(3), .n_instr = below(9) };
    const bool chains = below(2); /* made of what the engine fuses */
    if (chains) p.n_instr = 1 + below(20);
    p.n_regs = p.n_in + 1 + below(5);
    int ready = p.n_in; /* registers 0 … ready-1 hold a value */
    for (int i = 0; i < p.n_instr; i++) {
        cj_ew_instr *s = &p.instr[i];
        static const uint8_t fusable[] = { CJ_EW_ADD,         CJ_EW_SUB,     CJ_EW_MUL,      CJ_EW_ADDS,  CJ_EW_MULS, CJ_EW_RELU,
                                           CJ_EW_GELU,        CJ_EW_SIGMOID, CJ_EW_GELU_BWD, CJ_EW_FMA,   CJ_EW_DIV,  CJ_EW_WHERE,
                                           CJ_EW_SIGMOID_BWD, CJ_EW_LT,      CJ_EW_CONST,    CJ_EW_SQUARE };
        do s->code = (uint8_t)(chains ? fusable[below(16)] : below(CJ_EW_CODES));
        while (!usable((cj_ew_code)s->code, p.compute));
        s->a = (uint8_t)below(ready);
        s->b = (uint8_t)below(ready);
        s->c = (uint8_t)below(ready);
        s->s = below(2) ? (double)(below(9) - 3) : (double)rng() * 0x1p-62 - 2;
        s->dst = (uint8_t)(ready < p.n_regs && (ready == p.n_in || below(2)) ? ready++
                           : ready > p.n_in                                  ? p.n_in + below(ready - p.n_in)
                                                                             : 0);
    }
    for (int o = 0; o < p.n_out; o++) p.out[o] = (uint8_t)below(ready);

    int64_t shape[CJ_MAX_DIMS];
    int nd = below(5);
    const bool large = trial % 40 == 7;
    for (int d = 0; d < nd; d++)
        shape[d] = below(10) == 0     ? 1
                   : large && nd <= 2 ? 100 + below(300)
                   : nd <= 1          ? 1 + below(trial % 8 == 3 ? 12000 : 3000)
                   : nd == 2          ? 1 + below(70)
                                      : 1 + below(13);
    if (below(60) == 0 && nd) shape[below(nd)] = 0;
    if (below(4) == 0 && nd >= 2) shape[nd - 1] = 1 + below(12);
    int64_t numel = 1;
    for (int d = 0; d < nd; d++) numel *= shape[d];

    const int n_args = p.n_in + p.n_out;
    cj_ew_arg args[CJ_EW_MAX_ARGS];
    tensor t[CJ_EW_MAX_ARGS];
    int same_as[CJ_EW_MAX_ARGS];
    const bool in_place = below(4) == 0;
    for (int k = 0; k < n_args; k++) {
        int64_t span, start;
        same_as[k] = -1;
        args[k].dtype = pick_dtype(p.compute);
        pick_layout(nd, shape, k >= p.n_in || in_place, args[k].stride, &span, &start);
        if (in_place && k >= p.n_in && k - p.n_in < p.n_in) { /* output o over input o */
            same_as[k] = k - p.n_in;
            args[k] = args[same_as[k]];
            t[k] = t[same_as[k]];
            continue;
        }
        const size_t elem = (size_t)cj__elem_size(args[k].dtype);
        t[k].bytes = (size_t)span * elem + 2 * GUARD;
        if (posix_memalign((void **)&t[k].memory, 64, t[k].bytes + 64) || posix_memalign((void **)&t[k].before, 64, t[k].bytes + 64))
            exit(2);
        memset(t[k].memory, 0x5a, t[k].bytes);
        t[k].data = t[k].memory + GUARD;
        random_values(args[k].dtype, t[k].data, span, below(3) > 0);
        args[k].data = t[k].data + (size_t)start * elem;
        memcpy(t[k].before, t[k].memory, t[k].bytes);
    }

    /* What the interpreter makes of it: inputs are read from the copies. */
    const char *in_data[CJ_EW_MAX_ARGS];
    int64_t index[CJ_MAX_DIMS] = { 0 };
    int want_fault = 0;
    for (int k = 0; k < p.n_in; k++) in_data[k] = t[k].before + ((char *)args[k].data - t[k].memory);
    for (int64_t e = 0; e < numel; e++) {
        int64_t offset[CJ_EW_MAX_ARGS], rest = e;
        for (int d = nd - 1; d >= 0; d--) index[d] = rest % shape[d], rest /= shape[d];
        for (int k = 0; k < n_args; k++) {
            offset[k] = 0;
            for (int d = 0; d < nd; d++) offset[k] += index[d] * args[k].stride[d];
        }
        interpret(l, &p, args, offset, in_data, &want_fault);
    }
    char *want[CJ_EW_MAX_ARGS];
    for (int k = 0; k < n_args; k++) {
        if (same_as[k] >= 0) continue;
        want[k] = malloc(t[k].bytes);
        memcpy(want[k], t[k].memory, t[k].bytes);
    }
    for (int q = 0; q < n_pools; q++) {
        int fault = 0;
        for (int k = 0; k < n_args; k++)
            if (same_as[k] < 0) memcpy(t[k].memory, t[k].before, t[k].bytes);
        l->run(pools[q], &p, args, nd, shape, &fault);
        for (int k = 0; k < n_args; k++)
            if (same_as[k] < 0)
                equal_or_fail(l, in_place ? "in place" : "strided", &p, args[k].dtype, t[k].memory, want[k], t[k].bytes, trial);
        if (fault != want_fault && numel > 0) FAIL("%s program %d: fault %d, want %d", l->name, trial, fault, want_fault);
    }
    for (int k = 0; k < n_args; k++)
        if (same_as[k] < 0) free(t[k].memory), free(t[k].before), free(want[k]);
}

/* cj__ew_span on pieces of all lengths against cj__ew_run on the whole. */
static void check_span(const level *l)
{
    enum { N = 5000 };
    static float x[N], b[N], y[N], z[N];
    static uint16_t h[N];
    float one = 0.75f;
    for (int i = 0; i < N; i++) x[i] = any_float(20), b[i] = any_float(20), h[i] = (uint16_t)(0x3f00 + i % 97);
    cj_ew_prog p = { .compute = CJ_F32, .n_in = 4, .n_out = 1, .n_instr = 4, .n_regs = 6, .out = { 5 } };
    p.instr[0] = (cj_ew_instr){ .code = CJ_EW_FMA, .dst = 4, .a = 0, .b = 2, .c = 1 };
    p.instr[1] = (cj_ew_instr){ .code = CJ_EW_GELU, .dst = 4, .a = 4 };
    p.instr[2] = (cj_ew_instr){ .code = CJ_EW_MUL, .dst = 5, .a = 4, .b = 3 };
    p.instr[3] = (cj_ew_instr){ .code = CJ_EW_ADD, .dst = 5, .a = 5, .b = 0 };
    cj_ew_arg args[5] = {
        { x, CJ_F32, { 1 } }, { b, CJ_F32, { 1 } }, { &one, CJ_F32, { 0 } }, { h, CJ_BF16, { 1 } }, { y, CJ_F32, { 1 } }
    };
    int64_t n = N;
    l->run(NULL, &p, args, 1, &n, NULL);
    args[4].data = z;
    for (int64_t at = 0; at < N;) {
        int64_t m = 1 + below(at % 3 ? 40 : 2500);
        if (m > N - at) m = N - at;
        l->span(&p, args, at, m);
        at += m;
    }
    if (memcmp(y, z, sizeof y)) FAIL("%s span differs from run", l->name);
}

/* Long programs may run on more vectors at a time: the whole against pieces too short for that, which check_program holds against single values. */
static void check_long(const level *l)
{
    enum { MOST = 15000, ARGS = 7 };
    static const uint8_t common[] = {
        CJ_EW_NEG,         CJ_EW_ABS,
        CJ_EW_EXP,         CJ_EW_LOG,
        CJ_EW_SQRT,        CJ_EW_RSQRT,
        CJ_EW_RECIP,       CJ_EW_SQUARE,
        CJ_EW_POWS,        CJ_EW_TANH,
        CJ_EW_RELU,        CJ_EW_NOT,
        CJ_EW_SILU,        CJ_EW_GELU,
        CJ_EW_ADDS,        CJ_EW_MULS,
        CJ_EW_MAXS,        CJ_EW_MINS,
        CJ_EW_EQS,         CJ_EW_NES,
        CJ_EW_LTS,         CJ_EW_LES,
        CJ_EW_GTS,         CJ_EW_GES,
        CJ_EW_DIV,         CJ_EW_MAX,
        CJ_EW_MIN,         CJ_EW_EQ,
        CJ_EW_NE,          CJ_EW_LT,
        CJ_EW_LE,          CJ_EW_GT,
        CJ_EW_GE,          CJ_EW_AND,
        CJ_EW_OR,          CJ_EW_ADD,
        CJ_EW_SUB,         CJ_EW_MUL,
        CJ_EW_WHERE,       CJ_EW_FMA,
        CJ_EW_COPY,        CJ_EW_CONST,
        CJ_EW_SIGMOID,     CJ_EW_GELU_TANH,
        CJ_EW_GELU_BWD,    CJ_EW_GELU_TANH_BWD,
        CJ_EW_SILU_BWD,    CJ_EW_TANH_BWD,
        CJ_EW_SIGMOID_BWD, CJ_EW_RELU_BWD,
    };
    static const double powers[] = { 2, 3, 1, 0, 0.5, -1, -0.5, -2 };
    static float data[2][ARGS][MOST];
    for (int trial = 0; trial < 1500; trial++) {
        cj_ew_prog p = { .compute = CJ_F32, .n_in = 1 + below(4), .n_out = 1 + below(3), .n_instr = 1 + below(16) };
        const bool in_place = below(4) == 0;
        p.n_regs = p.n_in + 1 + below(6);
        int ready = p.n_in;
        for (int i = 0; i < p.n_instr; i++) {
            cj_ew_instr *s = &p.instr[i];
            s->code = common[below((int)sizeof common)];
            s->a = (uint8_t)below(ready), s->b = (uint8_t)below(ready), s->c = (uint8_t)below(ready);
            s->s = s->code == CJ_EW_POWS ? powers[below(8)] : (double)rng() * 0x1p-62 - 2;
            s->dst = (uint8_t)(ready < p.n_regs && (ready == p.n_in || below(2)) ? ready++ : p.n_in + below(ready - p.n_in));
        }
        for (int o = 0; o < p.n_out; o++) p.out[o] = (uint8_t)below(ready);
        const int64_t n = 8000 + below(MOST - 8000);
        cj_ew_arg args[2][ARGS];
        for (int k = 0; k < p.n_in; k++)
            random_values(CJ_F32, (char *)data[0][k], n, below(3) > 0), memcpy(data[1][k], data[0][k], sizeof data[0][k]);
        for (int k = 0; k < p.n_in + p.n_out; k++) {
            const int64_t stride = k < p.n_in && !in_place && below(6) == 0 ? 0 : 1;
            const int lies = in_place && k >= p.n_in && k - p.n_in < p.n_in ? k - p.n_in : k;
            for (int q = 0; q < 2; q++) args[q][k] = (cj_ew_arg){ data[q][lies], CJ_F32, { stride } };
        }
        l->run(NULL, &p, args[0], 1, &n, NULL);
        for (int64_t at = 0, m; at < n; at += m) {
            m = 1 + below(5000);
            if (m > n - at) m = n - at;
            l->span(&p, args[1], at, m);
        }
        for (int k = p.n_in; k < p.n_in + p.n_out; k++)
            equal_or_fail(l, "long", &p, CJ_F32, args[0][k].data, args[1][k].data, (size_t)n * 4, trial);
    }
}

/* Large outputs, written past the caches, on several threads. */
static void check_large(const level *l, cj_pool *const *pools, int n_pools)
{
    const int64_t n = 5000011;
    float *x, *y[4];
    if (posix_memalign((void **)&x, 64, (size_t)n * 4)) exit(2);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((double)rng() * 0x1p-60 - 8);
    cj_ew_prog p = { .compute = CJ_F32, .n_in = 2, .n_out = 1, .n_instr = 3, .n_regs = 4, .out = { 3 } };
    p.instr[0] = (cj_ew_instr){ .code = CJ_EW_MULS, .dst = 2, .a = 0, .s = 1.25 };
    p.instr[1] = (cj_ew_instr){ .code = CJ_EW_GELU, .dst = 2, .a = 2 };
    p.instr[2] = (cj_ew_instr){ .code = CJ_EW_ADD, .dst = 3, .a = 2, .b = 1 };
    float half = 0.5f;
    for (int q = 0; q < n_pools; q++) {
        if (posix_memalign((void **)&y[q], 64, (size_t)n * 4 + 64)) exit(2);
        memset(y[q] + n, 0x77, 64);
        cj_ew_arg args[3] = { { x, CJ_F32, { 1 } }, { &half, CJ_F32, { 0 } }, { y[q], CJ_F32, { 1 } } };
        l->run(pools[q], &p, args, 1, &n, NULL);
        if (memcmp(y[q], y[0], (size_t)n * 4)) FAIL("%s large: thread counts differ", l->name);
        for (int i = 0; i < 64; i++)
            if (((unsigned char *)(y[q] + n))[i] != 0x77) FAIL("%s large: wrote past the end", l->name);
    }
    for (int64_t i = 0; i < n; i += 1 + below(5000)) {
        double a = 1.25 * x[i], want = a * 0.5 * erfc(-a * 0.70710678118654752440) + 0.5;
        if (fabs(y[0][i] - want) > 1e-5) FAIL("%s large: element %lld", l->name, (long long)i);
    }
    for (int q = 0; q < n_pools; q++) free(y[q]);
    free(x);
}

/* ---- the vector layer ------------------------------------------------------------------------------------------------------------------------ */

static void check_exact(const level *levels, int n)
{
    static const char *const names[TEST_EXACT] = { "log_exact", "exp_exact", "sin_2pi_exact", "cos_2pi_exact", "fma_exact" };
    double worst[TEST_EXACT] = { 0 };
    for (int r = 0; r < 40000; r++) {
        float x[16], u[16];
        for (int i = 0; i < 16; i++) x[i] = any_float(0), u[i] = (float)(rng() >> 40) * 0x1p-24f;
        if (r == 0) u[0] = 0, u[1] = 0.25f, u[2] = 0.5f, u[3] = 0.75f, u[4] = 0x1p-24f, u[5] = 1 - 0x1p-24f;
        for (int f = 0; f < TEST_EXACT; f++) {
            float y[4][16];
            const float *in = f == 2 || f == 3 || (f == 0 && r % 2) ? u : x;
            for (int q = 0; q < n; q++) {
                for (int i = 0; i < 16; i += levels[q].isa->lanes) levels[q].isa->exact[f](in + i, y[q] + i);
                for (int i = 0; i < 16; i++)
                    if (!same_f32(y[q][i], y[0][i]))
                        FAIL("%s(%a): %s gives %a, %s %a", names[f], in[i], levels[q].name, y[q][i], levels[0].name, y[0][i]);
            }
            for (int i = 0; i < 16; i++) {
                const double a = in[i], turn = 6.283185307179586476925;
                double want = f == 0   ? log(a)
                              : f == 1 ? exp(a)
                              : f == 2 ? sin(turn * a)
                              : f == 3 ? cos(turn * a)
                                       : (double)fmaf(in[i], in[i], 0.1f);
                if (f == 2 || f == 3) want = fabs(want) < 1e-15 ? 0 : want;
                if (same_f32((float)want, y[0][i]) || (want == 0 && y[0][i] == 0) || fabs(want) > 3.4e38) continue;
                double err = fabs(y[0][i] - want) / ulp_of(want);
                if (err > worst[f]) worst[f] = err;
            }
        }
    }
    for (int f = 0; f < TEST_EXACT; f++) {
        printf("  %-14s max %.3f ulp\n", names[f], worst[f]);
        if (worst[f] > (f == 4 ? 0 : 2)) FAIL("%s: %.3f ulp", names[f], worst[f]);
    }
}

static void check_conversions(const level *l)
{
    for (uint32_t u = 0; u < 0x10000; u += 16) {
        uint16_t h[16];
        float f[16], g[16];
        for (int i = 0; i < 16; i++) h[i] = (uint16_t)(u + (uint32_t)i);
        for (int type = 0; type < 2; type++) {
            const cj_dtype t = type ? CJ_F16 : CJ_BF16;
            for (int i = 0; i < 16; i += l->isa->lanes) (type ? l->isa->f16_load : l->isa->bf16_load)(h + i, f + i);
            for (int i = 0; i < 16; i++) {
                uint32_t e = type ? h[i] >> 10 & 31 : 0, m = h[i] & 0x3ff, bits = (uint32_t)h[i] << 16;
                if (type)
                    g[i] = (float)((h[i] & 0x8000 ? -1 : 1) * (e == 0   ? ldexp(m, -24)
                                                               : e < 31 ? ldexp(m + 1024, (int)e - 25)
                                                               : m      ? NAN
                                                                        : INFINITY));
                else memcpy(&g[i], &bits, 4);
                if (!same_f32(f[i], g[i])) FAIL("%s load of %s %04x: %a, want %a", l->name, type ? "f16" : "bf16", h[i], f[i], g[i]);
            }
            for (int r = 0; r < 4; r++) { /* halfway to the next value, just beside it, and random floats */
                float x[16];
                uint16_t y[16], z;
                for (int i = 0; i < 16; i++) {
                    uint32_t b, next;
                    float up;
                    memcpy(&b, &f[i], 4);
                    uint16_t h1 = (uint16_t)(h[i] + 1);
                    cj__convert_portable(t, &h1, CJ_F32, &up, 1);
                    memcpy(&next, &up, 4);
                    b = r == 3 ? (uint32_t)rng() : (uint32_t)(((uint64_t)b + next) / 2 + (uint64_t)r - 1);
                    memcpy(&x[i], &b, 4);
                }
                for (int i = 0; i < 16; i += l->isa->lanes) (type ? l->isa->f16_store : l->isa->bf16_store)(x + i, y + i);
                for (int i = 0; i < 16; i++) {
                    cj__convert_portable(CJ_F32, &x[i], t, &z, 1);
                    float back;
                    cj__convert_portable(t, &y[i], CJ_F32, &back, 1);
                    if (x[i] != x[i] ? back == back : y[i] != z)
                        FAIL("%s store of %a as %s: %04x, want %04x", l->name, x[i], type ? "f16" : "bf16", y[i], z);
                    /* nearest: not farther than either neighbour (bf16 and f16 both) */
                    if (x[i] == x[i] && fabsf(back) < INFINITY) {
                        for (int d = -1; d <= 1; d += 2) {
                            uint16_t w = (uint16_t)(y[i] + d);
                            float other;
                            cj__convert_portable(t, &w, CJ_F32, &other, 1);
                            double here = fabs((double)back - x[i]), there = fabs((double)other - x[i]);
                            if (there < here || (there == here && here > 0 && (y[i] & 1)))
                                FAIL("%s %a as %s is not nearest even", l->name, x[i], type ? "f16" : "bf16");
                        }
                    }
                }
            }
        }
    }
    int bad = l->isa->check_small();
    if (bad) FAIL("%s vector layer: check %d", l->name, bad);
}

int main(int argc, char **argv)
{
    rng_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 20260101;
    printf("seed %llu\n", (unsigned long long)rng_state);
    level levels[4];
    int n = 0;
#if defined CJ_HAVE_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        levels[n++] = (level){ "avx512", cj__ew_run_avx512, cj__ew_span_avx512, &test_isa_of_avx512 };
#endif
#if defined CJ_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) levels[n++] = (level){ "avx2", cj__ew_run_avx2, cj__ew_span_avx2, &test_isa_of_avx2 };
#endif
#if defined CJ_HAVE_NEON
    levels[n++] = (level){ "neon", cj__ew_run_neon, cj__ew_span_neon, &test_isa_of_neon };
#endif
    levels[n++] = (level){ "portable", cj__ew_run_portable, cj__ew_span_portable, &test_isa_of_portable };
    make_specials();
    cj_pool *pools[3] = { NULL, cj__pool_new(2), cj__pool_new(3) };
    check_exact(levels, n);
    for (int i = 0; i < n; i++) {
        const level *l = &levels[i];
        if (argc > 2 && strcmp(argv[2], l->name)) continue;
        printf("%s\n", l->name);
        check_conversions(l);
        check_accuracy(l, true, 300);
        check_gelu_tail(l);
        check_immediates(l);
        check_int(l);
        check_f64(l);
        check_span(l);
        check_long(l);
        for (int t = 0; t < 1500; t++) check_program(l, pools, 3, t);
        check_large(l, pools, 3);
    }
    cj__pool_free(pools[1]);
    cj__pool_free(pools[2]);
    printf(failures ? "%d FAILURES\n" : "ok\n", failures);
    return failures != 0;
}
