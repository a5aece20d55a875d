// storage/log/log_sink_maker.h -- which sink a writer of the log gets: log files, unless the
// program has set another maker.
// Errors:    std::bad_alloc.
// Sharing:   process-wide; set before a domain is opened whose writers are to have it.
// Source:    docs/design.md D1.
#pragma once

#include <memory>
#include <string>

#include "storage/log/log_files.h"
#include "storage/log/log_sink.h"

namespace tmh::storage {

using LogSinkMaker = std::unique_ptr<LogSink> (*)(const std::string &folder,
                                                  const LogIdentity &log);
// What this process's writers get from now on; nullptr: log files.
void set_log_sink_maker(LogSinkMaker maker) noexcept;
[[nodiscard]] std::unique_ptr<LogSink> make_log_sink(const std::string &folder,
                                                     const LogIdentity &log);

}  // namespace tmh::storage
