// examples/itm/cache/client_options.h -- the load client's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cache {

enum class Protocol : std::uint8_t { kText, kBinary };

struct ClientOptions {
  // HOST:PORT, or a path with a slash in it.
  std::string place;
  unsigned threads = 1;
  // Of all threads together.
  std::uint64_t connections = 8;
  double seconds = 1;
  std::uint64_t keys = 10'000;
  std::uint64_t value_bytes = 100;
  // 0: all values are of value_bytes.
  std::uint64_t value_bytes_max = 0;
  double get_ratio = 0.9;
  std::uint64_t pipeline = 1;
  Protocol protocol = Protocol::kText;
  bool is_uniform = false, verifies = false;
  std::uint64_t seed = 1;
  std::uint64_t faults = 0;
  std::vector<std::string> fault_kinds;
};

// Returns -1 to go on, else the exit code: 0 after --help, 2 for wrong options.
[[nodiscard]] int parse_client_options(int argc, const char *const *argv, ClientOptions *options);

}  // namespace cache
