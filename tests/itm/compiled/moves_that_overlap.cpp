// tests/itm/compiled/moves_that_overlap.cpp -- the ABI's memmove() with one side outside of the
// transaction, where the sides overlap. (g++ calls none of these; GCC's library refuses them.)
// Methods:   lines rtm serial pages pages-serializable
// Levels:    2
// Says:      0 wrong
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <initializer_list>

extern "C" {
void *_ITM_memmoveRnWt(void *to, const void *from, std::size_t) __attribute__((transaction_pure));
void *_ITM_memmoveRtWn(void *to, const void *from, std::size_t) __attribute__((transaction_pure));
}

namespace {

constexpr std::size_t kBytes = 4096, kFrom = 300;
alignas(64) unsigned char block[kBytes], expected[kBytes];
long stored;

}  // namespace

int main() {
  int wrong = 0;
  for (const bool is_plain_source : {false, true})
    for (const std::size_t bytes : {3, 40, 64, 200, 1500, 3000})
      for (const int distance : {-299, -64, -9, -1, 0, 1, 7, 64, 70, 500}) {
        for (std::size_t i = 0; i < kBytes; ++i)
          block[i] = expected[i] = static_cast<unsigned char>(i * 7 + i / 256);
        std::memmove(expected + kFrom + distance, expected + kFrom, bytes);
        __transaction_atomic {
          stored = stored + 1;
          (void)(is_plain_source
                     ? _ITM_memmoveRnWt(block + kFrom + distance, block + kFrom, bytes)
                     : _ITM_memmoveRtWn(block + kFrom + distance, block + kFrom, bytes));
        }
        wrong += std::memcmp(block, expected, kBytes) != 0;
      }
  std::printf("%d wrong\n", wrong);
}
