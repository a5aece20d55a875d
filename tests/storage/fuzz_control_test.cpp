// tests/storage/fuzz_control_test.cpp -- hostile control files, byte by byte: verify_control()
// alone, then open() and map() of a domain.
// Invariants: (1) verify_control() reads nothing beyond the bytes it is given, and refuses every
//             change of the parts that it covers.
//             (2) a damaged control file is refused with an Errc, or the domain works: its segments
//                 hold what was committed. Never a crash, a hang or SIGBUS; a refusal changes no
//                 data file.
//             (3) damage with right checksums, as a faulty writer would make it, is no exception to
//                 (2).
// Method:     children open the damaged domains; the one at work when something goes wrong is
//             named.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "storage/control.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using storage::ControlFile;
using storage::ControlHeaderV1;
using storage::SegmentRecordV1;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kRawPages = 8;
constexpr std::uint64_t kMark = 0x5eed'0000'0000'0001;

// Bytes that end where an unreadable page begins.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes_max)
      : room_((bytes_max + kPageBytes - 1) / kPageBytes * kPageBytes) {
    address_ = static_cast<std::byte *>(mmap(nullptr, room_ + kPageBytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (address_ == MAP_FAILED || mprotect(address_ + room_, kPageBytes, PROT_NONE) != 0)
      std::abort();
  }
  ~Fenced() { munmap(address_, room_ + kPageBytes); }
  Fenced(const Fenced &) = delete;
  Fenced &operator=(const Fenced &) = delete;
  std::byte *put(const std::string &bytes, std::size_t count) {
    std::byte *begin = address_ + room_ - count;
    std::memcpy(begin, bytes.data(), count);
    return begin;
  }

 private:
  std::size_t room_;
  std::byte *address_;
};

class FuzzControlTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char *name : {"TMH_POLICY", "TMH_TRACKING", "TMH_DETECTION", "TMH_CRASH_AT"})
      unsetenv(name);
    expect_child("maker", [&] {
      const Opened self(folder_.path());
      *made_at_ = self.heap.data();
      atomically(self.domain, [&] {
        for (std::uint64_t page = 0; page < kRawPages; ++page) self.word(page) = kMark + page;
        *static_cast<std::uint64_t *>(*self.heap.root_cell("mark") = self.heap.allocate(8)) = kMark;
      });
    });
    control_ = read_file(path("tmh.control"));
    raw_ = read_file(path("plain"));
    heap_ = read_file(path("heap"));
    ASSERT_EQ(control_.size(), storage::kControlBytes);
  }

  struct Opened {
    explicit Opened(const std::string &folder) {
      DomainOptions options;
      options.tracking = Tracking::kSignalHot;  // permitted everywhere
      domain = Domain::open(folder, options);
      raw = domain.map("plain", raw_segment(kRawPages * kPageBytes));
      SegmentOptions heap_options;
      heap_options.size_bytes = kMiB;
      heap_options.max_bytes = 4 * kMiB;
      heap = domain.map("heap", heap_options);
    }
    std::uint64_t &word(std::uint64_t page) const {
      return reinterpret_cast<std::uint64_t *>(raw.data() + page * kPageBytes)[0];
    }
    Domain domain;
    Segment raw, heap;
  };

  [[nodiscard]] std::string path(const std::string &name) const { return folder_ / name; }
  void restore() const {
    write_file(path("tmh.control"), control_);
    write_file(path("plain"), raw_);
    write_file(path("heap"), heap_);
  }

  // One damaged domain: opens it, reads what was committed, changes it and closes. True: it worked;
  // false: an Errc.
  [[nodiscard]] bool use() const {
    try {
      Opened self(folder_.path());
      query(self.domain, [&] {
        for (std::uint64_t page = 0; page < kRawPages; ++page)
          EXPECT_EQ(self.word(page), kMark + page);
        EXPECT_EQ(*static_cast<const std::uint64_t *>(static_cast<void *>(self.heap.data())),
                  *reinterpret_cast<const std::uint64_t *>(heap_.data()));
        EXPECT_EQ(storage::heap_check(self.heap.data(), self.heap.size_bytes()), Errc::kOk);
      });
      atomically(self.domain, [&] {
        // Without its record the file is a new segment with another address, and pointers inside
        // are not followed.
        if (self.heap.data() == *made_at_) {
          EXPECT_EQ(*static_cast<std::uint64_t *>(*self.heap.root_cell("mark")), kMark);
        }
        self.word(0) = 1;
        static_cast<void>(self.heap.allocate(100));
      });
      self.domain.close();
      return true;
    } catch (const Error &) {
      return false;
    }
  }

  // All damages in one child; `trial` runs in it. The shared number says which one was at work when
  // it died.
  struct Progress {
    std::uint64_t trial = 0;
    std::uint64_t worked = 0, refused = 0;
  };
  Progress run_trials(std::uint64_t count,
                      const std::function<std::string(std::uint64_t)> &damaged_control) {
    const Shared<Progress> progress;
    const ChildEnd end = run_in_child("opener", [&] {
      for (; progress->trial < count; ++progress->trial) {
        restore();
        write_file(path("tmh.control"), damaged_control(progress->trial));
        const bool worked = use();
        (worked ? progress->worked : progress->refused) += 1;
        if (!worked) {
          EXPECT_TRUE(read_file(path("plain")).substr(0, raw_.size()) == raw_)
              << "trial " << progress->trial;
          EXPECT_TRUE(read_file(path("heap")).substr(0, heap_.size()) == heap_)
              << "trial " << progress->trial;
        }
        ASSERT_FALSE(testing::Test::HasFailure()) << "trial " << progress->trial;
      }
    });
    EXPECT_TRUE(end.succeeded()) << "trial " << progress->trial << " of seed " << seed()
                                 << ": exit code " << end.exit_code << ", signal " << end.signal
                                 << (end.hung ? ", hung" : "");
    restore();
    expect_child("after", [&] { EXPECT_TRUE(use()) << "the undamaged file no longer works"; });
    return *progress;
  }

  [[nodiscard]] static std::size_t record_offset(std::size_t number) {
    return sizeof(ControlHeaderV1) + number * sizeof(SegmentRecordV1);
  }
  [[nodiscard]] std::unique_ptr<ControlFile> parsed() const {
    auto file = std::make_unique<ControlFile>();
    std::memcpy(file.get(), control_.data(), sizeof(ControlFile));
    return file;
  }

  MemoryFolder folder_;
  std::string control_, raw_, heap_;
  Shared<std::byte *> made_at_;
};

