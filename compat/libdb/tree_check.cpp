// compat/libdb/tree_check.cpp -- level by level: links, kinds, orders, data.
#include "compat/libdb/tree_check.h"

#include <utility>

#include "compat/libdb/tree_root.h"
#include "platform/assert.h"

namespace tmh::db {

const char *TreeCheck::run() {
  std::vector<PageId> level{kTreeRoot};
  for (std::uint32_t depth = 0; depth < kTreeLevelsMax; ++depth) {
    std::vector<PageId> below;
    PageId left = 0;
    for (std::size_t i = 0; i < level.size(); ++i) {
      const PageId right = i + 1 < level.size() ? level[i + 1] : 0;
      const char *const wrong = check_page(level[i], left, right, &below);
      if (wrong != nullptr) return wrong;
      left = level[i];
    }
    if (below.empty()) return nullptr;
    level = std::move(below);
    if (level.size() >= store_.page_end()) return "there are more children than pages";
  }
  return "too many levels";
}

const char *TreeCheck::check_page(PageId id, PageId left, PageId right,
                                  std::vector<PageId> *below) {
  TMH_ASSERT(below != nullptr);
  const Slots slots(store_.read(id));
  if (slots.kind() != PageKind::kLeaf && slots.kind() != PageKind::kInner)
    return "a page of another kind";
  const bool is_leaf = slots.kind() == PageKind::kLeaf;
  if (slots.left() != left || slots.right() != right) return "links differ from the parents' order";
  if (order_ != nullptr)
    if (const char *const wrong = check_order(slots, right); wrong != nullptr) return wrong;
  for (std::uint32_t i = 1; i < slots.count(); ++i) {
    std::vector<std::byte> data;
    if (is_leaf) {
      items_.load_data(slots, i, &data);
      (void)key(slots, i);
    } else {
      below->push_back(items_.parse(slots, i).child);
    }
  }
  return nullptr;
}

std::vector<std::byte> TreeCheck::key(const Slots &slots, std::uint32_t index) {
  return items_.copied_key(slots, index);
}

const char *TreeCheck::check_order(const Slots &slots, PageId right) {
  TMH_ASSERT(order_ != nullptr);
  const bool is_leaf = slots.kind() == PageKind::kLeaf;
  // The first child's key is below all.
  const std::uint32_t first = is_leaf ? 1 : 2;
  for (std::uint32_t i = first + 1; i < slots.count(); ++i) {
    const bool may_be_equal = settings_.has_duplicates || !is_leaf ||
                              (Items::is_ghost(slots, i) || Items::is_ghost(slots, i - 1));
    const int against = order_->compare(key(slots, i - 1), key(slots, i));
    if (may_be_equal ? against > 0 : against >= 0) return "keys out of order";
  }
  if (right == 0) return nullptr;
  const std::vector<std::byte> high = key(slots, 0);
  if (slots.count() > first && order_->compare(key(slots, slots.count() - 1), high) > 0)
    return "a key above its page's high key";
  const Slots next(store_.read(right));
  if (is_leaf && next.count() > 1 && order_->compare(high, key(next, 1)) > 0)
    return "a key below the left neighbour's high key";
  return nullptr;
}

}  // namespace tmh::db
