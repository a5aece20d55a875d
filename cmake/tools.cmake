# The tmh command. Its target is tmh_tool, because the library's target is tmh. All but main.cpp is
# a library, which tests link to.
file(GLOB tmh_tools CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cpp"
  "${PROJECT_SOURCE_DIR}/tools/doctor/*.cpp"
  "${PROJECT_SOURCE_DIR}/tools/run/*.cpp" "${PROJECT_SOURCE_DIR}/examples/workloads/*.cpp")
list(FILTER tmh_tools EXCLUDE REGEX "/main\\.cpp$")
# What `tmh run` and `tmh doctor` measure is -O3 in release, as users' programs may be. The rest
# prints, and asks the library: -O1 takes a third less to compile.
set(tmh_tools_measured ${tmh_tools})
list(FILTER tmh_tools_measured INCLUDE REGEX "/(tools/run/|tools/doctor/try_|examples/workloads/)")
list(FILTER tmh_tools EXCLUDE REGEX "/(tools/run/|tools/doctor/try_|examples/workloads/)")
add_library(tmh_tool_measured OBJECT ${tmh_tools_measured})
add_library(tmh_tool_parts STATIC ${tmh_tools} $<TARGET_OBJECTS:tmh_tool_measured>)
target_compile_options(tmh_tool_parts PRIVATE $<$<CONFIG:Release>:-O1>)
foreach(target tmh_tool_measured tmh_tool_parts)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE TMH_VERSION="${PROJECT_VERSION}"
    TMH_LIBDIR="${CMAKE_INSTALL_LIBDIR}"
    TMH_SO_VERSION="${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  target_link_libraries(${target} PRIVATE tmh_warnings tmh_usdt
    PkgConfig::HWLOC tmh_libpfm
    PUBLIC tmh::perf_static tmh::tmh_static tmh_programs fmt::fmt)
  target_precompile_headers(${target} PRIVATE <fmt/format.h> ${TMH_STANDARD_HEADERS})
endforeach()
tmh_compile_in_units(tmh_tool_parts 8)
add_executable(tmh_tool "${PROJECT_SOURCE_DIR}/tools/main.cpp")
set_target_properties(tmh_tool PROPERTIES OUTPUT_NAME tmh)
target_link_libraries(tmh_tool PRIVATE tmh_warnings tmh_tool_parts)
add_custom_command(TARGET tmh_tool POST_BUILD COMMAND tmh_tool completion >
  "${PROJECT_BINARY_DIR}/tmh-completion.bash" VERBATIM)
