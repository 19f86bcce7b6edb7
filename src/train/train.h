/* Shared inside src/train. */
#ifndef CJ_TRAIN_TRAIN_H
#define CJ_TRAIN_TRAIN_H

#include "cajal/data.h"
#include "cajal/grad.h"
#include "cajal/train.h"
#include "core/core.h"

#define CJ_MAX_RUN_PATH 4096

/* FOLDER/NAME into out; false after an error. */
bool cj__run_path(cj_ctx *c, const char *folder, const char *name, char out[CJ_MAX_RUN_PATH]);
bool cj__run_make(cj_ctx *c, const char *folder); /* the folder and those around it */

/* Parameters and buffers of a tree, each once, in the order of their names in checkpoints; returns their number, however many out has room for. */
int cj__state_of(cj_module *m, cj_tensor **out, int room);

/* ---- examples (examples.c), for those who make the same batches without operators ------------------------------------------------------------ */

typedef enum cj_examples_kind {
    CJ_EXAMPLES_ROWS,
    CJ_EXAMPLES_IMAGES,
    CJ_EXAMPLES_TEXT,
    CJ_EXAMPLES_PAIRS,
    CJ_EXAMPLES_OTHER
} cj_examples_kind;
cj_examples_kind cj__examples_kind(const cj_examples *e);
/* Symbols before the first window of an epoch. */
int64_t cj__text_offset(const cj_examples *e, uint64_t seed, int64_t epoch);
/* Columns that rows of `all` words need: up to the last one that is not padding in some row, rounded up so that few shapes occur and each is planned once. */
int64_t cj__word_columns(int64_t used, int64_t all);

/* ---- checkpoints (checkpoint.c) --------------------------------------------------------------------------------------------------------- */

/* What a checkpoint carries besides parameters and optimiser state. */
typedef struct cj_train_state {
    int64_t step;   /* done */
    int64_t logged; /* step of the last line of metrics.jsonl */
    int64_t best_step;
    double best, best_loss; /* of equal accuracies the one with the smaller loss is better */
    double train_loss;      /* of the last line */
    cj_metrics val;         /* of the last line */
    cj_rng_state rng;
    int64_t metrics_bytes;
} cj_train_state;

/* A file of a checkpoint as the manifest knows it. */
typedef struct cj_run_file {
    char name[48]; /* "" : none */
    int64_t bytes;
    uint32_t crc;
} cj_run_file;

typedef struct cj_generation {
    int64_t number, step, metrics_bytes;
    cj_run_file model, state, best;
} cj_generation;

/* Everything that a checkpoint is made from and restored into. */
typedef struct cj_snapshot {
    cj_module *module;
    cj_optim *const *optim; /* `optims` of them; none: parameters only */
    int optims;
    cj_average *average; /* of the parameters, or NULL: then it is what the model's file has */
    cj_tensor *loss_sum; /* 0-d f32 */
    cj_tensor *const
        *best; /* parameters and buffers at their best so far, as cj__state_of has them; have_best says whether they hold something */
    bool have_best;
    cj_train_state state;
    cj_generation last; /* the newest sound one on disk; number 0: none */
    int64_t next;       /* number of the next one */
} cj_snapshot;

/* Writes model, state and best, then the manifest; then deletes what no manifest names any more. False after an error; the checkpoint before is then as it was. */
bool cj__checkpoint_save(cj_ctx *c, const char *folder, cj_snapshot *k);
/* Restores the newest sound checkpoint: all of it or, after an error, nothing. Returns its step; -1 where there is none, -2 after an error. */
int64_t cj__checkpoint_load(cj_ctx *c, const char *folder, cj_snapshot *k);

#endif
