// bench/support/tp_server.cpp -- clients of a server, and scripts.
#include "bench/support/tp_server.h"

#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <tp/server.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "bench/support/server_process.h"
#include "bench/support/tp_db.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

[[noreturn]] void refuse(const std::string &what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}
[[nodiscard]] std::uint64_t key_of_row(unsigned process, std::uint64_t number) noexcept {
  return process * kHistoryRows + number % kHistoryRows;
}

}  // namespace

std::unique_ptr<BankSession> open_server_bank(const std::string &folder, const BankScale &scale,
                                              unsigned process, int durability) {
  (void)::setenv("TP_SERVER", server_socket(folder).c_str(), 1);
  return open_db_bank(folder, scale, process, DbFiles::kTransactions, durability);
}

// ---- A request for each transaction ----------------------------------------------------------

namespace {

class RequestBank final : public BankSession {
 public:
  RequestBank(const std::string &folder, const BankScale &scale, unsigned process, int durability)
      : process_(process),
        spread_(scale.spread()),
        reader_(open_server_bank(folder, scale, process, durability)),
        server_(tp_server_connect(server_socket(folder).c_str())) {
    if (server_ == nullptr) refuse("connect");
    constexpr const char *kFiles[] = {"/accounts", "/tellers", "/branches", "/history"};
    for (std::size_t i = 0; i < std::size(kFiles); ++i) {
      files_[i] = tp_server_dbopen(server_, (folder + kFiles[i]).c_str(), O_RDWR, 0, DB_BTREE,
                                   DB_SHARED | DB_TP, nullptr);
      if (files_[i] < 0) refuse("open");
    }
  }
  ~RequestBank() override { (void)tp_server_close(server_); }
  RequestBank(const RequestBank &) = delete;
  RequestBank &operator=(const RequestBank &) = delete;

  void transact(const Transfer &transfer) override {
    HistoryRow row{transfer.number, transfer.teller, transfer.account, transfer.amount};
    std::uint64_t keys[] = {htobe64(transfer.account), htobe64(transfer.teller * spread_),
                            htobe64(transfer.branch * spread_),
                            htobe64(key_of_row(process_, transfer.number))};
    std::array<tp_server_op, 4> ops{};
    for (std::size_t i = 0; i < ops.size(); ++i) {
      ops[i].kind = TP_SERVER_ADD;
      ops[i].db = files_[i];
      ops[i].number = static_cast<std::uint64_t>(transfer.amount);
      ops[i].key = {&keys[i], sizeof keys[i]};
    }
    ops[3].kind = TP_SERVER_PUT;
    ops[3].data = {&row, sizeof row};
    for (;;) {
      std::array<tp_server_op, 4> sent = ops;
      const int result = tp_server_batch(server_, sent.data(), sent.size(), 0, nullptr);
      if (result == 0) return;
      if (result != RET_ERROR || errno != EDEADLK) refuse("request");
      ++retries_;
    }
  }
  BankSums sums() override { return reader_->sums(); }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    return reader_->row(process, number);
  }
  std::uint64_t retries() const override { return retries_; }

 private:
  const unsigned process_;
  const std::uint64_t spread_;
  const std::unique_ptr<BankSession> reader_;
  tp_server *const server_;
  std::array<int, 4> files_{};
  std::uint64_t retries_ = 0;
};

}  // namespace

std::unique_ptr<BankSession> open_request_bank(const std::string &folder, const BankScale &scale,
                                               unsigned process, int durability) {
  return std::make_unique<RequestBank>(folder, scale, process, durability);
}

// ---- Tcl ----------------------------------------------------------------------------------------

