// levels/line/run.h -- a body as one level-1 instance, attempted until it commits. For domains
// without a level above (tests, benches); hierarchy/ has its own loop, which escalates.
#pragma once

#include <type_traits>
#include <utility>

#include "levels/line/software_inline.h"

namespace tmh::line {

// One attempt. What the body throws, other than LineAbort, ends the instance and propagates.
// thread: a SoftwareThread, or what begins and commits in its place.
template <class Thread, class Body>
[[nodiscard]] Status attempt(Thread &thread, const Begin &options, Body &&body) {
  thread.begin(options);
  try {
    body();
  } catch (const detail::LineAbort &) {
    thread.abandon();
    return Status::kAborted;
  } catch (...) {
    thread.abandon();
    throw;
  }
  return thread.commit();
}

// Returns the attempts that it took.
template <class Thread, class Body>
std::uint32_t run(Thread &thread, Begin options, Body &&body) {
  while (attempt(thread, options, body) != Status::kCommitted) ++options.attempt;
  return options.attempt + 1;
}

}  // namespace tmh::line
