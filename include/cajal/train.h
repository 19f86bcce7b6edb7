/* cajal/train.h: the training loop, settings, run folders, checkpoints.
 *
 *     cj_examples train, val;
 *     cj_examples_of_rows(x, y, &train);
 *     cj_examples_of_rows(x_val, y_val, &val);
 *     cj_train_result r = cj_train(net, &train, .epochs = 20, .lr = 2e-3, .val = &val, .folder = "runs/one");
 *
 * The loop prints nothing: a callback reports progress.  Everything that is random follows from the context's seed, and a run that was stopped or killed at any
 * instant resumes to the bit: same parameters, same metrics.jsonl.
 */
#ifndef CAJAL_TRAIN_H
#define CAJAL_TRAIN_H

#include <cajal/data.h>
#include <cajal/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a loop learns from --------------------------------------------------------------------------------------------------------- */

/* n examples, any of which can be asked for as tensors. */
typedef struct cj_examples {
    int64_t n;
    /* Examples `index` (i64 [B]) as x and y, in the innermost scope. The epoch is for what changes with it (shifts, augmentation). False after an error. */
    bool (*batch)(cj_ctx *c, const struct cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y);
    void *user;
    cj_tensor *x, *y;   /* what the kinds below keep */
    int64_t length;
    int64_t channels, height, width;
    cj_augment_opts augment;
} cj_examples;
/* Rows of x and y; both must outlive the examples (cj_keep them). */
CJ_API bool cj_examples_of_rows(cj_tensor *x, cj_tensor *y, cj_examples *out);
/* The same, of images (rows of channels·height·width numbers, or [n, channels, height, width]): whenever one is asked for it is changed at random as the options say (data.h),
 * anew in every epoch. The draws follow from the context's seed, the epoch and the number of the example, whatever the options have for them: a resumed run sees the same images. */
CJ_API bool cj_examples_of_images(cj_tensor *x, cj_tensor *y, int64_t channels, int64_t height, int64_t width, cj_examples *out, const cj_augment_opts *opts);
/* What the setting `augment` of the loop means for images of this size: "none", "shift" by up to an eighth of the shorter side, "flip" left and right, "flip_shift" both,
 * "warp": a shift (of at least 16 pixels a side), and turned by up to 10 degrees, 10 % larger or smaller, sheared by 0.1; "auto": a shift, and flips of colour images (a mirrored digit is none). */
typedef enum cj_augmentation { CJ_AUGMENT_NONE, CJ_AUGMENT_SHIFT, CJ_AUGMENT_FLIP, CJ_AUGMENT_FLIP_SHIFT, CJ_AUGMENT_WARP, CJ_AUGMENT_AUTO } cj_augmentation;
CJ_API cj_augment_opts cj_augmentation_opts(cj_augmentation kind, int64_t channels, int64_t height, int64_t width);
/* Windows of `length` symbols from a text (i64 [N]), each with the window one symbol later; their common offset changes with the epoch. */
CJ_API bool cj_examples_of_text(cj_tensor *symbols, int64_t length, cj_examples *out);
/* Sentences and their translations, words i64 [n, S] and [n, T] as CJ_TASK_TRANSLATE has them; a batch is cut to what its longest sentences need. */
CJ_API bool cj_examples_of_pairs(cj_tensor *x, cj_tensor *y, cj_examples *out);

/* Rows of x and y prepared ahead by threads of their own, while the loop computes: gathered, u8 made f32 (· scale), images augmented; in memory that the step then reads.  What a batch holds depends on (context's seed,
 * epoch, row) alone, and its place in the epoch is found from the rows that are asked for: a run that resumes in the middle of an epoch goes on there.
 * x u8 or f32, y any dtype, first axis n; both must outlive the loader.  With `augment`, x is [n, C, H, W] or its rows are such images (channels, height, width); its seed is
 * the context's, its epoch the loop's, its samples the rows.
 *     cj_loader *l = cj_loader_new(d->train_x, d->train_y, .batch = 64, .augment = &(cj_augment_opts){ .pad = 2 }, .channels = 1, .height = 28, .width = 28);
 *     cj_examples_of_loader(l, &train);    … cj_train(net, &train, .batch = 64) …    cj_loader_free(l);
 */
