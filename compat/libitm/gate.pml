/* gate.pml -- gate.h and gate.cpp for the model checker spin: which threads are in a transaction,
 * being alone, and committers that wait for readers.
 *
 * Shape:     two or three threads with a program each (PROGRAMi). Memory has two lines: line 0 is
 *            the way to line 1, open (1) or closed (0). Level 1's software algorithm runs on them,
 *            storing in place: versions, a clock, locks at the store, old values, snapshots that
 *            are extended. Inlines are named after the functions, here and in thread.cpp, that they
 *            model.
 * Steps:     one atomic block or statement = one access to what threads share.
 * Judged:    once a committer that has closed the way has waited for readers, line 1 is its own: no
 *            transaction loads, stores or restores it (privatisation). The same where another
 *            transaction has only read that the way is closed, and has waited. Who finds the way
 *            open finds what was stored to line 1 before it was opened (publication). A load gets
 *            what was committed. While a thread is alone, no other is inside, and none in hardware.
 *            At a fork nothing has been stored that may still be undone.
 * Waiting:   a guard that blocks. So a deadlock is an invalid end state, and without a cycle every
 *            waiter goes on ("cycles"). A long reader waits, as it were, for being asked: its loads
 *            up to then change nothing.
 * Hardware:  a transaction in RTM is one atomic step whose guard is what it has read.
 * Faults:    PLANT=n plants the n-th fault of tests/house/itm_protocols.py's list.
 * Left out:  how long a waiter spins (who meets a lock begins again, and waits outside); the child
 *            of a fork; nesting; priority. Memory is sequentially consistent.
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef PLANT
#define PLANT 0
#endif
#ifndef OPEN
#define OPEN 1 /* is the way open in the beginning? */
#endif

/* Programs: what each thread does once. */
#define NOTHING 0
#define READS 1       /* if the way is open, loads line 1 */
#define READS_LONG 2  /* the same, and goes on until it is asked to move on */
#define WRITES 3      /* if the way is open, stores to line 1 */
#define PRIVATISES 4  /* closes the way; then line 1 is its own: stores plainly */
#define PUBLISHES 5   /* stores to line 1 plainly, then opens the way */
#define IS_ALONE 6    /* alone: if the way is open, stores to line 1 plainly */
#define GOES_ALONE 7  /* begins as READS, becomes irrevocable, stores to line 1 plainly */
#define HARDWARE 8    /* in RTM: if the way is open, stores to line 1 */
#define CLOSES_IN_HARDWARE 9 /* in RTM: closes the way; then line 1 is its own */
#define CLOSES 10     /* closes the way */
#define LEARNS 11     /* reads whether the way is closed; then line 1 is its own */
#define GOES_DIRTY 12 /* as GOES_ALONE, and has stored to line 1 before */
#define FORKS 13      /* between transactions */
#define AWAITS_FORK 14 /* irrevocable: ends when another thread has forked; then as IS_ALONE */
#define ALONE_TWICE 15 /* irrevocable; then as IS_ALONE */

#define OUTSIDE 31
#define IN(mask, i) ((((mask) >> (i)) & 1) != 0)
#define BIT(p) (1 << (p))

/* ---- what threads share ---- */
byte slot[THREADS + 1];   /* Slot::snapshot */
byte high;                /* slots ever used: 1..high */
byte alone;               /* alone_: a thread, or 0 */
byte irrevocable;         /* irrevocable_ */
byte displaced;           /* displaced_ */
bool is_making;           /* of process.cpp: a fork runs */
byte software;            /* software_ */
bool asked[THREADS + 1];  /* the window is shut: ask_to_move_on() */
byte clock;
byte version[2], locked[2];
byte memory[2];           /* line 1: the thread that has stored to it */
byte none_before;

/* ---- what only the judge knows ---- */
byte inside;   /* set of threads that may load and store */
byte owner;    /* the thread whose line 1 is its own */
byte committed[2];
bool is_lone;  /* the thread that is alone has waited for all */
bool is_undoable; /* a thread that is alone has stored what may be undone */
bool has_forked;
byte ended;

