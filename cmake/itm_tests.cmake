# Tests of libitm (label itm): programs for the ABI, tests/itm, run on GCC's library and on ours by
# each of its methods, with the same verdicts. They need a compiler with -fgnu-tm.
include(itm)
foreach(script abi_verdicts symbols thread_verdicts pages_symbols)
  add_test(NAME itm.${script}_self_test COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/itm/${script}.py" --self-test)
  set_tests_properties(itm.${script}_self_test PROPERTIES LABELS "quick;itm")
endforeach()
# Parts that need no program of -fgnu-tm.
target_sources(itm_tests PRIVATE "${PROJECT_SOURCE_DIR}/compat/libitm/gate.cpp"
  "${PROJECT_SOURCE_DIR}/compat/libitm/private_ranges.cpp"
  "${PROJECT_SOURCE_DIR}/levels/process/heap/chunk_map.cpp"
  "${PROJECT_SOURCE_DIR}/levels/process/heap/allocator.cpp"
  "${PROJECT_SOURCE_DIR}/levels/process/log.cpp")
# A program with its own malloc(), which sanitizers have, too.
if(TMH_HAVE_LIBITM)
  include(itm_pages_tests)
  set(tmh_heap "${PROJECT_SOURCE_DIR}/levels/process/heap")
  set(tmh_calls "${PROJECT_SOURCE_DIR}/compat/libitm/calls")
  add_executable(itm_heap_calls "${PROJECT_SOURCE_DIR}/tests/itm/heap_calls.cpp"
    "${tmh_heap}/chunk_map.cpp" "${tmh_heap}/allocator.cpp" "${tmh_calls}/heap_calls.cpp"
    "${tmh_calls}/map_calls.cpp")
  target_include_directories(itm_heap_calls PRIVATE "${PROJECT_SOURCE_DIR}/include"
    "${PROJECT_SOURCE_DIR}")
  target_compile_features(itm_heap_calls PRIVATE cxx_std_20)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/itm/heap_calls.cpp" PROPERTIES
    COMPILE_OPTIONS "-fno-builtin;${tmh_quick_test_options}")
  target_link_libraries(itm_heap_calls PRIVATE tmh_warnings GTest::gtest Threads::Threads
    ${CMAKE_DL_LIBS})
  set_target_properties(itm_heap_calls PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_test(NAME itm.heap_calls COMMAND itm_heap_calls)
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libc.so.6
    OUTPUT_VARIABLE tmh_libc OUTPUT_STRIP_TRAILING_WHITESPACE)
  add_test(NAME itm.pages_symbols COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/itm/pages_symbols.py" $<TARGET_FILE:tmh_itm_pages> "${tmh_libc}"
    $<TARGET_OBJECTS:tmh_itm_pages> COMMAND_EXPAND_LISTS)
  set_tests_properties(itm.heap_calls itm.pages_symbols PROPERTIES LABELS "quick;itm")
  tmh_quick_targets(itm_heap_calls)
endif()
if(NOT TMH_HAVE_ITM OR NOT TMH_HAVE_LIBITM)
  return()
endif()
set(tmh_itm_tests "${PROJECT_SOURCE_DIR}/tests/itm")
file(GLOB tmh_itm_abi CONFIGURE_DEPENDS "${tmh_itm_tests}/programs/*.cpp")
# counted_new: operator new is not part of a transaction. Optimized in every build: -fgnu-tm does
# little without (and g++ 12 fails on some programs).
add_library(tmh_itm_counted_new OBJECT "${tmh_itm_tests}/counted_new.cpp")
add_executable(itm_programs "${tmh_itm_tests}/itm_programs.cpp" "${tmh_itm_tests}/meeting.cpp"
  "${tmh_itm_tests}/put.cpp" ${tmh_itm_abi} $<TARGET_OBJECTS:tmh_itm_counted_new>)
add_library(itm_safe_library MODULE "${tmh_itm_tests}/safe_library.cpp")
foreach(target tmh_itm_counted_new itm_programs itm_safe_library)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endforeach()
foreach(target itm_programs itm_safe_library)
  target_compile_options(${target} PRIVATE -O2 ${TMH_ITM_FLAGS})
  target_link_libraries(${target} PRIVATE itm Threads::Threads)
endforeach()
set_target_properties(itm_safe_library PROPERTIES PREFIX "")

# tmh_add_verdicts(<test> <labels> <library> <method> [<option>...])
function(tmh_add_verdicts test labels library method)
  add_test(NAME itm.verdicts_${test} COMMAND "${Python3_EXECUTABLE}" -B
    "${tmh_itm_tests}/abi_verdicts.py" --programs $<TARGET_FILE:itm_programs>
    --libitm "${test}=${library}:${method}" ${ARGN})
  set_tests_properties(itm.verdicts_${test} PROPERTIES LABELS "${labels}" PROCESSORS 2)
endfunction()
tmh_quick_targets(itm_programs itm_safe_library)
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libitm.so.1
  OUTPUT_VARIABLE tmh_gcc_libitm OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(tmh_gcc_libitm "${tmh_gcc_libitm}" REALPATH)
foreach(method ml_wt gl_wt serialirr)
  tmh_add_verdicts(gcc_${method} "full;itm;details" "${tmh_gcc_libitm}" ${method})
endforeach()
foreach(method lines serial)
  tmh_add_verdicts(${method} "quick;itm" $<TARGET_FILE:tmh_itm> ${method})
