/* Attention: training steps (forward and backward) of 8 heads of 32, and single queries against a cache, as decoding has them. */
#include <cajal/cajal.h>

#include "bench/bench.h"
#include "bench/planned.h"

typedef struct attention_size {
    int64_t batch, heads, queries, keys, d;
    bool causal;
} attention_size;

static void attention_make(bench_planned *p)
{
    const attention_size *z = p->arg;
    for (p->n = 0; p->n < 4; p->n++) /* q, k, v and the gradient of the result */
        p->in[p->n] = cj_keep(cj_randn(p->c, CJ_SHAPE(z->batch, z->heads, p->n == 1 || p->n == 2 ? z->keys : z->queries, z->d)));
}

static void train_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c;
    const attention_size *z = ((bench_planned *)user)->arg;
    cj_tensor *q = cj_require_grad(in[0]), *k = cj_require_grad(in[1]), *v = cj_require_grad(in[2]);
    out[0] = cj_attention(q, k, v, .causal = z->causal);
    cj_grad(out[0], CJ_TENSORS(q, k, v), 3, out + 1, .seed = in[3]);
}

static void decode_step(cj_ctx *c, void *user, cj_tensor *const *in, cj_tensor **out)
{
    (void)c, (void)user;
    out[0] = cj_attention(in[0], in[1], in[2]);
}

bool bench_attention(bench_run *r)
{
    static const struct {
        const char *name;
        attention_size size;
    } table[] = {
        /* as in peer_attention.py */
        { "attention T 128", { 16, 8, 128, 128, 32, false } },
        { "attention T 128 causal", { 16, 8, 128, 128, 32, true } },
        { "attention T 1024", { 16, 8, 1024, 1024, 32, false } },
        { "attention T 1024 causal", { 16, 8, 1024, 1024, 32, true } },
        { "attention T 256 d 64 causal", { 4, 12, 256, 256, 64, true } },
        { "decode, 1 x 128 keys", { 16, 8, 1, 128, 32, false } },
        { "decode, 1 x 1024 keys", { 16, 8, 1, 1024, 32, false } },
    };
    enum { N = sizeof table / sizeof *table };
    bench_case cases[N];
    for (int i = 0; i < N; i++) {
        const attention_size *z = &table[i].size;
        const bool train = z->queries > 1;
        /* Two products forward; backward the scores again and four more. The causal mask leaves half. */
        double pairs = (double)(z->batch * z->heads * z->queries) * (z->causal ? (double)(z->keys + 1) / 2 : (double)z->keys);
        cases[i] = (bench_case){ .name = table[i].name,
                                 .make = attention_make,
                                 .step = train ? train_step : decode_step,
                                 .arg = z,
                                 .flops = 2 * pairs * (double)z->d * (train ? 7 : 2),
                                 .bytes = train ? 0 : 8 * (double)(z->batch * z->heads * z->keys * z->d),
                                 .target = 1.5 };
    }
    return bench_cases(r, "peer_attention.py", NULL, cases, r->quick ? 2 : N);
}
