/* protocol.pml -- PROTOCOL.md for the model checker spin: 2 levels, 3 processes, 2 pages with a
 * line each (or 2 + 1 lines).
 *
 * Shape:     each process runs one instance; which level, what it reads and writes, in which order:
 *            macros (tests/house/protocol.py lists the combinations that are checked). An L1
 *            instance whose tries are used up escalates when ESCALATE is set. The checker at the
 *            end judges: serializable, every snapshot consistent (aborted and killed instances
 *            too), nothing committed is lost.
 * Steps:     one atomic block = one access to a shared word (or accesses that nobody else can tell
 *            apart, see PROTOCOL.md). W(...) is a step that writes: the process may die right after
 *            it. Dying after a step that only reads is the same as dying before it, and dying while
 *            waiting the same as dying before the wait: `dead` only ever enables others.
 * Waiting:   a guard that blocks. So a deadlock is an invalid end state, and as no cycle exists
 *            (tests/house/protocol.py searches for non-progress cycles) every instance that does
 *            not die ends: every requester is answered.
 * Values:    what process p writes is p; 0 is what was there in the beginning. So a value names its
 *            writer.
 * Hardware:  LEVEL 3 is RTM: a transaction is one atomic step, whose guard is the gate. Each
 *            process is one of its own, so modes do not show. LEVEL 4 is RTM beside software lines:
 *            one step, too, whose guard is the words of its lines.
 * Faults:    PLANT=n plants the n-th fault of PROTOCOL.md's list.
 */
#ifndef PROCESSES
#define PROCESSES 3 /* processes 1..PROCESSES; 0 is nobody */
#endif
#ifndef NL
#define NL 2
#endif
#if NL == 2
#define PAGE_OF(q) (q)
#define TOUCHES(mask, Q) IN(mask, Q)
#else /* lines 0 and 1 are page 0, line 2 is page 1 */
#define PAGE_OF(q) ((q) / 2)
#define TOUCHES(mask, Q) ((Q) == 0 -> ((mask) & 3) != 0 : ((mask) & 4) != 0)
#endif
#ifndef PLANT
#define PLANT 0
#endif
#ifndef DEATHS
#define DEATHS 0 /* how many processes may die */
#endif
#ifndef TRIES
#define TRIES 1 /* how often an instance at level 1 begins again */
#endif
#ifndef UP0
#define UP0 0 /* page 0 begins at level 2, resident: this set of processes (0: begins in L) */
#endif
#ifndef UP1
#define UP1 0
#endif
#ifndef H0
#define H0 0 /* 1: page 0 begins in H */
#endif
#ifndef H1
#define H1 0
#endif
/* YIELD: an update of level 2 that meets a page in L may give way instead of recalling, and a query
 * may copy a page, at whatever level. */
/* LEVELi: 0 (no such process), 1, 2, 3 (RTM; HARDWARE must be set), 4 (RTM beside software lines;
 * RTM_LINES must be set). Ri, Wi: lines read, written.
 * DOWNi: 1: from the last line to the first.
 * AFTERi: the set of processes that have ended (not died) before it begins. */
#define IN(mask, i) ((((mask) >> (i)) & 1) != 0)
#if PROCESSES == 3
#define LEVEL4 0
#define W4 0
#endif
#define LEVEL(i) ((i) == 1 -> LEVEL1 : ((i) == 2 -> LEVEL2 : ((i) == 3 -> LEVEL3 : LEVEL4)))
/* May process i ever run at level `level`? */
#define LEVELS(i, level) (LEVEL(i) == level || level == 2 && (ESCALATE || LEVEL(i) == 3))
#define WRITES(i) ((i) == 1 -> W1 : ((i) == 2 -> W2 : ((i) == 3 -> W3 : W4)))
#if PROCESSES == 3
#define ANY2(x, Q) (x(Q, 1) || x(Q, 2) || x(Q, 3))
#define ANY3(x, Q, s) (x(Q, s, 1) || x(Q, s, 2) || x(Q, s, 3))
#else
#define ANY2(x, Q) (x(Q, 1) || x(Q, 2) || x(Q, 3) || x(Q, 4))
#define ANY3(x, Q, s) (x(Q, s, 1) || x(Q, s, 2) || x(Q, s, 3) || x(Q, s, 4))
#endif

#define NONE 31     /* no pin */
#define UNREAD 7
#define IDLE 0      /* status of a context */
#define PENDING 1
#define FAILED 2
#define COMMITTED 3
#define AT(i, q) ((i) * NL + (q))

/* ---- shared memory, as in PROTOCOL.md's table ---- */
byte own[NL], ver[NL];             /* line word: locked by (0: nobody), version, ... */
bool up[NL];                       /* ... U */
byte home[NL];
#ifdef HARDWARE
byte at2[2];                       /* page word: 0: L; 1: at level 2; 2: H */
/* Moves to and from H; pages that are there by the moves so far. */
byte epoch, hardware;
#define IS_AT2(Q) (at2[Q] == 1)
#define IS_H(Q) (at2[Q] == 2)
#else
bool at2[2];                       /* page word: at level 2; else L */
#define IS_AT2(Q) at2[Q]
#define IS_H(Q) false
#endif
byte res[2];                       /* residents */
byte moving;                       /* page + 1 */
byte domain;                       /* holder of the domain lock */
byte line_clock, clock;
byte pin[PROCESSES + 1], line_pin[PROCESSES + 1];
byte told[2];                      /* commit log: clock of the last entry "page to level 1" */
byte commit2[PROCESSES + 1];              /* commit log: clock of process i's commit at level 2 */
bool version[PROCESSES + 1];              /* its version is not home yet */
bool failed2[PROCESSES + 1];              /* abort-upper has FAILED its instance */
/* Contexts; the redo log of i: value i to WRITES(i). */
byte status[PROCESSES + 1], stamp[PROCESSES + 1], saved[(PROCESSES + 1) * NL];
/* Undo rings; UNREAD: no word. */
byte undo_stamp[PROCESSES + 1], undo[(PROCESSES + 1) * NL];
bool dead[PROCESSES + 1];
byte deaths, ended;

