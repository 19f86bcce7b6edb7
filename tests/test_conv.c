/* Convolution against plain loops: every stride, padding, dilation and kernel up to 3 per axis, groups, 1 to 3 axes, all float types, borders of every kind; derivatives of
 * first and second order by differences; one thread against two. */
#include "support.h"

#include <time.h>

typedef struct geometry {
    int nd;
    int64_t n, c, o, groups, in[3], kernel[3], stride[3], pad[3], dilation[3], out[3];
    bool last; /* channels-last images */
} geometry;

static int64_t volume(const int64_t *d) { return d[0] * d[1] * d[2]; }

/* Calls visit(x index, w index, y index) for every product of the convolution. */
static void walk(const geometry *g, void (*visit)(void *, int64_t, int64_t, int64_t), void *user)
{
    int64_t cg = g->c / g->groups, og = g->o / g->groups;
    for (int64_t n = 0; n < g->n; n++)
        for (int64_t o = 0; o < g->o; o++)
            for (int64_t p = 0; p < volume(g->out); p++)
                for (int64_t c = 0; c < cg; c++)
                    for (int64_t k = 0; k < volume(g->kernel); k++) {
                        int64_t at[3], pp[3] = { p / g->out[2] / g->out[1], p / g->out[2] % g->out[1], p % g->out[2] };
                        int64_t kk[3] = { k / g->kernel[2] / g->kernel[1], k / g->kernel[2] % g->kernel[1], k % g->kernel[2] };
                        bool inside = true;
                        for (int d = 0; d < 3; d++) {
                            at[d] = pp[d] * g->stride[d] - g->pad[d] + kk[d] * g->dilation[d];
                            inside &= at[d] >= 0 && at[d] < g->in[d];
                        }
                        if (!inside) continue;
                        int64_t x = ((n * g->c + o / og * cg + c) * g->in[0] + at[0]) * g->in[1] * g->in[2] + at[1] * g->in[2] + at[2];
                        visit(user, x, (o * cg + c) * volume(g->kernel) + k, (n * g->o + o) * volume(g->out) + p);
                    }
}

typedef struct sums {
    const double *x, *w, *g;
    double *y, *dx, *dw, *size_y, *size_x, *size_w;
} sums;
static void add_all(void *user, int64_t x, int64_t w, int64_t y)
{
    sums *s = user;
    s->y[y] += s->x[x] * s->w[w], s->size_y[y] += fabs(s->x[x] * s->w[w]);
    s->dx[x] += s->g[y] * s->w[w], s->size_x[x] += fabs(s->g[y] * s->w[w]);
    s->dw[w] += s->g[y] * s->x[x], s->size_w[w] += fabs(s->g[y] * s->x[x]);
}

static cj_shape shape_of(int nd, int64_t a, int64_t b, const int64_t *size)
{
    cj_shape s = { .ndim = nd + 2, .dim = { a, b } };
    for (int d = 0; d < nd; d++) s.dim[2 + d] = size[3 - nd + d];
    return s;
}

static void compare(cj_tensor *t, const double *want, const double *size, double tolerance, const char *what, const geometry *g)
{
    double *v = values_of(t);
    for (int64_t i = 0; i < cj_numel(t); i++)
        if (!(fabs(v[i] - want[i]) <= tolerance * (size[i] + 1e-3)))
            fail_msg("%s, %s: element %ld is %.9g, expected %.9g; in %ld %ld %ld kernel %ld %ld %ld stride %ld %ld %ld pad %ld %ld %ld "
                     "dilation %ld %ld "
                     "%ld groups %ld",
                     what, cj_dtype_name(cj_dtype_of(t)), (long)i, v[i], want[i], (long)g->in[0], (long)g->in[1], (long)g->in[2],
                     (long)g->kernel[0], (long)g->kernel[1], (long)g->kernel[2], (long)g->stride[0], (long)g->stride[1], (long)g->stride[2],
                     (long)g->pad[0], (long)g->pad[1], (long)g->pad[2], (long)g->dilation[0], (long)g->dilation[1], (long)g->dilation[2],
                     (long)g->groups);
    free(v);
}

static const double tolerance_of[CJ_DTYPES] = { [CJ_F32] = 2e-6, [CJ_F64] = 1e-14, [CJ_BF16] = 0x1p-7, [CJ_F16] = 0x1p-9 };

static cj_tensor *image(cj_tensor *x, bool last) { return last ? cj_channels_last(x) : x; }

static bool same_values(cj_tensor *a, cj_tensor *b)
{
    double *u = values_of(a), *v = values_of(b);
    const bool same = memcmp(u, v, (size_t)cj_numel(a) * sizeof *u) == 0;
    free(u), free(v);
    return same;
}

