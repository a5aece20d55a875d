// tests/heap/allocator_test.cpp -- unmodified standard containers in a heap segment, one process,
// in every mode.
// Invariants: (1) containers with tmh::allocator behave as with std::allocator, and stay what they
//             were committed as.
//             (2) an abort or an exception brings back containers and heap exactly.
//             (3) a full segment says so, frees, and can be filled again; growth happens under use
//                 and survives an abort.
//             (4) each misuse has its Errc, and harms nothing.
// Several processes: multi_allocator_test.cpp. The heap alone: heap_test.cpp.
#include <csignal>
#include <cstdlib>
#include <deque>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/containers.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class AllocatorTest : public ModeTest {
 protected:
  void SetUp() override {
    ModeTest::SetUp();
    if (IsSkipped()) return;
    domain_ = Domain::open(folder_.path(), options());
    segment_ = map("heap", kMiB, 64 * kMiB);
  }

  Segment map(const std::string &name, std::uint64_t size_bytes, std::uint64_t max_bytes) const {
    SegmentOptions heap;
    heap.size_bytes = size_bytes;
    heap.max_bytes = max_bytes;
    return domain_.map(name, heap);
  }
  // Committed state of the heap; fails the test when it is damaged.
  storage::HeapCensus census(const Segment &segment) const {
    storage::HeapCensus counted;
    const Errc error = query(domain_, [&] {
      return storage::heap_check(segment.data(), segment.size_bytes(), &counted);
    });
    EXPECT_EQ(error, Errc::kOk) << message(error);
    return counted;
  }
  std::uint64_t blocks(const Segment &segment) const {
    const auto counted = census(segment);
    return counted.small_blocks + counted.medium_blocks + counted.large_runs;
  }
  std::string committed(const SharedLibrary *library) const {
    return query(domain_, [&] { return content(*library); });
  }

  Domain domain_;
  Segment segment_;
};

INSTANTIATE_TEST_SUITE_P(Modes, AllocatorTest, testing::ValuesIn(kModes), mode_name);

TEST_P(AllocatorTest, ContainersEqualTheirPlainTwins) {
  auto *library = segment_.root<SharedLibrary>();
  constexpr std::uint32_t kSteps = 300;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    atomically(domain_, [&] { change(*library, step); });
  }
  EXPECT_EQ(committed(library), expected_content(kSteps));
  EXPECT_EQ(segment_.root<SharedLibrary>(), library) << "a root is made once";
  census(segment_);
}

TEST_P(AllocatorTest, ContainersOutliveTheDomainHandle) {
  constexpr std::uint32_t kSteps = 70;
  const auto *library = segment_.root<SharedLibrary>();
  atomically(domain_, [&] {
    for (std::uint32_t step = 0; step < kSteps; ++step)
      change(*segment_.root<SharedLibrary>(), step);
  });
  domain_.close();
  domain_ = Domain::open(folder_.path(), options());
  segment_ = map("heap", 0, 0);
  ASSERT_EQ(segment_.root<SharedLibrary>(), library)
      << "the same address, so pointers inside stay right";
  EXPECT_EQ(committed(library), expected_content(kSteps));
}

