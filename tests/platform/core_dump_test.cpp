// tests/platform/core_dump_test.cpp -- what the kernel looks at when a process that is in a domain
// dumps core.
// Invariants: none of the large mappings that hold private pages (views, what is reserved) is to be
//             dumped: page by page that took minutes, and a core file of 79 GiB, while the dying
//             process still counted as alive: its locks, pages and snapshot kept others waiting.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

#include <tmh/tmh.hpp>

namespace tmh::test {
namespace {

struct Area {
  std::string range;
  std::uint64_t begin = 0, end = 0, kib = 0, anonymous_kib = 0;
  bool is_dumped = true;
};

std::vector<Area> areas_here() {
  std::ifstream file("/proc/self/smaps");
  std::vector<Area> areas;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key.back() != ':') {
      Area area{line};
      EXPECT_EQ(std::sscanf(key.c_str(), "%" SCNx64 "-%" SCNx64, &area.begin, &area.end), 2)
          << line;
      areas.push_back(area);
      continue;
    }
    if (key == "Size:") words >> areas.back().kib;
    if (key == "Anonymous:") words >> areas.back().anonymous_kib;
    if (key != "VmFlags:") continue;
    for (std::string flag; words >> flag;)
      if (flag == "dd") areas.back().is_dumped = false;
  }
  return areas;
}

bool lies_in_one_of(const std::vector<Area> &areas, const Area &area) {
  return std::any_of(areas.begin(), areas.end(), [&](const Area &other) {
    return other.begin <= area.begin && area.end <= other.end;
  });
}

struct Play {
  const char *name;
  Tracking tracking;
  Levels levels;
};

class CoreDump : public testing::TestWithParam<Play> {};

TEST_P(CoreDump, LeavesOutWhatIsLarge) {
  const MemoryFolder folder;
  const ChildEnd end = run_in_child("in a domain", [&] {
    const std::vector<Area> earlier = areas_here();  // a sanitizer's own
    DomainOptions options;
    options.tracking = GetParam().tracking;
    options.levels = GetParam().levels;
    std::error_code error;
    const Domain domain = Domain::open(folder.path(), options, error);
    if (error == make_error_code(Errc::kTrackingUnavailable)) _exit(77);
    const Segment segment = domain.map("a.db");
    auto *const numbers = segment.root<std::uint64_t[4096]>("numbers");
    for (int i = 0; i < 20; ++i) {
      domain.begin();
      for (std::uint64_t &number : *numbers) ++number;
      (void)domain.end();
    }
    domain.begin();
    ++(*numbers)[0];
    int large = 0;
    for (const Area &area : areas_here()) {
      if (area.kib < 1u << 20 || area.anonymous_kib == 0 || lies_in_one_of(earlier, area)) continue;
      ++large;
      EXPECT_FALSE(area.is_dumped) << area.range;
    }
    EXPECT_GT(large, 0);
    domain.abort();
  });
  if (end.exit_code == 77) GTEST_SKIP() << "this kernel does not permit the tracking";
  EXPECT_TRUE(end.succeeded());
}

constexpr Play kPlays[] = {{"KernelHot", Tracking::kKernelHot, Levels::kPage},
                           {"Kernel", Tracking::kKernel, Levels::kPage},
                           {"SignalHot", Tracking::kSignalHot, Levels::kPage},
                           {"Signal", Tracking::kSignal, Levels::kPage},
                           {"HybridKernelHot", Tracking::kKernelHot, Levels::kHybrid},
                           {"HybridSignalHot", Tracking::kSignalHot, Levels::kHybrid}};

INSTANTIATE_TEST_SUITE_P(Plays, CoreDump, testing::ValuesIn(kPlays),
                         [](const auto &of) { return std::string(of.param.name); });

}  // namespace
}  // namespace tmh::test
