// storage/log/log_file_sink.h -- the log's bytes go to the log files of the domain's folder.
// Invariant: writes to a file of this domain, whole, of the right index, and to no other that
//            somebody may have put in its place.
// Errors, sharing: as LogSink. kLogMissing: the file is gone or cut short.
// Source:    docs/design.md D1, D5, D7.
#pragma once

#include <cstdint>
#include <string>

#include "platform/disk.h"
#include "storage/log/log_files.h"
#include "storage/log/log_sink.h"

namespace tmh::storage {

class LogFileSink final : public LogSink {
 public:
  LogFileSink(std::string folder, const LogIdentity &log) : folder_(std::move(folder)), log_(log) {}

  [[nodiscard]] Errc find_place(Lsn lsn) noexcept override;
  [[nodiscard]] Errc write_durable(Lsn lsn, const std::byte *from,
                                   std::size_t bytes) noexcept override;
  [[nodiscard]] bool is_own_trouble() const noexcept override { return is_own_trouble_; }

 private:
  [[nodiscard]] Errc open_file(std::uint64_t index) noexcept;

  const std::string folder_;
  const LogIdentity log_;
  platform::DiskFile file_;
  std::uint64_t file_index_ = ~0ull;
  bool is_own_trouble_ = false;
};

}  // namespace tmh::storage
