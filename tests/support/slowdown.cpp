// tests/support/slowdown.cpp -- which build this is.
#include "tests/support/slowdown.h"

#include "tests/support/seed.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TMH_TEST_ASAN 1
#elif __has_feature(thread_sanitizer)
#define TMH_TEST_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TMH_TEST_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define TMH_TEST_TSAN 1
#endif

namespace tmh::test {

unsigned build_slowdown() noexcept {
#if defined(TMH_TEST_ASAN)
  return 8;
#elif defined(TMH_TEST_TSAN)
  return 15;
#else
  return 1;
#endif
}

bool is_thread_sanitized() noexcept {
#if defined(TMH_TEST_TSAN)
  return true;
#else
  return false;
#endif
}

unsigned slowdown() {
  static const auto factor = static_cast<unsigned>(environment_number("TMH_TEST_SLOWDOWN", 1));
  return build_slowdown() * factor;
}

}  // namespace tmh::test
