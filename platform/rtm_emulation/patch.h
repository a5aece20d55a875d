// platform/rtm_emulation/patch.h -- forced emulation: XBEGIN made an instruction that traps, also where the processor has RTM.
// Shape:     XBEGIN's first two bytes (C7 F8) become UD2 (0F 0B); its displacement stays where it is. A set of patched addresses.
// Invariant: an XBEGIN is replaced only at an instruction boundary: a function's unwind entry (.eh_frame) says where it begins and ends, it
//            decodes without a gap from its begin up to there, and the fallback lies in the same object's code. Bytes that merely look like one,
//            in data or inside another instruction, stay. Code without an unwind entry is left alone: tmh_rtm_emulation_patch() names it.
// Contexts:  searching: normal code, other threads not in the code being searched. is_patched(): everywhere.
// Source:    LSB core, 10.6 (.eh_frame, .eh_frame_hdr).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::rtm {

inline constexpr std::uint8_t kXbeginBytes[] = {0xC7, 0xF8};
inline constexpr std::size_t kXbeginLength = 6;

[[nodiscard]] bool is_patched(std::uint64_t rip) noexcept;
// Both answer how many were replaced now.
std::size_t patch_range(std::uint64_t begin, std::uint64_t end, std::uint64_t object_begin,
                        std::uint64_t object_end) noexcept;
std::size_t patch_loaded_objects() noexcept;

}  // namespace tmh::rtm
