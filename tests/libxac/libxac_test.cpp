// tests/libxac/libxac_test.cpp -- the C interface: what each function returns, for right and for
// bad input.
// Invariants: (1) every misuse has its own negative code, which xLastError() repeats and
//             xStrError() explains. (2) A refused call changes nothing. (3) No call lets an
//             exception out.
#include <gtest/gtest.h>
#include <xac.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tmh/error.hpp>

#include "platform/disk.h"
#include "tests/support/children.h"
#include "tests/support/libxac.h"
#include "tests/support/shared.h"
#include "tests/support/stray_allowed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

TEST_F(Libxac, EveryCallBeforeInitIsRefused) {
  int word = 0;
  EXPECT_EQ(xShutdown(), code(Errc::kNotInitialized));
  EXPECT_EQ(xMunmap("input.db"), code(Errc::kNotInitialized));
  EXPECT_EQ(xbegin(), code(Errc::kNotInitialized));
  EXPECT_EQ(xend(), code(Errc::kNotInitialized));
  EXPECT_EQ(xValidate(), code(Errc::kNotInitialized));
  EXPECT_EQ(xbeginQuery(), code(Errc::kNotInitialized));
  EXPECT_EQ(xendQuery(), code(Errc::kNotInitialized));
  EXPECT_EQ(setPageAccess(&word, READ), code(Errc::kNotInitialized));
  EXPECT_EQ(xSetPolicy("oldest-wins"), code(Errc::kNotInitialized));
  EXPECT_EQ(xPromote(&word, sizeof word), code(Errc::kNotInitialized));
  expect_map_fails("input.db", PAGESIZE, Errc::kNotInitialized);
  EXPECT_EQ(xMalloc(8), nullptr);
  EXPECT_EQ(xRoot("root"), nullptr);
  EXPECT_EQ(xLastError(), code(Errc::kNotInitialized));
}

TEST_F(Libxac, InitRefusesBadPathAndFlags) {
  EXPECT_EQ(xInit(nullptr, NONDURABLE), code(Errc::kBadArgument));
  EXPECT_EQ(xInit("", NONDURABLE), code(Errc::kBadArgument));
  EXPECT_EQ(xInit(folder_.path().c_str(), 3), code(Errc::kBadArgument));
  EXPECT_EQ(xInit(folder_.path().c_str(), -1), code(Errc::kBadArgument));
  EXPECT_EQ(xShutdown(), code(Errc::kNotInitialized));  // none of them left a session
}

TEST_F(Libxac, InitReportsWhyTheDomainCannotBeOpened) {
  write_file(folder_ / "file", "not a folder");
  EXPECT_LT(xInit((folder_ / "file").c_str(), NONDURABLE), 0);
  EXPECT_STRNE(xStrError(xLastError()), xStrError(0));
  const std::string text = xLastErrorText();
  EXPECT_TRUE(text.find(folder_ / "file") != std::string::npos &&
              text.find(xStrError(xLastError())) != std::string::npos)
      << text;
  EXPECT_EQ(xbegin(), code(Errc::kNotInitialized));
  EXPECT_STREQ(xLastErrorText(), xStrError(xLastError())) << "nothing of the failure before it";
}

TEST_F(Libxac, TextOfAFailureNamesWhatItConcerns) {
  std::thread([] { EXPECT_STREQ(xLastErrorText(), xStrError(0)); }).join();
  init();
  ASSERT_NE(xMmap("input.db", PAGESIZE), MAP_FAILED);
  EXPECT_EQ(xMmap("none/input.db", PAGESIZE), MAP_FAILED);
  EXPECT_NE(std::string(xLastErrorText()).find("none/input.db"), std::string::npos)
      << xLastErrorText();
  EXPECT_EQ(xMmap(std::string(5000, 'x').c_str(), PAGESIZE), MAP_FAILED);
  EXPECT_LT(std::string(xLastErrorText()).size(), 600U);
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xShutdown(), code(Errc::kInstanceRunning));
  EXPECT_NE(std::string(xLastErrorText()).find(xStrError(xLastError())), std::string::npos)
      << xLastErrorText();
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, SecondInitIsRefusedAndTheFirstSessionStays) {
  init();
  EXPECT_EQ(xInit(folder_.path().c_str(), NONDURABLE), code(Errc::kAlreadyInitialized));
  EXPECT_EQ(xbegin(), 0);
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, ShutdownThenInitStartsAnew) {
  init();
  ASSERT_EQ(xShutdown(), 0);
  EXPECT_EQ(xShutdown(), code(Errc::kNotInitialized));
  init();
}

