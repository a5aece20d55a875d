// examples/inverted_index/hybrid.cpp -- workers that count words, and whoever starts, kills,
// replaces and checks them.
// Shape:     a worker claims a file (pages); adds its words one by one (lines); then adds one to
//            each of its words' number of files, all in one transaction, which is small or large as
//            the file is: it begins at lines and goes up when it does not fit there.
// Sharing:   what a worker tells lies in shared memory of its own, not in the domain: a killed
//            one's totals lack its last words.
#include "examples/inverted_index/hybrid.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "examples/inverted_index/pace.h"
#include "examples/inverted_index/report.h"
#include "examples/inverted_index/word_table.h"

namespace inverted_index {
namespace {

constexpr std::size_t kLivesMax = 2048;  // workers ever started

struct SiteTotals {
  std::uint64_t line_commits, page_commits, line_aborts, page_aborts, for_capacity, for_pages,
      for_attempts;
  std::uint64_t de_escalations, releases, recalls, line_ns, page_ns;

  static SiteTotals of(const tmh::SiteReport &report) {
    return {report.line_commits,
            report.page_commits,
            report.line_aborts,
            report.page_aborts,
            report.escalations_capacity,
            report.escalations_needs_pages,
            report.escalations_attempts,
            report.de_escalations,
            report.releases,
            report.recalls,
            report.line_ns,
            report.page_ns};
  }
  void add(const SiteTotals &other) {
    line_commits += other.line_commits;
    page_commits += other.page_commits;
    line_aborts += other.line_aborts;
    page_aborts += other.page_aborts;
    for_capacity += other.for_capacity;
    for_pages += other.for_pages;
    for_attempts += other.for_attempts;
    de_escalations += other.de_escalations;
    releases += other.releases;
    recalls += other.recalls;
    line_ns += other.line_ns;
    page_ns += other.page_ns;
  }
};

enum SiteNumber : std::uint32_t { kCount, kMerge, kClaim, kSites };
constexpr const char *kSiteNames[kSites] = {"word counts", "merges", "claims"};

struct Life {
  SiteTotals sites[kSites];
  char failure[256];
};

// Made before the workers, and theirs too.
struct Board {
  std::atomic<std::uint64_t> words_done;
  Life lives[kLivesMax];
};

class SharedBoard {
 public:
  SharedBoard() {
    void *memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "cannot share memory");
    board_ = static_cast<Board *>(memory);
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard &) = delete;
  SharedBoard &operator=(const SharedBoard &) = delete;
  [[nodiscard]] Board *operator->() const noexcept { return board_; }

 private:
  Board *board_;
};

tmh::SegmentOptions raw(std::uint64_t bytes) {
  tmh::SegmentOptions options;
  options.layout = tmh::Layout::kRaw;
  options.size_bytes = (bytes + tmh::kPageBytes - 1) / tmh::kPageBytes * tmh::kPageBytes;
  options.max_bytes = options.size_bytes;
  return options;
}

// The domain and its tables, in one process.
struct Tables {
  Tables(const Options &options, const std::string &folder, std::uint64_t files,
         std::uint64_t entries, const std::string &name)
      : domain(tmh::Domain::open(folder, hybrid_options(options, name))),
        claims(reinterpret_cast<Claims *>(domain.map("claims.raw", raw(sizeof(Claims))).data())),
        progress(reinterpret_cast<FileProgress *>(
            domain.map("files.raw", raw(files * sizeof(FileProgress))).data())),
        words(domain.map("words.raw", raw(entries * sizeof(WordEntry))).data(), entries) {}
  tmh::Domain domain;
  Claims *claims;
  FileProgress *progress;
  WordTable words;
};

class HybridWorker {
 public:
  HybridWorker(const Options &options, Tables &tables, const std::vector<Document> &documents,
               std::uint32_t slot, Board *board, Life *life)
      : tables_(tables),
        documents_(documents),
        slot_(slot),
        board_(board),
        life_(life),
        sites_{tmh::Site(tables.domain, kSiteNames[kCount], options.hybrid_escalation),
               tmh::Site(tables.domain, kSiteNames[kMerge], "adaptive-pages"),
               tmh::Site(tables.domain, kSiteNames[kClaim], "always")} {}

  void run() {
    for (std::uint64_t file = claim(false); file != 0; file = claim(true)) {
      count(file - 1);
      tell();
    }
  }

 private:
  // File + 1, 0: none is left. A worker in the place of a killed one finds the file that that one
  // held.
  std::uint64_t claim(bool is_done) {
    return tmh::atomically(sites_[kClaim], [&] {  // plain: claims are no fields
      std::uint64_t &held = tables_.claims->held[slot_];
      if (is_done) held = 0;
      if (held == 0 && tables_.claims->next_file < documents_.size())
        held = ++tables_.claims->next_file;
      return held;
    });
  }