/* z is y + b over the pixels, db the sum of the seed over examples and pixels. */
static void check_bias(cj_tensor *y, cj_tensor *z, cj_tensor *b, cj_tensor *seed, cj_tensor *db)
{
    const int64_t o = cj_numel(b), n = cj_size(y, 0), pixels = n ? cj_numel(y) / n / o : 0;
    double *u = values_of(y), *v = values_of(z), *bias = values_of(b), *g = values_of(seed), *d = values_of(db);
    for (int64_t k = 0; k < o; k++) {
        double sum = 0, size = 1e-3;
        for (int64_t i = 0; i < n; i++)
            for (int64_t p = 0; p < pixels; p++) {
                const int64_t at = (i * o + k) * pixels + p;
                sum += g[at], size += fabs(g[at]);
                if (!(fabs(v[at] - u[at] - bias[k]) <= 2e-5 * (1 + fabs(u[at]) + fabs(bias[k]))))
                    fail_msg("with bias %.9g: element %ld is %.9g, without %.9g", bias[k], (long)at, v[at], u[at]);
            }
        if (!(fabs(d[k] - sum) <= 2e-6 * size)) fail_msg("gradient of the bias: %.9g, expected %.9g", d[k], sum);
    }
    free(u), free(v), free(bias), free(g), free(d);
}

/* Value and both derivatives of one geometry; false where the kernel does not fit. */
static bool check(cj_ctx *c, geometry g, cj_dtype t)
{
    for (int d = 0; d < 3; d++) {
        int64_t room = g.in[d] + 2 * g.pad[d] - g.dilation[d] * (g.kernel[d] - 1) - 1;
        if (room < 0) return false;
        g.out[d] = room / g.stride[d] + 1;
    }
    cj_scope s = cj_scope_open(c);
    cj_tensor *x = cj_require_grad(image(cj_cast(cj_randn(c, shape_of(g.nd, g.n, g.c, g.in)), t), g.last)),
              *w = cj_require_grad(cj_cast(cj_randn(c, shape_of(g.nd, g.o, g.c / g.groups, g.kernel)), t)),
              *seed = image(cj_cast(cj_randn(c, shape_of(g.nd, g.n, g.o, g.out)), t), g.last), *grad[2], *both[2] = { x, w };
    cj_shape stride = { .ndim = g.nd }, pad = stride, dilation = stride;
    for (int d = 0; d < g.nd; d++)
        stride.dim[d] = g.stride[3 - g.nd + d], pad.dim[d] = g.pad[3 - g.nd + d], dilation.dim[d] = g.dilation[3 - g.nd + d];
    cj_tensor *y = cj_conv(x, w, NULL, .strides = stride, .paddings = pad, .dilations = dilation, .groups = g.groups);
    bool ok = cj_grad(y, both, 2, grad, .seed = seed);
    if (!ok) fail_msg("%s", cj_message(c));
    double *v[3] = { values_of(x), values_of(w), values_of(seed) };
    int64_t nx = cj_numel(x), nw = cj_numel(w), ny = cj_numel(y);
    double *sum = calloc((size_t)(2 * (nx + nw + ny)), sizeof *sum);
    sums r = { .x = v[0], .w = v[1], .g = v[2], .y = sum, .dx = sum + ny, .dw = sum + ny + nx };
    r.size_y = r.dw + nw, r.size_x = r.size_y + ny, r.size_w = r.size_x + nx;
    walk(&g, add_all, &r);
    compare(y, r.y, r.size_y, tolerance_of[t], "value", &g);
    compare(grad[0], r.dx, r.size_x, tolerance_of[t], "gradient of the input", &g);
    compare(grad[1], r.dw, r.size_w, tolerance_of[t], "gradient of the weight", &g);
    for (int i = 0; i < 3; i++) free(v[i]);
    if (t == CJ_F32) {
        cj_tensor *b = cj_require_grad(cj_randn(c, CJ_SHAPE(g.o))), *three[3] = { x, w, b }, *with[3];
        cj_tensor *z = cj_conv(x, w, b, .strides = stride, .paddings = pad, .dilations = dilation, .groups = g.groups);
        assert_true(cj_grad(z, three, 3, with, .seed = seed));
        check_bias(y, z, b, seed, with[2]);
        assert_true(same_values(grad[0], with[0]) && same_values(grad[1], with[1]));
    }
    free(sum);
    cj_scope_close(s);
    return true;
}

