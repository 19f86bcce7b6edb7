/* Axes: ranges and ticks.  Linear ticks stand at 1, 2 or 5 times a power of ten; logarithmic ones at the powers of ten, with a fine grid between, or at 1, 2, 5
 * where there are fewer than two decades.
 */
#include <math.h>
#include <stdio.h>

#include "plot/plot.h"

#define TINY_VALUE 1e-140
#define HUGE_VALUE 1e140

void cj__number_text(double v, int decimals, char out[32])
{
    char plain[32];
    snprintf(plain, sizeof plain, "%.*f", decimals, fabs(v));
    size_t n = 0;
    if (v < 0 && strpbrk(plain, "123456789")) n = (size_t)snprintf(out, 32, "\xe2\x88\x92");
    bool point = false;
    for (const char *s = plain; *s && n < 31; s++) {
        bool digit = (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z');
        if (digit) out[n++] = *s;
        else if (!point) out[n++] = '.';
        point |= !digit;
    }
    out[n] = 0;
}

double cj__axis_place(const cj_axis *a, double v)
{
    if (a->log) return log(v / a->low) / log(a->high / a->low);
    return (v - a->low) / (a->high - a->low);
}

static cj_tick *add(cj_axis *a, double value)
{
    if (a->n == CJ_MAX_TICKS) return NULL;
    cj_tick *t = &a->tick[a->n++];
    *t = (cj_tick){ .value = value };
    return t;
}

static double nice_step(double raw)
{
    double power = pow(10, floor(log10(raw))), f = raw / power;
    return (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10) * power;
}

static void linear_ticks(cj_axis *a, bool whole, bool snap, int wanted)
{
    double step = nice_step((a->high - a->low) / wanted);
    if (whole && step < 1) step = 1;
    double most = fmax(fabs(a->low), fabs(a->high));
    int size = (int)floor(log10(most) + 1e-9);
    a->exponent = size >= 6 || size <= -4 ? size : 0;
    double unit = pow(10, a->exponent);
    int decimals = -(int)floor(log10(step / unit) + 1e-9);
    if (decimals < 0) decimals = 0;
    if (decimals > 12) decimals = 12;
    double k0 = ceil(a->low / step - 1e-6), k1 = floor(a->high / step + 1e-6), near = 0.03 * (a->high - a->low);
    if (snap && a->low - (k0 - 1) * step < near) a->low = --k0 * step; /* 0 … 499 is better shown as 0 … 500 */
    if (snap && (k1 + 1) * step - a->high < near) a->high = ++k1 * step;
    int count = (int)fmin(k1 - k0 + 1, CJ_MAX_TICKS);
    for (int i = 0; i < count; i++) {
        double v = (k0 + i) * step;
        cj_tick *t = add(a, v);
        if (t) cj__number_text(v / unit, decimals, t->text);
    }
}

static void log_ticks(cj_axis *a, int wanted)
{
    int e0 = (int)ceil(log10(a->low) - 1e-6), e1 = (int)floor(log10(a->high) + 1e-6);
    if (e1 - e0 < 1) { /* less than two decades: 1, 2, 5 */
        for (int e = e0 - 1; e <= e1; e++)
            for (int m = 1; m < 10; m++) {
                double v = m * pow(10, e);
                if (v < a->low * (1 - 1e-9) || v > a->high * (1 + 1e-9)) continue;
                cj_tick *t = add(a, v);
                if (t && (m == 1 || m == 2 || m == 5)) cj__number_text(v, e < 0 ? (e < -12 ? 12 : -e) : 0, t->text);
            }
        return;
    }
    int every = (e1 - e0) / wanted + 1;
    bool plain = e0 >= -3 && e1 <= 4;
    for (int e = e0 - 1; e <= e1; e++)
        for (int m = 1; m < 10; m++) {
            double v = m * pow(10, e);
            if (v < a->low * (1 - 1e-9) || v > a->high * (1 + 1e-9)) continue;
            if (m > 1 && (every > 1 || e1 - e0 > 5)) continue;
            if (m == 1 && (e - e0) % every && e1 - e0 > 30) continue;
            cj_tick *t = add(a, v);
            if (!t || m > 1 || (e - e0) % every) continue;
            t->power = !plain;
            t->exponent = e;
            cj__number_text(plain ? v : 10, plain && e < 0 ? -e : 0, t->text);
        }
}

cj_axis cj__axis_make(double low, double high, bool log, double pad_low, double pad_high, bool whole, bool snap, int wanted)
{
    cj_axis a = { .log = log };
    if (wanted < 2) wanted = 2;
    if (!(low <= high)) low = log ? 0.1 : 0, high = 1; /* nothing to show */
    low = fmin(fmax(low, -HUGE_VALUE), HUGE_VALUE);    /* the ends of double are beyond any axis */
    high = fmin(fmax(high, -HUGE_VALUE), HUGE_VALUE);
    if (log) {
        low = fmax(low, TINY_VALUE);
        high = fmax(high, TINY_VALUE);
        if (high / low < 1.01) low /= 2, high *= 2;
        double span = high / low;
        a.low = low / pow(span, pad_low);
        a.high = high * pow(span, pad_high);
        log_ticks(&a, wanted);
        return a;
    }
    if (high - low <= fmax(1e-12 * fmax(fabs(low), fabs(high)), TINY_VALUE)) {
        double d = fabs(low) <= TINY_VALUE ? 1 : fabs(low) * 0.1;
        low -= d;
        high += d;
    }
    double span = high - low;
    a.low = low - pad_low * span;
    a.high = high + pad_high * span;
    linear_ticks(&a, whole, snap, wanted);
    return a;
}

/* ---- what a plot needs ----------------------------------------------------------------------------------------------------------------------------- */

bool cj__plot_shows(const cj_plot *p, double x, double y)
{
    return isfinite(x) && isfinite(y) && (!p->log_x || x > 0) && (!p->log_y || y > 0);
}

typedef struct extent {
    double low, high;
    bool whole, lines_only;
} extent;

static void see(extent *e, double v)
{
    if (v < e->low) e->low = v;
    if (v > e->high) e->high = v;
    if (v != floor(v)) e->whole = false;
}

static extent extent_of(const cj_plot *p, bool y)
{
    extent e = { .low = INFINITY, .high = -INFINITY, .whole = true, .lines_only = true };
    for (const cj_series *s = p->first; s; s = s->next) {
        if (s->kind == CJ_FIELD) {
            see(&e, y ? s->y0 : s->x0);
            see(&e, y ? s->y1 : s->x1);
            e.whole = false;
        } else if (s->kind != CJ_HEAT && s->kind != CJ_IMAGES) {
            e.lines_only &= s->kind == CJ_LINE;
            for (int64_t i = 0; i < s->n; i++)
                if (cj__plot_shows(p, cj__series_x(s, i), s->y[i])) see(&e, y ? s->y[i] : cj__series_x(s, i));
        }
    }
    return e;
}

cj_axis cj__plot_x_axis(const cj_plot *p, int wanted)
{
    if (p->fixed_x) return cj__axis_make(p->x_low, p->x_high, p->log_x, 0, 0, false, false, wanted);
    extent e = extent_of(p, false);
    double pad = cj__plot_find(p, CJ_FIELD) || e.lines_only ? 0 : 0.03;
    return cj__axis_make(e.low, e.high, p->log_x, pad, pad, e.whole, pad == 0 && !cj__plot_find(p, CJ_FIELD), wanted);
}

cj_axis cj__plot_y_axis(const cj_plot *p, int wanted)
{
    if (p->fixed_y) return cj__axis_make(p->y_low, p->y_high, p->log_y, 0, 0, false, false, wanted);
    extent e = extent_of(p, true);
    double low = 0.04, high = 0.04;
    if (cj__plot_find(p, CJ_FIELD)) low = high = 0;
    if (cj__plot_find(p, CJ_BARS) && !p->log_y) { /* bars stand on zero */
        if (e.low >= 0) e.low = 0, low = 0;
        if (e.high <= 0) e.high = 0, high = 0;
    }
    return cj__axis_make(e.low, e.high, p->log_y, low, high, e.whole, false, wanted);
}
