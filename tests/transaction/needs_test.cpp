// tests/transaction/needs_test.cpp -- which function has sent an instance from software lines to
// level 2: SiteReport, Counters and the message of a site that may not go up say its name.
// Invariants: (1) each call that only level 2 can do counts under its own Need, once for the
//             instance, and under no other. (2) by Need they sum up to escalations_needs_pages, of
//             the site and of the domain. (3) what an action, or a body that goes on after the end
//             of its attempt, needs as well changes nothing. (4) every Need has a name of its own.
// Elsewhere:  a full disk: tests/storage/disk_full_test.cpp. RTM: tests/rtm.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

static_assert(static_cast<std::size_t>(Need::kSetPolicy) + 1 == kNeedCount);

DomainOptions hybrid() {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
  options.stray = Stray::kAllow;         // a query stores
  return options;
}

struct Word {
  field<std::uint64_t> value;
};

std::uint64_t sum_of(const std::uint64_t (&escalations)[kNeedCount]) {
  std::uint64_t sum = 0;
  for (const std::uint64_t one : escalations) sum += one;
  return sum;
}

class NeedsTest : public testing::Test {
 protected:
  NeedsTest() : domain_(Domain::open(folder_ / "domain", hybrid())) {
    SegmentOptions heap;
    heap.size_bytes = kMiB;
    heap.max_bytes = 8 * kMiB;
    segment_ = domain_.map("heap", heap);
    word_ = segment_.root<Word>("word");
    pools_ = segment_.root<pools>("tmh.pools");
  }

  // `run` runs one instance of the site, which goes up for that need; at level 2 it may fail.
  void expect_need(Need need, const std::function<void(const Site &site)> &run,
                   const char *escalation = "on-capacity") const {
    SCOPED_TRACE(to_string(need));
    const auto number = static_cast<std::size_t>(need);
    const Site site(domain_, to_string(need), escalation);
    const Counters before = domain_.counters();
    try {
      run(site);
    } catch (const Error &) {
    }
    const SiteReport report = site.report();
    EXPECT_EQ(report.escalations_by_need[number], 1U);
    EXPECT_EQ(report.escalations_needs_pages, 1U);
    EXPECT_EQ(sum_of(report.escalations_by_need), report.escalations_needs_pages);
    const Counters counters = domain_.counters();
    EXPECT_EQ(counters.escalations_by_need[number], before.escalations_by_need[number] + 1);
    EXPECT_EQ(counters.escalations_needs_pages, before.escalations_needs_pages + 1);
    EXPECT_EQ(sum_of(counters.escalations_by_need), counters.escalations_needs_pages);
  }
  // The same of what an update's body calls.
  void expect_call(Need need, const std::function<void()> &call) const {
    expect_need(need, [&](const Site &site) {
      atomically(site, [&](Fields) {
        ++word_->value;
        call();
      });
    });
  }

  MemoryFolder folder_;
  Domain domain_;
  Segment segment_;
  Word *word_ = nullptr;
  pools *pools_ = nullptr;
};

TEST_F(NeedsTest, InstancesInside) {
  const Site inner(domain_, "inner");
  expect_call(Need::kPlainBody, [&] { atomically(inner, [] {}); });
  expect_call(Need::kPlainBody, [&] { query(inner, [] {}); });
  expect_call(Need::kBegin, [&] { atomically(domain_, [] {}); });
  expect_call(Need::kBeginQuery, [&] { query(domain_, [] {}); });
  expect_call(Need::kAbort, [&] { domain_.abort(); });
  const Domain other = Domain::open(folder_ / "other", hybrid());
  const Site others(other, "others");
  expect_call(Need::kOtherDomain, [&] { atomically(others, [](Fields) {}); });
  expect_call(Need::kOtherDomain, [&] { atomically(others, [] {}); });
}

TEST_F(NeedsTest, Queries) {
  const Site inner(domain_, "inner");
  expect_need(Need::kUpdateInQuery, [&](const Site &site) {
    query(site, [&](Fields) { atomically(inner, [](Fields) {}); });
  });
  expect_need(Need::kQueryWrote,
              [&](const Site &site) { query(site, [&](Fields) { word_->value.store(1); }); });
  // Whatever its policy.
  expect_need(
      Need::kQueryWrote,
      [&](const Site &site) { query(site, [&](Fields) { word_->value.store(1); }); }, "never");
}