TEST_P(AllocatorTest, AbortBringsBackContainersAndHeap) {
  auto *library = segment_.root<SharedLibrary>();
  atomically(domain_, [&] {
    for (std::uint32_t step = 0; step < 100; ++step) change(*library, step);
  });
  const std::uint64_t before = blocks(segment_);
  for (std::uint32_t round = 0; round < 3; ++round) {
    domain_.begin();
    for (std::uint32_t step = 100; step < 150 + 100 * round; ++step) change(*library, step);
    void *large = segment_.allocate(300'000);
    std::fill_n(static_cast<std::byte *>(large), 300'000, std::byte{1});
    domain_.abort();
    EXPECT_EQ(committed(library), expected_content(100));
    EXPECT_EQ(blocks(segment_), before);
  }
  atomically(domain_, [&] { change(*library, 100); });
  EXPECT_EQ(committed(library), expected_content(101));
}

TEST_P(AllocatorTest, ExceptionRollsBackAndPropagates) {
  auto *library = segment_.root<SharedLibrary>();
  atomically(domain_, [&] { change(*library, 0); });
  const std::uint64_t before = blocks(segment_);
  EXPECT_THROW(atomically(domain_,
                          [&] {
                            for (std::uint32_t step = 1; step < 60; ++step) change(*library, step);
                            throw std::runtime_error("in the middle");
                          }),
               std::runtime_error);
  EXPECT_EQ(domain_.depth(), 0U);
  EXPECT_EQ(committed(library), expected_content(1));
  EXPECT_EQ(blocks(segment_), before);
}

// What is freed and allocated again in one instance, and what an abort makes of it.
TEST_P(AllocatorTest, FreedInAnAbortedInstanceIsStillThere) {
  std::byte *block = nullptr;
  atomically(domain_, [&] {
    block = static_cast<std::byte *>(segment_.allocate(100));
    std::fill_n(block, 100, std::byte{7});
  });
  domain_.begin();
  segment_.deallocate(block, 100);
  auto *again = static_cast<std::byte *>(segment_.allocate(100));
  EXPECT_EQ(again, block);
  std::fill_n(again, 100, std::byte{9});
  domain_.abort();
  query(domain_, [&] { EXPECT_EQ(std::count(block, block + 100, std::byte{7}), 100); });
  atomically(domain_, [&] { segment_.deallocate(block, 100); });
  EXPECT_EQ(blocks(segment_), 0U);
}

TEST_P(AllocatorTest, FullSegmentSaysSoFreesAndIsFilledAgain) {
  const Segment small = map("small", kMiB, kMiB);
  auto *list = small.root<std::list<std::uint64_t, allocator<std::uint64_t>>>();
  std::size_t filled[2] = {};
  for (std::size_t &count : filled) {
    atomically(domain_, [&] {
      try {
        for (;;) list->push_back(1);
      } catch (const Error &error) {
        EXPECT_EQ(error.errc(), Errc::kSegmentFull) << error.what();
      }
    });
    count = query(domain_, [&] { return list->size(); });
    EXPECT_GT(count, 20'000U);
    atomically(domain_, [&] { list->clear(); });  // freeing needs no room
    EXPECT_EQ(blocks(small), 1U) << "the list's own object";
  }
  EXPECT_EQ(filled[0], filled[1]);
  // All the small pieces serve one large block again.
  atomically(domain_, [&] { small.deallocate(small.allocate(600'000), 600'000); });
}

TEST_P(AllocatorTest, FullSegmentInsideAtomicallyRollsBack) {
  const Segment small = map("small", kMiB, kMiB);
  auto *numbers = small.root<std::vector<std::uint64_t, allocator<std::uint64_t>>>();
  atomically(domain_, [&] { numbers->assign(1000, 5); });
  expect_error(
      Errc::kSegmentFull,
      [&] {
        atomically(domain_, [&] {
          for (;;) numbers->push_back(6);
        });
      },
      "small");
  query(domain_, [&] {
    EXPECT_EQ(numbers->size(), 1000U);
    EXPECT_EQ(std::count(numbers->begin(), numbers->end(), 5U), 1000);
  });
}

TEST_P(AllocatorTest, GrowsUnderUse) {
  auto *numbers = segment_.root<std::vector<std::uint64_t, allocator<std::uint64_t>>>();
  auto *order = segment_.root<std::list<std::uint64_t, allocator<std::uint64_t>>>("order");
  ASSERT_EQ(segment_.size_bytes(), kMiB);
  constexpr std::uint64_t kCount = 200'000;
  for (std::uint64_t number = 0; number < kCount;) {
    atomically(domain_, [&] {
      for (int i = 0; i < 20'000; ++i, ++number) {
        numbers->push_back(number);
        if (number % 10 == 0) order->push_back(number);
      }
    });
  }
  EXPECT_GT(segment_.size_bytes(), 2 * kMiB);
  query(domain_, [&] {
    ASSERT_EQ(numbers->size(), kCount);
    for (std::uint64_t number = 0; number < kCount; ++number) ASSERT_EQ((*numbers)[number], number);
    std::uint64_t expected = 0;
    for (const auto number : *order) {
      ASSERT_EQ(number, expected);
      expected += 10;
    }
    EXPECT_EQ(expected, kCount);
  });
  census(segment_);
}

TEST_P(AllocatorTest, AbortAfterGrowthKeepsTheSizeAndLosesTheBlock) {
  const std::uint64_t before = blocks(segment_);
  domain_.begin();
  auto *block = static_cast<std::byte *>(segment_.allocate(8 * kMiB));
  std::fill_n(block, 8 * kMiB, std::byte{1});
  domain_.abort();
  EXPECT_GE(segment_.size_bytes(), 8 * kMiB);
  EXPECT_EQ(blocks(segment_), before);
  atomically(domain_, [&] { EXPECT_EQ(segment_.allocate(8 * kMiB), block) << "the room is free"; });
}

TEST_P(AllocatorTest, HeapThatWasGrownByHandIsUsed) {
  const std::uint64_t size_before = segment_.size_bytes();
  segment_.grow(16 * kMiB);
  ASSERT_EQ(size_before, kMiB);
  atomically(domain_, [&] { static_cast<void>(segment_.allocate(12 * kMiB)); });
  EXPECT_EQ(segment_.size_bytes(), 16 * kMiB);
}

TEST_P(AllocatorTest, AlignedBlocksAndOverAlignedObjects) {
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  struct alignas(64) Line {
    std::uint64_t words[8];
  };
  auto *pages = segment_.root<std::vector<Page, allocator<Page>>>("pages");
  auto *lines = segment_.root<std::list<Line, allocator<Line>>>("lines");
  atomically(domain_, [&] {
    pages->resize(5);
    for (int i = 0; i < 40; ++i) lines->emplace_back();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages->data()) % 4096, 0U);
    for (const Line &line : *lines) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&line) % 64, 0U);
    expect_error(Errc::kBadArgument, [&] { static_cast<void>(segment_.allocate(16, 8192)); });
    expect_error(Errc::kBadArgument, [&] { static_cast<void>(segment_.allocate(16, 24)); });
  });
}

