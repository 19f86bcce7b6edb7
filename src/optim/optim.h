/* Shared inside src/optim: what an optimiser is made of and how one is asked for. */
#ifndef CJ_OPTIM_OPTIM_H
#define CJ_OPTIM_OPTIM_H

#include "cajal/optim.h"
#include "nn/nn.h"
#include "ops/attrs.h"

struct cj_optim {
    cj_object object;
    cj_ctx *ctx;
    cj_params *params;
    cj_update_attrs attrs;
    cj_tensor *step[CJ_DTYPES];     /* per dtype: each update counts for itself */
    cj_tensor *master[CJ_DTYPES];   /* of half-precision parameters, f32 */
    cj_tensor *state[CJ_DTYPES][3]; /* of the rule, as long as the parameters */
    cj_tensor *product[CJ_DTYPES];  /* NAdam: of all momenta so far */
    cj_tensor *group[CJ_DTYPES];    /* per parameter: factor of the rate, weight decay; NULL: one for all */
    const char *state_name[3];      /* PyTorch's */
    cj_tensor *lr;
    const cj_comm *comm; /* NULL: one process */
    double lr_value, clip_value;
    bool maximise, scheduled;
    cj_rate rate;                   /* when scheduled */
    int count;                      /* parameters when it was made */
    struct cj__custom_rule *custom; /* a rule written in operators (custom.c), or NULL */
};

/* What a constructor asks for: the rule and what is common to all. */
typedef struct cj__optim_request {
    const char *name;
    cj_update_attrs attrs;
    const char *state_name[3];
    double initial; /* of the states */
    double lr, clip_value;
    bool maximise;
    const cj_comm *comm;
    bool custom; /* the rule keeps its states itself */
} cj__optim_request;
cj_optim *cj__optim_new(cj_params *p, const cj__optim_request *r);
double cj__value_or(double v, double usual); /* an option: 0 means the usual value, CJ_ZERO zero */

bool cj__optim_write_rate(cj_optim *o); /* scheduled: the rate of the step to come, into its tensor */

/* custom.c */
bool cj__custom_update(cj_optim *o, cj_tensor **g); /* all parameters and states, or none */
int cj__custom_state(cj_optim *o, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
void cj__custom_free(cj_optim *o);

/* average.c: the parameters while the averages are in, and their return after a checkpoint that was written then. */
int cj__average_saved(cj_average *a, void (*visit)(void *user, const char *name, cj_tensor *t), void *user);
bool cj__average_resume(cj_average *a);

#endif
