// tools/command_line.cpp -- the command line: subcommands, their options and help; errors.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tmh/options.hpp>

#include "examples/workloads/workload.hpp"
#include "levels/line/capacity.h"
#include "observe/perf/encode.h"
#include "platform/assert.h"
#include "programs/command_line.h"
#include "tools/commands.h"
#include "tools/completion.h"
#include "tools/db_commands.h"
#include "tools/deadlockd.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

using programs::Command;
using programs::Option;

constexpr const char *kExitCodes =
    "Exit code: 0 done (log: clean end), 1 torn tail (log commands and check only), 2 the domain\n"
    "is damaged, 3 refused or failed (the message names the reason), 4 recover: the wanted time\n"
    "lies before what can be restored, 5 --timeout has passed, 64 wrong command line.\n"
    "Manual pages: tmh(1), tmh-durability(7).";
constexpr const char *kPerfExitCodes =
    "Exit code: PROGRAM's own; 128 + N when signal N has killed it, 127 when it is not found, 126\n"
    "when it cannot be started otherwise; 3 the report cannot be written, 64 wrong command line;\n"
    "with --encodings 0. Manual page: tmh(1).";

// CLI11 reads "-1" and numbers beyond 64 bits as some other number.
std::string check_number(const std::string &text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number ? std::string() : text + " is no number from 0 to 18446744073709551615";
}

// check_positive() of an option tells its range in 300 digits.
std::string check_positive(const std::string &text) {
  const bool is_zero = text.find_first_not_of('0') == std::string::npos;
  if (is_zero || !check_number(text).empty())
    return text + " is no number from 1 to 18446744073709551615";
  return {};
}

// CLI11 takes 010 for an octal number: of "--until-lsn 010" what lies behind LSN 8 would be gone
// for good.
void read_as_decimal(Option option) {
  option.check(check_number);
  option.transform([](std::string text) {  // before what is checked
    const std::size_t digit = text.find_first_not_of('0');
    text.erase(0, digit == std::string::npos ? text.size() - std::min<std::size_t>(text.size(), 1)
                                             : digit);
    return text;
  });
}

// As the library says it of a variable.
std::string right_values(const std::string &text, const char *values) {
  TMH_ASSERT(values != nullptr);
  return fmt::format("'{}'; right values: {}", text, values);
}

// Of "one of a, b; c=1 to 9": a and b. Not c, which takes a number; words of the text between may
// be among them, and are no values.
std::vector<std::string> listed_words(const std::string &values) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = values.find_first_of(",;", begin);
    const std::string item = values.substr(begin, end == std::string::npos ? end : end - begin);
    if (item.find(" to ") == std::string::npos) words.push_back(item.substr(item.rfind(' ') + 1));
  }
  return words;
}

std::string check_capacity(const std::string &text) {
  line::CapacityModel ignored;
  if (line::parse(text, &ignored) == Errc::kOk) return {};
  return right_values(text, line::capacity_values());
}

// Which check_range() lets pass.
std::string check_not_nan(const std::string &text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number" : std::string();
}

void check_seconds(Option option) {
  option.check_range<double>(0.001, 1e6);
  option.check(check_not_nan);
}

void check_time(Option option) {
  option.check([](const std::string &text) {
    return parse_moment(text)
               ? std::string()
               : text + " is no time: seconds since the epoch or YYYY-MM-DD HH:MM:SS";
  });
}

class CommandLine {
 public:
  CommandLine() {
    line_.set_version("tmh " TMH_VERSION);
    line_.require_subcommand();
    line_.tell_unknown_words_first();
    line_.footer(kExitCodes);
    add_recover();
    add_image();
    add_live(LiveCommand::Kind::kCheckpoint, "checkpoint",
             "Bring the data files up to the log, so that recovery starts here");
    add_live(LiveCommand::Kind::kArchive, "archive",
             "Checkpoint, then move the log files that recovery needs no more to the folder TO");
    add_live(LiveCommand::Kind::kBackup, "backup",
             "A consistent copy of the domain in the new folder TO");
    add_live(LiveCommand::Kind::kCopy, "copy",
             "A domain of its own in the new folder TO, with everything committed so far");
    Command log = line_.add_subcommand(
        "log", "Read the redo log; changes nothing, also while the domain is open");
    log.require_subcommand();
    add_log_dump(log);
    add_log_follow(log);
    add_log_verify(log);
    add_info();
    add_check();
    add_stat();
    add_top();
    add_policies();
    add_doctor();
    add_completion();
    add_perf();
    add_trace();
    add_skew();
    add_rtm_emulate();
    add_itm();
    add_run();
    add_kill_stuck();
    add_locks();
    add_deadlockd();
    add_db_commands(&line_, &chosen_);
  }