/* ---- what only the judge knows ---- */
byte seen_by[(PROCESSES + 1) * NL];       /* value read */
byte place[(PROCESSES + 1) * NL], places[NL];  /* version order of a line */
bool committed[PROCESSES + 1];
/* Processes that have ended; or died; that had ended when this one began. */
byte over, left, before[PROCESSES + 1];
#define EDGE(a, b) e[(a) * (PROCESSES + 1) + (b)]
hidden byte e[(PROCESSES + 1) * (PROCESSES + 1)];
hidden byte a, b, k, x, best;

/* S1 to S4 (docs/design.md 4). At level 1: W is locked, R and N are unlocked, U is U. At level 2:
 * L; R/W is: a resident runs; N: none does.
 * S1: R or W here => L there: all but U counts as R or W. S2: R or W there => U here. S3: N there
 * => no R or W here. S4: one W. S5: there is no level 3: a page word has no U. */
#define RUNS(Q, i) (IN(res[Q], i) && pin[i] != NONE)
#define HELD(Q) (IS_AT2(Q) && ANY2(RUNS, Q))
#define S13(q) (up[q] || !at2[PAGE_OF(q)])
#define S2(q) (up[q] || !HELD(PAGE_OF(q)))
#define ONE_STATE(q) (!up[q] || own[q] == 0)
#define RULES_OF(q) S13(q) && S2(q) && ONE_STATE(q)
#define HAS(Q, i) (version[i] && TOUCHES(WRITES(i), Q))
#define HAS_VERSION(Q) ANY2(HAS, Q)
/* A page in H: level 2 has neither a version nor a resident of it. */
#define H_RULE(Q) (!IS_H(Q) || res[Q] == 0 && !HAS_VERSION(Q))
#if NL == 2
#define RULES assert(RULES_OF(0) && RULES_OF(1) && H_RULE(0) && H_RULE(1))
#else
#define RULES assert(RULES_OF(0) && RULES_OF(1) && RULES_OF(2) && H_RULE(0) && H_RULE(1))
#endif

/* W(action): a step that writes. THEN(action, next): the same, and control goes on with `next`. CUT
 * parts what only the holder of the domain lock can see: separate steps when processes die, else
 * one (such accesses are movers in Lipton's sense, and so are taking and giving the lock). */
#if DEATHS > 0
#define MAY_DIE if :: deaths < DEATHS -> deaths++; dead[p] = 1; goto died :: true fi
#define CUT ; RULES; MAY_DIE }; atomic {
#define MINE (domain == p)
#else
#define MAY_DIE skip
#define CUT ; RULES;
#define MINE (domain == 0)
#endif
#define TAKE domain = p
#define GIVE assert(domain == p); domain = 0
#define W(action) atomic { action; RULES; MAY_DIE }
#define THEN(action, next) atomic { action; RULES; MAY_DIE; next }
#define SAY(text) printf(text, p)
/* i: the next line of the set, or NL. */
inline skip_to(mask) { do :: i < NL && !IN(mask, i) -> i++ :: else -> break od }
/* i: the next line that p has locked, or NL. (Nobody else can change that.) */
inline skip_to_own() { do :: i < NL && own[i] != p -> i++ :: else -> break od }
#define LINES_OF(Q) (PAGE_OF(0) == (Q)) | ((PAGE_OF(1) == (Q)) << 1) | \
  ((PAGE_OF(NL - 1) == (Q)) << (NL - 1))
#define LAST_OR_GO_ON if :: i == NL -> i = 0; break :: else fi

/* ---- the judge ---- */
#define PLACE(value, q) (value == 0 -> 0 : place[AT(value, q)])
/* Every instance is a node: its writes count if it committed, its reads always. Edges: write-read,
 * write-write, read-write, and what had ended before it began. No cycle: serializable in real-time
 * order, and every snapshot fits into that order. */
inline judge() {
  d_step {
    a = 0; do :: a < (PROCESSES + 1) * (PROCESSES + 1) -> e[a] = 0; a++ :: else -> break od;
    b = 1;
    do
    :: b <= PROCESSES ->
       a = 1;
       do
       :: a <= PROCESSES && a != b ->
          if :: IN(before[b], a) -> EDGE(a, b) = 1 :: else fi;
          k = 0;
          do
          :: k < NL ->
             x = place[AT(a, k)];
             if
             :: x != 0 && place[AT(b, k)] > x -> EDGE(a, b) = 1
             :: else
             fi;
             if
             :: x != 0 && seen_by[AT(b, k)] != UNREAD ->
                assert(seen_by[AT(b, k)] == 0 || committed[seen_by[AT(b, k)]]);
                if
                :: x <= PLACE(seen_by[AT(b, k)], k) -> EDGE(a, b) = 1
                :: else -> EDGE(b, a) = 1
                fi
             :: else
             fi;
             k++
          :: else -> break
          od;
          a++
       :: a == b -> a++
       :: else -> break
       od;
       b++
    :: else -> break
    od;
    k = 1;
    do
    :: k <= PROCESSES ->
       a = 1;
       do
       :: a <= PROCESSES ->
          b = 1;
          do
          :: b <= PROCESSES -> EDGE(a, b) = EDGE(a, b) || (EDGE(a, k) && EDGE(k, b)); b++
          :: else -> break
          od;
          a++
       :: else -> break
       od;
       k++
    :: else -> break
    od;
    k = 1; do :: k <= PROCESSES -> assert(!EDGE(k, k)); k++ :: else -> break od; /* serializable */
    a = 0; b = 0; k = 0; x = 0
  }
}

/* REQUIRES: within d_step or atomic. The writes of p are committed here. */
inline note_commit() {
  k = 0;
  do
  :: k < NL -> if :: IN(ws, k) -> places[k]++; place[AT(p, k)] = places[k] :: else fi; k++
  :: else -> break
  od;
  committed[p] = 1; k = 0
}

