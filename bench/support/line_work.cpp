// bench/support/line_work.cpp -- threads of the line bench.
#include "bench/support/line_work.h"

#include <thread>

#include "bench/support/clock.h"
#include "platform/assert.h"

namespace tmh::bench {

void LineMeeting::meet() noexcept {
  const unsigned before = ready_.fetch_add(1);
  TMH_ASSERT(before < threads_);  // each meets the others once
  if (before + 1 == threads_) {
    start_.store(now_ns());
    ready_.store(threads_ + 1);
  }
  while (ready_.load() <= threads_) std::this_thread::yield();
}

void LineMeeting::leave() noexcept {
  const std::int64_t now = now_ns();
  std::int64_t last = finish_.load();
  while (last < now && !finish_.compare_exchange_weak(last, now)) {
  }
}

double LineMeeting::ns() const noexcept {
  TMH_ASSERT(finish_.load() >= start_.load());
  return static_cast<double>(finish_.load() - start_.load());
}

double run_line_threads(unsigned threads, LineBody body, void *context) {
  TMH_ASSERT(threads > 0 && body != nullptr);
  LineMeeting meeting(threads);
  std::vector<std::thread> team;
  for (unsigned i = 0; i < threads; ++i) {
    team.emplace_back([&meeting, body, context, i] {
      body(context, i, meeting);
      meeting.leave();
    });
  }
  for (std::thread &thread : team) thread.join();
  return meeting.ns();
}

}  // namespace tmh::bench
