// compat/libtp/record_types.h -- what undoes a record, by its type.
// Sharing:   threads: all may call. A type that is known stays as it is.
// Contexts:  NOT async-signal-safe.
// Source:    LIBTP 3.2.1: a record's type says which routine undoes it.
#pragma once

#include <tp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>

#include <tmh/error.hpp>

#include "compat/libtp/chain.h"

namespace tmh::tp {

// What undoes a record.
struct Undo {
  tp_undo_fn function = nullptr;
  void *context = nullptr;
  unsigned flags = TP_FIELDS;
  tp_redo_fn redo = nullptr;
};

class RecordTypes {
 public:
  // Throws Error(kBadArgument): no such number, no name, unknown flags, or it is known otherwise.
  void add(const tp_type &type);
  // Empty: this process does not know it. The library's own are known.
  [[nodiscard]] std::optional<Undo> find(RecordType type) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<RecordType, Undo> undos_;
};

// kBytesBefore, as it is stored: the address, then the bytes.
[[nodiscard]] int put_bytes_back(tp_step_t *step, const tp_record *record, void *context);

}  // namespace tmh::tp
