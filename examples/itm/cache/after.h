// examples/itm/cache/after.h -- what comes after a command.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cache {

// An answer of many values stops when so many bytes wait to be sent, and goes on later.
inline constexpr std::size_t kWaitingBytesMax = std::size_t{1} << 20;

enum class After : std::uint8_t {
  kNext,
  // More of this command's keys remain: the caller comes again when the bytes have been sent.
  kMore,
  // The connection ends when what waits has been sent.
  kClose,
  // For tests: the worker's thread ends here, as if it had died.
  kThreadEnds,
};

}  // namespace cache
