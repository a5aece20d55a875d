// hierarchy/threads/thread_view.h -- one thread's views of one domain: where it runs instrumented
// instances of level 2 beside other threads of its process.
// Shape:     such a thread is one more participant, as another process would be: its own slot, its
//            own mappings of the domain's files, its own page::Engine, and a view of each segment
//            wherever there was room. tmh::field<T> computes the address there from the common one;
//            pointers in the segment stay common addresses, so the same body runs at every level.
// Invariant: (1) an instance in a thread's view reaches shared memory through detail::line_access
//            only. What needs plain loads and stores (the heap, nested plain instances, mapping)
//            ends the attempt, which runs again on the process's view.
//            (2) A segment that the process maps is in a thread's view, or accesses to it end the
//            attempt.
// Sharing:   threads: its own thread, which holds the mutex of its runner from begin to end; and
//            the holder of ThreadViews::Stopped.
// Contexts:  NOT async-signal-safe. Faults in a thread's view reach its own engine.
// Source:    thesis, appendix A.1, first restriction (one thread of a process runs transactions):
//            lifted for instrumented code.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tmh/detail/line_access.hpp>

#include "hierarchy/exchange/exchange.h"
#include "hierarchy/threads/mapped_segments.h"
#include "hierarchy/threads/page_runner.h"
#include "levels/line/line_memory.h"
#include "levels/page/shared/shared.h"
#include "storage/latency_table.h"

namespace tmh::detail {

// What the views of a thread have in common with those of its process, which is open. All outlive
// the views.
struct ViewSource {
  page::SharedFiles *memory = nullptr;
  // Of the process.
  std::uint32_t slot = 0;
  const MappedSegments *segments = nullptr;
  Detection detection{};
  Tracking tracking{};
  bool records_skew = false;
  // Of durable domains.
  GroupCommit group_commit;
  bool reads_durable_only = false;
  storage::LatencySite *log_times = nullptr;
  page::Gatherer *gatherer = nullptr;
  // Null: level 2 alone.
  line::LineMemory *lines = nullptr;
};

class ThreadView final : public LineAccess {
 public:
  explicit ThreadView(const ViewSource &source) noexcept;
  ThreadView(const ThreadView &) = delete;
  ThreadView &operator=(const ThreadView &) = delete;

  // Becomes a participant. kTooManyParticipants, kTrackingUnavailable, what opening files can say.
  [[nodiscard]] Errc attach() noexcept;
  // Gives slot and views back. REQUIRES the folder lock, and that no instance runs.
  void detach() noexcept;
  // Maps what the process has mapped since. REQUIRES runner().mutex and that no instance runs.
  [[nodiscard]] Errc follow_segments();
  void unmap(std::uint32_t segment) noexcept;

  [[nodiscard]] PageRunner &runner() noexcept { return runner_; }
  [[nodiscard]] storage::Participant &participant() noexcept {
    return memory_.participant(runner_.slot);
  }

  // Accesses of this thread go to its views, from here to leave().
  void enter() noexcept;
  static void leave() noexcept { line_access = nullptr; }
  // Ends the attempt: throws LineAbort, and again at each access that follows.
  [[noreturn]] void need_process_view();
  [[nodiscard]] bool is_doomed() const noexcept { return is_doomed_; }

  // The long ways of LineAccess. Throw LineAbort.
  [[nodiscard]] std::uint64_t load_long(std::uintptr_t address, std::uint32_t size);
  void store_long(std::uintptr_t address, std::uint64_t value, std::uint32_t size);

  // Between addresses that the program knows and those of this thread; what lies in no segment
  // stays as it is.
  [[nodiscard]] std::uintptr_t own_address(std::uintptr_t common) const noexcept;
  [[nodiscard]] std::uintptr_t common_address(std::uintptr_t own) const noexcept;

  // Pages that this thread's instances have taken from level 1.
  [[nodiscard]] std::uint64_t recalls() const noexcept {
    return directory_ == nullptr ? 0 : directory_->recalls_here();
  }

 private:
  struct Place {
    std::uint32_t segment = 0;
    std::uintptr_t common = 0, own = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Errc open_files(const platform::FolderLock::Held &lock) noexcept;
  [[nodiscard]] Errc start_engine();
  [[nodiscard]] std::uintptr_t find_place(std::uintptr_t address);

  const ViewSource &source_;
  PageRunner runner_;
  // of its own: what a process knows of the files is no other thread's to change
  page::SharedFiles memory_;
  std::unique_ptr<page::DurableLog> log_;
  std::unique_ptr<hierarchy::Directory> directory_;  // hybrid domains
  std::unique_ptr<page::Engine> engine_;
  std::vector<Place> places_;
  std::uint64_t segments_epoch_ = 0;  // MappedSegments::epoch() that places_ follows
  bool is_attached_ = false;
  bool is_doomed_ = false;
};

// The view in which this thread runs an instance; null: none.
[[nodiscard]] ThreadView *running_view() noexcept;

}  // namespace tmh::detail
