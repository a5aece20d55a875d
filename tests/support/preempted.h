// tests/support/preempted.h -- how often the calling thread's processor was taken away while it
// could have gone on: what a busy machine does to it, and the library's own waiting does not.
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace tmh::test {

[[nodiscard]] inline std::uint64_t times_preempted() {
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0)
    throw std::system_error(errno, std::generic_category(), "getrusage");
  return static_cast<std::uint64_t>(usage.ru_nivcsw);
}

}  // namespace tmh::test
