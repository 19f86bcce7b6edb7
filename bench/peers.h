/* The peers of one benchmark, as bench_compare sees them. */
#ifndef CJ_BENCH_PEERS_H
#define CJ_BENCH_PEERS_H

#include "bench/bench.h"

enum { BENCH_PEERS = 4 };

int bench_peers_count(const bench_peer *peers);                    /* 0 for NULL */
double bench_peer_burst(bench_peer *peers, int i, double seconds); /* seconds of one step; NAN when it has died */
double bench_peers_memory(bench_peer *peers);                      /* of the last of them, or NAN where there is none */
double bench_peer_memory(bench_peer *peers, int i); /* bytes at most, over what was resident before the first step; NAN: unknown */
const char *bench_peer_label(const bench_peer *peers, int i); /* "torch 2.15.0 2T", "numpy 2.4.6 1T" */

#endif
