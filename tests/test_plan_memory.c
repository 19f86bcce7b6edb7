/* What a plan does with memory: results take the place of operands, cheap results are made again; the bits are those of eager mode. */
#include "support.h"

TEST_CONTEXT(.threads = 2, .seed = 8);

/* ---- made again ------------------------------------------------------------------------------------------------------------------------------------------- */

enum { LAYERS = 5, ROWS = 1024, DIM = 64, WIDE = 256 };
typedef struct stack {
    cj_tensor *weight[4 * LAYERS]; /* per layer: scale and shift of the norm, two matrices */
} stack;

static void stack_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    stack *s = user;
    cj_tensor *x = in[0], *g[4 * LAYERS];
    for (int l = 0; l < LAYERS; l++) {
        cj_tensor **w = s->weight + (ptrdiff_t)4 * l;
        cj_tensor *h = cj_gelu(cj_linear_op(cj_layer_norm(x, w[0], w[1], 0), w[2], NULL));
        x = cj_add(x, cj_linear_op(h, w[3], NULL));
    }
    out[0] = cj_mean(cj_square(x));
    cj_grad(out[0], s->weight, 4 * LAYERS, g);
    for (int i = 0; i < 4; i++) out[1 + i] = g[i]; /* of the first layer: through all the others */
    const bool grad = cj_no_grad(q);
    for (int i = 4; i < 4 * LAYERS; i++) cj_assign_(s->weight[i], cj_sub(s->weight[i], cj_mul_scalar(g[i], 0.01)));
    cj_grad_mode(q, grad);
}

static void fill(cj_ctx *d, stack *s)
{
    for (int i = 0; i < 4 * LAYERS; i++) {
        const int k = i % 4;
        cj_shape shape = k < 2 ? CJ_SHAPE(DIM) : k == 2 ? CJ_SHAPE(WIDE, DIM) : CJ_SHAPE(DIM, WIDE);
        s->weight[i] = cj_param(cj_mul_scalar(cj_randn(d, shape), 0.3));
    }
}

static void activations_are_made_again(void **state)
{
    (void)state;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 }), *e = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 5 });
    stack a, b;
    fill(d, &a);
    fill(e, &b);
    cj_tensor *x = cj_randn(d, CJ_SHAPE(ROWS, DIM)), *same = cj_randn(e, CJ_SHAPE(ROWS, DIM)), *out[5], *eager[5];
    cj_plan *p = NULL;
    for (int turn = 0; turn < 4; turn++) {
        cj_scope s = cj_scope_open(d), t = cj_scope_open(e);
        if (!p) p = cj_capture(d, stack_step, &a, &x, 1, out);
        else assert_true(cj_replay(p, &x, out));
        stack_step(e, &b, &same, eager);
        for (int i = 0; i < 5; i++) assert_true(same_bits(out[i], eager[i]));
        cj_scope_close(s);
        cj_scope_close(t);
    }
    for (int i = 0; i < 4 * LAYERS; i++) assert_true(same_bits(a.weight[i], b.weight[i]));
    const cj_plan_stats st = cj_plan_statistics(p);
    /* inputs and results of all activations together, were both kept, without anything else */
    const double value = 4.0 * ROWS * WIDE;
    if (!((double)st.bytes < 2 * LAYERS * value)) fail_msg("%zu bytes planned", st.bytes);
    assert_true((double)st.bytes <= 1.15 * (double)st.bound && st.bytes >= st.bound);
    cj_ctx_free(d);
    cj_ctx_free(e);
}

/* Residual layers with batch norms: the norm behind a product is made again, the last sum together with the norm in it. */
enum { BLOCKS = 4, POINTS = 8192, RESULTS = CJ_MAX_PLAN_OUTPUTS };
static void residual_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    stack *s = user;
    cj_tensor *x = in[0];
    for (int l = 0; l < BLOCKS; l++) {
        cj_tensor **w = s->weight + (ptrdiff_t)4 * l;
        cj_tensor *h = cj_batch_norm(cj_linear_op(x, w[2], NULL), w[0], w[1], .relu = true);
        x = cj_relu(cj_add(cj_batch_norm(cj_linear_op(h, w[3], NULL), w[0], w[1]), x));
    }
    out[0] = cj_mean(cj_square(x));
    cj_grad(out[0], s->weight, RESULTS - 1, out + 1);
}

