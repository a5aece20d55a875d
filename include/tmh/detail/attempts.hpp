// include/tmh/detail/attempts.hpp -- one instance of a site: its attempts until one commits.
// Shape:     what the caller asks for, and opaque storage for what the library keeps between the
//            attempts of this instance. It lies in the caller's frame, so an instance allocates
//            nothing. An instance whose thread has a seat at its site (hierarchy/threads/current.h)
//            keeps nothing there until an attempt fails.
// Sharing:   the thread's own.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>

#include <tmh/domain.hpp>

namespace tmh {

class Site;

namespace detail {

struct SiteShard;

// How a body reaches shared memory.
enum class BodyKind : std::uint8_t {
  // by loads and stores
  kPlain,
  // it takes Fields
  kInstrumented,
};

// A query has a second attempt only when a thread's view would not do.
class Attempts {
 public:
  enum class Kind : std::uint8_t { kUpdate, kQuery };
  Attempts(const Site &site, Kind kind, BodyKind body, Durability durability) noexcept
      : site_(site), kind_(kind), body_(body), durability_(durability) {}
  Attempts(const Attempts &) = delete;
  Attempts &operator=(const Attempts &) = delete;
  // Whatever has left the body, or kept it from beginning.
  ~Attempts() {
    if (is_inside_) leave_lines();
  }
  // An attempt, at the level that the site's policy says. Waits before a repeated one.
  void begin();
  // True: committed, or subsumed in an outer instance.
  [[nodiscard]] bool end();
  // A RetryNow left the body. Rethrows it inside an outer instance.
  void retried(const RetryNow &why);
  // A LineAbort left the body. Rethrows it inside an outer instance.
  void unwound();
  // Another exception left the body and the instance is undone. False: that attempt never happened.
  [[nodiscard]] bool threw();
  // pthread_exit() or pthread_cancel() leaves the body, and nothing stops it.
  void left_by_force() noexcept;

 private:
  friend class SiteInstance;
  struct Parts;
  class Seated;
  static constexpr std::size_t kPartsBytes = 80;

  void leave_lines() noexcept;
  [[nodiscard]] Parts &parts() noexcept;
  // Of an instance that goes on as one without a seat.
  [[nodiscard]] Parts &settled() noexcept;
  void begin_unseated();
  [[nodiscard]] bool end_unseated();
  void begin_subsumed(Parts &parts);
  void leave_outer();

  const Site &site_;
  const Kind kind_;
  const BodyKind body_;
  const Durability durability_;
  // Of level 1: unmap() and close() of other threads wait.
  bool is_inside_ = false;
  // The storage holds Parts, from the first begin() on.
  bool is_begun_ = false;
  // Its attempt, the first, is one of Seated: at level 1, and nothing else says so.
  SiteShard *seat_ = nullptr;
  alignas(8) std::byte storage_[kPartsBytes];
};

}  // namespace detail
}  // namespace tmh
