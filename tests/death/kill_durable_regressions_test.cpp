// tests/death/kill_durable_regressions_test.cpp -- defects that a review found in durable domains:
// deaths, power cuts and slow readers.
// Invariants: (1) a checkpoint starts behind a commit only when all of its lines are home, also
//                 those that were folded into a later version,
//             (2) a log writer that dies between counting its point and telling of it keeps nobody
//                 waiting,
//             (3) whatever part of the control file a power cut leaves old, the domain opens; a
//                 segment and a size that others see are on disk,
//             (4) a backup taken while segments are made and grown opens; it may lie on another
//                 device,
//             (5) data that could not be synced keeps the log that holds it, whoever was told,
//             (6) who waits for another's checkpoint lock still makes commits durable,
//             (7) a process that cannot open the log file keeps nobody else from committing,
//             (8) a record of a file's end fits the writer's buffer, however full that is,
//             (9) a strict end that waits while another thread closes returns, no crash,
//             (10) a segment whose maker died before it told the others is known to them once
//                  somebody maps it,
//             (11) the names of a new domain's folder and control file are on disk before anything
//                  is acknowledged, whoever made them.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "platform/disk.h"
#include "storage/control.h"
#include "storage/log/log_files.h"
#include "storage/log/log_format.h"
#include "storage/log/log_reader.h"
#include "storage/log/log_source.h"
#include "storage/log/log_writer.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/forker.h"
#include "tests/support/process_state.h"
#include "tests/support/sanitizers.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using platform::DiskEvent;
using platform::DiskOp;
using storage::PageId;

DomainOptions durable(Durability durability = Durability::kStrict) {
  DomainOptions options;
  options.durability = durability;
  options.log_file_bytes = storage::kLogFileBytesMin;
  return options;
}

SegmentOptions raw(std::uint64_t pages) {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = pages * kPageBytes;
  options.max_bytes = 64 * pages * kPageBytes;
  return options;
}

std::uint64_t &word(const Segment &segment, std::uint64_t page, std::uint64_t line = 0) {
  return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes + line * kLineBytes);
}

class DurableRegressionsTest : public testing::Test {
 protected:
  void TearDown() override { platform::set_disk_hook(nullptr); }
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  MemoryFolder folder_;
};

// Every commit stores to one line of all pages, so each version is folded into the next, and only
// the last ones name a commit behind the points that were passed.
TEST_F(DurableRegressionsTest, ACheckpointUnderAReaderWaitsForWhatWasFolded) {
  constexpr std::uint64_t kPages = 64, kRounds = 60;
  const Shared<Turn> turn;
  Children children;
  const std::size_t reader = children.spawn("reader", [&] {
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(kPages));
    domain.begin_query();
    EXPECT_EQ(word(segment, 0), 0u);
    turn->reach(1);
    turn->await(2);
    die_unless_failed();
  });
  const std::size_t writer = children.spawn("writer", [&] {
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(kPages));
    turn->await(1);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page)
          for (std::uint64_t at = 0; at < 8; ++at) (&word(segment, page, round))[at] = round;
      });
      if (round % 20 == 0) domain.checkpoint();
    }
    die_unless_failed();
  });
  EXPECT_EQ(children.wait(writer).signal, SIGKILL);
  turn->reach(2);
  EXPECT_EQ(children.wait(reader).signal, SIGKILL);
  lose_shared_memory(domain());
  const Domain domain = Domain::open(this->domain());
  const Segment segment = domain.map("a.db", raw(kPages));
  query(domain, [&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round)
      ASSERT_EQ(word(segment, 7, round), round);
  });
}

TEST_F(DurableRegressionsTest, AWriterThatDiesBehindItsPointKeepsNobodyWaiting) {
  const Shared<Turn> turn;
  Children children;
  const std::size_t survivor = children.spawn("survivor", [&] {
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(1));
    turn->reach(1);
    turn->await(2);
    domain.flush();
    EXPECT_EQ(query(domain, [&] { return word(segment, 0); }), 1u);
  });
  const std::size_t victim = children.spawn("victim", [&] {
    turn->await(1);
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(1));
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kLogPointCounted), 1);
    atomically(domain, [&] { word(segment, 0) = 1; });
  });
  EXPECT_EQ(children.wait(victim).signal, SIGKILL);
  turn->reach(2);
  EXPECT_TRUE(children.wait(survivor).succeeded());
}

