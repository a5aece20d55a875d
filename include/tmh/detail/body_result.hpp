// include/tmh/detail/body_result.hpp -- what the body of a transaction may return.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <type_traits>

namespace tmh::detail {

template <class Body>
struct ResultOf {
  using Type = std::invoke_result_t<Body &>;
  static_assert(
      !std::is_reference_v<Type>,
      "the body of a transaction returns an object: what a reference names is read outside of the transaction");
};
template <class Body>
using BodyResult = typename ResultOf<Body>::Type;

}  // namespace tmh::detail
