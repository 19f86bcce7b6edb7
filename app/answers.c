/* What a network says of the test examples: the class of each, how sure it is, and the counts of what it takes for what. */
#include "app/answers.h"

#include <stdio.h>
#include <stdlib.h>

static bool answer_batch(const app_job *j, int64_t from, int64_t to, app_answers *a)
{
    cj_ctx *c = j->ctx;
    cj_scope s = cj_scope_open(c);
    cj_tensor *x, *y, *index = cj_arange(c, (double)from, (double)to, 1, CJ_I64);
    bool ok = j->test.batch(c, &j->test, 0, index, &x, &y);
    cj_tensor *p = ok ? cj_softmax(cj_forward(j->net, x), -1) : NULL;
    ok = ok && cj_to_i64(cj_argmax(p, .axes = CJ_AXIS(-1)), a->said + from, to - from) &&
         cj_to_f64(cj_max(p, .axes = CJ_AXIS(-1)), a->sure + from, to - from) && cj_to_i64(y, a->truth + from, to - from);
    cj_scope_close(s);
    return ok;
}

bool app_answer(const app_job *j, int64_t most, app_answers *a)
{
    enum { BATCH = 256 };
    *a = (app_answers){ 0 };
    if (!app_has_classes(j) || j->test.n < 1) return false;
    a->n = most > 0 && most < j->test.n ? most : j->test.n;
    a->classes = j->task == CJ_TASK_NODES ? j->data->graph->classes : j->data->classes;
    a->said = calloc((size_t)a->n, sizeof *a->said);
    a->truth = calloc((size_t)a->n, sizeof *a->truth);
    a->sure = calloc((size_t)a->n, sizeof *a->sure);
    a->counts = calloc((size_t)(a->classes * a->classes), sizeof *a->counts);
    bool ok = a->said && a->truth && a->sure && a->counts, grad = cj_no_grad(j->ctx), training = cj_module_training(j->net);
    cj_module_train(j->net, false);
    for (int64_t at = 0; at < a->n && ok; at += BATCH) ok = answer_batch(j, at, at + BATCH < a->n ? at + BATCH : a->n, a);
    cj_module_train(j->net, training);
    cj_grad_mode(j->ctx, grad);
    cj_scope s = cj_scope_open(j->ctx);
    cj_tensor *counts =
        ok ? cj_confusion_matrix(cj_from_i64(j->ctx, a->said, CJ_SHAPE(a->n)), cj_from_i64(j->ctx, a->truth, CJ_SHAPE(a->n)), a->classes)
           : NULL;
    ok = ok && cj_to_f64(counts, a->counts, a->classes * a->classes);
    a->macro = ok ? cj_precision_recall_mean(counts, CJ_MACRO) : (cj_class_scores){ 0 };
    a->scores = ok ? calloc((size_t)a->classes, sizeof *a->scores) : NULL;
    for (int64_t k = 0; k < a->classes && a->scores; k++) a->scores[k] = cj_precision_recall(counts, k);
    cj_scope_close(s);
    ok = ok && a->scores && cj_ok(j->ctx);
    for (int64_t i = 0; i < a->n && ok; i++) a->wrong += a->said[i] != a->truth[i];
    if (!ok) app_answers_free(a);
    return ok;
}

void app_answers_free(app_answers *a)
{
    free(a->said);
    free(a->truth);
    free(a->sure);
    free(a->counts);
    free(a->scores);
    *a = (app_answers){ 0 };
}

bool app_has_classes(const app_job *j) { return j->task == CJ_TASK_CLASSIFY || j->task == CJ_TASK_NODES; }

const char *app_class_name(const app_job *j, int64_t k)
{
    static char number[8][24];
    static int turn;
    if (j->data->class_names && k < j->data->classes) return j->data->class_names[k];
    turn = (turn + 1) % 8;
    snprintf(number[turn], sizeof number[turn], "%lld", (long long)k);
    return number[turn];
}
