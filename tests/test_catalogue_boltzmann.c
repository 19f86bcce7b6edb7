/* The catalogue's rows on Boltzmann machines, bm.* by name: everything against sums over all states in plain loops, in f64. */
#include "support.h"

TEST_CONTEXT(.threads = 2, .seed = 31);

enum { MOST = 8 };

static cj_tensor *normal(cj_shape s, double std) { return cj_mul_scalar(cj_randn(c, s, .dtype = CJ_F64), std); }
static int bit(int x, int k) { return x >> k & 1; }
static double logistic(double a) { return 1 / (1 + exp(-a)); }
static cj_tensor *row(int x, int n)
{
    double v[MOST];
    for (int k = 0; k < n; k++) v[k] = bit(x, k);
    return f64(c, v, CJ_SHAPE(n));
}
static cj_tensor *leaf(cj_tensor *t) { return cj_require_grad(t); }

/* ---- pairs of visible units ------------------------------------------------------------------------------------------------------------------- */

/* xᵀUx + bᵀx */
static double quadratic(const double *U, const double *b, int n, int x)
{
    double s = 0;
    for (int i = 0; i < n; i++) {
        s += bit(x, i) * b[i];
        for (int j = 0; j < n; j++) s += bit(x, i) * bit(x, j) * U[i * n + j];
    }
    return s;
}

/* bm.pairwise-mrf: conditionals are those of the table; two nodes with theta_12 = 1 */
static void bm_pairwise_mrf(void **state)
{
    (void)state;
    enum { N = 5 };
    cj_tensor *U = cj_triu(normal(CJ_SHAPE(N, N), 1), 1), *b = normal(CJ_SHAPE(N), 1);
    double *u = values_of(U), *v = values_of(b), p[1 << N], Z = 0;
    for (int x = 0; x < 1 << N; x++) Z += p[x] = exp(quadratic(u, v, N, x));
    assert_near(cj_item(cj_boltzmann_log_partition(U, b)), log(Z), 1e-12);
    double *field = values_of(cj_boltzmann_field(cj_binary_states(c, N, CJ_F64), U, b));
    for (int x = 0; x < 1 << N; x++)
        for (int k = 0; k < N; k++) assert_near(logistic(field[x * N + k]), p[x | 1 << k] / (p[x | 1 << k] + p[x & ~(1 << k)]), 1e-12);
    free(u), free(v), free(field);
    cj_tensor *pair = F64(c, CJ_SHAPE(2, 2), 0, 1, 0, 0), *none = F64(c, CJ_SHAPE(2), 0, 0);
    assert_near(exp(cj_item(cj_boltzmann_log_partition(pair, none))), 5.7183, 5e-5);
    double *e = values_of(cj_boltzmann_energy(cj_binary_states(c, 2, CJ_F64), pair, none));
    assert_near((exp(-e[1]) + exp(-e[3])) / (3 + exp(1)), 0.65026, 2e-5); /* (1 + e)/(3 + e) = 0.650245 */
    free(e);
    assert_poisoned(CJ_ESHAPE, "boltzmann_energy: x", cj_boltzmann_energy(F64(c, CJ_SHAPE(3), 0, 1, 0), pair, none));
    assert_poisoned(CJ_EVALUE, "binary_states: 21 units; 1 to 20 expected", cj_binary_states(c, 21, CJ_F64));
    assert_poisoned(CJ_EVALUE, "boltzmann_gibbs: -1 sweeps", cj_boltzmann_gibbs(cj_zeros(c, CJ_SHAPE(3, 2), CJ_F64), pair, none, -1));
}