static void all_combinations(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 21 });
    int done = 0;
    for (int64_t k = 1; k <= 3; k++)
        for (int64_t s = 1; s <= 3; s++)
            for (int64_t p = 0; p <= 3; p++)
                for (int64_t d = 1; d <= 3; d++) {
                    geometry g = { .nd = 1,
                                   .n = 2,
                                   .c = 3,
                                   .o = 2,
                                   .groups = 1,
                                   .in = { 1, 1, 9 },
                                   .kernel = { 1, 1, k },
                                   .stride = { 1, 1, s },
                                   .dilation = { 1, 1, d } };
                    g.pad[2] = p;
                    done += check(c, g, CJ_F32) + check(c, g, CJ_F64);
                    for (int64_t k2 = 1; k2 <= 3; k2++) { /* the other axis with other values */
                        geometry h = { .nd = 2,
                                       .n = 1,
                                       .c = 2,
                                       .o = 3,
                                       .groups = 1,
                                       .in = { 1, 7, 8 },
                                       .kernel = { 1, k2, k },
                                       .stride = { 1, 4 - s, s },
                                       .dilation = { 1, 4 - d, d } };
                        h.pad[1] = 3 - p, h.pad[2] = p;
                        done += check(c, h, CJ_F32);
                        h.last = true;
                        done += check(c, h, CJ_F32);
                    }
                }
    assert_true(done > 700);
    assert_ok(c);
    cj_ctx_free(c);
}

static void sizes_and_types(void **unused)
{
    (void)unused;
    const geometry cases[] = {
        { 2, 2, 8, 16, 1, { 1, 13, 11 }, { 1, 3, 3 }, { 1, 1, 1 }, { 0, 1, 1 }, { 1, 1, 1 }, { 0 }, false },
        { 2, 3, 8, 16, 1, { 1, 13, 11 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 }, { 0 }, false }, /* x is the matrix */
        { 2, 2, 6, 4, 2, { 1, 9, 9 }, { 1, 3, 2 }, { 1, 2, 2 }, { 0, 1, 0 }, { 1, 1, 2 }, { 0 }, false },
        { 2, 2, 5, 5, 5, { 1, 12, 17 }, { 1, 3, 3 }, { 1, 1, 1 }, { 0, 1, 1 }, { 1, 1, 1 }, { 0 }, false }, /* depthwise */
        { 2, 1, 4, 8, 4, { 1, 12, 17 }, { 1, 5, 5 }, { 1, 2, 1 }, { 0, 2, 2 }, { 1, 1, 1 }, { 0 }, false }, /* two results per channel */
        { 3, 2, 3, 4, 1, { 5, 6, 7 }, { 3, 2, 3 }, { 2, 1, 1 }, { 1, 0, 1 }, { 1, 2, 1 }, { 0 }, false },
        { 1, 4, 20, 33, 1, { 1, 1, 50 }, { 1, 1, 7 }, { 1, 1, 1 }, { 0, 0, 3 }, { 1, 1, 1 }, { 0 }, false },
        { 2,
          2,
          70,
          40,
          1,
          { 1, 40, 40 },
          { 1, 3, 3 },
          { 1, 1, 1 },
          { 0, 1, 1 },
          { 1, 1, 1 },
          { 0 },
          false }, /* several blocks and runs of channels */
        { 2, 1, 1, 6, 1, { 1, 28, 28 }, { 1, 5, 5 }, { 1, 1, 1 }, { 0, 2, 2 }, { 1, 1, 1 }, { 0 }, false },
        { 2, 0, 2, 3, 1, { 1, 4, 4 }, { 1, 3, 3 }, { 1, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 }, { 0 }, false },   /* an empty batch */
        { 2, 1, 3, 3, 3, { 1, 2, 600 }, { 1, 3, 5 }, { 1, 1, 1 }, { 0, 1, 2 }, { 1, 1, 1 }, { 0 }, false }, /* lines that are cut */
        { 2, 1, 70, 70, 70, { 1, 3, 500 }, { 1, 1, 3 }, { 1, 1, 1 }, { 0, 0, 1 }, { 1, 1, 1 }, { 0 }, false },
        { 2, 1, 3, 5, 1, { 1, 2, 600 }, { 1, 3, 5 }, { 1, 1, 1 }, { 0, 1, 2 }, { 1, 1, 1 }, { 0 }, false },
    };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 22 });
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int t = CJ_F32; t <= CJ_F16; t++) {
            geometry last = cases[i];
            last.last = true;
            assert_true(check(c, cases[i], (cj_dtype)t) && check(c, last, (cj_dtype)t));
        }
    assert_ok(c);
    cj_ctx_free(c);
}

