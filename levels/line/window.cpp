// levels/line/window.cpp -- another segment, or another part of it.
#include "levels/line/window.h"

#include "platform/try.h"

namespace tmh::line {

// From now on accesses near the offset take the short way.
void Window::use(detail::LineAccess &access, LineSegment &segment, std::uint64_t offset) noexcept {
  segment_ = &segment;
  mappings_seen_ = segment.mappings.load(std::memory_order_relaxed);
  std::uint64_t end = 0;
  memory_.loadable_around(segment, offset, &begin_, &end);
  bytes_ = end - begin_;
  begin_at_ = line::where(segment.number, begin_);
  access.view = segment.view + begin_;
  access.home_minus_view = reinterpret_cast<std::uintptr_t>(segment.home) - segment.view;
  access.words = segment.words + begin_ / kLineBytes;
  open(access);
}

void Window::look_again(detail::LineAccess &access) noexcept {
  // acquire: as in find()
  if (segment_->bytes.load(std::memory_order_acquire) != 0) return use(access, *segment_, 0);
  segment_ = nullptr;
  shut(access);
}

Errc Window::make_loadable(detail::LineAccess &access, LineSegment &segment,
                           std::uint64_t offset) noexcept {
  if (!segment.loads_take_blocks) return Errc::kOk;
  TMH_TRY(memory_.allocate_home(segment, offset));
  if (offset - begin_ >= bytes_) use(access, segment, offset);
  return Errc::kOk;
}

}  // namespace tmh::line