TEST_F(Libxac, ShutdownInsideATransactionIsRefused) {
  init();
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xShutdown(), code(Errc::kInstanceRunning));
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, AShutdownThatCannotSyncSaysSoAndEndsTheSession) {
  expect_child("broken disk", [this] {
    init();
    (void)map("input.db", PAGESIZE);
    platform::set_disk_hook([](const platform::DiskEvent &event) {
      return event.op == platform::DiskOp::kSync ? EIO : 0;
    });
    EXPECT_EQ(xShutdown(), code(Errc::kIo)) << xStrError(xLastError());
    platform::set_disk_hook(nullptr);
    EXPECT_EQ(xbegin(), code(Errc::kNotInitialized));
    init();
    EXPECT_EQ(xShutdown(), 0);
  });
}

std::set<std::string> &synced_files() {
  static std::set<std::string> files;
  return files;
}

// What a shutdown syncs, by name.
std::set<std::string> synced_by_shutdown() {
  synced_files().clear();
  platform::set_disk_hook([](const platform::DiskEvent &event) {
    if (event.op == platform::DiskOp::kSync)
      synced_files().insert(std::filesystem::path(event.path).filename().string());
    return 0;
  });
  EXPECT_EQ(xShutdown(), 0) << xStrError(xLastError());
  platform::set_disk_hook(nullptr);
  return synced_files();
}

// As the thesis's first program does (figure 2-1): "all changes made to files that have been
// xMmapped have been stored on disk".
TEST_F(Libxac, AShutdownSyncsFilesThatWereUnmappedBefore) {
  init();
  int *x = map("input.db", PAGESIZE);
  (void)map("other.db", PAGESIZE);
  ASSERT_EQ(xbegin(), 0);
  x[0] = 1;
  ASSERT_EQ(xend(), COMMITTED);
  ASSERT_EQ(xMunmap("input.db"), 0);
  EXPECT_EQ(synced_by_shutdown(), (std::set<std::string>{"input.db", "other.db"}));
}

TEST_F(Libxac, TheLastShutdownSyncsWhatItBringsHomeForOthers) {
  init();
  ASSERT_EQ(xbeginQuery(), 0);
  expect_child("commits what the query keeps from going home", [&] {
    init();
    int *x = map("input.db", PAGESIZE);
    ASSERT_EQ(xbegin(), 0);
    x[0] = 1;
    ASSERT_EQ(xend(), COMMITTED);
    EXPECT_EQ(xShutdown(), 0);
  });
  ASSERT_EQ(xendQuery(), 0);
  EXPECT_EQ(synced_by_shutdown(), std::set<std::string>{"input.db"});
}

TEST_F(Libxac, MmapRefusesBadNamesAndLengths) {
  init();
  expect_map_fails(nullptr, PAGESIZE, Errc::kBadArgument);
  expect_map_fails("", PAGESIZE, Errc::kBadArgument);
  expect_map_fails("input.db", 0, Errc::kBadArgument);
  expect_map_fails("input.db", 1, Errc::kMisalignedLength);
  expect_map_fails("input.db", PAGESIZE + 1, Errc::kMisalignedLength);
  expect_map_fails("heap.tmh", PAGESIZE, Errc::kBadArgument);
  expect_map_fails("./heap.tmh", PAGESIZE, Errc::kBadArgument);
  struct stat status;
  EXPECT_NE(::stat((folder_ / "input.db").c_str(), &status), 0) << "a refused call made the file";
}

