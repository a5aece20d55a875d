// examples/itm/cache/client_faults.h -- injects faults, one after the other, spread over the run.
// Shape:     sends "fault KIND KEY"; the server's thread dies, and with it this connection; then a
//            get on a new connection shows that the server serves.
// Sharing:   of one thread of the client.
#pragma once

#include "examples/itm/cache/client_connection.h"

namespace cache {

class FaultInjector {
 public:
  // Throws std::runtime_error.
  FaultInjector(const ClientOptions &options, std::uint64_t faults, SteadyClock::time_point begin,
                Figures &figures);

  [[nodiscard]] bool is_done() const { return injected_ == faults_ && state_ == State::kIdle; }
  // Milliseconds until the next one is due; -1: none is waited for.
  [[nodiscard]] int wait_ms() const;
  // Sends the next one when it is due.
  void inject_when_due(std::uint64_t key);
  // The socket can be read. Throws std::runtime_error when the server answers a fault.
  void go_on();
  [[nodiscard]] int file() const { return socket_.file(); }
  // True once after each new connection.
  [[nodiscard]] bool is_new();

 private:
  enum class State : std::uint8_t { kIdle, kDies, kRecovers };
  [[nodiscard]] SteadyClock::time_point due() const;
  void send(const std::string &request);

  const ClientOptions *options_;
  Figures *figures_;
  std::uint64_t faults_, injected_ = 0;
  SteadyClock::time_point begin_, injected_at_;
  std::string key_;
  ClientSocket socket_;
  Bytes in_;
  State state_ = State::kIdle;
  bool is_new_ = true;
};

}  // namespace cache
