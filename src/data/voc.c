/* Pascal-VOC annotations: a small reader of XML elements, enough for <annotation> files and nothing more: no entities of its own, no other file is opened,
 * comments, declarations and attributes are passed over.
 */
#include "data/bytes.h"

typedef struct xml {
    const cj_bytes *b;
    const char *at, *end;
} xml;

typedef struct tag {
    char name[24];
    bool closes, empty; /* </x>, <x/> */
} tag;

static size_t offset_of(const xml *s) { return (size_t)(s->at - (const char *)s->b->data); }

static bool skip_until(xml *s, const char *stop)
{
    size_t n = strlen(stop);
    for (; (size_t)(s->end - s->at) >= n; s->at++)
        if (memcmp(s->at, stop, n) == 0) return s->at += n, true;
    return cj__bytes_error(s->b, s->b->n, "%s was expected, the end of the file was found", stop);
}

/* The next tag; *text and *n become what stands before it. */
static bool next_tag(xml *s, const char **text, size_t *n, tag *t)
{
    *text = s->at;
    for (;;) {
        while (s->at < s->end && *s->at != '<') s->at++;
        *n = (size_t)(s->at - *text);
        if (s->at >= s->end) return cj__bytes_error(s->b, s->b->n, "a tag was expected, the end of the file was found");
        bool comment = s->end - s->at >= 4 && memcmp(s->at, "<!--", 4) == 0;
        if (!comment && s->end - s->at >= 2 && s->at[1] != '!' && s->at[1] != '?') break;
        if (!skip_until(s, comment ? "-->" : ">")) return false;
        *text = s->at;
    }
    *t = (tag){ .closes = *++s->at == '/' };
    s->at += t->closes;
    size_t length = 0;
    for (; s->at < s->end && (unsigned char)*s->at > ' ' && *s->at != '>' && *s->at != '/'; s->at++)
        if (length < sizeof t->name - 1) t->name[length++] = *s->at;
    if (!length) return cj__bytes_error(s->b, offset_of(s), "a tag's name was expected");
    if (!skip_until(s, ">")) return false;
    t->empty = s->at[-2] == '/' && !t->closes;
    return true;
}

static bool skip_element(xml *s)
{
    tag t;
    const char *text;
    size_t n;
    for (int depth = 1; depth > 0;) {
        if (!next_tag(s, &text, &n, &t)) return false;
        depth += t.closes ? -1 : !t.empty;
    }
    return true;
}

/* The text of an element without children, blanks around it cut off. */
static bool leaf(xml *s, const char *name, const char **text, size_t *n)
{
    tag t;
    if (!next_tag(s, text, n, &t)) return false;
    if (!t.closes || strcmp(t.name, name) != 0)
        return cj__bytes_error(s->b, offset_of(s), "</%s> was expected, %s was found", name, t.name);
    while (*n && (unsigned char)(*text)[*n - 1] <= ' ') --*n;
    while (*n && (unsigned char)**text <= ' ') ++*text, --*n;
    return true;
}

static bool number(xml *s, const char *name, double *out)
{
    const char *text;
    size_t n;
    if (!leaf(s, name, &text, &n)) return false;
    const char *at = text;
    if (cj__read_number(&at, text + n, out) && at == text + n && *out > -1e9 && *out < 1e9) return true;
    return cj__bytes_error(s->b, (size_t)(text - (const char *)s->b->data), "a number was expected in <%s>", name);
}