// As a segment of bytes it would keep the heap from being made, or mapped, and so every later
// xbegin() of the domain.
TEST_F(Libxac, TheHeapsFileIsRefusedByEveryName) {
  namespace fs = std::filesystem;
  const std::string heap = folder_ / "heap.tmh";
  fs::create_symlink(heap, folder_ / "symbolic.db");
  fs::create_directory_symlink(folder_.path(), folder_ / "itself");
  init();
  for (const std::string &name : {heap, std::string("symbolic.db"), std::string("itself/heap.tmh")})
    expect_map_fails(name.c_str(), PAGESIZE, Errc::kBadArgument);
  EXPECT_FALSE(fs::exists(heap)) << "a refused call made the file";
  ASSERT_EQ(xbegin(), 0) << xLastErrorText();
  EXPECT_NE(xMalloc(8), nullptr) << xLastErrorText();
  EXPECT_EQ(xend(), COMMITTED);
  fs::create_hard_link(heap, folder_ / "hard.db");
  for (const std::string &name : {heap, std::string("symbolic.db"), std::string("hard.db")})
    expect_map_fails(name.c_str(), PAGESIZE, Errc::kBadArgument);
  EXPECT_EQ(xbegin(), 0) << xLastErrorText();
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, MmapTwiceIsRefusedAndTheFirstMappingStays) {
  init();
  int *x = map("input.db", PAGESIZE);
  expect_map_fails("input.db", PAGESIZE, Errc::kSegmentInUse);
  ASSERT_EQ(xbegin(), 0);
  x[0] = 7;
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, OneFileIsOneSegmentHoweverItIsSpelt) {
  init();
  (void)map("input.db", PAGESIZE);
  expect_map_fails("./input.db", PAGESIZE, Errc::kSegmentInUse);
  EXPECT_EQ(xMunmap("./input.db"), 0);
  EXPECT_EQ(xMunmap("input.db"), code(Errc::kNotMapped));
}

TEST_F(Libxac, AFailedMmapCanBeTriedAgain) {
  init();
  ASSERT_EQ(mkdir((folder_ / "input.db").c_str(), 0700), 0);
  EXPECT_EQ(xMmap("input.db", PAGESIZE), MAP_FAILED);
  const int first = xLastError();
  EXPECT_NE(first, code(Errc::kSegmentInUse));
  EXPECT_EQ(xMmap("input.db", PAGESIZE), MAP_FAILED);
  EXPECT_EQ(xLastError(), first) << "the refused call left the name taken";
  ASSERT_EQ(rmdir((folder_ / "input.db").c_str()), 0);
  (void)map("input.db", PAGESIZE);
}

// Threads take turns: a transaction waits until the other thread's has ended, and mapping meanwhile
// must not lock both out.
TEST_F(Libxac, ThreadsTakeTurnsWhileAnotherMapsAndUsesTheHeap) {
  init();
  int *x = map("input.db", PAGESIZE);
  std::thread heap_user([] {
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(xbegin(), 0);
      void *memory = xMalloc(16);
      EXPECT_NE(memory, nullptr);
      xFree(memory);
      EXPECT_EQ(xend(), COMMITTED);
    }
  });
  std::thread mapper([] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_NE(xMmap("other.db", PAGESIZE), MAP_FAILED) << xStrError(xLastError());
      EXPECT_EQ(xMunmap("other.db"), 0) << xStrError(xLastError());
    }
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(xbegin(), 0);
    ++x[0];
    EXPECT_EQ(xend(), COMMITTED);
  }
  heap_user.join();
  mapper.join();
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(x[0], 100);
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, MmapExtendsAShortFileAndKeepsItsBytes) {
  write_file(folder_ / "input.db", "abc");
  init();
  const char *bytes = reinterpret_cast<const char *>(map("input.db", 3 * PAGESIZE));
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(std::memcmp(bytes, "abc\0", 4), 0);
  EXPECT_EQ(bytes[3 * PAGESIZE - 1], 0);
  EXPECT_EQ(xend(), COMMITTED);
  ASSERT_EQ(xShutdown(), 0);
  EXPECT_EQ(read_file(folder_ / "input.db").size(), 3U * PAGESIZE);
}

TEST_F(Libxac, MmapOfALongerFileTakesItsBeginning) {
  write_file(folder_ / "input.db", std::string(5 * PAGESIZE, 'z'));
  init();
  char *bytes = reinterpret_cast<char *>(map("input.db", 2 * PAGESIZE));
  ASSERT_EQ(xbegin(), 0);
  bytes[2 * PAGESIZE - 1] = 'y';
  EXPECT_EQ(xend(), COMMITTED);
  ASSERT_EQ(xShutdown(), 0);
  std::string expected(5 * PAGESIZE, 'z');
  expected[2 * PAGESIZE - 1] = 'y';
  EXPECT_TRUE(read_file(folder_ / "input.db") == expected);
}

