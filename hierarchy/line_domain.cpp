// hierarchy/line_domain.cpp -- asking level 2 for a page, by cross-level policy; the threads of
// level 1.
#include "hierarchy/line_domain.h"

#include <immintrin.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "hierarchy/end_of_thread.h"
#include "hierarchy/policies.h"
#include "levels/line/recovery.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/process_object.h"
#include "platform/thread_object.h"
#include "platform/try.h"

namespace tmh::detail {

using hierarchy::Directory;
using hierarchy::Release;
using line::Insists;
using line::UpperAnswer;
using storage::PageId;

namespace {
constexpr long kPauseNsMin = 5'000, kPauseNsMax = 100'000;
// as the engine's: docs/design.md 8 allows a second
constexpr std::uint64_t kLookPeriodNs = 100'000'000;
// 4 MiB of pages: a transaction that touches more exceeds every level-1 and level-2 cache, hence
// RTM.
constexpr std::size_t kGivenMax = 1024;
// a thread that got no context looks again after this time
constexpr std::uint64_t kRetryNs = 100'000'000;

std::atomic<std::uint64_t> serials{0};
// By serial: a thread that ends asks whether its domain is still there. Never gone: the last domain
// may belong to a static object that was there before the first one.
struct Living {
  std::mutex mutex;
  std::map<std::uint64_t, LineDomain *> domains;
};
Living &living() { return platform::ProcessObject<Living>::here(); }

struct ThreadsHere {
  std::vector<ThreadOf> all;
  std::uint32_t fork_generation = platform::fork_generation();
  ~ThreadsHere() {
    if (fork_generation != platform::fork_generation()) return;
    abort_open_instance();
    current().line_thread = {0, nullptr};
    if (all.empty()) return;
    const std::scoped_lock guard(living().mutex);
    for (const ThreadOf &entry : all) {
      const auto found = living().domains.find(entry.serial);
      if (found != living().domains.end()) found->second->drop(entry.thread);
    }
  }
};
// Destructors of the thread's objects may run instances: they find its contexts.
ThreadsHere &threads_here() { return platform::ThreadObject<ThreadsHere>::here(); }
}  // namespace

LineDomain::LineDomain(page::DomainMemory &memory, std::uint32_t slot, CrossPolicy cross,
                       bool with_hardware)
    : memory_(memory),
      slot_(slot),
      cross_(cross),
      directory_(memory, lines_, slot),
      serial_(++serials) {
  if (with_hardware) {
    hardware_ = std::make_unique<hierarchy::HardwareLines>(memory, directory_.hardware());
    fresh_.reserve(kGivenMax);  // give_to_hardware() may not fail
    in_use_.reserve(kGivenMax);
  }
  const std::scoped_lock guard(living().mutex);
  living().domains.emplace(serial_, this);
}

LineDomain::~LineDomain() {
  const std::scoped_lock guard(living().mutex);
  living().domains.erase(serial_);
}

Errc LineDomain::salvage(page::DomainMemory &memory) noexcept {
  if (access((memory.folder() + "/tmh.line.state").c_str(), F_OK) != 0) return Errc::kOk;
  line::LineMemory lines;
  bool found = false;
  TMH_TRY(lines.open(memory.folder(), &found));
  // Of files that were here before these. The file says so itself: whoever found that out may have
  // died.
  if (!memory.is_of_found_life(lines.state().domain_id, lines.state().life)) found = false;
  for (std::uint32_t i = 0; found && i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = memory.control().segments[i];
    if (!storage::is_used(record)) continue;
    const Errc error = lines.add_segment(
        {i, nullptr, record.size_bytes, record.max_bytes, &memory.segment(i).home});
    if (error != Errc::kOk) return error;
  }
  // what names no segment of the domain is damaged: nobody's
  if (found) (void)line::recover_all_contexts(lines);
  lines.close(true);
  hierarchy::Directory::remove_files(memory.folder());
  return Errc::kOk;
}

Errc LineDomain::open(const std::string &folder) noexcept {
  bool found = false;
  TMH_TRY(lines_.open(folder, &found));
  const storage::ControlHeaderV1 &header = memory_.control().header;
  std::memcpy(lines_.state().domain_id, header.domain_id, sizeof lines_.state().domain_id);
  lines_.state().life = storage::life_of(header);
  if (hardware_ != nullptr) hardware_->open();
  return directory_.open(folder);
}

void LineDomain::use_log(page::DurableLog *log) {
  log_ = log;
  line_log_ = std::make_unique<LineLog>(memory_, lines_, *log, this);
  log->use_lower(line_log_.get());
}

void LineDomain::leave_log() noexcept {
  if (line_log_ != nullptr) line_log_->forget_upper();
  engine_ = nullptr;
}

Errc LineDomain::add_segment(std::uint32_t number, std::byte *view,
                             std::uint64_t max_bytes) noexcept {
  // All of the reserve is usable: beyond the segment's size loads and stores meet SIGBUS, as plain
  // ones do.
  TMH_TRY(directory_.open_segment(number, max_bytes));
  TMH_TRY(
      lines_.add_segment({number, view, max_bytes, max_bytes, &memory_.segment(number).home,
                          &directory_.records_file(number), hierarchy::Directory::kRecordBytes}));
  if (hardware_ == nullptr) return Errc::kOk;
  const Errc error = hardware_->add_segment(number, view, max_bytes);
  if (error != Errc::kOk) forget_lines(number);
  return error;
}

void LineDomain::forget_lines(std::uint32_t number) noexcept {
  // Another thread may be recovering a dead one's lines there.
  const page::DomainLock::Held held = engine_->lock_domain();
  lines_.remove_segment(number);
}

void LineDomain::remove_segment(std::uint32_t number) noexcept {
  std::erase_if(in_use_, [number](PageId page) { return storage::segment_number(page) == number; });
  if (hardware_ != nullptr) hardware_->remove_segment(number);
  forget_lines(number);
}

void LineDomain::detach() noexcept {
  const std::scoped_lock guard(threads_mutex_);
  threads_.clear();
}

bool LineDomain::is_settled() const noexcept {
  for (std::uint32_t i = 0; i < lines_.contexts_high(); ++i) {
    // acquire: pairs with recovery and give_back()
    if (lines_.context(i).owner.load(std::memory_order_acquire) != line::Owner{}) return false;
  }
  return true;
}

void LineDomain::close(bool last) noexcept {
  hardware_.reset();
  lines_.close(last);
  if (last) hierarchy::Directory::remove_files(memory_.folder());
}

void LineDomain::drop(line::SoftwareThread *thread) noexcept {
  const std::scoped_lock guard(threads_mutex_);
  std::erase_if(threads_, [thread](const auto &known) { return known.get() == thread; });
}

line::SoftwareThread *LineDomain::find_thread(Errc *error) noexcept {
  try {
    return make_thread(error);
  } catch (const std::bad_alloc &) {
    *error = platform::fail(Errc::kOutOfMemory, "no memory for a thread at level 1");
    return nullptr;
  }
}

line::SoftwareThread *LineDomain::make_thread(Errc *error) {
  ThreadsHere &here = threads_here();
  // a child inherits its parent's threads' contexts: not its own
  if (here.fork_generation != platform::fork_generation()) {
    here.all.clear();
    here.fork_generation = platform::fork_generation();
  }
  for (const ThreadOf &entry : here.all) {
    if (entry.serial != serial_) continue;
    current().line_thread = entry;
    return entry.thread;
  }
  if (current().refused.serial == serial_ && platform::coarse_ns() < current().refused.retry_ns) {
    *error = platform::fail(current().refused.why, "no context of level 1 was free");
    return nullptr;
  }
  auto made = std::make_unique<line::SoftwareThread>(lines_, *this, line_log_.get());
  here.all.reserve(here.all.size() + 1);
  *error = attach(*made);
  if (*error != Errc::kOk) {
    current().refused = {serial_, platform::coarse_ns() + kRetryNs, *error};
    return nullptr;
  }
  const ThreadOf known{serial_, made.get()};
  {
    const std::scoped_lock guard(threads_mutex_);
    threads_.push_back(std::move(made));
  }
  here.all.push_back(known);
  current().line_thread = known;
  return known.thread;
}

// All contexts taken: perhaps by the dead, after whom nobody looks who stays at level 1.
Errc LineDomain::attach(line::SoftwareThread &thread) noexcept {
  const std::uint64_t incarnation =
      memory_.participant(slot_).incarnation.load(std::memory_order_relaxed);
  const Errc error = thread.attach(slot_, incarnation);
  if (error != Errc::kTooManyParticipants) return error;
  engine_->reaper().reap_dead(engine_->lock_domain());
  return thread.attach(slot_, incarnation);
}

void LineDomain::count_in(Counters *out) noexcept {
  lines_.count_in(out);
  directory_.hardware().count_in(out);
}

// Looking whether participants live costs 20 us each: once in a wait, when it has used its budget.
hierarchy::Release LineDomain::try_release(PageId page, bool fail_users, bool look_for_dead,
                                           Directory::User *used_by) noexcept {
  const page::DomainLock::Held held = engine_->lock_domain();
  if (look_for_dead) engine_->reaper().reap_dead(held);
  const Release result = directory_.release(held, page);
  if (result == Release::kRunning || result == Release::kQueried) {
    if (fail_users) directory_.fail_users(held, page);
    *used_by = directory_.used_by(held);
  }
  return result;
}

// abort-lower waits for nobody, so no wait ends with a look after the dead: their pages would be
// busy for ever to a site that stays at level 1.
bool LineDomain::is_look_due() noexcept {
  const std::uint64_t now = platform::coarse_ns();
  std::uint64_t due = next_look_ns_.load(std::memory_order_relaxed);
  return now >= due &&
         next_look_ns_.compare_exchange_strong(due, now + kLookPeriodNs, std::memory_order_relaxed);
}

// How long one who asks goes on.
class LineDomain::Wait {
 public:
  Wait(CrossPolicy cross, Insists insists)
      : backs_off_(cross == CrossPolicy::kWaitForUpper), insists_(insists) {}

