// storage/data_syncs.h -- syncs of data files, by makers who may die before they have said
// how theirs ended.
// Shape:     in LogState. Syncs are numbered, and are of one file each, which goes by the number of
//            the first segment in it. A maker's number stands from before it opens the file, or
//            syncs it, until the result is stored. Who takes the maker's lock and finds a number
//            standing has found a dead one's: its file is in doubt until somebody whose descriptor
//            is older has synced it. Other files are not, so that a segment made later, whose
//            descriptors are all younger, keeps no participant from checkpoints.
// Why:       the kernel tells each descriptor once of pages that it could not write, and takes them
//            for clean from then on; a descriptor that was opened after anybody was told hears
//            nothing. So what a process was told that died of it only older descriptors can tell.
// Invariant: a checkpoint relies on no sync through a descriptor that is younger than a sync whose
//            result is unknown; unless all that home holds of the file has been written again since
//            it was opened, which takes another home (hierarchy/durability/page_copies.cpp).
// Ordering:  seq_cst before the system calls; a result is stored (release) before its number goes.
// Sharing:   bury(), begin(), end(): under the maker's lock. The rest: any participant.
// Source:    Linux Documentation/core-api/errseq.rst; docs/design.md D2, D3.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>

#include <tmh/error.hpp>

#include "storage/page_id.h"

namespace tmh::storage {

enum class DataSyncer : std::uint32_t {
  kCheckpoint,  // under checkpoint_lock, or by the last participant
  kSegment,     // the maker or extender of a segment, under the folder lock
};

struct DataSyncs {
  // Errc of one that failed; never taken back: what was lost there only the log has
  std::atomic<std::uint32_t> error;
  std::atomic<std::uint32_t> begun;         // ever; 2^32 are years of checkpoints
  std::atomic<std::uint64_t> under_way[2];  // by DataSyncer: number, file << 32; 0: none
  // By file: oldest number, newest number << 32; 0: none.
  std::atomic<std::uint64_t> in_doubt[kSegmentsMax];

  // Of a dead maker.
  void bury(DataSyncer maker) noexcept {
    std::atomic<std::uint64_t> &standing = under_way[static_cast<std::uint32_t>(maker)];
    const std::uint64_t dead = standing.load(std::memory_order_acquire);
    if (dead == 0) return;
    doubt(file_of(dead), number_of(dead));
    standing.store(0, std::memory_order_release);
  }
  void begin(DataSyncer maker, std::uint32_t file) noexcept {
    bury(maker);
    const std::uint64_t number = begun.fetch_add(1, std::memory_order_seq_cst) + 1;
    under_way[static_cast<std::uint32_t>(maker)].store(std::uint64_t{file} << 32 | number,
                                                       std::memory_order_seq_cst);
  }
  void fail(Errc why) noexcept {
    error.store(static_cast<std::uint32_t>(why), std::memory_order_release);
  }
  // After fail(), where it is to be called.
  void end(DataSyncer maker) noexcept {
    under_way[static_cast<std::uint32_t>(maker)].store(0, std::memory_order_release);
  }
  [[nodiscard]] Errc failed() const noexcept {
    return static_cast<Errc>(error.load(std::memory_order_acquire));
  }

  [[nodiscard]] static std::uint32_t oldest_of(std::uint64_t doubts) noexcept {
    return static_cast<std::uint32_t>(doubts);
  }
  [[nodiscard]] std::uint64_t doubts(std::uint32_t file) const noexcept {
    return in_doubt[file].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool has_doubts() const noexcept {
    return std::any_of(std::begin(in_doubt), std::end(in_doubt), [](const auto &of_file) {
      return of_file.load(std::memory_order_acquire) != 0;
    });
  }
  // By a checkpoint, after it has opened the file: the descriptor must be older than that sync. 0:
  // any will do.
  [[nodiscard]] std::uint32_t oldest_unknown(std::uint32_t file) const noexcept {
    const std::uint64_t standing =
        under_way[static_cast<std::uint32_t>(DataSyncer::kSegment)].load(std::memory_order_seq_cst);
    const std::uint32_t other = file_of(standing) == file ? number_of(standing) : 0;
    // In this order, and each time: a dead one's number comes into doubt before it stands no more,
    // also while a checkpoint runs.
    const std::uint32_t oldest = oldest_of(doubts(file));
    return oldest == 0 || (other != 0 && other < oldest) ? other : oldest;
  }
  // As oldest_unknown(), for a caller that takes no checkpoint: one that is under way has said
  // nothing either, and if it is dead never will.
  [[nodiscard]] std::uint32_t oldest_open(std::uint32_t file) const noexcept {
    const std::uint64_t standing =
        under_way[static_cast<std::uint32_t>(DataSyncer::kCheckpoint)].load(
            std::memory_order_seq_cst);
    const std::uint32_t checkpoint = file_of(standing) == file ? number_of(standing) : 0;
    const std::uint32_t oldest = oldest_unknown(file);
    return oldest == 0 || (checkpoint != 0 && checkpoint < oldest) ? checkpoint : oldest;
  }
  [[nodiscard]] bool is_in_doubt(std::uint32_t file, std::uint32_t number) const noexcept {
    return number == oldest_of(doubts(file));
  }
  // Those are known now: the file was synced by a descriptor older than each of them. What came
  // into doubt meanwhile stays.
  void settle(std::uint32_t file, std::uint64_t doubts) noexcept {
    (void)in_doubt[file].compare_exchange_strong(doubts, 0, std::memory_order_acq_rel);
  }
  // A file that no segment is in. Under the folder lock: what dead makers of a segment of this
  // number left concerns no participant.
  void forget(std::uint32_t file) noexcept {
    bury(DataSyncer::kSegment);
    in_doubt[file].store(0, std::memory_order_release);
  }

 private:
  [[nodiscard]] static std::uint32_t number_of(std::uint64_t standing) noexcept {
    return static_cast<std::uint32_t>(standing);
  }
  [[nodiscard]] static std::uint32_t file_of(std::uint64_t standing) noexcept {
    return static_cast<std::uint32_t>(standing >> 32);
  }
  void doubt(std::uint32_t file, std::uint32_t number) noexcept {
    std::uint64_t seen = in_doubt[file].load(std::memory_order_relaxed), next = 0;
    do {
      const std::uint64_t oldest = seen != 0 ? oldest_of(seen) : number;
      next = std::uint64_t{number} << 32 | oldest;
    } while (!in_doubt[file].compare_exchange_weak(seen, next, std::memory_order_acq_rel));
  }
};

}  // namespace tmh::storage
