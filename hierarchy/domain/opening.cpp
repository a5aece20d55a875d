// hierarchy/domain/opening.cpp -- opening and closing a domain, and the registry of domains open in
// this process.
#include "hierarchy/domain/opening.h"
#include "hierarchy/domain/conflict_choice.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/durability/durability.h"
#include "hierarchy/threads/threads.h"
#include "levels/line/choice.h"
#include "observe/steps.h"
#include "observe/trace.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process_object.h"
#include "platform/protection_keys.h"
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
constexpr std::uint64_t kAddressBase =
    // 32 TiB: far below mmap's and the program's own places, above ASan's shadow
    0x2000'0000'0000ull;
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

bool is_closed(const platform::FolderLock::Held &lock, const std::string &folder) {
  TMH_ASSERT(lock.is_valid());
  return !page::SharedFiles::has_rebuildable_files(folder) &&
         !platform::has_entry(folder + "/tmh.line.state");
}

}  // namespace

Errc Opening::open(const std::string &folder, const DomainOptions &options,
                   std::shared_ptr<DomainImpl> *out) {
  TMH_ASSERT(out != nullptr);
  std::string resolved;
  TMH_TRY(resolve_folder(folder, &resolved));
  Registry &registry = platform::ProcessObject<Registry>::here();
  const std::scoped_lock guard(registry.mutex);
  for (std::size_t i = 0; i < registry.domains.size(); ++i) {
    const std::shared_ptr<DomainImpl> known = registry.domains[i].lock();
    if (known == nullptr || known->folder_ != resolved) continue;
    const auto open = known->keep_open();
    if (known->usable() != Errc::kOk) continue;
    TMH_TRY(known->parts_.memory->in_place().check());
    TMH_TRY(share(*known, options));
    *out = known;
    return Errc::kOk;
  }
  auto made = std::shared_ptr<DomainImpl>(new DomainImpl(resolved, options), destroy);
  TMH_TRY(Opening(*made).attach());
  std::erase_if(registry.domains, [](const auto &entry) { return entry.expired(); });
  registry.domains.push_back(made);
  *out = std::move(made);
  return Errc::kOk;
}

void Opening::destroy(DomainImpl *domain) noexcept {
  TMH_ASSERT(domain != nullptr);
  const OpenState &state = domain->threads_.open;
  if (!state.is_of_this_process()) {
    // A forked child: mappings and slot are the parent's, and any container may be half changed by
    // a thread that the child does not have.
    static constinit std::atomic<DomainImpl *> newest{nullptr};
    domain->left_before_ = newest.exchange(domain, std::memory_order_relaxed);
    return;
  }
  if (state.is_open()) {
    // The last handle went inside an instance, e.g. by an exception.
    if (domain->threads_.runners.runs_here()) abort_open_instance(LeftBy::kLastHandle);
    // what the housekeeper uses goes before it
    if (close(*domain) != Errc::kOk && domain->parts_.durable != nullptr)
      domain->parts_.durable->stop();
  }
  delete domain;
}

// A second open() in this process. REQUIRES that the domain stays open.
Errc Opening::share(DomainImpl &domain, const DomainOptions &options) {
  TMH_ASSERT(domain.parts_.memory != nullptr && domain.parts_.engine != nullptr);
  hierarchy::Settings present = domain.parts_.settings;
  present.policy = domain.threads_.runners.policy();
  TMH_TRY(hierarchy::check_agreement(domain.folder_, present,
                                     domain.parts_.engine->tracking().tracking, domain.options_,
                                     options));
  if (options.page_checksums == PageChecksums{}) return Errc::kOk;
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(storage::lock_path(domain.folder_)));
  return use_page_checksums(folder_lock.held(), domain, options.page_checksums, options);
}

Errc Opening::use_page_checksums(const platform::FolderLock::Held &lock, DomainImpl &domain,
                                 PageChecksums wanted, const DomainOptions &options) {
  TMH_ASSERT(lock.is_valid());
  if (domain.parts_.durable != nullptr)
    return domain.parts_.durable->use_page_checksums(lock, wanted);
  // The variable is of all domains that the program opens.
  if (options.page_checksums != PageChecksums::kOn) return Errc::kOk;
  return fail(Errc::kNotDurable, domain.folder_ + ": page checksums are of durable domains");
}

