// include/tmh/detail/body_result.hpp -- what the body of a transaction may return.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <type_traits>

namespace tmh::detail {

template <class Result>
struct ResultOf {
  using Type = Result;
  static_assert(!std::is_reference_v<Result>,
                "the body of a transaction returns an object: what a reference names is read "
                "outside of the transaction");
};
template <class Result>
using ObjectResult = typename ResultOf<Result>::Type;
template <class Body>
using BodyResult = ObjectResult<std::invoke_result_t<Body &>>;

}  // namespace tmh::detail
