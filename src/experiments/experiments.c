/* SPDX-License-Identifier: Apache-2.0 */
/* experiments.c : registers the studies: one word each in this list. Help sorts them by
 * es_study.group and keeps this order within a group. Each study is described in
 * experiments/NAME/question.c. */
#include <string.h>

#include <esscher/study.h>

#define STUDIES(STUDY)                                                                             \
    STUDY(probe)                                                                                   \
    STUDY(loss)                                                                                    \
    STUDY(budget)                                                                                  \
    STUDY(sparse)                                                                                  \
    STUDY(downstream)                                                                              \
    STUDY(depth)                                                                                   \
    STUDY(tails)                                                                                   \
    STUDY(picture)                                                                                 \
    STUDY(measure)                                                                                 \
    STUDY(claims)                                                                                  \
    STUDY(converge)                                                                                \
    STUDY(regimes)                                                                                 \
    STUDY(collapse)                                                                                \
    STUDY(heat)                                                                                    \
    STUDY(ball)                                                                                    \
    STUDY(hardmax)                                                                                 \
    STUDY(sink)                                                                                    \
    STUDY(exponent)                                                                                \
    STUDY(rope)                                                                                    \
    STUDY(context_fit)                                                                             \
    STUDY(limit)                                                                                   \
    STUDY(theory)                                                                                  \
    STUDY(compare)                                                                                 \
    STUDY(selfcheck)

#define DECLARE(name) extern const es_study es_study_##name;
#define LIST(name)    &es_study_##name,
STUDIES(DECLARE)
static const es_study *const studies[] = {STUDIES(LIST)};

enum { COUNT = sizeof studies / sizeof studies[0] };

const es_study *es_study_at(int64_t at) { return at >= 0 && at < COUNT ? studies[at] : NULL; }

const es_study *es_study_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(studies[i]->name, name) == 0)
            return studies[i];
    return NULL;
}