  int run(int argc, const char *const *argv) {
    TMH_ASSERT(argv != nullptr);
    std::string asked;  // --help, --version
    if (const auto status = line_.parse(argc, argv, &asked)) {
      if (*status != 0) return static_cast<int>(Exit::kUsage);
      chosen_ = [text = asked] {
        print(text);
        return Exit::kOk;
      };
    }
    TMH_ASSERT(chosen_ != nullptr);  // a subcommand is required, and each says what it runs
    try {
      const Exit exit = chosen_();
      flush_output();
      return static_cast<int>(exit);
    } catch (const Error &error) {
      return tell(error);
    } catch (const std::bad_alloc &) {
      return tell(Error(Errc::kOutOfMemory, "tmh"));
    } catch (const std::exception &error) {
      return tell(Error(Errc::kIo, error.what()));
    }
  }

 private:
  // Standard error: one sentence. Standard output, when JSON was asked for: the same as a document.
  int tell(const Error &error) const {
    std::fflush(stdout);
    print_error(fmt::format("tmh: {}\n", sentence(error)));
    if (json_ != nullptr && *json_) {
      const Json document{{"error", errc_name(error.errc())},
                          {"code", error.code().value()},
                          {"message", text_of(error)}};
      std::fputs((document.dump() + "\n").c_str(), stdout);
      std::fflush(stdout);
    }
    return static_cast<int>(exit_of(error));
  }

  template <class Task>
  Command add(Command to, const char *name, const char *description, Task *command,
              const char *example) {
    TMH_ASSERT(command != nullptr);
    Command sub = add_bare(to, name, description, command, example);
    sub.add_option("DOMAIN", command->domain, "folder of the domain").required();
    return sub;
  }

  // Without DOMAIN.
  template <class Task>
  Command add_bare(Command to, const char *name, const char *description, Task *command,
                   const char *example) {
    TMH_ASSERT(name != nullptr && description != nullptr && example != nullptr);
    Command sub = to.add_subcommand(name, description);
    sub.add_flag("--json", command->json, "print JSON");
    sub.footer(fmt::format("Example: {}\n{}", example, kExitCodes));
    sub.final_callback([this, command] {
      json_ = &command->json;
      chosen_ = [command] { return tools::run(*command); };
    });
    return sub;
  }

  void add_recover() {
    Command sub =
        add(line_, "recover",
            "Bring a closed durable domain to the end of its log, or to a point in time", &recover_,
            "tmh recover backup --logs archive --until-time '2026-11-21 12:30:00'");
    Option lsn = sub.add_option(
        "--until-lsn", recover_.until_lsn,
        "no transaction whose record ends behind this LSN; what follows is gone for good");
    Option time = sub.add_option("--until-time", recover_.until_time,
                                 "no later transaction; seconds since the epoch, with a "
                                 "fraction, or local 'YYYY-MM-DD HH:MM:SS'");
    lsn.excludes(time);
    read_as_decimal(lsn);
    check_time(time);
    sub.add_option("--logs", recover_.logs, "folder of archived log files");
    read_as_decimal(
        sub.add_option("--threads", recover_.threads, "threads that store pages, 0: one per core")
            .check_range<int>(0, 1024));
    sub.add_flag(
        "--accept-files", recover_.accept_files,
        "take the files as they are, although one was removed or replaced while the domain "
        "was in use; what is neither there nor in shared memory that is whole is lost");
  }

