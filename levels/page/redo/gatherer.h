// levels/page/redo/gatherer.h -- what the writer of the redo log asks of the level below: to gather
// its commits. hierarchy/durability/line_log.h implements it.
// Shape:     abstract, and here, because level 2 calls it and may not include hierarchy/
//            (levels/line/releaser.h says more).
// Sharing:   the lock of the log where a function takes the proof of it, or alone in the domain;
//            the domain lock may be taken inside.
// Contexts:  not in handlers.
// Source:    hierarchy/exchange/PROTOCOL.md, "Durable domains".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tmh/error.hpp>

#include "levels/page/shared/shared.h"

namespace tmh::page {

struct GatheredCommit {
  std::uint64_t stamp = 0;  // on the clock below
  std::uint64_t time_ns = 0;
  std::uint64_t reserved_bytes = 0;  // LogRoom::reserve()
  // Page differences as a record's payload has them; until forget().
  const std::byte *deltas = nullptr;
  std::size_t bytes = 0;
};

class Gatherer {
 public:
  virtual ~Gatherer() = default;

  // seq_cst.
  [[nodiscard]] virtual std::uint64_t clock() const noexcept = 0;
  // Returns when every instance stamped up to `line` is decided: committed, with its record in
  // gather(), or aborted for good.
  virtual void settle(const LogLock::Held &held, std::uint64_t line) noexcept = 0;
  // Commits stamped in (after, up_to], in the order of stamps. REQUIRES settle(up_to), by whomever.
  // kCorrupt, kOutOfMemory.
  [[nodiscard]] virtual Errc gather(const LogLock::Held &held, std::uint64_t after,
                                    std::uint64_t up_to,
                                    std::vector<GatheredCommit> *commits) noexcept = 0;
  // Commits up to `line` are durable.
  virtual void forget(const LogLock::Held &held, std::uint64_t line) noexcept = 0;
  // Is home as settled commits up to `line` left it? False when a dead one's writes wait for
  // a participant that knows their segment.
  [[nodiscard]] virtual bool is_home(std::uint64_t line) noexcept = 0;
  // More than all its commits that are not in the log yet, and all attempts, can have reserved.
  // Needs no lock.
  [[nodiscard]] virtual std::uint64_t reserved_bytes_max() const noexcept = 0;
};

}  // namespace tmh::page
