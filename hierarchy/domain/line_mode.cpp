// hierarchy/domain/line_mode.cpp -- switching one process between line mode and page mode.
#include "hierarchy/domain/line_mode.h"

#include <tmh/site.hpp>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::detail {

LineKind LineMode::kind(BodyKind body) const noexcept {
  if (parts_.lines == nullptr) return LineKind::kNone;
  if (body == BodyKind::kPlain)
    return parts_.lines->hardware() != nullptr ? LineKind::kHardware : LineKind::kNone;
  // A snapshot that moves on to what is durable alone waits for the log.
  const bool reads_durable_only = parts_.durable != nullptr && !parts_.durable->early_release();
  return parts_.settings.line == LineChoice::kRtm && !reads_durable_only ? LineKind::kRtmOnLines
                                                                         : LineKind::kSoftware;
}

Errc LineMode::enter() noexcept {
  TMH_ASSERT(kind(BodyKind::kPlain) == LineKind::kHardware);
  const std::scoped_lock guard(threads_.runners.process().mutex);
  TMH_TRY(threads_.open.usable());  // closed while we waited
  parts_.lines->give_again();
  const Errc error = parts_.lines->hardware()->to_lines(*parts_.engine);
  tell();
  return error;
}

Errc LineMode::leave() noexcept {
  LineDomain *const lines = parts_.lines.get();
  if (lines == nullptr || lines->hardware() == nullptr) return Errc::kOk;
  const Errc error = lines->hardware()->to_pages(*parts_.engine);
  tell();
  return error;
}

// No participant decides anything by it. relaxed.
void LineMode::tell() noexcept {
  TMH_ASSERT(parts_.lines != nullptr && parts_.lines->hardware() != nullptr);
  std::atomic<std::uint32_t> &told =
      parts_.memory->participant(threads_.runners.process().slot).shown.in_line_mode;
  const std::uint32_t mode = parts_.lines->hardware()->in_line_mode() ? 1 : 0;
  if (told.load(std::memory_order_relaxed) != mode) told.store(mode, std::memory_order_relaxed);
}

LineDomain::Given LineMode::give_to_hardware() noexcept {
  const std::scoped_lock guard(threads_.runners.process().mutex);
  return threads_.open.usable() == Errc::kOk ? parts_.lines->give_to_hardware()
                                             : LineDomain::Given{};
}

}  // namespace tmh::detail
