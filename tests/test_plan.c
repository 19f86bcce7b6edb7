/* A plan gives the bits of eager mode: training, fusion, writes, randomness, and random little programs (DESIGN 5.4). */
#include "support.h"

TEST_CONTEXT(.threads = 1, .seed = 4);

/* ---- plan equals eager ---------------------------------------------------------------------------------------------------------------------------------- */

static void training_equals_eager(void **state)
{
    (void)state;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 33 }), *e = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 33 });
    rig a, b;
    assert_true(rig_build(&a, d, 9) && rig_build(&b, e, 9));
    cj_tensor *in[2] = { a.x, a.y }, *out[1], *eager[1];
    cj_plan *p = NULL;
    for (int i = 0; i < 40; i++) { /* dropout, layer norm, clipping, Adam: over many replays */
        cj_scope s = cj_scope_open(d), t = cj_scope_open(e);
        if (i == 20) {
            cj_optim_set_lr(a.opt, 0.003); /* a schedule works: the rate lives in a tensor */
            cj_optim_set_lr(b.opt, 0.003);
        }
        if (!p) p = cj_capture(d, rig_captured, &a, in, 2, out);
        else assert_true(cj_replay(p, in, out));
        rig_captured(e, &b, (cj_tensor *[]){ b.x, b.y }, eager);
        assert_true(same_bits(out[0], eager[0]));
        cj_scope_close(s);
        cj_scope_close(t);
    }
    snapshot x = snapshot_of(&a), y = snapshot_of(&b);
    assert_true(snapshot_same(&x, &y));
    assert_memory_equal(&x.rng, &y.rng, sizeof x.rng);
    assert_int_equal(cj_optim_steps(a.opt), 40);
    cj_plan_stats st = cj_plan_statistics(p);
    assert_int_equal(st.allocations, 0);
    assert_true(st.kernels < st.operators && st.elementwise > 0);
    assert_true((double)st.bytes <= 1.15 * (double)st.bound && st.bytes >= st.bound);
    snapshot_free(&x);
    snapshot_free(&y);
    cj_ctx_free(d);
    cj_ctx_free(e);
}

/* A GPT-like block: planned bytes near the bound, same bits, few kernels. */
typedef struct attn {
    cj_tensor *wq, *wk, *wv, *wo, *w1, *w2, *g1, *b1, *g2, *b2;
} attn;
static void attn_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    attn *a = user;
    cj_tensor *x = in[0], *h = cj_layer_norm(x, a->g1, a->b1, 0);
    h = cj_attention(cj_matmul(h, a->wq), cj_matmul(h, a->wk), cj_matmul(h, a->wv), .causal = true);
    x = cj_add(x, cj_matmul(h, a->wo));
    h = cj_gelu(cj_matmul(cj_layer_norm(x, a->g2, a->b2, 0), a->w1));
    x = cj_add(x, cj_matmul(h, a->w2));
    cj_tensor *loss = cj_mean(cj_square(x)), *g[10];
    cj_grad(loss, (cj_tensor **)a, 10, g);
    out[0] = loss;
    for (int i = 0; i < 10; i++) out[1 + i] = g[i];
}
static void block_with_gradients(void **state)
{
    (void)state;
    enum { B = 3, T = 8, D = 16 };
    attn a;
    cj_tensor **w = (cj_tensor **)&a;
    for (int i = 0; i < 10; i++)
        w[i] = cj_param(cj_mul_scalar(cj_randn(c, i < 4    ? CJ_SHAPE(D, D)
                                                  : i == 4 ? CJ_SHAPE(D, 4 * D)
                                                  : i == 5 ? CJ_SHAPE(4 * D, D)
                                                           : CJ_SHAPE(D)),
                                      0.3));
    cj_tensor *x = cj_randn(c, CJ_SHAPE(B, T, D)), *out[11], *eager[11];
    cj_plan *p = compiled(c, attn_step, &a, &x, 1, out);
    for (int turn = 0; turn < 3; turn++) {
        cj_scope s = cj_scope_open(c);
        x = cj_randn(c, CJ_SHAPE(B, T, D));
        assert_true(cj_replay(p, &x, out));
        attn_step(c, &a, &x, eager);
        for (int i = 0; i < 11; i++) assert_true(same_bits(out[i], eager[i]));
        cj_scope_close(s);
    }
    cj_plan_stats st = cj_plan_statistics(p);
    if (!((double)st.bytes <= 1.15 * (double)st.bound)) fail_msg("%zu bytes planned, %zu live at once", st.bytes, st.bound);
    assert_int_equal(st.allocations, 0);
    assert_true(st.elementwise <= 14);
}

/* ---- fusion ---------------------------------------------------------------------------------------------------------------------------------------------- */

