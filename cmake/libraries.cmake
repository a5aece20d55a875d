# libtmh, libxac, libtmh-tp, libtmh-db and libtmhperf, shared and static. tmh::tmh, tmh::xac,
# tmh::tp, tmh::db and tmh::perf are the shared ones, tmh::tmh_static, tmh::xac_static,
# tmh::tp_static, tmh::db_static and (inside this project only) tmh::perf_static the static ones;
# inside this project and after find_package(tmh) they have the same names.
set(TMH_LAYERS platform observe storage storage/log storage/heap levels/line levels/lock
  levels/page/shared levels/page/versions levels/page/redo levels/page/publish levels/page/views
  levels/page/touch levels/page hierarchy/exchange hierarchy/threads hierarchy/durability
  hierarchy/watch hierarchy/domain hierarchy/transaction hierarchy/api)
list(TRANSFORM TMH_LAYERS PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE tmh_globs)
list(TRANSFORM tmh_globs APPEND "/*.cpp")
file(GLOB TMH_SOURCES CONFIGURE_DEPENDS ${tmh_globs})
file(GLOB XAC_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/compat/libxac/*.cpp")

# tmh_add_library(<name> SOURCES ...): <name> (shared) and <name>_static from one set of objects.
function(tmh_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  add_library(${name}_objects OBJECT ${arg_SOURCES})
  target_link_libraries(${name}_objects PRIVATE tmh_warnings tmh_usdt
                        Boost::headers Threads::Threads)
  target_include_directories(${name}_objects PRIVATE "${PROJECT_SOURCE_DIR}/include"
    "${PROJECT_SOURCE_DIR}")
  add_library(${name} SHARED $<TARGET_OBJECTS:${name}_objects>)
  add_library(${name}_static STATIC $<TARGET_OBJECTS:${name}_objects>)
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    # libxac finds the libtmh beside it
    INSTALL_RPATH "$ORIGIN")
  set_target_properties(${name} ${name}_static PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX)
  if(NOT TMH_SANITIZE)  # the sanitizers' own symbols come from the program
    # a missing symbol is this library's fault, not its user's
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
  # Signal handlers, handlers of fork() and destructors of threads' keys point into the code for
  # good: dlclose() leaves it where it is. A plugin that holds the static library is in its place.
  target_link_options(${name} PRIVATE LINKER:-z,nodelete)
  set(is_loaded "$<IN_LIST:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY;MODULE_LIBRARY>")
  target_link_options(${name}_static INTERFACE "$<${is_loaded}:LINKER:-z,nodelete>")
  foreach(library ${name} ${name}_static)
    target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    add_library(tmh::${library} ALIAS ${library})
  endforeach()
endfunction()

# How the library's objects are compiled, which make both libraries. Nobody replaces one of its
# functions by another of the same name, so they may be inlined, and are called without the loader's
# table. Thread-local words are at a fixed place: some have to be (signal handlers), and the loader
# then places all of a library's so; without this the others are found by a call. no-gnu-unique: two
# copies of the library in one process (a plugin that holds the static one) would share inline
# objects, thread-local ones, too.
set(TMH_CODE_FLAGS -fno-semantic-interposition -ftls-model=initial-exec
  $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
tmh_add_library(tmh SOURCES ${TMH_SOURCES})
target_compile_options(tmh_objects PRIVATE ${TMH_CODE_FLAGS})
# A unit per room, or per half of a large one, so that several processors have work. Alone: what a
# small instance of level 1 passes through. g++ inlines less in a larger unit: 10 % of its time.
set(tmh_alone
  "/(attempts|line_attempts|site_instance|site_impl|software|software_commit)[.]cpp$")
tmh_compile_in_units(tmh_objects)
if(TMH_UNITS)  # without: house.headers trusts that a source compiles its header alone
  target_precompile_headers(tmh_objects PRIVATE ${TMH_STANDARD_HEADERS})
endif()
foreach(room ${TMH_LAYERS})
  file(GLOB sources "${PROJECT_SOURCE_DIR}/${room}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "${tmh_alone}")
  string(REPLACE "/" "_" unit ${room})
  set(number 0)
  foreach(source ${sources})
    math(EXPR half "${number} / 18")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${unit}_${half})
    math(EXPR number "${number} + 1")
  endforeach()
endforeach()
target_link_options(tmh PRIVATE LINKER:-Bsymbolic-functions)
# now: what runs between XBEGIN and XEND may be called there for the first time; through the loader
#      (XSAVEC) that aborts, every time.
target_link_options(tmh PRIVATE LINKER:-z,now)
foreach(library tmh tmh_static)
  target_compile_features(${library} PUBLIC cxx_std_20)
  target_link_libraries(${library} PUBLIC Boost::headers Threads::Threads)
endforeach()

# PRIVATE: xac.h is plain C, its users need neither our C++ headers nor a C++20 compiler.
tmh_add_library(xac SOURCES ${XAC_SOURCES})
target_link_libraries(xac PRIVATE tmh)
target_link_libraries(xac_static PRIVATE tmh_static)

# PRIVATE likewise: tp.h.
file(GLOB TP_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/compat/libtp/*.cpp"
     "${PROJECT_SOURCE_DIR}/compat/libtp/client/*.cpp")
tmh_add_library(tmh-tp SOURCES ${TP_SOURCES})
target_compile_options(tmh-tp_objects PRIVATE ${TMH_CODE_FLAGS})
tmh_compile_in_units(tmh-tp_objects 20)
target_link_libraries(tmh-tp PRIVATE tmh)
target_link_libraries(tmh-tp_static PRIVATE tmh_static)
foreach(library tmh-tp tmh-tp_static)
  string(REPLACE "tmh-tp" "tp" exported ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${exported})
endforeach()
add_library(tmh::tp ALIAS tmh-tp)
add_library(tmh::tp_static ALIAS tmh-tp_static)

# dbopen() of db(3), apart: nobody gets that name who has not asked for it.
file(GLOB DB_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/compat/libdb/*.cpp"
     "${PROJECT_SOURCE_DIR}/compat/libdb/shared/*.cpp"
     "${PROJECT_SOURCE_DIR}/compat/libdb/server/*.cpp")
tmh_add_library(tmh-db SOURCES ${DB_SOURCES})
target_compile_options(tmh-db_objects PRIVATE ${TMH_CODE_FLAGS})
target_link_libraries(tmh-db PRIVATE tmh tmh-tp)
target_link_libraries(tmh-db_static PRIVATE tmh_static tmh-tp_static)
foreach(library tmh-db tmh-db_static)
  string(REPLACE "tmh-db" "db" exported ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${exported})
endforeach()
add_library(tmh::db ALIAS tmh-db)
add_library(tmh::db_static ALIAS tmh-db_static)

# A library of its own, so that only who counts events depends on libpfm4.
if(TMH_BUILD_TOOLS)
  file(GLOB PERF_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/observe/perf/*.cpp")
  tmh_add_library(tmhperf SOURCES ${PERF_SOURCES})
  target_link_libraries(tmhperf_objects PRIVATE tmh_libpfm)
  target_link_libraries(tmhperf PUBLIC tmh PRIVATE tmh_libpfm)
  target_link_libraries(tmhperf_static PUBLIC tmh_static tmh_libpfm)
  set_target_properties(tmhperf PROPERTIES EXPORT_NAME perf)
  add_library(tmh::perf ALIAS tmhperf)
  add_library(tmh::perf_static ALIAS tmhperf_static)
endif()
