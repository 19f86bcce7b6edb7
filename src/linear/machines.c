/* Machines that see the examples through a Gram matrix: perceptron, logistic regression, support vectors. */
#include <math.h>

#include "cajal/kernels.h"
#include "linear/linear.h"

static cj_kernel_machine failed(const cj_tensor *x)
{
    return (cj_kernel_machine){ .alpha = x ? x->ctx->poison : NULL, .bias = NAN, .gap = NAN };
}

/* gram as e->x [n, n], y as e->y of -1 and 1 */
static bool open_gram(cj__examples *e, const char *op, cj_tensor *gram, cj_tensor *y, int64_t more)
{
    if (!cj__examples_open(e, op, gram, y, false, more)) return false;
    bool ok = e->n == e->d || cj__error(e->c, CJ_ESHAPE, "%s: the Gram matrix is %s; a square one expected", op, cj__tensor_text(gram));
    for (int64_t i = 0; i < e->n && ok; i++)
        if (e->y[i] != 1 && e->y[i] != -1)
            ok = cj__error(e->c, CJ_EVALUE, "%s: target %lld is %g; -1 or 1 expected", op, (long long)i, e->y[i]);
    if (!ok) cj__examples_close(e);
    return ok;
}

static cj_kernel_machine close_gram(cj__examples *e, const double *alpha, cj_kernel_machine m)
{
    m.alpha = e->c->error ? e->c->poison : cj_from_f64(e->c, alpha, CJ_SHAPE(e->n));
    cj__examples_close(e);
    return m;
}

cj_tensor *cj_kernel_scores(const cj_kernel_machine *m, cj_tensor *across, cj_tensor *y)
{
    cj_tensor *weights = cj_mul(m->alpha, cj_cast(y, CJ_F64));
    return cj_add_scalar(cj_matmul(cj_cast(across, CJ_F64), weights), m->bias);
}

static double score(const double *row, const double *alpha, const double *y, int64_t n)
{
    double f = 0;
    for (int64_t i = 0; i < n; i++) f += alpha[i] * y[i] * row[i];
    return f;
}

cj_kernel_machine cj_kernel_perceptron(cj_tensor *gram, cj_tensor *y, int64_t passes)
{
    cj__examples e;
    if (!open_gram(&e, "kernel_perceptron", gram, y, gram && gram->ndim == 2 ? gram->shape[0] : 0)) return failed(gram);
    cj_kernel_machine m = { 0 };
    double *alpha = e.more;
    for (int64_t t = 0; t < (passes ? passes : 1000) && !m.converged && cj__cancel_check(e.c); t++) {
        int64_t before = m.updates;
        for (int64_t w = 0; w < e.n; w++)
            if (e.y[w] * score(e.x + w * e.n, alpha, e.y, e.n) <= 0) alpha[w]++, m.updates++;
        m.converged = m.updates == before;
    }
    return close_gram(&e, alpha, m);
}

cj_kernel_machine cj_kernel_perceptron_online(cj_kernel k, cj_tensor *x, cj_tensor *y, int64_t passes)
{
    cj__examples e;
    int64_t n = x && x->ndim == 2 ? x->shape[0] : 0;
    if (!cj__examples_open(&e, "kernel_perceptron_online", x, y, false, 2 * n)) return failed(x);
    cj_kernel_machine m = { 0 };
    double *alpha = e.more, *row = alpha + n;
    for (int64_t t = 0; t < (passes ? passes : 1000) && !m.converged && cj__cancel_check(e.c); t++) {
        int64_t before = m.updates;
        for (int64_t w = 0; w < n && !e.c->error; w++) {
            cj_scope s = cj_scope_open(e.c);
            bool ok = cj_to_f64(cj_gram(k, cj_slice(x, 0, w, w + 1, 1), x), row, n);
            cj_scope_close(s);
            if (ok && e.y[w] * score(row, alpha, e.y, n) <= 0) alpha[w]++, m.updates++;
        }
        m.converged = m.updates == before && !e.c->error;
    }
    return close_gram(&e, alpha, m);
}

