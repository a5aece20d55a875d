// bench/support/durable_thesis.cpp -- the trees on the thesis's page mechanism
// (thesis_mechanism.h), as the prototype's trees were.
// Set-up:  thesis-bptree, thesis-cobtree: each insert an instance; no advice. Memory for nodes and
//          values comes from a counter outside the segment, which costs nothing: the cheaper way,
//          as everywhere in the reference.
//          Durable: at the end every page that the instance copied, and one page for the commit, is
//          appended to a log file, and fdatasync waits for it (thesis, section 3.2: data pages,
//          meta-data page, fsync).
// Limits:  one process. Its pointers mean something in the process that made them only, so a
//          session makes the tree, and counts its records when it closes; nobody reads it back.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include <tmh/trees/bptree.hpp>

#include "bench/support/durable_contestant.h"
#include "bench/support/durable_floor.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/thesis_mechanism.h"
#include "bench/support/trees_arena.h"
#include "examples/trees/cobtree.hpp"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

// 2 KiB for a record of 520 bytes: nodes, and arrays of the cache-oblivious tree that were
// outgrown.
constexpr std::uint64_t kRecordsPerPage = 2, kSegmentPagesMin = 2048;
constexpr std::uint64_t kCommitPages = 1;

std::string make_home(const std::string &folder, std::uint64_t pages) {
  TMH_ASSERT(pages > 0);
  std::string path = folder + "/home";
  write_page_file(path, 1);
  if (::truncate(path.c_str(), static_cast<off_t>(pages * kPageBytes)) != 0) {
    throw std::runtime_error("cannot make " + path);
  }
  return path;
}

template <class Tree>
class ThesisSession final : public Session {
 public:
  ThesisSession(const std::string &folder, Durability durability, std::uint64_t pages)
      : mechanism_(folder, make_home(folder, pages), pages),
        arena_(mechanism_.data(), pages * kPageBytes) {
    if (durability != Durability::kNone)
      log_.emplace(FloorMethod::kAppend, make_log(folder), nullptr);
    mechanism_.begin();
    tree_ = ::new (arena_.allocate(sizeof(Tree), alignof(Tree)))
        Tree(ArenaAllocator<std::byte>(&arena_));
    mechanism_.end();
  }
  ~ThesisSession() override {
    mechanism_.begin();
    const bool is_right = tree_->invariants().empty() && tree_->size() == inserted_;
    mechanism_.end();
    if (is_right) return;
    std::fprintf(stderr, "the tree on the thesis's mechanism does not hold what was committed\n");
    std::_Exit(1);  // a destructor cannot throw; run_team reports the member
  }
  ThesisSession(const ThesisSession &) = delete;
  ThesisSession &operator=(const ThesisSession &) = delete;

  void commit(std::span<const Record> records) override {
    TMH_ASSERT(tree_ != nullptr && !records.empty());
    const std::uint64_t copied_before = mechanism_.counters().pages_copied;
    mechanism_.begin();
    for (const Record &record : records)
      inserted_ += tree_->insert(record.key, record.value) ? 1U : 0U;
    mechanism_.end();
    const std::uint64_t pages = mechanism_.counters().pages_copied - copied_before + kCommitPages;
    logged_bytes_ += pages * kPageBytes;
    if (log_) log_->commit(pages * kPageBytes);
  }
  std::uint64_t log_bytes() override { return logged_bytes_; }
  void scan(const std::function<void(std::uint64_t, const char *)> &) override {}

 private:
  static std::string make_log(const std::string &folder) {
    std::string path = folder + "/log";
    make_floor_file(FloorMethod::kAppend, path, 0);
    return path;
  }
  ThesisMechanism mechanism_;
  Arena arena_;
  std::optional<FloorWriter> log_;
  Tree *tree_ = nullptr;
  std::uint64_t inserted_ = 0, logged_bytes_ = 0;
};

template <class Tree>
class Thesis final : public Contestant {
 public:
  Thesis(std::string name, Durability durability)
      : Contestant(std::move(name), CountsLog::kOwn, false, durability_note(durability)),
        durability_(durability) {}
  [[nodiscard]] bool runs_with(unsigned processes) const override { return processes == 1; }
  void create(const std::string &, const Plan &) override {}
  void prepare(const Plan &plan) override {
    pages_ = kSegmentPagesMin + plan.commits / kRecordsPerPage;
  }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<ThesisSession<Tree>>(folder, durability_, pages_);
  }

 private:
  Durability durability_;
  std::uint64_t pages_ = 0;  // of the segment
};

}  // namespace

void add_thesis_trees(Contestants *all, Durability durability) {
  TMH_ASSERT(all != nullptr);
  using BTree = trees::BPlusTree<std::uint64_t, Value, kPageBytes, ArenaAllocator<std::byte>>;
  using CoTree = ::trees::CoBTree<std::uint64_t, Value, ArenaAllocator<std::byte>>;
  all->push_back(std::make_unique<Thesis<BTree>>("thesis-bptree", durability));
  all->push_back(std::make_unique<Thesis<CoTree>>("thesis-cobtree", durability));
}

}  // namespace tmh::bench