static void chain_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor **ab = user;
    cj_tensor *x = in[0], *unused = cj_exp(cj_sin(x));
    cj_sum(unused);
    out[0] = cj_add(cj_mul(cj_gelu(cj_add(cj_mul(ab[0], x), ab[1])), cj_sigmoid(x)), x);
}
static void chain_is_one_kernel(void **state)
{
    (void)state;
    cj_tensor *ab[2] = { cj_keep(cj_randn(c, CJ_SHAPE(64))), cj_keep(cj_randn(c, CJ_SHAPE(64))) }, *x = cj_randn(c, CJ_SHAPE(33, 64)),
              *out[1], *eager[1];
    cj_plan *p = compiled(c, chain_step, ab, &x, 1, out);
    cj_plan_stats st = cj_plan_statistics(p);
    assert_int_equal(st.kernels, 1);
    assert_int_equal(st.elementwise, 1);
    assert_int_equal(st.removed, 3); /* sin, exp, sum */
    assert_int_equal(st.operators, 9);
    chain_step(c, ab, &x, eager);
    assert_true(same_bits(out[0], eager[0]));
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_true(cj_plan_print(p, f));
    fclose(f);
    assert_non_null(strstr(text, "1 kernels (1 elementwise) from 9 operators, 3 dead"));
    assert_non_null(strstr(text, "fused"));
    assert_non_null(strstr(text, "(test_plan.c:"));
    free(text);
}

/* A chain with more arguments than a program can have is cut: every input is added, every sum handed out. */
enum { MANY = CJ_MAX_PLAN_OUTPUTS };
static void many_arguments_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *const *addend = user, *x = in[0];
    for (int i = 0; i < 2 * MANY; i++) {
        x = cj_add(cj_mul(x, addend[i % 7]), addend[i]);
        if (i % 2) out[i / 2] = x;
    }
}
static void chains_of_many_arguments(void **state)
{
    (void)state;
    cj_tensor *addend[2 * MANY], *x = cj_randn(c, CJ_SHAPE(5, 9)), *out[MANY], *eager[MANY];
    for (int i = 0; i < 2 * MANY; i++) addend[i] = cj_keep(cj_randn(c, CJ_SHAPE(5, 9)));
    cj_plan *p = compiled(c, many_arguments_step, addend, &x, 1, out);
    many_arguments_step(c, addend, &x, eager);
    for (int i = 0; i < MANY; i++) assert_true(same_bits(out[i], eager[i]));
    assert_in_range(cj_plan_statistics(p).kernels, 2, 8);
}

/* More values alive at once than a program has registers: the chain is cut. */
enum { ALIVE = 30 };
static void many_alive_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    cj_tensor *v[ALIVE], *sum = in[0];
    for (int i = 0; i < ALIVE; i++) v[i] = cj_add_scalar(in[0], i + 0.25);
    for (int i = ALIVE - 1; i >= 0; i--) sum = cj_mul(sum, v[i]); /* the last one first: all wait */
    out[0] = sum;
}
/* More instructions than a program has. */
static void long_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    out[0] = in[0];
    for (int i = 0; i < *(const int *)user; i++) out[0] = i % 3 ? cj_add_scalar(cj_neg(out[0]), 0.01 * i) : cj_add(out[0], in[0]);
}

/* Two chains whose values others read, too, and which meet at their ends: together they would have more results than a program can store. */
static void many_results_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    cj_tensor *v[2][ALIVE / 2];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ALIVE / 2; i++) v[k][i] = cj_add_scalar(i ? v[k][i - 1] : in[k], 0.25 * i + 1);
    out[0] = cj_mul(v[0][ALIVE / 2 - 1], v[1][ALIVE / 2 - 1]);
    out[1] = cj_sum(out[0], .axes = CJ_AXIS(0));
    for (int i = 0; i < ALIVE; i++) out[1] = cj_add(out[1], cj_sum(v[i % 2][i / 2], .axes = CJ_AXIS(0)));
}
static void chains_of_many_values(void **state)
{
    (void)state;
    cj_tensor *x[2] = { cj_mul_scalar(cj_randn(c, CJ_SHAPE(70, 9)), 0.1), cj_randn(c, CJ_SHAPE(70, 9)) }, *out[2], *eager[2];
    compiled(c, many_alive_step, NULL, x, 1, out);
    many_alive_step(c, NULL, x, eager);
    assert_true(same_bits(out[0], eager[0]));
    for (int length = 35; length < 140; length++) {
        compiled(c, long_step, &length, x, 1, out);
        long_step(c, &length, x, eager);
        assert_true(same_bits(out[0], eager[0]));
    }
    compiled(c, many_results_step, NULL, x, 2, out);
    many_results_step(c, NULL, x, eager);
    for (int i = 0; i < 2; i++) assert_true(same_bits(out[i], eager[i]));
}