// The control file as it is on disk, and every state in which a power cut during the next sync
// could leave it: some of the changed sectors are new. (The first and the last ones are tried,
// alone and with all others.)
struct ControlWatch {
  std::string path;
  std::string on_disk;
  std::vector<std::string> wrong;
  int syncs = 0;
  ~ControlWatch() { platform::set_disk_hook(nullptr); }  // the domain closes later
};
ControlWatch *control_watch = nullptr;

std::string read_whole(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int watch_control(const DiskEvent &event) {
  constexpr std::size_t kSectorBytes = 512;
  ControlWatch &watch = *control_watch;
  if ((event.op != DiskOp::kSync && event.op != DiskOp::kSyncDone) || event.path != watch.path)
    return 0;
  const std::string now = read_whole(watch.path);
  if (event.op == DiskOp::kSyncDone) {
    ++watch.syncs;
    watch.on_disk = now;
    return 0;
  }
  const auto judge = [&watch](const std::string &left, std::size_t sector) {
    std::string why;
    if (storage::verify_control(left.data(), left.size(), &why) != Errc::kOk)
      watch.wrong.push_back(why + ", sector " + std::to_string(sector));
  };
  for (std::size_t at = 0; at + kSectorBytes <= now.size(); at += kSectorBytes) {
    if (now.compare(at, kSectorBytes, watch.on_disk, at, kSectorBytes) == 0) continue;
    std::string alone = watch.on_disk, others = now;
    alone.replace(at, kSectorBytes, now, at, kSectorBytes);
    others.replace(at, kSectorBytes, watch.on_disk, at, kSectorBytes);
    judge(alone, at / kSectorBytes);
    judge(others, at / kSectorBytes);
  }
  const auto *seen = reinterpret_cast<const storage::ControlFile *>(now.data());
  const auto *kept = reinterpret_cast<const storage::ControlFile *>(watch.on_disk.data());
  for (std::size_t i = 0; i < storage::kSegmentsMax; ++i) {
    if (storage::is_used(kept->segments[i]) &&
        seen->segments[i].size_bytes >
            std::max(kept->segments[i].size_bytes, storage::promised_size(kept->segments[i])))
      watch.wrong.push_back("a size that is not on disk is there for all to see");
  }
  return 0;
}

TEST_F(DurableRegressionsTest, APowerCutLeavesAControlFileThatOpens) {
  const Domain domain = Domain::open(this->domain(), durable());
  ControlWatch watch{domain.folder() + "/tmh.control", {}, {}, 0};
  watch.on_disk = read_whole(watch.path);
  control_watch = &watch;
  platform::set_disk_hook(watch_control);
  const Segment first = domain.map("a.db", raw(4));
  const Segment second = domain.map("b.db", raw(4));
  first.grow(8 * kPageBytes);
  second.grow(16 * kPageBytes);
  platform::set_disk_hook(nullptr);
  EXPECT_GE(watch.syncs, 4);
  for (const std::string &why : watch.wrong) ADD_FAILURE() << why;
  const auto *kept = reinterpret_cast<const storage::ControlFile *>(watch.on_disk.data());
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(storage::promised_size(kept->segments[i]), (i + 1) * 8 * kPageBytes)
        << "the size that segment " << i << " has grown to";
}

template <std::size_t kNumber>
int die_at_record_sync(const DiskEvent &event) {
  if (event.op != DiskOp::kSync || !std::string_view(event.path).ends_with("/tmh.control"))
    return 0;
  const std::string now = read_whole(event.path);
  if (storage::is_used(
          reinterpret_cast<const storage::ControlFile *>(now.data())->segments[kNumber]))
    raise(SIGKILL);
  return 0;
}

TEST_F(DurableRegressionsTest, ASegmentThatADeadProcessMadeIsOnDiskBeforeItIsUsed) {
  const Domain domain = Domain::open(this->domain(), durable());
  EXPECT_EQ(run_in_child("maker",
                         [&] {
                           const Domain other = Domain::open(this->domain(), durable());
                           platform::set_disk_hook(die_at_record_sync<0>);
                           (void)other.map("a.db", raw(4));
                         })
                .signal,
            SIGKILL);
  ControlWatch watch{domain.folder() + "/tmh.control", {}, {}, 0};
  watch.on_disk = read_whole(watch.path);
  control_watch = &watch;
  platform::set_disk_hook(watch_control);
  const Segment segment = domain.map("a.db", raw(4));
  EXPECT_GE(watch.syncs, 1);
  atomically(domain, [&] { word(segment, 3) = 3; });
}

// Its maker died before it told of it; whoever used it died, too, and left a commit that is not
// home.
TEST_F(DurableRegressionsTest, ASegmentThatADeadProcessMadeKeepsNoCheckpointWaiting) {
  const Domain domain = Domain::open(this->domain(), durable());
  const Segment own = domain.map("own.db", raw(4));
  EXPECT_EQ(run_in_child("maker",
                         [&] {
                           const Domain other = Domain::open(this->domain(), durable());
                           platform::set_disk_hook(die_at_record_sync<1>);
                           (void)other.map("a.db", raw(4));
                         })
                .signal,
            SIGKILL);
  EXPECT_EQ(run_in_child("user",
                         [&] {
                           const Domain other = Domain::open(this->domain(), durable());
                           const Segment segment = other.map("a.db", raw(4));
                           atomically(other, [&] { word(segment, 3) = 3; });
                           die_unless_failed();
                         })
                .signal,
            SIGKILL);
  atomically(domain, [&] { word(own, 0) = 1; });
  const std::uint64_t before = domain.counters().checkpoints;
  domain.checkpoint();
  EXPECT_GT(domain.counters().checkpoints, before);
}

int control_syncs = 0;
int count_control_syncs(const DiskEvent &event) {
  control_syncs +=
      event.op == DiskOp::kSyncDone && std::string_view(event.path).ends_with("/tmh.control") ? 1
                                                                                              : 0;
  return 0;
}

// The ones before may have closed because they could not sync it; what it says is relied on from
// here on.
TEST_F(DurableRegressionsTest, TheControlFileIsSyncedByWhoeverComesFirst) {
  Domain::open(this->domain(), durable()).close();
  control_syncs = 0;
  platform::set_disk_hook(count_control_syncs);
  const Domain domain = Domain::open(this->domain(), durable());
  platform::set_disk_hook(nullptr);
  EXPECT_GE(control_syncs, 1);
}

struct RecordWatch {
  storage::Lsn durable = 0;  // before the write that comes
  std::uint64_t records = 0, wrong = 0;
};
RecordWatch *record_watch = nullptr;
int watch_records(const DiskEvent &event) {
  RecordWatch &watch = *record_watch;
  if (event.op != DiskOp::kWriteDurable || std::strstr(event.path, "/tmh.log.") == nullptr)
    return 0;
  const auto *const data = static_cast<const std::byte *>(event.data);
  storage::Lsn end = 0;
  storage::RecordHeaderV1 header{};
  // The first block may begin within a record; what follows it there does so at some multiple of 8.
  for (std::uint64_t at = 0; at + sizeof header <= event.bytes;
       at += end == 0 ? 8 : header.length) {
    std::memcpy(&header, data + at, sizeof header);
    const bool is_record = header.length >= sizeof header &&
                           header.lsn % storage::kLogFileBytesMin == event.offset + at;
    if (!is_record && end != 0) break;
    if (!is_record) continue;
    end = header.lsn + header.length;
    if (header.lsn < watch.durable) continue;  // written again with its block
    if (watch.durable == 0) continue;          // not known before the first one
    ++watch.records;
    watch.wrong += header.durable_before > watch.durable ? 1 : 0;
  }
  watch.durable = std::max(watch.durable, end);
  return 0;
}

// Of a write that is cut its later records may be there without its first one: that is no damage.
TEST_F(DurableRegressionsTest, RecordsClaimNothingOfTheWriteThatTheyAreIn) {
  DomainOptions options = durable(Durability::kBuffered);
  options.flush_interval_ms = 3'600'000;
  options.checkpoint_interval_ms = 3'600'000;
  const Domain domain = Domain::open(this->domain(), options);
  const Segment segment = domain.map("a.db", raw(4));
  RecordWatch watch;
  record_watch = &watch;
  platform::set_disk_hook(watch_records);
  for (std::uint64_t round = 0; round < 4; ++round) {
    for (std::uint64_t i = 1; i <= 10; ++i)
      atomically(domain, [&] { word(segment, i % 4) = 100 * round + i; });
    domain.flush();
  }
  platform::set_disk_hook(nullptr);
  EXPECT_GE(watch.records, 30U);
  EXPECT_EQ(watch.wrong, 0U);
}

std::vector<std::string> *synced_folders = nullptr;
int note_synced_folders(const DiskEvent &event) {
  if (event.op == DiskOp::kFolderSyncDone) synced_folders->emplace_back(event.path);
  return 0;
}
int die_at_folder_sync(const DiskEvent &event) {
  if (event.op == DiskOp::kFolderSync) raise(SIGKILL);
  return 0;
}

TEST_F(DurableRegressionsTest, TheFolderOfADomainWhoseMakerDiedIsOnDisk) {
  EXPECT_EQ(run_in_child("maker",
                         [&] {
                           platform::set_disk_hook(die_at_folder_sync);
                           (void)Domain::open(this->domain(), durable());
                         })
                .signal,
            SIGKILL);
  std::vector<std::string> synced;
  synced_folders = &synced;
  platform::set_disk_hook(note_synced_folders);
  const Domain domain = Domain::open(this->domain(), durable());
  platform::set_disk_hook(nullptr);
  for (const std::string &folder : {domain.folder(), domain.folder() + "/.."})
    EXPECT_NE(std::find(synced.begin(), synced.end(), folder), synced.end()) << folder;
}

TEST_F(DurableRegressionsTest, ABackupOpensThoughSegmentsAreMadeMeanwhile) {
  const Shared<std::atomic<std::uint64_t>> made;
  const Shared<std::atomic<bool>> stop;
  Children children;
  children.spawn("maker", [&] {
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment grown = domain.map("grown.db", raw(64));
    for (std::uint64_t i = 1; i <= 200 && !stop->load(); ++i) {
      const Segment segment = domain.map("s" + std::to_string(i) + ".db", raw(1));
      grown.grow((64 + i) * kPageBytes);
      atomically(domain, [&] { word(segment, 0) = word(grown, 63 + i) = word(grown, 0) = i; });
      made->store(i);
    }
  });
  const auto folder_of = [&](std::uint64_t copy) {
    return folder_ / ("copy" + std::to_string(copy));
  };
  const Shared<std::uint64_t> copy;
  Forker forker({[&] {
    expect_child("opener", [&] {
      const Domain restored = Domain::open(folder_of(*copy));
      const Segment grown = restored.map("grown.db", raw(64));
      const std::uint64_t last = query(restored, [&] { return word(grown, 0); });
      EXPECT_GE(last, 10 * *copy + 1);
      for (std::uint64_t i = 1; i <= last; ++i) {
        const Segment segment = restored.map("s" + std::to_string(i) + ".db", raw(1));
        EXPECT_EQ(query(restored, [&] { return word(segment, 0); }), i);
      }
    });
  }});
  Domain domain = Domain::open(this->domain(), durable());
  for (*copy = 0; *copy < 4; ++*copy) {
    EXPECT_TRUE(poll_until([&] { return made->load() >= 10 * *copy + 1; }));
    domain.backup(folder_of(*copy));
    forker.run(0);
  }
  stop->store(true);
  forker.expect_success();
  children.expect_success();
}

TEST_F(DurableRegressionsTest, ABackupMayLieOnAnotherDevice) {
  char place[] = "/dev/shm/tmh-backup-XXXXXX";
  if (mkdtemp(place) == nullptr) GTEST_SKIP() << "no /dev/shm";
  const std::string folder = std::string(place) + "/copy";
  {
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(4));
    atomically(domain, [&] { word(segment, 3) = 3; });
    std::error_code ec;
    try {
      domain.backup(folder);
    } catch (const Error &error) {
      ADD_FAILURE() << error.what();
    }
  }
  if (!HasFailure()) {
    const Domain restored = Domain::open(folder);
    const Segment segment = restored.map("a.db", raw(4));
    EXPECT_EQ(query(restored, [&] { return word(segment, 3); }), 3u);
  }
  std::filesystem::remove_all(place);
}

