// levels/page/versions/consistency_tree.h -- the order of committed transactions, the snapshots
// that hang from it, and the versions in between.
// Shape:     the thesis's tree is an ordered list of committed nodes, each with uncommitted
//            children (section 3.3). Here a committed node is a clock value; its children are the
//            participants whose pin equals it; its writeset is the versions stamped with it. A
//            version holds the lines that its commit changed, on top of the next older version or
//            of home. Versions that are not home hang in their page's chain and in the list of the
//            participant slot that committed them (version_lists.h).
// Invariant: (1) a snapshot s reads, for each line, the newest version stamped <= s that holds it,
//            else home.
//            (2) only committed nodes have children: a pin is a clock value that has been
//                published.
//            (3) eager domains: a PENDING instance could commit now (see access_table.h).
//            (4) what was committed up to DomainState::fold_fence is home, or in versions stamped
//                up to it: so a checkpoint can tell from stamps what is home.
//            (5) with a history, or a named moment: see past.h.
//            Home of a page changes to a version stamped t only when every pin is >= t, t is
//            durable (durable_log.h), and every older version of the page is home.
// Ordering:  a beginner stores its pin and then reads the clock, both seq_cst; a committer stores
//            the clock, and a collector, by the lock later, passes a seq_cst fence and then reads
//            pins. Either the beginner sees the newer clock and starts again, or the collector sees
//            the pin. With release/acquire both could miss each other, and home would change under
//            a running snapshot. The fence stands where pins are read, and not at each clock store,
//            because most commits read none.
// Sharing:   public functions that need the domain lock take the proof of it; private ones run
//            under it. Death of the holder: repair() by the inheritor.
// Contexts:  async-signal-safe, except collect() and publish(), which run only at begin and end.
// Source:    thesis, section 3.3 "Consistency Tree", "Garbage Collection"; docs/design.md 6. We
//            differ: versions are line differences, and one that no snapshot can ask for is folded
//            into its successor at once, not when a threshold is passed.
#pragma once

#include <cstdint>
#include <vector>

#include "levels/page/shared/shared.h"
#include "levels/page/versions/past.h"
#include "levels/page/versions/version_lists.h"
#include "levels/page/versions/version_slots.h"

namespace tmh::page {

struct Write {  // one page of an instance's writeset
  PageId page{};
  LineMask lines = 0;
  Slot slot = 0;  // reserved slot that holds the lines
};

class ConsistencyTree final : public Estate {
 public:
  using Role = VersionSlots::Role;
  ConsistencyTree(SharedFiles &memory, std::uint32_t self, Role role);

  // Version slots that this process has reserved, and free ones.
  [[nodiscard]] VersionSlots &slots() noexcept { return slots_; }
  [[nodiscard]] Past &past() noexcept { return past_; }

  // Commits: stamps and links the versions, appends to the commit log, publishes the clock. Returns
  // the timestamp.
  // log_end: durable domains, where the redo log will end with this commit (LogRoom).
  // line: with a level below, its clock, read under the lock: what is stamped later there comes
  // later in the redo log.
  std::uint64_t publish(const DomainLock::Held &held, const std::vector<Write> &writes,
                        storage::Lsn log_end, std::uint64_t line) noexcept;
  // The page goes to the level below: instances that begin behind this know (PROTOCOL.md,
  // release-told).
  void announce(const DomainLock::Held &held, PageId page) noexcept;
  // A commit of so many pages is not listed page by page in the commit log.
  [[nodiscard]] static bool is_wide(std::size_t pages) noexcept { return pages > kLogEntries / 2; }
  [[nodiscard]] static std::size_t entries_of(std::size_t pages) noexcept {
    return is_wide(pages) ? 1 : pages;
  }

