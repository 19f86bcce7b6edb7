/* cajal sample: text from a trained language model, one symbol at a time.
 *
 *     p = softmax(logits / temperature),   next = argmax_i p_i / e_i  with e_i exponential: a draw from p (the exponential form of Gumbel's trick)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"

static cj_tensor *choose(cj_ctx *c, cj_tensor *logits, double temperature)
{
    if (temperature == 0) return cj_argmax(logits);
    cj_tensor *p = cj_softmax(cj_mul_scalar(logits, 1 / temperature), -1);
    return cj_argmax(cj_div(p, cj_exponential(c, 1, cj_shape_of(p), .stream = CJ_STREAM_SAMPLING)));
}

/* The symbol after text[n]; -1 after an error. */
static int64_t next_symbol(app_job *j, const int64_t *text, int64_t n, int64_t context, double temperature)
{
    cj_scope s = cj_scope_open(j->ctx);
    int64_t seen = n < context ? n : context;
    cj_tensor *logits = cj_forward(j->net, cj_from_i64(j->ctx, text + n - seen, CJ_SHAPE(1, seen)));
    cj_tensor *last = cj_select(cj_select(logits, 0, 0), 0, seen - 1);
    double symbol = cj_item(choose(j->ctx, last, temperature));
    cj_scope_close(s);
    return cj_ok(j->ctx) ? (int64_t)symbol : -1;
}

static int sample(app_job *j, const char *prompt, int64_t length, double temperature)
{
    int64_t n = (int64_t)strlen(prompt), context = (int64_t)cj_settings_get(j->settings, "context");
    int64_t *text = malloc((size_t)(n + length + 1) * sizeof *text);
    if (!text) return app_fail(NULL);
    for (int64_t i = 0; i < n; i++) {
        text[i] = j->data->number[(unsigned char)prompt[i]];
        if (text[i] < 0) {
            free(text);
            return app_error("--prompt: the symbol '%c' does not occur in %s", prompt[i], j->data->name);
        }
    }
    if (n == 0) text[n++] = j->data->number['\n'] >= 0 ? j->data->number['\n'] : 0;
    else fputs(prompt, stdout);
    cj_module_train(j->net, false);
    cj_no_grad(j->ctx);
    for (int64_t i = 0; i < length && cj_ok(j->ctx); i++, n++) {
        text[n] = next_symbol(j, text, n, context, temperature);
        if (text[n] < 0) break;
        putchar(j->data->symbol[text[n] & 255]);
        fflush(stdout);
    }
    putchar('\n');
    free(text);
    return cj_ok(j->ctx) ? APP_OK : app_fail(j->ctx);
}

int app_sample(int argc, char **argv)
{
    const char *prompt = "", *count = "1", *length = "300", *temperature = "0.8", *seed = "1", *device = NULL, *threads = NULL;
    bool best = false;
    const app_option options[] = {
        { "--prompt", "TEXT", "how the text begins", &prompt, NULL },
        { "--n", "N", "how many samples; 1 by default", &count, NULL },
        { "--length", "N", "symbols of each; 300 by default", &length, NULL },
        { "--temperature", "T", "0 always takes the likeliest symbol; 0.8 by default", &temperature, NULL },
        { "--seed", "N", "of the draws; 1 by default", &seed, NULL },
        { "--best", NULL, "the parameters of the best evaluation", NULL, &best },
        { "--device", "cpu|cuda", "where to compute", &device, NULL },
        { "--threads", "N", "threads; all cores by default", &threads, NULL },
        { 0 },
    };
    const app_usage usage = { .verb = "sample",
                              .line = "RUN [--prompt TEXT] [--n N] [--length N] [--temperature T]",
                              .least = 1,
                              .most = 1,
                              .text = "Writes text with a trained language model.",
                              .examples = "  cajal sample runs/gpt-sources --prompt 'static '\n" };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    long long n, symbols, number;
    if (app_number("--n", count, 1, &n) || app_number("--length", length, 1, &symbols) || app_number("--seed", seed, 0, &number))
        return APP_USAGE;
    char *end;
    double t = strtod(temperature, &end);
    if (end == temperature || *end || !(t >= 0) || !isfinite(t))
        return app_error("--temperature: a number of at least 0 was expected, '%s' was found", temperature);
    app_job j;
    int64_t step;
    int status = app_job_load(&j, args.word[0], device, threads, best, &step);
    if (status == APP_OK && !j.data->is_text) status = app_error("%s does not write texts; cajal predict applies it", j.model->name);
    if (status == APP_OK) {
        app_cancel_on_signal(j.ctx);
        cj_seed(j.ctx, (uint64_t)number);
    }
    for (long long i = 0; i < n && status == APP_OK; i++) {
        if (n > 1) printf("--- %lld\n", i + 1);
        status = sample(&j, prompt, symbols, t);
    }
    app_job_close(&j);
    return status;
}
