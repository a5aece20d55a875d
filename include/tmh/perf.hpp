// include/tmh/perf.hpp -- hardware and software events (perf_event_open, libpfm4): of a thread, of
// a program, of a site by level. Link with tmh::perf (-ltmhperf).
// Shape:     events are asked for in groups: comma-separated names that are counted at the same
//            time. A name is a set (`software`, `cpu`, `tlb`, `rtm`; alone in its list), one of
//            ours (`rtm-abort`, `cycles`, ...; `tmh perf --encodings` prints them), or whatever
//            libpfm4 knows (`RTM_RETIRED:ABORTED`, `perf::PAGE-FAULTS`).
// Errors:    an event that cannot be counted is no error: its Reading says why. Constructors throw
//            kOutOfMemory and kBadArgument.
// Contexts:  neither in a signal handler nor in a child after fork(). An object is for one thread
//            at a time.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tmh/site.hpp>

namespace tmh::perf {

struct Reading {
  std::string event;
  std::uint32_t group = 0;  // readings of one group were counted at the same times
  std::string missing;      // not empty: not counted, and this is the cause
  bool user_only = false;   // the kernel's share is not counted, because this process may not
  std::uint64_t counted = 0;
  // Running shorter than enabled: the group shared the counters with others.
  std::uint64_t enabled_ns = 0, running_ns = 0;

  [[nodiscard]] bool is_scaled() const noexcept { return running_ns < enabled_ns; }
  // An estimate for all of the time when is_scaled(): events were counted for running/enabled of
  // it.
  [[nodiscard]] std::uint64_t value() const noexcept;
};

struct CountersOptions {
  enum class Whom : std::uint8_t {
    kThread,
    // Threads and processes that it makes later, too.
    kDescendants
  };
  enum class From : std::uint8_t { kStart, kExec };  // kExec: from the thread's next execve() on
  int thread = 0;                                    // a thread id; 0: the calling thread
  Whom whom = Whom::kThread;
  From from = From::kStart;
};

class Counters {
 public:
  // groups: empty: the four sets.
  explicit Counters(const std::vector<std::string> &groups = {},
                    const CountersOptions &options = {});
  ~Counters();
  Counters(Counters &&) noexcept;
  Counters &operator=(Counters &&) noexcept;

  void start() noexcept;  // goes on from where stop() left it
  void stop() noexcept;
  [[nodiscard]] std::vector<Reading> read() const;  // since the beginning, in the order asked for

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What one level cost: whole instances, from before the first attempt to after the last, by the
// level of the last one. So aborted attempts at level 1 of an instance that committed at level 2
// count as level 2's.
struct LevelCost {
  std::uint64_t instances = 0;  // that committed, or whose body threw
  std::uint64_t ns = 0;
  std::vector<Reading> events;
};

// The events of one site's instances in the thread that made it, by level. Costs two system calls
// per event and instance.
class SiteProfile {
 public:
  explicit SiteProfile(const Site &site, const std::vector<std::string> &groups = {});
  ~SiteProfile();
  SiteProfile(const SiteProfile &) = delete;
  SiteProfile &operator=(const SiteProfile &) = delete;

  // As tmh::atomically(site, body), with an instrumented body or a plain one.
  template <class Body>
  auto atomically(Body &&body) -> tmh::detail::SiteBodyResult<Body> {
    Stretch stretch(*this);
    if constexpr (tmh::detail::kKindOfBody<Body> == tmh::detail::BodyKind::kInstrumented) {
      return tmh::atomically(site_, [&](Fields fields) -> tmh::detail::SiteBodyResult<Body> {
        stretch.at_pages = site_.domain().depth() != 0;
        return body(fields);
      });
    } else {
      return tmh::atomically(site_, [&]() -> tmh::detail::SiteBodyResult<Body> {
        stretch.at_pages = site_.domain().depth() != 0;
        return body();
      });
    }
  }

  [[nodiscard]] LevelCost at_lines() const;
  [[nodiscard]] LevelCost at_pages() const;
  // Commits, aborts and time since this object was made: of the site, in all of its threads.
  [[nodiscard]] SiteReport report() const;

 private:
  struct Stretch {
    explicit Stretch(SiteProfile &of) : profile(of) { profile.begin(); }
    ~Stretch() { profile.end(at_pages); }
    Stretch(const Stretch &) = delete;
    Stretch &operator=(const Stretch &) = delete;
    SiteProfile &profile;
    bool at_pages = false;
  };
  void begin() noexcept;
  void end(bool at_pages) noexcept;

  Site site_;
  SiteReport before_;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tmh::perf
