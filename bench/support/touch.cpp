// bench/support/touch.cpp -- page-touch transactions against the engine and against the thesis's
// mechanism.
#include "bench/support/touch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/support/clock.h"
#include "bench/support/options.h"
#include "bench/support/stats.h"
#include "bench/support/thesis_mechanism.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

// --- What runs the transactions: two subjects with the same members
// --------------------------------------------------

class EngineSubject {
 public:
  EngineSubject(const Mode &mode, const std::string &folder)
      : durability_(mode.durability), domain_(open_domain(mode, folder)) {}
  ~EngineSubject() {
    if (segment_) domain_.unmap(segment_);
  }
  void map(const std::string &file, std::uint64_t page_count) {
    if (segment_) domain_.unmap(std::exchange(segment_, Segment()));
    TMH_ASSERT(page_count > 0);
    SegmentOptions options;
    options.size_bytes = page_count * kPageBytes;
    options.layout = Layout::kRaw;
    segment_ = domain_.map(file, options);
    file_ = file;
    page_count_ = page_count;
  }
  // Leaves no page of the view mapped.
  void refresh() { map(file_, page_count_); }
  [[nodiscard]] std::byte *data() const noexcept { return segment_.data(); }
  [[nodiscard]] std::uint64_t log_bytes() const { return logged(domain_, durability_).bytes; }
  void begin() const { domain_.begin(); }
  [[nodiscard]] bool end() const { return domain_.end() == Status::kCommitted; }
  void advise(const std::byte *address, Access access, std::size_t bytes) const {
    domain_.advise(address, access, bytes);
  }

 private:
  Durability durability_;
  Domain domain_;
  Segment segment_;
  std::string file_;
  std::uint64_t page_count_ = 0;
};

class ThesisSubject {
 public:
  explicit ThesisSubject(const std::string &folder) : folder_(folder) {}
  void map(const std::string &file, std::uint64_t page_count) {
    mechanism_.reset();  // one at a time: it owns the SIGSEGV action
    mechanism_.emplace(folder_, file, page_count);
  }
  void refresh() noexcept {}  // every end() leaves the view without access already
  [[nodiscard]] std::byte *data() const noexcept {
    TMH_ASSERT(mechanism_.has_value());
    return mechanism_->data();
  }
  [[nodiscard]] std::uint64_t log_bytes() const noexcept { return 0; }
  void begin() noexcept { mechanism_->begin(); }
  [[nodiscard]] bool end() {
    mechanism_->end();
    return true;
  }
  // The thesis advises page by page; a range is a loop of its calls.
  void advise(const std::byte *address, Access access, std::size_t bytes) noexcept {
    for (std::size_t offset = 0; offset < bytes; offset += kPageBytes)
      mechanism_->advise(address + offset, access);
  }

 private:
  std::string folder_;
  std::optional<ThesisMechanism> mechanism_;
};

// --- Which pages a transaction touches
// -------------------------------------------------------------------------------

struct Plan {
  std::vector<std::uint32_t> reads, writes;
};

Plan consecutive(std::uint32_t first, Shape shape) {
  Plan plan;
  plan.reads.resize(shape.read_pages);
  plan.writes.resize(shape.write_pages);
  std::iota(plan.reads.begin(), plan.reads.end(), first);
  std::iota(plan.writes.begin(), plan.writes.end(), first + shape.read_pages);
  return plan;
}

// Distinct pages: the first steps of a Fisher-Yates shuffle of `deck`, which may start in any
// order.
Plan drawn(Random &random, std::vector<std::uint32_t> &deck, Shape shape) {
  if (shape.pages() > deck.size())
    throw std::invalid_argument("more pages per transaction than random pages");
  for (std::uint32_t i = 0; i < shape.pages(); ++i)
    std::swap(deck[i], deck[i + random.below(deck.size() - i)]);
  const auto middle = deck.begin() + shape.read_pages;
  return {{deck.begin(), middle}, {middle, middle + shape.write_pages}};
}

void write_sparse_file(const std::string &path, std::uint64_t page_count) {
  TMH_ASSERT(page_count >= std::uint64_t{kSweepBlocks} * kSweepBlockPages);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  bool written = ::ftruncate(fd, static_cast<off_t>(page_count * kPageBytes)) == 0;
  std::vector<std::byte> block(kSweepBlockPages * kPageBytes);
  for (std::uint64_t i = 0; written && i < kSweepBlocks; ++i) {
    written = ::pwrite(fd, block.data(), block.size(),
                       static_cast<off_t>(i * (page_count / kSweepBlocks) * kPageBytes)) ==
              static_cast<ssize_t>(block.size());
  }
  const int error = errno;
  (void)::close(fd);
  if (!written) throw std::system_error(error, std::generic_category(), path);
}

// --- Batches
// -------------------------------------------------------------------------------------------------

