// rtm_emulator/txmem.h -- the memory of one transaction: a line buffer, validated by
// value.
// Shape:     lines of 64 bytes, copied at the first touch; per line what was found and what the
//            transaction has made of it. A hash table from address to line, emptied by a new
//            generation number.
// Invariant: (1) every line was copied while seq was even and did not change. (2) Whenever seq has
//            moved, all lines were compared again before the transaction saw another one: commits
//            of others are seen at once; native stores at the next fault, budget end or XEND, or
//            earlier when they hit one of the first lines, where elision keeps its lock.
//            (3) no access brings a page back that a change of the mappings has taken away
//                (mappings.h).
// Contexts:  inside the emulator only; SAFE. Faults of the program's memory answer false.
// Source:    NOrec (validation by value).
#pragma once

#include <cstddef>
#include <cstdint>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/domain.h"
#include "rtm_emulator/pages.h"
#include "rtm_emulator/policy.h"
#include "rtm_emulator/system.h"

namespace tmh::rtm {

inline constexpr std::uint32_t kLinesMax = 16384;

class TxMemory {
 public:
  [[nodiscard]] bool allocate() noexcept;

  void begin(const Knobs &knobs, std::uint32_t slot, Dice *dice) noexcept;

  // False: the attempt is over; cause() says why. `bytes` may cross lines.
  [[nodiscard]] bool read(std::uint64_t address, void *to, std::size_t bytes) noexcept;
  [[nodiscard]] bool write(std::uint64_t address, const void *from, std::size_t bytes) noexcept;

  // XEND: true when all stores are in memory, at once for everybody.
  [[nodiscard]] bool commit() noexcept;
  // Whatever made the attempt end may be the work of a snapshot that is none: then it was a
  // conflict.
  [[nodiscard]] Cause settled(Cause cause) noexcept {
    return is_valid() ? cause : Cause::kConflict;
  }
  [[nodiscard]] bool is_doomed() const noexcept;
  [[nodiscard]] Cause cause() const noexcept { return cause_; }
  void end() noexcept;  // after commit or abort: others need not care about our lines any more

 private:
  struct Line {
    std::uint64_t address;
    std::uint64_t written;
  };
  enum class Intent : std::uint8_t { kRead, kWrite };

  [[nodiscard]] bool fail(Cause cause) noexcept {
    cause_ = cause;
    return false;
  }
  [[nodiscard]] bool touch(std::uint64_t address, Intent intent, std::uint32_t *line) noexcept;
  [[nodiscard]] bool add(std::uint64_t address, Intent intent, std::uint32_t table_index,
                         std::uint32_t *line) noexcept;
  [[nodiscard]] bool mark_written(std::uint32_t line) noexcept;
  [[nodiscard]] bool page_allows(std::uint64_t address, Intent intent) noexcept;
  [[nodiscard]] bool copy_stable(std::uint64_t address, Intent intent, std::uint32_t line) noexcept;
  [[nodiscard]] bool is_valid(std::uint32_t lines) noexcept;
  // REQUIRES: MappingsInUse.
  void note_mapping_changes() noexcept;
  [[nodiscard]] bool is_valid_in_use(std::uint32_t lines) noexcept;
  [[nodiscard]] bool is_valid() noexcept { return is_valid(count_); }
  [[nodiscard]] bool make_writable() noexcept;
  void take_line(std::uint64_t address, Intent intent) noexcept;
  [[nodiscard]] std::uint8_t *original(std::uint32_t line) noexcept {
    TMH_ASSERT(line < kLinesMax);
    return data_ + std::size_t{line} * 2 * kLineBytes;
  }
  [[nodiscard]] std::uint8_t *current(std::uint32_t line) noexcept {
    return original(line) + kLineBytes;
  }

  template <class See>
  bool changed_words(See see) noexcept;
  void publish() noexcept;
  [[nodiscard]] bool validate_and_publish() noexcept;

  Line *lines_ = nullptr;
  std::uint8_t *data_ = nullptr;
  std::uint64_t *table_ = nullptr;  // generation << 20 | line; a hash table with linear probing
  // direct-mapped: page_generation_ << 2 | checked for reading, writing
  std::uint64_t *pages_ = nullptr;
  std::uint64_t *page_numbers_ = nullptr;
  std::uint8_t *ways_ = nullptr;  // lines written, per set
  std::uint64_t generation_ = 0;
  std::uint64_t page_generation_ = 0;  // a new one when mappings have changed: a page may have gone
  std::uint64_t changes_ = 0;          // mapping_changes() of this one
  bool pages_are_checked_ = true;      // all lines' pages, in this one
  std::uint32_t count_ = 0;
  std::uint32_t last_ = 0;  // the line touched last
  std::uint32_t seq_ = 0;
  std::uint32_t slot_ = 0;
  SharedMappings mappings_;
  Knobs knobs_{};
  Dice *dice_ = nullptr;
  Cause cause_{};
};

}  // namespace tmh::rtm
