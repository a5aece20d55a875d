// levels/page/conflict.h -- the decision of levels/storage/conflict.h under this level's name.
#pragma once

#include "levels/storage/conflict.h"

namespace tmh::page {

using storage::resolve;
using storage::Verdict;

}  // namespace tmh::page
