/* Bursts, ratios, and the table. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/app.h"
#include "bench/bench.h"
#include "bench/peers.h"

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On one thread bursts count processor time, which neighbours on the core do not add to; on several, the clock on the wall. */
static clockid_t burst_clock = CLOCK_MONOTONIC;

void bench_use_processor_time(bool yes)
{
    burst_clock = yes ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    setenv("CAJAL_BENCH_CLOCK", yes ? "processor" : "wall", 1); /* for peer.py */
}

static double burst_now(void)
{
    struct timespec t;
    clock_gettime(burst_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

double bench_burst(bench_step_fn *step, void *arg, double seconds)
{
    const double chunk = 1e-3; /* shorter than a slice of the scheduler: some chunks are not interrupted */
    double start = burst_now(), best = INFINITY, first = start;
    for (int i = 0; i < 3; i++) {
        if (!step(arg)) return NAN;
        double now = burst_now();
        if (now - first < best) best = now - first;
        first = now;
    }
    int64_t times = best < chunk ? (int64_t)(chunk / (best + 1e-9)) + 1 : 1;
    best = INFINITY;
    do {
        double from = burst_now();
        for (int64_t i = 0; i < times; i++)
            if (!step(arg)) return NAN;
        double one = (burst_now() - from) / (double)times;
        if (one < best) best = one;
    } while (burst_now() - start < seconds);
    return best;
}

/* The threads of the program that ran last spin for a while before they sleep, those of OpenBLAS for 26 ms; they shall not take a core from the next. */
static void settle(void) { nanosleep(&(struct timespec){ 0, 40000000 }, NULL); }

enum { MOST_ROUNDS = 99, MOST_WORK = 4 };

bool bench_compare(bench_run *r, bench_work *work, int n, bench_peer *peers)
{
    double ours[MOST_WORK][MOST_ROUNDS], theirs[BENCH_PEERS][MOST_ROUNDS], ratio[MOST_ROUNDS];
    int n_peers = bench_peers_count(peers);
    for (int round = 0; round < r->rounds; round++) {
        for (int i = 0; i < n; i++) {
            settle();
            ours[i][round] = bench_burst(work[i].step, work[i].arg, r->seconds);
            if (isnan(ours[i][round])) return false;
        }
        for (int p = 0; p < n_peers; p++) {
            settle();
            theirs[p][round] = bench_peer_burst(peers, p, r->seconds);
        }
    }
    for (int i = 0; i < n; i++) {
        work[i].peer = NULL;
        work[i].ratio = work[i].peer_time = NAN;
        for (int p = 0; p < n_peers; p++) {
            bool whole = true;
            for (int k = 0; k < r->rounds; k++) {
                ratio[k] = theirs[p][k] / ours[i][k];
                whole &= isfinite(ratio[k]);
            }
            double m = bench_median(ratio, r->rounds);
            if (!whole || (work[i].peer && m >= work[i].ratio)) continue;
            work[i].ratio = m;
            work[i].peer = bench_peer_label(peers, p);
            double copy[MOST_ROUNDS];
            memcpy(copy, theirs[p], sizeof copy);
            work[i].peer_time = bench_median(copy, r->rounds);
        }
    }
    for (int i = 0; i < n; i++) work[i].time = bench_median(ours[i], r->rounds);
    return true;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------------ */

static const char *number(char *out, size_t n, double v)
{
    if (!isfinite(v)) snprintf(out, n, "-");
    else if (v == floor(v) && fabs(v) < 1e7) snprintf(out, n, "%.0f", v);
    else if (fabs(v) >= 1000) snprintf(out, n, "%.0f", v);
    else snprintf(out, n, "%.*f", fabs(v) >= 100 ? 1 : fabs(v) >= 10 ? 2 : 3, v);
    return out;
}

void bench_print_head(const bench_run *r)
{
    if (r->json) return;
    printf("%-30s %12s %-9s %6s  %-18s %12s %8s  %s\n", "benchmark", "value", "unit", "limit", "peer", "peer value", "ratio", "target");
}

void bench_print(bench_run *r, bench_row row)
{
    if (row.met < 0) r->missed++;
    if (r->json) {
        app_json_open();
        app_json_text("name", row.name);
        app_json_number("value", row.value);
        app_json_text("unit", row.unit);
        app_json_number("limit_share", row.limit_share);
        app_json_text("peer", row.peer);
        app_json_number("peer_value", row.peer_value);
        app_json_number("ratio", row.ratio);
        app_json_text("target", row.target);
        if (row.met) app_json_bool("met", row.met > 0);
        app_json_close();
        return;
    }
    char value[32], share[32], peer_value[32], ratio[32];
    if (isfinite(row.limit_share)) snprintf(share, sizeof share, "%.0f%%", 100 * row.limit_share);
    else snprintf(share, sizeof share, "-");
    printf("%-30s %12s %-9s %6s  %-18s %12s %8s  %s%s\n", row.name, number(value, sizeof value, row.value), row.unit, share,
           row.peer ? row.peer : "-", number(peer_value, sizeof peer_value, row.peer_value), number(ratio, sizeof ratio, row.ratio),
           row.target ? row.target : "-",
           row.met > 0   ? "  ok"
           : row.met < 0 ? "  MISSED"
                         : "");
    fflush(stdout);
}

void bench_note(const bench_run *r, const char *format, ...)
{
    if (r->json) return;
    va_list args;
    va_start(args, format);
    fputs("    ", stdout);
    vprintf(format, args);
    fputc('\n', stdout);
    va_end(args);
}
