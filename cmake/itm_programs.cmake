# Applications with -fgnu-tm, examples/itm: each in three builds of one source. itm_NAME runs on
# whichever libitm.so.1 the dynamic linker finds; itm_NAME_mutex has one mutex, itm_NAME_plain
# nothing. Tests (label itm): each build small, the first two with two threads. The last two are
# built with sanitizers, too, and where there is no -fgnu-tm.
include(itm)
find_package(nlohmann_json QUIET)
set(TMH_HAVE_ITM_PROGRAMS FALSE)
if(TMH_HAVE_ITM AND TARGET nlohmann_json::nlohmann_json AND NOT TMH_SANITIZE AND NOT TMH_COVERAGE)
  set(TMH_HAVE_ITM_PROGRAMS TRUE)
endif()
tmh_optional("applications of -fgnu-tm" TMH_HAVE_ITM_PROGRAMS
  "no libitm, no nlohmann-json3-dev, or sanitizers")

set(tmh_itm_folder "${PROJECT_SOURCE_DIR}/examples/itm")
set(tmh_itm_builds "")
if(TARGET nlohmann_json::nlohmann_json)
  set(tmh_itm_builds mutex plain)
endif()
if(TMH_HAVE_ITM_PROGRAMS)
  list(PREPEND tmh_itm_builds itm)
endif()
if(tmh_itm_builds)
  set(support "${tmh_itm_folder}/support")
  add_library(tmh_itm_support STATIC "${support}/counts.cpp" "${support}/options.cpp"
    "${support}/report.cpp" "${support}/threads.cpp")
  target_link_libraries(tmh_itm_support PRIVATE tmh_warnings
    PUBLIC tmh_programs Threads::Threads)
  target_include_directories(tmh_itm_support PUBLIC "${PROJECT_SOURCE_DIR}")
  tmh_unmeasured_sources("${support}/options.cpp" "${support}/report.cpp")
endif()

# Programs with write skew: under snapshot isolation they are wrong (examples/itm/README.md).
set(TMH_ITM_SKEWED red_black_tree reservations packets mesh)

# Whose tests are quick: one shows that an application runs, by each build and method.
set(TMH_ITM_QUICK bank)

# tmh_add_itm_program(<name> SOURCES <file>... TRANSACTIONS <file>... [TEST <option>...]): files of
# examples/itm. SOURCES are compiled once, without -fgnu-tm; TRANSACTIONS once per build, with
# TMH_ITM, TMH_MUTEX or TMH_PLAIN defined. Without TEST the program has no
# tests here: a server, say.
function(tmh_add_itm_program name)
  if(NOT tmh_itm_builds)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;TRANSACTIONS;TEST" ${ARGN})
  set(labels "full;itm;application")
  if(name IN_LIST TMH_ITM_QUICK)
    set(labels "quick;itm")
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${tmh_itm_folder}/")
  list(TRANSFORM arg_TRANSACTIONS PREPEND "${tmh_itm_folder}/")
  add_library(itm_${name}_main OBJECT ${arg_SOURCES})
  target_link_libraries(itm_${name}_main PRIVATE tmh_warnings tmh_itm_support)
  foreach(build ${tmh_itm_builds})
    set(target itm_${name}_${build})
    if(build STREQUAL "itm")
      set(target itm_${name})
    endif()
    add_executable(${target} ${arg_TRANSACTIONS} "${tmh_itm_folder}/support/build.cpp"
      $<TARGET_OBJECTS:itm_${name}_main>)
    string(TOUPPER "TMH_${build}" definition)
    target_compile_definitions(${target} PRIVATE ${definition})
    target_link_libraries(${target} PRIVATE tmh_warnings tmh_itm_support)
    set_property(GLOBAL APPEND PROPERTY TMH_ITM_PROGRAM_TARGETS ${target})  # cmake/bench.cmake
    if(build STREQUAL "itm")
      target_compile_options(${target} PRIVATE ${TMH_ITM_FLAGS})
      target_link_libraries(${target} PRIVATE itm)
    endif()
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples/itm")
    set(threads 2)
    if(build STREQUAL "plain")
      set(threads 1)
    endif()
    if(arg_TEST)
      # tests/house/itm_programs.py
      set_property(GLOBAL APPEND PROPERTY TMH_ITM_PROGRAMS $<TARGET_FILE:${target}>)
      string(REPLACE "itm_" "itm." test "${target}")
      tmh_add_program_test(${test} "${labels}" ${target} --threads ${threads} ${arg_TEST})
    endif()
  endforeach()
  # On this project's libitm by its methods; rtm where there is none: under the emulator.
  if(TMH_BUILD_TESTS AND arg_TEST AND TMH_HAVE_ITM_PROGRAMS AND TMH_HAVE_LIBITM
      AND TMH_BUILD_TOOLS)
    set(ours itm --method)
    set(program -- $<TARGET_FILE:itm_${name}> --threads 2 ${arg_TEST})
    foreach(method lines serial)
      tmh_add_program_test(itm.${name}_on_${method} "${labels}" tmh_tool ${ours} ${method}
        ${program})
    endforeach()
    if(TMH_HAVE_RTM_EMULATION)
      tmh_add_program_test(itm.${name}_on_rtm "${labels}" tmh_tool rtm-emulate --native --
        $<TARGET_FILE:tmh_tool> ${ours} rtm ${program})
    endif()
    set(methods pages_serializable)
    if(NOT name IN_LIST TMH_ITM_SKEWED)
      list(PREPEND methods pages)
    endif()
    foreach(method ${methods})
      string(REPLACE "_" "-" named ${method})
      tmh_add_program_test(itm.${name}_on_${method} "${labels}" tmh_tool ${ours} ${named}
        ${program})
      set_property(TEST itm.${name}_on_${method} APPEND PROPERTY SKIP_REGULAR_EXPRESSION
        "method pages is not possible here: userfaultfd")
    endforeach()
  endif()
