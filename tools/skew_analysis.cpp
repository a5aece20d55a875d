// tools/skew_analysis.cpp -- see skew_analysis.h.
#include "tools/skew_analysis.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "platform/assert.h"
#include "storage/page_id.h"

namespace tmh::tools {

using observe::SkewInstance;
using observe::SkewKind;
using observe::SkewPair;
using storage::LineMask;

const char *to_string(SkewEvidence evidence) noexcept {
  switch (evidence) {
    case SkewEvidence::kPageWrittenToo:
      return "page-written-too";
    case SkewEvidence::kPageRead:
      return "page-read";
    case SkewEvidence::kWholePage:
      break;
  }
  return "whole-page";
}

const char *to_string(SkewKind kind) noexcept {
  switch (kind) {
    case SkewKind::kQuery:
      return "query";
    case SkewKind::kSnapshot:
      return "snapshot";
    case SkewKind::kSerializable:
      break;
  }
  return "serializable";
}

namespace {

// An instance with the number of its site.
struct Known {
  const SkewInstance *instance;
  std::size_t site;
  bool is_sampled;
};

const SkewPair *find_page(const std::vector<SkewPair> &writes, std::uint64_t page) noexcept {
  const auto found = std::lower_bound(
      writes.begin(), writes.end(), page,
      [](const SkewPair &write, std::uint64_t wanted) { return write.first < wanted; });
  return found != writes.end() && found->first == page ? &*found : nullptr;
}

bool has_read(const SkewInstance &reader, std::uint64_t page) noexcept {
  const auto behind = std::upper_bound(
      reader.reads.begin(), reader.reads.end(), page,
      [](std::uint64_t wanted, const SkewPair &run) { return wanted < run.first; });
  return behind != reader.reads.begin() &&
         page - std::prev(behind)->first < std::prev(behind)->second;
}

bool reads_from(const SkewInstance &reader, const SkewInstance &writer) noexcept {
  return std::any_of(writer.writes.begin(), writer.writes.end(),
                     [&](const SkewPair &write) { return has_read(reader, write.first); });
}

// Of two such that overlap the second one fails.
bool write_the_same(const SkewInstance &a, const SkewInstance &b) noexcept {
  const bool a_is_shorter = a.writes.size() < b.writes.size();
  const std::vector<SkewPair> &few = a_is_shorter ? a.writes : b.writes;
  const std::vector<SkewPair> &many = a_is_shorter ? b.writes : a.writes;
  return std::any_of(few.begin(), few.end(), [&](const SkewPair &one) {
    const SkewPair *const other = find_page(many, one.first);
    return other != nullptr && (other->second & one.second) != 0;
  });
}

SkewEvidence evidence_of(const SkewInstance &reader, const SkewPair &write) noexcept {
  if (write.second == ~LineMask{0}) return SkewEvidence::kWholePage;
  return find_page(reader.writes, write.first) != nullptr ? SkewEvidence::kPageWrittenToo
                                                          : SkewEvidence::kPageRead;
}

void add_places(const Known &reader, const Known &writer, SkewConflict *to) {
  TMH_ASSERT(reader.instance != nullptr && writer.instance != nullptr && to != nullptr);
  to->reader = reader.site;
  to->writer = writer.site;
  for (const SkewPair &write : writer.instance->writes) {
    if (!has_read(*reader.instance, write.first)) continue;
    SkewPlace &place = to->places[write.first];
    place.lines |= write.second;
    ++place.pairs;
    place.evidence = std::max(place.evidence, evidence_of(*reader.instance, write));
    to->evidence = std::max(to->evidence, place.evidence);
  }
}

// Compared for the first time.
constexpr bool kIsNew = true;

using SitePair = std::pair<std::size_t, std::size_t>;

class Analysis {
 public:
  Analysis(const std::vector<SkewRecording> &recordings, std::size_t sample_max) {
    list(recordings);
    choose_sample(sample_max);
    related_.assign(report_.sites.size(), std::vector<bool>(report_.sites.size()));
  }

  SkewReport run() {
    compare_sample();
    for (const auto &[life, numbers] : lives_) compare_overlapping(numbers);
    gather_pairs();
    gather_pivots();
    return std::move(report_);
  }

 private:
  void list(const std::vector<SkewRecording> &recordings) {
    // In the order of their names, whichever process opened the domain first.
    std::map<std::pair<std::string, SkewKind>, std::size_t> numbers;
    for (const SkewRecording &recording : recordings)
      for (const SkewInstance &instance : recording.instances)
        numbers.try_emplace({instance.site, instance.kind});
    for (auto &[site, number] : numbers) {
      number = report_.sites.size();
      report_.sites.push_back({.name = site.first, .kind = site.second});
    }
    for (const SkewRecording &recording : recordings) {
      for (const SkewInstance &instance : recording.instances) {
        const std::size_t number = numbers.at({instance.site, instance.kind});
        SkewSite &site = report_.sites[number];
        ++site.instances;
        if (instance.has_unknown_reads) ++site.unknown_reads;
        lives_[recording.life].push_back(known_.size());
        known_.push_back({&instance, number, false});
      }
    }
  }

