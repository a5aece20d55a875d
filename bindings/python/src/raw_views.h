// bindings/python/src/raw_views.h -- what a program still holds of raw arrays whose instance has
// ended, and makes all of it read-only.
// Shape:     numpy lists no views of an array. They are found where the program holds them: by a
//            walk over all that the garbage collector knows, the loaded modules and the frames of
//            all threads, through what it does not know: arrays, their scalars and iterators. What
//            shows the memory is known by its address, whatever it hangs on.
// Limits:    What C code holds, or ctypes, may go on storing. A count of references tells of it.
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

// Everything that shows memory of these arrays raises from here on where it is stored to. Returns
// the name of an array whose memory something holds that may store all the same; empty: none.
// No error is set.
[[nodiscard]] std::string make_views_read_only(const std::vector<Lent> &held) noexcept;

}  // namespace tmh::python