/* bm.quadratic-energy: the same energies for U, for (U + Uᵀ)/2, and with the diagonal in the bias */
static void bm_quadratic_energy(void **state)
{
    (void)state;
    enum { N = 5 };
    cj_tensor *U = normal(CJ_SHAPE(N, N), 1), *b = normal(CJ_SHAPE(N), 1), *x = cj_binary_states(c, N, CJ_F64);
    cj_tensor *symmetric = cj_mul_scalar(cj_add(U, cj_t(U)), 0.5), *own = cj_diagonal(U, 0, 0, 1);
    cj_tensor *hollow = cj_add(cj_triu(U, 1), cj_tril(U, -1)), *E = cj_boltzmann_energy(x, U, b);
    double *e = values_of(E), *u = values_of(U), *v = values_of(b);
    for (int i = 0; i < 1 << N; i++) assert_near(e[i], -quadratic(u, v, N, i), 1e-13);
    assert_near(distance(E, cj_boltzmann_energy(x, symmetric, b)), 0, 1e-13);
    assert_near(distance(E, cj_boltzmann_energy(x, hollow, cj_add(b, own))), 0, 1e-13);
    assert_near(distance(cj_softmax(cj_neg(E), 0), cj_softmax(cj_neg(cj_boltzmann_energy(x, symmetric, b)), 0)), 0, 1e-14);
    double *field = values_of(cj_boltzmann_field(x, U, b));
    for (int i = 0; i < 1 << N; i++)
        for (int k = 0; k < N; k++) {
            double want = v[k] + u[k * N + k];
            for (int j = 0; j < N; j++) want += j == k ? 0 : (u[k * N + j] + u[j * N + k]) * bit(i, j);
            assert_near(field[i * N + k], want, 1e-13);
            assert_near(field[i * N + k], e[i & ~(1 << k)] - e[i | 1 << k], 1e-13); /* what the energy says */
        }
    free(e), free(u), free(v), free(field);
}

/* -mean log p(x) of the rows in user; parameters U (above the diagonal) and b */
static cj_tensor *visible_loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_tensor *U = cj_triu(in[0], 1);
    return cj_add(cj_mean(cj_boltzmann_energy(user, U, in[1])), cj_boltzmann_log_partition(U, in[1]));
}

/* bm.visible-mle: the gradient is the difference of moments; where it ends they are equal */
static void bm_visible_mle(void **state)
{
    (void)state;
    enum { N = 3, ROWS = 10 };
    static const int data[ROWS] = { 0, 1, 2, 3, 3, 4, 5, 6, 7, 7 };
    double v[ROWS * N];
    for (int i = 0; i < ROWS * N; i++) v[i] = bit(data[i / N], i % N);
    cj_tensor *x = cj_keep(f64(c, v, CJ_SHAPE(ROWS, N))), *theta[2] = { normal(CJ_SHAPE(N, N), 0.5), normal(CJ_SHAPE(N), 0.5) }, *g[2];
    cj_gradcheck_result r = cj_gradcheck(c, visible_loss, x, theta, 2);
    if (!r.ok) fail_msg("%s", r.what);
    cj_tensor *of_data = cj_mul_scalar(cj_matmul(cj_t(x), x), 1.0 / ROWS), *all = cj_binary_states(c, N, CJ_F64);
    for (int step = 0; step <= 4000; step++) {
        cj_scope s = cj_scope_open(c);
        for (int i = 0; i < 2; i++) theta[i] = leaf(theta[i]);
        assert_true(cj_grad(visible_loss(c, x, theta, 2), theta, 2, g));
        if (step == 0 || step == 4000) {
            cj_tensor *p = cj_softmax(cj_neg(cj_boltzmann_energy(all, cj_triu(theta[0], 1), theta[1])), 0);
            cj_tensor *moments = cj_matmul(cj_t(all), cj_mul(all, cj_unsqueeze(p, 1)));
            cj_tensor *gap = cj_sub(moments, of_data);
            assert_near(distance(g[0], cj_triu(gap, 1)), 0, 1e-12);
            assert_near(distance(g[1], cj_diagonal(gap, 0, 0, 1)), 0, 1e-12);
            if (step) assert_near(cj_item(cj_max(cj_abs(gap))), 0, 1e-6);
            else assert_true(cj_item(cj_max(cj_abs(gap))) > 1e-2);
        }
        cj_tensor *next = cj_cat(CJ_TENSORS(cj_sub(theta[0], g[0]), cj_unsqueeze(cj_sub(theta[1], g[1]), 0)), 2, 0); /* rate 1 */
        next = cj_scope_return(s, next);
        theta[0] = cj_slice(next, 0, 0, N, 1);
        theta[1] = cj_select(next, 0, N);
    }
}

/* ---- restricted machines ---------------------------------------------------------------------------------------------------------------------- */

enum { V = 5, H = 4 };