/* Results lie as their inputs do, an image of one channel gives a channels-last one, and reductions of such images have the values of row-major ones. */
static void layouts_of_results(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 29 });
    cj_tensor *w = cj_randn(c, CJ_SHAPE(5, 1, 3, 3)), *y = cj_conv(cj_randn(c, CJ_SHAPE(3, 1, 6, 7)), w, NULL);
    assert_true(cj__channels_last(y) && !cj_is_contiguous(y));
    y = cj_conv(cj_randn(c, CJ_SHAPE(3, 2, 6, 7)), cj_randn(c, CJ_SHAPE(5, 2, 3, 3)), NULL);
    assert_true(cj_is_contiguous(y) && !cj__channels_last(y));

    cj_tensor *rows = cj_randn(c, CJ_SHAPE(3, 5, 4, 2)), *last = cj_channels_last(rows);
    for (int examples = 0; examples < 2; examples++)
        for (int keep = 0; keep < 2; keep++) {
            const cj_reduce_opts o = { .axes = examples ? CJ_AXES(0, 2, 3) : CJ_AXES(3, 2), .keepdim = keep };
            cj_tensor *(*const f[])(cj_tensor *, const cj_reduce_opts *) = { (cj_sum), (cj_mean), (cj_max), (cj_min), (cj_prod) };
            for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
                cj_tensor *a = f[i](rows, &o), *b = f[i](last, &o);
                assert_int_equal(cj_shape_of(a).ndim, cj_shape_of(b).ndim);
                for (int d = 0; d < cj_shape_of(a).ndim; d++) assert_int_equal(cj_size(a, d), cj_size(b, d));
                double *u = values_of(a), *v = values_of(b);
                for (int64_t k = 0; k < cj_numel(a); k++) assert_true(fabs(u[k] - v[k]) <= 1e-5 * (1 + fabs(u[k])));
                free(u), free(v);
            }
        }

    cj_tensor *x = cj_require_grad(last), *g;
    assert_true(cj_grad(cj_sum(cj_square(cj_flatten(cj_mul_scalar(x, 2), 1))), &x, 1, &g));
    assert_true(cj__channels_last(g) && !cj_is_contiguous(g)); /* the copy that flattens does not turn the gradient */
    double *u = values_of(g), *v = values_of(rows);
    for (int64_t k = 0; k < cj_numel(g); k++) assert_true(fabs(u[k] - 8 * v[k]) <= 1e-5 * (1 + fabs(v[k])));
    free(u), free(v);
    assert_ok(c);
    cj_ctx_free(c);
}

/* sum of squares of a convolution with its bias, given to it or added by hand */
static cj_tensor *squares(cj_ctx *c, void *by_hand, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    cj_tensor *y = by_hand ? cj_add(cj_conv(in[0], in[1], NULL, .padding = 1), cj_reshape(in[2], CJ_SHAPE(-1, 1, 1)))
                           : cj_conv(in[0], in[1], in[2], .padding = 1);
    return cj_sum(cj_square(y));
}

static void bias_of_higher_order(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 30 });
    cj_tensor *in[3], *t[3], *first[2][3], *second[2][3], *only[3] = { NULL };
    const cj_shape shape[3] = { CJ_SHAPE(2, 3, 5, 4), CJ_SHAPE(4, 3, 3, 3), CJ_SHAPE(4) };
    for (int i = 0; i < 3; i++) in[i] = cj_require_grad(cj_randn(c, shape[i])), t[i] = cj_randn(c, shape[i]);
    only[2] = t[2];
    for (int way = 0; way < 2; way++) {
        void *by_hand = way ? c : NULL;
        assert_true(cj_grad(squares(c, by_hand, in, 3), in, 3, first[way], .create_graph = true));
        cj_tensor *dot =
            cj_add(cj_sum(cj_mul(first[way][0], t[0])), cj_add(cj_sum(cj_mul(first[way][1], t[1])), cj_sum(cj_mul(first[way][2], t[2]))));
        assert_true(cj_grad(dot, in, 3, second[way], .retain = true));
    }
    for (int i = 0; i < 3; i++) {
        assert_true(distance(first[0][i], first[1][i]) < 1e-3);
        assert_true(distance(second[0][i], second[1][i]) < 1e-3);
    }
    assert_true(distance(cj_jvp(c, squares, NULL, in, t, 3).derivative, cj_jvp(c, squares, c, in, t, 3).derivative) < 1e-3);
    assert_true(distance(cj_jvp(c, squares, NULL, in, only, 3).derivative, cj_jvp(c, squares, c, in, only, 3).derivative) < 1e-3);
    assert_ok(c);
    cj_ctx_free(c);
}

static int64_t draw(uint64_t *state, int64_t from, int64_t to) /* from … to, small ones as often as large ones of twice the size */
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    const double u = (double)(*state >> 11) * 0x1p-53;
    return (int64_t)((double)from * pow((double)(to + 1) / (double)from, u));
}

