// compat/libdb/operation.h -- a function that somebody else has, while a call of it lasts: owning
// nothing, so that a callback that leaves by longjmp() leaves nothing behind.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tmh::db {

template <class Result>
class Operation {
 public:
  // REQUIRES: the function outlives the call that this is given to.
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, Operation>)
      // NOLINTNEXTLINE(google-explicit-constructor): an argument
      Operation(Function &&function)
  noexcept
      : function_(std::addressof(function)), call_([](const void *of) -> Result {
          using Plain = std::remove_reference_t<Function>;
          return (*static_cast<Plain *>(const_cast<void *>(of)))();
        }) {}

  Result operator()() const { return call_(function_); }

 private:
  const void *function_;
  Result (*call_)(const void *);
};

}  // namespace tmh::db
