// examples/itm/gene_assembly.cpp -- a gene is put together from overlapping segments of it.
// Shape:     (1) threads put segments into a set, so that each is there once. (2) From long
//            overlaps to short ones, they link each segment to one that begins with its last bases.
//            (3) After them, the links are followed. An operation is one segment of (1).
// Checks:    what (3) reads is the gene that the segments were cut from.
// Source:    STAMP (genome).
#include "examples/itm/gene_assembly.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

struct Sizes {
  std::uint64_t gene = 16'384, segment = 64, segments = 131'072, batch = 12;
  // Starts of neighbours are at most so far apart. Random genes of the sizes allowed do not repeat
  // as many bases as their overlap has.
  [[nodiscard]] std::uint64_t step_max() const { return segment / 4; }
  [[nodiscard]] std::uint64_t overlap_min() const { return segment - step_max(); }
};

struct Input {
  std::string gene;  // of 0 to 3
  std::vector<itm::Bases> segments;
};

itm::Bases cut(const Sizes &sizes, const std::string &gene, std::uint64_t start) {
  itm::Bases bases = 0;
  for (std::uint64_t i = 0; i < sizes.segment; ++i)
    bases = bases << 2 | static_cast<unsigned char>(gene[start + i]);
  return bases;
}

// Segments from everywhere, and then those without which there would be gaps; shuffled.
Input make_input(const Sizes &sizes, itm::Random &random) {
  Input input;
  for (std::uint64_t i = 0; i < sizes.gene; ++i)
    input.gene.push_back(static_cast<char>(random.below(4)));
  const std::uint64_t starts = sizes.gene - sizes.segment + 1;
  std::vector<bool> has_start(starts);
  const auto add = [&](std::uint64_t start) {
    input.segments.push_back(cut(sizes, input.gene, start));
    has_start[start] = true;
  };
  add(0);
  add(starts - 1);
  while (input.segments.size() < sizes.segments) add(random.below(starts));
  for (std::uint64_t i = 1, last = 0; i < starts; ++i) {
    if (!has_start[i] && i - last == sizes.step_max()) add(i);
    if (has_start[i]) last = i;
  }
  for (std::uint64_t i = input.segments.size() - 1; i > 0; --i)
    std::swap(input.segments[i], input.segments[random.below(i + 1)]);
  return input;
}

// A thread's part of `count` things.
struct Part {
  Part(std::uint64_t count, const itm::Worker &worker)
      : first(count * worker.index() / worker.threads()),
        last(count * (worker.index() + 1) / worker.threads()) {}
  std::uint64_t first, last;
};

// One input.
class Assembly {
 public:
  Assembly(const Sizes &sizes, const Input &input)
      : sizes_(&sizes),
        input_(&input),
        set_buckets_(std::bit_ceil(std::min(sizes.gene, sizes.segments))),
        start_buckets_(set_buckets_) {
    itm::segments_open(set_buckets_, start_buckets_);
  }
  ~Assembly() { itm::segments_close(); }
  Assembly(const Assembly &) = delete;
  Assembly &operator=(const Assembly &) = delete;

  void work(itm::Worker &worker) {
    // (1)
    const Part part(input_->segments.size(), worker);
    for (std::uint64_t i = part.first; i < part.last; i += sizes_->batch) {
      const std::uint64_t count = std::min(sizes_->batch, part.last - i);
      static_cast<void>(itm::add_segments(input_->segments.data() + i, count));
    }
    worker.add(part.last - part.first);
    worker.meet();
    // (2)
    std::vector<itm::Segment *> starts = mine(worker), ends = starts;
    const Part buckets(start_buckets_, worker);
    for (std::uint64_t overlap = sizes_->segment - 1; overlap >= sizes_->overlap_min(); --overlap) {
      std::erase_if(starts, [](const auto *each) { return !itm::lacks_predecessor(each); });
      for (itm::Segment *each : starts) itm::add_start(each, sizes_->segment, overlap);
      worker.meet();
      std::erase_if(ends,
                    [&](itm::Segment *each) { return itm::link(each, sizes_->segment, overlap); });
      worker.meet();
      itm::empty_starts(buckets.first, buckets.last);
      worker.meet();
    }
  }
  // (3), after the threads. Bases of 0 to 3; empty: not exactly one segment is the first.
  [[nodiscard]] std::string assembled() {
    const itm::Segment *first = nullptr;
    for (std::uint64_t bucket = 0; bucket < set_buckets_; ++bucket) {
      for (const itm::Segment *each : in_bucket(bucket)) {
        ++unique_;
        if (!itm::lacks_predecessor(each)) continue;
        if (first != nullptr) return {};
        first = each;
      }
    }
    std::string gene;
    std::uint64_t overlap = 0;
    // A circle would be longer than all segments together.
    for (const itm::Segment *each = first; each != nullptr && gene.size() <= input_->gene.size();
         each = each->successor) {
      for (std::uint64_t i = overlap; i < sizes_->segment; ++i)
        gene.push_back(static_cast<char>(each->bases >> (2 * (sizes_->segment - 1 - i)) & 3));
      overlap = each->overlap;
    }
    return gene;
  }
  [[nodiscard]] std::uint64_t unique() const { return unique_; }

 private:
  static std::vector<itm::Segment *> in_bucket(std::uint64_t bucket) {
    std::vector<itm::Segment *> segments(16);
    const std::uint64_t count = itm::read_bucket(bucket, segments.data(), segments.size());
    const bool were_more = count > segments.size();
    segments.resize(count);
    if (were_more) static_cast<void>(itm::read_bucket(bucket, segments.data(), count));
    return segments;
  }
  // The segments of this thread's part of the set.
  std::vector<itm::Segment *> mine(const itm::Worker &worker) const {
    std::vector<itm::Segment *> segments;
    const Part part(set_buckets_, worker);
    for (std::uint64_t bucket = part.first; bucket < part.last; ++bucket) {
      const std::vector<itm::Segment *> more = in_bucket(bucket);
      segments.insert(segments.end(), more.begin(), more.end());
    }
    return segments;
  }

  const Sizes *sizes_;
  const Input *input_;
  std::uint64_t set_buckets_, start_buckets_, unique_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
  Sizes sizes;
  itm::Options options("gene_assembly",
                       "A gene is put together from segments; an operation is one segment",
                       itm::Amount::kInputs);
  options.add("--gene", sizes.gene, "its bases", 64, 1u << 20);
  options.add("--segment", sizes.segment, "bases of a segment", 48, itm::kSegmentMax);
  options.add("--segments", sizes.segments, "how many there are", 2, 1u << 28);
  options.add("--batch", sizes.batch, "segments that one transaction puts into the set", 1, 10'000);
  if (!options.parse(argc, argv)) return options.status();

  const itm::Common &common = options.common();
  itm::Report report(options);
  itm::Work work;
  std::uint64_t unique = 0;
  const std::uint64_t inputs = itm::run_rounds(common, work, [&](std::uint64_t round) {
    itm::Random random(itm::seed_of(common.seed, round));
    const Input input = make_input(sizes, random);
    Assembly assembly(sizes, input);
    work += itm::run_threads(common, [&](itm::Worker &worker) { assembly.work(worker); });
    report.require(assembly.assembled() == input.gene, "the assembled gene is another one");
    unique += assembly.unique();
    return report.is_ok();
  });
  report.detail("gene", sizes.gene);
  report.detail("segment", sizes.segment);
  report.detail("segments", sizes.segments);
  report.detail("batch", sizes.batch);
  report.detail("inputs", inputs);
  report.detail("unique_segments", unique);
  return report.print(work);
}
