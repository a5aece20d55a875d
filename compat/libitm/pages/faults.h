// compat/libitm/pages/faults.h -- the task's signals: accesses without the right mapping, faults of
// the program, requests for pages; and the rights of protection keys.
#pragma once

#include <cstdint>

namespace tmh::itm::pages {

enum class Rights : std::uint8_t { kPlain, kTransaction, kBoth };

// Of what runs next: plain code, a transaction, or this library's own code.
void set_rights(Rights rights) noexcept;

[[nodiscard]] bool start_faults() noexcept;
[[nodiscard]] int recall_signal() noexcept;

// This library changes mappings: a request for pages waits.
class Busy {
 public:
  Busy() noexcept;
  ~Busy();
  [[nodiscard]] static bool is_any() noexcept;
  Busy(const Busy &) = delete;
  Busy &operator=(const Busy &) = delete;
};

}  // namespace tmh::itm::pages
