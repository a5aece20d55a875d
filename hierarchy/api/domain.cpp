// hierarchy/api/domain.cpp -- the public C++ interface on top of DomainImpl: handles, exceptions,
// heap access.
#include <tmh/allocator.hpp>
#include <tmh/domain.hpp>
#include <tmh/root.hpp>
#include <tmh/site.hpp>
#include <tmh/transaction.hpp>

#include <bit>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain.h"
#include "hierarchy/threads/threads.h"
#include "hierarchy/transaction/transaction.h"
#include "hierarchy/watch/watch.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process_object.h"
#include "platform/thread_object.h"

namespace tmh {

namespace detail {

namespace {

// The domain whose instance this thread runs, and the segment there that holds an address; heap
// calls come from containers that know only an address.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<SegmentImpl>> segments;
};
// Never gone: a static object may use its segments when the program ends.
Registry &known_segments() { return platform::ProcessObject<Registry>::here(); }

void remember(const std::shared_ptr<SegmentImpl> &segment) {
  TMH_ASSERT(segment != nullptr);
  Registry &registry = known_segments();
  const std::scoped_lock guard(registry.mutex);
  std::erase_if(registry.segments, [](const auto &entry) { return entry.expired(); });
  registry.segments.push_back(segment);
}

// Not one that a forked child inherited: its view is the parent's.
std::shared_ptr<SegmentImpl> find_segment(const void *address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  Registry &registry = known_segments();
  const std::scoped_lock guard(registry.mutex);
  for (const auto &entry : registry.segments) {
    auto segment = entry.lock();
    if (segment == nullptr) continue;
    const std::byte *base = segment->base;
    if (base == nullptr || at - reinterpret_cast<std::uintptr_t>(base) >= segment->max_bytes)
      continue;
    const auto domain = segment->domain.lock();
    if (domain != nullptr && domain->usable() == Errc::kOk) return segment;
  }
  return nullptr;
}

std::shared_ptr<DomainImpl> owner_of(const SegmentImpl &segment, Need need) {
  auto domain = segment.domain.lock();
  if (domain == nullptr) {
    need_pages(need);
    platform::fail(Errc::kNotInitialized, segment.name + ": its domain is closed");
    raise(Errc::kNotInitialized);
  }
  return domain;
}

// The heap is plain code: it works on pages, or in RTM.
storage::HeapContext heap_of(const SegmentImpl &segment, Need need) {
  const auto domain = owner_of(segment, need);
  if (!runs_in_hardware(domain->lines())) need_pages(need);
  storage::HeapContext context;
  check(heap_context(*domain, segment, &context));
  return context;
}

// A query's stores into the heap would be the library's own.
void refuse_in_query(const SegmentImpl &segment, const char *what) {
  if (is_page_query_here()) raise_query_wrote(segment.name, what);
}

void *allocate_in(const SegmentImpl &segment, std::size_t bytes, std::size_t alignment, Need need) {
  storage::HeapContext context = heap_of(segment, need);
  refuse_in_query(segment, "allocation");
  Errc why = Errc::kOk;
  void *memory = storage::heap_allocate(context, bytes, alignment, &why);
  if (memory == nullptr) {
    leave_hardware(need);  // which could not tell why
    // What growing the segment met has told its cause; what the heap finds itself has not.
    const bool is_heaps =
        why == Errc::kSegmentFull || why == Errc::kBadArgument || why == Errc::kCorrupt;
    const std::string cause = is_heaps ? std::string() : ": " + platform::failure_detail();
    platform::fail(why, segment.name + ": allocating " + std::to_string(bytes) + " bytes" + cause);
    raise(why);
  }
  return memory;
}

void deallocate_in(const SegmentImpl &segment, void *pointer, std::size_t bytes, Need need) {
  storage::HeapContext context = heap_of(segment, need);
  refuse_in_query(segment, "deallocation");
  if (const Errc why = storage::heap_deallocate(context, pointer, bytes); why != Errc::kOk) {
    leave_hardware(need);
    platform::fail(why, segment.name + ": freeing a pointer");
    raise(why);
  }
}

void **root_cell_in(const SegmentImpl &segment, std::string_view name, std::uint64_t type_bytes,
                    storage::RootClaim claim) {
  storage::HeapContext context = heap_of(segment, Need::kRoot);
  Errc why = Errc::kOk;
  void **cell = storage::heap_root_cell(context, name, type_bytes, &why, claim);
  if (cell == nullptr) {
    leave_hardware(Need::kRoot);
    platform::fail(why, segment.name + ": root '" + std::string(name) + "'");
    raise(why);
  }
  return cell;
}

// Containers allocate often: the last segment is remembered per thread, so that the registry's
// mutex is seldom taken.
std::shared_ptr<SegmentImpl> segment_for_heap(const std::byte *base) {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(base) >= kPageBytes);
  struct LastUsed {
    std::weak_ptr<SegmentImpl> segment;
    std::uint32_t generation = 0;  // a forked child must not use its parent's
  };
  LastUsed &last = platform::ThreadObject<LastUsed>::here();
  std::shared_ptr<SegmentImpl> segment =
      last.generation == platform::fork_generation() ? last.segment.lock() : nullptr;
  if (segment == nullptr || segment->base != base) {
    segment = find_segment(base);
    last = {segment, platform::fork_generation()};
  }
  if (segment == nullptr) {
    platform::fail(Errc::kNotMapped, "the allocator's segment is not mapped in this process");
    raise(Errc::kNotMapped);
  }
  return segment;
}

template <class Operation>
std::error_code guarded(std::error_code &ec, Operation &&operation) noexcept {
  try {
    operation();
    ec.clear();
  } catch (const Error &error) {
    ec = error.code();
  } catch (const std::bad_alloc &) {
    ec = make_error_code(Errc::kOutOfMemory);
  } catch (...) {
    ec = make_error_code(Errc::kIo);
  }
  return ec;
}

DomainImpl &required(const std::shared_ptr<DomainImpl> &impl) {
  if (impl == nullptr) {
    platform::fail(Errc::kNotInitialized, "empty domain handle");
    raise(Errc::kNotInitialized);
  }
  return *impl;
}

// The domain is open, and stays so as long as the lock is held.
std::shared_lock<std::shared_mutex> keep_open(const std::shared_ptr<DomainImpl> &impl) {
  const DomainImpl &domain = required(impl);
  check(domain.usable());  // before the lock, too: a forked child may have inherited it locked
  auto open = domain.keep_open();
  check(domain.usable());
  return open;
}

// Throws kNotDurable and what the operation returns. The domain stays open meanwhile.
template <class Operation>
void with_durable(const std::shared_ptr<DomainImpl> &impl, const Operation &operation) {
  const auto open = keep_open(impl);
  const DomainImpl &domain = *impl;
  if (domain.durable() == nullptr) {
    platform::fail(Errc::kNotDurable, domain.folder());
    raise(Errc::kNotDurable);
  }
  TMH_ASSERT(domain.usable() == Errc::kOk);
  check(operation(*domain.durable()));
}

const SegmentImpl &required(const std::shared_ptr<SegmentImpl> &impl) {
  if (impl == nullptr || impl->base == nullptr) {
    platform::fail(Errc::kNotMapped, "empty or unmapped segment handle");
    raise(Errc::kNotMapped);
  }
  return *impl;
}

}  // namespace

