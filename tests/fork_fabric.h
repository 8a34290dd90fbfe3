/* SPDX-License-Identifier: Apache-2.0 */
/* fork_fabric.h : ranks for tests: processes that were forked, and a pair of sockets between any
 * two of them. A rank that dies closes its sockets, which is how the others notice.
 *
 *     static int rank_main(const es_fabric *fabric, void *user) { ...; return 0; }
 *     int codes[3];
 *     fork_ranks(3, rank_main, &user, codes);        exit codes; 128 + signal of those that died
 *
 * All ranks are children, rank 0 too: the test's own process stays without OpenMP's threads, which
 * do not survive a fork. */
#ifndef ES_FORK_FABRIC_H
#define ES_FORK_FABRIC_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <esscher/executor.h>
#include <esscher/study.h>

#include "folder.h"

enum { FORK_RANKS = 16 };

typedef struct fork_state {
    int fd[FORK_RANKS]; /* to each other rank; -1: itself, or gone */
    pthread_mutex_t sending[FORK_RANKS], receiving;
    int64_t *events; /* shared with the test: how many this rank has had */
    int64_t kill_at; /* event at which this rank kills itself; 0: never */
} fork_state;

static fork_state *fork_self; /* of this rank; NULL in the test's own process */

/* Counts an event of this rank: a message begun, half sent or received. Kills the rank at the event
 * that the test has chosen, which is the same place however busy the machine is. */
static inline void fork_event(void)
{
    if (fork_self &&
        __atomic_add_fetch(fork_self->events, 1, __ATOMIC_SEQ_CST) == fork_self->kill_at)
        raise(SIGKILL);
}

static const char *fork_host(const es_fabric *self, int rank)
{
    static const char *const hosts[] = {"alpha", "beta", "gamma", "delta"};
    (void)self;
    return hosts[rank % 4];
}

static es_status fork_lost(int rank, es_error *e)
{
    if (e) {
        memset(e, 0, sizeof *e);
        e->code = ES_E_IO;
        snprintf(e->rule, sizeof e->rule, "ranks.lost");
        snprintf(e->message, sizeof e->message, "rank %d on %s is gone", rank,
                 fork_host(NULL, rank));
    }
    return ES_E_IO;
}

static bool fork_all(int fd, void *bytes, size_t size, bool out)
{
    for (size_t at = 0; at < size;) {
        const ssize_t n = out ? send(fd, (char *)bytes + at, size - at, MSG_NOSIGNAL)
                              : recv(fd, (char *)bytes + at, size - at, 0);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return false;
    }
    return true;
}

static es_status fork_send(const es_fabric *self, int to, const void *bytes, size_t size,
                           es_error *e)
{
    fork_state *s = self->state;
    uint64_t length = size;
    pthread_mutex_lock(&s->sending[to]);
    fork_event();
    bool well = fork_all(s->fd[to], &length, sizeof length, true);
    fork_event();
    well = well && fork_all(s->fd[to], (void *)(uintptr_t)bytes, size, true);
    pthread_mutex_unlock(&s->sending[to]);
    return well ? ES_OK : fork_lost(to, e);
}

static es_status fork_take(const es_fabric *self, int from, es_message *out, es_error *e)
{
    fork_state *s = self->state;
    uint64_t length;
    if (!fork_all(s->fd[from], &length, sizeof length, false))
        return fork_lost(from, e);
    *out = (es_message){.from = from, .bytes = malloc(length ? length : 1), .size = length};
    if (out->bytes && fork_all(s->fd[from], out->bytes, length, false)) {
        fork_event();
        return ES_OK;
    }
    free(out->bytes);
    *out = (es_message){0};
    return fork_lost(from, e);
}

