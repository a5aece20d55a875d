// tests/storage/crc32c_test.cpp -- the checksum of the log: right values, one algorithm by two
// ways.
// Invariants: (1) the published values of RFC 3720, appendix B.4. (2) instruction and table agree
//             on every input. (3) a checksum can be continued at any point. (4) one changed bit
//             changes it.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "storage/crc32c.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using storage::crc32c;
using storage::crc32c_portable;

TEST(Crc32cTest, KnownValues) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  const std::string falling(rising.rbegin(), rising.rend());
  const std::pair<std::string, std::uint32_t> known[] = {
      {"", 0},
      {"123456789", 0xE3069283},
      {std::string(32, '\0'), 0x8A9136AA},
      {std::string(32, '\xff'), 0x62A8AB43},
      {rising, 0x46DD794E},
      {falling, 0x113FDB5C},
  };
  for (const auto &[bytes, value] : known) {
    EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), value) << bytes.size() << " bytes";
    EXPECT_EQ(crc32c_portable(0, bytes.data(), bytes.size()), value)
        << bytes.size() << " bytes, portable";
  }
}

TEST(Crc32cTest, InstructionAndTableAgreeAtEveryLengthAndAlignment) {
  std::mt19937_64 random(seed());
  std::vector<unsigned char> bytes(4096 + 64);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<unsigned char>(random()); });
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (std::size_t count = 0; count < 200; ++count)
      ASSERT_EQ(crc32c(7, &bytes[offset], count), crc32c_portable(7, &bytes[offset], count))
          << offset << ", " << count;
    ASSERT_EQ(crc32c(0, &bytes[offset], 4096), crc32c_portable(0, &bytes[offset], 4096));
  }
}

TEST(Crc32cTest, MayBeContinuedAnywhere) {
  static_cast<void>(seed());  // rapidcheck's, too
  const bool holds =
      rc::check("crc(crc(0, a), b) == crc(0, ab)", [](const std::string &a, const std::string &b) {
        const std::string whole = a + b;
        const std::uint32_t expected = crc32c(0, whole.data(), whole.size());
        RC_ASSERT(crc32c(crc32c(0, a.data(), a.size()), b.data(), b.size()) == expected);
        RC_ASSERT(crc32c_portable(crc32c(0, a.data(), a.size()), b.data(), b.size()) == expected);
      });
  EXPECT_TRUE(holds);
}

TEST(Crc32cTest, OneChangedBitChangesIt) {
  std::mt19937_64 random(seed());
  std::string bytes(600, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
  const std::uint32_t whole = crc32c(0, bytes.data(), bytes.size());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(crc32c(0, bytes.data(), bytes.size()), whole) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

}  // namespace
}  // namespace tmh::test