std::string bytes_of(const ControlFile &file) {
  return {reinterpret_cast<const char *>(&file), sizeof file};
}

// Which single-byte changes verify_control() must refuse.
bool is_covered(std::size_t offset) {
  if (offset < sizeof(ControlHeaderV1)) {
    // What the first participant stores anew, and a number of which only changes count.
    const bool is_rebuildable = (offset >= offsetof(ControlHeaderV1, detection) &&
                                 offset < offsetof(ControlHeaderV1, life)) ||
                                (offset >= offsetof(ControlHeaderV1, segment_generation) &&
                                 offset < offsetof(ControlHeaderV1, reserved_zero));
    return !is_rebuildable;
  }
  const std::size_t in_record = (offset - sizeof(ControlHeaderV1)) % sizeof(SegmentRecordV1);
  // A size below the one that was promised is what a growth cut short leaves; see settle_size().
  return in_record < offsetof(SegmentRecordV1, size_bytes) ||
         in_record >= offsetof(SegmentRecordV1, size_promised);
}

SegmentRecordV1 &first_record(std::string &file) {
  return *reinterpret_cast<SegmentRecordV1 *>(file.data() + sizeof(ControlHeaderV1));
}

TEST_F(FuzzControlTest, VerifyRefusesEveryFlippedBitThatItCovers) {
  std::string damaged = control_;
  std::string why;
  ASSERT_EQ(storage::verify_control(damaged.data(), damaged.size(), &why), Errc::kOk);
  std::mt19937_64 random(seed());
  for (std::size_t offset = 0; offset < damaged.size(); ++offset) {
    const bool used = offset < 128 || (offset >= record_offset(0) && offset < record_offset(3));
    if (!used && random() % 16 != 0)
      continue;  // reserved bytes and unused records: a sample, other ones with each seed
    for (unsigned bit = 0; bit < 8; ++bit) {
      damaged[offset] = static_cast<char>(control_[offset] ^ (1 << bit));
      why.clear();
      const Errc error = storage::verify_control(damaged.data(), damaged.size(), &why);
      if (is_covered(offset)) {
        ASSERT_NE(error, Errc::kOk) << "byte " << offset << " bit " << bit;
      }
      ASSERT_EQ(error == Errc::kOk, why.empty())
          << "a refusal names the field; byte " << offset << " bit " << bit;
    }
    damaged[offset] = control_[offset];
  }
}

