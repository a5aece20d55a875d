// examples/itm/cache/client_protocol.h -- requests and answers, in both protocols, as the client
// needs them.
#pragma once

#include <string>
#include <string_view>

#include "examples/itm/cache/client_options.h"

namespace cache {

void append_get(Protocol protocol, std::string_view key, std::string *to);
// What stands before the value, and behind it.
void append_set_head(Protocol protocol, std::string_view key, std::size_t value_bytes,
                     std::string *to);
void append_set_tail(Protocol protocol, std::string *to);

struct Answer {
  enum class Kind : std::uint8_t { kNeedsMore, kHit, kMiss, kStored, kError, kNonsense };
  Kind kind = Kind::kNeedsMore;
  std::size_t bytes = 0;
  // Of a hit; else of an error, what the server says.
  std::string_view value;
};
[[nodiscard]] Answer parse_answer(Protocol protocol, bool is_set, std::string_view input);

}  // namespace cache
