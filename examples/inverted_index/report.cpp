// examples/inverted_index/report.cpp -- prints it.
#include "examples/inverted_index/report.h"

#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace inverted_index {
namespace {

// In AbortCause's order.
constexpr std::string_view kCauseNames[tmh::kAbortCauseCount] = {
    "none",         "validation", "conflict, failed itself", "conflict, failed by another", "user", "query wrote",
    "process died", "no space"};

// 1234567 -> "1,234,567", whatever the locale.
std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void row(std::string_view name, const std::string &value) { fmt::print("  {:<22}{}\n", name, value); }

double per(std::uint64_t total, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<double>(total) / static_cast<double>(count);
}

std::string abort_causes(const tmh::Counters &counters) {
  std::string text;
  for (std::size_t cause = 1; cause < tmh::kAbortCauseCount; ++cause) {
    if (counters.aborts[cause] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(counters.aborts[cause]), kCauseNames[cause]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

void print_input(const Options &options, const Corpus &corpus) {
  std::string what = options.path;
  if (what.empty()) {
    for (const Source &source : default_sources()) what += (what.empty() ? "" : ", ") + source.path;
  }
  fmt::print("input:   {} ({} files, {:.2f} MB)\n", what, grouped(corpus.documents.size()), megabytes(corpus.bytes));
  if (corpus.skipped.total() != 0) fmt::print("skipped: {}\n", describe(corpus.skipped));
  if (corpus.files_cut != 0) {
    fmt::print("limit:   {} bytes of each file; {} longer ones are cut there (--limit-file-bytes 0 takes them whole)\n",
               grouped(options.limits.file_bytes), grouped(corpus.files_cut));
  }
  if (corpus.files_limit_reached) {
    fmt::print("limit:   {} files; the rest is left out (--limit-files 0 takes all)\n", grouped(options.limits.files));
  }
  if (corpus.bytes_limit_reached) {
    fmt::print("limit:   {} bytes; the last file is cut there and the rest left out (--limit-bytes 0 takes all)\n",
               grouped(options.limits.bytes));
  }
}

void print_plan(const Options &options, const Index &index) {
  fmt::print("work:    {} batches of {} bytes x {} shards in {} lanes; {} workers, {} kills, seed {}\n",
             grouped(index.batches.size()), grouped(options.cut.batch_bytes), index.shards.size(), index.lanes.size(),
             options.workers, options.no_kills ? 0 : options.kills, options.seed);
  std::fflush(stdout);  // before the long part: whoever reads a pipe sees it now
}

void print_results(const Options &options, const Results &results) {
  const tmh::Counters &c = results.counters;
  const double mb = megabytes(results.corpus.bytes);
  row("documents", grouped(results.corpus.documents.size()));
  row("words", fmt::format("{} different, {} in all", grouped(results.comparison.words),
                           grouped(results.comparison.occurrences)));
  row("postings", grouped(results.comparison.postings));
  row("bytes", grouped(results.corpus.bytes));
  row("transactions",
      fmt::format("{} committed of {} begun; {} queries", grouped(c.commits), grouped(c.begins), grouped(c.queries)));
  row("aborts", fmt::format("{} ({:.3f} per commit): {}", grouped(c.aborts_total()), per(c.aborts_total(), c.commits),
                            abort_causes(c)));
  row("pages read", fmt::format("{} ({:.1f} per commit)", grouped(c.pages_read), per(c.pages_read, c.commits)));
  row("pages written", fmt::format("{} ({:.1f} per commit); {} lines", grouped(c.pages_written),
                                   per(c.pages_written, c.commits), grouped(c.lines_written)));
  row("first touches",
      fmt::format("{} by signal, {} by the kernel", grouped(c.faults_signal), grouped(c.faults_kernel)));
  row("versions", fmt::format("{} live ({:.2f} MB), {} after collection", grouped(c.versions_live),
                              megabytes(c.versions_bytes), grouped(results.versions_after_collect)));
  row("time", fmt::format("{:.2f} s with {} workers ({:.2f} MB/s); plain serial code {:.2f} s ({:.2f} MB/s)",
                          results.crew.seconds, options.workers, mb / results.crew.seconds, results.serial_seconds,
                          mb / results.serial_seconds));
  row("processor time", fmt::format("{:.2f} s of all workers; longest standstill {:.3f} s",
                                    results.crew.processor_seconds, results.crew.standstill_seconds));
  const std::uint32_t planned = options.no_kills ? 0 : options.kills;
  row("kills survived",
      fmt::format("{} of {} planned{}; {} participants reaped, {} locks recovered", results.crew.kills, planned,
                  results.crew.kills < planned ? " (the others came too late: the work was done)" : "",
                  grouped(c.participants_reaped), grouped(c.lock_recoveries)));
  row("workers", fmt::format("{} at a time, {} started", options.workers, results.crew.workers_started));
  row("tracking", fmt::format("{}: {}", tmh::to_string(results.tracking.tracking), results.tracking.reason));
  row("detection", tmh::to_string(results.detection));
  row("policy", tmh::to_string(results.policy));
}

}  // namespace inverted_index