// verify_control() and settle_size() together: what opening a domain does.
TEST_F(FuzzControlTest, EveryFlippedBitOfASegmentsSizeIsRefusedOrMended) {
  const std::uint64_t size = first_record(control_).size_bytes;
  ASSERT_EQ(size, kRawPages * kPageBytes);
  std::uint64_t refused = 0;
  std::uint64_t mended = 0;
  for (std::size_t bit = 0; bit < 128; ++bit) {
    std::string damaged = control_;
    const std::size_t offset = record_offset(0) + offsetof(SegmentRecordV1, size_bytes) + bit / 8;
    damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << bit % 8));
    std::string why;
    const Errc seen = storage::verify_control(damaged.data(), damaged.size(), &why);
    const Errc error =
        seen == Errc::kOk ? storage::settle_size(&first_record(damaged), size, &why) : seen;
    ASSERT_EQ(error == Errc::kOk, why.empty()) << "a refusal names the field; bit " << bit;
    if (error == Errc::kOk) {
      ASSERT_EQ(first_record(damaged).size_bytes, size) << "bit " << bit;
      ASSERT_TRUE(damaged == control_) << "bit " << bit;
      ++mended;
    } else {
      ASSERT_EQ(error, Errc::kCorrupt) << "bit " << bit;
      ++refused;
    }
  }
  EXPECT_GE(refused, 80U) << "misaligned, too large, or of a wrong checksum";
  EXPECT_GE(mended, 1U);
}

TEST_F(FuzzControlTest, GrowthCutBetweenItsTwoStoresIsFinishedOrForgotten) {
  const std::uint64_t size = kRawPages * kPageBytes;
  SegmentRecordV1 record = first_record(control_);
  storage::promise_size(&record, 2 * size);
  std::string why;
  SegmentRecordV1 grown = record;
  ASSERT_EQ(storage::settle_size(&grown, 2 * size, &why), Errc::kOk)
      << "the file was extended first";
  EXPECT_EQ(grown.size_bytes, 2 * size);
  SegmentRecordV1 forgotten = record;
  ASSERT_EQ(storage::settle_size(&forgotten, size, &why), Errc::kOk) << "the extension was lost";
  EXPECT_EQ(forgotten.size_bytes, size);
  EXPECT_EQ(storage::promised_size(forgotten), size);
  SegmentRecordV1 impossible = record;
  EXPECT_EQ(storage::settle_size(&impossible, size - kPageBytes, &why), Errc::kCorrupt);
  EXPECT_FALSE(why.empty());
}

TEST_F(FuzzControlTest, VerifyReadsNothingBeyondACutFile) {
  Fenced fenced(control_.size());
  std::string why;
  std::mt19937_64 random(seed());
  for (std::size_t bytes = 0; bytes < control_.size();
       bytes += bytes < 8192 ? 1 : 1 + random() % 64) {
    ASSERT_EQ(storage::verify_control(fenced.put(control_, bytes), bytes, &why), Errc::kShortFile)
        << bytes;
  }
}

TEST_F(FuzzControlTest, VerifySurvivesGarbageBehindARightBeginning) {
  std::mt19937_64 random(seed());
  Fenced fenced(control_.size());
  std::string why;
  for (int round = 0; round < 300; ++round) {
    auto file = parsed();
    auto *bytes = reinterpret_cast<unsigned char *>(file.get());
    for (std::uint64_t count = random() % 300; count > 0; --count)
      bytes[random() % sizeof *file] = static_cast<unsigned char>(random());
    storage::seal(&file->header);
    for (SegmentRecordV1 &record : file->segments) {
      if (random() % 2 == 0) storage::seal(&record);
    }
    static_cast<void>(
        storage::verify_control(fenced.put(bytes_of(*file), sizeof *file), sizeof *file, &why));
  }
}

