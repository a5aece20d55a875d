// include/tmh/detail/forced_unwinding.hpp -- handlers of abi::__forced_unwind, by which glibc
// unwinds a thread that pthread_exit() or pthread_cancel() ends. A handler must throw it again. It
// binds a reference to nothing, because glibc's exception is no C++ object: UBSan is not to call
// that wrong.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cxxabi.h>

// Before a function that has such a handler.
#define TMH_CATCHES_FORCED_UNWINDING __attribute__((no_sanitize("null")))