std::uint32_t *word(std::byte *data, std::uint32_t page) noexcept {
  return reinterpret_cast<std::uint32_t *>(data + std::uint64_t{page} * kPageBytes);
}

// The whole of figures 4-1 (no advice) and 4-3 (advice per page), reads first.
template <Advice kAdvice, class Subject>
std::uint32_t touch(Subject &subject, std::byte *data, const Plan &plan, std::uint32_t value) {
  std::uint32_t sum = 0;
  if constexpr (kAdvice == Advice::kRange) {
    if (!plan.reads.empty()) {
      subject.advise(data + std::uint64_t{plan.reads[0]} * kPageBytes, Access::kRead,
                     plan.reads.size() * kPageBytes);
    }
    if (!plan.writes.empty()) {
      subject.advise(data + std::uint64_t{plan.writes[0]} * kPageBytes, Access::kReadWrite,
                     plan.writes.size() * kPageBytes);
    }
  }
  for (const std::uint32_t page : plan.reads) {
    if constexpr (kAdvice == Advice::kPerPage) {
      subject.advise(data + std::uint64_t{page} * kPageBytes, Access::kRead, sizeof(std::uint32_t));
    }
    sum += *word(data, page);
  }
  for (const std::uint32_t page : plan.writes) {
    if constexpr (kAdvice == Advice::kPerPage) {
      subject.advise(data + std::uint64_t{page} * kPageBytes, Access::kReadWrite,
                     sizeof(std::uint32_t));
    }
    *word(data, page) = value + page;
  }
  return sum;
}

// Transactions count down, so that the last one of a batch writes the same values however many
// there were: variants run hot batches of different lengths and still end with the same bytes.
template <Advice kAdvice, class Subject>
TouchReply run_batch(Subject &subject, const std::vector<Plan> &plans, std::uint32_t transactions,
                     std::uint32_t value) {
  TMH_ASSERT(!plans.empty() && transactions > 0);
  TouchReply reply;
  std::byte *const data = subject.data();
  std::uint32_t sum = 0;
  const std::int64_t start = now_ns();
  for (std::uint32_t k = 0; k < transactions; ++k) {
    subject.begin();
    sum = touch<kAdvice>(subject, data, plans[k % plans.size()], value + (transactions - 1 - k));
    if (!subject.end()) ++reply.aborted;
  }
  reply.us_per_transaction = static_cast<double>(now_ns() - start) / 1000.0 / transactions;
  reply.checksum = sum;
  return reply;
}

template <class Subject>
TouchReply run_advised(Subject &subject, Advice advice, const std::vector<Plan> &plans,
                       std::uint32_t transactions, std::uint32_t value) {
  switch (advice) {
    case Advice::kPerPage:
      return run_batch<Advice::kPerPage>(subject, plans, transactions, value);
    case Advice::kRange:
      return run_batch<Advice::kRange>(subject, plans, transactions, value);
    case Advice::kNone:
      break;
  }
  return run_batch<Advice::kNone>(subject, plans, transactions, value);
}

// Far from every value of a timed batch, so that the first timed stores change their pages too.
constexpr std::uint32_t kWarmUpValue = 1U << 28;

template <class Subject>
class Toucher {
 public:
  Toucher(std::unique_ptr<Subject> subject, std::string folder)
      : subject_(std::move(subject)), folder_(std::move(folder)) {}

  TouchReply operator()(const TouchRequest &request) {
    TMH_ASSERT(request.transactions > 0 && request.shape.pages() > 0);
    use_segment(request);
    std::vector<Plan> warm_up, timed;
    if (request.pattern == Pattern::kHot) {
      subject_->refresh();
      timed.assign(1, consecutive(0, request.shape));
      warm_up.assign(2, timed[0]);
    } else if (request.pattern == Pattern::kCold) {
      plan_cold(request, &warm_up, &timed);
    } else {
      subject_->refresh();
      plan_random(request, &warm_up, &timed);
    }
    const auto value = static_cast<std::uint32_t>(request.seed);
    (void)run_advised(*subject_, request.advice, warm_up,
                      static_cast<std::uint32_t>(warm_up.size()), value + kWarmUpValue);
    const std::uint64_t logged_before = subject_->log_bytes();
    TouchReply reply = run_advised(*subject_, request.advice, timed, request.transactions, value);
    reply.log_bytes_per_transaction = static_cast<double>(subject_->log_bytes() - logged_before) /
                                      std::max(1U, request.transactions);
    reply.checksum =
        checksum(timed[(request.transactions - 1) % timed.size()], reply.checksum, &reply.aborted);
    return reply;
  }

