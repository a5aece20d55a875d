// compat/libdb/file_check.h -- what a file of dbopen() is, and whether it is whole.
// Errors:    Failure: it cannot be read, or is none.
// Contexts:  one thread.
#pragma once

#include <tp/db.h>

#include "compat/libdb/store.h"

namespace tmh::db {

[[nodiscard]] tp_db_info check_file(Store *store);

}  // namespace tmh::db
