// rtm_emulator/domain.h -- what the threads and processes share: commit lock, publication
// number, who runs natively.
// Shape:     one mapping, inherited by fork(), or a file that several programs name
//            (TMH_RTM_EMULATION_DOMAIN). A slot per thread.
// Invariant: (1) while `seq` is odd, no registered thread executes the program's instructions: each
//            is in the emulator, in the stop handler, or its stop signal is pending and nothing but
//            that handler can run next. (2) seq is odd only while the commit lock is held.
// Ordering:  committer: seq odd, then reads states; thread: state native, then reads seq; both
//            seq_cst, so one of them sees the other.
// Sharing:   between processes. Owner death: a slot's robust mutex is held by its thread for life,
//            so that the kernel marks it at the thread's end, also by SIGKILL and exec(). A dead
//            holder of the commit lock has published everything or nothing (publish.h).
// Contexts:  join(), quit(): normal code. Everything else: inside the emulator and in the stop
//            handler.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "rtm_emulator/policy.h"

namespace tmh::rtm {

// Kept out of every signal mask by glibc, which uses it to stop threads for setuid(): so nobody
// blocks it by accident. Our signals carry kStopMark; others go to glibc's handler.
inline constexpr int kStopSignal = 33;
inline constexpr std::uint64_t kStopMark = 0x746D'685F'7374'6F70;  // "tmh_stop"

inline constexpr std::uint32_t kSlots = 1024;
inline constexpr std::uint32_t kConflictWords = 4096;

enum class Running : std::uint32_t { kSafe, kNative };

struct alignas(64) Slot {
  pthread_mutex_t life;              // robust, shared; held by the owner until it ends
  std::atomic<std::uint64_t> owner;  // pid << 32 | tid; 0: free
  std::atomic<Running> running;
  std::atomic<std::uint32_t> doomed;  // requester wins: somebody took a line of the running attempt
};
static_assert(sizeof(Slot) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free &&
                  std::atomic<Running>::is_always_lock_free,
              "processes share them");

struct Shared {
  std::atomic<std::uint64_t> magic;
  alignas(64) std::atomic<std::uint64_t> lock;  // 0: free; slot + 1; or who recovers it: 2^62 | pid
  std::atomic<std::uint32_t> seq;               // also the futex of the stopped
  std::atomic<std::uint32_t> slots_used;        // all in use lie below
  std::atomic<std::uint32_t> joining;           // 1: somebody looks for a slot
  alignas(64) Slot slots[kSlots];
  // Requester wins: bit (slot % 64) of who reads and who writes a line, by the line's hash.
  std::atomic<std::uint64_t> readers[kConflictWords], writers[kConflictWords];
  Counters counters;
};
static_assert(std::is_standard_layout_v<Shared>, "programs that share one may be compiled apart");

// path null: a domain of this process and its children. False: told on standard error.
[[nodiscard]] bool open_domain(const char *path) noexcept;
[[nodiscard]] Shared &shared() noexcept;

// The calling thread gets a slot, and is safe until it enters native code; kSlots: none is free.
[[nodiscard]] std::uint32_t join() noexcept;
void quit(std::uint32_t slot) noexcept;  // of a thread that has never been native

void leave_native(std::uint32_t slot) noexcept;
void enter_native(std::uint32_t slot) noexcept;   // waits while somebody publishes
[[nodiscard]] std::uint32_t even_seq() noexcept;  // waits while somebody publishes

// Takes the commit lock and makes seq odd; all native threads are stopped on return, unless told
// not to.
enum class Others : std::uint8_t { kStop, kRunOn };
void begin_publication(std::uint32_t slot, Others others) noexcept;
void end_publication() noexcept;
[[nodiscard]] bool several_processes(std::uint32_t slot) noexcept;

[[nodiscard]] bool is_process_alive(std::uint32_t pid) noexcept;

}  // namespace tmh::rtm