#define NOT_PRIVATE assert(owner == 0 || owner == p)
#define STORE_PLAINLY(q, value) memory[q] = value; committed[q] = value

/* ---- gate.h, gate.cpp ---- */
/* Gate::take_slot(): a slot of the thread's number. */
inline take_slot() {
  atomic { if :: high < p -> high = p :: else fi }
}

/* Gate::try_enter(). go: it is in. */
inline try_enter() {
#if PLANT == 1
  if
  :: alone == 0 -> atomic { slot[p] = clock; inside = inside | BIT(p); go = 1 }
  :: alone != 0 -> go = 0
  fi
#else
  x = clock; /* an older one than at the exchange only makes others wait longer */
  atomic { slot[p] = x; x = 0 };
  if
  :: atomic { alone == 0 -> inside = inside | BIT(p); go = 1 }
  :: atomic { alone != 0 -> go = 0 };
     slot[p] = OUTSIDE /* leave() */
  fi
#endif
}
/* Gate::enter(), as Thread::begin_lines() does it. */
inline enter() {
  do
  :: try_enter();
     if :: go -> go = 0; break :: else fi;
     alone == 0 /* wait_until_nobody_is_alone() */
  od
}
inline leave() { atomic { slot[p] = OUTSIDE; inside = inside & ~BIT(p) } }

/* Gate::wait_for_readers(), wait_for(): asks now and then. */
inline wait_for_readers(stamp) {
#if PLANT != 3
  x = high; i = 1;
  do
  :: i <= x ->
     do
     :: atomic { i == p || slot[i] >= stamp -> break }
#if PLANT != 4
     :: atomic { i != p && slot[i] < stamp && !asked[i] -> asked[i] = 1 }
#endif
     od;
     i++
  :: else -> atomic { i = 0; x = 0; break }
  od
#else
  skip
#endif
}
/* Gate::wait_for_older(). */
inline wait_for_older() {
#if PLANT != 17
  if
  :: none_before >= rv
  :: else -> wait_for_readers(rv); none_before = rv
  fi
#else
  skip
#endif
}
inline wait_for_all() {
#if PLANT == 2
  skip
#else
  x = high; i = 1;
  do
  :: atomic { i <= x && (i == p || slot[i] == OUTSIDE) -> i++ }
  :: atomic { i > x -> i = 0; x = 0; break }
  od
#endif
}
inline be_alone() {
#if PLANT == 5
  wait_for_all();
  atomic { alone == 0 -> alone = p };
#else
  atomic { alone == 0 -> alone = p };
  wait_for_all();
#endif
  atomic { check_alone(); is_lone = 1 }
}
/* go: it is alone. */
inline try_be_alone() {
#if PLANT == 6
  atomic { alone == 0 -> alone = p; go = 1 };
#else
  if
  :: atomic { alone == 0 -> alone = p; go = 1 }
  :: atomic { alone != 0 -> go = 0 }
  fi;
#endif
  if
  :: go ->
#if PLANT == 18
     x = slot[p];
     atomic { rv_shown = x; slot[p] = OUTSIDE; x = 0 };
#endif
     wait_for_all();
#if PLANT == 18
     atomic { slot[p] = rv_shown; rv_shown = 0 };
#endif
     atomic { check_alone(); is_lone = 1 }
  :: else
  fi
}
inline end_alone() {
  if :: atomic { irrevocable == p -> irrevocable = 0 } :: irrevocable != p fi;
#if PLANT == 22
  alone = 0; is_lone = 0
#else
  if
  :: atomic { alone == p -> alone = 0; is_lone = 0 }
  :: atomic { displaced == p -> displaced = 0; is_lone = 0 }
  fi
#endif
}
inline note_irrevocable() { irrevocable = p }
/* Gate::hold(). Its last wait_until() is the second guard. */
inline hold() {
  do
  :: atomic { alone == 0 -> alone = p }; wait_for_all(); break
#if PLANT == 20
  :: atomic { alone != 0 -> x = alone };
#else
  :: atomic { alone != 0 && irrevocable == alone -> x = alone };
#endif
     displaced = x;
     if
     :: atomic { alone == x -> alone = p; go = 1 }
     :: atomic { alone != x -> displaced = 0; x = 0 }
     fi;
     if
#if PLANT == 20 || PLANT == 21
     :: go -> atomic { go = 0; x = 0 }; break
#else
     :: go && irrevocable == x -> atomic { go = 0; x = 0 }; break
     :: go && irrevocable != x -> go = 0; let_go()
#endif
     :: else
     fi
  od
}
inline let_go() {
  x = displaced;
  alone = x;
  if
  :: x == 0
  :: atomic { x != 0 && displaced == x -> displaced = 0 }
  :: x != 0 && displaced != x ->
#if PLANT != 23
     if :: atomic { alone == x -> alone = 0 } :: alone != x fi
#endif
  fi;
  x = 0
}
/* The judge, at each access of a thread that is alone. */
inline check_alone() {
  assert((alone == p || displaced == p) && (inside & ~BIT(p)) == 0)
}