// Every byte that no checksum covers, and a sample of the others, which verify_control() alone was
// shown to refuse; one bit each. Sample and bits are the seed's choice.
TEST_F(FuzzControlTest, EveryFlippedByteIsRefusedOrHarmless) {
  std::mt19937_64 random(seed());
  std::vector<std::size_t> offsets;
  for (std::size_t offset = 0; offset < record_offset(2); ++offset) {
    const bool field = offset < 96 || offset >= record_offset(0);
    if (field && (!is_covered(offset) || random() % 6 == 0)) offsets.push_back(offset);
  }
  for (int i = 0; i < 30; ++i) offsets.push_back(random() % control_.size());
  std::vector<char> flips;
  for (std::size_t i = 0; i < offsets.size(); ++i)
    flips.push_back(static_cast<char>(1 << random() % 8));
  const Progress progress = run_trials(offsets.size(), [&](std::uint64_t trial) {
    std::string damaged = control_;
    damaged[offsets[trial]] = static_cast<char>(damaged[offsets[trial]] ^ flips[trial]);
    return damaged;
  });
  EXPECT_GT(progress.refused, 50U) << "many of these bytes are covered by a checksum";
  EXPECT_GT(progress.worked, 3U) << "some are not, and must not matter";
}

// Three segments, each byte of the whole file set to 0 and flipped. What is not refused is one of
// these few:
//   detection            the first participant of the next open stores it anew
//   segment_generation   any number will do, it only changes
//   size_bytes           mended: what was promised has a checksum, and the file's length proves it
// An open that takes such a file finds each segment where it was, as long as it was, with what was
// committed.
TEST_F(FuzzControlTest, NoByteOfThreeSegmentsHidesOrMovesOne) {
  struct Place {
    std::byte *at;
    std::uint64_t bytes;
    bool operator==(const Place &) const = default;
  };
  struct Places {
    Place raw, heap, third;
    bool operator==(const Places &) const = default;
  };
  const auto look = [this] {
    const Opened self(folder_.path());
    const Segment third = self.domain.map("third", raw_segment(2 * kPageBytes));
    query(self.domain, [&] {
      for (std::uint64_t page = 0; page < kRawPages; ++page)
        EXPECT_EQ(self.word(page), kMark + page);
    });
    return Places{{self.raw.data(), self.raw.size_bytes()},
                  {self.heap.data(), self.heap.size_bytes()},
                  {third.data(), third.size_bytes()}};
  };
  const Shared<Places> where;
  expect_child("maker", [&] { *where = look(); });
  control_ = read_file(path("tmh.control"));
  std::string why, damaged = control_;
  std::vector<std::pair<std::size_t, char>> taken;
  for (std::size_t offset = 0; offset < control_.size(); ++offset) {
    const auto is_named = [&](std::size_t at) {
      return why.find("segment " + std::to_string((at - sizeof(ControlHeaderV1)) /
                                                  sizeof(SegmentRecordV1))) != std::string::npos;
    };
    for (const char byte :
         {'\0', static_cast<char>(control_[offset] ^ 0x01), static_cast<char>(~control_[offset])}) {
      if (byte == control_[offset]) continue;
      damaged[offset] = byte;
      if (storage::verify_control(damaged.data(), damaged.size(), &why) == Errc::kOk) {
        taken.emplace_back(offset, byte);
      } else if (offset >= sizeof(ControlHeaderV1)) {
        ASSERT_TRUE(is_named(offset) || is_named(offset + sizeof(SegmentRecordV1)))
            << offset << ": " << why;
      }
    }
    damaged[offset] = control_[offset];
  }
  EXPECT_GT(taken.size(), 5U);
  for (const auto &[offset, byte] : taken) {
    const std::size_t in_record = (offset - sizeof(ControlHeaderV1)) % sizeof(SegmentRecordV1);
    const bool is_size = offset >= record_offset(0) && offset < record_offset(3) &&
                         in_record >= offsetof(SegmentRecordV1, size_bytes) &&
                         in_record < offsetof(SegmentRecordV1, size_promised);
    const bool is_detection =
        offset >= offsetof(ControlHeaderV1, detection) && offset < offsetof(ControlHeaderV1, life);
    const bool is_generation = offset >= offsetof(ControlHeaderV1, segment_generation) &&
                               offset < offsetof(ControlHeaderV1, reserved_zero);
    ASSERT_TRUE(is_size || is_detection || is_generation) << offset;
    damaged[offset] = byte;
    write_file(path("tmh.control"), damaged);
    damaged[offset] = control_[offset];
    // Named anew: clang 14 captures no structured binding.
    expect_child("opener", [&, at = offset, changed = byte] {
      EXPECT_TRUE(look() == *where) << at << " is " << static_cast<int>(changed);
      const std::string now = read_file(path("tmh.control"));
      EXPECT_TRUE(now.substr(record_offset(0)) == control_.substr(record_offset(0)))
          << at << ": not mended";
    });
  }
  write_file(path("tmh.control"), control_);
}

