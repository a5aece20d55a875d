// storage/segment_files.cpp -- by one look at the folder.
#include "storage/segment_files.h"

#include <dirent.h>
#include <unistd.h>

#include <bitset>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "storage/page_id.h"

namespace tmh::storage {

namespace {

using Segments = std::bitset<kSegmentsMax>;

// As std::to_string() writes it: "07" is no file of the domain.
std::optional<std::uint32_t> number_in(std::string_view file, SegmentFileName name) noexcept {
  const std::string_view before = name.before, after = name.after;
  if (file.size() <= before.size() + after.size() || !file.starts_with(before) ||
      !file.ends_with(after))
    return std::nullopt;
  const std::string_view digits =
      file.substr(before.size(), file.size() - before.size() - after.size());
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number >= kSegmentsMax)
    return std::nullopt;
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  return number;
}

// All of them when the folder cannot be listed to its end.
Segments segments_with(const std::string &folder, SegmentFileName name) noexcept {
  Segments all;
  all.set();
  DIR *dir = opendir(folder.c_str());
  if (dir == nullptr) return all;
  Segments found;
  errno = 0;
  while (const dirent *entry = readdir(dir)) {
    if (const auto number = number_in(entry->d_name, name)) found.set(*number);
    errno = 0;
  }
  const bool is_complete = errno == 0;
  closedir(dir);
  return is_complete ? found : all;
}

}  // namespace

void remove_segment_files(const std::string &folder, SegmentFileName name) noexcept {
  const Segments there = segments_with(folder, name);
  for (std::uint32_t i = 0; i < kSegmentsMax; ++i) {
    if (there.test(i))
      unlink((folder + "/" + name.before + std::to_string(i) + name.after).c_str());
  }
}

}  // namespace tmh::storage
