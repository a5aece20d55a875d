/* words.pml -- how the tasks of method pages share the words of pages: README.md, control.h,
 * view.cpp, log.cpp and transaction.cpp, for the model checker spin.
 *
 * Shape:     two or three tasks, NW = 2 words, on one page or (PAGES=2) on a page each. Each task
 *            runs PHASES phases one after another, of macros that tests/house/itm_protocols.py
 *            sets: a transaction, plain stores, plain stores while alone, a transaction that goes
 *            alone, plain loads, plain stores of what a transaction has found published. Inlines
 *            have the names of the functions that they model.
 * Steps:     one atomic block = one access to what tasks share. S(...) is a step that stores: the
 *            task may die right behind it. Dying behind a step that only loads is the same as dying
 *            before it. What only the holder of the commit lock can see is one step.
 * Values:    task p stores VALUE in each phase, which no other phase stores. So the judge knows of
 *            each value since which commit it may be seen (early) and from which clock on it must
 *            not be seen any more (over).
 * Judged:    a copy, as soon as it is made or brought up to date, shows what the pin shows: no
 *            store of a commit behind the pin, no plain store made behind such a commit, nothing
 *            that was overwritten before the pin. A commit overwrites no word that another one
 *            changed since its pin. While a task is alone, no other is inside. Garbage, which is
 *            what positions before `reused` hold, is in no copy, and decides nothing. At the end
 *            home has all that was committed or stored.
 * Waiting:   a guard that blocks. So a deadlock is an invalid end state, and without a cycle every
 *            waiter goes on ("cycles").
 * Faults:    PLANT=n plants the n-th fault of tests/house/itm_protocols.py's list.
 * Left out:  userfaultfd, keys, twins (a copy and the set of words that the transaction has stored
 *            are the same), pages that are made ahead, stacks, the heap. Memory is sequentially
 *            consistent.
 */
#ifndef TASKS
#define TASKS 2
#endif
#ifndef PHASES
#define PHASES 2
#endif
#ifndef PAGES
#define PAGES 1
#endif
#ifndef PLANT
#define PLANT 0
#endif
#ifndef DEATHS
#define DEATHS 0 /* how many tasks may die */
#endif
#ifndef MORTAL
#define MORTAL 14 /* set of those that may */
#endif
#ifndef TRIES
#define TRIES 2 /* attempts of a transaction */
#endif
#ifndef TRIM
#define TRIM 0 /* 1: the log may give away what no pin needs; 2: also the oldest entry, once */
#endif
#ifndef SERIALIZABLE
#define SERIALIZABLE 0
#endif
#ifndef ENTRIES
#define ENTRIES 6 /* of the log, at most */
#endif

#ifndef CANCELS
#define CANCELS 1 /* transactions may end without a commit (OWN) */
#endif
#ifndef OWN
#define OWN 0 /* 1: own pages, owners.pml */
#endif

#define NW 2
#if PAGES == 1
#define PAGE_OF(w) 0
#define WORDS_OF(g) 3
#else
#define PAGE_OF(w) (w)
#define WORDS_OF(g) (1 << (g))
#endif
#define IN(mask, i) ((((mask) >> (i)) & 1) != 0)
#define ON(g, w) ((w) < NW && PAGE_OF(w) == (g))
#define OFF(g, w) ((w) < NW && PAGE_OF(w) != (g))
#define BIT(p) (1 << (p))
#define OTHERS(mask) (((mask) & ~BIT(p)) != 0)

/* Kinds of phases. */
#define NOTHING 0
#define TRANSACTION 1
#define PLAIN 2  /* stores by a holder */
#define ALONE 3  /* be_alone(), stores, end_alone() */
#define GOES_ALONE 4
#define TAKES 6  /* loads; if word 0 is stored to by then, stores plainly */
#define LOADS 5  /* plain loads: home has all that was committed */
#define READS 7  /* plain loads beside all others (OWN) */
#define OWNS 8   /* plain stores, the page becomes its own if no other task has it (OWN) */

#define OUTSIDE 31
#define VALUES (1 + TASKS * PHASES)
#define VALUE (1 + (p - 1) * PHASES + phase)
#define GARBAGE VALUES
#define UNDERTAKER (TASKS + 1)

/* What a task has mapped at a page. */
#define NONE 0
#define KEPT 1
#define FOR_NOW 2
#define HELD 3
#define SHARED 4
#define OWNED 5

#define WORDS 1 /* kinds of entries */
#define IMAGE 2

