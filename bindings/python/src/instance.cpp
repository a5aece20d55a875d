#include "bindings/python/src/instance.h"

#include <utility>

#include "bindings/python/src/array_view.h"
#include "bindings/python/src/errors.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {

// Not trivial, so its first use in a thread makes it.
thread_local Running running_here;
std::uint64_t last_serial = 0;

using Objects = std::vector<PyObject *>;

void drop_all(Objects &objects) noexcept {
  for (PyObject *const object : std::exchange(objects, {})) Py_DECREF(object);
}

// Each action runs outside the instance, which has committed whatever the action raises.
void run_actions(Objects actions) noexcept {
  bool is_interrupted = false;
  for (PyObject *const action : actions) {
    const Owned result(staying([&] { return PyObject_CallNoArgs(action); }));
    if (!result && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
      PyErr_Clear();
      is_interrupted = true;
    } else if (!result) {
      PyErr_WriteUnraisable(action);
    }
    Py_DECREF(action);
  }
  if (is_interrupted) PyErr_SetInterrupt();
}

const Lent *held_array() noexcept {
  for (const Lent &lent : running().lent)
    if (Py_REFCNT(lent.raw) > 1) return &lent;
  return nullptr;
}

// One that something beside the attempt holds, garbage that holds itself not counted; or null.
const Lent *escaped_array() noexcept {
  if (held_array() == nullptr) return nullptr;
  const Owned gc(PyImport_ImportModule("gc"));  // PyGC_Collect() may be switched off
  const Owned collected(gc ? PyObject_CallMethod(gc.get(), "collect", nullptr) : nullptr);
  if (!collected) PyErr_Clear();
  return held_array();
}

[[nodiscard]] std::string escaped_message(const char *of, const std::string &name) {
  TMH_ASSERT(of != nullptr);
  return std::string("the ") + of + " kept a raw numpy array of '" + name +
         "' beyond its end, in a variable, an object or an exception: delete it, copy the array, "
         "or index the tmh.Array itself";
}

void warn_of_holder(const std::string &name) noexcept {
  const SavedError other;
  const std::string message =
      "C code, or ctypes, holds memory of '" + name +
      "' beyond the end of the body that asked for it: what it stores there is lost, or comes into "
      "another instance";
  if (PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1) != 0) PyErr_WriteUnraisable(nullptr);
}

// The attempt ends. What is still held may not be stored to, and keeps its memory mapped. can_read:
// the instance still runs.
void take_back(std::vector<Lent> lent, bool can_read) noexcept {
  std::erase_if(lent, [](const Lent &one) {
    TMH_ASSERT(one.raw != nullptr);
    if (Py_REFCNT(one.raw) > 1) return false;
    Py_DECREF(one.raw);
    return true;
  });
  if (lent.empty()) return;
  for (const Lent &one : lent)
    nb::inst_ptr<RawOwner>(PyArray_BASE(reinterpret_cast<PyArrayObject *>(one.raw)))->escape();
  const std::string name = settle_views(lent, can_read);
  // Of a query no array could ever be stored to.
  if (!name.empty() && !running().is_query) warn_of_holder(name);
  for (const Lent &one : lent) Py_DECREF(one.raw);
}

// What a traceback keeps of bodies that have ended.
void clear_frames(PyObject *traceback) noexcept {
  if (traceback == nullptr) return;
  const Owned module(PyImport_ImportModule("traceback"));
  const Owned done(module ? PyObject_CallMethod(module.get(), "clear_frames", "O", traceback)
                          : nullptr);
  if (!done) PyErr_Clear();
}

}  // namespace

Running &running() noexcept { return running_here; }

Running::~Running() {
  TMH_ASSERT(core == nullptr || core->inside > 0);
  if (core != nullptr) --core->inside;
}

void Running::forget() noexcept {
  forked_in = std::exchange(core, nullptr);
  pending = Pending::kNone;
  lent.clear();
  on_commit.clear();
}

Inside Inside::here() noexcept {
  Inside made;
  made.serial_ = running().serial;
  made.forks_ = forks();
  return made;
}

bool Inside::is_here() const noexcept {
  return forks_ == forks() && running().core != nullptr && running().serial == serial_;
}

void Inside::require_here(const char *block) const {
  TMH_ASSERT(block != nullptr);
  if (is_here()) return;
  if (forks_ != forks())
    raise(Errc::kDetached, std::string(block) + " was entered before this process was forked");
  raise(Errc::kNestedMisuse,
        std::string(block) + " is left in another thread, or after the instance around it");
}

