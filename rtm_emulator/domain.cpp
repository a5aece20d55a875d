// rtm_emulator/domain.cpp -- joining, stopping the others, and taking over from the dead.
#include "rtm_emulator/domain.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/system.h"

namespace tmh::rtm {

namespace {

constexpr std::uint64_t kMagic = 0x746D'6872'746D'0001;
constexpr std::uint32_t kOwnerDied = 0x4000'0000;  // FUTEX_OWNER_DIED
constexpr std::uint32_t kTidMask = 0x3FFF'FFFF;    // FUTEX_TID_MASK
static_assert(kOwnerDied == FUTEX_OWNER_DIED && kTidMask == FUTEX_TID_MASK);
static_assert(FUTEX_WAIT == 0 && FUTEX_WAKE == 1);
// Derived: some milliseconds, a scheduler's slice; a thread that only waits for a processor has
//          answered by then.
constexpr std::uint32_t kLooksBeforeProc = 2'000;

constexpr std::uint64_t kRecovering = std::uint64_t{1} << 62;
static_assert(kSlots < kRecovering, "a holder is a slot + 1, or who recovers the lock");

Shared *g_shared = nullptr;

void futex_wait(std::atomic<std::uint32_t> &word, std::uint32_t value) noexcept {
  const TimeSpec timeout{0, 2'000'000};  // a dead committer wakes nobody
  (void)system_call(Call::kFutex, address_of(&word), 0 /* FUTEX_WAIT */, value,
                    address_of(&timeout));
}
void futex_wake_all(std::atomic<std::uint32_t> &word) noexcept {
  (void)system_call(Call::kFutex, address_of(&word), 1 /* FUTEX_WAKE */, 0x7FFF'FFFF);
}

// The futex word of a robust mutex; glibc keeps it first.
bool is_slot_alive(const Slot &slot) noexcept {
  const auto word = __atomic_load_n(&slot.life.__data.__lock, __ATOMIC_ACQUIRE);
  return (static_cast<std::uint32_t>(word) & kTidMask) != 0 &&
         (static_cast<std::uint32_t>(word) & kOwnerDied) == 0;
}

char *append_number(char *to, std::uint64_t number) noexcept {
  char digits[20];
  int n = 0;
  do digits[n++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  while (n > 0) *to++ = digits[--n];
  return to;
}
char *append_text(char *to, const char *text) noexcept {
  while (*text != 0) *to++ = *text++;
  return to;
}

// The state letter of /proc/PID/task/TID/stat; 0: there is no such thread.
char thread_state(std::uint64_t pid, std::uint64_t tid) noexcept {
  char path[64], text[256];
  static_assert(sizeof path >= sizeof "/proc//task//stat" + 2 * 20, "two numbers of 64 bits");
  char *end = append_number(append_text(path, "/proc/"), pid);
  end = append_text(append_number(append_text(end, "/task/"), tid), "/stat");
  *end = 0;
  const long file = system_call(Call::kOpen, address_of(path), O_RDONLY | O_CLOEXEC);
  if (is_error(file)) return 0;
  const long count =
      system_call(Call::kPread, static_cast<std::uint64_t>(file), address_of(text), sizeof text, 0);
  (void)system_call(Call::kClose, static_cast<std::uint64_t>(file));
  for (long i = count - 3; i >= 0; --i)  // the name before it may hold anything
    if (text[i] == ')') return text[i + 2];
  return 0;
}

void send_stop(std::uint64_t owner) noexcept {
  // siginfo_t of a queued signal: only such a one carries a value, by which the handler knows it.
  alignas(8) unsigned char info[128];
  clear_bytes(info, sizeof info);
  const int number = kStopSignal, code = -1 /* SI_QUEUE */;
  copy_bytes(info, &number, 4);
  copy_bytes(info + 8, &code, 4);
  copy_bytes(info + 24, &kStopMark, 8);
  static_assert(sizeof info == sizeof(siginfo_t) && offsetof(siginfo_t, si_signo) == 0 &&
                offsetof(siginfo_t, si_code) == 8 && offsetof(siginfo_t, si_value) == 24);
  constexpr long kRtTgsigqueueinfo = 297;
  static_assert(kRtTgsigqueueinfo == SYS_rt_tgsigqueueinfo);
  while (system_call(static_cast<Call>(kRtTgsigqueueinfo), owner >> 32, owner & 0xFFFF'FFFF,
                     kStopSignal, address_of(info)) == -EAGAIN)
    (void)system_call(Call::kSchedYield);
  count(g_shared->counters.stops);
}

bool must_be_stopped(const Slot &slot) noexcept {
  return slot.owner.load(std::memory_order_acquire) != 0 &&
         slot.running.load(std::memory_order_seq_cst) == Running::kNative && is_slot_alive(slot);
}

// A short while in user code: who is awaited mostly runs on another processor and answers within
// microseconds. Then give way.
void wait_a_little(std::uint32_t looks) noexcept {
  constexpr std::uint32_t kLooksInPlace = 400;
  if (looks < kLooksInPlace)
    asm volatile("pause");
  else
    (void)system_call(Call::kSchedYield);
}

// REQUIRES a stop signal on its way. Until the thread has left native code, is dead, or cannot run
// anything but the stop handler next.
void await_stopped(const Slot &slot) noexcept {
  const std::uint64_t owner = slot.owner.load(std::memory_order_acquire);
  for (std::uint32_t looks = 1; slot.running.load(std::memory_order_seq_cst) == Running::kNative;
       ++looks) {
    if (slot.owner.load(std::memory_order_acquire) != owner || !is_slot_alive(slot)) return;
    if (looks % kLooksBeforeProc == 0) {
      const char state = thread_state(owner >> 32, owner & 0xFFFF'FFFF);
      // Stopped (T, t) or in the kernel for longer (D: the parent of vfork(), say): the pending
      // signal comes first when it goes on.
      if (state == 0 || state == 'T' || state == 't' || state == 'D' || state == 'Z' ||
          state == 'X')
        return;
      sleep_ns(100'000);
      // glibc's handler may have taken the first one, in the moment before ours was set again.
      send_stop(owner);
    }
    wait_a_little(looks);
  }
}

bool is_holder_alive(std::uint64_t holder) noexcept {
  if ((holder & kRecovering) != 0) return is_process_alive(static_cast<std::uint32_t>(holder));
  return is_slot_alive(g_shared->slots[holder - 1]);
}

// A dead holder has published everything or nothing (TxMemory::publish).
void take_over_from_dead(std::uint64_t holder) noexcept {
  if (holder == 0 || is_holder_alive(holder)) return;
  const auto self = kRecovering | pid_and_tid() >> 32;
  if (!g_shared->lock.compare_exchange_strong(holder, self)) return;
  count(g_shared->counters.recovered);
  if (g_shared->seq.load() % 2 != 0) g_shared->seq.fetch_add(1);
  g_shared->lock.store(0);
  futex_wake_all(g_shared->seq);
}

void tell(const char *text, const char *what) noexcept {
  std::fprintf(stderr, "tmh-rtm-emulation: %s%s\n", text, what == nullptr ? "" : what);
}

}  // namespace

Shared &shared() noexcept {
  TMH_ASSERT(g_shared != nullptr);
  return *g_shared;
}

bool open_domain(const char *path) noexcept {
  if (path == nullptr) {
    g_shared = static_cast<Shared *>(map_memory(sizeof(Shared), Sharing::kShared));
    if (g_shared == nullptr) tell("no memory for the domain", nullptr);
  } else {
    const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat status;
    if (file < 0 || ::fstat(file, &status) != 0 ||
        (status.st_size != 0 && status.st_size != sizeof(Shared)) ||
        (status.st_size == 0 && ::ftruncate(file, sizeof(Shared)) != 0)) {
      tell("no domain file of this version can be opened or made: ", path);
      return false;
    }
    void *memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) {
      tell("the domain file cannot be mapped: ", path);
      return false;
    }
    g_shared = static_cast<Shared *>(memory);
  }
  if (g_shared == nullptr) return false;
  std::uint64_t found = 0;
  if (!g_shared->magic.compare_exchange_strong(found, kMagic) && found != kMagic) {
    tell("this file is no domain: ", path);
    return false;
  }
  return true;
}

std::uint32_t join() noexcept {
  const std::uint64_t self = pid_and_tid();
  std::uint32_t free = 0;
  while (!g_shared->joining.compare_exchange_weak(free, static_cast<std::uint32_t>(self))) {
    // The tid of who looks: a dead one must not keep everybody out. /proc knows threads under their
    // own numbers, too.
    if (free != 0 && !is_process_alive(free))
      (void)g_shared->joining.compare_exchange_strong(free, 0);
    free = 0;
    (void)system_call(Call::kSchedYield);
  }
  std::uint32_t slot = 0;
  while (slot < kSlots && g_shared->slots[slot].owner.load() != 0 &&
         is_slot_alive(g_shared->slots[slot]))
    ++slot;
  if (slot < kSlots) {
    Slot &mine = g_shared->slots[slot];
    // Its last owner may have died with the commit lock, which must not pass to us.
    if (const std::uint64_t holder = g_shared->lock.load(); holder == slot + 1)
      take_over_from_dead(holder);
    mine.owner.store(0);
    mine.running.store(Running::kSafe);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mine.life, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(&mine.life);
    mine.doomed.store(0);
    // What the last owner had, if it was killed.
    for (std::uint32_t word = 0; word < kConflictWords; ++word) {
      g_shared->readers[word].fetch_and(~(std::uint64_t{1} << slot % 64));
      g_shared->writers[word].fetch_and(~(std::uint64_t{1} << slot % 64));
    }
    mine.owner.store(self);
    std::uint32_t used = g_shared->slots_used.load();
    while (used <= slot && !g_shared->slots_used.compare_exchange_weak(used, slot + 1)) {
    }
  }
  g_shared->joining.store(0);
  return slot;
}

void quit(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kSlots);
  g_shared->slots[slot].owner.store(0);
  pthread_mutex_unlock(&g_shared->slots[slot].life);
}

std::uint32_t even_seq() noexcept {
  for (;;) {
    const std::uint32_t seq = g_shared->seq.load(std::memory_order_seq_cst);
    if (seq % 2 == 0) return seq;
    futex_wait(g_shared->seq, seq);
    if (g_shared->seq.load() == seq) take_over_from_dead(g_shared->lock.load());
  }
}

void leave_native(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kSlots);
  g_shared->slots[slot].running.store(Running::kSafe, std::memory_order_seq_cst);
}

void enter_native(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kSlots);
  Slot &mine = g_shared->slots[slot];
  for (;;) {
    (void)even_seq();
    mine.running.store(Running::kNative, std::memory_order_seq_cst);
    if (g_shared->seq.load(std::memory_order_seq_cst) % 2 == 0) return;
    mine.running.store(Running::kSafe, std::memory_order_seq_cst);
  }
}

void begin_publication(std::uint32_t slot, Others others) noexcept {
  TMH_ASSERT(slot < kSlots);
  std::uint64_t holder = 0;
  for (std::uint32_t looks = 1; !g_shared->lock.compare_exchange_weak(holder, slot + 1); ++looks) {
    if (looks % 1024 == 0) take_over_from_dead(holder);
    holder = 0;
    wait_a_little(looks);
  }
  g_shared->seq.fetch_add(1, std::memory_order_seq_cst);
  if (others == Others::kRunOn) return;
  const std::uint32_t used = g_shared->slots_used.load();
  for (std::uint32_t other = 0; other < used; ++other)
    if (other != slot && must_be_stopped(g_shared->slots[other]))
      send_stop(g_shared->slots[other].owner.load());
  for (std::uint32_t other = 0; other < used; ++other)
    if (other != slot && must_be_stopped(g_shared->slots[other]))
      await_stopped(g_shared->slots[other]);
}

void end_publication() noexcept {
  g_shared->seq.fetch_add(1, std::memory_order_seq_cst);
  g_shared->lock.store(0, std::memory_order_release);
  futex_wake_all(g_shared->seq);
}

bool several_processes(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kSlots);
  const std::uint64_t mine = g_shared->slots[slot].owner.load() >> 32;
  const std::uint32_t used = g_shared->slots_used.load();
  for (std::uint32_t other = 0; other < used; ++other) {
    const std::uint64_t owner = g_shared->slots[other].owner.load();
    if (owner != 0 && owner >> 32 != mine && is_slot_alive(g_shared->slots[other])) return true;
  }
  return false;
}

bool is_process_alive(std::uint32_t pid) noexcept {
  const char state = thread_state(pid, pid);
  return state != 0 && state != 'Z' && state != 'X';
}

}  // namespace tmh::rtm
