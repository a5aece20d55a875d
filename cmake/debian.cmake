# Debian packages: cpack -G DEB in the build folder makes libtmh0, libtmh-dev, tmh-tools and
# libtmh-itm. What the programs need is found by dpkg-shlibdeps; tests/house/packages.py says what
# must be in them, and installs them in a clean Debian 12.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "tmh's authors <tmh@localhost>")  # no address is published
set(CPACK_PACKAGE_VENDOR tmh)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL libtmh0 libtmh-dev)
if(TARGET tmh_tool)
  list(APPEND CPACK_COMPONENTS_ALL tmh-tools)
endif()
if(TMH_HAVE_LIBITM)
  list(APPEND CPACK_COMPONENTS_ALL libtmh-itm)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)  # no groups: one package per component
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# libxac and libtmh-tp need libtmh, which is in the same package
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

set(CPACK_DEBIAN_LIBTMH0_PACKAGE_NAME libtmh0)
set(CPACK_DEBIAN_LIBTMH0_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBTMH0_DESCRIPTION
    "transactional memory hierarchy, shared libraries\n \
libtmh (C++), libxac, libtmh-tp and libtmh-db (C), and libtmhperf: memory-mapped files as\n \
transactional memory between any number of processes.")

set(CPACK_DEBIAN_LIBTMH-DEV_PACKAGE_NAME libtmh-dev)
set(CPACK_DEBIAN_LIBTMH-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBTMH-DEV_PACKAGE_SHLIBDEPS OFF)  # it holds no program
set(CPACK_DEBIAN_LIBTMH-DEV_PACKAGE_DEPENDS
    "libtmh0 (= ${PROJECT_VERSION}), \
libboost1.81-dev | libboost1.83-dev | libboost1.88-dev | libboost-dev (>= 1.81)")
set(CPACK_COMPONENT_LIBTMH-DEV_DESCRIPTION
    "transactional memory hierarchy, headers and static libraries\n \
Headers, static libraries, CMake package, pkg-config files and manual pages of libtmh.")

set(CPACK_DEBIAN_TMH-TOOLS_PACKAGE_NAME tmh-tools)
set(CPACK_DEBIAN_TMH-TOOLS_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_TMH-TOOLS_DESCRIPTION
    "transactional memory hierarchy, the tmh command\n \
Recovery, checkpoints, backups and inspection of domains; what a machine offers; events of\n \
programs.")

set(CPACK_DEBIAN_LIBTMH-ITM_PACKAGE_NAME libtmh-itm)
set(CPACK_DEBIAN_LIBTMH-ITM_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBTMH-ITM_DESCRIPTION
    "transactional memory hierarchy, a libitm for programs of g++ -fgnu-tm\n \
Runs such programs on transactions by cache lines or by pages; installed beside GCC's libitm,\n \
used by tmh itm.")

# Debian asks for a copyright file per package; an ordinary install has the licence once.
foreach(component ${CPACK_COMPONENTS_ALL})
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${component}" RENAME copyright
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