typedef struct cj_loader_opts {
    int64_t batch;                  /* of the loop; 32. Batches of another size are prepared when they are asked for */
    int64_t ahead;                  /* batches that are ready or under way at most; 4 */
    int threads;                    /* of the loader's own; -1: none, the context's threads prepare what is asked for; 0: one where the context leaves a processor free, else none */
    double scale;                   /* of u8; 1/255 */
    const cj_augment_opts *augment; /* copied; NULL: as they are */
    int64_t channels, height, width;
} cj_loader_opts;
typedef struct cj_loader cj_loader;
CJ_API cj_loader *cj_loader_new(cj_tensor *x, cj_tensor *y, const cj_loader_opts *opts);   /* NULL after an error */
/* The same for examples of any kind above (rows, images, a text, pairs): their batches to the bit, prepared ahead. e is copied, its tensors must outlive the loader; of the
 * options batch, ahead and threads count.
 *     cj_examples_of_text(d->train_x, 64, &text);    cj_examples_of_loader(cj_loader_of(c, &text, .batch = 16), &train); */
CJ_API cj_loader *cj_loader_of(cj_ctx *c, const cj_examples *e, const cj_loader_opts *opts);   /* NULL after an error */
CJ_API bool cj_examples_of_loader(cj_loader *l, cj_examples *out);
CJ_API int64_t cj_loader_hits(const cj_loader *l);    /* batches that were prepared ahead so far */
CJ_API void cj_loader_free(cj_loader *l);             /* or cj_ctx_free does; NULL is fine */

/* The order of the n examples in an epoch: a permutation that depends on (seed, epoch, n) alone. */
CJ_API void cj_data_order(uint64_t seed, int64_t epoch, int64_t n, int64_t *order);

/* A shuffled split: order[0 … n) becomes a permutation of the rows whose last `held` ones, the result, are held out: the nearest whole number to share·n. With labels (0 … classes-1,
 * one per row) the classes have their shares of both parts, each within one row. -1 after an error. */
CJ_API int64_t cj_split(cj_ctx *c, uint64_t seed, int64_t n, double share, const int64_t *labels, int64_t classes, int64_t *order);
/* Part `fold` (0 …) of `folds` parts of n rows: from … to-1. Their sizes differ by one at most. */
CJ_API void cj_fold(int64_t n, int fold, int folds, int64_t *from, int64_t *to);

/* ---- metrics ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct cj_metrics {
    double loss;       /* mean over the examples (symbols) */
    double accuracy;   /* share of right classes (symbols); NaN where nothing is right or wrong */
    int64_t n;
} cj_metrics;
typedef struct cj_evaluate_opts {
    cj_task task;
    const cj_model *model;  /* its loss where it has its own; may be NULL */
    int64_t batch;          /* 128 */
} cj_evaluate_opts;
/* Of all examples, with the module in evaluation mode. False after an error. */
CJ_API bool cj_evaluate(cj_module *m, const cj_examples *e, cj_metrics *out, const cj_evaluate_opts *opts);
/* The task's loss of a batch, a 0-d tensor: cross-entropy, or the mean squared error. */
CJ_API cj_tensor *cj_task_loss(cj_task task, cj_tensor *prediction, cj_tensor *y);

/* ---- the loop ----------------------------------------------------------------------------------------------------------------------------- */

typedef enum cj_optimiser {
    CJ_ADAM,
    CJ_SGD,
    CJ_MOMENTUM,
    CJ_ADAMW,
    CJ_NESTEROV,
    CJ_NADAM,
    CJ_ADAMAX,
    CJ_AMSGRAD,
    CJ_RMSPROP,
    CJ_ADAGRAD,
    CJ_LION,
    CJ_SIGN_SGD,
    CJ_ADADELTA,
    CJ_RADAM,
    CJ_OPTIMISERS
} cj_optimiser;
CJ_API double cj_usual_lr(cj_optimiser kind);  /* 1e-3; SGD 0.1, momentum and Nesterov 0.01, the others as in optim.h */
typedef enum cj_schedule { CJ_CONSTANT, CJ_COSINE, CJ_LINEAR, CJ_STEPS, CJ_EXPONENTIAL, CJ_ONE_CYCLE, CJ_RESTARTS } cj_schedule;

