/* Catalogue rows of feed-forward networks: shallow and deep forms, linear regions, symmetries, gradients with depth. */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 41);

static cj_tensor *normal(cj_shape shape) { return cj_randn(c, shape, .dtype = CJ_F64); }

/* A network of linear layers with these weights and biases (two for each layer). */
static const cj_module_type holder_type = { "Holder", NULL, NULL };
static cj_params *network(cj_tensor *const *p, int layers)
{
    cj_module *m = cj_module_new(c, &holder_type, 0);
    for (int i = 0; i < 2 * layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%d", i);
        cj_module_param(m, name, p[i]);
    }
    return cj_module_params(m);
}
#define NETWORK(...) network((cj_tensor *[]){ __VA_ARGS__ }, (int)(sizeof((cj_tensor *[]){ __VA_ARGS__ }) / (2 * sizeof(cj_tensor *))))

/* x [n, in] -> [n, out] */
static cj_tensor *apply(const cj_params *p, cj_tensor *x)
{
    for (int i = 0; i < cj_params_count(p); i += 2) {
        x = cj_linear_op(x, cj_params_at(p, i), cj_params_at(p, i + 1));
        if (i + 2 < cj_params_count(p)) x = cj_relu(x);
    }
    return x;
}
static double at(const cj_params *p, double x) { return cj_item(apply(p, F64(c, CJ_SHAPE(1, 1), x))); }
static int64_t pieces(const cj_params *p, double from, double to, int64_t output, cj_piece *out, int64_t room)
{
    return cj_relu_pieces(p, F64(c, CJ_SHAPE(1), from), F64(c, CJ_SHAPE(1), to), output, out, room);
}

static cj_tensor *tanh_net(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx;
    cj_tensor *a = user;
    for (int i = 0; i < n; i += 2) {
        a = cj_linear_op(a, in[i], in[i + 1]);
        if (i + 2 < n) a = cj_tanh(a);
    }
    return cj_mean(cj_square(a));
}

static void ff_mlp(void **state) /* ff.mlp */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { N = 5, LAYERS = 3 };
    const int64_t width[LAYERS + 1] = { 4, 7, 6, 3 };
    cj_tensor *p[2 * LAYERS], *x = normal(CJ_SHAPE(N, width[0])), *y = x;
    double *a = values_of(x);
    for (int l = 0; l < LAYERS; l++) {
        p[2 * l] = normal(CJ_SHAPE(width[l + 1], width[l])), p[2 * l + 1] = normal(CJ_SHAPE(width[l + 1]));
        y = cj_linear_op(y, p[2 * l], p[2 * l + 1]);
        y = l + 1 < LAYERS ? cj_tanh(y) : cj_softmax(y, -1); /* the inverse link of classes */
        double *w = values_of(p[2 * l]), *b = values_of(p[2 * l + 1]), *z = calloc((size_t)(N * width[l + 1]), sizeof *z);
        for (int i = 0; i < N; i++) {
            double total = 0;
            for (int64_t o = 0; o < width[l + 1]; o++) {
                double *to = &z[i * width[l + 1] + o];
                *to = b[o];
                for (int64_t k = 0; k < width[l]; k++) *to += w[o * width[l] + k] * a[i * width[l] + k];
                *to = l + 1 < LAYERS ? tanh(*to) : exp(*to);
                total += *to;
            }
            for (int64_t o = 0; o < width[l + 1] && l + 1 == LAYERS; o++) z[i * width[l + 1] + o] /= total;
        }
        free(a), free(w), free(b);
        a = z;
    }
    assert_near(distance(y, f64(c, a, CJ_SHAPE(N, 3))), 0, 1e-12);
    free(a);
    assert_true(cj_gradcheck(c, tanh_net, x, p, 2 * LAYERS).ok);
    cj_module *m = cj_sequential(c, cj_linear(c, 4, 7), cj_tanh_layer(c), cj_linear(c, 7, 3));
    cj_tensor *w = cj_params_at(cj_module_params(m), 0), *v = cj_params_at(cj_module_params(m), 2);
    assert_true(cj_size(w, 0) == 7 && cj_size(w, 1) == 4 && cj_size(v, 0) == 3 && cj_size(v, 1) == 7); /* W_l is D_l x D_(l-1) */
    /* one hidden layer is the shallow form phi_0 + sum_d phi_d h_d */
    cj_tensor *input = cj_randn(c, CJ_SHAPE(N, 4)), *h = cj_tanh(cj_linear_op(input, w, cj_params_at(cj_module_params(m), 1))),
              *shallow = cj_expand(cj_params_at(cj_module_params(m), 3), CJ_SHAPE(N, 3));
    for (int d = 0; d < 7; d++) shallow = cj_add(shallow, cj_mul(cj_slice(h, 1, d, d + 1, 1), cj_select(v, 1, d)));
    assert_near(distance(cj_forward(m, input), shallow), 0, 1e-6);
    cj_scope_close(s);
}