int data_syncs_to_fail = 0;
int fail_data_sync(const DiskEvent &event) {
  if (event.op != DiskOp::kSync || !std::string_view(event.path).ends_with("/a.db")) return 0;
  return data_syncs_to_fail-- > 0 ? EIO : 0;
}

// After a failed write-back the kernel takes the pages for clean: the next fdatasync succeeds, and
// says nothing about them.
TEST_F(DurableRegressionsTest, DataThatCouldNotBeSyncedKeepsItsLog) {
  const ChildEnd end = run_in_child("writer", [&] {
    DomainOptions options = durable();
    options.checkpoint_interval_ms = 3'600'000;
    const Domain domain = Domain::open(this->domain(), options);
    const Segment segment = domain.map("a.db", raw(4));
    for (std::uint64_t i = 1; i <= 10; ++i) atomically(domain, [&] { word(segment, i % 4) = i; });
    data_syncs_to_fail = 1;
    platform::set_disk_hook(fail_data_sync);
    EXPECT_THROW(domain.checkpoint(), Error);
    EXPECT_THROW(domain.checkpoint(), Error);
    atomically(domain, [&] { word(segment, 0) = 11; });
    die_unless_failed();
  });
  EXPECT_EQ(end.signal, SIGKILL);
  lose_shared_memory(domain());
  const Domain domain = Domain::open(this->domain());
  EXPECT_EQ(domain.recovery().transactions, 11u);
}

