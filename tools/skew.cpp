// tools/skew.cpp -- tmh skew: which sites of a recording run could skew, and what to promote.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/assert.h"
#include "storage/control.h"
#include "storage/page_id.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/print.h"
#include "tools/skew_analysis.h"
#include "tools/skew_records.h"

namespace tmh::tools {

namespace {

// Bytes of one page that follow each other.
struct Range {
  std::uint64_t page, offset, bytes;
  SkewPlace place;
};

std::vector<Range> ranges_of(const std::map<std::uint64_t, SkewPlace> &places) {
  static_assert(storage::kLinesPerPage == 64, "a place has a bit for each line");
  std::vector<Range> ranges;
  for (const auto &[page, place] : places) {
    for (std::uint64_t line = 0; line < storage::kLinesPerPage;) {
      const std::uint64_t first = line;
      while (line < storage::kLinesPerPage && (place.lines >> line & 1) != 0) ++line;
      if (line > first)
        ranges.push_back({page, storage::page_offset(storage::PageId{page}) + first * kLineBytes,
                          (line - first) * kLineBytes, place});
      else
        ++line;
    }
  }
  std::stable_sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::pair(a.place.evidence, a.place.pairs) > std::pair(b.place.evidence, b.place.pairs);
  });
  return ranges;
}

class Document {
 public:
  Document(const SkewCommand &command, const storage::ControlFile &control,
           const std::vector<SkewRecording> &recordings, const SkewReport &report)
      : command_(command), control_(control), report_(report) {
    Json files = Json::array();
    for (const SkewRecording &one : recordings)
      files.push_back({{"name", one.name},
                       {"pid", one.pid},
                       {"instances", one.instances.size()},
                       {"cut", one.is_cut},
                       {"unread_bytes", one.unread_bytes}});
    Json sites = Json::array();
    for (const SkewSite &site : report.sites) {
      Json json = site_json(site);
      json["instances"] = site.instances;
      json["sampled"] = site.sampled;
      json["unknown_reads"] = site.unknown_reads;
      sites.push_back(std::move(json));
    }
    Json pairs = Json::array(), pivots = Json::array();
    for (const SkewPairFound &pair : report.pairs) pairs.push_back(pair_json(pair));
    for (const SkewPivotFound &pivot : report.pivots) pivots.push_back(pivot_json(pivot));
    json_ = {{"document", "tmh-skew-1"},       {"domain", command.domain},
             {"recordings", std::move(files)}, {"sites", std::move(sites)},
             {"pairs", std::move(pairs)},      {"pivots", std::move(pivots)}};
  }
  [[nodiscard]] const Json &json() const noexcept { return json_; }

 private:
  [[nodiscard]] static Json site_json(const SkewSite &site) {
    return {{"site", site.name}, {"kind", to_string(site.kind)}};
  }
  [[nodiscard]] Json site_json(std::size_t number) const {
    TMH_ASSERT(number < report_.sites.size());
    return site_json(report_.sites[number]);
  }

  // What `reader` would promote.
  [[nodiscard]] Json conflict_json(const SkewConflict &conflict) const {
    const std::vector<Range> ranges = ranges_of(conflict.places);
    const std::size_t shown = std::min<std::size_t>(ranges.size(), command_.places);
    Json places = Json::array();
    for (std::size_t i = 0; i < shown; ++i) {
      const Range &range = ranges[i];
      TMH_ASSERT(storage::segment_number(storage::PageId{range.page}) < storage::kSegmentsMax);
      const auto &segment = control_.segments[storage::segment_number(storage::PageId{range.page})];
      const bool is_known = storage::is_used(segment);
      places.push_back(
          {{"segment", is_known ? printable(segment.name) : std::string()},
           {"offset", range.offset},
           {"bytes", range.bytes},
           // Of a segment that lies elsewhere in each process there is none.
           {"address", is_known && segment.address != 0 ? segment.address + range.offset : 0},
           {"evidence", to_string(range.place.evidence)},
           {"instance_pairs", range.place.pairs}});
    }
    return {{"reader", site_json(conflict.reader)},
            {"writer", site_json(conflict.writer)},
            {"evidence", to_string(conflict.evidence)},
            {"places", std::move(places)},
            {"places_left_off", ranges.size() - shown}};
  }

  [[nodiscard]] Json pair_json(const SkewPairFound &pair) const {
    return {{"evidence", to_string(pair.evidence())},
            {"overlapped", pair.overlapped},
            {"could", pair.could},
            {"compared", pair.tested},
            {"conflicts", {conflict_json(pair.there), conflict_json(pair.back)}}};
  }
  [[nodiscard]] Json pivot_json(const SkewPivotFound &pivot) const {
    Json path = Json::array();
    for (const std::size_t site : pivot.path) path.push_back(site_json(site));
    return {{"evidence", to_string(pivot.evidence())},
            {"overlapped", pivot.overlapped},
            {"pivot", site_json(pivot.pivot)},
            {"conflicts", {conflict_json(pivot.first), conflict_json(pivot.second)}},
            {"back", std::move(path)}};
  }

  const SkewCommand &command_;
  const storage::ControlFile &control_;
  const SkewReport &report_;
  Json json_;
};

std::string name_of(const Json &site) {
  const std::string name = site["site"];
  const std::string quoted = name.empty() ? "(no site)" : '"' + name + '"';
  return site["kind"] == "snapshot"
             ? quoted
             : fmt::format("{} ({})", quoted, site["kind"].get<std::string>());
}