/* ---- level 1's algorithm ---- */
/* ProcessThread::are_unchanged(). */
#define IS_CHANGED(q) (IN(rs, q) && ((locked[q] != 0 && locked[q] != p) || version[q] > rv))
inline are_unchanged() {
  go = 1;
  if :: IS_CHANGED(0) -> go = 0 :: else fi;
  if :: go && IS_CHANGED(1) -> go = 0 :: else fi
}
/* ProcessThread::extend(). go: the snapshot is the clock's now. */
inline extend() {
  now = clock;
#if PLANT != 7
  are_unchanged();
#else
  go = 1;
#endif
  if
  :: go -> rv = now; slot[p] = now /* shown_ */
  :: else
  fi;
  now = 0
}
/* ProcessThread::answer(), before an access. */
inline answer() {
  if
  :: asked[p] ->
     asked[p] = 0;
     extend();
     if :: !go -> goto restart :: else -> go = 0 fi
  :: else
  fi
}
/* ProcessThread::settle(): line q is locked or newer than the snapshot. */
inline settle(q) {
  if
  :: atomic { locked[q] != 0 -> blocked = q + 1; goto restart }
  :: atomic { locked[q] == 0 && version[q] > rv -> skip };
     extend();
     if :: !go -> goto restart :: else -> go = 0 fi
  :: atomic { locked[q] == 0 && version[q] <= rv -> skip }
  fi
}
/* A load of line q by a transaction; the value is `seen`. */
inline load(q) {
  answer();
  do
  :: atomic { locked[q] == p -> seen = memory[q]; break }
  :: atomic { locked[q] == 0 && version[q] <= rv -> at = version[q] };
     atomic {
       assert(!is_lone || alone == p);
       if :: q == 1 -> NOT_PRIVATE :: else fi;
       seen = memory[q]
     };
     if
     :: atomic { locked[q] == 0 && version[q] == at ->
          assert(seen == committed[q]); rs = rs | BIT(q); at = 0; break }
     :: atomic { locked[q] != 0 || version[q] != at -> at = 0 }
     fi
  :: atomic { locked[q] != p && (locked[q] != 0 || version[q] > rv) -> skip };
     settle(q)
  od
}
/* ProcessThread::open_process_line(), keep(), and the store to line q. */
inline store(q, value) {
  answer();
  do
  :: atomic { locked[q] == p -> break }
  :: atomic { locked[q] == 0 && version[q] <= rv ->
       locked[q] = p; ls = ls | BIT(q); old[q] = memory[q]; break }
  :: atomic { locked[q] != p && (locked[q] != 0 || version[q] > rv) -> skip };
     settle(q)
  od;
  atomic {
    assert(!is_lone || alone == p);
    if :: q == 1 -> NOT_PRIVATE :: else fi;
    memory[q] = value
  }
}
/* ProcessThread::release(). */
inline release_line(q, commits) {
  atomic {
    if
    :: IN(ls, q) ->
       if :: commits -> committed[q] = memory[q] :: else fi;
       version[q] = stamp; locked[q] = 0; old[q] = 0
    :: else
    fi
  }
}
inline release(commits) {
  release_line(0, commits);
  release_line(1, commits);
  atomic { ls = 0; stamp = 0 }
}
/* ProcessThread::commit_stores(). done: its stamp; 0: it has stored nothing. */
inline commit_stores() {
  if
  :: ls != 0 ->
     atomic { clock++; stamp = clock };
     are_unchanged();
     if :: !go -> stamp = 0; goto restart :: else -> go = 0 fi;
     done = stamp;
     release(1)
  :: else
  fi
}
inline restore_line(q) {
  atomic {
    if
    :: IN(ls, q) ->
       if :: q == 1 -> NOT_PRIVATE :: else fi;
       memory[q] = old[q]
    :: else
    fi
  }
}
/* ProcessThread::undo(). */
inline undo() {
  if
  :: ls != 0 ->
#if PLANT == 16
     atomic { locked[0] = (locked[0] == p -> 0 : locked[0]);
              locked[1] = (locked[1] == p -> 0 : locked[1]) };
#endif
     restore_line(0);
     restore_line(1);
#if PLANT == 15
     atomic {
       if :: IN(ls, 0) -> locked[0] = 0; old[0] = 0 :: else fi;
       if :: IN(ls, 1) -> locked[1] = 0; old[1] = 0 :: else fi;
       ls = 0
     }
#else
     atomic { clock++; stamp = clock };
     release(0)
#endif
  :: else
  fi
}

