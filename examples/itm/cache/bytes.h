// examples/itm/cache/bytes.h -- bytes that wait: appended at the end, taken from the front.
// Sharing:   of one connection, hence of one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace cache {

class Bytes {
 public:
  [[nodiscard]] std::string_view view() const { return {bytes_.get() + first_, count_}; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }

  // Room for so many bytes behind the last one; moves what is there. Not initialized.
  [[nodiscard]] char *room(std::size_t bytes);
  // So many bytes of the room have been written.
  void added(std::size_t bytes) { count_ += bytes; }
  void append(std::string_view text);
  void drop_front(std::size_t bytes);
  void drop_back(std::size_t bytes) { count_ -= bytes; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0, first_ = 0, count_ = 0;
};

}  // namespace cache
