// examples/workloads/workload.hpp -- built-in workloads: content in a segment, operations drawn at
// random, and an invariant that tells at the end whether every operation happened wholly or not at
// all.
// Shape:     one raw segment: a page that says what it is, a page per worker for its tally, then
//            the content. Everything is reached through tmh::field, so an operation runs at lines,
//            in RTM or at pages.
//            Whoever updates notes it in its tally within the same instance. So what the tallies
//            say and what the content is agree at every commit, whoever is killed; the price is one
//            more line (or page) written per update, which nobody else writes.
// Sharing:   a Workload is a process's view of the content, its Workers are one thread's each.
//            Worker indices are unique among all processes.
// Contexts:  outside instances.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tmh/field.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "examples/workloads/random.hpp"

namespace workloads {

inline constexpr unsigned kWorkersMax = 256;

struct Description {
  const char *name;
  const char *about;
  const char *unit;    // of size
  std::uint64_t size;  // by default
  // Beyond it the content would not fit one segment of 1 TiB, or take hours to make.
  std::uint64_t size_max;
  double skew;       // by default; negative: it has none
  int read_percent;  // by default; negative: it has no share to choose
};
[[nodiscard]] const std::vector<Description> &descriptions();
[[nodiscard]] const Description *find(std::string_view name);  // null: no such workload

// A negative or zero member means the workload's own.
struct Plan {
  const Description *workload = nullptr;
  std::uint64_t size = 0;
  double skew = -1;  // zipfian constant in [0, 1), 0: all elements alike
  int read_percent = -1;
  std::uint64_t seed = 1;
  std::string escalation;  // of its sites; empty: the domain's
  // Reads of very much run as any instance, not as queries (which go up).
  bool whole_reads_at_lines = false;
  // A number that workers of all processes draw from; in memory that they share.
  std::atomic<std::uint64_t> *next_number = nullptr;
};

// A read has seen what never was.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Verdict {
  bool holds = true;
  std::string text;  // what was found
  void expect(bool condition, const std::string &what) {
    if (condition) return;
    text = holds ? what : text + "; " + what;
    holds = false;
  }
};

// What a worker's committed updates amount to. Alone in its page.
struct Tally {
  tmh::field<std::uint64_t> updates;
  tmh::field<std::int64_t> grown;  // elements
  tmh::field<std::int64_t> sum;    // of whatever the workload adds up
};

class Worker {
 public:
  virtual ~Worker() = default;
  // One operation, committed on return.
  virtual void step() = 0;
  // Committed, by this worker.
  [[nodiscard]] std::uint64_t updates() const noexcept { return updates_; }

 protected:
  Worker(Tally &tally, std::uint64_t seed) : tally_(tally), random_(seed) {}
  // One updating instance of fields, with its note in the tally. Body returns what it adds to
  // (grown, sum).
  struct Change {
    std::int64_t grown = 0, sum = 0;
  };
  template <class Body>
  void update(const tmh::Site &site, Body &&body) {
    tmh::atomically(site, [&](tmh::Fields) {
      const Change change = body();
      ++tally_.updates;
      if (change.grown != 0) tally_.grown += change.grown;
      if (change.sum != 0) tally_.sum += change.sum;
    });
    ++updates_;
  }

  Tally &tally_;
  Random random_;

 private:
  std::uint64_t updates_ = 0;
};

class Workload {
 public:
  virtual ~Workload() = default;
  Workload(const Workload &) = delete;
  Workload &operator=(const Workload &) = delete;
  // Makes the content, or what is missing of it, in instances of moderate size. Throws
  // Error(kBadArgument) when the segment has another workload's content, or one of another size.
  void set_up();
  // The same, one portion after the other as long as go_on() says so. False: the content is not
  // complete.
  [[nodiscard]] bool set_up_while(const std::function<bool()> &go_on);
  // REQUIRES set_up(). index below kWorkersMax.
  [[nodiscard]] virtual std::unique_ptr<Worker> make_worker(unsigned index) = 0;
  // In one query, at any time: an operation that is under way has happened in it, or has not.
  [[nodiscard]] Verdict verify();
  [[nodiscard]] std::uint64_t updates_of(unsigned worker);
  // In this process.
  [[nodiscard]] virtual std::vector<tmh::SiteReport> reports() const { return {site_.report()}; }

 protected:
  // isolation: of the site's updates at level 2; unset: the domain's.
  Workload(const tmh::Domain &domain, const Plan &plan, std::uint64_t content_bytes,
           tmh::Isolation isolation = {});
  // Instances that make the content.
  [[nodiscard]] virtual std::uint64_t portions() const { return 1; }
  virtual void fill(std::uint64_t portion) = 0;  // inside one, on zeros
  // Once, before workers, in one process.
  virtual void prepare() {}
  virtual void check(Verdict *verdict) = 0;  // inside a query

  [[nodiscard]] std::byte *content() const noexcept;
  [[nodiscard]] Tally &tally(unsigned worker) const noexcept;
  [[nodiscard]] std::uint64_t seed_of(unsigned worker) const noexcept {
    return plan_.seed * kWorkersMax + worker;
  }
  struct Sums {
    std::uint64_t updates = 0;
    std::int64_t grown = 0, sum = 0;
  };
  [[nodiscard]] Sums sums() const;  // inside a query
  // Of more than an instance of level 1 should touch.
  template <class Body>
  static auto read_much(const tmh::Site &site, const Plan &plan, Body &&body) {
    const auto read = [&](tmh::Fields) { return body(); };
    return plan.whole_reads_at_lines ? tmh::atomically(site, read) : tmh::query(site, read);
  }

  const tmh::Domain domain_;
  const Plan plan_;
  const std::uint64_t bytes_;  // of the segment
  tmh::Segment segment_;
  const tmh::Site site_;

 private:
  struct Header;
  [[nodiscard]] Header &header() const noexcept;
};

// Maps the workload's segment in `domain`, and makes it when it is missing. Completes nothing yet:
// see set_up().
[[nodiscard]] std::unique_ptr<Workload> open(const tmh::Domain &domain, Plan plan);

// One of each kind: what open() chooses from.
[[nodiscard]] std::unique_ptr<Workload> make_bank(const tmh::Domain &domain, const Plan &plan);
[[nodiscard]] std::unique_ptr<Workload> make_list(const tmh::Domain &domain, const Plan &plan);
[[nodiscard]] std::unique_ptr<Workload> make_tree(const tmh::Domain &domain, const Plan &plan);
[[nodiscard]] std::unique_ptr<Workload> make_hash(const tmh::Domain &domain, const Plan &plan);
[[nodiscard]] std::unique_ptr<Workload> make_mixed(const tmh::Domain &domain, const Plan &plan);
[[nodiscard]] std::unique_ptr<Workload> make_ycsb(const tmh::Domain &domain, const Plan &plan);
[[nodiscard]] std::unique_ptr<Workload> make_tpcb(const tmh::Domain &domain, const Plan &plan);

}  // namespace workloads
