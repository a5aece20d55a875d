// hierarchy/threads/line_users.cpp -- the words of all threads, and waiting for them.
#include "hierarchy/threads/line_users.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "hierarchy/threads/end_of_thread.h"
#include "platform/assert.h"
#include "platform/asymmetric_fence.h"
#include "platform/thread_object.h"

namespace tmh::detail {

namespace {

std::atomic<std::uint64_t> serials{LineUser::kNowhere};

struct Words {
  std::mutex mutex;
  std::vector<std::unique_ptr<LineUser>> all;
};

// The other threads are gone, and may have been inside.
void forget_others_in_child() noexcept;

Words &words() {
  static Words *const made = [] {
    auto *fresh = new Words;  // for good: threads end after static objects
    pthread_atfork([] { words().mutex.lock(); }, [] { words().mutex.unlock(); },
                   forget_others_in_child);
    return fresh;
  }();
  return *made;
}

// While the library is loaded: platform::ProcessObject's reason.
[[maybe_unused]] const Words &made_early = words();

void forget_others_in_child() noexcept {
  for (auto &where : words().all)
    where->serial.store(LineUser::kNowhere, std::memory_order_relaxed);
  if (current().line_user == nullptr) return words().mutex.unlock();
  std::erase_if(words().all, [](const auto &where) { return where.get() != current().line_user; });
  words().mutex.unlock();
}

struct WordOfThread {
  LineUser *where = nullptr;
  ~WordOfThread() {
    if (where == nullptr) return;
    // before the word: close() looks there for who uses the domain
    abort_open_instance(LeftBy::kEndOfThread);
    const std::scoped_lock guard(words().mutex);
    current().line_user = nullptr;
    forget_seats();
    std::erase_if(words().all, [this](const auto &known) { return known.get() == where; });
  }
};

void make_word() {
  TMH_ASSERT(current().line_user == nullptr);
  auto made = std::make_unique<LineUser>();
  // destructors of thread_local objects may run instances
  WordOfThread &own = platform::ThreadObject<WordOfThread>::here();
  const std::scoped_lock guard(words().mutex);
  words().all.push_back(std::move(made));  // first: it may throw
  own.where = current().line_user = words().all.back().get();
}

bool anybody_in(std::uint64_t serial) {
  const std::scoped_lock guard(words().mutex);
  // acquire: pairs with leave(); what was done inside comes before what the caller does.
  return std::any_of(words().all.begin(), words().all.end(), [serial](const auto &where) {
    return where->serial.load(std::memory_order_acquire) == serial;
  });
}

}  // namespace

LineUsers::LineUsers() noexcept : serial_(++serials) {}

void LineUsers::enter() {
  TMH_ASSERT(!is_inside());
  if (current().line_user == nullptr) make_word();
  for (;;) {
    say_inside();
    if ((gate() & kIsBarred) == 0) return;
    leave();
    await_barring();
  }
}

bool LineUsers::is_inside() const noexcept {
  // its own word
  return current().line_user != nullptr &&
         current().line_user->serial.load(std::memory_order_relaxed) == serial_;
}

void LineUsers::await_barring() { const std::scoped_lock wait(barring_); }

LineUsers::Barred::Barred(LineUsers &users) : users_(users), lock_(users.barring_) {
  TMH_ASSERT(!users.is_inside());
  constexpr long kPauseNsMin = 20'000, kPauseNsMax = 1'000'000;
  // the fence orders it, as in enter()
  users_.gate_.fetch_or(kIsBarred, std::memory_order_relaxed);
  platform::heavy_fence();
  for (long pause_ns = kPauseNsMin; anybody_in(users_.serial_);
       pause_ns = std::min(2 * pause_ns, kPauseNsMax)) {
    const timespec pause{0, pause_ns};
    nanosleep(&pause, nullptr);
  }
}

// pairs with enter()
LineUsers::Barred::~Barred() {
  TMH_ASSERT((users_.gate() & kIsBarred) != 0);
  users_.gate_.fetch_and(~kIsBarred, std::memory_order_release);
}

}  // namespace tmh::detail
