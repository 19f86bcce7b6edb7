/* How alike two strings are: common substrings, common subsequences with gaps, edits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cajal/kernels.h"

int64_t cj_spectrum_kernel(const char *a, const char *b, int k)
{
    if (k < 1 || !a || !b) return -1;
    int64_t n = (int64_t)strlen(a), m = (int64_t)strlen(b), count = 0;
    for (int64_t i = 0; i + k <= n; i++)
        for (int64_t j = 0; j + k <= m; j++) count += !memcmp(a + i, b + j, (size_t)k);
    return count;
}

/* prime[l] of Lodhi et al.: K'_l(a to i, b to j), subsequences of length l that count up to the ends of both. */
double cj_subsequence_kernel(const char *a, const char *b, int k, double decay)
{
    if (k < 1 || !a || !b) return NAN;
    size_t n = strlen(a), m = strlen(b), plane = (n + 1) * (m + 1);
    double *before = calloc(2 * plane, sizeof *before), *now = before ? before + plane : NULL, sum = 0;
    if (!before) return NAN;
    for (size_t i = 0; i < plane; i++) before[i] = 1;
    for (int l = 1; l < k; l++) {
        memset(now, 0, plane * sizeof *now);
        for (size_t i = 1; i <= n; i++) {
            double run = 0; /* K''_l(a to i, b to j) = decay K''(a, b to j-1) + [a_i = b_j] decay² K'_(l-1)(a to i-1, b to j-1) */
            for (size_t j = 1; j <= m; j++) {
                run = decay * run + (a[i - 1] == b[j - 1] ? decay * decay * before[(i - 1) * (m + 1) + j - 1] : 0);
                now[i * (m + 1) + j] = decay * now[(i - 1) * (m + 1) + j] + run;
            }
        }
        memcpy(before, now, plane * sizeof *now);
    }
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++)
            if (a[i - 1] == b[j - 1]) sum += decay * decay * before[(i - 1) * (m + 1) + j - 1];
    free(before);
    return sum;
}

int64_t cj_edit_distance(const char *a, const char *b)
{
    if (!a || !b) return -1;
    size_t n = strlen(a), m = strlen(b);
    int64_t *row = malloc((m + 1) * sizeof *row), result; /* distances of a's first i bytes to all beginnings of b */
    if (!row) return -1;
    for (size_t j = 0; j <= m; j++) row[j] = (int64_t)j;
    for (size_t i = 1; i <= n; i++) {
        int64_t corner = row[0];
        row[0] = (int64_t)i;
        for (size_t j = 1; j <= m; j++) {
            int64_t best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            corner = row[j], row[j] = best;
        }
    }
    result = row[m];
    free(row);
    return result;
}
