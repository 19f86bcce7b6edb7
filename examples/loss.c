/* A loss written outside the library: focal loss, -(1 - p)^gamma log p of the right class (Lin et al. 2017), for classes of very different frequency.  A function of
 * tensors is all a loss is: its derivatives, of any order, follow from the operators it uses.  cc loss.c $(pkg-config --cflags --libs cajal) */
#include <cajal/cajal.h>
#include <stdio.h>

/* logits [n, classes], target i64 [n] */
static cj_tensor *focal_loss(cj_tensor *logits, cj_tensor *target, double gamma)
{
    cj_tensor *log_p = cj_neg(cj_cross_entropy(logits, target, .reduction = CJ_NONE));
    cj_tensor *miss = cj_neg(cj_expm1(log_p)); /* 1 - p, exact where p is near 1 */
    return cj_neg(cj_mean(cj_mul(cj_pow_scalar(miss, gamma), log_p)));
}

static cj_tensor *of_logits(cj_ctx *c, void *target, cj_tensor *const *in, int n)
{
    (void)c, (void)n;
    return focal_loss(in[0], target, 2);
}

int main(void)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .seed = 7 });
    cj_tensor *logits = cj_from_f64(c, (double[]){ 1, -1, 0.5, 0, 2, -0.3 }, CJ_SHAPE(2, 3)),
              *target = cj_from_i64(c, (int64_t[]){ 0, 2 }, CJ_SHAPE(2));
    cj_gradcheck_result check = cj_gradcheck(c, of_logits, target, &logits, 1, .second_order = true);
    printf("first and second derivatives %s (worst error %.1e)\n", check.ok ? "agree with differences" : check.what, check.worst);

    cj_dataset *d = cj_dataset_open(c, "breast_cancer", .held_out = 0.2);
    cj_module *net = cj_sequential(c, cj_linear(c, d->features, 16), cj_relu_layer(c), cj_linear(c, 16, 2));
    cj_optim *opt = cj_adam(cj_module_params(net), .lr = 0.01);
    for (int step = 0; step < 100 && cj_ok(c); step++) {
        cj_scope s = cj_scope_open(c);
        cj_minimise(opt, focal_loss(cj_forward(net, d->train_x), d->train_y, 2));
        cj_scope_close(s);
    }
    cj_tensor *right = cj_eq(cj_argmax(cj_forward(net, d->test_x), .axes = CJ_AXIS(1)), d->test_y);
    double accuracy = cj_item(cj_mean(cj_cast(right, CJ_F32)));
    printf("trained with focal loss: test accuracy %.3f\n", accuracy);
    if (!cj_ok(c)) fprintf(stderr, "%s\n", cj_message(c));
    cj_ctx_free(c);
    return check.ok && accuracy > 0.9 ? 0 : 1;
}
