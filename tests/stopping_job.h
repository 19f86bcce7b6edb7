/* A small training that can be stopped in the middle of a step, for tests of resuming. */
#ifndef CJ_TESTS_STOPPING_JOB_H
#define CJ_TESTS_STOPPING_JOB_H

#include "support.h"

typedef struct job {
    cj_ctx *c;
    cj_module *net;
    cj_examples train, val;
    cj_examples rows;
    int64_t stop_at; /* cancel in the middle of this step, counted from the start or the resume; 0: never */
} job;

static bool stopping_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    job *j = e->user;
    if (j->stop_at && --j->stop_at == 0) cj_cancel(c);
    return j->rows.batch(c, &j->rows, epoch, index, x, y);
}

/* 50 points in classes by the sign of their sum, dropout included so that the random state matters. */
static void open_job(job *j)
{
    *j = (job){ .c = cj_ctx_new(&(cj_ctx_opts){ .seed = 5, .threads = 1 }) };
    cj_ctx *c = j->c;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(50, 4))), *y = cj_keep(cj_cast(cj_gt_scalar(cj_sum(x, .axes = CJ_AXIS(1)), 0), CJ_I64));
    j->net = cj_sequential(c, cj_linear(c, 4, 8), cj_tanh_layer(c), cj_dropout_layer(c, 0.3), cj_linear(c, 8, 2));
    cj_examples_of_rows(x, y, &j->rows);
    cj_examples_of_rows(x, y, &j->val);
    j->train = (cj_examples){ .n = 50, .batch = stopping_batch, .user = j };
    cj_scope_close(s);
}

#endif
