/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranks.c : work that processes share: every piece once, whoever does it; failures by name;
 * the same answers for any number of ranks. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, usleep */
#include "testing.h"

#include <signal.h>
#include <sys/mman.h>

#include "base/executor.h"
#include "fork_fabric.h"
#include "ranks/ranks_inside.h"

/* What all ranks see, and the test after them. */
typedef struct board {
    int64_t pieces;
    bool alone, placed; /* pieces work side by side; numbers have their places */
    int threads;
    int64_t fail_at[2], stop_at; /* pieces that fail, at which stop_rank asks to stop; -1 */
    int64_t looks;               /* of piece stop_at, at progress; others look 4 times */
    int64_t kill_at, killed;     /* from it on a piece kills its rank, another than 0, once; -1 */
    bool patient;                /* rank 0 waits in its pieces until another has done one */
    int64_t of_others;           /* pieces that others began */
    int stop_rank;
    int64_t computed[4096], kept[4096]; /* how often */
    int64_t order[4096], begun;         /* pieces in the order in which rank 0 began its own */
    double numbers[4096][3];
    bool heavy;                       /* pieces have weights: piece i weighs i */
    int64_t window, lowest, furthest; /* of the list; first that is not kept; most beyond it */
    es_status status[FORK_RANKS];
    es_error error[FORK_RANKS];
    es_ranks_tally tally;
    bool well;
} board;

#define NOT_WRITTEN ((es_status)-1)

static board *new_board(int64_t pieces)
{
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(b != MAP_FAILED);
    *b = (board){.pieces = pieces,
                 .threads = 1,
                 .fail_at = {-1, -1},
                 .kill_at = -1,
                 .killed = -1,
                 .stop_at = -1,
                 .looks = 4,
                 .stop_rank = -1};
    for (int r = 0; r < FORK_RANKS; r++)
        b->status[r] = NOT_WRITTEN;
    return b;
}

static void free_board(board *b) { munmap(b, sizeof *b); }

static int own_rank;
static int64_t asked; /* the piece that this rank has at hand */

/* Waits until *what is at least `least`, however long that takes. (Other ranks are served by a
 * thread of its own; a rank that hangs is ended by the alarm of fork_child.) */
static void await(const int64_t *what, int64_t least)
{
    while (__atomic_load_n(what, __ATOMIC_SEQ_CST) < least)
        usleep(1000);
}

static void maybe_die(board *b, int64_t piece)
{
    int64_t none = -1;
    if (b->kill_at < 0 || piece < b->kill_at)
        return;
    if (own_rank == 0) /* it leaves some to the others */
        await(&b->killed, 0);
    else if (__atomic_compare_exchange_n(&b->killed, &none, piece, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST))
        raise(SIGKILL);
}

static es_status compute(void *user, int64_t piece, const es_exec *exec, double *out, es_error *e)
{
    board *b = user;
    __atomic_add_fetch(&b->computed[piece], 1, __ATOMIC_RELAXED);
    const int64_t beyond = piece - __atomic_load_n(&b->lowest, __ATOMIC_RELAXED);
    if (beyond > b->furthest)
        b->furthest = beyond;
    if (own_rank == 0)
        b->order[__atomic_fetch_add(&b->begun, 1, __ATOMIC_RELAXED)] = piece;
    else
        __atomic_add_fetch(&b->of_others, 1, __ATOMIC_SEQ_CST);
    maybe_die(b, piece);
    if (own_rank == 0 && b->patient)
        await(&b->of_others, 1);
    if (piece == b->fail_at[0] || piece == b->fail_at[1]) {
        *e = (es_error){.code = ES_E_NUMERIC};
        snprintf(e->message, sizeof e->message, "piece %lld has no answer", (long long)piece);
        return ES_E_NUMERIC;
    }
    asked = piece;
    const int64_t looks = piece == b->stop_at ? b->looks : 4;
    for (int64_t i = 0; i < looks && exec->progress; i++) {
        usleep(100); /* lets other threads have the lock; how long it is decides nothing */
        if (exec->progress(exec->progress_user, (double)i, (double)looks)) {
            *e = (es_error){.code = ES_E_INTERRUPTED};
            return ES_E_INTERRUPTED;
        }
    }
    out[0] = (double)piece;
    out[1] = sqrt((double)piece);
    out[2] = -1.0;
    return ES_OK;
}

