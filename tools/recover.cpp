// tools/recover.cpp -- tmh recover.
#include <unistd.h>

#include <fmt/format.h>

#include <tmh/domain.hpp>

#include "platform/assert.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/log_walk.h"
#include "tools/moment.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

// On a terminal, one line that is overwritten and finally removed. The library calls it after 2 s,
// then every 100 ms.
class ProgressLine {
 public:
  ProgressLine() : shown_on_(isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (used_) print_error("\r\033[K");
  }
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;
  void show(std::uint64_t done, std::uint64_t total) {
    TMH_ASSERT(done <= total);
    if (!shown_on_) return;
    used_ = true;
    const double percent =
        total == 0 ? 100 : 100 * static_cast<double>(done) / static_cast<double>(total);
    print_error(
        fmt::format("\rrecovering: {:.0f} % of {} of log\033[K", percent, bytes_text(total)));
  }

 private:
  const bool shown_on_;
  bool used_ = false;
};

std::string report_text(const RecoverCommand &command, const RecoveryInfo &info) {
  std::string text;
  if (info.transactions == 0)
    text = fmt::format("{}: {}nothing to replay\n", command.domain,
                       info.was_clean ? "was closed cleanly; " : "");
  else
    text = fmt::format("{}: {} replayed ({} of log, {}) in {}\n", command.domain,
                       counted(info.transactions, "transaction"), bytes_text(info.log_bytes),
                       counted(info.pages, "page difference"), duration_text(info.total_us));
  if (info.salvaged != 0)
    text += fmt::format(
        "{} that had not reached the log when the last process died: written to it first\n",
        counted(info.salvaged, "committed transaction"));
  text +=
      fmt::format("the log ends at LSN {}, commit timestamp {}\n", info.end_lsn, info.last_stamp);
  if (info.tail_was_torn)
    text += fmt::format(
        "a torn tail at LSN {} was cut off; nothing in it had been acknowledged as durable\n",
        info.torn_at);
  return text;
}

Json report_json(const RecoverCommand &command, const RecoveryInfo &info) {
  return {{"domain", command.domain},
          {"was_clean", info.was_clean},
          {"transactions", info.transactions},
          {"salvaged", info.salvaged},
          {"log_bytes", info.log_bytes},
          {"pages", info.pages},
          {"tail_was_torn", info.tail_was_torn},
          {"torn_at", info.torn_at},
          {"end_lsn", info.end_lsn},
          {"last_stamp", info.last_stamp},
          {"total_us", info.total_us}};
}

// The library refuses a moment before the checkpoint when the log behind it shows that; here, the
// log in front of it is asked, too: of a transaction that is later than `moment_ns` and in the data
// files nothing can be undone. kTooEarly.
void expect_restorable(const RecoverCommand &command, std::uint64_t moment_ns) {
  const auto control = read_durable_control(command.domain);
  const CheckpointSlots slots = read_checkpoint(command.domain, *control);
  // The library says what is wrong.
  if (slots.current < 0 || !live_participants(command.domain).empty()) return;
  const storage::CheckpointV1 &checkpoint = slots.get(command.domain);
  if (moment_ns >= checkpoint.time_ns) return;
  const auto refuse_moment = [&](const std::string &why) {
    throw SpecificError(
        Exit::kTooEarly, Errc::kBadArgument,
        fmt::format("{}: {} lies before what can be restored: the data files are of {}, and {}; "
                    "take an older backup",
                    command.domain, command.until_time, moment_text(checkpoint.time_ns), why));
  };
  storage::CheckpointV1 from{};
  try {
    from = start_before(command.domain, command.logs, checkpoint, checkpoint.lsn - 1);
  } catch (const Error &) {
    refuse_moment(
        "no log of the time before is left that could show that nothing has changed since");
  }
  LogWalk walk(command.domain, command.logs, *control, from);
  storage::Lsn later = 0;   // behind the first transaction after that moment; 0: none
  bool is_written = false;  // the record that a recovery has left to the next open
  LogEntry entry;
  const auto undo_from = [&later](storage::Lsn end) {
    if (later > end) later = 0;
  };
  while (walk.next(&entry)) {
    if (entry.kind == LogEntry::Kind::kOpen) {
      undo_from(entry.open.previous_end);
      is_written = is_written || entry.open.previous_end == checkpoint.previous_end;
    } else if (later == 0 && entry.time_ns > moment_ns) {
      later = entry.end;
    }
  }
  if (checkpoint.previous_end != 0 && !is_written) undo_from(checkpoint.previous_end);
  if (later != 0 && later <= checkpoint.durable_lsn)
    refuse_moment("the log shows that they hold transactions which were committed later");
}

}  // namespace

Exit run(const RecoverCommand &command) {
  expect_domain(command.domain);
  RecoverOptions options;
  TMH_ASSERT(command.until_lsn == ~0ull || command.until_time.empty());
  options.until_lsn = command.until_lsn;
  options.log_folder = command.logs;
  options.threads = command.threads;
  options.accept_files = command.accept_files;
  if (!command.until_time.empty()) {
    const auto moment = parse_moment(command.until_time);
    if (!moment) refuse(Errc::kBadArgument, fmt::format("'{}' is no time", command.until_time));
    options.until_time_ns = *moment;
    expect_restorable(command, *moment);
  }
  RecoveryInfo info;
  {
    ProgressLine line;
    options.progress = [&line](std::uint64_t done, std::uint64_t total) { line.show(done, total); };
    info = recover(command.domain, options);
  }
  if (command.json)
    print(report_json(command, info));
  else if (read_control(command.domain)->header.durability == 0)
    print(command.domain + ": its files are taken as they are\n");
  else
    print(report_text(command, info));
  return Exit::kOk;
}

}  // namespace tmh::tools
