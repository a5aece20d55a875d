// tools/terminal.h -- a whole screen for a command that draws on it again and again, by ANSI escape
// sequences (ECMA-48; xterm's alternate screen).
// Shape:     one Terminal at a time. While it lives keys come one by one and unechoed, and signals
//            come as events: nothing runs in a handler.
// Invariant: whatever ends it (return, exception, event), the terminal is as it was before.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <signal.h>
#include <termios.h>

#include <cstdint>
#include <string>
#include <vector>

#include "platform/files.h"

namespace tmh::tools {

class Terminal {
 public:
  // kBadArgument: standard input or output is none; kIo.
  Terminal();
  ~Terminal();
  Terminal(const Terminal &) = delete;
  Terminal &operator=(const Terminal &) = delete;

  struct Size {
    std::uint32_t columns = 80, rows = 24;  // where the terminal does not know
  };
  [[nodiscard]] Size size() const noexcept;
  // Over what is there.
  void draw(const std::vector<std::string> &lines);

  enum class Event : std::uint8_t { kTimeout, kKey, kResized, kEnd };
  // Waits at most so long. kEnd: SIGINT, SIGTERM, SIGHUP or SIGQUIT, or no more input. A stop
  // (SIGTSTP) happens inside: the terminal is given back meanwhile, and kResized follows.
  [[nodiscard]] Event wait(std::uint64_t timeout_ns, char *key);

 private:
  void enter();
  void leave() noexcept;
  void stop();

  termios before_{};
  sigset_t signals_{}, signals_before_{};
  platform::FileDescriptor signal_fd_;
  bool is_inside_ = false;
};

}  // namespace tmh::tools
