#include "examples/itm/cache/server_options.h"

#include "programs/command_line.h"

namespace cache {

using tmh::programs::CommandLine;
using tmh::programs::Option;

namespace {

constexpr int kBadOptions = 2;
constexpr unsigned kThreadsMax = 256;
constexpr std::uint64_t kMemoryMbMax = std::uint64_t{1} << 20;

}  // namespace

int parse_server_options(int argc, const char *const *argv, ServerOptions *options) {
  CommandLine line("A cache server that speaks memcached's text and binary protocol.",
                   "cache_server");
  line.add_option("--threads,-t", options->threads, "threads that serve")
      .check_range<unsigned>(1, kThreadsMax)
      .capture_default_str();
  line.add_option("--memory,-m", options->memory_mb, "for items, in MiB")
      .check_range(1, kMemoryMbMax)
      .capture_default_str();
  line.add_option("--listen,-l", options->address, "address of IPv4 or IPv6").capture_default_str();
  const Option port = line.add_option("--port,-p", options->port, "of TCP; 0: any; it is printed")
                          .capture_default_str();
  const Option path =
      line.add_option("--unix,-s", options->path, "a socket's path; without --port, no TCP");
  line.add_flag("--allow-faults", options->allows_faults,
                "for tests: clients may say \"fault KIND KEY\" and \"clock SECONDS\"");
  if (const auto status = line.parse(argc, argv)) return *status == 0 ? 0 : kBadOptions;
  options->has_tcp = path.count() == 0 || port.count() != 0;
  return -1;
}

}  // namespace cache