typedef struct tables {
    cj_rbm r;
    double *W, *b, *c;
    double joint[1 << V][1 << H], p[1 << V], Z; /* p(x, h), p(x) */
} tables;

static double minus_energy(const tables *t, int x, int h)
{
    double s = 0;
    for (int j = 0; j < H; j++) s += bit(h, j) * t->b[j];
    for (int k = 0; k < V; k++) {
        s += bit(x, k) * t->c[k];
        for (int j = 0; j < H; j++) s += bit(h, j) * bit(x, k) * t->W[j * V + k];
    }
    return s;
}
static tables enumerate(double std)
{
    tables t = { .r = { normal(CJ_SHAPE(H, V), std), normal(CJ_SHAPE(H), std), normal(CJ_SHAPE(V), std) } };
    t.W = values_of(t.r.W), t.b = values_of(t.r.b), t.c = values_of(t.r.c);
    for (int x = 0; x < 1 << V; x++)
        for (int h = 0; h < 1 << H; h++) t.Z += t.joint[x][h] = exp(minus_energy(&t, x, h));
    for (int x = 0; x < 1 << V; x++)
        for (int h = 0; h < 1 << H; h++) t.joint[x][h] /= t.Z, t.p[x] += t.joint[x][h];
    return t;
}
static void forget(tables *t) { free(t->W), free(t->b), free(t->c); }

/* bm.rbm: factorised conditionals are those of the joint table */
static void bm_rbm(void **state)
{
    (void)state;
    tables t = enumerate(1);
    double *up = values_of(cj_rbm_hidden(t.r, cj_binary_states(c, V, CJ_F64)));
    double *down = values_of(cj_rbm_visible(t.r, cj_binary_states(c, H, CJ_F64)));
    for (int x = 0; x < 1 << V; x++)
        for (int h = 0; h < 1 << H; h++) {
            double of_h = 0, given_x = 1, given_h = 1;
            for (int y = 0; y < 1 << V; y++) of_h += t.joint[y][h];
            for (int j = 0; j < H; j++) given_x *= bit(h, j) ? up[x * H + j] : 1 - up[x * H + j];
            for (int k = 0; k < V; k++) given_h *= bit(x, k) ? down[h * V + k] : 1 - down[h * V + k];
            assert_near(given_x, t.joint[x][h] / t.p[x], 1e-12);
            assert_near(given_h, t.joint[x][h] / of_h, 1e-12);
            assert_near(cj_item(cj_rbm_energy(t.r, row(x, V), row(h, H))), -minus_energy(&t, x, h), 1e-12);
        }
    free(up), free(down);
    forget(&t);
    assert_poisoned(CJ_ESHAPE, "rbm_hidden: W [4, 5], b [4], c [5], rows [4]; [hidden, visible]", cj_rbm_hidden(t.r, row(0, H)));
}

/* bm.free-energy: -F is the logarithm of the sum over h; p(x) = exp(-F)/Z; safe at ±500 */
static void bm_free_energy(void **state)
{
    (void)state;
    tables t = enumerate(1);
    double *F = values_of(cj_rbm_free_energy(t.r, cj_binary_states(c, V, CJ_F64))), total = 0, log_Z = cj_item(cj_rbm_log_partition(t.r));
    assert_near(log_Z, log(t.Z), 1e-12);
    for (int x = 0; x < 1 << V; x++) {
        double sum = 0, experts = 1;
        for (int h = 0; h < 1 << H; h++) sum += exp(minus_energy(&t, x, h));
        assert_near(-F[x], log(sum), 1e-12);
        assert_near(exp(-F[x] - log_Z), t.p[x], 1e-12);
        total += exp(-F[x] - log_Z);
        for (int k = 0; k < V; k++) experts *= bit(x, k) ? exp(t.c[k]) : 1;
        for (int j = 0; j < H; j++) {
            double a = t.b[j];
            for (int k = 0; k < V; k++) a += t.W[j * V + k] * bit(x, k);
            experts *= 1 + exp(a); /* a product of experts */
        }
        assert_near(exp(-F[x]) / experts, 1, 1e-12);
    }
    assert_near(total, 1, 1e-12);
    free(F);
    forget(&t);
    cj_rbm loud = { cj_zeros(c, CJ_SHAPE(H, V), CJ_F64), cj_full(c, 500, CJ_SHAPE(H), CJ_F64), cj_zeros(c, CJ_SHAPE(V), CJ_F64) };
    assert_near(cj_item(cj_rbm_free_energy(loud, row(3, V))), -500.0 * H, 1e-12);
    loud.b = cj_neg(loud.b);
    assert_near(cj_item(cj_rbm_free_energy(loud, row(3, V))), -H * exp(-500), 0);
}

