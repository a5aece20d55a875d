/* protocol.pml -- PROTOCOL.md for the model checker spin: 2 levels, 3 processes, 2 pages with a line each (or 2 + 1 lines).
 *
 * Shape:     each process runs one instance; which level, what it reads and writes, in which order: macros (tests/protocol.py lists the
 *            combinations that are checked). An L1 instance whose tries are used up escalates when ESCALATE is set. The checker at the
 *            end judges: serializable, every snapshot consistent (aborted and killed instances too), nothing committed is lost.
 * Steps:     one atomic block = one access to a shared word (or accesses that nobody else can tell apart; PROTOCOL.md lists which).
 *            W(...) is a step that writes: the process may die right after it. Dying after a step that only reads is the same as dying
 *            before it, and dying while waiting the same as dying before the wait: `dead` only ever enables others.
 * Waiting:   a guard that blocks. So a deadlock is an invalid end state, and as no cycle exists (tests/protocol.py searches for
 *            non-progress cycles) every instance that does not die ends: every requester is answered.
 * Values:    what process p writes is p; 0 is what was there in the beginning. So a value names its writer.
 * Faults:    PLANT=n plants the n-th fault of PROTOCOL.md's list.
 */
#define NP 3 /* processes 1..3; 0 is nobody */
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
/* LEVELi: 0 (no such process), 1, 2.  Ri, Wi: lines read, written.  DOWNi: 1: from the last line to the first. */
#define IN(mask, i) ((((mask) >> (i)) & 1) != 0)
#define LEVEL(i) ((i) == 1 -> LEVEL1 : ((i) == 2 -> LEVEL2 : LEVEL3))
#define WRITES(i) ((i) == 1 -> W1 : ((i) == 2 -> W2 : W3))

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
bool at2[2];                       /* page word: at level 2; else L */
byte res[2];                       /* residents */
byte moving;                       /* page + 1 */
byte domain;                       /* holder of the domain lock */
byte line_clock, clock;
byte pin[NP + 1], line_pin[NP + 1];
byte told[2];                      /* commit log: clock of the last entry "page to level 1" */
byte commit2[NP + 1];              /* commit log: clock of process i's commit at level 2 */
bool version[NP + 1];              /* its version is not home yet */
bool failed2[NP + 1];              /* abort-upper has FAILED its instance */
byte status[NP + 1], stamp[NP + 1], saved[(NP + 1) * NL];  /* contexts; the redo log of i: value i to WRITES(i) */
byte undo_stamp[NP + 1], undo[(NP + 1) * NL];              /* undo rings; UNREAD: no word */
bool dead[NP + 1];
byte deaths, ended;

/* ---- what only the judge knows ---- */
byte seen_by[(NP + 1) * NL];       /* value read */
byte place[(NP + 1) * NL], places[NL];  /* version order of a line */
bool committed[NP + 1];
byte over, before[NP + 1];         /* instances that have ended; that had when this one began */
hidden byte e[16];
hidden byte a, b, k, x, best;

/* S1 to S4 (DESIGN 4). At level 1: W is locked, R and N are unlocked, U is U. At level 2: L; R/W is: a resident runs; N: none does.
 * S1: R or W here => L there: all but U counts as R or W. S2: R or W there => U here. S3: N there => no R or W here. S4: one W. S5: there is no
 * level 3: a page word has no U. */
#define RUNS(Q, i) (IN(res[Q], i) && pin[i] != NONE)
#define HELD(Q) (at2[Q] && (RUNS(Q, 1) || RUNS(Q, 2) || RUNS(Q, 3)))
#define S13(q) (up[q] || !at2[PAGE_OF(q)])
#define S2(q) (up[q] || !HELD(PAGE_OF(q)))
#define ONE_STATE(q) (!up[q] || own[q] == 0)
#define RULES_OF(q) S13(q) && S2(q) && ONE_STATE(q)
#if NL == 2
#define RULES assert(RULES_OF(0) && RULES_OF(1))
#else
#define RULES assert(RULES_OF(0) && RULES_OF(1) && RULES_OF(2))
#endif

#if DEATHS > 0
#define MAY_DIE if :: deaths < DEATHS -> deaths++; dead[p] = 1; goto died :: true fi
#else
#define MAY_DIE skip
#endif
#define W(action) atomic { action; RULES; MAY_DIE }
#define SAY(text) printf(text, p)