/* Shapes that nobody chose: many small images (they share bands), many channels (panels that are fetched), odd sizes of everything. */
static void fresh_shapes(void **unused)
{
    (void)unused;
    const char *given = getenv("CAJAL_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL), state = seed;
    printf("seed %llu\n", (unsigned long long)seed);
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = seed });
    for (int done = 0; done < 60;) {
        geometry g = { .nd = 2,
                       .n = draw(&state, 1, 40),
                       .groups = 1,
                       .in = { 1, 0, 0 },
                       .kernel = { 1, 0, 0 },
                       .stride = { 1, 0, 0 },
                       .dilation = { 1, 1, 1 } };
        const int64_t most = done % 3 == 0 ? 600 : 70;
        g.c = draw(&state, 1, most), g.o = draw(&state, 1, most);
        for (int d = 1; d < 3; d++) {
            g.in[d] = draw(&state, 1, 40), g.kernel[d] = draw(&state, 1, 6), g.stride[d] = draw(&state, 1, 3),
            g.pad[d] = draw(&state, 1, 4) - 1;
            if (g.kernel[d] < 4) g.dilation[d] = draw(&state, 1, 2);
        }
        if (draw(&state, 1, 8) == 7) g.groups = draw(&state, 2, 4), g.c *= g.groups, g.o *= g.groups;
        g.last = done % 4 != 0;
        const double work = (double)(g.n * g.c * g.o / g.groups * g.in[1] * g.in[2] * g.kernel[1] * g.kernel[2]);
        if (work > 1.2e7 || work < 1e3) continue;
        done += check(c, g, CJ_F32);
    }
    assert_ok(c);
    cj_ctx_free(c);
}

/* Channel counts that fill no vector, one and several groups, depthwise, both layouts, the results' layout that of the input. */
static void odd_channels(void **unused)
{
    (void)unused;
    const int64_t counts[] = { 1, 3, 5, 17, 33 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 27 });
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            for (int64_t groups = 1; groups <= 3; groups += 2)
                for (int last = 0; last < 2; last++) {
                    geometry g = { .nd = 2,
                                   .n = 2,
                                   .c = counts[a] * groups,
                                   .o = counts[b] * groups,
                                   .groups = groups,
                                   .in = { 1, 7, 6 },
                                   .kernel = { 1, 3, 3 },
                                   .stride = { 1, 1 + a % 2, 1 + b % 2 },
                                   .pad = { 0, 1, 1 },
                                   .dilation = { 1, 1, 1 },
                                   .last = last };
                    for (int t = CJ_F32; t <= CJ_F16; t++) assert_true(check(c, g, (cj_dtype)t));
                    g.kernel[1] = g.kernel[2] = 1, g.pad[1] = g.pad[2] = 0;
                    assert_true(check(c, g, CJ_F32));
                    if (b || groups == 1) continue;
                    g.c = g.o = g.groups = counts[a] + 1; /* depthwise */
                    g.kernel[1] = 3, g.kernel[2] = 2, g.pad[2] = 1;
                    assert_true(check(c, g, CJ_F32) && check(c, g, CJ_BF16));
                }
    cj_tensor *x = cj_channels_last(cj_randn(c, CJ_SHAPE(2, 3, 5, 4))), *w = cj_randn(c, CJ_SHAPE(6, 3, 3, 3));
    cj_tensor *y = cj_relu(cj_conv(x, w, cj_randn(c, CJ_SHAPE(6)), .padding = 1)), *p = cj_max_pool(y, .kernel = 2).value;
    assert_true(cj__channels_last(y) && !cj_is_contiguous(y));
    assert_true(cj__channels_last(p) && !cj_is_contiguous(p));
    assert_true(cj_channels_last(x) != NULL && cj_is_contiguous(cj_permute(x, CJ_AXES(0, 2, 3, 1))));
    assert_ok(c);
    assert_true(cj_is_poison(cj_channels_last(w) ? cj_channels_last(cj_ones(c, CJ_SHAPE(2, 2), CJ_F32)) : w));
    assert_error(c, CJ_ESHAPE, "channels_last: the input [2, 2]");
    cj_ctx_free(c);
}

static cj_tensor *conv_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    return (cj_conv)(in[0], in[1], in[2], user);
}
static cj_tensor *transpose_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    return (cj_conv_transpose)(in[0], in[1], in[2], user);
}
static cj_tensor *local_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    return (cj_locally_connected)(in[0], in[1], in[2], user);
}

static void derivatives(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 23 });
    cj_tensor *b = cj_randn(c, CJ_SHAPE(2), .dtype = CJ_F64);
    for (int mode = CJ_PAD_ZERO; mode <= CJ_PAD_REPLICATE; mode++) {
        cj_tensor *in[3] = { cj_randn(c, CJ_SHAPE(1, 2, 4, 5), .dtype = CJ_F64), cj_randn(c, CJ_SHAPE(2, 1, 3, 2), .dtype = CJ_F64), b };
        cj_conv_opts o = { .padding = 1, .stride = 2, .groups = 2, .mode = (cj_pad_mode)mode };
        cj_gradcheck_result r = cj_gradcheck(c, conv_fn, &o, in, 3, .second_order = true);
        if (!r.ok) fail_msg("conv, mode %d: %s", mode, r.what);
    }
    cj_tensor *up[3] = { cj_randn(c, CJ_SHAPE(1, 2, 3, 2), .dtype = CJ_F64), cj_randn(c, CJ_SHAPE(2, 2, 3, 3), .dtype = CJ_F64), b };
    cj_conv_transpose_opts t = { .stride = 2, .padding = 1, .output_padding = 1 };
    cj_gradcheck_result r = cj_gradcheck(c, transpose_fn, &t, up, 3, .second_order = true);
    if (!r.ok) fail_msg("conv_transpose: %s", r.what);
    cj_tensor *local[3] = { cj_randn(c, CJ_SHAPE(2, 2, 5), .dtype = CJ_F64), cj_randn(c, CJ_SHAPE(2, 2, 3, 3), .dtype = CJ_F64), b };
    cj_conv_opts l = { .stride = 2, .padding = 1 };
    r = cj_gradcheck(c, local_fn, &l, local, 3, .second_order = true);
    if (!r.ok) fail_msg("locally_connected: %s", r.what);
    assert_ok(c);
    cj_ctx_free(c);
}

