// levels/page/views/view_index.h -- which view of one engine an address belongs to.
// Sharing:   one per engine; the thread that runs its instance, and its fault handler.
// Contexts:  find(): the handler. add(), remove(): not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "levels/page/views/view.h"

namespace tmh::page {

class ViewIndex {
 public:
  explicit ViewIndex(std::size_t views_max) { views_.reserve(views_max); }

  // The view is mapped, and outlives its entry.
  void add(const View &view) noexcept;
  void remove(const View &view) noexcept;
  // Null: the address belongs to no view.
  [[nodiscard]] const View *find(std::uintptr_t address) noexcept {
    // Most look-ups repeat; the fault ring lists the whole process's.
    if (address - last_begin_ < last_bytes_) return last_;
    return address - hull_begin_ < hull_bytes_ ? find_in_hull(address) : nullptr;
  }

 private:
  [[nodiscard]] const View *find_in_hull(std::uintptr_t address) noexcept;
  void measure_hull() noexcept;

  std::vector<const View *> views_;
  // From the first view to the last one.
  std::uintptr_t hull_begin_ = 0;
  std::uint64_t hull_bytes_ = 0;
  // The view found last.
  std::uintptr_t last_begin_ = 0;
  std::uint64_t last_bytes_ = 0;
  const View *last_ = nullptr;
};

}  // namespace tmh::page
