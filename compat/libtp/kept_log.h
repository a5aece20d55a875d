// compat/libtp/kept_log.h -- records that stay behind their transaction's commit: for readers
// of the log, and to do once more, after a crash, what was done outside of segments.
// Shape:     chains of committed transactions, in the order of commits. A record is found
//            by walking them.
// Sharing:   threads and processes.
// Contexts:  NOT async-signal-safe. Throws tmh::Error.
// Source:    LIBTP 3.2.1: log_read, log_roll.
#pragma once

#include <tp.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "compat/libtp/chain.h"
#include "compat/libtp/managers.h"

namespace tmh::tp {

class KeptLog {
 public:
  explicit KeptLog(Managers &managers) noexcept : managers_(managers) {}

  [[nodiscard]] std::optional<Record> find(std::uint64_t lsn, std::uint64_t *transaction) const;
  // Of LSN `from` and higher, in their order. A visit that is not 0 ends it, with that.
  using Visit = std::function<int(std::uint64_t transaction, const Record &record)>;
  [[nodiscard]] int roll(std::uint64_t from, const Visit &visit) const;
  // Transactions that committed before that LSN.
  void forget(std::uint64_t before) const;
  // What lies elsewhere, all of it. The number of a redo that fails, as an Errc.
  [[nodiscard]] Errc redo() const;

 private:
  // In an instance: visit(head) of all kept chains; false ends it.
  template <class Visitor>
  void for_each_chain(const Visitor &visit) const;

  Managers &managers_;
};

}  // namespace tmh::tp