static void ff_shallow(void **state) /* ff.shallow */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    assert_int_equal(cj_params_numel(cj_module_params(cj_sequential(c, cj_linear(c, 1, 3), cj_relu_layer(c), cj_linear(c, 3, 1)))), 10);
    const double th[3][2] = { { 0.3, -1 }, { -1, 2 }, { -0.5, 0.65 } }, phi[4] = { -0.3, 2, -1, 7 };
    cj_tensor *w = F64(c, CJ_SHAPE(3, 1), -1, 2, 0.65), *b = F64(c, CJ_SHAPE(3), 0.3, -1, -0.5);
    const cj_params *one = NETWORK(w, b, F64(c, CJ_SHAPE(1, 3), 2, -1, 7), F64(c, CJ_SHAPE(1), -0.3));
    for (int i = 0; i <= 40; i++) {
        double x = -1 + i / 13., y = phi[0];
        for (int d = 0; d < 3; d++) y += phi[d + 1] * fmax(0, th[d][0] + th[d][1] * x);
        assert_near(at(one, x), y, 1e-13);
    }
    const cj_params *two = NETWORK(w, b, F64(c, CJ_SHAPE(2, 3), 2, -1, 7, -3, 0.5, 1), F64(c, CJ_SHAPE(2), -0.3, 1));
    cj_piece first[8], second[8];
    assert_int_equal(pieces(two, -1, 2, 0, first, 8), 4);
    assert_int_equal(pieces(two, -1, 2, 1, second, 8), 4);
    int differ = 0;
    for (int i = 0; i < 4; i++) {
        assert_near(first[i].start, second[i].start, 1e-12); /* the joints are shared */
        differ += fabs(first[i].slope - second[i].slope) > 0.1;
    }
    assert_int_equal(differ, 3); /* the slopes are not; where no unit is active both are 0 */
    /* two inputs, three units: a continuous surface of at most 7 planes */
    cj_tensor *w2 = F64(c, CJ_SHAPE(3, 2), 1, 0.2, -0.3, 1, 0.7, -0.8), *b2 = F64(c, CJ_SHAPE(3), 0.1, -0.2, 0.3);
    const cj_params *plane = NETWORK(w2, b2, F64(c, CJ_SHAPE(1, 3), 1, -2, 1.5), F64(c, CJ_SHAPE(1), 0));
    assert_int_equal(cj_hyperplane_regions(w2, b2), 7);
    cj_tensor *points = cj_uniform(c, -2, 2, CJ_SHAPE(3000, 2), .dtype = CJ_F64), *label = cj_relu_regions(plane, points);
    assert_true(cj_item(cj_max(label)) <= 6);
    double *at_points = values_of(points), *which = values_of(label), *y = values_of(apply(plane, points)), *middle = NULL;
    cj_tensor *half = cj_mul_scalar(cj_add(cj_slice(points, 0, 0, 2999, 1), cj_slice(points, 0, 1, 3000, 1)), 0.5);
    middle = values_of(apply(plane, half));
    for (int i = 0; i + 1 < 3000; i++)
        if (which[i] == which[i + 1]) assert_near(middle[i], (y[i] + y[i + 1]) / 2, 1e-12); /* planar, and the region is convex */
    free(at_points), free(which), free(y), free(middle);
    cj_scope_close(s);
}

static void ff_regions_1d(void **state) /* ff.regions_1d */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    for (int64_t units = 1; units <= 12; units++) {
        cj_tensor *w = normal(CJ_SHAPE(units, 1)), *b = normal(CJ_SHAPE(units)), *v = normal(CJ_SHAPE(1, units));
        const cj_params *p = NETWORK(w, b, v, normal(CJ_SHAPE(1)));
        double *wv = values_of(w), *bv = values_of(b), *vv = values_of(v), far = 1;
        for (int d = 0; d < units; d++) far = fmax(far, 2 * fabs(bv[d] / wv[d]));
        cj_piece piece[16];
        assert_int_equal(pieces(p, -far, far, 0, piece, 16), units + 1);
        for (int i = 0; i <= units; i++) {
            double start = far * (2 * piece[i].start - 1), end = far * (2 * piece[i].end - 1), middle = (start + end) / 2, slope = 0,
                   nearest = 1;
            for (int d = 0; d < units; d++) {
                if (wv[d] * middle + bv[d] > 0) slope += vv[d] * wv[d]; /* active units */
                if (i) nearest = fmin(nearest, fabs(start + bv[d] / wv[d]));
            }
            if (i) assert_near(nearest, 0, 1e-11 * far); /* a joint at -th_0 / th_1 */
            assert_near(piece[i].slope / (2 * far), slope, 1e-9);
            double h = (end - start) / 8, difference = (at(p, middle + h) - at(p, middle - h)) / (2 * h);
            assert_near(difference, slope, 1e-10 * (1 + 1 / h));
        }
        free(wv), free(bv), free(vv);
    }
    /* deep: pieces agree with the network everywhere */
    const cj_params *deep = NETWORK(normal(CJ_SHAPE(8, 1)), normal(CJ_SHAPE(8)), normal(CJ_SHAPE(8, 8)), normal(CJ_SHAPE(8)),
                                    normal(CJ_SHAPE(8, 8)), normal(CJ_SHAPE(8)), normal(CJ_SHAPE(1, 8)), normal(CJ_SHAPE(1)));
    cj_piece piece[1000];
    int64_t n = pieces(deep, -3, 3, 0, piece, 1000);
    assert_true(n > 9 && n < 1000);
    for (int64_t i = 0; i < n; i++)
        for (int k = 1; k < 4; k++) {
            double t = piece[i].start + (piece[i].end - piece[i].start) * k / 4.;
            assert_near(at(deep, 6 * t - 3), piece[i].value + piece[i].slope * (t - piece[i].start), 1e-10);
        }
    cj_params *bad = NETWORK(normal(CJ_SHAPE(3, 1)), normal(CJ_SHAPE(3)), normal(CJ_SHAPE(1, 4)), normal(CJ_SHAPE(1)));
    assert_refused(CJ_ESHAPE, "relu_pieces: layer 1", pieces(bad, 0, 1, 0, piece, 8));
    assert_refused(CJ_EINDEX, "relu_pieces: output 1 of 1", pieces(deep, 0, 1, 1, piece, 8));
    cj_scope_close(s);
}