/* Borders, padding and the transposed map by their definitions. */
static void borders(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 24 });
    cj_tensor *x = cj_reshape(cj_arange(c, 1, 5, 1, CJ_F32), CJ_SHAPE(1, 1, 4)); /* 1 2 3 4 */
    const struct {
        cj_pad_mode mode;
        double value, want[7];
    } pads[] = { { CJ_PAD_ZERO, 0, { 0, 0, 1, 2, 3, 4, 0 } },
                 { CJ_PAD_ZERO, 9, { 9, 9, 1, 2, 3, 4, 9 } },
                 { CJ_PAD_REFLECT, 0, { 3, 2, 1, 2, 3, 4, 3 } },
                 { CJ_PAD_CYCLIC, 0, { 3, 4, 1, 2, 3, 4, 1 } },
                 { CJ_PAD_REPLICATE, 0, { 1, 1, 1, 2, 3, 4, 4 } } };
    for (int i = 0; i < 5; i++) {
        cj_tensor *y = cj_pad(x, CJ_SHAPE(2), CJ_SHAPE(1), .mode = pads[i].mode, .value = pads[i].value);
        assert_int_equal(cj_size(y, 2), 7);
        for (int k = 0; k < 7; k++) assert_near(value_at(y, k), pads[i].want[k], 0);
    }
    cj_tensor *w = cj_from_f32(c, (float[]){ 1, 10 }, CJ_SHAPE(1, 1, 2));
    const double valid[3] = { 21, 32, 43 }, same[4] = { 21, 32, 43, 4 }, full[5] = { 10, 21, 32, 43, 4 };
    cj_tensor *y[3] = { cj_conv(x, w, NULL), cj_conv(x, w, NULL, .border = CJ_SAME), cj_conv(x, w, NULL, .border = CJ_FULL) };
    for (int i = 0; i < 3; i++) {
        const double *want = i == 0 ? valid : i == 1 ? same : full;
        assert_int_equal(cj_numel(y[i]), 3 + i);
        for (int k = 0; k < 3 + i; k++) assert_near(value_at(y[i], k), want[k], 0);
    }
    /* <conv(x), y> = <x, conv_transpose(y)> for every stride, padding and size */
    for (int64_t s = 1; s <= 3; s++)
        for (int64_t p = 0; p <= 2; p++)
            for (int64_t size = 5; size <= 8; size++) {
                cj_tensor *a = cj_randn(c, CJ_SHAPE(2, 4, size, 6), .dtype = CJ_F64),
                          *k = cj_randn(c, CJ_SHAPE(6, 2, 3, 3), .dtype = CJ_F64);
                cj_tensor *u = cj_conv(a, k, NULL, .stride = s, .padding = p, .groups = 2),
                          *g = cj_randn(c, cj_shape_of(u), .dtype = CJ_F64);
                int64_t extra[2] = { (size + 2 * p - 3) % s, (6 + 2 * p - 3) % s };
                cj_tensor *back =
                    cj_conv_transpose(g, k, NULL, .stride = s, .padding = p, .groups = 2, .output_paddings = CJ_SHAPE(extra[0], extra[1]));
                assert_ok(c);
                assert_int_equal(cj_size(back, 2), size);
                assert_near(cj_item(cj_sum(cj_mul(u, g))), cj_item(cj_sum(cj_mul(a, back))), 1e-11);
            }
    /* a locally connected layer whose weights are the same everywhere is a convolution */
    cj_tensor *a = cj_randn(c, CJ_SHAPE(2, 3, 6, 5), .dtype = CJ_F64), *k = cj_randn(c, CJ_SHAPE(4, 3, 3, 2), .dtype = CJ_F64),
              *bias = cj_randn(c, CJ_SHAPE(4), .dtype = CJ_F64);
    cj_tensor *plain = cj_conv(a, k, bias, .stride = 2, .padding = 1);
    cj_tensor *shared = cj_expand(cj_reshape(k, CJ_SHAPE(4, 3, 1, 1, 3, 2)), CJ_SHAPE(4, 3, cj_size(plain, 2), cj_size(plain, 3), 3, 2));
    assert_near(distance(plain, cj_locally_connected(a, shared, bias, .stride = 2, .padding = 1)), 0, 1e-12);
    assert_ok(c);
    cj_ctx_free(c);
}

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    cj_tensor **w = user;
    (void)c;
    cj_tensor *h = cj_relu(cj_conv(in[0], w[0], w[1], .padding = 1)), *x[2] = { w[0], w[1] };
    cj_tensor *loss = cj_mean(cj_square(cj_conv(h, w[2], NULL, .stride = 2)));
    out[0] = loss;
    cj_grad(loss, x, 2, out + 1);
}

