/* cajal bench: speed, share of the machine's limit, and a peer beside it (bench/bench.h says how a number is made). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/app.h"
#include "bench/bench.h"

#include "bench/gemm_peers.h"

static const struct benchmark {
    const char *name;
    bench_fn *run;
    const char *what;
} benchmarks[] = {
    { "overhead", bench_overhead, "one add of 4 floats, eager; without and with recording" },
    { "tiny", bench_tiny, "training step of a 2-16-1 net, batch 4, SGD; eager and planned; peer b_tiny.py" },
    { "start", bench_start, "from exec to the end of the first training step; resident memory" },
    { "mlp", bench_mlp, "784-512-512-10, batch 128, Adam, planned step; peer a_mlp.py" },
    { "gpt", bench_gpt, "4 blocks of width 256, 8 heads, 16 x 128 symbols, AdamW, planned step; peer f_gpt.py" },
    { "lstm", bench_lstm, "2 layers of 256, 32 x 64 symbols, Adam, planned step; peer e_lstm.py" },
    { "gcn", bench_gcn, "2 layers on a graph of Cora's size, sparse features, Adam, planned step; peer k_gcn.py, sparse features" },
    { "decode", bench_decode, "127 symbols from the gpt of the benchmark, one and 16 texts, with caches; peer f_gpt.py" },
    { "lenet", bench_lenet, "two convolutions, two dense layers, 28x28, batch 64, momentum, planned step; peer c_lenet.py" },
    { "resnet18", bench_resnet18, "32x32, batch 32, momentum, planned step; peer d_resnet18.py, channels last" },
    { "vae", bench_vae, "784-400-20-400-784, batch 128, Adam, planned step; peer g_vae.py" },
    { "dcgan", bench_dcgan, "28x28, batch 64, both updates, Adam, planned step; peer h_dcgan.py" },
    { "rbm", bench_rbm, "784 x 500, batch 64, CD-1, SGD, planned step; peer i_rbm.py" },
    { "ddpm", bench_ddpm, "points, 66-256-256-256-2, batch 512, Adam, planned step; peer j_ddpm.py" },
    { "programs", bench_programs,
      "nets of KANN and of llm.c: 784-64-10, a small convolutional one, GPT-2 124M; beside the rates recorded of those programs" },
    { "elementwise", bench_elementwise, "y = gelu(a x + b) sigmoid(x) + x on 10^8 floats, planned; against the best streaming copy" },
    { "softmax", bench_softmax, "forward and backward, planned; peer peer_rows.py" },
    { "layernorm", bench_layernorm, "forward and backward, planned; peer peer_rows.py" },
    { "cross_entropy", bench_cross_entropy, "forward and backward, planned; peer peer_rows.py" },
    { "fft", bench_fft, "complex transforms, one and many, planned; peer peer_fft.py (SciPy)" },
    { "order", bench_order, "embedding, top-k, sort, cumsum, scatter_add, embedding_bag, planned; peer peer_order.py" },
    { "resample", bench_resample, "up-sampling by two, grid sampling, planned; peer peer_resample.py" },
    { "sparse", bench_sparse, "sparse products on a graph of Cora's size, forward and backward, planned; peer peer_sparse.py" },
    { "attention", bench_attention,
      "8 heads of 32, T 128 and 1024, causal or not, forward and backward; single queries; peer peer_attention.py" },
    { "normalise", bench_normalise, "batch norm with ReLU, group norm, RMS norm; forward and backward, planned; peer peer_normalise.py" },
    { "recurrent", bench_recurrent,
      "lstm, gru and rnn of 2 layers x 256, 64 steps of 32 sequences, all gradients, planned; peer peer_recurrent.py" },
    { "random", bench_random, "10^8 normal draws, f32 and f64, planned; peer NumPy's generator, peer_random.py" },
    { "linalg", bench_linalg, "one matrix of 512 rows, 10^5 of 4 and of 16; peer NumPy, peer_linalg.py" },
    { "conv", bench_conv, "six convolutions, value and both derivatives, planned, channels-last; peer peer_conv.py, its faster layout" },
    { "pool", bench_pool, "maxima and averages over windows, value and derivative, planned, channels-last; peer peer_conv.py" },
    { "loader", bench_loader, "trainings with the loader and augmentation; peer the same training on one resident batch" },
    { "plan", bench_plan, "kernels, bytes and allocations of captured steps" },
    { "gemm", bench_gemm, "f32 products of many shapes on 1 and 2 threads; peers OpenBLAS, BLIS, oneDNN" },
};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };

/* In a process of its own: the threads and settings of the peers' libraries go with it. */
bool bench_gemm(bench_run *r)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        app_error("gemm: no process could be started");
        return false;
    }
    if (pid == 0) {
        const char *argv[16] = { "bench gemm" };
        int n = 1;
        if (r->json) argv[n++] = "--json";
        if (r->quick) argv[n++] = "--rounds", argv[n++] = "3";
        if (r->given) argv[n++] = "--threads", argv[n++] = r->given;
        if (r->only) argv[n++] = "--only", argv[n++] = r->only;
        if (r->shape) argv[n++] = "--shape", argv[n++] = r->shape;
        int status = cj_bench_gemm(n, argv);
        fflush(stdout);
        _exit(status);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int list(bool json)
{
    for (int i = 0; i < BENCHMARKS; i++) {
        if (!json) {
            printf("%-14s %s\n", benchmarks[i].name, benchmarks[i].what);
            continue;
        }
        app_json_open();
        app_json_text("name", benchmarks[i].name);
        app_json_text("summary", benchmarks[i].what);
        app_json_close();
    }
    return APP_OK;
}

static void print_machine(bench_run *r)
{
    double load = 0, one = bench_fma_peak(r) / r->threads;
    if (getloadavg(&load, 1) != 1) load = NAN;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    if (r->json) {
        app_json_open();
        app_json_text("name", "machine");
        app_json_text("isa", c ? cj_ctx_isa(c) : NULL);
        app_json_number("threads", r->threads);
        app_json_number("fma_gflops", 1e-9 * r->fma);
        app_json_number("load", load);
        app_json_close();
    } else {
        printf("cajal %s, %s, %d thread%s, load %.1f; f32 multiply-add limit %.0f GFLOP/s a core, %.0f together\n", cj_version(),
               c ? cj_ctx_isa(c) : "?", r->threads, r->threads > 1 ? "s" : "", load, 1e-9 * one, 1e-9 * r->fma);
        if (!getenv("CAJAL_TORCH") || !getenv("CAJAL_BENCH_PEERS"))
            printf("no peer: set CAJAL_TORCH to a Python that has PyTorch and CAJAL_BENCH_PEERS to the folder of its scripts\n");
    }
    cj_ctx_free(c);
}

static const struct benchmark *find(const char *name)
{
    const char *names[BENCHMARKS];
    for (int i = 0; i < BENCHMARKS; i++) {
        if (strcmp(benchmarks[i].name, name) == 0) return &benchmarks[i];
        names[i] = benchmarks[i].name;
    }
    const char *nearest = app_nearest(name, names, BENCHMARKS);
    if (nearest) app_error("'%s' is no benchmark; did you mean '%s'?", name, nearest);
    else app_error("'%s' is no benchmark; 'cajal bench --list' names them", name);
    return NULL;
}

int app_bench(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--first-step") == 0) return bench_first_step(); /* what `start` measures */
    const char *threads = NULL, *rounds = NULL;
    bool all = false;
    bench_run r = { 0 };
    const app_option options[] = {
        { "--threads", "N", "our threads; all cores by default. Peers run on 1 and on N", &threads, NULL },
        { "--rounds", "N", "how often ours and the peers alternate; 5 by default", &rounds, NULL },
        { "--quick", NULL, "shorter bursts, 3 rounds, 10^7 elements", NULL, &r.quick },
        { "--compile", NULL, "torch.compile among the peers (its first call takes a minute)", NULL, &r.compile },
        { "--only", "TEXT,...", "gemm: the shapes whose name or size contains one of the texts; loader: the rows whose name does", &r.only,
          NULL },
        { "--shape", "MxNxK,...", "gemm: these shapes; NN, TN, NT or TT behind one says which of A and B are transposed", &r.shape, NULL },
        { "--list", NULL, "what there is", NULL, &all },
        { "--json", NULL, "one object per row", NULL, &r.json },
        { 0 },
    };
    const app_usage usage = {
        .verb = "bench",
        .line = "[NAME ...] [--threads N] [--rounds N] [--quick] [--compile] [--only TEXT,...] [--shape MxNxK,...] [--list] [--json]",
        .most = 16,
        .text = "Measures speed beside the machine's limits, measured in the same run, and beside a peer where one is installed:\n"
                "$CAJAL_TORCH is a Python that has PyTorch, $CAJAL_BENCH_PEERS the folder of the peers' scripts.\n"
                "A ratio above 1 says that we are ahead. The exit status is 0 whether targets are met or not.",
        .examples = "  cajal bench --list\n  cajal bench tiny mlp\n  cajal bench gemm --threads 2 --shape 64x3136x576,2048x1024x256NT\n  "
                    "CAJAL_TORCH=/usr/bin/python3 CAJAL_BENCH_PEERS=peers cajal bench --json\n"
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    if (all) return list(r.json);
    long long n = 0;
    if (threads && app_number("--threads", threads, 1, &n)) return APP_USAGE;
    if (!threads) {
        cj_ctx *c = cj_ctx_new(NULL);
        n = c ? cj_ctx_threads(c) : 1;
        cj_ctx_free(c);
    }
    if (n > 64) return app_error("--threads: at most 64 were expected, '%s' was found", threads);
    r.threads = (int)n;
    r.given = threads;
    n = r.quick ? 3 : 5;
    if (rounds && app_number("--rounds", rounds, 1, &n)) return APP_USAGE;
    r.rounds = n < 99 ? (int)n : 99;
    r.seconds = r.quick ? 0.1 : 0.4;
    for (int i = 0; i < args.words; i++)
        if (!find(args.word[i])) return APP_USAGE;

    bench_use_processor_time(r.threads == 1);
    print_machine(&r);
    bench_print_head(&r);
    int status = APP_OK;
    for (int i = 0; i < BENCHMARKS; i++) {
        bool wanted = args.words == 0;
        for (int k = 0; k < args.words; k++) wanted |= strcmp(args.word[k], benchmarks[i].name) == 0;
        if (wanted && !benchmarks[i].run(&r)) status = APP_FAILED;
    }
    if (!r.json && r.missed) printf("%d target%s missed\n", r.missed, r.missed > 1 ? "s" : "");
    return status;
}