/* ---- the domain lock, and what its heir does ---- */
/* REQUIRES the lock. Context of a dead process: line-recovered. Doing it twice is once. */
inline skip_to_lines_of(x) { do :: i < NL && own[i] != x -> i++ :: else -> break od }
inline recover(x) {
  atomic { i = 0; skip_to_lines_of(x) };
  do
#if PLANT == 11
  :: W(i < NL && status[x] == COMMITTED -> own[i] = 0; ver[i] = saved[AT(x, i)];
       skip_to_lines_of(x))
#else
  :: atomic { i < NL && status[x] == COMMITTED -> SAY("%d line-recovered: write back\n");
              home[i] = x; RULES; MAY_DIE };
     W(own[i] = 0; ver[i] = stamp[x]; skip_to_lines_of(x))
#endif
  :: W(i < NL && status[x] != COMMITTED -> SAY("%d line-recovered: undone\n"); own[i] = 0;
       ver[i] = saved[AT(x, i)]; skip_to_lines_of(x))
  :: i == NL -> i = 0; break
  od
}

/* REQUIRES the lock. All line words of the page get the U bit. */
inline mark(page) {
  m = (PAGE_OF(0) == (page) -> 0 : NL - 1);
  do
  :: THEN(own[m] == 0 -> SAY("%d recall-mark\n"); up[m] = 1; m++,
          if :: m == NL || PAGE_OF(m) != (page) -> m = 0; break :: else fi)
#if DEATHS > 0
  :: atomic { own[m] != 0 && dead[own[m]] -> d = own[m] }; recover(d); d = 0
#endif
#if PLANT == 2
  :: THEN(own[m] != 0 -> own[m] = 0; up[m] = 1; m++,
          if :: m == NL || PAGE_OF(m) != (page) -> m = 0; break :: else fi)
#endif
  od;
#if PLANT != 7
  /* The end of recall-mark: an instance that stamps later does not think that nothing has
   * happened. */
  W(line_clock++)
#endif
}

inline lock() {
#if DEATHS > 0
  atomic { domain == 0 || dead[domain] -> inherited = domain != 0; domain = p; RULES; MAY_DIE };
  if
  :: inherited && moving != 0 && PLANT != 12 ->
     mark(moving - 1);
     W(SAY("%d move-repaired\n"); at2[moving - 1] = 1);
     W(moving = 0; inherited = 0)
  :: else -> inherited = 0
  fi
#else
  skip
#endif
}

/* REQUIRES the lock. Versions that no pin precedes go home, oldest first. The dead's pins are
 * withdrawn. (One step: level 2's own protocol, see consistency_tree.h.) */
inline collect() {
  best = NONE; a = 1;
  do
  :: a <= PROCESSES ->
     if
     :: dead[a] -> pin[a] = NONE; res[0] = res[0] & ~(1 << a); res[1] = res[1] & ~(1 << a)
     :: else
     fi;
     if :: pin[a] < best -> best = pin[a] :: else fi;
     a++
  :: else -> break
  od;
  x = 1; /* clock value */
  do
  :: x <= clock && x <= best ->
     a = 1;
     do
     :: a <= PROCESSES ->
        if
        :: version[a] && commit2[a] == x ->
           k = 0;
           do
           :: k < NL -> if :: IN(WRITES(a), k) -> home[k] = a :: else fi; k++
           :: else -> break
           od;
           version[a] = 0
        :: else
        fi;
        a++
     :: else -> break
     od;
     x++
  :: else -> break
  od;
  a = 0; x = 0; k = 0; best = 0
}

#define SINCE(Q, s, i) (p != i && commit2[i] > (s) && TOUCHES(WRITES(i), Q))
#define COMMITTED_SINCE(Q, s) ANY3(SINCE, Q, s)

#define IS_PINNED(i) (pin[i] != NONE)
#if PROCESSES == 3
#define ANY_PIN (IS_PINNED(1) || IS_PINNED(2) || IS_PINNED(3))
#else
#define ANY_PIN (IS_PINNED(1) || IS_PINNED(2) || IS_PINNED(3) || IS_PINNED(4))
#endif
#define IS_FREE(mask, q) (!IN(mask, q) || own[q] == 0 && !up[q])
#define ARE_FREE(mask) (IS_FREE(mask, 0) && IS_FREE(mask, 1) && IS_FREE(mask, NL - 1))
#if PLANT == 23
#define RTM_LOOKS_AT rs
#else
#define RTM_LOOKS_AT (rs | ws)
#endif
#ifdef HARDWARE
/* One store: the epoch. Its move was in the ring before. `fault` plants that it does not change. */
#define LEAVES_H(page, fault) hardware = hardware & ~(1 << (page)); \
  if :: PLANT != fault -> epoch++ :: else fi
#define NEEDED ((TOUCHES(rs | ws, 0) -> 1 : 0) | (TOUCHES(rs | ws, 1) -> 2 : 0))
/* Level 2 gives the page to H. i: scratch. */
inline give_to_hardware(page) {
  lock();
  if
  :: atomic { MINE && !IS_AT2(page) -> TAKE CUT busy = 0; GIVE }
  :: atomic { MINE && IS_AT2(page) -> TAKE; SAY("%d release-start\n"); collect();
              busy = HAS_VERSION(page); RULES; MAY_DIE };
     if
     :: busy != 0 -> W(busy = 0; GIVE)
     :: else ->
        W(SAY("%d release-told\n"); told[page] = clock + 1 CUT clock++; i = 1;
          skip_to_resident(page));
        do
        :: atomic { i <= PROCESSES && (pin[i] == NONE || PLANT == 18) -> i++;
                    skip_to_resident(page) }
        :: atomic { i <= PROCESSES && pin[i] != NONE -> busy = 1; i = 0; break }
        :: i > PROCESSES -> i = 0; break
        od;
        if
        :: busy == 0 ->
           W(res[page] = 0 CUT at2[page] = 2; SAY("%d hardware-open\n"));
           W(hardware = hardware | (1 << page); epoch++; SAY("%d hardware-came\n"));
           W(GIVE)
        :: else -> W(busy = 0; GIVE)
        fi
     fi
  fi
}
#endif

