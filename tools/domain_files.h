// tools/domain_files.h -- a domain's folder as a mere reader sees it, whether it is open,
// damaged or both.
// Invariant: nothing is written, created or locked; every open ends (no FIFO is waited for); no
//            byte is believed unchecked.
// Sharing:   participants may change everything meanwhile. What they store in several steps is read
//            again before it counts as damage.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "storage/checkpoint_file.h"
#include "storage/control.h"
#include "storage/log/log_files.h"

namespace tmh::tools {

// Error kNotADomain when there is no such folder or no tmh.control in it.
void expect_domain(const std::string &folder);
// Errors: kNotADomain when there is no such folder or no tmh.control in it; what verify_control()
//         says; kIo, kPermission.
[[nodiscard]] std::unique_ptr<storage::ControlFile> read_control(const std::string &folder);
// The same; kNotDurable when the domain is volatile.
[[nodiscard]] std::unique_ptr<storage::ControlFile> read_durable_control(const std::string &folder);
[[nodiscard]] bool has_segments(const storage::ControlFile &control) noexcept;
// Path of a segment's file.
[[nodiscard]] std::string segment_path(const std::string &folder,
                                       const storage::SegmentRecordV1 &record);

struct CheckpointSlots {
  struct Slot {
    Errc error = Errc::kOk;
    std::string why;
    storage::CheckpointV1 content{};
  };
  bool exists = false;  // tmh.checkpoint
  Slot slot[2];
  int current = -1;  // the slot that recovery would use; -1: none
  // The current slot; throws when there is none, as recovery would.
  [[nodiscard]] const storage::CheckpointV1 &get(const std::string &folder) const;
  [[nodiscard]] bool both_valid() const noexcept {
    return slot[0].error == Errc::kOk && slot[1].error == Errc::kOk;
  }
};
[[nodiscard]] CheckpointSlots read_checkpoint(const std::string &folder,
                                              const storage::ControlFile &control);

struct LiveParticipant {
  std::uint32_t slot = 0;
  std::int32_t pid = 0;
  std::string name;
};
// Are the pids in tmh.state's domain of another pid or time namespace (container) than this
// process's? Whether their processes live cannot be told then, and they count as alive.
[[nodiscard]] bool is_elsewhere(const std::byte *domain_state) noexcept;
// Processes that have the domain open; empty when it is closed, or when its participant table
// cannot be read.
[[nodiscard]] std::vector<LiveParticipant> live_participants(const std::string &folder);

// A file of the domain that is not the one that its participants have open, or had when they died,
// and what has become of it. Empty: there is none, or no file says so.
[[nodiscard]] std::string displaced_file(const std::string &folder,
                                         const storage::ControlFile &control);

struct FileFacts {
  bool exists = false;
  std::uint64_t bytes = 0;
  std::uint64_t disk_bytes = 0;  // allocated
};
[[nodiscard]] FileFacts file_facts(const std::string &path) noexcept;

}  // namespace tmh::tools
