// tests/api/unload_test.cpp -- programs that load the library by dlopen(), as plugins do, and let
// go of it.
// Invariant: behind dlclose() faults reach the program's own handler, threads that have used the
//            library end, forks work; it can be loaded again. Two copies of the library in one
//            program share nothing.
// Shape:     linked with nothing of ours. g++ makes symbols of which one alone stays loaded by
//            itself (STB_GNU_UNIQUE), clang does not: so the libraries are asked, too, whether they
//            say so.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include <xac.h>

namespace tmh::test {
namespace {

constexpr std::size_t kBytes = 4096;

enum Outcome {
  kOwnHandlerRan = 0,
  kNotLoaded = 10,
  kCallFailed,
  kWrongSum,
  kForkFailed,
  kFaultIgnored,
  kUnloaded
};

class Library {
 public:
  Library() : handle_(dlopen(TMH_XAC_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) _exit(kNotLoaded);
  }
  template <class Function>
  [[nodiscard]] Function *function(const char *name) const {
    void *const found = dlsym(handle_, name);
    if (found == nullptr) _exit(kNotLoaded);
    return reinterpret_cast<Function *>(found);
  }
  void close() const {
    if (dlclose(handle_) != 0) _exit(kNotLoaded);
  }

 private:
  void *handle_;
};

void expect_zero(int result) {
  if (result != 0) _exit(kCallFailed);
}

void add_one(const Library &library, int *counter) {
  expect_zero(library.function<decltype(xbegin)>("xbegin")());
  ++*counter;
  if (library.function<decltype(xend)>("xend")() != COMMITTED) _exit(kCallFailed);
}

// With a thread that ends when the library is gone.
void load_use_and_unload(const std::string &folder, int sum) {
  const Library library;
  expect_zero(library.function<decltype(xInit)>("xInit")(folder.c_str(), NONDURABLE));
  void *const mapped = library.function<decltype(xMmap)>("xMmap")("counter", kBytes);
  if (mapped == MAP_FAILED) _exit(kCallFailed);
  auto *const counter = static_cast<int *>(mapped);
  std::atomic<bool> has_added{false}, is_closed{false};
  std::thread other([&] {
    add_one(library, counter);
    has_added = true;
    while (!is_closed) std::this_thread::yield();
  });
  while (!has_added) std::this_thread::yield();
  add_one(library, counter);
  if (*counter != sum) _exit(kWrongSum);
  expect_zero(library.function<decltype(xShutdown)>("xShutdown")());
  library.close();
  is_closed = true;
  other.join();
}

void fork_once() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) _exit(kForkFailed);
}

[[noreturn]] void fault() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  void *const page = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile char *>(page) = 1;
  _exit(kFaultIgnored);
}

TEST(UnloadTest, NothingPointsToCodeThatIsGone) {
  std::string folder = std::filesystem::temp_directory_path() / "tmh-unload-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    struct sigaction own {};
    own.sa_handler = [](int) { _exit(kOwnHandlerRan); };
    sigaction(SIGSEGV, &own, nullptr);
    for (int round = 1; round <= 3; ++round) {
      load_use_and_unload(folder, 2 * round);
      fork_once();
    }
    fault();
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kOwnHandlerRan);
}

// As where one plugin brings libtmh.so along and another holds libtmh.a. g++ would make one object
// for all copies of such a member. In a child: they stay, and have used up what the loader has of
// thread-local words at fixed places.
TEST(UnloadTest, TwoCopiesShareNothing) {
  std::string folder = std::filesystem::temp_directory_path() / "tmh-unload-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string copy = folder + "/copy.so";
  std::filesystem::copy_file(TMH_LIBRARY, copy);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
    void *const one = dlopen(TMH_LIBRARY, kFlags), *const other = dlopen(copy.c_str(), kFlags);
    if (one == nullptr || other == nullptr) _exit(kNotLoaded);
    // Inline, static: platform::ThreadObject<platform::FaultRing>::key_.
    const char *const member = "_ZN3tmh8platform12ThreadObjectINS0_9FaultRingEE4key_E";
    const void *const its = dlsym(one, member);
    _exit(its != nullptr && its != dlsym(other, member) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool stays_loaded(const char *path) {
  void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  link_map *map = nullptr;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return false;
  bool stays = false;
  for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_FLAGS_1) stays = (entry->d_un.d_val & DF_1_NODELETE) != 0;
  dlclose(handle);
  return stays;
}

TEST(UnloadTest, LibrariesSayThatTheyStay) {
  EXPECT_TRUE(stays_loaded(TMH_LIBRARY));
  EXPECT_TRUE(stays_loaded(TMH_XAC_LIBRARY));
}

}  // namespace
}  // namespace tmh::test