namespace {
// What an allocator without a segment holds; no segment begins there.
enum class NoHeap : std::uintptr_t { kProcess = 0, kOutside, kNone, kSeveral, kUnmapped };
static_assert(static_cast<std::uintptr_t>(NoHeap::kUnmapped) < kPageBytes);
std::byte *marked(NoHeap why) noexcept { return reinterpret_cast<std::byte *>(why); }
bool is_segment(const std::byte *base) noexcept {
  return reinterpret_cast<std::uintptr_t>(base) >= kPageBytes;
}

[[noreturn]] void raise_no_heap(NoHeap why, Need need) {
  TMH_ASSERT(why != NoHeap::kProcess);
  leave_hardware(need);
  constexpr const char *kMake = ": make it from a tmh::Segment";
  const auto refuse = [&](Errc code, const char *what) {
    platform::fail(code, std::string(what) + kMake);
    raise(code);
  };
  switch (why) {
    case NoHeap::kOutside:
      refuse(Errc::kEndWithoutBegin,
             "a tmh::allocator that was made by default outside an instance has no segment");
      break;
    case NoHeap::kNone:
      refuse(Errc::kNotAHeap,
             "a tmh::allocator was made by default where the domain had no heap segment mapped");
      break;
    case NoHeap::kSeveral:
      refuse(Errc::kBadArgument,
             "a tmh::allocator was made by default where the domain had several heap segments "
             "mapped");
      break;
    default:
      break;
  }
  refuse(Errc::kNotMapped, "a tmh::allocator was made from an empty or unmapped segment");
  std::terminate();  // refuse() has thrown
}

enum class RunsHere : std::uint8_t { kNothing, kUpdate, kQuery };
RunsHere runs_here() noexcept {
  const auto kind = [](bool is_query) { return is_query ? RunsHere::kQuery : RunsHere::kUpdate; };
  switch (current().where()) {
    case Where::kOutside:
      return RunsHere::kNothing;
    case Where::kHardware:  // queries do not run there
      return RunsHere::kUpdate;
    case Where::kLines:
      TMH_ASSERT(current().lines.thread != nullptr);
      return kind(current().lines.thread->is_query());
    case Where::kPages:  // a query inside an update is the update's
      return kind(current().pages.runner->nest.front());
  }
  __builtin_unreachable();
}
// REQUIRES: this thread runs an instance. Is it of that domain?
bool runs_here(const DomainImpl &domain) noexcept {
  TMH_ASSERT(current().where() != Where::kOutside);
  switch (current().where()) {
    case Where::kHardware:
      return current().hardware.domain == domain.lines();
    case Where::kLines:
      return current().lines.domain == domain.lines();
    default:
      return current().pages.domain == &domain;
  }
}

// REQUIRES: this thread runs an instance.
std::byte *only_heap_here() noexcept {
  TMH_ASSERT(current().where() != Where::kOutside);
  Registry &registry = known_segments();
  const std::scoped_lock guard(registry.mutex);
  std::byte *found = marked(NoHeap::kNone);
  for (const auto &entry : registry.segments) {
    const auto segment = entry.lock();
    if (segment == nullptr || segment->layout != Layout::kHeap || segment->relocatable) continue;
    std::byte *const base = segment->base;
    const auto domain = segment->domain.lock();
    if (base == nullptr || domain == nullptr || domain->usable() != Errc::kOk ||
        !runs_here(*domain))
      continue;
    if (is_segment(found)) return marked(NoHeap::kSeveral);
    found = base;
  }
  return found;
}

bool holds(const SegmentImpl &segment, const void *address) noexcept {
  const auto distance = reinterpret_cast<std::uintptr_t>(address) -
                        reinterpret_cast<std::uintptr_t>(segment.base.load());
  return distance < segment.max_bytes;
}
}  // namespace