Errc Opening::attach() {
  TMH_ASSERT(domain_.parts_.memory == nullptr && !domain_.threads_.open.is_open());
  if (!observe::crash_at_environment())
    return fail(Errc::kBadArgument, "TMH_CRASH_AT names no step");
  TMH_TRY(page::SharedFiles::check_owner(domain_.folder_));
  hierarchy::Settings &settings = domain_.parts_.settings;
  TMH_TRY(hierarchy::read_durability(domain_.options_, std::getenv, &settings.durability));
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(storage::lock_path(domain_.folder_)));
  const platform::FolderLock::Held &lock = folder_lock.held();
  const bool was_closed = is_closed(lock, domain_.folder_);
  domain_.parts_.memory = std::make_unique<page::SharedFiles>();
  Errc error{};
  try {
    error = attach_locked(lock);
  } catch (...) {  // no memory
    remove_made(lock, was_closed);
    throw;
  }
  if (error == Errc::kOk) return error;
  const std::string why = platform::failure_detail();
  remove_made(lock, was_closed);
  return fail(error, why);
}

// What a refused open has made: durable or not, and how long its log files are, a domain keeps for
// good; and a closed one with shared memory would look as if all in it had died.
void Opening::remove_made(const platform::FolderLock::Held &lock, bool was_closed) {
  TMH_ASSERT(lock.is_valid());
  page::SharedFiles &memory = *domain_.parts_.memory;
  if (!memory.is_new() && !(was_closed && memory.has_begun())) return;
  if (memory.has_begun()) memory.in_place().forget(false);  // the next open misses nothing
  if (memory.is_new() && domain_.parts_.durable != nullptr &&
      domain_.parts_.durable->remove_new(lock) != Errc::kOk)
    return;
  remove_line_files(lock, domain_.folder_);
  if (memory.is_new())
    memory.remove_new(lock);
  else
    memory.remove_rebuildable_files(lock);
}

namespace {

// This participant's slot, given back where the open is refused. Also when there is no memory:
// while this process lives no other one would be the first, which makes sure of what the dead have
// left.
class Slot {
 public:
  explicit Slot(storage::Participant &taken) noexcept : to_give_back_(&taken) {}
  Slot(const Slot &) = delete;
  Slot &operator=(const Slot &) = delete;
  ~Slot() {
    if (to_give_back_ != nullptr) to_give_back_->state.store(0, std::memory_order_release);
  }
  void keep() noexcept { to_give_back_ = nullptr; }

 private:
  storage::Participant *to_give_back_;
};

}  // namespace

Errc Opening::attach_locked(const platform::FolderLock::Held &lock) {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(domain_.parts_.memory != nullptr && domain_.parts_.engine == nullptr);
  DomainImpl &domain = domain_;
  hierarchy::Settings &settings = domain.parts_.settings;
  const std::uint32_t durability_if_new =
      settings.durability > Durability::kNone ? static_cast<std::uint32_t>(settings.durability) : 0;
  TMH_TRY(
      domain.parts_.memory->open(lock, domain.folder_, kAddressBase, durability_if_new, &fresh_));
  // Before recovery, which makes a clean domain one that has been opened.
  TMH_TRY(hierarchy::read_settings(domain.options_, std::getenv, &settings));
  domain.threads_.runners.use_policy(settings.policy);
  domain.is_limited_ = settings.is_limited();
  domain.slow_readers_.use(
      *domain.parts_.memory, domain.options_, settings.slow_reader,
      std::shared_ptr<SlowReaders>(domain.shared_from_this(), &domain.slow_readers_));
  TMH_TRY(take_key());
  TMH_TRY(settle());
  TMH_TRY(open_durable(lock));
  TMH_TRY(use_page_checksums(lock, domain, settings.page_checksums, domain.options_));
  TMH_TRY(store_settings(lock));
  const std::string name = domain.options_.name.empty() ? program_name() : domain.options_.name;
  TMH_TRY(domain.parts_.memory->attach_slot(lock, name, &domain.slot_));
  TMH_ASSERT(domain.slot_ < storage::kParticipantsMax);
  Slot slot(domain.parts_.memory->participant(domain.slot_));
  observe::step(observe::Step::kAttachSlotTaken);
  make_engine();
  TMH_TRY(observe::open_trace(domain.folder_, domain.slot_, name));
  TMH_TRY(open_latency(lock));
  TMH_TRY(open_lines(lock));
  TMH_TRY(open_page_locks(lock));
  TMH_TRY(domain.parts_.engine->start(settings.tracking_to_use(), fresh_));
  if (settings.records_skew) TMH_TRY(domain.parts_.engine->record_skew(domain.slot_));
  TMH_TRY(start_durable());
  tell_views();
  hold_history();
  slot.keep();
  // With exact tracking every instance changes page tables and interrupts the other cores: threads
  // then slow each other down (bench/threads). A recording is to show what overlaps.
  const Tracking chosen = domain.parts_.engine->tracking().tracking;
  const bool keeps_pages = chosen == Tracking::kKernelHot || chosen == Tracking::kSignalHot;
  const bool may_have_views =
      keeps_pages || settings.records_skew || settings.thread_views != ThreadViewUse::kAuto;
  // One locker per process: its instances of level 2 run one after the other.
  if (!may_have_views || settings.detection == Detection::kLocking)
    settings.thread_views = ThreadViewUse::kNever;
  domain.threads_.open.say_open();
  return Errc::kOk;
}

