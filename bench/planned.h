/* Planned steps of single operators beside the same in PyTorch: what the benchmarks of operators share. */
#ifndef CJ_BENCH_PLANNED_H
#define CJ_BENCH_PLANNED_H

#include <cajal/cajal.h>

#include "bench/bench.h"

/* A planned function of fixed inputs. */
typedef struct bench_planned {
    cj_ctx *c;
    cj_tensor *in[8]; /* kept; the plan's inputs */
    int n;
    cj_tensor *param[8]; /* parameters of the operator, if it has some */
    const void *arg;     /* of the case */
    cj_plan *plan;
} bench_planned;

/* Captures fn(c, user = p, p->in) and replays it until it is compiled. false after an error in p->c. */
bool bench_planned_capture(bench_planned *p, cj_step_fn fn);
bool bench_planned_replay(void *planned);

typedef struct bench_case {
    const char *name;
    void (*make)(bench_planned *p); /* fills in, n and param in p->c */
    cj_step_fn step;                /* its user is the bench_planned */
    const void *arg;
    double bytes, flops; /* that one step has to move and to compute at least; 0: not counted */
    double target;       /* ratio that is asked for, or 80 % of the limit */
} bench_case;

/* Measures the cases in turn beside the measurements of a peer's script, which come in the same order; prints a row for each. The limit is the larger of the times that
 * a copy of `bytes` and `flops` multiply-adds take. */
bool bench_cases(bench_run *r, const char *script, const char *argument, const bench_case *cases, int n);

#endif
