# The cache server, examples/itm/cache: cache_server runs on whichever libitm.so.1 the dynamic
# linker finds, cache_server_mutex has one mutex instead of transactions; cache_client is a load for
# either, and for memcached. All but the first are built with sanitizers, too.
include(itm)
find_package(nlohmann_json QUIET)
set(TMH_HAVE_CACHE_SERVER FALSE)
if(TARGET nlohmann_json::nlohmann_json)
  set(TMH_HAVE_CACHE_SERVER TRUE)
endif()
tmh_optional("cache server" TMH_HAVE_CACHE_SERVER "no nlohmann-json3-dev")
if(NOT TMH_HAVE_CACHE_SERVER)
  return()
endif()

set(folder "${PROJECT_SOURCE_DIR}/examples/itm/cache")
set(support "${PROJECT_SOURCE_DIR}/examples/itm/support")
file(GLOB tmh_cache CONFIGURE_DEPENDS "${folder}/*.cpp")
set(client ${tmh_cache})
list(FILTER client INCLUDE REGEX "/client[a-z_]*\\.cpp$")
set(transactions ${tmh_cache})
list(FILTER transactions INCLUDE REGEX "_transactions\\.cpp$")
set(server "${folder}/server.cpp" "${folder}/server_options.cpp")
list(REMOVE_ITEM tmh_cache ${client} ${transactions} ${server})

# Everything but transactions, main functions and command lines.
add_library(tmh_cache STATIC ${tmh_cache} "${support}/counts.cpp")
target_include_directories(tmh_cache PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(tmh_cache PRIVATE tmh_warnings PUBLIC Threads::Threads)
add_library(tmh_cache_server OBJECT ${server})
target_link_libraries(tmh_cache_server PRIVATE tmh_warnings tmh_cache tmh_programs)

foreach(build itm mutex)
  if(build STREQUAL "itm" AND (NOT TMH_HAVE_ITM OR TMH_SANITIZE OR TMH_COVERAGE))
    continue()
  endif()
  add_library(tmh_cache_${build} OBJECT ${transactions} "${support}/build.cpp")
  string(TOUPPER "TMH_${build}" definition)
  target_compile_definitions(tmh_cache_${build} PRIVATE ${definition})
  target_link_libraries(tmh_cache_${build} PRIVATE tmh_warnings tmh_cache)
  set(target cache_server)
  if(build STREQUAL "itm")
    target_compile_options(tmh_cache_itm PRIVATE ${TMH_ITM_FLAGS})
  else()
    set(target cache_server_${build})
  endif()
  add_executable(${target} $<TARGET_OBJECTS:tmh_cache_server> $<TARGET_OBJECTS:tmh_cache_${build}>)
  target_link_libraries(${target} PRIVATE tmh_warnings tmh_cache tmh_programs
    $<$<STREQUAL:${build},itm>:itm>)
endforeach()

add_executable(cache_client ${client})
target_link_libraries(cache_client PRIVATE tmh_warnings tmh_cache tmh_programs)
tmh_unmeasured_sources("${folder}/server_options.cpp" "${folder}/client_options.cpp"
  "${folder}/client.cpp")
foreach(target cache_server cache_server_mutex cache_client)
  if(TARGET ${target})
    set_property(GLOBAL APPEND PROPERTY TMH_ITM_PROGRAM_TARGETS ${target})  # cmake/bench.cmake
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples/itm")
  endif()
endforeach()