/* Constants are part of the instructions, whatever makes them, unless somebody has written to them. */
static void constants_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_tensor *two = cj_full(q, 2, CJ_SCALAR, CJ_F32), *row = cj_full(q, 0.5, CJ_SHAPE(9), CJ_F32), *like = cj_ones_like(in[0]);
    out[0] = cj_add(cj_mul(cj_sub(cj_mul(in[0], two), row), like), cj_full(q, 3, CJ_SHAPE(70, 1), CJ_F32));
}
static void written_constant_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_tensor *two = cj_full(q, 2, CJ_SCALAR, CJ_F32), *first = cj_mul(in[0], two);
    cj_add_(two, cj_full(q, 1, CJ_SCALAR, CJ_F32), 1);
    out[0] = cj_add(first, cj_mul(in[0], two));
}
static void constants_are_instructions(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(70, 9)), *out[1], *eager[1];
    cj_plan *p = compiled(c, constants_step, NULL, &x, 1, out);
    constants_step(c, NULL, &x, eager);
    assert_true(same_bits(out[0], eager[0]));
    assert_int_equal(cj_plan_statistics(p).kernels, 1);
    compiled(c, written_constant_step, NULL, &x, 1, out);
    written_constant_step(c, NULL, &x, eager);
    assert_true(same_bits(out[0], eager[0]));
}

/* Nothing comes in: the first value of the step is its first result. */
static void no_inputs_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user, (void)in;
    cj_tensor *x = cj_randn(q, CJ_SHAPE(50, 7));
    out[0] = cj_matmul(cj_t(x), x);
    out[1] = cj_sum(x, .axes = CJ_AXIS(0));
}
static void steps_without_inputs(void **state)
{
    (void)state;
    cj_tensor *out[2], *eager[2];
    cj_plan *p = compiled(c, no_inputs_step, NULL, NULL, 0, out);
    for (int turn = 0; turn < 3; turn++) {
        const cj_rng_state before = cj_rng_get(c);
        assert_true(cj_replay(p, NULL, out));
        const cj_rng_state after = cj_rng_get(c);
        cj_rng_set(c, before);
        no_inputs_step(c, NULL, NULL, eager);
        for (int i = 0; i < 2; i++) assert_true(same_bits(out[i], eager[i]));
        cj_rng_set(c, after);
    }
    assert_true(cj_plan_statistics(p).bytes >= 4 * 50 * 7);
}

/* A draw of zeros and ones used as numbers is part of its chain. */
static void draw_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    cj_tensor *p = cj_sigmoid(in[0]), *drawn = cj_cast(cj_lt(in[1], p), CJ_F32);
    out[0] = cj_sub(drawn, cj_mul_scalar(p, 2));
    out[1] = drawn;
    out[2] = cj_mul(cj_cast(cj_gt_scalar(in[1], 0.5), CJ_F32), in[0]); /* another chain */
    out[3] = cj_cast(cj_lt(in[1], in[0]), CJ_F64);                     /* and no such number */
}
static void draws_are_numbers_in_a_chain(void **state)
{
    (void)state;
    cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(33, 64)), cj_rand(c, CJ_SHAPE(33, 64)) }, *out[4], *eager[4];
    cj_plan *p = compiled(c, draw_step, NULL, in, 2, out);
    cj_plan_stats st = cj_plan_statistics(p);
    assert_int_equal(st.kernels, 4); /* both chains, lt, cast to f64 */
    assert_int_equal(st.elementwise, 3);
    draw_step(c, NULL, in, eager);
    for (int i = 0; i < 4; i++) assert_true(same_bits(out[i], eager[i]));
}

/* The gradient of a sum is one: what is multiplied by it is not copied, unless somebody writes there or wants it. */
static void times_one_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *w = user, *u = cj_cumsum(cj_gelu(in[1]), 0), *g, *was, *changed = cj_cumsum(in[1], 0);
    cj_grad(cj_sum(cj_mul(u, cj_matmul(in[0], w))), &w, 1, &g); /* in[0]ᵀ·u */
    was = cj_cumsum(cj_mul_scalar(changed, 1), 1);
    cj_tensor *before = cj_mul_scalar(changed, 1);
    cj_add_(changed, in[1], 2);
    out[0] = g;
    out[1] = cj_add(cj_cumsum(before, 1), was);
    out[2] = cj_mul_scalar(cj_cumsum(in[1], 1), 1);
    out[3] = changed;
}
static void nothing_is_multiplied_by_one(void **state)
{
    (void)state;
    enum { ROWS = 40, IN = 30, OUT = 50 };
    cj_tensor *w = cj_param(cj_randn(c, CJ_SHAPE(IN, OUT))), *in[2] = { cj_randn(c, CJ_SHAPE(ROWS, IN)), cj_randn(c, CJ_SHAPE(ROWS, OUT)) };
    cj_tensor *out[4], *eager[4];
    cj_plan *p = compiled(c, times_one_step, w, in, 2, out);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 2; i++) in[i] = cj_randn(c, cj_shape_of(in[i]));
        assert_true(cj_replay(p, in, out));
        times_one_step(c, w, in, eager);
        for (int i = 0; i < 4; i++)
            if (!same_bits(out[i], eager[i])) fail_msg("result %d", i);
    }
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_true(cj_plan_print(p, f));
    fclose(f);
    assert_non_null(strstr(text, "GELU"));
    assert_null(strstr(text, "CONST MUL")); /* u · 1 */
    free(text);
}

