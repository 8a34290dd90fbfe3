#include "report/findings.h"

#include <math.h>
#include <string.h>

#include "report/table.h"

static void put_number(es_sink *s, es_format format, double value, double error)
{
    char text[ES_FORMAT_ROOM];
    es_sink_put(s, es_format_number(format, value, error, text, sizeof text));
}

/* ---- converge ---- */

/* "n^-0.512 (± 0.031)" */
static void put_power(es_sink *s, const es_run_table *fits, const char *rate, const char *se,
                      int64_t row)
{
    const double value = es_book_real(fits, rate, row);
    if (!isfinite(value)) {
        es_sink_put(s, "no power that could be fitted");
        return;
    }
    char text[ES_FORMAT_ROOM];
    es_format_number(ES_FORMAT_REAL, fabs(value), es_book_real(fits, se, row), text, sizeof text);
    char *error = strstr(text, " ±");
    if (error)
        *error++ = '\0';
    es_sink_format(s, "<i>n</i><sup>%s%s</sup>", value < 0.0 ? "" : "−", text);
    if (error)
        es_sink_format(s, " (%s)", error);
}

static void put_rates(es_sink *s, const es_run_table *fits, int64_t row)
{
    es_sink_put(s, "<p class=\"finding\">At scale ");
    put_number(s, ES_FORMAT_SHORT, es_book_real(fits, "scale", row), (double)NAN);
    es_sink_put(s, " (<i>H</i> = ");
    put_number(s, ES_FORMAT_SHORT, es_book_real(fits, "horizon", row), (double)NAN);
    es_sink_put(s, ") the mean error falls like ");
    put_power(s, fits, "rate_mean", "rate_mean_se", row);
    es_sink_put(s, ", the covariance error like ");
    put_power(s, fits, "rate_cov", "rate_cov_se", row);
    es_sink_put(s, " and the error of a single output like ");
    put_power(s, fits, "rate_map", "rate_map_se", row);
    es_sink_put(s, "; the paper’s bound is <i>n</i><sup>−");
    put_number(s, ES_FORMAT_SHORT, es_book_real(fits, "rate_horizon", row), (double)NAN);
    es_sink_put(s, "</sup>.</p>\n");
}

/* Relative distances between what was measured and what was predicted, three kinds of error. */
static void put_agreement(es_sink *s, const es_run_table *t)
{
    enum { MOST = 600 };
    static const char *const pairs[][2] = {{"mean_error", "predicted_mean_error"},
                                           {"cov_error", "predicted_cov_error"},
                                           {"map_error", "predicted_map_error"}};
    double off[3 * MOST];
    size_t count = 0;
    for (int64_t i = 0; i < t->rows && i < MOST; i++)
        for (int k = 0; k < 3; k++) {
            const double measured = es_book_real(t, pairs[k][0], i);
            const double distance = fabs(es_book_real(t, pairs[k][1], i) / measured - 1.0);
            if (isfinite(distance))
                off[count++] = 100.0 * distance;
        }
    if (count == 0)
        return;
    es_table_sort(off, count);
    es_sink_format(s,
                   "<p class=\"finding\">Without any fitted constant, theory gives the measured "
                   "errors within %.2g %% in the median and %.2g %% at worst.</p>\n",
                   off[count / 2], off[count - 1]);
}

static void tell_converge(es_sink *s, const es_book *book)
{
    enum { MOST = 4 }; /* sentences; the table has the rest */
    const es_book_table *fits = es_book_find(book, "fits");
    const es_book_table *predictions = es_book_find(book, "predictions");
    const int64_t rows = fits ? fits->data.rows : 0;
    const int64_t step = rows > MOST ? (rows - 1) / (MOST - 1) : 1;
    for (int64_t i = 0; i < rows; i += step)
        put_rates(s, &fits->data, i);
    if (predictions)
        put_agreement(s, &predictions->data);
}

/* ---- hardmax ---- */

/* A number of tokens, which may have many digits: "4096", "3.2 · 10^8". */
static void put_size(es_sink *s, double n)
{
    if (!(n >= 1e6)) {
        put_number(s, ES_FORMAT_COUNT, n, (double)NAN);
        return;
    }
    const int k = (int)floor(log10(n) + 1e-9);
    const double lead = n / pow(10.0, k);
    if (fabs(lead - 1.0) > 5e-3)
        es_sink_format(s, "%.3g · ", lead);
    es_sink_format(s, "10<sup>%d</sup>", k);
}

