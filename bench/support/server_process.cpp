// bench/support/server_process.cpp -- forks, serves, and tells when it is ready.
#include "bench/support/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tp/server.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace tmh::bench {

namespace {

[[noreturn]] void refuse(const std::string &what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace

std::string server_socket(const std::string &folder) { return folder + "/socket"; }

ServerProcess::ServerProcess(const std::string &folder, int durability) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) refuse("pipe");
  server_ = ::fork();
  if (server_ < 0) refuse("fork");
  if (server_ == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string socket = server_socket(folder), home = folder + "/home";
    tp_server_options options{};
    options.socket = socket.c_str();
    options.home = home.c_str();
    options.durability = durability;
    options.ready = [](const char *, void *to) {
      (void)!::write(*static_cast<const int *>(to), "r", 1);
    };
    options.argument = &ready[1];
    const int ended = tp_serve(&options);
    if (ended != 0) std::perror("server");
    std::exit(ended == 0 ? 0 : 1);
  }
  (void)::close(ready[1]);
  char byte = 0;
  const ssize_t got = ::read(ready[0], &byte, 1);
  (void)::close(ready[0]);
  if (got != 1) throw std::runtime_error("the server has not begun");
}

ServerProcess::~ServerProcess() {
  (void)::kill(server_, SIGTERM);
  (void)::waitpid(server_, nullptr, 0);
}

}  // namespace tmh::bench