static void norms_are_made_again(void **state)
{
    (void)state;
    stack s;
    for (int i = 0; i < 4 * BLOCKS; i++)
        s.weight[i] = cj_param(cj_mul_scalar(cj_randn(c, i % 4 < 2 ? CJ_SHAPE(DIM) : CJ_SHAPE(DIM, DIM)), 0.3));
    cj_tensor *x = cj_randn(c, CJ_SHAPE(POINTS, DIM)), *out[RESULTS], *eager[RESULTS];
    cj_plan *p = cj_capture(c, residual_step, &s, &x, 1, out);
    for (int turn = 0; turn < 3; turn++) {
        cj_scope scope = cj_scope_open(c);
        x = cj_randn(c, CJ_SHAPE(POINTS, DIM));
        assert_true(cj_replay(p, &x, out));
        residual_step(c, &s, &x, eager);
        for (int i = 0; i < RESULTS; i++) assert_true(same_bits(out[i], eager[i]));
        cj_scope_close(scope);
    }
    const double value = 4.0 * POINTS * DIM, planned = (double)cj_plan_statistics(p).bytes;
    /* Kept are both products and the sum of every block.  The norm between the products is made again, which saves one value for each block; a sum and the norm in it together: one more. */
    if (!(planned < 12 * value)) fail_msg("%g values planned", planned / value);
}

/* What was written to since is not made again: it would be what it was before. */
static void written_since_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    cj_tensor *m[6], *product = cj_matmul(in[0], user), *a = cj_exp(cj_mul_scalar(product, 0.01)), *b = cj_sin(product);
    cj_add_(a, cj_full(q, 1, CJ_SCALAR, CJ_F32), 1);
    for (int i = 0; i < 6; i++) m[i] = cj_matmul(i ? m[i - 1] : product, user);
    out[0] = cj_sum(cj_cat(m, 6, 0), .axes = CJ_AXIS(0)); /* all of them at once, and neither a nor b */
    out[1] = cj_sum(cj_mul(cj_add(a, b), product), .axes = CJ_AXIS(0));
}
static void what_was_written_is_kept(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_mul_scalar(cj_randn(c, CJ_SHAPE(512, 512)), 0.05)), *x = cj_randn(c, CJ_SHAPE(600, 512)), *out[2], *eager[2];
    compiled(c, written_since_step, w, &x, 1, out);
    written_since_step(c, w, &x, eager);
    for (int i = 0; i < 2; i++) assert_true(same_bits(out[i], eager[i]));
}

/* ---- in place --------------------------------------------------------------------------------------------------------------------------------------------- */

static void product_and_activation(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *h = cj_matmul(in[0], user);
    out[0] = cj_sum(cj_mul(cj_gelu(h), cj_sigmoid(h)), .axes = CJ_AXIS(0));
}
static void handed_out_and_read(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    out[0] = cj_matmul(in[0], user);
    out[1] = cj_exp(cj_mul_scalar(out[0], 0.01)); /* the last to read it, and of its size */
}
static void a_result_takes_the_place_of_its_operand(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_randn(c, CJ_SHAPE(32, 512))), *x = cj_randn(c, CJ_SHAPE(256, 32)), *out[1], *eager[1];
    cj_plan *p = compiled(c, product_and_activation, w, &x, 1, out);
    for (int turn = 0; turn < 3; turn++) {
        cj_scope s = cj_scope_open(c);
        x = cj_randn(c, CJ_SHAPE(256, 32));
        assert_true(cj_replay(p, &x, out));
        product_and_activation(c, w, &x, eager);
        assert_true(same_bits(out[0], eager[0]));
        cj_scope_close(s);
    }
    const double value = 4.0 * 256 * 512;
    assert_true((double)cj_plan_statistics(p).bytes < 1.1 * value);
    cj_tensor *both[2], *twice[2];
    x = cj_randn(c, CJ_SHAPE(256, 32));
    compiled(c, handed_out_and_read, w, &x, 1, both);
    handed_out_and_read(c, w, &x, twice);
    for (int i = 0; i < 2; i++) assert_true(same_bits(both[i], twice[i]));
}

