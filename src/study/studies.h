/* studies.h : the studies of the house, each described in a file of its own. */
#ifndef ES_STUDY_STUDIES_H
#define ES_STUDY_STUDIES_H

#include <esscher/study.h>

extern const es_study es_study_collapse, es_study_converge, es_study_heat, es_study_measure;

#endif
