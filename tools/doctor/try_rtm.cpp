// tools/doctor/try_rtm.cpp -- a live trial of RTM, also where CPUID does not list it. In a child
// process: XBEGIN may be an illegal instruction, and that must end no other process.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <type_traits>

#include "levels/line/rtm.h"
#include "platform/assert.h"
#include "tools/doctor/machine.h"

namespace tmh::tools::doctor {

namespace {

// Interrupts abort single attempts; a machine that needs 20 per commit is no use.
constexpr std::uint32_t kAttemptsMax = 20 * kTrialCommits;
// Six bits and few codes: more kinds in one trial are counted with the last.
constexpr std::size_t kStatusKinds = 16;

// What the child writes into the pipe; below PIPE_BUF, so in one piece.
struct Tally {
  std::uint32_t attempts = 0, commits = 0, kinds = 0;
  std::array<std::uint32_t, kStatusKinds> status{}, count{};
};
static_assert(std::is_trivially_copyable_v<Tally> && sizeof(Tally) <= PIPE_BUF);

void count_abort(Tally *tally, std::uint32_t status) {
  TMH_ASSERT(tally != nullptr && tally->kinds <= kStatusKinds);
  std::uint32_t at = 0;
  while (at < tally->kinds && tally->status[at] != status) ++at;
  if (at == tally->kinds && tally->kinds < kStatusKinds) tally->status[tally->kinds++] = status;
  if (at == kStatusKinds) at = kStatusKinds - 1;
  ++tally->count[at];
}

Tally run_trial() {
  Tally tally;
  static std::uint64_t counter = 0;  // a commit counts only if its store is there afterwards
  std::atomic_ref<std::uint64_t> word(counter);
  // Its page is present and writable: a first touch inside aborts.
  word.store(0, std::memory_order_relaxed);
  while (tally.commits < kTrialCommits && tally.attempts < kAttemptsMax) {
    ++tally.attempts;
    const std::uint32_t status = line::rtm_begin();
    if (status == line::kRtmStarted) {
      // relaxed, all three: one thread
      word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      line::rtm_end();
      if (word.load(std::memory_order_relaxed) != tally.commits + 1) break;
      ++tally.commits;
    } else {
      count_abort(&tally, status);
    }
  }
  return tally;
}

}  // namespace

RtmTrial try_rtm() {
  RtmTrial trial;
#if defined(__x86_64__)
  int ends[2];
  if (::pipe(ends) != 0) return trial;
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::prctl(PR_SET_DUMPABLE, 0);  // SIGILL is an expected answer: no core file
    const Tally tally = run_trial();
    const bool told = ::write(ends[1], &tally, sizeof tally) == static_cast<ssize_t>(sizeof tally);
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  Tally tally;
  const bool is_told =
      child > 0 && ::read(ends[0], &tally, sizeof tally) == static_cast<ssize_t>(sizeof tally);
  ::close(ends[0]);
  int end = 0;
  if (child < 0 || ::waitpid(child, &end, 0) != child) return trial;
  trial.was_illegal = WIFSIGNALED(end) && WTERMSIG(end) == SIGILL;
  trial.was_made = trial.was_illegal || is_told;
  trial.attempts = tally.attempts;
  trial.commits = tally.commits;
  for (std::uint32_t i = 0; i < tally.kinds; ++i) trial.aborts[tally.status[i]] = tally.count[i];
#endif
  return trial;
}

}  // namespace tmh::tools::doctor