/* ---- what tasks share: Control, PageState, the log, home ---- */
byte clock, committed, head = 1, tail = 1, trimmed, reused = 1;
byte lock, alone;
byte publishing, publishing_begin, publishing_end;
bool publishing_commit;
byte newest[PAGES];
bool busy[PAGES], touched[PAGES];
byte holders[PAGES], released[PAGES];
byte home[NW];
byte pin[TASKS + 2];
byte e_stamp[ENTRIES + 1], e_previous[ENTRIES + 1], e_released[ENTRIES + 1];
byte e_words[ENTRIES + 1]; /* which words it changed */
byte e_before[(ENTRIES + 1) * NW];
byte e_after[ENTRIES + 1]; /* of all its words: its maker's value */
byte e_maker[ENTRIES + 1];
bool e_image[ENTRIES + 1], e_others[ENTRIES + 1];
#if PAGES == 1
#define E_PAGE(i) 0
#define SET_PAGE(i, g) skip
#else
byte e_page[ENTRIES + 1];
#define E_PAGE(i) e_page[i]
#define SET_PAGE(i, g) e_page[i] = g
#endif
bool dead[TASKS + 2];
byte deaths, gone, ended, forced; /* gone: set of tasks that have ended, or are buried */

/* ---- what only the judge knows ---- */
byte early[NW * (VALUES + 1)], over[NW * (VALUES + 1)];
byte shown;             /* newest stamp of a transaction that the clock shows */
byte last_commit[NW];   /* newest stamp of a transaction that stored to the word */
byte wanted[NW];        /* what home must have in the end */
byte inside;            /* set of tasks in a transaction */
byte k;
hidden byte program[3 * 3 * 3]; /* kind, words loaded, words stored, of each task's phases */

#define AT(w, v) ((w) * (VALUES + 1) + (v))
#define MAY_SEE(w, v, c) \
  ((v) != GARBAGE && early[AT(w, v)] <= (c) && (over[AT(w, v)] == 0 || over[AT(w, v)] > (c)))
/* Home's word becomes v, which a snapshot may show from `since` on, and what it was, not any more
 * from `until` on. */
#define STORE(w, v, since, until) \
  if :: home[w] != (v) -> over[AT(w, home[w])] = until; home[w] = v; early[AT(w, v)] = since \
     :: else fi

#if DEATHS > 0
#define MAY_DIE \
  if :: deaths < DEATHS && p <= TASKS && IN(MORTAL, p) -> \
        deaths++; dead[p] = 1; inside = inside & ~BIT(p); goto died \
     :: true fi
#else
#define MAY_DIE skip
#endif
#define S(action) atomic { action; MAY_DIE }

#define RAISE(x, to) if :: x < (to) -> x = to :: else fi

#if PAGES == 1
#define HOLDS_ANY (mode[0] == HELD)
#else
#define HOLDS_ANY (mode[0] == HELD || mode[1] == HELD)
#endif
/* A request may come at any time; before a phase serves for all. */
#if OWN
#define MAY_GIVE_UP \
  if :: HOLDS_ANY -> give_up() :: IS_ASKED -> give_away(0); give_up() :: true fi
#else
#define MAY_GIVE_UP if :: HOLDS_ANY -> give_up() :: true fi
#endif

#if OWN
#include "owners.pml"
#else
#define TWIN(w) copy[w]
#define TWIN_IS(w, v) copy[w] = v
#define IS_ANOTHERS 0
#endif

/* ---- log.cpp ---- */
/* Log::apply(). */
inline apply(begin, end) {
  i = begin;
  do
  :: i < end ->
     if
     :: !e_image[i] ->
#if PLANT != 3
        S(busy[E_PAGE(i)] = 1);
#endif
        w = 0; /* redo() */
        do
        :: atomic { w < NW && IN(e_words[i], w) ->
             /* No plain store made behind the commit, or its copies, is lost. */
             assert(home[w] == e_before[i * NW + w] || home[w] == e_after[i]);
#if OWN
             /* Home has what its owner stored; from here on it counts. */
             if
             :: home[w] == e_after[i] && early[AT(w, e_after[i])] == OUTSIDE ->
                home[w] = e_before[i * NW + w]
             :: else
             fi;
#endif
             STORE(w, e_after[i], e_stamp[i], e_stamp[i]); w++; MAY_DIE }
        :: atomic { w < NW && !IN(e_words[i], w) -> w++ }
        :: atomic { w == NW -> w = 0; break }
        od
     :: else
     fi;
     S(newest[E_PAGE(i)] = i; busy[E_PAGE(i)] = 0; i++)
  :: else -> i = 0; break
  od
}

