// platform/set_if_other.h -- a store that is left out where it changes nothing.
// Shape:     a load and a branch that is nearly always the same cost less than a store where an
//            atomic instruction follows soon: it waits until all stores before it have left the
//            processor, one in a cycle.
// Contexts:  everywhere.
#pragma once

namespace tmh::platform {

template <class T>
inline void set_if_other(T &to, T value) noexcept {
  if (to != value) [[unlikely]]
    to = value;
}

}  // namespace tmh::platform
