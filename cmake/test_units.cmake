# Files of tests that are compiled together (cmake/units.cmake). Most lie in the namespace
# tmh::test.
set(TMH_TEST_UNITS
  "bad_input pools multi_pools"
  "bad_calls options"
  "kill_durable_regressions kill_heap kill_data_sync"
  "kill_regressions kill_checkpoint kill_counters kill_repair kill_restoration"
  "kill_segments kill_steps kill_recovery kill_turn"
  "kill_hybrid_recovery hybrid_death kill_line kill_containers kill_domain"
  "kill_heirs kill_random"
  "durable hostile_places policy_change second_open"
  "hybrid_durable map_segments refused_open larger_than_memory"
  "thread_views thread_durability"
  "hybrid hybrid_crossing"
  "heap multi_field_trees"
  "allocator multi_trees"
  "multi_allocator cobtree"
  "heap_conflict bptree"
  "checker multi_support multi_stalls"
  "multi_structures thread_history"
  "libxac libxac_figures libxac_addresses libxac_isolation"
  "line_software line_capacity line_threads line_property"
  "multi_semantics semantics stray_access semantics_signals cut_files"
  "multi_isolation semantics_segments multi_versions policies multi_rulings"
  "many_areas readahead core_dump standard_files fault_ring file_mappings"
  "simulated_disk storage_cut power_planted power_mixes"
  "rtm_emulation multi_rtm_emulation rtm_emulation_streams"
  "rtm_emulation_hardware rtm_emulation_traps"
  "rtm_multi rtm rtm_heap"
  "recovery fuzz_control own_files"
  "disk_faults log_reader log_format latency crc32c"
  "disk_full log_damage log_handover archive irregular_files"
  "replaced_files segment_files home full_disk_sizes"
  "tool tool_run tool_doctor tool_rtm_emulation"
  "tool_top tool_kill_stuck tool_corpus tool_page_checksums tool_trace"
  "tool_skew skew_analysis"
  "tool_stat tool_check tool_damage tool_latency tool_copy json_schema"
  "perf_encoding tool_perf perf_counters tool_run_stop tool_wait"
  "multi_irrevocable end_of_thread retry attempt_states"
  "site_queries multi_wake")

# tmh_test_units(<target> <source>...): marks the units' files among the target's.
function(tmh_test_units target)
  tmh_compile_in_units(${target})
  foreach(source ${ARGN})
    get_filename_component(stem "${source}" NAME_WE)
    string(REGEX REPLACE "_test$" "" stem "${stem}")
    foreach(unit ${TMH_TEST_UNITS})
      string(REPLACE " " ";" names "${unit}")
      if(stem IN_LIST names)
        list(GET names 0 first)
        set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${first})
      endif()
    endforeach()
  endforeach()
endfunction()
