# How test programs are compiled: half of a build's time was theirs. Processor time of small ones, and of bptree_test, as the library is compiled:
# 3.0 to 4.7 s, 9.6 s; with -O1: 2.3 to 3.0, 6.1 s; with -O1 and the headers below precompiled: 1.5 to 2.3, 5.3 s. (g++ 12, 2-core Xeon VM.)

# -O1 instead of -O3 in release builds. Not for programs that are about what the optimizer makes of their own code: transactions in RTM, inlined
# level-1 accesses beside other threads, fences.
set(TMH_OPTIMIZED_TESTS "^(asymmetric_fence|line|rtm|multi_rtm|multi_structures|thread|unmap_threads)_")

# Headers of the system alone: none of ours, so a change never recompiles all tests, and tests keep including what they use of ours.
set(tmh_precompiled_headers <gtest/gtest.h> <algorithm> <array> <atomic> <cerrno> <chrono> <csignal> <cstdint> <cstdio> <cstdlib> <cstring>
    <filesystem> <fstream> <functional> <map> <memory> <random> <set> <sstream> <stdexcept> <string> <thread> <utility> <vector> <sys/mman.h>
    <sys/wait.h> <unistd.h>)

# ccache would call the compiler each time for whoever includes precompiled headers (unless told to be sloppy).
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# tmh_test_compilation(<program>): its optimization, and precompiled headers made with the same flags: g++ 12 crashes where -O differs.
function(tmh_test_compilation name)
  if(name MATCHES "${TMH_OPTIMIZED_TESTS}")
    set(kind optimized)
  else()
    set(kind quick)
  endif()
  if(kind STREQUAL "quick")
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${name} REUSE_FROM tmh_test_precompiled_${kind})
  endif()
endfunction()

# REQUIRES: tmh_test_common. Once, before the first tmh_test_compilation().
function(tmh_precompile_test_headers)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  foreach(kind quick optimized)
    set(name tmh_test_precompiled_${kind})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/tests/${name}.cpp" CONTENT "// Nothing: what is wanted of this target is its precompiled header.\n")
    add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/tests/${name}.cpp")
    target_link_libraries(${name} PRIVATE tmh_test_common)
    # As programs, which CMake compiles with -fPIE and libraries with -fPIC; what was made with the other is refused.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIE)
    if(kind STREQUAL "quick")
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    target_precompile_headers(${name} PRIVATE ${tmh_precompiled_headers})
  endforeach()
endfunction()
