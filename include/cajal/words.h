/* cajal/words.h: vocabularies of words, for models of sentences.
 *
 * A sentence is cut into words (letters, digits, bytes beyond ASCII, and ' and - inside of them) and single marks of punctuation, all in lower case (ASCII and Latin-1).
 * Word numbers: CJ_WORD_PAD, CJ_WORD_BEGIN, CJ_WORD_END, CJ_WORD_UNKNOWN of model.h are 0 to 3, then the words, the most frequent first.
 * Underneath is a cj_tokeniser_words (cajal/data.h) with joined and lower set; what is here are sentences as rows of numbers, and sentences as they are written.
 */
#ifndef CAJAL_WORDS_H
#define CAJAL_WORDS_H

#include <cajal/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cj_words cj_words;
typedef struct cj_words_opts {
    int64_t least;  /* occurrences that a word needs to have a number; 2 */
    int64_t most;   /* words at most, 0: any number */
} cj_words_opts;
/* The vocabulary of n sentences; equally frequent words in the order of their bytes. NULL after an error. */
CJ_API cj_words *cj_words_new(cj_ctx *c, const char *const *sentences, int64_t n, const cj_words_opts *opts);
CJ_API int64_t cj_words_count(const cj_words *w);                 /* the four that are none included */
CJ_API const char *cj_words_at(const cj_words *w, int64_t i);     /* "" for the four and beyond the last */
/* Sentences as i64 [n, columns]: (CJ_WORD_BEGIN,) words, CJ_WORD_END, CJ_WORD_PAD; cut after `longest` columns, the last of which is then CJ_WORD_END. 0: as
 * many as the longest needs. */
CJ_API cj_tensor *cj_words_encode(const cj_words *w, const char *const *sentences, int64_t n, bool begin, int64_t longest);
/* The sentence of these numbers up to CJ_WORD_END: blanks where writing has them, the first letter a capital, unknown words left out. Writes at most room bytes with
 * the zero at the end; returns the length needed. */
CJ_API size_t cj_words_text(const cj_words *w, const int64_t *numbers, int64_t n, char *out, size_t room);
CJ_API void cj_words_free(cj_words *w);                           /* or cj_ctx_free does; NULL is fine */
/* A vocabulary in a file (cj_tokeniser_save), and back: the sentences are needed no more. */
CJ_API bool cj_words_save(const cj_words *w, const char *path);
CJ_API cj_words *cj_words_load(cj_ctx *c, const char *path);      /* NULL after an error */

#ifdef __cplusplus
}
#endif
#endif
