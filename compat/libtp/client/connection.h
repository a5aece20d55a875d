// compat/libtp/client/connection.h -- a client's end of a connection to the server: messages out,
// replies in, in the order of requests.
// Invariant: sending never waits for a server that waits for us: replies are read meanwhile.
//            Once something has failed, everything fails, with ECONNRESET or EPROTO.
// Errors:    -1 and errno.
// Contexts:  one thread at a time. NOT async-signal-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "compat/libtp/client/wire.h"

namespace tmh::tp::client {

class Connection {
 public:
  Connection() = default;
  ~Connection();
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  // A path, or 127.0.0.1:PORT.
  [[nodiscard]] int open(const std::string &address);
  // Returns when the server has rolled back and closed, or after 10 s.
  void end() noexcept;
  // A request: begin, append, send.
  void begin(wire::Kind kind);
  [[nodiscard]] std::string &message() noexcept { return message_; }
  [[nodiscard]] int send();
  // The payload of the oldest request's reply; until the next call.
  [[nodiscard]] int receive(std::string_view *payload);

  [[nodiscard]] bool is_broken() const noexcept { return error_ != 0; }
  // No reply is on its way.
  [[nodiscard]] bool is_idle() const noexcept { return sent_.empty(); }
  // Of this process: a forked child has its parent's.
  [[nodiscard]] bool is_own() const noexcept;
  [[nodiscard]] std::uint64_t life() const noexcept { return welcome_.life; }
  [[nodiscard]] const std::string &address() const noexcept { return address_; }

 private:
  struct Sent {
    std::uint32_t number;
    std::uint16_t kind;
  };
  [[nodiscard]] int open_socket();
  [[nodiscard]] int greet();
  [[nodiscard]] int send_message();
  [[nodiscard]] int fail(int error) noexcept;
  // Once; what has come is in in_.
  [[nodiscard]] int read_some(int flags);

  int socket_ = -1;
  std::uint64_t process_ = 0;
  int error_ = 0;
  std::string address_;
  wire::Welcome welcome_;
  std::uint32_t next_number_ = 1;
  std::string message_;
  std::deque<Sent> sent_;
  // What has come ends at end_; a reply that was delivered, at taken_.
  std::string in_;
  std::size_t end_ = 0, taken_ = 0;
};

// Changes in a forked child.
[[nodiscard]] std::uint64_t process_serial() noexcept;

}  // namespace tmh::tp::client