/* What earlier steps left in the free lists goes back before a plan takes its own. */
static void nothing_is_held_beside_a_plan(void **state)
{
    (void)state;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *w = cj_keep(cj_randn(d, CJ_SHAPE(32, 512))), *x = cj_keep(cj_randn(d, CJ_SHAPE(256, 32))), *out[1];
    cj_scope s = cj_scope_open(d);
    for (int i = 0; i < 4; i++) cj_randn(d, CJ_SHAPE(1 << 20));
    cj_scope_close(s);
#ifndef __SANITIZE_ADDRESS__ /* which wants every block back at once */
    assert_true(cj_memory_stats(d).held > 4 * sizeof(float) << 20);
#endif
    assert_non_null(cj_capture(d, product_and_activation, w, &x, 1, out));
    assert_true(cj_memory_stats(d).held < sizeof(float) << 20);
    cj_ctx_free(d);
}

/* Operands of concatenations are made inside the result, also where that lies inside another; a view of one, one that is read later and an input are copied. */
static void concatenations(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *a = cj_gelu(cj_matmul(in[0], user)), *b = cj_tanh(cj_matmul(cj_neg(in[0]), user)), *later = cj_sin(a);
    cj_tensor *two = cj_cat((cj_tensor *[]){ a, b }, 2, 0), *four = cj_cat((cj_tensor *[]){ two, cj_t(cj_t(later)), in[1] }, 3, 0);
    cj_tensor *wide = cj_cat((cj_tensor *[]){ cj_exp(cj_neg(b)), b }, 2, 1);
    out[0] = cj_sum(four, .axes = CJ_AXIS(0));
    out[1] = cj_mean(cj_mul(later, cj_square(later)), .axes = CJ_AXIS(1));
    out[2] = cj_sum(wide, .axes = CJ_AXIS(0));
}
static void only_a_pair(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *a = cj_matmul(in[0], user), *b = cj_matmul(cj_neg(in[0]), user);
    out[0] = cj_sum(cj_cat((cj_tensor *[]){ a, b }, 2, 0), .axes = CJ_AXIS(0));
}
static void a_part_of_one(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *b = cj_matmul(cj_neg(in[0]), user), *a = cj_matmul(in[0], user); /* what is left of a would lie over b */
    out[0] = cj_sum(cj_cat((cj_tensor *[]){ cj_slice(a, 0, 0, 100, 1), b }, 2, 0), .axes = CJ_AXIS(1));
}
static void one_that_is_handed_out(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    out[0] = cj_matmul(in[0], user);
    out[1] = cj_sum(cj_cat((cj_tensor *[]){ cj_matmul(cj_neg(in[0]), user), out[0] }, 2, 0), .axes = CJ_AXIS(1));
}
static void operands_are_made_inside_a_concatenation(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_randn(c, CJ_SHAPE(32, 512))), *out[3], *eager[3];
    cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(256, 32)), cj_randn(c, CJ_SHAPE(16, 512)) };
    cj_plan *p = compiled(c, concatenations, w, in, 2, out), *pair = compiled(c, only_a_pair, w, in, 1, out),
            *handed = compiled(c, one_that_is_handed_out, w, in, 1, out), *part = compiled(c, a_part_of_one, w, in, 1, out);
    for (int turn = 0; turn < 3; turn++) {
        cj_scope s = cj_scope_open(c);
        for (int i = 0; i < 2; i++) in[i] = cj_randn(c, cj_shape_of(in[i]));
        assert_true(cj_replay(p, in, out));
        concatenations(c, w, in, eager);
        for (int i = 0; i < 3; i++) assert_true(same_bits(out[i], eager[i]));
        assert_true(cj_replay(pair, in, out));
        only_a_pair(c, w, in, eager);
        assert_true(same_bits(out[0], eager[0]));
        assert_true(cj_replay(part, in, out));
        a_part_of_one(c, w, in, eager);
        assert_true(same_bits(out[0], eager[0]));
        assert_true(cj_replay(handed, in, out));
        one_that_is_handed_out(c, w, in, eager);
        for (int i = 0; i < 2; i++) assert_true(same_bits(out[i], eager[i]));
        for (int i = 0; i < 2; i++) in[i] = cj_keep(in[i]);
        cj_scope_close(s);
    }
    const double value = 4.0 * 256 * 512; /* kept apart, both and the result are four of them */
    assert_true((double)cj_plan_statistics(pair).bytes < 2.2 * value);
}

