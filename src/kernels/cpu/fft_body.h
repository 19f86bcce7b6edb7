/* The Fourier kernels for one type: included by fft.c with REAL, VECTOR_BYTES, NAME(x) and FMA(a, b, c) = a·b + c.
 *
 * vr is a vector of LANES reals, vc a vector of LANES complex numbers with real and imaginary parts apart: arithmetic on it needs no shuffles.
 */
#define LANES ((int)(VECTOR_BYTES / sizeof(REAL)))

typedef REAL NAME(vr) __attribute__((vector_size(VECTOR_BYTES)));
typedef NAME(index_int) NAME(vindex) __attribute__((vector_size(VECTOR_BYTES)));
typedef struct NAME(vc) {
    NAME(vr) re, im;
} NAME(vc);
#define vr NAME(vr)
#define vc NAME(vc)
#define vindex NAME(vindex)

/* ---- vectors ----------------------------------------------------------------------------------------------------------------------------- */

CJ_INLINE vr NAME(load)(const REAL *p)
{
    vr x;
    memcpy(&x, p, sizeof x);
    return x;
}
CJ_INLINE void NAME(store)(REAL *p, vr x) { memcpy(p, &x, sizeof x); }
CJ_INLINE vr NAME(set)(REAL x) { return x - (vr){ 0 }; }

/* Lanes begin, begin + step, … of a followed by b. */
CJ_INLINE vr NAME(pick)(vr a, vr b, int begin, int step)
{
    vindex at;
    for (int i = 0; i < LANES; i++) at[i] = begin + i * step;
    return __builtin_shuffle(a, b, at);
}
/* a0 b0 a1 b1 …, from lane `begin` of both on. */
CJ_INLINE vr NAME(zip)(vr a, vr b, int begin)
{
    vindex at;
    for (int i = 0; i < LANES; i++) at[i] = begin + i / 2 + (i % 2 ? LANES : 0);
    return __builtin_shuffle(a, b, at);
}
/* A square of LANES vectors: rows become columns. Every round interleaves the first half with the second. */
CJ_INLINE void NAME(transpose)(vr *x)
{
    vr y[LANES];
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = NAME(zip)(x[i], x[i + LANES / 2], 0);
            y[2 * i + 1] = NAME(zip)(x[i], x[i + LANES / 2], LANES / 2);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
}

/* A square whose rows lie `stride` reals apart, transposed. */
CJ_INLINE void NAME(load_transposed)(const REAL *p, int64_t stride, vr *x)
{
#if defined LOAD_TRANSPOSED
    LOAD_TRANSPOSED(p, stride, x);
#else
    for (int i = 0; i < LANES; i++) x[i] = NAME(load)(p + i * stride);
    NAME(transpose)(x);
#endif
}

/* LANES pairs of memory as one complex vector, and back; n < LANES: as many. */
CJ_INLINE vc NAME(load_pairs)(const REAL *p, bool swap)
{
    vr a = NAME(load)(p), b = NAME(load)(p + LANES), re = NAME(pick)(a, b, 0, 2), im = NAME(pick)(a, b, 1, 2);
    return swap ? (vc){ im, re } : (vc){ re, im };
}
CJ_INLINE vc NAME(load_pairs_n)(const REAL *p, int n, bool swap)
{
    REAL x[2 * LANES] = { 0 };
    memcpy(x, p, sizeof(REAL) * 2 * (size_t)n);
    return NAME(load_pairs)(x, swap);
}
CJ_INLINE void NAME(store_pairs)(REAL *p, vc x, bool swap)
{
    vr re = swap ? x.im : x.re, im = swap ? x.re : x.im;
    NAME(store)(p, NAME(zip)(re, im, 0));
    NAME(store)(p + LANES, NAME(zip)(re, im, LANES / 2));
}
CJ_INLINE void NAME(store_pairs_n)(REAL *p, int n, vc x, bool swap)
{
    REAL y[2 * LANES];
    NAME(store_pairs)(y, x, swap);
    memcpy(p, y, sizeof(REAL) * 2 * (size_t)n);
}

