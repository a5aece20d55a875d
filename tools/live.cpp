// tools/live.cpp -- tmh checkpoint, archive, backup, copy: joins the domain, does it, leaves.
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include <tmh/domain.hpp>

#include "platform/assert.h"
#include "platform/disk.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/watched_work.h"

namespace tmh::tools {

namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

std::uint64_t us_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

struct Joined {
  Domain domain;
  std::unique_ptr<storage::ControlFile> control;
};

// Domain::open() makes what does not exist; a misspelt name is to be an error.
Joined join(const std::string &folder) {
  Joined joined;
  joined.control = read_durable_control(folder);
  DomainOptions options;
  options.name = "tmh";
  joined.domain = Domain::open(folder, options);
  return joined;
}

// A domain that `tmh recover` has just put in order counts as not clean, and has nothing to tell.
std::string opening_text(const LiveCommand &command, const Domain &domain) {
  const RecoveryInfo info = domain.recovery();
  const bool has_nothing = info.transactions == 0 && !info.tail_was_torn;
  if (!info.ran || info.was_clean || has_nothing) return {};
  return fmt::format("{}: was not closed cleanly; {} replayed first\n", command.domain,
                     counted(info.transactions, "transaction"));
}

// Who keeps a checkpoint from advancing: the reader of the oldest snapshot.
std::string oldest_reader(const Domain &domain) {
  const ParticipantInfo *oldest = nullptr;
  const std::vector<ParticipantInfo> all = domain.participants();
  for (const ParticipantInfo &one : all) {
    if (one.active && one.age_us >= 100'000 &&
        (oldest == nullptr || one.snapshot < oldest->snapshot))
      oldest = &one;
  }
  if (oldest == nullptr) return {};
  return fmt::format(
      "process {} ({}) has an instance open for {}: a checkpoint does not go beyond what it "
      "reads\n",
      oldest->pid, oldest->name, duration_text(oldest->age_us));
}

Exit checkpoint(const LiveCommand &command, const Joined &joined) {
  TMH_ASSERT(command.kind == LiveCommand::Kind::kCheckpoint);
  const Domain &domain = joined.domain;
  const auto lsn = [&] {
    return read_checkpoint(domain.folder(), *joined.control).get(domain.folder()).lsn;
  };
  const std::uint64_t before = lsn();
  const auto start = Clock::now();
  domain.checkpoint();
  const std::uint64_t us = us_since(start);
  const std::uint64_t after = lsn();
  if (command.json) {
    print(
        Json{{"domain", command.domain}, {"lsn", after}, {"lsn_before", before}, {"total_us", us}});
    return Exit::kOk;
  }
  std::string text = opening_text(command, domain);
  if (after == before)
    text += fmt::format("{}: nothing to do in {}; recovery starts at LSN {} as before\n",
                        command.domain, duration_text(us), after);
  else
    text += fmt::format("{}: checkpoint in {}; recovery starts at LSN {}, {} of log further on\n",
                        command.domain, duration_text(us), after, bytes_text(after - before));
  print(text + oldest_reader(domain));
  return Exit::kOk;
}

Exit archive(const LiveCommand &command, const Joined &joined) {
  TMH_ASSERT(command.kind == LiveCommand::Kind::kArchive);
  std::error_code ignored;
  if (fs::equivalent(command.to, joined.domain.folder(), ignored))
    refuse(Errc::kBadArgument, command.to + " is the domain's own folder");
  const auto start = Clock::now();
  const std::vector<std::string> moved = joined.domain.archive(command.to);
  const std::uint64_t us = us_since(start);
  std::uint64_t bytes = 0;
  for (const std::string &file : moved) bytes += file_facts(file).bytes;
  if (command.json) {
    print(Json{{"domain", command.domain},
               {"to", command.to},
               {"moved", moved},
               {"bytes", bytes},
               {"total_us", us}});
    return Exit::kOk;
  }
  std::string text = opening_text(command, joined.domain);
  for (const std::string &file : moved) text += file + "\n";
  text += fmt::format("{}: {} moved to {} ({}) in {}\n", command.domain,
                      counted(moved.size(), "log file"), command.to, bytes_text(bytes),
                      duration_text(us));
  print(text + oldest_reader(joined.domain));
  return Exit::kOk;
}

struct Copied {
  std::uint64_t files = 0, bytes = 0, disk_bytes = 0;
};
Copied facts_of(const std::string &folder) {
  Copied copied;
  for (const auto &entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const FileFacts facts = file_facts(entry.path());
    ++copied.files;
    copied.bytes += facts.bytes;
    copied.disk_bytes += facts.disk_bytes;
  }
  return copied;
}

// A backup that is recovered before it gets its name: a closed domain, which goes its own way from
// here on.
RecoveryInfo copy_to(const LiveCommand &command, const Joined &joined) {
  TMH_ASSERT(command.kind == LiveCommand::Kind::kCopy);
  std::string to = command.to;
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  std::error_code ignored;
  if (to.empty() || fs::exists(fs::symlink_status(to, ignored)))
    refuse(Errc::kBadArgument, to + " exists");
  const std::string unnamed = to + ".copying";
  if (fs::exists(fs::symlink_status(unnamed, ignored)))
    refuse(Errc::kBadArgument,
           unnamed + " exists: another copy is being made, or was interrupted; remove it then");
  joined.domain.backup(unnamed);
  try {
    const RecoveryInfo recovered = recover(unnamed);
    check(platform::sync_folder(unnamed));
    check(platform::rename_new(unnamed, to));
    check(platform::sync_folder(to + "/.."));
    return recovered;
  } catch (...) {
    fs::remove_all(unnamed, ignored);
    throw;
  }
}

Exit backup(const LiveCommand &command, const Joined &joined) {
  const auto start = Clock::now();
  const bool is_copy = command.kind == LiveCommand::Kind::kCopy;
  TMH_ASSERT(is_copy || command.kind == LiveCommand::Kind::kBackup);
  RecoveryInfo recovered;
  if (is_copy)
    recovered = copy_to(command, joined);
  else
    joined.domain.backup(command.to);
  const std::uint64_t us = us_since(start);
  const Copied copied = facts_of(command.to);
  if (command.json) {
    Json document{{"domain", command.domain},        {"to", command.to},
                  {"files", copied.files},           {"bytes", copied.bytes},
                  {"disk_bytes", copied.disk_bytes}, {"total_us", us}};
    if (is_copy) document["transactions_replayed"] = recovered.transactions;
    print(document);
    return Exit::kOk;
  }
  print(opening_text(command, joined.domain) +
        fmt::format(
            "{}: {} copied to {} ({}, {} on disk) in {}; {}\n", command.domain,
            counted(copied.files, "file"), command.to, bytes_text(copied.bytes),
            bytes_text(copied.disk_bytes), duration_text(us),
            is_copy ? "it is recovered, and a domain of its own" : "opening it there recovers it"));
  return Exit::kOk;
}

Exit work(const LiveCommand &command) {
  if (command.kind == LiveCommand::Kind::kCopy &&
      read_control(command.domain)->header.durability == 0)
    refuse(Errc::kNotDurable,
           command.domain + " is volatile: copy its folder while nobody has it open");
  Joined joined = join(command.domain);
  const Exit exit = [&] {
    switch (command.kind) {
      case LiveCommand::Kind::kCheckpoint:
        return checkpoint(command, joined);
      case LiveCommand::Kind::kArchive:
        return archive(command, joined);
      case LiveCommand::Kind::kBackup:
      case LiveCommand::Kind::kCopy:
        return backup(command, joined);
    }
    return Exit::kRefused;
  }();
  joined.domain.close();
  return exit;
}

// What an unfinished backup or copy leaves, if it is not there now: another program's stays.
std::vector<std::string> own_leftovers(const LiveCommand &command) {
  std::string to = command.to;
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  std::vector<std::string> mine;
  std::error_code ignored;
  for (const char *const suffix : {".incomplete", ".copying", ".copying.incomplete"})
    if (!fs::exists(fs::symlink_status(to + suffix, ignored))) mine.push_back(to + suffix);
  return mine;
}

}  // namespace

Exit run(const LiveCommand &command) {
  WatchPlan plan{command.domain, command.timeout_s, {}};
  if (command.kind == LiveCommand::Kind::kBackup || command.kind == LiveCommand::Kind::kCopy)
    plan.clean_up = [leftovers = own_leftovers(command)] {
      std::error_code ignored;
      for (const std::string &folder : leftovers) fs::remove_all(folder, ignored);
    };
  const Exit exit = run_watched(plan, [&] { return work(command); });
  if (exit == Exit::kTimedOut && command.json)
    print_line(
        Json{{"error", "timeout"}, {"domain", command.domain}, {"timeout_s", command.timeout_s}});
  return exit;
}

}  // namespace tmh::tools
