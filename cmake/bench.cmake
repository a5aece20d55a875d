# Benches: each bench/*.cpp is a program, build/<preset>/bench/<name>, and a test that runs it with --tiny (label bench).
# Main functions are their own; Google Benchmark, CLI11, fmt, json and hwloc are linked to all.
add_library(tmh_bench_support INTERFACE)
target_include_directories(tmh_bench_support INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(tmh_bench_support INTERFACE tmh_warnings tmh::tmh_static benchmark::benchmark CLI11::CLI11 fmt::fmt
                                                  nlohmann_json::nlohmann_json PkgConfig::HWLOC)
file(GLOB tmh_bench_support CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/support/*.cpp")
if(tmh_bench_support)
  add_library(tmh_bench_support_objects STATIC ${tmh_bench_support})
  target_link_libraries(tmh_bench_support_objects PUBLIC tmh_bench_support)
  # What a result row must name to be comparable (STYLE section 10). The commit is read at run time, if at all.
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  list(JOIN TMH_SANITIZE_FLAGS " " sanitize_flags)  # a list would be split into two definitions
  target_compile_definitions(tmh_bench_support_objects PUBLIC
    TMH_BENCH_COMPILER="${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    TMH_BENCH_FLAGS="${CMAKE_CXX_FLAGS_${build_type}} ${sanitize_flags}"
    TMH_BENCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endif()

file(GLOB tmh_benches CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
foreach(source ${tmh_benches})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(bench_${name} "${source}")
  set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  target_link_libraries(bench_${name} PRIVATE $<IF:$<TARGET_EXISTS:tmh_bench_support_objects>,tmh_bench_support_objects,tmh_bench_support>)
  tmh_add_program_test(bench.${name} bench bench_${name} --tiny)
endforeach()
