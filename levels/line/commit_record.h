// levels/line/commit_record.h -- durable domains: a commit's record in the context's redo ring.
// Shape:     everything that may wait or fail comes before the first line is locked (plan); the
//            bytes are made while all lines are locked (encode), because a word that is written in
//            part takes its other bytes from home. In between and behind, in the order of the
//            commit's steps: announce, stamp, show, keep, end; or forget.
//            NoRedo has the same functions and does nothing: a commit of a volatile domain.
// Invariant: redo.h's.
// Contexts:  one thread's. plan() and drain() may wait: REQUIRES no line word is held.
// Source:    hierarchy/exchange/PROTOCOL.md, "Durable domains"; docs/design.md D1 to D3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "levels/line/log_reserver.h"
#include "levels/line/redo.h"
#include "levels/line/write_set.h"
#include "platform/assert.h"
#include "platform/set_if_other.h"

namespace tmh::line {

class CommitRecord {
 public:
  static constexpr bool kWrites = true;

  // log: null in a volatile domain, where only is_on() may be called.
  CommitRecord(LineMemory &memory, LogReserver *log) noexcept : memory_(memory), log_(log) {}

  void attach(std::uint32_t context) noexcept {
    TMH_ASSERT(context < kContextsMax);
    number_ = context;
    context_ = &memory_.context(context);
    is_allocated_ = has_asked_ = false;
    writable_page_ = ~0ull;
  }
  [[nodiscard]] bool is_on() const noexcept { return log_ != nullptr; }
  // Why plan() ended with kNoSpace; else kOk.
  [[nodiscard]] Errc error() const noexcept { return error_; }
  void clear_error() noexcept { platform::set_if_other(error_, Errc::kOk); }
  // Everything committed so far is durable. kLogFailed and its kind.
  [[nodiscard]] Errc drain() noexcept {
    TMH_ASSERT(is_on());
    return log_->drain();
  }

  // The record's size, and room for it in the ring and in the log. kCapacity, kNoSpace.
  [[nodiscard]] AbortCause plan(WriteSet &writes) noexcept;
  // REQUIRES: all lines of `writes` are locked by this context, or no other thread can store to
  // them.
  void encode(const WriteSet &writes, std::uint64_t time_ns) noexcept;
  [[nodiscard]] static std::uint64_t now_ns() noexcept;
  // A stamp is about to be drawn. seq_cst: before the stamp; the log's writer loads the clock and
  // then this word (redo.h).
  void announce() noexcept { context_->in_flight.store(kStamping, std::memory_order_seq_cst); }
  void stamp(std::uint64_t stamp) noexcept {
    header()->stamp = stamp;
    // Later commits need not be waited for.
    context_->in_flight.store(stamp, std::memory_order_release);
  }
  // Past the commit point. release: pairs with gather_redo()
  void show() noexcept { context_->redo_head.store(at_ + bytes_, std::memory_order_release); }
  // relaxed: published by IDLE. Now the room is the record's, and the log's writer gives it back.
  void keep() noexcept { context_->redo_reserved.store(0, std::memory_order_relaxed); }
  // release: a checkpoint that sees it sees home
  void end() noexcept { context_->in_flight.store(0, std::memory_order_release); }

  // In RTM the record, its place in the ring and the stamp appear at once, so nobody has to know
  // that one is under way. Before the transaction: room in the log for a few records, which stays
  // this thread's until they have used it up. False: it is not to be had, and software says why.
  [[nodiscard]] bool prepare_in_rtm() noexcept;
  // Inside, as plan(). False: what is there does not do.
  [[nodiscard]] bool plan_in_rtm(WriteSet &writes) noexcept;
  [[nodiscard]] std::uint64_t time_of_rtm_ns() const noexcept { return time_of_rtm_ns_; }
  void show_in_rtm(std::uint64_t stamp) noexcept;
  // Behind it.
  void end_rtm() noexcept { ask_for_writing(); }
  // The room that prepare_in_rtm() keeps.
  void give_room_back() noexcept;

  // The commit has failed, and its status is IDLE.
  void forget() noexcept {
    TMH_ASSERT(is_on());
    // release: who sees it sees IDLE
    context_->in_flight.store(0, std::memory_order_release);
    // Before: recovery does not give it back a second time.
    context_->redo_reserved.store(0, std::memory_order_relaxed);
    log_->give_back(reserved_);
  }

 private:
  // Of the log, kept from one transaction in RTM to the next: records of up to 90 lines. It counts
  // among what is to be written, where a group of commits waits until that is 64 KiB.
  static constexpr std::uint64_t kRoomOfRtmBytes = 8u << 10;

  [[nodiscard]] AbortCause allocate() noexcept;
  void make_next_writable() noexcept;
  [[nodiscard]] RedoHeader *header() const noexcept {
    return reinterpret_cast<RedoHeader *>(context_->redo + at_ % kRedoBytes);
  }
  [[nodiscard]] AbortCause measure(WriteSet &writes) noexcept;
  [[nodiscard]] AbortCause await_room(std::uint64_t record_bytes) noexcept;
  void ask_for_writing() noexcept;

  LineMemory &memory_;
  LogReserver *const log_;
  LineContextV1 *context_ = nullptr;
  std::uint32_t number_ = 0;
  bool is_allocated_ = false;
  bool has_asked_ = false;  // write_soon(), since its ring was last below half
  Errc error_ = Errc::kOk;
  // The running commit's record: the order of its lines, where it begins in the ring, its size, and
  // the room for it in the log.
  std::span<const std::uint32_t> order_;
  std::uint64_t at_ = 0, bytes_ = 0, reserved_ = 0;
  std::uint64_t time_of_rtm_ns_ = 0;
  // Page of the ring, counted on through every round, that stores do not fault in, nor in the next.
  std::uint64_t writable_page_ = ~0ull;
};

struct NoRedo {
  static constexpr bool kWrites = false;

  static void encode(const WriteSet &, std::uint64_t) noexcept {}
  [[nodiscard]] static std::uint64_t now_ns() noexcept { return 0; }
  static void announce() noexcept {}
  static void stamp(std::uint64_t) noexcept {}
  static void show() noexcept {}
  static void keep() noexcept {}
  static void end() noexcept {}
};

}  // namespace tmh::line
