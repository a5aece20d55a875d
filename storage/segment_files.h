// storage/segment_files.h -- removing the files that a domain's folder has one of per
// segment.
// Why:       a domain has a few segments and could have 256. Asking the kernel for every name that
//            might be there was a third of an open.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <string>

namespace tmh::storage {

// A file's name: `before`, the segment's number, `after`.
struct SegmentFileName {
  const char *before;
  const char *after = "";
};

// Removes those files of that name that there are. What cannot be removed stays. Without
// descriptors or memory to list the folder with, every name is tried. REQUIRES: nobody makes such
// files meanwhile.
void remove_segment_files(const std::string &folder, SegmentFileName name) noexcept;

}  // namespace tmh::storage