#define SHOW \
  clock = publishing; \
  if :: publishing_commit -> shown = publishing :: else fi

/* Log::publish(). `first`: the first of the entries that were reserved, up to `end`. */
inline publish(first, end, is_commit) {
  S(publishing_begin = first; publishing_end = end; publishing_commit = is_commit;
    publishing = clock + 1;
    if :: is_commit -> note_commit(first, end) :: else fi);
#if PLANT == 9
  S(SHOW);
#endif
  apply(first, end);
  S(head = end);
  if :: is_commit -> S(committed = publishing) :: else fi;
#if PLANT != 9
  S(SHOW);
#endif
  S(publishing = 0)
}

/* REQUIRES: within atomic. From here on the commit will be complete, although its task may die. */
inline note_commit(first, end) {
  k = first;
  do
  :: k < end ->
     w = 0;
     do
     :: w < NW ->
        if :: IN(e_words[k], w) -> last_commit[w] = publishing; wanted[w] = e_after[k] :: else fi;
        w++
     :: else -> w = 0; break
     od;
     k++
  :: else -> k = 0; break
  od
}

/* Log::repair(), by the heir of the lock. */
inline repair() {
  if
  :: publishing != 0 && clock < publishing ->
     apply(publishing_begin, publishing_end);
     S(head = publishing_end);
     if :: publishing_commit -> S(committed = publishing) :: else fi;
     S(SHOW)
  :: else
  fi;
  S(publishing = 0)
}

/* CommitLock::CommitLock(). */
inline lock_commits() {
  if
  :: S(lock == 0 -> lock = p)
#if DEATHS > 0
  :: S(lock != 0 && dead[lock] -> lock = p);
#if PLANT != 7
     repair()
#else
     skip
#endif
#endif
  fi
}
inline unlock_commits() { S(assert(lock == p); lock = 0) }

/* Log::reserve() of one more chunk, and in it next_chunk() and trim(): a chunk is an entry. */
inline reserve() {
#if TRIM > 0
  if
  :: skip
  :: tail < head ->
     least = OUTSIDE; i = 1; /* least_pin() */
     do
     :: atomic { i <= TASKS -> if :: pin[i] < least -> least = pin[i] :: else fi; i++ }
     :: atomic { i > TASKS -> i = 0; break }
     od;
     if
     :: tail < head && (e_stamp[tail] <= least || TRIM == 2 && !forced) ->
        if :: e_stamp[tail] > least -> forced = 1 :: else fi;
#if PLANT == 6
        S(reused = tail + 1);
#endif
        S(trimmed = e_stamp[tail]);
        S(tail++);
        S(reused = tail)
     :: else
     fi;
     least = 0
  fi
#else
  skip
#endif
}

/* ---- view.cpp ---- */
/* The judge: a copy shows what the pin shows, and the task's own plain stores. */
inline check_copy(g) {
  d_step {
    k = 0;
    do
    :: k < NW ->
       if
       :: IN(WORDS_OF(g), k) ->
          assert(MAY_SEE(k, copy[k], pin[p]));
          assert(stored[k] == 0 || home[k] != stored[k] || copy[k] == stored[k])
       :: else
       fi;
       k++
    :: else -> k = 0; break
    od
  }
}


/* View::make(): the page at the pin. Afterwards the page's mode is KEPT or FOR_NOW; NONE: kTooOld
 * or kUnclear. */
