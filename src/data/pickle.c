/* The stack machine of Python's pickle format, protocols 0 to 2 as far as plain data needs them (Python's pickletools.py documents the opcodes). */
#include "data/pickle.h"

#define MAX_STACK 65536

typedef struct machine {
    const cj_bytes *b;
    void *record;
    size_t at;
    cj_pickle **stack, **memo;
    size_t depth, memos, memo_room;
    size_t mark[256];
    size_t marks;
} machine;

static bool wrong(const machine *m, const char *what) { return cj__bytes_error(m->b, m->at, "%s", what); }

static cj_pickle *value(machine *m, cj_pickle_kind kind)
{
    cj_pickle *p = cj__record_alloc(m->record, sizeof *p);
    if (p) p->kind = kind, p->at = m->at;
    return p;
}

static bool push(machine *m, cj_pickle *p)
{
    if (!p) return false;
    if (m->depth == MAX_STACK) return wrong(m, "a stack of at most 65536 values was expected");
    m->stack[m->depth++] = p;
    return true;
}

static cj_pickle *pop(machine *m)
{
    if (m->depth > (m->marks ? m->mark[m->marks - 1] : 0)) return m->stack[--m->depth];
    wrong(m, "a value on the stack was expected, none was found");
    return NULL;
}

static bool number(machine *m, double v)
{
    cj_pickle *p = value(m, CJ_PICKLE_NUMBER);
    if (p) p->number = v;
    return push(m, p);
}

static bool append(machine *m, cj_pickle *to, cj_pickle *const *item, size_t n)
{
    if (to->n + n > to->room) {
        size_t room = to->room * 2 > to->n + n ? to->room * 2 : to->n + n;
        cj_pickle **more = cj__record_alloc(m->record, room * sizeof *more);
        if (!more) return false;
        if (to->n) memcpy(more, to->item, to->n * sizeof *more);
        to->item = more;
        to->room = room;
    }
    if (n) memcpy(to->item + to->n, item, n * sizeof *item);
    to->n += n;
    return true;
}

/* The last n values become a tuple. */
static bool tuple(machine *m, size_t n)
{
    size_t low = m->marks ? m->mark[m->marks - 1] : 0;
    if (m->depth - low < n) return wrong(m, "values of a tuple were expected on the stack");
    cj_pickle *p = value(m, CJ_PICKLE_TUPLE);
    if (!p || !append(m, p, m->stack + m->depth - n, n)) return false;
    m->depth -= n;
    return push(m, p);
}

/* What lies above the last mark, which goes. */
static bool above_mark(machine *m, size_t *from, size_t *n)
{
    if (!m->marks) return wrong(m, "a mark on the stack was expected, none was found");
    *from = m->mark[--m->marks];
    *n = m->depth - *from;
    return true;
}

static bool extend(machine *m, cj_pickle_kind kind)
{
    size_t from, n;
    if (!above_mark(m, &from, &n)) return false;
    m->depth = from;
    size_t low = m->marks ? m->mark[m->marks - 1] : 0;
    cj_pickle *to = from > low ? m->stack[from - 1] : NULL;
    bool object = to && to->kind == CJ_PICKLE_OBJECT && kind == CJ_PICKLE_DICT; /* a defaultdict */
    if (!to || (to->kind != kind && !object) || (kind == CJ_PICKLE_DICT && n % 2))
        return wrong(m, "a list or a dictionary was expected on the stack");
    if (object) {
        if (!to->item[2] && !(to->item[2] = value(m, CJ_PICKLE_DICT))) return false;
        if (to->item[2]->kind != CJ_PICKLE_DICT) return wrong(m, "a dictionary was expected");
        to = to->item[2];
    }
    return append(m, to, m->stack + from, n);
}

