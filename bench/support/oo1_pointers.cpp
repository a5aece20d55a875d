// bench/support/oo1_pointers.cpp -- OO1 as objects that point at each other.
#include "bench/support/oo1_pointers.h"

#include <system_error>

#include <tmh/tmh.hpp>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

struct Node {
  Part part;
  std::array<Node *, kConnections> to;
  std::vector<Node *, allocator<Node *>> from;
};
struct Database {
  std::vector<Node *, allocator<Node *>> parts;  // by number
};

class PointersOo1 final : public Oo1Store {
 public:
  explicit PointersOo1(const std::string &folder)
      : domain_(open(folder)),
        segment_(domain_.map("parts")),
        database_(segment_.root<Database>("database")) {
    TMH_ASSERT(database_ != nullptr);
  }
  ~PointersOo1() override {
    std::error_code ignored;
    (void)domain_.close(ignored);
  }
  PointersOo1(const PointersOo1 &) = delete;
  PointersOo1 &operator=(const PointersOo1 &) = delete;

  void transact(Access access, const std::function<void()> &body) override {
    if (access == Access::kReads)
      query(domain_, body);
    else
      atomically(domain_, body);
  }
  void look_up(std::uint32_t id, Seen *seen) override {
    const Part &part = database_->parts[id]->part;
    seen->add(part.x, part.y);
  }
  void insert(const NewPart &made) override {
    Node *const node = of(made.part.id);
    node->part = made.part;
    for (unsigned i = 0; i < kConnections; ++i) {
      node->to[i] = of(made.connections[i].to);
      node->to[i]->from.push_back(node);
    }
  }
  void traverse(std::uint32_t id, unsigned hops, bool is_forward, Seen *seen) override {
    visit(*database_->parts[id], hops, is_forward, seen);
  }

 private:
  [[nodiscard]] static Domain open(const std::string &folder) {
    DomainOptions options;
    options.durability = Durability::kStrict;
    return Domain::open(folder, options);
  }
  // A connection may lead to a part that comes later.
  [[nodiscard]] Node *of(std::uint32_t id) {
    auto &parts = database_->parts;
    if (parts.size() <= id) parts.resize(id + 1);
    if (parts[id] == nullptr) {
      allocator<Node> nodes(parts.get_allocator());
      parts[id] = ::new (nodes.allocate(1)) Node{{}, {}, decltype(Node::from)(nodes)};
    }
    return parts[id];
  }
  static void visit(const Node &node, unsigned hops, bool is_forward, Seen *seen) {
    seen->add(node.part.x, node.part.y);
    if (hops == 0) return;
    if (is_forward) {
      for (const Node *const each : node.to) visit(*each, hops - 1, true, seen);
    } else {
      for (const Node *const each : node.from) visit(*each, hops - 1, false, seen);
    }
  }

  Domain domain_;
  Segment segment_;
  Database *database_;
};

}  // namespace

std::unique_ptr<Oo1Store> open_pointers_oo1(const std::string &folder) {
  return std::make_unique<PointersOo1>(folder);
}

}  // namespace tmh::bench
