// levels/page/versions/versions.h -- the lines that commits have changed while they are not home
// yet, and what is held of the past.
// Shape:     the room's door: what other rooms use of it.
#pragma once

#include "levels/page/versions/consistency_tree.h"
#include "levels/page/versions/ours.h"
#include "levels/page/versions/past.h"
