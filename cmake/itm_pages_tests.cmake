# Tests of the threads of libitm's method pages (label itm): the programs of tests/itm/threads have
# the same verdicts by the C library's threads and by tasks. The engine is a stand-in: memory that
# all tasks share, and no transactions.
set(tmh_itm_tasks "${PROJECT_SOURCE_DIR}/compat/libitm/tasks")
set(tmh_itm_calls "${PROJECT_SOURCE_DIR}/compat/libitm/calls")
set(tmh_itm_tests "${PROJECT_SOURCE_DIR}/tests/itm")
file(GLOB tmh_itm_task_sources CONFIGURE_DEPENDS "${tmh_itm_tasks}/*.cpp" "${tmh_itm_tasks}/*.S")
foreach(source c11_calls checked_calls input_output_calls mutex_calls stream_calls sync_calls
    wait_calls)
  list(APPEND tmh_itm_task_sources "${tmh_itm_calls}/${source}.cpp")
endforeach()
add_library(tmh_itm_pages_flat SHARED ${tmh_itm_task_sources}
  "${tmh_itm_tests}/pages_flat_engine.cpp")
target_include_directories(tmh_itm_pages_flat PRIVATE "${PROJECT_SOURCE_DIR}/include"
  "${PROJECT_SOURCE_DIR}")
target_compile_features(tmh_itm_pages_flat PRIVATE cxx_std_20)
target_compile_options(tmh_itm_pages_flat PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TMH_CODE_FLAGS}>)
target_link_libraries(tmh_itm_pages_flat PRIVATE tmh_warnings ${CMAKE_DL_LIBS})
target_link_options(tmh_itm_pages_flat PRIVATE LINKER:-z,defs LINKER:-z,now)
set_source_files_properties("${tmh_itm_tasks}/task_start_x86_64.S" PROPERTIES COMPILE_OPTIONS
  "$<$<CXX_COMPILER_ID:Clang>:-Wno-unused-command-line-argument>")
file(GLOB tmh_itm_threads CONFIGURE_DEPENDS "${tmh_itm_tests}/threads/*.cpp")
add_executable(itm_thread_programs ${tmh_itm_threads})
target_include_directories(itm_thread_programs PRIVATE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/include")
target_compile_features(itm_thread_programs PRIVATE cxx_std_20)
target_compile_options(itm_thread_programs PRIVATE ${tmh_quick_test_options})
# With libitm.so.1, which they do not use: the engine starts in programs that are.
target_link_libraries(itm_thread_programs PRIVATE tmh_warnings Threads::Threads
  -Wl,--no-as-needed tmh_itm)
set_target_properties(itm_thread_programs tmh_itm_pages_flat PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" POSITION_INDEPENDENT_CODE ON)
set(tmh_thread_verdicts "${Python3_EXECUTABLE}" -B "${tmh_itm_tests}/thread_verdicts.py"
  --programs $<TARGET_FILE:itm_thread_programs>)
add_test(NAME itm.threads COMMAND ${tmh_thread_verdicts})
add_test(NAME itm.threads_as_tasks COMMAND ${tmh_thread_verdicts}
  --preload $<TARGET_FILE:tmh_itm_pages_flat>)
add_test(NAME itm.threads_on_pages COMMAND ${tmh_thread_verdicts} --method pages
  --preload $<TARGET_FILE:tmh_itm_pages>)
set_tests_properties(itm.threads itm.threads_as_tasks itm.threads_on_pages
  PROPERTIES LABELS "quick;itm" PROCESSORS 2)
tmh_quick_targets(itm_thread_programs tmh_itm_pages_flat)