static double choose(int n, int k)
{
    double r = 1;
    for (int i = 0; i < k; i++) r = r * (n - i) / (i + 1);
    return k > n ? 0 : round(r);
}

static void ff_regions_2d(void **state) /* ff.regions_2d */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    assert_int_equal(cj_hyperplane_regions(F64(c, CJ_SHAPE(3, 2), 1, 0, 0, 1, 1, 1), F64(c, CJ_SHAPE(3), 0, 0, -1)), 7);
    assert_int_equal(cj_hyperplane_regions(F64(c, CJ_SHAPE(3, 2), 1, 0, 0, 1, 1, 1), F64(c, CJ_SHAPE(3), 0, 0, 0)),
                     6); /* through one point */
    assert_int_equal(cj_hyperplane_regions(F64(c, CJ_SHAPE(3, 2), 1, 0, 1, 0, 2, 0), F64(c, CJ_SHAPE(3), 0, 1, 2)),
                     3); /* parallel, one twice */
    for (int d = 1; d <= 9; d++)
        assert_int_equal(cj_hyperplane_regions(normal(CJ_SHAPE(d, 2)), normal(CJ_SHAPE(d))), (int)(1 + choose(d, 1) + choose(d, 2)));
    enum { GRID = 101 };
    const double span = 2.5;
    double grid[GRID * GRID * 2];
    for (int i = 0; i < GRID * GRID; i++)
        grid[2 * i] = 0.0123 + span * (2. * (i % GRID) / (GRID - 1) - 1), grid[2 * i + 1] = span * (2. * (i / GRID) / (GRID - 1) - 1);
    cj_tensor *w = F64(c, CJ_SHAPE(3, 2), 1, 0.2, -0.3, 1, 0.7, -0.8), *b = F64(c, CJ_SHAPE(3), 0.1, -0.2, 0.3),
              *v = F64(c, CJ_SHAPE(1, 3), 1, -2, 1.5), *x = f64(c, grid, CJ_SHAPE(GRID * GRID, 2));
    const cj_params *p = NETWORK(w, b, v, F64(c, CJ_SHAPE(1), 0));
    double *label = values_of(cj_relu_regions(p, x)), *y = values_of(apply(p, x)), regions = 0;
    double lipschitz = hypot(1, 0.2) + 2 * hypot(0.3, 1) + 1.5 * hypot(0.7, 0.8), cell = 2 * span / (GRID - 1);
    int crossed = 0;
    for (int i = 0; i < GRID * GRID; i++) {
        regions = fmax(regions, label[i] + 1);
        if (i % GRID == 0) continue;
        crossed += label[i] != label[i - 1];
        assert_true(fabs(y[i] - y[i - 1]) <= lipschitz * cell + 1e-12); /* continuous, across boundaries too */
    }
    assert_int_equal((int)regions, 7);
    assert_true(crossed > 100);
    for (int trial = 0; trial < 200000; trial += 37) { /* polygons are convex: the middle of two points of a region is in it */
        int i = (int)(trial * 7919LL % (GRID * GRID)), k = (int)(trial * 104729LL % (GRID * GRID));
        if (label[i] != label[k] || (i % GRID + k % GRID) % 2 || (i / GRID + k / GRID) % 2) continue;
        assert_true(label[(i / GRID + k / GRID) / 2 * GRID + (i % GRID + k % GRID) / 2] == label[i]);
    }
    free(label), free(y);
    assert_poisoned(CJ_ESHAPE, "relu_regions: x is", cj_relu_regions(p, normal(CJ_SHAPE(4, 3))));
    assert_refused(CJ_ESHAPE, "hyperplane_regions: weight", cj_hyperplane_regions(w, normal(CJ_SHAPE(2))));
    cj_scope_close(s);
}

/* Every region of m >= n planes in general position touches a vertex; around a vertex all signs of its n planes occur: distinct sign vectors, counted. */
static int count_by_vertices(const double *w, const double *b, int m, int n)
{
    bool seen[64] = { false };
    int chosen[3], count = 0;
    for (int set = 0; set < 1 << m; set++) {
        int k = 0;
        for (int i = 0; i < m; i++)
            if (set >> i & 1 && k < 4) k < n ? (void)(chosen[k] = i) : (void)0, k++;
        if (k != n) continue;
        double a[9], right[3];
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) a[i * n + j] = w[chosen[i] * n + j];
            right[i] = -b[chosen[i]];
        }
        double *x = values_of(cj_solve(f64(c, a, CJ_SHAPE(n, n)), f64(c, right, CJ_SHAPE(n))));
        int sign = 0;
        for (int i = 0; i < m; i++) {
            double z = b[i];
            for (int j = 0; j < n; j++) z += w[i * n + j] * x[j];
            if (!(set >> i & 1) && z > 0) sign |= 1 << i;
        }
        free(x);
        for (int around = 0; around < 1 << n; around++) {
            int pattern = sign;
            for (int i = 0; i < n; i++)
                if (around >> i & 1) pattern |= 1 << chosen[i];
            count += !seen[pattern];
            seen[pattern] = true;
        }
    }
    return count;
}

