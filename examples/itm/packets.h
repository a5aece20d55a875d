// examples/itm/packets.h -- what packets.cpp drives; packets_transactions.cpp defines it.
#pragma once

#include <cstdint>

namespace itm {

// Part of a flow's text. No worker writes it while threads work.
struct Packet {
  std::uint64_t flow;  // from 1 on
  std::uint32_t index, count;
  std::uint32_t bytes;
  const char *text;
};

struct Fragment {
  Fragment *next;
  const Packet *packet;
};

// Before any thread works.
void packets_open();

// One transaction each.
// The next packet's number, or `packets`.
[[nodiscard]] std::uint64_t take_packet(std::uint64_t packets);
// Sorts the packet into its flow. A flow that is complete goes to the queue.
void add_packet(const Packet *packet);
// Takes a complete flow from the queue: its fragments in order, the taker's own from then on. Null:
// the queue is empty.
[[nodiscard]] Fragment *take_flow();

// Of the taker.
void free_fragments(Fragment *first);

// After the threads: flows that are not complete, or still in the queue.
[[nodiscard]] bool nothing_is_left();

}  // namespace itm
