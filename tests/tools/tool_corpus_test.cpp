// tests/tools/tool_corpus_test.cpp -- tmh check and tmh log verify on the corpus of damaged domains
// of log_damage_test.
// Invariants: (1) of the log both say what recovery of the same bytes does: damaged where it
//             refuses, torn where it cuts a tail off, else clean (sound). (2) check calls nothing
//             sound that recovery refuses; where recovery loses nothing, it names what is wrong
//             with the structure: a damaged checkpoint slot, a log file that is cut short. (3) a
//             control file is refused by both exactly when opening the domain would refuse it, and
//             each change of it that matters is one of these.
// Method:     called as functions, for there are thousands of cases; tool_damage_test and
//             tool_check_test run the programs. One table of verdicts per kind of damage is
//             printed. Under a sanitizer a sample of the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/failure.h"
#include "storage/control.h"
#include "storage/heap/heap_check.h"
#include "tests/support/durable_folder.h"
#include "tests/support/log_rig.h"
#include "tests/support/seed.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"
#include "tools/check.h"
#include "tools/domain_files.h"
#include "tools/exit_code.h"
#include "tools/failure.h"
#include "tools/log_verify.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;
using storage::ControlFile;
using tools::Part;
using tools::PartState;

std::string verify_verdict(const std::string &folder) {
  try {
    const auto control = tools::read_control(folder);
    return tools::state_word(tools::verify_log(folder, *control).end);
  } catch (const Error &error) {
    return tools::exit_of(error.errc()) == tools::Exit::kDamage ? "damaged" : "refused";
  }
}

struct CheckVerdict {
  std::string structure, log, worst;
};
CheckVerdict check_verdict(const std::string &folder) {
  CheckVerdict verdict;
  PartState worst = PartState::kSound;
  try {
    for (const Part &part : tools::check_domain(folder)) {
      worst = std::max(worst, part.state);
      if (part.name == "structure") verdict.structure = tools::to_string(part.state);
      if (part.name == "log") verdict.log = tools::to_string(part.state);
    }
    verdict.worst = tools::to_string(worst);
  } catch (const Error &error) {
    verdict.worst = tools::exit_of(error.errc()) == tools::Exit::kDamage ? "damaged" : "refused";
  }
  return verdict;
}

// Kind of damage, verdicts, how often.
using Table = std::map<std::string, std::map<std::string, std::uint64_t>>;

// One damaged folder at a time. Several of these work at once, because a log in doubt is looked at
// twice, 20 ms apart.
class Corpus {
 public:
  explicit Corpus(std::uint64_t seed) : random_(seed) {
    EXPECT_EQ(rig_.write_small_log(), Errc::kOk);
    ControlFile control = rig_.control();
    control.header.durability = static_cast<std::uint32_t>(Durability::kStrict);
    storage::seal(&control.header);
    write_file(path("tmh.control"),
               std::string(reinterpret_cast<const char *>(&control), sizeof control));
    files_ = rig_.snapshot();
    log_ = files_.at("tmh.log.0000000000");
  }

  [[nodiscard]] std::string path(const std::string &name) const {
    return rig_.folder() + "/" + name;
  }
  [[nodiscard]] const std::string &folder() const { return rig_.folder(); }
  [[nodiscard]] std::string log_path() const { return rig_.log_path(0); }
  [[nodiscard]] const std::string &log() const { return log_; }
  [[nodiscard]] const std::string &whole(const std::string &name) const { return files_.at(name); }
  [[nodiscard]] std::size_t used() const { return rig_.end() + 512; }
  [[nodiscard]] std::uint64_t random() { return random_(); }
  [[nodiscard]] char flipped(char byte) { return static_cast<char>(byte ^ (1 << random_() % 8)); }
  [[nodiscard]] Table &table() { return table_; }

