/* Python pickles of plain data.  The machine of the format knows numbers, texts, tuples, lists and dictionaries and, by name, NumPy's arrays and SciPy's
 * csr_matrix; every other name is an error, and nothing is ever called.
 */
#ifndef CJ_DATA_PICKLE_H
#define CJ_DATA_PICKLE_H

#include "data/bytes.h"

typedef enum cj_pickle_kind {
    CJ_PICKLE_NONE,
    CJ_PICKLE_NUMBER,
    CJ_PICKLE_TEXT, /* also bytes */
    CJ_PICKLE_TUPLE,
    CJ_PICKLE_LIST,
    CJ_PICKLE_DICT,  /* item: key, value, key, value … */
    CJ_PICKLE_NAME,  /* a class or function: text is "module name" */
    CJ_PICKLE_OBJECT /* an instance: item[0] its class, item[1] arguments, item[2] its state or NULL */
} cj_pickle_kind;

typedef struct cj_pickle cj_pickle;
struct cj_pickle {
    cj_pickle_kind kind;
    double number;
    const char *text;
    size_t n; /* bytes of the text, items */
    size_t room;
    cj_pickle **item;
    size_t at; /* where it stands in the file */
};

/* The value in the bytes; it and all inside it live in `record`, texts point into the bytes.  NULL after an error. */
cj_pickle *cj__pickle_read(const cj_bytes *b, void *record);

/* A NumPy array of f4, f8, i4, i8 … in C order: its sizes and, per element, a number. */
typedef struct cj_pickle_array {
    int ndim;
    int64_t dim[2], n;
    char type;
    size_t size;
    const unsigned char *data;
} cj_pickle_array;
bool cj__pickle_array(const cj_bytes *b, const cj_pickle *p, cj_pickle_array *out);
double cj__pickle_element(const cj_pickle_array *a, int64_t i);
const cj_pickle *cj__pickle_find(const cj_pickle *dict, const char *key); /* NULL where there is none */

#endif