/* The predefined entities; anything else stays as it is. */
static const char *plain_text(cj_boxes *r, const char *text, size_t n)
{
    static const struct {
        const char *from;
        char to;
    } entities[] = { { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' } };
    char *p = cj__record_text(r, text, n), *to = p;
    for (char *s = p; s && *s; s++) {
        char ch = *s;
        for (size_t i = 0; i < 5 && ch == '&'; i++)
            if (strncmp(s, entities[i].from, strlen(entities[i].from)) == 0) {
                *to++ = entities[i].to;
                s += strlen(entities[i].from) - 1;
                ch = 0;
            }
        if (ch) *to++ = ch;
    }
    if (p) *to = 0;
    return p;
}

static bool box_of(xml *s, cj_boxes *r, cj_box *b)
{
    tag t;
    const char *text;
    size_t n, start = offset_of(s);
    int corners = 0, depth = 0;
    double v;
    for (;;) {
        if (!next_tag(s, &text, &n, &t)) return false;
        bool bounds = strcmp(t.name, "bndbox") == 0;
        if (t.closes && depth == 0) break;
        if (t.closes || bounds) {
            depth += t.closes ? -1 : 1;
            continue;
        }
        double *corner = !depth                        ? NULL
                         : strcmp(t.name, "xmin") == 0 ? &b->xmin
                         : strcmp(t.name, "ymin") == 0 ? &b->ymin
                         : strcmp(t.name, "xmax") == 0 ? &b->xmax
                         : strcmp(t.name, "ymax") == 0 ? &b->ymax
                                                       : NULL;
        if (t.empty) continue;
        if (corner) {
            if (!number(s, t.name, corner)) return false;
            corners++;
        } else if (strcmp(t.name, "name") == 0) {
            if (!leaf(s, "name", &text, &n) || !(b->name = plain_text(r, text, n))) return false;
        } else if (strcmp(t.name, "difficult") == 0) {
            if (!number(s, "difficult", &v)) return false;
            b->difficult = v != 0;
        } else if (!skip_element(s)) {
            return false;
        }
    }
    if (!b->name || corners != 4)
        return cj__bytes_error(s->b, start, "a name and four corners were expected in <object>, %d corners were found", corners);
    return (b->xmin <= b->xmax && b->ymin <= b->ymax) ||
           cj__bytes_error(s->b, start, "xmin <= xmax and ymin <= ymax were expected, %g … %g and %g … %g were found", b->xmin, b->xmax,
                           b->ymin, b->ymax);
}

static bool size_of_image(xml *s, cj_boxes *r)
{
    tag t;
    const char *text;
    size_t n;
    double v;
    for (;;) {
        if (!next_tag(s, &text, &n, &t)) return false;
        if (t.closes) return true;
        if (t.empty) continue;
        int64_t *to = strcmp(t.name, "width") == 0    ? &r->width
                      : strcmp(t.name, "height") == 0 ? &r->height
                      : strcmp(t.name, "depth") == 0  ? &r->depth
                                                      : NULL;
        if (to ? !number(s, t.name, &v) : !skip_element(s)) return false;
        if (to) *to = (int64_t)v;
    }
}

static bool annotation(xml *s, cj_boxes *r, cj_box *box)
{
    tag t;
    const char *text;
    size_t n;
    if (!next_tag(s, &text, &n, &t)) return false;
    if (strcmp(t.name, "annotation") != 0 || t.closes || t.empty)
        return cj__bytes_error(s->b, offset_of(s), "<annotation> was expected, %s was found", t.name);
    for (;;) {
        if (!next_tag(s, &text, &n, &t)) return false;
        if (t.closes) return true;
        if (t.empty) continue;
        bool ok;
        if (strcmp(t.name, "object") == 0) ok = box_of(s, r, &box[r->n++]);
        else if (strcmp(t.name, "size") == 0) ok = size_of_image(s, r);
        else if (strcmp(t.name, "filename") == 0) ok = leaf(s, "filename", &text, &n) && (r->file = plain_text(r, text, n)) != NULL;
        else ok = skip_element(s);
        if (!ok) return false;
    }
}

cj_boxes *cj__voc_read(const cj_bytes *b)
{
    const char *text = (const char *)b->data;
    xml s = { b, text, text + b->n };
    size_t most = 0;
    for (size_t i = 0; i + 7 <= b->n; i++) most += memcmp(text + i, "<object", 7) == 0;
    cj_boxes *r = cj__record_new(b->ctx, sizeof *r);
    cj_box *box = r ? cj__record_alloc(r, most * sizeof *box) : NULL;
    if (box) {
        r->box = box;
        r->file = "";
        if (annotation(&s, r, box)) return r;
    }
    cj__record_free(r);
    return NULL;
}

cj_boxes *cj_voc_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_voc_load", path)) return NULL;
    cj_boxes *r = cj__voc_read(&b);
    cj__bytes_free(&b);
    return r;
}

void cj_boxes_free(cj_boxes *b) { cj__record_free(b); }
