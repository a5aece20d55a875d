// tests/libxac/libxac_figures_test.cpp -- the thesis's own programs (examples/libxac), run as it
// describes: concurrently.
// Invariants: (1) each ends with status 0. (2) input.db holds after the last one what some serial
//             order gives.
//             (3) figure 2-4: a == y and b == z, whatever aborts.
// Source:     thesis, figures 1-6, 2-1 to 2-4, 4-1 and 4-3, and section 2.2 case 3.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/children.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kIntsPerPage = kPageBytes / sizeof(int);

// Runs a program of TMH_FIGURES_DIR in `folder` to its end; throws unless it ends with status 0.
// Returns its output.
std::string run_figure(const std::string &folder, const std::string &name,
                       const std::vector<std::string> &arguments = {}) {
  const std::string program = TMH_FIGURES_DIR "/" + name;
  const std::string output = folder + "/output." + std::to_string(getpid());
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char *> argv;
  for (std::string &word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), program);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) throw std::runtime_error(name + ": wait status " + std::to_string(status));
  return read_file(output);
}

int int_at(const std::string &path, std::size_t index) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(index * sizeof(int)));
  int value = 0;
  file.read(reinterpret_cast<char *>(&value), sizeof value);
  EXPECT_TRUE(file) << path << " ends before integer " << index;
  return value;
}

void write_int(const std::string &path, std::size_t index, int value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(index * sizeof(int)));
  file.write(reinterpret_cast<const char *>(&value), sizeof value);
  EXPECT_TRUE(file) << path;
}

// How often a program is started: the thesis's scale in an optimised build, less where each start
// costs much more.
int repeats(int normal) { return std::max(1, normal / static_cast<int>(build_slowdown())); }

TEST(LibxacFigures, Figure21IncrementsAreNotLost) {
  const MemoryFolder folder;
  const int each = repeats(1000);
  Children children;
  for (int i = 0; i < 4; ++i) {
    children.spawn("incrementer " + std::to_string(i), [&] {
      for (int run = 0; run < each; ++run) run_figure(folder.path(), "figure_2_1");
    });
  }
  children.expect_success();
  EXPECT_EQ(int_at(folder / "input.db", 0), 4 * each);
}

TEST(LibxacFigures, Figure24LocalsAgreeAndTheCounterReturnsToItsStart) {
  const MemoryFolder folder;
  const std::string file = folder / "input.db";
  std::string page(kPageBytes, '\0');
  const int start = 42;
  std::memcpy(page.data(), &start, sizeof start);
  write_file(file, page);
  const int each = repeats(300);
  Children children;
  for (int i = 0; i < 2; ++i) {
    children.spawn("program 1", [&] {
      for (int run = 0; run < each; ++run) {
        int a = 0, y = -1, b = 0, z = -1;
        std::istringstream(run_figure(folder.path(), "figure_2_4_program_1_reported")) >> a >> y >>
            b >> z;
        ASSERT_GE(a, 1);
        ASSERT_EQ(a, y);
        ASSERT_EQ(b, z);
      }
    });
    children.spawn("program 2", [&] {
      for (int run = 0; run < each; ++run) run_figure(folder.path(), "figure_2_4_program_2");
    });
  }
  children.expect_success();
  EXPECT_EQ(int_at(file, 0), start);
}

// Both programs draw their pages with rand() from its first seed, so the test can draw the same
// ones.
void expect_sum_on_sixth_page(const std::string &program) {
  const MemoryFolder folder;
  const std::string file = folder / "input.db";
  constexpr int kFilePages = 100000;
  write_file(file, "");
  srand(1);
  int expected = 0;
  for (int page = 1; page <= 5; ++page) {
    write_int(file, kIntsPerPage * static_cast<std::size_t>(rand() % kFilePages), page * 10);
    expected += page * 10;
  }
  const std::size_t sixth = kIntsPerPage * static_cast<std::size_t>(rand() % kFilePages);
  run_figure(folder.path(), program);
  EXPECT_EQ(int_at(file, sixth), expected);

  // Concurrent runs read the same pages and write the same sixth one, as printed. A retry adds to
  // `sum` (a local) and draws other pages, so only this much is sure: the last committed value is a
  // sum of pages read, and no smaller than one round. LosesNoUpdate sees more.
  Children children;
  for (int i = 0; i < 3; ++i) {
    children.spawn(program, [&] {
      for (int run = 0; run < repeats(30); ++run) run_figure(folder.path(), program);
    });
  }
  children.expect_success();
  EXPECT_GE(int_at(file, sixth), expected);
  EXPECT_EQ(int_at(file, sixth) % 10, 0);
}

// count_1_6.h: each run adds what pages 1 to 4 hold to page 0, which it reads: none is lost.
void expect_adds_to_one_page(const std::string &program) {
  const MemoryFolder folder;
  const std::string file = folder / "input.db";
  write_file(file, "");
  for (std::size_t page = 0; page < 5; ++page)
    write_int(file, kIntsPerPage * page, page == 0 ? 7 : static_cast<int>(page));
  const int each = repeats(40);
  Children children;
  for (int i = 0; i < 4; ++i) {
    children.spawn(program, [&] {
      for (int run = 0; run < each; ++run) run_figure(folder.path(), program);
    });
  }
  children.expect_success();
  EXPECT_EQ(int_at(file, 0), 7 + 4 * each * (1 + 2 + 3 + 4));
}

TEST(LibxacFigures, Figure16LosesNoUpdate) { expect_adds_to_one_page("figure_1_6_counted"); }

TEST(LibxacFigures, Figure22LosesNoUpdate) { expect_adds_to_one_page("figure_2_2_counted"); }

TEST(LibxacFigures, Figure16SumsFivePagesIntoASixth) { expect_sum_on_sixth_page("figure_1_6"); }

TEST(LibxacFigures, Figure22SumsFivePagesIntoASixth) { expect_sum_on_sixth_page("figure_2_2"); }

TEST(LibxacFigures, Figure23SumsATreeThatOthersRewriteMeanwhile) {
  const MemoryFolder folder;
  Children children;
  for (int i = 0; i < 3; ++i) {
    children.spawn("summer", [&] {
      for (int run = 0; run < repeats(30); ++run) {
        ASSERT_EQ(run_figure(folder.path(), "figure_2_3"), std::to_string(1023 * 1024 / 2) + "\n");
      }
    });
  }
  children.expect_success();
}

TEST(LibxacFigures, Figures41And43TouchEveryPage) {
  for (const std::string figure : {"figure_4_1", "figure_4_3"}) {
    for (const std::size_t pages : {1U, 16U, 1024U}) {
      const MemoryFolder folder;
      run_figure(folder.path(), figure + "_b", {std::to_string(pages)});
      for (std::size_t page = 0; page < pages; ++page) {
        ASSERT_EQ(int_at(folder / "input.db", page * kIntsPerPage), static_cast<int>(page))
            << figure;
      }
      const std::string before = read_file(folder / "input.db");
      run_figure(folder.path(), figure + "_a", {std::to_string(pages)});
      EXPECT_TRUE(read_file(folder / "input.db") == before)
          << figure << ": reading changed the file";
    }
  }
}

}  // namespace
}  // namespace tmh::test
