/* The row kernels in f64, for checks: the formulas of rows.c in plain C. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/rows.h"

#define LANES 8

/* Sum of f(i) in LANES interleaved partial sums. */
#define SUM(total, n, expression)                                                                                                          \
    do {                                                                                                                                   \
        double lane[LANES] = { 0 };                                                                                                        \
        for (int64_t i = 0; i < (n); i++) lane[i % LANES] += (expression);                                                                 \
        total = ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));                                 \
    } while (0)

static double row_max(const double *x, int64_t n)
{
    double m = -INFINITY;
    for (int64_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

static double log_sum_exp(const double *x, int64_t n, double m)
{
    double sum;
    SUM(sum, n, exp(x[i] - m));
    return log(sum);
}

void CJ_K(cj__softmax_f64)(void *job, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = job;
    const int64_t n = j->n;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const double *x = (const double *)j->x + r * j->s_row, m = row_max(x, n);
        double *y = (double *)j->y + r * n;
        if (j->log) {
            const double l = log_sum_exp(x, n, m);
            for (int64_t i = 0; i < n; i++) y[i] = x[i] - m - l;
            continue;
        }
        for (int64_t i = 0; i < n; i++) y[i] = exp(x[i] - m);
        double sum;
        SUM(sum, n, y[i]);
        for (int64_t i = 0; i < n; i++) y[i] /= sum;
    }
}

void CJ_K(cj__softmax_bwd_f64)(void *job, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = job;
    const int64_t n = j->n;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const double *y = (const double *)j->x + r * n, *dy = (const double *)j->dy + r * n;
        double *dx = (double *)j->y + r * n, s;
        if (j->log) {
            SUM(s, n, dy[i]);
            for (int64_t i = 0; i < n; i++) dx[i] = dy[i] - exp(y[i]) * s;
        } else {
            SUM(s, n, y[i] * dy[i]);
            for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - s);
        }
    }
}

void CJ_K(cj__cross_entropy_f64)(void *job, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = job;
    const int64_t n = j->n;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const double *x = (const double *)j->x + r * j->s_row, m = row_max(x, n), lse = m + log_sum_exp(x, n, m);
        double *loss = (double *)j->y + r;
        ((double *)j->lse)[r] = lse;
        *loss = 0.0;
        if (j->target[r] == j->ignore) continue;
        *loss = lse - (1.0 - j->smooth) * x[j->target[r]];
        if (j->smooth == 0.0) continue;
        double sum;
        SUM(sum, n, x[i]);
        *loss -= j->smooth * (sum / (double)n);
    }
}

void CJ_K(cj__cross_entropy_bwd_f64)(void *job, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = job;
    const int64_t n = j->n;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const double *x = (const double *)j->x + r * j->s_row, lse = ((const double *)j->saved_lse)[r];
        double *dx = (double *)j->y + r * n;
        if (j->target[r] == j->ignore) {
            memset(dx, 0, (size_t)n * sizeof *dx);
            continue;
        }
        const double g = ((const double *)j->g)[r * j->s_g];
        for (int64_t i = 0; i < n; i++) dx[i] = g * (exp(x[i] - lse) - (i == j->target[r] ? 1.0 - j->smooth : 0.0) - j->smooth / (double)n);
    }
}

void CJ_K(cj__layer_norm_f64)(void *job, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = job;
    const int64_t n = j->n;
    const double *w = j->w, *b = j->b;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const double *x = (const double *)j->x + r * j->s_row;
        double *y = (double *)j->y + r * n, mean, square;
        SUM(mean, n, x[i]);
        mean = j->rms ? 0 : mean / (double)n;
        SUM(square, n, (x[i] - mean) * (x[i] - mean));
        const double rstd = 1.0 / sqrt(square / (double)n + j->eps);
        if (!j->rms) ((double *)j->mean)[r] = mean;
        ((double *)j->rstd)[r] = rstd;
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * (w ? w[i] : 1.0) + (b ? b[i] : 0.0);
    }
}

void CJ_K(cj__layer_norm_bwd_block_f64)(void *job, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = job;
    const int64_t n = j->n;
    const double *w = j->w;
    double *dw = NULL;
    (void)worker;
    if (j->scratch) {
        dw = (double *)j->scratch + begin / j->block * 2 * n;
        memset(dw, 0, (size_t)(2 * n) * sizeof *dw);
    }
    for (int64_t r = begin; r < end; r++) {
        const double *x = (const double *)j->x + r * j->s_row, *dy = (const double *)j->dy + r * n;
        const double mean = j->rms ? 0 : ((const double *)j->saved_mean)[r], rstd = ((const double *)j->saved_rstd)[r];
        double c1, c2;
        if (dw)
            for (int64_t i = 0; i < n; i++) {
                dw[i] += dy[i] * (x[i] - mean) * rstd;
                dw[n + i] += dy[i];
            }
        if (!j->y) continue;
        double *dx = (double *)j->y + r * n;
        SUM(c1, n, dy[i] * (w ? w[i] : 1.0));
        SUM(c2, n, dy[i] * (w ? w[i] : 1.0) * ((x[i] - mean) * rstd));
        c1 = j->rms ? 0 : c1 / (double)n;
        c2 /= (double)n;
        for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] * (w ? w[i] : 1.0) - c1 - (x[i] - mean) * rstd * c2);
    }
}

void CJ_K(cj__layer_norm_bwd_columns_f64)(void *job, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = job;
    (void)worker;
    for (int64_t c = begin; c < end; c++) {
        double dw = 0.0, db = 0.0;
        for (int64_t k = 0; k < j->blocks; k++) {
            const double *p = (const double *)j->scratch + k * 2 * j->n + c;
            dw += p[0];
            db += p[j->n];
        }
        if (j->dw) ((double *)j->dw)[c] = dw;
        if (j->db) ((double *)j->db)[c] = db;
    }
}
