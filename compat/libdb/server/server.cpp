// compat/libdb/server/server.cpp -- epoll over the listener, signals, and the ends of clients.
#include "compat/libdb/server/server.h"

#define TP_NO_SHORT_NAMES
#include <tp/paper.h>

#undef tp_lock

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <tmh/error.hpp>

#include "compat/libdb/failure.h"
#include "compat/libdb/server/peer.h"
#include "compat/libdb/shared/tp_failure.h"
#include "platform/assert.h"

namespace tmh::db::server {

namespace {

constexpr std::uint64_t kWriteMs = 10'000;
// What a worker has to end by itself, when the server ends.
constexpr int kStopMs = 2'000, kNoFileMs = 50;

// A client has a socket, and files.
void allow_many_files() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

[[nodiscard]] sigset_t signals_of_server() noexcept {
  sigset_t signals;
  (void)sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) (void)sigaddset(&signals, signal);
  return signals;
}

[[nodiscard]] Listener listener_of(const tp_server_options &options) {
  return options.socket != nullptr ? Listener::of_path(options.socket, options.uid_count != 0)
                                   : Listener::of_port(options.port);
}

[[nodiscard]] int checked(int result) {
  if (result < 0) throw Failure{errno};
  return result;
}

void open_home(const tp_server_options &options) {
  const char *home = options.home;
  if (home == nullptr) home = ::getenv("TP_HOME");
  if (home == nullptr || *home == '\0') return;
  tp_options wanted{};
  wanted.durability = options.durability;
  wanted.name = "tmh tpd";
  // Readers of the log read those.
  std::vector<tp_type> types(options.log_type_count);
  for (std::size_t i = 0; i < types.size(); ++i) {
    types[i].type = options.log_types[i];
    types[i].name = "of a client";
  }
  wanted.types = types.data();
  wanted.type_count = types.size();
  int error = tp_paper_open(home, &wanted);
  if (error == static_cast<int>(Errc::kDurabilityMismatch)) {
    wanted.durability = -1;
    error = tp_paper_open(home, &wanted);
  }
  throw_unless_ok(error);
}

}  // namespace

