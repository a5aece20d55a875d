# bindings/tcl: the package tp, where Tcl 8.6 is found. It is linked with Tcl's stubs: no other
# package needs Tcl because of it.
tmh_look_again(TMH_TCL_INCLUDE_DIR tcl.h)
tmh_look_again(TMH_TCL_STUB_LIBRARY)
find_path(TMH_TCL_INCLUDE_DIR tcl.h PATH_SUFFIXES tcl8.6)
find_library(TMH_TCL_STUB_LIBRARY tclstub8.6)
mark_as_advanced(TMH_TCL_INCLUDE_DIR TMH_TCL_STUB_LIBRARY)
set(TMH_HAVE_TCL FALSE)
if(TMH_TCL_INCLUDE_DIR AND TMH_TCL_STUB_LIBRARY)
  set(TMH_HAVE_TCL TRUE)
endif()
tmh_optional("Tcl package" TMH_HAVE_TCL "tcl8.6-dev is missing")
if(NOT TMH_HAVE_TCL)
  return()
endif()
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bindings/tcl/*.cpp")
add_library(tmh_tcl MODULE ${sources})
set(TMH_TCL_VERSION ${PROJECT_VERSION})
set_target_properties(tmh_tcl PROPERTIES OUTPUT_NAME tmh-tcl INSTALL_RPATH "$ORIGIN/.."
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/libtmh-tcl")
target_include_directories(tmh_tcl PRIVATE "${PROJECT_SOURCE_DIR}")
target_include_directories(tmh_tcl SYSTEM PRIVATE "${TMH_TCL_INCLUDE_DIR}")
target_compile_definitions(tmh_tcl PRIVATE USE_TCL_STUBS TMH_TCL_VERSION="${TMH_TCL_VERSION}")
target_link_libraries(tmh_tcl PRIVATE tmh_warnings tmh-db tmh-tp "${TMH_TCL_STUB_LIBRARY}"
  ${CMAKE_DL_LIBS})
# Worker threads, and databases, are there until the process ends.
target_link_options(tmh_tcl PRIVATE LINKER:-z,nodelete)
set(index "${PROJECT_SOURCE_DIR}/bindings/tcl/pkgIndex.tcl.in")
set(TMH_TCL_FOLDER ".")
configure_file("${index}" "${PROJECT_BINARY_DIR}/libtmh-tcl/pkgIndex.tcl" @ONLY)
# Tcl looks in share/tcltk.
file(RELATIVE_PATH TMH_TCL_FOLDER "/${CMAKE_INSTALL_DATADIR}/tcltk/tp"
  "/${CMAKE_INSTALL_LIBDIR}/libtmh-tcl")
configure_file("${index}" "${PROJECT_BINARY_DIR}/tcl-install/pkgIndex.tcl" @ONLY)
