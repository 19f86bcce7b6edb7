/* Plans of Fourier transforms: the factors of a length and the tables of its roots of unity (kernels/cpu/fft.h says how they are used).
 *
 * A plan is laid out twice by the same code: once to count bytes, once to fill them.  Roots are computed in f64 from the nearest eighth of a turn and rounded
 * to the plan's type.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/fft.h"

/* Memory that is handed out, or only counted while base is NULL. */
typedef struct room {
    char *base;
    size_t used;
    cj_dtype dtype;
} room;

static void *take(room *r, size_t bytes)
{
    void *p = r->base ? r->base + r->used : NULL;
    r->used += (bytes + 63) & ~(size_t)63;
    return p;
}
static size_t size_of(const room *r, int64_t reals) { return (size_t)reals * (r->dtype == CJ_F64 ? 8 : 4); }
static void put(const room *r, void *table, int64_t i, double value)
{
    if (r->dtype == CJ_F64) ((double *)table)[i] = value;
    else ((float *)table)[i] = (float)value;
}

/* exp(-2 pi i k / n): the angle is brought into the first eighth of a turn as an integer, where sine and cosine are most accurate. */
static void root_of_unity(int64_t k, int64_t n, double *re, double *im)
{
    k %= n;
    const int64_t nearest = (8 * k / n + 1) / 2, off = 4 * k - n * nearest; /* quarter of a turn, 0 … 4 */
    const unsigned quarter = (unsigned)nearest & 3;
    double rest = (double)off / (double)n * 1.57079632679489661923; /* in ±pi/4 */
    double c = cos(rest), s = sin(rest);
    const double x[4] = { c, -s, -c, s }, y[4] = { s, c, -s, -c };
    *re = x[quarter];
    *im = -y[quarter];
}
static void put_root(const room *r, void *table, int64_t i, int64_t k, int64_t n)
{
    double re, im;
    root_of_unity(k, n, &re, &im);
    put(r, table, 2 * i, re);
    put(r, table, 2 * i + 1, im);
}

/* The next radix: as many eights as leave no two over, since every pass costs a walk through memory. */
static int64_t next_radix(int64_t n)
{
    if (n % 32 == 0 || (n % 8 == 0 && n % 16 != 0)) return 8;
    if (n % 4 == 0) return 4;
    for (int64_t p = 2; p <= CJ_FFT_PRIME; p++)
        if (n % p == 0) return p;
    return n;
}
bool cj__fft_smooth(int64_t n)
{
    while (n > 1) {
        int64_t p = next_radix(n);
        if (p > CJ_FFT_PRIME) return false;
        n /= p;
    }
    return true;
}

static void make_lanes(room *r, cj_fft_lanes *f, int64_t n)
{
    *f = (cj_fft_lanes){ .n = n };
    for (int64_t left = n; left > 1; f->stages++) {
        const int64_t p = next_radix(left), m = left / p;
        f->radix[f->stages] = (int)p;
        void *twiddle = take(r, size_of(r, 2 * m * (p - 1))), *root = p > 5 && p % 2 ? take(r, size_of(r, 2 * p)) : NULL;
        f->twiddle[f->stages] = twiddle;
        f->root[f->stages] = root;
        for (int64_t k = 0; k < m * (p - 1) && r->base; k++) put_root(r, twiddle, k, k / (p - 1) * (k % (p - 1) + 1), left);
        for (int64_t t = 0; t < p && root; t++) put_root(r, root, t, t, p);
        left = m;
    }
}

/* n1 of n = n1·n2: the divisor that wastes the fewest lanes of 16, and of those the one nearest to the square root. */
static int64_t split(int64_t n)
{
    int64_t best = 1;
    double least = INFINITY;
    for (int64_t d = 8; d * d <= 64 * n && d <= n / 8; d++) {
        if (n % d) continue;
        const int64_t e = n / d;
        const int64_t wide = (d + 15) / 16 * 16, tall = (e + 15) / 16 * 16;
        const double full = (double)wide / (double)d + (double)tall / (double)e;
        const double cost = full + 0.1 * fabs(log2((double)d / (double)e));
        if (cost < least) least = cost, best = d;
    }
    return best;
}

/* The smallest number of the form 2^a 3^b 5^c that is at least n. */
static int64_t smooth_from(int64_t n)
{
    int64_t best = INT64_MAX;
    for (int64_t five = 1; five < 2 * n; five *= 5)
        for (int64_t three = five; three < 2 * n; three *= 3) {
            int64_t m = three;
            while (m < n) m *= 2;
            if (m < best) best = m;
        }
    return best;
}

