// tools/lock_bytes.h -- tmh.locks as bytes: its header, and its cells one after the other.
// Invariant: as domain_files.h: nothing is written or waited for, no byte is believed unchecked.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "levels/lock/lock.h"
#include "platform/assert.h"
#include "platform/files.h"
#include "tools/shared_file.h"

namespace tmh::tools {

class LockBytes {
 public:
  // Errors: as open_shared(). No such file: is_of() nothing.
  explicit LockBytes(const std::string &folder);

  // Is it a table of that life of the domain?
  [[nodiscard]] bool is_of(std::uint64_t life) const;
  // A field of the header. REQUIRES: is_of().
  template <class T>
  [[nodiscard]] T header(std::size_t offset) const {
    TMH_ASSERT(offset + sizeof(T) <= header_.size());
    return field<T>(header_.data(), offset);
  }
  // Empty: it is cut short.
  [[nodiscard]] std::vector<std::byte> wait_times() const;
  // visit(index, bytes, bytes that are there) of all cells that are there, whatever the header
  // says.
  template <class Visit>
  void for_each_cell(const Visit &visit) const {
    const std::uint64_t count = cell_count();
    for (std::uint64_t cell = 1; cell < count;) {
      cell = used_from(cell);
      if (cell >= count) return;
      // A locker has two cells: one more than are visited.
      const std::vector<std::byte> block = read_cells(cell, kCellsAtOnce + 1);
      const std::uint64_t visited =
          std::min({std::uint64_t{block.size()} / kCellBytes, kCellsAtOnce, count - cell});
      if (visited == 0) return;  // it is shorter by now
      for (std::uint64_t i = 0; i < visited; ++i)
        visit(static_cast<std::uint32_t>(cell + i), block.data() + i * kCellBytes,
              block.size() - i * kCellBytes);
      cell += visited;
    }
  }

 private:
  static constexpr std::uint64_t kCellBytes = sizeof(lock::RequestCell);
  static constexpr std::uint64_t kCellsAtOnce = 4096;

  [[nodiscard]] static off_t offset_of(std::uint64_t cell) noexcept {
    return static_cast<off_t>(lock::kCellsAt + cell * kCellBytes);
  }
  [[nodiscard]] std::uint64_t cell_count() const;
  // That cell, or the next one that does not lie in a hole of the file; ~0: there is none.
  [[nodiscard]] std::uint64_t used_from(std::uint64_t cell) const;
  [[nodiscard]] std::vector<std::byte> read_cells(std::uint64_t from, std::uint64_t count) const;

  const std::string path_;
  const platform::FileDescriptor file_;
  std::vector<std::byte> header_;
};

}  // namespace tmh::tools