static es_status keep(void *user, int64_t piece, const double *numbers, es_error *e)
{
    board *b = user;
    (void)e;
    b->kept[piece]++;
    while (b->lowest < b->pieces && b->kept[b->lowest])
        b->lowest++;
    memmove(b->numbers[piece], numbers, sizeof b->numbers[piece]);
    return ES_OK;
}

static double *place(void *user, int64_t piece) { return ((board *)user)->numbers[piece]; }
static double weight(void *user, int64_t piece) { return (void)user, (double)piece; }

static bool stop_here(void *user, double done, double total)
{
    const board *b = user;
    (void)done, (void)total;
    return own_rank == b->stop_rank && b->stop_at >= 0 && b->computed[b->stop_at] > 0;
}

static int share_work(const es_fabric *fabric, void *user)
{
    board *b = user;
    es_executor *executor;
    int64_t *pieces = calloc((size_t)b->pieces + 1, sizeof *pieces);
    own_rank = fabric->rank;
    for (int64_t i = 0; i < b->pieces; i++)
        pieces[i] = i;
    es_work work = {.noun = "pieces",
                    .pieces = pieces,
                    .count = fabric->rank ? 0 : b->pieces,
                    .numbers = 3,
                    .one_thread_per_cell = b->alone,
                    .window = b->window,
                    .user = b,
                    .weight = b->heavy ? weight : NULL,
                    .destination = b->placed ? place : NULL,
                    .compute = compute,
                    .done = keep};
    es_error e = {0};
    if (es_ranks_new(fabric, &executor, &e) != ES_OK)
        return 1;
    const es_exec exec = {
        .threads = b->threads, .progress = stop_here, .progress_user = b, .executor = executor};
    es_status status = es_work_run(&work, &exec, &e);
    if (b->stop_at >= 0) /* as the driver does */
        status = es_work_agree(&exec, status, "", &e);
    b->status[fabric->rank] = status;
    b->error[fabric->rank] = e;
    if (fabric->rank == 0)
        b->tally = es_ranks_tally_of(executor);
    es_ranks_free(executor);
    free(pieces);
    return 0;
}

static void check_all_done(const board *b, int ranks, const int *codes)
{
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(codes[r], 0);
        if (b->status[r] != ES_OK)
            fail_msg("rank %d: %s", r, b->error[r].message);
    }
    for (int64_t i = 0; i < b->pieces; i++) {
        assert_int_equal(b->computed[i], 1);
        assert_int_equal(b->kept[i], 1);
        assert_equals(b->numbers[i][0], (double)i);
        assert_equals(b->numbers[i][1], sqrt((double)i));
    }
    assert_int_equal(b->tally.pieces + b->tally.own, b->pieces);
}

static void every_piece_is_done_once(void **state)
{
    (void)state;
    const int many[] = {1, 2, 3, 7};
    const int64_t pieces[] = {0, 1, 5, 400};
    for (int r = 0; r < 4; r++)
        for (int p = 0; p < 4; p++)
            for (int way = 0; way < 4; way++) {
                int codes[FORK_RANKS];
                board *b = new_board(pieces[p]);
                b->alone = way & 1;
                b->placed = way & 2;
                b->threads = 1 + (way & 1);
                b->patient = many[r] > 1 && pieces[p] == 400;
                fork_ranks(many[r], share_work, b, codes);
                check_all_done(b, many[r], codes);
                if (b->patient)
                    assert_above(b->tally.pieces, 0);
                free_board(b);
            }
}