/* Random chains over two shapes, cut by running sums, which must see values that are still there: many of the results lie in the place of an operand. */
enum { N = 20000, STEPS = 24 };
static void random_chain(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    uint64_t s = *(const uint64_t *)user;
    cj_tensor *v[STEPS + 2] = { in[0], in[1] };
    for (int i = 2; i < STEPS + 2; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        const unsigned pick = (unsigned)(s >> 33);
        cj_tensor *a = v[pick / 8 % (unsigned)i], *b = v[i - 1 - (int)(pick / 512 % 2)];
        switch (pick % 8) {
        case 0: v[i] = cj_cat((cj_tensor *[]){ cj_slice(cj_add(a, b), 0, 0, N / 2, 1), cj_slice(b, 0, N / 2, N, 1) }, 2, 0); break;
        case 1: v[i] = cj_sub(b, cj_sigmoid(a)); break;
        case 2: v[i] = cj_tanh(cj_mul(a, b)); break;
        case 3: v[i] = cj_mul_scalar(cj_cumsum(b, 0), 0.01); break;
        case 4: v[i] = cj_maximum(a, cj_neg(b)); break;
        case 5: v[i] = cj_where(cj_gt(a, b), b, cj_relu(a)); break;
        case 6: v[i] = cj_add(cj_slice(b, 0, N - 1, -N - 1, -1), a); break;
        default: v[i] = cj_sin(cj_add(cj_cumsum(a, 0), b)); break;
        }
    }
    out[0] = v[STEPS + 1];
    out[1] = v[STEPS / 2];
}
static void random_chains_equal_eager(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(N)), cj_randn(c, CJ_SHAPE(N)) }, *out[2], *eager[2];
        cj_plan *p = compiled(c, random_chain, &seed, in, 2, out);
        for (int turn = 0; turn < 2; turn++) {
            for (int i = 0; i < 2; i++) in[i] = cj_randn(c, CJ_SHAPE(N));
            assert_true(cj_replay(p, in, out));
            random_chain(c, &seed, in, eager);
            for (int i = 0; i < 2; i++)
                if (!same_bits(out[i], eager[i])) fail_msg("seed %llu, result %d", (unsigned long long)seed, i);
        }
        cj_plan_free(p);
        cj_scope_close(s);
    }
}

/* ---- updates inside products ------------------------------------------------------------------------------------------------------------------------------ */

enum { BATCH = 48, INPUTS = 200, UNITS = 150, CLASSES = 40 };
typedef struct learner {
    cj_module *net;
    cj_optim *optim;
} learner;

static void learn(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    learner *l = user;
    out[0] = cj_cross_entropy(cj_forward(l->net, in[0]), in[1]);
    cj_minimise(l->optim, out[0]);
}
static learner learner_of(cj_ctx *d, double momentum)
{
    learner l = { .net = cj_sequential(d, cj_linear(d, INPUTS, UNITS), cj_tanh_layer(d), cj_linear(d, UNITS, CLASSES)) };
    l.optim = cj_sgd(cj_module_params(l.net), .lr = 0.1, .momentum = momentum);
    return l;
}

