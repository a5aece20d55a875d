// storage/crc32c.h -- CRC32C (Castagnoli), the checksum of log records.
// Contexts:  async-signal-safe; no allocation.
// Source:    docs/design.md D7. Boost.CRC where the processor has no SSE 4.2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::storage {

// crc: of what precedes, 0 at the start. crc32c(crc32c(0, a), b) is that of a followed by b.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, const void *data, std::size_t bytes) noexcept;
// The portable path, for tests and for processors without the instruction.
[[nodiscard]] std::uint32_t crc32c_portable(std::uint32_t crc, const void *data,
                                            std::size_t bytes) noexcept;

}  // namespace tmh::storage
