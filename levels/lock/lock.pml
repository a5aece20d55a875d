/* lock.pml -- levels/lock for the model checker spin: queues, sleep, deadlocks and deaths.
 *
 * Shape:     two or three lockers, each a process. Each has one or two rounds (Aij, Bij): locks
 *            object A, then object B, then gives both back; 0: none. All locks exclude each other.
 *            Inlines are named after the functions that they model.
 * Steps:     one atomic block = what is done under one bucket's lock, or one access to a shared
 *            word; a victim's end is two, for its state is read without the lock. A death under a
 *            bucket's lock is one before or behind it: the next holder makes the lists anew
 *            (HeldBucket::repair), which the model need not have.
 * Time:      a sleep may end by itself once something has changed since the sleeper looked last:
 *            less often than a real one.
 * Judged:    without deaths a locker that fails is in a cycle at that moment, and at most VICTIMS
 *            fail. (A death may end a cycle between a look's last reading and its choice.) Every
 *            living locker ends: nothing is a valid end state but its end. A dead locker's locks
 *            are given back by one heir at a time.
 * Faults:    PLANT=n plants the n-th fault of tests/house/lock_protocol.py's list.
 * Left out:  modes, counts, upgrades, vectors; the lists. Memory is sequentially consistent.
 */
#ifndef LOCKERS
#define LOCKERS 3
#endif
#ifndef PLANT
#define PLANT 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef LOOKS
#define LOOKS 1 /* 0: no sleep ends by itself */
#endif
#ifndef VICTIMS
#define VICTIMS 255 /* not judged */
#endif

#define NONE 0
#define WAITING 1
#define HELD 2
#define VICTIM 3
#define OBJECTS 3

/* ---- what lockers share; lockers and objects begin with 1, and 0 is none ---- */
byte holder[OBJECTS + 1];
byte state[LOCKERS + 1];  /* of the request that the locker waits with */
byte wants[LOCKERS + 1];  /* and of which object */
byte ticket[LOCKERS + 1];
byte begun[LOCKERS + 1];  /* LockerCell::waits_begun */
byte wake[LOCKERS + 1];   /* the futex */
bool in_queue[LOCKERS + 1]; /* of a victim: the look has not taken it out yet */
bool asleep[LOCKERS + 1];
byte owner[LOCKERS + 1];  /* LockerCell::owner: itself, then its heir */
byte look_lock;
byte next_ticket = 1;

/* ---- what only the judge knows ---- */
bool dead[LOCKERS + 1];
bool ended[LOCKERS + 1];
bool is_heir[LOCKERS + 1];
byte deaths;
byte victims;
bool news[LOCKERS + 1]; /* of who waits for whom, since the locker looked last */

byte j_at;
bool j_real;

#if LOCKERS > 2
#define CHANGED news[1] = true; news[2] = true; news[3] = true
#else
#define CHANGED news[1] = true; news[2] = true
#endif

/* HeldBucket::grant(): the first waiter, if no locker holds the object. */
inline grant(o, who) {
  who = 0;
  if
  :: holder[o] == 0 ->
    j_at = 1;
    do
    :: j_at <= LOCKERS ->
      if
      :: state[j_at] == WAITING && wants[j_at] == o &&
         (who == 0 || ticket[j_at] < ticket[who]) -> who = j_at
      :: else
      fi;
      j_at++
    :: else -> break
    od;
    if
    :: who != 0 ->
      holder[o] = who;
      state[who] = HELD;
      if
      :: PLANT != 1 -> wake[who] = (wake[who] + 1) % 4
      :: else
      fi
    :: else
    fi
  :: else
  fi;
  j_at = 0;
  CHANGED
}

/* HeldBucket::remove(), of one object that the locker holds. */
inline give(l) {
  atomic {
    i = ((holder[1] == l) -> 1 : ((holder[2] == l) -> 2 : 3));
    holder[i] = 0;
    grant(i, who);
    i = 0
  }
}

inline futex_wake(who) {
  if
  :: who != 0 && PLANT != 1 -> asleep[who] = false
  :: else
  fi
}

#if DEATHS > 0
#define MAY_DIE(label) \
  if \
  :: true \
  :: deaths < DEATHS -> goto label \
  fi
#else
#define MAY_DIE(label)
#endif

