/* What a network says of the test examples, for tables and pictures. */
#ifndef CJ_APP_ANSWERS_H
#define CJ_APP_ANSWERS_H

#include "app/app.h"

typedef struct app_answers {
    int64_t n, classes, wrong;
    int64_t *said, *truth;   /* n: classes */
    double *sure;            /* n: probability of what it says */
    double *counts;          /* [classes, classes]: row what it is, column what is said */
    cj_class_scores *scores; /* of each class */
    cj_class_scores macro;
} app_answers;

/* Of the first `most` test examples, 0: of all. False without classes or examples, or after an error; to be freed after true. */
bool app_answer(const app_job *j, int64_t most, app_answers *a);
void app_answers_free(app_answers *a);
bool app_has_classes(const app_job *j);
const char *app_class_name(const app_job *j, int64_t k); /* into a rotating buffer where the data has no names */

#endif