static void ff_zaslavsky(void **state) /* ff.zaslavsky */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const int plane[10] = { 2, 4, 7, 11, 16, 22, 29, 37, 46, 56 }, space[10] = { 2, 4, 8, 15, 26, 42, 64, 93, 130, 176 };
    for (int m = 1; m <= 10; m++) {
        assert_true(cj_zaslavsky_bound(m, 2) == plane[m - 1] && cj_zaslavsky_bound(m, 3) == space[m - 1]);
        assert_true(cj_zaslavsky_bound(m, m) == pow(2, m) && cj_zaslavsky_bound(m, m + 4) == pow(2, m) &&
                    cj_zaslavsky_bound(m, 3) <= pow(2, m));
        for (int n = 2; n <= 3; n++) {
            cj_tensor *w = normal(CJ_SHAPE(m, n)), *b = normal(CJ_SHAPE(m));
            int64_t count = cj_hyperplane_regions(w, b);
            assert_int_equal(count, n == 2 ? plane[m - 1] : space[m - 1]);
            if (m > 6 || m < n) continue;
            double *wv = values_of(w), *bv = values_of(b);
            assert_int_equal(count_by_vertices(wv, bv, m, n), count);
            free(wv), free(bv);
        }
    }
    assert_near(cj_zaslavsky_bound(2000, 3) / cj_zaslavsky_bound(1000, 3), 8, 0.05); /* O(m^n) */
    assert_true(isnan(cj_zaslavsky_bound(-1, 2)));
    cj_scope_close(s);
}

/* zig(x) = -1 + 3 relu(x + 1) - 6 relu(x + 1/3) + 6 relu(x - 1/3) as th (weights 1), phi */
static const double zig_bias[3] = { 1, 1. / 3, -1. / 3 }, zig_out[3] = { 3, -6, 6 };
static cj_params *zig(void)
{
    return NETWORK(cj_ones(c, CJ_SHAPE(3, 1), CJ_F64), f64(c, zig_bias, CJ_SHAPE(3)), f64(c, zig_out, CJ_SHAPE(1, 3)),
                   F64(c, CJ_SHAPE(1), -1));
}
/* outer(inner(x)) as one network of two hidden layers: psi_d0 = th'_d0 + th'_d1 phi_0, Psi = th' phi */
static cj_params *collapse(const cj_params *inner, const cj_params *outer)
{
    cj_tensor *th = cj_params_at(outer, 0), *psi = cj_matmul(th, cj_params_at(inner, 2)),
              *offset = cj_add(cj_params_at(outer, 1), cj_matmul(th, cj_params_at(inner, 3)));
    return NETWORK(cj_params_at(inner, 0), cj_params_at(inner, 1), psi, offset, cj_params_at(outer, 2), cj_params_at(outer, 3));
}

static void ff_compose(void **state) /* ff.compose */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_params *one = zig(), *both = collapse(one, one);
    cj_piece piece[32];
    assert_int_equal(pieces(one, -1, 1, 0, piece, 32), 3);
    const double slope[3] = { 3, -3, 3 };
    for (int i = 0; i < 3; i++) assert_near(piece[i].slope / 2, slope[i], 1e-12);
    assert_int_equal(pieces(both, -1, 1, 0, piece, 32), 9);
    assert_int_equal(2 * cj_params_numel(one), 20);
    /* another second network: its copies are stretched by a third, the middle one reversed */
    cj_params *outer = NETWORK(normal(CJ_SHAPE(3, 1)), normal(CJ_SHAPE(3)), normal(CJ_SHAPE(1, 3)), normal(CJ_SHAPE(1)));
    for (int i = 0; i <= 50; i++) {
        double y = -1 + 2 * i / 50., f = at(outer, y);
        const double copies[3] = { (y - 2) / 3, -y / 3, (y + 2) / 3 };
        for (int k = 0; k < 3; k++) assert_near(at(collapse(one, outer), copies[k]), f, 1e-12);
    }
    /* two inputs: patches of the surface repeat along the direction of the first network and do not change across it */
    cj_params *ridge = NETWORK(F64(c, CJ_SHAPE(3, 2), 0.6, 0.8, 0.6, 0.8, 0.6, 0.8), f64(c, zig_bias, CJ_SHAPE(3)),
                               f64(c, zig_out, CJ_SHAPE(1, 3)), F64(c, CJ_SHAPE(1), -1)),
              *surface = collapse(ridge, outer);
    for (int i = 0; i < 100; i++) {
        double u = -1 + (i % 10) / 15., v = i / 10 - 5., first = NAN;
        const double copies[3] = { u, -2. / 3 - u, u + 4. / 3 }; /* u in [-1, -1/3] */
        for (int k = 0; k < 3; k++) {
            double y = cj_item(apply(surface, F64(c, CJ_SHAPE(1, 2), 0.6 * copies[k] - 0.8 * v, 0.8 * copies[k] + 0.6 * v)));
            if (k) assert_near(y, first, 1e-12);
            else first = y;
        }
    }
    cj_scope_close(s);
}

