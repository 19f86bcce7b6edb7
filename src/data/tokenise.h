/* What the kinds of tokenisers share: numbered texts, merges, the pieces of GPT-2's regular expression. */
#ifndef CJ_DATA_TOKENISE_H
#define CJ_DATA_TOKENISE_H

#include "data/bytes.h"

typedef enum cj_tokeniser_kind { CJ_TOKENS_BYTES, CJ_TOKENS_CHARACTERS, CJ_TOKENS_WORDS, CJ_TOKENS_BPE } cj_tokeniser_kind;

typedef struct cj_token {
    const char *text;
    uint32_t n;
    uint32_t hash;
} cj_token;

typedef struct cj_merge {
    int32_t left, right, made; /* -1: a free place */
    int32_t rank;
} cj_merge;

struct cj_tokeniser {
    cj_ctx *ctx;
    cj_tokeniser_kind kind;
    cj_token *token; /* count of them, room for more */
    int64_t count, room, specials, unknown;
    int32_t *place; /* hash table of places + 1 … of tokens; a power of two */
    int64_t places;
    cj_merge *merge; /* hash table by (left, right); a power of two */
    int64_t merges, merge_places;
    int32_t byte[256]; /* BPE of bytes: the token of each */
    bool lower, joined;
    const char *word_end; /* BPE of characters */
};

/* An empty one with the specials in it. */
cj_tokeniser *cj__tokeniser_new(cj_ctx *c, const char *op, cj_tokeniser_kind kind, const cj_tokeniser_opts *o);
int64_t cj__token_find(const cj_tokeniser *t, const char *text, size_t n); /* -1: none; specials are found too */
int64_t cj__token_add(cj_tokeniser *t, const char *text, size_t n); /* its number, also where it is there already; -1 after an error */
bool cj__merge_add(cj_tokeniser *t, int32_t left, int32_t right, int32_t made); /* ranks ascend */
const cj_merge *cj__merge_find(const cj_tokeniser *t, int32_t left, int32_t right);

enum { CJ_UNICODE_OTHER, CJ_UNICODE_LETTER, CJ_UNICODE_NUMBER, CJ_UNICODE_SPACE };
/* The code point at `at`, its bytes and its kind; a byte that is no UTF-8 is OTHER. */
uint32_t cj__code_point(const char *text, size_t n, size_t at, size_t *bytes, int *kind);
/* Where the piece that begins at `at` ends:  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+  */
size_t cj__gpt2_piece(const char *text, size_t n, size_t at);
/* The next word from *at on: a run of letters and digits, or one other symbol; joined: ASCII letters and digits, all bytes beyond ASCII, and ' and - between
 * them.  False at the end. */
bool cj__word_next(bool joined, const char *text, size_t n, size_t *at, size_t *start, size_t *end);

/* A growing list of tokens. */
typedef struct cj_token_list {
    int64_t *out, room, n;
} cj_token_list;
static inline void cj__token_put(cj_token_list *l, int64_t token)
{
    if (l->n < l->room) l->out[l->n] = token;
    l->n++;
}
bool cj__bpe_encode(const cj_tokeniser *t, const char *text, size_t n, cj_token_list *l); /* bpe.c */

#endif