  void count(std::uint64_t file) {
    const Document &document = documents_[file];
    const Excerpt text = read_excerpt(document.path, 0, document.bytes, document.bytes);
    std::map<WordKey, std::uint64_t> counts;  // in an order that a successor finds again
    each_word(own_text(text), [&](std::string_view word) { ++counts[key_of(word)]; });

    FileProgress &progress = tables_.progress[file];
    const std::uint64_t done_before = tmh::atomically(
        sites_[kCount], [&](tmh::Fields) { return std::uint64_t{progress.words_done}; });
    std::uint64_t number = 0;
    for (const auto &each : counts) {
      if (++number <= done_before) continue;
      tmh::atomically(sites_[kCount], [&](tmh::Fields) {
        tables_.words.entry(each.first).occurrences += each.second;
        progress.words_done = number;
      });
      board_->words_done.fetch_add(1, std::memory_order_relaxed);  // for the kills only
      if (number % kWordsPerTelling == 0) tell();
    }
    tmh::atomically(sites_[kMerge], [&](tmh::Fields) {
      if (progress.is_merged != 0) return;
      for (const auto &each : counts) ++tables_.words.entry(each.first).files;
      progress.is_merged = 1;
    });
  }

  void tell() const {
    for (std::uint32_t site = 0; site < kSites; ++site)
      life_->sites[site] = SiteTotals::of(sites_[site].report());
  }

  static constexpr std::uint64_t kWordsPerTelling = 512;
  Tables &tables_;
  const std::vector<Document> &documents_;
  const std::uint32_t slot_;
  Board *const board_;
  Life *const life_;
  const tmh::Site sites_[kSites];
};

class HybridCrew {
 public:
  HybridCrew(const Options &options, std::string folder, const Corpus &corpus,
             std::uint64_t entries, std::uint64_t words_total, Signals &signals)
      : options_(options),
        folder_(std::move(folder)),
        corpus_(corpus),
        entries_(entries),
        words_total_(words_total),
        signals_(signals),
        random_(options.seed),
        workers_(options.workers) {}
  ~HybridCrew() {
    for (const Worker &worker : workers_) {
      if (worker.pid == 0) continue;
      ::kill(worker.pid, SIGKILL);
      (void)::waitpid(worker.pid, nullptr, 0);
    }
  }
  HybridCrew(const HybridCrew &) = delete;
  HybridCrew &operator=(const HybridCrew &) = delete;

  // Until every file is counted. REQUIRES: this process has the domain open, so that its memory
  // outlives the workers.
  void run() {
    for (std::uint32_t slot = 0; slot < workers_.size(); ++slot) start(slot);
    while (running_ != 0) {
      signals_.wait(kTickMs);
      for (std::uint32_t slot = 0; slot < workers_.size(); ++slot) look_after(slot);
      const std::uint64_t done = board_->words_done.load(std::memory_order_relaxed);
      if (killed_ < options_.hybrid_worker_kills() &&
          done * (options_.hybrid_worker_kills() + 1) > words_total_ * (killed_ + 1))
        kill_one();
    }
  }

  [[nodiscard]] std::uint32_t killed() const noexcept { return killed_; }
  [[nodiscard]] SiteTotals totals(std::uint32_t site) const {
    SiteTotals all{};
    for (std::size_t life = 0; life < lives_; ++life) all.add(board_->lives[life].sites[site]);
    return all;
  }

 private:
  struct Worker {
    ::pid_t pid = 0;
    std::size_t life = 0;
  };

  void start(std::uint32_t slot) {
    if (lives_ == kLivesMax) throw std::runtime_error("too many workers were started");
    Worker &worker = workers_[slot];
    worker.life = lives_++;
    std::fflush(nullptr);  // the child must not print again what waits in our buffers
    const ::pid_t parent = ::getpid();
    worker.pid = ::fork();
    if (worker.pid < 0)
      throw std::system_error(errno, std::generic_category(), "cannot start a worker");
    if (worker.pid == 0) work(slot, parent, &board_->lives[worker.life]);
    ++running_;
  }

  [[noreturn]] void work(std::uint32_t slot, ::pid_t parent, Life *life) {
    try {
      ::sigprocmask(SIG_SETMASK, &signals_.original_mask(), nullptr);
      die_with(parent);
      Tables tables(options_, folder_, corpus_.documents.size(), entries_,
                    fmt::format("counter-{}", slot));
      HybridWorker(options_, tables, corpus_.documents, slot, board_.operator->(), life).run();
      tables.domain.close();
    } catch (const std::exception &error) {
      std::strncpy(life->failure, error.what(), sizeof life->failure - 1);
      ::_exit(1);
    }
    ::_exit(0);  // what lies further up the stack is our parent's to clean up
  }

  void look_after(std::uint32_t slot) {
    Worker &worker = workers_[slot];
    int status = 0;
    if (worker.pid == 0 || ::waitpid(worker.pid, &status, WNOHANG) != worker.pid) return;
    worker.pid = 0;
    --running_;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const char *failure = board_->lives[worker.life].failure;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
      throw std::runtime_error(fmt::format("a hybrid worker failed: {}",
                                           *failure != '\0' ? failure : "killed by a signal"));
    start(slot);
  }