static void ff_collapse(void **state) /* ff.collapse */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    cj_params *inner = zig(),
              *outer = NETWORK(F64(c, CJ_SHAPE(3, 1), 1.5, -2, 0.7), F64(c, CJ_SHAPE(3), 0.4, 0.3, 0.2), F64(c, CJ_SHAPE(1, 3), 1, 2, -1.3),
                               F64(c, CJ_SHAPE(1), 0.25)),
              *both = collapse(inner, outer);
    for (int i = 0; i <= 200; i++) {
        double x = -1 + i / 100.;
        assert_near(at(both, x), at(outer, at(inner, x)), 1e-14 * 8);
    }
    cj_tensor *psi = cj_params_at(both, 2);
    assert_int_equal(cj_item(cj_matrix_rank(psi)), 1);
    assert_int_equal(cj_item(cj_matrix_rank(normal(CJ_SHAPE(3, 3)))), 3); /* free weights: more functions */
    assert_int_equal(cj_params_numel(both), 22);
    assert_int_equal(cj_deep_parameter_count(3, 2), 22);
    const cj_params *before = NETWORK(cj_params_at(both, 0), cj_params_at(both, 1), psi, cj_params_at(both, 3));
    cj_piece piece[32];
    for (int d = 0; d < 3; d++) { /* before the second ReLU: the joints of the first layer, at -1/3 and 1/3 */
        assert_int_equal(pieces(before, -1, 1, d, piece, 32), 3);
        assert_near(2 * piece[1].start - 1, -1. / 3, 1e-12);
        assert_near(2 * piece[2].start - 1, 1. / 3, 1e-12);
    }
    assert_true(pieces(both, -1, 1, 0, piece, 32) > 3);
    cj_scope_close(s);
}

/* g(x) = 5 - 10.5 relu(x - 1/7) + 7 relu(x - 3/7) - 7 relu(5/7 - x): up, down, up, down between 0 and 1 */
static cj_params *fold(void)
{
    return NETWORK(F64(c, CJ_SHAPE(3, 1), 1, 1, -1), F64(c, CJ_SHAPE(3), -1. / 7, -3. / 7, 5. / 7), F64(c, CJ_SHAPE(1, 3), -10.5, 7, -7),
                   F64(c, CJ_SHAPE(1), 5));
}
static cj_params *folded(int times)
{
    cj_params *g = fold();
    cj_tensor *p[16], *psi = cj_matmul(cj_params_at(g, 0), cj_params_at(g, 2)),
                      *offset = cj_add(cj_params_at(g, 1), cj_matmul(cj_params_at(g, 0), cj_params_at(g, 3)));
    p[0] = cj_params_at(g, 0), p[1] = cj_params_at(g, 1);
    for (int k = 1; k < times; k++) p[2 * k] = cj_clone(psi), p[2 * k + 1] = cj_clone(offset);
    p[2 * times] = cj_params_at(g, 2), p[2 * times + 1] = cj_params_at(g, 3);
    return network(p, times + 1);
}

static void ff_deep_regions(void **state) /* ff.deep_regions */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const int64_t count[4] = { 4, 16, 64, 256 }, parameters[4] = { 10, 22, 34, 46 };
    cj_piece piece[300];
    for (int k = 1; k <= 4; k++) {
        cj_params *p = folded(k);
        assert_int_equal(pieces(p, 0, 1, 0, piece, 300), count[k - 1]);
        assert_int_equal(cj_params_numel(p), parameters[k - 1]);
        assert_int_equal(cj_deep_parameter_count(3, k), parameters[k - 1]);
        assert_true(cj_deep_region_bound(3, k) == (double)count[k - 1]);
        double x = 0.37, y = x;
        for (int i = 0; i < k; i++) y = at(fold(), y);
        assert_near(at(p, x), y, 1e-9);
    }
    assert_int_equal(cj_deep_parameter_count(10, 5), 471);
    assert_true(cj_deep_region_bound(10, 5) == 161051);
    /* regions against parameters, one curve for each depth */
    char path[] = "/tmp/cajal-regions-XXXXXX.tsv";
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0);
    cj_plot *plot = cj_plot_new(c, "Regions of networks with one input");
    cj_plot_log(plot, false, true);
    for (int k = 1; k <= 5; k++) {
        double n[20], regions[20];
        for (int d = 1; d <= 20; d++) n[d - 1] = (double)cj_deep_parameter_count(d, k), regions[d - 1] = cj_deep_region_bound(d, k);
        char label[32];
        snprintf(label, sizeof label, "%d layers", k);
        assert_true(cj_plot_line(plot, label, n, regions, 20));
    }
    char picture[64];
    snprintf(picture, sizeof picture, "%.*s.svg", (int)strlen(path) - 4, path);
    cj_plot_save(plot, picture);
    cj_clear(c); /* without cairo there is only the table */
    cj_plot_free(plot);
    FILE *f = fdopen(fd, "r");
    fclose(f);
    f = fopen(path, "r");
    int lines = 0;
    for (int ch; (ch = fgetc(f)) != EOF;) lines += ch == '\n';
    fclose(f);
    assert_true(lines >= 20);
    remove(path), remove(picture);
    cj_scope_close(s);
}

