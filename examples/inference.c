/* Inference with what another program trained (training.c): reads its parameters into the same network and classifies all test rows in one batch.
 * Usage: inference FOLDER        cc inference.c $(pkg-config --cflags --libs cajal) */
#include <cajal/cajal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.2);
    cj_module *net = cj_sequential(c, cj_linear(c, 64, 64), cj_relu_layer(c), cj_dropout_layer(c, 0.2), cj_linear(c, 64, 10));
    if (cj_run_load(net, argv[1], false) < 0) return fprintf(stderr, "%s\n", cj_message(c)), 1; /* nothing of the network has changed */
    cj_module_train(net, false);
    cj_no_grad(c);

    int64_t n = cj_size(d->test_x, 0), said[8], is[8], right = 0;
    cj_tensor *probability = cj_softmax(cj_forward(net, d->test_x), 1), *digit = cj_argmax(probability, .axes = CJ_AXIS(1));
    cj_to_i64(cj_slice(digit, 0, 0, 8, 1), said, 8);
    cj_to_i64(cj_slice(d->test_y, 0, 0, 8, 1), is, 8);
    for (int i = 0; i < 8 && cj_ok(c); i++) {
        double p = cj_item(cj_select(cj_select(probability, 0, i), 0, said[i]));
        printf("row %d: %lld with probability %.3f, it is %lld\n", i, (long long)said[i], p, (long long)is[i]);
    }
    right = (int64_t)cj_item(cj_sum(cj_cast(cj_eq(digit, d->test_y), CJ_F32)));
    printf("%lld of %lld right\n", (long long)right, (long long)n);
    if (!cj_ok(c)) fprintf(stderr, "%s\n", cj_message(c));
    cj_ctx_free(c);
    return right > 0.93 * (double)n ? 0 : 1;
}
