/* What the benchmarks share: the run, bursts and their ratios, the machine's limits, the peers.
 *
 * How a number is made.  A burst repeats one step for a fraction of a second, in chunks of about a millisecond, and counts the fastest chunk: on a shared machine
 * that is the chunk nobody interrupted.  With --threads 1 it counts processor time, otherwise the time on the wall.  Ours and every peer's bursts alternate for
 * several rounds; a value is the median of its bursts, a ratio the median over the rounds of (peer's time / our time), and of several peers the one that leaves us
 * the smallest ratio counts.
 *
 * A peer is a PyTorch program of $CAJAL_BENCH_PEERS (or bench/peer_rows.py), run unmodified by bench/peer.py under the interpreter $CAJAL_TORCH, once on
 * one thread and once on all.  Without them the columns of the peer stay empty.
 */
#ifndef CJ_BENCH_BENCH_H
#define CJ_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a run ------------------------------------------------------------------------------------------------------------------------- */

typedef struct bench_run {
    int threads; /* ours; peers also run on one */
    int rounds;
    double seconds; /* of one burst */
    bool quick, json, compile;
    const char *only, *shape; /* of gemm: names and sizes to keep, shapes to measure instead; or NULL */
    const char *given;        /* --threads as it was given, or NULL */
    int missed;               /* targets that were not met */
    double fma;               /* FLOP/s of all threads; 0: not measured yet, < 0: unknown */
} bench_run;

/* One line of the table. What is not known is NAN (or NULL). */
typedef struct bench_row {
    const char *name;
    double value;
    const char *unit;
    double limit_share; /* 0 … 1 */
    const char *peer;
    double peer_value, ratio;
    const char *target; /* in words: "<= 60 ns" */
    int met;            /* 1 yes, -1 no, 0 there is no target, or nothing to compare with */
} bench_row;
void bench_print(bench_run *r, bench_row row);
void bench_print_head(const bench_run *r);
/* A remark below a row; nothing with --json. */
void bench_note(const bench_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One benchmark: prints its rows. false: it could not run, and said why. */
typedef bool bench_fn(bench_run *r);
bench_fn bench_overhead, bench_tiny, bench_gemm, bench_mlp, bench_gpt, bench_elementwise, bench_softmax, bench_layernorm,
    bench_cross_entropy, bench_plan, bench_start;
bench_fn bench_fft;
bench_fn bench_order;
bench_fn bench_pool;
bench_fn bench_conv;
bench_fn bench_linalg;
bench_fn bench_recurrent;
bench_fn bench_normalise;
bench_fn bench_attention;
bench_fn bench_sparse;
bench_fn bench_resample;
bench_fn bench_random;
bench_fn bench_lstm, bench_gcn, bench_decode;
bench_fn bench_lenet, bench_resnet18, bench_vae, bench_dcgan, bench_rbm, bench_ddpm;
bench_fn bench_programs;
bench_fn bench_loader;
/* The hidden program that bench_start measures: the tiny net's first step, and what its memory is. */
int bench_first_step(void);

/* ---- timing ------------------------------------------------------------------------------------------------------------------------- */

double bench_now(void);                  /* seconds, monotonic */
void bench_use_processor_time(bool yes); /* for the bursts of ours and of the peers; else the time on the wall */
double bench_median(double *x, int n);   /* sorts x */

/* One step of what is measured; false ends the measurement. */
typedef bool bench_step_fn(void *arg);
/* Seconds of one step: the best chunk of a burst. NAN after a failing step. */
double bench_burst(bench_step_fn *step, void *arg, double seconds);

typedef struct bench_peer bench_peer;
typedef struct bench_work {
    bench_step_fn *step;
    void *arg;
    double time;      /* result: seconds of a step */
    const char *peer; /* the peer that leaves the smallest ratio, or NULL */
    double peer_time, ratio;
} bench_work;
/* Measures n things of ours beside the peers, in turn. false after a failing step. */
bool bench_compare(bench_run *r, bench_work *work, int n, bench_peer *peers);

/* ---- peers (peers.c) ------------------------------------------------------------------------------------------------------------------ */

/* Starts script (with an argument, or NULL) on one and on all threads, with --compile also under torch.compile; NULL where there is no PyTorch or no such script. */
bench_peer *bench_peers_open(const bench_run *r, const char *script, const char *argument);
void bench_peers_close(bench_peer *peers);
/* Moves on to the next measurement that the script has; false where it has no more. */
bool bench_peers_next(bench_peer *peers);

/* ---- limits (limits.c) ------------------------------------------------------------------------------------------------------------------ */

double bench_fma_peak(bench_run *r); /* f32 multiply-adds on all threads, FLOP/s; NAN where it is unknown */
double bench_copy_rate(
    const bench_run *r,
    size_t bytes); /* read + written bytes per second, best of streaming and plain stores, 1 … threads; two buffers of `bytes` together */
double bench_read_rate(const bench_run *r, size_t bytes);
void *bench_pages(size_t bytes); /* memory like the library's: large blocks on huge pages; freed with free; NULL where there is none */
size_t bench_free_memory(void);  /* bytes that can be had without swapping */

#endif
