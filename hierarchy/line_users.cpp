// hierarchy/line_users.cpp -- the words of all threads, and waiting for them.
#include "hierarchy/line_users.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "platform/asymmetric_fence.h"
#include "platform/thread_object.h"

namespace tmh::detail {

namespace {

// Where a thread is: a LineUsers' serial, or kNowhere. On a line of its own: its thread stores to it at every instance.
struct alignas(64) Where {
  std::atomic<std::uint64_t> serial;
};
constexpr std::uint64_t kNowhere = 0;
std::atomic<std::uint64_t> serials{kNowhere};

struct Words {
  std::mutex mutex;
  std::vector<std::unique_ptr<Where>> all;
};
constinit thread_local Where *where_here __attribute__((tls_model("initial-exec"))) = nullptr;

// The other threads are gone, and may have been inside.
void forget_in_child() noexcept;

Words &words() {
  static Words *const made = [] {
    auto *fresh = new Words;  // for good: threads end after static objects
    pthread_atfork([] { words().mutex.lock(); }, [] { words().mutex.unlock(); }, forget_in_child);
    return fresh;
  }();
  return *made;
}

void forget_in_child() noexcept {
  for (auto &where : words().all) where->serial.store(kNowhere, std::memory_order_relaxed);
  if (where_here == nullptr) return words().mutex.unlock();
  std::erase_if(words().all, [](const auto &where) { return where.get() != where_here; });
  words().mutex.unlock();
}

struct WordOfThread {
  Where *where = nullptr;
  ~WordOfThread() {
    if (where == nullptr) return;
    const std::scoped_lock guard(words().mutex);
    where_here = nullptr;
    std::erase_if(words().all, [this](const auto &known) { return known.get() == where; });
  }
};

void make_word() {
  auto made = std::make_unique<Where>();
  WordOfThread &own =
      platform::ThreadObject<WordOfThread>::here();  // destructors of thread_local objects may run instances
  const std::scoped_lock guard(words().mutex);
  own.where = where_here = made.get();
  words().all.push_back(std::move(made));
}

bool anybody_in(std::uint64_t serial) {
  const std::scoped_lock guard(words().mutex);
  // acquire: pairs with leave(); what was done inside comes before what the caller does.
  return std::any_of(words().all.begin(), words().all.end(),
                     [serial](const auto &where) { return where->serial.load(std::memory_order_acquire) == serial; });
}

}  // namespace

LineUsers::LineUsers() noexcept : serial_(++serials) {}

void LineUsers::enter() {
  if (where_here == nullptr) [[unlikely]]
    make_word();
  for (;;) {
    // relaxed: the fence orders it before the load, against Barred's store and loads.
    where_here->serial.store(serial_, std::memory_order_relaxed);
    platform::light_fence();
    // acquire: pairs with ~Barred(); what was done meanwhile is seen.
    if (!barred_.load(std::memory_order_acquire)) [[likely]]
      return;
    leave();
    await_barring();
  }
}

void LineUsers::leave() noexcept {
  // release: pairs with anybody_in()
  if (where_here != nullptr) where_here->serial.store(kNowhere, std::memory_order_release);
}

bool LineUsers::is_inside() const noexcept {
  return where_here != nullptr && where_here->serial.load(std::memory_order_relaxed) == serial_;  // its own word
}

void LineUsers::await_barring() { const std::scoped_lock wait(barring_); }

LineUsers::Barred::Barred(LineUsers &users) : users_(users), lock_(users.barring_) {
  constexpr long kPauseNsMin = 20'000, kPauseNsMax = 1'000'000;
  users_.barred_.store(true, std::memory_order_relaxed);  // the fence orders it, as in enter()
  platform::heavy_fence();
  for (long pause_ns = kPauseNsMin; anybody_in(users_.serial_); pause_ns = std::min(2 * pause_ns, kPauseNsMax)) {
    const timespec pause{0, pause_ns};
    nanosleep(&pause, nullptr);
  }
}

LineUsers::Barred::~Barred() { users_.barred_.store(false, std::memory_order_release); }  // pairs with enter()

}  // namespace tmh::detail
