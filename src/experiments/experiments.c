/* experiments.c : where a study is registered: a word in this list, in the order in which help
 * shows them. Each is described in a file of its own, NAME_study.c. */
#include <string.h>

#include <esscher/study.h>

#define STUDIES(STUDY)                                                                             \
    STUDY(claims)                                                                                  \
    STUDY(converge)                                                                                \
    STUDY(ball)                                                                                    \
    STUDY(hardmax)                                                                                 \
    STUDY(regimes)                                                                                 \
    STUDY(heat)                                                                                    \
    STUDY(collapse)                                                                                \
    STUDY(sink)                                                                                    \
    STUDY(exponent)                                                                                \
    STUDY(context_fit)                                                                             \
    STUDY(rope)                                                                                    \
    STUDY(limit)                                                                                   \
    STUDY(theory)                                                                                  \
    STUDY(probe)                                                                                   \
    STUDY(tails)                                                                                   \
    STUDY(sparse)                                                                                  \
    STUDY(depth)                                                                                   \
    STUDY(downstream)                                                                              \
    STUDY(loss)                                                                                    \
    STUDY(budget)                                                                                  \
    STUDY(picture)                                                                                 \
    STUDY(measure)                                                                                 \
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
