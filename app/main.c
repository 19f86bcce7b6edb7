/* The program `cajal`: finds the verb and runs it.  Every verb has a file of its own. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "app/app.h"

/* Verbs whose files are not in this build are NULL. */
#pragma weak app_ops
#pragma weak app_bench
#pragma weak app_selftest

typedef struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *line, *summary;
} verb;

static const verb verbs[] = {
    { "train", app_train, "MODEL [--data NAME] [key=value ...]", "train a model; Ctrl-C stops and saves, --resume goes on" },
    { "eval", app_eval, "RUN", "a run on the test data: loss, accuracy, every class" },
    { "predict", app_predict, "RUN FILE", "what a run says about new examples" },
    { "sample", app_sample, "RUN [--prompt TEXT] [--n N]", "text, images or points from a trained model" },
    { "models", app_models, "[--describe NAME]", "the models and their settings" },
    { "data", app_data, "[list | info NAME | get NAME]", "the data sets" },
    { "ops", app_ops, "", "the operators, and what passed for each" },
    { "lab", app_lab, "[list | run NAME | check]", "experiments with expected numbers and pictures" },
    { "bench", app_bench, "[NAME]", "speed, with a peer beside it" },
    { "profile", app_profile, "MODEL", "time, bytes and flops of every operator" },
    { "export", app_export, "RUN FILE", "a run's parameters as .safetensors or .npz, the network as .onnx" },
    { "import", app_import, "MODEL FILE --out RUN", "a run from parameters in a file" },
    { "selftest", app_selftest, "[OP]", "checks every operator on this machine" },
    { "doctor", app_doctor, "", "this machine, the back-ends, what is missing" },
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static int help(void)
{
    printf("cajal %s: deep learning in C\n\n", cj_version());
    for (int i = 0; i < VERBS; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", verbs[i].name, verbs[i].line);
        printf("  cajal %-42s %s\n", left, verbs[i].summary);
    }
    printf("\n'cajal VERB --help' says more about each. Begin with:\n"
           "  cajal train mlp --data digits\n"
           "  cajal lab run heavy-ball-cycle\n");
    return APP_OK;
}

static const verb *find(const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
    const char *names[VERBS];
    for (int i = 0; i < VERBS; i++) names[i] = verbs[i].name;
    const char *nearest = app_nearest(name, names, VERBS);
    if (nearest) app_error("'%s' is no verb; did you mean 'cajal %s'?", name, nearest);
    else app_error("'%s' is no verb; 'cajal help' lists them", name);
    return NULL;
}

int main(int argc, char **argv)
{
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* a full quota is an error of the write, not the end of the program */
#endif
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) return printf("cajal %s\n", cj_version()) < 0;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        if (argc < 3) return help();
        const verb *v = find(argv[2]);
        if (!v || !v->run) return APP_USAGE;
        char option[] = "--help";
        return v->run(2, (char *[]){ argv[2], option, NULL });
    }
    const verb *v = find(name);
    if (!v) return APP_USAGE;
    if (!v->run) return app_error("the verb '%s' is not in this build", name);
    int status = v->run(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "cajal: the output could not be written\n");
        return status ? status : APP_FAILED;
    }
    return status;
}
