// compat/libitm/undo_log.h -- bytes as they were before the transaction stored to them in place:
// locals that the compiled code logs, and all stores of a transaction that runs alone and may still
// be cancelled.
// Contexts:  one thread's. NOT async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tmh::itm {

class UndoLog {
 public:
  void clear() noexcept { bytes_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  // Throws std::bad_alloc.
  void save(const void *at, std::size_t bytes) {
    const std::size_t end = bytes_.size() + bytes;
    bytes_.resize(end + sizeof(Tail));
    std::memcpy(bytes_.data() + end - bytes, at, bytes);
    const Tail tail{reinterpret_cast<std::uintptr_t>(at), bytes};
    std::memcpy(bytes_.data() + end, &tail, sizeof tail);
  }
  // Back to `size`, newest first. Bytes in [gone_begin, gone_end) stay: frames that are gone, or
  // that this very code runs on.
  void roll_back(std::size_t size, std::uintptr_t gone_begin, std::uintptr_t gone_end) noexcept {
    while (bytes_.size() > size) {
      Tail tail;
      std::memcpy(&tail, bytes_.data() + bytes_.size() - sizeof tail, sizeof tail);
      const std::size_t begin = bytes_.size() - sizeof tail - tail.bytes;
      restore(tail.at, bytes_.data() + begin, tail.bytes, gone_begin, gone_end);
      bytes_.resize(begin);
    }
  }

 private:
  struct Tail {
    std::uintptr_t at;
    std::size_t bytes;
  };
  static void restore(std::uintptr_t at, const unsigned char *from, std::size_t bytes,
                      std::uintptr_t gone_begin, std::uintptr_t gone_end) noexcept {
    if (at >= gone_end || at + bytes <= gone_begin) {
      std::memcpy(reinterpret_cast<void *>(at), from, bytes);
      return;
    }
    for (std::size_t i = 0; i < bytes; ++i)
      if (at + i < gone_begin || at + i >= gone_end)
        *reinterpret_cast<unsigned char *>(at + i) = from[i];
  }

  std::vector<unsigned char> bytes_;
};

}  // namespace tmh::itm