void *heap_allocate(std::byte *base, std::size_t bytes, std::size_t alignment) {
  return heap_allocate_for(Need::kAllocatorAllocate, base, bytes, alignment);
}
void *heap_allocate_for(Need need, std::byte *base, std::size_t bytes, std::size_t alignment) {
  TMH_ASSERT(std::has_single_bit(alignment));
  if (base == marked(NoHeap::kProcess)) return ::operator new(bytes, std::align_val_t(alignment));
  if (!is_segment(base))
    raise_no_heap(static_cast<NoHeap>(reinterpret_cast<std::uintptr_t>(base)), need);
  return allocate_in(*segment_for_heap(base), bytes, alignment, need);
}
void heap_deallocate(std::byte *base, void *pointer, std::size_t bytes, std::size_t alignment) {
  heap_deallocate_for(Need::kAllocatorDeallocate, base, pointer, bytes, alignment);
}
void heap_deallocate_for(Need need, std::byte *base, void *pointer, std::size_t bytes,
                         std::size_t alignment) {
  if (is_segment(base)) {
    const auto segment = segment_for_heap(base);
    if (pointer == nullptr || holds(*segment, pointer))
      return deallocate_in(*segment, pointer, bytes, need);
  }
  // Containers that make an allocator for each call may free with another than they allocated with.
  if (const auto holder = find_segment(pointer); holder != nullptr)
    return deallocate_in(*holder, pointer, bytes, need);
  ::operator delete(pointer, std::align_val_t(alignment));
}

std::byte *heap_here() noexcept {
  switch (runs_here()) {
    case RunsHere::kUpdate:
      return only_heap_here();
    case RunsHere::kQuery:
      return marked(NoHeap::kProcess);
    default:
      return marked(NoHeap::kOutside);
  }
}
std::byte *heap_of_copy(std::byte *base) noexcept {
  if (runs_here() != RunsHere::kUpdate) return marked(NoHeap::kProcess);
  if (is_segment(base)) return base;
  std::byte *const here = only_heap_here();
  return is_segment(here) ? here : marked(NoHeap::kProcess);
}
std::byte *heap_of(const Segment &segment) noexcept {
  std::byte *const base = segment.data();
  return base != nullptr ? base : marked(NoHeap::kUnmapped);
}
void check_place(const void *allocator) {
  if (find_segment(allocator) == nullptr) return;
  platform::fail(Errc::kBadArgument,
                 "a container of the process's heap was moved or swapped into a segment; copy it");
  raise(Errc::kBadArgument);
}

}  // namespace detail

