// examples/itm/cache/server_options.h -- the server's command line.
#pragma once

#include <cstdint>
#include <string>

namespace cache {

struct ServerOptions {
  unsigned threads = 4;
  std::uint64_t memory_mb = 64;
  // No TCP where only a path is given.
  std::string address = "127.0.0.1", path;
  std::uint16_t port = 11211;
  bool has_tcp = true;
  bool allows_faults = false;
};

// Returns -1 to go on, else the exit code: 0 after --help, 2 for wrong options.
[[nodiscard]] int parse_server_options(int argc, const char *const *argv, ServerOptions *options);

}  // namespace cache