static bool remember(machine *m, size_t i)
{
    size_t low = m->marks ? m->mark[m->marks - 1] : 0;
    if (m->depth <= low) return wrong(m, "a value to remember was expected");
    if (i > m->b->n) return wrong(m, "fewer remembered values than bytes were expected"); /* Python counts them from 0 */
    if (i >= m->memo_room) {
        size_t room = i + 1 > 2 * m->memo_room ? i + 64 : 2 * m->memo_room;
        cj_pickle **more = cj__record_alloc(m->record, room * sizeof *more);
        if (!more) return false;
        if (m->memo_room) memcpy(more, m->memo, m->memo_room * sizeof *more);
        m->memo = more;
        m->memo_room = room;
    }
    m->memo[i] = m->stack[m->depth - 1];
    return true;
}

static bool recall(machine *m, size_t i)
{
    if (!m->memo || i >= m->memo_room || !m->memo[i]) return wrong(m, "a remembered value was expected, none was found");
    return push(m, m->memo[i]);
}

static bool text(machine *m, size_t n)
{
    const unsigned char *s = cj__bytes_at(m->b, m->at, n, "a text");
    cj_pickle *p = s ? value(m, CJ_PICKLE_TEXT) : NULL;
    if (!p) return false;
    p->text = (const char *)s;
    p->n = n;
    m->at += n;
    return push(m, p);
}

/* "module\nname\n": one of the few that are known. */
static bool name(machine *m)
{
    static const char *const known[] = { "numpy.core.multiarray\n_reconstruct",
                                         "numpy\nndarray",
                                         "numpy\ndtype",
                                         "scipy.sparse.csr\ncsr_matrix",
                                         "collections\ndefaultdict",
                                         "__builtin__\nlist",
                                         "builtins\nlist",
                                         "scipy.sparse._csr\ncsr_matrix",
                                         "numpy._core.multiarray\n_reconstruct",
                                         "_codecs\nencode" };
    const char *s = (const char *)m->b->data + m->at, *end = (const char *)m->b->data + m->b->n;
    const char *line = memchr(s, '\n', (size_t)(end - s)), *stop = line ? memchr(line + 1, '\n', (size_t)(end - line - 1)) : NULL;
    if (!stop) return wrong(m, "a module and a name were expected");
    size_t n = (size_t)(stop - s);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == n && memcmp(known[i], s, n) == 0) {
            cj_pickle *p = value(m, CJ_PICKLE_NAME);
            if (!p) return false;
            p->text = known[i];
            p->n = n;
            m->at += n + 1;
            return push(m, p);
        }
    return cj__bytes_error(m->b, m->at, "arrays, csr matrices, lists and dictionaries were expected, %.*s of %.*s was found",
                           (int)(stop - line - 1 < 60 ? stop - line - 1 : 60), line + 1, (int)(line - s < 60 ? line - s : 60), s);
}

/* callable(arguments), or class.__new__(class, arguments): remembered as what it is, not called. */
static bool object(machine *m)
{
    cj_pickle *arguments = pop(m), *class = arguments ? pop(m) : NULL;
    if (!class) return false;
    if (class->kind != CJ_PICKLE_NAME || arguments->kind != CJ_PICKLE_TUPLE) return wrong(m, "a class and its arguments were expected");
    cj_pickle *p = value(m, CJ_PICKLE_OBJECT);
    if (!p || !append(m, p, (cj_pickle *[]){ class, arguments, NULL }, 3)) return false;
    return push(m, p);
}

static bool build(machine *m)
{
    cj_pickle *state = pop(m);
    size_t low = m->marks ? m->mark[m->marks - 1] : 0;
    if (!state) return false;
    if (m->depth <= low || m->stack[m->depth - 1]->kind != CJ_PICKLE_OBJECT) return wrong(m, "an object that takes a state was expected");
    m->stack[m->depth - 1]->item[2] = state;
    return true;
}

static bool append_one(machine *m)
{
    cj_pickle *p = pop(m);
    size_t low = m->marks ? m->mark[m->marks - 1] : 0;
    if (!p) return false;
    if (m->depth <= low || m->stack[m->depth - 1]->kind != CJ_PICKLE_LIST) return wrong(m, "a list was expected on the stack");
    return append(m, m->stack[m->depth - 1], &p, 1);
}

