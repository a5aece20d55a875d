// levels/page/redo/redo_plan.cpp -- planning a commit's redo records.
#include "levels/page/redo/redo_plan.h"

#include <bit>
#include <new>

#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/bit_count.h"
#include "platform/failure.h"
#include "storage/log/log_record.h"

namespace tmh::page {

namespace {
std::uint64_t word_count(LineMask lines, const std::uint8_t *words) noexcept {
  std::uint64_t count = 0;
  for (; lines != 0; lines &= lines - 1)
    count += platform::bit_count(words[std::countr_zero(lines)]);
  return count;
}
}  // namespace

Errc RedoPlan::reserve(std::size_t page_count) noexcept try {
  records_.reserve(page_count * storage::kDeltaBytesMax);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the redo log's plan of a large commit");
}

void RedoPlan::add(const Write &write, const std::byte *now, const std::byte *clean) {
  TMH_ASSERT(write.slot != 0);
  TMH_ASSERT(write.lines != 0);
  VersionHead &head = memory_.version(write.slot);
  differing_words(now, clean, write.lines, head.words);
  needs_sizes_ = needs_sizes_ || !memory_.durable_control().is_size_durable(write.page);
  (void)records_.add(storage::delta_bytes(write.lines, word_count(write.lines, head.words)));
  ++page_count_;
}

Errc RedoPlan::make_sizes_durable() noexcept {
  const Errc error = memory_.durable_control().make_sizes_durable();
  needs_sizes_ = error != Errc::kOk;
  return error;
}

}  // namespace tmh::page
