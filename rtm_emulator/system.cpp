// rtm_emulator/system.cpp -- accesses that may fault.
#include "rtm_emulator/system.h"

#include <sys/syscall.h>
#include <time.h>

// Written in assembly, so that a fault inside has one place to go on: the label behind, with rax as
// the answer. Every path keeps rsp. By words: a line is compared in 5 ns, by repe cmpsb in 9;
// copied in 2, by rep movsq in 12 (Intel Xeon, family 6, model 167).
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
  jmp 2f
1:
  movq (%rsi), %rax
  movq %rax, (%rdi)
  addq $8, %rsi
  addq $8, %rdi
  subq $8, %rdx
2:
  cmpq $8, %rdx
  jae 1b
  movq %rdx, %rcx
  rep movsb
  movl $1, %eax
  ret
tmh_rtm_compare:
  jmp 2f
1:
  movq (%rdi), %rax
  cmpq (%rsi), %rax
  jne 5f
  addq $8, %rdi
  addq $8, %rsi
  subq $8, %rdx
2:
  cmpq $8, %rdx
  jae 1b
  jmp 4f
3:
  movb (%rdi), %al
  cmpb (%rsi), %al
  jne 5f
  incq %rdi
  incq %rsi
  decq %rdx
4:
  testq %rdx, %rdx
  jne 3b
  movl $2, %eax
  ret
5:
  movl $1, %eax
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

namespace {

constexpr bool is(Call call, long number) noexcept { return static_cast<long>(call) == number; }

}  // namespace

static_assert(is(Call::kWrite, SYS_write) && is(Call::kOpen, SYS_open));
static_assert(is(Call::kClose, SYS_close) && is(Call::kPread, SYS_pread64));
static_assert(is(Call::kMmap, SYS_mmap) && is(Call::kMunmap, SYS_munmap));
static_assert(is(Call::kMremap, SYS_mremap) && is(Call::kMadvise, SYS_madvise));
static_assert(is(Call::kRtSigaction, SYS_rt_sigaction));
static_assert(is(Call::kRtSigprocmask, SYS_rt_sigprocmask));
static_assert(is(Call::kSigaltstack, SYS_sigaltstack) && is(Call::kTgkill, SYS_tgkill));
static_assert(is(Call::kSchedYield, SYS_sched_yield) && is(Call::kNanosleep, SYS_nanosleep));
static_assert(is(Call::kGetpid, SYS_getpid) && is(Call::kGettid, SYS_gettid));
static_assert(is(Call::kFutex, SYS_futex));
static_assert(sizeof(TimeSpec) == sizeof(timespec) &&
              offsetof(TimeSpec, nanoseconds) == offsetof(timespec, tv_nsec));

bool try_copy_bytes(void *to, const void *from, std::size_t count) noexcept {
  return tmh_rtm_copy_first(to, from, count) != 0;
}

bool try_compare_bytes(const void *left, const void *right, std::size_t count,
                       bool *equal) noexcept {
  const std::uint64_t answer = tmh_rtm_compare(left, right, count);
  *equal = answer == 2;
  return answer != 0;
}

std::uint64_t recover_access(std::uint64_t rip) noexcept {
  const bool ours = rip >= reinterpret_cast<std::uint64_t>(&tmh_rtm_copy_first) &&
                    rip < address_of(tmh_rtm_copy_last);
  return ours ? address_of(tmh_rtm_access_failed) : 0;
}

}  // namespace tmh::rtm
