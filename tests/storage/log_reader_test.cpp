// tests/storage/log_reader_test.cpp -- where a log ends, and whether that is an end, a torn tail or
// damage.
// Invariants: (1) everything valid is read, across files, archive folders and generations. (2) what
//             may be an unacknowledged tail is cut silently, and said so; what is proved to have
//             been durable is kLogDamaged or kLogMissing, with file, offset and LSN.
//             (3) records of other generations, places or histories count for nothing. (4) the
//                 planted defects break (3) and the checksum.
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "observe/planted.h"
#include "platform/failure.h"
#include "storage/log/log_reader.h"
#include "tests/support/log_rig.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using namespace storage;
namespace fs = std::filesystem;

class LogReaderTest : public testing::Test {
 protected:
  void TearDown() override { observe::plant(observe::Planted::kNone); }

  struct Reading {
    Errc error = Errc::kOk;
    std::string detail;
    std::size_t commits = 0, records = 0;
    Lsn end = 0;
    bool torn = false;
    std::uint32_t generation = 0, generation_max = 0;
  };
  [[nodiscard]] Reading read(const std::string &archive = "") const {
    CheckpointFile checkpoint;
    EXPECT_EQ(checkpoint.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
    return read_from(checkpoint.current(), archive);
  }
  [[nodiscard]] Reading read_from(const CheckpointV1 &from, const std::string &archive = "") const {
    LogSource source(folder_.path(), archive, rig_.identity());
    EXPECT_EQ(source.open(), Errc::kOk);
    LogReader reader(&source, from, LogReader::Depth::kWhole);
    Reading reading;
    RecordView record;
    while ((reading.error = reader.next(&record)) == Errc::kOk && record.at != nullptr) {
      ++reading.records;
      if (record.kind() == RecordKind::kCommit) ++reading.commits;
    }
    if (reading.error != Errc::kOk) {
      reading.detail = platform::failure_detail();
      EXPECT_EQ(reader.next(&record), reading.error) << "an error stays";
    }
    reading.end = reader.end();
    reading.torn = reader.tail_is_torn();
    reading.generation = reader.generation();
    reading.generation_max = reader.generation_max();
    return reading;
  }
  void commit_some(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      rig_.commit({{0, i % LogRig::kPages, static_cast<std::uint32_t>(i % 512), i + 1}});
  }
  // About `bytes` of log in one record.
  void commit_large(std::size_t bytes) {
    std::vector<LogRig::Write> writes;
    for (std::size_t i = 0; i < bytes / 8; ++i)
      writes.push_back({static_cast<std::uint32_t>(i / 4096), i / 512 % 8,
                        static_cast<std::uint32_t>(i % 512), i});
    rig_.commit(writes);
  }
  void fill_file() {
    const std::uint64_t file = rig_.end() / LogRig::kFileBytes;
    while (rig_.end() / LogRig::kFileBytes == file) commit_large(30'000);
  }
  void flip(Lsn at) const {
    const std::string path = rig_.log_path(at / LogRig::kFileBytes);
    const std::string byte = read_file(path).substr(at % LogRig::kFileBytes, 1);
    patch_file(path, at % LogRig::kFileBytes, std::string(1, static_cast<char>(byte[0] ^ 4)));
  }
  void expect_damage(const Reading &reading, Errc error, Lsn at) const {
    EXPECT_EQ(reading.error, error) << reading.detail;
    const std::uint64_t file = at / LogRig::kFileBytes;
    EXPECT_NE(reading.detail.find(log_file_name(file)), std::string::npos) << reading.detail;
    EXPECT_NE(reading.detail.find("LSN " + std::to_string(at)), std::string::npos)
        << reading.detail;
    EXPECT_NE(reading.detail.find("offset " + std::to_string(at % LogRig::kFileBytes)),
              std::string::npos)
        << reading.detail;
  }
  // Writes raw bytes as a record at the log's end, by the rig's fields.
  void put(RecordHeaderV1 header, Lsn at) const {
    std::array<std::byte, 256> buffer{};
    RecordBuilder builder(buffer.data(), buffer.size());
    std::array<std::uint8_t, 64> masks{};
    std::array<std::byte, 4096> page{};
    masks[0] = 1;
    ASSERT_TRUE(builder.add(page_id(0, PageIndex{0}), 1, masks.data(), page.data()));
    header.lsn = at;
    if (header.kind == 1 && header.total_bytes == 0) header.total_bytes = builder.bytes();
    const std::size_t bytes = builder.finish(header);
    patch_file(rig_.log_path(at / LogRig::kFileBytes), at % LogRig::kFileBytes,
               std::string(reinterpret_cast<const char *>(buffer.data()), bytes));
  }
  [[nodiscard]] RecordHeaderV1 next_commit() const {
    RecordHeaderV1 header{};
    header.kind = 1;
    header.generation = rig_.generation();
    header.stamp = rig_.transactions().empty() ? 2 : rig_.transactions().back().stamp + 1;
    return header;
  }

  MemoryFolder folder_;
  LogRig rig_{folder_.path()};
};

TEST_F(LogReaderTest, ReadsTransactionsAndTheirPartsAcrossFiles) {
  commit_some(5);
  rig_.commit({{0, 1, 1, 1}, {0, 2, 2, 2}, {1, 3, 3, 3}, {1, 4, 4, 4}}, 64);
  fill_file();
  fill_file();
  commit_some(3);
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, rig_.transactions().size());
  EXPECT_EQ(reading.records, rig_.records().size());
  EXPECT_EQ(reading.end, rig_.end());
  EXPECT_FALSE(reading.torn);
}

// Every remainder of a file: with room for a kFileEnd record, without, and none at all.
TEST_F(LogReaderTest, FilesEndAtEveryRemainder) {
  for (std::uint64_t rest = 0; rest <= 160; rest += 8) {
    fill_file();
    const std::uint64_t file_end = (rig_.end() / LogRig::kFileBytes + 1) * LogRig::kFileBytes;
    while (file_end - rig_.end() > 60'000) commit_large(20'000);
    // A commit of n words of one page, in whole lines: 64 + 16 + round_up_8(n / 8) + 8 n bytes.
    while (file_end - rig_.end() > rest + 512) rig_.commit({{0, 0, 0, rest}, {0, 0, 1, rest}});
    const std::uint64_t wanted = file_end - rest - rig_.end();
    std::vector<LogRig::Write> writes;
    for (std::uint32_t word = 0; writes.empty() || 64 + 16 + 8 + 8 * writes.size() < wanted; ++word)
      writes.push_back({0, 1, word, word});
    if (64 + 16 + 8 + 8 * writes.size() != wanted || writes.size() > 64) continue;
    rig_.commit(writes);
    ASSERT_EQ(file_end - rig_.end(), rest);
    commit_large(1000);
    ASSERT_GE(rig_.end(), file_end + 4096);
  }
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, rig_.transactions().size());
  EXPECT_EQ(reading.end, rig_.end());
}