inline make(g) {
#if PLANT == 18
  has_holders = OTHERS(holders[g]);
#endif
  if :: !touched[g] -> S(touched[g] = 1) :: else fi;
  do
#if OWN
  :: atomic { !busy[g] || has_owner[g] -> seen = owners[g] };
     if
     :: atomic { IS_FLAGGED(g) -> is_anothers = 1; requested[g] = 1; break } /* recall() */
     :: atomic { !IS_FLAGGED(g) && busy[g] -> skip }
     :: atomic { !IS_FLAGGED(g) && !busy[g] -> n = newest[g] };
#else
  :: atomic { !busy[g] -> n = newest[g] };
#endif
#if PLANT != 2 && PLANT != 18
     has_holders = OTHERS(holders[g]);
#endif
     do
     :: atomic { ON(g, w) -> copy[w] = home[w]; w++ }
     :: atomic { OFF(g, w) -> w++ }
     :: atomic { w == NW -> w = 0; break }
     od;
#if PLANT == 2
     has_holders = OTHERS(holders[g]);
#endif
     was_released = released[g];
#if OWN
     if
     :: busy[g] || newest[g] != n || IS_FLAGGED(g) -> skip
     :: else ->
        if
        :: atomic { IS_SAME_OWNER(g) -> seen = 0; break }
        :: atomic { !IS_SAME_OWNER(g) -> skip }
        fi
     fi
     fi
#else
     if
     :: atomic { !busy[g] && newest[g] == n -> break }
     :: atomic { busy[g] || newest[g] != n -> skip }
     fi
#endif
#if DEATHS > 0
  :: atomic { busy[g] && lock != 0 && dead[lock] -> skip }; /* what a dead committer left */
     lock_commits();
     unlock_commits()
#endif
  od;
  do
  :: atomic { n != 0 && n >= tail ->
       if
       :: n < reused -> /* the chunk is another's */
          do :: w < NW -> if :: ON(g, w) -> copy[w] = GARBAGE :: else fi; w++
             :: else -> w = 0; break od;
          n = 0
       :: n >= reused && e_stamp[n] <= pin[p] -> n = 0
       :: n >= reused && e_stamp[n] > pin[p] -> /* undo() */
          do
          :: w < NW ->
             if
             :: ON(g, w) && (e_image[n] || IN(e_words[n], w)) -> copy[w] = e_before[n * NW + w]
             :: else
             fi;
             w++
          :: else -> w = 0; break
          od;
          if
          :: e_image[n] ->
             has_image = 1; was_released = e_released[n]; image_others = e_others[n]
          :: else
          fi;
          n = e_previous[n]
       fi }
  :: atomic { n == 0 || n < tail -> n = 0; break }
  od;
  if
  :: atomic { has_image -> is_clear = was_released <= pin[p] && !image_others }
  :: atomic { !has_image && (was_released > pin[p] || !has_holders) ->
              is_clear = was_released <= pin[p] }
#if PLANT == 11
  :: atomic { !has_image && was_released <= pin[p] && has_holders -> is_clear = 1 }
#else
  :: atomic { !has_image && was_released <= pin[p] && has_holders ->
              is_clear = committed <= pin[p] }
#endif
  fi;
  atomic {
    if
#if PLANT == 8
    :: !is_clear -> drop(g)
#else
    :: trimmed > pin[p] || !is_clear || IS_ANOTHERS -> drop(g)
#endif
    :: else ->
#if PLANT == 12
       mode[g] = KEPT;
#else
       mode[g] = (has_holders -> FOR_NOW : KEPT);
#endif
       check_copy(g)
    fi;
#if OWN
    seen = 0; is_anothers = 0;
#endif
    has_holders = 0; has_image = 0; image_others = 0; was_released = 0; is_clear = 0
  }
}

/* View::drop(). REQUIRES: within atomic. */
inline drop(g) {
  mode[g] = NONE;
  do :: w < NW -> if :: ON(g, w) -> copy[w] = 0 :: else fi; w++ :: else -> w = 0; break od
}

/* View::enter_home(), with all behind it: plain code is going to store to the page. */
inline hold(g) {
#if OWN
  if /* OwnPages::is_candidate() */
  :: (mode[g] == KEPT || mode[g] == FOR_NOW || kind == OWNS) &&
     !OTHERS(holders[g]) && !OTHERS(sharers[g]) -> is_candidate = 1
  :: else
  fi;
#endif
  atomic { drop(g) };
#if OWN
  S(sharers[g] = sharers[g] | BIT(p));
#endif
#if PLANT == 1
  has_image = touched[g];
#endif
  S(holders[g] = holders[g] | BIT(p));
#if OWN
  wait_for_owner(g);
#endif
#if PLANT != 1
  has_image = touched[g];
#endif
  if
  :: has_image -> /* copies of it exist */
     lock_commits();
     reserve();
     atomic {
       n = head; assert(n <= ENTRIES);
       e_image[n] = 1; e_stamp[n] = clock + 1; e_previous[n] = newest[g]; e_maker[n] = p;
       SET_PAGE(n, g);
#if PLANT == 4
       e_others[n] = 0
#else
       e_others[n] = OTHERS(holders[g])
#endif
     };
     e_released[n] = released[g];
     do
     :: atomic { ON(g, w) -> e_before[n * NW + w] = home[w]; w++ }
     :: atomic { OFF(g, w) -> w++ }
     :: atomic { w == NW -> w = 0; break }
     od;
     publish(n, n + 1, 0);
     unlock_commits();
     n = 0
  :: else
  fi;
  atomic { has_image = 0; mode[g] = HELD }
#if OWN
  if :: is_candidate -> take(g) :: else fi;
  is_candidate = 0
#endif
}

