/* owners.pml -- own pages in words.pml, which includes this file where OWN=1: own_pages.cpp, and
 * what view.cpp and transaction.cpp do for it.
 *
 * Shape:     a task takes a page ("o", or a plain store to a page of which it has a copy); until
 *            it gives the page away, its mode is OWNED: the task's plain stores and transactions
 *            both store to home. keep_images() copies it before the pin; where the page is given
 *            away inside, that image becomes what words.pml calls the copy, with the words that the
 *            transaction has stored to as its own.
 * Values:    an in-place store that is not committed is early from OUTSIDE on: no snapshot, and no
 *            plain load, may see it. Its commit says since when it may be seen.
 * Requests:  the bit of a waiter's request; the signal comes at any later step of its owner, or not
 *            before its owner waits or ends.
 * Left out:  how often a page goes to and fro before it is taken, pages that are idle, forks,
 *            memory that is unmapped, closed nesting, and the first commit of more than 512 MiB.
 */
bool has_owner[PAGES], requested[PAGES];
byte owners[PAGES], sharers[PAGES];
byte listed[PAGES]; /* set of tasks whose list of own pages has it */
byte image[(TASKS + 1) * NW]; /* of each task's own pages, at its begin */
byte since[(TASKS + 1) * PAGES]; /* and the pages' newest entries */

#define IS_MINE(g) (mode[g] == OWNED)
#define TWIN(w) (IS_MINE(PAGE_OF(w)) -> image[p * NW + (w)] : copy[w])
#define TWIN_IS(w, v) \
  if :: IS_MINE(PAGE_OF(w)) -> image[p * NW + (w)] = v :: else -> copy[w] = v fi
#define IS_ANOTHERS is_anothers
/* What a toucher sees of owners. */
#define IS_FLAGGED(g) (has_owner[g] && PLANT != 29)
#if PLANT == 20
#define IS_SAME_OWNER(g) 1
#else
#define IS_SAME_OWNER(g) (owners[g] == seen)
#endif
#if PAGES == 1
#define OWNS_ANY (mode[0] == OWNED)
#define IS_ASKED (mode[0] == OWNED && requested[0])
#else
#define OWNS_ANY (mode[0] == OWNED || mode[1] == OWNED)
#define IS_ASKED (mode[0] == OWNED && requested[0] || mode[1] == OWNED && requested[1])
#endif

/* The list entry last: of a task that dies in between, forget_pages() finds the page. */
inline take_off(g, owner) {
#if PLANT == 24
  S(listed[g] = listed[g] & ~BIT(owner));
  S(has_owner[g] = 0; requested[g] = 0)
#else
  S(has_owner[g] = 0; requested[g] = 0);
  S(listed[g] = listed[g] & ~BIT(owner))
#endif
}

/* OwnPages::take(). REQUIRES: this task is a holder. */
inline take(g) {
#if PLANT != 22
  lock_commits();
#endif
  if
  :: has_owner[g] -> skip
  :: else ->
     S(listed[g] = listed[g] | BIT(p); requested[g] = 0);
#if PLANT == 28
     S(owners[g]++);
     S(has_owner[g] = 1);
#else
     S(has_owner[g] = 1);
     S(owners[g]++);
#endif
     if
     :: OTHERS(holders[g]) -> take_off(g, p)
     :: else ->
        if
#if PLANT != 21
        :: OTHERS(sharers[g]) -> take_off(g, p)
#endif
        :: else -> mode[g] = OWNED
        fi
     fi
  fi;
#if PLANT != 22
  unlock_commits()
#else
  skip
#endif
}

inline put_image(g, slot) {
  do
  :: S(ON(g, w) -> home[w] = image[(slot) * NW + w]; w++)
  :: atomic { OFF(g, w) -> w++ }
  :: atomic { w == NW -> w = 0; break }
  od
}

/* OwnPages::give_away_page(). */
inline give_away_page(g) {
  if
  :: pin[p] == OUTSIDE -> mode[g] = HELD; take_off(g, p)
  :: else ->
     atomic {
       mode[g] = KEPT;
       do :: w < NW -> if :: ON(g, w) -> copy[w] = image[p * NW + w] :: else fi; w++
          :: else -> w = 0; break od
     };
#if PLANT == 23
     take_off(g, p);
     put_image(g, p);
#else
     put_image(g, p);
     take_off(g, p);
#endif
     S(RAISE(released[g], pin[p]));
     S(holders[g] = holders[g] & ~BIT(p));
     S(sharers[g] = sharers[g] & ~BIT(p))
  fi
}
inline give_away(all) {
  if :: IS_MINE(0) && (all || requested[0]) -> give_away_page(0) :: else fi;
#if PAGES > 1
  if :: IS_MINE(1) && (all || requested[1]) -> give_away_page(1) :: else fi
#endif
}
/* A request may be answered at any step. */
#define MAY_GIVE_AWAY if :: IS_ASKED -> give_away(0) :: true fi

