// examples/itm/cache/binary_commands.h -- what the server does about a command of the binary
// protocol.
#pragma once

#include "examples/itm/cache/after.h"
#include "examples/itm/cache/binary_parser.h"
#include "examples/itm/cache/bytes.h"
#include "examples/itm/cache/operations.h"

namespace cache {

// Appends the answer.
[[nodiscard]] After do_binary(const BinaryCommand &command, Operations &operations, Bytes &out);

}  // namespace cache
