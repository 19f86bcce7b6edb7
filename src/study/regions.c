/* Linear regions: the exact pieces of a ReLU network along a line, activation patterns, arrangements of hyperplanes and the bounds on their number. */
#include <math.h>

#include "cajal/study.h"
#include "core/core.h"

/* ---- a network of linear layers as numbers ---------------------------------------------------------------------------------------------------- */

typedef struct layer {
    int64_t in, out;
    double *weight, *bias; /* [out, in], [out] */
} layer;
typedef struct network {
    cj_ctx *c;
    int layers;
    int64_t hidden, widest;
    layer at[CJ_MAX_DIMS * 16];
    double *memory;
    size_t bytes;
} network;

static void network_close(network *n) { cj__free(n->c, n->memory, n->bytes); }

static bool network_open(network *n, const char *op, cj_ctx *c, const cj_params *p)
{
    int count = cj_params_count(p), most = (int)(sizeof n->at / sizeof *n->at);
    *n = (network){ .c = c, .layers = count / 2 };
    if (!count || count % 2 || n->layers > most)
        return cj__error(c, CJ_EVALUE, "%s: %d parameters; weight and bias of 1 to %d linear layers expected", op, count, most);
    int64_t numbers = 0;
    for (int i = 0; i < n->layers; i++) {
        cj_tensor *w = cj_params_at(p, 2 * i), *b = cj_params_at(p, 2 * i + 1);
        if (w->ndim != 2 || b->ndim != 1 || b->shape[0] != w->shape[0] || (i && w->shape[1] != n->at[i - 1].out))
            return cj__error(c, CJ_ESHAPE, "%s: layer %d has weight %s and bias %s; [out, in] and [out] of a chain expected", op, i,
                             cj__tensor_text(w), cj__tensor_text(b));
        n->at[i] = (layer){ .in = w->shape[1], .out = w->shape[0] };
        if (i + 1 < n->layers) n->hidden += w->shape[0];
        n->widest = w->shape[0] > n->widest ? w->shape[0] : n->widest;
        n->widest = w->shape[1] > n->widest ? w->shape[1] : n->widest;
        numbers += w->numel + b->numel;
    }
    n->bytes = (size_t)(numbers + 1) * sizeof(double);
    n->memory = cj__zalloc(c, n->bytes);
    if (!n->memory) return false;
    double *next = n->memory;
    bool ok = true;
    for (int i = 0; i < n->layers && ok; i++) {
        layer *l = &n->at[i];
        l->weight = next, l->bias = next + l->out * l->in, next = l->bias + l->out;
        ok = cj_to_f64(cj_params_at(p, 2 * i), l->weight, l->out * l->in) && cj_to_f64(cj_params_at(p, 2 * i + 1), l->bias, l->out);
    }
    if (!ok) network_close(n);
    return ok;
}

static void affine(const layer *l, const double *x, double *y)
{
    for (int64_t o = 0; o < l->out; o++) {
        double sum = l->bias[o];
        for (int64_t i = 0; i < l->in; i++) sum += l->weight[o * l->in + i] * x[i];
        y[o] = sum;
    }
}

/* ---- pieces along a line ---------------------------------------------------------------------------------------------------------------------- */

/* A continuous piecewise-linear function of t in R^width by its values at the joints. */
typedef struct curve {
    int64_t joints, room, width;
    double *t, *value; /* [joints], [joints, width] */
} curve;

static bool curve_new(cj_ctx *c, curve *f, int64_t room, int64_t width)
{
    *f = (curve){ .room = room, .width = width };
    f->t = cj__zalloc(c, (size_t)(room * (width + 1)) * sizeof(double));
    f->value = f->t ? f->t + room : NULL;
    return f->t != NULL;
}
static void curve_free(cj_ctx *c, curve *f)
{
    if (f->t) cj__free(c, f->t, (size_t)(f->room * (f->width + 1)) * sizeof(double));
    f->t = NULL;
}