/* Learning rate of a step (0 … steps-1): lr · (step+1)/warmup first, then constant, down a half cosine or a line to 0; in three stretches lr, lr/10, lr/100; in equal
 * ratios to lr/100; one cycle (cj_rate_one_cycle); or three half cosines, each twice as long as the one before. */
CJ_API double cj_schedule_lr(cj_schedule kind, double lr, int64_t step, int64_t steps, int64_t warmup);

typedef struct cj_progress {
    int64_t step, steps;       /* done, in all */
    double epoch;              /* done */
    double loss;               /* mean of the training loss since the last evaluation */
    double lr;
    double rate;               /* examples per second since the start or the resume, without the time of evaluations and checkpoints */
    double flops;              /* floating-point operations per second at this rate, as far as the operators of the plan know theirs; 0: unknown */
    double seconds;            /* since the start or the resume */
    double left;               /* seconds, at this pace */
    size_t peak_bytes;
    const cj_metrics *val;     /* NULL unless an evaluation has just been done */
    const char *saved;         /* the checkpoint just written, or NULL */
    const char *resumed;       /* the checkpoint just loaded, or NULL */
} cj_progress;

typedef struct cj_settings cj_settings;
typedef struct cj_train_opts {
    cj_task task;
    const cj_model *model;     /* its loss, parts, step or fit are used; may be NULL */
    cj_tensor *(*loss)(cj_module *m, cj_tensor *x, cj_tensor *y);  /* NULL: the model's or the task's */
    const cj_examples *val;    /* examples to choose by, that are not learned from; may be NULL */
    int64_t epochs, steps;     /* one of them; steps win; neither: 10 epochs */
    int64_t least_steps;       /* epochs go on until so many steps are done: small data sets have few steps in an epoch */
    int64_t batch;             /* 32 */
    cj_optimiser optimiser;
    double lr;                 /* 0: cj_usual_lr */
    double momentum;           /* 0.9, for CJ_MOMENTUM and CJ_NESTEROV; beta1 of Adam and its kin */
    double weight_decay;       /* AdamW: 0.01 */
    double clip;               /* total gradient norm; 0: never */
    cj_schedule schedule;
    int64_t warmup;            /* steps */
    double label_smoothing;    /* of the task's cross-entropy, in training alone; 0 … 1 */
    double ema;                /* not 0: decay of a moving average of the parameters. It is what is evaluated, saved as the model, and in the module after the last step;
                                  for models with one optimiser */
    int64_t accumulate;        /* parts in which a batch's gradients are computed and summed, one after the other, where a whole batch does not fit; 0, 1: one */
    int64_t eval_every;        /* steps between evaluations; 0: once an epoch */
    int64_t save_every;        /* steps between checkpoints; 0: by the clock, about every 15 seconds. The last one is always written. */
    int64_t patience;          /* stops after so many evaluations without a better one; 0: never */
    bool take_best;            /* at the end the module has the parameters of the best evaluation instead of the last ones */
    bool tensorboard;          /* event files for TensorBoard in the folder */
    bool eager;                /* operators one by one instead of a captured plan */
    const char *folder;        /* run folder; NULL: nothing is written */
    bool resume;               /* go on from the folder's checkpoint, if it has one; otherwise it must not have one */
    void (*progress)(void *user, const cj_progress *p);
    void *user;
} cj_train_opts;

typedef struct cj_train_result {
    bool finished;             /* all steps were done; otherwise see cj_error: CJ_ECANCELLED after cj_cancel, with the run saved */
    bool stopped_early;        /* patience ran out; finished is true, too */
    int64_t step, first_step;  /* first_step > 0: resumed there */
    double loss;               /* of the last logged stretch */
    cj_metrics val;            /* the last evaluation */
    double best;               /* best accuracy of classes (of equal ones that with the smaller loss), else best loss, on the validation examples; NaN without them */
    int64_t best_step;
    double seconds, rate;
    size_t peak_bytes;
} cj_train_result;
/* A loss that is not finite ends the run with an error that names the step and, in a run with a folder, the layer and the operator where it began: the steps since the
 * last checkpoint, which stays as it is, are then done again one operator at a time. */