/* An input handed out as it is, a persistent tensor handed out, a constant, a view of a result. */
static void odd_outputs(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    out[0] = in[0];
    out[1] = user;
    out[2] = cj_full(q, 7, CJ_SHAPE(2), CJ_F32);
    out[3] = cj_t(cj_mul_scalar(in[0], 2));
    out[4] = cj_slice(in[0], 0, 1, 2, 1);
}
static void outputs_of_all_kinds(void **state)
{
    (void)state;
    cj_tensor *w = cj_keep(cj_ones(c, CJ_SHAPE(3), CJ_F32)), *out[5], *x = cj_randn(c, CJ_SHAPE(2, 3));
    cj_plan *p = compiled(c, odd_outputs, w, &x, 1, out);
    for (int turn = 0; turn < 3; turn++) {
        cj_scope s = cj_scope_open(c);
        x = cj_randn(c, CJ_SHAPE(2, 3));
        assert_true(cj_replay(p, &x, out));
        assert_true(same_bits(out[0], x));
        assert_true(same_bits(out[1], w));
        assert_near(cj_item(cj_sum(out[2])), 14, 0);
        assert_true(same_bits(cj_contiguous(out[3]), cj_contiguous(cj_t(cj_mul_scalar(x, 2)))));
        assert_true(same_bits(out[4], cj_slice(x, 0, 1, 2, 1)));
        cj_scope_close(s);
    }
    /* results stay valid when the input is gone, until the next replay */
    cj_scope s = cj_scope_open(c);
    x = cj_full(c, 5, CJ_SHAPE(2, 3), CJ_F32);
    cj_tensor *kept[5];
    assert_true(cj_replay(p, &x, kept));
    cj_tensor *k = cj_scope_return(s, kept[0]);
    for (int i = 0; i < 10; i++) cj_full(c, -1, CJ_SHAPE(2, 3), CJ_F32);
    assert_near(cj_item(cj_sum(k)), 30, 0);
}

/* ---- writes ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* Reads and writes of one storage through several views, in an order that matters. */
static void writes_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *buffer = user, *top = cj_slice(buffer, 0, 0, 2, 1), *column = cj_select(buffer, 1, 1);
    cj_tensor *before = cj_mul_scalar(buffer, 1);      /* the old values */
    cj_assign_(top, in[0]);                            /* rows 0 and 1 */
    cj_tensor *middle = cj_add_scalar(buffer, 0);      /* sees them */
    cj_add_(column, cj_sum(in[0]), 0.25);              /* column 1, all rows */
    cj_tensor *after = cj_mul_scalar(cj_t(buffer), 3); /* sees both */
    cj_assign_(cj_slice(buffer, 0, 2, 3, 1), cj_scalar(q, 9));
    out[0] = cj_add(cj_add(before, middle), cj_t(after));
}
static void writes_are_ordered(void **state)
{
    (void)state;
    cj_tensor *buffer = cj_keep(cj_randn(c, CJ_SHAPE(3, 4))), *mirror = cj_keep(cj_clone(buffer)), *x = cj_randn(c, CJ_SHAPE(2, 4)),
              *out[1], *eager[1];
    cj_plan *p = NULL;
    for (int i = 0; i < 6; i++) {
        x = cj_randn(c, CJ_SHAPE(2, 4));
        if (!p) p = cj_capture(c, writes_step, buffer, &x, 1, out);
        else assert_true(cj_replay(p, &x, out));
        writes_step(c, mirror, &x, eager);
        assert_true(same_bits(out[0], eager[0]));
        assert_true(same_bits(buffer, mirror));
    }
    assert_true(cj_plan_statistics(p).compiled);
    /* a tape that saved the buffer notices the plan's writes */
    cj_tensor *leaf = cj_require_grad(cj_randn(c, CJ_SHAPE(3, 4))), *y = cj_sum(cj_mul(leaf, buffer)), *g;
    assert_true(cj_replay(p, &x, out));
    assert_false(cj_grad(y, &leaf, 1, &g));
    assert_error(c, CJ_EGRAPH, "backward of mul: its input 2 was changed by assign_");
    cj_clear(c);
}

