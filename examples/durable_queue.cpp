// examples/durable_queue.cpp -- a first-in-first-out queue on disk: two producers, a consumer, and
// kill -9 for all three at once.
// Invariant: items leave in each producer's order, none lost or doubled, although the process that
//            takes them dies in between.
// Run:       durable_queue [folder], default ./durable_queue.domain.
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

#include <tmh/tmh.hpp>

namespace {

constexpr int kProducers = 2;
constexpr long kItems = 400;  // of each producer

// Everything a process has to remember is in here, so that it can go on where a dead one stopped.
struct Queue {
  using allocator_type = tmh::allocator<std::byte>;
  explicit Queue(const allocator_type &allocator) : items(allocator) {}
  std::deque<long, tmh::allocator<long>> items;
  long produced[kProducers] = {}, consumed[kProducers] = {};
};

void work(const char *folder, int role) {
  tmh::DomainOptions options;
  // atomically() returns when the commit would survive a power cut
  options.durability = tmh::Durability::kStrict;
  options.log_file_bytes = 1 << 20;
  const tmh::Domain domain = tmh::Domain::open(folder, options);
  const tmh::Segment segment = domain.map("queue");
  Queue &queue = *segment.root<Queue>("queue");
  const auto produce = [&] {
    if (queue.produced[role] == kItems) return false;
    queue.items.push_back(queue.produced[role]++ * kProducers + role);
    return true;
  };
  const auto consume = [&] {
    if (!queue.items.empty()) {
      const long item = queue.items.front();
      queue.items.pop_front();
      if (queue.consumed[item % kProducers]++ != item / kProducers)
        throw std::logic_error("lost, doubled or overtaken");
    }
    return queue.consumed[0] + queue.consumed[1] < kProducers * kItems;
  };
  while (role < kProducers ? tmh::atomically(domain, produce) : tmh::atomically(domain, consume)) {
  }
}

}  // namespace

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "durable_queue.domain";
  for (int round = 1;; ++round) {  // a little longer each time, until they are done before the kill
    pid_t children[kProducers + 1];
    for (int role = 0; role <= kProducers; ++role) {
      children[role] = fork();
      if (children[role] != 0) continue;
      try {
        work(folder, role);
        _exit(0);
      } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
    }
    usleep(static_cast<useconds_t>(round) * 40'000);
    for (const pid_t child : children) kill(child, SIGKILL);
    int status = 0, killed = 0;
    for (; wait(&status) > 0; killed += status != 0) {
      if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) return 1;
    }
    std::printf("round %d: %d killed\n", round, killed);
    if (killed == 0) return 0;
  }
}