static void tell_hardmax(es_sink *s, const es_book *book)
{
    const es_book_table *table = es_book_find(book, "rows");
    if (!table || table->data.rows == 0)
        return;
    const es_run_table *t = &table->data;
    const int64_t last = t->rows - 1;
    const double exact = es_book_real(t, "exact", last);
    const double leading = es_book_real(t, "asymptotic", last);
    es_sink_put(s, "<p class=\"finding\">At <i>n</i> = ");
    put_size(s, es_book_real(t, "n", last));
    es_sink_put(s, " the mean output still has size ");
    put_number(s, ES_FORMAT_REAL, es_book_real(t, "mean_abs", last),
               es_book_real(t, "mean_abs_se", last));
    es_sink_put(s, ", though its limit is 0: convergence is logarithmic.");
    if (isfinite(exact)) {
        es_sink_put(s, " The exact expectation is ");
        put_number(s, ES_FORMAT_REAL, exact, (double)NAN);
        es_sink_format(s, " (%.2g standard errors away); the leading term is %.2g %% off.",
                       fabs(es_book_real(t, "z", last)), 100.0 * fabs(leading / exact - 1.0));
    }
    es_sink_put(s, "</p>\n");
}

/* ---- ball ---- */

static void tell_ball(es_sink *s, const es_book *book)
{
    const es_book_table *growth = es_book_find(book, "growth");
    const int64_t last = growth ? growth->data.rows - 1 : -1;
    if (last < 0 || !isfinite(es_book_real(&growth->data, "slope", last)))
        return;
    const double predicted = es_book_real(&growth->data, "slope_predicted", last);
    const double sharp = es_book_real(&growth->data, "slope_sharp", last);
    es_sink_put(s, "<p class=\"finding\">At <i>n</i> = ");
    put_size(s, es_book_real(&growth->data, "n", last));
    es_sink_put(s, " the logarithm of the worst error on a ball grows by ");
    put_number(s, ES_FORMAT_REAL, es_book_real(&growth->data, "slope", last),
               es_book_real(&growth->data, "slope_se", last));
    es_sink_put(s, " per unit of <i>R</i>²; ");
    if (isfinite(predicted)) {
        put_number(s, ES_FORMAT_SHORT, predicted, (double)NAN);
        es_sink_put(s, " is predicted for these radii. For large <i>R</i> ");
    }
    if (isfinite(sharp)) {
        es_sink_put(s, "the sharp constant of Gaussian tokens grows by ");
        put_number(s, ES_FORMAT_SHORT, sharp, (double)NAN);
        es_sink_put(s, isfinite(predicted) ? ", " : " for large <i>R</i>, ");
    }
    es_sink_put(s, "the papers’ bound by ");
    put_number(s, ES_FORMAT_SHORT, es_book_real(&growth->data, "slope_bound", last), (double)NAN);
    es_sink_put(s, ".</p>\n");
}

/* ---- tails ---- */

static void tell_tails(es_sink *s, const es_book *book)
{
    const es_book_table *table = es_book_find(book, "rows");
    if (!table || table->data.rows == 0)
        return;
    const es_run_table *t = &table->data;
    long long heavier = 0, lighter = 0;
    double most = 0.0;
    for (int64_t i = 0; i < t->rows; i++) {
        const char *verdict = es_book_text(t, "verdict", i);
        heavier += strncmp(verdict, "heavier", 7) == 0;
        lighter += strncmp(verdict, "lighter", 7) == 0;
        most = fmax(most, es_book_real(t, "proxy", i)); /* NaN does not count */
    }
    es_sink_format(s,
                   "<p class=\"finding\">Of %lld directions, %lld have heavier tails than Gaussian "
                   "tokens and %lld lighter ones",
                   (long long)t->rows, heavier, lighter);
    if (most > 0.0) {
        es_sink_put(s, "; the largest variance proxy is ");
        put_number(s, ES_FORMAT_SHORT, most, (double)NAN);
        es_sink_put(s, " variances");
    }
    es_sink_put(s, ".</p>\n");
}

/* ---- probe ---- */

/* The numbers of a column, in order; how many there are, at most `most`. */
static size_t sorted_column(const es_run_table *t, const char *name, double *out, size_t most)
{
    size_t count = 0;
    for (int64_t i = 0; i < t->rows && count < most; i++) {
        out[count] = es_book_real(t, name, i);
        if (isfinite(out[count]))
            count++;
    }
    es_table_sort(out, count);
    return count;
}

/* Median of a column of exponents, in words around it; nothing if it has none. */
static void put_median(es_sink *s, const es_run_table *t, const char *before, const char *name)
{
    enum { MOST = 4096 };
    double values[MOST];
    const size_t count = sorted_column(t, name, values, MOST);
    if (count == 0)
        return;
    es_sink_put(s, before);
    put_number(s, ES_FORMAT_SHORT, values[(count - 1) / 2], (double)NAN);
}

static bool has_domains(const es_run_table *heads) { return *es_book_text(heads, "domain", 0); }

static const char *what_is_counted(const es_run_table *heads)
{
    return has_domains(heads) ? "pairs of a head and a domain" : "heads";
}