/* ---- the judge ---- */
#define PLACE(value, q) (value == 0 -> 0 : place[AT(value, q)])
/* Every instance is a node: its writes count if it committed, its reads always. Edges: write-read, write-write, read-write, and what had
 * ended before it began. No cycle: serializable in real-time order, and every snapshot fits into that order. */
inline judge() {
  d_step {
    a = 0; do :: a < 16 -> e[a] = 0; a++ :: else -> break od;
    b = 1;
    do
    :: b <= NP ->
       a = 1;
       do
       :: a <= NP && a != b ->
          if :: IN(before[b], a) -> e[a * 4 + b] = 1 :: else fi;
          k = 0;
          do
          :: k < NL ->
             x = place[AT(a, k)];
             if
             :: x != 0 && place[AT(b, k)] > x -> e[a * 4 + b] = 1
             :: else
             fi;
             if
             :: x != 0 && seen_by[AT(b, k)] != UNREAD ->
                assert(seen_by[AT(b, k)] == 0 || committed[seen_by[AT(b, k)]]);
                if
                :: x <= PLACE(seen_by[AT(b, k)], k) -> e[a * 4 + b] = 1
                :: else -> e[b * 4 + a] = 1
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
    :: k <= NP ->
       a = 1;
       do
       :: a <= NP ->
          b = 1;
          do :: b <= NP -> e[a * 4 + b] = e[a * 4 + b] || (e[a * 4 + k] && e[k * 4 + b]); b++ :: else -> break od;
          a++
       :: else -> break
       od;
       k++
    :: else -> break
    od;
    assert(!e[5] && !e[10] && !e[15]); /* serializable */
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
/* REQUIRES the lock. Contexts of the dead: line-recovered. Doing it twice is once. */
inline recover(d) {
  i = 0;
  do
  :: atomic { i < NL && own[i] == d && status[d] == COMMITTED -> SAY("%d line-recovered: write back\n"); home[i] = d };
     W(own[i] = 0; ver[i] = stamp[d])
  :: W(i < NL && own[i] == d && status[d] != COMMITTED -> SAY("%d line-recovered: undone\n"); own[i] = 0; ver[i] = saved[AT(d, i)])
  :: atomic { i < NL && own[i] != d -> i++ }
  :: atomic { i == NL -> i = 0; break }
  od
}

/* REQUIRES the lock. All line words of the page get the U bit. */
inline mark(page) {
  m = 0;
  do
  :: atomic { m < NL && PAGE_OF(m) != page -> m++ }
  :: W(m < NL && PAGE_OF(m) == page && own[m] == 0 -> SAY("%d recall-mark\n"); up[m] = 1; m++)
  :: atomic { m < NL && PAGE_OF(m) == page && own[m] != 0 && dead[own[m]] -> d = own[m] }; recover(d); d = 0
#if PLANT == 2
  :: W(m < NL && PAGE_OF(m) == page && own[m] != 0 -> own[m] = 0; up[m] = 1; m++)
#endif
  :: atomic { m == NL -> m = 0; break }
  od;
#if PLANT != 7
  W(line_clock++) /* recall-mark's end: instances that stamp after it see that they must validate */
#endif
}

inline lock() {
  W(domain == 0 || dead[domain] -> inherited = domain != 0; domain = p);
  if
  :: inherited && moving != 0 ->
     mark(moving - 1);
     W(SAY("%d move-repaired\n"); at2[moving - 1] = 1; inherited = 0);
     W(moving = 0)
  :: else -> inherited = 0
  fi
}

inline unlock() { W(assert(domain == p); domain = 0) }

/* REQUIRES the lock. Versions that no pin precedes go home, oldest first. The dead's pins are withdrawn. (One step: level 2's own protocol, see
 * consistency_tree.h.) */
inline collect() {
  W(
    best = NONE; a = 1;
    do
    :: a <= NP ->
       if :: dead[a] -> pin[a] = NONE; res[0] = res[0] & ~(1 << a); res[1] = res[1] & ~(1 << a) :: else fi;
       if :: pin[a] < best -> best = pin[a] :: else fi;
       a++
    :: else -> break
    od;
    x = 1; /* clock value */
    do
    :: x <= clock && x <= best ->
       a = 1;
       do
       :: a <= NP ->
          if
          :: version[a] && commit2[a] == x ->
             k = 0;
             do :: k < NL -> if :: IN(WRITES(a), k) -> home[k] = a :: else fi; k++ :: else -> break od;
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
  )
}

#define HAS(Q, i) (version[i] && TOUCHES(WRITES(i), Q))
#define HAS_VERSION(Q) (HAS(Q, 1) || HAS(Q, 2) || HAS(Q, 3))
#define SINCE(Q, s, i) (p != i && commit2[i] > (s) && TOUCHES(WRITES(i), Q))
#define COMMITTED_SINCE(Q, s) (SINCE(Q, s, 1) || SINCE(Q, s, 2) || SINCE(Q, s, 3))

/* ---- level 1 asks for a page: release. busy: 0, or 1 + whose instance is in the way (1: versions that cannot go home) ---- */
inline release(page) {
  lock();
  if
  :: atomic { !at2[page] -> busy = 0 }
  :: atomic { at2[page] -> SAY("%d release-start\n") };
     collect();
     if
     :: atomic { HAS_VERSION(page) -> busy = 1 }
     :: atomic { !HAS_VERSION(page) -> busy = 0; i = 1 };
#if PLANT != 6
        W(SAY("%d release-told: log\n"); told[page] = clock + 1);
        W(SAY("%d release-told\n"); clock++);
#endif
        do
        :: atomic { i <= NP && (!IN(res[page], i) || pin[i] == NONE) -> i++ }
#if PLANT == 1
        :: atomic { i <= NP && IN(res[page], i) && pin[i] != NONE -> i++ }
#else
        :: atomic { i <= NP && IN(res[page], i) && pin[i] != NONE && !dead[i] -> SAY("%d release-look: busy\n"); busy = 1 + i; i = NP + 1 }
        :: W(i <= NP && IN(res[page], i) && pin[i] != NONE && dead[i] -> SAY("%d release-look: reaped\n"); pin[i] = NONE; i++)
#endif
        :: atomic { i > NP -> i = 0; break }
        od;
#if PLANT == 6
        W(told[page] = clock + 1);
        W(clock++);
#endif
        if
        :: busy == 0 ->
           W(SAY("%d release-open\n"); moving = page + 1);
           W(res[page] = 0);
           W(line_clock++; version_now = line_clock);
#if PLANT != 8
           W(at2[page] = 0);
#endif
           i = 0;
           do
           :: atomic { i < NL && PAGE_OF(i) != page -> i++ }
           :: W(i < NL && PAGE_OF(i) == page -> up[i] = 0; ver[i] = version_now; i++)
           :: atomic { i == NL -> i = 0; version_now = 0; break }
           od;
#if PLANT == 8
           W(at2[page] = 0);
#endif
           W(moving = 0)
        :: else
        fi
     fi
  fi;
  unlock()
}

/* Holding nothing. go: 1: try again, 0: this instance aborts. */
inline ask(page) {
  release(page);
  if
  :: busy == 0 -> go = 1
  :: busy != 0 -> go = 0                                            /* abort-lower, or the budget is over */
  :: atomic { busy > 1 && asks == 0 -> asks = 1; busy-- };          /* recall-and-wait, wait-for-upper */
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
  :: o != 0 && dead[o] -> lock(); recover(o); unlock(); go = 1
  :: o != 0 && !dead[o] -> go = 0                                                              /* self-abort */
  :: o != 0 && !dead[o] -> atomic { own[q] != o || dead[o] -> go = 1 }                         /* wait, shortly */
  :: W(o != 0 && !dead[o] && status[o] == PENDING -> SAY("%d fails the holder\n"); status[o] = FAILED); /* oldest-wins ... */
     atomic { own[q] != o || dead[o] -> go = 1 }
  fi;
  o = 0
}

#define FIRST(mask) (down -> NL - 1 : 0)
#define NEXT(q) (down -> q - 1 : q + 1)
#define OVER(q) (q == NL || q == 255)
#define IS_SEEN(q) (own[q] == 0 && !up[q] && ver[q] == word[q])

/* Does any instance of level 2 run? One load each. */
inline look_for_pins() {
  i = 1;
  do
  :: atomic { i <= NP && (i == p || (LEVEL(i) != 2 && !ESCALATE)) -> i++ } /* never pinned */
  :: atomic { i <= NP && !(i == p || (LEVEL(i) != 2 && !ESCALATE)) -> pinned = pinned || pin[i] != NONE; i++ }
  :: atomic { i > NP -> i = 0; break }
  od
}

proctype Process(byte p; byte level; byte rs; byte ws; bool down) {
  byte q, i, m, d, o, tries, n;                     /* q: line at work */
  bool inherited, go, pinned, asks;
  byte busy, version_now;
  byte rv, v, value, word[NL];                      /* level 1 */
  byte c, l, mapped, touched, private, shown[NL], synced; /* level 2 */
  bool failed;

  d_step {
    tries = TRIES;
    if :: IN(UP0, p) -> mapped = 1 :: else fi;
    if :: IN(UP1, p) -> mapped = mapped | 2 :: else fi
  }
begin:
  atomic { before[p] = over; q = FIRST(rs) };
  if :: level == 1 -> goto lines :: else -> goto pages fi;

  /* ================= level 1 ================= */
lines:
  W(status[p] = PENDING);
  rv = line_clock;
read:
  do
  :: atomic { OVER(q) -> q = FIRST(ws); break }
  :: atomic { !OVER(q) && !IN(rs, q) -> q = NEXT(q) }
  :: !OVER(q) && IN(rs, q) ->
     if
     :: atomic { own[q] != 0 -> skip };
        meet_locked();
        if :: go -> goto read :: else -> goto give_up fi
     :: atomic { up[q] -> skip };
        ask(PAGE_OF(q));
        if :: go -> goto read :: else -> goto give_up fi
     :: atomic { own[q] == 0 && !up[q] -> v = ver[q] };
        value = home[q];
        if
        :: atomic { !(own[q] == 0 && !up[q] && ver[q] == v) -> v = 0; value = 0 }
        :: atomic { own[q] == 0 && !up[q] && ver[q] == v && v <= rv ->
                    word[q] = v; seen_by[AT(p, q)] = value; v = 0; value = 0; q = NEXT(q) }
        :: atomic { own[q] == 0 && !up[q] && ver[q] == v && v > rv -> rv = line_clock; v = 0; value = 0; i = 0 }; /* extend */
           do
           :: atomic { i < NL && (seen_by[AT(p, i)] == UNREAD || IS_SEEN(i)) -> i++ }
           :: atomic { i < NL && seen_by[AT(p, i)] != UNREAD && !IS_SEEN(i) -> i = 0; goto give_up }
           :: atomic { i == NL -> i = 0; break }
           od
        fi
     fi
  od;
  if :: ws == 0 -> atomic { committed[p] = 1; goto finish } :: else fi;

  /* line-lock */
  do
  :: atomic { OVER(q) -> q = 0; break }
  :: atomic { !OVER(q) && !IN(ws, q) -> q = NEXT(q) }
  :: W(!OVER(q) && IN(ws, q) && own[q] == 0 && !up[q] ->
       SAY("%d line-lock\n"); saved[AT(p, q)] = ver[q]; own[q] = p; q = NEXT(q))
  :: atomic { !OVER(q) && IN(ws, q) && own[q] != 0 -> skip };
     goto let_go
  :: atomic { !OVER(q) && IN(ws, q) && up[q] -> skip };
     goto let_go
  od;
#if PLANT == 4
  look_for_pins();
#endif
#if PLANT != 3
  W(SAY("%d line-stamp\n"); line_clock++; stamp[p] = line_clock);
#if PLANT != 4
  look_for_pins();
#endif
#endif
  /* line-validate */
  if
#if PLANT != 3
  :: stamp[p] == rv + 1 -> skip
  :: stamp[p] != rv + 1 ->
#else
  :: true ->
#endif
     do
     :: atomic { i < NL && (!IN(rs, i) || IS_SEEN(i) || (own[i] == p && saved[AT(p, i)] == word[i])) -> SAY("%d line-validate\n"); i++ }
     :: atomic { i < NL && IN(rs, i) && !IS_SEEN(i) && !(own[i] == p && saved[AT(p, i)] == word[i]) -> i = 0; q = NL; goto let_go }
     :: atomic { i == NL -> i = 0; break }
     od
  fi;
#if PLANT == 3
  W(SAY("%d line-stamp\n"); line_clock++; stamp[p] = line_clock);
  look_for_pins();
#endif
  /* line-save */
  if
  :: pinned ->
     do
     :: atomic { i < NL && !IN(ws, i) -> i++ }
     :: W(i < NL && IN(ws, i) -> SAY("%d line-save\n"); undo_stamp[p] = stamp[p]; undo[AT(p, i)] = home[i]; i++)
     :: atomic { i == NL -> i = 0; break }
     od
  :: else
  fi;
  /* line-commit-point */
  if
  :: W(status[p] == PENDING -> SAY("%d line-commit-point\n"); status[p] = COMMITTED; note_commit())
  :: atomic { status[p] != PENDING -> q = NL };
     goto let_go
  fi;
#if PLANT != 5
  do
  :: atomic { i < NL && !IN(ws, i) -> i++ }
  :: W(i < NL && IN(ws, i) -> SAY("%d line-write-back\n"); home[i] = p; i++)
  :: atomic { i == NL -> i = 0; break }
  od;
#endif
  do
  :: atomic { i < NL && !IN(ws, i) -> i++ }
  :: W(i < NL && IN(ws, i) -> SAY("%d line-unlock\n"); own[i] = 0; up[i] = 0; ver[i] = stamp[p]; i++)
  :: atomic { i == NL -> i = 0; break }
  od;
#if PLANT == 5
  do
  :: atomic { i < NL && !IN(ws, i) -> i++ }
  :: W(i < NL && IN(ws, i) -> home[i] = p; i++)
  :: atomic { i == NL -> i = 0; break }
  od;
#endif
  W(status[p] = IDLE);
#ifdef REUSE
  /* The next commit of this context wants the undo ring's room: are the words younger than some line pin? */
  if
  :: pinned ->
     pinned = 0; i = 1;
     do
     :: atomic { i <= NP && pin[i] == NONE -> i++ }
     :: atomic { i <= NP && pin[i] != NONE -> skip };
        if :: atomic { line_pin[i] >= stamp[p] -> i++ } :: atomic { line_pin[i] < stamp[p] -> pinned = 1; i = NP + 1 } fi
     :: atomic { i > NP -> i = 0; break }
     od;
     if
     :: !pinned -> W(i = 0; do :: i < NL -> undo[AT(p, i)] = UNREAD; i++ :: else -> break od; i = 0)
     :: else
     fi
  :: else
  fi;
#endif
  goto finish;

let_go: /* of all line words, before anything is waited for; q: the line that was not to be had, NL: none */
  do
  :: atomic { i < NL && own[i] != p -> i++ }
  :: W(i < NL && own[i] == p -> SAY("%d lets a line go\n"); own[i] = 0; up[i] = 0; ver[i] = saved[AT(p, i)]; i++)
  :: atomic { i == NL -> i = 0; break }
  od;
  if
  :: q != NL && up[q] -> ask(PAGE_OF(q))
  :: q != NL && own[q] != 0 -> meet_locked()
  :: q != NL && !up[q] && own[q] == 0 -> go = 1
  :: q == NL -> go = 0
  fi;
give_up: /* this instance aborts; what it has read must be a snapshot */
  if
  :: tries != 0 && go ->
     judge();
     atomic { tries--; word[0] = 0; word[1] = 0; word[NL - 1] = 0; rv = 0; asks = 0; go = 0; pinned = 0; stamp[p] = 0;
              seen_by[AT(p, 0)] = UNREAD; seen_by[AT(p, 1)] = UNREAD; seen_by[AT(p, NL - 1)] = UNREAD };
     goto begin
#if ESCALATE
  :: else ->
     judge();
     atomic { level = 2; word[0] = 0; word[1] = 0; word[NL - 1] = 0; rv = 0; asks = 0; go = 0; pinned = 0; stamp[p] = 0; tries = 1;
              seen_by[AT(p, 0)] = UNREAD; seen_by[AT(p, 1)] = UNREAD; seen_by[AT(p, NL - 1)] = UNREAD };
     W(status[p] = IDLE);
     goto begin
#else
  :: else -> goto finish
#endif
  fi;

  /* ================= level 2 ================= */
#define UNFOLLOWED(Q) (IN(mapped, Q) && !IN(touched, Q) && (told[Q] > synced && told[Q] <= clock || COMMITTED_SINCE(Q, synced)))
/* REQUIRES the lock. Pages that the commit log names are guarded. */
#define FOLLOW                                                            \
  if :: UNFOLLOWED(0) -> mapped = mapped & 2 :: else fi;                  \
  if :: UNFOLLOWED(1) -> mapped = mapped & 1 :: else fi;                  \
  synced = clock
pages:
  if
  :: atomic { !UNFOLLOWED(0) && !UNFOLLOWED(1) -> c = clock; synced = c };
     W(SAY("%d begin: pin\n"); pin[p] = c);
     l = line_clock;
     W(line_pin[p] = l);
     if
     :: clock == c -> skip
     :: clock != c -> W(pin[p] = NONE); goto pages
     fi
  :: atomic { UNFOLLOWED(0) || UNFOLLOWED(1) -> skip };
     lock();
     atomic { c = clock; FOLLOW };
     W(SAY("%d begin-locked: pin\n"); pin[p] = c);
     l = line_clock;
     W(line_pin[p] = l);
     unlock()
  fi;
  do
  :: atomic { OVER(q) -> q = 0; break }
  :: atomic { !OVER(q) && !IN(rs | ws, q) -> q = NEXT(q) }
  :: atomic { !OVER(q) && IN(rs | ws, q) && IN(mapped, PAGE_OF(q)) -> /* a load or store in the view */
              SAY("%d touches a page in its view\n");
              touched = touched | (1 << PAGE_OF(q));
              if
              :: IN(rs, q) && IN(private, PAGE_OF(q)) -> seen_by[AT(p, q)] = shown[q]
              :: IN(rs, q) && !IN(private, PAGE_OF(q)) -> seen_by[AT(p, q)] = home[q]
              :: else
              fi;
              q = NEXT(q) }
  :: !OVER(q) && IN(rs | ws, q) && !IN(mapped, PAGE_OF(q)) -> /* SIGSEGV */
     lock();
#if PLANT == 9
     n = ver[PAGE_OF(q)];
#endif
     if
     :: atomic { !at2[PAGE_OF(q)] -> skip };
        W(SAY("%d recall-start\n"); moving = PAGE_OF(q) + 1);
        mark(PAGE_OF(q));
        W(SAY("%d recall-done\n"); at2[PAGE_OF(q)] = 1);
        W(res[PAGE_OF(q)] = res[PAGE_OF(q)] | (1 << p));
        W(moving = 0)
     :: W(at2[PAGE_OF(q)] -> SAY("%d becomes resident\n"); res[PAGE_OF(q)] = res[PAGE_OF(q)] | (1 << p))
     fi;
     /* the newest of the page's versions */
#if PLANT != 9
     atomic { n = 0; i = 0;
              do :: i < NL -> if :: PAGE_OF(i) == PAGE_OF(q) && ver[i] > n -> n = ver[i] :: else fi; i++ :: else -> i = 0; break od };
#endif
     if
     :: n <= l -> n = 0
     :: n > l && !(IN(touched, 0) && COMMITTED_SINCE(0, c)) && !(IN(touched, 1) && COMMITTED_SINCE(1, c)) ->
        n = 0;
#if PLANT == 10
        c = clock;
#else
        atomic { c = clock; FOLLOW };
#endif
        W(SAY("%d extends\n"); pin[p] = c);
        l = line_clock;
        W(line_pin[p] = l)
     :: n > l && ((IN(touched, 0) && COMMITTED_SINCE(0, c)) || (IN(touched, 1) && COMMITTED_SINCE(1, c))) ->
        atomic { SAY("%d makes the page private\n"); n = 0; private = private | (1 << PAGE_OF(q)); failed = ws != 0 }
     fi;
     /* map it: home itself, or a private copy as of (c, l) */
     atomic {
       mapped = mapped | (1 << PAGE_OF(q));
       if :: HAS_VERSION(PAGE_OF(q)) -> private = private | (1 << PAGE_OF(q)) :: else fi;
       if
       :: IN(private, PAGE_OF(q)) ->
          k = 0;
          do
          :: k < NL && PAGE_OF(k) == PAGE_OF(q) ->
             shown[k] = home[k]; best = NONE; a = 1;
             do
             :: a <= NP ->
                if
                :: undo[AT(a, k)] != UNREAD && undo_stamp[a] > l && undo_stamp[a] < best -> best = undo_stamp[a]; shown[k] = undo[AT(a, k)]
                :: else
                fi;
                a++
             :: else -> break
             od;
             best = 0; a = 1;
             do
             :: a <= NP ->
                if
                :: version[a] && IN(WRITES(a), k) && commit2[a] <= c && commit2[a] > best -> best = commit2[a]; shown[k] = a
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
     };
     unlock()
  od;
  if
  :: ws == 0 -> committed[p] = 1
  :: ws != 0 && (failed || failed2[p]) -> skip
  :: else ->
     lock();
     if
     :: failed2[p] || (IN(touched, 0) && COMMITTED_SINCE(0, c)) || (IN(touched, 1) && COMMITTED_SINCE(1, c)) -> failed = 1
     :: else ->
        /* Versions are linked and logged with a stamp beyond the clock, so nobody sees them; the clock's store is the commit point. */
        W(SAY("%d commit-published\n"); clock++; commit2[p] = clock; version[p] = 1; note_commit());
        W(pin[p] = NONE);
        if :: collect() :: true fi /* not when they are not durable yet */
     fi;
     unlock()
  fi;
  W(pin[p] = NONE);
#if ESCALATE
  if
  :: ws != 0 && failed && tries != 0 ->
     judge();
     atomic { tries--; failed = 0; failed2[p] = 0; touched = 0; mapped = mapped & ~private; private = 0; c = 0; l = 0; shown[0] = 0; shown[1] = 0;
              shown[NL - 1] = 0; seen_by[AT(p, 0)] = UNREAD; seen_by[AT(p, 1)] = UNREAD; seen_by[AT(p, NL - 1)] = UNREAD };
     goto begin
  :: else
  fi;
#endif
finish:
  skip;
  d_step { over = over | (1 << p); ended++ };
  goto gone;
died:
  skip;
  d_step { SAY("%d dies\n"); ended++ };
gone:
  skip;
  d_step { q = 0; i = 0; m = 0; d = 0; o = 0; tries = 0; n = 0; inherited = 0; go = 0; pinned = 0; asks = 0; busy = 0; version_now = 0; rv = 0; v = 0;
           value = 0; word[0] = 0; word[1] = 0; word[NL - 1] = 0; c = 0; l = 0; mapped = 0; touched = 0; private = 0; synced = 0; failed = 0;
           shown[0] = 0; shown[1] = 0; shown[NL - 1] = 0 }
}

/* All have ended or died: the heir of everything sets all right, and what was committed must be home. */
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
          :: a <= NP -> if :: version[a] && commit2[a] == x && IN(WRITES(a), k) -> home[k] = a :: else fi; a++
          :: else -> break
          od;
          x++
       :: else -> break
       od;
       assert(places[k] == 0 -> home[k] == 0 : place[AT(home[k], k)] == places[k]); /* nothing committed is lost */
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
    :: i < (NP + 1) * NL -> seen_by[i] = UNREAD; undo[i] = UNREAD; i++
    :: else -> break
    od;
    i = 0;
    do :: i <= NP -> pin[i] = NONE; i++ :: else -> break od;
    if :: UP0 != 0 -> at2[0] = 1; res[0] = UP0 :: else fi;
    if :: UP1 != 0 -> at2[1] = 1; res[1] = UP1 :: else fi;
    i = 0;
    do :: i < NL -> up[i] = at2[PAGE_OF(i)]; i++ :: else -> break od;
    i = 0;
    if :: LEVEL1 != 0 -> run Process(1, LEVEL1, R1, W1, DOWN1) :: else -> ended++ fi;
    if :: LEVEL2 != 0 -> run Process(2, LEVEL2, R2, W2, DOWN2) :: else -> ended++ fi;
    if :: LEVEL3 != 0 -> run Process(3, LEVEL3, R3, W3, DOWN3) :: else -> ended++ fi
  };
  ended == NP;
  judge();
  settle()
}
