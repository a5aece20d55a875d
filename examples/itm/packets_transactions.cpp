// examples/itm/packets_transactions.cpp -- incomplete flows in a tree, complete ones in a queue.
#include "examples/itm/packets.h"

#include <cstddef>
#include <cstdlib>

#include "examples/itm/support/section.h"
#include "examples/structures/bank.hpp"
#include "examples/structures/red_black_tree.hpp"

namespace itm {

namespace {

using Tree = structures::RedBlackTree<structures::PlainField>;

struct Flow : Tree::Node {
  std::uint64_t received;
  Fragment *first;
  // In the queue.
  Flow *next;
};
struct Queue {
  Flow *first, *last;
};

alignas(128) std::byte flows_head[Tree::kHeadBytes];
alignas(128) Queue complete;
alignas(128) std::uint64_t next_packet;

Tree flows() { return Tree(flows_head); }

// By index.
void sort_in(Flow *flow, const Packet *packet) {
  Fragment **at = &flow->first;
  while (*at != nullptr && (*at)->packet->index < packet->index) at = &(*at)->next;
  auto *const fragment = static_cast<Fragment *>(std::malloc(sizeof(Fragment)));
  fragment->packet = packet;
  fragment->next = *at;
  *at = fragment;
  ++flow->received;
}
void push(Flow *flow) {
  flow->next = nullptr;
  if (complete.last == nullptr) {
    complete.first = flow;
  } else {
    complete.last->next = flow;
  }
  complete.last = flow;
}

}  // namespace

void packets_open() { next_packet = 0; }

std::uint64_t take_packet(std::uint64_t packets) {
  return atomically([&] { return next_packet < packets ? next_packet++ : packets; });
}
void add_packet(const Packet *packet) {
  atomically([&] {
    auto *flow = static_cast<Flow *>(flows().find(packet->flow));
    if (flow == nullptr) {
      flows().insert(packet->flow, [&] {
        flow = static_cast<Flow *>(std::malloc(sizeof(Flow)));
        flow->received = 0;
        flow->first = nullptr;
        return flow;
      });
    }
    sort_in(flow, packet);
    if (flow->received == packet->count) push(static_cast<Flow *>(flows().remove(packet->flow)));
  });
}
Fragment *take_flow() {
  Flow *const flow = atomically([&] {
    Flow *const first = complete.first;
    if (first != nullptr) {
      complete.first = first->next;
      if (complete.first == nullptr) complete.last = nullptr;
    }
    return first;
  });
  if (flow == nullptr) return nullptr;
  // No other worker reaches the flow since the transaction: plain accesses.
  Fragment *const fragments = flow->first;
  std::free(flow);
  return fragments;
}

void free_fragments(Fragment *first) {
  while (first != nullptr) {
    Fragment *const next = first->next;
    std::free(first);
    first = next;
  }
}
bool nothing_is_left() { return flows().from(0) == nullptr && complete.first == nullptr; }

}  // namespace itm
