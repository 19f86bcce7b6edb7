/* The text of a tensor, byte for byte as PyTorch prints it with its default options: 4 decimals, lines of 80 characters, more than 1000 elements
 * summarised by 3 at each edge.
 *
 * All shown elements share one style, decided by the finite, non-zero ones among them:
 *   scientific  when max/min > 1000, max > 1e8 or min < 1e-4 (of the absolute values)        1.0000e+09
 *   integers    when all are whole numbers                                                   1., 2., 3.
 *   otherwise   fixed point                                                                  0.5000
 * and are padded to the widest of those.  Zeros and non-finite values do not count for the width, as in PyTorch.
 */
#include <inttypes.h>
#include <math.h>

#include "core/host.h"

#define DECIMALS 4
#define LINE_WIDTH 80
#define THRESHOLD 1000 /* more elements are summarised */
#define EDGE 3

/* ---- where the text goes: the caller's memory, a file, or both NULL to measure ------------------------------------------------------------ */

typedef struct text {
    char *out;
    size_t room; /* of out, zero byte included */
    FILE *file;
    size_t length; /* so far, whether or not it fitted */
    size_t line;   /* where the last line starts */
} text;

static void put(text *o, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, o->length++) {
        if (o->length + 1 < o->room) o->out[o->length] = s[i];
        if (s[i] == '\n') o->line = o->length + 1; /* NOLINT: n bytes of s are there, whatever the length of a literal is taken for */
    }
    if (o->file) fwrite(s, 1, n, o->file);
}

static void put_text(text *o, const char *s) { put(o, s, strlen(s)); }

static void put_blanks(text *o, int n)
{
    while (n-- > 0) put(o, " ", 1);
}

static void put_ints(text *o, const int64_t *v, int n)
{
    char number[24];
    for (int i = 0; i < n; i++) put(o, number, (size_t)snprintf(number, sizeof number, i ? ", %" PRId64 : "%" PRId64, v[i]));
}

static size_t finish(text *o)
{
    if (o->room) o->out[o->length < o->room ? o->length : o->room - 1] = 0;
    return o->length;
}

/* ---- the style --------------------------------------------------------------------------------------------------------------------------- */

typedef struct style {
    bool floating, integers, scientific;
    int width;
    double min, max; /* of the absolute values that count */
} style;

int cj__plain_point(char *text, int n)
{
    char *point = text;
    while (*point && strchr("+-0123456789", *point)) point++;
    if (!*point || strchr("e.in", *point)) return n; /* a whole number, or inf or nan */
    char *rest = point;
    while (*rest && !strchr("0123456789", *rest)) rest++; /* a point may take several bytes */
    *point = '.';
    memmove(point + 1, rest, strlen(rest) + 1);
    return n - (int)(rest - point - 1);
}

/* One element, without padding. */
static int element(const style *s, const cj_tensor *t, int64_t offset, char out[64])
{
    if (t->dtype == CJ_BOOL) return snprintf(out, 64, "%s", cj__load(t, offset) != 0 ? "True" : "False");
    if (!s->floating) return snprintf(out, 64, "%" PRId64, cj__load_i64(t, offset));
    double v = cj__load(t, offset);
    if (isnan(v)) return snprintf(out, 64, "nan");
    if (isinf(v)) return snprintf(out, 64, v < 0 ? "-inf" : "inf");
    if (s->scientific) return cj__plain_point(out, snprintf(out, 64, "%.*e", DECIMALS, v));
    if (s->integers) return snprintf(out, 64, "%.0f.", v);
    return cj__plain_point(out, snprintf(out, 64, "%.*f", DECIMALS, v));
}

typedef void (*visit_fn)(style *s, const cj_tensor *t, int64_t offset);

/* Every element that is shown. */
static void visit_shown(style *s, const cj_tensor *t, int axis, int64_t offset, bool summarise, visit_fn visit)
{
    if (axis == t->ndim) {
        visit(s, t, offset);
        return;
    }
    int64_t n = t->shape[axis];
    bool cut = summarise && n > 2 * EDGE;
    for (int64_t i = 0; i < n; i++) {
        if (cut && i == EDGE) i = n - EDGE;
        visit_shown(s, t, axis + 1, offset + i * t->stride[axis], summarise, visit);
    }
}

static bool counts(const style *s, double v) { return !s->floating || (isfinite(v) && v != 0); }

static void see_value(style *s, const cj_tensor *t, int64_t offset)
{
    double v = cj__load(t, offset), size = fabs(v);
    if (!counts(s, v)) return;
    if (size < s->min) s->min = size;
    if (size > s->max) s->max = size;
    if (v != ceil(v)) s->integers = false;
}

static void see_width(style *s, const cj_tensor *t, int64_t offset)
{
    char number[64];
    if (!counts(s, cj__load(t, offset))) return;
    int n = element(s, t, offset, number);
    if (n > s->width) s->width = n;
}

static style style_of(const cj_tensor *t, bool summarise)
{
    style s = { .floating = cj_dtype_is_float((cj_dtype)t->dtype), .integers = true, .width = 1, .min = INFINITY };
    if (s.floating) {
        visit_shown(&s, t, 0, 0, summarise, see_value);
        if (s.max > 0) s.scientific = s.max / s.min > 1000 || s.max > 1e8 || s.min < 1e-4;
    }
    visit_shown(&s, t, 0, 0, summarise, see_width);
    return s;
}

/* ---- the text ------------------------------------------------------------------------------------------------------------------------------ */

