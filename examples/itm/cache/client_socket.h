// examples/itm/cache/client_socket.h -- the client's side of a connection.
#pragma once

#include <string>
#include <string_view>

#include "examples/itm/cache/bytes.h"

namespace cache {

// Owns its socket.
class ClientSocket {
 public:
  ClientSocket() = default;
  // HOST:PORT or a path. Waits until it is connected; non-blocking afterwards. Throws
  // std::runtime_error.
  explicit ClientSocket(const std::string &place);
  ClientSocket(ClientSocket &&other) noexcept;
  ClientSocket &operator=(ClientSocket &&other) noexcept;
  ~ClientSocket();

  [[nodiscard]] int file() const { return file_; }
  enum class Moved : std::uint8_t { kSome, kNothing, kEnded };
  // Takes what was sent from the front of the text, from `sent` on.
  [[nodiscard]] Moved send(std::string_view text, std::size_t *sent);
  [[nodiscard]] Moved receive(Bytes &in);

 private:
  int file_ = -1;
};

// One question on a connection of its own, in the text protocol; waits for an answer that ends
// with the text. Throws std::runtime_error.
[[nodiscard]] std::string ask(const std::string &place, std::string_view question,
                              std::string_view answer_end);

}  // namespace cache
