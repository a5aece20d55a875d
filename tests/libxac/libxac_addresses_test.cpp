// tests/libxac/libxac_addresses_test.cpp -- a page has one address in xMmap: every other way to it
// is refused, and the text says why.
// Source:     thesis, A.1 item 2.
#include <gtest/gtest.h>
#include <xac.h>

#include <filesystem>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/code_of.h"
#include "tests/support/libxac.h"

namespace tmh::test {
namespace {

// By other names of the file, and where a program maps a part of it by the C++ interface.
TEST_F(Libxac, APageHasOneAddressAndTheTextSaysSo) {
  namespace fs = std::filesystem;
  init();
  int *x = map("input.db", 4 * PAGESIZE);
  expect_map_fails("input.db", PAGESIZE, Errc::kSegmentInUse);
  EXPECT_NE(std::string(xLastErrorText()).find("input.db is mapped already"), std::string::npos)
      << xLastErrorText();
  fs::create_symlink(folder_ / "input.db", folder_ / "symbolic.db");
  fs::create_hard_link(folder_ / "input.db", folder_ / "hard.db");
  for (const char *name : {"symbolic.db", "hard.db"}) {
    expect_map_fails(name, PAGESIZE, Errc::kSegmentOverlap);
    EXPECT_NE(std::string(xLastErrorText()).find("belong to another segment, input.db"),
              std::string::npos)
        << xLastErrorText();
  }
  const Domain domain = Domain::open(folder_.path());
  SegmentOptions part;
  part.layout = Layout::kRaw;
  part.size_bytes = PAGESIZE;
  part.offset_bytes = 2 * PAGESIZE;
  EXPECT_EQ(code_of([&] { (void)domain.map("input.db", part); }), Errc::kSegmentOverlap);
  part.offset_bytes = 4 * PAGESIZE;  // behind it
  const Segment behind = domain.map("input.db", part);
  expect_map_fails("input.db", 8 * PAGESIZE, Errc::kSegmentInUse);
  ASSERT_EQ(xbegin(), 0);
  x[0] = 7;
  EXPECT_EQ(xend(), COMMITTED);
  EXPECT_EQ(xMunmap("input.db"), 0);
  expect_map_fails("input.db", 8 * PAGESIZE, Errc::kSegmentOverlap);
}

}  // namespace
}  // namespace tmh::test
