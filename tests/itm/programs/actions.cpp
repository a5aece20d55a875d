// tests/itm/programs/actions.cpp -- functions of the user's that run after a commit, in order, or
// after a rollback, in reverse order.
#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

// What ran, one character each. Actions run outside of their transaction: plain stores.
char ran[64];
int ran_count;
// GCC leaves out a transaction that stores nothing itself: outer ones store here.
long other_word;
long word;
long seen_by_action;

void note(void *what) { ran[ran_count++] = *static_cast<const char *>(what); }

char letters[] = "abcdefghijklmnopqrstuvwxyz";

void see_word(void *) { seen_by_action = word; }

void add_to_other_word(void *) {
  __transaction_atomic { other_word = other_word + 1; }
}
ITM_PURE void add_when_undone() { _ITM_addUserUndoAction(add_to_other_word, nullptr); }

ITM_PURE void on_commit(int letter) {
  _ITM_addUserCommitAction(note, _ITM_noTransactionId, &letters[letter]);
}

ITM_PURE void on_undo(int letter) { _ITM_addUserUndoAction(note, &letters[letter]); }

ITM_PURE void forget() { ran_count = 0; }

std::string told() { return ran_count == 0 ? "none" : std::string(ran, ran + ran_count); }

}  // namespace

ITM_PROGRAM(actions_run_after_the_commit_in_order, "abc") {
  __transaction_atomic {
    on_commit(0);
    word = 1;
    on_commit(1);
    on_commit(2);
  }
  return told();
}

ITM_PROGRAM(actions_of_a_commit_do_not_run_after_a_cancel, "none") {
  __transaction_atomic {
    on_commit(0);
    word = 1;
    __transaction_cancel;
  }
  return told();
}

ITM_PROGRAM(actions_of_an_undo_run_in_reverse, "cba 0") {
  __transaction_atomic {
    on_undo(0);
    word = 1;
    on_undo(1);
    on_undo(2);
    __transaction_cancel;
  }
  return itm::say(told(), word);
}

ITM_PROGRAM(actions_of_an_undo_do_not_run_after_a_commit, "none") {
  __transaction_atomic {
    on_undo(0);
    word = 1;
  }
  return told();
}

ITM_PROGRAM(actions_of_both_kinds_commit, "bd") {
  __transaction_atomic {
    on_undo(0);
    on_commit(1);
    word = 1;
    on_undo(2);
    on_commit(3);
  }
  return told();
}

ITM_PROGRAM(actions_of_both_kinds_cancel, "ca") {
  __transaction_atomic {
    on_undo(0);
    on_commit(1);
    word = 1;
    on_undo(2);
    on_commit(3);
    __transaction_cancel;
  }
  return told();
}

ITM_PROGRAM(actions_see_the_committed_word, "5") {
  __transaction_atomic {
    _ITM_addUserCommitAction(see_word, _ITM_noTransactionId, nullptr);
    word = 5;
  }
  return itm::say(seen_by_action);
}

ITM_PROGRAM(actions_of_a_nested_one_wait_for_the_outer, "none ab") {
  __transaction_atomic {
    other_word = 1;
    on_commit(0);
    __transaction_atomic {
      word = 1;
      on_commit(1);
    }
    itm::write_down(0, ran_count);
  }
  return itm::say(itm::told(0) == 0 ? "none" : "some", told());
}

ITM_PROGRAM(actions_of_a_nested_cancel_are_dropped, "ac") {
  __transaction_atomic {
    other_word = 1;
    on_commit(0);
    __transaction_atomic {
      itm::put(&word, 1);
      on_commit(1);
      __transaction_cancel;
    }
    on_commit(2);
  }
  return told();
}

ITM_PROGRAM(actions_of_an_undo_in_a_nested_cancel, "cb") {
  // Undo actions also run when the library begins again by its own choice.
  __transaction_atomic {
    forget();
    other_word = 1;
    on_undo(0);
    __transaction_atomic {
      itm::put(&word, 1);
      on_undo(1);
      on_undo(2);
      __transaction_cancel;
    }
  }
  return told();
}

ITM_PROGRAM(actions_of_an_undo_of_outer_and_nested, "ba") {
  __transaction_atomic {
    other_word = 1;
    on_undo(0);
    __transaction_atomic {
      itm::put(&word, 1);
      on_undo(1);
    }
    itm::look_away();
    __transaction_cancel;
  }
  return told();
}

ITM_PROGRAM(actions_are_forgotten_by_the_next_one, "a") {
  __transaction_atomic {
    on_commit(0);
    word = 1;
  }
  __transaction_atomic { word = 2; }
  __transaction_atomic {
    word = 3;
    __transaction_cancel;
  }
  return told();
}

ITM_PROGRAM(actions_many, "20000") {
  struct Count {
    static void one(void *) { ++seen_by_action; }
  };
  for (int round = 0; round < 2; ++round) {
    __transaction_atomic {
      for (int i = 0; i < 10000; ++i) {
        _ITM_addUserCommitAction(Count::one, _ITM_noTransactionId, nullptr);
      }
      word = 1;
    }
  }
  return itm::say(seen_by_action);
}

ITM_PROGRAM(actions_after_an_exception, "ab") {
  try {
    __transaction_atomic {
      on_commit(0);
      on_commit(1);
      word = 1;
      throw 3;
    }
  } catch (int) {
    seen_by_action = 1;
  }
  return told();
}

ITM_PROGRAM(actions_of_an_irrevocable_one, "ab") {
  __transaction_relaxed {
    on_commit(0);
    _ITM_changeTransactionMode(modeSerialIrrevocable);
    on_commit(1);
    on_undo(2);
    word = 1;
  }
  return told();
}

ITM_PROGRAM(actions_run_once_in_spite_of_restarts, "a 11") {
  itm::Conflict conflict([] {
    __transaction_atomic { word = word + 10; }
  });
  __transaction_atomic {
    on_commit(0);
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(told(), word);
}

ITM_PROGRAM(actions_undo_action_runs_a_transaction, "2 0") {
  __transaction_atomic {
    add_when_undone();
    add_when_undone();
    word = 1;
    __transaction_cancel;
  }
  return itm::say(other_word, word);
}
