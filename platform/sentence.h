// platform/sentence.h -- a message to standard error, composed without stdio.
// Contexts:  async-signal-safe: write(2), and 1 KiB of stack.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace tmh::platform {

class Sentence {
 public:
  Sentence &operator<<(const char *text) noexcept {
    for (; *text != '\0' && length_ < sizeof text_; ++text) text_[length_++] = *text;
    return *this;
  }
  Sentence &number(std::uint64_t value, unsigned base) noexcept {
    char digits[24];
    std::size_t count = 0;
    do digits[count++] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    if (base == 16) *this << "0x";
    while (count > 0 && length_ < sizeof text_) text_[length_++] = digits[--count];
    return *this;
  }
  // What has been said so far, for a system call. The text ends where the room does.
  [[nodiscard]] const char *text() noexcept {
    text_[length_ < sizeof text_ ? length_ : sizeof text_ - 1] = '\0';
    return text_;
  }
  void write() noexcept {
    if (::write(STDERR_FILENO, text_, length_) < 0) return;  // nothing can be done about it here
  }

 private:
  char text_[1024];
  std::size_t length_ = 0;
};

}  // namespace tmh::platform
