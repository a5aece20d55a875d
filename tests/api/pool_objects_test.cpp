// tests/api/pool_objects_test.cpp -- objects that are made in blocks of tmh::pools.
// Invariant: an object of fields that gets its values where it is made, in a block, has them when
//            its instance commits, and only then.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

struct Price {
  int cents = -1;  // so it is not trivially default constructible
};
struct Offer {
  field<std::uint64_t> number;
  field<Price> price;
  field<std::uint32_t> left = 7;
};

TEST(PoolObjectsTest, AnObjectThatIsMadeInABlockHasItsValuesWithItsInstance) {
  for (const ThreadViewUse views : {ThreadViewUse::kNever, lab::kOwnViewAlways}) {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
    options.policies.thread_views = views;
    const MemoryFolder folder;
    const Domain domain = Domain::open(folder.path(), options);
    pool_allocator<Offer> offers(domain.map("heap"));
    for (const char *level : {"never", "always"}) {
      const Site site(domain, level, level);
      const auto numbers = [&](const Offer *offer) {
        return atomically(site, [&](Fields) {
          return std::array{offer->number.load(), std::uint64_t(offer->price.load().cents),
                            std::uint64_t{offer->left}};
        });
      };
      Offer *block = nullptr;
      for (std::uint64_t i = 0; i < 200; ++i) {
        block = atomically(site, [&](Fields) {
          return ::new (offers.allocate(1)) Offer{i, Price{static_cast<int>(i + 1)}};
        });
        ASSERT_EQ(numbers(block), (std::array<std::uint64_t, 3>{i, i + 1, 7})) << level;
      }
      EXPECT_THROW(atomically(site,
                              [&](Fields) {
                                ::new (static_cast<void *>(block)) Offer{1, Price{2}, 3};
                                EXPECT_EQ(block->left, 3U);
                                throw std::runtime_error("undone");
                              }),
                   std::runtime_error);
      EXPECT_EQ(numbers(block), (std::array<std::uint64_t, 3>{199, 200, 7})) << level;
    }
  }
  static_assert(std::is_trivially_default_constructible_v<field<long>>);
  static constinit field<long> made_by_the_compiler = 5;
  static constinit field<Price> priced_by_the_compiler = Price{6};
  EXPECT_EQ(
      made_by_the_compiler + priced_by_the_compiler.load().cents + field<Price>().load().cents, 10);
}

}  // namespace
}  // namespace tmh::test
