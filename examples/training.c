/* Training inside a C program: the step is captured once and replayed, the parameters are saved as a checkpoint.  Usage: training FOLDER
 * cc training.c $(pkg-config --cflags --libs cajal) */
#include <cajal/cajal.h>
#include <stdio.h>

typedef struct job {
    cj_module *net;
    cj_optim *opt;
} job;

static void step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    job *j = user;
    out[0] = cj_cross_entropy(cj_forward(j->net, in[0]), in[1]);
    cj_minimise(j->opt, out[0]);
}

int main(int argc, char **argv)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.2);
    job j = { .net = cj_sequential(c, cj_linear(c, 64, 64), cj_relu_layer(c), cj_dropout_layer(c, 0.2), cj_linear(c, 64, 10)) };
    j.opt = cj_adamw(cj_module_params(j.net), .lr = 3e-3);
    const int64_t batch = 64, batches = cj_size(d->train_x, 0) / batch, steps = 20 * batches;
    const cj_rate rate = cj_rate_cosine(3e-3, 0, steps);
    cj_optim_schedule(j.opt, &rate); /* captured steps follow it */

    cj_plan *plan = NULL;
    for (int64_t k = 0; k < steps && cj_ok(c); k++) {
        cj_scope s = cj_scope_open(c);
        int64_t from = k % batches * batch;
        cj_tensor *in[2] = { cj_slice(d->train_x, 0, from, from + batch, 1), cj_slice(d->train_y, 0, from, from + batch, 1) },
                  *loss[CJ_MAX_PLAN_OUTPUTS];
        if (!plan) plan = cj_capture(c, step, &j, in, 2, loss);
        else cj_replay(plan, in, loss);
        if (k % (5 * batches) == 0) printf("step %4lld  loss %.4f\n", (long long)k, cj_item(loss[0]));
        cj_scope_close(s);
    }
    cj_plan_stats p = cj_plan_statistics(plan);
    printf("a step is %d kernels of %d recorded operators, with %llu allocations\n", p.kernels, p.operators,
           (unsigned long long)p.allocations);
    if (argc > 1 && cj_run_save(j.net, argv[1])) printf("saved in %s\n", argv[1]);
    if (!cj_ok(c)) fprintf(stderr, "%s\n", cj_message(c));
    bool ok = cj_ok(c);
    cj_ctx_free(c);
    return ok ? 0 : 1;
}
