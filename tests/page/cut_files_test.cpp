// tests/page/cut_files_test.cpp -- a data file, a home or a shared file of a domain is cut while a
// process has it open.
// Invariants: (1) what then touches it dies of SIGBUS, and one sentence names the file and its
//             length, (2) a handler of the program's own still gets the signal, (3) what is the
//             program's error is still called so, (4) a query that only reads is not accused of
//             storing where the file was cut and made long again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/last_words.h"
#include "tests/support/modes.h"
#include "tests/support/slowdown.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using Cell = field<std::uint64_t>;
constexpr std::uint64_t kCells = 40;

// A domain with a segment of which all pages are written, several times.
class CutFilesTest : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  [[nodiscard]] bool is_hybrid() const { return GetParam().levels == Levels::kHybrid; }

  struct Writer {
    explicit Writer(const std::string &folder)
        : domain(Domain::open(folder, options_for(GetParam()))),
          segment(domain.map("data.raw", raw_segment(kCells * kPageBytes))) {
      if (GetParam().levels == Levels::kHybrid) site = std::make_unique<Site>(domain, "cut");
    }
    [[nodiscard]] Cell &cell(std::uint64_t page) const {
      return *reinterpret_cast<Cell *>(segment.data() + page * kPageBytes);
    }
    void commit(std::uint64_t value) const {
      const auto body = [&] {
        for (std::uint64_t page = 0; page < kCells; ++page) cell(page) = value;
      };
      if (site != nullptr)
        atomically(*site, [&](Fields) { body(); });
      else
        atomically(domain, body);
    }
    [[nodiscard]] std::uint64_t sum() const {
      return query(domain, [&] {
        std::uint64_t all = 0;
        for (std::uint64_t page = 0; page < kCells; ++page) all += cell(page);
        return all;
      });
    }
    Domain domain;
    Segment segment;
    std::unique_ptr<Site> site;
  };

  void expect_named(const std::string &name, off_t cut_to = 0) const {
    const std::string place = folder_ / "of-" + name;
    const Death death = death_of("cut", [&] {
      const Writer writer(place);
      for (std::uint64_t value = 1; value <= 3; ++value) writer.commit(value);
      if (truncate((place + "/" + name).c_str(), cut_to) != 0)
        throw std::runtime_error("cutting " + name);
      // The second look is at the clock of the domain, whatever is kept in memory of the first.
      for (std::uint64_t value = 4; value <= 5; ++value) writer.commit(value + writer.sum());
    });
    EXPECT_EQ(death.signal, SIGBUS) << name << ": " << death.said;
    const std::string wanted = "/" + name + " was cut to " + std::to_string(cut_to) +
                               " bytes while this process has it open";
    EXPECT_NE(death.said.find(wanted), std::string::npos) << name << ": " << death.said;
    EXPECT_EQ(death.said.find("grow the segment"), std::string::npos) << death.said;
  }

  const TempFolder folder_{place_for(GetParam())};
};

TEST_P(CutFilesTest, DataFileIsNamed) {
  expect_named(is_hybrid() && GetParam().durability == Durability::kStrict ? "tmh.home.0"
                                                                           : "data.raw");
}

TEST_P(CutFilesTest, PartOfADataFileIsNamed) {
  if (is_hybrid() && GetParam().durability == Durability::kStrict) return;
  expect_named("data.raw", 4096);
}

TEST_P(CutFilesTest, SharedFilesAreNamed) {
  for (const char *name : {"tmh.state", "tmh.control", "tmh.participants"}) expect_named(name);
  expect_named(is_hybrid() ? "tmh.lines.0" : "tmh.versions.data");
}

TEST_P(CutFilesTest, SharedFileIsNamedBeforeAnySegmentIsMapped) {
  const Death death = death_of("cut", [&] {
    const Domain opened = Domain::open(domain(), options_for(GetParam()));
    if (truncate((domain() + "/tmh.state").c_str(), 0) != 0) throw std::runtime_error("cutting");
    (void)opened.participants();
  });
  EXPECT_EQ(death.signal, SIGBUS) << death.said;
  EXPECT_NE(death.said.find("/tmh.state was cut to 0 bytes"), std::string::npos) << death.said;
}

TEST_P(CutFilesTest, HandlerOfTheProgramGetsTheSignal) {
  if (is_thread_sanitized()) GTEST_SKIP() << "ThreadSanitizer calls handlers later";
  const Death death = death_of("cut", [&] {
    signal(SIGBUS, [](int) { _exit(42); });
    const Writer writer(domain());
    writer.commit(1);
    if (truncate((domain() + "/tmh.state").c_str(), 0) != 0) throw std::runtime_error("cutting");
    writer.commit(2);
  });
  EXPECT_EQ(death.exit_code, 42) << death.said;
  EXPECT_NE(death.said.find("/tmh.state was cut to 0 bytes"), std::string::npos) << death.said;
}

TEST_P(CutFilesTest, AccessBehindTheSegmentIsStillTheProgramsError) {
  const Death death = death_of("cut", [&] {
    const Writer writer(domain());
    writer.commit(1);
    atomically(writer.domain, [&] { static_cast<void>(writer.cell(kCells).load()); });
  });
  EXPECT_TRUE(death.signal == SIGSEGV || death.signal == SIGBUS);
  EXPECT_NE(death.said.find("grow the segment first"), std::string::npos) << death.said;
}

// The zeros are the file's by then; no process can tell them from what was stored. But pages that
// the process holds copies of are no stores of a query.
TEST_P(CutFilesTest, QueryIsNotAccusedOfWhatTheCutHasChanged) {
  expect_child("reader", [&] {
    const Writer writer(domain());
    for (std::uint64_t value = 1; value <= 3; ++value) writer.commit(value);
    const std::string file = domain() + "/data.raw";
    struct stat info {};
    ASSERT_EQ(stat(file.c_str(), &info), 0);
    ASSERT_EQ(truncate(file.c_str(), 0), 0);
    ASSERT_EQ(truncate(file.c_str(), info.st_size), 0);
    try {
      (void)writer.sum();
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), Errc::kFileShrunk) << error.what();
      EXPECT_NE(std::string(error.what()).find("was cut and made long again"), std::string::npos)
          << error.what();
    }
    (void)writer.sum();
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, CutFilesTest,
                         testing::Values(Mode{"KernelHot", Detection::kLazy, Tracking::kKernelHot},
                                         Mode{"SignalHot", Detection::kLazy, Tracking::kSignalHot},
                                         Mode{"Signal", Detection::kLazy, Tracking::kSignal},
                                         Mode{"Hybrid", Detection::kLazy, Tracking::kKernelHot,
                                              Levels::kHybrid, LineChoice::kSoftware},
                                         Mode{"HybridStrict", Detection::kLazy,
                                              Tracking::kKernelHot, Levels::kHybrid,
                                              LineChoice::kSoftware, Durability::kStrict}),
                         mode_name);

}  // namespace
}  // namespace tmh::test
