/* Where data sets lie: $CAJAL_DATA/FOLDER, then ~/.cache/cajal/FOLDER. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/dataset.h"

bool cj__data_there(const cj_dataset_entry *e, const char *file, char path[CJ_PATH])
{
    static const char *const endings[] = { "", ".gz", ".xz" };
    const char *roots[] = { getenv("CAJAL_DATA"), getenv("HOME") };
    for (int place = 0; place < 2; place++)
        for (int i = 0; i < 3 && roots[place] && *roots[place]; i++) {
            int n = snprintf(path, CJ_PATH, "%s%s/%s/%s%s", roots[place], place ? "/.cache/cajal" : "", e->folder, file, endings[i]);
            if (n > 0 && n < CJ_PATH && access(path, F_OK) == 0) return true;
        }
    return false;
}

bool cj__data_path(const cj_dataset_entry *e, cj_ctx *c, const char *file, char path[CJ_PATH])
{
    if (cj__data_there(e, file, path)) return true;
    const char *data = getenv("CAJAL_DATA");
    return cj__error(
        c, CJ_EFILE,
        "cj_dataset_open: %s/%s was looked for in %s and ~/.cache/cajal, and not found; cajal data get %s fetches it, or set $CAJAL_DATA",
        e->folder, file, data && *data ? data : "$CAJAL_DATA", e->folder);
}
