// levels/line/undo_ring.h -- the words under a commit's writes, kept for snapshots of the level
// above that began before its stamp.
// Sharing:   the ring lies in the context; its thread alone stores there, recovery.cpp's finder
//            reads.
// Contexts:  one thread's, inside a commit that holds its lines.
#pragma once

#include <cstdint>

#include "levels/line/abort_status.h"
#include "levels/line/line_memory.h"
#include "levels/line/write_set.h"

namespace tmh::line {

class UndoRing {
 public:
  void attach(LineMemory &memory, std::uint32_t context) noexcept {
    memory_ = &memory;
    number_ = context;
    context_ = &memory.context(context);
    is_allocated_ = false;
  }
  // REQUIRES: all lines of `writes` are locked by this context. A ring without room aborts: a word
  // that a line pin may still need must not be overwritten. That ends with the snapshot, so the
  // status says that another try may succeed.
  [[nodiscard]] Ending save(const WriteSet &writes, std::uint64_t stamp,
                            std::uint64_t oldest_pin) noexcept;

 private:
  [[nodiscard]] bool has_room(const WriteSet &writes, std::uint64_t head,
                              std::uint64_t oldest_pin) const noexcept;

  LineMemory *memory_ = nullptr;
  LineContextV1 *context_ = nullptr;
  std::uint32_t number_ = 0;
  bool is_allocated_ = false;
};

}  // namespace tmh::line
