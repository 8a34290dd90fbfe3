/* SPDX-License-Identifier: Apache-2.0 */
/* esscher tokenize : token ids of a text, line by line. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <esscher/model.h>
#include <esscher/tokenizer.h>

#include "json_text.h"
#include "talk.h"
#include "text.h"

typedef struct tokenize_options {
    const char *text, *model;
    int invalid;
    bool no_special;
} tokenize_options;

static const char *const invalid_names[] = {"replace", "error", "replace-all", NULL};

static const cli_option operand = {"text",
                                   0,
                                   ES_PARAM_FILE,
                                   "FILE",
                                   "a text in UTF-8; -: standard input (the default)",
                                   .field = offsetof(tokenize_options, text)};

static const cli_option options[] = {
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "directory with tokenizer.json or vocab.txt, one of these files, a GGUF file, or org/name in "
     "the Hugging Face cache",
     .field = offsetof(tokenize_options, model)},
    {"no-special", 0, CLI_FLAG, NULL,
     "leave out the special tokens that the model expects around a text",
     .field = offsetof(tokenize_options, no_special)},
    {"invalid", 0, CLI_CHOICE, "WHAT",
     "what to do with bytes that are not UTF-8; replace: use U+FFFD, as Python's decoder does, but "
     "refuse a text with more than 1 % of them; error: refuse the text and name the byte; "
     "replace-all: use U+FFFD for any number of them",
     .field = offsetof(tokenize_options, invalid), .choices = invalid_names,
     .default_value = "replace"},
    {0}};

/* ---- tokens out ---- */

typedef struct printer {
    const es_tokenizer *tokenizer;
    bool json, csv;
    int64_t line, words;    /* lines begun; tokens that are not specials around a line */
    int64_t printed;        /* tokens of this line */
    char *tokens, *offsets; /* of this line, as JSON: three lists that are printed one by one */
    size_t tokens_size, offsets_size;
    FILE *tokens_file, *offsets_file;
    cli_json page; /* the answer, if it is JSON */
} printer;

/* Begins a line. Ids are printed at once; texts and offsets are collected in memory until the ids
 * of the line are complete. */
static void begin_line(printer *p)
{
    p->printed = 0;
    if (p->json) {
        fputs(p->line ? ", {\"ids\": [" : "{\"ids\": [", p->page.out);
        p->tokens_file = open_memstream(&p->tokens, &p->tokens_size);
        p->offsets_file = open_memstream(&p->offsets, &p->offsets_size);
    }
    p->line++;
}

/* Prints a token's id and collects its text and offsets. */
static void json_token(printer *p, const es_token *token, const char *text)
{
    const char *comma = p->printed++ ? ", " : "";
    fprintf(p->page.out, "%s%d", comma, token->id);
    if (p->tokens_file) {
        fputs(comma, p->tokens_file);
        cli_json_text(p->tokens_file, text);
    }
    if (p->offsets_file)
        fprintf(p->offsets_file, "%s[%lld, %lld]", comma, (long long)token->begin,
                (long long)token->end);
}

/* Prints a text with quotes where CSV needs them. */
static void csv_text(const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++)
        printf(*text == '"' ? "\"\"" : "%c", *text);
    putchar('"');
}

/* Prints one token as a row. */
static void print_csv(const printer *p, const es_token *token, const char *text)
{
    printf("%lld,%d,", (long long)p->line, token->id);
    csv_text(text);
    printf(",%lld,%lld\n", (long long)token->begin, (long long)token->end);
}

/* Receives tokens from the tokenizer and prints them in the chosen format. */
static es_status print_tokens(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    printer *p = user;
    (void)err;
    for (int64_t i = 0; i < count; i++) {
        const char *text = es_tokenizer_token(p->tokenizer, tokens[i].id);
        p->words += tokens[i].end > tokens[i].begin;
        if (p->json)
            json_token(p, &tokens[i], text);
        else if (p->csv)
            print_csv(p, &tokens[i], text);
        else
            printf(p->printed++ ? " %d" : "%d", tokens[i].id);
    }
    return ES_OK;
}