TEST_F(LogReaderTest, UnacknowledgedTailIsCutSilently) {
  commit_some(3);
  rig_.sync();
  commit_some(3);
  const Lsn torn = rig_.transactions()[4].begin;
  flip(torn + 70);
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, 4U);
  EXPECT_EQ(reading.end, torn);
  EXPECT_TRUE(reading.torn);
}

TEST_F(LogReaderTest, LaterRecordThatWasWrittenWhenTheTornOneWasDurableProvesDamage) {
  commit_some(5);
  rig_.sync();
  commit_some(1);
  const Lsn damaged = rig_.transactions()[2].begin;
  flip(damaged + 66);
  expect_damage(read(), Errc::kLogDamaged, damaged);
}

TEST_F(LogReaderTest, ProofMayLieInALaterFile) {
  commit_some(2);
  const Lsn damaged = rig_.transactions()[1].begin;
  fill_file();
  rig_.sync();
  fill_file();
  flip(damaged + 8);
  expect_damage(read(), Errc::kLogDamaged, damaged);
}

TEST_F(LogReaderTest, CheckpointsDurableLsnProvesDamage) {
  commit_some(4);
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  CheckpointV1 from = file.current();
  const Lsn last = rig_.transactions()[3].begin;
  flip(last + 64);
  from.durable_lsn = last;
  EXPECT_EQ(read_from(from).error, Errc::kOk);
  from.durable_lsn = rig_.end();
  expect_damage(read_from(from), Errc::kLogDamaged, last);
}

