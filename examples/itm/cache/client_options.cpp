#include "examples/itm/cache/client_options.h"

#include <iostream>

#include "examples/itm/cache/client_values.h"
#include "programs/command_line.h"

namespace cache {

using tmh::programs::CommandLine;

namespace {

constexpr int kBadOptions = 2;
constexpr unsigned kThreadsMax = 256;
constexpr std::uint64_t kConnectionsMax = 10'000, kKeysMax = 100'000'000, kPipelineMax = 1000;
constexpr std::uint64_t kFaultsMax = 1'000'000;
constexpr double kSecondsMax = 86'400;
// What a server takes of a value, beside key and header.
constexpr std::uint64_t kValueBytesMax = 1'000'000;

std::string check_place(const std::string &text) {
  const std::size_t colon = text.rfind(':');
  const bool is_path = text.find('/') != std::string::npos;
  if (is_path || (colon != std::string::npos && colon != 0 && colon + 1 != text.size())) return {};
  return "\"" + text + "\" is neither HOST:PORT nor a path";
}

int refuse(const std::string &problem) {
  std::cerr << "cache_client: " << problem << "\n";
  return kBadOptions;
}

}  // namespace

int parse_client_options(int argc, const char *const *argv, ClientOptions *options) {
  CommandLine line("A load for servers that speak memcached's protocol; prints one line of JSON.",
                   "cache_client");
  line.add_option("--connect", options->place, "HOST:PORT, or the path of a socket")
      .required()
      .check(check_place, "PLACE");
  line.add_option("--threads", options->threads, "threads")
      .check_range<unsigned>(1, kThreadsMax)
      .capture_default_str();
  line.add_option("--connections", options->connections, "connections of all threads")
      .check_range(1, kConnectionsMax)
      .capture_default_str();
  line.add_option("--seconds", options->seconds, "how long to measure")
      .check_range<double>(0.001, kSecondsMax)
      .capture_default_str();
  line.add_option("--keys", options->keys, "keys, all of which are set first")
      .check_range(1, kKeysMax)
      .capture_default_str();
  line.add_option("--value-size", options->value_bytes, "bytes of a value")
      .check_range(1, kValueBytesMax)
      .capture_default_str();
  line.add_option("--value-size-max", options->value_bytes_max,
                  "values have any size from --value-size to this one; 0: all have --value-size")
      .check_range(0, kValueBytesMax)
      .capture_default_str();
  line.add_option("--get-ratio", options->get_ratio, "gets among all operations; the rest are sets")
      .check_range<double>(0.0, 1.0)
      .capture_default_str();
  line.add_option("--pipeline", options->pipeline, "requests that a connection sends at once")
      .check_range(1, kPipelineMax)
      .capture_default_str();
  std::string protocol = "text", distribution = "zipfian";
  line.add_option("--protocol", protocol, "text or binary")
      .check_one_of({"text", "binary"})
      .capture_default_str();
  line.add_option("--distribution", distribution, "of keys: zipfian or uniform")
      .check_one_of({"zipfian", "uniform"})
      .capture_default_str();
  line.add_flag("--verify", options->verifies,
                "empties the server first; then each value tells its key and its place in the "
                "order of sets, and none may be torn, outdated or lost");
  line.add_option("--seed", options->seed, "of keys and values").capture_default_str();
  line.add_option("--faults", options->faults, "faults to inject, of a server with --allow-faults")
      .check_range(0, kFaultsMax)
      .capture_default_str();
  line.add_option("--fault-kinds", options->fault_kinds,
                  "in turns: segv, fpe, abort, thread (default: the first three)")
      .delimiter(',')
      .check_one_of({"segv", "fpe", "abort", "thread"});
  if (const auto status = line.parse(argc, argv)) return *status == 0 ? 0 : kBadOptions;
  options->protocol = protocol == "binary" ? Protocol::kBinary : Protocol::kText;
  options->is_uniform = distribution == "uniform";
  if (options->fault_kinds.empty()) options->fault_kinds = {"segv", "fpe", "abort"};
  if (options->value_bytes_max == 0) options->value_bytes_max = options->value_bytes;
  if (options->value_bytes_max < options->value_bytes)
    return refuse("--value-size-max is smaller than --value-size");
  if (options->verifies && options->value_bytes < kVerifiedBytesMin)
    return refuse("--verify needs --value-size " + std::to_string(kVerifiedBytesMin) + " or more");
  if (options->connections < options->threads)
    return refuse("--connections is smaller than --threads");
  if (options->keys < options->connections)
    return refuse("--keys is smaller than --connections: each connection sets keys of its own");
  return -1;
}

}  // namespace cache
