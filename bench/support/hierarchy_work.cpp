// bench/support/hierarchy_work.cpp -- the contestants of bench/hierarchy.
#include "bench/support/hierarchy_work.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>

#include <tmh/field.hpp>
#include <tmh/lab.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "bench/support/clock.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "examples/workloads/mixed.hpp"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

using Word = field<std::uint64_t>;
using workloads::kSmallWords;
using workloads::kWordsPerPage;
// Instances between looks at the clock: small ones last no longer than reading it.
constexpr std::uint64_t kLookEvery = 16;

struct Draw {
  bool is_huge = false;
  std::uint64_t first_page = 0;
  std::uint64_t words[kSmallWords] = {};
};

class Stream {
 public:
  Stream(const HierarchyRun &run, unsigned index)
      : run_(run), random_(run.seed * kTeamMembersMax + index) {
    TMH_ASSERT(index < kTeamMembersMax && run.huge_percent <= 100);
    TMH_ASSERT(run.huge_pages <= run.pages && run.pages > 0);
  }
  Draw next() {
    Draw draw;
    draw.is_huge = random_.below(100) < run_.huge_percent;
    if (draw.is_huge) {
      draw.first_page = random_.below(run_.pages - run_.huge_pages + 1);
    } else {
      for (std::uint64_t &word : draw.words) word = random_.below(run_.pages * kWordsPerPage);
    }
    return draw;
  }

 private:
  const HierarchyRun &run_;
  Random random_;
};

class Worker {
 public:
  virtual ~Worker() = default;
  virtual void run(const Draw &draw) = 0;
  virtual void report(HierarchyOutcome *out) const = 0;
};

struct PlainMemory {
  pthread_mutex_t mutex;
  std::uint64_t *words;
};

class MutexWorker final : public Worker {
 public:
  MutexWorker(const HierarchyRun &run, PlainMemory &memory) : run_(run), memory_(memory) {}
  void run(const Draw &draw) override {
    (void)pthread_mutex_lock(&memory_.mutex);
    if (draw.is_huge)
      workloads::add_one(memory_.words, draw.first_page, run_.huge_pages, run_.huge_lines);
    else
      workloads::transfer(memory_.words, draw.words);
    (void)pthread_mutex_unlock(&memory_.mutex);
  }
  void report(HierarchyOutcome *) const override {}

 private:
  const HierarchyRun &run_;
  PlainMemory &memory_;
};

class SiteWorker final : public Worker {
 public:
  SiteWorker(const HierarchyContestant &contestant, const HierarchyRun &run,
             const std::string &folder)
      : run_(run),
        kind_(contestant.kind),
        domain_(Domain::open(folder, options(contestant, run))),
        segment_(map(domain_, run)),
        words_(reinterpret_cast<Word *>(segment_.data())),
        lock_(words_ + run.pages * kWordsPerPage),
        small_(domain_, "small", kind_ == HierarchyKind::kCrossing ? "after-n=3" : ""),
        huge_(domain_, "huge", kind_ == HierarchyKind::kCrossing ? "always" : "") {}

  void run(const Draw &draw) override {
    if (kind_ == HierarchyKind::kLockLine) {
      if (draw.is_huge)
        huge_or_locked(draw);
      else
        while (!unless_locked(small_, [&] { workloads::transfer(words_, draw.words); }))
          sched_yield();
    } else if (draw.is_huge) {
      atomically(huge_, [&](Fields) {
        workloads::add_one(words_, draw.first_page, run_.huge_pages, run_.huge_lines);
      });
    } else {
      atomically(small_, [&](Fields) { workloads::transfer(words_, draw.words); });
    }
  }

  void report(HierarchyOutcome *out) const override {
    TMH_ASSERT(out != nullptr);
    for (const Site *site : {&small_, &huge_}) {
      const SiteReport report = site->report();
      out->line_commits += report.line_commits;
      out->unlimited_commits += report.unlimited_commits;
      out->page_commits += report.page_commits;
      out->line_aborts += report.line_aborts;
      out->page_aborts += report.page_aborts;
      out->for_capacity += report.escalations_capacity;
      out->for_attempts += report.escalations_attempts;
      out->for_pages += report.escalations_needs_pages;
      out->de_escalations += report.de_escalations;
    }
    const Counters counters = domain_.counters();  // of the whole domain
    out->recalls = counters.recalls;
    out->releases = counters.releases;
    constexpr auto kCross = static_cast<std::size_t>(AbortCause::kCrossLevel);
    out->cross_line_aborts = counters.line_aborts[kCross];
    out->cross_page_aborts = counters.aborts[kCross];
    out->locked += locked_;
  }

