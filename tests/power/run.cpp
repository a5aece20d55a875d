// tests/power/run.cpp -- what workers do and how they die.
#include "tests/power/run.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "observe/planted.h"
#include "platform/disk.h"
#include "tests/power/judge.h"
#include "tests/power/promises.h"
#include "tests/support/shared.h"
#include "tests/support/stalls.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {

struct Workers::Shared {
  test::Shared<std::atomic<bool>> stop;
  test::Shared<std::atomic<std::uint64_t>> finished;  // steps of all workers
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWorkersEver = 480;  // their stamps have room for so many

// Of one process, at most.
std::uint32_t threads_of(const RunPlan &plan) noexcept { return plan.mix_of ? 3 : 1; }

// Whether the file shows that the write or new length has happened; nullopt: it has another name by
// now.
std::optional<bool> was_done(const Entry &entry) {
  const std::string path(entry.path);
  if (entry.op() == platform::DiskOp::kTruncate) {
    std::error_code missing;
    const std::uint64_t length = std::filesystem::file_size(path, missing);
    // Files only grow. A longer one has been grown again by somebody who knew no better.
    return missing ? std::nullopt : std::optional(length >= entry.offset);
  }
  std::ifstream file(path, std::ios::binary);
  std::string now(entry.data.size(), '\0');
  if (!file.seekg(static_cast<std::streamoff>(entry.offset))) return std::nullopt;
  file.read(now.data(), static_cast<std::streamsize>(now.size()));
  return file && std::memcmp(now.data(), entry.data.data(), now.size()) == 0;
}

// One process: it opens the domain again and again.
class Life {
 public:
  Life(const Job &job, const RunPlan &plan, const std::atomic<bool> &stop,
       std::atomic<std::uint64_t> *finished)
      : job_(job), plan_(plan), stop_(stop), finished_(finished), random_(job.worker.seed) {}

  void go() {
    if (plan_.record_disk) record_into(job_.journal, plan_.pace);
    if (plan_.stalls) stall_at_steps(job_.worker.seed);
    observe::plant(plan_.planted);
    if (plan_.work) return plan_.work(job_, stop_);
    std::vector<Worker> workers;  // of threads, which keep their numbers
    for (std::uint32_t i = 0; i < threads_of(plan_); ++i) {
      WorkerPlan plan = job_.worker;
      plan.worker += i;
      plan.seed += i;
      plan.mixes = static_cast<bool>(plan_.mix_of);
      workers.emplace_back(nullptr, job_.journal, plan);
    }
    do {
      ProcessMix mix;
      mix.options = plan_.options;
      if (plan_.mix_of) mix = plan_.mix_of(random_());
      World world(job_.folder, mix.options, mix.threads > 1);
      std::vector<std::thread> threads;
      for (std::uint64_t i = 1; i < mix.threads; ++i)
        threads.emplace_back([&, i] {
          try {
            work(&workers[i], &world, mix);
          } catch (const std::exception &error) {
            ADD_FAILURE() << error.what();
          }
        });
      work(workers.data(), &world, mix);
      for (std::thread &thread : threads) thread.join();
      world.close();
    } while (!stop_.load() && !is_full_);
  }

 private:
  void work(Worker *worker, World *world, const ProcessMix &mix) {
    worker->set_world(world, mix.options.policies.early_release == EarlyRelease::kOff);
    for (std::uint64_t step = 1; !stop_.load(); ++step) {
      if (!worker->step()) is_full_ = true;
      if (is_full_) return;
      finished_->fetch_add(1);
      if (plan_.reopen_every != 0 && step % plan_.reopen_every == 0) return;
    }
  }

  const Job &job_;
  const RunPlan &plan_;
  const std::atomic<bool> &stop_;
  std::atomic<std::uint64_t> *const finished_;
  std::mt19937_64 random_;
  std::atomic<bool> is_full_ = false;
};

}  // namespace

void note_what_was_done(Journal *journal, std::int32_t process) {
  using platform::DiskOp;
  for (const Entry &entry : journal->read()) {
    if (!entry.uncertain || entry.process != process) continue;
    if (entry.op() != DiskOp::kWrite && entry.op() != DiskOp::kWriteDurable &&
        entry.op() != DiskOp::kTruncate)
      continue;
    if (const std::optional<bool> done = was_done(entry))
      journal->note(*done ? Note::kDone : Note::kNotDone, entry.number);
  }
}

Workers::Workers(std::string folder, const RunPlan &plan, Journal *journal, std::uint64_t seed)
    : folder_(std::move(folder)),
      plan_(plan),
      journal_(journal),
      random_(seed),
      shared_(std::make_unique<Shared>()) {
  child_of_.resize(plan.workers);
}

Workers::~Workers() = default;

void Workers::spawn(std::size_t place) {
  Job job{folder_, journal_, {}};
  job.worker.worker = next_worker_;
  next_worker_ += threads_of(plan_);
  job.worker.seed = random_();
  job.worker.only_ledger = plan_.only_ledger;
  if (plan_.archives) job.worker.archive = folder_ + "/archive";
  RunPlan plan = plan_;
  if (place == 0)
    // Somebody lives on: else the next one alone would be nobody's to examine.
    plan.pace.die_one_in = 0;
  child_of_[place] = children_.spawn(
      "worker " + std::to_string(job.worker.worker),
      [job, plan, this] { Life(job, plan, *shared_->stop, &*shared_->finished).go(); });
}

