# Everything from outside, found once. libtmh itself needs Boost headers (offset_ptr) and threads, nothing else;
# hwloc and libpfm4 are for tools, tests and benches.
find_package(Boost 1.81 REQUIRED)
find_package(Threads REQUIRED)

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
  find_package(benchmark REQUIRED)
  # Opponents of bench/durable_commit. Each may be missing: the bench then says so.
  pkg_check_modules(LMDB IMPORTED_TARGET lmdb)
  pkg_check_modules(SQLITE IMPORTED_TARGET sqlite3)
  find_path(BERKELEY_DB_INCLUDE_DIR db.h)  # it has no pkg-config file
  find_library(BERKELEY_DB_LIBRARY NAMES db-5.3 db)
  mark_as_advanced(BERKELEY_DB_INCLUDE_DIR BERKELEY_DB_LIBRARY)
endif()

if(TMH_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(absl QUIET)  # may be missing: kill_containers_test then skips its containers
  if(NOT TARGET absl::btree)
    message(STATUS "Abseil's containers are not tested: it is missing (Debian: libabsl-dev)")
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # Debian's rapidcheckConfig.cmake computes a wrong prefix (/usr/lib for /usr), so that its targets name files that do
  # not exist; hence by hand.
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  find_path(RAPIDCHECK_INCLUDE_DIR rapidcheck.h REQUIRED)
  add_library(tmh_rapidcheck INTERFACE)
  target_include_directories(tmh_rapidcheck SYSTEM INTERFACE "${RAPIDCHECK_INCLUDE_DIR}")
  target_link_libraries(tmh_rapidcheck INTERFACE "${RAPIDCHECK_LIBRARY}")
endif()
