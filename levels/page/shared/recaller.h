// levels/page/shared/recaller.h -- what level 2 asks of the level below it: to recall a page, or to
// read it there. hierarchy/exchange/directory.h implements it; where no level is below,
// NothingToRecall answers, and level 2 owns every page.
// Shape:     an estate, too: the dead leave something below. Abstract, and here, because level 2
//            calls it and may not include hierarchy/ (levels/line/releaser.h says more). Hot paths
//            ask has_lower_ first.
// Invariant: after take(page) and until the page is released (ConsistencyTree::announce), nothing
//            below stores to its home.
// Sharing:   the domain lock where a function takes the proof of it; else none.
// Contexts:  async-signal-safe: they run at a first touch, in the fault handler.
// Source:    thesis, section 6.2 (a level talks to the next only when it touches a block in L);
//            hierarchy/exchange/PROTOCOL.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/estate.h"
#include "storage/page_id.h"

namespace tmh::page {

class Recaller : public Estate {
 public:
  // Timestamps below are of this clock. seq_cst: read after the pin is stored, see PROTOCOL.md,
  // "Snapshots that span both clocks".
  [[nodiscard]] virtual std::uint64_t clock() const noexcept = 0;
  // Disk blocks for what take() stores: before it, without the domain lock, because it may be a
  // system call. kDiskFull, kIo.
  [[nodiscard]] virtual Errc prepare(storage::PageId page) noexcept = 0;
  // Of a page that prepare() has refused. True: nothing below has ever changed it, and `content` is
  // home, hence every snapshot's. False: a participant has found blocks since, so prepare() may,
  // too.
  [[nodiscard]] virtual bool read_unchanged(storage::PageId page, std::byte *content) noexcept = 0;
  // REQUIRES prepare(). The page belongs to level 2 afterwards, and this participant is a resident
  // of it. Returns the newest timestamp in it.
  [[nodiscard]] virtual std::uint64_t take(const DomainLock::Held &held,
                                           storage::PageId page) noexcept = 0;
  // The same for a page that nobody has touched yet and somebody soon may: false, and as a rule
  // untaken, when it would have to be waited for or when something in it is newer than `snapshot`,
  // or it is not prepared. Then it is to be taken at its touch.
  [[nodiscard]] virtual bool take_ahead(const DomainLock::Held &held, storage::PageId page,
                                        std::uint64_t snapshot) noexcept = 0;
  // REQUIRES prepare(). Without taking the page: `content` is its state at `snapshot`, which this
  // participant has pinned. False: it is not below, or nothing there has ever stored to it, and
  // nobody below minds that it is taken.
  [[nodiscard]] virtual bool read_beside(const DomainLock::Held &held, storage::PageId page,
                                         std::uint64_t snapshot, std::byte *content) noexcept = 0;
  // REQUIRES prepare(). Without taking the page: is it at level 2, or where the pin keeps others
  // from storing to it? *newest: as take() returns it.
  [[nodiscard]] virtual bool is_above(const DomainLock::Held &held, storage::PageId page,
                                      std::uint64_t *newest) const noexcept = 0;
  // Is this participant still a resident? (Asked while its instance runs.)
  [[nodiscard]] virtual bool is_resident(const DomainLock::Held &held,
                                         storage::PageId page) const noexcept = 0;
  // `content` is home of a taken page: undoes what is newer than `snapshot`.
  virtual void as_of(const DomainLock::Held &held, storage::PageId page, std::uint64_t snapshot,
                     std::byte *content) noexcept = 0;

  // Estate: what a dead participant left below. A dead holder of the domain lock may have left a
  // page between the levels.
  void settle(const DomainLock::Held &held, std::uint32_t slot) noexcept override = 0;
  void repair(const DomainLock::Held &held) noexcept override = 0;

 protected:
  // Engines do not own it.
  ~Recaller() = default;
};

// Nothing below: every page is prepared and ours, and nothing there ever changes.
class NothingToRecall final : public Recaller {
 public:
  // Has no state: one serves all engines of the process.
  [[nodiscard]] static Recaller &here() noexcept;

  [[nodiscard]] std::uint64_t clock() const noexcept override { return 0; }
  [[nodiscard]] Errc prepare(storage::PageId) noexcept override { return Errc::kOk; }
  [[nodiscard]] bool read_unchanged(storage::PageId, std::byte *) noexcept override {
    return false;
  }
  [[nodiscard]] std::uint64_t take(const DomainLock::Held &, storage::PageId) noexcept override {
    return 0;
  }
  [[nodiscard]] bool take_ahead(const DomainLock::Held &, storage::PageId,
                                std::uint64_t) noexcept override {
    return false;
  }
  [[nodiscard]] bool read_beside(const DomainLock::Held &, storage::PageId, std::uint64_t,
                                 std::byte *) noexcept override {
    return false;
  }
  [[nodiscard]] bool is_above(const DomainLock::Held &, storage::PageId,
                              std::uint64_t *newest) const noexcept override {
    *newest = 0;
    return true;
  }
  [[nodiscard]] bool is_resident(const DomainLock::Held &,
                                 storage::PageId) const noexcept override {
    return true;
  }
  void as_of(const DomainLock::Held &, storage::PageId, std::uint64_t,
             std::byte *) noexcept override {}
  void settle(const DomainLock::Held &, std::uint32_t) noexcept override {}
  void repair(const DomainLock::Held &) noexcept override {}
};

}  // namespace tmh::page
