/* cajal ops: the operators, and what passed for each in this build on this machine.  No column is typed: the quick harness runs and fills them. */
#include <stdio.h>
#include <string.h>

#include "app/app.h"
#include "app/harness.h"
#include "kernels/cpu/cpu.h"

/* How an operator is called; rows that are not here are called by their name alone. */
static const struct signature {
    const char *name, *line;
} signatures[] = {
    { "where", "cj_where(condition, a, b)" },
    { "add_scalar", "cj_add_scalar(x, s)" },
    { "mul_scalar", "cj_mul_scalar(x, s)" },
    { "pow_scalar", "cj_pow_scalar(x, s)" },
    { "clamp_min", "cj_clamp(x, low, INFINITY)" },
    { "clamp_max", "cj_clamp(x, -INFINITY, high)" },
    { "gelu", "cj_gelu(x)" },
    { "gelu_tanh", "cj_gelu(x, .tanh = true)" },
    { "sum", "cj_sum(x, .axes = CJ_AXIS(0), .keepdim = true)" },
    { "mean", "cj_mean(x, .axes = CJ_AXIS(0), .keepdim = true)" },
    { "reshape", "cj_reshape(x, CJ_SHAPE(4, -1))" },
    { "permute", "cj_permute(x, CJ_AXES(2, 0, 1))" },
    { "expand", "cj_expand(x, CJ_SHAPE(3, -1))" },
    { "slice", "cj_slice(x, axis, start, stop, step)" },
    { "select", "cj_select(x, axis, index)" },
    { "diagonal", "cj_diagonal(x, offset, axis1, axis2)" },
    { "unfold", "cj_unfold(x, axis, size, step)" },
    { "cast", "cj_cast(x, dtype)" },
    { "cat", "cj_cat(tensors, n, axis)" },
    { "index_select", "cj_index_select(x, axis, index)" },
    { "index_add", "cj_index_add(x, axis, index, source)" },
    { "gather", "cj_gather(x, axis, index)" },
    { "scatter_add", "cj_scatter_add(x, axis, index, source)" },
    { "matmul", "cj_matmul(a, b)" },
    { "linear", "cj_linear_op(x, weight, bias)" },
    { "full", "cj_full(ctx, value, CJ_SHAPE(2, 3), dtype)" },
    { "arange", "cj_arange(ctx, start, stop, step, dtype)" },
    { "uniform", "cj_uniform(ctx, low, high, CJ_SHAPE(2, 3))" },
    { "normal", "cj_normal(ctx, mean, std, CJ_SHAPE(2, 3))" },
    { "bernoulli", "cj_bernoulli(ctx, p, CJ_SHAPE(2, 3))" },
    { "randint", "cj_randint(ctx, low, high, CJ_SHAPE(2, 3))" },
    { "exponential", "cj_exponential(ctx, rate, CJ_SHAPE(2, 3))" },
    { "softmax", "cj_softmax(x, axis)" },
    { "log_softmax", "cj_log_softmax(x, axis)" },
    { "layer_norm", "cj_layer_norm(x, weight, bias, eps)" },
    { "cross_entropy", "cj_cross_entropy(logits, target, .label_smoothing = 0.1)" },
    { "bce_with_logits", "cj_bce_with_logits(logits, target)" },
    { "hardtanh", "cj_hardtanh(x, .low = -1, .high = 1)" },
    { "leaky_relu", "cj_leaky_relu(x, .slope = 0.01)" },
    { "prelu", "cj_prelu(x, weight)" },
    { "threshold", "cj_threshold(x, threshold, value)" },
    { "softplus_beta", "cj_softplus_beta(x, .beta = 2, .threshold = 20)" },
    { "glu", "cj_glu(x, axis)" },
    { "reglu", "cj_reglu(x, axis)" },
    { "geglu", "cj_geglu(x, axis)" },
    { "swiglu", "cj_swiglu(x, axis)" },
    { "maxout", "cj_maxout(x, axis, k)" },
    { "softmin", "cj_softmin(x, axis)" },
    { "softmax_temperature", "cj_softmax_temperature(x, axis, temperature)" },
    { "gumbel_softmax", "cj_gumbel_softmax(logits, axis, .tau = 1, .hard = true)" },
    { "pinball_loss", "cj_pinball_loss(input, target, tau)" },
    { "bce_with_logits_weighted", "cj_bce_with_logits(logits, target, .weight = w, .pos_weight = q)" },
    { "cross_entropy_weighted", "cj_cross_entropy(logits, target, .weight = w)" },
    { "multi_margin_loss", "cj_multi_margin_loss(scores, target, .margin = 1, .p = 1)" },
    { "cosine_embedding_loss", "cj_cosine_embedding_loss(a, b, target, .margin = 0.1)" },
    { "margin_ranking_loss", "cj_margin_ranking_loss(a, b, target, .margin = 0.1)" },
    { "triplet_margin_loss", "cj_triplet_margin_loss(anchor, positive, negative, .margin = 1)" },
    { "gaussian_nll_loss", "cj_gaussian_nll_loss(mean, target, variance)" },
    { "gaussian_scale_nll_loss", "cj_gaussian_scale_nll_loss(mean, target, scale)" },
    { "multivariate_gaussian_nll_loss", "cj_multivariate_gaussian_nll_loss(mean, target, factor)" },
    { "laplace_nll_loss", "cj_laplace_nll_loss(mean, target, scale)" },
    { "gumbel_nll_loss", "cj_gumbel_nll_loss(location, target, scale)" },
    { "mixture_nll_loss", "cj_mixture_nll_loss(logits, mean, scale, target)" },
    { "exponential_family_nll", "cj_exponential_family_nll(v, target, CJ_FAMILY_POISSON)" },
    { "exponential_family_mean", "cj_exponential_family_mean(v, CJ_FAMILY_POISSON)" },
    { "cholesky", "cj_cholesky(a, .upper = true)" },
    { "solve_triangular", "cj_solve_triangular(a, b, .upper = true, .transpose = true, .unit = true)" },
    { "solve", "cj_solve(a, b)" },
    { "slogdet", "cj_slogdet(a).logabsdet" },
    { "cofactor", "runs in the gradient of cj_det" },
    { "eigh", "cj_eigh(a).values, .vectors" },
    { "eigh_general", "cj_eigh_general(a, b).values, .vectors" },
    { "eig", "cj_eig(a).values, .vectors" },
    { "svd", "cj_svd(a).u, .s, .vh" },
    { "qr", "cj_qr(a).q, .r" },
    { "pinv", "cj_pinv(a, .rtol = 1e-6)" },
    { "lstsq", "cj_lstsq(a, b, .rtol = 1e-6)" },
    { "matrix_rank", "cj_matrix_rank(a, .rtol = 1e-6)" },
    { "matrix_power", "cj_matrix_power(a, n)" },
    { "matrix_norm", "cj_matrix_norm(a, CJ_NORM_2)" },
    { "vector_norm", "cj_vector_norm(x, .p = 2, .axes = CJ_AXIS(0))" },
    { "cond", "cj_cond(a, CJ_NORM_2)" },
    { "toeplitz", "cj_toeplitz(column, row)" },
    { "circulant_product", "cj_circulant_product(c, x)" },
    { "toeplitz_product", "cj_toeplitz_product(column, row, x)" },
    { "assign_", "cj_assign_(dst, src)" },
    { "add_", "cj_add_(dst, src, scale)" },
    { "write_slice_", "cj_write_slice_(dst, axis, position, src)" },
};

