// hierarchy/durability/durability.h -- the door of hierarchy/durability: what a durable domain has
// beyond a volatile one. DurableDomain recovers it at open, has its log, and takes checkpoints,
// archives and backups. LineLog brings level 1's records to the log, and KeptMoments outlive all
// participants. Other rooms include this header alone.
#pragma once

#include "hierarchy/durability/durable_domain.h"
#include "hierarchy/durability/kept_moments.h"
#include "hierarchy/durability/line_files.h"
#include "hierarchy/durability/line_log.h"
