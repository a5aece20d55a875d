// platform/protection_keys.h -- protection keys: a thread opens and closes what is mapped under a
// key without a system call.
// Shape:     each domain of a process has a key of its own, up to kKeysMax; domains beyond that
//            share. A key that a domain gives back stays with the process, for the next domain.
//            kNoKey where the processor, the kernel or the process has none.
// Invariant: a thread that does not run an instance has the key shut, and so has a signal handler,
//            to which the kernel gives the default rights and takes them back at its return.
// Sharing:   threads. No lock: a child that fork() makes while another thread takes a key may take
//            keys itself.
// Caveat:    a thread that is created inside an instance inherits its creator's rights, as clone(2)
//            copies them.
// Contexts:  key_access(), set_key_access(): everywhere but between XBEGIN and XEND, where WRPKRU
//            aborts.
// Source:    pkeys(7), pkey_alloc(2), pkey_mprotect(2); Intel SDM vol. 1, section 13.1 (PKRU).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "platform/assert.h"

namespace tmh::platform {

inline constexpr int kNoKey = -1;
// Of the 15 of a process: the program and other libraries have the rest.
inline constexpr std::uint32_t kKeysMax = 8;

// The two bits of PKRU that belong to one key.
enum class KeyAccess : std::uint32_t {
  kOpen = 0,
  kReadOnly = 2,
  kShut = 3,
};

// A domain's key, or none. At its end, REQUIRES: nothing of the domain is mapped under the key, and
// no thread has it open.
class DomainKey {
 public:
  DomainKey() = default;
  DomainKey(DomainKey &&other) noexcept : key_(std::exchange(other.key_, kNoKey)) {}
  DomainKey &operator=(DomainKey &&other) noexcept {
    std::swap(key_, other.key_);
    return *this;
  }
  ~DomainKey();

  // Holds kNoKey when there is none to be had; key_refusal() says why.
  [[nodiscard]] static DomainKey take() noexcept;
  [[nodiscard]] int number() const noexcept { return key_; }

 private:
  explicit DomainKey(int key) noexcept : key_(key) {}
  int key_ = kNoKey;
};
// Would take() find one?
[[nodiscard]] bool has_keys() noexcept;
[[nodiscard]] std::string key_refusal();

// Of the calling thread. REQUIRES a key.
[[nodiscard]] inline std::uint32_t read_key_rights() noexcept {
  std::uint32_t rights = 0, high = 0;
  asm volatile(".byte 0x0f, 0x01, 0xee" : "=a"(rights), "=d"(high) : "c"(0));  // RDPKRU
  return rights;
}
// "memory": no access to what the key guards moves across.
inline void write_key_rights(std::uint32_t rights) noexcept {
  asm volatile(".byte 0x0f, 0x01, 0xef" : : "a"(rights), "c"(0), "d"(0) : "memory");  // WRPKRU
}
// A write costs 14 ns, a comparison 1.
inline void set_key_access(int key, KeyAccess access) noexcept {
  TMH_ASSERT(key >= 0 && key < 16);
  const std::uint32_t shift = 2 * static_cast<std::uint32_t>(key);
  const std::uint32_t before = read_key_rights();
  const std::uint32_t after = (before & ~(3u << shift)) | static_cast<std::uint32_t>(access)
                                                              << shift;
  if (after != before) write_key_rights(after);
}

// Opens what is mapped under `key` to this thread, until its end. kNoKey: does nothing.
class OpenKey {
 public:
  explicit OpenKey(int key) noexcept : key_(key) {
    if (key_ == kNoKey) return;
    before_ = read_key_rights();
    is_changed_ = (before_ >> 2 * static_cast<std::uint32_t>(key_) & 3u) != 0;
    if (is_changed_) set_key_access(key_, KeyAccess::kOpen);
  }
  OpenKey(const OpenKey &) = delete;
  OpenKey &operator=(const OpenKey &) = delete;
  ~OpenKey() {
    if (is_changed_) write_key_rights(before_);
  }

 private:
  const int key_;
  std::uint32_t before_ = 0;
  bool is_changed_ = false;
};

}  // namespace tmh::platform
