# libitm.so.1 of compat/libitm: what programs of g++ -fgnu-tm run on instead of GCC's, which has the
# same name. It lies in a folder of its own (libtmh-itm), beside, never over, GCC's. x86-64 Linux.
# Not with sanitizers or coverage: programs of -fgnu-tm are not, and their stacks are left by jumps.
set(TMH_HAVE_LIBITM FALSE)
if(TMH_SANITIZE OR TMH_COVERAGE)
  tmh_optional("libitm (compat)" TMH_HAVE_LIBITM "not with sanitizers or coverage")
  return()
endif()
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES
  "^(x86_64|AMD64)$")
  tmh_optional("libitm (compat)" TMH_HAVE_LIBITM "it is for x86-64 Linux")
  return()
endif()
set(TMH_HAVE_LIBITM TRUE)
tmh_optional("libitm (compat)" TMH_HAVE_LIBITM "")
enable_language(ASM)
set(tmh_libitm_folder "${PROJECT_SOURCE_DIR}/compat/libitm")
file(GLOB tmh_libitm_sources CONFIGURE_DEPENDS "${tmh_libitm_folder}/*.cpp")
add_library(tmh_itm SHARED ${tmh_libitm_sources} "${tmh_libitm_folder}/begin_x86_64.S")
target_include_directories(tmh_itm PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
target_compile_features(tmh_itm PRIVATE cxx_std_20)
target_compile_options(tmh_itm PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TMH_CODE_FLAGS}>)
# libtmh's objects are part of it, and hidden: a program may use libtmh, too.
target_link_libraries(tmh_itm PRIVATE tmh_warnings tmh_usdt tmh_static ${CMAKE_DL_LIBS})
# clang warns of what an assembler does not need.
set_source_files_properties("${tmh_libitm_folder}/begin_x86_64.S" PROPERTIES COMPILE_OPTIONS
  "$<$<CXX_COMPILER_ID:Clang>:-Wno-unused-command-line-argument>")
# nodelete: threads' keys and handlers of fork() point into the code. now: as libtmh.
target_link_options(tmh_itm PRIVATE
  "LINKER:--version-script=${tmh_libitm_folder}/libitm.map" LINKER:-z,defs LINKER:-z,nodelete
  LINKER:-z,now)
set_target_properties(tmh_itm PROPERTIES OUTPUT_NAME itm SOVERSION 1
  LINK_DEPENDS "${tmh_libitm_folder}/libitm.map"
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/libtmh-itm" POSITION_INDEPENDENT_CODE ON)
# A load's way to a line other than the last one begins on a cache line of its own: where both ways
# share one, the processor's branch predictor keeps too few of their branches (measured: two threads
# read a list a third slower).
set_source_files_properties("${tmh_libitm_folder}/barriers.cpp" PROPERTIES COMPILE_OPTIONS
  "$<$<CXX_COMPILER_ID:GNU>:-falign-jumps=64>")

# The engine of method pages, with malloc() and threads of its own: loaded before the program.
set(tmh_process_folder "${PROJECT_SOURCE_DIR}/levels/process")
file(GLOB tmh_pages_sources CONFIGURE_DEPENDS "${tmh_process_folder}/*.cpp"
  "${tmh_process_folder}/ground/*.cpp" "${tmh_process_folder}/heap/*.cpp"
  "${tmh_libitm_folder}/tasks/*.cpp" "${tmh_libitm_folder}/tasks/*.S"
  "${tmh_libitm_folder}/calls/*.cpp" "${tmh_libitm_folder}/pages/*.cpp")
add_library(tmh_itm_pages SHARED ${tmh_pages_sources} "${tmh_libitm_folder}/own_new.cpp")
target_include_directories(tmh_itm_pages PRIVATE "${PROJECT_SOURCE_DIR}/include"
  "${PROJECT_SOURCE_DIR}")
target_compile_features(tmh_itm_pages PRIVATE cxx_std_20)
target_compile_options(tmh_itm_pages PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TMH_CODE_FLAGS}>)
target_link_libraries(tmh_itm_pages PRIVATE tmh_warnings tmh_usdt tmh_static ${CMAKE_DL_LIBS})
target_link_options(tmh_itm_pages PRIVATE
  "LINKER:--version-script=${tmh_libitm_folder}/pages/pages.map" LINKER:-z,defs LINKER:-z,nodelete
  LINKER:-z,now)
set_target_properties(tmh_itm_pages PROPERTIES OUTPUT_NAME tmh-itm-pages
  LINK_DEPENDS "${tmh_libitm_folder}/pages/pages.map"
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/libtmh-itm" POSITION_INDEPENDENT_CODE ON)
