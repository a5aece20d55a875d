// tests/domain/kept_moments_test.cpp -- names of moments of durable domains: what becomes of them
// when all participants have left, in backups, in archives, after a recovery.
// Invariants: (1) a name that keep() has returned for is there after a close, the death of all, a
//             power cut. (2) a name of what a recovery has undone is gone. (3) a damaged file of
//             names is refused by what asks for names, and keeps no domain from being opened.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "storage/control.h"
#include "storage/moments_file.h"
#include "tests/support/at_step.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

class KeptMomentsTest : public testing::TestWithParam<Durability> {
 protected:
  [[nodiscard]] std::string path() const { return folder_ / "domain"; }
  [[nodiscard]] static DomainOptions options() {
    DomainOptions wanted = durable_options(GetParam());
    wanted.keep_log = true;
    return wanted;
  }
  static const NamedMoment *find(const PastInfo &past, const std::string &name) {
    const auto found = std::find_if(past.moments.begin(), past.moments.end(),
                                    [&](const NamedMoment &each) { return each.name == name; });
    return found == past.moments.end() ? nullptr : &*found;
  }
  static std::uint64_t lsn_of(const Domain &domain, const std::string &name) {
    const PastInfo past = domain.past();
    return find(past, name) == nullptr ? 0 : find(past, name)->lsn;
  }
  static std::uint64_t at(const Domain &domain, const Segment &segment, const std::string &name) {
    return query_at(domain, Moment::named(name), [&] { return word_of(segment, 0); });
  }
  static void store(const Domain &domain, const Segment &segment, std::uint64_t value) {
    atomically(domain, [&] { word_of(segment, 0) = value; });
  }
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Durable, KeptMomentsTest,
                         testing::Values(Durability::kBuffered, Durability::kStrict),
                         [](const auto &one) { return std::string(to_string(one.param)); });

TEST_P(KeptMomentsTest, ANameOutlivesAllParticipants) {
  for (const Ending ending : {Ending::kClosed, Ending::kKilled, Ending::kPowerCut}) {
    const std::string name = "life " + std::to_string(static_cast<int>(ending));
    in_domain(path(), options(), ending, [&](const Domain &domain, const Segment &segment) {
      store(domain, segment, 1);
      const std::uint64_t clock = domain.keep(name);
      store(domain, segment, 2);
      EXPECT_EQ(at(domain, segment, name), 1U);
      const PastInfo past = domain.past();
      ASSERT_NE(find(past, name), nullptr);
      EXPECT_TRUE(find(past, name)->is_held);
      EXPECT_EQ(find(past, name)->clock, clock);
      EXPECT_GT(find(past, name)->lsn, 0U);
      write_file(folder_ / "clock", std::to_string(clock));
    });
    const Domain domain = Domain::open(path());
    const Segment segment = domain.map("a.db", raw_pages(64));
    const PastInfo past = domain.past();
    const NamedMoment *const moment = find(past, name);
    ASSERT_NE(moment, nullptr) << name;
    EXPECT_FALSE(moment->is_held);
    EXPECT_EQ(std::to_string(moment->clock), read_file(folder_ / "clock"));
    EXPECT_LE(moment->clock, past.now);
    EXPECT_NE(moment->time.time_since_epoch().count(), 0);
    expect_error(
        Errc::kNotHeld, [&] { (void)at(domain, segment, name); }, "open_image()");
    expect_error(
        Errc::kBadArgument, [&] { (void)domain.keep(name); }, "already");
  }
  const Domain domain = Domain::open(path());
  EXPECT_EQ(domain.past().moments.size(), 3U);
  domain.forget("life 1");
  EXPECT_EQ(domain.past().moments.size(), 2U);
  expect_error(
      Errc::kNotHeld, [&] { domain.forget("life 1"); }, "life 1");
  EXPECT_GT(domain.keep("life 1"), 0U) << "it may be given again";
}

