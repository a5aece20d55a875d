// levels/process/ground/ground.h -- the door of levels/process/ground: what the engine of method
// pages, its tasks and its calls of the C library stand on. Sizes; what an engine says of the
// calling task; the kernel's calls and the C library's, past those of the engine that have their
// names.
#pragma once

#include "levels/process/ground/assert.h"
#include "levels/process/ground/die.h"
#include "levels/process/ground/kernel_call.h"
#include "levels/process/ground/own_task.h"
#include "levels/process/ground/real.h"
#include "levels/process/ground/sizes.h"
#include "levels/process/ground/system_calls.h"
