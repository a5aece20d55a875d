// tests/support/level_rules.cpp -- page words beside line words.
#include "tests/support/level_rules.h"

#include <cstring>

#include "hierarchy/exchange/directory.h"
#include "levels/line/layout.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

std::string open_line_above(const std::string &folder, std::uint32_t segment) {
  const std::string number = std::to_string(segment);
  const std::string records = read_file(folder + "/tmh.directory." + number),
                    words = read_file(folder + "/tmh.lines." + number);
  constexpr std::size_t kRecord = sizeof(hierarchy::DirectoryRecord),
                        kWords = storage::kLinesPerPage * sizeof(std::uint64_t);
  for (std::size_t page = 0; (page + 1) * kRecord <= records.size(); ++page) {
    hierarchy::PageLevel level{};
    std::memcpy(&level, records.data() + page * kRecord + sizeof(std::uint64_t), sizeof level);
    if (level == hierarchy::PageLevel::kLines) continue;
    for (std::size_t line = 0; line < storage::kLinesPerPage; ++line) {
      std::uint64_t word = 0;
      std::memcpy(&word, words.data() + page * kWords + line * sizeof word, sizeof word);
      if (!line::is_upper(word))
        return "page " + std::to_string(page) + " is above, line " + std::to_string(line) +
               " is not";
    }
  }
  return {};
}

}  // namespace tmh::test