TEST_F(Libxac, ShutdownLeavesTheCommittedBytesInTheFile) {
  init();
  int *x = map("input.db", PAGESIZE);
  ASSERT_EQ(xbegin(), 0);
  x[5] = 0x01020304;
  EXPECT_EQ(xend(), COMMITTED);
  ASSERT_EQ(xShutdown(), 0);
  EXPECT_EQ(read_file(folder_ / "input.db").substr(20, 4), "\x04\x03\x02\x01");
}

TEST_F(Libxac, AnotherProcessMayMapMoreOfTheSameFile) {
  init();
  int *x = map("input.db", PAGESIZE);
  expect_child("maps more", [&] {
    ASSERT_EQ(xInit(folder_.path().c_str(), NONDURABLE), 0) << xStrError(xLastError());
    int *larger = map("input.db", 4 * PAGESIZE);
    EXPECT_EQ(larger, x) << "the address is the same in every process";
    ASSERT_EQ(xbegin(), 0);
    larger[0] = 1;
    larger[4 * PAGESIZE / sizeof(int) - 1] = 2;
    EXPECT_EQ(xend(), COMMITTED);
    EXPECT_EQ(xShutdown(), 0);
  });
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, MunmapRefusesWhatIsNotMapped) {
  init();
  EXPECT_EQ(xMunmap(nullptr), code(Errc::kBadArgument));
  EXPECT_EQ(xMunmap(""), code(Errc::kBadArgument));
  EXPECT_EQ(xMunmap("input.db"), code(Errc::kNotMapped));
  (void)map("input.db", PAGESIZE);
  EXPECT_EQ(xMunmap("other.db"), code(Errc::kNotMapped));
  EXPECT_EQ(xMunmap("input.db"), 0);
  EXPECT_EQ(xMunmap("input.db"), code(Errc::kNotMapped));
}

TEST_F(Libxac, MunmapInsideATransactionIsRefused) {
  init();
  (void)map("input.db", PAGESIZE);
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xMunmap("input.db"), code(Errc::kInstanceRunning));
  EXPECT_EQ(xend(), COMMITTED);
  EXPECT_EQ(xMunmap("input.db"), 0);
}

TEST_F(Libxac, MunmapAndMmapAgainShowsTheCommittedBytes) {
  init();
  int *x = map("input.db", PAGESIZE);
  ASSERT_EQ(xbegin(), 0);
  x[0] = 11;
  EXPECT_EQ(xend(), COMMITTED);
  ASSERT_EQ(xMunmap("input.db"), 0);
  x = map("input.db", PAGESIZE);
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(x[0], 11);
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, EndAndValidateWithoutBeginAreRefused) {
  init();
  EXPECT_EQ(xend(), code(Errc::kEndWithoutBegin));
  EXPECT_EQ(xendQuery(), code(Errc::kEndWithoutBegin));
  EXPECT_EQ(xValidate(), code(Errc::kEndWithoutBegin));
}

TEST_F(Libxac, NestedTransactionsAreSubsumed) {
  init();
  int *x = map("input.db", PAGESIZE);
  ASSERT_EQ(xbegin(), 0);
  ASSERT_EQ(xbegin(), 0);
  x[0] = 1;
  EXPECT_EQ(xValidate(), PENDING);
  EXPECT_EQ(xend(), PENDING);
  EXPECT_EQ(xend(), COMMITTED);
  EXPECT_EQ(xend(), code(Errc::kEndWithoutBegin));
}

