# How every test that runs our code is started: its environment, its time limit, its folder.

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

# tmh_add_program_test(<test> <label> <target> [args...]): runs the target in an empty working
# folder.
function(tmh_add_program_test test label target)
  if(NOT TMH_BUILD_TESTS)
    return()
  endif()
  add_test(NAME ${test}
           COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${PROJECT_BINARY_DIR}/run/${test}"
                   -P "${PROJECT_SOURCE_DIR}/cmake/run_in_fresh_folder.cmake" --
                   $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${test} PROPERTIES LABELS "${label}"
    TIMEOUT ${TMH_TEST_TIMEOUT_SEC} ${TMH_TEST_ENVIRONMENT}
    SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()
