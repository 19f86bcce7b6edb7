/* Graphs: compressed sparse rows from edges, and GML (M. Himsolt, "GML: A portable graph file format", 1997): keys with a number, a quoted text or a list
 * in brackets.
 */
#include <math.h>
#include <stdlib.h>

#include "data/graph.h"

static int by_ends(const void *a, const void *b)
{
    const cj_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

bool cj__graph_edges(cj_graph *g, cj_edge *edge, int64_t n, bool weights)
{
    cj_ctx *c = cj__record_ctx(g);
    int64_t kept = 0;
    qsort(edge, (size_t)n, sizeof *edge, by_ends);
    for (int64_t i = 0; i < n; i++)
        if (!kept || edge[kept - 1].from != edge[i].from || edge[kept - 1].to != edge[i].to) edge[kept++] = edge[i];
    size_t bytes = (size_t)(g->nodes + 1 + kept) * sizeof(int64_t);
    int64_t *offset = cj__zalloc(c, bytes), *target = offset ? offset + g->nodes + 1 : NULL;
    if (!offset) return false;
    for (int64_t i = 0; i < kept; i++) {
        offset[edge[i].from + 1]++;
        target[i] = edge[i].to;
    }
    for (int64_t i = 0; i < g->nodes; i++) offset[i + 1] += offset[i];
    g->edges = kept;
    bool ok = cj__record_tensor(g, g->offset = cj_from_i64(c, offset, CJ_SHAPE(g->nodes + 1))) &&
              cj__record_tensor(g, g->target = cj_from_i64(c, target, CJ_SHAPE(kept)));
    if (ok && weights) {
        float *w = (float *)(void *)offset;
        for (int64_t i = 0; i < kept; i++) w[i] = edge[i].weight;
        ok = cj__record_tensor(g, g->weight = cj_from_f32(c, w, CJ_SHAPE(kept)));
    }
    cj__free(c, offset, bytes);
    return ok;
}

void cj_graph_free(cj_graph *g) { cj__record_free(g); }

/* ---- GML -------------------------------------------------------------------------------------------------------------------------------------- */

typedef struct gml {
    const cj_bytes *b;
    const char *at, *end;
    cj_graph *g;
    cj_edge *edge;
    int64_t *id;
    size_t *node_at, *edge_at; /* where in the file each begins */
    const char **label;
    int64_t nodes, edges, room; /* room: of each array, what the file can hold */
    bool weights, labels;
} gml;

static size_t offset_of(const gml *s) { return (size_t)(s->at - (const char *)s->b->data); }

static void skip_blanks(gml *s)
{
    for (; s->at < s->end; s->at++) {
        if (*s->at == '#')
            while (s->at < s->end && *s->at != '\n') s->at++;
        if (s->at >= s->end || (unsigned char)*s->at > ' ') return;
    }
}

static bool key_char(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_'; }

/* A key; an empty one at the end of a list or of the file. */
static void key(gml *s, char out[32])
{
    size_t n = 0;
    skip_blanks(s);
    for (; s->at < s->end && key_char(*s->at); s->at++)
        if (n < 31) out[n++] = *s->at;
    out[n] = 0;
    skip_blanks(s);
}

typedef struct value {
    bool text;
    double number;
    const char *s;
    size_t n;
} value;

static bool scalar(gml *s, value *v)
{
    *v = (value){ 0 };
    if (s->at < s->end && *s->at == '"') {
        v->text = true;
        v->s = ++s->at;
        while (s->at < s->end && *s->at != '"') s->at++;
        if (s->at >= s->end) return cj__bytes_error(s->b, s->b->n, "a closing quote was expected, the end of the file was found");
        v->n = (size_t)(s->at++ - v->s);
        return true;
    }
    if (cj__read_number(&s->at, s->end, &v->number)) return true;
    return cj__bytes_error(s->b, offset_of(s), "a number, a text in quotes or a list in brackets was expected");
}

static bool skip_value(gml *s, int depth)
{
    char k[32];
    value v;
    if (s->at >= s->end || *s->at != '[') return scalar(s, &v);
    if (depth > 64) return cj__bytes_error(s->b, offset_of(s), "lists nested at most 64 deep were expected");
    for (s->at++;;) {
        key(s, k);
        if (!*k) break;
        if (!skip_value(s, depth + 1)) return false;
    }
    if (s->at >= s->end || *s->at != ']') return cj__bytes_error(s->b, offset_of(s), "a key or ] was expected");
    s->at++;
    return true;
}

static bool whole(double v) { return v == floor(v) && fabs(v) < 1e15; }

/* node [ id 3 label "x" ] or edge [ source 1 target 2 value 0.5 ] */
static bool item(gml *s, bool node)
{
    char k[32];
    value v;
    size_t start = offset_of(s);
    double first = NAN, second = node ? 0 : NAN, weight = 1;
    const char *label = NULL;
    if (s->at >= s->end || *s->at++ != '[') return cj__bytes_error(s->b, start, "[ was expected after node or edge");
    for (key(s, k); *k; key(s, k)) {
        if (s->at < s->end && *s->at == '[') {
            if (!skip_value(s, 0)) return false;
            continue;
        }
        if (!scalar(s, &v)) return false;
        if (!v.text && strcmp(k, node ? "id" : "source") == 0) first = v.number;
        if (!v.text && !node && strcmp(k, "target") == 0) second = v.number;
        if (!v.text && !node && (strcmp(k, "value") == 0 || strcmp(k, "weight") == 0)) weight = v.number, s->weights = true;
        if (v.text && node && strcmp(k, "label") == 0 && !(label = cj__record_text(s->g, v.s, v.n))) return false;
    }
    if (s->at >= s->end || *s->at != ']') return cj__bytes_error(s->b, offset_of(s), "a key or ] was expected");
    s->at++;
    if (!whole(first) || !whole(second))
        return cj__bytes_error(s->b, start, "%s was expected in whole numbers", node ? "an id" : "a source and a target");
    if (node) {
        s->id[s->nodes] = (int64_t)first;
        s->node_at[s->nodes] = start;
        s->label[s->nodes++] = label ? label : "";
        s->labels |= label != NULL;
    } else {
        s->edge_at[s->edges] = start;
        s->edge[s->edges] = (cj_edge){ (int64_t)first, (int64_t)second, (float)weight, s->edges };
        s->edges++;
    }
    return true;
}

static bool graph(gml *s)
{
    char k[32];
    value v;
    if (s->at >= s->end || *s->at != '[') return cj__bytes_error(s->b, offset_of(s), "[ was expected after graph");
    s->at++;
    for (key(s, k); *k; key(s, k)) {
        bool node = strcmp(k, "node") == 0;
        if (node || strcmp(k, "edge") == 0) {
            if (!item(s, node)) return false;
        } else if (strcmp(k, "directed") == 0) {
            if (!scalar(s, &v)) return false;
            s->g->directed = v.number != 0;
        } else if (!skip_value(s, 0)) {
            return false;
        }
    }
    if (s->at >= s->end || *s->at != ']') return cj__bytes_error(s->b, offset_of(s), "a key or ] was expected");
    s->at++;
    return true;
}

typedef struct place {
    int64_t id, index;
} place;
static int by_id(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Ids to numbers 0 … nodes - 1 in the order of the file; undirected edges in both directions. */
static bool number_nodes(gml *s)
{
    cj_ctx *c = s->b->ctx;
    size_t bytes = (size_t)s->nodes * sizeof(place);
    place *sorted = cj__alloc(c, bytes ? bytes : 1);
    bool ok = sorted != NULL;
    for (int64_t i = 0; ok && i < s->nodes; i++) sorted[i] = (place){ s->id[i], i };
    if (ok) qsort(sorted, (size_t)s->nodes, sizeof *sorted, by_id);
    for (int64_t i = 1; ok && i < s->nodes; i++)
        if (sorted[i].id == sorted[i - 1].id)
            ok = cj__bytes_error(s->b, s->node_at[sorted[i].index > sorted[i - 1].index ? sorted[i].index : sorted[i - 1].index],
                                 "every id once was expected, %lld was found twice", (long long)sorted[i].id);
    int64_t n = s->edges;
    for (int64_t i = 0; ok && i < n; i++) {
        const place *from = bsearch(&(place){ s->edge[i].from, 0 }, sorted, (size_t)s->nodes, sizeof *sorted, by_id);
        const place *to = bsearch(&(place){ s->edge[i].to, 0 }, sorted, (size_t)s->nodes, sizeof *sorted, by_id);
        if (!from || !to) {
            ok = cj__bytes_error(s->b, s->edge_at[i], "edges between nodes were expected, node %lld was found in edge %lld only",
                                 (long long)(from ? s->edge[i].to : s->edge[i].from), (long long)i);
            break;
        }
        s->edge[i].from = from->index;
        s->edge[i].to = to->index;
        if (!s->g->directed && from != to) s->edge[s->edges++] = (cj_edge){ to->index, from->index, s->edge[i].weight, i };
    }
    if (sorted) cj__free(c, sorted, bytes ? bytes : 1);
    return ok;
}

static cj_graph *gml_read(const cj_bytes *b)
{
    cj_ctx *c = b->ctx;
    const char *text = (const char *)b->data;
    cj_graph *g = cj__record_new(c, sizeof *g);
    if (!g) return NULL;
    gml s = { .b = b, .at = text, .end = text + b->n, .g = g };
    for (size_t i = 0; i + 4 <= b->n; i++) s.room += memcmp(text + i, "node", 4) == 0 || memcmp(text + i, "edge", 4) == 0;
    size_t room = (size_t)s.room + 1, edge_bytes = 2 * room * sizeof *s.edge, id_bytes = room * (sizeof *s.id + 2 * sizeof *s.node_at);
    s.label = cj__record_alloc(g, room * sizeof *s.label);
    s.edge = s.label ? cj__alloc(c, edge_bytes) : NULL;
    s.id = s.edge ? cj__alloc(c, id_bytes) : NULL;
    s.node_at = s.id ? (size_t *)(void *)(s.id + room) : NULL;
    s.edge_at = s.id ? s.node_at + room : NULL;
    bool ok = s.id != NULL, found = false;
    char k[32];
    while (ok && !found) {
        key(&s, k);
        if (!*k) ok = cj__bytes_error(b, offset_of(&s), "graph [ of a GML file was expected");
        else if (strcmp(k, "graph") == 0) found = ok = graph(&s);
        else ok = skip_value(&s, 0);
    }
    ok = ok && number_nodes(&s);
    g->nodes = s.nodes;
    if (ok && s.labels) g->label = s.label;
    ok = ok && cj__graph_edges(g, s.edge, s.edges, s.weights);
    if (s.edge) cj__free(c, s.edge, edge_bytes);
    if (s.id) cj__free(c, s.id, id_bytes);
    if (ok) return g;
    cj__record_free(g);
    return NULL;
}

cj_graph *cj_gml_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_gml_load", path)) return NULL;
    cj_graph *g = gml_read(&b);
    cj__bytes_free(&b);
    return g;
}