TEST_F(Libxac, MismatchedBeginAndEndAreRefused) {
  init();
  ASSERT_EQ(xbeginQuery(), 0);
  EXPECT_EQ(xbegin(), code(Errc::kNestedMisuse));
  EXPECT_EQ(xend(), code(Errc::kNestedMisuse));
  EXPECT_EQ(xendQuery(), 0);
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xendQuery(), code(Errc::kNestedMisuse));
  ASSERT_EQ(xbeginQuery(), 0);  // legal inside a transaction (thesis, section 2.3)
  EXPECT_EQ(xendQuery(), 0);
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, AQueryThatWritesIsToldSoAndItsStoresAreDiscarded) {
  const StrayAllowed allowed;
  init();
  int *x = map("input.db", PAGESIZE);
  ASSERT_EQ(xbeginQuery(), 0);
  x[3] = 5;
  EXPECT_EQ(xendQuery(), code(Errc::kQueryWrote));
  EXPECT_EQ(xLastError(), code(Errc::kQueryWrote));
  ASSERT_EQ(xbeginQuery(), 0);
  EXPECT_EQ(x[3], 0);
  EXPECT_EQ(xendQuery(), 0);
}

// The loser learns it at xend, and sees one consistent view meanwhile.
TEST_F(Libxac, ConflictAbortsAndRollsBackTheSegmentOnly) {
  init();
  int *x = map("input.db", PAGESIZE);
  ASSERT_EQ(xbegin(), 0);
  const int seen = x[0];
  x[1] = 99;
  // Forked inside the transaction: the child starts detached, so its own session is a third party
  // to it.
  expect_child("commits a conflicting store", [&] {
    EXPECT_EQ(xbegin(), code(Errc::kDetached));
    ASSERT_EQ(xInit(folder_.path().c_str(), NONDURABLE), 0) << xStrError(xLastError());
    int *mine = map("input.db", PAGESIZE);
    do {
      ASSERT_EQ(xbegin(), 0);
      mine[0] = 42;
    } while (xend() == ABORTED);
    EXPECT_EQ(xShutdown(), 0);
  });
  EXPECT_EQ(x[0], seen) << "a doomed transaction still sees its snapshot";
  EXPECT_EQ(xend(), ABORTED);
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(x[0], 42);
  EXPECT_EQ(x[1], 0);
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, PageAccessRefusesBadInput) {
  init();
  int *x = map("input.db", 2 * PAGESIZE);
  int local = 0;
  EXPECT_EQ(setPageAccess(x, READ), code(Errc::kEndWithoutBegin));
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(setPageAccess(nullptr, READ), code(Errc::kBadArgument));
  EXPECT_EQ(setPageAccess(x, 0), code(Errc::kBadArgument));
  EXPECT_EQ(setPageAccess(x, 3), code(Errc::kBadArgument));
  EXPECT_EQ(setPageAccess(&local, READ), code(Errc::kNotMapped));
  EXPECT_EQ(setPageAccess(x + 1, READ), 0);
  EXPECT_EQ(setPageAccess(x + PAGESIZE / sizeof(int), READ_WRITE), 0);
  x[PAGESIZE / sizeof(int)] = 3;
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, HeapFunctionsOutsideATransactionAreRefused) {
  init();
  EXPECT_EQ(xMalloc(8), nullptr);
  EXPECT_EQ(xLastError(), code(Errc::kEndWithoutBegin));
  EXPECT_EQ(xRoot("root"), nullptr);
  EXPECT_EQ(xLastError(), code(Errc::kEndWithoutBegin));
  int local = 0;
  xFree(&local);
  EXPECT_EQ(xLastError(), code(Errc::kEndWithoutBegin));
}

