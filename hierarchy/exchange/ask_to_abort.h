// hierarchy/exchange/ask_to_abort.h -- failing the running instance of another participant, from
// outside.
// Invariant: the same transitions that conflicts make, and no others (PROTOCOL.md): level 2:
//            Participant::failed_instance, under the domain lock; level 1: status PENDING -> FAILED
//            by CAS. Both name the instance by its number, so that none of them hits a later one.
// Result:    a FAILED instance ends ABORTED at its next end, or first touch in an eager domain.
//            Until then its process keeps its snapshot and pages: they are mapped there, and it
//            would go on reading them. Eager: others take no notice of its accesses from here on.
// Never:     queries, irrevocable instances, instances of level 1 behind their commit point. A
//            query is told that it should end (tmh::should_end()), which is its body's affair.
// Contexts:  not in handlers, but fail_running().
#pragma once

#include <cstdint>

#include "levels/line/line_memory.h"
#include "levels/page/page.h"

namespace tmh::hierarchy {

enum class Asked : std::uint8_t {
  kFailed,       // it can only abort now
  kEnded,        // it is not running
  kQuery,        // never aborts
  kIrrevocable,  // cannot abort
  kCommitted,    // level 1: has committed, and is writing back
};

// Under the lock, because an instance that becomes irrevocable looks at both words under it.
[[nodiscard]] Asked fail_running(const page::DomainLock::Held &held, page::SharedState &memory,
                                 storage::Participant &other, std::uint64_t instance) noexcept;
// Instance `instance` of the participant that had this incarnation in `slot`. Takes the domain
// lock: waits for its holder.
[[nodiscard]] Asked ask_to_abort(page::Engine &engine, std::uint32_t slot,
                                 std::uint64_t incarnation, std::uint64_t instance) noexcept;
// The instance of level 1 whose context showed `status`. Takes no lock. It lets go of its lines by
// itself.
[[nodiscard]] Asked ask_to_abort(line::LineContextV1 &context, line::Owner owner,
                                 std::uint64_t status) noexcept;

}  // namespace tmh::hierarchy