// Two segments in one file: making the second one syncs what was committed to the first, and is
// told that it failed.
TEST_F(DurableRegressionsTest, DataThatANewSegmentCouldNotSyncKeepsItsLog) {
  const ChildEnd end = run_in_child("writer", [&] {
    DomainOptions options = durable();
    options.checkpoint_interval_ms = 3'600'000;
    const Domain domain = Domain::open(this->domain(), options);
    SegmentOptions first = raw(4), second = raw(4);
    first.max_bytes = second.offset_bytes = 4 * kPageBytes;
    const Segment segment = domain.map("a.db", first);
    for (std::uint64_t i = 1; i <= 10; ++i) atomically(domain, [&] { word(segment, i % 4) = i; });
    data_syncs_to_fail = 1;
    platform::set_disk_hook(fail_data_sync);
    EXPECT_THROW((void)domain.map("a.db", second), Error);
    EXPECT_THROW(domain.checkpoint(), Error);
    die_unless_failed();
  });
  EXPECT_EQ(end.signal, SIGKILL);
  lose_shared_memory(domain());
  const Domain domain = Domain::open(this->domain());
  EXPECT_EQ(domain.recovery().transactions, 10u);
}

TEST_F(DurableRegressionsTest, AStoppedCheckpointKeepsNobodyElsesCommitsWaiting) {
  Children children;
  const Shared<Turn> turn;
  const std::size_t stopped = children.spawn("stopped", [&] {
    const Domain domain = Domain::open(this->domain(), durable(Durability::kBuffered));
    const Segment segment = domain.map("a.db", raw(4));
    atomically(domain, [&] { word(segment, 0) = 1; });
    observe::set_step_hook([](observe::Step step) {
      if (step == observe::Step::kCheckpointStart) raise(SIGSTOP);
    });
    turn->reach(1);
    domain.checkpoint();
  });
  const std::size_t other = children.spawn("other", [&] {
    turn->await(1);
    DomainOptions options = durable(Durability::kBuffered);
    options.checkpoint_interval_ms = 10;
    options.flush_interval_ms = 10;
    Domain domain = Domain::open(this->domain(), options);
    const Segment segment = domain.map("a.db", raw(4));
    turn->await(2);
    for (std::uint64_t i = 1; i <= 20; ++i) {
      const std::uint64_t before = domain.counters().log_commits;
      atomically(domain, [&] { word(segment, 1) = i; });
      EXPECT_TRUE(
          poll_until([&] { return domain.counters().log_commits > before; }, hang_deadline() / 4));
      if (testing::Test::HasFailure()) _exit(1);
    }
    domain.close();
  });
  turn->await(1);
  EXPECT_TRUE(poll_until([&] {
    std::string line;
    std::ifstream stat("/proc/" + std::to_string(children.pid(stopped)) + "/stat");
    std::getline(stat, line);
    return line.find(") T ") != std::string::npos;
  }));
  turn->reach(2);
  EXPECT_TRUE(children.wait(other).succeeded());
  children.bury(stopped);
}

