// tests/storage/irregular_files_test.cpp -- something else stands where a file of a domain's folder
// should be: a FIFO, a device, a folder.
// Invariants: (1) nobody waits for a FIFO's other end: opening, mapping and recovering end, (2)
//             with a specific error that names the file, or rightly, where the file is made anew.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

enum class Kind { kFifo, kDevice, kFolder };

class IrregularFilesTest : public testing::TestWithParam<Kind> {
 protected:
  static DomainOptions options(Levels levels) {
    DomainOptions options;
    options.levels = levels;
    options.line = LineChoice::kSoftware;
    options.durability = tmh::Durability::kBuffered;
    options.tracking = Tracking::kSignalHot;  // permitted everywhere
    options.log_file_bytes = kSmallLogBytes;
    return options;
  }
  // The domain stays open until the process ends.
  static void use_and_hold(const std::string &folder, Levels levels) {
    static Domain domain;
    domain = Domain::open(folder, options(levels));
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = 8 * kPageBytes;
    const Segment segment = domain.map("a.raw", raw);
    atomically(domain, [&] { *reinterpret_cast<std::uint64_t *>(segment.data()) += 1; });
    domain.flush();
  }
  static void put(Kind kind, const std::string &path) {
    std::filesystem::remove(path);
    switch (kind) {
      case Kind::kFifo:
        EXPECT_EQ(mkfifo(path.c_str(), 0660), 0);
        break;
      case Kind::kDevice:
        std::filesystem::create_symlink("/dev/zero", path);
        break;
      case Kind::kFolder:
        std::filesystem::create_directory(path);
        break;
    }
  }
};

// Killed, so that the files of shared memory are left, too.
void leave_domain(const std::string &folder, const std::function<void()> &use) {
  const ChildEnd end = run_in_child("maker", [&] {
    use();
    die_unless_failed();
  });
  ASSERT_EQ(end.signal, SIGKILL) << folder;
}

void expect_specific(const std::string &what, const std::string &name,
                     const std::function<void()> &call) {
  const ChildEnd end = run_in_child(what + name, [&] {
    try {
      call();
    } catch (const Error &error) {
      const bool is_own = name.starts_with("tmh.");
      const bool is_specific =
          error.errc() == Errc::kFileReplaced ||  // what the dead had open is another one
          (is_own ? error.errc() == Errc::kForeignFile
                  : error.errc() == Errc::kNotADomain || error.errc() == Errc::kBadArgument);
      EXPECT_TRUE(is_specific) << what << name << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  });
  EXPECT_TRUE(end.succeeded()) << what << name << ", signal " << end.signal
                               << (end.hung ? ", hung" : "");
}

TEST_P(IrregularFilesTest, InPlaceOfAnyFileIsAnErrorOrMadeAnew) {
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    const MemoryFolder model;
    leave_domain(model.path(), [&] { use_and_hold(model.path(), levels); });
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(model.path()))
      if (entry.is_regular_file()) names.insert(entry.path().filename());
    ASSERT_TRUE(names.count("tmh.control") == 1 && names.count("tmh.state") == 1 &&
                names.count("a.raw") == 1);
    for (const std::string &name : names) {
      const MemoryFolder folder;
      leave_domain(folder.path(), [&] { use_and_hold(folder.path(), levels); });
      put(GetParam(), folder / name);
      expect_specific("recovery of ", name, [&] { static_cast<void>(recover(folder.path())); });
      expect_specific("opening of ", name, [&] { use_and_hold(folder.path(), levels); });
    }
  }
}

std::string kind_name(const testing::TestParamInfo<Kind> &info) {
  const char *const names[] = {"Fifo", "Device", "Folder"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, IrregularFilesTest,
                         testing::Values(Kind::kFifo, Kind::kDevice, Kind::kFolder), kind_name);

}  // namespace
}  // namespace tmh::test
