# How every test that runs our code is started: its environment, its folder. Its time limit is
# ctest's --timeout, which ./check scales by what it has measured of the machine.

# ASan and TSan would otherwise take SIGSEGV from us; the signal tracking in platform/ owns it.
# die_after_fork: our tests fork before they start threads of their own. One variable per preset,
#                 because gtest_discover_tests flattens lists.
set(TMH_TEST_ENVIRONMENT "")
if(TMH_SANITIZE MATCHES "address")
  set(TMH_TEST_ENVIRONMENT ENVIRONMENT
    "ASAN_OPTIONS=handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1")
elseif(TMH_SANITIZE MATCHES "thread")
  set(TMH_TEST_ENVIRONMENT ENVIRONMENT
    "TSAN_OPTIONS=handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1:die_after_fork=0")
endif()

# tmh_add_program_test(<test> <labels> <target> [args...]): runs the target in an empty working
# folder. The first of the labels, a list, is the tier (cmake/tiers.cmake).
function(tmh_add_program_test test labels target)
  if(NOT TMH_BUILD_TESTS)
    return()
  endif()
  if(labels MATCHES "^quick")
    tmh_quick_targets(${target})
  endif()
  add_test(NAME ${test}
           COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${PROJECT_BINARY_DIR}/run/${test}"
                   -P "${PROJECT_SOURCE_DIR}/cmake/run_in_fresh_folder.cmake" --
                   $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${test} PROPERTIES LABELS "${labels}" ${TMH_TEST_ENVIRONMENT}
    SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()
