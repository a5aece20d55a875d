// bench/rtm_emulation.cpp -- what a transaction costs under the RTM emulator: begin and commit,
// each access, each 4 KiB copied.
// Shape:   each row is a transaction run many times; the cost of one access is the difference to
//          the empty transaction, divided. Beside it the same code without a transaction, and on
//          the processor's own RTM where it has one (measured before the emulator starts).
// Checked: what the transactions wrote.
// Wanted:  the column is what an earlier emulator of the same design cost: 10 us for a small
//          transaction, 9 of them SIGILL and sigreturn.
#include <immintrin.h>

#include <cpuid.h>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/rtm_emulation.h>

#include "bench/support/clock.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 11;
  std::size_t transactions = 2'000;  // per round and row
};

constexpr std::size_t kPageBytes = 4096, kWords = 64;
alignas(kPageBytes) unsigned char g_from[kPageBytes], g_to[kPageBytes];
alignas(kPageBytes) std::uint64_t g_lines[kWords * 8];
static_assert(sizeof g_lines == kWords * 64, "words of copies are a line apart");
static_assert(kPageBytes % 16 == 0, "whole vectors");

// True: committed. noinline: one XBEGIN, and a body whose accesses are in memory.
template <class Body>
__attribute__((target("rtm"), noinline)) bool attempt(const Body &body) {
  if (_xbegin() != _XBEGIN_STARTED) return false;
  body();
  _xend();
  return true;
}

struct Row {
  const char *name;
  std::size_t units;  // accesses or pages in one transaction; 0: the empty transaction
  void (*plain)();
  bool (*transaction)();
};

void nothing() {}
void add_in_one_line() {
  volatile std::uint64_t *word = g_lines;
  for (std::size_t i = 0; i < kWords; ++i) *word = *word + 1;
}
void add_in_lines() {
  volatile std::uint64_t *words = g_lines;
  for (std::size_t i = 0; i < kWords; ++i) words[i * 8] = words[i * 8] + 1;
}
void copy_by_words() {
  for (std::size_t i = 0; i < kPageBytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, g_from + i, 8);
    *reinterpret_cast<volatile std::uint64_t *>(g_to + i) = word;
  }
}
void copy_by_vectors() {
  for (std::size_t i = 0; i < kPageBytes; i += 16)
    asm volatile("movdqa (%0), %%xmm0\n\tmovdqa %%xmm0, (%1)"
                 :
                 : "r"(g_from + i), "r"(g_to + i)
                 : "xmm0", "memory");
}
void copy_by_string() {
  void *to = g_to;
  const void *from = g_from;
  std::size_t count = kPageBytes / 8;
  asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

template <void (*kBody)()>
bool in_transaction() {
  return attempt([] { kBody(); });
}
template <void (*kBody)()>
constexpr Row row(const char *name, std::size_t units) {
  return {name, units, kBody, in_transaction<kBody>};
}

const Row kRows[] = {
    row<nothing>("begin and commit", 0),
    row<add_in_one_line>("access, one line (load, add, store: 2)", 2 * kWords),
    row<add_in_lines>("access, a line each", 2 * kWords),
    row<copy_by_words>("4 KiB copied by words", 1),
    row<copy_by_vectors>("4 KiB copied by xmm", 1),
    row<copy_by_string>("4 KiB copied by rep movsq", 1),
};
constexpr std::size_t kRowCount = std::size(kRows);

bool has_rtm() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 11 & 1) != 0;
}

class EmulationBench {
 public:
  explicit EmulationBench(Options options) : options_(std::move(options)) {
    if (options_.common.tiny) options_.rounds = 1, options_.transactions = 20;
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["rounds"] = options_.rounds;
    parameters["transactions"] = options_.transactions;
    Report report("rtm_emulation", environment(options_.common.folder), parameters);
    report.print_head();
    for (std::size_t i = 0; i < kPageBytes; ++i) g_from[i] = static_cast<unsigned char>(i * 7);
    std::memset(g_to, 1, sizeof g_to);
    std::memset(g_lines, 1, sizeof g_lines);
    std::vector<double> plain[kRowCount], hardware[kRowCount], emulated[kRowCount];
    for (std::size_t round = 0; round < options_.rounds; ++round)
      for (std::size_t i = 0; i < kRowCount; ++i) {
        plain[i].push_back(measure([i] { return kRows[i].plain(), true; }));
        if (has_rtm()) hardware[i].push_back(measure(kRows[i].transaction));
      }
    if (tmh_rtm_emulation_start(1) <= 0) throw std::runtime_error("the emulator does not start");
    for (std::size_t round = 0; round < options_.rounds; ++round)
      for (std::size_t i = 0; i < kRowCount; ++i)
        emulated[i].push_back(measure(kRows[i].transaction));
    Table table({"transaction", "plain us", "hardware us", "emulated us",
                 "emulated, ns per access or page", "wanted us"});
    for (std::size_t i = 0; i < kRowCount; ++i)
      add(i, plain[i], hardware[i], emulated[i], emulated[0], &table, &report);
    std::printf("\nOne thread; median ±MAD %% of %zu rounds of %zu transactions\n", options_.rounds,
                options_.transactions);
    table.print();
    tmh_rtm_emulation_counters counters;
    tmh_rtm_emulation_get_counters(&counters);
    const bool right = std::memcmp(g_from, g_to, sizeof g_to) == 0 && counters.unsupported == 0 &&
                       counters.commits > 0;
    std::printf("\n%llu commits, %llu aborts; the copies are %s\n",
                static_cast<unsigned long long>(counters.commits),
                static_cast<unsigned long long>(counters.aborts), right ? "right" : "WRONG");
    report.write(options_.common.csv, options_.common.json);
    return right ? 0 : 1;
  }

 private:
  // Microseconds per committed transaction.
  double measure(const std::function<bool()> &transaction) const {
    TMH_ASSERT(transaction != nullptr && options_.transactions > 0);
    for (int i = 0; i < 10; ++i) (void)transaction();
    std::size_t committed = 0;
    const std::int64_t begin = now_ns();
    for (std::size_t attempts = 0; committed < options_.transactions; ++attempts) {
      if (attempts > 100 * options_.transactions)
        throw std::runtime_error("transactions do not commit");
      if (transaction()) ++committed;
    }
    return static_cast<double>(now_ns() - begin) / 1000 / static_cast<double>(committed);
  }

  static void add(std::size_t i, const std::vector<double> &plain,
                  const std::vector<double> &hardware, const std::vector<double> &emulated,
                  const std::vector<double> &empty, Table *table, Report *report) {
    TMH_ASSERT(i < kRowCount && table != nullptr && report != nullptr);
    Json json;
    put(json, "plain_us", summarize(plain));
    if (!hardware.empty()) put(json, "hardware_us", summarize(hardware));
    put(json, "emulated_us", summarize(emulated));
    std::string each = "-";
    if (kRows[i].units != 0) {
      const double ns = (summarize(emulated).median - summarize(empty).median) * 1000 /
                        static_cast<double>(kRows[i].units);
      json["emulated_ns_per_unit"] = ns;
      each = number(ns);
    }
    table->add({kRows[i].name, with_mad(summarize(plain)),
                hardware.empty() ? "no RTM" : with_mad(summarize(hardware)),
                with_mad(summarize(emulated)), each, kRows[i].units == 0 ? "10" : "-"});
    report->add(kRows[i].name, std::move(json));
  }

  Options options_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app{"Cost of transactions under the RTM emulator"};
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "measurements of each row").capture_default_str();
  app.add_option("--transactions", options.transactions, "per round and row").capture_default_str();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::EmulationBench(options).run(); });
}
