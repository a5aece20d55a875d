// tools/commands.h -- what the tmh command can do. Each function prints its result on standard
// output and returns the exit code; whatever goes wrong is an exception (tmh::Error), told by main.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/exit_code.h"

namespace tmh::tools {

struct RecoverCommand {
  std::string domain, until_time, logs;
  std::uint64_t until_lsn = ~0ull;
  unsigned threads = 0;
  bool accept_files = false;
  bool json = false;
};
[[nodiscard]] Exit run(const RecoverCommand &command);

// A backup as it was at a moment; changes nothing. None of the four: the log's end.
struct ImageCommand {
  std::string domain, logs, time, name;
  std::optional<std::uint64_t> lsn, clock;
  std::string to;  // a new folder for the segments' files; empty: none
  bool json = false;
};
[[nodiscard]] Exit run(const ImageCommand &command);

// The four that join a domain as a participant; a closed one is opened, which recovers it, and
// closed again.
struct LiveCommand {
  enum class Kind : std::uint8_t { kCheckpoint, kArchive, kBackup, kCopy };
  Kind kind = Kind::kCheckpoint;
  std::string domain, to;
  double timeout_s = 0;  // 0: as long as it takes
  bool json = false;
};
[[nodiscard]] Exit run(const LiveCommand &command);

struct LogDumpCommand {
  std::string domain, logs;
  std::optional<std::uint64_t> from;  // none: the checkpoint's LSN
  bool pages = false;
  bool json = false;
};
[[nodiscard]] Exit run(const LogDumpCommand &command);

// The log transaction by transaction, each once it is durable, until it is told to end.
struct LogFollowCommand {
  std::string domain, logs;
  std::optional<std::uint64_t> from, from_stamp;  // neither: the checkpoint's LSN
  std::optional<std::uint64_t> until;             // an LSN
  std::uint64_t count = 0;                        // so many transactions; 0: no end
  bool pages = false;
  bool json = false;
};
[[nodiscard]] Exit run(const LogFollowCommand &command);

struct LogVerifyCommand {
  std::string domain;
  bool json = false;
};
[[nodiscard]] Exit run(const LogVerifyCommand &command);

struct InfoCommand {
  std::string domain;
  bool json = false;
};
[[nodiscard]] Exit run(const InfoCommand &command);

// Structure, allocator and log; changes nothing.
struct CheckCommand {
  std::string domain;
  bool json = false;
};
[[nodiscard]] Exit run(const CheckCommand &command);

// Counters in the domain's shared memory, read without joining it.
struct StatCommand {
  std::string domain;
  double interval_s = 0;    // 0: once
  std::uint64_t count = 0;  // with an interval: so many samples; 0: until the domain is closed
  bool json = false;
  bool csv = false;
};
[[nodiscard]] Exit run(const StatCommand &command);

// The same and more, live on a terminal.
struct TopCommand {
  std::string domain;
  double interval_s = 1;
  // So many pictures as plain text; 0: on the terminal, until the user ends it.
  std::uint64_t batch = 0;
};
[[nodiscard]] Exit run(const TopCommand &command);

// What can be chosen, and what each value means.
struct PoliciesCommand {
  bool json = false;
  bool lab = false;  // those for research
};
[[nodiscard]] Exit run(const PoliciesCommand &command);

// Reads the machine, and tries what it offers; 0 whatever it finds.
struct DoctorCommand {
  std::string folder = ".";  // where a domain would live
  bool json = false;
};
[[nodiscard]] Exit run(const DoctorCommand &command);

struct PerfCommand {
  std::vector<std::string> groups;   // of events; empty: all sets
  std::vector<std::string> program;  // and its arguments
  // File of the report; empty: standard error, because standard output is the program's.
  std::string output;
  bool encodings = false;  // prints the table of events and processors instead
  bool json = false, csv = false;
};
// The program's exit status, 128 + the signal that killed it, 126 or 127 when it cannot be started,
// as env(1) and a shell say it.
[[nodiscard]] Exit run(const PerfCommand &command);
// Becomes the program: returns only by an exception.
struct RtmEmulateCommand {
  std::vector<std::string> program, knobs;  // knobs: NAME=VALUE
  std::string domain;
  bool native = false;  // only where the processor has no RTM
  bool stats = false;
};
[[nodiscard]] Exit run(const RtmEmulateCommand &command);

struct ItmCommand {
  std::vector<std::string> program;
  std::string method;      // empty: as the environment says
  std::string statistics;  // a file, or "-": standard error; empty: none
};
[[nodiscard]] Exit run(const ItmCommand &command);

struct TraceCommand {
  std::string domain;
  bool json = false;  // it always is
};
[[nodiscard]] Exit run(const TraceCommand &command);

// Sites that could skew under snapshot isolation, by what TMH_SKEW=record has recorded.
struct SkewCommand {
  std::string domain;
  // Instances that are compared pair by pair.
  std::uint64_t sample = 2000;
  // Of a conflict, the ranges that are told.
  std::uint64_t places = 8;
  bool json = false;
};
[[nodiscard]] Exit run(const SkewCommand &command);

// Runs a built-in workload in processes of its own, and tells what it did and whether its invariant
// holds.
struct RunCommand {
  enum class Level : std::uint8_t { kLine, kPage, kHybrid };
  std::string workload;
  std::string domain;  // empty: a temporary one
  unsigned processes = 2, threads = 1;
  double seconds = 2;
  std::uint64_t operations = 0;  // of all workers; not 0: instead of seconds
  std::uint64_t size = 0;        // 0, and negative ones of the next two: the workload's own
  double skew = -1;
  int read_percent = -1;
  std::uint64_t seed = 1;
  Level level = Level::kHybrid;
  // Spelled as in the environment, which counts where they are empty.
  std::string durability, group_commit, line, conflict, backoff, escalation, cross, capacity,
      tracking, detection, thread_views;
  bool json = false;
  bool csv = false;
};
[[nodiscard]] Exit run(const RunCommand &command);

// Asks stuck instances to abort; kills their processes only when told to.
struct KillStuckCommand {
  std::string domain;
  std::int32_t pid = 0;  // 0: whoever is older
  double older_than_s = 60;
  double grace_s = 1;  // for an instance that was asked, to end
  bool kill = false;
  bool json = false;
};
[[nodiscard]] Exit run(const KillStuckCommand &command);

// Who holds and who waits for which locks; does not join the domain.
struct LocksCommand {
  std::string domain;
  bool json = false;
};
[[nodiscard]] Exit run(const LocksCommand &command);

// Looks for deadlocks until it is told to end.
struct DeadlockdCommand {
  std::string domain;
  double every_s = 1;
  std::string victim = "youngest";  // one of victim_names()
  bool once = false;
  bool json = false;
};
[[nodiscard]] Exit run(const DeadlockdCommand &command);

// The whole command: parses, runs, tells errors on standard error. Returns the exit status.
[[nodiscard]] int run_command_line(int argc, const char *const *argv);

}  // namespace tmh::tools
