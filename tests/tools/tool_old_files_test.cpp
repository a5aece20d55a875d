// tests/tools/tool_old_files_test.cpp -- durable files that earlier versions of tmh have written,
// closed or left by SIGKILL, with backups and archives (tests/tools/old_files/).
// Invariants: (1) each is sound, opens, and holds every committed word. (2) its backup and archive
//             are images of the same bytes: at a name, at the log's end. (3) work goes on in it:
//             commits behind the opening survive SIGKILL, and with the archive are a backup's
//             future. (4) what has been written to is of this version.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "storage/log/log_files.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::uint64_t>;

std::string content(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Words words_of(const fs::path &path) {
  const std::string bytes = content(path);
  Words words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), 8 * words.size());
  return words;
}

struct Case {
  const char *corpus, *name;
  bool has_lines;
};
std::string test_name(const testing::TestParamInfo<Case> &info) {
  std::string name = std::string(info.param.corpus) + "_" + info.param.name;
  for (char &c : name)
    if (c == '-') c = '_';
  return name;
}

class ToolOldFiles : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (is_thread_sanitized()) GTEST_SKIP() << "ThreadSanitizer has taken the old addresses";
    const std::string archive =
        std::string(TMH_SOURCE_DIR "/tests/tools/old_files/") + GetParam().corpus + ".tar.gz";
    const ProgramEnd end = run_program({"/bin/tar", "-C", folder_.path(), "-xzf", archive});
    ASSERT_EQ(end.exit_code, 0) << end.err;
  }
  [[nodiscard]] std::string path(const std::string &suffix = {}) const {
    return folder_ / (GetParam().name + suffix);
  }
  [[nodiscard]] DomainOptions options() const {
    DomainOptions options = durable_options();
    options.levels = GetParam().has_lines ? Levels::kHybrid : Levels::kPage;
    return options;
  }
  // In a child, which closes the domain or dies with it.
  void in_old_domain(const std::string &folder, Ending ending,
                     const std::function<void(const Domain &, const Segment &)> &body) const {
    const ChildEnd end = run_in_child("opens old files", [&] {
      auto *const domain = new Domain(Domain::open(folder, options()));
      {
        const Segment raw = domain->map("raw", raw_pages(1));
        body(*domain, raw);
      }
      if (ending == Ending::kKilled) std::raise(SIGKILL);
      domain->close();
      delete domain;
    });
    EXPECT_TRUE(ending == Ending::kKilled ? end.signal == SIGKILL : end.succeeded());
  }
  static Words words_in(const Domain &domain, const Segment &raw) {
    Words words(raw.size_bytes() / 8);
    query(domain, [&] { std::memcpy(words.data(), raw.data(), raw.size_bytes()); });
    return words;
  }
  void expect_sound(const std::string &folder) const {
    for (const std::vector<std::string> &words :
         {std::vector<std::string>{"check", folder}, {"log", "verify", folder}}) {
      const ProgramEnd end = run_tmh(words);
      EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
    }
  }
  TempFolder folder_;
};

TEST_P(ToolOldFiles, HoldWhatWasCommittedAndWorkGoesOn) {
  expect_sound(path());
  Words expected = words_of(path(".end"));
  in_old_domain(path(), Ending::kKilled, [&](const Domain &domain, const Segment &raw) {
    EXPECT_EQ(words_in(domain, raw), expected);
    for (std::uint64_t i = 0; i < 100; ++i)
      atomically(domain, [&] { word_of(raw, i, i) = 1000 + i; });
  });
  for (std::uint64_t i = 0; i < 100; ++i) expected[i * 512 + i] = 1000 + i;
  expect_sound(path());
  in_old_domain(path(), Ending::kClosed, [&](const Domain &domain, const Segment &raw) {
    EXPECT_EQ(words_in(domain, raw), expected);
  });
  expect_sound(path());
}

// The last one is; those before stay as they are.
TEST_P(ToolOldFiles, ALogFileThatIsWrittenToIsOfThisVersion) {
  in_old_domain(path(), Ending::kClosed, [&](const Domain &domain, const Segment &raw) {
    atomically(domain, [&] { word_of(raw, 1) = 1; });
  });
  std::vector<std::uint64_t> indexes;
  ASSERT_EQ(storage::list_log_files(path(), &indexes), Errc::kOk);
  ASSERT_FALSE(indexes.empty());
  bool is_any_of_now = false;
  for (const std::uint64_t index : indexes) {
    storage::LogFileHeaderV1 header;
    const std::string bytes = content(storage::log_file_path(path(), index));
    ASSERT_GE(bytes.size(), sizeof header);
    std::memcpy(&header, bytes.data(), sizeof header);
    is_any_of_now = is_any_of_now || header.format_version == storage::kLogVersion;
  }
  EXPECT_TRUE(is_any_of_now);
}

TEST_P(ToolOldFiles, ABackupWithItsArchiveIsAnImageOfTheSameBytes) {
  if (!GetParam().has_lines) {
    const ProgramEnd end = run_tmh({"image", path(".backup"), "--logs", path(".archive"), "--name",
                                    "named", "--to", path(".image")});
    ASSERT_EQ(end.exit_code, 0) << end.err;
    EXPECT_EQ(content(path(".image") + "/raw"), content(path(".named")));
  }
  // The domain's own files are the archive's future.
  std::vector<std::uint64_t> indexes;
  ASSERT_EQ(storage::list_log_files(path(), &indexes), Errc::kOk);
  for (const std::uint64_t index : indexes)
    fs::copy(storage::log_file_path(path(), index), path(".archive"));
  const ProgramEnd end =
      run_tmh({"image", path(".backup"), "--logs", path(".archive"), "--to", path(".last")});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(content(path(".last") + "/raw"), content(path(".end")));
}

TEST_P(ToolOldFiles, ABackupIsBroughtToTheArchivesEnd) {
  const ProgramEnd image =
      run_tmh({"image", path(".backup"), "--logs", path(".archive"), "--to", path(".image")});
  ASSERT_EQ(image.exit_code, 0) << image.err;
  const ProgramEnd end = run_tmh({"recover", path(".backup"), "--logs", path(".archive")});
  ASSERT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_EQ(content(path(".backup") + "/raw"), content(path(".image") + "/raw"));
  expect_sound(path(".backup"));
  in_old_domain(path(".backup"), Ending::kClosed, [&](const Domain &domain, const Segment &raw) {
    EXPECT_EQ(words_in(domain, raw), words_of(path(".image") + "/raw"));
  });
}

INSTANTIATE_TEST_SUITE_P(All, ToolOldFiles,
                         testing::Values(Case{"log-1", "pages-closed", false},
                                         Case{"log-1", "pages-killed", false},
                                         Case{"log-1", "both-closed", true},
                                         Case{"log-1", "both-killed", true}),
                         test_name);

}  // namespace
}  // namespace tmh::test
