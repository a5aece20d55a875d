// examples/inverted_index/progress.h -- a bar on a terminal, a line per tenth elsewhere.
#pragma once

#include <cstdint>

namespace inverted_index {

class ProgressLine {
 public:
  explicit ProgressLine(std::uint64_t text_bytes);
  void show(std::uint64_t units_done, std::uint64_t units_total, double seconds,
            std::uint32_t kills, std::uint32_t workers);
  // Removes the bar, so that what follows begins on a clean line.
  void finish();

 private:
  bool terminal_;
  std::uint64_t text_bytes_;
  double last_shown_seconds_ = -1;
  std::uint64_t next_tenth_ = 1;
};

}  // namespace inverted_index
