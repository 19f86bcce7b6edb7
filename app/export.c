/* cajal export and cajal import: parameters under PyTorch's names, in safetensors or NumPy files; and whole networks, in ONNX files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static int known_kind(const char *file)
{
    if (ends_with(file, ".safetensors") || ends_with(file, ".npz") || ends_with(file, ".onnx")) return APP_OK;
    return app_error("a file that ends in .safetensors, .npz or .onnx was expected, '%s' was found", file);
}

typedef struct list {
    cj_named item[1024];
    char name[1024][128];
    int n;
} list;

static void collect(void *user, const char *name, cj_tensor *t)
{
    list *l = user;
    if (l->n == 1024) return;
    snprintf(l->name[l->n], sizeof l->name[0], "%s", name);
    l->item[l->n] = (cj_named){ l->name[l->n], t };
    l->n++;
}

bool app_save_parameters(cj_ctx *c, cj_module *net, const char *file, int *tensors)
{
    list *l = calloc(1, sizeof *l);
    if (!l) return cj_fail(c, CJ_EMEMORY, "%s: no memory", file), false;
    cj_module_state(net, collect, l);
    bool ok = ends_with(file, ".npz") ? cj_npz_save(c, file, l->item, l->n) : cj_safetensors_save(c, file, l->item, l->n, NULL, 0);
    *tensors = l->n;
    free(l);
    return ok;
}

static int save(cj_ctx *c, cj_module *net, const char *file)
{
    int n;
    if (!app_save_parameters(c, net, file, &n)) return app_fail(c);
    printf("%s: %d tensors\n", file, n);
    return APP_OK;
}

/* What of a run becomes an ONNX graph: all of it, or a part that takes an input of its own. */
typedef struct graph_of {
    const char *part, *input; /* as given, or NULL */
} graph_of;

/* Sizes of one example, "64" or "1,28,28", behind a batch of 1. */
static int read_sizes(const char *text, cj_shape *shape)
{
    *shape = CJ_SHAPE(1);
    for (const char *s = text;; s++) {
        char *end;
        long long n = strtoll(s, &end, 10);
        if (end == s || n < 1 || n > 1 << 24 || (*end && *end != ',') || shape->ndim == 5)
            return app_error("--input: sizes such as 64 or 1,28,28 were expected, '%s' was found", text);
        shape->dim[shape->ndim++] = n;
        s = end;
        if (!*s) return APP_OK;
    }
}

static int save_graph(app_job *j, const char *file, const graph_of *g)
{
    cj_dtype dtype;
    cj_shape shape = app_example_of(j, &dtype);
    cj_module *net = j->net;
    if (g->part) {
        if (!g->input) return app_error("--part %s: of which input? --input SIZES, as --input 64", g->part);
        if (!(net = cj_module_find(net, g->part))) return app_error("%s has no part '%s'", j->model->name, g->part);
        dtype = CJ_F32;
    }
    if (g->input && read_sizes(g->input, &shape)) return APP_USAGE;
    if (shape.ndim == 0)
        return app_error("%s is no function of one tensor, which an ONNX file would hold; .safetensors and .npz have its parameters",
                         j->model->name);
    cj_onnx_summary what = { 0 };
    if (!cj_onnx_save(net, cj_zeros(j->ctx, shape, dtype), file, .name = j->model->name, .summary = &what)) return app_fail(j->ctx);
    printf("%s: %d tensors, %d operators, %s\n", file, what.tensors, what.nodes, what.any_batch ? "any batch" : "batch 1");
    if (!what.any_batch) fprintf(stderr, "cajal: warning: %s takes one example at a time: %s\n", file, what.why);
    return APP_OK;
}