  void kill_one() {
    std::vector<::pid_t> living;
    for (const Worker &worker : workers_) {
      if (worker.pid != 0) living.push_back(worker.pid);
    }
    if (living.empty()) return;
    ::kill(living[random_() % living.size()], SIGKILL);
    ++killed_;
  }

  const Options &options_;
  const std::string folder_;
  const Corpus &corpus_;
  const std::uint64_t entries_, words_total_;
  Signals &signals_;
  std::mt19937_64 random_;
  SharedBoard board_;
  std::vector<Worker> workers_;
  std::size_t lives_ = 0;
  std::uint32_t running_ = 0, killed_ = 0;
};

// Every word of the table, and every one of the serial index.
std::vector<std::string> differences(const Tables &tables, const PlainIndex &plain,
                                     std::uint64_t *count) {
  std::vector<std::string> first;
  const auto differ = [&](std::string sentence) {
    if (++*count <= kDifferencesMax) first.push_back(std::move(sentence));
  };
  tmh::query(tables.domain, [&] {
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < tables.words.entry_count(); ++i) {
      const WordEntry &entry = tables.words.at(i);
      if (entry.word[0] == 0) continue;
      ++found;
      WordKey key;
      for (std::size_t part = 0; part < key.size(); ++part) key[part] = entry.word[part];
      const auto expected = plain.find(word_of(key));
      std::uint64_t occurrences = 0, files = 0;
      if (expected != plain.end()) {
        files = expected->second.size();
        for (const Posting &posting : expected->second) occurrences += posting.count;
      }
      if (entry.occurrences != occurrences || entry.files != files)
        differ(fmt::format("\"{}\": {} times in {} files, serially {} in {}", word_of(key),
                           entry.occurrences.load(), entry.files.load(), occurrences, files));
    }
    if (found != plain.size()) differ(fmt::format("{} words, serially {}", found, plain.size()));
  });
  return first;
}

void print_sites(const HybridCrew &crew) {
  fmt::print("  {:<13}{:>11}{:>11}{:>10}{:>10}{:>10}{:>10}\n", "", "at lines", "at pages",
             "aborted", "aborted", "s lines", "s pages");
  SiteTotals all{};
  for (std::uint32_t site = 0; site < kSites; ++site) {
    const SiteTotals totals = crew.totals(site);
    all.add(totals);
    fmt::print("  {:<13}{:>11}{:>11}{:>10}{:>10}{:>10.2f}{:>10.2f}\n", kSiteNames[site],
               grouped(totals.line_commits), grouped(totals.page_commits),
               grouped(totals.line_aborts), grouped(totals.page_aborts),
               static_cast<double>(totals.line_ns) / 1e9,
               static_cast<double>(totals.page_ns) / 1e9);
  }
  row("went up",
      fmt::format("{} for capacity, {} needed pages, {} after many attempts or much time",
                  grouped(all.for_capacity), grouped(all.for_pages), grouped(all.for_attempts)));
  row("came down", fmt::format("{} instances at lines after their site had gone up",
                               grouped(all.de_escalations)));
}

}  // namespace

bool run_hybrid(const Options &options, const std::string &folder, const Corpus &corpus,
                const PlainIndex &plain, Signals &signals) {
  std::uint64_t words_total = 0;  // of all files: what is to be counted
  for (const auto &[word, postings] : plain) words_total += postings.size();
  const std::uint64_t entries = std::bit_ceil(2 * std::max<std::uint64_t>(plain.size(), 1));
  fmt::print(
      "\nThe same text in a hybrid domain: a counter per word at cache lines, claims and large "
      "merges at pages\n");
  Tables tables(options, folder, corpus.documents.size(), entries, "hybrid supervisor");
  HybridCrew crew(options, folder, corpus, entries, words_total, signals);
  const auto begin = std::chrono::steady_clock::now();
  crew.run();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  const tmh::Counters counters = tables.domain.counters();
  std::uint64_t difference_count = 0;
  const std::vector<std::string> first = differences(tables, plain, &difference_count);
  row("counted",
      fmt::format("{} words of {} files, {} different ones; {} workers, {} killed; {:.2f} s",
                  grouped(words_total), grouped(corpus.documents.size()), grouped(plain.size()),
                  options.workers, crew.killed(), seconds));
  print_sites(crew);
  row("pages", fmt::format("{} taken by level 2 (recalls), {} given back (releases)",
                           grouped(counters.recalls), grouped(counters.releases)));
  row("cache lines hold",
      fmt::format("{} per transaction, as a best-effort hardware TM; counters escalate: {}",
                  options.hybrid_capacity, options.hybrid_escalation));
  tables.domain.close();
  if (difference_count == 0) {
    fmt::print("Every word's count and number of files equal those of plain serial code.\n");
    return true;
  }
  fmt::print("DIFFERENT: {} differences from the serial counts; the first:\n", difference_count);
  for (const std::string &sentence : first) fmt::print("  {}\n", sentence);
  return false;
}

}  // namespace inverted_index
