// examples/itm/cache/session.h -- a connection's conversation: commands in, answers out.
// Shape:     knows no sockets. The first byte decides on the protocol.
// Sharing:   of one thread at a time. After a death in a command, the session is closed.
#pragma once

#include "examples/itm/cache/bytes.h"
#include "examples/itm/cache/operations.h"

namespace cache {

class Session {
 public:
  enum class Waits : std::uint8_t { kForInput, kForOutput, kToClose, kForNextThread };
  // Does the commands that have come, until it has to wait.
  [[nodiscard]] Waits run(Bytes &in, Operations &operations, Bytes &out);
  // The next command is that long at least: worth one large read.
  [[nodiscard]] std::size_t wanted_bytes() const { return wanted_bytes_; }

 private:
  enum class Protocol : std::uint8_t { kUnknown, kText, kBinary };
  // What to do next, or nothing: do the next command.
  struct Step {
    bool waits;
    Waits for_what;
  };
  [[nodiscard]] Step step_text(Bytes &in, Operations &operations, Bytes &out);
  [[nodiscard]] Step step_binary(Bytes &in, Operations &operations, Bytes &out);
  void skip(Bytes &in);

  Protocol protocol_ = Protocol::kUnknown;
  std::size_t wanted_bytes_ = 0, skipped_bytes_ = 0;
  // Of the first command's keys, what has been answered.
  std::size_t keys_done_ = 0;
};

}  // namespace cache
