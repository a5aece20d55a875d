// compat/libitm/clones.h -- which instrumented function stands for a plain one.
// Shape:     a table for each object file of the program, registered when it is loaded, by its
//            start-up code.
// Contexts:  find() in a transaction of the calling thread; add() and remove() wait until no other
//            transaction runs, as none may look meanwhile.
// Source:    Intel's Linux TM ABI 1.1 (clone tables as GCC emits them: pairs of addresses).
#pragma once

#include <cstddef>

namespace tmh::itm {

struct Clone {
  void *plain, *instrumented;
};

class Clones {
 public:
  static void add(Clone *table, std::size_t count) noexcept;
  static void remove(const Clone *table) noexcept;
  // Null: there is none.
  [[nodiscard]] static void *find(const void *plain) noexcept;
};

}  // namespace tmh::itm
