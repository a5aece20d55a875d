// bench/support/team.cpp -- several processes that start together.
#include "bench/support/team.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "bench/support/clock.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

struct TeamState {
  pthread_barrier_t barrier;
  std::int64_t start_ns[kTeamMembersMax];
  std::int64_t finish_ns[kTeamMembersMax];
};

class MemberClock final : public TeamClock {
 public:
  MemberClock(TeamState *state, unsigned index) noexcept : state_(state), index_(index) {
    TMH_ASSERT(state != nullptr && index < kTeamMembersMax);
  }
  void start() const override {
    (void)pthread_barrier_wait(&state_->barrier);
    state_->start_ns[index_] = now_ns();
  }
  void finish() const override { state_->finish_ns[index_] = now_ns(); }
  void meet() const override { (void)pthread_barrier_wait(&state_->barrier); }

 private:
  TeamState *state_;
  unsigned index_;
};

// The child's whole life. _exit: the parent's objects in this copy must not be destroyed.
[[noreturn]] void run_member(TeamState *state, unsigned index,
                             const std::function<void(unsigned, const TeamClock &)> &member) {
  int status = 0;
  try {
    const MemberClock clock(state, index);
    member(index, clock);
    if (state->finish_ns[index] == 0) clock.finish();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "member %u: %s\n", index, error.what());
    status = 1;
  }
  std::fflush(nullptr);
  ::_exit(status);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes)
    : data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
      bytes_(bytes) {
  TMH_ASSERT(bytes > 0);
  if (data_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "shared memory");
}
SharedMemory::~SharedMemory() { (void)::munmap(data_, bytes_); }

double run_team_ns(unsigned count, const std::function<void(unsigned, const TeamClock &)> &member) {
  if (count == 0 || count > kTeamMembersMax)
    throw std::invalid_argument("a team has 1 to 64 members");
  TMH_ASSERT(member != nullptr);
  const Shared<TeamState> state;
  pthread_barrierattr_t attributes;
  (void)pthread_barrierattr_init(&attributes);
  (void)pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  (void)pthread_barrier_init(&state->barrier, &attributes, count);
  (void)pthread_barrierattr_destroy(&attributes);
  std::fflush(nullptr);  // or each child would print the parent's buffered lines again

  std::vector<pid_t> pids;
  for (unsigned index = 0; index < count; ++index) {
    const pid_t pid = ::fork();
    if (pid == 0) run_member(&*state, index, member);
    if (pid < 0) break;
    pids.push_back(pid);
  }
  bool failed = pids.size() < count;
  if (failed) {
    for (const pid_t pid : pids) (void)::kill(pid, SIGKILL);
  }
  // In order of ending, so that a failure is seen while the others still wait at the barrier.
  for (std::size_t left = pids.size(); left > 0; --left) {
    siginfo_t ended{};
    while (::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    const auto found = std::find(pids.begin(), pids.end(), ended.si_pid);
    if (found == pids.end())
      throw std::logic_error("a team may not run beside other children that end");
    (void)::waitpid(ended.si_pid, nullptr, 0);
    pids.erase(found);
    if (ended.si_code == CLD_EXITED && ended.si_status == 0) continue;
    if (!failed) {
      for (const pid_t pid : pids) (void)::kill(pid, SIGKILL);
    }
    failed = true;
  }
  if (failed) throw std::runtime_error("a member of the team failed");
  // pthread_barrier_destroy would wait for members that were killed inside; the memory simply goes
  // away.
  const auto first = *std::min_element(state->start_ns, state->start_ns + count);
  const auto last = *std::max_element(state->finish_ns, state->finish_ns + count);
  return static_cast<double>(last - first);
}

}  // namespace tmh::bench