/* Plain descent: the gradients of both matrices are never stored, and the numbers are those of eager mode, one thread and two, whatever the rate. */
static void descent_is_done_by_the_products(void **state)
{
    (void)state;
    size_t bytes[2];
    for (int threads = 1; threads <= 2; threads++)
        for (int heavy = 0; heavy < 2; heavy++) {
            cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = threads, .seed = 12 }),
                   *e = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 12 });
            learner a = learner_of(d, heavy ? 0.9 : 0), b = learner_of(e, heavy ? 0.9 : 0);
            cj_tensor *in[2] = { cj_randn(d, CJ_SHAPE(BATCH, INPUTS)), cj_randint(d, 0, CLASSES, CJ_SHAPE(BATCH)) };
            cj_tensor *same[2] = { cj_randn(e, CJ_SHAPE(BATCH, INPUTS)), cj_randint(e, 0, CLASSES, CJ_SHAPE(BATCH)) }, *out[1], *eager[1];
            cj_plan *p = NULL;
            for (int turn = 0; turn < 6; turn++) {
                cj_scope s = cj_scope_open(d), t = cj_scope_open(e);
                const double rate = turn == 3 ? 0 : 0.1 / (turn + 1); /* 0: nothing moves */
                cj_optim_set_lr(a.optim, rate);
                cj_optim_set_lr(b.optim, rate);
                if (!p) p = cj_capture(d, learn, &a, in, 2, out);
                else assert_true(cj_replay(p, in, out));
                learn(e, &b, same, eager);
                assert_true(same_bits(out[0], eager[0]));
                cj_scope_close(s);
                cj_scope_close(t);
            }
            for (int i = 0; i < cj_params_count(cj_module_params(a.net)); i++)
                assert_true(same_bits(cj_params_at(cj_module_params(a.net), i), cj_params_at(cj_module_params(b.net), i)));
            assert_int_equal(cj_optim_steps(a.optim), 6);
            bytes[heavy] = cj_plan_statistics(p).bytes;
            cj_ctx_free(d);
            cj_ctx_free(e);
        }
    const size_t matrix = sizeof(float) * INPUTS * UNITS;
    if (!(bytes[0] < matrix && bytes[1] >= matrix)) fail_msg("%zu bytes planned, %zu with momentum", bytes[0], bytes[1]);
}

/* Gradients that more than the update of one parameter reads, and those made from a matrix that is being updated: b's is a term of a's, c and d have the same,
 * e's comes from f, f's from e, and those of g and h are the transposed product and half of one. */
enum { SIDE = 96, TIED = 8 };
static void learn_tied(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    learner *l = user;
    cj_tensor *w[TIED];
    for (int i = 0; i < TIED; i++) w[i] = cj_params_at(cj_module_params(l->net), i);
    cj_tensor *term = cj_mean(cj_square(cj_matmul(in[0], cj_add(cj_sin(w[0]), w[1])))),
              *same = cj_mean(cj_square(cj_matmul(in[0], cj_add(w[2], w[3]))));
    cj_tensor *turned = cj_mean(cj_square(cj_matmul(in[0], cj_t(w[6])))), *half = cj_matmul(in[0], cj_slice(w[7], 1, SIDE / 2, SIDE, 1));
    out[0] = cj_add(cj_add(term, same), cj_mean(cj_square(cj_matmul(w[4], w[5]))));
    out[0] = cj_add(out[0], cj_add(turned, cj_mean(cj_square(half))));
    cj_minimise(l->optim, out[0]);
}
static learner tied_learner(cj_ctx *d)
{
    static const cj_module_type type = { "Tied", NULL, NULL };
    static const char *const names[TIED] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    learner l = { .net = cj_module_new(d, &type, 8) };
    cj_scope s = cj_scope_open(d);
    for (int i = 0; i < TIED; i++) cj_module_param(l.net, names[i], cj_randn(d, CJ_SHAPE(SIDE, SIDE)));
    cj_scope_close(s);
    l.optim = cj_sgd(cj_module_params(l.net), .lr = 0.5);
    return l;
}
static void gradients_with_other_readers_are_stored(void **state)
{
    (void)state;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 13 }), *e = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 13 });
    learner a = tied_learner(d), b = tied_learner(e);
    cj_tensor *x = cj_randn(d, CJ_SHAPE(BATCH, SIDE)), *same = cj_randn(e, CJ_SHAPE(BATCH, SIDE)), *out[1], *eager[1];
    cj_plan *p = NULL;
    for (int turn = 0; turn < 4; turn++) {
        cj_scope s = cj_scope_open(d), t = cj_scope_open(e);
        if (!p) p = cj_capture(d, learn_tied, &a, &x, 1, out);
        else assert_true(cj_replay(p, &x, out));
        learn_tied(e, &b, &same, eager);
        assert_true(same_bits(out[0], eager[0]));
        cj_scope_close(s);
        cj_scope_close(t);
    }
    for (int i = 0; i < 5; i++) assert_true(same_bits(cj_params_at(cj_module_params(a.net), i), cj_params_at(cj_module_params(b.net), i)));
    cj_ctx_free(d);
    cj_ctx_free(e);
}

