// tests/storage/files_in_place_test.cpp -- what a participant says and does when its files are not
// in their place, and how it goes on.
// Invariants: (1) a file that is put back ends the refusal. (2) a folder that was moved as a whole
//             loses nothing. (3) what is refused after all have died the user may accept. (4) a
//             forked child of a dead participant holds no domain.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <tmh/tmh.hpp>

#include "platform/files.h"
#include "storage/control.h"
#include "storage/file_table.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

class FilesInPlaceTest : public testing::Test {
 protected:
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  static void store(const Domain &domain, const Segment &segment, std::uint64_t value) {
    atomically(domain, [&] { word_of(segment, 0) = value; });
  }
  void make_killed(Durability durability) const {
    in_domain(domain(), durable_options(durability), Ending::kKilled,
              [](const Domain &domain, const Segment &segment) { store(domain, segment, 1); });
  }
  const MemoryFolder folder_;
};

TEST_F(FilesInPlaceTest, AFileThatIsPutBackEndsTheRefusal) {
  Domain self = Domain::open(domain(), durable_options());
  const Segment segment = self.map("a.db", raw_pages(64));
  for (const char *name : {"/tmh.commits", "/a.db", "/tmh.checkpoint", "/tmh.log.0000000000"}) {
    const std::string file = domain() + name, aside = folder_ / "aside";
    store(self, segment, 1);
    fs::rename(file, aside);
    // Not before the next look, 100 ms after the last one at most.
    std::string sentence;
    ASSERT_TRUE(poll_until([&] {
      try {
        store(self, segment, 2);
        return false;
      } catch (const Error &error) {
        EXPECT_EQ(error.errc(), Errc::kFileReplaced);
        sentence = error.what();
        return true;
      }
    }));
    EXPECT_NE(sentence.find(file + " was removed"), std::string::npos) << sentence;
    expect_error(
        Errc::kFileReplaced, [&] { self.checkpoint(); }, file);
    fs::rename(aside, file);
    EXPECT_NO_THROW(store(self, segment, 3)) << name;
  }
  EXPECT_NO_THROW(self.close());
}

TEST_F(FilesInPlaceTest, AFolderThatIsMovedLosesNothing) {
  Domain self = Domain::open(domain(), durable_options());
  const Segment segment = self.map("a.db", raw_pages(64));
  const std::string moved = folder_ / "moved";
  store(self, segment, 6);
  fs::rename(domain(), moved);
  store(self, segment, 7);
  expect_error(
      Errc::kFileReplaced, [&] { self.close(); }, domain() + " was moved to " + moved);
  fs::rename(moved, domain());
  EXPECT_NO_THROW(self.close());
  const Domain again = Domain::open(domain(), durable_options());
  EXPECT_EQ(read_word(again, again.map("a.db", raw_pages(64)), 0), 7U);
}

TEST_F(FilesInPlaceTest, TheUserMayTakeTheFilesAsTheyAre) {
  for (const Durability durability : {Durability::kNone, Durability::kBuffered}) {
    make_killed(durability);
    fs::remove(domain() + "/tmh.state");
    for (int times = 0; times < 2; ++times)
      expect_error(
          Errc::kFileReplaced, [&] { (void)Domain::open(domain(), durable_options(durability)); },
          "--accept-files");
    RecoverOptions accepts;
    accepts.accept_files = true;
    EXPECT_NO_THROW((void)recover(domain(), accepts));
    expect_child("opens", [&] {
      Domain self = Domain::open(domain(), durable_options(durability));
      const Segment segment = self.map("a.db", raw_pages(64));
      EXPECT_LE(read_word(self, segment, 0), 1U);
      store(self, segment, 2);
      self.close();
    });
    fs::remove_all(domain());
  }
}

// The file may still be put back: then nothing is lost.
TEST_F(FilesInPlaceTest, WhatCannotGoOnIsNotAccepted) {
  RecoverOptions accepts;
  accepts.accept_files = true;
  DomainOptions options = durable_options(Durability::kBuffered);
  options.flush_interval_ms = 60'000;
  in_domain(domain(), options, Ending::kKilled,
            [](const Domain &domain, const Segment &segment) { store(domain, segment, 4); });
  for (const char *name : {"/a.db", "/tmh.checkpoint"}) {
    fs::rename(domain() + name, folder_ / "aside");
    expect_error(
        Errc::kFileReplaced, [&] { (void)recover(domain(), accepts); }, name);
    fs::rename(folder_ / "aside", domain() + name);
  }
  const Domain self = Domain::open(domain(), options);
  EXPECT_EQ(read_word(self, self.map("a.db", raw_pages(64)), 0), 4U);
}

// Commits that only shared memory has come into the data file that was put there.
TEST_F(FilesInPlaceTest, SharedMemoryThatIsWholeIsNotLostByAccepting) {
  DomainOptions options = durable_options(Durability::kBuffered);
  options.flush_interval_ms = 60'000;
  in_domain(domain(), options, Ending::kKilled,
            [](const Domain &domain, const Segment &segment) { store(domain, segment, 4); });
  fs::copy_file(domain() + "/a.db", folder_ / "copy");
  fs::rename(folder_ / "copy", domain() + "/a.db");
  RecoverOptions accepts;
  accepts.accept_files = true;
  EXPECT_GE(recover(domain(), accepts).salvaged, 1U);
  const Domain self = Domain::open(domain(), options);
  EXPECT_EQ(read_word(self, self.map("a.db", raw_pages(64)), 0), 4U);
}