  // Of each site the same number, or all, at even distances.
  void choose_sample(std::size_t sample_max) {
    if (report_.sites.empty()) return;
    const std::size_t each = std::max<std::size_t>(1, sample_max / report_.sites.size());
    std::vector<std::uint64_t> seen(report_.sites.size());
    for (std::size_t i = 0; i < known_.size(); ++i) {
      SkewSite &site = report_.sites[known_[i].site];
      const std::uint64_t number = seen[known_[i].site]++;
      TMH_ASSERT(site.instances > number);
      const std::uint64_t take = std::min<std::uint64_t>(each, site.instances);
      if (number * take / site.instances == (number + 1) * take / site.instances) continue;
      known_[i].is_sampled = true;
      ++site.sampled;
      sample_.push_back(i);
    }
  }

  void compare_sample() {
    for (std::size_t i = 0; i < sample_.size(); ++i) {
      const Known &a = known_[sample_[i]];
      for (std::size_t j = i + 1; j < sample_.size(); ++j) {
        const Known &b = known_[sample_[j]];
        SkewPairFound &pair = pairs_[std::minmax(a.site, b.site)];
        ++pair.tested;
        if (compare(a, b, kIsNew).is_mutual) ++pair.could;
      }
    }
  }

  struct Compared {
    bool a_reads_b = false, b_reads_a = false, is_mutual = false;
  };
  // is_new: they are compared for the first time.
  Compared compare(const Known &a, const Known &b, bool is_new) {
    TMH_ASSERT(a.site < related_.size() && b.site < related_.size());
    const bool same = write_the_same(*a.instance, *b.instance);
    Compared found{reads_from(*a.instance, *b.instance), reads_from(*b.instance, *a.instance),
                   false};
    if (same || found.a_reads_b || found.b_reads_a)
      related_[a.site][b.site] = related_[b.site][a.site] = true;
    const bool is_snapshot =
        a.instance->kind == SkewKind::kSnapshot || b.instance->kind == SkewKind::kSnapshot;
    if (same || !is_snapshot) return {};
    found.is_mutual = found.a_reads_b && found.b_reads_a;
    if (!is_new) return found;
    if (found.a_reads_b) add_places(a, b, &conflicts_[{a.site, b.site}]);
    if (found.b_reads_a) add_places(b, a, &conflicts_[{b.site, a.site}]);
    if (!found.is_mutual) return found;
    const bool is_ordered = a.site <= b.site;
    SkewPairFound &pair = pairs_[std::minmax(a.site, b.site)];
    add_places(a, b, is_ordered ? &pair.there : &pair.back);
    add_places(b, a, is_ordered ? &pair.back : &pair.there);
    return found;
  }

  // Of one life of the domain.
  void compare_overlapping(std::vector<std::size_t> numbers) {
    std::sort(numbers.begin(), numbers.end(), [&](std::size_t a, std::size_t b) {
      return known_[a].instance->snapshot < known_[b].instance->snapshot;
    });
    std::vector<std::size_t> running;
    std::vector<SitePair> edges;  // reader, writer: numbers of instances
    for (const std::size_t number : numbers) {
      const Known &b = known_[number];
      std::erase_if(running, [&](std::size_t other) {
        return known_[other].instance->end <= b.instance->snapshot;
      });
      for (const std::size_t other : running) {
        const Known &a = known_[other];
        if (b.instance->end <= a.instance->snapshot) continue;
        const Compared found = compare(a, b, !(a.is_sampled && b.is_sampled));
        if (found.a_reads_b) edges.emplace_back(other, number);
        if (found.b_reads_a) edges.emplace_back(number, other);
        if (found.is_mutual) ++pairs_[std::minmax(a.site, b.site)].overlapped;
      }
      running.push_back(number);
    }
    count_pivots(&edges);
  }