static cj_tensor *exact_loss(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    cj_rbm r = { in[0], in[1], in[2] };
    return cj_add(cj_mean(cj_rbm_free_energy(r, user)), cj_rbm_log_partition(r));
}

/* bm.nll-grad: against finite differences, against the two means of the formula; full gradients end at the entropy of the data */
static void bm_nll_grad(void **state)
{
    (void)state;
    tables t = enumerate(0.8);
    static const int data[6] = { 3, 7, 7, 20, 31, 9 };
    double v[6 * V], want[H * V] = { 0 };
    for (int i = 0; i < 6 * V; i++) v[i] = bit(data[i / V], i % V);
    cj_tensor *x = f64(c, v, CJ_SHAPE(6, V)), *theta[3] = { leaf(t.r.W), leaf(t.r.b), leaf(t.r.c) }, *g[3];
    cj_gradcheck_result r = cj_gradcheck(c, exact_loss, x, theta, 3, .tolerance = 1e-7);
    if (!r.ok) fail_msg("%s", r.what);
    assert_true(cj_grad(exact_loss(c, x, theta, 3), theta, 3, g));
    double *h = values_of(cj_rbm_hidden(t.r, x)), *got = values_of(g[0]);
    for (int j = 0; j < H; j++)
        for (int k = 0; k < V; k++) {
            for (int i = 0; i < 6; i++) want[j * V + k] -= h[i * H + j] * v[i * V + k] / 6;
            for (int y = 0; y < 1 << V; y++)
                for (int u = 0; u < 1 << H; u++) want[j * V + k] += t.joint[y][u] * bit(u, j) * bit(y, k);
            assert_near(got[j * V + k], want[j * V + k], 1e-12);
        }
    free(h), free(got);
    forget(&t);
    /* 00 and 11 three times each, 01 and 10 once: any law of two bits has a machine with one hidden unit */
    static const int pairs[8] = { 0, 0, 0, 3, 3, 3, 1, 2 };
    double w[16], loss = 0;
    for (int i = 0; i < 16; i++) w[i] = bit(pairs[i / 2], i % 2);
    cj_tensor *rows = cj_keep(f64(c, w, CJ_SHAPE(8, 2)));
    cj_tensor *flat = F64(c, CJ_SHAPE(5), 0.5, 0.7, 0, 0, 0); /* W [1, 2], b [1], c [2] */
    for (int step = 0; step < 5000; step++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *at = leaf(flat), *slope,
                  *part[3] = { cj_unsqueeze(cj_slice(at, 0, 0, 2, 1), 0), cj_slice(at, 0, 2, 3, 1), cj_slice(at, 0, 3, 5, 1) };
        cj_tensor *l = exact_loss(c, rows, part, 3);
        loss = cj_item(l);
        assert_true(cj_grad(l, &at, 1, &slope));
        flat = cj_scope_return(s, cj_sub(flat, cj_mul_scalar(slope, 0.5)));
    }
    double entropy = -0.75 * log(0.375) - 0.25 * log(0.125);
    assert_true(loss >= entropy - 1e-12);
    assert_near(loss, entropy, 1e-4);
}

/* ---- chains ----------------------------------------------------------------------------------------------------------------------------------- */

/* T[x][y]: one block Gibbs step, exactly */
static void transitions(const tables *t, double T[1 << V][1 << V])
{
    double *up = values_of(cj_rbm_hidden(t->r, cj_binary_states(c, V, CJ_F64)));
    double *down = values_of(cj_rbm_visible(t->r, cj_binary_states(c, H, CJ_F64)));
    for (int x = 0; x < 1 << V; x++)
        for (int y = 0; y < 1 << V; y++) {
            T[x][y] = 0;
            for (int h = 0; h < 1 << H; h++) {
                double p = 1;
                for (int j = 0; j < H; j++) p *= bit(h, j) ? up[x * H + j] : 1 - up[x * H + j];
                for (int k = 0; k < V; k++) p *= bit(y, k) ? down[h * V + k] : 1 - down[h * V + k];
                T[x][y] += p;
            }
        }
    free(up), free(down);
}

