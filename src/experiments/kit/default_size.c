/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/default_size.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* ---- which sizes fit ---- */

/* Returns the smaller of two numbers. */
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the usual value of a size: of blocks, how many the text has at their present length. */
static int64_t most_of(const es_sizing *s, int number)
{
    const es_size *size = &s->sizes[number];
    int64_t most = size->of ? size->usual / s->sizes[size->of - 1].value : size->usual;
    if (size->most)
        most = smaller(most, size->most);
    return most > 1 ? most : 1;
}

/* Sets all values to the usual ones or, if that is less, to caps (n_sizes), and returns the
 * operations of such a run. Lengths come first: the number of blocks depends on them. */
static double work_within(const es_sizing *s, const int64_t *caps)
{
    int64_t values[ES_MOST_SIZES] = {0};
    for (int blocks = 0; blocks < 2; blocks++)
        for (int i = 0; i < s->n_sizes; i++)
            if (!s->sizes[i].of == !blocks)
                s->sizes[i].value = smaller(most_of(s, i), caps[i]);
    for (int i = 0; i < s->n_sizes; i++)
        values[i] = s->sizes[i].value;
    return s->work(s->user, values);
}

/* Returns whether a run within caps takes no longer than a default run should. */
static bool fits(const es_sizing *s, const int64_t *caps)
{
    return work_within(s, caps) <= ES_DEFAULT_WORK;
}

/* Raises the cap of a length to the longest of usual, usual / 2, ... up to `most` that fits. */
static void raise_length(const es_sizing *s, int number, int64_t most, int64_t *caps)
{
    const int64_t least = caps[number];
    for (int64_t n = s->sizes[number].usual; n > least; n /= 2) {
        caps[number] = n;
        if (n <= most && fits(s, caps))
            return;
    }
    caps[number] = least;
}

/* Raises the cap of a number to the largest up to `most` that fits. */
static void raise_number(const es_sizing *s, int number, int64_t most, int64_t *caps)
{
    int64_t low = caps[number], high = most;
    while (low < high) {
        caps[number] = low + (high - low + 1) / 2;
        if (fits(s, caps))
            low = caps[number];
        else
            high = caps[number] - 1;
    }
    caps[number] = low;
}

/* Raises the size of a step up to its value before the step. */
static void take_back(const es_sizing *s, int step, int64_t *caps)
{
    const int number = s->steps[step].size;
    int64_t most = s->sizes[number].usual;
    for (int i = 0; i < step; i++)
        if (s->steps[i].size == number)
            most = smaller(most, s->steps[i].least);
    work_within(s, caps); /* sets the length of blocks */
    if (s->sizes[number].halves)
        raise_length(s, number, most, caps);
    else
        raise_number(s, number, smaller(most, most_of(s, number)), caps);
}

bool es_sizes_fit(const es_sizing *s)
{
    int64_t caps[ES_MOST_SIZES];
    int taken = 0;
    for (int i = 0; i < ES_MOST_SIZES; i++)
        caps[i] = INT64_MAX;
    if (fits(s, caps))
        return false;
    while (taken < s->n_steps && !fits(s, caps)) {
        const es_size_step *step = &s->steps[taken++];
        if (!s->sizes[step->size].fixed)
            caps[step->size] = step->least;
    }
    while (taken-- > 0)
        if (!s->sizes[s->steps[taken].size].fixed)
            take_back(s, taken, caps);
    work_within(s, caps);
    for (int i = 0; i < s->n_sizes; i++)
        if (caps[i] < s->sizes[i].usual)
            return true;
    return false;
}

/* ---- what was chosen ---- */

enum { SIZE = 160 };

/* Writes "--blocks 9", as the option takes it. */
static void say_size(const es_sizing *s, int number, int64_t value, char out[SIZE])
{
    const es_size *size = &s->sizes[number];
    const int64_t times = size->of && size->in_tokens ? s->sizes[size->of - 1].value : 1;
    snprintf(out, SIZE, "--%s %lld", size->option, (long long)(value * times));
}

/* Returns what a size could be: what it usually is; of a length, what the model can read. */
static int64_t could_be(const es_sizing *s, int number)
{
    const es_size *size = &s->sizes[number];
    return size->longest && !size->fixed ? size->longest : most_of(s, number);
}

/* Returns whether a size is below what it could be. */
static bool is_lower(const es_sizing *s, int number)
{
    return s->sizes[number].value < could_be(s, number);
}

/* Writes what more of the first averaged size that was lowered would bring: up to four times as
 * many, for half the error. "" if there is no such size. */
static void say_more(const es_sizing *s, char out[2 * SIZE])
{
    int64_t values[ES_MOST_SIZES] = {0};
    int lowered = -1;
    *out = '\0';
    for (int i = s->n_sizes - 1; i >= 0; i--) {
        values[i] = s->sizes[i].value;
        lowered = s->sizes[i].averaged && is_lower(s, i) ? i : lowered;
    }
    if (lowered < 0)
        return;
    const double now = s->work(s->user, values), few = (double)values[lowered];
    values[lowered] = smaller(4 * values[lowered], most_of(s, lowered));
    char option[SIZE];
    say_size(s, lowered, values[lowered], option);
    snprintf(out, 2 * SIZE, " %s takes %.1f times as long and divides errors by %.1f.", option,
             s->work(s->user, values) / now, sqrt((double)values[lowered] / few));
}

void es_sizes_add_finding(const es_sizing *s, es_answer *answer)
{
    char chosen[ES_MOST_SIZES * 2 * SIZE] = "", one[SIZE], most[SIZE], more[2 * SIZE];
    int64_t values[ES_MOST_SIZES] = {0};
    for (int i = 0; i < s->n_sizes; i++) {
        values[i] = s->sizes[i].value;
        if (!is_lower(s, i))
            continue;
        const size_t used = strlen(chosen);
        say_size(s, i, values[i], one);
        say_size(s, i, could_be(s, i), most);
        snprintf(chosen + used, sizeof chosen - used, "%s%s (of %s)", used ? ", " : "", one,
                 strchr(most, ' ') + 1);
    }
    if (!*chosen)
        return;
    const double minutes = s->work(s->user, values) / ES_DEFAULT_SPEED / 60.0;
    say_more(s, more);
    es_answer_add_finding(
        answer, "Default sizes for this model and text are %s: about %.2g min on two cores.%s",
        chosen, minutes, more);
}

/* ---- lengths that suit a text ---- */

int64_t es_default_length(int64_t positions, int64_t tokens, int64_t blocks)
{
    const int64_t wanted = blocks && blocks < ES_SIZE_BLOCKS ? blocks : ES_SIZE_BLOCKS;
    int64_t n = positions;
    if (positions <= ES_SIZE_CONTEXT || tokens < 2 * ES_SIZE_CONTEXT)
        return positions;
    while (n > ES_SIZE_CONTEXT && tokens / n < wanted)
        n = n / 2 > ES_SIZE_CONTEXT ? n / 2 : ES_SIZE_CONTEXT;
    return n;
}

es_status es_count_tokens(const es_blocks_spec *spec, es_mem_limit *budget, int64_t *out,
                          es_error *err)
{
    es_blocks_spec all = *spec;
    es_blocks blocks = {0};
    all.counted = true;
    const es_status status = es_blocks_read(&all, budget, &blocks, err);
    if (status == ES_OK)
        *out = blocks.start[blocks.count];
    es_blocks_free(&blocks);
    return status;
}
