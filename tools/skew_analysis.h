// tools/skew_analysis.h -- which sites can skew under snapshot isolation, by what their instances
// have read and written.
// Shape:     pure: recordings in, findings out. An instance a has a read-write conflict to b where
//            it reads a page of which b writes lines, and the two write no line in common: else the
//            second of them fails, and they never overlap. Two sites skew where instances have such
//            conflicts both ways. A site is a pivot where conflicts lead into and out of it, and
//            others lead back.
//            Every instance is compared with those that it has overlapped. For what could have
//            overlapped instances are compared pair by pair, so of each site a sample is.
// Source:    Fekete, Liarokapis, O'Neil, O'Neil, Shasha, "Making Snapshot Isolation Serializable"
//            (ACM TODS 2005): theorem 3.1, dangerous structures. We differ: reads are pages, so
//            what is found may be none; and sites are known by instances that ran, so what never
//            ran is not found. EXCITE-VM, section 5.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "observe/skew.h"
#include "tools/skew_records.h"

namespace tmh::tools {

// Why a conflict is believed, the weakest first. Reads are known by pages, writes by lines.
enum class SkewEvidence : std::uint8_t {
  // The reader writes other lines of the page: perhaps it has read nothing there.
  kPageWrittenToo = 1,
  // The reader has read the page, perhaps not these lines.
  kPageRead = 2,
  // The writer has written every line of it.
  kWholePage = 3
};
static_assert(SkewEvidence::kPageWrittenToo < SkewEvidence::kPageRead &&
              SkewEvidence::kPageRead < SkewEvidence::kWholePage);
[[nodiscard]] const char *to_string(SkewEvidence evidence) noexcept;
[[nodiscard]] const char *to_string(observe::SkewKind kind) noexcept;

struct SkewSite {
  // Empty: of no site.
  std::string name;
  observe::SkewKind kind = observe::SkewKind::kSnapshot;
  std::uint64_t instances = 0;
  // Of these, compared pair by pair.
  std::uint64_t sampled = 0;
  // Of these, read more than was recorded.
  std::uint64_t unknown_reads = 0;
};

// A page that one site reads and another one writes.
struct SkewPlace {
  std::uint64_t lines = 0;
  // Pairs of instances that were compared.
  std::uint64_t pairs = 0;
  SkewEvidence evidence = SkewEvidence::kPageWrittenToo;
};

// What `reader` has read and `writer` has written, in pairs of their instances.
struct SkewConflict {
  std::size_t reader = 0, writer = 0;
  // Of all its places the strongest.
  SkewEvidence evidence = SkewEvidence::kPageWrittenToo;
  // By page.
  std::map<std::uint64_t, SkewPlace> places;
};

// Two sites, or one, of which two instances conflict both ways.
struct SkewPairFound {
  // Of the two, what the first reads and the second writes; and the other way round.
  SkewConflict there, back;
  // Pairs of the sample, and of these, such that could skew.
  std::uint64_t tested = 0, could = 0;
  // Pairs that have overlapped, of all: each a skew, where the pages tell the truth.
  std::uint64_t overlapped = 0;
  // The weaker one of the two.
  [[nodiscard]] SkewEvidence evidence() const noexcept {
    return there.evidence < back.evidence ? there.evidence : back.evidence;
  }
};

// into -> pivot -> out -> ... -> into: a cycle of more than two instances.
struct SkewPivotFound {
  std::size_t into = 0, pivot = 0, out = 0;
  // Sites between `out` and `into`.
  std::vector<std::size_t> path;
  // What `into` reads and the pivot writes; what the pivot reads and `out` writes.
  SkewConflict first, second;
  // Instances of the pivot that have overlapped with both, `out` having committed first.
  std::uint64_t overlapped = 0;
  [[nodiscard]] SkewEvidence evidence() const noexcept {
    return first.evidence < second.evidence ? first.evidence : second.evidence;
  }
};

struct SkewReport {
  std::vector<SkewSite> sites;
  // The best proven ones first; of these those that have overlapped most.
  std::vector<SkewPairFound> pairs;
  std::vector<SkewPivotFound> pivots;
};

// sample_max: instances that are compared pair by pair, of all sites; at least one of each.
[[nodiscard]] SkewReport analyse_skew(const std::vector<SkewRecording> &recordings,
                                      std::size_t sample_max);

}  // namespace tmh::tools
