// examples/inverted_index/progress.cpp -- draws it.
#include "examples/inverted_index/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace inverted_index {
namespace {

constexpr std::size_t kBarCells = 30;
constexpr double kRedrawSeconds = 0.1;  // faster is only flicker

}  // namespace

ProgressLine::ProgressLine(std::uint64_t text_bytes)
    : terminal_(::isatty(STDOUT_FILENO) == 1), text_bytes_(text_bytes) {}

void ProgressLine::show(std::uint64_t units_done, std::uint64_t units_total, double seconds,
                        std::uint32_t kills, std::uint32_t workers) {
  const double part =
      units_total == 0 ? 1.0 : static_cast<double>(units_done) / static_cast<double>(units_total);
  const double rate = seconds > 0 ? part * static_cast<double>(text_bytes_) / 1e6 / seconds : 0;
  const std::string words = fmt::format("{:5.1f} %  {:7.3f} MB/s  {} kills  {} workers  {:.1f} s",
                                        100 * part, rate, kills, workers, seconds);
  if (terminal_) {
    if (seconds - last_shown_seconds_ < kRedrawSeconds) return;
    last_shown_seconds_ = seconds;
    const auto full = static_cast<std::size_t>(part * static_cast<double>(kBarCells));
    fmt::print("\r[{}{}] {}\x1b[K", std::string(full, '#'), std::string(kBarCells - full, '.'),
               words);
  } else {
    const auto tenth = static_cast<std::uint64_t>(10 * part);
    if (tenth < next_tenth_) return;
    next_tenth_ = tenth + 1;
    fmt::print("{}\n", words);
  }
  std::fflush(stdout);
}

void ProgressLine::finish() {
  if (terminal_) fmt::print("\r\x1b[K");
  std::fflush(stdout);
}

}  // namespace inverted_index