/* View::release(). */
inline release(g, now) {
#if PLANT == 10
  S(holders[g] = holders[g] & ~BIT(p));
  S(RAISE(released[g], now));
#else
  S(RAISE(released[g], now));
  S(holders[g] = holders[g] & ~BIT(p));
#endif
#if OWN
  S(sharers[g] = sharers[g] & ~BIT(p));
#endif
  atomic { drop(g) }
}

/* View::give_up(). */
inline give_up() {
  now = clock;
  if :: mode[0] == HELD -> release(0, now) :: else fi;
#if PAGES > 1
  if :: mode[1] == HELD -> release(1, now) :: else fi;
#endif
  now = 0
}
/* View::pull(): copies of the clock `pulled` become copies of the clock `now`. go: it is done. */
inline pull() {
  atomic { last = head; go = 1 };
  do
  :: go && position < last ->
     is_garbage = position < reused;
     if
     :: atomic { trimmed > pulled -> go = 0 }
     :: atomic { trimmed <= pulled ->
          assert(!is_garbage);
          if
          :: e_stamp[position] > now -> last = position
          :: else -> skip
          fi };
        if
        :: position < last && e_maker[position] != p && mode[E_PAGE(position)] != NONE &&
           mode[E_PAGE(position)] < HELD ->
           atomic {
             if
             :: position < reused -> copy[0] = GARBAGE; copy[NW - 1] = GARBAGE
             :: position >= reused && e_image[position] -> drop(E_PAGE(position))
             :: position >= reused && !e_image[position] -> /* redo() */
                do
                :: w < NW ->
                   if :: IN(e_words[position], w) -> copy[w] = e_after[position] :: else fi;
                   w++
                :: else -> w = 0; break
                od
             fi };
           if :: trimmed > pulled -> go = 0 :: else fi
        :: else
        fi;
        if :: go && position < last -> position++ :: else fi
     fi
  :: atomic { !go || position >= last -> last = 0; is_garbage = 0; break }
  od
}

/* ---- control.cpp ---- */
inline wait_for_all() {
#if PLANT != 5
  i = 1;
  do
  :: atomic { i <= TASKS && (i == p || pin[i] == OUTSIDE) -> i++ }
  :: atomic { i > TASKS -> i = 0; break }
  od
#else
  skip
#endif
}
inline be_alone() {
  S(alone == 0 -> alone = p);
  wait_for_all()
}
inline end_alone() { S(assert(alone == p); alone = 0) }

/* ---- transaction.cpp ---- */
inline drop_copies(which) {
  if :: mode[0] == FOR_NOW || which == KEPT && mode[0] == KEPT -> drop(0) :: else fi;
#if PAGES > 1
  if :: mode[1] == FOR_NOW || which == KEPT && mode[1] == KEPT -> drop(1) :: else fi;
#endif
}
inline start_anew() {
  lock_commits();
  atomic { drop_copies(KEPT); position = head; pulled = clock };
  unlock_commits()
}

inline take_snapshot() {
  do
  :: atomic { alone == 0 || alone == p -> skip }; /* wait_while_another_is_alone() */
#if PLANT == 14
     if
     :: atomic { alone == 0 || alone == p -> skip };
        S(pin[p] = pulled; inside = inside | BIT(p));
        break
     :: atomic { alone != 0 && alone != p -> skip }
     fi
#else
#if PLANT != 13
     S(pin[p] = pulled);
#endif
     if
     :: atomic { alone == 0 || alone == p -> inside = inside | BIT(p); break }
     :: atomic { alone != 0 && alone != p -> skip };
        S(pin[p] = OUTSIDE)
     fi
#endif
  od;
  if
  :: trimmed > pulled -> start_anew()
  :: else ->
     now = clock;
     pull();
     if :: go -> atomic { pulled = now; now = 0; go = 0 } :: else -> now = 0; start_anew() fi
  fi;
  S(pin[p] = pulled);
#if OWN
  check_own(0);
#endif
  atomic {
    if :: mode[0] == KEPT -> check_copy(0) :: else fi;
#if PAGES > 1
    if :: mode[1] == KEPT -> check_copy(1) :: else fi
#endif
  }
}

