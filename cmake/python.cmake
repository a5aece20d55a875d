# The Python package as a user gets it: a wheel in a fresh virtual environment, which links the
# libtmh.a that this build has made. Quick: the build, and the tests that show each feature once.
# Full: a test for each file of the package's tests.
if(TMH_COVERAGE)
  return()  # its numbers would be an interpreter's
endif()
set(tmh_python_tests "${PROJECT_SOURCE_DIR}/bindings/python/tests")
set(tmh_python_folder "${PROJECT_BINARY_DIR}/python")
set(options --folder "${tmh_python_folder}" --cxx "${CMAKE_CXX_COMPILER}"
  "--sanitize=${TMH_SANITIZE}")

# tmh_add_python_test(<name> <labels of the tier> <script of tests/> <argument>...)
function(tmh_add_python_test name labels script)
  add_test(NAME python.${name} COMMAND "${Python3_EXECUTABLE}" -B
    "${tmh_python_tests}/${script}" ${ARGN})
  set_tests_properties(python.${name} PROPERTIES LABELS "${labels};python"
    SKIP_RETURN_CODE 77)
endfunction()

tmh_add_python_test(package quick in_fresh_environment.py build ${options}
  --built "$<TARGET_FILE_DIR:tmh_static>")
set_tests_properties(python.package PROPERTIES FIXTURES_SETUP python_package)
tmh_add_python_test(quick quick in_fresh_environment.py run ${options} --quick)
tmh_add_python_test(dying_test_is_named quick dying_test_is_named.py "${tmh_python_folder}"
  --cxx "${CMAKE_CXX_COMPILER}" "--sanitize=${TMH_SANITIZE}")
set(in_package python.quick python.dying_test_is_named)

# What python -m tmh.bench compares with: the test of the bench finds out what is installed.
tmh_add_python_test(opponents "full;details" in_fresh_environment.py add ${options})
set_tests_properties(python.opponents PROPERTIES FIXTURES_REQUIRED python_package
  FIXTURES_SETUP python_opponents)

file(GLOB files CONFIGURE_DEPENDS "${tmh_python_tests}/test_*.py")
foreach(file ${files})
  get_filename_component(name "${file}" NAME)
  string(REGEX REPLACE "^test_(.*)[.]py$" "\\1" test "${name}")
  tmh_add_python_test(${test} "full;details" in_fresh_environment.py run ${options} ${name})
  list(APPEND in_package python.${test})
endforeach()
set_tests_properties(${in_package} PROPERTIES FIXTURES_REQUIRED python_package)
set_tests_properties(python.examples PROPERTIES FIXTURES_REQUIRED
  "python_package;python_opponents")
