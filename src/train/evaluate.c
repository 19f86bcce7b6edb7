/* Loss and accuracy of a module on examples. */
#include <math.h>

#include "train/train.h"

cj_tensor *cj_task_loss(cj_task task, cj_tensor *prediction, cj_tensor *y)
{
    return task == CJ_TASK_REGRESS ? cj_mse_loss(prediction, y, NULL) : cj_cross_entropy(prediction, y, NULL);
}

/* Adds a batch's summed loss and its number of right answers; returns the number of examples (symbols), -1 after an error. */
static int64_t add_batch(cj_module *m, cj_task task, cj_tensor *x, cj_tensor *y, double *loss, double *right)
{
    cj_tensor *p = cj_forward(m, x);
    int64_t n = cj_numel(y);
    *loss += cj_item(cj_task_loss(task, p, y)) * (double)n;
    if (task != CJ_TASK_REGRESS) *right += cj_item(cj_sum(cj_eq(cj_argmax(p, &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }), y), NULL));
    return cj_ok(cj_module_ctx(m)) ? n : -1;
}

bool cj_evaluate(cj_module *m, cj_task task, const cj_examples *e, int64_t batch, cj_metrics *out)
{
    *out = (cj_metrics){ .loss = NAN, .accuracy = NAN };
    cj_ctx *c = cj_module_ctx(m);
    if (!c || !e || !cj__cancel_check(c)) return false;
    if (batch < 1) return cj__error(c, CJ_EVALUE, "evaluate: batches of %lld examples", (long long)batch);
    bool training = cj_module_training(m), grad = cj_no_grad(c);
    cj_module_train(m, false);
    double loss = 0, right = 0;
    int64_t n = 0, got = 0;
    for (int64_t at = 0; at < e->n && got >= 0 && cj_ok(c); at += batch) {
        cj_scope s = cj_scope_open(c);
        int64_t end = at + batch < e->n ? at + batch : e->n;
        cj_tensor *x, *y, *index = cj_arange(c, (double)at, (double)end, 1, CJ_I64);
        got = e->batch(c, e, 0, index, &x, &y) ? add_batch(m, task, x, y, &loss, &right) : -1;
        n += got;
        cj_scope_close(s);
    }
    cj_module_train(m, training);
    cj_grad_mode(c, grad);
    if (!cj__cancel_check(c)) return false;
    if (n == 0) return cj__error(c, CJ_EVALUE, "evaluate: there are no examples");
    *out = (cj_metrics){ .loss = loss / (double)n, .accuracy = task == CJ_TASK_REGRESS ? NAN : right / (double)n, .n = n };
    return true;
}