static cj_fft_plan *make(room *r, int64_t n);

/* y = the transform of x in f64, n = 2^a 3^b 5^c, by recursion: for Bluestein's spectrum, which is computed once and to the last bit. */
static void transform(int64_t n, int64_t step, const double *x, double *y)
{
    if (n == 1) {
        y[0] = x[0], y[1] = x[1];
        return;
    }
    int64_t p = n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5, m = n / p;
    double part[2 * 5];
    for (int64_t t = 0; t < p; t++) transform(m, step * p, x + 2 * t * step, y + 2 * t * m);
    for (int64_t k = 0; k < m; k++) {
        for (int64_t t = 0; t < p; t++) {
            double c, s;
            root_of_unity(t * k, n, &c, &s);
            const double *z = y + 2 * (t * m + k);
            part[2 * t] = z[0] * c - z[1] * s;
            part[2 * t + 1] = z[0] * s + z[1] * c;
        }
        for (int64_t u = 0; u < p; u++) {
            double re = 0, im = 0;
            for (int64_t t = 0; t < p; t++) {
                double c, s;
                root_of_unity(t * u, p, &c, &s);
                re += part[2 * t] * c - part[2 * t + 1] * s;
                im += part[2 * t] * s + part[2 * t + 1] * c;
            }
            y[2 * (u * m + k)] = re;
            y[2 * (u * m + k) + 1] = im;
        }
    }
}

static void make_bluestein(room *r, cj_fft_plan *p, int64_t n)
{
    const int64_t m = smooth_from(2 * n - 1);
    cj_fft_plan *smooth = make(r, m);
    void *chirp = take(r, size_of(r, 2 * n)), *spectrum = take(r, size_of(r, 2 * m));
    double *b = take(r, (size_t)m * 16), *y = take(r, (size_t)m * 16); /* only while the plan is made */
    if (!r->base) return;
    memset(b, 0, (size_t)m * 16);
    int64_t square = 0; /* j² mod 2n */
    for (int64_t j = 0; j < n; j++) {
        put_root(r, chirp, j, square, 2 * n);
        double re, im;
        root_of_unity(square, 2 * n, &re, &im);
        b[2 * j] = re, b[2 * j + 1] = -im;
        if (j) b[2 * (m - j)] = re, b[2 * (m - j) + 1] = -im;
        square = (square + 2 * j + 1) % (2 * n);
    }
    transform(m, 1, b, y);
    for (int64_t k = 0; k < 2 * m; k++) put(r, spectrum, k, y[k] / (double)m);
    p->smooth = smooth;
    p->chirp = chirp;
    p->spectrum = spectrum;
}

static cj_fft_plan *make(room *r, int64_t n)
{
    cj_fft_plan counted = { 0 }, *made = take(r, sizeof *made), *p = made ? made : &counted;
    *p = (cj_fft_plan){ .n = n, .dtype = r->dtype };
    if (!cj__fft_smooth(n)) {
        make_bluestein(r, p, n);
        return made;
    }
    const int64_t n1 = n >= CJ_FFT_FOUR_STEP_FROM ? split(n) : 1;
    if (n <= CJ_FFT_LANES_MOST || n1 == 1) make_lanes(r, &p->whole, n);
    if (n1 > 1) {
        const int64_t n2 = n / n1;
        make_lanes(r, &p->first, n1);
        make_lanes(r, &p->second, n2);
        void *re = take(r, size_of(r, n1 * n2 + 16)), *im = take(r, size_of(r, n1 * n2 + 16)); /* whole vectors are read past the end */
        p->middle_re = re;
        p->middle_im = im;
        for (int64_t k = 0; k < n1 && r->base; k++)
            for (int64_t i = 0; i < n2; i++) {
                double c, s;
                root_of_unity(k * i, n, &c, &s);
                put(r, re, k * n2 + i, c);
                put(r, im, k * n2 + i, s);
            }
        for (int64_t i = n1 * n2; i < n1 * n2 + 16 && r->base; i++) put(r, re, i, 0), put(r, im, i, 0);
    }
    return made;
}

size_t cj__fft_plan_bytes(int64_t n, cj_dtype dtype)
{
    room r = { NULL, 0, dtype };
    make(&r, n);
    return r.used;
}

cj_fft_plan *cj__fft_plan_make(void *memory, int64_t n, cj_dtype dtype)
{
    room r = { memory, 0, dtype };
    return make(&r, n);
}

void cj__fft_roots(void *table, int64_t n, cj_dtype dtype)
{
    const room r = { table, 0, dtype };
    for (int64_t k = 0; k < n / 2; k++) put_root(&r, table, k, k, n);
}