CJ_INLINE vc NAME(add)(vc a, vc b) { return (vc){ a.re + b.re, a.im + b.im }; }
CJ_INLINE vc NAME(sub)(vc a, vc b) { return (vc){ a.re - b.re, a.im - b.im }; }
CJ_INLINE vc NAME(times)(vc a, vr re, vr im) { return (vc){ FMA(a.re, re, -(a.im * im)), FMA(a.re, im, a.im * re) }; }
CJ_INLINE vc NAME(turn)(vc a, const REAL *w) { return NAME(times)(a, NAME(set)(w[0]), NAME(set)(w[1])); }
CJ_INLINE vc NAME(scaled)(vc a, REAL s) { return (vc){ a.re * s, a.im * s }; }
CJ_INLINE vc NAME(by_minus_i)(vc a) { return (vc){ a.im, -a.re }; }

/* ---- Stockham's passes: y[q + s·(radix·p + u)] = w^(p·u) · sum_t x[q + s·(p + m·t)]·exp(-2 pi i t u / radix), q < s, p < m --------------------------- */

/* The butterfly: b_u = sum_t a_t exp(-2 pi i t u / radix), in place. */
CJ_INLINE void NAME(butterfly2)(vc *a)
{
    vc b = NAME(sub)(a[0], a[1]);
    a[0] = NAME(add)(a[0], a[1]);
    a[1] = b;
}
CJ_INLINE void NAME(butterfly3)(vc *a)
{
    const REAL half = (REAL)0.5, sine = (REAL)0.86602540378443864676;
    vc s = NAME(add)(a[1], a[2]), d = NAME(by_minus_i)(NAME(scaled)(NAME(sub)(a[1], a[2]), sine)),
       m = NAME(sub)(a[0], NAME(scaled)(s, half));
    a[0] = NAME(add)(a[0], s);
    a[1] = NAME(add)(m, d);
    a[2] = NAME(sub)(m, d);
}
CJ_INLINE void NAME(butterfly4)(vc *a)
{
    vc s = NAME(add)(a[0], a[2]), d = NAME(sub)(a[0], a[2]), t = NAME(add)(a[1], a[3]), e = NAME(by_minus_i)(NAME(sub)(a[1], a[3]));
    a[0] = NAME(add)(s, t);
    a[1] = NAME(add)(d, e);
    a[2] = NAME(sub)(s, t);
    a[3] = NAME(sub)(d, e);
}
CJ_INLINE void NAME(butterfly5)(vc *a)
{
    const REAL c1 = (REAL)0.30901699437494742410, c2 = (REAL)-0.80901699437494742410, s1 = (REAL)0.95105651629515357212,
               s2 = (REAL)0.58778525229247312917;
    vc p = NAME(add)(a[1], a[4]), q = NAME(add)(a[2], a[3]), d = NAME(sub)(a[1], a[4]), e = NAME(sub)(a[2], a[3]);
    vc m1 = NAME(add)(a[0], NAME(add)(NAME(scaled)(p, c1), NAME(scaled)(q, c2)));
    vc m2 = NAME(add)(a[0], NAME(add)(NAME(scaled)(p, c2), NAME(scaled)(q, c1)));
    vc n1 = NAME(by_minus_i)(NAME(add)(NAME(scaled)(d, s1), NAME(scaled)(e, s2)));
    vc n2 = NAME(by_minus_i)(NAME(sub)(NAME(scaled)(d, s2), NAME(scaled)(e, s1)));
    a[0] = NAME(add)(a[0], NAME(add)(p, q));
    a[1] = NAME(add)(m1, n1);
    a[2] = NAME(add)(m2, n2);
    a[3] = NAME(sub)(m2, n2);
    a[4] = NAME(sub)(m1, n1);
}

/* Two of radix 4, of the even and the odd places; then (1 - i)/sqrt 2 and its powers. */
CJ_INLINE void NAME(butterfly8)(vc *a)
{
    const REAL root = (REAL)0.70710678118654752440;
    vc e[4] = { a[0], a[2], a[4], a[6] }, o[4] = { a[1], a[3], a[5], a[7] };
    NAME(butterfly4)(e);
    NAME(butterfly4)(o);
    o[1] = NAME(scaled)((vc){ o[1].re + o[1].im, o[1].im - o[1].re }, root);
    o[2] = NAME(by_minus_i)(o[2]);
    o[3] = NAME(scaled)((vc){ o[3].im - o[3].re, -(o[3].re + o[3].im) }, root);
    for (int k = 0; k < 4; k++) {
        a[k] = NAME(add)(e[k], o[k]);
        a[k + 4] = NAME(sub)(e[k], o[k]);
    }
}