static es_status fork_receive(const es_fabric *self, double seconds, es_message *out, es_error *e)
{
    fork_state *s = self->state;
    struct pollfd fds[FORK_RANKS];
    es_status status = ES_OK;
    *out = (es_message){0};
    for (int i = 0; i < self->ranks; i++)
        fds[i] = (struct pollfd){.fd = s->fd[i], .events = POLLIN};
    pthread_mutex_lock(&s->receiving);
    if (poll(fds, (nfds_t)self->ranks, (int)(1000.0 * seconds)) > 0)
        for (int i = 0; i < self->ranks && status == ES_OK && !out->bytes; i++)
            if (fds[i].revents)
                status = fork_take(self, i, out, e);
    pthread_mutex_unlock(&s->receiving);
    return status;
}

typedef int (*fork_main)(const es_fabric *fabric, void *user);

/* Ranks that have come to their end wait for the others, as a fabric's close() does. */
typedef struct fork_gate {
    int open;
    int ended[FORK_RANKS]; /* 1 + exit code of a rank that is there */
    int64_t events[FORK_RANKS];
} fork_gate;

/* A rank that kills itself at one of its events (fork_event), counted from 1; at = 0: none. */
typedef struct fork_kill {
    int rank;
    int64_t at;
} fork_kill;

static void fork_child(int rank, int ranks, int fd[FORK_RANKS][FORK_RANKS], fork_gate *gate,
                       fork_kill who, fork_main start, void *user)
{
    fork_state s = {.receiving = PTHREAD_MUTEX_INITIALIZER,
                    .events = &gate->events[rank],
                    .kill_at = rank == who.rank ? who.at : 0};
    fork_self = &s;
    for (int i = 0; i < ranks; i++) {
        s.fd[i] = fd[rank][i];
        pthread_mutex_init(&s.sending[i], NULL);
        for (int j = 0; j < ranks; j++)
            if (i != rank && fd[i][j] >= 0)
                close(fd[i][j]);
    }
    const es_fabric fabric = {.name = "fork",
                              .rank = rank,
                              .ranks = ranks,
                              .state = &s,
                              .host = fork_host,
                              .send = fork_send,
                              .receive = fork_receive};
    alarm(120); /* for safety only: a test that hangs fails */
    const int code = start(&fabric, user);
    __atomic_store_n(&gate->ended[rank], 1 + code, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&gate->open, __ATOMIC_SEQ_CST))
        usleep(500); /* until all have ended, however long that takes */
    exit(code);
}

/* Waits until all ranks are gone; codes (ranks). The pause between two looks decides nothing. */
static void fork_wait(int ranks, const pid_t *pids, fork_gate *gate, int *codes)
{
    int gone = 0, ended = 0;
    bool is_gone[FORK_RANKS] = {false};
    while (gone < ranks) {
        for (int rank = 0; rank < ranks; rank++) {
            int status;
            if (is_gone[rank] || waitpid(pids[rank], &status, WNOHANG) != pids[rank])
                continue;
            const int code = __atomic_load_n(&gate->ended[rank], __ATOMIC_SEQ_CST) - 1;
            codes[rank] = code >= 0           ? code
                          : WIFEXITED(status) ? WEXITSTATUS(status)
                                              : 128 + WTERMSIG(status);
            is_gone[rank] = true;
            gone++;
        }
        ended = 0;
        for (int rank = 0; rank < ranks; rank++)
            ended += is_gone[rank] || __atomic_load_n(&gate->ended[rank], __ATOMIC_SEQ_CST);
        if (ended == ranks)
            __atomic_store_n(&gate->open, 1, __ATOMIC_SEQ_CST);
        usleep(500);
    }
}

