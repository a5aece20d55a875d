// compat/libdb/shared/undo.h -- a change of a record is taken back, in any process: the undo of
// LIBTP's records.
// Contexts:  in a step; take_back_in() in whatever instance.
#pragma once

#include <tp.h>

#include <cstdint>
#include <vector>

#include "compat/libdb/shared/pool.h"
#include "compat/libdb/store.h"
#include "compat/libdb/undo_record.h"

namespace tmh::db {

inline constexpr std::uint32_t kUndoType = 0x0db00001;

// What is logged: the database, the record, its payload.
[[nodiscard]] std::vector<std::byte> logged(Generation database, const UndoRecord &record,
                                            Bytes payload);

// What logged() has made. REQUIRES of its user: the record stays while the payload is looked at. Of
// another type, or no such record: database is 0.
struct Logged {
  Generation database = 0;
  UndoRecord record;
  Bytes payload;
};
[[nodiscard]] Logged parse_logged(const tp_record &record) noexcept;

// In a Change of the store. Throws Failure.
void take_back_in(Store *store, const UndoRecord &record, Bytes payload);

// A tp_undo_fn. context: the Pool.
[[nodiscard]] int undo_change(tp_step_t *step, const tp_record *record, void *context);

}  // namespace tmh::db