  void add_image() {
    Command sub = add(line_, "image", "A backup as it was at a moment of its log; changes nothing",
                      &image_, "tmh image backup --logs archive --name before-import --to old");
    sub.add_option("--logs", image_.logs, "folder of archived log files");
    Option lsn = sub.add_option("--lsn", image_.lsn, "what the log holds up to this LSN");
    Option clock = sub.add_option("--clock", image_.clock, "behind this commit");
    Option name = sub.add_option("--name", image_.name, "a moment that was given this name");
    Option time =
        sub.add_option("--time", image_.time,
                       "no later transaction; seconds since the epoch, with a fraction, or local "
                       "'YYYY-MM-DD HH:MM:SS' (default: the log's end)");
    for (Option one : {lsn, clock, name, time})
      for (Option other : {lsn, clock, name, time})
        if (one != other) one.excludes(other);
    read_as_decimal(lsn);
    read_as_decimal(clock);
    name.check([](const std::string &text) {
      return std::string(text.empty() ? "the moment has an empty name" : "");
    });
    check_time(time);
    sub.add_option("--to", image_.to, "write the segments' files to this new folder");
  }

  void add_live(LiveCommand::Kind kind, const char *name, const char *description) {
    TMH_ASSERT(static_cast<std::size_t>(kind) < kLiveKinds);
    LiveCommand &command = live_[static_cast<std::size_t>(kind)];
    command.kind = kind;
    const bool needs_folder = kind != LiveCommand::Kind::kCheckpoint;
    const std::string example =
        fmt::format("tmh {} shop{}", name, needs_folder ? " /backup/shop" : "");
    Command sub = add(line_, name, description, &command, example.c_str());
    if (needs_folder) sub.add_option("TO", command.to, "folder").required();
    check_seconds(
        sub.add_option("--timeout", command.timeout_s,
                       "give up after so many seconds, with exit code 5 (default: never)"));
  }

  void add_log_dump(Command log) {
    Command sub =
        add(log, "dump",
            "One line per transaction, from the checkpoint on; --json: one document per line",
            &dump_, "tmh log dump shop --from 0 --pages");
    read_as_decimal(
        sub.add_option("--from", dump_.from,
                       "first LSN, not behind the log's end; 0: as far back as there are log files "
                       "(default: the checkpoint's)"));
    sub.add_option("--logs", dump_.logs, "folder of archived log files");
    sub.add_flag("--pages", dump_.pages, "every page difference, too");
  }

  void add_log_follow(Command log) {
    Command sub = add(log, "follow",
                      "Each transaction once it is durable, until a signal ends it; lines as of "
                      "dump; also: tmh log --follow",
                      &follow_, "tmh log follow shop --from-stamp 4711 --json");
    Option from = sub.add_option("--from", follow_.from,
                                 "first LSN, not behind the log's end; 0: as far back as there are "
                                 "log files (default: the checkpoint's)");
    Option stamp = sub.add_option("--from-stamp", follow_.from_stamp,
                                  "the first transaction with a larger stamp");
    from.excludes(stamp);
    read_as_decimal(from);
    read_as_decimal(stamp);
    read_as_decimal(sub.add_option("--until", follow_.until,
                                   "ends when all in front of this LSN is durable and printed"));
    read_as_decimal(sub.add_option("--count", follow_.count, "ends after so many transactions")
                        .check(check_positive));
    sub.add_option("--logs", follow_.logs, "folder of archived log files");
    sub.add_flag("--pages", follow_.pages, "every page difference, too");
  }

  void add_log_verify(Command log) {
    (void)add(log, "verify",
              "Read everything from the checkpoint on: clean end, torn tail, or damage", &verify_,
              "tmh log verify shop");
  }

  void add_info() {
    (void)add(line_, "info",
              "Control file, participants, segments, checkpoint slots, log files; changes nothing",
              &info_, "tmh info shop --json");
  }

  void add_doctor() {
    Command sub =
        add_bare(line_, "doctor", "What this machine offers, and what to do about what it does not",
                 &doctor_, "tmh doctor /srv/shop");
    sub.add_option("FOLDER", doctor_.folder,
                   "where a domain would live (default: the current folder)");
  }

  void add_trace() {
    (void)add(line_, "trace",
              "Last events of the processes that opened the domain with TMH_TRACE=on, for "
              "ui.perfetto.dev",
              &trace_, "tmh trace shop > shop.json");
  }