/* Writes to temporaries inside a step, also to one whose maker is a constant. */
static void local_writes_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_tensor *sum = cj_zeros(q, CJ_SHAPE(4), CJ_F32);
    for (int i = 0; i < 3; i++) cj_add_(sum, cj_select(in[0], 0, i), i + 1);
    cj_tensor *copy = cj_clone(in[0]);
    cj_assign_(cj_select(copy, 0, 1), sum);
    out[0] = cj_mul(copy, sum);
}
static void local_writes(void **state)
{
    (void)state;
    cj_tensor *x = cj_randn(c, CJ_SHAPE(3, 4)), *out[1], *eager[1];
    cj_plan *p = compiled(c, local_writes_step, NULL, &x, 1, out);
    for (int i = 0; i < 3; i++) {
        x = cj_randn(c, CJ_SHAPE(3, 4));
        assert_true(cj_replay(p, &x, out));
        local_writes_step(c, NULL, &x, eager);
        assert_true(same_bits(out[0], eager[0]));
    }
}

/* Decoding: one plan for all positions, which arrive as a tensor. */
typedef struct decoder {
    cj_tensor *cache, *w;
} decoder;
static void decode_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    decoder *d = user;
    cj_write_slice_(d->cache, 0, in[1], cj_matmul(in[0], d->w));
    out[0] = cj_sum(cj_mul(d->cache, in[0]), .axes = CJ_AXIS(1));
}
static void decoding_is_one_plan(void **state)
{
    (void)state;
    enum { T = 12, D = 5 };
    decoder d = { cj_keep(cj_zeros(c, CJ_SHAPE(T, D), CJ_F32)), cj_keep(cj_randn(c, CJ_SHAPE(D, D))) };
    decoder e = { cj_keep(cj_zeros(c, CJ_SHAPE(T, D), CJ_F32)), d.w };
    cj_plan *p = NULL;
    cj_tensor *out[1], *eager[1];
    for (int64_t t = 0; t < T; t++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(1, D)), cj_from_i64(c, &t, CJ_SCALAR) };
        if (!p) p = cj_capture(c, decode_step, &d, in, 2, out);
        else assert_true(cj_replay(p, in, out));
        decode_step(c, &e, in, eager);
        assert_true(same_bits(out[0], eager[0]) && same_bits(d.cache, e.cache));
        cj_scope_close(s);
    }
    assert_int_equal(cj_plan_statistics(p).plans, 1);
    assert_int_equal(cj_plan_statistics(p).allocations, 0);
    /* a position outside is an error in the plan too, and nothing is written */
    cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(1, D)), cj_full(c, T, CJ_SCALAR, CJ_I64) };
    assert_false(cj_replay(p, in, out));
    assert_error(c, CJ_EINDEX, "write_slice_: position 12 with 1 rows is outside axis 0 of [12, 5]");
    assert_true(cj_is_poison(out[0]));
    cj_clear(c);
    assert_true(same_bits(d.cache, e.cache));
}

/* ---- randomness -------------------------------------------------------------------------------------------------------------------------------------------- */

static void noisy_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_tensor *a = cj_dropout(in[0], .p = 0.3), *b = cj_randn(q, CJ_SHAPE(4, 5)), *d = cj_dropout(cj_add(a, b), .p = 0.6);
    out[0] = cj_add(d, cj_rand(q, CJ_SHAPE(5), .stream = CJ_STREAM_SAMPLING));
}
static void random_numbers_go_on(void **state)
{
    (void)state;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 8 }), *e = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 8 });
    cj_tensor *x = cj_ones(d, CJ_SHAPE(4, 5), CJ_F32), *y = cj_ones(e, CJ_SHAPE(4, 5), CJ_F32), *out[1], *eager[1], *last = NULL;
    cj_plan *p = NULL;
    for (int i = 0; i < 30; i++) {
        if (i == 17) cj_seed(d, 99), cj_seed(e, 99);                     /* a new seed reaches the plan */
        if (i == 23) cj_randn(d, CJ_SHAPE(3)), cj_randn(e, CJ_SHAPE(3)); /* draws between replays */
        if (!p) p = cj_capture(d, noisy_step, NULL, &x, 1, out);
        else assert_true(cj_replay(p, &x, out));
        noisy_step(e, NULL, &y, eager);
        assert_true(same_bits(out[0], eager[0]));
        assert_false(last && same_bits(last, eager[0]));
        last = eager[0];
        cj_rng_state a = cj_rng_get(d), b = cj_rng_get(e);
        assert_memory_equal(&a, &b, sizeof a);
    }
    cj_ctx_free(d);
    cj_ctx_free(e);
}

