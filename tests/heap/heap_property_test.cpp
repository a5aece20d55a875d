// tests/heap/heap_property_test.cpp -- random histories of a heap against a model.
// Model:     std::map from a live block's offset to its size, alignment and the seed of its
//            content.
// Invariants, after every step or at the end of every history:
//   (1) a block is aligned, inside, and overlaps no live block.
//   (2) every byte of a live block keeps its value until it is freed, whatever others do.
//   (3) an abort (the bytes are put back) brings back exactly the heap and the model of its begin.
//   (4) freed blocks and random addresses are refused with kBadFree, and nothing changes.
//   (5) heap_check() holds and counts what the model holds; kSegmentFull comes only when no run of
//       free pages would do.
//   (6) after everything is freed, one block takes all pages: nothing leaks.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "storage/heap/heap_check.h"
#include "tests/support/heap_region.h"
#include "tests/support/seed.h"

namespace tmh::storage {
namespace {

using test::HeapRegion;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Block {
  std::size_t bytes;
  std::uint64_t seed;
};
using Model = std::map<std::uint64_t, Block>;  // by offset

enum class Action {
  kAllocate,
  kFree,
  kFreeAgain,
  kFreeAnywhere,
  kBegin,
  kAbort,
  kCommit,
  kRoot,
  kFreeMost
};

struct Step {
  Action action;
  std::uint32_t arena;
  std::size_t bytes;
  std::size_t alignment;
  std::uint64_t choice;
};

void showValue(const Step &step, std::ostream &out) {
  static const char *const kNames[] = {"allocate", "free",   "free again", "free anywhere", "begin",
                                       "abort",    "commit", "root",       "free most"};
  out << kNames[static_cast<int>(step.action)] << "(arena " << step.arena << ", " << step.bytes
      << " bytes at " << step.alignment << ", choice " << step.choice << ")";
}

// Sizes of every kind; alignments mostly small, as in programs.
rc::Gen<Step> any_step(std::size_t bytes_max) {
  const auto up_to = [=](std::size_t limit) {
    return rc::gen::inRange<std::size_t>(0, std::min(limit, bytes_max) + 1);
  };
  return rc::gen::construct<Step>(
      rc::gen::weightedElement<Action>({{30, Action::kAllocate},
                                        {18, Action::kFree},
                                        {2, Action::kFreeAgain},
                                        {2, Action::kFreeAnywhere},
                                        {3, Action::kBegin},
                                        {2, Action::kAbort},
                                        {2, Action::kCommit},
                                        {1, Action::kRoot},
                                        {1, Action::kFreeMost}}),
      rc::gen::inRange<std::uint32_t>(0, 4),
      rc::gen::weightedOneOf<std::size_t>(
          {{6, up_to(128)}, {4, up_to(4032)}, {3, up_to(kMediumBytesMax)}, {1, up_to(400'000)}}),
      rc::gen::map(
          rc::gen::weightedElement<unsigned>({{20, 4}, {2, 0}, {3, 6}, {1, 8}, {1, 11}, {1, 12}}),
          [](unsigned shift) { return std::size_t{1} << shift; }),
      rc::gen::arbitrary<std::uint64_t>());
}

class Player {
 public:
  Player(std::uint64_t size_bytes, std::uint64_t max_bytes)
      : heap_(size_bytes, max_bytes), max_bytes_(max_bytes) {}

  void play(const std::vector<Step> &steps) {
    int count = 0;
    for (const Step &step : steps) {
      perform(step);
      if (++count % 32 == 0) check();
    }
    check();
    free_all_but(0);
    check();
    RC_ASSERT(live_.empty());
    if (!rooted_) expect_all_free();
  }

 private:
  void perform(const Step &step) {
    switch (step.action) {
      case Action::kAllocate:
        return allocate(step);
      case Action::kFree:
        return free(step);
      case Action::kFreeAgain:
        if (!freed_.empty())
          refuse(
              *std::next(freed_.begin(), static_cast<std::ptrdiff_t>(step.choice % freed_.size())),
              step.arena);
        return;
      case Action::kFreeAnywhere:
        return refuse(step.choice % heap_.size_bytes(), step.arena);
      case Action::kBegin:
        if (!before_)
          before_ = std::make_unique<State>(State{heap_.snapshot(), live_, freed_, rooted_});
        return;
      case Action::kAbort:
        return abort();
      case Action::kCommit:
        return before_.reset();
      case Action::kRoot:
        return root(step);
      case Action::kFreeMost:
        return free_all_but(step.choice % 8);
    }
  }

  void allocate(const Step &step) {
    auto *block = static_cast<std::byte *>(heap_.allocate(step.bytes, step.alignment, step.arena));
    if (block == nullptr) {
      RC_ASSERT(heap_.why == Errc::kSegmentFull);
      return expect_full(step);
    }
    const auto offset = static_cast<std::uint64_t>(block - heap_.base());
    RC_ASSERT(offset % step.alignment == 0U);
    RC_ASSERT(offset >= raw(kFirstRunPage) * kPageBytes &&
              offset + step.bytes <= heap_.size_bytes());
    const auto after = live_.lower_bound(offset);
    // An empty block takes one byte.
    RC_ASSERT(after == live_.end() ||
              after->first >= offset + std::max<std::size_t>(step.bytes, 1));
    if (after != live_.begin()) {
      const auto before = std::prev(after);
      RC_ASSERT(before->first + std::max<std::size_t>(before->second.bytes, 1) <= offset);
    }
    fill(block, {step.bytes, step.choice});
    live_[offset] = {step.bytes, step.choice};
    freed_.erase(offset);
  }

  void free(const Step &step) {
    if (live_.empty()) return;
    const auto victim =
        std::next(live_.begin(), static_cast<std::ptrdiff_t>(step.choice % live_.size()));
    free_block(victim, step.arena, (step.choice & 1) != 0);
  }

  Model::iterator free_block(Model::iterator victim, std::uint32_t arena, bool with_size) {
    const auto [offset, block] = *victim;
    RC_ASSERT(intact(heap_.base() + offset, block));
    RC_ASSERT(heap_.deallocate(heap_.base() + offset, with_size ? block.bytes : 0, arena) ==
              Errc::kOk);
    freed_.insert(offset);
    return live_.erase(victim);
  }

  void free_all_but(std::uint64_t kept) {
    std::uint32_t arena = 0;
    for (auto at = live_.begin(); live_.size() > kept;) at = free_block(at, arena++ % 5, true);
  }

  void refuse(std::uint64_t offset, std::uint32_t arena) {
    if (live_.count(offset) != 0) return;  // allocated anew, or hit by chance
    const auto before = heap_.snapshot();
    RC_ASSERT(heap_.deallocate(heap_.base() + offset, 0, arena) == Errc::kBadFree);
    RC_ASSERT(heap_.equals(before));
  }

  void abort() {
    if (!before_) return;
    heap_.restore(before_->bytes);
    live_ = before_->live;
    freed_ = before_->freed;
    rooted_ = before_->rooted;
    before_.reset();
    check();
  }

  void root(const Step &step) {
    void **cell = heap_.root("root " + std::to_string(step.choice % 600), 8);
    if (cell == nullptr) RC_ASSERT(heap_.why == Errc::kSegmentFull);
    rooted_ = true;
  }

  void check() {
    HeapCensus census;
    RC_ASSERT(heap_.check(&census) == Errc::kOk);
    RC_ASSERT(census.small_blocks + census.medium_blocks + census.large_runs == live_.size());
    for (const auto &[offset, block] : live_) RC_ASSERT(intact(heap_.base() + offset, block));
  }

  // A refusal is right only when no run of the needed length is left between live blocks: what
  // arenas keep idle counts as free.
  void expect_full(const Step &step) {
    if (rooted_) return;  // where added root pages lie is not in the model
    const std::size_t bytes = std::max<std::size_t>(step.bytes, 1);
    const bool large = bytes > kMediumBytesMax || step.alignment > kMediumAlignmentMax;
    const std::uint64_t header_bytes =
        large ? 0 : std::max<std::uint64_t>(kRunHeaderBytes, step.alignment);
    const std::uint64_t needed = (header_bytes + bytes + kPageBytes - 1) / kPageBytes;
    std::uint64_t longest = 0;
    std::uint64_t free_from = raw(kFirstRunPage);
    for (const auto &[offset, block] : live_) {
      if (offset / kPageBytes > free_from)
        longest = std::max(longest, offset / kPageBytes - free_from);
      free_from = (offset + std::max<std::size_t>(block.bytes, 1) - 1) / kPageBytes + 1;
    }
    longest = std::max(longest, max_bytes_ / kPageBytes - free_from);
    RC_ASSERT(longest < needed);
  }

  void expect_all_free() {
    const std::uint64_t fixed = raw(kFirstRunPage);
    const bool all =
        heap_.allocate((heap_.page_count() - fixed) * kPageBytes, kPageBytes) != nullptr;
    RC_ASSERT(all);
  }

  static std::byte value(const Block &block, std::size_t at) noexcept {
    return static_cast<std::byte>((block.seed + at * 167) >> (at % 5 * 8));
  }
  static void fill(std::byte *bytes, const Block &block) noexcept {
    for (std::size_t at = 0; at < block.bytes; ++at) bytes[at] = value(block, at);
  }
  static bool intact(const std::byte *bytes, const Block &block) noexcept {
    for (std::size_t at = 0; at < block.bytes; ++at) {
      if (bytes[at] != value(block, at)) return false;
    }
    return true;
  }

  struct State {
    std::vector<std::byte> bytes;
    Model live;
    std::set<std::uint64_t> freed;
    bool rooted;
  };

  HeapRegion heap_;
  std::uint64_t max_bytes_;
  Model live_;
  std::set<std::uint64_t> freed_;
  bool rooted_ = false;
  std::unique_ptr<State> before_;
};

// Before the first property, which is when rapidcheck reads its parameters.
class Seeded : public testing::Environment {
  void SetUp() override {
    setenv("RC_PARAMS", ("seed=" + std::to_string(test::seed())).c_str(), 0);
  }
};
[[maybe_unused]] const auto *const kSeeded = testing::AddGlobalTestEnvironment(new Seeded);

RC_GTEST_PROP(HeapModel, SmallFixedHeapIsFilledAndEmptied, ()) {
  const auto steps =
      *rc::gen::resize(400, rc::gen::container<std::vector<Step>>(any_step(400'000)));
  Player(kMiB, kMiB).play(steps);
}

RC_GTEST_PROP(HeapModel, GrowingHeapKeepsEveryBlock, ()) {
  const auto steps =
      *rc::gen::resize(400, rc::gen::container<std::vector<Step>>(any_step(400'000)));
  Player(kMiB, 8 * kMiB).play(steps);
}

RC_GTEST_PROP(HeapModel, SmallBlocksOnly, ()) {
  const auto steps = *rc::gen::resize(1000, rc::gen::container<std::vector<Step>>(any_step(600)));
  Player(kMiB, 4 * kMiB).play(steps);
}

}  // namespace
}  // namespace tmh::storage