/* ---- level 1 asks for a page: release ---- */
/* busy: 0, or 1 + whose instance is in the way (1: versions that cannot go home). */
#define SUSPECT(Q) (IN(res[Q], i) && LEVELS(i, 2))
inline skip_to_resident(Q) { do :: i <= PROCESSES && !SUSPECT(Q) -> i++ :: else -> break od }
inline release(page) {
  lock();
  if
  :: atomic { MINE && !at2[page] -> TAKE CUT busy = 0; GIVE }
#ifdef HARDWARE
  /* Nobody at level 2 has it: what asks nobody goes on as a release. */
  :: W(MINE && IS_H(page) -> TAKE; SAY("%d hardware-left\n"); LEAVES_H(page, 16));
     W(moving = page + 1 CUT line_clock++; version_now = line_clock);
     W(at2[page] = 0);
     m = (PAGE_OF(0) == page -> 0 : NL - 1);
     do
     :: THEN(up[m] = 0; ver[m] = version_now; m++,
             if :: m == NL || PAGE_OF(m) != page -> m = 0; version_now = 0; break :: else fi)
     od;
     W(busy = 0; moving = 0 CUT GIVE)
#endif
  :: atomic { MINE && IS_AT2(page) -> TAKE; SAY("%d release-start\n"); collect();
              busy = HAS_VERSION(page); RULES; MAY_DIE };
     if
     :: busy != 0 -> W(GIVE)
     :: else ->
#if PLANT != 6
        W(SAY("%d release-told\n"); told[page] = clock + 1 CUT clock++; i = 1;
          skip_to_resident(page));
#else
        atomic { i = 1; skip_to_resident(page) };
#endif
        do
        :: atomic { i <= PROCESSES && pin[i] == NONE -> i++; skip_to_resident(page) }
#if PLANT == 1
        :: atomic { i <= PROCESSES && pin[i] != NONE -> i++; skip_to_resident(page) }
#else
        :: atomic { i <= PROCESSES && pin[i] != NONE && !dead[i] -> SAY("%d release-look: busy\n");
                    busy = 1 + i; i = 0; break }
#if DEATHS > 0
        :: W(i <= PROCESSES && pin[i] != NONE && dead[i] -> SAY("%d release-look: reaped\n");
             pin[i] = NONE)
#endif
#endif
        :: i > PROCESSES -> i = 0; break
        od;
#if PLANT == 6
        W(told[page] = clock + 1; clock++);
#endif
        if
        :: busy == 0 ->
           W(SAY("%d release-open\n"); moving = page + 1 CUT res[page] = 0 CUT line_clock++;
             version_now = line_clock);
#if PLANT != 8
           W(at2[page] = 0);
#endif
           m = (PAGE_OF(0) == page -> 0 : NL - 1);
           do
           :: THEN(up[m] = 0; ver[m] = version_now; m++,
                   if :: m == NL || PAGE_OF(m) != page -> m = 0; version_now = 0; break :: else fi)
           od;
#if PLANT == 8
           W(at2[page] = 0);
#endif
           W(moving = 0 CUT GIVE)
        :: else -> W(GIVE)
        fi
     fi
  fi
}

/* Holding nothing. go: 1: try again, 0: this instance aborts. */
inline ask(page) {
  release(page);
  if
  :: busy == 0 -> go = 1
  /* Abort-lower, or the budget is over. */
  :: busy != 0 -> go = 0
  /* Recall-and-wait, wait-for-upper. */
  :: atomic { busy > 1 && asks == 0 -> asks = 1; busy-- };
     atomic { pin[busy] == NONE || dead[busy] -> go = 1 }
  :: W(busy > 1 && asks == 0 -> asks = 1; busy--; failed2[busy] = 1); /* abort-upper */
     atomic { pin[busy] == NONE || dead[busy] -> go = 1 }
  fi;
  busy = 0
}

/* Holding nothing; line q was found locked. go as above. */
inline meet_locked() {
  o = own[q];
  if
  :: o == 0 -> go = 1
  :: o != 0 && dead[o] -> lock(); recover(o); W(GIVE); go = 1
  /* Self-abort. */
  :: o != 0 && !dead[o] -> go = 0
  /* Wait, shortly. */
  :: o != 0 && !dead[o] -> atomic { own[q] != o || dead[o] -> go = 1 }
  /* Oldest-wins ... */
  :: W(o != 0 && !dead[o] && status[o] == PENDING -> SAY("%d fails the holder\n");
       status[o] = FAILED);
     atomic { own[q] != o || dead[o] -> go = 1 }
  fi;
  o = 0
}

#define FIRST(mask) (down -> NL - 1 : 0)
#define NEXT(q) (down -> q - 1 : q + 1)
#define OVER(q) (q == NL || q == 255)
inline skip_q(mask) { do :: !OVER(q) && !IN(mask, q) -> q = NEXT(q) :: else -> break od }
#define IS_SEEN(i) (own[i] == 0 && !up[i] && ver[i] <= rv)
#define IS_VALID(i) (IS_SEEN(i) || (own[i] == p && saved[AT(p, i)] <= rv))
inline skip_to_seen() { do :: i < NL && seen_by[AT(p, i)] == UNREAD -> i++ :: else -> break od }
#define FORGET \
  shown[0] = 0; shown[1] = 0; shown[NL - 1] = 0; rv = 0; asks = 0; go = 0; \
  pinned = 0; stamp[p] = 0; \
  seen_by[AT(p, 0)] = UNREAD; seen_by[AT(p, 1)] = UNREAD; seen_by[AT(p, NL - 1)] = UNREAD

/* ---- level 2 ---- */
#define UNFOLLOWED(Q) (IN(mapped, Q) && !IN(touched, Q) && \
  (told[Q] > synced && told[Q] <= clock || COMMITTED_SINCE(Q, synced)))
/* REQUIRES the lock. Pages that the commit log names are guarded. */
#define FOLLOW                                                            \
  if :: UNFOLLOWED(0) -> mapped = mapped & 2 :: else fi;                  \
  if :: UNFOLLOWED(1) -> mapped = mapped & 1 :: else fi;                  \
  synced = clock
