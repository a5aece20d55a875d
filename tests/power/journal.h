// tests/power/journal.h -- what all processes of a test did to the disk, and what they were
// promised, in one global order.
// Shape:     anonymous shared memory made before the fork: entries of 64 bytes, reserved by one
//            fetch_add, and bytes they refer to. An entry counts once it is published; one whose
//            process was killed in between stays empty and is skipped.
// Invariant: an entry recorded before an operation comes before every entry of whoever saw that
//            operation's effect.
// Contexts:  append() is lock-free and async-signal-safe: the disk hook may run in a fault handler.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/disk.h"
#include "tests/support/shared.h"

namespace tmh::test::power {

// Types below are platform::DiskOp, the others are notes of the test.
inline constexpr std::uint32_t kNoteBase = 32;

// Intentions and promises. g: place in the commit order.
enum class Note : std::uint32_t {
  kIntent = 32,       // (g, Effects) before end()
  kStrictAck = 33,    // (g, id) after end(): durable from here on
  kBufferedAck = 34,  // (g, id) after end(): committed, may be lost
  kAborted = 35,      // (g, id) after end(): will never be seen
  kDurableUpTo = 36,  // (g) after flush(), or a strict reader's end
  // (g, ids of 1..g) the state that a process alone in the domain found after open
  kRecovered = 37,
  kDied = 38,    // (process) by the parent: killed and buried
  kFolder = 39,  // (path) where it all happens
  // (entry) by the parent: what a killed process was doing has happened; survivors have seen it
  kDone = 40,
  kNotDone = 41,  // (entry) it has not
};

struct Entry {
  std::uint64_t number = 0;  // place in the global order, from 1
  std::uint32_t type = 0;    // DiskOp or Note
  std::int32_t process = 0, thread = 0;
  std::string_view path, path2;
  std::uint64_t offset = 0;
  std::span<const std::byte> data;
  // The process was killed during this operation, and nobody looked whether it has happened.
  bool uncertain = false;
  [[nodiscard]] bool is_note() const noexcept { return type >= kNoteBase; }
  [[nodiscard]] platform::DiskOp op() const noexcept { return static_cast<platform::DiskOp>(type); }
  [[nodiscard]] Note note() const noexcept { return static_cast<Note>(type); }
};

class Journal {
 public:
  explicit Journal(std::uint64_t entries_max = 1u << 20, std::uint64_t bytes_max = 1ull << 30);
  // From a file that save() wrote.
  explicit Journal(const std::string &file);

  // Async-signal-safe. Dropped when the journal is full; see overflowed().
  void append(std::uint32_t type, const char *path, const char *path2, std::uint64_t offset,
              const void *data, std::uint64_t bytes) noexcept;
  void note(Note type, std::uint64_t number, const std::string &text) noexcept {
    note(type, number, text.data(), text.size());
  }
  void note(Note type, std::uint64_t number, const void *data = nullptr,
            std::uint64_t bytes = 0) noexcept {
    append(static_cast<std::uint32_t>(type), nullptr, nullptr, number, data, bytes);
  }

  [[nodiscard]] std::uint64_t count() const noexcept;  // reserved so far
  [[nodiscard]] bool overflowed() const noexcept;
  // Less than half full: workloads stop otherwise.
  [[nodiscard]] bool has_room() const noexcept;
  // All published entries in order. They refer to this journal's memory. REQUIRES: nobody is
  // appending.
  [[nodiscard]] std::vector<Entry> read() const;
  void save(const std::string &file) const;

 private:
  struct Slot;
  struct Head;
  [[nodiscard]] Head &head() const noexcept;
  [[nodiscard]] Slot *slots() const noexcept;
  [[nodiscard]] std::byte *bytes() const noexcept;

  std::uint64_t entries_max_, bytes_max_;
  SharedBytes memory_;
};

// How long durable writes and syncs take under the recorder, as on a disk: groups of commits form
// only when a write lasts.
struct DiskPace {
  std::uint32_t write_us_max = 0;  // each durable write and sync lasts a random time up to this
  // The process kills itself before one in so many operations, and before one in four on names and
  // on the control file: a death there leaves most for the others to finish. 0: never.
  std::uint32_t die_one_in = 0;
};

// Installs the recording hook for this process and children forked later. nullptr: none.
void record_into(Journal *journal, DiskPace pace = {}) noexcept;

}  // namespace tmh::test::power