/* Runs ranks, one of which may kill itself; codes (ranks), events (ranks) that each has had. */
static void fork_ranks_killing(int ranks, fork_main start, void *user, fork_kill who, int *codes,
                               int64_t *events)
{
    int fd[FORK_RANKS][FORK_RANKS];
    pid_t pids[FORK_RANKS];
    fork_gate *gate =
        mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(gate != MAP_FAILED);
    memset(fd, -1, sizeof fd);
    for (int i = 0; i < ranks; i++)
        for (int j = 0; j < i; j++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            fd[i][j] = pair[0];
            fd[j][i] = pair[1];
        }
    fflush(NULL);
    for (int rank = 0; rank < ranks; rank++) {
        pids[rank] = fork();
        assert_at_least(pids[rank], 0);
        if (pids[rank] == 0)
            fork_child(rank, ranks, fd, gate, who, start, user);
    }
    for (int i = 0; i < ranks; i++)
        for (int j = 0; j < ranks; j++)
            if (fd[i][j] >= 0)
                close(fd[i][j]);
    fork_wait(ranks, pids, gate, codes);
    memcpy(events, gate->events, (size_t)ranks * sizeof *events);
    munmap(gate, sizeof *gate);
}

static inline void fork_ranks(int ranks, fork_main start, void *user, int *codes)
{
    int64_t events[FORK_RANKS];
    fork_ranks_killing(ranks, start, user, (fork_kill){0, 0}, codes, events);
}

/* ---- a study over them ---- */

typedef struct fork_study {
    const char *const *words; /* name, then option and value, NULL-ended */
    uint64_t seed;
    int threads;
    const char *json; /* the answer of rank 0 goes here */
    const char *out;  /* run file, which is resumed; NULL: none */
} fork_study;

static bool fork_write(void *user, const char *bytes, size_t size)
{
    return fwrite(bytes, 1, size, user) == size;
}

static inline int fork_run_study(const es_fabric *fabric, void *user)
{
    const fork_study *a = user;
    es_executor *executor;
    es_params *params;
    es_answer *answer = NULL;
    es_error e = {0};
    const es_study *study = es_study_find(a->words[0]);
    es_status status = es_ranks_new(fabric, &executor, &e);
    if (status == ES_OK)
        status = es_params_new(study->params, study->size, &params, &e);
    for (int i = 1; status == ES_OK && a->words[i]; i += 2)
        status = es_params_set(params, a->words[i], a->words[i + 1], &e);
    const es_study_opts opts = {.seed = a->seed,
                                .exec = {.threads = a->threads, .executor = executor},
                                .out = a->out,
                                .resume = a->out != NULL};
    if (status == ES_OK)
        status = es_study_run(study, params, &opts, &answer, &e);
    if (status == ES_OK && (fabric->rank == 0) != (answer != NULL))
        return 2;
    FILE *f = answer ? fopen(a->json, "wb") : NULL;
    if (answer)
        es_answer_write(answer, ES_ANSWER_JSON, NULL, fork_write, f, &e);
    if (f)
        fclose(f);
    es_answer_free(answer);
    es_params_free(params);
    es_ranks_free(executor);
    if (status != ES_OK && !a->out)
        fprintf(stderr, "rank %d: %s: %s\n", fabric->rank, e.file, e.message);
    return status == ES_OK ? 0 : 1;
}

/* The text of a file without its member "provenance", which is about the machine. */
static inline char *fork_read_answer(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long size = ftell(f);
    rewind(f);
    char *text = calloc((size_t)size + 1, 1);
    assert_int_equal(fread(text, 1, (size_t)size, f), size);
    fclose(f);
    char *from = strstr(text, "\"provenance\":"), *to = from;
    assert_non_null(from);
    int depth = 0;
    do {
        depth += *to == '{' ? 1 : *to == '}' ? -1 : 0;
        to++;
    } while (*to && (depth > 0 || to[-1] != '}'));
    memmove(from, to, strlen(to) + 1);
    return text;
}

/* The answer of so many ranks, through a file in the test's folder. */
static inline char *fork_json(const char *const *words, uint64_t seed, int ranks, int threads)
{
    char path[512];
    int codes[FORK_RANKS];
    snprintf(path, sizeof path, "%s", in_folder("answer.json"));
    fork_study a = {words, seed, threads, path, NULL};
    fork_ranks(ranks, fork_run_study, &a, codes);
    for (int r = 0; r < ranks; r++)
        assert_int_equal(codes[r], 0);
    return fork_read_answer(path);
}

#endif
