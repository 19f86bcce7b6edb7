/* sequence-cost: what T steps of width p cost a recurrent network and self-attention.
 *
 *     recurrent    h_t = tanh(W h_{t-1} + U x_t):          4·T·p² operations, T of them one after the other
 *     attention    softmax(q kᵀ/sqrt(p)) v of q, k, v = Wx: 6·T·p² for the maps and 4·T²·p for the two products with the T x T matrix, all steps at once
 *
 * The products with the matrix cost as much as the recurrent network where T = p; beyond it time and memory grow with T², unless blocks of the matrix are used up as they
 * are made (Dao et al. 2022), which cures the memory but not the time.  Vaswani et al. 2017, table 1.  Operations are counted by the profiler; times are processor times on
 * one thread, the least of several runs.
 */
#include "lab/lab.h"

#include <math.h>
#include <time.h>

enum { WIDTH = 64, COUNTED = 5, TIMED = 4 };

typedef enum { RECURRENT, EXPLICIT, BLOCKED } way;

typedef struct cost {
    double flops, seconds, bytes;
} cost;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cj_tensor *pass(way how, cj_tensor *x, cj_tensor *w, cj_tensor *u)
{
    if (how == RECURRENT) return cj_rnn(x, u, w, NULL, NULL).y;
    if (how == BLOCKED) return cj_attention(x, x, x);
    cj_tensor *scores = cj_mul_scalar(cj_matmul(x, cj_t(x)), 1 / sqrt((double)cj_size(x, 1)));
    return cj_matmul(cj_softmax(scores, -1), x);
}

/* One forward pass over T steps: operations, the least time, the most memory at once. Attention is that of x with itself; maps before it would add 6·T·p². */
static cost measure(cj_ctx *c, way how, int64_t T, int runs)
{
    cost k = { .seconds = INFINITY };
    cj_scope s = cj_scope_open(c);
    bool was = cj_no_grad(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(T, WIDTH)), *w = cj_mul_scalar(cj_randn(c, CJ_SHAPE(WIDTH, WIDTH)), 0.1), *u = cj_clone(w);
    double before = (double)cj_memory_stats(c).live;
    cj_memory_reset_peak(c);
    for (int run = 0; run < runs && cj_ok(c); run++) {
        cj_profile_row row[32];
        cj_scope inner = cj_scope_open(c);
        if (run == 0) cj_profile_start(c);
        double start = now();
        pass(how, x, w, u);
        if (run > 0) k.seconds = fmin(k.seconds, now() - start); /* the first run is the profiler's */
        if (run == 0)
            for (int i = 0, n = cj_profile_stop(c, row, 32); i < n && i < 32; i++) k.flops += row[i].flops;
        cj_scope_close(inner);
    }
    k.bytes = (double)cj_memory_stats(c).peak - before;
    cj_grad_mode(c, was);
    cj_scope_close(s);
    return k;
}

static double slope(double a, double b, double from, double to) { return log(b / a) / log(to / from); }

static void draw(cj_ctx *c, cj_lab_record *r, const double *T, double (*seconds)[TIMED])
{
    cj_plot *p = cj_plot_new(c, "Seconds of a pass over T steps of width 64, one thread");
    cj_plot_labels(p, "T", "seconds");
    cj_plot_log(p, true, true);
    cj_plot_line(p, "recurrent", T, seconds[RECURRENT], TIMED);
    cj_plot_line(p, "attention, whole matrix", T, seconds[EXPLICIT], TIMED);
    cj_plot_line(p, "attention, in blocks", T, seconds[BLOCKED], TIMED);
    cj_lab_picture(r, c, p, "sequence-cost");
}

static void run(cj_ctx *outer, cj_lab_record *r, bool control)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 1, .threads = 1 });
    if (!c) return (void)cj_fail(outer, CJ_EMEMORY, "sequence-cost: out of memory");
    way attention = control ? RECURRENT : EXPLICIT;
    /* operations: where the two lines cross */
    static const double few[COUNTED] = { 16, 32, 64, 128, 256 };
    double crossing = 0, before = 0;
    for (int i = 0; i < COUNTED; i++) {
        double ratio = measure(c, attention, (int64_t)few[i], 1).flops / measure(c, RECURRENT, (int64_t)few[i], 1).flops;
        cj_lab_say(r, "T = %3.0f: attention takes %.2f times the operations of the recurrent network", few[i], ratio);
        if (before < 1 && ratio >= 1) crossing = i ? few[i] * pow(before / ratio, log(1 / ratio) / log(before / ratio)) : few[i];
        before = ratio;
    }
    /* times and memory far beyond it */
    static const double T[TIMED] = { 512, 1024, 2048, 4096 };
    static double seconds[3][TIMED], bytes[3][TIMED];
    for (int how = 0; how < 3; how++)
        for (int i = 0; i < TIMED; i++) {
            cost k = measure(c, how == EXPLICIT ? attention : (way)how, (int64_t)T[i], how == RECURRENT ? 8 : 4);
            seconds[how][i] = k.seconds, bytes[how][i] = k.bytes;
        }
    if (cj_ok(c)) {
        for (int i = 0; i < TIMED; i++)
            cj_lab_say(r, "T = %4.0f: recurrent %.2f ms, attention %.2f ms, in blocks %.2f ms", T[i], 1e3 * seconds[0][i],
                       1e3 * seconds[1][i], 1e3 * seconds[2][i]);
        cj_lab_expect(r, "T where attention's products take the operations of a recurrent network of width 64", WIDTH, crossing,
                      WIDTH / 4.0);
        cj_lab_expect(r, "recurrent: power of T in the time", 1, slope(seconds[RECURRENT][0], seconds[RECURRENT][3], T[0], T[3]), 0.2);
        cj_lab_expect(r, "attention: power of T in the time", 2, slope(seconds[EXPLICIT][0], seconds[EXPLICIT][3], T[0], T[3]), 0.3);
        cj_lab_expect(r, "attention in blocks: power of T in the time", 2, slope(seconds[BLOCKED][0], seconds[BLOCKED][3], T[0], T[3]),
                      0.3);
        cj_lab_expect(r, "recurrent: power of T in the memory", 1, slope(bytes[RECURRENT][0], bytes[RECURRENT][3], T[0], T[3]), 0.1);
        cj_lab_expect(r, "attention: power of T in the memory", 2, slope(bytes[EXPLICIT][0], bytes[EXPLICIT][3], T[0], T[3]), 0.1);
        cj_lab_expect(r, "attention in blocks: power of T in the memory", 1, slope(bytes[BLOCKED][0], bytes[BLOCKED][3], T[0], T[3]), 0.1);
        if (!control && cj_lab_wants_pictures(r)) draw(outer, r, T, seconds);
    } else {
        cj_fail(outer, cj_error(c), "%s", cj_message(c));
    }
    cj_ctx_free(c);
}

const cj_lab cj_lab_sequence_cost = {
    .name = "sequence-cost",
    .claim = "a recurrent network costs T·p² operations one step after the other, self-attention T²·p at once: they cross near T = p, and "
             "then its time and memory grow with T²",
    .source = "Vaswani et al. 2017",
    .control = "a recurrent network in attention's place",
    .run = run,
};
