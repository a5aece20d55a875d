// compat/libitm/undo_log.h -- bytes as they were before the transaction stored to them in place:
// locals that the compiled code logs, and all stores of a transaction that runs alone and may still
// be cancelled.
// Contexts:  one thread's. NOT async-signal-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "platform/assert.h"

namespace tmh::itm {

class UndoLog {
 public:
  void clear() noexcept { bytes_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  // is_frame: of frames of what the transaction has called: gone where a rollback goes back to a
  // begin behind them. Throws std::bad_alloc.
  void save(const void *at, std::size_t bytes, bool is_frame) {
    const std::size_t end = bytes_.size() + bytes;
    bytes_.resize(end + sizeof(Tail));
    std::memcpy(bytes_.data() + end - bytes, at, bytes);
    const Tail tail{reinterpret_cast<std::uintptr_t>(at), bytes, is_frame};
    std::memcpy(bytes_.data() + end, &tail, sizeof tail);
  }
  // Back to `size`, newest first. stack: where the frames end that are there still; this very code
  // runs below.
  void roll_back(std::size_t size, std::uintptr_t stack) noexcept {
    TMH_ASSERT(size <= bytes_.size());
    while (bytes_.size() > size) {
      Tail tail;
      std::memcpy(&tail, bytes_.data() + bytes_.size() - sizeof tail, sizeof tail);
      TMH_ASSERT(bytes_.size() >= size + sizeof tail + tail.bytes);
      const std::size_t begin = bytes_.size() - sizeof tail - tail.bytes;
      const std::size_t gone =
          tail.is_frame && tail.at < stack ? std::min(stack - tail.at, tail.bytes) : 0;
      std::memcpy(reinterpret_cast<void *>(tail.at + gone), bytes_.data() + begin + gone,
                  tail.bytes - gone);
      bytes_.resize(begin);
    }
  }

 private:
  struct Tail {
    std::uintptr_t at;
    std::size_t bytes;
    bool is_frame;
  };
  static_assert(std::is_trivially_copyable_v<Tail>);

  std::vector<unsigned char> bytes_;
};

}  // namespace tmh::itm