TEST_F(Libxac, RootRefusesBadNames) {
  init();
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xRoot(nullptr), nullptr);
  EXPECT_EQ(xLastError(), code(Errc::kBadArgument));
  EXPECT_EQ(xRoot(""), nullptr);
  EXPECT_EQ(xLastError(), code(Errc::kBadArgument));
  EXPECT_EQ(xRoot(std::string(48, 'n').c_str()), nullptr);
  EXPECT_EQ(xLastError(), code(Errc::kBadArgument));
  EXPECT_NE(xRoot(std::string(47, 'n').c_str()), nullptr);
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, AListInTheHeapIsSeenByAnotherProcess) {
  struct Node {
    int value;
    Node *next;
  };
  init();
  ASSERT_EQ(xbegin(), 0);
  for (int value = 1; value <= 3; ++value) {
    Node **head = static_cast<Node **>(xRoot("list"));
    ASSERT_NE(head, nullptr) << xStrError(xLastError());
    Node *node = static_cast<Node *>(xMalloc(sizeof(Node)));
    ASSERT_NE(node, nullptr) << xStrError(xLastError());
    *node = {value, *head};
    *head = node;
  }
  ASSERT_EQ(xend(), COMMITTED);
  expect_child("walks the list and frees its head", [&] {
    ASSERT_EQ(xInit(folder_.path().c_str(), NONDURABLE), 0) << xStrError(xLastError());
    ASSERT_EQ(xbegin(), 0);
    Node **head = static_cast<Node **>(xRoot("list"));
    ASSERT_NE(head, nullptr);
    EXPECT_EQ((*head)->value, 3);
    EXPECT_EQ((*head)->next->next->value, 1);
    Node *old = *head;
    *head = old->next;
    xFree(old);
    ASSERT_EQ(xend(), COMMITTED);
    EXPECT_EQ(xShutdown(), 0);
  });
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ((*static_cast<Node **>(xRoot("list")))->value, 2);
  EXPECT_EQ(xend(), COMMITTED);
}

// A pointer into the heap may stand in any segment, and lead whoever has called nothing of the heap
// yet there.
TEST_F(Libxac, AHeapThatAnotherProcessMakesIsThereInTheNextTransaction) {
  const auto make = [&] {
    expect_child("makes the heap", [&] {
      ASSERT_EQ(xInit(folder_.path().c_str(), NONDURABLE), 0) << xStrError(xLastError());
      int **shared = reinterpret_cast<int **>(map("input.db", PAGESIZE));
      ASSERT_EQ(xbegin(), 0);
      *shared = static_cast<int *>(xMalloc(sizeof(int)));
      ASSERT_NE(*shared, nullptr) << xStrError(xLastError());
      **shared = 42;
      EXPECT_EQ(xend(), COMMITTED);
      EXPECT_EQ(xShutdown(), 0);
    });
  };
  for (const bool is_query : {false, true}) {
    expect_child(is_query ? "queries" : "updates", [&] {
      init();
      int **shared = reinterpret_cast<int **>(map("input.db", PAGESIZE));
      ASSERT_EQ(xbegin(), 0);
      EXPECT_EQ(*shared, nullptr);
      EXPECT_EQ(xend(), COMMITTED);
      make();
      ASSERT_EQ(is_query ? xbeginQuery() : xbegin(), 0) << xStrError(xLastError());
      EXPECT_EQ(**shared, 42);
      EXPECT_EQ(is_query ? xendQuery() : xend(), is_query ? 0 : COMMITTED)
          << xStrError(xLastError());
      EXPECT_EQ(xShutdown(), 0);
    });
    for (const auto &entry : std::filesystem::directory_iterator(folder_.path()))
      std::filesystem::remove_all(entry.path());
  }
}

// Where touches move the snapshot on, it does not move to where there are pointers into a heap that
// was made since.
TEST_F(Libxac, AHeapThatIsMadeWhileATransactionRunsIsThereInTheNextOne) {
  expect_child("chooses detection", [&] {
    ASSERT_EQ(setenv("TMH_DETECTION", "eager", 1), 0);
    Children children;
    const Shared<Turn> turn;
    children.spawn("makes the heap", [&] {
      init();
      int **shared = reinterpret_cast<int **>(map("input.db", PAGESIZE));
      turn->await(1);
      ASSERT_EQ(xbegin(), 0);
      *shared = static_cast<int *>(xMalloc(sizeof(int)));
      ASSERT_NE(*shared, nullptr) << xStrError(xLastError());
      **shared = 42;
      EXPECT_EQ(xend(), COMMITTED);
      turn->reach(2);
      turn->await(3);
      EXPECT_EQ(xShutdown(), 0);
    });
    children.spawn("follows the pointer", [&] {
      init();
      int **shared = reinterpret_cast<int **>(map("input.db", PAGESIZE));
      int attempts = 0, seen = 0;
      for (int status = ABORTED; status == ABORTED; ++attempts) {
        ASSERT_EQ(xbegin(), 0) << xStrError(xLastError());
        if (attempts == 0) {
          turn->reach(1);
          turn->await(2);
        }
        seen = *shared != nullptr ? **shared : 0;
        status = xend();
        EXPECT_GE(status, 0) << xStrError(xLastError());
      }
      EXPECT_EQ(seen, 42);
      EXPECT_EQ(attempts, 2);
      turn->reach(3);
      EXPECT_EQ(xShutdown(), 0);
    });
    children.expect_success();
  });
}