CJ_API cj_train_result cj_train(cj_module *m, const cj_examples *train, const cj_train_opts *opts);

/* ---- before a long training ----------------------------------------------------------------------------------------------------------------- */

typedef struct cj_finding {
    const char *what;
    double found, low, high;  /* healthy from low to high */
    bool healthy;
    const char *advice;       /* "" where it is healthy */
} cj_finding;
typedef struct cj_diagnose_opts {
    cj_task task;
    const cj_model *model;    /* its loss; may be NULL */
    int64_t classes;          /* of classes or symbols: what chance would say; 0: not asked */
    double lr;                /* the rate to judge, with Adam; 1e-3 */
    int64_t batch, steps;     /* 32; 30 steps for each check */
    bool gradient_descent;    /* cj_lr_find: plain gradient descent instead of Adam */
} cj_diagnose_opts;
/* The initial loss against log(classes), 16 examples learned by heart, the loss after some steps, the smallest and the largest ‖update‖/‖weight‖, units without a gradient, the
 * gradient's size along the layers. make builds a fresh network for each. Returns the number of findings (at most 8), -1 after an error. */
CJ_API int cj_diagnose(cj_ctx *c, cj_module *(*make)(void *user), void *user, const cj_examples *e, cj_finding *out, int room, const cj_diagnose_opts *opts);

typedef enum cj_lr_kind { CJ_LR_SLOW, CJ_LR_GOOD, CJ_LR_EXPLODES } cj_lr_kind;
typedef struct cj_lr_trial {
    double lr;                /* given */
    double loss;              /* after the steps */
    cj_lr_kind kind;          /* slow: more than 0.95 of the first loss; explodes: more than 3 times, or NaN */
} cj_lr_trial;
/* Some steps from the same beginning with each of n rates; the rate with the smallest loss among the good ones, NaN where there is none or after an error. */
CJ_API double cj_lr_find(cj_ctx *c, cj_module *(*make)(void *user), void *user, const cj_examples *e, cj_lr_trial *trial, int n, const cj_diagnose_opts *opts);

/* What the shape of a training loss (one value per step or epoch) says of the learning rate. */
typedef enum cj_curve {
    CJ_CURVE_GOOD,
    CJ_CURVE_SLOW,        /* still far from its end: a larger rate, or more steps */
    CJ_CURVE_PLATEAU,     /* quickly down, then stuck too high: a smaller rate, or one that falls */
    CJ_CURVE_EXPLODES,    /* more than 3 times the first value, or NaN: a much smaller rate */
    CJ_CURVE_FLAT_FIRST   /* nothing happens at first: bad initial weights */
} cj_curve;
CJ_API cj_curve cj_loss_curve(const double *loss, int64_t n);
/* Training and validation error for growing amounts of data, and the error that is wanted: too small a model (bias) has both too high, too few data (variance) only the second. */
typedef enum cj_lack { CJ_LACK_NOTHING, CJ_LACK_MODEL, CJ_LACK_DATA } cj_lack;
CJ_API cj_lack cj_learning_curve(const double *train, const double *val, int64_t n, double wanted);

/* A number to search over: n values from low to high, with equal differences or, with log, equal ratios. */
typedef struct cj_axis {
    double low, high;
    int n;
    bool log;
} cj_axis;
#define CJ_MAX_AXES 8
CJ_API double cj_axis_value(const cj_axis *a, int i);     /* value 0 … n-1 */
CJ_API double cj_axis_at(const cj_axis *a, double t);     /* between them: t from 0 (low) to 1 (high) */
/* Calls score for every point of the grid, or with trials > 0 for so many random points, and keeps the lowest score. Returns the number of points; -1 for fewer than 1 or more than
 * CJ_MAX_AXES axes. */