static void ff_montufar(void **state) /* ff.montufar */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    const int64_t three[] = { 3, 3 }, four[] = { 4, 4 }, six[] = { 6, 6 }, eight[] = { 8, 8, 8 }, ten[] = { 10, 10, 10, 10, 10 },
                  fifty[] = { 50, 50, 50, 50, 50 };
    assert_true(cj_montufar_bound(1, three, 1) == 4 && cj_montufar_bound(1, three, 2) == 12 && cj_montufar_bound(1, ten, 5) == 110000);
    assert_true(cj_montufar_bound(2, three, 1) == 7 && cj_montufar_bound(2, four, 2) == 44 && cj_montufar_bound(2, six, 2) == 198 &&
                cj_montufar_bound(2, eight, 3) == 9472);
    assert_near(cj_montufar_bound(10, fifty, 5) / 1.2217e38, 1, 1e-4);
    assert_true(isnan(cj_montufar_bound(4, three, 2)));
    cj_piece piece[300];
    for (int k = 1; k <= 4; k++) { /* a network that folds has at least as many */
        const int64_t width[] = { 3, 3, 3, 3 };
        assert_true((double)pieces(folded(k), 0, 1, 0, piece, 300) >= cj_montufar_bound(1, width, k));
    }
    assert_true(cj_montufar_bound(1, ten, 5) > 1000 * cj_zaslavsky_bound(50, 1)); /* 50 units in five layers and in one */
    assert_true(cj_montufar_bound(2, eight, 3) > 10 * cj_zaslavsky_bound(24, 2));
    cj_scope_close(s);
}

typedef struct pair {
    cj_tensor *x, *y;
    bool smooth;
} pair;
static cj_tensor *two_layers(const pair *p, cj_tensor *s1, cj_tensor *s2)
{
    cj_tensor *z = cj_matmul(p->x, s1);
    return cj_matmul(p->smooth ? cj_tanh(z) : cj_relu(z), s2);
}

static void ff_symmetry_scale(void **state) /* ff.symmetry_scale */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    pair relu = { normal(CJ_SHAPE(20, 4)), normal(CJ_SHAPE(20, 3)), false }, smooth = relu;
    smooth.smooth = true;
    cj_tensor *w[2] = { cj_require_grad(normal(CJ_SHAPE(4, 6))), cj_require_grad(normal(CJ_SHAPE(6, 3))) }, *g[2],
              *y = two_layers(&relu, w[0], w[1]);
    const double scale[] = { 0.1, 0.5, 2, 10 };
    for (int i = 0; i < 4; i++) {
        cj_tensor *a = cj_mul_scalar(w[0], scale[i]), *b = cj_mul_scalar(w[1], 1 / scale[i]);
        assert_near(distance(two_layers(&relu, a, b), y), 0, 1e-12);
        assert_true(distance(two_layers(&smooth, a, b), two_layers(&smooth, w[0], w[1])) > 1e-2);
    }
    assert_true(distance(two_layers(&relu, cj_mul_scalar(w[0], -2), cj_mul_scalar(w[1], -0.5)), y) > 1e-2);
    assert_true(cj_grad(cj_mse_loss(y, relu.y), w, 2, g));
    assert_near(cj_item(cj_sum(cj_mul(w[0], g[0]))), cj_item(cj_sum(cj_mul(w[1], g[1]))), 1e-10);
    assert_true(cj_grad(cj_mse_loss(two_layers(&smooth, w[0], w[1]), relu.y), w, 2, g));
    assert_true(fabs(cj_item(cj_sum(cj_mul(w[0], g[0]))) - cj_item(cj_sum(cj_mul(w[1], g[1])))) > 1e-3);
    cj_scope_close(s);
}

static void ff_symmetry_permute(void **state) /* ff.symmetry_permute */
{
    (void)state;
    cj_scope s = cj_scope_open(c);
    enum { UNITS = 7 };
    pair p = { normal(CJ_SHAPE(20, 4)), NULL, true };
    cj_tensor *s1 = normal(CJ_SHAPE(4, UNITS)), *s2 = normal(CJ_SHAPE(UNITS, 3)), *y = two_layers(&p, s1, s2);
    for (int trial = 0; trial < 10; trial++) {
        int64_t order[UNITS];
        cj_data_order((uint64_t)trial, 0, UNITS, order);
        cj_tensor *t = cj_cast(cj_one_hot(cj_from_i64(c, order, CJ_SHAPE(UNITS)), UNITS), CJ_F64);
        bool symmetric = distance(t, cj_t(t)) == 0;
        assert_near(distance(two_layers(&p, cj_matmul(s1, t), cj_matmul(cj_t(t), s2)), y), 0, 1e-13);
        if (!symmetric) assert_true(distance(two_layers(&p, cj_matmul(s1, t), cj_matmul(t, s2)), y) > 1e-3);
    }
    cj_scope_close(s);
}

/* ---- training ------------------------------------------------------------------------------------------------------------------------------------ */

