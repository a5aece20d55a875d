// tools/commands.h -- what the tmh command can do. Each function prints its result on standard output and returns the exit code; whatever
// goes wrong is an exception (tmh::Error), told by main.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/exit_code.h"

namespace tmh::tools {

struct RecoverCommand {
  std::string domain, until_time, logs;
  std::uint64_t until_lsn = ~0ull;
  unsigned threads = 0;
  bool json = false;
};
[[nodiscard]] Exit run(const RecoverCommand &command);

// The three that join a domain as a participant; a closed one is opened, which recovers it, and closed again.
struct LiveCommand {
  enum class Kind : std::uint8_t { kCheckpoint, kArchive, kBackup };
  Kind kind = Kind::kCheckpoint;
  std::string domain, to;
  bool json = false;
};
[[nodiscard]] Exit run(const LiveCommand &command);

struct LogDumpCommand {
  std::string domain, logs;
  std::uint64_t from = ~0ull;  // ~0: the checkpoint's LSN
  bool pages = false;
  bool json = false;
};
[[nodiscard]] Exit run(const LogDumpCommand &command);

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
  std::uint64_t batch = 0;  // so many pictures as plain text; 0: on the terminal, until somebody ends it
};
[[nodiscard]] Exit run(const TopCommand &command);

// What can be chosen, and what each value means.
struct PoliciesCommand {
  bool json = false;
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
  std::string output;      // file of the report; empty: standard error, because standard output is the program's
  bool encodings = false;  // prints the table of events and processors instead
  bool json = false, csv = false;
};
// The program's exit status, 128 + the signal that killed it, 126 or 127 when it cannot be started, as env(1) and a shell say it.
[[nodiscard]] Exit run(const PerfCommand &command);
// Becomes the program: returns only by an exception.
struct RtmEmulateCommand {
  std::vector<std::string> program, knobs;  // knobs: NAME=VALUE
  std::string domain;
  bool native = false;  // only where the processor has no RTM
  bool stats = false;
};
[[nodiscard]] Exit run(const RtmEmulateCommand &command);

struct TraceCommand {
  std::string domain;
  bool json = false;  // it always is
};
[[nodiscard]] Exit run(const TraceCommand &command);

// The whole command: parses, runs, tells errors on standard error. Returns the exit status.
[[nodiscard]] int run_command_line(int argc, const char *const *argv);

}  // namespace tmh::tools
