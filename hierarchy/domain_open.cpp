// hierarchy/domain_open.cpp -- opening and closing a domain, and the registry of domains open in
// this process.
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include <cstdlib>
#include <fstream>

#include "hierarchy/actions.h"
#include "hierarchy/domain_impl.h"
#include "hierarchy/site_impl.h"
#include "levels/line/choice.h"
#include "platform/failure.h"
#include "platform/process_object.h"
#include "platform/steps.h"
#include "platform/trace.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kAddressBase =
    0x0010'0000'0000ull;  // TSan knows few address ranges; this one is its low application memory
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr std::uint64_t kAddressBase = 0x0010'0000'0000ull;
#else
constexpr std::uint64_t kAddressBase = 0x2000'0000'0000ull;
#endif
#else
// 32 TiB: far below mmap's and the program's own places, above ASan's shadow
constexpr std::uint64_t kAddressBase = 0x2000'0000'0000ull;
#endif

struct Registry {
  std::mutex mutex;  // held while a domain is opened
  std::vector<std::weak_ptr<DomainImpl>> domains;
};

std::string program_name() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// The path with symbolic links resolved, so that one folder has one name.
Errc resolve_folder(const std::string &folder, std::string *out) {
  if (folder.empty()) return fail(Errc::kBadArgument, "the domain's folder has an empty name");
  if (folder.find('\0') != std::string::npos)
    return fail(Errc::kBadArgument, "the name of the domain's folder holds a byte 0");
  if (mkdir(folder.c_str(), 0770) != 0 && errno != EEXIST)
    return platform::fail_errno(Errc::kIo, folder);
  char *resolved = realpath(folder.c_str(), nullptr);
  if (resolved == nullptr) return platform::fail_errno(Errc::kIo, folder);
  *out = resolved;
  free(resolved);
  return Errc::kOk;
}

// REQUIRES the folder lock.
bool is_closed(const std::string &folder) {
  return !page::DomainMemory::has_rebuildable_files(folder) &&
         !platform::has_entry(folder + "/tmh.line.state");
}

}  // namespace

Errc DomainImpl::open(const std::string &folder, const DomainOptions &options,
                      std::shared_ptr<DomainImpl> *out) {
  std::string resolved;
  TMH_TRY(resolve_folder(folder, &resolved));
  Registry &registry = platform::ProcessObject<Registry>::here();
  const std::scoped_lock guard(registry.mutex);
  for (std::size_t i = 0; i < registry.domains.size(); ++i) {
    const std::shared_ptr<DomainImpl> known = registry.domains[i].lock();
    if (known == nullptr || known->folder_ != resolved) continue;
    const auto open = known->keep_open();
    if (known->usable() != Errc::kOk) continue;
    TMH_TRY(known->memory_->check_in_place());
    TMH_TRY(known->check_agreement(options));
    *out = known;
    return Errc::kOk;
  }
  auto made = std::shared_ptr<DomainImpl>(new DomainImpl(resolved, options), destroy);
  TMH_TRY(made->attach());
  std::erase_if(registry.domains, [](const auto &entry) { return entry.expired(); });
  registry.domains.push_back(made);
  *out = std::move(made);
  return Errc::kOk;
}

// REQUIRES the folder lock and the participant's slot.
Errc DomainImpl::open_latency(bool fresh) {
  if (latency_use_ == Latency::kOff) return Errc::kOk;
  const std::uint64_t incarnation =
      memory_->participant(slot_).incarnation.load(std::memory_order_relaxed);
  TMH_TRY(latency_table_->open(folder_, slot_, incarnation, fresh));
  no_site_.use(latency_table_.get(), 0);
  if (durable_ != nullptr) durable_->log().time_writes(&no_site_);
  return Errc::kOk;
}

// REQUIRES the folder lock and the participant's slot.
Errc DomainImpl::open_lines(bool fresh) {
  if (fresh)  // also when it is opened without level 1 now
    TMH_TRY(LineDomain::salvage(*memory_));
  if (levels() != Levels::kHybrid) return Errc::kOk;
  LineChoice chosen{};
  std::string reason;
  TMH_TRY(line::choose_line(line_wanted_, &chosen, &reason));
  // see settle_durable_lines()
  const bool with_hardware = chosen == LineChoice::kRtm && durable_ == nullptr;
  lines_ = std::make_unique<LineDomain>(*memory_, slot_, cross_, with_hardware);
  TMH_TRY(lines_->open(folder_));
  engine_->use_lower(&lines_->directory());
  lines_->use_engine(engine_.get());
  if (durable_ != nullptr) lines_->use_log(&durable_->log());
  return Errc::kOk;
}