TEST_P(KeptMomentsTest, ParticipantsShareNames) {
  if (const std::string why = why_no_threads_in_children(); !why.empty()) GTEST_SKIP() << why;
  Domain domain = Domain::open(path(), options());
  const Segment segment = domain.map("a.db", raw_pages(64));
  store(domain, segment, 1);
  in_domain(path(), options(), Ending::kClosed,
            [&](const Domain &other, const Segment &) { (void)other.keep("other's"); });
  store(domain, segment, 2);
  EXPECT_EQ(at(domain, segment, "other's"), 1U);
  domain.forget("other's");
  EXPECT_TRUE(domain.past().moments.empty());
  EXPECT_FALSE(fs::exists(storage::moments_path(path())));
}

TEST_P(KeptMomentsTest, ThereAreSoManyAtATimeInAllLives) {
  for (std::size_t life = 0; life < 2; ++life) {
    in_domain(path(), options(), Ending::kClosed, [&](const Domain &domain, const Segment &) {
      for (std::size_t i = 0; i < kMomentsMax / 2; ++i)
        (void)domain.keep(std::to_string(life) + "." + std::to_string(i));
    });
  }
  const Domain domain = Domain::open(path());
  EXPECT_EQ(domain.past().moments.size(), kMomentsMax);
  expect_error(
      Errc::kTooManyMoments, [&] { (void)domain.keep("one too many"); }, "64");
  domain.forget("0.7");
  EXPECT_GT(domain.keep("one too many"), 0U);
}

// A recovery takes the archive's names, too, but none of what it undoes.
TEST_P(KeptMomentsTest, BackupsAndArchivesHaveTheNames) {
  Domain domain = Domain::open(path(), options());
  const Segment segment = domain.map("a.db", raw_pages(64));
  store(domain, segment, 1);
  (void)domain.keep("before");
  domain.backup(folder_ / "whole");
  fs::copy(folder_ / "whole", folder_ / "early");
  store(domain, segment, 2);
  const std::uint64_t after = domain.keep("after");
  const std::uint64_t end = lsn_of(domain, "after");
  store(domain, segment, 3);
  const std::string archive = folder_ / "archive";
  (void)domain.archive(archive);
  domain.close();
  for (const auto &entry : fs::directory_iterator(path()))
    if (entry.path().filename().string().starts_with("tmh.log."))
      fs::copy(entry.path(), archive, fs::copy_options::overwrite_existing);
  RecoverOptions how;
  how.log_folder = archive;
  (void)recover(folder_ / "whole", how);
  {
    const Domain whole = Domain::open(folder_ / "whole");
    EXPECT_EQ(read_word(whole, whole.map("a.db", raw_pages(64)), 0), 3U);
    const PastInfo past = whole.past();
    ASSERT_EQ(past.moments.size(), 2U);
    ASSERT_NE(find(past, "after"), nullptr);
    EXPECT_EQ(find(past, "after")->clock, after);
    EXPECT_NE(find(past, "before"), nullptr);
  }
  how.until_lsn = end - 8;
  (void)recover(folder_ / "early", how);
  const Domain early = Domain::open(folder_ / "early");
  EXPECT_EQ(read_word(early, early.map("a.db", raw_pages(64)), 0), 1U);
  const PastInfo past = early.past();
  EXPECT_NE(find(past, "before"), nullptr);
  EXPECT_EQ(find(past, "after"), nullptr) << "its moment is gone";
}

// A recovery has undone the moment, and dies before it takes the name away: the next one ends at
// the first one's checkpoint, which lies behind the name's end.
TEST_P(KeptMomentsTest, ADeathInRecoveryKeepsNoNameOfWhatWasUndone) {
  std::uint64_t end = 0;
  in_domain(path(), options(), Ending::kClosed, [&](const Domain &domain, const Segment &segment) {
    store(domain, segment, 1);
    (void)domain.keep("before");
    domain.backup(folder_ / "early");
    store(domain, segment, 2);
    (void)domain.keep("after");
  });
  {
    const Domain domain = Domain::open(path());
    end = lsn_of(domain, "after");
  }
  fs::copy_file(storage::moments_path(path()), storage::moments_path(folder_ / "early"),
                fs::copy_options::overwrite_existing);
  RecoverOptions how;
  how.log_folder = path();
  how.until_lsn = end - 8;
  const ChildEnd died = run_in_child("recoverer", [&] {
    const AtStep step(observe::Step::kRecoveryReplayed, [] { (void)::raise(SIGKILL); });
    (void)recover(folder_ / "early", how);
  });
  EXPECT_EQ(died.signal, SIGKILL);
  const Domain early = Domain::open(folder_ / "early");
  EXPECT_EQ(read_word(early, early.map("a.db", raw_pages(64)), 0), 1U);
  const PastInfo past = early.past();
  EXPECT_NE(find(past, "before"), nullptr);
  EXPECT_EQ(find(past, "after"), nullptr);
}

