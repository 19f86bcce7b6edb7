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

const char *cj_lab_file(cj_lab_record *r, const char *name)
{
    if (!r->folder) return NULL;
    int n = snprintf(r->path, sizeof r->path, "%s/%s", r->folder, name);
    return n > 0 && n < (int)sizeof r->path ? r->path : NULL;
}
