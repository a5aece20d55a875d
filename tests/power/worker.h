// tests/power/worker.h -- random transactions on a World, with their intents and acknowledgements
// in the journal.
// Sharing:   one Worker per process; the number of a worker and of its attempts makes the ids of
//            its transactions.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "tests/power/journal.h"
#include "tests/power/world.h"

namespace tmh::test::power {

struct WorkerPlan {
  std::uint32_t worker = 0;  // its list is worker % kLists
  std::uint64_t first_attempt = 1;
  std::uint64_t seed = 0;
  // Nothing but G and the table: log records of 128 bytes, one like the other. The worker's first
  // one has `first_words` words more.
  bool only_ledger = false;
  std::uint32_t first_words = 0;
  bool explicit_checkpoints = true;
  std::string archive;  // folder for log files; empty: they are not archived
  // Instances begin at random kinds of sites, and are acknowledged in random ways, one of which is
  // the domain's own.
  bool mixes = false;
  // An end() that throws promises that nothing of the transaction will ever be seen.
  bool errors_abort = false;
};

class Worker {
 public:
  Worker(World *world, Journal *journal, const WorkerPlan &plan);
  // One random thing. False: the world or the journal is full.
  bool step();
  // One update; runs until it has committed. False: the world is full.
  bool update(bool strict) { return update(strict ? Durability::kStrict : Durability::kBuffered); }
  bool update(Durability how);
  [[nodiscard]] std::uint64_t attempts() const noexcept { return attempt_; }
  // reads_durable_only: as it was opened. What an instance sees is durable then, whatever becomes
  // of it.
  void set_world(World *world, bool reads_durable_only) noexcept {
    world_ = world;
    reads_durable_only_ = reads_durable_only;
  }

 private:
  [[nodiscard]] bool update_at(const Site &site, Durability how);
  [[nodiscard]] bool update_at_pages(Durability how);
  [[nodiscard]] const Site *site_of_next();  // null: of none
  [[nodiscard]] Durability choose_durability();
  [[nodiscard]] Note acknowledgement(Durability how);
  // Inside an instance.
  [[nodiscard]] std::uint64_t read_g();
  [[nodiscard]] Effects choose_effects();
  [[nodiscard]] Effects choose_small_effects();
  [[nodiscard]] Effects new_effects();
  void add_transfer(Effects *effects);
  void add_stamp(Effects *effects);
  void add_many(Effects *effects);
  void add_fill(Effects *effects);
  void add_list_change(Effects *effects);
  void add_late_page(Effects *effects);
  void read_only();
  void flush();
  void grow();
  [[nodiscard]] std::uint64_t random(std::uint64_t below) { return random_() % below; }

  World *world_;
  Journal *journal_;
  WorkerPlan plan_;
  std::mt19937_64 random_;
  std::uint64_t attempt_;
  bool reads_durable_only_ = false;
};

}  // namespace tmh::test::power