// Before the engine is made, which has the key from the memory.
Errc Opening::take_key() {
  Stray &stray = domain_.parts_.settings.stray;
  if (stray == Stray::kAllow) return Errc::kOk;
  platform::DomainKey key = platform::DomainKey::take();
  const bool has_key = key.number() != platform::kNoKey;
  if (!has_key && stray == Stray::kFault)
    return fail(Errc::kTrackingUnavailable,
                "TMH_STRAY=fault: " + platform::key_refusal() +
                    "; TMH_TRACKING=signal finds stray accesses without keys");
  stray = has_key ? Stray::kFault : Stray::kAllow;
  domain_.parts_.memory->use_view_key(std::move(key));
  return Errc::kOk;
}

Errc Opening::settle() {
  storage::ControlHeaderV1 &header = domain_.parts_.memory->control().header;
  const std::uint32_t durability = header.durability;
  hierarchy::PresentDomain present;
  present.is_fresh = fresh_;
  present.durability = durability == 0 ? Durability::kNone : static_cast<Durability>(durability);
  present.detection =
      static_cast<Detection>(std::atomic_ref(header.detection).load(std::memory_order_relaxed));
  present.levels = static_cast<Levels>(domain_.parts_.memory->state().levels);
  // The environment asks for all domains of a process; hybrid ones hold none.
  const Levels levels = fresh_ ? domain_.parts_.settings.levels : present.levels;
  if (levels == Levels::kHybrid && !domain_.options_.history.is_set())
    domain_.parts_.settings.history = {};
  TMH_TRY(hierarchy::settle(present, &domain_.parts_.settings));
  // The environment may name a policy for all domains of a process, whatever they are.
  if (!domain_.options_.policies.conflict.empty())
    TMH_TRY(hierarchy::check_conflict(domain_.parts_.settings.policy,
                                      domain_.parts_.settings.levels,
                                      domain_.parts_.settings.detection));
  // A wrong choice is refused also where level 1 does not run; what RTM can do is looked at only
  // when it is demanded.
  if (domain_.parts_.settings.line == LineChoice::kAuto) return Errc::kOk;
  LineChoice chosen{};
  std::string reason;
  return line::choose_line(domain_.parts_.settings.line, &chosen, &reason);
}

// Of a fresh domain.
Errc Opening::store_settings(const platform::FolderLock::Held &lock) {
  TMH_ASSERT(lock.is_valid());
  if (!fresh_) return Errc::kOk;
  const hierarchy::Settings &settings = domain_.parts_.settings;
  TMH_ASSERT(settings.detection != Detection{} && settings.levels != Levels{});
  page::SharedFiles &memory = *domain_.parts_.memory;
  std::atomic_ref(memory.control().header.detection)
      .store(static_cast<std::uint32_t>(settings.detection), std::memory_order_relaxed);
  memory.state().levels = static_cast<std::uint64_t>(settings.levels);
  // Level 1 stores to home before its record is in the log: so home is not the data file
  // (docs/design.md D2).
  const bool has_durable_lines =
      settings.levels == Levels::kHybrid && settings.durability != Durability::kNone;
  return has_durable_lines ? memory.separate_homes(lock) : Errc::kOk;
}