/* The zeros of all units between joints k and k+1, ascending, into zero[]; equal ones once. */
static int64_t zeros_between(const curve *f, int64_t k, double *zero)
{
    int64_t n = 0;
    const double *a = f->value + k * f->width, *b = a + f->width;
    double t0 = f->t[k], t1 = f->t[k + 1], tiny = 1e-13 * fmax(1, fabs(t1));
    for (int64_t u = 0; u < f->width; u++) {
        if (!((a[u] < 0 && b[u] > 0) || (a[u] > 0 && b[u] < 0))) continue;
        double t = t0 + (t1 - t0) * (a[u] / (a[u] - b[u]));
        if (t - t0 <= tiny || t1 - t <= tiny) continue; /* at a joint that is there already, up to rounding */
        int64_t at = n;
        while (at > 0 && zero[at - 1] > t) at--;
        if ((at > 0 && t - zero[at - 1] <= tiny) || (at < n && zero[at] - t <= tiny)) continue;
        memmove(zero + at + 1, zero + at, (size_t)(n - at) * sizeof *zero);
        zero[at] = t, n++;
    }
    return n;
}

/* max(f, 0): a joint wherever a unit crosses 0.  With out NULL only counts the joints. */
static int64_t rectify(const curve *f, curve *out, double *zero)
{
    int64_t joints = 0;
    for (int64_t k = 0; k < f->joints; k++) {
        int64_t n = k + 1 < f->joints ? zeros_between(f, k, zero) : 0;
        for (int64_t j = 0; j <= n && out; j++) {
            const double *a = f->value + k * f->width, *b = j ? a + f->width : a;
            double t = j ? zero[j - 1] : f->t[k], s = j ? (t - f->t[k]) / (f->t[k + 1] - f->t[k]) : 0;
            out->t[joints + j] = t;
            for (int64_t u = 0; u < f->width; u++) out->value[(joints + j) * f->width + u] = fmax(a[u] + s * (b[u] - a[u]), 0);
        }
        joints += n + 1;
    }
    if (out) out->joints = joints;
    return joints;
}

/* Neighbours of one slope become one piece: joints whose unit does not reach the output leave no trace. */
static int64_t collect(const curve *f, int64_t output, cj_piece *out, int64_t room)
{
    double steepest = 0;
    for (int64_t k = 0; k + 1 < f->joints; k++)
        steepest =
            fmax(steepest, fabs((f->value[(k + 1) * f->width + output] - f->value[k * f->width + output]) / (f->t[k + 1] - f->t[k])));
    int64_t n = 0;
    cj_piece now = { 0 };
    for (int64_t k = 0; k + 1 < f->joints; k++) {
        double value = f->value[k * f->width + output], next = f->value[(k + 1) * f->width + output],
               slope = (next - value) / (f->t[k + 1] - f->t[k]);
        if (k && fabs(slope - now.slope) <= 1e-6 * steepest) {
            now.end = f->t[k + 1];
        } else {
            if (k && n++ < room) out[n - 1] = now;
            now = (cj_piece){ f->t[k], f->t[k + 1], value, slope };
        }
    }
    if (n++ < room) out[n - 1] = now;
    return n;
}

int64_t cj_relu_pieces(const cj_params *p, cj_tensor *from, cj_tensor *to, int64_t output, cj_piece *out, int64_t room)
{
    static const char op[] = "relu_pieces";
    cj_ctx *c = from ? from->ctx : NULL;
    if (!c || !p || c->error || !cj__usable(c, op, 1, from) || !cj__usable(c, op, 2, to)) return -1;
    network n;
    if (!network_open(&n, op, c, p)) return -1;
    int64_t result = -1, in = n.at[0].in;
    curve f = { 0 }, g = { 0 };
    double *zero = cj__alloc(c, (size_t)(n.widest + 1) * sizeof *zero);
    if (from->numel != in || to->numel != in)
        cj__error(c, CJ_ESHAPE, "%s: from %s to %s; [%lld] expected", op, cj__tensor_text(from), cj__tensor_text(to), (long long)in);
    else if (output < 0 || output >= n.at[n.layers - 1].out)
        cj__error(c, CJ_EINDEX, "%s: output %lld of %lld", op, (long long)output, (long long)n.at[n.layers - 1].out);
    else if (zero && curve_new(c, &f, 2, in) && cj_to_f64(from, f.value, in) && cj_to_f64(to, f.value + in, in)) {
        f.joints = 2, f.t[1] = 1;
        for (int i = 0; i < n.layers && !c->error && cj__cancel_check(c); i++) {
            if (!curve_new(c, &g, f.joints, n.at[i].out)) break;
            g.joints = f.joints;
            memcpy(g.t, f.t, (size_t)f.joints * sizeof *g.t);
            for (int64_t k = 0; k < f.joints; k++) affine(&n.at[i], f.value + k * f.width, g.value + k * g.width);
            curve_free(c, &f);
            f = g, g.t = NULL;
            if (i + 1 == n.layers) break;
            if (!curve_new(c, &g, rectify(&f, NULL, zero), f.width)) break;
            rectify(&f, &g, zero);
            curve_free(c, &f);
            f = g, g.t = NULL;
        }
        if (!c->error) result = collect(&f, output, out, room);
    }
    curve_free(c, &f);
    if (zero) cj__free(c, zero, (size_t)(n.widest + 1) * sizeof *zero);
    network_close(&n);
    return result;
}

