// tests/rtm/streams.h -- random instruction streams, and a machine state to run them from and to.
// Shape:     State is loaded into all registers but r15, which points at its middle (memory
//            operands are r15 + disp8), then the stream runs on a stack of its own, then everything
//            is stored back.
// Invariant: a stream has no loops, no system instructions and nothing whose result depends on the
//            time or on where its code lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tmh::test {

// The assembly in streams.cpp knows the offsets.
struct alignas(64) StreamState {
  std::array<std::uint8_t, 256> memory;  // r15 is its middle
  std::array<std::uint64_t, 16> gpr;     // by encoding number; rsp: on return only, r15 ignored
  std::uint64_t flags;
  std::uint64_t host_rsp;
  std::uint64_t code;
  std::uint64_t stack;
  std::uint64_t status;  // of the abort; ~0: committed, or there was no transaction
  std::uint64_t reserved[3];
  std::array<std::array<std::uint8_t, 32>, 16> ymm;
};
static_assert(offsetof(StreamState, gpr) == 256 && offsetof(StreamState, flags) == 384 &&
              offsetof(StreamState, host_rsp) == 392 && offsetof(StreamState, code) == 400 &&
              offsetof(StreamState, stack) == 408 && offsetof(StreamState, status) == 416 &&
              offsetof(StreamState, ymm) == 448);

struct Stream {
  std::vector<std::uint8_t> bytes;
  std::size_t instructions = 0;
};

[[nodiscard]] Stream random_stream(std::mt19937_64 *random, std::size_t instructions);
[[nodiscard]] std::string disassembled(const Stream &stream);

// Executable room for one stream, and the stack.
class StreamRunner {
 public:
  StreamRunner();
  ~StreamRunner();
  StreamRunner(const StreamRunner &) = delete;
  StreamRunner &operator=(const StreamRunner &) = delete;

  // False: an instruction faulted (a signal); the state then means nothing.
  [[nodiscard]] bool run_plain(const Stream &stream, StreamState *state);
  void run_transaction(const Stream &stream, StreamState *state);
  // What the stream left below its first rsp, as far as no signal's frame reaches.
  [[nodiscard]] std::array<std::uint64_t, 16> stack() const;

 private:
  enum class End : std::uint8_t { kPlain, kXend };
  void load(const Stream &stream, End end, StreamState *state);

  std::uint8_t *code_ = nullptr;
  std::uint64_t *stack_ = nullptr, *top_ = nullptr;
};

}  // namespace tmh::test
