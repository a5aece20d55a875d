// bench/records.cpp -- a record from a command line: a process that opens, reads one record in a
// transaction, and ends; and files that are opened very often.
// Shape:   command   a process of this program for each run, from its start to its end; transaction
//                    is what of it the transaction alone takes.
//                      components          LIBTP's low-level calls: locks, pinned pages of an
//                                          index
//                      record              get of a B-tree, DB_SHARED | DB_TP
//                      components, server  the same calls, in a client of a running server
//                      record, server
//                      private             get of a private B-tree
//                      nothing             a process that opens nothing
//          opens     a private B-tree that is opened, called --calls times (get, put, del, seq) and
//                    closed, --opens times: by <tp/db.h>, and by 4.4BSD's code
// Checked: each run reads the record that it has asked for; both codes give the same answers.
// Source:  LIBTP, 3.3, figure 4.
#define TP_NO_SHORT_NAMES
#include <endian.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tp/db.h>
#include <tp/paper.h>

#include "bench/support/bsd_db.h"
#include "bench/support/clock.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/server_process.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

extern char **environ;

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  unsigned runs = 20, opens = 1'000, calls = 20;
};

constexpr std::uint32_t kRecords = 1'000;
struct Way {
  const char *name;
  const char *calls;  // of read_one()
  bool is_client = false;
};
constexpr std::array<Way, 6> kWays = {{{"components", "components"},
                                       {"record", "record"},
                                       {"components, server", "components", true},
                                       {"record, server", "record", true},
                                       {"private", "private"},
                                       {"nothing", "nothing"}}};

[[noreturn]] void refuse(const char *what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno) + "; " +
                           tp_last_error());
}

std::uint32_t value_of(std::uint32_t key) noexcept { return key * 2'654'435'761U; }

// A page of the index for low-level calls: the first is the root, whose values are pages.
struct IndexPage {
  static constexpr std::uint32_t kMax = 500;
  std::uint32_t count;
  std::uint32_t keys[kMax], values[kMax];
  // The last entry with a key of at most this one.
  [[nodiscard]] std::uint32_t find(std::uint32_t key) const noexcept {
    std::uint32_t low = 0, high = count;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      if (keys[middle] <= key)
        low = middle;
      else
        high = middle;
    }
    return values[low];
  }
};
static_assert(sizeof(IndexPage) <= 4096);

DB *open_tree(const std::string &home, bool is_private) {
  BTREEINFO info{};
  info.psize = 4096;
  DB *const tree =
      tp_dbopen((home + (is_private ? "/private" : "/shared")).c_str(), O_RDWR | O_CREAT, 0600,
                DB_BTREE, is_private ? 0 : DB_SHARED | DB_TP, &info);
  if (tree == nullptr) refuse("dbopen");
  return tree;
}
void open_environment(const std::string &home) {
  tp_options options{};
  options.durability = 1;
  if (tp_paper_open((home + "/home").c_str(), &options) != TP_OK) refuse("environment");
}
void begin() {
  if (tp_paper_begin() == 0) refuse("begin");
}
void commit() {
  if (tp_paper_commit() != TP_OK) refuse("commit");
}

std::uint32_t get(DB *tree, std::uint32_t wanted) {
  std::uint32_t key = htobe32(wanted), value = 0;
  const DBT k{&key, sizeof key};
  DBT data{};
  if (tree->get(tree, &k, &data, 0) != RET_SUCCESS) refuse("get");
  std::memcpy(&value, data.data, sizeof value);
  return value;
}

void make(const std::string &home) {
  open_environment(home);
  for (const bool is_private : {false, true}) {
    DB *const tree = open_tree(home, is_private);
    if (!is_private) begin();
    for (std::uint32_t i = 0; i < kRecords; ++i) {
      std::uint32_t key = htobe32(i), value = value_of(i);
      DBT k{&key, sizeof key};
      const DBT data{&value, sizeof value};
      if (tree->put(tree, &k, &data, 0) != RET_SUCCESS) refuse("put");
    }
    if (!is_private) commit();
    if (tree->close(tree) != RET_SUCCESS) refuse("close");
  }
  begin();
  const int file = tp_paper_buf_open("index", O_RDWR | O_CREAT, 0600);
  if (file < 0) refuse("buf_open");
  constexpr std::uint32_t kLeaf = 100;  // keys
  auto *const root = static_cast<IndexPage *>(tp_paper_buf_get(file, 0, BF_PIN, nullptr));
  if (root == nullptr) refuse("buf_get");
  for (std::uint32_t i = 0; i < kRecords; i += kLeaf) {
    const std::uint32_t page = 1 + i / kLeaf;
    auto *const leaf = static_cast<IndexPage *>(tp_paper_buf_get(file, page, BF_PIN, nullptr));
    if (leaf == nullptr) refuse("buf_get");
    root->keys[root->count] = i;
    root->values[root->count++] = page;
    for (std::uint32_t key = i; key < i + kLeaf; ++key) {
      leaf->keys[leaf->count] = key;
      leaf->values[leaf->count++] = value_of(key);
    }
    if (tp_paper_buf_unpin(leaf) != TP_OK) refuse("buf_unpin");
  }
  if (tp_paper_buf_unpin(root) != TP_OK) refuse("buf_unpin");
  commit();
  if (tp_paper_close() != TP_OK) refuse("close");
}