// REQUIRES the folder lock.
Errc DomainImpl::open_durable(Durability wanted, bool fresh) {
  const std::uint32_t stored = memory_->control().header.durability;
  durability_ = stored == 0 ? Durability::kNone : static_cast<Durability>(stored);
  TMH_TRY(check_durability(wanted));
  GroupCommit group;
  TMH_TRY(settle_group_commit(&group));
  if (durability() == Durability::kNone) return Errc::kOk;
  durable_ = std::make_unique<DurableDomain>(*memory_, options_, group);
  if (!fresh) return durable_->join();
  RecoverOptions how;
  how.progress = options_.recovery_progress;
  return durable_->recover(how);
}

Errc DomainImpl::attach() {
  if (!platform::crash_at_environment())
    return fail(Errc::kBadArgument, "TMH_CRASH_AT names no step");
  TMH_TRY(page::DomainMemory::check_owner(folder_));
  Durability wanted{};
  TMH_TRY(settle_durability(&wanted));
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(lock_path()));
  const bool was_closed = is_closed(folder_);
  memory_ = std::make_unique<page::DomainMemory>();
  Errc error{};
  try {
    error = attach_locked(wanted);
  } catch (...) {  // no memory
    remove_made(was_closed);
    throw;
  }
  if (error == Errc::kOk) return error;
  const std::string why = platform::failure_detail();
  remove_made(was_closed);
  return fail(error, why);
}

// What a refused open has made: durable or not, and how long its log files are, a domain keeps for
// good; and a closed one with shared memory would look as if everybody in it had died.
void DomainImpl::remove_made(bool was_closed) {
  if (!memory_->is_new() && !was_closed) return;
  if (memory_->is_new() && durable_ != nullptr && durable_->remove_new() != Errc::kOk) return;
  line::LineMemory::remove_files(folder_);
  hierarchy::Directory::remove_files(folder_);
  if (memory_->is_new())
    memory_->remove_new();
  else
    memory_->remove_rebuildable_files();
}

// REQUIRES the folder lock.
Errc DomainImpl::attach_locked(Durability wanted) {
  bool fresh = false;
  const std::uint32_t durability_if_new =
      wanted > Durability::kNone ? static_cast<std::uint32_t>(wanted) : 0;
  TMH_TRY(memory_->open(folder_, kAddressBase, durability_if_new, &fresh));
  // What can be judged without the domain comes first: recovery makes a clean domain one that has
  // been opened.
  TMH_TRY(settle_latency());
  TMH_TRY(settle_stray());
  TMH_TRY(open_durable(wanted, fresh));
  TMH_TRY(settle_page_checksums(options_));
  TMH_TRY(settle_options(fresh, &wanted_tracking_));
  TMH_TRY(settle_levels(fresh));
  TMH_TRY(settle_thread_views());
  const std::string name = options_.name.empty() ? program_name() : options_.name;
  TMH_TRY(memory_->attach_slot(name, &slot_));
  // Also when there is no memory: while this process lives nobody else would be the first, who
  // makes sure of what the dead have left.
  struct Slot {
    storage::Participant *to_give_back;
    ~Slot() {
      if (to_give_back != nullptr) to_give_back->state.store(0, std::memory_order_release);
    }
  } slot{&memory_->participant(slot_)};
  platform::step(platform::Step::kAttachSlotTaken);
  engine_ = std::make_unique<page::Engine>(*memory_, slot_, detection_);
  process_.engine = engine_.get();
  process_.slot = slot_;
  if (durable_ != nullptr) {
    durable_->attach(slot_);
    engine_->use_log(&durable_->log(), !durable_->early_release());
    process_.log = &durable_->log();
  }
  Errc error = platform::open_trace(folder_, slot_, name);
  if (error == Errc::kOk) error = open_latency(fresh);
  if (error == Errc::kOk) error = open_lines(fresh);
  if (error == Errc::kOk) error = engine_->start(wanted_tracking_, fresh);
  if (error == Errc::kOk && durable_ != nullptr) {
    error = durable_->start();
    // what the engine's start has sent home was in slots that are reserved now
    if (error != Errc::kOk) {
      const std::string why = platform::failure_detail();
      engine_->detach();
      return fail(error, why);
    }
  }
  if (error != Errc::kOk) return error;
  slot.to_give_back = nullptr;
  // With exact tracking every instance changes page tables and interrupts the other cores: threads
  // then slow each other down (bench/threads).
  const Tracking chosen = engine_->tracking().tracking;
  const bool keeps_pages = chosen == Tracking::kKernelHot || chosen == Tracking::kSignalHot;
  if (thread_view_use_ == ThreadViewUse::kAuto && !keeps_pages)
    thread_view_use_ = ThreadViewUse::kNever;
  open_.store(true, std::memory_order_release);
  return Errc::kOk;
}

