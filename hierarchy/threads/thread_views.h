// hierarchy/threads/thread_views.h -- views of their own for threads that run instrumented
// instances of level 2, so that several threads of one process run at once.
// Shape:     made at a thread's first such instance, given back when the thread ends or the domain
//            closes. thread_view.h says what each is.
// Sharing:   threads: lock_own() by any, for itself; Stopped and what needs it by the domain's
//            owner. An instance may wait for a thread's end, so a thread that ends waits for no
//            instance, nor for a thread that waits for one.
//            Lock order: PageRunner::mutex of the process -> making_ -> PageRunner::mutex of views
//            -> folder lock. mutex_ is taken alone.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hierarchy/threads/open_state.h"
#include "hierarchy/threads/thread_view.h"

namespace tmh::detail {

// All of them, of one domain in one process.
class ThreadViews {
 public:
  // open: of the domain; outlives it.
  explicit ThreadViews(const OpenState &open);
  ~ThreadViews();
  ThreadViews(const ThreadViews &) = delete;
  ThreadViews &operator=(const ThreadViews &) = delete;

  // Before the domain is open.
  void use(const ViewSource &source) noexcept { source_ = source; }

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

  const OpenState &open_;
  ViewSource source_;
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

}  // namespace tmh::detail