Errc Opening::open_durable(const platform::FolderLock::Held &lock) {
  TMH_ASSERT(lock.is_valid());
  DomainImpl &domain = domain_;
  if (domain.parts_.settings.durability == Durability::kNone) return Errc::kOk;
  TMH_ASSERT(domain.parts_.durable == nullptr);
  domain.parts_.durable = std::make_unique<DurableDomain>(*domain.parts_.memory, domain.options_,
                                                          domain.parts_.settings.group_commit,
                                                          domain.parts_.settings.early_release);
  if (!fresh_) return domain.parts_.durable->join();
  RecoverOptions how;
  how.progress = domain.options_.recovery_progress;
  return domain.parts_.durable->recover(lock, how);
}

void Opening::make_engine() {
  TMH_ASSERT(domain_.parts_.engine == nullptr);
  DomainImpl &domain = domain_;
  domain.parts_.engine = std::make_unique<page::Engine>(*domain.parts_.memory, domain.slot_,
                                                        domain.parts_.settings.detection);
  domain.threads_.runners.process().engine = domain.parts_.engine.get();
  domain.threads_.runners.process().slot = domain.slot_;
  if (domain.parts_.durable == nullptr) return;
  domain.parts_.durable->attach(domain.slot_);
  domain.parts_.engine->use_log(&domain.parts_.durable->log(),
                                !domain.parts_.durable->early_release());
  domain.threads_.runners.process().log = &domain.parts_.durable->log();
}

Errc Opening::open_latency(const platform::FolderLock::Held &lock) {
  TMH_ASSERT(lock.is_valid());
  DomainImpl &domain = domain_;
  if (domain.parts_.settings.latency == Latency::kOff) return Errc::kOk;
  const std::uint64_t incarnation =
      domain.parts_.memory->participant(domain.slot_).incarnation.load(std::memory_order_relaxed);
  TMH_TRY(domain.latency_table_->open(domain.folder_, domain.slot_, incarnation, fresh_));
  domain.no_site_.use(domain.latency_table_.get(), 0);
  if (domain.parts_.durable != nullptr)
    domain.parts_.durable->log().writer().time_writes(&domain.no_site_);
  return Errc::kOk;
}

Errc Opening::open_lines(const platform::FolderLock::Held &lock) {
  TMH_ASSERT(lock.is_valid());
  DomainImpl &domain = domain_;
  if (fresh_)  // also when it is opened without level 1 now
    TMH_TRY(salvage_lines(lock, *domain.parts_.memory));
  if (domain.parts_.settings.levels != Levels::kHybrid) return Errc::kOk;
  TMH_ASSERT(domain.parts_.lines == nullptr && domain.parts_.engine != nullptr);
  LineChoice chosen{};
  std::string reason;
  TMH_TRY(line::choose_line(domain.parts_.settings.line, &chosen, &reason));
  // Plain stores leave no redo records.
  const bool with_hardware = chosen == LineChoice::kRtm && domain.parts_.durable == nullptr;
  domain.parts_.lines = std::make_unique<LineDomain>(*domain.parts_.memory, domain.slot_,
                                                     domain.parts_.settings.cross, with_hardware);
  TMH_TRY(domain.parts_.lines->open(lock, domain.folder_));
  domain.parts_.engine->use_recaller(&domain.parts_.lines->directory());
  domain.parts_.lines->use_engine(domain.parts_.engine.get());
  if (DurableDomain *const durable = domain.parts_.durable.get(); durable != nullptr)
    domain.parts_.lines->use_log(&durable->log(), &durable->doorbell());
  return Errc::kOk;
}

Errc Opening::open_page_locks(const platform::FolderLock::Held &lock) {
  TMH_ASSERT(lock.is_valid());
  DomainImpl &domain = domain_;
  if (domain.parts_.settings.detection != Detection::kLocking) return Errc::kOk;
  TMH_TRY(domain.open_locks(lock, lock::ModeSet::hierarchical()));
  domain.parts_.page_locks = std::make_unique<PageLocks>(*domain.parts_.locks, domain.slot_);
  domain.parts_.engine->use_locker(domain.parts_.page_locks.get());
  return Errc::kOk;
}

