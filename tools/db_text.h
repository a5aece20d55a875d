// tools/db_text.h -- records of db(3) as lines of text: the format of Berkeley DB's db_dump, which
// its db_load reads, too.
// Errors:    Error(kCorrupt): lines that are none of it, with their number.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

#include <tp/db.h>

namespace tmh::tools {

struct DbTextHead {
  DBTYPE type = DB_BTREE;
  bool has_duplicates = false;
  unsigned page_bytes = 0;  // 0: nothing is said
  bool has_keys = true;     // records by number may come without
};

[[nodiscard]] std::string text_of(const DbTextHead &head);
// A line, of hexadecimal digits.
[[nodiscard]] std::string line_of(std::string_view bytes);
[[nodiscard]] std::string end_of_db_text();

class DbTextReader {
 public:
  explicit DbTextReader(std::istream *from) : from_(*from) {}
  [[nodiscard]] DbTextHead head();
  // False: the end.
  [[nodiscard]] bool next(std::string *bytes);

 private:
  [[noreturn]] void refuse_line(const char *why) const;
  [[nodiscard]] std::string line();
  [[nodiscard]] std::string parsed(std::string_view text) const;

  std::istream &from_;
  std::uint64_t number_ = 0;
  bool is_print_ = false;
};

}  // namespace tmh::tools