TEST_P(AllocatorTest, MisuseIsRefusedByName) {
  expect_error(Errc::kEndWithoutBegin, [&] { static_cast<void>(segment_.allocate(16)); });
  void *block = atomically(domain_, [&] { return segment_.allocate(16); });
  expect_error(Errc::kEndWithoutBegin, [&] { segment_.deallocate(block, 16); });
  expect_error(Errc::kEndWithoutBegin, [&] { static_cast<void>(segment_.root_cell("root")); });
  const Segment raw = domain_.map("plain", raw_segment());
  std::uint64_t local = 0;
  atomically(domain_, [&] {
    expect_error(Errc::kNotAHeap, [&] { static_cast<void>(raw.allocate(16)); });
    expect_error(Errc::kNotAHeap, [&] { static_cast<void>(raw.root_cell("root")); });
    expect_error(Errc::kBadFree, [&] { segment_.deallocate(&local); });
    expect_error(Errc::kBadFree, [&] { segment_.deallocate(static_cast<std::byte *>(block) + 8); });
    expect_error(Errc::kBadFree, [&] { segment_.deallocate(block, 17); });
    segment_.deallocate(block, 16);
    expect_error(Errc::kBadFree, [&] { segment_.deallocate(block, 16); });
    expect_error(Errc::kBadArgument, [&] { static_cast<void>(segment_.root_cell("")); });
    expect_error(Errc::kBadArgument,
                 [&] { static_cast<void>(segment_.root_cell(std::string(48, 'n'))); });
    *segment_.root_cell("sized", 24) = block;
    expect_error(Errc::kRootMismatch, [&] { static_cast<void>(segment_.root_cell("sized", 32)); });
  });
  expect_error(Errc::kRootMismatch,
               [&] { static_cast<void>(segment_.root<std::uint64_t>("sized")); });
  EXPECT_EQ(blocks(segment_), 0U);
}

TEST_P(AllocatorTest, QueryThatAllocatesIsReportedAndLeavesNothing) {
  const std::uint64_t before = blocks(segment_);
  expect_error(Errc::kQueryWrote,
               [&] { query(domain_, [&] { static_cast<void>(segment_.allocate(64)); }); });
  EXPECT_EQ(domain_.depth(), 0U);
  EXPECT_EQ(blocks(segment_), before);
}

struct RefusesToBeMade {
  RefusesToBeMade() { throw std::runtime_error("not now"); }
  std::byte bytes[100];
};

TEST_P(AllocatorTest, ARootThatCannotBeMadeLeavesNothingInABodyThatGoesOn) {
  const std::uint64_t before = blocks(segment_);
  atomically(domain_, [&] {
    EXPECT_THROW(static_cast<void>(segment_.root<RefusesToBeMade>("refuses")), std::runtime_error);
  });
  EXPECT_EQ(blocks(segment_), before);
  EXPECT_THROW(static_cast<void>(segment_.root<RefusesToBeMade>("refuses")), std::runtime_error);
  EXPECT_EQ(blocks(segment_), before);
  // Nor is the name one of objects of that size; the one that is made says what it is of.
  EXPECT_NE(segment_.root<std::uint64_t>("refuses"), nullptr);
  expect_error(Errc::kRootMismatch,
               [&] { static_cast<void>(segment_.root<RefusesToBeMade>("refuses")); });
}

