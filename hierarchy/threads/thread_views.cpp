// hierarchy/threads/thread_views.cpp -- making, finding, stopping and giving back the views of
// threads.
#include "hierarchy/threads/thread_views.h"

#include <algorithm>
#include <new>

#include "hierarchy/threads/end_of_thread.h"
#include "hierarchy/threads/living.h"
#include "platform/assert.h"
#include "platform/process.h"
#include "platform/thread_object.h"

namespace tmh::detail {

namespace {

// A thread that got no views looks again after this time: slots, address space and descriptors come
// back when threads end.
constexpr std::uint64_t kViewRetryNs = 100'000'000;

struct ViewOf {
  std::uint64_t serial = 0;
  ThreadView *view = nullptr;  // null: none was to be had
  std::uint64_t retry_ns = 0;
};
struct ViewsHere {
  std::vector<ViewOf> all;
  std::uint32_t fork_generation = platform::fork_generation();
  ~ViewsHere() {
    if (fork_generation != platform::fork_generation() || all.empty()) return;
    abort_open_instance(LeftBy::kEndOfThread);
    Living<ThreadViews>::visit(all, [](ThreadViews &views, const ViewOf &entry) {
      if (entry.view != nullptr) views.drop(entry.view);
    });
  }
};

// In a child they are its parent's threads'.
std::vector<ViewOf> &entries_here() {
  ViewsHere &views_here = platform::ThreadObject<ViewsHere>::here();
  if (views_here.fork_generation != platform::fork_generation()) {
    views_here.all.clear();
    views_here.fork_generation = platform::fork_generation();
  }
  return views_here.all;
}

}  // namespace

ThreadViews::ThreadViews(const OpenState &open)
    : open_(open), serial_(Living<ThreadViews>::add(this)) {}

ThreadViews::~ThreadViews() { Living<ThreadViews>::remove(serial_); }

ThreadView *ThreadViews::own() noexcept {
  try {
    for (const ViewOf &entry : entries_here())
      if (entry.serial == serial_) return entry.view;
  } catch (const std::bad_alloc &) {  // for the thread's empty list
  }
  return nullptr;
}

ThreadView *ThreadViews::lock_own() noexcept {
  try {
    return make_and_lock();
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

ThreadView *ThreadViews::make_and_lock() {
  std::vector<ViewOf> &entries = entries_here();
  auto entry = std::find_if(entries.begin(), entries.end(),
                            [this](const ViewOf &e) { return e.serial == serial_; });
  if (entry == entries.end()) entry = entries.insert(entries.end(), ViewOf{serial_, nullptr, 0});
  if (entry->view == nullptr) {
    if (platform::coarse_ns() < entry->retry_ns) return nullptr;
    entry->view = make();
    if (entry->view == nullptr) entry->retry_ns = platform::coarse_ns() + kViewRetryNs;
  }
  ThreadView *view = entry->view;
  if (view == nullptr) return nullptr;
  std::unique_lock running(view->runner().mutex);
  if (view->follow_segments() != Errc::kOk) return nullptr;
  running.release();
  return view;
}

ThreadView *ThreadViews::make() {
  auto made = std::make_unique<ThreadView>(source_);
  const std::scoped_lock making(making_);
  if (is_closed_ || open_.usable() != Errc::kOk) return nullptr;
  TMH_ASSERT(source_.memory != nullptr && !is_stopped_);
  {
    const std::scoped_lock guard(mutex_);
    // what can throw, first
    if (views_.size() == views_.capacity()) views_.reserve(2 * views_.size() + 8);
  }
  if (made->attach() != Errc::kOk) return nullptr;
  const std::scoped_lock guard(mutex_);
  views_.push_back({std::move(made)});
  return views_.back().view.get();
}

// False: without the folder lock the slot could change hands before its lock is gone, so it is left
//        to the domain's close.
bool ThreadViews::give_back(ThreadView &view) noexcept {
  platform::FolderLock folder_lock;
  if (folder_lock.acquire(storage::lock_path(source_.memory->folder())) != Errc::kOk) return false;
  view.detach();
  return true;
}

// REQUIRES mutex_.
void ThreadViews::forget(const ThreadView *view) noexcept {
  std::erase_if(views_, [view](const Kept &kept) { return kept.view.get() == view; });
}

void ThreadViews::drop(ThreadView *view) noexcept {
  TMH_ASSERT(view != nullptr);
  {
    const std::scoped_lock guard(mutex_);
    if (is_stopped_) {
      for (Kept &kept : views_) kept.is_left = kept.is_left || kept.view.get() == view;
      return;
    }
    ++giving_back_;
  }
  const bool is_given_back = give_back(*view);
  const std::scoped_lock guard(mutex_);
  TMH_ASSERT(giving_back_ != 0);
  if (is_given_back) forget(view);
  if (--giving_back_ == 0) given_back_.notify_all();
}

ThreadViews::Stopped::Stopped(ThreadViews &views) : views_(views), making_(views.making_) {
  {
    std::unique_lock guard(views_.mutex_);
    TMH_ASSERT(!views_.is_stopped_);
    views_.is_stopped_ = true;
    views_.given_back_.wait(guard, [this] { return views_.giving_back_ == 0; });
  }
  for (const Kept &kept : views_.views_) runners_.emplace_back(kept.view->runner().mutex);
  TMH_ASSERT(runners_.size() == views_.views_.size());
}

ThreadViews::Stopped::~Stopped() {
  runners_.clear();
  for (;;) {
    std::unique_lock guard(views_.mutex_);
    const auto left = std::find_if(views_.views_.begin(), views_.views_.end(),
                                   [](const Kept &kept) { return kept.is_left; });
    views_.is_stopped_ = left != views_.views_.end();
    if (!views_.is_stopped_) return;
    left->is_left = false;
    ThreadView &view = *left->view;
    guard.unlock();
    const bool is_given_back = views_.is_closed_ || views_.give_back(view);
    guard.lock();
    if (is_given_back) views_.forget(&view);
  }
}

void ThreadViews::unmap(std::uint32_t segment) noexcept {
  TMH_ASSERT(is_stopped_);
  for (const Kept &kept : views_) kept.view->unmap(segment);
}

void ThreadViews::detach() noexcept {
  TMH_ASSERT(is_stopped_ && !is_closed_);
  is_closed_ = true;
  for (const Kept &kept : views_) kept.view->detach();
}

}  // namespace tmh::detail
