/* Graphs from lists of edges: what the readers of graphs share. */
#ifndef CJ_DATA_GRAPH_H
#define CJ_DATA_GRAPH_H

#include "data/bytes.h"

typedef struct cj_edge {
    int64_t from, to;
    float weight;
    int64_t order; /* among repeated edges the one of the lowest order stays */
} cj_edge;

/* Sorts the edges, drops repeated ones and fills offset, target and, with weights, weight.  Both directions of an undirected edge
 * are among them. */
bool cj__graph_edges(cj_graph *g, cj_edge *edge, int64_t n, bool weights);

#endif
