// hierarchy/modes.cpp -- line mode and page mode of one process: who switches, and when.
// Source:    thesis, section 6.2; hierarchy/PROTOCOL.md, "Hardware lines".
#include <tmh/site.hpp>

#include "hierarchy/domain_impl.h"
#include "platform/try.h"

namespace tmh::detail {

DomainImpl::LineKind DomainImpl::line_kind(BodyKind body) const noexcept {
  if (lines_ == nullptr) return LineKind::kNone;
  const bool has_hardware = lines_->hardware() != nullptr;
  if (body == BodyKind::kPlain) return has_hardware ? LineKind::kHardware : LineKind::kNone;
  return has_hardware && settings_.line == LineChoice::kRtm ? LineKind::kHardware
                                                            : LineKind::kSoftware;
}

Errc DomainImpl::enter_line_mode() noexcept {
  const std::scoped_lock guard(process_.mutex);
  TMH_TRY(usable());  // closed while we waited
  lines_->give_again();
  const Errc error = lines_->hardware()->to_lines(*engine_);
  tell_mode();
  return error;
}

Errc DomainImpl::leave_line_mode() noexcept {
  if (lines_ == nullptr || lines_->hardware() == nullptr) return Errc::kOk;
  const Errc error = lines_->hardware()->to_pages(*engine_);
  tell_mode();
  return error;
}

// Nobody decides anything by it. relaxed.
void DomainImpl::tell_mode() noexcept {
  std::atomic<std::uint32_t> &told = memory_->participant(slot_).in_line_mode;
  const std::uint32_t mode = lines_->hardware()->in_line_mode() ? 1 : 0;
  if (told.load(std::memory_order_relaxed) != mode) told.store(mode, std::memory_order_relaxed);
}

LineDomain::Given DomainImpl::give_to_hardware() noexcept {
  const std::scoped_lock guard(process_.mutex);
  return usable() == Errc::kOk ? lines_->give_to_hardware() : LineDomain::Given{};
}

}  // namespace tmh::detail