/* Ends an output line: for JSON it writes the collected texts and offsets. */
static void end_line(printer *p)
{
    if (!p->json) {
        fputs(p->csv ? "" : "\n", stdout);
        return;
    }
    if (p->tokens_file)
        fclose(p->tokens_file);
    if (p->offsets_file)
        fclose(p->offsets_file);
    fprintf(p->page.out, "], \"tokens\": [%s], \"offsets\": [%s]}", p->tokens ? p->tokens : "",
            p->offsets ? p->offsets : "");
    free(p->tokens);
    free(p->offsets);
    p->tokens = p->offsets = NULL;
}

/* ---- text in ---- */

typedef struct reader {
    FILE *file;
    const char *name; /* for messages */
    es_token_stream *stream;
    printer *printer;
    int64_t start, at; /* offsets in the file: of the line, of the next byte */
    bool open;         /* inside a line */
} reader;

/* Converts an offset within the line, as the library reports it, to one within the file. */
static es_status locate(const reader *r, es_status status, es_error *err)
{
    if (status != ES_E_FORMAT)
        return status;
    const int64_t offset = r->start + err->offset;
    cli_fail(err, status, r->name, "text.utf8",
             "convert the text to UTF-8, or remove --invalid error",
             "line %lld: this byte is not UTF-8", (long long)r->printer->line);
    err->offset = offset;
    return status;
}

/* Finishes an input line: flushes the tokenizer. */
static es_status finish_line(reader *r, es_error *err)
{
    const es_status status = locate(r, es_token_stream_finish(r->stream, err), err);
    end_line(r->printer);
    r->open = false;
    r->start = r->at;
    return status;
}

/* Splits a block of input at newlines and feeds the tokenizer. */
static es_status read_block(reader *r, const char *block, size_t bytes, es_error *err)
{
    es_status status = ES_OK;
    for (size_t at = 0; at < bytes && status == ES_OK;) {
        const char *end = memchr(block + at, '\n', bytes - at);
        const size_t length = (end ? (size_t)(end - block) : bytes) - at;
        if (!r->open)
            begin_line(r->printer);
        r->open = true;
        status = locate(r, es_token_stream_write(r->stream, block + at, length, err), err);
        at += length + (end ? 1 : 0);
        r->at += (int64_t)length + (end ? 1 : 0);
        if (end && status == ES_OK)
            status = finish_line(r, err);
    }
    return status;
}

/* Reads the input in blocks until its end, a signal, or a closed stdout. */
static es_status read_text(reader *r, es_error *err)
{
    static char block[1 << 16];
    es_status status = ES_OK;
    /* stop when stdout is closed; main() reports why */
    for (bool first = true; status == ES_OK && !ferror(stdout); first = false) {
        size_t bytes;
        status = cli_text_read(r->file, r->name, block, sizeof block, &bytes, err);
        if (status != ES_OK || bytes == 0)
            break;
        if (first)
            status = es_text_check(block, bytes < 4096 ? bytes : 4096, r->name, err);
        if (status == ES_OK)
            status = read_block(r, block, bytes, err);
        if (status == ES_OK && cli_interrupted())
            status = ES_E_INTERRUPTED;
    }
    if (status == ES_E_INTERRUPTED)
        return cli_fail(err, status, r->name, "", "", "interrupted; the output ends at line %lld",
                        (long long)r->printer->line);
    if (status == ES_OK && r->open)
        status = finish_line(r, err);
    return status;
}

/* Reports bytes that were not UTF-8 and became U+FFFD. */
static void report_replaced(const cli_session *session, const reader *r)
{
    char shown[256];
    int64_t line, at;
    const int64_t count = es_token_stream_replaced(r->stream, &line, &at);
    if (count && !session->common.quiet)
        fprintf(stderr,
                "esscher tokenize: %s: line %lld, byte %lld of it: not UTF-8, taken for U+FFFD; "
                "%lld such in the text\n",
                cli_escape(r->name, shown, sizeof shown), (long long)line + 1, (long long)at,
                (long long)count);
}

/* ---- the command ---- */