/* bm.gibbs-block: long chains have the exact marginals; frequencies of one step from every state leave p(x) as it is */
static void bm_gibbs_block(void **state)
{
    (void)state;
    enum { CHAINS = 40000, EACH = 4000 };
    tables t = enumerate(0.7);
    cj_tensor *x = cj_rbm_gibbs(t.r, cj_zeros(c, CJ_SHAPE(CHAINS, V), CJ_F64), 60);
    double *mean = values_of(cj_mean(x, .axes = CJ_AXIS(0)));
    for (int k = 0; k < V; k++) {
        double exact = 0;
        for (int y = 0; y < 1 << V; y++) exact += bit(y, k) * t.p[y];
        assert_near(mean[k], exact, 5 * 0.5 / sqrt(CHAINS));
    }
    free(mean);
    cj_tensor *all = cj_binary_states(c, V, CJ_F64);
    cj_tensor *from = cj_reshape(cj_expand(cj_unsqueeze(all, 1), CJ_SHAPE(1 << V, EACH, V)), CJ_SHAPE(EACH << V, V));
    double *to = values_of(cj_rbm_gibbs(t.r, from, 1)), after[1 << V] = { 0 }, T[1 << V][1 << V], frequency[1 << V][1 << V] = { 0 };
    for (int i = 0; i < EACH << V; i++) {
        int y = 0;
        for (int k = 0; k < V; k++) y |= to[i * V + k] != 0 ? 1 << k : 0;
        frequency[i / EACH][y] += 1.0 / EACH;
    }
    transitions(&t, T);
    for (int y = 0; y < 1 << V; y++) {
        double variance = 0, exact = 0;
        for (int i = 0; i < 1 << V; i++) {
            after[y] += t.p[i] * frequency[i][y];
            exact += t.p[i] * T[i][y];
            variance += t.p[i] * t.p[i] * T[i][y] * (1 - T[i][y]) / EACH;
        }
        assert_near(exact, t.p[y], 1e-12); /* p is stationary for the conditionals themselves */
        assert_near(after[y], t.p[y], 5 * sqrt(variance));
    }
    free(to);
    forget(&t);
}

/* -sum_x q(x) h(x) xᵀ */
static void statistic(const double *up, const double *q, double out[H * V])
{
    for (int i = 0; i < H * V; i++) out[i] = 0;
    for (int x = 0; x < 1 << V; x++)
        for (int i = 0; i < H * V; i++) out[i] -= q[x] * up[x * H + i / V] * bit(x, i % V);
}