TEST_F(Libxac, MallocGivesDistinctMemoryAndRefusesTheImpossible) {
  init();
  ASSERT_EQ(xbegin(), 0);
  void *empty = xMalloc(0);
  void *other = xMalloc(0);
  EXPECT_NE(empty, nullptr);
  EXPECT_NE(empty, other);
  xFree(nullptr);
  xFree(empty);
  EXPECT_EQ(xMalloc(SIZE_MAX), nullptr);
  EXPECT_EQ(xLastError(), code(Errc::kSegmentFull)) << xStrError(xLastError());
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, FreeOfAForeignPointerIsRefused) {
  init();
  ASSERT_EQ(xbegin(), 0);
  int local = 0;
  xFree(&local);
  EXPECT_EQ(xLastError(), code(Errc::kBadFree)) << xStrError(xLastError());
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, SetPolicyRefusesBadSpecifications) {
  init();
  EXPECT_EQ(xSetPolicy(nullptr), code(Errc::kBadArgument));
  EXPECT_EQ(xSetPolicy("eldest-wins"), code(Errc::kBadPolicy));
  EXPECT_EQ(xSetPolicy("isolation=none"), code(Errc::kBadPolicy));
  EXPECT_EQ(xSetPolicy("oldest-wins,keep-age,backoff=exponential"), 0);
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xSetPolicy("self-abort"), code(Errc::kInstanceRunning));
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, AForkedChildIsDetachedUntilItInitialises) {
  init();
  (void)map("input.db", PAGESIZE);
  expect_child("child", [&] {
    EXPECT_EQ(xbegin(), code(Errc::kDetached));
    EXPECT_EQ(xend(), code(Errc::kDetached));
    expect_map_fails("input.db", PAGESIZE, Errc::kDetached);
    EXPECT_EQ(xShutdown(), code(Errc::kDetached));
    ASSERT_EQ(xInit(folder_.path().c_str(), NONDURABLE), 0) << xStrError(xLastError());
    int *x = map("input.db", PAGESIZE);
    ASSERT_EQ(xbegin(), 0);
    x[0] = 8;
    EXPECT_EQ(xend(), COMMITTED);
    EXPECT_EQ(xShutdown(), 0);
  });
  EXPECT_EQ(xbegin(), 0) << "the parent's session is untouched";
  EXPECT_EQ(xend(), COMMITTED);
}

TEST_F(Libxac, LastErrorBelongsToItsThread) {
  EXPECT_EQ(xbegin(), code(Errc::kNotInitialized));
  int elsewhere = -1;
  std::thread([&] { elsewhere = xLastError(); }).join();
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(xLastError(), code(Errc::kNotInitialized));
}

TEST(LibxacStrError, EveryCodeHasOneSentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (int errc = 1; errc <= static_cast<int>(Errc::kOutOfMemory); ++errc) {
    ASSERT_NE(xStrError(-errc), nullptr);
    EXPECT_TRUE(sentences.insert(xStrError(-errc)).second) << -errc << ": " << xStrError(-errc);
    if (errc > XAC_FAILED) {
      EXPECT_STREQ(xStrError(errc), xStrError(-errc));
    }
  }
  for (const int status : {COMMITTED, ABORTED, PENDING, FAILED}) {
    EXPECT_TRUE(sentences.insert(xStrError(status)).second) << status << ": " << xStrError(status);
  }
}

TEST(LibxacStrError, NumbersThatAreNoCodeHaveASentenceToo) {
  for (const int number : {0, 1000, -1000, INT_MAX, INT_MIN}) {
    ASSERT_NE(xStrError(number), nullptr);
    EXPECT_STRNE(xStrError(number), "") << number;
  }
  EXPECT_STREQ(xStrError(1000), xStrError(INT_MIN));
}

}  // namespace
}  // namespace tmh::test
