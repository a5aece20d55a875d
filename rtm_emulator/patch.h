// rtm_emulator/patch.h -- XBEGIN made an instruction that traps: also where the processor
// has RTM, and cheaply where it has none.
// Shape:     XBEGIN's first byte (C7) becomes HLT (F4), a general protection fault in user code:
//            SIGSEGV. One byte: whoever runs there meanwhile sees one instruction or the other. The
//            rest stays, so that the displacement can be read. A set of patched addresses. Why HLT:
//            KVM makes every #UD an exit to the hypervisor. Signal and sigreturn after UD2 took 8.6
//            us in our virtual machine, after HLT 1.5. INT3 is as cheap, but debuggers take it for
//            theirs.
// Invariant: an XBEGIN is replaced only at an instruction boundary: it has just raised SIGILL; or a
//            function's unwind entry (.eh_frame) says where it begins and ends, it decodes without
//            a gap from its begin up to there, and the fallback lies in the same object's code.
//            Bytes that merely look like one, in data or inside another instruction, stay. Code
//            without an unwind entry is left alone: tmh_rtm_emulation_patch() names it.
// Contexts:  searching: normal code, other threads not in the code being searched. is_patched():
//            everywhere. replace_trapped(): in the handler.
// Source:    LSB core, 10.6 (.eh_frame, .eh_frame_hdr); Linux arch/x86/kvm/vmx/vmx.c,
//            vmx_update_exception_bitmap().
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::rtm {

inline constexpr std::uint8_t kXbeginBytes[] = {0xC7, 0xF8}, kHlt = 0xF4;
inline constexpr std::size_t kXbeginLength = 6;
static_assert(kXbeginLength == sizeof kXbeginBytes + sizeof(std::int32_t),
              "a displacement follows");

// An XBEGIN was replaced at `rip`, and no other code has come there since.
[[nodiscard]] bool is_patched(std::uint64_t rip) noexcept;
// REQUIRES that an XBEGIN at `rip` has raised SIGILL. Where the code is shared with other processes
// it stays as it is.
void replace_trapped(std::uint64_t rip) noexcept;
void forget_replacing() noexcept;  // in a child of fork(): who was replacing is not there
// Both answer how many were replaced now.
std::size_t patch_range(std::uint64_t begin, std::uint64_t end, std::uint64_t object_begin,
                        std::uint64_t object_end) noexcept;
std::size_t patch_loaded_objects() noexcept;

}  // namespace tmh::rtm
