// tests/power/world.cpp -- opening the world, doing what effects say, and comparing it with the
// model.
#include "tests/power/world.h"

#include <cstring>

#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"

namespace tmh::test::power {

DomainOptions power_options() {
  DomainOptions options;
  options.durability = Durability::kStrict;
  options.log_file_bytes = 1u << 20;
  options.checkpoint_bytes = 384u << 10;
  options.checkpoint_interval_ms = 150;
  options.flush_interval_ms = 20;
  return options;
}

World::World(const std::string &folder, const DomainOptions &options, bool all)
    : domain_(tmh::Domain::open(folder, options)) {
  for (std::uint32_t segment = 0; segment < (all ? kRawSegments : kFirstLate); ++segment)
    static_cast<void>(raw(segment));
  heap_ = domain_.map("heap", {.size_bytes = 1u << 20, .max_bytes = 16u << 20});
  lists_ = heap_.root<Lists>("lists");
  own_site_.emplace(domain_, "own");
  page_site_.emplace(domain_, "pages", "always");
  if (options.levels == Levels::kHybrid) line_site_.emplace(domain_, "small", "on-capacity");
}

tmh::Segment &World::raw(std::uint32_t segment) {
  if (!raw_[segment]) {
    const RawShape shape = raw_shape(segment);
    SegmentOptions options;
    options.layout = Layout::kRaw;
    options.size_bytes = shape.pages * kPageBytes;
    options.max_bytes = shape.pages_max * kPageBytes;
    raw_[segment] = domain_.map(shape.name, options);
  }
  return raw_[segment];
}

std::uint64_t *World::words(std::uint32_t segment) {
  return reinterpret_cast<std::uint64_t *>(raw(segment).data());
}

tmh::field<std::uint64_t> *World::cells(std::uint32_t segment) {
  return reinterpret_cast<tmh::field<std::uint64_t> *>(raw(segment).data());
}

void World::close() { domain_.close(); }

void World::perform(const Effects &effects) {
  cells(kLedger)[0].store(effects.g);
  cells(kLedger)[kWordsPerPage + effects.g].store(effects.id);
  for (const PageFill &fill : effects.fills) {
    std::uint64_t *to = words(fill.segment);
    const std::uint64_t end = (std::uint64_t{fill.first_page} + fill.pages) * kWordsPerPage;
    for (std::uint64_t word = fill.first_page * kWordsPerPage; word < end; ++word)
      to[word] = filler(fill.seed, word);
  }
  for (const WordStore &store : effects.stores) cells(store.segment)[store.word].store(store.value);
  for (const ListChange &change : effects.changes)
    change.bytes != 0 ? append_node(change) : remove_node(change);
}

void World::append_node(const ListChange &change) {
  auto *node = static_cast<Node *>(heap_.allocate(sizeof(Node) + change.bytes));
  *node = {nullptr, change.g, change.bytes};
  auto *payload = reinterpret_cast<unsigned char *>(node + 1);
  for (std::uint32_t i = 0; i < change.bytes; ++i)
    payload[i] = static_cast<unsigned char>(filler(change.g, i));
  if (lists_->last[change.list] != nullptr)
    lists_->last[change.list]->next = node;
  else
    lists_->first[change.list] = node;
  lists_->last[change.list] = node;
}

void World::remove_node(const ListChange &change) {
  Node *node = lists_->first[change.list];
  if (node == nullptr) return;
  lists_->first[change.list] = node->next;
  if (node->next == nullptr) lists_->last[change.list] = nullptr;
  heap_.deallocate(node, sizeof(Node) + node->bytes);
}

namespace {

std::string compare_raw(World *world, std::uint32_t segment, const Model &model) {
  const std::vector<std::uint64_t> &expected = model.words(segment);
  const std::uint64_t *actual = world->words(segment);
  const std::uint64_t count = world->raw(segment).size_bytes() / sizeof(std::uint64_t);
  const std::string name = raw_shape(segment).name;
  if (count > expected.size()) return name + " has " + std::to_string(count) + " words; ";
  std::uint64_t wrong = 0, first = 0;
  for (std::uint64_t word = 0; word < expected.size(); ++word) {
    const std::uint64_t found = word < count ? actual[word] : 0;
    if (found == expected[word]) continue;
    if (wrong++ == 0) first = word;
  }
  if (wrong == 0) return "";
  return name + ": " + std::to_string(wrong) + " words differ, the first one is word " +
         std::to_string(first % kWordsPerPage) + " of page " +
         std::to_string(first / kWordsPerPage) + ": " +
         std::to_string(first < count ? actual[first] : 0) + " instead of " +
         std::to_string(expected[first]) + (first < count ? "; " : " (beyond the segment's end); ");
}

std::string compare_list(const Lists &lists, std::uint32_t index, const Model &model) {
  const std::string name = "list " + std::to_string(index);
  const Node *node = lists.first[index];
  for (const ListChange &expected : model.list(index)) {
    if (node == nullptr)
      return name + " ends before the node of g=" + std::to_string(expected.g) + "; ";
    if (node->g != expected.g || node->bytes != expected.bytes)
      return name + " has the node of g=" + std::to_string(node->g) +
             " instead of g=" + std::to_string(expected.g) + "; ";
    const auto *payload = reinterpret_cast<const unsigned char *>(node + 1);
    for (std::uint32_t i = 0; i < expected.bytes; ++i) {
      if (payload[i] != static_cast<unsigned char>(filler(expected.g, i)))
        return name + ": payload of g=" + std::to_string(expected.g) + " is wrong; ";
    }
    node = node->next;
  }
  return node == nullptr ? ""
                         : name + " has a node of g=" + std::to_string(node->g) + " too many; ";
}

}  // namespace

std::string compare(World *world, const Model &model) {
  std::string findings;
  for (std::uint32_t segment = 0; segment < kRawSegments; ++segment)
    findings += compare_raw(world, segment, model);
  std::uint64_t money = 0;
  for (std::uint64_t account = 0; account < kAccounts; ++account)
    money += world->words(kData)[account * kWordsPerPage];
  if (money != 0) findings += "money is not conserved; ";
  const Errc heap = storage::heap_check(world->heap().data(), world->heap().size_bytes(), nullptr);
  if (heap != Errc::kOk) return findings + "heap_check: " + message(heap);
  for (std::uint32_t list = 0; list < kLists; ++list)
    findings += compare_list(*world->lists(), list, model);
  return findings;
}

}  // namespace tmh::test::power