Errc DomainImpl::close() noexcept {
  TMH_TRY(usable());
  if (runs_at_any_level()) return fail(Errc::kInstanceRunning, "close inside an instance");
  const LineUsers::Barred nobody_at_lines(line_users_);
  const std::scoped_lock process(process_.mutex);
  const ThreadViews::Stopped stopped(*views_);
  const std::scoped_lock guard(segments_mutex_);
  const std::unique_lock nobody_else(use_mutex_);
  TMH_TRY(usable());
  TMH_TRY(leave_line_mode());
  Errc result = Errc::kOk;
  if (durable_ != nullptr) {
    durable_->stop();
    result = durable_->flush();  // versions go home only when they are durable
  }
  platform::FolderLock folder_lock;
  if (const Errc error = folder_lock.acquire(lock_path()); error != Errc::kOk) {
    const std::string why = platform::failure_detail();
    if (durable_ != nullptr) (void)durable_->start();  // it stays open
    return fail(error, why);
  }
  open_.store(false, std::memory_order_release);
  wake_sleepers();
  // Level 1's contexts before the slot: who repairs takes a context of a free slot for a dead
  // one's, and gives it to the next thread.
  if (lines_ != nullptr) lines_->detach();
  views_->detach();
  latency_table_->leave();
  engine_->detach();
  for (const auto &segment : segments_) segment->base = nullptr;
  segments_.clear();
  if (lines_ != nullptr) lines_->leave_log();
  engine_.reset();
  process_.engine = nullptr;
  process_.log = nullptr;
  // The last one out: nothing in the shared files is needed any more, unless a segment could not be
  // reached.
  const bool is_home = memory_->versions_live() == 0 &&
                       (lines_ == nullptr || durable_ != nullptr || lines_->is_settled());
  bool last = !memory_->anyone_alive() && is_home && memory_->check_in_place() == Errc::kOk;
  if (const Errc error = sync_data_files(last); error != Errc::kOk) result = error;
  if (last && durable_ != nullptr) {
    Errc table_error = Errc::kOk;
    if (result == Errc::kOk) result = durable_->close_clean(&table_error);
    // what the log could not take is in the shared files only, until the next open
    last = result == Errc::kOk;
    if (last) result = table_error;
  }
  durable_.reset();
  if (lines_ != nullptr) lines_->close(last);
  lines_.reset();
  memory_->close(last);
  return result;
}

// A durable domain's are in the log; its last participant syncs them. What has been unmapped since
// counts, too; and what others have left is brought home by the last one.
Errc DomainImpl::sync_data_files(bool is_last) noexcept {
  Errc result = Errc::kOk;
  for (std::uint32_t i = 0; durable_ == nullptr && i < storage::kSegmentsMax; ++i) {
    page::SegmentMemory &segment = memory_->segment(i);
    if (!segment.is_open.load(std::memory_order_acquire) || !(is_last || ever_mapped_.test(i)))
      continue;
    if (const Errc error = segment.home.sync(); error != Errc::kOk) result = error;
  }
  return result;
}

Errc DomainImpl::recover(const std::string &folder, const RecoverOptions &options,
                         RecoveryInfo *info) {
  struct stat control {};
  if (stat(folder.c_str(), &control) != 0 && errno == ENOENT)
    return fail(Errc::kNotADomain, folder + ": no such folder");
  if (lstat((folder + "/tmh.control").c_str(), &control) != 0) {
    if (errno != ENOENT && errno != ENOTDIR)
      return platform::fail_errno(Errc::kIo, folder + "/tmh.control");
    if (errno == ENOENT) TMH_TRY(storage::refuse_remains(folder));
    return fail(Errc::kNotADomain, folder + " holds no tmh.control");
  }
  std::string resolved;
  TMH_TRY(resolve_folder(folder, &resolved));
  TMH_TRY(page::DomainMemory::check_owner(resolved));
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(resolved + "/tmh.lock"));
  // A volatile one is left as it is: opened and not closed, it would look as if everybody in it had
  // died.
  bool is_durable = false;
  TMH_TRY(page::DomainMemory::read_durable(resolved, &is_durable));
  if (!is_durable) return fail(Errc::kNotDurable, resolved);
  const bool was_closed = is_closed(resolved);
  page::DomainMemory memory;
  bool fresh = false;
  TMH_TRY(memory.open(resolved, kAddressBase, 0, &fresh));
  if (!fresh) return fail(Errc::kDomainInUse, resolved + memory.who_has_it_open());
  DurableDomain durable(memory, DomainOptions{}, GroupCommit{});
  if (const Errc error = durable.recover(options); error != Errc::kOk) {
    const std::string why = platform::failure_detail();
    if (was_closed) memory.remove_rebuildable_files();
    return fail(error, why);
  }
  *info = durable.recovery();
  memory.close(true);
  return Errc::kOk;
}

