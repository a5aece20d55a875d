// examples/inverted_index/report.cpp -- prints it.
#include "examples/inverted_index/report.h"

#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace inverted_index {
namespace {

// In AbortCause's order.
constexpr std::string_view kCauseNames[tmh::kAbortCauseCount] = {"none",
                                                                 "validation",
                                                                 "conflict, failed itself",
                                                                 "conflict, failed by another",
                                                                 "user",
                                                                 "query wrote",
                                                                 "process died",
                                                                 "no space",
                                                                 "capacity",
                                                                 "cross-level",
                                                                 "spurious",
                                                                 "needs pages"};
static_assert(!kCauseNames[tmh::kAbortCauseCount - 1].empty());

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

double per(std::uint64_t total, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<double>(total) / static_cast<double>(count);
}

std::string abort_causes(const tmh::Counters &counters) {
  std::string text;
  for (std::size_t cause = 1; cause < tmh::kAbortCauseCount; ++cause) {
    if (counters.aborts[cause] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(counters.aborts[cause]),
                        kCauseNames[cause]);
  }
  return text.empty() ? "none" : text;
}

void print_log(const Options &options, const tmh::Counters &c) {
  row("log",
      fmt::format("{} bytes, {} per commit; {} durable writes (fsync), {:.2f} commits in each",
                  grouped(c.log_bytes),
                  grouped(c.log_commits == 0 ? 0 : c.log_bytes / c.log_commits),
                  grouped(c.log_flushes), per(c.log_commits, c.log_flushes)));
  row("checkpoints", fmt::format("{}, one in {} bytes of log", grouped(c.checkpoints),
                                 grouped(options.checkpoint_bytes)));
}

void print_outages(const Options &options, const RunReport &run,
                   const tmh::RecoveryInfo &reopening) {
  std::uint64_t transactions = 0, salvaged = 0, missing = 0;
  double recovery_ms = 0, outage_ms = 0;
  for (const Outage &outage : run.outages) {
    transactions += outage.recovery.transactions;
    salvaged += outage.recovery.salvaged;
    missing += outage.units_missing;
    recovery_ms += static_cast<double>(outage.recovery.total_us) / 1e3;
    outage_ms += 1e3 * outage.seconds;
  }
  row("whole-domain kills",
      fmt::format(
          "{} of {} planned{}; {} acknowledged units missing", run.outages.size(),
          options.domain_kills(),
          options.cuts_power() && !run.outages.empty() ? ", shared memory removed each time" : "",
          grouped(missing)));
  if (!run.outages.empty() && options.durability != "none") {
    row("recovery",
        fmt::format("{:.1f} ms of {:.0f} ms out of work; {} transactions replayed, {} salvaged",
                    recovery_ms, outage_ms, grouped(transactions), grouped(salvaged)));
  }
  if (reopening.ran) {
    row("reopened to compare",
        fmt::format("{}, {} transactions replayed", reopening.was_clean ? "clean" : "not clean",
                    grouped(reopening.transactions)));
  }
}

}  // namespace

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

void row(std::string_view name, const std::string &value) {
  fmt::print("  {:<22}{}\n", name, value);
}

void print_input(const Options &options, const Corpus &corpus) {
  std::string what = options.path;
  if (what.empty()) {
    for (const Source &source : default_sources()) what += (what.empty() ? "" : ", ") + source.path;
  }
  fmt::print("input:   {} ({} files, {:.2f} MB)\n", what, grouped(corpus.documents.size()),
             megabytes(corpus.bytes));
  if (corpus.skipped.total() != 0) fmt::print("skipped: {}\n", describe(corpus.skipped));
  if (corpus.files_cut != 0) {
    fmt::print(
        "limit:   {} bytes of each file; {} longer ones are cut there (--limit-file-bytes 0 takes "
        "them whole)\n",
        grouped(options.limits.file_bytes), grouped(corpus.files_cut));
  }
  if (corpus.files_limit_reached) {
    fmt::print("limit:   {} files; the rest is left out (--limit-files 0 takes all)\n",
               grouped(options.limits.files));
  }
  if (corpus.bytes_limit_reached) {
    fmt::print(
        "limit:   {} bytes; the last file is cut there and the rest left out (--limit-bytes 0 "
        "takes all)\n",
        grouped(options.limits.bytes));
  }
}

void print_plan(const Options &options, const Opening &opening) {
  fmt::print("work:    {} batches of {} bytes x {} shards in {} lanes; {} workers, durability {}\n",
             grouped(opening.batch_count), grouped(options.cut.batch_bytes), opening.shard_count,
             opening.lane_count, options.workers, options.durability);
  fmt::print("kills:   {} of one worker, {} of all processes at once; seed {}\n",
             options.worker_kills(), options.domain_kills(), options.seed);
  std::fflush(stdout);  // before the long part: whoever reads a pipe sees it now
}

