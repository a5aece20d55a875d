// tests/support/line_rig.h -- a folder with one segment and level 1's files, and nothing above:
// what level 1 is tested on alone.
// Shape:     LineRig opens the folder's files in the calling process; after a fork each process
//            makes its own. The participant table is replaced by shared memory: slot i belongs to
//            the process that stored itself there, and a FairAbove recovers the dead.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "levels/line/line_memory.h"
#include "levels/line/releaser.h"
#include "levels/line/run.h"
#include "platform/shared_lock.h"
#include "storage/home.h"

namespace tmh::test {

inline constexpr std::uint32_t kRigSlotsMax = 16;

// In memory that the processes of one test share.
struct RigShared {
  platform::SharedLock domain_lock;
  std::atomic<std::int32_t> pids[kRigSlotsMax];
  std::atomic<std::uint64_t> start_times[kRigSlotsMax];
  [[nodiscard]] bool is_alive(std::uint32_t slot) const noexcept;
  std::atomic<std::uint64_t> suspected;
};

// A level above that owns nothing and recovers dead participants' contexts under a domain lock, as
// hierarchy/ does.
class FairAbove : public line::NoReleaser {
 public:
  FairAbove(line::LineMemory &memory, RigShared *shared, std::uint32_t slot) noexcept
      : memory_(memory), shared_(shared), slot_(slot) {}
  void suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept override;

 private:
  line::LineMemory &memory_;
  RigShared *shared_;
  std::uint32_t slot_;
};

class LineRig {
 public:
  static constexpr std::uint64_t kIncarnation = 1;

  // `slot`: of this process. Without `shared` nobody recovers anything.
  explicit LineRig(const std::string &folder, std::uint64_t bytes = 1u << 20,
                   RigShared *shared = nullptr, std::uint32_t slot = 0);

  [[nodiscard]] line::LineMemory &memory() noexcept { return memory_; }
  // home itself: level 1 alone needs no other
  [[nodiscard]] std::byte *view() const noexcept { return home_.base(); }
  [[nodiscard]] std::uint64_t *words() const noexcept {
    return reinterpret_cast<std::uint64_t *>(home_.base());
  }
  [[nodiscard]] line::Releaser &releaser() noexcept { return *releaser_; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] line::LineWord &word_of(const void *address) noexcept;

 private:
  storage::Home home_;
  line::LineMemory memory_;
  line::NoReleaser nobody_;
  std::optional<FairAbove> fair_;
  line::Releaser *releaser_ = &nobody_;
  std::uint32_t slot_;
};

// A thread's level 1 on a rig.
class RigThread : public line::SoftwareThread {
 public:
  explicit RigThread(LineRig &rig);
  RigThread(LineRig &rig, line::Releaser &releaser);

  template <class Body>
  std::uint32_t update(const Body &body, line::Begin options = {}) {
    return line::run(*this, options, body);
  }
  template <class Body>
  std::uint32_t query(const Body &body) {
    line::Begin options;
    options.is_query = true;
    return line::run(*this, options, body);
  }
};

// As a field of so many bytes does: 1, 2, 4 or 8, of which a store takes the value's low ones.
template <class Access>
auto with_size(std::size_t size, const Access &access) {
  switch (size) {
    case 1:
      return access(std::uint8_t{});
    case 2:
      return access(std::uint16_t{});
    case 4:
      return access(std::uint32_t{});
    default:
      return access(std::uint64_t{});
  }
}
inline void store_bytes(line::SoftwareThread &thread, std::byte *at, std::uint64_t value,
                        std::size_t size) {
  with_size(size, [&](auto word) {
    thread.store(reinterpret_cast<decltype(word) *>(at), static_cast<decltype(word)>(value));
  });
}
[[nodiscard]] inline std::uint64_t load_bytes(line::SoftwareThread &thread, const std::byte *at,
                                              std::size_t size) {
  return with_size(size, [&](auto word) -> std::uint64_t {
    return thread.load(reinterpret_cast<const decltype(word) *>(at));
  });
}

}  // namespace tmh::test
