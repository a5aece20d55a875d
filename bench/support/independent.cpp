// bench/support/independent.cpp -- tests A, B and C: transactions of several processes that never
// conflict.
#include "bench/support/independent.h"

#include <stdexcept>

#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint32_t kIntegersPerPage = kPageBytes / sizeof(std::uint32_t);
static_assert(kIntegersPerPage == 1024, "as many as in the thesis");
constexpr std::uint32_t kRepeatsOfTestC = 1'000;  // figure 4-6
constexpr int kWarmUps = 16;

void increment_page(std::uint32_t *x, IncrementTest test) {
  TMH_ASSERT(x != nullptr);
  const std::uint32_t repeats = test == IncrementTest::kC ? kRepeatsOfTestC : 1;
  const std::uint32_t integers = test == IncrementTest::kA ? 1 : kIntegersPerPage;
  for (std::uint32_t k = 0; k < repeats; ++k) {
    for (std::uint32_t j = 0; j < integers; ++j) ++x[j];
    asm volatile("" : : : "memory");  // the compiler may not turn a thousand passes into one
  }
}

Segment map(const Domain &domain) {
  SegmentOptions options;
  options.size_bytes = kTeamMembersMax * kPageBytes;
  options.layout = Layout::kRaw;
  return domain.map("input.db", options);
}

void transact(const Domain &domain, std::uint32_t *x, const IndependentRun &run, bool increment) {
  do {
    domain.begin();
    if (run.advised) domain.advise(x, increment ? Access::kReadWrite : Access::kRead);
    if (increment) increment_page(x, run.test);
    // Pages are private, so no attempt is expected to abort; the check would still hold.
  } while (domain.end() == Status::kAborted);
}

void run_process(const IndependentRun &run, const std::string &folder, unsigned index,
                 const TeamClock &clock, Logged *result) {
  TMH_ASSERT(index < run.processes && result != nullptr);
  const Domain domain = open_domain(run.mode, folder);
  const Segment segment = map(domain);
  auto *x = reinterpret_cast<std::uint32_t *>(segment.data() + index * kPageBytes);
  // Warm-up in a transaction that changes nothing: brings code and tables in.
  for (int i = 0; i < kWarmUps; ++i) transact(domain, x, run, false);
  clock.meet();
  const Logged before = logged(domain, run.mode.durability);
  clock.start();
  for (std::uint64_t i = 0; i < run.transactions / run.processes; ++i)
    transact(domain, x, run, true);
  clock.finish();
  clock.meet();
  const Logged after = logged(domain, run.mode.durability);
  if (index == 0) *result = {after.bytes - before.bytes, after.flushes - before.flushes};
  clock.meet();  // nobody closes while another still counts
}

// In a process of its own: the caller must not become a participant.
void check(const IndependentRun &run, const std::string &folder, std::uint32_t expected) {
  run_alone([&] {
    const Domain domain = open_domain(run.mode, folder);
    const Segment segment = map(domain);
    domain.begin_query();
    const auto *words = reinterpret_cast<const std::uint32_t *>(segment.data());
    const std::uint32_t integers = run.test == IncrementTest::kA ? 1 : kIntegersPerPage;
    for (unsigned page = 0; page < run.processes; ++page) {
      for (std::uint32_t i = 0; i < integers; ++i) {
        if (words[page * kIntegersPerPage + i] != expected)
          throw std::runtime_error("a page holds a wrong count");
      }
    }
    domain.end_query();
  });
}

}  // namespace

IndependentResult run_independent(const IndependentRun &run, const std::string &folder) {
  TMH_ASSERT(run.processes >= 1 && run.processes <= kTeamMembersMax);
  TMH_ASSERT(run.transactions >= run.processes);
  const std::uint64_t each = run.transactions / run.processes;
  const auto total = static_cast<double>(each * run.processes);
  const Shared<Logged> counted;
  IndependentResult result;
  const double total_ns = run_team_ns(run.processes, [&](unsigned index, const TeamClock &clock) {
    run_process(run, folder, index, clock, &*counted);
  });
  result.us_per_transaction = total_ns / 1000.0 / total;
  result.log_bytes_per_transaction = static_cast<double>(counted->bytes) / total;
  result.log_flushes_per_transaction = static_cast<double>(counted->flushes) / total;
  result.increments =
      static_cast<std::uint32_t>(each * (run.test == IncrementTest::kC ? kRepeatsOfTestC : 1));
  check(run, folder, result.increments);
  return result;
}

IndependentResult run_independent_plain(const IndependentRun &run) {
  TMH_ASSERT(run.processes >= 1 && run.processes <= kTeamMembersMax);
  TMH_ASSERT(run.transactions >= run.processes);
  const std::uint64_t each = run.transactions / run.processes;
  const SharedMemory memory(kTeamMembersMax * kPageBytes);
  IndependentResult result;
  const double total_ns = run_team_ns(run.processes, [&](unsigned index, const TeamClock &clock) {
    auto *x = static_cast<std::uint32_t *>(memory.data()) + index * kIntegersPerPage;
    *x = 0;  // brings the page in
    clock.start();
    for (std::uint64_t i = 0; i < each; ++i) increment_page(x, run.test);
    clock.finish();
  });
  result.us_per_transaction = total_ns / 1000.0 / static_cast<double>(each * run.processes);
  return result;
}

}  // namespace tmh::bench