static void put_head_rates(es_sink *s, const es_run_table *heads)
{
    enum { MOST = 4096 };
    double rate[MOST];
    const size_t count = sorted_column(heads, "rate_map", rate, MOST);
    if (count == 0)
        return;
    es_sink_format(s,
                   "<p class=\"finding\">Of %lld %s the middle one’s single outputs converge like "
                   "<i>n</i><sup>−",
                   (long long)count, what_is_counted(heads));
    put_number(s, ES_FORMAT_SHORT, rate[(count - 1) / 2], (double)NAN);
    es_sink_put(s, "</sup>, four fifths of them with exponents from ");
    put_number(s, ES_FORMAT_SHORT, rate[(count - 1) / 10], (double)NAN);
    es_sink_put(s, " to ");
    put_number(s, ES_FORMAT_SHORT, rate[9 * (count - 1) / 10], (double)NAN);
    put_median(s, heads, "; Gaussian tokens of the same covariance would give ",
               "rate_map_predicted");
    put_median(s, heads, ", the paper’s exponent is ", "rate_horizon");
    es_sink_put(s, " in the middle.</p>\n");
}

/* The head that needs most tokens, and how many heads need more than were drawn. */
static void put_slowest(es_sink *s, const es_run_table *heads, const es_run_table *rows)
{
    int64_t slowest = -1;
    long long beyond = 0;
    double most = 0.0, drawn = 0.0;
    for (int64_t i = 0; i < rows->rows; i++)
        drawn = fmax(drawn, es_book_real(rows, "n", i));
    for (int64_t i = 0; i < heads->rows; i++) {
        const double tokens = es_book_real(heads, "tokens_for_tenth", i);
        beyond += tokens > drawn;
        if (tokens > most) {
            most = tokens;
            slowest = i;
        }
    }
    if (slowest < 0)
        return;
    es_sink_format(s, "<p class=\"finding\">%lld of %lld %s need more than the ", beyond,
                   (long long)heads->rows, what_is_counted(heads));
    put_number(s, ES_FORMAT_COUNT, drawn, (double)NAN);
    es_sink_put(s, " tokens that were drawn for an error below a tenth of their outputs’ spread; "
                   "the slowest, ");
    es_sink_format(s, "layer %.0f, head %.0f", es_book_real(heads, "layer", slowest),
                   es_book_real(heads, "head", slowest));
    if (has_domains(heads)) {
        es_sink_put(s, " on ");
        es_sink_text(s, es_book_text(heads, "domain", slowest));
    }
    es_sink_put(s, ", needs ");
    const double digit = pow(10.0, floor(log10(most)) - 1.0); /* two are known */
    put_number(s, ES_FORMAT_COUNT, digit * ceil(most / digit), (double)NAN);
    es_sink_put(s, es_book_real(heads, "thin", slowest) > 0.5 ? " or more.</p>\n" : ".</p>\n");
}

static void tell_probe(es_sink *s, const es_book *book)
{
    const es_book_table *heads = es_book_find(book, "heads"), *rows = es_book_find(book, "rows");
    if (!heads || !rows || heads->data.rows == 0)
        return;
    put_head_rates(s, &heads->data);
    put_slowest(s, &heads->data, &rows->data);
}

/* ---- claims ---- */

static void tell_claims(es_sink *s, const es_book *book)
{
    const es_book_table *table = es_book_find(book, "claims");
    if (!table || table->data.rows == 0)
        return;
    long long holds = 0, fails = 0, known = 0;
    for (int64_t i = 0; i < table->data.rows; i++) {
        const char *verdict = es_book_text(&table->data, "verdict", i);
        const bool failed = strcmp(verdict, "does not hold") == 0;
        holds += strcmp(verdict, "holds") == 0;
        fails += failed;
        known += failed && strcmp(es_book_text(&table->data, "expected", i), verdict) == 0;
    }
    const long long rest = (long long)table->data.rows - holds - fails;
    es_sink_format(s, "<p class=\"finding\">Of %lld statements, %lld hold%s and %lld do%s not",
                   (long long)table->data.rows, holds, holds == 1 ? "s" : "", fails,
                   fails == 1 ? "es" : "");
    if (known > 0)
        es_sink_format(s, " (%lld of these known to mislead)", known);
    if (rest > 0)
        es_sink_format(s, "; %lld %s not decided at this effort", rest, rest == 1 ? "is" : "are");
    es_sink_put(s, ".</p>\n");
}

/* ---- the table of them ---- */

static const struct {
    const char *command;
    void (*tell)(es_sink *s, const es_book *book);
} findings[] = {{"converge", tell_converge}, {"hardmax", tell_hardmax}, {"ball", tell_ball},
                {"probe", tell_probe},       {"tails", tell_tails},     {"claims", tell_claims}};

void es_findings_html(es_sink *s, const es_book *book)
{
    for (size_t i = 0; i < sizeof findings / sizeof findings[0]; i++)
        if (strcmp(findings[i].command, book->about.command) == 0)
            findings[i].tell(s, book);
}
