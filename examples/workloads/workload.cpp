// examples/workloads/workload.cpp -- what all workloads have in common: the table of them, the
// segment, tallies.
#include "examples/workloads/workload.hpp"

#include <algorithm>

namespace workloads {

namespace {

constexpr std::uint64_t kMagic = 0x6d7472756e303031;  // "mtrun001"
constexpr std::uint64_t kTalliesAt = tmh::kPageBytes;
constexpr std::uint64_t kContentAt = kTalliesAt + kWorkersMax * tmh::kPageBytes;

// Header and tallies only: a segment that is another workload's is not to grow.
tmh::SegmentOptions options(std::uint64_t content_bytes) {
  constexpr std::uint64_t kReservedBytes = 64ull << 30;  // by default
  tmh::SegmentOptions made;
  made.layout = tmh::Layout::kRaw;
  made.size_bytes = kContentAt;
  if (kContentAt + content_bytes > kReservedBytes) made.max_bytes = 1ull << 40;
  return made;
}

// The six of the YCSB have the same content.
std::uint64_t kind_of(const Description &workload) {
  const std::string_view name = workload.name;
  std::uint64_t kind = 0;
  for (const char letter : name.substr(0, name.find('-')))
    kind = fnv_hash(kind ^ static_cast<unsigned char>(letter));
  return kind;
}

}  // namespace

const std::vector<Description> &descriptions() {
  static const std::vector<Description> all = {
      {"bank", "transfers between two accounts; reads add up all of them", "accounts", 1000,
       100'000'000, 0, 10},
      {"list", "keys inserted, removed and looked up in a sorted list", "keys", 500, 100'000, 0,
       80},
      {"tree", "the same in a red-black tree", "keys", 10'000, 100'000'000, 0, 80},
      {"hash", "the same in a hash set of 16,384 chains", "keys", 10'000, 1'000'000, 0, 80},
      {"mixed",
       "small transfers, and one update in a hundred that writes to up to 256 pages; reads add up "
       "all words",
       "pages", 1024, 1'000'000, 0, 1},
      {"ycsb-a", "YCSB A: 50 % reads of a record, 50 % updates of one of its fields", "records",
       10'000, 100'000'000, Zipfian::kYcsbTheta, 50},
      {"ycsb-b", "YCSB B: 95 % reads, 5 % updates", "records", 10'000, 100'000'000,
       Zipfian::kYcsbTheta, 95},
      {"ycsb-c", "YCSB C: reads only", "records", 10'000, 100'000'000, Zipfian::kYcsbTheta, 100},
      {"ycsb-d", "YCSB D: 95 % reads of the latest records, 5 % insertions", "records", 10'000,
       100'000'000, Zipfian::kYcsbTheta, 95},
      {"ycsb-e", "YCSB E: 95 % scans of 1 to 100 records, 5 % insertions", "records", 10'000,
       100'000'000, Zipfian::kYcsbTheta, 95},
      {"ycsb-f", "YCSB F: 50 % reads, 50 % read-modify-writes", "records", 10'000, 100'000'000,
       Zipfian::kYcsbTheta, 50},
      {"tpcb",
       "TPC-B: account, teller and branch changed, a row of history written; 100,000 accounts per "
       "branch",
       "branches", 1, 10'000, -1, -1},
  };
  return all;
}

const Description *find(std::string_view name) {
  for (const Description &one : descriptions())
    if (name == one.name) return &one;
  return nullptr;
}

// The segment's first words.
struct Workload::Header {
  tmh::field<std::uint64_t> magic, kind, size, portions;  // portions: of the content that are made
};

Workload::Workload(const tmh::Domain &domain, const Plan &plan, std::uint64_t content_bytes,
                   tmh::Isolation isolation)
    : domain_(domain),
      plan_(plan),
      bytes_(kContentAt +
             (content_bytes + tmh::kPageBytes - 1) / tmh::kPageBytes * tmh::kPageBytes),
      segment_(domain.map("run.db", options(content_bytes))),
      site_(domain, plan.workload->name, plan.escalation, isolation) {}

Workload::Header &Workload::header() const noexcept {
  return *reinterpret_cast<Header *>(segment_.data());
}
std::byte *Workload::content() const noexcept { return segment_.data() + kContentAt; }
Tally &Workload::tally(unsigned worker) const noexcept {
  return *reinterpret_cast<Tally *>(segment_.data() + kTalliesAt + worker * tmh::kPageBytes);
}

void Workload::set_up() {
  (void)set_up_while([] { return true; });
}

bool Workload::set_up_while(const std::function<bool()> &go_on) {
  tmh::atomically(domain_, [&] {
    Header &head = header();
    if (head.magic == 0) {
      head.magic = kMagic;
      head.kind = kind_of(*plan_.workload);
      head.size = plan_.size;
    }
    if (head.magic != kMagic || head.kind != kind_of(*plan_.workload) || head.size != plan_.size)
      throw tmh::Error(
          tmh::Errc::kBadArgument,
          segment_.name() + " holds the content of another workload, or of another size");
  });
  if (segment_.size_bytes() < bytes_) segment_.grow(bytes_);
  for (bool is_complete = false; !is_complete;) {
    if (!go_on()) return false;
    is_complete = tmh::atomically(domain_, [&] {
      Header &head = header();
      const std::uint64_t made = head.portions;
      if (made == portions()) return true;
      if (made > portions())
        throw tmh::Error(tmh::Errc::kCorrupt, segment_.name() + ": more was made than there is");
      fill(made);
      head.portions = made + 1;
      return false;
    });
  }
  tmh::query(domain_, [&] { prepare(); });
  return true;
}

Workload::Sums Workload::sums() const {
  Sums all;
  for (unsigned i = 0; i < kWorkersMax; ++i) {
    all.updates += tally(i).updates;
    all.grown += tally(i).grown;
    all.sum += tally(i).sum;
  }
  return all;
}

Verdict Workload::verify() {
  Verdict verdict;
  tmh::query(domain_, [&] { check(&verdict); });
  return verdict;
}

std::uint64_t Workload::updates_of(unsigned worker) {
  return tmh::query(domain_, [&] { return std::uint64_t{tally(worker).updates}; });
}

std::unique_ptr<Workload> open(const tmh::Domain &domain, Plan plan) {
  const Description &workload = *plan.workload;
  if (plan.size == 0) plan.size = workload.size;
  if (plan.skew < 0) plan.skew = std::max(0.0, workload.skew);
  if (plan.read_percent < 0) plan.read_percent = std::max(0, workload.read_percent);
  const std::string_view name = workload.name;
  if (name == "bank") return make_bank(domain, plan);
  if (name == "list") return make_list(domain, plan);
  if (name == "tree") return make_tree(domain, plan);
  if (name == "hash") return make_hash(domain, plan);
  if (name == "mixed") return make_mixed(domain, plan);
  return name == "tpcb" ? make_tpcb(domain, plan) : make_ycsb(domain, plan);
}

}  // namespace workloads
