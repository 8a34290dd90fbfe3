/* studies.h : the studies of the house, each described in a file of its own. */
#ifndef ES_STUDY_STUDIES_H
#define ES_STUDY_STUDIES_H

#include <esscher/study.h>

extern const es_study es_study_converge, es_study_rope, es_study_context_fit, es_study_exponent,
    es_study_limit, es_study_theory, es_study_regimes;

#endif
