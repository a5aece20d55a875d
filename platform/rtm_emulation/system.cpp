// platform/rtm_emulation/system.cpp -- accesses that may fault.
#include "platform/rtm_emulation/system.h"

// Written in assembly, so that a fault inside has one place to go on: the label behind, with rax as the answer. Every path keeps rsp.
asm(R"(
  .text
  .globl tmh_rtm_copy_first
  .hidden tmh_rtm_copy_first
  .globl tmh_rtm_access_failed
  .hidden tmh_rtm_access_failed
  .globl tmh_rtm_copy_last
  .hidden tmh_rtm_copy_last
  .globl tmh_rtm_compare
  .hidden tmh_rtm_compare
  .type tmh_rtm_copy_first, @function
tmh_rtm_copy_first:
  movq %rdx, %rcx
  shrq $3, %rcx
  rep movsq
  movq %rdx, %rcx
  andl $7, %ecx
  rep movsb
  movl $1, %eax
  ret
tmh_rtm_compare:
  movq %rdx, %rcx
  xorl %eax, %eax
  repe cmpsb
  sete %al
  addl $1, %eax
  ret
tmh_rtm_copy_last:
  nop
tmh_rtm_access_failed:
  xorl %eax, %eax
  ret
  .size tmh_rtm_copy_first, .-tmh_rtm_copy_first
)");

extern "C" {
std::uint64_t tmh_rtm_copy_first(void *to, const void *from, std::size_t count);
std::uint64_t tmh_rtm_compare(const void *left, const void *right, std::size_t count);
extern const char tmh_rtm_copy_last[];
extern const char tmh_rtm_access_failed[];
}

namespace tmh::rtm {

bool try_copy_bytes(void *to, const void *from, std::size_t count) noexcept {
  return tmh_rtm_copy_first(to, from, count) != 0;
}

bool try_compare_bytes(const void *left, const void *right, std::size_t count, bool *equal) noexcept {
  const std::uint64_t answer = tmh_rtm_compare(left, right, count);
  *equal = answer == 2;
  return answer != 0;
}

std::uint64_t recover_access(std::uint64_t rip) noexcept {
  const bool ours = rip >= reinterpret_cast<std::uint64_t>(&tmh_rtm_copy_first) && rip < address_of(tmh_rtm_copy_last);
  return ours ? address_of(tmh_rtm_access_failed) : 0;
}

}  // namespace tmh::rtm