/* The same bits for 1, 2 and 3 threads, eager and planned, and from strided operands. */
static void threads_plans_layouts(void **unused)
{
    (void)unused;
    double *first[3] = { 0 };
    for (int threads = 1; threads <= 3; threads++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 25 });
        cj_tensor *w[3] = { cj_keep(cj_randn(c, CJ_SHAPE(17, 5, 3, 3))), cj_keep(cj_randn(c, CJ_SHAPE(17))),
                            cj_keep(cj_randn(c, CJ_SHAPE(3, 17, 3, 3))) };
        w[0] = cj_require_grad(w[0]), w[1] = cj_require_grad(w[1]);
        cj_tensor *x = cj_keep(cj_randn(c, CJ_SHAPE(3, 5, 33, 31))), *out[3], *again[3];
        step(c, w, &x, out);
        assert_ok(c);
        cj_tensor *persistent[3] = { cj_param(w[0]), cj_param(w[1]), w[2] };
        cj_plan *p = cj_capture(c, step, persistent, &x, 1, again);
        for (int i = 0; i < 3; i++) assert_true(cj_replay(p, &x, again));
        assert_true(cj_plan_statistics(p).compiled);
        for (int i = 0; i < 3; i++) {
            assert_true(same_bits(out[i], again[i]));
            double *v = values_of(out[i]);
            if (!first[i]) first[i] = v;
            else {
                assert_memory_equal(v, first[i], (size_t)cj_numel(out[i]) * sizeof *v);
                free(v);
            }
        }
        cj_tensor *flipped = cj_t(cj_contiguous(cj_t(x))), *wide = cj_slice(cj_cat((cj_tensor *[]){ w[0], w[0] }, 2, 1), 1, 0, 5, 1);
        assert_true(same_bits(cj_conv(flipped, wide, w[1], .padding = 1), cj_conv(x, w[0], w[1], .padding = 1)));
        assert_ok(c);
        cj_ctx_free(c);
    }
    for (int i = 0; i < 3; i++) free(first[i]);
}

/* What is not finite is never lost, and goes no further than to the neighbours of the results that read it. */
static void not_finite(void **unused)
{
    (void)unused;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 5 });
    const float bad[] = { NAN, INFINITY, -INFINITY };
    for (int last = 0; last < 2; last++)
        for (int k = 0; k < 3; k++) {
            cj_tensor *x = cj_randn(c, CJ_SHAPE(2, 32, 17, 16)), *w = cj_randn(c, CJ_SHAPE(48, 32, 3, 3));
            ((float *)cj_data(x))[((1 * 32 + 5) * 17 + 8) * 16 + 9] = bad[k];
            cj_tensor *y = cj_conv(last ? cj_channels_last(x) : x, w, NULL, .padding = 1);
            double *v = values_of(y);
            for (int64_t i = 0; i < cj_numel(y); i++) {
                const int64_t down = llabs(i / 16 % 17 - 8), right = llabs(i % 16 - 9), n = i / 16 / 17 / 48;
                if (n == 1 && down <= 1 && right <= 1) assert_false(isfinite(v[i]));
                if (n == 0 || down > (last ? 2 : 1) || right > (last ? 2 : 1)) assert_true(isfinite(v[i]));
            }
            free(v);
        }
    assert_ok(c);
    cj_ctx_free(c);
}

