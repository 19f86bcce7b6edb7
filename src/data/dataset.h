/* How a data set comes into memory: a maker fills plain rows, dataset.c splits, scales and wraps them as tensors. */
#ifndef CJ_DATA_DATASET_H
#define CJ_DATA_DATASET_H

#include "data/file.h"

typedef struct cj_rows {
    cj_ctx *ctx;
    int64_t n, features, classes; /* classes 0: y holds values */
    float *x;                     /* [n, features] */
    float *y;                     /* [n]: a class number or a value */
} cj_rows;

bool cj__rows_alloc(cj_rows *r, cj_ctx *c, int64_t n, int64_t features);
void cj__rows_free(cj_rows *r);

typedef struct cj_text {
    cj_ctx *ctx;
    const unsigned char *bytes;
    size_t n;
    unsigned char *owned; /* NULL: the bytes are part of the library */
} cj_text;

/* One row of the list of data sets. */
typedef struct cj_dataset_entry cj_dataset_entry;
struct cj_dataset_entry {
    bool (*rows)(const cj_dataset_entry *e, cj_ctx *c, const cj_dataset_opts *o, uint64_t seed, cj_rows *out);
    bool (*text)(const cj_dataset_entry *e, cj_ctx *c, cj_text *out);
    double scale; /* x is multiplied by it; 0: standardised (tables) */
    int64_t height, width;
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

/* text.c */
bool cj__text_sources(const cj_dataset_entry *e, cj_ctx *c, cj_text *out);
bool cj__text_shakespeare(const cj_dataset_entry *e, cj_ctx *c, cj_text *out);
void cj__text_free(cj_text *t);

/* Reserved call numbers of the data stream: a data set draws the same whatever was drawn before it. */
#define CJ_CALL_SPLIT (UINT64_MAX - 1)
#define CJ_CALL_POINTS (UINT64_MAX - 2)

#endif
