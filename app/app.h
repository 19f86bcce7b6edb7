/* What the verbs of the program share: the command line, errors in one line, JSON lines, and the job (context, data, model) that most verbs begin with. */
#ifndef CJ_APP_APP_H
#define CJ_APP_APP_H

#include <cajal/cajal.h>

/* ---- verbs: one per file, each returns the exit status ------------------------------------------------------------------------------------ */

enum { APP_OK = 0, APP_FAILED = 1, APP_USAGE = 2 };

int app_train(int argc, char **argv);
int app_eval(int argc, char **argv);
int app_predict(int argc, char **argv);
int app_sample(int argc, char **argv);
int app_models(int argc, char **argv);
int app_data(int argc, char **argv);
int app_ops(int argc, char **argv);
int app_lab(int argc, char **argv);
int app_bench(int argc, char **argv);
int app_profile(int argc, char **argv);
int app_export(int argc, char **argv);
int app_import(int argc, char **argv);
int app_selftest(int argc, char **argv);
int app_doctor(int argc, char **argv);

/* ---- the command line ------------------------------------------------------------------------------------------------------------------------ */

typedef struct app_option {
    const char *name;  /* "--data" */
    const char *value; /* what it takes, for the help: "NAME"; NULL: nothing, it is a flag */
    const char *help;
    const char **text; /* where its value goes */
    bool *flag;        /* or that it was given */
} app_option;

typedef struct app_args {
    const char *word[16]; /* what is no option and no setting */
    int words;
    const char *setting[64]; /* key=value */
    int settings;
} app_args;

/* How a verb is called, for its help and its errors. Options end with a NULL name. */
typedef struct app_usage {
    const char *verb;
    const char *line;     /* after "cajal VERB": "MODEL [--data NAME] …" */
    const char *text;     /* what it does */
    const char *examples; /* whole lines */
    int least, most;      /* words */
    bool settings;        /* takes key=value */
} app_usage;

/* Reads argv[1 …]. APP_OK: go on; -1: help was printed, all is done (exit 0); APP_USAGE: an error was printed. */
int app_parse(const app_usage *u, const app_option *options, int argc, char **argv, app_args *out);
#define APP_PARSE(usage, options, argc, argv, args)                                                                                        \
    do {                                                                                                                                   \
        int app_status = app_parse(usage, options, argc, argv, args);                                                                      \
        if (app_status) return app_status < 0 ? APP_OK : app_status;                                                                       \
    } while (0)

/* One line on stderr, "cajal VERB: …"; returns APP_USAGE. */
int app_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The context's error in one line; returns APP_FAILED. NULL: no memory for a context. */
int app_fail(const cj_ctx *c);
/* The name among names[n] that is most like word, or NULL if none is. */
const char *app_nearest(const char *word, const char *const *names, int n);
/* A whole number ≥ least from an option's text into out; APP_USAGE after an error. */
int app_number(const char *option, const char *text, long long least, long long *out);

/* ---- JSON lines ------------------------------------------------------------------------------------------------------------------------------- */

/* app_json_open(); app_json_text("name", s); app_json_number("n", 3); app_json_close(); prints {"name":"…","n":3} and a newline. */
void app_json_open(void);
void app_json_text(const char *key, const char *value); /* NULL prints null */
void app_json_number(const char *key, double value);    /* what is not finite prints null */
void app_json_numbers(const char *key, const double *value, int64_t n);
void app_json_bool(const char *key, bool value);
void app_json_close(void);

/* ---- numbers for people: into a rotating buffer ------------------------------------------------------------------------------------------------ */

const char *app_bytes(double n);   /* "3.1 MB" */
const char *app_count(double n);   /* "25,994" */
const char *app_seconds(double s); /* "4.2 s", "3 min 10 s" */

/* ---- the job: a model, its data, a context --------------------------------------------------------------------------------------------------------- */

extern const cj_model *const cj_models[];    /* generated from zoo/; ends with NULL */
const cj_model *app_model(const char *name); /* NULL after an error that suggests one */