/* Checkpointing inside a captured step. */
static cj_tensor *noisy_block(cj_ctx *q, void *user, cj_tensor *const *in, int n)
{
    return (void)q, (void)n, cj_dropout(cj_tanh(cj_matmul(in[0], user)), .p = 0.4);
}
static void checkpoint_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    cj_tensor *w = user, *h = in[0], *g;
    for (int i = 0; i < 3; i++) h = cj_checkpoint(q, noisy_block, w, &h, 1);
    cj_grad(cj_sum(cj_square(h)), &w, 1, &g);
    out[0] = g;
}
static void checkpoint_in_a_plan(void **state)
{
    (void)state;
    cj_ctx *d = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 8 }), *e = cj_ctx_new(&(cj_ctx_opts){ .threads = 1, .seed = 8 });
    cj_tensor *w[2] = { cj_param(cj_randn(d, CJ_SHAPE(4, 4))), cj_param(cj_randn(e, CJ_SHAPE(4, 4))) };
    cj_tensor *x = cj_ones(d, CJ_SHAPE(6, 4), CJ_F32), *y = cj_ones(e, CJ_SHAPE(6, 4), CJ_F32), *out[1], *eager[1];
    cj_plan *p = cj_capture(d, checkpoint_step, w[0], &x, 1, out);
    checkpoint_step(e, w[1], &y, eager);
    assert_true(same_bits(out[0], eager[0]));
    for (int i = 0; i < 5; i++) {
        assert_true(cj_replay(p, &x, out));
        checkpoint_step(e, w[1], &y, eager);
        assert_true(same_bits(out[0], eager[0]));
    }
    assert_ok(e);
    cj_ctx_free(d);
    cj_ctx_free(e);
}

/* Random little programs of elementwise operators, products and reductions: the fuser against eager mode. */
static uint32_t dice_state;
static int dice(int n) { return (int)((dice_state = dice_state * 1664525u + 1013904223u) >> 8) % n; }
struct program {
    uint32_t seed;
    cj_tensor *w;
};
static void random_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    struct program *program = user;
    dice_state = program->seed;
    cj_tensor *v[24], *w = program->w;
    int n = 0;
    const double small = 0.5 / sqrt((double)cj_size(in[0], 0)); /* products keep their size */
    v[n++] = in[0];
    v[n++] = in[1];
    v[n++] = w;
    while (n < 24) {
        cj_tensor *a = v[dice(n)], *b = v[dice(n)], *y;
        switch (dice(14)) {
        case 0: y = cj_add(a, b); break;
        case 1: y = cj_mul(a, b); break;
        case 2: y = cj_sub(a, b); break;
        case 3: y = cj_tanh(a); break;
        case 4: y = cj_gelu(a); break;
        case 5: y = cj_mul_scalar(a, 0.5 + 0.1 * dice(5)); break;
        case 6: y = cj_where(cj_gt(a, b), a, cj_neg(b)); break;
        case 7: y = cj_t(a); break;
        case 8: y = cj_matmul(cj_mul_scalar(a, small), b); break;
        case 9: y = cj_add(a, cj_mul_scalar(cj_sum(b, .axes = CJ_AXIS(dice(2)), .keepdim = true), small)); break;
        case 10: y = cj_softmax(a, -1); break;
        case 11: y = cj_maximum(a, cj_select(b, 0, dice(6))); break;
        case 12: y = cj_sigmoid(cj_add_scalar(cj_abs(a), -1)); break;
        default: y = cj_linear_op(cj_mul_scalar(a, small), b, cj_select(b, 0, 1)); break;
        }
        v[n++] = y;
    }
    for (int i = 0; i < 4; i++) out[i] = v[n - 1 - 3 * i];
    if (program->seed % 3 == 0) return;
    cj_tensor *g; /* the backward pass, and an update of what the forward pass has read */
    if (!cj_grad(cj_add(cj_mean(v[n - 1]), cj_mean(cj_square(v[n - 2]))), &w, 1, &g, .allow_unused = true)) return;
    out[4] = g;
    bool was = cj_no_grad(q);
    cj_add_(w, g, -0.01);
    out[5] = cj_mul_scalar(w, 2);
    cj_grad_mode(q, was);
}
static void random_programs(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 6, 6, 17, 48, 6, 100 }; /* small products, and such that a tail pays */
    for (uint32_t seed = 1; seed <= 400; seed++) {
        cj_scope s = cj_scope_open(c);
        int64_t n = sizes[seed % 6];
        cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(n, n)), cj_randn(c, CJ_SHAPE(n, n)) }, *out[6] = { 0 }, *eager[6] = { 0 };
        cj_tensor *start = cj_mul_scalar(cj_randn(c, CJ_SHAPE(n, n)), 0.5);
        struct program a = { seed, cj_param(start) }, b = { seed, cj_param(start) };
        cj_plan *p = NULL;
        for (int turn = 0; turn < 4; turn++) {
            in[0] = cj_randn(c, CJ_SHAPE(n, n));
            if (!p) p = cj_capture(c, random_step, &a, in, 2, out);
            else if (!cj_replay(p, in, out)) fail_msg("program %u: %s", seed, cj_message(c));
            random_step(c, &b, in, eager);
            for (int i = 0; i < (seed % 3 ? 6 : 4); i++)
                if (!same_bits(out[i], eager[i]))
                    fail_msg("program %u, turn %d: result %d differs by %g", seed, turn, i, distance(out[i], eager[i]));
            assert_true(same_bits(a.w, b.w));
        }
        cj_plan_stats st = cj_plan_statistics(p);
        assert_true(st.compiled && st.bytes >= st.bound);
        cj_plan_free(p);
        cj_release(a.w);
        cj_release(b.w);
        cj_scope_close(s);
    }
}