endforeach()
# Jump tables must be filled before the program's data move (levels/process/jump_tables.h).
foreach(method pages pages-serializable)
  set(labels "quick;itm")
  if(method STREQUAL "pages-serializable")  # applications show it
    set(labels "full;itm;parameters")
  endif()
  tmh_add_verdicts(${method} "${labels}" $<TARGET_FILE:tmh_itm> ${method} --under
    "env LD_BIND_NOW=1 LD_PRELOAD=$<TARGET_FILE:tmh_itm_pages>")
  set_property(TEST itm.verdicts_${method} APPEND PROPERTY SKIP_REGULAR_EXPRESSION
    "method pages is not possible here: userfaultfd")
endforeach()
# As on a processor without protection keys.
tmh_add_verdicts(pages_without_keys "full;itm;parameters" $<TARGET_FILE:tmh_itm> pages --under
  "env TMH_ITM_KEYS=off LD_BIND_NOW=1 LD_PRELOAD=$<TARGET_FILE:tmh_itm_pages>")
set_property(TEST itm.verdicts_pages_without_keys APPEND PROPERTY SKIP_REGULAR_EXPRESSION
  "method pages is not possible here: userfaultfd")
# Deaths and isolation in methods pages.
file(GLOB tmh_itm_on_pages CONFIGURE_DEPENDS "${tmh_itm_tests}/pages/*.cpp")
add_executable(itm_pages_programs ${tmh_itm_on_pages})
set_source_files_properties("${tmh_itm_tests}/pages/bank.cpp" "${tmh_itm_tests}/pages/cells.cpp"
  "${tmh_itm_tests}/pages/filling.cpp" "${tmh_itm_tests}/pages/held.cpp"
  "${tmh_itm_tests}/pages/owners.cpp" "${tmh_itm_tests}/pages/ring.cpp"
  PROPERTIES COMPILE_OPTIONS "-O2;${TMH_ITM_FLAGS}")
target_include_directories(itm_pages_programs PRIVATE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/include")
target_compile_features(itm_pages_programs PRIVATE cxx_std_20)
target_link_libraries(itm_pages_programs PRIVATE tmh_warnings itm Threads::Threads)
set_target_properties(itm_pages_programs PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
foreach(method pages pages-serializable)
  foreach(program kills faults words privatise joined waits owned)
    string(REPLACE "-" "_" test itm.${program}_on_${method})
    add_test(NAME ${test} COMMAND "${CMAKE_COMMAND}" -E env LD_BIND_NOW=1
      LD_PRELOAD=$<TARGET_FILE:tmh_itm_pages> LD_LIBRARY_PATH=$<TARGET_FILE_DIR:tmh_itm>
      ITM_DEFAULT_METHOD=${method} $<TARGET_FILE:itm_pages_programs> ${program})
    set_tests_properties(${test} PROPERTIES LABELS "full;itm;deaths" PROCESSORS 2
      SKIP_REGULAR_EXPRESSION "method pages is not possible here: userfaultfd")
  endforeach()
endforeach()
# In hardware where there is RTM, else under the emulator.
if(TMH_HAVE_RTM_EMULATION AND TARGET tmh_tool)
  tmh_add_verdicts(rtm "full;itm;emulator" $<TARGET_FILE:tmh_itm> rtm --under
    "$<TARGET_FILE:tmh_tool> rtm-emulate --native --")
endif()
add_test(NAME itm.symbols COMMAND "${Python3_EXECUTABLE}" -B "${tmh_itm_tests}/symbols.py"
  "${tmh_gcc_libitm}" $<TARGET_FILE:tmh_itm>)
set_tests_properties(itm.symbols PROPERTIES LABELS "quick;itm")

# Programs as a user compiles them, and random ones.
if(TARGET tmh_tool)
  set(methods lines,serial,pages-serializable)
  set(skipped --without rtm)
  if(TMH_HAVE_RTM_EMULATION)
    string(PREPEND methods rtm,)
    set(skipped "")
  endif()
  # tmh_add_itm_script(<test> <labels> <script> <option>...)
  function(tmh_add_itm_script test labels script)
    add_test(NAME itm.${test} COMMAND "${Python3_EXECUTABLE}" -B "${tmh_itm_tests}/${script}"
      --tmh $<TARGET_FILE:tmh_tool> --cxx "${CMAKE_CXX_COMPILER}" ${ARGN})
    set_tests_properties(itm.${test} PROPERTIES LABELS "${labels}" PROCESSORS 2
      SKIP_RETURN_CODE 77)
  endfunction()
  set(random --root "${PROJECT_SOURCE_DIR}")
  tmh_add_itm_script(compiled "quick;itm" compiled.py --levels 0,2 ${skipped})
  tmh_add_itm_script(compiled_at_other_levels "full;itm;parameters" compiled.py --levels 1,3
    ${skipped})
  tmh_add_itm_script(random "quick;itm" generated/run.py ${random} --rotate)
  tmh_add_itm_script(random_by_all_methods "full;itm;parameters" generated/run.py ${random}
    --first 200 --methods ${methods} --long 20000)
  # The long ones by --long alone.
  foreach(mutants 0,1,2,3 4,6,7 5)
    string(REGEX REPLACE ",.*" "" number "${mutants}")
    tmh_add_itm_script(mutants.${number} "full;itm;search" generated/mutants.py ${random}
      --build "${PROJECT_BINARY_DIR}" --only ${mutants})
  endforeach()
  tmh_quick_targets(tmh_tool tmh_itm tmh_itm_pages)
endif()
