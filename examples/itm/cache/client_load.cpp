#include "examples/itm/cache/client_load.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cerrno>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "examples/itm/cache/client_faults.h"
#include "examples/workloads/random.hpp"

namespace cache {

namespace {

constexpr int kEventsMax = 64;
// Requests of a connection at once where nothing is measured.
constexpr std::size_t kUnmeasuredPipeline = 32;

// What all threads have.
struct Common {
  explicit Common(const ClientOptions &wanted)
      : options(wanted),
        ledger(wanted.keys),
        keys(wanted.keys, wanted.is_uniform ? 0 : workloads::Zipfian::kYcsbTheta),
        meeting(static_cast<std::ptrdiff_t>(wanted.threads)) {}
  const ClientOptions &options;
  Ledger ledger;
  const workloads::ScrambledZipfian keys;
  std::barrier<> meeting;
};

class Thread {
 public:
  Thread(Common &common, unsigned number);
  ~Thread() { ::close(epoll_); }
  Thread(const Thread &) = delete;
  Thread &operator=(const Thread &) = delete;

  void fill();
  void measure();
  void check();
  [[nodiscard]] const Figures &figures() const { return figures_; }
  [[nodiscard]] Figures take_figures() { return std::exchange(figures_, {}); }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  // Adds requests for one batch, or none: then the connection has done its part.
  using Batch = std::function<void(ClientConnection &)>;
  void run(const Batch &batch);
  void send_batch(ClientConnection &connection, const Batch &batch);
  void watch(ClientConnection &connection);
  void watch_faults();
  void add_measured(ClientConnection &connection);
  // Each connection's own keys, from the first to the last.
  [[nodiscard]] Batch over_own_keys(std::function<void(ClientConnection &, std::uint64_t)> add);
  [[nodiscard]] std::size_t value_bytes();

  Common *common_;
  const ClientOptions *options_;
  unsigned number_;
  workloads::Random random_;
  int epoll_;
  Figures figures_;
  std::deque<ClientConnection> connections_;
  std::optional<FaultInjector> faults_;
  std::size_t running_ = 0;
  SteadyClock::time_point end_;
  double seconds_ = 0;
};

Thread::Thread(Common &common, unsigned number)
    : common_(&common),
      options_(&common.options),
      number_(number),
      random_(workloads::fnv_hash(common.options.seed) + number),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) throw std::runtime_error("epoll");
  for (std::uint64_t i = number; i < options_->connections; i += options_->threads)
    connections_.emplace_back(*options_, i, common.ledger, figures_);
}

std::size_t Thread::value_bytes() {
  const std::uint64_t more = options_->value_bytes_max - options_->value_bytes;
  return options_->value_bytes + (more == 0 ? 0 : random_.below(more + 1));
}

void Thread::watch(ClientConnection &connection) {
  epoll_event event{connection.waits_to_send() ? EPOLLIN | EPOLLOUT : EPOLLIN, {&connection}};
  const int what = connection.is_new() ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_, what, connection.file(), &event) != 0) throw std::runtime_error("epoll");
}
void Thread::watch_faults() {
  if (!faults_ || !faults_->is_new()) return;
  epoll_event event{EPOLLIN, {nullptr}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, faults_->file(), &event) != 0)
    throw std::runtime_error("epoll");
}

void Thread::send_batch(ClientConnection &connection, const Batch &batch) {
  for (;;) {
    batch(connection);
    if (!connection.has_requests()) break;
    if (connection.go_on() == ClientConnection::State::kWaits) return watch(connection);
  }
  --running_;
  watch(connection);
}

void Thread::run(const Batch &batch) {
  running_ = connections_.size();
  for (ClientConnection &connection : connections_) send_batch(connection, batch);
  std::array<epoll_event, kEventsMax> events;
  while (running_ != 0 || (faults_ && !faults_->is_done())) {
    watch_faults();
    const int wait_ms = faults_ ? faults_->wait_ms() : -1;
    const int count = epoll_wait(epoll_, events.data(), kEventsMax, wait_ms);
    if (faults_) faults_->inject_when_due(common_->keys.next(random_));
    for (int i = 0; i < count; ++i) {
      void *const which = events[static_cast<std::size_t>(i)].data.ptr;
      if (which == nullptr) {
        faults_->go_on();
        continue;
      }
      auto &connection = *static_cast<ClientConnection *>(which);
      const bool was_running = connection.has_requests();
      const bool is_done = connection.go_on() == ClientConnection::State::kDone;
      if (is_done && was_running)
        send_batch(connection, batch);
      else
        watch(connection);
    }
  }
}

Thread::Batch Thread::over_own_keys(std::function<void(ClientConnection &, std::uint64_t)> add) {
  std::vector<std::uint64_t> next(options_->connections);
  for (std::uint64_t i = 0; i < next.size(); ++i) next[i] = i;
  return
      [this, add = std::move(add), next = std::move(next)](ClientConnection &connection) mutable {
        std::uint64_t &key = next[connection.first_key()];
        for (; key < options_->keys && connection.requests() < kUnmeasuredPipeline;
             key += options_->connections)
          add(connection, key);
      };
}

void Thread::fill() {
  run(over_own_keys([this](ClientConnection &connection, std::uint64_t key) {
    connection.add_set(key, value_bytes());
  }));
}

void Thread::check() {
  if (!options_->verifies) return;
  run(over_own_keys(
      [](ClientConnection &connection, std::uint64_t key) { connection.add_get(key); }));
}

void Thread::add_measured(ClientConnection &connection) {
  const bool goes_on = SteadyClock::now() < end_ || (faults_ && !faults_->is_done());
  if (!goes_on) return;
  for (std::uint64_t i = 0; i < options_->pipeline; ++i) {
    const std::uint64_t key = common_->keys.next(random_);
    if (random_.unit() < options_->get_ratio)
      connection.add_get(key);
    else
      connection.add_set(connection.own_key_near(key), value_bytes());
  }
}

void Thread::measure() {
  const SteadyClock::time_point begin = SteadyClock::now();
  end_ = begin + std::chrono::duration_cast<SteadyClock::duration>(
                     std::chrono::duration<double>(options_->seconds));
  // The first threads inject what cannot be shared equally.
  const std::uint64_t faults =
      options_->faults / options_->threads + (number_ < options_->faults % options_->threads);
  if (faults != 0) faults_.emplace(*options_, faults, begin, figures_);
  run([this](ClientConnection &connection) { add_measured(connection); });
  seconds_ = static_cast<double>(ns_since(begin)) / 1e9;
  faults_.reset();
}

}  // namespace

LoadResult run_load(const ClientOptions &options) {
  Common common(options);
  LoadResult result;
  std::mutex mutex;
  std::exception_ptr problem;
  // A thread that gives up leaves the meetings to the others.
  const auto work = [&](unsigned number) {
    try {
      Thread thread(common, number);
      thread.fill();
      const Figures filled = thread.take_figures();
      common.meeting.arrive_and_wait();
      thread.measure();
      const Figures measured = thread.take_figures();
      common.meeting.arrive_and_wait();
      thread.check();
      const std::scoped_lock lock(mutex);
      result.measured += measured;
      result.seconds = std::max(result.seconds, thread.seconds());
      result.around += filled;
      result.around += thread.figures();
    } catch (...) {
      common.meeting.arrive_and_drop();
      const std::scoped_lock lock(mutex);
      if (!problem) problem = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < options.threads; ++i) threads.emplace_back(work, i);
  }
  if (problem) std::rethrow_exception(problem);
  return result;
}

}  // namespace cache
