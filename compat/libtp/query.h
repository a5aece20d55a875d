// compat/libtp/query.h -- a thread's query: what committed transactions had stored at one moment.
// Shape:     a query of the domain stands open from begin() to end(): a snapshot, of a moment that
//            is not before the begin. It has what transactions had stored that had not committed by
//            then, and their chains: undoing the records in copies gives the committed state.
// Invariant: commits empty their chain in the instance that makes them whole, so a snapshot has a
//            transaction's records or its commit.
// Sharing:   one thread's.
// Contexts:  NOT async-signal-safe. Throws tmh::Error.
// Source:    LIBTP 3.2.1: records of a transaction are linked; EXCITE-VM, section 3: the past.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <tmh/past.hpp>

#include "compat/libtp/chain.h"
#include "compat/libtp/environment.h"

namespace tmh::tp {

class Query {
 public:
  // moment: none: now. Throws Error(kInstanceRunning): this thread runs a step, another instance,
  // or a query.
  static void begin(Environment &environment, const std::optional<Moment> &moment);
  // Of whatever environment. Throws Error(kEndWithoutBegin).
  static void end();
  // 0: this thread runs none in that environment. Never used again.
  [[nodiscard]] static std::uint64_t serial(const Environment &environment) noexcept;

  // Records of transactions that had not committed, each transaction's last one first. Not 0: the
  // walk ends with that. REQUIRES: serial() is not 0.
  using Visit = std::function<int(std::uint64_t transaction, const Record &record)>;
  [[nodiscard]] static int unfinished(Environment &environment, const Visit &visit);
};

}  // namespace tmh::tp
