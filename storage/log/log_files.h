// storage/log/log_files.h -- the files of the redo log: names, headers, making, recycling,
// archiving.
// Shape:     tmh.log.<index, 10 digits>; file k holds LSNs [k F, (k+1) F). Files are made in
//            ascending order, one maker at a time.
// Invariant: a file with such a name is complete: F bytes, a durable header that says the same
//            index. It gets its name last, from the temporary name, so that neither a crash nor a
//            full disk leaves a short one. Content behind the header: zeros, or (recycled) records
//            of another LSN, which count for nothing.
// Errors:    kDiskFull, kPermission, kReadOnly, kIo. After one, no file has the new name; the
//            temporary one is removed by the next call.
// Sharing:   one maker at a time: under the folder lock or the log's lock.
// Source:    docs/design.md D4, D6; thesis, section 2.3 (xArchive).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tmh/error.hpp>

#include "platform/disk.h"
#include "storage/log/log_format.h"

namespace tmh::storage {

// What every file of one log has in common.
struct LogIdentity {
  std::uint64_t domain_id[2] = {};
  std::uint64_t file_bytes = 0;
};

[[nodiscard]] std::string log_file_name(std::uint64_t index);
[[nodiscard]] std::string log_file_path(const std::string &folder, std::uint64_t index);
[[nodiscard]] std::string log_temporary_path(const std::string &folder);
// The index in a file's name (no folder); empty when it is no log file's name, in exactly the form
// that log_file_name() writes.
[[nodiscard]] std::optional<std::uint64_t> log_file_index(std::string_view name) noexcept;

[[nodiscard]] LogFileHeaderV1 make_log_file_header(const LogIdentity &log,
                                                   std::uint64_t index) noexcept;
// kNotADomain: another domain's, or no log file; kForeignVersion; kCorrupt. `why` names the first
// field that is wrong.
[[nodiscard]] Errc verify_log_file_header(const LogFileHeaderV1 &header, const LogIdentity &log,
                                          std::uint64_t index, std::string *why);
// Before the first record that this version writes to a file: where its header is another than
// make_log_file_header()'s, of version 1 or torn on the way from there, that one is made durable.
// REQUIRES: verify_log_file_header(found) is kOk.
[[nodiscard]] Errc update_log_file_header(platform::DiskFile *file, const LogFileHeaderV1 &found,
                                          const LogIdentity &log, std::uint64_t index) noexcept;
// Reads and verifies; also kShortFile when the file has less than log.file_bytes. The detail names
// the file.
[[nodiscard]] Errc verify_log_file(const std::string &path, const LogIdentity &log,
                                   std::uint64_t index);

// A new file full of zeros with disk blocks for all of it. Durable, name included, when it returns.
// An existing file of that index is replaced: callers look first.
[[nodiscard]] Errc create_log_file(const std::string &folder, const LogIdentity &log,
                                   std::uint64_t index);
// Makes file `new_index` out of file `old_index`, which nothing needs: no block is
// allocated and no zero written. Where a hard link keeps the old one, an archive's perhaps, that
// stays as it is, and the new one is made as create_log_file() does.
[[nodiscard]] Errc recycle_log_file(const std::string &folder, const LogIdentity &log,
                                    std::uint64_t old_index, std::uint64_t new_index);
// Copies the file, under the temporary name first. Durable when it returns.
[[nodiscard]] Errc copy_log_file(const std::string &from_folder, const std::string &to_folder,
                                 std::uint64_t index) noexcept;
// Moves the file to another folder, which may lie on another device (then it is copied, and durable
// there before it is removed here). kOk also when it is there already and not here.
[[nodiscard]] Errc archive_log_file(const std::string &folder, const std::string &archive_folder,
                                    std::uint64_t index) noexcept;
// Indexes of the log files in `folder`, ascending. Says nothing about their content.
[[nodiscard]] Errc list_log_files(const std::string &folder, std::vector<std::uint64_t> *indexes);

}  // namespace tmh::storage