std::uint32_t read_by_components(int file, std::uint32_t key) {
  std::uint32_t found = 0;
  for (unsigned level = 0; level < 2; ++level) {
    const std::uint32_t page = found;
    if (tp_paper_lock(file, page, READ_LOCK) != TP_OK) refuse("lock");
    void *const bytes = tp_paper_buf_get(file, page, BF_PIN, nullptr);
    if (bytes == nullptr) refuse("buf_get");
    found = static_cast<const IndexPage *>(bytes)->find(key);
    if (tp_paper_buf_unpin(bytes) != TP_OK) refuse("buf_unpin");
  }
  return found;
}

// The process that is timed. Prints what it has read, and the nanoseconds of its transaction.
int read_one(const std::string &way, const std::string &home, std::uint32_t key) {
  std::uint32_t value = value_of(key);
  std::int64_t ns = 0;
  if (way == "components") {
    open_environment(home);
    const int file = tp_paper_buf_open("index", O_RDWR, 0600);
    if (file < 0) refuse("buf_open");
    const std::int64_t before = now_ns();
    begin();
    value = read_by_components(file, key);
    commit();
    ns = now_ns() - before;
    if (tp_paper_close() != TP_OK) refuse("close");
  } else if (way != "nothing") {
    const bool is_private = way == "private";
    if (!is_private) open_environment(home);
    DB *const tree = open_tree(home, is_private);
    const std::int64_t before = now_ns();
    if (!is_private) begin();
    value = get(tree, key);
    if (!is_private) commit();
    ns = now_ns() - before;
    if (tree->close(tree) != RET_SUCCESS) refuse("close");
    if (!is_private && tp_paper_close() != TP_OK) refuse("close");
  }
  std::printf("%u %lld\n", value, static_cast<long long>(ns));
  return 0;
}

struct Times {
  std::vector<double> ms, transaction_us;
};