/* Is the locker in a cycle at this moment? */
inline judge(l) {
  j_at = l;
  j_real = false;
  do
  :: state[j_at] == WAITING && holder[wants[j_at]] != 0 ->
    j_at = holder[wants[j_at]];
    if
    :: j_at == l -> j_real = true; break
    :: else ->
      /* a cycle that the locker is not in */
      if
      :: state[j_at] == WAITING && holder[wants[j_at]] != 0 &&
         holder[wants[j_at]] != l && state[holder[wants[j_at]]] == WAITING &&
         holder[wants[holder[wants[j_at]]]] == j_at -> break
      :: else
      fi
    fi
  :: else -> break
  od;
  assert(j_real);
  j_at = 0;
  j_real = false
}

#define NEXT_OF(l) ((state[l] == WAITING) -> holder[wants[l]] : 0)

proctype Locker(byte me; byte a1; byte b1; byte a2; byte b2) {
  byte round = 0;
  byte first = 0, second = 0; /* objects of this round */
  byte object = 0;            /* what it locks */
  byte seen = 0, who = 0;
  /* a look */
  byte way[LOCKERS + 1];
  byte waits[LOCKERS + 1];
  byte length = 0, i = 0, start = 0, at = 0, chosen = 0;
  bool is_real = false;
  byte heir_of = 0;

next_round:
  round++;
  if
  :: round == 1 -> first = a1; second = b1
  :: round == 2 -> first = a2; second = b2
  :: else -> goto done
  fi;
  if
  :: first == 0 -> goto done
  :: else
  fi;
  object = first;

/* ---- LockTable::lock() ---- */
lock:
  MAY_DIE(die);
  atomic {
    j_at = 1;
    do
    :: j_at <= LOCKERS && !(state[j_at] == WAITING && wants[j_at] == object) -> j_at++
    :: else -> break
    od;
    if
    :: holder[object] == 0 && j_at > LOCKERS -> holder[object] = me; j_at = 0; CHANGED; goto got
    :: else ->
      state[me] = WAITING;
      wants[me] = object;
      ticket[me] = next_ticket;
      next_ticket++;
      begun[me]++;
      CHANGED
    fi;
    j_at = 0
  };

/* ---- LockTable::await() ---- */
await:
  MAY_DIE(die);
  if
  :: PLANT == 2 -> /* it looks before it reads the word */
    if
    :: state[me] != WAITING -> goto woken
    :: else
    fi;
    seen = wake[me]
  :: else ->
    seen = wake[me];
    if
    :: state[me] != WAITING -> goto woken
    :: else
    fi
  fi;
  atomic {
    asleep[me] = (wake[me] == seen)
  };
  MAY_DIE(die);
  if
  :: atomic { !asleep[me] -> goto await }
  :: atomic { LOOKS && asleep[me] && news[me] -> asleep[me] = false; news[me] = false }
  fi;

/* ---- LockTable::settle_blockers() ---- */
  at = NEXT_OF(me);
  if
  :: at != 0 && PLANT != 5 -> goto settle
  :: else -> goto look
  fi;
settle:
  heir_of = 0;
  atomic {
    if
    :: dead[owner[at]] && (holder[1] == at || holder[2] == at || holder[3] == at ||
                           state[at] == WAITING) ->
      if
      :: PLANT != 6 -> owner[at] = me
      :: else
      fi;
      heir_of = at;
      assert(!is_heir[at]);
      is_heir[at] = true
    :: else
    fi
  };
  if
  :: heir_of == 0 -> goto look
  :: else
  fi;
  MAY_DIE(die);
  atomic { /* what it waited for is no more its */
    if
    :: state[heir_of] == WAITING -> state[heir_of] = NONE; grant(wants[heir_of], who)
    :: else
    fi
  };
  futex_wake(who);
  do
  :: holder[1] == heir_of || holder[2] == heir_of || holder[3] == heir_of ->
    MAY_DIE(die);
    give(heir_of);
    futex_wake(who)
  :: else -> break
  od;
  atomic { is_heir[heir_of] = false; heir_of = 0; i = 0; at = 0; who = 0 };

/* ---- WaitsFor::look_from() ---- */
look:
  if
  :: PLANT == 4
  :: else -> atomic { look_lock == 0 || dead[look_lock] -> look_lock = me }
  fi;
  at = me;
  length = 0;
find:
  MAY_DIE(die);
  atomic { /* WaitsFor::read() */
    way[length] = at;
    waits[length] = begun[at];
    length++;
    at = NEXT_OF(at)
  };
  if
  :: at == 0 -> goto looked
  :: else
  fi;
  d_step {
    start = 0;
    do
    :: start < length && way[start] != at -> start++
    :: else -> break
    od
  };
  if
  :: start == length && length <= LOCKERS -> goto find
  :: start == length && length > LOCKERS -> goto looked
  :: else
  fi;
  /* WaitsFor::is_real(): the cycle is way[start..length) */
  is_real = true;
  i = start;
  do
  :: i < length && PLANT != 3 ->
    atomic {
      at = ((i + 1 == length) -> way[start] : way[i + 1]);
      is_real = is_real && begun[way[i]] == waits[i] && NEXT_OF(way[i]) == at;
      i++
    }
  :: else -> break
  od;
  i = start;
  do
  :: i < length && PLANT != 3 ->
    atomic {
      is_real = is_real && state[way[i]] == WAITING && begun[way[i]] == waits[i];
      i++
    }
  :: else -> break
  od;
  if
  :: !is_real -> goto looked
  :: else
  fi;
  MAY_DIE(die);
  /* WaitsFor::choose(): participants may have different policies */
  d_step {
    chosen = start;
    i = start;
    do
    :: i < length ->
      if
      :: me % 2 == 1 && way[i] > way[chosen] -> chosen = i
      :: me % 2 == 0 && way[i] < way[chosen] -> chosen = i
      :: else
      fi;
      i++
    :: else -> break
    od;
    at = way[chosen];
    who = 0
  };
  atomic { /* WaitsFor::fail(): a waiter reads its state without the bucket's lock */
    if
    :: state[at] == WAITING && begun[at] == waits[chosen] ->
      if
      :: deaths == 0 -> judge(at)
      :: else
      fi;
      state[at] = VICTIM;
      in_queue[at] = true;
      victims++;
      who = at;
      CHANGED
    :: else
    fi
  };
  atomic { /* HeldBucket::unlink() and wake(), under the same lock */
    if
    :: who != 0 -> in_queue[who] = false; wake[who] = (wake[who] + 1) % 4
    :: else
    fi
  };
  futex_wake(who);
looked:
  atomic {
    if
    :: look_lock == me -> look_lock = 0
    :: else
    fi;
    i = 0; start = 0; at = 0; length = 0; chosen = 0; who = 0; is_real = false
  };
  goto await;

woken:
  if
  :: state[me] == VICTIM ->
    /* Requests::release(): the bucket's lock, behind the look that has it */
    if
    :: PLANT != 7 -> !in_queue[me]
    :: else
    fi;
    assert(!in_queue[me]);
    state[me] = NONE;
    goto give_back
  :: else -> state[me] = NONE
  fi;
got:
  MAY_DIE(die);
  if
  :: object == first && second != 0 && first != second -> object = second; goto lock
  :: else
  fi;

/* ---- LockTable::unlock_all() ---- */
give_back:
  do
  :: holder[1] == me || holder[2] == me || holder[3] == me ->
    give(me);
    MAY_DIE(die);
    futex_wake(who)
  :: else -> break
  od;
  goto next_round;

die:
  atomic {
    deaths++;
    dead[me] = true;
    /* Whatever it was the heir of has no owner that lives. */
    if
    :: heir_of != 0 -> is_heir[heir_of] = false
    :: else
    fi;
    CHANGED
  };
done:
  ended[me] = true
}

#ifndef A12
#define A12 0
#define B12 0
#endif
#ifndef A22
#define A22 0
#define B22 0
#endif
#ifndef A32
#define A32 0
#define B32 0
#endif

init {
  atomic {
    owner[1] = 1;
    owner[2] = 2;
    run Locker(1, A11, B11, A12, B12);
    run Locker(2, A21, B21, A22, B22);
#if LOCKERS > 2
    owner[3] = 3;
    run Locker(3, A31, B31, A32, B32);
#endif
  }
  ended[1] && ended[2];
#if LOCKERS > 2
  ended[3];
#endif
  assert(VICTIMS == 255 || deaths > 0 || victims <= VICTIMS)
}
