// bench/support/durable_contestant.h -- what bench/durable_commit compares: stores that keep
// records durably.
// Shape:     a Contestant is made once, in the parent, and shared with the forked members; it holds
//            no handle of its store. create() and open() run in members, each with its own Session.
//            A round: create() in one process, which also loads some records; then several
//            processes open() and commit(); then a last one reads everything back.
// Contexts:  all storage libraries here forbid carrying an open handle through fork(): hence no
//            handle in the parent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tmh/options.hpp>

namespace tmh::bench {

inline constexpr std::size_t kValueBytes = 512;
using Value = std::array<char, kValueBytes>;
static_assert(kValueBytes % sizeof(std::uint64_t) == 0 && sizeof(Value) == kValueBytes);

struct Record {
  std::uint64_t key = 0;
  Value value{};
};
static_assert(std::is_trivially_copyable_v<Record> &&
              sizeof(Record) == sizeof(std::uint64_t) + kValueBytes);

// Record `index` of the sequence of `seed`: distinct keys in random order, values of random bytes.
[[nodiscard]] Record make_record(std::uint64_t seed, std::uint64_t index) noexcept;

struct Plan {
  unsigned processes = 1;
  std::uint64_t commits = 0;  // of all processes together, everything included
};

// One process's connection. Closed by the destructor, after the clock has stopped.
class Session {
 public:
  virtual ~Session() = default;
  // One transaction that inserts all `records`; durable at return. Retried until it commits.
  virtual void commit(std::span<const Record> records) = 0;
  // Bytes that commits have put into the log so far; see Contestant::counts_log.
  [[nodiscard]] virtual std::uint64_t log_bytes() { return 0; }
  // Attempts that were undone and begun again: deadlocks, conflicts, refused locks.
  [[nodiscard]] virtual std::uint64_t retries() const { return 0; }
  // In ascending order of keys.
  virtual void scan(const std::function<void(std::uint64_t key, const char *value)> &visit) = 0;
};

enum class CountsLog : std::uint8_t {
  kNo,          // has no log
  kOwn,         // each session counts its own
  kOfEverybody  // each session tells the sum of all
};

class Contestant {
 public:
  virtual ~Contestant() = default;
  // Of --only and of the rows.
  [[nodiscard]] const std::string &name() const noexcept { return name_; }
  [[nodiscard]] const std::string &note() const noexcept {
    return note_;
  }  // where durability differs; "" if it does not
  [[nodiscard]] CountsLog counts_log() const noexcept { return counts_log_; }
  // False: nothing is scanned.
  [[nodiscard]] bool keeps_records() const noexcept { return keeps_records_; }
  // Whether it takes part with this many processes.
  [[nodiscard]] virtual bool runs_with(unsigned processes) const { return processes > 0; }
  // Why it cannot work in `folder`; empty when it can. Leaves nothing there.
  [[nodiscard]] virtual std::string why_unavailable(const std::string &folder) const {
    return (void)folder, "";
  }
  // In the parent, before the members of a measurement are forked: what they share besides the
  // folder.
  virtual void prepare(const Plan &plan) { (void)plan; }
  // In an empty folder.
  virtual void create(const std::string &folder, const Plan &plan) = 0;
  [[nodiscard]] virtual std::unique_ptr<Session> open(const std::string &folder,
                                                      unsigned index) = 0;

 protected:
  Contestant(std::string name, CountsLog counts_log, bool keeps_records = true,
             std::string note = {})
      : name_(std::move(name)),
        note_(std::move(note)),
        counts_log_(counts_log),
        keeps_records_(keeps_records) {}

 private:
  std::string name_, note_;
  CountsLog counts_log_;
  bool keeps_records_;
};

using Contestants = std::vector<std::unique_ptr<Contestant>>;

// The makers, each in its own file. With Durability::kNone the same set-ups without the wait for
// the device, as each library's manual offers it; not kBuffered. An opponent whose library was not
// found at build time is named in *not_built instead.
void add_floor(Contestants *all, std::uint64_t log_bytes);
void add_berkeley_db(Contestants *all, Durability durability);
void add_lmdb(Contestants *all, Durability durability);
void add_sqlite(Contestants *all, Durability durability);
void add_opponents(Contestants *all, Durability durability, std::vector<std::string> *not_built);
void add_tmh(Contestants *all);
// The search trees, on this library and on the thesis's mechanism. block_bytes: of the B+-tree's
// nodes, one of tree_block_sizes(). In hybrid domains: tmh-hybrid-*.
void add_tmh_trees(Contestants *all, Durability durability, std::size_t block_bytes);
void add_thesis_trees(Contestants *all, Durability durability);
[[nodiscard]] std::span<const std::size_t> tree_block_sizes() noexcept;

// Everything, in the order of the tables.
[[nodiscard]] Contestants make_contestants(std::uint64_t floor_log_bytes,
                                           std::vector<std::string> *not_built);

}  // namespace tmh::bench
