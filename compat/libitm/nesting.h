// compat/libitm/nesting.h -- the open begins of a thread's transaction, and what a rollback to each
// of them needs to know.
// Shape:     the outermost begin, and those inside of it. One that may be cancelled alone has a
//            Point; another one belongs to the begin around it.
// Contexts:  one thread's. NOT async-signal-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "compat/libitm/abi.h"
#include "compat/libitm/accesses.h"
#include "compat/libitm/actions.h"
#include "compat/libitm/exceptions.h"
#include "platform/assert.h"

namespace tmh::itm {

// A begin that can be rolled back to.
struct Point {
  Registers registers{};
  std::uint32_t depth = 0;  // of an inner begin
  Accesses::Mark accesses;
  Actions::Mark actions;
  Exceptions::Mark exceptions;
};

class Nesting {
 public:
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] bool is_inside() const noexcept { return depth_ != 0; }

  // The outermost begin's; of the last transaction where none is open.
  [[nodiscard]] Point &outer() noexcept { return outer_; }
  void begin() noexcept {
    depth_ = 1;
    id_ = 0;
  }
  // An inner begin. Both throw std::bad_alloc.
  void open() {
    TMH_ASSERT(is_inside());
    ids_.push_back(0);
    ++depth_;
  }
  // The innermost begin may be cancelled alone.
  Point &add_point() {
    Point &point = points_.emplace_back();
    point.depth = depth_;
    return point;
  }
  // Of the innermost begin that has one.
  [[nodiscard]] bool has_points() const noexcept { return !points_.empty(); }
  [[nodiscard]] const Point &innermost() const noexcept {
    TMH_ASSERT(has_points());
    return points_.back();
  }
  // Stack pointer of the innermost begin that has a point; 0: none has.
  [[nodiscard]] std::uintptr_t inner_stack() const noexcept {
    return has_points() ? innermost().registers.stack : 0;
  }
  // Has the innermost begin one?
  [[nodiscard]] bool is_at_point() const noexcept {
    return has_points() && innermost().depth == depth_;
  }
  // The transaction of the innermost begin has ended: take_point() first where it has one.
  void close() noexcept {
    TMH_ASSERT(depth_ > 1 && !is_at_point());
    ids_.pop_back();
    --depth_;
  }
  [[nodiscard]] Point take_point() noexcept {
    TMH_ASSERT(has_points());
    const Point point = points_.back();
    points_.pop_back();
    irrevocable_points_ = std::min(irrevocable_points_, points_.size());
    return point;
  }
  // Back to where the innermost begin with a point was not open yet: that point.
  [[nodiscard]] Point roll_back() noexcept {
    const Point point = take_point();
    depth_ = point.depth - 1;
    ids_.resize(depth_ - 1);
    return point;
  }
  // The outermost transaction has ended.
  void end() noexcept {
    depth_ = 0;
    is_irrevocable_ = false;
  }
  // What inner begins have left.
  void forget() noexcept {
    irrevocable_points_ = 0;
    points_.clear();
    ids_.clear();
  }

  // Of the begins that are open now none is undone.
  void note_irrevocable() noexcept {
    is_irrevocable_ = true;
    irrevocable_points_ = points_.size();
  }
  [[nodiscard]] bool is_irrevocable() const noexcept { return is_irrevocable_; }
  // Is the innermost begin with a point one of those?
  [[nodiscard]] bool is_point_irrevocable() const noexcept {
    return points_.size() <= irrevocable_points_;
  }

  // Of the innermost transaction: unique in the process.
  [[nodiscard]] std::uint64_t id();

 private:
  std::uint32_t depth_ = 0;  // open begins
  bool is_irrevocable_ = false;
  std::uint64_t id_ = 0;  // of the outermost transaction; 0: the program has not asked
  Point outer_;
  std::vector<Point> points_;
  std::size_t irrevocable_points_ = 0;
  std::vector<std::uint64_t> ids_;  // of the inner ones
};

}  // namespace tmh::itm
