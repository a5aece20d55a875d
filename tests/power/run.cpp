// tests/power/run.cpp -- crowds of workers.
#include "tests/power/run.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <stdexcept>

#include <gtest/gtest.h>

#include "platform/disk.h"
#include "tests/power/judge.h"
#include "tests/power/promises.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {

struct Crowd::Shared {
  test::Shared<std::atomic<bool>> stop;
  test::Shared<std::atomic<std::uint64_t>> finished;  // steps of all workers
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWorkersEver = 480;  // their stamps have room for so many

struct Job {
  std::string folder;
  RunPlan plan;
  Journal *journal;
  WorkerPlan worker;
};

void work(const Job &job, const std::atomic<bool> &stop, std::atomic<std::uint64_t> *finished) {
  if (job.plan.record_disk) record_into(job.journal, job.plan.pace);
  platform::plant(job.plan.planted);
  auto world = std::make_unique<World>(job.folder, job.plan.options);
  Worker worker(world.get(), job.journal, job.worker);
  for (std::uint64_t step = 1; !stop.load() && worker.step(); ++step) {
    finished->fetch_add(1);
    if (job.plan.reopen_every == 0 || step % job.plan.reopen_every != 0) continue;
    world->close();
    world = std::make_unique<World>(job.folder, job.plan.options);
    worker.set_world(world.get());
  }
  world->close();
}

}  // namespace

Crowd::Crowd(std::string folder, const RunPlan &plan, Journal *journal, std::uint64_t seed)
    : folder_(std::move(folder)), plan_(plan), journal_(journal), random_(seed), shared_(std::make_unique<Shared>()) {
  child_of_.resize(plan.workers);
}

Crowd::~Crowd() = default;

void Crowd::spawn(std::size_t place) {
  Job job{folder_, plan_, journal_, {}};
  job.worker.worker = next_worker_++;
  job.worker.seed = random_();
  job.worker.only_ledger = plan_.only_ledger;
  if (plan_.archives) job.worker.archive = folder_ + "/archive";
  if (place == 0)
    job.plan.pace.die_one_in = 0;  // somebody lives on: else the next one alone would be nobody's to examine
  child_of_[place] = children_.spawn("worker " + std::to_string(job.worker.worker),
                                     [job, this] { work(job, *shared_->stop, &*shared_->finished); });
}

void Crowd::start() {
  shared_->stop->store(false);
  for (std::size_t place = 0; place < plan_.workers; ++place) spawn(place);
}

void Crowd::kill(std::size_t place) {
  children_.bury(child_of_[place]);
  journal_->note(Note::kDied, static_cast<std::uint64_t>(children_.pid(child_of_[place])));
  ++kills_;
}

void Crowd::kill_all() {
  for (const std::size_t child : child_of_) children_.kill(child, SIGKILL);
  for (std::size_t place = 0; place < plan_.workers; ++place) kill(place);
}

bool Crowd::someone_works() {
  for (const std::size_t child : child_of_) {
    if (children_.running(child)) return true;
  }
  return false;
}

// Those that killed themselves in the disk hook.
void Crowd::replace_the_dead() {
  if (plan_.pace.die_one_in == 0 || next_worker_ >= kWorkersEver) return;
  for (std::size_t place = 1; place < plan_.workers; ++place) {
    if (children_.running(child_of_[place])) continue;
    kill(place);
    spawn(place);
  }
}

void Crowd::work_until(std::uint64_t entries) {
  const auto pause_ms = [this] { return plan_.kill_every_ms / 2 + random_() % (plan_.kill_every_ms + 1); };
  auto next_kill = Clock::now() + std::chrono::milliseconds(pause_ms());
  const auto deadline = Clock::now() + hang_deadline();
  while (journal_->count() < entries && someone_works() && !testing::Test::HasFailure()) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "hung: " << journal_->count() << " of " << entries << " entries, " << shared_->finished->load()
                    << " steps";
      return;
    }
    const timespec pause{0, 500'000};
    nanosleep(&pause, nullptr);
    replace_the_dead();
    if (plan_.kill_every_ms == 0 || Clock::now() < next_kill) continue;
    const std::size_t victim = random_() % plan_.workers;
    kill(victim);
    spawn(victim);
    next_kill = Clock::now() + std::chrono::milliseconds(pause_ms());
  }
}

void Crowd::stop() {
  shared_->stop->store(true);
  for (const std::size_t child : child_of_) {
    const ChildEnd end = children_.wait(child);
    if (plan_.pace.die_one_in != 0 && end.signal == SIGKILL) {
      journal_->note(Note::kDied, static_cast<std::uint64_t>(children_.pid(child)));
      continue;
    }
    EXPECT_TRUE(end.succeeded()) << "a worker ended with exit code " << end.exit_code << ", signal " << end.signal;
  }
}

void Crowd::audit(const std::string &when) {
  expect_child("audit " + when, [&] {
    if (plan_.record_disk) record_into(journal_, {plan_.pace.write_us_max});
    platform::plant(plan_.planted);
    Promises promises;
    for (const Entry &entry : journal_->read()) promises.apply(entry);
    World world(folder_, plan_.options, true);
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
  const TempFolder folder;
  recording.folder = folder.path();
  recording.journal = std::make_shared<Journal>(4 * plan.entries + (1u << 16), 2ull << 30);
  Journal &journal = *recording.journal;
  journal.note(Note::kFolder, 0, folder.path());
  Crowd crowd(folder.path(), plan, &journal, seed);
  for (std::uint32_t phase = 0; phase <= plan.massacres && !testing::Test::HasFailure(); ++phase) {
    crowd.start();
    crowd.work_until(plan.entries * (phase + 1) / (plan.massacres + 1));
    if (phase < plan.massacres)
      crowd.kill_all();
    else
      crowd.stop();
    crowd.audit(phase < plan.massacres ? "after all were killed" : "at the end");
  }
  EXPECT_FALSE(journal.overflowed());
  recording.entries = journal.read();
  return recording;
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
