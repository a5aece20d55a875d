# What programs share (programs/): command lines and JSON, behind headers of our own. CLI11 and
# nlohmann's JSON are headers alone, and cost a unit that uses them 2 to 30 s: here each is compiled
# once. -O0 in release: nothing here is measured, and optimizing takes as long as parsing.
if(NOT (TMH_BUILD_TESTS OR TMH_BUILD_BENCH OR TMH_BUILD_EXAMPLES OR TMH_BUILD_TOOLS))
  return()
endif()
find_package(nlohmann_json QUIET)  # examples alone may do without: cmake/itm_programs.cmake
file(GLOB tmh_programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/programs/*.cpp")
if(NOT TARGET nlohmann_json::nlohmann_json)
  list(FILTER tmh_programs EXCLUDE REGEX "/json\\.cpp$")
endif()
add_library(tmh_programs STATIC ${tmh_programs})
target_include_directories(tmh_programs PUBLIC "${PROJECT_SOURCE_DIR}")
target_compile_options(tmh_programs PRIVATE $<$<CONFIG:Release>:-O0>)
target_link_libraries(tmh_programs PRIVATE tmh_warnings CLI11::CLI11
  $<TARGET_NAME_IF_EXISTS:nlohmann_json::nlohmann_json>)
