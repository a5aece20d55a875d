#include "bindings/python/src/domain_core.h"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "bindings/python/src/errors.h"
#include "bindings/python/src/instance.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {
std::uint32_t fork_count = 0;

// Lets others do what this thread waits for, and asks for, again and again: handlers of signals
// have to run meanwhile, and only this thread can run them.
void nap() {
  {
    const Unlocked others(true);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (PyErr_CheckSignals() != 0) throw ErrorIsSet{};
}
}  // namespace

class DomainCore::Alone {
 public:
  explicit Alone(DomainCore &core) : core_(core), forks_(forks()) {
    ++core_.barred_;
    try {
      while (core_.inside > 0) nap();
    } catch (...) {
      leave();
      throw;
    }
  }
  Alone(const Alone &) = delete;
  Alone &operator=(const Alone &) = delete;
  ~Alone() { leave(); }

 private:
  void leave() noexcept {
    if (forks_ != forks()) return;
    TMH_ASSERT(core_.barred_ > 0);
    --core_.barred_;
  }

  DomainCore &core_;
  const std::uint32_t forks_;
};

class DomainCore::Mapping {
 public:
  explicit Mapping(DomainCore &core) : core_(core), forks_(forks()) {
    const unsigned long self = PyThread_get_thread_ident();
    while (core_.mapper_ != 0) {
      if (core_.mapper_ == self)
        raise(Errc::kNestedMisuse,
              "a signal handler maps or unmaps in the middle of a map() or unmap() of its thread");
      // One that unmaps waits for this thread's instance to end.
      if (running().core == &core_)
        raise(Errc::kInstanceRunning,
              "another thread maps or unmaps: do it outside of the instance");
      nap();
    }
    core_.mapper_ = self;
  }
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping() {
    if (forks_ != forks()) return;
    TMH_ASSERT(core_.mapper_ == PyThread_get_thread_ident());
    core_.mapper_ = 0;
  }

 private:
  DomainCore &core_;
  const std::uint32_t forks_;
};

void DomainCore::await_entry() const {
  while (barred_ > 0) nap();
}

void DomainCore::require_no_escaped(const std::string &what, const char *call) const {
  TMH_ASSERT(call != nullptr);
  if (escaped != 0)
    raise("EscapedArrayError", what +
                                   ": the program still holds a raw array of the domain; drop "
                                   "that before " +
                                   call);
}

std::uint32_t forks() noexcept { return fork_count; }

void count_fork() noexcept {
  ++fork_count;
  // The parent's instance is none of this process. Raw arrays of it stay with who holds them.
  running().forget();
}

DomainCore::DomainCore(std::string folder, const DomainOptions &options)
    : folder_(std::move(folder)), options_(options), forks_(forks()) {
  const Unlocked others(true);
  domain_ = Domain::open(folder_, options_);
  durability_ = domain_.durability();
}

DomainCore::~DomainCore() { close_at_exit(); }

void DomainCore::close_at_exit() noexcept {
  if (is_closed_) return;
  if (forks_ == forks() && inside == 0 && escaped == 0) {
    std::error_code ignored;
    const Unlocked others(true);
    (void)domain_.close(ignored);
  }
  // A handle that goes waits for the threads that are inside: this one stays.
  (void)new Domain(std::move(domain_));
  is_closed_ = true;
  for (auto &[file, mapped] : segments_) mapped->is_mapped = false;
}

void DomainCore::reopen() {
  TMH_ASSERT(is_closed_ || forks_ != forks());
  if (is_closed_) raise(Errc::kNotInitialized, folder_ + ": the domain is closed; open it again");
  // A child that fork() made: nothing of the parent's domain is here.
  inside = barred_ = 0;
  mapper_ = 0;
  for (auto &[file, mapped] : segments_) mapped->segment = Segment();
  domain_ = Domain::open(folder_, options_);
  try {
    for (auto &[file, mapped] : segments_)
      if (mapped->is_mapped) mapped->segment = domain_.map(file, mapped->options);
  } catch (...) {
    // The next use tries again.
    std::error_code ignored;
    (void)domain_.close(ignored);
    throw;
  }
  forks_ = forks();
}

