// hierarchy/durability/line_files.h -- the shared files of level 1 in a domain's folder, where no
// participant is attached: what the dead have left in them, and their end.
// Sharing:   under the folder lock.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <string>

#include <tmh/error.hpp>

#include "levels/page/shared/shared.h"

namespace tmh::detail {

// Level 1's files, and the directory. REQUIRES: no participant is attached. Death in between:
// salvage_lines(), which the next open calls.
void remove_line_files(const platform::FolderLock::Held &lock, const std::string &folder) noexcept;
// Finishes what threads of level 1 left when the last process of the domain died, and removes level
// 1's files. REQUIRES: no participant is attached, all segments are open in `memory`.
[[nodiscard]] Errc salvage_lines(const platform::FolderLock::Held &lock,
                                 page::SharedFiles &memory) noexcept;

}  // namespace tmh::detail
