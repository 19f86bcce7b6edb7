/* cajal/model.h: how a model describes itself, so that one path trains, evaluates, samples and measures all of them.
 *
 * A model is one file with one table:
 *
 *     const cj_model cj_model_mlp = { .name = "mlp", .family = "feed-forward", .summary = "…", .task = CJ_TASK_CLASSIFY, .build = build };
 *
 * What is not given is the usual: the task's loss, gradients of all parameters, one optimiser.
 */
#ifndef CAJAL_MODEL_H
#define CAJAL_MODEL_H

#include <cajal/nn.h>
#include <cajal/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings --------------------------------------------------------------------------------------------------------------------------- */

/* A setting, given on the command line as key=value. Whole numbers, unless `real` or `choices` says otherwise. */
typedef struct cj_setting {
    const char *key;
    double value;         /* default; of choices: the index of a word */
    const char *help;
    double least, most;   /* what is allowed; most 0: no upper limit */
    bool real;
    const char *choices;  /* words, as in "relu tanh gelu" */
} cj_setting;

/* Values of settings, however they are kept. */
typedef struct cj_options {
    double (*get)(const void *settings, const char *key);
    const void *settings;
} cj_options;
static inline double cj_option(const cj_options *o, const char *key) { return o->get(o->settings, key); }
static inline int64_t cj_option_int(const cj_options *o, const char *key) { return (int64_t)o->get(o->settings, key); }

/* ---- what a model learns ------------------------------------------------------------------------------------------------------------------ */

typedef enum cj_task {
    CJ_TASK_CLASSIFY,    /* x [B, features] (images too: a row is C·H·W numbers), y i64 [B]; forward: logits [B, classes] */
    CJ_TASK_REGRESS,     /* x [B, features], y f32 [B, outputs]; forward: [B, outputs] */
    CJ_TASK_NEXT_TOKEN,  /* x i64 [B, T], y the same text one symbol later; forward: logits [B, T, symbols] */
    CJ_TASK_GENERATE,    /* x [B, features]: how they are distributed; y is what the data has and may be ignored; the loss is the model's own */
    CJ_TASK_TRANSLATE,   /* x i64 [B, S], y i64 [B, T]: words, CJ_WORD_END, then CJ_WORD_PAD; y begins with CJ_WORD_BEGIN; the loss is the model's own */
    CJ_TASK_NODES        /* x i64 [B]: nodes of a graph, y i64 [B]; forward: logits [B, classes] */
} cj_task;

/* Words of a translation's vocabularies that are none. */
enum { CJ_WORD_PAD = 0, CJ_WORD_BEGIN = 1, CJ_WORD_END = 2, CJ_WORD_UNKNOWN = 3 };

/* The data that a model is built for. */
typedef struct cj_model_data {
    int64_t inputs;                  /* numbers of a row; symbols of the (source) alphabet */
    int64_t outputs;                 /* classes; values; symbols of the (target) alphabet */
    int64_t channels, height, width; /* of an image row, inputs = channels·height·width; else 0 */
    const cj_csr *graph;                 /* nodes: the normalised adjacency D^-1/2 (A + I) D^-1/2; else NULL */
    cj_tensor *nodes;                /* nodes: their features [n, inputs] */
} cj_model_data;

/* ---- models ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct cj_model {
    const char *name, *family, *summary;
    cj_task task;
    const char *data;                /* the data set it is shown on */
    const cj_setting *settings;      /* ends with a NULL key; may be NULL */
    const cj_setting *recipe;        /* keys and values that replace the defaults of the training loop (train.h); ends with a NULL key; may be NULL */
    cj_module *(*build)(cj_ctx *c, const cj_model_data *d, const cj_options *o); /* NULL after an error */

    /* Loss of a batch, 0-d. NULL: the task's usual loss of cj_forward. */
    cj_tensor *(*loss)(cj_module *m, cj_tensor *x, cj_tensor *y);
    /* Names of children that have an optimiser each, ends with NULL; and the step that updates them, which returns the loss to report.
     * NULL: one optimiser for all parameters, which minimises the loss. */
    const char *const *parts;
    cj_tensor *(*step)(cj_module *m, cj_optim *const *optim, cj_tensor *x, cj_tensor *y);
    /* A solution in closed form from all training rows, instead of steps. False after an error. */
    bool (*fit)(cj_module *m, cj_tensor *x, cj_tensor *y);
    /* n new rows [n, features], from the stream CJ_STREAM_SAMPLING: for CJ_TASK_GENERATE. */
    cj_tensor *(*sample)(cj_module *m, int64_t n);
    /* Text symbol by symbol, for CJ_TASK_NEXT_TOKEN: begin forgets everything and makes room for B texts; next reads a symbol of each, i64 [B], and returns the
     * logits of what follows, [B, symbols], as forward's last row would be. What next remembers is in persistent tensors, so a captured step serves all positions.
     * begin returns how many symbols can be read before it has to be called again, 0 after an error; for as many texts as before it keeps the tensors, and plans stay
     * valid. */
    int64_t (*begin)(cj_module *m, int64_t batch);
    cj_tensor *(*next)(cj_module *m, cj_tensor *symbols);
    /* The likeliest words of each sentence, i64 [B, T <= longest], greedily: for CJ_TASK_TRANSLATE. */
    cj_tensor *(*decode)(cj_module *m, cj_tensor *x, int64_t longest);
} cj_model;

#define CJ_MAX_PARTS 4

#ifdef __cplusplus
}
#endif
#endif