/* An elementwise chain becomes the tail of the product that it reads: at the chain's place when it also reads what is made in between, at the product's when the
   product is read in between, nowhere when both; and only where each of its inputs steps evenly over rows and columns, the columns by 0 or 1. */
static void tail_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q;
    cj_tensor *y = cj_matmul(in[0], in[1]), *between;
    switch (*(int *)user) {
    case 0: out[0] = cj_tanh(y); break;
    case 1: out[0] = cj_tanh(cj_add(y, cj_softmax(in[0], -1))); break;
    case 2:
        between = cj_softmax(y, -1);
        out[0] = cj_tanh(y), out[1] = between;
        break;
    case 3:
        between = cj_softmax(y, -1);
        out[0] = cj_add(y, between);
        break;
    case 4: out[0] = cj_tanh(cj_add(cj_mul(y, in[2]), cj_t(in[3]))); break; /* a row and a column */
    case 5: out[0] = cj_tanh(cj_add(y, cj_t(in[4]))); break;
    case 6: out[0] = cj_mul(y, cj_tanh(y)), out[1] = y; break;
    default: out[0] = cj_tanh(cj_t(y)); break;
    }
}
static void tails_of_products(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n;
        int which, kernels;
    } cases[] = { { 6, 9, 0, 1 }, { 6, 9, 1, 2 },   { 6, 9, 2, 2 }, { 6, 9, 3, 3 },   { 6, 9, 4, 1 },
                  { 6, 9, 5, 2 }, { 6, 9, 6, 1 },   { 6, 9, 7, 2 }, { 64, 64, 0, 1 }, { 1, 9, 4, 1 },
                  { 6, 1, 4, 1 }, { 64, 65, 0, 2 }, { 1, 1, 4, 1 }, { 450, 9, 4, 1 }, { 9, 450, 4, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cj_scope s = cj_scope_open(c);
        int64_t m = cases[i].m, n = cases[i].n;
        int which = cases[i].which;
        cj_tensor *in[5] = { cj_randn(c, CJ_SHAPE(m, n)), cj_randn(c, CJ_SHAPE(n, n)), cj_randn(c, CJ_SHAPE(n)),
                             cj_randn(c, CJ_SHAPE(1, m)), cj_randn(c, CJ_SHAPE(n, m)) };
        cj_tensor *out[2] = { 0 }, *eager[2] = { 0 };
        cj_plan *p = compiled(c, tail_step, &which, in, 5, out);
        tail_step(c, &which, in, eager);
        for (int k = 0; k < 2 && eager[k]; k++) assert_true(same_bits(out[k], eager[k]));
        if (cj_plan_statistics(p).kernels != cases[i].kernels)
            fail_msg("case %d of %ld x %ld: %ld kernels, expected %d", which, (long)m, (long)n, (long)cj_plan_statistics(p).kernels,
                     cases[i].kernels);
        cj_scope_close(s);
    }
}