endfunction()

# tmh_add_itm_test(<name> <test> <option>...): one more test of a program, where it has threads.
function(tmh_add_itm_test name test)
  if(TMH_HAVE_ITM_PROGRAMS)
    tmh_add_program_test(itm.${name}.${test} "full;itm;application" itm_${name} --threads 2 ${ARGN})
  endif()
  if(tmh_itm_builds)
    tmh_add_program_test(itm.${name}_mutex.${test} "full;itm;application" itm_${name}_mutex
      --threads 2 ${ARGN})
  endif()
endfunction()

tmh_add_itm_program(sorted_list SOURCES sets.cpp TRANSACTIONS sorted_list_transactions.cpp
  TEST --operations 5000 --size 128)
tmh_add_itm_program(hash_set SOURCES sets.cpp TRANSACTIONS hash_set_transactions.cpp
  TEST --operations 20000 --size 1024 --updates 50)
tmh_add_itm_program(red_black_tree SOURCES sets.cpp TRANSACTIONS red_black_tree_transactions.cpp
  TEST --operations 20000 --size 256 --updates 50)
tmh_add_itm_program(bank SOURCES bank.cpp TRANSACTIONS bank_transactions.cpp
  TEST --operations 4000 --accounts 128 --turn 5)
tmh_add_itm_program(reservations SOURCES reservations.cpp
  TRANSACTIONS reservations_transactions.cpp
  TEST --operations 4000 --rows 64 --reserve 60)
tmh_add_itm_test(bank audit --operations 4000 --accounts 128 --audit --audits 50)
tmh_add_itm_test(reservations olap --operations 4000 --rows 64 --olap --scans 50)
tmh_add_itm_program(ycsb SOURCES ycsb.cpp TRANSACTIONS ycsb_transactions.cpp
  TEST --operations 4000 --records 500)
foreach(workload B C D E F)
  tmh_add_itm_test(ycsb ${workload} --workload ${workload} --operations 1000 --records 500)
endforeach()
tmh_add_itm_program(kmeans SOURCES kmeans.cpp TRANSACTIONS kmeans_transactions.cpp
  TEST --operations 2 --points 1000 --dimensions 8 --clusters 6)
tmh_add_itm_program(gene_assembly SOURCES gene_assembly.cpp
  TRANSACTIONS gene_assembly_transactions.cpp TEST --operations 2 --gene 1024 --segments 4096)
tmh_add_itm_program(maze SOURCES maze.cpp TRANSACTIONS maze_transactions.cpp
  TEST --operations 2 --x 24 --y 24 --z 3 --routes 48)
tmh_add_itm_program(graph SOURCES graph.cpp TRANSACTIONS graph_transactions.cpp
  TEST --operations 2 --scale 8)
tmh_add_itm_program(packets SOURCES packets.cpp TRANSACTIONS packets_transactions.cpp
  TEST --operations 2 --flows 500)
tmh_add_itm_program(mesh SOURCES mesh.cpp TRANSACTIONS mesh_transactions.cpp
  TEST --operations 2 --points 300)
