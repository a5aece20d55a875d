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

// Becomes the program: returns only by an exception.
struct RtmEmulateCommand {
  std::vector<std::string> program, knobs;  // knobs: NAME=VALUE
  std::string domain;
  bool native = false;  // only where the processor has no RTM
  bool stats = false;
};
[[nodiscard]] Exit run(const RtmEmulateCommand &command);

// The whole command: parses, runs, tells errors on standard error. Returns the exit status.
[[nodiscard]] int run_command_line(int argc, const char *const *argv);

}  // namespace tmh::tools
