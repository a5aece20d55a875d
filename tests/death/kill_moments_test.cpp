// tests/death/kill_moments_test.cpp -- a process dies at each step of naming a moment durably, and
// of forgetting it.
// Invariants: (1) others go on naming moments, and forget the dead one's. (2) after a power cut a
//             name is there whole, or not at all; one that keep() has returned for is there.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using observe::Step;

class KillMomentsTest : public testing::TestWithParam<std::tuple<Step, bool>> {};

bool has_name(const Domain &domain, const std::string &name) {
  for (const NamedMoment &each : domain.past().moments)
    if (each.name == name) return true;
  return false;
}

TEST_P(KillMomentsTest, ANameIsThereWholeOrNotAtAll) {
  const auto [step, is_power_cut] = GetParam();
  const bool is_forgetting = step == Step::kMomentErased;
  const TempFolder folder;
  const DomainOptions options = durable_options();
  const auto victim = [&, step = step] {
    Domain domain = Domain::open(folder / "domain", options);
    const Segment segment = domain.map("a.db", raw_pages(64));
    commit(domain, segment, 10);
    (void)domain.keep("first");
    observe::crash_at(static_cast<std::uint32_t>(step), 1);
    if (is_forgetting)
      domain.forget("first");
    else
      (void)domain.keep("second");
  };
  if (is_power_cut) {
    EXPECT_EQ(run_in_child("victim", victim).signal, SIGKILL);
    lose_shared_memory(folder / "domain");
  }
  Domain domain = Domain::open(folder / "domain", options);
  if (!is_power_cut) {
    EXPECT_EQ(run_in_child("victim", victim).signal, SIGKILL);
  }
  const Segment segment = domain.map("a.db", raw_pages(64));
  // Shared memory has names until nobody is there; the file what was stored.
  const bool is_stored = step == Step::kMomentStored;
  EXPECT_EQ(has_name(domain, "first"), !is_forgetting || !is_power_cut);
  EXPECT_EQ(has_name(domain, "second"), !is_forgetting && (is_stored || !is_power_cut));
  for (const char *const name : {"first", "second"})
    if (has_name(domain, name)) domain.forget(name);
  commit(domain, segment, 10);
  EXPECT_GT(domain.keep("second"), 0U);
  commit(domain, segment, 10);
  EXPECT_EQ(domain.past().moments.size(), 1U);
  domain.close();
}

INSTANTIATE_TEST_SUITE_P(EveryStep, KillMomentsTest,
                         testing::Combine(testing::Values(Step::kMomentNamed, Step::kMomentStored,
                                                          Step::kMomentErased),
                                          testing::Bool()),
                         [](const testing::TestParamInfo<std::tuple<Step, bool>> &one) {
                           std::string name =
                               std::string(observe::step_name(std::get<0>(one.param))) +
                               (std::get<1>(one.param) ? "_power_cut" : "_kill");
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tmh::test
