/* The catalogue's family `ad`: one test case per row, named after its id (docs/coverage.tsv).  Everything in f64. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 23);

static cj_tensor *randn(cj_shape s) { return (cj_randn)(c, s, &(cj_random_opts){ .dtype = CJ_F64 }); }
static cj_tensor *leaf(cj_shape s) { return cj_require_grad(randn(s)); }
static cj_tensor *number(double v) { return cj_full(c, v, CJ_SCALAR, CJ_F64); }

/* ---- every primitive ------------------------------------------------------------------------------------------------------------------------------ */

/* A function of the shape [3, 4] (or two of them), away from kinks and poles. */
typedef struct primitive {
    const char *name;
    cj_tensor *(*fn)(cj_tensor *x, cj_tensor *y);
} primitive;
#define UNARY(f)                                                                                                                           \
    static cj_tensor *p_##f(cj_tensor *x, cj_tensor *y) { return (void)y, cj_##f(x); }
#define BINARY(f)                                                                                                                          \
    static cj_tensor *p_##f(cj_tensor *x, cj_tensor *y) { return cj_##f(x, y); }
#define OTHER(f, ...)                                                                                                                      \
    static cj_tensor *p_##f(cj_tensor *x, cj_tensor *y) { return (void)y, __VA_ARGS__; }
/* clang-format off */
#define PRIMITIVES(U, B, O)                                                                                                                \
    U(neg)                                                                                                                                 \
    U(abs)                                                                                                                                 \
    U(exp)                                                                                                                                 \
    U(expm1)                                                                                                                               \
    U(log)                                                                                                                                 \
    U(log1p)                                                                                                                               \
    U(sqrt) U(rsqrt) U(reciprocal) U(square) U(sin) U(cos) U(tanh) U(sigmoid) U(erf) U(relu) U(silu) U(softplus) U(log_sigmoid) U(t) U(    \
        clone) B(add) B(sub) B(mul) B(div) B(pow) B(maximum) B(minimum) B(atan2) B(fmod) B(remainder) O(add_scalar, cj_add_scalar(x, 2))   \
        O(mul_scalar, cj_mul_scalar(x, -3)) O(pow_scalar, cj_pow_scalar(x, 2.5)) O(gelu, cj_gelu(x)) O(                                    \
            gelu_tanh, cj_gelu(x, .tanh = true)) O(clamp, cj_clamp(x, 0.7, 1.6)) O(sum, cj_sum(x, .axes = CJ_AXIS(0))) O(mean, cj_mean(x)) \
            O(prod, cj_prod(x, .axes = CJ_AXIS(1))) O(max, cj_max(x, .axes = CJ_AXIS(1))) O(min, cj_min(x)) O(                             \
                var, cj_var(x, .axes = CJ_AXIS(0))) O(logsumexp, cj_logsumexp(x, .axes = CJ_AXIS(1))) O(softmax, cj_softmax(x, 0))         \
                O(log_softmax, cj_log_softmax(x, 1)) O(layer_norm, cj_layer_norm(x, cj_select(y, 0, 0), cj_select(y, 0, 1), 0)) O(         \
                    reshape, cj_square(cj_reshape(x, CJ_SHAPE(2, 6)))) O(permute, cj_square(cj_permute(x, CJ_AXES(1, 0))))                 \
                    O(expand, cj_mul(cj_expand(cj_select(x, 0, 1), CJ_SHAPE(3, 4)), y)) O(slice, cj_square(cj_slice(x, 1, 3, CJ_END, -2))) \
                        O(select, cj_square(cj_select(x, 1, 2))) O(diagonal, cj_square(cj_diagonal(x, 1, 0, 1))) O(                        \
                            unfold, cj_square(cj_unfold(x, 1, 2, 1))) O(cat, cj_square(cj_cat(CJ_TENSORS(x, y), 2, 0)))                    \
                            O(stack, cj_square(cj_stack(CJ_TENSORS(x, y), 2, 0))) O(tril, cj_square(cj_tril(x, 0)))                        \
                                O(matmul, cj_matmul(x, cj_t(y))) O(linear, cj_linear_op(x, y, cj_select(y, 1, 1)))                         \
                                    O(outer, cj_outer(cj_select(x, 0, 0), cj_select(y, 0, 1)))                                             \
                                        O(where, cj_where(cj_gt_scalar(x, 1), cj_mul(x, y), y))                                            \
                                            O(index_select, cj_square(cj_index_select(x, 1, index_of(3))))                                 \
                                                O(gather, cj_square(cj_gather(x, 0, gather_index()))) O(                                   \
                                                    scatter_add, cj_square(cj_scatter_add(x, 0, gather_index(), cj_slice(y, 0, 0, 2, 1)))) \
                                                    O(index_add, cj_square(cj_index_add(x, 0, index_of(2), cj_slice(y, 0, 0, 3, 1))))      \
                                                        O(cross_entropy, cj_cross_entropy(x, index_of(3))) O(mse_loss, cj_mse_loss(x, y))  \
                                                            O(l1_loss, cj_l1_loss(x, y))                                                   \
                                                                O(bce_with_logits, cj_bce_with_logits(x, cj_sigmoid(y)))                   \
                                                                    O(bce_loss, cj_bce_loss(cj_sigmoid(x), cj_sigmoid(y)))                 \
                                                                        O(nll_loss, cj_nll_loss(cj_log_softmax(x, 1), index_of(3)))        \
                                                                            O(attention, cj_attention(x, y, cj_add(x, y), .causal = true)) \
                                                                                O(masked_fill,                                             \
                                                                                  cj_square(cj_masked_fill(x, cj_gt_scalar(y, 1), 2)))     \
                                                                                    O(embedding, cj_square(cj_embedding(x, index_of(3))))  \
                                                                                        O(cast, cj_square(cj_cast(x, CJ_F64)))
/* clang-format on */

