// tools/moment.h -- points in time, sizes and durations as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tmh::tools {

// Nanoseconds since the epoch, of "1732193280", "1732193280.25" or local time "2024-11-21
// 12:48:00", "2024-11-21T12:48:00.25". At most nine digits of a fraction. Empty: not a time, one
// that the calendar does not have, or outside 1970 to 2554.
[[nodiscard]] std::optional<std::uint64_t> parse_moment(std::string_view text);
// Local time with six digits of a fraction; "-" for 0.
[[nodiscard]] std::string moment_text(std::uint64_t time_ns);
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);  // "4.0 KiB"
[[nodiscard]] std::string duration_text(std::uint64_t us);  // "1.5 ms"
// "1 page", "2 pages"
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace tmh::tools
