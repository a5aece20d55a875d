// bindings/python/src/raw_views.h -- what a program still holds of raw arrays when their instance
// ends without a commit.
// Shape:     numpy lists no views of an array. They are found where the program holds them: by a
//            walk over all that the garbage collector knows, the loaded modules and the frames of
//            all threads, through what it does not know: arrays, their scalars and iterators. What
//            shows the memory is known by its address, whatever it hangs on.
//            Each becomes read-only, and shows a copy of what the body has seen: loads behind the
//            end raise no SIGSEGV, and code that looks at no flag stores to the copy.
// Limits:    What C code holds beside them, or ctypes, may go on storing. A count of references
//            tells of it. Views of more than 1 GiB stay where they are, read-only.
#pragma once

#include <string>
#include <vector>

#include "bindings/python/src/python.h"

namespace tmh::python {

// A numpy array over a segment's memory. Owned by the attempt, one reference.
struct Lent {
  PyObject *raw;
  std::string name;
};

// Something holds each of them, and their owners have escaped. can_read: the instance
// still runs. Returns the name of an array whose memory something may store to all the same; empty:
// none. No error is set.
[[nodiscard]] std::string settle_views(const std::vector<Lent> &held, bool can_read) noexcept;

}  // namespace tmh::python
