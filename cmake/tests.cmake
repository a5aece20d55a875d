# Tests. One GoogleTest program per folder of tests/, of all its *_test.cpp (exceptions:
# cmake/test_programs.cmake); ctest lists every single test in it.
# Labels: multi (file name kill_*, *history_multi*, multi_*, power_*: several processes, counted as
#         two by ctest -j), unit (the others), example, bench, house (layering, style, install).
include(test_compilation)
include(test_programs)
include(test_units)

file(GLOB tmh_test_support CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.cpp"
  "${PROJECT_SOURCE_DIR}/tests/power/*.cpp")
list(FILTER tmh_test_support EXCLUDE REGEX "_test\\.cpp$")
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
  # a library: position-independent otherwise, so its own
  target_precompile_headers(tmh_test_support PRIVATE ${tmh_test_headers})
  tmh_compile_in_units(tmh_test_support 8)
  # g++ 12, optimizing, warns of a copy of nearly 2^63 bytes within valijson's headers.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/support/json_schema.cpp" PROPERTIES
    COMPILE_OPTIONS "-O0" SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(tmh_test_support PUBLIC tmh_test_common
    $<TARGET_NAME_IF_EXISTS:tmh_history>)
endif()

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

# Files whose tests take some 12 s of processor time and more together: they die at each step, cut
# the power at each write, flip each byte, or emulate RTM instruction by instruction.
string(CONCAT TMH_FULL_TESTS
  "^(disk_faults|disk_full|durable|fuzz_control|heap_hostile|history_multi|kill_hybrid_recovery|"
  "kill_repair|kill_steps|larger_than_memory|libxac_figures|log_damage|multi_rtm_emulation|"
  "open_without_memory|power_cut|power_mixes|power_planted|recovery|rtm_emulation_streams|"
  "semantics_segments|thread_history|"
  "tool_corpus|tool_kill_stuck|tool_latency|tool_run|tool_test|tool_wait)")
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
add_executable(rtm_loader_test ${sources_of_rtm_loader_test})
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
if(TARGET itm_cache_tests)
  target_link_libraries(itm_cache_tests PRIVATE tmh_cache)
  target_sources(itm_cache_tests PRIVATE $<TARGET_OBJECTS:tmh_cache_mutex>)
endif()
target_link_libraries(libxac_tests PRIVATE tmh::xac_static)
target_compile_definitions(libxac_tests PRIVATE TMH_FIGURES_DIR="${PROJECT_BINARY_DIR}/libxac")
if(TMH_BUILD_EXAMPLES)
  add_dependencies(libxac_tests ${TMH_FIGURE_TARGETS})
endif()
target_compile_definitions(death_tests PRIVATE
  TMH_CONTAINER_WORKER="$<TARGET_FILE:tmh_container_worker>")
add_dependencies(death_tests tmh_container_worker)
if(TARGET programs_tests)
  target_link_libraries(programs_tests PRIVATE tmh_programs)
endif()
if(TARGET tools_tests)
  target_link_libraries(tools_tests PRIVATE tmh_tool_parts tmh::perf_static)
  target_compile_definitions(tools_tests PRIVATE TMH_TOOL="$<TARGET_FILE:tmh_tool>"
    TMH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(tools_tests tmh_tool)
endif()
if(TMH_HAVE_RTM_EMULATION)
  if(TARGET tools_tests)
    target_compile_definitions(tools_tests PRIVATE
      TMH_ELIDED_COUNTERS="$<TARGET_FILE:tmh_elided_counters>")
    add_dependencies(tools_tests tmh_elided_counters tmh_rtm_emulation)
  endif()
  target_link_libraries(rtm_emulation_tests PRIVATE tmh_rtm_emulation tmh_rtm_streams)
  # the first call of a function goes through the loader: XSAVEC, an abort
  target_link_options(rtm_emulation_tests PRIVATE LINKER:-z,now)
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
  set_tests_properties(${emulated_tests} emulated.others PROPERTIES LABELS multi.full
    SKIP_RETURN_CODE 77
    TIMEOUT ${TMH_TEST_TIMEOUT_SEC} ${TMH_TEST_ENVIRONMENT})
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
  set_tests_properties(itm.${server}.conformance itm.${server}.service PROPERTIES LABELS itm
    PROCESSORS 2 TIMEOUT ${TMH_TEST_TIMEOUT_SEC} ${TMH_TEST_ENVIRONMENT})
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
    PROPERTIES LABELS itm PROCESSORS 2 TIMEOUT ${TMH_TEST_TIMEOUT_SEC} ${TMH_TEST_ENVIRONMENT}
    SKIP_REGULAR_EXPRESSION "method pages is not possible here: userfaultfd")
