// platform/stray_access.cpp -- composing the message without stdio, and the views that have gone.
#include "platform/stray_access.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <mutex>

#include "platform/assert.h"
#include "platform/process_object.h"
#include "platform/sentence.h"

namespace tmh::platform {

namespace {

constinit std::atomic<ThreadState (*)() noexcept> thread_state{nullptr};

const char *text_of(StrayCause cause, const ThreadState &thread) noexcept {
  switch (cause) {
    case StrayCause::kOutside:
      return thread.where != nullptr ? thread.where : "outside any instance";
    case StrayCause::kStoreInQuery:
      return "inside a query";
    case StrayCause::kSignalHandler:
      return "in a signal handler (or after siglongjmp() out of one) while the thread runs an "
             "instance";
    case StrayCause::kForkedChild:
      return "in a forked child that has not opened the domain";
    case StrayCause::kBehindEnd:
      return "behind the segment's end";
    case StrayCause::kGone:
      return "after the segment was unmapped or its domain closed";
  }
  return "";
}

const char *remedy_of(StrayCause cause, const ThreadState &thread) noexcept {
  switch (cause) {
    case StrayCause::kOutside:
      if (thread.remedy != nullptr) return thread.remedy;
      return "put the access into tmh::atomically() or tmh::query(); TMH_STRAY=allow lets it pass, "
             "and its stores are "
             "lost or join this process's next instance";
    case StrayCause::kStoreInQuery:
      return "use tmh::atomically(); with TMH_STRAY=allow the store is discarded and the query's "
             "end reports it";
    case StrayCause::kSignalHandler:
      return "let the handler set a flag, and do the work in the thread";
    case StrayCause::kForkedChild:
      return "open the domain in the child";
    case StrayCause::kBehindEnd:
      return "grow the segment first";
    case StrayCause::kGone:
      return "keep the Domain open and the Segment mapped while it is used";
  }
  return "";
}

// A reader in a handler may meet an entry that is being changed: then its text is cut or mixed, and
// no more.
struct GoneView {
  // 0: free. Stored last (release), so that a reader sees the rest
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<char> name[176];
};
constinit GoneView gone_views[kGoneViewsMax];

struct Changing {
  std::mutex mutex;
  std::uint32_t next = 0;
};

}  // namespace

void tell_thread_state_by(ThreadState (*function)() noexcept) noexcept {
  TMH_ASSERT(function != nullptr);
  thread_state.store(function, std::memory_order_release);
}

void report(const StrayAccess &access) noexcept {
  TMH_ASSERT(access.segment != nullptr);
  const auto function = thread_state.load(std::memory_order_acquire);
  const ThreadState thread = function != nullptr ? function() : ThreadState{};
  Sentence sentence;
  sentence << "tmh: stray " << (access.is_write ? "store to" : "load from") << " segment '"
           << access.segment << "', offset ";
  sentence.number(access.offset, 16) << " (address ";
  sentence.number(access.address, 16) << "), " << text_of(access.cause, thread) << "; thread ";
  sentence.number(static_cast<std::uint64_t>(syscall(SYS_gettid)), 10);
  if (thread.site != nullptr) sentence << ", last site '" << thread.site << "'";
  sentence << ": " << remedy_of(access.cause, thread) << "\n";
  sentence.write();
}

void remember_gone_view(std::uintptr_t begin, std::uint64_t bytes, const char *name) noexcept {
  TMH_ASSERT(begin != 0 && bytes != 0 && name != nullptr);
  auto &changing = ProcessObject<Changing>::here();
  const std::scoped_lock guard(changing.mutex);
  GoneView &entry = gone_views[changing.next++ % kGoneViewsMax];
  entry.begin.store(0, std::memory_order_release);
  entry.end.store(begin + bytes, std::memory_order_relaxed);
  std::size_t i = 0;
  for (; name[i] != '\0' && i + 1 < sizeof entry.name; ++i)
    entry.name[i].store(name[i], std::memory_order_relaxed);
  entry.name[i].store('\0', std::memory_order_relaxed);
  entry.begin.store(begin, std::memory_order_release);
}

void forget_gone_views(std::uintptr_t begin, std::uint64_t bytes) noexcept {
  const std::scoped_lock guard(ProcessObject<Changing>::here().mutex);
  for (GoneView &entry : gone_views) {
    const std::uintptr_t at = entry.begin.load(std::memory_order_relaxed);
    if (at != 0 && at < begin + bytes && begin < entry.end.load(std::memory_order_relaxed))
      entry.begin.store(0, std::memory_order_release);
  }
}

void report_if_gone(std::uintptr_t address, bool is_write) noexcept {
  for (const GoneView &entry : gone_views) {
    const std::uintptr_t begin = entry.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= entry.end.load(std::memory_order_relaxed))
      continue;
    char name[sizeof entry.name];
    for (std::size_t i = 0; i < sizeof name; ++i)
      name[i] = entry.name[i].load(std::memory_order_relaxed);
    name[sizeof name - 1] = '\0';
    return report({StrayCause::kGone, is_write, address, name, address - begin});
  }
}

}  // namespace tmh::platform