/* Was something that this instance has touched committed at level 2 since its snapshot? ("page to
 * level 1" is no commit.) */
#define STALE (IN(touched, 0) && COMMITTED_SINCE(0, c) || IN(touched, 1) && COMMITTED_SINCE(1, c))
#ifdef REUSE
#define STORE_LINE_PIN }; atomic {
#define LINE_PIN_IS_LATE line_pin[i] >= stamp[p]
#else
#define STORE_LINE_PIN /* nobody looks at it: one step */
#endif
/* REQUIRES the lock. Shows the page of line q: home itself, or a private copy as of (c, l). */
inline map_page() {
  mapped = mapped | (1 << PAGE_OF(q));
  if :: HAS_VERSION(PAGE_OF(q)) -> private = private | (1 << PAGE_OF(q)) :: else fi;
  if
  :: IN(private, PAGE_OF(q)) ->
     k = 0;
     do
     :: k < NL && PAGE_OF(k) == PAGE_OF(q) ->
        shown[k] = home[k]; best = NONE; a = 1;
        do
        :: a <= PROCESSES ->
           if
           :: undo[AT(a, k)] != UNREAD && undo_stamp[a] > l && undo_stamp[a] < best ->
              best = undo_stamp[a]; shown[k] = undo[AT(a, k)]
           :: else
           fi;
           a++
        :: else -> break
        od;
        best = 0; a = 1;
        do
        :: a <= PROCESSES ->
           if
           :: version[a] && IN(WRITES(a), k) && commit2[a] <= c && commit2[a] > best ->
              best = commit2[a]; shown[k] = a
           :: else
           fi;
           a++
        :: else -> break
        od;
        k++
     :: k < NL && PAGE_OF(k) != PAGE_OF(q) -> k++
     :: else -> break
     od;
     k = 0; a = 0; best = 0
  :: else
  fi
}

#ifdef YIELD
#if PLANT == 21
#define GAVE_WAY failed
#else
#define GAVE_WAY (failed || behind)
#endif
/* n: the newest version of the page's lines. */
#define NEWEST copied[m] = v; if :: v > n -> n = v :: else fi; v = 0
/* REQUIRES the lock. Beside level 1: line m as level 1 reads it. */
inline read_beside() {
  do
  :: own[m] != 0 ->
     if
     :: own[m] == 0
#if DEATHS > 0
     :: atomic { own[m] != 0 && dead[own[m]] -> d = own[m] }; recover(d); d = 0
#endif
     fi
  :: atomic { own[m] == 0 -> v = ver[m] };
     shown[m] = home[m];
#if PLANT != 20
     if
     :: atomic { own[m] != 0 || ver[m] != v -> v = 0; shown[m] = 0 }
     :: atomic { own[m] == 0 && ver[m] == v -> NEWEST }; break
     fi
#else
     atomic { NEWEST }; break
#endif
  od
}
#if PLANT != 22
#define IS_COPIED(k) undo_stamp[m] <= copied[k]
#else
#define IS_COPIED(k) true
#endif
/* What the copy has of commits since the snapshot, undone: context by context. Others go on. */
inline undo_beside() {
  m = 1;
  do
  :: atomic {
       m <= PROCESSES -> k = 0;
       do
       :: k < NL ->
          if
          :: PAGE_OF(k) == PAGE_OF(q) && undo[AT(m, k)] != UNREAD && undo_stamp[m] > l &&
             IS_COPIED(k) && (first[k] == 0 || undo_stamp[m] < first[k]) ->
             first[k] = undo_stamp[m]; shown[k] = undo[AT(m, k)]
          :: else
          fi;
          k++
       :: else -> break
       od;
       k = 0; m++
     }
  :: m > PROCESSES -> break
  od;
  atomic { m = 0; do :: k < NL -> first[k] = 0; copied[k] = 0; k++ :: else -> break od; k = 0 }
}
#else
#define GAVE_WAY false
#endif

/* Does any instance of level 2 run? One load each. */
inline skip_to_other() {
  do :: i <= PROCESSES && (i == p || !LEVELS(i, 2)) -> i++ :: else -> break od
}
inline look_for_pins() {
  atomic { i = 1; skip_to_other() };
  do
  :: atomic { i <= PROCESSES -> pinned = pinned || pin[i] != NONE; i++; skip_to_other() }
  :: i > PROCESSES -> i = 0; break
  od
}