  // Sends versions home that no pin precedes, that are durable and stamped up to `up_to`, about
  // `limit`. Returns how many went.
  std::size_t collect(const DomainLock::Held &held, std::size_t limit,
                      std::uint64_t up_to = ~0ull) noexcept;
  // The same for the versions committed from this process's slot; then folds those that were
  // committed since the last call and must stay. Reads every pin, each of which its owner then has
  // to fetch back: see is_tidying_due().
  void tidy_own(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;
  // Is it worth tidying again after this commit? At every commit after which the oldest is durable,
  // as long as no pin keeps our versions; where one does, every `patience` versions or 100
  // ms. now_ns: platform::coarse_ns(), or a little earlier.
  [[nodiscard]] bool is_tidying_due(const DomainLock::Held &held, std::uint64_t now_ns,
                                    std::size_t patience) const noexcept;
  [[nodiscard]] bool holds_own(const DomainLock::Held &) const noexcept { return holds_own(); }
  // Where a pin keeps our versions: looks at the next `slots` version slots, and folds
  // what no snapshot can ask for any more, whoever owns it. A page that nobody writes again keeps
  // what a pin needed that has gone since; here it loses it.
  void fold_some(const DomainLock::Held &held, std::size_t slots) noexcept;
  // Folds every version that no snapshot can ask for into its successor.
  void fold_all(const DomainLock::Held &held) noexcept;

  // Does a snapshot at `stamp` read something else than home?
  [[nodiscard]] bool has_version(const DomainLock::Held &held, PageId page,
                                 std::uint64_t stamp) const noexcept;
  // The same without the lock: false is final for a pinned snapshot.
  [[nodiscard]] bool may_have_version(PageId page) const noexcept;
  // The lines `lines` of `page` as of `stamp`; of one that belongs to the level below, anything.
  void read(const DomainLock::Held &held, PageId page, std::uint64_t stamp, LineMask lines,
            std::byte *to) const noexcept;

  // Is home of `page`, from now on while no version later than `pin` goes there, something else
  // than the page at `moment`?
  [[nodiscard]] bool differs_in_past(const DomainLock::Held &held, PageId page,
                                     std::uint64_t moment, std::uint64_t pin) const noexcept {
    return has_version(held, page, pin) || past_.has_later_home(page, moment);
  }
  // `page` at a moment of the past that is held.
  void read_past(const DomainLock::Held &held, PageId page, std::uint64_t moment,
                 std::byte *to) const noexcept {
    read(held, page, moment, ~LineMask{0}, to);
    past_.undo(page, moment, to);
  }
  // Those of which differs_in_past() may be true. Throws bad_alloc.
  [[nodiscard]] std::vector<PageId> pages_of_past(const DomainLock::Held &held,
                                                  std::uint64_t moment) const;

  // The lines of `page` that commits newer than `stamp`, a running instance's pin, have changed;
  // all where that is not known.
  [[nodiscard]] LineMask lines_since(const DomainLock::Held &held, PageId page,
                                     std::uint64_t stamp) const noexcept;

  // Estate: version slots that the dead participant had reserved, and the moment that its query
  // read.
  void settle(const DomainLock::Held &held, std::uint32_t slot) noexcept override;
  // All links, from the slots.
  void repair(const DomainLock::Held &held) noexcept override;
  // False: versions in segments that the last repairer did not know are not linked to their pages,
  //        so until the next repair none goes home.
  [[nodiscard]] bool is_linked() const noexcept {
    return (memory_.state().repair_again & kRepairVersions) == 0;
  }
  [[nodiscard]] std::uint64_t oldest_pin() const noexcept;
  // Timestamp of the oldest version that is not home; ~0: there is none.
  [[nodiscard]] std::uint64_t oldest_stamp(const DomainLock::Held &held) const noexcept;

 private:
  [[nodiscard]] bool holds_own() const noexcept { return lists_.of(self_).oldest != 0; }
  void link(const Write &write, std::uint64_t stamp) noexcept;
  void take_count_back() noexcept;
  void unlink(Slot slot) noexcept;
  std::size_t send_home(const DomainLock::Held &held, Slot slot) noexcept;
  std::size_t collect_from(const DomainLock::Held &held, std::uint32_t owner, std::uint64_t up_to,
                           std::size_t limit) noexcept;
  void fold_new(const DomainLock::Held &held) noexcept;
  void fold_into(Slot newer) noexcept;
  void fold_below(Slot slot) noexcept;
  [[nodiscard]] Slot merge_by_stamp(Slot a, Slot b) noexcept;
  [[nodiscard]] Slot sort_by_stamp(Slot unsorted) noexcept;
  void log(const std::vector<Write> &writes, std::uint64_t stamp, std::uint64_t line) noexcept;
  [[nodiscard]] bool gather_pins(const DomainLock::Held &held) noexcept;
  [[nodiscard]] bool pinned_between(std::uint64_t from, std::uint64_t to) const noexcept;

  SharedFiles &memory_;
  std::uint32_t self_;
  VersionSlots slots_;
  VersionLists lists_;
  // The fence, too, and moments that are held; sorted; filled by gather_pins().
  std::vector<std::uint64_t> pins_;
  // own versions up to here have been folded once, and were durable then
  std::uint64_t folded_stamp_ = 0;
  std::size_t unfolded_count_ = 0;  // versions published since fold_new()
  // versions that fold_new() found not durable, and so must look at again
  std::size_t undurable_count_ = 0;
  std::size_t untidied_count_ = 0;  // versions published since tidy_own()
  Slot fold_next_ = 1;              // where fold_some() goes on
  bool blocked_ = false;            // the last tidy_own() had to leave versions to a pin
  std::uint64_t tidied_ns_ = 0;
  Past past_;
  // Of Past::prepare(), for the collection that runs.
  bool keeps_past_ = false;
};

}  // namespace tmh::page