  // The tools first: recovery changes what it finds. Then everything is put back.
  void judge(const std::string &kind, const std::string &what) {
    const std::string log = verify_verdict(folder());
    const CheckVerdict check = check_verdict(folder());
    storage::RecoveryReport report;
    const Errc error = rig_.recover_only(&report);
    const std::string right = error != Errc::kOk     ? "damaged"
                              : report.tail_was_torn ? "torn"
                                                     : "clean";
    ++table_[kind]["recovery " + right + ", log verify " + log + ", check " + check.worst];
    EXPECT_EQ(log, right) << kind << ", " << what << ": " << message(error) << " "
                          << platform::failure_detail();
    EXPECT_EQ(check.log, right == "clean" ? "sound" : right) << kind << ", " << what;
    EXPECT_TRUE(check.worst == "damaged" ||
                (check.structure == "sound" && check.worst == check.log))
        << kind << ", " << what << ": structure " << check.structure << ", worst " << check.worst;
    for (const auto &[name, bytes] : files_)
      if (path(name) != log_path()) write_file(path(name), bytes);
    put_log_back();
  }

  // What was cut recovery makes whole again with zeros, of which the undamaged file's rest
  // consists, too.
  void put_log_back() {
    if (fs::exists(log_path()) && fs::file_size(log_path()) == log_.size())
      patch_file(log_path(), 0, log_.substr(0, used() + 8192));
    else
      write_file(log_path(), log_);
  }

  void try_bytes(const std::string &kind, std::size_t at, const std::string &bytes) {
    if (log_.compare(at, bytes.size(), bytes) == 0) return;
    patch_file(log_path(), at, bytes);
    judge(kind, "at " + std::to_string(at));
  }

 private:
  MemoryFolder folder_;
  LogRig rig_{folder_.path()};
  LogRig::Files files_;
  std::string log_;
  Table table_;
  std::mt19937_64 random_;
};

// case_of(corpus, i) for each i below count_of(corpus).
template <class CountOf, class CaseOf>
Table for_each_case(const CountOf &count_of, const CaseOf &case_of) {
  constexpr std::size_t kThreads = 24;
  const std::uint64_t first_seed = seed();
  Table all;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Corpus corpus(first_seed + thread);
      const std::size_t count = count_of(corpus);
      for (std::size_t i = thread; i < count && !testing::Test::HasFailure(); i += kThreads)
        // One at least.
        if (i == 0 || build_slowdown() == 1 || corpus.random() % build_slowdown() == 0)
          case_of(corpus, i);
      const std::scoped_lock guard(mutex);
      for (const auto &[kind, verdicts] : corpus.table())
        for (const auto &[verdict, times] : verdicts) all[kind][verdict] += times;
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const auto &[kind, verdicts] : all) {
    std::printf("%s:", kind.c_str());
    for (const auto &[verdict, times] : verdicts)
      std::printf(" %s: %llu;", verdict.c_str(), static_cast<unsigned long long>(times));
    std::printf("\n");
  }
  return all;
}

const auto bytes_of_log = [](const Corpus &corpus) { return corpus.used(); };

TEST(ToolCorpus, Undamaged) {
  const Table table =
      for_each_case([](const Corpus &) { return std::size_t{1}; },
                    [](Corpus &corpus, std::size_t) { corpus.judge("undamaged", ""); });
  EXPECT_EQ(table.at("undamaged").begin()->first, "recovery clean, log verify clean, check sound");
}

TEST(ToolCorpus, EveryFlippedByteOfTheLog) {
  for_each_case(bytes_of_log, [](Corpus &corpus, std::size_t at) {
    corpus.try_bytes("flipped byte of the log", at,
                     std::string(1, corpus.flipped(corpus.log()[at])));
  });
}

// A third of the lengths, others with each seed: log_damage_test cuts at every one.
TEST(ToolCorpus, LogCut) {
  const Table table = for_each_case([](const Corpus &corpus) { return corpus.used() / 3; },
                                    [](Corpus &corpus, std::size_t i) {
                                      const std::size_t bytes = 3 * i + corpus.random() % 3;
                                      fs::resize_file(corpus.log_path(), bytes);
                                      corpus.judge("cut log", "at " + std::to_string(bytes));
                                    });
  for (const auto &[verdict, times] : table.at("cut log"))
    EXPECT_TRUE(verdict.ends_with("check damaged"))
        << times << " cut files are not named: " << verdict;
}

