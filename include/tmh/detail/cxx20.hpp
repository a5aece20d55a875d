// include/tmh/detail/cxx20.hpp -- every header of the C++ interface includes this one first:
// an older standard gets one sentence instead of hundreds of lines.
#pragma once

#if __cplusplus < 202002L
#error tmh needs C++20: compile with -std=c++20 or later.
// A compiler goes on behind #error. It stops at a file that does not exist.
#define TMH_STOP_HERE <tmh/needs-std=c++20>
#include TMH_STOP_HERE
#endif
