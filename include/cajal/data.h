/* cajal/data.h: tensors in files, and data sets.
 *
 * Files.  What is read is checked before memory is asked for: a cut, lying or foreign file is CJ_EFILE with a sentence that says what is wrong.  What is
 * written goes to PATH.tmp in the same folder, is synchronised and then renamed: after any failure (no space, no permission, a killed process) PATH is
 * the old file or the new one, never half of one.
 *
 *     cj_npy_save(x, "x.npy");
 *     cj_archive *a = cj_safetensors_load(c, "model.safetensors");
 *     cj_tensor *w = cj_archive_find(a, "0.weight");
 */
#ifndef CAJAL_DATA_H
#define CAJAL_DATA_H

#include <cajal/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- .npy: one array, NumPy's format -------------------------------------------------------------------------------------------------------- */

/* f32 f64 f16 i64 i32 u8 bool as NumPy has them.  NumPy has no bf16: its elements are written as '<V2' (two opaque bytes, what ml_dtypes writes), which
 * numpy.load(...).view(ml_dtypes.bfloat16) reads, and '<V2' is read as bf16.  Versions 1 to 3 are read, C and Fortran order (made row-major); other
 * dtypes and big-endian files are refused.  Strided tensors are written row-major. */
CJ_API cj_tensor *cj_npy_load(cj_ctx *c, const char *path); /* a tensor of the innermost scope */
CJ_API bool cj_npy_save(cj_tensor *t, const char *path);

/* ---- named tensors: .npz and .safetensors ------------------------------------------------------------------------------------------------------ */

typedef struct cj_named {
    const char *name;
    cj_tensor *tensor;
} cj_named;

typedef struct cj_text_pair {
    const char *key, *value;
} cj_text_pair;

/* What a file held, in the order of the file.  The tensors are persistent and go with the archive; cj_keep one to have it longer. */
typedef struct cj_archive {
    int count;
    const cj_named *item;
    int pairs;           /* metadata: texts by key (safetensors only) */
    const cj_text_pair *pair;
} cj_archive;

CJ_API cj_tensor *cj_archive_find(const cj_archive *a, const char *name);      /* NULL where there is none */
CJ_API const char *cj_archive_meta(const cj_archive *a, const char *key);      /* NULL where there is none */
CJ_API void cj_archive_free(cj_archive *a);                                    /* or cj_ctx_free does; NULL is fine */

/* A zip file of .npy members, as numpy.savez makes it.  Members are deflated where zlib was found when the library was built, else stored (and then only
 * stored members are read).  At most 4 GiB (no zip64). Members that are no .npy are passed over. */
CJ_API cj_archive *cj_npz_load(cj_ctx *c, const char *path);                   /* NULL after an error */
CJ_API bool cj_npz_save(cj_ctx *c, const char *path, const cj_named *item, int n);

/* The safetensors format (huggingface/safetensors): a JSON header, then the bytes.  All dtypes; needs cJSON. */
CJ_API cj_archive *cj_safetensors_load(cj_ctx *c, const char *path);           /* NULL after an error */
CJ_API bool cj_safetensors_save(cj_ctx *c, const char *path, const cj_named *item, int n, const cj_text_pair *pair, int pairs);

/* ---- data sets ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct cj_dataset_info {
    const char *name;
    const char *family;  /* "table", "image", "generated", "text" */
    const char *summary;
} cj_dataset_info;
/* The known data sets; *n becomes their number. */
CJ_API const cj_dataset_info *cj_dataset_list(int *n);

typedef struct cj_dataset_opts {
    double held_out;     /* share of the rows that is held out; 0.2 by default, CJ_ZERO for none */
    uint64_t seed;       /* of the split and of generated sets; 0: the context's seed */
    bool raw;            /* values as in the source: digits 0 … 16, tables and regression targets not standardised */
    int64_t n;           /* generated sets: points, 1000 by default */
    int64_t classes;     /* blobs (3) and spirals (2) */
    double noise;        /* generated sets: standard deviation; CJ_ZERO for none */
} cj_dataset_opts;

/* A data set in memory.  The split is a shuffle of the rows, the same for the same seed on every machine, and draws nothing from the context's streams.
 *
 *   classes   x f32 [n, features], y i64 [n]
 *   values    x f32 [n, features], y f32 [n, 1] (a column, so that it fits a network's output without broadcasting)
 *   text      x i64 [n] of symbol numbers, y NULL; held out is the end of the text, nothing is shuffled
 *
 * Digits are scaled to 0 … 1.  Tables (iris, wine, breast_cancer, diabetes) and diabetes' target are standardised with the mean and deviation of the
 * training rows.  The tensors are persistent and go with the data set. */
typedef struct cj_dataset {
    const char *name, *summary;
    cj_tensor *x, *y;               /* all rows, in the order of the source */
    cj_tensor *train_x, *train_y;   /* the split, shuffled */
    cj_tensor *test_x, *test_y;     /* held out; [0, features] when nothing is */
    int64_t n, features;            /* rows (symbols of a text), columns (1 for a text) */
    int64_t classes;                /* classes; symbols of a text's alphabet; 0 for values */
    const char *const *class_names; /* classes of them */
    const char *const *feature_names;   /* features of them, or NULL */
    int64_t height, width;          /* of an image row, else 0 */
    double y_mean, y_std;           /* values: y in the source = y · y_std + y_mean */
    bool is_text;
    unsigned char symbol[256];      /* text: the byte of a symbol number, in ascending order */
    int16_t number[256];            /* text: the symbol number of a byte, -1 where the text has none */
} cj_dataset;

/* digits iris wine breast_cancer diabetes, moons spirals blobs xor, sources shakespeare (cj_dataset_list).  An unknown name is an error that lists them.
 * shakespeare is read from $CAJAL_DATA/tinyshakespeare/input.txt or ~/.cache/cajal/tinyshakespeare/input.txt.  NULL after an error.
 *     cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.1); */
CJ_API cj_dataset *cj_dataset_open(cj_ctx *c, const char *name, const cj_dataset_opts *opts);
CJ_API void cj_dataset_free(cj_dataset *d);                                    /* or cj_ctx_free does; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