/* ---- activation patterns ------------------------------------------------------------------------------------------------------------------------ */

cj_tensor *cj_relu_regions(const cj_params *p, cj_tensor *x)
{
    static const char op[] = "relu_regions";
    cj_ctx *c = x ? x->ctx : NULL;
    network n;
    if (!c || !p || c->error || !cj__usable(c, op, 1, x) || !network_open(&n, op, c, p)) return c ? c->poison : NULL;
    cj_tensor *result = c->poison;
    if (x->ndim != 2 || x->shape[1] != n.at[0].in) {
        cj__error(c, CJ_ESHAPE, "%s: x is %s; [n, %lld] expected", op, cj__tensor_text(x), (long long)n.at[0].in);
        network_close(&n);
        return result;
    }
    int64_t rows = x->shape[0], seen = 0;
    size_t bytes = (size_t)(x->numel + 2 * n.widest + rows) * sizeof(double), flags = (size_t)(rows * (n.hidden + 1));
    double *v = cj__alloc(c, bytes);
    char *pattern = cj__zalloc(c, flags);
    if (v && pattern && cj_to_f64(x, v, x->numel)) {
        double *a = v + x->numel, *b = a + n.widest;
        int64_t *label = (int64_t *)(b + n.widest);
        for (int64_t r = 0; r < rows && cj__cancel_check(c); r++) {
            char *mine = pattern + seen * n.hidden; /* the next free one, until it turns out to be known */
            memcpy(a, v + r * n.at[0].in, (size_t)n.at[0].in * sizeof *a);
            for (int64_t i = 0, unit = 0; i + 1 < n.layers; i++) {
                affine(&n.at[i], a, b);
                for (int64_t u = 0; u < n.at[i].out; u++) mine[unit++] = b[u] > 0, a[u] = fmax(b[u], 0);
            }
            int64_t k = 0;
            while (k < seen && memcmp(pattern + k * n.hidden, mine, (size_t)n.hidden) != 0) k++;
            label[r] = k;
            seen += k == seen;
        }
        if (!c->error) result = cj_from_i64(c, label, CJ_SHAPE(rows));
    }
    if (v) cj__free(c, v, bytes);
    if (pattern) cj__free(c, pattern, flags);
    network_close(&n);
    return result;
}

/* ---- arrangements --------------------------------------------------------------------------------------------------------------------------------- */

