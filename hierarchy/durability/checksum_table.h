// hierarchy/durability/checksum_table.h -- the page checksums of a durable domain: the setting, and
// the table that a clean close writes.
// Shape:     the table's file is the setting, too: where there is one, the domain wants checksums.
// Sharing:   under the folder lock; write_at_close() by the last participant.
// Contexts:  not in handlers.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/domain.hpp>

#include "levels/page/shared/shared.h"

namespace tmh::detail {

class ChecksumTable {
 public:
  explicit ChecksumTable(page::SharedFiles &memory) noexcept : memory_(memory) {}

  [[nodiscard]] bool is_wanted() const noexcept;
  // Makes the setting the domain's; unset: leaves it.
  [[nodiscard]] Errc use(PageChecksums wanted) noexcept;
  // The table that was found says nothing from now on. It goes, or stays as the setting that the
  // domain had.
  [[nodiscard]] Errc end(bool is_wanted) noexcept;
  // Unless the domain wants none. sequence: of the checkpoint that is about to be stored.
  [[nodiscard]] Errc write_at_close(std::uint64_t sequence) noexcept;
  // Of data files that no other process knows yet. Their control file is the copy's own: the
  // domain's may have grown.
  [[nodiscard]] static Errc write_of_copy(const std::string &folder, bool is_wanted) noexcept;

 private:
  page::SharedFiles &memory_;
};

}  // namespace tmh::detail
