// tools/kill_stuck.cpp -- tmh kill-stuck: asks instances that run for too long to abort; kills
// their processes only when told to.
// Shape:     who is meant is read from outside, without joining. A child process then joins the
//            domain, asks, and looks for a while whether the instances end. A stopped participant
//            may hold a lock that joining needs; then the child gets no further, is killed after a
//            while (the library survives that), and the instances are told as not asked. Killing
//            needs no lock.
// Contexts:  one thread.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <tmh/domain.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain.h"
#include "hierarchy/exchange/exchange.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"
#include "tools/commands.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/shared_counters.h"
#include "tools/watched_work.h"

namespace tmh::tools {

namespace {

using hierarchy::Asked;

// Joining waits for no more than short locks, unless their holder is stopped.
constexpr std::uint64_t kJoinNs = 5'000'000'000;
constexpr std::uint64_t kLookAgainNs = 5'000'000;
static_assert(kLookAgainNs < kJoinNs, "a wait looks more than once");

void pause_ns(std::uint64_t ns) {
  const timespec wait{static_cast<time_t>(ns / 1'000'000'000),
                      static_cast<long>(ns % 1'000'000'000)};
  (void)nanosleep(&wait, nullptr);
}

// Of a child, what its parent reads: as many as there are instances.
struct Answer {
  std::uint32_t slot = 0;
  bool is_line = false;
  Asked asked = Asked::kEnded;
  bool has_ended = false;
};
// At most a pipe's 64 KiB.
constexpr std::size_t kAnswersMax = 4096;
static_assert(std::is_trivially_copyable_v<Answer> && kAnswersMax * sizeof(Answer) <= 64u << 10);

class Asking {
 public:
  // age_ns: younger instances of level 2 have begun since somebody looked, and are not meant.
  Asking(const std::string &folder, const std::vector<std::uint32_t> &slots, std::uint64_t age_ns,
         std::uint64_t grace_ns)
      : domain_(open(folder)), impl_(detail::impl_of(domain_)), age_ns_(age_ns) {
    for (const std::uint32_t slot : slots) ask_pages(slot);
    for (const std::uint32_t slot : slots) ask_lines(slot);
    const std::uint64_t deadline = platform::monotonic_ns() + grace_ns;
    while (!look() && platform::monotonic_ns() < deadline) pause_ns(kLookAgainNs);
  }
  [[nodiscard]] std::vector<Answer> answers() const {
    std::vector<Answer> all;
    for (const Instance &one : instances_) all.push_back(one.answer);
    return all;
  }

 private:
  struct Instance {
    Answer answer;
    std::function<bool()> runs;
  };
  static Domain open(const std::string &folder) {
    DomainOptions options;
    options.name = "tmh kill-stuck";
    return Domain::open(folder, options);
  }
  void ask_pages(std::uint32_t slot) {
    storage::Participant &other = impl_->memory().participant(slot);
    const std::uint64_t incarnation = other.incarnation.load(), instance = other.instance.load();
    if (other.state.load() == 0 || instance == 0) return;
    // After the instance's number: its begin, or a later one's.
    if (other.begin_ns.load() + age_ns_ > platform::coarse_ns()) return;
    Instance one{
        {slot, false, hierarchy::ask_to_abort(impl_->engine(), slot, incarnation, instance), false},
        {}};
    one.runs = [&other, incarnation, instance] {
      return other.state.load() != 0 && other.incarnation.load() == incarnation &&
             other.instance.load() == instance;
    };
    instances_.push_back(std::move(one));
  }
  // Contexts show an instance of level 1 only while it commits; before that it holds nothing.
  void ask_lines(std::uint32_t slot) {
    if (impl_->lines() == nullptr) return;
    line::LineMemory &lines = impl_->lines()->memory();
    for (std::uint32_t i = 0; i < lines.contexts_high(); ++i) {
      line::LineContextV1 &context = lines.context(i);
      const line::Owner owner = context.owner.load();
      const std::uint64_t status = context.status.load();
      if (owner == line::Owner{} || line::slot_of(owner) != slot ||
          line::state_of(status) == line::State::kIdle)
        continue;
      Instance one{{slot, true, hierarchy::ask_to_abort(context, owner, status), false}, {}};
      one.runs = [&context, owner, status] {
        const std::uint64_t now = context.status.load();
        return context.owner.load() == owner && line::number_of(now) == line::number_of(status) &&
               line::state_of(now) != line::State::kIdle;
      };
      instances_.push_back(std::move(one));
    }
  }
  bool look() {  // have all ended?
    bool all = true;
    for (Instance &one : instances_) {
      one.answer.has_ended = one.answer.has_ended || !one.runs();
      all = all && one.answer.has_ended;
    }
    return all;
  }

  Domain domain_;
  std::shared_ptr<detail::DomainImpl> impl_;
  const std::uint64_t age_ns_;
  std::vector<Instance> instances_;
};

// Runs `body` in a child that may hang; what it returns comes through a pipe. False: it hung, and
// was killed.
bool in_child(const std::function<std::vector<Answer>()> &body, std::uint64_t deadline_ns,
              std::vector<Answer> *out) {
  TMH_ASSERT(body != nullptr && out != nullptr);
  TMH_ASSERT(deadline_ns / 1'000'000 <=
             static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) check(platform::fail_errno(Errc::kIo, "a pipe"));
  const platform::FileDescriptor reading(ends[0]);
  platform::FileDescriptor writing(ends[1]);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) refuse(Errc::kOutOfMemory, "no further process can be started");
  if (child == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 0;
    try {
      const std::vector<Answer> answers = body();
      const std::size_t bytes = answers.size() * sizeof(Answer);
      if (::write(writing.get(), answers.data(), bytes) != static_cast<ssize_t>(bytes)) status = 1;
    } catch (const Error &error) {
      print_error(fmt::format("tmh: {}\n", sentence(error)));
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  writing.reset();
  pollfd readable{reading.get(), POLLIN, 0};  // also when the child has ended
  const int ready = ::poll(&readable, 1, static_cast<int>(deadline_ns / 1'000'000));
  const bool hung = ready == 0;
  if (hung) (void)::kill(child, SIGKILL);
  std::array<Answer, kAnswersMax> buffer;
  const ssize_t bytes = hung ? 0 : ::read(reading.get(), buffer.data(), sizeof buffer);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!hung && status != 0) refuse(Errc::kIo, "the domain could not be joined");
  out->assign(buffer.begin(),
              buffer.begin() + static_cast<std::ptrdiff_t>(std::max<ssize_t>(bytes, 0)) /
                                   static_cast<std::ptrdiff_t>(sizeof(Answer)));
  return !hung;
}

std::string outcome_of(const Answer &answer) {
  switch (answer.asked) {
    case Asked::kFailed:
      return answer.has_ended ? "aborted" : "failed";
    case Asked::kEnded:
      return "ended";
    case Asked::kQuery:
      return answer.has_ended ? "ended" : "query";
    case Asked::kIrrevocable:
      return answer.has_ended ? "ended" : "irrevocable";
    case Asked::kCommitted:
      return answer.has_ended ? "ended" : "committed";
  }
  return "";
}

const char *meaning(const std::string &outcome) {
  if (outcome == "aborted") return "asked, and has aborted";
  if (outcome == "failed")
    return "has FAILED: it will abort at its end, but has not come there; until then it keeps its "
           "snapshot and pages, "
           "which only its "
           "death would free";
  if (outcome == "ended") return "has ended by itself";
  if (outcome == "query")
    return "is a query, which cannot be aborted; it was asked to end (tmh::should_end()), and "
           "holds "
           "the versions that it may read, until it ends or its process dies";
  if (outcome == "irrevocable") return "is irrevocable, and cannot be aborted";
  if (outcome == "committed") return "has committed, and is writing back; it cannot be aborted";
  if (outcome == "killed") return "was killed; others have repaired what it held";
  if (outcome == "unasked")
    return "could not be asked: a lock that joining the domain needs is held, perhaps by a process "
           "that is stopped";
  return "could not be killed";
}

bool kill_process(const ParticipantCounters &who) {
  TMH_ASSERT(who.is_alive && who.pid > 0);
  const platform::ProcessId id{who.pid, who.start_time, who.stack_start};
  if (!platform::kill_exactly(id)) return false;
  const std::uint64_t deadline = platform::monotonic_ns() + kJoinNs;
  while (platform::alive(id) && platform::monotonic_ns() < deadline) pause_ns(kLookAgainNs);
  return !platform::alive(id);
}

// Whose instances are meant, in slots: threads with views of their own have one each.
std::vector<ParticipantCounters> choose(const KillStuckCommand &command,
                                        const SharedCounters &shared) {
  std::vector<ParticipantCounters> meant;
  for (const ParticipantCounters &one : shared.participants) {
    if (!one.is_alive || (command.pid != 0 && one.pid != command.pid)) continue;
    const bool is_old = static_cast<double>(one.instance_us) >= command.older_than_s * 1e6;
    if (command.pid != 0 || (one.instance_us != 0 && is_old)) meant.push_back(one);
  }
  return meant;
}

// One line per instance; a participant that ran none is left out.
Json instance_json(const ParticipantCounters &who, const char *level, const std::string &outcome) {
  return {{"pid", who.pid},
          {"name", who.name},
          {"slot", who.slot},
          {"level", level},
          {"query", who.is_query},
          {"age_us", who.instance_us},
          {"stopped", is_stopped(who.pid)},
          {"outcome", outcome}};
}

bool runs_on(const std::string &outcome) {
  return outcome != "aborted" && outcome != "ended" && outcome != "killed";
}

Json ask(const KillStuckCommand &command, const std::vector<ParticipantCounters> &meant,
         bool *answered) {
  TMH_ASSERT(!meant.empty() && answered != nullptr);
  std::vector<std::uint32_t> slots;
  for (const ParticipantCounters &one : meant) slots.push_back(one.slot);
  const auto grace_ns = static_cast<std::uint64_t>(command.grace_s * 1e9);
  const std::uint64_t age_ns =
      command.pid != 0 ? 0 : static_cast<std::uint64_t>(command.older_than_s * 1e9);
  std::vector<Answer> answers;
  *answered = in_child([&] { return Asking(command.domain, slots, age_ns, grace_ns).answers(); },
                       grace_ns + kJoinNs, &answers);
  Json instances = Json::array();
  for (const ParticipantCounters &one : meant) {
    bool is_told = false;
    for (const Answer &answer : answers) {
      if (answer.slot != one.slot) continue;
      is_told = true;
      instances.push_back(instance_json(one, answer.is_line ? "line" : "page", outcome_of(answer)));
    }
    if (is_told) continue;
    if (!*answered)
      instances.push_back(instance_json(one, "page", "unasked"));
    else if (one.instance_us != 0)
      instances.push_back(instance_json(one, "page", "ended"));
  }
  return instances;
}

void kill_those_left(const KillStuckCommand &command, const std::vector<ParticipantCounters> &meant,
                     Json *instances) {
  TMH_ASSERT(command.kill && instances != nullptr);
  bool is_anybody_killed = false;
  const std::vector<ParticipantCounters> still = choose(command, read_counters(command.domain));
  for (const ParticipantCounters &one : meant) {
    const auto concerns = [&](const Json &instance) {
      return instance["slot"] == one.slot && runs_on(instance["outcome"].get<std::string>());
    };
    if (std::none_of(instances->begin(), instances->end(), concerns)) continue;
    const auto set_outcome = [&](const char *outcome) {
      for (Json &instance : *instances)
        if (concerns(instance)) instance["outcome"] = outcome;
    };
    const bool is_there =
        std::any_of(still.begin(), still.end(), [&one](const ParticipantCounters &other) {
          return other.slot == one.slot && other.pid == one.pid &&
                 other.start_time == one.start_time;
        });
    if (!is_there) {  // it is done, or a younger one runs
      set_outcome("ended");
      continue;
    }
    const bool is_dead = kill_process(one);
    is_anybody_killed = is_anybody_killed || is_dead;
    set_outcome(is_dead ? "killed" : "alive");
  }
  if (!is_anybody_killed) return;
  std::vector<Answer> none;  // whoever comes next would repair as well, if this child could not
  (void)in_child(
      [&] {
        (void)Domain::open(command.domain).collect();
        return std::vector<Answer>();
      },
      kJoinNs, &none);
}

}  // namespace

Exit run(const KillStuckCommand &command) {
  const SharedCounters shared = read_counters(command.domain);
  if (shared.is_elsewhere)
    refuse(Errc::kDomainInUse,
           command.domain +
               ": its processes are in another pid or time namespace (container): run "
               "this there (nsenter --all --target PID)");
  const std::vector<ParticipantCounters> meant = choose(command, shared);
  if (command.pid != 0 && meant.empty())
    refuse(Errc::kBadArgument,
           fmt::format("process {} does not have {} open", command.pid, command.domain));
  bool answered = true;
  Json instances = meant.empty() ? Json::array() : ask(command, meant, &answered);
  if (command.kill && !instances.empty()) kill_those_left(command, meant, &instances);
  const bool any_left = std::any_of(instances.begin(), instances.end(), [](const Json &one) {
    return runs_on(one["outcome"].get<std::string>());
  });
  if (command.json) {
    print(Json{{"document", "tmh-kill-stuck-1"},
               {"domain", command.domain},
               {"answered", answered},
               {"instances", instances}});
  } else {
    std::string text;
    for (const Json &one : instances) {
      const auto age_us = one["age_us"].get<std::uint64_t>();
      text +=
          fmt::format("process {} ({}){}, {}{}: {}\n", one["pid"].dump(),
                      one["name"].get<std::string>(), one["stopped"].get<bool>() ? ", stopped" : "",
                      one["level"] == "line" ? "at lines" : "at pages",
                      age_us != 0 ? ", " + duration_text(age_us) : "",
                      meaning(one["outcome"].get<std::string>()));
    }
    if (text.empty())
      text = command.domain +
             (shared.is_open() ? ": no such instance runs\n" : ": nobody has it open\n");
    print(text);
  }
  return any_left ? Exit::kRefused : Exit::kOk;
}

}  // namespace tmh::tools