void DomainImpl::destroy(DomainImpl *domain) noexcept {
  if (platform::fork_generation() == domain->fork_generation_) {
    delete domain;
    return;
  }
  // A forked child: mappings and slot are the parent's, and any container may be half changed by a
  // thread that the child does not have.
  static constinit std::atomic<DomainImpl *> newest{nullptr};
  domain->left_before_ = newest.exchange(domain, std::memory_order_relaxed);
}

DomainImpl::~DomainImpl() {
  if (!open_.load(std::memory_order_acquire)) return;
  if (runs_here()) {  // the last handle went inside an instance, e.g. by an exception
    (void)abort();
    run_actions(false);  // or the thread's next instance would
  }
  // what the housekeeper uses goes before it
  if (close() != Errc::kOk && durable_ != nullptr) durable_->stop();
}

Counters DomainImpl::counters() const {
  Counters out;
  const page::DomainState &state = memory_->state();
  for (std::uint32_t i = 0; i < memory_->participants_high(); ++i) {
    const storage::Participant &slot = memory_->participant(i);
    storage::add_counts([&slot](storage::Count which) { return slot.count(which); }, &out);
  }
  if (lines_ != nullptr) lines_->count_in(&out);
  out.participants_reaped = state.reaped;
  if (const storage::LogState *log = memory_->log_state(); log != nullptr) {
    // pairs with LogWriter::publish()
    const std::uint64_t flushes = log->flushes.load(std::memory_order_acquire);
    const storage::LogTotals &totals = log->totals[flushes & 1];
    out.log_bytes = totals.bytes.load(std::memory_order_relaxed);
    out.log_flushes = flushes - totals.empty_flushes.load(std::memory_order_relaxed);
    out.log_commits = totals.commits.load(std::memory_order_relaxed);
    out.checkpoints = log->checkpoints.load(std::memory_order_relaxed);
    out.log_files_made = log->files_made.load(std::memory_order_relaxed);
    out.log_handovers = log->handovers.load(std::memory_order_relaxed);
  }
  out.recalls = state.recalls;  // racy, as every total here
  out.releases = state.releases;
  out.versions_live = memory_->versions_live();
  out.versions_bytes = out.versions_live * (kPageBytes + sizeof(page::VersionHead));
  return out;
}

std::vector<LatencySeries> DomainImpl::latencies() const {
  std::vector<std::uint64_t> incarnations;
  for (std::uint32_t i = 0; i < memory_->participants_high(); ++i) {
    const storage::Participant &record = memory_->participant(i);
    const bool is_here = record.state.load(std::memory_order_acquire) != 0;
    incarnations.push_back(is_here ? record.incarnation.load(std::memory_order_relaxed) : 0);
  }
  return latency_table_->read(incarnations);
}

std::vector<ParticipantInfo> DomainImpl::participants() const {
  using storage::Count;
  std::vector<ParticipantInfo> all;
  const std::uint64_t now = platform::coarse_ns();
  const std::uint64_t clock = memory_->state().clock.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < memory_->participants_high(); ++i) {
    const storage::Participant &record = memory_->participant(i);
    if (record.state.load(std::memory_order_acquire) == 0) continue;
    ParticipantInfo info;
    info.slot = i;
    info.pid = record.pid;
    info.name = record.name;
    info.snapshot = record.pin.load(std::memory_order_relaxed);
    info.active = info.snapshot != storage::kNoPin;
    info.query = record.is_query.load(std::memory_order_relaxed) != 0;
    if (!info.active) info.snapshot = 0;
    const std::uint64_t begin = record.begin_ns.load(std::memory_order_relaxed);
    if (info.active) info.age_us = now > begin ? (now - begin) / 1000 : 0;
    if (info.active && info.snapshot < clock) info.versions_held = memory_->versions_live();
    info.counters.begins = record.own_count(Count::kBegins);
    info.counters.commits = record.own_count(Count::kCommits);
    info.counters.queries = record.own_count(Count::kQueries);
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace tmh::detail