  void add_skew() {
    Command sub = add(line_, "skew",
                      "Sites that could skew under snapshot isolation, and what to promote, by "
                      "what processes with TMH_SKEW=record have recorded",
                      &skew_, "tmh skew shop");
    read_as_decimal(sub.add_option("--sample", skew_.sample,
                                   "so many instances are compared pair by pair (2000)")
                        .check(check_positive));
    read_as_decimal(
        sub.add_option("--places", skew_.places, "of each conflict, so many ranges of bytes (8)")
            .check(check_positive));
  }

  void add_check() {
    (void)add(line_, "check", "Is the domain sound? Structure, allocators, log; changes nothing",
              &check_, "tmh check shop");
  }

  void add_stat() {
    Command sub =
        add(line_, "stat", "Counters of the domain and its participants; does not join it", &stat_,
            "tmh stat shop 1 --csv");
    Option interval = sub.add_option("INTERVAL", stat_.interval_s,
                                     "seconds between samples, until the domain is closed");
    check_seconds(interval);
    read_as_decimal(sub.add_option("--count", stat_.count, "so many samples").needs(interval));
    sub.add_flag("--csv", stat_.csv, "print CSV, a line per sample").excludes(sub.option("--json"));
  }

  void add_top() {
    Command sub = line_.add_subcommand(
        "top", "A domain, live: levels, latencies, participants, pages; does not join it");
    sub.add_option("DOMAIN", top_.domain, "folder of the domain").required();
    check_seconds(
        sub.add_option("--interval,-i", top_.interval_s, "seconds between pictures (default: 1)"));
    Option once = sub.add_flag_callback(
        "--once", [this] { top_.batch = 1; }, "one picture as plain text, of one interval");
    read_as_decimal(
        sub.add_option("--batch,-b", top_.batch, "so many pictures as plain text, also into a pipe")
            .check(check_positive)
            .excludes(once));
    sub.footer(fmt::format(
        "Keys: q quit, space pause, s sort participants.\nExample: tmh top shop\n{}", kExitCodes));
    sub.final_callback([this] { chosen_ = [this] { return tools::run(top_); }; });
  }

  void add_policies() {
    add_bare(line_, "policies", "What can be chosen, and what each value means", &policies_,
             "tmh policies")
        .add_flag("--lab", policies_.lab, "values for research alone, see tmh/lab.hpp");
  }

  // Prints what the command line itself says, so there is nothing else to run.
  void add_completion() {
    Command sub = line_.add_subcommand("completion", "Bash completion of this command");
    sub.footer("Example: source <(tmh completion)");
    sub.final_callback([this] {
      chosen_ = [this] {
        print(bash_completion(line_, values_));
        return Exit::kOk;
      };
    });
  }

  void add_perf() {
    Command sub = add_bare(
        line_, "perf", "Run PROGRAM and count hardware and software events, its descendants' too",
        &perf_, "");
    sub.footer(fmt::format("Example: tmh perf -e rtm -e cycles,instructions -- ./bank 4\n{}",
                           kPerfExitCodes));
    sub.add_option("--events,-e", perf_.groups,
                   "a set (software, cpu, tlb, rtm), or a group of events that are counted "
                   "together: names with commas "
                   "between; may be repeated (default: all sets)")
        .allow_extra_args(false)
        .check([](const std::string &list) {
          try {
            (void)perf::groups_of({list});
            return std::string();
          } catch (const Error &error) {
            return text_of(error);
          }
        });
    sub.add_option("--output,-o", perf_.output, "file of the report (default: standard error)");
    Option csv = sub.add_flag("--csv", perf_.csv, "print CSV");
    csv.excludes(sub.option("--json"));
    Option encodings =
        sub.add_flag("--encodings", perf_.encodings,
                     "print the events' codes on the nine processors with RTM, and run nothing");
    Option program =
        sub.add_option("PROGRAM", perf_.program, "program and its arguments, behind --");
    program.excludes(encodings);
    sub.parse_complete_callback([this] {
      if (perf_.program.empty() && !perf_.encodings) programs::refuse_without("PROGRAM");
    });
  }