/* Opens the tokenizer's stream, reads the text and prints the answer. */
static es_status tokenize(cli_session *session, const tokenize_options *o, FILE *file,
                          const es_tokenizer *tokenizer, es_error *err)
{
    printer p = {.tokenizer = tokenizer, .json = session->common.json, .csv = session->common.csv};
    reader r = {.file = file, .name = o->text ? o->text : "stdin", .printer = &p};
    const es_encode_opts opts = {.no_specials = o->no_special,
                                 .invalid = (es_text_invalid)o->invalid};
    es_status status = es_token_stream_open(tokenizer, &opts, print_tokens, &p, &r.stream, err);
    if (status != ES_OK)
        return status;
    session->printed = true;
    if (p.json && (status = cli_json_begin(session, &p.page, err)) == ES_OK) {
        cli_json_key(p.page.out, "lines", &p.page.first, 1);
        putc('[', p.page.out);
    } else if (p.csv) {
        puts("line,id,token,begin,end");
    }
    if (status == ES_OK)
        status = read_text(&r, err);
    if (o->invalid != ES_TEXT_ERROR)
        report_replaced(session, &r);
    if (status == ES_OK) {
        const int64_t count = es_token_stream_replaced(r.stream, NULL, NULL);
        status = es_text_check_replaced(count, r.at, opts.invalid, r.name, -1, err);
    }
    es_token_stream_close(r.stream);
    if (status == ES_OK && p.words == 0)
        status = cli_fail(err, ES_E_EMPTY, r.name, "text.empty", "give a text with words in it",
                          "there are no tokens: the text is empty, or holds only white space and "
                          "control characters");
    if (p.json && p.page.out)
        putc(']', p.page.out);
    return p.json ? cli_json_end(&p.page, status) : status;
}

/* Opens model and text. */
static es_status run(cli_session *session, void *given, es_error *err)
{
    tokenize_options *o = given;
    es_tokenizer *tokenizer;
    if (o->text && strcmp(o->text, "-") == 0)
        o->text = NULL; /* lines are read as they come: no copy is needed */
    if (!o->model)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "tokenize.options",
                        "esscher tokenize --model FOLDER [FILE]", "missing --model");
    char folder[4096];
    struct stat st;
    es_status status = ES_OK;
    if (stat(o->model, &st) == 0) /* a folder, or one of its files */
        snprintf(folder, sizeof folder, "%s", o->model);
    else
        status = es_model_locate(o->model, folder, sizeof folder, err);
    if (status == ES_OK)
        status = es_tokenizer_open(folder, NULL, &tokenizer, err);
    if (status != ES_OK)
        return status;
    FILE *file = stdin;
    if (o->text)
        status = cli_text_open(o->text, &file, err);
    if (status == ES_OK)
        status = tokenize(session, o, file, tokenizer, err);
    if (file && o->text)
        fclose(file);
    es_tokenizer_free(tokenizer);
    return status;
}

static const char *const examples[] = {
    "esscher tokenize --model models/minilm book.txt",
    "echo 'Attention is a tilt.' | esscher tokenize --model models/minilm --json", NULL};

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "the token ids of a text, from the model's own tokenizer",
    .usage = "--model MODEL [FILE] [options]",
    .about =
        "Prints one line per input line: the ids of its tokens. The special tokens that the model "
        "expects around a text ([CLS] and [SEP] for BERT) are included unless --no-special is "
        "given. The tokenizer is WordPiece, byte-pair encoding (GPT-2, Llama, Mistral, Qwen, "
        "Gemma) "
        "or Unigram (XLM-RoBERTa). Lines are read and printed as they come; memory does not depend "
        "on "
        "their length, except for a line that is one word.\n\n--json prints {\"lines\": [{\"ids\", "
        "\"tokens\", \"offsets\"}]} and holds all of it in memory; --csv prints one row per token. "
        "Offsets are the bytes [begin, end) of the line from which a token was made, 0 and 0 for "
        "added special tokens.\n\nA text without any token is an error (exit code 3). So is a text "
        "of which more than 1 % is not UTF-8; its lines are printed first.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT,
    .size = sizeof(tokenize_options),
    .run = run,
};
