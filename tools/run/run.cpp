// tools/run/run.cpp -- tmh run: a built-in workload under any policy, what it did, and whether its
// invariant holds.
// Order:     workers are forked before this process opens the domain. This process is a participant
//            until the end: a domain's counters go when its last participant leaves.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "examples/workloads/workload.hpp"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "tools/commands.h"
#include "tools/failure.h"
#include "tools/print.h"
#include "tools/run/crew.h"
#include "tools/run/stop_signals.h"
#include "tools/shared_counters.h"
#include "tools/temporary_folder.h"

namespace tmh::tools {

namespace {

namespace fs = std::filesystem;

// The domain's folder; a temporary one goes with it.
class Folder {
 public:
  explicit Folder(const std::string &given) : path_(given), is_temporary_(given.empty()) {
    if (is_temporary_) {
      path_ = make_temporary_folder("tmh-run-");
    } else {
      std::error_code ignored;
      if (fs::exists(path_, ignored) && !fs::exists(path_ + "/tmh.control", ignored) &&
          !fs::is_empty(path_, ignored))
        refuse(Errc::kNotADomain, path_ + " is not empty and no domain");
      fs::create_directories(path_, ignored);  // Domain::open() says what is wrong
    }
    // Two runs at once would take each other's updates for their own workers'.
    lock_ = platform::FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock_) check(platform::fail_errno(Errc::kIo, path_));
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
      refuse(Errc::kDomainInUse, path_ + ": another tmh run works there");
  }
  ~Folder() {
    std::error_code ignored;
    if (is_temporary_) fs::remove_all(path_, ignored);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  [[nodiscard]] const std::string &path() const noexcept { return path_; }
  [[nodiscard]] bool is_temporary() const noexcept { return is_temporary_; }

 private:
  std::string path_;
  bool is_temporary_;
  platform::FileDescriptor lock_;
};

template <class Value>
void read_option(const std::string &spec, Value *out) {
  TMH_ASSERT(out != nullptr);
  if (!spec.empty()) check(parse(spec, out));
}

DomainOptions options_of(const RunCommand &command, std::string name) {
  DomainOptions options;
  options.name = std::move(name);
  options.levels = command.level == RunCommand::Level::kPage ? Levels::kPage : Levels::kHybrid;
  read_option(command.durability, &options.durability);
  read_option(command.line, &options.line);
  read_option(command.cross, &options.policies.cross);
  read_option(command.tracking, &options.tracking);
  read_option(command.detection, &options.policies.detection);
  read_option(command.thread_views, &options.policies.thread_views);
  options.policies.group_commit = command.group_commit;
  options.policies.capacity = command.capacity;
  options.policies.escalation =
      command.level == RunCommand::Level::kLine ? "never" : command.escalation;
  options.policies.conflict = command.conflict;
  if (!command.backoff.empty())
    options.policies.conflict +=
        (options.policies.conflict.empty() ? "backoff=" : ",backoff=") + command.backoff;
  return options;
}

workloads::Plan plan_of(const RunCommand &command, std::atomic<std::uint64_t> *next_number) {
  TMH_ASSERT(next_number != nullptr && workloads::find(command.workload) != nullptr);
  workloads::Plan plan;
  plan.workload = workloads::find(command.workload);
  plan.size = command.size;
  plan.skew = command.skew;
  plan.read_percent = command.read_percent;
  plan.seed = command.seed;
  plan.whole_reads_at_lines = command.level == RunCommand::Level::kLine;
  plan.next_number = next_number;
  return plan;
}

struct Outcome {
  Counters counters;  // of the run alone
  workloads::Verdict verdict;
  Json workers;
  bool has_failed = false;  // a worker ended otherwise than by itself or by SIGKILL
};

Counters difference(const Counters &after, const Counters &before) {
  Counters run = after;
  run.queries -= before.queries;
  for (std::size_t i = 0; i < kAbortCauseCount; ++i) run.aborts[i] -= before.aborts[i];
  return run;
}

// What each worker was told is committed is in its tally, and at most the update that it died in
// besides.
void expect_acknowledged(const Crew &crew, const CrewPlan &plan,
                         const std::vector<std::uint64_t> &before, workloads::Workload *workload,
                         workloads::Verdict *verdict) {
  TMH_ASSERT(before.size() == plan.processes * plan.threads);
  TMH_ASSERT(workload != nullptr && verdict != nullptr);
  for (unsigned i = 0; i < plan.processes * plan.threads; ++i) {
    const std::uint64_t told = crew.state().threads[i].updates.load(),
                        found = workload->updates_of(i) - before[i];
    const bool has_died = WIFSIGNALED(crew.ends()[i / plan.threads].status);
    verdict->expect(found == told || (has_died && found == told + 1),
                    fmt::format("worker {} was told of {} updates, {} are there", i, told, found));
  }
}

// A signal came before the workers began: there is nothing to tell.
struct Interrupted {};

Outcome work(const RunCommand &command, const Folder &folder, const CrewPlan &plan, Crew *crew,
             Domain *domain) {
  TMH_ASSERT(crew != nullptr && domain != nullptr);
  Outcome outcome;
  *domain = Domain::open(folder.path(), options_of(command, "tmh run"));
  {
    const std::unique_ptr<workloads::Workload> workload =
        workloads::open(*domain, plan_of(command, crew->next_number()));
    if (!workload->set_up_while([] { return StopSignals::count() == 0; })) throw Interrupted();
    if (const workloads::Verdict found = workload->verify(); !found.holds)
      refuse(Errc::kCorrupt, folder.path() + ": before the run: " + found.text);
    std::vector<std::uint64_t> updates_before;
    for (unsigned i = 0; i < plan.processes * plan.threads; ++i)
      updates_before.push_back(workload->updates_of(i));
    const Counters before = domain->counters();
    if (StopSignals::count() != 0) throw Interrupted();
    std::optional<StopSignals> signals;
    // A temporary one's are watched since it was made.
    if (!folder.is_temporary()) signals.emplace();
    crew->run();
    outcome.counters = difference(domain->counters(), before);
    outcome.verdict = workload->verify();
    expect_acknowledged(*crew, plan, updates_before, workload.get(), &outcome.verdict);
  }
  return outcome;
}

// What ran where, and what came of it. Level 2 counts its aborts in the domain, level 1 at its
// sites.
void add_levels(const Crew &crew, const Counters &counters, Json *document) {
  TMH_ASSERT(document != nullptr);
  using enum SiteTotal;
  // Sites count queries as commits at pages. Of a killed process the domain may have counted some
  // that its sites did not tell any more.
  const std::uint64_t pages = crew.total(kPageCommits);
  Json aborts;
  for (std::size_t i = 1; i < kAbortCauseCount; ++i)  // 0: no cause
    aborts[cause_name(static_cast<AbortCause>(i))] =
        counters.aborts[i] +
        crew.total(static_cast<SiteTotal>(static_cast<std::size_t>(kCauses) + i));
  (*document)["commits"] = {{"line", crew.total(kLineCommits) - crew.total(kHardwareCommits)},
                            {"rtm", crew.total(kHardwareCommits)},
                            {"page", pages - std::min(pages, counters.queries)},
                            {"query", counters.queries}};
  (*document)["aborts"] = std::move(aborts);
  (*document)["aborts_rtm"] = {{"conflict", crew.total(kHardwareConflicts)},
                               {"capacity", crew.total(kHardwareCapacity)},
                               {"zero", crew.total(kHardwareZero)},
                               {"explicit", crew.total(kHardwareExplicit)},
                               {"other", crew.total(kHardwareOther)}};
  (*document)["aborts_by_level"] = {{"line", crew.total(kLineAborts)},
                                    {"page", crew.total(kPageAborts)}};
  (*document)["escalations"] = {{"capacity", crew.total(kForCapacity)},
                                {"needs_pages", crew.total(kForPages)},
                                {"attempts", crew.total(kForAttempts)},
                                {"came_down", crew.total(kCameDown)},
                                {"unlimited", crew.total(kUnlimitedCommits)}};
  Json needs;
  for (std::size_t i = 0; i < kNeedCount; ++i)
    needs[need_key(static_cast<Need>(i))] =
        crew.total(static_cast<SiteTotal>(static_cast<std::size_t>(kForNeeds) + i));
  (*document)["escalations_by_need"] = std::move(needs);
}

void add_workers(const Crew &crew, Outcome *outcome) {
  TMH_ASSERT(outcome != nullptr);
  outcome->workers = Json::array();
  for (std::size_t i = 0; i < crew.ends().size(); ++i) {
    const WorkerEnd &end = crew.ends()[i];
    const ProcessState &process = crew.state().processes[i];
    const int signal = WIFSIGNALED(end.status) ? WTERMSIG(end.status) : 0;
    const bool is_broken = process.is_broken.load() != 0;
    outcome->verdict.expect(!is_broken, process.error);
    outcome->has_failed =
        outcome->has_failed || (end.status != 0 && signal != SIGKILL && !is_broken);
    outcome->workers.push_back(
        {{"pid", end.pid}, {"signal", signal}, {"error", std::string(process.error)}});
  }
}

// As given, else as the environment says, else the default.
std::string chosen(const std::string &given, const char *variable, const char *otherwise) {
  TMH_ASSERT(variable != nullptr && otherwise != nullptr);
  if (!given.empty()) return given;
  const char *const value = std::getenv(variable);
  return value != nullptr && *value != 0 ? value : otherwise;
}

Json options_json(const RunCommand &command, const Domain &domain) {
  const workloads::Description &workload = *workloads::find(command.workload);
  const bool is_page = command.level == RunCommand::Level::kPage;
  const char *const level = is_page                                     ? "page"
                            : command.level == RunCommand::Level::kLine ? "line"
                                                                        : "hybrid";
  Json json{{"processes", command.processes}, {"threads", command.threads}, {"seed", command.seed}};
  json["size"] = command.size != 0 ? command.size : workload.size;
  json["skew"] = workload.skew < 0 ? 0.0 : command.skew < 0 ? workload.skew : command.skew;
  json["read_percent"] = workload.read_percent < 0  ? 0
                         : command.read_percent < 0 ? workload.read_percent
                                                    : command.read_percent;
  json["durability"] = to_string(domain.durability());
  json["level"] = level;
  json["line_mode"] = is_page ? "" : chosen(command.line, "TMH_LINE", "auto");
  json["escalation"] = is_page ? ""
                       : command.level == RunCommand::Level::kLine
                           ? "never"
                           : chosen(command.escalation, "TMH_ESCALATION", "adaptive");
  json["cross"] = is_page ? "" : chosen(command.cross, "TMH_CROSS", "recall-and-wait");
  json["capacity"] = is_page ? "" : chosen(command.capacity, "TMH_CAPACITY", "unlimited");
  json["policy"] = to_string(domain.policy());
  json["tracking"] = to_string(domain.tracking().tracking);
  json["detection"] = to_string(domain.detection());
  json["thread_views"] = chosen(command.thread_views, "TMH_THREAD_VIEWS", "auto");
  return json;
}

Json document_of(const RunCommand &command, const Folder &folder, const Domain &domain,
                 const Crew &crew, const Outcome &outcome) {
  const LatencySummary latency = crew.latency();
  const double seconds = crew.seconds();
  Json json{{"document", "tmh-run-1"},
            {"workload", command.workload},
            {"domain", folder.is_temporary() ? "" : folder.path()}};
  json["options"] = options_json(command, domain);
  json["interrupted"] = crew.was_interrupted();
  json["seconds"] = seconds;
  json["operations"] = latency.operations;
  json["operations_per_s"] = seconds > 0 ? static_cast<double>(latency.operations) / seconds : 0;
  add_levels(crew, outcome.counters, &json);
  json["latency_ns"] = {{"samples", latency.samples}, {"p50", latency.p50_ns},
                        {"p90", latency.p90_ns},      {"p99", latency.p99_ns},
                        {"p99_9", latency.p999_ns},   {"max", latency.max_ns}};
  json["workers"] = outcome.workers;
  json["invariant"] = {{"holds", outcome.verdict.holds}, {"text", outcome.verdict.text}};
  return json;
}

// Fields of nested objects, with their names joined.
void flatten(const Json &json, const std::string &prefix,
             std::vector<std::pair<std::string, std::string>> *columns) {
  for (const auto &[key, value] : json.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + "_", columns);
    } else if (value.is_string()) {
      std::string quoted = "\"";
      for (const char letter : value.get<std::string>())
        quoted += letter == '"' ? "\"\"" : std::string(1, letter);
      columns->emplace_back(prefix + key, quoted + "\"");
    } else if (!value.is_array()) {
      columns->emplace_back(prefix + key, value.dump());
    }
  }
}

