// compat/libitm/way_back.cpp -- the instructions that restore variables, and copies of them.
// Invariant: a copy's page can be written, or run, never both; once published it does not change.
#include "compat/libitm/way_back.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "compat/libitm/abi.h"
#include "compat/libitm/process.h"
#include "platform/assert.h"

namespace tmh::itm {

namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::uint32_t kWaysMax = 4096;  // of a program: places of begins, times results
struct alignas(kPageBytes) Page {
  std::uint8_t code[kPageBytes];
};
static_assert(sizeof(Page) == kPageBytes);
Page code_pages[kWaysMax];
struct Way {
  std::atomic<std::uintptr_t> from{0};  // 0: not published
  std::uint32_t result = 0;
  const std::uint8_t *to = nullptr;
};
Way ways[kWaysMax];
std::atomic<std::uint32_t> count{0};

struct Part {
  const std::uint8_t *begin = nullptr, *end = nullptr;
};

// mov %eax, R; and $8, R; test R, R; je: what restores lies between it and where it jumps to. With
// -fcf-protection behind endbr64.
Part find_restoring(const std::uint8_t *code) noexcept {
  const std::uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  if (std::memcmp(code, endbr64, sizeof endbr64) == 0) code += sizeof endbr64;
  const std::uint8_t to = code[1] & 7;
  const std::uint8_t looks[] = {0x89,
                                static_cast<std::uint8_t>(0xc0 | to),
                                0x83,
                                static_cast<std::uint8_t>(0xe0 | to),
                                0x08,
                                0x85,
                                static_cast<std::uint8_t>(0xc0 | to << 3 | to)};
  if (to == 0 || std::memcmp(code, looks, sizeof looks) != 0) return {};
  code += sizeof looks;
  if (code[0] == 0x74 && code[1] < 0x80) return {code + 2, code + 2 + code[1]};
  std::int32_t distance = 0;
  std::memcpy(&distance, code + 2, sizeof distance);
  if (code[0] != 0x0f || code[1] != 0x84 || distance < 0) return {};
  return {code + 6, code + 6 + distance};
}

// mov $result, %eax; movabs $to, %rdx; jmp *%rdx. The code looks at none but %eax.
std::uint8_t *add_jump(std::uint8_t *out, std::uint32_t result, const std::uint8_t *to) noexcept {
  *out++ = 0xb8;
  std::memcpy(out, &result, sizeof result);
  out += sizeof result;
  *out++ = 0x48;
  *out++ = 0xba;
  std::memcpy(out, &to, sizeof to);
  out += sizeof to;
  *out++ = 0xff;
  *out++ = 0xe2;
  return out;
}
constexpr std::size_t kJumpBytes = 17;
static_assert(kJumpBytes < kPageBytes);

std::uintptr_t make(std::uintptr_t from, const Part &part, std::uint32_t result) noexcept {
  TMH_ASSERT(part.begin < part.end);
  const auto bytes = static_cast<std::size_t>(part.end - part.begin);
  const std::uint32_t number = count.fetch_add(1, std::memory_order_relaxed);  // its own, no order
  if (number >= kWaysMax || bytes + kJumpBytes > kPageBytes)
    die("too much code that g++ -O0 has compiled begins again; -O1 needs no help");
  std::uint8_t *const code = code_pages[number].code;
  std::memcpy(code, part.begin, bytes);
  [[maybe_unused]] const std::uint8_t *const end = add_jump(code + bytes, result, part.end);
  TMH_ASSERT(end == code + bytes + kJumpBytes);
  if (mprotect(code, kPageBytes, PROT_READ | PROT_EXEC) != 0)
    die("code that g++ -O0 has compiled cannot begin again: the system lets no memory be run that "
        "was written to; -O1 needs no help");
  ways[number].result = result;
  ways[number].to = part.end;
  ways[number].from.store(from, std::memory_order_release);  // the code is there
  return reinterpret_cast<std::uintptr_t>(code);
}

}  // namespace

std::uintptr_t way_back(std::uintptr_t next_instruction, std::uint32_t result) noexcept {
  if ((result & kRestoreLive) == 0) return next_instruction;
  const Part part = find_restoring(reinterpret_cast<const std::uint8_t *>(next_instruction));
  if (part.begin == part.end) return next_instruction;
  const std::uint32_t made = count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < made && i < kWaysMax; ++i)
    // acquire: pairs with make(). The code may be that of another library there since.
    if (ways[i].from.load(std::memory_order_acquire) == next_instruction &&
        ways[i].result == result && ways[i].to == part.end &&
        std::memcmp(code_pages[i].code, part.begin,
                    static_cast<std::size_t>(part.end - part.begin)) == 0)
      return reinterpret_cast<std::uintptr_t>(code_pages[i].code);
  return make(next_instruction, part, result);
}

}  // namespace tmh::itm
