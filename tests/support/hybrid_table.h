// tests/support/hybrid_table.h -- a table of words in a hybrid domain, for both levels.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/tmh.hpp>

namespace tmh::test {

inline constexpr std::uint64_t kPages = 16;
inline constexpr std::uint64_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);

inline DomainOptions hybrid(const std::string &escalation = {}) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
  options.policies.escalation = escalation;
  return options;
}

// A raw segment of words; word(p, i) is the i-th of page p.
struct Table {
  explicit Table(const std::string &folder, const DomainOptions &options = hybrid())
      : domain(Domain::open(folder, options)) {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = raw.max_bytes = kPages * kPageBytes;
    segment = domain.map("words.raw", raw);
  }
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page, std::uint64_t index = 0) const {
    return reinterpret_cast<field<std::uint64_t> *>(segment.data())[page * kWordsPerPage + index];
  }
  // At level 2, as plain code reads.
  [[nodiscard]] std::uint64_t committed(std::uint64_t page, std::uint64_t index = 0) const {
    return query(domain, [&] { return word(page, index).load(); });
  }
  Domain domain;
  Segment segment;
};

}  // namespace tmh::test
