// tools/log_print.h -- one entry of the redo log as a line of text, or as a document.
#pragma once

#include <string>

#include "storage/control.h"
#include "tools/log_walk.h"
#include "tools/print.h"

namespace tmh::tools {

// Above the lines.
[[nodiscard]] std::string entry_heading();
// pages: every page difference, too. `control` names the segments.
[[nodiscard]] Json entry_json(const LogEntry &entry, const storage::ControlFile &control,
                              bool pages);
// last_end: behind the entry before; an opening in front of that undid what lies between.
[[nodiscard]] std::string entry_text(const LogEntry &entry, const storage::ControlFile &control,
                                     storage::Lsn last_end, bool pages);

}  // namespace tmh::tools
