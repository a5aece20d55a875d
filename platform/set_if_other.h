// platform/set_if_other.h -- a store that is left out where it changes nothing.
// Shape:     an atomic instruction waits until all stores before it have left the processor, one in
//            a cycle. Where one follows soon, a load and a branch that nearly always goes the same
//            way cost less than a store.
// Contexts:  everywhere.
#pragma once

namespace tmh::platform {

template <class T>
inline void set_if_other(T &to, T value) noexcept {
  if (to != value) [[unlikely]]
    to = value;
}

}  // namespace tmh::platform