/* View::tidy(), too. */
inline leave_inside() {
  S(pin[p] = OUTSIDE; inside = inside & ~BIT(p); drop_copies(FOR_NOW))
}

/* View::open_for_transaction(). */
inline open_for_transaction(g) {
  if
  :: mode[g] == HELD -> release(g, pin[p]) /* its own plain stores were before its begin */
#if OWN
  :: mode[g] == SHARED -> S(sharers[g] = sharers[g] & ~BIT(p)); mode[g] = NONE
#endif
  :: else
  fi;
  if :: mode[g] == NONE -> make(g) :: else fi
}

/* Has another task committed, since the pin, to a word that this transaction stores to? Has plain
 * code changed it? Serializable: has a page been committed to of which this task has a copy? Sets
 * `failed`. REQUIRES: within atomic. */
inline was_read_page_changed() {
  n = position;
  do
  :: n < head ->
     assert(n >= reused);
     if
     :: !e_image[n] && e_stamp[n] > pin[p] && e_maker[n] != p &&
        (mode[E_PAGE(n)] == KEPT || mode[E_PAGE(n)] == FOR_NOW) -> failed = 1
     :: else
     fi;
     n++
  :: else -> n = 0; break
  od
}
inline conflicts() {
  do
#if OWN
  :: w < NW && IN(ws, w) && IS_MINE(PAGE_OF(w)) -> w++ /* no other task has stored there */
  :: w < NW && IN(ws, w) && !IS_MINE(PAGE_OF(w)) ->
     if :: has_owner[PAGE_OF(w)] && PLANT != 26 -> failed = 1 :: else fi;
#else
  :: w < NW && IN(ws, w) ->
#endif
     n = newest[PAGE_OF(w)];
     do
     :: n != 0 && n >= tail && e_stamp[n] > pin[p] ->
        assert(n >= reused);
        if :: !e_image[n] && IN(e_words[n], w) -> failed = 1 :: else fi;
        n = e_previous[n]
     :: else -> n = 0; break
     od;
     if :: home[w] != copy[w] -> failed = 1 :: else fi; /* is_changed_at_home() */
     w++
  :: w < NW && !IN(ws, w) -> w++
  :: else -> w = 0; break
  od
}

/* The judge: what the commit overwrites, and what it relies on, was newest. */
inline check_commit() {
  k = 0;
  do
  :: k < NW ->
     assert(!IN(ws, k) || last_commit[k] <= pin[p]);
     assert(!SERIALIZABLE || !IN(rs, k) || last_commit[k] <= pin[p]);
     k++
  :: else -> k = 0; break
  od
}

inline draft(g) {
  if
  :: (ws & WORDS_OF(g)) != 0 ->
     reserve();
     atomic {
       assert(end <= ENTRIES);
       e_image[end] = 0; e_stamp[end] = clock + 1; e_previous[end] = newest[g]; e_maker[end] = p;
       SET_PAGE(end, g);
       e_words[end] = ws & WORDS_OF(g); e_after[end] = VALUE;
       do :: w < NW -> if :: IN(e_words[end], w) -> e_before[end * NW + w] = TWIN(w) :: else fi; w++
          :: else -> w = 0; break od;
       end++
     }
  :: else
  fi
}

/* Sets `failed`. */
inline publish_draft() {
#if PLANT == 15
  atomic { conflicts() };
#endif
  lock_commits();
  if
  :: trimmed > pin[p] -> failed = 1
  :: else ->
     atomic {
#if PLANT != 15
       conflicts();
#endif
       if :: SERIALIZABLE && !failed -> was_read_page_changed() :: else fi;
       if :: !failed -> check_commit(); end = head :: else fi
     };
     if
     :: !failed ->
        draft(0);
#if PAGES > 1
        draft(1);
#endif
        publish(head, end, 1);
        atomic { /* update_twins() */
          end = 0;
          do :: w < NW -> if :: IN(ws, w) -> TWIN_IS(w, VALUE) :: else fi; w++
             :: else -> w = 0; break od }
     :: else
     fi
  fi;
  unlock_commits()
}

/* Plain stores of the words. */
inline store_plainly() {
  do
  :: w < NW && IN(ws, w) ->
     if
     :: mode[PAGE_OF(w)] != HELD && mode[PAGE_OF(w)] != OWNED ->
        x = w; w = 0; hold(PAGE_OF(x)); w = x; x = 0
     :: else
     fi;
     S(assert(alone != p || (inside & ~BIT(p)) == 0);
       STORE(w, VALUE, shown, clock + 1); wanted[w] = VALUE; stored[w] = VALUE; w++);
     x = w; w = 0; MAY_GIVE_UP; w = x; x = 0
  :: w < NW && !IN(ws, w) -> w++
  :: w == NW -> w = 0; break
  od
}

