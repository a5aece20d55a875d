// bench/support/server_process.h -- a process that serves tp.h and <tp/db.h>, for benches.
#pragma once

#include <sys/types.h>

#include <string>

namespace tmh::bench {

// Where the server of a folder listens: the value of TP_SERVER in its clients.
[[nodiscard]] std::string server_socket(const std::string &folder);

// Serves the environment `home` in the folder while this lives. REQUIRES: of this process one
// thread.
class ServerProcess {
 public:
  // durability: as tp_options has it. Throws std::runtime_error.
  ServerProcess(const std::string &folder, int durability);
  ~ServerProcess();
  ServerProcess(const ServerProcess &) = delete;
  ServerProcess &operator=(const ServerProcess &) = delete;

 private:
  pid_t server_;
};

}  // namespace tmh::bench
