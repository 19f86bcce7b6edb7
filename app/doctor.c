/* cajal doctor: this machine, the back-ends, what is missing and how to get it. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "app/app.h"

typedef struct library {
    const char *name, *use, *package;
    bool have;
} library;

#ifdef CJ_HAVE_ZLIB
#define HAVE_ZLIB true
#else
#define HAVE_ZLIB false
#endif
#ifdef CJ_HAVE_PNG
#define HAVE_PNG true
#else
#define HAVE_PNG false
#endif
#ifdef CJ_HAVE_CAIRO
#define HAVE_CAIRO true
#else
#define HAVE_CAIRO false
#endif
#ifdef CJ_HAVE_CJSON
#define HAVE_CJSON true
#else
#define HAVE_CJSON false
#endif
#ifdef CJ_HAVE_PROTOBUF_C
#define HAVE_PROTOBUF_C true
#else
#define HAVE_PROTOBUF_C false
#endif
#ifdef CJ_HAVE_JPEG
#define HAVE_JPEG true
#else
#define HAVE_JPEG false
#endif
#ifdef CJ_HAVE_LZMA
#define HAVE_LZMA true
#else
#define HAVE_LZMA false
#endif
#ifdef CJ_LAPACK_LIBRARY
#define HAVE_OPENBLAS true
#else
#define HAVE_OPENBLAS false
#endif
#ifdef CJ_OPENMP
#define HAVE_OPENMP true
#else
#define HAVE_OPENMP false
#endif

static const library libraries[] = {
    { "zlib", "compressed data and .npz", "zlib1g-dev", HAVE_ZLIB },
    { "libpng", "PNG pictures", "libpng-dev", HAVE_PNG },
    { "libjpeg", "JPEG pictures", "libjpeg62-turbo-dev", HAVE_JPEG },
    { "liblzma", "xz-compressed data", "liblzma-dev", HAVE_LZMA },
    { "cairo", "plots", "libcairo2-dev", HAVE_CAIRO },
    { "cJSON", "run folders, safetensors", "libcjson-dev", HAVE_CJSON },
    { "protobuf-c", "ONNX files", "libprotobuf-c-dev protobuf-c-compiler", HAVE_PROTOBUF_C },
    { "OpenBLAS", "LAPACK, for linear algebra on large matrices", "libopenblas-dev", HAVE_OPENBLAS },
    { "OpenMP", "another thread pool; optional, CMake -DCJ_OPENMP=ON", "libgomp1", HAVE_OPENMP },
};

static void processor_name(char *out, size_t n)
{
    snprintf(out, n, "unknown processor");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, n, "%s", colon + 2);
        break;
    }
    if (f) fclose(f);
}

static void row(bool json, const char *item, const char *state, const char *advice)
{
    if (!json) {
        printf("%-14s %s%s%s\n", item, state, *advice ? "; " : "", advice);
        return;
    }
    app_json_open();
    app_json_text("item", item);
    app_json_text("state", state);
    app_json_text("advice", *advice ? advice : NULL);
    app_json_close();
}

static void machine(bool json)
{
    struct utsname u;
    char text[512], name[256];
    if (uname(&u) == 0) {
        snprintf(text, sizeof text, "%s %s, %s", u.sysname, u.release, u.machine);
        row(json, "system", text, "");
    }
    processor_name(name, sizeof name);
    snprintf(text, sizeof text, "%s, %ld cores", name, sysconf(_SC_NPROCESSORS_ONLN));
    row(json, "processor", text, "");
    double page = (double)sysconf(_SC_PAGESIZE), all = page * (double)sysconf(_SC_PHYS_PAGES),
           available = page * (double)sysconf(_SC_AVPHYS_PAGES);
    snprintf(text, sizeof text, "%s, %s free", app_bytes(all), app_bytes(available));
    row(json, "memory", text, "");
}

static void instruction_sets(bool json)
{
    static const char *const level[] = { "portable", "neon", "avx2", "avx512" };
    char have[128] = "", text[256];
    for (int i = 0; i < 4; i++) {
        cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .isa = level[i], .threads = 1 });
        if (cj_ok(c)) snprintf(have + strlen(have), sizeof have - strlen(have), "%s%s", *have ? " " : "", level[i]);
        cj_ctx_free(c);
    }
    cj_ctx *c = cj_ctx_new(NULL);
    bool ok = cj_ok(c);
    snprintf(text, sizeof text, "%s used; available: %s", cj_ctx_isa(c), have);
    row(json, "kernels", text, ok ? "" : cj_message(c));
    snprintf(text, sizeof text, "%d", cj_ctx_threads(c));
    row(json, "threads", text, "");
    cj_ctx_free(c);
}

static void back_ends(bool json)
{
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .device = "cuda", .threads = 1 });
    if (cj_ok(c)) row(json, "cuda", "works: --device cuda", "");
    else row(json, "cuda", "not usable", cj_message(c));
    cj_ctx_free(c);
}

int app_doctor(int argc, char **argv)
{
    bool json = false;
    const app_option options[] = {
        { "--json", NULL, "one object per line: item, state, advice", NULL, &json },
        { 0 },
    };
    const app_usage usage = {
        .verb = "doctor",
        .line = "[--json]",
        .examples = "  cajal doctor\n",
        .text = "Says what this machine has, which back-ends and libraries this build uses, what is missing and how to get it."
    };
    app_args args;
    APP_PARSE(&usage, options, argc, argv, &args);
    row(json, "cajal", cj_version(), "");
    machine(json);
    instruction_sets(json);
    back_ends(json);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        const library *l = &libraries[i];
        char state[256], advice[256] = "";
        snprintf(state, sizeof state, "%s (%s)", l->have ? "yes" : "missing", l->use);
        if (!l->have) snprintf(advice, sizeof advice, "Debian: apt install %s, then build again", l->package);
        row(json, l->name, state, advice);
    }
    return APP_OK;
}
