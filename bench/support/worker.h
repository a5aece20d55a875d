// bench/support/worker.h -- a process that measures on request.
// Shape:     one worker per variant. Each opens its own domain in its own process, so that a
//            variant inherits neither the mappings nor the signal action of another; while one
//            measures, the others sleep in recv(2). The parent asks them in turn, round by round,
//            so that noise hits all variants alike.
// Sharing:   requests and replies are trivially copyable and travel over a socket pair. A worker
//            ends when its parent closes the socket or dies.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

#include "platform/assert.h"

namespace tmh::bench {

// The untyped half.
class WorkerProcess {
 public:
  // `serve` runs in the child; its result is never returned to (the child exits).
  explicit WorkerProcess(const std::function<void(int socket)> &serve);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess &) = delete;
  WorkerProcess &operator=(const WorkerProcess &) = delete;

  void send(const void *data, std::size_t bytes) const;
  // Throws std::runtime_error with the worker's message, or when it has died.
  void receive(void *data, std::size_t bytes) const;

  // For the child's side.
  static void reply(int socket, const void *data, std::size_t bytes);
  static void reply_error(int socket, const std::string &message);
  // False: the parent is done.
  [[nodiscard]] static bool next_request(int socket, void *data, std::size_t bytes);

 private:
  int socket_ = -1;
  int pid_ = -1;
};

template <class Request, class Reply>
class Worker {
  static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);

 public:
  using Handler = std::function<Reply(const Request &)>;
  // `start` runs in the child. What it throws makes the worker unavailable, with what() as the
  // reason.
  explicit Worker(const std::function<Handler()> &start)
      : process_([&start](int socket) {
          Handler handler;
          try {
            handler = start();
            WorkerProcess::reply(socket, "", 1);
          } catch (const std::exception &error) {
            WorkerProcess::reply_error(socket, error.what());
            return;
          }
          for (Request request; WorkerProcess::next_request(socket, &request, sizeof(request));) {
            try {
              const Reply reply = handler(request);
              WorkerProcess::reply(socket, &reply, sizeof(reply));
            } catch (const std::exception &error) {
              WorkerProcess::reply_error(socket, error.what());
            }
          }
        }) {
    try {
      char ready = 0;
      process_.receive(&ready, 1);
    } catch (const std::exception &error) {
      reason_ = error.what();
    }
  }
  [[nodiscard]] bool available() const noexcept { return reason_.empty(); }
  [[nodiscard]] const std::string &reason() const noexcept { return reason_; }
  // REQUIRES: available(). Throws what the handler threw, as std::runtime_error.
  [[nodiscard]] Reply call(const Request &request) const {
    TMH_ASSERT(available());
    process_.send(&request, sizeof(request));
    Reply reply;
    process_.receive(&reply, sizeof(reply));
    return reply;
  }

 private:
  WorkerProcess process_;
  std::string reason_;
};

}  // namespace tmh::bench
