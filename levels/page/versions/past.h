// levels/page/versions/past.h -- what is held of a domain's past: before-images of what went home,
// names of moments, times of clock values.
// Shape:     home goes on as ever. Before a version goes there, the lines that it replaces are kept
//            as a before-image. A page at moment m is home, with the before-images stamped later
//            than m laid over it, the newest first; or with the versions up to m, where home is
//            older than m.
// Invariant: (1) with a history each moment from the horizon on is held: no version stamped later
//            than the horizon is folded into a later one, and none goes home without a
//            before-image. (2) so is the moment of each name, and of each running query of the
//            past, whatever the horizon is. (3) before-images take at most the slots that are
//            wanted, beside what (2) needs: one per page and moment.
// Sharing:   under the domain lock. Death of the holder: repair(). A version that has its
//            before-image is perhaps half home: it goes there once more, and gets no other one.
// Contexts:  not in handlers, but for read(), differs() and repair().
// Source:    docs/history.md; EXCITE-VM, section 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tmh/past.hpp>

#include "levels/page/shared/shared.h"
#include "levels/page/versions/version_slots.h"

namespace tmh::page {

class Past {
 public:
  // All outlive it.
  Past(SharedFiles &memory, VersionSlots &slots) : memory_(memory), slots_(slots) {
    kept_.reserve(2 * kNamedMax);
  }

  // From now on so much is held, if less was.
  void want(const DomainLock::Held &held, std::uint64_t ns, std::uint64_t slots) noexcept;
  // Is anything to be kept of what goes home? Learns of names and readers.
  [[nodiscard]] bool prepare(const DomainLock::Held &held) noexcept {
    return keeps_time() && gather_moments(held);
  }
  // The version is about to go home. REQUIRES prepare() under this lock, which said yes. False:
  // there is no room for what it replaces, so it stays.
  [[nodiscard]] bool save(const DomainLock::Held &held, Slot version) noexcept;
  // Versions stamped later are folded into no later one.
  [[nodiscard]] std::uint64_t unfolded_after() const noexcept;
  // There was no memory for all of them: nothing may be folded. REQUIRES prepare().
  [[nodiscard]] bool is_blind() const noexcept { return is_blind_; }
  // Moments that names and readers hold, for the folder. REQUIRES prepare().
  [[nodiscard]] const std::vector<std::uint64_t> &moments() const noexcept { return kept_; }

  // At commits; now_ns: platform::coarse_ns(). Notes the time, moves the horizon on, gives back
  // what is held no more.
  [[nodiscard]] bool is_on(const DomainLock::Held &) const noexcept {
    const PastState &past = memory_.state().past;
    return past.count.load(std::memory_order_relaxed) != 0 || keeps_time();
  }
  // A dead reader pins nothing where it died before it had an instance.
  [[nodiscard]] bool may_have_readers(const DomainLock::Held &) const noexcept {
    return state().may_have_readers != 0;
  }
  void tend(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;
  // Versions that no pin lets home count, too. Looks at each owner.
  void bound_versions(const DomainLock::Held &held) noexcept;

  // Is the moment held? Then the reader holds it until leave(). kNotHeld.
  [[nodiscard]] Errc enter(const DomainLock::Held &held, storage::Participant &reader,
                           const Moment &moment, std::uint64_t *clock) noexcept;
  void leave(storage::Participant &reader) noexcept;
  // The present gets a name. kBadArgument: it is one already; kTooManyMoments.
  [[nodiscard]] Errc keep(const DomainLock::Held &held, std::string_view name,
                          PastName *made) noexcept;
  // kNotHeld: there is no such name.
  [[nodiscard]] Errc forget(const DomainLock::Held &held, std::string_view name) noexcept;
  [[nodiscard]] PastInfo info(const DomainLock::Held &held) const;
  // The first moment from which on all are held.
  [[nodiscard]] std::uint64_t horizon() const noexcept;

  // Is home, without versions, something else than the page at `moment`, because of what went home
  // since?
  [[nodiscard]] bool has_later_home(PageId page, std::uint64_t moment) const noexcept;
  // `to` holds home, and versions up to `moment`: becomes the page at `moment`.
  void undo(PageId page, std::uint64_t moment, std::byte *to) const noexcept;
  // Pages whose home is later than `moment`.
  void visit_later_homes(std::uint64_t moment, std::vector<PageId> *pages) const;

  // Of ConsistencyTree::repair(): empties all chains and lists; then links before-images in the
  // order of their stamps.
  void reset() noexcept;
  void forget_chain(PageId page) noexcept;
  void link(Slot image) noexcept;

 private:
  [[nodiscard]] PastState &state() const noexcept { return memory_.state().past; }
  [[nodiscard]] bool keeps_time() const noexcept {
    const PastState &past = memory_.state().past;
    return past.history_slots.load(std::memory_order_relaxed) != 0 || past.named_count != 0 ||
           past.may_have_readers != 0;
  }
  [[nodiscard]] bool gather_moments(const DomainLock::Held &held) noexcept;
  [[nodiscard]] std::uint64_t stamp_of(Slot image) const noexcept {
    return memory_.version(image).stamp.load(std::memory_order_relaxed) & ~kPastBit;
  }
  [[nodiscard]] std::uint64_t kept_before(std::uint64_t stamp) const noexcept;
  void note_time(std::uint64_t now_ns) noexcept;
  void thin_samples() noexcept;
  [[nodiscard]] std::uint64_t clock_at(std::uint64_t ns,
                                       std::uint64_t PastSample::*when) const noexcept;
  [[nodiscard]] bool is_named(std::uint64_t clock) const noexcept;
  [[nodiscard]] PastName *find(std::string_view name) const noexcept;
  [[nodiscard]] std::uint64_t bounded_count() const noexcept;
  void retire_oldest() noexcept;
  [[nodiscard]] bool is_let_go(Slot image) noexcept;
  void sweep_kept() noexcept;
  void drop(Slot image) noexcept;

  SharedFiles &memory_;
  VersionSlots &slots_;
  // Sorted; of prepare().
  std::vector<std::uint64_t> kept_;
  // There was no memory for them: nothing is given back, nor sent home.
  bool is_blind_ = false;
};

}  // namespace tmh::page
