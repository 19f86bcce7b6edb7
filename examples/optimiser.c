/* An optimiser written outside the library: LARS, momentum whose rate for a parameter is in proportion to |p| / |g| (You, Gitman & Ginsburg 2017).  The rule is written
 * in operators, so a captured step contains it, fused; its state is saved with checkpoints.  cc optimiser.c $(pkg-config --cflags --libs cajal) */
#include <cajal/cajal.h>
#include <stdio.h>

typedef struct lars {
    double trust, momentum;
} lars;

/* m = momentum · m + lr · trust · |p| / |g| · g;   p -= m */
static cj_tensor *lars_update(cj_ctx *c, const void *payload, cj_tensor *p, cj_tensor *g, cj_tensor **state, cj_tensor *lr, cj_tensor *t)
{
    (void)c, (void)t;
    const lars *o = payload;
    cj_tensor *size = cj_sqrt(cj_sum(cj_square(p))), *slope = cj_sqrt(cj_sum(cj_square(g)));
    cj_tensor *rate = cj_mul(lr, cj_mul_scalar(cj_div(size, cj_add_scalar(slope, 1e-9)), o->trust));
    state[0] = cj_add(cj_mul_scalar(state[0], o->momentum), cj_mul(g, rate));
    return cj_sub(p, state[0]);
}

static cj_optim *lars_optimiser(cj_params *p, double lr)
{
    const lars o = { .trust = 0.02, .momentum = 0.9 };
    const cj_rule rule = {
        .name = "lars", .update = lars_update, .states = 1, .state_name = { "momentum_buffer" }, .payload = &o, .payload_size = sizeof o
    };
    return cj_custom_optim(p, &rule, .lr = lr);
}

static void print_state(void *user, const char *name, cj_tensor *t)
{
    (void)user, printf("  %s: %lld numbers\n", name, (long long)cj_numel(t));
}

int main(void)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.2);
    cj_module *net = cj_sequential(c, cj_linear(c, 64, 64), cj_relu_layer(c), cj_linear(c, 64, 10));
    cj_optim *opt = lars_optimiser(cj_module_params(net), 1);
    for (int step = 0; step < 100 && cj_ok(c); step++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(opt, cj_cross_entropy(cj_forward(net, d->train_x), d->train_y));
        cj_scope_close(s);
    }
    cj_tensor *right = cj_eq(cj_argmax(cj_forward(net, d->test_x), .axes = CJ_AXIS(1)), d->test_y);
    double accuracy = cj_item(cj_mean(cj_cast(right, CJ_F32)));
    printf("after %lld steps of LARS: test accuracy %.3f; its state:\n", (long long)cj_optim_steps(opt), accuracy);
    cj_optim_state(opt, print_state, NULL);
    if (!cj_ok(c)) fprintf(stderr, "%s\n", cj_message(c));
    cj_ctx_free(c);
    return accuracy > 0.9 ? 0 : 1;
}
