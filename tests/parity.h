/* Parity with PyTorch, shared by the tests that read a fixture: a case is a function name, whole-number arguments and inputs; the file holds the result, the
 * gradients of s = sum(w · result) for every float input, and for twice differentiable cases H·t of s (tools/fixtures_*.py).
 *
 * Tolerances, of |a - b| against 1 + |b|: f64 results 1e-12 and derivatives 1e-10 (two implementations of the same formula, a few roundings apart; PyTorch's
 * softplus drops log1p(exp(-x)) above 20, 1e-13 at the values used); f32 2e-6 and 1e-5; bf16 and f16 conversions, integers and booleans exactly.
 */
#ifndef CJ_TESTS_PARITY_H
#define CJ_TESTS_PARITY_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cajal/grad.h>
#include <cajal/ops.h>

/* ---- the functions, by the name that the fixture uses ------------------------------------------------------------------------------------------ */

typedef struct arguments {
    long long at[4];
    int n;
} arguments;
typedef cj_tensor *function(cj_ctx *c, const arguments *a, cj_tensor *const *in, int n);

#define CASE(name, expression)                                                                                                             \
    static cj_tensor *case_##name(cj_ctx *c, const arguments *a, cj_tensor *const *in, int n)                                              \
    {                                                                                                                                      \
        (void)c, (void)a, (void)in, (void)n;                                                                                               \
        return expression;                                                                                                                 \
    }
#define A(i) a->at[i]
#define X in[0]
#define Y in[1]
#define UNARY(name) CASE(name, cj_##name(X))
#define BINARY(name) CASE(name, cj_##name(X, Y))

/* clang-format off */
typedef struct parity_row {
    const char *name;
    function *fn;
} parity_row;
#define ROW(name) { #name, case_##name }
/* clang-format on */

/* ---- the fixture ---------------------------------------------------------------------------------------------------------------------------------- */

enum { MAX_VALUES = 512, MAX_LINE = 1 << 16, MAX_INPUTS = 4 };

typedef struct values {
    cj_dtype dtype;
    cj_shape shape;
    int64_t n;
    double v[MAX_VALUES];
} values;

static FILE *fixture(const char *name)
{
    const char *root = getenv("CAJAL_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/fixtures/%s", root ? root : ".", name);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s cannot be opened", path);
    return f;
}

static cj_dtype dtype_by_name(const char *name)
{
    for (int i = 1; i < CJ_DTYPES; i++)
        if (strcmp(cj_dtype_name((cj_dtype)i), name) == 0) return (cj_dtype)i;
    fail_msg("dtype %s", name);
    return CJ_F32;
}

/* "f64 2,3 1 2 3 4 5 6" */
static void read_values(char *text, values *out)
{
    char *state = NULL, *word = strtok_r(text, " \n", &state);
    out->dtype = dtype_by_name(word);
    out->shape = (cj_shape){ 0 };
    word = strtok_r(NULL, " \n", &state);
    if (*word != '-')
        for (char *at = word, *end; *at; at = *end ? end + 1 : end) out->shape.dim[out->shape.ndim++] = strtoll(at, &end, 10);
    out->n = 0;
    while ((word = strtok_r(NULL, " \n", &state))) {
        assert_true(out->n < MAX_VALUES);
        out->v[out->n++] = strtod(word, NULL);
    }
    int64_t n = 1;
    for (int d = 0; d < out->shape.ndim; d++) n *= out->shape.dim[d];
    assert_int_equal(n, out->n);
}

static cj_tensor *tensor_of(cj_ctx *c, const values *v) { return cj_cast(cj_from_f64(c, v->v, v->shape), v->dtype); }

static int wrong;

static double tolerance(cj_dtype t, bool derivative)
{
    return t == CJ_F64 ? (derivative ? 1e-10 : 1e-12) : t == CJ_F32 ? (derivative ? 1e-5 : 2e-6) : 0;
}

static void expect(cj_tensor *t, const values *want, double tol, int line, const char *what)
{
    double got[MAX_VALUES];
    bool shape = cj_ndim(t) == want->shape.ndim && cj_numel(t) == want->n;
    for (int d = 0; d < want->shape.ndim && shape; d++) shape = cj_size(t, d) == want->shape.dim[d];
    if (!shape || cj_dtype_of(t) != want->dtype || !cj_to_f64(t, got, want->n)) {
        char text[128];
        cj_format_shape(t, text, sizeof text);
        print_error("line %d, %s: %s %s, expected %s of %lld elements (%s)\n", line, what, cj_dtype_name(cj_dtype_of(t)), text,
                    cj_dtype_name(want->dtype), (long long)want->n, cj_message(cj_tensor_ctx(t)));
        wrong++;
        return;
    }
    for (int64_t i = 0; i < want->n; i++) {
        double a = got[i], b = want->v[i];
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tol * (1 + fabs(b))) continue;
        print_error("line %d, %s: element %lld is %.17g, PyTorch has %.17g\n", line, what, (long long)i, a, b);
        wrong++;
        return;
    }
}