/* lab.cd-bias: the mean of CD-k's gradient, exactly, goes to the true one as k grows; and the loss has that gradient */
static void lab_cd_bias(void **state)
{
    (void)state;
    tables t = enumerate(1);
    double T[1 << V][1 << V], q[1 << V] = { 0 }, positive[H * V], model[H * V], negative[H * V], bias[51], cosine[51];
    transitions(&t, T);
    double *up = values_of(cj_rbm_hidden(t.r, cj_binary_states(c, V, CJ_F64)));
    q[3] = q[12] = q[21] = q[30] = 0.25; /* the data */
    statistic(up, q, positive);
    statistic(up, t.p, model);
    for (int k = 1; k <= 50; k++) {
        double next[1 << V] = { 0 }, exact2 = 0, cd2 = 0, dot = 0, gap2 = 0;
        for (int x = 0; x < 1 << V; x++)
            for (int y = 0; y < 1 << V; y++) next[y] += q[x] * T[x][y];
        memcpy(q, next, sizeof q);
        statistic(up, q, negative);
        for (int i = 0; i < H * V; i++) {
            double exact = positive[i] - model[i], cd = positive[i] - negative[i];
            exact2 += exact * exact, cd2 += cd * cd, dot += exact * cd, gap2 += (cd - exact) * (cd - exact);
        }
        bias[k] = sqrt(gap2);
        cosine[k] = dot / sqrt(exact2 * cd2);
    }
    static const int each[] = { 1, 2, 5, 10, 50 };
    assert_true(cosine[1] > 0);
    for (int i = 1; i < 5; i++) {
        assert_true(bias[each[i]] < bias[each[i - 1]]);
        assert_true(cosine[each[i]] > cosine[each[i - 1]] || cosine[each[i]] > 1 - 1e-9);
    }
    assert_true(bias[50] < 0.05 * bias[1] && cosine[50] > 0.999);
    free(up);
    /* the loss: gradient -mean h(x)xᵀ + mean h(y)yᵀ, and the same for both biases */
    cj_tensor *x = cj_slice(cj_binary_states(c, V, CJ_F64), 0, 8, 14, 1), *y = cj_slice(cj_binary_states(c, V, CJ_F64), 0, 20, 26, 1);
    cj_tensor *in[3] = { leaf(t.r.W), leaf(t.r.b), leaf(t.r.c) }, *g[3], *hx = cj_rbm_hidden(t.r, x), *hy = cj_rbm_hidden(t.r, y);
    assert_true(cj_grad(cj_rbm_contrastive_loss((cj_rbm){ in[0], in[1], in[2] }, x, y), in, 3, g));
    cj_tensor *dW = cj_sub(cj_matmul(cj_t(hy), y), cj_matmul(cj_t(hx), x));
    assert_near(distance(g[0], cj_mul_scalar(dW, 1.0 / 6)), 0, 1e-13);
    assert_near(distance(g[1], cj_mean(cj_sub(hy, hx), .axes = CJ_AXIS(0))), 0, 1e-13);
    assert_near(distance(g[2], cj_mean(cj_sub(y, x), .axes = CJ_AXIS(0))), 0, 1e-13);
    forget(&t);
}

