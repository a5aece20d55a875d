// bench/support/sets_tmh.cpp -- this library in the sets bench, through its public interface alone:
// one site of a hybrid domain on software lines, lookups as queries, nodes of tmh::pools.
#include <tmh/tmh.hpp>

#include "bench/support/sets_work.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

constexpr std::size_t kHeadBytes = 1u << 20;

class TmhSets {
 public:
  template <class T>
  using Field = tmh::field<T>;

  explicit TmhSets(const std::string &folder) {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;
    domain_ = Domain::open(folder, options);
    SegmentOptions heap;
    heap.size_bytes = heap.max_bytes = 256u << 20;
    segment_ = domain_.map("sets", heap);
    pools_ = segment_.root<pools>("tmh.pools");
    TMH_ASSERT(pools_ != nullptr);
    site_ = std::make_unique<Site>(domain_, "sets");
  }

  class Session : public SetOperations<Session> {
   public:
    Session(const Site &site, pools &nodes) : site_(site), nodes_(nodes) {}
    template <class Body>
    [[gnu::always_inline]] auto update(const Body &body) {
      return atomically(site_, [&](Fields) { return body(); });
    }
    template <class Body>
    [[gnu::always_inline]] auto query(const Body &body) {
      return tmh::query(site_, [&](Fields) { return body(); });
    }
    void *allocate(std::size_t bytes, std::size_t alignment) {
      return nodes_.allocate(bytes, alignment);
    }
    void deallocate(void *block, std::size_t bytes, std::size_t alignment) {
      nodes_.deallocate(block, bytes, alignment);
    }

   private:
    const Site &site_;
    pools &nodes_;
  };
  [[nodiscard]] Session session() const { return {*site_, *pools_}; }
  // Zeros. Of the set before all goes back to the heap.
  std::byte *head(std::size_t bytes) {
    TMH_ASSERT(bytes <= kHeadBytes);
    atomically(domain_, [&] {
      if (head_ != nullptr) segment_.deallocate(head_, kHeadBytes);
      std::destroy_at(pools_);
      ::new (static_cast<void *>(pools_)) pools(allocator<std::byte>(segment_));
      head_ = static_cast<std::byte *>(segment_.allocate(kHeadBytes, kPageBytes));
      std::memset(head_, 0, bytes);
    });
    return head_;
  }
  // The head that another process has made.
  void use_head(std::byte *head) noexcept {
    TMH_ASSERT(head != nullptr);
    head_ = head;
  }
  [[nodiscard]] std::byte *head() const noexcept { return head_; }
  template <class Body>
  void alone(const Body &body) {
    atomically(domain_, body);
  }
  [[nodiscard]] std::uint64_t page_commits() const { return site_->report().page_commits; }

 private:
  Domain domain_;
  Segment segment_;
  pools *pools_ = nullptr;
  std::unique_ptr<Site> site_;
  std::byte *head_ = nullptr;
};

class Tmh final : public SetContestant {
 public:
  explicit Tmh(const std::string &folder) : memory_(folder) {}
  [[nodiscard]] const char *name() const override { return "tmh"; }
  SetOutcome run(const SetWork &work) override {
    const std::uint64_t before = memory_.page_commits();
    SetOutcome outcome = run_set_work(work, memory_);
    outcome.page_commits = memory_.page_commits() - before;
    return outcome;
  }

 private:
  TmhSets memory_;
};

// What the processes tell each other.
struct Told {
  std::atomic<std::byte *> head{nullptr};
  std::atomic<std::uint64_t> page_commits{0};
  std::atomic<bool> is_wrong{false};
};

template <class Set>
SetOutcome run_in_processes(const std::string &folder, const SetWork &work, unsigned processes) {
  TMH_ASSERT(processes >= 1 && processes <= kTeamMembersMax && work.elements > 0);
  const Shared<Told> told;
  SetOutcome outcome;
  const double ns = run_team_ns(processes, [&](unsigned index, const TeamClock &clock) {
    TmhSets memory(folder);
    auto session = memory.session();
    if (index == 0) {
      Set set(memory.head(Set::kHeadBytes));
      fill_set(work, set, session);
      told->head = memory.head();
    }
    clock.meet();
    memory.use_head(told->head);
    Set set(memory.head());
    const std::uint64_t before = memory.page_commits();
    clock.start();
    (void)use_set(work, set, session, work.seed + 77 + index);
    clock.finish();
    told->page_commits += memory.page_commits() - before;
    clock.meet();
    if (index == 0) memory.alone([&] { told->is_wrong = !what_is_wrong(work, set).empty(); });
  });
  outcome.transactions_per_us = static_cast<double>(2 * work.operations * processes) * 1000 / ns;
  outcome.page_commits = told->page_commits;
  if (told->is_wrong) outcome.wrong = "the content is another one than at first";
  return outcome;
}

}  // namespace

std::unique_ptr<SetContestant> make_sets_tmh(const std::string &folder) {
  return std::make_unique<Tmh>(folder);
}

SetOutcome run_sets_in_processes(const std::string &folder, const SetWork &work,
                                 unsigned processes) {
  return with_set<TmhSets::Field>(work.kind, [&]<class Set>(std::type_identity<Set>) {
    return run_in_processes<Set>(folder, work, processes);
  });
}

}  // namespace tmh::bench