TEST_F(LogReaderTest, MissingFileIsTheEndUnlessALaterOneExists) {
  commit_some(1);
  fill_file();
  const std::size_t in_first = rig_.count_before(LogRig::kFileBytes);
  fs::remove(rig_.log_path(1));
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, in_first);
  EXPECT_EQ(reading.end, LogRig::kFileBytes) << "a kFileEnd record is the end of its file";
  ASSERT_EQ(create_log_file(folder_.path(), rig_.identity(), 2), Errc::kOk);
  expect_damage(read(), Errc::kLogMissing, LogRig::kFileBytes + 4096);
}

TEST_F(LogReaderTest, MissingFileThatWasDurableIsAnError) {
  fill_file();
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  CheckpointV1 from = file.current();
  from.durable_lsn = rig_.end();
  fs::remove(rig_.log_path(1));
  expect_damage(read_from(from), Errc::kLogMissing, LogRig::kFileBytes + 4096);
  fs::remove(rig_.log_path(0));
  expect_damage(read_from(from), Errc::kLogMissing, from.lsn);
}

// The only file: no later one exists, and with nothing read no record says that the log was durable
// beyond.
TEST_F(LogReaderTest, MissingFileThatTheCheckpointPromisesIsAnError) {
  const auto without_files = [this] {
    const auto files = rig_.snapshot();
    for (std::uint64_t i = 0; i < 3; ++i) fs::remove(rig_.log_path(i));
    Reading reading = read();
    rig_.restore(files);
    return reading;
  };
  expect_damage(without_files(), Errc::kLogMissing, kFirstLsn);  // its opening record was durable
  commit_some(3);
  rig_.checkpoint(true);
  EXPECT_EQ(without_files().error, Errc::kOk) << "closed cleanly: no log is needed";
  RecoveryReport report;
  ASSERT_EQ(rig_.recover_only(&report), Errc::kOk);
  EXPECT_EQ(without_files().error, Errc::kOk)
      << "nobody has committed: the opening record is not written";
  ASSERT_EQ(rig_.recover(&report), Errc::kOk);
  expect_damage(without_files(), Errc::kLogMissing, report.next_lsn);
  commit_some(3);
  rig_.checkpoint();
  expect_damage(without_files(), Errc::kLogMissing, rig_.end());
}

TEST_F(LogReaderTest, MissingFileBehindAFullOneIsPromisedByACheckpointAtItsEnd) {
  fill_file();
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  CheckpointV1 from = file.current();
  from.lsn = from.durable_lsn = LogRig::kFileBytes;
  fs::remove(rig_.log_path(1));
  expect_damage(read_from(from), Errc::kLogMissing, LogRig::kFileBytes + 4096);
  from.is_clean = 1;
  EXPECT_EQ(read_from(from).error, Errc::kOk);
}

TEST_F(LogReaderTest, CutFileIsTheEndOrMissing) {
  commit_some(6);
  const Lsn at = rig_.transactions()[3].begin;
  fs::resize_file(rig_.log_path(0), at + 16);
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, 3U);
  EXPECT_TRUE(reading.torn);
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  CheckpointV1 from = file.current();
  from.durable_lsn = rig_.end();
  expect_damage(read_from(from), Errc::kLogMissing, at);
}

TEST_F(LogReaderTest, FilesOfAnArchiveAreRead) {
  const MemoryFolder archive;
  fill_file();
  fill_file();
  commit_some(2);
  ASSERT_EQ(archive_log_file(folder_.path(), archive.path(), 0), Errc::kOk);
  ASSERT_EQ(archive_log_file(folder_.path(), archive.path(), 1), Errc::kOk);
  EXPECT_EQ(read().error, Errc::kLogMissing);
  const Reading reading = read(archive.path());
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, rig_.transactions().size());
}

