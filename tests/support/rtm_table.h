// tests/support/rtm_table.h -- a segment of plain words in a hybrid domain, for tests of RTM; and
// whether this machine runs RTM.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/tmh.hpp>

#include "levels/line/rtm_detection.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

// Empty: RTM works here; else the library's own sentence.
inline std::string why_no_rtm() {
  const line::RtmReport &report = line::detect_rtm();
  return report.is_usable ? std::string() : report.reason;
}

inline std::string to_text(const SiteReport &report) {
  return "hardware " + std::to_string(report.hardware_commits) + ", pages " +
         std::to_string(report.page_commits) + ", aborts: conflict " +
         std::to_string(report.hardware_conflicts) + ", capacity " +
         std::to_string(report.hardware_capacity) + ", zero " +
         std::to_string(report.hardware_zero) + ", explicit " +
         std::to_string(report.hardware_explicit) + ", other " +
         std::to_string(report.hardware_other) + ", gate " + std::to_string(report.hardware_gate) +
         "; findings " + std::to_string(report.hardware_findings);
}

inline DomainOptions hybrid_options(LineChoice line = LineChoice::kAuto) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = line;
  return options;
}

// word(p, i): the i-th of page p.
struct RtmTable {
  static constexpr std::uint64_t kPages = 64, kWordsPerPage = kPageBytes / sizeof(std::uint64_t);

  explicit RtmTable(const std::string &folder, const DomainOptions &options = hybrid_options(),
                    std::uint64_t pages = kPages)
      : domain(Domain::open(folder, options)) {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = raw.max_bytes = pages * kPageBytes;
    segment = domain.map("words.raw", raw);
  }
  [[nodiscard]] std::uint64_t &word(std::uint64_t page, std::uint64_t index = 0) const {
    return reinterpret_cast<std::uint64_t *>(segment.data())[page * kWordsPerPage + index];
  }
  [[nodiscard]] field<std::uint64_t> &shared(std::uint64_t page, std::uint64_t index = 0) const {
    return reinterpret_cast<field<std::uint64_t> &>(word(page, index));
  }
  [[nodiscard]] Site plain_site(const std::string &escalation = {}) const {
    return Site(domain, "plain", escalation);
  }
  // At level 2.
  [[nodiscard]] std::uint64_t committed(std::uint64_t page, std::uint64_t index = 0) const {
    return query(domain, [&] { return word(page, index); });
  }
  Domain domain;
  Segment segment;
};

}  // namespace tmh::test
