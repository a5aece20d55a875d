// bindings/python/src/domain_core.h -- one open domain of this process, as the package's objects
// share it.
// Shape:     tmh::Domain and the segments that are mapped, by name. In a forked child the first use
//            opens and maps all of it anew.
// Sharing:   every member is the GIL's but `inside`, which a thread that ends inside leaves without
//            it. What may wait for another thread or process lets the GIL go where the interpreter
//            has another thread.
// Errors:    tmh::Error; ErrorIsSet.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <tmh/domain.hpp>
#include <tmh/options.hpp>
#include <tmh/site.hpp>

#include "bindings/python/src/python.h"

namespace tmh::python {

// How often this process has been forked off; counted by Python's hook in the child.
[[nodiscard]] std::uint32_t forks() noexcept;
// That hook.
void count_fork() noexcept;

class DomainCore;

// A place in the program whose instances learn their level together.
class SiteOf {
 public:
  explicit SiteOf(std::string name) : name_(std::move(name)) {}
  // Of this domain's; made at its first use and after a fork.
  [[nodiscard]] const Site &get(DomainCore &core);

 private:
  std::string name_;
  std::uint32_t forks_ = 0;
  std::unique_ptr<Site> site_;
};

// A segment by its name. What lies in it keeps this, and asks in the instance of each access. So an
// unmap(), which changes `is_mapped` first and then waits for running instances, comes before the
// question or behind the access.
struct MappedSegment {
  SegmentOptions options;
  Segment segment;
  std::atomic<bool> is_mapped = false;

  // Throws tmh::Error (kNotMapped). Needs no GIL.
  void require_mapped(std::string_view what) const {
    if (!is_mapped.load(std::memory_order_relaxed)) [[unlikely]]
      throw_unmapped(what);
  }
  [[nodiscard]] std::uint64_t size_bytes() const;
  // Of an address that the segment's file names. Throws kCorrupt where the bytes lie elsewhere.
  void require_inside(std::uintptr_t address, std::uint64_t bytes, const std::string &what) const;

 private:
  [[noreturn]] static void throw_unmapped(std::string_view what);
};

class DomainCore {
 public:
  DomainCore(std::string folder, const DomainOptions &options);
  DomainCore(const DomainCore &) = delete;
  DomainCore &operator=(const DomainCore &) = delete;
  ~DomainCore();

  // The open domain. Throws kNotInitialized after close().
  [[nodiscard]] Domain &domain() {
    if (is_closed_ || forks_ != forks()) [[unlikely]]
      reopen();
    return domain_;
  }
  // Throws where the open domain cannot have these.
  void require_options(const DomainOptions &options);
  [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }
  void close();
  // When the interpreter ends: closes, unless a thread is inside an instance that it may never end.
  // Then the process leaves the domain as if it were killed.
  void close_at_exit() noexcept;
  // Another number after each fork: what hangs on the domain is made anew then.
  [[nodiscard]] std::uint32_t opened_after_forks() const noexcept { return forks_; }
  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }

  void map(const std::string &file, const SegmentOptions &options);
  // One that is mapped. Throws kNotMapped.
  [[nodiscard]] const std::shared_ptr<MappedSegment> &segment(const std::string &file);
  void unmap(const std::string &file);

  // Does a commit wait for the disk? asked: of this instance; unset: as the domain.
  [[nodiscard]] bool waits_for_disk(Durability asked) const noexcept {
    return durability_ != Durability::kNone &&
           (asked == Durability{} ? durability_ : asked) == Durability::kStrict;
  }
  // Before a begin: waits while another thread unmaps or closes.
  void await_entry() const;

  // Threads between the begin and the end of an instance of Python, waiting ones too.
  std::atomic<std::uint32_t> inside = 0;
  // Of arrays that are read outside of instances.
  SiteOf reads_outside{"python.array"};
  // Raw arrays that the program still holds.
  std::uint64_t escaped = 0;

 private:
  // No instance of Python runs while this object lives, so that none lends a raw array. Throws what
  // a signal handler raises meanwhile.
  class Alone;
  // One thread at a time maps or unmaps. Throws NestingError where this one would wait for ever.
  class Mapping;
  void reopen();
  void require_no_escaped(const std::string &what, const char *call) const;

  std::string folder_;
  DomainOptions options_;
  Domain domain_;
  Durability durability_{};
  std::map<std::string, std::shared_ptr<MappedSegment>> segments_;
  bool is_closed_ = false;
  std::uint32_t forks_ = 0;
  // Of Alone.
  std::uint32_t barred_ = 0;
  // The thread of Mapping; 0: none.
  unsigned long mapper_ = 0;
};

}  // namespace tmh::python
