/* Learning rates as functions of the step.
 *
 * A cj_rate is a plain value.  An optimiser that has one writes its rate tensor in an operator before each update, from the step count that lives in a tensor too: so
 * a captured step follows its schedule, and a resumed run goes on where it stopped.
 */
#include <math.h>

#include "optim/optim.h"

enum { CONSTANT, STEP, MULTI_STEP, EXPONENTIAL, COSINE, RESTARTS, POLYNOMIAL, ONE_CYCLE, INVERSE_TIME, INVERSE_ROOT };

static const double pi = 3.14159265358979323846;

/* ---- making them: what is wrong with the arguments is kept, and said when the schedule is used ------------------------------------------------------ */

static cj_rate checked(cj_rate r, bool ok, const char *problem)
{
    if (!(r.lr >= 0)) ok = false, problem = "the rate must not be negative";
    r.problem = ok ? NULL : problem;
    return r;
}

cj_rate cj_rate_constant(double lr) { return checked((cj_rate){ .kind = CONSTANT, .lr = lr }, true, NULL); }

cj_rate cj_rate_step(double lr, int64_t every, double factor)
{
    cj_rate r = { .kind = STEP, .lr = lr, .steps = every, .factor = factor };
    return checked(r, every > 0 && factor >= 0, "a step schedule needs a positive number of steps and a factor that is not negative");
}

cj_rate cj_rate_multi_step(double lr, const int64_t *milestones, int n, double factor)
{
    cj_rate r = { .kind = MULTI_STEP, .lr = lr, .n = n, .factor = factor };
    bool ok = n >= 0 && n <= CJ_MAX_MILESTONES && (n == 0 || milestones) && factor >= 0;
    for (int i = 0; i < n && ok; i++) {
        r.milestone[i] = milestones[i];
        ok = i == 0 || milestones[i] >= milestones[i - 1];
    }
    if (!ok) r.n = 0;
    return checked(r, ok, "milestones must rise, be at most 16, and the factor not be negative");
}

cj_rate cj_rate_exponential(double lr, double factor)
{
    cj_rate r = { .kind = EXPONENTIAL, .lr = lr, .factor = factor };
    return checked(r, factor >= 0, "the factor of an exponential schedule must not be negative");
}

cj_rate cj_rate_cosine(double lr, double low, int64_t steps)
{
    cj_rate r = { .kind = COSINE, .lr = lr, .low = low, .steps = steps };
    return checked(r, steps > 0 && low >= 0, "a cosine schedule needs a positive number of steps and a lowest rate that is not negative");
}

cj_rate cj_rate_cosine_restarts(double lr, double low, int64_t first, int64_t times)
{
    cj_rate r = { .kind = RESTARTS, .lr = lr, .low = low, .steps = first, .times = times };
    return checked(r, first > 0 && times >= 1 && low >= 0,
                   "warm restarts need a positive first length, a multiplier of at least 1 and a lowest rate that is not negative");
}

cj_rate cj_rate_polynomial(double lr, int64_t steps, double power)
{
    cj_rate r = { .kind = POLYNOMIAL, .lr = lr, .steps = steps, .factor = power };
    return checked(r, steps > 0 && power >= 0, "a polynomial schedule needs a positive number of steps and a power that is not negative");
}

cj_rate cj_rate_one_cycle(double highest, int64_t steps, const cj_one_cycle_opts *opts)
{
    cj_one_cycle_opts o = opts ? *opts : (cj_one_cycle_opts){ 0 };
    double rise = cj__value_or(o.rise, 0.3), start = cj__value_or(o.start_divisor, 25), end = cj__value_or(o.end_divisor, 1e4);
    cj_rate r = { .kind = ONE_CYCLE,
                  .lr = highest,
                  .start = highest / start,
                  .low = highest / start / end,
                  .steps = steps,
                  .factor = rise,
                  .linear = o.linear };
    return checked(r, steps > 1 && rise > 0 && rise < 1 && start > 0 && end > 0 && rise * (double)steps > 1,
                   "one cycle needs a share of rising steps in (0, 1) that is more than one step, and positive divisors");
}

cj_rate cj_rate_inverse_time(double beta, double offset)
{
    cj_rate r = { .kind = INVERSE_TIME, .lr = beta, .factor = offset };
    return checked(r, offset > 0, "the offset of a 1/t schedule must be positive");
}
cj_rate cj_rate_inverse_root(double beta, double offset)
{
    cj_rate r = { .kind = INVERSE_ROOT, .lr = beta, .factor = offset };
    return checked(r, offset > 0, "the offset of a 1/sqrt(t) schedule must be positive");
}

cj_rate cj_rate_warmup(cj_rate r, int64_t steps, double start)
{
    r.warmup = steps;
    r.warmup_start = start;
    if (!r.problem && !(steps >= 0 && start >= 0)) r.problem = "a warm-up must not have a negative length or start";
    return r;
}

/* ---- their values ------------------------------------------------------------------------------------------------------------------------------------- */

