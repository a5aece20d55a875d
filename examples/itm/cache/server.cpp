// examples/itm/cache/server.cpp -- main() of the cache server: listens, hands connections to the
// workers, ends at SIGTERM or SIGINT with exit code 0.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "examples/itm/cache/crew.h"
#include "examples/itm/cache/listener.h"
#include "examples/itm/cache/server_options.h"

namespace cache {

namespace {

constexpr int kBadInput = 2;

// A file that is open without need: when no other can be opened, it makes room for accepting a
// client only to refuse it, who would otherwise wait, and keep the listener ready, for ever.
class SpareFile {
 public:
  SpareFile() : file_(open()) {}
  ~SpareFile() { ::close(file_); }
  SpareFile(const SpareFile &) = delete;
  SpareFile &operator=(const SpareFile &) = delete;
  void refuse_one(const Listener &listener) {
    ::close(file_);
    const int socket = listener.accept();
    if (socket >= 0) ::close(socket);
    file_ = open();
  }

 private:
  static int open() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
  int file_;
};

void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Before any thread starts, so that all have them blocked.
int signals_that_end() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int file = signalfd(-1, &signals, SFD_CLOEXEC);
  if (file < 0) throw std::system_error(errno, std::generic_category(), "signalfd()");
  return file;
}

void watch(int epoll, int file, const Listener *listener) {
  epoll_event event{EPOLLIN, {const_cast<Listener *>(listener)}};
  if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll");
}

void accept_clients(const std::vector<Listener> &listeners, int signals, Crew &crew) {
  SpareFile spare;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  watch(epoll, signals, nullptr);
  for (const Listener &listener : listeners) watch(epoll, listener.socket(), &listener);
  for (;;) {
    epoll_event event{};
    if (epoll_wait(epoll, &event, 1, -1) != 1) continue;
    if (event.data.ptr == nullptr) break;
    const auto &listener = *static_cast<const Listener *>(event.data.ptr);
    const int socket = listener.accept();
    if (socket >= 0)
      crew.adopt(socket);
    else if (errno == EMFILE || errno == ENFILE)
      spare.refuse_one(listener);
  }
  ::close(epoll);
}

int serve(const ServerOptions &options) {
  allow_many_files();
  const int signals = signals_that_end();
  Shared shared;
  shared.memory_bytes = options.memory_mb << 20;
  shared.allows_faults = options.allows_faults;
  shared.statistics.resize(options.threads + 1);
  StoreOptions store_options;
  store_options.memory_bytes = shared.memory_bytes;
  const OwnedStore store = make_store(store_options);
  if (store == nullptr) throw std::runtime_error("there is not so much memory");
  shared.store = store.get();
  {
    std::vector<Listener> listeners;
    if (options.has_tcp) listeners.push_back(Listener::on_tcp(options.address, options.port));
    if (!options.path.empty()) listeners.push_back(Listener::on_path(options.path));
    Crew crew(shared, options.threads);
    for (const Listener &listener : listeners)
      std::printf("listening on %s\n", listener.name().c_str());
    std::fflush(stdout);
    accept_clients(listeners, signals, crew);
  }
  ::close(signals);
  return 0;
}

}  // namespace

}  // namespace cache

int main(int argc, char **argv) {
  cache::ServerOptions options;
  const int code = cache::parse_server_options(argc, argv, &options);
  if (code >= 0) return code;
  try {
    return cache::serve(options);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "cache_server: %s\n", error.what());
    return cache::kBadInput;
  }
}