 private:
  static DomainOptions options(const HierarchyContestant &contestant, const HierarchyRun &run) {
    DomainOptions options;
    options.levels = contestant.kind == HierarchyKind::kPage ? Levels::kPage : Levels::kHybrid;
    options.policies.escalation =
        contestant.kind == HierarchyKind::kHybrid ? contestant.escalation : "never";
    const bool is_unlimited =
        contestant.kind == HierarchyKind::kLine || contestant.kind == HierarchyKind::kCrossing;
    options.policies.capacity = is_unlimited ? "unlimited" : run.capacity;
    options.policies.cross = contestant.cross;
    return options;
  }
  static Segment map(const Domain &domain, const HierarchyRun &run) {
    SegmentOptions options;
    options.size_bytes = (run.pages + 1) * kPageBytes;
    options.layout = Layout::kRaw;
    return domain.map("data", options);
  }

  // False: the lock is held.
  template <class Body>
  [[nodiscard]] bool unless_locked(const Site &site, Body &&body) const {
    return atomically(site, [&](Fields) {
      if (lock_->load() != 0) return false;
      body();
      return true;
    });
  }

  void huge_or_locked(const Draw &draw) {
    TMH_ASSERT(kind_ == HierarchyKind::kLockLine && draw.is_huge);
    try {
      while (!unless_locked(huge_, [&] {
        workloads::add_one(words_, draw.first_page, run_.huge_pages, run_.huge_lines);
      }))
        sched_yield();
      return;
    } catch (const Error &error) {  // the site may not escalate: its working set exceeds level 1
      if (error.code() != make_error_code(Errc::kNeedsPages)) throw;
    }
    while (!unless_locked(huge_, [&] { lock_->store(1); })) sched_yield();
    const std::uint64_t pages = std::max<std::uint64_t>(run_.portion / run_.huge_lines, 1);
    for (std::uint64_t done = 0; done < run_.huge_pages; done += pages)
      atomically(huge_, [&](Fields) {
        workloads::add_one(words_, draw.first_page + done, std::min(pages, run_.huge_pages - done),
                           run_.huge_lines);
      });
    atomically(huge_, [&](Fields) { lock_->store(0); });
    ++locked_;
  }

  const HierarchyRun &run_;
  const HierarchyKind kind_;
  Domain domain_;
  Segment segment_;
  Word *words_, *lock_;
  Site small_, huge_;
  std::uint64_t locked_ = 0;
};

// Instances until the time is over; every process draws its own sequence.
void work_for(double milliseconds, Worker &worker, Stream &stream, HierarchyOutcome *out) {
  TMH_ASSERT(out != nullptr);
  const auto until = now_ns() + static_cast<std::int64_t>(milliseconds * 1e6);
  for (std::uint64_t i = 0;; ++i) {
    const Draw draw = stream.next();
    worker.run(draw);
    ++(draw.is_huge ? out->huge : out->small);
    if ((draw.is_huge || i % kLookEvery == 0) && now_ns() >= until) return;
  }
}

std::uint64_t sum_of_file(const std::string &path, std::uint64_t word_count) {
  std::vector<std::uint64_t> words(word_count);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char *>(words.data()),
            static_cast<std::streamsize>(word_count * sizeof(words[0])));
  if (!file) throw std::runtime_error(path + " is too short");
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) sum += word;  // modulo 2^64, as the transfers
  return sum;
}

}  // namespace

std::vector<HierarchyContestant> hierarchy_contestants() {
  return {{"mutex, plain memory", HierarchyKind::kMutex, ""},
          {"level 1, lock fallback", HierarchyKind::kLockLine, ""},
          {"level 1, unlimited", HierarchyKind::kLine, ""},
          {"level 2 only", HierarchyKind::kPage, ""},
          {"hybrid, on-capacity", HierarchyKind::kHybrid, "on-capacity"},
          {"hybrid, after-n", HierarchyKind::kHybrid, "after-n"},
          {"hybrid, after-wasted-time", HierarchyKind::kHybrid, "after-wasted-time"},
          {"hybrid, adaptive-pages", HierarchyKind::kHybrid, "adaptive-pages"},
          {"hybrid, adaptive", HierarchyKind::kHybrid, "adaptive"}};
}

