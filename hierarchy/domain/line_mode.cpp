// hierarchy/domain/line_mode.cpp -- switching one process between line mode and page mode.
#include "hierarchy/domain/line_mode.h"

#include <tmh/site.hpp>

#include "hierarchy/domain/domain_impl.h"
#include "platform/try.h"

namespace tmh::detail {

LineKind LineMode::kind(BodyKind body) const noexcept {
  if (domain_.lines() == nullptr) return LineKind::kNone;
  const bool has_hardware = domain_.lines()->hardware() != nullptr;
  if (body == BodyKind::kPlain) return has_hardware ? LineKind::kHardware : LineKind::kNone;
  return has_hardware && domain_.settings().line == LineChoice::kRtm ? LineKind::kHardware
                                                                     : LineKind::kSoftware;
}

Errc LineMode::enter() noexcept {
  const std::scoped_lock guard(domain_.runners().process().mutex);
  TMH_TRY(domain_.usable());  // closed while we waited
  domain_.lines()->give_again();
  const Errc error = domain_.lines()->hardware()->to_lines(domain_.engine());
  tell();
  return error;
}

Errc LineMode::leave() noexcept {
  LineDomain *lines = domain_.lines();
  if (lines == nullptr || lines->hardware() == nullptr) return Errc::kOk;
  const Errc error = lines->hardware()->to_pages(domain_.engine());
  tell();
  return error;
}

// No participant decides anything by it. relaxed.
void LineMode::tell() noexcept {
  std::atomic<std::uint32_t> &told =
      domain_.memory().participant(domain_.slot()).shown.in_line_mode;
  const std::uint32_t mode = domain_.lines()->hardware()->in_line_mode() ? 1 : 0;
  if (told.load(std::memory_order_relaxed) != mode) told.store(mode, std::memory_order_relaxed);
}

LineDomain::Given LineMode::give_to_hardware() noexcept {
  const std::scoped_lock guard(domain_.runners().process().mutex);
  return domain_.usable() == Errc::kOk ? domain_.lines()->give_to_hardware() : LineDomain::Given{};
}

}  // namespace tmh::detail
