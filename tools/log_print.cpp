// tools/log_print.cpp -- see log_print.h.
#include "tools/log_print.h"

#include <bit>

#include <fmt/format.h>

#include "platform/assert.h"
#include "tools/moment.h"

namespace tmh::tools {

using storage::ControlFile;
using storage::Lsn;

namespace {

// "3", "0-7,9"
std::string line_list(storage::LineMask lines) {
  static_assert(storage::kLinesPerPage == 64, "a mask has a bit for each");
  std::string text;
  while (lines != 0) {
    const int first = std::countr_zero(lines);
    const int run = std::countr_one(lines >> first);
    TMH_ASSERT(run > 0 && first + run <= 64);
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (run > 1) text += fmt::format("-{}", first + run - 1);
    lines = first + run == 64 ? 0 : lines >> (first + run) << (first + run);
  }
  return text;
}

std::string segment_name(const ControlFile &control, std::uint32_t number) {
  if (number >= storage::kSegmentsMax || !storage::is_used(control.segments[number]))
    return "no such segment";
  return control.segments[number].name;
}

}  // namespace

std::string entry_heading() {
  return fmt::format("{:>14} {:>12} {:26} {:>4} {:>8} {:>10}\n", "LSN", "STAMP", "TIME", "GEN",
                     "PAGES", "BYTES");
}

Json entry_json(const LogEntry &entry, const ControlFile &control, bool pages) {
  if (entry.kind == LogEntry::Kind::kOpen)
    return {{"type", "open"},
            {"lsn", entry.lsn},
            {"generation", entry.generation},
            {"time_ns", entry.time_ns},
            {"previous_end", entry.open.previous_end},
            {"previous_generation", entry.open.previous_generation}};
  Json json{{"type", "transaction"}, {"lsn", entry.lsn},         {"end", entry.end},
            {"stamp", entry.stamp},  {"time_ns", entry.time_ns}, {"generation", entry.generation},
            {"pages", entry.pages},  {"bytes", entry.bytes},     {"records", entry.records}};
  for (const OtherItem &item : entry.others)
    json["items"].push_back({{"kind", item.kind}, {"text", item.text}});
  if (!pages) return json;
  Json changes = Json::array();
  for (const PageChange &change : entry.changes) {
    const std::uint32_t number = storage::segment_number(change.page);
    changes.push_back({{"segment", number},
                       {"name", segment_name(control, number)},
                       {"page", static_cast<std::uint64_t>(storage::page_index(change.page))},
                       {"lines", line_list(change.lines)},
                       {"words", change.word_count}});
  }
  json["changes"] = std::move(changes);
  return json;
}

std::string entry_text(const LogEntry &entry, const ControlFile &control, Lsn last_end,
                       bool pages) {
  if (entry.kind == LogEntry::Kind::kOpen) {
    std::string text = fmt::format("{:>14} generation {} opens, {}", entry.lsn, entry.generation,
                                   moment_text(entry.time_ns));
    if (entry.open.previous_end < last_end)
      text += fmt::format("; undone: everything behind LSN {}", entry.open.previous_end);
    return text + "\n";
  }
  std::string text =
      fmt::format("{:>14} {:>12} {:26} {:>4} {:>8} {:>10}\n", entry.lsn, entry.stamp,
                  moment_text(entry.time_ns), entry.generation, entry.pages, entry.bytes);
  for (const OtherItem &item : entry.others)
    text += fmt::format("{:>14} {}\n", "", printable(item.text));
  if (!pages) return text;
  for (const PageChange &change : entry.changes) {
    const std::uint32_t number = storage::segment_number(change.page);
    text += fmt::format("{:>14} segment {} ({}), page {}, lines {}: {}\n", "", number,
                        printable(segment_name(control, number)),
                        static_cast<std::uint64_t>(storage::page_index(change.page)),
                        line_list(change.lines), counted(change.word_count, "word"));
  }
  return text;
}

}  // namespace tmh::tools
