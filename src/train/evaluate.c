/* Loss and accuracy of a module on examples. */
#include <math.h>

#include "train/train.h"

cj_tensor *cj_task_loss(cj_task task, cj_tensor *prediction, cj_tensor *y)
{
    return task == CJ_TASK_REGRESS ? cj_mse_loss(prediction, y, NULL) : cj_cross_entropy(prediction, y, NULL);
}

typedef struct totals {
    double loss, right;
    int64_t n;
} totals;

/* Examples, or words of translations (all but the first, which begins each, and the padding), that a batch's mean loss is taken over. */
static int64_t weight(cj_task task, cj_tensor *x, cj_tensor *y)
{
    if (task == CJ_TASK_GENERATE) return cj_size(x, 0);
    if (task != CJ_TASK_TRANSLATE) return cj_numel(y);
    cj_tensor *words = cj_slice(y, 1, 1, cj_size(y, 1), 1);
    return (int64_t)cj_item(cj_sum(cj_ne(words, cj_zeros_like(words)), NULL));
}

static bool has_right_answers(cj_task task) { return task == CJ_TASK_CLASSIFY || task == CJ_TASK_NEXT_TOKEN || task == CJ_TASK_NODES; }

/* Adds a batch's summed loss and its number of right answers. */
static bool add_batch(cj_module *m, const cj_evaluate_opts *o, cj_tensor *x, cj_tensor *y, totals *t)
{
    bool right = has_right_answers(o->task), own = o->model && o->model->loss;
    cj_tensor *p = right || !own ? cj_forward(m, x) : NULL;
    int64_t n = weight(o->task, x, y);
    t->loss += cj_item(own ? o->model->loss(m, x, y) : cj_task_loss(o->task, p, y)) * (double)n;
    if (right) t->right += cj_item(cj_sum(cj_eq(cj_argmax(p, &(cj_reduce_opts){ .axes = CJ_AXIS(-1) }), y), NULL));
    t->n += n;
    return cj_ok(cj_module_ctx(m));
}

bool cj_evaluate(cj_module *m, const cj_examples *e, cj_metrics *out, const cj_evaluate_opts *opts)
{
    cj_evaluate_opts o = opts ? *opts : (cj_evaluate_opts){ 0 };
    if (o.batch == 0) o.batch = 128;
    int64_t batch = o.batch;
    *out = (cj_metrics){ .loss = NAN, .accuracy = NAN };
    cj_ctx *c = cj_module_ctx(m);
    if (!c || !e || !cj__cancel_check(c)) return false;
    if (batch < 1) return cj__error(c, CJ_EVALUE, "evaluate: batches of %lld examples", (long long)batch);
    bool training = cj_module_training(m), grad = cj_no_grad(c);
    cj_rng_state random = cj_rng_get(c); /* models that draw leave no trace: training goes on as if nobody had looked */
    cj_module_train(m, false);
    totals t = { 0 };
    bool ok = true;
    for (int64_t at = 0; at < e->n && ok && cj_ok(c); at += batch) {
        cj_scope s = cj_scope_open(c);
        int64_t end = at + batch < e->n ? at + batch : e->n;
        cj_tensor *x, *y, *index = cj_arange(c, (double)at, (double)end, 1, CJ_I64);
        ok = e->batch(c, e, 0, index, &x, &y) && add_batch(m, &o, x, y, &t);
        cj_scope_close(s);
    }
    cj_rng_set(c, random);
    cj_module_train(m, training);
    cj_grad_mode(c, grad);
    if (!cj__cancel_check(c)) return false;
    if (t.n == 0) return cj__error(c, CJ_EVALUE, "evaluate: there are no examples");
    double n = (double)t.n;
    *out = (cj_metrics){ .loss = t.loss / n, .accuracy = has_right_answers(o.task) ? t.right / n : NAN, .n = t.n };
    return true;
}
