// rtm_emulator/mappings.h -- transactions of a process and changes of its mappings, one
// or the other at a time.
// Why:       a transaction that meets a page which another thread has taken away aborts on hardware
//            and leaves the page away. The emulator's accesses are native: made after the page has
//            gone, one would bring it back, for good, and a program to which absence is protection
//            (level 1 in RTM: a page that has left this process) has lost that.
// Shape:     in use: count; a look at the page tables stays true, and accesses are made. Changing:
//            count; who wants to use waits.
// Sharing:   of one process; a child of fork() begins anew.
// Contexts:  MappingsInUse: inside the emulator. MappingChange: everywhere, also in a signal
//            handler; in a transaction its first step, a system call, aborts.
#pragma once

#include <cstdint>

namespace tmh::rtm {

// REQUIRES: not nested, and nothing is waited for that a stopped thread has.
class MappingsInUse {
 public:
  MappingsInUse() noexcept;
  ~MappingsInUse();
  MappingsInUse(const MappingsInUse &) = delete;
  MappingsInUse &operator=(const MappingsInUse &) = delete;
};

// While in use: so many changes so far.
[[nodiscard]] std::uint64_t mapping_changes() noexcept;

// Of the calling thread. It counts as stopped meanwhile: a commit that waited for it would never
// get to use the mappings.
class MappingChange {
 public:
  MappingChange() noexcept;
  ~MappingChange();
  MappingChange(const MappingChange &) = delete;
  MappingChange &operator=(const MappingChange &) = delete;

 private:
  std::uint64_t mask_ = 0;
  bool was_native_;
};

void forget_mapping_users() noexcept;  // in a child of fork()

}  // namespace tmh::rtm
