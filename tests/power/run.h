// tests/power/run.h -- a recorded life of a domain: workers that commit, die and are replaced, and
// everything they did to the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <tmh/options.hpp>

#include "observe/planted.h"
#include "tests/power/journal.h"
#include "tests/power/worker.h"
#include "tests/support/children.h"
#include "tests/support/mixes.h"

namespace tmh::test::power {

// What one worker does.
struct Job {
  std::string folder;
  Journal *journal = nullptr;
  WorkerPlan worker;
};

struct RunPlan {
  DomainOptions options;
  // Of each opening, if set: options and threads; what it says of the domain is the same each time.
  MixOf mix_of;
  std::uint32_t workers = 4;         // processes
  std::uint64_t entries = 30'000;    // of the journal; the run ends there
  std::uint32_t kill_every_ms = 60;  // one worker is killed and replaced about so often; 0: never
  std::uint32_t massacres = 1;       // so often all are killed at once
  // Steps after which a worker closes and opens the domain; 0: never.
  std::uint32_t reopen_every = 300;
  bool only_ledger = false;
  bool archives = false;  // log files are moved to a folder in the domain's folder
  // Between a fast NVMe drive's write and a SATA one's, so that groups of commits form.
  DiskPace pace{300, 0};
  bool stalls = false;  // workers run in random schedules
  observe::Planted planted = observe::Planted::kNone;
  bool record_disk = true;  // false: notes only, at the disk's own pace
  // Both or none: what is done instead of random transactions on a World until `stop` says so, and
  // instead of an audit of one. Notes are the functions' own.
  std::function<void(const Job &job, const std::atomic<bool> &stop)> work;
  std::function<void(const Job &job)> audit;
};

// A write or new length that its killed process may have died in either happened or not, for
// survivors and disk alike: notes what its file shows. REQUIRES: the journal says that it died.
// Others may be appending: their last operations are not looked at.
void note_what_was_done(Journal *journal, std::int32_t process);

// Runs one workers of workers in `folder`; every hand over of the domain is examined and recorded.
class Workers {
 public:
  Workers(std::string folder, const RunPlan &plan, Journal *journal, std::uint64_t seed);
  ~Workers();

  void start();
  // Until the journal has so many entries, with the deaths of the plan.
  void work_until(std::uint64_t entries);
  void kill_all();
  // Everybody closes.
  void stop();
  // One process alone opens, examines against the journal so far, records what it found, and
  // closes. Failures are the test's.
  void audit(const std::string &when);
  [[nodiscard]] std::uint64_t kills() const noexcept { return kills_; }
  [[nodiscard]] bool someone_works();

 private:
  struct Shared;
  void spawn(std::size_t place);
  [[nodiscard]] bool can_spawn() const noexcept;
  void kill(std::size_t place);
  void replace_the_dead();

  std::string folder_;
  RunPlan plan_;
  Journal *journal_;
  std::mt19937_64 random_;
  std::unique_ptr<Shared> shared_;
  Children children_;
  std::vector<std::size_t> child_of_;  // by place
  std::uint32_t next_worker_ = 0;
  std::uint64_t kills_ = 0;
};

// A whole run in a folder of its own. The journal is then complete.
struct Recording {
  std::string folder;
  std::shared_ptr<Journal> journal;
  std::vector<Entry> entries;
};
[[nodiscard]] Recording record_run(const RunPlan &plan, std::uint64_t seed);
// Into a file of its own: its name.
[[nodiscard]] std::string save(const Recording &recording);
[[nodiscard]] Recording load_recording(const std::string &file);

}  // namespace tmh::test::power
