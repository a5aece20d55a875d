// storage/latency_table.h -- one participant's latency histograms: opening the domain's
// table, naming sites, finding pages.
// Shape:     one LatencyTable per domain and process. A LatencySite is one site's pages in it,
//            found at the first time that is recorded.
// Sharing:   open() and leave() under the folder lock; the rest by any thread.
// Contexts:  neither in a handler nor in RTM: a first time of a kind takes a mutex and asks for
//            disk blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <tmh/error.hpp>

#include "platform/files.h"
#include "storage/latency.h"

namespace tmh::storage {

class LatencyTable {
 public:
  LatencyTable() = default;
  LatencyTable(const LatencyTable &) = delete;
  LatencyTable &operator=(const LatencyTable &) = delete;

  // fresh: no other process has the domain open. What earlier owners of the slot have left is added
  // to what has gone. kForeignVersion: others use a table of another version, or a damaged one;
  // kDiskFull, kIo.
  [[nodiscard]] Errc open(const std::string &folder, std::uint32_t slot, std::uint64_t incarnation,
                          bool fresh) noexcept;
  // What this participant has recorded is added to what has gone. Waits for threads that are
  // recording; what comes later is lost.
  void leave() noexcept;
  // Around a record: no participant retires its page in between. False: this participant has left,
  // and there is no page to record on.
  [[nodiscard]] bool begin_record() noexcept {
    // Before the look at has_left_; leave() does both the other way round.
    recording_.fetch_add(1, std::memory_order_seq_cst);
    if (!has_left_.load(std::memory_order_seq_cst)) return true;
    end_record();
    return false;
  }
  // Pairs with leave().
  void end_record() noexcept { recording_.fetch_sub(1, std::memory_order_release); }
  [[nodiscard]] bool is_open() const noexcept { return header_ != nullptr; }

  // The number of the site of that name; 0: it has none, or there are too many.
  [[nodiscard]] std::uint32_t site(std::string_view name) noexcept;
  // The page to add to; a private one, counted as lost, when there is no room.
  [[nodiscard]] HistogramV1 &page(std::uint32_t site, LatencyLevel level,
                                  AbortCause outcome) noexcept;
  // Of all participants; of those that are not alive (`incarnations[slot]`, 0: none) as kGone.
  [[nodiscard]] std::vector<LatencySeries> read(
      const std::vector<std::uint64_t> &incarnations) const;

 private:
  [[nodiscard]] HistogramV1 &page_at(std::size_t index) const noexcept;
  [[nodiscard]] HistogramV1 *make_page(SeriesKey key) noexcept;
  void retire(std::uint64_t owner) noexcept;
  void retire_all() noexcept;
  [[nodiscard]] Errc map_file(const std::string &path) noexcept;
  [[nodiscard]] bool is_ours() const noexcept;
  [[nodiscard]] Errc allocate(std::size_t index) const noexcept;

  platform::GrowingFile file_;
  LatencyHeaderV1 *header_ = nullptr;
  std::uint32_t slot_ = 0;
  std::uint64_t incarnation_ = 0;
  std::atomic<std::uint32_t> recording_{0};  // threads
  std::atomic<bool> has_left_{false};
  std::mutex mutex_;  // makes pages, so that two threads do not make two of one kind
};

// What is recorded of one site, or of instances of no site.
class LatencySite {
 public:
  void use(LatencyTable *table, std::uint32_t number) noexcept {
    table_ = table;
    number_ = number;
  }
  // count: instances that this one stands for.
  void record(LatencyLevel level, AbortCause outcome, std::uint64_t ns,
              std::uint64_t count) noexcept;

 private:
  [[nodiscard]] HistogramV1 &page_of(LatencyLevel level, AbortCause outcome) noexcept;
  [[nodiscard]] HistogramV1 &make_page(LatencyLevel level, AbortCause outcome,
                                       std::atomic<HistogramV1 *> *cell) noexcept;

  LatencyTable *table_ = nullptr;  // null: nothing is recorded
  std::uint32_t number_ = 0;
  std::array<std::atomic<HistogramV1 *>, kLatencyLevelCount * kAbortCauseCount> pages_{};
};

}  // namespace tmh::storage
