# Examples are programs that people read, and tests: each runs in a fresh folder of its own (label
# example).

# 1. C++ examples, one file each, linked as a user would: with the shared library.
file(GLOB tmh_examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp"
  "${PROJECT_SOURCE_DIR}/examples/trees/*.cpp")
foreach(source ${tmh_examples})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} "${source}")
  target_link_libraries(example_${name} PRIVATE tmh_warnings tmh::tmh)
  tmh_add_program_test(example.${name} "quick;example" example_${name})
endforeach()

# 2. The thesis's programs in C. They are printed as the thesis prints them, so they get C's own
#    warnings only: figure 4-1 sets a value that nobody reads, and 4096*fileLength is int
#    arithmetic.
file(GLOB tmh_figures CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/libxac/*.c")
function(tmh_add_figure name source)
  add_executable(${name} "${source}")
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror -Wno-unused-but-set-variable)
  target_link_libraries(${name} PRIVATE tmh::xac)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/libxac")
  set_property(GLOBAL APPEND PROPERTY TMH_FIGURE_TARGETS ${name})
endfunction()
foreach(source ${tmh_figures})
  get_filename_component(name "${source}" NAME_WE)
  tmh_add_figure(${name} "${source}")
  tmh_add_program_test(example.libxac.${name} "quick;example" ${name})
endforeach()
if(TMH_BUILD_TESTS)
  # The same figures, telling locals or counting; tests/libxac/libxac_figures_test.cpp alone runs
  # them.
  set(figures "${PROJECT_SOURCE_DIR}/examples/libxac")
  tmh_add_figure(figure_2_4_program_1_reported "${figures}/figure_2_4_program_1.c")
  target_compile_options(figure_2_4_program_1_reported PRIVATE -include "${figures}/report_2_4.h")
  foreach(figure figure_1_6 figure_2_2)
    tmh_add_figure(${figure}_counted "${figures}/${figure}.c")
    target_compile_options(${figure}_counted PRIVATE -include "${figures}/count_1_6.h")
  endforeach()
endif()
get_property(TMH_FIGURE_TARGETS GLOBAL PROPERTY TMH_FIGURE_TARGETS)

# Programs in C on tp.h.
file(GLOB tmh_tp_examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/libtp/*.c")
foreach(source ${tmh_tp_examples})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(tp_${name} "${source}")
  target_compile_options(tp_${name} PRIVATE -Wall -Wextra -Werror)
  target_link_libraries(tp_${name} PRIVATE tmh::tp)
  set_target_properties(tp_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/libtp")
  set(tier quick)
  if(name STREQUAL "served")  # tmh-db is not in the quick build
    set(tier "full;compilers")
    target_link_libraries(tp_${name} PRIVATE tmh::db)
  endif()
  tmh_add_program_test(example.libtp.${name} "${tier};example" tp_${name})
endforeach()

# A program that knows db(3) alone: Perl's DB_File on libtmh-db. Sanitizers must come first in a
# process, and Perl has none.
if(TMH_BUILD_TESTS AND NOT TMH_SANITIZE)
  add_test(NAME example.libtp.perl
    COMMAND "${PROJECT_SOURCE_DIR}/examples/libtp/perl_words" "${PROJECT_BINARY_DIR}")
  set_tests_properties(example.libtp.perl PROPERTIES LABELS "full;example;compilers"
    SKIP_RETURN_CODE 77)
endif()

# 3. The demo.
file(GLOB tmh_demo CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/inverted_index/*.cpp")
if(tmh_demo)
  add_executable(tmh_inverted_index ${tmh_demo})
  target_include_directories(tmh_inverted_index PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(tmh_inverted_index PRIVATE tmh_warnings tmh::tmh_static tmh_programs
    fmt::fmt)
  target_precompile_headers(tmh_inverted_index PRIVATE <fmt/format.h> ${TMH_STANDARD_HEADERS})
  tmh_compile_in_units(tmh_inverted_index 9)
  tmh_unmeasured_sources("${PROJECT_SOURCE_DIR}/examples/inverted_index/options.cpp")
  # Label multi: it starts and kills several processes. Ends with 1 when the index differs from the
  # serial one.
  tmh_add_program_test(example.inverted_index "quick;multi" tmh_inverted_index --tiny)
  if(TMH_BUILD_TESTS)
    set_tests_properties(example.inverted_index PROPERTIES RUN_SERIAL TRUE)
  endif()
endif()
