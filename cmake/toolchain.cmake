# Language level, warnings, sanitizers, coverage: the same for everything that this project
# compiles.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)  # for editors and clang-tidy
# one set of objects makes the shared and the static library
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

# Link to it PRIVATE. An interface target and not a global option: a project that includes this one
# keeps its own warnings.
add_library(tmh_warnings INTERFACE)
target_compile_options(tmh_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wsign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12
  AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC PR 105651, wrong in 12 and mended in 13: every "literal" + std::string is said to overlap
  # itself.
  target_compile_options(tmh_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

set(TMH_SANITIZE_FLAGS "")
if(TMH_SANITIZE)
  # Frame pointers: a report without a readable stack is of little use. no-recover: a finding must
  # fail the test.
  set(TMH_SANITIZE_FLAGS -fsanitize=${TMH_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_compile_options(${TMH_SANITIZE_FLAGS})
  add_link_options(${TMH_SANITIZE_FLAGS})
endif()
if(NOT TMH_COUNTERS)
  add_compile_definitions(TMH_NO_COUNTERS)  # everything: observe/counting.h is in headers
endif()
if(TMH_BUILD_TESTS OR TMH_PLANTED_FAULTS)
  add_compile_definitions(TMH_PLANTED_FAULTS)  # everything: observe/planted.h is in headers
endif()
if(TMH_COVERAGE)
  # atomic: several threads of one test count in the same counters.
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