/* ---- thread.cpp ---- */
/* Thread::begin_lines(). */
inline begin_lines() {
#ifdef HAS_HARDWARE
  software++; /* enter_software() */
#endif
  enter();
#if PLANT == 10
  take_slot();
#endif
  rv = clock;
  slot[p] = rv /* move_on() */
}
inline end_lines() {
  leave();
#ifdef HAS_HARDWARE
  software--
#endif
}
/* Thread::commit(). */
inline commit() {
  commit_stores();
#if PLANT == 11
  if :: done != 0 -> wait_for_readers(done) :: else -> wait_for_older() fi;
  end_lines();
#else
  end_lines();
  if :: done != 0 -> wait_for_readers(done) :: else -> wait_for_older() fi;
#endif
  done = 0
}
/* Line 1 is the thread's own. */
inline take_over() {
  atomic { assert(owner == 0); owner = p };
  atomic { STORE_PLAINLY(1, p) };
  assert(memory[1] == p)
}
inline store_alone() {
  check_alone();
  if
  :: memory[0] != 0 -> atomic { check_alone(); NOT_PRIVATE; STORE_PLAINLY(1, p) }
  :: else
  fi
}

proctype Thread(byte p; byte program) {
  byte rv, rv_shown, rs, ls, seen, at, stamp, done, blocked, now, i, x;
  byte old[2];
  bool go, wants_alone, has_waited;

#if PLANT != 10
  take_slot();
#endif
  if
  :: program == NOTHING -> goto finish
  :: program == IS_ALONE || program == AWAITS_FORK || program == ALONE_TWICE -> goto alone_first
  :: program == FORKS ->
     atomic { !is_making -> is_making = 1 };
     hold();
     atomic { assert(!is_undoable && locked[0] == 0 && locked[1] == 0); has_forked = 1 };
     let_go();
     is_making = 0;
     goto finish
#ifdef HAS_HARDWARE
  :: program == HARDWARE || program == CLOSES_IN_HARDWARE -> goto hardware
#endif
  :: program == PUBLISHES -> atomic { STORE_PLAINLY(1, p) }; goto begin
  :: else -> goto begin
  fi;
begin:
  begin_lines();
  if
  :: program == PRIVATISES -> store(0, 0); commit(); take_over(); goto finish
  :: program == CLOSES -> store(0, 0); commit(); goto finish
  :: program == PUBLISHES -> store(0, 1); commit(); goto finish
  :: else -> skip
  fi;
  load(0);
  if
  :: program == LEARNS ->
     commit();
     if :: !seen -> take_over() :: else fi;
     goto finish
  :: program != LEARNS && !seen -> commit(); goto finish
  :: program != LEARNS && seen -> skip
  fi;
  if
  :: program == WRITES -> store(1, p); commit(); goto finish
  :: else -> load(1); assert(OPEN || seen != 0)
  fi;
  if
  :: program == READS_LONG && !has_waited -> has_waited = 1; asked[p]; load(1)
  :: else
  fi;
  if
  :: program == GOES_DIRTY -> store(1, p)
  :: program == GOES_ALONE
  :: program != GOES_ALONE && program != GOES_DIRTY -> commit(); goto finish
  fi;
  /* Thread::go_irrevocable(). */
  wants_alone = 1;
  try_be_alone();
  if :: !go -> goto restart :: else -> go = 0 fi;
#if PLANT != 8
  extend();
  if :: !go -> end_alone(); goto restart :: else -> go = 0 fi;
#endif
  if :: ls != 0 -> atomic { clock++; stamp = clock }; release(1) :: else fi;
  end_lines();
  note_irrevocable();
  atomic { check_alone(); NOT_PRIVATE; assert(memory[0] != 0); STORE_PLAINLY(1, p) };
  end_alone();
  goto finish;
restart: /* Thread::restart(), roll_back() */
#if PLANT == 19
  leave();
#endif
  undo();
  atomic { rs = 0; seen = 0; at = 0; go = 0 };
#if PLANT == 9
  if :: wants_alone -> be_alone(); store_alone(); end_alone(); end_lines(); goto finish :: else fi;
#endif
  end_lines();
  if
  :: blocked != 0 -> atomic { locked[blocked - 1] == 0 -> blocked = 0 } /* wait_for_blocker() */
  :: else
  fi;
  if :: wants_alone -> goto alone_first :: else -> goto begin fi;
alone_first:
  be_alone();
  if
  :: (program == AWAITS_FORK || program == ALONE_TWICE) && !has_waited ->
     note_irrevocable(); program == ALONE_TWICE || has_forked; end_alone();
     has_waited = 1; goto alone_first
  :: else -> skip
  fi;
  if
  :: note_irrevocable(); store_alone()
  :: store_alone(); is_undoable = 1; is_undoable = 0
  fi;
  end_alone();
  goto finish;
#ifdef HAS_HARDWARE
hardware: /* Thread::begin_hardware() to commit_hardware() */
  alone == 0;
  go = (software != 0); /* code with barriers */
  if
#if PLANT == 12
  :: atomic { (go || software == 0) && locked[0] == 0 && locked[1] == 0 ->
#elif PLANT == 13
  :: atomic { alone == 0 && locked[0] == 0 && locked[1] == 0 ->
#else
  :: atomic { alone == 0 && (go || software == 0) && locked[0] == 0 && locked[1] == 0 ->
#endif
       assert(alone == 0 || !is_lone);
       if
       :: program == HARDWARE && memory[0] != 0 ->
          NOT_PRIVATE; STORE_PLAINLY(1, p);
          if :: go -> clock++; stamp = clock; version[1] = stamp :: else fi
       :: program == CLOSES_IN_HARDWARE ->
          STORE_PLAINLY(0, 0);
          if :: go -> clock++; stamp = clock; version[0] = stamp :: else fi
       :: else
       fi }
  :: atomic { alone != 0 || !go && software != 0 -> goto hardware } /* aborts */
  fi;
  go = 0;
#if PLANT != 14
  if :: stamp != 0 -> wait_for_readers(stamp) :: else fi;
#endif
  if :: program == CLOSES_IN_HARDWARE -> take_over() :: else fi;
#endif
finish:
  atomic { ended++; asked[p] = 0 };
  atomic {
    rv = 0; rs = 0; seen = 0; at = 0; stamp = 0; done = 0; blocked = 0; now = 0; i = 0; x = 0;
    go = 0; wants_alone = 0; has_waited = 0; rv_shown = 0
  }
}

init {
  atomic {
    byte i = 1;
    memory[0] = OPEN; committed[0] = OPEN;
    do :: i <= THREADS -> slot[i] = OUTSIDE; i++ :: else -> i = 0; break od;
    run Thread(1, PROGRAM1);
    run Thread(2, PROGRAM2);
#if THREADS > 2
    run Thread(3, PROGRAM3)
#endif
  };
  ended == THREADS;
  assert(alone == 0 && displaced == 0 && irrevocable == 0);
  assert(software == 0 && slot[1] == OUTSIDE && slot[2] == OUTSIDE)
}