typedef double (*cj_score_fn)(void *user, const double *value);
CJ_API int64_t cj_grid_search(const cj_axis *axis, int axes, int64_t trials, uint64_t seed, cj_score_fn score, void *user, double *best, double *best_score);

/* ---- run folders ----------------------------------------------------------------------------------------------------------------------------
 *
 *     config.json               the settings, written first
 *     metrics.jsonl             one JSON object per evaluation, appended
 *     model-N.safetensors       parameters and buffers after N steps        state-N.safetensors   optimiser, random state, counters
 *     best-N.safetensors        parameters and buffers of the best evaluation so far
 *     MANIFEST.json             names, sizes and CRC-32 of the newest two checkpoints; renamed into place last
 *     MANIFEST.old.json         the manifest before
 *
 * A checkpoint counts when its manifest is in place; loading checks sizes and checksums and falls back to the checkpoint before. */

/* Loads the newest sound checkpoint's parameters and buffers (or the best ones) into m; returns its step, -1 after an error. */
CJ_API int64_t cj_run_load(cj_module *m, const char *folder, bool best);
/* A checkpoint of the parameters alone, for models that come from elsewhere: it can be used, but training cannot be resumed from it. */
CJ_API bool cj_run_save(cj_module *m, const char *folder);
CJ_API bool cj_run_exists(const char *folder);             /* there is a manifest */
CJ_API void cj_run_clear(const char *folder);              /* deletes a run's files, the manifest first; others stay */
CJ_API int64_t cj_run_step(cj_ctx *c, const char *folder); /* of the newest sound checkpoint; -1: none (no error) */

/* Reads metrics.jsonl: out[i·nkeys + k] is key k of line i, NaN where it has none. Returns the number of lines (at most room), -1 after an error. */
CJ_API int64_t cj_run_metrics(cj_ctx *c, const char *folder, const char *const *keys, int nkeys, double *out, int64_t room);

/* Scalars for TensorBoard: a file FOLDER/events.out.tfevents.…; what older files there say of steps after `step` no longer counts. NULL after an error. */
typedef struct cj_events cj_events;
CJ_API cj_events *cj_events_open(cj_ctx *c, const char *folder, int64_t step);
CJ_API bool cj_events_scalar(cj_events *e, const char *tag, int64_t step, double value);
CJ_API void cj_events_close(cj_events *e);   /* NULL is fine */

/* ---- settings: key=value --------------------------------------------------------------------------------------------------------------------- */

/* The loop's own settings: epochs, steps, batch, optimiser, lr, … as in cj_train_opts. Ends with a NULL key. */
CJ_API const cj_setting *cj_train_settings(void);
/* Settings of the loop and of a model (may be NULL), with the model's recipe for defaults. Lives as long as the context. */
CJ_API cj_settings *cj_settings_new(cj_ctx *c, const cj_model *model);
CJ_API bool cj_settings_set(cj_settings *s, const char *key, const char *value);  /* false after an error that says what is possible */
CJ_API bool cj_settings_parse(cj_settings *s, const char *assignment);            /* "key=value" */
CJ_API double cj_settings_get(const void *settings, const char *key);             /* NaN for an unknown key */
CJ_API cj_options cj_settings_options(const cj_settings *s);                      /* what cj_model.build takes */
CJ_API const char *cj_settings_text(const cj_settings *s, const char *key);       /* as set: "cosine"; "" for an unknown key */
CJ_API void cj_settings_note(cj_settings *s, const char *key, const char *value); /* any further fact of the run, as text: model, data */
CJ_API cj_train_opts cj_settings_train_opts(const cj_settings *s);                /* what the loop takes */
/* config.json of a run folder. save is atomic; load fills in what was not set, and refuses what was set to something else, naming it. */
CJ_API bool cj_settings_save(const cj_settings *s, const char *folder);
CJ_API bool cj_settings_load(cj_settings *s, const char *folder);
/* One fact of a run's config.json into out; false where there is none (no error). */
CJ_API bool cj_run_fact(cj_ctx *c, const char *folder, const char *key, char *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
