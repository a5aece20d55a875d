# Test programs: which files of tests/ are linked together, and how ctest finds each single test.

# Programs of one file, for what is true of their whole process.
set(TMH_TESTS_APART
  before_main_test          # starts itself again, and plays before main()
  between_attempts_test     # replaces operator new
  fork_test                 # replaces operator new
  line_redo_test            # replaces operator new
  open_without_memory_test  # replaces operator new
  rtm_loader_test           # is linked with the shared library, lazily
  unload_test)              # is linked with no library, for it loads and unloads them

# Files of tests in the quick tier (cmake/tiers.py).
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/tests/tiers.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/tests/tiers.txt" tmh_quick_files
  REGEX "^[a-z_]+/[a-z0-9_]+ +quick")
list(TRANSFORM tmh_quick_files REPLACE "^[a-z_]+/([a-z0-9_]+) .*$" "\\1")

# tmh_test_program_of(<variable> <source>): the program that the file belongs to: one per folder for
# its quick files, <folder>_tests, and one for the others, <folder>_full_tests.
function(tmh_test_program_of variable source)
  get_filename_component(stem "${source}" NAME_WE)
  get_filename_component(folder "${source}" DIRECTORY)
  get_filename_component(folder "${folder}" NAME)
  set(tier _full)
  if(stem IN_LIST tmh_quick_files)
    set(tier "")
  endif()
  if(stem IN_LIST TMH_TESTS_APART)
    set(${variable} ${stem} PARENT_SCOPE)
  elseif(stem MATCHES "^(multi_)?rtm_emulation")
    set(${variable} rtm_emulation${tier}_tests PARENT_SCOPE)  # is linked with the emulator
  else()
    set(${variable} ${folder}${tier}_tests PARENT_SCOPE)
  endif()
endfunction()

# tmh_test_programs_of(<variable> <folder>): those of them that there are.
function(tmh_test_programs_of variable folder)
  set(found "")
  foreach(program ${folder}_tests ${folder}_full_tests)
    if(TARGET ${program})
      list(APPEND found ${program})
    endif()
  endforeach()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# tmh_add_test_program(<name> <source>...): gtest_main and the sources. Those that are optimized
# (cmake/test_compilation.cmake) beside others that are not come by way of an object library.
function(tmh_add_test_program name)
  set(quick ${ARGN})
  list(FILTER quick EXCLUDE REGEX "${TMH_OPTIMIZED_TESTS}")
  set(optimized ${ARGN})
  list(FILTER optimized INCLUDE REGEX "${TMH_OPTIMIZED_TESTS}")
  if(quick AND optimized)
    add_library(${name}_optimized OBJECT ${optimized})
    tmh_test_compilation(${name}_optimized optimized)
    target_link_libraries(${name}_optimized PRIVATE tmh_test_support)
    add_executable(${name} ${quick} $<TARGET_OBJECTS:${name}_optimized>)
    tmh_test_compilation(${name} quick)
  elseif(quick)
    add_executable(${name} ${quick})
    tmh_test_compilation(${name} quick)
  else()
    add_executable(${name} ${optimized})
    tmh_test_compilation(${name} optimized)
  endif()
  target_link_libraries(${name} PRIVATE tmh_test_support GTest::gtest_main)
  tmh_test_units(${name} ${ARGN})
  if(TARGET ${name}_optimized)
    tmh_test_units(${name}_optimized ${ARGN})
  endif()
  tmh_discover_tests(${name} ${ARGN})
endfunction()