/* Gibbs sweeps of a machine with all connections have the exact marginals, too. */
static void sweeps_have_the_marginals(void **state)
{
    (void)state;
    enum { N = 4, CHAINS = 20000 };
    cj_tensor *U = cj_triu(normal(CJ_SHAPE(N, N), 0.7), 1), *b = normal(CJ_SHAPE(N), 0.5), *all = cj_binary_states(c, N, CJ_F64);
    cj_tensor *p = cj_softmax(cj_neg(cj_boltzmann_energy(all, U, b)), 0), *exact = cj_matmul(p, all);
    cj_tensor *x = cj_boltzmann_gibbs(cj_zeros(c, CJ_SHAPE(CHAINS, N), CJ_F64), U, b, 30);
    assert_near(distance(cj_mean(x, .axes = CJ_AXIS(0)), exact), 0, 5 * 0.5 / sqrt(CHAINS));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- digits ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* Share of test digits that a softmax regression on these features tells right. */
static double linear_classes(cj_tensor *x, cj_tensor *y, cj_tensor *test, cj_tensor *test_y)
{
    cj_module *m = cj_linear(c, cj_size(x, 1), 10);
    cj_optim *o = cj_adam(cj_module_params(m), .lr = 0.01);
    for (int i = 0; i < 300; i++) {
        cj_scope s = cj_scope_open(c);
        assert_true(cj_minimise(o, cj_cross_entropy(cj_forward(m, x), y)));
        cj_scope_close(s);
    }
    return cj_accuracy(cj_forward(m, test), test_y);
}

/* bm.cd-k: CD-1 on binary digits: what comes back from one Gibbs step is nearer to what went in, and the hidden units are better features than random ones; the exact -log p of a small
 * machine falls, too, by CD-1 and by CD-5 */
static void bm_cd_k(void **state)
{
    (void)state;
    enum { HIDDEN = 32, BATCH = 64 };
    cj_scope s = cj_scope_open(c);
    cj_dataset *d = cj_dataset_open(c, "digits");
    cj_tensor *x = cj_cast(cj_gt_scalar(d->train_x, 0.5), CJ_F32), *test = cj_cast(cj_gt_scalar(d->test_x, 0.5), CJ_F32);
    cj_module *m = cj_linear(c, 64, HIDDEN, .init_std = 0.05, .zero_bias = true);
    cj_tensor *bias = cj_module_param(m, "visible", cj_zeros(c, CJ_SHAPE(64), CJ_F32));
    cj_rbm r = { cj_params_find(cj_module_params(m), "weight"), cj_params_find(cj_module_params(m), "bias"), bias };
    cj_tensor *w_random = cj_keep(cj_randn(c, CJ_SHAPE(HIDDEN, 64)));
    cj_tensor *random = cj_detach(cj_rbm_hidden((cj_rbm){ w_random, cj_zeros(c, CJ_SHAPE(HIDDEN), CJ_F32), bias }, x));
    cj_tensor *random_test = cj_detach(cj_rbm_hidden((cj_rbm){ w_random, cj_zeros(c, CJ_SHAPE(HIDDEN), CJ_F32), bias }, test));
    cj_optim *o = cj_sgd(cj_module_params(m), .lr = 0.1);
    double error[2];
    for (int stage = 0; stage < 2; stage++) {
        cj_tensor *back = cj_rbm_visible(r, cj_rbm_hidden(r, test));
        error[stage] = cj_item(cj_mean(cj_square(cj_sub(back, test))));
        for (int i = 0; stage == 0 && i < 600; i++) {
            cj_scope inner = cj_scope_open(c);
            int64_t from = (i * BATCH) % (cj_size(x, 0) - BATCH);
            cj_tensor *rows = cj_slice(x, 0, from, from + BATCH, 1);
            assert_true(cj_minimise(o, cj_rbm_contrastive_loss(r, rows, cj_rbm_gibbs(r, rows, 1))));
            cj_scope_close(inner);
        }
    }
    double learnt = linear_classes(cj_detach(cj_rbm_hidden(r, x)), d->train_y, cj_detach(cj_rbm_hidden(r, test)), d->test_y),
           drawn = linear_classes(random, d->train_y, random_test, d->test_y);
    print_message("digits: reconstruction error %.4f before, %.4f after; classes from the hidden units %.3f right, from random ones %.3f\n",
                  error[0], error[1], learnt, drawn);
    assert_true(error[1] < 0.6 * error[0] && learnt > drawn);
    cj_release(w_random);
    cj_dataset_free(d);
    /* exact: six visible and four hidden units, two patterns */
    for (int64_t k = 1; k <= 5; k += 4) {
        cj_module *small = cj_linear(c, 6, 4, .init_std = 0.1, .zero_bias = true);
        cj_tensor *visible = cj_module_param(small, "visible", cj_zeros(c, CJ_SHAPE(6), CJ_F32));
        cj_rbm q = { cj_params_find(cj_module_params(small), "weight"), cj_params_find(cj_module_params(small), "bias"), visible };
        cj_tensor *patterns = cj_from_f32(c, (float[]){ 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1 }, CJ_SHAPE(2, 6)),
                  *many = cj_reshape(cj_expand(cj_unsqueeze(patterns, 0), CJ_SHAPE(16, 2, 6)), CJ_SHAPE(32, 6));
        cj_optim *sgd = cj_sgd(cj_module_params(small), .lr = 0.1);
        double nll[3];
        for (int stage = 0; stage < 3; stage++) {
            nll[stage] = cj_item(cj_add(cj_mean(cj_rbm_free_energy(q, patterns)), cj_rbm_log_partition(q)));
            for (int i = 0; i < 500; i++) {
                cj_scope inner = cj_scope_open(c);
                assert_true(cj_minimise(sgd, cj_rbm_contrastive_loss(q, many, cj_rbm_gibbs(q, many, k))));
                cj_scope_close(inner);
            }
        }
        print_message("CD-%d: exact -log p %.3f, %.3f, %.3f (two patterns: at least %.3f)\n", (int)k, nll[0], nll[1], nll[2], log(2));
        assert_true(nll[1] < nll[0] - 1 && nll[2] < nll[1] + 0.05 && nll[2] < 1.5);
    }
    cj_scope_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bm_pairwise_mrf), TEST(bm_quadratic_energy), TEST(bm_visible_mle),
        TEST(bm_rbm),          TEST(bm_free_energy),      TEST(bm_nll_grad),
        TEST(bm_gibbs_block),  TEST(lab_cd_bias),         TEST(sweeps_have_the_marginals),
        TEST(bm_cd_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