/* Each product needs its operand and its result: with three of one size two places suffice, side by side without a gap. */
static void products_in_a_row(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *y = in[0];
    for (int i = 0; i < 5; i++) y = cj_matmul(y, user);
    out[0] = cj_sum(y);
}
static void two_places_serve_a_row_of_products(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_mul_scalar(cj_randn(c, CJ_SHAPE(128, 128)), 0.1)), *x = cj_randn(c, CJ_SHAPE(64, 128)), *out, *eager;
    cj_plan *p = cj_capture(c, products_in_a_row, w, &x, 1, &out);
    for (int i = 0; i < 2; i++) assert_true(cj_replay(p, &x, &out));
    products_in_a_row(c, w, &x, &eager);
    assert_true(same_bits(out, eager));
    const cj_plan_stats st = cj_plan_statistics(p);
    assert_true(st.compiled);
    assert_int_equal(st.bound, 2 * 4 * 64 * 128);
    assert_int_equal(st.bytes, st.bound);
}

/* Four values of 3, 10, 8 and 11 parts, made one after the other: the first is read with the third, the second at once, the others at the end.  Placed with the largest first they
 * need a sixth more than are alive at any time; another order has hardly a gap. */
static void four_values(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    static const int size[4] = { 3, 10, 8, 11 }, read[4] = { 2, 1, 3, 3 };
    cj_tensor *v[4];
    int n = 0;
    (void)q, (void)user;
    for (int i = 0; i < 4; i++) {
        v[i] = cj_cumsum(cj_slice(in[0], 0, 0, (int64_t)size[i] * 1024, 1), 0);
        for (int k = 0; k <= i; k++)
            if (read[k] == i) out[n++] = cj_max(v[k]);
    }
}
static void the_best_of_several_orders_is_taken(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(11 * 1024)), *out[4], *eager[4];
    cj_plan *p = cj_capture(c, four_values, NULL, &x, 1, out);
    for (int i = 0; i < 2; i++) assert_true(cj_replay(p, &x, out));
    four_values(c, NULL, &x, eager);
    for (int i = 0; i < 4; i++) assert_true(same_bits(out[i], eager[i]));
    const cj_plan_stats st = cj_plan_statistics(p);
    assert_true(st.bytes >= st.bound && st.bytes <= st.bound + 64);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(two_places_serve_a_row_of_products),
        T(the_best_of_several_orders_is_taken),
        T(activations_are_made_again),
        T(norms_are_made_again),
        T(what_was_written_is_kept),
        T(nothing_is_held_beside_a_plan),
        T(a_result_takes_the_place_of_its_operand),
        T(operands_are_made_inside_a_concatenation),
        T(random_chains_equal_eager),
        T(descent_is_done_by_the_products),
        T(gradients_with_other_readers_are_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
