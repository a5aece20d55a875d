// storage/log/log_bound.h -- how far the redo log is durable, as a reader sees it that does not
// join the domain; and waiting until it is durable further.
// Shape:     tmh.control says whether shared memory of this boot belongs to the folder, and of
//            which life; tmh.log.state of that life says how far the log is durable. Where shared
//            memory is there and says nothing that can be believed, the checkpoint says it. Where
//            none is there, no participant writes: every record that a LogReader takes counts.
// Invariant: (1) shared files are read with pread(2): no byte of them is believed, and a file that
//            is cut meanwhile is no SIGBUS. (2) Two words say how far, each stored by itself; the
//            smaller one counts: one damaged byte can hold a reader up, never lead it too far.
//            (3) Nothing is written to shared memory but the count of sleepers, which a writer of
//            the log looks at before it wakes; the kernel adds to it. A reader that is killed in
//            its sleep stays counted, as a committer does: each flush then makes a call that wakes
//            no thread.
// Ordering:  a pread of `flushes` before and after that of the point it names: as a seqlock.
// Errors:    kNotADomain, kForeignVersion, kCorrupt of tmh.control or tmh.checkpoint; kIo,
//            kPermission, kLogMissing (no tmh.checkpoint).
// Sharing:   one thread. Participants may come, die and go; files may be removed and made anew.
// Contexts:  not in handlers.
// Source:    docs/design.md D1, D5.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "platform/files.h"
#include "storage/checkpoint_file.h"
#include "storage/log/log_files.h"
#include "storage/log/log_state.h"

namespace tmh::storage {

struct DurableBound {
  enum class Source : std::uint8_t {
    kShared,      // tmh.log.state
    kCheckpoint,  // shared memory is there, being made or damaged: what the checkpoint says
    kClosed       // no shared memory of this boot
  };
  Source source = Source::kClosed;
  std::uint32_t generation = 0;  // the newest
  // Records of that generation that end here or before are durable; kClosed: all that are valid.
  Lsn lsn = 0;
  // Of the checkpoint that was looked at last; 0 with kShared.
  std::uint64_t sequence = 0;
  [[nodiscard]] bool operator==(const DurableBound &) const noexcept = default;
};

class LogBound {
 public:
  // After so long a sleep on shared memory ends to look whether it is still the domain's. Where
  // there is none, or this process may not write to it, every wait is so long.
  static constexpr std::uint64_t kLookNs = 20'000'000;

  LogBound(std::string folder, const LogIdentity &log) : folder_(std::move(folder)), log_(log) {}
  ~LogBound() { forget_state(); }
  LogBound(const LogBound &) = delete;
  LogBound &operator=(const LogBound &) = delete;

  [[nodiscard]] Errc look(DurableBound *bound) noexcept;
  // Is there still no shared memory? What was read since a look() that said so was read while no
  // participant wrote.
  [[nodiscard]] bool is_still_closed() noexcept;
  // Both valid slots of tmh.checkpoint as they are now, the newer one first; *count is at least 1.
  [[nodiscard]] Errc read_checkpoints(CheckpointV1 (&slots)[2], std::size_t *count) const noexcept;
  // Sleeps until a look() may say something else than the last one, for at most `timeout_ns` and
  // kLookNs. May return early. A signal ends it.
  void wait(std::uint64_t timeout_ns) noexcept;

 private:
  // What is read of tmh.control.
  struct Life {
    std::uint64_t life = 0;
    bool is_open = false;
  };
  [[nodiscard]] Errc read_life(Life *life) noexcept;
  [[nodiscard]] bool read_shared(std::uint64_t life, DurableBound *bound) noexcept;
  [[nodiscard]] bool is_believed(std::uint32_t generation) noexcept;
  [[nodiscard]] bool find_state() noexcept;
  void forget_state() noexcept;
  template <class T>
  [[nodiscard]] bool read_field(std::size_t offset, T *value) const noexcept;

  std::string folder_;
  LogIdentity log_;
  platform::FileDescriptor state_;  // tmh.log.state
  dev_t state_device_ = 0;
  ino_t state_inode_ = 0;
  LogState *mapped_ = nullptr;  // to sleep on; null: not writable
  std::uint32_t event_ = 0;     // at the last look
  // The last one of shared memory that a checkpoint names, too; 0: none.
  std::uint32_t believed_generation_ = 0;
};

}  // namespace tmh::storage
