# Precompiled headers: half of a small program's compilation was reading the system's headers.
# Headers of the system and of others' libraries alone, none of ours, so a change of ours never
# recompiles everything, and sources keep including what they use of ours. What a source forgets to
# include of the system shows in builds without them: preset clang, and any with ccache. libtmh has
# them with units only, libxac none: without, tests/house/style.py headers relies on the build
# having compiled their headers alone.
set(TMH_STANDARD_HEADERS <algorithm> <array> <atomic> <cerrno> <chrono> <csignal> <cstdint> <cstdio>
  <cstdlib> <cstring> <filesystem> <fstream> <functional>
  <map> <memory> <random> <set> <sstream> <stdexcept> <string> <thread> <utility> <vector>
  <sys/mman.h> <sys/wait.h> <unistd.h>)

# ccache would call the compiler each time for whoever includes precompiled headers (unless told to
# be sloppy).
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# tmh_precompile_headers_of_programs(<name> <interface library> HEADERS ... [OPTIONS ...]): headers
# as programs that link to the library include them, for target_precompile_headers(<program>
# REUSE_FROM <name>). With the programs' own OPTIONS: g++ 12 crashes where -O differs.
function(tmh_precompile_headers_of_programs name library)
  cmake_parse_arguments(arg "" "" "HEADERS;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled/${name}.cpp"
    CONTENT "// Nothing: what is wanted of this target is its precompiled header.\n")
  add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/precompiled/${name}.cpp")
  target_link_libraries(${name} PRIVATE ${library})
  # CMake compiles programs with -fPIE and libraries with -fPIC; what was made with the other is
  # refused.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# tmh_unmeasured_sources(<source>...): they read command lines and write reports, in targets that
# measure. -O0 in release: what they use of others' libraries takes as long to optimize as to parse.
# Without precompiled headers, which have the target's own -O (and with them g++ 12 warns at -O3 of
# strings longer than memory, in libstdc++: GCC PR 105651's family).
function(tmh_unmeasured_sources)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O0>"
    SKIP_PRECOMPILE_HEADERS ON)
endfunction()
