/* A layer written outside the library: y = gate · f(x) + (1 - gate) · x, gate = sigmoid(g(x)) (a highway layer, Srivastava, Greff & Schmidhuber 2015).
 * Its children and parameters have names, so it is trained, counted, frozen and saved like any other.  cc layer.c $(pkg-config --cflags --libs cajal) */
#include <cajal/cajal.h>
#include <stdio.h>

typedef struct highway {
    cj_module *transform, *gate;
} highway;

static cj_tensor *highway_forward(cj_module *m, void *self, cj_tensor *x)
{
    (void)m;
    highway *h = self;
    cj_tensor *gate = cj_sigmoid(cj_forward(h->gate, x));
    return cj_add(x, cj_mul(gate, cj_sub(cj_tanh(cj_forward(h->transform, x)), x)));
}

static const cj_module_type highway_type = { .name = "Highway", .forward = highway_forward };

static cj_module *highway_layer(cj_ctx *c, int64_t width)
{
    cj_module *m = cj_module_new(c, &highway_type, sizeof(highway));
    highway *h = cj_module_self(m);
    if (!h) return NULL;
    h->transform = cj_module_add(m, "transform", cj_linear(c, width, width));
    h->gate = cj_module_add(m, "gate", cj_linear(c, width, width));
    return m;
}

int main(void)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.2);
    cj_module *net = cj_sequential(c, cj_linear(c, 64, 32), highway_layer(c, 32), highway_layer(c, 32), cj_linear(c, 32, 10));
    cj_optim *opt = cj_adam(cj_module_params(net), .lr = 0.01);
    for (int step = 0; step < 100 && cj_ok(c); step++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(opt, cj_cross_entropy(cj_forward(net, d->train_x), d->train_y));
        cj_scope_close(s);
    }
    cj_tensor *right = cj_eq(cj_argmax(cj_forward(net, d->test_x), .axes = CJ_AXIS(1)), d->test_y);
    double accuracy = cj_item(cj_mean(cj_cast(right, CJ_F32)));
    printf("%s, %d parameters, first is %s; test accuracy %.3f\n", cj_module_type_name(cj_module_child(net, 1)),
           cj_params_count(cj_module_params(net)), cj_params_name(cj_module_params(cj_module_child(net, 1)), 0), accuracy);
    if (!cj_ok(c)) fprintf(stderr, "%s\n", cj_message(c));
    cj_ctx_free(c);
    return accuracy > 0.9 ? 0 : 1;
}
