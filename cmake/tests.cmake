# Tests. Two GoogleTest programs per folder of tests/, of its quick *_test.cpp and of the others
# (exceptions: cmake/test_programs.cmake); ctest lists every single test in them.
# Labels: the tier (cmake/tiers.cmake); multi (file name kill_*, *history_multi*, multi_*, power_*:
#         several processes, counted as two by ctest -j), unit (the others), example, bench, itm,
#         python, house (cmake/house_tests.cmake).
include(test_compilation)
include(test_programs)
include(test_units)

file(GLOB tmh_test_support CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.cpp"
  "${PROJECT_SOURCE_DIR}/tests/power/*.cpp")
list(FILTER tmh_test_support EXCLUDE REGEX "(_test|/unavailable_modes)\\.cpp$")
file(GLOB tmh_history CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/histories/*.cpp")
list(FILTER tmh_history EXCLUDE REGEX "_test\\.cpp$")

# The history checker. Not linked with tmh, on purpose: what judges the library may not use it.
if(tmh_history)
  add_library(tmh_history STATIC ${tmh_history})
  target_include_directories(tmh_history PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(tmh_history PRIVATE tmh_warnings)
endif()

add_library(tmh_test_common INTERFACE)
target_include_directories(tmh_test_common INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(tmh_test_common INTERFACE tmh_usdt)
target_link_libraries(tmh_test_common INTERFACE tmh_warnings tmh::tmh_static GTest::gtest
  tmh_rapidcheck fmt::fmt nlohmann_json::nlohmann_json)
if(TMH_SANITIZE MATCHES "undefined")
  target_compile_definitions(tmh_test_common INTERFACE TMH_TEST_UBSAN)
endif()
tmh_precompile_test_headers()
if(tmh_test_support)
  add_library(tmh_test_support STATIC ${tmh_test_support})
  tmh_test_compilation(tmh_test_support quick)
  tmh_compile_in_units(tmh_test_support 8)
  # g++ 12, optimizing, warns of a copy of nearly 2^63 bytes within valijson's headers.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/support/json_schema.cpp" PROPERTIES
    COMPILE_OPTIONS "-O0" SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(tmh_test_support PUBLIC tmh_test_common
    $<TARGET_NAME_IF_EXISTS:tmh_history>)
  # support/leftovers.h, watched_log.h: in every program, whether it names them or not
  target_link_options(tmh_test_support INTERFACE LINKER:--undefined=tmh_test_looks_for_leftovers
    LINKER:--undefined=tmh_test_tells_skips LINKER:--undefined=tmh_test_watches_the_log)
endif()

# ctest asks it which modes it need not list.
add_executable(tmh_unavailable_modes "${PROJECT_SOURCE_DIR}/tests/support/unavailable_modes.cpp")
tmh_test_compilation(tmh_unavailable_modes quick)
target_link_libraries(tmh_unavailable_modes PRIVATE tmh_test_support GTest::gtest)
set_target_properties(tmh_unavailable_modes PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")

file(GLOB tmh_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*/*_test.cpp")
if(NOT TARGET tmh_tool)
  list(FILTER tmh_tests EXCLUDE REGEX "/tests/tools/[a-z_]*\\.cpp$")
endif()
if(NOT TARGET tmh_cache)
  list(FILTER tmh_tests EXCLUDE REGEX "/tests/itm_cache/[a-z_]*\\.cpp$")
endif()
if(NOT TMH_HAVE_RTM_EMULATION)  # cmake/rtm_emulation.cmake has said why
  list(FILTER tmh_tests EXCLUDE REGEX "rtm_emulation[a-z_]*test\\.cpp$")
endif()
if(TMH_HAVE_RTM_EMULATION)
  file(GLOB tmh_rtm_streams CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/rtm/*.cpp")
  list(FILTER tmh_rtm_streams EXCLUDE REGEX "_test\\.cpp$")
  add_library(tmh_rtm_streams STATIC ${tmh_rtm_streams})
  target_link_libraries(tmh_rtm_streams PRIVATE tmh_test_common Zydis::Zydis)
  # A program of somebody else's: plain C, linked with nothing of ours.
  add_executable(tmh_elided_counters "${PROJECT_SOURCE_DIR}/tests/rtm/programs/elided_counters.c")
  target_link_libraries(tmh_elided_counters PRIVATE Threads::Threads)
  set_target_properties(tmh_elided_counters PROPERTIES C_STANDARD 11
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endif()

# The processes of kill_containers_test. A program of its own, so that each has its statics
# elsewhere.
file(GLOB tmh_container_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/tests/death/containers/*.cpp")
add_executable(tmh_container_worker ${tmh_container_sources})
target_link_libraries(tmh_container_worker PRIVATE tmh_test_common
  $<TARGET_NAME_IF_EXISTS:absl::btree> $<TARGET_NAME_IF_EXISTS:absl::flat_hash_map>)
if(TARGET absl::btree)
  target_compile_definitions(tmh_container_worker PRIVATE TMH_HAVE_ABSL)
endif()
target_compile_options(tmh_container_worker PRIVATE ${tmh_quick_test_options})
set_target_properties(tmh_container_worker PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")

set(programs "")
foreach(source ${tmh_tests})
  tmh_test_program_of(program "${source}")
  list(APPEND programs ${program})
  list(APPEND sources_of_${program} "${source}")
endforeach()
list(REMOVE_DUPLICATES programs)
list(REMOVE_ITEM programs rtm_loader_test unload_test)  # below
foreach(program ${programs})
  tmh_add_test_program(${program} ${sources_of_${program}})
endforeach()
# The shared library, as users' programs: lazy binding is what it is about.
add_executable(rtm_loader_test ${sources_of_rtm_loader_test}
  "${PROJECT_SOURCE_DIR}/tests/support/skip_status.cpp")
target_link_libraries(rtm_loader_test PRIVATE tmh::tmh tmh_warnings GTest::gtest_main)
target_link_options(rtm_loader_test PRIVATE LINKER:-z,lazy)
tmh_discover_tests(rtm_loader_test ${sources_of_rtm_loader_test})
add_executable(unload_test ${sources_of_unload_test})
target_link_libraries(unload_test PRIVATE tmh_warnings GTest::gtest_main ${CMAKE_DL_LIBS})
target_include_directories(unload_test PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_compile_definitions(unload_test PRIVATE TMH_LIBRARY="$<TARGET_FILE:tmh>"
  TMH_XAC_LIBRARY="$<TARGET_FILE:xac>")
add_dependencies(unload_test xac)
tmh_discover_tests(unload_test ${sources_of_unload_test})

# What single programs need besides.
tmh_test_programs_of(programs itm_cache)
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE tmh_cache)
  target_sources(${program} PRIVATE $<TARGET_OBJECTS:tmh_cache_mutex>)
endforeach()
tmh_test_programs_of(programs libxac)
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE tmh::xac_static)
  target_compile_definitions(${program} PRIVATE TMH_FIGURES_DIR="${PROJECT_BINARY_DIR}/libxac")
  if(TMH_BUILD_EXAMPLES)
    add_dependencies(${program} ${TMH_FIGURE_TARGETS})
  endif()
endforeach()
tmh_test_programs_of(programs tp)
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE tmh::tp_static)
endforeach()
tmh_test_programs_of(programs db)
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE tmh::db_static)
  target_compile_definitions(${program} PRIVATE TMH_TOOL="$<TARGET_FILE:tmh_tool>"
    TMH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(${program} tmh_tool tmh-db)
endforeach()
tmh_test_programs_of(programs server)
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE tmh::db_static)
  target_compile_definitions(${program} PRIVATE TMH_TOOL="$<TARGET_FILE:tmh_tool>"
    TMH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(${program} tmh_tool tmh-db)
  if(TARGET tmh_tcl)
    target_compile_definitions(${program} PRIVATE
      TMH_TCL_FOLDER="${PROJECT_BINARY_DIR}/libtmh-tcl")
    add_dependencies(${program} tmh_tcl)
  endif()
endforeach()
# kill_containers_test, which is not quick
target_compile_definitions(death_full_tests PRIVATE
  TMH_CONTAINER_WORKER="$<TARGET_FILE:tmh_container_worker>")
add_dependencies(death_full_tests tmh_container_worker)
tmh_test_programs_of(programs programs)
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE tmh_programs)
endforeach()
tmh_test_programs_of(programs tools)
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE tmh_tool_parts tmh::perf_static tmh::tp_static)
  target_compile_definitions(${program} PRIVATE TMH_TOOL="$<TARGET_FILE:tmh_tool>"
    TMH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(${program} tmh_tool)
  if(TMH_HAVE_RTM_EMULATION)
    target_compile_definitions(${program} PRIVATE
      TMH_ELIDED_COUNTERS="$<TARGET_FILE:tmh_elided_counters>")
    add_dependencies(${program} tmh_elided_counters tmh_rtm_emulation)
  endif()
endforeach()
if(TMH_HAVE_RTM_EMULATION)
  tmh_test_programs_of(programs rtm_emulation)
  foreach(program ${programs})
    target_link_libraries(${program} PRIVATE tmh_rtm_emulation tmh_rtm_streams)
    # the first call of a function goes through the loader: XSAVEC, an abort
    target_link_options(${program} PRIVATE LINKER:-z,now)
  endforeach()
  # The emulator's checks again, compiled otherwise: other instructions, other frames.
  set(source "${PROJECT_SOURCE_DIR}/tests/rtm/rtm_emulation_test.cpp")
  foreach(variant "O0;-O0" "O1_cet;-O1;-fcf-protection=full" "O2_native;-O2;-march=native")
    list(POP_FRONT variant suffix)
    set(name rtm_emulation_${suffix}_test)
    add_executable(${name} "${source}")
    target_compile_options(${name} PRIVATE ${variant})
    target_link_libraries(${name} PRIVATE tmh_test_support tmh_rtm_emulation GTest::gtest_main)
    target_link_options(${name} PRIVATE LINKER:-z,now)
    tmh_discover_tests(${name} "${source}" AS ${name})
  endforeach()
endif()

# Programs with RTM code once more, on the emulator: a test per quick variant, one for all others.
if(TMH_HAVE_RTM_EMULATION AND TARGET tmh_tool)
  set(emulated "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tests/rtm/rtm_emulated.py")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/tests/rtm/rtm_emulated.py")
  execute_process(COMMAND ${emulated} --list quick
    OUTPUT_VARIABLE variants COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" variants "${variants}")
  if(NOT TMH_BUILD_BENCH)
    list(FILTER variants EXCLUDE REGEX "^bench\\.")
  endif()
  foreach(variant ${variants})
    add_test(NAME emulated.${variant} COMMAND ${emulated}
      --build "${PROJECT_BINARY_DIR}" ${variant})
    list(APPEND emulated_tests emulated.${variant})
  endforeach()
  add_test(NAME emulated.others COMMAND ${emulated} --build "${PROJECT_BINARY_DIR}" --others)
  set_tests_properties(${emulated_tests} emulated.others PROPERTIES LABELS "full;multi;emulator"
    SKIP_RETURN_CODE 77 ${TMH_TEST_ENVIRONMENT})
  list(FILTER emulated_tests INCLUDE REGEX "multi|kill")
  set_tests_properties(${emulated_tests} emulated.others PROPERTIES RUN_SERIAL TRUE)
endif()

# The cache server as a child process, both builds of it.
foreach(server cache_server cache_server_mutex)
  if(NOT TARGET ${server})
    continue()
  endif()
  add_test(NAME itm.${server}.conformance COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/itm_cache/conformance.py" --server $<TARGET_FILE:${server}>)
  add_test(NAME itm.${server}.service COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/itm_cache/service.py" --server $<TARGET_FILE:${server}>
    --client $<TARGET_FILE:cache_client> --seconds 0.5)
  set_tests_properties(itm.${server}.conformance itm.${server}.service PROPERTIES
    LABELS "full;itm;application" PROCESSORS 2 ${TMH_TEST_ENVIRONMENT})
endforeach()
# On pages threads die alone, and the server goes on without them.
if(TARGET cache_server AND TARGET tmh_itm_pages AND TARGET tmh_tool)
  set(through --server $<TARGET_FILE:cache_server>
    --through "$<TARGET_FILE:tmh_tool> itm --method pages --")
  add_test(NAME itm.cache_server_on_pages.conformance COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/itm_cache/conformance.py" ${through})
  add_test(NAME itm.cache_server_on_pages.service COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/itm_cache/service.py" ${through}
    --client $<TARGET_FILE:cache_client> --seconds 0.5 --dies thread --faults 30)
  set_tests_properties(itm.cache_server_on_pages.conformance itm.cache_server_on_pages.service
    PROPERTIES LABELS "full;itm;application" PROCESSORS 2 ${TMH_TEST_ENVIRONMENT}
    SKIP_REGULAR_EXPRESSION "method pages is not possible here: userfaultfd")
endif()

# The longest first, of tests that are not in GoogleTest programs, too.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/tests/costs.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/tests/costs.txt" costs REGEX "^long ")
foreach(line ${costs})
  string(REGEX MATCH "^long ([0-9]+) (.*)$" line "${line}")
  if(TEST "${CMAKE_MATCH_2}")
    set_tests_properties("${CMAKE_MATCH_2}" PROPERTIES COST ${CMAKE_MATCH_1})
  endif()
endforeach()