static cj_tensor *index_of(int64_t below)
{
    static const int64_t v[3] = { 1, 0, 1 };
    return (void)below, (cj_from_i64)(c, v, CJ_SHAPE(3));
}
static cj_tensor *gather_index(void) { return cj_from_i64(c, (int64_t[]){ 2, 0, 1, 2, 0, 1, 1, 2 }, CJ_SHAPE(2, 4)); }
PRIMITIVES(UNARY, BINARY, OTHER)
static const primitive primitives[] = {
#define U(f) { #f, p_##f },
#define O(f, ...) { #f, p_##f },
    PRIMITIVES(U, U, O)
};

static cj_tensor *primitive_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    return (void)q, (void)n, ((const primitive *)user)->fn(in[0], in[1]);
}

/* ad.reverse */
static void ad_reverse(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof primitives / sizeof primitives[0]; i++) {
        const primitive *p = &primitives[i];
        cj_scope s = cj_scope_open(c);
        /* positive, distinct, off the integers: no kink, no pole, no tie */
        cj_tensor *x = cj_uniform(c, 0.4, 1.9, CJ_SHAPE(3, 4), .dtype = CJ_F64),
                  *y = cj_uniform(c, 0.45, 1.95, CJ_SHAPE(3, 4), .dtype = CJ_F64), *in[2] = { x, y }, *g[2];
        cj_gradcheck_result r = cj_gradcheck(c, primitive_fn, (void *)p, in, 2); /* finite differences, 1e-6 */
        if (!r.ok) fail_msg("%s: %s", p->name, r.what);
        /* forward mode, 1e-12: <v, J t> = <J^T v, t> */
        cj_tensor *out = p->fn(x, y), *v = cj_randn(c, cj_shape_of(out), .dtype = CJ_F64),
                  *t[2] = { cj_randn(c, CJ_SHAPE(3, 4), .dtype = CJ_F64), cj_randn(c, CJ_SHAPE(3, 4), .dtype = CJ_F64) };
        cj_vjp(c, primitive_fn, (void *)p, in, 2, v, g);
        cj_pair d = cj_jvp(c, primitive_fn, (void *)p, in, t, 2);
        double reverse = cj_item(cj_add(cj_sum(cj_mul(g[0], t[0])), cj_sum(cj_mul(g[1], t[1])))),
               forward = cj_item(cj_sum(cj_mul(v, d.derivative)));
        if (!(fabs(reverse - forward) <= 1e-12 * fmax(1, fabs(reverse))))
            fail_msg("%s: reverse %.17g, forward %.17g", p->name, reverse, forward);
        cj_scope_close(s);
        assert_ok(c);
    }
    /* one sweep gives all parameter gradients: as many vjps as operators, however many parameters */
    cj_profile_row rows[64];
    double ran[2];
    for (int many = 0; many < 2; many++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *w[8], *g[8], *h = randn(CJ_SHAPE(4, 6));
        for (int i = 0; i < 8; i++) h = cj_tanh(cj_matmul(h, w[i] = leaf(CJ_SHAPE(6, 6))));
        cj_tensor *y = cj_sum(h);
        assert_true(cj_profile_start(c));
        assert_true(cj_grad(y, w, many ? 8 : 1, g, .allow_unused = true)); /* the first weight alone already needs the whole sweep */
        int n = cj_profile_stop(c, rows, 64);
        ran[many] = 0;
        for (int i = 0; i < n; i++) ran[many] += (double)rows[i].calls;
        cj_scope_close(s);
    }
    assert_true(ran[1] - ran[0] <= 7); /* one product more for each further parameter, and nothing else */
}

/* ---- ad.forward ------------------------------------------------------------------------------------------------------------------------------------- */

static int passes;
typedef struct map {
    cj_tensor *w;
} map;
static cj_tensor *map_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    passes++;
    return cj_tanh(cj_matmul(((map *)user)->w, in[0]));
}

/* Operators run for the full Jacobian, forward or reverse. */
static double jacobian_cost(int64_t inputs, int64_t outputs, bool forward)
{
    cj_scope s = cj_scope_open(c);
    map m = { randn(CJ_SHAPE(outputs, inputs)) };
    cj_tensor *x = randn(CJ_SHAPE(inputs));
    cj_profile_row rows[64];
    cj_profile_start(c);
    cj_jacobian(c, map_fn, &m, x, .forward = forward);
    int n = cj_profile_stop(c, rows, 64);
    double flops = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].op, "matmul") == 0) flops += rows[i].flops;
    cj_scope_close(s);
    return flops;
}

/* ad.forward */
static void ad_forward(void **state)
{
    (void)state;
    map m = { randn(CJ_SHAPE(3, 5)) };
    cj_tensor *x = randn(CJ_SHAPE(5));
    passes = 0;
    cj_tensor *columns = cj_jacobian(c, map_fn, &m, x, .forward = true);
    assert_int_equal(passes, 5); /* one pass per input */
    passes = 0;
    cj_tensor *rows = cj_jacobian(c, map_fn, &m, x);
    assert_int_equal(passes, 1); /* one forward pass, then one sweep per output */
    assert_near(distance(rows, columns), 0, 1e-13);
    /* no tape in forward mode */
    int64_t before = c->tape_n;
    cj_jvp(c, map_fn, &m, &x, CJ_TENSORS(cj_ones_like(x)), 1);
    assert_int_equal(c->tape_n, before);
    /* few inputs: forward is cheaper; few outputs: reverse is; near n = m they meet */
    assert_true(jacobian_cost(2, 40, true) < 0.5 * jacobian_cost(2, 40, false));
    assert_true(jacobian_cost(40, 2, false) < 0.5 * jacobian_cost(40, 2, true));
    double ratio = jacobian_cost(20, 20, true) / jacobian_cost(20, 20, false);
    assert_true(ratio > 0.4 && ratio < 2.5);
}

/* ---- ad.layer_interface ------------------------------------------------------------------------------------------------------------------------------- */

