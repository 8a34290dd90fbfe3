/* SPDX-License-Identifier: Apache-2.0 */
/* papers.c : the experiments of the papers, one row each. A row is a command line of a study, so
 * that an experiment needs no code of its own; docs/PAPERS.md has a section for each. */
#include "papers.h"

#include <string.h>

static const char tsc[] = "2512.10656";     /* Token Sample Complexity of Attention */
static const char limits[] = "2605.08505";  /* Scaling Limits of Long-Context Transformers */
static const char phase[] = "2510.05554";   /* Critical attention scaling */
static const char longer[] = "2309.16039";  /* Effective Long-Context Scaling */
static const char unified[] = "2605.12697"; /* A unified framework for critical scaling */

static const cli_paper_row rows[] = {
    {"tsc-gaussian", tsc,
     "rates of mean and covariance against H: Gaussian tokens, d = 50, n = 1e3..3e4",
     .words = {"converge", "--preset", "paper", "--predict"},
     .quick = {"--n", "250..1000*3", "--scales", "0.5,50", "--replicates", "8"},
     .figure = "Rates against the horizon, as in the paper", .cost = "25 min of one core"},
    {"tsc-sphere", tsc,
     "rates of mean and covariance against H: tokens on the sphere, d = 50, n = 1e4..1e5",
     .words = {"converge", "--law", "sphere", "--preset", "paper"},
     .quick = {"--n", "500..4000*4", "--scales", "5e3,5e7,5e11", "--replicates", "4"},
     .figure = "Rates against the horizon, as in the paper", .cost = "2 h of one core"},
    {"tsc-bert", tsc,
     "n = 64..384 tokens of a passage attend over each other; layer 0 is the paper's",
     .words = {"probe", "--protocol", "paper", "--look", "limit", "--pool", "4096", "--n",
               "64..384*10", "--replicates", "500"},
     .quick = {"--n", "16..64*3", "--replicates", "4", "--pool", "512", "--query-count", "64",
               "--exact-queries", "4", "--control", "0"},
     .inputs = "--model BERT --text FILE",
     .figure = "Rates against the horizon, by the papers' protocol", .cost = "8 min of MiniLM"},
    {"tsc-bigbird-iid", tsc,
     "m = 1000..3000 i.i.d. tokens of texts of 4096, 122 texts; also the windows",
     .words = {"sparse", "--preset", "paper", "--layer", "0", "--contexts", "122", "--replicates",
               "500"},
     .quick = {"--contexts", "1", "--replicates", "2", "--query-count", "4"},
     .inputs = "--model BIGBIRD --text FILE", .figure = "Mean square error of",
     .cost = "7 h of normal tokens"},
    {"tsc-bigbird-window", tsc,
     "windows of half-width 500..1500 and 50 random tokens, 122 texts; also i.i.d. tokens",
     .words = {"sparse", "--preset", "paper", "--layer", "0", "--contexts", "122", "--replicates",
               "500", "--random", "50"},
     .quick = {"--contexts", "1", "--replicates", "2", "--query-count", "4"},
     .inputs = "--model BIGBIRD --text FILE", .figure = "Mean square error of",
     .cost = "7 h of normal tokens"},
    {"tsc-downstream", tsc,
     "accuracy, agreement and KL of a classifier whose heads keep n = 64..4096 random keys",
     .words = {"downstream", "--policy", "random", "--keys", "64..4096*20", "--most", "500",
               "--replicates", "20"},
     .quick = {"--keys", "2,8", "--most", "12", "--replicates", "2"},
     .inputs = "--model CLASSIFIER --tasks T.tsv",
     .figure = "Accuracy against the keys that are kept", .cost = "depends on the model"},
    {"tsc-downstream-horizon", tsc,
     "the same by thirds of the texts: smallest, middle and largest horizon of their own tokens",
     .words = {"downstream", "--policy", "random", "--keys", "64..4096*20", "--most", "500",
               "--replicates", "20", "--text-strata"},
     .quick = {"--keys", "2,8", "--most", "12", "--replicates", "2"},
     .inputs = "--model CLASSIFIER --tasks T.tsv",
     .figure = "Divergence against the keys that are kept, by horizon of the texts",
     .cost = "depends on the model"},
    {"tsc-tsne", tsc,
     "outputs over 3000 and 10000 tokens beside their limit, in the plane of t-SNE",
     .words = {"picture", "--layer", "0", "--n", "3000,10000", "--perplexity", "50"},
     .quick = {"--n", "16,64", "--pool", "2048", "--query-count", "40", "--steps", "100",
               "--perplexity", "10"},
     .inputs = "--model MODEL --text FILE", .figure = "Outputs over", .cost = "40 s of MiniLM"},
    {"scaling-limits-weights", limits,
     "uniform keys on the sphere: who shares the weight below, at and above beta = n^(2/(D-1))",
     .words = {"regimes", "--dim", "3,5,10", "--n", "1e3,1e6,1e9,1e12", "--b", "0.01..100*9"},
     .quick = {"--dim", "5", "--n", "1e3,1e6", "--b", "0.1,1,10", "--replicates", "100"},
     .figure = "Concentration of the weights", .cost = "30 s"},
    {"scaling-limits-outputs", limits,
     "keys around a direction (vmf): drift and covariance of the output, predicted and measured",
     .words = {"regimes", "--key-law", "vmf", "--kappa", "5", "--cosine", "0.3", "--dim", "8",
               "--n", "1e3,1e4,1e5", "--beta", "1,2,4,8"},
     .quick = {"--n", "1e2,1e3", "--beta", "2,4", "--replicates", "100"},
     .figure = "Bias: how far the output stays behind the query", .cost = "1 min"},
    {"scaling-limits-critical", limits,
     "the critical scale, beta = n^(2/(D-1)): ordered weights against the limit law",
     .words = {"regimes", "--dim", "5", "--n", "1e2..1e12*6", "--b", "1", "--replicates", "10000"},
     .quick = {"--n", "1e3,1e9", "--replicates", "200"}, .figure = "Weights in order",
     .cost = "20 s"},
    {"scaling-limits-exponent", limits,
     "density like distance^2 near the query: another local exponent, another critical scale",
     .words = {"regimes", "--key-law", "vanishing", "--power", "2", "--dim", "5", "--n",
               "1e3..1e12*4", "--b", "0.1,1,10", "--replicates", "4000"},
     .quick = {"--n", "1e3,1e6", "--b", "1", "--replicates", "200"},
     .figure = "Concentration of the weights", .cost = "20 s"},
    {"scaling-limits-heat", limits,
     "drift of a query against grad log density, and tokens moved by their own attention",
     .words = {"heat", "--beta", "10..1000*5", "--particles", "2000"},
     .quick = {"--beta", "10,100", "--n", "2000", "--replicates", "4", "--particles", "128",
               "--steps", "4", "--particle-sets", "2"},
     .figure = "How fast the drift becomes the gradient", .cost = "5 s"},
    {"critical-phase", phase,
     "phase diagram of beta = gamma log n: do tokens of cosine rho merge or stay apart?",
     .words = {"collapse", "--phase", "--curves", "--n", "1e5"}, .quick = {"--n", "1000"},
     .figure = "Phase diagram", .cost = "1 s"},
    {"long-context-loss", longer,
     "loss by position with other bases of rotary positions, and its fit (alpha/c)^beta + gamma",
     .words = {"loss", "--rope", "none,linear:4,base:500000", "--context",
               "512,1024,2048,4096,8192"},
     .quick = {"--context", "64,128", "--blocks", "2"}, .inputs = "--model DECODER --text FILE",
     .figure = "Loss by position", .cost = "13 min of 26 M parameters"},
    {"gap-counting", unified,
     "critical inverse temperature of each query from its gaps between scores, with its bounds",
     .words = {"measure", "--full"}, .quick = {NULL}, .inputs = "--q Q.npy --k K.npy --v V.npy",
     .cost = "seconds"},
};
enum { ROWS = sizeof rows / sizeof *rows };

const cli_paper_row *cli_paper_at(int at) { return at >= 0 && at < ROWS ? &rows[at] : NULL; }

const cli_paper_row *cli_paper_find(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