Server::Server(const tp_server_options &options)
    : options_(options), listener_(listener_of(options)) {
  if (options.script_ms != 0) shared_.limits.script_ms = options.script_ms;
  if (options.record_number_max != 0) shared_.limits.number_max = options.record_number_max;
  if (options.tcl != nullptr && !shared_.scripts.load(options.tcl).empty()) throw Failure{ENOTSUP};
  allow_many_files();
  open_home(options);
  const sigset_t signals = signals_of_server();
  poll_ = checked(::epoll_create1(EPOLL_CLOEXEC));
  signals_ = checked(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  done_ = checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  watch(listener_.socket(), EPOLLIN, &listener_);
  watch(signals_, EPOLLIN, &signals_);
  watch(done_, EPOLLIN, &done_);
}

Server::~Server() {
  for (const int file : {poll_, signals_, done_})
    if (file >= 0) (void)::close(file);
}

void Server::watch(int file, std::uint32_t events, void *about) {
  TMH_ASSERT(file >= 0 && about != nullptr);
  epoll_event event{};
  event.events = events;
  event.data.ptr = about;
  (void)checked(::epoll_ctl(poll_, EPOLL_CTL_ADD, file, &event));
}

void Server::run() {
  if (options_.ready != nullptr) options_.ready(listener_.address().c_str(), options_.argument);
  while (!is_ending_) {
    std::array<epoll_event, 16> events{};
    const int count = ::epoll_wait(poll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i)
      handle(events[static_cast<std::size_t>(i)].data.ptr,
             events[static_cast<std::size_t>(i)].events);
    // Behind all that may still name a worker.
    bury();
  }
  stop();
  tell();
}

void Server::handle(void *about, std::uint32_t) {
  TMH_ASSERT(about != nullptr);
  if (about == &signals_) return handle_signals();
  if (about == &listener_) return admit();
  if (about == &done_) {
    std::uint64_t ends = 0;
    (void)!::read(done_, &ends, sizeof ends);
    return;
  }
  static_cast<Worker *>(about)->end_waits();
}

void Server::handle_signals() {
  signalfd_siginfo signal{};
  while (::read(signals_, &signal, sizeof signal) == sizeof signal) {
    if (signal.ssi_signo == SIGUSR1)
      tell();
    else
      is_ending_ = true;
  }
}

bool Server::may_be_served(unsigned uid) const noexcept {
  return uid == 0 || uid == ::geteuid() ||
         std::find(options_.uids, options_.uids + options_.uid_count, uid) !=
             options_.uids + options_.uid_count;
}

void Server::admit() {
  for (int accepted = 0; (accepted = listener_.accept()) >= 0;) {
    const std::optional<unsigned> uid = uid_of_peer(accepted);
    if (!uid || !may_be_served(*uid)) {
      refuse(accepted, EACCES);
      continue;
    }
    if (workers_.size() >= TP_SERVER_CLIENTS_MAX) {
      refuse(accepted, EAGAIN);
      continue;
    }
    try {
      auto made = std::make_unique<Worker>(
          &shared_, accepted, *uid, options_.write_ms != 0 ? options_.write_ms : kWriteMs, done_);
      made->begin();
      Counters::add(shared_.counters.clients);
      workers_.push_back(std::move(made));
      // Once: that it is gone.
      watch(accepted, EPOLLRDHUP | EPOLLONESHOT, workers_.back().get());
    } catch (const std::system_error &) {
      Counters::add(shared_.counters.refused);
    } catch (const Failure &) {
      workers_.back()->stop(true);
    }
  }
  if (errno != EMFILE && errno != ENFILE) return;
  // Until a client ends.
  pollfd ends{done_, POLLIN, 0};
  (void)::poll(&ends, 1, kNoFileMs);
}

// It has said nothing yet: the reply is that of a client's first request.
void Server::refuse(int socket, int error) {
  TMH_ASSERT(error != 0);
  Counters::add(shared_.counters.refused);
  std::string reply;
  const std::size_t at = tp::wire::begin_message(
      &reply, 1, static_cast<std::uint16_t>(tp::wire::Kind::kHello) | tp::wire::kReply);
  tp::wire::Welcome welcome;
  welcome.error = static_cast<std::uint32_t>(error);
  tp::wire::Writer out(&reply);
  put(&out, welcome);
  if (tp::wire::end_message(&reply, at))
    (void)!::send(socket, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)::shutdown(socket, SHUT_WR);
  (void)::close(socket);
}

void Server::bury() {
  workers_.remove_if([](const std::unique_ptr<Worker> &worker) { return worker->is_done(); });
}

void Server::stop() {
  TMH_ASSERT(is_ending_);
  for (const auto &worker : workers_) worker->stop(false);
  constexpr int kStepMs = 50;
  for (int steps = 0;; ++steps) {
    bury();
    if (workers_.empty()) return;
    if (steps == kStopMs / kStepMs)
      for (const auto &worker : workers_) worker->stop(true);
    pollfd ends{done_, POLLIN, 0};
    if (::poll(&ends, 1, kStepMs) == 1) handle(&done_, EPOLLIN);
  }
}

void Server::tell() const {
  if (options_.count == nullptr) return;
  const tp_server_counters counters = shared_.counters.read();
  options_.count(&counters, options_.argument);
}

}  // namespace tmh::db::server

extern "C" int tp_serve(const tp_server_options *options) {
  using tmh::db::Failure;
  if (options == nullptr) {
    errno = EINVAL;
    return -1;
  }
  // Threads of the library, too, leave them to the server.
  const sigset_t signals = tmh::db::server::signals_of_server();
  (void)pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // It is no client.
  (void)::unsetenv("TP_SERVER");
  try {
    tmh::db::server::Server server(*options);
    server.run();
    if (tp_paper_env() != nullptr) (void)tp_paper_close();
    return 0;
  } catch (const Failure &failure) {
    errno = failure.number;
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  } catch (const std::system_error &error) {
    errno = error.code().value();
  }
  return -1;
}
