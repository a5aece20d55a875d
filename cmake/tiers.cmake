# Tiers: what `cmake --build` makes alone (library and tools), what ./check builds (target `quick`)
# and what ./check --full builds (target `full`: everything but what is only built when asked for).
# A test has one of the labels `quick` and `full`, its kind, and, if it is not quick, why: `ctest
# --print-labels`.

# What `cmake --build` makes without a target.
set(TMH_DEFAULT_TARGETS tmh tmh_static xac xac_static tmhperf tmhperf_static tmh_tool
  tmh_rtm_emulation tmh_itm tmh_itm_pages)

# tmh_quick_targets(<target>...): the quick tier needs them.
function(tmh_quick_targets)
  set_property(GLOBAL APPEND PROPERTY TMH_QUICK_TARGETS ${ARGN})
endfunction()

# tmh_make_tiers(): last of all, when every target is known. Writes quick_sources.txt, a line
# "<target> <source>;..." each, by which tests/house/tiers.py sees what has been added.
function(tmh_make_tiers)
  get_property(quick GLOBAL PROPERTY TMH_QUICK_TARGETS)
  get_property(targets DIRECTORY "${PROJECT_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
  set(full "")
  set(sources "")
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(only_when_asked ${target} EXCLUDE_FROM_ALL)
    if(type STREQUAL "UTILITY" OR type STREQUAL "INTERFACE_LIBRARY")
      continue()
    endif()
    string(APPEND sources "${target} $<JOIN:$<TARGET_PROPERTY:${target},SOURCES>,;>\n")
    if(NOT only_when_asked)
      list(APPEND full ${target})
      if(target IN_LIST TMH_DEFAULT_TARGETS)
        list(APPEND quick ${target})
      else()
        set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES quick)
  add_custom_target(quick DEPENDS ${quick})
  add_custom_target(full DEPENDS ${full})
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/quick_sources.txt" CONTENT "${sources}")
endfunction()