static void large_pieces_are_begun_first(void **state)
{
    (void)state;
    int codes[FORK_RANKS];
    board *b = new_board(100);
    b->heavy = true;
    fork_ranks(3, share_work, b, codes);
    check_all_done(b, 3, codes);
    for (int64_t i = 1; i < b->begun; i++) /* those of rank 0: as they come */
        assert_below(b->order[i], b->order[i - 1]);
    free_board(b);
}

/* Of pieces that are folded in order, few may come early: also where the first takes longest. */
static void early_pieces_are_few(void **state)
{
    (void)state;
    int codes[FORK_RANKS];
    board *b = new_board(300);
    b->window = 5;
    b->stop_at = 10; /* one that takes long; no rank asks to stop */
    b->looks = 100;
    fork_ranks(4, share_work, b, codes);
    check_all_done(b, 4, codes);
    assert_below(b->furthest, 5);
    free_board(b);
}

/* ---- failures ---- */

static void the_lowest_failure_is_everybodys(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        int codes[FORK_RANKS];
        board *b = new_board(200);
        b->alone = alone;
        b->fail_at[0] = 57;
        b->fail_at[1] = 58;
        fork_ranks(3, share_work, b, codes);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(codes[r], 0);
            assert_int_equal(b->status[r], ES_E_NUMERIC);
            assert_non_null(strstr(b->error[r].message, "piece 57 has no answer"));
            assert_string_equal(b->error[r].message, b->error[0].message);
        }
        for (int64_t i = 0; i < 57; i++) /* handed out before it, and kept */
            assert_int_equal(b->kept[i], 1);
        assert_int_equal(b->kept[57] + b->kept[58], 0);
        free_board(b);
    }
}

static void any_rank_may_ask_to_stop(void **state)
{
    (void)state;
    for (int who = 0; who < 3; who++) {
        int codes[FORK_RANKS];
        board *b = new_board(300);
        b->stop_at = 20;
        b->looks = INT64_MAX; /* it ends when the stop is heard, not before */
        b->stop_rank = who;
        fork_ranks(3, share_work, b, codes);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(codes[r], 0);
            assert_int_equal(b->status[r], ES_E_INTERRUPTED);
        }
        for (int64_t i = 0; i < 300; i++)
            assert_at_most(b->kept[i], 1);
        free_board(b);
    }
}

/* When the last piece is done and rank 0 is about to say so: then it is too late, or all stop; but
 * nobody waits for ever. */
static void who_asks_to_stop_at_the_end_is_heard_or_late(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        int codes[FORK_RANKS];
        board *b = new_board(12);
        b->alone = true;
        b->stop_at = 11 - i % 3;
        b->stop_rank = 1 + i % 2;
        fork_ranks(3, share_work, b, codes);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(codes[r], 0);
            assert_int_equal(b->status[r], b->status[0]);
        }
        free_board(b);
    }
}

static void a_rank_that_dies_ends_the_work(void **state)
{
    (void)state;
    int codes[FORK_RANKS];
    board *b = new_board(2000);
    b->kill_at = 700;
    fork_ranks(3, share_work, b, codes);
    int killed = 0;
    for (int r = 0; r < 3; r++) {
        const bool dead = codes[r] == 128 + SIGKILL;
        killed += dead;
        assert_int_equal(codes[r], dead ? 128 + SIGKILL : 0);
        assert_int_equal(b->status[r], dead ? NOT_WRITTEN : ES_E_IO);
    }
    assert_int_equal(killed, 1);
    assert_int_equal(codes[0], 0);
    assert_string_equal(b->error[0].rule, "ranks.lost");
    assert_at_least(b->killed, b->kill_at);
    assert_int_equal(b->kept[b->killed], 0);
    free_board(b);
}

/* ---- meetings ---- */

typedef struct crowd {
    int failing, differing; /* ranks; -1: none */
    size_t size;
    es_status status[FORK_RANKS];
    es_error error[FORK_RANKS];
    bool shared[FORK_RANKS];
} crowd;

