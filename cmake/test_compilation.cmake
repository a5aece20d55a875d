# How test programs are compiled. With precompiled headers, two thirds of the time go into
# optimizing what GoogleTest's macros expand to, so most are compiled with -Og: two thirds of the
# time of -O1 (docs/measurements.md, "Other choices").

# -Og instead of -O3 in release builds. Not for programs that are about what the optimizer makes of
# their own code: transactions in RTM, inlined level-1 accesses beside other threads, fences.
string(CONCAT TMH_OPTIMIZED_TESTS "/(asymmetric_fence|line_(redo|threads|waiters)|rtm|multi_rtm|"
  "multi_structures|thread|unmap_threads)_[a-z_]*\\.cpp$")
set(tmh_quick_test_options $<$<CONFIG:Release>:-Og>)
set(tmh_test_headers <gtest/gtest.h> ${TMH_STANDARD_HEADERS})

# tmh_test_compilation(<target> quick|optimized): its optimization, and precompiled headers made
# with the same flags. A library is compiled as a program is.
function(tmh_test_compilation name kind)
  if(kind STREQUAL "quick")
    target_compile_options(${name} PRIVATE ${tmh_quick_test_options})
  endif()
  get_target_property(type ${name} TYPE)
  if(NOT type STREQUAL "EXECUTABLE")
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIE)
  endif()
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${name} REUSE_FROM tmh_test_precompiled_${kind})
  endif()
endfunction()

# REQUIRES: tmh_test_common. Once, before the first tmh_test_compilation().
function(tmh_precompile_test_headers)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    tmh_precompile_headers_of_programs(tmh_test_precompiled_quick tmh_test_common
      HEADERS ${tmh_test_headers} OPTIONS ${tmh_quick_test_options})
    tmh_precompile_headers_of_programs(tmh_test_precompiled_optimized tmh_test_common
      HEADERS ${tmh_test_headers})
  endif()
endfunction()