static double half_cosine(double from, double to, double share) { return to + (from - to) * (1 + cos(pi * share)) / 2; }

static double one_cycle(const cj_rate *r, double t)
{
    double top = r->factor * (double)r->steps - 1, last = (double)r->steps - 1; /* the step of the highest rate need not be whole */
    double share = t <= top ? t / top : t >= last ? 1 : (t - top) / (last - top);
    double from = t <= top ? r->start : r->lr, to = t <= top ? r->lr : r->low;
    return r->linear ? from + (to - from) * share : half_cosine(from, to, share);
}

static double restarts(const cj_rate *r, int64_t t)
{
    int64_t length = r->steps;
    if (r->times == 1) t %= length;
    while (t >= length) { /* lengths grow geometrically: a few rounds */
        t -= length;
        length = length > INT64_MAX / r->times ? INT64_MAX : length * r->times;
    }
    return half_cosine(r->lr, r->low, (double)t / (double)length);
}

static double plain(const cj_rate *r, int64_t step)
{
    double t = (double)step;
    int64_t passed = 0;
    switch (r->kind) {
    case STEP: passed = step / r->steps; return r->lr * pow(r->factor, (double)passed);
    case MULTI_STEP:
        while (passed < r->n && r->milestone[passed] <= step) passed++;
        return r->lr * pow(r->factor, (double)passed);
    case EXPONENTIAL: return r->lr * pow(r->factor, t);
    case COSINE: return half_cosine(r->lr, r->low, step < r->steps ? t / (double)r->steps : 1);
    case RESTARTS: return restarts(r, step);
    case POLYNOMIAL: return r->lr * pow(step < r->steps ? 1 - t / (double)r->steps : 0, r->factor);
    case ONE_CYCLE: return one_cycle(r, t);
    case INVERSE_TIME: return r->lr / (t + r->factor);
    case INVERSE_ROOT: return r->lr / sqrt(t + r->factor);
    default: return r->lr;
    }
}

double cj_rate_at(const cj_rate *r, int64_t step)
{
    if (!r || r->problem || step < 0) return NAN;
    if (step >= r->warmup) return plain(r, step - r->warmup);
    return plain(r, 0) * (r->warmup_start + (1 - r->warmup_start) * (double)step / (double)r->warmup);
}

/* ---- inside an optimiser: rate <- schedule(step) --------------------------------------------------------------------------------------------------------- */

static bool infer_rate(cj_call *call) { return call->nin == 2; }
static bool run_rate(cj_call *call)
{
    *(double *)call->in[0]->data = cj_rate_at(call->attrs, (int64_t) * (const double *)call->in[1]->data);
    return true;
}
static const cj_op rate_op = { .name = "learning_rate",
                               .family = "update",
                               .kind = CJ_WRITE,
                               .flags = CJ_OP_WRITES | CJ_OP_NOGRAD,
                               .nin = 2,
                               .nout = 0,
                               .attr_size = sizeof(cj_rate),
                               .infer = infer_rate,
                               .run = run_rate };

bool cj__optim_write_rate(cj_optim *o)
{
    cj_tensor *in[2] = { o->lr, NULL }, *none;
    for (int t = CJ_F32; t <= CJ_F16 && !in[1]; t++) in[1] = o->step[t];
    return cj__apply_n(o->ctx, &rate_op, &o->rate, in, 2, &none);
}

bool cj_optim_schedule(cj_optim *o, const cj_rate *r)
{
    if (!o || o->ctx->error) return false;
    if (r && r->problem) return cj__error(o->ctx, CJ_EVALUE, "schedule: %s", r->problem);
    o->scheduled = r != NULL;
    if (r) o->rate = *r;
    return true;
}

/* ---- plateau ------------------------------------------------------------------------------------------------------------------------------------------------ */

double cj_batch_scaled_lr(double lr, int64_t from, int64_t to, double most)
{
    if (!(lr >= 0) || from < 1 || to < 1 || !(most >= 0)) return NAN;
    double scaled = lr * (double)to / (double)from;
    return most > 0 && scaled > most ? most : scaled;
}

double cj_plateau_lr(cj_plateau *p, double loss)
{
    if (!p) return NAN;
    double factor = cj__value_or(p->factor, 0.1), threshold = cj__value_or(p->threshold, 1e-4);
    int64_t patience = p->patience == 0 ? 10 : p->patience < 0 ? 0 : p->patience;
    if (!p->started) p->best = INFINITY;
    p->started = true;
    if (loss < p->best * (1 - threshold)) {
        p->best = loss;
        p->bad = 0;
    } else {
        p->bad++;
    }
    if (p->resting > 0) {
        p->resting--;
        p->bad = 0;
    }
    if (p->bad > patience) {
        double next = fmax(p->lr * factor, p->least);
        if (p->lr - next > 1e-8) p->lr = next; /* smaller steps are none, as in PyTorch */
        p->resting = p->cooldown;
        p->bad = 0;
    }
    return p->lr;
}