/* A layer by hand: forward(h, S) -> h'; backward(h, h', dl/dh', S) -> (dl/dS, dl/dh).  Plain loops on [n] vectors and [m, n] matrices. */
typedef struct layer {
    enum { LINEAR, TANH, SIGMOID, RELU } kind;
    int in, out;
    double *w, *dw; /* linear: [out, in] then [out] */
} layer;
static void layer_forward(const layer *l, const double *h, double *y)
{
    for (int i = 0; i < l->out; i++) {
        double z = l->kind == LINEAR ? l->w[l->out * l->in + i] : h[i];
        for (int j = 0; j < l->in && l->kind == LINEAR; j++) z += l->w[i * l->in + j] * h[j];
        y[i] = l->kind == TANH ? tanh(z) : l->kind == SIGMOID ? 1 / (1 + exp(-z)) : l->kind == RELU ? fmax(z, 0) : z;
    }
}
static void layer_backward(layer *l, const double *h, const double *y, const double *dy, double *dh)
{
    for (int j = 0; j < l->in; j++) dh[j] = 0;
    for (int i = 0; i < l->out; i++) {
        if (l->kind != LINEAR) {
            dh[i] = dy[i] * (l->kind == TANH ? 1 - y[i] * y[i] : l->kind == SIGMOID ? y[i] * (1 - y[i]) : h[i] > 0 ? 1 : 0);
            continue;
        }
        l->dw[l->out * l->in + i] += dy[i];
        for (int j = 0; j < l->in; j++) {
            l->dw[i * l->in + j] += dy[i] * h[j];
            dh[j] += l->w[i * l->in + j] * dy[i];
        }
    }
}

/* ad.layer_interface */
static void ad_layer_interface(void **state)
{
    (void)state;
    enum { N = 7 };
    static const int width[N + 1] = { 5, 8, 8, 6, 6, 4, 4, 3 }, kind[N] = { LINEAR, TANH, LINEAR, RELU, LINEAR, SIGMOID, LINEAR };
    layer l[N];
    double h[N + 1][8], d[N + 1][8];
    cj_tensor *x = leaf(CJ_SHAPE(1, 5)), *y = x, *want[2 * N + 1], *g[2 * N + 1];
    int n = 0;
    want[n++] = x;
    double *v = values_of(x);
    memcpy(h[0], v, 5 * sizeof *v);
    free(v);
    for (int k = 0; k < N; k++) {
        l[k] = (layer){ .kind = (int)kind[k], .in = width[k], .out = width[k + 1] };
        if (kind[k] == LINEAR) {
            cj_tensor *w = leaf(CJ_SHAPE(width[k + 1], width[k])), *b = leaf(CJ_SHAPE(width[k + 1]));
            want[n++] = w;
            want[n++] = b;
            cj_tensor *flat = cj_cat(CJ_TENSORS(cj_flatten(w, 0), b), 2, 0);
            l[k].w = values_of(flat);
            l[k].dw = calloc((size_t)cj_numel(flat), sizeof(double));
            y = cj_linear_op(y, w, b);
        } else {
            y = kind[k] == TANH ? cj_tanh(y) : kind[k] == RELU ? cj_relu(y) : cj_sigmoid(y);
        }
        layer_forward(&l[k], h[k], h[k + 1]);
    }
    cj_tensor *loss = cj_mul_scalar(cj_sum(cj_square(y)), 0.5);
    for (int i = 0; i < 3; i++) d[N][i] = h[N][i];
    for (int k = N - 1; k >= 0; k--) layer_backward(&l[k], h[k], h[k + 1], d[k + 1], d[k]);
    assert_true(cj_grad(loss, want, n, g));
    for (int64_t i = 0; i < 5; i++) assert_near(value_at(g[0], i), d[0][i], 1e-12);
    for (int k = 0, at = 1; k < N; k++) {
        if (kind[k] != LINEAR) continue;
        cj_tensor *flat = cj_cat(CJ_TENSORS(cj_flatten(g[at], 0), g[at + 1]), 2, 0);
        for (int64_t i = 0; i < cj_numel(flat); i++) assert_near(value_at(flat, i), l[k].dw[i], 1e-12);
        at += 2;
        free(l[k].w);
        free(l[k].dw);
    }
}

/* ---- ad.backprop_mlp, ad.reverse_network ---------------------------------------------------------------------------------------------------------------- */

enum { LAYERS = 4, BATCH = 6 };
typedef struct mlp {
    cj_tensor *w[LAYERS], *b[LAYERS]; /* three hidden layers */
    cj_tensor *x, *target;
} mlp;
static const int64_t sizes[LAYERS + 1] = { 5, 7, 6, 8, 3 };

static cj_tensor *activation(int l, cj_tensor *z) { return l == 0 ? cj_tanh(z) : l == 1 ? cj_sigmoid(z) : cj_relu(z); }
static cj_tensor *activation_slope(int l, cj_tensor *z, cj_tensor *a)
{
    if (l == 0) return cj_add_scalar(cj_neg(cj_square(a)), 1);
    if (l == 1) return cj_mul(a, cj_add_scalar(cj_neg(a), 1));
    return cj_cast(cj_gt_scalar(z, 0), CJ_F64); /* 1[z > 0], 0 at 0 */
}
static cj_tensor *mlp_loss(const mlp *m, cj_tensor *const *wb, cj_tensor *x, cj_tensor *target, cj_tensor **z, cj_tensor **a)
{
    a[0] = x;
    for (int l = 0; l < LAYERS; l++) {
        z[l] = cj_add(cj_matmul(a[l], cj_t(wb[l])), wb[LAYERS + l]);
        a[l + 1] = l < LAYERS - 1 ? activation(l, z[l]) : cj_softmax(z[l], -1);
    }
    (void)m;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(a[LAYERS], target))), 0.5);
}
static mlp mlp_new(void)
{
    mlp m;
    for (int l = 0; l < LAYERS; l++) {
        m.w[l] = leaf(CJ_SHAPE(sizes[l + 1], sizes[l]));
        m.b[l] = leaf(CJ_SHAPE(sizes[l + 1]));
    }
    m.x = randn(CJ_SHAPE(BATCH, sizes[0]));
    m.target = randn(CJ_SHAPE(BATCH, sizes[LAYERS]));
    return m;
}
/* delta_L = (dg/dz)^T dE/da with the full softmax Jacobian g_j (d_jk - g_k); delta_l = sigma'(z_l) * (W^T delta) */
static void deltas(const mlp *m, cj_tensor *const *z, cj_tensor *const *a, cj_tensor **delta)
{
    cj_tensor *g = a[LAYERS], *e = cj_sub(g, m->target);
    cj_tensor *jacobian =
        cj_sub(cj_mul(cj_unsqueeze(g, 2), cj_eye(c, sizes[LAYERS], CJ_F64)), cj_mul(cj_unsqueeze(g, 2), cj_unsqueeze(g, 1)));
    delta[LAYERS - 1] = cj_squeeze(cj_matmul(cj_t(jacobian), cj_unsqueeze(e, 2)), 2);
    for (int l = LAYERS - 2; l >= 0; l--) delta[l] = cj_mul(activation_slope(l, z[l], a[l + 1]), cj_matmul(delta[l + 1], m->w[l + 1]));
}
static cj_tensor *mlp_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    const mlp *m = user;
    cj_tensor *z[LAYERS], *a[LAYERS + 1];
    return mlp_loss(m, in, m->x, m->target, z, a);
}

