// hierarchy/domain/line_domain.h -- level 1 of one domain in one process: its memory, the
// directory, its threads, its requests to level 2, and RTM.
// Shape:     one LineDomain per DomainImpl in hybrid mode.
// Sharing:   threads: thread() and await_upper() by any; open(), detach() and close() by the
//            domain's owner.
// Contexts:  NOT async-signal-safe.
// Source:    hierarchy/exchange/PROTOCOL.md; docs/design.md 4 (cross-level conflict policies).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hierarchy/durability/durability.h"
#include "hierarchy/exchange/exchange.h"
#include "hierarchy/threads/threads.h"

namespace tmh::detail {

class LineDomain {
 public:
  // with_hardware: RTM works here, and was not declined.
  LineDomain(page::SharedFiles &memory, std::uint32_t slot, CrossPolicy cross, bool with_hardware);
  LineDomain(const LineDomain &) = delete;
  LineDomain &operator=(const LineDomain &) = delete;

  // REQUIRES that salvage_lines() has been here, where this participant is the first.
  [[nodiscard]] Errc open(const platform::FolderLock::Held &lock,
                          const std::string &folder) noexcept;
  void use_engine(page::Engine *engine) noexcept;
  // Durable domains: before the first instance of either level.
  // housekeeper: writes the log when it is rung.
  void use_log(page::DurableLog *log, platform::Doorbell *housekeeper);
  // Null: a volatile domain. For every other writer of the log in this process.
  [[nodiscard]] page::Gatherer *log() noexcept { return line_log_.get(); }
  // Durable domains, after detach(): what is still undecided is the dead's, and of this domain's
  // segments.
  void leave_log() noexcept;
  [[nodiscard]] Errc add_segment(std::uint32_t number, std::byte *view,
                                 std::uint64_t max_bytes) noexcept;
  void remove_segment(std::uint32_t number) noexcept;
  // See LineThreads.
  void detach() noexcept { threads_.detach(); }
  // Has every context been recovered, or given back? A dead one's may name a segment that this
  // process does not map: then its commit is not home.
  [[nodiscard]] bool is_settled() const noexcept;
  void close() noexcept;

  // Of the calling thread: see LineThreads.
  [[nodiscard]] line::SoftwareThread *thread(Errc *error) noexcept { return threads_.here(error); }
  [[nodiscard]] hierarchy::Directory &directory() noexcept { return directory_; }
  [[nodiscard]] line::LineMemory &memory() noexcept { return lines_; }
  // Null: this process runs no RTM.
  [[nodiscard]] hierarchy::HardwareLines *hardware() noexcept { return hardware_.get(); }
  // These three REQUIRE that this process runs RTM; the first two also the mutex of the process's
  // PageRunner. See GivenPages, PageRequests.
  using Given = GivenPages::Given;
  Given give_to_hardware() noexcept;
  void give_again() noexcept;
  using UpperLeft = PageRequests::UpperLeft;
  [[nodiscard]] UpperLeft await_upper() noexcept { return requests_.await_upper(); }

  // See PageRequests.
  [[nodiscard]] bool any_host_runs() const noexcept { return requests_.any_host_runs(); }
  [[nodiscard]] bool was_refused_by_hosts() const noexcept {
    return requests_.was_refused_by_hosts();
  }

  // Adds level 1's totals of the domain.
  void count_in(Counters *out) noexcept;

 private:
  void forget_lines(std::uint32_t number) noexcept;

  page::SharedFiles &memory_;
  line::LineMemory lines_;
  hierarchy::Directory directory_;
  std::unique_ptr<hierarchy::HardwareLines> hardware_;
  std::unique_ptr<GivenPages> given_;
  page::Engine *engine_ = nullptr;
  PageRequests requests_;
  // Durable domains.
  std::unique_ptr<LineLog> line_log_;
  LineThreads threads_;
};

}  // namespace tmh::detail