std::string explain(const std::string &evidence) {
  if (evidence == "whole-page") return "all of the page is written";
  if (evidence == "page-read") return "the page is read, perhaps not these lines";
  return "the page is written by both, perhaps not read";
}

std::string text_of_conflict(const Json &conflict) {
  std::string text = fmt::format("   {} reads what {} writes:\n", name_of(conflict["reader"]),
                                 name_of(conflict["writer"]));
  for (const Json &place : conflict["places"]) {
    const std::uint64_t offset = place["offset"], bytes = place["bytes"], at = place["address"];
    text += fmt::format("     {}+{:#x}, {} bytes{}: {} ({} pairs)\n",
                        place["segment"].get<std::string>(), offset, bytes,
                        at == 0 ? std::string() : fmt::format(", at {:#x}", at),
                        explain(place["evidence"]), place["instance_pairs"].get<std::uint64_t>());
  }
  if (const std::uint64_t left = conflict["places_left_off"]; left != 0)
    text += fmt::format("     and {} more (--places)\n", left);
  return text;
}

bool may_promote(const Json &conflict) { return conflict["reader"]["kind"] != "query"; }

std::string text_of_pair(const Json &pair) {
  TMH_ASSERT(pair["conflicts"].size() == 2);
  const Json &there = pair["conflicts"][0], &back = pair["conflicts"][1];
  const bool is_one = there["reader"] == there["writer"];
  std::string text =
      is_one ? fmt::format("{} can skew with itself", name_of(there["reader"]))
             : fmt::format("{} and {} can skew", name_of(there["reader"]), name_of(back["reader"]));
  text += fmt::format(": {} of {} pairs could, {} have overlapped\n",
                      pair["could"].get<std::uint64_t>(), pair["compared"].get<std::uint64_t>(),
                      pair["overlapped"].get<std::uint64_t>());
  text += text_of_conflict(there);
  if (!is_one) text += text_of_conflict(back);
  text += fmt::format("   cure: {} calls tmh::promote() on what it reads there",
                      name_of(there["reader"]));
  if (!is_one) text += fmt::format("; or {} does", name_of(back["reader"]));
  return text + '\n';
}

std::string text_of_pivot(const Json &pivot) {
  TMH_ASSERT(pivot["conflicts"].size() == 2);
  const Json &first = pivot["conflicts"][0], &second = pivot["conflicts"][1];
  std::string cycle = fmt::format("{} -> {} -> {} -> ", name_of(first["reader"]),
                                  name_of(pivot["pivot"]), name_of(second["writer"]));
  for (const Json &site : pivot["back"]) cycle += name_of(site) + " -> ";
  std::string text =
      fmt::format("{} can be the pivot of a cycle: {}{}; {} have overlapped with both\n",
                  name_of(pivot["pivot"]), cycle, name_of(first["reader"]),
                  pivot["overlapped"].get<std::uint64_t>());
  text += text_of_conflict(first) + text_of_conflict(second);
  text += fmt::format("   cure: {} calls tmh::promote() on what it reads there",
                      name_of(second["reader"]));
  if (may_promote(first)) text += fmt::format("; or {} does", name_of(first["reader"]));
  return text + '\n';
}

std::string text_of_skews(const Json &document) {
  std::string text;
  for (const Json &site : document["sites"])
    text +=
        fmt::format("{}: {} instances, {} compared pair by pair{}\n", name_of(site),
                    site["instances"].get<std::uint64_t>(), site["sampled"].get<std::uint64_t>(),
                    site["unknown_reads"] == 0 ? "" : "; some read more than was seen");
  for (const Json &pair : document["pairs"]) text += '\n' + text_of_pair(pair);
  for (const Json &pivot : document["pivots"]) text += '\n' + text_of_pivot(pivot);
  if (document["pairs"].empty() && document["pivots"].empty())
    text += "no skew: what these instances have read and written gives no dangerous cycle\n";
  else
    text +=
        "\nReads are known by pages: who reads another line of the page does not skew. What is "
        "written\nby no instance here is not looked at. After a cure, record again.\n";
  return text;
}

void tell_gaps(const SkewCommand &command, const std::vector<SkewRecording> &recordings,
               std::uint64_t foreign) {
  if (recordings.empty())
    print_error(
        fmt::format("tmh: {}: no recordings; processes that open the domain with "
                    "TMH_SKEW=record make them\n",
                    command.domain));
  if (foreign != 0)
    print_error(fmt::format("tmh: {}: {} recordings of another domain are left out\n",
                            command.domain, foreign));
  for (const SkewRecording &one : recordings) {
    if (one.unread_bytes != 0)
      print_error(fmt::format("tmh: the recording of {} (pid {}) is torn: {} bytes are not read\n",
                              one.name, one.pid, one.unread_bytes));
    if (one.is_cut)
      print_error(
          fmt::format("tmh: {} (pid {}) could not record all: disk, memory or its file was "
                      "full\n",
                      one.name, one.pid));
  }
}

}  // namespace

Exit run(const SkewCommand &command) {
  const std::unique_ptr<storage::ControlFile> control = read_control(command.domain);
  std::uint64_t foreign = 0;
  const std::vector<SkewRecording> recordings =
      read_skew_files(command.domain, control->header.domain_id, &foreign);
  tell_gaps(command, recordings, foreign);
  const SkewReport report = analyse_skew(recordings, command.sample);
  const Document document(command, *control, recordings, report);
  if (command.json)
    print(document.json());
  else
    print(text_of_skews(document.json()));
  return Exit::kOk;
}

}  // namespace tmh::tools
