// tests/rtm/rtm_emulation_streams_test.cpp -- differential test: random instruction streams inside
// and outside of a transaction.
// Invariants: (1) what a stream leaves in general registers, flags, vector registers, memory and on
//             the stack is the same inside and outside;
// (2) no instruction of the streams is unsupported. At least two million instructions run inside.
#include <gtest/gtest.h>

#include <cstdio>

#include <tmh/rtm_emulation.h>

#include "tests/rtm/rtm.h"
#include "tests/rtm/streams.h"
#include "tests/support/seed.h"

namespace {

using tmh::test::Stream;
using tmh::test::StreamState;

constexpr std::uint64_t kInstructions = 2'000'000;
constexpr std::size_t kStreamInstructions = 100;
constexpr std::uint64_t kArithmeticFlags = 0x8D5;

void randomize(std::mt19937_64 *random, StreamState *state) {
  *state = {};
  for (auto &byte : state->memory) byte = static_cast<std::uint8_t>((*random)());
  for (auto &word : state->gpr) word = (*random)() % 4 == 0 ? (*random)() % 256 : (*random)();
  for (auto &vector : state->ymm)
    for (auto &byte : vector) byte = static_cast<std::uint8_t>((*random)());
  state->flags = 2 | ((*random)() & kArithmeticFlags);
}

// Empty: the same.
std::string difference(const StreamState &plain, const StreamState &inside) {
  constexpr const char *kNames[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  std::string text;
  for (std::size_t i = 0; i < 15; ++i)
    if (plain.gpr[i] != inside.gpr[i])
      text += std::string(kNames[i]) + " " + std::to_string(plain.gpr[i]) + " inside " +
              std::to_string(inside.gpr[i]) + "; ";
  if (((plain.flags ^ inside.flags) & (kArithmeticFlags | 0x400)) != 0)
    text +=
        "flags " + std::to_string(plain.flags) + " inside " + std::to_string(inside.flags) + "; ";
  for (std::size_t i = 0; i < 16; ++i)
    if (plain.ymm[i] != inside.ymm[i]) text += "ymm" + std::to_string(i) + "; ";
  if (plain.memory != inside.memory) text += "memory; ";
  return text;
}

TEST(RtmEmulationStreams, RandomInstructionsDoTheSameInsideAndOutside) {
  ASSERT_GT(tmh_rtm_emulation_start(1), 0);
  std::mt19937_64 random(tmh::test::seed());
  tmh::test::StreamRunner runner;
  static StreamState start, state;
  tmh_rtm_emulation_counters counters{};
  std::size_t streams = 0, faulted = 0, committed = 0;
  for (; counters.instructions < kInstructions; ++streams) {
    ASSERT_LT(streams, 20 * kInstructions / kStreamInstructions) << "most streams do not run";
    const Stream stream = tmh::test::random_stream(&random, kStreamInstructions);
    randomize(&random, &start);
    state = start;
    if (!runner.run_plain(stream, &state)) {
      ++faulted;
      continue;
    }
    const StreamState plain = state;
    const auto stack = runner.stack();
    // The transaction's state lies where the plain one lay: addresses are results, too.
    state = start;
    runner.run_transaction(stream, &state);
    tmh_rtm_emulation_get_counters(&counters);
    ASSERT_EQ(state.status, ~std::uint64_t{0}) << "stream " << streams << " aborted:\n"
                                               << tmh::test::disassembled(stream);
    ASSERT_EQ(difference(plain, state), "") << "stream " << streams << ":\n"
                                            << tmh::test::disassembled(stream);
    ASSERT_EQ(stack, runner.stack()) << "the stack, stream " << streams;
    ++committed;
  }
  EXPECT_EQ(counters.unsupported, 0u);
  RecordProperty("instructions", std::to_string(counters.instructions));
  std::printf(
      "%llu instructions in %zu transactions were the same; %zu streams faulted outside and were "
      "left out\n",
      static_cast<unsigned long long>(counters.instructions), committed, faulted);
  EXPECT_LT(faulted, streams / 10);
}

}  // namespace
