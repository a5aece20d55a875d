#include "examples/itm/cache/session.h"

#include <algorithm>

#include "examples/itm/cache/binary_commands.h"
#include "examples/itm/cache/text_commands.h"

namespace cache {

void Session::skip(Bytes &in) {
  const std::size_t bytes = std::min(skipped_bytes_, in.size());
  skipped_bytes_ -= bytes;
  in.drop_front(bytes);
}

Session::Step Session::step_text(Bytes &in, Operations &operations, Bytes &out) {
  const TextParse parse = parse_text(in.view());
  if (parse.result == Parse::kHopeless) {
    out.append("CLIENT_ERROR line too long\r\n");
    return {true, Waits::kToClose};
  }
  if (parse.result == Parse::kNeedsMore) {
    wanted_bytes_ = parse.bytes;
    return {true, Waits::kForInput};
  }
  const After after = do_text(parse.command, operations, out, &keys_done_);
  if (after == After::kMore) return {true, Waits::kForOutput};
  if (after == After::kThreadEnds) return {true, Waits::kForNextThread};
  keys_done_ = 0;
  skipped_bytes_ = parse.command.skipped_bytes;
  in.drop_front(parse.bytes);
  return {after == After::kClose, Waits::kToClose};
}

Session::Step Session::step_binary(Bytes &in, Operations &operations, Bytes &out) {
  const BinaryParse parse = parse_binary(in.view());
  if (parse.result == Parse::kHopeless) return {true, Waits::kToClose};
  if (parse.result == Parse::kNeedsMore) {
    wanted_bytes_ = parse.bytes;
    return {true, Waits::kForInput};
  }
  const After after = do_binary(parse.command, operations, out);
  skipped_bytes_ = parse.command.skipped_bytes;
  in.drop_front(parse.bytes);
  return {after == After::kClose, Waits::kToClose};
}

Session::Waits Session::run(Bytes &in, Operations &operations, Bytes &out) {
  for (;;) {
    skip(in);
    if (in.empty() || in.size() < wanted_bytes_) return Waits::kForInput;
    if (out.size() >= kWaitingBytesMax) return Waits::kForOutput;
    wanted_bytes_ = 0;
    if (protocol_ == Protocol::kUnknown) {
      const bool is_binary = static_cast<unsigned char>(in.view()[0]) == kRequestMagic;
      protocol_ = is_binary ? Protocol::kBinary : Protocol::kText;
    }
    const Step step = protocol_ == Protocol::kBinary ? step_binary(in, operations, out)
                                                     : step_text(in, operations, out);
    if (step.waits) return step.for_what;
  }
}

}  // namespace cache
