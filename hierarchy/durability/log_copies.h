// hierarchy/durability/log_copies.h -- log files on their way into a copy of a domain: whole the
// first time, then what was written since.
// Contexts:  not in handlers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include <tmh/error.hpp>

#include "storage/log/log_files.h"

namespace tmh::detail {

class LogCopies {
 public:
  LogCopies(std::string from, std::string to, std::uint64_t file_bytes) noexcept
      : from_(std::move(from)), to_(std::move(to)), file_bytes_(file_bytes) {}

  // The log from `begin`, before which all is in the copy, to `end`; and files up to `last`, also
  // when nothing is in them yet.
  [[nodiscard]] Errc copy(storage::Lsn begin, storage::Lsn end, std::uint64_t last) noexcept;
  // What was copied is durable when it returns.
  [[nodiscard]] Errc sync() noexcept;

 private:
  [[nodiscard]] Errc copy_part(std::uint64_t index, std::uint64_t first,
                               std::uint64_t behind) noexcept;

  const std::string from_, to_;
  const std::uint64_t file_bytes_;
  std::set<std::uint64_t> files_, not_synced_;
};

}  // namespace tmh::detail
