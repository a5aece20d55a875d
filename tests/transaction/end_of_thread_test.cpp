// tests/transaction/end_of_thread_test.cpp -- instances that run when their thread, or the program,
// ends: in destructors of thread_local and static objects; and those that are still open then.
// Invariant: what the library keeps for a thread is there as long as any object of the thread may
//            ask for it, and for static objects to the end; nobody waits for an instance whose
//            thread is no more.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/thread_object.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

struct AtEnd {
  std::function<void()> action;
  ~AtEnd() {
    if (action != nullptr) action();
  }
};
thread_local AtEnd at_end_of_thread;
AtEnd at_end_of_program;

struct Table {
  Domain domain;
  Segment heap;
  field<std::uint64_t> *count = nullptr;

  Table(const std::string &folder, Levels levels) {
    DomainOptions options;
    options.levels = levels;
    domain = Domain::open(folder, options);
    heap = domain.map("count.heap");
    count = heap.root<field<std::uint64_t>>("count");
  }
  void add(const Site &site) const {
    atomically(site, [&](Fields) { ++*count; });
  }
  // Instances of each kind: at the site, plain, with the heap, with an error told.
  void use(const Site &site) const {
    add(site);
    atomically(domain, [&] { ++*count; });
    atomically(domain, [&] { heap.deallocate(heap.allocate(100)); });
    try {
      (void)domain.end();
    } catch (const Error &) {  // GoogleTest may be gone
      return;
    }
    _exit(3);
  }
};

// What was freed has new content.
void reuse_freed_memory() {
  std::vector<std::unique_ptr<unsigned char[]>> taken;
  for (std::size_t bytes = 16; bytes <= 4096; bytes += 16) {
    for (int i = 0; i < 8; ++i) {
      taken.push_back(std::make_unique<unsigned char[]>(bytes));
      std::memset(taken.back().get(), 0xa5, bytes);
    }
  }
}

constexpr const char *kLevels[] = {"never", "always"};  // escalation of the site

TEST(EndOfThreadTest, ThreadLocalObjectsRunInstancesAsTheyGo) {
  for (const char *const level : kLevels) {
    expect_child(level, [level] {
      setenv("TMH_THREAD_VIEWS", "always", 1);
      const MemoryFolder folder;
      const Table table(folder.path(), Levels::kHybrid);
      const Site site(table.domain, level, level);
      std::thread([&] {
        // Made before everything that the library makes for the thread.
        at_end_of_thread.action = [&] {
          reuse_freed_memory();
          for (int i = 0; i < 100; ++i) table.use(site);
        };
        table.use(site);
      }).join();
      EXPECT_EQ(query(table.domain, [&] { return table.count->load(); }), 202U);
    });
  }
}

TEST(EndOfThreadTest, StaticObjectsRunInstancesAndCloseAtExit) {
  for (const char *const level : kLevels) {
    for (const Levels levels : {Levels::kHybrid, Levels::kPage}) {
      const MemoryFolder folder;
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        auto table = std::make_shared<Table>(folder.path(), levels);
        auto site = std::make_shared<Site>(table->domain, level, level);
        table->use(*site);
        at_end_of_program.action = [table, site]() mutable {
          reuse_freed_memory();
          for (int i = 0; i < 100; ++i) table->use(*site);
          std::thread([&] { table->add(*site); }).join();
          const std::uint64_t sum = query(table->domain, [&] { return table->count->load(); });
          site.reset();
          table.reset();  // the last handles: the domain is closed
          _exit(sum == 203 ? 0 : 1);
        };
        std::exit(2);
      }
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0) << level
                           << (levels == Levels::kPage ? ", page domain" : ", hybrid domain");
    }
  }
}