static void signature(const cj_op_info *op)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (strcmp(signatures[i].name, op->name) == 0) {
            printf("%s\n", signatures[i].line);
            return;
        }
    if (strcmp(op->kind, "internal") == 0) printf("internal: runs in the gradient of the operator whose name it begins with\n");
    else if (strstr(op->name, "_scalar")) printf("cj_%s(x, s)\n", op->name);
    else if (strcmp(op->family, "loss") == 0 || strcmp(op->family, "likelihood") == 0) printf("cj_%s(input, target)\n", op->name);
    else printf("cj_%s\n", op->name);
}

static const char *verdict(const harness_row *r, harness_check k) { return !r->ran[k] ? "-" : r->failed[k] ? "FAIL" : "yes"; }

/* The columns as text, from what passed. */
typedef struct columns {
    char dtypes[64], jvp[16], kernels[96];
    const char *vjp, *second_order, *fused_backward;
} columns;

static void join(char *out, size_t n, const char *word) { snprintf(out + strlen(out), n - strlen(out), "%s%s", *out ? " " : "", word); }

static columns columns_of(const cj_op_info *op, const harness_row *r)
{
    columns c = { .vjp = verdict(r, HARNESS_VJP), .second_order = verdict(r, HARNESS_SECOND) };
    c.fused_backward = op->fused_backward ? verdict(r, HARNESS_FUSED) : "-";
    const char *jvp = verdict(r, HARNESS_JVP);
    snprintf(c.jvp, sizeof c.jvp, "%s", strcmp(jvp, "yes") == 0 ? op->jvp : jvp); /* how it is made, once it has passed */
    for (int t = CJ_F32; t < CJ_DTYPES; t++)
        if (r->dtypes & ~r->dtypes_failed & 1u << t) join(c.dtypes, sizeof c.dtypes, cj_dtype_name((cj_dtype)t));
    for (int l = 0; l < CJ_ISA_LEVELS; l++)
        if (r->levels & ~r->levels_failed & 1u << l) join(c.kernels, sizeof c.kernels, cj__cpu_kernels((cj_isa)l)->name);
    if (r->device) join(c.kernels, sizeof c.kernels, "cuda");
    return c;
}

