/* What the tests of the zoo share: a model with settings, its parameters by name. */
#ifndef CJ_TESTS_ZOO_H
#define CJ_TESTS_ZOO_H

#include "support.h"

#define WITH(...)                                                                                                                          \
    (const char *const[]) { __VA_ARGS__, NULL }

/* The model with these assignments, NULL at the end. */
static inline cj_module *zoo_build(cj_ctx *c, const cj_model *m, cj_model_data d, const char *const *assignments)
{
    cj_settings *s = cj_settings_new(c, m);
    for (; *assignments; assignments++) assert_true(cj_settings_parse(s, *assignments));
    cj_options options = cj_settings_options(s);
    return m->build(c, &d, &options);
}

#endif