// Another library may have got the number of a key that was deleted.
TEST(EndOfThreadTest, AStaticObjectThatIsTheFirstToAskInItsThreadTouchesNobodyElsesKey) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    struct Probe {};
    std::thread([] { (void)platform::ThreadObject<Probe>::here(); }).join();
    at_end_of_program.action = [] {
      std::vector<pthread_key_t> keys;  // every number that is free
      for (pthread_key_t key{}; pthread_key_create(&key, nullptr) == 0;) keys.push_back(key);
      (void)platform::ThreadObject<Probe>::here();
      for (const pthread_key_t key : keys)
        if (pthread_getspecific(key) != nullptr) _exit(1);
      _exit(keys.empty() ? 3 : 0);
    };
    std::exit(2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// A thread that has looked at the key may still use it when exit() has come far in another: so the
// key is there to the end.
TEST(EndOfThreadTest, ThreadsThatEndDuringExitTakeTheirObjectsAlong) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    static int gone = 0;
    struct Probe {
      ~Probe() { ++gone; }
    };
    std::thread([] { (void)platform::ThreadObject<Probe>::here(); }).join();
    // Made before everything that is made at a first use, so it goes behind it.
    at_end_of_program.action = [] {
      std::thread([] { (void)platform::ThreadObject<Probe>::here(); }).join();
      _exit(gone == 2 ? 0 : 1);
    };
    std::exit(2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The heir of the runner is whoever begins next.
TEST(EndOfThreadTest, InstancesThatAreStillOpenAbort) {
  expect_child("open instances", [] {
    const MemoryFolder folder;
    Table table(folder.path(), Levels::kHybrid);
    auto site = std::make_unique<Site>(table.domain, "site", "always");
    const std::function<void()> begins[] = {
        [&] { table.domain.begin(); },
        [&] { table.domain.begin_query(); },
        [&] {
          table.domain.begin();
          table.domain.begin();
          ++*table.count;
        },
        [&] {
          table.domain.begin();
          become_irrevocable();
          ++*table.count;
        },
        [&] {
          table.domain.begin();
          ++*table.count;
          pthread_exit(nullptr);
        },
    };
    std::uint64_t sum = 0;
    for (const auto &begin : begins) {
      std::thread(begin).join();
      std::thread([&] { table.use(*site); }).join();
      sum += 2;
      EXPECT_EQ(query(table.domain, [&] { return table.count->load(); }), sum);
    }
    // The destructors of thread_local objects come before: they may still end it.
    std::thread([&] {
      at_end_of_thread.action = [&] { EXPECT_EQ(table.domain.end(), Status::kCommitted); };
      table.domain.begin();
      ++*table.count;
    }).join();
    EXPECT_EQ(query(table.domain, [&] { return table.count->load(); }), sum + 1);
    site.reset();
    table.heap = {};
    table.domain.close();
  });
}

TEST(EndOfThreadTest, ActionsRunWhereAThreadLocalObjectEndsTheirInstance) {
  expect_child("actions", [] {
    const MemoryFolder folder;
    const Table table(folder.path(), Levels::kHybrid);
    int commits = 0, aborts = 0;
    for (const bool commits_it : {true, false}) {
      std::thread([&] {
        // Made before everything that the library makes for the thread.
        at_end_of_thread.action = [&] {
          reuse_freed_memory();
          if (!commits_it) return table.domain.abort();
          EXPECT_EQ(table.domain.end(), Status::kCommitted);
        };
        table.domain.begin();
        ++*table.count;
        on_commit([&] { ++commits; });
        on_abort([&] { ++aborts; });
      }).join();
    }
    EXPECT_EQ(commits, 1);
    EXPECT_EQ(aborts, 1);
  });
}

// Instances that begin behind it, in destructors of the thread's keys, are others.
TEST(EndOfThreadTest, ActionsOfAnInstanceThatStaysOpenNeverRun) {
  expect_child("actions", [] {
    const MemoryFolder folder;
    // Runs instances: the library's key for open ones is there.
    const Table table(folder.path(), Levels::kHybrid);
    static const Table *used;
    used = &table;
    pthread_key_t key{};
    ASSERT_EQ(pthread_key_create(&key,
                                 [](void *) {
                                   reuse_freed_memory();
                                   atomically(used->domain, [] { ++*used->count; });
                                 }),
              0);
    int ran = 0;
    std::thread([&] {
      ASSERT_EQ(pthread_setspecific(key, &key), 0);
      table.domain.begin();
      ++*table.count;
      on_commit([&] { ++ran; });
      on_abort([&] { ++ran; });
    }).join();
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(query(table.domain, [&] { return table.count->load(); }), 1U);
    EXPECT_EQ(pthread_key_delete(key), 0);
  });
}

// As in frames that cannot be unwound. What the library keeps for a thread goes in the order in
// which it was first needed; a close() may come at any time between.
TEST(EndOfThreadTest, AnInstanceOfLevelOneThatStaysOpenAbortsBeforeItsDomainCanClose) {
  expect_child("level 1", [] {
    const MemoryFolder folder;
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;
    static Domain domain;
    domain = Domain::open(folder.path(), options);
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = kPageBytes;
    auto *const word = reinterpret_cast<field<std::uint64_t> *>(domain.map("word.raw", raw).data());
    // Looks at level 1, and goes to level 2.
    atomically(Site(domain, "pages", "always"), [](Fields) {});
    pthread_key_t key{};
    ASSERT_EQ(pthread_key_create(&key, [](void *) { std::thread([] { domain.close(); }).join(); }),
              0);
    auto site = std::make_unique<Site>(domain, "lines", "never");
    static std::unique_ptr<detail::Attempts> open_instance;
    open_instance = std::make_unique<detail::Attempts>(
        *site, detail::Attempts::Kind::kUpdate, detail::BodyKind::kInstrumented, Durability{});
    std::thread([&] {
      ASSERT_EQ(pthread_setspecific(key, &key), 0);
      open_instance->begin();
      ++*word;
    }).join();
    EXPECT_FALSE(domain);
    domain = Domain::open(folder.path(), options);
    (void)domain.map("word.raw", raw);
    EXPECT_EQ(query(domain, [&] { return word->load(); }), 0U);
    EXPECT_EQ(pthread_key_delete(key), 0);
  });
}

}  // namespace
}  // namespace tmh::test