proctype Task(byte p; byte after) {
  byte phase, tries, kind, rs, ws, takes;
  byte mode[PAGES], copy[NW], stored[NW];
  byte pulled, position = 1;
  byte now, n, i, w, x, end, last, was_released, least;
  bool go, failed, has_holders, has_image, image_others, is_clear, is_garbage;
#if OWN
  byte seen;
  bool is_anothers, is_candidate;
#endif

  (after & ~gone) == 0;
  lock_commits(); /* View::enter(): the end of the log and the clock fit together */
  atomic { pulled = clock; position = head };
  unlock_commits();
next:
  atomic {
    if
    :: phase == PHASES -> goto finish
    :: else ->
       kind = program[((p - 1) * 3 + phase) * 3];
       rs = program[((p - 1) * 3 + phase) * 3 + 1];
       ws = program[((p - 1) * 3 + phase) * 3 + 2];
       tries = TRIES; k = 0
    fi
  };
  MAY_GIVE_UP;
  if
  :: kind == NOTHING -> goto phase_over
  :: kind == TRANSACTION || kind == GOES_ALONE -> goto begin
  :: kind == TAKES -> takes = ws; ws = 0; goto begin
  :: kind == PLAIN -> store_plainly(); goto phase_over
  :: kind == LOADS ->
     assert((!IN(rs, 0) || home[0] == wanted[0]) && (!IN(rs, 1) || home[1] == wanted[1]));
     goto phase_over
  :: kind == ALONE -> goto be_alone_first
#if OWN
  :: kind == READS -> load_plainly(); goto phase_over
  :: kind == OWNS -> /* it had copies, too */
     if :: (ws & WORDS_OF(0)) != 0 && !touched[0] -> touched[0] = 1 :: else fi;
#if PAGES > 1
     if :: (ws & WORDS_OF(1)) != 0 && !touched[1] -> touched[1] = 1 :: else fi;
#endif
     store_plainly(); goto phase_over
#endif
  fi;
be_alone_first:
  be_alone();
  store_plainly();
  end_alone();
  goto phase_over;
begin: /* Transaction::begin() */
#if OWN
  keep_images();
#endif
  take_snapshot();
  /* First accesses to pages. */
  do
  :: x < PAGES && (WORDS_OF(x) & (rs | ws)) != 0 ->
     open_for_transaction(x);
     if :: mode[x] == NONE -> x = 0; goto roll_back :: else -> x++ fi
  :: x < PAGES && (WORDS_OF(x) & (rs | ws)) == 0 -> x++
  :: x >= PAGES -> x = 0; break
  od;
  if
  :: kind == GOES_ALONE -> /* Transaction::go_alone(), try_be_alone() */
     if
     :: S(alone == 0 -> alone = p)
     :: atomic { alone != 0 -> goto roll_back }
     fi;
     wait_for_all();
#if PLANT != 16
     lock_commits();
#endif
     atomic {
#if PLANT != 16
       if :: trimmed > pin[p] -> failed = 1 :: else -> was_read_page_changed() fi
#else
       was_read_page_changed()
#endif
     };
#if PLANT != 16
     unlock_commits();
#endif
     if :: failed -> end_alone(); goto roll_back :: else fi;
     assert((!IN(rs, 0) || last_commit[0] <= pin[p]) && (!IN(rs, 1) || last_commit[1] <= pin[p]))
  :: else
  fi;
#if OWN
  if
  :: OWNS_ANY -> store_in_place(); if :: true :: CANCELS -> goto roll_back fi
  :: else
  fi;
#endif
  if
  :: ws != 0 -> publish_draft()
  :: else
  fi;
  if
  :: failed ->
     if :: alone == p -> end_alone() :: else fi;
     goto roll_back
  :: else
  fi;
  if
  :: kind == TAKES -> /* is what the first word says published? */
     atomic { has_image = copy[0] != 0 };
     leave_inside();
     if :: has_image -> has_image = 0; ws = takes; store_plainly() :: else fi;
     goto phase_over
  :: else -> leave_inside()
  fi;
  if
  :: alone == p ->
     /* It goes on with the newest state, beside no other. */
     S(assert((inside & ~BIT(p)) == 0));
     end_alone()
  :: else
  fi;
  goto phase_over;
roll_back:
#if OWN
  restore();
#endif
  leave_inside();
  atomic {
    failed = 0; tries--;
    if
    :: tries != 0 -> goto begin
    :: tries == 0 && kind == GOES_ALONE -> goto be_alone_first
    :: else -> goto phase_over
    fi
  };
phase_over:
  atomic { phase++; goto next };
finish:
#if OWN
  give_away(1);
  if :: mode[0] == SHARED -> S(sharers[0] = sharers[0] & ~BIT(p)) :: else fi;
#if PAGES > 1
  if :: mode[1] == SHARED -> S(sharers[1] = sharers[1] & ~BIT(p)) :: else fi;
#endif
#endif
  if :: HOLDS_ANY -> give_up() :: else fi; /* View::leave() */
  atomic { gone = gone | BIT(p); ended++; goto clean };
died:
  ended++;
clean:
  skip;
  d_step {
    phase = 0; tries = 0; kind = 0; rs = 0; ws = 0; takes = 0; pulled = 0; position = 0;
#if OWN
    seen = 0; is_anothers = 0; is_candidate = 0;
#endif
    now = 0; n = 0; i = 0;
    w = 0; x = 0; end = 0; last = 0; was_released = 0; least = 0; go = 0; failed = 0;
    has_holders = 0; has_image = 0; image_others = 0; is_clear = 0; is_garbage = 0;
    mode[0] = 0; mode[PAGES - 1] = 0; copy[0] = 0; copy[1] = 0; stored[0] = 0; stored[1] = 0
  }
}

