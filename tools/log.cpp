// tools/log.cpp -- tmh log dump, tmh log verify: the redo log as recovery would read it.
#include <fmt/format.h>

#include "platform/assert.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/log_print.h"
#include "tools/log_verify.h"
#include "tools/log_walk.h"
#include "tools/moment.h"
#include "tools/print.h"

namespace tmh::tools {

using storage::CheckpointV1;
using storage::ControlFile;
using storage::Lsn;

namespace {

constexpr const char *kOpenRemark =
    "the domain is open: it may be a record that is being written just now";

Exit exit_after(const LogEnd &end) noexcept {
  if (end.error != Errc::kOk) return exit_of(end.error);
  return end.torn ? Exit::kTorn : Exit::kOk;
}

Json end_json(const LogEnd &end, bool is_open) {
  Json json{{"type", "end"},
            {"state", state_word(end)},
            {"lsn", end.lsn},
            {"generation", end.generation},
            {"open", is_open}};
  if (end.skipped_to != 0) json["skipped"] = {{"from", end.skipped_from}, {"to", end.skipped_to}};
  if (end.error != Errc::kOk) {
    json["error"] = errc_name(end.error);
    json["message"] = end.why;
  }
  return json;
}

std::string end_text(const LogEnd &end, bool is_open) {
  std::string text;
  if (end.skipped_to != 0)
    text = fmt::format("LSN {} to {}: not read, a checkpoint made the log files free meanwhile\n",
                       end.skipped_from, end.skipped_to);
  if (end.error != Errc::kOk)
    return text + fmt::format("{} behind LSN {}\n", state_word(end), end.lsn);
  if (!end.torn)
    return text + fmt::format("clean end at LSN {}{}\n", end.lsn,
                              is_open ? " (so far: the domain is open)" : "");
  text += fmt::format(
      "torn tail at LSN {}: recovery cuts it off, nothing in it was acknowledged as durable",
      end.lsn);
  return text + (is_open ? fmt::format("; {}\n", kOpenRemark) : "\n");
}

constexpr const char *kNeverMade = "its creation was cut off; the next open makes its log";

[[noreturn]] void refuse_behind_end(Lsn from, Lsn end) {
  TMH_ASSERT(from > end);
  refuse(Errc::kBadArgument,
         fmt::format("LSN {} lies behind the end of the log at LSN {}", from, end));
}

Exit dump_nothing(const LogDumpCommand &command) {
  if (command.from.value_or(0) != 0) refuse_behind_end(*command.from, 0);
  if (command.json)
    print_line(
        Json{{"type", "end"}, {"state", "empty"}, {"lsn", 0}, {"generation", 0}, {"open", false}});
  else
    print(fmt::format("{}: {}\n", command.domain, kNeverMade));
  return Exit::kOk;
}

}  // namespace

Exit run(const LogDumpCommand &command) {
  const auto control = read_durable_control(command.domain);
  const CheckpointSlots slots = read_checkpoint(command.domain, *control);
  if (was_never_made(command.domain, *control, slots)) return dump_nothing(command);
  const CheckpointV1 checkpoint = slots.get(command.domain);
  const bool earlier = command.from.has_value() && *command.from < checkpoint.lsn;
  const CheckpointV1 from =
      earlier ? start_before(command.domain, command.logs, checkpoint, *command.from) : checkpoint;
  const Lsn first = command.from.value_or(from.lsn);
  LogWalk walk(command.domain, command.logs, *control, from);
  if (!command.json) print(entry_heading());
  Lsn last_end = 0;
  for (LogEntry entry; walk.next(&entry); last_end = entry.end) {
    if (entry.lsn < first) continue;
    if (command.json)
      print_line(entry_json(entry, *control, command.pages));
    else
      print(entry_text(entry, *control, last_end, command.pages));
  }
  const LogEnd &end = walk.end();
  // Whoever remembers such an LSN has read another log, or one that was undone; of a torn or
  // damaged one more may have been there.
  if (exit_after(end) == Exit::kOk && first > end.lsn) refuse_behind_end(first, end.lsn);
  const bool is_open = !live_participants(command.domain).empty();
  if (command.json)
    print_line(end_json(end, is_open));
  else
    print(end_text(end, is_open));
  flush_output();
  if (end.error != Errc::kOk && !command.json) throw Error(end.error, end.why);
  return exit_after(end);
}

Exit run(const LogVerifyCommand &command) {
  const auto control = read_durable_control(command.domain);
  const LogVerdict verdict = verify_log(command.domain, *control);
  if (verdict.was_never_made) {
    if (command.json)
      print(Json{{"domain", command.domain}, {"state", "empty"}, {"transactions", 0}});
    else
      print(fmt::format("{}: {}\n", command.domain, kNeverMade));
    return Exit::kOk;
  }
  const LogEnd &end = verdict.end;
  if (command.json) {
    Json json = end_json(end, verdict.is_open);
    json.erase("type");
    json["domain"] = command.domain;
    json["start_lsn"] = verdict.start_lsn;
    json["transactions"] = verdict.transactions;
    json["log_bytes"] = verdict.log_bytes;
    json["checkpoint_slots_valid"] = verdict.both_slots_valid;
    print(json);
  } else {
    std::string text = fmt::format("{}: {}, {} of log from the checkpoint at LSN {} on\n",
                                   command.domain, counted(verdict.transactions, "transaction"),
                                   bytes_text(verdict.log_bytes), verdict.start_lsn);
    if (!verdict.both_slots_valid)
      text +=
          "one of the two checkpoint slots is damaged; the other one is used, and log files for it "
          "are kept\n";
    print(text + end_text(end, verdict.is_open));
    flush_output();
    if (end.error != Errc::kOk) throw Error(end.error, end.why);
  }
  return exit_after(end);
}

}  // namespace tmh::tools