/* ad.backprop_mlp */
static void ad_backprop_mlp(void **state)
{
    (void)state;
    mlp m = mlp_new();
    cj_tensor *z[LAYERS], *a[LAYERS + 1], *delta[LAYERS], *wb[2 * LAYERS], *g[2 * LAYERS], *sum[2 * LAYERS] = { 0 };
    for (int l = 0; l < LAYERS; l++) wb[l] = m.w[l], wb[LAYERS + l] = m.b[l];
    cj_tensor *loss = mlp_loss(&m, wb, m.x, m.target, z, a);
    deltas(&m, z, a, delta);
    assert_true(cj_grad(loss, wb, 2 * LAYERS, g, .retain = true));
    for (int l = 0; l < LAYERS; l++) { /* dE/dW_l = delta_l a_{l-1}^T, dE/db_l = delta_l, summed over the batch */
        assert_near(distance(g[l], cj_matmul(cj_t(delta[l]), a[l])), 0, 1e-12);
        assert_near(distance(g[LAYERS + l], cj_sum(delta[l], .axes = CJ_AXIS(0))), 0, 1e-12);
    }
    cj_gradcheck_result r = cj_gradcheck(c, mlp_fn, &m, wb, 2 * LAYERS);
    if (!r.ok) fail_msg("%s", r.what);
    /* the batch gradient is the sum of single-example gradients */
    for (int64_t i = 0; i < BATCH; i++) {
        cj_tensor *one[2 * LAYERS];
        assert_true(
            cj_grad(mlp_loss(&m, wb, cj_slice(m.x, 0, i, i + 1, 1), cj_slice(m.target, 0, i, i + 1, 1), z, a), wb, 2 * LAYERS, one));
        for (int k = 0; k < 2 * LAYERS; k++) sum[k] = sum[k] ? cj_add(sum[k], one[k]) : one[k];
    }
    for (int k = 0; k < 2 * LAYERS; k++) assert_near(distance(g[k], sum[k]), 0, 1e-12);
    /* ReLU: 0 at 0 */
    cj_tensor *zero = cj_require_grad(number(0)), *gz;
    assert_true(cj_grad(cj_relu(zero), &zero, 1, &gz));
    assert_near(cj_item(gz), 0, 0);
}

/* ad.reverse_network */
static void ad_reverse_network(void **state)
{
    (void)state;
    mlp m = mlp_new();
    m.x = cj_require_grad(m.x);
    cj_tensor *z[LAYERS], *a[LAYERS + 1], *wb[2 * LAYERS], *g;
    for (int l = 0; l < LAYERS; l++) wb[l] = m.w[l], wb[LAYERS + l] = m.b[l];
    mlp_loss(&m, wb, m.x, m.target, z, a);
    /* e^l = J^T e^{l+1}: a network that runs backwards, linear in e, with the stored activities */
    cj_tensor *start = randn(CJ_SHAPE(BATCH, sizes[LAYERS])), *e[2][LAYERS + 1];
    for (int twice = 0; twice < 2; twice++) {
        e[twice][LAYERS] = twice ? cj_mul_scalar(start, 2) : start;
        for (int l = LAYERS - 1; l >= 0; l--) {
            cj_tensor *into = e[twice][l + 1];
            if (l == LAYERS - 1) {
                cj_tensor *s = a[LAYERS]; /* the softmax Jacobian is symmetric: J e = s * (e - <s, e>) */
                into = cj_mul(s, cj_sub(into, cj_sum(cj_mul(s, into), .axes = CJ_AXIS(1), .keepdim = true)));
            } else {
                into = cj_mul(activation_slope(l, z[l], a[l + 1]), into);
            }
            e[twice][l] = cj_matmul(into, m.w[l]);
        }
    }
    assert_true(cj_grad(a[LAYERS], &m.x, 1, &g, .seed = start));
    assert_near(distance(g, e[0][0]), 0, 1e-12);
    for (int l = 0; l <= LAYERS; l++) assert_near(distance(e[1][l], cj_mul_scalar(e[0][l], 2)), 0, 1e-12);
}

/* ---- worked examples ------------------------------------------------------------------------------------------------------------------------------------ */

/* ad.one_neuron */
static void ad_one_neuron(void **state)
{
    (void)state;
    cj_tensor *w = cj_require_grad(F64(c, CJ_SHAPE(2), 0.5, -0.3)), *x = cj_require_grad(F64(c, CJ_SHAPE(2), 1, 2)),
              *v = cj_require_grad(number(0.8)), *y = number(1);
    cj_tensor *z = cj_dot(w, x), *h = cj_tanh(z), *e = cj_mul(v, h), *l = cj_mul_scalar(cj_square(cj_sub(y, e)), 0.5), *g[6];
    assert_true(cj_grad(l, CJ_TENSORS(e, v, h, z, w, x), 6, g));
    assert_near(cj_item(l), 0.5829132, 5e-8);
    assert_near(cj_item(g[0]), -(1 - cj_item(e)), 1e-15);
    assert_near(cj_item(g[1]), 0.1076150, 5e-8);
    assert_near(cj_item(g[2]), -0.8637875, 5e-8);
    assert_near(cj_item(g[3]), -0.8552069, 5e-8);
    assert_near(value_at(g[4], 0), -0.8552069, 5e-8);
    assert_near(value_at(g[4], 1), -1.7104138, 5e-8);
    assert_near(value_at(g[5], 0), -0.4276035, 5e-8);
    assert_near(value_at(g[5], 1), 0.2565621, 5e-8);
}

