// tests/transaction/forced_unwinding_test.cpp -- threads that leave a body by pthread_exit(), or
// because another has cancelled them.
// Invariants: (1) the thread ends, and the program goes on, (2) the instance has done nothing,
//             FAILED or not, (3) other threads run instances of every kind, and the domain closes.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kWordsPerPage = 512;
using Word = field<std::uint64_t>;

// Words on two pages, sites that run at level 1 and at level 2, in software.
class Desk {
 public:
  explicit Desk(bool with_thread_views) {
    setenv("TMH_THREAD_VIEWS", with_thread_views ? "always" : "never", 1);
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;
    domain_ = Domain::open(folder_.path(), options);
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = 2 * kPageBytes;
    segment_ = domain_.map("words.raw", raw);
    lines_ = std::make_unique<Site>(domain_, "lines", "never");
    pages_ = std::make_unique<Site>(domain_, "pages", "always");
  }
  [[nodiscard]] const Domain &domain() const { return domain_; }
  [[nodiscard]] const Site &lines() const { return *lines_; }
  [[nodiscard]] const Site &pages() const { return *pages_; }
  [[nodiscard]] Word &first() const { return reinterpret_cast<Word *>(segment_.data())[0]; }
  [[nodiscard]] Word &second() const {
    return reinterpret_cast<Word *>(segment_.data())[kWordsPerPage];
  }

  // The thread must not come back from `body`; what it had stored must be gone.
  void expect_left(const std::function<void()> &body) {
    const std::uint64_t before = query(domain_, [&] { return first().load() + second().load(); });
    std::atomic<bool> came_back{false};
    std::thread([&] {
      body();
      came_back = true;
    }).join();
    EXPECT_FALSE(came_back);
    EXPECT_EQ(query(domain_, [&] { return first().load() + second().load(); }), before + expected_);
    expected_ = 0;
    use();
  }
  // A commit of another thread: what has read or stored either word FAILs.
  void commit_beside(const Site &site) {
    std::thread([&] { atomically(site, [&](Fields) { add_to_both(); }); }).join();
    expected_ += 2;
  }
  void add_to_both() const {
    ++first();
    ++second();
  }
  void close() {
    lines_.reset();
    pages_.reset();
    domain_.close();
  }

 private:
  void use() const {
    std::thread([&] {
      atomically(lines(), [&](Fields) { add_to_both(); });
      atomically(pages(), [&](Fields) { add_to_both(); });
      atomically(domain_, [&] { add_to_both(); });
      (void)query(pages(), [&](Fields) { return first().load(); });
    }).join();
  }

  const MemoryFolder folder_;
  Domain domain_;
  Segment segment_;
  std::unique_ptr<Site> lines_, pages_;
  std::uint64_t expected_ = 0;
};

[[noreturn]] void leave() { pthread_exit(nullptr); }

// Behind the thread's frames.
struct Later {
  std::function<void()> action;
  ~Later() { action(); }
};

// Each way in a process of its own: what goes wrong ends the process.
void expect_all(const char *name, const std::function<void(Desk &desk)> &ways) {
  for (const bool with_thread_views : {false, true})
    expect_child(
        std::string(name) + (with_thread_views ? ", threads' views" : ", the process's view"), [&] {
          Desk desk(with_thread_views);
          ways(desk);
          desk.close();
        });
}

TEST(ForcedUnwindingTest, UpdatesAndQueriesAreLeft) {
  expect_all("left", [](Desk &desk) {
    const auto update = [&] {
      desk.add_to_both();
      leave();
    };
    const auto look = [&] {
      EXPECT_LT(desk.first().load(), 1000U);
      leave();
    };
    for (const Site *site : {&desk.lines(), &desk.pages()}) {
      desk.expect_left([&] { atomically(*site, [&](Fields) { return update(); }); });
      desk.expect_left([&] { query(*site, [&](Fields) { return look(); }); });
    }
    desk.expect_left([&] { atomically(desk.domain(), update); });
    desk.expect_left([&] { query(desk.domain(), look); });
  });
}