static void print_row(const cj_op_info *op, const columns *c)
{
    printf("%-22s %-10s %-14s %-36s %-5s %-11s %-13s %-15s %s\n", op->name, op->kind, op->family, c->dtypes, c->vjp, c->jvp,
           c->second_order, c->fused_backward, c->kernels);
    fflush(stdout);
}

static void print_json(const cj_op_info *op, const columns *c)
{
    app_json_open();
    app_json_text("name", op->name);
    app_json_text("kind", op->kind);
    app_json_text("family", op->family);
    app_json_text("dtypes", c->dtypes);
    app_json_text("vjp", c->vjp);
    app_json_text("jvp", c->jvp);
    app_json_text("second_order", c->second_order);
    app_json_text("fused_backward", c->fused_backward);
    app_json_text("kernels", c->kernels);
    app_json_close();
}

int app_ops(int argc, char **argv)
{
    bool json = false;
    const char *device = NULL;
    const app_option options[] = {
        { "--device", "cuda", "check the kernels of a device too", &device, NULL },
        { "--json", NULL, "one object per line", NULL, &json },
        { 0 },
    };
    const app_usage usage = {
        .verb = "ops",
        .line = "[--device cuda] [--json] [NAME]",
        .text = "Lists the operators with what passed for each: dtypes, derivatives, kernels. Runs the quick checks of 'cajal selftest'.",
        .examples = "  cajal ops\n  cajal ops softmax\n",
        .most = 1
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    int n = cj_op_count(), only = -1;
    const char *names[512];
    for (int i = 0; i < n && i < 512; i++) names[i] = cj_op_at(i).name;
    for (int i = 0; i < n && args.words; i++)
        if (strcmp(names[i], args.word[0]) == 0) only = i;
    if (args.words && only < 0) {
        const char *nearest = app_nearest(args.word[0], names, n < 512 ? n : 512);
        return nearest ? app_error("operator '%s' is unknown; did you mean '%s'?", args.word[0], nearest)
                       : app_error("operator '%s' is unknown; 'cajal ops' lists them", args.word[0]);
    }
    char message[512] = "";
    harness *h = harness_new(&(harness_opts){ .device = device, .seed = 1, .quick = true }, message, sizeof message);
    if (!h) {
        app_error("%s", message);
        return APP_FAILED;
    }
    const cj_op_info head = { .name = "name", .kind = "kind", .family = "family" };
    const columns titles = { .dtypes = "dtypes",
                             .jvp = "jvp",
                             .kernels = "kernels",
                             .vjp = "vjp",
                             .second_order = "second_order",
                             .fused_backward = "fused_backward" };
    if (!json) print_row(&head, &titles);
    int failed = 0;
    static harness_row row;
    for (int i = only >= 0 ? only : 0; i < (only >= 0 ? only + 1 : n); i++) {
        cj_op_info op = cj_op_at(i);
        harness_run(h, i, &row);
        columns c = columns_of(&op, &row);
        if (json) print_json(&op, &c);
        else print_row(&op, &c);
        failed += !row.passed;
        if (json || only < 0) continue;
        signature(&op);
        for (int k = 0; k < HARNESS_CHECKS; k++)
            if (row.failed[k]) printf("%s failed: %s\n", harness_check_names[k], row.why[k]);
    }
    harness_free(h);
    return failed ? APP_FAILED : APP_OK;
}
