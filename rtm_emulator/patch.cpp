// rtm_emulator/patch.cpp -- replacing an instruction; the search through unwind tables.
#include "rtm_emulator/patch.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <Zydis/Zydis.h>

#include <atomic>
#include <cstring>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/pages.h"
#include "rtm_emulator/system.h"

namespace tmh::rtm {

namespace {

// A hash set that only grows; 0 is empty. Derived: a program has tens of XBEGIN, glibc six.
constexpr std::size_t kSites = 1 << 14;
std::atomic<std::uint64_t> g_sites[kSites];
std::atomic<std::size_t> g_site_count{0};

std::size_t index_of(std::uint64_t rip) noexcept { return rip * 0x9E37'79B9'7F4A'7C15u >> 50; }
static_assert(kSites == 1 << (64 - 50));

// Held by who replaces: two threads must not change the protection of one page at a time.
std::atomic_flag g_replacing;

bool is_known(std::uint64_t rip) noexcept {
  for (std::size_t at = index_of(rip);; at = (at + 1) % kSites) {
    const std::uint64_t site = g_sites[at].load(std::memory_order_acquire);
    if (site == rip) return true;
    if (site == 0) return false;
  }
}

bool remember(std::uint64_t rip) noexcept {
  TMH_ASSERT(rip != 0 && g_replacing.test());
  if (is_known(rip)) return true;  // code came, went, and came again
  if (g_site_count.load() >= kSites / 2) return false;
  std::size_t at = index_of(rip);
  // Relaxed: one thread at a time.
  while (g_sites[at].load(std::memory_order_relaxed) != 0) at = (at + 1) % kSites;
  // Before the code changes.
  g_sites[at].store(rip, std::memory_order_release);
  g_site_count.fetch_add(1);
  return true;
}

bool replace(std::uint64_t rip, const PageProtection &page) noexcept {
  TMH_ASSERT(g_replacing.test());
  if (page.bits == 0) return false;
  void *const first = reinterpret_cast<void *>(rip & ~(kPageBytes - 1));
  const bool done =
      ::mprotect(first, kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0 && remember(rip);
  if (done)
    std::atomic_ref<std::uint8_t>(*reinterpret_cast<std::uint8_t *>(rip))
        .store(kHlt, std::memory_order_release);
  (void)::mprotect(first, kPageBytes, page.bits);  // generated code stays writable
  return done;
}

// --- unwind tables ---

class Reader {
 public:
  explicit Reader(const std::uint8_t *at) noexcept : at_(at) {}
  template <class T>
  T take() noexcept {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t take_leb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  [[nodiscard]] const std::uint8_t *at() const noexcept { return at_; }

 private:
  const std::uint8_t *at_;
};

constexpr std::uint8_t kPcRelative = 0x10, kSigned4 = 0x0B, kDataRelativeSigned4 = 0x3B,
                       kUnsigned4 = 0x03;

// How a function's address is encoded, from the common entry (CIE) that its own names; 0xFF: in a
// way that is not known here.
std::uint8_t pointer_encoding(const std::uint8_t *cie) noexcept {
  Reader reader(cie + 8);
  const auto version = reader.take<std::uint8_t>();
  const char *augmentation = reinterpret_cast<const char *>(reader.at());
  reader = Reader(reader.at() + std::strlen(augmentation) + 1);
  (void)reader.take_leb();  // code alignment
  (void)reader.take_leb();  // data alignment: signed, as many bytes
  if (version == 1)
    (void)reader.take<std::uint8_t>();
  else
    (void)reader.take_leb();
  if (augmentation[0] != 'z') return augmentation[0] == 0 ? 0 : 0xFF;
  (void)reader.take_leb();
  for (const char *letter = augmentation + 1; *letter != 0; ++letter) {
    if (*letter == 'R') return reader.take<std::uint8_t>();
    if (*letter == 'L') (void)reader.take<std::uint8_t>();
    if (*letter == 'P') {
      const auto encoding = reader.take<std::uint8_t>() & 0x0F;
      reader = Reader(reader.at() + (encoding == kSigned4 || encoding == kUnsigned4 ? 4 : 8));
    }
  }
  return 0xFF;
}

// The function's size by its unwind entry (FDE); 0: unknown.
std::uint64_t function_bytes(const std::uint8_t *fde) noexcept {
  Reader reader(fde);
  if (reader.take<std::uint32_t>() == 0xFFFF'FFFF) return 0;  // 64-bit form: nobody makes it
  const std::uint8_t *field = reader.at();
  const std::uint8_t encoding = pointer_encoding(field - reader.take<std::uint32_t>());
  if (encoding == (kPcRelative | kSigned4)) return Reader(reader.at() + 4).take<std::uint32_t>();
  return encoding == 0 ? Reader(reader.at() + 8).take<std::uint64_t>() : 0;
}

struct Object {
  std::uint64_t base, code_begin, code_end;
  const std::uint8_t *unwind_index;
};

Object describe(const dl_phdr_info &info) noexcept {
  Object object{info.dlpi_addr, ~std::uint64_t{0}, 0, nullptr};
  for (std::size_t i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info.dlpi_phdr[i];
    const std::uint64_t begin = object.base + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME)
      object.unwind_index = reinterpret_cast<const std::uint8_t *>(begin);
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    if (begin < object.code_begin) object.code_begin = begin;
    if (begin + header.p_memsz > object.code_end) object.code_end = begin + header.p_memsz;
  }
  return object;
}

std::size_t patch_object(const Object &object) noexcept {
  TMH_ASSERT(object.unwind_index != nullptr && object.code_begin < object.code_end);
  Reader reader(object.unwind_index);
  const auto version = reader.take<std::uint8_t>();
  const auto frame_encoding = reader.take<std::uint8_t>(),
             count_encoding = reader.take<std::uint8_t>(),
             table_encoding = reader.take<std::uint8_t>();
  if (version != 1 || frame_encoding != (kPcRelative | kSigned4) || count_encoding != kUnsigned4 ||
      table_encoding != kDataRelativeSigned4)
    return 0;
  (void)reader.take<std::int32_t>();
  std::size_t done = 0;
  for (auto count = reader.take<std::uint32_t>(); count != 0; --count) {
    const std::uint8_t *function = object.unwind_index + reader.take<std::int32_t>();
    const std::uint8_t *fde = object.unwind_index + reader.take<std::int32_t>();
    const std::uint64_t begin = address_of(function), bytes = function_bytes(fde);
    if (begin < object.code_begin || bytes > object.code_end - begin) continue;
    done += patch_range(begin, begin + bytes, object.code_begin, object.code_end);
  }
  return done;
}

int see_object(dl_phdr_info *info, std::size_t, void *done) noexcept {
  const Object object = describe(*info);
  if (object.unwind_index != nullptr && object.code_begin < object.code_end)
    *static_cast<std::size_t *>(done) += patch_object(object);
  return 0;
}

}  // namespace

bool is_patched(std::uint64_t rip) noexcept {
  std::uint8_t first = 0;
  return is_known(rip) && try_copy_bytes(&first, reinterpret_cast<const void *>(rip), 1) &&
         first == kHlt;
}

void replace_trapped(std::uint64_t rip) noexcept {
  if (g_replacing.test_and_set(std::memory_order_acquire)) return;  // it will trap again
  const PageProtection page = protection_of(rip / kPageBytes);
  if (!page.is_shared) (void)replace(rip, page);
  g_replacing.clear(std::memory_order_release);
}

void forget_replacing() noexcept { g_replacing.clear(); }

std::size_t patch_range(std::uint64_t begin, std::uint64_t end, std::uint64_t object_begin,
                        std::uint64_t object_end) noexcept {
  TMH_ASSERT(begin <= end && object_begin <= begin && end <= object_end);
  const auto *code = reinterpret_cast<const std::uint8_t *>(begin);
  const auto *last = static_cast<const std::uint8_t *>(
      ::memmem(code, end - begin, kXbeginBytes, sizeof kXbeginBytes));
  if (last == nullptr) return 0;  // most functions: not decoded at all
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  while (g_replacing.test_and_set(std::memory_order_acquire)) (void)system_call(Call::kSchedYield);
  std::size_t done = 0;
  for (std::uint64_t rip = begin; rip < end;) {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (is_patched(rip)) {
      rip += kXbeginLength;
      continue;
    }
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, reinterpret_cast<const void *>(rip), end - rip,
                                           &instruction, operands)))
      break;  // what follows has no known boundaries
    if (instruction.mnemonic == ZYDIS_MNEMONIC_XBEGIN && instruction.length == kXbeginLength) {
      const std::uint64_t fallback = rip + kXbeginLength + operands[0].imm.value.u;
      if (fallback >= object_begin && fallback < object_end &&
          replace(rip, protection_of(rip / kPageBytes)))
        ++done;
    }
    rip += instruction.length;
  }
  g_replacing.clear(std::memory_order_release);
  return done;
}

std::size_t patch_loaded_objects() noexcept {
  std::size_t done = 0;
  ::dl_iterate_phdr(see_object, &done);
  return done;
}

}  // namespace tmh::rtm
