// tests/transaction/before_main_test.cpp -- instances in constructors of static objects, which come
// before those of a static library.
// Method:     the program runs itself once more, with a word in the environment that tells its
//             static object to play, and to end the program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr const char *kPlays = "TMH_TEST_BEFORE_MAIN";

std::uint64_t count_to_six(Levels levels, Durability durability) {
  const MemoryFolder folder;
  DomainOptions options;
  options.levels = levels;
  options.durability = durability;
  Domain domain = Domain::open(folder.path(), options);
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = raw.max_bytes = kPageBytes;
  const Segment segment = domain.map("word.raw", raw);
  auto &word = *reinterpret_cast<field<std::uint64_t> *>(segment.data());
  const Site site(domain, "counts");
  for (int i = 0; i < 3; ++i) {
    atomically(domain, [&] { ++*reinterpret_cast<std::uint64_t *>(segment.data()); });
    atomically(site, [&](Fields) { ++word; });
  }
  return query(domain, [&] { return word.load(); });
}

struct Early {
  Early() {
    if (std::getenv(kPlays) == nullptr) return;
    bool is_right = true;
    try {
      for (const Levels levels : {Levels::kPage, Levels::kHybrid})
        for (const Durability durability : {Durability::kNone, Durability::kStrict})
          is_right = is_right && count_to_six(levels, durability) == 6;
    } catch (const std::exception &error) {
      std::fprintf(stderr, "before main: %s\n", error.what());
      is_right = false;
    }
    _exit(is_right ? 0 : 1);
  }
};
const Early early;

TEST(BeforeMainTest, StaticObjectsRunInstances) {
  const ChildEnd end = run_in_child("early", [] {
    setenv(kPlays, "1", 1);
    execl("/proc/self/exe", "before_main_test", nullptr);
  });
  EXPECT_TRUE(end.succeeded()) << "exit code " << end.exit_code << ", signal " << end.signal;
}

}  // namespace
}  // namespace tmh::test