using detail::check;
using detail::required;

std::byte *Segment::data() const noexcept {
  return impl_ == nullptr ? nullptr : impl_->base.load();
}
std::uint64_t Segment::max_bytes() const noexcept {
  return impl_ == nullptr ? 0 : impl_->max_bytes;
}
bool Segment::is_relocatable() const noexcept { return impl_ != nullptr && impl_->relocatable; }
std::uint64_t Segment::size_bytes() const noexcept {
  if (impl_ == nullptr || impl_->base == nullptr) return 0;
  const auto domain = impl_->domain.lock();
  // before the lock: as keep_open()
  if (domain == nullptr || domain->usable() != Errc::kOk) return 0;
  const auto open = domain->keep_open();
  return domain->usable() == Errc::kOk ? domain->segments().size_of(impl_->number) : 0;
}
const std::string &Segment::name() const noexcept {
  static const std::string none;
  return impl_ == nullptr ? none : impl_->name;
}
void Segment::grow(std::uint64_t new_size_bytes) const {
  const detail::SegmentImpl &segment = required(impl_);
  detail::need_pages(Need::kGrow);
  check(detail::owner_of(segment, Need::kGrow)->segments().grow(segment.number, new_size_bytes));
}
std::error_code Segment::grow(std::uint64_t new_size_bytes, std::error_code &ec) const noexcept {
  return detail::guarded(ec, [&] { grow(new_size_bytes); });
}
void *Segment::allocate(std::size_t bytes, std::size_t alignment) const {
  return detail::allocate_in(required(impl_), bytes, alignment, Need::kAllocate);
}
void Segment::deallocate(void *pointer, std::size_t bytes) const {
  detail::deallocate_in(required(impl_), pointer, bytes, Need::kDeallocate);
}
void **Segment::root_cell(std::string_view name, std::uint64_t type_bytes) const {
  return detail::root_cell_in(required(impl_), name, type_bytes, storage::RootClaim::kNow);
}
void **Segment::unclaimed_root_cell(std::string_view name, std::uint64_t type_bytes) const {
  return detail::root_cell_in(required(impl_), name, type_bytes, storage::RootClaim::kLater);
}
void Segment::claim_root(void **cell, std::uint64_t type_bytes) noexcept {
  storage::heap_claim_root(cell, type_bytes);
}

Domain Domain::open(const std::string &folder, const DomainOptions &options) {
  std::shared_ptr<detail::DomainImpl> impl;
  check(detail::Opening::open(folder, options, &impl));
  TMH_ASSERT(impl != nullptr);  // another thread may close it already
  return Domain(std::move(impl));
}
Domain Domain::open(const std::string &folder, const DomainOptions &options,
                    std::error_code &ec) noexcept {
  Domain domain;
  detail::guarded(ec, [&] { domain = open(folder, options); });
  return domain;
}
Segment Domain::map(const std::string &file, const SegmentOptions &options) const {
  detail::need_process_view();
  std::shared_ptr<detail::SegmentImpl> segment;
  check(detail::map_prepared(required(impl_), file, options, &segment));
  TMH_ASSERT(segment != nullptr);
  try {
    detail::remember(segment);
  } catch (const std::bad_alloc &) {
    (void)impl_->segments().unmap(*segment);  // a caller that gets no handle cannot
    throw;
  }
  return Segment(std::move(segment));
}
Segment Domain::map(const std::string &file, const SegmentOptions &options,
                    std::error_code &ec) const noexcept {
  Segment segment;
  detail::guarded(ec, [&] { segment = map(file, options); });
  return segment;
}
void Domain::unmap(const Segment &segment) const {
  detail::DomainImpl &domain = required(impl_);
  check(segment.impl_ != nullptr ? domain.segments().unmap(*segment.impl_)
                                 : domain.segments().unmap(std::string()));
}
std::error_code Domain::unmap(const std::string &file, std::error_code &ec) const noexcept {
  return detail::guarded(ec, [&] { check(required(impl_).segments().unmap(file)); });
}
void Domain::close() {
  check(detail::Opening::close(required(impl_)));
  impl_.reset();
}
std::error_code Domain::close(std::error_code &ec) noexcept {
  return detail::guarded(ec, [&] { close(); });
}