  void add_rtm_emulate() {
    Command sub = line_.add_subcommand(
        "rtm-emulate", "Run a program whose RTM transactions an emulator carries out");
    sub.add_option("PROGRAM", rtm_emulate_.program, "program and its arguments, behind --")
        .required();
    sub.add_flag("--stats", rtm_emulate_.stats,
                 "at its end, commits and aborts by cause on standard error");
    sub.add_flag("--native", rtm_emulate_.native, "leave a processor alone that has RTM");
    sub.add_option("--knob", rtm_emulate_.knobs,
                   "NAME=VALUE, see tmh-rtm-emulation(7); may be repeated")
        .allow_extra_args(false)
        .check([](const std::string &text) {
          const std::size_t equals = text.find('=');
          return equals == std::string::npos || equals == 0 ? text + " is not NAME=VALUE"
                                                            : std::string();
        });
    sub.add_option(
        "--domain", rtm_emulate_.domain,
        "file that several such programs share, when they share memory in which they commit");
    sub.footer(
        "Example: tmh rtm-emulate --stats --knob ways=4 -- ./elided-bench 2\n"
        "Exit code: the program's; 3 it could not be started, 64 wrong command line. Manual page: "
        "tmh-rtm-emulation(7).");
    sub.final_callback([this] { chosen_ = [this] { return tools::run(rtm_emulate_); }; });
  }

  void add_itm() {
    Command sub = line_.add_subcommand(
        "itm", "Run a program of g++ -fgnu-tm on this project's libitm instead of GCC's");
    sub.add_option("PROGRAM", itm_.program, "program and its arguments, behind --").required();
    sub.add_option(
           "--method", itm_.method,
           "lines: conflicts by cache line; rtm: in hardware, lines beside it; serial: one "
           "transaction at a time; pages: no barriers, threads with page tables of their own, "
           "snapshot isolation; pages-serializable: the same, serializable")
        .check_one_of({"lines", "rtm", "serial", "pages", "pages-serializable", "ml_wt", "gl_wt",
                       "htm", "serialirr", "serialirr_onwrite", "serial_onwrite"});
    sub.add_option("--statistics", itm_.statistics,
                   "file to which a line of JSON is appended at the program's end: commits, aborts "
                   "by cause; -: standard error")
        .check([](const std::string &path) {
          return path.empty() ? std::string("the name of the file is empty") : std::string();
        });
    sub.footer(
        "Example: tmh itm --method lines --statistics - -- ./program --threads 2\n"
        "Exit code: the program's; 3 it could not be started, 64 wrong command line. Manual page: "
        "tmh-itm(7).");
    sub.final_callback([this] { chosen_ = [this] { return tools::run(itm_); }; });
  }

  void add_kill_stuck() {
    Command sub =
        add(line_, "kill-stuck",
            "Ask instances that run for too long to abort; kill their processes only with --kill",
            &kill_stuck_, "tmh kill-stuck shop --older-than 30");
    Option pid =
        sub.add_option("--pid", kill_stuck_.pid, "the instances of this process, however young");
    pid.check_range<int>(1, 1 << 22);
    read_as_decimal(pid);
    sub.add_option("--older-than", kill_stuck_.older_than_s,
                   "instances of level 2 that run for so many seconds (60)")
        .excludes(pid)
        .check_range<double>(0.0, 1e9)
        .check(check_not_nan);
    sub.add_option("--grace", kill_stuck_.grace_s,
                   "seconds that an instance has to end after it was asked (1)")
        .check_range<double>(0.0, 3600.0)
        .check(check_not_nan);
    sub.add_flag("--kill", kill_stuck_.kill,
                 "SIGKILL to the processes of those that still run then");
  }

  void add_locks() {
    (void)add(line_, "locks",
              "Locks of transactions of tp.h: holders, waiters, deadlocks, totals; does not join",
              &locks_, "tmh locks shop");
  }

  void add_deadlockd() {
    Command sub = add(line_, "deadlockd",
                      "Look for deadlocks again and again, and end them, until a signal ends it",
                      &deadlockd_, "tmh deadlockd shop --every 0.1s --victim fewest-locks");
    Option every = sub.add_option("--every", deadlockd_.every_s, "seconds between looks (1)");
    check_seconds(every);
    every.transform([](const std::string &text) {
      return text.ends_with('s') ? text.substr(0, text.size() - 1) : text;
    });
    sub.add_option("--victim", deadlockd_.victim, "who fails of each cycle (youngest)")
        .check_one_of(victim_names());
    sub.add_flag("--once", deadlockd_.once, "one look").excludes(every);
  }

