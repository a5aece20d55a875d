// tests/death/kill_segments_test.cpp -- durable domains whose processes make, map, unmap and grow
// segments, take checkpoints, archive and are killed.
// Model:      memory outside the domain (support/killed_workers.h). A worker has a word of its own
//             on each page of each segment; what it stores there is the number of its instance.
// Invariants: (1) every word is as its owner's last instance that committed left it; all that was
//             acknowledged did, also when shared memory is lost.
//             (2) a backup holds the same. (3) what the archive and a backup hold together is the
//                 same again.
// Size:       TMH_SEGMENT_KILLS deaths in all (default 30), shared by the modes; half of them are
//             of all workers at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/killed_workers.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint32_t kWorkers = 3, kSegments = 6;
constexpr std::uint64_t kPagesAtFirst = 8, kPagesMax = 64, kWordsPerPage = kPageBytes / 8,
                        kStoresMax = 60, kStoresOfSmall = 4, kBallastWords = 54;
constexpr long kAimNs = 4'000'000;

struct Store {
  std::uint32_t segment = 0;
  std::uint64_t page = 0;
};
struct Plan {
  std::array<Store, kStoresMax> stores;
  std::uint64_t count = 0;
};
using Words = std::array<std::array<std::uint64_t, kPagesMax>, kSegments>;
struct Ledger {
  Reference<Words, Plan> of[kWorkers];
  std::atomic<std::uint64_t> commits, maps, grows, checkpoints, archives;
  std::atomic<bool> stop;
};

Words after(Words model, const Plan &plan, std::uint64_t number) {
  for (std::uint64_t i = 0; i < plan.count; ++i)
    model[plan.stores[i].segment][plan.stores[i].page] = number;
  return model;
}

std::string name_of(std::uint32_t segment) { return "segment " + std::to_string(segment); }

SegmentOptions pages(std::uint64_t count) {
  SegmentOptions options = raw_pages(count);
  options.max_bytes = kPagesMax * kPageBytes;
  return options;
}

field<std::uint64_t> &word(const Segment &segment, std::uint64_t page, std::uint32_t worker) {
  // Lines apart on some pages, and one for all on others.
  const std::uint64_t index = page % 2 == 0 ? worker * 8 : worker;
  return reinterpret_cast<field<std::uint64_t> *>(
      segment.data())[page * kWordsPerPage + 100 + index];
}
// So that log files do not last long.
field<std::uint64_t> *ballast_of(field<std::uint64_t> *word) {
  auto *const page = reinterpret_cast<field<std::uint64_t> *>(
      reinterpret_cast<std::uintptr_t>(word) & ~(kPageBytes - 1));
  return page + 128 + static_cast<std::uint64_t>(word - page - 100) % 7 * kBallastWords;
}
void fill(field<std::uint64_t> *word, std::uint64_t number) {
  for (std::uint64_t i = 0; i < kBallastWords; ++i) ballast_of(word)[i] = number;
}
bool is_filled_alike(field<std::uint64_t> *word) {
  const field<std::uint64_t> *const ballast = ballast_of(word);
  return std::all_of(ballast, ballast + kBallastWords,
                     [&](const auto &one) { return one == ballast[0]; });
}
field<std::uint64_t> &done_of(const Segment &first, std::uint32_t worker) {
  return reinterpret_cast<field<std::uint64_t> *>(first.data())[worker];
}

class Worker {
 public:
  Worker(const std::string &folder, const DomainOptions &options, std::uint32_t number,
         Ledger *ledger, std::uint64_t random_seed)
      : folder_(folder),
        options_(options),
        number_(number),
        ledger_(*ledger),
        reference_(ledger->of[number]),
        random_(random_seed) {}

  void run() {
    while (!ledger_.stop && !testing::Test::HasFailure()) {
      open();
      settle();
      for (std::uint64_t left = 20 + random(60);
           left > 0 && !ledger_.stop && !testing::Test::HasFailure(); --left) {
        reference_.life.die_where_asked();
        step();
        ++reference_.life.steps;
      }
      close();
    }
  }
  // As its last life left it.
  void settle() {
    const std::uint64_t done =
        query(domain_, [&] { return done_of(segments_.at(0), number_).load(); });
    reference_.settle(
        done, [&](const Words &before, const Plan &plan) { return after(before, plan, done); });
  }
  void open() {
    domain_ = Domain::open(folder_, options_);
    lines_ = std::make_unique<Site>(domain_, "lines", "on-capacity");
    pages_ = std::make_unique<Site>(domain_, "pages", "always");
    segments_[0] = domain_.map(name_of(0), pages(kPagesAtFirst));
  }
  void close() {
    lines_.reset();
    pages_.reset();
    segments_.clear();
    domain_.close();
  }