void Domain::begin() const {
  detail::need_pages(Need::kBegin);
  check(detail::Instances(required(impl_)).begin(false));
}
void Domain::begin(Isolation isolation) const {
  detail::need_pages(Need::kBegin);
  check(hierarchy::check_value(hierarchy::kIsolation, isolation));
  check(detail::Instances(required(impl_)).begin(false, {.isolation = isolation}));
}
void Domain::begin_query() const {
  detail::need_pages(Need::kBeginQuery);
  check(detail::Instances(required(impl_)).begin(true));
}
void Domain::begin_query_at(const Moment &moment) const {
  detail::need_pages(Need::kBeginQuery);
  detail::DomainImpl &domain = required(impl_);
  if (domain.settings().levels == Levels::kHybrid) {
    platform::fail(Errc::kLevelsMismatch, "the past of a domain is held with levels page alone");
    detail::raise(Errc::kLevelsMismatch);
  }
  if (moment.kind() == Moment::Kind::kLsn) {
    platform::fail(Errc::kBadArgument,
                   "memory knows moments by clock, time or name; an LSN is for "
                   "open_image()");
    detail::raise(Errc::kBadArgument);
  }
  check(detail::Instances(domain).begin(true, {.moment = &moment}));
}
std::uint64_t Domain::keep(std::string_view name) const {
  std::uint64_t clock = 0;
  check(detail::Instances(required(impl_)).keep_moment(name, &clock));
  return clock;
}
void Domain::forget(std::string_view name) const {
  check(detail::Instances(required(impl_)).forget_moment(name));
}
PastInfo Domain::past() const {
  PastInfo info;
  check(detail::Instances(required(impl_)).past(&info));
  return info;
}
namespace {
// An end that fails has ended the instance, too, unless it was none of ours.
Status ended(Errc error, Status status, const detail::SlowReaderWatch &watch) {
  detail::run_actions_if_ended(status == Status::kCommitted);
  check(error);
  if (status == Status::kCommitted) watch.look();
  return status;
}
}  // namespace

Status Domain::end() const {
  detail::need_process_view();
  const detail::SlowReaderWatch watch(required(impl_).slow_readers());
  Status status{};
  const Errc error = detail::Instances(*impl_).end(false, &status);
  return ended(error, status, watch);
}
Status Domain::end(Durability durability) const {
  if (durability != Durability::kStrict && durability != Durability::kBuffered) {
    platform::fail(Errc::kBadDurability, "an end is strict or buffered");
    detail::raise(Errc::kBadDurability);
  }
  detail::need_process_view();
  const detail::SlowReaderWatch watch(required(impl_).slow_readers());
  Status status{};
  const Errc error = detail::Instances(*impl_).end(false, &status, durability);
  return ended(error, status, watch);
}
void Domain::end_query() const {
  detail::need_process_view();
  Status status{};
  const Errc error = detail::Instances(required(impl_)).end(true, &status);
  detail::run_actions_if_ended(status == Status::kCommitted);
  check(error);
}
void Domain::abort() const {
  detail::need_pages(Need::kAbort);
  check(detail::Instances(required(impl_)).abort());
  detail::run_actions(false);
}
void Domain::await_change() const {
  detail::DomainImpl &domain = required(impl_);
  if (!domain.runs_at_lines(Need::kAwaitChange)) check(detail::Instances(domain).await_change());
}
Status Domain::validate() const {
  detail::DomainImpl &domain = required(impl_);
  if (domain.runs_at_lines(Need::kValidate)) return detail::status_at_lines();
  Status status{};
  check(detail::Instances(domain).validate(&status));
  return status;
}
std::uint32_t Domain::depth() const noexcept {
  return impl_ == nullptr ? 0 : detail::Instances(*impl_).depth();
}
void Domain::advise_now(const void *address, Access access, std::size_t bytes) const {
  if (detail::current().hardware.depth != 0) return;  // RTM finds its lines itself
  detail::DomainImpl &domain = required(impl_);
  if (!domain.runs_at_lines(Need::kUnknown))
    check(detail::Instances(domain).advise(address, access, bytes));
}
void Domain::copy(const void *from, void *to, std::size_t bytes) const {
  check(detail::Instances(required(impl_)).copy(from, to, bytes));
}
void Domain::flush() const {
  detail::with_durable(impl_, [](detail::DurableDomain &durable) { return durable.flush(); });
}
void Domain::checkpoint() const {
  detail::with_durable(impl_, [](detail::DurableDomain &durable) { return durable.checkpoint(); });
}
std::vector<std::string> Domain::archive(const std::string &folder) const {
  std::vector<std::string> moved;
  detail::with_durable(
      impl_, [&](detail::DurableDomain &durable) { return durable.archive(folder, &moved); });
  return moved;
}
void Domain::backup(const std::string &folder) const {
  detail::with_durable(impl_,
                       [&](detail::DurableDomain &durable) { return durable.backup(folder); });
}
Durability Domain::durability() const noexcept {
  return impl_ == nullptr ? Durability{} : impl_->settings().durability;
}
RecoveryInfo Domain::recovery() const {
  const auto open = detail::keep_open(impl_);
  return impl_->durable() == nullptr ? RecoveryInfo{} : impl_->durable()->recovery();
}

