/* studies.c : where a study is registered. */
#include "study/studies.h"

#include <string.h>

static const es_study *const studies[] = {&es_study_converge, &es_study_probe, &es_study_tails};

enum { COUNT = sizeof studies / sizeof studies[0] };

const es_study *es_study_at(int64_t at) { return at >= 0 && at < COUNT ? studies[at] : NULL; }

const es_study *es_study_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(studies[i]->name, name) == 0)
            return studies[i];
    return NULL;
}
