// tools/log_follow.cpp -- tmh log follow: the redo log as it becomes durable.
#include <fmt/format.h>

#include "platform/assert.h"
#include "platform/failure.h"
#include "storage/log/log_tail.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/end_signals.h"
#include "tools/failure.h"
#include "tools/log_print.h"
#include "tools/moment.h"
#include "tools/print.h"

namespace tmh::tools {

using storage::ControlFile;
using storage::LogTail;
using storage::Lsn;
using storage::TailEntry;
using storage::TailStart;

namespace {

// A wait ends by itself to look whether a reader of the output is left.
constexpr std::uint64_t kWaitNs = 200'000'000;

LogEntry entry_of(const TailEntry &tail) {
  TMH_ASSERT(tail.kind == TailEntry::Kind::kTransaction || tail.kind == TailEntry::Kind::kOpening);
  LogEntry entry;
  entry.kind =
      tail.kind == TailEntry::Kind::kOpening ? LogEntry::Kind::kOpen : LogEntry::Kind::kTransaction;
  entry.lsn = tail.lsn;
  entry.end = tail.end;
  entry.generation = tail.generation;
  entry.stamp = tail.stamp;
  entry.time_ns = tail.time_ns;
  entry.open = tail.opening;
  for (std::size_t i = 0; i < tail.records(); ++i) add_record(tail.record(i), &entry);
  return entry;
}

class Follower {
 public:
  explicit Follower(const LogFollowCommand &command)
      : command_(command),
        control_(read_durable_control(command.domain)),
        tail_(command.domain, command.logs, identity(), start()) {}

  Exit run() {
    const EndSignals signals;
    try {
      if (!command_.json) print(entry_heading());
      flush_output();
      while (!is_done()) {
        TailEntry entry;
        check_tail(tail_.next(&entry));
        if (entry.kind != TailEntry::Kind::kNothing) {
          tell(entry);
          continue;
        }
        flush_output();
        told_ = tail_.position();  // a file's end, too
        if (!is_done()) tail_.wait(kWaitNs);
      }
      tell_end();
      flush_output();
    } catch (const Error &) {
      if (!has_no_reader()) throw;  // head(1) has seen enough
    }
    return Exit::kOk;
  }

 private:
  [[nodiscard]] storage::LogIdentity identity() const {
    const storage::CheckpointV1 slot =
        read_checkpoint(command_.domain, *control_).get(command_.domain);
    return {{slot.domain_id[0], slot.domain_id[1]}, slot.log_file_bytes};
  }
  [[nodiscard]] TailStart start() const {
    TMH_ASSERT(!command_.from || !command_.from_stamp);
    if (command_.from) return {TailStart::Kind::kLsn, *command_.from};
    if (command_.from_stamp) return {TailStart::Kind::kStamp, *command_.from_stamp};
    return {};
  }

  [[nodiscard]] bool is_done() const noexcept {
    return EndSignals::asked() || has_no_reader() ||
           (command_.count != 0 && transactions_ == command_.count) ||
           (command_.until && told_ >= *command_.until);
  }

  static void check_tail(Errc error) {
    if (error == Errc::kBadArgument) refuse(error, platform::failure_detail());
    check(error);
  }

  void tell(const TailEntry &entry) {
    switch (entry.kind) {
      case TailEntry::Kind::kNothing:
        return;
      case TailEntry::Kind::kTransaction:
        ++transactions_;
        bytes_ += entry.bytes;
        [[fallthrough]];
      case TailEntry::Kind::kOpening:
        return tell_entry(entry_of(entry));
      case TailEntry::Kind::kUndone:
        ++undone_;
        return tell_undone(entry);
      case TailEntry::Kind::kGap:
        ++gaps_;
        return tell_gap(entry);
    }
  }
  void tell_entry(const LogEntry &entry) {
    told_ = entry.end;
    if (command_.pages) learn_segments(entry);
    if (command_.json)
      print_line(entry_json(entry, *control_, command_.pages));
    else
      print(entry_text(entry, *control_, 0, command_.pages));
  }
  // One may have come since.
  void learn_segments(const LogEntry &entry) {
    for (const PageChange &change : entry.changes) {
      const std::uint32_t number = storage::segment_number(change.page);
      if (number < storage::kSegmentsMax && storage::is_used(control_->segments[number])) continue;
      control_ = read_durable_control(command_.domain);
      return;
    }
  }
  void tell_undone(const TailEntry &entry) const {
    TMH_ASSERT(entry.kind == TailEntry::Kind::kUndone);
    if (command_.json)
      print_line(Json{{"type", "undone"},
                      {"behind", entry.lsn},
                      {"generation", entry.generation},
                      {"more", entry.may_undo}});
    else
      print(fmt::format("{:>14} undone: everything behind this LSN{}\n", entry.lsn,
                        entry.may_undo ? ", perhaps more" : ""));
  }
  void tell_gap(const TailEntry &entry) const {
    TMH_ASSERT(entry.kind == TailEntry::Kind::kGap);
    if (command_.json)
      print_line(Json{{"type", "skipped"},
                      {"from", entry.lsn},
                      {"to", entry.end},
                      {"generation", entry.generation},
                      {"may_undo", entry.may_undo}});
    else
      print(fmt::format("LSN {} to {}: not read, a checkpoint made the log files free before{}\n",
                        entry.lsn, entry.end,
                        entry.may_undo ? "; what was told before may have been undone" : ""));
  }
  void tell_end() const {
    if (command_.json)
      print_line(Json{{"type", "end"},
                      {"state", "stopped"},
                      {"lsn", told_},
                      {"transactions", transactions_},
                      {"bytes", bytes_},
                      {"gaps", gaps_},
                      {"undone", undone_}});
    else
      print(fmt::format("stopped at LSN {}: {}, {} of log, {}\n", told_,
                        counted(transactions_, "transaction"), bytes_text(bytes_),
                        counted(gaps_, "gap")));
  }

  const LogFollowCommand &command_;
  std::unique_ptr<ControlFile> control_;
  LogTail tail_;
  Lsn told_ = 0;  // everything in front of it
  std::uint64_t transactions_ = 0, bytes_ = 0, gaps_ = 0, undone_ = 0;
};

}  // namespace

Exit run(const LogFollowCommand &command) { return Follower(command).run(); }

}  // namespace tmh::tools