 private:
  void use_segment(const TouchRequest &request) {
    const std::string file = folder_ + (request.sparse ? "/sparse-" : "/pages-") +
                             std::to_string(request.segment_pages) + ".bin";
    if (file == file_) return;
    if (!std::filesystem::exists(file)) {
      if (request.sparse) {
        write_sparse_file(file, request.segment_pages);
      } else {
        write_page_file(file, request.segment_pages);
      }
    }
    subject_->map(file, request.segment_pages);
    file_ = file;
    walked_pages_ = request.segment_pages;  // a cold walk starts at the beginning
  }

  void plan_cold(const TouchRequest &request, std::vector<Plan> *warm_up,
                 std::vector<Plan> *timed) {
    if (request.sparse) {
      TMH_ASSERT(request.shape.pages() <= kSweepBlockPages);  // the others are not in the file
      if (request.transactions >= kSweepBlocks)
        throw std::invalid_argument("a sparse walk has 31 timed blocks");
      subject_->refresh();
      const auto stride = static_cast<std::uint32_t>(request.segment_pages / kSweepBlocks);
      for (std::uint32_t k = 0; k <= request.transactions; ++k) {
        (k == 0 ? warm_up : timed)->push_back(consecutive(k * stride, request.shape));
      }
      return;
    }
    const std::uint64_t batch_pages =
        std::uint64_t{request.transactions + 1} * request.shape.pages();
    if (batch_pages > request.segment_pages)
      throw std::invalid_argument("the segment is too small for a cold batch");
    if (walked_pages_ + batch_pages > request.segment_pages) {
      subject_->refresh();
      walked_pages_ = 0;
    }
    for (std::uint32_t k = 0; k <= request.transactions; ++k) {
      (k == 0 ? warm_up : timed)
          ->push_back(consecutive(static_cast<std::uint32_t>(walked_pages_), request.shape));
      walked_pages_ += request.shape.pages();
    }
  }

  void plan_random(const TouchRequest &request, std::vector<Plan> *warm_up,
                   std::vector<Plan> *timed) {
    TMH_ASSERT(warm_up->empty() && timed->empty());
    Random random(request.seed);
    std::vector<std::uint32_t> deck(request.random_pages);
    std::iota(deck.begin(), deck.end(), 0U);
    // As many touches as there are pages: who keeps pages mapped reaches its steady state.
    const std::uint32_t warm_ups = std::max(1U, request.random_pages / request.shape.pages());
    for (std::uint32_t k = 0; k < warm_ups; ++k)
      warm_up->push_back(drawn(random, deck, request.shape));
    for (std::uint32_t k = 0; k < request.transactions; ++k)
      timed->push_back(drawn(random, deck, request.shape));
  }

  // Of what the last transaction read, and of what it wrote, read again in a transaction of its
  // own.
  std::uint64_t checksum(const Plan &last, std::uint64_t read_sum, std::uint64_t *aborted) {
    TMH_ASSERT(aborted != nullptr);
    ResultHash hash;
    hash.add(read_sum);
    subject_->begin();
    for (const std::uint32_t page : last.writes) hash.add(*word(subject_->data(), page));
    if (!subject_->end()) ++*aborted;
    return hash.value();
  }

  std::unique_ptr<Subject> subject_;
  std::string folder_, file_;
  std::uint64_t walked_pages_ = 0;
};

template <class Subject, class... Arguments>
TouchWorker::Handler make_handler(const std::string &folder, Arguments &&...arguments) {
  // std::function wants a copyable callable
  auto toucher = std::make_shared<Toucher<Subject>>(
      std::make_unique<Subject>(std::forward<Arguments>(arguments)...), folder);
  return [toucher](const TouchRequest &request) { return (*toucher)(request); };
}

}  // namespace

const char *to_string(Pattern pattern) noexcept {
  switch (pattern) {
    case Pattern::kHot:
      return "hot";
    case Pattern::kCold:
      return "cold";
    case Pattern::kRandom:
      return "random";
  }
  return "?";
}

const char *to_string(Advice advice) noexcept {
  switch (advice) {
    case Advice::kNone:
      return "none";
    case Advice::kPerPage:
      return "per-page";
    case Advice::kRange:
      return "range";
  }
  return "?";
}

std::string to_string(Shape shape) {
  if (shape.write_pages == 0) return std::to_string(shape.read_pages) + " r";
  if (shape.read_pages == 0) return std::to_string(shape.write_pages) + " w";
  return std::to_string(shape.read_pages) + " r + " + std::to_string(shape.write_pages) + " w";
}

std::unique_ptr<TouchWorker> start_engine(const Mode &mode, const std::string &folder) {
  return std::make_unique<TouchWorker>(
      [&] { return make_handler<EngineSubject>(folder, mode, folder); });
}

std::unique_ptr<TouchWorker> start_thesis(const std::string &folder) {
  return std::make_unique<TouchWorker>([&] { return make_handler<ThesisSubject>(folder, folder); });
}

}  // namespace tmh::bench