/* ---- operators ------------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct problem {
    function *fn;
    arguments args;
    cj_tensor *in[MAX_INPUTS];
    bool is_value[MAX_INPUTS];
    int n;
} problem;

static cj_tensor *sequence(cj_tensor *like, int64_t step, int64_t period, double centre, double scale)
{
    double v[MAX_VALUES];
    for (int64_t i = 0; i < cj_numel(like); i++) v[i] = ((double)(i * step % period) - centre) / scale;
    return cj_cast(cj_from_f64(cj_tensor_ctx(like), v, cj_shape_of(like)), cj_dtype_of(like));
}

/* s = sum(w · fn(values)), the other inputs fixed */
static cj_tensor *weighted(cj_ctx *c, void *user, cj_tensor *const *x, int n)
{
    problem *p = user;
    cj_tensor *in[MAX_INPUTS];
    for (int i = 0, k = 0; i < p->n; i++) in[i] = p->is_value[i] && k < n ? x[k++] : p->in[i];
    cj_tensor *y = p->fn(c, &p->args, in, p->n);
    return cj_sum(cj_mul(y, sequence(y, 7, 11, 5, 8)), NULL);
}

/* Runs the cases of a fixture up to what is no case; their number. What differs is printed and counted in `wrong`. */
static __attribute__((unused)) int run_cases(const char *fixture_name, const parity_row *functions, size_t functions_n)
{
    wrong = 0;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    FILE *f = fixture(fixture_name);
    static char line[MAX_LINE];
    static values v;
    problem p = { 0 };
    cj_scope scope = cj_scope_open(c);
    cj_tensor *x[MAX_INPUTS], *g[MAX_INPUTS], *t[MAX_INPUTS], *h[MAX_INPUTS];
    char name[64] = "", what[128];
    int number = 0, cases = 0, m = 0, grads = 0, hvps = 0;
    while (fgets(line, sizeof line, f)) {
        number++;
        char word[32];
        int skip = 0;
        if (sscanf(line, "%31s %n", word, &skip) != 1) continue;
        if (strcmp(word, "case") == 0) {
            cj_scope_close(scope);
            scope = cj_scope_open(c);
            memset(&p, 0, sizeof p);
            int used = 0;
            assert_int_equal(sscanf(line + skip, "%63s %n", name, &used), 1);
            for (char *at = line + skip + used, *end; p.args.n < 4; at = end) {
                p.args.at[p.args.n] = strtoll(at, &end, 10);
                if (end == at) break;
                p.args.n++;
            }
            for (size_t i = 0; i < functions_n; i++)
                if (strcmp(functions[i].name, name) == 0) p.fn = functions[i].fn;
            if (!p.fn) fail_msg("line %d: no function %s", number, name);
            m = grads = hvps = 0;
            cases++;
        } else if (strcmp(word, "in") == 0) {
            read_values(line + skip, &v);
            p.is_value[p.n] = cj_dtype_is_float(v.dtype);
            p.in[p.n] = tensor_of(c, &v);
            if (p.is_value[p.n]) x[m++] = p.in[p.n];
            p.n++;
        } else if (strcmp(word, "out") == 0) {
            read_values(line + skip, &v);
            snprintf(what, sizeof what, "%s", name);
            expect(p.fn(c, &p.args, p.in, p.n), &v, tolerance(v.dtype, false), number, what);
            cj_clear(c);
        } else if (strcmp(word, "grad") == 0) {
            read_values(line + skip, &v);
            if (grads == 0) cj_vjp(c, weighted, &p, x, m, NULL, g);
            snprintf(what, sizeof what, "%s, gradient %d", name, grads + 1);
            expect(g[grads++], &v, tolerance(v.dtype, true), number, what);
        } else if (strcmp(word, "hvp") == 0) {
            read_values(line + skip, &v);
            for (int i = 0; i < m && hvps == 0; i++) t[i] = sequence(x[i], 5, 7, 3, 4);
            if (hvps == 0) cj_hvp(c, weighted, &p, x, t, m, h);
            snprintf(what, sizeof what, "%s, Hessian times vector %d", name, hvps + 1);
            expect(h[hvps++], &v, tolerance(v.dtype, true), number, what);
        } else if (strcmp(word, "end") == 0) {
            if (!cj_ok(c)) {
                print_error("line %d, %s: %s\n", number, name, cj_message(c));
                wrong++;
                cj_clear(c);
            }
        } else {
            break; /* the tables follow */
        }
    }
    cj_scope_close(scope);
    fclose(f);
    cj_ctx_free(c);
    return cases;
}

#endif
