/* head.h : is a head a head? */
#ifndef ES_THEORY_HEAD_H
#define ES_THEORY_HEAD_H

#include <esscher/theory.h>

/*! es_head_check() : shapes that fit and finite numbers in cov and all matrices of the head. */
es_status es_head_check(const es_view *cov, const es_head *head, es_error *err);

#endif
