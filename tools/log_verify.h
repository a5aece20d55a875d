// tools/log_verify.h -- is the redo log what recovery wants? From the checkpoint on, record by
// record.
// Sharing:   also while the domain is open; see log_walk.h. Writes nothing, and ends.
#pragma once

#include <string>

#include "tools/domain_files.h"
#include "tools/log_walk.h"

namespace tmh::tools {

// The domain's creation was cut off before there was anything to lose.
[[nodiscard]] bool was_never_made(const std::string &folder, const storage::ControlFile &control,
                                  const CheckpointSlots &slots);

struct LogVerdict {
  bool was_never_made = false;  // the rest is empty then
  storage::Lsn start_lsn = 0;
  std::uint64_t transactions = 0, log_bytes = 0;
  LogEnd end;
  bool both_slots_valid = true;
  bool is_open = false;
};
// Throws what keeps it from reading anything: no usable checkpoint slot, say.
[[nodiscard]] LogVerdict verify_log(const std::string &folder, const storage::ControlFile &control);

// "clean", "torn", "damaged", "unreadable".
[[nodiscard]] const char *state_word(const LogEnd &end) noexcept;

}  // namespace tmh::tools
