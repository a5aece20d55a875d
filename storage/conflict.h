// storage/conflict.h -- who fails when a first access meets PENDING instances on the same
// page.
// Shape:     a pure decision on small values; each level applies it in its own way (page: under the
//            domain lock; line: to the holder of a locked line).
// Source:    thesis, section 3.3 "Implemented Policies". We differ: the age may be kept over
//            retries (Policy::keep_age), which removes the starvation that the thesis leaves open.
#pragma once

#include <cstdint>

#include <tmh/options.hpp>

#include "platform/assert.h"

namespace tmh::storage {

enum class Verdict : std::uint8_t {
  kFailSelf = 1,    // the instance that makes the access becomes FAILED
  kFailOthers = 2,  // every instance that it conflicts with becomes FAILED
};

// Self makes a first access and conflicts with a set of other PENDING instances, whose ages lie in
// [others_age_min, others_age_max]. A smaller age began earlier. All or nothing: winning against
// some of a page's readers would not let a writer in, so oldest-wins needs self to be older than
// all of them, youngest-wins younger than all. Ages are unique in a domain; should two be equal,
// the discoverer fails, which is always safe.
// REQUIRES: the set is not empty, and others_age_min <= others_age_max.
[[nodiscard]] constexpr Verdict resolve(ConflictPolicy policy, std::uint64_t self_age,
                                        std::uint64_t others_age_min,
                                        std::uint64_t others_age_max) noexcept {
  TMH_ASSERT(others_age_min <= others_age_max);
  bool self_wins = false;
  switch (policy) {
    case ConflictPolicy::kSelfAbort:
      self_wins = false;
      break;
    case ConflictPolicy::kOldestWins:
      self_wins = self_age < others_age_min;
      break;
    case ConflictPolicy::kSelfishAbort:
      self_wins = true;
      break;
    case ConflictPolicy::kYoungestWins:
      self_wins = self_age > others_age_max;
      break;
  }
  return self_wins ? Verdict::kFailOthers : Verdict::kFailSelf;
}

}  // namespace tmh::storage
