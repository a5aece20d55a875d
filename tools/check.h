// tools/check.h -- is a domain sound? Part by part: structure, each heap, chains, the log.
// Invariant: nothing is written, and it ends; every part is looked at, whatever is wrong with
//            another.
// Sharing:   also while the domain is open: what its participants have not put in order is not
//            called damaged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tmh::tools {

// From good to bad: the worst part decides.
enum class PartState : std::uint8_t { kSound, kUnchecked, kTorn, kUnreadable, kDamaged };
static_assert(PartState::kSound < PartState::kUnchecked &&
              PartState::kUnchecked < PartState::kTorn);
static_assert(PartState::kTorn < PartState::kUnreadable &&
              PartState::kUnreadable < PartState::kDamaged);

struct Part {
  std::string name;  // "structure", "heap a.db", "chains", "log"
  PartState state = PartState::kSound;
  std::string message;
};

// Errors: as read_control(): without a control file nothing says what the parts are.
[[nodiscard]] std::vector<Part> check_domain(const std::string &folder);
[[nodiscard]] const char *to_string(PartState state) noexcept;

}  // namespace tmh::tools
