# Sources that are compiled together, in one unit: half of a small file's compilation is headers
# that the others include, too. Names in the anonymous namespaces of a unit's files must not
# collide. Processor time of libtmh's 144 files: 280 s alone, 80 s in 13 units (g++ 12, 2-core
# EPYC VM). Who edits one file again and again configures with -DTMH_UNITS=OFF.
option(TMH_UNITS "Compile several files at once" ON)

# One file's local variable may have the name of another file's constant. An option that comes
# behind those of tmh_warnings.
add_library(tmh_no_shadow_warnings INTERFACE)
target_compile_options(tmh_no_shadow_warnings INTERFACE -Wno-shadow)

# tmh_compile_in_units(<target> [<files>]): so many files a unit, or those of one UNITY_GROUP; a
# file that says no group is then compiled alone. Not without precompiled headers: those builds
# are to find a missing #include.
function(tmh_compile_in_units target)
  if(NOT TMH_UNITS OR CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  if(ARGC GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${ARGV1})
  else()
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  endif()
  target_link_libraries(${target} PRIVATE tmh_no_shadow_warnings)
endfunction()