TEST(ToolCorpus, EveryChunkDuplicatedOverItsNeighbour) {
  for (const std::size_t chunk : {std::size_t{8}, std::size_t{64}, std::size_t{512}}) {
    for_each_case([chunk](const Corpus &corpus) { return corpus.used() / chunk - 1; },
                  [chunk](Corpus &corpus, std::size_t i) {
                    const std::size_t at = i * chunk;
                    const std::string kind =
                        "duplicated chunk of " + std::to_string(chunk) + " of the log";
                    corpus.try_bytes(kind, at + chunk, corpus.log().substr(at, chunk));
                    corpus.try_bytes(kind, at, corpus.log().substr(at + chunk, chunk));
                  });
  }
}

TEST(ToolCorpus, TheLogFileIsGone) {
  const Table table = for_each_case([](const Corpus &) { return std::size_t{1}; },
                                    [](Corpus &corpus, std::size_t) {
                                      fs::remove(corpus.log_path());
                                      corpus.judge("log file removed", "");
                                    });
  EXPECT_EQ(table.at("log file removed").size(), 1U)
      << "as recovery says; only a later file would prove what it held";
}

// As above.
TEST(ToolCorpus, FlippedByteOfTheCheckpointFile) {
  const char *kind = "flipped byte of the checkpoint file";
  const Table table = for_each_case(
      [](const Corpus &corpus) { return corpus.whole("tmh.checkpoint").size() / 3; },
      [kind](Corpus &corpus, std::size_t i) {
        const std::size_t at = 3 * i + corpus.random() % 3;
        patch_file(corpus.path("tmh.checkpoint"), at,
                   std::string(1, corpus.flipped(corpus.whole("tmh.checkpoint")[at])));
        corpus.judge(kind, "at " + std::to_string(at));
      });
  for (const auto &[verdict, times] : table.at(kind))
    EXPECT_TRUE(!verdict.starts_with("recovery damaged") && verdict.ends_with("check damaged"))
        << times << ": " << verdict;
}

TEST(ToolCorpus, CheckpointFileCutOrWithBothSlotsDamaged) {
  for_each_case([](const Corpus &) { return std::size_t{8192 / 16}; },
                [](Corpus &corpus, std::size_t i) {
                  const std::size_t bytes = i * 16 + corpus.random() % 16;
                  fs::resize_file(corpus.path("tmh.checkpoint"), bytes);
                  corpus.judge("cut checkpoint file", "at " + std::to_string(bytes));
                });
  const char *kind = "both checkpoint slots damaged";
  const Table table = for_each_case(
      [](const Corpus &) { return std::size_t{200}; },
      [kind](Corpus &corpus, std::size_t) {
        std::string bytes = corpus.whole("tmh.checkpoint");
        for (const std::size_t slot : {std::size_t{0}, std::size_t{4096}})
          bytes[slot + corpus.random() % 4096] ^= static_cast<char>(1 + corpus.random() % 255);
        write_file(corpus.path("tmh.checkpoint"), bytes);
        corpus.judge(kind, "");
      });
  for (const auto &[verdict, times] : table.at(kind))
    EXPECT_EQ(verdict, "recovery damaged, log verify damaged, check damaged") << times;
}