#define PASS(radix)                                                                                                                        \
    static void NAME(pass##radix)(const vc *x, vc *y, int64_t m, int64_t s, const REAL *w)                                                 \
    {                                                                                                                                      \
        for (int64_t p = 0; p < m; p++, w += 2 * (radix - 1))                                                                              \
            for (int64_t q = 0; q < s; q++) {                                                                                              \
                vc a[radix];                                                                                                               \
                for (int t = 0; t < radix; t++) a[t] = x[q + s * (p + m * t)];                                                             \
                NAME(butterfly##radix)(a);                                                                                                 \
                y[q + s * radix * p] = a[0];                                                                                               \
                for (int u = 1; u < radix; u++) y[q + s * (radix * p + u)] = m == 1 ? a[u] : NAME(turn)(a[u], w + 2 * (u - 1));            \
            }                                                                                                                              \
    }
PASS(2)
PASS(3)
PASS(4)
PASS(5)
PASS(8)
#undef PASS

/* Any odd radix: a_t and a_{r-t} together, so that every product is with a real number. */
static void NAME(pass_odd)(const vc *x, vc *y, int radix, int64_t m, int64_t s, const REAL *w, const REAL *root)
{
    const int h = radix / 2;
    for (int64_t p = 0; p < m; p++, w += 2 * (radix - 1))
        for (int64_t q = 0; q < s; q++) {
            vc sum[CJ_FFT_PRIME / 2 + 1], difference[CJ_FFT_PRIME / 2 + 1];
            const vc first = x[q + s * p];
            vc total = first;
            for (int t = 1; t <= h; t++) {
                const vc a = x[q + s * (p + m * t)], b = x[q + s * (p + m * (radix - t))];
                sum[t] = NAME(add)(a, b);
                difference[t] = NAME(sub)(a, b);
                total = NAME(add)(total, sum[t]);
            }
            y[q + s * radix * p] = total;
            for (int u = 1; u <= h; u++) {
                vc even = first, odd = { { 0 }, { 0 } };
                for (int t = 1; t <= h; t++) {
                    const REAL *z = root + 2 * (t * u % radix); /* cos, -sin */
                    even = NAME(add)(even, NAME(scaled)(sum[t], z[0]));
                    odd = NAME(add)(odd, NAME(scaled)(difference[t], -z[1]));
                }
                odd = NAME(by_minus_i)(odd);
                y[q + s * (radix * p + u)] = NAME(turn)(NAME(add)(even, odd), w + 2 * (u - 1));
                y[q + s * (radix * p + radix - u)] = NAME(turn)(NAME(sub)(even, odd), w + 2 * (radix - u - 1));
            }
        }
}

/* Transforms the n vectors in a; b is as large. Returns where the result is. */
static vc *NAME(transform)(const cj_fft_lanes *f, vc *a, vc *b)
{
    int64_t s = 1, left = f->n;
    for (int i = 0; i < f->stages; i++) {
        const int64_t m = left / f->radix[i];
        const REAL *w = f->twiddle[i];
        switch (f->radix[i]) {
        case 2: NAME(pass2)(a, b, m, s, w); break;
        case 3: NAME(pass3)(a, b, m, s, w); break;
        case 4: NAME(pass4)(a, b, m, s, w); break;
        case 5: NAME(pass5)(a, b, m, s, w); break;
        case 8: NAME(pass8)(a, b, m, s, w); break;
        default: NAME(pass_odd)(a, b, f->radix[i], m, s, w, f->root[i]); break;
        }
        s *= f->radix[i];
        left = m;
        vc *t = a;
        a = b, b = t;
    }
    return a;
}

/* ---- work space -------------------------------------------------------------------------------------------------------------------------- */

/* Of one worker: two buffers of vectors; for four steps, the transposed middle [n2][n1 rounded up], real parts then imaginary ones; for Bluestein two sequences. */
typedef struct NAME(room) {
    vc *a, *b;
    REAL *middle;
    REAL *chirped, *product;
    void *inner; /* of the smooth transform */
} NAME(room);

static int64_t NAME(round_up)(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

static size_t NAME(room_bytes)(const cj_fft_plan *p)
{
    if (p->smooth) return (size_t)p->smooth->n * 4 * sizeof(REAL) + 128 + NAME(room_bytes)(p->smooth);
    int64_t n = p->whole.n > p->first.n ? p->whole.n : p->first.n;
    if (p->second.n > n) n = p->second.n;
    size_t bytes = 2 * (size_t)NAME(round_up)(n) * sizeof(vc);
    if (p->first.n) bytes += 2 * (size_t)(NAME(round_up)(p->second.n) * NAME(round_up)(p->first.n)) * sizeof(REAL);
    return (bytes + 63) & ~(size_t)63;
}

static NAME(room) NAME(room_of)(const cj_fft_plan *p, void *memory)
{
    NAME(room) r = { 0 };
    char *at = memory;
    if (p->smooth) {
        const size_t bytes = ((size_t)p->smooth->n * 2 * sizeof(REAL) + 63) & ~(size_t)63;
        r.chirped = (REAL *)(void *)at;
        r.product = (REAL *)(void *)(at + bytes);
        r.inner = at + 2 * bytes;
        return r;
    }
    int64_t n = p->whole.n > p->first.n ? p->whole.n : p->first.n;
    if (p->second.n > n) n = p->second.n;
    r.a = (vc *)(void *)at;
    r.b = r.a + NAME(round_up)(n);
    r.middle = (REAL *)(void *)(r.b + NAME(round_up)(n));
    return r;
}

/* ---- transforms in lanes ---------------------------------------------------------------------------------------------------------------- */

/* `lanes` neighbouring columns of x [n, inner]. */
static void NAME(columns)(const cj_fft_job *f, int64_t at, int lanes, const NAME(room) * r)
{
    const int64_t n = f->plan->n;
    const REAL *x = (const REAL *)f->x + 2 * at;
    REAL *y = (REAL *)f->y + 2 * at;
    for (int64_t j = 0; j < n; j++)
        r->a[j] = lanes == LANES ? NAME(load_pairs)(x + 2 * j * f->inner, f->inverse)
                                 : NAME(load_pairs_n)(x + 2 * j * f->inner, lanes, f->inverse);
    const vc *z = NAME(transform)(&f->plan->whole, r->a, r->b);
    for (int64_t j = 0; j < n; j++) {
        const vc v = NAME(scaled)(z[j], (REAL)f->scale);
        if (lanes == LANES) NAME(store_pairs)(y + 2 * j * f->inner, v, f->inverse);
        else NAME(store_pairs_n)(y + 2 * j * f->inner, lanes, v, f->inverse);
    }
}

/* `lanes` transforms of n pairs each, one after the other in memory: squares of LANES reals are transposed, which leaves real and imaginary parts apart. */
static void NAME(rows)(const cj_fft_job *f, int64_t at, int lanes, const NAME(room) * r)
{
    const int64_t n = f->plan->n, half = LANES / 2; /* pairs in a square */
    const REAL *x = (const REAL *)f->x + 2 * at * n;
    REAL *y = (REAL *)f->y + 2 * at * n;
    for (int64_t j = 0; j < n; j += half) {
        const int64_t pairs = n - j < half ? n - j : half;
        vr square[LANES];
        if (pairs == half && lanes == LANES) {
            NAME(load_transposed)(x + 2 * j, 2 * n, square);
        } else {
            for (int i = 0; i < LANES; i++) {
                square[i] = (vr){ 0 };
                if (i < lanes) memcpy(&square[i], x + 2 * (i * n + j), sizeof(REAL) * 2 * (size_t)pairs);
            }
            NAME(transpose)(square);
        }
        for (int64_t k = 0; k < half; k++) /* the buffer has room for whole squares */
            r->a[j + k] = f->inverse ? (vc){ square[2 * k + 1], square[2 * k] } : (vc){ square[2 * k], square[2 * k + 1] };
    }
    const vc *z = NAME(transform)(&f->plan->whole, r->a, r->b);
    for (int64_t j = 0; j < n; j += half) {
        const int64_t pairs = n - j < half ? n - j : half;
        vr square[LANES];
        for (int64_t k = 0; k < half; k++) {
            const vc v = NAME(scaled)(z[j + k], (REAL)f->scale);
            square[2 * k] = f->inverse ? v.im : v.re;
            square[2 * k + 1] = f->inverse ? v.re : v.im;
        }
        NAME(transpose)(square);
        if (pairs == half && lanes == LANES) {
            for (int i = 0; i < LANES; i++) NAME(store)(y + 2 * (i * n + j), square[i]);
        } else {
            for (int i = 0; i < lanes; i++) memcpy(y + 2 * (i * n + j), &square[i], sizeof(REAL) * 2 * (size_t)pairs);
        }
    }
}

/* ---- four steps --------------------------------------------------------------------------------------------------------------------------- */

/* Columns at … of x [n1, n2]: n1-point transforms, twiddles, and the transposed result into the middle. */
static void NAME(first_step)(const cj_fft_plan *p, const REAL *x, bool swap, int64_t at, const NAME(room) * r, REAL *middle)
{
    const int64_t n1 = p->first.n, n2 = p->second.n, wide = NAME(round_up)(n1), tall = NAME(round_up)(n2);
    const int lanes = n2 - at < LANES ? (int)(n2 - at) : LANES;
    for (int64_t j = 0; j < n1; j++) {
        const REAL *row = x + 2 * (j * n2 + at);
        r->a[j] = lanes == LANES ? NAME(load_pairs)(row, swap) : NAME(load_pairs_n)(row, lanes, swap);
    }
    const vc *z = NAME(transform)(&p->first, r->a, r->b);
    const REAL *re = (const REAL *)p->middle_re + at, *im = (const REAL *)p->middle_im + at;
    for (int64_t k = 0; k < n1; k += LANES) {
        vr square[2][LANES];
        for (int64_t i = 0; i < LANES; i++) {
            const int64_t row = k + i < n1 ? k + i : n1 - 1; /* rows past the end are never read again */
            const vc v = NAME(times)(z[row], NAME(load)(re + row * n2), NAME(load)(im + row * n2));
            square[0][i] = v.re, square[1][i] = v.im;
        }
        NAME(transpose)(square[0]);
        NAME(transpose)(square[1]);
        for (int64_t i = 0; i < LANES; i++) {
            NAME(store)(middle + (at + i) * wide + k, square[0][i]);
            NAME(store)(middle + (tall + at + i) * wide + k, square[1][i]);
        }
    }
}

/* n2-point transforms of the columns k1 = at … of the middle; y_{k1 + n1·k2}. */
static void NAME(second_step)(const cj_fft_plan *p, REAL *y, bool swap, REAL scale, int64_t at, const NAME(room) * r, const REAL *middle)
{
    const int64_t n1 = p->first.n, n2 = p->second.n, wide = NAME(round_up)(n1), tall = NAME(round_up)(n2);
    const int lanes = n1 - at < LANES ? (int)(n1 - at) : LANES;
    for (int64_t i = 0; i < n2; i++) r->a[i] = (vc){ NAME(load)(middle + i * wide + at), NAME(load)(middle + (tall + i) * wide + at) };
    const vc *z = NAME(transform)(&p->second, r->a, r->b);
    for (int64_t k = 0; k < n2; k++) {
        const vc v = NAME(scaled)(z[k], scale);
        if (lanes == LANES) NAME(store_pairs)(y + 2 * (k * n1 + at), v, swap);
        else NAME(store_pairs_n)(y + 2 * (k * n1 + at), lanes, v, swap);
    }
}

/* One transform of the last axis, on the calling thread. */
static void NAME(one)(const cj_fft_plan *p, const REAL *x, REAL *y, bool inverse, REAL scale, void *memory);

/* x_j chirp_j, transformed, times the spectrum, transformed back, times chirp_k. */
static void NAME(bluestein)(const cj_fft_plan *p, const REAL *x, REAL *y, bool inverse, REAL scale, const NAME(room) * r)
{
    const int64_t n = p->n, m = p->smooth->n;
    const REAL *c = p->chirp, *s = p->spectrum;
    REAL *a = r->chirped, *b = r->product;
    for (int64_t j = 0; j < n; j++) {
        const REAL re = x[2 * j + inverse], im = x[2 * j + !inverse];
        a[2 * j] = re * c[2 * j] - im * c[2 * j + 1];
        a[2 * j + 1] = re * c[2 * j + 1] + im * c[2 * j];
    }
    memset(a + 2 * n, 0, sizeof(REAL) * 2 * (size_t)(m - n));
    NAME(one)(p->smooth, a, b, false, 1, r->inner);
    for (int64_t k = 0; k < m; k++) {
        const REAL re = b[2 * k], im = b[2 * k + 1];
        b[2 * k] = re * s[2 * k] - im * s[2 * k + 1];
        b[2 * k + 1] = re * s[2 * k + 1] + im * s[2 * k];
    }
    NAME(one)(p->smooth, b, a, true, 1, r->inner);
    for (int64_t k = 0; k < n; k++) {
        y[2 * k + inverse] = scale * (a[2 * k] * c[2 * k] - a[2 * k + 1] * c[2 * k + 1]);
        y[2 * k + !inverse] = scale * (a[2 * k] * c[2 * k + 1] + a[2 * k + 1] * c[2 * k]);
    }
}

static void NAME(one)(const cj_fft_plan *p, const REAL *x, REAL *y, bool inverse, REAL scale, void *memory)
{
    const NAME(room) r = NAME(room_of)(p, memory);
    if (p->smooth) {
        NAME(bluestein)(p, x, y, inverse, scale, &r);
    } else if (p->first.n) {
        for (int64_t at = 0; at < p->second.n; at += LANES) NAME(first_step)(p, x, inverse, at, &r, r.middle);
        for (int64_t at = 0; at < p->first.n; at += LANES) NAME(second_step)(p, y, inverse, scale, at, &r, r.middle);
    } else {
        const cj_fft_job f = { .plan = p, .outer = 1, .inner = 1, .x = x, .y = y, .inverse = inverse, .scale = scale };
        NAME(rows)(&f, 0, 1, &r);
    }
}

/* ---- sharing out -------------------------------------------------------------------------------------------------------------------------- */

typedef struct NAME(job) {
    const cj_fft_job *f;
    char *work;
    size_t room;  /* bytes per worker */
    REAL *middle; /* of a transform that is shared */
} NAME(job);

static void NAME(column_range)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(job) *j = arg;
    const NAME(room) r = NAME(room_of)(j->f->plan, j->work + (size_t)worker * j->room);
    const int64_t groups = (j->f->inner + LANES - 1) / LANES;
    for (int64_t g = begin; g < end; g++) {
        const int64_t at = g % groups * LANES, lanes = j->f->inner - at < LANES ? j->f->inner - at : LANES;
        NAME(columns)(j->f, g / groups * j->f->plan->n * j->f->inner + at, (int)lanes, &r);
    }
}
static void NAME(row_range)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(job) *j = arg;
    const NAME(room) r = NAME(room_of)(j->f->plan, j->work + (size_t)worker * j->room);
    for (int64_t g = begin; g < end; g++) {
        const int64_t left = j->f->outer - g * LANES;
        NAME(rows)(j->f, g * LANES, left < LANES ? (int)left : LANES, &r);
    }
}
static void NAME(single_range)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(job) *j = arg;
    const int64_t n = j->f->plan->n;
    for (int64_t i = begin; i < end; i++) NAME(one)
    (j->f->plan, (const REAL *)j->f->x + 2 * i * n, (REAL *)j->f->y + 2 * i * n, j->f->inverse, (REAL)j->f->scale,
     j->work + (size_t)worker * j->room);
}
static void NAME(first_range)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(job) *j = arg;
    const NAME(room) r = NAME(room_of)(j->f->plan, j->work + (size_t)worker * j->room);
    for (int64_t g = begin; g < end; g++) NAME(first_step)(j->f->plan, j->f->x, j->f->inverse, g * LANES, &r, j->middle);
}
static void NAME(second_range)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(job) *j = arg;
    const NAME(room) r = NAME(room_of)(j->f->plan, j->work + (size_t)worker * j->room);
    for (int64_t g = begin; g < end; g++)
        NAME(second_step)(j->f->plan, j->f->y, j->f->inverse, (REAL)j->f->scale, g * LANES, &r, j->middle);
}