std::vector<HierarchyContestant> crossing_contestants() {
  std::vector<HierarchyContestant> all;
  for (const CrossPolicy cross :
       {CrossPolicy::kAbortLower, CrossPolicy::kAbortUpper, CrossPolicy::kRecallAndWait,
        lab::kWaitForUpper, lab::kUpperYields})
    all.push_back({to_string(cross), HierarchyKind::kCrossing, "", cross});
  return all;
}

HierarchyOutcome run_hierarchy(const HierarchyContestant &contestant, const HierarchyRun &run,
                               const std::string &folder) {
  TMH_ASSERT(run.processes >= 1 && run.processes <= kTeamMembersMax);
  TMH_ASSERT(run.huge_lines > 0 && run.run_ms > 0);
  const bool is_plain = contestant.kind == HierarchyKind::kMutex;
  const std::uint64_t word_count = run.pages * kWordsPerPage;
  const SharedMemory plain_words(is_plain ? word_count * sizeof(std::uint64_t) : kPageBytes);
  const Shared<PlainMemory> plain;
  plain->words = static_cast<std::uint64_t *>(plain_words.data());
  pthread_mutexattr_t attributes;
  (void)pthread_mutexattr_init(&attributes);
  (void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  (void)pthread_mutex_init(&plain->mutex, &attributes);
  (void)pthread_mutexattr_destroy(&attributes);

  struct Results {
    HierarchyOutcome of[kTeamMembersMax];
    std::uint64_t timed[kTeamMembersMax];
  };
  const Shared<Results> results;
  const double ns = run_team_ns(run.processes, [&](unsigned index, const TeamClock &clock) {
    std::unique_ptr<Worker> worker;
    if (is_plain)
      worker = std::make_unique<MutexWorker>(run, *plain);
    else
      worker = std::make_unique<SiteWorker>(contestant, run, folder);
    Stream stream(run, index);
    HierarchyOutcome &out = results->of[index];
    clock.meet();
    work_for(run.warm_up_ms, *worker, stream, &out);
    const std::uint64_t before = out.small + out.huge;
    clock.start();
    work_for(run.run_ms, *worker, stream, &out);
    clock.finish();
    results->timed[index] = out.small + out.huge - before;
    clock.meet();  // nobody closes while another still works
    worker->report(&out);
    clock.meet();
  });

  HierarchyOutcome all;
  std::uint64_t timed = 0;
  for (unsigned i = 0; i < run.processes; ++i) {
    const HierarchyOutcome &one = results->of[i];
    timed += results->timed[i];
    for (const auto total : {&HierarchyOutcome::small, &HierarchyOutcome::huge,
                             &HierarchyOutcome::line_commits, &HierarchyOutcome::unlimited_commits,
                             &HierarchyOutcome::page_commits, &HierarchyOutcome::line_aborts,
                             &HierarchyOutcome::page_aborts, &HierarchyOutcome::for_capacity,
                             &HierarchyOutcome::for_attempts, &HierarchyOutcome::for_pages,
                             &HierarchyOutcome::de_escalations, &HierarchyOutcome::locked})
      all.*total += one.*total;
    all.recalls = one.recalls;
    all.releases = one.releases;
    all.cross_line_aborts = one.cross_line_aborts;
    all.cross_page_aborts = one.cross_page_aborts;
  }
  all.commits_per_s = static_cast<double>(timed) / ns * 1e9;
  std::uint64_t sum = 0;
  if (is_plain)
    for (std::uint64_t i = 0; i < word_count; ++i) sum += plain->words[i];
  else
    sum = sum_of_file(folder + "/data", word_count);
  if (const std::uint64_t added = all.huge * run.huge_pages * run.huge_lines; sum != added)
    throw std::runtime_error(contestant.name + ": the words sum up to " + std::to_string(sum) +
                             ", not " + std::to_string(added));
  return all;
}

}  // namespace tmh::bench
