// hierarchy/line_domain.h -- level 1 of one domain in one process: its memory, the directory, its
// threads, and what level 1 asks of level 2.
// Shape:     one LineDomain per DomainImpl in hybrid mode. Each thread that runs a site has a
//            line::SoftwareThread here, made at its first instance and given back when the thread
//            ends or the domain closes.
// Sharing:   threads: thread() and ask() by any; open(), detach() and close() by the domain's
//            owner.
//            Lock order: threads_mutex_ is taken alone. ask() takes the domain lock, holding no
//            line word.
// Contexts:  NOT async-signal-safe.
// Source:    hierarchy/PROTOCOL.md; docs/design.md 4 (cross-level conflict policies).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hierarchy/current.h"
#include "hierarchy/directory.h"
#include "hierarchy/hardware_lines.h"
#include "hierarchy/line_log.h"
#include "levels/line/software.h"
#include "levels/line/upper.h"

namespace tmh::detail {

class LineDomain final : public line::Upper {
 public:
  // with_hardware: RTM works here, and was not declined.
  LineDomain(page::DomainMemory &memory, std::uint32_t slot, CrossPolicy cross, bool with_hardware);
  ~LineDomain() override;

  // Finishes what threads of level 1 left when the last process of the domain died, and removes
  // level 1's files. REQUIRES: nobody is attached, the folder lock is held, all segments are open
  // in `memory`.
  [[nodiscard]] static Errc salvage(page::DomainMemory &memory) noexcept;
  // REQUIRES the folder lock.
  [[nodiscard]] Errc open(const std::string &folder) noexcept;
  void use_engine(page::Engine *engine) noexcept { engine_ = engine; }
  // Durable domains: before the first instance of either level.
  void use_log(page::DurableLog *log);
  // Null: a volatile domain. For every other writer of the log in this process.
  [[nodiscard]] page::LowerLog *log() noexcept { return line_log_.get(); }
  // Durable domains, after detach(): what is still undecided is the dead's, and of this domain's
  // segments.
  void leave_log() noexcept;
  [[nodiscard]] Errc add_segment(std::uint32_t number, std::byte *view,
                                 std::uint64_t max_bytes) noexcept;
  void remove_segment(std::uint32_t number) noexcept;
  // Gives all contexts of this process back. REQUIRES: none of its threads runs an instance at
  // level 1.
  void detach() noexcept;
  // Has every context been recovered, or given back? A dead one's may name a segment that this
  // process does not map: then its commit is not home.
  [[nodiscard]] bool is_settled() const noexcept;
  void drop(line::SoftwareThread *thread) noexcept;  // its thread ends
  void close(bool last) noexcept;

  // Of the calling thread; null: no context is free, or no memory (*error says).
  [[nodiscard]] line::SoftwareThread *thread(Errc *error) noexcept {
    return current().line_thread.serial == serial_ ? current().line_thread.thread
                                                   : find_thread(error);
  }
  [[nodiscard]] hierarchy::Directory &directory() noexcept { return directory_; }
  [[nodiscard]] line::LineMemory &memory() noexcept { return lines_; }
  // Null: this process runs no RTM.
  [[nodiscard]] hierarchy::HardwareLines *hardware() noexcept { return hardware_.get(); }
  struct Given {
    std::uint32_t fresh = 0;   // pages that were not accessible in line mode before
    bool is_complete = false;  // false: some are in use at level 2
  };
  // Pages that level 2 has for this process go to the hardware level, as many as one transaction
  // may need.
  // REQUIRES the mutex of the process's PageRunner.
  Given give_to_hardware() noexcept;
  // Those that were in use then. REQUIRES that mutex.
  void give_again() noexcept;
  // Waits until no instance of level 2 runs, at most for the budget of a cross-level conflict. Who
  // is left?
  enum class UpperLeft : std::uint8_t { kNobody, kGuests, kHosts };
  [[nodiscard]] UpperLeft await_upper() noexcept;

  // line::Upper
  [[nodiscard]] line::UpperAnswer ask(storage::PageId page,
                                      line::Insists insists) noexcept override;
  [[nodiscard]] bool any_pin() noexcept override;
  [[nodiscard]] std::uint64_t oldest_line_pin() noexcept override;
  void suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept override;

  // Adds level 1's totals of the domain.
  void count_in(Counters *out) noexcept;

 private:
  [[nodiscard]] line::SoftwareThread *find_thread(Errc *error) noexcept;
  [[nodiscard]] line::SoftwareThread *make_thread(Errc *error);  // throws std::bad_alloc
  [[nodiscard]] Errc attach(line::SoftwareThread &thread) noexcept;
  [[nodiscard]] bool is_look_due() noexcept;
  [[nodiscard]] UpperLeft upper_left() const noexcept;
  void forget_lines(std::uint32_t number) noexcept;
  void open_ahead(const page::DomainLock::Held &held) noexcept;
  [[nodiscard]] hierarchy::Release try_release(storage::PageId page, bool fail_users,
                                               bool look_for_dead,
                                               hierarchy::Directory::User *used_by) noexcept;
  class Wait;

  page::DomainMemory &memory_;
  line::LineMemory lines_;
  const std::uint32_t slot_;
  const CrossPolicy cross_;
  hierarchy::Directory directory_;
  std::unique_ptr<hierarchy::HardwareLines> hardware_;
  page::Engine *engine_ = nullptr;
  page::DurableLog *log_ = nullptr;
  std::unique_ptr<LineLog> line_log_;           // durable domains
  std::atomic<std::uint64_t> next_look_ns_{0};  // relaxed: a hint
  // Of give_to_hardware(): the pages that were found, and the last runs that were opened with them,
  // the latest first.
  std::vector<storage::PageId> fresh_;
  std::vector<storage::PageId> in_use_;  // pages that it could not give
  struct Ahead {
    storage::PageId begin{}, end{};
    std::uint64_t pages = 0;  // that were wanted; those that the segment has end at `end`
  };
  std::array<Ahead, 4> ahead_{};  // a heap has a place where it grows per size class
  std::mutex threads_mutex_;
  std::vector<std::unique_ptr<line::SoftwareThread>> threads_;
  // of this object in this process: a thread must not take a later one at the same address for it
  const std::uint64_t serial_;
};

}  // namespace tmh::detail