  // A value as the library spells it; `values` are the right ones.
  template <class Value>
  void add_spec(Command sub, const char *name, std::string *spec, const char *about,
                const char *values) {
    const auto is_right = [](const std::string &text) {
      Value ignored{};
      return parse(text, &ignored) == Errc::kOk;
    };
    TMH_ASSERT(spec != nullptr && values != nullptr);
    Option option = sub.add_option(name, *spec, fmt::format("{}: {}", about, values));
    option.check([values, is_right](const std::string &text) {
      return is_right(text) ? std::string() : right_values(text, values);
    });
    Values &offered = values_[option];
    offered.commas = std::string_view(values).starts_with("comma-separated");
    for (const std::string &word : listed_words(values))
      if (is_right(word)) offered.words.push_back(word);
  }

  void add_run() {
    Command sub = add_bare(
        line_, "run",
        "Run a built-in workload under any policy; tell what it did and whether its invariant "
        "holds",
        &run_, "tmh run bank --processes 4 --level hybrid --durability strict --seconds 5");
    std::vector<std::string> names;
    for (const workloads::Description &one : workloads::descriptions())
      names.emplace_back(one.name);
    sub.add_option("WORKLOAD", run_.workload, "what to run").required().check_one_of(names);
    sub.add_option("--domain", run_.domain,
                   "folder of the domain, which stays (default: a temporary one)")
        .check([](const std::string &text) {
          return std::string(text.empty() ? "the folder has an empty name" : "");
        });
    read_as_decimal(sub.add_option("--processes", run_.processes, "worker processes (2)")
                        .check_range<unsigned>(1, workloads::kWorkersMax));
    read_as_decimal(sub.add_option("--threads", run_.threads, "threads of each (1)")
                        .check_range<unsigned>(1, workloads::kWorkersMax));
    Option seconds = sub.add_option("--seconds", run_.seconds, "so long (2)");
    check_seconds(seconds);
    read_as_decimal(sub.add_option("--operations", run_.operations,
                                   "so many operations of all workers, instead")
                        .excludes(seconds)
                        .check(check_positive));
    read_as_decimal(sub.add_option("--size", run_.size, "elements (the workload's own number)")
                        .check(check_positive));
    sub.add_option("--skew", run_.skew,
                   "zipfian constant, 0: all elements alike (YCSB: 0.99, others: 0)")
        .check_range<double>(0.0, 0.9999)
        .check(check_not_nan);
    read_as_decimal(sub.add_option("--reads", run_.read_percent,
                                   "operations of 100 that only read (the workload's own share)")
                        .check_range<int>(0, 100));
    read_as_decimal(sub.add_option("--seed", run_.seed, "of what workers draw (1)"));
    const auto set_level = [this](const std::string &word) {
      run_.level = word == "line"   ? RunCommand::Level::kLine
                   : word == "page" ? RunCommand::Level::kPage
                                    : RunCommand::Level::kHybrid;
    };
    sub.add_option_function("--level", set_level,
                            "line: level 1 only; page: level 2 only; hybrid: both (hybrid)")
        .check_one_of({"line", "page", "hybrid"});
    add_spec<LineChoice>(sub, "--line-mode", &run_.line, "what runs level 1", line_values());
    add_spec<Durability>(sub, "--durability", &run_.durability,
                         "when a commit survives a power cut", durability_values());
    add_spec<GroupCommit>(sub, "--group-commit", &run_.group_commit,
                          "company for a write of the log", group_commit_values());
    add_spec<Policy>(sub, "--conflict", &run_.conflict, "who fails when two instances conflict",
                     policy_values());
    sub.add_option("--backoff", run_.backoff, "before another attempt: none, exponential, adaptive")
        .check_one_of({"none", "exponential", "adaptive"});
    add_spec<Escalation>(sub, "--escalation", &run_.escalation,
                         "when an instance goes from lines to pages", escalation_values());
    add_spec<CrossPolicy>(sub, "--cross", &run_.cross,
                          "what the levels do about a page that both want", cross_policy_values());
    Option capacity = sub.add_option("--capacity", run_.capacity,
                                     "what fits into an instance of level 1, see tmh policies");
    capacity.check(check_capacity);
    TMH_ASSERT(check_capacity("unlimited").empty() && check_capacity("l1d").empty());
    values_[capacity].words = {"unlimited", "l1d"};
    add_spec<Tracking>(sub, "--tracking", &run_.tracking, "how pages that are touched are found",
                       tracking_values());
    add_spec<Detection>(sub, "--detection", &run_.detection, "when conflicts of level 2 are found",
                        detection_values());
    add_spec<ThreadViewUse>(sub, "--thread-views", &run_.thread_views, "threads at level 2",
                            thread_view_values());
    sub.add_flag("--csv", run_.csv, "print CSV, a header and a row").excludes(sub.option("--json"));
    sub.parse_complete_callback([this] { check_run(); });
  }

