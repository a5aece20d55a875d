// examples/inverted_index/tiny.cpp -- a small Zipf-distributed text.
#include "examples/inverted_index/tiny.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace inverted_index {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kVocabulary = 1500;
constexpr std::size_t kFiles = 60;
constexpr std::size_t kFileBytesMax = 12'000;
constexpr std::size_t kLargeFileBytes = 30'000;  // spans several batches

// Words as natural text has them: the n-th most frequent one 1/n as often as the first.
class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {
    std::vector<double> weights;
    for (std::size_t n = 0; n < kVocabulary; ++n)
      weights.push_back(1.0 / static_cast<double>(n + 1));
    pick_ = std::discrete_distribution<std::size_t>(weights.begin(), weights.end());
  }

  std::string of(std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
      const std::size_t n = pick_(random_);
      // Lengths from 1 to about 60, so that some are too long to be words; capitals, so that
      // folding matters.
      text += n % 400 == 399 ? std::string(20 + n % 41, 'x') : "";
      text += static_cast<char>((n % 3 == 0 ? 'A' : 'a') + static_cast<char>(n % 26));
      text += fmt::format("{:x}", n * 2654435761U);
      text += random_() % 12 == 0 ? ".\n" : " ";
    }
    return text;
  }

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

 private:
  std::mt19937_64 random_;
  std::discrete_distribution<std::size_t> pick_;
};

void write(const fs::path &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write {}", path.string()));
}

}  // namespace

Skipped write_tiny_input(const std::string &folder, std::uint64_t seed) {
  const fs::path root(folder);
  fs::create_directories(root / "below" / "empty");
  RandomText text(seed);
  for (std::size_t n = 0; n < kFiles; ++n) {
    write((n % 2 == 0 ? root : root / "below") / fmt::format("text{:02}", n),
          text.of(1 + text.below(kFileBytesMax)));
  }
  write(root / "large", text.of(kLargeFileBytes));

  Skipped expected;
  write(root / "zipped.gz", text.of(100));
  expected.compressed = 1;
  write(root / "binary", std::string("text\0text", 9));
  expected.binary = 1;
  write(root / "nothing", "");
  expected.empty = 1;
  if (::mkfifo((root / "fifo").c_str(), 0600) == 0) expected.special = 1;
  fs::create_symlink("loop", root / "loop");
  fs::create_directory_symlink("..", root / "below" / "up");
  fs::create_symlink("nowhere", root / "dangling");
  expected.links = 3;
  fs::create_symlink("text00", root / "zz-again");
  expected.repeated = 1;
  return expected;
}

}  // namespace inverted_index