void require_inside(const DomainCore &core, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (running().core == &core) [[likely]]
    return;
  raise_outside(core, what);
}

void raise_outside(const DomainCore &core, const char *what) {
  TMH_ASSERT(what != nullptr && running().core != &core);
  const bool was_forked = running().forked_in == &core;
  raise(Errc::kEndWithoutBegin,
        std::string(what) + " needs a running instance of " + core.folder() +
            (was_forked ? ": the body around it was entered before this process was forked; call "
                          "a function of its own that is decorated with @domain.atomically"
                        : ": do it in a function that is decorated with @domain.atomically"));
}

void require_update(const DomainCore &core, const char *what) {
  require_inside(core, what);
  if (running().is_query)
    raise(Errc::kQueryWrote, std::string(what) + " in a query; use domain.atomically");
}

void need_plain() {
  Running &here = running();
  TMH_ASSERT(here.core != nullptr);
  if (here.is_plain) [[likely]]
    return;
  Domain &domain = here.core->domain();
  if (here.is_query) {
    domain.begin_query();
    domain.end_query();
  } else {
    domain.begin();
    (void)domain.end();
  }
  here.is_plain = true;
}

void require_nestable(const DomainCore &core, Kind kind) {
  const Running &here = running();
  TMH_ASSERT(here.core != nullptr);
  if (here.core != &core)
    raise(Errc::kNestedMisuse, "this thread runs an instance of " + here.core->folder() +
                                   "; one of " + core.folder() + " cannot be part of it");
  if (here.is_query && kind == Kind::kUpdate)
    raise(Errc::kNestedMisuse, "an update cannot be part of a query");
  if (here.pending != Pending::kNone) throw detail::LineAbort{};
}

void BodyAttempts::begin() {
  TMH_ASSERT(running().core == nullptr);
  // An attempt that follows another one waits first.
  core_.await_entry();
  const bool lets_others_run = !is_first_ || has_other_threads();
  is_first_ = false;
  forks_ = forks();
  ++core_.inside;
  try {
    const Unlocked others(lets_others_run);
    attempts_.begin();
  } catch (...) {
    --core_.inside;
    throw;
  }
  Running &here = running();
  here.core = &core_;
  here.is_query = kind_ == Kind::kQuery;
  here.is_block = here.is_plain = false;
  here.pending = Pending::kNone;
  here.depth = 0;
  here.serial = ++last_serial;
}

void BodyAttempts::leave() noexcept {
  if (forks_ != forks()) return;
  Running &here = running();
  TMH_ASSERT(here.core == &core_ && core_.inside > 0);
  here.core = nullptr;
  --core_.inside;
  take_back(std::exchange(here.lent, {}), false);
}

BodyAttempts::Outcome BodyAttempts::end(bool has_returned, Owned *result) noexcept {
  try {
    Running &here = running();
    if (forks_ != forks()) {
      (void)attempts_.end();  // throws, as the next line
      raise(Errc::kDetached, "this process was forked in the body");
    }
    if (has_returned && here.pending == Pending::kNone && here.depth != 0) {
      set_error(Errc::kNestedMisuse, "a block inside the instance is still open");
      has_returned = false;
    }
    if (has_returned && here.pending == Pending::kNone) {
      if (const Lent *const escaped = escaped_array(); escaped != nullptr) {
        set_error("EscapedArrayError", escaped_message("body", escaped->name));
        has_returned = false;
      }
    }
    if (!has_returned || here.pending != Pending::kNone) {
      if (result != nullptr) {
        const SavedError error;
        *result = Owned();
      }
      return end_undone();
    }
    bool committed = false;
    {
      const Unlocked others(lets_others_run_at_end());
      committed = attempts_.end();
    }
    leave();
    Objects actions = std::exchange(here.on_commit, {});
    if (committed) {
      run_actions(std::move(actions));
      return Outcome::kCommitted;
    }
    drop_all(actions);
    return Outcome::kAgain;
  } catch (...) {
    leave();
    if (forks_ == forks()) drop_all(running().on_commit);
    set_error_from_thrown();
    return Outcome::kRaised;
  }
}

