// hierarchy/domain/domain.h -- the door of hierarchy/domain: one domain in one process. Opening
// makes a DomainImpl of options, environment and files, and closes it; DomainImpl hands out the
// domain's parts. Segments are mapped here, and choices spelled. Other rooms include this header
// alone.
#pragma once

#include "hierarchy/domain/choices.h"
#include "hierarchy/domain/conflict_choice.h"
#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/domain/heap_context.h"
#include "hierarchy/domain/heap_file.h"
#include "hierarchy/domain/line_domain.h"
#include "hierarchy/domain/line_mode.h"
#include "hierarchy/domain/opening.h"
#include "hierarchy/domain/segments.h"
