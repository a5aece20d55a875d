// hierarchy/exchange/page_requests.h -- asking level 2 for a page that an instance at level 1
// needs, by cross-level policy; and what else level 1 asks of level 2.
// Shape:     one per process and domain. Waits are bounded: the instance that uses the page ends,
//            or the budget does; then the asker aborts and its site escalates.
// Sharing:   threads: all may call. ask() takes the domain lock, holding no line word.
// Contexts:  NOT async-signal-safe.
// Source:    hierarchy/exchange/PROTOCOL.md; docs/design.md 4 (cross-level conflict policies).
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/options.hpp>

#include "hierarchy/exchange/directory.h"
#include "hierarchy/exchange/hardware_lines.h"
#include "levels/line/releaser.h"
#include "levels/page/page.h"
#include "levels/page/shared/shared.h"

namespace tmh::detail {

class PageRequests final : public line::Releaser {
 public:
  // All outlive it.
  PageRequests(page::SharedState &memory, hierarchy::Directory &directory,
               CrossPolicy cross) noexcept
      : memory_(memory), directory_(directory), cross_(cross) {}

  // Before the first request.
  void use_engine(page::Engine *engine) noexcept { engine_ = engine; }
  void use_log(page::DurableLog *log) noexcept { log_ = log; }
  void use_hardware(hierarchy::HardwareLines *hardware) noexcept { hardware_ = hardware; }

  // Waits until no instance of level 2 runs, at most for the budget of a cross-level conflict. Of
  // which kind are those that are left? REQUIRES that this process runs RTM.
  enum class UpperLeft : std::uint8_t { kNobody, kGuests, kHosts };
  [[nodiscard]] UpperLeft await_upper() noexcept;

  // Hints. Does an instance of level 2 run that is no guest (hierarchy::Learned), or that stays?
  // Was there one while the last asker of this process waited that was refused?
  [[nodiscard]] bool any_host_runs() const noexcept { return any_host(~0ull); }
  [[nodiscard]] bool was_refused_by_hosts() const noexcept {
    return hosts_refused_.load(std::memory_order_relaxed);
  }

  // line::Releaser
  [[nodiscard]] line::ReleaseAnswer ask(storage::PageId page,
                                        line::Insists insists) noexcept override;
  [[nodiscard]] storage::Pins pins() const noexcept override;
  [[nodiscard]] std::uint64_t oldest_line_pin() noexcept override;
  void suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept override;

 private:
  [[nodiscard]] bool is_look_due() noexcept;
  [[nodiscard]] UpperLeft upper_left() const noexcept;
  // One that runs, or has begun since then.
  [[nodiscard]] bool any_host(std::uint64_t begun_ns) const noexcept;
  [[nodiscard]] hierarchy::Release try_release(storage::PageId page, bool fail_users,
                                               bool look_for_dead,
                                               hierarchy::Directory::User *used_by) noexcept;
  class Wait;

  page::SharedState &memory_;
  hierarchy::Directory &directory_;
  const CrossPolicy cross_;
  page::Engine *engine_ = nullptr;
  // Null: a volatile domain.
  page::DurableLog *log_ = nullptr;
  // Null: this process runs no RTM.
  hierarchy::HardwareLines *hardware_ = nullptr;
  // relaxed: a hint.
  std::atomic<std::uint64_t> next_look_ns_{0};
  std::atomic<bool> hosts_refused_{false};
};

}  // namespace tmh::detail
