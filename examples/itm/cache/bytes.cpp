#include "examples/itm/cache/bytes.h"

#include <algorithm>
#include <cstring>

namespace cache {

namespace {

constexpr std::size_t kCapacityMin = 2048;
// An idle connection keeps no more: one large value must not hold a megabyte for good.
constexpr std::size_t kIdleCapacityMax = std::size_t{64} << 10;

}  // namespace

char *Bytes::room(std::size_t bytes) {
  if (first_ + count_ + bytes <= capacity_) return bytes_.get() + first_ + count_;
  if (count_ + bytes <= capacity_ / 2) {  // half, so that little is moved often
    std::memmove(bytes_.get(), bytes_.get() + first_, count_);
  } else {
    const std::size_t capacity = std::max({kCapacityMin, capacity_ * 2, count_ + bytes});
    std::unique_ptr<char[]> larger(new char[capacity]);
    if (count_ != 0) std::memcpy(larger.get(), bytes_.get() + first_, count_);
    bytes_ = std::move(larger);
    capacity_ = capacity;
  }
  first_ = 0;
  return bytes_.get() + count_;
}

void Bytes::append(std::string_view text) {
  if (text.empty()) return;
  std::memcpy(room(text.size()), text.data(), text.size());
  added(text.size());
}

void Bytes::drop_front(std::size_t bytes) {
  first_ += bytes;
  count_ -= bytes;
  if (count_ != 0) return;
  first_ = 0;
  if (capacity_ <= kIdleCapacityMax) return;
  bytes_.reset();
  capacity_ = 0;
}

}  // namespace cache
