# The house (label house): rules about the tree, each with a test that the rule can be broken, the
# searches of models, and the installed package.

# tmh_add_house_test(<name> <script> [arguments...]): exit status 77 and "SKIPPED: why"
# means skipped.
function(tmh_add_house_test name script)
  add_test(NAME house.${name} COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/house/${script}" ${ARGN} COMMAND_EXPAND_LISTS)
  set_tests_properties(house.${name} PROPERTIES LABELS "quick;house" SKIP_RETURN_CODE 77
    ${TMH_TEST_ENVIRONMENT})
endfunction()
# tmh_house_tests_are_full(<why> <name>...): only ./check --full runs these.
function(tmh_house_tests_are_full why)
  foreach(name ${ARGN})
    if(TEST house.${name})
      set_tests_properties(house.${name} PROPERTIES LABELS "full;house;${why}")
    endif()
  endforeach()
endfunction()
set(compilers --cc "${CMAKE_C_COMPILER}" --cxx "${CMAKE_CXX_COMPILER}")
# All rules about the tree's text.
tmh_add_house_test(rules house.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(rules_can_fail house.py --self-test)
# What these sources include first has been compiled alone, with the same warnings. With units,
# libtmh's are compiled behind precompiled headers, also those that are alone in theirs.
set(objects_headers --objects $<TARGET_OBJECTS:xac_objects>)
if(NOT TMH_UNITS)
  list(APPEND objects_headers $<TARGET_OBJECTS:tmh_objects>)
endif()
if(TMH_HAVE_RTM_EMULATION)
  list(APPEND objects_headers $<TARGET_OBJECTS:tmh_rtm_emulation>)
endif()
foreach(check format headers)
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
tmh_add_house_test(budgets_can_fail budgets.py --self-test)
tmh_add_house_test(measurements ../../bench/measurements.py "${PROJECT_SOURCE_DIR}" --check)
tmh_add_house_test(measurements_can_fail ../../bench/measurements.py --self-test)
tmh_add_house_test(man man.py "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(man_can_fail man.py --self-test)
if(TMH_HAVE_RTM_EMULATION)
  tmh_add_house_test(live_vectors live_vectors.py $<TARGET_OBJECTS:tmh_rtm_emulation>)
  tmh_add_house_test(live_vectors_can_fail live_vectors.py --self-test)
endif()
# The models: a quick mode; whole searches and all planted faults in parts, each on one processor
# within 2 GiB, one after the other.
tmh_add_house_test(protocol_can_fail protocol.py --logic)
foreach(script protocol itm_protocols lock_protocol)
  tmh_add_house_test(${script} ${script}.py --quick "${PROJECT_SOURCE_DIR}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/tests/house/${script}.py")
  execute_process(COMMAND "${Python3_EXECUTABLE}" -B
    "${PROJECT_SOURCE_DIR}/tests/house/${script}.py" --list
    OUTPUT_VARIABLE parts COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" parts "${parts}")
  foreach(part ${parts})
    tmh_add_house_test(${part} ${script}.py --part ${part} "${PROJECT_SOURCE_DIR}")
    list(APPEND searches ${part})
  endforeach()
endforeach()
# It compiles on all processors.
set_tests_properties(house.headers PROPERTIES PROCESSORS 2)
tmh_add_house_test(json_schema_can_fail json_schema.py --self-test "${PROJECT_SOURCE_DIR}")
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
tmh_add_house_test(sources_can_fail sources.py --self-test)
tmh_add_house_test(tiers tiers.py "${PROJECT_SOURCE_DIR}" --build "${PROJECT_BINARY_DIR}")
tmh_add_house_test(tiers_can_fail tiers.py --self-test)
tmh_add_house_test(container_table container_table.py "${PROJECT_SOURCE_DIR}"
  --worker "$<TARGET_FILE:tmh_container_worker>")
tmh_add_house_test(body_kinds body_kinds.py "${PROJECT_SOURCE_DIR}" --cxx "${CMAKE_CXX_COMPILER}")
tmh_add_house_test(environments_can_fail environments.py "${PROJECT_SOURCE_DIR}" --self-test)
# Each example and workload under each value of each variable, in slices of equal cost.
if(TARGET tmh_tool AND TMH_BUILD_EXAMPLES)
  set(slices 6)
  foreach(slice RANGE 1 ${slices})
    add_test(NAME environments.${slice} COMMAND "${Python3_EXECUTABLE}" -B
      "${PROJECT_SOURCE_DIR}/tests/house/environments.py" "${PROJECT_SOURCE_DIR}"
      --build "${PROJECT_BINARY_DIR}" --slice ${slice}/${slices})
    set_tests_properties(environments.${slice} PROPERTIES LABELS "full;multi;variables" PROCESSORS 2
      ${TMH_TEST_ENVIRONMENT})
  endforeach()
endif()
if(TMH_HAVE_ITM_PROGRAMS)
  get_property(programs GLOBAL PROPERTY TMH_ITM_PROGRAMS)
  tmh_add_house_test(itm_programs itm_programs.py ${programs})
  set_tests_properties(house.itm_programs PROPERTIES LABELS "full;itm;application")
  if(TMH_BUILD_BENCH AND TMH_HAVE_LIBITM)
    add_test(NAME bench.itm_refuses COMMAND "${Python3_EXECUTABLE}" -B
      "${PROJECT_SOURCE_DIR}/tests/house/itm_bench.py" --bench $<TARGET_FILE:bench_itm>
      --libitm $<TARGET_FILE:tmh_itm> --plots "${PROJECT_SOURCE_DIR}/bench/itm_plots.py"
      ${programs})
    set_tests_properties(bench.itm_refuses PROPERTIES LABELS "full;bench"
      ${TMH_TEST_ENVIRONMENT})
  endif()
endif()
tmh_add_house_test(tinystm tinystm.py "${PROJECT_SOURCE_DIR}" --cmake "${CMAKE_COMMAND}")
tmh_add_house_test(papers papers.py --links "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(papers_can_fail papers.py --self-test)
tmh_add_house_test(excite_vm excite_vm.py --links "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(excite_vm_can_fail excite_vm.py --self-test)
tmh_add_house_test(libtp libtp.py --links "${PROJECT_SOURCE_DIR}")
tmh_add_house_test(libtp_can_fail libtp.py --self-test)
if(TMH_BUILD_BENCH)
  # Each runs many benches, so alone.
  foreach(paper "reproduce papers" "reproduce_excite_vm excite_vm" "reproduce_libtp libtp")
    string(REPLACE " " ";" paper "${paper}")
    list(GET paper 0 name)
    list(GET paper 1 script)
    add_test(NAME bench.${name} COMMAND "${Python3_EXECUTABLE}" -B
      "${PROJECT_SOURCE_DIR}/tests/house/${script}.py" "${PROJECT_SOURCE_DIR}"
      --benches "${PROJECT_BINARY_DIR}" --out "${PROJECT_BINARY_DIR}/run/bench.${name}")
    set_tests_properties(bench.${name} PROPERTIES LABELS "full;bench" RUN_SERIAL TRUE
      ${TMH_TEST_ENVIRONMENT})
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

# They compile or configure for seconds, and are about what seldom changes, or about all files at
# once.
tmh_house_tests_are_full(compilers headers body_kinds install optional packages packages_chroot
  snippets_can_fail snippets_shown snippets_refused style_can_fail format planted held gdb
  container_table json_schema man)
tmh_house_tests_are_full(search ${searches})
foreach(search ${searches})
  set_tests_properties(house.${search} PROPERTIES RESOURCE_LOCK models)
endforeach()
