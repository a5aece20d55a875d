// hierarchy/thread_views.h -- views of their own for threads that run instrumented instances of
// level 2, so that several threads of one process run at once.
// Shape:     a thread with views of its own is one more participant, as another process would be:
//            its own slot, its own mappings of the domain's files, its own page::Engine, and a view
//            of each segment wherever there was room. tmh::field<T> computes the address there from
//            the common one; pointers in the segment stay common addresses, so the same body runs
//            at every level. Made at the thread's first such instance, given back when the thread
//            ends or the domain closes.
// Invariant: (1) an instance in a thread's view reaches shared memory through detail::line_access
//            only. What needs plain loads and stores (the heap, nested plain instances, mapping)
//            ends the attempt, which runs again on the process's view.
//            (2) A segment that the process maps is in a thread's view, or accesses to it end the
//                attempt.
// Sharing:   threads: lock_own() by any, for itself; Stopped and what needs it by the domain's
//            owner. An instance may wait for a thread's end, so a thread that ends waits for no
//            instance, nor for who waits for one.
//            Lock order: PageRunner::mutex of the process -> making_ -> PageRunner::mutex of views
//            -> folder lock. mutex_ is taken alone.
// Contexts:  NOT async-signal-safe. Faults in a thread's view reach its own engine.
// Source:    thesis, appendix A.1, first restriction (one thread of a process runs transactions):
//            lifted for instrumented code.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tmh/detail/line_access.hpp>

#include "hierarchy/directory.h"
#include "hierarchy/page_runner.h"
#include "levels/page/domain_memory.h"

namespace tmh::detail {

class DomainImpl;

// One thread's views of one domain.
class ThreadView final : public LineAccess {
 public:
  explicit ThreadView(DomainImpl &domain) noexcept;
  ThreadView(const ThreadView &) = delete;
  ThreadView &operator=(const ThreadView &) = delete;

  // Becomes a participant. kTooManyParticipants, kTrackingUnavailable, what opening files can say.
  [[nodiscard]] Errc attach() noexcept;
  // Gives slot and views back. REQUIRES the folder lock, and that no instance runs.
  void detach() noexcept;
  // Maps what the process has mapped since. REQUIRES runner().mutex and that no instance runs.
  [[nodiscard]] Errc follow_segments();
  void unmap(std::uint32_t segment) noexcept;

  [[nodiscard]] PageRunner &runner() noexcept { return runner_; }
  [[nodiscard]] storage::Participant &participant() noexcept {
    return memory_.participant(runner_.slot);
  }

  // Accesses of this thread go to its views, from here to leave().
  void enter() noexcept;
  static void leave() noexcept { line_access = nullptr; }
  // Ends the attempt: throws LineAbort, and again at each access that follows.
  [[noreturn]] void need_process_view();
  [[nodiscard]] bool is_doomed() const noexcept { return is_doomed_; }

  // The long ways of LineAccess. Throw LineAbort.
  [[nodiscard]] std::uint64_t load_long(std::uintptr_t address, std::uint32_t size);
  void store_long(std::uintptr_t address, std::uint64_t value, std::uint32_t size);

  // Between addresses that the program knows and those of this thread; what lies in no segment
  // stays as it is.
  [[nodiscard]] std::uintptr_t own_address(std::uintptr_t common) const noexcept;
  [[nodiscard]] std::uintptr_t common_address(std::uintptr_t own) const noexcept;

  // Pages that this thread's instances have taken from level 1.
  [[nodiscard]] std::uint64_t recalls() const noexcept {
    return directory_ == nullptr ? 0 : directory_->recalls_here();
  }

 private:
  struct Place {
    std::uint32_t segment = 0;
    std::uintptr_t common = 0, own = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Errc open_files() noexcept;
  [[nodiscard]] Errc start_engine();
  [[nodiscard]] std::uintptr_t find_place(std::uintptr_t address);

  DomainImpl &domain_;
  PageRunner runner_;
  // of its own: what a process knows of the files is nobody else's to change
  page::DomainMemory memory_;
  std::unique_ptr<page::DurableLog> log_;
  std::unique_ptr<hierarchy::Directory> directory_;  // hybrid domains
  std::unique_ptr<page::Engine> engine_;
  std::vector<Place> places_;
  std::uint64_t segments_epoch_ = 0;  // Segments::epoch() that places_ follows
  bool is_attached_ = false;
  bool is_doomed_ = false;
};

// All of them, of one domain in one process.
class ThreadViews {
 public:
  explicit ThreadViews(DomainImpl &domain);
  ~ThreadViews();
  ThreadViews(const ThreadViews &) = delete;
  ThreadViews &operator=(const ThreadViews &) = delete;

  // Of the calling thread; null: it has none.
  [[nodiscard]] ThreadView *own() noexcept;
  // The same, made if need be, following the process's segments, with its runner's mutex locked.
  // Null: there is none to be had now.
  [[nodiscard]] ThreadView *lock_own() noexcept;
  void drop(ThreadView *view) noexcept;  // its thread ends

  // Waits for the instances that run in threads' views; none begins, and no view is made or given
  // back, until its end, which gives back those of threads that have ended meanwhile.
  class Stopped {
   public:
    explicit Stopped(ThreadViews &views);
    ~Stopped();
    Stopped(const Stopped &) = delete;
    Stopped &operator=(const Stopped &) = delete;

   private:
    ThreadViews &views_;
    const std::scoped_lock<std::mutex> making_;
    std::vector<std::unique_lock<std::mutex>> runners_;
  };
  // REQUIRE a Stopped.
  void unmap(std::uint32_t segment) noexcept;
  void detach() noexcept;  // for good; under the folder lock

 private:
  struct Kept {
    std::unique_ptr<ThreadView> view;
    bool is_left = false;  // its thread has ended while all were stopped
  };
  [[nodiscard]] ThreadView *make();
  [[nodiscard]] ThreadView *make_and_lock();
  [[nodiscard]] bool give_back(ThreadView &view) noexcept;
  void forget(const ThreadView *view) noexcept;

  DomainImpl &domain_;
  std::mutex making_;  // held while a view is made, or all are stopped
  std::mutex mutex_;
  // Under mutex_. Those who have stopped all, and so nobody adds one or takes one away, look
  // without it.
  std::vector<Kept> views_;
  bool is_stopped_ = false;
  std::uint32_t giving_back_ = 0;  // threads that have ended and are not done with their views
  std::condition_variable given_back_;
  bool is_closed_ = false;  // under making_
  // of this object in this process: a thread must not take a later one at the same address for it
  const std::uint64_t serial_;
};

// The view in which this thread runs an instance; null: none.
[[nodiscard]] ThreadView *running_view() noexcept;

}  // namespace tmh::detail
