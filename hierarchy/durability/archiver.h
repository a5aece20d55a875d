// hierarchy/durability/archiver.h -- moving log files away, and copying a durable domain, while
// transactions go on.
// Sharing:   by any thread of any participant, under the checkpoint lock.
// Contexts:  not in handlers.
// Source:    thesis, section 2.3 (xArchive); docs/design.md 7.
#pragma once

#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "hierarchy/durability/checkpointer.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "storage/checkpoint_file.h"

namespace tmh::detail {

class Archiver {
 public:
  // All outlive it.
  Archiver(page::SharedFiles &memory, storage::CheckpointFile &checkpoint_file,
           page::DurableLog &log, Checkpointer &checkpointer) noexcept
      : memory_(memory),
        checkpoint_file_(checkpoint_file),
        log_(log),
        checkpointer_(checkpointer) {}
  Archiver(const Archiver &) = delete;
  Archiver &operator=(const Archiver &) = delete;

  // Moves the log files that recovery does not need to `folder`; names them.
  [[nodiscard]] Errc archive(const std::string &folder, std::vector<std::string> *moved) noexcept;
  // A consistent copy of the domain, as of its end, in a new folder.
  [[nodiscard]] Errc backup(const std::string &folder) noexcept;

 private:
  [[nodiscard]] Errc archive_moments(const std::string &folder) noexcept;
  [[nodiscard]] Errc copy_data_files(const std::string &folder) noexcept;
  [[nodiscard]] Errc copy_to(const Checkpointer::Held &held, const std::string &folder) noexcept;

  page::SharedFiles &memory_;
  storage::CheckpointFile &checkpoint_file_;
  page::DurableLog &log_;
  Checkpointer &checkpointer_;
};

}  // namespace tmh::detail
