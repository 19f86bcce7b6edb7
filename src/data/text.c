/* Texts: the project's own sources, linked into the library, and texts in files (tiny Shakespeare: A. Karpathy, char-rnn, 2015). */
#include "data/dataset.h"
#include "data/embedded.h"

bool cj__text_sources(const cj_dataset_entry *e, cj_ctx *c, cj_text *out)
{
    (void)e;
    for (const struct cj_embedded *f = cj_embedded; f->name; f++)
        if (strcmp(f->name, "sources.txt") == 0) {
            *out = (cj_text){ .ctx = c, .bytes = f->data, .n = f->size };
            return true;
        }
    return cj__error(c, CJ_EFILE, "cj_dataset_open: this library was built without sources.txt");
}

void cj__text_free(cj_text *t)
{
    if (t->owned) cj__free(t->ctx, t->owned, t->room);
    t->owned = NULL;
}

bool cj__text_file(const cj_dataset_entry *e, cj_ctx *c, cj_text *out)
{
    char path[CJ_PATH];
    cj_bytes b;
    if (!cj__data_path(e, c, e->file, path) || !cj__bytes_load(&b, c, "cj_dataset_open", path)) return false;
    *out = (cj_text){ .ctx = c, .bytes = b.data, .n = b.n, .owned = b.data, .room = b.room };
    return true;
}

/* train.txt where it is there; else the validation part is what is learnt from.  One text: training, validation, test. */
bool cj__text_wikitext(const cj_dataset_entry *e, cj_ctx *c, cj_text *out)
{
    static const char *const files[] = { "train.txt", "valid.txt", "test.txt" };
    cj_bytes part[3] = { { 0 } };
    char path[CJ_PATH];
    bool ok = true, train = cj__data_there(e, files[0], path);
    size_t n = 0;
    for (int i = !train; i < 3 && ok; i++) {
        ok = cj__data_path(e, c, files[i], path) && cj__bytes_load(&part[i], c, "cj_dataset_open", path);
        n += part[i].n;
    }
    unsigned char *all = ok ? cj__alloc(c, n + 1) : NULL;
    if (all) {
        size_t at = 0;
        for (int i = 0; i < 3; at += part[i++].n)
            if (part[i].n) memcpy(all + at, part[i].data, part[i].n);
        *out = (cj_text){ .ctx = c, .bytes = all, .n = n, .val = train ? part[1].n : 0, .test = part[2].n, .owned = all, .room = n + 1 };
    }
    for (int i = 0; i < 3; i++)
        if (part[i].data) cj__bytes_free(&part[i]);
    return all != NULL;
}