TEST_P(AllocatorTest, ARootForWhichThereIsNoRoomClaimsNoSize) {
  struct Huge {
    std::byte bytes[1ull << 40];
  };
  atomically(domain_, [&] {
    expect_error(Errc::kSegmentFull, [&] { static_cast<void>(segment_.root<Huge>("huge")); });
  });
  EXPECT_NE(segment_.root<std::uint64_t>("huge"), nullptr);
}

TEST_P(AllocatorTest, RootsThatHoldContainersGiveThemTheirSegment) {
  using Numbers = std::vector<int, allocator<int>>;
  auto *queue = segment_.root<std::queue<int, std::deque<int, allocator<int>>>>("queue");
  auto *heap = segment_.root<std::priority_queue<int, Numbers>>("priority queue");
  auto *pair = segment_.root<std::pair<int, Numbers>>("pair");
  auto *tuple = segment_.root<std::tuple<int, long>>("tuple");
  EXPECT_EQ(query(domain_, [&] { return pair->first + std::get<0>(*tuple) + std::get<1>(*tuple); }),
            0);
  atomically(domain_, [&] {
    queue->push(1);
    heap->push(2);
    pair->second.push_back(3);
    EXPECT_EQ(segment_of(&queue->front()).name(), "heap");
    EXPECT_EQ(segment_of(&heap->top()).name(), "heap");
    EXPECT_EQ(segment_of(pair->second.data()).name(), "heap");
  });
}

TEST_P(AllocatorTest, AllocatorsCompareByTheirSegment) {
  const Segment other = map("other", kMiB, kMiB);
  EXPECT_EQ(allocator<int>(segment_), allocator<char>(segment_));
  EXPECT_NE(allocator<int>(segment_), allocator<int>(other));
  atomically(domain_, [&] {
    std::vector<int, allocator<int>> here({1, 2, 3}, allocator<int>(segment_));
    std::vector<int, allocator<int>> there({4}, allocator<int>(other));
    there = here;
    EXPECT_EQ(there, here);
    EXPECT_EQ(segment_of(there.data()).name(), "other") << "an assignment keeps the segment";
    there = std::vector<int, allocator<int>>({5, 6}, allocator<int>(segment_));
    EXPECT_EQ(segment_of(there.data()).name(), "other") << "also one that moves";
    std::swap(here, there);
    EXPECT_EQ(segment_of(here.data()).name(), "other");
    EXPECT_EQ(here.size() + there.size(), 5U);
  });
  EXPECT_EQ(blocks(segment_) + blocks(other), 0U);
}

using Numbers = std::vector<int, allocator<int>>;
using Word = std::basic_string<char, std::char_traits<char>, allocator<char>>;
// Two levels, without an adaptor that hands the allocator on.
using Words = std::map<int, Word, std::less<>, allocator<std::pair<const int, Word>>>;

TEST_P(AllocatorTest, AnAllocatorByDefaultHasTheOnlyHeapOfTheRunningUpdate) {
  static_cast<void>(domain_.map("plain", raw_segment()));
  auto *numbers = segment_.root<Numbers>("numbers");
  atomically(domain_, [&] {
    EXPECT_EQ(allocator<int>(), allocator<int>(segment_));
    numbers->push_back(1);
    query(domain_,
          [] { EXPECT_NE(allocator<int>().base(), nullptr) << "a query in it is its own"; });
    const Numbers made({1, 2, 3});
    EXPECT_EQ(segment_of(made.data()).name(), "heap");
  });
  SegmentOptions moving;
  moving.relocatable = true;
  static_cast<void>(domain_.map("moving", moving));
  atomically(domain_, [&] { EXPECT_EQ(allocator<int>(), allocator<int>(segment_)); });
}

TEST_P(AllocatorTest, AnAllocatorByDefaultThatHasNoSegmentSaysWhy) {
  Numbers outside;
  expect_error(
      Errc::kEndWithoutBegin, [&] { outside.push_back(1); }, "outside an instance");
  atomically(domain_, [&] {
    expect_error(
        Errc::kEndWithoutBegin, [&] { outside.push_back(1); }, "make it from a tmh::Segment");
  });
  expect_error(Errc::kNotMapped, [&] { Numbers(allocator<int>(Segment())).push_back(1); });
  static_cast<void>(map("other", kMiB, kMiB));
  atomically(domain_, [&] {
    expect_error(
        Errc::kBadArgument, [] { Numbers().push_back(1); }, "several heap segments");
  });
  domain_.unmap(segment_);
  atomically(domain_, [] { Numbers().push_back(1); });
  domain_.unmap(segment_of(map("third", kMiB, kMiB).data()));
  std::error_code ec;
  ASSERT_FALSE(domain_.unmap("other", ec)) << ec.message();
  atomically(domain_, [&] {
    expect_error(
        Errc::kNotAHeap, [] { Numbers().push_back(1); }, "no heap segment");
  });
}