namespace {

#ifdef TMH_BENCH_TCL
constexpr const char *kTclLibrary = TMH_BENCH_TCL;
#else
constexpr const char *kTclLibrary = nullptr;
#endif

// Balances are 8 bytes, low byte first; a row is four of these.
constexpr const char *kProgram = R"tcl(
  foreach file {branches tellers accounts history} {
    set $file [tp::dbopen $folder/$file rdwr 0 btree -tp -cachesize 67108864]
  }
  proc add {db number amount} {
    set key [binary format W $number]
    binary scan [$db get $key] w balance
    $db put $key [binary format w [expr {$balance + $amount}]]
  }
  proc transact {account teller branch amount row number} {
    global branches tellers accounts history spread
    tp::txn begin
    add $accounts $account $amount
    add $tellers [expr {$teller * $spread}] $amount
    add $branches [expr {$branch * $spread}] $amount
    $history put [binary format W $row] [binary format wwww $number $teller $account $amount]
    tp::txn commit
  }
  proc sum {db} {
    set sum 0
    for {set r [$db seq first]} {[llength $r]} {set r [$db seq next]} {
      binary scan [lindex $r 1] w balance
      incr sum $balance
    }
    return $sum
  }
  proc row {row} {
    binary scan [$::history get [binary format W $row]] wwww number teller account amount
    return "$number $teller $account $amount"
  }
)tcl";

class TclBank final : public BankSession {
 public:
  TclBank(const std::string &folder, const BankScale &scale, unsigned process, int durability)
      : process_(process) {
    (void)::setenv("TP_HOME", (folder + "/home").c_str(), 1);
    (void)::setenv("TP_DURABILITY",
                   durability == 0   ? "none"
                   : durability == 1 ? "strict"
                                     : "buffered",
                   1);
    void *const library = kTclLibrary == nullptr ? nullptr : ::dlopen(kTclLibrary, RTLD_NOW);
    if (library == nullptr) throw std::runtime_error("Tcl: the package is not there");
    run_ = reinterpret_cast<Run>(::dlsym(library, "tp_tcl_run"));
    interp_ = reinterpret_cast<void *(*)()>(::dlsym(library, "tp_tcl_make"))();
    if (interp_ == nullptr) throw std::runtime_error("Tcl: no interpreter");
    (void)run("set folder {" + folder + "}; set spread " + std::to_string(scale.spread()));
    (void)run(kProgram);
  }

  void transact(const Transfer &transfer) override {
    std::array<char, 200> line{};
    (void)std::snprintf(line.data(), line.size(), "transact %lu %lu %lu %ld %lu %lu",
                        transfer.account, transfer.teller, transfer.branch, transfer.amount,
                        key_of_row(process_, transfer.number), transfer.number);
    (void)run(line.data());
  }
  BankSums sums() override {
    const auto sum = [&](const char *file) { return std::stoll(run(std::string("sum $") + file)); };
    return {sum("branches"), sum("tellers"), sum("accounts")};
  }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    const std::string told = run("row " + std::to_string(key_of_row(process, number)));
    HistoryRow row{};
    if (std::sscanf(told.c_str(), "%lu %lu %lu %ld", &row.number, &row.teller, &row.account,
                    &row.amount) != 4)
      throw std::runtime_error("Tcl: " + told);
    return row;
  }
  std::uint64_t retries() const override { return 0; }

 private:
  using Run = int (*)(void *, const char *, std::size_t, std::uint64_t, const char **,
                      std::size_t *);
  std::string run(const std::string &script) {
    constexpr std::uint64_t kMs = 600'000;
    const char *result = nullptr;
    std::size_t bytes = 0;
    const int failed = run_(interp_, script.data(), script.size(), kMs, &result, &bytes);
    const std::string told(result, bytes);
    if (failed != 0) throw std::runtime_error("Tcl: " + told);
    return told;
  }

  const unsigned process_;
  Run run_ = nullptr;
  void *interp_ = nullptr;
};

}  // namespace

bool has_tcl() noexcept { return kTclLibrary != nullptr; }

std::unique_ptr<BankSession> open_tcl_bank(const std::string &folder, const BankScale &scale,
                                           unsigned process, int durability) {
  return std::make_unique<TclBank>(folder, scale, process, durability);
}

}  // namespace tmh::bench