void Workers::start() {
  shared_->stop->store(false);
  for (std::size_t place = 0; place < plan_.workers; ++place) spawn(place);
}

bool Workers::can_spawn() const noexcept {
  return next_worker_ + threads_of(plan_) <= kWorkersEver;
}

void Workers::kill(std::size_t place) {
  children_.bury(child_of_[place]);
  journal_->note(Note::kDied, static_cast<std::uint64_t>(children_.pid(child_of_[place])));
  ++kills_;
  if (plan_.record_disk) note_what_was_done(journal_, children_.pid(child_of_[place]));
}

void Workers::kill_all() {
  for (const std::size_t child : child_of_) children_.kill(child, SIGKILL);
  for (std::size_t place = 0; place < plan_.workers; ++place) kill(place);
}

bool Workers::someone_works() {
  for (const std::size_t child : child_of_) {
    if (children_.running(child)) return true;
  }
  return false;
}

// Those that killed themselves in the disk hook.
void Workers::replace_the_dead() {
  if (plan_.pace.die_one_in == 0) return;
  for (std::size_t place = 1; place < plan_.workers; ++place) {
    if (children_.running(child_of_[place]) || !can_spawn()) continue;
    kill(place);
    spawn(place);
  }
}

void Workers::work_until(std::uint64_t entries) {
  const auto pause_ms = [this] {
    return plan_.kill_every_ms / 2 + random_() % (plan_.kill_every_ms + 1);
  };
  auto next_kill = Clock::now() + std::chrono::milliseconds(pause_ms());
  const auto deadline = Clock::now() + hang_deadline();
  while (journal_->count() < entries && someone_works() && !testing::Test::HasFailure()) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "hung: " << journal_->count() << " of " << entries << " entries, "
                    << shared_->finished->load() << " steps";
      return;
    }
    const timespec pause{0, 500'000};
    nanosleep(&pause, nullptr);
    replace_the_dead();
    if (plan_.kill_every_ms == 0 || Clock::now() < next_kill || !can_spawn()) continue;
    // With deaths in operations the first place is left alone: see spawn().
    const std::size_t spared = plan_.pace.die_one_in != 0 ? 1 : 0;
    const std::size_t victim = spared + random_() % (plan_.workers - spared);
    kill(victim);
    spawn(victim);
    next_kill = Clock::now() + std::chrono::milliseconds(pause_ms());
  }
}

void Workers::stop() {
  shared_->stop->store(true);
  for (const std::size_t child : child_of_) {
    const ChildEnd end = children_.wait(child);
    if (plan_.pace.die_one_in != 0 && end.signal == SIGKILL) {
      journal_->note(Note::kDied, static_cast<std::uint64_t>(children_.pid(child)));
      if (plan_.record_disk) note_what_was_done(journal_, children_.pid(child));
      continue;
    }
    EXPECT_TRUE(end.succeeded()) << "a worker ended with exit code " << end.exit_code << ", signal "
                                 << end.signal;
  }
}

void Workers::audit(const std::string &when) {
  expect_child("audit " + when, [&] {
    if (plan_.record_disk) record_into(journal_, {plan_.pace.write_us_max});
    observe::plant(plan_.planted);
    if (plan_.audit) return plan_.audit({folder_, journal_, {}});
    Promises promises;
    for (const Entry &entry : journal_->read()) promises.apply(entry);
    World world(folder_, plan_.mix_of ? plan_.mix_of(random_()).options : plan_.options, true);
    Model model;
    std::vector<std::uint64_t> ids;
    EXPECT_EQ(examine(&world, promises, &model, &ids), "") << when;
    EXPECT_EQ(promises.contradiction(), "") << when;
    journal_->note(Note::kRecovered, ids.size(), ids.data(), ids.size() * sizeof ids[0]);
    world.close();
  });
}

Recording record_run(const RunPlan &plan, std::uint64_t seed) {
  Recording recording;
  const MemoryFolder folder;  // the disk is the simulated one
  recording.folder = folder.path();
  recording.journal = std::make_shared<Journal>(4 * plan.entries + (1u << 16), 2ull << 30);
  Journal &journal = *recording.journal;
  journal.note(Note::kFolder, 0, folder.path());
  Workers workers(folder.path(), plan, &journal, seed);
  for (std::uint32_t phase = 0; phase <= plan.massacres && !testing::Test::HasFailure(); ++phase) {
    workers.start();
    workers.work_until(plan.entries * (phase + 1) / (plan.massacres + 1));
    if (phase < plan.massacres)
      workers.kill_all();
    else
      workers.stop();
    workers.audit(phase < plan.massacres ? "after all were killed" : "at the end");
  }
  EXPECT_FALSE(journal.overflowed());
  recording.entries = journal.read();
  return recording;
}

std::string save(const Recording &recording) {
  const std::string file = (std::filesystem::temp_directory_path() /
                            ("tmh-power-" + std::to_string(getpid()) + ".journal"))
                               .string();
  recording.journal->save(file);
  return file;
}

Recording load_recording(const std::string &file) {
  Recording recording;
  recording.journal = std::make_shared<Journal>(file);
  recording.entries = recording.journal->read();
  for (const Entry &entry : recording.entries) {
    if (entry.is_note() && entry.note() == Note::kFolder)
      recording.folder.assign(reinterpret_cast<const char *>(entry.data.data()), entry.data.size());
  }
  return recording;
}

}  // namespace tmh::test::power