// Its maker died after any part of it.
TEST_F(FuzzControlTest, ARecordInTheMakingIsTheNextSegments) {
  const auto third = [this] {
    const Opened self(folder_.path());
    return self.domain.map("third", raw_segment(2 * kPageBytes)).data();
  };
  const Shared<std::byte *> at;
  expect_child("maker", [&] { *at = third(); });
  const std::string made = read_file(path("tmh.control"));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{40}, std::size_t{216},
                                  std::size_t{224}, std::size_t{232}, sizeof(SegmentRecordV1)}) {
    std::string cut = made;
    cut.replace(record_offset(2) + bytes, sizeof(SegmentRecordV1) - bytes,
                sizeof(SegmentRecordV1) - bytes, '\0');
    storage::begin_record(reinterpret_cast<SegmentRecordV1 *>(cut.data() + record_offset(2)));
    write_file(path("tmh.control"), cut);
    expect_child("opener", [&] { EXPECT_EQ(third(), *at) << bytes; });
    EXPECT_TRUE(read_file(path("tmh.control")).substr(record_offset(0)) ==
                made.substr(record_offset(0)))
        << bytes;
  }
}

TEST_F(FuzzControlTest, ARecordOfZerosBeforeAUsedOneIsRefused) {
  auto file = parsed();
  file->segments[0] = SegmentRecordV1{};
  std::string why;
  EXPECT_EQ(storage::verify_control(file.get(), sizeof *file, &why), Errc::kCorrupt);
  EXPECT_NE(why.find("segment 1 (heap)"), std::string::npos) << why;
}

TEST_F(FuzzControlTest, EveryCutIsRefused) {
  std::vector<std::size_t> cuts;
  for (std::size_t bytes = 1; bytes < 100; bytes += 9) cuts.push_back(bytes);
  for (std::size_t number = 0; number < 5; ++number) {
    for (const std::size_t around : {std::size_t{0}, std::size_t{1}, std::size_t{128}})
      cuts.push_back(record_offset(number) + around);
  }
  cuts.push_back(control_.size() - 1);
  std::mt19937_64 random(seed());
  for (int i = 0; i < 20; ++i) cuts.push_back(1 + random() % (control_.size() - 1));
  const Progress progress =
      run_trials(cuts.size(), [&](std::uint64_t trial) { return control_.substr(0, cuts[trial]); });
  EXPECT_EQ(progress.refused, cuts.size());
}

TEST_F(FuzzControlTest, LongerFilesAreRefused) {
  const Progress progress = run_trials(
      3, [&](std::uint64_t trial) { return control_ + std::string(trial * 4095 + 1, '\0'); });
  EXPECT_EQ(progress.refused, 3U);
}

// A faulty writer: each field with values that look dangerous, under right checksums. Half of the
// pairs in each run; which half is the seed's choice.
TEST_F(FuzzControlTest, WrongValuesUnderRightChecksumsAreRefusedOrHarmless) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "ThreadSanitizer takes an address outside of its application memory out of an mmap() with "
         "MAP_FIXED_NOREPLACE, and ends the process where the mapping then lies";
