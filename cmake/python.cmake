# The Python package as a user gets it: a wheel in a fresh virtual environment, and a test for each
# file of its tests. The wheel links the libtmh.a that this build has made.
if(TMH_COVERAGE)
  return()  # its numbers would be an interpreter's
endif()
set(script "${PROJECT_SOURCE_DIR}/bindings/python/tests/in_fresh_environment.py")
set(options --folder "${PROJECT_BINARY_DIR}/python" --cxx "${CMAKE_CXX_COMPILER}"
  "--sanitize=${TMH_SANITIZE}")
add_test(NAME python.package COMMAND "${Python3_EXECUTABLE}" -B "${script}" build ${options}
  --built "$<TARGET_FILE_DIR:tmh_static>")
set_tests_properties(python.package PROPERTIES LABELS "full;python;details"
  SKIP_RETURN_CODE 77 FIXTURES_SETUP python_package)
file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bindings/python/tests/test_*.py")
foreach(file ${files})
  get_filename_component(name "${file}" NAME)
  string(REGEX REPLACE "^test_(.*)[.]py$" "python.\\1" test "${name}")
  add_test(NAME ${test} COMMAND "${Python3_EXECUTABLE}" -B "${script}" run ${options} "${name}")
  set_tests_properties(${test} PROPERTIES LABELS "full;python;details"
    SKIP_RETURN_CODE 77 FIXTURES_REQUIRED python_package)
endforeach()
