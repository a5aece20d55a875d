// hierarchy/transaction/transaction.h -- the door of hierarchy/transaction: instances and the
// attempts of sites. Instances begins, ends and retries at level 2; SiteImpl has what a site has
// learned; Attempts (tmh/detail/attempts.hpp) runs each attempt at its level. Other rooms include
// this header alone.
#pragma once

#include "hierarchy/transaction/actions.h"
#include "hierarchy/transaction/heap_preparation.h"
#include "hierarchy/transaction/instances.h"
#include "hierarchy/transaction/leave_level.h"
#include "hierarchy/transaction/raise.h"
#include "hierarchy/transaction/site_impl.h"