 private:
  std::uint64_t random(std::uint64_t below) { return random_() % below; }

  void step() {
    const std::uint64_t dice = random(40);
    const auto segment = static_cast<std::uint32_t>(random(kSegments));
    if (dice < 3) return map(segment);
    if (dice == 3 && segment != 0 && segments_.contains(segment)) {
      domain_.unmap(segments_[segment]);
      segments_.erase(segment);
      return;
    }
    if (dice < 6 && segments_.contains(segment)) return grow(segment);
    if (dice == 6 && random(2) == 0) return bring_up([&] { domain_.checkpoint(); });
    if (dice == 7 && random(3) == 0)
      return bring_up([&] { ledger_.archives += domain_.archive(folder_ + ".archive").size(); });
    if (dice == 8) return domain_.flush();
    change();
  }
  // Where somebody has died of a data file's sync it may be the business of those who had the file
  // open before (kIo).
  template <class Call>
  void bring_up(const Call &checkpoint) {
    try {
      checkpoint();
      ++ledger_.checkpoints;
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), Errc::kIo) << error.what();
      EXPECT_NE(std::string(error.what()).find("died that synced it"), std::string::npos)
          << error.what();
    }
  }
  void map(std::uint32_t segment) {
    if (segments_.contains(segment)) return;
    segments_[segment] = domain_.map(name_of(segment), pages(kPagesAtFirst));
    ++ledger_.maps;
  }
  void grow(std::uint32_t segment) {
    const std::uint64_t bytes = segments_[segment].size_bytes() + (1 + random(12)) * kPageBytes;
    segments_[segment].grow(std::min(bytes, kPagesMax * kPageBytes));
    ++ledger_.grows;
  }
  void change() {
    Plan &plan = reference_.plan;
    plan.count = 1 + random(random(4) == 0 ? kStoresMax : kStoresOfSmall);
    for (std::uint64_t i = 0; i < plan.count; ++i) {
      auto at = segments_.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(random(segments_.size())));
      plan.stores[i] = {at->first, random(at->second.size_bytes() / kPageBytes)};
    }
    const std::uint64_t number = reference_.begin();
    const Words &before = reference_.model();
    const auto body = [&] {
      for (std::uint64_t i = 0; i < plan.count; ++i) {
        field<std::uint64_t> &mine =
            word(segments_.at(plan.stores[i].segment), plan.stores[i].page, number_);
        const std::uint64_t seen = mine;
        EXPECT_TRUE(seen == before[plan.stores[i].segment][plan.stores[i].page] || seen == number);
        mine = number;
        if (plan.count > kStoresOfSmall) fill(&mine, number);
      }
      done_of(segments_.at(0), number_) = number;
    };
    switch (random(3)) {
      case 0:
        atomically(domain_, body);
        break;
      case 1:
        atomically(*pages_, [&](Fields) { return body(); });
        break;
      default:
        atomically(*lines_, [&](Fields) { return body(); });
    }
    reference_.commit(after(before, plan, number));
    ++ledger_.commits;
  }

  const std::string folder_;
  const DomainOptions options_;
  const std::uint32_t number_;
  Ledger &ledger_;
  Reference<Words, Plan> &reference_;
  std::mt19937_64 random_;
  Domain domain_;
  std::map<std::uint32_t, Segment> segments_;
  std::unique_ptr<Site> lines_, pages_;
};