endif()

# The house: rules about the tree, each with a test that the rule can be broken, and the installed
# package. tmh_add_house_test(<name> <script> [arguments...]): exit status 77 and "SKIPPED: why"
# means skipped.
function(tmh_add_house_test name script)
  add_test(NAME house.${name} COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/house/${script}" ${ARGN} COMMAND_EXPAND_LISTS)
  set_tests_properties(house.${name} PROPERTIES LABELS house TIMEOUT ${TMH_TEST_TIMEOUT_SEC}
    SKIP_RETURN_CODE 77 ${TMH_TEST_ENVIRONMENT})
endfunction()
set(compilers --cc "${CMAKE_C_COMPILER}" --cxx "${CMAKE_CXX_COMPILER}")
tmh_add_house_test(layering layering.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(layering_can_fail layering.py --self-test)
tmh_add_house_test(classes classes.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(stems stems.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(stems_can_fail stems.py --self-test)
# Of a build without units: what the libraries' sources include first has been compiled alone,
# with the same warnings.
set(objects_headers --objects $<TARGET_OBJECTS:tmh_objects> $<TARGET_OBJECTS:xac_objects>)
if(TMH_HAVE_RTM_EMULATION)
  list(APPEND objects_headers $<TARGET_OBJECTS:tmh_rtm_emulation>)
endif()
foreach(check format readmes lines columns headers)
  tmh_add_house_test(${check} style.py ${check} "${PROJECT_SOURCE_DIR}" ${compilers}
    ${objects_${check}})
endforeach()
tmh_add_house_test(style_can_fail style.py --self-test ${compilers})
foreach(check refused shown)
  tmh_add_house_test(snippets_${check} snippets.py ${check} "${PROJECT_SOURCE_DIR}" ${compilers})
endforeach()
tmh_add_house_test(snippets_can_fail snippets.py --self-test ${compilers})
tmh_add_house_test(docs docs.py "${PROJECT_SOURCE_DIR}"
  $<$<BOOL:${TMH_DOXYGEN}>:${PROJECT_BINARY_DIR}/docs/Doxyfile.headers>
  $<$<BOOL:${TMH_DOXYGEN}>:${TMH_DOXYGEN}>)
tmh_add_house_test(docs_can_fail docs.py "${PROJECT_SOURCE_DIR}" --self-test)
tmh_add_house_test(man man.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(man_can_fail man.py --self-test)
if(TMH_HAVE_RTM_EMULATION)
  tmh_add_house_test(live_vectors live_vectors.py $<TARGET_OBJECTS:tmh_rtm_emulation>)
  tmh_add_house_test(live_vectors_can_fail live_vectors.py --self-test)
endif()
tmh_add_house_test(protocol protocol.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(protocol_can_fail protocol.py --self-test)
tmh_add_house_test(itm_protocols itm_protocols.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(itm_protocols_can_fail itm_protocols.py --self-test)
# They search and compile on all processors.
set_tests_properties(house.protocol house.protocol_can_fail house.itm_protocols
  house.itm_protocols_can_fail house.headers PROPERTIES PROCESSORS 2 LABELS house.full)
tmh_add_house_test(json_schema_can_fail json_schema.py --self-test "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(format_sizes format_sizes.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(format_sizes_can_fail format_sizes.py --self-test)
tmh_add_house_test(variables_can_fail variables.py --self-test)
if(TARGET tmh_tool)
  tmh_add_house_test(variables variables.py "${PROJECT_SOURCE_DIR}"
    --tool "$<TARGET_FILE:tmh_tool>")
  tmh_add_house_test(json_schema json_schema.py "${PROJECT_SOURCE_DIR}"
    --tool "$<TARGET_FILE:tmh_tool>")
endif()
set(tool_of_options)
if(TARGET tmh_tool)
  set(tool_of_options --tool "$<TARGET_FILE:tmh_tool>")
endif()
tmh_add_house_test(options options_doc.py "${PROJECT_SOURCE_DIR}" ${tool_of_options})
tmh_add_house_test(options_can_fail options_doc.py --self-test)
tmh_add_house_test(sources sources.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(sources_can_fail sources.py --self-test)
tmh_add_house_test(tests_index tests_index.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(tests_index_can_fail tests_index.py --self-test)
tmh_add_house_test(container_table container_table.py "${PROJECT_SOURCE_DIR}"
  --worker "$<TARGET_FILE:tmh_container_worker>")
tmh_add_house_test(body_kinds body_kinds.py "${PROJECT_SOURCE_DIR}" --cxx "${CMAKE_CXX_COMPILER}")
set_tests_properties(house.body_kinds PROPERTIES LABELS house.full)
tmh_add_house_test(environments_can_fail environments.py "${PROJECT_SOURCE_DIR}" --self-test)
# Each example and workload under each value of each variable, in slices of equal cost.
if(TARGET tmh_tool AND TMH_BUILD_EXAMPLES)
  set(slices 6)
  foreach(slice RANGE 1 ${slices})
    add_test(NAME environments.${slice} COMMAND "${Python3_EXECUTABLE}" -B
      "${PROJECT_SOURCE_DIR}/tests/house/environments.py" "${PROJECT_SOURCE_DIR}"
      --build "${PROJECT_BINARY_DIR}" --slice ${slice}/${slices})
    set_tests_properties(environments.${slice} PROPERTIES LABELS multi.full PROCESSORS 2
      TIMEOUT ${TMH_TEST_TIMEOUT_SEC} ${TMH_TEST_ENVIRONMENT})
  endforeach()
endif()
if(TMH_HAVE_ITM_PROGRAMS)
  get_property(programs GLOBAL PROPERTY TMH_ITM_PROGRAMS)
  tmh_add_house_test(itm_programs itm_programs.py ${programs})
  set_tests_properties(house.itm_programs PROPERTIES LABELS itm)
  if(TMH_BUILD_BENCH AND TMH_HAVE_LIBITM)
    add_test(NAME bench.itm_refuses COMMAND "${Python3_EXECUTABLE}" -B
      "${PROJECT_SOURCE_DIR}/tests/house/itm_bench.py" --bench $<TARGET_FILE:bench_itm>
      --libitm $<TARGET_FILE:tmh_itm> --plots "${PROJECT_SOURCE_DIR}/bench/itm_plots.py"
      ${programs})
    set_tests_properties(bench.itm_refuses PROPERTIES LABELS bench
      TIMEOUT ${TMH_TEST_TIMEOUT_SEC} ${TMH_TEST_ENVIRONMENT})
  endif()
endif()
tmh_add_house_test(tinystm tinystm.py "${PROJECT_SOURCE_DIR}" --cmake "${CMAKE_COMMAND}")
tmh_add_house_test(papers papers.py --links "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(papers_can_fail papers.py --self-test)
tmh_add_house_test(excite_vm excite_vm.py --links "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(excite_vm_can_fail excite_vm.py --self-test)
if(TMH_BUILD_BENCH)
  # Each runs many benches, so alone.
  foreach(paper "reproduce papers" "reproduce_excite_vm excite_vm")
    string(REPLACE " " ";" paper "${paper}")
    list(GET paper 0 name)
    list(GET paper 1 script)
    add_test(NAME bench.${name} COMMAND "${Python3_EXECUTABLE}" -B
      "${PROJECT_SOURCE_DIR}/tests/house/${script}.py" "${PROJECT_SOURCE_DIR}"
      --benches "${PROJECT_BINARY_DIR}" --out "${PROJECT_BINARY_DIR}/run/bench.${name}")
    set_tests_properties(bench.${name} PROPERTIES LABELS bench RUN_SERIAL TRUE
      TIMEOUT ${TMH_TEST_TIMEOUT_SEC} ${TMH_TEST_ENVIRONMENT})
  endforeach()
endif()
tmh_add_house_test(probes probes.py "${PROJECT_SOURCE_DIR}" --library "$<TARGET_FILE:tmh>"
                   --sdt ${TMH_HAVE_SDT})
tmh_add_house_test(commands commands.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(optional optional.py "${PROJECT_SOURCE_DIR}" --cmake "${CMAKE_COMMAND}"
                   --cxx "${CMAKE_CXX_COMPILER}")
tmh_add_house_test(planted planted.py "${PROJECT_SOURCE_DIR}" --cxx "${CMAKE_CXX_COMPILER}")
tmh_add_house_test(held held.py "${PROJECT_SOURCE_DIR}" --cxx "${CMAKE_CXX_COMPILER}")
tmh_add_house_test(probes_can_fail probes.py "${PROJECT_SOURCE_DIR}" --self-test)
if(NOT TMH_SANITIZE AND NOT TMH_COVERAGE)  # gdb and a sanitizer's start get in each other's way
  tmh_add_house_test(gdb gdb/printers.py "${PROJECT_SOURCE_DIR}" --cxx "${CMAKE_CXX_COMPILER}"
    --library "$<TARGET_FILE:tmh_static>")
endif()
if(TMH_INSTALL)
  # a program that links a sanitized library must be sanitized itself
  list(JOIN TMH_SANITIZE_FLAGS " " flags)
  if(TMH_COVERAGE)
    set(flags --coverage)
  endif()
  if(TARGET tmh_tool)
    set(tool --tool)
  endif()
  tmh_add_house_test(install install/run.py --build "${PROJECT_BINARY_DIR}"
    --cmake "${CMAKE_COMMAND}" ${compilers}
    --libdir "${CMAKE_INSTALL_LIBDIR}" --mandir "${CMAKE_INSTALL_MANDIR}" ${tool}
    "--flags=${flags}")
  # A sanitized or instrumented library is nobody's package.
  if(TARGET tmh_tool AND PROJECT_IS_TOP_LEVEL AND NOT TMH_SANITIZE AND NOT TMH_COVERAGE)
    get_filename_component(cmake_folder "${CMAKE_COMMAND}" DIRECTORY)
    foreach(how "" _chroot)
      string(REPLACE _ -- flag "${how}")
      tmh_add_house_test(packages${how} packages.py --build "${PROJECT_BINARY_DIR}"
        --cpack "${cmake_folder}/cpack" ${flag})
    endforeach()
    set_tests_properties(house.packages_chroot PROPERTIES TIMEOUT 3600)  # it downloads a Debian
  endif()
endif()

# They compile or configure for 9 s and more, and are about what seldom changes.
foreach(name install optional packages snippets_can_fail snippets_shown)
  if(TEST house.${name})
    set_tests_properties(house.${name} PROPERTIES LABELS house.full)
  endif()
endforeach()

# The longest first, of tests that are not in GoogleTest programs, too.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/tests/costs.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/tests/costs.txt" costs REGEX "^[0-9]+ ")
foreach(line ${costs})
  string(REGEX MATCH "^([0-9]+) (.*)$" line "${line}")
  if(TEST "${CMAKE_MATCH_2}")
    set_tests_properties("${CMAKE_MATCH_2}" PROPERTIES COST ${CMAKE_MATCH_1})
  endif()
endforeach()
