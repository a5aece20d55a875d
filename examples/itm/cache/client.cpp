// examples/itm/cache/client.cpp -- main() of the load client. Exit codes: 0; 1: the server is gone,
// says nonsense or, with --verify, has torn, outdated or lost values; 2: wrong options.
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "examples/itm/cache/client_load.h"
#include "examples/itm/cache/client_socket.h"
#include "programs/json.h"

namespace cache {

namespace {

// Of `stats`; 0: the server does not tell it.
std::uint64_t statistic(const std::string &statistics, const std::string &name) {
  const std::string head = "STAT " + name + " ";
  const std::size_t at = statistics.find(head);
  return at == std::string::npos ? 0 : std::stoull(statistics.substr(at + head.size()));
}

double us(std::uint64_t ns) { return static_cast<double>(ns) / 1e3; }

// What the server counted during the run.
struct ServerFigures {
  std::uint64_t evictions, transactions, attempts;
};
ServerFigures server_figures(const ClientOptions &options) {
  const std::string statistics = ask(options.place, "stats\r\n", "END\r\n");
  return {statistic(statistics, "evictions"), statistic(statistics, "transactions"),
          statistic(statistics, "attempts")};
}

int report(const ClientOptions &options, const LoadResult &result, const ServerFigures &server) {
  const Figures &figures = result.measured;
  Figures all = figures;
  all += result.around;
  const Durations &latencies = figures.latencies;
  // The server may evict items; then the client cannot tell which were lost.
  const bool may_miss = server.evictions != 0;
  const bool is_right = all.torn == 0 && all.outdated == 0 && (all.lost == 0 || may_miss) &&
                        all.errors == 0 && (options.faults != 0 || all.disconnects == 0);
  const tmh::programs::Json line = {
      {"program", "cache_client"},
      {"protocol", options.protocol == Protocol::kBinary ? "binary" : "text"},
      {"threads", options.threads},
      {"connections", options.connections},
      {"pipeline", options.pipeline},
      {"keys", options.keys},
      {"value_bytes", {options.value_bytes, options.value_bytes_max}},
      {"get_ratio", options.get_ratio},
      {"distribution", options.is_uniform ? "uniform" : "zipfian"},
      {"seed", options.seed},
      {"seconds", result.seconds},
      {"operations", figures.operations},
      {"operations_per_second", static_cast<double>(figures.operations) / result.seconds},
      {"latency_us",
       {{"p50", us(latencies.at(0.5))},
        {"p90", us(latencies.at(0.9))},
        {"p99", us(latencies.at(0.99))},
        {"p999", us(latencies.at(0.999))},
        {"max", us(latencies.max())}}},
      {"hits", figures.hits},
      {"misses", figures.misses},
      {"stored", figures.stored},
      {"errors", all.errors},
      {"disconnects", all.disconnects},
      {"faults", all.faults},
      {"recovery_ms_max", us(all.recovery_ns_max) / 1e3},
      {"verified", options.verifies},
      {"torn", all.torn},
      {"outdated", all.outdated},
      {"lost", all.lost},
      {"evictions", server.evictions},
      {"transactions", server.transactions},
      {"attempts", server.attempts},
      {"check", is_right ? "ok" : (all.problem.empty() ? "connections ended" : all.problem)}};
  std::cout << line.dump() << std::endl;
  return is_right ? 0 : 1;
}

int run(const ClientOptions &options) {
  if (options.verifies) static_cast<void>(ask(options.place, "flush_all\r\n", "\r\n"));
  const ServerFigures before = server_figures(options);
  const LoadResult result = run_load(options);
  const ServerFigures after = server_figures(options);
  return report(options, result,
                {after.evictions - before.evictions, after.transactions - before.transactions,
                 after.attempts - before.attempts});
}

}  // namespace

}  // namespace cache

int main(int argc, char **argv) {
  cache::ClientOptions options;
  const int code = cache::parse_client_options(argc, argv, &options);
  if (code >= 0) return code;
  try {
    return cache::run(options);
  } catch (const std::exception &error) {
    std::cerr << "cache_client: " << error.what() << "\n";
    return 1;
  }
}