# tmh_discover_tests(<program> <source>... [AS <name>]): ctest lists every single test, as <stem of
# its file>.<suite>.<test>, with the properties that tmh_test_properties() has for the file. AS: the
# file is compiled once more; its tests begin with the name, and are not quick. The list is made
# when ctest starts, so building runs no program.
function(tmh_discover_tests name)
  cmake_parse_arguments(arg "" "AS" "" ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  set(lines "")
  set(tier_when_missing full)
  foreach(source ${arg_UNPARSED_ARGUMENTS})
    get_filename_component(stem "${source}" NAME_WE)
    if(stem IN_LIST tmh_quick_files AND NOT arg_AS)
      tmh_quick_targets(${name} tmh_unavailable_modes)
      set(tier_when_missing quick)
    endif()
    set(prefix ${stem})
    if(arg_AS)
      set(prefix ${arg_AS})
    endif()
    tmh_test_properties(properties ${stem})
    list(JOIN properties "\t" properties)
    string(APPEND lines "${stem}\t${prefix}\t${properties}\n")
  endforeach()
  set(program "${PROJECT_BINARY_DIR}/tests/${name}")
  set(lists "${PROJECT_BINARY_DIR}/tests/lists/${name}")
  file(CONFIGURE OUTPUT "${lists}.properties" CONTENT "${lines}" @ONLY)
  set(script "${PROJECT_SOURCE_DIR}/cmake/gtest_cases.py")
  set(tables "${PROJECT_SOURCE_DIR}/tests/tiers.txt" "${PROJECT_SOURCE_DIR}/tests/costs.txt")
  list(JOIN tables "\" \"" tables)
  set(tables "\"${tables}\"")
  set(modes "${PROJECT_BINARY_DIR}/tests/lists/unavailable_modes.txt")
  set(ask_modes "${PROJECT_BINARY_DIR}/tests/tmh_unavailable_modes")
  # A program that is older than its properties is not what tests/tiers.txt says. IS_NEWER_THAN is
  # true of a file that does not exist. What the machine cannot run is asked at each start of ctest.
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${lists}.properties")
  file(CONFIGURE OUTPUT "${lists}_include.cmake" @ONLY CONTENT [[
if(EXISTS "@ask_modes@" AND NOT "@lists@.properties" IS_NEWER_THAN "@program@")
  if(NOT tmh_modes_are_asked)
    execute_process(COMMAND "@ask_modes@" OUTPUT_VARIABLE modes COMMAND_ERROR_IS_FATAL ANY)
    set(modes_before "")
    if(EXISTS "@modes@")
      file(READ "@modes@" modes_before)
    endif()
    if(NOT EXISTS "@modes@" OR NOT modes STREQUAL modes_before)
      file(WRITE "@modes@.new" "${modes}")
      file(RENAME "@modes@.new" "@modes@")
    endif()
    set(tmh_modes_are_asked TRUE)
  endif()
  foreach(input "@program@" "@lists@.properties" @tables@ "@modes@" "@script@")
    if(NOT EXISTS "@lists@.cmake" OR NOT "@lists@.cmake" IS_NEWER_THAN "${input}")
      execute_process(COMMAND "@Python3_EXECUTABLE@" -B "@script@" "@program@" "@lists@.properties"
        @tables@ "@modes@" "@lists@.cmake" COMMAND_ERROR_IS_FATAL ANY)
      break()
    endif()
  endforeach()
  include("@lists@.cmake")
else()
  add_test(@name@_NOT_BUILT @name@_NOT_BUILT)
  set_tests_properties(@name@_NOT_BUILT PROPERTIES LABELS "@tier_when_missing@")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${lists}_include.cmake")
endfunction()

# tmh_test_properties(<variable> <stem>): labels, time limit and folder of the tests of one file.
function(tmh_test_properties variable stem)
  if(stem STREQUAL "multi_rtm_emulation_test")  # a defect that it plants must be hit by chance
    set(properties LABELS multi RUN_SERIAL TRUE)
  elseif(stem MATCHES "^(kill|history|isolation_history|multi|power)_")
    set(properties LABELS multi PROCESSORS 2)
  elseif(stem MATCHES "^libxac_figures_")
    # the thesis's programs, each within a minute: 19 s with one neighbour, 37 s with three
    set(properties LABELS unit PROCESSORS 3)
  else()
    set(properties LABELS unit)
  endif()
  set(${variable} ${properties} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
    ${TMH_TEST_ENVIRONMENT} PARENT_SCOPE)
endfunction()