TEST_F(NeedsTest, TheHeap) {
  void *block = nullptr;
  expect_call(Need::kAllocate, [&] { block = segment_.allocate(64); });
  expect_call(Need::kDeallocate, [&] { segment_.deallocate(block, 64); });
  expect_call(Need::kRoot, [&] { (void)segment_.root<Word>("another"); });
  expect_call(Need::kGrow, [&] { segment_.grow(2 * kMiB); });
  allocator<Word> words(segment_);
  Word *made = nullptr;
  expect_call(Need::kAllocatorAllocate, [&] { made = words.allocate(1); });
  expect_call(Need::kAllocatorDeallocate, [&] { words.deallocate(made, 1); });
}

TEST_F(NeedsTest, Pools) {
  void *block = nullptr;
  expect_call(Need::kPoolAllocate,
              [&] { block = pools_->allocate(pools::kBlockBytesMax + 1); });  // the heap's
  expect_call(Need::kPoolDeallocate, [&] { pools_->deallocate(block, pools::kBlockBytesMax + 1); });
  expect_call(Need::kPoolAllocate, [&] {  // more than a list that is filled for it has
    for (int i = 0; i < 3000; ++i) (void)pools_->allocate(64);
  });
  const Site fills(domain_, "fills");
  const auto fill = [&] {
    for (;;) (void)atomically(fills, [&](Fields) { return pools_->allocate(4096); });
  };
  EXPECT_THROW(fill(), Error);
  expect_call(Need::kPoolAllocate, [&] { (void)pools_->allocate(4096); });  // the heap is full
}

TEST_F(NeedsTest, Irrevocability) {
  expect_call(Need::kIrrevocable, [] { become_irrevocable(); });
}

TEST_F(NeedsTest, OfSeveralTheFirstIsCounted) {
  expect_call(Need::kAllocate, [&] {
    try {
      (void)segment_.allocate(64);
    } catch (const Error &) {
      throw;
    } catch (...) {  // the end of the attempt, which no body should catch
    }
    become_irrevocable();
  });
}

TEST_F(NeedsTest, WhatAnActionNeedsIsCountedForTheActionsSite) {
  const Site inner(domain_, "inner", "on-capacity");
  expect_need(Need::kIrrevocable, [&](const Site &site) {
    atomically(site, [&](Fields) {
      on_abort([&] {
        const Site hidden(domain_, "hidden", "always");
        atomically(hidden, [&](Fields) { (void)segment_.allocate(64); });
      });
      become_irrevocable();
    });
  });
  const Site outer(domain_, "outer", "on-capacity");
  atomically(outer, [&](Fields) {
    on_abort([&] { atomically(inner, [&](Fields) { (void)segment_.allocate(64); }); });
    become_irrevocable();
  });
  EXPECT_EQ(outer.report().escalations_by_need[static_cast<std::size_t>(Need::kIrrevocable)], 1U);
  EXPECT_EQ(inner.report().escalations_by_need[static_cast<std::size_t>(Need::kAllocate)], 1U);
  EXPECT_EQ(outer.report().escalations_needs_pages + inner.report().escalations_needs_pages, 2U);
}

TEST_F(NeedsTest, OtherEscalationsHaveNone) {
  DomainOptions options = hybrid();
  options.policies.capacity = "32KiB/8/64";
  const Domain small = Domain::open(folder_ / "small", options);
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = kMiB;
  raw.relocatable = true;  // two domains of a process
  auto *const words = reinterpret_cast<field<std::uint64_t> *>(small.map("words", raw).data());
  const Site site(small, "site", "on-capacity");
  atomically(site, [&](Fields) { become_irrevocable(); });
  atomically(site, [&](Fields) {
    for (std::size_t i = 0; i < kMiB / 8; i += 8) words[i] = 1;
  });
  const SiteReport report = site.report();
  EXPECT_EQ(report.escalations_capacity, 1U);
  EXPECT_EQ(report.escalations_needs_pages, 1U);
  EXPECT_EQ(sum_of(report.escalations_by_need), 1U);
  EXPECT_EQ(small.counters().escalations_needs_pages, 1U);
}

TEST_F(NeedsTest, ASiteThatMayNotGoUpIsToldTheFunction) {
  const Site stays(domain_, "stays", "never");
  try {
    atomically(stays, [&](Fields) { (void)segment_.allocate(64); });
    FAIL() << "not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kNeedsPages);
    EXPECT_NE(std::string(error.what()).find("tmh::Segment::allocate"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(stays.report().escalations_needs_pages, 0U);
}

TEST(Need, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kNeedCount; ++i)
    EXPECT_TRUE(names.insert(to_string(static_cast<Need>(i))).second) << i;
  for (std::size_t i = kNeedCount; i < 256; ++i)
    EXPECT_STREQ(to_string(static_cast<Need>(i)), "unknown");
}

}  // namespace
}  // namespace tmh::test