  // edges: of instances that have overlapped.
  void count_pivots(std::vector<SitePair> *edges) {
    TMH_ASSERT(edges != nullptr);
    std::sort(edges->begin(), edges->end());
    std::map<std::size_t, std::vector<std::size_t>> readers;
    for (const auto &[reader, writer] : *edges) readers[writer].push_back(reader);
    for (const auto &[pivot, into] : readers) {
      const SkewInstance &middle = *known_[pivot].instance;
      if (middle.kind != SkewKind::kSnapshot) continue;
      std::set<SitePair> found;
      const auto first = std::lower_bound(edges->begin(), edges->end(), SitePair{pivot, 0});
      for (auto edge = first; edge != edges->end() && edge->first == pivot; ++edge) {
        const Known &out = known_[edge->second];
        if (out.instance->end > middle.end) continue;
        for (const std::size_t one : into)
          if (one != edge->second && out.instance->end <= known_[one].instance->end)
            found.emplace(known_[one].site, out.site);
      }
      for (const auto &[in, out] : found) ++pivots_seen_[{in, known_[pivot].site, out}];
    }
  }

  void gather_pairs() {
    for (auto &[sites, pair] : pairs_)
      if (!pair.there.places.empty()) report_.pairs.push_back(pair);
    std::stable_sort(report_.pairs.begin(), report_.pairs.end(), [](const auto &a, const auto &b) {
      return std::tuple(a.evidence(), a.overlapped, a.could) >
             std::tuple(b.evidence(), b.overlapped, b.could);
    });
  }

  [[nodiscard]] bool is_pair(std::size_t a, std::size_t b) const {
    const auto found = pairs_.find(std::minmax(a, b));
    return found != pairs_.end() && !found->second.there.places.empty();
  }

  // Sites between, the fewest; none: it leads nowhere.
  [[nodiscard]] std::optional<std::vector<std::size_t>> way(std::size_t from, std::size_t to,
                                                            std::size_t around) const {
    TMH_ASSERT(from < related_.size() && to < related_.size() && around < related_.size());
    std::vector<std::optional<std::size_t>> before(related_.size());
    std::deque<std::size_t> next;
    if (related_[from][to]) return std::vector<std::size_t>{};
    const auto visit = [&](std::size_t at) {
      for (std::size_t site = 0; site < related_.size(); ++site) {
        if (!related_[at][site] || site == around || site == from || before[site]) continue;
        before[site] = at;
        next.push_back(site);
      }
    };
    for (visit(from); !next.empty(); next.pop_front()) {
      const std::size_t at = next.front();
      if (!related_[at][to]) {
        visit(at);
        continue;
      }
      std::vector<std::size_t> path;
      for (std::size_t site = at; site != from; site = *before[site]) path.push_back(site);
      std::reverse(path.begin(), path.end());
      return path;
    }
    return std::nullopt;
  }

  // One for each conflict out of a pivot: the promotion that ends it ends the others, too. What is
  // a pair is told as such.
  void gather_pivots() {
    for (const auto &[second_sites, second] : conflicts_) {
      const auto [pivot, out] = second_sites;
      TMH_ASSERT(pivot < report_.sites.size() && out < report_.sites.size());
      if (report_.sites[pivot].kind != SkewKind::kSnapshot || is_pair(pivot, out)) continue;
      std::optional<SkewPivotFound> best;
      for (const auto &[first_sites, first] : conflicts_) {
        if (first_sites.second != pivot || is_pair(first_sites.first, pivot)) continue;
        const std::size_t into = first_sites.first;
        const std::optional<std::vector<std::size_t>> path = way(out, into, pivot);
        if (!path) continue;
        const auto seen = pivots_seen_.find({into, pivot, out});
        SkewPivotFound found{.into = into,
                             .pivot = pivot,
                             .out = out,
                             .path = *path,
                             .first = first,
                             .second = second,
                             .overlapped = seen == pivots_seen_.end() ? 0 : seen->second};
        if (!best || is_better(found, *best)) best = std::move(found);
      }
      if (best) report_.pivots.push_back(*std::move(best));
    }
    std::stable_sort(report_.pivots.begin(), report_.pivots.end(), is_better);
  }
  static bool is_better(const SkewPivotFound &a, const SkewPivotFound &b) {
    return std::tuple(a.evidence(), a.overlapped, b.path.size()) >
           std::tuple(b.evidence(), b.overlapped, a.path.size());
  }

  SkewReport report_;
  std::vector<Known> known_;
  std::vector<std::size_t> sample_;
  // Numbers of instances.
  std::map<std::uint64_t, std::vector<std::size_t>> lives_;
  // Does anything that one writes concern the other?
  std::vector<std::vector<bool>> related_;
  // Reader, writer.
  std::map<SitePair, SkewConflict> conflicts_;
  std::map<SitePair, SkewPairFound> pairs_;
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, std::uint64_t> pivots_seen_;
};

}  // namespace

SkewReport analyse_skew(const std::vector<SkewRecording> &recordings, std::size_t sample_max) {
  return Analysis(recordings, sample_max).run();
}

}  // namespace tmh::tools
