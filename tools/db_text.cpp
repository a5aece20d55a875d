// tools/db_text.cpp -- header lines, then a line for each key and each record.
#include "tools/db_text.h"

#include <fmt/format.h>

#include <tmh/error.hpp>

#include "platform/assert.h"

namespace tmh::tools {

namespace {

constexpr std::string_view kTypes[] = {"btree", "hash", "recno"};

[[nodiscard]] int digit_of(char character) noexcept {
  if (character >= '0' && character <= '9') return character - '0';
  if (character >= 'a' && character <= 'f') return character - 'a' + 10;
  if (character >= 'A' && character <= 'F') return character - 'A' + 10;
  return -1;
}

}  // namespace

std::string text_of(const DbTextHead &head) {
  TMH_ASSERT(head.type <= DB_RECNO);
  std::string text = "VERSION=3\nformat=bytevalue\ntype=";
  text += kTypes[head.type];
  if (head.has_duplicates) text += "\nduplicates=1";
  if (head.type == DB_RECNO) text += "\nrenumber=1";
  if (head.page_bytes != 0) text += fmt::format("\ndb_pagesize={}", head.page_bytes);
  return text + "\nHEADER=END\n";
}

std::string line_of(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string line = " ";
  line.reserve(2 * bytes.size() + 2);
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    line += kDigits[value >> 4];
    line += kDigits[value & 15];
  }
  return line += '\n';
}

std::string end_of_db_text() { return "DATA=END\n"; }

void DbTextReader::refuse_line(const char *why) const {
  throw Error(Errc::kCorrupt, fmt::format("line {}: {}", number_, why));
}

std::string DbTextReader::line() {
  std::string text;
  ++number_;
  if (!std::getline(from_, text)) refuse_line("the text ends here, without DATA=END");
  return text;
}

DbTextHead DbTextReader::head() {
  DbTextHead head;
  bool has_type = false, has_keys = false;
  for (std::string text = line(); text != "HEADER=END"; text = line()) {
    const std::size_t equal = text.find('=');
    if (equal == std::string::npos) refuse_line("no name=value, and no HEADER=END before it");
    const std::string name = text.substr(0, equal), value = text.substr(equal + 1);
    if (name == "VERSION" && value != "2" && value != "3") refuse_line("another version");
    if (name == "format") {
      if (value != "print" && value != "bytevalue") refuse_line("another format");
      is_print_ = value == "print";
    } else if (name == "type") {
      std::size_t type = 0;
      while (type < std::size(kTypes) && kTypes[type] != value) ++type;
      if (type == std::size(kTypes)) refuse_line("a type that is none of btree, hash, recno");
      head.type = static_cast<DBTYPE>(type);
      has_type = true;
    } else if (name == "duplicates") {
      head.has_duplicates = value == "1";
    } else if (name == "keys") {
      head.has_keys = value == "1";
      has_keys = true;
    } else if (name == "db_pagesize" && value.size() < 6) {
      head.page_bytes = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    }
  }
  if (!has_type) refuse_line("the header names no type");
  if (head.type == DB_RECNO && !has_keys) head.has_keys = false;
  TMH_ASSERT(head.type <= DB_RECNO);
  return head;
}

std::string DbTextReader::parsed(std::string_view text) const {
  std::string bytes;
  bytes.reserve(text.size());
  const auto byte_at = [&](std::size_t at) {
    const int high = at + 1 < text.size() ? digit_of(text[at]) : -1;
    const int low = high < 0 ? -1 : digit_of(text[at + 1]);
    if (low < 0) refuse_line("no two hexadecimal digits");
    return static_cast<char>(high * 16 + low);
  };
  for (std::size_t at = 0; at < text.size();) {
    if (!is_print_) {
      bytes += byte_at(at);
      at += 2;
    } else if (text[at] != '\\') {
      bytes += text[at++];
    } else if (at + 1 < text.size() && text[at + 1] == '\\') {
      bytes += '\\';
      at += 2;
    } else {
      bytes += byte_at(at + 1);
      at += 3;
    }
  }
  return bytes;
}

bool DbTextReader::next(std::string *bytes) {
  TMH_ASSERT(bytes != nullptr);
  const std::string text = line();
  if (text == "DATA=END") return false;
  if (text.empty() || text[0] != ' ') refuse_line("a record begins with a space");
  *bytes = parsed(std::string_view(text).substr(1));
  return true;
}

}  // namespace tmh::tools
