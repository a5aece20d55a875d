// examples/itm/cache/text_commands.h -- what the server does about a command of the text protocol.
#pragma once

#include "examples/itm/cache/after.h"
#include "examples/itm/cache/bytes.h"
#include "examples/itm/cache/operations.h"
#include "examples/itm/cache/text_parser.h"

namespace cache {

// Appends the answer. `keys_done`: of command.keys, bytes answered so far; 0 at first.
[[nodiscard]] After do_text(const TextCommand &command, Operations &operations, Bytes &out,
                            std::size_t *keys_done);

}  // namespace cache