class Records {
 public:
  explicit Records(const Options &options) : options_(options), scratch_(options.common.folder) {
    if (!options_.common.tiny) return;
    options_.rounds = 1;
    options_.runs = 1;
    options_.opens = 3;
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["seed"] = options_.common.seed;
    parameters["rounds"] = options_.rounds;
    parameters["runs"] = options_.runs;
    parameters["opens"] = options_.opens;
    parameters["calls"] = options_.calls;
    Report report("records", environment(scratch_.path()), parameters);
    report.print_head();
    run_alone([&] { make(scratch_.path()); });
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < kWays.size(); ++i) measure(kWays[(i + round) % kWays.size()]);
      measure_opens(round);
    }
    print(&report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  void measure(const Way &way) {
    Random random(options_.common.seed);
    std::vector<double> ms, us;
    std::optional<ServerProcess> server;
    if (way.is_client) {
      server.emplace(scratch_.path(), 1);
      (void)::setenv("TP_SERVER", server_socket(scratch_.path()).c_str(), 1);
    }
    for (unsigned i = 0; i < options_.runs; ++i) {
      const auto key = static_cast<std::uint32_t>(random.below(kRecords));
      const std::int64_t before = now_ns();
      us.push_back(run_one(way, key));
      ms.push_back(static_cast<double>(now_ns() - before) / 1e6);
    }
    (void)::unsetenv("TP_SERVER");
    Times &times = times_[way.name];
    times.ms.push_back(summarize(ms).median);
    times.transaction_us.push_back(summarize(us).median);
  }

  // Microseconds of its transaction.
  [[nodiscard]] double run_one(const Way &way, std::uint32_t key) const {
    const std::string told = scratch_.path() + "/told", number = std::to_string(key);
    std::array<const char *, 7> words = {"records", "--one", way.calls, "--home",
                                         nullptr,   nullptr, nullptr};
    words[4] = scratch_.path().c_str();
    words[5] = number.c_str();
    posix_spawn_file_actions_t actions;
    (void)::posix_spawn_file_actions_init(&actions);
    (void)::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, told.c_str(),
                                             O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    const int error = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr,
                                    const_cast<char *const *>(words.data()), environ);
    (void)::posix_spawn_file_actions_destroy(&actions);
    int status = -1;
    if (error == 0) (void)::waitpid(child, &status, 0);
    std::FILE *const file = std::fopen(told.c_str(), "r");
    unsigned value = 0;
    long long ns = 0;
    const int read = file == nullptr ? 0 : std::fscanf(file, "%u %lld", &value, &ns);
    if (file != nullptr) (void)std::fclose(file);
    if (status != 0 || read != 2 || value != value_of(key))
      throw std::runtime_error(std::string(way.name) + ": the process has not read its record");
    return static_cast<double>(ns) / 1000;
  }

  void measure_opens(std::size_t round) {
    const bool has_other = why_no_bsd_db().empty();
    std::uint64_t answers[2] = {};
    for (unsigned i = 0; i < 2; ++i) {
      const bool is_other = (i + round) % 2 == 1;
      if (is_other && !has_other) continue;
      const std::string file = scratch_.path() + "/opened";
      (void)::unlink(file.c_str());
      const Shared<std::uint64_t> hash;
      const double ns = run_team_ns(1, [&](unsigned, const TeamClock &clock) {
        const DbOpen own = ::dbopen, open = is_other ? bsd_dbopen() : own;
        clock.start();
        *hash = call_often(open, file);
        clock.finish();
      });
      answers[is_other ? 1 : 0] = *hash;
      (is_other ? others_opens_ : opens_).push_back(ns / 1e6);
    }
    if (has_other && answers[0] != answers[1])
      throw std::runtime_error("4.4BSD's code gives other answers");
  }

  [[nodiscard]] std::uint64_t call_often(DbOpen open, const std::string &file) const {
    ResultHash hash;
    Random random(options_.common.seed);
    for (unsigned i = 0; i < options_.opens; ++i) {
      DB *const tree = open(file.c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE, nullptr);
      if (tree == nullptr) refuse("open");
      for (unsigned j = 0; j < options_.calls; ++j) call(tree, &random, &hash);
      if (tree->close(tree) != RET_SUCCESS) refuse("close");
    }
    return hash.value();
  }
  static void call(DB *tree, Random *random, ResultHash *hash) {
    std::uint32_t key = htobe32(static_cast<std::uint32_t>(random->below(kRecords)));
    std::array<std::uint32_t, 16> value{};
    value[0] = static_cast<std::uint32_t>(random->below(kRecords));
    DBT k{&key, sizeof key}, data{value.data(), sizeof value};
    const std::uint64_t which = random->below(10);
    int status = 0;
    if (which < 4) {
      status = tree->get(tree, &k, &data, 0);
    } else if (which < 7) {
      status = tree->put(tree, &k, &data, 0);
    } else if (which < 8) {
      status = tree->del(tree, &k, 0);
    } else {
      status = tree->seq(tree, &k, &data, R_CURSOR);
    }
    if (status == RET_ERROR) refuse("a call");
    hash->add(static_cast<std::uint64_t>(status));
    if (status != RET_SUCCESS || which >= 4) return;
    std::uint32_t first = 0;
    std::memcpy(&first, data.data, sizeof first);
    hash->add(first);
  }

  void print(Report *report) const {
    TMH_ASSERT(report != nullptr);
    Table table({"a record", "ms, process", "us, transaction"});
    for (const Way &way : kWays) {
      const Times &times = times_.at(way.name);
      const Summary ms = summarize(times.ms), us = summarize(times.transaction_us);
      Json line;
      line["way"] = way.name;
      put(line, "ms", ms);
      put(line, "transaction_us", us);
      table.add({way.name, with_mad(ms), with_mad(us)});
      report->add("command", std::move(line));
    }
    std::printf("\nOne record from a command line, median of %u runs and %zu rounds\n",
                options_.runs, options_.rounds);
    table.print();
    Table opens({"opens", "ms", "x 4.4BSD"});
    const Summary ours = summarize(opens_);
    Json line;
    line["code"] = "private files";
    put(line, "ms", ours);
    std::string ratio = "-";
    if (!others_opens_.empty()) {
      const Summary times = summarize_ratio(others_opens_, opens_);
      put(line, "times_bsd", times);
      ratio = with_mad(times);
    } else {
      std::printf("SKIPPED 4.4BSD: %s\n", why_no_bsd_db().c_str());
    }
    report->add("opens", std::move(line));
    opens.add({"private files", with_mad(ours), ratio});
    if (!others_opens_.empty()) {
      Json other;
      other["code"] = "4.4BSD";
      put(other, "ms", summarize(others_opens_));
      report->add("opens", std::move(other));
      opens.add({"4.4BSD", with_mad(summarize(others_opens_)), "1"});
    }
    std::printf("\n%u opens of %u calls each (wanted: >= 0.8 x 4.4BSD)\n", options_.opens,
                options_.calls);
    opens.print();
  }

  Options options_;
  ScratchFolder scratch_;
  std::map<std::string, Times> times_;
  std::vector<double> opens_, others_opens_;  // ms
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  // A process that reads one record parses no options: it is timed.
  if (argc == 6 && std::string_view(argv[1]) == "--one") {
    try {
      return tmh::bench::read_one(argv[2], argv[4], static_cast<std::uint32_t>(std::atoi(argv[5])));
    } catch (const std::exception &error) {
      std::fprintf(stderr, "records: %s\n", error.what());
      return 1;
    }
  }
  tmh::bench::Options options;
  tmh::bench::CommandLine app("A record from a command line; files that are opened often",
                              "records");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--runs", options.runs, "processes of each way in a round")
      .capture_default_str()
      .check_positive();
  app.add_option("--opens", options.opens, "of the file that is opened often")
      .capture_default_str()
      .check_positive();
  app.add_option("--calls", options.calls, "between an open and its close")
      .capture_default_str()
      .check_positive();
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::Records(options).run(); });
}
