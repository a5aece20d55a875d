#include "examples/itm/cache/server_options.h"

#include <CLI/CLI.hpp>

namespace cache {

namespace {

constexpr int kBadOptions = 2;
constexpr unsigned kThreadsMax = 256;
constexpr std::uint64_t kMemoryMbMax = std::uint64_t{1} << 20;

}  // namespace

int parse_server_options(int argc, const char *const *argv, ServerOptions *options) {
  CLI::App app{"A cache server that speaks memcached's text and binary protocol."};
  app.name("cache_server");
  app.add_option("--threads,-t", options->threads, "threads that serve")
      ->check(CLI::Range(1U, kThreadsMax))
      ->capture_default_str();
  app.add_option("--memory,-m", options->memory_mb, "for items, in MiB")
      ->check(CLI::Range(std::uint64_t{1}, kMemoryMbMax))
      ->capture_default_str();
  app.add_option("--listen,-l", options->address, "address of IPv4 or IPv6")->capture_default_str();
  const CLI::Option *port =
      app.add_option("--port,-p", options->port, "of TCP; 0: any; it is printed")
          ->capture_default_str();
  const CLI::Option *path =
      app.add_option("--unix,-s", options->path, "a socket's path; without --port, no TCP");
  app.add_flag("--allow-faults", options->allows_faults,
               "for tests: clients may say \"fault KIND KEY\" and \"clock SECONDS\"");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : kBadOptions;
  }
  options->has_tcp = path->count() == 0 || port->count() != 0;
  return -1;
}

}  // namespace cache
