# cmake -DFOLDER=<folder> -P run_in_fresh_folder.cmake -- <program> [args]: empties the folder and
# runs the program in it.
set(command "")
set(seen_dashes FALSE)
foreach(index RANGE 1 ${CMAKE_ARGC})
  if(seen_dashes AND index LESS CMAKE_ARGC)
    list(APPEND command "${CMAKE_ARGV${index}}")
  elseif("${CMAKE_ARGV${index}}" STREQUAL "--")
    set(seen_dashes TRUE)
  endif()
endforeach()
file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
execute_process(COMMAND ${command} WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE result)
if(result EQUAL 77)  # the program said why it cannot run here
  message("[  SKIPPED ]")
elseif(NOT result EQUAL 0)
  message(FATAL_ERROR "${command}: ${result}")
endif()
file(REMOVE_RECURSE "${FOLDER}")  # kept after a failure, for a look at it
