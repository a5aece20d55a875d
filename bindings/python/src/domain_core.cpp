#include "bindings/python/src/domain_core.h"

#include <memory>
#include <utility>

#include "bindings/python/src/errors.h"
#include "bindings/python/src/instance.h"

namespace tmh::python {

namespace {
std::uint32_t fork_count = 0;
}  // namespace

std::uint32_t forks() noexcept { return fork_count; }

void count_fork() noexcept {
  ++fork_count;
  // The parent's instance is none of this process. Raw arrays of it stay with who holds them.
  const DomainCore *const was_in = running().core;
  running() = Running{};
  running().forked_in = was_in;
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
  if (is_closed_) raise(Errc::kNotInitialized, folder_ + ": the domain is closed; open it again");
  // A child that fork() made: nothing of the parent's domain is here.
  inside = busy = 0;
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
  if (escaped != 0)
    raise("EscapedArrayError",
          folder_ + ": the program still holds a raw array of it; drop that before close()");
  if (forks_ == forks()) {
    const Busy busy_here(*this);
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
  std::shared_ptr<MappedSegment> &mapped = segments_[file];
  if (mapped == nullptr) mapped = std::make_shared<MappedSegment>();
  if (mapped->is_mapped) return;
  Segment segment;
  {
    const Busy busy_here(*this);
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
  found->second->require_mapped(file);
  return found->second;
}

void DomainCore::unmap(const std::string &file) {
  const std::shared_ptr<MappedSegment> gone = segment(file);
  if (running().core == this)
    raise(Errc::kInstanceRunning, file + ": unmap it outside of the domain's instances");
  if (escaped != 0)
    raise("EscapedArrayError",
          file + ": the program still holds a raw array of the domain; drop that before unmap()");
  gone->is_mapped = false;  // now: other threads run meanwhile
  {
    const Busy busy_here(*this);
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
      const Unlocked others(core.has_company());
      made = std::make_unique<Site>(domain, name_);
    }
    // Another thread may have been quicker, and use its site.
    if (site_ == nullptr || forks_ != core.opened_after_forks()) site_ = std::move(made);
    forks_ = core.opened_after_forks();
  }
  return *site_;
}

}  // namespace tmh::python
