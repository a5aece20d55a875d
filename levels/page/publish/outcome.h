// levels/page/publish/outcome.h -- how an instance of level 2 has ended.
#pragma once

#include <cstdint>

#include <tmh/error.hpp>
#include <tmh/instance.hpp>

#include "platform/failure.h"

namespace tmh::page {

struct Outcome {
  Status status = Status::kAborted;
  AbortCause cause = AbortCause::kNone;
  // First byte stored to by a query.
  std::uintptr_t query_wrote = 0;
  // kNoSpace's reason.
  Errc error = Errc::kOk;
  // Committed: to acknowledge it durably, every commit up to this timestamp must be durable.
  std::uint64_t durable_at = 0;
  // The same on the clock of the level below, for what was only read.
  std::uint64_t durable_line = 0;
};

// What lacked room said so with a code alone, some of it in a handler: without words of its own the
// error would have those of an earlier one.
[[nodiscard]] inline Errc no_room(Errc error) noexcept {
  return error == Errc::kNotMapped ? error
                                   : platform::fail(error, "no room for the instance's versions");
}

}  // namespace tmh::page
