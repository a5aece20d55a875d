// compat/libitm/blocks.cpp -- memcpy, memmove and memset, by how source and destination take part
// in the transaction.
#include <algorithm>
#include <cstring>

#include "compat/libitm/thread.h"
#include "platform/assert.h"

namespace tmh::itm {

namespace {

constexpr std::size_t kBlockBytes = 1024;  // copied at once, on the stack

// kReads, kWrites: through the transaction; else plainly. Loads and stores go line by line, so that
// ranges which overlap need the block between them.
template <bool kReads, bool kWrites>
void copy_part(std::byte *to, const std::byte *from, std::size_t bytes, bool do_overlap) {
  static_assert(kReads || kWrites);
  const auto target = reinterpret_cast<std::uintptr_t>(to);
  const auto source = reinterpret_cast<std::uintptr_t>(from);
  TMH_ASSERT(bytes <= kBlockBytes);
  if (!do_overlap) {
    if constexpr (!kReads) return this_thread->accesses.store(target, from, bytes);
    if constexpr (!kWrites) return this_thread->accesses.load_block(to, source, bytes);
  }
  std::byte block[kBlockBytes];
  if constexpr (kReads)
    this_thread->accesses.load_block(block, source, bytes);
  else
    std::memcpy(block, from, bytes);
  if constexpr (kWrites)
    this_thread->accesses.store(target, block, bytes);
  else
    std::memcpy(to, block, bytes);
}

// Right for ranges that overlap: from the end they do not meet first.
template <bool kReads, bool kWrites>
void *copy(void *to, const void *from, std::size_t bytes) {
  if constexpr (kReads && kWrites)
    if (this_thread->accesses.copy(reinterpret_cast<std::uintptr_t>(to),
                                   reinterpret_cast<std::uintptr_t>(from), bytes))
      return to;
  auto *const out = static_cast<std::byte *>(to);
  const auto *const in = static_cast<const std::byte *>(from);
  const bool do_overlap = static_cast<std::size_t>(out > in ? out - in : in - out) < bytes;
  const bool is_backward = do_overlap && out > in;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(kBlockBytes, bytes - done);
    const std::size_t at = is_backward ? bytes - done - part : done;
    copy_part<kReads, kWrites>(out + at, in + at, part, do_overlap);
    done += part;
  }
  return to;
}

void set(void *to, int value, std::size_t bytes) {
  std::byte block[kBlockBytes];
  std::memset(block, value, std::min(bytes, kBlockBytes));
  for (std::size_t done = 0; done < bytes; done += kBlockBytes)
    this_thread->accesses.store(reinterpret_cast<std::uintptr_t>(to) + done, block,
                                std::min(kBlockBytes, bytes - done));
}

}  // namespace

}  // namespace tmh::itm

using tmh::itm::copy;

#define TMH_ITM_COPY(NAME, READS, WRITES)                                              \
  extern "C" void *_ITM_memcpy##NAME(void *to, const void *from, std::size_t bytes) {  \
    return copy<READS, WRITES>(to, from, bytes);                                       \
  }                                                                                    \
  extern "C" void *_ITM_memmove##NAME(void *to, const void *from, std::size_t bytes) { \
    return copy<READS, WRITES>(to, from, bytes);                                       \
  }
#define TMH_ITM_COPIES(READ_NAME, READS)     \
  TMH_ITM_COPY(READ_NAME##Wt, READS, true)   \
  TMH_ITM_COPY(READ_NAME##WtaR, READS, true) \
  TMH_ITM_COPY(READ_NAME##WtaW, READS, true)

TMH_ITM_COPIES(Rn, false)
TMH_ITM_COPIES(Rt, true)
TMH_ITM_COPIES(RtaR, true)
TMH_ITM_COPIES(RtaW, true)
TMH_ITM_COPY(RtWn, true, false)
TMH_ITM_COPY(RtaRWn, true, false)
TMH_ITM_COPY(RtaWWn, true, false)

#define TMH_ITM_SET(NAME)                                                      \
  extern "C" void *_ITM_memset##NAME(void *to, int value, std::size_t bytes) { \
    tmh::itm::set(to, value, bytes);                                           \
    return to;                                                                 \
  }
TMH_ITM_SET(W)
TMH_ITM_SET(WaR)
TMH_ITM_SET(WaW)