void print_killed(const Outage &outage) {
  fmt::print(
      "killed:  all {} processes that had the domain open, at once (SIGKILL); {} of {} units were "
      "acknowledged\n",
      outage.processes, grouped(outage.units_acknowledged), grouped(outage.units_total));
  if (outage.files_removed != 0)
    fmt::print(
        "         then, as a power cut would, removed the {} files of shared memory: the disk "
        "alone decides\n",
        outage.files_removed);
  std::fflush(stdout);
}

void print_recovered(const Options &options, const Outage &outage) {
  const tmh::RecoveryInfo &r = outage.recovery;
  if (options.durability == "none") {
    fmt::print("opened:  volatile, nothing to replay: its shared memory was still there\n");
  } else {
    fmt::print(
        "opened:  {}; {} transactions replayed, {} salvaged from shared memory; {} bytes of log, "
        "{} pages; {}; {:.1f} "
        "ms\n",
        r.was_clean ? "clean" : "not clean", grouped(r.transactions), grouped(r.salvaged),
        grouped(r.log_bytes), grouped(r.pages),
        r.tail_was_torn ? fmt::format("torn tail at {}", grouped(r.torn_at)) : "no torn tail",
        static_cast<double>(r.total_us) / 1e3);
  }
  fmt::print(
      "found:   {} units; of the acknowledged ones {}; at work again {:.0f} ms after the kill\n",
      grouped(outage.units_found),
      outage.units_missing == 0
          ? "none is missing"
          : fmt::format("{} are missing and done again", grouped(outage.units_missing)),
      1e3 * outage.seconds);
  std::fflush(stdout);
}

void print_results(const Options &options, const Results &results) {
  const RunReport &run = results.run;
  const tmh::Counters &c = run.counters;
  const double mb = megabytes(results.corpus.bytes);
  row("documents", grouped(results.corpus.documents.size()));
  row("words", fmt::format("{} different, {} in all", grouped(results.comparison.words),
                           grouped(results.comparison.occurrences)));
  row("postings", grouped(results.comparison.postings));
  row("bytes", grouped(results.corpus.bytes));
  row("transactions", fmt::format("{} committed of {} begun; {} queries", grouped(c.commits),
                                  grouped(c.begins), grouped(c.queries)));
  row("aborts", fmt::format("{} ({:.3f} per commit): {}", grouped(c.aborts_total()),
                            per(c.aborts_total(), c.commits), abort_causes(c)));
  row("pages read",
      fmt::format("{} ({:.1f} per commit)", grouped(c.pages_read), per(c.pages_read, c.commits)));
  row("pages written", fmt::format("{} ({:.1f} per commit); {} lines", grouped(c.pages_written),
                                   per(c.pages_written, c.commits), grouped(c.lines_written)));
  row("first touches", fmt::format("{} by signal, {} by the kernel", grouped(c.faults_signal),
                                   grouped(c.faults_kernel)));
  row("versions", fmt::format("{} live ({:.2f} MB), {} after collection", grouped(c.versions_live),
                              megabytes(c.versions_bytes), grouped(run.versions_after_collect)));
  row("time",
      fmt::format(
          "{:.2f} s with {} workers ({:.2f} MB/s); plain serial code {:.2f} s ({:.2f} MB/s)",
          run.seconds, options.workers, mb / run.seconds, results.serial_seconds,
          mb / results.serial_seconds));
  row("processor time",
      fmt::format("{:.2f} s of all workers and supervisors; longest standstill {:.3f} s",
                  run.processor_seconds, run.standstill_seconds));
  const std::uint32_t planned = options.worker_kills();
  row("single kills",
      fmt::format("{} of {} planned{}; {} participants reaped, {} locks recovered", run.kills,
                  planned,
                  run.kills < planned ? " (the others came too late: the work was done)" : "",
                  grouped(c.participants_reaped), grouped(c.lock_recoveries)));
  row("workers", fmt::format("{} at a time, {} started", options.workers, run.workers_started));
  row("durability",
      fmt::format("{}; in {} ({})", options.durability, results.folder, results.file_system));
  if (options.durability != "none") print_log(options, c);
  print_outages(options, run, results.reopening);
  row("tracking",
      fmt::format("{}: {}", tmh::to_string(results.tracking.tracking), results.tracking.reason));
  row("detection", tmh::to_string(results.detection));
  row("policy", tmh::to_string(results.policy));
}

}  // namespace inverted_index
