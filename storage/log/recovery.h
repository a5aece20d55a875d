// storage/log/recovery.h -- bringing data files to the end of the redo log.
// Effect:    afterwards the data files hold exactly the commits of the log's valid prefix, durably,
//            and the checkpoint file says so under a new generation. May be cut at any moment and
//            run again: words of differences are absolute, so replay is idempotent.
// Shape:     the log is read twice: once to check every record and to find its end
//            (storage/log/log_reader), once to store (storage/log/replay). So nothing is
//            stored unless everything before the end was found right.
// Errors:    kLogDamaged when a record before the durable end is wrong (the detail names file,
//            offset and LSN), or names a page that the domain does not have; kLogMissing;
//            kForeignVersion; kNotADomain; kFileShrunk; kIo, kDiskFull, kOutOfMemory. The data
//            files then hold a prefix or nothing new, and nothing was marked.
// Sharing:   REQUIRES the folder lock and that no participant is alive.
// Source:    docs/design.md D3, D4; thesis, section 3.2 and appendix B (recovery, which it left
//            out); LIBTP, section 3.2.1.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <tmh/error.hpp>

#include "storage/checkpoint_file.h"
#include "storage/control.h"
#include "storage/log/log_format.h"

namespace tmh::storage {

// Points in time: REQUIRES data files that hold nothing later than the point: a backup made while
// the domain was closed (or of a checkpoint that far back), with its tmh.control and
// tmh.checkpoint, and the log files from there on in the domain's folder or in log_folder.
struct RecoveryOptions {
  // Point in time: stop before the first transaction whose record ends beyond.
  Lsn until_lsn = ~0ull;
  std::uint64_t until_time_ns = ~0ull;  // or whose time is later (CLOCK_REALTIME)
  // Where archived log files lie; empty: the domain's folder only.
  std::string log_folder;
  // Makes a segment that long, durably. Set: data files are those of a backup, from before segments
  // may have grown; not set: they have not.
  std::function<Errc(std::uint32_t segment, std::uint64_t size_bytes)> grow;
  // Participants have stored to the data files since the checkpoint: commits of the folder's own
  // log, any of them.
  bool was_in_use = false;
  unsigned threads = 0;  // 0: as many as there are cores
  // Called about every 100 ms once recovery has lasted 2 s; done and total in bytes of log. May be
  // empty.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

struct RecoveryReport {
  bool was_clean = false;           // closed by its last participant: nothing to replay
  std::uint64_t transactions = 0;   // replayed
  std::uint64_t records = 0;        // read, parts included
  std::uint64_t log_bytes = 0;      // of these records
  std::uint64_t pages = 0;          // page differences applied
  std::uint64_t bytes_applied = 0;  // words stored
  Lsn start_lsn = 0;                // of the checkpoint
  Lsn end_lsn = 0;                  // behind the last valid record
  bool tail_was_torn = false;       // something that was no valid record followed
  Lsn torn_at = 0;
  // Commit timestamp of the last transaction replayed, or the checkpoint's.
  std::uint64_t last_stamp = 0;
  std::uint64_t last_time_ns = 0;
  std::uint32_t generation = 0;  // the new one
  // Where the next record (kOpen) goes: block-aligned, behind end_lsn; its file may not exist yet.
  Lsn next_lsn = 0;
  OpenPayloadV1 open{};  // what that record is to say
  std::uint64_t read_us = 0, apply_us = 0, sync_us = 0, total_us = 0;
};

// Replays into the data files named by `control` (paths relative to `folder`; their sizes settled,
// see control.h), then stores a checkpoint at next_lsn under a generation above every one in the
// log. The caller writes the kOpen record there, with the payload `report->open`, before any other.
// The log file of next_lsn is made whole, copied from log_folder, or removed when it is cut short
// or its header is damaged and it holds nothing. kBadArgument when the point lies before the
// checkpoint's durable_lsn, or was_in_use and the folder's own log goes on behind it: the data
// files may hold later commits. A recovery of a point in time, or with a log_folder, stores there
// how far it goes before it stores to them.
[[nodiscard]] Errc recover(const std::string &folder, const ControlFile &control,
                           CheckpointFile *checkpoint, const RecoveryOptions &options,
                           RecoveryReport *report) noexcept;

}  // namespace tmh::storage