static void put_element(text *o, const style *s, const cj_tensor *t, int64_t offset)
{
    char number[64];
    int n = element(s, t, offset, number);
    put_blanks(o, s->width - n);
    put(o, number, (size_t)n);
}

static void put_vector(text *o, const style *s, const cj_tensor *t, int64_t offset, int indent, bool summarise)
{
    int64_t n = t->shape[t->ndim - 1], stride = t->stride[t->ndim - 1];
    bool cut = summarise && n > 2 * EDGE;
    int per_line = (LINE_WIDTH - indent) / (s->width + 2), place = 0;
    if (per_line < 1) per_line = 1;
    put(o, "[", 1);
    for (int64_t i = 0; i < n; i++, place++) {
        if (place && place % per_line == 0) {
            put_text(o, ",\n");
            put_blanks(o, indent + 1);
        } else if (place) {
            put_text(o, ", ");
        }
        if (cut && i == EDGE) {
            put_text(o, " ...");
            i = n - EDGE - 1;
        } else {
            put_element(o, s, t, offset + i * stride);
        }
    }
    put(o, "]", 1);
}

static void put_block(text *o, const style *s, const cj_tensor *t, int axis, int64_t offset, int indent, bool summarise)
{
    if (t->ndim == 0) {
        put_element(o, s, t, offset);
        return;
    }
    if (axis == t->ndim - 1) {
        put_vector(o, s, t, offset, indent, summarise);
        return;
    }
    int64_t n = t->shape[axis];
    bool cut = summarise && n > 2 * EDGE;
    put(o, "[", 1);
    for (int64_t i = 0; i < n; i++) {
        if (i) {
            put(o, ",", 1);
            for (int blank = axis + 1; blank < t->ndim; blank++) put(o, "\n", 1);
            put_blanks(o, indent + 1);
        }
        if (cut && i == EDGE) {
            put_text(o, "...");
            i = n - EDGE - 1;
        } else {
            put_block(o, s, t, axis + 1, offset + i * t->stride[axis], indent + 1, summarise);
        }
    }
    put(o, "]", 1);
}

/* ", dtype=torch.float64", on a line of its own where it would not fit. */
static void put_suffix(text *o, size_t *line_length, int indent, const char *suffix)
{
    size_t n = strlen(suffix);
    if (*line_length + n + 2 > LINE_WIDTH) {
        put_text(o, ",\n");
        put_blanks(o, indent);
        *line_length = (size_t)indent + n;
    } else {
        put_text(o, ", ");
        *line_length += n + 2;
    }
    put_text(o, suffix);
}

static const char *const torch_names[CJ_DTYPES] = {
    [CJ_F32] = "torch.float32", [CJ_F64] = "torch.float64", [CJ_BF16] = "torch.bfloat16", [CJ_F16] = "torch.float16",
    [CJ_I64] = "torch.int64",   [CJ_I32] = "torch.int32",   [CJ_U8] = "torch.uint8",      [CJ_BOOL] = "torch.bool",
};

static void put_tensor(text *o, const cj_tensor *t)
{
    const char *prefix = "tensor(";
    int indent = (int)strlen(prefix);
    char suffix[256];
    put_text(o, prefix);
    if (t->numel == 0) {
        put_text(o, "[]");
    } else {
        bool summarise = t->numel > THRESHOLD;
        style s = style_of(t, summarise);
        put_block(o, &s, t, 0, 0, indent, summarise);
    }
    size_t line = o->length - o->line + 2;
    if (t->st->device) {
        const char *device = t->ctx->device;
        snprintf(suffix, sizeof suffix, strchr(device, ':') ? "device='%s'" : "device='%s:0'", device);
        put_suffix(o, &line, indent, suffix);
    }
    if (t->numel == 0 && t->ndim != 1) {
        text size = { .out = suffix, .room = sizeof suffix };
        put_text(&size, "size=(");
        put_ints(&size, t->shape, t->ndim);
        put_text(&size, ")");
        finish(&size);
        put_suffix(o, &line, indent, suffix);
    }
    bool usual = t->dtype == CJ_F32 || (t->numel && (t->dtype == CJ_I64 || t->dtype == CJ_BOOL));
    if (!usual) {
        snprintf(suffix, sizeof suffix, "dtype=%s", torch_names[t->dtype]);
        put_suffix(o, &line, indent, suffix);
    }
    put(o, ")", 1);
}

static text memory_of(char *out, size_t n) { return (text){ .out = out, .room = out ? n : 0 }; }

size_t cj_format(cj_tensor *t, char *out, size_t n)
{
    text o = memory_of(out, n);
    cj_host h;
    if (cj__host_open(&h, t, "cj_format")) {
        put_tensor(&o, &h.view);
        cj__host_close(&h);
    }
    return finish(&o);
}

size_t cj_format_shape(const cj_tensor *t, char *out, size_t n)
{
    text o = memory_of(out, n);
    cj_shape s = cj_shape_of(t);
    put_text(&o, "Size([");
    put_ints(&o, s.dim, s.ndim);
    put_text(&o, "])");
    return finish(&o);
}

bool cj_print(cj_tensor *t, FILE *f)
{
    cj_host h;
    if (!f || !cj__host_open(&h, t, "cj_print")) return false;
    text o = { .file = f };
    put_tensor(&o, &h.view);
    put(&o, "\n", 1);
    cj__host_close(&h);
    return !ferror(f) || cj__error(t->ctx, CJ_EFILE, "cj_print: the file cannot be written");
}
