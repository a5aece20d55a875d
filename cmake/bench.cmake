# Benches: each bench/*.cpp is a program, build/<preset>/bench/<name>, and a test that runs it with
#          --tiny (label bench).
# Main functions are their own; programs/, fmt and hwloc are linked to all.
add_library(tmh_bench_support INTERFACE)
target_include_directories(tmh_bench_support INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(tmh_bench_support INTERFACE tmh_warnings tmh_usdt tmh::tmh_static
  tmh_programs fmt::fmt PkgConfig::HWLOC)
set(tmh_bench_headers <fmt/format.h> ${TMH_STANDARD_HEADERS})
file(GLOB tmh_bench_support CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/support/*.cpp")
# Of the durable benches and of trees alone, so that nobody else is linked with their opponents.
set(tmh_bench_durable ${tmh_bench_support})
list(FILTER tmh_bench_durable INCLUDE REGEX "/(durable|trees)_[a-z_]*\\.cpp$")
list(FILTER tmh_bench_support EXCLUDE REGEX
  "/(durable|trees|snapshots|itm|locks|tp|oo1|contention)_[a-z_]*\\.cpp$")
list(FILTER tmh_bench_support EXCLUDE REGEX "/(line|sets)_(itm[a-z_]*|tinystm|2plsf)\\.cpp$")
if(tmh_bench_support)
  add_library(tmh_bench_support_objects STATIC ${tmh_bench_support})
  target_link_libraries(tmh_bench_support_objects PUBLIC tmh_bench_support)
  target_precompile_headers(tmh_bench_support_objects PRIVATE ${tmh_bench_headers})
  set(unmeasured ${tmh_bench_support})
  list(FILTER unmeasured INCLUDE REGEX "/(environment|options|report)\\.cpp$")
  tmh_unmeasured_sources(${unmeasured})
  # What a result row must name to be comparable (docs/style.md 10). The commit is read at run time,
  # if at all.
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  list(JOIN TMH_SANITIZE_FLAGS " " sanitize_flags)  # a list would be split into two definitions
  target_compile_definitions(tmh_bench_support_objects PUBLIC
    TMH_BENCH_COMPILER="${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    TMH_BENCH_FLAGS="${CMAKE_CXX_FLAGS_${build_type}} ${sanitize_flags}"
    TMH_BENCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endif()

# tmh_bench_opponent(<found> <source> <definition> <library>): the source is compiled only when its
# library was found.
add_library(tmh_bench_durable STATIC)
target_link_libraries(tmh_bench_durable PUBLIC tmh_bench_support_objects)
macro(tmh_bench_opponent found source definition library)
  if(${found})
    target_compile_definitions(tmh_bench_durable PRIVATE ${definition})
    target_link_libraries(tmh_bench_durable PRIVATE ${library})
  else()
    list(FILTER tmh_bench_durable EXCLUDE REGEX "/${source}$")
  endif()
endmacro()
if(BERKELEY_DB_FOUND)
  add_library(tmh_berkeley_db INTERFACE)
  target_include_directories(tmh_berkeley_db SYSTEM INTERFACE "${BERKELEY_DB_INCLUDE_DIR}")
  target_link_libraries(tmh_berkeley_db INTERFACE "${BERKELEY_DB_LIBRARY}")
endif()
tmh_bench_opponent("TARGET;tmh_berkeley_db" durable_berkeley_db.cpp TMH_BENCH_BERKELEY_DB
  tmh_berkeley_db)
tmh_bench_opponent(LMDB_FOUND durable_lmdb.cpp TMH_BENCH_LMDB PkgConfig::LMDB)
tmh_bench_opponent(SQLITE_FOUND durable_sqlite.cpp TMH_BENCH_SQLITE PkgConfig::SQLITE)
target_sources(tmh_bench_durable PRIVATE ${tmh_bench_durable})
if(tmh_bench_support AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  target_precompile_headers(tmh_bench_durable REUSE_FROM tmh_bench_support_objects)
endif()

# Of locks, tp and oo1, one each. Without Berkeley DB locks has no sources but its own.
foreach(name locks tp oo1)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/support/${name}_*.cpp")
  if(NOT TARGET tmh_berkeley_db)
    list(FILTER sources EXCLUDE REGEX "/${name}_berkeley_db\\.cpp$")
  endif()
  if(NOT SQLITE_FOUND)
    list(FILTER sources EXCLUDE REGEX "/${name}_sqlite\\.cpp$")
  endif()
  if(sources)
    add_library(tmh_bench_${name} STATIC ${sources})
    target_link_libraries(tmh_bench_${name} PUBLIC tmh_bench_support_objects)
    if(TARGET tmh_berkeley_db)
      target_compile_definitions(tmh_bench_${name} PUBLIC TMH_BENCH_BERKELEY_DB)
      target_link_libraries(tmh_bench_${name} PRIVATE tmh_berkeley_db)
    endif()
    if(SQLITE_FOUND AND NOT name STREQUAL "locks")
      target_compile_definitions(tmh_bench_${name} PUBLIC TMH_BENCH_SQLITE)
      target_link_libraries(tmh_bench_${name} PRIVATE PkgConfig::SQLITE)
    endif()
  endif()
endforeach()
foreach(name tp oo1)
  target_link_libraries(tmh_bench_${name} PUBLIC tmh::tp_static tmh::db_static)
endforeach()
if(TARGET tmh_tcl)
  target_compile_definitions(tmh_bench_tp PRIVATE TMH_BENCH_TCL="$<TARGET_FILE:tmh_tcl>")
  add_dependencies(tmh_bench_tp tmh_tcl)
endif()

# The line bench's opponents. One file of libitm's is compiled with -fgnu-tm. Sanitizers do not know
# what libitm's clones do.
include(itm)
if(TMH_HAVE_ITM AND NOT TMH_SANITIZE AND NOT TMH_COVERAGE)
  set(transactions "${PROJECT_SOURCE_DIR}/bench/support/line_itm_transactions.cpp"
    "${PROJECT_SOURCE_DIR}/bench/support/sets_itm_transactions.cpp"
    "${PROJECT_SOURCE_DIR}/bench/support/snapshots_itm_transactions.cpp")
  add_library(tmh_bench_itm STATIC "${PROJECT_SOURCE_DIR}/bench/support/line_itm.cpp"
    "${PROJECT_SOURCE_DIR}/bench/support/sets_itm.cpp" ${transactions})
  set_source_files_properties(${transactions} PROPERTIES COMPILE_OPTIONS "${TMH_ITM_FLAGS}")
  target_link_libraries(tmh_bench_itm PUBLIC tmh_bench_support_objects itm)
endif()
# Of snapshots alone.
file(GLOB tmh_bench_snapshots CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/bench/support/snapshots_*.cpp")
list(FILTER tmh_bench_snapshots EXCLUDE REGEX "/snapshots_itm_transactions\\.cpp$")
add_library(tmh_bench_snapshots STATIC ${tmh_bench_snapshots})
target_link_libraries(tmh_bench_snapshots PUBLIC tmh_bench_support_objects
  $<TARGET_NAME_IF_EXISTS:tmh_bench_itm>)
target_compile_definitions(tmh_bench_snapshots
  PRIVATE $<$<TARGET_EXISTS:tmh_bench_itm>:TMH_BENCH_ITM>)
if(tmh_bench_support AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  target_precompile_headers(tmh_bench_snapshots REUSE_FROM tmh_bench_support_objects)
endif()
# Of hierarchy alone: TPC-B.
file(GLOB tmh_workloads CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/workloads/*.cpp")
add_library(tmh_bench_workloads STATIC ${tmh_workloads})
target_link_libraries(tmh_bench_workloads PUBLIC tmh_bench_support)
# Of itm alone, which starts programs and measures none itself.
file(GLOB tmh_bench_itm_programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/support/itm_*.cpp")
add_library(tmh_bench_itm_programs STATIC ${tmh_bench_itm_programs})
target_link_libraries(tmh_bench_itm_programs PUBLIC tmh_bench_support_objects)
target_compile_options(tmh_bench_itm_programs PRIVATE $<$<CONFIG:Release>:-O0>)
tmh_compile_in_units(tmh_bench_itm_programs 9)
tmh_unmeasured_sources("${PROJECT_SOURCE_DIR}/bench/itm.cpp"
  "${PROJECT_SOURCE_DIR}/bench/support/child.cpp")
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libitm.so.1
  OUTPUT_VARIABLE tmh_gcc_libitm OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(tmh_gcc_libitm "${tmh_gcc_libitm}" REALPATH)
target_compile_definitions(tmh_bench_itm_programs
  PRIVATE TMH_BENCH_GCC_LIBITM="${tmh_gcc_libitm}")
include(tinystm)
if(TMH_TINYSTM)
  add_library(tmh_bench_tinystm STATIC "${PROJECT_SOURCE_DIR}/bench/support/line_tinystm.cpp"
    "${PROJECT_SOURCE_DIR}/bench/support/sets_tinystm.cpp")
  target_include_directories(tmh_bench_tinystm SYSTEM PRIVATE "${TMH_TINYSTM}/include")
  target_link_libraries(tmh_bench_tinystm PUBLIC tmh_bench_support_objects
    "${TMH_TINYSTM}/lib/libstm.a")
endif()
include(2plsf)
if(TMH_2PLSF)
  add_library(tmh_bench_2plsf STATIC "${PROJECT_SOURCE_DIR}/bench/support/sets_2plsf.cpp")
  target_include_directories(tmh_bench_2plsf SYSTEM PRIVATE "${TMH_2PLSF}")
  target_link_libraries(tmh_bench_2plsf PUBLIC tmh_bench_support_objects)
endif()

file(GLOB tmh_benches CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
if(NOT TMH_HAVE_RTM_EMULATION)  # cmake/rtm_emulation.cmake has said why
  list(FILTER tmh_benches EXCLUDE REGEX "/rtm_emulation\\.cpp$")
endif()
if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  tmh_precompile_headers_of_programs(tmh_bench_precompiled tmh_bench_support_objects
    HEADERS ${tmh_bench_headers})
endif()
foreach(source ${tmh_benches})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(bench_${name} "${source}")
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(bench_${name} REUSE_FROM tmh_bench_precompiled)
  endif()
  set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  target_link_libraries(bench_${name} PRIVATE
    $<IF:$<TARGET_EXISTS:tmh_bench_support_objects>,tmh_bench_support_objects,tmh_bench_support>)
  if(name MATCHES "^(durable_|trees)")
    target_link_libraries(bench_${name} PRIVATE tmh_bench_durable)
  endif()
  if(name MATCHES "^(locks|tp|oo1)$")
    target_link_libraries(bench_${name} PRIVATE $<TARGET_NAME_IF_EXISTS:tmh_bench_${name}>)
  endif()
  if(name STREQUAL "contention")
    target_sources(bench_${name} PRIVATE "${PROJECT_SOURCE_DIR}/bench/support/contention_tp.cpp")
    target_link_libraries(bench_${name} PRIVATE tmh::tp_static)
  endif()
  if(name MATCHES "^(latches|records)$")
    target_link_libraries(bench_${name} PRIVATE tmh::tp_static tmh::db_static)
  endif()
  if(name STREQUAL "hierarchy")
    target_link_libraries(bench_${name} PRIVATE tmh_bench_workloads)
  endif()
  if(name STREQUAL "snapshots")
    target_link_libraries(bench_${name} PRIVATE tmh_bench_snapshots)
  endif()
  if(name MATCHES "^(line|sets)$")
    foreach(opponent itm tinystm 2plsf)
      string(TOUPPER "${opponent}" upper)
      target_link_libraries(bench_${name}
        PRIVATE $<TARGET_NAME_IF_EXISTS:tmh_bench_${opponent}>)
      target_compile_definitions(bench_${name}
        PRIVATE $<$<TARGET_EXISTS:tmh_bench_${opponent}>:TMH_BENCH_${upper}>)
    endforeach()
  endif()
  if(name STREQUAL "itm")
    target_link_libraries(bench_itm PRIVATE tmh_bench_itm_programs)
    get_property(programs GLOBAL PROPERTY TMH_ITM_PROGRAM_TARGETS)
    if(TMH_HAVE_LIBITM)
      list(APPEND programs tmh_itm tmh_itm_pages)
    endif()
    if(programs)
      add_dependencies(bench_itm ${programs})
    endif()
  endif()
  if(name STREQUAL "rtm_emulation")
    target_link_libraries(bench_${name} PRIVATE tmh_rtm_emulation)
  endif()
  tmh_add_program_test(bench.${name} "full;bench" bench_${name} --tiny)
endforeach()
# So many updates that a thread runs out of nodes, all of which another one has got.
tmh_add_program_test(bench.line_updates "full;bench" bench_line --tiny --only list
  --update-percent 100 --scale 600)

# What bench/overhead compares counting with: the library and the bench once more, compiled without
# it. As long a build as the library's, so only when asked for: --target bench_overhead_uncounted.
add_library(tmh_uncounted STATIC EXCLUDE_FROM_ALL ${TMH_SOURCES})
target_link_libraries(tmh_uncounted PRIVATE tmh_warnings
                      PUBLIC tmh_usdt Boost::headers Threads::Threads)
target_include_directories(tmh_uncounted PUBLIC "${PROJECT_SOURCE_DIR}/include"
  "${PROJECT_SOURCE_DIR}")
target_compile_features(tmh_uncounted PUBLIC cxx_std_20)
target_compile_definitions(tmh_uncounted PUBLIC TMH_NO_COUNTERS)
target_compile_options(tmh_uncounted PRIVATE ${TMH_CODE_FLAGS})
set(tmh_overhead_support options report stats environment)
list(TRANSFORM tmh_overhead_support PREPEND "${PROJECT_SOURCE_DIR}/bench/support/")
list(TRANSFORM tmh_overhead_support APPEND ".cpp")
add_executable(bench_overhead_uncounted EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/bench/overhead.cpp"
  ${tmh_overhead_support})
set_target_properties(bench_overhead_uncounted PROPERTIES OUTPUT_NAME overhead_uncounted
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
target_compile_definitions(bench_overhead_uncounted
  PRIVATE $<TARGET_PROPERTY:tmh_bench_support_objects,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(bench_overhead_uncounted
  PRIVATE tmh_uncounted tmh_warnings tmh_programs fmt::fmt
  PkgConfig::HWLOC)