std::string csv_of(const Json &document) {
  std::vector<std::pair<std::string, std::string>> columns;
  flatten(document, "", &columns);
  std::string header, row;
  for (const auto &[name, value] : columns) {
    header += (header.empty() ? "" : ",") + name;
    row += (row.empty() ? "" : ",") + value;
  }
  return header + "\n" + row + "\n";
}

// "12 validation, 3 capacity", or "none".
std::string listed(const Json &counts) {
  std::string text;
  for (const auto &[key, value] : counts.items())
    if (value != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value.get<std::uint64_t>(), key);
  return text.empty() ? "none" : text;
}

std::string text_of(const Json &document) {
  const Json &options = document["options"], &latency = document["latency_ns"];
  const auto us = [&latency](const char *name) { return latency[name].get<double>() / 1000; };
  std::string chosen;
  for (const char *name : {"line_mode", "escalation", "cross", "capacity", "policy", "tracking",
                           "detection", "thread_views"})
    if (const std::string value = options[name]; !value.empty())
      chosen += fmt::format("{}{} {}", chosen.empty() ? "" : ", ", name, value);
  std::string text = fmt::format(
      "{}: size {}, skew {}, reads {} %, seed {}; processes {}, threads {}; level {}, durability "
      "{}\n  {}\n",
      document["workload"].get<std::string>(), options["size"].dump(), options["skew"].dump(),
      options["read_percent"].dump(), options["seed"].dump(), options["processes"].dump(),
      options["threads"].dump(), options["level"].get<std::string>(),
      options["durability"].get<std::string>(), chosen);
  text += fmt::format("operations   {} in {:.3f} s{}, {:.0f}/s\n", document["operations"].dump(),
                      document["seconds"].get<double>(),
                      document["interrupted"].get<bool>() ? " (interrupted)" : "",
                      document["operations_per_s"].get<double>());
  text += fmt::format("commits      {}\n", listed(document["commits"]));
  text += fmt::format("aborts       {}; by level: {}\n", listed(document["aborts"]),
                      listed(document["aborts_by_level"]));
  if (const std::string rtm = listed(document["aborts_rtm"]); rtm != "none")
    text += fmt::format("  of RTM     {}\n", rtm);
  text += fmt::format("escalations  {}\n", listed(document["escalations"]));
  if (const std::string needs = listed(document["escalations_by_need"]); needs != "none")
    text += fmt::format("  by need    {}\n", needs);
  text += fmt::format(
      "latency us   p50 {:.2f}, p90 {:.2f}, p99 {:.2f}, p99.9 {:.2f}, max {:.2f}; of {} "
      "operations\n",
      us("p50"), us("p90"), us("p99"), us("p99_9"), us("max"), latency["samples"].dump());
  for (const Json &worker : document["workers"]) {
    if (worker["signal"] != 0)
      text += fmt::format("process {}: killed by signal {}\n", worker["pid"].dump(),
                          worker["signal"].dump());
    if (worker["error"] != "")
      text +=
          fmt::format("process {}: {}\n", worker["pid"].dump(), worker["error"].get<std::string>());
  }
  return text + fmt::format("invariant    {}: {}\n",
                            document["invariant"]["holds"].get<bool>() ? "holds" : "BROKEN",
                            document["invariant"]["text"].get<std::string>());
}

