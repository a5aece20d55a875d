// tests/transaction/before_main_test.cpp -- instances, and protection keys, in constructors of
// static objects, which come before those of a static library.
// Method:     the program runs itself once more, with a word in the environment that tells its
//             static object to play, and to end the program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include <tmh/tmh.hpp>

#include "platform/protection_keys.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr const char *kPlays = "TMH_TEST_BEFORE_MAIN";
// What kPlays says: run instances; or look whether there is a protection key.
constexpr std::string_view kInstances = "instances", kKeys = "keys";

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
    const char *const plays = std::getenv(kPlays);
    if (plays == nullptr) return;
    if (plays == kKeys) _exit(platform::has_keys() ? 0 : 1);
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

ChildEnd play(std::string_view what) {
  return run_in_child("early", [what] {
    setenv(kPlays, what.data(), 1);
    execl("/proc/self/exe", "before_main_test", nullptr);
  });
}

TEST(BeforeMainTest, StaticObjectsRunInstances) {
  const ChildEnd end = play(kInstances);
  EXPECT_TRUE(end.succeeded()) << "exit code " << end.exit_code << ", signal " << end.signal;
}

TEST(BeforeMainTest, StaticObjectsFindProtectionKeys) {
  if (const std::string refusal = platform::key_refusal(); !refusal.empty())
    GTEST_SKIP() << "no protection keys: " << refusal;
  const ChildEnd end = play(kKeys);
  EXPECT_TRUE(end.succeeded()) << "exit code " << end.exit_code << ", signal " << end.signal;
}

}  // namespace
}  // namespace tmh::test
