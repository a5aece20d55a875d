# cmake --install: headers, libraries, the tmh command, manual pages, the CMake package
# (find_package(tmh)) and pkg-config files (tmh, xac, tmh-tp, tmh-db, tmhperf). Everything is found
# relative to where it lies, so that a prefix can be moved.
# Four components, which are the Debian packages of cpack -G DEB: libtmh0 (shared libraries),
# libtmh-dev, tmh-tools, libtmh-itm.
include(CMakePackageConfigHelpers)

set(to_runtime COMPONENT libtmh0)
set(to_dev COMPONENT libtmh-dev)
set(to_tools COMPONENT tmh-tools)

install(TARGETS tmh tmh_static xac xac_static tmh-tp tmh-tp_static tmh-db tmh-db_static
        EXPORT tmh_targets
        LIBRARY ${to_runtime} NAMELINK_COMPONENT libtmh-dev ARCHIVE ${to_dev})
if(TARGET tmhperf)
  install(TARGETS tmhperf EXPORT tmh_targets LIBRARY ${to_runtime} NAMELINK_COMPONENT libtmh-dev)
endif()
if(TMH_HAVE_RTM_EMULATION)
  install(TARGETS tmh_rtm_emulation EXPORT tmh_targets LIBRARY ${to_runtime}
    NAMELINK_COMPONENT libtmh-dev)
endif()
if(TMH_HAVE_LIBITM)  # no program links with them: it names GCC's, and runs on these
  install(TARGETS tmh_itm tmh_itm_pages LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/libtmh-itm"
    COMPONENT libtmh-itm NAMELINK_SKIP)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" ${to_dev} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" ${to_runtime})
if(TARGET tmh_tcl)
  install(TARGETS tmh_tcl LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/libtmh-tcl" ${to_tools})
  install(FILES "${PROJECT_BINARY_DIR}/tcl-install/pkgIndex.tcl"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/tcltk/tp" ${to_tools})
endif()
if(TARGET tmh_tool)
  install(TARGETS tmh_tool RUNTIME ${to_tools})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/schema/"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/tmh/schema" ${to_tools} FILES_MATCHING PATTERN "*.json")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/bpftrace/"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/tmh/bpftrace" ${to_tools} FILES_MATCHING PATTERN "*.bt")
  install(FILES "${PROJECT_BINARY_DIR}/tmh-completion.bash"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
    RENAME tmh ${to_tools})
endif()

file(GLOB tmh_manual_pages RELATIVE "${PROJECT_SOURCE_DIR}/docs/man"
  "${PROJECT_SOURCE_DIR}/docs/man/*.[1-9]")
foreach(page ${tmh_manual_pages})
  string(REGEX REPLACE ".*\\." "" section "${page}")
  set(component ${to_dev})
  if(section EQUAL 1)
    set(component ${to_tools})
  endif()
  if(NOT section EQUAL 1 OR TARGET tmh_tool)
    install(FILES "${PROJECT_SOURCE_DIR}/docs/man/${page}"
      DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}" ${component})
  endif()
endforeach()

install(FILES "${PROJECT_SOURCE_DIR}/tools/gdb/tmh.py"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/tmh/gdb" ${to_dev})

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tmh")
install(EXPORT tmh_targets FILE tmh-targets.cmake NAMESPACE tmh::
  DESTINATION "${package_dir}" ${to_dev})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tmh-config.cmake.in" tmh-config.cmake
  INSTALL_DESTINATION "${package_dir}")
# SameMinorVersion: before 1.0 a minor version may change the interface and the files' format.
write_basic_package_version_file(tmh-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tmh-config.cmake"
  "${PROJECT_BINARY_DIR}/tmh-config-version.cmake" DESTINATION "${package_dir}" ${to_dev})

file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
set(pc_files tmh xac tmh-tp tmh-db)
if(TARGET tmhperf)
  list(APPEND pc_files tmhperf)
endif()
foreach(package ${pc_files})
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in" ${package}.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${package}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${to_dev})
endforeach()

if(PROJECT_IS_TOP_LEVEL)
  include(debian)
endif()