static crowd *new_crowd(void)
{
    crowd *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c != MAP_FAILED);
    *c = (crowd){.failing = -1, .differing = -1};
    for (int r = 0; r < FORK_RANKS; r++)
        c->status[r] = NOT_WRITTEN;
    return c;
}

static int meet(const es_fabric *fabric, void *user)
{
    crowd *c = user;
    es_executor *executor;
    es_error e = {0};
    const int rank = fabric->rank;
    if (es_ranks_new(fabric, &executor, &e) != ES_OK)
        return 1;
    const es_exec exec = {.executor = executor};
    const bool fails = rank == c->failing;
    if (fails)
        snprintf(e.message, sizeof e.message, "no such file");
    const char *same = rank == c->differing ? "seed: 7\nn: 12\n" : "seed: 7\nn: 10\n";
    c->status[rank] = es_work_agree(&exec, fails ? ES_E_IO : ES_OK, same, &e);
    unsigned char *bytes = calloc(c->size + 1, 1);
    for (size_t i = 0; rank == 0 && i < c->size; i++)
        bytes[i] = (unsigned char)(i * 7 + 3);
    if (c->status[rank] == ES_OK)
        c->status[rank] = es_work_share(&exec, bytes, c->size, &e);
    c->shared[rank] = true;
    for (size_t i = 0; i < c->size; i++)
        c->shared[rank] = c->shared[rank] && bytes[i] == (unsigned char)(i * 7 + 3);
    if (c->status[rank] == ES_OK)
        c->status[rank] = es_work_agree(&exec, ES_OK, "", &e);
    c->error[rank] = e;
    free(bytes);
    es_ranks_free(executor);
    return 0;
}

static void what_rank_0_has_is_shared(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 3000001};
    for (int ranks = 1; ranks <= 9; ranks += 2)
        for (int s = 0; s < 3; s++) {
            int codes[FORK_RANKS];
            crowd *c = new_crowd();
            c->size = sizes[s];
            fork_ranks(ranks, meet, c, codes);
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(codes[r], 0);
                assert_int_equal(c->status[r], ES_OK);
                assert_true(c->shared[r]);
            }
            munmap(c, sizeof *c);
        }
}

static void ranks_that_differ_are_named(void **state)
{
    (void)state;
    int codes[FORK_RANKS];
    crowd *c = new_crowd();
    c->differing = 2;
    fork_ranks(4, meet, c, codes);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(codes[r], 0);
        assert_int_equal(c->status[r], ES_E_ARGUMENT);
        assert_string_equal(c->error[r].rule, "ranks.differ");
        assert_string_equal(c->error[r].message,
                            "rank 2 on gamma has another n: 12; rank 0 has 10");
    }
    munmap(c, sizeof *c);
}

static void ranks_that_fail_are_named(void **state)
{
    (void)state;
    for (int who = 0; who < 3; who++) {
        int codes[FORK_RANKS];
        crowd *c = new_crowd();
        c->failing = who;
        fork_ranks(3, meet, c, codes);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(codes[r], 0);
            assert_int_equal(c->status[r], ES_E_IO);
            assert_string_equal(c->error[r].message, who == 0   ? "no such file"
                                                     : who == 1 ? "rank 1 on beta: no such file"
                                                                : "rank 2 on gamma: no such file");
        }
        munmap(c, sizeof *c);
    }
}

TEST_FILE(ranks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_is_done_once),
        cmocka_unit_test(large_pieces_are_begun_first),
        cmocka_unit_test(early_pieces_are_few),
        cmocka_unit_test(the_lowest_failure_is_everybodys),
        cmocka_unit_test(any_rank_may_ask_to_stop),
        cmocka_unit_test(who_asks_to_stop_at_the_end_is_heard_or_late),
        cmocka_unit_test(a_rank_that_dies_ends_the_work),
        cmocka_unit_test(what_rank_0_has_is_shared),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(ranks_that_fail_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
