// tools/recover.cpp -- tmh recover.
#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include <tmh/domain.hpp>

#include "tools/commands.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

// On a terminal, one line that is overwritten and finally removed. The library calls it after 2 s, then every 100 ms.
class ProgressLine {
 public:
  ProgressLine() : shown_on_(isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (used_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;
  void show(std::uint64_t done, std::uint64_t total) {
    if (!shown_on_) return;
    used_ = true;
    const double percent = total == 0 ? 100 : 100 * static_cast<double>(done) / static_cast<double>(total);
    fmt::print(stderr, "\rrecovering: {:.0f} % of {} of log\033[K", percent, bytes_text(total));
    std::fflush(stderr);
  }

 private:
  const bool shown_on_;
  bool used_ = false;
};

std::string report_text(const RecoverCommand &command, const RecoveryInfo &info) {
  std::string text;
  if (info.was_clean && info.transactions == 0)
    text = fmt::format("{}: was closed cleanly; nothing to replay\n", command.domain);
  else
    text = fmt::format("{}: {} replayed ({} of log, {}) in {}\n", command.domain,
                       counted(info.transactions, "transaction"), bytes_text(info.log_bytes),
                       counted(info.pages, "page difference"), duration_text(info.total_us));
  if (info.salvaged != 0)
    text += fmt::format("{} that had not reached the log when the last process died: written to it first\n",
                        counted(info.salvaged, "committed transaction"));
  text += fmt::format("the log ends at LSN {}, commit timestamp {}\n", info.end_lsn, info.last_stamp);
  if (info.tail_was_torn)
    text += fmt::format("a torn tail at LSN {} was cut off; nothing in it had been acknowledged as durable\n",
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

}  // namespace

Exit run(const RecoverCommand &command) {
  RecoverOptions options;
  options.until_lsn = command.until_lsn;
  options.log_folder = command.logs;
  options.threads = command.threads;
  if (!command.until_time.empty()) {
    const auto moment = parse_moment(command.until_time);
    if (!moment) refuse(Errc::kBadArgument, fmt::format("'{}' is no time", command.until_time));
    options.until_time_ns = *moment;
  }
  RecoveryInfo info;
  {
    ProgressLine line;
    options.progress = [&line](std::uint64_t done, std::uint64_t total) { line.show(done, total); };
    info = recover(command.domain, options);
  }
  if (command.json)
    print(report_json(command, info));
  else
    print(report_text(command, info));
  return Exit::kOk;
}

}  // namespace tmh::tools
