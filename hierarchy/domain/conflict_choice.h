// hierarchy/domain/conflict_choice.h -- where a choice of the conflict policy decides anything.
// Shape:     pure. At lines a committer meets another's locked line, and in eager domains a first
//            access meets other running instances: one of them chooses which fails. Lazy domains of
//            pages find a conflict at validation, where the other instance has committed.
// Source:    thesis, section 3.3; docs/design.md 4.
#pragma once

#include <tmh/error.hpp>
#include <tmh/options.hpp>

namespace tmh::hierarchy {

[[nodiscard]] constexpr bool decides_conflicts(Levels levels, Detection detection) noexcept {
  return levels == Levels::kHybrid || detection == Detection::kEager;
}

// kBadPolicy: the domain would do nothing of what `asked` asks for. The default asks for nothing.
[[nodiscard]] Errc check_conflict(const Policy &asked, Levels levels, Detection detection) noexcept;

}  // namespace tmh::hierarchy
