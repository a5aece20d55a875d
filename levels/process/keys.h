// levels/process/keys.h -- protection keys: one of copies, one of home, one of the C
// library's data.
// Source:    pkeys(7).
#pragma once

#include <cstdint>

namespace tmh::itm::pages {

// First: are there keys? TMH_ITM_KEYS=off: none are wanted. Takes the one of the C library's data.
void look_for_keys() noexcept;
// The first task's view starts: takes the others. Where the program has them, there are no keys.
void take_keys() noexcept;
// Where PKRU lies in a signal's frame, in bytes; 0: no keys.
inline std::uint32_t key_rights_offset = 0;
[[nodiscard]] inline bool has_keys() noexcept { return key_rights_offset != 0; }

// Of the two kinds of mappings, and of the C library's data; -1: no keys.
inline int copy_key = -1, shared_key = -1, runtime_key = -1;

}  // namespace tmh::itm::pages
