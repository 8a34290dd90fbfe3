/* pack.h : a matrix rearranged so that a tile reads it from front to back. */
#ifndef ES_ATTENTION_PACK_H
#define ES_ATTENTION_PACK_H

#include <esscher/view.h>

/*! es_pack() : rows of v in groups, each group stored column by column:
 *      out (ceil(rows/group), cols, group),  out[g][j][r] = factor * v[g*group + r][j],
 *  zero where row g*group + r does not exist. `out` has elements of type `dtype`.
 *  Queries: group = lanes. Keys: group = 4. Values: the transposed view, so that a group is 4
 * channels. */
void es_pack(const es_view *v, int64_t group, double factor, es_dtype dtype, void *out);

/*! es_pack_rows() : rows [first, first+count) of v as a kernel of type `dtype` reads them, *stride
 * elements apart: where they lie, if their type and layout allow it, or else copied to `copy`, with
 * room for (count, cols); NULL if there is none. */
const void *es_pack_rows(const es_view *v, int64_t first, int64_t count, es_dtype dtype, void *copy,
                         int64_t *stride);

#endif