static bool set_item(machine *m)
{
    size_t low = m->marks ? m->mark[m->marks - 1] : 0;
    if (m->marks == 256 || m->depth - low < 3) return wrong(m, "a key and a value were expected");
    m->mark[m->marks++] = m->depth - 2;
    return extend(m, CJ_PICKLE_DICT);
}

/* The opcode `op`; *done after the last one. */
static bool step(machine *m, int op, bool *done)
{
    static const unsigned char arguments[256] = { ['K'] = 1, ['M'] = 2, ['J'] = 4, ['G'] = 8, ['U'] = 1,  ['T'] = 4, ['X'] = 4,
                                                  ['q'] = 1, ['r'] = 4, ['h'] = 1, ['j'] = 4, [0x80] = 1, [0x8a] = 1 };
    size_t size = arguments[op], from, n;
    const unsigned char *p = cj__bytes_at(m->b, m->at, size, "an argument");
    if (!p) return false;
    m->at += size;
    uint32_t count = size == 1 ? p[0] : size == 2 ? cj__get16(p) : size == 4 ? cj__get32(p) : 0;
    switch (op) {
    case 0x80: return p[0] <= 2 || cj__bytes_error(m->b, m->at - 1, "protocol 0, 1 or 2 was expected, %d was found", p[0]);
    case '.': return *done = true;
    case '(':
        if (m->marks == 256) return wrong(m, "at most 256 marks were expected");
        m->mark[m->marks++] = m->depth;
        return true;
    case 'N': return push(m, value(m, CJ_PICKLE_NONE));
    case 0x88: return number(m, 1);
    case 0x89: return number(m, 0);
    case 'K':
    case 'M': return number(m, count);
    case 'J': return number(m, (int32_t)count);
    case 'G': {
        uint64_t u = cj__get64_big(p);
        double d;
        return memcpy(&d, &u, 8), number(m, d);
    }
    case 0x8a: { /* a little-endian integer of count bytes */
        const unsigned char *s = cj__bytes_at(m->b, m->at, count, "an integer");
        if (!s) return false;
        if (count > 8) return wrong(m, "an integer of at most 8 bytes was expected");
        uint64_t u = count && s[count - 1] & 0x80 ? UINT64_MAX : 0;
        for (uint32_t i = count; i-- > 0;) u = u << 8 | s[i];
        m->at += count;
        return number(m, (double)(int64_t)u);
    }
    case 'U':
    case 'T':
    case 'X': return text(m, count);
    case 'c': return name(m);
    case ')': return tuple(m, 0);
    case 0x85: return tuple(m, 1);
    case 0x86: return tuple(m, 2);
    case 0x87: return tuple(m, 3);
    case 't': return above_mark(m, &from, &n) && tuple(m, n);
    case ']': return push(m, value(m, CJ_PICKLE_LIST));
    case '}': return push(m, value(m, CJ_PICKLE_DICT));
    case 'a': return append_one(m);
    case 'e': return extend(m, CJ_PICKLE_LIST);
    case 's': return set_item(m);
    case 'u': return extend(m, CJ_PICKLE_DICT);
    case 'q':
    case 'r': return remember(m, count);
    case 'h':
    case 'j': return recall(m, count);
    case 'R':
    case 0x81: return object(m);
    case 'b': return build(m);
    default: return m->at--, cj__bytes_error(m->b, m->at, "an opcode of plain data was expected, %d was found", op);
    }
}

cj_pickle *cj__pickle_read(const cj_bytes *b, void *record)
{
    machine m = { .b = b, .record = record };
    size_t bytes = MAX_STACK * sizeof *m.stack;
    m.stack = cj__alloc(b->ctx, bytes);
    bool ok = m.stack != NULL, done = false;
    while (ok && !done) {
        const unsigned char *p = cj__bytes_at(b, m.at, 1, "an opcode");
        ok = p && (m.at++, step(&m, *p, &done));
    }
    cj_pickle *top = NULL;
    if (ok && m.depth) top = m.stack[m.depth - 1];
    else if (ok) wrong(&m, "a value was expected, none was found");
    if (m.stack) cj__free(b->ctx, m.stack, bytes);
    return top;
}

