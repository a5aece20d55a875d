# cmake --install: headers, libraries, the tmh command, manual pages, the CMake package (find_package(tmh)) and pkg-config files (tmh, xac).
# Everything is found relative to where it lies, so that a prefix can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS tmh tmh_static xac xac_static EXPORT tmh_targets)
if(TMH_HAVE_RTM_EMULATION)
  install(TARGETS tmh_rtm_emulation EXPORT tmh_targets)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(TARGET tmh_tool)
  install(TARGETS tmh_tool)
endif()

file(GLOB tmh_manual_pages RELATIVE "${PROJECT_SOURCE_DIR}/man" "${PROJECT_SOURCE_DIR}/man/*.[1-9]")
foreach(page ${tmh_manual_pages})
  string(REGEX REPLACE ".*\\." "" section "${page}")
  if(NOT section EQUAL 1 OR TARGET tmh_tool)
    install(FILES "${PROJECT_SOURCE_DIR}/man/${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
  endif()
endforeach()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tmh")
install(EXPORT tmh_targets FILE tmh-targets.cmake NAMESPACE tmh:: DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tmh-config.cmake.in" tmh-config.cmake INSTALL_DESTINATION "${package_dir}")
# SameMinorVersion: before 1.0 a minor version may change the interface and the files' format.
write_basic_package_version_file(tmh-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tmh-config.cmake" "${PROJECT_BINARY_DIR}/tmh-config-version.cmake" DESTINATION "${package_dir}")

file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
foreach(package tmh xac)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in" ${package}.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${package}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
