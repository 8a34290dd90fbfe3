/* studies.h : the studies of the house, each described in a file of its own. */
#ifndef ES_STUDY_STUDIES_H
#define ES_STUDY_STUDIES_H

#include <esscher/study.h>

extern const es_study es_study_converge, es_study_probe, es_study_tails;

#endif