/* ad.mixed_net */
static void ad_mixed_net(void **state)
{
    (void)state;
    enum { W11, W21, W31, B1, W12, W32, B2, W1, W2, COUNT, ROWS = 4 };
    cj_tensor *p[COUNT], *g[COUNT];
    for (int i = 0; i < COUNT; i++) p[i] = cj_param(randn(CJ_SCALAR));
    cj_tensor *x = randn(CJ_SHAPE(ROWS, 3)), *y = randn(CJ_SHAPE(ROWS)), *column[3];
    for (int i = 0; i < 3; i++) column[i] = cj_select(x, 1, i);
    cj_tensor *a1 =
        cj_sigmoid(cj_add(cj_add(cj_mul(p[W11], column[0]), cj_mul(p[W21], column[1])), cj_add(cj_mul(p[W31], column[2]), p[B1])));
    cj_tensor *a2 = cj_tanh(cj_add(cj_add(cj_mul(p[W12], column[0]), cj_mul(p[W32], column[2])), p[B2]));
    cj_tensor *f = cj_add(cj_mul(p[W1], a1), cj_mul(p[W2], a2));
    cj_tensor *loss = cj_mul_scalar(cj_sum(cj_square(cj_sub(f, y))), 0.5);
    double w[COUNT], hand[COUNT] = { 0 }, dy[COUNT];
    for (int i = 0; i < COUNT; i++) w[i] = cj_item(p[i]);
    double *xv = values_of(x), *yv = values_of(y);
    /* the nine derivatives of f at each example, by hand and by the tape; then those of the loss */
    for (int64_t r = 0; r < ROWS; r++) {
        const double *q = xv + 3 * r;
        double s1 = 1 / (1 + exp(-(w[W11] * q[0] + w[W21] * q[1] + w[W31] * q[2] + w[B1]))),
               s2 = tanh(w[W12] * q[0] + w[W32] * q[2] + w[B2]);
        double k1 = w[W1] * s1 * (1 - s1), k2 = w[W2] * (1 - s2 * s2);
        dy[W11] = k1 * q[0], dy[W21] = k1 * q[1], dy[W31] = k1 * q[2], dy[B1] = k1, dy[W12] = k2 * q[0], dy[W32] = k2 * q[2], dy[B2] = k2,
        dy[W1] = s1, dy[W2] = s2;
        assert_true(cj_grad(cj_select(f, 0, r), p, COUNT, g, .retain = true));
        for (int i = 0; i < COUNT; i++) {
            assert_near(cj_item(g[i]), dy[i], 1e-12);
            hand[i] += (w[W1] * s1 + w[W2] * s2 - yv[r]) * dy[i];
        }
    }
    assert_true(cj_grad(loss, p, COUNT, g, .retain = true));
    for (int i = 0; i < COUNT; i++) assert_near(cj_item(g[i]), hand[i], 1e-12);
    /* one SGD step */
    static const cj_module_type type = { "Mixed", NULL, NULL };
    cj_module *m = cj_module_new(c, &type, 0);
    static const char *const name[COUNT] = { "w11", "w21", "w31", "b1", "w12", "w32", "b2", "w1", "w2" };
    for (int i = 0; i < COUNT; i++) cj_module_param(m, name[i], p[i]);
    assert_int_equal(cj_params_numel(cj_module_params(m)), 9);
    assert_true(cj_minimise(cj_sgd(cj_module_params(m), .lr = 0.1), loss));
    for (int i = 0; i < COUNT; i++) assert_near(cj_item(p[i]), w[i] - 0.1 * hand[i], 1e-12);
    free(xv);
    free(yv);
}

/* ad.relu_exercise */
static void ad_relu_exercise(void **state)
{
    (void)state;
    cj_ctx *q = c;
    static const cj_module_type type = { "Exercise", NULL, NULL };
    cj_module *m = cj_module_new(q, &type, 0);
    cj_tensor *w = cj_module_param(m, "w", F64(q, CJ_SHAPE(2, 2), 1, -0.5, 0.5, 1)),
              *b = cj_module_param(m, "b", F64(q, CJ_SHAPE(2), -0.5, -0.5));
    cj_tensor *u = cj_module_param(m, "u", F64(q, CJ_SHAPE(2, 2), 0.5, -1, -2, 0.5)),
              *d = cj_module_param(m, "d", F64(q, CJ_SHAPE(2), 1, 1));
    cj_tensor *x = F64(q, CJ_SHAPE(1, 2), 1, 2), *t = F64(q, CJ_SHAPE(1, 2), 2, 4);
    cj_tensor *h = cj_relu(cj_linear_op(x, w, b)), *y = cj_relu(cj_linear_op(h, u, d)), *loss = cj_mse_loss(y, t);
    assert_near(value_at(h, 0), 0, 0);
    assert_near(value_at(h, 1), 2, 0);
    assert_near(value_at(y, 0), 0, 0);
    assert_near(value_at(y, 1), 2, 0);
    assert_near(cj_item(loss), 4, 0);
    assert_true(cj_minimise(cj_sgd(cj_module_params(m), .lr = 0.01), loss));
    assert_near(cj_at(u, (int64_t[]){ 0, 0 }), 0.5, 0);      /* w31: dead */
    assert_near(cj_at(u, (int64_t[]){ 1, 1 }), 0.54, 1e-15); /* w42 */
    assert_near(cj_at(w, (int64_t[]){ 1, 1 }), 1.02, 1e-15); /* w22 */
}

