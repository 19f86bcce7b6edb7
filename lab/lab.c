/* The recorder of the labs. */
#include "lab/lab.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void record(cj_lab_record *r, cj_lab_claim claim)
{
    *(claim.pass ? &r->passed : &r->failed) += 1;
    if (r->claim) r->claim(r->user, &claim);
}

void cj_lab_expect(cj_lab_record *r, const char *what, double expected, double found, double tolerance)
{
    bool pass = fabs(found - expected) <= tolerance; /* false for NaN */
    record(r, (cj_lab_claim){ .what = what, .expected = expected, .found = found, .tolerance = tolerance, .pass = pass });
}

void cj_lab_expect_at_least(cj_lab_record *r, const char *what, double bound, double found)
{
    record(r, (cj_lab_claim){ .what = what, .expected = bound, .found = found, .at_least = true, .pass = found >= bound });
}

void cj_lab_say(cj_lab_record *r, const char *format, ...)
{
    if (!r->say) return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    r->say(r->user, line);
}

bool cj_lab_wants_pictures(const cj_lab_record *r) { return r->folder != NULL; }

void cj_lab_picture(cj_lab_record *r, cj_ctx *c, cj_plot *p, const char *name)
{
    int n = snprintf(r->path, sizeof r->path, "%s/%s.png", r->folder ? r->folder : ".", name);
    if (n < 0 || n >= (int)sizeof r->path) cj_fail(c, CJ_EFILE, "the path of the picture %s is too long", name);
    bool saved = cj_plot_save(p, r->path);
    cj_plot_free(p);
    if (saved) return;
    r->path[0] = 0;
#ifndef CJ_HAVE_CAIRO
    cj_lab_say(r, "no picture: this build has no cairo (Debian: libcairo2-dev); %s.tsv has its numbers", name);
    if (cj_error(c) != CJ_ECANCELLED) cj_clear(c);
#endif
}