// What threads' own views are made of.
void Opening::tell_views() noexcept {
  DomainImpl &domain = domain_;
  const DomainParts &parts = domain.parts_;
  LineDomain *const lines = parts.lines.get();
  domain.threads_.runners.views().use(
      {.memory = parts.memory.get(),
       .slot = domain.slot_,
       .segments = &domain.segments_.mapped(),
       .detection = parts.settings.detection,
       .tracking = parts.settings.tracking_to_use(),
       .records_skew = parts.settings.records_skew,
       .group_commit = parts.settings.group_commit,
       .reads_durable_only = parts.durable != nullptr && !parts.durable->early_release(),
       .log_times = &domain.no_site_,
       .gatherer = lines == nullptr ? nullptr : lines->log(),
       .lines = lines == nullptr ? nullptr : &lines->memory()});
}

void Opening::hold_history() noexcept {
  const History &history = domain_.parts_.settings.history;
  if (!history.is_set()) return;
  TMH_ASSERT(domain_.parts_.settings.levels != Levels::kHybrid);
  page::Engine &engine = *domain_.parts_.engine;
  engine.ours().tree.past().want(
      engine.lock_domain(),
      static_cast<std::uint64_t>(std::chrono::nanoseconds(history.time).count()),
      history.bytes / (kPageBytes + sizeof(page::VersionHead)));
}

Errc Opening::start_durable() {
  if (domain_.parts_.durable == nullptr) return Errc::kOk;
  const Errc error = domain_.parts_.durable->start();
  if (error == Errc::kOk) return error;
  // What the engine's start has sent home was in slots that are reserved now.
  const std::string why = platform::failure_detail();
  domain_.parts_.engine->detach();
  return fail(error, why);
}

Errc Opening::close(DomainImpl &domain) noexcept {
  TMH_TRY(domain.usable());
  if (domain.runs_at_any_level(Need::kClose))
    return fail(Errc::kInstanceRunning, "close inside an instance");
  const LineUsers::Barred nobody_at_lines(domain.threads_.line_users);
  const std::scoped_lock process(domain.threads_.runners.process().mutex);
  const ThreadViews::Stopped stopped(domain.threads_.runners.views());
  const auto guard = domain.segments_.lock();
  const std::unique_lock nobody_else = domain.threads_.open.exclude_users();
  TMH_TRY(domain.usable());
  TMH_TRY(domain.line_mode_.leave());
  TMH_ASSERT(domain.parts_.engine != nullptr);
  Errc result = Errc::kOk;
  if (domain.parts_.durable != nullptr) {
    domain.parts_.durable->stop();
    result = domain.parts_.durable->flush();  // versions go home only when they are durable
    if (result == Errc::kFileReplaced) result = Errc::kOk;  // said below, once all is looked at
  }
  const page::FilesInPlace &files = domain.parts_.memory->in_place();
  platform::FolderLock folder_lock;
  if (!files.is_folder_gone()) {
    Errc error = files.check_path();  // before a lock is made where another folder is by now
    if (error == Errc::kOk) error = folder_lock.acquire(storage::lock_path(domain.folder_));
    if (error != Errc::kOk) {
      const std::string why = platform::failure_detail();
      if (domain.parts_.durable != nullptr) (void)domain.parts_.durable->start();  // it stays open
      return fail(error, why);
    }
  }
  domain.threads_.open.say_closed();
  domain.threads_.line_users.shut();
  domain.wake_sleepers();
  // Level 1's contexts before the slot: who repairs takes a context of a free slot for a dead
  // one's, and gives it to the next thread.
  if (domain.parts_.lines != nullptr) domain.parts_.lines->detach();
  domain.threads_.runners.views().detach();
  domain.latency_table_->leave();
  domain.parts_.engine->detach();
  if (domain.parts_.page_locks != nullptr) domain.parts_.page_locks->end();
  domain.segments_.forget_all();
  if (domain.parts_.lines != nullptr) domain.parts_.lines->leave_log();
  domain.parts_.engine.reset();
  domain.threads_.runners.process().engine = nullptr;
  domain.threads_.runners.process().log = nullptr;
  // The last one out: nothing in the shared files is needed any more, unless a segment could not be
  // reached.
  const bool is_home = domain.parts_.memory->versions_live() == 0 &&
                       (domain.parts_.lines == nullptr || domain.parts_.durable != nullptr ||
                        domain.parts_.lines->is_settled());
  // Shared memory that was taken away is not needed when no other participant is alive: no process
  // could join.
  const Errc displaced = files.check();
  const std::string what = displaced == Errc::kOk ? std::string() : platform::failure_detail();
  bool last = !domain.parts_.memory->anyone_alive() && is_home &&
              files.check_files(page::FilesInPlace::Files::kDurable) == Errc::kOk &&
              files.check_path() == Errc::kOk;
  if (const Errc error = sync_data_files(domain, last); error != Errc::kOk) result = error;
  if (last && domain.parts_.durable != nullptr) {
    Errc table_error = Errc::kOk;
    if (result == Errc::kOk)
      result = domain.parts_.durable->close_clean(folder_lock.held(), &table_error);
    // what the log could not take is in the shared files only, until the next open
    last = result == Errc::kOk;
    if (last) result = table_error;
  }
  domain.parts_.durable.reset();
  domain.parts_.page_locks.reset();
  domain.parts_.locks.reset();
  if (last) files.forget(false);  // the next open misses none of what goes now
  if (domain.parts_.lines != nullptr) {
    domain.parts_.lines->close();
    if (last) remove_line_files(folder_lock.held(), domain.folder_);
  }
  domain.parts_.lines.reset();
  if (last) domain.parts_.memory->remove_rebuildable_files(folder_lock.held());
  domain.parts_.memory->close();
  if (displaced == Errc::kOk || result != Errc::kOk) return result;
  return fail(displaced, what + (last ? "; what was committed is in the data files" : ""));
}