/* ad.shared_accumulate */
static void ad_shared_accumulate(void **state)
{
    (void)state;
    cj_tensor *w = cj_require_grad(number(1.7)), *x = number(0.6), *g, *pair[2];
    assert_true(cj_grad(cj_mul(w, cj_mul(w, x)), &w, 1, &g)); /* f(w) = w(wx): 2wx */
    assert_near(cj_item(g), 2 * 1.7 * 0.6, 1e-15);
    cj_tensor *tied = leaf(CJ_SHAPE(4, 4)), *one = cj_require_grad(cj_clone(cj_detach(tied))),
              *two = cj_require_grad(cj_clone(cj_detach(tied))), *in = randn(CJ_SHAPE(3, 4));
    assert_true(cj_grad(cj_sum(cj_square(cj_matmul(cj_tanh(cj_matmul(in, tied)), cj_t(tied)))), &tied, 1, &g));
    assert_true(cj_grad(cj_sum(cj_square(cj_matmul(cj_tanh(cj_matmul(in, one)), cj_t(two)))), CJ_TENSORS(one, two), 2, pair));
    assert_near(distance(g, cj_add(pair[0], pair[1])), 0, 1e-12);
    /* recurrence: the same weight at every step */
    cj_tensor *h = in, *sum = NULL, *steps[5], *gs[5];
    for (int i = 0; i < 5; i++) h = cj_tanh(cj_matmul(h, tied));
    assert_true(cj_grad(cj_sum(h), &tied, 1, &g));
    h = in;
    for (int i = 0; i < 5; i++) h = cj_tanh(cj_matmul(h, steps[i] = cj_require_grad(tied)));
    assert_true(cj_grad(cj_sum(h), steps, 5, gs));
    for (int i = 0; i < 5; i++) sum = sum ? cj_add(sum, gs[i]) : gs[i];
    assert_near(distance(g, sum), 0, 1e-12);
}

static cj_tensor *of_input(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    mlp *m = user;
    cj_tensor *z[LAYERS], *a[LAYERS + 1], *wb[2 * LAYERS];
    for (int l = 0; l < LAYERS; l++) wb[l] = cj_detach(m->w[l]), wb[LAYERS + l] = cj_detach(m->b[l]);
    return mlp_loss(m, wb, in[0], m->target, z, a);
}

/* ad.input_gradient */
static void ad_input_gradient(void **state)
{
    (void)state;
    mlp m = mlp_new();
    cj_gradcheck_result r = cj_gradcheck(c, of_input, &m, &m.x, 1);
    if (!r.ok) fail_msg("%s", r.what);
    /* from the same pass as the parameters */
    cj_tensor *w = leaf(CJ_SHAPE(6)), *x = leaf(CJ_SHAPE(6)), *logit = cj_dot(w, x), *l = cj_softplus(cj_neg(logit)), *g[3];
    assert_true(cj_grad(l, CJ_TENSORS(x, logit, w), 3, g));
    assert_near(distance(g[0], cj_mul(cj_detach(w), g[1])), 0, 1e-14); /* w · dl/dlogit */
    assert_near(distance(g[2], cj_mul(cj_detach(x), g[1])), 0, 1e-14);
}

/* ---- ad.jacobian ------------------------------------------------------------------------------------------------------------------------------------------- */

static cj_tensor *inner_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)n, cj_tanh(cj_matmul(user, in[0])); }
static cj_tensor *outer_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    return (void)q, (void)user, (void)n, cj_softmax(in[0], 0);
}
static cj_tensor *both_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    cj_tensor *h = inner_fn(q, user, in, n);
    return outer_fn(q, NULL, &h, 1);
}
static cj_tensor *sin_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n) { return (void)q, (void)user, (void)n, cj_sin(in[0]); }
static cj_tensor *product_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    return cj_mul(inner_fn(q, user, in, n), sin_fn(q, NULL, in, n));
}

/* ad.jacobian */
static void ad_jacobian(void **state)
{
    (void)state;
    cj_tensor *w = randn(CJ_SHAPE(4, 4)), *x = randn(CJ_SHAPE(4)), *h = inner_fn(c, w, &x, 1);
    cj_tensor *rows = cj_jacobian(c, both_fn, w, x), *columns = cj_jacobian(c, both_fn, w, x, .forward = true);
    assert_near(distance(rows, columns), 0, 1e-13);
    for (int64_t k = 0; k < 4; k++) { /* finite differences */
        cj_tensor *t = cj_mul_scalar(cj_cast(cj_eq_scalar(cj_arange(c, 0, 4, 1, CJ_I64), (double)k), CJ_F64), 1e-6), *up = cj_add(x, t),
                  *down = cj_sub(x, t);
        cj_tensor *quotient = cj_mul_scalar(cj_sub(both_fn(c, w, &up, 1), both_fn(c, w, &down, 1)), 0.5e6);
        assert_near(distance(cj_contiguous(cj_select(rows, 1, k)), quotient), 0, 1e-8);
    }
    /* d(G o F) = (dG o F) dF */
    assert_near(distance(rows, cj_matmul(cj_jacobian(c, outer_fn, NULL, h), cj_jacobian(c, inner_fn, w, x))), 0, 1e-13);
    /* elementwise: diag(f'(x)) */
    cj_tensor *diag = cj_mul(cj_eye(c, 4, CJ_F64), cj_cos(x));
    assert_near(distance(cj_jacobian(c, sin_fn, NULL, x), diag), 0, 1e-15);
    /* softmax: g_j (d_jk - g_k) */
    cj_tensor *s = cj_softmax(x, 0), *expected = cj_sub(cj_mul(cj_eye(c, 4, CJ_F64), s), cj_outer(s, s));
    assert_near(distance(cj_jacobian(c, outer_fn, NULL, x), expected), 0, 1e-15);
    /* <u, Jv> = <J^T u, v> */
    cj_tensor *u = randn(CJ_SHAPE(4)), *v = randn(CJ_SHAPE(4)), *g;
    cj_vjp(c, both_fn, w, &x, 1, u, &g);
    assert_near(cj_item(cj_dot(u, cj_jvp(c, both_fn, w, &x, &v, 1).derivative)), cj_item(cj_dot(g, v)), 1e-12);
    /* the product rule: d(FG) = diag(G) dF + diag(F) dG */
    cj_tensor *rule = cj_add(cj_mul(cj_unsqueeze(cj_sin(x), 1), cj_jacobian(c, inner_fn, w, x)), cj_mul(cj_unsqueeze(h, 1), diag));
    assert_near(distance(cj_jacobian(c, product_fn, w, x), rule), 0, 1e-13);
}

