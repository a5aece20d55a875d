// levels/page/consistency_tree.h -- the order of committed transactions, the snapshots that hang from it, and the versions in between.
// Shape:     the thesis's tree is an ordered list of committed nodes, each with uncommitted children (section 3.3). Here a committed node
//            is a clock value; its children are the participants whose pin equals it; its writeset is the versions stamped with it.
//            A version holds the lines that its commit changed, on top of the next older version or of home.
// Invariant: (1) a snapshot s reads, for each line, the newest version stamped <= s that holds it, else home.
//            (2) only committed nodes have children: a pin is a clock value that has been published.
//            (3) eager domains: a PENDING instance could commit now (see access_table.h).
//            (4) what was committed up to DomainState::fold_fence is home, or in versions stamped up to it: so a checkpoint can tell from
//            stamps what is home.
//            Home of a page changes to a version stamped t only when every pin is >= t, and t is durable (durable_log.h).
// Ordering:  clock.store(t) and pins are seq_cst: a beginner stores its pin and then reads the clock; a committer stores the clock and a
//            collector then reads pins. Either the beginner sees the newer clock and starts again, or the collector sees the pin.
//            With release/acquire both could miss each other, and home would change under a running snapshot.
// Sharing:   all functions but read_unlocked-marked ones REQUIRE DomainState::lock. Death of the holder: repair() by the inheritor.
// Contexts:  async-signal-safe, except collect() and publish(), which run only at begin and end.
// Source:    thesis, section 3.3 "Consistency Tree", "Garbage Collection"; DESIGN 6. We differ: versions are line differences, and one
//            that no snapshot can ask for is folded into its successor at once, not when a threshold is passed.
#pragma once

#include <cstdint>
#include <vector>

#include "levels/page/domain_memory.h"

namespace tmh::page {

struct Write {  // one page of an instance's writeset
  PageId page{};
  LineMask lines = 0;
  Slot slot = 0;  // reserved slot that holds the lines
};

class ConsistencyTree {
 public:
  ConsistencyTree(DomainMemory &memory, std::uint32_t self) noexcept : memory_(memory), self_(self) {}

  // Reserves slots until `slots` holds `count`. kDiskFull, kOutOfMemory: what was reserved stays reserved.
  [[nodiscard]] Errc reserve(std::vector<Slot> *slots, std::size_t count) noexcept;
  void release(Slot slot) noexcept;

  // Commits: stamps and links the versions, appends to the commit log, publishes the clock. Returns the timestamp.
  // log_end: durable domains, where the redo log will end with this commit (DurableLog::room()).
  std::uint64_t publish(const std::vector<Write> &writes, storage::Lsn log_end) noexcept;
  // The page goes to the level below: whoever begins an instance from now on knows (PROTOCOL.md, release-told).
  void announce(PageId page) noexcept;
  // A commit of so many pages is not listed page by page in the commit log.
  [[nodiscard]] static bool is_wide(std::size_t pages) noexcept { return pages > kLogEntries / 2; }

  // Sends versions home that no pin precedes, at most `limit`. Returns how many went.
  std::size_t collect(std::size_t limit) noexcept;
  // Folds what no snapshot can ask for into the versions just published with `stamp` (those that have not gone home).
  void fold_written(const std::vector<Write> &writes, std::uint64_t stamp) noexcept;
  // Folds every version that no snapshot can ask for into its successor.
  void fold_all() noexcept;

  // Does a snapshot at `stamp` read something else than home? REQUIRES the lock.
  [[nodiscard]] bool has_version(PageId page, std::uint64_t stamp) const noexcept;
  // The lines `lines` of `page` as of `stamp`.
  void read(PageId page, std::uint64_t stamp, LineMask lines, std::byte *to) const noexcept;

  // Gives the disk space of free slots at the store's end back (a large transaction leaves hundreds of MiB).
  void shrink() noexcept;

  // After inheriting the lock from a dead holder: rebuilds all links from the slots.
  void repair() noexcept;
  // Frees the slots that a dead participant had reserved.
  void release_reserved_of(std::uint32_t participant) noexcept;

  [[nodiscard]] std::uint64_t oldest_pin() const noexcept;
  // Timestamp of the oldest version that is not home; ~0: there is none.
  [[nodiscard]] std::uint64_t oldest_stamp() const noexcept;

 private:
  void push_free(Slot slot) noexcept;
  void append(Slot slot) noexcept;
  void link(const Write &write, std::uint64_t stamp) noexcept;
  void unlink(Slot slot) noexcept;
  void fold_into(Slot newer) noexcept;
  void fold_below(Slot slot) noexcept;
  [[nodiscard]] Slot merge_by_stamp(Slot a, Slot b) noexcept;
  [[nodiscard]] Slot sort_by_stamp(Slot unsorted) noexcept;
  void log(const std::vector<Write> &writes, std::uint64_t stamp) noexcept;
  void gather_pins() noexcept;
  [[nodiscard]] bool pinned_between(std::uint64_t from, std::uint64_t to) const noexcept;

  DomainMemory &memory_;
  std::uint32_t self_;
  std::vector<std::uint64_t> pins_;  // and the fence; sorted; filled by gather_pins()
};

}  // namespace tmh::page
