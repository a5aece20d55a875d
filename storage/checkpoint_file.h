// storage/checkpoint_file.h -- tmh.checkpoint: where recovery starts, and how the log
// continues.
// Shape:     two CheckpointV1 slots of 4096 bytes; the valid one with the larger sequence counts. A
//            write goes to the other slot and is durable before anything relies on it, so a torn
//            one leaves its predecessor. That may be another process's, which died before it knew
//            its write to be durable: then it is written once more first.
// Invariant: log files are recycled only when the *older* slot does not need them either: one
//            damaged slot costs nothing.
// Sharing:   written under the folder lock or the checkpoint lock.
// Source:    docs/design.md D3, D4, D6, D8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tmh/error.hpp>

#include "platform/disk.h"
#include "storage/log/log_format.h"

namespace tmh::storage {

// "TMHCHP01" in the file
inline constexpr std::uint64_t kCheckpointMagic = 0x3130'5048'4348'4d54ull;
inline constexpr std::uint32_t kCheckpointVersion = 1;

struct CheckpointV1 {            // offset
  std::uint64_t magic;           //    0
  std::uint32_t format_version;  //    8
  std::uint32_t generation;      //   12  of the records at and behind `lsn`; 0: none yet
  std::uint64_t sequence;        //   16  1, 2, ...; odd: slot 1, even: slot 0
  std::uint64_t domain_id[2];    //   24
  std::uint64_t log_file_bytes;  //   40
  //   48  recovery reads from here: data files hold everything before
  std::uint64_t lsn;
  std::uint64_t stamp;    //   56  of the last commit before `lsn`
  std::uint64_t time_ns;  //   64  CLOCK_REALTIME
  //   72  the log was durable up to here: damage before it is no torn tail
  std::uint64_t durable_lsn;
  //   80  1: closed by the last participant, data files hold everything, the log ends at `lsn`
  std::uint32_t is_clean;
  std::uint32_t keep_all;      //   84  1: log files are kept for archiving, never recycled
  std::uint64_t previous_lsn;  //   88  `lsn` of the slot before
  //   96  stored by a recovery: of the kOpen record that is to be written at `lsn`; else 0
  std::uint64_t previous_end;
  std::uint32_t previous_generation;  //  104  the same
  std::uint8_t reserved_zero[3984];   //  108
  std::uint32_t crc;                  // 4092  CRC32C of bytes [0, 4092)
};
static_assert(sizeof(CheckpointV1) == 4096 && offsetof(CheckpointV1, crc) == 4092);
static_assert(std::has_unique_object_representations_v<CheckpointV1>);

// Checks every field but domain_id; `why` names the first that is wrong. kNotADomain,
// kForeignVersion (only with a right checksum, else it is damage), kCorrupt.
[[nodiscard]] Errc verify_checkpoint(const CheckpointV1 &slot, std::uint64_t index,
                                     std::string *why);
void seal(CheckpointV1 *slot) noexcept;
// Was the log file of the record at `lsn` there, and its name durable, before this slot was
// written? Then its absence is a loss. Not said by a clean slot, which needs no log, nor by a
// recovery's first one, which is older than the opening record.
[[nodiscard]] bool promises_log_file(const CheckpointV1 &slot) noexcept;

class CheckpointFile {
 public:
  // kLogMissing when there is none; kCorrupt when neither slot is valid; kNotADomain when it is of
  // another domain; kForeignVersion when one slot is whole and of another version.
  [[nodiscard]] Errc open(const std::string &folder, const std::uint64_t domain_id[2]) noexcept;
  // Creates both slots with `first`, under another name first: there never is half a file. Durable
  // when it returns. Magic number, version, sequence and checksum are filled in; first.domain_id
  // becomes this file's.
  [[nodiscard]] Errc create(const std::string &folder, const CheckpointV1 &first) noexcept;
  [[nodiscard]] int fd() const noexcept { return file_.fd(); }
  [[nodiscard]] const CheckpointV1 &current() const noexcept { return current_; }
  // False when the other slot is damaged: then a newer checkpoint than current() may have been
  // lost.
  [[nodiscard]] bool both_slots_valid() const noexcept { return both_valid_; }
  // Reads again what another process may have written.
  [[nodiscard]] Errc refresh() noexcept;
  // Writes `next` with sequence current + 1 into the other slot; durable when it returns. Magic
  // number, version, sequence, domain_id, previous_lsn and checksum are filled in. After a failure
  // current() is what it was, and the same slot is written next time.
  [[nodiscard]] Errc store(CheckpointV1 next) noexcept;

 private:
  [[nodiscard]] Errc write_slot(const CheckpointV1 &slot) noexcept;
  platform::DiskFile file_;
  std::uint64_t domain_id_[2] = {};
  bool both_valid_ = false;
  CheckpointV1 current_{};
  std::uint64_t durable_sequence_ = 0;  // of the slot whose write by this object succeeded last
};

[[nodiscard]] std::string checkpoint_path(const std::string &folder);

}  // namespace tmh::storage