/* ---- ad.higher_order ----------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct squares {
    cj_tensor *x, *y;
} squares;
static cj_tensor *least_squares(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    squares *s = user;
    return cj_mul_scalar(cj_sum(cj_square(cj_sub(cj_matmul(s->x, in[0]), s->y))), 0.5);
}
static cj_tensor *net_fn(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    squares *s = user;
    return cj_sum(cj_square(cj_sub(cj_tanh(cj_matmul(s->x, cj_sigmoid(in[0]))), s->y)));
}

/* ad.higher_order */
static void ad_higher_order(void **state)
{
    (void)state;
    squares s = { randn(CJ_SHAPE(9, 5)), randn(CJ_SHAPE(9)) };
    cj_tensor *w = randn(CJ_SHAPE(5)), *v = randn(CJ_SHAPE(5)), *out, *h = cj_hessian(c, least_squares, &s, w);
    assert_near(distance(h, cj_matmul(cj_t(s.x), s.x)), 0, 1e-12); /* X^T X */
    h = cj_hessian(c, net_fn, &s, w);
    assert_near(distance(h, cj_contiguous(cj_t(h))), 0, 1e-10);
    cj_hvp(c, net_fn, &s, &w, &v, 1, &out);
    assert_near(distance(out, cj_matmul(h, v)), 0, 1e-12);
    /* gradient differences */
    cj_tensor *up = cj_add(w, cj_mul_scalar(v, 1e-5)), *down = cj_sub(w, cj_mul_scalar(v, 1e-5)), *gu, *gd, *lu = cj_require_grad(up),
              *ld = cj_require_grad(down);
    assert_true(cj_grad(net_fn(c, &s, &lu, 1), &lu, 1, &gu) && cj_grad(net_fn(c, &s, &ld, 1), &ld, 1, &gd));
    assert_near(distance(out, cj_mul_scalar(cj_sub(gu, gd), 0.5e5)), 0, 1e-7);
    /* contractive penalty of a sigmoid layer: ||dh/dx||_F^2 = sum_j (h_j (1 - h_j))^2 sum_k W_jk^2, and their gradients in W */
    cj_tensor *weight = leaf(CJ_SHAPE(4, 6)), *x = leaf(CJ_SHAPE(6)), *code = cj_sigmoid(cj_matmul(weight, x)), *penalty = NULL, *row,
              *g[2];
    for (int64_t j = 0; j < 4; j++) {
        assert_true(cj_grad(cj_select(code, 0, j), &x, 1, &row, .create_graph = true));
        cj_tensor *square = cj_sum(cj_square(row));
        penalty = penalty ? cj_add(penalty, square) : square;
    }
    cj_tensor *slope = cj_mul(code, cj_add_scalar(cj_neg(code), 1)),
              *closed = cj_sum(cj_mul(cj_square(slope), cj_sum(cj_square(weight), .axes = CJ_AXIS(1))));
    assert_near(cj_item(penalty), cj_item(closed), 1e-13);
    assert_true(cj_grad(penalty, &weight, 1, &g[0], .retain = true) && cj_grad(closed, &weight, 1, &g[1]));
    assert_near(distance(g[0], g[1]), 0, 1e-12);
}

/* ---- ad.gradcheck ---------------------------------------------------------------------------------------------------------------------------------------------- */

/* y = x^3 with a derivative that is wrong by a factor: 1 right, 1.01 off by 1 %, -1 with the sign flipped. */
static bool cube_infer(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype)
{
    (void)q, (void)payload;
    *shape = cj_shape_of(in[0]);
    *dtype = CJ_F64;
    return true;
}
static bool cube_run(cj_ctx *q, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    (void)q, (void)payload;
    for (int64_t i = 0; i < cj_numel(shapes[0]); i++) ((double *)out)[i] = pow(((const double *)in[0])[i], 3);
    return true;
}
static void cube_vjp(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_tensor *out, cj_tensor *g, cj_tensor **gin)
{
    (void)q, (void)out;
    gin[0] = cj_mul(g, cj_mul_scalar(cj_square(in[0]), 3 * *(const double *)payload));
}
static cj_tensor *wrong_cube(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    cj_custom_op op = {
        .name = "cube", .nin = 1, .payload = user, .payload_size = sizeof(double), .infer = cube_infer, .run = cube_run, .vjp = cube_vjp
    };
    return cj_custom(q, &op, in);
}
static void one_wrong_vjp(cj_ctx *q, const void *payload, cj_tensor *const *in, cj_tensor *out, cj_tensor *g, cj_tensor **gin)
{
    cube_vjp(q, payload, in, out, g, gin);
    cj_tensor *fourth = cj_cast(cj_eq_scalar(cj_arange(q, 0, 6, 1, CJ_I64), 4), CJ_F64);
    gin[0] = cj_mul(gin[0], cj_add_scalar(cj_mul_scalar(fourth, 0.5), 1));
}
static cj_tensor *one_wrong(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)n;
    cj_custom_op op = { .name = "cube",
                        .nin = 1,
                        .payload = user,
                        .payload_size = sizeof(double),
                        .infer = cube_infer,
                        .run = cube_run,
                        .vjp = one_wrong_vjp };
    return cj_add(in[0], cj_custom(q, &op, in + 1));
}
typedef struct fickle {
    int calls, from; /* another function from this call on: forward mode is the last to call it */
} fickle;
static cj_tensor *fickle_sum(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    (void)q, (void)n;
    fickle *f = user;
    return cj_mul_scalar(in[0], ++f->calls == f->from ? 3 : 2);
}
static cj_tensor *quadratic_form(cj_ctx *q, void *user, cj_tensor *const *in, int n) /* x^T A x */
{
    (void)q, (void)user, (void)n;
    return cj_dot(in[1], cj_matmul(in[0], in[1]));
}
static cj_tensor *trace_of_product(cj_ctx *q, void *user, cj_tensor *const *in, int n) /* tr(A B) */
{
    (void)q, (void)user, (void)n;
    return cj_sum(cj_diagonal(cj_matmul(in[0], in[1]), 0, 0, 1));
}

