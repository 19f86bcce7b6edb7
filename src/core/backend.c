/* Finding and opening a device back-end: libcajal-NAME.so beside the library, in $CAJAL_BACKENDS or in the library path.
 *
 * The shared object exports one symbol, cj_backend_table, has no undefined cj_ symbol, and is refused when it was built from other headers.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/core.h"

const char cj__build_id[] = CJ_VERSION "/" __DATE__;

/* Opens it; where the file is there and does not open, the linker's words go to why. */
static void *try_open(const char *folder, const char *name, char *why, size_t size)
{
    char path[4096];
    int n = folder ? snprintf(path, sizeof path, "%s/libcajal-%s.so", folder, name) : snprintf(path, sizeof path, "libcajal-%s.so", name);
    if (n <= 0 || n >= (int)sizeof path) return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *words = handle ? NULL : dlerror();
    if (words && folder && access(path, R_OK) == 0) snprintf(why, size, "%s", words);
    return handle;
}

static void *find_backend(const char *name, char *why, size_t size)
{
    void *handle = NULL;
    const char *env = getenv("CAJAL_BACKENDS");
    if (env && *env) handle = try_open(env, name, why, size);
    Dl_info self;
    if (!handle && dladdr((const void *)&cj__build_id, &self) && self.dli_fname) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s", self.dli_fname);
        char *slash = strrchr(folder, '/');
        if (slash) *slash = 0;
        handle = try_open(slash ? folder : ".", name, why, size);
    }
    return handle ? handle : try_open(NULL, name, why, size);
}

bool cj__backend_open(cj_ctx *c, const char *device)
{
    char name[16];
    snprintf(name, sizeof name, "%s", device);
    char *colon = strchr(name, ':');
    int index = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
    if (colon) *colon = 0;
    if (strcmp(name, "cuda") != 0) return cj__error(c, CJ_EDEVICE, "device '%s' is unknown; cpu, cuda or cuda:N expected", device);
    char why[512] = "";
    void *handle = find_backend(name, why, sizeof why);
    if (!handle && why[0]) return cj__error(c, CJ_EDEVICE, "device '%s': %s", device, why);
    if (!handle)
        return cj__error(c, CJ_EDEVICE,
                         "device '%s': libcajal-%s.so was not found beside the library, in $CAJAL_BACKENDS or in the library path", device,
                         name);
    const cj_backend *(*table)(void) = NULL;
    *(void **)&table = dlsym(handle, "cj_backend_table");
    const cj_backend *b = table ? table() : NULL;
    snprintf(why, sizeof why, "it has no back-end table");
    if (b && b->size != sizeof *b) {
        snprintf(why, sizeof why, "it was built for another version of the library");
        b = NULL;
    }
    void *state = b ? b->open(index, why, sizeof why) : NULL;
    if (!state) {
        cj__error(c, CJ_EDEVICE, "device '%s': %s", device, why);
        dlclose(handle);
        return false;
    }
    c->backend = b;
    c->device_state = state;
    c->backend_handle = handle;
    snprintf(c->device, sizeof c->device, "%s", device);
    return true;
}

bool cj__backend_error(cj_ctx *c, const char *what)
{
    cj_code code = CJ_EDEVICE;
    const char *text = c->backend->fault(c->device_state, &code);
    return code == CJ_EDEVICE ? cj__error(c, code, "%s: %s", what, text ? text : "the device says nothing about why")
                              : cj__error(c, code, "%s", text); /* words of the kernel that met the value */
}

bool cj_sync(cj_ctx *c)
{
    if (!c || c->error) return false;
    return !c->backend || c->backend->sync(c->device_state) || cj__backend_error(c, "sync");
}

void cj__backend_close(cj_ctx *c)
{
    c->backend->close(c->device_state);
    c->backend = NULL;
    dlclose(c->backend_handle);
}
