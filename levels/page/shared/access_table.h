// levels/page/shared/access_table.h -- eager detection: which PENDING instances touch which page.
// Shape:     entries threaded twice, by page (PageMeta::accesses) and by owner
//            (Participant::accesses).
// Invariant: (thesis, Invariant 3) after every add(), all PENDING update instances could commit: a
//            page has any number of PENDING readers or one PENDING writer. Entries of FAILED
//            instances are ignored and go when the instance ends.
// Sharing:   under the domain lock. Death of the holder: repair() by the inheritor; of an owner:
//            settle().
// Contexts:  async-signal-safe.
// Source:    thesis, section 3.3 ("transaction page tables", "Implemented Policies").
#pragma once

#include <cstdint>

#include "levels/page/shared/conflict.h"
#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/estate.h"
#include "levels/page/shared/shared_files.h"
#include "platform/assert.h"

namespace tmh::page {

enum class Touch : std::uint8_t { kGranted, kSelfFailed, kNoSpace };

class AccessTable final : public Estate {
 public:
  AccessTable(SharedFiles &memory, std::uint32_t self) noexcept : memory_(memory), self_(self) {
    TMH_ASSERT(self < storage::kParticipantsMax);
  }

  // Registers the access and resolves conflicts by `policy`. Others may be FAILED by it. kNoSpace:
  // error() says why.
  [[nodiscard]] Touch add(const DomainLock::Held &held, PageId page, bool is_write,
                          ConflictPolicy policy) noexcept;
  [[nodiscard]] Errc error() const noexcept { return error_; }
  void remove_all(const DomainLock::Held &held, std::uint32_t participant) noexcept;

  // Estate
  void settle(const DomainLock::Held &held, std::uint32_t slot) noexcept override {
    remove_all(held, slot);
  }
  // Both threads, from the entries themselves.
  void repair(const DomainLock::Held &held) noexcept override;

 private:
  [[nodiscard]] bool is_pending(const AccessEntry &entry) const noexcept;
  [[nodiscard]] bool may_be_dead(std::uint32_t participant) const noexcept;
  [[nodiscard]] Slot allocate(const DomainLock::Held &held) noexcept;

  SharedFiles &memory_;
  std::uint32_t self_;
  Errc error_ = Errc::kOk;
};

}  // namespace tmh::page