#endif
  const std::vector<std::uint64_t> values = {0,
                                             1,
                                             2,
                                             3,
                                             4095,
                                             4096,
                                             8191,
                                             8192,
                                             std::uint64_t{1} << 20,
                                             std::uint64_t{1} << 31,
                                             (std::uint64_t{1} << 32) - 1,
                                             std::uint64_t{1} << 40,
                                             (std::uint64_t{1} << 40) + 4096,
                                             std::uint64_t{1} << 46,
                                             (std::uint64_t{1} << 47) - 4096,
                                             std::uint64_t{1} << 47,
                                             std::uint64_t{1} << 62,
                                             std::uint64_t{1} << 63,
                                             ~std::uint64_t{4095},
                                             ~std::uint64_t{0}};
  struct Field {
    std::size_t offset;
    std::size_t bytes;
  };
  std::vector<Field> fields;
  for (const std::size_t offset :
       {offsetof(ControlHeaderV1, owner_uid), offsetof(ControlHeaderV1, durability),
        offsetof(ControlHeaderV1, detection), offsetof(ControlHeaderV1, segment_generation),
        offsetof(ControlHeaderV1, segments_max)}) {
    fields.push_back({offset, 4});
  }
  for (const std::size_t offset :
       {offsetof(ControlHeaderV1, address_base), offsetof(ControlHeaderV1, life)})
    fields.push_back({offset, 8});
  for (const std::size_t number : {std::size_t{0}, std::size_t{1}}) {
    fields.push_back({record_offset(number) + offsetof(SegmentRecordV1, state), 4});
    fields.push_back({record_offset(number) + offsetof(SegmentRecordV1, layout), 4});
    for (const std::size_t offset :
         {offsetof(SegmentRecordV1, offset_bytes), offsetof(SegmentRecordV1, max_bytes),
          offsetof(SegmentRecordV1, address), offsetof(SegmentRecordV1, size_bytes),
          offsetof(SegmentRecordV1, size_promised)}) {
      fields.push_back({record_offset(number) + offset, 8});
    }
  }
  std::mt19937_64 random(seed());
  std::vector<std::pair<Field, std::uint64_t>> damages;
  for (const Field &field : fields) {
    for (const std::uint64_t value : values) {
      if (random() % 2 == 0) damages.emplace_back(field, value);
    }
  }
  const Progress progress = run_trials(damages.size(), [&](std::uint64_t trial) {
    const auto &[field, value] = damages[trial];
    auto file = parsed();
    const std::uint64_t sizes[] = {file->segments[0].size_bytes, file->segments[1].size_bytes};
    std::memcpy(reinterpret_cast<unsigned char *>(file.get()) + field.offset, &value, field.bytes);
    storage::seal(&file->header);
    for (int number : {0, 1}) {  // a wrong size that was promised; a wrong promise stays one
      SegmentRecordV1 &record = file->segments[number];
      if (record.size_bytes != sizes[number])
        record.size_promised = storage::sealed_size(record.size_bytes);
    }
    for (SegmentRecordV1 &record : file->segments) {
      if (storage::is_used(record)) storage::seal(&record);
    }
    return bytes_of(*file);
  });
  EXPECT_GT(progress.refused, damages.size() / 2);
  EXPECT_GT(progress.worked, 3U);
}

// Two records that claim the same file, addresses or name.
TEST_F(FuzzControlTest, ContradictingRecordsAreRefusedOrHarmless) {
  const std::vector<std::function<void(ControlFile &)>> contradictions = {
      [](ControlFile &file) { file.segments[2] = file.segments[0]; },
      [](ControlFile &file) { file.segments[2] = file.segments[1]; },
      [](ControlFile &file) { file.segments[1].address = file.segments[0].address; },
      [](ControlFile &file) { file.segments[0].address = file.segments[1].address + kPageBytes; },
      [](ControlFile &file) { std::swap(file.segments[0], file.segments[1]); },
      [](ControlFile &file) { std::swap(file.segments[0].name, file.segments[1].name); },
      [](ControlFile &file) { file.segments[255] = file.segments[0]; },
      [](ControlFile &file) { std::swap(file.segments[0], file.segments[100]); },
      [](ControlFile &file) {
        std::memset(file.segments[0].name, 'n', sizeof file.segments[0].name - 1);
      },
      [](ControlFile &file) {
        std::memset(file.segments[0].name, 'n', sizeof file.segments[0].name);
      },
      [](ControlFile &file) { std::strcpy(file.segments[0].name, "no/such/folder/file"); },
      [](ControlFile &file) { std::strcpy(file.segments[0].name, "tmh.control"); },
      [](ControlFile &file) { std::strcpy(file.segments[1].name, "tmh.state"); },
      [](ControlFile &file) { std::strcpy(file.segments[0].name, "."); },
      [](ControlFile &file) { file.segments[0].layout = 1, file.segments[1].layout = 2; },
      [](ControlFile &file) { file.segments[0].offset_bytes = 4 * kPageBytes; },
  };
  const Progress progress = run_trials(contradictions.size(), [&](std::uint64_t trial) {
    auto file = parsed();
    contradictions[trial](*file);
    for (SegmentRecordV1 &record : file->segments) {
      if (storage::is_used(record)) storage::seal(&record);
    }
    return bytes_of(*file);
  });
  EXPECT_EQ(progress.worked + progress.refused, contradictions.size());
}

}  // namespace
}  // namespace tmh::test