BodyAttempts::Outcome BodyAttempts::end_undone() {
  TMH_ASSERT(running().core == &core_);
  Running &here = running();
  SavedError error;
  // Such as KeyboardInterrupt: nothing that an attempt has seen explains it.
  const bool is_from_outside = error.type() != nullptr &&
                               PyErr_GivenExceptionMatches(error.type(), PyExc_Exception) == 0 &&
                               PyErr_GivenExceptionMatches(error.type(), abort_class()) == 0;
  if (held_array() != nullptr) {
    // Its traceback holds the body's variables. What they run as they go finds an instance that is
    // undone, or has ended.
    if (here.pending == Pending::kNone || is_from_outside)
      clear_frames(error.traceback());
    else
      error.drop();
  }
  take_back(std::exchange(here.lent, {}), here.pending != Pending::kLineAbort);
  const Pending pending = std::exchange(here.pending, Pending::kNone);
  bool again = true;
  try {
    const Unlocked others(true);
    switch (pending) {
      case Pending::kLineAbort:
        attempts_.unwound();
        break;
      case Pending::kRetryNow:
        attempts_.retried(here.why);
        break;
      case Pending::kNone:
        again = !attempts_.threw();
        break;
    }
  } catch (...) {
    error.drop();
    throw;
  }
  leave();
  drop_all(here.on_commit);
  if (!again || is_from_outside) return Outcome::kRaised;
  error.drop();
  return Outcome::kAgain;
}

PyObject *run_body(DomainCore &core, SiteOf &site, Kind kind, Durability durability, PyObject *body,
                   PyObject *args, PyObject *kwargs) noexcept {
  TMH_ASSERT(body != nullptr && args != nullptr);
  return guarded<PyObject *>(nullptr, [&]() -> PyObject * {
    if (running().core != nullptr) {
      require_nestable(core, kind);
      const Inside around = Inside::here();
      ++running().depth;
      PyObject *const result = PyObject_Call(body, args, kwargs);
      TMH_ASSERT(!around.is_here() || running().depth > 0);
      if (around.is_here()) --running().depth;
      return result;
    }
    BodyAttempts attempts(core, site.get(core), kind, durability);
    for (;;) {
      attempts.begin();
      Owned result(PyObject_Call(body, args, kwargs));
      switch (attempts.end(static_cast<bool>(result), &result)) {
        case BodyAttempts::Outcome::kCommitted:
          return result.release();
        case BodyAttempts::Outcome::kRaised:
          return nullptr;
        case BodyAttempts::Outcome::kAgain:
          break;
      }
      if (PyErr_CheckSignals() != 0) return nullptr;
    }
  });
}

Moment PastMoment::value() const noexcept {
  if (kind == Moment::Kind::kName) return Moment::named(name);
  if (kind == Moment::Kind::kClock) return Moment::clock(number);
  const std::chrono::nanoseconds since_1970(number);
  return Moment::time(std::chrono::system_clock::time_point(since_1970));
}

void QueryScope::enter() {
  Running &here = running();
  if (here.core != nullptr && moment_ != nullptr)
    raise(Errc::kNestedMisuse, "query_at() cannot begin inside an instance");
  if (here.core != nullptr) {
    require_nestable(core_, Kind::kQuery);
    is_subsumed_ = true;
    ++here.depth;
    inside_ = Inside::here();
    return;
  }
  Domain &domain = core_.domain();
  core_.await_entry();
  const bool lets_others_run = has_other_threads();
  ++core_.inside;
  try {
    const Unlocked others(lets_others_run);
    if (moment_ != nullptr)
      domain.begin_query_at(moment_->value());
    else
      domain.begin_query();
  } catch (...) {
    --core_.inside;
    throw;
  }
  here.core = &core_;
  here.is_query = here.is_block = here.is_plain = true;
  here.pending = Pending::kNone;
  here.depth = 0;
  here.serial = ++last_serial;
  inside_ = Inside::here();
}

void QueryScope::leave(bool has_returned) {
  inside_.require_here("a query's block");
  Running &here = running();
  if (is_subsumed_) {
    TMH_ASSERT(here.depth > 0);
    --here.depth;
    return;
  }
  const Lent *const escaped = escaped_array();
  const std::string name = escaped != nullptr ? escaped->name : std::string();
  take_back(std::exchange(here.lent, {}), true);
  TMH_ASSERT(here.core == &core_ && core_.inside > 0);
  here.core = nullptr;
  --core_.inside;
  Objects actions = std::exchange(here.on_commit, {});
  try {
    core_.domain().end_query();
    if (escaped != nullptr && has_returned)
      raise("EscapedArrayError", escaped_message("query", name));
  } catch (...) {
    drop_all(actions);
    throw;
  }
  if (has_returned)
    run_actions(std::move(actions));
  else
    drop_all(actions);
}

}  // namespace tmh::python