/* plane [m, n + 1]: normal and offset.  Adding plane i to those before it cuts as many regions in two as the earlier planes make within plane i.  Rewrites plane; -1 without memory. */
static int64_t arrangement(cj_ctx *c, double *plane, int64_t m, int64_t n)
{
    int64_t kept = 0, count = 1, w = n + 1;
    if (n == 0) return 1;
    for (int64_t i = 0; i < m; i++) { /* length 1, first coordinate that is not 0 positive; each plane once */
        double *a = plane + i * w, length = 0, sign = 0;
        for (int64_t j = 0; j < n; j++) length += a[j] * a[j];
        length = sqrt(length);
        if (length <= 1e-11) continue; /* parallel to the plane it was restricted to: does not meet it */
        for (int64_t j = 0; j < n && sign == 0; j++) sign = fabs(a[j]) > 1e-9 * length ? copysign(1, a[j]) : 0;
        for (int64_t j = 0; j < w; j++) plane[kept * w + j] = a[j] / (sign * length);
        bool known = false;
        for (int64_t k = 0; k < kept && !known; k++) {
            known = true;
            for (int64_t j = 0; j < w; j++) known = known && fabs(plane[k * w + j] - plane[kept * w + j]) <= 1e-9;
        }
        kept += !known;
    }
    size_t bytes = (size_t)(kept * n + 1) * sizeof(double);
    double *within = cj__alloc(c, bytes);
    if (!within) return -1;
    for (int64_t i = 0; i < kept && count >= 0; i++) {
        const double *a = plane + i * w;
        int64_t pivot = 0;
        for (int64_t j = 1; j < n; j++) pivot = fabs(a[j]) > fabs(a[pivot]) ? j : pivot;
        for (int64_t k = 0; k < i; k++) { /* x_pivot solved for and put into the others */
            const double *b = plane + k * w;
            for (int64_t j = 0, to = 0; j < w; j++)
                if (j != pivot) within[k * n + to++] = b[j] - b[pivot] * a[j] / a[pivot];
        }
        int64_t more = arrangement(c, within, i, n - 1);
        count = more < 0 ? -1 : count + more;
    }
    cj__free(c, within, bytes);
    return count;
}

int64_t cj_hyperplane_regions(cj_tensor *weight, cj_tensor *bias)
{
    static const char op[] = "hyperplane_regions";
    cj_ctx *c = weight ? weight->ctx : NULL;
    if (!c || c->error || !cj__usable(c, op, 0, weight) || !cj__usable(c, op, 1, bias)) return -1;
    if (weight->ndim != 2 || bias->ndim != 1 || bias->shape[0] != weight->shape[0])
        return cj__error(c, CJ_ESHAPE, "%s: weight %s and bias %s; [m, n] and [m] expected", op, cj__tensor_text(weight),
                         cj__tensor_text(bias)),
               -1;
    int64_t m = weight->shape[0], n = weight->shape[1], count = -1;
    size_t bytes = (size_t)(m * (n + 1) * 2 + m + 1) * sizeof(double);
    double *plane = cj__zalloc(c, bytes);
    if (!plane) return -1;
    double *w = plane + m * (n + 1), *b = w + m * n;
    if (cj_to_f64(weight, w, m * n) && cj_to_f64(bias, b, m)) {
        for (int64_t i = 0; i < m; i++) {
            memcpy(plane + i * (n + 1), w + i * n, (size_t)n * sizeof *w);
            plane[i * (n + 1) + n] = b[i];
        }
        count = arrangement(c, plane, m, n);
    }
    cj__free(c, plane, bytes);
    return count;
}

/* ---- bounds ---------------------------------------------------------------------------------------------------------------------------------------- */

double cj_zaslavsky_bound(int64_t m, int64_t n)
{
    if (m < 0 || n < 0) return NAN;
    double sum = 0, choose = 1; /* C(m, i + 1) = C(m, i)·(m - i)/(i + 1) */
    for (int64_t i = 0; i <= n && i <= m; i++) sum += choose, choose = choose * (double)(m - i) / (double)(i + 1);
    return sum;
}

double cj_montufar_bound(int64_t inputs, const int64_t *width, int layers)
{
    if (inputs < 1 || layers < 1) return NAN;
    double regions = cj_zaslavsky_bound(width[layers - 1], inputs);
    for (int i = 0; i < layers; i++) {
        if (width[i] < inputs) return NAN;
        int64_t folds = width[i] / inputs; /* rounded down */
        if (i + 1 < layers) regions *= pow((double)folds, (double)inputs);
    }
    return regions;
}

double cj_deep_region_bound(int64_t width, int64_t layers)
{
    return width < 1 || layers < 1 ? NAN : pow((double)(width + 1), (double)layers);
}

int64_t cj_deep_parameter_count(int64_t width, int64_t layers)
{
    return width < 1 || layers < 1 ? -1 : 3 * width + 1 + (layers - 1) * width * (width + 1);
}
