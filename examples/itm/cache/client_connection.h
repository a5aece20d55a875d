// examples/itm/cache/client_connection.h -- one connection of the load: batches of requests, and
// what must be true of their answers.
// Sharing:   of one thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "examples/itm/cache/client_figures.h"
#include "examples/itm/cache/client_ledger.h"
#include "examples/itm/cache/client_options.h"
#include "examples/itm/cache/client_socket.h"

namespace cache {

using SteadyClock = std::chrono::steady_clock;
[[nodiscard]] inline std::uint64_t ns_since(SteadyClock::time_point then) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now() - then).count());
}

class ClientConnection {
 public:
  // `number` of all connections. Throws std::runtime_error.
  ClientConnection(const ClientOptions &options, std::uint64_t number, Ledger &ledger,
                   Figures &figures);

  // Keys that this connection alone sets: its number, and every so many further.
  [[nodiscard]] std::uint64_t first_key() const { return number_; }
  [[nodiscard]] std::uint64_t own_key_near(std::uint64_t key) const;

  void add_get(std::uint64_t key);
  void add_set(std::uint64_t key, std::size_t value_bytes);
  [[nodiscard]] bool has_requests() const { return !requests_.empty(); }
  [[nodiscard]] std::size_t requests() const { return requests_.size(); }

  enum class State : std::uint8_t { kWaits, kDone };
  // Sends and receives what can be. kDone: all are answered, or lost with the connection: then
  // there is a new one.
  [[nodiscard]] State go_on();
  [[nodiscard]] int file() const { return socket_.file(); }
  [[nodiscard]] bool waits_to_send() const { return sent_ < out_.size(); }
  // True once after each new connection.
  [[nodiscard]] bool is_new();

 private:
  struct Request {
    bool is_set;
    std::uint64_t key, sequence;
    // What was acknowledged of the key when the request was made.
    std::uint64_t acknowledged;
  };
  void take_answer(const Request &request, std::string_view value, bool is_hit);
  void verify(const Request &request, std::string_view value, bool is_hit);
  // False: nonsense came.
  [[nodiscard]] bool take_answers();
  void start_anew();

  const ClientOptions *options_;
  std::uint64_t number_;
  Ledger *ledger_;
  Figures *figures_;
  ClientSocket socket_;
  std::vector<Request> requests_;
  std::size_t answered_ = 0, sent_ = 0;
  std::string out_;
  Bytes in_;
  SteadyClock::time_point began_, ended_;
  bool is_new_ = true, recovers_ = false;
};

}  // namespace cache
