// tools/deadlockd.cpp -- tmh deadlockd: joins the domain, and looks for deadlocks again and again.
// Source:    LIBTP 4.1: a process of its own may look for deadlocks.
#include "tools/deadlockd.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include <tmh/domain.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain.h"
#include "levels/lock/lock.h"
#include "platform/assert.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/end_signals.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/shared_counters.h"
#include "tools/shared_locks.h"

namespace tmh::tools {

namespace {

// By the numbers of lock::Victim.
constexpr const char *kVictims[] = {
    "youngest",           "oldest",           "fewest-locks",   "most-locks",
    "fewest-write-locks", "most-write-locks", "lowest-priority"};
static_assert(std::size(kVictims) == static_cast<std::size_t>(lock::Victim::kLowestPriority) + 1);

lock::Victim victim_of(const std::string &word) {
  const auto *const found = std::find(std::begin(kVictims), std::end(kVictims), word);
  TMH_ASSERT(found != std::end(kVictims));  // one of the words
  return static_cast<lock::Victim>(found - std::begin(kVictims));
}

std::uint64_t now_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Domain::open() makes what does not exist; a misspelt name is to be an error.
Domain join(const std::string &folder) {
  DomainOptions options;
  options.name = "tmh deadlockd";
  // What those who have it open have chosen holds; tp_open() asks for this.
  if (!read_counters(folder).is_open()) options.levels = Levels::kHybrid;
  return Domain::open(folder, options);
}

class Watch {
 public:
  explicit Watch(const DeadlockdCommand &command)
      : command_(command), domain_(join(command.domain)), impl_(detail::impl_of(domain_)) {}
  ~Watch() = default;
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  void run() {
    for (;;) {
      look();
      if (command_.once || EndSignals::asked() || has_no_reader()) break;
      EndSignals::wait(static_cast<std::uint64_t>(command_.every_s * 1e9));
      if (EndSignals::asked()) break;
    }
    tell_end();
    impl_.reset();
    domain_.close();
  }

 private:
  // The first of its users makes the table, with its modes.
  bool has_table() {
    if (table_ != nullptr) return true;
    const std::optional<lock::ModeSet> modes = read_lock_modes(command_.domain);
    if (!modes.has_value()) return false;
    check(impl_->open_locks(*modes, &table_));
    TMH_ASSERT(table_ != nullptr);
    table_->use({.victim = victim_of(command_.victim)});
    return true;
  }
  void look() {
    if (!has_table()) return;
    ++looks_;
    const std::uint32_t failed = table_->look();
    failed_ += failed;
    if (failed != 0) tell(failed);
  }
  void tell(std::uint32_t failed) const {
    TMH_ASSERT(failed != 0);
    const std::uint64_t time_ns = now_ns();
    if (command_.json)
      print_line(Json{{"type", "deadlocks"}, {"time_ns", time_ns}, {"failed", failed}});
    else
      print(fmt::format("{} {} failed, to end as many deadlocks\n", moment_text(time_ns),
                        counted(failed, "locker")));
    flush_output();
  }
  void tell_end() const {
    if (command_.json)
      print_line(Json{
          {"type", "end"}, {"domain", command_.domain}, {"looks", looks_}, {"failed", failed_}});
    else
      print(fmt::format("{}: {}, {} failed{}\n", command_.domain, counted(looks_, "look"),
                        counted(failed_, "locker"),
                        table_ == nullptr ? "; nobody has locked anything there" : ""));
    flush_output();
  }

  const DeadlockdCommand &command_;
  Domain domain_;
  std::shared_ptr<detail::DomainImpl> impl_;
  lock::LockTable *table_ = nullptr;
  std::uint64_t looks_ = 0, failed_ = 0;
};

}  // namespace

std::vector<std::string> victim_names() { return {std::begin(kVictims), std::end(kVictims)}; }

Exit run(const DeadlockdCommand &command) {
  TMH_ASSERT(command.every_s > 0);
  (void)read_control(command.domain);
  const EndSignals signals;
  try {
    Watch(command).run();
  } catch (const Error &) {
    if (!has_no_reader()) throw;
  }
  return Exit::kOk;
}

}  // namespace tmh::tools
