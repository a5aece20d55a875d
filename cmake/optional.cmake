# What may be missing: every configure looks for it anew and names it in one summary. No source asks
# the compiler what is there (__has_include): a feature is a compile definition, so the build
# compiles objects again when it changes.
set_property(GLOBAL PROPERTY TMH_OPTIONAL_PARTS "")

# tmh_optional(<part> <found> <why not>): the part's words in the summary.
function(tmh_optional part found why_not)
  set(answer yes)
  if(NOT ${found})
    set(answer "no, ${why_not}")
  endif()
  set_property(GLOBAL APPEND PROPERTY TMH_OPTIONAL_PARTS "${part}: ${answer}")
endfunction()

# tmh_look_again(<variable> [<file in it>]): the next find_*() of this variable searches, unless
# what the cache names is still there. CMake itself searches again where it found nothing, but
# believes for ever what it has found.
function(tmh_look_again variable)
  set(path "$CACHE{${variable}}")
  if(ARGN)
    string(APPEND path "/${ARGN}")
  endif()
  if(NOT EXISTS "${path}")
    unset(${variable} CACHE)
  endif()
endfunction()

# As pkg_check_modules(), which believes the cache once it has found a module.
macro(tmh_check_module prefix module)
  unset(__pkg_config_checked_${prefix} CACHE)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
endmacro()

# tmh_print_summary(): last in the configuration. NOTICE, because ./demo and ./check show no STATUS;
# a project that includes this one keeps its own last lines.
function(tmh_print_summary)
  set(level STATUS)
  if(PROJECT_IS_TOP_LEVEL)
    set(level NOTICE)
  endif()
  get_property(parts GLOBAL PROPERTY TMH_OPTIONAL_PARTS)
  list(JOIN parts "; " parts)
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  message(${level} "tmh ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${compiler}. ${parts}.")
endfunction()
