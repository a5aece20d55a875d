// platform/protection_keys.cpp -- which keys the process has, and which domains use them.
#include "platform/protection_keys.h"

#include <cpuid.h>
#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "platform/assert.h"

namespace tmh::platform {

namespace {

constexpr int kKeyNumbers = 16;

// By number: how many domains use it, plus 1 when it is this library's; 0: it is not.
constinit std::array<std::atomic<std::uint32_t>, kKeyNumbers> users{};
static_assert(kKeysMax < kKeyNumbers);
constinit std::atomic<std::uint32_t> own_keys{0};
constinit std::atomic<int> last_error{0};

// A key of ours that no domain uses, or kNoKey.
int reuse_key() noexcept {
  for (int key = 1; key < kKeyNumbers; ++key) {
    std::uint32_t unused = 1;
    // Acquire: pairs with ~DomainKey(); what was mapped under the key is gone.
    if (users[static_cast<std::size_t>(key)].compare_exchange_strong(unused, 2,
                                                                     std::memory_order_acquire))
      return key;
  }
  return kNoKey;
}

int share_key() noexcept {
  int best = kNoKey;
  std::uint32_t fewest = ~0u;
  for (int key = 1; key < kKeyNumbers; ++key) {
    const std::uint32_t count =
        users[static_cast<std::size_t>(key)].load(std::memory_order_relaxed);
    if (count == 0 || count >= fewest) continue;
    best = key;
    fewest = count;
  }
  if (best != kNoKey) users[static_cast<std::size_t>(best)].fetch_add(1, std::memory_order_acquire);
  return best;
}

// From the kernel.
int allocate_key() noexcept {
  if (own_keys.fetch_add(1, std::memory_order_relaxed) < kKeysMax) {
    const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key > 0 && key < kKeyNumbers) {
      users[static_cast<std::size_t>(key)].store(2, std::memory_order_release);
      return key;
    }
    last_error.store(errno, std::memory_order_relaxed);
  }
  own_keys.fetch_sub(1, std::memory_order_relaxed);
  return kNoKey;
}

// The child runs no instance, whatever its parent's thread ran.
void shut_in_child() noexcept {
  for (int key = 1; key < kKeyNumbers; ++key)
    if (users[static_cast<std::size_t>(key)].load(std::memory_order_relaxed) != 0)
      set_key_access(key, KeyAccess::kShut);
}
// Does a child shut the keys? Without that no key is taken. By a call, as a static object of the
// program may open a domain before this file's objects are made.
bool is_shut_in_child() noexcept {
  static const bool is_handled = pthread_atfork(nullptr, nullptr, shut_in_child) == 0;
  return is_handled;
}
// While the library is loaded, as no thread can be forking then.
[[maybe_unused]] const bool is_handled_early = is_shut_in_child();

// Has the kernel turned them on? CPUID 7.ECX bit 4, OSPKE (Intel SDM). Where it has not, some
// kernels say ENOSPC.
bool has_processor_keys() noexcept {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> 4 & 1) != 0;
}

}  // namespace

DomainKey DomainKey::take() noexcept {
  if (!is_shut_in_child()) return {};
  int key = reuse_key();
  if (key == kNoKey) key = allocate_key();
  return DomainKey(key != kNoKey ? key : share_key());
}

// Release: pairs with reuse_key().
DomainKey::~DomainKey() {
  TMH_ASSERT(key_ == kNoKey ||
             users[static_cast<std::size_t>(key_)].load(std::memory_order_relaxed) > 1);
  if (key_ != kNoKey) users[static_cast<std::size_t>(key_)].fetch_sub(1, std::memory_order_release);
}

bool has_keys() noexcept { return DomainKey::take().number() != kNoKey; }

std::string key_refusal() {
  int error = has_keys() ? 0 : last_error.load(std::memory_order_relaxed);
  if (error == ENOSPC && !has_processor_keys()) error = EINVAL;
  switch (error) {
    case 0:
      return {};
    case ENOSPC:
      return "the process has used up its protection keys";
    case ENOSYS:
      return "the kernel was built without protection keys, or a sandbox hides them";
    case EINVAL:
      return "the processor has no protection keys, or the kernel does not use them (no 'ospke' in "
             "/proc/cpuinfo)";
    default:
      return std::string("pkey_alloc: ") + std::strerror(error);
  }
}

}  // namespace tmh::platform
