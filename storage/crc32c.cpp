// storage/crc32c.cpp -- one instruction per 8 bytes (about 6 GB/s), or Boost's table.
#include "storage/crc32c.h"

#include <nmmintrin.h>

#include <atomic>
#include <boost/crc.hpp>
#include <cstring>

namespace tmh::storage {

namespace {

__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(std::uint32_t crc, const void *data,
                                                             std::size_t bytes) noexcept {
  const auto *at = static_cast<const unsigned char *>(data);
  std::uint64_t value = static_cast<std::uint32_t>(~crc);
  for (; bytes >= 8; bytes -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    value = _mm_crc32_u64(value, word);
  }
  auto rest = static_cast<std::uint32_t>(value);
  for (; bytes > 0; --bytes, ++at) rest = _mm_crc32_u8(rest, *at);
  return ~rest;
}

using Function = std::uint32_t (*)(std::uint32_t, const void *, std::size_t) noexcept;
std::uint32_t choose(std::uint32_t crc, const void *data, std::size_t bytes) noexcept;
// constinit: constructors of a program's static objects, which may open domains, come before a
// static library's. relaxed: all choose the same.
constinit std::atomic<Function> chosen{choose};
std::uint32_t choose(std::uint32_t crc, const void *data, std::size_t bytes) noexcept {
  const Function best = __builtin_cpu_supports("sse4.2") ? crc32c_sse42 : crc32c_portable;
  chosen.store(best, std::memory_order_relaxed);
  return best(crc, data, bytes);
}

// Boost keeps the remainder unreflected-independent: bits of a 32-bit word in the other order.
std::uint32_t reversed(std::uint32_t x) noexcept {
  std::uint32_t out = 0;
  for (int i = 0; i < 32; ++i, x >>= 1) out = (out << 1) | (x & 1);
  return out;
}

}  // namespace

std::uint32_t crc32c_portable(std::uint32_t crc, const void *data, std::size_t bytes) noexcept {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum(reversed(~crc));
  sum.process_bytes(data, bytes);
  return sum.checksum();
}

std::uint32_t crc32c(std::uint32_t crc, const void *data, std::size_t bytes) noexcept {
  return chosen.load(std::memory_order_relaxed)(crc, data, bytes);
}

}  // namespace tmh::storage