void DomainCore::require_options(const DomainOptions &options) {
  (void)domain();
  const Unlocked others(true);
  (void)Domain::open(folder_, options);  // another handle of the same, dropped at once
}

void DomainCore::close() {
  if (is_closed_) return;
  if (running().core == this)
    raise(Errc::kInstanceRunning, folder_ + ": close it outside of its instances");
  if (forks_ == forks()) {
    const Alone alone(*this);
    require_no_escaped(folder_, "close()");
    const Unlocked others(true);
    domain_.close();
  }
  is_closed_ = true;
  for (auto &[file, mapped] : segments_) {
    mapped->is_mapped = false;
    mapped->segment = Segment();
  }
}

void MappedSegment::throw_unmapped(std::string_view what) {
  throw Error(Errc::kNotMapped, std::string(what) + ": its segment is not mapped; map it again");
}

std::uint64_t MappedSegment::size_bytes() const {
  const Segment held = segment;  // another thread may unmap it meanwhile,
  const Unlocked others(true);   // which holds a lock, and waits for others
  return held.size_bytes();
}

void MappedSegment::require_inside(std::uintptr_t address, std::uint64_t bytes,
                                   const std::string &what) const {
  const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(segment.data());
  const std::uint64_t size = size_bytes();
  if (size == 0) throw_unmapped(what);
  if (address % alignof(std::uint64_t) != 0 || offset > size || bytes > size - offset)
    raise(Errc::kCorrupt, "'" + what + "' is said to lie outside of its segment");
}

void DomainCore::map(const std::string &file, const SegmentOptions &options) {
  Domain &opened = domain();
  const Mapping mapping(*this);
  std::shared_ptr<MappedSegment> &mapped = segments_[file];
  if (mapped == nullptr) mapped = std::make_shared<MappedSegment>();
  if (mapped->is_mapped) return;
  Segment segment;
  {
    const Unlocked others(true);
    segment = opened.map(file, options);
  }
  mapped->options = options;
  mapped->segment = std::move(segment);
  mapped->is_mapped = true;
}

const std::shared_ptr<MappedSegment> &DomainCore::segment(const std::string &file) {
  (void)domain();
  const auto found = segments_.find(file);
  if (found == segments_.end()) raise(Errc::kNotMapped, file + ": map the segment first");
  TMH_ASSERT(found->second != nullptr);
  found->second->require_mapped(file);
  return found->second;
}

void DomainCore::unmap(const std::string &file) {
  if (running().core == this)
    raise(Errc::kInstanceRunning, file + ": unmap it outside of the domain's instances");
  (void)domain();
  const Mapping mapping(*this);
  const Alone alone(*this);
  const std::shared_ptr<MappedSegment> gone = segment(file);
  require_no_escaped(file, "unmap()");
  gone->is_mapped = false;  // now: other threads run meanwhile
  {
    const Unlocked others(true);
    domain_.unmap(gone->segment);
  }
  gone->segment = Segment();
}

const Site &SiteOf::get(DomainCore &core) {
  Domain &domain = core.domain();
  if (site_ == nullptr || forks_ != core.opened_after_forks()) [[unlikely]] {
    std::unique_ptr<Site> made;
    {
      const Unlocked others(has_other_threads());
      // Whatever the environment says: records of dicts, which are fields, may span several lines,
      // and snapshot isolation goes by lines (docs/isolation.md).
      made = std::make_unique<Site>(domain, name_, std::string_view{}, Isolation::kSerializable);
    }
    // Another thread may have been quicker, and use its site.
    if (site_ == nullptr || forks_ != core.opened_after_forks()) site_ = std::move(made);
    forks_ = core.opened_after_forks();
  }
  TMH_ASSERT(site_ != nullptr);
  return *site_;
}

}  // namespace tmh::python
