/* Cajal inside another program: trains XOR, is cancelled from another thread, hits its memory cap, recovers from both and goes on to the end; and brings an
 * operator of its own.  Built against the installed library: see the Makefile. */
#include <cajal/cajal.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an operator from outside: softsign x / (1 + |x|), with derivative 1 / (1 + |x|)^2 ------------------------------------------------------------- */

static bool softsign_infer(cj_ctx *c, const void *payload, cj_tensor *const *in, cj_shape *shape, cj_dtype *dtype)
{
    (void)payload;
    *shape = cj_shape_of(in[0]);
    *dtype = cj_dtype_of(in[0]);
    if (*dtype == CJ_F32 || *dtype == CJ_F64) return true;
    cj_fail(c, CJ_EDTYPE, "softsign: the input is %s, f32 or f64 expected", cj_dtype_name(*dtype));
    return false;
}

static bool softsign_run(cj_ctx *c, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    (void)c, (void)payload;
    for (int64_t i = 0, n = cj_numel(shapes[0]); i < n; i++)
        if (cj_dtype_of(shapes[0]) == CJ_F32) {
            float x = ((const float *)in[0])[i];
            ((float *)out)[i] = x / (1 + fabsf(x));
        } else {
            double x = ((const double *)in[0])[i];
            ((double *)out)[i] = x / (1 + fabs(x));
        }
    return true;
}

/* Written in operators, so it has derivatives of its own: any order works. */
static void softsign_vjp(cj_ctx *c, const void *payload, cj_tensor *const *in, cj_tensor *out, cj_tensor *g, cj_tensor **gin)
{
    (void)c, (void)payload, (void)out;
    gin[0] = cj_mul(g, cj_pow_scalar(cj_add_scalar(cj_abs(in[0]), 1), -2));
}

static cj_tensor *softsign(cj_ctx *c, cj_tensor *x)
{
    static const cj_custom_op op = { .name = "softsign", .nin = 1, .infer = softsign_infer, .run = softsign_run, .vjp = softsign_vjp };
    return cj_custom(c, &op, &x);
}

static cj_tensor *softsign_fn(cj_ctx *c, void *user, cj_tensor *const *in, int n)
{
    (void)user, (void)n;
    return softsign(c, in[0]);
}

/* ---- training ---------------------------------------------------------------------------------------------------------------------------------------- */

/* A module of this program: linear, softsign, linear. */
typedef struct xor_net {
    cj_module *first, *second;
} xor_net;
static cj_tensor *xor_forward(cj_module *m, void *self, cj_tensor *x)
{
    xor_net *n = self;
    return cj_forward(n->second, softsign(cj_module_ctx(m), cj_forward(n->first, x)));
}
static const cj_module_type xor_type = { "Xor", xor_forward, NULL };

static cj_module *xor_new(cj_ctx *c)
{
    cj_module *m = cj_module_new(c, &xor_type, sizeof(xor_net));
    xor_net *n = cj_module_self(m);
    if (!n) return NULL;
    n->first = cj_module_add(m, "first", cj_linear(c, 2, 8));
    n->second = cj_module_add(m, "second", cj_linear(c, 8, 1));
    return m;
}

typedef struct task {
    cj_ctx *c;
    cj_module *net;
    cj_optim *opt;
    cj_tensor *x, *y;
    atomic_int step; /* the other thread looks at it */
} task;

/* Steps until `last`, or until an error stops it. Returns the loss. */
static double train(task *t, int last)
{
    double loss_now = NAN;
    while (t->step < last && cj_ok(t->c)) {
        cj_scope s = cj_scope_open(t->c);
        cj_tensor *loss = cj_bce_with_logits(cj_forward(t->net, t->x), t->y);
        loss_now = cj_item(loss);
        if (cj_minimise(t->opt, loss)) t->step++; /* a step that fails has changed nothing */
        cj_scope_close(s);
    }
    return loss_now;
}

static void *stop_after_100(void *arg)
{
    task *t = arg;
    while (t->step < 100) continue;
    cj_cancel(t->c);
    return NULL;
}

static void expect(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "embed: %s\n", what);
    exit(1);
}

int main(void)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7, .memory_cap = 2 << 20 });
    expect(c && cj_ok(c), cj_message(c));
    task t = { .c = c };
    t.x = cj_from_f32(c, (float[]){ 0, 0, 0, 1, 1, 0, 1, 1 }, CJ_SHAPE(4, 2));
    t.y = cj_from_f32(c, (float[]){ 0, 1, 1, 0 }, CJ_SHAPE(4, 1));
    t.net = xor_new(c);
    t.opt = cj_adam(cj_module_params(t.net), .lr = 0.05);
    expect(cj_ok(c), cj_message(c));
    printf("cajal %s on %s (%s, %d threads), at most 2 MiB\n", cj_version(), cj_ctx_device(c), cj_ctx_isa(c), cj_ctx_threads(c));

    cj_tensor *at = cj_from_f64(c, (double[]){ -2, -0.5, 0.3, 4 }, CJ_SHAPE(4));
    cj_gradcheck_result check = cj_gradcheck(c, softsign_fn, NULL, &at, 1, .second_order = true);
    printf("softsign, an operator of this program: derivatives %s (worst error %.1e)\n", check.ok ? "agree with differences" : check.what,
           check.worst);
    expect(check.ok, check.what);

    pthread_t other;
    pthread_create(&other, NULL, stop_after_100, &t);
    train(&t, 1000000);
    pthread_join(other, NULL);
    printf("cancelled from another thread after %d steps: %s\n", (int)t.step, cj_message(c));
    expect(cj_error(c) == CJ_ECANCELLED && t.step >= 100, "it was not cancelled");
    cj_clear(c);

    cj_scope s = cj_scope_open(c);
    cj_tensor *big = cj_zeros(c, CJ_SHAPE(1000, 1000), CJ_F32), *product = cj_matmul(big, big);
    expect(cj_error(c) == CJ_EMEMORY && cj_is_poison(product), "the cap was not noticed");
    printf("asked for too much: %s\n", cj_message(c));
    cj_scope_close(s);
    cj_clear(c);

    double loss = train(&t, t.step + 500);
    expect(cj_ok(c), cj_message(c));
    s = cj_scope_open(c);
    float p[4];
    expect(cj_to_f32(cj_sigmoid(cj_forward(t.net, t.x)), p, 4), cj_message(c));
    cj_scope_close(s);
    printf("went on to %d steps, loss %.4f; xor of 00 01 10 11: %.2f %.2f %.2f %.2f\n", (int)t.step, loss, p[0], p[1], p[2], p[3]);
    expect(p[0] < 0.2 && p[1] > 0.8 && p[2] > 0.8 && p[3] < 0.2, "XOR was not learnt");
    cj_ctx_free(c);
    return 0;
}
