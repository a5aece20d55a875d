// tests/support/leftovers.h -- a thread or a child process that a test leaves behind is an error of
// that test: it would disturb the next one, which then fails for no reason of its own.
// Shape:     a listener of GoogleTest's, in each program that is linked with tests/support. It
//            compares the process's threads and children behind a test with those before, once
//            those that are about to end have done so. What a suite or the program starts before
//            its first test is there before, hence no error.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

namespace tmh::test {

// By id, with the name, of this process.
[[nodiscard]] std::map<pid_t, std::string> threads_here();
[[nodiscard]] std::map<pid_t, std::string> children_here();

}  // namespace tmh::test

// The linker is told to want it (cmake/tests.cmake): of a library it takes what something wants.
extern "C" const bool tmh_test_looks_for_leftovers;
