// include/tmh/past.hpp -- moments of a domain's past: which are held, and how one is named.
// Shape:     values. query_at() (tmh/transaction.hpp) reads at a Moment.
// Source:    EXCITE-VM, section 3 (queries of the past); docs/history.md.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tmh {

// How much of its past a domain holds. Unset: none but what is named. A moment goes when it is
// older than `time`, or when what is held takes more than `bytes`.
struct History {
  std::chrono::milliseconds time{0};  // 0: as long as the bytes suffice
  std::uint64_t bytes = 0;            // 0, with a time: kHistoryBytes
  [[nodiscard]] bool is_set() const noexcept { return time.count() != 0 || bytes != 0; }
  friend bool operator==(const History &, const History &) = default;
};
inline constexpr std::uint64_t kHistoryBytes = 64u << 20;
inline constexpr std::uint64_t kHistoryBytesMin = 1u << 20;

// Names of moments: at least one byte, at most so many; so many at a time.
inline constexpr std::size_t kMomentNameMax = 47;
inline constexpr std::size_t kMomentsMax = 64;

// A state that the domain has had: that behind one of its commits.
class Moment {
 public:
  enum class Kind : std::uint8_t { kClock = 1, kTime = 2, kName = 3, kLsn = 4 };
  // Behind the commit with this number (PastInfo::now, keep()).
  [[nodiscard]] static Moment clock(std::uint64_t commit) noexcept {
    return {Kind::kClock, commit, {}};
  }
  // What was committed by then, or up to 10 ms before, or a 256th of the history's length.
  [[nodiscard]] static Moment time(std::chrono::system_clock::time_point when) noexcept {
    const auto ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
    return {Kind::kTime, ns > 0 ? static_cast<std::uint64_t>(ns) : 0, {}};
  }
  // Of Domain::keep(). `name` outlives the Moment.
  [[nodiscard]] static Moment named(std::string_view name) noexcept {
    return {Kind::kName, 0, name};
  }
  // What the redo log holds up to there. Of an image of a backup alone (tmh/image.hpp).
  [[nodiscard]] static Moment lsn(std::uint64_t end) noexcept { return {Kind::kLsn, end, {}}; }
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  // The clock, the LSN, or nanoseconds since 1970.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

 private:
  Moment(Kind kind, std::uint64_t number, std::string_view name) noexcept
      : kind_(kind), number_(number), name_(name) {}

  Kind kind_;
  std::uint64_t number_;
  std::string_view name_;
};

struct NamedMoment {
  std::string name;
  std::uint64_t clock = 0;
  std::chrono::system_clock::time_point time;
  // Durable domains: its log holds the moment up to here. 0: the name is not stored yet.
  std::uint64_t lsn = 0;
  // By query_at(). False: the last participant has left since; a backup's image shows it.
  bool is_held = true;
};

// What of a domain's past is held: every moment from `oldest` on, and those that are named.
struct PastInfo {
  std::uint64_t oldest = 0, now = 0;  // commit clock
  // Of the domain; unset: no history.
  History history;
  std::uint64_t pages = 0, bytes = 0;  // what holds it, beside the data itself
  std::vector<NamedMoment> moments;
};

}  // namespace tmh
