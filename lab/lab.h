/* lab/lab.h: how an experiment describes itself.
 *
 * A lab states a claim, computes the numbers, and says for each what it expects and what it found.  It is run twice: as written, where every expectation must hold,
 * and as its negative control, a deliberately wrong variant for which at least one of the same expectations must fail; a check that cannot fail checks nothing.
 */
#ifndef CJ_LAB_LAB_H
#define CJ_LAB_LAB_H

#include <cajal/cajal.h>

typedef struct cj_lab_claim {
    const char *what;
    double expected, found, tolerance; /* passes when |found - expected| <= tolerance */
    bool at_least;                     /* or when found >= expected */
    bool pass;
} cj_lab_claim;

/* Where a run reports to. */
typedef struct cj_lab_record {
    void (*claim)(void *user, const cj_lab_claim *claim); /* may be NULL */
    void (*say)(void *user, const char *line);            /* a line for the reader; may be NULL */
    void *user;
    const char *folder; /* pictures go here; NULL: none are wanted */
    int passed, failed;
    char path[4096];
} cj_lab_record;

typedef struct cj_lab {
    const char *name;    /* as on the command line: "heavy-ball-cycle" */
    const char *claim;   /* one sentence */
    const char *source;  /* who found it */
    const char *control; /* what the negative control does wrong */
    void (*run)(cj_ctx *c, cj_lab_record *r, bool control);
} cj_lab;

void cj_lab_expect(cj_lab_record *r, const char *what, double expected, double found, double tolerance);
void cj_lab_expect_at_least(cj_lab_record *r, const char *what, double bound, double found);
void cj_lab_say(cj_lab_record *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool cj_lab_wants_pictures(const cj_lab_record *r);
/* Saves a plot as NAME.png (and NAME.tsv, its numbers) and frees it. Without cairo only the numbers. */
void cj_lab_picture(cj_lab_record *r, cj_ctx *c, cj_plot *p, const char *name);

/* All labs, in the order of their names; ends with NULL. Generated from the folder. */
extern const cj_lab *const cj_labs[];

#endif
