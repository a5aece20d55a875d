// tools/skew_records.h -- the files of observe/skew.h, read from bytes that may be anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "observe/skew.h"

namespace tmh::tools {

// What one participant has recorded.
struct SkewRecording {
  std::string name;
  std::int32_t pid = 0;
  std::uint64_t domain_id[2] = {};
  std::uint64_t life = 0;
  // It has stopped before its participant did.
  bool is_cut = false;
  // Writes and promotions ascend by page, one entry each.
  std::vector<observe::SkewInstance> instances;
  // Behind the last whole record: its process was killed in a write, or writes just now.
  std::uint64_t unread_bytes = 0;
};

// path: for messages. None: its process has not written all of the header.
// Errors: kCorrupt, kForeignVersion.
[[nodiscard]] std::optional<SkewRecording> parse_skew(const std::string &path,
                                                      std::string_view bytes);
// Of the domain in this folder; what another domain has left there is none. The number of files
// that were left out goes to *foreign. Errors: as parse_skew(); kIo, kPermission.
[[nodiscard]] std::vector<SkewRecording> read_skew_files(const std::string &folder,
                                                         const std::uint64_t (&domain_id)[2],
                                                         std::uint64_t *foreign);

}  // namespace tmh::tools