static void bad_input(void **unused)
{
    (void)unused;
    counter k = { 0 };
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .alloc = counting_alloc, .alloc_user = &k });
#define F(...) cj_ones(c, CJ_SHAPE(__VA_ARGS__), CJ_F32)
    assert_poisoned(CJ_ESHAPE, "conv: the kernel [5, 5] with its dilation is larger than the padded input [6, 4]",
                    cj_conv(F(1, 1, 6, 4), F(1, 1, 5, 5), NULL));
    assert_poisoned(CJ_ESHAPE, "larger than the padded input [6]", cj_conv(F(1, 1, 4), F(1, 1, 3), NULL, .padding = 1, .dilation = 3));
    assert_poisoned(CJ_ESHAPE, "2 groups do not divide the 3 channels of the input", cj_conv(F(1, 3, 4), F(2, 1, 3), NULL, .groups = 2));
    assert_poisoned(CJ_ESHAPE, "2 groups do not divide the 3 channels of the result", cj_conv(F(1, 4, 4), F(3, 2, 3), NULL, .groups = 2));
    assert_poisoned(CJ_ESHAPE, "the weight [2, 3, 3] sees 3 channels, the input [1, 4, 4] has 4", cj_conv(F(1, 4, 4), F(2, 3, 3), NULL));
    assert_poisoned(CJ_ESHAPE, "has 2 in a group", cj_conv(F(1, 4, 4), F(2, 3, 3), NULL, .groups = 2));
    assert_poisoned(CJ_ESHAPE, "[N, C, ..] and [O, C, ..] with 1 to 3 spatial axes expected", cj_conv(F(1, 4), F(2, 4), NULL));
    assert_poisoned(CJ_ESHAPE, "spatial axes expected", cj_conv(F(1, 4, 4, 4), F(2, 4, 3), NULL));
    assert_poisoned(CJ_ESHAPE, "the bias has shape [3], [2] expected", cj_conv(F(1, 4, 4), F(2, 4, 3), F(3)));
    assert_poisoned(CJ_EDTYPE, "dtypes f32 and f64", cj_conv(F(1, 4, 4), cj_cast(F(2, 4, 3), CJ_F64), NULL));
    assert_poisoned(CJ_EDTYPE, "dtypes i64 and i64", cj_conv(cj_cast(F(1, 4, 4), CJ_I64), cj_cast(F(2, 4, 3), CJ_I64), NULL));
    assert_poisoned(CJ_EVALUE, "stride -1; at least 1 expected", cj_conv(F(1, 4, 4), F(2, 4, 3), NULL, .stride = -1));
    assert_poisoned(CJ_EVALUE, "padding -2; at least 0 expected", cj_conv(F(1, 4, 4), F(2, 4, 3), NULL, .padding = -2));
    assert_poisoned(CJ_EVALUE, "3 values of stride for 1 axes", cj_conv(F(1, 4, 4), F(2, 4, 3), NULL, .strides = CJ_SHAPE(1, 1, 1)));
    assert_poisoned(CJ_EVALUE, "-1 groups", cj_conv(F(1, 4, 4), F(2, 4, 3), NULL, .groups = -1));
    assert_poisoned(CJ_EVALUE, "'same' needs stride 1", cj_conv(F(1, 4, 4), F(2, 4, 3), NULL, .border = CJ_SAME, .stride = 2));
    assert_poisoned(CJ_EVALUE, "a padding is given and a border too",
                    cj_conv(F(1, 4, 4), F(2, 4, 3), NULL, .border = CJ_FULL, .padding = 1));
    assert_poisoned(CJ_EVALUE, "too large for an axis of 4", cj_conv(F(1, 4, 4), F(2, 4, 3), NULL, .padding = 4, .mode = CJ_PAD_REFLECT));
    assert_poisoned(CJ_EVALUE, "output_padding 2 is not smaller",
                    cj_conv_transpose(F(1, 4, 4), F(4, 2, 3), NULL, .stride = 2, .output_padding = 2));
    assert_poisoned(CJ_ESHAPE, "padding 5 leaves nothing", cj_conv_transpose(F(1, 4, 2), F(4, 2, 3), NULL, .padding = 5));
    assert_poisoned(CJ_ESHAPE, "conv_transpose: the weight [3, 2, 3] is for 3 channels, the input [1, 4, 4] has 4",
                    cj_conv_transpose(F(1, 4, 4), F(3, 2, 3), NULL));
    assert_poisoned(CJ_ESHAPE, "2 positions along axis 2, the weight [2, 1, 3, 3] has 3",
                    cj_locally_connected(F(1, 1, 4), F(2, 1, 3, 3), NULL));
    assert_poisoned(CJ_ESHAPE, "widths for 1 and 2 axes", cj_pad(F(2, 2), CJ_SHAPE(1), CJ_SHAPE(1, 1)));
    assert_poisoned(CJ_EVALUE, "slices cut, pads do not", cj_pad(F(2, 2), CJ_SHAPE(-1), CJ_SHAPE(1)));
    assert_null(cj_conv(NULL, NULL, NULL));
    assert_null(cj_pad(NULL, CJ_SHAPE(1), CJ_SHAPE(1)));
    cj_ctx_free(c);
    assert_balanced(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_combinations),
                                        cmocka_unit_test(sizes_and_types),
                                        cmocka_unit_test(odd_channels),
                                        cmocka_unit_test(fresh_shapes),
                                        cmocka_unit_test(layouts_of_results),
                                        cmocka_unit_test(bias_of_higher_order),
                                        cmocka_unit_test(derivatives),
                                        cmocka_unit_test(borders),
                                        cmocka_unit_test(threads_plans_layouts),
                                        cmocka_unit_test(not_finite),
                                        cmocka_unit_test(bad_input) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
