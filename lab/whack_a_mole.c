/* whack-a-mole: a Markov chain forgets where it began.
 *
 * A mole shows its head in one of three holes and then changes holes with the probabilities
 *
 *          | .1 .4 .5 |
 *     P =  | .4 .0 .6 |        pi_{t+1} = pi_t P,   pi_1 = (1, 0, 0)
 *          | .0 .6 .4 |
 *
 * The distribution converges to the one that P leaves as it is, pi = pi P: (3/19, 27/76, 37/76).  A mole that is simulated spends that share of its time in each hole.
 */
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>

enum { TIMES = 25, MOVES = 200000 };

static const double P[9] = { .1, .4, .5, .4, .0, .6, .0, .6, .4 };

/* Shares of time of a simulated mole: next hole from a uniform number and the row of the present one. */
static void simulate(cj_ctx *c, double share[3])
{
    cj_scope s = cj_scope_open(c);
    static float u[MOVES];
    int64_t visits[3] = { 0 };
    cj_to_f32(cj_rand(c, CJ_SHAPE(MOVES)), u, MOVES);
    for (int t = 0, hole = 0; t < MOVES; t++) {
        visits[hole]++;
        const double *row = P + 3 * hole;
        hole = u[t] < row[0] ? 0 : u[t] < row[0] + row[1] ? 1 : 2;
    }
    for (int k = 0; k < 3; k++) share[k] = (double)visits[k] / MOVES;
    cj_scope_close(s);
}

static void draw(cj_ctx *c, cj_lab_record *r, double path[TIMES][3], const double share[3])
{
    cj_plot *p = cj_plot_new(c, "Where is the mole? It began in hole 1");
    cj_plot_labels(p, "move", "probability");
    cj_plot_range_y(p, 0, 1);
    enum { SEEN = 13 };
    double t[SEEN], y[SEEN];
    const double end[3] = { SEEN, SEEN, SEEN };
    for (int k = 0; k < 3; k++) {
        char label[32];
        snprintf(label, sizeof label, "hole %d", k + 1);
        for (int i = 0; i < SEEN; i++) t[i] = i + 1, y[i] = path[i][k];
        cj_plot_line(p, label, t, y, SEEN);
    }
    cj_plot_points(p, "share of time, simulated", end, share, 3);
    cj_lab_picture(r, c, p, "whack-a-mole");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *p = cj_from_f64(c, P, CJ_SHAPE(3, 3));
    if (control) p = cj_t(p); /* columns taken for rows */
    double path[TIMES][3] = { 0 }, limit[3], share[3];
    cj_tensor *pi = cj_from_f64(c, (double[]){ 1, 0, 0 }, CJ_SHAPE(1, 3));
    for (int t = 0; t < TIMES && cj_ok(c); t++) {
        cj_to_f64(pi, path[t], 3);
        pi = cj_matmul(pi, p);
    }
    for (int t = 0; t < 200 && cj_ok(c); t++) pi = cj_matmul(pi, p);
    cj_to_f64(pi, limit, 3);
    simulate(c, share);
    cj_scope_close(s);
    if (!cj_ok(c)) return;

    static const double expected[3][3] = { { .1, .4, .5 }, { .17, .34, .49 }, { .153, .362, .485 } };
    static const double stationary[3] = { 3.0 / 19, 27.0 / 76, 37.0 / 76 };
    char what[64];
    for (int t = 0; t < 3; t++)
        for (int k = 0; k < 3; k++) {
            snprintf(what, sizeof what, "pi_%d, hole %d", t + 2, k + 1);
            cj_lab_expect(r, what, expected[t][k], path[t + 1][k], 1e-12);
        }
    for (int k = 0; k < 3; k++) {
        snprintf(what, sizeof what, "limit, hole %d", k + 1);
        cj_lab_expect(r, what, stationary[k], limit[k], 1e-12);
    }
    for (int k = 0; k < 3; k++) {
        snprintf(what, sizeof what, "share of %d simulated moves, hole %d", MOVES, k + 1);
        cj_lab_expect(r, what, stationary[k], share[k], 0.005);
    }
    if (!control && cj_lab_wants_pictures(r)) draw(c, r, path, share);
}

const cj_lab cj_lab_whack_a_mole = {
    .name = "whack-a-mole",
    .claim = "the distribution of a Markov chain converges to the stationary one, (3/19, 27/76, 37/76), which is also the share of time "
             "spent in each state",
    .source = "A. A. Markov 1906",
    .control = "the transposed matrix: columns taken for rows",
    .run = run,
};
