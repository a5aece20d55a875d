// platform/cache_geometry.cpp -- reads /sys/devices/system/cpu/cpu0/cache/index*.
#include "platform/cache_geometry.h"

#include <charconv>
#include <fstream>
#include <string>

namespace tmh::platform {

namespace {

std::string read_word(const std::string &path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::uint64_t number(const std::string &text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  if (end != text.data() + text.size() && *end == 'K') value *= 1024;
  return value;
}

}  // namespace

CacheGeometry data_cache(unsigned level) noexcept {
  for (unsigned index = 0; index < 8; ++index) {  // four are usual
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    if (number(read_word(folder + "level")) != level || read_word(folder + "type") == "Instruction")
      continue;
    return {number(read_word(folder + "size")),
            static_cast<std::uint32_t>(number(read_word(folder + "ways_of_associativity"))),
            static_cast<std::uint32_t>(number(read_word(folder + "coherency_line_size")))};
  }
  return {};
}

}  // namespace tmh::platform
