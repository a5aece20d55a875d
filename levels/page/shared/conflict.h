// levels/page/shared/conflict.h -- the decision of storage/conflict.h under this level's name.
#pragma once

#include "storage/conflict.h"

namespace tmh::page {

using storage::resolve;
using storage::Verdict;

}  // namespace tmh::page