/* The same over three axes: two of them are the rows, if one step leads through both. */
static void deep_tail_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    out[0] = cj_tanh(cj_add(cj_linear_op(in[0], in[1], in[2]), in[3]));
}
static void tails_over_three_axes(void **state)
{
    (void)state;
    enum { A = 2, B = 3, N = 5 };
    static const struct {
        int64_t a, b, n;
        int kernels;
    } cases[] = { { A, B, N, 1 }, { 1, 1, N, 1 }, { A, B, 1, 1 }, { 1, 1, 1, 1 },
                  { 1, B, N, 2 }, { A, 1, N, 2 }, { A, 1, 1, 2 }, { 1, B, 1, 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[4] = { cj_randn(c, CJ_SHAPE(A, B, 4)), cj_randn(c, CJ_SHAPE(N, 4)), cj_randn(c, CJ_SHAPE(N)),
                             cj_randn(c, CJ_SHAPE(cases[i].a, cases[i].b, cases[i].n)) };
        cj_tensor *out[1], *eager[1];
        cj_plan *p = compiled(c, deep_tail_step, NULL, in, 4, out);
        deep_tail_step(c, NULL, in, eager);
        assert_true(same_bits(out[0], eager[0]));
        if (cj_plan_statistics(p).kernels != cases[i].kernels)
            fail_msg("case %d: %ld kernels, expected %d", (int)i, (long)cj_plan_statistics(p).kernels, cases[i].kernels);
        cj_scope_close(s);
    }
}

/* Tails of one instruction and of several with several results, over rows shorter and longer than the engine's groups and blocks: the bits of eager mode. */
static void wide_tail_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    out[0] = cj_gelu(cj_linear_op(in[0], in[1], NULL));
    cj_tensor *y = cj_linear_op(in[0], in[1], in[2]), *z = cj_add(y, in[3]);
    out[1] = cj_mul(z, cj_sigmoid(z));
    out[2] = z;
    out[3] = cj_add(cj_linear_op(in[0], in[1], in[2]), in[3]);
}
static void tails_of_all_widths(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = { { 1, 40, 63 },  { 1, 256, 300 }, { 1, 32, 1024 }, { 1, 16, 2777 }, { 2, 64, 256 },
                                        { 16, 70, 65 }, { 16, 64, 256 }, { 15, 80, 270 }, { 5, 90, 800 },  { 64, 128, 64 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
        cj_scope s = cj_scope_open(c);
        cj_tensor *in[4] = { cj_randn(c, CJ_SHAPE(m, k)), cj_randn(c, CJ_SHAPE(n, k)), cj_randn(c, CJ_SHAPE(n)),
                             cj_randn(c, CJ_SHAPE(m, n)) };
        cj_tensor *out[4], *eager[4];
        cj_plan *p = compiled(c, wide_tail_step, NULL, in, 4, out);
        wide_tail_step(c, NULL, in, eager);
        for (int r = 0; r < 4; r++)
            if (!same_bits(out[r], eager[r])) fail_msg("%d x %d: result %d", (int)m, (int)n, r);
        assert_int_equal(cj_plan_statistics(p).kernels, 3); /* each product and what follows */
        cj_plan_free(p);
        cj_scope_close(s);
    }
}

/* Where a product is so large that a tail spares a trip to memory it runs block by block: rows and columns of the middle have their own operands. */
static void huge_tail_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)q, (void)user;
    out[0] = cj_relu(cj_add(cj_mul(cj_matmul(in[0], in[1]), in[2]), in[3]));
}
static void tails_of_huge_products(void **state)
{
    (void)state;
    enum { M = 4101, N = 4099 };
    cj_tensor *in[4] = { cj_randn(c, CJ_SHAPE(M, 2)), cj_randn(c, CJ_SHAPE(2, N)), cj_randn(c, CJ_SHAPE(M, 1)), cj_randn(c, CJ_SHAPE(N)) };
    cj_tensor *out[1], *eager[1];
    cj_plan *p = compiled(c, huge_tail_step, NULL, in, 4, out);
    huge_tail_step(c, NULL, in, eager);
    assert_false(cj_item(cj_any(cj_ne(out[0], eager[0]))));
    assert_int_equal(cj_plan_statistics(p).kernels, 1);
}

/* Integers and booleans in one program. */
static void mixed_step(cj_ctx *q, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)user;
    cj_tensor *i = in[1], *mask = cj_logical_and(cj_gt_scalar(in[0], 0), cj_ne(cj_remainder(i, cj_full(q, 3, CJ_SCALAR, CJ_I64)),
                                                                               cj_full(q, 0, CJ_SCALAR, CJ_I64)));
    out[0] = cj_where(mask, in[0], cj_cast(i, CJ_F32));
    out[1] = cj_add_scalar(cj_mul(i, i), 2);
    out[2] = mask;
    out[3] = cj_cast(cj_mul_scalar(in[0], 100), CJ_U8);
}
static void mixed_dtypes(void **state)
{
    (void)state;
    cj_tensor *in[2] = { cj_randn(c, CJ_SHAPE(40)), cj_randint(c, -9, 9, CJ_SHAPE(40)) }, *out[4], *eager[4];
    compiled(c, mixed_step, NULL, in, 2, out);
    mixed_step(c, NULL, in, eager);
    for (int i = 0; i < 4; i++) assert_true(same_bits(out[i], eager[i]));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(chains_of_many_arguments),
        T(chains_of_many_values),
        T(constants_are_instructions),
        T(steps_without_inputs),
        T(training_equals_eager),
        T(block_with_gradients),
        T(chain_is_one_kernel),
        T(draws_are_numbers_in_a_chain),
        T(nothing_is_multiplied_by_one),
        T(outputs_of_all_kinds),
        T(writes_are_ordered),
        T(local_writes),
        T(decoding_is_one_plan),
        T(random_numbers_go_on),
        T(checkpoint_in_a_plan),
        T(random_programs),
        T(mixed_dtypes),
        T(tails_of_products),
        T(tails_of_all_widths),
        T(tails_over_three_axes),
        T(tails_of_huge_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
