// levels/page/publish/publish.h -- making one instance's content visible, or not: the publisher,
// and how an instance ends.
// Shape:     the room's door: what other rooms use of it.
#pragma once

#include "levels/page/publish/content.h"
#include "levels/page/publish/outcome.h"
#include "levels/page/publish/publisher.h"