// keep() names a moment, and learns later how far the log has come: other processes may have
// committed in between.
TEST_P(KeptMomentsTest, AnImageNeverShowsCommitsBehindTheName) {
  std::uint64_t end = 0;
  in_domain(path(), options(), Ending::kClosed, [&](const Domain &domain, const Segment &segment) {
    store(domain, segment, 1);
    (void)domain.keep("early");
    store(domain, segment, 2);
    (void)domain.keep("late");
  });
  {
    const Domain domain = Domain::open(path());
    end = lsn_of(domain, "late");
    ASSERT_GT(end, lsn_of(domain, "early"));
  }
  storage::ControlHeaderV1 header{};
  const std::string bytes = read_file(path() + "/tmh.control");
  ASSERT_GT(bytes.size(), sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  storage::KeptMoments moments;
  ASSERT_EQ(storage::read_moments(path(), header.domain_id, &moments), Errc::kOk);
  for (storage::KeptMoment &each : moments) each.lsn = end;
  ASSERT_EQ(storage::write_moments(path(), header.domain_id, moments), Errc::kOk);
  expect_error(
      Errc::kNotHeld, [&] { (void)open_image(path(), Moment::named("early")); }, "older backup");
  const Image late = open_image(path(), Moment::named("late"));
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t *>(late.data("a.db")), 2U);
}

TEST_P(KeptMomentsTest, OfTwoMomentsWithANameTheLaterOneCounts) {
  const std::string archive = folder_ / "archive";
  in_domain(path(), options(), Ending::kClosed, [&](const Domain &domain, const Segment &segment) {
    store(domain, segment, 1);
    (void)domain.keep("here");
    (void)domain.archive(archive);
    domain.forget("here");
    store(domain, segment, 2);
    (void)domain.keep("here");
    domain.backup(folder_ / "backup");
  });
  ImageOptions how;
  how.log_folder = archive;
  {
    const Image image = open_image(folder_ / "backup", Moment::named("here"), how);
    EXPECT_EQ(*reinterpret_cast<const std::uint64_t *>(image.data("a.db")), 2U);
  }
  RecoverOptions recovery;
  recovery.log_folder = archive;
  (void)recover(folder_ / "backup", recovery);
  const Domain domain = Domain::open(folder_ / "backup");
  const PastInfo past = domain.past();
  ASSERT_EQ(past.moments.size(), 1U);
  EXPECT_EQ(past.moments.front().clock, past.now);
}

TEST_P(KeptMomentsTest, ADamagedFileIsRefusedByWhatAsksForNames) {
  in_domain(path(), options(), Ending::kClosed, [&](const Domain &domain, const Segment &segment) {
    store(domain, segment, 5);
    (void)domain.keep("lost");
  });
  const std::string bytes = read_file(storage::moments_path(path()));
  patch_file(storage::moments_path(path()), 40, "x");
  {
    const Domain domain = Domain::open(path());
    const Segment segment = domain.map("a.db", raw_pages(64));
    EXPECT_EQ(read_word(domain, segment, 0), 5U);
    const auto refused = [&](const std::function<void()> &call) {
      expect_error(Errc::kCorrupt, call, "tmh.moments");
    };
    refused([&] { (void)domain.keep("new"); });
    refused([&] { domain.forget("lost"); });
    refused([&] { (void)domain.past(); });
    refused([&] { domain.backup(folder_ / "backup"); });
    EXPECT_FALSE(fs::exists(folder_ / "backup"));
    fs::remove(storage::moments_path(path()));
    EXPECT_TRUE(domain.past().moments.empty());
    EXPECT_GT(domain.keep("new"), 0U);
  }
  write_file(storage::moments_path(path()), bytes.substr(0, 100));
  const Domain domain = Domain::open(path());
  expect_error(
      Errc::kShortFile, [&] { (void)domain.past(); }, "cut short");
}

}  // namespace
}  // namespace tmh::test
