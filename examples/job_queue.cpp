// examples/job_queue.cpp -- a durable job queue: a producer, workers of which one is killed again
// and again, and a monitor.
// Invariant: each job is done exactly once: its effect and the note that it is done are one
//            instance. A job whose worker died goes back; that is why an idle worker waits by
//            retry_until(): no change announces a death.
// Run:       job_queue [folder], default ./job_queue.domain.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <tmh/tmh.hpp>

namespace {

constexpr int kWorkers = 3, kKills = 10, kAccounts = 16;
constexpr long kJobs = 600, kWaitingMax = 50;

struct Queue {
  using allocator_type = tmh::allocator<std::byte>;
  explicit Queue(const allocator_type &allocator)
      : waiting(allocator), running(allocator), times_done(allocator) {}
  std::deque<long, tmh::allocator<long>> waiting;
  // Job, who does it.
  std::map<long, pid_t, std::less<>, tmh::allocator<std::pair<const long, pid_t>>> running;
  // By job.
  std::vector<int, tmh::allocator<int>> times_done;
  long produced = 0, done = 0;
  long balance[kAccounts] = {};
};

struct Shared {
  explicit Shared(const char *folder) {
    tmh::DomainOptions options;
    options.durability = tmh::Durability::kStrict;
    domain = tmh::Domain::open(folder, options);
    queue = domain.map("queue").root<Queue>("queue");
  }
  tmh::Domain domain;
  Queue *queue = nullptr;
};

void produce(const Shared &shared) {
  Queue &queue = *shared.queue;
  while (tmh::atomically(shared.domain, [&] {
    if (queue.produced == kJobs) return false;
    if (queue.waiting.size() == kWaitingMax) tmh::retry();  // until a worker has taken one
    queue.waiting.push_back(queue.produced++);
    queue.times_done.push_back(0);
    return true;
  })) {
  }
}

// A pid may come again, and then keeps its job running until that process ends, too: who cannot
// have that notes the time and takes back by age.
void take_back_from_the_dead(Queue &queue) {
  for (auto job = queue.running.begin(); job != queue.running.end();) {
    if (kill(job->second, 0) == 0 || errno != ESRCH) {
      ++job;
    } else {
      queue.waiting.push_front(job->first);
      job = queue.running.erase(job);
    }
  }
}

void work(const Shared &shared) {
  Queue &queue = *shared.queue;
  for (;;) {
    const auto look_again = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    const long job = tmh::atomically(shared.domain, [&]() -> long {
      take_back_from_the_dead(queue);
      if (queue.done == kJobs) return -1;
      if (queue.waiting.empty()) {
        if (std::chrono::steady_clock::now() >= look_again) return -2;
        tmh::retry_until(look_again);
      }
      const long first = queue.waiting.front();
      queue.waiting.pop_front();
      queue.running[first] = getpid();
      return first;
    });
    if (job == -1) return;
    if (job == -2) continue;
    usleep(500);  // the work itself, in no instance
    tmh::atomically(shared.domain, [&] {
      queue.balance[job % kAccounts] -= job;
      queue.balance[(job * 7 + 1) % kAccounts] += job;
      ++queue.times_done[static_cast<std::size_t>(job)];
      ++queue.done;
      queue.running.erase(job);
    });
  }
}

// One snapshot, however busy the others are. Is everything where it belongs?
bool monitor(const Shared &shared) {
  const Queue &queue = *shared.queue;
  return tmh::query(shared.domain, [&] {
    long sum = 0, done = 0;
    for (const long balance : queue.balance) sum += balance;
    for (const int times : queue.times_done) {
      if (times > 1) return false;
      done += times;
    }
    const long open = static_cast<long>(queue.waiting.size() + queue.running.size());
    return sum == 0 && done == queue.done && done + open == queue.produced;
  });
}

template <class Role>
pid_t start(const char *folder, Role role) {
  // Before this process opens the domain: it is not passed on to children.
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    role(Shared(folder));
    _exit(0);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
}

}  // namespace

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "job_queue.domain";
  const pid_t producer = start(folder, produce);
  pid_t workers[kWorkers];
  for (pid_t &worker : workers) worker = start(folder, work);
  int status = 0, killed = 0;
  for (int i = 0; i < kKills; ++i) {
    usleep(10'000);  // whatever the worker is at then: the result does not depend on it
    pid_t &worker = workers[i % kWorkers];
    kill(worker, SIGKILL);
    waitpid(worker, &status, 0);  // until then it is a zombie, and kill(pid, 0) says that it lives
    if (WIFSIGNALED(status)) ++killed;
    worker = start(folder, work);
  }
  bool good = waitpid(producer, &status, 0) == producer && status == 0;
  for (const pid_t worker : workers)
    if (!good) kill(worker, SIGKILL);  // they would wait for its jobs
  for (const pid_t worker : workers)
    good = waitpid(worker, &status, 0) == worker && status == 0 && good;
  const Shared shared(folder);
  good = good && monitor(shared) &&
         tmh::query(shared.domain, [&] { return shared.queue->done == kJobs; });
  std::printf("%d workers killed; %ld jobs: %s\n", killed, kJobs,
              good ? "each done once" : "WRONG");
  return good ? 0 : 1;
}