/* Items per task: about 2^14 elements. */
static int64_t NAME(grain)(int64_t elements) { return elements >= 1 << 14 ? 1 : (1 << 14) / elements + 1; }

static void NAME(run)(cj_pool *pool, const cj_fft_job *f, void *work)
{
    const cj_fft_plan *p = f->plan;
    NAME(job) j = { .f = f, .work = work, .room = NAME(room_bytes)(p) };
    if (f->inner > 1) {
        const int64_t groups = f->outer * ((f->inner + LANES - 1) / LANES);
        cj__parallel_for(pool, groups, NAME(grain)(p->n * LANES), NAME(column_range), &j);
    } else if (!p->first.n && p->whole.n) {
        cj__parallel_for(pool, (f->outer + LANES - 1) / LANES, NAME(grain)(p->n * LANES), NAME(row_range), &j);
    } else if (f->outer == 1 && p->first.n && p->n >= 1 << 14) {
        j.middle = NAME(room_of)(p, work).middle;
        cj__parallel_for(pool, (p->second.n + LANES - 1) / LANES, NAME(grain)(p->first.n * LANES), NAME(first_range), &j);
        cj__parallel_for(pool, (p->first.n + LANES - 1) / LANES, NAME(grain)(p->second.n * LANES), NAME(second_range), &j);
    } else {
        cj__parallel_for(pool, f->outer, NAME(grain)(p->n), NAME(single_range), &j);
    }
}