static int errors(cj_module *m, cj_tensor *x, cj_tensor *y)
{
    cj_scope s = cj_scope_open(c);
    int wrong = (int)cj_item(cj_sum(cj_zero_one_loss(cj_squeeze(cj_forward(m, x), 1), y, .reduction = CJ_NONE)));
    cj_scope_close(s);
    return wrong;
}
static int fit_hinge(cj_module *m, cj_tensor *x, cj_tensor *y, int steps)
{
    cj_optim *sgd = cj_sgd(cj_module_params(m), .lr = 0.05, .momentum = 0.9);
    for (int i = 0; i < steps; i++) {
        if (i % 100 == 0 && !errors(m, x, y)) break;
        cj_scope s = cj_scope_open(c);
        cj_minimise(sgd, cj_hinge_loss(cj_squeeze(cj_forward(m, x), 1), y));
        cj_scope_close(s);
    }
    return errors(m, x, y);
}
/* hinge of sign(vᵀ relu(Sᵀx)) in v with S fixed, and in both */
static cj_tensor *hinge_of(cj_ctx *ctx, void *user, cj_tensor *const *in, int n)
{
    (void)ctx, (void)n;
    const pair *p = user;
    bool fixed = cj_numel(in[0]) == 3;
    cj_tensor *v = cj_slice(in[0], 0, 0, 3, 1),
              *features = cj_reshape(fixed ? F64(c, CJ_SHAPE(6), 1, -1, 0.5, 0.3, 1, -1) : cj_slice(in[0], 0, 3, 9, 1), CJ_SHAPE(2, 3));
    return cj_hinge_loss(cj_matmul(cj_relu(cj_matmul(p->x, features)), v), p->y);
}

static void ff_two_layer_hinge(void **state) /* ff.two_layer_hinge */
{
    (void)state;
    enum { N = 80 };
    float ring[2 * N], sign[N];
    for (int i = 0; i < N; i++) {
        float r = i % 2 ? 1.f : 2.f, a = (float)(2 * M_PI * i / N);
        ring[2 * i] = r * cosf(a), ring[2 * i + 1] = r * sinf(a), sign[i] = i % 2 ? 1.f : -1.f;
    }
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_from_f32(c, ring, CJ_SHAPE(N, 2)), *y = cj_from_f32(c, sign, CJ_SHAPE(N));
    cj_tensor *corners = cj_from_f32(c, (float[]){ -1, -1, -1, 1, 1, -1, 1, 1 }, CJ_SHAPE(4, 2)),
              *exor = cj_from_f32(c, (float[]){ -1, 1, 1, -1 }, CJ_SHAPE(4));
    assert_false(cj_separable(x, y, true));
    assert_false(cj_separable(corners, exor, true));
    for (int deep = 0; deep < 2; deep++) {
        cj_module *a = deep ? cj_sequential(c, cj_linear(c, 2, 32), cj_relu_layer(c), cj_linear(c, 32, 32), cj_relu_layer(c),
                                            cj_linear(c, 32, 1))
                            : cj_sequential(c, cj_linear(c, 2, 32), cj_relu_layer(c), cj_linear(c, 32, 1)),
                  *b = deep ? cj_sequential(c, cj_linear(c, 2, 32), cj_relu_layer(c), cj_linear(c, 32, 32), cj_relu_layer(c),
                                            cj_linear(c, 32, 1))
                            : cj_sequential(c, cj_linear(c, 2, 32), cj_relu_layer(c), cj_linear(c, 32, 1));
        assert_int_equal(fit_hinge(a, x, y, 4000), 0);
        assert_int_equal(fit_hinge(b, corners, exor, 4000), 0);
    }
    /* with S fixed: random features and a convex problem; with S learned not */
    pair p = { cj_cast(x, CJ_F64), cj_cast(y, CJ_F64), false };
    cj_tensor *low = cj_full(c, -2, CJ_SHAPE(3), CJ_F64), *high = cj_full(c, 2, CJ_SHAPE(3), CJ_F64);
    assert_true(cj_check_convex(c, hinge_of, &p, low, high, .values_only = true).convex);
    cj_convexity joint =
        cj_check_convex(c, hinge_of, &p, cj_full(c, -2, CJ_SHAPE(9), CJ_F64), cj_full(c, 2, CJ_SHAPE(9), CJ_F64), .values_only = true);
    assert_false(joint.convex);
    assert_string_equal(joint.broken, "chord");
    /* freezing S is training on random features: the same steps for v */
    cj_module *first = cj_linear(c, 2, 16), *last = cj_linear(c, 16, 1), *net = cj_sequential(c, first, cj_relu_layer(c), last),
              *alone = cj_linear(c, 16, 1);
    cj_tensor *features = cj_keep(cj_relu(cj_forward(first, x)));
    cj_module_freeze(first, true);
    bool was = cj_no_grad(c);
    for (int i = 0; i < 2; i++) cj_assign_(cj_params_at(cj_module_params(alone), i), cj_params_at(cj_module_params(last), i));
    cj_grad_mode(c, was);
    fit_hinge(net, x, y, 90);
    fit_hinge(alone, features, y, 90);
    assert_near(distance(cj_forward(net, x), cj_forward(alone, features)), 0, 1e-5);
    cj_scope_close(s);
}

