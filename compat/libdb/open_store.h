// compat/libdb/open_store.h -- opens the store of a handle: dbopen() chooses the kind of it.
#pragma once

#include <functional>
#include <memory>

#include "compat/libdb/store.h"

namespace tmh::db {

using StoreOpener = std::function<std::unique_ptr<Store>(const StoreSettings &settings)>;

}  // namespace tmh::db
