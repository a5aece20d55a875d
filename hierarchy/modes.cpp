// hierarchy/modes.cpp -- line mode and page mode of one process: who switches, and when.
// Source:    thesis, section 6.2; hierarchy/PROTOCOL.md, "Hardware lines".
#include "hierarchy/domain_impl.h"

namespace tmh::detail {

DomainImpl::LineKind DomainImpl::line_kind(bool is_plain) const noexcept {
  if (lines_ == nullptr) return LineKind::kNone;
  const bool has_hardware = lines_->hardware() != nullptr;
  if (is_plain) return has_hardware ? LineKind::kHardware : LineKind::kNone;
  return has_hardware && line_wanted_ == LineChoice::kRtm ? LineKind::kHardware : LineKind::kSoftware;
}

Errc DomainImpl::enter_line_mode() noexcept {
  const std::scoped_lock guard(process_.mutex);
  if (const Errc error = usable(); error != Errc::kOk) return error;  // closed while we waited
  return lines_->hardware()->to_lines(*engine_);
}

Errc DomainImpl::leave_line_mode() noexcept {
  if (lines_ == nullptr || lines_->hardware() == nullptr) return Errc::kOk;
  return lines_->hardware()->to_pages(*engine_);
}

std::uint32_t DomainImpl::give_to_hardware() noexcept {
  const std::scoped_lock guard(process_.mutex);
  return usable() == Errc::kOk ? lines_->give_to_hardware() : 0;
}

}  // namespace tmh::detail