/* OwnPages::forget_dead(). */
inline forget_page(g, slot) {
  if
  :: IN(listed[g], slot) ->
     if /* is_unfinished() */
     :: pin[slot] != OUTSIDE &&
        (has_owner[g] -> newest[g] == since[(slot) * PAGES + (g)] || PLANT == 30 : PLANT == 25) ->
        put_image(g, slot)
     :: else
     fi;
     take_off(g, slot)
  :: else
  fi
}
inline forget_pages(slot) {
  if
  :: IN(listed[0], slot) || IN(listed[PAGES - 1], slot) ->
     lock_commits();
     forget_page(0, slot);
#if PAGES > 1
     forget_page(1, slot);
#endif
     unlock_commits()
  :: else
  fi
}

/* OwnPages::wait_for_owner(). */
#define IS_DEAD_HOLDER(g, t) (has_owner[g] && IN(holders[g], t) && dead[t] && IN(listed[g], t))
inline wait_for_owner(g) {
  do
  :: atomic { !has_owner[g] -> break }
  :: S(has_owner[g] && !requested[g] -> requested[g] = 1)
#if PLANT != 27
  :: IS_ASKED -> give_away(0)
#endif
#if DEATHS > 0
  :: IS_DEAD_HOLDER(g, 1) -> forget_pages(1)
  :: IS_DEAD_HOLDER(g, 2) -> forget_pages(2)
#if TASKS > 2
  :: IS_DEAD_HOLDER(g, 3) -> forget_pages(3)
#endif
#endif
  od
}

/* OwnPages::keep_images(). The image is looked at by others only once there is a pin. */
inline keep_images() {
  atomic {
    do
    :: w < NW ->
       if
       :: IS_MINE(PAGE_OF(w)) ->
          image[p * NW + w] = home[w]; since[p * PAGES + PAGE_OF(w)] = newest[PAGE_OF(w)]
       :: else
       fi;
       w++
    :: else -> w = 0; break
    od
  }
}

/* The judge: what a transaction finds in its own pages, but for what it stores, is what its pin
 * shows. */
inline check_own(but) {
  d_step {
    do
    :: k < NW ->
       assert(!IS_MINE(PAGE_OF(k)) || IN(but, k) || MAY_SEE(k, home[k], pin[p]));
       k++
    :: else -> k = 0; break
    od
  }
}

/* In place; words of copies are stored to at the commit. */
inline store_in_place() {
  do
  :: w < NW ->
     x = w; w = 0; MAY_GIVE_AWAY; w = x; x = 0;
     if
     :: S(IN(ws, w) && IS_MINE(PAGE_OF(w)) ->
          early[AT(w, VALUE)] = OUTSIDE; home[w] = VALUE)
     :: atomic { !(IN(ws, w) && IS_MINE(PAGE_OF(w))) -> skip }
     fi;
     w++
  :: atomic { w == NW -> w = 0; break }
  od;
  MAY_GIVE_AWAY;
  check_own(ws)
}

/* View::restore(). */
inline restore() {
  if :: IS_MINE(0) -> put_image(0, p) :: else fi;
#if PAGES > 1
  if :: IS_MINE(1) -> put_image(1, p) :: else fi
#endif
}

/* Plain loads: none sees what is not committed. */
inline load_plainly() {
  do
  :: w < NW && IN(rs, w) ->
     if
     :: mode[PAGE_OF(w)] < HELD ->
        x = w; w = 0;
        atomic { drop(PAGE_OF(x)) };
        S(sharers[PAGE_OF(x)] = sharers[PAGE_OF(x)] | BIT(p));
        wait_for_owner(PAGE_OF(x));
        mode[PAGE_OF(x)] = SHARED;
        w = x; x = 0
     :: else
     fi;
     atomic { assert(early[AT(w, home[w])] != OUTSIDE); w++ };
     x = w; w = 0; MAY_GIVE_UP; w = x; x = 0
  :: w < NW && !IN(rs, w) -> w++
  :: w == NW -> w = 0; break
  od
}
