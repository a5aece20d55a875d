// examples/inverted_index/main.cpp -- several processes build one index in transactional memory and
// are killed meanwhile.
// Shape:     find the input; let processes lay out the work in a fresh domain and do it; build the
//            same index plainly; open the domain and compare.
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/bad_input.h"
#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/hybrid.h"
#include "examples/inverted_index/index.h"
#include "examples/inverted_index/lives.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/plain_index.h"
#include "examples/inverted_index/progress.h"
#include "examples/inverted_index/report.h"
#include "examples/inverted_index/signals.h"
#include "examples/inverted_index/tiny.h"
#include "examples/inverted_index/work_folder.h"
#include "examples/inverted_index/worker.h"

namespace inverted_index {
namespace {

Corpus find_input(const Options &options, Signals &signals) {
  const auto poll = [&] { signals.check(); };
  Corpus corpus =
      options.path.empty()
          ? collect(default_sources(), options.limits, Missing::kSkip, poll)
          : collect({{options.path, "", Length::kLimited}}, options.limits, Missing::kRefuse, poll);
  if (corpus.documents.empty()) {
    const std::string where = options.path.empty() ? "the default folders" : options.path;
    const std::string why = describe(corpus.skipped);
    throw BadInput(fmt::format("no text to index in {}{}", where,
                               why.empty() ? "" : fmt::format(" (skipped: {})", why)));
  }
  return corpus;
}

// The index itself: everything from the domain's birth to the table. Returns whether the two
// indexes are equal.
bool build_and_compare(const Options &options, const WorkFolder &folder,
                       const std::string &domain_folder, const Corpus &corpus, Signals &signals) {
  ProgressLine line(corpus.bytes);
  const RunReport report = Lives(options, domain_folder, corpus, signals).run(line);

  const auto begin = std::chrono::steady_clock::now();
  const PlainIndex plain = build_plain(corpus.documents, [&] { signals.check(); });
  const double serial_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  // All have closed the domain, so this is what lies on the disk.
  tmh::Domain domain = tmh::Domain::open(domain_folder, domain_options(options, "auditor"));
  const tmh::Segment segment = domain.map(kSegmentFile);
  const Index &index = *segment.root<Index>(kRootName);
  const Comparison comparison =
      tmh::query(domain, [&] { return compare(index, plain, corpus.documents); });
  print_results(options,
                {corpus, comparison, report, domain.recovery(), domain_folder, folder.file_system(),
                 domain.tracking(), domain.detection(), domain.policy(), serial_seconds});
  if (comparison.difference_count != 0) {
    fmt::print("DIFFERENT: {} differences from the serial index; the first:\n",
               comparison.difference_count);
    for (const std::string &sentence : comparison.first_differences) fmt::print("  {}\n", sentence);
  } else {
    fmt::print(
        "The index equals the one that plain serial code built: every word, document and count.\n");
  }
  domain.close();
  const bool hybrid_is_equal =
      options.no_hybrid || run_hybrid(options, folder.path() + "/hybrid", corpus, plain, signals);
  return comparison.difference_count == 0 && hybrid_is_equal;
}

Exit run(Options options) {
  Signals signals;
  const WorkFolder folder(options.domain_folder);
  const std::string domain_folder = folder.path() + (folder.temporary() ? "/domain" : "");
  Skipped expected;
  if (options.tiny) {
    if (!folder.temporary()) throw BadInput("--tiny makes its own folder; leave out --domain");
    options.path = folder.path() + "/text";
    options.workers = 2;
    options.kills = 5;
    options.hybrid_kills = 3;
    options.cut = {2048, 8, 8};
    options.checkpoint_bytes = std::uint64_t{512} << 10;
    // The smallest: the log has several files even here.
    options.log_file_bytes = std::uint64_t{1} << 20;
    expected = write_tiny_input(options.path, options.seed);
  }
  const Corpus corpus = find_input(options, signals);
  print_input(options, corpus);
  if (options.cut.batch_bytes == 0) options.cut.batch_bytes = batch_bytes_for(corpus.bytes);
  if (options.tiny && describe(corpus.skipped) != describe(expected)) {
    throw std::runtime_error(
        fmt::format("skipped {}, but there was: {}", describe(corpus.skipped), describe(expected)));
  }
  const bool equal = build_and_compare(options, folder, domain_folder, corpus, signals);
  if (!folder.temporary()) fmt::print("The domain stays in {}.\n", folder.path());
  return equal ? Exit::kEqual : Exit::kDifferent;
}

int main_program(int argc, const char *const *argv) {
  Options options;
  if (const int code = parse_command_line(argc, argv, &options); code >= 0) return code;
  const auto complain = [](const char *what, Exit code) {
    std::fflush(stdout);
    fmt::print(stderr, "tmh_inverted_index: {}\n", what);
    return static_cast<int>(code);
  };
  try {
    if (options.worker_slot >= 0) {
      run_worker(options);
      return static_cast<int>(Exit::kEqual);
    }
    check_options(options);  // before anything is made
    return static_cast<int>(run(options));
  } catch (const Interrupted &error) {
    return complain(error.what(), Exit::kInterrupted);
  } catch (const BadInput &error) {
    return complain(error.what(), Exit::kBadInput);
  } catch (const std::exception &error) {
    return complain(error.what(), Exit::kDifferent);
  }
}

}  // namespace
}  // namespace inverted_index

int main(int argc, char **argv) { return inverted_index::main_program(argc, argv); }
