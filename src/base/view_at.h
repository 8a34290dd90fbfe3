/* SPDX-License-Identifier: Apache-2.0 */
/* view_at.h : the one place that reads an element through a view. */
#ifndef ES_BASE_VIEW_AT_H
#define ES_BASE_VIEW_AT_H

#include <string.h>

#include <esscher/view.h>

/* memcpy because a view into a file mapping may start at any byte. */
static inline double es_view_at(const es_view *v, int64_t row, int64_t col)
{
    const char *at = (const char *)v->data + row * v->row_stride + col * v->col_stride;
    if (v->dtype == ES_F32) {
        float f;
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    double d;
    memcpy(&d, at, sizeof d);
    return d;
}

#endif