#if DEATHS > 0
/* forget_dead() in control.cpp. gone: pthread_join() returns. */
inline forget_holder(g) {
#if OWN
  sharers[g] = sharers[g] & ~BIT(x);
#endif
  if
  :: IN(holders[g], x) ->
     now = clock;
     RAISE(released[g], now);
     holders[g] = holders[g] & ~BIT(x);
     now = 0
  :: else
  fi
}
inline forget_dead() {
#if PLANT != 17
  lock_commits();
  unlock_commits();
#endif
  atomic { if :: alone == x -> alone = 0 :: else fi };
#if OWN
  forget_pages(x);
#endif
  forget_holder(0);
#if PAGES > 1
  forget_holder(1);
#endif
  atomic { pin[x] = OUTSIDE; gone = gone | BIT(x); x = 0 }
}
#define IS_UNBURIED(t) (dead[t] && !IN(gone, t))
proctype Undertaker(byte p) {
  byte i, w, x, now;
  do
  :: atomic { IS_UNBURIED(1) -> x = 1 }; forget_dead()
  :: atomic { IS_UNBURIED(2) -> x = 2 }; forget_dead()
#if TASKS > 2
  :: atomic { IS_UNBURIED(3) -> x = 3 }; forget_dead()
#endif
  :: ended == TASKS && !IS_UNBURIED(1) && !IS_UNBURIED(2) && !IS_UNBURIED(TASKS) -> break
  od;
  ended++;
died:
  skip
}
#endif

#define PHASE(t, f, kind, rs, ws) \
  program[((t) * 3 + (f)) * 3] = kind; program[((t) * 3 + (f)) * 3 + 1] = rs; \
  program[((t) * 3 + (f)) * 3 + 2] = ws

init {
  atomic {
    byte i = 1;
    do :: i <= TASKS + 1 -> pin[i] = OUTSIDE; i++ :: else -> i = 0; break od;
    PHASE(0, 0, KIND11, R11, W11); PHASE(0, 1, KIND12, R12, W12); PHASE(0, 2, KIND13, R13, W13);
    PHASE(1, 0, KIND21, R21, W21); PHASE(1, 1, KIND22, R22, W22); PHASE(1, 2, KIND23, R23, W23);
    PHASE(2, 0, KIND31, R31, W31); PHASE(2, 1, KIND32, R32, W32); PHASE(2, 2, KIND33, R33, W33);
    run Task(1, AFTER1);
    run Task(2, AFTER2);
#if TASKS > 2
    run Task(3, AFTER3);
#endif
#if DEATHS > 0
    run Undertaker(UNDERTAKER)
#endif
  };
  ended == TASKS + (DEATHS > 0 -> 1 : 0);
#if OWN
  assert(!has_owner[0] && !has_owner[PAGES - 1] && listed[0] == 0 && listed[PAGES - 1] == 0);
#endif
  assert(home[0] == wanted[0] && home[1] == wanted[1] && lock == 0)
}
