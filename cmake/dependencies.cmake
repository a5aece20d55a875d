# Everything from outside, found once. libtmh itself needs Boost headers (offset_ptr) and threads,
# nothing else; hwloc and libpfm4 are for tools, tests and benches.
find_package(Boost 1.81 REQUIRED)
find_package(Threads REQUIRED)

# The packages python3-* are for the distribution's Python. Another one that PATH names first lacks
# them.
if(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()

# One header: the library's object files get probes from it, its users need it not.
set(TMH_HAVE_SDT 0)
if(TMH_USDT_PROBES)
  tmh_look_again(TMH_SDT_INCLUDE_DIR sys/sdt.h)
  find_path(TMH_SDT_INCLUDE_DIR sys/sdt.h)
  mark_as_advanced(TMH_SDT_INCLUDE_DIR)
  if(TMH_SDT_INCLUDE_DIR)
    set(TMH_HAVE_SDT 1)
  endif()
  tmh_optional("USDT probes" TMH_HAVE_SDT "systemtap-sdt-dev is missing")
else()
  tmh_optional("USDT probes" TMH_HAVE_SDT "TMH_USDT_PROBES is OFF")
endif()
# For every target whose sources include observe/probes.h.
add_library(tmh_usdt INTERFACE)
target_compile_definitions(tmh_usdt INTERFACE TMH_HAVE_SDT=${TMH_HAVE_SDT})
if(TMH_HAVE_SDT)
  target_include_directories(tmh_usdt SYSTEM INTERFACE "${TMH_SDT_INCLUDE_DIR}")
endif()

if(TMH_BUILD_RTM_EMULATION)
  find_package(zydis QUIET)  # may be missing: the emulator is then not built
endif()

if(TMH_BUILD_TESTS OR TMH_BUILD_BENCH OR TMH_BUILD_EXAMPLES OR TMH_BUILD_TOOLS)
  find_package(fmt REQUIRED)
  find_package(CLI11 REQUIRED)
endif()

if(TMH_BUILD_TESTS OR TMH_BUILD_BENCH OR TMH_BUILD_TOOLS)
  find_package(nlohmann_json REQUIRED)
endif()

if(TMH_BUILD_TESTS OR TMH_BUILD_BENCH OR TMH_BUILD_TOOLS)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
endif()

if(TMH_BUILD_TOOLS)
  find_path(LIBPFM_INCLUDE_DIR perfmon/pfmlib.h REQUIRED)  # it has no pkg-config file
  find_library(LIBPFM_LIBRARY pfm REQUIRED)
  mark_as_advanced(LIBPFM_INCLUDE_DIR LIBPFM_LIBRARY)
  add_library(tmh_libpfm INTERFACE)
  target_include_directories(tmh_libpfm SYSTEM INTERFACE "${LIBPFM_INCLUDE_DIR}")
  target_link_libraries(tmh_libpfm INTERFACE "${LIBPFM_LIBRARY}")
endif()

if(TMH_BUILD_BENCH)
  # Opponents of bench/durable_commit. Each may be missing: the bench then says so.
  tmh_check_module(LMDB lmdb)
  tmh_check_module(SQLITE sqlite3)
  tmh_look_again(BERKELEY_DB_INCLUDE_DIR db.h)
  tmh_look_again(BERKELEY_DB_LIBRARY)
  find_path(BERKELEY_DB_INCLUDE_DIR db.h)  # it has no pkg-config file
  find_library(BERKELEY_DB_LIBRARY NAMES db-5.3 db)
  mark_as_advanced(BERKELEY_DB_INCLUDE_DIR BERKELEY_DB_LIBRARY)
  set(BERKELEY_DB_FOUND FALSE)
  if(BERKELEY_DB_INCLUDE_DIR AND BERKELEY_DB_LIBRARY)
    set(BERKELEY_DB_FOUND TRUE)
  endif()
  tmh_optional("Berkeley DB (bench)" BERKELEY_DB_FOUND "libdb5.3-dev is missing")
  tmh_optional("LMDB (bench)" LMDB_FOUND "liblmdb-dev is missing")
  tmh_optional("SQLite (bench)" SQLITE_FOUND "libsqlite3-dev is missing")
endif()

if(TMH_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(absl QUIET)  # may be missing: kill_containers_test then skips its containers
  if(NOT TARGET absl::btree)
    message(STATUS "Abseil's containers are not tested: it is missing (Debian: libabsl-dev)")
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # Debian's rapidcheckConfig.cmake computes a wrong prefix (/usr/lib for /usr), so that its targets
  # name files that do not exist; hence by hand.
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  find_path(RAPIDCHECK_INCLUDE_DIR rapidcheck.h REQUIRED)
  add_library(tmh_rapidcheck INTERFACE)
  target_include_directories(tmh_rapidcheck SYSTEM INTERFACE "${RAPIDCHECK_INCLUDE_DIR}")
  target_link_libraries(tmh_rapidcheck INTERFACE "${RAPIDCHECK_LIBRARY}")
endif()