void Domain::set_policy(std::string_view spec) const {
  check(detail::Instances(required(impl_)).set_policy(spec));
}
Policy Domain::policy() const noexcept {
  return impl_ == nullptr ? Policy{} : impl_->runners().policy();
}
Detection Domain::detection() const noexcept {
  return impl_ == nullptr ? Detection{} : impl_->settings().detection;
}
TrackingReport Domain::tracking() const {
  const auto open = detail::keep_open(impl_);
  return impl_->engine().tracking();
}
Counters Domain::counters() const {
  const auto open = detail::keep_open(impl_);
  Counters counters = detail::counters_of(impl_->memory());
  if (impl_->lines() != nullptr) impl_->lines()->count_in(&counters);
  return counters;
}
std::vector<ParticipantInfo> Domain::participants() const {
  const auto open = detail::keep_open(impl_);
  return detail::participants_of(impl_->memory());
}
std::vector<LatencySeries> Domain::latencies() const {
  const auto open = detail::keep_open(impl_);
  return detail::latencies_of(impl_->memory(), impl_->latency_table());
}
const std::string &Domain::folder() const noexcept {
  static const std::string none;
  return impl_ == nullptr ? none : impl_->folder();
}
const std::string &Domain::last_error() const noexcept { return platform::failure_detail(); }
void Domain::backoff() const { detail::Instances(required(impl_)).backoff(); }
std::uint64_t Domain::collect() const {
  check(required(impl_).usable());
  const detail::SlowReaderWatch watch(impl_->slow_readers());
  const std::uint64_t left = detail::Instances(*impl_).collect();
  watch.look();
  return left;
}

RecoveryInfo recover(const std::string &folder, const RecoverOptions &options) {
  RecoveryInfo info;
  check(detail::Opening::recover(folder, options, &info));
  return info;
}

namespace detail {

struct Handles {
  static Segment segment(std::shared_ptr<SegmentImpl> impl) noexcept {
    return Segment(std::move(impl));
  }
  static std::shared_ptr<DomainImpl> impl_of(const Domain &domain) noexcept { return domain.impl_; }
  static const DomainImpl &required_impl_of(const Domain &domain) noexcept {
    TMH_ASSERT(domain.impl_ != nullptr);
    return *domain.impl_;
  }
  static Domain domain_of(const Segment &segment) noexcept {
    return segment.impl_ == nullptr ? Domain() : Domain(segment.impl_->domain.lock());
  }
};

Domain domain_of(const Segment &segment) noexcept { return Handles::domain_of(segment); }
Domain domain_for_root(const Segment &segment) {
  need_pages(Need::kRoot);
  return domain_of(segment);
}
std::shared_ptr<DomainImpl> impl_of(const Domain &domain) noexcept {
  return Handles::impl_of(domain);
}

void leave_by_force(const Domain &domain, bool is_query, std::uint32_t depth_before) noexcept {
  leave_hardware(Need::kThreadEnd);
  try {
    if (domain.depth() <= depth_before) return;  // the body has ended it
    // What the body has begun by hand goes with the outermost one.
    if (depth_before == 0 && (!is_query || domain.depth() > 1))
      domain.abort();
    else if (is_query)
      domain.end_query();
    else
      (void)domain.end();
  } catch (const Error &) {  // no caller is there to be told
  }
}

std::uint32_t segments_made(const Domain &domain) noexcept {
  return Handles::required_impl_of(domain).memory().segment_generation();
}

}  // namespace detail

Segment segment_of(const void *address) noexcept {
  return detail::Handles::segment(detail::find_segment(address));
}

}  // namespace tmh