TEST_F(LogReaderTest, WrongFileHeaderIsDamageWhereTheFileHoldsSomething) {
  commit_some(2);
  flip(100);
  expect_damage(read(), Errc::kLogDamaged, 4096);
  flip(100);
  fill_file();  // file 1: one record, nothing that proves it durable
  flip(LogRig::kFileBytes + 3000);
  expect_damage(read(), Errc::kLogDamaged, LogRig::kFileBytes + 4096);
}

TEST_F(LogReaderTest, WrongHeaderOfAnEmptyFileIsAnEnd) {
  while (rig_.end() + 60'000 < LogRig::kFileBytes) commit_large(20'000);
  ASSERT_EQ(create_log_file(folder_.path(), rig_.identity(), 1), Errc::kOk);
  flip(LogRig::kFileBytes + 3000);
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, rig_.transactions().size());
}

TEST_F(LogReaderTest, FilesOfOtherDomainsAndVersionsAreRefused) {
  commit_some(2);
  LogFileHeaderV1 header = make_log_file_header({{7, 8}, LogRig::kFileBytes}, 0);
  patch_file(rig_.log_path(0), 0, {reinterpret_cast<const char *>(&header), sizeof header});
  EXPECT_EQ(read().error, Errc::kNotADomain);
  header = make_log_file_header(rig_.identity(), 0);
  header.format_version = kLogVersion + 1;
  header.crc = 0;
  const std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  patch_file(rig_.log_path(0), 0, bytes);
  EXPECT_EQ(read().error, Errc::kLogDamaged) << "without a right checksum it is damage";
}

TEST_F(LogReaderTest, RecordsOutOfOrderAreNotValid) {
  commit_some(2);
  const Lsn end = rig_.end();
  const auto commits_with = [&](const std::function<void(RecordHeaderV1 &)> &change) {
    RecordHeaderV1 header = next_commit();
    change(header);
    put(header, end);
    const Reading reading = read();
    EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
    return reading.commits;
  };
  EXPECT_EQ(commits_with([](RecordHeaderV1 &) {}), 3U);
  EXPECT_EQ(commits_with([](RecordHeaderV1 &h) { h.stamp += 5; }), 3U) << "stamps may leave gaps";
  EXPECT_EQ(commits_with([](RecordHeaderV1 &h) { h.stamp -= 1; }), 2U)
      << "the stamp of the one before";
  EXPECT_EQ(commits_with([](RecordHeaderV1 &h) { h.stamp = 0; }), 2U);
  EXPECT_EQ(commits_with([](RecordHeaderV1 &h) { h.generation += 1; }), 2U);
  EXPECT_EQ(commits_with([](RecordHeaderV1 &h) { h.generation -= 1; }), 2U);
  EXPECT_EQ(commits_with([](RecordHeaderV1 &h) { h.part = 1; }), 2U) << "its part is missing";
  EXPECT_EQ(commits_with([](RecordHeaderV1 &h) { h.total_bytes = 4096; }), 2U);
}

TEST_F(LogReaderTest, TransactionWithoutItsCommitIsATornTail) {
  commit_some(2);
  const Lsn end = rig_.end();
  rig_.append_orphan({{0, 0, 0, 1}});
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, 2U);
  EXPECT_EQ(reading.records, 4U);
  EXPECT_GT(reading.end, end);
  EXPECT_TRUE(reading.torn);
}

TEST_F(LogReaderTest, LaterGenerationIsFollowed) {
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  const CheckpointV1 from = file.current();
  commit_some(3);
  RecoveryReport report;
  ASSERT_EQ(rig_.recover(&report), Errc::kOk);
  ASSERT_EQ(rig_.recover(&report), Errc::kOk) << "a generation without a transaction";
  ASSERT_EQ(rig_.recover_only(&report), Errc::kOk) << "and one without its first record";
  ASSERT_EQ(rig_.recover(&report), Errc::kOk);
  commit_some(2);
  const Reading reading = read_from(from);
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, 5U);
  EXPECT_EQ(reading.generation, rig_.generation());
}