proctype Process(byte p; byte level; byte rs; byte ws; bool down; byte after) {
  byte q, i, m, d, o, tries, n;                     /* q: line at work */
  bool inherited, go, pinned, asks;
  byte busy, version_now;
  byte rv, v, value;                                /* level 1 */
  byte c, l, mapped, touched, private, shown[NL], synced; /* level 2 */
  bool failed;
#ifdef YIELD
  byte copied[NL], first[NL]; /* of a copy beside level 1: lines' versions; stamps undone so far */
  bool behind; /* something that it has read is not at level 2, or it is no resident there */
#define FORGET_COPIES behind = 0;
#else
#define FORGET_COPIES
#endif
#ifdef HARDWARE
  bool finding;
  byte followed, opened;
#endif

  d_step {
    tries = TRIES;
    if :: IN(UP0, p) -> mapped = 1 :: else fi;
    if :: IN(UP1, p) -> mapped = mapped | 2 :: else fi
  }
begin:
  if
  :: level == 2 -> goto pages
#ifdef HARDWARE
  :: level == 3 -> atomic { (after & ~left) == 0 -> before[p] = over; goto follow }
#endif
#ifdef RTM_LINES
  :: level == 4 -> atomic { (after & ~left) == 0 -> before[p] = over; goto rtm_lines }
#endif
  :: else
  fi;

  /* ================= level 1 ================= */
  atomic { (after & ~left) == 0 -> before[p] = over; q = FIRST(rs); skip_q(rs);
           status[p] = PENDING; rv = line_clock;
           /* Or that of any earlier instance of its thread: an update at a seat keeps it. */
           do :: rv > 0 -> rv-- :: break od };
read:
  do
  :: OVER(q) -> q = 0; break
  :: else ->
     if
     :: own[q] != 0 ->
        meet_locked();
        if :: go -> go = 0; goto read :: else -> goto give_up fi
     :: up[q] ->
        ask(PAGE_OF(q));
        if :: go -> go = 0; goto read :: else -> goto give_up fi
     :: atomic { own[q] == 0 && !up[q] -> v = ver[q] };
        value = home[q];
        if
        :: atomic { own[q] != 0 || up[q] || ver[q] != v -> v = 0; value = 0 }
        :: atomic { own[q] == 0 && !up[q] && ver[q] == v && v <= rv ->
                    seen_by[AT(p, q)] = value; v = 0; value = 0; q = NEXT(q); skip_q(rs) }
        /* Extend. */
        :: atomic { own[q] == 0 && !up[q] && ver[q] == v && v > rv -> v = line_clock; value = 0;
                    i = 0; skip_to_seen() };
#if PLANT == 19
           rv = v;
#endif
           do
           :: atomic { i < NL && IS_SEEN(i) -> i++; skip_to_seen() }
           :: atomic { i < NL && !IS_SEEN(i) -> i = 0; v = 0; goto give_up }
           :: atomic { i == NL -> i = 0; rv = v; v = 0 }; break
           od
        fi
     fi
  od;
  if :: ws == 0 -> committed[p] = 1; goto finish :: else -> q = FIRST(ws); skip_q(ws) fi;

  /* line-lock */
  do
  :: THEN(own[q] == 0 && !up[q] -> SAY("%d line-lock\n"); saved[AT(p, q)] = ver[q]; own[q] = p;
          q = NEXT(q); skip_q(ws),
          if :: OVER(q) -> q = 0; break :: else fi)
  :: atomic { own[q] != 0 || up[q] -> i = 0; skip_to_own(); goto let_go }
  od;
#if PLANT != 3
  W(SAY("%d line-stamp\n"); line_clock++; stamp[p] = line_clock);
#if PLANT != 4
  look_for_pins();
#endif
  if
  :: stamp[p] == rv + 1 -> skip
  :: else ->
#else
  if
  :: true ->
#endif
     /* line-validate */
     i = 0; skip_to(rs);
     do
     :: atomic { i < NL && IS_VALID(i) -> SAY("%d line-validate\n"); i++; skip_to(rs) }
     :: atomic { i < NL && !IS_VALID(i) -> i = 0; q = NL; skip_to_own(); goto let_go }
     :: i == NL -> i = 0; break
     od
  fi;
#if PLANT == 3
  W(SAY("%d line-stamp\n"); line_clock++; stamp[p] = line_clock);
  look_for_pins();
#endif
  /* line-save */
  i = 0; skip_to(ws);
  if
  :: pinned ->
     do
     :: THEN(SAY("%d line-save\n"); undo_stamp[p] = stamp[p]; undo[AT(p, i)] = home[i]; i++;
             skip_to(ws),
             if :: i == NL -> break :: else fi)
     od
  :: else
  fi;
  if
  :: W(status[p] == PENDING -> SAY("%d line-commit-point\n"); status[p] = COMMITTED; note_commit();
       i = 0; skip_to(ws))
  :: atomic { status[p] != PENDING -> q = NL; i = 0; skip_to_own(); goto let_go }
  fi;
#if PLANT != 5
  do
  :: THEN(SAY("%d line-write-back\n"); home[i] = p; i++; skip_to(ws),
          if :: i == NL -> i = 0; skip_to(ws); break :: else fi)
  od;
#endif
  do
  :: THEN(SAY("%d line-unlock\n"); own[i] = 0; up[i] = 0; ver[i] = stamp[p]; i++; skip_to(ws),
          if :: i == NL -> i = 0; break :: else fi)
  od;
#if PLANT == 5
  skip_to(ws);
  do
  :: THEN(home[i] = p; i++; skip_to(ws), if :: i == NL -> i = 0; break :: else fi)
  od;
#endif
#ifdef REUSE
  /* The next commit of this context wants the undo ring's room: are these words younger than some
   * line pin? */
  if
  :: pinned ->
     pinned = 0; i = 1; skip_to_other();
     do
     :: atomic { i <= PROCESSES && pin[i] == NONE -> i++; skip_to_other() }
     :: atomic { i <= PROCESSES && pin[i] != NONE -> skip };
        if
        :: atomic { LINE_PIN_IS_LATE -> i++; skip_to_other() }
        :: atomic { !(LINE_PIN_IS_LATE) -> i = 0; goto finish }
        fi
     :: i > PROCESSES -> i = 0; break
     od;
     W(do :: i < NL -> undo[AT(p, i)] = UNREAD; i++ :: else -> break od; i = 0)
  :: else
  fi;
#endif
  goto finish;

/* Of all line words, before anything is waited for. q: the line that was not to be had, or NL. */
let_go:
  do
  :: W(i < NL -> SAY("%d lets a line go\n"); own[i] = 0; up[i] = 0; ver[i] = saved[AT(p, i)];
       skip_to_own())
  :: i == NL -> i = 0; break
  od;
  if
  :: q != NL ->
     if
     :: up[q] -> ask(PAGE_OF(q))
     :: own[q] != 0 -> meet_locked()
     :: !up[q] && own[q] == 0 -> go = 1
     fi
  :: else -> go = 0
  fi;
give_up: /* this instance aborts; what it has read must be a snapshot */
  if
  :: tries != 0 && go ->
     judge();
     atomic { tries--; FORGET };
     goto begin
#if ESCALATE
  :: else ->
     judge();
     atomic { level = 2; tries = 1; FORGET };
     goto begin
#else
  :: else -> goto finish
#endif
  fi;

#ifdef HARDWARE
  /* ================= level 1 in hardware ================= */
follow:
#if PLANT == 17
  /* By the page words, not by the moves. */
  atomic { followed = epoch; opened = (IS_H(0) -> 1 : 0) | (IS_H(1) -> 2 : 0) };
#else
  atomic { followed = epoch; opened = hardware };
#endif
  if
  :: (NEEDED & ~opened) == 0 ->
     if
#if PLANT == 14
     :: W(epoch == followed ->
#else
     :: W(epoch == followed && !ANY_PIN ->
#endif
          SAY("%d commits in hardware\n");
          do
          :: q < NL -> if :: IN(rs, q) -> seen_by[AT(p, q)] = home[q] :: else fi; q++
          :: else -> q = 0; break
          od;
          do :: q < NL -> if :: IN(ws, q) -> home[q] = p :: else fi; q++ :: else -> q = 0; break od;
          note_commit());
        goto finish
     :: atomic { epoch != followed -> goto follow }
     :: atomic { ANY_PIN -> level = 2; goto begin } /* the budget is over */
     fi
  :: else -> atomic { level = 2; finding = 1; goto begin } /* status 0: finds its pages */
  fi;
#endif

#ifdef RTM_LINES
  /* ================= level 1 in RTM, beside software lines ================= */
rtm_lines:
#if PLANT == 24
  pinned = ANY_PIN;
#endif
#if PLANT == 25
  W(SAY("%d line-stamp\n"); line_clock++; stamp[p] = line_clock);
#endif
  if
  :: W(ARE_FREE(RTM_LOOKS_AT) -> SAY("%d commits in RTM\n");
       do
       :: i < NL -> if :: IN(rs, i) -> seen_by[AT(p, i)] = home[i] :: else fi; i++
       :: else -> i = 0; break
       od;
       if
       :: ws != 0 ->
#if PLANT != 25
          line_clock++; stamp[p] = line_clock;
#endif
#if PLANT != 24
          pinned = ANY_PIN && PLANT != 4;
#endif
          if :: pinned -> undo_stamp[p] = stamp[p] :: else fi;
          skip_to(ws);
          do
          :: i < NL ->
             if :: pinned -> undo[AT(p, i)] = home[i] :: else fi;
             home[i] = p; ver[i] = stamp[p]; i++; skip_to(ws)
          :: else -> i = 0; pinned = 0; break
          od;
          note_commit()
       :: else -> committed[p] = 1
       fi);
     goto finish
  /* Software asks for what is at level 2, and waits for who has locked a line. */
  :: atomic { !ARE_FREE(rs | ws) -> level = 1; goto begin }
  fi;
#endif

  /* ================= level 2 ================= */
pages:
  if
  :: atomic { (after & ~left) == 0 && !UNFOLLOWED(0) && !UNFOLLOWED(1) ->
              before[p] = over; q = FIRST(rs | ws); skip_q(rs | ws); c = clock; synced = c };
     W(SAY("%d begin: pin\n"); pin[p] = c);
     atomic { l = line_clock; STORE_LINE_PIN line_pin[p] = l };
     if
     :: clock == c -> skip
     :: clock != c -> W(pin[p] = NONE); goto pages
     fi
  :: atomic { (after & ~left) == 0 && (UNFOLLOWED(0) || UNFOLLOWED(1)) -> before[p] = over;
              q = FIRST(rs | ws); skip_q(rs | ws) };
     lock();
     W(MINE -> TAKE; c = clock; FOLLOW; SAY("%d begin-locked: pin\n"); pin[p] = c);
     atomic { l = line_clock; STORE_LINE_PIN line_pin[p] = l; GIVE; RULES; MAY_DIE }
  fi;
touches:
  do
  :: OVER(q) -> q = 0; break
  :: !OVER(q) && IN(mapped, PAGE_OF(q)) -> /* a load or store in the view */
     atomic {
       SAY("%d touches a page in its view\n");
       touched = touched | (1 << PAGE_OF(q));
       if
       :: IN(rs, q) && IN(private, PAGE_OF(q)) -> seen_by[AT(p, q)] = shown[q]
       :: IN(rs, q) && !IN(private, PAGE_OF(q)) -> seen_by[AT(p, q)] = home[q]
       :: else
       fi;
       q = NEXT(q); skip_q(rs | ws)
     }
  :: !OVER(q) && !IN(mapped, PAGE_OF(q)) -> /* SIGSEGV */
     lock();
#if PLANT == 9
     n = ver[PAGE_OF(q)];
#endif
     if
     :: W(MINE && !at2[PAGE_OF(q)] -> TAKE; SAY("%d recall-start\n"); moving = PAGE_OF(q) + 1);
        mark(PAGE_OF(q));
        W(SAY("%d recall-done\n"); at2[PAGE_OF(q)] = 1
          CUT res[PAGE_OF(q)] = res[PAGE_OF(q)] | (1 << p) CUT moving = 0)
#ifdef HARDWARE
     :: W(MINE && IS_H(PAGE_OF(q)) -> TAKE; SAY("%d hardware-left\n"); LEAVES_H(PAGE_OF(q), 15));
        W(at2[PAGE_OF(q)] = 1 CUT res[PAGE_OF(q)] = res[PAGE_OF(q)] | (1 << p))
#endif
#ifdef YIELD
     :: atomic { MINE && IS_AT2(PAGE_OF(q)) && ws == 0 -> TAKE; SAY("%d copies\n"); behind = 1;
                 private = private | (1 << PAGE_OF(q)); map_page(); GIVE; RULES; MAY_DIE };
        goto touches
     :: atomic { MINE && !at2[PAGE_OF(q)] -> TAKE; SAY("%d gives way, or copies\n");
                 failed = ws != 0; behind = 1;
                 m = (PAGE_OF(0) == PAGE_OF(q) -> 0 : NL - 1) };
        do
        :: m < NL && PAGE_OF(m) == PAGE_OF(q) -> read_beside(); m++
        :: else -> m = 0; break
        od;
        if :: n > l -> undo_beside() :: else fi;
        /* In its view alone: no resident. */
        atomic { mapped = mapped | (1 << PAGE_OF(q)); private = private | (1 << PAGE_OF(q));
                 n = 0; GIVE; RULES; MAY_DIE };
        goto touches
#endif
     :: W(MINE && IS_AT2(PAGE_OF(q)) -> TAKE; SAY("%d becomes resident\n");
          res[PAGE_OF(q)] = res[PAGE_OF(q)] | (1 << p))
     fi;
     /* n: the newest of the page's versions. They stand still, as long as the lock is held. */
     atomic {
#if PLANT != 9
       n = 0; i = 0;
       do
       :: i < NL -> if :: PAGE_OF(i) == PAGE_OF(q) && ver[i] > n -> n = ver[i] :: else fi; i++
       :: else -> i = 0; break
       od;
#endif
       if
       :: n > l && (STALE || GAVE_WAY) -> SAY("%d makes the page private\n");
          private = private | (1 << PAGE_OF(q)); failed = ws != 0; go = 0
       :: n > l && !(STALE || GAVE_WAY) ->
          c = clock; go = 1;
#if PLANT != 10
          FOLLOW
#else
          skip
#endif
       :: else
       fi;
       n = 0
     };
     if
     :: go -> go = 0;
        W(SAY("%d extends\n"); pin[p] = c);
        atomic { l = line_clock; STORE_LINE_PIN line_pin[p] = l }
     :: else
     fi;
     atomic { map_page(); GIVE; RULES; MAY_DIE }
  od;
  if
  :: ws == 0 -> committed[p] = 1
  :: ws != 0 && failed -> skip
  :: else ->
     lock();
     if
     :: atomic { MINE && (failed2[p] || STALE) -> TAKE; failed = 1; GIVE; RULES; MAY_DIE }
     :: W(MINE && !failed2[p] && !(STALE) -> TAKE;
          /* Versions are linked and logged with a stamp beyond the clock, so nobody sees them; the
           * clock's store is the commit point. */
          SAY("%d commit-published\n"); clock++; commit2[p] = clock; version[p] = 1; note_commit());
        W(pin[p] = NONE);
        if :: W(collect() CUT GIVE) :: W(GIVE) fi /* versions stay that are not durable yet */
     fi
  fi;
#ifdef HARDWARE
  if
  :: finding && !failed ->
     W(pin[p] = NONE);
     if :: IN(NEEDED, 0) -> give_to_hardware(0) :: else fi;
     if :: IN(NEEDED, 1) -> give_to_hardware(1) :: else fi
  :: else
  fi;
#endif
#if ESCALATE
  if
  :: ws != 0 && failed && tries != 0 ->
     W(pin[p] = NONE; failed2[p] = 0); /* a flag that comes later is the next instance's */
     judge();
     atomic { tries--; failed = 0; FORGET_COPIES touched = 0; mapped = mapped & ~private;
              private = 0; c = 0; l = 0; FORGET };
     goto begin
  :: else
  fi;
#endif
finish:
  skip;
  d_step { pin[p] = NONE; over = over | (1 << p); left = left | (1 << p); ended++ };
  goto gone;
died:
  skip;
  d_step { SAY("%d dies\n"); left = left | (1 << p); ended++ };
gone:
  skip;
  d_step { q = 0; i = 0; m = 0; d = 0; o = 0; tries = 0; n = 0; inherited = 0; go = 0; pinned = 0;
           asks = 0; busy = 0; version_now = 0; rv = 0; v = 0;
           value = 0; c = 0; l = 0; mapped = 0; touched = 0; private = 0; synced = 0;
           FORGET_COPIES failed = 0;
#ifdef HARDWARE
           finding = 0; followed = 0; opened = 0;
#endif
           shown[0] = 0; shown[1] = 0; shown[NL - 1] = 0 }
}

/* All have ended or died: the heir of everything sets all right, and what was committed must be
 * home. */
inline settle() {
  d_step {
    if :: domain != 0 -> assert(dead[domain]) :: else fi;
    k = 0;
    do
    :: k < NL ->
       if
       :: own[k] != 0 ->
          assert(dead[own[k]]);
          if :: status[own[k]] == COMMITTED -> home[k] = own[k] :: else fi;
          own[k] = 0
       :: else
       fi;
       x = 1; /* versions, oldest first */
       do
       :: x <= clock ->
          a = 1;
          do
          :: a <= PROCESSES ->
             if :: version[a] && commit2[a] == x && IN(WRITES(a), k) -> home[k] = a :: else fi;
             a++
          :: else -> break
          od;
          x++
       :: else -> break
       od;
       /* Nothing committed is lost. */
       assert(places[k] == 0 -> home[k] == 0 : place[AT(home[k], k)] == places[k]);
       k++
    :: else -> break
    od;
    a = 0; k = 0; x = 0
  }
}

init {
  atomic {
    byte i = 0;
    do
    :: i < (PROCESSES + 1) * NL -> seen_by[i] = UNREAD; undo[i] = UNREAD; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i <= PROCESSES -> pin[i] = NONE; line_pin[i] = (PLANT == 13 -> NONE : 0); i++
    :: else -> break
    od;
    if :: UP0 != 0 -> at2[0] = 1; res[0] = UP0 :: else fi;
    if :: UP1 != 0 -> at2[1] = 1; res[1] = UP1 :: else fi;
#ifdef HARDWARE
    if :: H0 -> at2[0] = 2; hardware = 1 :: else fi;
    if :: H1 -> at2[1] = 2; hardware = hardware | 2 :: else fi;
#endif
    i = 0;
    do :: i < NL -> up[i] = (at2[PAGE_OF(i)] != 0); i++ :: else -> break od;
    i = 0;
    if :: LEVEL1 != 0 -> run Process(1, LEVEL1, R1, W1, DOWN1, AFTER1) :: else -> ended++ fi;
    if :: LEVEL2 != 0 -> run Process(2, LEVEL2, R2, W2, DOWN2, AFTER2) :: else -> ended++ fi;
    if :: LEVEL3 != 0 -> run Process(3, LEVEL3, R3, W3, DOWN3, AFTER3) :: else -> ended++ fi;
#if PROCESSES == 4
    if :: LEVEL4 != 0 -> run Process(4, LEVEL4, R4, W4, DOWN4, AFTER4) :: else -> ended++ fi
#endif
  };
  ended == PROCESSES;
  judge();
  settle()
}