// Header and the records of segments that there are.
TEST(ToolCorpus, EveryFlippedByteOfTheControlFile) {
  constexpr std::size_t in_use =
      sizeof(storage::ControlHeaderV1) + LogRig::kSegments * sizeof(storage::SegmentRecordV1);
  std::atomic<std::uint64_t> silent{0};
  for_each_case([](const Corpus &) { return in_use; },
                [&silent](Corpus &corpus, std::size_t at) {
                  const std::string &whole = corpus.whole("tmh.control");
                  std::string bytes = whole;
                  bytes[at] = corpus.flipped(bytes[at]);
                  patch_file(corpus.path("tmh.control"), at, bytes.substr(at, 1));
                  std::string why;
                  const Errc error = storage::verify_control(bytes.data(), bytes.size(), &why);
                  const std::string log = verify_verdict(corpus.folder());
                  const CheckVerdict check = check_verdict(corpus.folder());
                  ++corpus.table()["flipped byte of the control file"]
                                  ["opening: " + std::string(tools::errc_name(error)) +
                                   ", log verify " + log + ", check " + check.worst];
                  const std::string refused =
                      tools::exit_of(error) == tools::Exit::kDamage ? "damaged" : "refused";
                  silent += error == Errc::kOk ? 1 : 0;
                  if (error != Errc::kOk) {
                    EXPECT_EQ(log, refused) << at << ": " << why;
                    EXPECT_EQ(check.worst, refused) << at << ": " << why;
                  }
                  patch_file(corpus.path("tmh.control"), at, whole.substr(at, 1));
                });
  EXPECT_LT(silent.load(), in_use / 4)
      << "what every open stores anew, and sizes, of which there are two";
  const char *kind = "cut control file";
  const Table table =
      for_each_case([](const Corpus &corpus) { return corpus.whole("tmh.control").size() / 64; },
                    [kind](Corpus &corpus, std::size_t i) {
                      fs::resize_file(corpus.path("tmh.control"), 64 * i);
                      ++corpus.table()[kind]["log verify " + verify_verdict(corpus.folder()) +
                                             ", check " + check_verdict(corpus.folder()).worst];
                      write_file(corpus.path("tmh.control"), corpus.whole("tmh.control"));
                    });
  EXPECT_EQ(table.at(kind).size(), 1U);
  EXPECT_EQ(table.at(kind).begin()->first, "log verify damaged, check damaged");
}

// Every byte of the structs that heap_hostile_test knows is found by heap_check(); here the way
// from the file to the verdict, on a sample.
TEST(ToolCorpusHeap, FlippedBytesOfAHeapsOwnPages) {
  const MemoryFolder folder;
  const std::string domain = folder / "domain";
  in_domain(domain, durable_options(), Ending::kClosed, [](const Domain &d, const Segment &) {
    const Segment heap = d.map("h.db");
    atomically(d, [&] {
      for (std::size_t i = 0; i < 50; ++i)
        *heap.root<std::byte *>("root" + std::to_string(i)) = heap.root<std::byte>("b");
    });
  });
  const std::string path = domain + "/h.db", whole = read_file(path);
  ASSERT_EQ(check_verdict(domain).worst, "sound");
  std::mt19937_64 random(seed());
  std::map<std::string, std::uint64_t> verdicts;
  std::size_t nonzero = 0;
  for (const char byte : whole) nonzero += byte != 0 ? 1U : 0U;
  const std::size_t every = std::max<std::size_t>(1, nonzero / 300);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == 0 || random() % every != 0) continue;
    patch_file(path, at, std::string(1, static_cast<char>(whole[at] ^ (1 << random() % 8))));
    const CheckVerdict verdict = check_verdict(domain);
    ++verdicts["check " + verdict.worst + ", log " + verdict.log];
    EXPECT_EQ(verdict.structure, "sound") << "byte " << at;
    EXPECT_EQ(verdict.log, "sound") << "byte " << at;
    EXPECT_EQ(verify_verdict(domain), "clean") << "byte " << at;
    patch_file(path, at, whole.substr(at, 1));
  }
  std::printf("flipped byte of a heap that is not zero (%zu of them):", nonzero);
  for (const auto &[verdict, count] : verdicts)
    std::printf(" %s: %llu;", verdict.c_str(), static_cast<unsigned long long>(count));
  std::printf("\n");
  EXPECT_GT(verdicts["check damaged, log sound"], 0U);
}

}  // namespace
}  // namespace tmh::test
