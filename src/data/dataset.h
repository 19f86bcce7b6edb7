/* How a data set comes into memory: a maker fills plain rows, dataset.c splits, scales and wraps them as tensors. */
#ifndef CJ_DATA_DATASET_H
#define CJ_DATA_DATASET_H

#include "data/bytes.h"

typedef struct cj_rows {
    cj_ctx *ctx;
    int64_t n, features, classes; /* classes 0: y holds values */
    float *x;                     /* [n, features] */
    float *y;                     /* [n]: a class number or a value */
    bool official; /* the last `test` rows are the test split, the `val` rows before them validation (0: a share of the rest) */
    bool ordered;  /* official: the training rows keep their order */
    int64_t val, test;
    cj_dataset *set; /* what the rows are for: names and sizes of images go straight there; memory with cj__record_… */
} cj_rows;

bool cj__rows_alloc(cj_rows *r, cj_ctx *c, int64_t n, int64_t features);
void cj__rows_free(cj_rows *r);

typedef struct cj_text {
    cj_ctx *ctx;
    const unsigned char *bytes;
    size_t n;
    size_t val, test;     /* official: bytes at the end; 0: shares */
    unsigned char *owned; /* NULL: the bytes are part of the library */
    size_t room;          /* of owned */
} cj_text;

/* One row of the list of data sets. */
typedef struct cj_dataset_entry cj_dataset_entry;
struct cj_dataset_entry {
    bool (*rows)(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
    bool (*text)(const cj_dataset_entry *e, cj_ctx *c, cj_text *out);
    /* or the whole data set, by itself */
    bool (*fill)(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d);
    const char *law;             /* of synthetic.c */
    const char *folder, *file;   /* of sets from files: FOLDER/FILE below the places where data is looked for */
    double held_out, validation; /* shares when the caller gives none; 0: 0.2 and none */
    double scale;                /* x is multiplied by it; 0: standardised (tables) */
    int64_t channels, height, width;
    const char *const *class_names, *const *feature_names;
};

/* table.c */
bool cj__table_iris(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__table_wine(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__table_breast_cancer(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__table_diabetes(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__table_digits(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);

/* points.c */
bool cj__points_moons(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__points_spirals(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__points_blobs(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__points_xor(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);

/* synthetic.c: the row's `law` */
bool cj__synthetic(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);

/* text.c */
bool cj__text_sources(const cj_dataset_entry *e, cj_ctx *c, cj_text *out);
bool cj__text_file(const cj_dataset_entry *e, cj_ctx *c, cj_text *out);
bool cj__text_wikitext(const cj_dataset_entry *e, cj_ctx *c, cj_text *out);
void cj__text_free(cj_text *t);

/* places.c: the path of FOLDER/FILE in $CAJAL_DATA or ~/.cache/cajal, as it is or with .gz or .xz; an error that says where it was looked for. */
enum { CJ_PATH = 4096 };
bool cj__data_path(const cj_dataset_entry *e, cj_ctx *c, const char *file, char path[CJ_PATH]);
bool cj__data_there(const cj_dataset_entry *e, const char *file, char path[CJ_PATH]); /* without the error */

/* sets_rows.c */
bool cj__set_mnist(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__set_cifar10(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__set_olivetti(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__set_boston(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__set_california(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__set_ucr(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
bool cj__set_series(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);

/* sets_other.c */
bool cj__set_cora(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d);
bool cj__set_karate(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d);
bool cj__set_sst2(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d);
bool cj__set_multi30k(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d);
bool cj__set_names(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d);
bool cj__set_bccd(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_dataset *d);

/* dataset.c: pieces of filling a data set */
const char *cj__dataset_folder(const char *name); /* of a set from files; NULL for the others */
bool cj__fill_text(cj_dataset *d, const cj_dataset_entry *e, const cj_dataset_opts *o, const cj_text *t);
void cj__shuffle(int64_t *order, int64_t n, uint64_t seed);
/* Shares of n rows for test and validation (after test is taken); false after an error. */
bool cj__shares(cj_ctx *c, const cj_dataset_entry *e, const cj_dataset_opts *o, int64_t n, int64_t *test, int64_t *val);

/* Reserved call numbers of the data stream: a data set draws the same whatever was drawn before it. */
#define CJ_CALL_SPLIT (UINT64_MAX - 1)
#define CJ_CALL_POINTS (UINT64_MAX - 2)

#endif