/* ad.gradcheck */
static void ad_gradcheck(void **state)
{
    (void)state;
    cj_tensor *x = randn(CJ_SHAPE(6));
    double factor = 1;
    cj_gradcheck_result r = cj_gradcheck(c, wrong_cube, &factor, &x, 1);
    assert_true(r.ok && r.worst < 1e-6);
    factor = 1.01;
    r = cj_gradcheck(c, wrong_cube, &factor, &x, 1);
    assert_false(r.ok);
    assert_true(r.worst > 1e-4 && r.input == 0 && r.element >= 0 && r.element < 6);
    assert_non_null(strstr(r.what, "first order: derivative"));
    factor = -1;
    assert_false(cj_gradcheck(c, wrong_cube, &factor, &x, 1).ok);
    factor = 1;
    assert_true(cj_gradcheck(c, wrong_cube, &factor, &x, 1, .second_order = true).ok);
    /* one wrong element among many is found, and named */
    r = cj_gradcheck(c, one_wrong, &factor, CJ_TENSORS(x, cj_add_scalar(cj_square(x), 0.5)), 2, .no_jvp = true);
    assert_false(r.ok);
    assert_true(r.input == 1 && r.element == 4);
    /* forward mode that disagrees with reverse mode: no input is to blame */
    fickle f = { 0, 0 };
    assert_true(cj_gradcheck(c, fickle_sum, &f, &x, 1).ok);
    f = (fickle){ 0, f.calls };
    r = cj_gradcheck(c, fickle_sum, &f, &x, 1);
    assert_false(r.ok);
    assert_true(r.input == -1 && r.element == 0 && r.worst > 0.1);
    assert_non_null(strstr(r.what, "jvp against vjp: derivative"));
    /* identities of matrix calculus */
    cj_tensor *a = leaf(CJ_SHAPE(4, 4)), *b = leaf(CJ_SHAPE(4, 4)), *v = leaf(CJ_SHAPE(4)), *g[2];
    assert_true(cj_gradcheck(c, quadratic_form, NULL, CJ_TENSORS(a, v), 2).ok);
    assert_true(cj_grad(quadratic_form(c, NULL, CJ_TENSORS(a, v), 2), CJ_TENSORS(a, v), 2, g));
    assert_near(distance(g[1], cj_detach(cj_matmul(cj_add(a, cj_t(a)), v))), 0, 1e-13); /* (A + A^T) x */
    assert_near(distance(g[0], cj_detach(cj_outer(v, v))), 0, 1e-13);
    assert_true(cj_gradcheck(c, trace_of_product, NULL, CJ_TENSORS(a, b), 2).ok);
    assert_true(cj_grad(trace_of_product(c, NULL, CJ_TENSORS(a, b), 2), CJ_TENSORS(a, b), 2, g));
    assert_near(distance(g[0], cj_detach(cj_contiguous(cj_t(b)))), 0, 1e-13); /* d tr(AB)/dA = B^T */
    /* kinks are left out */
    cj_tensor *edge = F64(c, CJ_SHAPE(2), 0, 1);
    const primitive relu = { "relu", p_relu };
    r = cj_gradcheck(c, primitive_fn, (void *)&relu, CJ_TENSORS(edge, edge), 2);
    assert_true(r.ok && r.kinks > 0);
}

/* ---- ad.cost ------------------------------------------------------------------------------------------------------------------------------------------------------- */

static double flops_of(int width, int depth, bool backward)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *w[16], *g[16], *h = randn(CJ_SHAPE(8, width)), *start = h;
    for (int i = 0; i < depth; i++) w[i] = leaf(CJ_SHAPE(width, width));
    cj_profile_row rows[64];
    double flops = 0;
    if (!backward) cj_profile_start(c);
    for (int i = 0; i < depth; i++) h = cj_tanh(cj_matmul(h, w[i]));
    cj_tensor *y = cj_sum(h);
    if (backward) cj_profile_start(c);
    if (backward) assert_true(cj_grad(y, w, depth, g));
    int n = cj_profile_stop(c, rows, 64);
    for (int i = 0; i < n; i++) flops += rows[i].flops;
    (void)start;
    cj_scope_close(s);
    return flops;
}

/* ad.cost: counted in floating-point operations, which do not depend on the machine's mood */
static void ad_cost(void **state)
{
    (void)state;
    double low = INFINITY, high = 0;
    static const int width[] = { 16, 64, 128 }, depth[] = { 2, 6, 12 };
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double ratio = flops_of(width[i], depth[j], true) / flops_of(width[i], depth[j], false);
            low = fmin(low, ratio);
            high = fmax(high, ratio);
        }
    if (!(low > 1 && high < 3 && high / low < 1.8)) fail_msg("backward/forward from %g to %g", low, high);
    /* differencing every parameter costs p + 1 forward passes; one sweep costs less than 3 */
    double parameters = 64.0 * 64 * 6;
    assert_true((parameters + 1) * flops_of(64, 6, false) > 1000 * (flops_of(64, 6, false) + flops_of(64, 6, true)));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(ad_reverse),   T(ad_forward),       T(ad_layer_interface),   T(ad_backprop_mlp),   T(ad_reverse_network), T(ad_one_neuron),
        T(ad_mixed_net), T(ad_relu_exercise), T(ad_shared_accumulate), T(ad_input_gradient), T(ad_jacobian),        T(ad_higher_order),
        T(ad_gradcheck), T(ad_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
