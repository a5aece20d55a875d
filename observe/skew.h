// observe/skew.h -- what instances of level 2 have read and written, in files for `tmh skew`.
// Shape:     <domain>/tmh.skew.<life>.<incarnation>, one per participant that was opened with
//            TMH_SKEW=record: SkewHeaderV1, then a record per committed instance, each of 8-byte
//            words: SkewRecordV1; the site's name, padded with zeros; runs of pages read; pages and
//            lines written; pages and lines promoted. Rebuildable, of no other use.
// Invariant: (1) A file grows by one write(2) per record: where its process was killed, all but
//            the last record are whole. (2) Pages read ascend, and runs do not meet. (3) What is
//            promoted counts as written, too.
// Sharing:   the participant's own; one thread at a time, as the engine's.
// Contexts:  not in handlers.
// Source:    Fekete, Liarokapis, O'Neil, O'Neil, Shasha, "Making Snapshot Isolation Serializable"
//            (ACM TODS 2005), section 3: what a site's instances conflict in tells what can skew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tmh/error.hpp>

#include "platform/files.h"

namespace tmh::observe {

enum class SkewKind : std::uint8_t {  // DO NOT CHANGE THESE VALUES: they are in files
  kQuery = 1,
  // An update under snapshot isolation.
  kSnapshot = 2,
  // Any other update.
  kSerializable = 3
};

inline constexpr std::uint64_t kSkewMagic = 0x3130'574b'5348'4d54ull;  // "TMHSKW01"
inline constexpr std::uint32_t kSkewVersion = 1;
// 2 million small instances.
inline constexpr std::uint64_t kSkewBytesMax = 256u << 20;
inline constexpr std::string_view kSkewPrefix = "tmh.skew.";

struct SkewHeaderV1 {
  std::uint64_t magic;         //   0
  std::uint32_t version;       //   8
  std::uint32_t header_bytes;  //  12
  std::int32_t pid;            //  16
  std::uint32_t slot;          //  20
  std::uint64_t domain_id[2];  //  24
  std::uint64_t life;          //  40  of the domain: clocks of two lives say nothing of each other
  std::uint64_t incarnation;   //  48  of the participant
  std::uint64_t is_cut;        //  56  1: it has stopped recording: disk, memory or the file is full
  char name[40];               //  64
  std::uint64_t reserved_zero[3];  // 104
};
static_assert(sizeof(SkewHeaderV1) == 128 && offsetof(SkewHeaderV1, is_cut) == 56);

struct SkewRecordV1 {
  std::uint64_t checksum;         //  0  skew_checksum() of the words behind it
  std::uint32_t word_count;       //  8  of the record, with this
  std::uint32_t kind;             // 12  SkewKind; kSkewReadsUnknown
  std::uint64_t snapshot;         // 16  clock
  std::uint64_t end;              // 24  its commit's; the clock at its end where it wrote nothing
  std::uint32_t site_bytes;       // 32
  std::uint32_t read_count;       // 36  runs: first page, number of pages
  std::uint32_t write_count;      // 40  page, lines
  std::uint32_t promotion_count;  // 44  page, lines
};
static_assert(sizeof(SkewRecordV1) == 48 && offsetof(SkewRecordV1, promotion_count) == 44);
static_assert(std::is_standard_layout_v<SkewHeaderV1> && std::is_standard_layout_v<SkewRecordV1>);
static_assert(std::has_unique_object_representations_v<SkewHeaderV1> &&
              std::has_unique_object_representations_v<SkewRecordV1>);

// In SkewRecordV1::kind: it has read more pages than are listed.
inline constexpr std::uint32_t kSkewReadsUnknown = 1u << 8;

// FNV-1a by words: tells a record that was torn or damaged, and nothing of malice.
[[nodiscard]] std::uint64_t skew_checksum(const std::uint64_t *words, std::size_t count) noexcept;

struct SkewPair {
  std::uint64_t first = 0, second = 0;
  friend bool operator==(const SkewPair &, const SkewPair &) = default;
  friend auto operator<=>(const SkewPair &, const SkewPair &) = default;
};
// One instance, as it is written and read.
struct SkewInstance {
  SkewKind kind = SkewKind::kSnapshot;
  bool has_unknown_reads = false;
  std::uint64_t snapshot = 0, end = 0;
  std::string site;
  // First page, number of pages.
  std::vector<SkewPair> reads;
  // Page, lines.
  std::vector<SkewPair> writes, promotions;
};
// Appends its words.
void append_skew_record(const SkewInstance &instance, std::vector<std::uint64_t> *words);

// Whose file it is.
struct SkewOwner {
  std::uint32_t slot = 0;
  std::uint64_t domain_id[2] = {};
  std::uint64_t life = 0, incarnation = 0;
  std::string name;
};

class SkewRecorder {
 public:
  // kDiskFull, kIo, kPermission.
  [[nodiscard]] static Errc open(const std::string &folder, const SkewOwner &owner,
                                 std::unique_ptr<SkewRecorder> *out) noexcept;
  SkewRecorder(const SkewRecorder &) = delete;
  SkewRecorder &operator=(const SkewRecorder &) = delete;

  // Of the instances from here on; null or empty: of no site. The name outlives its use.
  void use_site(const char *name) noexcept { site_ = name != nullptr ? name : ""; }

  // One instance has committed. fill(SkewInstance &): its clocks, kind, writes and promotions;
  // pages that it has touched go to pages(), in any order. What cannot be recorded ends the
  // recording, not the program.
  template <class Fill>
  void record(Fill fill) noexcept {
    if (is_cut_) return;
    try {
      clear();
      fill(instance_);
      append();
    } catch (...) {  // no memory
      cut();
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> &pages() noexcept { return pages_; }

 private:
  explicit SkewRecorder(platform::FileDescriptor file) noexcept : file_(std::move(file)) {}
  void clear();
  void append();
  void cut() noexcept;

  platform::FileDescriptor file_;
  const char *site_ = "";
  bool is_cut_ = false;
  std::uint64_t bytes_ = 0;
  SkewInstance instance_;
  std::vector<std::uint64_t> pages_, words_;
};

}  // namespace tmh::observe
