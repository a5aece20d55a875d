// storage/log/log_archive.h -- may a log file take the place of the one that an archive holds?
// Shape:     files of one index are of one log when the archived one holds the beginning of the
//            other: a copy of a file that was still being written. Else it is another domain's, or
//            another history of this one: restored as of a moment, a domain goes on with the same
//            LSNs, and what it writes there would replace what the archive is kept for.
// Contexts:  not in handlers.
// Source:    docs/design.md D6.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "storage/log/log_files.h"

namespace tmh::storage {

// kOk: nothing in `archive_folder` has that name, or only what the file in `folder` holds as well.
// kBadArgument: something else. kNotADomain: another domain's. kIo.
[[nodiscard]] Errc verify_archived(const std::string &folder, const std::string &archive_folder,
                                   const LogIdentity &log, std::uint64_t index) noexcept;

// kNotADomain: that is the folder of another domain, which would use the archived files again as
// its own.
[[nodiscard]] Errc verify_archive_folder(const std::string &archive_folder,
                                         const LogIdentity &log) noexcept;

}  // namespace tmh::storage