  [[nodiscard]] bool is_over(Release answer, const Directory::User &used_by) noexcept {
    const std::uint64_t now = platform::monotonic_ns();
    if (first_ns_ == 0) first_ns_ = now;
    if (since_ns_ == 0 || used_by != used_by_) since_ns_ = now;
    used_by_ = used_by;
    waited_ns_ = now - first_ns_;
    return !hierarchy::waits_for_page(insists_, answer == Release::kRunning, waited_ns_,
                                      now - since_ns_);
  }

  void pause() noexcept {
    const timespec pause{0, pause_ns_};
    nanosleep(&pause, nullptr);
    if (backs_off_ || waited_ns_ >= hierarchy::kPageWaitNs)
      pause_ns_ = std::min(2 * pause_ns_, kPauseNsMax);
  }

 private:
  const bool backs_off_;
  const Insists insists_;
  Directory::User used_by_;
  std::uint64_t first_ns_ = 0, since_ns_ = 0, waited_ns_ = 0;
  long pause_ns_ = kPauseNsMin;
};

// Bounded: whoever uses the page ends, or the budget does; then the asker aborts and its site
//          escalates.
UpperAnswer LineDomain::ask(PageId page, Insists insists) noexcept {
  const bool may_wait = insists != Insists::kNo;
  Wait wait(cross_, insists);
  for (bool look_for_dead = false, is_flushed = false;;) {
    Directory::User used_by;
    const Release answer =
        try_release(page, may_wait && cross_ == CrossPolicy::kAbortUpper, look_for_dead, &used_by);
    if (answer == Release::kReleased) {
      ++current().pages_granted;
      return UpperAnswer::kGranted;
    }
    if (!may_wait) return UpperAnswer::kRefused;
    // Versions stay until they are durable, and nobody may be about to write the log.
    if (answer == Release::kVersions && log_ != nullptr && !is_flushed) {
      is_flushed = true;
      (void)log_->flush(memory_.state().clock.load(std::memory_order_acquire));
      continue;
    }
    if (cross_ == CrossPolicy::kAbortLower) {
      if (look_for_dead || !is_look_due()) return UpperAnswer::kBusy;
      look_for_dead = true;
      continue;
    }
    if (look_for_dead) return UpperAnswer::kRefused;
    // once more, after the dead have been cleaned up
    look_for_dead = wait.is_over(answer, used_by);
    if (!look_for_dead) wait.pause();
  }
}

LineDomain::Given LineDomain::give_to_hardware() noexcept {
  fresh_.clear();
  in_use_.clear();
  page::DomainLock::Held held = engine_->lock_domain();
  engine_->visit_taken(kGivenMax, [&](PageId page) {
    if (directory_.release_to_hardware(held, page) != Release::kReleased)
      in_use_.push_back(page);
    else if (!hardware_->is_open(page))
      fresh_.push_back(page);
  });
  open_ahead(held);
  held.release();
  return {static_cast<std::uint32_t>(fresh_.size()), in_use_.empty()};
}

void LineDomain::give_again() noexcept {
  if (in_use_.empty()) return;
  page::DomainLock::Held held = engine_->lock_domain();
  // what is in use still is found again
  for (const PageId page : in_use_) (void)directory_.release_to_hardware(held, page);
  held.release();
  in_use_.clear();
}

// Finding one page costs an instance of level 2, which recalls all that it touches. So the block of
// 64 KiB around it comes along (level 2 allocates its disk blocks together, too), and where blocks
// follow each other, as in a heap that grows, a run of them, which doubles as long as they do. Only
// pages that nobody has had yet: nobody misses them.
void LineDomain::open_ahead(const page::DomainLock::Held &held) noexcept {
  constexpr std::uint64_t kBlock = 16, kRunMax = 256;  // 0.2 ms under the lock
  const auto number = [](PageId page) { return static_cast<std::uint64_t>(page); };
  std::uint64_t left = kRunMax;  // of all runs together
  for (const PageId page : fresh_) {
    if (left == 0) break;
    const std::uint32_t segment = storage::segment_number(page);
    const std::uint64_t usable =
        memory_.segment_size(segment).load(std::memory_order_acquire) / kPageBytes;
    const std::uint64_t first =
        static_cast<std::uint64_t>(storage::page_index(page)) / kBlock * kBlock;
    const PageId begin = storage::page_id(segment, storage::PageIndex{first});
    if (std::any_of(ahead_.begin(), ahead_.end(),
                    [begin](const Ahead &run) { return begin >= run.begin && begin < run.end; }))
      continue;
    // Not exactly behind: another process may have opened what lies between.
    auto run = std::find_if(ahead_.begin(), ahead_.end(), [&](const Ahead &before) {
      return before.pages != 0 && begin >= before.end &&
             number(begin) - number(before.end) <= kRunMax;
    });
    const std::uint64_t wanted = run != ahead_.end() ? 2 * run->pages : kBlock;
    if (run == ahead_.end()) --run;
    const std::uint64_t pages = std::min(wanted, left);
    // beyond it nothing can be opened yet
    const std::uint64_t end = std::min(first + pages, usable);
    left -= pages;
    for (std::uint64_t i = first; i < end; ++i) {
      const PageId each = storage::page_id(segment, storage::PageIndex{i});
      if (!hardware_->is_open(each)) directory_.open_ahead(held, each);
    }
    *run = {begin, storage::page_id(segment, storage::PageIndex{end}), pages};
    std::rotate(ahead_.begin(), run, run + 1);
  }
}

LineDomain::UpperLeft LineDomain::upper_left() const noexcept {
  if (!hardware_->any_pin()) return UpperLeft::kNobody;
  return hardware_->any_host() ? UpperLeft::kHosts : UpperLeft::kGuests;
}

// A small instance of level 2 takes 5 to 10 us, one that finds pages 100 to 200: a sleep takes 50
// us more than asked for.
LineDomain::UpperLeft LineDomain::await_upper() noexcept {
  constexpr int kSpins = 200;  // 5 to 10 us
  constexpr std::uint64_t kYieldNs = 200'000;
  for (int spin = 0; spin < kSpins; ++spin) {
    if (!hardware_->any_pin()) return UpperLeft::kNobody;
    _mm_pause();
  }
  const bool waits = cross_ != CrossPolicy::kAbortLower;
  if (!waits && !is_look_due()) return upper_left();
  const std::uint64_t begin_ns = platform::monotonic_ns();
  long pause_ns = kPauseNsMin;
  for (std::uint64_t waited_ns = 0; waits && waited_ns < hierarchy::kPageWaitNs;
       waited_ns = platform::monotonic_ns() - begin_ns) {
    if (waited_ns < kYieldNs) {
      sched_yield();
    } else {
      const timespec pause{0, pause_ns};
      nanosleep(&pause, nullptr);
      pause_ns = std::min(2 * pause_ns, kPauseNsMax);
    }
    if (!hardware_->any_pin()) return UpperLeft::kNobody;
  }
  engine_->reaper().reap_dead(engine_->lock_domain());
  return upper_left();
}

bool LineDomain::any_pin() noexcept {
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    // seq_cst: after the stamp's fetch_add; pairs with the pin's store before the line clock is
    //          read (Snapshot::announce).
    if (memory_.participant(i).pin.load(std::memory_order_seq_cst) != storage::kNoPin) return true;
  }
  return false;
}

std::uint64_t LineDomain::oldest_line_pin() noexcept {
  std::uint64_t oldest = ~0ull;
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    const storage::Participant &other = memory_.participant(i);
    if (other.pin.load(std::memory_order_seq_cst) == storage::kNoPin) continue;
    oldest = std::min(oldest, other.line_pin.load(std::memory_order_acquire));
  }
  return oldest;
}

void LineDomain::suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  directory_.recover_if_dead(engine_->lock_domain(), slot, incarnation);
}

}  // namespace tmh::detail