/* ---- real sequences ------------------------------------------------------------------------------------------------------------------------ */

typedef struct NAME(real_job) {
    int64_t h;
    const REAL *root, *from;
    REAL *to;
    REAL scale;
} NAME(real_job);

static void NAME(split_range)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(real_job) *j = arg;
    const int64_t h = j->h;
    const REAL half = j->scale / 2;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const REAL *z = j->from + 2 * i * h;
        REAL *x = j->to + 2 * i * (h + 1);
        x[0] = j->scale * (z[0] + z[1]), x[1] = 0;
        x[2 * h] = j->scale * (z[0] - z[1]), x[2 * h + 1] = 0;
        for (int64_t k = 1; k < h; k++) {
            const REAL *a = z + 2 * k, *b = z + 2 * (h - k), *w = j->root + 2 * k;
            const REAL even_re = a[0] + b[0], even_im = a[1] - b[1], odd_re = a[1] + b[1], odd_im = b[0] - a[0]; /* (a - conj b) / i */
            x[2 * k] = half * (even_re + (w[0] * odd_re - w[1] * odd_im));
            x[2 * k + 1] = half * (even_im + (w[0] * odd_im + w[1] * odd_re));
        }
    }
}

static void NAME(join_range)(void *arg, int64_t begin, int64_t end, int worker)
{
    const NAME(real_job) *j = arg;
    const int64_t h = j->h;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const REAL *x = j->from + 2 * i * (h + 1);
        REAL *z = j->to + 2 * i * h;
        z[0] = j->scale * (x[0] + x[2 * h]), z[1] = j->scale * (x[0] - x[2 * h]);
        for (int64_t k = 1; k < h; k++) {
            const REAL *a = x + 2 * k, *b = x + 2 * (h - k), *w = j->root + 2 * k;
            const REAL even_re = a[0] + b[0], even_im = a[1] - b[1], diff_re = a[0] - b[0], diff_im = a[1] + b[1];
            const REAL odd_re = w[0] * diff_re + w[1] * diff_im, odd_im = w[0] * diff_im - w[1] * diff_re; /* times conj w^k */
            z[2 * k] = j->scale * (even_re - odd_im);
            z[2 * k + 1] = j->scale * (even_im + odd_re);
        }
    }
}

#undef vr
#undef vc
#undef vindex
#undef LANES
#undef NAME
#undef REAL
#undef FMA
#undef LOAD_TRANSPOSED