cj_kernel_machine cj_kernel_logistic(cj_tensor *gram, cj_tensor *y, double rate, int64_t steps)
{
    cj__examples e;
    if (!open_gram(&e, "kernel_logistic", gram, y, gram && gram->ndim == 2 ? gram->shape[0] : 0)) return failed(gram);
    cj_kernel_machine m = { .converged = true };
    double *alpha = e.more;
    if (!(rate > 0 && isfinite(rate)) || steps < 0)
        cj__error(e.c, CJ_EVALUE, "kernel_logistic: rate %g, %lld steps; a positive rate expected", rate, (long long)steps);
    for (int64_t t = 0; t < steps && !e.c->error; t++, m.updates++) {
        int64_t i = t % e.n;
        if (i == 0 && !cj__cancel_check(e.c)) break;
        alpha[i] += rate / (1 + exp(e.y[i] * score(e.x + i * e.n, alpha, e.y, e.n)));
    }
    return close_gram(&e, alpha, m);
}

/* With F_i = y_i - sum_j alpha_j y_j G_ij the optimum has max F over the examples whose alpha_i y_i may grow not above min F over those whose alpha_i y_i may shrink. */
cj_kernel_machine cj_svm(cj_tensor *gram, cj_tensor *y, const cj_svm_opts *opts)
{
    cj__examples e;
    cj_svm_opts o = opts ? *opts : (cj_svm_opts){ 0 };
    double most = o.c != 0 ? o.c : 1, tolerance = o.tolerance != 0 ? o.tolerance : 1e-6;
    int64_t iterations = o.iterations ? o.iterations : 1000000, n = gram && gram->ndim == 2 ? gram->shape[0] : 0;
    if (!open_gram(&e, "svm", gram, y, 2 * n)) return failed(gram);
    cj_kernel_machine m = { 0 };
    double *alpha = e.more, *f = alpha + n, high = 0, low = 0;
    if (!(most > 0) || !(tolerance > 0) || iterations < 0)
        cj__error(e.c, CJ_EVALUE, "svm: c %g, tolerance %g, %lld iterations; positive numbers expected", o.c, o.tolerance,
                  (long long)iterations);
    memcpy(f, e.y, (size_t)n * sizeof *f);
    for (; m.updates < iterations && !e.c->error; m.updates++) {
        int64_t up = -1, down = -1;
        if (m.updates % 256 == 0 && !cj__cancel_check(e.c)) break;
        for (int64_t i = 0; i < n; i++) {
            bool grows = e.y[i] > 0 ? alpha[i] < most : alpha[i] > 0, shrinks = e.y[i] > 0 ? alpha[i] > 0 : alpha[i] < most;
            if (grows && (up < 0 || f[i] > high)) up = i, high = f[i];
            if (shrinks && (down < 0 || f[i] < low)) down = i, low = f[i];
        }
        if (up < 0 || down < 0 || high - low <= tolerance) {
            m.converged = true;
            break;
        }
        double curvature = e.x[up * n + up] + e.x[down * n + down] - 2 * e.x[up * n + down], step = (high - low) / fmax(curvature, 1e-12);
        step = fmin(step, e.y[up] > 0 ? most - alpha[up] : alpha[up]);
        step = fmin(step, e.y[down] > 0 ? alpha[down] : most - alpha[down]);
        alpha[up] = fmin(fmax(alpha[up] + e.y[up] * step, 0), most);
        alpha[down] = fmin(fmax(alpha[down] - e.y[down] * step, 0), most);
        for (int64_t i = 0; i < n; i++) f[i] -= step * (e.x[up * n + i] - e.x[down * n + i]);
    }
    m.bias = (high + low) / 2;
    double norm2 = 0, hinge = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double own = e.y[i] - f[i]; /* score without bias */
        norm2 += alpha[i] * e.y[i] * own, hinge += fmax(0, 1 - e.y[i] * (own + m.bias)), sum += alpha[i];
    }
    m.gap = norm2 + most * hinge - sum; /* (|w|²/2 + c·hinge) - (sum alpha - |w|²/2) */
    return close_gram(&e, alpha, m);
}