TEST_P(AllocatorTest, ACopyMadeInAQueryLivesInTheProcessesHeap) {
  auto *numbers = segment_.root<Numbers>("numbers");
  auto *words = segment_.root<Words>("words");
  auto *nested = segment_.root<SharedLibrary::Vector<Word>>("nested");
  const std::string text(100, 'x');
  atomically(domain_, [&] {
    numbers->assign({1, 2, 3});
    words->try_emplace(1, text, allocator<char>(segment_));
    nested->emplace_back(text);
  });
  const std::uint64_t before = blocks(segment_);
  Numbers copy = query(domain_, [&] { return *numbers; });
  Words dictionary = query(domain_, [&] {
    const Word word = "made in a query, and too long for the string's own buffer";
    EXPECT_FALSE(segment_of(word.data()));
    return *words;
  });
  EXPECT_EQ(copy, Numbers({1, 2, 3}, copy.get_allocator()));
  EXPECT_EQ(std::string_view(dictionary.at(1)), text);
  EXPECT_FALSE(segment_of(dictionary.at(1).data()));
  // Outside of every instance they are what any container is.
  copy.push_back(4);
  dictionary.at(1) += text;
  dictionary.try_emplace(2, text, dictionary.at(1).get_allocator());
  const Words another = dictionary;
  EXPECT_EQ(another.size(), 2U);
  auto list = query(domain_, [&] { return *nested; });
  EXPECT_FALSE(segment_of(list.at(0).data()));
  EXPECT_EQ(blocks(segment_), before);
  // Back into the segment, element by element.
  atomically(domain_, [&] {
    *numbers = copy;
    EXPECT_EQ(segment_of(numbers->data()).name(), "heap");
    *numbers = std::move(copy);
    EXPECT_EQ(segment_of(numbers->data()).name(), "heap");
    *words = dictionary;
    *nested = std::move(list);
    EXPECT_EQ(segment_of(nested->at(0).data()).name(), "heap") << "an adaptor hands the segment on";
    EXPECT_EQ(segment_of(words->at(2).data()).name(), "heap");
    const Words made = dictionary;
    EXPECT_EQ(segment_of(made.at(1).data()).name(), "heap")
        << "a copy made in an update lies there";
  });
  query(domain_, [&] {
    EXPECT_EQ(numbers->back(), 4);
    EXPECT_EQ(words->at(1).size(), 200U);
  });
}

TEST_P(AllocatorTest, MemoryOfTheProcessNeverGetsIntoASegment) {
  auto *numbers = segment_.root<Numbers>("numbers");
  const auto dies = [&](const char *how, const auto &act) {
    EXPECT_EXIT(
        {
          // The child of a fork is no participant, so it opens the domain itself.
          Domain domain = Domain::open(folder_.path(), options());
          SegmentOptions heap;
          heap.size_bytes = kMiB;
          heap.max_bytes = 64 * kMiB;
          const Segment segment = domain.map("heap", heap);
          Numbers copy = query(domain, [&] { return *numbers; });
          copy.push_back(1);
          atomically(domain, [&] { act(segment, copy); });
          std::exit(0);
        },
        testing::KilledBySignal(SIGABRT), "copy it")
        << how;
  };
  dies("swap", [&](const Segment &, Numbers &copy) { std::swap(*numbers, copy); });
  dies("move", [&](const Segment &segment, Numbers &copy) {
    ::new (segment.allocate(sizeof(Numbers))) Numbers(std::move(copy));
  });
  EXPECT_EQ(query(domain_, [&] { return numbers->size(); }), 0U);
}

TEST_P(AllocatorTest, ABlockGoesBackToWhereItLies) {
  const std::uint64_t before = blocks(segment_);
  // As nlohmann::basic_json does: another allocator for each call.
  int *of_process = query(domain_, [] { return allocator<int>().allocate(10); });
  EXPECT_FALSE(segment_of(of_process));
  int *of_query = query(domain_, [] { return allocator<int>().allocate(10); });
  allocator<int>().deallocate(of_query, 10);
  atomically(domain_, [&] {
    int *here = allocator<int>().allocate(10);
    allocator<int>().deallocate(of_process, 10);
    allocator<int>(segment_).deallocate(here, 10);
  });
  EXPECT_EQ(blocks(segment_), before);
}

}  // namespace
}  // namespace tmh::test
