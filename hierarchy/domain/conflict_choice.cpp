// hierarchy/domain/conflict_choice.cpp -- the refusal, by name.
#include "hierarchy/domain/conflict_choice.h"

#include <string>

#include "platform/failure.h"

namespace tmh::hierarchy {

Errc check_conflict(const Policy &asked, Levels levels, Detection detection) noexcept {
  constexpr ConflictPolicy kUnasked = Policy{}.conflict;
  if (decides_conflicts(levels, detection) || asked.conflict == kUnasked) return Errc::kOk;
  const std::string words = to_string(asked);
  return platform::fail(
      Errc::kBadPolicy,
      "'" + words.substr(0, words.find(',')) +
          (detection == Detection::kLocking
               ? "' decides nothing in a domain that locks its pages: instances wait there"
               : "' decides nothing in a lazy domain of pages: the first committer wins there") +
          "; it decides with detection eager, or with levels hybrid");
}

}  // namespace tmh::hierarchy