TEST(ForcedUnwindingTest, NestedOnesAreLeft) {
  expect_all("nested", [](Desk &desk) {
    const auto update = [&] {
      desk.add_to_both();
      leave();
    };
    for (const Site *outer : {&desk.lines(), &desk.pages()}) {
      desk.expect_left([&] {
        atomically(*outer, [&](Fields) {
          ++desk.first();
          atomically(*outer, [&](Fields) { return update(); });
        });
      });
    }
    desk.expect_left([&] {
      atomically(desk.domain(), [&] {
        ++desk.first();
        atomically(desk.domain(), [&] {
          ++desk.first();
          query(desk.domain(), leave);
        });
      });
    });
    desk.expect_left([&] { query(desk.domain(), [&] { query(desk.domain(), leave); }); });
    // By hand, inside: a destructor that comes later is in no instance.
    for (const bool is_query : {false, true}) {
      desk.expect_left([&] {
        static thread_local Later later;
        later.action = [&] { EXPECT_EQ(desk.domain().depth(), 0U); };
        const auto begins = [&] {
          is_query ? desk.domain().begin_query() : desk.domain().begin();
          leave();
        };
        if (is_query)
          query(desk.domain(), begins);
        else
          atomically(desk.domain(), begins);
      });
    }
    desk.expect_left([&] {
      atomically(desk.domain(),
                 [&] { atomically(desk.lines(), [&](Fields) { return update(); }); });
    });
  });
}

TEST(ForcedUnwindingTest, FailedOnesAreLeftAtLines) {
  expect_all("failed at lines", [](Desk &desk) {
    const auto update = [&] {
      EXPECT_LT(desk.first().load(), 1000U);
      desk.commit_beside(desk.lines());
      try {
        (void)desk.second().load();
        ADD_FAILURE() << "the attempt goes on";
      } catch (const detail::LineAbort &) {
        leave();
      }
    };
    desk.expect_left([&] { atomically(desk.lines(), [&](Fields) { return update(); }); });
    desk.expect_left([&] {
      atomically(desk.lines(),
                 [&](Fields) { atomically(desk.lines(), [&](Fields) { return update(); }); });
    });
  });
}

TEST(ForcedUnwindingTest, FailedOnesAreLeftAtPages) {
  expect_child("failed at pages", [] {
    Desk desk(true);  // the other thread runs beside
    const auto update = [&] {
      desk.add_to_both();
      desk.commit_beside(desk.pages());
      EXPECT_EQ(desk.domain().validate(), Status::kFailed);
      leave();
    };
    desk.expect_left([&] { atomically(desk.pages(), [&](Fields) { return update(); }); });
    desk.expect_left([&] { atomically(desk.domain(), update); });
    desk.expect_left(
        [&] { atomically(desk.domain(), [&] { atomically(desk.domain(), update); }); });
    desk.close();
  });
}

TEST(ForcedUnwindingTest, ActionsOfTheAbortRun) {
  expect_all("actions", [](Desk &desk) {
    int aborts = 0;
    const auto update = [&] {
      on_abort([&] {
        ++aborts;
        atomically(desk.lines(), [&](Fields) { (void)desk.first().load(); });
      });
      leave();
    };
    desk.expect_left([&] { atomically(desk.lines(), [&](Fields) { return update(); }); });
    desk.expect_left([&] { atomically(desk.pages(), [&](Fields) { return update(); }); });
    desk.expect_left([&] { atomically(desk.domain(), update); });
    EXPECT_EQ(aborts, 3);
  });
}

TEST(ForcedUnwindingTest, CancelledOnesAreLeft) {
#ifdef __SANITIZE_ADDRESS__
  // It hears of pthread_exit(), which does not return, and not of a cancellation point that does
  // not.
  GTEST_SKIP() << "AddressSanitizer keeps marks on the frames that pthread_cancel() unwinds";
#endif
  expect_all("cancelled", [](Desk &desk) {
    const auto until_cancelled = [&] {
      desk.add_to_both();
      pthread_cancel(pthread_self());
      pthread_testcancel();
      ADD_FAILURE() << "not cancelled";
    };
    desk.expect_left([&] { atomically(desk.lines(), [&](Fields) { return until_cancelled(); }); });
    desk.expect_left([&] { atomically(desk.pages(), [&](Fields) { return until_cancelled(); }); });
    desk.expect_left([&] { atomically(desk.domain(), until_cancelled); });
  });
}

}  // namespace
}  // namespace tmh::test