class KillSegmentsTest : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  [[nodiscard]] DomainOptions options() const {
    DomainOptions options = options_for(GetParam());
    options.log_file_bytes = kSmallLogBytes;
    options.checkpoint_bytes = 100'000;
    options.checkpoint_interval_ms = 300;
    options.flush_interval_ms = 20;
    options.keep_log = true;
    return options;
  }
  [[nodiscard]] std::string domain_folder() const { return folder_ / "domain"; }

  void expect_words(const Domain &domain, const std::string &where) {
    std::map<std::uint32_t, Segment> segments;
    for (std::uint32_t i = 0; i < kSegments; ++i)
      segments[i] = domain.map(name_of(i), pages(kPagesAtFirst));
    query(domain, [&] {
      for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
        const Words &model = ledger_->of[worker].model();
        for (auto &[number, segment] : segments) {
          const std::uint64_t count = segment.size_bytes() / kPageBytes;
          for (std::uint64_t page = 0; page < kPagesMax; ++page) {
            const std::uint64_t now = page < count ? word(segment, page, worker).load() : 0;
            ASSERT_TRUE(page >= count || is_filled_alike(&word(segment, page, worker)))
                << where << ": page " << page;
            ASSERT_EQ(now, model[number][page])
                << where << ": worker " << worker << ", segment " << number << ", page " << page;
          }
        }
      }
    });
  }
  // REQUIRES: no worker runs. Makes a backup: once for the end, and now and then for a look at it.
  void judge() {
    const bool is_first = !std::filesystem::exists(base_),
               copies = is_first || workers_.random(3) == 0;
    const std::string copy = is_first ? base_ : folder_ / "copy";
    expect_child("judge", [&] {
      for (std::uint32_t i = 0; i < kWorkers; ++i) {
        Worker worker(domain_folder(), options(), i, &*ledger_, 1);
        worker.open();
        worker.settle();
        worker.close();
      }
      Domain domain = Domain::open(domain_folder(), options());
      expect_words(domain, "the domain");
      if (copies) domain.backup(copy);
      domain.close();
      if (is_first || !copies) return;
      Domain backup = Domain::open(copy, options());
      expect_words(backup, "the copy");
      backup.close();
    });
    std::filesystem::remove_all(folder_ / "copy");
  }
  // REQUIRES: closed. The first backup, brought to the end by what was archived and what the domain
  // still has.
  void roll_forward() {
    RecoverOptions all;
    all.log_folder = domain_folder() + ".archive";
    std::filesystem::create_directories(all.log_folder);
    for (const auto &entry : std::filesystem::directory_iterator(domain_folder())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("tmh.log.0"))
        std::filesystem::copy(entry.path(), all.log_folder + "/" + name);
    }
    expect_child("roll forward", [&] {
      (void)recover(base_, all);
      Domain domain = Domain::open(base_, options());
      expect_words(domain, "the backup and the log");
      domain.close();
    });
  }

  const MemoryFolder folder_;
  Shared<Ledger> ledger_;
  KilledWorkers workers_{{&ledger_->of[0].life, &ledger_->of[1].life, &ledger_->of[2].life},
                         [this](std::uint32_t number, std::uint64_t random_seed) {
                           Worker(domain_folder(), options(), number, &*ledger_, random_seed).run();
                         }};
  const std::string base_ = folder_ / "base";
};
INSTANTIATE_TEST_SUITE_P(
    DurableModes, KillSegmentsTest,
    testing::Values(kDurableHybridModes[0],
                    Mode{"HybridStrictSignal", Detection::kLazy, Tracking::kSignalHot,
                         Levels::kHybrid, LineChoice::kSoftware, Durability::kStrict},
                    Mode{"PageStrict", Detection::kLazy, Tracking::kAuto, Levels::kPage,
                         LineChoice::kAuto, Durability::kStrict}),
    mode_name);

TEST_P(KillSegmentsTest, WhatIsThereIsWhatTheModelsSay) {
  const std::uint64_t kills = environment_number("TMH_SEGMENT_KILLS", 30) / 3;
  workers_.kill({.count = kills, .steps_between = 20, .aim_ns = kAimNs, .all_one_in = 3}, [this] {
    if (workers_.random(2) == 0) lose_shared_memory(domain_folder());
    judge();
  });
  ledger_->stop = true;
  workers_.expect_success();
  if (!std::filesystem::exists(base_)) judge();
  judge();
  roll_forward();
  const auto number = [](const std::atomic<std::uint64_t> &of) {
    return static_cast<unsigned long long>(of);
  };
  std::printf("%llu commits, %llu maps, %llu grows, %llu checkpoints, %llu log files archived\n",
              number(ledger_->commits), number(ledger_->maps), number(ledger_->grows),
              number(ledger_->checkpoints), number(ledger_->archives));
}

}  // namespace
}  // namespace tmh::test
