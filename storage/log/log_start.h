// storage/log/log_start.h -- where to begin reading the redo log in order to read all of it from
// some LSN on.
// Why:       reading forward tells what counts from what was undone later, but only from a place
//            in front of where it was undone.
// Sharing:   one thread. Participants may write the log behind LogSource::read_up_to().
// Source:    docs/design.md D3.
#pragma once

#include <vector>

#include <tmh/error.hpp>

#include "storage/checkpoint_file.h"
#include "storage/log/log_source.h"

namespace tmh::storage {

// *from: `checkpoint`, but for where reading starts: the first record of the oldest log file from
// which the files up to the one of `lsn` are there without a gap. kBadArgument: no record is there.
[[nodiscard]] Errc find_start(LogSource *source, const CheckpointV1 &checkpoint, Lsn lsn,
                              CheckpointV1 *from) noexcept;

// A generation that begins in the log.
struct Opening {
  Lsn lsn = 0;  // of its kOpen record
  std::uint32_t generation = 0;
  std::uint64_t stamp = 0;  // of the last commit in front of it
  OpenPayloadV1 says{};
};
// All records that open a generation above `generation`, in the files that are there: also of those
// that were undone, where nothing lies over them yet. Ascending by LSN.
[[nodiscard]] Errc find_openings(LogSource *source, std::uint32_t generation,
                                 std::vector<Opening> *openings) noexcept;

}  // namespace tmh::storage