typedef struct app_job {
    cj_ctx *ctx;
    const cj_model *model;
    cj_task task; /* the model's, or regression where the data has values */
    cj_settings *settings;
    cj_dataset *data;
    cj_module *net;
    cj_examples train, val, test; /* val: to choose by (empty with validation=0); test: looked at once, at the end */
    int64_t all_val;              /* examples in val: of a text, training looks at the first of them only */
    cj_csr graph;                 /* of nodes: normalised */
    cj_words *source, *target;    /* of translations: vocabularies */
    cj_dataset kept;              /* of a run whose text is gone: its alphabet; data points here, and has no rows */
} app_job;

typedef struct app_job_opts {
    const char *model, *data, *device, *threads;
    const char *folder; /* of a run to go on with or to use: model, data and settings come from its config.json */
    const char *const *setting;
    int settings;
    const char *epochs, *steps;
    int fold, folds; /* folds > 0: the training rows without this part (0 …) of so many, which is what to choose by */
    bool use;        /* the run is used, not trained: where its text is gone, what the folder kept of it is enough */
} app_job_opts;

/* Everything up to the model with its initial parameters. APP_OK or the exit status after an error; the context is to be freed either way. */
int app_job_open(app_job *j, const app_job_opts *o);
void app_job_close(app_job *j);
bool app_job_keep(app_job *j, const char *folder); /* what a run needs of its texts to be used without them; false after an error */
cj_module *app_build(app_job *j);                  /* the model anew, with the same initial parameters; NULL after an error */
/* Opens the run in folder and loads its parameters. */
int app_job_load(app_job *j, const char *folder, const char *device, const char *threads, bool best, int64_t *step);

/* An example as the model takes it, all zeros; without dimensions where it takes more than one tensor (models.c). */
cj_shape app_example_of(const app_job *j, cj_dtype *dtype);

/* Parameters and buffers of a module under PyTorch's names into FILE.safetensors or FILE.npz, and how many tensors (export.c); false after an error. */
bool app_save_parameters(cj_ctx *c, cj_module *net, const char *file, int *tensors);

/* Translations: words of a sentence that are read and written at most (its beginning and end included), bytes that one takes at most. */
enum { APP_WORDS = 48, APP_SENTENCE = 2048 };
/* The likeliest translation of each row of words, i64 [B, S], into B texts of APP_SENTENCE bytes; false after an error. */
bool app_translate(app_job *j, cj_tensor *x, char *text);

/* BLEU of the test sentences, greedily translated (eval.c); NaN after an error. And its line of a table. */
double app_bleu(app_job *j);
void app_print_bleu(double bleu);

/* Loss and accuracy of some examples, in the words of the task: a line or two of a table. */
void app_print_metrics(const app_job *j, const char *of, const cj_metrics *m);

/* ---- training, once or many times ------------------------------------------------------------------------------------------------------------------ */

typedef struct app_run {
    app_job_opts job;
    const char *folder; /* NULL: nothing is written */
    bool resume, eager, tensorboard, json, quiet;
    bool silent;  /* prints nothing at its end */
    bool no_test; /* leaves the test examples alone */
} app_run;
typedef struct app_outcome {
    cj_train_result train;
    cj_metrics test;
    double bleu; /* of translations */
    cj_task task;
} app_outcome;
int app_run_once(const app_run *run, app_outcome *out);

/* Several runs: a grid over settings with several values, seeds, folds. */
typedef struct app_search_opts {
    const char *seeds, *folds, *random; /* as given, or NULL */
} app_search_opts;
bool app_is_search(const app_run *run, const app_search_opts *o);
int app_search(const app_run *run, const app_search_opts *o);

/* What to look at before a long training, and the rates that lead somewhere. */
int app_diagnose(const app_run *run);

/* SIGINT and SIGTERM cancel this context; a second one ends the program. */
void app_cancel_on_signal(cj_ctx *c);

#endif