/* ---- what is inside --------------------------------------------------------------------------------------------------------------------------- */

const cj_pickle *cj__pickle_find(const cj_pickle *dict, const char *key)
{
    if (!dict || dict->kind != CJ_PICKLE_DICT) return NULL;
    for (size_t i = 0; i + 1 < dict->n; i += 2) {
        const cj_pickle *k = dict->item[i];
        if (k->kind == CJ_PICKLE_TEXT && k->n == strlen(key) && memcmp(k->text, key, k->n) == 0) return dict->item[i + 1];
    }
    return NULL;
}

static bool is_object(const cj_pickle *p, const char *class)
{
    return p && p->kind == CJ_PICKLE_OBJECT && strstr(p->item[0]->text, class) && p->item[2] && p->item[2]->kind == CJ_PICKLE_TUPLE;
}

/* _reconstruct(…) with the state (version, shape, dtype, fortran, bytes); dtype("i4", …) with the state (version, "<", …) */
bool cj__pickle_array(const cj_bytes *b, const cj_pickle *p, cj_pickle_array *out)
{
    size_t at = p ? p->at : 0;
    if (!is_object(p, "_reconstruct") || p->item[2]->n != 5) return cj__bytes_error(b, at, "a NumPy array was expected");
    cj_pickle *const *state = p->item[2]->item;
    const cj_pickle *shape = state[1], *dtype = state[2], *bytes = state[4];
    bool known = shape->kind == CJ_PICKLE_TUPLE && shape->n >= 1 && shape->n <= 2 && is_object(dtype, "dtype") && dtype->item[2]->n >= 2 &&
                 dtype->item[1]->n >= 1 && dtype->item[1]->item[0]->kind == CJ_PICKLE_TEXT && bytes->kind == CJ_PICKLE_TEXT &&
                 (state[3]->kind != CJ_PICKLE_NUMBER || state[3]->number == 0);
    if (!known) return cj__bytes_error(b, at, "a NumPy array of one or two dimensions in C order was expected");
    const cj_pickle *type = dtype->item[1]->item[0], *order = dtype->item[2]->item[1];
    bool little = order->kind == CJ_PICKLE_TEXT && order->n == 1 && order->text[0] == '<';
    if (type->n != 2 || !strchr("fiu", type->text[0]) || !strchr("48", type->text[1]) || !little)
        return cj__bytes_error(b, type->at, "a type of f4, f8, i4 or i8, little-endian, was expected, %.*s was found",
                               (int)(type->n < 8 ? type->n : 8), type->text);
    *out = (cj_pickle_array){ .ndim = (int)shape->n, .n = 1, .type = type->text[0], .size = (size_t)(type->text[1] - '0') };
    for (int d = 0; d < out->ndim; d++) {
        double v = shape->item[d]->kind == CJ_PICKLE_NUMBER ? shape->item[d]->number : -1;
        if (!(v >= 0 && v * (double)out->n <= (double)bytes->n))
            return cj__bytes_error(b, shape->at, "sizes that fit %zu bytes were expected", bytes->n);
        out->dim[d] = (int64_t)v;
        out->n *= out->dim[d];
    }
    if ((size_t)out->n * out->size != bytes->n)
        return cj__bytes_error(b, bytes->at, "%zu bytes of an array were expected, %zu were found", (size_t)out->n * out->size, bytes->n);
    out->data = (const unsigned char *)bytes->text;
    return true;
}

double cj__pickle_element(const cj_pickle_array *a, int64_t i)
{
    const unsigned char *p = a->data + (size_t)i * a->size;
    uint64_t u = a->size == 8 ? cj__get64(p) : cj__get32(p);
    uint32_t w = (uint32_t)u;
    double d;
    float f;
    if (a->type == 'f') return a->size == 8 ? (memcpy(&d, &u, 8), d) : (memcpy(&f, &w, 4), (double)f);
    if (a->type == 'u') return (double)u;
    return a->size == 8 ? (double)(int64_t)u : (double)(int32_t)w;
}
