// tests/support/leaks.cpp -- walks the free lists of the version store and of the access table.
#include "tests/support/leaks.h"

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "levels/page/shared/layout.h"
#include "storage/participants.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

namespace {

using page::AccessEntry;
using page::DomainState;
using page::Slot;
using page::VersionHead;

// The first records of a file as they were when they were read: no more than count_max, for files
// are much larger than what is in use.
template <class T>
class Records {
 public:
  Records(const std::string &path, std::size_t count_max) {
    const std::string bytes = read_file(path, count_max * sizeof(T));
    count_ = bytes.size() / sizeof(T);
    std::size_t room = (count_ + 1) * sizeof(T);
    memory_ = std::make_unique_for_overwrite<std::byte[]>(room);
    void *at = memory_.get();
    first_ = static_cast<const T *>(std::align(alignof(T), count_ * sizeof(T), at, room));
    std::memcpy(at, bytes.data(), count_ * sizeof(T));
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] const T &operator[](std::size_t index) const { return first_[index]; }

 private:
  std::size_t count_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  const T *first_ = nullptr;
};

// Follows a free list; the result tells for each slot whether it is in it.
template <class Next>
std::vector<bool> walk(Slot first, std::uint32_t capacity, const Next &next, const char *what) {
  std::vector<bool> in_list(capacity, false);
  for (Slot slot = first; slot != 0; slot = next(slot)) {
    if (slot >= capacity || in_list[slot]) {
      ADD_FAILURE() << "the free list of " << what << " is broken at slot " << slot;
      break;
    }
    in_list[slot] = true;
  }
  return in_list;
}

}  // namespace

void expect_no_leaked_slots(const std::string &folder) {
  const Records<DomainState> states(folder + "/tmh.state", 1);
  const DomainState &state = states[0];
  // The file has room for all, and what nobody has used yet is holes, which memory would be taken
  // for.
  const Records<storage::Participant> participants(folder + "/tmh.participants",
                                                   state.participants_high.load());
  const Slot version_capacity = state.version_capacity.load(std::memory_order_relaxed);
  const Records<VersionHead> versions(folder + "/tmh.versions.head", version_capacity);
  for (std::size_t i = 0; i < participants.count(); ++i) {
    const storage::VersionList &list = participants[i].versions;
    EXPECT_TRUE(list.oldest == 0 && list.newest == 0 && list.live_count.load() == 0)
        << "versions are left in the list of participant slot " << i;
  }
  ASSERT_LE(version_capacity, versions.count());
  const std::vector<bool> is_free = walk(
      state.free_version, version_capacity, [&](Slot slot) { return versions[slot].next_free; },
      "versions");
  for (Slot slot = 1; slot < version_capacity; ++slot) {
    const std::uint64_t stamp = versions[slot].stamp.load();
    if (stamp == page::kReservedStamp) {
      ASSERT_LT(versions[slot].owner, participants.count()) << "version slot " << slot;
      EXPECT_EQ(participants[versions[slot].owner].pid, getpid())
          << "version slot " << slot << " is reserved by the dead";
      EXPECT_FALSE(is_free[slot]) << "version slot " << slot << " is reserved and free";
    } else {
      EXPECT_EQ(stamp, 0U) << "version slot " << slot << " is still in use";
      EXPECT_TRUE(is_free[slot]) << "version slot " << slot << " is lost";
    }
  }
  const Records<AccessEntry> accesses(folder + "/tmh.accesses", state.access_capacity);
  ASSERT_LE(state.access_capacity, accesses.count());
  const std::vector<bool> idle = walk(
      state.free_access, state.access_capacity,
      [&](Slot slot) { return accesses[slot].next_of_owner; }, "accesses");
  for (Slot slot = 1; slot < state.access_capacity; ++slot)
    EXPECT_TRUE(idle[slot]) << "access entry " << slot << " is lost";
}

}  // namespace tmh::test
