// tests/domain/fork_test.cpp -- what a child may rely on that was forked while other threads of its
// parent were inside the library.
// Invariants: (1) it opens domains, maps segments and runs instances, whatever another thread was
//             doing,
//             (2) it keeps no domain's folder locked, also when its parent dies in the middle of an
//                 open,
//             (3) it may let go of what it inherits, whatever another thread was changing there,
//             (4) nobody waits for its end who opens a domain while another thread of its parent
//                 looked whether somebody has that open.
#include <fcntl.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "platform/files.h"
#include "tests/support/stage.h"

// Where memory is freed, containers are half changed.
thread_local const std::function<void()> *at_delete = nullptr;

void *operator new(std::size_t bytes) {
  if (void *memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
  return std::malloc(bytes);
}
void operator delete(void *memory) noexcept {
  if (at_delete == nullptr || memory == nullptr) return std::free(memory);
  std::memset(memory, 0xa5, malloc_usable_size(memory));
  std::free(memory);
  (*std::exchange(at_delete, nullptr))();
}
void operator delete(void *memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { operator delete(memory); }

// Called, once, when this thread has got a file for itself.
thread_local const std::function<void()> *at_exclusive = nullptr;

// Replaces libc's for this program.
extern "C" int flock(int fd, int operation) noexcept {
  const auto result = static_cast<int>(syscall(SYS_flock, fd, operation));
  if (result == 0 && (operation & LOCK_EX) != 0 && at_exclusive != nullptr)
    (*std::exchange(at_exclusive, nullptr))();
  return result;
}

namespace tmh::test {
namespace {

// The thread that opens stops at a step that lies inside the folder lock and the library's own
// locks, for good.
std::atomic<bool> *stands;
std::atomic<pid_t> stands_in{0};

void stand_still(observe::Step step) {
  if (step != observe::Step::kAttachSlotTaken || stands_in != getpid()) return;
  *stands = true;
  for (;;) pause();
}

// Returns when another thread of this process stands still inside open().
void open_without_end(const std::string &folder, std::atomic<bool> *flag) {
  stands = flag;
  stands_in = getpid();
  observe::set_step_hook(stand_still);
  std::thread([folder] { (void)Domain::open(folder); }).detach();
  ASSERT_TRUE(poll_until([&] { return flag->load(); }));
}

TEST(ForkTest, AChildOpensADomainThoughAnotherThreadOfItsParentIsOpeningOne) {
  const MemoryFolder folder, other;
  EXPECT_EQ(run_in_child("parent",
                         [&] {
                           const Shared<std::atomic<bool>> flag;
                           open_without_end(folder.path(), &*flag);
                           expect_child("child", [&] {
                             Domain domain = Domain::open(other.path());
                             const Segment segment = domain.map("a.raw", raw_segment());
                             atomically(domain, [&] {
                               *reinterpret_cast<std::uint64_t *>(segment.data()) = 1;
                             });
                             domain.close();
                           });
                           // The thread that stands still cannot be waited for.
                           die_unless_failed();
                         })
                .signal,
            SIGKILL);
}

TEST(ForkTest, AChildDoesNotKeepItsDeadParentsFolderLocked) {
  const MemoryFolder folder;
  const Shared<Turn> turn;
  const Shared<std::atomic<bool>> flag;
  EXPECT_EQ(run_in_child("parent",
                         [&] {
                           open_without_end(folder.path(), &*flag);
                           if (fork() == 0) {  // it lives on
                             prctl(PR_SET_PDEATHSIG, 0);
                             turn->await(1);
                             _exit(0);
                           }
                           raise(SIGKILL);
                         })
                .signal,
            SIGKILL);
  Children children;
  children.spawn("next", [&] { Domain::open(folder.path()).close(); });
  EXPECT_TRUE(children.wait(0, hang_deadline() / 2).succeeded());
  turn->reach(1);
}

// What an action holds may be locked by a thread that the child does not have.
struct Held {
  const pid_t owner = getpid();
  Held() = default;
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
  ~Held() {
    if (getpid() != owner) _exit(3);
  }
};

TEST(ForkTest, AChildThatExitsDestroysNoActionOfItsParents) {
  expect_child("parent", [] {
    const MemoryFolder folder;
    const Domain domain = Domain::open(folder.path());
    atomically(domain, [] {
      auto held = std::make_shared<Held>();
      on_commit([held = std::move(held)] { EXPECT_EQ(getpid(), held->owner); });
      const pid_t child = fork();
      if (child == 0) exit(0);
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    });
  });
}

bool is_locked(const std::string &folder) {
  const int fd = open((folder + "/tmh.lock").c_str(), O_RDWR | O_CLOEXEC);
  const bool is_held = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return is_held;
}

// Has the thread forked, or does it sleep where fork() waits for the lock of what must not be
// inherited?
bool has_forked_or_sleeps(const std::atomic<pid_t> &thread, const std::atomic<pid_t> &child) {
  if (child != 0) return true;
  if (thread == 0) return false;
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] == 'S';
}

TEST(ForkTest, AChildOfALookForHoldersHoldsNothing) {
  const MemoryFolder folder;
  expect_child("parent", [&] {
    const std::string path = folder / "table";
    write_file(path, "table");
    std::atomic<pid_t> thread{0}, child{0};
    std::thread forks;
    const std::function<void()> fork_meanwhile = [&] {
      forks = std::thread([&] {
        thread = gettid();
        const pid_t forked = fork();
        if (forked == 0)
          for (;;) pause();
        child = forked;
      });
      EXPECT_TRUE(poll_until([&] { return has_forked_or_sleeps(thread, child); }));
    };
    at_exclusive = &fork_meanwhile;
    bool is_held = true;
    EXPECT_EQ(platform::look_for_holder(path, &is_held), Errc::kOk);
    EXPECT_FALSE(is_held);
    forks.join();
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(flock(fd, LOCK_SH | LOCK_NB), 0)
        << "whoever opens the domain would wait for the child's end";
    close(fd);
    kill(child, SIGKILL);
    EXPECT_EQ(waitpid(child, nullptr, 0), child.load());
  });
}

// Forks wherever a thread that maps frees something; but before it has the folder's lock, where
// fork() waits for it.
TEST(ForkTest, AChildLetsGoOfADomainThatAnotherThreadOfItsParentWasChanging) {
  const MemoryFolder folder;
  expect_child("parent", [&] {
    Domain domain = Domain::open(folder.path());
    Segment segments[] = {domain.map("a.raw", raw_segment()), domain.map("b.raw", raw_segment())};
    enum State { kGoesOn, kStands, kHasEnded };
    std::atomic<State> state{kGoesOn};
    std::function<void()> stand;
    stand = [&] {
      if (is_locked(folder.path())) {
        state = kStands;
        state.notify_one();
        state.wait(kStands);
      }
      at_delete = &stand;
    };
    std::thread other([&] {
      at_delete = &stand;
      EXPECT_TRUE(domain.map("c.raw", raw_segment()));
      at_delete = nullptr;
      state = kHasEnded;
      state.notify_one();
    });
    int places = 0;
    for (state.wait(kGoesOn); state != kHasEnded; state.wait(kGoesOn)) {
      const pid_t child = fork();
      if (child == 0) {
        for (Segment &segment : segments) segment = {};
        domain = {};
        _exit(0);
      }
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "at place " << places;
      ++places;
      state = kGoesOn;
      state.notify_one();
    }
    other.join();
    EXPECT_GT(places, 1);
  });
}

}  // namespace
}  // namespace tmh::test
