/* Programs of PyTorch, NumPy or SciPy beside us: each runs in a process of its own, behind bench/peer.py, and times a burst when it is asked to. */
#include "bench/peers.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CJ_BENCH_DIR
#define CJ_BENCH_DIR "bench" /* where peer.py and the peer_*.py are; CMake gives the full path */
#endif

typedef struct process {
    pid_t pid;
    FILE *to, *from;
    char label[48];
} process;

struct bench_peer {
    process p[BENCH_PEERS];
    int n;
};

static void stop(process *p)
{
    if (p->to) fclose(p->to); /* end of input: it leaves */
    if (p->from) fclose(p->from);
    if (p->pid > 0) waitpid(p->pid, NULL, 0);
    *p = (process){ 0 };
}

static bool start(process *p, const char *python, const char *script, const char *argument, int threads, bool compile)
{
    int down[2], up[2];
    if (pipe(down)) return false;
    if (pipe(up)) {
        close(down[0]), close(down[1]);
        return false;
    }
    char count[16];
    snprintf(count, sizeof count, "%d", threads);
    fflush(NULL);
    p->pid = fork();
    if (p->pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(down[0], 0);
        dup2(up[1], 1);
        for (int fd = 3; fd < 256; fd++) close(fd); /* a pipe of another peer kept open here would keep that peer alive */
        setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
        execl(python, python, CJ_BENCH_DIR "/peer.py", script, count, compile ? "compile" : "eager", argument, (char *)NULL);
        _exit(127);
    }
    close(down[0]), close(up[1]);
    if (p->pid < 0) {
        close(down[1]), close(up[0]);
        return false;
    }
    p->to = fdopen(down[1], "w");
    p->from = fdopen(up[0], "r");
    return p->to && p->from;
}

/* The next line of the process after a request (or none). */
static bool ask(process *p, const char *request, char *line, int n)
{
    if (!p->to || !p->from) return false;
    if (request && (fputs(request, p->to) < 0 || fflush(p->to) != 0)) return false;
    return fgets(line, n, p->from) != NULL;
}

/* "ready NAME LIBRARY VERSION", when the script has come to a measurement. */
static bool ready(process *p, const char *request, int threads, bool compile)
{
    char line[256], name[64], library[16], version[32];
    if (!ask(p, request, line, sizeof line) || sscanf(line, "ready %63s %15s %31[0-9.]", name, library, version) != 3) return false;
    if (threads) snprintf(p->label, sizeof p->label, "%s %.8s %dT%s", library, version, threads, compile ? " compiled" : "");
    return true;
}

bench_peer *bench_peers_open(const bench_run *r, const char *script, const char *argument)
{
    const char *python = getenv("CAJAL_TORCH"), *folder = getenv("CAJAL_BENCH_PEERS");
    bool own = strncmp(script, "peer_", 5) == 0; /* beside this file, not among the programs that others are measured by */
    char path[1024];
    if (own) folder = CJ_BENCH_DIR;
    if (!python || !folder || access(python, X_OK) != 0) return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, script);
    if (access(path, R_OK) != 0 || access(CJ_BENCH_DIR "/peer.py", R_OK) != 0) return NULL;
    bench_peer *peers = calloc(1, sizeof *peers);
    if (!peers) return NULL;
    signal(SIGPIPE, SIG_IGN);
    const struct {
        int threads;
        bool compile;
    } kind[] = { { 1, false }, { r->threads, false }, { 1, true }, { r->threads, true } };
    for (int i = 0; i < BENCH_PEERS; i++) {
        if ((i % 2 && r->threads == 1) || (kind[i].compile && (!r->compile || own))) continue;
        process *p = &peers->p[peers->n];
        if (start(p, python, path, argument, kind[i].threads, kind[i].compile) && ready(p, NULL, kind[i].threads, kind[i].compile))
            peers->n++;
        else stop(p);
    }
    if (peers->n == 0) {
        free(peers);
        return NULL;
    }
    return peers;
}

bool bench_peers_next(bench_peer *peers)
{
    int alive = 0;
    for (int i = 0; i < bench_peers_count(peers); i++) alive += ready(&peers->p[i], "next\n", 0, false);
    return alive > 0;
}

void bench_peers_close(bench_peer *peers)
{
    for (int i = 0; i < bench_peers_count(peers); i++) stop(&peers->p[i]);
    free(peers);
}

int bench_peers_count(const bench_peer *peers) { return peers ? peers->n : 0; }
const char *bench_peer_label(const bench_peer *peers, int i) { return peers->p[i].label; }

/* The number a line begins with; NAN where it begins with none. */
static double number(const char *line)
{
    char *end;
    double value = strtod(line, &end);
    return end == line ? NAN : value;
}

double bench_peer_memory(bench_peer *peers, int i)
{
    char line[128];
    return ask(&peers->p[i], "memory\n", line, sizeof line) ? number(line) : NAN;
}
double bench_peers_memory(bench_peer *peers) { return peers ? bench_peer_memory(peers, bench_peers_count(peers) - 1) : NAN; }

double bench_peer_burst(bench_peer *peers, int i, double seconds)
{
    char request[32], line[128];
    snprintf(request, sizeof request, "burst %g\n", seconds);
    return ask(&peers->p[i], request, line, sizeof line) ? number(line) : NAN;
}
