// tests/rtm/rtm_loader_test.cpp -- a plain site's instances commit in RTM in a program linked with
// the shared library, lazily as the linker does by itself.
// Shape:     linked with libtmh.so and nothing else of ours; every other test takes the static
//            library, where no call goes through the loader.
// Skipped:   where RTM does not work, with the library's sentence.
// Source:    ELF, DT_JMPREL. The first call through a lazy entry runs the loader, which saves
//            registers by XSAVEC. That aborts in RTM.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <tmh/tmh.hpp>

namespace tmh::test {
namespace {

TEST(RtmLoaderTest, PlainSiteCommitsInHardwareThroughTheSharedLibrary) {
  std::string folder = std::filesystem::temp_directory_path() / "tmh-loader-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kRtm;
  try {
    const Domain domain = Domain::open(folder, options);
    const Segment segment = domain.map("words.db");
    auto *const word = segment.root<std::uint64_t>("word");
    const Site site(domain, "plain");
    for (int i = 0; i < 1000; ++i) atomically(site, [&] { ++*word; });
    EXPECT_EQ(query(domain, [&] { return *word; }), 1000U);
    const SiteReport report = site.report();
    EXPECT_GT(report.hardware_commits, 0U) << report.hardware_zero << " aborts without a reason";
    EXPECT_LT(report.hardware_findings, 500U) << "the same page is looked for again and again";
  } catch (const Error &error) {
    std::filesystem::remove_all(folder);
    if (error.errc() != Errc::kRtmUnavailable) throw;
    GTEST_SKIP() << error.what();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tmh::test