int app_export(int argc, char **argv)
{
    bool last = false;
    graph_of g = { 0 };
    const app_option options[] = {
        { "--last", NULL, "the last parameters instead of those of the best validation", NULL, &last },
        { "--part", "NAME", "ONNX: a part of the network, as the generator of dcgan", &g.part, NULL },
        { "--input", "SIZES", "ONNX: one example of the input, as 64 or 1,28,28", &g.input, NULL },
        { 0 },
    };
    const app_usage usage = {
        .verb = "export",
        .line = "RUN FILE.safetensors|FILE.npz|FILE.onnx [--last] [--part NAME --input SIZES]",
        .least = 2,
        .most = 2,
        .text = "Writes a run's parameters to a file that PyTorch (safetensors) or NumPy (npz) reads, or the network with its\n"
                "parameters to one that onnxruntime runs (onnx, opset 17): input and output are called 'input' and 'output',\n"
                "the first size is any number of examples, classifiers give logits, texts have the length of the run's context.",
        .examples = "  cajal export runs/demo digits.safetensors\n  cajal export runs/demo digits.onnx\n"
                    "  cajal export runs/dcgan-digits maker.onnx --part generator --input 64\n"
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    if (known_kind(args.word[1])) return APP_USAGE;
    const bool onnx = ends_with(args.word[1], ".onnx");
    if ((g.part || g.input) && !onnx) return app_error("--part and --input are of .onnx files, '%s' was found", args.word[1]);
    app_job j;
    int64_t step;
    int status = app_job_load(&j, args.word[0], NULL, NULL, !last, &step);
    if (status == APP_OK) status = onnx ? save_graph(&j, args.word[1], &g) : save(j.ctx, j.net, args.word[1]);
    app_job_close(&j);
    return status;
}

typedef struct taker {
    cj_ctx *ctx;
    const cj_archive *archive;
    const char *file;
    int taken;
} taker;

static void take(void *user, const char *name, cj_tensor *t)
{
    taker *k = user;
    if (!cj_ok(k->ctx)) return;
    cj_tensor *value = cj_archive_find(k->archive, name);
    if (!value) {
        cj_fail(k->ctx, CJ_EFILE, "%s has no tensor '%s'", k->file, name);
        return;
    }
    bool same = cj_ndim(value) == cj_ndim(t);
    for (int d = 0; d < cj_ndim(t) && same; d++) same = cj_size(value, d) == cj_size(t, d);
    char want[128], found[128];
    cj_format_shape(t, want, sizeof want);
    cj_format_shape(value, found, sizeof found);
    if (!same)
        cj_fail(k->ctx, CJ_EFILE, "%s: %s has %s, %s was expected; are all settings given as key=value?", k->file, name, found, want);
    bool was = cj_no_grad(k->ctx);
    cj_assign_(t, cj_cast(value, cj_dtype_of(t)));
    cj_grad_mode(k->ctx, was);
    k->taken++;
}

static int import(app_job *j, const char *file, const char *folder)
{
    cj_archive *a = ends_with(file, ".npz")    ? cj_npz_load(j->ctx, file)
                    : ends_with(file, ".onnx") ? cj_onnx_load(j->ctx, file)
                                               : cj_safetensors_load(j->ctx, file);
    if (!a) return app_fail(j->ctx);
    taker k = { .ctx = j->ctx, .archive = a, .file = file };
    cj_module_state(j->net, take, &k);
    if (!cj_ok(j->ctx) || !cj_settings_save(j->settings, folder) || !app_job_keep(j, folder) || !cj_run_save(j->net, folder))
        return app_fail(j->ctx);
    printf("%s: %d tensors of %s\n", folder, k.taken, file);
    if (a->count > k.taken && !ends_with(file, ".onnx")) /* the others there are constants of the graph */
        fprintf(stderr, "cajal: warning: %d tensors of %s have no place in %s\n", a->count - k.taken, file, j->model->name);
    return APP_OK;
}

int app_import(int argc, char **argv)
{
    const char *data = NULL, *out = NULL;
    const app_option options[] = {
        { "--out", "RUN", "the run folder to make", &out, NULL },
        { "--data", "NAME", "data set that the model is for", &data, NULL },
        { 0 },
    };
    const app_usage usage = {
        .verb = "import",
        .line = "MODEL FILE.safetensors|FILE.npz|FILE.onnx --out RUN [--data NAME] [key=value ...]",
        .least = 2,
        .most = 2,
        .settings = true,
        .text = "Makes a run from parameters in a file, so that eval, predict, sample and export can use it. Of an ONNX file\n"
                "the initialisers are read, by their names; its graph is not.",
        .examples = "  cajal import mlp digits.safetensors --out runs/imported\n"
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    if (!out) return app_error("where to? --out RUN");
    if (known_kind(args.word[1])) return APP_USAGE;
    if (cj_run_exists(out)) return app_error("%s has a run already; --out chooses another folder", out);
    app_job j;
    int status =
        app_job_open(&j, &(app_job_opts){ .model = args.word[0], .data = data, .setting = args.setting, .settings = args.settings });
    if (status == APP_OK) status = import(&j, args.word[1], out);
    app_job_close(&j);
    return status;
}