TEST_F(DurableRegressionsTest, AProcessWithoutDescriptorsStopsNobodyElse) {
  if (const std::string why = why_descriptors_must_stay(); !why.empty()) GTEST_SKIP() << why;
  const Domain domain = Domain::open(this->domain(), durable());
  const Segment segment = domain.map("a.db", raw(4));
  expect_child("without descriptors", [&] {
    const Domain poor = Domain::open(this->domain(), durable());
    const Segment there = poor.map("a.db", raw(4));
    // The first commit needs a descriptor for the control file; buffered, it leaves the log to be
    // opened.
    poor.begin();
    word(there, 3) = 1;
    EXPECT_EQ(poor.end(Durability::kBuffered), Status::kCommitted);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &limit);
    try {
      // On a slow machine the housekeeper has opened the log: no error.
      atomically(poor, [&] { word(there, 0) = 1; });
    } catch (const Error &error) {
      EXPECT_NE(error.errc(), Errc::kLogMissing);
    }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });
  atomically(domain, [&] { word(segment, 1) = 2; });
  EXPECT_EQ(query(domain, [&] { return word(segment, 0); }), 1u);
}

// Four records fill the writer's buffer to the last byte; the fifth does not fit the file any more,
// and a kFileEnd record goes between. (AddressSanitizer or the writer's assertion tells when it
// went behind the buffer.)
TEST_F(DurableRegressionsTest, AFullBufferAtTheEndOfAFile) {
  constexpr std::uint64_t kFileBytes = storage::kLogFileBytesMin + 2 * storage::kLogBlockBytes;
  const storage::LogIdentity log{{1, 2}, kFileBytes};
  for (const std::uint64_t index : {0u, 1u})
    ASSERT_EQ(storage::create_log_file(folder_.path(), log, index), Errc::kOk);
  const auto state = std::make_unique<storage::LogState>();
  std::vector<std::byte> tails(2 * storage::kLogBlockBytes);
  state->file_bytes = kFileBytes;
  state->generation = 1;
  state->point[0].lsn = storage::kFirstLsn;
  storage::LogWriter writer;
  writer.attach(folder_.path(), log.domain_id, state.get(), tails.data());
  writer.start();
  std::vector<std::byte> buffer(storage::kRecordBytesMax), page(kPageBytes, std::byte{7});
  const std::uint8_t words[storage::kWordMasks] = {1};
  for (std::uint64_t stamp = 2; stamp < 7; ++stamp) {
    storage::RecordBuilder record(buffer.data(), buffer.size());
    std::uint64_t number = 0;
    while (record.add(PageId{number}, 1, words, page.data())) ++number;
    ASSERT_EQ(record.bytes(), storage::kRecordBytesMax);
    storage::RecordHeaderV1 fields{};
    fields.kind = static_cast<std::uint16_t>(storage::RecordKind::kCommit);
    fields.stamp = stamp;
    fields.total_bytes = record.bytes();
    ASSERT_EQ(writer.append(&record, fields), Errc::kOk);
  }
  ASSERT_EQ(writer.write(), Errc::kOk);
  writer.publish({5, 0, 6, 0}, 5, 0);
  storage::LogSource source(folder_.path(), "", log);
  ASSERT_EQ(source.open(), Errc::kOk);
  storage::CheckpointV1 from{};
  from.lsn = from.durable_lsn = storage::kFirstLsn;
  from.generation = 1;
  from.stamp = 1;
  storage::LogReader reader(&source, from, storage::LogReader::Depth::kWhole);
  storage::RecordView record;
  std::vector<storage::RecordKind> kinds;
  for (;;) {
    ASSERT_EQ(reader.next(&record), Errc::kOk);
    if (record.at == nullptr) break;
    kinds.push_back(record.kind());
  }
  using enum storage::RecordKind;
  EXPECT_EQ(kinds, (std::vector{kCommit, kCommit, kCommit, kCommit, kFileEnd, kCommit}));
}

TEST_F(DurableRegressionsTest, AStrictEndThatIsBeingAcknowledgedOutlivesAClose) {
  expect_child("closer", [&] {
    Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(4));
    static std::atomic<bool> published{false}, closes{false}, is_closed{false};
    observe::set_step_hook([](observe::Step step) {
      if (step != observe::Step::kLogPublished || published.exchange(true)) return;
      // Until the close has come by, or waits for it: longer than for anything else.
      int looks_asleep = 0;
      EXPECT_TRUE(poll_until([&looks_asleep] {
        const std::string closer = "/proc/self/task/" + std::to_string(getpid());
        looks_asleep = closes && is_sleeping(closer) ? looks_asleep + 1 : 0;
        return is_closed.load() || looks_asleep == 200;
      }));
    });
    std::thread committer(
        [&, handle = domain] { atomically(handle, [&] { word(segment, 0) = 1; }); });
    while (!published) std::this_thread::yield();
    closes = true;
    domain.close();
    is_closed = true;
    committer.join();
  });
}

}  // namespace
}  // namespace tmh::test