// A strict domain whose program has asked for less.
TEST_F(FilesInPlaceTest, ABufferedCommitOfAStrictDomainIsNotLostInSilence) {
  for (const bool is_buffered : {false, true}) {
    in_domain(domain(), durable_options(), Ending::kKilled,
              [&](const Domain &domain, const Segment &segment) {
                store(domain, segment, 1);
                if (!is_buffered) return;
                domain.begin();
                word_of(segment, 0) = 2;
                EXPECT_EQ(domain.end(Durability::kBuffered), Status::kCommitted);
              });
    fs::remove(domain() + "/tmh.state");
    if (is_buffered) {
      expect_error(Errc::kFileReplaced, [&] { (void)Domain::open(domain(), durable_options()); });
      continue;
    }
    expect_child("opens", [&] {
      Domain self = Domain::open(domain(), durable_options());
      EXPECT_EQ(read_word(self, self.map("a.db", raw_pages(64)), 0), 1U);
      self.close();
    });
  }
}

TEST_F(FilesInPlaceTest, FilesInUseAreNotAccepted) {
  const Domain self = Domain::open(domain(), durable_options());
  RecoverOptions accepts;
  accepts.accept_files = true;
  expect_error(Errc::kDomainInUse, [&] { (void)recover(domain(), accepts); });
}

TEST_F(FilesInPlaceTest, AForkedChildOfADeadParticipantHoldsNoDomain) {
  const Shared<Turn> turn;
  Children children;
  const std::size_t parent = children.spawn("parent", [&] {
    const Domain self = Domain::open(domain(), durable_options());
    const Segment segment = self.map("a.db", raw_pages(64));
    store(self, segment, 5);
    if (fork() == 0) {
      turn->reach(1);
      turn->await(2);
      _exit(0);
    }
    for (;;) pause();
  });
  turn->await(1);
  children.bury(parent);
  fs::remove(domain() + "/tmh.state");
  expect_child("opens", [&] {
    const Domain self = Domain::open(domain(), durable_options());
    EXPECT_EQ(read_word(self, self.map("a.db", raw_pages(64)), 0), 5U);
  });
  turn->reach(2);
}

TEST(FileTableTest, EveryNameIsOfOneFile) {
  for (std::uint32_t one = 0; one < static_cast<std::uint32_t>(storage::DomainFile::kEnd); ++one) {
    const std::string name = storage::name_of(static_cast<storage::DomainFile>(one));
    EXPECT_TRUE(name.starts_with("tmh.")) << name;
    for (std::uint32_t other = 0; other < one; ++other)
      EXPECT_NE(name, storage::name_of(static_cast<storage::DomainFile>(other)));
  }
}

TEST(FileTableTest, TheFirstToEnterDecides) {
  const MemoryFolder folder;
  const auto make = [&](const char *name) {
    platform::FileDescriptor file;
    EXPECT_EQ(
        platform::open_regular(folder / name, O_RDWR | O_CREAT, platform::FileRole::kOwn, &file),
        Errc::kOk);
    return file;
  };
  const platform::FileDescriptor one = make("one"), other = make("other");
  storage::FileEntry entry{};
  EXPECT_EQ(storage::enter(entry, one.get(), 8, "one"), Errc::kOk);
  EXPECT_EQ(storage::enter(entry, one.get(), 4, "one"), Errc::kOk);
  EXPECT_EQ(entry.bytes.load(), 8U);
  EXPECT_EQ(storage::enter(entry, other.get(), 16, "one"), Errc::kFileReplaced);
  EXPECT_EQ(entry.bytes.load(), 8U);
}

// The next participant that is alone sets the mark before it has written to the log what the dead
// have left: the note of their early acknowledgements stays until shared memory goes.
TEST(FileTableTest, EarlyAcknowledgementsAreForgottenWithSharedMemoryOnly) {
  const auto control = storage::new_control(0, 0);
  storage::store_open_mark(&control->header, 7);
  EXPECT_EQ(control->header.acknowledged_early, 0U);
  storage::note_early_acknowledgement(&control->header);
  storage::store_open_mark(&control->header, 8);
  EXPECT_EQ(control->header.acknowledged_early, 1U);
  storage::store_open_mark(&control->header, 0);
  EXPECT_EQ(control->header.acknowledged_early, 0U);
}

// Of a copy it is another one.
TEST(FileTableTest, AMarkIsOfOneFile) {
  const MemoryFolder folder;
  platform::FileDescriptor one, other;
  for (auto [name, file] : {std::pair("one", &one), std::pair("other", &other)})
    ASSERT_EQ(
        platform::open_regular(folder / name, O_RDWR | O_CREAT, platform::FileRole::kOwn, file),
        Errc::kOk);
  EXPECT_EQ(storage::open_mark(one.get()), storage::open_mark(one.get()));
  EXPECT_NE(storage::open_mark(one.get()), storage::open_mark(other.get()));
  EXPECT_NE(storage::open_mark(one.get()), 0U);
}

}  // namespace
}  // namespace tmh::test
