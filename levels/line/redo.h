// levels/line/redo.h -- level 1's commits on their way to the redo log.
// Shape:     per context a ring of bytes. A record is a RedoHeader and page differences as the log
//            has them (storage/log/FORMAT.md), in one piece; what is left at the ring's end is
//            skipped by a header without stamp. Positions count bytes ever filled.
// Invariant: (1) records of a ring have rising stamps. (2) A record below redo_head is of a
//            committed instance; it is there before the instance's line-write-back. (3) in_flight
//            is not 0 from before the stamp is drawn until home holds the writes, or the instance
//            is aborted: so whoever reads the line clock and then waits for every in_flight up to
//            it finds all records up to it. In RTM it stays 0: record, stamp and home appear at
//            once.
//            (4) Bytes below redo_tail are the owner's again. Only the holder of the log's lock
//                moves it, after their records are durable.
// Ordering:  in_flight is stored (seq_cst) before the clock's fetch_add; the log's writer loads the
//            clock, then in_flight (seq_cst).
// Sharing:   a ring belongs to its context and outlives its owners: a record may be logged after
//            its thread has ended or died.
// Source:    hierarchy/exchange/PROTOCOL.md, "Durable domains"; docs/design.md D1 to D3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tmh/error.hpp>

#include "levels/line/line_memory.h"

namespace tmh::line {

struct RedoHeader {
  std::uint64_t bytes;           //  0  this header included; multiple of 8
  std::uint64_t stamp;           //  8  0: nothing up to the ring's end
  std::uint64_t time_ns;         // 16  CLOCK_REALTIME
  std::uint64_t reserved_bytes;  // 24  of the log: LogReserver::reserve()
};
static_assert(sizeof(RedoHeader) == 32);
static_assert(kRedoBytes % sizeof(RedoHeader) == 0 &&
              2 * (kRedoRecordBytesMax + sizeof(RedoHeader)) <= kRedoBytes);

// Is there room for one more record of `bytes`? *at: where it goes.
[[nodiscard]] bool has_redo_room(const LineContextV1 &context, std::uint64_t bytes,
                                 std::uint64_t *at) noexcept;
// A dead context's record counts when it was past its commit point. REQUIRES: no thread but the
// caller does this, or ends the context.
void settle_redo(LineContextV1 &context) noexcept;

struct RedoRecord {
  RedoHeader header;
  const std::byte *deltas = nullptr;  // header.bytes - sizeof header
};
// Appends the committed records with stamps in (after, up_to] of all contexts, in the order of
// stamps. kCorrupt: no record where one must be. REQUIRES: none up to `up_to` is undecided; the
// log's lock.
[[nodiscard]] Errc gather_redo(const LineMemory &memory, std::uint64_t after, std::uint64_t up_to,
                               std::vector<RedoRecord> *records);
// Gives the room of records up to `stamp` back. REQUIRES the log's lock.
void forget_redo(LineMemory &memory, std::uint64_t stamp) noexcept;

}  // namespace tmh::line
