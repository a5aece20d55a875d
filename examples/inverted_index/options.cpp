// examples/inverted_index/options.cpp -- the command line.
#include "examples/inverted_index/options.h"

#include <unistd.h>

#include <random>

#include <fmt/format.h>

#include "examples/inverted_index/bad_input.h"
#include "examples/inverted_index/ledger.h"
#include "programs/command_line.h"

namespace inverted_index {

int parse_command_line(int argc, const char *const *argv, Options *options) {
  tmh::programs::CommandLine line(
      "Several processes build one inverted index of real text in std::map, in durable "
      "transactional memory, while "
      "they\n"
      "are killed at random, and once all together: the index is then recovered from its log. The "
      "result is compared "
      "with\n"
      "an index that plain code builds. Then the same text is counted in a hybrid domain.",
      "tmh_inverted_index");
  options->seed = std::random_device{}();

  line.add_option("path", options->path,
                  "file or folder to index (default: texts that every Debian ships)");
  line.add_option("--workers", options->workers, "worker processes")
      .check_range<int>(1, 256)
      .capture_default_str();
  line.add_option("--kills", options->kills, "single workers to kill during the run")
      .check_range<int>(0, 100'000)
      .capture_default_str();
  line.add_option("--whole-kills", options->whole_kills,
                  "times to kill every process that has the domain open")
      .check_range<int>(0, 1000)
      .capture_default_str();
  line.add_flag("--no-kills", options->no_kills, "kill nobody");
  line.add_option("--durability", options->durability,
                  fmt::format("{}; also TMH_DURABILITY", tmh::durability_values()))
      .envname("TMH_DURABILITY")
      .capture_default_str();
  line.add_flag_function(
      "--power-cut,!--no-power-cut",
      [options](std::int64_t times) { options->power_cut = times > 0; },
      "after killing all, remove what a power cut takes from a domain, its shared memory, so that "
      "the disk alone "
      "decides\n"
      "(default: yes, unless the durability is none)");
  line.add_option("--checkpoint-bytes", options->checkpoint_bytes, "log between two checkpoints")
      .check_range(1, std::uint64_t{1} << 40)
      .capture_default_str();
  line.add_option("--seed", options->seed,
                  "chooses whom to kill and when; also TMH_SEED (default: random, printed)")
      .envname("TMH_SEED");
  line.add_option("--limit-files", options->limits.files, "index at most so many files, 0: all")
      .capture_default_str();
  line.add_option("--limit-bytes", options->limits.bytes, "index at most so many bytes, 0: all")
      .capture_default_str();
  line.add_option("--limit-file-bytes", options->limits.file_bytes,
                  "of each file in a folder index at most so many bytes, 0: all")
      .capture_default_str();
  line.add_option("--detection", options->detection, tmh::detection_values());
  line.add_option("--tracking", options->tracking, tmh::tracking_values());
  line.add_option("--policy", options->policy, tmh::policy_values());
  line.add_flag("--no-hybrid", options->no_hybrid, "leave out the second part, the hybrid domain");
  line.add_option("--hybrid-kills", options->hybrid_kills,
                  "single workers to kill in the second part")
      .check_range<int>(0, 1000)
      .capture_default_str();
  line.add_option("--hybrid-capacity", options->hybrid_capacity,
                  "what fits at cache lines, as TMH_CAPACITY spells it")
      .capture_default_str();
  line.add_option("--hybrid-escalation", options->hybrid_escalation,
                  fmt::format("of the counters: {}", tmh::escalation_values()))
      .capture_default_str();
  line.add_option("--hybrid-durability", options->hybrid_durability, tmh::durability_values())
      .capture_default_str();
  line.add_option("--domain", options->domain_folder, "use this new or empty folder, and keep it");
  line.add_flag("--tiny", options->tiny,
                "a little generated text, 2 workers, 5 kills, one of all: a test");

  const std::string tuning = "How the work is cut";
  line.add_option("--batch-bytes", options->cut.batch_bytes,
                  "text per batch, 0: a 64th of the text, 2 KiB to 128 KiB")
      .check_range(0, std::uint64_t{1} << 30)
      .capture_default_str()
      .group(tuning);
  line.add_option("--shards", options->cut.shard_count, "maps that the index is divided into")
      .check_range<int>(1, 4096)
      .capture_default_str()
      .group(tuning);
  line.add_option("--lanes", options->cut.lane_count, "queues of batches")
      .check_range(1, kLanesMax)
      .capture_default_str()
      .group(tuning);

  // An empty group hides an option from --help: these are between a supervisor and its workers.
  line.add_option("--worker", options->worker_slot).group("");
  line.add_option("--parent", options->parent).group("");
  line.add_option("--ledger", options->ledger).group("");
  if (const auto status = line.parse(argc, argv))
    return static_cast<int>(*status == 0 ? Exit::kEqual : Exit::kBadInput);
  return -1;
}

void check_options(const Options &options) {
  (void)domain_options(options, "");
  if (!options.no_hybrid) (void)hybrid_options(options, "");
  if (options.durability == "none" && options.cuts_power()) {
    throw BadInput(
        "--power-cut needs a durable domain: a volatile one promises nothing then; --durability "
        "buffered or strict");
  }
}

tmh::DomainOptions domain_options(const Options &options, const std::string &participant_name) {
  tmh::DomainOptions result;
  result.name = participant_name;
  result.policies.conflict = options.policy;
  result.checkpoint_bytes = options.checkpoint_bytes;
  result.log_file_bytes = options.log_file_bytes;
  tmh::Policy policy;
  if (!options.detection.empty() &&
      tmh::parse(options.detection, &result.policies.detection) != tmh::Errc::kOk) {
    throw BadInput(fmt::format("{} is no detection mode; right values: {}", options.detection,
                               tmh::detection_values()));
  }
  if (!options.tracking.empty() &&
      tmh::parse(options.tracking, &result.tracking) != tmh::Errc::kOk) {
    throw BadInput(fmt::format("{} is no tracking mode; right values: {}", options.tracking,
                               tmh::tracking_values()));
  }
  if (tmh::parse(options.durability, &result.durability) != tmh::Errc::kOk) {
    throw BadInput(fmt::format("{} is no durability; right values: {}", options.durability,
                               tmh::durability_values()));
  }
  if (!options.policy.empty() && tmh::parse(options.policy, &policy) != tmh::Errc::kOk) {
    throw BadInput(
        fmt::format("{} is no policy; right values: {}", options.policy, tmh::policy_values()));
  }
  return result;
}

tmh::DomainOptions hybrid_options(const Options &options, const std::string &participant_name) {
  Options hybrid = options;
  hybrid.durability = options.hybrid_durability;
  tmh::DomainOptions result = domain_options(hybrid, participant_name);
  result.policies.detection = tmh::Detection::kLazy;
  result.levels = tmh::Levels::kHybrid;
  result.policies.capacity = options.hybrid_capacity;
  tmh::Escalation escalation;
  if (tmh::parse(options.hybrid_escalation, &escalation) != tmh::Errc::kOk) {
    throw BadInput(fmt::format("{} is no escalation; right values: {}", options.hybrid_escalation,
                               tmh::escalation_values()));
  }
  return result;
}

std::vector<std::string> worker_arguments(const Options &options, const std::string &folder,
                                          std::uint32_t slot, int ledger) {
  std::vector<std::string> arguments = {
      "--worker",           std::to_string(slot),
      "--parent",           std::to_string(::getpid()),
      "--ledger",           std::to_string(ledger),
      "--workers",          std::to_string(options.workers),
      "--domain",           folder,
      "--durability",       options.durability,
      "--checkpoint-bytes", std::to_string(options.checkpoint_bytes)};
  const auto pass = [&](const char *name, const std::string &value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  pass("--detection", options.detection);
  pass("--tracking", options.tracking);
  pass("--policy", options.policy);
  return arguments;
}

}  // namespace inverted_index
