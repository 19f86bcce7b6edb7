/* Parameter updates: AMSGrad, AdaGrad, RMSProp, AdaMax, NAdam, SignSGD, Lion; one pass over a list of parameters, as update.c does for SGD and Adam.
 *
 * The rules stand once, for float and double, in update_rules.h; the loops are plain and become vector code.
 */
#include <math.h>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/update.h"

#define REAL float
#define R(name) name##_f32
#define SQRT sqrtf
#define FABS fabsf
#include "kernels/cpu/update_rules.h"

#define REAL double
#define R(name) name##_f64
#define SQRT sqrt
#define FABS fabs
#include "kernels/cpu/update_rules.h"

#define AT(type, field, i) (s->field ? (type *)s->field + (i) : NULL)

/* A rule over [begin, end) of the concatenated slices, and over all of them. */
#define RULE(name)                                                                                                                         \
    static void name##_range(void *arg, int64_t begin, int64_t end, int worker)                                                            \
    {                                                                                                                                      \
        const update_job *j = arg;                                                                                                         \
        (void)worker;                                                                                                                      \
        walk at = walk_from(j, begin, end);                                                                                                \
        const cj_update_slice *s;                                                                                                          \
        int64_t from, to;                                                                                                                  \
        while (walk_next(&at, &s, &from, &to)) {                                                                                           \
            if (j->t == CJ_F64)                                                                                                            \
                name##_f64(j->o, (double *)s->p + from, (const double *)s->g + from, AT(double, m, from), AT(double, v, from),             \
                           AT(double, w, from), to - from);                                                                                \
            else if (j->t == CJ_F32)                                                                                                       \
                name##_f32(j->o, (float *)s->p + from, (const float *)s->g + from, AT(float, m, from), AT(float, v, from),                 \
                           AT(float, w, from), to - from);                                                                                 \
            else                                                                                                                           \
                for (half_piece h = { .from = from }; half_next(j->t, s, to, &h);)                                                         \
                    name##_f32(j->o, (float *)s->p + h.at, h.g, AT(float, m, h.at), AT(float, v, h.at), AT(float, w, h.at), h.n);          \
        }                                                                                                                                  \
    }                                                                                                                                      \
    void CJ_K(cj__##name)(cj_pool * pool, cj_dtype t, const cj_update_slice *slices, int n_slices, const cj_update_opts *o)                \
    {                                                                                                                                      \
        update_run(pool, t, slices, n_slices, o, name##_range);                                                                            \
    }

RULE(amsgrad)
RULE(adagrad)
RULE(rmsprop)
RULE(adamax)
RULE(nadam)
RULE(sign)
RULE(lion)