struct Told {
  std::string text;
  Exit exit = Exit::kOk;
};

// A temporary folder is gone at its end, also by an exception.
Told run_in_folder(const RunCommand &command) {
  const Folder folder(command.domain);
  const CrewPlan plan{command.processes, command.threads,
                      command.operations != 0 ? 0 : command.seconds, command.operations,
                      command.seed};
  Crew crew(plan, [&](std::atomic<std::uint64_t> *next_number) {
    return workloads::open(Domain::open(folder.path(), options_of(command, "tmh run: worker")),
                           plan_of(command, next_number));
  });
  Domain domain;
  Outcome outcome = work(command, folder, plan, &crew, &domain);
  add_workers(crew, &outcome);
  const Json document = document_of(command, folder, domain, crew, outcome);
  domain.close();
  Told told;
  told.text = command.json  ? text_of_json(document)
              : command.csv ? csv_of(document)
                            : text_of(document);
  if (outcome.has_failed) told.exit = Exit::kRefused;
  if (!document["invariant"]["holds"].get<bool>()) told.exit = Exit::kDamage;
  return told;
}

}  // namespace

Exit run(const RunCommand &command) {
  Told told;
  int signal = 0;
  {
    std::optional<StopSignals> signals;
    if (command.domain.empty()) signals.emplace();
    try {
      told = run_in_folder(command);
    } catch (const Interrupted &) {
      signal = StopSignals::last();
    }
  }
  if (signal != 0) (void)::raise(signal);  // which ends the process, as it would have before
  // Not before the folder is gone: a closed pipe is a signal, too.
  print(told.text);
  return told.exit;
}

}  // namespace tmh::tools