// An older checkpoint says that it was durable, and a point in front of it was restored.
TEST_F(LogReaderTest, WhatWasDurableMayHaveBeenUndone) {
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  CheckpointV1 from = file.current();
  commit_some(100);
  rig_.sync();
  from.durable_lsn = rig_.durable();
  RecoveryOptions until;
  until.until_lsn = rig_.transactions()[0].end;
  RecoveryReport report;
  ASSERT_EQ(rig_.recover(&report, until), Errc::kOk);
  ASSERT_LT(rig_.end(), from.durable_lsn);
  const Reading reading = read_from(from);
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.generation, rig_.generation());
}

// The first generation's last record is damaged, and the record that opens the second says that it
// was valid.
TEST_F(LogReaderTest, OpeningRecordProvesWhereItsPredecessorEnded) {
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  const CheckpointV1 from = file.current();
  commit_some(3);
  RecoveryReport report;
  ASSERT_EQ(rig_.recover(&report), Errc::kOk);
  commit_some(2);
  const Lsn damaged = rig_.transactions()[2].begin;
  flip(damaged + 70);
  expect_damage(read_from(from), Errc::kLogDamaged, damaged);
}

// The opening record itself is damaged, records of its generation follow: read from an older
// checkpoint they must not be lost.
TEST_F(LogReaderTest, LostOpeningRecordIsDamage) {
  CheckpointFile file;
  ASSERT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
  const CheckpointV1 from = file.current();
  commit_some(3);
  RecoveryReport report;
  ASSERT_EQ(rig_.recover(&report), Errc::kOk);
  commit_some(2);
  rig_.sync();
  commit_some(1);
  flip(report.next_lsn + 20);
  const Reading reading = read_from(from);
  EXPECT_EQ(reading.error, Errc::kLogDamaged) << reading.detail;
  EXPECT_EQ(reading.generation_max, rig_.generation());
}

TEST_F(LogReaderTest, RecordsOfAnEarlierGenerationBehindTheTailCountForNothing) {
  commit_some(40);
  flip(rig_.transactions()[1].begin + 70);  // all behind it are whole, and of generation 1
  RecoveryReport report;
  ASSERT_EQ(rig_.recover(&report), Errc::kOk);
  EXPECT_EQ(report.transactions, 1U);
  rig_.keep(1);
  rig_.commit({{0, 0, 0, 77}});
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, 1U);
  EXPECT_EQ(reading.end, rig_.end());
}

TEST_F(LogReaderTest, PlantedDefectsAreDefects) {
  RecoveryReport report;
  ASSERT_EQ(rig_.recover(&report), Errc::kOk);
  commit_some(3);
  RecordHeaderV1 header = next_commit();
  header.generation -= 1;
  put(header, rig_.end());
  EXPECT_EQ(read().commits, 3U);
  observe::plant(observe::Planted::kNoGeneration);
  EXPECT_EQ(read().commits, 4U);
  observe::plant(observe::Planted::kNone);
  flip(rig_.transactions()[1].begin);  // its CRC
  EXPECT_EQ(read().commits, 1U);
  observe::plant(observe::Planted::kNoChecksum);
  EXPECT_EQ(read().commits, 3U);
}

// Whatever the user stores: a transaction that stores a copy of the log's own records.
TEST_F(LogReaderTest, StoredCopiesOfRecordsAreNoRecords) {
  commit_some(3);
  rig_.sync();
  const std::string log = read_file(rig_.log_path(0)).substr(4096, 4096);
  std::vector<LogRig::Write> writes;
  for (std::uint32_t word = 0; word < 512; ++word) {
    std::uint64_t value = 0;
    std::memcpy(&value, log.data() + 8 * word, 8);
    writes.push_back({0, 3, word, value});
  }
  rig_.commit(writes);
  flip(rig_.transactions()[3].begin + 70);
  const Reading reading = read();
  EXPECT_EQ(reading.error, Errc::kOk) << reading.detail;
  EXPECT_EQ(reading.commits, 3U);
}

}  // namespace
}  // namespace tmh::test
