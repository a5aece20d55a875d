// tools/chain_check.h -- the chains of transactions of tp.h, for tmh check: is what lies in
// tp.chains whole?
// Invariant: nothing is written, no byte is believed, and it ends: blocks that were seen are not
//            gone to again, and places of records fall.
#pragma once

#include <string>

#include "storage/control.h"
#include "tools/check.h"

namespace tmh::tools {

[[nodiscard]] bool holds_chains(const storage::SegmentRecordV1 &segment);
// REQUIRES: it does, and the domain is closed and its data files are in order.
[[nodiscard]] Part check_chains(const std::string &folder, const storage::SegmentRecordV1 &segment);

}  // namespace tmh::tools
