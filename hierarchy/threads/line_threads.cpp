// hierarchy/threads/line_threads.cpp -- making, finding and giving back the threads of level 1.
#include "hierarchy/threads/line_threads.h"

#include <algorithm>
#include <new>
#include <utility>

#include "hierarchy/threads/end_of_thread.h"
#include "hierarchy/threads/living.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/thread_object.h"

namespace tmh::detail {

namespace {
// A thread that got no context looks again after this time.
constexpr std::uint64_t kContextRetryNs = 100'000'000;

struct ThreadsHere {
  std::vector<ThreadOf> all;
  std::uint32_t fork_generation = platform::fork_generation();
  ~ThreadsHere() {
    if (fork_generation != platform::fork_generation()) return;
    abort_open_instance(LeftBy::kEndOfThread);
    current().line_thread = {0, nullptr};
    forget_seats();
    if (all.empty()) return;
    Living<LineThreads>::visit(
        all, [](LineThreads &threads, const ThreadOf &entry) { threads.drop(entry.thread); });
  }
};
// Destructors of the thread's objects may run instances: they find its contexts.
ThreadsHere &threads_here() { return platform::ThreadObject<ThreadsHere>::here(); }
}  // namespace

LineThreads::LineThreads(page::SharedState &memory, line::LineMemory &lines, std::uint32_t slot,
                         line::Releaser &releaser)
    : memory_(memory),
      lines_(lines),
      slot_(slot),
      releaser_(releaser),
      serial_(Living<LineThreads>::add(this)) {
  TMH_ASSERT(slot < storage::kParticipantsMax);
}

LineThreads::~LineThreads() { Living<LineThreads>::remove(serial_); }

void LineThreads::detach() noexcept {
  const std::scoped_lock guard(mutex_);
  threads_.clear();
}

void LineThreads::drop(line::SoftwareThread *thread) noexcept {
  TMH_ASSERT(thread != nullptr);
  const std::scoped_lock guard(mutex_);
  std::erase_if(threads_, [thread](const auto &known) { return known.get() == thread; });
}

line::SoftwareThread *LineThreads::find(Errc *error) noexcept {
  try {
    return make(error);
  } catch (const std::bad_alloc &) {
    *error = platform::fail(Errc::kOutOfMemory, "no memory for a thread at level 1");
    return nullptr;
  }
}

line::SoftwareThread *LineThreads::make(Errc *error) {
  ThreadsHere &here = threads_here();
  // a child inherits its parent's threads' contexts: not its own
  if (here.fork_generation != platform::fork_generation()) {
    here.all.clear();
    here.fork_generation = platform::fork_generation();
  }
  for (const ThreadOf &entry : here.all) {
    if (entry.serial != serial_) continue;
    current().line_thread = entry;
    return entry.thread;
  }
  if (current().refused.serial == serial_ && platform::coarse_ns() < current().refused.retry_ns) {
    TMH_ASSERT(current().refused.why != Errc::kOk);
    *error = platform::fail(current().refused.why, "no context of level 1 was free");
    return nullptr;
  }
  auto made = std::make_unique<line::SoftwareThread>(lines_, releaser_, redo_);
  here.all.reserve(here.all.size() + 1);
  *error = attach(*made);
  if (*error != Errc::kOk) {
    current().refused = {serial_, platform::coarse_ns() + kContextRetryNs, *error};
    return nullptr;
  }
  const ThreadOf known{serial_, made.get()};
  {
    const std::scoped_lock guard(mutex_);
    threads_.push_back(std::move(made));
  }
  here.all.push_back(known);
  current().line_thread = known;
  return known.thread;
}

// All contexts taken: perhaps by the dead, after which no thread looks that stays at level 1.
Errc LineThreads::attach(line::SoftwareThread &thread) noexcept {
  const std::uint64_t incarnation =
      memory_.participant(slot_).incarnation.load(std::memory_order_relaxed);
  const Errc error = thread.attach(slot_, incarnation);
  if (error != Errc::kTooManyParticipants) return error;
  TMH_ASSERT(engine_ != nullptr);
  engine_->ours().reaper.reap_dead(engine_->lock_domain());
  return thread.attach(slot_, incarnation);
}

}  // namespace tmh::detail
