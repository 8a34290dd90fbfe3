/* limit_map.h : what the files of the limit map and its moments share. */
#ifndef ES_LIMIT_LIMIT_MAP_H
#define ES_LIMIT_LIMIT_MAP_H

#include <esscher/limit.h>

/*! es_limit_check() : es_law_check(), and a head whose matrices are finite. */
es_status es_limit_check(const es_law *law, const es_limit_head *head, es_error *err);

/*! es_limit_dv() : channels of the output. */
int64_t es_limit_dv(const es_law *law, const es_limit_head *head);

/*! es_limit_rows() : es_limit_map() after es_limit_check(). */
es_status es_limit_rows(const es_law *law, const es_limit_head *head, const es_view *x,
                        const es_exec *exec, double *out, es_num *log_mgf, double *error,
                        es_error *err);

/*! es_limit_line() : mean and variance of K'(a X), X of a law on the line, by Gauss rules of more
 *  and more points. Errors are the change by the last refinement. */
es_status es_limit_line(const es_law *law, double a, const es_exec *exec, es_num *mean,
                        es_num *variance, es_error *err);

#endif