/* log |gradient of the first weight| of a deep network, mean over inits */
static double first_gradient(int depth, const char *activation, double gain, int inits)
{
    enum { WIDTH = 64 };
    double sum = 0;
    for (int k = 0; k < inits; k++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *a = cj_randn(c, CJ_SHAPE(32, WIDTH)), *first = NULL, *g;
        for (int l = 0; l < depth; l++) {
            cj_tensor *w = cj_mul_scalar(cj_randn(c, CJ_SHAPE(WIDTH, WIDTH)), gain / sqrt(WIDTH));
            if (!l) first = w = cj_require_grad(w);
            a = cj_matmul(a, w);
            a = *activation == 's' ? cj_sigmoid(a) : cj_relu(a);
        }
        assert_true(cj_grad(cj_sum(cj_mul(a, cj_randn(c, CJ_SHAPE(32, WIDTH)))), &first, 1, &g));
        sum += log(cj_item(cj_norm(g, 2)));
        cj_scope_close(s);
    }
    return sum / inits;
}
/* slope and correlation of y against depth 2, 4, … */
static void line_fit(const double *y, int n, double *slope, double *correlation)
{
    double mx = n + 1, my = 0, sxx = 0, sxy = 0, syy = 0;
    for (int i = 0; i < n; i++) my += y[i] / n;
    for (int i = 0; i < n; i++) sxx += pow(2 * i + 2 - mx, 2), sxy += (2 * i + 2 - mx) * (y[i] - my), syy += pow(y[i] - my, 2);
    *slope = sxy / sxx, *correlation = sxy / sqrt(sxx * syy);
}

static void ff_vanishing_depth(void **state) /* ff.vanishing_depth */
{
    (void)state;
    enum { DEPTHS = 7 };
    double y[DEPTHS], slope, correlation;
    for (int i = 0; i < DEPTHS; i++) y[i] = first_gradient(2 * i + 2, "sigmoid", 1, 10);
    line_fit(y, DEPTHS, &slope, &correlation);
    assert_true(slope < -log(4) + 0.2 && correlation < -0.99); /* each factor is at most |W|/4 */
    for (int i = 0; i < DEPTHS; i++) y[i] = first_gradient(2 * i + 2, "relu", sqrt(2), 40);
    line_fit(y, DEPTHS, &slope, &correlation);
    assert_near(slope, 0, 0.1);
    for (int i = 0; i < DEPTHS; i++) y[i] = first_gradient(2 * i + 2, "relu", 2 * sqrt(2), 20);
    line_fit(y, DEPTHS, &slope, &correlation);
    assert_near(slope, log(2), 0.1); /* twice the weights: twice the gradient for every layer */
    assert_true(correlation > 0.99);
    assert_ok(c);
}

static int64_t steps_to_memorise(int64_t n, int64_t width, double *fresh)
{
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_randn(c, CJ_SHAPE(n, 16)), *y = cj_randint(c, 0, 10, CJ_SHAPE(n));
    cj_module *m = cj_sequential(c, cj_linear(c, 16, width), cj_relu_layer(c), cj_linear(c, width, 10));
    cj_optim *adam = cj_adam(cj_module_params(m), .lr = 0.01);
    int64_t steps = 0;
    for (double right = 0; right < 1 && steps < 4000; steps++) {
        cj_scope inner = cj_scope_open(c);
        cj_tensor *z = cj_forward(m, x);
        right = cj_item(cj_mean(cj_cast(cj_eq(cj_argmax(z, .axes = CJ_AXIS(1)), y), CJ_F32)));
        if (right < 1) cj_minimise(adam, cj_cross_entropy(z, y));
        cj_scope_close(inner);
    }
    cj_tensor *other = cj_randn(c, CJ_SHAPE(4000, 16)), *truth = cj_randint(c, 0, 10, CJ_SHAPE(4000));
    if (fresh) *fresh = cj_item(cj_mean(cj_cast(cj_eq(cj_argmax(cj_forward(m, other), .axes = CJ_AXIS(1)), truth), CJ_F32)));
    cj_scope_close(s);
    return steps;
}

static void ff_memorise(void **state) /* ff.memorise */
{
    (void)state;
    double fresh;
    int64_t few = steps_to_memorise(30, 128, NULL), more = steps_to_memorise(120, 128, NULL), many = steps_to_memorise(480, 128, &fresh);
    assert_true(few < more && more < many && many < 4000);   /* all labels learned by heart, later the more there are */
    assert_near(fresh, 0.1, 5 * sqrt(0.09 / 4000));          /* chance, within 5 deviations */
    assert_int_equal(steps_to_memorise(480, 2, NULL), 4000); /* two units do not suffice for 480 */
    assert_ok(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ff_mlp),
        cmocka_unit_test(ff_shallow),
        cmocka_unit_test(ff_regions_1d),
        cmocka_unit_test(ff_regions_2d),
        cmocka_unit_test(ff_zaslavsky),
        cmocka_unit_test(ff_compose),
        cmocka_unit_test(ff_collapse),
        cmocka_unit_test(ff_deep_regions),
        cmocka_unit_test(ff_montufar),
        cmocka_unit_test(ff_symmetry_scale),
        cmocka_unit_test(ff_symmetry_permute),
        cmocka_unit_test(ff_two_layer_hinge),
        cmocka_unit_test(ff_vanishing_depth),
        cmocka_unit_test(ff_memorise),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