// A durable domain's are in the log; its last participant syncs them. What has been unmapped since
// counts, too; and what others have left is brought home by the last one.
Errc Opening::sync_data_files(DomainImpl &domain, bool is_last) noexcept {
  Errc result = Errc::kOk;
  for (std::uint32_t i = 0; domain.parts_.durable == nullptr && i < storage::kSegmentsMax; ++i) {
    page::SegmentMemory &segment = domain.parts_.memory->segment(i);
    if (!segment.is_open.load(std::memory_order_acquire) ||
        !(is_last || domain.segments_.was_mapped(i)))
      continue;
    if (const Errc error = segment.home.sync(); error != Errc::kOk) result = error;
  }
  return result;
}

Errc Opening::recover(const std::string &folder, const RecoverOptions &options,
                      RecoveryInfo *info) {
  TMH_ASSERT(info != nullptr);
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
  TMH_TRY(page::SharedFiles::check_owner(resolved));
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(storage::lock_path(resolved)));
  const platform::FolderLock::Held &lock = folder_lock.held();
  // A volatile one is left as it is: opened and not closed, it would look as if everybody in it had
  // died.
  bool is_durable = false;
  TMH_TRY(page::SharedFiles::read_durable(resolved, &is_durable));
  if (options.accept_files) {
    bool keeps_shared = false;
    TMH_TRY(page::SharedFiles::accept_files(lock, resolved, &keeps_shared));
    if (!keeps_shared) remove_line_files(lock, resolved);
    if (!is_durable) return Errc::kOk;
  }
  if (!is_durable) return fail(Errc::kNotDurable, resolved);
  const bool was_closed = is_closed(lock, resolved);
  page::SharedFiles memory;
  bool fresh = false;
  TMH_TRY(memory.open(lock, resolved, kAddressBase, 0, &fresh));
  if (!fresh) return fail(Errc::kDomainInUse, resolved + memory.who_has_it_open());
  DurableDomain durable(memory, DomainOptions{}, GroupCommit{}, EarlyRelease::kOn);
  if (const Errc error = durable.recover(lock, options); error != Errc::kOk) {
    const std::string why = platform::failure_detail();
    if (was_closed) memory.remove_rebuildable_files(lock);
    return fail(error, why);
  }
  *info = durable.recovery();
  memory.remove_rebuildable_files(lock);
  memory.close();
  return Errc::kOk;
}

}  // namespace tmh::detail