  // What CLI11 cannot say: one option against another.
  void check_run() const {
    using programs::refuse_option;
    TMH_ASSERT(workloads::find(run_.workload) != nullptr);  // one of the words
    const workloads::Description &workload = *workloads::find(run_.workload);
    static_assert(std::uint64_t{workloads::kWorkersMax} * workloads::kWorkersMax <=
                      std::numeric_limits<unsigned>::max(),
                  "neither is more than kWorkersMax, and the product of both fits");
    if (run_.processes * run_.threads > workloads::kWorkersMax)
      refuse_option("--threads", fmt::format("at most {} threads in all", workloads::kWorkersMax));
    if (run_.size > workload.size_max)
      refuse_option("--size", fmt::format("at most {} {}", workload.size_max, workload.unit));
    if (run_.skew >= 0 && workload.skew < 0)
      refuse_option("--skew", fmt::format("{} has none", run_.workload));
    if (run_.read_percent >= 0 && workload.read_percent < 0)
      refuse_option("--reads", fmt::format("{} has no reads", run_.workload));
    if (!run_.backoff.empty() && run_.conflict.find("backoff=") != std::string::npos)
      refuse_option("--backoff", "--conflict says it already, of none, exponential, adaptive");
    if (run_.level == RunCommand::Level::kHybrid) return;
    const bool is_page = run_.level == RunCommand::Level::kPage;
    if (!run_.escalation.empty()) refuse_option("--escalation", "only with --level hybrid");
    for (const auto &[option, value] : {std::pair{"--line-mode", &run_.line},
                                        {"--cross", &run_.cross},
                                        {"--capacity", &run_.capacity}})
      if (is_page && !value->empty())
        refuse_option(option, "not with --level page, which has no level 1");
  }

  programs::CommandLine line_{
      "Works on tmh domains (folders of transactional memory): recovery, checkpoints, archives, "
      "backups, inspection. Files: db. Workloads: run. Machines: doctor, perf, rtm-emulate, itm.",
      "tmh"};
  RecoverCommand recover_;
  ImageCommand image_;
  static constexpr std::size_t kLiveKinds = 4;
  static_assert(kLiveKinds == static_cast<std::size_t>(LiveCommand::Kind::kCopy) + 1);
  LiveCommand live_[kLiveKinds];
  LogDumpCommand dump_;
  LogFollowCommand follow_;
  LogVerifyCommand verify_;
  InfoCommand info_;
  CheckCommand check_;
  StatCommand stat_;
  TopCommand top_;
  PoliciesCommand policies_;
  DoctorCommand doctor_;
  PerfCommand perf_;
  TraceCommand trace_;
  SkewCommand skew_;
  RunCommand run_;
  KillStuckCommand kill_stuck_;
  LocksCommand locks_;
  DeadlockdCommand deadlockd_;
  RtmEmulateCommand rtm_emulate_;
  ItmCommand itm_;
  ValuesOf values_;
  std::function<Exit()> chosen_;
  const bool *json_ = nullptr;  // the chosen command's
};

}  // namespace

// "tmh log --follow" is "tmh log follow", which a parser with subcommands cannot say.
int run_command_line(int argc, const char *const *argv) {
  TMH_ASSERT(argc >= 0 && argv != nullptr);
  std::vector<const char *> words(argv, argv + argc);
  if (words.size() > 2 && words[1] == std::string_view("log") &&
      words[2] == std::string_view("--follow"))
    words[2] = "follow";
  return CommandLine().run(argc, words.data());
}

}  // namespace tmh::tools
